//! The ledger: `tonnage_runs`, a row a run, `tonnage_slots`, a row a slot, and `tonnage_inputs`, the rows by which runs
//! are found ([`found`]).
//!
//! They are InnoDB tables in the database of the URL, which the transactions of the rows span whichever database these
//! are in. Numbers of 64 bits are unsigned there as here. An unfinished run keeps its identity a second time, in a
//! column with a unique index that is null once it is finished: there are no partial indexes. Every move of a slot
//! counts up `moves`, so that the server's count of changed rows is the count of rows moved. The tables are made
//! outside the transactions, which making a table would end.

mod found;

use std::fmt::Write;

use async_trait::async_trait;
use mysql_async::{Conn, Row, prelude::Queryable};

use super::{
    MysqlTarget,
    catalog::{INPUTS, RUNS, SLOTS, get, rows},
    errors,
    statements::empty,
};
use crate::{
    error::{Error, ErrorKind, Result},
    ledger::{Ledger, NewRun, Opening, RunDetail, RunHandle, RunQuery, RunRecord, inputs::InputRecord},
    slot::{Advance, BlockMark, Counts, Position, SlotState},
};

const TABLES: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS tonnage_runs (\
         run_id varchar(64) NOT NULL PRIMARY KEY, identity varchar(190) NOT NULL, unfinished varchar(190) NULL, \
         epoch bigint NOT NULL, started bigint NOT NULL, finished bigint NULL, \
         written bigint unsigned NOT NULL, skipped bigint unsigned NOT NULL, rejected bigint unsigned NOT NULL, \
         detail longtext NOT NULL, UNIQUE KEY tonnage_runs_unfinished (unfinished), \
         KEY tonnage_runs_identity (identity, run_id), KEY tonnage_runs_finished (finished, run_id)) \
     ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
    "CREATE TABLE IF NOT EXISTS tonnage_slots (\
         run_id varchar(64) NOT NULL, slot int NOT NULL, epoch bigint NOT NULL, \
         block bigint unsigned NOT NULL, block_rows bigint unsigned NOT NULL, \
         file int unsigned NOT NULL, byte_offset bigint unsigned NOT NULL, file_rows bigint unsigned NOT NULL, \
         source_rows bigint unsigned NOT NULL, hash bigint unsigned NOT NULL, \
         written bigint unsigned NOT NULL, skipped bigint unsigned NOT NULL, rejected bigint unsigned NOT NULL, \
         moves bigint unsigned NOT NULL, PRIMARY KEY (run_id, slot)) \
     ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
    "CREATE TABLE IF NOT EXISTS tonnage_inputs (\
         run_id varchar(64) NOT NULL, number int unsigned NOT NULL, found_by varchar(64) NOT NULL, \
         detail longtext NOT NULL, PRIMARY KEY (run_id, number), KEY tonnage_inputs_found (found_by, run_id)) \
     ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin",
];

/// The columns of a slot's state, in the order in which [`slot_state`] reads them.
const STATE: &str =
    "slot, block, block_rows, file, byte_offset, file_rows, source_rows, hash, written, skipped, rejected";

/// Attempts at a take-over that meets a deadlock with an owner that is still at work.
const TAKE_OVER_ATTEMPTS: usize = 10;

/// Text as a literal, whatever it holds.
pub(super) fn literal(text: &str) -> String {
    let mut literal = String::from("_utf8mb4 X'");
    for byte in text.bytes() {
        // Writing to memory does not fail.
        let _ = write!(literal, "{byte:02X}");
    }
    literal.push('\'');
    literal
}

/// Whether there is a ledger.
async fn exists(conn: &mut Conn) -> Result<bool> {
    has_table(conn, RUNS).await
}

async fn has_table(conn: &mut Conn, name: &str) -> Result<bool> {
    let found: Option<u8> = conn
        .query_first(format!(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = database() AND table_name = '{name}'"
        ))
        .await
        .map_err(errors::statement)?;
    Ok(found.is_some())
}

