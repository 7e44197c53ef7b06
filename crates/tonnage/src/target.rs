//! The seam between the engine and a database.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::array::RecordBatch;
use async_trait::async_trait;

use crate::{
    error::{Error, Result},
    getter::{GetRequest, Getter, Moment},
    ledger::{Ledger, RunHandle},
    measure::Gauge,
    operation::{Durability, Method, Operation, Support},
    plan::{Plan, Split},
    preparation::{Foreseen, Preparation},
    reader::{ScanRequest, Snapshot},
    router::Router,
    slot::Advance,
    statement::{Dialect, Statement},
    table::{ForeignKey, Table, TableName, TableSpec},
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
    /// Whether one write may meet the same key twice in upserts and updates (and the later row wins).
    pub repeats_keys: bool,
    /// Rows a write when nothing else was asked for.
    pub batch_rows_default: usize,
    /// The most rows one write may have by [`Method::Array`] for this many columns.
    pub array_rows_max: fn(columns: usize) -> usize,
}

/// Unique keys by their columns; none where the database goes by the one key that it is told, whatever others there are.
pub type FurtherKeys = Option<Vec<Vec<String>>>;

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

/// One database at one URL.
#[async_trait]
pub trait Target: Send + Sync {
    /// What it can do, found at connect.
    fn capabilities(&self) -> &Capabilities;

    /// Whether `operation` on `table` can go by `method`.
    fn support(&self, table: &Table, operation: &Operation, method: Method) -> Support;

    /// The unique keys of `table` besides `key` by which an upsert or an ignore would take a row that is there for the one
    /// that is meant.
    fn further_keys(&self, table: &Table, key: &[String]) -> FurtherKeys {
        let _ = (table, key);
        None
    }

    /// Reads a table from the catalogue: exact name, else a unique case-insensitive one. None where there is neither.
    async fn table(&self, name: &TableName) -> Result<Option<Table>>;

    /// The schema that tables have in their names because it is the database that this is connected to, and that says
    /// nothing elsewhere; none where schemas are within a database.
    fn own_schema(&self) -> Option<&str> {
        None
    }

    /// Names of the tables a user may mean, for "did you mean".
    async fn table_names(&self) -> Result<Vec<String>>;

    /// The foreign keys of the table of this exact name; those that lead to it are its children's.
    async fn foreign_keys(&self, table: &TableName) -> Result<Vec<ForeignKey>> {
        let _ = table;
        Ok(Vec::new())
    }

    /// The statement that creates a table, in the database's words.
    fn create_statement(&self, spec: &TableSpec) -> Result<String>;

    /// Runs [`Target::create_statement`].
    async fn create(&self, spec: &TableSpec) -> Result<()>;

    /// Empties a table outside any run (`--ledger none`).
    async fn truncate(&self, name: &TableName) -> Result<()>;

    /// What `preparation` will do to `table`, or why it cannot be done. Writes nothing.
    async fn foresee(&self, table: &Table, preparation: Preparation) -> Result<Foreseen> {
        match preparation.option() {
            None => Ok(Foreseen::default()),
            Some(option) => Err(Error::config(format!(
                "{} has no {option} for {}",
                self.capabilities().product,
                table.name
            ))
            .hint("--truncate empties the table first")),
        }
    }

    /// What a statement carries of a write of so many `columns` to `table`, where a write may be several statements of
    /// many rows. `Config` where `split` asks for what the database has not.
    fn statement_max(
        &self,
        table: &Table,
        columns: usize,
        method: Method,
        split: Split,
    ) -> Result<Option<StatementMax>> {
        let _ = (table, columns, method);
        match split {
            Split::Auto => Ok(None),
            Split::None => Err(splits_nothing()),
        }
    }

    /// Where rows of a table belong that lies in several places; none where the table takes them as one. What stands in
    /// the way of routing is a sentence for the plan.
    async fn router(&self, table: &Table) -> Result<Routed> {
        let _ = table;
        Ok(Routed::No)
    }

    /// Where the rows of a statement belong, whose `parameters` were described, of a table that lies in several
    /// databases. `Config` where the statement does not say it.
    async fn statement_router(&self, statement: &Statement, parameters: &Table) -> Result<Routed> {
        let _ = (statement, parameters);
        Ok(Routed::No)
    }

    /// Whether `code`, which it has refused a row with, says that the row's key, or another unique one, is there already.
    fn says_key_exists(&self, code: &str) -> bool {
        let _ = code;
        false
    }

    /// Whether an insert replaces a row that has its key, since nothing tells that it is there.
    fn insert_replaces(&self) -> bool {
        false
    }

    /// How its statements are written; none where it runs none of the user's own.
    fn dialect(&self) -> Option<Dialect> {
        None
    }

