//! Writing: rows with the timestamp of their place in the run, many requests at once.
//!
//! Invariants:
//! - The timestamp of a row is when its run began plus its number in the source, in microseconds. It is the same in every
//!   attempt, so a row that is sent again changes nothing, also where another request of an earlier attempt is still on
//!   its way; and of the rows of a key the last one wins, in whatever order they arrive.
//! - Nothing is undone. A write that fails leaves rows behind; it is sent again, or the account has them as unfinished.
//! - The slots of a write move once all of its rows are acknowledged.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicUsize, Ordering},
};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use scylla::{
    client::session::Session,
    statement::{
        Consistency,
        batch::{Batch, BatchStatement, BatchType},
        prepared::PreparedStatement,
    },
};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::RunHandle,
    operation::{Method, Operation},
    slot::{Advance, at_commit},
    table::{altered, check_unaltered},
    target::{Claim, EachOutcome, Failure, Guard, Outcome, WriteRequest, Writer},
};
use tonnage_sqlite::local::LedgerFile;

use super::{
    batches::{self, Ring},
    catalog::{self, Described},
    encode::{Absent, Bound, Cells, ColumnEncoder, Fault, Role, Stamped},
    errors::{self, Doing},
    types::quote,
};

/// Writes one lane's rows.
pub(super) struct CassandraWriter {
    session: Arc<Session>,
    described: Described,
    statement: PreparedStatement,
    columns: Vec<ColumnEncoder>,
    /// Places of the partition key among the columns, in its order.
    partition: Vec<usize>,
    ring: Ring,
    method: Method,
    consistency: Consistency,
    stamped: Stamped,
    absent: Absent,
    ledger: Option<(Arc<LedgerFile>, RunHandle)>,
    in_flight_max: Arc<AtomicUsize>,
    /// When the run began: microseconds since 1970.
    began: i64,
    places: Vec<u64>,
    /// Whether a write may come, and the steps that its end takes.
    open: Option<Vec<Advance>>,
}

/// When a run began, from its id, which begins with the milliseconds: rounded up, so that what was written before is
/// older.
fn began(run_id: &str) -> Result<i64> {
    let millis = run_id.get(..12).and_then(|hex| i64::from_str_radix(hex, 16).ok());
    millis
        .map(|millis| (millis + 1) * 1_000)
        .ok_or_else(|| Error::bug(format!("run {run_id} does not say when it began")))
}

/// Now, and never the same or less than before: a writer that takes another's place must not write older rows.
fn now() -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let now = i64::try_from(super::since_1970().as_micros()).unwrap_or(i64::MAX);
    LAST.fetch_max(now, Ordering::Relaxed).max(now)
}

impl CassandraWriter {
    pub(super) async fn open(
        session: &Arc<Session>,
        described: Described,
        plan: &WriteRequest,
        consistency: Consistency,
        ledger: Option<(Arc<LedgerFile>, RunHandle)>,
        in_flight_max: &Arc<AtomicUsize>,
    ) -> Result<Self> {
        let changed = || Error::altered(&plan.table.name, "was altered");
        check_unaltered(&plan.table, Some(&described.table))?;
        let whole_partition = described.partition.len() == 1;
        let columns = plan.columns.iter().map(|column| {
            let at = described.position(&column.name).ok_or_else(changed)?;
            Ok(ColumnEncoder {
                name: column.name.clone(),
                kind: described.kinds[at].clone().ok_or_else(changed)?,
                role: match (
                    described.partition.contains(&at),
                    described.clustering.contains(&at),
                ) {
                    (true, _) if whole_partition => Role::Partition,
                    (true, _) | (_, true) => Role::Key,
                    _ => Role::Value,
                },
            })
        });
        let columns: Vec<ColumnEncoder> = columns.collect::<Result<_>>()?;
        let place = |at: &usize| {
            let name = &described.table.columns[*at].name;
            let found = columns.iter().position(|column| column.name == *name);
            found.ok_or_else(|| {
                Error::schema(format!("the source does not fill key column '{name}'")).hint(
                    "Cassandra finds a row by its whole primary key; --map names a column of another name",
                )
            })
        };
        described
            .clustering
            .iter()
            .try_for_each(|at| place(at).map(|_| ()))?;
        let partition: Vec<usize> = described.partition.iter().map(place).collect::<Result<_>>()?;
        let (cql, stamped) = statement(&described, plan, &columns);
        let mut statement = super::prepare(session, cql).await?;
        statement.set_consistency(consistency);
        statement.set_is_idempotent(true);
        Ok(Self {
            ring: Ring::of(session, &described),
            session: session.clone(),
            statement,
            columns,
            partition,
            method: plan.method,
            consistency,
            stamped,
            absent: match plan.operation {
                Operation::Upsert { .. } => Absent::Null,
                _ => Absent::Unset,
            },
            began: match &ledger {
                Some((_, run)) => began(&run.run_id)?,
                None => now(),
            },
            ledger,
            in_flight_max: in_flight_max.clone(),
            places: Vec::new(),
            open: None,
            described,
        })
    }

