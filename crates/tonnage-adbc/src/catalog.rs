//! Tables as DuckDB's catalogue has them, and which table a name means.
//!
//! DuckDB's object ids are given anew whenever a file is opened, and its tables are listed by name, so nothing it keeps tells
//! a table from another one that took its place. So when a run starts its table gets a mark in its comment, behind what the
//! comment says, and the ledger keeps the mark with a **generation** of the name ([`TABLES`]): a table with another mark, or
//! none, is of the next generation. A mark goes with its table when that is dropped. The identity is `name#generation`.
//!
//! A table is a base table of the file itself; the ledger's own are left out.

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use std::sync::Arc;
use tonnage_core::{
    error::{Error, Result},
    table::{Column, Equality, ForeignKey, Key, Table, TableIdentity, TableName, find_by_name},
    target::Rows,
};
use uuid::Uuid;

use super::{
    connection::{Connection, numbers, texts},
    errors::failed,
    sql::{name_of, text_literal},
    types,
};

/// Name, generation and mark of tables.
pub(crate) const TABLES: &str = "tonnage_tables";
/// What makes it.
pub(crate) const MAKE_TABLES: &str = "CREATE TABLE IF NOT EXISTS tonnage_tables (name VARCHAR NOT NULL, generation BIGINT NOT NULL, mark VARCHAR NOT NULL)";
/// A mark within a comment.
const MARK: &str = "[tonnage ";

/// Parameters of texts, in one row.
pub(crate) fn row_of_texts(values: &[&str]) -> Result<RecordBatch> {
    let arrays = values.iter().enumerate().map(|(at, value)| {
        let array: ArrayRef = Arc::new(StringArray::from(vec![*value]));
        (format!("p{at}"), array)
    });
    RecordBatch::try_from_iter(arrays).map_err(tonnage_core::error::arrow_bug)
}

/// Rows of texts.
fn rows_of_texts(
    connection: &mut Connection,
    sql: &str,
    values: &[&str],
) -> Result<Vec<Vec<Option<String>>>> {
    let parameters = match values {
        [] => None,
        values => Some(row_of_texts(values)?),
    };
    let mut rows = Vec::new();
    for batch in connection.query(sql, parameters).map_err(failed)? {
        let columns = (0..batch.num_columns())
            .map(|at| texts(&batch, at))
            .collect::<Result<Vec<_>>>()?;
        rows.extend((0..batch.num_rows()).map(|row| {
            let values = columns.iter().map(|column| column[row].clone());
            values.collect::<Vec<_>>()
        }));
    }
    Ok(rows)
}

/// What is called by a name.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Its exact name; without a schema where that is the main one.
    pub(crate) name: TableName,
    /// Whether it is a view.
    pub(crate) is_view: bool,
    sql: String,
    comment: String,
}

fn schema_of(name: &TableName) -> &str {
    name.schema.as_deref().unwrap_or("main")
}

fn named(schema: &str, name: String) -> TableName {
    TableName {
        schema: (schema != "main").then(|| schema.to_owned()),
        name,
    }
}

/// Schema and name of all tables and views of the file; `which` is more of the condition.
fn all(connection: &mut Connection, kinds: &str) -> Result<Vec<(TableName, bool)>> {
    let list = format!(
        "SELECT schema_name, name, kind FROM (\
         SELECT schema_name, table_name AS name, 'table' AS kind, internal, temporary, database_name FROM duckdb_tables() \
         UNION ALL SELECT schema_name, view_name, 'view', internal, temporary, database_name FROM duckdb_views()) \
         WHERE NOT internal AND NOT temporary AND database_name = current_database() AND kind IN ({kinds}) \
         AND NOT starts_with(name, 'tonnage_') ORDER BY schema_name <> 'main', schema_name, name"
    );
    let rows = rows_of_texts(connection, &list, &[])?;
    let each = rows.into_iter().filter_map(|row| {
        let [schema, name, kind] = <[_; 3]>::try_from(row).ok()?;
        Some((named(&schema?, name?), kind? == "view"))
    });
    Ok(each.collect())
}

