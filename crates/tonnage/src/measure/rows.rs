//! The rows that runs are fed with: of a workload, or the user's own, the same for every run. Those of a workload are made
//! before the first run as far as [`KEPT_BYTES_MAX`] goes, so that making them takes no time from what is measured; the
//! user's own are all there.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array},
    compute::{concat_batches, interleave, take_record_batch},
    datatypes::SchemaRef,
};

use super::{
    figures::Ceiling,
    own::Own,
    rotated::rotated,
    setting::{RowKind, Setting},
    touch::{Draws, Touch},
};
use crate::{
    error::{Error, Result},
    generate::{
        Workload,
        random::{Random, base},
    },
    load::arrow_bug,
    plan::{BLOCK_BYTES, BLOCK_ROWS, Mode},
    sources::batches::BatchSource,
};

/// Arrow bytes of rows of a workload that are kept, for one operation and one number of columns.
const KEPT_BYTES_MAX: usize = 96 << 20;
/// The same, of all of them together.
const KEPT_BYTES_IN_ALL: usize = 384 << 20;
/// Rows that the table of an upsert has beforehand, at most.
const THERE_MAX: usize = 16_384;
/// Rows whose bytes say what a row takes.
const SAMPLED: usize = 256;
/// How long the generator is watched, at least.
const WATCHED: Duration = Duration::from_millis(100);

/// The stream of random numbers that says which rows are met.
const STREAM_TOUCH: u64 = 0x0074_6f75_6368_6564;

/// What rows are the same of two settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Which {
    kind: RowKind,
    columns: Option<usize>,
    operation: Mode,
    touch: Touch,
}

impl Which {
    fn of(setting: &Setting) -> Self {
        Self {
            kind: setting.workload,
            columns: setting.table.columns,
            operation: setting.operation,
            touch: setting.touch,
        }
    }
}

/// The rows of all settings.
#[derive(Debug)]
pub struct AllRows(HashMap<Which, Arc<Rows>>);

impl AllRows {
    /// Makes those that `settings` need, no more than `rows` of each. Blocks.
    pub(super) fn make(settings: &[Setting], own: Option<&Arc<Own>>, seed: u64, rows: u64) -> Result<Self> {
        let mut needed: Vec<Which> = Vec::new();
        for setting in settings {
            let which = Which::of(setting);
            if !needed.contains(&which) {
                needed.push(which);
            }
        }
        let kept_bytes_max = KEPT_BYTES_MAX.min(KEPT_BYTES_IN_ALL / needed.len().max(1));
        let mut all = HashMap::new();
        for which in needed {
            let from = match which.kind {
                RowKind::Workload(workload) => RowsFrom::Workload {
                    workload,
                    columns: which.columns,
                    seed,
                },
                RowKind::Own => RowsFrom::Own(
                    own.ok_or_else(|| Error::bug("own rows that were not read"))?
                        .clone(),
                ),
            };
            let made = Rows::make(from, which.operation, which.touch, rows, kept_bytes_max)?;
            all.insert(which, Arc::new(made));
        }
        Ok(Self(all))
    }

    /// Those of a setting.
    pub fn of(&self, setting: &Setting) -> Result<Arc<Rows>> {
        let rows = self.0.get(&Which::of(setting));
        rows.cloned().ok_or_else(|| Error::bug("a setting without rows"))
    }

    /// What made them can do, each once.
    pub fn ceilings(&self) -> Vec<Ceiling> {
        let mut ceilings: Vec<_> = self.0.values().map(|rows| rows.ceiling()).collect();
        ceilings.sort_by(|a, b| a.workload.cmp(&b.workload));
        ceilings.dedup_by(|a, b| a.workload == b.workload);
        ceilings
    }
}

/// Where rows come from.
#[derive(Debug)]
enum RowsFrom {
    /// They are made up.
    Workload {
        workload: Workload,
        columns: Option<usize>,
        seed: u64,
    },
    /// They were read.
    Own(Arc<Own>),
}

impl RowsFrom {
    fn schema(&self) -> SchemaRef {
        match self {
            Self::Workload {
                workload, columns, ..
            } => workload.schema_of(*columns),
            Self::Own(own) => own.schema.clone(),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Workload {
                workload, columns, ..
            } => match columns {
                Some(columns) => format!("{workload} of {columns} columns"),
                None => workload.to_string(),
            },
            Self::Own(_) => RowKind::Own.to_string(),
        }
    }

    /// Whether no two rows share this column's values together with those of others.
    fn is_key(&self, column: &str) -> bool {
        match self {
            Self::Workload { workload, .. } => workload.key().contains(&column),
            Self::Own(own) => own.key.iter().any(|name| name.eq_ignore_ascii_case(column)),
        }
    }
}