    /// Sends rows that share their replicas; in halves where the server finds them invalid, down to the bad row, whose
    /// number and error come back.
    async fn send(&self, cells: &[Cells], rows: &[usize]) -> Result<Sent> {
        let mut sent = Sent::default();
        let mut waiting: Vec<&[usize]> = vec![rows];
        while let Some(rows) = waiting.pop() {
            let values: Vec<Bound<'_>> = rows.iter().map(|row| self.bound(cells, *row)).collect();
            sent.statements += 1;
            let answer = match values.as_slice() {
                [one] => self.session.execute_unpaged(&self.statement, one).await,
                _ => {
                    let statements =
                        vec![BatchStatement::PreparedStatement(self.statement.clone()); rows.len()];
                    let mut batch = Batch::new_with_statements(BatchType::Unlogged, statements);
                    batch.set_consistency(self.consistency);
                    batch.set_is_idempotent(true);
                    self.session.batch(&batch, values).await
                }
            };
            let Err(error) = answer else { continue };
            let error = errors::execution(error, Doing::Rows);
            match (error.kind(), rows) {
                (ErrorKind::Rejected, [row]) => {
                    // A table that is gone makes every row invalid.
                    if let Some(what) = self.altered().await? {
                        return Err(Error::altered(&self.described.table.name, what).caused_by(error));
                    }
                    sent.bad.push((*row, error));
                }
                (ErrorKind::Rejected, rows) => {
                    let (head, tail) = rows.split_at(rows.len() / 2);
                    waiting.extend([head, tail]);
                }
                _ => return Err(error),
            }
        }
        Ok(sent)
    }

    /// How the table is not what the plan was made for, as the catalogue has it now.
    async fn altered(&self) -> Result<Option<String>> {
        let before = &self.described.table;
        let now = catalog::describe(&self.session, &self.described.keyspace, &before.name).await?;
        Ok(altered(before, now.as_ref().map(|now| &now.table)))
    }

    fn bound<'a>(&self, columns: &'a [Cells], row: usize) -> Bound<'a> {
        // Without the engine rows are numbered as they come.
        let place = self.places.get(row).map_or(row as i64, |place| *place as i64);
        Bound {
            columns,
            row,
            stamp: self.began.saturating_add(place),
            stamped: self.stamped,
            absent: self.absent,
        }
    }
}

/// What became of a request.
#[derive(Default)]
struct Sent {
    statements: u64,
    bad: Vec<(usize, Error)>,
}

fn statement(described: &Described, plan: &WriteRequest, columns: &[ColumnEncoder]) -> (String, Stamped) {
    let names: Vec<String> = columns.iter().map(|column| quote(&column.name)).collect();
    match plan.operation {
        Operation::Delete { .. } => {
            let conditions: Vec<String> = names.iter().map(|name| format!("{name} = ?")).collect();
            let cql = format!(
                "DELETE FROM {} USING TIMESTAMP ? WHERE {}",
                described.quoted(),
                conditions.join(" AND ")
            );
            (cql, Stamped::First)
        }
        _ => {
            let cql = format!(
                "INSERT INTO {} ({}) VALUES ({}) USING TIMESTAMP ?",
                described.quoted(),
                names.join(", "),
                vec!["?"; names.len()].join(", ")
            );
            (cql, Stamped::Last)
        }
    }
}