/// The names of the tables a user may load.
pub(crate) fn table_names(connection: &mut Connection) -> Result<Vec<String>> {
    Ok(all(connection, "'table'")?
        .iter()
        .map(|(name, _)| name.quoted())
        .collect())
}

/// What is called so: exactly, else but for case, where that is only one.
pub(crate) fn find(connection: &mut Connection, wanted: &TableName) -> Result<Option<Found>> {
    let all = all(connection, "'table', 'view'")?;
    let schema = schema_of(wanted).to_lowercase();
    let within: Vec<&(TableName, bool)> = all
        .iter()
        .filter(|(name, _)| schema_of(name).to_lowercase() == schema)
        .collect();
    let Some((name, is_view)) = find_by_name(&within, &wanted.name, |(name, _)| &name.name) else {
        return Ok(None);
    };
    if *is_view {
        return Ok(Some(Found {
            name: name.clone(),
            is_view: true,
            sql: String::new(),
            comment: String::new(),
        }));
    }
    look_up(connection, name)
}

/// The table of this exact name.
fn look_up(connection: &mut Connection, name: &TableName) -> Result<Option<Found>> {
    let query = "SELECT sql, coalesce(comment, '') FROM duckdb_tables() \
                 WHERE database_name = current_database() AND NOT temporary AND schema_name = $1 AND table_name = $2";
    let row = rows_of_texts(connection, query, &[schema_of(name), &name.name])?.pop();
    let Some(Some([Some(sql), Some(comment)])) = row.map(|row| <[_; 2]>::try_from(row).ok()) else {
        return Ok(None);
    };
    Ok(Some(Found {
        name: name.clone(),
        is_view: false,
        sql,
        comment,
    }))
}

/// Which table it is, and how it is defined.
pub(crate) fn identity(connection: &mut Connection, found: &Found) -> Result<TableIdentity> {
    let indexes = "SELECT coalesce(sql, index_name) FROM duckdb_indexes() \
                   WHERE database_name = current_database() AND is_unique AND schema_name = $1 AND table_name = $2 ORDER BY 1";
    let indexes = rows_of_texts(connection, indexes, &[schema_of(&found.name), &found.name.name])?;
    let lines = std::iter::once(found.sql.clone()).chain(indexes.into_iter().flatten().flatten());
    Ok(TableIdentity {
        object: format!("{}#{}", found.name, generation(connection, found)?.0),
        shape: lines.collect::<Vec<_>>().join("\n"),
    })
}

/// The identity of the table of this exact name; none where there is none any more.
pub(crate) fn identity_of(connection: &mut Connection, name: &TableName) -> Result<Option<TableIdentity>> {
    match look_up(connection, name)? {
        Some(found) => identity(connection, &found).map(Some),
        None => Ok(None),
    }
}

/// The generation of a table, and whether it is on record with the mark that the table has.
fn generation(connection: &mut Connection, found: &Found) -> Result<(i64, bool)> {
    let is_kept = format!(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database() \
                           AND schema_name = 'main' AND table_name = '{TABLES}'"
    );
    if rows_of_texts(connection, &is_kept, &[])?.is_empty() {
        return Ok((1, false));
    }
    let record = format!("SELECT CAST(generation AS VARCHAR), mark FROM {TABLES} WHERE name = $1");
    let record = rows_of_texts(connection, &record, &[&found.name.quoted()])?.pop();
    let Some(Some([Some(generation), Some(mark)])) = record.map(|row| <[_; 2]>::try_from(row).ok()) else {
        return Ok((1, false));
    };
    let generation: i64 = generation
        .parse()
        .map_err(|_| Error::bug(format!("{TABLES} is unreadable")))?;
    match found.comment.contains(&format!("{MARK}{mark}]")) {
        true => Ok((generation, true)),
        false => Ok((generation + 1, false)),
    }
}

