//! From the Arrow types a source brings to the one Arrow type of each [`ColumnType`], exactly or not at all.
//!
//! Invariants:
//! - What no value of a type could survive is refused before the first row ([`Conversion::plan`]); what some
//!   values survive is decided value by value, and the others are problems of their rows
//!   ([`Conversion::apply`]).
//! - A value is never rounded, truncated or made null. A float counts as the shortest decimal that reads back
//!   as it.
//! - A column that needs no change is passed through without a copy.
//!
//! A source type is first widened to the one that represents its family (all small integers to 64 bits,
//! dictionaries to their values), which no value can fail; then one loop a pair of family and column type
//! does the rest.

mod duration;
mod nested;
mod number;
mod text;
mod time;
mod values;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, new_null_array},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Field, Schema, TimeUnit},
};

pub use self::time::{refuse_partial_dates, shown_value, too_fine, with_nanos};
use crate::{
    error::{Error, Result},
    parse::{Notes, NullHint, ParseContext},
    reader::BeyondArrow,
    reject::Problems,
    source::{SourceColumn, SourceSchema},
    table::Column,
    types::{ColumnType, decimal},
};

/// How one column of a source becomes one column of a table. Made once a run, used for every block.
#[derive(Debug, Clone)]
pub struct Conversion {
    /// The table's column, for messages.
    column: String,
    /// What the source brings.
    source: DataType,
    /// What the table takes.
    ty: ColumnType,
    route: Route,
    /// What the source means by numbers far outside the calendar. In the converted column they always have a meaning.
    beyond_arrow: BeyondArrow,
    context: ParseContext,
}

/// The way from the one to the other.
#[derive(Debug, Clone, PartialEq)]
enum Route {
    /// As it is: the source has read it so, or every value of its type is one of the column's.
    Same,
    /// Every value is null.
    Nulls,
    /// Widen to this type, then by family.
    By(Family, DataType),
}

/// Source types that are converted alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Bool,
    /// As 64 bits, signed.
    Int,
    Float32,
    Float64,
    /// As 128 bits, of any scale.
    Decimal,
    Decimal256,
    Text,
    Bytes,
    /// Bytes of a fixed length of 16.
    Bytes16,
    /// The same, and the source says that they are uuids.
    Uuid,
    Date32,
    Date64,
    Time(TimeUnit),
    Timestamp(TimeUnit),
    TimestampTz(TimeUnit),
    Duration,
    /// Lists, maps and structs of what JSON can say.
    Nested,
}

impl Family {
    /// The family of a type and the type that represents it; none for what this release does not carry.
    fn of(source: &DataType) -> Option<(Self, DataType)> {
        let same = |family| Some((family, source.clone()));
        match source {
            DataType::Boolean => same(Self::Bool),
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32 => Some((Self::Int, DataType::Int64)),
            DataType::UInt64 => Some((Self::Decimal, DataType::Decimal128(20, 0))),
            DataType::Float16 | DataType::Float32 => Some((Self::Float32, DataType::Float32)),
            DataType::Float64 => same(Self::Float64),
            DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => {
                Some((Self::Decimal, DataType::Decimal128(*p, *s)))
            }
            DataType::Decimal128(..) => same(Self::Decimal),
            DataType::Decimal256(..) => same(Self::Decimal256),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => same(Self::Text),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => same(Self::Bytes),
            DataType::FixedSizeBinary(16) => same(Self::Bytes16),
            DataType::FixedSizeBinary(_) => same(Self::Bytes),
            DataType::Date32 => same(Self::Date32),
            DataType::Date64 => same(Self::Date64),
            DataType::Time32(unit) | DataType::Time64(unit) => same(Self::Time(*unit)),
            DataType::Timestamp(unit, None) => same(Self::Timestamp(*unit)),
            DataType::Timestamp(unit, Some(_)) => same(Self::TimestampTz(*unit)),
            DataType::Duration(_) | DataType::Interval(_) => same(Self::Duration),
            DataType::Dictionary(_, values) => Self::of(values),
            DataType::RunEndEncoded(_, values) => Self::of(values.data_type()),
            nested if nested::is_nested(nested) && nested::obstacle(nested).is_none() => same(Self::Nested),
            _ => None,
        }
    }

