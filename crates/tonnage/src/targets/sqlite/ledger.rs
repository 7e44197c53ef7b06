//! The ledger's tables, in the file that holds the rows.
//!
//! `tonnage_runs` has a row a run, `tonnage_slots` a row a slot of an unfinished run; `tonnage_tables` and
//! `tonnage_fence` tell tables apart (see [`identity`]). They are plain tables, not STRICT ones, so that an
//! older SQLite can still open the file. Unsigned 64-bit numbers are stored as the integers of the same bits.
//! Every change is one BEGIN IMMEDIATE transaction: it waits for the transactions of other owners.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, ffi, params};

use super::{
    errors::{self, Doing},
    identity, prepare,
    sql::quote,
};
use crate::{
    error::{Error, ErrorKind, Result},
    ledger::{NewRun, RunDetail, RunHandle, RunRecord},
    slot::{Advance, BlockMark, Counts, Position, SlotState},
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

fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

/// Whether there is a ledger.
fn exists(connection: &Connection) -> Result<bool> {
    connection
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'tonnage_runs'",
            [],
            |_| Ok(()),
        )
        .optional()
        .map(|found| found.is_some())
        .map_err(failed)
}

/// Does `work` in a transaction that holds the file's write lock from its beginning.
pub(super) fn change<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    let result = work(&transaction)?;
    match transaction.commit() {
        Ok(()) => Ok(result),
        Err(failure) if errors::code(&failure) & 0xff == ffi::SQLITE_IOERR => Err(errors::in_doubt(failure)),
        Err(failure) => Err(failed(failure)),
    }
}

pub(super) fn runs(connection: &Connection) -> Result<Vec<RunRecord>> {
    if !exists(connection)? {
        return Ok(Vec::new());
    }
    let mut statement = connection
        .prepare_cached(
            "SELECT r.run_id, r.identity, r.epoch, r.started, r.finished, r.detail,
             r.written + coalesce(sum(s.written), 0), r.skipped + coalesce(sum(s.skipped), 0),
             r.rejected + coalesce(sum(s.rejected), 0)
             FROM tonnage_runs AS r LEFT JOIN tonnage_slots AS s ON s.run_id = r.run_id
             GROUP BY r.run_id ORDER BY r.started DESC, r.run_id DESC",
        )
        .map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let (run, detail) = run_record(row).map_err(failed)?;
        let detail = read_detail(&run.run_id, &detail)?;
        runs.push(RunRecord {
            run_id: run.run_id,
            identity: run.identity,
            epoch: run.epoch,
            started: run.started,
            finished: run.finished,
            detail,
            counts: run.counts,
        });
    }
    Ok(runs)
}

/// A run without its detail.
struct RunColumns {
    run_id: String,
    identity: String,
    epoch: i64,
    started: i64,
    finished: Option<i64>,
    counts: Counts,
}

fn run_record(row: &Row<'_>) -> rusqlite::Result<(RunColumns, String)> {
    let run = RunColumns {
        run_id: row.get(0)?,
        identity: row.get(1)?,
        epoch: row.get(2)?,
        started: row.get(3)?,
        finished: row.get(4)?,
        counts: counts(row, 6)?,
    };
    Ok((run, row.get(5)?))
}

/// A number of 64 unsigned bits.
fn bits(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|number| number as u64)
}

fn counts(row: &Row<'_>, first: usize) -> rusqlite::Result<Counts> {
    Ok(Counts {
        written: bits(row, first)?,
        skipped: bits(row, first + 1)?,
        rejected: bits(row, first + 2)?,
    })
}

fn written(detail: &RunDetail) -> Result<String> {
    serde_json::to_string(detail).map_err(|error| Error::bug("a run's detail is no JSON").caused_by(error))
}