#[async_trait]
impl Writer for CassandraWriter {
    async fn begin(&mut self, advances: &[Advance]) -> Result<Claim> {
        if self.open.is_some() {
            return Err(Error::bug("a write was begun inside another"));
        }
        if let Some((ledger, run)) = &self.ledger
            && ledger.stands(run, advances).await? == Claim::Moved
        {
            return Ok(Claim::Moved);
        }
        self.open = Some(advances.to_vec());
        Ok(Claim::Held)
    }

    fn places(&mut self) -> Option<&mut Vec<u64>> {
        Some(&mut self.places)
    }

    fn requests_max(&self) -> Option<usize> {
        Some(self.in_flight_max.load(Ordering::Relaxed))
    }

    async fn write(&mut self, rows: &RecordBatch, _: Guard) -> Result<Outcome> {
        if self.open.is_none() {
            return Err(Error::bug("rows were written outside a write"));
        }
        let mut outcome = Outcome {
            statements: 0,
            bytes_sent: 0,
            skipped: 0,
            failure: None,
        };
        let mut cells = Vec::with_capacity(self.columns.len());
        for (column, array) in self.columns.iter().zip(rows.columns()) {
            match column.encode(array)? {
                Ok(encoded) => cells.push(encoded),
                Err(found) => {
                    let Fault { row, column, misfit } = found;
                    outcome.failure = Some(Failure::of_row(row, &column, misfit.code, misfit.message));
                    return Ok(outcome);
                }
            }
        }
        let allowed = self.in_flight_max.load(Ordering::Relaxed);
        let (groups, in_flight) = match self.method {
            Method::Array | Method::Native => (
                batches::group(&cells, &self.partition, rows.num_rows(), &self.ring),
                allowed / batches::BATCH_WEIGHT,
            ),
            Method::Batch | Method::Single => ((0..rows.num_rows()).map(|row| vec![row]).collect(), allowed),
        };
        let (writer, values) = (&*self, &cells);
        let sending: Vec<_> = groups.iter().map(|group| writer.send(values, group)).collect();
        let sending = stream::iter(sending).buffer_unordered(in_flight.max(1));
        // Nothing holds off DDL. Types that were changed, by a table that was made again, would let the bytes of the
        // rows mean something else: the catalogue is asked at the same time as rows are sent, at no cost in time, and what it says holds
        // before the slots move.
        let (sent, altered) = futures::join!(sending.try_collect(), self.altered());
        let sent: Result<Vec<Sent>> = sent;
        // An overload counts as one whichever of both has met it.
        let sent = match altered {
            Ok(Some(what)) => return Err(Error::altered(&self.described.table.name, what)),
            Ok(None) => sent,
            Err(error) => sent.and(Err(error)),
        };
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) => {
                if error.kind() == ErrorKind::Overloaded {
                    self.in_flight_max
                        .fetch_min((allowed / 2).max(1), Ordering::Relaxed);
                }
                return Err(error);
            }
        };
        let grown = (allowed + 1 + allowed / 8).min(batches::IN_FLIGHT_MAX);
        // Unless another lane has met an overload meanwhile: what went through before that says nothing.
        let _ = self
            .in_flight_max
            .compare_exchange(allowed, grown, Ordering::Relaxed, Ordering::Relaxed);
        outcome.statements = sent.iter().map(|sent| sent.statements).sum();
        outcome.bytes_sent = cells.iter().map(Cells::bytes).sum::<usize>() as u64;
        let bad = sent.into_iter().flat_map(|sent| sent.bad);
        outcome.failure = bad.min_by_key(|(row, _)| *row).map(|(row, error)| Failure {
            applied: 0,
            suspect: Some(row),
            intact: true,
            error,
            column: None,
        });
        Ok(outcome)
    }

    async fn write_each(&mut self, _: &RecordBatch) -> Result<Option<EachOutcome>> {
        // There is no transaction that a bad row could cost.
        Ok(None)
    }

    async fn commit(&mut self, fixed: &[Advance]) -> Result<()> {
        let Some(begun) = self.open.take() else {
            return Err(Error::bug("a commit outside a write"));
        };
        if let Some((ledger, run)) = &self.ledger {
            ledger.advance(run, at_commit(begun, fixed)).await?;
        }
        Ok(())
    }

    async fn rollback(&mut self) -> Result<()> {
        self.open = None;
        Ok(())
    }
}
