//! `--sort full`: the whole source in key order, in bounded memory.
//!
//! Rows are read to the end, converted and sorted ([`Sorter`], [`Plan::sort_bytes_max`]). Rows of equal keys keep their
//! order, so the last of them is still the last. Bad rows come first, in blocks of their own. The result is a
//! [`Source`] whose blocks depend on the input and the plan only, so a resumed run sorts again and skips what was
//! committed.

use std::{collections::VecDeque, sync::Arc};

use arrow::{
    array::{AsArray, RecordBatch, UInt32Array, UInt64Array},
    datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type, UInt64Type},
};
use tonnage_core::{
    error::{Error, ErrorKind, Result, arrow_bug},
    extent::Extent,
    ledger::InputIdentity,
    reject::Reject,
    slot::BlockMark,
    source::{Block, Origin, PIPE, Places, ReadRequest, Source, SourceSchema, SourceTableInfo},
    spill::{Merge, MergedBounds, Sorter},
    stop::Stop,
};

use super::deal::Convert;
use crate::plan::Plan;

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
    files: Vec<Arc<str>>,
    rejects: VecDeque<Reject>,
    merge: Option<Merge>,
    stop: Stop,
    at: BlockMark,
    index: u64,
    rows_total: u64,
    /// The hash of all that was read, and what is to be known of it.
    hash: u64,
    remarks: Vec<String>,
}

impl Sorted {
    /// Sorts what `source`, whose request has been made, yields, unless `stop` asks for the end before.
    pub fn new(source: Box<dyn Source>, plan: Arc<Plan>, convert: Convert, stop: Stop) -> Result<Self> {
        let mut schema = source.schema().clone();
        // Rows come out in the plan's types, as those of a text source do.
        schema.text = true;
        Ok(Self {
            schema,
            identity: source.identity(),
            bytes_total: source.bytes_total(),
            inner: Some(source),
            plan,
            convert,
            files: Vec::new(),
            rejects: VecDeque::new(),
            merge: None,
            stop,
            at: BlockMark::default(),
            index: 0,
            rows_total: 0,
            hash: 0,
            remarks: Vec::new(),
        })
    }

    /// Reads everything and sorts it; afterwards `merge` yields it.
    fn sort(&mut self) -> Result<()> {
        let Some(mut source) = self.inner.take() else {
            return Ok(());
        };
        let schema = self.schema_with_places();
        let mut sorter = Sorter::new(
            schema.clone(),
            self.plan.sort_by.clone(),
            self.plan.sort_bytes_max,
        )?;
        let limit = self.plan.limit.unwrap_or(u64::MAX);
        while let Some(mut block) = source.next()? {
            if self.stop.requested() {
                return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
            }
            super::run::truncate(&mut block, limit);
            let end = block.end.rows;
            self.hash = block.end.hash;
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
                sorter.push(placed).map_err(or_by_block)?;
            }
            if end >= limit {
                break;
            }
        }
        self.remarks = source.remarks();
        self.rows_total = self.rejects.len() as u64;
        let bounds = MergedBounds {
            rows_max: self.plan.block_rows,
            bytes_max: self.plan.block_bytes,
        };
        self.merge = Some(sorter.finish(bounds).map_err(or_by_block)?);
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

    /// The next rows with their places.
    fn rows(&mut self) -> Result<Option<(RecordBatch, Places)>> {
        let Some(merge) = &mut self.merge else {
            return Ok(None);
        };
        let Some(batch) = merge.next_rows()? else {
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

    fn not_rereadable(&self) -> &'static str {
        PIPE
    }

    fn extents(&self) -> &[Extent] {
        &[]
    }

    fn table_info(&self) -> Option<&SourceTableInfo> {
        None
    }

    fn options(&self) -> Vec<String> {
        Vec::new()
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
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
        self.sort()?;
        while self.index < index {
            if self.next()?.is_none() {
                break;
            }
        }
        let same = self.at
            == BlockMark {
                hash: self.at.hash,
                ..*mark
            };
        match same && (mark.hash == 0 || mark.hash == self.hash) {
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
            hash: self.hash,
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

/// What a full sort cannot have may not be needed.
fn or_by_block(error: Error) -> Error {
    match error.hint_text() {
        Some(hint) if error.kind() == ErrorKind::Refused => {
            let hint = format!("{hint}; --sort block needs none");
            error.hint(hint)
        }
        _ => error,
    }
}
