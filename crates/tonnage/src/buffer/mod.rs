//! Fast ingest: a buffer that takes single rows at the speed of arrays.
//!
//! Rows go into a memory area and are answered at once; a drain in the background writes them to the table by the
//! table's best path, many at a time. Each row gets a **sequence number**, and two marks say how far rows have come:
//! the highest that a producer has put ([`Buffer::written`]) and the **low mark** ([`Buffer::committed`]), up to which
//! every row of every producer is durable in the table or in the rejects.
//!
//! Invariants:
//! - A row is in the table exactly when the low mark has reached it, but for the moment between a commit and the news
//!   of it: rows are committed in the order of their numbers, and the mark moves by what a commit has proved.
//! - With a [journal](JournalOptions) a row that was acknowledged as journaled comes to the table exactly once,
//!   whatever dies in between: its number is its position in the ledger, which moves in the transaction of the rows.
//! - Bad rows are on disk in the rejects before the mark passes them, and cost only themselves.
//! - Memory is bounded, and so is the journal. A database that is away is waited for: first the area fills, then the
//!   journal, then producers are held.
//!
//! ```
//! use tonnage::{Database, buffer::Row};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("house.db");
//! # let shown = path.display().to_string();
//! # let made = rusqlite::Connection::open(&path)?;
//! # made.execute_batch("CREATE TABLE readings (device TEXT, value REAL)")?;
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let db = Database::connect(&shown).await?;
//! let buffer = db.buffer("readings").open().await?;
//! let sequence = buffer.put(Row::json(r#"{"device": "a7", "value": 21.5}"#)).await?;
//! buffer.wait(sequence).await?;
//! assert_eq!((sequence, buffer.committed()), (1, 1));
//! let report = buffer.close().await?;
//! assert_eq!(report.rows.written, 1);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! Where a database has such a path of its own (a memory-optimised write, asynchronous inserts), its target can offer
//! it as a method: the plan chooses methods, and the marks then have to come from the database.

mod area;
mod drain;
mod form;
mod journal;
mod metrics;
mod open;
mod options;
mod own;
mod producers;
mod report;
mod row;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};

use self::{
    area::{Area, Mark, Offered},
    drain::Drain,
    form::Planner,
    own::finish,
    row::Rows,
};
pub use self::{
    journal::{Lost, Torn},
    metrics::Metrics,
    options::{
        AREA_BYTES_LEAST, AREA_BYTES_MAX, Ack, BufferOptions, DRAIN_AGE, DRAIN_BYTES, JOURNAL_BYTES_LEAST,
        JOURNAL_BYTES_MAX, JournalOptions, REJECTS_MAX, WhenFull,
    },
    producers::{PRODUCER_NAME_BYTES_MAX, PRODUCERS_MAX},
    report::{BufferReport, BufferRows, Recovery},
    row::Row,
};
use crate::{
    error::{Error, ErrorKind, Result},
    reject::Reject,
};

/// Called with rows that were put aside.
pub(crate) type OnReject = Arc<dyn Fn(&Reject) + Send + Sync>;

/// Speeds are taken over at least this long.
const SPEED_OVER: Duration = Duration::from_secs(1);

/// Takes rows for one table and drains them in the background. A clone is a producer of its own into the same buffer;
/// all of them may be used by any number of threads and tasks at once.
///
/// Nothing is made durable by being dropped: [`Buffer::close`] drains everything. When the last clone is dropped
/// without it, rows in memory are lost, and those in a journal wait for its next opening.
pub struct Buffer {
    shared: Arc<Inner>,
    /// The highest sequence number that this producer was given.
    written: AtomicU64,
}

/// What the clones of a buffer share.
struct Inner {
    area: Arc<Area>,
    ack: Ack,
    when_full: WhenFull,
    drain: Arc<Drain>,
    planner: Planner,
    opened: report::Opened,
    /// The schema of batches that was found to fit.
    fits: Mutex<Option<SchemaRef>>,
    speed: Mutex<Speed>,
    /// Gone when the journal is closed.
    journal: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// Whether it has a journal, which outlives it.
    has_journal: bool,
}

