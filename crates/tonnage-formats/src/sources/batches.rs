//! Batches that are in memory, or made one after another.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{Field, SchemaRef},
};
use tonnage_core::{
    convert::schema_of_batches,
    error::{Error, Result, arrow_bug},
    extent::Extent,
    ledger::InputIdentity,
    reader::BeyondArrow,
    slot::BlockMark,
    source::{Block, BlockCounter, PIPE, ReadRequest, Source, SourceSchema, SourceTableInfo},
};

/// What an iterator of batches yields: batches, or results where making one may fail.
pub trait MaybeBatch {
    /// The batch, or why there is none.
    fn batch(self) -> Result<RecordBatch>;
}

impl MaybeBatch for RecordBatch {
    fn batch(self) -> Result<RecordBatch> {
        Ok(self)
    }
}

impl MaybeBatch for Result<RecordBatch> {
    fn batch(self) -> Result<RecordBatch> {
        self
    }
}

/// Yields the rows of batches of one schema. It cannot be read again, so a load of it cannot be resumed.
pub struct BatchSource<I> {
    schema: SourceSchema,
    arrow: SchemaRef,
    batches: I,
    /// Why it cannot be read again.
    not_rereadable: &'static str,
    columns: Vec<usize>,
    block_rows: usize,
    /// What is left of a batch that is longer than a block.
    rest: Option<RecordBatch>,
    blocks: BlockCounter,
}

impl<I: Iterator<Item: MaybeBatch> + Send> BatchSource<I> {
    /// Of batches of `schema`; messages call it `shown`. An error that the iterator yields ends it.
    pub fn new(shown: &str, schema: SchemaRef, batches: I) -> Self {
        Self {
            schema: schema_of_batches(shown, &schema),
            arrow: schema,
            batches,
            not_rereadable: PIPE,
            columns: Vec::new(),
            block_rows: usize::MAX,
            rest: None,
            blocks: BlockCounter::default(),
        }
    }

    /// Why it cannot be read again, as [`Source::not_rereadable`] has it; if it is not said, [`PIPE`].
    #[must_use]
    pub fn not_rereadable(mut self, why: &'static str) -> Self {
        self.not_rereadable = why;
        self
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

impl<I: Iterator<Item: MaybeBatch> + Send> Source for BatchSource<I> {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        None
    }

    fn not_rereadable(&self) -> &'static str {
        self.not_rereadable
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
            let next = self.rest.take().map(Ok);
            match next.or_else(|| self.batches.next().map(MaybeBatch::batch)) {
                None => return Ok(None),
                Some(batch) => {
                    let batch = batch?;
                    if batch.num_rows() > 0 {
                        break batch;
                    }
                }
            }
        };
        let is_same = |(at, field): (usize, &Arc<Field>)| {
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
        let rows = batch.slice(0, rows).project(&self.columns).map_err(arrow_bug)?;
        let bytes = rows.get_array_memory_size() as u64;
        Ok(Some(self.blocks.block(&self.schema.shown, rows, bytes)))
    }
}
