//! Writes rows on a connection and a thread of its own.
//!
//! - Whoever has a transaction open holds the database's gate: another writer, a take-over or a start waits until it has
//!   ended. Dropping the writer undoes it.
//! - `native` puts a batch into a temporary table by bulk ingest, in Arrow's form, and applies it from there by one statement.
//!   Bulk ingest goes nowhere else: DuckDB's driver does not report what the last rows of it have met. `array` is a
//!   statement with the values of many rows as parameters, `batch` and `single` have a row a statement; what differs
//!   between the two is how often the engine commits.
//! - A statement that fails undoes the transaction. So rows of a write that has failed are looked at before they are
//!   applied ([`Checks`]); what that does not find is found by halves.

use arrow::array::{RecordBatch, UInt32Array};
use async_trait::async_trait;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::RunHandle,
    operation::{Method, Operation},
    slot::{Advance, gather},
    table::{Table, TableIdentity, altered},
    target::{Claim, EachOutcome, Failure, Guard, Outcome, Refused, WriteRequest, Writer},
};
use tonnage_sql::thread::Thread;

use super::{
    apply::{Applied, Refusal, by_statements, by_values, staged},
    catalog::{self, Found},
    checks::Checks,
    connection::{self, Connection, Gate, Held},
    encode::{Bad, Encoded, Encoder},
    errors::{self, Doing, failed},
    execute, ledger,
    location::Location,
    sql::{Change, STAGE, Written, parameter},
    types::{self, Check},
};

/// Values of a statement at most.
const VALUES_MAX: usize = 16_384;

/// Rows of an array statement at most: a longer one takes DuckDB longer to prepare than it saves.
const ARRAY_ROWS: usize = 1_000;

/// The most rows one write may have by [`Method::Array`] for this many columns.
pub(crate) fn array_rows(columns: usize) -> usize {
    (VALUES_MAX / columns.max(1)).clamp(1, ARRAY_ROWS)
}

/// A connection that writes one plan's rows.
pub(crate) struct DuckWriter {
    /// Dropped before the gate is given up, which undoes what is open.
    thread: Thread<WriteSession>,
    gate: Gate,
    held: Option<Held>,
}

impl DuckWriter {
    /// Opens the connection on a thread of its own.
    pub(crate) async fn open(
        location: Location,
        plan: &WriteRequest,
        run: Option<&RunHandle>,
    ) -> Result<Self> {
        let (plan, run) = (plan.clone(), run.cloned());
        let open = move || WriteSession::open(&location, plan, run);
        let thread = Thread::start("duckdb-writer", open).await?;
        let gate = thread.run(|session| session.gate.clone()).await?;
        Ok(Self {
            thread,
            gate,
            held: None,
        })
    }
}

#[async_trait]
impl Writer for DuckWriter {
    async fn begin(&mut self, advances: &[Advance]) -> Result<Claim> {
        if self.held.is_none() {
            self.held = Some(self.gate.clone().lock_owned().await);
        }
        let advances = advances.to_vec();
        let claim = self.thread.run(move |session| session.begin(advances)).await?;
        if !matches!(claim, Ok(Claim::Held)) {
            self.held = None;
        }
        claim
    }

    async fn write(&mut self, rows: &RecordBatch, guard: Guard) -> Result<Outcome> {
        let rows = rows.clone();
        self.thread
            .run(move |session| session.write(&rows, guard))
            .await?
    }

    async fn write_each(&mut self, rows: &RecordBatch) -> Result<Option<EachOutcome>> {
        let rows = rows.clone();
        self.thread.run(move |session| session.write_each(&rows)).await?
    }

    async fn commit(&mut self, advances: &[Advance]) -> Result<()> {
        let advances = advances.to_vec();
        let committed = self.thread.run(move |session| session.commit(&advances)).await?;
        self.held = None;
        committed
    }

    async fn rollback(&mut self) -> Result<()> {
        let undone = self.thread.run(WriteSession::rollback).await?;
        self.held = None;
        undone
    }

    fn places(&mut self) -> Option<&mut Vec<u64>> {
        None
    }

    fn requests_max(&self) -> Option<usize> {
        None
    }
}

/// The transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    No,
    Yes,
    /// A statement has failed, and with it all that was in it.
    Lost,
}

/// What the thread owns.
struct WriteSession {
    connection: Connection,
    gate: Gate,
    plan: WriteRequest,
    run: Option<RunHandle>,
    open: Open,
    /// What the table is, for the shape at hand.
    identity: Option<TableIdentity>,
    /// What is derived from the table, or how it is not what the plan was made for.
    shape: std::result::Result<Shape, String>,
    /// The advances of the open transaction.
    begun: Vec<Advance>,
}

