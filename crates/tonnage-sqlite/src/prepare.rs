//! What is done to a table around a run: it is recreated, or its indexes are built again.
//!
//! - Everything happens in the open transaction of the ledger, so it is there with the ledger's rows or not at all.
//! - A shadow is made by the table's own CREATE TABLE under another name. SQLite cannot rename an index, so a shadow
//!   has only the unique ones, under names of its own, and all are made by their own statements once it has the table's
//!   place.
//! - Views and triggers elsewhere mean a table by its name, so they need not know of the swap.

use rusqlite::{Connection, OptionalExtension};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{NewRun, RunDetail},
    preparation::{
        IndexDefinition, Pending, Preparation, PreparationEffects, altered, not_empty, not_recreatable,
        shadow,
    },
    table::{TableIdentity, TableName},
};

use super::{
    catalog,
    errors::{self, Doing},
    identity,
    sql::quote,
};

fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

/// What a preparation will do, or why it cannot be done.
pub(super) fn check_preparation(
    connection: &Connection,
    table: &str,
    preparation: Preparation,
) -> Result<PreparationEffects> {
    let name = TableName::bare(table);
    let mut effects = PreparationEffects::default();
    match preparation {
        Preparation::Keep | Preparation::Truncate => {}
        Preparation::Recreate => {
            not_recreatable(&name, &obstacles(connection, table)?)?;
            effects.notes.push(format!(
                "rows go into a table made like {table}, which takes its place at the end; rows that others write \
                 into {table} until then are lost"
            ));
        }
        Preparation::RebuildIndexes { .. } => {
            let (dropped, kept): (Vec<_>, Vec<_>) = indexes(connection, table)?
                .into_iter()
                .partition(|index| !index.unique);
            let names = |indexes: &[Index]| {
                let names: Vec<_> = indexes.iter().map(|index| index.name.as_str()).collect();
                names.join(", ")
            };
            effects.notes.push(match dropped.is_empty() {
                true => format!("{table} has no index that could be built at the end"),
                false => format!(
                    "indexes dropped when the run starts and built at its end: {}",
                    names(&dropped)
                ),
            });
            if !kept.is_empty() {
                effects
                    .notes
                    .push(format!("indexes kept up, as they are unique: {}", names(&kept)));
            }
        }
    }
    Ok(effects)
}

/// Does what the run's preparation asks for, and notes in its detail what is owed then.
pub(super) fn prepare(connection: &Connection, run: &NewRun, detail: &mut RunDetail) -> Result<()> {
    let table = run.table.name.as_str();
    let mut pending = Pending {
        table: run.table.clone(),
        shadow: None,
        indexes: Vec::new(),
    };
    match run.preparation {
        Preparation::Keep | Preparation::Truncate => return Ok(()),
        Preparation::Recreate => {
            not_recreatable(&run.table, &obstacles(connection, table)?)?;
            let name = shadow(&run.table, &run.run_id);
            make(connection, table, &name.name)?;
            pending.shadow = Some(name);
        }
        Preparation::RebuildIndexes { .. } => {
            let filled: bool = connection
                .query_row(
                    &format!("SELECT EXISTS (SELECT 1 FROM {})", quote(table)),
                    [],
                    |row| row.get(0),
                )
                .map_err(failed)?;
            if filled {
                return Err(not_empty(&run.table));
            }
            for index in indexes(connection, table)?
                .into_iter()
                .filter(|index| !index.unique)
            {
                execute(connection, &format!("DROP INDEX {}", quote(&index.name)))?;
                pending.indexes.push(IndexDefinition {
                    name: index.name,
                    definition: index.sql,
                    comment: None,
                });
            }
            // The indexes belong to the shape, by which a resumed run recognises its table.
            detail.table_identity = identity_of(connection, &run.table)?;
        }
    }
    detail.pending = Some(pending);
    Ok(())
}

/// Gives the table what is owed to it.
pub(super) fn finish(connection: &Connection, detail: &mut RunDetail) -> Result<()> {
    let Some(pending) = detail.pending.take() else {
        return Ok(());
    };
    let table = &pending.table;
    if let Some(shadow) = &pending.shadow {
        identity::renew_fence(connection).map_err(failed)?;
        let found = catalog::read_table(connection, &table.name)?;
        if found.map(|found| found.identity) != Some(detail.table_identity.clone()) {
            return Err(altered(table));
        }
        not_recreatable(table, &obstacles(connection, &table.name)?)?;
        swap(connection, &table.name, &shadow.name)?;
        identity::renew_fence(connection).map_err(failed)?;
    }
    build(connection, &pending.indexes)?;
    detail.table_identity = identity_of(connection, table)?;
    Ok(())
}

