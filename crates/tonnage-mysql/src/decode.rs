//! Rows of the binary protocol as Arrow columns: the mirror image of `encode`.
//!
//! The driver hands out a row at a time; they are gathered and then decoded column by column, each by the one function
//! of its type. A value that has no exact form in its column's type (a zero date, a time beyond a day) is an error that
//! names its row, where they are not carried ([`BeyondArrow`]): nothing is converted that `encode` would not have stored so.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, ArrowPrimitiveType, BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder, PrimitiveArray,
        PrimitiveBuilder, RecordBatch, StringBuilder,
    },
    datatypes::{
        DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
        SchemaRef, Time64MicrosecondType, TimestampMicrosecondType,
    },
};
use mysql_async::Value;
use tonnage_core::{
    digits::DAY_MICROS,
    error::{Error, ErrorKind, Result, arrow_bug},
    parse::{self, POWERS_OF_TEN, PartialDate},
    reader::{BeyondArrow, ReadColumn, schema},
    types::ColumnType,
};

use super::{
    encode::{HAS_SYSTEM, SYSTEM_BYTES},
    types::is_geometry,
};

/// Rows as they came.
pub(super) type Rows = Vec<Vec<Value>>;

/// Why a value has no form in its column's type.
type Misfit = String;

/// The first value that does not fit.
struct Wrong {
    row: usize,
    misfit: Misfit,
}

type Decode = fn(&Rows, usize, ColumnType) -> std::result::Result<ArrayRef, Wrong>;

/// Makes batches of rows.
pub(super) struct Decoder {
    schema: SchemaRef,
    columns: Vec<(ColumnType, Decode)>,
    /// Positions of the columns that name a row in messages.
    naming: Vec<usize>,
}

impl Decoder {
    /// For rows of `columns`, which messages identify by the columns `key`.
    pub fn new(columns: &[ReadColumn], key: &[String], beyond_arrow: BeyondArrow) -> Result<Self> {
        let decoders = columns.iter().map(|column| {
            let bug = || Error::bug(format!("column '{}' is read as {}", column.name, column.ty));
            let decode = match column.ty {
                ColumnType::Bytes if is_geometry(&column.declared) => Some(geometries as Decode),
                ty if beyond_arrow == BeyondArrow::Carried => beyond_decoder(ty).or_else(|| decoder(ty)),
                ty => decoder(ty),
            };
            Ok((column.ty, decode.ok_or_else(bug)?))
        });
        Ok(Self {
            schema: schema(columns),
            columns: decoders.collect::<Result<_>>()?,
            naming: key
                .iter()
                .filter_map(|name| columns.iter().position(|column| column.name == *name))
                .collect(),
        })
    }

    /// A batch of all `rows`.
    pub fn decode(&self, rows: &Rows) -> Result<RecordBatch> {
        let arrays =
            self.columns.iter().enumerate().map(|(at, (ty, decode))| {
                decode(rows, at, *ty).map_err(|wrong| self.misfit(rows, at, &wrong))
            });
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(arrow_bug)
    }

    fn misfit(&self, rows: &Rows, at: usize, wrong: &Wrong) -> Error {
        let name = |at: usize| self.schema.field(at).name();
        let column = name(at);
        let others = self.naming.iter().filter(|named| **named != at);
        let named: Vec<_> = others
            .filter_map(|named| {
                let value = rows.get(wrong.row)?.get(*named)?;
                Some(format!("{} = {}", name(*named), shown(value)))
            })
            .collect();
        let place = match named.is_empty() {
            true => format!("column '{column}'"),
            false => format!("column '{column}' of the row with {}", named.join(", ")),
        };
        let error = Error::new(ErrorKind::Schema, format!("{place}: {}", wrong.misfit));
        let as_integer = match self.schema.field(at).data_type() {
            DataType::Boolean => "; tinyint1=int in the URL as an integer",
            _ => "",
        };
        error.hint(format!(
            "--text {column} gives it as the database's own text{as_integer}"
        ))
    }
}