/// Gives the table of a run its mark, where it has none that is on record. [`TABLES`] is there.
pub(crate) fn mark(connection: &mut Connection, name: &TableName) -> Result<()> {
    let found = look_up(connection, name)?;
    let found = found.ok_or_else(|| Error::schema(format!("there is no table {name}")))?;
    let (generation, marked) = generation(connection, &found)?;
    if marked {
        return Ok(());
    }
    let mark = Uuid::now_v7().simple().to_string();
    let said = found.comment.split(MARK).next().unwrap_or_default().trim_end();
    let between = if said.is_empty() { "" } else { " " };
    let comment = text_literal(&format!("{said}{between}{MARK}{mark}]"));
    connection
        .run(&format!("COMMENT ON TABLE {} IS {comment}", name_of(name)))
        .map_err(|failure| failed(failure).at(format!("{name} cannot be marked as the table of this run")))?;
    connection
        .change(
            &format!("DELETE FROM {TABLES} WHERE name = $1"),
            Some(row_of_texts(&[&name.quoted()])?),
        )
        .map_err(failed)?;
    let insert = format!("INSERT INTO {TABLES} VALUES ($1, CAST($2 AS BIGINT), $3)");
    let row = row_of_texts(&[&name.quoted(), &generation.to_string(), &mark])?;
    connection.change(&insert, Some(row)).map_err(failed)?;
    Ok(())
}

/// A constraint of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Constraint {
    /// `PRIMARY KEY`, `UNIQUE`, `CHECK`, `NOT NULL`, `FOREIGN KEY`.
    pub(crate) kind: String,
    /// Of a check.
    pub(crate) expression: String,
    pub(crate) columns: Vec<String>,
    /// Of a foreign key.
    pub(crate) other: Option<(String, Vec<String>)>,
}

/// The names of a list, which come with a line break between them: names hold anything but that.
fn lines(text: Option<&String>) -> Vec<String> {
    let each = text.map(|text| {
        text.split('\u{1f}')
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
    });
    each.into_iter().flatten().collect()
}

/// The constraints of a table, and of its unique indexes as such.
pub(crate) fn constraints(connection: &mut Connection, name: &TableName) -> Result<Vec<Constraint>> {
    let query = "SELECT constraint_type, coalesce(expression, ''), array_to_string(constraint_column_names, chr(31)), \
                 referenced_table, array_to_string(referenced_column_names, chr(31)) FROM duckdb_constraints() \
                 WHERE database_name = current_database() AND schema_name = $1 AND table_name = $2 \
                 ORDER BY constraint_type <> 'PRIMARY KEY', constraint_index";
    let rows = rows_of_texts(connection, query, &[schema_of(name), &name.name])?;
    let each = rows.into_iter().map(|row| Constraint {
        kind: row[0].clone().unwrap_or_default(),
        expression: row[1].clone().unwrap_or_default(),
        columns: lines(row[2].as_ref()),
        other: row[3].clone().map(|table| (table, lines(row[4].as_ref()))),
    });
    Ok(each.collect())
}

/// Whether the table has a unique index that is none of its constraints'.
pub(crate) fn has_unique_index(connection: &mut Connection, name: &TableName) -> Result<bool> {
    let query = "SELECT index_name FROM duckdb_indexes() WHERE database_name = current_database() \
                 AND is_unique AND NOT is_primary AND schema_name = $1 AND table_name = $2";
    Ok(!rows_of_texts(connection, query, &[schema_of(name), &name.name])?.is_empty())
}

/// A column, and the default that it is declared with.
pub(crate) struct Described {
    pub(crate) column: Column,
    pub(crate) default: Option<String>,
}

