//! A run: reader and dealer on threads of their own, lanes as tasks, and the account at the end.
//!
//! Memory is bounded by the room in the queue ([`Plan::queue_bytes_max`]): a piece takes room before it is sent to its
//! lane, and the room of rows is given back when they are committed or given up. A lane that waits for more rows holds
//! room for less than a write, and no piece asks for more than what is then left, so the dealer never waits for lanes
//! that wait for the dealer.
//!
//! A run that was stopped, or that a part has failed of, ends although its source is silent: nothing but the reader
//! waits for the source, and the reader is waited for at most [`READER_WAIT_MAX`]. A thread that is blocked in a read of a
//! pipe is left there; it ends with the read.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    task::JoinSet,
};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::RunHandle,
    reject::Reject,
    slot::Advance,
    source::{Block, Source},
    stop::{STOP_LOOK, Stop},
    sync::Lock,
    target::Target,
};

use super::{
    deal::{Dealer, Lane, Piece},
    lane::LaneTask,
    rejects::{RejectsFile, aside},
    shards::Shards,
    stages::{Opening, Times},
    throttle::Throttle,
    tune::Bounds,
    write::{PIECES_MAX, Write},
};
use crate::{plan::Plan, progress::Progress};

/// Blocks between reader and dealer.
const BLOCKS_QUEUED: usize = 2;
/// Queue room is counted in this many bytes, since a semaphore counts to 2^32.
const ROOM_UNIT: usize = 1024;
/// How long the reader of a run that was stopped may take to its end, which is mostly that of a block: less than a second, within
/// which whoever interrupts a run sees its account.
const READER_WAIT_MAX: Duration = Duration::from_millis(700);

/// Told of a commit: the steps that it made, and the rows that it put aside.
pub type OnCommitted = Box<dyn Fn(&[Advance], &[Reject]) + Send + Sync>;

/// Called with the number of rows of a block that are durable or put aside, after [`OnCommitted`] was called for them.
pub type OnRowsDone = Box<dyn Fn(u64, u64) + Send + Sync>;

/// What lanes do between their writes.
#[async_trait]
pub trait AfterCommit: Send + Sync {
    /// Lane `lane` has committed a write of these rows, in the plan's columns, and begins no other before this is done. An
    /// error ends the run.
    async fn after(&self, lane: usize, rows: &RecordBatch) -> Result<()>;
}

/// What the parts of a run share.
pub struct RunContext {
    /// The plan.
    pub plan: Arc<Plan>,
    /// The database.
    pub target: Arc<dyn Target>,
    /// Ownership of the run; none without a ledger.
    pub handle: Option<RunHandle>,
    /// Where bad rows go; none where the first one stops the run.
    pub rejects: Option<Arc<RejectsFile>>,
    /// The counters.
    pub progress: Arc<Progress>,
    /// How fast lanes may go.
    pub throttle: Throttle,
    /// Asked for from outside.
    pub stop: Stop,
    /// Told of every commit, once it is known.
    pub committed: Option<OnCommitted>,
    /// Told of every commit, block by block.
    pub rows_done: Option<OnRowsDone>,
    /// What lanes do between their writes.
    pub between: Option<Arc<dyn AfterCommit>>,
    /// Whether a refusal that is no row's fault is waited out, as a lost connection is.
    pub persistent: bool,
    /// Columns in whose order the rows of a write are sent; none where they are sent as they came. Rows that are equal
    /// in them keep their order.
    pub sent_by: Vec<usize>,
    /// The shards that rows are dealt to.
    pub shards: Shards,
    /// Where the time goes.
    pub times: Times,
    /// Set when a part has failed, for the others.
    failed: AtomicBool,
    /// Rejects found so far, over all attempts; by all plans where there are several for the rows of one run.
    pub rejects_taken: Arc<AtomicU64>,
}

impl RunContext {
    /// Shared state before the first row; `rejected` counts the rejects of earlier attempts.
    pub fn new(
        plan: Arc<Plan>,
        target: Arc<dyn Target>,
        handle: Option<RunHandle>,
        rejects: Option<Arc<RejectsFile>>,
        progress: Arc<Progress>,
        stop: Stop,
    ) -> Self {
        let rejects_taken = Arc::new(AtomicU64::new(rejects.as_ref().map_or(0, |r| r.records())));
        Self {
            throttle: Throttle::new(bounds(&plan), plan.jobs, plan.rate),
            shards: Shards::of(&plan),
            times: Times::new(plan.jobs, Opening::of(target.capabilities())),
            plan,
            target,
            handle,
            rejects,
            progress,
            stop,
            committed: None,
            rows_done: None,
            between: None,
            persistent: false,
            sent_by: Vec::new(),
            failed: AtomicBool::new(false),
            rejects_taken,
        }
    }

