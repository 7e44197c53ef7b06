//! `--sort full`: the whole source in key order, in bounded memory.
//!
//! Rows are read to the end, converted, sorted a memory's worth at a time ([`Plan::sort_bytes_max`]) and spilled as runs; then the
//! runs are merged. Rows of equal keys keep their order, so the last of them is still the last. Bad rows come first,
//! in blocks of their own. The result is a [`Source`] whose blocks depend on the input and the plan only, so a resumed
//! run sorts again and skips what was committed.
//!
//! Runs are anonymous temporary files (`TMPDIR`), which vanish with the process. At most [`RUNS_MAX`] are merged at
//! once; more are first merged into fewer.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, VecDeque},
    fs::File,
    io::{BufReader, BufWriter, Seek, SeekFrom, Write},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, UInt32Array, UInt64Array},
    compute::{concat_batches, interleave_record_batch, take_record_batch},
    datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type, UInt64Type},
    ipc::{reader::StreamReader, writer::StreamWriter},
    row::{OwnedRow, RowConverter, Rows, SortField},
};

use super::deal::{Convert, arrow_bug};
use crate::{
    error::{Error, ErrorKind, Result},
    ledger::InputIdentity,
    plan::Plan,
    reject::Reject,
    slot::BlockMark,
    source::{Block, Origin, Places, ReadRequest, Source, SourceSchema},
};

/// Runs merged at once. Each holds one batch of [`SPILL_BYTES`] in memory.
const RUNS_MAX: usize = 128;
/// Arrow bytes of a spilled batch, about.
const SPILL_BYTES: usize = 256 << 10;
/// Bad rows held until the good ones follow.
const REJECTS_HELD_MAX: usize = 200_000;
/// Columns behind the plan's that say where a row came from: file, row, byte offset.
const PLACE_COLUMNS: usize = 3;

/// A source in key order.
pub struct Sorted {
    schema: SourceSchema,
    inner: Option<Box<dyn Source>>,
    identity: Option<Vec<InputIdentity>>,
    bytes_total: Option<u64>,
    plan: Arc<Plan>,
    convert: Convert,
    keys: RowConverter,
    files: Vec<Arc<str>>,
    rejects: VecDeque<Reject>,
    merge: Option<Merge>,
    at: BlockMark,
    index: u64,
    rows_total: u64,
}

/// A sorted part of the source.
enum Run {
    Memory(RecordBatch),
    Disk(File),
}

impl Sorted {
    /// Sorts what `source`, whose request has been made, yields.
    pub fn new(source: Box<dyn Source>, plan: Arc<Plan>, convert: Convert) -> Result<Self> {
        let fields = plan
            .sort_by
            .iter()
            .map(|at| SortField::new(plan.columns[*at].ty.arrow()))
            .collect();
        let mut schema = source.schema().clone();
        // Rows come out in the plan's types, as those of a text source do.
        schema.text = true;
        Ok(Self {
            schema,
            identity: source.identity(),
            bytes_total: source.bytes_total(),
            inner: Some(source),
            keys: RowConverter::new(fields).map_err(arrow_bug)?,
            plan,
            convert,
            files: Vec::new(),
            rejects: VecDeque::new(),
            merge: None,
            at: BlockMark::default(),
            index: 0,
            rows_total: 0,
        })
    }

    /// Reads everything and sorts it; afterwards `merge` yields it.
    fn sort(&mut self) -> Result<()> {
        let Some(mut source) = self.inner.take() else {
            return Ok(());
        };
        let schema = self.schema_with_places();
        let mut runs: Vec<Run> = Vec::new();
        let mut held: Vec<RecordBatch> = Vec::new();
        let mut held_bytes = 0;
        let limit = self.plan.limit.unwrap_or(u64::MAX);
        while let Some(mut block) = source.next()? {
            super::run::truncate(&mut block, limit);
            let end = block.end.rows;
            let Block {
                rows,
                origin,
                mut rejects,
                ..
            } = block;
            let (rows, origin) = self.convert.apply(rows, origin, &mut rejects)?;
            self.rejects.extend(rejects);
            if self.rejects.len() > REJECTS_HELD_MAX {
                return Err(Error::new(
                    ErrorKind::Rejected,
                    format!("more than {REJECTS_HELD_MAX} rows are bad"),
                )
                .hint("--sort block puts bad rows aside as they come, however many there are"));
            }
            if rows.num_rows() > 0 {
                let placed = self.with_places(&schema, rows, &origin)?;
                held_bytes += placed.get_array_memory_size();
                held.push(placed);
            }
            if held_bytes >= self.plan.sort_bytes_max {
                runs.push(self.spill(&schema, std::mem::take(&mut held))?);
                held_bytes = 0;
                while runs.len() >= RUNS_MAX {
                    let first = runs.drain(..RUNS_MAX).collect();
                    let merged = self.merge_to_disk(&schema, first)?;
                    runs.insert(0, merged);
                }
            }
            if end >= limit {
                break;
            }
        }
        if !held.is_empty() {
            let sorted = self.sorted(&schema, held)?;
            runs.push(Run::Memory(sorted));
        }
        self.rows_total = self.rejects.len() as u64;
        self.merge = Some(Merge::new(
            runs,
            &self.plan,
            self.plan.block_rows,
            self.plan.block_bytes,
        )?);
        Ok(())
    }