fn slot_state(mut row: Row) -> Result<SlotState> {
    let row = &mut row;
    let slot: i64 = get(row, 0)?;
    Ok(SlotState {
        slot: u16::try_from(slot)
            .map_err(|_| Error::new(ErrorKind::Refused, format!("{SLOTS} holds slot {slot}")))?,
        position: Position {
            block: get(row, 1)?,
            rows: get(row, 2)?,
        },
        mark: BlockMark {
            file: get(row, 3)?,
            offset: get(row, 4)?,
            file_rows: get(row, 5)?,
            rows: get(row, 6)?,
            hash: get(row, 7)?,
        },
        counts: counts(row, 8)?,
    })
}

fn counts(row: &mut Row, first: usize) -> Result<Counts> {
    Ok(Counts {
        written: get(row, first)?,
        skipped: get(row, first + 1)?,
        rejected: get(row, first + 2)?,
    })
}

fn no_run(run_id: &str) -> Error {
    Error::new(
        ErrorKind::Fenced,
        format!("run {run_id} is no longer in the ledger or has finished"),
    )
    .hint("tonnage runs lists what the ledger knows")
}

/// The statements by which a writer moves slots. They hold nothing but numbers and the run's id.
pub(super) struct Mover {
    handle: RunHandle,
}

impl Mover {
    pub fn new(handle: &RunHandle) -> Self {
        Self {
            handle: handle.clone(),
        }
    }

    fn of_run(&self) -> String {
        format!(
            "s.run_id = {} AND s.epoch = {}",
            literal(&self.handle.run_id),
            self.handle.epoch
        )
    }

    /// The compare-and-set; it must move as many rows as there are advances.
    pub fn claim(&self, advances: &[Advance]) -> String {
        let mut given = String::new();
        for (index, a) in advances.iter().enumerate() {
            if index > 0 {
                given.push_str(" UNION ALL ");
            }
            let _ = write!(
                given,
                "SELECT {} AS slot, {} AS from_block, {} AS from_rows, {} AS block, {} AS block_rows, {} AS file, \
                 {} AS byte_offset, {} AS file_rows, {} AS source_rows, {} AS hash, {} AS written, {} AS skipped, \
                 {} AS rejected",
                a.slot,
                a.from.block,
                a.from.rows,
                a.to.block,
                a.to.rows,
                a.mark.file,
                a.mark.offset,
                a.mark.file_rows,
                a.mark.rows,
                a.mark.hash,
                a.counts.written,
                a.counts.skipped,
                a.counts.rejected
            );
        }
        format!(
            "UPDATE {SLOTS} AS s JOIN ({given}) AS a ON s.slot = a.slot \
             SET s.block = a.block, s.block_rows = a.block_rows, s.file = a.file, s.byte_offset = a.byte_offset, \
                 s.file_rows = a.file_rows, s.source_rows = a.source_rows, s.hash = a.hash, \
                 s.written = s.written + a.written, s.skipped = s.skipped + a.skipped, \
                 s.rejected = s.rejected + a.rejected, s.moves = s.moves + 1 \
             WHERE {} AND s.block = a.from_block AND s.block_rows = a.from_rows",
            self.of_run()
        )
    }

    /// Turns the counts claimed into those of `advances`.
    pub fn adjust(&self, claimed: &[Advance], advances: &[Advance]) -> Result<String> {
        let mut given = String::new();
        for (index, advance) in advances.iter().enumerate() {
            let before = claimed
                .iter()
                .find(|c| c.slot == advance.slot)
                .ok_or_else(|| Error::bug(format!("slot {} is committed but was not begun", advance.slot)))?;
            if index > 0 {
                given.push_str(" UNION ALL ");
            }
            let difference = |after: u64, before: u64| i128::from(after) - i128::from(before);
            let (after, before) = (advance.counts, before.counts);
            let _ = write!(
                given,
                "SELECT {} AS slot, {} AS written, {} AS skipped, {} AS rejected",
                advance.slot,
                difference(after.written, before.written),
                difference(after.skipped, before.skipped),
                difference(after.rejected, before.rejected)
            );
        }
        Ok(format!(
            "UPDATE {SLOTS} AS s JOIN ({given}) AS a ON s.slot = a.slot \
             SET s.written = s.written + a.written, s.skipped = s.skipped + a.skipped, \
                 s.rejected = s.rejected + a.rejected, s.moves = s.moves + 1 WHERE {}",
            self.of_run()
        ))
    }
}

