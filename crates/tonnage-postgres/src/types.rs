//! PostgreSQL's types and the crate's: one mapping each way.

use tonnage_core::{
    error::{Error, Result},
    operation::Durability,
    schema::Additions,
    table::{ColumnSpec, Equality, TableName, TableSpec, refused_columns, refused_names},
    types::{ColumnType, decimal},
};

/// Object ids of the built-in types that can be written; fixed since PostgreSQL has them.
pub(super) mod oid {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT4: u32 = 23;
    pub const TEXT: u32 = 25;
    pub const JSON: u32 = 114;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const MONEY: u32 = 790;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const DATE: u32 = 1082;
    pub const TIME: u32 = 1083;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const INTERVAL: u32 = 1186;
    pub const NUMERIC: u32 = 1700;
    pub const UUID: u32 = 2950;
    pub const JSONB: u32 = 3802;
}

/// The digits after the point that the server's `money` has, in SQL: `lc_monetary` decides.
pub(super) const MONEY_SCALE: &str = "pg_catalog.scale(0::pg_catalog.money::pg_catalog.numeric)";

/// Digits of a `money`, which is a number of 64 bits.
const MONEY_DIGITS: u32 = 19;

/// A built-in type as a column has it: object id and type modifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerType {
    /// Object id of the type; of the base type for a domain.
    pub oid: u32,
    /// The modifier, -1 for none. Of a `money`, which has none, the digits after the point ([`MONEY_SCALE`]).
    pub modifier: i32,
}

/// Bytes that a length modifier counts in addition to the length.
const MODIFIER_HEADER: i32 = 4;

impl ServerType {
    /// The length in characters, for varchar and char.
    fn characters(self) -> Option<u32> {
        u32::try_from(self.modifier - MODIFIER_HEADER)
            .ok()
            .filter(|n| *n > 0)
    }

    /// Precision and scale of a numeric; none if it is unbounded. The scale is 11 bits with a sign since 15.
    pub fn precision_scale(self) -> Option<(u32, i32)> {
        if self.oid != oid::NUMERIC || self.modifier < MODIFIER_HEADER {
            return None;
        }
        let packed = self.modifier - MODIFIER_HEADER;
        let scale = ((packed & 0x7ff) ^ 1024) - 1024;
        Some((((packed >> 16) & 0xffff) as u32, scale))
    }

    /// Digits of a second that a time or timestamp keeps, where they are fewer than the six of a microsecond.
    pub fn second_digits(self) -> Option<u32> {
        match self.oid {
            oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ => {
                u32::try_from(self.modifier).ok().filter(|digits| *digits < 6)
            }
            _ => None,
        }
    }

    /// Microseconds that a value of this type must be a multiple of; 1 for most.
    pub fn tick(self) -> i64 {
        self.second_digits().map_or(1, |digits| 10i64.pow(6 - digits))
    }

    /// What a column of this type holds; none where it cannot be written.
    pub fn column_type(self) -> Option<ColumnType> {
        Some(match self.oid {
            oid::BOOL => ColumnType::Bool,
            oid::INT2 => ColumnType::Int16,
            oid::INT4 => ColumnType::Int32,
            oid::INT8 => ColumnType::Int64,
            oid::FLOAT4 => ColumnType::Float32,
            oid::FLOAT8 => ColumnType::Float64,
            oid::MONEY => decimal(MONEY_DIGITS, u32::try_from(self.modifier).ok()?)?,
            oid::NUMERIC => match self.precision_scale() {
                Some((precision, scale)) => u32::try_from(scale)
                    .ok()
                    .and_then(|scale| decimal(precision, scale))
                    .unwrap_or(ColumnType::Numeric),
                None => ColumnType::Numeric,
            },
            oid::TEXT => ColumnType::TEXT,
            oid::VARCHAR => ColumnType::Text {
                chars_max: self.characters(),
            },
            // Without a modifier bpchar is unpadded text of any length.
            oid::BPCHAR => match self.characters() {
                Some(chars) => ColumnType::Char { chars },
                None => ColumnType::TEXT,
            },
            oid::BYTEA => ColumnType::Bytes,
            oid::DATE => ColumnType::Date,
            oid::TIME => ColumnType::Time,
            oid::TIMESTAMP => ColumnType::Timestamp,
            oid::TIMESTAMPTZ => ColumnType::TimestampTz,
            oid::UUID => ColumnType::Uuid,
            oid::JSON | oid::JSONB => ColumnType::Json,
            _ => return None,
        })
    }

    /// How keys of this type compare. An unbounded numeric equals itself at other scales (1.0 = 1.00).
    pub fn equality(self, deterministic_collation: bool) -> Equality {
        let provable = match self.oid {
            oid::BOOL | oid::INT2 | oid::INT4 | oid::INT8 | oid::BYTEA | oid::DATE | oid::TIME => true,
            oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::UUID => true,
            oid::MONEY | oid::NUMERIC => matches!(self.column_type(), Some(ColumnType::Decimal { .. })),
            oid::TEXT | oid::VARCHAR => deterministic_collation,
            _ => false,
        };
        if provable {
            Equality::Provable
        } else {
            Equality::ServerOnly
        }
    }

