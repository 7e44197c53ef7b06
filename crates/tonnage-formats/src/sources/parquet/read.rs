//! Rows of one Parquet file, block by block.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array},
    compute::{concat_batches, filter_record_batch},
    datatypes::{
        DataType, Field, Fields, Schema, SchemaRef, TimestampMicrosecondType, TimestampNanosecondType,
    },
};
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector},
        parquet_to_arrow_field_levels,
    },
    errors::Result as ParquetResult,
};
use tonnage_core::{
    convert::{shown_value, too_fine, with_nanos},
    error::Result,
    parse::text_of_timestamp,
    reader::BeyondArrow,
    reject::{Problem, Reject, RejectData},
    source::{Origin, ReadRequest},
};
use tonnage_places::File;

use super::{
    content::Content,
    file::{Footer, ParquetFile, damaged},
    pages::Groups,
};
use crate::sources::damage::guarded;

/// A file open at a block.
pub(super) struct BlockReader {
    rows: RowReader,
    /// For each column requested its place among those that `rows` reads, which come in the file's order.
    order: Vec<usize>,
    schema: SchemaRef,
    times: Option<Int96Reader>,
    /// What lies before the next row.
    pub content: Content,
}

/// Reads the requested times of 96 bits once more, as nanoseconds, to tell which of them microseconds do not
/// keep.
struct Int96Reader {
    rows: RowReader,
    /// For each column that `rows` reads its places among the columns requested.
    requested: Vec<Vec<usize>>,
}

/// A time that has more digits than microseconds have.
struct TooFine {
    row: usize,
    /// Its place among the columns requested.
    column: usize,
    /// The time with all its digits.
    text: String,
}

impl BlockReader {
    /// Opens the file at a row (from 0), leaving out the row groups before it.
    pub fn open(file: &ParquetFile, request: &ReadRequest, row: u64) -> Result<Self> {
        let (open, footer) = file.reopen()?;
        let requested: Vec<usize> = request.columns.iter().map(|(index, _)| *index).collect();
        let mut read = requested.clone();
        read.sort_unstable();
        read.dedup();
        let place = |index: &usize| read.binary_search(index).ok();
        let order = requested.iter().filter_map(place).collect();
        let fields = footer.metadata.schema().fields();
        let schema: Vec<_> = requested
            .iter()
            .filter_map(|index| fields.get(*index).cloned())
            .collect();
        let start = Start {
            row,
            block_rows: file.block_rows(request),
        };
        let times: Vec<usize> = read
            .iter()
            .copied()
            .filter(|index| footer.int96.get(*index) == Some(&true))
            .collect();
        let times = match times.as_slice() {
            [] => None,
            times => {
                let (open, _) = file.reopen()?;
                let places = |time: &usize| {
                    (0..requested.len())
                        .filter(|at| requested[*at] == *time)
                        .collect()
                };
                Some(Int96Reader {
                    rows: RowReader::open(open, &file.input.shown, &footer, &footer.nanos, times, start)?,
                    requested: times.iter().map(places).collect(),
                })
            }
        };
        Ok(Self {
            content: Content::new(file, file.file()?, &footer, &read)?,
            rows: RowReader::open(open, &file.input.shown, &footer, &footer.metadata, &read, start)?,
            order,
            schema: Arc::new(Schema::new(schema)),
            times,
        })
    }

    /// The next `rows` rows of the file `shown`, the first of which is `row` (from 0): the good ones with
    /// their origin, and the others.
    pub fn read(
        &mut self,
        rows: usize,
        shown: &Arc<str>,
        row: u64,
    ) -> Result<(RecordBatch, Origin, Vec<Reject>)> {
        let read = self.rows.read(rows, shown, row)?;
        let columns = self
            .order
            .iter()
            .map(|index| read.column(*index).clone())
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|cause| damaged(shown, row, cause))?;
        let bad = match &mut self.times {
            None => Vec::new(),
            Some(times) => times.read(&batch, shown, row)?,
        };
        let mut origin = Origin {
            file: shown.clone(),
            first_row: row + 1,
            first_offset: None,
            // As many as fit 32 bits, as was checked when they were requested.
            rows: UInt32Array::from_iter_values(0..rows as u32),
            offsets: None,
            places: None,
        };
        if bad.is_empty() {
            return Ok((batch, origin, Vec::new()));
        }
        let rejects = bad.iter().map(|bad| reject(bad, &batch, &origin)).collect();
        let mut good = vec![true; rows];
        for bad in &bad {
            good[bad.row] = false;
        }
        origin.rows = (0..rows as u32)
            .zip(&good)
            .filter(|(_, good)| **good)
            .map(|(row, _)| row)
            .collect();
        let batch = filter_record_batch(&batch, &BooleanArray::from(good))
            .map_err(|cause| damaged(shown, row, cause))?;
        Ok((batch, origin, rejects))
    }
}

impl Int96Reader {
    /// The rows of `batch` that have a time which is not exact, in order, one column each.
    fn read(&mut self, batch: &RecordBatch, shown: &str, row: u64) -> Result<Vec<TooFine>> {
        let nanos = self.rows.read(batch.num_rows(), shown, row)?;
        let mut bad = Vec::new();
        for (column, places) in nanos.columns().iter().zip(&self.requested) {
            let Some(place) = places.first() else { continue };
            let micros = batch
                .column(*place)
                .as_primitive_opt::<TimestampMicrosecondType>();
            let nanos = column.as_primitive_opt::<TimestampNanosecondType>();
            let (Some(micros), Some(nanos)) = (micros, nanos) else {
                return Err(damaged(shown, row, "a time of 96 bits was not read as one"));
            };
            for row in (0..micros.len()).filter(|row| micros.is_valid(*row)) {
                let micros = micros.value(row);
                // Both wrap around at the same places, so the difference is right also where nanoseconds do
                // not fit.
                let beyond = nanos.value(row).wrapping_sub(micros.wrapping_mul(1_000));
                if beyond != 0 {
                    bad.push(TooFine {
                        row,
                        column: *place,
                        text: with_nanos(text_of_timestamp(micros), micros, beyond.rem_euclid(1_000)),
                    });
                }
            }
        }
        bad.sort_by_key(|bad| (bad.row, bad.column));
        bad.dedup_by_key(|bad| bad.row);
        Ok(bad)
    }
}