/// Leaves the table as if the run had never been prepared.
pub(super) fn undo(connection: &Connection, detail: &RunDetail) -> Result<()> {
    let Some(pending) = &detail.pending else {
        return Ok(());
    };
    if let Some(shadow) = &pending.shadow {
        execute(
            connection,
            &format!("DROP TABLE IF EXISTS {}", quote(&shadow.name)),
        )?;
    }
    // The indexes of a table that was dropped or made again are nobody's any more.
    let found = catalog::read_table(connection, &pending.table.name)?;
    match found.is_some_and(|found| found.identity.object == detail.table_identity.object) {
        true => build(connection, &pending.indexes),
        false => Ok(()),
    }
}

/// Why a table cannot be recreated.
fn obstacles(connection: &Connection, table: &str) -> Result<Vec<String>> {
    let mut statement = connection
        .prepare_cached(
            "SELECT DISTINCT 'a foreign key of ' || s.name || ' refers to it'
             FROM sqlite_schema AS s JOIN pragma_foreign_key_list(s.name) AS f
             WHERE s.type = 'table' AND f.\"table\" = ?1 COLLATE NOCASE
             UNION ALL
             SELECT 'it has the trigger ' || name FROM sqlite_schema
             WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE",
        )
        .map_err(failed)?;
    statement
        .query_map([table], |row| row.get(0))
        .and_then(Iterator::collect)
        .map_err(failed)
}

/// An index with a statement of its own.
struct Index {
    name: String,
    sql: String,
    unique: bool,
}

fn indexes(connection: &Connection, table: &str) -> Result<Vec<Index>> {
    let mut statement = connection
        .prepare_cached(
            "SELECT s.name, s.sql, i.\"unique\" FROM sqlite_schema AS s
             JOIN pragma_index_list(?1) AS i ON i.name = s.name
             WHERE s.type = 'index' AND s.sql IS NOT NULL ORDER BY s.rowid",
        )
        .map_err(failed)?;
    statement
        .query_map([table], |row| {
            Ok(Index {
                name: row.get(0)?,
                sql: row.get(1)?,
                unique: row.get(2)?,
            })
        })
        .and_then(Iterator::collect)
        .map_err(failed)
}

/// Makes the shadow.
fn make(connection: &Connection, table: &str, shadow: &str) -> Result<()> {
    let unreadable = || Error::bug(format!("the definition of {table} cannot be read"));
    let sql: String = connection
        .query_row(
            "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1",
            [table],
            |row| row.get(0),
        )
        .map_err(failed)?;
    // SQLite keeps `CREATE TABLE`, then the name and what follows it as they were written.
    let rest = after(&sql, &["CREATE", "TABLE"])
        .and_then(after_name)
        .ok_or_else(unreadable)?;
    let created = execute(connection, &format!("CREATE TABLE {}{rest}", quote(shadow)));
    created.map_err(|error| {
        Error::new(
            ErrorKind::Schema,
            format!("{table} cannot be recreated: its definition works under no other name ({error})"),
        )
        .hint("--truncate empties the table and leaves everything else about it as it is")
    })?;
    for (number, index) in indexes(connection, table)?
        .iter()
        .filter(|index| index.unique)
        .enumerate()
    {
        let rest = after(&index.sql, &["CREATE", "UNIQUE", "INDEX"])
            .and_then(after_name)
            .and_then(|rest| after(rest, &["ON"]))
            .and_then(after_name)
            .ok_or_else(unreadable)?;
        let name = quote(&format!("{shadow}_{number}"));
        execute(
            connection,
            &format!("CREATE UNIQUE INDEX {name} ON {}{rest}", quote(shadow)),
        )?;
    }
    // A key that counts up goes on where it was.
    let counts = connection
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'",
            [],
            |_| Ok(()),
        )
        .optional()
        .map_err(failed)?;
    if counts.is_some() {
        connection
            .execute(
                "INSERT INTO sqlite_sequence (name, seq) SELECT ?2, seq FROM sqlite_sequence WHERE name = ?1",
                [table, shadow],
            )
            .map_err(failed)?;
    }
    Ok(())
}

