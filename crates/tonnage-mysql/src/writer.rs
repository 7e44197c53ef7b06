//! One connection that writes.
//!
//! - A transaction is `Idle`, `Open` or `Broken` (it may be gone, whole or in part). COMMIT is sent only when it is
//!   open, and after every statement the server has to say that it still is: a deadlock, for one, ends it, and what
//!   followed would be committed by itself.
//! - A statement happens as a whole or not at all, so after one that failed those before it stay applied.
//! - A statement's count of rows has to be what was sent, and it has to end without warnings: the server changes values
//!   under a warning, or only a note, that it does not refuse. LOAD DATA is therefore undone where it is not exact, and
//!   done again by the strict way, which finds the bad rows.

mod block;
mod each;
mod single;
mod verified;

use std::{ops::Range, sync::Arc};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use mysql_async::{
    Conn, Params, Row, Statement, Value,
    consts::StatusFlags,
    prelude::{Queryable, StatementLike},
};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    operation::Operation,
    reject::sqlstate,
    slot::Advance,
    table::Table,
    target::{Claim, EachOutcome, Failure, Guard, Outcome, StatementMax, WriteRequest, Writer},
};

use self::each::SingleRow;
pub(super) use self::verified::described;
use super::{
    catalog,
    definition::Definition,
    encode::{self, ColumnEncoder, Encoded},
    errors,
    ledger::Mover,
    product::Version,
    sizes::packet_rows_bytes,
    statements::{Account, ManyRows, Statements, WriteStrategy},
};

/// How rows reach the table, prepared. See [`WriteStrategy`].
enum PreparedStrategy {
    Row(Statement),
    Bulk(Statement),
    Rows {
        parts: ManyRows,
        /// The last one, for its number of rows.
        prepared: Option<(usize, Statement)>,
    },
    Load {
        load: String,
        strict: Box<PreparedStrategy>,
    },
    /// None: the table is not what the plan was made for, as this says.
    Altered(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Open,
    Broken,
}

/// See the module.
pub(super) struct MysqlWriter {
    link: Link,
    columns: Vec<ColumnEncoder>,
    order: Vec<usize>,
    path: PreparedStrategy,
    /// What carries one row; none where that is no way.
    one_row: Option<SingleRow>,
    subject: Subject,
    /// What it was when the writer was opened; none of a statement that names no table.
    definition: Option<Definition>,
    mover: Option<Mover>,
    claimed: Vec<Advance>,
    /// The largest packet that the server takes.
    packet_bytes_max: usize,
    /// Whether a savepoint undoes anything.
    transactional: bool,
}

/// What a plan says of the table, and of the transactions.
pub(super) struct Subject {
    /// The table as it was planned for.
    pub table: Arc<Table>,
    pub operation: Operation,
    pub version: Version,
    /// Whether a transaction goes on over many writes.
    pub single_transaction: bool,
    /// Whether the table is emptied in that transaction.
    pub truncates: bool,
}

impl Subject {
    pub fn of(plan: &WriteRequest, version: &Version) -> Self {
        Self {
            table: plan.table.clone(),
            operation: plan.operation.clone(),
            version: version.clone(),
            single_transaction: plan.single_transaction,
            truncates: plan.single_transaction && plan.preparation.truncates(),
        }
    }
}

/// The connection, and the state of its transaction.
struct Link {
    conn: Conn,
    state: State,
    account: Account,
    statement_max: StatementMax,
}

const BEGIN: &str = "START TRANSACTION";
/// Takes the place of the one before, which is therefore not released: that would be a round trip more.
const SAVEPOINT: &str = "SAVEPOINT tonnage_write";
const ROLLBACK_TO: &str = "ROLLBACK TO SAVEPOINT tonnage_write";
const SAVEPOINT_LOAD: &str = "SAVEPOINT tonnage_load";
const ROLLBACK_TO_LOAD: &str = "ROLLBACK TO SAVEPOINT tonnage_load";

/// Warnings that are about statements, not about values: unsafe for a log of statements, deprecated words.
const WARNINGS_BESIDE: [u16; 3] = [1287, 1592, 1681];

/// Why a write did not happen, or not as a whole.
struct Refusal {
    /// Rows at the front that statements before have applied.
    applied: usize,
    /// Rows among these that the operation left out.
    skipped: u64,
    /// Whether the statement that failed has left nothing behind.
    undone: bool,
    suspect: Option<usize>,
    column: Option<String>,
    error: Error,
}

impl Refusal {
    /// About no row: nothing can go on.
    fn fatal(error: Error) -> Self {
        Self {
            applied: 0,
            skipped: 0,
            undone: false,
            suspect: None,
            column: None,
            error,
        }
    }
}

/// What was sent.
#[derive(Default)]
struct Sent {
    statements: u64,
    bytes: u64,
}

/// What a statement ended with.
struct Ended {
    affected: u64,
    warnings: u16,
}

/// Why one statement failed.
enum Stop {
    /// The server refused it; nothing of it is left.
    Refused(mysql_async::Error),
    /// It was done, but not as it should; it is there.
    Wrong(Error),
    /// Not about rows.
    Fatal(Error),
}

impl MysqlWriter {
    /// Prepares everything that a plan needs on `conn`. A table that is not what the plan was made for is no error here,
    /// but of the first transaction, which asks the ledger first.
    pub async fn open(
        mut conn: Conn,
        subject: Subject,
        carrying: std::result::Result<(Statements, Option<Definition>), String>,
        mover: Option<Mover>,
        (statement_max, packet_bytes_max): (StatementMax, usize),
    ) -> Result<Self> {
        let (statements, definition, path) = match carrying {
            Ok((statements, definition)) => {
                let path = prepare(&mut conn, statements.way.clone()).await?;
                (Some(statements), definition, path)
            }
            Err(what) => (None, None, PreparedStrategy::Altered(what)),
        };
        let transactional = statements.as_ref().is_none_or(|s| s.transactional);
        let account = statements.as_ref().map_or(Account::All, |s| s.account);
        let (columns, order, one_row) = statements
            .map(|s| (s.columns, s.order, s.one.map(SingleRow::of)))
            .unwrap_or_default();
        Ok(Self {
            link: Link {
                conn,
                state: State::Idle,
                account,
                statement_max,
            },
            columns,
            order,
            path,
            one_row,
            subject,
            definition,
            mover,
            claimed: Vec::new(),
            packet_bytes_max,
            transactional,
        })
    }

