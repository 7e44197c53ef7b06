//! The ledger, in the DuckDB file that holds the rows.
//!
//! Its tables are [`tonnage_sql::ledger`]'s; [`TABLES`](super::catalog::TABLES) tells tables apart. They have no keys but one:
//! everything that changes them is behind the database's gate, and finds few rows. Unsigned 64-bit numbers are stored as the
//! integers of the same bits. The connection blocks, and has a thread of its own for that; so no future of the ledger over it
//! ever waits, and polling it once is running it ([`ready`]).

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray},
    compute::cast,
    datatypes::{DataType, Int64Type},
};
use async_trait::async_trait;
use futures::FutureExt;
use tokio::sync::OnceCell;
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    ledger::{Emptied, NewRun, OtherLedger, RunDetail, RunHandle, Setup, Sought},
    slot::{Advance, Counts, SlotState},
    table::TableName,
};
use tonnage_sql::{
    ledger::{
        Dialect, Keys, Place, RUNS, Row, SLOT_COLUMNS, SLOTS, Session, Tables, Value, Work, with_claimed,
    },
    thread::Thread,
};

use super::{
    catalog::{self, MAKE_TABLES},
    connection::{self, Connection, Gate, Held},
    errors::{self, Doing, failed},
    location::Location,
    sql::name_of,
};

const MAKE: [&str; 5] = [
    "CREATE TABLE IF NOT EXISTS tonnage_runs (run_id VARCHAR NOT NULL, identity VARCHAR NOT NULL, unfinished VARCHAR UNIQUE, \
     epoch BIGINT NOT NULL, started BIGINT NOT NULL, finished BIGINT, detail VARCHAR NOT NULL, written BIGINT NOT NULL, \
     skipped BIGINT NOT NULL, rejected BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tonnage_slots (run_id VARCHAR NOT NULL, epoch BIGINT NOT NULL, slot BIGINT NOT NULL, \
     block BIGINT NOT NULL, block_rows BIGINT NOT NULL, file BIGINT NOT NULL, byte_offset BIGINT NOT NULL, \
     file_rows BIGINT NOT NULL, source_rows BIGINT NOT NULL, hash BIGINT NOT NULL, written BIGINT NOT NULL, \
     skipped BIGINT NOT NULL, rejected BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tonnage_inputs (run_id VARCHAR NOT NULL, number BIGINT NOT NULL, found_by VARCHAR NOT NULL, \
     detail VARCHAR NOT NULL)",
    "CREATE TABLE IF NOT EXISTS tonnage_parts (job_id VARCHAR NOT NULL, part BIGINT NOT NULL, state VARCHAR NOT NULL, \
     attempt BIGINT NOT NULL, owner VARCHAR, lease_until BIGINT NOT NULL, connections BIGINT NOT NULL, run_id VARCHAR, \
     written BIGINT NOT NULL, skipped BIGINT NOT NULL, rejected BIGINT NOT NULL, error VARCHAR, detail VARCHAR NOT NULL)",
    MAKE_TABLES,
];

const DIALECT: Dialect = Dialect {
    placeholder: |number| format!("${number}"),
    now: "(epoch_ms(now()) // 1000)",
    count_type: "BIGINT",
    for_update: "",
    skip_locked: "",
    on_conflict: " ON CONFLICT DO NOTHING",
    duplicate: None,
    unfinished: Some("unfinished"),
    slot_columns: SLOT_COLUMNS,
    moves: None,
    begins_with: |given, _| format!("starts_with(run_id, {given})"),
    keys: Keys::Each(50),
    statement_bytes_max: 1 << 20,
};

fn tables() -> Tables {
    Tables::within(&DIALECT, "", |name| format!("main.{name}"))
}

/// What a function of the ledger returns, which never waits here.
fn ready<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let waits = || Err(Error::bug("the ledger waits for a file"));
    work.now_or_never().unwrap_or_else(waits)
}

/// Does `work` in a transaction, which is committed where it succeeds and else undone. Whoever calls it holds the gate.
pub(crate) fn transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&mut Connection) -> Result<T>,
) -> Result<T> {
    connection.run("BEGIN TRANSACTION").map_err(failed)?;
    let done = work(connection).and_then(|done| match connection.run("COMMIT") {
        Ok(()) => Ok(done),
        Err(failure) => Err(errors::error(failure, Doing::Commit)),
    });
    // A commit that has failed has undone it already.
    if done.is_err()
        && let Err(failure) = connection.run("ROLLBACK")
    {
        tracing::debug!("ROLLBACK after a failure: {failure}");
    }
    done
}