    /// Whether to stop, for whatever reason.
    pub fn stopped(&self) -> bool {
        self.stop.requested() || self.failed.load(Ordering::Relaxed)
    }

    /// Ends once [`RunContext::stopped`].
    async fn halted(&self) {
        while !self.stopped() {
            tokio::time::sleep(STOP_LOOK).await;
        }
    }

    /// The rejects file.
    pub fn rejects(&self) -> Result<&RejectsFile> {
        self.rejects
            .as_deref()
            .ok_or_else(|| Error::bug("a reject in a run that has no rejects file"))
    }

    /// Takes one reject from the run's allowance; false if it is used up.
    pub fn take_reject(&self) -> bool {
        self.take_rejects(1) == 1
    }

    fn rejects_allowed(&self) -> u64 {
        let read = self.progress.read.load(Ordering::Relaxed);
        self.plan.rejects_max.allowed(read)
    }

    /// What is left of the allowance.
    pub fn rejects_left(&self) -> u64 {
        let taken = self.rejects_taken.load(Ordering::Relaxed);
        self.rejects_allowed().saturating_sub(taken)
    }

    /// Takes up to `wanted` rejects from the allowance; says how many it gave.
    pub fn take_rejects(&self, wanted: u64) -> u64 {
        let allowed = self.rejects_allowed();
        let mut given = 0;
        let _ = self
            .rejects_taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                given = wanted.min(allowed.saturating_sub(taken));
                Some(taken + given)
            });
        given
    }

    /// Gives rejects back that were undone.
    pub fn give_back(&self, rejects: u64) {
        self.rejects_taken.fetch_sub(rejects, Ordering::Relaxed);
    }

    /// The error for a used-up allowance.
    pub fn too_many_rejects(&self) -> Error {
        let path = self.rejects.as_ref().map(|r| match self.plan.single_transaction {
            true => aside(r.path()),
            false => r.path().to_owned(),
        });
        let path = path.map(|path| path.display().to_string()).unwrap_or_default();
        Error::new(
            ErrorKind::Rejected,
            format!("more than {} rows are bad", self.plan.rejects_max),
        )
        .hint(format!("look at {path}; --max-rejects allows more"))
    }

    /// Whether what failed with `error` is tried again.
    pub fn tries_again(&self, error: &Error) -> bool {
        error.is_transient() || self.persistent && error.kind() == ErrorKind::Refused
    }

    /// Tells which rows of which blocks a committed write was.
    pub fn report_rows_done(&self, write: &Write) {
        if let Some(rows_done) = &self.rows_done {
            write.blocks().for_each(|(block, rows)| rows_done(block, rows));
        }
    }

    /// Counts committed rows and tells of them; `superseded` of the skipped ones were replaced by later rows.
    pub fn count(&self, advances: &[Advance], superseded: u64, rejects: &[Reject]) {
        let skipped: u64 = advances.iter().map(|a| a.counts.skipped).sum();
        self.shards.count(advances);
        self.progress.superseded.fetch_add(superseded, Ordering::Relaxed);
        self.progress
            .left_out
            .fetch_add(skipped.saturating_sub(superseded), Ordering::Relaxed);
        for advance in advances {
            self.progress
                .written
                .fetch_add(advance.counts.written, Ordering::Relaxed);
            self.progress
                .rejected
                .fetch_add(advance.counts.rejected, Ordering::Relaxed);
        }
        if let Some(first) = rejects.first() {
            let problem = &first.problem;
            let column = problem.column.as_ref().map(|name| format!(", column '{name}'"));
            self.progress.first_reject.get_or_init(|| {
                let column = column.unwrap_or_default();
                format!("{} row {}{column}: {}", first.file, first.row, problem.message)
            });
        }
        if let Some(committed) = &self.committed {
            committed(advances, rejects);
        }
    }
}

