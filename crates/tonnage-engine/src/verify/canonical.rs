//! Values in the one form in which equal ones are equal bytes, and hashes of rows of them.
//!
//! Both sides have the types of the table by then, so what is left is what a type holds in several forms: zeros and NaNs of
//! floats, the zeros at the ends of decimals of any size, the blanks behind padded text, and JSON.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, StringArray},
    datatypes::{Float32Type, Float64Type},
    row::{RowConverter, Rows, SortField},
};
use serde_json::value::RawValue;
use tonnage_core::{
    error::{Result, arrow_bug},
    types::ColumnType,
};
use xxhash_rust::xxh3::xxh3_128;

/// Hashes rows of columns of these types.
pub(super) struct Hasher {
    types: Vec<ColumnType>,
    key_at: Vec<usize>,
    rows: RowConverter,
    /// None where the whole row is the key.
    keys: Option<RowConverter>,
}

/// Hashes of a batch, one a row.
pub(super) struct Hashes {
    /// Of the keys.
    pub keys: Vec<u128>,
    /// Of all compared columns.
    pub rows: Vec<u128>,
}

impl Hasher {
    /// Of columns of `types`, of which those at `key_at` are the key; empty takes whole rows.
    pub fn new(types: &[ColumnType], key_at: &[usize]) -> Result<Self> {
        let converter = |types: Vec<ColumnType>| {
            let fields = types.iter().map(|ty| SortField::new(ty.arrow()));
            RowConverter::new(fields.collect()).map_err(arrow_bug)
        };
        let keys = match key_at {
            [] => None,
            key_at => Some(converter(key_at.iter().map(|at| types[*at]).collect())?),
        };
        Ok(Self {
            types: types.to_vec(),
            key_at: key_at.to_vec(),
            rows: converter(types.to_vec())?,
            keys,
        })
    }

    /// The hashes of the rows of `batch`.
    pub fn hash(&self, batch: &RecordBatch) -> Result<Hashes> {
        let columns = canonical_columns(batch, &self.types);
        let rows = hashes(&self.rows.convert_columns(&columns).map_err(arrow_bug)?);
        let keys = match &self.keys {
            None => rows.clone(),
            Some(converter) => {
                let columns: Vec<_> = self.key_at.iter().map(|at| columns[*at].clone()).collect();
                hashes(&converter.convert_columns(&columns).map_err(arrow_bug)?)
            }
        };
        Ok(Hashes { keys, rows })
    }
}

fn hashes(rows: &Rows) -> Vec<u128> {
    rows.iter().map(|row| xxh3_128(row.as_ref())).collect()
}

/// The columns of `batch`, which are of `types`, with every value in the one form that all equal ones have.
pub(super) fn canonical_columns(batch: &RecordBatch, types: &[ColumnType]) -> Vec<ArrayRef> {
    let columns = batch.columns().iter().zip(types);
    columns.map(|(array, ty)| canonical(array, ty)).collect()
}

fn canonical(array: &ArrayRef, ty: &ColumnType) -> ArrayRef {
    let texts = |form: &dyn Fn(&str) -> String| -> ArrayRef {
        let texts = array.as_string::<i32>().iter();
        Arc::new(texts.map(|text| text.map(form)).collect::<StringArray>())
    };
    match ty {
        ColumnType::Float32 => {
            let plain = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(plain)) as ArrayRef
        }
        ColumnType::Float64 => {
            let plain = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(plain)) as ArrayRef
        }
        ColumnType::Numeric => texts(&number),
        ColumnType::Char { .. } => texts(&|text| text.trim_end_matches(' ').to_owned()),
        ColumnType::Json => texts(&|text| json(text).unwrap_or_else(|| text.to_owned())),
        _ => array.clone(),
    }
}

/// A decimal number without zeros at either end: `-1.50` is `-15e-1`. What is none stays as it is.
fn number(text: &str) -> String {
    parse_number(text.trim()).unwrap_or_else(|| text.to_owned())
}

fn parse_number(text: &str) -> Option<String> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    let kept = significant.trim_end_matches('0');
    if kept.is_empty() {
        return Some("0".to_owned());
    }
    let dropped = i64::try_from(significant.len() - kept.len()).ok()?;
    let exponent = exponent
        .checked_sub(i64::try_from(fraction.len()).ok()?)?
        .checked_add(dropped)?;
    Some(format!("{sign}{kept}e{exponent}"))
}

/// Objects and arrays within each other that are looked into, at most.
const NESTED_MAX: usize = 128;

/// JSON without spaces, the keys of objects in order, numbers by their value. None where it is no JSON, or is nested too
/// deep.
fn json(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    write_json(text.trim(), 0, &mut out)?;
    Some(out)
}

fn write_json(text: &str, depth: usize, out: &mut String) -> Option<()> {
    if depth > NESTED_MAX {
        return None;
    }
    match text.as_bytes().first()? {
        b'{' => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
            out.push('{');
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&serde_json::to_string(name).ok()?);
                out.push(':');
                write_json(value.get(), depth + 1, out)?;
            }
            out.push('}');
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            out.push('[');
            for (at, value) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json(value.get(), depth + 1, out)?;
            }
            out.push(']');
        }
        b'"' => {
            let text: String = serde_json::from_str(text).ok()?;
            out.push_str(&serde_json::to_string(&text).ok()?);
        }
        b't' | b'f' | b'n' => {
            serde_json::from_str::<&RawValue>(text).ok()?;
            out.push_str(text);
        }
        _ => out.push_str(&parse_number(text)?),
    }
    Some(())
}

/// Whether any of the columns at `key_at` is null in row `row`.
pub(super) fn has_null(batch: &RecordBatch, key_at: &[usize], row: usize) -> bool {
    key_at.iter().any(|at| batch.column(*at).is_null(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_form() {
        for alike in [
            &["1.5", "1.50", "+01.5", "15e-1", "0.15E1"][..],
            &["0", "-0", "0.00", "0e9", "-0.0"],
            &["100", "1e2", "100.00"],
        ] {
            for other in alike {
                assert_eq!(number(alike[0]), number(other), "{other}");
            }
        }
        assert_ne!(number("-1.5"), number("1.5"));
        assert_ne!(number("15"), number("1.5"));
        assert_eq!(number("NaN"), "NaN");
    }

    #[test]
    fn json_is_compared_by_value() {
        let alike = [r#"{"a": 1.0, "b": [true, null]}"#, r#" {"b":[true,null],"a":1}"#];
        assert_eq!(json(alike[0]), json(alike[1]));
        assert_ne!(json(r#"{"a": "1"}"#), json(r#"{"a": 1}"#));
        assert_ne!(
            json("[12345678901234567890123456789]"),
            json("[12345678901234567890123456780]")
        );
        assert_eq!(json(r#"["é"]"#), json(r#"["\u00e9"]"#));
        assert_eq!(json("no"), None);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(json(&deep), None);
    }
}
