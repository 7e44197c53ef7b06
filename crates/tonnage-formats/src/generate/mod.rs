//! Rows made up by rule: the workloads that loads are tried and measured with.
//!
//! Invariants: a row is a pure function of (workload, seed, row number), so a batch can be made from any row,
//! by any thread, and is the same on every platform and in every release; nothing here reads a clock, the
//! environment or a file; and memory is one batch.

use std::{fmt, str::FromStr, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, StringArray},
    buffer::{OffsetBuffer, ScalarBuffer},
    datatypes::{Schema, SchemaRef},
};
use serde::{Deserialize, Serialize};
use tonnage_core::{
    error::{Error, Result},
    table::{ColumnSpec, nearest},
    types::ColumnType,
};

mod journal;
mod produce;
pub mod random;
pub mod readings;
mod sbtest;
mod wide;
pub mod ycsb;

pub use produce::{Generated, Generation, write};

/// The most rows of one batch.
pub const BATCH_ROWS_MAX: usize = 1 << 20;

/// A kind of row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// General-ledger lines: few columns, and 25 fields of JSON.
    Journal,
    /// Sysbench's table: two integers and two texts of fixed width.
    Sbtest,
    /// Records of the Yahoo! Cloud Serving Benchmark: a key and ten fields of 100 characters.
    Ycsb,
    /// Measurements of a fleet of devices: many types, and nulls.
    Readings,
}

/// What is known of a workload; the list of these is all there is to register.
struct Definition {
    workload: Workload,
    name: &'static str,
    about: &'static str,
    columns: &'static [(&'static str, ColumnType, Nullable)],
    key: &'static [&'static str],
    rows_max: Option<u64>,
    /// A batch of about a megabyte or two: large enough to hide its cost, small enough for a processor's
    /// cache.
    batch_rows: usize,
    arrays: fn(seed: u64, first_row: u64, rows: usize) -> Vec<ArrayRef>,
}

/// Whether a column has nulls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nullable {
    Yes,
    No,
}

/// In the order of the enum, which [`Workload::definition`] relies on.
const WORKLOADS: &[Definition] = &[
    Definition {
        workload: Workload::Journal,
        name: "journal",
        about: "general-ledger lines, mostly a JSON document of 25 fields; 1,340 bytes a row",
        columns: journal::COLUMNS,
        key: &["id"],
        rows_max: None,
        batch_rows: 1_024,
        arrays: journal::arrays,
    },
    Definition {
        workload: Workload::Sbtest,
        name: "sbtest",
        about: "sysbench's sbtest1: id from 1, k, c char(120), pad char(60); 190 bytes a row",
        columns: sbtest::COLUMNS,
        key: &["id"],
        rows_max: Some(i32::MAX as u64),
        batch_rows: 8_192,
        arrays: sbtest::arrays,
    },
    Definition {
        workload: Workload::Ycsb,
        name: "ycsb",
        about: "YCSB records: a hashed key and ten fields of 100 characters; 1 KB a row",
        columns: ycsb::COLUMNS,
        key: &["key"],
        rows_max: None,
        batch_rows: 1_024,
        arrays: ycsb::arrays,
    },
    Definition {
        workload: Workload::Readings,
        name: "readings",
        about: "measurements of 1,000 devices: time, place, numbers, a decimal, nulls; 90 bytes a row",
        columns: readings::COLUMNS,
        key: &["device", "ts"],
        rows_max: Some(readings::ROWS_MAX),
        batch_rows: 8_192,
        arrays: readings::arrays,
    },
];

impl Workload {
    /// All of them.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        WORKLOADS.iter().map(|d| d.workload)
    }

    fn definition(&self) -> &'static Definition {
        &WORKLOADS[*self as usize]
    }

    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        self.definition().name
    }

    /// What its rows are, in one line.
    pub fn about(&self) -> &'static str {
        self.definition().about
    }

    /// The columns of a table for it.
    pub fn columns(&self) -> Vec<ColumnSpec> {
        let columns = self.definition().columns.iter();
        columns
            .map(|(name, ty, nullable)| ColumnSpec {
                name: (*name).to_owned(),
                ty: *ty,
                nullable: *nullable == Nullable::Yes,
            })
            .collect()
    }

    /// The columns that no two rows share; a primary key for a table of it.
    pub fn key(&self) -> &'static [&'static str] {
        self.definition().key
    }

    /// The column of its time, which goes on with the rows; none where it has none.
    pub fn time(&self) -> Option<&'static str> {
        match self {
            Self::Journal | Self::Readings => Some("ts"),
            Self::Sbtest | Self::Ycsb => None,
        }
    }

    /// Where its rows end, if a column's type ends before the row numbers do.
    pub fn rows_max(&self) -> Option<u64> {
        self.definition().rows_max
    }

    /// A good size of batch, in rows.
    pub fn batch_rows(&self) -> usize {
        self.definition().batch_rows
    }

    /// Its Arrow schema; fields are made by [`ColumnType::field`].
    pub fn schema(&self) -> SchemaRef {
        let columns = self.definition().columns.iter();
        let fields = columns.map(|(name, ty, nullable)| ty.field(name, *nullable == Nullable::Yes));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// The rows from number `first_row` (from 0) on. A batch has fewer than `rows` rows only where
    /// [`BATCH_ROWS_MAX`] or [`Workload::rows_max`] is in the way.
    pub fn batch(&self, seed: u64, first_row: u64, rows: usize) -> RecordBatch {
        let left = self.rows_max().unwrap_or(u64::MAX).saturating_sub(first_row);
        let rows = rows
            .min(BATCH_ROWS_MAX)
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let arrays = (self.definition().arrays)(seed, first_row, rows);
        RecordBatch::try_new(self.schema(), arrays).expect("a workload's arrays are those of its schema")
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(found) = WORKLOADS.iter().find(|d| d.name.eq_ignore_ascii_case(text)) {
            return Ok(found.workload);
        }
        let names: Vec<_> = WORKLOADS.iter().map(|d| d.name).collect();
        let hint = match nearest(text, names.iter().copied()).first() {
            Some(name) => format!("did you mean {name}?"),
            None => format!("workloads are {}", names.join(", ")),
        };
        Err(Error::config(format!("unknown workload '{text}'")).hint(hint))
    }
}

/// A text column being written: bytes and where each value ends.
struct TextColumn {
    bytes: Vec<u8>,
    offsets: Vec<i32>,
}

impl TextColumn {
    /// Room for `rows` values of about `value_bytes` each.
    fn with_capacity(rows: usize, value_bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self {
            bytes: Vec::with_capacity(rows * value_bytes),
            offsets,
        }
    }

    /// Ends a value. A batch of [`BATCH_ROWS_MAX`] rows of the longest value here, 1.3 KB, stays below 2^31
    /// bytes.
    fn end(&mut self) {
        self.offsets.push(self.bytes.len() as i32);
    }

    fn finish(self) -> ArrayRef {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let array = StringArray::try_new(offsets, self.bytes.into(), None).expect("generated text is ASCII");
        Arc::new(array)
    }
}

/// A text column that holds one value in every row.
fn constant_text(value: &str, rows: usize) -> ArrayRef {
    let mut column = TextColumn::with_capacity(rows, value.len());
    for _ in 0..rows {
        column.bytes.extend_from_slice(value.as_bytes());
        column.end();
    }
    column.finish()
}

#[cfg(test)]
mod tests;
