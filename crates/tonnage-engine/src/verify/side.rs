//! One side of a comparison: rows that can be read again, as often as it takes, by several workers at once.
//!
//! A table is a snapshot whose readers go over the same splits again, so that every pass sees one state where the database
//! keeps one. A source is a thread that reads and workers that convert and hash its blocks.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use arrow::array::{RecordBatch, UInt32Array};
use tokio::task::JoinSet;
use tonnage_core::{
    error::{Error, ErrorKind, Result, arrow_bug},
    reader::Reader,
    reject::Reject,
    slot::BlockMark,
    source::{Block, Origin, Source},
    stop::Stop,
    sync::Lock,
    types::ColumnType,
};

use super::canonical::{Hasher, Hashes};
use crate::load::{Convert, Progress, truncate};

/// Blocks of a source that wait for a worker.
const BLOCKS_QUEUED: usize = 2;

/// What all workers of a comparison know.
pub(super) struct Work {
    pub types: Vec<ColumnType>,
    pub key_at: Vec<usize>,
    /// Workers a source.
    pub jobs: usize,
    pub progress: Arc<Progress>,
    pub stop: Stop,
}

impl Work {
    fn check_stopped(&self) -> Result<()> {
        match self.stop.requested() {
            true => Err(Error::new(
                ErrorKind::Cancelled,
                "interrupted while rows were compared",
            )),
            false => Ok(()),
        }
    }

    fn count(&self, rows: usize) {
        self.progress.read.fetch_add(rows as u64, Ordering::Relaxed);
        self.progress.written.fetch_add(rows as u64, Ordering::Relaxed);
    }
}

/// Rows that are looked at.
pub(super) struct Chunk<'a> {
    /// The rows, in the compared columns.
    pub rows: &'a RecordBatch,
    /// Their hashes.
    pub hashes: &'a Hashes,
    /// Where they came from, of a source, and the rows of the source before its file.
    pub origin: Option<(&'a Origin, u64)>,
    /// Rows of the source that the table cannot hold.
    pub rejects: &'a [Reject],
}

impl Chunk<'_> {
    /// The place of row `row` among all rows of a source, from 1; 0 in a table.
    pub fn place(&self, row: usize) -> u64 {
        self.origin.map_or(0, |(origin, before)| before + origin.row(row))
    }
}

/// What a worker does with rows.
pub(super) trait Visit: Send + 'static {
    /// Looks at rows, each of which is seen by one worker.
    fn take(&mut self, chunk: &Chunk<'_>) -> Result<()>;
}

/// See the module.
pub(super) enum Side {
    Table(TableRows),
    Source(SourceRows),
}

/// Rows of a snapshot.
pub(super) struct TableRows {
    pub readers: Vec<Box<dyn Reader>>,
    pub splits: usize,
    /// To the types that are compared, and the columns that it takes; none where the rows are what is compared.
    pub convert: Option<(Arc<Convert>, Vec<usize>)>,
    /// What messages call it.
    pub shown: Arc<str>,
}

/// Rows of a source.
pub(super) struct SourceRows {
    /// None after a pass has failed.
    pub source: Option<Box<dyn Source>>,
    pub convert: Arc<Convert>,
    /// Only so many rows, from the first on.
    pub limit: Option<u64>,
    /// Rows that are left out, by file and row.
    pub excluded: Arc<HashSet<(String, u64)>>,
    /// Whether a pass has begun.
    pub begun: bool,
}

impl Side {
    /// Whether there can be another pass.
    pub fn is_rereadable(&self) -> bool {
        match self {
            Self::Table(_) => true,
            Self::Source(rows) => rows
                .source
                .as_ref()
                .is_some_and(|source| source.identity().is_some()),
        }
    }

    /// Shows all rows to workers, which are given back.
    pub async fn pass<V: Visit>(
        &mut self,
        work: &Arc<Work>,
        make: impl Fn() -> V + Send + Sync + 'static,
    ) -> Result<Vec<V>> {
        match self {
            Self::Table(rows) => rows.pass(work, make).await,
            Self::Source(rows) => rows.pass(work, make).await,
        }
    }
}

impl TableRows {
    async fn pass<V: Visit>(&mut self, work: &Arc<Work>, make: impl Fn() -> V) -> Result<Vec<V>> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for reader in std::mem::take(&mut self.readers) {
            let (next, work, splits) = (Arc::clone(&next), Arc::clone(work), self.splits);
            let (convert, shown) = (self.convert.clone(), Arc::clone(&self.shown));
            let mut visit = make();
            let hasher = Hasher::new(&work.types, &work.key_at)?;
            tasks.spawn(async move {
                let mut reader = reader;
                let see = async {
                    loop {
                        let split = next.fetch_add(1, Ordering::Relaxed);
                        if split >= splits {
                            return Ok(());
                        }
                        reader.open(split).await?;
                        while let Some(batch) = reader.next().await? {
                            work.check_stopped()?;
                            see_batch(batch, convert.as_ref(), &shown, &hasher, &mut visit)
                                .inspect(|rows| work.count(*rows))?;
                        }
                    }
                };
                let ended: Result<()> = match work.stop.unless(see).await {
                    Some(ended) => ended,
                    None => work.check_stopped(),
                };
                ended.map(|()| (reader, visit))
            });
        }
        let mut visits = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            let ended = ended.unwrap_or_else(|_| Err(Error::bug("a reader ended before its work was done")));
            let (reader, visit) = ended?;
            self.readers.push(reader);
            visits.push(visit);
        }
        Ok(visits)
    }
}

