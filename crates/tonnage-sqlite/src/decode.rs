//! SQLite values as Arrow columns: the mirror image of `encode`.
//!
//! SQLite hands out a row at a time and any value may have any storage class, so each column has a builder of its type
//! that takes values one by one. A value of a class that the column's type does not have, or that has no exact form in
//! it, is an error: nothing is converted that `encode` would not have stored so.

use std::{fmt::Write, sync::Arc};

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder,
    Float64Builder, Int64Builder, StringBuilder, Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use rusqlite::types::ValueRef;
use serde_json::value::RawValue;
use tonnage_core::{
    parse::{POWERS_OF_TEN, Parsed, date, instant, time_of_day, timestamp},
    types::ColumnType,
};

use super::{number, temporal};

/// Why a value does not fit, in words that follow its column's name.
pub(super) type Misfit = String;

/// Takes the values of one column.
pub(super) enum Values {
    Bool(BooleanBuilder),
    Int64(Int64Builder),
    Float64(Float64Builder),
    Decimal {
        precision: u8,
        scale: u8,
        builder: Decimal128Builder,
    },
    Numeric(StringBuilder),
    Text(StringBuilder),
    /// Values of any class, as text.
    AnyText(StringBuilder),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    TimestampTz(TimestampMicrosecondBuilder),
    Uuid(FixedSizeBinaryBuilder),
    Json(StringBuilder),
}

impl Values {
    /// A builder for a column of type `ty`; `as_text` where it comes as text whatever it holds. None for a type that no
    /// declared type means.
    pub fn new(ty: ColumnType, as_text: bool) -> Option<Self> {
        if as_text {
            return Some(Self::AnyText(StringBuilder::new()));
        }
        Some(match ty {
            ColumnType::Bool => Self::Bool(BooleanBuilder::new()),
            ColumnType::Int64 => Self::Int64(Int64Builder::new()),
            ColumnType::Float64 => Self::Float64(Float64Builder::new()),
            ColumnType::Decimal { precision, scale } => Self::Decimal {
                precision,
                scale,
                builder: Decimal128Builder::new().with_data_type(ty.arrow()),
            },
            ColumnType::Numeric => Self::Numeric(StringBuilder::new()),
            ColumnType::Text { .. } | ColumnType::Char { .. } => Self::Text(StringBuilder::new()),
            ColumnType::Bytes => Self::Bytes(BinaryBuilder::new()),
            ColumnType::Date => Self::Date(Date32Builder::new()),
            ColumnType::Time => Self::Time(Time64MicrosecondBuilder::new()),
            ColumnType::Timestamp => Self::Timestamp(TimestampMicrosecondBuilder::new()),
            ColumnType::TimestampTz => {
                Self::TimestampTz(TimestampMicrosecondBuilder::new().with_data_type(ty.arrow()))
            }
            ColumnType::Uuid => Self::Uuid(FixedSizeBinaryBuilder::new(16)),
            ColumnType::Json => Self::Json(StringBuilder::new()),
            ColumnType::Int16 | ColumnType::Int32 | ColumnType::Float32 | ColumnType::Any => return None,
        })
    }

    /// Appends a value; returns the bytes it takes, about.
    pub fn push(&mut self, value: ValueRef<'_>) -> Result<usize, Misfit> {
        if let ValueRef::Null = value {
            self.push_null();
            return Ok(1);
        }
        match (self, value) {
            (Self::Bool(builder), ValueRef::Integer(number @ (0 | 1))) => builder.append_value(number == 1),
            (Self::Int64(builder), ValueRef::Integer(number)) => builder.append_value(number),
            (Self::Float64(builder), ValueRef::Real(real)) => builder.append_value(real),
            (Self::Float64(builder), ValueRef::Integer(number)) => {
                let real = number::integer_as_real(number).ok_or_else(|| misfit(value, "a float64"))?;
                builder.append_value(real);
            }
            (
                Self::Decimal {
                    precision,
                    scale,
                    builder,
                },
                ValueRef::Integer(_) | ValueRef::Real(_),
            ) => {
                let units = match value {
                    ValueRef::Integer(number) => {
                        i128::from(number).checked_mul(POWERS_OF_TEN[usize::from(*scale)])
                    }
                    ValueRef::Real(real) => number::units_of_real(real, *scale),
                    _ => None,
                };
                let end = POWERS_OF_TEN[usize::from(*precision)].unsigned_abs();
                match units.filter(|units| units.unsigned_abs() < end) {
                    Some(units) => builder.append_value(units),
                    None => return Err(misfit(value, &format!("a decimal({precision},{scale})"))),
                }
            }
            (Self::Numeric(builder), ValueRef::Integer(number)) => {
                // Writing to memory does not fail, and `append_value` ends what was written.
                let _ = write!(builder, "{number}");
                builder.append_value("");
            }
            (Self::Numeric(builder), ValueRef::Real(real)) => {
                builder.append_value(number::text_of_any_real(real))
            }
            (Self::Text(builder), ValueRef::Text(text)) => {
                builder.append_value(utf8(text)?);
                return Ok(text.len());
            }
            (Self::AnyText(builder), value) => {
                let before = builder.values_slice().len();
                push_any(builder, value)?;
                return Ok(builder.values_slice().len() - before);
            }
            (Self::Bytes(builder), ValueRef::Blob(bytes)) => {
                builder.append_value(bytes);
                return Ok(bytes.len());
            }
            (Self::Date(builder), ValueRef::Text(text)) => {
                builder.append_value(match temporal::read_date(text) {
                    // A day of four-digit years.
                    Some(days) => days as i32,
                    None => fallback(date(text), text, "a date")?,
                });
            }
            (Self::Time(builder), ValueRef::Text(text)) => {
                builder.append_value(match temporal::read_time(text) {
                    Some(micros) => micros,
                    None => fallback(time_of_day(text), text, "a time")?,
                });
            }
            (Self::Timestamp(builder), ValueRef::Text(text)) => {
                builder.append_value(match temporal::read_timestamp(text) {
                    Some(micros) => micros,
                    None => fallback(timestamp(text), text, "a timestamp")?,
                });
            }
            (Self::TimestampTz(builder), ValueRef::Text(text)) => {
                let utc = text.strip_suffix(b"+00:00").and_then(temporal::read_timestamp);
                builder.append_value(match utc {
                    Some(micros) => micros,
                    None => fallback(instant(text, None), text, "an instant")?,
                });
            }
            (Self::Uuid(builder), ValueRef::Text(text)) => {
                let uuid = uuid::Uuid::try_parse_ascii(text).map_err(|_| misfit(value, "a uuid"))?;
                builder
                    .append_value(uuid.as_bytes())
                    .map_err(|_| misfit(value, "a uuid"))?;
            }
            (Self::Json(builder), ValueRef::Text(text)) => {
                let text = utf8(text)?;
                if serde_json::from_str::<&RawValue>(text).is_err() {
                    return Err(misfit(value, "JSON"));
                }
                builder.append_value(text);
                return Ok(text.len());
            }
            (builder, value) => return Err(misfit(value, builder.wanted())),
        }
        Ok(8)
    }

