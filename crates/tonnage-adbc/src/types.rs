//! DuckDB's types and the crate's: one mapping each way.
//!
//! What a column cannot give or take exactly has no type here: INTERVAL, BIT, TIMETZ, TIME_NS, lists, structs, maps, unions
//! and the like. A cast that DuckDB would make with a loss (a fraction of a second into TIMESTAMP_S, `1.5` into HUGEINT) is
//! kept from it by [`Check`].

use tonnage_core::{
    extent::Extent,
    table::Equality,
    types::{ColumnType, decimal},
};

/// What is looked at on the client, since the cast of the database would change it in silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// Nothing.
    None,
    /// Microseconds are a multiple of so many.
    Tick(i64),
    /// Text is of a whole number.
    Whole,
}

/// A type as DuckDB's catalogue has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DuckType {
    /// What a column of it holds.
    pub(crate) ty: ColumnType,
    /// Whether values of `ty` are that column's without a cast, in both directions.
    pub(crate) as_it_is: bool,
    /// What is looked at before.
    pub(crate) check: Check,
    /// Whether equal values have equal bytes as `ty`.
    pub(crate) provable: bool,
}

impl DuckType {
    /// How keys of it compare.
    pub(crate) fn equality(self) -> Equality {
        match self.provable {
            true => Equality::Provable,
            false => Equality::ServerOnly,
        }
    }
}

/// The type of this name, as `duckdb_columns` and DESCRIBE write it; none where it cannot be carried exactly.
pub(crate) fn of_name(name: &str) -> Option<DuckType> {
    let of = |ty, as_it_is, provable| DuckType {
        ty,
        as_it_is,
        provable,
        check: Check::None,
    };
    let ticking = |micros| DuckType {
        check: Check::Tick(micros),
        ..of(ColumnType::Timestamp, false, true)
    };
    // A number of more digits than a decimal has comes as text, of which several forms are equal.
    let whole = DuckType {
        check: Check::Whole,
        ..of(ColumnType::Numeric, false, false)
    };
    Some(match name {
        "BOOLEAN" => of(ColumnType::Bool, true, true),
        "TINYINT" | "UTINYINT" => of(ColumnType::Int16, false, true),
        "SMALLINT" => of(ColumnType::Int16, true, true),
        "USMALLINT" => of(ColumnType::Int32, false, true),
        "INTEGER" => of(ColumnType::Int32, true, true),
        "UINTEGER" => of(ColumnType::Int64, false, true),
        "BIGINT" => of(ColumnType::Int64, true, true),
        "UBIGINT" => of(decimal(20, 0)?, false, true),
        "HUGEINT" | "UHUGEINT" | "BIGNUM" | "VARINT" => whole,
        "FLOAT" => of(ColumnType::Float32, true, false),
        "DOUBLE" => of(ColumnType::Float64, true, false),
        "VARCHAR" => of(ColumnType::TEXT, true, true),
        "JSON" => of(ColumnType::Json, false, false),
        "BLOB" => of(ColumnType::Bytes, true, true),
        "DATE" => of(ColumnType::Date, true, true),
        "TIME" => of(ColumnType::Time, true, true),
        "TIMESTAMP" => of(ColumnType::Timestamp, true, true),
        "TIMESTAMP_S" => ticking(1_000_000),
        "TIMESTAMP_MS" => ticking(1_000),
        "TIMESTAMP_NS" => of(ColumnType::Timestamp, false, true),
        "TIMESTAMP WITH TIME ZONE" => of(ColumnType::TimestampTz, true, true),
        "UUID" => of(ColumnType::Uuid, false, true),
        _ if name.starts_with("ENUM(") && name.ends_with(')') => of(ColumnType::TEXT, false, true),
        _ => {
            let digits = name.strip_prefix("DECIMAL(")?.strip_suffix(')')?;
            let (precision, scale) = digits.split_once(',')?;
            of(
                decimal(precision.trim().parse().ok()?, scale.trim().parse().ok()?)?,
                true,
                true,
            )
        }
    })
}

