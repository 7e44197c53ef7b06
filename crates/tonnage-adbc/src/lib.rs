//! DuckDB, as one file, through its ADBC driver.
//!
//! - One process at a time may have a file open for writing, and within a process it is opened once (`connection`).
//! - Every connection lives on a thread of its own; nothing blocks the async pool.
//! - DuckDB's concurrency is optimistic: it refuses what conflicts, and never waits. So there is one lane, and whoever changes
//!   the file holds its gate until the transaction has ended.
//! - Rows go into a temporary table by bulk ingest, and from there by one statement (`writer`). A statement that fails undoes
//!   its transaction, and there are no savepoints: bad rows are found by queries, or by halves (`checks`).
//! - Nothing is rewritten: what a cast would change in silence is a rejected row (`encode`), and a type that cannot be
//!   carried exactly is refused by name (`types`).
//! - The ledger is in the file and moves in the transactions that carry the rows (`ledger`). After a SIGKILL the write-ahead
//!   log that is left has what was committed, and nothing else.
//! - Looking does not make a file: only [`Target::create`] and a statement of the user's do.
//! - A table's identity is its name and a generation, as DuckDB's object ids last no longer than a process (`catalog`).

mod apply;
mod catalog;
mod checks;
mod connection;
mod decode;
mod encode;
mod errors;
mod execute;
mod getter;
mod ledger;
mod location;
mod reader;
mod scan;
mod sql;
mod types;
mod writer;

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use tonnage_core::{
    driver::Driver,
    error::{Error, Result},
    extent::Extent,
    getter::{GetRequest, Getter, ReadSnapshot},
    ledger::{Ledger, RunHandle},
    operation::{Durability, Method, Operation, Support},
    password::Password,
    preparation::{Preparation, PreparationEffects},
    reader::{ScanRequest, Snapshot},
    schema::Additions,
    statement::{Dialect, Statement},
    table::{ColumnSpec, ForeignKey, Table, TableName, TableSpec},
    target::{
        Capabilities, CommitTimes, KeyPart, Lookup, Parts, Prepare, Relations, Rows, Scan, Statements,
        Target, WriteRequest, Writer,
    },
    types::ColumnType,
};
use tonnage_sql::ledger::SqlLedger;

use self::{
    checks::KEY_EXISTS,
    connection::Connection,
    errors::failed,
    getter::{DuckGetter, DuckReadSnapshot},
    ledger::{Database, Missing},
    location::Location,
    writer::DuckWriter,
};

/// DuckDB's line in the registry.
pub const DUCKDB: Driver = Driver {
    name: "DuckDB",
    schemes: &["duckdb"],
    example: "duckdb:path.duckdb",
    extensions: &["duckdb", "ddb"],
    keywords: &[],
    operations: &["insert", "upsert", "ignore", "update", "delete", "statement"],
    methods: &[Method::Native, Method::Array, Method::Batch, Method::Single],
    native: "bulk ingest in Arrow's form into a temporary table, and one statement from there",
    durability: &[Durability::Durable],
    declares: |ty| Some(types::declared(&ty)),
    verified: "DuckDB 1.5",
    passwords: false,
    connect,
    redact: location::redact,
    files: location::files,
};

fn connect(url: &str, password: Option<Password>) -> BoxFuture<'_, Result<Arc<dyn Target>>> {
    Box::pin(async move {
        let target: Arc<dyn Target> = Arc::new(DuckTarget::connect(url, password).await?);
        Ok(target)
    })
}

/// Rows of a write: whole row groups. Rows of whole groups go into the file compressed; what is less goes through the log,
/// and is compressed anew with each checkpoint, which takes three times the processor time (rows of TPC-H's lineitem).
const BATCH_ROWS: usize = 2 * 122_880;

/// Bytes of a write: what holds that many rows of some 270 bytes.
const BATCH_BYTES: usize = 64 << 20;

/// A DuckDB file, which need not be there yet.
pub struct DuckTarget {
    capabilities: Capabilities,
    /// The ledger, whose connection is the catalogue's as well.
    ledger: SqlLedger<Database>,
}