fn reject(bad: &TooFine, batch: &RecordBatch, origin: &Origin) -> Reject {
    let schema = batch.schema();
    let name = |column: usize| schema.field(column).name().as_str();
    let value = |column: usize, array: &ArrayRef| match column == bad.column {
        true => Some(bad.text.clone()),
        false => shown_value(array, bad.row, BeyondArrow::Refused),
    };
    let fields = batch.columns().iter().enumerate();
    let fault = too_fine(&bad.text);
    Reject {
        file: origin.file.clone(),
        row: origin.row(bad.row),
        offset: None,
        problem: Problem {
            column: Some(name(bad.column).to_owned()),
            code: fault.code.to_owned(),
            message: fault.message,
            hint: fault.hint,
        },
        data: RejectData::Fields(
            fields
                .map(|(column, array)| (Arc::from(name(column)), value(column, array)))
                .collect(),
        ),
    }
}

/// Where reading starts.
#[derive(Clone, Copy)]
struct Start {
    /// Rows of the file before.
    row: u64,
    /// Rows of a block.
    block_rows: u64,
}

/// Some columns of a file, in batches of exactly as many rows as are asked for.
struct RowReader {
    reader: ParquetRecordBatchReader,
    /// Rows read beyond the last batch.
    rest: Option<RecordBatch>,
}

impl RowReader {
    /// `columns` are indices of Arrow fields, ascending.
    fn open(
        open: File,
        shown: &str,
        footer: &Footer,
        metadata: &ArrowReaderMetadata,
        columns: &[usize],
        start: Start,
    ) -> Result<Self> {
        let roots = columns
            .iter()
            .filter_map(|index| footer.roots.get(*index).copied());
        let mask = ProjectionMask::roots(metadata.parquet_schema(), roots);
        let build = || -> ParquetResult<ParquetRecordBatchReader> {
            let mut skipped = 0;
            let mut groups = Vec::new();
            for (group, rows) in footer.group_rows.iter().enumerate() {
                if groups.is_empty() && skipped + rows <= start.row {
                    skipped += rows;
                } else {
                    groups.push(group);
                }
            }
            let leaves = 0..metadata.parquet_schema().num_columns();
            let leaves: Vec<usize> = leaves.filter(|leaf| mask.leaf_included(*leaf)).collect();
            let mut groups = Groups {
                file: open,
                metadata: metadata.metadata().clone(),
                groups,
                columns: leaves.len(),
                bytes: 0,
            };
            groups.bytes = leaves
                .iter()
                .fold(0, |sum, leaf| groups.bytes_of(*leaf).saturating_add(sum));
            // Fewer rows than a row group has, and than a block has.
            let passed = (start.row - skipped) as usize;
            let rows = groups.num_rows();
            let selection = (passed > 0).then(|| {
                RowSelection::from(vec![
                    RowSelector::skip(passed),
                    RowSelector::select(rows.saturating_sub(passed)),
                ])
            });
            let types = types_of_roots(metadata, footer);
            let levels = parquet_to_arrow_field_levels(metadata.parquet_schema(), mask, Some(&types))?;
            let batch_rows = (start.block_rows as usize).min(rows);
            ParquetRecordBatchReader::try_new_with_row_groups(&levels, &groups, batch_rows, selection)
        };
        let reader = guarded(build).map_err(|cause| damaged(shown, start.row, cause))?;
        Ok(Self { reader, rest: None })
    }

    /// The next `rows` rows of the file `shown`, the first of which is `row` (from 0).
    fn read(&mut self, rows: usize, shown: &str, row: u64) -> Result<RecordBatch> {
        let mut parts: Vec<RecordBatch> = Vec::new();
        let mut have = 0;
        loop {
            let mut part = match self.rest.take() {
                Some(rest) => rest,
                None => guarded(|| self.reader.next().transpose())
                    .map_err(|cause| damaged(shown, row, cause))?
                    .ok_or_else(|| damaged(shown, row, "there are fewer rows than the footer says"))?,
            };
            // The reader may stop short of a block or, were it to go on after that, beyond its end.
            let missing = rows - have;
            if part.num_rows() > missing {
                self.rest = Some(part.slice(missing, part.num_rows() - missing));
                part = part.slice(0, missing);
            }
            have += part.num_rows();
            if have == rows && parts.is_empty() {
                return Ok(part);
            }
            let schema = part.schema();
            parts.push(part);
            if have == rows {
                return concat_batches(&schema, &parts).map_err(|cause| damaged(shown, row, cause));
            }
        }
    }
}

/// How each root of the Parquet schema is read: a group without a column, which Arrow leaves out, as nothing.
fn types_of_roots(metadata: &ArrowReaderMetadata, footer: &Footer) -> Fields {
    let mut fields = footer.roots.iter().zip(metadata.schema().fields()).peekable();
    let roots = metadata.parquet_schema().root_schema().get_fields();
    let types = roots.iter().enumerate().map(|(root, nothing)| {
        match fields.next_if(|(of_field, _)| **of_field == root) {
            Some((_, field)) => field.clone(),
            None => Arc::new(Field::new(
                nothing.name(),
                DataType::Struct(Fields::empty()),
                true,
            )),
        }
    });
    types.collect()
}