/// The rows that are there, and which of them are met.
#[derive(Debug)]
struct Picks {
    draws: Draws,
    /// They, in batches of one length but for the last.
    pool: Vec<RecordBatch>,
    rows: u64,
    /// Where random numbers begin.
    base: u64,
}

/// The rows of one kind for one operation.
#[derive(Debug)]
pub struct Rows {
    from: RowsFrom,
    operation: Mode,
    /// Rows of a run at most.
    rows: u64,
    /// Rows of a batch: as many as a block of a file would hold. Own rows come in batches of any length.
    batch_rows: usize,
    /// The first batches; all of them, of own rows.
    kept: Vec<RecordBatch>,
    /// Where rows are not met each once.
    picks: Option<Picks>,
    /// What makes them can do, rows a second.
    ceiling: f64,
}

impl Rows {
    /// Makes the first batches, no more than `rows` rows and about `kept_bytes_max` bytes, and takes the time. Blocks.
    fn make(from: RowsFrom, operation: Mode, touch: Touch, rows: u64, kept_bytes_max: usize) -> Result<Self> {
        let (workload, columns, seed) = match from {
            RowsFrom::Own(own) => {
                return Ok(Self {
                    operation,
                    rows: rows.min(own.rows),
                    batch_rows: BLOCK_ROWS,
                    kept: own.batches.clone(),
                    picks: None,
                    ceiling: own.rows_per_second,
                    from: RowsFrom::Own(own),
                });
            }
            RowsFrom::Workload {
                workload,
                columns,
                seed,
            } => (workload, columns, seed),
        };
        let sample = workload.batch_of(columns, seed, 0, SAMPLED);
        let row_bytes = sample.get_array_memory_size() / sample.num_rows().max(1);
        let mut batch_rows = (BLOCK_BYTES / row_bytes.max(1)).clamp(2, BLOCK_ROWS);
        if operation == Mode::Upsert {
            batch_rows = batch_rows.min(THERE_MAX);
        }
        let mut made = Self {
            from,
            operation,
            rows,
            batch_rows,
            kept: Vec::new(),
            picks: None,
            ceiling: 0.0,
        };
        let mut kept_bytes_max = kept_bytes_max;
        if touch != Touch::Each {
            kept_bytes_max /= 2;
            made.picks = Some(made.picks(touch, base(seed, STREAM_TOUCH), kept_bytes_max)?);
        }
        let started = Instant::now();
        let (mut bytes, mut counted, mut index) = (0, 0, 0);
        while counted < rows && bytes < kept_bytes_max {
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

    /// The rows that are there, as many as about `bytes_max` bytes hold.
    fn picks(&self, touch: Touch, base: u64, bytes_max: usize) -> Result<Picks> {
        let (mut pool, mut rows, mut bytes) = (Vec::new(), 0, 0);
        while rows < self.there() && bytes < bytes_max {
            let batch = match self.operation {
                Mode::Upsert => self.batch_there(pool.len() as u64)?,
                _ => self.batch(pool.len() as u64)?,
            };
            let taken = (self.there() - rows).min(batch.num_rows() as u64);
            if taken == 0 {
                break;
            }
            bytes += batch.get_array_memory_size();
            rows += taken;
            pool.push(batch.slice(0, taken as usize));
        }
        Ok(Picks {
            draws: Draws::new(touch, rows),
            pool,
            rows,
            base,
        })
    }

    /// What makes them can do.
    pub fn ceiling(&self) -> Ceiling {
        Ceiling {
            workload: self.from.name(),
            rows_per_second: self.ceiling,
            rows_kept: self.rows_kept(),
        }
    }

    /// Rows a second at which a run of so many would come if nothing else took time: only those that are not kept are made.
    /// None where all are kept.
    pub fn ceiling_of(&self, rows: u64) -> Option<f64> {
        let made = rows.saturating_sub(self.rows_kept());
        (made > 0).then(|| self.ceiling * (rows as f64 / made as f64))
    }

    /// Rows that are made already.
    pub fn rows_kept(&self) -> u64 {
        self.kept.iter().map(|batch| batch.num_rows() as u64).sum()
    }

    /// Rows that the table has beforehand: of an upsert every second row of a run meets one of them, of an update or a
    /// delete every row one of its own.
    pub fn there(&self) -> u64 {
        match (self.operation, &self.from) {
            (Mode::Upsert, RowsFrom::Workload { .. }) => self.halves() * self.half(),
            (Mode::Upsert, RowsFrom::Own(own)) => own.rows.div_ceil(2),
            (Mode::Update, _) => self.picks.as_ref().map_or(self.rows, |picks| picks.rows),
            (Mode::Delete, _) => self.rows,
            _ => 0,
        }
    }

    /// How many of these a run of `rows` rows can meet.
    pub fn met(&self, rows: u64) -> u64 {
        match (self.operation, &self.picks) {
            (Mode::Upsert, _) | (_, Some(_)) => self.there(),
            _ => rows,
        }
    }

    fn half(&self) -> u64 {
        (self.batch_rows / 2) as u64
    }

    /// Half batches of rows that are there.
    fn halves(&self) -> u64 {
        (THERE_MAX as u64 / self.half()).max(1)
    }

    /// Batch `index` of a run; of own rows, an empty one behind the last.
    fn batch(&self, index: u64) -> Result<RecordBatch> {
        let (workload, columns, seed) = match &self.from {
            RowsFrom::Workload {
                workload,
                columns,
                seed,
            } => (workload, *columns, *seed),
            RowsFrom::Own(own) => {
                let at = usize::try_from(index).unwrap_or(usize::MAX);
                let batch = own.batches.get(at).cloned();
                return Ok(batch.unwrap_or_else(|| RecordBatch::new_empty(own.schema.clone())));
            }
        };
        if self.operation != Mode::Upsert {
            let rows = self.batch_rows;
            if let Some(picks) = &self.picks {
                return self.picked(picks, index * rows as u64, rows);
            }
            return Ok(workload.batch_of(columns, seed, index * rows as u64, rows));
        }
        let half = self.half();
        let of = |first| workload.batch_of(columns, seed, first, half as usize);
        let there = match &self.picks {
            Some(picks) => self.picked(picks, index * half, half as usize)?,
            None => of((index % self.halves()) * half),
        };
        let new = of(self.there() + index * half);
        let both = concat_batches(&there.schema(), [&there, &new]).map_err(arrow_bug)?;
        // One of the one, one of the other.
        let places = (0..half as u32).flat_map(|row| [row, half as u32 + row]);
        take_record_batch(&both, &UInt32Array::from_iter_values(places)).map_err(arrow_bug)
    }

    /// So many rows, the first of which is the `first` of a run: keys of some that are there, with the other columns of
    /// some other, so that one that is met again is changed again.
    fn picked(&self, picks: &Picks, first: u64, count: usize) -> Result<RecordBatch> {
        let length = picks.pool.first().map_or(1, RecordBatch::num_rows).max(1) as u64;
        let place = |row: u64| ((row / length) as usize, (row % length) as usize);
        let (mut keys, mut values) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for row in first..first + count as u64 {
            let mut random = Random::of_row(picks.base, row);
            keys.push(place(picks.draws.row(&mut random)));
            values.push(place(random.below(picks.rows.max(1))));
        }
        let schema = self.from.schema();
        let columns = schema.fields().iter().enumerate().map(|(at, field)| {
            let arrays: Vec<_> = picks.pool.iter().map(|batch| batch.column(at).as_ref()).collect();
            let places = if self.from.is_key(field.name()) {
                &keys
            } else {
                &values
            };
            interleave(&arrays, places).map_err(arrow_bug)
        });
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        RecordBatch::try_new(schema, columns).map_err(arrow_bug)
    }

    /// Batch `index` of the rows that are there before an upsert.
    fn batch_there(&self, index: u64) -> Result<RecordBatch> {
        match &self.from {
            RowsFrom::Workload {
                workload,
                columns,
                seed,
            } => {
                let half = self.half();
                Ok(workload.batch_of(*columns, *seed, index * half, half as usize))
            }
            RowsFrom::Own(own) => {
                let at = usize::try_from(index).unwrap_or(usize::MAX);
                let before: usize = own.batches.iter().take(at).map(RecordBatch::num_rows).sum();
                let batch = self.batch(index)?;
                // The first, the third and so on of all of them.
                let places = ((before % 2) as u32..batch.num_rows() as u32).step_by(2);
                take_record_batch(&batch, &UInt32Array::from_iter_values(places)).map_err(arrow_bug)
            }
        }
    }

    /// A source of the first `rows` rows of a run.
    pub fn source(self: &Arc<Self>, rows: u64) -> BatchSource<Batches> {
        let all = self.clone();
        self.fed(rows, move |index| match all.kept.get(index as usize) {
            Some(batch) => Ok(batch.clone()),
            None => all.batch(index),
        })
    }

    /// A source of the rows that are [there](Rows::there) beforehand, or of the first `rows` of them: those of an update
    /// have other values beside their keys, so that it changes every row.
    pub fn source_there(self: &Arc<Self>, rows: u64) -> BatchSource<Batches> {
        let all = self.clone();
        let schema = self.from.schema();
        let keeps: Vec<bool> = schema
            .fields()
            .iter()
            .map(|f| self.from.is_key(f.name()))
            .collect();
        self.fed(rows.min(self.there()), move |index| match all.operation {
            Mode::Upsert => all.batch_there(index),
            Mode::Update => {
                let picked = all.picks.as_ref();
                let batch = match picked.map(|picks| picks.pool.get(index as usize)) {
                    None => all.batch(index)?,
                    Some(Some(batch)) => batch.clone(),
                    Some(None) => RecordBatch::new_empty(all.from.schema()),
                };
                rotated(&batch, |at| keeps[at])
            }
            _ => all.batch(index),
        })
    }

    /// A source of the first `rows` rows of batches. A workload ends with its first empty one.
    fn fed(
        &self,
        rows: u64,
        batch: impl Fn(u64) -> Result<RecordBatch> + Send + 'static,
    ) -> BatchSource<Batches> {
        let own = match &self.from {
            RowsFrom::Workload { .. } => None,
            RowsFrom::Own(own) => Some(own.batches.len() as u64),
        };
        let mut left = rows;
        let batches = (0..own.unwrap_or(u64::MAX))
            .map_while(move |index| batch(index).ok())
            .filter(move |batch| own.is_none() || batch.num_rows() > 0)
            .map_while(move |batch| {
                let taken = left.min(batch.num_rows() as u64);
                left -= taken;
                (taken > 0).then(|| batch.slice(0, taken as usize))
            });
        BatchSource::new(&self.from.name(), self.from.schema(), Box::new(batches))
    }
}

/// Batches one after another.
type Batches = Box<dyn Iterator<Item = RecordBatch> + Send>;

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;

    use super::*;
    use crate::source::{ReadRequest, Source};
    use crate::types::ColumnType;

    fn made(operation: Mode, rows: u64) -> Arc<Rows> {
        touching(operation, Touch::Each, rows)
    }

    fn touching(operation: Mode, touch: Touch, rows: u64) -> Arc<Rows> {
        let from = RowsFrom::Workload {
            workload: Workload::Sbtest,
            columns: None,
            seed: 1,
        };
        Arc::new(Rows::make(from, operation, touch, rows, KEPT_BYTES_MAX).unwrap())
    }

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
        let rows = made(Mode::Insert, 10_000);
        assert!(rows.rows_kept() >= 10_000);
        assert!(rows.ceiling().rows_per_second > 0.0);
        let (kept, ceiling) = (rows.rows_kept(), rows.ceiling().rows_per_second);
        assert_eq!(rows.ceiling_of(kept), None, "nothing has to be made");
        let half_made = rows.ceiling_of(2 * kept).unwrap();
        assert!(
            (half_made / ceiling - 2.0).abs() < 1e-9,
            "{half_made} of {ceiling}"
        );
        let found = ids(rows.source(20_001));
        assert_eq!(found, (1..=20_001).collect::<Vec<_>>());
        assert_eq!(ids(rows.source(20_001)), found, "every run has the same rows");
    }

