//! The seam between the engine and where rows come from.
//!
//! Sources are blocking: parsing is work for a processor, and each runs on a separate thread.

use std::sync::Arc;

use arrow::{
    array::{RecordBatch, UInt32Array},
    datatypes::DataType,
};

use crate::{
    error::Result, extent::Extent, ledger::InputIdentity, reader::BeyondArrow, reject::Reject,
    slot::BlockMark, types::ColumnType,
};

/// A column of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceColumn {
    /// Its name: from the header or schema, else `c1`, `c2` ..
    pub name: String,
    /// The Arrow type it has of itself; for text sources `Utf8`.
    pub arrow: DataType,
    /// The type a table made for it would have: from the schema, or inferred from a bounded sample. `None` where no
    /// table column can carry it.
    pub suggested: Option<ColumnType>,
    /// Whether nulls were seen in the sample or are allowed by the schema.
    pub nullable: bool,
    /// A word of the sample that may mean null (`NA`), and the type that the column would have without it.
    pub null_word: Option<(String, ColumnType)>,
    /// Whether numbers far outside the calendar mean dates that Arrow does not have, as in the batches of a database's
    /// reader that was asked to [carry](BeyondArrow::Carried) them. Elsewhere they are numbers like any others, which no
    /// column of dates takes. Means nothing for text.
    pub beyond_arrow: BeyondArrow,
}

/// What a source holds.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceSchema {
    /// What messages call it: the first file as the user named it.
    pub shown: Arc<str>,
    /// Its columns, in order.
    pub columns: Vec<SourceColumn>,
    /// Whether columns have names of their own; if not they are matched by position.
    pub named: bool,
    /// Whether fields are text that can be read as any type ([`ReadRequest::columns`]).
    pub text: bool,
    /// Whether the names are those of a header, which others may replace.
    pub header: bool,
    /// What was made of the source without being asked for, a sentence each: how it is cut, names that are missing or
    /// repeated.
    pub notes: Vec<String>,
}

/// What is known of the table that rows come from, for a table that is made like it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTableInfo {
    /// The columns of its primary key, in key order; empty for none.
    pub key: Vec<String>,
    /// The columns that take no nulls.
    pub required: Vec<String>,
}

/// How a source is to be read, fixed when a run starts.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadRequest {
    /// The columns wanted, by index, and the type each is to be read as. Text sources yield these types; others yield
    /// their own and leave the conversion to the engine.
    pub columns: Vec<(usize, ColumnType)>,
    /// The most rows of a block.
    pub block_rows: usize,
    /// A block ends with the row that reaches this many source bytes.
    pub block_bytes: usize,
}

/// Where the rows of a batch came from; survives filter, sort and split.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// Row of the file, from 1 (a header is not a row), for row 0 of the block; the rest are offsets from it.
    pub first_row: u64,
    /// Byte offset in the file where the block begins, for formats that have one.
    pub first_offset: Option<u64>,
    /// Row in the file minus `first_row`, one a row of the batch.
    pub rows: UInt32Array,
    /// Byte offset minus `first_offset`, one a row of the batch.
    pub offsets: Option<UInt32Array>,
    /// Where rows that were brought together from many blocks came from: then `rows` are indices into it, and the
    /// other fields mean nothing.
    pub places: Option<Arc<Places>>,
}

/// Places of rows of many blocks, one an index.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// The files that occur.
    pub files: Vec<Arc<str>>,
    /// Index of the file.
    pub file: Vec<u32>,
    /// Row of the file, from 1.
    pub row: Vec<u64>,
    /// Byte offset, for formats that have one.
    pub offset: Vec<Option<u64>>,
}

impl Origin {
    /// The row of the file that row `index` of the batch was, from 1.
    pub fn row(&self, index: usize) -> u64 {
        let value = self.rows.value(index);
        match &self.places {
            Some(places) => places.row[value as usize],
            None => self.first_row + u64::from(value),
        }
    }

