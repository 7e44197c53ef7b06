//! A working directory and a database of its own for one test, and the program run in it.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use mysql_async::{Conn, Value as Cell, prelude::Queryable};
use tempfile::TempDir;
use tokio_postgres::{NoTls, SimpleQueryMessage, error::SqlState};

/// Which database a test runs against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    Sqlite,
    Postgres,
    MariaDb,
}

pub const BOTH: &[Database] = &[Database::Sqlite, Database::Postgres];
pub const ALL: &[Database] = &[Database::Sqlite, Database::Postgres, Database::MariaDb];

/// What a run of the program said, without what differs from run to run.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    /// Standard output as it was.
    pub stdout_exact: String,
    pub stderr: String,
}

/// A directory and an empty database, both gone when it is dropped.
pub struct TestDatabase {
    pub database: Database,
    directory: TempDir,
    /// The database's name on its server.
    pub name: String,
}

impl TestDatabase {
    pub fn new(database: Database) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("it_{}_{number}", std::process::id());
        if database == Database::Postgres {
            postgres(&server().url("postgres"), &format!("CREATE DATABASE {name}"));
        }
        if database == Database::MariaDb {
            mariadb(&mariadb_url("tonnage"), &format!("CREATE DATABASE {name}"));
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self {
            database,
            directory,
            name,
        }
    }

    /// A place with tables and files in it.
    pub fn with(database: Database, sql: &str, files: &[(&str, &str)]) -> Self {
        let place = Self::new(database);
        if !sql.is_empty() {
            place.sql(sql);
        }
        for (name, text) in files {
            place.write(name, text);
        }
        place
    }

    /// A name that no other place has.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a directory");
        fs::write(path, content).expect("a file");
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn read_bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// What `{db}` stands for in arguments.
    pub fn url(&self) -> String {
        match self.database {
            Database::Sqlite => "shop.db".to_owned(),
            Database::Postgres => server().url(&self.name),
            Database::MariaDb => mariadb_url(&self.name),
        }
    }

    /// Runs statements; the rows of the queries among them, `|` between values and `-` for null.
    pub fn sql(&self, sql: &str) -> Vec<String> {
        match self.database {
            Database::Sqlite => sqlite(&self.path("shop.db"), sql),
            Database::Postgres => postgres(&self.url(), sql),
            Database::MariaDb => mariadb(&self.url(), sql),
        }
    }

    /// Runs the program. Arguments are cut at blanks but for those 'in quotes'; `{db}` is the database,
    /// `{server}` the server's host and port, `{name}` the database's name there.
    pub fn run(&self, arguments: &str) -> Ran {
        self.run_with(arguments, &[], b"")
    }

