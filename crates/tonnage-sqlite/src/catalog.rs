//! Tables as SQLite's schema has them.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use tonnage_core::{
    error::{Error, Result},
    report::Counted,
    table::{Column, Equality, ForeignKey, Key, Table, TableIdentity, TableName, find_by_name},
    target::Rows,
    types::ColumnType,
};

use super::{
    errors::{self, Doing},
    identity,
    sql::{KeyColumn, quote},
    types::{self, Affinity, Typing},
};

/// The names of the tables a user may load: no views, no virtual tables, nothing of SQLite's or of the
/// ledger's.
pub(super) fn table_names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare_cached(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
         AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'tonnage\\_%' ESCAPE '\\'
         ORDER BY name",
    )?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Reads a table by exact name, else by a unique case-insensitive one.
pub(super) fn table(connection: &Connection, wanted: &TableName) -> Result<Option<Table>> {
    refuse_other_schema(wanted)?;
    // One read transaction, so that all parts are of one schema. Dropping it undoes nothing: it only read.
    let read = connection.unchecked_transaction().map_err(failed)?;
    read_table(&read, &wanted.name)
}

/// Reads a table in the open transaction.
pub(super) fn read_table(connection: &Connection, name: &str) -> Result<Option<Table>> {
    let Some(found) = find(connection, name)? else {
        return Ok(None);
    };
    let parts = Parts::read(connection, &found).map_err(failed)?;
    let object = identity::object(connection, &found.name, found.schema_rowid).map_err(failed)?;
    Ok(Some(parts.into_table(found, object)))
}

/// The column of a table that is its rowid under another name. `connection` has begun to read.
pub(super) fn rowid_alias(connection: &Connection, name: &str) -> Result<Option<String>> {
    let Some(found) = find(connection, name)? else {
        return Ok(None);
    };
    let parts = Parts::read(connection, &found).map_err(failed)?;
    Ok(parts.rowid_alias(found.without_rowid).map(str::to_owned))
}

/// Something that has rows.
pub(super) struct Readable {
    /// Its exact name.
    pub(super) name: String,
    /// What the schema says of it, for a table.
    pub(super) table: Option<Table>,
    /// Whether its rows have rowids.
    pub(super) has_rowid: bool,
}

/// Reads a table, a view or a virtual table by exact name, else by a unique case-insensitive one. `connection` has begun
/// to read.
pub(super) fn readable(connection: &Connection, wanted: &TableName) -> Result<Option<Readable>> {
    refuse_other_schema(wanted)?;
    let Some((name, kind)) = named(connection, &wanted.name)? else {
        return Ok(None);
    };
    if kind != "table" || name.to_ascii_lowercase().starts_with("sqlite_") {
        return Ok(Some(Readable {
            name,
            table: None,
            has_rowid: false,
        }));
    }
    let Some(found) = find(connection, &name)? else {
        return Ok(None);
    };
    let parts = Parts::read(connection, &found).map_err(failed)?;
    let object = identity::object(connection, &found.name, found.schema_rowid).map_err(failed)?;
    Ok(Some(Readable {
        name,
        has_rowid: !found.without_rowid,
        table: Some(parts.into_table(found, object)),
    }))
}

fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

fn refuse_other_schema(wanted: &TableName) -> Result<()> {
    if let Some(schema) = &wanted.schema
        && !schema.eq_ignore_ascii_case("main")
    {
        return Err(
            Error::schema(format!("there is no schema '{schema}'")).hint(format!(
                "a SQLite file has the one schema main: give the table as {}",
                wanted.name
            )),
        );
    }
    Ok(())
}

/// A table's line in the schema.
struct Found {
    name: String,
    schema_rowid: i64,
    typing: Typing,
    without_rowid: bool,
}

