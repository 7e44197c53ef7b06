//! The rows of sysbench's `sbtest1`.
//!
//! As sysbench 1.0 makes them: `id` counts from 1, `k` is a number to be indexed, `c` is ten groups of eleven
//! digits and `pad` five, joined by hyphens: 119 and 59 characters of the 120 and 60 that the columns hold.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array};
use tonnage_core::{digits::push_padded, types::ColumnType};

use super::{
    Nullable, TextColumn,
    random::{Random, base},
};

pub(super) const COLUMNS: &[(&str, ColumnType, Nullable)] = &[
    ("id", ColumnType::Int32, Nullable::No),
    ("k", ColumnType::Int32, Nullable::No),
    ("c", ColumnType::Char { chars: 120 }, Nullable::No),
    ("pad", ColumnType::Char { chars: 60 }, Nullable::No),
];

/// `k` lies between 1 and this. Sysbench takes the table's row count, which a row here cannot know; ten
/// million is the size of table it is commonly run with.
const K_MAX: u64 = 10_000_000;

/// The stream of random numbers that is this workload's own.
const STREAM: u64 = 0x7362_7465_7374;

pub(super) fn arrays(seed: u64, first_row: u64, rows: usize) -> Vec<ArrayRef> {
    let base = base(seed, STREAM);
    let mut id = Vec::with_capacity(rows);
    let mut k = Vec::with_capacity(rows);
    let mut c = TextColumn::with_capacity(rows, 119);
    let mut pad = TextColumn::with_capacity(rows, 59);
    for row in first_row..first_row + rows as u64 {
        let mut random = Random::of_row(base, row);
        id.push((row + 1) as i32);
        k.push((random.below(K_MAX) + 1) as i32);
        push_groups::<10>(&mut c.bytes, &mut random);
        c.end();
        push_groups::<5>(&mut pad.bytes, &mut random);
        pad.end();
    }
    vec![
        Arc::new(Int32Array::from(id)),
        Arc::new(Int32Array::from(k)),
        c.finish(),
        pad.finish(),
    ]
}

/// Groups of eleven digits, one draw each.
fn push_groups<const GROUPS: usize>(out: &mut Vec<u8>, random: &mut Random) {
    for group in 0..GROUPS {
        if group > 0 {
            out.push(b'-');
        }
        push_padded::<11>(out, random.below(100_000_000_000));
    }
}
