//! Databases of a test's own, seen through their own clients: what tonnage wrote is never read back by tonnage.

use std::{
    cell::RefCell,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread::sleep,
    time::Duration,
};

use adbc_core::{Connection as _, Database as _, Driver as _, Statement as _, options};
use adbc_driver_manager::ManagedDriver;
use arrow::array::{AsArray, RecordBatch};
use mysql_async::{Conn, prelude::Queryable};
use rusqlite::{Connection, types::ValueRef};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use tonnage_testing::duckdb_library;

/// A row as text; none is null.
pub type Row = Vec<Option<String>>;

/// A database that goes away with its test.
pub enum Database {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
    MariaDb(Box<MariaDb>),
    DuckDb(DuckDb),
}

pub struct Sqlite {
    directory: TempDir,
}

/// A file, opened for each use: while it is, no other process can.
pub struct DuckDb {
    directory: TempDir,
}

pub struct Postgres {
    name: String,
    url: String,
    /// Taken only when it is dropped.
    client: Option<Client>,
    runtime: Runtime,
}

pub struct MariaDb {
    name: String,
    url: String,
    /// With a runtime that lives as long.
    conn: RefCell<Option<Conn>>,
    runtime: Runtime,
}

/// A variable that `make test` sets.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run `make test`, which provides it"))
}

fn connect(runtime: &Runtime, url: &str) -> Client {
    let (client, connection) = runtime
        .block_on(tokio_postgres::connect(url, NoTls))
        .expect("the test server answers");
    runtime.spawn(connection);
    client
}

fn open(runtime: &Runtime, url: &str) -> Conn {
    let url = url.replace("mariadb://", "mysql://");
    runtime
        .block_on(Conn::from_url(format!("{url}?prefer_socket=false")))
        .expect("the test server answers")
}

/// `url` with another database.
fn with_database(url: &str, name: &str) -> String {
    let (server, _) = url.rsplit_once('/').expect("the URL names a database");
    format!("{server}/{name}")
}

impl Database {
    pub fn sqlite() -> Self {
        Self::Sqlite(Sqlite {
            directory: tempfile::tempdir().expect("a temporary directory"),
        })
    }

    pub fn postgres() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let url = variable("TONNAGE_TEST_POSTGRES_URL");
        let name = format!(
            "kept_{}_{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let runtime = Runtime::new().expect("a runtime");
        let admin = connect(&runtime, &url);
        runtime
            .block_on(admin.batch_execute(&format!("CREATE DATABASE {name}")))
            .expect("a database of the test's own");
        let url = with_database(&url, &name);
        Self::Postgres(Box::new(Postgres {
            client: Some(connect(&runtime, &url)),
            name,
            url,
            runtime,
        }))
    }

    pub fn mariadb() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let url = variable("TONNAGE_TEST_MARIADB_URL");
        let name = format!(
            "kept_{}_{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let runtime = Runtime::new().expect("a runtime");
        let mut admin = open(&runtime, &url);
        runtime
            .block_on(admin.query_drop(format!("CREATE DATABASE {name} CHARACTER SET utf8mb4")))
            .expect("a database of the test's own");
        let url = with_database(&url, &name);
        Self::MariaDb(Box::new(MariaDb {
            conn: RefCell::new(Some(open(&runtime, &url))),
            name,
            url,
            runtime,
        }))
    }

    /// Apart from the others, as only one process at a time can look at it.
    pub fn duckdb() -> Self {
        Self::DuckDb(DuckDb {
            directory: tempfile::tempdir().expect("a temporary directory"),
        })
    }

    /// One of each server, and SQLite.
    pub fn all() -> Vec<Self> {
        vec![Self::sqlite(), Self::postgres(), Self::mariadb()]
    }

