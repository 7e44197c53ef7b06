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
//! Where a database has such a path (a memory-optimised write, asynchronous inserts), its target can offer
//! it as a method: the plan chooses methods, and the marks then have to come from the database.

mod area;
mod attach;
mod check;
mod drain;
mod form;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod journal;
mod metrics;
mod open;
mod options;
mod own;
mod process;
mod producers;
mod report;
mod row;
mod shape;
#[cfg(test)]
mod tests;
mod waits;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reject::Reject,
    sync::Lock,
};
use tonnage_formats::row::Row;

use self::{
    area::{Mark, Offered},
    attach::Parts,
    metrics::Speed,
    own::finish,
    waits::block_on,
};
pub use self::{
    check::Check,
    journal::{Lost, Torn, Uncertain},
    metrics::Metrics,
    options::{
        AREA_BYTES_LEAST, AREA_BYTES_MAX, Ack, BufferOptions, DRAIN_AGE, DRAIN_BYTES, JOURNAL_BYTES_LEAST,
        JOURNAL_BYTES_MAX, JournalOptions, REJECTS_MAX, WhenFull,
    },
    process::{is_abandoned, is_buffer},
    producers::{PRODUCER_NAME_BYTES_MAX, PRODUCERS_MAX, Producer},
    report::{BufferReport, BufferRows, Recovery},
    row::Rows,
};

/// Called with rows that were put aside.
pub(crate) type OnReject = Arc<dyn Fn(&Reject) + Send + Sync>;

/// Takes rows for one table and drains them in the background. A clone is a separate producer into the same buffer;
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
    parts: Parts,
    ack: Ack,
    when_full: WhenFull,
    opened: report::Opened,
    /// The schema of batches that was found to fit, and which shape of the table.
    fits: Mutex<Option<(u64, SchemaRef)>>,
    /// Of rows in, and rows out.
    speed: Mutex<Speed<2>>,
    /// Gone when the journal is closed.
    journal: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// Whether it has a journal, which outlives it.
    has_journal: bool,
}

/// What became of rows that were put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Put {
    /// The sequence number of the last one; where none was taken, that of the producer's last row.
    pub last: u64,
    /// How many were taken, the last ones.
    pub taken: u64,
    /// How many of the first ones had been taken before.
    pub known: u64,
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
            let state = self.parts.area.lock();
            state.next - 1 - state.committed
        };
        if unfinished > 0 && self.parts.area.lock().failed.is_none() {
            tracing::warn!("a buffer was dropped with {unfinished} rows that are not committed");
        }
        self.abandon();
    }
}

impl Inner {
    /// Ends everything at once: what is being written may still be committed, nothing after it.
    fn abandon(&self) {
        self.parts.stop.request();
        self.parts
            .area
            .fail(&Error::new(ErrorKind::Cancelled, "the buffer was stopped"));
    }
}

impl Buffer {
    /// The names of the table's columns; while the database is away, as they were when it answered last.
    pub fn columns(&self) -> &[String] {
        &self.shared.opened.columns
    }

    /// What was found in the journal when it was opened. While the database is away nobody knows how much of it the
    /// table has: it is all of it then.
    pub fn recovery(&self) -> &Recovery {
        let attached = self.shared.parts.attached.get();
        attached.map_or(&self.shared.opened.recovery, |attached| &attached.recovery)
    }