    /// The file it was in.
    pub fn file(&self, index: usize) -> Arc<str> {
        match &self.places {
            Some(places) => places.files[places.file[self.rows.value(index) as usize] as usize].clone(),
            None => self.file.clone(),
        }
    }

    /// Its byte offset, for formats that have one.
    pub fn offset(&self, index: usize) -> Option<u64> {
        if let Some(places) = &self.places {
            return places.offset[self.rows.value(index) as usize];
        }
        let offsets = self.offsets.as_ref()?;
        Some(self.first_offset? + u64::from(offsets.value(index)))
    }
}

/// A fixed slice of the source.
#[derive(Debug)]
pub struct Block {
    /// Its number in the source, from 0.
    pub index: u64,
    /// Its good rows: the requested columns, in the requested order.
    pub rows: RecordBatch,
    /// Where each came from.
    pub origin: Origin,
    /// Rows that could not be read.
    pub rejects: Vec<Reject>,
    /// Where it begins.
    pub start: BlockMark,
    /// Where the next one begins. `end.rows - start.rows == rows.num_rows() + rejects.len()`.
    pub end: BlockMark,
    /// Source bytes it took.
    pub bytes: u64,
}

/// Makes blocks of the rows of a source that has no files, in their order.
#[derive(Debug, Default)]
pub struct BlockCounter {
    index: u64,
    at: BlockMark,
}

impl BlockCounter {
    /// The next block of the source that messages call `shown`: of `rows`, of which there are some and at most as many as 32
    /// bits count, and of `bytes` of the source.
    pub fn block(&mut self, shown: &Arc<str>, rows: RecordBatch, bytes: u64) -> Block {
        let count = rows.num_rows() as u64;
        let start = self.at;
        self.at = BlockMark {
            offset: start.offset + count,
            file_rows: start.file_rows + count,
            rows: start.rows + count,
            ..start
        };
        self.index += 1;
        Block {
            index: self.index - 1,
            origin: Origin {
                file: shown.clone(),
                first_row: start.file_rows + 1,
                first_offset: None,
                rows: UInt32Array::from_iter_values(0..count as u32),
                offsets: None,
                places: None,
            },
            rows,
            rejects: Vec::new(),
            start,
            end: self.at,
            bytes,
        }
    }
}

/// Why files cannot be read again that are none on a disk: for [`Source::not_rereadable`].
pub const PIPE: &str = "the input is a pipe";

/// Yields blocks of rows.
pub trait Source: Send {
    /// Its columns, known at open.
    fn schema(&self) -> &SourceSchema;

    /// Its files; `None` if it cannot be read again (a pipe) and so not be resumed.
    fn identity(&self) -> Option<Vec<InputIdentity>>;

    /// Why it cannot be read again, where it has no identity, for the plan.
    fn not_rereadable(&self) -> &'static str;

    /// What the values need of a type that the columns' types were inferred from, one a column; none where types are
    /// declared.
    fn extents(&self) -> &[Extent];

    /// The table that the rows come from, where they come from one.
    fn table_info(&self) -> Option<&SourceTableInfo>;

    /// Options that decide how it is read, as `name=value` in a fixed order: part of a run's identity.
    fn options(&self) -> Vec<String>;

    /// What is to be known of what has been read so far, a sentence each.
    fn remarks(&self) -> Vec<String>;

    /// Bytes to be read in all, as [`Block::bytes`] counts them, if known: for progress.
    fn bytes_total(&self) -> Option<u64>;

    /// Fixes what is read. Called once, before the first block.
    fn request(&mut self, request: &ReadRequest) -> Result<()>;

    /// Goes to where block `index` begins, forwards or back. `Input` if what lies before has another hash than
    /// `mark`, where `mark` has one.
    fn seek(&mut self, index: u64, mark: &BlockMark) -> Result<()>;

    /// The next block; `None` at the end. A bad row is a reject in its block; an error means that nothing more can be
    /// read. Blocks are never empty of both rows and rejects. The rows of a file that has changed since it was opened are
    /// never handed on.
    fn next(&mut self) -> Result<Option<Block>>;
}
