//! One connection that writes.
//!
//! A transaction is `Idle`, `Open` or `Broken` (the server refuses everything but its end). COMMIT is sent only when
//! it is open: a COMMIT of a broken transaction would undo it and report success.

mod each;
mod parameters;
mod refusal;
mod routed;
mod single;
mod table_statements;
mod verified;

use std::{collections::HashMap, ops::Range, pin::pin, sync::Arc};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use tokio_postgres::{Client, Statement, types::ToSql};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::RunHandle,
    operation::Operation,
    router::Routing,
    slot::Advance,
    table::Table,
    target::{Claim, EachOutcome, Failure, Guard, Outcome, WriteRequest, Writer},
};

pub(super) use self::parameters::{EncodedField, arrays};
use self::refusal::Refusal;
use super::{
    catalog,
    definition::{Definition, is_without_partition},
    each::{Each, left_out},
    encode::{EncodedColumn, Encoder, Numbering},
    errors,
    ledger::{self, Mover, borrowed},
    partitions::Partitions,
    pooler,
    statements::{self, Account},
};

/// How rows reach the table, prepared. See [`WriteStrategy`].
enum PreparedStrategy {
    Copy(Statement),
    /// COPY into each partition, prepared when its first rows come.
    Partitions {
        partitions: Arc<Partitions>,
        routing: Routing,
        copies: HashMap<u16, PartitionCopy>,
    },
    Array(Statement),
    Row(Statement),
    Stage {
        copy: Statement,
        merge: Statement,
        clear: Statement,
        ordinal: Numbering,
    },
    /// None: the table is not what the plan was made for, as this says.
    Altered(String),
}

/// Consecutive rows, and the partition that they go to.
type Runs = Vec<(Range<usize>, u16)>;

/// COPY into one partition.
struct PartitionCopy {
    copy: Statement,
    /// What the partition was; none of the table whose partitions they are.
    definition: Option<Definition>,
    /// Whether this transaction has found it as it was.
    verified: bool,
}

/// Executions of one statement that wait for their answers at most.
const EXECUTIONS_MAX: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Open,
    Broken,
}

/// See the module.
pub(super) struct PostgresWriter {
    client: Client,
    columns: Vec<EncodedColumn>,
    begin: String,
    path: PreparedStrategy,
    account: Account,
    /// None where the server was found not to do it, or it means something else.
    each: Option<Each>,
    /// The table as it was planned for, and what is done to it.
    table: Arc<Table>,
    operation: Operation,
    /// What it was when the writer was opened; none of a statement that names no table.
    definition: Option<Definition>,
    mover: Option<Mover>,
    claimed: Vec<Advance>,
    state: State,
    /// Whether this transaction has put rows into the stage.
    staged: bool,
    /// Whether the savepoint of the last write is there still: it is released together with setting the next.
    saved: bool,
    /// Whether a transaction goes on over many writes.
    single_transaction: bool,
    /// How the table is emptied in that transaction.
    truncate: Option<String>,
}

/// Chunks of an encoded COPY that wait for the connection.
const CHUNKS_QUEUED_MAX: usize = 2;

const SAVEPOINT: &str = "SAVEPOINT tonnage_write";
const SAVEPOINT_AGAIN: &str = "RELEASE SAVEPOINT tonnage_write; SAVEPOINT tonnage_write";
const RELEASE: &str = "RELEASE SAVEPOINT tonnage_write";
const ROLLBACK_TO: &str = "ROLLBACK TO SAVEPOINT tonnage_write; RELEASE SAVEPOINT tonnage_write";

/// What a statement says of its rows.
struct RowCounts {
    /// Rows of the table that it touched.
    touched: u64,
    /// Those that it should have touched.
    expected: u64,
    /// Rows sent that count as written.
    written: u64,
}

impl RowCounts {
    /// Of a statement that says no more than how many rows it touched.
    fn rows(touched: u64) -> Self {
        Self {
            touched,
            expected: touched,
            written: touched,
        }
    }
}

/// What was sent.
#[derive(Default)]
struct Sent {
    statements: u64,
    bytes: u64,
}

/// A run whose slots are moved.
pub(super) struct Recorded<'a> {
    pub run: &'a RunHandle,
    /// The schema of its ledger, where one was chosen.
    pub schema: Option<&'a str>,
}

