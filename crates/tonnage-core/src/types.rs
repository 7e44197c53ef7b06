//! The types a column can have, and the one Arrow type that carries each.
//!
//! A source is brought to these types once, a target encodes from these types once: N mappings, not N x M.

use std::{collections::HashMap, fmt, str::FromStr, sync::Arc};

use arrow::datatypes::{DataType, Field, TimeUnit};

use crate::error::{Error, Result};

/// The metadata key of an Arrow field under which this crate keeps a column's [`ColumnType`].
pub const TYPE_METADATA: &str = "tonnage.type";

/// What a column holds, in no database's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, schemars::JsonSchema)]
pub enum ColumnType {
    /// True or false. Arrow `Boolean`.
    Bool,
    /// Signed 16 bits. Arrow `Int16`.
    Int16,
    /// Signed 32 bits. Arrow `Int32`.
    Int32,
    /// Signed 64 bits. Arrow `Int64`.
    Int64,
    /// IEEE single. Arrow `Float32`.
    Float32,
    /// IEEE double. Arrow `Float64`.
    Float64,
    /// Exact decimal with at most 38 digits, `scale` of them after the point (0 <= scale <= precision).
    /// Arrow `Decimal128`.
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// Exact decimal of any size, carried as its plain decimal text (`-12.50`, `NaN`, `Infinity`). Arrow `Utf8`.
    Numeric,
    /// Text. Arrow `Utf8`.
    Text {
        /// The most characters (not bytes) the column takes.
        chars_max: Option<u32>,
    },
    /// Blank-padded text: trailing spaces mean nothing. Arrow `Utf8`.
    Char {
        /// The column's width in characters.
        chars: u32,
    },
    /// Bytes. Arrow `Binary`.
    Bytes,
    /// Calendar date. Arrow `Date32`.
    Date,
    /// Time of day in microseconds. Arrow `Time64(Microsecond)`.
    Time,
    /// Date and time of no zone, in microseconds. Arrow `Timestamp(Microsecond, None)`.
    Timestamp,
    /// An instant, in microseconds. Arrow `Timestamp(Microsecond, "UTC")`.
    TimestampTz,
    /// 16 bytes. Arrow `FixedSizeBinary(16)`.
    Uuid,
    /// JSON text. Arrow `Utf8`.
    Json,
    /// A column that takes any value as it is (SQLite without a declared type). Never in a plan: it is resolved to
    /// the source's type before.
    Any,
}

impl ColumnType {
    /// Text without a limit.
    pub const TEXT: Self = Self::Text { chars_max: None };

    /// Whether values are numbers.
    pub fn is_number(&self) -> bool {
        matches!(
            self,
            Self::Int16
                | Self::Int32
                | Self::Int64
                | Self::Float32
                | Self::Float64
                | Self::Decimal { .. }
                | Self::Numeric
        )
    }

    /// The Arrow type that carries this type through the engine.
    pub fn arrow(&self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale as i8),
            Self::Numeric | Self::Text { .. } | Self::Char { .. } | Self::Json | Self::Any => DataType::Utf8,
            Self::Bytes => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
            Self::Uuid => DataType::FixedSizeBinary(16),
        }
    }

    /// The Arrow field of a column of this type. Its metadata says what the Arrow type does not: the type itself under
    /// [`TYPE_METADATA`], and JSON and uuids as Arrow's extension types.
    pub fn field(&self, name: &str, nullable: bool) -> Field {
        let mut metadata = HashMap::from([(TYPE_METADATA.to_owned(), self.to_string())]);
        let extension = match self {
            Self::Json => Some("arrow.json"),
            Self::Uuid => Some("arrow.uuid"),
            _ => None,
        };
        if let Some(extension) = extension {
            metadata.insert("ARROW:extension:name".to_owned(), extension.to_owned());
        }
        Field::new(name, self.arrow(), nullable).with_metadata(metadata)
    }

    /// The type that [`ColumnType::field`] has noted in `field`, where it is carried as that type still.
    pub fn of_field(field: &Field) -> Option<Self> {
        let noted: Self = field.metadata().get(TYPE_METADATA)?.parse().ok()?;
        (noted.arrow() == *field.data_type()).then_some(noted)
    }

    /// Whether values are UTF-8 text in Arrow and free text to the database.
    pub fn is_text(&self) -> bool {
        matches!(self, Self::Text { .. } | Self::Char { .. } | Self::Json)
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int16 => f.write_str("int16"),
            Self::Int32 => f.write_str("int32"),
            Self::Int64 => f.write_str("int64"),
            Self::Float32 => f.write_str("float32"),
            Self::Float64 => f.write_str("float64"),
            Self::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Self::Numeric => f.write_str("numeric"),
            Self::Text { chars_max: None } => f.write_str("text"),
            Self::Text { chars_max: Some(n) } => write!(f, "varchar({n})"),
            Self::Char { chars } => write!(f, "char({chars})"),
            Self::Bytes => f.write_str("bytes"),
            Self::Date => f.write_str("date"),
            Self::Time => f.write_str("time"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::TimestampTz => f.write_str("timestamptz"),
            Self::Uuid => f.write_str("uuid"),
            Self::Json => f.write_str("json"),
            Self::Any => f.write_str("any"),
        }
    }
}