/// Within what sizes of writes and the number of lanes are found while rows go in.
fn bounds(plan: &Plan) -> Bounds {
    // Rows that come at a rate, or in one transaction, are no measure of what a database takes; and lanes that write to
    // databases of their own are none of each other.
    let is_free = plan.rate.is_none() && !plan.single_transaction && plan.databases() == 1;
    Bounds {
        rows_max: plan.batch_rows,
        lanes_max: plan.writes_max(),
        rows: plan.tune.rows && is_free && plan.batch_rows > 1,
        lanes: plan.tune.lanes && is_free,
    }
}

/// Which lane has what, so that a slot with pieces under way stays with its lane and others go where least waits.
struct LaneLoad {
    lanes: Vec<AtomicU64>,
    /// A slot's lane and its pieces there.
    slots: Vec<Mutex<(usize, u64)>>,
}

/// Room that a piece takes in the queue. Dropping it gives it back.
pub struct QueuePermit {
    permit: OwnedSemaphorePermit,
    loads: Arc<LaneLoad>,
    slot: Option<u16>,
    lane: usize,
    bytes: u64,
}

impl std::fmt::Debug for QueuePermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Room({} bytes)", self.bytes)
    }
}

impl QueuePermit {
    /// Leaves the room of `left` of `rows` rows here, never more than they take; the rest is returned.
    pub fn split(&mut self, left: usize, rows: usize) -> Option<Self> {
        let share = |of: u64| (u128::from(of) * left as u128 / rows.max(1) as u128) as u64;
        let units = self.permit.num_permits();
        let bytes = self.bytes - share(self.bytes);
        let permit = self.permit.split(units - share(units as u64) as usize)?;
        self.bytes -= bytes;
        Some(Self {
            permit,
            loads: self.loads.clone(),
            // The piece stays with its lane as long as any of it is left.
            slot: None,
            lane: self.lane,
            bytes,
        })
    }
}

impl LaneLoad {
    fn choose(&self, slot: u16) -> usize {
        let mut held = self.slots[usize::from(slot)].locked();
        if held.1 == 0 {
            let least = self
                .lanes
                .iter()
                .enumerate()
                .min_by_key(|(_, l)| l.load(Ordering::Relaxed));
            held.0 = least.map_or(0, |(lane, _)| lane);
        }
        held.1 += 1;
        held.0
    }
}

impl Drop for QueuePermit {
    fn drop(&mut self) {
        self.loads.lanes[self.lane].fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(slot) = self.slot {
            self.loads.slots[usize::from(slot)].locked().1 -= 1;
        }
    }
}