impl PostgresWriter {
    /// Prepares everything that `plan` needs on `client`.
    pub async fn open(
        client: Client,
        plan: &WriteRequest,
        run: Option<Recorded<'_>>,
        synchronous_commit: &str,
        partitions: Option<Arc<Partitions>>,
    ) -> Result<Self> {
        let carrying = table_statements::prepare(&client, plan, synchronous_commit, partitions).await?;
        let process = pooler::process(&client).await?;
        let mover = match run {
            Some(Recorded { run, schema }) => Some(Mover::prepare(&client, run, schema, &plan.table).await?),
            None => None,
        };
        Ok(Self {
            client,
            columns: carrying.columns,
            begin: match mover {
                Some(_) => format!("{}; {}", carrying.begin, ledger::opened(process)),
                None => carrying.begin,
            },
            path: carrying.path,
            account: carrying.account,
            each: carrying.each,
            table: plan.table.clone(),
            operation: plan.operation.clone(),
            definition: carrying.definition,
            mover,
            claimed: Vec::new(),
            state: State::Idle,
            staged: false,
            saved: false,
            single_transaction: plan.single_transaction,
            truncate: (plan.single_transaction && plan.preparation.truncates())
                .then(|| statements::truncate(&plan.table.name)),
        })
    }

    /// Undoes what there is, on the way out of a failure that matters more.
    async fn give_up(&mut self) {
        self.state = State::Idle;
        if let Err(error) = self.client.batch_execute("ROLLBACK").await {
            tracing::debug!("ROLLBACK after a failure: {error}");
        }
    }

    /// Rows that the operation left out. `runs` are those of [`PostgresWriter::runs`].
    async fn apply(
        &self,
        rows: &RecordBatch,
        runs: &Runs,
        sent: &mut Sent,
    ) -> std::result::Result<u64, Refusal> {
        match &self.path {
            PreparedStrategy::Copy(copy) => {
                let arrived = self.copy(copy, rows, Numbering::None, sent).await?;
                self.account(rows.num_rows(), RowCounts::rows(arrived))
            }
            PreparedStrategy::Partitions { copies, .. } => {
                let mut arrived = 0;
                for (run, shard) in runs {
                    let part = rows.slice(run.start, run.len());
                    let Some(PartitionCopy { copy, .. }) = copies.get(shard) else {
                        return Err(Refusal::Other(Error::bug("a partition without its COPY")));
                    };
                    let copied = self.copy(copy, &part, Numbering::None, sent).await;
                    arrived += copied.map_err(|refusal| refusal.behind(run.start))?;
                }
                self.account(rows.num_rows(), RowCounts::rows(arrived))
            }
            PreparedStrategy::Array(statement) => {
                let parameters = self.arrays(rows, sent)?;
                sent.statements += 1;
                let told = self.told(statement, parameters).await?;
                self.account(rows.num_rows(), told)
            }
            PreparedStrategy::Row(statement) => self.one_by_one(statement, rows, sent).await,
            PreparedStrategy::Stage {
                copy,
                merge,
                clear,
                ordinal,
            } => {
                if self.staged {
                    sent.statements += 1;
                    self.client.execute(clear, &[]).await?;
                }
                self.copy(copy, rows, *ordinal, sent).await?;
                sent.statements += 1;
                let told = self.told(merge, Vec::<EncodedField>::new()).await?;
                self.account(rows.num_rows(), told)
            }
            PreparedStrategy::Altered(_) => {
                Err(Refusal::Other(Error::bug("rows for a table that was altered")))
            }
        }
    }

    /// Executes a statement for what it tells of its rows.
    async fn told<P>(
        &self,
        statement: &Statement,
        parameters: Vec<P>,
    ) -> std::result::Result<RowCounts, Refusal>
    where
        P: ToSql + Sync,
    {
        let parameters: Vec<_> = parameters.iter().map(|p| p as &(dyn ToSql + Sync)).collect();
        if self.account != Account::FromServer {
            return Ok(RowCounts::rows(
                self.client.execute(statement, &parameters).await?,
            ));
        }
        let row = self.client.query_one(statement, &parameters).await?;
        let number = |index| catalog::get::<i64>(&row, index).map(|n| n as u64);
        let numbers = || {
            Ok(RowCounts {
                touched: number(0)?,
                expected: number(1)?,
                written: number(2)?,
            })
        };
        numbers().map_err(Refusal::Other)
    }

