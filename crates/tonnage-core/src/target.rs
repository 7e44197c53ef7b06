//! The seam between the engine and a database.

pub mod parts;
mod writer;

use async_trait::async_trait;

pub use self::{
    parts::{
        LocalLedger, Lookup, OtherUniqueKeys, Parts, Prepare, Relations, Routed, Routes, Scan, ScanApart,
        Schemas, SeparateDatabases, StatementMax, StatementSplitting, Statements, UniqueKeys, splits_nothing,
    },
    writer::{Claim, EachOutcome, Failure, Guard, Outcome, Refused, WriteColumn, WriteRequest, Writer},
};
use crate::{
    error::Result,
    extent::Extent,
    ledger::{Ledger, RunHandle},
    operation::{Durability, Method, Operation, Support},
    table::{Table, TableName, TableSpec},
    types::ColumnType,
};

/// What a database at hand can do. No `Default`: a new field makes every target decide.
#[derive(Debug, Clone)]
pub struct Capabilities {
    /// The database and its version, for people: `PostgreSQL 15.18`.
    pub product: String,
    /// Writers that can make progress at once; 1 for SQLite.
    pub writers_max: Option<usize>,
    /// The levels it can keep, weakest first.
    pub durability: &'static [Durability],
    /// The methods it has, fastest first.
    pub methods: &'static [Method],
    /// Whether text may hold U+0000.
    pub text_holds_nul: bool,
    /// Whether dates may have a zero for their year, month or day.
    pub partial_dates: bool,
    /// Whether one write may meet the same key twice in upserts and updates (and the later row wins).
    pub repeats_keys: bool,
    /// Rows a write when nothing else was asked for.
    pub batch_rows_default: usize,
    /// Bytes a write when nothing else was asked for.
    pub batch_bytes_default: usize,
    /// What a commit says of the size of its write.
    pub commits: CommitTimes,
    /// Whether an insert replaces a row that has its key, since nothing tells that it is there.
    pub insert_replaces: bool,
    /// Whether a code, which it has refused a row with, says that the row's key, or another unique one, is there already.
    pub says_key_exists: fn(code: &str) -> bool,
    /// The schema that tables have in their names because it is the database that this is connected to, and that says
    /// nothing elsewhere; none where schemas are within a database.
    pub own_schema: Option<String>,
    /// The most rows one write may have by [`Method::Array`] for this many columns.
    pub array_rows_max: fn(columns: usize) -> usize,
}

/// What the time of a commit says of the size of its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitTimes {
    /// What writes of this size cost, so that the best size can be found while rows go in.
    Comparable,
    /// Little: the database puts work off to a commit further on, or saves it where writes have a certain size.
    Deferred,
}

/// Bytes of a write where nothing else was asked for, of a database that has no reason for more: 16 MiB.
pub const BATCH_BYTES: usize = 16 << 20;

/// Whether a column to be made is part of the table's primary key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPart {
    /// It is not.
    No,
    /// It is one of so many.
    Of(usize),
}

/// What becomes of rows of a table that is to be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// They keep the table from being dropped.
    Keep,
    /// They go with it.
    Drop,
}

/// One database at one URL. What only some databases have is a separate part, obtained by [`Target::parts`]; no method
/// has a default.
#[async_trait]
pub trait Target: Send + Sync {
    /// What it can do, found at connect.
    fn capabilities(&self) -> &Capabilities;

    /// Whether `operation` on `table` can go by `method`.
    fn support(&self, table: &Table, operation: &Operation, method: Method) -> Support;

    /// Reads a table from the catalogue: exact name, else a unique case-insensitive one. None where there is neither.
    async fn table(&self, name: &TableName) -> Result<Option<Table>>;

    /// Names of the tables a user may mean, for "did you mean".
    async fn table_names(&self) -> Result<Vec<String>>;

    /// The type that a column of a table to be made gets for values that take `extent`, of which `wanted` would be the
    /// type in no database's words: one that holds all of them here.
    fn column_type(&self, wanted: ColumnType, extent: &Extent, key: KeyPart) -> ColumnType;

    /// The statement that creates a table, in the database's words.
    fn create_statement(&self, spec: &TableSpec) -> Result<String>;

    /// Runs [`Target::create_statement`].
    async fn create(&self, spec: &TableSpec) -> Result<()>;

    /// Drops `table` if it is still the one that [`Target::table`] described and, with [`Rows::Keep`], has no rows.
    /// Whether it is gone.
    async fn drop_table(&self, table: &Table, rows: Rows) -> Result<bool>;

    /// Session settings a writer changes, a line each (`synchronous_commit = off`), for the plan.
    fn settings(&self, durability: Durability) -> Vec<String>;

    /// A separate connection that writes the rows of `request`. Without `run` no ledger is kept. A table that is not what the
    /// plan was made for is an error of [`Writer::begin`], which makes the claim first.
    async fn writer(&self, request: &WriteRequest, run: Option<&RunHandle>) -> Result<Box<dyn Writer>>;

    /// The ledger in the database, or in the file of its [`LocalLedger`].
    fn ledger(&self) -> &dyn Ledger;

    /// What it has beyond this. A target that wraps others cannot leave a part out unseen: [`Parts`] has no default.
    fn parts(&self) -> Parts<'_>;
}
