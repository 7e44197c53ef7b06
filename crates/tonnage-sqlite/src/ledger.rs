//! The ledger's tables, in the file that holds the rows.
//!
//! `tonnage_runs` has a row a run, `tonnage_slots` a row a slot of an unfinished run, `tonnage_inputs` the rows by which
//! runs are found ([`inputs`]; a ledger of an earlier version gets it when the next run starts); `tonnage_tables` and
//! `tonnage_fence` tell tables apart (see [`identity`]). They are plain tables, not STRICT ones, so that an
//! older SQLite can still open the file. Unsigned 64-bit numbers are stored as the integers of the same bits.
//! Every change is one BEGIN IMMEDIATE transaction: it waits for the transactions of other owners.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, ffi, params};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{FOUND_MAX, NewRun, Opening, RunDetail, RunHandle, RunQuery, RunRecord, inputs, unreadable},
    slot::{Advance, BlockMark, Counts, Position, SlotState},
};

use super::{
    errors::{self, Doing},
    identity, prepare,
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

const INPUTS: &str = "
CREATE TABLE IF NOT EXISTS tonnage_inputs (
  run_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  found_by TEXT NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (run_id, number)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tonnage_inputs_found ON tonnage_inputs (found_by, run_id)";

/// A run with its account, by which [`run_columns`] reads it.
const RUN: &str = "SELECT r.run_id, r.identity, r.epoch, r.started, r.finished, r.detail,
  r.written + coalesce((SELECT sum(s.written) FROM tonnage_slots AS s WHERE s.run_id = r.run_id), 0),
  r.skipped + coalesce((SELECT sum(s.skipped) FROM tonnage_slots AS s WHERE s.run_id = r.run_id), 0),
  r.rejected + coalesce((SELECT sum(s.rejected) FROM tonnage_slots AS s WHERE s.run_id = r.run_id), 0)
  FROM tonnage_runs AS r";

fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

/// Whether there is a ledger.
fn exists(connection: &Connection) -> Result<bool> {
    has_table(connection, "tonnage_runs")
}

fn has_table(connection: &Connection, name: &str) -> Result<bool> {
    connection
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1",
            [name],
            |_| Ok(()),
        )
        .optional()
        .map(|found| found.is_some())
        .map_err(failed)
}

/// The statements that make the tables.
pub(super) fn statements() -> Vec<String> {
    let all = TABLES.split(';').chain(INPUTS.split(';'));
    all.map(|statement| statement.trim().to_owned()).collect()
}

/// Makes the tables where they are missing.
pub(super) fn set_up(connection: &mut Connection) -> Result<()> {
    change(connection, make)
}

/// Makes the tables where they are missing, in a transaction. Runs of a ledger that was made before there were rows to
/// find them by get theirs.
fn make(connection: &Connection) -> Result<()> {
    if !exists(connection)? {
        // Left of a ledger that was dropped: what it knew is to be forgotten.
        connection
            .execute_batch("DROP TABLE IF EXISTS tonnage_inputs")
            .map_err(failed)?;
    }
    connection.execute_batch(TABLES).map_err(failed)?;
    if has_table(connection, "tonnage_inputs")? {
        return Ok(());
    }
    connection.execute_batch(INPUTS).map_err(failed)?;
    let mut details = connection
        .prepare("SELECT run_id, detail FROM tonnage_runs")
        .map_err(failed)?;
    let mut rows = details.query([]).map_err(failed)?;
    let mut replaced = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let read = |row: &Row<'_>| -> rusqlite::Result<(String, String)> { Ok((row.get(0)?, row.get(1)?)) };
        // What cannot be read is found by nothing but its identity.
        if let Ok((run_id, text)) = read(row)
            && let Ok(detail) = RunDetail::from_json(&run_id, &text)
        {
            put_on_record(connection, &run_id, &detail)?;
            if detail.prepared_by.is_some() && detail.pending.is_none() {
                replaced.push((run_id, detail.identity()));
            }
        }
    }
    // Such a run may have put another table in the place of its own, and is known by that one.
    for (run_id, identity) in replaced {
        connection
            .execute(
                "UPDATE tonnage_runs SET identity = ?2 WHERE run_id = ?1 AND finished IS NOT NULL",
                params![run_id, identity],
            )
            .map_err(failed)?;
    }
    Ok(())
}