    /// Rows that the operation left out of the `rows` that a statement was given.
    fn account(&self, rows: usize, counts: RowCounts) -> std::result::Result<u64, Refusal> {
        let rows = rows as u64;
        let (expected, written) = match self.account {
            Account::All => (rows, rows),
            Account::Rest => (counts.touched.min(rows), counts.touched),
            Account::Unchecked => (counts.touched, rows),
            Account::Any => (counts.touched, counts.touched.min(rows)),
            Account::FromServer => (counts.expected, counts.written),
        };
        match rows.checked_sub(written).filter(|_| counts.touched == expected) {
            Some(skipped) => Ok(skipped),
            None => Err(Refusal::Missing {
                expected,
                touched: counts.touched,
                row: None,
            }),
        }
    }

    /// One execution a row. They are sent without waiting for answers; the first that fails is the bad row.
    async fn one_by_one(
        &self,
        statement: &Statement,
        rows: &RecordBatch,
        sent: &mut Sent,
    ) -> std::result::Result<u64, Refusal> {
        let mut encoder = Encoder::new(rows, &self.columns, Numbering::None).map_err(Refusal::Other)?;
        let mut skipped = 0;
        for range in encoder.chunks() {
            let fields = encoder.fields(range.clone()).map_err(|fault| Refusal::Value {
                fault,
                sent: range.start > 0,
            })?;
            sent.bytes += fields.len() as u64;
            let mut fields = Bytes::from(fields);
            let executions = range.clone().map(|_| {
                let parameters: Vec<_> = self
                    .columns
                    .iter()
                    .map(|_| EncodedField::cut(&mut fields))
                    .collect();
                self.told(statement, parameters)
            });
            let mut answers = futures::stream::iter(executions).buffered(EXECUTIONS_MAX);
            for row in range {
                let Some(answer) = answers.next().await else {
                    return Err(Refusal::Other(Error::bug("a row was not sent")));
                };
                sent.statements += 1;
                let left_out = answer.and_then(|told| self.account(1, told));
                skipped += left_out.map_err(|refusal| refusal.of_row(row))?;
            }
        }
        Ok(skipped)
    }

    async fn copy(
        &self,
        copy: &Statement,
        rows: &RecordBatch,
        ordinal: Numbering,
        sent: &mut Sent,
    ) -> std::result::Result<u64, Refusal> {
        let mut encoder = Encoder::new(rows, &self.columns, ordinal).map_err(Refusal::Other)?;
        let mut chunks = encoder.chunks();
        let first = chunks.next().unwrap_or(0..0);
        // A bad value in the first chunk costs nothing: the COPY has not begun.
        let first = encoder
            .copy_chunk(first)
            .map_err(|fault| Refusal::Value { fault, sent: false })?;
        sent.statements += 1;
        let mut sink = pin!(self.client.copy_in::<_, Bytes>(copy).await?);
        sent.bytes += first.len() as u64;
        feed(sink.as_mut(), first).await?;
        let rest: Vec<Range<usize>> = chunks.collect();
        if !rest.is_empty() {
            let (sender, mut receiver) = tokio::sync::mpsc::channel(CHUNKS_QUEUED_MAX);
            // Encoding is work for a processor: it must not hold up the connections.
            tokio::task::spawn_blocking(move || {
                for range in rest {
                    let chunk = encoder.copy_chunk(range);
                    let last = chunk.is_err();
                    if sender.blocking_send(chunk).is_err() || last {
                        return;
                    }
                }
            });
            while let Some(chunk) = receiver.recv().await {
                // Leaving drops the sink unfinished, and the server undoes the COPY.
                let chunk = chunk.map_err(|fault| Refusal::Value { fault, sent: true })?;
                sent.bytes += chunk.len() as u64;
                feed(sink.as_mut(), chunk).await?;
            }
        }
        Ok(sink.finish().await?)
    }