/// A DuckDB file, and the connection that catalogue and ledger use. Looking does not make it.
pub(crate) struct Database {
    location: Location,
    /// Started when it is first used.
    control: OnceCell<Thread<Control>>,
}

/// What the thread of a database owns.
pub(crate) struct Control {
    location: Location,
    open: Option<(Connection, Gate)>,
}

impl Control {
    /// The connection, if there is a file by now.
    pub(crate) fn existing(&mut self) -> Result<Option<&mut Connection>> {
        if self.open.is_none() && self.location.exists()? {
            self.open()?;
        }
        Ok(self.open.as_mut().map(|(connection, _)| connection))
    }

    /// The connection to the file, which must be there.
    pub(crate) fn required(&mut self) -> Result<&mut Connection> {
        let missing = Error::schema(format!("{} does not exist", self.location.shown()));
        self.existing()?.ok_or(missing)
    }

    fn open(&mut self) -> Result<()> {
        let shared = connection::open(&self.location)?;
        self.open = Some((shared.connect()?, shared.gate()));
        Ok(())
    }
}

/// Whether a file that is not there is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// It is.
    Made,
    /// There is nothing to be done then.
    Left,
}

impl Database {
    pub(crate) fn new(location: Location) -> Self {
        Self {
            location,
            control: OnceCell::new(),
        }
    }

    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// Does `work` on the thread of the database.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Control) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let control = Control {
            location: self.location.clone(),
            open: None,
        };
        let start = || Thread::start("duckdb-control", || Ok(control));
        self.control.get_or_try_init(start).await?.run(work).await?
    }

    /// Waits until nobody else changes the database, and keeps others from it; none where there is no file.
    pub(crate) async fn hold(&self, missing: Missing) -> Result<Option<Held>> {
        let gate = self
            .run(move |control| {
                if missing == Missing::Made && control.existing()?.is_none() {
                    control.open()?;
                }
                control.existing()?;
                Ok(control.open.as_ref().map(|(_, gate)| gate.clone()))
            })
            .await?;
        match gate {
            Some(gate) => Ok(Some(gate.lock_owned().await)),
            None => Ok(None),
        }
    }

    /// Does `work` in a transaction, while nobody else changes the database; none where there is no file.
    pub(crate) async fn transact<T: Send + 'static>(
        &self,
        missing: Missing,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<Option<T>> {
        let Some(held) = self.hold(missing).await? else {
            return Ok(None);
        };
        self.run(move |control| {
            // Until the work has come to its end, also when nobody waits for it any more.
            let _held = held;
            transaction(control.required()?, work).map(Some)
        })
        .await
    }
}

/// Whether the ledger was ever made.
fn is_made(connection: &mut Connection) -> Result<bool> {
    let query = format!(
        "SELECT CAST(count(*) AS BIGINT) FROM duckdb_tables() WHERE database_name = current_database() \
         AND schema_name = 'main' AND table_name = '{RUNS}'"
    );
    Ok(catalog::count(connection, &query)? > 0)
}

fn make(connection: &mut Connection) -> Result<()> {
    let mut make = MAKE.into_iter().map(|statement| connection.run(statement));
    make.try_for_each(|made| made.map_err(|failure| failed(failure).at("the ledger cannot be made")))
}

/// The connection as the ledger sees it.
struct DuckSession<'c>(&'c mut Connection);

/// Values as parameters, in one row.
fn parameters(values: &[Value]) -> Result<Option<RecordBatch>> {
    if values.is_empty() {
        return Ok(None);
    }
    let arrays = values.iter().enumerate().map(|(at, value)| {
        let array: ArrayRef = match value {
            Value::Integer(number) => Arc::new(Int64Array::from(vec![*number])),
            Value::Bits(bits) => Arc::new(Int64Array::from(vec![*bits as i64])),
            Value::Text(text) => Arc::new(StringArray::from(vec![text.as_str()])),
            Value::Null | Value::Texts(_) | Value::Unreadable => {
                Arc::new(StringArray::from(vec![None::<&str>]))
            }
        };
        (format!("p{at}"), array, true)
    });
    RecordBatch::try_from_iter_with_nullable(arrays)
        .map(Some)
        .map_err(arrow_bug)
}