impl DuckTarget {
    /// Opens the file at `duckdb:path.duckdb`, `duckdb:///absolute/path.duckdb` or a bare path, if there is one. Options of the
    /// URL are DuckDB's, but for `driver`, the path of its library, and `entrypoint`.
    ///
    /// # Errors
    ///
    /// `Config` where the URL is wrong, the directory is missing, the file is no DuckDB database, or DuckDB's library is not
    /// found; `Refused` where another process has the file open.
    pub async fn connect(url: &str, password: Option<Password>) -> Result<Self> {
        let location = Location::parse(url, password.as_ref())?;
        if location.file.is_none() {
            return Err(Error::config(format!("{} is no DuckDB file", location.shown()))
                .hint("write duckdb:path.duckdb"));
        }
        let database = Database::new(location);
        let version = database
            .run(|control| match control.existing()? {
                None => Ok(None),
                Some(connection) => {
                    let answer = connection.query("SELECT version()", None).map_err(failed)?;
                    let row = answer.iter().find(|batch| batch.num_rows() > 0);
                    let texts = row.map(|row| connection::texts(row, 0)).transpose()?;
                    Ok(texts.and_then(|texts| texts.into_iter().next().flatten()))
                }
            })
            .await?;
        Ok(Self {
            capabilities: Capabilities {
                product: match version {
                    Some(version) => format!("DuckDB {}", version.trim_start_matches('v')),
                    None => "DuckDB".to_owned(),
                },
                writers_max: Some(1),
                durability: DUCKDB.durability,
                methods: DUCKDB.methods,
                text_holds_nul: true,
                partial_dates: false,
                repeats_keys: false,
                batch_rows_default: BATCH_ROWS,
                batch_bytes_default: BATCH_BYTES,
                commits: CommitTimes::Deferred,
                insert_replaces: false,
                says_key_exists: |code| code == KEY_EXISTS,
                own_schema: None,
                array_rows_max: writer::array_rows,
            },
            ledger: SqlLedger(database),
        })
    }

    fn database(&self) -> &Database {
        &self.ledger.0
    }

    /// Does `work` on the file; `absent` where there is none.
    async fn on_existing<T: Send + 'static>(
        &self,
        absent: T,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.database()
            .run(move |control| match control.existing()? {
                None => Ok(absent),
                Some(connection) => work(connection),
            })
            .await
    }

    /// Does `work` on the file, which must be there.
    async fn on_required<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.database()
            .run(move |control| work(control.required()?))
            .await
    }

    /// Runs statements as they are while nobody else changes the file, which is made where it is missing.
    async fn alter(&self, script: String, what: String) -> Result<()> {
        let Some(held) = self.database().hold(Missing::Made).await? else {
            return Err(Error::bug("a file that was made is not there"));
        };
        self.database()
            .run(move |control| {
                // Until it has run, also when nobody waits for it any more.
                let _held = held;
                let ran = control.required()?.run(&script);
                ran.map_err(|failure| failed(failure).at(what))
            })
            .await
    }

    /// Runs statements on a connection of their own, behind the back of everything else: for tests.
    #[doc(hidden)]
    pub async fn behind_its_back(&self, script: &str) -> Result<Option<i64>> {
        let (location, script) = (self.database().location().clone(), script.to_owned());
        let running = tokio::task::spawn_blocking(move || {
            let mut connection = connection::open(&location)?.connect()?;
            let answer = connection.query(&script, None).map_err(failed)?;
            let number = answer.iter().find(|batch| batch.num_rows() > 0);
            let numbers = number.and_then(|batch| connection::numbers(batch, 0).ok());
            Ok(numbers.and_then(|numbers| numbers.first().copied().flatten()))
        });
        running.await.map_err(Error::bug)?
    }
}

