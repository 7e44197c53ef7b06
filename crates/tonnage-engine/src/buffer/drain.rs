//! The drain: rows from the area, or read back from the journal, through a lane into the table.
//!
//! Two tasks, so that rows are read while others are written: one takes and reads them, one writes. Between them is
//! room for what is taken once. What was put is kept until it is written: where the table is found altered, it is read again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::mpsc, task::spawn_blocking};
use tonnage_core::{
    error::{Error, Result},
    ledger::RunHandle,
    reject::Reject,
    slot::Advance,
    stop::Stop,
    table::Equality,
    target::Target,
};

use super::{
    OnReject,
    area::{Area, Take},
    form::{Batch, Forms},
    journal::Reader,
    row::Chunk,
    shape::Shape,
};
use crate::{
    load::{LaneTask, Piece, Progress, RejectsFile, RunContext},
    plan::Plan,
};

/// Bytes of rows taken at a time: large enough to keep a lane busy, and small compared with the area.
pub(super) const TAKE_BYTES: usize = 4 << 20;
/// Lanes kept, each with its connection. Only one works at a time, so as to commit in order.
const LANES_MAX: usize = 2;

/// What the drain shares with the buffer.
pub(super) struct Drain {
    pub area: Arc<Area>,
    pub target: Arc<dyn Target>,
    pub handle: RunHandle,
    pub rejects: Arc<RejectsFile>,
    /// Rows taken from the allowance of rejects, over all plans and all openings of the journal.
    pub rejects_taken: Arc<AtomicU64>,
    pub on_reject: Option<OnReject>,
    pub progress: Arc<Progress>,
    pub stop: Stop,
    /// Rows put aside, over all openings of the journal.
    pub rejected: Arc<AtomicU64>,
    pub shape: Arc<Shape>,
}

/// Rows as they were put and as they are to be written.
struct Taken {
    chunks: Vec<Chunk>,
    batches: Vec<Batch>,
    /// The shape of the table that they were read for.
    shape: u64,
}

/// Plans, and the shape of the table that they are for.
struct Formed {
    forms: Forms,
    shape: u64,
}

impl Formed {
    /// Reads rows for the table as it is now.
    fn read(&mut self, chunks: Vec<Chunk>, shape: &Shape) -> Result<Taken> {
        if shape.number() != self.shape {
            let (number, planner) = shape.planner();
            self.forms = self.forms.anew(planner)?;
            self.shape = number;
        }
        Ok(Taken {
            batches: self.forms.read(&chunks)?,
            chunks,
            shape: self.shape,
        })
    }
}

