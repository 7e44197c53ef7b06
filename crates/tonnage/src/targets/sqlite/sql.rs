//! The statements this target builds. Names are always quoted; values are always bound.

use std::fmt::Write;

use super::types;
use crate::{
    error::{Error, Result},
    operation::Operation,
    table::{ColumnSpec, TableSpec},
    types::ColumnType,
};

/// A name as an identifier.
pub(super) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(quote).collect::<Vec<_>>().join(", ")
}

/// `CREATE TABLE`, with a single integer key as the rowid.
pub(super) fn create_table(spec: &TableSpec) -> Result<String> {
    if let Some(missing) = spec
        .key
        .iter()
        .find(|key| !spec.columns.iter().any(|column| column.name == **key))
    {
        return Err(Error::schema(format!(
            "key column {missing} is not a column of {}",
            spec.name
        )));
    }
    let rowid = match spec.key.as_slice() {
        [only] => spec.columns.iter().find(|column| {
            column.name == *only
                && matches!(
                    column.ty,
                    ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64
                )
        }),
        _ => None,
    };
    let mut lines = Vec::with_capacity(spec.columns.len() + 1);
    for column in &spec.columns {
        let is_rowid = rowid.is_some_and(|rowid| rowid.name == column.name);
        lines.push(column_definition(
            column,
            is_rowid,
            spec.key.contains(&column.name),
        )?);
    }
    if !spec.key.is_empty() && rowid.is_none() {
        lines.push(format!(
            "PRIMARY KEY ({})",
            quoted(spec.key.iter().map(String::as_str))
        ));
    }
    Ok(format!(
        "CREATE TABLE {} (\n  {}\n)",
        quote(&spec.name.name),
        lines.join(",\n  ")
    ))
}

fn column_definition(column: &ColumnSpec, is_rowid: bool, in_key: bool) -> Result<String> {
    let name = quote(&column.name);
    if column.ty == ColumnType::Any {
        return Err(Error::bug(format!(
            "column {} has no type to be created with",
            column.name
        )));
    }
    if is_rowid {
        return Ok(format!("{name} INTEGER PRIMARY KEY"));
    }
    let mut definition = format!("{name} {}", types::declared(&column.ty));
    // SQLite lets nulls into a primary key unless told otherwise.
    if !column.nullable || in_key {
        definition.push_str(" NOT NULL");
    }
    // A declared length means nothing to SQLite, so a limit that was asked for becomes a check.
    if let ColumnType::Text {
        chars_max: Some(chars),
    }
    | ColumnType::Char { chars } = column.ty
    {
        let _ = write!(definition, " CHECK (length({name}) <= {chars})");
    }
    Ok(definition)
}

/// `INSERT` of `rows` rows, one parameter a value, row after row.
pub(super) struct Insert {
    head: String,
    row: String,
    tail: String,
}

impl Insert {
    /// The statement for `operation` on `columns` of `table`. `overrule` keeps ON CONFLICT clauses of the
    /// table's definition from skipping or replacing rows; it also overrules those in the statements of
    /// triggers, so it is used only where there may be one to overrule.
    pub(super) fn new(table: &str, columns: &[String], operation: &Operation, overrule: bool) -> Self {
        let names = || columns.iter().map(String::as_str);
        let verb = if overrule { "INSERT OR ABORT" } else { "INSERT" };
        let mut tail = String::new();
        if let Operation::Upsert { key } = operation {
            let assignments: Vec<String> = names()
                .filter(|name| !key.iter().any(|key| key == name))
                .map(|name| format!("{0} = excluded.{0}", quote(name)))
                .collect();
            let target = quoted(key.iter().map(String::as_str));
            tail = match assignments.as_slice() {
                [] => format!(" ON CONFLICT ({target}) DO NOTHING"),
                _ => format!(" ON CONFLICT ({target}) DO UPDATE SET {}", assignments.join(", ")),
            };
        }
        Self {
            head: format!("{verb} INTO {} ({}) VALUES ", quote(table), quoted(names())),
            row: format!("({})", vec!["?"; columns.len()].join(", ")),
            tail,
        }
    }

    /// The statement for this many rows.
    pub(super) fn sql(&self, rows: usize) -> String {
        format!(
            "{}{}{}",
            self.head,
            vec![self.row.as_str(); rows].join(", "),
            self.tail
        )
    }

    /// Whether a row may be left as it is.
    pub(super) fn may_skip(&self) -> bool {
        self.tail.ends_with("DO NOTHING")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TableName;

    fn column(name: &str, ty: ColumnType, nullable: bool) -> ColumnSpec {
        ColumnSpec {
            name: name.to_owned(),
            ty,
            nullable,
        }
    }

    #[test]
    fn create() {
        let spec = |key: &[&str]| TableSpec {
            name: TableName::bare("odd \"name"),
            columns: vec![
                column("id", ColumnType::Int64, false),
                column("code", ColumnType::Text { chars_max: Some(3) }, true),
                column(
                    "price",
                    ColumnType::Decimal {
                        precision: 9,
                        scale: 2,
                    },
                    true,
                ),
            ],
            key: key.iter().map(|k| (*k).to_owned()).collect(),
        };
        assert_eq!(
            create_table(&spec(&["id"])).unwrap(),
            "CREATE TABLE \"odd \"\"name\" (\n  \"id\" INTEGER PRIMARY KEY,\n  \"code\" TEXT CHECK \
             (length(\"code\") <= 3),\n  \"price\" DECIMAL(9,2)\n)"
        );
        assert_eq!(
            create_table(&spec(&["code", "id"])).unwrap(),
            "CREATE TABLE \"odd \"\"name\" (\n  \"id\" INTEGER NOT NULL,\n  \"code\" TEXT NOT NULL CHECK \
             (length(\"code\") <= 3),\n  \"price\" DECIMAL(9,2),\n  PRIMARY KEY (\"code\", \"id\")\n)"
        );
        assert!(create_table(&spec(&["other"])).is_err());
    }

    #[test]
    fn insert() {
        let columns = ["a".to_owned(), "b".to_owned()];
        let key = |names: &[&str]| Operation::Upsert {
            key: names.iter().map(|n| (*n).to_owned()).collect(),
        };
        assert_eq!(
            Insert::new("t", &columns, &Operation::Insert, false).sql(2),
            "INSERT INTO \"t\" (\"a\", \"b\") VALUES (?, ?), (?, ?)"
        );
        assert_eq!(
            Insert::new("t", &columns, &key(&["a"]), true).sql(1),
            "INSERT OR ABORT INTO \"t\" (\"a\", \"b\") VALUES (?, ?) ON CONFLICT (\"a\") DO UPDATE SET \"b\" \
             = excluded.\"b\""
        );
        let all = Insert::new("t", &columns, &key(&["a", "b"]), false);
        assert!(all.may_skip() && all.sql(1).ends_with("ON CONFLICT (\"a\", \"b\") DO NOTHING"));
    }
}