/// What the table's definition makes of the plan.
struct Shape {
    work: Apply,
    encoder: Encoder,
    checks: Checks,
    rows_a_statement: Option<usize>,
}

/// How rows are applied.
enum Apply {
    Change(Box<Change>),
    /// The user's own statement, a row each.
    Statement {
        sql: String,
        stands_alone: bool,
    },
}

impl WriteSession {
    fn open(location: &Location, plan: WriteRequest, run: Option<RunHandle>) -> Result<Self> {
        let gone = || Error::schema(format!("{} is gone", location.shown()));
        if !location.exists()? {
            return Err(gone());
        }
        let shared = connection::open(location)?;
        let gate = shared.gate();
        let mut session = Self {
            connection: shared.connect()?,
            gate,
            plan,
            run,
            open: Open::No,
            identity: None,
            shape: Err(String::new()),
            begun: Vec::new(),
        };
        session.look()?;
        Ok(session)
    }

    /// Reads what the table is by now.
    fn look(&mut self) -> Result<()> {
        let identity = catalog::identity_of(&mut self.connection, &self.plan.table.name)?;
        if identity.is_some() && identity == self.identity {
            return Ok(());
        }
        self.shape = Shape::read(&mut self.connection, &self.plan)?;
        self.identity = identity;
        Ok(())
    }

    fn begin(&mut self, advances: Vec<Advance>) -> Result<Claim> {
        let open = self.open == Open::Yes;
        if open && !self.plan.single_transaction {
            return Err(Error::bug("a transaction was begun within another"));
        }
        if !open {
            self.connection.run("BEGIN TRANSACTION").map_err(failed)?;
            self.open = Open::Yes;
        }
        match self.claim(&advances, open) {
            Ok(true) => {
                gather(&mut self.begun, &advances);
                Ok(Claim::Held)
            }
            Ok(false) => {
                self.rollback()?;
                Ok(Claim::Moved)
            }
            Err(error) => {
                self.rollback()?;
                Err(error)
            }
        }
    }

    /// Moves the slots; false where one was not in its place. The first time in a single transaction the table is
    /// emptied afterwards, where that belongs to it.
    fn claim(&mut self, advances: &[Advance], open: bool) -> Result<bool> {
        if let Some(run) = &self.run
            && !ledger::advance(&mut self.connection, run, advances)?
        {
            return Ok(false);
        }
        self.look()?;
        if let Err(what) = &self.shape {
            return Err(Error::altered(&self.plan.table.name, what));
        }
        if !open && self.plan.single_transaction && self.plan.preparation.truncates() {
            ledger::truncate(&mut self.connection, &self.plan.table.name)?;
        }
        Ok(true)
    }

    /// That rows can be written by now.
    fn ready(&self) -> Result<()> {
        match (self.open, &self.shape) {
            (Open::Yes, Ok(_)) => Ok(()),
            (Open::Yes, Err(_)) => Err(Error::bug("rows for a table that was altered")),
            (Open::No | Open::Lost, _) => Err(Error::bug("rows were written outside a transaction")),
        }
    }

    fn write(&mut self, rows: &RecordBatch, guard: Guard) -> Result<Outcome> {
        self.ready()?;
        let Self {
            connection,
            shape,
            open,
            ..
        } = self;
        let shape = shape.as_ref().map_err(Error::bug)?;
        let mut outcome = Outcome {
            skipped: 0,
            statements: 0,
            bytes_sent: rows.get_array_memory_size() as u64,
            failure: None,
        };
        let relation = match shape.encoder.encode(rows)? {
            Ok(relation) => relation,
            Err(bad) => {
                outcome.failure = Some(of_bad(bad));
                return Ok(outcome);
            }
        };
        let looks = guard == Guard::Savepoint || shape.checks.always;
        let applied = match &shape.work {
            Apply::Statement { sql, stands_alone } => by_statements(connection, sql, &relation)
                .map(|changed| (changed.0, skipped_of(*stands_alone, rows, changed.1))),
            Apply::Change(change) if looks => {
                return look_and_apply(connection, (shape, change), &relation, (outcome, open));
            }
            Apply::Change(change) => match shape.rows_a_statement {
                None => staged(connection, change, relation.clone()),
                Some(at_once) => by_values(connection, change, &relation, at_once),
            },
        };
        settle(applied, &mut outcome, open, rows.num_rows())?;
        Ok(outcome)
    }