/// Ends the open transaction: commits what succeeded, undoes what did not.
async fn end<T>(conn: &mut Conn, result: Result<T>) -> Result<T> {
    match result {
        Ok(value) => {
            conn.query_drop("COMMIT").await.map_err(errors::commit)?;
            Ok(value)
        }
        Err(error) => {
            if let Err(failure) = conn.query_drop("ROLLBACK").await {
                tracing::debug!("ROLLBACK after a failure: {failure}");
            }
            Err(error)
        }
    }
}

async fn begin(conn: &mut Conn) -> Result<()> {
    conn.query_drop("START TRANSACTION")
        .await
        .map_err(errors::statement)
}

/// Makes the tables where they are missing; whether there are rows by which runs are found.
async fn make(conn: &mut Conn, database: &str) -> Result<bool> {
    if exists(conn).await? && has_table(conn, INPUTS).await? {
        return Ok(true);
    }
    if !found::lock(conn).await? {
        return Err(
            Error::new(ErrorKind::Overloaded, "another process is making the ledger")
                .hint("the same command again, once it is done"),
        );
    }
    let made = match exists(conn).await {
        Ok(true) => found::add(conn).await,
        Ok(false) => make_all(conn, database).await.map(|()| true),
        Err(error) => Err(error),
    };
    found::unlock(conn).await;
    made
}

async fn make_all(conn: &mut Conn, database: &str) -> Result<()> {
    // Left of a ledger that was dropped: what it knew is to be forgotten. The runs last: who finds them finds all.
    let left = format!("DROP TABLE {INPUTS}");
    let left = has_table(conn, INPUTS).await?.then_some(left.as_str());
    for table in left.into_iter().chain(TABLES.iter().rev().copied()) {
        conn.query_drop(table).await.map_err(|failure| {
            let error = errors::statement(failure);
            if error.kind() != ErrorKind::Refused {
                return error;
            }
            let error = error.at(format!("cannot make the ledger in database {database}"));
            // Not every refusal is a matter of rights: a disk may be full.
            match error.code_text() {
                Some("1044" | "1142" | "1227") => {
                    error.hint("grant CREATE on the database, or use --ledger none")
                }
                _ => error,
            }
        })?;
    }
    Ok(())
}

async fn start_within(conn: &mut Conn, run: &NewRun, has_inputs: bool) -> Result<RunHandle> {
    let detail = run.detail.to_json()?;
    let inserted = conn
        .exec_drop(
            format!(
                "INSERT INTO {RUNS} (run_id, identity, unfinished, epoch, started, written, skipped, rejected, detail) \
                 VALUES (?, ?, ?, 1, unix_timestamp(), 0, 0, 0, ?)"
            ),
            (&run.run_id, &run.identity, &run.identity, detail),
        )
        .await;
    match inserted {
        Ok(()) => {}
        Err(failure) if errors::number(&failure) == Some(1062) => {
            let known: Option<u8> = conn
                .exec_first(
                    format!("SELECT 1 FROM {RUNS} WHERE run_id = ? AND unfinished = ?"),
                    (&run.run_id, &run.identity),
                )
                .await
                .map_err(errors::statement)?;
            // The answer to an earlier attempt of ours may have been lost. What others have done since is not ours.
            if known.is_some() {
                return Ok(RunHandle {
                    run_id: run.run_id.clone(),
                    epoch: 1,
                });
            }
            return Err(Error::new(
                ErrorKind::Fenced,
                format!(
                    "an unfinished run of this input into {} is in the ledger",
                    run.detail.table
                ),
            )
            .hint("go on with --resume, or begin again with --restart"));
        }
        Err(failure) => return Err(errors::statement(failure)),
    }
    let id = literal(&run.run_id);
    let slots: Vec<_> = (0..run.detail.slots)
        .map(|slot| format!("({id}, 1, {slot}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)"))
        .collect();
    if !slots.is_empty() {
        conn.query_drop(format!(
            "INSERT INTO {SLOTS} (run_id, epoch, {STATE}, moves) VALUES {}",
            slots.join(", ")
        ))
        .await
        .map_err(errors::statement)?;
    }
    if has_inputs {
        found::put_on_record(conn, INPUTS, &run.run_id, &run.detail).await?;
    }
    if run.preparation.truncates() {
        let table = &run.table;
        // TRUNCATE would end the transaction.
        conn.query_drop(empty(table))
            .await
            .map_err(|failure| errors::statement(failure).at(format!("cannot empty {table}")))?;
    }
    Ok(RunHandle {
        run_id: run.run_id.clone(),
        epoch: 1,
    })
}

