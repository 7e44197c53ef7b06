//! Declared types: what SQLite makes of them, and what people mean by them.
//!
//! SQLite gives a column an **affinity** from its declared type (<https://sqlite.org/datatype3.html>) and
//! rewrites values to suit it. This module says both what a declared type means to this crate and which
//! affinity it brings; the encoder sees to it that no value is rewritten. Declared lengths and precisions are
//! not enforced by SQLite: lengths are not taken for limits, a precision of at most 15 digits is taken for a
//! decimal because a double keeps it.

use tonnage_core::{extent::Extent, types::ColumnType};

/// The digits of a decimal that a double gives back unchanged.
pub(super) const DOUBLE_DIGITS: u8 = 15;

/// What a column does to values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Affinity {
    /// Takes anything as it is: BLOB affinity, ANY in a STRICT table.
    None,
    /// Numbers become text.
    Text,
    /// Text that looks like a number becomes one, reals become integers where that is exact.
    Numeric,
    /// As `Numeric`; its casts differ, its storage does not.
    Integer,
    /// As `Numeric`, and integers become reals.
    Real,
}

/// Whether a table takes values of other types than its columns declare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Typing {
    Flexible,
    /// A STRICT table.
    Strict,
}

/// The affinity of a declared type.
pub(super) fn affinity(declared: &str, typing: Typing) -> Affinity {
    let declared = declared.to_ascii_uppercase();
    if typing == Typing::Strict && declared == "ANY" {
        return Affinity::None;
    }
    let has = |part: &str| declared.contains(part);
    if has("INT") {
        Affinity::Integer
    } else if has("CHAR") || has("CLOB") || has("TEXT") {
        Affinity::Text
    } else if has("BLOB") || declared.is_empty() {
        Affinity::None
    } else if has("REAL") || has("FLOA") || has("DOUB") {
        Affinity::Real
    } else {
        Affinity::Numeric
    }
}

/// What a column of this declared type holds; none where this release cannot write it.
pub(super) fn column_type(declared: &str, typing: Typing) -> Option<ColumnType> {
    let upper = declared.trim().to_ascii_uppercase();
    let (name, arguments) = split(&upper);
    let meant = match name.as_str() {
        _ if typing == Typing::Strict => None,
        "BOOL" | "BOOLEAN" => Some(ColumnType::Bool),
        "DATE" => Some(ColumnType::Date),
        "TIME" | "TIME WITHOUT TIME ZONE" => Some(ColumnType::Time),
        "DATETIME" | "TIMESTAMP" | "TIMESTAMP WITHOUT TIME ZONE" => Some(ColumnType::Timestamp),
        "TIMESTAMPTZ" | "TIMESTAMP WITH TIME ZONE" => Some(ColumnType::TimestampTz),
        "UUID" | "GUID" => Some(ColumnType::Uuid),
        "JSON" => Some(ColumnType::Json),
        "DEC" | "DECIMAL" | "NUMERIC" | "NUMBER" => Some(decimal(&arguments)),
        // A time of day with a zone, and SQLite's own binary JSON, have no counterpart here.
        "TIMETZ" | "TIME WITH TIME ZONE" | "JSONB" => return None,
        _ => None,
    };
    Some(meant.unwrap_or_else(|| match affinity(declared, typing) {
        Affinity::Integer => ColumnType::Int64,
        Affinity::Text => ColumnType::TEXT,
        Affinity::Real => ColumnType::Float64,
        Affinity::None if upper.contains("BLOB") => ColumnType::Bytes,
        // A type that says nothing takes any value; the encoder refuses those that its affinity would
        // rewrite.
        Affinity::None | Affinity::Numeric => ColumnType::Any,
    }))
}

