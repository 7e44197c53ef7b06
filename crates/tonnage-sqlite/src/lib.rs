//! SQLite, as one file.
//!
//! - One writer: the file has one write lock, so there is one lane, and its transactions are BEGIN IMMEDIATE.
//! - Every connection lives on a thread of its own (`thread`); nothing blocks the async pool.
//! - Nothing is rewritten: what a column's affinity would change is a rejected row (`encode`).
//! - The ledger is in the file and moves in the transactions that carry the rows (`ledger`), so file, rows
//!   and ledger are copied, restored and deleted together. After a SIGKILL the journal or write-ahead log
//!   that is left undoes the open transaction, and only it, when the file is next opened.
//! - A file that is there keeps its journal mode; a new one gets a write-ahead log. The journal is never
//!   switched off or kept in memory only.
//! - Looking does not make a file: only [`Target::create`] does.
//! - A table's identity is its name and a generation (`identity`), as SQLite has no object ids.
//! - Foreign keys are checked, also where the file's other users leave that off.

mod catalog;
mod checkpoint;
mod connect;
mod decode;
mod encode;
mod errors;
mod execute;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod getter;
mod identity;
mod instruments;
mod ledger;
pub mod local;
mod number;
mod prepare;
mod reader;
mod scan;
mod sql;
mod temporal;
mod thread;
mod types;
mod writer;

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use rusqlite::Connection;
use tonnage_core::{
    driver::Driver,
    error::{Error, Result},
    extent::Extent,
    getter::{GetRequest, Getter, ReadSnapshot},
    ledger::{
        Emptied, Ledger, NewRun, Opening, OtherLedger, RunHandle, RunQuery, RunRecord, Setup, Sought,
        inputs::InputRecord,
    },
    operation::{Durability, Method, Operation, Support},
    password::Password,
    preparation::{Preparation, PreparationEffects},
    reader::{ScanRequest, Snapshot},
    slot::{Counts, SlotState},
    statement::{Dialect, Statement},
    table::{ForeignKey, Table, TableName, TableSpec},
    target::{
        Capabilities, KeyPart, Lookup, Parts, Prepare, Relations, Rows, Scan, Statements, Target,
        WriteRequest, Writer,
    },
    types::ColumnType,
};

use self::{
    connect::Location,
    getter::{SqliteGetter, SqliteMoment},
    thread::Thread,
    writer::SqliteWriter,
};

/// SQLite's line in the registry.
pub const DRIVER: Driver = Driver {
    name: "SQLite",
    schemes: &["sqlite"],
    example: "sqlite:path.db",
    extensions: &["db", "sqlite", "sqlite3"],
    keywords: &[],
    operations: &["insert", "upsert", "ignore", "update", "delete", "statement"],
    methods: &[Method::Native, Method::Array, Method::Batch, Method::Single],
    native: "a prepared statement in large transactions",
    durability: &[Durability::Relaxed, Durability::Durable],
    verified: "the SQLite that is built in",
    passwords: false,
    connect,
    redact: str::to_owned,
    files: connect::files,
};

fn connect(url: &str, _: Option<Password>) -> BoxFuture<'_, Result<Arc<dyn Target>>> {
    Box::pin(async move {
        let target: Arc<dyn Target> = Arc::new(SqliteTarget::connect(url).await?);
        Ok(target)
    })
}

/// A SQLite file, which need not be there yet.
pub struct SqliteTarget {
    location: Location,
    capabilities: Capabilities,
    /// Whether the file keeps a write-ahead log, or will when it is made.
    wal: bool,
    /// The connection for the catalogue and the ledger.
    control: Thread<Control>,
}

impl SqliteTarget {
    /// Opens the file at `sqlite:path`, `sqlite:///absolute/path` or a bare path, if there is one.
    ///
    /// # Errors
    ///
    /// `Config` where the URL is wrong, the directory is missing or the file is not a SQLite database.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::open(Location::parse(url)?).await
    }

    async fn open(location: Location) -> Result<Self> {
        let opening = location.clone();
        let control = Thread::start("sqlite-control", move || Control::open(opening)).await?;
        let wal = control
            .run(|control| match control.existing()? {
                None => Ok(true),
                Some(connection) => {
                    connect::is_wal(connection).map_err(|failure| errors::error(failure, errors::Doing::Else))
                }
            })
            .await??;
        Ok(Self {
            location,
            capabilities: Capabilities {
                product: format!("SQLite {}", rusqlite::version()),
                writers_max: Some(1),
                durability: DRIVER.durability,
                methods: DRIVER.methods,
                // It would be stored, but SQLite's text functions stop at it.
                text_holds_nul: false,
                partial_dates: false,
                repeats_keys: true,
                batch_rows_default: 65_536,
                // A write is cut into statements.
                insert_replaces: false,
                says_key_exists: |code| {
                    matches!(
                        code,
                        "SQLITE_CONSTRAINT_PRIMARYKEY"
                            | "SQLITE_CONSTRAINT_ROWID"
                            | "SQLITE_CONSTRAINT_UNIQUE"
                    )
                },
                own_schema: None,
                array_rows_max: |_| usize::MAX,
            },
            wal,
            control,
        })
    }

    /// Does `work` on the file; `absent` where there is none.
    async fn on_existing<T: Send + 'static>(
        &self,
        absent: T,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.control
            .run(move |control| match control.existing()? {
                None => Ok(absent),
                Some(connection) => work(connection),
            })
            .await?
    }

    /// Does `work` on the file, which must be there.
    async fn on_required<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.control
            .run(move |control| {
                let missing = Error::schema(format!("{} does not exist", control.location.shown()));
                control.existing()?.ok_or(missing).and_then(work)
            })
            .await?
    }
}