/// The exact name and the kind of what is called `name`.
fn named(connection: &Connection, name: &str) -> Result<Option<(String, String)>> {
    let mut statement = connection
        .prepare_cached("SELECT name, type FROM pragma_table_list WHERE schema = 'main'")
        .map_err(failed)?;
    let all: Vec<(String, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .and_then(Iterator::collect)
        .map_err(failed)?;
    Ok(find_by_name(&all, name, |(name, _)| name).cloned())
}

fn find(connection: &Connection, name: &str) -> Result<Option<Found>> {
    let Some((name, kind)) = named(connection, name)? else {
        return Ok(None);
    };
    match kind.as_str() {
        "table" => {}
        "view" => {
            return Err(Error::schema(format!("{name} is a view")).hint("name the table that it reads from"));
        }
        _ => {
            return Err(Error::schema(format!("{name} is a virtual table"))
                .hint("load into an ordinary table, then INSERT .. SELECT from it"));
        }
    }
    if name.to_ascii_lowercase().starts_with("sqlite_") {
        return Err(Error::schema(format!("{name} is SQLite's own table")).hint("choose another table"));
    }
    connection
        .query_row(
            "SELECT l.name, s.rowid, l.strict, l.wr FROM pragma_table_list AS l
             JOIN sqlite_schema AS s ON s.type = 'table' AND s.name = l.name
             WHERE l.schema = 'main' AND l.name = ?1",
            [&name],
            |row| {
                Ok(Found {
                    name: row.get(0)?,
                    schema_rowid: row.get(1)?,
                    typing: match row.get(2)? {
                        true => Typing::Strict,
                        false => Typing::Flexible,
                    },
                    without_rowid: row.get(3)?,
                })
            },
        )
        .optional()
        .map_err(failed)
}

/// A column as the schema has it.
struct RawColumn {
    name: String,
    declared: String,
    not_null: bool,
    has_default: bool,
    /// Place in the primary key from 1; 0 outside it.
    primary: i64,
    generated: bool,
}

/// A unique index.
struct RawIndex {
    origin: String,
    /// Names and collations of its key columns; none where one is an expression or the rowid.
    columns: Option<Vec<(String, String)>>,
}

/// All that the schema has about a table.
struct Parts {
    columns: Vec<RawColumn>,
    unique: Vec<RawIndex>,
    /// The CREATE statements of table, indexes and triggers.
    sql: Vec<(String, String)>,
}

impl Parts {
    fn read(connection: &Connection, found: &Found) -> rusqlite::Result<Self> {
        let columns = connection
            .prepare_cached(
                "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?1)",
            )?
            .query_map([&found.name], |row| {
                Ok(RawColumn {
                    name: row.get(0)?,
                    declared: row.get(1)?,
                    not_null: row.get(2)?,
                    has_default: row.get::<_, Option<String>>(3)?.is_some(),
                    primary: row.get(4)?,
                    generated: row.get::<_, i64>(5)? != 0,
                })
            })?
            .collect::<rusqlite::Result<_>>()?;
        let indexes: Vec<(String, String)> = connection
            .prepare_cached(
                "SELECT name, origin FROM pragma_index_list(?1) WHERE \"unique\" AND NOT partial",
            )?
            .query_map([&found.name], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let mut unique = Vec::with_capacity(indexes.len());
        for (name, origin) in indexes {
            let columns: Vec<Option<(String, String)>> = connection
                .prepare_cached(
                    "SELECT cid, name, coll FROM pragma_index_xinfo(?1) WHERE key ORDER BY seqno",
                )?
                .query_map([&name], |row| {
                    let cid: i64 = row.get(0)?;
                    Ok(if cid < 0 {
                        None
                    } else {
                        Some((row.get(1)?, row.get(2)?))
                    })
                })?
                .collect::<rusqlite::Result<_>>()?;
            unique.push(RawIndex {
                origin,
                columns: columns.into_iter().collect(),
            });
        }
        let sql = connection
            .prepare_cached(
                "SELECT type, sql FROM sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE AND sql IS NOT NULL
                 AND type IN ('table', 'index', 'trigger') ORDER BY type <> 'table', type, name",
            )?
            .query_map([&found.name], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        Ok(Self { columns, unique, sql })
    }

    /// The rowid under another name: the one column of type INTEGER that is a primary key without an index of
    /// its own.
    fn rowid_alias(&self, without_rowid: bool) -> Option<&str> {
        if without_rowid || self.unique.iter().any(|index| index.origin == "pk") {
            return None;
        }
        self.columns
            .iter()
            .find(|column| column.primary > 0)
            .map(|column| column.name.as_str())
    }

    /// Primary key first, then the other unique keys; the columns whose keys compare by another collation
    /// than BINARY.
    fn keys(&self) -> (Vec<Key>, HashSet<&str>) {
        let mut primary: Vec<&RawColumn> = self.columns.iter().filter(|column| column.primary > 0).collect();
        primary.sort_by_key(|column| column.primary);
        let mut keys = Vec::new();
        if !primary.is_empty() {
            keys.push(Key {
                columns: primary.iter().map(|column| column.name.clone()).collect(),
                primary: true,
            });
        }
        let mut collated = HashSet::new();
        for index in &self.unique {
            let Some(columns) = &index.columns else {
                continue;
            };
            for (name, collation) in columns {
                if collation != "BINARY" {
                    collated.insert(name.as_str());
                }
            }
            let key = Key {
                columns: columns.iter().map(|(name, _)| name.clone()).collect(),
                primary: false,
            };
            if index.origin != "pk" && !keys.iter().any(|known: &Key| known.columns == key.columns) {
                keys.push(key);
            }
        }
        (keys, collated)
    }

    /// How the unique index on these columns, else one that begins with them, compares them: the primary key's where
    /// there are several.
    fn key_columns(&self, key: &[String]) -> Vec<KeyColumn> {
        let begins = |columns: &&Vec<(String, String)>| {
            columns.len() >= key.len() && columns[..key.len()].iter().all(|(name, _)| key.contains(name))
        };
        let (primary, others): (Vec<_>, Vec<_>) = self.unique.iter().partition(|index| index.origin == "pk");
        let indexes = || {
            primary
                .iter()
                .chain(&others)
                .filter_map(|index| index.columns.as_ref())
        };
        let exact = indexes().find(|columns| columns.len() == key.len() && begins(columns));
        let index = exact.or_else(|| indexes().find(begins));
        let collation = |name: &String| {
            let column = index?.iter().find(|(column, _)| column == name);
            column.map(|(_, collation)| collation.clone())
        };
        key.iter()
            .map(|name| KeyColumn {
                name: name.clone(),
                collation: collation(name),
            })
            .collect()
    }

    fn notes(&self) -> Vec<String> {
        let triggers = self.sql.iter().filter(|(kind, _)| kind == "trigger").count();
        let mut notes = Vec::new();
        if triggers > 0 {
            let verb = if triggers == 1 { "runs" } else { "run" };
            let triggers = Counted(triggers as u64, "trigger");
            notes.push(format!("{triggers} on the table {verb} for every row"));
        }
        if self.has_conflict_clause() {
            notes.push(
                "the table's own ON CONFLICT clauses are overruled (OR ABORT): they would skip or replace \
                 rows silently"
                    .to_owned(),
            );
        }
        notes
    }

    /// Whether the table's definition may hold an ON CONFLICT clause. A column of that name costs nothing but
    /// a note.
    fn has_conflict_clause(&self) -> bool {
        self.sql
            .iter()
            .any(|(kind, sql)| kind == "table" && sql.to_ascii_uppercase().contains("CONFLICT"))
    }

    /// Whether the table has nothing that could refuse a row but types and NOT NULL, and no index. A column with the
    /// name of a key word makes it look as if it had more.
    fn is_plain(&self) -> bool {
        const MORE: [&str; 9] = [
            "PRIMARY",
            "UNIQUE",
            "REFERENCES",
            "CHECK",
            "AS",
            "CONFLICT",
            "STRICT",
            "WITHOUT",
            "VIRTUAL",
        ];
        self.sql.iter().all(|(kind, sql)| {
            let mut words = sql.split(|c: char| !c.is_alphanumeric() && c != '_');
            kind == "table" && !words.any(|word| MORE.iter().any(|more| word.eq_ignore_ascii_case(more)))
        })
    }

    fn into_table(self, found: Found, object: String) -> Table {
        let alias = self.rowid_alias(found.without_rowid);
        let (keys, collated) = self.keys();
        let columns = self
            .columns
            .iter()
            .map(|column| {
                let is_alias = alias == Some(column.name.as_str());
                let ty = types::column_type(&column.declared, found.typing);
                let provable =
                    ty.is_some_and(|ty| is_provable(&ty)) && !collated.contains(column.name.as_str());
                Column {
                    name: column.name.clone(),
                    ty,
                    declared: column.declared.clone(),
                    nullable: is_alias || !column.not_null,
                    has_default: is_alias || column.has_default,
                    generated: column.generated,
                    // Its counts follow the values that are given.
                    numbered: None,
                    equality: if provable {
                        Equality::Provable
                    } else {
                        Equality::ServerOnly
                    },
                }
            })
            .collect();
        let shape = self.sql.iter().map(|(_, sql)| sql.as_str()).collect::<Vec<_>>();
        Table {
            name: TableName::bare(found.name),
            identity: TableIdentity {
                object,
                shape: shape.join(";\n"),
            },
            columns,
            transactional: true,
            less_durable: None,
            notes: self.notes(),
            keys,
        }
    }
}

/// Whether two values of this type are stored as equal values exactly when they are equal in Arrow: their
/// stored form is canonical, and compared bit by bit.
fn is_provable(ty: &ColumnType) -> bool {
    match ty {
        ColumnType::Bool
        | ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::Text { .. }
        | ColumnType::Bytes
        | ColumnType::Date
        | ColumnType::Time
        | ColumnType::Timestamp
        | ColumnType::TimestampTz
        | ColumnType::Uuid => true,
        ColumnType::Float32
        | ColumnType::Float64
        | ColumnType::Decimal { .. }
        | ColumnType::Numeric
        | ColumnType::Char { .. }
        | ColumnType::Json
        | ColumnType::Any => false,
    }
}

/// The foreign keys of the table named exactly `name`. `connection` has begun to read.
pub(super) fn foreign_keys(connection: &Connection, name: &str) -> Result<Vec<ForeignKey>> {
    let mut statement = connection
        .prepare_cached(
            "SELECT id, \"table\", \"from\", \"to\" FROM pragma_foreign_key_list(?1) ORDER BY id, seq",
        )
        .map_err(failed)?;
    type Line = (i64, String, String, Option<String>);
    let lines: Vec<Line> = statement
        .query_map([name], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .and_then(Iterator::collect)
        .map_err(failed)?;
    let mut keys = Vec::new();
    for lines in lines.chunk_by(|a, b| a.0 == b.0) {
        // The table that it names need not be there.
        let Some(other) =
            readable(connection, &TableName::bare(lines[0].1.clone()))?.and_then(|found| found.table)
        else {
            continue;
        };
        let primary = other
            .primary_key()
            .map(|key| key.columns.clone())
            .unwrap_or_default();
        let mut key = ForeignKey {
            columns: Vec::with_capacity(lines.len()),
            key: Vec::with_capacity(lines.len()),
            table: other.name.clone(),
            unlike: None,
            partial: None,
        };
        for (at, (_, _, from, to)) in lines.iter().enumerate() {
            let Some(to) = to
                .as_ref()
                .or_else(|| primary.get(at))
                .and_then(|name| other.column(name))
            else {
                break;
            };
            let mine = collation(connection, name, from)?;
            let its = collation(connection, &other.name.name, &to.name)?;
            if mine != its {
                key.unlike = Some(format!(
                    "'{from}' compares as {mine} does, '{}' as {its}",
                    to.name
                ));
            }
            key.columns.push(from.clone());
            key.key.push(to.name.clone());
        }
        if key.key.len() == lines.len() {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// The collation that a column compares by.
fn collation(connection: &Connection, table: &str, column: &str) -> Result<String> {
    let (_, collation, ..) = connection
        .column_metadata(Some("main"), table, column)
        .map_err(failed)?;
    Ok(collation.map_or_else(
        || "BINARY".to_owned(),
        |name| name.to_string_lossy().to_ascii_uppercase(),
    ))
}

/// Whether an index of all rows leads to those of given values of `columns`. `connection` has begun to read.
pub(super) fn is_indexed(connection: &Connection, name: &str, columns: &[String]) -> Result<bool> {
    let Some(found) = find(connection, name)? else {
        return Ok(false);
    };
    let parts = Parts::read(connection, &found).map_err(failed)?;
    if matches!(columns, [only] if parts.rowid_alias(found.without_rowid) == Some(only)) {
        return Ok(true);
    }
    let indexes: Vec<String> = connection
        .prepare_cached("SELECT name FROM pragma_index_list(?1) WHERE NOT partial")
        .and_then(|mut statement| statement.query_map([name], |row| row.get(0))?.collect())
        .map_err(failed)?;
    for index in indexes {
        let first: Vec<Option<String>> = connection
            .prepare_cached("SELECT name FROM pragma_index_info(?1) ORDER BY seqno LIMIT ?2")
            .and_then(|mut statement| {
                statement
                    .query_map((&index, columns.len() as i64), |row| row.get(0))?
                    .collect()
            })
            .map_err(failed)?;
        if columns
            .iter()
            .all(|column| first.iter().any(|name| name.as_ref() == Some(column)))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a writer has to know of a table.
pub(super) struct Behaviour {
    /// Name and affinity of every column.
    pub(super) affinities: Vec<(String, Affinity)>,
    /// Whether triggers may add to what a statement does.
    pub(super) triggers: bool,
    /// Whether the table's definition may tell SQLite to skip or replace rows.
    pub(super) conflict_clause: bool,
    /// Whether nothing but types and NOT NULL can refuse a row, and no index is kept.
    pub(super) plain: bool,
    /// The columns of the key that was asked for, in that order.
    pub(super) key: Vec<KeyColumn>,
}

/// Reads how the table named exactly `name` behaves, used by `key`; none where there is none any more.
pub(super) fn behaviour(connection: &Connection, name: &str, key: &[String]) -> Result<Option<Behaviour>> {
    let Some(found) = find(connection, name)? else {
        return Ok(None);
    };
    let parts = Parts::read(connection, &found).map_err(failed)?;
    let affinities = parts
        .columns
        .iter()
        .map(|column| {
            (
                column.name.clone(),
                types::affinity(&column.declared, found.typing),
            )
        })
        .collect();
    Ok(Some(Behaviour {
        affinities,
        triggers: parts.sql.iter().any(|(kind, _)| kind == "trigger"),
        conflict_clause: parts.has_conflict_clause(),
        plain: parts.is_plain(),
        key: parts.key_columns(key),
    }))
}
/// Another table whose foreign key leads to one.
const CHILD: &str = "SELECT m.name FROM sqlite_schema m JOIN pragma_foreign_key_list(m.name) f \
    WHERE m.type = 'table' AND lower(f.\"table\") = lower(?1) AND lower(m.name) <> lower(?1) LIMIT 1";

/// Drops `table` if it is still there, while nobody else writes; see
/// [`Target::drop_table`](tonnage_core::target::Target::drop_table).
pub(super) fn drop_table(connection: &mut Connection, table: &Table, rows: Rows) -> Result<bool> {
    let failed = |failure| errors::error(failure, Doing::Else).at(format!("cannot drop {}", table.name));
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    let found = read_table(&transaction, &table.name.name)?;
    if found.is_none_or(|found| found.identity != table.identity) {
        return Ok(false);
    }
    let name = quote(&table.name.name);
    if rows == Rows::Keep {
        let any = format!("SELECT EXISTS (SELECT 1 FROM {name})");
        if transaction
            .query_row(&any, [], |row| row.get(0))
            .map_err(failed)?
        {
            return Ok(false);
        }
    }
    // Its rows would be deleted first, and take those along that name them.
    let child: Option<String> = transaction
        .query_row(CHILD, [&table.name.name], |row| row.get(0))
        .optional()
        .map_err(failed)?;
    if let Some(child) = child {
        return Err(Error::schema(format!(
            "table {} is not dropped: rows of {child} belong to its rows by a foreign key",
            table.name
        ))
        .hint("--truncate or --recreate keep the table"));
    }
    transaction
        .execute_batch(&format!("DROP TABLE {name}"))
        .map_err(failed)?;
    transaction.commit().map_err(failed)?;
    Ok(true)
}
