//! Single values: from text to the server's binary form, and back.
//!
//! What a value within a collection, or a column that comes as text, is read from and written as.

use std::net::IpAddr;

use arrow::{
    array::AsArray,
    datatypes::{
        Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType,
        TimestampMicrosecondType,
    },
};
use scylla::cluster::metadata::NativeType;
use tonnage_core::{
    parse::{
        ParseContext, parse_column, spelled_date, spelled_timestamp, stands_for_no_day, stands_for_no_time,
        text_of_date, text_of_time, text_of_timestamp,
    },
    reject::{Problems, sqlstate},
};

use super::{duration::Span, number, types::Kind};

/// Why a value cannot be carried: an SQLSTATE and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misfit {
    pub code: &'static str,
    pub message: String,
}

impl Misfit {
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

pub(super) type Fitting<T = ()> = std::result::Result<T, Misfit>;

/// The day that the server counts from, as its unsigned count of days has 1970-01-01.
const EPOCH_DAY: u32 = 1 << 31;

/// Nanoseconds of a microsecond, microseconds of a millisecond.
const THOUSAND: i64 = 1_000;

pub(super) fn put_date(days: i32, out: &mut Vec<u8>) -> Fitting {
    // The server has no value of its meaning.
    if stands_for_no_day(days) {
        return Err(Misfit::new(
            sqlstate::DATETIME_OVERFLOW,
            format!("{} is out of range", spelled_date(days.into())),
        ));
    }
    let counted = (days as u32).wrapping_add(EPOCH_DAY);
    out.extend_from_slice(&counted.to_be_bytes());
    Ok(())
}

pub(super) fn put_time(micros: i64, out: &mut Vec<u8>) -> Fitting {
    let day = 86_400_000_000;
    if !(0..day).contains(&micros) {
        return Err(Misfit::new(
            sqlstate::OUT_OF_RANGE,
            format!("{} is no time within a day", text_of_time(micros)),
        ));
    }
    out.extend_from_slice(&(micros * THOUSAND).to_be_bytes());
    Ok(())
}

pub(super) fn put_timestamp(micros: i64, out: &mut Vec<u8>) -> Fitting {
    if stands_for_no_time(micros) {
        return Err(Misfit::new(
            sqlstate::DATETIME_OVERFLOW,
            format!("{} is out of range", spelled_timestamp(micros, "")),
        ));
    }
    if micros % THOUSAND != 0 {
        return Err(Misfit::new(
            sqlstate::WOULD_CHANGE,
            format!(
                "{} has microseconds, the column keeps milliseconds",
                text_of_timestamp(micros)
            ),
        ));
    }
    out.extend_from_slice(&(micros / THOUSAND).to_be_bytes());
    Ok(())
}

pub(super) fn put_tinyint(value: i16, out: &mut Vec<u8>) -> Fitting {
    let narrow = i8::try_from(value).map_err(|_| {
        Misfit::new(
            sqlstate::OUT_OF_RANGE,
            format!("{value} is out of range for type tinyint"),
        )
    })?;
    out.extend_from_slice(&narrow.to_be_bytes());
    Ok(())
}

/// What uuids a type takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UuidKind {
    Any,
    /// Those of version 1.
    TimeBased,
}

pub(super) fn put_uuid(bytes: &[u8], kind: UuidKind, out: &mut Vec<u8>) -> Fitting {
    if kind == UuidKind::TimeBased && bytes.get(6).is_none_or(|byte| byte >> 4 != 1) {
        return Err(Misfit::new(
            sqlstate::INVALID_TEXT,
            "a timeuuid is a uuid of version 1, and this one is not",
        ));
    }
    out.extend_from_slice(bytes);
    Ok(())
}

/// Text of a type that is kept as something else, or not as all text.
pub(super) fn put_text(native: &NativeType, text: &str, out: &mut Vec<u8>) -> Fitting {
    let bad = |what: &str| {
        Misfit::new(
            sqlstate::INVALID_TEXT,
            format!("invalid input for type {what}: \"{}\"", excerpt(text)),
        )
    };
    match native {
        NativeType::Ascii if !text.is_ascii() => return Err(bad("ascii")),
        NativeType::Inet => match text.trim().parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => out.extend_from_slice(&address.octets()),
            Ok(IpAddr::V6(address)) => out.extend_from_slice(&address.octets()),
            Err(_) => return Err(bad("inet")),
        },
        NativeType::Duration => Span::parse(text.trim()).ok_or_else(|| bad("duration"))?.put(out),
        _ => out.extend_from_slice(text.as_bytes()),
    }
    Ok(())
}