    /// Whether some value of this family can be exactly a value of `ty`.
    fn reaches(self, ty: &ColumnType) -> bool {
        use ColumnType as C;
        if matches!(ty, C::Text { .. } | C::Char { .. }) {
            return !matches!(self, Self::Bytes | Self::Bytes16);
        }
        match self {
            Self::Bool => matches!(ty, C::Bool),
            Self::Int => matches!(
                ty,
                C::Int16 | C::Int32 | C::Int64 | C::Float32 | C::Float64 | C::Decimal { .. } | C::Numeric
            ),
            Self::Decimal | Self::Decimal256 => {
                matches!(
                    ty,
                    C::Int16 | C::Int32 | C::Int64 | C::Float32 | C::Float64 | C::Decimal { .. } | C::Numeric
                )
            }
            Self::Float32 | Self::Float64 => {
                matches!(ty, C::Float32 | C::Float64 | C::Decimal { .. } | C::Numeric)
            }
            Self::Text => true,
            Self::Bytes => matches!(ty, C::Bytes),
            Self::Bytes16 | Self::Uuid => matches!(ty, C::Bytes | C::Uuid),
            Self::Date32 | Self::Date64 => matches!(ty, C::Date | C::Timestamp),
            Self::Time(_) => matches!(ty, C::Time),
            Self::Timestamp(_) => matches!(ty, C::Timestamp | C::TimestampTz),
            Self::TimestampTz(_) => matches!(ty, C::TimestampTz),
            // Text, which may be that of a type that has them.
            Self::Duration => false,
            Self::Nested => matches!(ty, C::Json),
        }
    }
}

impl Conversion {
    /// How `source` becomes `column`, whose values shall have type `ty` (not `Any`). `Schema` where no value could be
    /// carried exactly.
    pub fn plan(
        source: &SourceColumn,
        column: &Column,
        ty: ColumnType,
        context: &ParseContext,
    ) -> Result<Self> {
        let route = if ty == ColumnType::Any {
            return Err(Error::bug(format!("column '{}' has no type", column.name)));
        } else if innermost(&source.arrow) == &DataType::Null {
            Route::Nulls
        } else {
            route(source, column, &ty, context)?
        };
        Ok(Self {
            column: column.name.clone(),
            source: source.arrow.clone(),
            ty,
            route,
            beyond_arrow: source.beyond_arrow,
            context: context.clone(),
        })
    }

    /// What numbers far outside the calendar are in what is converted.
    pub fn beyond_arrow(&self) -> BeyondArrow {
        self.beyond_arrow
    }

    /// Converts the column of one block. The result has `ty.arrow()` as its type and as many rows as `array`;
    /// a value that cannot be carried exactly is noted in `problems` under its row and is null.
    pub fn apply(&self, array: &ArrayRef, problems: &mut Problems) -> Result<ArrayRef> {
        if array.data_type() != &self.source {
            return Err(Error::bug(format!(
                "column '{}' came as {}, not as {}",
                self.column,
                array.data_type(),
                self.source
            )));
        }
        let (family, wide) = match &self.route {
            Route::Same => return Ok(array.clone()),
            Route::Nulls => return Ok(new_null_array(&self.ty.arrow(), array.len())),
            Route::By(family, wide) => (*family, wide),
        };
        let mut notes = Notes {
            column: &self.column,
            problems,
            null_hint: NullHint::Withheld,
        };
        let array = self.widen(array, wide)?;
        let converted = self.convert(family, &array, &mut notes)?;
        if converted.data_type() != &self.ty.arrow() || converted.len() != array.len() {
            return Err(Error::bug(format!(
                "column '{}' became {} of {} rows",
                self.column,
                converted.data_type(),
                converted.len()
            )));
        }
        Ok(converted)
    }

    /// The array as the type that represents its family: a cast that no value can fail.
    fn widen(&self, array: &ArrayRef, wide: &DataType) -> Result<ArrayRef> {
        if array.data_type() == wide {
            return Ok(array.clone());
        }
        let options = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        cast_with_options(array, wide, &options).map_err(|cause| {
            Error::input(format!(
                "column '{}': a block of {} cannot be unpacked into {}: {cause}",
                self.column,
                shown_type(&self.source),
                shown_type(wide)
            ))
            .hint("a block's column holds at most 2 GiB")
            .caused_by(cause)
        })
    }

