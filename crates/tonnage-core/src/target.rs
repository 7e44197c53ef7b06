//! The seam between the engine and a database.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::array::RecordBatch;
use async_trait::async_trait;

use crate::{
    error::{Error, Result},
    extent::Extent,
    getter::{GetRequest, Getter, ReadSnapshot},
    instruments::Instruments,
    ledger::{Ledger, RunHandle},
    operation::{Durability, Method, Operation, Split, Support},
    preparation::{Preparation, PreparationEffects},
    reader::{ScanRequest, Snapshot},
    router::{Router, Routing},
    slot::Advance,
    statement::{Dialect, Statement},
    table::{ForeignKey, Table, TableName, TableSpec},
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
    /// The most rows one write may have by [`Method::Array`] for this many columns.
    pub array_rows_max: fn(columns: usize) -> usize,
}

/// Unique keys by their columns; none where the database goes by the one key that it is told, whatever others there are.
pub type OtherUniqueKeys = Option<Vec<Vec<String>>>;

/// The most that one statement of many rows carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementMax {
    /// Rows; `usize::MAX` where nothing limits them.
    pub rows: usize,
    /// Bytes, about; at least one row goes.
    pub bytes: usize,
    /// What sets the limits, for people.
    pub why: String,
}

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

/// One database at one URL. What only some databases have is written out by each: no method has a default that means
/// "none", which a target that wraps others would inherit unseen.
#[async_trait]
pub trait Target: Send + Sync {
    /// What it can do, found at connect.
    fn capabilities(&self) -> &Capabilities;

    /// Whether `operation` on `table` can go by `method`.
    fn support(&self, table: &Table, operation: &Operation, method: Method) -> Support;

    /// The unique keys of `table` besides `key` by which an upsert or an ignore would take a row that is there for the one
    /// that is meant.
    fn other_unique_keys(&self, table: &Table, key: &[String]) -> OtherUniqueKeys;

    /// Reads a table from the catalogue: exact name, else a unique case-insensitive one. None where there is neither.
    async fn table(&self, name: &TableName) -> Result<Option<Table>>;

    /// The schema that tables have in their names because it is the database that this is connected to, and that says
    /// nothing elsewhere; none where schemas are within a database.
    fn own_schema(&self) -> Option<&str>;

    /// Names of the tables a user may mean, for "did you mean".
    async fn table_names(&self) -> Result<Vec<String>>;

    /// The foreign keys of the table of this exact name; those that lead to it are its children's.
    async fn foreign_keys(&self, table: &TableName) -> Result<Vec<ForeignKey>>;

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

    /// Empties a table outside any run (`--ledger none`).
    async fn truncate(&self, name: &TableName) -> Result<()>;

    /// What `preparation` will do to `table`, or why it cannot be done. Writes nothing.
    async fn check_preparation(&self, table: &Table, preparation: Preparation) -> Result<PreparationEffects>;

    /// What a statement carries of a write of so many `columns` to `table`, where a write may be several statements of
    /// many rows. `Config` where `split` asks for what the database has not.
    fn statement_max(
        &self,
        table: &Table,
        columns: usize,
        method: Method,
        split: Split,
    ) -> Result<Option<StatementMax>>;

    /// Where rows of a table belong that lies in several places; none where the table takes them as one. What stands in
    /// the way of routing is a sentence for the plan.
    async fn router(&self, table: &Table) -> Result<Routed>;

    /// Where the rows of a statement belong, whose `parameters` were described, of a table that lies in several
    /// databases. `Config` where the statement does not say it.
    async fn statement_router(&self, statement: &Statement, parameters: &Table) -> Result<Routed>;

    /// Whether `code`, which it has refused a row with, says that the row's key, or another unique one, is there already.
    fn says_key_exists(&self, code: &str) -> bool;

    /// Whether an insert replaces a row that has its key, since nothing tells that it is there.
    fn insert_replaces(&self) -> bool;

    /// How its statements are written; none where it runs none of the user's own.
    fn dialect(&self) -> Option<Dialect>;

    /// Prepares a statement, runs nothing, and answers a table whose columns are its parameters in order, each of the
    /// type that the database found for it ([`ColumnType::Any`] where it has none). Its
    /// identity's shape changes with these types; its object is given by the engine.
    async fn describe(&self, statement: &Statement) -> Result<Table>;

    /// Session settings a writer changes, a line each (`synchronous_commit = off`), for the plan.
    fn settings(&self, durability: Durability) -> Vec<String>;