/// What the control thread owns.
struct Control {
    location: Location,
    connection: Option<Connection>,
}

impl Control {
    fn open(location: Location) -> Result<Self> {
        let connection = location.open_existing()?;
        Ok(Self { location, connection })
    }

    /// The connection, if there is a file by now.
    fn existing(&mut self) -> Result<Option<&mut Connection>> {
        if self.connection.is_none() {
            self.connection = self.location.open_existing()?;
        }
        Ok(self.connection.as_mut())
    }

    /// The connection, to a new file if there was none.
    fn created(&mut self) -> Result<&mut Connection> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.location.open_or_create()?,
        };
        Ok(self.connection.insert(connection))
    }
}

#[async_trait]
impl Target for SqliteTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn support(&self, _table: &Table, operation: &Operation, method: Method) -> Support {
        match (operation, method) {
            (Operation::Update { .. }, Method::Array) => Support::No {
                why: "where a key comes twice in one UPDATE .. FROM, SQLite takes any of its rows".to_owned(),
                instead: "native updates a row a statement; there is no round trip to save".to_owned(),
            },
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
        self.on_existing(Vec::new(), |connection| {
            catalog::table_names(connection).map_err(|failure| errors::error(failure, errors::Doing::Else))
        })
        .await
    }

    fn column_type(&self, wanted: ColumnType, extent: &Extent, _: KeyPart) -> ColumnType {
        types::for_values(wanted, extent)
    }

    fn create_statement(&self, spec: &TableSpec) -> Result<String> {
        sql::create_table(spec)
    }

    async fn create(&self, spec: &TableSpec) -> Result<()> {
        let statement = sql::create_table(spec)?;
        let name = spec.name.to_string();
        self.control
            .run(move |control| {
                control.created()?.execute_batch(&statement).map_err(|failure| {
                    errors::error(failure, errors::Doing::Else).at(format!("table {name} cannot be created"))
                })
            })
            .await?
    }

    async fn drop_table(&self, table: &Table, rows: Rows) -> Result<bool> {
        let table = table.clone();
        self.on_required(move |connection| catalog::drop_table(connection, &table, rows))
            .await
    }

    fn settings(&self, durability: Durability) -> Vec<String> {
        connect::writer_settings(durability, self.wal, &self.location)
            .into_iter()
            .map(|(pragma, value)| format!("{pragma} = {value}"))
            .collect()
    }

    async fn writer(&self, plan: &WriteRequest, run: Option<&RunHandle>) -> Result<Box<dyn Writer>> {
        Ok(Box::new(
            SqliteWriter::open(self.location.clone(), plan, run).await?,
        ))
    }

    fn ledger(&self) -> &dyn Ledger {
        self
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            statements: Some(self),
            scan: Some(self),
            lookup: Some(self),
            relations: Some(self),
            routes: None,
            separate_databases: None,
            prepare: Some(self),
            unique_keys: None,
            statement_splitting: None,
            local_ledger: None,
            instruments: Some(self),
        }
    }
}

#[async_trait]
impl Statements for SqliteTarget {
    fn dialect(&self) -> Dialect {
        execute::DIALECT
    }

    async fn describe(&self, statement: &Statement) -> Result<Table> {
        let statement = statement.clone();
        self.on_required(move |connection| execute::describe(connection, &statement))
            .await
    }
}

#[async_trait]
impl Scan for SqliteTarget {
    async fn scan(&self, request: &ScanRequest) -> Result<Snapshot> {
        reader::scan(&self.location, request).await
    }
}

#[async_trait]
impl Lookup for SqliteTarget {
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>> {
        Ok(Box::new(SqliteGetter::open(&self.location, None, request).await?))
    }

