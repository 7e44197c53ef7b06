//! Rows that a program hands over one after another, each an object.

use std::sync::Arc;

use arrow::datatypes::DataType;
use tonnage_core::{
    error::{Error, Result},
    extent::Extent,
    ledger::InputIdentity,
    parse::ParseContext,
    reader::BeyondArrow,
    slot::BlockMark,
    source::{Block, ReadRequest, Source, SourceColumn, SourceSchema, SourceTableInfo},
    types::ColumnType,
};

use super::{
    json::{Names, Objects},
    row::Row,
};

/// Yields rows of named columns. A key that a row lacks is null, one that is no column makes it a bad row. It cannot be
/// read again, so a load of it cannot be resumed.
pub struct RowSource<I: Iterator<Item = Row>> {
    schema: SourceSchema,
    rows: I,
    /// Known once the columns are requested.
    reading: Option<(Objects, ReadRequest)>,
    context: ParseContext,
    index: u64,
    at: BlockMark,
}

impl<I: Iterator<Item = Row> + Send> RowSource<I> {
    /// Of rows with these columns; messages call it `shown`.
    pub fn new<S: Into<String>>(
        shown: &str,
        columns: impl IntoIterator<Item = S>,
        rows: impl IntoIterator<IntoIter = I>,
    ) -> Self {
        let columns = columns.into_iter().map(|name| SourceColumn {
            beyond_arrow: BeyondArrow::Refused,
            name: name.into(),
            arrow: DataType::Utf8,
            suggested: Some(ColumnType::TEXT),
            nullable: true,
            null_word: None,
        });
        Self {
            schema: SourceSchema {
                shown: shown.into(),
                columns: columns.collect(),
                named: true,
                text: true,
                header: false,
                notes: Vec::new(),
            },
            rows: rows.into_iter(),
            reading: None,
            context: ParseContext::default(),
            index: 0,
            at: BlockMark::default(),
        }
    }

    /// Times that carry no zone are of this one.
    #[must_use]
    pub fn context(mut self, context: ParseContext) -> Self {
        self.context = context;
        self
    }
}

impl<I: Iterator<Item = Row> + Send> Source for RowSource<I> {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        None
    }

    fn not_rereadable(&self) -> &'static str {
        "the rows come from the program"
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
        let names = self
            .schema
            .columns
            .iter()
            .map(|column| Arc::from(column.name.as_str()));
        let objects = Objects::new(
            self.schema.shown.clone(),
            Names::new(names.collect()),
            request.clone(),
            self.context.clone(),
        )?;
        self.reading = Some((objects, request.clone()));
        Ok(())
    }

    fn seek(&mut self, _: u64, _: &BlockMark) -> Result<()> {
        Err(Error::input(format!(
            "{} cannot be read again",
            self.schema.shown
        )))
    }

    fn next(&mut self) -> Result<Option<Block>> {
        let Some((objects, request)) = &mut self.reading else {
            return Err(Error::bug("a block was asked for before the columns were"));
        };
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        // The text of a block is addressed with 32 bits.
        let bytes_max = request.block_bytes.min(u32::MAX as usize / 2);
        while ends.len() < request.block_rows && text.len() < bytes_max {
            let Some(row) = self.rows.next() else { break };
            text.extend_from_slice(row.text());
            let end = u32::try_from(text.len());
            ends.push(end.map_err(|_| Error::input(format!("a row of {} is too long", self.schema.shown)))?);
        }
        if ends.is_empty() {
            return Ok(None);
        }
        let start = self.at;
        let parts = objects.read(&text, 0, &ends, start.file_rows + 1)?;
        let count = ends.len() as u64;
        self.at = BlockMark {
            offset: start.offset + text.len() as u64,
            file_rows: start.file_rows + count,
            rows: start.rows + count,
            ..start
        };
        self.index += 1;
        Ok(Some(Block {
            index: self.index - 1,
            rows: parts.rows,
            origin: parts.origin,
            rejects: parts.rejects,
            start,
            end: self.at,
            bytes: text.len() as u64,
        }))
    }
}