    /// The batch's columns in the statement's order.
    fn ordered(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        rows.project(&self.order)
            .map_err(|e| Error::bug("a batch lacks a column of its plan").caused_by(e))
    }

    /// Rows that the operation left out.
    async fn apply(&mut self, rows: &RecordBatch, sent: &mut Sent) -> std::result::Result<u64, Refusal> {
        let rows = self.ordered(rows).map_err(Refusal::fatal)?;
        let encoded = match encode::encode(&self.columns, &rows).map_err(Refusal::fatal)? {
            Ok(encoded) => encoded,
            Err(fault) => {
                return Err(Refusal {
                    undone: true,
                    suspect: Some(fault.row),
                    column: Some(fault.column),
                    ..Refusal::fatal(fault.error)
                });
            }
        };
        let most = packet_rows_bytes(self.packet_bytes_max);
        if let Some(row) = encoded.sizes.iter().position(|size| *size > most) {
            let error = too_large(encoded.sizes[row], most);
            return Err(Refusal {
                undone: true,
                suspect: Some(row),
                ..Refusal::fatal(error)
            });
        }
        match &mut self.path {
            PreparedStrategy::Load { load, strict } => match self.link.load(load, &encoded, most, sent).await
            {
                Ok(true) => Ok(0),
                Ok(false) => self.link.strictly(strict, &encoded, sent).await,
                Err(error) => Err(Refusal::fatal(error)),
            },
            PreparedStrategy::Altered(_) => {
                Err(Refusal::fatal(Error::bug("rows for a table that was altered")))
            }
            strict => self.link.strictly(strict, &encoded, sent).await,
        }
    }

    /// What a refusal means for the batch; an error where it is not about rows.
    async fn refused(&mut self, refusal: Refusal, guard: Guard) -> Result<(Failure, u64)> {
        if refusal.error.kind() != ErrorKind::Rejected {
            self.link.state = State::Broken;
            return Err(refusal.error);
        }
        let (applied, skipped, intact) = match guard {
            Guard::Savepoint if self.transactional => {
                self.link.plain(ROLLBACK_TO).await?;
                (0, 0, true)
            }
            _ => (refusal.applied, refusal.skipped, refusal.undone),
        };
        if !intact {
            self.link.state = State::Broken;
        }
        let failure = Failure {
            applied: if intact { applied } else { 0 },
            suspect: refusal.suspect,
            intact,
            error: refusal.error,
            column: refusal.column,
        };
        Ok((failure, if intact { skipped } else { 0 }))
    }
}

impl Link {
    async fn plain(&mut self, sql: &str) -> Result<()> {
        let done = self.conn.query_drop(sql).await;
        done.inspect_err(|_| self.state = State::Broken)
            .map_err(errors::statement)
    }