#[async_trait]
impl Target for DuckTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn support(&self, _table: &Table, operation: &Operation, method: Method) -> Support {
        match (operation, method) {
            (Operation::Statement { .. }, Method::Native | Method::Array) => Support::No {
                why: "a statement of your own has one row".to_owned(),
                instead: "--method batch; there is no round trip to save".to_owned(),
            },
            _ => Support::Yes,
        }
    }

    async fn table(&self, name: &TableName) -> Result<Option<Table>> {
        let name = name.clone();
        self.on_existing(None, move |connection| catalog::table(connection, &name))
            .await
    }

    async fn table_names(&self) -> Result<Vec<String>> {
        self.on_existing(Vec::new(), catalog::table_names).await
    }

    fn column_type(&self, wanted: ColumnType, extent: &Extent, _: KeyPart) -> ColumnType {
        types::for_values(wanted, extent)
    }

    fn create_statement(&self, spec: &TableSpec) -> Result<String> {
        sql::create_table_with(spec, &Additions::default())
    }

    async fn create(&self, spec: &TableSpec) -> Result<()> {
        let what = format!("table {} cannot be created", spec.name);
        self.alter(self.create_statement(spec)?, what).await
    }

    async fn drop_table(&self, table: &Table, rows: Rows) -> Result<bool> {
        let table = table.clone();
        let drop = move |connection: &mut Connection| catalog::drop_table(connection, &table, rows);
        Ok(self
            .database()
            .transact(Missing::Left, drop)
            .await?
            .unwrap_or(false))
    }

    fn settings(&self, _: Durability) -> Vec<String> {
        vec!["TimeZone = UTC".to_owned()]
    }

    async fn writer(&self, plan: &WriteRequest, run: Option<&RunHandle>) -> Result<Box<dyn Writer>> {
        let location = self.database().location().clone();
        Ok(Box::new(DuckWriter::open(location, plan, run).await?))
    }

    fn ledger(&self) -> &dyn Ledger {
        &self.ledger
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            statements: Some(self),
            scan: Some(self),
            scan_apart: None,
            lookup: Some(self),
            relations: Some(self),
            routes: None,
            separate_databases: None,
            prepare: Some(self),
            unique_keys: None,
            statement_splitting: None,
            local_ledger: None,
            schemas: None,
            instruments: None,
        }
    }
}

#[async_trait]
impl Statements for DuckTarget {
    fn dialect(&self) -> Dialect {
        sql::DIALECT
    }

    async fn describe(&self, statement: &Statement) -> Result<Table> {
        let statement = statement.clone();
        self.on_required(move |connection| execute::describe(connection, &statement))
            .await
    }

    async fn run_script(&self, script: &str) -> Result<()> {
        self.alter(script.to_owned(), "the script".to_owned()).await
    }
}

#[async_trait]
impl Scan for DuckTarget {
    async fn scan(&self, request: &ScanRequest) -> Result<Snapshot> {
        reader::scan(self.database(), request).await
    }
}

#[async_trait]
impl Lookup for DuckTarget {
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>> {
        let location = self.database().location().clone();
        Ok(Box::new(DuckGetter::open(location, None, request).await?))
    }

    async fn read_snapshot(&self, getters: usize) -> Result<Option<Box<dyn ReadSnapshot>>> {
        let snapshot = DuckReadSnapshot::begin(self.database(), getters).await?;
        Ok(snapshot.map(|snapshot| Box::new(snapshot) as Box<dyn ReadSnapshot>))
    }
}

#[async_trait]
impl Relations for DuckTarget {
    async fn foreign_keys(&self, table: &TableName) -> Result<Vec<ForeignKey>> {
        let name = table.clone();
        self.on_existing(Vec::new(), move |connection| {
            catalog::foreign_keys(connection, &name)
        })
        .await
    }
}

#[async_trait]
impl Prepare for DuckTarget {
    async fn truncate(&self, name: &TableName) -> Result<()> {
        let name = name.clone();
        let emptied = move |connection: &mut Connection| ledger::truncate(connection, &name);
        let missing = || Error::schema(format!("{} does not exist", self.database().location().shown()));
        self.database()
            .transact(Missing::Left, emptied)
            .await?
            .ok_or_else(missing)
    }

    async fn check_preparation(&self, table: &Table, preparation: Preparation) -> Result<PreparationEffects> {
        match preparation.option() {
            None => Ok(PreparationEffects::default()),
            Some(option) => Err(Error::config(format!(
                "{option} is not there for DuckDB's table {}",
                table.name
            ))
            .hint("--truncate empties the table and leaves everything else about it as it is")),
        }
    }

    async fn add_columns(&self, table: &Table, columns: &[ColumnSpec]) -> Result<()> {
        let what = format!("no columns can be added to {}", table.name);
        self.alter(sql::add_columns(&table.name, columns)?, what).await
    }
}
