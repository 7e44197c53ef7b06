//! Writes rows on a connection and a thread of its own.
//!
//! - A transaction is BEGIN IMMEDIATE: it waits for the file's one writer to end, then nobody else writes and
//!   nobody changes the schema until it ends. Dropping the writer undoes it.
//! - `native`, `batch` and `single` are one prepared statement a row (what differs is how often the engine commits),
//!   `array` is one of up to [`ARRAY_ROWS`] rows; all send a batch to the thread once.
//! - Into a table without keys, indexes and checks `native` inserts many rows a statement as well: a third faster there.
//!   That statement keeps the rows before the one that NOT NULL refuses, and the connection counts them; after any
//!   other refusal nobody knows which it kept, so the transaction is given up. Where bad rows are being looked for it
//!   has one row.
//! - What a statement left out is what it was sent less `sqlite3_changes`, which counts neither what triggers
//!   nor what foreign keys do. Where a trigger may have left the row out (`RAISE(IGNORE)`), its key is looked
//!   up: only a row that its operation spares is skipped, any other is refused.
//! - SQLite undoes a failed statement by itself, so a savepoint is set only where triggers may have left
//!   something behind (`RAISE(FAIL)`, `RAISE(IGNORE)`).

use std::ops::Range;

use arrow::array::{Array, RecordBatch};
use async_trait::async_trait;
use rusqlite::{CachedStatement, Connection, ffi, params};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::RunHandle,
    operation::{Method, Operation},
    reject::sqlstate,
    slot::{Advance, Counts, gather},
    table::{Table, altered},
    target::{Claim, EachOutcome, Failure, Guard, Outcome, WriteRequest, Writer},
};
use tonnage_sql::thread::Thread;

use super::{
    catalog::{self, Behaviour},
    checkpoint::Checkpoints,
    connect::{self, Journal, Location},
    encode::{Encoded, Encoder},
    errors::{self, Doing},
    execute, ledger,
    sql::{Change, Changed, Spares},
};

/// Rows an array statement at most: beyond some fifty a longer statement gains nothing.
pub(super) const ARRAY_ROWS: usize = 50;

/// Parameters a statement may have in SQLite as bundled.
const PARAMETERS_MAX: usize = 32_766;

/// Rows encoded at a time: few enough for their encoded form to be small and for little of it to be lost to a
/// bad row.
const ENCODE_ROWS: usize = 1_000;

/// Rows of `columns` values in an array statement.
fn array_rows(columns: usize) -> usize {
    (PARAMETERS_MAX / columns.max(1)).clamp(1, ARRAY_ROWS)
}

/// A connection that writes one plan's rows.
pub(super) struct SqliteWriter {
    thread: Thread<Session>,
}

impl SqliteWriter {
    /// Opens the connection on a thread of its own.
    pub(super) async fn open(
        location: Location,
        plan: &WriteRequest,
        run: Option<&RunHandle>,
    ) -> Result<Self> {
        let plan = plan.clone();
        let run = run.cloned();
        let thread = Thread::start("sqlite-writer", move || Session::open(&location, plan, run)).await?;
        Ok(Self { thread })
    }
}

#[async_trait]
impl Writer for SqliteWriter {
    async fn begin(&mut self, advances: &[Advance]) -> Result<Claim> {
        let advances = advances.to_vec();
        self.thread.run(move |session| session.begin(advances)).await?
    }

    async fn write(&mut self, rows: &RecordBatch, guard: Guard) -> Result<Outcome> {
        let rows = rows.clone();
        self.thread
            .run(move |session| session.write(&rows, guard))
            .await?
    }

    async fn write_each(&mut self, _: &RecordBatch) -> Result<Option<EachOutcome>> {
        // A write finds its bad rows itself, one after another.
        Ok(None)
    }

    async fn commit(&mut self, advances: &[Advance]) -> Result<()> {
        let advances = advances.to_vec();
        self.thread.run(move |session| session.commit(&advances)).await?
    }