impl Drain {
    /// Drains until the area says that nothing more will come, or until something ends the buffer.
    pub async fn run(self: Arc<Self>, forms: Forms, reader: Option<Reader>) {
        let (taken_in, taken_out) = mpsc::channel(1);
        // Until it is first used nobody alters it.
        let formed = Formed { forms, shape: 0 };
        let feeding = {
            let drain = self.clone();
            tokio::spawn(async move { drain.feed(formed, reader, taken_in).await })
        };
        let writing = {
            let drain = self.clone();
            tokio::spawn(async move { drain.write(taken_out).await })
        };
        // The writer first: what ends it ends the other.
        for part in [writing, feeding] {
            match part.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.area.fail(&error),
                Err(error) => self.area.fail(&unexpected(&error)),
            }
        }
        self.area.end();
    }

    async fn feed(
        &self,
        mut formed: Formed,
        mut reader: Option<Reader>,
        written: mpsc::Sender<Taken>,
    ) -> Result<()> {
        loop {
            let chunks: Vec<Chunk> = match self.area.take(TAKE_BYTES) {
                Take::Rows(chunks) => chunks,
                Take::Spilled(from, to) => {
                    let Some(mut from_disk) = reader.take() else {
                        return Err(Error::bug("rows were left in a journal that is not there"));
                    };
                    let (back, read) = blocking(move || {
                        let read = from_disk.read(from, to, TAKE_BYTES);
                        Ok((from_disk, read))
                    })
                    .await?;
                    reader = Some(back);
                    let (chunks, last) = read?;
                    self.area.read_back(&chunks, last);
                    chunks
                }
                Take::Wait(None) => {
                    self.area.drain.notified().await;
                    continue;
                }
                Take::Wait(Some(until)) => {
                    tokio::select! {
                        () = self.area.drain.notified() => {}
                        () = tokio::time::sleep_until(until.into()) => {}
                    }
                    continue;
                }
                Take::End => return Ok(()),
            };
            let shape = self.shape.clone();
            let (back, taken) = blocking(move || {
                let taken = formed.read(chunks, &shape);
                Ok((formed, taken))
            })
            .await?;
            formed = back;
            // A closed channel means that the writer has ended, and says why itself.
            if written.send(taken?).await.is_err() {
                return Ok(());
            }
        }
    }

    async fn write(self: &Arc<Self>, mut all: mpsc::Receiver<Taken>) -> Result<()> {
        let mut lanes = Vec::new();
        while let Some(mut taken) = all.recv().await {
            // The mark when the table was last looked at, and how often it was since.
            let (mut mark, mut looks) = (0, 0);
            loop {
                if taken.shape != self.shape.number() {
                    lanes.clear();
                    taken = self.read_anew(taken.chunks).await?;
                }
                let batches = std::mem::take(&mut taken.batches);
                let Err(error) = self.write_batches(&mut lanes, batches).await else {
                    break;
                };
                if self.area.lock().committed > mark {
                    (mark, looks) = (self.area.lock().committed, 0);
                }
                looks += 1;
                self.shape.look_again(error, looks, &self.stop).await?;
                // What is written from here on is what was put, also for a table that is as it was.
                lanes.clear();
                taken = self.read_anew(taken.chunks).await?;
            }
        }
        Ok(())
    }

    /// Reads the rows that are not committed for the table as it is now.
    async fn read_anew(&self, chunks: Vec<Chunk>) -> Result<Taken> {
        let committed = self.area.lock().committed;
        // What was taken from it for rows that were not written is given back.
        let rejected = self.rejected.load(Ordering::Relaxed);
        self.rejects_taken.store(rejected, Ordering::Relaxed);
        let shape = self.shape.clone();
        blocking(move || {
            let (number, planner) = shape.planner();
            let chunks = chunks.into_iter().filter_map(|chunk| chunk.after(committed));
            let mut formed = Formed {
                forms: Forms::new(planner, committed)?,
                shape: number,
            };
            formed.read(chunks.collect(), &shape)
        })
        .await
    }

    async fn write_batches(
        self: &Arc<Self>,
        lanes: &mut Vec<(Arc<RunContext>, LaneTask)>,
        batches: Vec<Batch>,
    ) -> Result<()> {
        for Batch { plan, mut pieces } in batches {
            let at = match lanes.iter().position(|(of, _)| Arc::ptr_eq(&of.plan, &plan)) {
                Some(at) => at,
                None => {
                    if lanes.len() >= LANES_MAX {
                        lanes.remove(0);
                    }
                    let shared = Arc::new(self.shared(plan));
                    lanes.push((shared.clone(), LaneTask::new(shared)?));
                    lanes.len() - 1
                }
            };
            let (shared, lane) = &mut lanes[at];
            let are_too_many = leave_rejects(shared, &mut pieces);
            lane.write(pieces).await?;
            if are_too_many {
                return Err(shared.too_many_rejects());
            }
        }
        Ok(())
    }

    fn shared(self: &Arc<Self>, plan: Arc<Plan>) -> RunContext {
        let drain = self.clone();
        let mut shared = RunContext::new(
            plan,
            self.target.clone(),
            Some(self.handle.clone()),
            Some(self.rejects.clone()),
            self.progress.clone(),
            self.stop.clone(),
        );
        shared.persistent = true;
        shared.sent_by = sent_by(&shared.plan);
        shared.rejects_taken = self.rejects_taken.clone();
        shared.committed = Some(Box::new(move |advances, rejects| {
            drain.committed(advances, rejects)
        }));
        shared
    }

    fn committed(&self, advances: &[Advance], rejects: &[Reject]) {
        self.rejected.fetch_add(rejects.len() as u64, Ordering::Relaxed);
        if let Some(on_reject) = &self.on_reject {
            rejects.iter().for_each(|reject| on_reject(reject));
        }
        // The position in the only block counts rows, so it is a sequence number.
        if let Some(last) = advances.iter().map(|advance| advance.to.rows).max() {
            self.area.committed(last);
        }
    }
}

/// The key in whose order rows are sent, as a database finds its places faster that way: the operation's own, whose rows
/// have an order to keep, else the primary key. None where rows do not bring all of it, or where only the database can
/// tell which keys are equal.
fn sent_by(plan: &Plan) -> Vec<usize> {
    let key = plan.operation.key();
    if !key.is_empty() {
        let column = |name: &String| plan.table.column(name);
        let are_provable = key
            .iter()
            .all(|name| column(name).is_some_and(|column| column.equality == Equality::Provable));
        return if are_provable {
            plan.key_at.clone()
        } else {
            Vec::new()
        };
    }
    let place = |name: &String| plan.columns.iter().position(|column| column.name == *name);
    let key = plan.table.primary_key();
    let places = key.and_then(|key| key.columns.iter().map(place).collect::<Option<Vec<_>>>());
    places.unwrap_or_default()
}

/// Leaves the first bad row that is more than are allowed, and all that comes after it. Whether there is one.
fn leave_rejects(shared: &RunContext, pieces: &mut Vec<Piece>) -> bool {
    for at in 0..pieces.len() {
        let piece = &mut pieces[at];
        let bad: usize = piece.segments.iter().map(|segment| segment.rejects.len()).sum();
        let given = shared.take_rejects(bad as u64) as usize;
        if given < bad {
            for segment in &mut piece.segments {
                segment.rejects.truncate(given);
                segment.rows = 0..0;
            }
            piece.rows = piece.rows.slice(0, 0);
            pieces.truncate(at + usize::from(given > 0));
            return true;
        }
    }
    false
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(unexpected(&error)))
}

/// A part that panicked, perhaps in a callback of the user's: whoever waits must hear of it.
fn unexpected(error: &tokio::task::JoinError) -> Error {
    Error::bug(format!("the drain ended unexpectedly: {error}"))
}

/// How long a thread of the buffer sleeps before it looks again by itself.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(500);
