//! The ledger's tables, in the file that holds the rows or in a file of its own ([`local`](crate::local)).
//!
//! `tonnage_runs` has a row a run, `tonnage_slots` a row a slot of an unfinished run, `tonnage_inputs` the rows by which
//! runs are found, `tonnage_parts` a row a part of a job; `tonnage_tables` and `tonnage_fence` tell tables apart (see [`identity`]). They are plain tables, not
//! STRICT ones, so that an older SQLite can still open the file. Unsigned 64-bit numbers are stored as the integers of the
//! same bits.
//!
//! What is done to them is [`tonnage_sql::ledger`]'s. Every change is one BEGIN IMMEDIATE transaction: it waits for the
//! transactions of other owners. The connection blocks, and has a thread of its own for that; so no future of the ledger over
//! it ever waits, and polling it once is running it ([`ready`]).

use async_trait::async_trait;
use futures::FutureExt;
use rusqlite::{
    Connection, ffi, params, params_from_iter,
    types::{ToSqlOutput, ValueRef},
};
use tonnage_core::{
    error::{Error, Result},
    ledger::{NewRun, RunDetail, RunHandle},
    slot::{Advance, SlotState},
};
use tonnage_sql::ledger::{self, Dialect, INPUTS, Keys, PARTS, RUNS, Row, Session, Tables, Value};

use super::{
    errors::{self, Doing},
    identity,
    local::RowsIn,
    prepare,
    sql::quote,
};

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS tonnage_runs (
  run_id TEXT NOT NULL PRIMARY KEY,
  identity TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  started INTEGER NOT NULL,
  finished INTEGER,
  detail TEXT NOT NULL,
  written INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  rejected INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS tonnage_runs_unfinished ON tonnage_runs (identity) WHERE finished IS NULL;
CREATE INDEX IF NOT EXISTS tonnage_runs_identity ON tonnage_runs (identity, run_id);
CREATE INDEX IF NOT EXISTS tonnage_runs_finished ON tonnage_runs (finished, run_id) WHERE finished IS NOT NULL;
CREATE TABLE IF NOT EXISTS tonnage_slots (
  run_id TEXT NOT NULL,
  slot INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  block INTEGER NOT NULL,
  rows INTEGER NOT NULL,
  mark_file INTEGER NOT NULL,
  mark_offset INTEGER NOT NULL,
  mark_file_rows INTEGER NOT NULL,
  mark_rows INTEGER NOT NULL,
  mark_hash INTEGER NOT NULL,
  written INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  rejected INTEGER NOT NULL,
  PRIMARY KEY (run_id, slot)
) WITHOUT ROWID";

const TABLE_OF_INPUTS: &str = "
CREATE TABLE IF NOT EXISTS tonnage_inputs (
  run_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  found_by TEXT NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (run_id, number)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tonnage_inputs_found ON tonnage_inputs (found_by, run_id)";

const TABLE_OF_PARTS: &str = "
CREATE TABLE IF NOT EXISTS tonnage_parts (
  job_id TEXT NOT NULL,
  part INTEGER NOT NULL,
  state TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  owner TEXT,
  lease_until INTEGER NOT NULL,
  connections INTEGER NOT NULL,
  run_id TEXT,
  written INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  rejected INTEGER NOT NULL,
  error TEXT,
  detail TEXT NOT NULL,
  PRIMARY KEY (job_id, part)
) WITHOUT ROWID";

const DIALECT: Dialect = Dialect {
    placeholder: |number| format!("?{number}"),
    now: "unixepoch()",
    count_type: "integer",
    for_update: "",
    skip_locked: "",
    on_conflict: " ON CONFLICT DO NOTHING",
    duplicate: None,
    unfinished: None,
    slot_columns: "slot, block, rows, mark_file, mark_offset, mark_file_rows, mark_rows, mark_hash, written, skipped, \
                   rejected",
    moves: None,
    // The range of texts that begin with it: no character is greater than the last.
    begins_with: |given, _| format!("run_id >= {given} AND run_id < {given} || char(1114111)"),
    keys: Keys::Each(50),
    statement_bytes_max: 1 << 20,
};

pub(super) fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

/// What a function of the ledger returns, which never waits here.
pub(super) fn ready<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let waits = || Err(Error::bug("the ledger waits for a file"));
    work.now_or_never().unwrap_or_else(waits)
}

/// The statements that make the tables.
pub(super) fn statements() -> Vec<String> {
    let all = TABLES
        .split(';')
        .chain(TABLE_OF_INPUTS.split(';'))
        .chain([TABLE_OF_PARTS]);
    all.map(|statement| statement.trim().to_owned()).collect()
}

/// A connection to the file of a ledger.
pub(super) struct InFile<'c> {
    pub(super) connection: &'c mut Connection,
    pub(super) rows: &'c RowsIn,
}