/// The values of a column.
fn read(array: &ArrayRef) -> Vec<Value> {
    if let Some(texts) = array.as_string_opt::<i32>() {
        let each = texts.iter().map(|text| text.map_or(Value::Null, Value::from));
        return each.collect();
    }
    let numbers = match array.data_type() {
        DataType::Null => return vec![Value::Null; array.len()],
        DataType::Boolean | DataType::Int32 | DataType::Int64 | DataType::UInt64 => {
            cast(array, &DataType::Int64).ok()
        }
        _ => None,
    };
    let Some(numbers) = numbers else {
        return vec![Value::Unreadable; array.len()];
    };
    let each = numbers.as_primitive::<Int64Type>().iter();
    each.map(|number| number.map_or(Value::Null, Value::Integer))
        .collect()
}

#[async_trait]
impl Session for DuckSession<'_> {
    async fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
        let answer = self.0.query(sql, parameters(values)?).map_err(failed)?;
        let mut rows = Vec::new();
        for batch in &answer {
            let columns: Vec<Vec<Value>> = batch.columns().iter().map(read).collect();
            let row = |row: usize| columns.iter().map(|column| column[row].clone()).collect();
            rows.extend((0..batch.num_rows()).map(row).collect::<Vec<Row>>());
        }
        Ok(rows)
    }

    async fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64> {
        self.0.change(sql, parameters(values)?).map_err(failed)
    }

    async fn prepare(&mut self, run: &NewRun, _: &mut RunDetail) -> Result<()> {
        if run.preparation.truncates() {
            truncate(self.0, &run.table)?;
        }
        catalog::mark(self.0, &run.table)
    }

    async fn taken_over(&mut self, _: &str, _: &[SlotState]) -> Result<()> {
        Ok(())
    }

    async fn settle(&mut self, _: &str, _: &mut RunDetail) -> Result<()> {
        Ok(())
    }

    async fn undo(&mut self, _: &str, _: Option<&RunDetail>) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl Place for Database {
    fn lost_race(&self, error: &Error) -> bool {
        error.code_text().is_some_and(errors::lost_race)
    }

    async fn ask<T: Send + 'static>(&self, work: Work<T>) -> Result<Option<T>> {
        self.run(|control| {
            let Some(connection) = control.existing()? else {
                return Ok(None);
            };
            match is_made(connection)? {
                true => ready(work(&mut DuckSession(connection), &tables())).map(Some),
                false => Ok(None),
            }
        })
        .await
    }

    async fn change<T: Send + 'static>(&self, work: Work<T>) -> Result<Option<T>> {
        let changed = self.transact(Missing::Left, |connection| match is_made(connection)? {
            true => ready(work(&mut DuckSession(connection), &tables())).map(Some),
            false => Ok(None),
        });
        Ok(changed.await?.flatten())
    }

    async fn begin(&self, _: &NewRun, work: Work<RunHandle>) -> Result<RunHandle> {
        let begun = self.transact(Missing::Left, |connection| {
            make(connection)?;
            ready(work(&mut DuckSession(connection), &tables()))
        });
        let missing = || Error::schema(format!("{} does not exist", self.location.shown()));
        begun.await?.ok_or_else(missing)
    }

    async fn check(&self) -> Result<()> {
        Ok(())
    }

    /// The file that holds it is the one that was named.
    async fn elsewhere(&self, _: &Sought) -> Result<Vec<OtherLedger>> {
        Ok(Vec::new())
    }

    async fn setup(&self, grantees: &[String]) -> Result<Vec<Setup>> {
        if !grantees.is_empty() {
            return Err(Error::config("DuckDB has no roles to grant the ledger's use to")
                .hint("leave --grant out; who may write the file may use the ledger"));
        }
        Ok(vec![Setup {
            place: "the file that has the rows".to_owned(),
            statements: MAKE.map(str::to_owned).to_vec(),
            notes: vec![
                "a table that is loaded gets a mark in its comment, by which the ledger knows it again"
                    .to_owned(),
            ],
        }])
    }

    async fn set_up(&self, _: &[String]) -> Result<()> {
        self.transact(Missing::Left, make).await.map(|_| ())
    }

    /// The file holds the ledger and the rows.
    async fn emptied(&self, _: &[String]) -> Result<Vec<Emptied>> {
        Ok(Vec::new())
    }

    async fn accept_emptied(&self, _: &RunHandle) -> Result<()> {
        Ok(())
    }
}