    /// A connection of its own that writes the rows of `request`. Without `run` no ledger is kept. A table that is not what the
    /// plan was made for is an error of [`Writer::begin`], which makes the claim first.
    async fn writer(&self, request: &WriteRequest, run: Option<&RunHandle>) -> Result<Box<dyn Writer>>;

    /// A connection to the database that shard `shard` is, where shards are [apart](crate::router::Router::apart).
    async fn shard_writer(
        &self,
        request: &WriteRequest,
        run: Option<&RunHandle>,
        shard: usize,
    ) -> Result<Box<dyn Writer>> {
        let _ = shard;
        self.writer(request, run).await
    }

    /// Opens connections that see one state of what `request` asks for. `Schema` where there is no such table or
    /// column, `Config` where it cannot be read in the way that was asked for.
    async fn scan(&self, request: &ScanRequest) -> Result<Snapshot>;

    /// Opens a connection that looks rows up by key. `Schema` where there is no such table or column, or one whose
    /// type cannot be carried exactly.
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>>;

    /// Keeps the state of this moment for at most so many `getters`; none where it cannot be kept without holding up
    /// writers, or would be lost with a connection. Then every question to a [`Target::getter`] sees a state of its own.
    async fn read_snapshot(&self, getters: usize) -> Result<Option<Box<dyn ReadSnapshot>>>;

    /// What measuring needs of it; none where it cannot be measured.
    fn instruments(&self) -> Option<&dyn Instruments>;

    /// The ledger beside the tables, or in [`Target::ledger_file`].
    fn ledger(&self) -> &dyn Ledger;

    /// The local file that holds the ledger, where the database has nothing that could move it together with rows.
    fn ledger_file(&self) -> Option<PathBuf>;

    /// Keeps the ledger in the local file at `path`; before it is first used. `Config` where it stands beside the
    /// tables.
    fn keep_ledger(&self, path: &Path) -> Result<()>;
}

/// [`Target::keep_ledger`] of a database that moves its ledger in the transactions of the rows.
pub fn ledger_is_beside(product: &str) -> Result<()> {
    Err(Error::config(format!(
        "{product} keeps its ledger beside its tables, in the transactions of the rows"
    ))
    .hint("leave --ledger out, or write --ledger none for a load without one"))
}

/// [`Target::statement_max`] of a database that cuts no write into statements.
pub fn one_statement(split: Split) -> Result<Option<StatementMax>> {
    match split {
        Split::Auto => Ok(None),
        Split::None => Err(splits_nothing()),
    }
}

/// Whether the rows of a table are dealt by shard.
#[derive(Debug, Clone, Default)]
pub enum Routed {
    /// The table takes them as one.
    #[default]
    No,
    /// It lies in several places, and takes them as one, because of this.
    Not(String),
    /// They are.
    By(Arc<dyn Router>),
}

/// The refusal of [`Split::None`] by a database that runs every statement as it is.
pub fn splits_nothing() -> Error {
    Error::config("the database splits no statements, so --split none would have no effect")
        .hint("leave it out")
}

/// A column the plan writes.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteColumn {
    /// Index in the source.
    pub source: usize,
    /// Name in the source.
    pub source_name: String,
    /// Index in [`Table::columns`].
    pub target: usize,
    /// Name in the table.
    pub name: String,
    /// The type its values have when they reach the writer; never `Any`.
    pub ty: ColumnType,
}

/// What a writer has to know of the rows that it will be given, fixed when it is opened.
#[derive(Debug, Clone)]
pub struct WriteRequest {
    /// The table, as the plan found it; for a statement its parameters.
    pub table: Arc<Table>,
    /// The columns written, in the order in which batches carry them.
    pub columns: Vec<WriteColumn>,
    /// What happens to a row.
    pub operation: Operation,
    /// How rows travel.
    pub method: Method,
    /// What becomes of statements that the database would split.
    pub split: Split,
    /// What a commit promises.
    pub durability: Durability,
    /// Where rows belong, of a table that lies in several places.
    pub routing: Option<Routing>,
    /// What is done to the table around its rows.
    pub preparation: Preparation,
    /// Whether the run is one transaction: all rows or none.
    pub single_transaction: bool,
}

/// What became of the compare-and-set that opens a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// All slots stood where they should: the transaction is open and has moved them.
    Held,
    /// At least one did not, or another process owns the run: nothing is open. The ledger knows more.
    Moved,
}

/// Whether a failed write may cost the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Fast: after a failure the transaction may be lost (see [`Failure::intact`]).
    None,
    /// Under a savepoint: after a failure the transaction is as it was before, but for [`Failure::applied`].
    Savepoint,
}

