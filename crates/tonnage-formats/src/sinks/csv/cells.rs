//! One column as CSV fields: an encoder a type, a loop a slice of rows.

use std::{io::Write, ops::Range};

use arrow::{
    array::{Array, ArrayAccessor, ArrowPrimitiveType, AsArray},
    datatypes::{
        DataType, Date32Type, Date64Type, Decimal128Type, Decimal256Type, DecimalType, Float32Type,
        Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
        Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
        TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
        UInt32Type, UInt64Type,
    },
};
use tonnage_core::{
    digits::{
        DAY_MICROS, DAYS, push_clock, push_date, push_decimal, push_padded, push_signed, push_unsigned,
    },
    error::{Error, Result},
    parse::{TIME_MAX, spelled_date, spelled_timestamp, text_of_time},
};

/// Encodes some rows of a column.
pub(in crate::sinks) type Encode = fn(&dyn Array, Range<usize>, &Style, &mut Cells) -> Result<()>;

/// The fields of a column: bytes, and where each field ends.
#[derive(Default)]
pub(in crate::sinks) struct Cells {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Rows of earlier batches, so that an error names the row of the file.
    pub(in crate::sinks) rows_before: u64,
}

impl Cells {
    pub(in crate::sinks) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Bytes of all fields.
    pub(in crate::sinks) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(in crate::sinks) fn get(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start..self.ends[row]]
    }
}

/// What decides whether text is quoted.
pub(in crate::sinks) struct Style {
    pub(in crate::sinks) delimiter: u8,
}

impl Style {
    /// Appends text, quoted if it must be.
    pub(in crate::sinks) fn push_text(&self, out: &mut Vec<u8>, text: &[u8]) {
        let plain = !text.is_empty()
            && text != b"\\."
            && memchr::memchr3(self.delimiter, b'"', b'\n', text).is_none()
            && memchr::memchr(b'\r', text).is_none();
        if plain {
            out.extend_from_slice(text);
            return;
        }
        out.push(b'"');
        let mut done = 0;
        for quote in memchr::memchr_iter(b'"', text) {
            out.extend_from_slice(&text[done..=quote]);
            done = quote;
        }
        out.extend_from_slice(&text[done..]);
        out.push(b'"');
    }
}

