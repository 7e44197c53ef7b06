//! The loops that every family shares: value by value, with the bad ones noted and null.

use arrow::{
    array::{ArrowPrimitiveType, PrimitiveArray, StringArray},
    buffer::NullBuffer,
};

use crate::{
    parse::{Notes, Parsed, TextColumn, TextLimit},
    types::ColumnType,
};

/// Makes a column of type `ty` from the values that are not null.
pub(super) fn map<S: Copy, T: ArrowPrimitiveType>(
    values: &[S],
    nulls: Option<&NullBuffer>,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
    convert: impl Fn(S) -> Parsed<T::Native>,
) -> PrimitiveArray<T> {
    let mut converted = Vec::with_capacity(values.len());
    let mut bad = Vec::new();
    for (row, value) in values.iter().enumerate() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            converted.push(T::Native::default());
            continue;
        }
        match convert(*value) {
            Ok(value) => converted.push(value),
            Err(fault) => {
                notes.add(row, *fault);
                bad.push(row);
                converted.push(T::Native::default());
            }
        }
    }
    let nulls = without(nulls, values.len(), &bad);
    PrimitiveArray::<T>::new(converted.into(), nulls).with_data_type(ty.arrow())
}

/// Makes a column of text of the values that are not null: `write` puts each into an empty string.
pub(super) fn texts<S: Copy>(
    values: &[S],
    nulls: Option<&NullBuffer>,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
    write: impl Fn(S, &mut String) -> Parsed<()>,
) -> StringArray {
    let limit = TextLimit::of(ty);
    let mut column = TextColumn::with_capacity(values.len());
    let mut text = String::new();
    for (row, value) in values.iter().enumerate() {
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            column.push_null();
            continue;
        }
        text.clear();
        let checked = write(*value, &mut text)
            .and_then(|()| limit.map_or(Ok(()), |limit| limit.check(text.as_bytes())));
        let pushed = match checked {
            Ok(()) => column.push(text.as_bytes()),
            Err(fault) => {
                column.push_null();
                Err(fault)
            }
        };
        if let Err(fault) = pushed {
            notes.add(row, *fault);
        }
    }
    column.into_text(notes)
}

/// `nulls` with the rows of `bad` among them.
pub(super) fn without(nulls: Option<&NullBuffer>, rows: usize, bad: &[usize]) -> Option<NullBuffer> {
    if bad.is_empty() {
        return nulls.cloned();
    }
    let mut valid: Vec<bool> = match nulls {
        Some(nulls) => nulls.iter().collect(),
        None => vec![true; rows],
    };
    for row in bad {
        valid[*row] = false;
    }
    Some(NullBuffer::from(valid))
}
