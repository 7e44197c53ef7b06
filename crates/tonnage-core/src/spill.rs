//! Batches of rows in key order, in bounded memory.
//!
//! Rows are sorted a memory's worth at a time and spilled as runs; then the runs are merged. Rows of equal keys keep
//! the order in which they came, nulls come first. Runs are anonymous temporary files (`TMPDIR`), which vanish with
//! the process. `FAN_IN` runs that follow one another are merged into one as soon as there are so many, and so are
//! those that come of this: a row is written again as often as the number of runs has digits to that base, and files
//! and memory are as many runs as `FAN_IN` times that, less than a hundred up to a tebibyte.

use std::{
    cmp::Ordering,
    collections::BinaryHeap,
    fs::File,
    io::{BufReader, BufWriter, Seek, SeekFrom, Write},
};

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array},
    compute::{concat_batches, interleave_record_batch, take_record_batch},
    datatypes::SchemaRef,
    ipc::{reader::StreamReader, writer::StreamWriter},
    row::{OwnedRow, RowConverter, Rows, SortField},
};

use crate::error::{Error, ErrorKind, Result, arrow_bug};

/// Runs that are merged into one. Each holds one batch of [`SPILL_BYTES`] in memory meanwhile.
const FAN_IN: usize = 32;
/// Arrow bytes of a spilled batch, about.
const SPILL_BYTES: usize = 256 << 10;

/// Takes batches of one schema, and gives their rows back in key order.
pub struct Sorter {
    schema: SchemaRef,
    key_at: Vec<usize>,
    keys: RowConverter,
    bytes_max: usize,
    held: Vec<RecordBatch>,
    held_bytes: usize,
    /// In the order in which their rows came, each with how often these were merged: never more often than before it.
    runs: Vec<(u32, Run)>,
}

/// The bounds of a merged batch: it ends with the row that reaches either.
#[derive(Debug, Clone, Copy)]
pub struct MergedBounds {
    /// Rows.
    pub rows_max: usize,
    /// Arrow bytes, about.
    pub bytes_max: usize,
}

/// A sorted part of the rows.
enum Run {
    Memory(RecordBatch),
    Disk(File),
}

impl Sorter {
    /// Sorts by the columns at `key_at`, about `bytes_max` Arrow bytes in memory at a time.
    pub fn new(schema: SchemaRef, key_at: Vec<usize>, bytes_max: usize) -> Result<Self> {
        Ok(Self {
            keys: converter(&schema, &key_at)?,
            schema,
            key_at,
            bytes_max,
            held: Vec::new(),
            held_bytes: 0,
            runs: Vec::new(),
        })
    }

    /// Takes rows.
    pub fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.held_bytes += batch.get_array_memory_size();
        self.held.push(batch);
        if self.held_bytes < self.bytes_max {
            return Ok(());
        }
        self.held_bytes = 0;
        let mut next = (0, self.spill()?);
        loop {
            let level = next.0;
            self.runs.push(next);
            let alike = self.runs.partition_point(|(merged, _)| *merged > level);
            if self.runs.len() - alike < FAN_IN {
                return Ok(());
            }
            let runs = self.runs.drain(alike..).map(|(_, run)| run).collect();
            next = (level + 1, self.merge_to_disk(runs)?);
        }
    }

    /// All rows were taken.
    pub fn finish(mut self, bounds: MergedBounds) -> Result<Merge> {
        if !self.held.is_empty() {
            let sorted = self.sorted()?;
            self.runs.push((0, Run::Memory(sorted)));
        }
        let runs = std::mem::take(&mut self.runs).into_iter();
        self.merge(runs.map(|(_, run)| run).collect(), bounds)
    }

    /// One batch of what is held, in key order; equal keys in the order in which they came.
    fn sorted(&mut self) -> Result<RecordBatch> {
        let batch = concat_batches(&self.schema, &std::mem::take(&mut self.held)).map_err(arrow_bug)?;
        let keys = self
            .keys
            .convert_columns(&columns_at(&batch, &self.key_at))
            .map_err(arrow_bug)?;
        let mut order: Vec<u32> = (0..batch.num_rows() as u32).collect();
        order.sort_by(|a, b| keys.row(*a as usize).cmp(&keys.row(*b as usize)));
        take_record_batch(&batch, &UInt32Array::from(order)).map_err(arrow_bug)
    }

    fn spill(&mut self) -> Result<Run> {
        let sorted = self.sorted()?;
        let rows = (SPILL_BYTES * sorted.num_rows() / sorted.get_array_memory_size().max(1)).max(1);
        let mut spill = Spill::new(&self.schema)?;
        let mut at = 0;
        while at < sorted.num_rows() {
            let count = rows.min(sorted.num_rows() - at);
            spill.write(&sorted.slice(at, count))?;
            at += count;
        }
        spill.finish()
    }

    fn merge_to_disk(&self, runs: Vec<Run>) -> Result<Run> {
        let mut merge = self.merge(
            runs,
            MergedBounds {
                rows_max: usize::MAX,
                bytes_max: SPILL_BYTES,
            },
        )?;
        let mut spill = Spill::new(&self.schema)?;
        while let Some(batch) = merge.next_rows()? {
            spill.write(&batch)?;
        }
        spill.finish()
    }

    fn merge(&self, runs: Vec<Run>, bounds: MergedBounds) -> Result<Merge> {
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
            let mut cursor = Cursor {
                batches,
                batch: None,
                keys: None,
                converter: converter(&self.schema, &self.key_at)?,
                key_at: self.key_at.clone(),
                row: 0,
            };
            cursor.load()?;
            heap.extend(cursor.head(index));
            cursors.push(cursor);
        }
        Ok(Merge {
            cursors,
            heap,
            bounds,
        })
    }
}

