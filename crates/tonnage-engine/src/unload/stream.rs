//! A snapshot's batches as one stream, read by several readers at once and handed out in the order of the splits.
//!
//! Each reader takes the next split that nobody has taken and fills a separate queue for it; queues are handed out in
//! the order of their splits. A queue ends with a mark, so that a reader that is gone is not taken for a split
//! that is over. What waits is bounded by [`BATCHES_QUEUED`] a split and [`SPLITS_AHEAD`] splits a reader. A
//! split is in one queue only, so a row comes out once. Nothing is waited for while the next split is chosen: a reader
//! that fails must reach its queue, even if many splits of others come after its own.

use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use tokio::{sync::mpsc, task::JoinSet};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reader::{Reader, Snapshot},
    stop::Stop,
    sync::Lock,
};

/// Batches of a split that wait to be taken.
const BATCHES_QUEUED: usize = 8;
/// Splits that are read, or wait to be taken, before the one that is being taken; for each reader.
const SPLITS_AHEAD: usize = 1;

/// Batches, then none.
type Sent = Result<Option<RecordBatch>>;
type Queue = mpsc::Receiver<Sent>;

/// The splits that are left, shared by all that read a snapshot.
pub(super) struct Splits {
    next: Mutex<usize>,
    end: usize,
    /// Those whose last batch was taken.
    done: AtomicUsize,
}

impl Splits {
    /// `count` splits, none of them taken.
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            next: Mutex::new(0),
            end: count,
            done: AtomicUsize::new(0),
        })
    }

    /// The next split that nobody has taken.
    fn next(&self) -> MutexGuard<'_, usize> {
        self.next.locked()
    }

    /// Refuses what is not everything.
    pub(super) fn check_complete(&self) -> Result<()> {
        match self.done.load(Ordering::Relaxed) == self.end {
            true => Ok(()),
            false => Err(gone()),
        }
    }
}

/// Batches of a snapshot, in the order of its splits.
pub struct Batches {
    schema: SchemaRef,
    queues: mpsc::Receiver<Queue>,
    current: Option<Queue>,
    splits: Arc<Splits>,
    /// Whether all splits come here, rather than to several streams.
    all: bool,
    /// Dropping it ends the reading.
    _tasks: JoinSet<()>,
}

impl Batches {
    /// Begins to read; must be called within an async runtime. Reading ends early where `stop` asks for it.
    pub fn of(snapshot: Snapshot, stop: Stop) -> Self {
        let schema = snapshot.schema();
        let splits = Splits::new(snapshot.splits);
        let batches = Self::with(snapshot.readers, schema, &splits, &stop);
        Self { all: true, ..batches }
    }

    pub(super) fn with(
        readers: Vec<Box<dyn Reader>>,
        schema: SchemaRef,
        splits: &Arc<Splits>,
        stop: &Stop,
    ) -> Self {
        let (send, queues) = mpsc::channel(readers.len().max(1) * SPLITS_AHEAD);
        let mut tasks = JoinSet::new();
        for reader in readers {
            tasks.spawn(read(reader, Arc::clone(splits), send.clone(), stop.clone()));
        }
        Self {
            schema,
            queues,
            current: None,
            splits: Arc::clone(splits),
            all: false,
            _tasks: tasks,
        }
    }

    /// The schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next batch; `None` behind the last one. Nothing comes after an error.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            match &mut self.current {
                Some(queue) => {
                    let sent = queue.recv().await;
                    if let Some(batch) = self.taken(sent)? {
                        return Ok(Some(batch));
                    }
                }
                None => {
                    self.current = self.queues.recv().await;
                    if self.current.is_none() {
                        return self.end();
                    }
                }
            }
        }
    }

    /// [`Batches::next`] for a thread that may block: not one of the async runtime.
    pub fn next_blocking(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            match &mut self.current {
                Some(queue) => {
                    let sent = queue.blocking_recv();
                    if let Some(batch) = self.taken(sent)? {
                        return Ok(Some(batch));
                    }
                }
                None => {
                    self.current = self.queues.blocking_recv();
                    if self.current.is_none() {
                        return self.end();
                    }
                }
            }
        }
    }

    /// What came from the current queue; none at the end of its split.
    fn taken(&mut self, sent: Option<Sent>) -> Result<Option<RecordBatch>> {
        match sent {
            Some(Ok(Some(batch))) => Ok(Some(batch)),
            Some(Ok(None)) => {
                self.splits.done.fetch_add(1, Ordering::Relaxed);
                self.current = None;
                Ok(None)
            }
            Some(Err(error)) => Err(error),
            None => Err(gone()),
        }
    }

    fn end(&self) -> Result<Option<RecordBatch>> {
        if self.all {
            self.splits.check_complete()?;
        }
        Ok(None)
    }
}

fn gone() -> Error {
    Error::bug("a reader ended before its split was read")
}

/// Reads splits until none is left, or nobody takes their batches any more.
async fn read(mut reader: Box<dyn Reader>, splits: Arc<Splits>, queues: mpsc::Sender<Queue>, stop: Stop) {
    loop {
        let (send, queue) = mpsc::channel(BATCHES_QUEUED);
        let Ok(place) = queues.reserve().await else {
            return;
        };
        let split = {
            // Held while the queue is passed on, so that queues are in the order of their splits.
            let mut next = splits.next();
            if *next == splits.end {
                return;
            }
            place.send(queue);
            *next += 1;
            *next - 1
        };
        if let Err(error) = read_split(&mut *reader, split, &send, &stop).await {
            // The others stop at their next split. Nobody waiting means nobody to tell.
            *splits.next() = splits.end;
            let _ = send.send(Err(error)).await;
            return;
        }
    }
}

async fn read_split(
    reader: &mut dyn Reader,
    split: usize,
    send: &mpsc::Sender<Sent>,
    stop: &Stop,
) -> Result<()> {
    unless_stopped(stop, reader.open(split)).await?;
    while let Some(batch) = unless_stopped(stop, reader.next()).await? {
        if send.send(Ok(Some(batch))).await.is_err() {
            return Ok(());
        }
    }
    // Nobody waiting means nobody to tell.
    let _ = send.send(Ok(None)).await;
    Ok(())
}

/// Does `work` unless it is stopped: a query may take long to its first row.
pub(super) async fn unless_stopped<T>(stop: &Stop, work: impl Future<Output = Result<T>>) -> Result<T> {
    let done = stop.unless(work).await;
    done.unwrap_or_else(|| {
        Err(Error::new(
            ErrorKind::Cancelled,
            "interrupted; no file was written",
        ))
    })
}
