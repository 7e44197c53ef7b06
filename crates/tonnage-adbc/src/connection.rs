//! Open databases, and connections to them.
//!
//! - A process opens a DuckDB file once, however many targets name it: a second instance of the same file in one process
//!   would not see the first one's lock, and overwrite it. So databases are shared by their path ([`open`]), and a path is
//!   opened again only when the instance that was there has closed.
//! - Whoever changes something holds the database's [`Gate`] until its transaction has ended. DuckDB refuses what conflicts,
//!   and never waits; behind the gate there is nothing to conflict with, and the ledger's rules about waiting hold.
//! - A library of a driver stays loaded until the process ends: it may have threads of its own.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, LazyLock, Mutex, Weak},
};

use adbc_core::{
    Connection as _, Database as _, Driver as _, LOAD_FLAG_DEFAULT, Optionable as _, Statement as _,
    error::{Error as DriverError, Status},
    options::{AdbcVersion, IngestMode, OptionStatement, OptionValue},
};
use adbc_driver_manager::{ManagedConnection, ManagedDatabase, ManagedDriver, ManagedStatement};
use arrow::{
    array::{Array, AsArray, RecordBatch, RecordBatchReader},
    datatypes::{DataType, Int64Type},
    error::ArrowError,
};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    sync::Lock,
};

use uuid::Uuid;

use super::{
    errors::failed,
    location::{LIBRARY_VARIABLE, Library, Location},
};

/// What a call of a driver gives.
pub(crate) type Called<T> = std::result::Result<T, DriverError>;

/// Held by whoever changes something in a database.
pub(crate) type Gate = Arc<tokio::sync::Mutex<()>>;

/// The gate while it is held.
pub(crate) type Held = tokio::sync::OwnedMutexGuard<()>;

/// Settings of every connection to DuckDB: values have the forms that the decoder expects. Those that need an extension
/// which is not there change nothing without it.
const SESSION: [&str; 4] = [
    "SET TimeZone = 'UTC'",
    "SET arrow_lossless_conversion = false",
    "SET arrow_large_buffer_size = false",
    "SET enable_progress_bar = false",
];

/// A database that is open.
pub(crate) struct Shared {
    /// None only while dropping.
    database: Option<ManagedDatabase>,
    /// Its file, or what else names it.
    path: PathBuf,
    is_duckdb: bool,
    gate: Gate,
}

static OPEN: LazyLock<Mutex<HashMap<PathBuf, Weak<Shared>>>> = LazyLock::new(Mutex::default);
static CLOSED: Condvar = Condvar::new();
static LIBRARIES: LazyLock<Mutex<HashMap<Library, ManagedDriver>>> = LazyLock::new(Mutex::default);

impl Drop for Shared {
    fn drop(&mut self) {
        let mut open = OPEN.locked();
        self.database = None;
        open.remove(&self.path);
        CLOSED.notify_all();
    }
}

/// Loads a driver, or takes the one that is loaded.
fn library(library: &Library) -> Result<ManagedDriver> {
    let mut loaded = LIBRARIES.locked();
    if let Some(driver) = loaded.get(library) {
        return Ok(driver.clone());
    }
    let entrypoint = library.entrypoint.as_ref().map(String::as_bytes);
    let driver = ManagedDriver::load_from_name(
        &library.name,
        entrypoint,
        AdbcVersion::V110,
        LOAD_FLAG_DEFAULT,
        None,
    );
    let driver = driver.map_err(|failure| not_loaded(library, failure))?;
    loaded.insert(library.clone(), driver.clone());
    Ok(driver)
}

fn not_loaded(library: &Library, failure: DriverError) -> Error {
    let name = &library.name;
    let said = failure
        .message
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let said = said.collect::<Vec<_>>().join("; ");
    let is_duckdb = name == "duckdb" || library.entrypoint.as_deref() == Some("duckdb_adbc_init");
    let error = match (name.as_str(), is_duckdb) {
        ("duckdb", _) => Error::config(format!(
            "DuckDB's library was not found: neither the URL nor {LIBRARY_VARIABLE} names it, there is no ADBC manifest \
             duckdb.toml, and the system has no libduckdb.so ({said})"
        )),
        (_, true) => Error::config(format!("DuckDB's library {name} cannot be loaded: {said}")),
        (_, false) => Error::config(format!("the ADBC driver '{name}' cannot be loaded: {said}")),
    };
    let hint = match is_duckdb {
        true => {
            "libduckdb.so is in the archive of DuckDB's C library and in the npm package \
             @duckdb/node-bindings-linux-x64 (1.5 or newer); name it with ?driver=/path/libduckdb.so in the URL or with \
             TONNAGE_DUCKDB_LIBRARY=/path/libduckdb.so, or install an ADBC manifest: dbc install duckdb"
        }
        false => {
            "write adbc:NAME for a driver with a manifest (dbc install NAME), or adbc:/path/libNAME.so with \
             ?entrypoint=FUNCTION where the function has another name than usual"
        }
    };
    error.hint(hint).caused_by(failure)
}