    fn arrays(&self, rows: &RecordBatch, sent: &mut Sent) -> std::result::Result<Vec<EncodedField>, Refusal> {
        let encoded = arrays(rows, &self.columns).map_err(Refusal::Other)?;
        let parameters = encoded.map_err(|fault| Refusal::Value { fault, sent: false })?;
        sent.bytes += parameters.iter().map(EncodedField::bytes).sum::<u64>();
        Ok(parameters)
    }

    /// What a refusal means for the batch; an error where it is not about rows.
    async fn refused(&mut self, refusal: Refusal, guard: Guard) -> Result<Failure> {
        let mut untouched = false;
        let unplaced = match &refusal {
            Refusal::Row { error, .. } | Refusal::Server { error, .. } => is_without_partition(error),
            _ => false,
        };
        let codes = statements::text_codes(&self.columns);
        let said = |error| errors::of_rows(error, codes);
        let failure = match refusal {
            Refusal::Other(error) => {
                self.state = State::Broken;
                return Err(error);
            }
            Refusal::Row { row, error } => {
                let column = error.as_db_error().and_then(|db| db.column()).map(str::to_owned);
                let error = said(error);
                if error.kind() != ErrorKind::Rejected {
                    self.state = State::Broken;
                    return Err(error);
                }
                (Some(row), column, error)
            }
            Refusal::Server { error, first } => {
                let names: Vec<_> = self.columns.iter().map(|c| c.name.as_str()).collect();
                let (suspect, column) = error
                    .as_db_error()
                    .map_or((None, None), |db| errors::suspect(db, &names));
                let error = said(error);
                if error.kind() != ErrorKind::Rejected {
                    self.state = State::Broken;
                    return Err(error);
                }
                (suspect.map(|row| row + first), column, error)
            }
            Refusal::Value {
                fault: (column, fault),
                sent,
            } => {
                untouched = !sent;
                let column = self.columns.get(column).map(|c| c.name.clone());
                (Some(fault.row), column, fault.into_error())
            }
            Refusal::Missing {
                expected,
                touched,
                row,
            } => (row, None, left_out(expected, touched)),
        };
        let (suspect, column, error) = failure;
        let intact = match guard {
            Guard::Savepoint => {
                self.client
                    .batch_execute(ROLLBACK_TO)
                    .await
                    .inspect_err(|_| self.state = State::Broken)
                    .map_err(errors::statement)?;
                // A row for a partition that was detached is no bad row.
                if let Some(definition) = self.definition.as_ref().filter(|_| unplaced)
                    && definition.has_lost_partition(&self.client).await?
                {
                    self.state = State::Broken;
                    return Err(Error::altered(&self.table.name, "has lost a partition"));
                }
                true
            }
            Guard::None => untouched,
        };
        if !intact {
            self.state = State::Broken;
        }
        Ok(Failure {
            applied: 0,
            suspect,
            intact,
            error,
            column,
        })
    }
}

async fn feed(
    mut sink: std::pin::Pin<&mut tokio_postgres::CopyInSink<Bytes>>,
    chunk: Vec<u8>,
) -> std::result::Result<(), Refusal> {
    Ok(sink.send(Bytes::from(chunk)).await?)
}

#[async_trait]
impl Writer for PostgresWriter {
    async fn begin(&mut self, advances: &[Advance]) -> Result<Claim> {
        if self.state == State::Open && self.single_transaction {
            return self.go_on(advances).await;
        }
        if self.state != State::Idle {
            return Err(Error::bug("a transaction was begun inside another"));
        }
        self.staged = false;
        self.saved = false;
        self.claimed.clear();
        if let PreparedStrategy::Partitions { copies, .. } = &mut self.path {
            copies.values_mut().for_each(|copy| copy.verified = false);
        }
        // One round trip: each is sent behind the one before, and does nothing without it.
        let (begun, moved, held) = futures::join!(
            self.client.batch_execute(&self.begin),
            self.claim(advances),
            self.holds()
        );
        let claim = match begun.map_err(errors::statement).and(moved) {
            Ok(Claim::Held) => held.map(|held| held.then_some(Claim::Held)),
            moved => moved.map(Some),
        };
        match claim {
            Ok(Some(Claim::Held)) => {
                self.claimed.extend_from_slice(advances);
                self.state = State::Open;
                self.empty().await?;
                Ok(Claim::Held)
            }
            Ok(Some(Claim::Moved)) => {
                self.give_up().await;
                Ok(Claim::Moved)
            }
            Ok(None) => Err(self.altered().await),
            Err(error) => {
                self.give_up().await;
                Err(error)
            }
        }
    }