    async fn read_snapshot(&self, getters: usize) -> Result<Option<Box<dyn ReadSnapshot>>> {
        let moment = SqliteMoment::begin(&self.location, getters).await?;
        Ok(moment.map(|moment| Box::new(moment) as Box<dyn ReadSnapshot>))
    }
}

#[async_trait]
impl Relations for SqliteTarget {
    async fn foreign_keys(&self, table: &TableName) -> Result<Vec<ForeignKey>> {
        let name = table.name.clone();
        self.on_existing(Vec::new(), move |connection| {
            catalog::foreign_keys(connection, &name)
        })
        .await
    }
}

#[async_trait]
impl Prepare for SqliteTarget {
    async fn truncate(&self, name: &TableName) -> Result<()> {
        let name = name.name.clone();
        self.on_required(move |connection| ledger::truncate(connection, &name))
            .await
    }

    async fn check_preparation(&self, table: &Table, preparation: Preparation) -> Result<PreparationEffects> {
        let name = table.name.name.clone();
        self.on_required(move |connection| prepare::check_preparation(connection, &name, preparation))
            .await
    }
}

#[async_trait]
impl Ledger for SqliteTarget {
    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>> {
        let query = query.clone();
        self.on_existing(Vec::new(), move |connection| ledger::runs(connection, &query))
            .await
    }

    async fn ids(&self, prefix: &str) -> Result<Vec<String>> {
        let prefix = prefix.to_owned();
        self.on_existing(Vec::new(), move |connection| ledger::ids(connection, &prefix))
            .await
    }

    async fn inputs(&self, keys: &[String]) -> Result<Vec<InputRecord>> {
        let keys = keys.to_vec();
        self.on_existing(Vec::new(), move |connection| ledger::inputs(connection, &keys))
            .await
    }

    async fn prune(&self, keep: u64, limit: u64) -> Result<u64> {
        self.on_existing(0, move |connection| ledger::prune(connection, keep, limit))
            .await
    }

    /// The file that holds it is the one that was named.
    async fn elsewhere(&self, _: &Sought) -> Result<Vec<OtherLedger>> {
        Ok(Vec::new())
    }

    async fn setup(&self, grantees: &[String]) -> Result<Vec<Setup>> {
        if !grantees.is_empty() {
            return Err(Error::config("SQLite has no roles to grant the ledger's use to")
                .hint("leave --grant out; who may write the file may use the ledger"));
        }
        Ok(vec![Setup {
            place: "the file that has the rows".to_owned(),
            statements: ledger::statements(),
            notes: vec!["the first run makes them, and two more by which tables are told apart".to_owned()],
        }])
    }

    async fn set_up(&self, _: &[String]) -> Result<()> {
        self.on_required(ledger::set_up).await
    }

    async fn start(&self, run: &NewRun) -> Result<RunHandle> {
        let run = run.clone();
        self.on_required(move |connection| ledger::start(connection, &run))
            .await
    }

    async fn slots(&self, run_id: &str) -> Result<Vec<SlotState>> {
        let run_id = run_id.to_owned();
        self.on_existing(Vec::new(), move |connection| ledger::slots(connection, &run_id))
            .await
    }

    async fn take_over(&self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
        let run_id = run_id.to_owned();
        self.on_required(move |connection| ledger::take_over(connection, &run_id, |_| Ok(())))
            .await
    }

    /// Rows and ledger are in one file.
    async fn emptied(&self, _: &[String]) -> Result<Vec<Emptied>> {
        Ok(Vec::new())
    }

    async fn accept_emptied(&self, _: &RunHandle) -> Result<()> {
        Ok(())
    }

    async fn note_opening(&self, run_id: &str, opening: &Opening) -> Result<bool> {
        let (run_id, opening) = (run_id.to_owned(), opening.clone());
        self.on_existing(false, move |connection| {
            ledger::note_opening(connection, &run_id, &opening)
        })
        .await
    }

    async fn finish(&self, handle: &RunHandle, counts: Counts) -> Result<()> {
        let handle = handle.clone();
        self.on_required(move |connection| ledger::finish(connection, &handle, counts))
            .await
    }

    async fn forget(&self, run_id: &str) -> Result<bool> {
        let run_id = run_id.to_owned();
        self.on_existing(false, move |connection| ledger::forget(connection, &run_id))
            .await
    }

    async fn forget_unbegun(&self, handle: &RunHandle) -> Result<bool> {
        let handle = handle.clone();
        self.on_existing(false, move |connection| {
            ledger::forget_unbegun(connection, &handle)
        })
        .await
    }

    async fn conclude(&self, _: &str) -> Result<()> {
        Ok(())
    }
}
