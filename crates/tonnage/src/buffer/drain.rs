//! The drain: rows from the area, or read back from the journal, through a lane into the table.
//!
//! Two tasks, so that rows are read while others are written: one takes and reads them, one writes. Between them is
//! room for one batch.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::mpsc, task::spawn_blocking};

use super::{
    OnReject,
    area::{Area, Take},
    form::{Batch, Forms},
    journal::Reader,
    row::Chunk,
};
use crate::{
    error::{Error, Result},
    ledger::RunHandle,
    load::{LaneTask, Piece, Progress, RejectsFile, Shared, Stop},
    plan::Plan,
    reject::Reject,
    slot::Advance,
    table::Equality,
    target::Target,
};

/// Bytes of rows taken at a time: large enough to keep a lane busy, and small beside the area.
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
}

impl Drain {
    /// Drains until the area says that nothing more will come, or until something ends the buffer.
    pub async fn run(self: Arc<Self>, forms: Forms, reader: Option<Reader>) {
        let (batches_in, batches_out) = mpsc::channel(1);
        let feeding = {
            let drain = self.clone();
            tokio::spawn(async move { drain.feed(forms, reader, batches_in).await })
        };
        let writing = {
            let drain = self.clone();
            tokio::spawn(async move { drain.write(batches_out).await })
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
        mut forms: Forms,
        mut reader: Option<Reader>,
        batches: mpsc::Sender<Batch>,
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
            let (back, read) = blocking(move || {
                let read = forms.read(&chunks);
                Ok((forms, read))
            })
            .await?;
            forms = back;
            for batch in read? {
                // A closed channel means that the writer has ended, and says why itself.
                if batches.send(batch).await.is_err() {
                    return Ok(());
                }
            }
        }
    }

    async fn write(self: &Arc<Self>, mut batches: mpsc::Receiver<Batch>) -> Result<()> {
        let mut lanes: Vec<(Arc<Shared>, LaneTask)> = Vec::new();
        while let Some(Batch { plan, mut pieces }) = batches.recv().await {
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

    fn shared(self: &Arc<Self>, plan: Arc<Plan>) -> Shared {
        let drain = self.clone();
        let mut shared = Shared::new(
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
fn leave_rejects(shared: &Shared, pieces: &mut Vec<Piece>) -> bool {
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