async fn take_over_within(conn: &mut Conn, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
    conn.exec_drop(
        format!("UPDATE {RUNS} SET epoch = epoch + 1 WHERE run_id = ? AND finished IS NULL"),
        (run_id,),
    )
    .await
    .map_err(errors::statement)?;
    if conn.affected_rows() != 1 {
        return Err(no_run(run_id));
    }
    let epoch: i64 = conn
        .exec_first(format!("SELECT epoch FROM {RUNS} WHERE run_id = ?"), (run_id,))
        .await
        .map_err(errors::statement)?
        .ok_or_else(|| no_run(run_id))?;
    // Waits for every transaction that holds a slot.
    conn.exec_drop(
        format!("UPDATE {SLOTS} SET epoch = ? WHERE run_id = ?"),
        (epoch, run_id),
    )
    .await
    .map_err(errors::statement)?;
    let states = states(conn, run_id).await?;
    Ok((
        RunHandle {
            run_id: run_id.to_owned(),
            epoch,
        },
        states,
    ))
}

async fn states(conn: &mut Conn, run_id: &str) -> Result<Vec<SlotState>> {
    let sql = format!("SELECT {STATE} FROM {SLOTS} WHERE run_id = ? ORDER BY slot");
    rows(conn, &sql, &[run_id])
        .await?
        .into_iter()
        .map(slot_state)
        .collect()
}

async fn note_opening_within(conn: &mut Conn, run_id: &str, opening: &Opening) -> Result<bool> {
    let found: Option<String> = conn
        .exec_first(
            format!("SELECT detail FROM {RUNS} WHERE run_id = ? AND finished IS NULL FOR UPDATE"),
            (run_id,),
        )
        .await
        .map_err(errors::statement)?;
    let Some(found) = found else {
        return Ok(false);
    };
    let mut detail = RunDetail::from_json(run_id, &found)?;
    if !opening.put_into(&mut detail) {
        return Ok(false);
    }
    conn.exec_drop(
        format!("UPDATE {RUNS} SET detail = ? WHERE run_id = ?"),
        (detail.to_json()?, run_id),
    )
    .await
    .map_err(errors::statement)?;
    Ok(true)
}

async fn finish_within(conn: &mut Conn, handle: &RunHandle, counts: Counts) -> Result<()> {
    // A run that has finished already stays so: the answer to an earlier attempt may have been lost.
    conn.exec_drop(
        format!(
            "UPDATE {RUNS} SET finished = coalesce(finished, unix_timestamp()), unfinished = NULL, \
                 written = ?, skipped = ?, rejected = ? WHERE run_id = ? AND epoch = ?"
        ),
        (
            counts.written,
            counts.skipped,
            counts.rejected,
            &handle.run_id,
            handle.epoch,
        ),
    )
    .await
    .map_err(errors::statement)?;
    if conn.affected_rows() != 1 {
        return Err(Error::new(
            ErrorKind::Fenced,
            format!("run {} was taken over by another process", handle.run_id),
        )
        .hint("tonnage runs shows where it stands"));
    }
    conn.exec_drop(format!("DELETE FROM {SLOTS} WHERE run_id = ?"), (&handle.run_id,))
        .await
        .map_err(errors::statement)
}

async fn forget_within(conn: &mut Conn, run_id: &str) -> Result<bool> {
    // Slots last: they wait for transactions in flight, which then find their run gone.
    conn.exec_drop(format!("DELETE FROM {RUNS} WHERE run_id = ?"), (run_id,))
        .await
        .map_err(errors::statement)?;
    let removed = conn.affected_rows();
    conn.exec_drop(format!("DELETE FROM {SLOTS} WHERE run_id = ?"), (run_id,))
        .await
        .map_err(errors::statement)?;
    let mut known = removed > 0;
    if has_table(conn, INPUTS).await? {
        conn.exec_drop(format!("DELETE FROM {INPUTS} WHERE run_id = ?"), (run_id,))
            .await
            .map_err(errors::statement)?;
        known |= conn.affected_rows() > 0;
    }
    Ok(known)
}