/// Writes the rows by which a run is found.
fn put_on_record(connection: &Connection, run_id: &str, detail: &RunDetail) -> Result<()> {
    connection
        .execute("DELETE FROM tonnage_inputs WHERE run_id = ?1", [run_id])
        .map_err(failed)?;
    let mut insert = connection
        .prepare_cached(
            "INSERT INTO tonnage_inputs (run_id, number, found_by, detail) VALUES (?1, ?2, ?3, ?4)",
        )
        .map_err(failed)?;
    for row in detail.rows()? {
        insert
            .execute(params![run_id, row.number, row.found_by, row.detail])
            .map_err(failed)?;
    }
    Ok(())
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

pub(super) fn runs(connection: &Connection, query: &RunQuery) -> Result<Vec<RunRecord>> {
    if !exists(connection)? {
        return Ok(Vec::new());
    }
    let limit = query.limit();
    let table_key;
    let (which, given) = match query {
        RunQuery::Newest(_) => ("ORDER BY r.run_id DESC", None),
        RunQuery::Id(id) => ("WHERE r.run_id = ?1", Some(id.as_str())),
        RunQuery::Identity(identity) => (
            "WHERE r.identity = ?1 ORDER BY r.finished IS NULL DESC, r.run_id DESC",
            Some(identity.as_str()),
        ),
        RunQuery::Unfinished => ("WHERE r.finished IS NULL ORDER BY r.run_id DESC", None),
        RunQuery::Table(table) if has_table(connection, "tonnage_inputs")? => {
            table_key = inputs::table_key(table);
            (
                "JOIN tonnage_inputs AS i ON i.run_id = r.run_id WHERE i.found_by = ?1 ORDER BY i.run_id DESC",
                Some(table_key.as_str()),
            )
        }
        // A ledger of an earlier version, until a run starts in it.
        RunQuery::Table(_) => ("ORDER BY r.run_id DESC", None),
    };
    let limited = match (query, given) {
        (RunQuery::Table(_), None) => String::new(),
        _ => format!(" LIMIT {limit}"),
    };
    let mut statement = connection
        .prepare_cached(&format!("{RUN} {which}{limited}"))
        .map_err(failed)?;
    let mut rows = match given {
        Some(given) => statement.query([given]),
        None => statement.query([]),
    }
    .map_err(failed)?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next().map_err(failed)? {
        let finished = !matches!(row.get_ref(4), Ok(rusqlite::types::ValueRef::Null));
        let read = run_record(row);
        if let Some(run) = query.readable(read, finished)?
            && runs.len() < limit
            && query.matches(&run)
        {
            runs.push(run);
        }
    }
    Ok(runs)
}

fn run_record(row: &Row<'_>) -> Result<RunRecord> {
    // What another hand wrote may hold anything in any column.
    let run_id = row.get(0).unwrap_or_else(|_| "without an id".to_owned());
    let (run, text) = run_columns(row).map_err(|failure| unreadable(&run_id, failure))?;
    let detail = RunDetail::from_json(&run.run_id, &text)?;
    Ok(RunRecord {
        run_id: run.run_id,
        identity: run.identity,
        epoch: run.epoch,
        started: run.started,
        finished: run.finished,
        detail,
        counts: run.counts,
    })
}

pub(super) fn ids(connection: &Connection, prefix: &str) -> Result<Vec<String>> {
    if !exists(connection)? {
        return Ok(Vec::new());
    }
    // The range of texts that begin with it: no character is greater than the last.
    let inputs = match has_table(connection, "tonnage_inputs")? {
        true => "UNION SELECT run_id FROM tonnage_inputs WHERE run_id >= ?1 AND run_id < ?1 || char(1114111)",
        false => "",
    };
    let mut statement = connection
        .prepare(&format!(
            "SELECT run_id FROM tonnage_runs WHERE run_id >= ?1 AND run_id < ?1 || char(1114111) {inputs} LIMIT 2"
        ))
        .map_err(failed)?;
    statement
        .query_map([prefix], |row| row.get(0))
        .and_then(Iterator::collect)
        .map_err(failed)
}

pub(super) fn inputs(connection: &Connection, keys: &[String]) -> Result<Vec<inputs::InputRecord>> {
    let mut found = Vec::new();
    if !exists(connection)? {
        return Ok(found);
    }
    if !has_table(connection, "tonnage_inputs")? {
        // A ledger of an earlier version, until a run starts in it.
        for run in runs(connection, &RunQuery::Newest(usize::MAX >> 1))? {
            found.extend(inputs::of_detail(
                &run.run_id,
                &run.detail,
                run.finished.is_some(),
                keys,
            )?);
        }
        return Ok(found);
    }
    let mut statement = connection
        .prepare_cached(&format!(
            "SELECT i.run_id, i.detail, r.run_id IS NULL OR r.finished IS NOT NULL FROM tonnage_inputs AS i
             LEFT JOIN tonnage_runs AS r ON r.run_id = i.run_id
             WHERE i.found_by = ?1 AND (r.run_id IS NOT NULL OR NOT EXISTS (
               SELECT 1 FROM tonnage_inputs AS t WHERE t.run_id = i.run_id AND t.number = 0))
             ORDER BY i.run_id DESC LIMIT {FOUND_MAX}"
        ))
        .map_err(failed)?;
    for key in keys {
        let mut rows = statement.query([key]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (run_id, detail): (String, String) =
                (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
            found.extend(inputs::InputRecord::read(
                run_id,
                row.get(2).map_err(failed)?,
                &detail,
            ));
        }
    }
    Ok(found)
}

pub(super) fn prune(connection: &mut Connection, keep: u64, limit: u64) -> Result<u64> {
    // Looked at before the file is locked: most often there is nothing to do.
    let keep = i64::try_from(keep).unwrap_or(i64::MAX);
    if !exists(connection)? || !has_table(connection, "tonnage_inputs")? {
        return Ok(0);
    }
    let Some((finished, run_id)) = connection
        .query_row(
            "SELECT finished, run_id FROM tonnage_runs WHERE finished IS NOT NULL
             ORDER BY finished DESC, run_id DESC LIMIT 1 OFFSET ?1",
            [keep],
            |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)),
        )
        .optional()
        .map_err(failed)?
    else {
        return Ok(0);
    };
    change(connection, |connection| {
        let mut prunable = connection
            .prepare_cached(
                "SELECT run_id FROM tonnage_runs AS r
                 WHERE finished IS NOT NULL AND (finished, run_id) <= (?1, ?2)
                   AND NOT EXISTS (SELECT 1 FROM tonnage_inputs AS i WHERE i.run_id = r.run_id AND i.number = 0
                     AND NOT EXISTS (SELECT 1 FROM tonnage_inputs AS later
                       WHERE later.found_by = i.found_by AND later.run_id > i.run_id))
                 ORDER BY finished, run_id LIMIT ?3",
            )
            .map_err(failed)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let ids: Vec<String> = prunable
            .query_map(params![finished, run_id, limit], |row| row.get(0))
            .and_then(Iterator::collect)
            .map_err(failed)?;
        for id in &ids {
            connection
                .execute("DELETE FROM tonnage_runs WHERE run_id = ?1", [id])
                .map_err(failed)?;
            connection
                .execute(
                    "DELETE FROM tonnage_inputs WHERE run_id = ?1 AND number = 0",
                    [id],
                )
                .map_err(failed)?;
        }
        Ok(ids.len() as u64)
    })
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

fn run_columns(row: &Row<'_>) -> rusqlite::Result<(RunColumns, String)> {
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
    detail
        .map(|detail| RunDetail::from_json(run_id, &detail))
        .transpose()
}

pub(super) fn start(connection: &mut Connection, run: &NewRun) -> Result<RunHandle> {
    change(connection, |connection| {
        // The fence must stand behind the ledger's own tables.
        make(connection)?;
        identity::renew_fence(connection).map_err(failed)?;
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
    make(connection)?;
    put_on_record(connection, &run.run_id, detail)?;
    let detail = detail.to_json()?;
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

/// Raises the run's epoch and does `work` in the same transaction, which is told of the run's slots.
pub(super) fn take_over(
    connection: &mut Connection,
    run_id: &str,
    work: impl FnOnce(&[SlotState]) -> Result<()>,
) -> Result<(RunHandle, Vec<SlotState>)> {
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
        let slots = slots(connection, run_id)?;
        work(&slots)?;
        Ok((handle, slots))
    })
}

/// Writes a run's detail anew.
fn rewrite(connection: &Connection, run_id: &str, detail: &RunDetail) -> Result<()> {
    let update = "UPDATE tonnage_runs SET detail = ?2 WHERE run_id = ?1";
    let updated = connection.execute(update, params![run_id, detail.to_json()?]);
    updated.map(|_| ()).map_err(failed)
}

pub(super) fn note_opening(connection: &mut Connection, run_id: &str, opening: &Opening) -> Result<bool> {
    if !exists(connection)? {
        return Ok(false);
    }
    change(connection, |connection| {
        let Some(mut detail) = unfinished(connection, run_id, None)? else {
            return Ok(false);
        };
        if !opening.put_into(&mut detail) {
            return Ok(false);
        }
        rewrite(connection, run_id, &detail).map(|()| true)
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
            let before = detail.identity();
            prepare::finish(connection, &mut detail)?;
            // A table that took the place of another has an identity of its own, and the run with it.
            connection
                .execute(
                    "UPDATE tonnage_runs SET detail = ?2,
                     identity = CASE WHEN identity = ?3 THEN ?4 ELSE identity END, finished = ?5 WHERE run_id = ?1",
                    params![handle.run_id, detail.to_json()?, before, detail.identity(), now()],
                )
                .map_err(failed)?;
            make(connection)?;
            put_on_record(connection, &handle.run_id, &detail)?;
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
        let detail = match unfinished(connection, run_id, None) {
            // Without a readable record nothing can be known to be owed.
            Err(error) if error.kind() == ErrorKind::Schema => {
                tracing::warn!("{error}");
                None
            }
            detail => detail?,
        };
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
    let mut forgotten = connection
        .execute("DELETE FROM tonnage_runs WHERE run_id = ?1", [run_id])
        .map_err(failed)?;
    if has_table(connection, "tonnage_inputs")? {
        forgotten += connection
            .execute("DELETE FROM tonnage_inputs WHERE run_id = ?1", [run_id])
            .map_err(failed)?;
    }
    Ok(forgotten > 0)
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
