//! A lane: one connection with one writer, which turns pieces into committed writes.
//!
//! Invariants:
//! - The pieces of a slot reach one lane in order, and a lane commits them in order.
//! - A write begins by moving the ledger rows of its slots. If they are elsewhere, either an earlier attempt at this
//!   very write was committed after all, or the run belongs to another process: the ledger says which.
//! - Rejects are fsynced before the commit that skips their rows.
//! - Only the row that the database refuses when it is alone is rejected; timeouts and lost connections never are.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array},
    compute::take_record_batch,
    row::{RowConverter, SortField},
};
use tokio::sync::mpsc;
use tonnage_core::{
    error::{Error, ErrorKind, Result, arrow_bug},
    reject::Reject,
    report::Counted,
    retry::Attempts,
    slot::Advance,
    target::{Claim, Failure, Guard, Writer},
};

use super::{
    deal::Piece,
    isolate::next_stride,
    keys::{Keys, without},
    rejects::Appended,
    run::RunContext,
    whole::Whole,
    write::{Sent, Write, WriteBuilder},
};
use crate::{plan::Plan, progress::Progress};

/// One lane of a run.
pub struct LaneTask {
    pub(super) shared: Arc<RunContext>,
    pub(super) writer: Option<Box<dyn Writer>>,
    keys: Option<RowConverter>,
    /// Of the columns in whose order rows are sent.
    sent_by: Option<RowConverter>,
    pub(super) names: Vec<Arc<str>>,
    /// Rejects that the write at hand has taken from the run's allowance.
    pub(super) taken: u64,
    /// Rows of the transaction at hand that the operation left out.
    pub(super) left_out: u64,
    /// How long it has waited for rows since its last write.
    idle: Duration,
    /// Whether the write at hand has as many rows as it could have.
    full: bool,
    /// The open transaction of a run that is one.
    pub(super) whole: Whole,
    /// See [`LaneTask::connecting`].
    connects_first: bool,
    /// Which lane of the run it is.
    pub(super) lane: usize,
    /// The database that it writes to, where shards are databases.
    shard: Option<usize>,
}

/// A commit whose outcome is not known.
pub(super) struct UnknownCommit {
    pub(super) appended: Appended,
    pub(super) advances: Vec<Advance>,
    pub(super) superseded: u64,
    pub(super) taken: u64,
    pub(super) rejects: Vec<Reject>,
}

/// A write that is in the open transaction.
pub(super) struct Applied {
    /// The steps of its slots, with what has become of their rows.
    pub(super) advances: Vec<Advance>,
    /// Whether that is not what the transaction was begun with.
    changed: bool,
    pub(super) superseded: u64,
    appended: Appended,
    /// Its bad rows, where the commit is to be reported.
    rejects: Vec<Reject>,
}

/// Why a write did not end in a commit.
pub(super) enum WriteError {
    /// It did, or did not: only the ledger knows.
    UnknownCommit(Error, UnknownCommit),
    /// More rejects than are allowed; the first `usize` rows can still be committed.
    Full(usize),
    /// A refusal has ended the transaction with all that was in it; the first `usize` rows, at least one, can be
    /// committed by themselves, and the others after them.
    Ended(usize),
    /// As it says.
    Failed(Error),
}

impl From<Error> for WriteError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl LaneTask {
    /// A lane that connects when its first rows come, or sooner: see [`LaneTask::connecting`].
    pub fn new(shared: Arc<RunContext>) -> Result<Self> {
        let plan = &shared.plan;
        let converter = |columns: &[usize]| {
            let fields = columns
                .iter()
                .map(|at| SortField::new(plan.columns[*at].ty.arrow()));
            RowConverter::new(fields.collect()).map_err(arrow_bug)
        };
        let keys = plan.deduplicate.then(|| converter(&plan.key_at)).transpose()?;
        let sorts = !shared.sent_by.is_empty();
        let sent_by = sorts.then(|| converter(&shared.sent_by)).transpose()?;
        let names = plan
            .columns
            .iter()
            .map(|c| Arc::from(c.source_name.as_str()))
            .collect();
        Ok(Self {
            shared,
            writer: None,
            keys,
            sent_by,
            names,
            taken: 0,
            left_out: 0,
            idle: Duration::ZERO,
            full: false,
            whole: Whole::default(),
            connects_first: false,
            lane: 0,
            shard: None,
        })
    }