/// The database at a location, which is made where its file is missing. Blocks.
pub(crate) fn open(location: &Location) -> Result<Arc<Shared>> {
    let mut driver = library(&location.library)?;
    let key = match &location.file {
        Some(path) => real_path(path),
        // Every target of a database behind a server has connections of its own.
        None => PathBuf::from(Uuid::now_v7().to_string()),
    };
    let mut open = OPEN.locked();
    while let Some(known) = open.get(&key) {
        if let Some(shared) = known.upgrade() {
            return Ok(shared);
        }
        // It is being closed.
        open = CLOSED
            .wait(open)
            .unwrap_or_else(std::sync::PoisonError::into_inner);
    }
    let database = driver.new_database_with_opts(location.database_options());
    let database = database.map_err(|failure| not_opened(location, failure))?;
    let shared = Arc::new(Shared {
        database: Some(database),
        path: key.clone(),
        is_duckdb: location.file.is_some(),
        gate: Gate::default(),
    });
    open.insert(key, Arc::downgrade(&shared));
    Ok(shared)
}

/// One path for all that lead to a file, also where the file is not there yet.
fn real_path(path: &Path) -> PathBuf {
    if let Ok(real) = path.canonicalize() {
        return real;
    }
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(directory)), Some(name)) => directory.join(name),
        _ => path.to_owned(),
    }
}

/// Where a DuckDB file says that it is one.
const MAGIC_AT: usize = 8;
const MAGIC: &[u8] = b"DUCK";

fn not_opened(location: &Location, failure: DriverError) -> Error {
    let Some(path) = &location.file else {
        return failed(failure).at(location.shown());
    };
    let mut head = [0; MAGIC_AT + MAGIC.len()];
    let read = std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut head));
    let is_duckdb = read.is_ok() && head.ends_with(MAGIC);
    let error = failed(failure);
    let said = format!("{}: {error}", path.display());
    let refused = match (path.exists(), is_duckdb) {
        (true, true) => Error::new(ErrorKind::Refused, said).hint(
            "one process at a time may have a DuckDB file open for writing: wait until the other one has closed it; if all \
             of them only read, ?access_mode=read_only in the URL lets them share it",
        ),
        (true, false) => Error::config(format!("{} is not a DuckDB database ({error})", path.display()))
            .hint("the database comes last: tonnage load SOURCE... TARGET -t TABLE"),
        (false, _) => Error::new(ErrorKind::Refused, said).hint("check the options of the URL and the rights on the directory"),
    };
    refused.caused_by(error)
}

impl Shared {
    /// Its gate.
    pub(crate) fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// A connection. Blocks.
    pub(crate) fn connect(self: &Arc<Self>) -> Result<Connection> {
        let database = self.database.as_ref();
        let database = database.ok_or_else(|| Error::bug("a database that is being closed"))?;
        let mut connection = Connection {
            inner: database.new_connection().map_err(failed)?,
            _shared: self.clone(),
        };
        let settings = if self.is_duckdb { &SESSION[..] } else { &[] };
        for setting in settings {
            if let Err(failure) = connection.run(setting) {
                tracing::debug!("{setting}: {failure}");
            }
        }
        Ok(connection)
    }
}

/// A connection. Its methods block.
pub(crate) struct Connection {
    inner: ManagedConnection,
    /// Outlives the connection.
    _shared: Arc<Shared>,
}

/// A statement that is sent again and again.
pub(crate) struct Prepared(ManagedStatement);

/// Rows as they come.
pub(crate) struct Rows {
    reader: Box<dyn RecordBatchReader + Send>,
    /// Outlives the rows.
    _statement: ManagedStatement,
}

impl Iterator for Rows {
    type Item = Called<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.reader.next().map(|batch| batch.map_err(while_reading))
    }
}

/// A stream gives a message and no code.
fn while_reading(failure: ArrowError) -> DriverError {
    DriverError::with_message_and_status(failure.to_string(), Status::InvalidData)
}

