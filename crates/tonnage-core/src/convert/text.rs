//! Truth values, text, bytes and uuids.

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, FixedSizeBinaryArray},
    datatypes::DataType,
};

use super::{boxed, values::texts};
use crate::{
    parse::{Fault, Notes, ParseContext, TextColumn, check_text, parse_values, shown},
    reject::sqlstate,
    types::ColumnType,
};

/// From truth values to truth values or text. None for other types.
pub(super) fn from_bool(array: &BooleanArray, ty: &ColumnType, notes: &mut Notes<'_>) -> Option<ArrayRef> {
    match ty {
        ColumnType::Bool => boxed(array.clone()),
        ColumnType::Text { .. } | ColumnType::Char { .. } => {
            let values: Vec<bool> = array.values().iter().collect();
            boxed(texts(&values, array.nulls(), ty, notes, |truth, text| {
                text.push_str(if truth { "true" } else { "false" });
                Ok(())
            }))
        }
        _ => None,
    }
}

/// From text to any type: checked where it stays text, read as text files are where it does not.
pub(super) fn from_text(
    array: &ArrayRef,
    ty: &ColumnType,
    context: &ParseContext,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    if *ty == ColumnType::Bytes && !context.bytes_as_written {
        return match array.data_type() {
            DataType::Utf8 => bytes_of_texts(array.as_string::<i32>().iter(), notes),
            DataType::LargeUtf8 => bytes_of_texts(array.as_string::<i64>().iter(), notes),
            DataType::Utf8View => bytes_of_texts(array.as_string_view().iter(), notes),
            _ => None,
        };
    }
    match array.data_type() {
        DataType::Utf8 if ty.is_text() => boxed(check_text(array.as_string(), ty, notes)),
        DataType::Utf8 => {
            let values = array.as_string::<i32>().iter().map(|v| v.map(str::as_bytes));
            Some(parse_values(ty, values, context, notes))
        }
        DataType::LargeUtf8 => {
            let values = array.as_string::<i64>().iter().map(|v| v.map(str::as_bytes));
            Some(parse_values(ty, values, context, notes))
        }
        DataType::Utf8View => {
            let values = array.as_string_view().iter().map(|v| v.map(str::as_bytes));
            Some(parse_values(ty, values, context, notes))
        }
        _ => None,
    }
}

/// The bytes of texts as they are. A text that begins as bytes in hexadecimal do may be either: it is refused.
fn bytes_of_texts<'a>(
    values: impl ExactSizeIterator<Item = Option<&'a str>>,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    let mut column = TextColumn::with_capacity(values.len());
    for (row, value) in values.enumerate() {
        let pushed = match value {
            None => {
                column.push_null();
                continue;
            }
            Some(text) if text.starts_with("\\x") => {
                column.push_null();
                Err(Fault::new(
                    sqlstate::WOULD_CHANGE,
                    format!(
                        "{} is text, which may say bytes in hexadecimal or be them",
                        shown(text.as_bytes())
                    ),
                )
                .hint("make it bytes in the source, or load it into a column of text"))
            }
            Some(text) => column.push(text.as_bytes()),
        };
        if let Err(fault) = pushed {
            notes.add(row, *fault);
        }
    }
    let (offsets, bytes, nulls) = column.into_parts();
    boxed(BinaryArray::new(offsets, bytes, nulls))
}

/// From bytes to bytes; those of a fixed length of 16 also to a uuid and, where they are known to be one, to
/// its text. None for other types.
pub(super) fn from_bytes(array: &ArrayRef, ty: &ColumnType, notes: &mut Notes<'_>) -> Option<ArrayRef> {
    match (array.data_type(), ty) {
        (DataType::Binary, ColumnType::Bytes) => Some(array.clone()),
        (DataType::LargeBinary, ColumnType::Bytes) => gather(array.as_binary::<i64>().iter(), notes),
        (DataType::BinaryView, ColumnType::Bytes) => gather(array.as_binary_view().iter(), notes),
        (DataType::FixedSizeBinary(_), ColumnType::Bytes) => {
            gather(array.as_fixed_size_binary().iter(), notes)
        }
        (DataType::FixedSizeBinary(16), ColumnType::Uuid) => Some(array.clone()),
        (DataType::FixedSizeBinary(16), ColumnType::Text { .. } | ColumnType::Char { .. }) => {
            Some(text_of_uuids(array.as_fixed_size_binary(), ty, notes))
        }
        _ => None,
    }
}

fn gather<'a>(
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    let mut column = TextColumn::with_capacity(values.len());
    for (row, value) in values.enumerate() {
        let Some(value) = value else {
            column.push_null();
            continue;
        };
        if let Err(fault) = column.push(value) {
            notes.add(row, *fault);
        }
    }
    let (offsets, bytes, nulls) = column.into_parts();
    boxed(BinaryArray::new(offsets, bytes, nulls))
}

fn text_of_uuids(array: &FixedSizeBinaryArray, ty: &ColumnType, notes: &mut Notes<'_>) -> ArrayRef {
    let rows: Vec<usize> = (0..array.len()).collect();
    let text = texts(&rows, array.nulls(), ty, notes, |row, text| {
        // Sixteen bytes, by the array's type.
        if let Ok(uuid) = uuid::Uuid::from_slice(array.value(row)) {
            text.push_str(uuid.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()));
        }
        Ok(())
    });
    std::sync::Arc::new(text)
}