    /// Is lane `lane` of the run, and writes to the database that `shard` is.
    pub fn placed(mut self, lane: usize, shard: Option<usize>) -> Self {
        (self.lane, self.shard) = (lane, shard);
        self
    }

    /// Has the lane connect while the first block is still being read. If it fails, the first write tries again and
    /// reports why.
    pub fn connecting(mut self) -> Self {
        self.connects_first = true;
        self
    }

    /// Writes what arrives until nothing more does, or the run is stopped.
    pub async fn run(mut self, pieces: &mut mpsc::UnboundedReceiver<Piece>) -> Result<Self> {
        let mut gather = WriteBuilder::new(self.shared.plan.clone());
        let mut open = true;
        if self.connects_first {
            let waiting = Instant::now();
            let (piece, writer) = futures::join!(pieces.recv(), connect(&self.shared, self.shard));
            self.shared.times.idle(self.lane, waiting);
            self.writer = writer.ok();
            match piece {
                Some(piece) => gather.push(piece),
                None => open = false,
            }
        }
        let mut first = true;
        loop {
            // The first rows go as they come, since a database that waits for a full write is idle.
            while open && !gather.full() && !(first && gather.any()) {
                let waiting = Instant::now();
                match pieces.recv().await {
                    Some(piece) => gather.push(piece),
                    None => open = false,
                }
                self.shared.times.idle(self.lane, waiting);
                self.idle += waiting.elapsed();
            }
            if self.shared.stopped() {
                return Ok(self);
            }
            let Some(write) = self.next(&mut gather)? else {
                return Ok(self);
            };
            first = false;
            let due = self.keep_rate(&write).await;
            // At a low rate that may have been long.
            if self.shared.stopped() {
                return Ok(self);
            }
            match self.shared.plan.single_transaction {
                true => self.add(&write).await?,
                false => self.execute(&write, due).await?,
            }
        }
    }

    /// Writes pieces, in order, in as few writes as hold them.
    pub async fn write(&mut self, pieces: Vec<Piece>) -> Result<()> {
        let mut gather = WriteBuilder::new(self.shared.plan.clone());
        pieces.into_iter().for_each(|piece| gather.push(piece));
        while let Some(write) = self.next(&mut gather)? {
            let due = self.keep_rate(&write).await;
            self.execute(&write, due).await?;
        }
        Ok(())
    }

    /// The next write of what is gathered, as large as it may be.
    fn next(&mut self, gather: &mut WriteBuilder) -> Result<Option<Write>> {
        let rows_max = self.shared.throttle.rows(self.lane);
        let is_full = gather.full();
        let write = gather.take(rows_max)?;
        let is_cut = write
            .as_ref()
            .is_some_and(|write| write.rows.num_rows() >= rows_max);
        self.full = is_full || is_cut;
        Ok(write)
    }

    /// Brings one write to its commit, which was due at `due` if it was offered.
    async fn execute(&mut self, write: &Write, due: Option<Instant>) -> Result<()> {
        let begun = Instant::now();
        let attempts = self.shared.plan.attempts();
        self.commit_with_retries(write, attempts).await?;
        let committed = Instant::now();
        let progress = &self.shared.progress;
        progress.writes.record(begun, committed);
        if let Some(due) = due {
            progress.pace.record(due, begun, committed);
        }
        match &self.shared.between {
            Some(between) => between.after(self.lane, &write.rows).await,
            None => Ok(()),
        }
    }

