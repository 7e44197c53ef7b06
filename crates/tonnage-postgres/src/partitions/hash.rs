//! The server's hash functions, as hash partitions use them: `hashint4extended` and its like with a fixed seed, which
//! end in Bob Jenkins' lookup3 (`hash_bytes_extended` in `src/common/hashfn.c`, unchanged since PostgreSQL 11).
//!
//! Words are read as little-endian. A server of another byte order would hash text otherwise, and refuse the rows that
//! reach a wrong partition: COPY checks each against its bounds.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        Date32Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType,
    },
};
use tonnage_core::types::ColumnType;

/// `HASH_PARTITION_SEED` of `partition.h`.
const SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// Whether values of this type are hashed here.
pub fn hashes(ty: &ColumnType) -> bool {
    matches!(
        ty,
        ColumnType::Int16
            | ColumnType::Int32
            | ColumnType::Int64
            | ColumnType::Bool
            | ColumnType::Text { .. }
            | ColumnType::Bytes
            | ColumnType::Date
            | ColumnType::Time
            | ColumnType::Timestamp
            | ColumnType::TimestampTz
            | ColumnType::Uuid
    )
}

/// Adds a column of a key to the hashes of its rows, which begin at 0. Nulls add nothing.
pub fn add(hashes: &mut [u64], ty: &ColumnType, column: &ArrayRef) {
    let nulls = column.nulls();
    let mut each = |of: &mut dyn FnMut(usize) -> u64| {
        for (row, hash) in hashes.iter_mut().enumerate() {
            if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                *hash = combine(*hash, of(row));
            }
        }
    };
    match ty {
        ColumnType::Int16 => {
            let values = column.as_primitive::<Int16Type>().values();
            each(&mut |row| word(i32::from(values[row]) as u32));
        }
        ColumnType::Int32 => {
            let values = column.as_primitive::<Int32Type>().values();
            each(&mut |row| word(values[row] as u32));
        }
        ColumnType::Date => {
            let values = column.as_primitive::<Date32Type>().values();
            each(&mut |row| word((values[row] - DAYS_TO_2000) as u32));
        }
        ColumnType::Int64 => {
            let values = column.as_primitive::<Int64Type>().values();
            each(&mut |row| long(values[row]));
        }
        ColumnType::Time => {
            let values = column.as_primitive::<Time64MicrosecondType>().values();
            each(&mut |row| long(values[row]));
        }
        ColumnType::Timestamp | ColumnType::TimestampTz => {
            let values = column.as_primitive::<TimestampMicrosecondType>().values();
            each(&mut |row| long(values[row] - MICROS_TO_2000));
        }
        ColumnType::Bool => {
            let values = column.as_boolean();
            each(&mut |row| word(u32::from(values.value(row))));
        }
        ColumnType::Uuid => {
            let values = column.as_fixed_size_binary();
            each(&mut |row| bytes(values.value(row)));
        }
        ColumnType::Bytes => {
            let values = column.as_binary::<i32>();
            each(&mut |row| bytes(values.value(row)));
        }
        _ => {
            let values = column.as_string::<i32>();
            each(&mut |row| bytes(values.value(row).as_bytes()));
        }
    }
}

/// From 1970 to the server's epoch.
const DAYS_TO_2000: i32 = 10_957;
/// See [`DAYS_TO_2000`].
const MICROS_TO_2000: i64 = 10_957 * 86_400_000_000;

/// `hash_combine64`.
fn combine(hash: u64, other: u64) -> u64 {
    let sum = other
        .wrapping_add(0x49a0_f4dd_15e5_a8e3)
        .wrapping_add(hash << 54)
        .wrapping_add(hash >> 7);
    hash ^ sum
}

/// The three words of the state.
#[derive(Clone, Copy)]
struct State(u32, u32, u32);

impl State {
    /// For a value of so many bytes, seeded.
    fn new(length: usize) -> Self {
        let start = 0x9e37_79b9_u32
            .wrapping_add(length as u32)
            .wrapping_add(3_923_095);
        let mut state = Self(start, start, start);
        state.0 = state.0.wrapping_add((SEED >> 32) as u32);
        state.1 = state.1.wrapping_add(SEED as u32);
        state.mix();
        state
    }

    fn mix(&mut self) {
        let Self(a, b, c) = self;
        let step = |x: &mut u32, y: &u32, z: &mut u32, by: u32| {
            *x = x.wrapping_sub(*z) ^ z.rotate_left(by);
            *z = z.wrapping_add(*y);
        };
        step(a, b, c, 4);
        step(b, c, a, 6);
        step(c, a, b, 8);
        step(a, b, c, 16);
        step(b, c, a, 19);
        step(c, a, b, 4);
    }

    fn finish(mut self) -> u64 {
        let Self(a, b, c) = &mut self;
        let step = |x: &mut u32, y: u32, by: u32| *x = (*x ^ y).wrapping_sub(y.rotate_left(by));
        step(c, *b, 14);
        step(a, *c, 11);
        step(b, *a, 25);
        step(c, *b, 16);
        step(a, *c, 4);
        step(b, *a, 14);
        step(c, *b, 24);
        u64::from(*b) << 32 | u64::from(*c)
    }
}

/// `hash_uint32_extended`.
fn word(value: u32) -> u64 {
    let mut state = State::new(4);
    state.0 = state.0.wrapping_add(value);
    state.finish()
}

/// `hashint8extended`: equal to that of the same number in fewer bytes.
fn long(value: i64) -> u64 {
    let (low, high) = (value as u32, (value >> 32) as u32);
    word(low ^ if value >= 0 { high } else { !high })
}

/// `hash_bytes_extended`.
fn bytes(value: &[u8]) -> u64 {
    let mut state = State::new(value.len());
    let (chunks, rest) = value.as_chunks::<12>();
    let read = |at: &[u8]| u32::from_le_bytes([at[0], at[1], at[2], at[3]]);
    for chunk in chunks {
        state.0 = state.0.wrapping_add(read(&chunk[0..4]));
        state.1 = state.1.wrapping_add(read(&chunk[4..8]));
        state.2 = state.2.wrapping_add(read(&chunk[8..12]));
        state.mix();
    }
    // The last bytes of the third word leave its lowest byte, which has the length, alone.
    let mut padded = [0; 13];
    padded[..rest.len().min(8)].copy_from_slice(&rest[..rest.len().min(8)]);
    if rest.len() > 8 {
        padded[9..rest.len() + 1].copy_from_slice(&rest[8..]);
    }
    state.0 = state.0.wrapping_add(read(&padded[0..4]));
    state.1 = state.1.wrapping_add(read(&padded[4..8]));
    state.2 = state.2.wrapping_add(read(&padded[8..12]));
    state.finish()
}
