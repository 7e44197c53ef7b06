//! Rows for a table of which nothing is known but its columns, as CSV: values that its types take, no two rows alike.
//! What checks and references between columns ask for cannot be guessed; such a table refuses them by name.

use std::{collections::BTreeMap, fmt::Write};

use tonnage_core::{table::Column, types::ColumnType};

/// Characters of a text that may have more.
const TEXT_CHARS: u32 = 24;

/// `rows` rows of `columns`, which all have a type, below a header; those that `samples` names have its values.
pub(super) fn made_up(columns: &[&Column], samples: &BTreeMap<String, String>, rows: u64) -> String {
    let mut text = String::new();
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let names: Vec<_> = columns.iter().map(|column| quoted(&column.name)).collect();
    let _ = writeln!(text, "{}", names.join(","));
    for row in 0..rows {
        let values: Vec<_> = columns
            .iter()
            .map(|column| match samples.get(&column.name) {
                Some(sample) => quoted(sample),
                None => quoted(&value(column.ty.unwrap_or(ColumnType::Any), row)),
            })
            .collect();
        let _ = writeln!(text, "{}", values.join(","));
    }
    text
}

/// The value of a row in a column.
fn value(ty: ColumnType, row: u64) -> String {
    let date = || {
        format!(
            "{}-{:02}-{:02}",
            1990 + row / 336 % 100,
            row / 28 % 12 + 1,
            row % 28 + 1
        )
    };
    let time = || format!("{:02}:{:02}:{:02}", row / 3_600 % 24, row / 60 % 60, row % 60);
    match ty {
        ColumnType::Bool => row.is_multiple_of(2).to_string(),
        ColumnType::Int16 => (row % 32_767 + 1).to_string(),
        ColumnType::Int32 | ColumnType::Int64 | ColumnType::Numeric | ColumnType::Any => {
            (row + 1).to_string()
        }
        ColumnType::Float32 | ColumnType::Float64 => format!("{}.5", row % 1_000_000),
        ColumnType::Decimal { precision, scale } => match precision.saturating_sub(scale) {
            0 => format!("0.{}", digits(row, u32::from(scale))),
            whole => {
                let below = 10_u64.checked_pow(u32::from(whole)).unwrap_or(u64::MAX);
                ((row + 1) % below).to_string()
            }
        },
        ColumnType::Text { chars_max } => digits(row, chars_max.unwrap_or(TEXT_CHARS).min(TEXT_CHARS)),
        ColumnType::Char { chars } => digits(row, chars.min(TEXT_CHARS)),
        ColumnType::Bytes => format!("\\x{:024x}", row),
        ColumnType::Date => date(),
        ColumnType::Time => time(),
        ColumnType::Timestamp => format!("{} {}", date(), time()),
        ColumnType::TimestampTz => format!("{} {}+00:00", date(), time()),
        ColumnType::Uuid => format!("00000000-0000-4000-8000-{row:012x}"),
        ColumnType::Json => format!("{{\"row\": {row}}}"),
    }
}

/// The last `chars` digits of the row's number, with zeros before them.
fn digits(row: u64, chars: u32) -> String {
    let padded = format!("{:0>1$}", row + 1, chars as usize);
    padded[padded.len() - (chars as usize).min(padded.len())..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_of_their_type_and_differ() {
        for (ty, first) in [
            (ColumnType::Int16, "1"),
            (
                ColumnType::Decimal {
                    precision: 5,
                    scale: 2,
                },
                "1",
            ),
            (
                ColumnType::Decimal {
                    precision: 3,
                    scale: 3,
                },
                "0.001",
            ),
            (ColumnType::Text { chars_max: Some(4) }, "0001"),
            (ColumnType::TEXT, "000000000000000000000001"),
            (ColumnType::Date, "1990-01-01"),
            (ColumnType::TimestampTz, "1990-01-01 00:00:00+00:00"),
            (ColumnType::Uuid, "00000000-0000-4000-8000-000000000000"),
        ] {
            assert_eq!(value(ty, 0), first, "{ty}");
            assert_ne!(value(ty, 1), first, "{ty}");
        }
        assert_eq!(value(ColumnType::Int16, 32_767), "1");
        assert_eq!(
            value(
                ColumnType::Decimal {
                    precision: 2,
                    scale: 0
                },
                150
            ),
            "51"
        );
        assert_eq!(value(ColumnType::Char { chars: 2 }, 150), "51");
    }
}
