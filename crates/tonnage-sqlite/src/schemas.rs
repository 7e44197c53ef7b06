//! Definitions of tables, out of a file and into one.
//!
//! A table in the words of SQLite is the text of its CREATE statements, which the schema keeps. Foreign keys are part of
//! CREATE TABLE and cannot be added later, so rows are written without them being checked, and looked through afterwards.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, types::FromSql};
use tonnage_core::{
    error::Result,
    schema::{
        Action, Additions, ColumnDefinition, Counter, DatabaseDefinition, DefaultValue, DefaultWords,
        ForeignKeyDefinition, SecondaryIndex, Step, TableDefinition, TableStatements,
    },
    table::TableName,
    target::{Schemas, Target},
    types::ColumnType,
};

use super::{
    DRIVER, SqliteTarget, catalog,
    connect::Location,
    errors::{self, Doing},
    sql::{create_table_with, quote, rowid},
};

fn failed(failure: rusqlite::Error) -> tonnage_core::error::Error {
    errors::error(failure, Doing::Else)
}

#[async_trait]
impl Schemas for SqliteTarget {
    fn kind(&self) -> &str {
        DRIVER.name
    }

    async fn definitions(&self) -> Result<DatabaseDefinition> {
        self.on_existing(DatabaseDefinition::default(), |connection| {
            // One read transaction, so that all of it is of one schema.
            let read = connection.unchecked_transaction().map_err(failed)?;
            database(&read)
        })
        .await
    }

    fn statements(&self, table: &TableDefinition) -> Result<TableStatements> {
        statements(table)
    }

    async fn unchecked(&self) -> Result<Option<Arc<dyn Target>>> {
        let location = Location {
            foreign_keys: false,
            ..self.location.clone()
        };
        let target: Arc<dyn Target> = Arc::new(Self::open(location).await?);
        Ok(Some(target))
    }

    async fn broken_foreign_keys(&self, table: &TableName) -> Result<Option<String>> {
        let name = table.name.clone();
        self.on_required(move |connection| broken(connection, &name))
            .await
    }
}

/// The first column of the rows of a question about `name`.
fn listed<T: FromSql>(connection: &Connection, sql: &str, name: &str) -> Result<Vec<T>> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_map([name], |row| row.get(0))?.collect())
        .map_err(failed)
}

fn database(connection: &Connection) -> Result<DatabaseDefinition> {
    let names = catalog::table_names(connection).map_err(failed)?;
    let tables = names.iter().map(|name| table(connection, name));
    let others = "SELECT type || ' ' || name FROM pragma_table_list \
        WHERE schema = ?1 AND type IN ('view', 'virtual') ORDER BY 1";
    Ok(DatabaseDefinition {
        tables: tables.collect::<Result<_>>()?,
        others: listed(connection, others, "main")?,
    })
}

fn table(connection: &Connection, name: &str) -> Result<TableDefinition> {
    let create = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    let own: Vec<String> = listed(connection, create, name)?;
    let made = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = ?1 ORDER BY name";
    let names: Vec<String> = listed(connection, made, name)?;
    let mut after_rows = Vec::with_capacity(names.len());
    for index in &names {
        let text = "SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ?1";
        let sql = listed(connection, text, index)?.into_iter().next();
        after_rows.extend(sql.map(|sql| Step {
            what: format!("index {index}"),
            name: Some(index.clone()),
            sql,
        }));
    }
    let counter = counter(connection, name)?;
    after_rows.extend(counter.map(|last| counted_from(name, last)));
    let mut only_own = Vec::new();
    let text = own.concat().to_ascii_uppercase();
    for (word, what) in [("CHECK", "its checks"), ("COLLATE", "its collations")] {
        if text.contains(word) {
            only_own.push(what.to_owned());
        }
    }
    let alias = catalog::rowid_alias(connection, name)?;
    let columns = columns(connection, name, alias.as_deref(), counter)?;
    let computed = columns.iter().filter(|column| column.generated);
    only_own.extend(computed.map(|column| format!("how {} is computed", column.name)));
    let key = "SELECT name FROM pragma_table_xinfo(?1) WHERE pk > 0 ORDER BY pk";
    let indexes = indexes(connection, name, &mut only_own)?;
    let mut left_out = Vec::new();
    let foreign_keys = foreign_keys(connection, name, &mut left_out)?;
    let triggers = "SELECT 'the trigger ' || name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 ORDER BY 1";
    left_out.extend(listed(connection, triggers, name)?);
    Ok(TableDefinition {
        name: TableName::bare(name),
        columns,
        primary_key: listed(connection, key, name)?,
        indexes,
        foreign_keys,
        named_by: Vec::new(),
        own: TableStatements {
            create: own,
            after_rows,
            ..TableStatements::default()
        },
        only_own,
        left_out,
        names,
    })
}