    /// Brings one write to its commit, over lost connections and lost lock races.
    async fn commit_with_retries(&mut self, write: &Write, mut attempts: Attempts) -> Result<()> {
        let shared = self.shared.clone();
        let mut doubt = None;
        let mut lost = None;
        // What is left of the write once rows at its front are committed.
        let mut rest: Option<Write> = None;
        loop {
            let write = rest.as_ref().unwrap_or(write);
            let waiting = Instant::now();
            let Some(turn) = shared.throttle.turn().await else {
                return Err(Error::bug("a lane without turns"));
            };
            shared.times.held(self.lane, waiting);
            let begun = Instant::now();
            let attempted = self.attempt(write, &mut doubt).await;
            let connected = self.writer.is_some();
            let error = match attempted {
                Ok(()) => {
                    self.taken = 0;
                    reconnected(&shared.progress, lost.take());
                    let sent = (write.rows.num_rows(), self.full);
                    let idle = std::mem::take(&mut self.idle);
                    shared.throttle.committed(self.lane, sent, begun.elapsed(), idle);
                    if shared.throttle.is_shrunk() {
                        self.writer = None;
                    }
                    return Ok(());
                }
                Err(WriteError::Full(rows)) => {
                    self.full = false;
                    self.undo().await?;
                    let head = write.head(rows);
                    drop(turn);
                    if !head.parts.is_empty() {
                        Box::pin(self.commit_with_retries(&head, shared.plan.attempts())).await?;
                    }
                    return Err(self.shared.too_many_rejects());
                }
                Err(WriteError::Ended(rows)) => {
                    self.full = false;
                    self.undo().await?;
                    drop(turn);
                    let (head, tail) = (write.head(rows), write.tail(rows));
                    Box::pin(self.commit_with_retries(&head, shared.plan.attempts())).await?;
                    rest = Some(tail);
                    continue;
                }
                Err(WriteError::UnknownCommit(error, doubted)) => {
                    if self.shared.handle.is_none() {
                        return Err(
                            error.hint("without a ledger nothing says whether the last write is there")
                        );
                    }
                    doubt = Some(doubted);
                    self.writer = None;
                    error
                }
                Err(WriteError::Failed(error)) => {
                    self.shared.give_back(std::mem::take(&mut self.taken));
                    let is_lost = matches!(error.kind(), ErrorKind::Unsent | ErrorKind::InDoubt);
                    if is_lost || self.rollback().await.is_err() {
                        self.writer = None;
                    }
                    error
                }
            };
            if !shared.tries_again(&error) || shared.stopped() || shared.shards.is_lost(self.shard) {
                return Err(error);
            }
            let Some(pause) = attempts.pause() else {
                return Err(error);
            };
            if error.kind() == ErrorKind::Overloaded {
                let requests = self.writer.as_ref().and_then(|writer| writer.requests_max());
                shared.throttle.shrink(requests, &error);
                drop(turn);
                if shared.throttle.is_shrunk() {
                    self.writer = None;
                }
                // Halves may go where the whole does not; a doubt is settled with the write that it is about.
                let rows = write.rows.num_rows();
                if connected && rows > 1 && doubt.is_none() {
                    tracing::warn!("overloaded, trying {} rows at a time: {error}", rows / 2);
                    shared.progress.retries.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(pause).await;
                    return self.commit_halves(write, attempts).await;
                }
            }
            attempts.warn(&error);
            if self.writer.is_none() && error.kind() != ErrorKind::Overloaded && lost.is_none() {
                shared.progress.unconnected.fetch_add(1, Ordering::Relaxed);
                lost = Some(Instant::now());
            }
            self.shared.progress.retries.fetch_add(1, Ordering::Relaxed);
            let waiting = Instant::now();
            tokio::time::sleep(pause).await;
            shared.times.held(self.lane, waiting);
        }
    }

    /// Commits a write that was too much at once as two.
    async fn commit_halves(&mut self, write: &Write, mut attempts: Attempts) -> Result<()> {
        let half = write.rows.num_rows() / 2;
        self.shared.throttle.too_many(self.lane, write.rows.num_rows());
        self.full = false;
        attempts.smaller();
        Box::pin(self.commit_with_retries(&write.head(half), attempts)).await?;
        // The head is there: the time starts again.
        let attempts = self.shared.plan.attempts();
        Box::pin(self.commit_with_retries(&write.tail(half), attempts)).await
    }

    /// Rolls back what was not committed, and gives back what it took of the rejects that are allowed.
    async fn undo(&mut self) -> Result<()> {
        self.shared.give_back(std::mem::take(&mut self.taken));
        self.rollback().await
    }

    pub(super) async fn rollback(&mut self) -> Result<()> {
        match &mut self.writer {
            Some(writer) => writer.rollback().await,
            None => Ok(()),
        }
    }