    /// Its name, for a parameter's cast.
    pub fn name(self) -> &'static str {
        match self.oid {
            oid::BOOL => "bool",
            oid::INT2 => "int2",
            oid::INT4 => "int4",
            oid::INT8 => "int8",
            oid::FLOAT4 => "float4",
            oid::FLOAT8 => "float8",
            oid::MONEY => "money",
            oid::NUMERIC => "numeric",
            oid::BYTEA => "bytea",
            oid::DATE => "date",
            oid::TIME => "time",
            oid::TIMESTAMP => "timestamp",
            oid::TIMESTAMPTZ => "timestamptz",
            oid::UUID => "uuid",
            oid::JSON => "json",
            oid::JSONB => "jsonb",
            oid::VARCHAR => "varchar",
            oid::BPCHAR => "bpchar",
            _ => "text",
        }
    }
}

/// An identifier in SQL, always quoted.
pub(super) fn quote(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

/// Quoted identifiers with commas between.
pub(super) fn quote_all<'a>(identifiers: impl IntoIterator<Item = &'a str>) -> String {
    let quoted: Vec<_> = identifiers.into_iter().map(quote).collect();
    quoted.join(", ")
}

/// A table in SQL.
pub(super) fn quote_table(name: &TableName) -> String {
    match &name.schema {
        Some(schema) => format!("{}.{}", quote(schema), quote(&name.name)),
        None => quote(&name.name),
    }
}

/// The SQL type of a column to be created.
pub(super) fn sql_type(ty: ColumnType) -> Option<String> {
    Some(match ty {
        ColumnType::Bool => "boolean".to_owned(),
        ColumnType::Int16 => "smallint".to_owned(),
        ColumnType::Int32 => "integer".to_owned(),
        ColumnType::Int64 => "bigint".to_owned(),
        ColumnType::Float32 => "real".to_owned(),
        ColumnType::Float64 => "double precision".to_owned(),
        ColumnType::Decimal { precision, scale } => format!("numeric({precision},{scale})"),
        ColumnType::Numeric => "numeric".to_owned(),
        ColumnType::Text { chars_max: None } => "text".to_owned(),
        ColumnType::Text { chars_max: Some(n) } => format!("varchar({n})"),
        ColumnType::Char { chars } => format!("char({chars})"),
        ColumnType::Bytes => "bytea".to_owned(),
        ColumnType::Date => "date".to_owned(),
        ColumnType::Time => "time".to_owned(),
        ColumnType::Timestamp => "timestamp".to_owned(),
        ColumnType::TimestampTz => "timestamptz".to_owned(),
        ColumnType::Uuid => "uuid".to_owned(),
        // jsonb would reorder keys and drop repeated ones.
        ColumnType::Json => "json".to_owned(),
        ColumnType::Any => return None,
    })
}

/// The most columns of a table.
const COLUMNS_MAX: usize = 1_600;

/// The longest identifier; PostgreSQL cuts longer ones off with no more than a notice.
const IDENTIFIER_BYTES_MAX: usize = 63;

fn checked(identifier: &str) -> Result<String> {
    if identifier.len() > IDENTIFIER_BYTES_MAX {
        return Err(Error::schema(format!(
            "the name '{identifier}' is longer than the {IDENTIFIER_BYTES_MAX} bytes PostgreSQL keeps"
        ))
        .hint("give it a shorter one with --map"));
    }
    if identifier.is_empty() || identifier.contains('\0') {
        return Err(Error::schema(format!(
            "'{}' cannot be a name in PostgreSQL",
            identifier.escape_debug()
        ))
        .hint("give it another one with --map"));
    }
    Ok(quote(identifier))
}

fn declared(name: &str, ty: ColumnType) -> Result<String> {
    sql_type(ty).ok_or_else(|| Error::bug(format!("column '{name}' is to be created without a type")))
}

/// The statement that adds columns to a table.
pub(super) fn add_columns(table: &TableName, columns: &[ColumnSpec]) -> Result<String> {
    let mut wrong = refused_names(columns, COLUMNS_MAX, str::to_owned);
    let names = columns.iter().map(|column| checked(&column.name));
    wrong.extend(names.filter_map(Result::err));
    refused_columns(table, wrong)?;
    let added = columns.iter().map(|ColumnSpec { name, ty, .. }| {
        Ok(format!("ADD COLUMN {} {}", checked(name)?, declared(name, *ty)?))
    });
    let added = added.collect::<Result<Vec<_>>>()?;
    Ok(format!("ALTER TABLE {} {}", quote_table(table), added.join(", ")))
}

/// The statement that creates a table.
pub(super) fn create_statement(spec: &TableSpec) -> Result<String> {
    create_statement_with(spec, &Additions::default())
}