/// The last number that a table with AUTOINCREMENT has given.
fn counter(connection: &Connection, name: &str) -> Result<Option<i64>> {
    let there = "SELECT 1 FROM sqlite_schema WHERE name = ?1";
    if listed::<i64>(connection, there, "sqlite_sequence")?.is_empty() {
        return Ok(None);
    }
    let last = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
    connection
        .query_row(last, [name], |row| row.get(0))
        .optional()
        .map_err(failed)
}

fn counted_from(table: &str, last: i64) -> Step {
    let name = table.replace('\'', "''");
    Step {
        what: "the counter of its rowids".to_owned(),
        name: None,
        sql: format!(
            "DELETE FROM sqlite_sequence WHERE name = '{name}' AND seq < {last}; \
             INSERT INTO sqlite_sequence (name, seq) SELECT '{name}', {last} \
             WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = '{name}')"
        ),
    }
}

fn columns(
    connection: &Connection,
    table: &str,
    alias: Option<&str>,
    last: Option<i64>,
) -> Result<Vec<ColumnDefinition>> {
    let sql = "SELECT name, \"notnull\", dflt_value, hidden FROM pragma_table_xinfo(?1)";
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let columns = statement.query_map([table], |row| {
        let name: String = row.get(0)?;
        let is_alias = alias == Some(name.as_str());
        let default: Option<String> = row.get(2)?;
        Ok(ColumnDefinition {
            ty: ColumnType::Any,
            nullable: !is_alias && !row.get::<_, bool>(1)?,
            default: default.as_deref().and_then(DefaultValue::of_sql),
            numbered: is_alias.then_some(Counter { last }),
            generated: row.get::<_, i64>(3)? != 0,
            name,
        })
    });
    columns.and_then(Iterator::collect).map_err(failed)
}

fn indexes(connection: &Connection, table: &str, only_own: &mut Vec<String>) -> Result<Vec<SecondaryIndex>> {
    let sql = "SELECT name, \"unique\", origin, partial FROM pragma_index_list(?1) WHERE origin <> 'pk' ORDER BY name";
    type Line = (String, bool, String, bool);
    let lines: Vec<Line> = connection
        .prepare_cached(sql)
        .and_then(|mut statement| {
            let lines = statement.query_map([table], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })?;
            lines.collect()
        })
        .map_err(failed)?;
    let mut indexes = Vec::new();
    for (name, unique, origin, partial) in lines {
        // Null for an expression.
        let columns = "SELECT name FROM pragma_index_xinfo(?1) WHERE key ORDER BY seqno";
        let columns: Vec<Option<String>> = listed(connection, columns, &name)?;
        match columns.into_iter().collect::<Option<Vec<_>>>() {
            Some(columns) if !partial => indexes.push(SecondaryIndex {
                // SQLite names what a constraint makes by itself.
                name: match origin.as_str() {
                    "u" => format!("{table}_{}_key", columns.join("_")),
                    _ => name,
                },
                columns,
                unique,
            }),
            _ => only_own.push(format!("the index {name}")),
        }
    }
    Ok(indexes)
}

