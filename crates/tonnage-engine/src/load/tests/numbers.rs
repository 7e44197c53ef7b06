//! A source of numbers, some of which cannot be read.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array},
    datatypes::DataType,
};
use tonnage_core::{
    error::{Error, Result},
    extent::Extent,
    ledger::InputIdentity,
    reader::BeyondArrow,
    reject::{Problem, Reject, RejectData},
    slot::BlockMark,
    source::{Block, Origin, PIPE, ReadRequest, Source, SourceColumn, SourceSchema, SourceTableInfo},
    types::ColumnType,
};

/// Rows `(id, v)` in blocks of `block_rows`; a negative id is a row that cannot be read.
pub struct Numbers {
    schema: SourceSchema,
    rows: Vec<(i64, String)>,
    block_rows: usize,
    next: usize,
    /// Pretend that the file is another one.
    pub changed: bool,
    /// The block at which reading fails.
    pub breaks_at: Option<usize>,
}

impl Numbers {
    pub fn new(rows: Vec<(i64, String)>, block_rows: usize) -> Self {
        let column = |name: &str, arrow: DataType, ty| SourceColumn {
            beyond_arrow: BeyondArrow::Refused,
            name: name.into(),
            arrow,
            suggested: Some(ty),
            nullable: true,
            null_word: None,
        };
        let columns = vec![
            column("id", DataType::Int64, ColumnType::Int64),
            column("v", DataType::Utf8, ColumnType::TEXT),
        ];
        let schema = SourceSchema {
            shown: "rows".into(),
            columns,
            named: true,
            text: true,
            header: false,
            notes: Vec::new(),
        };
        Self {
            schema,
            rows,
            block_rows,
            next: 0,
            changed: false,
            breaks_at: None,
        }
    }

    fn mark(&self, at: usize) -> BlockMark {
        BlockMark {
            file: 0,
            offset: at as u64,
            file_rows: at as u64,
            rows: at as u64,
            hash: at as u64,
        }
    }
}

impl Source for Numbers {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }
    fn identity(&self) -> Option<Vec<InputIdentity>> {
        let bytes = self.rows.len() as u64 + u64::from(self.changed);
        Some(vec![InputIdentity {
            path: "/numbers".into(),
            bytes,
            modified_nanos: 0,
            ..InputIdentity::default()
        }])
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
    fn request(&mut self, _: &ReadRequest) -> Result<()> {
        Ok(())
    }
    fn seek(&mut self, index: u64, mark: &BlockMark) -> Result<()> {
        self.next = index as usize;
        let here = self.mark((self.next * self.block_rows).min(self.rows.len()));
        let hash = if mark.hash == 0 { 0 } else { here.hash };
        assert_eq!(*mark, BlockMark { hash, ..here });
        Ok(())
    }
    fn next(&mut self) -> Result<Option<Block>> {
        if self.breaks_at == Some(self.next) {
            return Err(Error::input("numbers breaks off"));
        }
        let first = self.next * self.block_rows;
        let end = (first + self.block_rows).min(self.rows.len());
        if first >= end {
            return Ok(None);
        }
        let (mut ids, mut values, mut at, mut rejects) = (vec![], vec![], vec![], vec![]);
        for row in first..end {
            let (id, value) = &self.rows[row];
            if *id < 0 {
                rejects.push(Reject {
                    file: "numbers".into(),
                    row: row as u64 + 1,
                    offset: None,
                    problem: Problem {
                        column: None,
                        code: "22P04".into(),
                        message: "unreadable".into(),
                        hint: None,
                    },
                    data: RejectData::Raw(vec![b'?']),
                });
            } else {
                ids.push(*id);
                values.push(value.clone());
                at.push((row - first) as u32);
            }
        }
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("id", Arc::new(Int64Array::from(ids))),
            ("v", Arc::new(StringArray::from(values))),
        ];
        let rows = RecordBatch::try_from_iter(columns).expect("columns are equally long");
        let block = Block {
            index: self.next as u64,
            rows,
            origin: Origin {
                file: "numbers".into(),
                first_row: first as u64 + 1,
                first_offset: None,
                rows: UInt32Array::from(at),
                offsets: None,
                places: None,
            },
            rejects,
            start: self.mark(first),
            end: self.mark(end),
            bytes: 0,
        };
        self.next += 1;
        Ok(Some(block))
    }
}