/// The columns of a table.
pub(crate) fn columns(connection: &mut Connection, found: &Found) -> Result<Vec<Described>> {
    let query = "SELECT column_name, data_type, CAST(is_nullable AS VARCHAR), column_default FROM duckdb_columns() \
                 WHERE database_name = current_database() AND schema_name = $1 AND table_name = $2 ORDER BY column_index";
    let rows = rows_of_texts(connection, query, &[schema_of(&found.name), &found.name.name])?;
    let said: Vec<_> = definitions(&found.sql)
        .iter()
        .map(|definition| named_definition(definition))
        .collect();
    let each = rows.into_iter().map(|row| {
        let name = row[0].clone().unwrap_or_default();
        let declared = row[1].clone().unwrap_or_default();
        let known = types::of_name(&declared);
        let said = said.iter().find(|(known, _)| *known == name);
        let says = |what: &str| said.is_some_and(|(_, said)| said.contains(what));
        let is_generated = says(" GENERATED ALWAYS AS");
        let by_collation = says(" COLLATE ");
        let default = row[3].clone().filter(|_| !is_generated);
        Described {
            column: Column {
                ty: known.map(|known| known.ty),
                equality: match known {
                    Some(known) if !by_collation => known.equality(),
                    _ => Equality::ServerOnly,
                },
                nullable: row[2].as_deref() != Some("false"),
                has_default: default
                    .as_deref()
                    .is_some_and(|default| !default.eq_ignore_ascii_case("NULL")),
                generated: is_generated,
                // A sequence is not moved by the values that are given.
                numbered: default
                    .as_deref()
                    .filter(|default| default.starts_with("nextval("))
                    .map(|_| tonnage_core::table::Numbered::ByDefault),
                name,
                declared,
            },
            default,
        }
    });
    Ok(each.collect())
}

/// What the statement that makes a table says of its columns and constraints, one by one; no catalogue has all of it.
fn definitions(sql: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let (mut depth, mut quoted) = (0_u32, None);
    for c in sql.chars() {
        // A doubled quote ends one text and begins another.
        match (quoted, c) {
            (Some(quote), _) => quoted = (c != quote).then_some(quote),
            (None, '"' | '\'') => quoted = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, _) => {}
        }
        let begins = quoted.is_none() && depth == 1 && (c == ',' || (c == '(' && found.is_empty()));
        match found.last_mut() {
            _ if begins => found.push(String::new()),
            Some(last) if depth > 0 => last.push(c),
            _ => {}
        }
    }
    found
}

/// The name that a definition begins with, and what it says outside of quotes and parentheses.
fn named_definition(definition: &str) -> (String, String) {
    let text = definition.trim();
    let (name, rest) = match text.strip_prefix('"') {
        Some(quoted) => {
            let mut name = String::new();
            let mut chars = quoted.char_indices().peekable();
            let mut end = quoted.len();
            while let Some((at, c)) = chars.next() {
                match c {
                    '"' if chars.next_if(|(_, next)| *next == '"').is_some() => name.push('"'),
                    '"' => {
                        end = at + 1;
                        break;
                    }
                    c => name.push(c),
                }
            }
            (name, &quoted[end..])
        }
        None => {
            let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            (name.to_owned(), rest)
        }
    };
    let (mut said, mut depth, mut quoted) = (String::new(), 0_u32, None);
    for c in rest.chars() {
        match (quoted, c) {
            (Some(quote), _) => quoted = (c != quote).then_some(quote),
            (None, '"' | '\'') => quoted = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, c) if depth == 0 => said.extend(c.to_uppercase()),
            (None, _) => {}
        }
    }
    (name, said)
}

/// Reads a table by exact name, else by a unique case-insensitive one.
pub(crate) fn table(connection: &mut Connection, wanted: &TableName) -> Result<Option<Table>> {
    match find(connection, wanted)? {
        None => Ok(None),
        Some(found) if found.is_view => {
            Err(Error::schema(format!("{} is a view", found.name)).hint("name the table that it reads from"))
        }
        Some(found) => describe(connection, &found).map(Some),
    }
}

/// All of a table that was found.
pub(crate) fn describe(connection: &mut Connection, found: &Found) -> Result<Table> {
    let columns: Vec<Column> = columns(connection, found)?
        .into_iter()
        .map(|described| described.column)
        .collect();
    let is_collated = |name: &String| {
        let column = columns.iter().find(|column| column.name == *name);
        column.is_some_and(|column| column.declared == "VARCHAR" && column.equality == Equality::ServerOnly)
    };
    let mut notes = Vec::new();
    let mut keys: Vec<Key> = Vec::new();
    for constraint in constraints(connection, &found.name)? {
        let primary = constraint.kind == "PRIMARY KEY";
        if !primary && constraint.kind != "UNIQUE" {
            continue;
        }
        if constraint.columns.iter().any(is_collated) {
            notes.push(format!(
                "the key ({}) is none to recognise rows by: the table has a collation, by which DuckDB's conditions compare \
                 and its keys do not",
                constraint.columns.join(", ")
            ));
            continue;
        }
        keys.push(Key {
            columns: constraint.columns,
            primary,
        });
    }
    Ok(Table {
        name: found.name.clone(),
        identity: identity(connection, found)?,
        columns,
        keys,
        transactional: true,
        less_durable: None,
        notes,
    })
}

