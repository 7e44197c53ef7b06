//! The server's types and the crate's: one mapping each way.

use tonnage_core::{
    error::{Error, Result},
    extent::Extent,
    schema::Additions,
    table::{ColumnSpec, Equality, TableName, TableSpec, refused_columns, refused_names},
    target::KeyPart,
    types::{ColumnType, decimal},
};

use super::product::Version;

/// A column as it is declared.
#[derive(Debug, Clone, Default)]
pub(super) struct DeclaredColumn {
    pub name: String,
    pub has_default: bool,
    pub nullable: bool,
    pub data_type: String,
    /// The most characters.
    pub characters: Option<u64>,
    /// The most bytes.
    pub octets: Option<u64>,
    pub precision: Option<u64>,
    pub scale: Option<u64>,
    /// Digits of a second.
    pub digits: Option<u64>,
    pub collation: Option<String>,
    /// With everything in parentheses.
    pub column_type: String,
    pub extra: String,
    /// A check sees to it that it holds JSON.
    pub is_json: bool,
}

impl DeclaredColumn {
    pub fn second_digits(&self) -> u32 {
        self.digits.unwrap_or(0).min(6) as u32
    }

    /// Whether the server computes it; a default that is an expression is none.
    pub fn is_generated(&self) -> bool {
        let extra = self.extra.to_ascii_uppercase();
        extra.split([' ', ',']).any(|word| word == "GENERATED")
    }
}

/// What a column takes without changing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Integers from `least` to `most`; the bits of a bit column are one.
    Integer {
        /// The least.
        least: i128,
        /// The most.
        most: i128,
        /// Text would be taken for its bytes.
        bits: bool,
    },
    /// A year, or 0 for `0000`. One of two digits would be taken for one near 2000.
    Year,
    /// Single precision.
    Single {
        /// No negative ones.
        unsigned: bool,
        /// Digits after the point, where it keeps no more.
        scale: Option<u32>,
    },
    /// Double precision.
    Double {
        /// No negative ones.
        unsigned: bool,
        /// Digits after the point, where it keeps no more.
        scale: Option<u32>,
    },
    /// Exact decimals; digits beyond the scale would be rounded off.
    Decimal {
        /// Digits in all.
        precision: u32,
        /// Digits after the point.
        scale: u32,
        /// No negative ones.
        unsigned: bool,
    },
    /// Text of at most so many characters.
    Characters(u32),
    /// Text padded with spaces to so many characters.
    Padded(u32),
    /// Text of at most so many bytes.
    Text(u64),
    /// One of these.
    Label(Vec<String>),
    /// Any of these, with commas between.
    Labels(Vec<String>),
    /// Exactly so many bytes: fewer would be filled up.
    Binary(u64),
    /// At most so many bytes.
    Bytes(u64),
    /// A day.
    Date,
    /// A time of day, or a date and time, with so many digits of a second.
    Seconds(u32),
    /// 16 bytes as text.
    Uuid,
    /// An address of the internet of four bytes, as text.
    Inet4,
    /// One of sixteen.
    Inet6,
    /// A geometry, as the server keeps it.
    Geometry,
}

impl Kind {
    /// Makes a value of the text that LOAD DATA carries, where it is not the value already.
    pub fn of_text(&self, text: &str) -> Option<String> {
        match self {
            Self::Binary(_) | Self::Bytes(_) | Self::Geometry => Some(format!("UNHEX({text})")),
            Self::Integer { bits: true, .. } => Some(format!("CAST({text} AS UNSIGNED)")),
            _ => None,
        }
    }
}

/// How values of a column travel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Carried {
    /// As this.
    As(ColumnType, Kind),
    /// Not at all, and why, where there is more to say than that nobody has taught us.
    Not(Option<&'static str>),
}

