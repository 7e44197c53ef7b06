//! Lists, maps and structs as JSON text.
//!
//! Numbers keep all their digits, times and durations are ISO 8601 text, and a map of text keys is an object. What JSON has no
//! word for is refused with the type (bytes, unions) or, where only some values are so, with the row (`NaN`, a
//! key that is there twice).

use std::{collections::HashSet, ops::Range};

use arrow::{
    array::{Array, ArrayRef, AsArray, LargeStringArray, StringArray},
    buffer::NullBuffer,
    compute::{CastOptions, cast_with_options},
    datatypes::DataType,
    error::ArrowError,
    util::display::{ArrayFormatter, FormatOptions},
};

use super::{duration, innermost, shown_type, values::texts};
use crate::{
    parse::{Fault, Notes, Parsed},
    reject::sqlstate,
    types::ColumnType,
};

/// The most bytes of one value's text: as many as a record of text has unless asked for. A list of nulls takes no room
/// where it comes from, and any amount of it as text.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// Whether a type is made of others.
pub(super) fn is_nested(source: &DataType) -> bool {
    matches!(
        source,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::ListView(_)
            | DataType::LargeListView(_)
            | DataType::Map(..)
            | DataType::Struct(_)
    )
}

/// Why a type has no JSON: what within it has none. None where it has.
pub(super) fn obstacle(source: &DataType) -> Option<String> {
    match innermost(source) {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => obstacle(item.data_type()),
        DataType::Struct(fields) => {
            let mut names = HashSet::new();
            if let Some(twice) = fields.iter().find(|field| !names.insert(field.name())) {
                return Some(format!("two fields '{}'", twice.name()));
            }
            fields.iter().find_map(|field| obstacle(field.data_type()))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => match fields.iter().as_slice() {
                [key, value] if is_text(innermost(key.data_type())) => obstacle(value.data_type()),
                _ => Some("keys that are not text".to_owned()),
            },
            other => Some(shown_type(other)),
        },
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_)
        | DataType::Union(..) => Some(shown_type(source)),
        _ => None,
    }
}

fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// A column of JSON text. The error is of a column that cannot be unpacked.
pub(super) fn from_nested(
    array: &ArrayRef,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Result<StringArray, ArrowError> {
    let node = Node::of(array)?;
    let rows: Vec<usize> = (0..array.len()).collect();
    Ok(texts(&rows, array.nulls(), ty, notes, |row, text| {
        node.write(row, text)
    }))
}

/// How the values of an array are written; made once an array.
struct Node {
    nulls: Option<NullBuffer>,
    kind: Kind,
}

enum Kind {
    Null,
    /// Numbers and truth values, which are written as they are.
    Bare(LargeStringArray),
    /// The same, some of which are no numbers of JSON.
    Float(LargeStringArray),
    /// Dates and times: what could not be written is null here though it was not.
    Time(LargeStringArray),
    Text(LargeStringArray),
    List(Vec<Range<usize>>, Box<Node>),
    Map(Vec<Range<usize>>, Box<Node>, Box<Node>),
    /// With their names as JSON has them.
    Struct(Vec<(String, Node)>),
}

impl Node {
    fn of(array: &ArrayRef) -> Result<Self, ArrowError> {
        let plain = innermost(array.data_type());
        if plain != array.data_type() {
            return Self::of(&cast(array, plain)?);
        }
        let leaf = || -> Result<LargeStringArray, ArrowError> {
            Ok(cast(array, &DataType::LargeUtf8)?.as_string().clone())
        };
        let kind = match plain {
            DataType::Null => Kind::Null,
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Kind::Float(leaf()?),
            DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(..) => Kind::Time(times(array)?),
            DataType::Duration(_) | DataType::Interval(_) => match duration::all(array) {
                Some(text) => Kind::Text(text),
                None => Kind::Bare(leaf()?),
            },
            plain if is_text(plain) => Kind::Text(leaf()?),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                let (first, ranges) = ranges(list.offsets().iter().map(|offset| *offset as usize));
                let values = list
                    .values()
                    .slice(first, ranges.last().map_or(0, |last| last.end));
                Kind::List(ranges, Box::new(Self::of(&values)?))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let (first, ranges) = ranges(list.offsets().iter().map(|offset| *offset as usize));
                let values = list
                    .values()
                    .slice(first, ranges.last().map_or(0, |last| last.end));
                Kind::List(ranges, Box::new(Self::of(&values)?))
            }
            DataType::ListView(_) => {
                let list = array.as_list_view::<i32>();
                let pairs = list.offsets().iter().zip(list.sizes().iter());
                let ranges = pairs.map(|(start, size)| *start as usize..(*start + *size) as usize);
                Kind::List(ranges.collect(), Box::new(Self::of(list.values())?))
            }
            DataType::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                let pairs = list.offsets().iter().zip(list.sizes().iter());
                let ranges = pairs.map(|(start, size)| *start as usize..(*start + *size) as usize);
                Kind::List(ranges.collect(), Box::new(Self::of(list.values())?))
            }
            DataType::FixedSizeList(_, size) => {
                let size = *size as usize;
                let ranges = (0..array.len()).map(|row| row * size..(row + 1) * size);
                let values = array.as_fixed_size_list().values();
                Kind::List(ranges.collect(), Box::new(Self::of(values)?))
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let (first, ranges) = ranges(map.offsets().iter().map(|offset| *offset as usize));
                let length = ranges.last().map_or(0, |last| last.end);
                let keys = Self::of(&map.keys().slice(first, length))?;
                let values = Self::of(&map.values().slice(first, length))?;
                Kind::Map(ranges, Box::new(keys), Box::new(values))
            }
            DataType::Struct(fields) => {
                let columns = fields.iter().zip(array.as_struct().columns());
                let members = columns.map(|(field, column)| Ok((quoted(field.name()), Self::of(column)?)));
                Kind::Struct(members.collect::<Result<_, ArrowError>>()?)
            }
            _ => Kind::Bare(leaf()?),
        };
        Ok(Self {
            nulls: array.logical_nulls(),
            kind,
        })
    }

    fn write(&self, row: usize, text: &mut String) -> Parsed<()> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            text.push_str("null");
            return Ok(());
        }
        match &self.kind {
            Kind::Null => text.push_str("null"),
            Kind::Bare(values) => text.push_str(values.value(row)),
            Kind::Float(values) => {
                let value = values.value(row);
                if value.ends_with(|last: char| last.is_ascii_alphabetic()) {
                    return Err(no_json(format!("{value} is no number of JSON")));
                }
                text.push_str(value);
            }
            Kind::Time(values) if values.is_null(row) => {
                return Err(no_json("a time within it is out of range".to_owned()));
            }
            Kind::Time(values) => {
                text.push('"');
                text.push_str(values.value(row));
                text.push('"');
            }
            Kind::Text(values) => text.push_str(&quoted(values.value(row))),
            Kind::List(ranges, items) => {
                text.push('[');
                for (count, item) in ranges[row].clone().enumerate() {
                    if count > 0 {
                        separate(text)?;
                    }
                    items.write(item, text)?;
                }
                text.push(']');
            }
            Kind::Map(ranges, keys, values) => {
                let mut seen = HashSet::new();
                text.push('{');
                for (count, entry) in ranges[row].clone().enumerate() {
                    if count > 0 {
                        separate(text)?;
                    }
                    let start = text.len();
                    keys.write(entry, text)?;
                    if !seen.insert(text[start..].to_owned()) {
                        return Err(no_json(format!("key {} is there twice", &text[start..])));
                    }
                    text.push(':');
                    values.write(entry, text)?;
                }
                text.push('}');
            }
            Kind::Struct(members) => {
                text.push('{');
                for (count, (name, member)) in members.iter().enumerate() {
                    if count > 0 {
                        separate(text)?;
                    }
                    text.push_str(name);
                    text.push(':');
                    member.write(row, text)?;
                }
                text.push('}');
            }
        }
        Ok(())
    }
}

/// Puts a comma, unless there is too much before it.
fn separate(text: &mut String) -> Parsed<()> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(no_json(format!("its text has more than {TEXT_BYTES_MAX} bytes")));
    }
    text.push(',');
    Ok(())
}

fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, to, &options)
}

/// Dates and times as ISO 8601; null where the calendar ends before.
fn times(array: &ArrayRef) -> Result<LargeStringArray, ArrowError> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array, &options)?;
    let text = |row: usize| match array.is_null(row) {
        true => None,
        false => formatter.value(row).try_to_string().ok(),
    };
    Ok((0..array.len()).map(text).collect())
}

/// Where the first value is, and the values of each row counted from it.
fn ranges(offsets: impl Iterator<Item = usize>) -> (usize, Vec<Range<usize>>) {
    let offsets: Vec<usize> = offsets.collect();
    let first = offsets.first().copied().unwrap_or(0);
    let rows = offsets
        .windows(2)
        .map(|pair| pair[0] - first..pair[1] - first)
        .collect();
    (first, rows)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn no_json(message: String) -> Box<Fault> {
    Fault::new(sqlstate::INVALID_TEXT, message)
}