/// Makes rows of the columns at `key_at` comparable.
pub fn converter(schema: &SchemaRef, key_at: &[usize]) -> Result<RowConverter> {
    let fields = key_at
        .iter()
        .map(|at| SortField::new(schema.field(*at).data_type().clone()))
        .collect();
    RowConverter::new(fields).map_err(arrow_bug)
}

fn columns_at(batch: &RecordBatch, key_at: &[usize]) -> Vec<ArrayRef> {
    key_at.iter().map(|at| batch.column(*at).clone()).collect()
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
    .hint("TMPDIR names another directory")
}

fn arrow_spill(error: arrow::error::ArrowError) -> Error {
    match error {
        arrow::error::ArrowError::IoError(_, error) => spill_failed(&error),
        error => arrow_bug(error),
    }
}

/// Runs being merged.
pub struct Merge {
    cursors: Vec<Cursor>,
    heap: BinaryHeap<Head>,
    bounds: MergedBounds,
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
                let columns = columns_at(batch, &self.key_at);
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
    /// The next rows; none at the end.
    pub fn next_rows(&mut self) -> Result<Option<RecordBatch>> {
        // The batches that rows are taken from, kept until these rows are put together.
        let mut batches: Vec<RecordBatch> = Vec::new();
        let mut current: Vec<Option<usize>> = vec![None; self.cursors.len()];
        let mut picked: Vec<(usize, usize)> = Vec::new();
        let mut bytes = 0;
        while picked.len() < self.bounds.rows_max && bytes < self.bounds.bytes_max {
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
                if picked.len() >= self.bounds.rows_max || bytes >= self.bounds.bytes_max {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{AsArray, Int64Array},
        datatypes::{DataType, Field, Int64Type, Schema},
    };

    use super::*;

    #[test]
    fn however_many_rows_come_memory_holds_a_bounded_part() {
        const ROWS: i64 = 1_000;
        const BATCHES: i64 = 600;
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let bytes_max = 16 << 10;
        let mut sorter = Sorter::new(schema.clone(), vec![0], bytes_max).unwrap();
        let (mut files_max, mut merged_max) = (0, 0);
        for at in 0..BATCHES {
            // Far apart: each number once, in no order.
            let numbers = (at * ROWS..(at + 1) * ROWS).map(|n| n * 7_919 % (ROWS * BATCHES));
            let column = Int64Array::from_iter_values(numbers);
            let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(column)]).unwrap();
            sorter.push(batch).unwrap();
            assert!(
                sorter.held_bytes < bytes_max,
                "{} bytes are held",
                sorter.held_bytes
            );
            let held: usize = sorter.held.iter().map(RecordBatch::get_array_memory_size).sum();
            assert_eq!(held, sorter.held_bytes);
            assert!(
                sorter.runs.iter().all(|(_, run)| matches!(run, Run::Disk(_))),
                "a run is in memory"
            );
            assert!(sorter.runs.is_sorted_by(|(a, _), (b, _)| a >= b));
            files_max = files_max.max(sorter.runs.len());
            merged_max = merged_max.max(sorter.runs.first().map_or(0, |(merged, _)| *merged));
        }
        // Hundreds of runs, each written once more and no oftener.
        assert_eq!(merged_max, 1);
        assert!((2..2 * FAN_IN).contains(&files_max), "{files_max} files at once");
        let bounds = MergedBounds {
            rows_max: 512,
            bytes_max: usize::MAX,
        };
        let mut merge = sorter.finish(bounds).unwrap();
        let mut next = 0;
        while let Some(batch) = merge.next_rows().unwrap() {
            assert!(batch.num_rows() <= bounds.rows_max);
            for number in batch.column(0).as_primitive::<Int64Type>().values() {
                assert_eq!(*number, next);
                next += 1;
            }
            let loaded = merge.cursors.iter().filter_map(|cursor| cursor.batch.as_ref());
            let loaded: usize = loaded.map(RecordBatch::get_array_memory_size).sum();
            assert!(loaded <= files_max * 2 * SPILL_BYTES, "{loaded} bytes are loaded");
        }
        assert_eq!(next, ROWS * BATCHES);
    }
}
