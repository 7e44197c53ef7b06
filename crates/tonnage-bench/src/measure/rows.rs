//! The rows that runs are fed with: of a workload, or the user's own, the same for every run. Those of a workload are made
//! before the first run as far as [`KEPT_BYTES_MAX`] goes, so that making them takes no time from what is measured; the
//! user's own are all there. What is the same for several operations is made once and shared.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, UInt32Array},
    compute::{concat_batches, interleave, take_record_batch},
    datatypes::{SchemaRef, TimestampMicrosecondType},
};
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    operation::Mode,
};
use tonnage_engine::plan::{BLOCK_BYTES, BLOCK_ROWS};
use tonnage_formats::{
    generate::{
        Workload,
        random::{Random, base},
    },
    sources::batches::BatchSource,
};

use super::{
    figures::Ceiling,
    own::Own,
    rotated::rotated,
    setting::{RowKind, Setting},
    touch::{Draws, Touch},
};

/// Arrow bytes of rows of a workload that are kept, of one number of columns; of operations that differ in theirs each.
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
    /// Whether they are added to others, which reads meet.
    added: bool,
}

impl Which {
    fn of(setting: &Setting) -> Self {
        Self {
            kind: setting.workload,
            columns: setting.table.columns,
            operation: setting.operation,
            touch: setting.touch_written(),
            added: setting.operation == Mode::Insert && setting.reads > 0,
        }
    }

    /// Those that are made for it, which may be those of another: what is updated or deleted, each once, was inserted.
    fn made_as(&self) -> Self {
        match (self.operation, self.touch) {
            (Mode::Update | Mode::Delete, Touch::Each) => self.plain(),
            _ => *self,
        }
    }