/// Puts the shadow in the table's place.
fn swap(connection: &Connection, table: &str, shadow: &str) -> Result<()> {
    let definitions: Vec<String> = indexes(connection, table)?
        .into_iter()
        .map(|index| index.sql)
        .collect();
    for index in indexes(connection, shadow)? {
        execute(connection, &format!("DROP INDEX {}", quote(&index.name)))?;
    }
    execute(connection, &format!("DROP TABLE {}", quote(table)))?;
    // Otherwise SQLite would want to rewrite views that mean the table by its name, which is just not there.
    execute(connection, "PRAGMA legacy_alter_table = ON")?;
    let renamed = execute(
        connection,
        &format!("ALTER TABLE {} RENAME TO {}", quote(shadow), quote(table)),
    );
    execute(connection, "PRAGMA legacy_alter_table = OFF")?;
    renamed?;
    definitions
        .iter()
        .try_for_each(|definition| execute(connection, definition))
}

/// Builds indexes that are not there.
fn build(connection: &Connection, definitions: &[IndexDefinition]) -> Result<()> {
    for index in definitions {
        let found = connection
            .query_row(
                "SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = ?1 COLLATE NOCASE",
                [&index.name],
                |_| Ok(()),
            )
            .optional()
            .map_err(failed)?;
        if found.is_some() {
            continue;
        }
        // The ledger is a table that others may write; nothing but an index is made from it.
        if after(&index.definition, &["CREATE", "INDEX"]).is_none() {
            return Err(Error::new(
                ErrorKind::Refused,
                format!("the ledger's definition of index {} is none", index.name),
            ));
        }
        execute(connection, &index.definition)
            .map_err(|error| error.at(format!("cannot build index {}", index.name)))?;
    }
    Ok(())
}

fn identity_of(connection: &Connection, table: &TableName) -> Result<TableIdentity> {
    match catalog::read_table(connection, &table.name)? {
        Some(table) => Ok(table.identity),
        None => Err(Error::schema(format!("there is no table {table}"))),
    }
}

/// Executes one statement, whether it answers with a row or not.
fn execute(connection: &Connection, statement: &str) -> Result<()> {
    let mut statement = connection.prepare(statement).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    while rows.next().map_err(failed)?.is_some() {}
    Ok(())
}

/// What follows these words, whatever their case.
fn after<'a>(text: &'a str, words: &[&str]) -> Option<&'a str> {
    words.iter().try_fold(text, |text, word| {
        let text = text.trim_start();
        let found = text.get(..word.len())?;
        found.eq_ignore_ascii_case(word).then(|| &text[word.len()..])
    })
}

/// What follows a name, quoted in any of SQLite's ways or plain.
fn after_name(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let first = text.chars().next()?;
    let close = match first {
        '"' | '`' | '\'' => first,
        '[' => ']',
        _ => {
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
            return text
                .find(|c| !is_part(c))
                .map(|end| &text[end..])
                .filter(|rest| *rest != text);
        }
    };
    let mut at = 1;
    loop {
        at += text.get(at..)?.find(close)? + 1;
        match text[at..].starts_with(close) && close != ']' {
            true => at += 1,
            false => return Some(&text[at..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_where_sqlite_ends_it() {
        for (text, rest) in [
            ("CREATE TABLE t (a)", Some(" (a)")),
            ("CREATE TABLE t(a)", Some("(a)")),
            ("create table\n größe$1 (a)", Some(" (a)")),
            ("CREATE TABLE \"a \"\" (b\" (c)", Some(" (c)")),
            ("CREATE TABLE [a \" (b] (c)", Some(" (c)")),
            ("CREATE TABLE `a``(`(c)", Some("(c)")),
            ("CREATE TABLE 'it''s'(c)", Some("(c)")),
            ("CREATE TABLE \"open (c)", None),
            ("CREATE TABLE", None),
            ("CREATE VIEW v AS SELECT 1", None),
        ] {
            let found = after(text, &["CREATE", "TABLE"]).and_then(after_name);
            assert_eq!(found, rest, "{text}");
        }
    }
}