impl InFile<'_> {
    /// The tables; none where the ledger was never made.
    pub(super) fn tables(&mut self) -> Result<Option<Tables>> {
        let query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name IN (?1, ?2, ?3)";
        let found = ready(self.query(query, &[RUNS.into(), INPUTS.into(), PARTS.into()]))?;
        let has = |table: &str| found.iter().any(|row| *row == [Value::from(table)]);
        let mut tables = Tables::within(&DIALECT, "", str::to_owned);
        tables.inputs = tables.inputs.filter(|inputs| has(inputs));
        tables.parts = tables.parts.filter(|parts| has(parts));
        Ok(has(RUNS).then_some(tables))
    }

    /// Makes the tables where they are missing, in a transaction. Runs of a ledger that was made before there were rows to
    /// find them by get theirs.
    pub(super) fn make(&mut self) -> Result<Tables> {
        let found = self.tables()?;
        if found.is_none() {
            // Left of a ledger that was dropped: what it knew is to be forgotten.
            let left = format!("DROP TABLE IF EXISTS {INPUTS}; DROP TABLE IF EXISTS {PARTS}");
            self.connection.execute_batch(&left).map_err(failed)?;
        }
        self.connection.execute_batch(TABLES).map_err(failed)?;
        self.connection.execute_batch(TABLE_OF_PARTS).map_err(failed)?;
        let tables = Tables::within(&DIALECT, "", str::to_owned);
        if found.is_none_or(|found| found.inputs.is_none()) {
            self.connection.execute_batch(TABLE_OF_INPUTS).map_err(failed)?;
            ready(ledger::fill(self, &tables, INPUTS))?;
        }
        Ok(tables)
    }

    /// Does `work` in a transaction that holds the file's write lock from its beginning.
    pub(super) fn change<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        let done = work(self).and_then(|done| match self.connection.execute_batch("COMMIT") {
            Ok(()) => Ok(done),
            Err(failure) if errors::code(&failure) & 0xff == ffi::SQLITE_IOERR => {
                Err(errors::in_doubt(failure))
            }
            Err(failure) => Err(failed(failure)),
        });
        // Some failures have undone it already.
        if done.is_err()
            && !self.connection.is_autocommit()
            && let Err(failure) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::debug!("ROLLBACK after a failure: {failure}");
        }
        done
    }
}

fn given(value: &Value) -> ToSqlOutput<'_> {
    match value {
        Value::Integer(number) => (*number).into(),
        Value::Bits(bits) => (*bits as i64).into(),
        Value::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        Value::Null | Value::Texts(_) | Value::Unreadable => rusqlite::types::Null.into(),
    }
}

fn read(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Text(text) => str::from_utf8(text).map_or(Value::Unreadable, Value::from),
        ValueRef::Real(_) | ValueRef::Blob(_) => Value::Unreadable,
    }
}

#[async_trait]
impl Session for InFile<'_> {
    async fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>> {
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let columns = statement.column_count();
        let each = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get_ref(at).map(read)).collect();
        statement
            .query_map(params_from_iter(values.iter().map(given)), each)
            .and_then(Iterator::collect)
            .map_err(failed)
    }

    async fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64> {
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let changed = statement.execute(params_from_iter(values.iter().map(given)));
        changed.map(|rows| rows as u64).map_err(failed)
    }

    async fn prepare(&mut self, run: &NewRun, detail: &mut RunDetail) -> Result<()> {
        if let RowsIn::Elsewhere(_) = self.rows {
            return Ok(());
        }
        // The fence must come after the ledger's own tables.
        identity::renew_fence(self.connection).map_err(failed)?;
        if run.preparation.truncates() {
            truncate(self.connection, &run.table.name)?;
        }
        prepare::prepare(self.connection, run, detail)
    }

    async fn taken_over(&mut self, run_id: &str, slots: &[SlotState]) -> Result<()> {
        match self.rows {
            RowsIn::ThisFile => Ok(()),
            RowsIn::Elsewhere(rows) => rows.taken_over(run_id, slots),
        }
    }

    async fn settle(&mut self, _: &str, detail: &mut RunDetail) -> Result<()> {
        prepare::finish(self.connection, detail)
    }

    async fn undo(&mut self, _: &str, owed: Option<&RunDetail>) -> Result<()> {
        match owed {
            Some(detail) => prepare::undo(self.connection, detail),
            None => Ok(()),
        }
    }
}

/// Moves slots from their expected positions, under the epoch of `run`. False where one is elsewhere; in a transaction that is
/// then undone.
pub(super) fn advance(connection: &Connection, run: &RunHandle, steps: &[Advance]) -> Result<bool> {
    let mut advance = connection
        .prepare_cached(
            "UPDATE tonnage_slots SET block = ?1, rows = ?2, mark_file = ?3, mark_offset = ?4,
             mark_file_rows = ?5, mark_rows = ?6, mark_hash = ?7, written = written + ?8,
             skipped = skipped + ?9, rejected = rejected + ?10
             WHERE run_id = ?11 AND slot = ?12 AND epoch = ?13 AND block = ?14 AND rows = ?15",
        )
        .map_err(failed)?;
    for step in steps {
        // 64 unsigned bits are kept as the integer of the same bits.
        let moved = advance
            .execute(params![
                step.to.block as i64,
                step.to.rows as i64,
                step.mark.file,
                step.mark.offset as i64,
                step.mark.file_rows as i64,
                step.mark.rows as i64,
                step.mark.hash as i64,
                step.counts.written as i64,
                step.counts.skipped as i64,
                step.counts.rejected as i64,
                run.run_id,
                step.slot,
                run.epoch,
                step.from.block as i64,
                step.from.rows as i64,
            ])
            .map_err(failed)?;
        if moved != 1 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes all rows. Without triggers SQLite frees the pages instead of visiting the rows.
pub(super) fn truncate(connection: &Connection, table: &str) -> Result<()> {
    connection
        .execute(&format!("DELETE FROM {}", quote(table)), [])
        .map(|_| ())
        .map_err(|failure| failed(failure).at(format!("table {table} cannot be emptied")))
}