    fn schema_with_places(&self) -> SchemaRef {
        let mut fields: Vec<Arc<Field>> = self.plan.schema().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new("\0file", DataType::UInt32, false)));
        fields.push(Arc::new(Field::new("\0row", DataType::UInt64, false)));
        fields.push(Arc::new(Field::new("\0offset", DataType::UInt64, true)));
        Arc::new(Schema::new(fields))
    }

    fn with_places(&mut self, schema: &SchemaRef, rows: RecordBatch, origin: &Origin) -> Result<RecordBatch> {
        if self.files.last() != Some(&origin.file) {
            self.files.push(origin.file.clone());
        }
        let file = self.files.len() as u32 - 1;
        let count = rows.num_rows();
        let mut columns = rows.columns().to_vec();
        columns.push(Arc::new(UInt32Array::from(vec![file; count])));
        columns.push(Arc::new(UInt64Array::from_iter_values(
            (0..count).map(|at| origin.row(at)),
        )));
        columns.push(Arc::new(UInt64Array::from_iter(
            (0..count).map(|at| origin.offset(at)),
        )));
        RecordBatch::try_new(schema.clone(), columns).map_err(arrow_bug)
    }

    /// One batch in key order; equal keys in source order.
    fn sorted(&mut self, schema: &SchemaRef, batches: Vec<RecordBatch>) -> Result<RecordBatch> {
        let batch = concat_batches(schema, &batches).map_err(arrow_bug)?;
        drop(batches);
        let keys = self
            .keys
            .convert_columns(&key_columns(&self.plan, &batch))
            .map_err(arrow_bug)?;
        let mut order: Vec<u32> = (0..batch.num_rows() as u32).collect();
        order.sort_by(|a, b| keys.row(*a as usize).cmp(&keys.row(*b as usize)));
        take_record_batch(&batch, &UInt32Array::from(order)).map_err(arrow_bug)
    }

    fn spill(&mut self, schema: &SchemaRef, batches: Vec<RecordBatch>) -> Result<Run> {
        let sorted = self.sorted(schema, batches)?;
        let rows = (SPILL_BYTES * sorted.num_rows() / sorted.get_array_memory_size().max(1)).max(1);
        let mut spill = Spill::new(schema)?;
        let mut at = 0;
        while at < sorted.num_rows() {
            let count = rows.min(sorted.num_rows() - at);
            spill.write(&sorted.slice(at, count))?;
            at += count;
        }
        spill.finish()
    }

    fn merge_to_disk(&mut self, schema: &SchemaRef, runs: Vec<Run>) -> Result<Run> {
        let mut merge = Merge::new(runs, &self.plan, usize::MAX, SPILL_BYTES)?;
        let mut spill = Spill::new(schema)?;
        while let Some(batch) = merge.next()? {
            spill.write(&batch)?;
        }
        spill.finish()
    }

    /// The next rows with their places.
    fn rows(&mut self) -> Result<Option<(RecordBatch, Places)>> {
        let Some(merge) = &mut self.merge else {
            return Ok(None);
        };
        let Some(batch) = merge.next()? else {
            return Ok(None);
        };
        let width = batch.num_columns() - PLACE_COLUMNS;
        let places = Places {
            files: self.files.clone(),
            file: batch.column(width).as_primitive::<UInt32Type>().values().to_vec(),
            row: batch
                .column(width + 1)
                .as_primitive::<UInt64Type>()
                .values()
                .to_vec(),
            offset: batch
                .column(width + 2)
                .as_primitive::<UInt64Type>()
                .iter()
                .collect(),
        };
        let rows = RecordBatch::try_new(self.plan.schema(), batch.columns()[..width].to_vec());
        Ok(Some((rows.map_err(arrow_bug)?, places)))
    }
}