fn foreign_keys(
    connection: &Connection,
    table: &str,
    left_out: &mut Vec<String>,
) -> Result<Vec<ForeignKeyDefinition>> {
    let sql = "SELECT id, \"table\", \"from\", \"to\", on_delete, on_update FROM pragma_foreign_key_list(?1) ORDER BY id, seq";
    type Line = (i64, String, String, Option<String>, String, String);
    let lines: Vec<Line> = connection
        .prepare_cached(sql)
        .and_then(|mut statement| {
            let lines = statement.query_map([table], |row| {
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get(3)?,
                    row.get(4)?,
                    row.get(5)?,
                ))
            })?;
            lines.collect()
        })
        .map_err(failed)?;
    let mut keys = Vec::new();
    for lines in lines.chunk_by(|a, b| a.0 == b.0) {
        let (_, other, _, _, on_delete, on_update) = &lines[0];
        let columns: Vec<String> = lines.iter().map(|line| line.2.clone()).collect();
        let primary = "SELECT name FROM pragma_table_xinfo(?1) WHERE pk > 0 ORDER BY pk";
        let named: Option<Vec<String>> = lines.iter().map(|line| line.3.clone()).collect();
        let key = match named {
            Some(key) => key,
            None => listed(connection, primary, other)?,
        };
        let exact = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE";
        let exact: Option<String> = listed(connection, exact, other)?.into_iter().next();
        match exact.filter(|_| key.len() == columns.len()) {
            Some(other) => keys.push(ForeignKeyDefinition {
                name: format!("{table}_{}_fkey", columns.join("_")),
                columns,
                table: TableName::bare(other),
                key,
                on_delete: Action::named(on_delete),
                on_update: Action::named(on_update),
            }),
            None => left_out.push(format!(
                "the foreign key ({}), which names no table that is there",
                columns.join(", ")
            )),
        }
    }
    Ok(keys)
}

const WORDS: DefaultWords = DefaultWords {
    quote: |text| format!("'{}'", text.replace('\'', "''")),
    now: "CURRENT_TIMESTAMP",
    now_tz: "(strftime('%Y-%m-%d %H:%M:%fZ', 'now'))",
    today: "CURRENT_DATE",
};

fn statements(table: &TableDefinition) -> Result<TableStatements> {
    let mut lost = Vec::new();
    let spec = table.spec(&table.primary_key);
    let rowid = rowid(&spec).map(|column| column.name.clone());
    for column in table.columns.iter().filter(|column| column.numbered.is_some()) {
        if rowid.as_ref() != Some(&column.name) {
            lost.push(format!("numbers for {}: only a rowid is numbered", column.name));
        }
    }
    let foreign_keys = table.foreign_keys.iter().map(|key| {
        let quote_table = |name: &TableName| quote(&name.name);
        format!("CONSTRAINT {} {}", quote(&key.name), key.sql(quote, quote_table))
    });
    let additions = Additions {
        columns: table.defaults(&WORDS, &mut lost),
        lines: foreign_keys.collect(),
    };
    let after_rows = table.indexes.iter().map(|index| {
        let unique = if index.unique { "UNIQUE " } else { "" };
        let columns: Vec<_> = index.columns.iter().map(|name| quote(name)).collect();
        Step {
            what: format!("index {}", index.name),
            name: Some(index.name.clone()),
            sql: format!(
                "CREATE {unique}INDEX {} ON {} ({})",
                quote(&index.name),
                quote(&table.name.name),
                columns.join(", ")
            ),
        }
    });
    Ok(TableStatements {
        create: vec![create_table_with(&spec, &additions)?],
        after_rows: after_rows.collect(),
        foreign_keys: Vec::new(),
        lost,
    })
}

fn broken(connection: &Connection, table: &str) -> Result<Option<String>> {
    let sql = "SELECT count(*), min(parent) FROM pragma_foreign_key_check(?1)";
    let (rows, parent): (i64, Option<String>) = connection
        .query_row(sql, [table], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(failed)?;
    Ok(parent.map(|parent| {
        let rows = tonnage_core::report::Counted(rows.unsigned_abs(), "row");
        format!("{rows} name others, of {parent} first, that are not there")
    }))
}
