//! Values as text.
//!
//! - The text of a value is one that [`tonnage_core::parse`] reads back as exactly that value.
//! - How a column is written is decided once a column, by its type.

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray},
    datatypes::{Date32Type, Time64MicrosecondType, TimestampMicrosecondType},
    util::display::{ArrayFormatter, FormatOptions},
};
use tonnage_core::{ColumnType, Result, error::arrow_bug, parse};

/// The values of a column of type `ty`. None for a null, and for a number that stands for what no calendar or clock has
/// (`infinity`, a date with a zero, a time outside a day): it could be written, and not be read as an Arrow type again.
pub fn texts(array: &ArrayRef, ty: &ColumnType) -> Result<Vec<Option<String>>> {
    const DAY_MICROS: i64 = 86_400_000_000;
    let instants = |offset: &'static str| {
        each::<TimestampMicrosecondType>(array, move |micros| {
            (!parse::stands_for_no_time(micros)).then(|| parse::far_timestamp_text(micros, offset))
        })
    };
    Ok(match ty {
        ColumnType::Date => each::<Date32Type>(array, |days| {
            (!parse::stands_for_no_day(days)).then(|| parse::far_date_text(days.into()))
        }),
        ColumnType::Time => each::<Time64MicrosecondType>(array, |micros| {
            (0..=DAY_MICROS)
                .contains(&micros)
                .then(|| parse::text_of_time(micros))
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