    async fn rollback(&mut self) -> Result<()> {
        self.thread.run(Session::rollback).await?
    }

    fn places(&mut self) -> Option<&mut Vec<u64>> {
        None
    }

    fn requests_max(&self) -> Option<usize> {
        None
    }
}

/// What the thread owns.
struct Session {
    connection: Connection,
    /// Makes the connection's checkpoints, where the file keeps a write-ahead log.
    _checkpoints: Option<Checkpoints>,
    plan: WriteRequest,
    columns: Vec<String>,
    run: Option<RunHandle>,
    /// The table that the user's statement named when this was opened. A table that is planned for has its object in the plan,
    /// but a statement over several databases is planned once for all of them.
    named: Option<String>,
    /// The version of the schema that the shape was derived from.
    schema_version: i64,
    /// What is derived from the schema, or how the table is not what the plan was made for.
    shape: std::result::Result<Shape, String>,
    /// The advances of the open transaction.
    begun: Vec<Advance>,
}

/// What the table's definition makes of the plan.
struct Shape {
    change: Change,
    rows_a_statement: usize,
    encoder: Encoder,
    triggers: bool,
}

impl Session {
    fn open(location: &Location, plan: WriteRequest, run: Option<RunHandle>) -> Result<Self> {
        let mut connection = location
            .open_existing()?
            .ok_or_else(|| Error::schema(format!("{} is gone", location.shown())))?;
        let journal = connect::set_up_writer(&connection, plan.durability, location)?;
        let checkpoints = match journal {
            Journal::Wal => Checkpoints::start(location, &mut connection)?,
            Journal::Rollback => None,
        };
        let columns: Vec<String> = plan.columns.iter().map(|column| column.name.clone()).collect();
        let schema_version = schema_version(&connection)?;
        let named = named_object(&connection, &plan)?;
        let shape = Shape::read(&connection, &plan, &columns)?;
        Ok(Self {
            schema_version,
            named,
            connection,
            _checkpoints: checkpoints,
            plan,
            columns,
            run,
            shape,
            begun: Vec::new(),
        })
    }