/// Rows in and out at the last look, and the speeds since the one before.
struct Speed {
    at: Instant,
    rows_in: u64,
    rows_out: u64,
    in_per_second: f64,
    out_per_second: f64,
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            written: AtomicU64::new(0),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let unfinished = {
            let state = self.area.lock();
            state.next - 1 - state.committed
        };
        if unfinished > 0 && self.area.lock().failed.is_none() {
            tracing::warn!("a buffer was dropped with {unfinished} rows that are not committed");
        }
        self.abandon();
    }
}

impl Inner {
    /// Ends everything at once: what is being written may still be committed, nothing after it.
    fn abandon(&self) {
        self.drain.stop.request();
        self.area
            .fail(&Error::new(ErrorKind::Cancelled, "the buffer was stopped"));
    }
}

impl Buffer {
    /// What was found in the journal when it was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.shared.opened.recovery
    }

    /// Puts a row; its sequence number, once it is acknowledged.
    ///
    /// `Overloaded` where there is no room and the buffer is not to wait for it; any other error is the one that ended
    /// the buffer. Where an error comes after the row was accepted, the row may still reach the table. A put that is
    /// dropped while it waits for room has put nothing; one that waits for its acknowledgement has put its row.
    pub async fn put(&self, row: impl Into<Row>) -> Result<u64> {
        let row = row.into();
        self.put_with(1, || self.shared.area.offer_row(&row)).await
    }

    /// Puts the rows of a batch, all or none; the sequence number of the last one. Columns go by name, and have to be
    /// of types that the table's columns can hold exactly.
    ///
    /// As [`Buffer::put`]; `Schema` where the batch does not fit the table. A batch without rows has put nothing and is
    /// answered with the last number there is.
    pub async fn put_many(&self, batch: RecordBatch) -> Result<u64> {
        self.fits(&batch)?;
        let count = batch.num_rows() as u64;
        let rows = Rows::Arrow(batch);
        self.put_with(count, || self.shared.area.offer_rows(rows.clone(), None))
            .await
    }

    /// Puts rows that `producer` has numbered itself, `first` being the number of the first: those that it has put
    /// before are not taken again, so a producer that got no answer can send the same once more. Its numbers have no
    /// gaps; they may begin anywhere.
    ///
    /// As [`Buffer::put_many`]; `Config` where rows of the producer are missing between. Producers are remembered as
    /// long as the buffer is open, with a journal as long as the journal is kept, and [`PRODUCERS_MAX`] at most.
    pub async fn put_many_from(&self, producer: &str, first: u64, batch: RecordBatch) -> Result<u64> {
        self.fits(&batch)?;
        let count = batch.num_rows() as u64;
        let rows = Rows::Arrow(batch);
        let producer: Arc<str> = producer.into();
        let offer = || {
            self.shared
                .area
                .offer_rows(rows.clone(), Some((&producer, first)))
        };
        self.put_with(count, offer).await
    }

    /// [`Buffer::put`] for threads: blocks the thread while it waits.
    pub fn put_blocking(&self, row: impl Into<Row>) -> Result<u64> {
        let row = row.into();
        self.put_blocking_with(1, || self.shared.area.offer_row(&row))
    }

    /// [`Buffer::put_many`] for threads.
    pub fn put_many_blocking(&self, batch: RecordBatch) -> Result<u64> {
        self.fits(&batch)?;
        let count = batch.num_rows() as u64;
        let rows = Rows::Arrow(batch);
        self.put_blocking_with(count, || self.shared.area.offer_rows(rows.clone(), None))
    }

    async fn put_with(&self, rows: u64, mut offer: impl FnMut() -> Result<Offered>) -> Result<u64> {
        let area = &self.shared.area;
        if rows == 0 {
            return Ok(self.accepted());
        }
        let sequence = match (offer()?, self.shared.when_full) {
            (Offered::Taken(sequence), _) => sequence,
            (Offered::Full, WhenFull::Fail) => return Err(self.refused(rows)),
            (Offered::Full, WhenFull::Wait) => area.offered(offer).await?,
        };
        self.written.fetch_max(sequence, Ordering::Relaxed);
        match self.shared.ack {
            Ack::Accepted => {}
            Ack::Journaled => {
                area.until(|state| state.reached(Mark::Journaled, sequence))
                    .await?
            }
            Ack::Committed => {
                area.until(|state| state.reached(Mark::Committed, sequence))
                    .await?
            }
        }
        Ok(sequence)
    }

    fn put_blocking_with(&self, rows: u64, mut offer: impl FnMut() -> Result<Offered>) -> Result<u64> {
        let area = &self.shared.area;
        if rows == 0 {
            return Ok(self.accepted());
        }
        let sequence = match (offer()?, self.shared.when_full) {
            (Offered::Taken(sequence), _) => sequence,
            (Offered::Full, WhenFull::Fail) => return Err(self.refused(rows)),
            (Offered::Full, WhenFull::Wait) => area.offered_blocking(offer)?,
        };
        self.written.fetch_max(sequence, Ordering::Relaxed);
        match self.shared.ack {
            Ack::Accepted => {}
            Ack::Journaled => area.until_blocking(|state| state.reached(Mark::Journaled, sequence))?,
            Ack::Committed => area.until_blocking(|state| state.reached(Mark::Committed, sequence))?,
        }
        Ok(sequence)
    }

    fn refused(&self, rows: u64) -> Error {
        self.shared.area.lock().counters.refused += rows;
        Error::new(ErrorKind::Overloaded, "the buffer is full")
            .hint("the database takes rows more slowly than they come: put them again later")
    }

    /// Whether batches of this schema can go to the table.
    fn fits(&self, batch: &RecordBatch) -> Result<()> {
        let known = || self.shared.fits.lock().unwrap_or_else(PoisonError::into_inner);
        let schema = batch.schema_ref();
        if known()
            .as_ref()
            .is_some_and(|fits| Arc::ptr_eq(fits, schema) || fits == schema)
        {
            return Ok(());
        }
        self.shared.planner.for_batches(schema)?;
        *known() = Some(schema.clone());
        Ok(())
    }

    /// The highest sequence number that this producer, this clone of the buffer, was given; 0 before its first row.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The highest sequence number there is.
    pub fn accepted(&self) -> u64 {
        self.shared.area.lock().next - 1
    }

    /// Rows of every producer up to here are in the journal; without one, accepted.
    pub fn journaled(&self) -> u64 {
        self.shared.area.lock().journaled
    }

    /// The low mark: rows of every producer up to here are durable in the table or in the rejects.
    pub fn committed(&self) -> u64 {
        self.shared.area.lock().committed
    }

    /// Waits until the low mark has reached `sequence`. `Config` for a row that was never put.
    pub async fn wait(&self, sequence: u64) -> Result<()> {
        let area = &self.shared.area;
        area.until(|state| state.reached(Mark::Committed, sequence)).await
    }

    /// [`Buffer::wait`] for threads.
    pub fn wait_blocking(&self, sequence: u64) -> Result<()> {
        let area = &self.shared.area;
        area.until_blocking(|state| state.reached(Mark::Committed, sequence))
    }

    /// Waits until the row is in the journal. `Config` for a row that was never put.
    pub async fn wait_journaled(&self, sequence: u64) -> Result<()> {
        let area = &self.shared.area;
        area.until(|state| state.reached(Mark::Journaled, sequence)).await
    }

    /// The mark up to which rows are journaled, once it lies beyond `after`; none where it never will, as
    /// the buffer has ended. For whoever tells producers how far their rows have come.
    pub async fn journaled_beyond(&self, after: u64) -> Option<u64> {
        self.beyond(Mark::Journaled, after).await
    }

    /// As [`Buffer::journaled_beyond`], for the low mark.
    pub async fn committed_beyond(&self, after: u64) -> Option<u64> {
        self.beyond(Mark::Committed, after).await
    }

    async fn beyond(&self, mark: Mark, after: u64) -> Option<u64> {
        let area = &self.shared.area;
        area.until(|state| match state.at(mark) {
            at if at > after => Some(Some(at)),
            _ if state.ended || state.failed.is_some() => Some(None),
            _ => None,
        })
        .await
    }

    /// Drains what this producer has put, without waiting for more, and waits until it is durable.
    pub async fn flush(&self) -> Result<()> {
        self.flush_to(self.written()).await
    }

    /// Drains what every producer has put so far, and waits until it is durable.
    pub async fn flush_all(&self) -> Result<()> {
        self.flush_to(self.accepted()).await
    }

    async fn flush_to(&self, sequence: u64) -> Result<()> {
        self.shared.area.hurry(sequence);
        self.wait(sequence).await
    }

    /// How it is doing.
    pub fn metrics(&self) -> Metrics {
        let shared = &self.shared;
        let progress = &shared.drain.progress;
        let state = shared.area.lock();
        let rows_in = state.counters.rows_in;
        let rows_out = state.committed - shared.opened.position;
        let mut speed = shared.speed.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = speed.at.elapsed();
        if passed >= SPEED_OVER {
            speed.in_per_second = (rows_in - speed.rows_in) as f64 / passed.as_secs_f64();
            speed.out_per_second = (rows_out - speed.rows_out) as f64 / passed.as_secs_f64();
            (speed.at, speed.rows_in, speed.rows_out) = (Instant::now(), rows_in, rows_out);
        }
        Metrics {
            depth_rows: state.next - 1 - state.committed,
            depth_bytes: (state.held_bytes + state.pending_bytes) as u64,
            depth_bytes_peak: state.held_bytes_peak as u64,
            oldest_seconds: state.oldest().map_or(0.0, |at| at.elapsed().as_secs_f64()),
            rows_in,
            bytes_in: state.counters.bytes_in,
            rows_out,
            rows_in_per_second: speed.in_per_second,
            rows_out_per_second: speed.out_per_second,
            duplicates: state.counters.duplicates,
            rejected: shared.drain.rejected.load(Ordering::Relaxed),
            refused: state.counters.refused,
            drains: state.counters.drains,
            commits: progress.commits.load(Ordering::Relaxed),
            retries: progress.retries.load(Ordering::Relaxed),
            journal_groups: state.counters.groups,
            journal_bytes: state.journal_bytes,
            mark_accepted: state.next - 1,
            mark_journaled: state.journaled,
            mark_committed: state.committed,
        }
    }

    /// Takes no further rows from any producer, waits until all are durable, and gives the account. An error is the one
    /// that ended the buffer; [`Buffer::report`] has the account then too.
    pub async fn close(self) -> Result<BufferReport> {
        let area = &self.shared.area;
        area.close();
        let ended = area.until(|state| match &state.failed {
            Some(failure) if state.ended => Some(Err(failure.error())),
            _ => state.ended.then_some(Ok(())),
        });
        let ended = ended.await;
        self.join_journal().await;
        ended?;
        if !self.shared.has_journal {
            finish(&*self.shared.drain.target, &self.shared.drain.handle).await?;
        }
        Ok(self.report())
    }

    /// Ends it at once. Rows that are not committed stay in the journal for its next opening; without one they are lost,
    /// and the account says how many.
    pub async fn stop(self) -> BufferReport {
        self.shared.abandon();
        self.shared.area.until(|state| state.ended.then_some(())).await;
        self.join_journal().await;
        self.report()
    }

    async fn join_journal(&self) {
        let thread = self
            .shared
            .journal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // It has been told to end; only then is the journal unlocked.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }

    /// The account so far.
    pub fn report(&self) -> BufferReport {
        let rejects = self.shared.drain.rejects.path().display().to_string();
        report::report(
            &self.shared.opened,
            &self.metrics(),
            &self.shared.drain.progress,
            rejects,
        )
    }
}