/// Decides how values travel.
pub(super) fn carry(column: &DeclaredColumn, version: &Version) -> Carried {
    use Carried::{As, Not};
    let full = column.column_type.to_ascii_lowercase();
    let unsigned = full.contains(" unsigned");
    let integer = |bits: u32| match unsigned {
        true => (0, (1_i128 << bits) - 1),
        false => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
    };
    let integers = |ty: ColumnType, bits: u32| {
        let (least, most) = integer(bits);
        As(
            ty,
            Kind::Integer {
                least,
                most,
                bits: false,
            },
        )
    };
    let scale = column.scale.map(|scale| scale as u32);
    let bytes = column.octets;
    match column.data_type.to_ascii_lowercase().as_str() {
        // The type that BOOLEAN is a name for.
        "tinyint" if version.tinyint1_is_bool && full.starts_with("tinyint(1)") && !unsigned => As(
            ColumnType::Bool,
            Kind::Integer {
                least: 0,
                most: 1,
                bits: false,
            },
        ),
        "tinyint" => integers(ColumnType::Int16, 8),
        "smallint" if unsigned => integers(ColumnType::Int32, 16),
        "smallint" => integers(ColumnType::Int16, 16),
        "mediumint" => integers(ColumnType::Int32, 24),
        "int" | "integer" if unsigned => integers(ColumnType::Int64, 32),
        "int" | "integer" => integers(ColumnType::Int32, 32),
        "bigint" if unsigned => integers(UNSIGNED, 64),
        "bigint" => integers(ColumnType::Int64, 64),
        "year" if full == "year(2)" => Not(Some("of two digits")),
        "year" => As(ColumnType::Int16, Kind::Year),
        "bit" => {
            let width = column.precision.unwrap_or(1).clamp(1, 64) as u32;
            let ty = match width {
                1 => ColumnType::Bool,
                64 => UNSIGNED,
                _ => ColumnType::Int64,
            };
            As(
                ty,
                Kind::Integer {
                    least: 0,
                    most: (1_i128 << width) - 1,
                    bits: true,
                },
            )
        }
        "float" => As(ColumnType::Float32, Kind::Single { unsigned, scale }),
        "double" | "real" => As(ColumnType::Float64, Kind::Double { unsigned, scale }),
        "decimal" | "numeric" => {
            let precision = column.precision.unwrap_or(10) as u32;
            let scale = column.scale.unwrap_or(0) as u32;
            match decimal(precision, scale) {
                Some(ty) => As(
                    ty,
                    Kind::Decimal {
                        precision,
                        scale,
                        unsigned,
                    },
                ),
                None => Not(None),
            }
        }
        "char" => match column.characters {
            Some(chars @ 1..) => As(
                ColumnType::Char { chars: chars as u32 },
                Kind::Padded(chars as u32),
            ),
            _ => Not(Some("of no character")),
        },
        "varchar" => match column.characters {
            Some(chars @ 1..) => As(
                ColumnType::Text {
                    chars_max: Some(chars as u32),
                },
                Kind::Characters(chars as u32),
            ),
            _ => Not(Some("of no character")),
        },
        "json" => As(ColumnType::Json, Kind::Text(u64::from(u32::MAX))),
        "tinytext" | "text" | "mediumtext" | "longtext" => {
            let ty = match column.is_json {
                true => ColumnType::Json,
                false => ColumnType::TEXT,
            };
            As(ty, Kind::Text(bytes.unwrap_or(0)))
        }
        "enum" => labels(&column.column_type).map_or(Not(None), |l| As(ColumnType::TEXT, Kind::Label(l))),
        "set" => labels(&column.column_type).map_or(Not(None), |l| As(ColumnType::TEXT, Kind::Labels(l))),
        "binary" => As(ColumnType::Bytes, Kind::Binary(bytes.unwrap_or(1))),
        "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => {
            As(ColumnType::Bytes, Kind::Bytes(bytes.unwrap_or(0)))
        }
        "date" => As(ColumnType::Date, Kind::Date),
        "time" => As(ColumnType::Time, Kind::Seconds(column.second_digits())),
        "datetime" => As(ColumnType::Timestamp, Kind::Seconds(column.second_digits())),
        "timestamp" => As(ColumnType::TimestampTz, Kind::Seconds(column.second_digits())),
        "uuid" => As(ColumnType::Uuid, Kind::Uuid),
        "inet4" => As(ColumnType::TEXT, Kind::Inet4),
        "inet6" => As(ColumnType::TEXT, Kind::Inet6),
        name if is_geometry(name) => As(ColumnType::Bytes, Kind::Geometry),
        _ => Not(None),
    }
}