/// Moves slots from their expected positions, under the epoch of `run`. False where one is elsewhere; in a transaction that is
/// then undone.
pub(crate) fn advance(connection: &mut Connection, run: &RunHandle, steps: &[Advance]) -> Result<bool> {
    if steps.is_empty() {
        return Ok(true);
    }
    let rows = steps.iter().map(|step| {
        // 64 unsigned bits are kept as the integer of the same bits.
        let numbers = [
            i64::from(step.slot),
            step.from.block as i64,
            step.from.rows as i64,
            step.to.block as i64,
            step.to.rows as i64,
            i64::from(step.mark.file),
            step.mark.offset as i64,
            step.mark.file_rows as i64,
            step.mark.rows as i64,
            step.mark.hash as i64,
            step.counts.written as i64,
            step.counts.skipped as i64,
            step.counts.rejected as i64,
        ];
        tuple(&numbers)
    });
    let update = format!(
        "UPDATE main.{SLOTS} SET block = m.block_to, block_rows = m.rows_to, file = m.file, byte_offset = m.byte_offset, \
         file_rows = m.file_rows, source_rows = m.source_rows, hash = m.hash, written = {SLOTS}.written + m.written, \
         skipped = {SLOTS}.skipped + m.skipped, rejected = {SLOTS}.rejected + m.rejected \
         FROM (VALUES {}) AS m(slot, block_from, rows_from, block_to, rows_to, file, byte_offset, file_rows, source_rows, \
         hash, written, skipped, rejected) WHERE {SLOTS}.run_id = $1 AND {SLOTS}.epoch = $2 AND {SLOTS}.slot = m.slot \
         AND {SLOTS}.block = m.block_from AND {SLOTS}.block_rows = m.rows_from",
        rows.collect::<Vec<_>>().join(", ")
    );
    let values = [Value::from(run.run_id.as_str()), run.epoch.into()];
    let moved = connection.change(&update, parameters(&values)?).map_err(failed)?;
    Ok(moved == steps.len() as u64)
}

/// Replaces the counts given at begin.
pub(crate) fn correct(
    connection: &mut Connection,
    run: &RunHandle,
    begun: &[Advance],
    advances: &[Advance],
) -> Result<()> {
    if advances.is_empty() {
        return Ok(());
    }
    let rows = with_claimed(begun, advances)?.into_iter().map(|(step, given)| {
        let change = |count: fn(&Counts) -> u64| count(&step.counts).wrapping_sub(count(&given)) as i64;
        let changes = [
            i64::from(step.slot),
            change(|counts| counts.written),
            change(|counts| counts.skipped),
            change(|counts| counts.rejected),
        ];
        tuple(&changes)
    });
    let update = format!(
        "UPDATE main.{SLOTS} SET written = {SLOTS}.written + m.written, skipped = {SLOTS}.skipped + m.skipped, \
         rejected = {SLOTS}.rejected + m.rejected FROM (VALUES {}) AS m(slot, written, skipped, rejected) \
         WHERE {SLOTS}.run_id = $1 AND {SLOTS}.slot = m.slot",
        rows.collect::<Vec<_>>().join(", ")
    );
    let values = [Value::from(run.run_id.as_str())];
    connection
        .change(&update, parameters(&values)?)
        .map(|_| ())
        .map_err(failed)
}

fn tuple(numbers: &[i64]) -> String {
    let each: Vec<_> = numbers
        .iter()
        .map(|number| format!("({number})::BIGINT"))
        .collect();
    format!("({})", each.join(", "))
}

/// Removes all rows.
pub(crate) fn truncate(connection: &mut Connection, table: &TableName) -> Result<()> {
    let emptied = connection.run(&format!("DELETE FROM {}", name_of(table)));
    emptied.map_err(|failure| failed(failure).at(format!("table {table} cannot be emptied")))
}