/// Stops what a connection does, from elsewhere.
#[derive(Clone)]
pub(crate) struct Interrupt(ManagedConnection);

impl Interrupt {
    /// Has the statement under way fail, if there is one.
    pub(crate) fn interrupt(&mut self) {
        if let Err(failure) = self.0.cancel() {
            tracing::debug!("cancel: {failure}");
        }
    }
}

impl Connection {
    /// For stopping what it does.
    pub(crate) fn interrupter(&self) -> Interrupt {
        Interrupt(self.inner.clone())
    }

    fn statement(&mut self, sql: &str) -> Called<ManagedStatement> {
        let mut statement = self.inner.new_statement()?;
        statement.set_sql_query(sql)?;
        Ok(statement)
    }

    /// Prepares a statement, which has parameters.
    pub(crate) fn prepare(&mut self, sql: &str) -> Called<Prepared> {
        let mut statement = self.statement(sql)?;
        statement.prepare()?;
        Ok(Prepared(statement))
    }

    /// Rows of a query; `parameters` is one row.
    pub(crate) fn stream(&mut self, sql: &str, parameters: Option<RecordBatch>) -> Called<Rows> {
        let mut statement = self.statement(sql)?;
        if let Some(parameters) = parameters {
            statement.prepare()?;
            statement.bind(parameters)?;
        }
        let reader = statement.execute()?;
        Ok(Rows {
            reader,
            _statement: statement,
        })
    }

    /// All rows of a query.
    pub(crate) fn query(&mut self, sql: &str, parameters: Option<RecordBatch>) -> Called<Vec<RecordBatch>> {
        self.stream(sql, parameters)?.collect()
    }

    /// Runs a statement, or several without parameters.
    pub(crate) fn run(&mut self, sql: &str) -> Called<()> {
        self.query(sql, None).map(|_| ())
    }

    /// Runs a statement; how many rows it has changed.
    pub(crate) fn change(&mut self, sql: &str, parameters: Option<RecordBatch>) -> Called<u64> {
        self.query(sql, parameters).map(|answer| changed(&answer))
    }

    /// Puts rows into a temporary table `table`, in the place of one that is there.
    pub(crate) fn stage(&mut self, table: &str, rows: RecordBatch) -> Called<()> {
        let mut statement = self.inner.new_statement()?;
        let text = |text: &str| OptionValue::String(text.to_owned());
        statement.set_option(OptionStatement::TargetTable, text(table))?;
        statement.set_option(OptionStatement::IngestMode, IngestMode::Replace.into())?;
        statement.set_option(OptionStatement::Temporary, text("true"))?;
        statement.bind(rows)?;
        statement.execute_update().map(|_| ())
    }
}

impl Prepared {
    /// Runs it with these parameters, one row; how many rows it has changed.
    pub(crate) fn change(&mut self, parameters: RecordBatch) -> Called<u64> {
        self.0.bind(parameters)?;
        let answer: Called<Vec<_>> = self
            .0
            .execute()?
            .map(|batch| batch.map_err(while_reading))
            .collect();
        Ok(changed(&answer?))
    }
}

/// DuckDB answers a statement that changes rows with their number, or with nothing where it changed none.
fn changed(answer: &[RecordBatch]) -> u64 {
    let counts = answer.iter().filter(|batch| {
        batch.num_columns() == 1
            && batch.schema().field(0).name() == "Count"
            && *batch.column(0).data_type() == DataType::Int64
    });
    let each = counts.flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().iter().flatten());
    each.map(|count| count.max(0) as u64).sum()
}

/// The text of each row of a column of text; `Bug` where it has another type.
pub(crate) fn texts(batch: &RecordBatch, column: usize) -> Result<Vec<Option<String>>> {
    let array = batch.column(column);
    let texts = array.as_string_opt::<i32>();
    let texts = texts.ok_or_else(|| Error::bug(format!("a column of text came as {}", array.data_type())))?;
    Ok(texts.iter().map(|text| text.map(str::to_owned)).collect())
}

/// The number of each row of a column of whole numbers; `Bug` where it has another type.
pub(crate) fn numbers(batch: &RecordBatch, column: usize) -> Result<Vec<Option<i64>>> {
    let array = batch.column(column);
    let numbers = array.as_primitive_opt::<Int64Type>();
    let numbers = numbers.ok_or_else(|| Error::bug(format!("a number came as {}", array.data_type())))?;
    Ok(numbers.iter().collect())
}