    async fn write(&mut self, rows: &RecordBatch, guard: Guard) -> Result<Outcome> {
        if self.state != State::Open {
            return Err(Error::bug("rows were written outside a transaction"));
        }
        let mut sent = Sent::default();
        if rows.num_rows() == 0 {
            return Ok(Outcome {
                skipped: 0,
                statements: 0,
                bytes_sent: 0,
                failure: None,
            });
        }
        self.clear_stage().await?;
        let runs = self.runs(rows).await?;
        // One round trip: rows are sent behind the locks of their partitions, and fail with them.
        let (held, applied) = match guard {
            Guard::None => futures::join!(self.partitions_hold(&runs), self.apply(rows, &runs, &mut sent)),
            Guard::Savepoint => {
                let savepoint = match std::mem::take(&mut self.saved) {
                    true => SAVEPOINT_AGAIN,
                    false => SAVEPOINT,
                };
                // And behind the savepoint.
                let (saved, held, applied) = futures::join!(
                    self.client.batch_execute(savepoint),
                    self.partitions_hold(&runs),
                    self.apply(rows, &runs, &mut sent)
                );
                if let Err(error) = saved {
                    self.state = State::Broken;
                    return Err(errors::statement(error));
                }
                (held, applied)
            }
        };
        match held {
            Ok(true) => self.verified(&runs),
            Ok(false) => return Err(self.altered().await),
            Err(error) => {
                self.state = State::Broken;
                return Err(error);
            }
        }
        let mut skipped = 0;
        let failure = match applied {
            Ok(left_out) => {
                skipped = left_out;
                self.staged = true;
                match (guard, &self.path) {
                    (Guard::None, _) => {}
                    // What goes through the stage is to be gone from it before the next savepoint.
                    (Guard::Savepoint, PreparedStrategy::Stage { .. }) => self
                        .client
                        .batch_execute(RELEASE)
                        .await
                        .inspect_err(|_| self.state = State::Broken)
                        .map_err(errors::statement)?,
                    (Guard::Savepoint, _) => self.saved = true,
                }
                None
            }
            Err(refusal) => Some(self.refused(refusal, guard).await?),
        };
        Ok(Outcome {
            skipped,
            statements: sent.statements,
            bytes_sent: sent.bytes,
            failure,
        })
    }

    async fn write_each(&mut self, rows: &RecordBatch) -> Result<Option<EachOutcome>> {
        self.clear_stage().await?;
        self.each(rows).await
    }

    async fn commit(&mut self, advances: &[Advance]) -> Result<()> {
        if self.state != State::Open {
            return Err(Error::bug("a transaction that is not open was to be committed"));
        }
        if let Some(mover) = self.mover.as_ref().filter(|_| !advances.is_empty()) {
            let (statement, parameters) = mover.adjust(&self.claimed, advances)?;
            self.state = State::Broken;
            let adjusted = self
                .client
                .execute(statement, &borrowed(&parameters))
                .await
                .map_err(errors::statement)?;
            if adjusted != advances.len() as u64 {
                return Err(Error::bug("the ledger's rows changed inside our own transaction"));
            }
        }
        if self
            .definition
            .as_ref()
            .is_some_and(|definition| !definition.locks())
        {
            // The rows have locked it meanwhile.
            self.state = State::Broken;
            if !self.holds().await? {
                return Err(self.altered().await);
            }
        }
        self.state = State::Idle;
        self.client.batch_execute("COMMIT").await.map_err(errors::commit)
    }

    async fn rollback(&mut self) -> Result<()> {
        if self.state == State::Idle {
            return Ok(());
        }
        self.state = State::Idle;
        match self.client.batch_execute("ROLLBACK").await {
            Ok(()) => Ok(()),
            // A connection that is gone has taken its transaction with it.
            Err(error) if error.as_db_error().is_none_or(errors::is_fatal) => Ok(()),
            Err(error) => Err(errors::statement(error)),
        }
    }

    fn places(&mut self) -> Option<&mut Vec<u64>> {
        None
    }

    fn requests_max(&self) -> Option<usize> {
        None
    }
}