    fn begin(&mut self, advances: Vec<Advance>) -> Result<Claim> {
        let open = !self.connection.is_autocommit();
        if open && !self.plan.single_transaction {
            return Err(Error::bug("a transaction was begun within another"));
        }
        if !open {
            self.connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
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
        let moved = match &self.run {
            Some(run) => ledger::advance(&self.connection, run, advances)?,
            None => true,
        };
        if moved {
            self.verify()?;
            if !open && self.plan.single_transaction && self.plan.preparation.truncates() {
                ledger::truncate(&self.connection, &self.plan.table.name.name)?;
            }
        }
        Ok(moved)
    }

    /// That the table is what the plan was made for. Nobody changes the schema until the transaction ends.
    fn verify(&mut self) -> Result<()> {
        let version = schema_version(&self.connection)?;
        if version != self.schema_version {
            // Statements prepared under another schema would be prepared anew while running.
            self.connection.flush_prepared_statement_cache();
            self.shape = match named_object(&self.connection, &self.plan)? == self.named {
                true => Shape::read(&self.connection, &self.plan, &self.columns)?,
                false => Err("was dropped or replaced by another table of its name".to_owned()),
            };
            self.schema_version = version;
        }
        match &self.shape {
            Ok(_) => Ok(()),
            Err(what) => Err(Error::altered(&self.plan.table.name, what)),
        }
    }

    fn shape(&self) -> Result<&Shape> {
        let shape = self.shape.as_ref();
        shape.map_err(|_| Error::bug("rows for a table that was altered"))
    }

    fn write(&mut self, rows: &RecordBatch, guard: Guard) -> Result<Outcome> {
        if self.connection.is_autocommit() {
            return Err(Error::bug("rows were written outside a transaction"));
        }
        let shape = self.shape()?;
        let mut outcome = Outcome {
            skipped: 0,
            statements: 0,
            bytes_sent: arrow_bytes(rows)?,
            failure: None,
        };
        let mut statement = Prepared {
            connection: &self.connection,
            change: &shape.change,
            triggers: shape.triggers,
            current: None,
        };
        let guarded = guard == Guard::Savepoint && shape.triggers;
        let rows_a_statement = match guard {
            Guard::Savepoint if shape.change.keeps() => 1,
            _ => shape.rows_a_statement,
        };
        let encode_rows = (ENCODE_ROWS / rows_a_statement).max(1) * rows_a_statement;
        let mut start = 0;
        while start < rows.num_rows() {
            let chunk = rows.slice(start, encode_rows.min(rows.num_rows() - start));
            let encoded = shape.encoder.encode(&chunk)?;
            let good = encoded.bad.as_ref().map_or(chunk.num_rows(), |bad| bad.row);
            let mut done = 0;
            while done < good {
                let count = rows_a_statement.min(good - done);
                outcome.statements += 1;
                match statement.apply(&encoded, done..done + count, guarded)? {
                    Ok(left_out) => outcome.skipped += left_out as u64,
                    Err(refusal) => {
                        let failure = self.failure(refusal, start + done, count, guarded)?;
                        if !failure.intact {
                            outcome.skipped = 0;
                        }
                        outcome.failure = Some(failure);
                        return Ok(outcome);
                    }
                }
                done += count;
            }
            if let Some(bad) = encoded.bad {
                outcome.failure = Some(Failure {
                    applied: start + good,
                    suspect: Some(start + good),
                    intact: true,
                    error: bad.error,
                    column: Some(bad.column),
                });
                return Ok(outcome);
            }
            start += chunk.num_rows();
        }
        Ok(outcome)
    }

    /// What is left of the transaction after a statement of `count` rows from `first` on was refused.
    fn failure(&self, refusal: Refusal, first: usize, count: usize, guarded: bool) -> Result<Failure> {
        let shape = self.shape()?;
        // RAISE(ROLLBACK) ends the transaction.
        let open = !self.connection.is_autocommit();
        if open && guarded {
            self.connection
                .execute_batch("ROLLBACK TO tonnage_write; RELEASE tonnage_write")
                .map_err(failed)?;
        }
        let mut intact = open && (guarded || !shape.triggers);
        let (mut first, mut suspect) = (first, (count == 1).then_some(first));
        if count > 1 && shape.change.keeps() {
            match &refusal {
                Refusal::Failed(failure) if intact && errors::keeps_rows(failure) => {
                    first += self.connection.changes().min(count as u64 - 1) as usize;
                    suspect = Some(first);
                }
                _ => intact = false,
            }
        }
        let (error, column) = match refusal {
            Refusal::Skipped => {
                let error = Error::new(
                    ErrorKind::Rejected,
                    format!("a trigger of {} left the row out", self.plan.table.name),
                )
                .code(sqlstate::WOULD_CHANGE)
                .hint(
                    "its RAISE(IGNORE) would lose rows silently; drop the trigger for the load, or the row",
                );
                (error, None)
            }
            Refusal::Failed(failure) => {
                let column = errors::column(&failure, &self.plan.table.name.name, &self.columns);
                (errors::error(failure, Doing::Rows), column)
            }
        };
        Ok(Failure {
            applied: if intact { first } else { 0 },
            suspect,
            intact,
            error,
            column,
        })
    }

    fn commit(&mut self, advances: &[Advance]) -> Result<()> {
        if self.connection.is_autocommit() {
            return Err(Error::bug("there is no transaction to commit"));
        }
        if let Err(error) = self.correct(advances) {
            self.rollback()?;
            return Err(error);
        }
        let Err(failure) = self.connection.execute_batch("COMMIT") else {
            self.begun.clear();
            return Ok(());
        };
        // What the commit said matters more than a rollback that fails after it; the next begin would meet
        // that.
        let _ = self.rollback();
        Err(match errors::code(&failure) & 0xff {
            ffi::SQLITE_IOERR => errors::in_doubt(failure),
            ffi::SQLITE_CONSTRAINT => errors::error(failure, Doing::Rows).hint(
                "a DEFERRABLE INITIALLY DEFERRED foreign key is checked at commit: load parent rows first",
            ),
            _ => failed(failure),
        })
    }

    /// Replaces the counts given at begin.
    fn correct(&self, advances: &[Advance]) -> Result<()> {
        let Some(run) = &self.run else {
            return Ok(());
        };
        let mut correct = self
            .connection
            .prepare_cached(
                "UPDATE tonnage_slots SET written = written + ?1, skipped = skipped + ?2,
                 rejected = rejected + ?3 WHERE run_id = ?4 AND slot = ?5",
            )
            .map_err(failed)?;
        for step in advances {
            let begun = self.begun.iter().find(|begun| begun.slot == step.slot);
            let given = begun
                .ok_or_else(|| Error::bug(format!("slot {} was not begun", step.slot)))?
                .counts;
            let change = |count: fn(&Counts) -> u64| count(&step.counts).wrapping_sub(count(&given)) as i64;
            correct
                .execute(params![
                    change(|counts| counts.written),
                    change(|counts| counts.skipped),
                    change(|counts| counts.rejected),
                    run.run_id,
                    step.slot,
                ])
                .map_err(failed)?;
        }
        Ok(())
    }

    fn rollback(&mut self) -> Result<()> {
        self.begun.clear();
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK").map_err(failed)?;
        }
        Ok(())
    }
}