    async fn attempt(&mut self, write: &Write, doubt: &mut Option<UnknownCommit>) -> Result<(), WriteError> {
        let shared = self.shared.clone();
        let Some(mut applied) = self.apply(write, doubt).await? else {
            shared.report_rows_done(write);
            return Ok(());
        };
        let fixed: &[Advance] = match applied.changed && shared.handle.is_some() {
            true => &applied.advances,
            false => &[],
        };
        let writer = self
            .writer
            .as_mut()
            .ok_or_else(|| Error::bug("a transaction without a writer"))?;
        match shared.times.commit(self.lane, writer.commit(fixed)).await {
            Ok(()) => {
                shared.progress.commits.fetch_add(1, Ordering::Relaxed);
                shared.count(&applied.advances, applied.superseded, &applied.rejects);
                shared.report_rows_done(write);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::InDoubt => Err(WriteError::UnknownCommit(
                error,
                UnknownCommit {
                    superseded: applied.superseded,
                    appended: applied.appended,
                    advances: applied.advances,
                    rejects: applied.rejects,
                    taken: std::mem::take(&mut self.taken),
                },
            )),
            Err(error) => {
                if shared.rejects.is_some() {
                    shared.rejects()?.retract(&mut applied.appended)?;
                }
                Err(error.into())
            }
        }
    }

    /// Applies a write in the transaction that it opens, or goes on in, and puts its bad rows aside. None where an
    /// earlier attempt was committed after all; it is then counted.
    pub(super) async fn apply(
        &mut self,
        write: &Write,
        doubt: &mut Option<UnknownCommit>,
    ) -> Result<Option<Applied>, WriteError> {
        let shared = self.shared.clone();
        let single = shared.plan.single_transaction;
        let keys = self.keys(&write.rows)?;
        let superseded = keys.as_ref().map_or_else(Vec::new, Keys::superseded);
        let advances = write.advances(&superseded, &[]);
        let steps: &[Advance] = if shared.handle.is_some() { &advances } else { &[] };
        if let Some(committed) = self.begin(steps, doubt).await? {
            shared.count(&committed.advances, committed.superseded, &committed.rejects);
            return Ok(None);
        }
        let sent = match superseded.is_empty() {
            true => write.rows.clone(),
            false => without(&write.rows, &superseded)?,
        };
        let ordered = self.in_order(&sent)?;
        // Whether the write is sent unchanged, so that places in the one are places in the other.
        let as_it_stands = superseded.is_empty() && ordered.is_none();
        let sent = ordered.unwrap_or(sent);
        let mut rejected: Vec<(usize, Reject)> = Vec::new();
        let mut written_otherwise = false;
        self.left_out = 0;
        // Earlier writes of the one transaction must outlive a bad row.
        let guard = if single { Guard::Savepoint } else { Guard::None };
        if sent.num_rows() > 0
            && let Some(failure) = self
                .send(write, (&sent, Sent::Without(&superseded)), guard)
                .await?
        {
            written_otherwise = true;
            let from = match failure.intact && as_it_stands {
                true => (failure.applied, next_stride(&failure, sent.num_rows())),
                // Rows that a later, bad row replaced must be tried after all, so all are sent again.
                false => {
                    let suspect = failure.suspect.filter(|_| as_it_stands);
                    self.start_over(failure, steps).await?;
                    (0, suspect.unwrap_or(sent.num_rows() / 2).max(1))
                }
            };
            let isolated = self.isolate(write, steps, keys.as_ref(), from, &mut rejected);
            if let Err(trouble) = isolated.await {
                if let (true, WriteError::Full(_)) = (single, &trouble) {
                    // None of them will be committed, but they tell what is wrong.
                    self.put_aside(write, &rejected)?;
                }
                return Err(trouble);
            }
        }
        if let Some(fatal_reject) = &write.fatal_reject {
            return Err(WriteError::Failed(stopped_by(fatal_reject, &self.shared.plan)));
        }
        let rows: Vec<usize> = rejected.iter().map(|(row, _)| *row).collect();
        let mut counted = match written_otherwise {
            true => write.advances(&[], &rows),
            false => advances,
        };
        leave_out(&mut counted, self.left_out);
        let superseded = if written_otherwise {
            0
        } else {
            superseded.len() as u64
        };
        let (appended, rejects) = self.put_aside(write, &rejected)?;
        Ok(Some(Applied {
            advances: counted,
            changed: written_otherwise || self.left_out > 0,
            superseded,
            appended,
            rejects,
        }))
    }

    /// Opens the transaction of a write that failed again; a single transaction goes on where nothing of the write is left
    /// in it.
    async fn start_over(&mut self, failure: Failure, steps: &[Advance]) -> Result<(), WriteError> {
        if !self.shared.plan.single_transaction {
            self.rollback().await?;
            if self.begin(steps, &mut None).await?.is_some() {
                return Err(Error::bug("a write was committed by nobody").into());
            }
        } else if !failure.intact {
            return Err(WriteError::Failed(ended_with_all(failure.error)));
        } else if failure.applied > 0 {
            return Err(WriteError::Failed(failure.error));
        }
        self.left_out = 0;
        Ok(())
    }

    /// Puts the bad rows of a write into the rejects file; returns them where the commit is to be reported.
    fn put_aside(&self, write: &Write, rejected: &[(usize, Reject)]) -> Result<(Appended, Vec<Reject>)> {
        let parsed = write.rejects();
        let found = rejected
            .iter()
            .filter_map(|(row, reject)| Some((write.place(*row)?.0, reject)));
        // Within a slot the rejects of reading come first, as they do in its sequence.
        let records: Vec<_> = parsed.chain(found).collect();
        let kept = match self.shared.committed {
            Some(_) => records.iter().map(|(_, reject)| (*reject).clone()).collect(),
            None => Vec::new(),
        };
        match records.is_empty() {
            true => Ok((Appended::default(), kept)),
            false => Ok((self.shared.rejects()?.append(records)?, kept)),
        }
    }

    /// Opens the transaction. If the write is there already, by an earlier attempt whose end was in doubt, says with
    /// which counts.
    pub(super) async fn begin(
        &mut self,
        steps: &[Advance],
        doubt: &mut Option<UnknownCommit>,
    ) -> Result<Option<UnknownCommit>> {
        let shared = &self.shared;
        if self.writer.is_none() {
            self.writer = Some(connect(shared, self.shard).await?);
        }
        let Some(writer) = &mut self.writer else {
            return Err(Error::bug("a lane without a writer"));
        };
        let claim = match shared.times.begin(self.lane, writer.begin(steps)).await {
            // The slots are where the transaction in doubt was to move them from.
            Err(error) if error.kind() == ErrorKind::Altered => {
                self.retract(doubt)?;
                return Err(error);
            }
            claim => claim?,
        };
        match claim {
            Claim::Held => {
                // The transaction in doubt was not committed: this one holds its ledger rows.
                self.retract(doubt)?;
                Ok(None)
            }
            Claim::Moved => {
                let Some(handle) = shared.handle.as_ref().filter(|_| doubt.is_some()) else {
                    return Err(why_moved(shared, steps).await?);
                };
                // Should this fail as well, the doubt stays, and the next attempt asks again.
                let moved: Vec<u16> = steps.iter().map(|step| step.slot).collect();
                let slots = shared.target.ledger().slots_of(&handle.run_id, &moved).await?;
                let Some(doubt) = doubt.take() else {
                    return Err(Error::fenced());
                };
                let there = |a: &Advance| slots.iter().any(|s| s.slot == a.slot && s.position == a.to);
                match doubt.advances.iter().all(there) {
                    true => {
                        shared.progress.commits.fetch_add(1, Ordering::Relaxed);
                        Ok(Some(doubt))
                    }
                    false => Err(Error::fenced()),
                }
            }
        }
    }

    /// Takes back what a commit in doubt would have put aside, which has not happened.
    fn retract(&self, doubt: &mut Option<UnknownCommit>) -> Result<()> {
        if let Some(mut doubt) = doubt.take() {
            if self.shared.rejects.is_some() {
                self.shared.rejects()?.retract(&mut doubt.appended)?;
            }
            self.shared.give_back(doubt.taken);
        }
        Ok(())
    }

    /// Sends `rows`, which are those of `write` that `sent` says.
    pub(super) async fn send(
        &mut self,
        write: &Write,
        (rows, sent): (&RecordBatch, Sent<'_>),
        guard: Guard,
    ) -> Result<Option<Failure>> {
        let writer = self
            .writer
            .as_mut()
            .ok_or_else(|| Error::bug("a transaction without a writer"))?;
        if let Some(places) = writer.places() {
            *places = write.places(sent, rows.num_rows());
        }
        let outcome = self
            .shared
            .times
            .call(self.lane, writer.write(rows, guard))
            .await?;
        let progress = &self.shared.progress;
        progress
            .statements
            .fetch_add(outcome.statements, Ordering::Relaxed);
        progress
            .bytes_sent
            .fetch_add(outcome.bytes_sent, Ordering::Relaxed);
        self.left_out += outcome.skipped;
        Ok(outcome.failure)
    }

    /// The rows in the order in which they are to be sent; none where they are.
    fn in_order(&mut self, rows: &RecordBatch) -> Result<Option<RecordBatch>> {
        let Some(converter) = &mut self.sent_by else {
            return Ok(None);
        };
        let columns: Vec<ArrayRef> = self
            .shared
            .sent_by
            .iter()
            .map(|at| rows.column(*at).clone())
            .collect();
        let keys = converter.convert_columns(&columns).map_err(arrow_bug)?;
        if (1..rows.num_rows()).all(|row| keys.row(row - 1) <= keys.row(row)) {
            return Ok(None);
        }
        let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
        // Stable, so that the last row of a key is still the last.
        order.sort_by_key(|row| keys.row(*row as usize));
        take_record_batch(rows, &UInt32Array::from(order))
            .map(Some)
            .map_err(arrow_bug)
    }

    fn keys(&mut self, rows: &RecordBatch) -> Result<Option<Keys>> {
        let Some(keys) = &mut self.keys else {
            return Ok(None);
        };
        Keys::of(keys, rows, &self.shared.plan.key_at).map(Some)
    }
}

/// Why the slots of `steps` could not be moved: the run was taken over, or this program has lost count. An error of the
/// ledger where it cannot say.
async fn why_moved(shared: &RunContext, steps: &[Advance]) -> Result<Error> {
    let Some(handle) = &shared.handle else {
        return Ok(Error::bug("slots of a run without a ledger have moved"));
    };
    let ledger = shared.target.ledger();
    if !ledger.is_owned(handle).await? {
        return Ok(Error::fenced());
    }
    let moved: Vec<u16> = steps.iter().map(|step| step.slot).collect();
    let slots = ledger.slots_of(&handle.run_id, &moved).await?;
    for Advance { slot, from, .. } in steps {
        let state = slots.iter().find(|state| state.slot == *slot);
        let there = state.map(|state| state.position);
        if there != Some(*from) {
            return Ok(Error::bug(format!(
                "slot {slot} was left at {from:?} and is at {there:?}"
            )));
        }
    }
    Ok(Error::bug(
        "the slots are where they were left, and could not be moved",
    ))
}

/// Logs that a write is committed whose connection was `lost` at that time, if it was, and what waits by now.
fn reconnected(progress: &Progress, lost: Option<Instant>) {
    let Some(lost) = lost else { return };
    progress.unconnected.fetch_sub(1, Ordering::Relaxed);
    tracing::warn!(
        "reconnected after {:.1} s, and the write is committed; {} wait for the database",
        lost.elapsed().as_secs_f64(),
        Counted(progress.waiting(), "row")
    );
}

/// Opens a writer, into the database that `shard` is where shards are databases.
async fn connect(shared: &RunContext, shard: Option<usize>) -> Result<Box<dyn Writer>> {
    let (plan, handle) = (&shared.plan, shared.handle.as_ref());
    match shard {
        Some(shard) => {
            shared
                .target
                .shard_writer(&plan.write_request(), handle, shard)
                .await
        }
        None => shared.target.writer(&plan.write_request(), handle).await,
    }
}

/// The refusal of a row that has ended the one transaction of a run.
pub(super) fn ended_with_all(error: Error) -> Error {
    error.hint("the refusal has ended the transaction, and all rows with it: load without --single-transaction, or without this row")
}

/// The error that a bad row ends a run with.
pub fn stopped_by(reject: &Reject, plan: &Plan) -> Error {
    let place = match &reject.problem.column {
        Some(column) => format!("{} row {}, column '{column}'", reject.file, reject.row),
        None => format!("{} row {}", reject.file, reject.row),
    };
    let mut hint = match &reject.problem.hint {
        Some(hint) => hint.clone(),
        None => "--on-error reject puts bad rows aside and goes on".to_owned(),
    };
    // A constraint has refused what its type takes.
    let is_of_type = !reject.problem.code.starts_with("23");
    let column = reject.problem.column.as_ref();
    if let Some(column) = column.filter(|column| is_of_type && plan.inferred.contains(column)) {
        hint.push_str(&format!(
            "; the column's type was inferred from the first rows: --create=replace --scan all infers it from all of \
             them, --create=replace --type '{column}=text' sets it"
        ));
    }
    Error::new(ErrorKind::Rejected, &reject.problem.message)
        .at(place)
        .hint(hint)
        .code(&reject.problem.code)
}

/// Moves `left_out` rows from written to skipped. A write does not say which of its rows these were, so how they fall
/// on its slots means nothing; their sum does.
fn leave_out(advances: &mut [Advance], mut left_out: u64) {
    for advance in advances {
        let skipped = left_out.min(advance.counts.written);
        advance.counts.written -= skipped;
        advance.counts.skipped += skipped;
        left_out -= skipped;
    }
}