/// The encoder for a type, if it has text.
pub(in crate::sinks) fn encoder(data_type: &DataType) -> Option<Encode> {
    let encode: Encode = match data_type {
        DataType::Null => |_, rows, _, cells| {
            cells.ends.extend(rows.map(|_| 0));
            Ok(())
        },
        DataType::Boolean => |array, rows, _, cells| {
            let array = array.as_boolean_opt().ok_or_else(other_type)?;
            each(array, rows, cells, |value, out| {
                out.extend_from_slice(if value { b"true" } else { b"false" });
                Ok(())
            })
        },
        DataType::Int8 => signed::<Int8Type>,
        DataType::Int16 => signed::<Int16Type>,
        DataType::Int32 => signed::<Int32Type>,
        DataType::Int64 => signed::<Int64Type>,
        DataType::UInt8 => unsigned::<UInt8Type>,
        DataType::UInt16 => unsigned::<UInt16Type>,
        DataType::UInt32 => unsigned::<UInt32Type>,
        DataType::UInt64 => unsigned::<UInt64Type>,
        DataType::Float32 => |array, rows, _, cells| {
            primitive::<Float32Type>(array, rows, cells, |value, out| {
                // The fewest digits depend on the width: 0.1 as a single is not 0.1 as a double.
                match value.is_finite() {
                    true => write!(out, "{value:?}").map_err(no_memory),
                    false => push_not_finite(f64::from(value), out),
                }
            })
        },
        DataType::Float64 => |array, rows, _, cells| {
            primitive::<Float64Type>(array, rows, cells, |value, out| match value.is_finite() {
                true => write!(out, "{value:?}").map_err(no_memory),
                false => push_not_finite(value, out),
            })
        },
        DataType::Decimal128(..) => |array, rows, _, cells| {
            let scale = match array.data_type() {
                DataType::Decimal128(_, scale) => *scale,
                _ => return Err(other_type()),
            };
            primitive::<Decimal128Type>(array, rows, cells, |value, out| {
                push_decimal(out, value, scale);
                Ok(())
            })
        },
        DataType::Decimal256(..) => |array, rows, _, cells| {
            let (precision, scale) = match array.data_type() {
                DataType::Decimal256(precision, scale) => (*precision, *scale),
                _ => return Err(other_type()),
            };
            primitive::<Decimal256Type>(array, rows, cells, |value, out| {
                out.extend_from_slice(Decimal256Type::format_decimal(value, precision, scale).as_bytes());
                Ok(())
            })
        },
        DataType::Utf8 => |array, rows, style, cells| {
            text(
                array.as_string_opt::<i32>().ok_or_else(other_type)?,
                rows,
                style,
                cells,
            )
        },
        DataType::LargeUtf8 => |array, rows, style, cells| {
            text(
                array.as_string_opt::<i64>().ok_or_else(other_type)?,
                rows,
                style,
                cells,
            )
        },
        DataType::Utf8View => |array, rows, style, cells| {
            text(
                array.as_string_view_opt().ok_or_else(other_type)?,
                rows,
                style,
                cells,
            )
        },
        DataType::Binary => |array, rows, _, cells| {
            each(
                array.as_binary_opt::<i32>().ok_or_else(other_type)?,
                rows,
                cells,
                push_bytes,
            )
        },
        DataType::LargeBinary => |array, rows, _, cells| {
            each(
                array.as_binary_opt::<i64>().ok_or_else(other_type)?,
                rows,
                cells,
                push_bytes,
            )
        },
        DataType::BinaryView => |array, rows, _, cells| {
            each(
                array.as_binary_view_opt().ok_or_else(other_type)?,
                rows,
                cells,
                push_bytes,
            )
        },
        DataType::FixedSizeBinary(16) => |array, rows, _, cells| {
            each(
                array.as_fixed_size_binary_opt().ok_or_else(other_type)?,
                rows,
                cells,
                push_uuid,
            )
        },
        DataType::FixedSizeBinary(_) => |array, rows, _, cells| {
            each(
                array.as_fixed_size_binary_opt().ok_or_else(other_type)?,
                rows,
                cells,
                push_bytes,
            )
        },
        DataType::Date32 => |array, rows, _, cells| {
            primitive::<Date32Type>(array, rows, cells, |days, out| {
                match DAYS.contains(&i64::from(days)) {
                    true => push_date(out, i64::from(days)),
                    // As PostgreSQL writes them, and a load reads them.
                    false => out.extend_from_slice(spelled_date(i64::from(days)).as_bytes()),
                }
                Ok(())
            })
        },
        DataType::Date64 => |array, rows, _, cells| {
            primitive::<Date64Type>(array, rows, cells, |millis, out| {
                match millis.rem_euclid(86_400_000) {
                    0 => push_day(out, millis.div_euclid(86_400_000)),
                    _ => Err(Error::schema(format!(
                        "{millis} ms is no whole day, as a date must be"
                    ))),
                }
            })
        },
        DataType::Time32(TimeUnit::Second) => |array, rows, _, cells| {
            primitive::<Time32SecondType>(array, rows, cells, |time, out| {
                push_time::<0>(out, i64::from(time))
            })
        },
        DataType::Time32(_) => |array, rows, _, cells| {
            primitive::<Time32MillisecondType>(array, rows, cells, |time, out| {
                push_time::<3>(out, i64::from(time))
            })
        },
        DataType::Time64(TimeUnit::Nanosecond) => |array, rows, _, cells| {
            primitive::<Time64NanosecondType>(array, rows, cells, |time, out| push_time::<9>(out, time))
        },
        DataType::Time64(_) => |array, rows, _, cells| {
            primitive::<Time64MicrosecondType>(array, rows, cells, |time, out| push_time::<6>(out, time))
        },
        DataType::Timestamp(TimeUnit::Second, _) => timestamp::<TimestampSecondType, 0>,
        DataType::Timestamp(TimeUnit::Millisecond, _) => timestamp::<TimestampMillisecondType, 3>,
        DataType::Timestamp(TimeUnit::Microsecond, _) => timestamp::<TimestampMicrosecondType, 6>,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => timestamp::<TimestampNanosecondType, 9>,
        _ => return None,
    };
    Some(encode)
}