    #[test]
    fn rows_are_met_as_often_as_asked_for_and_all_of_them_are_there() {
        let distinct = |ids: &[i32]| ids.iter().collect::<std::collections::HashSet<_>>().len();
        let mut met = Vec::new();
        for touch in [Touch::Each, Touch::Uniform, Touch::Zipfian, Touch::Latest] {
            let rows = touching(Mode::Update, touch, 5_000);
            let mut there = ids(rows.source_there(rows.met(5_000)));
            there.sort_unstable();
            assert_eq!(there, (1..=5_000).collect::<Vec<_>>(), "{touch}");
            let found = ids(rows.source(5_000));
            assert_eq!(found.len(), 5_000, "{touch}");
            assert!(found.iter().all(|id| there.binary_search(id).is_ok()), "{touch}");
            assert_eq!(
                ids(rows.source(5_000)),
                found,
                "{touch}: every run has the same rows"
            );
            met.push(distinct(&found));
        }
        // Of those drawn uniformly 1 / e are not met.
        assert_eq!(met[0], 5_000);
        assert!((3_000..3_300).contains(&met[1]), "{met:?}");
        assert!(met[2] < 2_500 && met[3] < 2_500, "{met:?}");

        let rows = touching(Mode::Upsert, Touch::Latest, 2_000);
        let mut there = ids(rows.source_there(rows.met(2_000)));
        there.sort_unstable();
        let found = ids(rows.source(2_000));
        for (at, id) in found.iter().enumerate() {
            assert_eq!(there.binary_search(id).is_ok(), at % 2 == 0, "row {at}: {id}");
        }
        let old: Vec<i32> = found.iter().copied().step_by(2).collect();
        assert!(distinct(&old) < 700, "{}", distinct(&old));
    }

    #[test]
    fn every_second_row_of_an_upsert_is_there() {
        let rows = made(Mode::Upsert, 1);
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
            let rows = made(operation, 3_000);
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
