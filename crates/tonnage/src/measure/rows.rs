//! The rows that runs are fed with: of a workload, the same for every run, and made before the first as far as
//! [`KEPT_BYTES_MAX`] goes, so that making them takes no time from what is measured.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::{concat_batches, take_record_batch},
};

use super::{figures::Ceiling, rotated::rotated};
use crate::{
    error::Result,
    generate::Workload,
    load::arrow_bug,
    plan::{BLOCK_BYTES, BLOCK_ROWS, Mode},
    sources::batches::BatchSource,
};

/// Arrow bytes of rows that are kept, of one workload and operation.
const KEPT_BYTES_MAX: usize = 96 << 20;
/// Rows that the table of an upsert has beforehand, at most.
const THERE_MAX: usize = 16_384;
/// Rows whose bytes say what a row takes.
const SAMPLED: usize = 256;
/// How long the generator is watched, at least.
const WATCHED: Duration = Duration::from_millis(100);

/// The rows of one workload for one operation.
#[derive(Debug)]
pub struct Rows {
    workload: Workload,
    operation: Mode,
    seed: u64,
    /// Rows of a run at most.
    rows: u64,
    /// Rows of a batch: as many as a block of a file would hold.
    batch_rows: usize,
    /// The first batches.
    kept: Vec<RecordBatch>,
    /// What the generator can do.
    ceiling: f64,
}

impl Rows {
    /// Makes the first batches, no more than `rows` rows, and takes the time. Blocks.
    pub fn make(workload: Workload, operation: Mode, seed: u64, rows: u64) -> Result<Self> {
        let sample = workload.batch(seed, 0, SAMPLED);
        let row_bytes = sample.get_array_memory_size() / sample.num_rows().max(1);
        let mut batch_rows = (BLOCK_BYTES / row_bytes.max(1)).clamp(2, BLOCK_ROWS);
        if operation == Mode::Upsert {
            batch_rows = batch_rows.min(THERE_MAX);
        }
        let mut made = Self {
            workload,
            operation,
            seed,
            rows,
            batch_rows,
            kept: Vec::new(),
            ceiling: 0.0,
        };
        let started = Instant::now();
        let (mut bytes, mut counted, mut index) = (0, 0, 0);
        while counted < rows && bytes < KEPT_BYTES_MAX {
            let batch = made.batch(index)?;
            bytes += batch.get_array_memory_size();
            counted += batch.num_rows() as u64;
            index += 1;
            made.kept.push(batch);
        }
        while started.elapsed() < WATCHED {
            counted += made.batch(index)?.num_rows() as u64;
            index += 1;
        }
        made.ceiling = counted as f64 / started.elapsed().as_secs_f64();
        Ok(made)
    }

    /// What the generator can do.
    pub fn ceiling(&self) -> Ceiling {
        Ceiling {
            workload: self.workload.to_string(),
            rows_per_second: self.ceiling,
            rows_kept: self.rows_kept(),
        }
    }

    /// Rows that are made already.
    pub fn rows_kept(&self) -> u64 {
        self.kept.iter().map(|batch| batch.num_rows() as u64).sum()
    }

    /// Rows that the table has beforehand: of an upsert every second row of a run meets one of them, of an update or a
    /// delete every row one of its own.
    pub fn there(&self) -> u64 {
        match self.operation {
            Mode::Upsert => self.halves() * self.half(),
            Mode::Update | Mode::Delete => self.rows,
            _ => 0,
        }
    }

    fn half(&self) -> u64 {
        (self.batch_rows / 2) as u64
    }

    /// Half batches of rows that are there.
    fn halves(&self) -> u64 {
        (THERE_MAX as u64 / self.half()).max(1)
    }

    /// Batch `index` of a run.
    fn batch(&self, index: u64) -> Result<RecordBatch> {
        if self.operation != Mode::Upsert {
            let rows = self.batch_rows;
            return Ok(self.workload.batch(self.seed, index * rows as u64, rows));
        }
        let half = self.half();
        let there = self
            .workload
            .batch(self.seed, (index % self.halves()) * half, half as usize);
        let new = self
            .workload
            .batch(self.seed, self.there() + index * half, half as usize);
        let both = concat_batches(&there.schema(), [&there, &new]).map_err(arrow_bug)?;
        // One of the one, one of the other.
        let places = (0..half as u32).flat_map(|row| [row, half as u32 + row]);
        take_record_batch(&both, &UInt32Array::from_iter_values(places)).map_err(arrow_bug)
    }

