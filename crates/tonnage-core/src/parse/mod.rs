//! From text to typed Arrow columns, exactly or not at all.
//!
//! Invariants:
//! - A value is read as what it says or noted as a problem: nothing is truncated, clamped, rounded or guessed. A float
//!   is the nearest one to a text, if it gives the digits of the text back.
//! - A column has as many rows as values came in; a row with a problem is null.
//! - The type is matched once a column; its loop then knows what it reads.
//!
//! Spaces around a value mean nothing, except to text, JSON and bytes. Empty text is a value of text, JSON
//! (where it is a problem) and bytes only; whether a field is null was decided before.

mod decimal;
mod fault;
mod formats;
mod number;
mod stored;
mod text;
pub mod time;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc};

use arrow::{
    array::{
        ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanBuilder, FixedSizeBinaryArray, PrimitiveArray,
        PrimitiveBuilder,
    },
    buffer::{Buffer, NullBuffer},
    datatypes::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
        Time64MicrosecondType, TimestampMicrosecondType,
    },
};

use self::formats::Rewriting;
pub use self::{
    decimal::{Decimal, POWERS_OF_TEN, numeric},
    fault::{Fault, Notes, NullHint, Parsed, is_null_word, shown, shown_bare},
    formats::{DateFormat, DateOrder, EpochUnit, Seen, ValueFormats},
    number::{float32, float64},
    stored::{parse_stored, stored_texts},
    text::{TextColumn, TextLimit, check_text},
    time::{
        PartialDate, TIME_MAX, date, far_date_text, far_timestamp_text, instant, instant_in_zone,
        spelled_date, spelled_timestamp, stands_for_no_day, stands_for_no_time, text_of_date, text_of_time,
        text_of_timestamp, time as time_of_day, timestamp,
    },
};
use crate::{
    error::{Error, Result},
    reject::Problems,
    types::ColumnType,
};

/// What the text alone does not say.
#[derive(Debug, Clone, Default)]
pub struct ParseContext {
    /// Zone of times that carry none, for [`ColumnType::TimestampTz`].
    pub timezone: Option<jiff::tz::TimeZone>,
    /// Text of a typed source is read as that of a text file is also where it becomes bytes: `\x41` is one byte. True of
    /// keys, which people write.
    pub bytes_as_written: bool,
    /// How values are written.
    pub formats: ValueFormats,
}

/// The time zone of an IANA name (`Europe/Berlin`, `UTC`), from the system's database. `Config` if there is
/// none.
pub fn timezone(name: &str) -> Result<jiff::tz::TimeZone> {
    jiff::tz::TimeZone::get(name).map_err(|cause| {
        Error::config(format!("unknown time zone '{name}'"))
            .hint("time zones are named as in the IANA database: UTC, Europe/Berlin, America/New_York")
            .caused_by(cause)
    })
}

/// Reads one column. A value that is not exactly of type `ty` is noted in `problems` under its row and is
/// null in the result. The result has `ty.arrow()` as its type and as many rows as `values`.
///
/// What is taken, spaces around it aside:
/// - integers with a sign or none; floats also as `inf`, `-infinity`, `nan` in any case; truth values as
///   `true t yes y on 1` and `false f no n off 0` in any case;
/// - decimals with or without an exponent, if every digit fits the column;
/// - dates as `2023-12-31`, times as `23:59`, `23:59:58`, `23:59:58.123456`, `24:00:00`, and outside a day up to
///   `838:59:59` of either sign; timestamps as both with a space
///   or `T` between, or a date alone, which is its midnight; instants with `Z`, `+01`, `+0100` or `+01:00` behind, or
///   without if `context` has a zone; of other years than 1 to 9999 as PostgreSQL writes them (`0044-03-15 BC`), also
///   `infinity` and `-infinity`;
/// - bytes as `\\x` and hexadecimal digits, else as the bytes of the text themselves, where `\\` is a backslash and
///   `\ooo` the byte of three octal digits;
/// - text as UTF-8 without U+0000, no longer than the column takes.
pub fn parse_column<'a>(
    ty: &ColumnType,
    column: &str,
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    context: &ParseContext,
    problems: &mut Problems,
) -> ArrayRef {
    let mut notes = Notes {
        column,
        problems,
        null_hint: NullHint::Offered,
    };
    parse_values(ty, values, context, &mut notes)
}

/// [`parse_as_written`] of what `rewriting` makes of the values.
fn parse_rewritten<'a>(
    ty: &ColumnType,
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    rewriting: &Rewriting<'_>,
    context: &ParseContext,
    notes: &mut Notes<'_>,
) -> ArrayRef {
    let values: Vec<Option<Cow<'a, [u8]>>> = values
        .enumerate()
        .map(|(row, value)| match rewriting.rewrite(value?, ty) {
            Ok(text) => Some(text),
            Err(fault) => {
                notes.add_text(row, value?, *fault);
                None
            }
        })
        .collect();
    parse_as_written(ty, values.iter().map(Option::as_deref), context, notes)
}

/// [`parse_column`] for values of any provenance.
pub fn parse_values<'a>(
    ty: &ColumnType,
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    context: &ParseContext,
    notes: &mut Notes<'_>,
) -> ArrayRef {
    match context.formats.of_column(ty, notes.column) {
        Some(rewriting) => parse_rewritten(ty, values, &rewriting, context, notes),
        None => parse_as_written(ty, values, context, notes),
    }
}

