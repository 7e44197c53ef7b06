//! The rows of a source with the values of their neighbours: every key is there, with the other values of another row. So an
//! update by the source itself changes every row, and whatever holds within a row, or for all of them, holds still.

use arrow::{
    array::{ArrayRef, RecordBatch},
    compute::concat,
};
use tonnage_core::{
    error::{Result, arrow_bug},
    extent::Extent,
    ledger::InputIdentity,
    slot::BlockMark,
    source::{Block, ReadRequest, Source, SourceSchema, SourceTableInfo},
};

/// `rows`, in which all columns but those where `keeps` says so have moved up by a row, the first value to the end.
pub(super) fn rotated(rows: &RecordBatch, keeps: impl Fn(usize) -> bool) -> Result<RecordBatch> {
    let count = rows.num_rows();
    if count < 2 {
        return Ok(rows.clone());
    }
    let moved = |(at, column): (usize, &ArrayRef)| match keeps(at) {
        true => Ok(column.clone()),
        false => concat(&[&*column.slice(1, count - 1), &*column.slice(0, 1)]).map_err(arrow_bug),
    };
    let columns: Vec<ArrayRef> = rows
        .columns()
        .iter()
        .enumerate()
        .map(moved)
        .collect::<Result<_>>()?;
    RecordBatch::try_new(rows.schema(), columns).map_err(arrow_bug)
}

/// A source whose blocks are [`rotated`].
pub(super) struct Rotated {
    source: Box<dyn Source>,
    /// The columns that stay where they are, by name.
    key: Vec<String>,
    /// The same, by place in a block.
    keeps: Vec<bool>,
}

impl Rotated {
    pub(super) fn new(source: Box<dyn Source>, key: &[String]) -> Self {
        Self {
            source,
            key: key.iter().map(|name| name.to_lowercase()).collect(),
            keeps: Vec::new(),
        }
    }
}

impl Source for Rotated {
    fn schema(&self) -> &SourceSchema {
        self.source.schema()
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        None
    }

    fn table_info(&self) -> Option<&SourceTableInfo> {
        self.source.table_info()
    }

    fn not_rereadable(&self) -> &'static str {
        self.source.not_rereadable()
    }

    fn extents(&self) -> &[Extent] {
        self.source.extents()
    }

    fn options(&self) -> Vec<String> {
        self.source.options()
    }

    fn remarks(&self) -> Vec<String> {
        self.source.remarks()
    }

    fn bytes_total(&self) -> Option<u64> {
        self.source.bytes_total()
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        let columns = &self.source.schema().columns;
        let is_key = |(at, _): &(usize, _)| {
            let name = columns.get(*at).map(|column| column.name.to_lowercase());
            name.is_some_and(|name| self.key.contains(&name))
        };
        self.keeps = request.columns.iter().map(is_key).collect();
        self.source.request(request)
    }

    fn seek(&mut self, index: u64, mark: &BlockMark) -> Result<()> {
        self.source.seek(index, mark)
    }

    fn next(&mut self) -> Result<Option<Block>> {
        let Some(block) = self.source.next()? else {
            return Ok(None);
        };
        let keeps = |at: usize| self.keeps.get(at).copied().unwrap_or(true);
        Ok(Some(Block {
            rows: rotated(&block.rows, keeps)?,
            ..block
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{AsArray, Int32Array},
        datatypes::{DataType, Field, Int32Type, Schema},
    };

    use super::*;
    use tonnage_core::types::ColumnType;
    use tonnage_formats::sources::batches::BatchSource;

    #[test]
    fn keys_stay_and_values_move_within_a_block() {
        let schema = Arc::new(Schema::new(vec![
            Field::new("n", DataType::Int32, false),
            Field::new("Id", DataType::Int32, false),
        ]));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![10, 20, 30, 40])),
            Arc::new(Int32Array::from(vec![1, 2, 3, 4])),
        ];
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        let source = BatchSource::new("rows", schema, std::iter::once(batch));
        let mut source = Rotated::new(Box::new(source), &["id".to_owned()]);
        let request = ReadRequest {
            columns: vec![(1, ColumnType::Int32), (0, ColumnType::Int32)],
            block_rows: 3,
            block_bytes: 1_000,
        };
        source.request(&request).unwrap();
        let mut found = Vec::new();
        while let Some(block) = source.next().unwrap() {
            let of = |at| {
                block
                    .rows
                    .column(at)
                    .as_primitive::<Int32Type>()
                    .values()
                    .to_vec()
            };
            found.push((of(0), of(1)));
        }
        assert_eq!(found, [(vec![1, 2, 3], vec![20, 30, 10]), (vec![4], vec![40])]);
    }
}