    pub fn run_with(&self, arguments: &str, environment: &[(&str, &str)], input: &[u8]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tonnage"));
        command
            .args(self.arguments(arguments))
            .current_dir(self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (variable, _) in std::env::vars_os() {
            let name = variable.to_string_lossy();
            if name.starts_with("PG") || name.starts_with("MYSQL") {
                command.env_remove(variable);
            }
        }
        command
            .env("HOME", self.directory.path())
            .env("COLUMNS", "100")
            .env_remove("RUST_LOG")
            .envs(environment.iter().map(|(name, value)| (name, self.filled(value))));
        let mut child = command.spawn().expect("the program starts");
        let mut pipe = child.stdin.take().expect("a pipe to the program");
        let written = std::thread::scope(|scope| {
            let writing = scope.spawn(move || pipe.write_all(input));
            let output = child.wait_with_output().expect("the program ends");
            (writing.join().expect("the writer ends"), output)
        });
        // A program that fails early does not read all of its input.
        let output = written.1;
        Ran {
            code: output.status.code(),
            stdout_exact: String::from_utf8_lossy(&output.stdout).into_owned(),
            stdout: self.steady(&String::from_utf8_lossy(&output.stdout)),
            stderr: self.steady(&String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// Runs the program in a shell that limits the size of files, in KiB, as a disk that is full does, but that the
    /// write fails with a code of its own; what it told of that.
    pub fn run_cramped(&self, kibibytes: u32, arguments: &str) -> String {
        let program = env!("CARGO_BIN_EXE_tonnage");
        let command = format!("trap '' XFSZ; ulimit -f {kibibytes}; exec {program} {arguments}");
        let ran = Command::new("bash")
            .args(["--noprofile", "--norc", "-c", &command])
            .current_dir(self.directory.path())
            .output()
            .expect("bash starts");
        let told = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{arguments}: {told}");
        told
    }

    /// The names in a directory, in order, but for those of the database's own files.
    pub fn files(&self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(directory)).expect("the directory is there");
        let mut names: Vec<_> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .filter(|name| !name.starts_with("shop.db"))
            .collect();
        names.sort();
        names
    }

    /// Runs a load that must succeed; its report.
    pub fn load(&self, arguments: &str) -> serde_json::Value {
        self.load_with(arguments, b"")
    }

    pub fn load_with(&self, arguments: &str, input: &[u8]) -> serde_json::Value {
        let ran = self.run_with(&format!("load {arguments} --report -"), &[], input);
        assert_eq!(ran.code, Some(0), "load {arguments}\n{}", ran.stderr);
        let report = serde_json::from_str(&ran.stdout_exact).expect("the report is JSON");
        assert_balanced(&report);
        report
    }

    /// Host and port.
    fn server(&self) -> String {
        match self.database {
            Database::MariaDb => {
                let url = mariadb_url("");
                let (_, address) = url.rsplit_once('@').expect("a URL with a user");
                address.trim_end_matches('/').to_owned()
            }
            _ => server().address,
        }
    }

    fn arguments(&self, line: &str) -> Vec<String> {
        let mut arguments = Vec::new();
        for (index, part) in line.split('\'').enumerate() {
            match index % 2 {
                0 => arguments.extend(part.split_whitespace().map(|word| self.filled(word))),
                _ => arguments.push(self.filled(part)),
            }
        }
        arguments
    }

    fn filled(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if text.contains("{db}") {
            text = text.replace("{db}", &self.url());
        }
        if text.contains("{server}") {
            text = text.replace("{server}", &self.server());
        }
        text.replace("{name}", &self.name)
            .replace("{directory}", &self.directory.path().to_string_lossy())
    }

    /// Text without what differs from run to run: directory, server, database, run ids.
    fn steady(&self, text: &str) -> String {
        let directory = self.directory.path();
        let real = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        let mut text = text
            .replace(&*real.to_string_lossy(), "{directory}")
            .replace(&*directory.to_string_lossy(), "{directory}")
            .replace(&self.name, "{name}");
        if self.database != Database::Sqlite {
            text = text.replace(&self.server(), "{server}");
        }
        without_ids(&text)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if self.database == Database::Postgres && !std::thread::panicking() {
            let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
            // Sessions that do not end within five seconds are an error.
            for attempt in 0.. {
                let Err(error) = try_postgres(&server().url("postgres"), &drop) else {
                    break;
                };
                let is_in_use = error.code() == Some(&SqlState::OBJECT_IN_USE);
                assert!(is_in_use && attempt < 100, "{drop}: {error:?}");
            }
        }
        if self.database == Database::MariaDb && !std::thread::panicking() {
            mariadb(&mariadb_url("tonnage"), &format!("DROP DATABASE {}", self.name));
        }
    }
}

/// Every row is in the account.
pub fn assert_balanced(report: &serde_json::Value) {
    let rows = &report["rows"];
    let number = |value: &serde_json::Value| value.as_u64().expect("a count");
    let skipped = rows["skipped"].as_object().expect("the reasons");
    let sum = number(&rows["written"])
        + skipped.values().map(number).sum::<u64>()
        + number(&rows["rejected"])
        + number(&rows["unfinished"]);
    assert_eq!(number(&rows["read"]), sum, "{rows}");
}

/// Runs `check` for every item and fails with all that failed.
pub fn every<T>(items: impl IntoIterator<Item = T>, check: impl Fn(T) -> Result<(), String>) {
    let failed: Vec<_> = items.into_iter().filter_map(|item| check(item).err()).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Run ids are 32 hexadecimal digits.
fn without_ids(text: &str) -> String {
    const DIGITS: usize = 32;
    let mut left = text;
    let mut steady = String::new();
    while let Some(first) = left.chars().next() {
        match left.get(..DIGITS) {
            Some(word) if word.bytes().all(|b| b.is_ascii_hexdigit()) => {
                steady.push_str("{run}");
                left = &left[DIGITS..];
            }
            _ => {
                steady.push(first);
                left = &left[first.len_utf8()..];
            }
        }
    }
    steady
}

/// The PostgreSQL server of the tests.
pub struct Server {
    user: String,
    password: String,
    /// Host and port.
    address: String,
}

impl Server {
    fn url(&self, database: &str) -> String {
        format!(
            "postgresql://{}:{}@{}/{database}",
            self.user, self.password, self.address
        )
    }
}

pub fn server() -> Server {
    let url = std::env::var("TONNAGE_TEST_POSTGRES_URL")
        .expect("TONNAGE_TEST_POSTGRES_URL names the test server: run `make test`");
    let parts = || {
        let (user, rest) = url.strip_prefix("postgresql://")?.split_once(':')?;
        let (password, rest) = rest.split_once('@')?;
        let (address, _) = rest.split_once('/')?;
        Some(Server {
            user: user.to_owned(),
            password: password.to_owned(),
            address: address.to_owned(),
        })
    };
    parts().expect("TONNAGE_TEST_POSTGRES_URL is postgresql://user:password@host:port/database")
}

fn postgres(url: &str, sql: &str) -> Vec<String> {
    try_postgres(url, sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

fn try_postgres(url: &str, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls)
            .await
            .expect("the test server answers");
        let serving = tokio::spawn(connection);
        let messages = client.simple_query(sql).await?;
        drop(client);
        serving.await.expect("the connection ends").expect("no failure");
        let text = |row: &tokio_postgres::SimpleQueryRow| {
            let values = (0..row.len()).map(|at| row.get(at).unwrap_or("-").to_owned());
            values.collect::<Vec<_>>().join("|")
        };
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(text(row)),
            _ => None,
        });
        Ok(rows.collect())
    })
}

/// The URL of a database of the MariaDB server of the tests.
fn mariadb_url(database: &str) -> String {
    let url = crate::database::variable("TONNAGE_TEST_MARIADB_URL");
    let (server, _) = url.rsplit_once('/').expect("the URL names a database");
    format!("{server}/{database}")
}

fn mariadb(url: &str, sql: &str) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let url = format!("{}?prefer_socket=false", url.replace("mariadb://", "mysql://"));
        let mut conn = Conn::from_url(url).await.expect("the test server answers");
        let mut found = Vec::new();
        for statement in sql
            .split(';')
            .map(str::trim)
            .filter(|statement| !statement.is_empty())
        {
            let rows: Vec<mysql_async::Row> = conn
                .query(statement)
                .await
                .unwrap_or_else(|error| panic!("{statement}: {error:?}"));
            let text = |cell: Cell| match cell {
                Cell::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                _ => "-".to_owned(),
            };
            found.extend(rows.into_iter().map(|row| {
                let cells: Vec<_> = row.unwrap().into_iter().map(text).collect();
                cells.join("|")
            }));
        }
        conn.disconnect().await.expect("the connection ends");
        found
    })
}

fn sqlite(path: &Path, sql: &str) -> Vec<String> {
    use rusqlite::{Batch, fallible_iterator::FallibleIterator, types::ValueRef};
    let connection = rusqlite::Connection::open(path).expect("the database opens");
    let mut statements = Batch::new(&connection, sql);
    let mut found = Vec::new();
    while let Some(mut statement) = statements.next().unwrap_or_else(|error| panic!("{sql}: {error}")) {
        let columns = statement.column_count();
        let mut rows = statement
            .query([])
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        while let Some(row) = rows.next().unwrap_or_else(|error| panic!("{sql}: {error}")) {
            let values = (0..columns).map(|at| match row.get_ref(at).expect("a value") {
                ValueRef::Null => "-".to_owned(),
                ValueRef::Integer(number) => number.to_string(),
                ValueRef::Real(number) => number.to_string(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                ValueRef::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            });
            found.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    found
}