/// Shows a batch of a table; how many rows it had.
fn see_batch(
    batch: RecordBatch,
    convert: Option<&(Arc<Convert>, Vec<usize>)>,
    shown: &Arc<str>,
    hasher: &Hasher,
    visit: &mut impl Visit,
) -> Result<usize> {
    let seen = batch.num_rows();
    let mut rejects = Vec::new();
    let rows = match convert {
        None => batch,
        Some((convert, columns)) => {
            let origin = Origin {
                file: Arc::clone(shown),
                first_row: 0,
                first_offset: None,
                rows: UInt32Array::from_iter_values(0..seen as u32),
                offsets: None,
                places: None,
            };
            let taken = batch.project(columns).map_err(arrow_bug)?;
            convert.apply(taken, origin, &mut rejects)?.0
        }
    };
    visit.take(&Chunk {
        hashes: &hasher.hash(&rows)?,
        rows: &rows,
        origin: None,
        rejects: &rejects,
    })?;
    Ok(seen)
}

impl SourceRows {
    async fn pass<V: Visit>(
        &mut self,
        work: &Arc<Work>,
        make: impl Fn() -> V + Send + Sync + 'static,
    ) -> Result<Vec<V>> {
        let gone = || Error::bug("a source is read on after it has failed");
        let mut source = self.source.take().ok_or_else(gone)?;
        let again = std::mem::replace(&mut self.begun, true);
        let (convert, excluded) = (Arc::clone(&self.convert), Arc::clone(&self.excluded));
        let (work, limit) = (Arc::clone(work), self.limit);
        let reading = move || -> Result<(Box<dyn Source>, Vec<V>)> {
            if again {
                source.seek(0, &BlockMark::default())?;
            }
            let visits = read(&mut *source, (&convert, &excluded), limit, &work, &make)?;
            Ok((source, visits))
        };
        let ended = tokio::task::spawn_blocking(reading).await;
        let (source, visits) =
            ended.unwrap_or_else(|_| Err(Error::bug("the source ended while it was read")))?;
        self.source = Some(source);
        Ok(visits)
    }
}

/// Reads a source to its end, and has workers look at its blocks.
fn read<V: Visit>(
    source: &mut dyn Source,
    (convert, excluded): (&Convert, &HashSet<(String, u64)>),
    limit: Option<u64>,
    work: &Work,
    make: &(dyn Fn() -> V + Sync),
) -> Result<Vec<V>> {
    let (send, blocks) = mpsc::sync_channel::<Block>(BLOCKS_QUEUED);
    let blocks = Mutex::new(blocks);
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        let worker = || -> Result<V> {
            let hasher = Hasher::new(&work.types, &work.key_at)?;
            let mut visit = make();
            let mut seen = Ok(());
            loop {
                // Held while it waits: the others wait behind it.
                let received = blocks.locked().recv();
                let Ok(block) = received else {
                    return seen.map(|()| visit);
                };
                // Who has failed takes blocks on, so that the reader does not wait for ever.
                if seen.is_ok() {
                    seen = see_block(block, convert, excluded, &hasher, &mut visit);
                    failed.fetch_or(seen.is_err(), Ordering::Relaxed);
                }
            }
        };
        let workers: Vec<_> = (0..work.jobs.max(1)).map(|_| scope.spawn(worker)).collect();
        let mut reading = || -> Result<()> {
            while let Some(mut block) = source.next()? {
                work.check_stopped()?;
                let last = limit.is_some_and(|limit| block.end.rows >= limit);
                if let Some(limit) = limit {
                    truncate(&mut block, limit);
                }
                work.count(block.rows.num_rows() + block.rejects.len());
                work.progress.bytes_read.fetch_add(block.bytes, Ordering::Relaxed);
                if send.send(block).is_err() || last || failed.load(Ordering::Relaxed) {
                    break;
                }
            }
            Ok(())
        };
        let read = reading();
        drop(send);
        let mut visits = Vec::new();
        let mut error = read.err();
        for worker in workers {
            match worker.join() {
                Ok(Ok(visit)) => visits.push(visit),
                Ok(Err(failure)) => error = Some(error.unwrap_or(failure)),
                Err(_) => error = Some(Error::bug("a worker ended before its work was done")),
            }
        }
        error.map_or(Ok(visits), Err)
    })
}

fn see_block(
    block: Block,
    convert: &Convert,
    excluded: &HashSet<(String, u64)>,
    hasher: &Hasher,
    visit: &mut impl Visit,
) -> Result<()> {
    let before = block.start.rows - block.start.file_rows;
    let mut rejects = block.rejects;
    let (rows, origin) = convert.apply(block.rows, block.origin, &mut rejects)?;
    let (rows, origin) = match excluded.is_empty() {
        true => (rows, origin),
        false => without(rows, origin, excluded)?,
    };
    rejects.retain(|reject| !excluded.contains(&(reject.file.to_string(), reject.row)));
    visit.take(&Chunk {
        hashes: &hasher.hash(&rows)?,
        rows: &rows,
        origin: Some((&origin, before)),
        rejects: &rejects,
    })
}

/// The rows that are not excluded.
fn without(
    rows: RecordBatch,
    origin: Origin,
    excluded: &HashSet<(String, u64)>,
) -> Result<(RecordBatch, Origin)> {
    let is_kept =
        |row: &u32| !excluded.contains(&(origin.file(*row as usize).to_string(), origin.row(*row as usize)));
    let kept: Vec<u32> = (0..rows.num_rows() as u32).filter(is_kept).collect();
    if kept.len() == rows.num_rows() {
        return Ok((rows, origin));
    }
    crate::load::pick(&rows, &origin, kept)
}