    /// Undoes what there is, on the way out of a failure that matters more.
    async fn give_up(&mut self) {
        self.state = State::Idle;
        if let Err(error) = self.conn.query_drop("ROLLBACK").await {
            tracing::debug!("ROLLBACK after a failure: {error}");
        }
    }

    /// LOAD DATA of all rows; false where it was not exact, and is undone.
    async fn load(
        &mut self,
        load: &str,
        encoded: &Encoded,
        packet_bytes: usize,
        sent: &mut Sent,
    ) -> Result<bool> {
        self.plain(SAVEPOINT_LOAD).await?;
        let chunks = packets(encoded.text(), packet_bytes);
        sent.statements += 1;
        sent.bytes += chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
        self.conn
            .set_infile_handler(async move { Ok(futures::stream::iter(chunks.into_iter().map(Ok)).boxed()) });
        let done = self.conn.query_drop(load).await;
        // Nobody else is to be given what is meant for this statement.
        self.conn
            .set_infile_handler(async { Err(mysql_async::LocalInfileError::NoHandler.into()) });
        match done {
            Ok(()) => {
                self.still_open()?;
                let rows = encoded.sizes.len() as u64;
                if self.conn.affected_rows() == rows && self.conn.get_warnings() == 0 {
                    return Ok(true);
                }
            }
            Err(failure) => {
                let error = errors::statement(failure);
                if error.kind() != ErrorKind::Rejected {
                    return Err(error);
                }
            }
        }
        self.plain(ROLLBACK_TO_LOAD).await?;
        Ok(false)
    }

    /// Rows by statements that refuse what they cannot keep.
    async fn strictly(
        &mut self,
        path: &mut PreparedStrategy,
        encoded: &Encoded,
        sent: &mut Sent,
    ) -> std::result::Result<u64, Refusal> {
        let mut skipped = 0;
        let rows = encoded.sizes.len();
        let mut first = 0;
        while first < rows {
            let range = match path {
                PreparedStrategy::Row(_) => first..first + 1,
                // Every row has its placeholders in the statement's text, too.
                PreparedStrategy::Rows { parts, .. } => self.cut(encoded, first, parts.row.len() + 1),
                _ => self.cut(encoded, first, 0),
            };
            sent.statements += 1;
            sent.bytes += encoded.sizes[range.clone()].iter().sum::<usize>() as u64;
            let told = self.execute(path, encoded, range.clone()).await;
            match told {
                Ok(left_out) => skipped += left_out,
                Err(stop) => {
                    let refusal = |error, undone| Refusal {
                        applied: first,
                        skipped,
                        undone,
                        // Only where rows are sent one by one is the first bad one known.
                        suspect: matches!(path, PreparedStrategy::Row(_)).then_some(first),
                        column: None,
                        error,
                    };
                    return Err(match stop {
                        Stop::Refused(mysql_async::Error::Server(server)) => {
                            let within = errors::suspect(&server)
                                .filter(|_| matches!(path, PreparedStrategy::Rows { .. }));
                            let mut refusal = refusal(errors::from_server(&server), true);
                            refusal.suspect = refusal.suspect.or(within.map(|row| first + row));
                            refusal
                        }
                        Stop::Refused(failure) => Refusal::fatal(errors::statement(failure)),
                        Stop::Wrong(error) => refusal(error, false),
                        Stop::Fatal(error) => Refusal::fatal(error),
                    });
                }
            }
            first = range.end;
        }
        Ok(skipped)
    }

    /// The rows from `first` on that one statement carries, each with so many bytes in addition to its values.
    fn cut(&self, encoded: &Encoded, first: usize, beside: usize) -> Range<usize> {
        let mut bytes = 0;
        let most = encoded
            .sizes
            .len()
            .min(first.saturating_add(self.statement_max.rows));
        let mut end = first;
        while end < most {
            bytes += encoded.sizes[end] + beside;
            if bytes > self.statement_max.bytes && end > first {
                break;
            }
            end += 1;
        }
        first..end
    }