/// [`parse_values`] for values that are written as [`parse_column`] says.
fn parse_as_written<'a>(
    ty: &ColumnType,
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    context: &ParseContext,
    notes: &mut Notes<'_>,
) -> ArrayRef {
    match ty {
        ColumnType::Bool => bools(values, notes),
        ColumnType::Int16 => primitives::<Int16Type>(ty, values, notes, |value| {
            // Within the bounds just checked.
            number::int(value, ty, i16::MIN.into(), i16::MAX.into()).map(|n| n as i16)
        }),
        ColumnType::Int32 => primitives::<Int32Type>(ty, values, notes, |value| {
            number::int(value, ty, i32::MIN.into(), i32::MAX.into()).map(|n| n as i32)
        }),
        ColumnType::Int64 => primitives::<Int64Type>(ty, values, notes, |value| {
            number::int(value, ty, i64::MIN, i64::MAX)
        }),
        ColumnType::Float32 => primitives::<Float32Type>(ty, values, notes, number::float32),
        ColumnType::Float64 => primitives::<Float64Type>(ty, values, notes, number::float64),
        ColumnType::Decimal { precision, scale } => {
            let decimal = Decimal {
                precision: *precision,
                scale: *scale,
            };
            primitives::<Decimal128Type>(ty, values, notes, |value| decimal.read(value))
        }
        ColumnType::Numeric => texts(values, notes, numeric),
        ColumnType::Text { .. } | ColumnType::Char { .. } | ColumnType::Any => match TextLimit::of(ty) {
            None => texts(values, notes, Ok),
            Some(limit) => texts(values, notes, |value| limit.check(value).map(|()| value)),
        },
        ColumnType::Json => texts(values, notes, text::json),
        ColumnType::Bytes => binaries(values, notes),
        ColumnType::Date => primitives::<Date32Type>(ty, values, notes, time::kept_date),
        ColumnType::Time => primitives::<Time64MicrosecondType>(ty, values, notes, time::any_time),
        ColumnType::Timestamp => {
            primitives::<TimestampMicrosecondType>(ty, values, notes, time::kept_timestamp)
        }
        ColumnType::TimestampTz => {
            let zone = context.timezone.as_ref();
            primitives::<TimestampMicrosecondType>(ty, values, notes, |value| time::kept_instant(value, zone))
        }
        ColumnType::Uuid => uuids(values, notes),
    }
}

/// A column of a primitive type.
fn primitives<'a, T: ArrowPrimitiveType>(
    ty: &ColumnType,
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    notes: &mut Notes<'_>,
    read: impl Fn(&'a [u8]) -> Parsed<T::Native>,
) -> ArrayRef {
    let mut builder = PrimitiveBuilder::<T>::with_capacity(values.len());
    for (row, value) in values.enumerate() {
        let Some(value) = value else {
            builder.append_null();
            continue;
        };
        match read(value) {
            Ok(number) => builder.append_value(number),
            Err(fault) => {
                notes.add_text(row, value, *fault);
                builder.append_null();
            }
        }
    }
    let array: PrimitiveArray<T> = builder.finish();
    Arc::new(array.with_data_type(ty.arrow()))
}

fn bools<'a>(values: impl ExactSizeIterator<Item = Option<&'a [u8]>>, notes: &mut Notes<'_>) -> ArrayRef {
    let mut builder = BooleanBuilder::with_capacity(values.len());
    for (row, value) in values.enumerate() {
        let Some(value) = value else {
            builder.append_null();
            continue;
        };
        match number::bool(value) {
            Ok(truth) => builder.append_value(truth),
            Err(fault) => {
                notes.add_text(row, value, *fault);
                builder.append_null();
            }
        }
    }
    Arc::new(builder.finish())
}

/// A column carried as text, of what `read` makes of each value.
fn texts<'a, V: AsRef<[u8]>>(
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    notes: &mut Notes<'_>,
    read: impl Fn(&'a [u8]) -> Parsed<V>,
) -> ArrayRef {
    Arc::new(collect(values, notes, read).into_text(notes))
}

fn binaries<'a>(values: impl ExactSizeIterator<Item = Option<&'a [u8]>>, notes: &mut Notes<'_>) -> ArrayRef {
    let (offsets, bytes, nulls) = collect(values, notes, text::bytes).into_parts();
    Arc::new(BinaryArray::new(offsets, bytes, nulls))
}

/// What `read` makes of each value.
fn collect<'a, V: AsRef<[u8]>>(
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    notes: &mut Notes<'_>,
    read: impl Fn(&'a [u8]) -> Parsed<V>,
) -> TextColumn {
    let mut column = TextColumn::with_capacity(values.len());
    for (row, value) in values.enumerate() {
        let Some(value) = value else {
            column.push_null();
            continue;
        };
        match read(value) {
            Ok(text) => {
                if let Err(fault) = column.push(text.as_ref()) {
                    notes.add_text(row, value, *fault);
                }
            }
            Err(fault) => {
                notes.add_text(row, value, *fault);
                column.push_null();
            }
        }
    }
    column
}

fn uuids<'a>(values: impl ExactSizeIterator<Item = Option<&'a [u8]>>, notes: &mut Notes<'_>) -> ArrayRef {
    let mut bytes = Vec::with_capacity(values.len() * 16);
    let mut valid = Vec::with_capacity(values.len());
    for (row, value) in values.enumerate() {
        let uuid = value.and_then(|value| match text::uuid(value) {
            Ok(uuid) => Some(uuid),
            Err(fault) => {
                notes.add_text(row, value, *fault);
                None
            }
        });
        bytes.extend_from_slice(&uuid.unwrap_or_default());
        valid.push(uuid.is_some());
    }
    let nulls = NullBuffer::from(valid);
    Arc::new(FixedSizeBinaryArray::new(
        16,
        Buffer::from_vec(bytes),
        Some(nulls),
    ))
}
