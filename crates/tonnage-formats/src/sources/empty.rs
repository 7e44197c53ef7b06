//! A source without rows that tells no columns, as a file of JSON lines without a line does: it has those of the table
//! that it goes to, so that what unloads can be loaded.

use arrow::datatypes::DataType;
use tonnage_core::{
    error::{Error, Result},
    extent::Extent,
    ledger::InputIdentity,
    reader::BeyondArrow,
    slot::BlockMark,
    source::{Block, ReadRequest, Source, SourceColumn, SourceSchema, SourceTableInfo},
};

/// Nothing, for any columns.
struct Empty {
    inner: Box<dyn Source>,
    schema: SourceSchema,
}

/// `source`, or where it has no columns, since it has no rows, the same with `columns`.
pub fn with_columns(source: Box<dyn Source>, columns: impl IntoIterator<Item = String>) -> Box<dyn Source> {
    let known = source.schema();
    if !known.text || !known.columns.is_empty() {
        return source;
    }
    let columns = columns.into_iter().map(|name| SourceColumn {
        beyond_arrow: BeyondArrow::Refused,
        name,
        arrow: DataType::Utf8,
        suggested: None,
        nullable: true,
        null_word: None,
    });
    let schema = SourceSchema {
        columns: columns.collect(),
        named: true,
        ..known.clone()
    };
    Box::new(Empty {
        inner: source,
        schema,
    })
}

impl Source for Empty {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        self.inner.identity()
    }

    fn not_rereadable(&self) -> &'static str {
        self.inner.not_rereadable()
    }

    fn extents(&self) -> &[Extent] {
        self.inner.extents()
    }

    fn table_info(&self) -> Option<&SourceTableInfo> {
        self.inner.table_info()
    }

    fn options(&self) -> Vec<String> {
        self.inner.options()
    }

    fn remarks(&self) -> Vec<String> {
        self.inner.remarks()
    }

    fn bytes_total(&self) -> Option<u64> {
        self.inner.bytes_total()
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        self.inner.request(&ReadRequest {
            columns: Vec::new(),
            ..request.clone()
        })
    }

    fn seek(&mut self, index: u64, mark: &BlockMark) -> Result<()> {
        self.inner.seek(index, mark)
    }

    fn next(&mut self) -> Result<Option<Block>> {
        match self.inner.next()? {
            None => Ok(None),
            Some(block) => Err(Error::input(format!(
                "{}: rows follow where the first input has none to tell their columns",
                block.origin.file
            ))
            .hint("name an input with rows first, or leave the empty one out")),
        }
    }
}