    /// Those that are inserted into an empty table.
    fn plain(&self) -> Self {
        Self {
            operation: Mode::Insert,
            touch: Touch::Each,
            added: false,
            ..*self
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
        let made: HashSet<Which> = needed.iter().map(Which::made_as).collect();
        let kept_bytes_max = KEPT_BYTES_MAX.min(KEPT_BYTES_IN_ALL / made.len().max(1));
        // What others are picked from comes first.
        needed.sort_by_key(|which| which.touch != Touch::Each);
        let mut all: HashMap<Which, Arc<Rows>> = HashMap::new();
        for which in needed {
            let made_for = |as_this: Which| all.values().find(|rows| rows.which.made_as() == as_this);
            if let Some(same) = made_for(which.made_as()) {
                let shared = same.shared(which);
                all.insert(which, Arc::new(shared));
                continue;
            }
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
            let plain = made_for(which.plain()).map_or(&[][..], |rows| rows.kept.as_slice());
            let made = Rows::make(from, which, rows, kept_bytes_max, plain)?;
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
#[derive(Debug, Clone)]
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
    which: Which,
    /// Rows of a run at most.
    rows: u64,
    /// Rows of a batch: as many as a block of a file would hold. Own rows come in batches of any length.
    batch_rows: usize,
    /// The first batches; all of them, of own rows.
    kept: Vec<RecordBatch>,
    /// Where rows are not met each once.
    picks: Option<Picks>,
    /// The keys of those that are there, once somebody has asked for them.
    keys: OnceLock<Arc<[RecordBatch]>>,
    /// What makes them can do, rows a second.
    ceiling: f64,
}

impl Rows {
    /// Makes the first batches, no more than `rows` rows and about `kept_bytes_max` bytes, and takes the time. Of the
    /// [plain](Which::plain) ones those that are made already are taken as they are. Blocks.
    fn make(
        from: RowsFrom,
        which: Which,
        rows: u64,
        kept_bytes_max: usize,
        plain: &[RecordBatch],
    ) -> Result<Self> {
        let (workload, columns, seed) = match from {
            RowsFrom::Own(own) => {
                return Ok(Self {
                    which,
                    rows: rows.min(own.rows),
                    batch_rows: BLOCK_ROWS,
                    kept: own.batches.clone(),
                    picks: None,
                    keys: OnceLock::new(),
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
        if which.operation == Mode::Upsert {
            batch_rows = batch_rows.min(THERE_MAX);
        }
        let mut made = Self {
            from,
            which,
            rows,
            batch_rows,
            kept: Vec::new(),
            picks: None,
            keys: OnceLock::new(),
            ceiling: 0.0,
        };
        let mut kept_bytes_max = kept_bytes_max;
        if which.touch != Touch::Each {
            kept_bytes_max /= 2;
            made.picks = Some(made.picks(base(seed, STREAM_TOUCH), kept_bytes_max, plain)?);
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

    /// The same rows for what else they are.
    fn shared(&self, which: Which) -> Self {
        Self {
            from: self.from.clone(),
            which,
            rows: self.rows,
            batch_rows: self.batch_rows,
            kept: self.kept.clone(),
            picks: None,
            keys: OnceLock::new(),
            ceiling: self.ceiling,
        }
    }

    /// The rows that are there, as many as about `bytes_max` bytes hold.
    fn picks(&self, base: u64, bytes_max: usize, plain: &[RecordBatch]) -> Result<Picks> {
        let (mut pool, mut rows, mut bytes) = (Vec::new(), 0, 0);
        while rows < self.there() && bytes < bytes_max {
            let batch = match (self.which.operation, plain.get(pool.len())) {
                (Mode::Upsert, _) => self.batch_there(pool.len() as u64)?,
                (_, Some(batch)) => batch.clone(),
                (_, None) => self.batch(pool.len() as u64)?,
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
            draws: Draws::new(self.which.touch, rows),
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

    /// Rows a second at which these `parts` of the rows of a run would come at the same time if nothing else took time:
    /// only those that are not kept are made, and the run is over with the part of which most are. None where all are kept.
    pub fn ceiling_of(&self, parts: &[Range<u64>]) -> Option<f64> {
        let kept = self.rows_kept();
        let made = parts
            .iter()
            .map(|part| part.end.saturating_sub(part.start.max(kept)));
        let made = made.max().filter(|made| *made > 0)?;
        let rows: u64 = parts.iter().map(|part| part.end - part.start).sum();
        Some(self.ceiling * (rows as f64 / made as f64))
    }

    /// Rows that are made already.
    pub fn rows_kept(&self) -> u64 {
        self.kept.iter().map(|batch| batch.num_rows() as u64).sum()
    }

    /// Rows that the table has beforehand: of an upsert every second row of a run meets one of them, of an update or a
    /// delete every row one of its own; of an insert as many as it adds at most, where reads meet them.
    pub fn there(&self) -> u64 {
        match (self.which.operation, &self.from) {
            (Mode::Insert, _) if self.which.added => self.rows,
            (Mode::Upsert, RowsFrom::Workload { .. }) => self.halves() * self.half(),
            (Mode::Upsert, RowsFrom::Own(own)) => own.rows.div_ceil(2),
            (Mode::Update, _) => self.picks.as_ref().map_or(self.rows, |picks| picks.rows),
            (Mode::Delete, _) => self.rows,
            _ => 0,
        }
    }

    /// Which of these the rows of a run meet that are `rows` of all.
    pub fn met(&self, rows: Range<u64>) -> Range<u64> {
        match (self.which.operation, &self.picks) {
            (Mode::Upsert, _) | (_, Some(_)) => 0..self.there(),
            _ => rows.start.min(self.there())..rows.end.min(self.there()),
        }
    }

    /// Those of part `part` of `parts` equal ones of a run of `rows` rows.
    pub fn part(rows: u64, part: u64, parts: u64) -> Range<u64> {
        let first = |part: u64| (u128::from(rows) * u128::from(part) / u128::from(parts.max(1))) as u64;
        first(part)..first(part + 1)
    }

    /// The times, in microseconds since 1970, of the first and the last row that are there or written by `rows` of a run;
    /// none of rows without.
    pub fn times(&self, rows: Range<u64>) -> Option<(i64, i64)> {
        let RowsFrom::Workload {
            workload,
            columns,
            seed,
        } = &self.from
        else {
            return None;
        };
        let met = self.met(rows.clone());
        let last = match self.which.operation {
            Mode::Upsert => self.there() + rows.end.div_ceil(2),
            _ if self.which.added => self.rows + rows.end,
            // Whichever is met, it is one of these.
            _ if self.picks.is_some() => met.end,
            _ => rows.end.max(met.end),
        };
        let first = if met.is_empty() { rows.start } else { met.start };
        let time = workload.time()?;
        let of = |row: u64| {
            let batch = workload.batch_of(*columns, *seed, row, 1);
            let times = batch
                .column_by_name(time)?
                .as_primitive_opt::<TimestampMicrosecondType>()?;
            times.values().first().copied()
        };
        Some((of(first)?, of(last.saturating_sub(1))?))
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
        if self.which.operation != Mode::Upsert {
            let rows = self.batch_rows;
            if let Some(picks) = &self.picks {
                return self.picked(picks, index * rows as u64, rows);
            }
            let before = if self.which.added { self.rows } else { 0 };
            return Ok(workload.batch_of(columns, seed, before + index * rows as u64, rows));
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

    /// Batch `index` of a run, which may be made already.
    fn at_hand(&self, index: u64) -> Result<RecordBatch> {
        let kept = usize::try_from(index).ok().and_then(|at| self.kept.get(at));
        kept.map_or_else(|| self.batch(index), |batch| Ok(batch.clone()))
    }

    /// Batch `index` of the rows that are there beforehand; an empty one behind the last of some.
    fn batch_there(&self, index: u64) -> Result<RecordBatch> {
        let made = |rows: u64| match &self.from {
            RowsFrom::Workload {
                workload,
                columns,
                seed,
            } => Ok(workload.batch_of(*columns, *seed, index * rows, rows as usize)),
            RowsFrom::Own(_) => Err(Error::bug("own rows are not made")),
        };
        match (self.which.operation, &self.from, &self.picks) {
            (Mode::Upsert, RowsFrom::Workload { .. }, _) => made(self.half()),
            (Mode::Upsert, RowsFrom::Own(own), _) => {
                let at = usize::try_from(index).unwrap_or(usize::MAX);
                let before: usize = own.batches.iter().take(at).map(RecordBatch::num_rows).sum();
                let batch = self.batch(index)?;
                // The first, the third and so on of all of them.
                let places = ((before % 2) as u32..batch.num_rows() as u32).step_by(2);
                take_record_batch(&batch, &UInt32Array::from_iter_values(places)).map_err(arrow_bug)
            }
            (Mode::Insert, ..) => made(self.batch_rows as u64),
            (_, _, Some(picks)) => {
                let at = usize::try_from(index).unwrap_or(usize::MAX);
                let batch = picks.pool.get(at).cloned();
                Ok(batch.unwrap_or_else(|| RecordBatch::new_empty(self.from.schema())))
            }
            (_, _, None) => self.at_hand(index),
        }
    }

    /// `rows` of all rows of a run, in batches.
    pub fn batches(self: &Arc<Self>, rows: Range<u64>) -> Batches {
        let all = self.clone();
        self.cut(rows, move |index| all.at_hand(index))
    }

    /// A source of `rows` of all rows of a run.
    pub fn source(self: &Arc<Self>, rows: Range<u64>) -> BatchSource<Batches> {
        let all = self.clone();
        self.fed(self.from.schema(), rows, move |index| all.at_hand(index))
    }

    /// A source of `rows` of those that are [there](Rows::there) beforehand: those of an update have other values outside
    /// their keys, so that it changes every row.
    pub fn source_there(self: &Arc<Self>, rows: Range<u64>) -> BatchSource<Batches> {
        let all = self.clone();
        let schema = self.from.schema();
        let keeps: Vec<bool> = schema
            .fields()
            .iter()
            .map(|f| self.from.is_key(f.name()))
            .collect();
        let rows = rows.start..rows.end.min(self.there());
        self.fed(schema, rows, move |index| {
            let batch = all.batch_there(index)?;
            match all.which.operation {
                Mode::Update => rotated(&batch, |at| keeps[at]),
                _ => Ok(batch),
            }
        })
    }

    /// A source of the keys of [the same](Rows::source_there), in their order. Blocks.
    pub fn keys_there(self: &Arc<Self>, rows: Range<u64>) -> Result<BatchSource<Batches>> {
        let schema = self.from.schema();
        let places = 0..schema.fields().len();
        let key_at: Vec<usize> = places
            .filter(|at| self.from.is_key(schema.field(*at).name()))
            .collect();
        let schema = Arc::new(schema.project(&key_at).map_err(arrow_bug)?);
        let keys = match self.keys.get() {
            Some(keys) => keys.clone(),
            None => {
                let (mut keys, mut counted) = (Vec::new(), 0);
                while counted < self.there() {
                    let batch = self.batch_there(keys.len() as u64)?;
                    if batch.num_rows() == 0 {
                        break;
                    }
                    counted += batch.num_rows() as u64;
                    keys.push(batch.project(&key_at).map_err(arrow_bug)?);
                }
                self.keys.get_or_init(|| keys.into()).clone()
            }
        };
        let rows = rows.start..rows.end.min(self.there());
        let none = RecordBatch::new_empty(schema.clone());
        let of = move |index: u64| {
            let at = usize::try_from(index).unwrap_or(usize::MAX);
            Ok(keys.get(at).unwrap_or(&none).clone())
        };
        Ok(self.fed(schema, rows, of))
    }

    /// A source of `rows` of all that batches have.
    fn fed(
        &self,
        schema: SchemaRef,
        rows: Range<u64>,
        batch: impl Fn(u64) -> Result<RecordBatch> + Send + 'static,
    ) -> BatchSource<Batches> {
        let source = BatchSource::new(&self.from.name(), schema, self.cut(rows, batch));
        match &self.from {
            RowsFrom::Own(own) => source.beyond_arrow(own.beyond_arrow),
            RowsFrom::Workload { .. } => source,
        }
    }

    /// `rows` of all that batches have. A workload ends with its first empty one, and its batches are equally
    /// long unless all of them are asked for.
    fn cut(&self, rows: Range<u64>, batch: impl Fn(u64) -> Result<RecordBatch> + Send + 'static) -> Batches {
        let length = match (self.which.operation, &self.from) {
            (_, RowsFrom::Own(_)) => None,
            (Mode::Upsert, _) => Some(2 * self.half()),
            _ => Some(self.batch_rows as u64),
        };
        let own = match &self.from {
            RowsFrom::Workload { .. } => None,
            RowsFrom::Own(own) => Some(own.batches.len() as u64),
        };
        let first = length.map_or(0, |length| rows.start / length);
        let mut passed = rows.start - first * length.unwrap_or(0);
        let mut left = rows.end.saturating_sub(rows.start);
        let batches = (first..own.unwrap_or(u64::MAX))
            .map_while(move |index| batch(index).ok())
            .filter(move |batch| own.is_none() || batch.num_rows() > 0)
            .map_while(move |batch| {
                let passing = passed.min(batch.num_rows() as u64);
                passed -= passing;
                let taken = left.min(batch.num_rows() as u64 - passing);
                left -= taken;
                // Of one that is passed as a whole nothing is taken, and it is not the end.
                (taken + passing > 0).then(|| batch.slice(passing as usize, taken as usize))
            });
        Box::new(batches)
    }
}

/// Batches one after another.
pub type Batches = Box<dyn Iterator<Item = RecordBatch> + Send>;

#[cfg(test)]
mod tests;