    /// One statement with the rows of `range`; the rows that the operation left out.
    async fn execute(
        &mut self,
        path: &mut PreparedStrategy,
        encoded: &Encoded,
        range: Range<usize>,
    ) -> std::result::Result<u64, Stop> {
        let count = range.len();
        let parameters = encoded.parameters(range);
        let executed = match path {
            PreparedStrategy::Row(statement) => match parameters.into_iter().next() {
                Some(row) => execute(&mut self.conn, statement.clone(), row).await,
                None => return Err(Stop::Fatal(Error::bug("a row without parameters"))),
            },
            PreparedStrategy::Bulk(statement) => self
                .conn
                .exec_batch(&*statement, parameters.into_iter().map(Params::Positional))
                .await
                .map(|()| Ended {
                    affected: self.conn.affected_rows(),
                    warnings: self.conn.get_warnings(),
                }),
            PreparedStrategy::Rows { parts, prepared } => {
                let statement = match prepared.take() {
                    Some((rows, statement)) if rows == count => statement,
                    other => {
                        if let Some((_, old)) = other {
                            self.conn.close(old).await.map_err(fatal)?;
                        }
                        self.conn.prep(parts.statement(count)).await.map_err(fatal)?
                    }
                };
                let row: Vec<Value> = parameters.into_iter().flatten().collect();
                let executed = execute(&mut self.conn, &statement, row).await;
                *prepared = Some((count, statement));
                executed
            }
            PreparedStrategy::Load { .. } | PreparedStrategy::Altered(_) => {
                return Err(Stop::Fatal(Error::bug("LOAD DATA is not its own strict way")));
            }
        };
        let ended = match executed {
            Ok(ended) => ended,
            Err(failure) => {
                let rejected = match &failure {
                    mysql_async::Error::Server(server) => {
                        errors::kind(server.code, &server.state) == ErrorKind::Rejected
                    }
                    _ => false,
                };
                return Err(match rejected {
                    true => Stop::Refused(failure),
                    false => fatal(failure),
                });
            }
        };
        self.still_open().map_err(Stop::Fatal)?;
        if ended.warnings > 0
            && let Some(error) = self.warned().await.map_err(Stop::Fatal)?
        {
            return Err(Stop::Wrong(error));
        }
        let (count, affected) = (count as u64, ended.affected);
        let right = match self.account {
            Account::All => affected == count,
            Account::OnceOrTwice => (count..=2 * count).contains(&affected),
            Account::Rest => affected <= count,
            Account::Any => true,
        };
        match (right, self.account) {
            (true, Account::Rest | Account::Any) => Ok(count.saturating_sub(affected)),
            (true, _) => Ok(0),
            (false, _) => Err(Stop::Wrong(
                Error::new(
                    ErrorKind::Rejected,
                    format!("the database counts {affected} rows where {count} were sent"),
                )
                .code(sqlstate::WOULD_CHANGE),
            )),
        }
    }

    /// The first warning that is about a value.
    async fn warned(&mut self) -> Result<Option<Error>> {
        let warnings: Vec<Row> = self
            .conn
            .query("SHOW WARNINGS")
            .await
            .map_err(errors::statement)?;
        for mut row in warnings {
            let code: u16 = catalog::get(&mut row, 1)?;
            if !WARNINGS_BESIDE.contains(&code) {
                let message: String = catalog::get(&mut row, 2)?;
                return Ok(Some(
                    Error::new(
                        ErrorKind::Rejected,
                        format!("the database would change a value: {message}"),
                    )
                    .code(code),
                ));
            }
        }
        Ok(None)
    }

    /// The transaction goes on, as the last answer says.
    fn still_open(&mut self) -> Result<()> {
        let open = self
            .conn
            .last_ok_packet()
            .is_some_and(|ok| ok.status_flags().contains(StatusFlags::SERVER_STATUS_IN_TRANS));
        match open {
            true => Ok(()),
            false => {
                self.state = State::Broken;
                Err(Error::new(
                    ErrorKind::Refused,
                    "the transaction was ended by something that a row set off",
                )
                .hint("does a trigger or a function commit, or make a table?"))
            }
        }
    }
}

/// Chunks of a LOAD DATA, each of which is a packet.
fn packets(chunks: Vec<Bytes>, bytes_max: usize) -> Vec<Bytes> {
    if chunks.iter().all(|chunk| chunk.len() <= bytes_max) {
        return chunks;
    }
    let cut = |chunk: Bytes| {
        (0..chunk.len())
            .step_by(bytes_max)
            .map(move |at| chunk.slice(at..chunk.len().min(at + bytes_max)))
    };
    chunks.into_iter().flat_map(cut).collect()
}

fn too_large(bytes: usize, most: usize) -> Error {
    let message = format!("the row takes {bytes} bytes, and the server takes {most} at a time");
    Error::new(ErrorKind::Rejected, message)
        .code(sqlstate::TOO_LONG)
        .hint("max_allowed_packet is the server's setting of it")
}

fn fatal(failure: mysql_async::Error) -> Stop {
    Stop::Fatal(errors::statement(failure))
}

async fn execute<S: StatementLike>(
    conn: &mut Conn,
    statement: S,
    parameters: Vec<Value>,
) -> std::result::Result<Ended, mysql_async::Error> {
    let result = conn.exec_iter(statement, Params::Positional(parameters)).await?;
    let ended = Ended {
        affected: result.affected_rows(),
        warnings: result.warnings(),
    };
    result.drop_result().await?;
    Ok(ended)
}

fn prepare(conn: &mut Conn, way: WriteStrategy) -> futures::future::BoxFuture<'_, Result<PreparedStrategy>> {
    async move {
        Ok(match way {
            WriteStrategy::Row(statement) => {
                PreparedStrategy::Row(conn.prep(statement).await.map_err(errors::statement)?)
            }
            WriteStrategy::Bulk(statement) => {
                PreparedStrategy::Bulk(conn.prep(statement).await.map_err(errors::statement)?)
            }
            WriteStrategy::Rows(parts) => PreparedStrategy::Rows {
                parts,
                prepared: None,
            },
            WriteStrategy::Load { load, strict } => PreparedStrategy::Load {
                load,
                strict: Box::new(prepare(conn, *strict).await?),
            },
        })
    }
    .boxed()
}