/// The declared type of a column to be made. Decimals without a limit and more digits than 38 have no type but text.
pub(crate) fn declared(ty: &ColumnType) -> String {
    match ty {
        ColumnType::Bool => "BOOLEAN".to_owned(),
        ColumnType::Int16 => "SMALLINT".to_owned(),
        ColumnType::Int32 => "INTEGER".to_owned(),
        ColumnType::Int64 => "BIGINT".to_owned(),
        ColumnType::Float32 => "FLOAT".to_owned(),
        ColumnType::Float64 => "DOUBLE".to_owned(),
        ColumnType::Decimal { precision, scale } => format!("DECIMAL({precision},{scale})"),
        ColumnType::Numeric | ColumnType::Text { .. } | ColumnType::Char { .. } | ColumnType::Any => {
            "VARCHAR".to_owned()
        }
        ColumnType::Json => "JSON".to_owned(),
        ColumnType::Bytes => "BLOB".to_owned(),
        ColumnType::Date => "DATE".to_owned(),
        ColumnType::Time => "TIME".to_owned(),
        ColumnType::Timestamp => "TIMESTAMP".to_owned(),
        ColumnType::TimestampTz => "TIMESTAMPTZ".to_owned(),
        ColumnType::Uuid => "UUID".to_owned(),
    }
}

/// The type by which values of `ty` reach the database, in its words.
pub(crate) fn carried(ty: &ColumnType) -> String {
    match ty {
        ColumnType::Uuid | ColumnType::Json => "VARCHAR".to_owned(),
        other => declared(other),
    }
}

/// The type of a column for values that take `extent`; see [`Target::column_type`](tonnage_core::target::Target::column_type).
pub(crate) fn for_values(wanted: ColumnType, extent: &Extent) -> ColumnType {
    /// Digits of the widest decimal.
    const DIGITS: u32 = 38;
    let ColumnType::Numeric = wanted else {
        return wanted;
    };
    let wide = extent
        .scale(DIGITS, DIGITS)
        .and_then(|places| decimal(DIGITS, places));
    match wide {
        Some(wide) if extent.is_finite() => wide,
        _ if extent.rounded_by_double || extent.long => ColumnType::TEXT,
        _ => ColumnType::Float64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types() {
        let cases = [
            ("UTINYINT", Some(ColumnType::Int16), Check::None),
            ("UBIGINT", decimal(20, 0), Check::None),
            ("HUGEINT", Some(ColumnType::Numeric), Check::Whole),
            ("DECIMAL(18,3)", decimal(18, 3), Check::None),
            ("TIMESTAMP_S", Some(ColumnType::Timestamp), Check::Tick(1_000_000)),
            (
                "TIMESTAMP WITH TIME ZONE",
                Some(ColumnType::TimestampTz),
                Check::None,
            ),
            ("ENUM('a', 'b')", Some(ColumnType::TEXT), Check::None),
            ("JSON", Some(ColumnType::Json), Check::None),
        ];
        for (name, ty, check) in cases {
            let found = of_name(name);
            assert_eq!(found.map(|found| found.ty), ty, "{name}");
            assert_eq!(found.map(|found| found.check), Some(check), "{name}");
        }
        for name in [
            "INTERVAL",
            "BIT",
            "TIME WITH TIME ZONE",
            "TIME_NS",
            "INTEGER[]",
            "INTEGER[3]",
            "STRUCT(a INTEGER)",
            "MAP(INTEGER, VARCHAR)",
            "UNION(a INTEGER, b VARCHAR)",
            "GEOMETRY",
            "VARIANT",
            "ENUM('a')[]",
            "",
        ] {
            assert_eq!(of_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_created_column_reads_back_as_a_type_that_takes_the_same_values() {
        for ty in [
            "bool",
            "int16",
            "int32",
            "int64",
            "float32",
            "float64",
            "decimal(38,38)",
            "decimal(1,0)",
            "text",
            "bytes",
            "date",
            "time",
            "timestamp",
            "uuid",
            "json",
        ] {
            let ty: ColumnType = ty.parse().unwrap();
            assert_eq!(of_name(&declared(&ty)).map(|found| found.ty), Some(ty), "{ty}");
        }
    }
}