/// What a user should know of a column.
pub(super) fn note(name: &str, kind: &Kind) -> Option<String> {
    match kind {
        Kind::Single {
            scale: Some(scale), ..
        }
        | Kind::Double {
            scale: Some(scale), ..
        } => Some(format!(
            "{name} keeps {scale} digits after the point, as near as a binary fraction comes; more are refused"
        )),
        Kind::Inet4 | Kind::Inet6 => Some(format!("{name} keeps the address, not its spelling")),
        Kind::Geometry => Some(format!(
            "{name} travels as well-known binary (WKB), with its reference system (EWKB) where it has one"
        )),
        _ => None,
    }
}

/// Whether a column of this type, in the server's words, holds geometries.
pub(super) fn is_geometry(declared: &str) -> bool {
    const NAMES: [&str; 9] = [
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    ];
    NAMES.iter().any(|name| name.eq_ignore_ascii_case(declared))
}

/// Unsigned 64 bits.
pub(super) const UNSIGNED: ColumnType = ColumnType::Decimal {
    precision: 20,
    scale: 0,
};

/// The labels of `enum('a','it''s')`.
pub(super) fn labels(column_type: &str) -> Option<Vec<String>> {
    let list = column_type.split_once('(')?.1.strip_suffix(')')?;
    let mut labels = Vec::new();
    let mut characters = list.chars().peekable();
    loop {
        if characters.next()? != '\'' {
            return None;
        }
        let mut label = String::new();
        loop {
            match characters.next()? {
                '\'' if characters.peek() == Some(&'\'') => {
                    characters.next();
                    label.push('\'');
                }
                '\'' => break,
                character => label.push(character),
            }
        }
        labels.push(label);
        match characters.next() {
            None => return Some(labels),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

/// How keys compare. Only collations that compare bytes and pad nothing are known to the client.
pub(super) fn equality(column: &DeclaredColumn, carried: &Carried) -> Equality {
    let provable = match carried {
        Carried::Not(_) => false,
        Carried::As(_, kind) => match kind {
            Kind::Integer { .. }
            | Kind::Year
            | Kind::Decimal { .. }
            | Kind::Binary(_)
            | Kind::Bytes(_)
            | Kind::Date
            | Kind::Seconds(_)
            | Kind::Uuid => true,
            Kind::Characters(_) | Kind::Text(_) => column
                .collation
                .as_deref()
                .is_some_and(|name| name.ends_with("_nopad_bin") || name.ends_with("_0900_bin")),
            Kind::Single { .. }
            | Kind::Double { .. }
            | Kind::Padded(_)
            | Kind::Label(_)
            | Kind::Labels(_)
            | Kind::Inet4
            | Kind::Inet6
            | Kind::Geometry => false,
        },
    };
    // Decimals of more than 38 digits travel as text, and 1.0 is not 1.00.
    match (provable, carried) {
        (true, Carried::As(ColumnType::Numeric, _)) | (false, _) => Equality::ServerOnly,
        (true, _) => Equality::Provable,
    }
}

/// An identifier in SQL, always quoted.
pub(super) fn quote(identifier: &str) -> String {
    format!("`{}`", identifier.replace('`', "``"))
}

/// A table in SQL.
pub(super) fn quote_table(name: &TableName) -> String {
    match &name.schema {
        Some(schema) => format!("{}.{}", quote(schema), quote(&name.name)),
        None => quote(&name.name),
    }
}

/// The most characters of a varchar that can be a key by itself: 3,072 bytes of index, four a character.
pub(super) const KEY_CHARACTERS_MAX: u32 = 768;

/// The SQL type of a column to be created that is no part of a key.
pub(super) fn declared(ty: ColumnType) -> Option<String> {
    sql_type("c", ty, false).ok()
}

/// The SQL type of a column to be created. A key cannot be text without a limit.
fn sql_type(name: &str, ty: ColumnType, key: bool) -> Result<String> {
    Ok(match ty {
        ColumnType::Bool => "boolean".to_owned(),
        ColumnType::Int16 => "smallint".to_owned(),
        ColumnType::Int32 => "int".to_owned(),
        ColumnType::Int64 => "bigint".to_owned(),
        ColumnType::Float32 => "float".to_owned(),
        ColumnType::Float64 => "double".to_owned(),
        ColumnType::Decimal { precision, scale } if scale <= SCALE_MAX => {
            format!("decimal({precision},{scale})")
        }
        // There is no decimal without a limit; what does not fit the widest is a reject, and the plan shows it.
        ColumnType::Numeric => format!("decimal({PRECISION_MAX},{SCALE_MAX})"),
        ColumnType::Decimal { .. } => {
            return Err(Error::schema(format!(
                "column '{name}' is to be {ty}, and this database keeps at most 30 digits after the point"
            ))
            .hint(format!("take fewer: --type '{name}=decimal(38,30)'")));
        }
        ColumnType::Text { chars_max: Some(n) } if n <= KEY_CHARACTERS_MAX || !key => match n {
            // A row's columns have 65,535 bytes in common.
            1..=4_000 => format!("varchar({n})"),
            _ => "longtext".to_owned(),
        },
        ColumnType::Text { .. } | ColumnType::Json | ColumnType::Bytes if key => {
            return Err(Error::schema(format!(
                "column '{name}' is to be a key, and {ty} has no limit to its length"
            ))
            .hint(format!("give it one: --type '{name}=varchar(100)'")));
        }
        ColumnType::Text { .. } => "longtext".to_owned(),
        ColumnType::Char { chars } if chars <= 255 => format!("char({chars})"),
        ColumnType::Char { chars } => format!("varchar({chars})"),
        ColumnType::Bytes => "longblob".to_owned(),
        ColumnType::Date => "date".to_owned(),
        ColumnType::Time => "time(6)".to_owned(),
        ColumnType::Timestamp => "datetime(6)".to_owned(),
        ColumnType::TimestampTz => "timestamp(6)".to_owned(),
        ColumnType::Uuid => "uuid".to_owned(),
        ColumnType::Json => "json".to_owned(),
        ColumnType::Any => {
            return Err(Error::bug(format!(
                "column '{name}' is to be created without a type"
            )));
        }
    })
}

/// Digits that a decimal has at most, and how many of them after the point.
pub(super) const PRECISION_MAX: u32 = 65;
pub(super) const SCALE_MAX: u8 = 30;

/// The most columns of a table of InnoDB.
const COLUMNS_MAX: usize = 1_017;

/// Characters of an index that its columns of other types take at most, about.
const KEY_CHARACTERS_ELSE: u32 = 32;

/// Bytes of a row that its columns have in common, and what others than texts may take of them at most.
const ROW_BYTES: usize = 65_535 - 16_384;

/// A text of more bytes is one that a crowded row keeps apart.
const APART_BYTES: usize = 256;

/// Bytes that a text takes of those that a row's columns have in common.
fn row_bytes(ty: &ColumnType) -> usize {
    match ty {
        ColumnType::Text {
            chars_max: Some(n @ 1..=4_000),
        } => *n as usize * 4 + 2,
        ColumnType::Char { chars } => *chars as usize * 4 + 2,
        _ => 0,
    }
}

/// The type of a column for values that take `extent`; see [`Target::column_type`](tonnage_core::target::Target::column_type).
pub(super) fn for_values(wanted: ColumnType, extent: &Extent, key: KeyPart) -> ColumnType {
    /// Digits of a decimal that has no limit of its own, before it takes the widest there is.
    const DIGITS: u32 = 38;
    match wanted {
        // Neither decimals nor doubles have words for what is no number.
        ColumnType::Numeric | ColumnType::Float64 if !extent.is_finite() => ColumnType::TEXT,
        ColumnType::Numeric => {
            let places_max = u32::from(SCALE_MAX);
            let places = extent.scale(DIGITS, places_max);
            if let Some(narrow) = places.and_then(|places| decimal(DIGITS, places)) {
                narrow
            } else if extent.places <= places_max && extent.whole_digits <= PRECISION_MAX - places_max {
                ColumnType::Numeric
            } else if extent.rounded_by_double {
                ColumnType::TEXT
            } else {
                ColumnType::Float64
            }
        }
        // From 1970 to a day of 2038; a zone may move a time into the next year.
        ColumnType::TimestampTz
            if extent
                .years
                .is_some_and(|(first, last)| first < 1971 || last > 2037) =>
        {
            ColumnType::TEXT
        }
        ColumnType::Text { chars_max: None } => match key {
            KeyPart::No => wanted,
            KeyPart::Of(parts) => {
                let chars = key_characters(parts);
                match extent.chars <= chars {
                    true => ColumnType::Text {
                        chars_max: Some(chars),
                    },
                    false => wanted,
                }
            }
        },
        wanted => wanted,
    }
}

/// The most characters of a text that is one of so many parts of a key: an index has so many for all of its columns, of which
/// others than texts need far fewer.
pub(super) fn key_characters(parts: usize) -> u32 {
    let parts = u32::try_from(parts).unwrap_or(u32::MAX).max(1);
    ((KEY_CHARACTERS_MAX - KEY_CHARACTERS_ELSE) / parts).min(255)
}

/// The longest identifier, in characters.
const IDENTIFIER_CHARACTERS_MAX: usize = 64;

fn checked(identifier: &str) -> Result<String> {
    let shown = identifier.escape_debug();
    let hint = "give it another one with --map";
    if identifier.chars().count() > IDENTIFIER_CHARACTERS_MAX {
        return Err(Error::schema(format!(
            "the name '{shown}' is longer than {IDENTIFIER_CHARACTERS_MAX} characters"
        ))
        .hint("give it a shorter one with --map"));
    }
    // Names are of the basic plane, and spaces at their end are lost.
    if identifier.is_empty()
        || identifier.ends_with(' ')
        || identifier.chars().any(|c| c == '\0' || c > '\u{ffff}')
    {
        return Err(Error::schema(format!("'{shown}' cannot be a name in this database")).hint(hint));
    }
    Ok(quote(identifier))
}

/// A column of UUIDs where there is no type for them.
const UUID_AS_TEXT: &str = "char(36)";

/// The statement that adds columns to a table.
pub(super) fn add_columns(table: &TableName, columns: &[ColumnSpec], version: &Version) -> Result<String> {
    let mut wrong = refused_names(columns, COLUMNS_MAX, str::to_lowercase);
    let mut added = Vec::with_capacity(columns.len());
    for ColumnSpec { name, ty, .. } in columns {
        let declared = match ty {
            ColumnType::Uuid if !version.has_uuid() => Ok(UUID_AS_TEXT.to_owned()),
            ty => sql_type(name, *ty, false),
        };
        // A timestamp without it would fill itself in.
        match (checked(name), declared) {
            (Ok(name), Ok(declared)) => added.push(format!("ADD COLUMN {name} {declared} NULL")),
            (name, declared) => wrong.extend(name.err().into_iter().chain(declared.err())),
        }
    }
    refused_columns(table, wrong)?;
    Ok(format!("ALTER TABLE {} {}", quote_table(table), added.join(", ")))
}

/// The statement that creates a table. Text compares as it does by this server's default.
pub(super) fn create_statement(spec: &TableSpec, version: &Version) -> Result<String> {
    create_statement_with(spec, version, &Additions::default())
}

/// The same, and what is added to it.
pub(super) fn create_statement_with(
    spec: &TableSpec,
    version: &Version,
    additions: &Additions,
) -> Result<String> {
    let table = match &spec.name.schema {
        Some(schema) => format!("{}.{}", checked(schema)?, checked(&spec.name.name)?),
        None => checked(&spec.name.name)?,
    };
    let mut lines = Vec::with_capacity(spec.columns.len() + 1);
    let mut wrong = refused_names(&spec.columns, COLUMNS_MAX, str::to_lowercase);
    // Texts beyond the bytes that a row has for all of its columns are kept apart from it.
    let is_crowded = spec
        .columns
        .iter()
        .map(|column| row_bytes(&column.ty))
        .sum::<usize>()
        > ROW_BYTES;
    for ColumnSpec { name, ty, nullable } in &spec.columns {
        let key = spec.key.contains(name);
        let declared = match ty {
            ColumnType::Uuid if !version.has_uuid() => Ok(UUID_AS_TEXT.to_owned()),
            ty if is_crowded && !key && row_bytes(ty) > APART_BYTES => Ok("longtext".to_owned()),
            ty => sql_type(name, *ty, key),
        };
        // A timestamp without either would fill itself in.
        let null = if *nullable && !key { "NULL" } else { "NOT NULL" };
        match (checked(name), declared) {
            (Ok(quoted), Ok(declared)) => {
                let addition = additions.of_column(name);
                lines.push(format!("    {quoted} {declared} {null}{addition}"));
            }
            (name, declared) => wrong.extend(name.err().into_iter().chain(declared.err())),
        }
    }
    refused_columns(&spec.name, wrong)?;
    if !spec.key.is_empty() {
        let key: Vec<_> = spec.key.iter().map(|name| quote(name)).collect();
        lines.push(format!("    PRIMARY KEY ({})", key.join(", ")));
    }
    Ok(format!(
        "CREATE TABLE {table} (\n{}\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
        lines.join(",\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_from_the_type() {
        let cases: [(&str, Option<&[&str]>); 4] = [
            ("enum('a','it''s',' ,')", Some(&["a", "it's", " ,"])),
            ("set('x')", Some(&["x"])),
            ("enum('a'", None),
            ("enum()", None),
        ];
        for (text, wanted) in cases {
            let wanted = wanted.map(|labels| labels.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>());
            assert_eq!(labels(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_created_table_is_quoted_throughout() {
        let column = |name: &str, ty, nullable| ColumnSpec {
            name: name.to_owned(),
            ty,
            nullable,
        };
        let spec = |columns: Vec<ColumnSpec>, key: &[&str]| TableSpec {
            name: TableName {
                schema: Some("s".to_owned()),
                name: "odd`name".to_owned(),
            },
            columns,
            key: key.iter().map(|name| (*name).to_owned()).collect(),
        };
        let version = Version::parse("11.4.2-MariaDB").unwrap();
        let made = spec(
            vec![
                column("id", ColumnType::Int64, true),
                column("note", ColumnType::TEXT, true),
            ],
            &["id"],
        );
        assert_eq!(
            create_statement(&made, &version).unwrap(),
            "CREATE TABLE `s`.`odd``name` (\n    `id` bigint NOT NULL,\n    `note` longtext NULL,\n    \
             PRIMARY KEY (`id`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4"
        );
        let refused = |column, key: &[&str]| {
            create_statement(&spec(vec![column], key), &version)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refused(column("a", ColumnType::TEXT, false), &["a"]),
            "column 'a' is to be a key, and text has no limit to its length"
        );
        assert_eq!(
            refused(
                column(
                    "a",
                    ColumnType::Decimal {
                        precision: 38,
                        scale: 31
                    },
                    true
                ),
                &[]
            ),
            "column 'a' is to be decimal(38,31), and this database keeps at most 30 digits after the point"
        );
        assert_eq!(
            refused(column("a ", ColumnType::Int16, true), &[]),
            "'a ' cannot be a name in this database"
        );
    }
}