/// A number of any size, as plain text.
pub(super) fn put_numeric(native: &NativeType, text: &str, out: &mut Vec<u8>) -> Fitting {
    let bytes = match native {
        NativeType::Varint => {
            // Zeros behind the point change nothing.
            let whole = match text.split_once('.') {
                Some((whole, zeros)) if zeros.bytes().all(|b| b == b'0') => whole,
                Some(_) => {
                    return Err(Misfit::new(
                        sqlstate::WOULD_CHANGE,
                        format!("{} is no integer", excerpt(text)),
                    ));
                }
                None => text,
            };
            number::to_twos_complement(whole.as_bytes())
        }
        _ => number::to_decimal(text.as_bytes()),
    };
    let finite = text.bytes().any(|b| b.is_ascii_digit());
    out.extend(bytes.ok_or_else(|| match finite {
        true => Misfit::new(sqlstate::OUT_OF_RANGE, number::TOO_LONG),
        false => Misfit::new(
            sqlstate::OUT_OF_RANGE,
            format!("{text} has no equal in this type"),
        ),
    })?);
    Ok(())
}

/// Appends the binary form of a value that is given as text.
pub(super) fn put_scalar(native: &NativeType, text: &str, out: &mut Vec<u8>) -> Fitting {
    if matches!(
        native,
        NativeType::Ascii | NativeType::Text | NativeType::Inet | NativeType::Duration
    ) {
        return put_text(native, text, out);
    }
    let ty = Kind::Scalar(native.clone()).column_type();
    let mut problems = Problems::default();
    let values = std::iter::once(Some(text.as_bytes()));
    let parsed = parse_column(&ty, "", values, &ParseContext::default(), &mut problems);
    if let Some((_, problem)) = problems.iter().next() {
        return Err(Misfit::new(sqlstate::INVALID_TEXT, problem.message.clone()));
    }
    match native {
        NativeType::Boolean => out.push(u8::from(parsed.as_boolean().value(0))),
        NativeType::Blob => out.extend_from_slice(parsed.as_binary::<i32>().value(0)),
        NativeType::TinyInt => put_tinyint(parsed.as_primitive::<Int16Type>().value(0), out)?,
        NativeType::SmallInt => {
            out.extend_from_slice(&parsed.as_primitive::<Int16Type>().value(0).to_be_bytes());
        }
        NativeType::Int => out.extend_from_slice(&parsed.as_primitive::<Int32Type>().value(0).to_be_bytes()),
        NativeType::BigInt => {
            out.extend_from_slice(&parsed.as_primitive::<Int64Type>().value(0).to_be_bytes());
        }
        NativeType::Float => {
            out.extend_from_slice(&parsed.as_primitive::<Float32Type>().value(0).to_be_bytes());
        }
        NativeType::Double => {
            out.extend_from_slice(&parsed.as_primitive::<Float64Type>().value(0).to_be_bytes());
        }
        NativeType::Decimal | NativeType::Varint => {
            put_numeric(native, parsed.as_string::<i32>().value(0), out)?;
        }
        NativeType::Date => put_date(parsed.as_primitive::<Date32Type>().value(0), out)?,
        NativeType::Time => put_time(parsed.as_primitive::<Time64MicrosecondType>().value(0), out)?,
        NativeType::Timestamp => {
            put_timestamp(parsed.as_primitive::<TimestampMicrosecondType>().value(0), out)?;
        }
        NativeType::Uuid => put_uuid(parsed.as_fixed_size_binary().value(0), UuidKind::Any, out)?,
        NativeType::Timeuuid => put_uuid(parsed.as_fixed_size_binary().value(0), UuidKind::TimeBased, out)?,
        _ => {
            return Err(Misfit::new(
                sqlstate::INVALID_TEXT,
                "a value of a type that is not known",
            ));
        }
    }
    Ok(())
}

fn fixed<const N: usize>(bytes: &[u8]) -> Fitting<[u8; N]> {
    bytes.try_into().map_err(|_| malformed())
}

/// An empty value of a type that has none, which only old applications have written, or something else unexpected.
pub(super) fn malformed() -> Misfit {
    Misfit::new(
        sqlstate::INVALID_TEXT,
        "a value without the bytes that its type has",
    )
}

/// Days since 1970, except those with a special meaning.
pub(super) fn finite_date(bytes: &[u8]) -> Fitting<i32> {
    let days = date(bytes)?;
    match stands_for_no_day(days) {
        true => Err(Misfit::new(
            sqlstate::DATETIME_OVERFLOW,
            "a date so far away that its number stands for another one",
        )),
        false => Ok(days),
    }
}