    /// Prepares a statement, runs nothing, and answers a table whose columns are its parameters in order, each of the
    /// type that the database found for it ([`ColumnType::Any`](crate::ColumnType::Any) where it has none). Its
    /// identity's shape changes with these types; its object is given by the engine.
    async fn describe(&self, statement: &Statement) -> Result<Table> {
        let _ = statement;
        Err(Error::bug("a statement for a database that runs none"))
    }

    /// Session settings a writer changes, a line each (`synchronous_commit = off`), for the plan.
    fn settings(&self, durability: Durability) -> Vec<String>;

    /// A connection of its own that writes `plan`'s rows. Without `run` no ledger is kept.
    async fn writer(&self, plan: &Plan, run: Option<&RunHandle>) -> Result<Box<dyn Writer>>;

    /// A connection to the database that shard `shard` is, where shards are [apart](crate::router::Router::apart).
    async fn shard_writer(
        &self,
        plan: &Plan,
        run: Option<&RunHandle>,
        shard: usize,
    ) -> Result<Box<dyn Writer>> {
        let _ = shard;
        self.writer(plan, run).await
    }

    /// Opens connections that see one state of what `request` asks for. `Schema` where there is no such table or
    /// column, `Config` where it cannot be read in the way that was asked for.
    async fn scan(&self, request: &ScanRequest) -> Result<Snapshot> {
        let _ = request;
        let product = &self.capabilities().product;
        Err(Error::config(format!("{product} cannot be read from yet")))
    }

    /// Opens a connection that looks rows up by key. `Schema` where there is no such table or column, or one whose
    /// type cannot be carried exactly.
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>> {
        let _ = request;
        let product = &self.capabilities().product;
        Err(Error::config(format!(
            "rows of {product} cannot be looked up by key yet"
        )))
    }

    /// Keeps the state of this moment for at most so many `getters`; none where it cannot be kept without holding up
    /// writers, or would be lost with a connection. Then every question to a [`Target::getter`] sees a state of its own.
    async fn moment(&self, getters: usize) -> Result<Option<Box<dyn Moment>>> {
        let _ = getters;
        Ok(None)
    }

    /// What measuring needs of it; none where it cannot be measured.
    fn gauge(&self) -> Option<&dyn Gauge> {
        None
    }

    /// The ledger beside the tables, or in [`Target::ledger_file`].
    fn ledger(&self) -> &dyn Ledger;

    /// The local file that holds the ledger, where the database has nothing that could move it together with rows.
    fn ledger_file(&self) -> Option<PathBuf> {
        None
    }

    /// Keeps the ledger in the local file at `path`; before it is first used. `Config` where it stands beside the
    /// tables.
    fn keep_ledger(&self, path: &Path) -> Result<()> {
        let _ = path;
        let product = &self.capabilities().product;
        Err(Error::config(format!(
            "{product} keeps its ledger beside its tables, in the transactions of the rows"
        ))
        .hint("leave --ledger out, or write --ledger none for a load without one"))
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
pub(crate) fn splits_nothing() -> Error {
    Error::config("the database splits no statements, so --split none would have no effect")
        .hint("leave it out")
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
    /// What the database said, kind [`ErrorKind::Rejected`](crate::ErrorKind::Rejected), with its code.
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
    /// Of a plan that is a [single transaction](Plan::single_transaction) it goes on in the transaction that is open,
    /// where one is; the first one empties the table, where the plan says so.
    async fn begin(&mut self, advances: &[Advance]) -> Result<Claim>;

    /// Where the engine puts the places of the rows of the next [`Writer::write`], for a writer that stamps its rows
    /// by them: the number of each row in the source as it is dealt, which is the same in every attempt and ascends
    /// over the rows of a key. None where the writer has no use for it.
    fn places(&mut self) -> Option<&mut Vec<u64>> {
        None
    }

    /// How many requests it may have under way at once by now, for a writer that sends several and fewer of them after an
    /// overload. None where a write is one after another.
    fn requests_max(&self) -> Option<usize> {
        None
    }

    /// Applies `rows` (the plan's columns, in order, in their [`ColumnType::arrow`](crate::ColumnType::arrow) types)
    /// in the open transaction. Bad rows are an [`Outcome::failure`], everything else an error.
    async fn write(&mut self, rows: &RecordBatch, guard: Guard) -> Result<Outcome>;

    /// Commits. `advances` replaces the counts given at `begin` for the slots whose counts have changed; empty if none
    /// have. Where a slot was moved several times, it replaces their sum.
    /// An error of kind `InDoubt` means that the ledger must be asked.
    async fn commit(&mut self, advances: &[Advance]) -> Result<()>;

    /// Undoes the open transaction.
    async fn rollback(&mut self) -> Result<()>;
}
