//! A directory as a database: the example to copy for a target of your own.
//!
//! - A directory below the root is a table (`table`), a line of its files is a row: its values as text.
//! - A write is a file that is there as a whole or not at all, once, however often it is sent (`writer`).
//! - The ledger is a SQLite file next to the tables, as for every database that cannot hold one: [`LedgerFile`].
//! - What a directory cannot do is refused with a reason. Rows have no keys here, so only inserts are left.
//! - File calls block the thread that makes them, which a local disk allows. A target over a network awaits.

mod reader;
mod table;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use tonnage_core::{
    ColumnType, Error, Result,
    extent::Extent,
    ledger::{Ledger, NewRun, RunHandle},
    operation::{Durability, Method, Operation, Support},
    preparation::Preparation,
    reader::{ScanRequest, Snapshot},
    slot::SlotState,
    table::{Table, TableName, TableSpec},
    target::{Capabilities, CommitTimes, KeyPart, Parts, Rows, Scan, Target, WriteRequest, Writer},
};
use tonnage_sqlite::local::{LedgerFile, RunRows};

use self::writer::DirectoryWriter;

/// A directory of tables.
pub struct DirectoryTarget {
    root: PathBuf,
    capabilities: Capabilities,
    ledger: Arc<LedgerFile>,
}

impl DirectoryTarget {
    /// Of the directory at `path`. `Config` where there is none.
    pub fn open(path: &Path) -> Result<Self> {
        let root = path.canonicalize().map_err(|cause| {
            Error::config(format!("there is no directory {}: {cause}", path.display())).hint("make it first")
        })?;
        let rows = Arc::new(DirectoryRows(root.clone()));
        Ok(Self {
            ledger: Arc::new(LedgerFile::at(&root.join(".ledger"), rows)?),
            root,
            capabilities: Capabilities {
                product: "a directory".to_owned(),
                writers_max: None,
                durability: &[Durability::Relaxed, Durability::Durable],
                methods: &[Method::Native],
                text_holds_nul: false,
                partial_dates: false,
                repeats_keys: false,
                batch_rows_default: 65_536,
                batch_bytes_default: 16 << 20,
                commits: CommitTimes::Comparable,
                insert_replaces: false,
                says_key_exists: |_| false,
                own_schema: None,
                array_rows_max: |_| usize::MAX,
            },
        })
    }
}

#[async_trait]
impl Target for DirectoryTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn support(&self, _: &Table, operation: &Operation, method: Method) -> Support {
        match (operation, method) {
            (Operation::Insert, Method::Native) => Support::Yes,
            (Operation::Insert, _) => Support::no("a write is a file", "--method native"),
            _ => Support::no("rows in files are not found by a key", "--mode insert"),
        }
    }

    async fn table(&self, name: &TableName) -> Result<Option<Table>> {
        table::find(&self.root, name)
    }

    async fn table_names(&self) -> Result<Vec<String>> {
        table::names(&self.root)
    }

    fn column_type(&self, wanted: ColumnType, _: &Extent, _: KeyPart) -> ColumnType {
        // Text holds the values of every type.
        wanted
    }

    fn create_statement(&self, spec: &TableSpec) -> Result<String> {
        let schema = table::schema(spec)?;
        Ok(format!("make {}/schema.json: {schema}", spec.name))
    }

    async fn create(&self, spec: &TableSpec) -> Result<()> {
        table::create(&self.root, spec)
    }

    async fn drop_table(&self, table: &Table, rows: Rows) -> Result<bool> {
        let path = self.root.join(&table.name.name);
        let found = table::find(&self.root, &table.name)?;
        let is_that = found.is_some_and(|found| found.identity.object == table.identity.object);
        let is_dropped = is_that && (rows == Rows::Drop || table::files(&path)?.is_empty());
        if is_dropped {
            table::remove(&path)?;
        }
        Ok(is_dropped)
    }

    fn settings(&self, _: Durability) -> Vec<String> {
        Vec::new()
    }

    async fn writer(&self, request: &WriteRequest, run: Option<&RunHandle>) -> Result<Box<dyn Writer>> {
        Ok(Box::new(DirectoryWriter {
            root: self.root.clone(),
            request: request.clone(),
            ledger: run.map(|run| (self.ledger.clone(), run.clone())),
            open: None,
        }))
    }

    fn ledger(&self) -> &dyn Ledger {
        self.ledger.as_ledger()
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            scan: Some(self),
            local_ledger: Some(&*self.ledger),
            ..Parts::NONE
        }
    }
}

#[async_trait]
impl Scan for DirectoryTarget {
    async fn scan(&self, request: &ScanRequest) -> Result<Snapshot> {
        reader::scan(&self.root, request)
    }
}

/// What the ledger has done with rows.
struct DirectoryRows(PathBuf);

#[async_trait]
impl RunRows for DirectoryRows {
    async fn prepare(&self, run: &NewRun) -> Result<()> {
        // The parts have none that prepares a table, so the plan refuses whatever else was asked for.
        match run.preparation {
            Preparation::Keep => Ok(()),
            _ => Err(Error::bug("a preparation that was refused")),
        }
    }

    fn taken_over(&self, run_id: &str, slots: &[SlotState]) -> Result<()> {
        writer::remove_leftovers(&self.0, run_id, slots)
    }
}
