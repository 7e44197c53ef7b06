//! Batches that are in memory, or made one after another.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, UInt32Array},
    datatypes::SchemaRef,
};
use tonnage_core::{
    convert::suggested,
    error::{Error, Result},
    extent::Extent,
    ledger::InputIdentity,
    reader::BeyondArrow,
    slot::BlockMark,
    source::{Block, Origin, PIPE, ReadRequest, Source, SourceColumn, SourceSchema, SourceTableInfo},
};

/// Yields the rows of batches of one schema. It cannot be read again, so a load of it cannot be resumed.
pub struct BatchSource<I> {
    schema: SourceSchema,
    arrow: SchemaRef,
    batches: I,
    columns: Vec<usize>,
    block_rows: usize,
    /// What is left of a batch that is longer than a block.
    rest: Option<RecordBatch>,
    index: u64,
    at: BlockMark,
}

impl<I: Iterator<Item = RecordBatch> + Send> BatchSource<I> {
    /// Of batches of `schema`; messages call it `shown`.
    pub fn new(shown: &str, schema: SchemaRef, batches: I) -> Self {
        let columns = schema.fields().iter().map(|field| SourceColumn {
            beyond_arrow: BeyondArrow::Refused,
            null_word: None,
            name: field.name().clone(),
            arrow: field.data_type().clone(),
            suggested: suggested(field),
            nullable: field.is_nullable(),
        });
        Self {
            schema: SourceSchema {
                shown: shown.into(),
                columns: columns.collect(),
                named: true,
                text: false,
                header: false,
                notes: Vec::new(),
            },
            arrow: schema,
            batches,
            columns: Vec::new(),
            block_rows: usize::MAX,
            rest: None,
            index: 0,
            at: BlockMark::default(),
        }
    }

    /// What numbers far outside the calendar are in its dates and timestamps: [`BeyondArrow::Carried`] where the batches
    /// come of text, or of a database's reader that carries them. If it is not said, [`BeyondArrow::Refused`].
    #[must_use]
    pub fn beyond_arrow(mut self, beyond_arrow: BeyondArrow) -> Self {
        for column in &mut self.schema.columns {
            column.beyond_arrow = beyond_arrow;
        }
        self
    }

    /// The names of its columns mean nothing: they are matched by position.
    #[must_use]
    pub fn unnamed(mut self) -> Self {
        self.schema.named = false;
        self
    }
}

impl<I: Iterator<Item = RecordBatch> + Send> Source for BatchSource<I> {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        None
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
        Vec::new()
    }

    fn bytes_total(&self) -> Option<u64> {
        None
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        self.columns = request.columns.iter().map(|(at, _)| *at).collect();
        // The rows of a block are numbered with 32 bits.
        self.block_rows = request.block_rows.clamp(1, u32::MAX as usize);
        Ok(())
    }

    fn seek(&mut self, _: u64, _: &BlockMark) -> Result<()> {
        Err(Error::input(format!(
            "{} cannot be read again",
            self.schema.shown
        )))
    }

    fn next(&mut self) -> Result<Option<Block>> {
        let batch = loop {
            match self.rest.take().or_else(|| self.batches.next()) {
                None => return Ok(None),
                Some(batch) if batch.num_rows() > 0 => break batch,
                Some(_) => {}
            }
        };
        let is_same = |(at, field): (usize, &Arc<arrow::datatypes::Field>)| {
            batch.schema_ref().fields().get(at).map(|f| f.data_type()) == Some(field.data_type())
        };
        if !self.arrow.fields().iter().enumerate().all(is_same) {
            return Err(Error::input(format!(
                "a batch of {} has other columns than the first",
                self.schema.shown
            )));
        }
        let rows = batch.num_rows().min(self.block_rows);
        if rows < batch.num_rows() {
            self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        let rows = batch
            .slice(0, rows)
            .project(&self.columns)
            .map_err(tonnage_core::error::arrow_bug)?;
        let count = rows.num_rows() as u64;
        let start = self.at;
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
                file: self.schema.shown.clone(),
                first_row: start.file_rows + 1,
                first_offset: None,
                rows: UInt32Array::from_iter_values(0..count as u32),
                offsets: None,
                places: None,
            },
            bytes: rows.get_array_memory_size() as u64,
            rows,
            rejects: Vec::new(),
            start,
            end: self.at,
        }))
    }
}