impl Source for Sorted {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        self.identity.clone()
    }

    fn options(&self) -> Vec<String> {
        Vec::new()
    }

    fn bytes_total(&self) -> Option<u64> {
        self.bytes_total
    }

    fn request(&mut self, _: &ReadRequest) -> Result<()> {
        Err(Error::bug(
            "a sorted source was asked for other columns than it was made for",
        ))
    }

    fn seek(&mut self, index: u64, mark: &BlockMark) -> Result<()> {
        while self.index < index {
            if self.next()?.is_none() {
                break;
            }
        }
        match self.at == *mark {
            true => Ok(()),
            false => Err(
                Error::input("the input has changed since the run began: it sorts otherwise")
                    .hint("--restart loads it from the beginning, as a new run"),
            ),
        }
    }

    fn next(&mut self) -> Result<Option<Block>> {
        self.sort()?;
        let start = self.at;
        let (rows, places, rejects) = if !self.rejects.is_empty() {
            let count = self.rejects.len().min(self.plan.block_rows);
            let rejects = self.rejects.drain(..count).collect();
            (
                RecordBatch::new_empty(self.plan.schema()),
                Places::default(),
                rejects,
            )
        } else {
            match self.rows()? {
                Some((rows, places)) => (rows, places, Vec::new()),
                None => return Ok(None),
            }
        };
        let count = (rows.num_rows() + rejects.len()) as u64;
        // Of many files only the order counts: a place in it is a number of rows.
        self.at = BlockMark {
            offset: start.offset + count,
            file_rows: start.file_rows + count,
            rows: start.rows + count,
            ..start
        };
        self.index += 1;
        Ok(Some(Block {
            index: self.index - 1,
            origin: Origin {
                file: "".into(),
                first_row: 1,
                first_offset: None,
                rows: (0..rows.num_rows() as u32).collect::<Vec<_>>().into(),
                offsets: None,
                places: Some(Arc::new(places)),
            },
            bytes: rows.get_array_memory_size() as u64,
            rows,
            rejects,
            start,
            end: self.at,
        }))
    }
}

fn key_columns(plan: &Plan, batch: &RecordBatch) -> Vec<ArrayRef> {
    plan.sort_by.iter().map(|at| batch.column(*at).clone()).collect()
}

/// A run being written.
struct Spill(StreamWriter<BufWriter<File>>);

impl Spill {
    fn new(schema: &SchemaRef) -> Result<Self> {
        let file = tempfile::tempfile().map_err(|e| spill_failed(&e))?;
        StreamWriter::try_new(BufWriter::new(file), schema)
            .map(Self)
            .map_err(arrow_spill)
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.0.write(batch).map_err(arrow_spill)
    }

    fn finish(mut self) -> Result<Run> {
        self.0.finish().map_err(arrow_spill)?;
        let mut writer = self.0.into_inner().map_err(arrow_spill)?;
        writer.flush().map_err(|e| spill_failed(&e))?;
        let mut file = writer.into_inner().map_err(|e| spill_failed(e.error()))?;
        file.seek(SeekFrom::Start(0)).map_err(|e| spill_failed(&e))?;
        Ok(Run::Disk(file))
    }
}

fn spill_failed(error: &std::io::Error) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!(
            "temporary file for sorting in {}: {error}",
            std::env::temp_dir().display()
        ),
    )
    .hint("TMPDIR names another directory; --sort block needs none")
}

fn arrow_spill(error: arrow::error::ArrowError) -> Error {
    match error {
        arrow::error::ArrowError::IoError(_, error) => spill_failed(&error),
        error => arrow_bug(error),
    }
}

/// Runs being merged.
struct Merge {
    cursors: Vec<Cursor>,
    heap: BinaryHeap<Head>,
    rows_max: usize,
    bytes_max: usize,
}

/// A place in a run.
struct Cursor {
    batches: Batches,
    batch: Option<RecordBatch>,
    keys: Option<Rows>,
    converter: RowConverter,
    key_at: Vec<usize>,
    row: usize,
}