/// Moves every row of `source` that the dealer's positions leave to do. Ends when all are committed, when the run was asked to
/// stop, or with the error that ended it.
pub async fn run(shared: Arc<RunContext>, source: Box<dyn Source>, dealer: Dealer) -> Result<()> {
    let (blocks_in, blocks_out) = mpsc::channel(BLOCKS_QUEUED);
    let mut senders = Vec::new();
    let mut lanes = JoinSet::new();
    for lane in 0..shared.plan.jobs {
        let (pieces_in, mut pieces_out) = mpsc::unbounded_channel();
        senders.push(pieces_in);
        let shard = shared.shards.of_lane(lane);
        let mut task = LaneTask::new(shared.clone())?.placed(lane, shard);
        // The first rows go to the first lane, of each database; whether there are any for the others is not known yet.
        // Rows that are offered do not wait for a connection to be made.
        if lane < shared.plan.databases() || shared.throttle.offers() {
            task = task.connecting();
        }
        let shared = shared.clone();
        lanes.spawn(async move {
            let error = match task.run(&mut pieces_out).await {
                Ok(lane) => return Ok(Some(lane)),
                Err(error) => error,
            };
            if let Some(error) = shared.shards.lose(shard, error) {
                shared.failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
            if shared.shards.all_lost() {
                shared.failed.store(true, Ordering::Relaxed);
            }
            // What comes for it is let go, so that it takes no room from the others.
            while pieces_out.recv().await.is_some() {}
            Ok(None)
        });
    }
    let reader = {
        let shared = shared.clone();
        beside(move || read(&shared, source, &blocks_in))?
    };
    let dealing = {
        let shared = shared.clone();
        let handle = Handle::current();
        tokio::task::spawn_blocking(move || deal(&shared, dealer, blocks_out, &senders, &handle))
    };

    let mut errors = Vec::new();
    let mut ended_lanes = Vec::new();
    while let Some(ended) = lanes.join_next().await {
        match joined(ended) {
            Ok(Some(lane)) if shared.plan.single_transaction => ended_lanes.push(lane),
            // Others may need its connection.
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    errors.extend(joined(dealing.await).err());
    if !errors.is_empty() {
        shared.failed.store(true, Ordering::Relaxed);
    }
    errors.extend(end_of(&shared, reader).await.err());
    if shared.plan.single_transaction && errors.is_empty() && !shared.stopped() {
        for lane in &mut ended_lanes {
            errors.extend(lane.conclude().await.err());
        }
    }
    if errors.is_empty() {
        errors.extend(shared.shards.error());
    }
    // The error that broke the run matters more than those that others met when they were stopped.
    errors.sort_by_key(|e| e.kind() == ErrorKind::Cancelled);
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn joined<T>(ended: Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    match ended {
        Ok(result) => result,
        Err(error) => Err(Error::bug(format!(
            "a part of the run ended unexpectedly: {error}"
        ))),
    }
}

/// Starts what a source is to do, which may be to wait, on a separate thread that nobody has to wait for: those of the
/// async runtime are waited for at its end.
pub(super) fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<oneshot::Receiver<Result<T>>> {
    let (send, ended) = oneshot::channel();
    let runtime = Handle::current();
    let working = move || {
        // A source that is a database may have something to tell it at its end.
        let _runtime = runtime.enter();
        // Nobody waiting means nobody to tell.
        let _ = send.send(work());
    };
    let started = thread::Builder::new().name("source".to_owned()).spawn(working);
    started
        .map_err(|error| Error::new(ErrorKind::Refused, format!("no thread could be started: {error}")))?;
    Ok(ended)
}

/// How the reader has ended; a run that was stopped does not wait for it without end.
async fn end_of(shared: &RunContext, reader: oneshot::Receiver<Result<()>>) -> Result<()> {
    let given_up = async {
        shared.halted().await;
        tokio::time::sleep(READER_WAIT_MAX).await;
    };
    tokio::select! {
        biased;
        ended = reader => ended.unwrap_or_else(|_| Err(Error::bug("the reader ended unexpectedly"))),
        () = given_up => {
            tracing::debug!("the source is silent: its reader is left behind");
            Ok(())
        }
    }
}

/// The next block; none at the end, and once the run was stopped.
async fn next_block(shared: &RunContext, blocks: &mut mpsc::Receiver<Block>) -> Option<Block> {
    tokio::select! {
        biased;
        block = blocks.recv() => block,
        () = shared.halted() => None,
    }
}

/// The reader's thread.
fn read(shared: &RunContext, mut source: Box<dyn Source>, blocks: &mpsc::Sender<Block>) -> Result<()> {
    let ended = read_blocks(shared, &mut *source, blocks);
    *shared.progress.remarks.locked() = source.remarks();
    ended
}

fn read_blocks(shared: &RunContext, source: &mut dyn Source, blocks: &mpsc::Sender<Block>) -> Result<()> {
    while !shared.stopped() {
        let reading = Instant::now();
        let read = source.next();
        shared.times.read(reading);
        let Some(mut block) = read? else { break };
        let mut last = false;
        if let Some(limit) = shared.plan.limit {
            last = block.end.rows >= limit;
            truncate(&mut block, limit);
        }
        if block.start.rows == block.end.rows {
            break;
        }
        shared
            .progress
            .bytes_read
            .fetch_add(block.bytes, Ordering::Relaxed);
        // A closed queue means that the dealer has ended, and says why itself.
        if blocks.blocking_send(block).is_err() || last {
            break;
        }
    }
    Ok(())
}

/// Leaves the rows that are among the first `limit` of the source.
pub(crate) fn truncate(block: &mut Block, limit: u64) {
    let keep = limit.saturating_sub(block.start.rows);
    if keep >= block.end.rows - block.start.rows {
        return;
    }
    let first = block.start.file_rows + 1;
    let rows = (0..block.rows.num_rows())
        .take_while(|row| block.origin.row(*row) - first < keep)
        .count();
    block.rows = block.rows.slice(0, rows);
    block.origin.rows = block.origin.rows.slice(0, rows);
    block.origin.offsets = block.origin.offsets.as_ref().map(|o| o.slice(0, rows));
    block.rejects.retain(|r| r.row - first < keep);
    block.end.rows = block.start.rows + keep;
    block.end.file_rows = block.start.file_rows + keep;
}

/// The dealer's thread.
fn deal(
    shared: &RunContext,
    mut dealer: Dealer,
    mut blocks: mpsc::Receiver<Block>,
    lanes: &[mpsc::UnboundedSender<Piece>],
    handle: &Handle,
) -> Result<()> {
    let room = Arc::new(Semaphore::new(shared.plan.queue_bytes_max / ROOM_UNIT + 1));
    let room_max = room_max(&shared.plan);
    let loads = Arc::new(LaneLoad {
        lanes: lanes.iter().map(|_| AtomicU64::new(0)).collect(),
        slots: (0..shared.plan.slots).map(|_| Mutex::new((0, 0))).collect(),
    });
    while let Some(block) = handle.block_on(next_block(shared, &mut blocks)) {
        if shared.stopped() {
            break;
        }
        let rows = block.end.rows - block.start.rows;
        shared.progress.read.fetch_add(rows, Ordering::Relaxed);
        let dealing = Instant::now();
        let mut dealt = dealer.deal(block)?;
        shared.times.dealt(dealing);
        shared
            .progress
            .resumed
            .fetch_add(dealt.resumed, Ordering::Relaxed);
        let mut full = false;
        if dealt.fatal_reject.is_none() && dealt.rejected > 0 {
            let given = shared.take_rejects(dealt.rejected);
            if given < dealt.rejected {
                full = true;
                leave_rejects(&mut dealt.pieces, given as usize);
            }
        }
        for (lane, mut piece) in dealt.pieces {
            let bytes = piece.rows.get_array_memory_size() + piece.rejects_bytes;
            let waiting = Instant::now();
            let wanted = (bytes / ROOM_UNIT + 1).min(room_max);
            let permit = handle.block_on(wait_for_room(shared, &room, wanted as u32));
            shared.times.full(waiting);
            let Some(permit) = permit else { return Ok(()) };
            let (lane, slot) = match lane {
                Lane::Fixed(lane) => (lane, None),
                Lane::Free { slot } => (loads.choose(slot), Some(slot)),
            };
            loads.lanes[lane].fetch_add(bytes as u64, Ordering::Relaxed);
            piece.room = Some(QueuePermit {
                permit,
                loads: loads.clone(),
                slot,
                lane,
                bytes: bytes as u64,
            });
            if lanes[lane].send(piece).is_err() {
                return Ok(());
            }
        }
        if full {
            return Err(shared.too_many_rejects());
        }
        if dealt.fatal_reject.is_some() {
            break;
        }
    }
    Ok(())
}

/// The most units that a piece may ask for: what is left when every lane holds all but a write and waits. A piece's
/// room is rounded up by at most a unit.
fn room_max(plan: &Plan) -> usize {
    let held = plan.jobs * (plan.batch_bytes / ROOM_UNIT + PIECES_MAX);
    (plan.queue_bytes_max / ROOM_UNIT).saturating_sub(held).max(1)
}

/// Waits for room, but not for lanes that have stopped.
async fn wait_for_room(
    shared: &RunContext,
    room: &Arc<Semaphore>,
    wanted: u32,
) -> Option<OwnedSemaphorePermit> {
    loop {
        let permit = room.clone().acquire_many_owned(wanted);
        match tokio::time::timeout(Duration::from_millis(200), permit).await {
            Ok(permit) => return permit.ok(),
            Err(_) if shared.stopped() => return None,
            Err(_) => {}
        }
    }
}

/// Of a block with more rejects than are allowed only the first `kept` rejects are handled: they come first in their
/// slot's sequence, so its position can be after them.
fn leave_rejects(pieces: &mut Vec<(Lane, Piece)>, kept: usize) {
    pieces.retain_mut(|(_, piece)| {
        piece.segments.retain_mut(|segment| {
            segment.rejects.truncate(kept);
            segment.rows = 0..0;
            segment.cut = true;
            !segment.rejects.is_empty()
        });
        piece.rows = piece.rows.slice(0, 0);
        !piece.segments.is_empty()
    });
}
