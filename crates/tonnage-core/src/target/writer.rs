//! The seam to one connection that writes.

use std::{fmt, sync::Arc};

use arrow::array::RecordBatch;
use async_trait::async_trait;

use crate::{
    error::{Error, ErrorKind, Result},
    operation::{Durability, Method, Operation, Split},
    preparation::Preparation,
    router::Routing,
    slot::Advance,
    table::Table,
    types::ColumnType,
};

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

impl Failure {
    /// Row `row` was found bad before anything of its batch was applied, and the transaction is as it was.
    pub fn of_row(row: usize, column: &str, code: &str, message: impl fmt::Display) -> Self {
        Self {
            applied: 0,
            suspect: Some(row),
            intact: true,
            error: Error::new(ErrorKind::Rejected, message).code(code),
            column: Some(column.to_owned()),
        }
    }
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