/// The same, and what is added to it.
pub(super) fn create_statement_with(spec: &TableSpec, additions: &Additions) -> Result<String> {
    let table = match &spec.name.schema {
        Some(schema) => format!("{}.{}", checked(schema)?, checked(&spec.name.name)?),
        None => checked(&spec.name.name)?,
    };
    let mut wrong = refused_names(&spec.columns, COLUMNS_MAX, str::to_owned);
    let names = spec.columns.iter().map(|column| checked(&column.name));
    wrong.extend(names.filter_map(Result::err));
    refused_columns(&spec.name, wrong)?;
    let mut lines = Vec::with_capacity(spec.columns.len() + 1);
    for ColumnSpec { name, ty, nullable } in &spec.columns {
        let declared = declared(name, *ty)?;
        let constraint = if *nullable && !spec.key.contains(name) {
            ""
        } else {
            " NOT NULL"
        };
        let addition = additions.of_column(name);
        lines.push(format!("    {} {declared}{constraint}{addition}", checked(name)?));
    }
    if !spec.key.is_empty() {
        lines.push(format!(
            "    PRIMARY KEY ({})",
            quote_all(spec.key.iter().map(String::as_str))
        ));
    }
    Ok(format!("CREATE TABLE {table} (\n{}\n)", lines.join(",\n")))
}

/// Whether a value of `synchronous_commit` keeps what `durability` promises, and no more than it asks for.
pub(super) fn commit_setting(current: &str, durability: Durability) -> Option<&'static str> {
    match durability {
        Durability::None | Durability::Relaxed => (current != "off").then_some("off"),
        // local, remote_write, on and remote_apply all flush the local log.
        Durability::Durable | Durability::Majority | Durability::All => (current == "off").then_some("on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_are_decoded() {
        let numeric = |precision: i32, scale: i32| ServerType {
            oid: oid::NUMERIC,
            modifier: ((precision << 16) | (scale & 0x7ff)) + 4,
        };
        let decimal = |precision, scale| Some(ColumnType::Decimal { precision, scale });
        let cases = [
            (numeric(10, 2), decimal(10, 2)),
            (numeric(38, 38), decimal(38, 38)),
            (numeric(39, 2), Some(ColumnType::Numeric)),
            (numeric(5, -2), Some(ColumnType::Numeric)),
            (numeric(3, 5), Some(ColumnType::Numeric)),
            (
                ServerType {
                    oid: oid::NUMERIC,
                    modifier: -1,
                },
                Some(ColumnType::Numeric),
            ),
            (
                ServerType {
                    oid: oid::VARCHAR,
                    modifier: 24,
                },
                Some(ColumnType::Text { chars_max: Some(20) }),
            ),
            (
                ServerType {
                    oid: oid::VARCHAR,
                    modifier: -1,
                },
                Some(ColumnType::TEXT),
            ),
            (
                ServerType {
                    oid: oid::BPCHAR,
                    modifier: 124,
                },
                Some(ColumnType::Char { chars: 120 }),
            ),
            (
                ServerType {
                    oid: oid::TIMESTAMP,
                    modifier: 0,
                },
                Some(ColumnType::Timestamp),
            ),
            (
                ServerType {
                    oid: 1186,
                    modifier: -1,
                },
                None,
            ),
        ];
        for (server, ty) in cases {
            assert_eq!(server.column_type(), ty, "{server:?}");
        }
        assert_eq!(numeric(5, -2).precision_scale(), Some((5, -2)));
        assert_eq!(
            ServerType {
                oid: oid::TIME,
                modifier: 3
            }
            .second_digits(),
            Some(3)
        );
        assert_eq!(
            ServerType {
                oid: oid::TIME,
                modifier: 6
            }
            .second_digits(),
            None
        );
        assert_eq!(
            ServerType {
                oid: oid::VARCHAR,
                modifier: 5
            }
            .second_digits(),
            None
        );
    }

    #[test]
    fn a_created_table_is_quoted_throughout() {
        let column = |name: &str, ty, nullable| ColumnSpec {
            name: name.to_owned(),
            ty,
            nullable,
        };
        let spec = TableSpec {
            name: TableName {
                schema: Some("s".to_owned()),
                name: "odd\"name".to_owned(),
            },
            columns: vec![
                column("id", ColumnType::Int64, true),
                column(
                    "Price",
                    ColumnType::Decimal {
                        precision: 10,
                        scale: 2,
                    },
                    false,
                ),
                column("note", ColumnType::Text { chars_max: Some(5) }, true),
            ],
            key: vec!["id".to_owned()],
        };
        assert_eq!(
            create_statement(&spec).unwrap(),
            "CREATE TABLE \"s\".\"odd\"\"name\" (\n    \"id\" bigint NOT NULL,\n    \"Price\" numeric(10,2) NOT NULL,\n    \
             \"note\" varchar(5),\n    PRIMARY KEY (\"id\")\n)"
        );
        let long = TableSpec {
            name: TableName::bare("x".repeat(64)),
            columns: vec![],
            key: vec![],
        };
        assert!(
            create_statement(&long)
                .unwrap_err()
                .to_string()
                .contains("longer than the 63 bytes")
        );
    }
}