    fn push_null(&mut self) {
        match self {
            Self::Bool(builder) => builder.append_null(),
            Self::Int64(builder) => builder.append_null(),
            Self::Float64(builder) => builder.append_null(),
            Self::Decimal { builder, .. } => builder.append_null(),
            Self::Numeric(builder) | Self::Text(builder) | Self::AnyText(builder) | Self::Json(builder) => {
                builder.append_null();
            }
            Self::Bytes(builder) => builder.append_null(),
            Self::Date(builder) => builder.append_null(),
            Self::Time(builder) => builder.append_null(),
            Self::Timestamp(builder) | Self::TimestampTz(builder) => builder.append_null(),
            Self::Uuid(builder) => builder.append_null(),
        }
    }

    /// What has been appended; the builder begins anew.
    pub fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Bool(builder) => Arc::new(builder.finish()),
            Self::Int64(builder) => Arc::new(builder.finish()),
            Self::Float64(builder) => Arc::new(builder.finish()),
            Self::Decimal { builder, .. } => Arc::new(builder.finish()),
            Self::Numeric(builder) | Self::Text(builder) | Self::AnyText(builder) | Self::Json(builder) => {
                Arc::new(builder.finish())
            }
            Self::Bytes(builder) => Arc::new(builder.finish()),
            Self::Date(builder) => Arc::new(builder.finish()),
            Self::Time(builder) => Arc::new(builder.finish()),
            Self::Timestamp(builder) | Self::TimestampTz(builder) => Arc::new(builder.finish()),
            Self::Uuid(builder) => Arc::new(builder.finish()),
        }
    }

    /// What the column holds, for messages.
    fn wanted(&self) -> &'static str {
        match self {
            Self::Bool(_) => "a truth value (0 or 1)",
            Self::Int64(_) => "an integer",
            Self::Float64(_) => "a number",
            Self::Decimal { .. } | Self::Numeric(_) => "a number",
            Self::Text(_) | Self::AnyText(_) => "text",
            Self::Bytes(_) => "a blob",
            Self::Date(_) => "a date",
            Self::Time(_) => "a time",
            Self::Timestamp(_) => "a timestamp",
            Self::TimestampTz(_) => "an instant",
            Self::Uuid(_) => "a uuid",
            Self::Json(_) => "JSON",
        }
    }
}

fn push_any(builder: &mut StringBuilder, value: ValueRef<'_>) -> Result<(), Misfit> {
    match value {
        ValueRef::Text(text) => builder.append_value(utf8(text)?),
        other => builder.append_value(shown(other)),
    }
    Ok(())
}

fn utf8(text: &[u8]) -> Result<&str, Misfit> {
    std::str::from_utf8(text).map_err(|_| "the text is not UTF-8".to_owned())
}

fn fallback<T>(parsed: Parsed<T>, text: &[u8], wanted: &str) -> Result<T, Misfit> {
    parsed.map_err(|_| misfit(ValueRef::Text(text), wanted))
}

fn misfit(value: ValueRef<'_>, wanted: &str) -> Misfit {
    const SHOWN_CHARS: usize = 40;
    let class = match value {
        ValueRef::Null => "null",
        ValueRef::Integer(_) => "the integer",
        ValueRef::Real(_) => "the real",
        ValueRef::Text(_) => "the text",
        ValueRef::Blob(_) => "the blob",
    };
    let all = shown(value);
    let mut text: String = all.chars().take(SHOWN_CHARS).collect();
    if text.len() < all.len() {
        text.push_str("..");
    }
    match value {
        ValueRef::Text(_) => format!("{class} '{text}' is not {wanted}"),
        _ => format!("{class} {text} is not {wanted}"),
    }
}

/// A value as text: numbers with every digit, blobs as `\x` and hexadecimal digits.
pub(super) fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "null".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(real) if real.is_finite() => format!("{real:?}"),
        ValueRef::Real(real) => number::text_of_real(real),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => {
            let mut text = "\\x".to_owned();
            for byte in bytes {
                // Writing to memory does not fail.
                let _ = write!(text, "{byte:02x}");
            }
            text
        }
    }
}