/// The names that `--type` takes without a size, with the SQL spellings people are used to.
pub const NAMES: &[(&str, ColumnType)] = &[
    ("bool", ColumnType::Bool),
    ("boolean", ColumnType::Bool),
    ("int16", ColumnType::Int16),
    ("smallint", ColumnType::Int16),
    ("int2", ColumnType::Int16),
    ("int32", ColumnType::Int32),
    ("int", ColumnType::Int32),
    ("int4", ColumnType::Int32),
    ("integer", ColumnType::Int32),
    ("int64", ColumnType::Int64),
    ("int8", ColumnType::Int64),
    ("bigint", ColumnType::Int64),
    ("float32", ColumnType::Float32),
    ("float4", ColumnType::Float32),
    ("real", ColumnType::Float32),
    ("float64", ColumnType::Float64),
    ("float8", ColumnType::Float64),
    ("double", ColumnType::Float64),
    ("numeric", ColumnType::Numeric),
    ("decimal", ColumnType::Numeric),
    ("text", ColumnType::TEXT),
    ("string", ColumnType::TEXT),
    ("varchar", ColumnType::TEXT),
    ("bytes", ColumnType::Bytes),
    ("bytea", ColumnType::Bytes),
    ("blob", ColumnType::Bytes),
    ("date", ColumnType::Date),
    ("time", ColumnType::Time),
    ("timestamp", ColumnType::Timestamp),
    ("datetime", ColumnType::Timestamp),
    ("timestamptz", ColumnType::TimestampTz),
    ("uuid", ColumnType::Uuid),
    ("json", ColumnType::Json),
];

impl FromStr for ColumnType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim().to_ascii_lowercase();
        if let Some((_, ty)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(*ty);
        }
        let unknown = || {
            Error::config(format!("unknown type '{text}'")).hint(
                "types are bool, int16, int32, int64, float32, float64, decimal(p,s), numeric, text, varchar(n), \
                 char(n), bytes, date, time, timestamp, timestamptz, uuid, json",
            )
        };
        let (name, arguments) = text
            .strip_suffix(')')
            .and_then(|t| t.split_once('('))
            .ok_or_else(unknown)?;
        let arguments: Vec<u32> = arguments
            .split(',')
            .map(|a| a.trim().parse())
            .collect::<Result<_, _>>()
            .map_err(|_| unknown())?;
        match (name.trim(), arguments.as_slice()) {
            ("decimal" | "numeric", [p]) => decimal(*p, 0).ok_or_else(unknown),
            ("decimal" | "numeric", [p, s]) => decimal(*p, *s).ok_or_else(unknown),
            ("varchar" | "text", [n]) if *n > 0 => Ok(Self::Text { chars_max: Some(*n) }),
            ("char", [n]) if *n > 0 => Ok(Self::Char { chars: *n }),
            _ => Err(unknown()),
        }
    }
}

/// The type of an exact decimal: `Decimal` while 38 digits do, else `Numeric`; none where scale exceeds precision.
pub fn decimal(precision: u32, scale: u32) -> Option<ColumnType> {
    match (precision, scale) {
        (0, _) => None,
        (p, s) if s > p => None,
        (p, s) if p <= 38 => Some(ColumnType::Decimal {
            precision: p as u8,
            scale: s as u8,
        }),
        _ => Some(ColumnType::Numeric),
    }
}
