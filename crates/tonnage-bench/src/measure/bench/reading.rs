//! The reads of a mix: what a job looks up between its writes.
//!
//! - Reads follow writes. When a job has committed rows it asks for as many keys as the mix owes for them, and begins its
//!   next write when all are answered. So the mix is exact at every moment, however long either kind takes, and there are
//!   never more operations under way than jobs.
//! - A request has at most as many keys as a write has rows, of the method single one: what is owed for a write is asked
//!   for before the next one, so the last request of a write has what is left over.
//! - Every key that is asked for is there. One that is not found ends the run.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{
    array::{ArrayRef, RecordBatch},
    compute::{concat_batches, interleave_record_batch},
};
use async_trait::async_trait;
use tokio::sync::Mutex;
use tonnage_core::{
    error::{Error, ErrorKind, Result, arrow_bug},
    operation::Mode,
    report::Counted,
    stop::Stop,
};
use tonnage_engine::{
    fetch::{Asked, Asker, Known, REQUEST_KEYS},
    load::{AfterCommit, Prepared, WriteTimes},
};
use tonnage_formats::generate::random::{Random, base};

use crate::measure::{
    figures::Reads,
    setting::Setting,
    touch::{Draws, Touch},
};

/// The stream of random numbers that says which keys are read.
const STREAM: u64 = 0x0072_6561_6473;
/// Keys that one job draws before they could be those of the next.
const DRAWN_BITS: u32 = 40;
/// Writes whose keys are kept one by one before they are put together.
const FRESH_MAX: usize = 64;

/// Reads the keys of one table between the writes of a load.
pub(super) struct Reading {
    known: Known,
    /// Of a hundred operations so many are reads.
    share: u64,
    request_keys: u64,
    touch: Touch,
    draws: Draws,
    /// Where random numbers begin.
    base: u64,
    /// Where rows have the columns of their key, if those that are added are read.
    added_at: Option<Vec<usize>>,
    jobs: Vec<Mutex<Job>>,
    times: WriteTimes,
    stop: Stop,
}

/// The reads of one job.
struct Job {
    asker: Asker,
    /// What it owes for rows that it has written, in keys times the share of writes.
    owed: u64,
    /// Keys that were drawn.
    drawn: u64,
    added: Added,
    asked: Asked,
}

impl Reading {
    /// Of the keys that are `known` and there, between the writes of `load`.
    pub(super) fn new(
        known: Known,
        load: &Prepared,
        setting: &Setting,
        seed: u64,
        stop: Stop,
    ) -> Result<Self> {
        let schema = known.schema();
        let reads_added = (setting.operation, setting.touch) == (Mode::Insert, Touch::Latest);
        let columns = &load.plan().columns;
        let key_at = schema.fields().iter().map(|field| {
            let at = columns.iter().position(|column| column.name == *field.name());
            at.ok_or_else(|| Error::bug(format!("rows without their key column '{}'", field.name())))
        });
        let added_at = reads_added
            .then(|| key_at.collect::<Result<Vec<usize>>>())
            .transpose()?;
        let jobs = (0..setting.jobs_a_table()).map(|_| -> Result<Mutex<Job>> {
            Ok(Mutex::new(Job {
                asker: known.asker()?,
                owed: 0,
                drawn: 0,
                added: Added::new(RecordBatch::new_empty(schema.clone())),
                asked: Asked::default(),
            }))
        });
        Ok(Self {
            share: u64::from(setting.reads),
            request_keys: setting.batch_rows.clamp(1, REQUEST_KEYS) as u64,
            touch: setting.touch,
            draws: Draws::new(setting.touch, known.keys().num_rows() as u64),
            base: base(seed, STREAM),
            added_at,
            jobs: jobs.collect::<Result<_>>()?,
            times: WriteTimes::default(),
            stop,
            known,
        })
    }

    /// When the first request began and the last one was answered; none before the first.
    pub(super) fn span(&self) -> Option<(Instant, Instant)> {
        self.times.span()
    }

    /// Session settings that its connections have changed.
    pub(super) fn settings_changed(&self) -> &[String] {
        &self.known.settings_changed
    }

    /// The keys of the next request.
    fn wanted(&self, number: usize, job: &mut Job, count: u64) -> Result<RecordBatch> {
        let there = self.known.keys();
        let rows = there.num_rows() as u64;
        let mut places = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let nth = job.drawn;
            job.drawn += 1;
            let at = match self.touch {
                // Each job begins at another.
                Touch::Each => (rows * number as u64 / self.jobs.len() as u64 + nth) % rows.max(1),
                _ => {
                    let row = ((number as u64) << DRAWN_BITS) | nth;
                    self.draws.row(&mut Random::of_row(self.base, row))
                }
            };
            places.push(job.added.place(at, rows));
        }
        let batches: Vec<&RecordBatch> = std::iter::once(there).chain(job.added.batches()).collect();
        interleave_record_batch(&batches, &places).map_err(arrow_bug)
    }
}