    fn write_each(&mut self, rows: &RecordBatch) -> Result<Option<EachOutcome>> {
        self.ready()?;
        let Self {
            connection,
            shape,
            open,
            ..
        } = self;
        let shape = shape.as_ref().map_err(Error::bug)?;
        let Apply::Change(change) = &shape.work else {
            return Ok(None);
        };
        if !shape.checks.complete {
            return Ok(None);
        }
        let encoded = tonnage_core::getter::encodable(rows, |rows| shape.encoder.encode(rows))?;
        let place = |row: usize| encoded.places.as_ref().map_or(row, |places| places[row] as usize);
        let mut refused: Vec<Refused> = encoded
            .faults
            .into_iter()
            .map(|(row, bad)| refused_of(row, bad))
            .collect();
        let mut outcome = EachOutcome {
            statements: 1,
            bytes_sent: rows.get_array_memory_size() as u64,
            skipped: 0,
            refused: Vec::new(),
        };
        let relation = encoded.encoded;
        connection
            .stage(STAGE, relation.clone())
            .map_err(|failure| errors::error(failure, Doing::Rows))?;
        let bad = shape.checks.bad(connection, change, STAGE)?;
        let good: Vec<u32> = (0..relation.num_rows() as u32)
            .filter(|row| bad.binary_search_by_key(&(*row as usize), |bad| bad.row).is_err())
            .collect();
        refused.extend(bad.into_iter().map(|bad| Refused {
            row: place(bad.row),
            ..bad
        }));
        refused.sort_by_key(|refused| refused.row);
        outcome.refused = refused;
        if good.is_empty() {
            return Ok(Some(outcome));
        }
        let kept = arrow::compute::take_record_batch(&relation, &UInt32Array::from(good))
            .map_err(tonnage_core::error::arrow_bug)?;
        match staged(connection, change, kept) {
            Ok((statements, skipped)) => {
                outcome.statements += statements;
                outcome.skipped = skipped;
                Ok(Some(outcome))
            }
            Err(refusal) => {
                *open = Open::Lost;
                Err(match refusal {
                    Refusal::Failed(error) => error,
                    Refusal::Refused { error, .. } => {
                        Error::bug(format!("rows that were looked at were refused: {error}"))
                    }
                })
            }
        }
    }

    fn commit(&mut self, advances: &[Advance]) -> Result<()> {
        if self.open != Open::Yes {
            return Err(Error::bug("there is no transaction to commit"));
        }
        if let Some(run) = &self.run
            && let Err(error) = ledger::correct(&mut self.connection, run, &self.begun, advances)
        {
            self.rollback()?;
            return Err(error);
        }
        let committed = self.connection.run("COMMIT");
        self.begun.clear();
        // A commit that fails has undone the transaction.
        self.open = Open::No;
        committed.map_err(|failure| errors::error(failure, Doing::Commit))
    }

    fn rollback(&mut self) -> Result<()> {
        self.begun.clear();
        match std::mem::replace(&mut self.open, Open::No) {
            Open::No => Ok(()),
            Open::Yes | Open::Lost => self.connection.run("ROLLBACK").map_err(failed),
        }
    }
}

fn of_bad(bad: Bad) -> Failure {
    Failure::of_row(bad.row, &bad.column, bad.code, bad.message)
}

fn refused_of(row: usize, bad: Bad) -> Refused {
    Refused {
        row,
        error: Error::new(ErrorKind::Rejected, bad.message).code(bad.code),
        column: Some(bad.column),
    }
}

/// What a statement of the user's has left out of so many rows.
fn skipped_of(stands_alone: bool, rows: &RecordBatch, changed: u64) -> u64 {
    match stands_alone {
        true => 0,
        false => (rows.num_rows() as u64).saturating_sub(changed),
    }
}

/// Takes what became of rows into the account.
fn settle(applied: Applied, outcome: &mut Outcome, open: &mut Open, rows: usize) -> Result<()> {
    match applied {
        Ok((statements, skipped)) => {
            outcome.statements += statements;
            outcome.skipped += skipped;
            Ok(())
        }
        Err(refusal) => {
            *open = Open::Lost;
            match refusal {
                Refusal::Failed(error) => Err(error),
                Refusal::Refused { error, suspect } => {
                    outcome.skipped = 0;
                    outcome.failure = Some(Failure {
                        applied: 0,
                        suspect: suspect.or((rows == 1).then_some(0)),
                        intact: false,
                        error,
                        column: None,
                    });
                    Ok(())
                }
            }
        }
    }
}

