//! Values as text, for a target that keeps them so: what [`stored_texts`] writes, [`parse_stored`] reads back as exactly
//! that value.

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray},
    datatypes::{Date32Type, Time64MicrosecondType, TimestampMicrosecondType},
    util::display::{ArrayFormatter, FormatOptions},
};

use super::{
    ParseContext, far_date_text, far_timestamp_text, parse_column, stands_for_no_day, stands_for_no_time,
    text_of_time,
};
use crate::{
    digits::DAY_MICROS,
    error::{Error, Result, arrow_bug},
    reject::Problems,
    types::ColumnType,
};

/// [`parse_column`] for text that was made of values of this type, as a target keeps it: what does not fit is an error.
pub fn parse_stored<'a>(
    ty: &ColumnType,
    column: &str,
    values: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
) -> Result<ArrayRef> {
    let mut problems = Problems::default();
    let array = parse_column(ty, column, values, &ParseContext::default(), &mut problems);
    match problems.iter().next() {
        Some((_, problem)) => Err(Error::schema(&problem.message)),
        None => Ok(array),
    }
}

/// The values of a column of type `ty`, as text. None for a null, and for a number that stands for what no calendar or
/// clock has (`infinity`, a date with a zero, a time outside a day): it could be written, and not be read as an Arrow type
/// again. How values are written is decided once for all of them.
pub fn stored_texts(array: &ArrayRef, ty: &ColumnType) -> Result<Vec<Option<String>>> {
    let instants = |offset: &'static str| {
        each::<TimestampMicrosecondType>(array, move |micros| {
            (!stands_for_no_time(micros)).then(|| far_timestamp_text(micros, offset))
        })
    };
    Ok(match ty {
        ColumnType::Date => each::<Date32Type>(array, |days| {
            (!stands_for_no_day(days)).then(|| far_date_text(days.into()))
        }),
        ColumnType::Time => each::<Time64MicrosecondType>(array, |micros| {
            (0..=DAY_MICROS).contains(&micros).then(|| text_of_time(micros))
        }),
        ColumnType::Timestamp => instants(""),
        ColumnType::TimestampTz => instants("+00"),
        // Arrow shows bytes as bare hexadecimal digits, which are text without this sign.
        ColumnType::Bytes => shown(array, "\\x")?,
        _ => shown(array, "")?,
    })
}

fn each<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    text: impl Fn(T::Native) -> Option<String>,
) -> Vec<Option<String>> {
    let values = array.as_primitive::<T>().iter();
    values.map(|value| value.and_then(&text)).collect()
}

fn shown(array: &ArrayRef, prefix: &str) -> Result<Vec<Option<String>>> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array, &options).map_err(arrow_bug)?;
    let text = |row| {
        let text = formatter.value(row).try_to_string().map_err(arrow_bug)?;
        Ok(Some(format!("{prefix}{text}")).filter(|_| array.is_valid(row)))
    };
    (0..array.len()).map(text).collect()
}