#[async_trait]
impl AfterCommit for Reading {
    async fn after(&self, lane: usize, rows: &RecordBatch) -> Result<()> {
        let job = self.jobs.get(lane);
        let mut job = job.ok_or_else(|| Error::bug("a job without reads"))?.lock().await;
        if let Some(added_at) = &self.added_at {
            let keys: Vec<ArrayRef> = added_at.iter().map(|at| rows.column(*at).clone()).collect();
            let keys = RecordBatch::try_new(self.known.schema(), keys).map_err(arrow_bug)?;
            job.added.push(keys, self.known.keys().num_rows())?;
        }
        let writes = 100 - self.share;
        job.owed += rows.num_rows() as u64 * self.share;
        let mut due = job.owed / writes;
        job.owed %= writes;
        while due > 0 {
            if self.stop.requested() {
                return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
            }
            let count = due.min(self.request_keys);
            due -= count;
            let keys = self.wanted(lane, &mut job, count)?;
            let begun = Instant::now();
            let asked = job.asker.ask(&keys).await?;
            self.times.record(begun, Instant::now());
            job.asked.add(&asked);
            if asked.missing > 0 {
                return Err(Error::new(
                    ErrorKind::Refused,
                    format!(
                        "{} of {} that must be there not found: does somebody else change these tables, or are fewer \
                         replicas asked than see a write?",
                        asked.missing,
                        Counted(asked.distinct, "key")
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// Keys that a job has added. Together with those that were there before they are a window that moves on: as many as
/// were there, the last of them all.
struct Added {
    /// What the window can still reach.
    whole: RecordBatch,
    /// Those of the last writes, apart, so that not every write copies all of them.
    fresh: Vec<RecordBatch>,
    /// How many there are behind the window.
    gone: u64,
}

impl Added {
    fn new(none: RecordBatch) -> Self {
        Self {
            whole: none,
            fresh: Vec::new(),
            gone: 0,
        }
    }

    /// Adds keys where `window` were there before.
    fn push(&mut self, keys: RecordBatch, window: usize) -> Result<()> {
        self.fresh.push(keys);
        if self.fresh.len() < FRESH_MAX {
            return Ok(());
        }
        let all = std::iter::once(&self.whole).chain(&self.fresh);
        let all = concat_batches(self.whole.schema_ref(), all).map_err(arrow_bug)?;
        let behind = all.num_rows().saturating_sub(window);
        self.gone += behind as u64;
        self.whole = all.slice(behind, all.num_rows() - behind);
        self.fresh.clear();
        Ok(())
    }

    /// Place `at` of the window, where so many `rows` were there before: among these, which are batch 0, or in one of the
    /// [batches](Self::batches).
    fn place(&self, at: u64, rows: u64) -> (usize, usize) {
        let fresh: usize = self.fresh.iter().map(RecordBatch::num_rows).sum();
        let at = at + self.gone + (self.whole.num_rows() + fresh) as u64;
        if at < rows {
            return (0, at as usize);
        }
        let mut at = at.saturating_sub(rows + self.gone) as usize;
        for (index, batch) in self.batches().enumerate() {
            if at < batch.num_rows() {
                return (1 + index, at);
            }
            at -= batch.num_rows();
        }
        // Not reached: the window ends with the last key.
        (0, 0)
    }

    fn batches(&self) -> impl Iterator<Item = &RecordBatch> {
        std::iter::once(&self.whole).chain(&self.fresh)
    }
}

/// What the loads of a run have read, all together, but for how much that was a second; none of no mix.
pub(super) async fn reads(all: &[Arc<Reading>]) -> Option<Reads> {
    if all.is_empty() {
        return None;
    }
    let (mut asked, mut times) = (Asked::default(), WriteTimes::default());
    for reading in all {
        times.add(&reading.times);
        for job in &reading.jobs {
            asked.add(&job.lock().await.asked);
        }
    }
    let quantile = |share| times.quantile(share).unwrap_or(Duration::ZERO).as_secs_f64();
    Some(Reads {
        keys: asked.keys,
        distinct: asked.distinct,
        rows: asked.rows,
        requests: asked.requests,
        retries: asked.retries,
        keys_per_second: 0.0,
        request_seconds: [0.5, 0.95, 0.99, 1.0].map(quantile),
    })
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{AsArray, Int32Array},
        datatypes::{DataType, Field, Int32Type, Schema},
    };

    use super::*;

    #[test]
    fn the_window_ends_with_the_last_key_that_was_added() {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int32, true)]));
        let batch = |from: i32, to: i32| {
            let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(from..to));
            RecordBatch::try_new(schema.clone(), vec![ids]).unwrap()
        };
        const THERE: i32 = 10;
        let there = batch(0, THERE);
        let mut added = Added::new(batch(0, 0));
        let mut next = THERE;
        for write in 0..500 {
            let rows = write % 4;
            added.push(batch(next, next + rows), THERE as usize).unwrap();
            next += rows;
            let batches: Vec<&RecordBatch> = std::iter::once(&there).chain(added.batches()).collect();
            let places: Vec<_> = (0..THERE as u64)
                .map(|at| added.place(at, THERE as u64))
                .collect();
            let window = interleave_record_batch(&batches, &places).unwrap();
            let ids = window.column(0).as_primitive::<Int32Type>().values().to_vec();
            assert_eq!(
                ids,
                (next - THERE..next).collect::<Vec<_>>(),
                "after {write} writes"
            );
            assert!(added.whole.num_rows() <= THERE as usize);
        }
        assert_eq!(next, THERE + 750);
    }
}