    fn convert(&self, family: Family, array: &ArrayRef, notes: &mut Notes<'_>) -> Result<ArrayRef> {
        let (ty, beyond_arrow) = (&self.ty, self.beyond_arrow);
        let converted = match family {
            Family::Bool => text::from_bool(array.as_boolean(), ty, notes),
            Family::Int => number::from_int(array.as_primitive(), ty, notes),
            Family::Float32 => number::from_float32(array.as_primitive(), ty, notes),
            Family::Float64 => number::from_float64(array.as_primitive(), ty, notes),
            Family::Decimal => number::from_decimal(array.as_primitive(), ty, notes),
            Family::Decimal256 => number::from_decimal256(array.as_primitive(), ty, notes),
            Family::Text => text::from_text(array, ty, &self.context, notes),
            Family::Bytes | Family::Bytes16 | Family::Uuid => text::from_bytes(array, ty, notes),
            Family::Date32 => time::from_date32(array.as_primitive(), beyond_arrow, ty, notes),
            Family::Date64 => time::from_date64(array.as_primitive(), beyond_arrow, ty, notes),
            Family::Time(unit) => time::from_time(array, unit, ty, notes),
            Family::Timestamp(unit) => {
                let ticks = time::Ticks { unit, beyond_arrow };
                time::from_timestamp(array, ticks, self.context.timezone.as_ref(), ty, notes)
            }
            Family::TimestampTz(unit) => {
                time::from_instant(array, time::Ticks { unit, beyond_arrow }, ty, notes)
            }
            Family::Duration => duration::from_duration(array, ty, notes).and_then(boxed),
            Family::Nested => {
                let made = nested::from_nested(array, ty, notes);
                boxed(made.map_err(|cause| {
                    Error::input(format!(
                        "column '{}': a block of {} cannot be unpacked: {cause}",
                        self.column,
                        shown_type(&self.source)
                    ))
                    .caused_by(cause)
                })?)
            }
        };
        converted.ok_or_else(|| {
            let (from, to) = (shown_type(&self.source), &self.ty);
            Error::bug(format!("column '{}': no way from {from} to {to}", self.column))
        })
    }
}

/// The way for a column that is not text to be read.
fn route(source: &SourceColumn, column: &Column, ty: &ColumnType, context: &ParseContext) -> Result<Route> {
    let place = if source.name == column.name {
        format!("column '{}'", column.name)
    } else {
        format!("column '{}' (in the source '{}')", column.name, source.name)
    };
    let from = shown_type(&source.arrow);
    let Some((mut family, wide)) = Family::of(&source.arrow) else {
        if let Some(why) =
            nested::obstacle(&source.arrow).filter(|_| nested::is_nested(innermost(&source.arrow)))
        {
            return Err(Error::schema(format!(
                "{place}: {from} cannot be carried as JSON, for it holds {why}"
            ))
            .hint("leave the column out with --columns, or write it as JSON text in the source"));
        }
        let why = match innermost(&source.arrow) {
            DataType::Union(..) => ", for neither columns nor JSON say of which type a value is",
            _ => "",
        };
        return Err(Error::schema(format!(
            "{place}: {from} cannot be carried into {ty} or any other type{why}"
        ))
        .hint("leave the column out with --columns, or write it as text or JSON text in the source"));
    };
    if family == Family::Bytes16 && source.suggested == Some(ColumnType::Uuid) {
        family = Family::Uuid;
    }
    if !family.reaches(ty) {
        return Err(
            Error::schema(format!("{place}: {from} cannot be carried exactly into {ty}"))
                .hint(refusal_hint(family, source.suggested)),
        );
    }
    let naive = matches!(family, Family::Timestamp(_)) && *ty == ColumnType::TimestampTz;
    if naive && context.timezone.is_none() {
        return Err(Error::schema(format!(
            "{place}: {from} has no time zone and cannot be carried exactly into {ty}"
        ))
        .hint("name the zone of the source's times: --timezone ZONE"));
    }
    let unchecked = matches!(
        family,
        Family::Bool
            | Family::Int
            | Family::Float32
            | Family::Float64
            | Family::Bytes
            | Family::Bytes16
            | Family::Uuid
    );
    if unchecked && source.arrow == ty.arrow() {
        return Ok(Route::Same);
    }
    Ok(Route::By(family, wide))
}

/// What to do about a pair of types that do not meet.
fn refusal_hint(family: Family, suggested: Option<ColumnType>) -> String {
    let advice = match family {
        Family::Float32 | Family::Float64 => "round the values to integers in the source",
        Family::TimestampTz(_) => "convert the times to ones without a zone in the source",
        Family::Bytes | Family::Bytes16 => "decode the bytes to text in the source",
        _ => "convert the values in the source",
    };
    match suggested {
        Some(ty) => format!("{advice}, or load them into a column of type {ty}"),
        None => advice.to_owned(),
    }
}