    /// Its name for messages and for exceptions.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
            Self::MariaDb(_) => "MariaDB",
            Self::DuckDb(_) => "DuckDB",
        }
    }

    /// As `tonnage` takes it.
    pub fn url(&self) -> String {
        match self {
            Self::Sqlite(sqlite) => format!("sqlite:{}", sqlite.path().display()),
            Self::Postgres(postgres) => postgres.url.clone(),
            Self::MariaDb(mariadb) => mariadb.url.clone(),
            Self::DuckDb(duckdb) => format!("duckdb:{}?driver={}", duckdb.path().display(), duckdb_library()),
        }
    }

    /// Runs statements.
    pub fn run(&self, sql: &str) {
        match self {
            Self::Sqlite(sqlite) => sqlite.open().execute_batch(sql),
            Self::Postgres(postgres) => {
                let ran = postgres.runtime.block_on(postgres.client().batch_execute(sql));
                return ran.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            }
            Self::MariaDb(mariadb) => {
                for statement in sql.split("; ") {
                    mariadb
                        .rows(statement)
                        .unwrap_or_else(|error| panic!("{statement}: {error:?}"));
                }
                return;
            }
            Self::DuckDb(duckdb) => {
                return duckdb
                    .rows(sql)
                    .map(|_| ())
                    .unwrap_or_else(|error| panic!("{sql}: {error}"));
            }
        }
        .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// Waits until nobody else is connected: sessions of a process that was killed end once they have noticed. Fails after ten minutes.
    pub fn until_alone(&self) {
        let others = match self {
            // It has none.
            Self::Sqlite(_) | Self::DuckDb(_) => return,
            Self::Postgres(_) => {
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                 AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            }
            Self::MariaDb(_) => {
                "SELECT count(*) FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
            }
        };
        for _ in 0..60_000 {
            if self.number(others) == Some(0) {
                return;
            }
            sleep(Duration::from_millis(10));
        }
        panic!("somebody else is connected still");
    }

    /// The rows of a query.
    pub fn rows(&self, sql: &str) -> Vec<Row> {
        self.try_rows(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The first value of a query, a whole number; none where it cannot be asked (yet) or is null.
    pub fn number(&self, sql: &str) -> Option<u64> {
        let rows = self.try_rows(sql).ok()?;
        rows.first()?.first()?.as_deref()?.parse().ok()
    }

    fn try_rows(&self, sql: &str) -> Result<Vec<Row>, String> {
        match self {
            Self::Sqlite(sqlite) => sqlite.rows(sql).map_err(|error| error.to_string()),
            Self::Postgres(postgres) => postgres.rows(sql).map_err(|error| format!("{error:?}")),
            Self::MariaDb(mariadb) => mariadb.rows(sql).map_err(|error| format!("{error:?}")),
            Self::DuckDb(duckdb) => duckdb.rows(&format!("SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({sql})")),
        }
    }
}

impl Sqlite {
    fn path(&self) -> PathBuf {
        self.directory.path().join("test.db")
    }

    /// A connection for one use: none is left open beside the process under test.
    fn open(&self) -> Connection {
        let connection = Connection::open(self.path()).expect("a database file");
        connection
            .busy_timeout(Duration::from_secs(60))
            .expect("a busy timeout");
        connection
    }

    fn rows(&self, sql: &str) -> rusqlite::Result<Vec<Row>> {
        let connection = self.open();
        let mut statement = connection.prepare(sql)?;
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            (0..columns).map(|at| Ok(text(row.get_ref(at)?))).collect()
        })?;
        rows.collect()
    }
}

impl DuckDb {
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("test.duckdb")
    }

    /// The rows of the last statement, whose columns are texts.
    fn rows(&self, sql: &str) -> Result<Vec<Row>, String> {
        let failed = |error: adbc_core::error::Error| error.to_string();
        let entry: Option<&[u8]> = Some(b"duckdb_adbc_init");
        let version = options::AdbcVersion::V110;
        let driver = ManagedDriver::load_dynamic_from_filename(duckdb_library(), entry, version);
        let path = options::OptionDatabase::Other("path".to_owned());
        let named = [(
            path,
            options::OptionValue::String(self.path().display().to_string()),
        )];
        let mut driver = driver.map_err(failed)?;
        // Threads of its own may outlast the database.
        std::mem::forget(driver.clone());
        let database = driver.new_database_with_opts(named).map_err(failed)?;
        let mut connection = database.new_connection().map_err(failed)?;
        let mut statement = connection.new_statement().map_err(failed)?;
        statement.set_sql_query(sql).map_err(failed)?;
        let batches: Result<Vec<RecordBatch>, _> = statement.execute().map_err(failed)?.collect();
        let mut rows = Vec::new();
        for batch in batches.map_err(|error| error.to_string())? {
            let columns: Vec<_> = batch
                .columns()
                .iter()
                .filter_map(|column| column.as_string_opt::<i32>())
                .collect();
            let value = |row: usize| {
                columns
                    .iter()
                    .map(move |column| column.iter().nth(row).flatten().map(str::to_owned))
            };
            rows.extend((0..batch.num_rows()).map(|row| value(row).collect::<Row>()));
        }
        Ok(rows)
    }
}

/// A value as text; a blob as `\x` and hexadecimal digits.
fn text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(format!("{number:?}")),
        ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => {
            let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(format!("\\x{}", digits.concat()))
        }
    }
}

impl Postgres {
    fn client(&self) -> &Client {
        self.client.as_ref().expect("taken only by drop")
    }

    fn rows(&self, sql: &str) -> Result<Vec<Row>, tokio_postgres::Error> {
        let messages = self.runtime.block_on(self.client().simple_query(sql))?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        });
        Ok(rows.collect())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.client = None;
        let admin = connect(&self.runtime, &with_database(&self.url, "postgres"));
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        // A test that has failed already says more than this would.
        let _ = self.runtime.block_on(admin.batch_execute(&drop));
    }
}

impl MariaDb {
    /// Rows as the server's text protocol shows them.
    fn rows(&self, sql: &str) -> Result<Vec<Row>, mysql_async::Error> {
        let mut conn = self.conn.borrow_mut();
        let conn = conn.as_mut().expect("taken only by drop");
        let rows: Vec<mysql_async::Row> = self.runtime.block_on(conn.query(sql))?;
        let text = |value: mysql_async::Value| match value {
            mysql_async::Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        };
        Ok(rows
            .into_iter()
            .map(|row| row.unwrap().into_iter().map(text).collect())
            .collect())
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        // A test that has failed already says more than a failure here would.
        let _ = self.rows(&format!("DROP DATABASE {}", self.name));
        if let Some(conn) = self.conn.borrow_mut().take() {
            let _ = self.runtime.block_on(conn.disconnect());
        }
    }
}
