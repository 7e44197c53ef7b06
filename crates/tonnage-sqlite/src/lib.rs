//! SQLite, as one file.
//!
//! - One writer: the file has one write lock, so there is one lane, and its transactions are BEGIN IMMEDIATE.
//! - Every connection lives on a thread of its own ([`tonnage_sql::thread`]); nothing blocks the async pool.
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
mod schemas;
mod sql;
mod temporal;
mod types;
mod writer;

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use rusqlite::Connection;
use tonnage_core::{
    driver::Driver,
    error::Result,
    extent::Extent,
    getter::{GetRequest, Getter, ReadSnapshot},
    ledger::{Ledger, RunHandle},
    operation::{Durability, Method, Operation, Support},
    password::Password,
    preparation::{Preparation, PreparationEffects},
    reader::{ScanRequest, Snapshot},
    statement::{Dialect, Statement},
    table::{ColumnSpec, ForeignKey, Table, TableName, TableSpec},
    target::{
        BATCH_BYTES, Capabilities, CommitTimes, KeyPart, Lookup, Parts, Prepare, Relations, Rows, Scan,
        Statements, Target, WriteRequest, Writer,
    },
    types::ColumnType,
};
use tonnage_sql::ledger::SqlLedger;

use self::{
    connect::{FileFormat, Journal, Location},
    getter::{SqliteGetter, SqliteReadSnapshot},
    local::{File, RowsIn},
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
    declares: |ty| Some(types::declared(&ty)),
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
    /// What the file keeps for a commit, or will when it is made.
    journal: Journal,
    /// The ledger, whose connection is the catalogue's as well.
    ledger: SqlLedger<File>,
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
        let file = File::of(location.clone(), RowsIn::ThisFile);
        let journal = file
            .run(|control| match control.existing()? {
                None => Ok(FileFormat::NEW.journal),
                Some(file) => Journal::of(file.connection).map_err(ledger::failed),
            })
            .await?;
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
                batch_bytes_default: BATCH_BYTES,
                commits: CommitTimes::Comparable,
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
            journal,
            ledger: SqlLedger(file),
        })
    }

    /// Does `work` on the file; `absent` where there is none.
    async fn on_existing<T: Send + 'static>(
        &self,
        absent: T,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.ledger
            .0
            .run(move |control| match control.existing()? {
                None => Ok(absent),
                Some(file) => work(file.connection),
            })
            .await
    }

    /// Does `work` on the file, which must be there.
    async fn on_required<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.ledger
            .0
            .run(move |control| work(control.required()?.connection))
            .await
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
            catalog::table_names(connection).map_err(ledger::failed)
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
        self.ledger
            .0
            .run(move |control| {
                let created = control.created()?.connection.execute_batch(&statement);
                created
                    .map_err(|failure| ledger::failed(failure).at(format!("table {name} cannot be created")))
            })
            .await
    }

    async fn drop_table(&self, table: &Table, rows: Rows) -> Result<bool> {
        let table = table.clone();
        self.on_required(move |connection| catalog::drop_table(connection, &table, rows))
            .await
    }

    fn settings(&self, durability: Durability) -> Vec<String> {
        connect::writer_settings(durability, self.journal, &self.location)
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
            schemas: Some(self),
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

    async fn run_script(&self, script: &str) -> Result<()> {
        let script = script.to_owned();
        self.ledger
            .0
            .run(move |control| {
                let ran = control.created()?.connection.execute_batch(&script);
                ran.map_err(ledger::failed)
            })
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
        let snapshot = SqliteReadSnapshot::begin(&self.location, getters).await?;
        Ok(snapshot.map(|snapshot| Box::new(snapshot) as Box<dyn ReadSnapshot>))
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

    async fn add_columns(&self, table: &Table, columns: &[ColumnSpec]) -> Result<()> {
        let added = self.run_script(&sql::add_columns(&table.name, columns)?).await;
        added.map_err(|error| error.at(format!("no columns can be added to {}", table.name)))
    }
}