    /// Puts a row; its sequence number, once it is acknowledged.
    ///
    /// `Overloaded` where there is no room and the buffer is not to wait for it; any other error is the one that ended
    /// the buffer. Where an error comes after the row was accepted, the row may still reach the table. A put that is
    /// dropped while it waits for room has put nothing; one that waits for its acknowledgement has put its row.
    pub async fn put(&self, row: impl Into<Row>) -> Result<u64> {
        let row = row.into();
        self.put_with(1, || self.shared.parts.area.offer_row(&row, None))
            .await
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
        self.put_with(count, || self.shared.parts.area.offer_rows(rows.clone(), None))
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
                .parts
                .area
                .offer_rows(rows.clone(), Some((&producer, first)))
        };
        self.put_with(count, offer).await
    }

    /// Puts a row that `producer` has numbered itself, as [`Buffer::put_many_from`] does with many; the sequence number
    /// of the producer's last row where it has put this one before.
    pub async fn put_from(&self, producer: &str, number: u64, row: impl Into<Row>) -> Result<u64> {
        let (row, producer): (Row, Arc<str>) = (row.into(), producer.into());
        let offer = || self.shared.parts.area.offer_row(&row, Some((&producer, number)));
        self.put_with(1, offer).await
    }

    /// [`Buffer::put_from`] for threads.
    pub fn put_from_blocking(&self, producer: &str, number: u64, row: impl Into<Row>) -> Result<u64> {
        block_on(self.put_from(producer, number, row))
    }

    /// [`Buffer::put`] for threads: blocks the thread while it waits.
    pub fn put_blocking(&self, row: impl Into<Row>) -> Result<u64> {
        let row = row.into();
        block_on(self.put_with(1, || self.shared.parts.area.offer_row(&row, None)))
    }

    /// [`Buffer::put_many`] for threads.
    pub fn put_many_blocking(&self, batch: RecordBatch) -> Result<u64> {
        self.fits(&batch)?;
        let count = batch.num_rows() as u64;
        let rows = Rows::Arrow(batch);
        block_on(self.put_with(count, || self.shared.parts.area.offer_rows(rows.clone(), None)))
    }

    /// Puts rows as a whole, all or none, each text an object; those of a `producer` with its own number of the first of
    /// them, as in [`Buffer::put_many_from`]. Returns once they are accepted, whatever acknowledgement the buffer has:
    /// [`Buffer::wait`] and [`Buffer::wait_journaled`] wait for more. For whoever decides each time.
    ///
    /// As [`Buffer::put_many_from`]; `Overloaded` where there is no room and `when_full` is not to wait for it. A put that
    /// is dropped while it waits for room has put nothing.
    pub async fn put_rows(
        &self,
        rows: Rows,
        producer: Option<(&str, u64)>,
        when_full: WhenFull,
    ) -> Result<Put> {
        if let Rows::Arrow(batch) = &rows {
            self.fits(batch)?;
        }
        let count = rows.count();
        let area = &self.shared.parts.area;
        let named: Option<(Arc<str>, u64)> = producer.map(|(name, first)| (name.into(), first));
        let tag = named.as_ref().map(|(name, first)| (name, *first));
        // One batch of a producer comes after the other, so nothing comes between.
        let known = match tag {
            Some((name, first)) => area.known(name, first, count)?,
            None => 0,
        };
        let offer = || area.offer_rows(rows.clone(), tag);
        let last = match (offer()?, when_full) {
            (Offered::Taken(last), _) => last,
            (Offered::Full, WhenFull::Fail) => return Err(self.refused(count)),
            (Offered::Full, WhenFull::Wait) => area.offered(offer).await?,
        };
        self.written.fetch_max(last, Ordering::Relaxed);
        Ok(Put {
            last,
            taken: count - known,
            known,
        })
    }

    /// Whether it takes no further rows, as something has ended it.
    pub fn closed(&self) -> bool {
        let state = self.shared.parts.area.lock();
        state.failed.is_some() || state.closing
    }

    /// What is known of a producer that numbers its own rows; none where it has put none.
    pub fn producer(&self, name: &str) -> Option<Producer> {
        self.shared.parts.area.lock().producers.get(name)
    }

    /// What tells bad rows before they are put; none while the database is away, so that nobody knows the table.
    pub fn check(&self) -> Result<Option<Check>> {
        let attached = self.shared.parts.attached.get();
        attached
            .map(|attached| Check::new(attached.shape.clone()))
            .transpose()
    }

    async fn put_with(&self, rows: u64, mut offer: impl FnMut() -> Result<Offered>) -> Result<u64> {
        let area = &self.shared.parts.area;
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
            Ack::Journaled => area.reached(Mark::Journaled, sequence).await?,
            Ack::Committed => area.reached(Mark::Committed, sequence).await?,
        }
        Ok(sequence)
    }

    fn refused(&self, rows: u64) -> Error {
        self.shared.parts.area.lock().counters.refused += rows;
        Error::new(ErrorKind::Overloaded, "the buffer is full")
            .hint("the database takes rows more slowly than they come: put them again later")
    }

    /// Whether batches of this schema can go to the table.
    fn fits(&self, batch: &RecordBatch) -> Result<()> {
        let known = || self.shared.fits.locked();
        let schema = batch.schema_ref();
        let attached = self.shared.parts.attached.get();
        let shape = attached.map(|attached| attached.shape.number());
        if known()
            .as_ref()
            .is_some_and(|(of, fits)| Some(*of) == shape && (Arc::ptr_eq(fits, schema) || fits == schema))
        {
            return Ok(());
        }
        // While the database is away nobody can say: rows that do not fit are put aside in their turn.
        let Some(attached) = attached else {
            return Ok(());
        };
        let (shape, planner) = attached.shape.planner();
        planner.for_batches(schema)?;
        *known() = Some((shape, schema.clone()));
        Ok(())
    }

    /// The highest sequence number that this producer, this clone of the buffer, was given; 0 before its first row.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The highest sequence number there is.
    pub fn accepted(&self) -> u64 {
        self.shared.parts.area.lock().next - 1
    }

    /// Rows of every producer up to here are in the journal; without one, accepted.
    pub fn journaled(&self) -> u64 {
        self.shared.parts.area.lock().journaled
    }

    /// The low mark: rows of every producer up to here are durable in the table or in the rejects.
    pub fn committed(&self) -> u64 {
        self.shared.parts.area.lock().committed
    }

    /// Waits until the low mark has reached `sequence`. `Config` for a row that was never put. Where it is the last row that
    /// was put, so that everything under way is waited for, rows are drained at once.
    pub async fn wait(&self, sequence: u64) -> Result<()> {
        self.shared.parts.area.reached(Mark::Committed, sequence).await
    }

    /// [`Buffer::wait`] for threads.
    pub fn wait_blocking(&self, sequence: u64) -> Result<()> {
        block_on(self.wait(sequence))
    }

    /// Waits until the row is in the journal. `Config` for a row that was never put.
    pub async fn wait_journaled(&self, sequence: u64) -> Result<()> {
        self.shared.parts.area.reached(Mark::Journaled, sequence).await
    }

    /// The mark up to which rows are journaled, once it is beyond `after`; none where it never will be, as
    /// the buffer has ended. For whoever tells producers how far their rows have come.
    pub async fn journaled_beyond(&self, after: u64) -> Option<u64> {
        self.shared.parts.area.beyond(Mark::Journaled, after).await
    }

    /// As [`Buffer::journaled_beyond`], for the low mark. While somebody waits so, rows are drained as they come: those that
    /// come while others are being written go together.
    pub async fn committed_beyond(&self, after: u64) -> Option<u64> {
        self.shared.parts.area.beyond(Mark::Committed, after).await
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
        self.shared.parts.area.hurry(sequence);
        self.wait(sequence).await
    }

    /// How it is doing.
    pub fn metrics(&self) -> Metrics {
        let shared = &self.shared;
        let progress = &shared.parts.progress;
        let attached = shared.parts.attached.get();
        let position = attached.map_or(shared.opened.position, |attached| attached.position);
        let state = shared.parts.area.lock();
        let rows_in = state.counters.rows_in;
        let rows_out = state.committed.saturating_sub(position);
        let mut speed = shared.speed.locked();
        let speeds = speed.look(Instant::now(), [rows_in, rows_out]);
        Metrics {
            depth_rows: state.next - 1 - state.committed,
            depth_bytes: (state.held_bytes + state.pending_bytes) as u64,
            depth_bytes_peak: state.held_bytes_peak as u64,
            oldest_seconds: state.oldest().map_or(0.0, |at| at.elapsed().as_secs_f64()),
            rows_in,
            bytes_in: state.counters.bytes_in,
            rows_out,
            rows_in_per_second: speeds[0],
            rows_out_per_second: speeds[1],
            duplicates: state.counters.duplicates,
            rejected: shared.parts.rejected.load(Ordering::Relaxed),
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
        let area = &self.shared.parts.area;
        area.close();
        let ended = area.until(|state| match &state.failed {
            Some(failure) if state.ended => Some(Err(failure.error())),
            _ => state.ended.then_some(Ok(())),
        });
        let ended = ended.await;
        self.join_journal().await;
        ended?;
        if !self.shared.has_journal
            && let Some(attached) = self.shared.parts.attached.get()
        {
            finish(&*attached.target, &attached.handle).await?;
        }
        Ok(self.report())
    }

    /// Ends it at once. Rows that are not committed stay in the journal for its next opening; without one they are lost,
    /// and the account says how many.
    pub async fn stop(self) -> BufferReport {
        self.shared.abandon();
        self.shared
            .parts
            .area
            .until(|state| state.ended.then_some(()))
            .await;
        self.join_journal().await;
        self.report()
    }

    async fn join_journal(&self) {
        let thread = self.shared.journal.locked().take();
        if let Some(thread) = thread {
            // It has been asked to end; only then is the journal unlocked.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }

    /// The account so far.
    pub fn report(&self) -> BufferReport {
        let parts = &self.shared.parts;
        report::report(
            &self.shared.opened,
            parts.attached.get(),
            &self.metrics(),
            &parts.progress,
        )
    }
}