/// Bytes that a row takes in memory, about.
pub(super) fn weight(row: &[Value]) -> usize {
    let values = row.iter().map(|value| match value {
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    });
    size_of_val(row) + values.sum::<usize>()
}

/// A value for people.
fn shown(value: &Value) -> String {
    const CHARS_MAX: usize = 40;
    match value {
        Value::NULL => "null".to_owned(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.chars().take(CHARS_MAX).collect(),
            Err(_) => {
                let digits = bytes.iter().take(CHARS_MAX / 2);
                digits.fold("0x".to_owned(), |text, byte| format!("{text}{byte:02X}"))
            }
        },
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Date(year, month, day, hour, minute, second, micros) => {
            let date = format!("{year:04}-{month:02}-{day:02}");
            match (hour, minute, second, micros) {
                (0, 0, 0, 0) => date,
                (_, _, _, 0) => format!("{date} {hour:02}:{minute:02}:{second:02}"),
                _ => format!("{date} {hour:02}:{minute:02}:{second:02}.{micros:06}"),
            }
        }
        Value::Time(negative, days, hours, minutes, seconds, micros) => {
            let sign = if *negative { "-" } else { "" };
            let hours = u64::from(*days) * 24 + u64::from(*hours);
            let time = format!("{sign}{hours:02}:{minutes:02}:{seconds:02}");
            match micros {
                0 => time,
                micros => format!("{time}.{micros:06}"),
            }
        }
    }
}

/// Of types that have values which Arrow's do not.
fn beyond_decoder(ty: ColumnType) -> Option<Decode> {
    Some(match ty {
        ColumnType::Date => |rows, at, _| primitives::<Date32Type>(rows, at, any_day),
        ColumnType::Time => |rows, at, _| primitives::<Time64MicrosecondType>(rows, at, any_time),
        ColumnType::Timestamp => {
            |rows, at, _| primitives::<TimestampMicrosecondType>(rows, at, any_timestamp)
        }
        ColumnType::TimestampTz => |rows, at, ty| {
            let array = collected::<TimestampMicrosecondType>(rows, at, any_timestamp, &ty)?;
            Ok(Arc::new(array.with_data_type(ty.arrow())))
        },
        _ => return None,
    })
}

fn decoder(ty: ColumnType) -> Option<Decode> {
    Some(match ty {
        ColumnType::Bool => bools,
        ColumnType::Int16 => |rows, at, _| {
            primitives::<Int16Type>(rows, at, |value| integer(value).and_then(|n| n.try_into().ok()))
        },
        ColumnType::Int32 => |rows, at, _| {
            primitives::<Int32Type>(rows, at, |value| integer(value).and_then(|n| n.try_into().ok()))
        },
        ColumnType::Int64 => |rows, at, _| {
            primitives::<Int64Type>(rows, at, |value| integer(value).and_then(|n| n.try_into().ok()))
        },
        ColumnType::Float32 => |rows, at, _| {
            primitives::<Float32Type>(rows, at, |value| match value {
                Value::Float(number) => Some(*number),
                _ => None,
            })
        },
        ColumnType::Float64 => |rows, at, _| {
            primitives::<Float64Type>(rows, at, |value| match value {
                Value::Double(number) => Some(*number),
                Value::Float(number) => Some(f64::from(*number)),
                _ => None,
            })
        },
        ColumnType::Decimal { .. } => decimals,
        ColumnType::Numeric | ColumnType::Text { .. } | ColumnType::Char { .. } | ColumnType::Json => texts,
        ColumnType::Bytes => bytes,
        ColumnType::Date => |rows, at, _| primitives::<Date32Type>(rows, at, day),
        ColumnType::Time => |rows, at, _| primitives::<Time64MicrosecondType>(rows, at, time),
        ColumnType::Timestamp => |rows, at, _| primitives::<TimestampMicrosecondType>(rows, at, timestamp),
        ColumnType::TimestampTz => |rows, at, ty| {
            let array = collected::<TimestampMicrosecondType>(rows, at, timestamp, &ty)?;
            Ok(Arc::new(array.with_data_type(ty.arrow())))
        },
        ColumnType::Uuid => uuids,
        ColumnType::Any => return None,
    })
}

