//! Rows on their way: one at a time as JSON, or many as an Arrow batch.

use std::{sync::Arc, time::Instant};

use arrow::array::{Array, RecordBatch};
use tonnage_formats::row::Row;

/// Single rows are gathered in chunks of about this many bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// Memory that a chunk takes in addition to its rows, about.
const CHUNK_OVERHEAD_BYTES: usize = 256;
/// Memory that a column of a batch takes in addition to its values: a few pieces that are padded, and its name.
const COLUMN_OVERHEAD_BYTES: usize = 512;
/// Memory that a row takes in addition to its text.
const ROW_OVERHEAD_BYTES: usize = 4;

/// Rows with consecutive sequence numbers.
#[derive(Debug)]
pub struct Chunk {
    /// The sequence number of the first one.
    pub first: u64,
    /// When it was taken.
    pub born: Instant,
    /// The rows.
    pub rows: Rows,
    /// Whose rows they are, where that makes them idempotent: producer, and its own number of the first one.
    pub tag: Option<(Arc<str>, u64)>,
}

/// The rows of a chunk.
#[derive(Debug, Clone)]
pub enum Rows {
    /// Objects one after another, and where each ends.
    Json {
        /// Their text.
        text: Vec<u8>,
        /// Where each ends.
        ends: Vec<u32>,
    },
    /// Columns by name.
    Arrow(RecordBatch),
}

impl Rows {
    /// One row.
    pub fn one(row: &Row) -> Self {
        Self::Json {
            text: row.text().to_vec(),
            ends: vec![row.text().len() as u32],
        }
    }

    /// Memory that one row takes in addition to its text, at most.
    pub fn one_overhead_bytes() -> usize {
        CHUNK_OVERHEAD_BYTES + ROW_OVERHEAD_BYTES
    }

    /// No objects yet, for [`Rows::push`].
    pub fn texts() -> Self {
        Self::Json {
            text: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Appends the text of an object, taken as it is; text that is none makes a row that is put aside when its turn comes.
    /// False where they are a batch, or would come to more than 4 GiB.
    pub fn push(&mut self, object: &[u8]) -> bool {
        let Self::Json { text, ends } = self else {
            return false;
        };
        let Ok(end) = u32::try_from(text.len() + object.len()) else {
            return false;
        };
        text.extend_from_slice(object);
        ends.push(end);
        true
    }

    /// How many they are.
    pub fn count(&self) -> u64 {
        match self {
            Self::Json { ends, .. } => ends.len() as u64,
            Self::Arrow(batch) => batch.num_rows() as u64,
        }
    }

    /// Without the first `rows`, which are fewer than there are.
    pub fn tail(self, rows: usize) -> Self {
        match self {
            Self::Arrow(batch) => Self::Arrow(batch.slice(rows, batch.num_rows() - rows)),
            Self::Json { text, ends } => {
                let start = ends[rows - 1];
                Self::Json {
                    text: text[start as usize..].to_vec(),
                    ends: ends[rows..].iter().map(|end| end - start).collect(),
                }
            }
        }
    }

    /// Memory that they take, about.
    pub fn bytes(&self) -> usize {
        CHUNK_OVERHEAD_BYTES
            + match self {
                Self::Json { text, ends } => text.len() + ends.len() * ROW_OVERHEAD_BYTES,
                Self::Arrow(batch) => batch_bytes(batch) + batch.num_columns() * COLUMN_OVERHEAD_BYTES,
            }
    }
}

/// Memory that the rows of a batch take; a slice counts its own rows only.
fn batch_bytes(batch: &RecordBatch) -> usize {
    let column = |array: &Arc<dyn Array>| {
        let whole = array.get_array_memory_size();
        array.to_data().get_slice_memory_size().unwrap_or(whole)
    };
    batch.columns().iter().map(column).sum()
}

impl Chunk {
    /// The sequence number of the last row.
    pub fn last(&self) -> u64 {
        self.first + self.rows.count() - 1
    }

    /// The rows behind row `position`; none where there are none.
    pub fn after(self, position: u64) -> Option<Self> {
        let last = self.last();
        if position < self.first || position >= last {
            return (position < self.first).then_some(self);
        }
        let before = position + 1 - self.first;
        Some(Self {
            first: position + 1,
            born: self.born,
            rows: self.rows.tail(before as usize),
            tag: self.tag.map(|(name, first)| (name, first + before)),
        })
    }

    /// Memory that it takes, about; its frame in the journal takes no more where its rows are objects.
    pub fn bytes(&self) -> usize {
        self.rows.bytes() + self.tag.as_ref().map_or(0, |(name, _)| name.len())
    }

    /// Whether `row`, the next one, belongs here too; `tag` says whose it is, and its own number.
    pub fn takes(&self, row: &Row, tag: Option<(&Arc<str>, u64)>) -> bool {
        let goes_on = match (&self.tag, tag) {
            (None, None) => true,
            (Some((of, first)), Some((name, number))) => of == name && first + self.rows.count() == number,
            _ => false,
        };
        match &self.rows {
            Rows::Json { text, .. } => goes_on && text.len() + row.text().len() <= CHUNK_BYTES,
            Rows::Arrow(_) => false,
        }
    }

    /// Appends `row`; returns the bytes by which it grows. Only where it [takes](Chunk::takes) it.
    pub fn push(&mut self, row: &Row) -> usize {
        if let Rows::Json { text, ends } = &mut self.rows {
            text.extend_from_slice(row.text());
            ends.push(text.len() as u32);
        }
        row.text().len() + ROW_OVERHEAD_BYTES
    }
}
