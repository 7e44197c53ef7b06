//! The ledger: `tonnage_runs`, a row a run, `tonnage_slots`, a row a slot, and `tonnage_inputs`, the rows by which runs
//! are found ([`found`]).
//!
//! They are InnoDB tables in the database that the URL names for them (`ledger_schema`), else in the database of the URL,
//! else in one called `tonnage` that has them; else they are made in the database of the URL. The transactions of the rows
//! span all of them, whichever database the rows are in. Numbers of 64 bits are unsigned there as here. An unfinished run keeps its identity a second time, in a
//! column with a unique index that is null once it is finished: there are no partial indexes. Every move of a slot
//! counts up `moves`, so that the server's count of changed rows is the count of rows moved. The tables are made
//! outside the transactions, which making a table would end.

mod found;
mod setup;

use std::fmt::Write;

use async_trait::async_trait;
use mysql_async::{Conn, Row, prelude::Queryable};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{
        Emptied, Ledger, NewRun, Opening, OtherLedger, RunDetail, RunHandle, RunQuery, RunRecord, Setup,
        Sought, inputs::InputRecord,
    },
    slot::{Advance, BlockMark, Counts, Position, SlotState},
};

use super::{
    MysqlTarget,
    catalog::{INPUTS, RUNS, SLOTS, get, rows},
    errors,
    statements::empty,
    types::quote,
};

/// The database that is looked in where that of the URL has no ledger, and in which `tonnage init` makes one.
const DATABASE: &str = "tonnage";

/// The ledger's tables in SQL.
#[derive(Clone)]
struct Tables {
    /// The name of the database, as it is.
    database: String,
    runs: String,
    slots: String,
    inputs: String,
    /// Not in a ledger of an earlier version, until a run starts in it under a user who may add the table.
    has_inputs: bool,
}

impl Tables {
    fn within(database: &str, has_inputs: bool) -> Self {
        let table = |name| format!("{}.{name}", quote(database));
        Self {
            database: database.to_owned(),
            runs: table(RUNS),
            slots: table(SLOTS),
            inputs: table(INPUTS),
            has_inputs,
        }
    }

    /// Those of the ledger; none where it was never made.
    async fn locate(conn: &mut Conn, asked: Option<&str>) -> Result<Option<Self>> {
        let within = match asked {
            Some(asked) => format!("table_schema = {}", literal(asked)),
            None => format!("table_schema IN (database(), '{DATABASE}')"),
        };
        let found: Vec<(String, String)> = conn
            .query(format!(
                "SELECT table_schema, table_name FROM information_schema.tables WHERE {within} \
                 AND table_name IN ('{RUNS}', '{INPUTS}') ORDER BY table_schema = database() DESC"
            ))
            .await
            .map_err(errors::statement)?;
        let Some((database, _)) = found.iter().find(|(_, table)| table == RUNS) else {
            return Ok(None);
        };
        let has_inputs = found
            .iter()
            .any(|(other, table)| other == database && table == INPUTS);
        Ok(Some(Self::within(database, has_inputs)))
    }

    async fn existing(conn: &mut Conn, asked: Option<&str>) -> Result<Self> {
        Self::locate(conn, asked).await?.ok_or_else(|| {
            Error::new(ErrorKind::Fenced, "this database has no ledger of runs any more")
                .hint("start the load anew with --restart")
        })
    }

    /// An error of a statement about them.
    fn failed(&self, failure: mysql_async::Error) -> Error {
        self.denied(errors::statement(failure))
    }

    /// The same, with what to do where the user lacks a right.
    fn denied(&self, error: Error) -> Error {
        match error.code_text() {
            Some("1044" | "1142" | "1143") => error
                .at(format!("the ledger in database {} cannot be used", self.database))
                .hint(setup::HINT),
            _ => error,
        }
    }
}

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

/// Refuses a ledger whose tables were given an engine without transactions: positions would move without their rows, and
/// stay where those are undone.
async fn check_engines(conn: &mut Conn, tables: &Tables) -> Result<()> {
    let plain: Option<(String, String)> = conn
        .query_first(format!(
            "SELECT table_name, coalesce(engine, 'none') FROM information_schema.tables t \
             WHERE table_schema = {} AND table_name IN ('{RUNS}', '{SLOTS}', '{INPUTS}') AND NOT EXISTS \
                 (SELECT 1 FROM information_schema.engines e WHERE e.engine = t.engine AND e.transactions = 'YES')",
            literal(&tables.database)
        ))
        .await
        .map_err(errors::statement)?;
    match plain {
        None => Ok(()),
        Some((table, engine)) => Err(Error::config(format!(
            "the ledger's table {table} has the engine {engine}, which has no transactions: positions would move \
             without their rows"
        ))
        .hint(format!(
            "ALTER TABLE {}.{table} ENGINE=InnoDB",
            quote(&tables.database)
        ))),
    }
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
    /// The table in SQL.
    slots: String,
}

