//! Types: the database's and ours, one mapping each way, and tables as its catalogue has them.
//!
//! - What a column of another kind (arrays, maps, records, enumerations) holds cannot be written.
//! - The database has no dates, times of day, UUIDs of a type, or bounds of text: they are kept as text. Its timestamps are
//!   kept in UTC, so a time without a zone needs one.

use serde_json::Value;
use tonnage_core::{
    error::{Error, Result},
    table::{Column, Equality, Key, Table, TableIdentity, TableName, TableSpec},
    types::ColumnType,
};

/// A type whose values can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Boolean,
    Integer,
    Long,
    Float,
    Double,
    Number,
    String,
    Binary,
    Timestamp {
        /// Digits of a second, from 0 to 9.
        precision: u8,
    },
    Json,
}

impl Kind {
    /// Of a column of the catalogue.
    fn of(field: &Value) -> Option<Self> {
        Some(match field["type"].as_str()?.to_ascii_uppercase().as_str() {
            "BOOLEAN" => Self::Boolean,
            "INTEGER" => Self::Integer,
            "LONG" => Self::Long,
            "FLOAT" => Self::Float,
            "DOUBLE" => Self::Double,
            "NUMBER" => Self::Number,
            "STRING" => Self::String,
            "BINARY" | "FIXED_BINARY" => Self::Binary,
            "TIMESTAMP" => Self::Timestamp {
                precision: field["precision"].as_u64().unwrap_or(9).min(9) as u8,
            },
            "JSON" => Self::Json,
            _ => return None,
        })
    }

    /// What reaches the writer.
    pub fn column(self) -> ColumnType {
        match self {
            Self::Boolean => ColumnType::Bool,
            Self::Integer => ColumnType::Int32,
            Self::Long => ColumnType::Int64,
            Self::Float => ColumnType::Float32,
            Self::Double => ColumnType::Float64,
            Self::Number => ColumnType::Numeric,
            Self::String => ColumnType::TEXT,
            Self::Binary => ColumnType::Bytes,
            Self::Timestamp { .. } => ColumnType::TimestampTz,
            Self::Json => ColumnType::Json,
        }
    }

    /// Whether values are equal there exactly when they are here.
    fn equality(self) -> Equality {
        match self {
            Self::Integer | Self::Long | Self::String | Self::Timestamp { .. } => Equality::Provable,
            _ => Equality::ServerOnly,
        }
    }
}

/// A table, and what the engine does not need to know of it.
#[derive(Debug, Clone)]
pub(super) struct Described {
    pub table: Table,
    /// Of each column; none where it cannot be written.
    pub kinds: Vec<Option<Kind>>,
    /// The primary key, as places among the columns.
    pub key: Vec<usize>,
    /// How many of the key's first columns say which shard a row is in.
    pub shard: usize,
}

/// What begins the comment of a table that was made here, before a name of its own.
const MADE: &str = "tonnage:";