/// The type of the values, however they are packed.
pub fn innermost(source: &DataType) -> &DataType {
    match source {
        DataType::Dictionary(_, values) => innermost(values),
        DataType::RunEndEncoded(_, values) => innermost(values.data_type()),
        _ => source,
    }
}

/// An Arrow type in the words that this crate uses for its own, or in those of its family.
pub fn shown_type(source: &DataType) -> String {
    match innermost(source) {
        DataType::Boolean => "bool".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "bytes".to_owned(),
        DataType::FixedSizeBinary(bytes) => format!("bytes of length {bytes}"),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => format!("decimal({p},{s})"),
        DataType::Date32 | DataType::Date64 => "date".to_owned(),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("time in {}", shown_unit(unit)),
        DataType::Timestamp(unit, None) => format!("timestamp in {}", shown_unit(unit)),
        DataType::Timestamp(unit, Some(_)) => format!("timestamptz in {}", shown_unit(unit)),
        DataType::Duration(_) => "a duration".to_owned(),
        DataType::Interval(_) => "an interval".to_owned(),
        DataType::List(_)
        | DataType::ListView(_)
        | DataType::LargeList(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..) => "a list".to_owned(),
        DataType::Struct(_) => "a struct".to_owned(),
        DataType::Map(..) => "a map".to_owned(),
        DataType::Union(..) => "a union".to_owned(),
        // int8 .. uint64, float16 .. float64, null
        other => other.to_string().to_ascii_lowercase(),
    }
}

fn shown_unit(unit: &TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "seconds",
        TimeUnit::Millisecond => "milliseconds",
        TimeUnit::Microsecond => "microseconds",
        TimeUnit::Nanosecond => "nanoseconds",
    }
}

/// What batches of `schema` hold, as a source of them has it; messages call them `shown`.
pub fn schema_of_batches(shown: &str, schema: &Schema) -> SourceSchema {
    let columns = schema.fields().iter().map(|field| SourceColumn {
        beyond_arrow: BeyondArrow::Refused,
        null_word: None,
        name: field.name().clone(),
        arrow: field.data_type().clone(),
        suggested: suggested(field),
        nullable: field.is_nullable(),
    });
    SourceSchema {
        shown: shown.into(),
        columns: columns.collect(),
        named: true,
        text: false,
        header: false,
        notes: Vec::new(),
    }
}

/// The type a table's column would have that is made for an Arrow field: one that takes every value the field
/// can hold, but for times finer than a microsecond. What [`ColumnType::field`] has noted is honoured, and so are the
/// extension types `arrow.uuid` and `arrow.json`. None for what this release does not carry.
pub fn suggested(field: &Field) -> Option<ColumnType> {
    if let Some(noted) = ColumnType::of_field(field) {
        return Some(noted);
    }
    let extension = field.extension_type_name();
    let data_type = innermost(field.data_type());
    Some(match data_type {
        DataType::Null => ColumnType::TEXT,
        DataType::Boolean => ColumnType::Bool,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => ColumnType::Int16,
        DataType::UInt16 | DataType::Int32 => ColumnType::Int32,
        DataType::UInt32 | DataType::Int64 => ColumnType::Int64,
        DataType::UInt64 => ColumnType::Numeric,
        DataType::Float16 | DataType::Float32 => ColumnType::Float32,
        DataType::Float64 => ColumnType::Float64,
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => {
            let scale = u32::from(s.unsigned_abs());
            // A negative scale means zeros before the point.
            let (precision, scale) = if *s < 0 {
                (u32::from(*p) + scale, 0)
            } else {
                (u32::from(*p), scale)
            };
            decimal(precision, scale).unwrap_or(ColumnType::Numeric)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if extension == Some("arrow.json") => {
            ColumnType::Json
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnType::TEXT,
        DataType::FixedSizeBinary(16) if extension == Some("arrow.uuid") => ColumnType::Uuid,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            ColumnType::Bytes
        }
        DataType::Date32 | DataType::Date64 => ColumnType::Date,
        DataType::Time32(_) | DataType::Time64(_) => ColumnType::Time,
        DataType::Timestamp(_, None) => ColumnType::Timestamp,
        DataType::Timestamp(_, Some(_)) => ColumnType::TimestampTz,
        DataType::Duration(_) | DataType::Interval(_) => ColumnType::TEXT,
        nested if nested::is_nested(nested) && nested::obstacle(nested).is_none() => ColumnType::Json,
        _ => return None,
    })
}

/// A boxed array, for the loops of this module's families.
fn boxed(array: impl Array + 'static) -> Option<ArrayRef> {
    Some(Arc::new(array))
}