/// The foreign keys of a table.
pub(crate) fn foreign_keys(connection: &mut Connection, name: &TableName) -> Result<Vec<ForeignKey>> {
    let of = constraints(connection, name)?
        .into_iter()
        .filter(|constraint| constraint.kind == "FOREIGN KEY");
    let keys = of.filter_map(|constraint| {
        let (table, key) = constraint.other?;
        Some(ForeignKey {
            columns: constraint.columns,
            // A foreign key leads to a table of its own schema.
            table: TableName {
                schema: name.schema.clone(),
                name: table,
            },
            key,
            unlike: None,
            partial: None,
        })
    });
    Ok(keys.collect())
}

/// Drops `table` if it is still there, in the transaction that is open; see
/// [`Target::drop_table`](tonnage_core::target::Target::drop_table).
pub(crate) fn drop_table(connection: &mut Connection, table: &Table, rows: Rows) -> Result<bool> {
    let identity = identity_of(connection, &table.name)?;
    if identity.is_none_or(|identity| identity != table.identity) {
        return Ok(false);
    }
    let name = name_of(&table.name);
    if rows == Rows::Keep {
        let any = format!("SELECT CAST(count(*) AS BIGINT) FROM (SELECT 1 FROM {name} LIMIT 1)");
        if count(connection, &any)? > 0 {
            return Ok(false);
        }
    }
    let dropped = connection.run(&format!("DROP TABLE {name}"));
    dropped.map_err(|failure| failed(failure).at(format!("cannot drop {}", table.name)))?;
    Ok(true)
}

/// The number that a query of one answers.
pub(crate) fn count(connection: &mut Connection, sql: &str) -> Result<i64> {
    let answer = connection.query(sql, None).map_err(failed)?;
    let batch = answer.iter().find(|batch| batch.num_rows() > 0);
    let number = batch.map(|batch| numbers(batch, 0)).transpose()?;
    Ok(number
        .and_then(|numbers| numbers.first().copied().flatten())
        .unwrap_or(0))
}

/// Names and types of what a query answers.
pub(crate) fn described(connection: &mut Connection, select: &str) -> Result<Vec<(String, String)>> {
    let rows = connection
        .query(&format!("DESCRIBE {select}"), None)
        .map_err(failed)?;
    let mut columns = Vec::new();
    for batch in rows {
        let (names, types) = (
            batch.column(0).as_string_opt::<i32>(),
            batch.column(1).as_string_opt::<i32>(),
        );
        let (Some(names), Some(types)) = (names, types) else {
            return Err(Error::bug("DESCRIBE answers no texts"));
        };
        let each = names.iter().zip(types);
        columns.extend(each.map(|(name, ty)| {
            (
                name.unwrap_or_default().to_owned(),
                ty.unwrap_or_default().to_owned(),
            )
        }));
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_catalogue_has_is_read_from_the_statement() {
        let sql = r#"CREATE TABLE main."Odd ""(t"(id BIGINT PRIMARY KEY, "a ""b"", (c" VARCHAR COLLATE nocase DEFAULT('x, GENERATED ALWAYS AS'), g INTEGER GENERATED ALWAYS AS((id + 1)), e ENUM('a,b', 'c)'), CHECK((id > 0)));"#;
        let found = definitions(sql);
        let found: Vec<_> = found
            .iter()
            .map(|definition| named_definition(definition))
            .collect();
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["id", "a \"b\", (c", "g", "e", "CHECK((id"]);
        let generated: Vec<_> = found
            .iter()
            .map(|(_, said)| said.contains(" GENERATED ALWAYS AS"))
            .collect();
        assert_eq!(generated, [false, false, true, false, false]);
        assert!(found[1].1.contains(" COLLATE "));
    }
}