fn texts(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Reads the catalogue's JSON of a table. `object` tells it from others of its name, where the database does.
/// `Schema` where it is not as expected.
pub(super) fn described(name: &str, object: &str, json: &str) -> Result<Described> {
    let odd = |what: &str| Error::schema(format!("the schema of table {name} cannot be read: {what}"));
    let schema: Value = serde_json::from_str(json).map_err(|cause| odd("it is no JSON").caused_by(cause))?;
    let fields = schema["fields"]
        .as_array()
        .ok_or_else(|| odd("it has no fields"))?;
    let keys = texts(&schema["primaryKey"]);
    let (mut columns, mut kinds) = (Vec::new(), Vec::new());
    for field in fields {
        let column = field["name"].as_str().ok_or_else(|| odd("a field has no name"))?;
        let kind = Kind::of(field);
        let is_generated = field["asUuid"] == true && field["generated"] == true;
        let identity = &field["identity"];
        let size = field["size"]
            .as_u64()
            .map(|size| format!("({size})"))
            .unwrap_or_default();
        columns.push(Column {
            name: column.to_owned(),
            ty: kind.map(Kind::column),
            declared: match kind {
                Some(Kind::Timestamp { precision }) => format!("TIMESTAMP({precision})"),
                _ => format!("{}{size}", field["type"].as_str().unwrap_or("an unknown type")),
            },
            nullable: field["nullable"] != false && !keys.contains(&column),
            has_default: is_generated || identity.is_object() || !field["default"].is_null(),
            generated: false,
            numbered: identity.is_object().then(|| match identity["always"] == true {
                true => tonnage_core::table::Numbered::Always,
                false => tonnage_core::table::Numbered::ByDefault,
            }),
            equality: kind.map_or(Equality::ServerOnly, Kind::equality),
        });
        kinds.push(kind);
    }
    let place = |key: &&str| {
        let found = columns
            .iter()
            .position(|column| column.name.eq_ignore_ascii_case(key));
        found.ok_or_else(|| odd("a key column is not among its fields"))
    };
    let key: Vec<usize> = keys.iter().map(place).collect::<Result<_>>()?;
    if key.is_empty() {
        return Err(odd("it has no primary key"));
    }
    let shard = match texts(&schema["shardKey"]).len() {
        0 => key.len(),
        columns => columns.min(key.len()),
    };
    let made = schema["comment"]
        .as_str()
        .and_then(|comment| comment.strip_prefix(MADE));
    let mut notes = Vec::new();
    if made.is_none() && object.is_empty() {
        notes.push(format!(
            "nothing tells table {name} from another one that is made under its name after it was dropped"
        ));
    }
    Ok(Described {
        table: Table {
            name: TableName::bare(name),
            identity: TableIdentity {
                object: format!("{name} {object} {}", made.unwrap_or_default()),
                shape: columns
                    .iter()
                    .map(|column| format!("{} {}\n", column.name, column.declared))
                    .collect(),
            },
            keys: vec![Key {
                columns: key.iter().map(|at| columns[*at].name.clone()).collect(),
                primary: true,
            }],
            columns,
            transactional: false,
            less_durable: None,
            notes,
        },
        kinds,
        key,
        shard,
    })
}

/// The type that a column is declared with; none for one that the database has not.
pub(super) fn declared(ty: ColumnType) -> Option<String> {
    Some(
        match ty {
            ColumnType::Bool => "BOOLEAN",
            ColumnType::Int16 | ColumnType::Int32 => "INTEGER",
            ColumnType::Int64 => "LONG",
            ColumnType::Float32 => "FLOAT",
            ColumnType::Float64 => "DOUBLE",
            ColumnType::Decimal { .. } | ColumnType::Numeric => "NUMBER",
            ColumnType::Bytes => "BINARY",
            ColumnType::TimestampTz => "TIMESTAMP(6)",
            ColumnType::Json => "JSON",
            ColumnType::Text { .. }
            | ColumnType::Char { .. }
            | ColumnType::Date
            | ColumnType::Time
            | ColumnType::Uuid => "STRING",
            // It would get a zone that nobody gave it.
            ColumnType::Timestamp | ColumnType::Any => return None,
        }
        .to_owned(),
    )
}

/// What the database takes for a name without quotes; names are not quoted, since it has quotes in some places only.
fn check_name(name: &str) -> Result<&str> {
    let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match is_plain {
        true => Ok(name),
        false => Err(Error::schema(format!(
            "'{name}' is no name of a table or column in Oracle NoSQL"
        ))
        .hint("letters, digits and underscores, a letter first; --map renames a column")),
    }
}

/// The statement that makes a table, which `own` names among all others.
pub(super) fn create_table(spec: &TableSpec, own: &str) -> Result<String> {
    if spec.name.schema.is_some() {
        return Err(Error::schema("Oracle NoSQL has no schemas").hint("write the table's name alone"));
    }
    if spec.key.is_empty() {
        return Err(
            Error::schema("a table of Oracle NoSQL has a primary key").hint("--key names its columns")
        );
    }
    let mut parts = Vec::new();
    for column in &spec.columns {
        let ty = declared(column.ty).ok_or_else(|| {
            Error::schema(format!(
                "Oracle NoSQL has no type for column '{}' ({})",
                column.name, column.ty
            ))
            .hint(
                "its timestamps are in UTC: --type column=timestamptz with --timezone, or --type column=text",
            )
        })?;
        let is_key = spec.key.contains(&column.name);
        if is_key && matches!(ty.as_str(), "BOOLEAN" | "BINARY" | "JSON") {
            return Err(Error::schema(format!(
                "column '{}' of type {ty} cannot be part of a key",
                column.name
            )));
        }
        // A column that takes no nulls would need a default there.
        parts.push(format!("{} {ty}", check_name(&column.name)?));
    }
    parts.push(format!("PRIMARY KEY({})", spec.key.join(", ")));
    let name = check_name(&spec.name.name)?;
    Ok(format!(
        "CREATE TABLE {name} COMMENT \"{MADE}{own}\" ({})",
        parts.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use tonnage_core::table::ColumnSpec;

    use super::*;

    const SCHEMA: &str = r#"{"json_version": 1, "type": "table", "name": "events", "comment": "tonnage:u1",
        "shardKey": ["device"], "primaryKey": ["device", "at"], "fields": [
        {"name": "device", "type": "STRING", "nullable": false, "default": null},
        {"name": "at", "type": "TIMESTAMP", "precision": 3, "nullable": false, "default": null},
        {"name": "n", "type": "NUMBER", "nullable": true, "default": null},
        {"name": "tags", "type": "ARRAY", "collection": {"type": "STRING"}, "nullable": true, "default": null},
        {"name": "level", "type": "INTEGER", "nullable": false, "default": 3}]}"#;

    #[test]
    fn tables_of_the_catalogue() {
        let found = described("events", "", SCHEMA).unwrap();
        assert_eq!((found.key.as_slice(), found.shard), ([0, 1].as_slice(), 1));
        assert_eq!(found.kinds[1], Some(Kind::Timestamp { precision: 3 }));
        assert_eq!(found.kinds[3], None);
        let columns = &found.table.columns;
        assert!(
            columns[4].has_default && !columns[4].nullable && columns[2].nullable && !columns[0].nullable
        );
        assert_eq!(columns[2].equality, Equality::ServerOnly);
        assert!(found.table.notes.is_empty() && found.table.identity.object.contains("u1"));
        for odd in [
            "",
            "{}",
            r#"{"fields": []}"#,
            r#"{"fields": [{}], "primaryKey": ["a"]}"#,
        ] {
            assert!(described("t", "", odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn statements_that_make_a_table() {
        let column = |name: &str, ty| ColumnSpec {
            name: name.to_owned(),
            ty,
            nullable: true,
        };
        let spec = |columns: Vec<ColumnSpec>, key: &[&str]| TableSpec {
            name: TableName::bare("t"),
            columns,
            key: key.iter().map(|name| (*name).to_owned()).collect(),
        };
        let made = spec(
            vec![column("id", ColumnType::Int64), column("d", ColumnType::Date)],
            &["id"],
        );
        assert_eq!(
            create_table(&made, "u").unwrap(),
            "CREATE TABLE t COMMENT \"tonnage:u\" (id LONG, d STRING, PRIMARY KEY(id))"
        );
        for (name, ty, key) in [
            ("id", ColumnType::Int64, ""),
            ("a b", ColumnType::Int64, "a b"),
            ("x) --", ColumnType::Int64, "x) --"),
            ("id", ColumnType::Json, "id"),
            ("id", ColumnType::Timestamp, "id"),
        ] {
            let key: Vec<_> = Some(key).into_iter().filter(|key| !key.is_empty()).collect();
            assert!(
                create_table(&spec(vec![column(name, ty)], &key), "u").is_err(),
                "{name} {ty}"
            );
        }
    }
}