/// Every value of a column; `wanted` is what a value that `take` refuses should have been.
fn each<'a>(
    rows: &'a Rows,
    at: usize,
    wanted: &ColumnType,
    mut take: impl FnMut(Option<&'a Value>) -> Option<()>,
) -> std::result::Result<(), Wrong> {
    for (row, values) in rows.iter().enumerate() {
        let value = values.get(at).filter(|value| **value != Value::NULL);
        if take(value).is_none() {
            let found = value.map_or_else(|| "nothing".to_owned(), shown);
            return Err(Wrong {
                row,
                misfit: format!("'{found}' is not a {wanted}"),
            });
        }
    }
    Ok(())
}

trait Primitive: ArrowPrimitiveType {
    const TYPE: ColumnType;
}

macro_rules! primitive {
    ($($arrow:ty => $ty:ident),* $(,)?) => {
        $(impl Primitive for $arrow { const TYPE: ColumnType = ColumnType::$ty; })*
    };
}

primitive! {
    Int16Type => Int16,
    Int32Type => Int32,
    Int64Type => Int64,
    Float32Type => Float32,
    Float64Type => Float64,
    Date32Type => Date,
    Time64MicrosecondType => Time,
    TimestampMicrosecondType => Timestamp,
}

fn primitives<T: Primitive>(
    rows: &Rows,
    at: usize,
    read: impl Fn(&Value) -> Option<T::Native>,
) -> std::result::Result<ArrayRef, Wrong> {
    Ok(Arc::new(collected::<T>(rows, at, read, &T::TYPE)?))
}

fn collected<T: ArrowPrimitiveType>(
    rows: &Rows,
    at: usize,
    read: impl Fn(&Value) -> Option<T::Native>,
    ty: &ColumnType,
) -> std::result::Result<PrimitiveArray<T>, Wrong> {
    let mut builder = PrimitiveBuilder::<T>::with_capacity(rows.len());
    each(rows, at, ty, |value| {
        match value {
            Some(value) => builder.append_value(read(value)?),
            None => builder.append_null(),
        }
        Some(())
    })?;
    Ok(builder.finish())
}

/// A whole number. Bits are asked for as such.
fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::UInt(number) => Some(i128::from(*number)),
        _ => None,
    }
}

fn bools(rows: &Rows, at: usize, ty: ColumnType) -> std::result::Result<ArrayRef, Wrong> {
    let mut builder = BooleanBuilder::with_capacity(rows.len());
    each(rows, at, &ty, |value| {
        match value.map(integer) {
            None => builder.append_null(),
            Some(Some(number @ (0 | 1))) => builder.append_value(number == 1),
            Some(_) => return None,
        }
        Some(())
    })?;
    Ok(Arc::new(builder.finish()))
}

/// Decimals come as text, unsigned integers of 64 bits as integers.
fn decimals(rows: &Rows, at: usize, ty: ColumnType) -> std::result::Result<ArrayRef, Wrong> {
    let ColumnType::Decimal { precision, scale } = ty else {
        return texts(rows, at, ty);
    };
    let decimal = parse::Decimal { precision, scale };
    let array = collected::<Decimal128Type>(
        rows,
        at,
        |value| match value {
            Value::Bytes(text) => decimal.read(text).ok(),
            value => integer(value)?.checked_mul(POWERS_OF_TEN[usize::from(scale)]),
        },
        &ty,
    )?;
    Ok(Arc::new(array.with_data_type(ty.arrow())))
}

fn texts(rows: &Rows, at: usize, ty: ColumnType) -> std::result::Result<ArrayRef, Wrong> {
    let mut builder = StringBuilder::new();
    each(rows, at, &ty, |value| {
        match value {
            None => builder.append_null(),
            Some(Value::Bytes(bytes)) => builder.append_value(std::str::from_utf8(bytes).ok()?),
            Some(_) => return None,
        }
        Some(())
    })?;
    Ok(Arc::new(builder.finish()))
}