/// The detail of an unfinished run under this epoch, if there is one.
fn unfinished(connection: &Connection, run_id: &str, epoch: Option<i64>) -> Result<Option<RunDetail>> {
    let detail: Option<String> = connection
        .query_row(
            "SELECT detail FROM tonnage_runs WHERE run_id = ?1 AND finished IS NULL AND epoch = coalesce(?2, epoch)",
            params![run_id, epoch],
            |row| row.get(0),
        )
        .optional()
        .map_err(failed)?;
    detail.map(|detail| read_detail(run_id, &detail)).transpose()
}

fn read_detail(run_id: &str, detail: &str) -> Result<RunDetail> {
    serde_json::from_str(detail).map_err(|error| {
        Error::schema(format!(
            "the ledger's detail of run {run_id} cannot be read: {error}"
        ))
        .hint("another version of tonnage wrote it; finish the run with that one")
    })
}

pub(super) fn start(connection: &mut Connection, run: &NewRun) -> Result<RunHandle> {
    change(connection, |connection| {
        // The fence must stand behind the ledger's own tables.
        connection.execute_batch(TABLES).map_err(failed)?;
        identity::settle(connection).map_err(failed)?;
        if run.preparation.truncates() {
            truncate(connection, &run.table.name)?;
        }
        let mut detail = run.detail.clone();
        prepare::prepare(connection, run, &mut detail)?;
        record(connection, run, &detail)
    })
}

/// Records a run with its slots, and makes the tables first where they are missing. In a transaction.
pub(super) fn record(connection: &Connection, run: &NewRun, detail: &RunDetail) -> Result<RunHandle> {
    connection.execute_batch(TABLES).map_err(failed)?;
    let detail = written(detail)?;
    connection
        .execute(
            "INSERT INTO tonnage_runs (run_id, identity, epoch, started, detail, written, skipped,
                 rejected) VALUES (?1, ?2, 1, ?3, ?4, 0, 0, 0)",
            params![run.run_id, run.identity, now(), detail],
        )
        .map_err(|failure| match errors::code(&failure) {
            ffi::SQLITE_CONSTRAINT_UNIQUE => Error::new(
                ErrorKind::Fenced,
                format!(
                    "an unfinished run of this input into {} is in the ledger",
                    run.detail.table
                ),
            )
            .hint("go on with --resume, or begin again with --restart")
            .code("SQLITE_CONSTRAINT_UNIQUE")
            .caused_by(failure),
            _ => failed(failure),
        })?;
    let mut slot = connection
        .prepare(
            "INSERT INTO tonnage_slots (run_id, slot, epoch, block, rows, mark_file, mark_offset,
                 mark_file_rows, mark_rows, mark_hash, written, skipped, rejected)
                 VALUES (?1, ?2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)",
        )
        .map_err(failed)?;
    for number in 0..run.detail.slots {
        slot.execute(params![run.run_id, number]).map_err(failed)?;
    }
    Ok(RunHandle {
        run_id: run.run_id.clone(),
        epoch: 1,
    })
}

/// Moves slots from where they must stand, under the epoch of `run`. False where one does not; in a transaction that is
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

pub(super) fn slots(connection: &Connection, run_id: &str) -> Result<Vec<SlotState>> {
    if !exists(connection)? {
        return Ok(Vec::new());
    }
    let mut statement = connection
        .prepare_cached(
            "SELECT slot, block, rows, mark_file, mark_offset, mark_file_rows, mark_rows, mark_hash, written,
             skipped, rejected FROM tonnage_slots WHERE run_id = ?1 ORDER BY slot",
        )
        .map_err(failed)?;
    statement
        .query_map([run_id], |row| {
            Ok(SlotState {
                slot: row.get(0)?,
                position: Position {
                    block: bits(row, 1)?,
                    rows: bits(row, 2)?,
                },
                mark: BlockMark {
                    file: row.get(3)?,
                    offset: bits(row, 4)?,
                    file_rows: bits(row, 5)?,
                    rows: bits(row, 6)?,
                    hash: bits(row, 7)?,
                },
                counts: counts(row, 8)?,
            })
        })
        .and_then(Iterator::collect)
        .map_err(failed)
}