async fn forget_unbegun_within(conn: &mut Conn, handle: &RunHandle) -> Result<bool> {
    let owned: Option<i64> = conn
        .exec_first(
            format!(
                "SELECT epoch FROM {RUNS} WHERE run_id = ? AND epoch = ? AND finished IS NULL FOR UPDATE"
            ),
            (&handle.run_id, handle.epoch),
        )
        .await
        .map_err(errors::statement)?;
    if owned.is_none() {
        return Ok(false);
    }
    // Waits for transactions in flight, and then sees what they have committed.
    let handled: Vec<u64> = conn
        .exec(
            format!("SELECT written + skipped + rejected FROM {SLOTS} WHERE run_id = ? FOR UPDATE"),
            (&handle.run_id,),
        )
        .await
        .map_err(errors::statement)?;
    match handled.iter().all(|rows| *rows == 0) {
        true => forget_within(conn, &handle.run_id).await,
        false => Ok(false),
    }
}

fn no_ledger() -> Error {
    Error::new(ErrorKind::Fenced, "this database has no ledger of runs any more")
        .hint("start the load anew with --restart")
}

#[async_trait]
impl Ledger for MysqlTarget {
    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>> {
        let mut session = self.session().await?;
        found::runs(&mut session.0, query).await
    }

    async fn ids(&self, prefix: &str) -> Result<Vec<String>> {
        let mut session = self.session().await?;
        found::ids(&mut session.0, prefix).await
    }

    async fn inputs(&self, keys: &[String]) -> Result<Vec<InputRecord>> {
        let mut session = self.session().await?;
        found::inputs(&mut session.0, keys).await
    }

    async fn prune(&self, keep: u64, limit: u64) -> Result<u64> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        if !exists(conn).await? || !has_table(conn, INPUTS).await? {
            return Ok(0);
        }
        let Some(bound) = found::bound(conn, keep).await? else {
            return Ok(0);
        };
        begin(conn).await?;
        let pruned = found::prune_within(conn, &bound, limit).await;
        end(conn, pruned).await
    }

    async fn elsewhere(&self, identity: &str, object: &str) -> Result<Option<String>> {
        let mut session = self.session().await?;
        found::elsewhere(&mut session.0, identity, object).await
    }

    async fn start(&self, run: &NewRun) -> Result<RunHandle> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        let has_inputs = make(conn, &self.settings.database).await?;
        begin(conn).await?;
        let started = start_within(conn, run, has_inputs).await;
        end(conn, started).await
    }

    async fn slots(&self, run_id: &str) -> Result<Vec<SlotState>> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        match exists(conn).await? {
            true => states(conn, run_id).await,
            false => Err(no_ledger()),
        }
    }

    async fn take_over(&self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
        let mut attempt = 1;
        loop {
            let mut session = self.session().await?;
            let conn = &mut session.0;
            if !exists(conn).await? {
                return Err(no_run(run_id));
            }
            begin(conn).await?;
            let taken = take_over_within(conn, run_id).await;
            match end(conn, taken).await {
                Err(error) if error.kind() == ErrorKind::Overloaded && attempt < TAKE_OVER_ATTEMPTS => {
                    attempt += 1
                }
                done => return done,
            }
        }
    }

    async fn note_opening(&self, run_id: &str, opening: &Opening) -> Result<bool> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        if !exists(conn).await? {
            return Ok(false);
        }
        begin(conn).await?;
        let noted = note_opening_within(conn, run_id, opening).await;
        end(conn, noted).await
    }

    async fn finish(&self, handle: &RunHandle, counts: Counts) -> Result<()> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        if !exists(conn).await? {
            return Err(no_ledger());
        }
        begin(conn).await?;
        let finished = finish_within(conn, handle, counts).await;
        end(conn, finished).await
    }

    async fn forget(&self, run_id: &str) -> Result<bool> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        if !exists(conn).await? {
            return Ok(false);
        }
        begin(conn).await?;
        let forgotten = forget_within(conn, run_id).await;
        end(conn, forgotten).await
    }

    async fn forget_unbegun(&self, handle: &RunHandle) -> Result<bool> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        if !exists(conn).await? {
            return Ok(false);
        }
        begin(conn).await?;
        let forgotten = forget_unbegun_within(conn, handle).await;
        end(conn, forgotten).await
    }

    async fn conclude(&self, _: &str) -> Result<()> {
        Ok(())
    }
}