#[async_trait]
impl Writer for MysqlWriter {
    async fn begin(&mut self, advances: &[Advance]) -> Result<Claim> {
        if self.subject.single_transaction && self.link.state == State::Open {
            return self.go_on(advances).await;
        }
        if self.link.state != State::Idle {
            return Err(Error::bug("a transaction was begun inside another"));
        }
        self.claimed.clear();
        if self.claim_and_verify(advances).await? == Claim::Moved {
            return Ok(Claim::Moved);
        }
        self.link.state = State::Open;
        self.empty().await?;
        Ok(Claim::Held)
    }

    async fn write(&mut self, rows: &RecordBatch, guard: Guard) -> Result<Outcome> {
        if self.link.state != State::Open {
            return Err(Error::bug("rows were written outside a transaction"));
        }
        let mut sent = Sent::default();
        let mut outcome = Outcome {
            skipped: 0,
            statements: 0,
            bytes_sent: 0,
            failure: None,
        };
        if rows.num_rows() == 0 {
            return Ok(outcome);
        }
        let saves = guard == Guard::Savepoint && self.transactional;
        if saves {
            self.link.plain(SAVEPOINT).await?;
        }
        match self.apply(rows, &mut sent).await {
            Ok(skipped) => outcome.skipped = skipped,
            Err(refusal) => {
                let (failure, skipped) = self.refused(refusal, guard).await?;
                outcome.skipped = skipped;
                outcome.failure = Some(failure);
            }
        }
        outcome.statements = sent.statements;
        outcome.bytes_sent = sent.bytes;
        Ok(outcome)
    }

    async fn write_each(&mut self, rows: &RecordBatch) -> Result<Option<EachOutcome>> {
        self.each(rows).await
    }

    async fn commit(&mut self, advances: &[Advance]) -> Result<()> {
        if self.link.state != State::Open {
            return Err(Error::bug("a transaction that is not open was to be committed"));
        }
        if let Some(mover) = self.mover.as_ref().filter(|_| !advances.is_empty()) {
            let adjust = mover.adjust(&self.claimed, advances)?;
            self.link.state = State::Broken;
            self.link
                .conn
                .query_drop(adjust)
                .await
                .map_err(errors::statement)?;
            if self.link.conn.affected_rows() != advances.len() as u64 {
                return Err(Error::bug("the ledger's rows changed inside our own transaction"));
            }
            self.link.still_open()?;
        }
        if self
            .definition
            .as_ref()
            .is_some_and(|definition| !definition.locks())
        {
            // The rows have locked it meanwhile.
            self.link.state = State::Broken;
            self.verify().await?;
        }
        self.link.state = State::Idle;
        self.link.conn.query_drop("COMMIT").await.map_err(errors::commit)
    }

    async fn rollback(&mut self) -> Result<()> {
        if self.link.state == State::Idle {
            return Ok(());
        }
        self.link.state = State::Idle;
        match self.link.conn.query_drop("ROLLBACK").await {
            Ok(()) => Ok(()),
            Err(failure) => {
                let error = errors::statement(failure);
                match error.kind() {
                    // A connection that is gone has taken its transaction with it.
                    ErrorKind::Unsent => Ok(()),
                    _ => Err(error),
                }
            }
        }
    }

    fn places(&mut self) -> Option<&mut Vec<u64>> {
        None
    }

    fn requests_max(&self) -> Option<usize> {
        None
    }
}

#[cfg(test)]
mod tests;