/// Encodes every value; a null is an empty field.
fn each<A: ArrayAccessor>(
    array: A,
    rows: Range<usize>,
    cells: &mut Cells,
    mut push: impl FnMut(A::Item, &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    for row in rows {
        if array.is_valid(row) {
            let rows_before = cells.rows_before;
            push(array.value(row), &mut cells.bytes)
                .map_err(|e| e.at(format_args!("row {}", rows_before + row as u64 + 1)))?;
        }
        cells.ends.push(cells.bytes.len());
    }
    Ok(())
}

fn primitive<T: ArrowPrimitiveType>(
    array: &dyn Array,
    rows: Range<usize>,
    cells: &mut Cells,
    push: impl FnMut(T::Native, &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    each(
        array.as_primitive_opt::<T>().ok_or_else(other_type)?,
        rows,
        cells,
        push,
    )
}

fn signed<T: ArrowPrimitiveType<Native: Into<i64>>>(
    array: &dyn Array,
    rows: Range<usize>,
    _: &Style,
    cells: &mut Cells,
) -> Result<()> {
    primitive::<T>(array, rows, cells, |value, out| {
        push_signed(out, value.into());
        Ok(())
    })
}

fn unsigned<T: ArrowPrimitiveType<Native: Into<u64>>>(
    array: &dyn Array,
    rows: Range<usize>,
    _: &Style,
    cells: &mut Cells,
) -> Result<()> {
    primitive::<T>(array, rows, cells, |value, out| {
        push_unsigned(out, value.into());
        Ok(())
    })
}

fn text<'a>(
    array: impl ArrayAccessor<Item = &'a str>,
    rows: Range<usize>,
    style: &Style,
    cells: &mut Cells,
) -> Result<()> {
    each(array, rows, cells, |value, out| {
        style.push_text(out, value.as_bytes());
        Ok(())
    })
}

fn timestamp<T: ArrowPrimitiveType<Native = i64>, const DIGITS: usize>(
    array: &dyn Array,
    rows: Range<usize>,
    _: &Style,
    cells: &mut Cells,
) -> Result<()> {
    let suffix: &[u8] = match array.data_type() {
        DataType::Timestamp(_, Some(_)) => b"+00",
        _ => b"",
    };
    let day = 86_400 * 10_i64.pow(DIGITS as u32);
    primitive::<T>(array, rows, cells, |value, out| {
        if DIGITS == 6 && !MICROS.contains(&value) {
            let offset = std::str::from_utf8(suffix).unwrap_or_default();
            out.extend_from_slice(spelled_timestamp(value, offset).as_bytes());
            return Ok(());
        }
        push_day(out, value.div_euclid(day))?;
        out.push(b' ');
        push_time::<DIGITS>(out, value.rem_euclid(day))?;
        out.extend_from_slice(suffix);
        Ok(())
    })
}

/// The microseconds of the days that are written with four digits of their year.
const MICROS: Range<i64> = *DAYS.start() * DAY_MICROS..(*DAYS.end() + 1) * DAY_MICROS;

/// Appends a date of a year with four digits; others are read differently everywhere.
fn push_day(out: &mut Vec<u8>, days: i64) -> Result<()> {
    if !DAYS.contains(&days) {
        return Err(Error::schema(format!(
            "a date {days} days from 1970-01-01 lies outside the years 1 to 9999"
        ))
        .hint("write it as Parquet, which has no such bound"));
    }
    push_date(out, days);
    Ok(())
}

/// Appends a time of day in units of `DIGITS` decimal places of a second; 24:00:00 is one.
fn push_time<const DIGITS: usize>(out: &mut Vec<u8>, time: i64) -> Result<()> {
    let second = 10_u64.pow(DIGITS as u32);
    if DIGITS == 6 && !(0..=DAY_MICROS).contains(&time) && (-TIME_MAX..=TIME_MAX).contains(&time) {
        out.extend_from_slice(text_of_time(time).as_bytes());
        return Ok(());
    }
    let time = u64::try_from(time)
        .ok()
        .filter(|time| *time <= 86_400 * second)
        .ok_or_else(|| Error::schema(format!("{time} is outside a day")))?;
    push_clock(out, time / second);
    if DIGITS > 0 {
        out.push(b'.');
        push_padded::<DIGITS>(out, time % second);
    }
    Ok(())
}

fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(b"\\x");
    push_hex(bytes, out);
    Ok(())
}

fn push_uuid(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    for (index, part) in [0..4, 4..6, 6..8, 8..10, 10..16].into_iter().enumerate() {
        if index > 0 {
            out.push(b'-');
        }
        push_hex(&bytes[part], out);
    }
    Ok(())
}

fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

fn push_not_finite(value: f64, out: &mut Vec<u8>) -> Result<()> {
    let name: &[u8] = match value {
        v if v.is_nan() => b"NaN",
        v if v > 0.0 => b"Infinity",
        _ => b"-Infinity",
    };
    out.extend_from_slice(name);
    Ok(())
}

fn no_memory(cause: std::io::Error) -> Error {
    Error::bug(format!("writing to memory failed: {cause}"))
}

fn other_type() -> Error {
    Error::bug("an array is not of its field's type")
}
