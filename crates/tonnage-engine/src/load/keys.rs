//! The keys of a write's rows: which rows a later one replaces, and how far keys differ from each other.

use std::collections::HashSet;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, UInt32Array},
    buffer::NullBuffer,
    compute::take_record_batch,
    row::{RowConverter, Rows},
};
use tonnage_core::error::{Result, arrow_bug};

/// The keys of a write's rows. A key with a null equals none, not even itself.
pub(super) struct Keys {
    rows: Rows,
    nulls: Option<NullBuffer>,
}

impl Keys {
    /// The keys that the columns at `key_at` make up.
    pub fn of(converter: &RowConverter, rows: &RecordBatch, key_at: &[usize]) -> Result<Self> {
        let columns: Vec<ArrayRef> = key_at.iter().map(|at| rows.column(*at).clone()).collect();
        let nulls = columns
            .iter()
            .fold(None, |nulls, c| NullBuffer::union(nulls.as_ref(), c.nulls()));
        Ok(Self {
            rows: converter.convert_columns(&columns).map_err(arrow_bug)?,
            nulls,
        })
    }

    fn whole(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    /// The rows whose key comes again later, in ascending order.
    pub fn superseded(&self) -> Vec<usize> {
        let mut seen = HashSet::with_capacity(self.rows.num_rows());
        let mut found: Vec<usize> = (0..self.rows.num_rows())
            .rev()
            .filter(|row| self.whole(*row) && !seen.insert(self.rows.row(*row)))
            .collect();
        found.reverse();
        found
    }

    /// How many of `rows` rows from `first` on have keys that differ from each other; at least 1.
    pub fn distinct(&self, first: usize, rows: usize) -> usize {
        let mut seen = HashSet::with_capacity(rows);
        let differs = |row: &usize| !self.whole(*row) || seen.insert(self.rows.row(*row));
        (first..first + rows).take_while(differs).count().max(1)
    }
}

/// The batch without `gone`, which ascends.
pub(super) fn without(rows: &RecordBatch, gone: &[usize]) -> Result<RecordBatch> {
    let mut gone = gone.iter().peekable();
    let kept: Vec<u32> = (0..rows.num_rows())
        .filter(|row| match gone.peek() {
            Some(next) if **next == *row => {
                gone.next();
                false
            }
            _ => true,
        })
        .map(|row| row as u32)
        .collect();
    take_record_batch(rows, &UInt32Array::from(kept)).map_err(arrow_bug)
}