/// Which table a statement's name leads to; none of other operations, and where there is no such table.
fn named_object(connection: &Connection, plan: &WriteRequest) -> Result<Option<String>> {
    if !matches!(plan.operation, Operation::Statement { .. }) {
        return Ok(None);
    }
    let named = catalog::read_table(connection, &plan.table.name.name)?;
    Ok(named.map(|table| table.identity.object))
}

impl Shape {
    /// Or how the table is not what the plan was made for.
    fn read(
        connection: &Connection,
        plan: &WriteRequest,
        columns: &[String],
    ) -> Result<std::result::Result<Self, String>> {
        let table = &plan.table.name;
        if let Operation::Statement { statement, .. } = &plan.operation {
            let prepared = match execute::prepare(connection, statement, plan) {
                Err(error) if error.kind() == ErrorKind::Schema => {
                    return Ok(Err(format!("was altered ({error})")));
                }
                prepared => prepared?,
            };
            return Ok(Ok(Self {
                change: Change::of_statement(statement),
                rows_a_statement: 1,
                encoder: Encoder::new(prepared.columns)?,
                triggers: prepared.leaves_traces,
            }));
        }
        let now = catalog::read_table(connection, &table.name)?;
        // Indexes and constraints may come and go: they refuse rows, and change the meaning of none.
        let same = |now: &Table| {
            now.identity.object == plan.table.identity.object && now.columns == plan.table.columns
        };
        let behaviour = catalog::behaviour(connection, &table.name, plan.operation.key())?;
        let Some(Behaviour {
            affinities,
            triggers,
            conflict_clause,
            plain,
            key,
        }) = behaviour.filter(|_| now.as_ref().is_some_and(same))
        else {
            let what = altered(&plan.table, now.as_ref());
            return Ok(Err(what.unwrap_or_else(|| "was altered".to_owned())));
        };
        let mut encoded = Vec::with_capacity(columns.len());
        for column in &plan.columns {
            let (_, affinity) = affinities
                .iter()
                .find(|(name, _)| *name == column.name)
                .ok_or_else(|| {
                    Error::schema(format!("table {table} has no column {} any more", column.name))
                })?;
            encoded.push((column.name.clone(), column.ty, *affinity));
        }
        // With a key or an index a statement of many rows takes twice the time of as many statements: SQLite keeps a
        // copy of every page that the statement changes.
        let keeps = plain && plan.operation == Operation::Insert && plan.method == Method::Native;
        let change = Change::new(&Changed {
            table: &table.name,
            columns,
            operation: &plan.operation,
            key: &key,
            overrule: conflict_clause,
            keeps,
        })?;
        // Of many rows it would not be known which one was left out, and so not because of which other.
        let ambiguous = triggers && change.spares() != Spares::Nothing;
        let rows_a_statement = match plan.method {
            Method::Array if change.takes_many() && !ambiguous => array_rows(columns.len()),
            Method::Native if keeps => array_rows(columns.len()),
            _ => 1,
        };
        Ok(Ok(Self {
            change,
            rows_a_statement,
            encoder: Encoder::new(encoded)?,
            triggers,
        }))
    }
}