pub(super) fn take_over(connection: &mut Connection, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
    let gone = || {
        Error::new(
            ErrorKind::Fenced,
            format!("run {run_id} is finished or forgotten"),
        )
    };
    if !exists(connection)? {
        return Err(gone());
    }
    change(connection, |connection| {
        let epoch: i64 = connection
            .query_row(
                "UPDATE tonnage_runs SET epoch = epoch + 1 WHERE run_id = ?1 AND finished IS NULL
                 RETURNING epoch",
                [run_id],
                |row| row.get(0),
            )
            .optional()
            .map_err(failed)?
            .ok_or_else(gone)?;
        connection
            .execute(
                "UPDATE tonnage_slots SET epoch = ?2 WHERE run_id = ?1",
                params![run_id, epoch],
            )
            .map_err(failed)?;
        let handle = RunHandle {
            run_id: run_id.to_owned(),
            epoch,
        };
        Ok((handle, slots(connection, run_id)?))
    })
}

pub(super) fn finish(connection: &mut Connection, handle: &RunHandle, counts: Counts) -> Result<()> {
    let fenced = || {
        Error::new(
            ErrorKind::Fenced,
            format!(
                "run {} was taken over or forgotten by another process",
                handle.run_id
            ),
        )
    };
    if !exists(connection)? {
        return Err(fenced());
    }
    change(connection, |connection| {
        // Fenced off, or finished already, nothing is owed.
        if let Some(mut detail) = unfinished(connection, &handle.run_id, Some(handle.epoch))?
            && detail.pending.is_some()
        {
            prepare::settle(connection, &mut detail)?;
            connection
                .execute(
                    "UPDATE tonnage_runs SET detail = ?2 WHERE run_id = ?1",
                    params![handle.run_id, written(&detail)?],
                )
                .map_err(failed)?;
        }
        // A run that has finished already stays so: the answer to an earlier attempt may have been lost.
        let finished = connection
            .execute(
                "UPDATE tonnage_runs SET finished = coalesce(finished, ?3), written = ?4, skipped = ?5, rejected = ?6
                 WHERE run_id = ?1 AND epoch = ?2",
                params![
                    handle.run_id,
                    handle.epoch,
                    now(),
                    counts.written as i64,
                    counts.skipped as i64,
                    counts.rejected as i64
                ],
            )
            .map_err(failed)?;
        if finished != 1 {
            return Err(fenced());
        }
        connection
            .execute("DELETE FROM tonnage_slots WHERE run_id = ?1", [&handle.run_id])
            .map_err(failed)?;
        Ok(())
    })
}

pub(super) fn forget(connection: &mut Connection, run_id: &str) -> Result<bool> {
    if !exists(connection)? {
        return Ok(false);
    }
    change(connection, |connection| {
        let detail = unfinished(connection, run_id, None)?;
        remove(connection, run_id, detail)
    })
}

pub(super) fn forget_unbegun(connection: &mut Connection, handle: &RunHandle) -> Result<bool> {
    if !exists(connection)? {
        return Ok(false);
    }
    change(connection, |connection| {
        let Some(detail) = unfinished(connection, &handle.run_id, Some(handle.epoch))? else {
            return Ok(false);
        };
        let slots = slots(connection, &handle.run_id)?;
        match slots.iter().all(|slot| slot.counts.total() == 0) {
            true => remove(connection, &handle.run_id, Some(detail)),
            false => Ok(false),
        }
    })
}

/// Removes a run within a transaction; `detail` says what it owes, where it is unfinished.
fn remove(connection: &Connection, run_id: &str, detail: Option<RunDetail>) -> Result<bool> {
    if let Some(detail) = detail {
        prepare::undo(connection, &detail)?;
    }
    connection
        .execute("DELETE FROM tonnage_slots WHERE run_id = ?1", [run_id])
        .map_err(failed)?;
    let forgotten = connection
        .execute("DELETE FROM tonnage_runs WHERE run_id = ?1", [run_id])
        .map_err(failed)?;
    Ok(forgotten == 1)
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