/// Name and arguments of `NAME (1, 2) REST`: `NAME REST` and `1, 2`.
fn split(upper: &str) -> (String, Vec<u32>) {
    let Some((name, rest)) = upper.split_once('(') else {
        return (words(upper), Vec::new());
    };
    let (arguments, rest) = rest.split_once(')').unwrap_or((rest, ""));
    let arguments = arguments
        .split(',')
        .filter_map(|argument| argument.trim().parse().ok())
        .collect();
    (words(&format!("{name} {rest}")), arguments)
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn decimal(arguments: &[u32]) -> ColumnType {
    let (precision, scale) = match arguments {
        [precision] => (*precision, 0),
        [precision, scale] => (*precision, *scale),
        _ => return ColumnType::Numeric,
    };
    if precision > u32::from(DOUBLE_DIGITS) {
        return ColumnType::Numeric;
    }
    tonnage_core::types::decimal(precision, scale).unwrap_or(ColumnType::Numeric)
}

/// The declared type of a column to be created. Its affinity keeps every value of `ty` that the encoder lets
/// through.
pub(super) fn declared(ty: &ColumnType) -> String {
    match ty {
        ColumnType::Bool => "BOOLEAN".to_owned(),
        ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64 => "INTEGER".to_owned(),
        ColumnType::Float32 | ColumnType::Float64 => "REAL".to_owned(),
        ColumnType::Decimal { precision, scale } if *precision <= DOUBLE_DIGITS => {
            format!("DECIMAL({precision},{scale})")
        }
        // Whole numbers of up to 18 digits are SQLite integers.
        ColumnType::Decimal { precision, scale: 0 } if *precision <= 18 => format!("DECIMAL({precision})"),
        ColumnType::Numeric => "NUMERIC".to_owned(),
        // Neither an integer nor a double holds them; text does.
        ColumnType::Decimal { .. } => "TEXT".to_owned(),
        ColumnType::Text { .. } | ColumnType::Char { .. } | ColumnType::Json => "TEXT".to_owned(),
        ColumnType::Bytes => "BLOB".to_owned(),
        ColumnType::Date => "DATE".to_owned(),
        ColumnType::Time => "TIME".to_owned(),
        ColumnType::Timestamp => "TIMESTAMP".to_owned(),
        ColumnType::TimestampTz => "TIMESTAMPTZ".to_owned(),
        ColumnType::Uuid => "UUID".to_owned(),
        ColumnType::Any => String::new(),
    }
}

/// The type of a column for values that take `extent`; see [`Target::column_type`](tonnage_core::target::Target::column_type).
pub(super) fn for_values(wanted: ColumnType, extent: &Extent) -> ColumnType {
    match wanted {
        // What is no integer is a double here, of whose digits 15 are certain.
        ColumnType::Numeric if !extent.long && extent.is_finite() => wanted,
        // A double that is NaN is stored as null.
        ColumnType::Numeric | ColumnType::Float64 if extent.nan => ColumnType::TEXT,
        ColumnType::Numeric if extent.rounded_by_double => ColumnType::TEXT,
        ColumnType::Numeric => ColumnType::Float64,
        wanted => wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_types() {
        let d = |precision, scale| ColumnType::Decimal { precision, scale };
        let cases = [
            ("", Affinity::None, Some(ColumnType::Any)),
            ("INTEGER", Affinity::Integer, Some(ColumnType::Int64)),
            ("unsigned big int", Affinity::Integer, Some(ColumnType::Int64)),
            ("POINT", Affinity::Integer, Some(ColumnType::Int64)),
            ("VARCHAR(10)", Affinity::Text, Some(ColumnType::TEXT)),
            ("national character (5)", Affinity::Text, Some(ColumnType::TEXT)),
            ("BLOB", Affinity::None, Some(ColumnType::Bytes)),
            ("DOUBLE PRECISION", Affinity::Real, Some(ColumnType::Float64)),
            ("float", Affinity::Real, Some(ColumnType::Float64)),
            ("boolean", Affinity::Numeric, Some(ColumnType::Bool)),
            ("DECIMAL(10, 2)", Affinity::Numeric, Some(d(10, 2))),
            ("NUMERIC(9)", Affinity::Numeric, Some(d(9, 0))),
            ("DECIMAL(20,2)", Affinity::Numeric, Some(ColumnType::Numeric)),
            ("NUMERIC", Affinity::Numeric, Some(ColumnType::Numeric)),
            ("DATE", Affinity::Numeric, Some(ColumnType::Date)),
            (
                "timestamp(6) with time zone",
                Affinity::Numeric,
                Some(ColumnType::TimestampTz),
            ),
            ("TIMESTAMPTZ", Affinity::Numeric, Some(ColumnType::TimestampTz)),
            ("JSON", Affinity::Numeric, Some(ColumnType::Json)),
            ("JSONB", Affinity::Numeric, None),
            ("STRING", Affinity::Numeric, Some(ColumnType::Any)),
            ("ANY", Affinity::Numeric, Some(ColumnType::Any)),
        ];
        for (declared, wanted_affinity, wanted_type) in cases {
            assert_eq!(
                affinity(declared, Typing::Flexible),
                wanted_affinity,
                "{declared}"
            );
            assert_eq!(column_type(declared, Typing::Flexible), wanted_type, "{declared}");
        }
        assert_eq!(affinity("ANY", Typing::Strict), Affinity::None);
        assert_eq!(column_type("ANY", Typing::Strict), Some(ColumnType::Any));
        assert_eq!(column_type("INT", Typing::Strict), Some(ColumnType::Int64));
    }

    #[test]
    fn a_created_column_reads_back_as_a_type_that_takes_the_same_values() {
        let d = |precision, scale| ColumnType::Decimal { precision, scale };
        let cases = [
            (ColumnType::Int16, ColumnType::Int64),
            (ColumnType::Float32, ColumnType::Float64),
            (ColumnType::Bool, ColumnType::Bool),
            (d(15, 4), d(15, 4)),
            (d(18, 0), ColumnType::Numeric),
            (d(38, 10), ColumnType::TEXT),
            (ColumnType::Numeric, ColumnType::Numeric),
            (ColumnType::Json, ColumnType::TEXT),
            (ColumnType::Bytes, ColumnType::Bytes),
            (ColumnType::Time, ColumnType::Time),
            (ColumnType::Timestamp, ColumnType::Timestamp),
            (ColumnType::TimestampTz, ColumnType::TimestampTz),
            (ColumnType::Uuid, ColumnType::Uuid),
        ];
        for (created, read) in cases {
            assert_eq!(
                column_type(&declared(&created), Typing::Flexible),
                Some(read),
                "{created}"
            );
        }
    }
}