    /// A source of the first `rows` rows of a run.
    pub fn source(
        self: &Arc<Self>,
        rows: u64,
    ) -> BatchSource<impl Iterator<Item = RecordBatch> + Send + use<>> {
        let all = self.clone();
        let mut left = rows;
        let batches = (0_u64..)
            .map_while(move |index| match all.kept.get(index as usize) {
                Some(batch) => Some(batch.clone()),
                None => all.batch(index).ok(),
            })
            .map_while(move |batch| {
                let taken = left.min(batch.num_rows() as u64);
                left -= taken;
                (taken > 0).then(|| batch.slice(0, taken as usize))
            });
        BatchSource::new(self.workload.name(), self.workload.schema(), batches)
    }

    /// A source of the rows that are [there](Rows::there) beforehand, or of the first `rows` of them: those of an update
    /// have other values beside their keys, so that it changes every row.
    pub fn source_there(
        self: &Arc<Self>,
        rows: u64,
    ) -> BatchSource<impl Iterator<Item = RecordBatch> + Send + use<>> {
        let all = self.clone();
        let key = self.workload.key();
        let schema = self.workload.schema();
        let keeps: Vec<bool> = schema
            .fields()
            .iter()
            .map(|f| key.contains(&f.name().as_str()))
            .collect();
        let mut left = rows.min(self.there());
        let batches = (0_u64..)
            .map_while(move |index| {
                let batch = match all.operation {
                    Mode::Upsert => {
                        let half = all.half();
                        Ok(all.workload.batch(all.seed, index * half, half as usize))
                    }
                    _ => all.batch(index),
                };
                match all.operation {
                    Mode::Update => rotated(&batch.ok()?, |at| keeps[at]).ok(),
                    _ => batch.ok(),
                }
            })
            .map_while(move |batch| {
                let taken = left.min(batch.num_rows() as u64);
                left -= taken;
                (taken > 0).then(|| batch.slice(0, taken as usize))
            });
        BatchSource::new(self.workload.name(), schema, batches)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;

    use super::*;
    use crate::source::{ReadRequest, Source};
    use crate::types::ColumnType;

    fn ids(mut source: impl Source) -> Vec<i32> {
        let request = ReadRequest {
            columns: vec![(0, ColumnType::Int32)],
            block_rows: 65_536,
            block_bytes: 1 << 20,
        };
        source.request(&request).unwrap();
        let mut ids = Vec::new();
        while let Some(block) = source.next().unwrap() {
            ids.extend(block.rows.column(0).as_primitive::<Int32Type>().values());
        }
        ids
    }

    #[test]
    fn a_run_has_as_many_rows_as_asked_for_whether_they_are_kept_or_made() {
        let rows = Arc::new(Rows::make(Workload::Sbtest, Mode::Insert, 1, 10_000).unwrap());
        assert!(rows.rows_kept() >= 10_000);
        assert!(rows.ceiling().rows_per_second > 0.0);
        let found = ids(rows.source(20_001));
        assert_eq!(found, (1..=20_001).collect::<Vec<_>>());
        assert_eq!(ids(rows.source(20_001)), found, "every run has the same rows");
    }

    #[test]
    fn every_second_row_of_an_upsert_is_there() {
        let rows = Arc::new(Rows::make(Workload::Sbtest, Mode::Upsert, 1, 1).unwrap());
        let mut there = ids(rows.source_there(u64::MAX));
        there.sort_unstable();
        assert_eq!(there.len() as u64, rows.there());
        let found = ids(rows.source(50_000));
        assert_eq!(found.len(), 50_000);
        for (at, id) in found.iter().enumerate() {
            assert_eq!(there.binary_search(id).is_ok(), at % 2 == 0, "row {at}: {id}");
        }
    }

    #[test]
    fn every_row_of_an_update_or_a_delete_is_there_and_an_update_changes_it() {
        let values = |mut source: Box<dyn Source>| {
            let request = ReadRequest {
                columns: vec![(1, ColumnType::Int32)],
                block_rows: 65_536,
                block_bytes: 1 << 20,
            };
            source.request(&request).unwrap();
            let mut found = Vec::new();
            while let Some(block) = source.next().unwrap() {
                found.extend(block.rows.column(0).as_primitive::<Int32Type>().values().to_vec());
            }
            found
        };
        for operation in [Mode::Update, Mode::Delete] {
            let rows = Arc::new(Rows::make(Workload::Sbtest, operation, 1, 3_000).unwrap());
            assert_eq!(rows.there(), 3_000);
            assert_eq!(ids(rows.source_there(u64::MAX)), ids(rows.source(3_000)));
            assert_eq!(ids(rows.source_there(10)).len(), 10);
            let (before, after) = (
                values(Box::new(rows.source_there(u64::MAX))),
                values(Box::new(rows.source(3_000))),
            );
            let same = before.iter().zip(&after).filter(|(a, b)| a == b).count();
            match operation {
                Mode::Update => assert!(same < 30, "{same} rows keep their k"),
                _ => assert_eq!(same, 3_000),
            }
        }
    }
}