enum Batches {
    Memory(Option<RecordBatch>),
    Disk(Box<StreamReader<BufReader<File>>>),
}

/// The next row of a run; the least comes first, of equal keys that of the earlier run.
struct Head {
    key: OwnedRow,
    run: usize,
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .key
            .row()
            .cmp(&self.key.row())
            .then(other.run.cmp(&self.run))
    }
}

impl Cursor {
    fn load(&mut self) -> Result<()> {
        self.batch = match &mut self.batches {
            Batches::Memory(batch) => batch.take(),
            Batches::Disk(reader) => reader.next().transpose().map_err(arrow_spill)?,
        };
        self.row = 0;
        self.keys = match &self.batch {
            Some(batch) => {
                let columns: Vec<_> = self.key_at.iter().map(|at| batch.column(*at).clone()).collect();
                Some(self.converter.convert_columns(&columns).map_err(arrow_bug)?)
            }
            None => None,
        };
        Ok(())
    }

    fn head(&self, run: usize) -> Option<Head> {
        let keys = self.keys.as_ref()?;
        (self.row < keys.num_rows()).then(|| Head {
            key: keys.row(self.row).owned(),
            run,
        })
    }
}

impl Merge {
    /// Merges runs into batches of at most `rows_max` rows and about `bytes_max` bytes.
    fn new(runs: Vec<Run>, plan: &Plan, rows_max: usize, bytes_max: usize) -> Result<Self> {
        let mut cursors = Vec::with_capacity(runs.len());
        let mut heap = BinaryHeap::with_capacity(runs.len());
        for (index, run) in runs.into_iter().enumerate() {
            let batches = match run {
                Run::Memory(batch) => Batches::Memory(Some(batch)),
                Run::Disk(file) => {
                    let reader = StreamReader::try_new(BufReader::new(file), None).map_err(arrow_spill)?;
                    Batches::Disk(Box::new(reader))
                }
            };
            let fields = plan
                .sort_by
                .iter()
                .map(|at| SortField::new(plan.columns[*at].ty.arrow()))
                .collect();
            let mut cursor = Cursor {
                batches,
                batch: None,
                keys: None,
                converter: RowConverter::new(fields).map_err(arrow_bug)?,
                key_at: plan.sort_by.clone(),
                row: 0,
            };
            cursor.load()?;
            heap.extend(cursor.head(index));
            cursors.push(cursor);
        }
        Ok(Self {
            cursors,
            heap,
            rows_max,
            bytes_max,
        })
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        // The batches that rows are taken from, kept until these rows are put together.
        let mut batches: Vec<RecordBatch> = Vec::new();
        let mut current: Vec<Option<usize>> = vec![None; self.cursors.len()];
        let mut picked: Vec<(usize, usize)> = Vec::new();
        let mut bytes = 0;
        while picked.len() < self.rows_max && bytes < self.bytes_max {
            let Some(Head { run, .. }) = self.heap.pop() else {
                break;
            };
            let cursor = &mut self.cursors[run];
            let Some(batch) = &cursor.batch else { continue };
            let at = *current[run].get_or_insert_with(|| {
                batches.push(batch.clone());
                batches.len() - 1
            });
            // While no other run has a smaller key, rows of this one follow each other without the heap.
            loop {
                picked.push((at, cursor.row));
                bytes += batch.get_array_memory_size() / batch.num_rows().max(1);
                cursor.row += 1;
                if picked.len() >= self.rows_max || bytes >= self.bytes_max {
                    break;
                }
                let Some(keys) = &cursor.keys else { break };
                if cursor.row >= keys.num_rows() {
                    break;
                }
                let next = keys.row(cursor.row);
                let others = self.heap.peek().map(|head| (head.key.row(), head.run));
                if others.is_some_and(|(key, other)| (next, run) > (key, other)) {
                    break;
                }
            }
            if cursor.row >= batch.num_rows() {
                cursor.load()?;
                current[run] = None;
            }
            self.heap.extend(self.cursors[run].head(run));
        }
        if picked.is_empty() {
            return Ok(None);
        }
        let batches: Vec<&RecordBatch> = batches.iter().collect();
        interleave_record_batch(&batches, &picked)
            .map(Some)
            .map_err(arrow_bug)
    }
}
