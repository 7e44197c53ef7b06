//! Rows on their way: one at a time as JSON, or many as an Arrow batch.

use std::{sync::Arc, time::Instant};

use arrow::array::{Array, RecordBatch};
use serde::Serialize;

use crate::{
    error::{Error, ErrorKind, Result},
    sources::json::members,
};

/// Single rows are gathered in chunks of about this many bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// What a chunk takes beside its rows, about.
const CHUNK_OVERHEAD_BYTES: usize = 256;
/// What a column of a batch takes beside its values: a few pieces that are padded, and its name.
const COLUMN_OVERHEAD_BYTES: usize = 512;
/// What a row takes beside its text.
const ROW_OVERHEAD_BYTES: usize = 4;

/// One row: a JSON object whose keys are columns. A key that is missing takes its column's default.
///
/// ```
/// use tonnage::buffer::Row;
///
/// #[derive(serde::Serialize)]
/// struct Reading {
///     device: &'static str,
///     value: f64,
/// }
/// # fn main() -> tonnage::Result<()> {
/// let row = Row::of(&Reading { device: "a7", value: 21.5 })?;
/// assert_eq!(row, Row::json(r#"{"device":"a7","value":21.5}"#));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row(Vec<u8>);

impl Row {
    /// The text of an object, taken as it is. Text that is none makes a row that is put aside when its turn comes.
    pub fn json(text: impl Into<Vec<u8>>) -> Self {
        Self(text.into())
    }

    /// What `value` serialises to. `Rejected` where that cannot be said in JSON.
    pub fn of(value: &impl Serialize) -> Result<Self> {
        serde_json::to_vec(value)
            .map(Self)
            .map_err(|error| Error::new(ErrorKind::Rejected, format!("a row cannot be JSON: {error}")))
    }

    /// Takes a key out of the object: the row without it, and its value as JSON; none where the row has no such key or
    /// is no object, and is left as it was. No other value is touched.
    ///
    /// ```
    /// use tonnage::buffer::Row;
    ///
    /// let (row, number) = Row::json(r#"{"n": 17, "device": "a7", "value": 1.50}"#).without("n");
    /// assert_eq!(row, Row::json(r#"{"device":"a7","value":1.50}"#));
    /// assert_eq!(number.as_deref(), Some("17"));
    /// ```
    pub fn without(self, key: &str) -> (Self, Option<String>) {
        let mut taken = None;
        let mut text = String::with_capacity(self.0.len());
        let is_object = members(&self.0, |name, value| {
            if name == key {
                taken = Some(value.to_owned());
                return;
            }
            text.push(if text.is_empty() { '{' } else { ',' });
            text.push_str(&serde_json::Value::from(name).to_string());
            text.push(':');
            text.push_str(value);
        });
        if !is_object || taken.is_none() {
            return (self, None);
        }
        text.push_str(if text.is_empty() { "{}" } else { "}" });
        (Self(text.into_bytes()), taken)
    }

    /// The value of a key as JSON; none where there is no such key, or the row is no object.
    pub fn value(&self, key: &str) -> Option<String> {
        let mut found = None;
        let is_object = members(&self.0, |name, value| {
            if name == key {
                found = Some(value.to_owned());
            }
        });
        found.filter(|_| is_object)
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.0
    }
}

impl From<serde_json::Value> for Row {
    fn from(value: serde_json::Value) -> Self {
        Self(value.to_string().into_bytes())
    }
}

/// Rows with consecutive sequence numbers.
#[derive(Debug)]
pub(super) struct Chunk {
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
pub(super) enum Rows {
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
            text: row.0.clone(),
            ends: vec![row.0.len() as u32],
        }
    }

    /// Memory that one row takes beside its text, at most.
    pub fn one_overhead_bytes() -> usize {
        CHUNK_OVERHEAD_BYTES + ROW_OVERHEAD_BYTES
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
            Rows::Json { text, .. } => goes_on && text.len() + row.0.len() <= CHUNK_BYTES,
            Rows::Arrow(_) => false,
        }
    }

    /// Appends `row`; returns the bytes by which it grows. Only where it [takes](Chunk::takes) it.
    pub fn push(&mut self, row: &Row) -> usize {
        if let Rows::Json { text, ends } = &mut self.rows {
            text.extend_from_slice(&row.0);
            ends.push(text.len() as u32);
        }
        row.0.len() + ROW_OVERHEAD_BYTES
    }
}
