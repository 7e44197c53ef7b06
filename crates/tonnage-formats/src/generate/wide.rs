//! Workloads with another number of columns than their own.
//!
//! Invariants: the first columns are the workload's own, with the values that they always have, as many as fit; the
//! others follow by rule, so that a row of fewer columns is the front of one of more.

use std::{ops::RangeInclusive, sync::Arc};

use arrow::{
    array::{ArrayRef, Float64Array, RecordBatch},
    datatypes::{Schema, SchemaRef},
};
use tonnage_core::{table::ColumnSpec, types::ColumnType};

use super::{
    BATCH_ROWS_MAX, Workload,
    random::{Random, base},
    ycsb,
};

/// Columns that any database of many has at most: PostgreSQL's limit, the highest of those with a fixed one.
const COLUMNS_MAX: usize = 1_600;

/// The stream of random numbers that the channels of `readings` take.
const STREAM_CHANNEL: u64 = 0x7265_6164_696e_6735;
/// Hundredths that a channel measures, at most, up or down.
const CHANNEL_REACH: u64 = 100_000;

impl Workload {
    /// How many columns it can be asked for; none where those that it has are all that it can have. Records of
    /// [`Workload::Ycsb`] get more or fewer fields, devices of [`Workload::Readings`] more channels, a number each.
    pub fn widths(&self) -> Option<RangeInclusive<usize>> {
        match self {
            Self::Ycsb => Some(2..=COLUMNS_MAX),
            Self::Readings => Some(self.key().len() + 1..=COLUMNS_MAX),
            Self::Journal | Self::Sbtest => None,
        }
    }

    /// The columns of a table for rows of so many; of its own where none are asked for, or it [cannot have
    /// them](Workload::widths).
    pub fn columns_of(&self, columns: Option<usize>) -> Vec<ColumnSpec> {
        let mut all = self.columns();
        let Some(wanted) = self.width(columns) else {
            return all;
        };
        let own = all.len();
        all.truncate(wanted);
        all.extend((own..wanted).map(|at| match self {
            Self::Ycsb => ColumnSpec {
                name: format!("field{}", at - 1),
                ty: ycsb::FIELD,
                nullable: false,
            },
            _ => ColumnSpec {
                name: format!("channel{}", at - own),
                ty: ColumnType::Float64,
                nullable: false,
            },
        }));
        all
    }

    /// The Arrow schema of rows of so many columns.
    pub fn schema_of(&self, columns: Option<usize>) -> SchemaRef {
        let columns = self.columns_of(columns);
        let fields = columns
            .iter()
            .map(|column| column.ty.field(&column.name, column.nullable));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// As [`Workload::batch`], with so many columns.
    pub fn batch_of(&self, columns: Option<usize>, seed: u64, first_row: u64, rows: usize) -> RecordBatch {
        let Some(wanted) = self.width(columns) else {
            return self.batch(seed, first_row, rows);
        };
        let left = self.rows_max().unwrap_or(u64::MAX).saturating_sub(first_row);
        let rows = rows
            .min(BATCH_ROWS_MAX)
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let arrays = match self {
            Self::Ycsb => ycsb::records(wanted - 1, seed, first_row, rows),
            _ => {
                let mut arrays = self.batch(seed, first_row, rows).columns().to_vec();
                arrays.truncate(wanted);
                let own = arrays.len();
                arrays.extend(channels(wanted - own, seed, first_row, rows));
                arrays
            }
        };
        RecordBatch::try_new(self.schema_of(columns), arrays)
            .expect("a workload's arrays are those of its schema")
    }

    /// The columns that it will have; none for its own.
    fn width(&self, columns: Option<usize>) -> Option<usize> {
        columns.filter(|wanted| self.widths().is_some_and(|widths| widths.contains(wanted)))
    }
}

/// What so many channels measured, each by itself.
fn channels(count: usize, seed: u64, first_row: u64, rows: usize) -> Vec<ArrayRef> {
    let base = base(seed, STREAM_CHANNEL);
    let mut channels: Vec<Vec<f64>> = (0..count).map(|_| Vec::with_capacity(rows)).collect();
    for row in first_row..first_row.saturating_add(rows as u64) {
        let mut random = Random::of_row(base, row);
        for channel in &mut channels {
            let hundredths = random.below(2 * CHANNEL_REACH + 1) as i64 - CHANNEL_REACH as i64;
            channel.push(hundredths as f64 / 100.0);
        }
    }
    let array = |channel| Arc::new(Float64Array::from(channel)) as ArrayRef;
    channels.into_iter().map(array).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_columns_are_the_front_of_more() {
        for workload in [Workload::Ycsb, Workload::Readings] {
            let own = workload.columns().len();
            let wide = workload.batch_of(Some(500), 1, 40, 30);
            assert_eq!((wide.num_columns(), wide.num_rows()), (500, 30), "{workload}");
            for columns in [own, 3, 17] {
                let some = workload.batch_of(Some(columns), 1, 40, 30);
                assert_eq!(some.columns(), &wide.columns()[..columns], "{workload} {columns}");
                assert_eq!(some.schema(), workload.schema_of(Some(columns)));
            }
            let usual = workload.batch(1, 40, 30);
            assert_eq!(workload.batch_of(Some(own), 1, 40, 30), usual, "{workload}");
            assert_eq!(workload.batch_of(None, 1, 40, 30), usual, "{workload}");
            // Any row is the same wherever a batch begins.
            let tail = workload.batch_of(Some(500), 1, 60, 10);
            assert_eq!(tail, wide.slice(20, 10), "{workload}");
        }
        assert_eq!(Workload::Sbtest.widths(), None);
        assert_eq!(
            Workload::Sbtest.batch_of(Some(9), 1, 0, 2),
            Workload::Sbtest.batch(1, 0, 2)
        );
    }
}