/// Applies the rows before the first one that is found to be bad.
fn look_and_apply(
    connection: &mut Connection,
    (shape, change): (&Shape, &Change),
    relation: &RecordBatch,
    (mut outcome, open): (Outcome, &mut Open),
) -> Result<Outcome> {
    connection
        .stage(STAGE, relation.clone())
        .map_err(|failure| errors::error(failure, Doing::Rows))?;
    let bad = shape.checks.bad(connection, change, STAGE)?.into_iter().next();
    let good = bad.as_ref().map_or(relation.num_rows(), |bad| bad.row);
    if good > 0 {
        let applied = staged(connection, change, relation.slice(0, good));
        settle(applied, &mut outcome, open, good)?;
    }
    if let (Some(bad), None) = (bad, &outcome.failure) {
        outcome.failure = Some(Failure {
            applied: good,
            suspect: Some(bad.row),
            intact: true,
            error: bad.error,
            column: bad.column,
        });
    }
    Ok(outcome)
}

impl Shape {
    /// Or how the table is not what the plan was made for.
    fn read(connection: &mut Connection, plan: &WriteRequest) -> Result<std::result::Result<Self, String>> {
        if let Operation::Statement { statement, .. } = &plan.operation {
            let described = execute::describe(connection, statement)?;
            if described.identity.shape != plan.table.identity.shape {
                return Ok(Err(
                    "has columns that are declared otherwise than when the run began".to_owned(),
                ));
            }
            let columns = plan.columns.iter().map(|column| Encoded {
                name: column.name.clone(),
                ty: column.ty,
                check: Check::None,
                required: false,
            });
            let carried: Vec<_> = plan
                .columns
                .iter()
                .map(|column| types::carried(&column.ty))
                .collect();
            return Ok(Ok(Self {
                encoder: Encoder::new(columns.collect()),
                work: Apply::Statement {
                    sql: statement.render(|at| match carried.get(at) {
                        Some(ty) => format!("CAST({} AS {ty})", parameter(at)),
                        None => parameter(at),
                    }),
                    stands_alone: statement.stands_alone(),
                },
                checks: Checks::none(),
                rows_a_statement: Some(1),
            }));
        }
        let found =
            catalog::find(connection, &plan.table.name)?.filter(|found| found.name == plan.table.name);
        let now = match &found {
            Some(found) if !found.is_view => Some(catalog::describe(connection, found)?),
            _ => None,
        };
        if let Some(what) = altered(&plan.table, now.as_ref()) {
            return Ok(Err(what));
        }
        match (found, now) {
            (Some(found), Some(now)) => Self::of_table(connection, plan, &found, &now).map(Ok),
            _ => Ok(Err("was dropped or renamed".to_owned())),
        }
    }

    fn of_table(
        connection: &mut Connection,
        plan: &WriteRequest,
        found: &Found,
        table: &Table,
    ) -> Result<Self> {
        let takes_nulls = matches!(plan.operation, Operation::Delete { .. });
        let (mut written, mut encoded) = (Vec::new(), Vec::new());
        for column in &plan.columns {
            let target = table.columns.iter().find(|known| known.name == column.name);
            let target =
                target.ok_or_else(|| Error::bug(format!("column '{}' is not there", column.name)))?;
            let known = types::of_name(&target.declared);
            let known =
                known.ok_or_else(|| Error::bug(format!("column '{}' cannot be written", column.name)))?;
            written.push(Written {
                name: column.name.clone(),
                declared: target.declared.clone(),
                carried: types::carried(&column.ty),
                as_it_is: known.as_it_is && known.ty == column.ty,
            });
            encoded.push(Encoded {
                name: column.name.clone(),
                ty: column.ty,
                check: known.check,
                required: !target.nullable && !takes_nulls,
            });
        }
        let place = |name: &String| {
            let found = plan.columns.iter().position(|column| column.name == *name);
            found.ok_or_else(|| Error::bug(format!("key column {name} is not written")))
        };
        let key = plan
            .operation
            .key()
            .iter()
            .map(place)
            .collect::<Result<Vec<_>>>()?;
        let change = Change {
            table: table.name.clone(),
            columns: written,
            key,
            operation: plan.operation.clone(),
        };
        Ok(Self {
            checks: Checks::read(connection, found, &change)?,
            rows_a_statement: match plan.method {
                Method::Native => None,
                Method::Array => Some(array_rows(plan.columns.len())),
                Method::Batch | Method::Single => Some(1),
            },
            encoder: Encoder::new(encoded),
            work: Apply::Change(Box::new(change)),
        })
    }
}
