//! The records of the Yahoo! Cloud Serving Benchmark: a key and ten fields of 100 printable characters.
//!
//! A key depends on the row alone and not on the seed, as in YCSB, so a reader can name any key that was
//! loaded and a second seed makes new values for the same keys. Unlike YCSB's own hash, which may repeat, no
//! two rows share a key.

use arrow::array::ArrayRef;
use tonnage_core::{digits::push_unsigned, types::ColumnType};

use super::{
    Nullable, TextColumn,
    random::{Random, base, mix},
};

/// Fields hold no quote, comma or backslash, so that a row is as long in every format.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FIELD_CHARS: usize = 100;
const FIELDS: usize = 10;

pub(super) const FIELD: ColumnType = ColumnType::Text {
    chars_max: Some(FIELD_CHARS as u32),
};

pub(super) const COLUMNS: &[(&str, ColumnType, Nullable)] = &[
    ("key", ColumnType::Text { chars_max: Some(24) }, Nullable::No),
    ("field0", FIELD, Nullable::No),
    ("field1", FIELD, Nullable::No),
    ("field2", FIELD, Nullable::No),
    ("field3", FIELD, Nullable::No),
    ("field4", FIELD, Nullable::No),
    ("field5", FIELD, Nullable::No),
    ("field6", FIELD, Nullable::No),
    ("field7", FIELD, Nullable::No),
    ("field8", FIELD, Nullable::No),
    ("field9", FIELD, Nullable::No),
];

/// The stream of random numbers that is this workload's own.
const STREAM: u64 = 0x7963_7362;

/// Appends the key of `row` (from 0): `user` and up to 20 digits.
pub fn push_key(out: &mut Vec<u8>, row: u64) {
    out.extend_from_slice(b"user");
    push_unsigned(out, mix(row.wrapping_add(1)));
}

pub(super) fn arrays(seed: u64, first_row: u64, rows: usize) -> Vec<ArrayRef> {
    records(FIELDS, seed, first_row, rows)
}

/// Records of so many fields: the first of more are those of fewer.
pub(super) fn records(fields: usize, seed: u64, first_row: u64, rows: usize) -> Vec<ArrayRef> {
    let base = base(seed, STREAM);
    let mut keys = TextColumn::with_capacity(rows, 24);
    let mut fields: Vec<TextColumn> = (0..fields)
        .map(|_| TextColumn::with_capacity(rows, FIELD_CHARS))
        .collect();
    for row in first_row..first_row + rows as u64 {
        push_key(&mut keys.bytes, row);
        keys.end();
        let mut random = Random::of_row(base, row);
        for field in &mut fields {
            push_field(&mut field.bytes, &mut random);
            field.end();
        }
    }
    std::iter::once(keys)
        .chain(fields)
        .map(TextColumn::finish)
        .collect()
}

/// One field: ten characters of six bits a draw.
fn push_field(out: &mut Vec<u8>, random: &mut Random) {
    let mut field = [0_u8; FIELD_CHARS];
    for ten in field.chunks_exact_mut(10) {
        let mut bits = random.draw();
        for letter in ten {
            *letter = ALPHABET[(bits & 63) as usize];
            bits >>= 6;
        }
    }
    out.extend_from_slice(&field);
}