/// Days since 1970.
fn date(bytes: &[u8]) -> Fitting<i32> {
    Ok(u32::from_be_bytes(fixed(bytes)?).wrapping_sub(EPOCH_DAY) as i32)
}

/// Microseconds since midnight.
pub(super) fn time(bytes: &[u8]) -> Fitting<i64> {
    let nanos = i64::from_be_bytes(fixed(bytes)?);
    match nanos % THOUSAND {
        0 => Ok(nanos / THOUSAND),
        _ => Err(Misfit::new(
            sqlstate::WOULD_CHANGE,
            "a time with nanoseconds, which has no equal in microseconds",
        )),
    }
}

/// Microseconds since 1970, except those with a special meaning.
pub(super) fn finite_timestamp(bytes: &[u8]) -> Fitting<i64> {
    let micros = timestamp(bytes)?;
    match stands_for_no_time(micros) {
        true => Err(Misfit::new(
            sqlstate::DATETIME_OVERFLOW,
            "a time so far away that its number stands for another one",
        )),
        false => Ok(micros),
    }
}

/// Microseconds since 1970.
fn timestamp(bytes: &[u8]) -> Fitting<i64> {
    let millis = i64::from_be_bytes(fixed(bytes)?);
    millis.checked_mul(THOUSAND).ok_or_else(|| {
        Misfit::new(
            sqlstate::OUT_OF_RANGE,
            "an instant that microseconds do not reach",
        )
    })
}

fn text_of(bytes: &[u8]) -> Fitting<&str> {
    std::str::from_utf8(bytes).map_err(|_| malformed())
}

/// The text of a value, and whether it has no quotes in JSON.
pub(super) fn scalar_text(native: &NativeType, bytes: &[u8]) -> Fitting<(String, bool)> {
    let bare = |text: String| Ok((text, true));
    let quoted = |text: String| Ok((text, false));
    let float = |value: f64, text: String| Ok((text, value.is_finite()));
    match native {
        NativeType::Ascii | NativeType::Text => quoted(text_of(bytes)?.to_owned()),
        NativeType::Boolean => bare((fixed::<1>(bytes)?[0] != 0).to_string()),
        NativeType::Blob => quoted(
            bytes
                .iter()
                .fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}")),
        ),
        NativeType::TinyInt => bare(i8::from_be_bytes(fixed(bytes)?).to_string()),
        NativeType::SmallInt => bare(i16::from_be_bytes(fixed(bytes)?).to_string()),
        NativeType::Int => bare(i32::from_be_bytes(fixed(bytes)?).to_string()),
        NativeType::BigInt => bare(i64::from_be_bytes(fixed(bytes)?).to_string()),
        NativeType::Float => {
            let value = f32::from_be_bytes(fixed(bytes)?);
            float(value.into(), spelled(value, value.into()))
        }
        NativeType::Double => {
            let value = f64::from_be_bytes(fixed(bytes)?);
            float(value, spelled(value, value))
        }
        NativeType::Varint => bare(number::varint_text(bytes).ok_or_else(malformed)?),
        NativeType::Decimal => bare(number::decimal_text(bytes).ok_or_else(malformed)?),
        NativeType::Date => quoted(text_of_date(i64::from(date(bytes)?))),
        NativeType::Time => {
            let nanos = i64::from_be_bytes(fixed(bytes)?);
            let text = text_of_time(nanos / THOUSAND);
            match nanos % THOUSAND {
                0 => quoted(text),
                rest => {
                    let micros = nanos / THOUSAND % 1_000_000;
                    let seconds = text.split('.').next().unwrap_or_default();
                    quoted(format!("{seconds}.{micros:06}{rest:03}"))
                }
            }
        }
        NativeType::Timestamp => quoted(text_of_timestamp(timestamp(bytes)?) + "Z"),
        NativeType::Uuid | NativeType::Timeuuid => {
            quoted(uuid::Uuid::from_bytes(fixed(bytes)?).hyphenated().to_string())
        }
        NativeType::Inet => match bytes.len() {
            4 => quoted(IpAddr::from(fixed::<4>(bytes)?).to_string()),
            _ => quoted(IpAddr::from(fixed::<16>(bytes)?).to_string()),
        },
        NativeType::Duration => quoted(Span::take(bytes).ok_or_else(malformed)?.text()),
        _ => Err(malformed()),
    }
}

/// A float in the fewest digits that mean it.
fn spelled(shown: impl std::fmt::Debug, value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        value if value.is_infinite() => if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        _ => format!("{shown:?}"),
    }
}

/// The beginning of a value, for messages.
pub(super) fn excerpt(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}