fn bytes(rows: &Rows, at: usize, ty: ColumnType) -> std::result::Result<ArrayRef, Wrong> {
    let mut builder = BinaryBuilder::new();
    each(rows, at, &ty, |value| {
        match value {
            None => builder.append_null(),
            Some(Value::Bytes(bytes)) => builder.append_value(bytes),
            Some(_) => return None,
        }
        Some(())
    })?;
    Ok(Arc::new(builder.finish()))
}

/// Geometries as well-known binary, in the extended form where they name a reference system.
fn geometries(rows: &Rows, at: usize, _: ColumnType) -> std::result::Result<ArrayRef, Wrong> {
    let mut builder = BinaryBuilder::new();
    let mut extended = Vec::new();
    for (row, values) in rows.iter().enumerate() {
        let known = match values.get(at) {
            Some(Value::Bytes(bytes)) => bytes.split_first_chunk::<SYSTEM_BYTES>(),
            _ => None,
        };
        match (values.get(at), known) {
            (Some(Value::NULL), _) => builder.append_null(),
            (_, Some(([0, 0, 0, 0], binary))) if !binary.is_empty() => builder.append_value(binary),
            (_, Some((system, [order @ 1, a, b, c, d, rest @ ..]))) => {
                let ty = u32::from_le_bytes([*a, *b, *c, *d]) | HAS_SYSTEM;
                extended.clear();
                extended.push(*order);
                extended.extend(ty.to_le_bytes());
                extended.extend(system);
                extended.extend(rest);
                builder.append_value(&extended);
            }
            (found, _) => {
                let found = found.map_or_else(|| "nothing".to_owned(), shown);
                return Err(Wrong {
                    row,
                    misfit: format!("'{found}' is not a geometry"),
                });
            }
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn uuids(rows: &Rows, at: usize, ty: ColumnType) -> std::result::Result<ArrayRef, Wrong> {
    let mut builder = FixedSizeBinaryBuilder::with_capacity(rows.len(), 16);
    each(rows, at, &ty, |value| {
        match value {
            None => builder.append_null(),
            Some(Value::Bytes(text)) => {
                let uuid = uuid::Uuid::try_parse_ascii(text).ok()?;
                builder.append_value(uuid.as_bytes()).ok()?;
            }
            Some(_) => return None,
        }
        Some(())
    })?;
    Ok(Arc::new(builder.finish()))
}

/// Days since 1970-01-01; none for a zero date, or one that the calendar does not have.
fn days(year: u16, month: u8, day: u8) -> Option<i64> {
    let date = jiff::civil::Date::new(
        year.try_into().ok()?,
        month.try_into().ok()?,
        day.try_into().ok()?,
    );
    // Year 0 is no year that a load would take.
    let date = date.ok().filter(|date| date.year() > 0)?;
    let since = date.duration_since(jiff::civil::Date::constant(1970, 1, 1));
    Some(since.as_hours() / 24)
}

fn day(value: &Value) -> Option<i32> {
    match value {
        Value::Date(year, month, day, ..) => days(*year, *month, *day)?.try_into().ok(),
        _ => None,
    }
}

fn timestamp(value: &Value) -> Option<i64> {
    match value {
        Value::Date(year, month, day, ..) => Some(days(*year, *month, *day)? * DAY_MICROS + of_day(value)),
        _ => None,
    }
}

/// Microseconds since midnight of a date and time.
fn of_day(value: &Value) -> i64 {
    match value {
        Value::Date(_, _, _, hour, minute, second, micros) => {
            let seconds = i64::from(*hour) * 3_600 + i64::from(*minute) * 60 + i64::from(*second);
            seconds * 1_000_000 + i64::from(*micros)
        }
        _ => 0,
    }
}

/// A date with a zero for its year, month or day.
fn partial(value: &Value) -> Option<PartialDate> {
    match value {
        Value::Date(year, month, day, ..) => PartialDate::new((*year).into(), (*month).into(), (*day).into()),
        _ => None,
    }
}

/// A day, or a date with a zero in it.
fn any_day(value: &Value) -> Option<i32> {
    day(value).or_else(|| partial(value).map(PartialDate::days))
}

/// A timestamp, or one of a date with a zero in it.
fn any_timestamp(value: &Value) -> Option<i64> {
    timestamp(value).or_else(|| {
        let of_day = Some(of_day(value)).filter(|micros| *micros < DAY_MICROS)?;
        Some(partial(value)?.micros(of_day))
    })
}

/// A time of day; none for a time that is none of a day's.
fn time(value: &Value) -> Option<i64> {
    any_time(value).filter(|micros| (0..DAY_MICROS).contains(micros))
}

/// A time, which may be outside a day.
fn any_time(value: &Value) -> Option<i64> {
    match value {
        Value::Time(negative, days, hours, minutes, seconds, micros) => {
            let hours = i64::from(*days) * 24 + i64::from(*hours);
            let seconds = hours * 3_600 + i64::from(*minutes) * 60 + i64::from(*seconds);
            let micros = seconds * 1_000_000 + i64::from(*micros);
            Some(if *negative { -micros } else { micros })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow::util::display::array_value_to_string;

    use super::*;

    fn column(name: &str, ty: ColumnType) -> ReadColumn {
        ReadColumn {
            element: None,
            name: name.to_owned(),
            ty,
            declared: String::new(),
            nullable: true,
        }
    }

    fn decoded(ty: ColumnType, value: Value) -> Result<String> {
        let columns = [column("id", ColumnType::Int32), column("v", ty)];
        let decoder = Decoder::new(&columns, &["id".to_owned()], BeyondArrow::Refused)?;
        let batch = decoder.decode(&vec![vec![Value::Int(7), value]])?;
        Ok(array_value_to_string(batch.column(1), 0).unwrap())
    }

    #[test]
    fn values_become_what_they_were() {
        let text = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
        for (ty, value, wanted) in [
            (ColumnType::Int16, Value::Int(-32_768), "-32768"),
            (ColumnType::Int64, Value::UInt(256), "256"),
            (ColumnType::Bool, Value::Int(1), "true"),
            (decimal(20, 0), Value::UInt(u64::MAX), "18446744073709551615"),
            (decimal(5, 2), text("-0.50"), "-0.50"),
            (ColumnType::Date, Value::Date(1, 1, 1, 0, 0, 0, 0), "0001-01-01"),
            (
                ColumnType::Timestamp,
                Value::Date(9999, 12, 31, 23, 59, 59, 999_999),
                "9999-12-31T23:59:59.999999",
            ),
            (
                ColumnType::Time,
                Value::Time(false, 0, 23, 59, 59, 1),
                "23:59:59.000001",
            ),
            (ColumnType::TEXT, Value::NULL, ""),
        ] {
            assert_eq!(decoded(ty, value).unwrap(), wanted, "{ty}");
        }
    }

    #[test]
    fn what_has_no_exact_form_names_its_row() {
        for (ty, value, wanted) in [
            (
                ColumnType::Date,
                Value::Date(0, 0, 0, 0, 0, 0, 0),
                "'0000-00-00' is not a date",
            ),
            (
                ColumnType::Date,
                Value::Date(2024, 2, 0, 0, 0, 0, 0),
                "'2024-02-00' is not a date",
            ),
            (
                ColumnType::Time,
                Value::Time(true, 0, 1, 0, 0, 0),
                "'-01:00:00' is not a time",
            ),
            (
                ColumnType::Time,
                Value::Time(false, 1, 2, 3, 4, 5),
                "'26:03:04.000005' is not a time",
            ),
            (ColumnType::Bool, Value::Int(2), "'2' is not a bool"),
            (ColumnType::TEXT, Value::Bytes(vec![255]), "'0xFF' is not a text"),
        ] {
            let error = decoded(ty, value).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("column 'v' of the row with id = 7: {wanted}")
            );
            let hint = match ty {
                ColumnType::Bool => {
                    "--text v gives it as the database's own text; tinyint1=int in the URL as an integer"
                }
                _ => "--text v gives it as the database's own text",
            };
            assert_eq!(error.hint_text(), Some(hint));
        }
    }
}