/// What became of a write.
#[derive(Debug)]
pub struct Outcome {
    /// Statements sent.
    pub statements: u64,
    /// Payload bytes handed to the driver.
    pub bytes_sent: u64,
    /// Rows that the operation left out: their key was there (ignore), or was not (update, delete). Rows before
    /// [`Failure::applied`] count.
    pub skipped: u64,
    /// Rows of the batch were refused.
    pub failure: Option<Failure>,
}

/// Bad rows: one is known or suspected, others may follow.
#[derive(Debug)]
pub struct Failure {
    /// Rows at the front of the batch that stay applied in the open transaction.
    pub applied: usize,
    /// The row, counted from the front of the batch, that the database named; verified only by sending it alone.
    pub suspect: Option<usize>,
    /// Whether the transaction can go on.
    pub intact: bool,
    /// What the database said, kind [`ErrorKind::Rejected`](crate::error::ErrorKind::Rejected), with its code.
    pub error: Error,
    /// The column it named.
    pub column: Option<String>,
}

/// What became of rows that were applied one by one.
#[derive(Debug)]
pub struct EachOutcome {
    /// Statements sent.
    pub statements: u64,
    /// Payload bytes handed to the driver.
    pub bytes_sent: u64,
    /// Rows that the operation left out.
    pub skipped: u64,
    /// Rows that were refused, in their order. All others are applied.
    pub refused: Vec<Refused>,
}

/// A row that was refused when it was alone.
#[derive(Debug)]
pub struct Refused {
    /// The row, counted from the front of the batch.
    pub row: usize,
    /// What the database said, kind [`ErrorKind::Rejected`](crate::error::ErrorKind::Rejected), with its code.
    pub error: Error,
    /// The column it named.
    pub column: Option<String>,
}

/// One connection that writes. Used by one lane at a time; nothing becomes durable by being dropped: dropping without
/// [`Writer::commit`] aborts.
#[async_trait]
pub trait Writer: Send {
    /// Opens a transaction and, where there is a run, moves the ledger rows of `advances` by compare-and-set. Waits
    /// for a dying predecessor's locks.
    ///
    /// It also verifies that the plan's table is what the plan was made for: its name leads to the same object, with
    /// the same definition. It does so inside the transaction, under a lock that holds off DDL until the transaction
    /// ends (a database without such a lock verifies as late as it can), in the round trip of the claim, and without
    /// a run too. A table that differs is an error of kind `Altered`, and nothing is open then. A claim that
    /// has [moved](Claim::Moved) is answered as such, whatever has become of the table: an earlier attempt may have been
    /// committed before the table was altered.
    ///
    /// Of a plan that is a [single transaction](WriteRequest::single_transaction) it goes on in the transaction that is open,
    /// where one is; the first one empties the table, where the plan says so.
    async fn begin(&mut self, advances: &[Advance]) -> Result<Claim>;

    /// Where the engine puts the places of the rows of the next [`Writer::write`], for a writer that stamps its rows
    /// by them: the number of each row in the source as it is dealt, which is the same in every attempt and ascends
    /// over the rows of a key. None where the writer has no use for it.
    fn places(&mut self) -> Option<&mut Vec<u64>>;

    /// How many requests it may have under way at once by now, for a writer that sends several and fewer of them after an
    /// overload. None where a write is one after another.
    fn requests_max(&self) -> Option<usize>;

    /// Applies `rows` (the plan's columns, in order, in their [`ColumnType::arrow`](crate::types::ColumnType::arrow) types)
    /// in the open transaction. Bad rows are an [`Outcome::failure`], everything else an error.
    async fn write(&mut self, rows: &RecordBatch, guard: Guard) -> Result<Outcome>;

    /// Applies `rows` in the open transaction one by one, in their order, by no more than a statement each: for writes of
    /// which many rows are bad. The account of each row is that of [`Writer::write`] of it alone. None where the database
    /// has no way to do it, or finds bad rows as cheaply by itself; nothing is applied then.
    async fn write_each(&mut self, rows: &RecordBatch) -> Result<Option<EachOutcome>>;

    /// Commits. `advances` replaces the counts given at `begin` for the slots whose counts have changed; empty if none
    /// have. Where a slot was moved several times, it replaces their sum.
    /// An error of kind `InDoubt` means that the ledger must be asked.
    async fn commit(&mut self, advances: &[Advance]) -> Result<()>;

    /// Undoes the open transaction.
    async fn rollback(&mut self) -> Result<()>;
}