/// Why a statement did nothing.
enum Refusal {
    Failed(rusqlite::Error),
    /// It succeeded, and fewer rows were written than sent.
    Skipped,
}

/// The change, prepared for as many rows as were last asked for.
struct Prepared<'a> {
    connection: &'a Connection,
    change: &'a Change,
    triggers: bool,
    current: Option<(usize, CachedStatement<'a>)>,
}

impl Prepared<'_> {
    /// Applies rows of a batch in one statement and counts those that the operation left out. Refused rows are
    /// a refusal, everything else an error.
    fn apply(
        &mut self,
        encoded: &Encoded,
        rows: Range<usize>,
        guarded: bool,
    ) -> Result<Result<usize, Refusal>> {
        let count = rows.len();
        if self.current.as_ref().is_none_or(|(rows, _)| *rows != count) {
            let statement = self
                .connection
                .prepare_cached(&self.change.sql(count))
                .map_err(failed)?;
            self.current = Some((count, statement));
        }
        let Some((_, statement)) = &mut self.current else {
            return Err(Error::bug("no statement was prepared"));
        };
        if guarded {
            self.connection
                .execute_batch("SAVEPOINT tonnage_write")
                .map_err(failed)?;
        }
        let first = rows.start;
        let applied = encoded
            .bind(statement, self.change.parameters(), rows)
            .and_then(|()| statement.raw_execute());
        let idle = match applied {
            Ok(changed) => count.saturating_sub(changed),
            Err(failure) if errors::is_rejection(&failure) => return Ok(Err(Refusal::Failed(failure))),
            Err(failure) => return Err(errors::error(failure, Doing::Rows)),
        };
        if idle > 0 && !self.spares(encoded, first)? {
            return Ok(Err(Refusal::Skipped));
        }
        if guarded {
            self.connection
                .execute_batch("RELEASE tonnage_write")
                .map_err(failed)?;
        }
        Ok(Ok(match self.change.spares() {
            Spares::Nothing | Spares::Same => 0,
            Spares::Present | Spares::Absent | Spares::Any => idle,
        }))
    }

    /// Whether it was the operation that left a row as it is. With triggers a statement has one row.
    fn spares(&self, encoded: &Encoded, row: usize) -> Result<bool> {
        let spared = match self.change.spares() {
            Spares::Nothing => return Ok(false),
            Spares::Any => return Ok(true),
            _ if !self.triggers => return Ok(true),
            Spares::Same | Spares::Present => true,
            Spares::Absent => false,
        };
        let mut lookup = self
            .connection
            .prepare_cached(self.change.lookup())
            .map_err(failed)?;
        let bound = encoded.bind(&mut lookup, self.change.key(), row..row + 1);
        bound.map_err(failed)?;
        let found = lookup.raw_query().next().map_err(failed)?.is_some();
        Ok(found == spared)
    }
}

fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

fn schema_version(connection: &Connection) -> Result<i64> {
    connection
        .query_row("PRAGMA schema_version", [], |row| row.get(0))
        .map_err(failed)
}

/// The bytes of a batch's own rows, whatever buffers they share.
fn arrow_bytes(rows: &RecordBatch) -> Result<u64> {
    let mut bytes = 0;
    for column in rows.columns() {
        let column = column.to_data().get_slice_memory_size();
        bytes += column.map_err(|error| Error::bug("a batch has no size").caused_by(error))? as u64;
    }
    Ok(bytes)
}