impl Mover {
    pub async fn new(conn: &mut Conn, handle: &RunHandle, asked: Option<&str>) -> Result<Self> {
        let tables = Tables::existing(conn, asked).await?;
        check_engines(conn, &tables).await?;
        let Tables { slots, .. } = tables;
        Ok(Self {
            handle: handle.clone(),
            slots,
        })
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
            "UPDATE {} AS s JOIN ({given}) AS a ON s.slot = a.slot \
             SET s.block = a.block, s.block_rows = a.block_rows, s.file = a.file, s.byte_offset = a.byte_offset, \
                 s.file_rows = a.file_rows, s.source_rows = a.source_rows, s.hash = a.hash, \
                 s.written = s.written + a.written, s.skipped = s.skipped + a.skipped, \
                 s.rejected = s.rejected + a.rejected, s.moves = s.moves + 1 \
             WHERE {} AND s.block = a.from_block AND s.block_rows = a.from_rows",
            self.slots,
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
            "UPDATE {} AS s JOIN ({given}) AS a ON s.slot = a.slot \
             SET s.written = s.written + a.written, s.skipped = s.skipped + a.skipped, \
                 s.rejected = s.rejected + a.rejected, s.moves = s.moves + 1 WHERE {}",
            self.slots,
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

/// Makes the tables where they are missing.
async fn make(conn: &mut Conn, own: &str, asked: Option<&str>) -> Result<Tables> {
    let found = Tables::locate(conn, asked).await?;
    if let Some(tables) = found.as_ref().filter(|tables| tables.has_inputs) {
        return Ok(tables.clone());
    }
    let database = found.map_or_else(|| asked.unwrap_or(own).to_owned(), |tables| tables.database);
    setup::locked(conn, &database, async |conn| {
        match Tables::locate(conn, asked).await? {
            Some(tables) => found::add(conn, tables).await,
            None => make_all(conn, &database).await,
        }
    })
    .await
}

async fn make_all(conn: &mut Conn, database: &str) -> Result<Tables> {
    let tables = Tables::within(database, true);
    let left = setup::left(conn, &tables).await?;
    for statement in left.into_iter().chain(setup::statements(&tables)) {
        conn.query_drop(statement).await.map_err(|failure| {
            let error = errors::statement(failure);
            if error.kind() != ErrorKind::Refused {
                return error;
            }
            let error = error.at(format!("cannot make the ledger in database {database}"));
            // Not every refusal is a matter of rights: a disk may be full.
            match error.code_text() {
                Some("1044" | "1142" | "1227") => error.hint(setup::HINT),
                Some("1049") => {
                    error.hint("`tonnage init TARGET --execute` makes it, or prints what makes it")
                }
                _ => error,
            }
        })?;
    }
    Ok(tables)
}

async fn start_within(conn: &mut Conn, tables: &Tables, run: &NewRun) -> Result<RunHandle> {
    let Tables { runs, slots, .. } = tables;
    let detail = run.detail.to_json()?;
    let inserted = conn
        .exec_drop(
            format!(
                "INSERT INTO {runs} (run_id, identity, unfinished, epoch, started, written, skipped, rejected, detail) \
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
                    format!("SELECT 1 FROM {runs} WHERE run_id = ? AND unfinished = ?"),
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
        Err(failure) => return Err(tables.failed(failure)),
    }
    let id = literal(&run.run_id);
    let each: Vec<_> = (0..run.detail.slots)
        .map(|slot| format!("({id}, 1, {slot}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)"))
        .collect();
    if !each.is_empty() {
        conn.query_drop(format!(
            "INSERT INTO {slots} (run_id, epoch, {STATE}, moves) VALUES {}",
            each.join(", ")
        ))
        .await
        .map_err(errors::statement)?;
    }
    if tables.has_inputs {
        found::put_on_record(conn, &tables.inputs, &run.run_id, &run.detail).await?;
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

async fn take_over_within(
    conn: &mut Conn,
    tables: &Tables,
    run_id: &str,
) -> Result<(RunHandle, Vec<SlotState>)> {
    let Tables { runs, slots, .. } = tables;
    conn.exec_drop(
        format!("UPDATE {runs} SET epoch = epoch + 1 WHERE run_id = ? AND finished IS NULL"),
        (run_id,),
    )
    .await
    .map_err(errors::statement)?;
    if conn.affected_rows() != 1 {
        return Err(no_run(run_id));
    }
    let epoch: i64 = conn
        .exec_first(format!("SELECT epoch FROM {runs} WHERE run_id = ?"), (run_id,))
        .await
        .map_err(errors::statement)?
        .ok_or_else(|| no_run(run_id))?;
    // Waits for every transaction that holds a slot.
    conn.exec_drop(
        format!("UPDATE {slots} SET epoch = ? WHERE run_id = ?"),
        (epoch, run_id),
    )
    .await
    .map_err(errors::statement)?;
    let states = states(conn, tables, run_id).await?;
    Ok((
        RunHandle {
            run_id: run_id.to_owned(),
            epoch,
        },
        states,
    ))
}

async fn states(conn: &mut Conn, tables: &Tables, run_id: &str) -> Result<Vec<SlotState>> {
    let Tables { slots, .. } = tables;
    let sql = format!("SELECT {STATE} FROM {slots} WHERE run_id = ? ORDER BY slot");
    rows(conn, &sql, &[run_id])
        .await?
        .into_iter()
        .map(slot_state)
        .collect()
}

async fn note_opening_within(
    conn: &mut Conn,
    tables: &Tables,
    run_id: &str,
    opening: &Opening,
) -> Result<bool> {
    let Tables { runs, .. } = tables;
    let found: Option<String> = conn
        .exec_first(
            format!("SELECT detail FROM {runs} WHERE run_id = ? AND finished IS NULL FOR UPDATE"),
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
        format!("UPDATE {runs} SET detail = ? WHERE run_id = ?"),
        (detail.to_json()?, run_id),
    )
    .await
    .map_err(errors::statement)?;
    Ok(true)
}

async fn finish_within(conn: &mut Conn, tables: &Tables, handle: &RunHandle, counts: Counts) -> Result<()> {
    let Tables { runs, slots, .. } = tables;
    // A run that has finished already stays so: the answer to an earlier attempt may have been lost.
    conn.exec_drop(
        format!(
            "UPDATE {runs} SET finished = coalesce(finished, unix_timestamp()), unfinished = NULL, \
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
    conn.exec_drop(format!("DELETE FROM {slots} WHERE run_id = ?"), (&handle.run_id,))
        .await
        .map_err(errors::statement)
}

async fn forget_within(conn: &mut Conn, tables: &Tables, run_id: &str) -> Result<bool> {
    let Tables {
        runs,
        slots,
        inputs,
        has_inputs,
        ..
    } = tables;
    // Slots last: they wait for transactions in flight, which then find their run gone.
    conn.exec_drop(format!("DELETE FROM {runs} WHERE run_id = ?"), (run_id,))
        .await
        .map_err(errors::statement)?;
    let removed = conn.affected_rows();
    conn.exec_drop(format!("DELETE FROM {slots} WHERE run_id = ?"), (run_id,))
        .await
        .map_err(errors::statement)?;
    let mut known = removed > 0;
    if *has_inputs {
        conn.exec_drop(format!("DELETE FROM {inputs} WHERE run_id = ?"), (run_id,))
            .await
            .map_err(errors::statement)?;
        known |= conn.affected_rows() > 0;
    }
    Ok(known)
}

async fn forget_unbegun_within(conn: &mut Conn, tables: &Tables, handle: &RunHandle) -> Result<bool> {
    let Tables { runs, slots, .. } = tables;
    let owned: Option<i64> = conn
        .exec_first(
            format!(
                "SELECT epoch FROM {runs} WHERE run_id = ? AND epoch = ? AND finished IS NULL FOR UPDATE"
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
            format!("SELECT written + skipped + rejected FROM {slots} WHERE run_id = ? FOR UPDATE"),
            (&handle.run_id,),
        )
        .await
        .map_err(errors::statement)?;
    match handled.iter().all(|rows| *rows == 0) {
        true => forget_within(conn, tables, &handle.run_id).await,
        false => Ok(false),
    }
}

impl MysqlTarget {
    /// The database of the ledger, where one was chosen.
    pub(super) fn asked(&self) -> Option<&str> {
        self.settings.ledger_database.as_deref()
    }
}

#[async_trait]
impl Ledger for MysqlTarget {
    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>> {
        let mut session = self.session().await?;
        found::runs(&mut session.0, self.asked(), query).await
    }

    async fn ids(&self, prefix: &str) -> Result<Vec<String>> {
        let mut session = self.session().await?;
        found::ids(&mut session.0, self.asked(), prefix).await
    }

    async fn inputs(&self, keys: &[String]) -> Result<Vec<InputRecord>> {
        let mut session = self.session().await?;
        found::inputs(&mut session.0, self.asked(), keys).await
    }

    async fn prune(&self, keep: u64, limit: u64) -> Result<u64> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        let tables = Tables::locate(conn, self.asked()).await?;
        let Some(tables) = tables.filter(|tables| tables.has_inputs) else {
            return Ok(0);
        };
        let Some(bound) = found::bound(conn, &tables, keep).await? else {
            return Ok(0);
        };
        begin(conn).await?;
        let pruned = found::prune_within(conn, &tables, &bound, limit).await;
        end(conn, pruned).await
    }

    async fn elsewhere(&self, sought: &Sought) -> Result<Vec<OtherLedger>> {
        let mut session = self.session().await?;
        found::elsewhere(&mut session.0, self.asked(), sought).await
    }

    async fn setup(&self, grantees: &[String]) -> Result<Vec<Setup>> {
        let mut session = self.session().await?;
        let setup = setup::setup(&mut session.0, self.asked(), grantees).await?;
        Ok(vec![setup])
    }

    async fn set_up(&self, grantees: &[String]) -> Result<()> {
        let mut session = self.session().await?;
        setup::set_up(&mut session.0, self.asked(), grantees).await
    }

    async fn start(&self, run: &NewRun) -> Result<RunHandle> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        let tables = make(conn, &self.settings.database, self.asked()).await?;
        check_engines(conn, &tables).await?;
        begin(conn).await?;
        let started = start_within(conn, &tables, run).await;
        end(conn, started).await
    }

    async fn slots(&self, run_id: &str) -> Result<Vec<SlotState>> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        let tables = Tables::existing(conn, self.asked()).await?;
        states(conn, &tables, run_id).await
    }

    async fn take_over(&self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
        let mut attempt = 1;
        loop {
            let mut session = self.session().await?;
            let conn = &mut session.0;
            let Some(tables) = Tables::locate(conn, self.asked()).await? else {
                return Err(no_run(run_id));
            };
            check_engines(conn, &tables).await?;
            begin(conn).await?;
            let taken = take_over_within(conn, &tables, run_id).await;
            match end(conn, taken).await {
                Err(error) if error.kind() == ErrorKind::Overloaded && attempt < TAKE_OVER_ATTEMPTS => {
                    attempt += 1
                }
                done => return done,
            }
        }
    }

    /// Tables that a crash empties take no part in transactions, and no run into them has a ledger.
    async fn emptied(&self, _: &[String]) -> Result<Vec<Emptied>> {
        Ok(Vec::new())
    }

    async fn accept_emptied(&self, _: &RunHandle) -> Result<()> {
        Ok(())
    }

    async fn note_opening(&self, run_id: &str, opening: &Opening) -> Result<bool> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        let Some(tables) = Tables::locate(conn, self.asked()).await? else {
            return Ok(false);
        };
        begin(conn).await?;
        let noted = note_opening_within(conn, &tables, run_id, opening).await;
        end(conn, noted).await
    }

    async fn finish(&self, handle: &RunHandle, counts: Counts) -> Result<()> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        let tables = Tables::existing(conn, self.asked()).await?;
        begin(conn).await?;
        let finished = finish_within(conn, &tables, handle, counts).await;
        end(conn, finished).await
    }

    async fn forget(&self, run_id: &str) -> Result<bool> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        let Some(tables) = Tables::locate(conn, self.asked()).await? else {
            return Ok(false);
        };
        begin(conn).await?;
        let forgotten = forget_within(conn, &tables, run_id).await;
        end(conn, forgotten).await
    }

    async fn forget_unbegun(&self, handle: &RunHandle) -> Result<bool> {
        let mut session = self.session().await?;
        let conn = &mut session.0;
        let Some(tables) = Tables::locate(conn, self.asked()).await? else {
            return Ok(false);
        };
        begin(conn).await?;
        let forgotten = forget_unbegun_within(conn, &tables, handle).await;
        end(conn, forgotten).await
    }

    async fn conclude(&self, _: &str) -> Result<()> {
        Ok(())
    }
}
