//! Tables as the information schema has them.

use mysql_async::{Conn, Row, prelude::FromValue, prelude::Queryable};
use tonnage_core::{
    error::{Error, Result},
    table::{Column, ForeignKey, Key, LessDurable, Loss, Table, TableIdentity, TableName, find_by_name},
    types::ColumnType,
};
use tonnage_sql::ledger;

use super::{
    definition::OCEANBASE_ID,
    errors, once,
    product::{Product, Version},
    types::{self, Carried, DeclaredColumn, Kind},
};

/// A table, with what only this target needs to know of it.
#[derive(Debug, Clone)]
pub(super) struct Described {
    /// As the engine sees it.
    pub table: Table,
    /// What the columns take, in the order of the table's columns; none where one cannot be written.
    pub kinds: Vec<Option<Kind>>,
    /// What an upsert could take for the key besides it: all unique indexes, those on parts of columns among them.
    pub unique: Vec<Vec<String>>,
    /// The collations of the columns, in the order of the table's; none where they hold no text.
    pub collations: Vec<Option<String>>,
    /// It is a view.
    pub is_view: bool,
    /// The tables that it is spread over; 1 where it is one.
    pub shards: usize,
}

/// A column of a row, with the driver's error as ours.
pub(super) fn get<T: FromValue>(row: &mut Row, index: usize) -> Result<T> {
    row.take_opt::<T, _>(index)
        .and_then(|found| found.ok())
        .ok_or_else(|| {
            Error::bug(format!(
                "column {index} of the server's answer has an unexpected form"
            ))
        })
}

/// Rows of a query.
pub(super) async fn rows(conn: &mut Conn, sql: &str, parameters: &[&str]) -> Result<Vec<Row>> {
    let parameters: Vec<mysql_async::Value> = parameters.iter().map(|p| (*p).into()).collect();
    let rows = match parameters.is_empty() {
        true => conn.query(sql).await,
        false => once::rows(conn, sql, parameters).await,
    };
    rows.map_err(errors::statement)
}

/// Tables of the database that a user may mean.
pub(super) async fn names(conn: &mut Conn, database: &str) -> Result<Vec<String>> {
    let mut found = rows(
        conn,
        "SELECT table_name FROM information_schema.tables WHERE table_schema = ? \
         AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED')",
        &[database],
    )
    .await?;
    let mut names: Vec<String> = found.iter_mut().map(|row| get(row, 0)).collect::<Result<_>>()?;
    // Nobody means to load the ledger's.
    names.retain(|name| !ledger::TABLES.contains(&name.as_str()));
    // The server's own order depends on a collation.
    names.sort_unstable();
    Ok(names)
}

struct Found {
    name: TableName,
    kind: String,
    engine: String,
    created: String,
}

const FIND: &str = "SELECT table_schema, table_name, table_type, coalesce(engine, ''), \
                    coalesce(cast(create_time AS char), '') \
                    FROM information_schema.tables WHERE table_schema = ? AND table_name = ?";

async fn find_exactly(conn: &mut Conn, schema: &str, name: &str) -> Result<Option<Found>> {
    for mut row in rows(conn, FIND, &[schema, name]).await? {
        let found: String = get(&mut row, 1)?;
        if found == name {
            return Ok(Some(Found {
                name: TableName {
                    schema: Some(get(&mut row, 0)?),
                    name: found,
                },
                kind: get(&mut row, 2)?,
                engine: get(&mut row, 3)?,
                created: get(&mut row, 4)?,
            }));
        }
    }
    Ok(None)
}

/// The tables of a database whose engines have no transactions.
const PLAIN: &str = "SELECT table_name, engine FROM information_schema.tables t \
    WHERE table_schema = ? AND table_type = 'BASE TABLE' AND engine IS NOT NULL AND NOT EXISTS \
        (SELECT 1 FROM information_schema.engines e WHERE e.engine = t.engine AND e.transactions = 'YES') \
    ORDER BY table_name";

/// The first table without transactions of a database that SQL text names, and its engine. A name that means something
/// else there is taken for the table.
pub(super) async fn plain_table_in(
    conn: &mut Conn,
    schema: &str,
    text: &str,
) -> Result<Option<(String, String)>> {
    let text = text.to_lowercase();
    for mut row in rows(conn, PLAIN, &[schema]).await? {
        let (name, engine): (String, String) = (get(&mut row, 0)?, get(&mut row, 1)?);
        if is_named_in(&text, &name.to_lowercase()) {
            return Ok(Some((name, engine)));
        }
    }
    Ok(None)
}

/// The text of a view; none where the name is no view's.
pub(super) async fn view_text(conn: &mut Conn, database: &str, name: &TableName) -> Result<Option<String>> {
    let schema = name.schema.as_deref().unwrap_or(database);
    let view =
        "SELECT view_definition FROM information_schema.views WHERE table_schema = ? AND table_name = ?";
    let mut found = rows(conn, view, &[schema, &name.name]).await?;
    found.first_mut().map(|row| get(row, 0)).transpose()
}

/// Whether `name` is in `text` as a word.
fn is_named_in(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    text.match_indices(name).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + found.len()..].chars().next();
        !before.is_some_and(is_part) && !behind.is_some_and(is_part)
    })
}

/// Whether an engine has transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transactions {
    Yes,
    No,
}

/// In what a table of this engine is less durable than the ledger.
pub(super) fn less_durable(table: &str, engine: &str, transactions: Transactions) -> Option<LessDurable> {
    let loss = match engine.to_ascii_uppercase().as_str() {
        "FEDERATED" | "SPIDER" | "CONNECT" => Loss::Apart,
        "MEMORY" => Loss::Table,
        _ if transactions == Transactions::Yes => return None,
        _ => Loss::Last,
    };
    Some(LessDurable {
        why: match loss {
            Loss::Table => format!("{table} is in memory only (engine {engine})"),
            Loss::Last => format!("the engine {engine} of {table} syncs nothing with a commit"),
            Loss::Apart => format!("{table} is kept elsewhere (engine {engine})"),
        },
        loss,
        instead: format!(
            "ALTER TABLE {table} ENGINE=InnoDB makes it durable; without --durability it is loaded as it is"
        ),
    })
}

/// By exact name, else by a unique one that differs only in case.
async fn find(conn: &mut Conn, database: &str, wanted: &TableName) -> Result<Option<Found>> {
    let schema = wanted.schema.as_deref().unwrap_or(database);
    if let Some(found) = find_exactly(conn, schema, &wanted.name).await? {
        return Ok(Some(found));
    }
    let mut all = rows(
        conn,
        "SELECT table_name FROM information_schema.tables WHERE table_schema = ?",
        &[schema],
    )
    .await?;
    let names: Vec<String> = all.iter_mut().map(|row| get(row, 0)).collect::<Result<_>>()?;
    match find_by_name(&names, &wanted.name, |name| name) {
        Some(name) => find_exactly(conn, schema, name).await,
        None => {
            let lower = wanted.name.to_lowercase();
            let close: Vec<_> = names.iter().filter(|name| name.to_lowercase() == lower).collect();
            match close.as_slice() {
                [] => Ok(None),
                close => {
                    let close: Vec<_> = close.iter().map(|name| format!("{schema}.{name}")).collect();
                    Err(
                        Error::schema(format!("'{wanted}' could be any of {}", close.join(", ")))
                            .hint("write the name exactly as the database has it"),
                    )
                }
            }
        }
    }
}

/// What a user should know where nothing numbers tables.
const UNNUMBERED_BY_NODES: &str = "a table that is dropped and made again alike is taken for the same one: each node of a \
    Galera cluster numbers tables by itself";
const UNNUMBERED: &str = "a table that is dropped and made again within a second is taken for the same one: only the privilege \
    PROCESS shows more";

/// Which table of this name it is, and what to say of it: the number of its storage, which only some may see, else when it was made. Both
/// change also when a table is rebuilt, which is then refused as altered.
async fn made(conn: &mut Conn, version: &Version, found: &Found) -> Result<(String, Option<&'static str>)> {
    if version.is_galera {
        return Ok(("in a Galera cluster".to_owned(), Some(UNNUMBERED_BY_NODES)));
    }
    let storage = match version.product {
        Product::MariaDb => Some("innodb_sys_tables"),
        Product::MySql => Some("innodb_tables"),
        Product::OceanBase | Product::TiDb | Product::PolarDbX => None,
    };
    let schema = found.name.schema.as_deref().unwrap_or_default();
    if let Some(view) = storage {
        let sql = format!("SELECT cast(table_id AS char) FROM information_schema.{view} WHERE name = ?");
        let name = format!("{schema}/{}", found.name.name);
        match once::first::<String>(conn, &sql, (name,)).await {
            Ok(Some(id)) => return Ok((format!("table {id}"), None)),
            Ok(None) => {}
            // The privilege PROCESS is not everyone's.
            Err(failure) if errors::number(&failure).is_some() => {}
            Err(failure) => return Err(errors::statement(failure)),
        }
    }
    if version.product == Product::OceanBase {
        let sql = format!("{OCEANBASE_ID} WHERE d.database_name = ? AND t.table_name = ?");
        match once::first::<String>(conn, &sql, (schema, &found.name.name)).await {
            Ok(Some(id)) => return Ok((format!("table {id}"), None)),
            Ok(None) => {}
            Err(failure) if errors::number(&failure).is_some() => {}
            Err(failure) => return Err(errors::statement(failure)),
        }
    }
    if version.product == Product::TiDb {
        let sql = "SELECT cast(tidb_table_id AS char) FROM information_schema.tables \
                   WHERE table_schema = ? AND table_name = ?";
        let id = once::first::<String>(conn, sql, (schema, &found.name.name)).await;
        if let Some(id) = id.map_err(errors::statement)? {
            return Ok((format!("table {id}"), None));
        }
    }
    Ok((format!("made {}", found.created), Some(UNNUMBERED)))
}

/// Of a column that takes nulls and has no default MariaDB says that its default is NULL.
const COLUMNS: &str = "SELECT column_name, column_default IS NOT NULL AND NOT (is_nullable = 'YES' \
    AND column_default = 'NULL' AND version() LIKE '%MariaDB%'), is_nullable, data_type, \
    character_maximum_length, character_octet_length, numeric_precision, numeric_scale, datetime_precision, \
    collation_name, column_type, extra FROM information_schema.columns \
    WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position";

const INDEXES: &str = "SELECT index_name, column_name, sub_part FROM information_schema.statistics \
    WHERE table_schema = ? AND table_name = ? AND non_unique = 0 \
    ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index";

const CHECKS: &str = "SELECT check_clause FROM information_schema.check_constraints \
    WHERE constraint_schema = ? AND table_name = ? ORDER BY constraint_name";

const TRIGGERS: &str = "SELECT trigger_name, action_timing, event_manipulation, action_statement \
    FROM information_schema.triggers WHERE event_object_schema = ? AND event_object_table = ? ORDER BY trigger_name";

const FOREIGN_KEYS: &str = "SELECT constraint_name, column_name, referenced_table_schema, referenced_table_name, \
    referenced_column_name FROM information_schema.key_column_usage \
    WHERE table_schema = ? AND table_name = ? AND referenced_table_name IS NOT NULL \
    ORDER BY constraint_name, ordinal_position";

/// The foreign keys of the table of this exact name.
pub(super) async fn foreign_keys(conn: &mut Conn, table: &TableName) -> Result<Vec<ForeignKey>> {
    let schema = table.schema.as_deref().unwrap_or_default();
    let mut keys: Vec<(String, ForeignKey)> = Vec::new();
    for mut row in rows(conn, FOREIGN_KEYS, &[schema, &table.name]).await? {
        let row = &mut row;
        let (name, column): (String, String) = (get(row, 0)?, get(row, 1)?);
        let other = TableName {
            schema: Some(get(row, 2)?),
            name: get(row, 3)?,
        };
        if keys.last().is_none_or(|(last, _)| *last != name) {
            let key = ForeignKey {
                columns: Vec::new(),
                table: other,
                key: Vec::new(),
                unlike: None,
                partial: None,
            };
            keys.push((name, key));
        }
        if let Some((_, key)) = keys.last_mut() {
            key.columns.push(column);
            key.key.push(get(row, 4)?);
        }
    }
    Ok(keys.into_iter().map(|(_, key)| key).collect())
}

/// Whether an index leads to rows of given values of `columns`.
pub(super) async fn is_indexed(conn: &mut Conn, table: &TableName, columns: &[String]) -> Result<bool> {
    let schema = table.schema.as_deref().unwrap_or_default();
    let sql = "SELECT index_name, column_name FROM information_schema.statistics \
               WHERE table_schema = ? AND table_name = ? AND sub_part IS NULL ORDER BY index_name, seq_in_index";
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    for mut row in rows(conn, sql, &[schema, &table.name]).await? {
        found.push((get(&mut row, 0)?, get(&mut row, 1)?));
    }
    Ok(found.chunk_by(|a, b| a.0 == b.0).any(|index| {
        let first = &index[..columns.len().min(index.len())];
        columns
            .iter()
            .all(|column| first.iter().any(|(_, name)| name.as_ref() == Some(column)))
    }))
}

async fn columns(conn: &mut Conn, place: &[&str], checks: &[String]) -> Result<Vec<DeclaredColumn>> {
    let mut columns = Vec::new();
    for mut row in rows(conn, COLUMNS, place).await? {
        let row = &mut row;
        let name: String = get(row, 0)?;
        let json = format!("json_valid({})", types::quote(&name));
        columns.push(DeclaredColumn {
            is_json: checks.contains(&json),
            has_default: get::<i64>(row, 1)? != 0,
            nullable: get::<String>(row, 2)? == "YES",
            data_type: get(row, 3)?,
            characters: get(row, 4)?,
            octets: get(row, 5)?,
            precision: get(row, 6)?,
            scale: get(row, 7)?,
            digits: get(row, 8)?,
            collation: get(row, 9)?,
            column_type: get(row, 10)?,
            extra: get(row, 11)?,
            name,
        });
    }
    Ok(columns)
}

/// A unique index: its columns, and whether it is on whole columns only.
struct Unique {
    name: String,
    columns: Vec<String>,
    whole: bool,
}

async fn unique(conn: &mut Conn, place: &[&str]) -> Result<Vec<Unique>> {
    let mut indexes: Vec<Unique> = Vec::new();
    for mut row in rows(conn, INDEXES, place).await? {
        let name: String = get(&mut row, 0)?;
        // Null for an expression.
        let column: Option<String> = get(&mut row, 1)?;
        let part: Option<i64> = get(&mut row, 2)?;
        let whole = column.is_some() && part.is_none();
        let column = column.unwrap_or_else(|| "an expression".to_owned());
        match indexes.last_mut().filter(|index| index.name == name) {
            Some(index) => {
                index.whole &= whole;
                index.columns.push(column);
            }
            None => indexes.push(Unique {
                name,
                columns: vec![column],
                whole,
            }),
        }
    }
    Ok(indexes)
}

/// Reads a table; none where there is none of this name.
pub(super) async fn describe(
    conn: &mut Conn,
    version: &Version,
    database: &str,
    name: &TableName,
) -> Result<Option<Described>> {
    let Some(found) = find(conn, database, name).await? else {
        return Ok(None);
    };
    match found.kind.as_str() {
        "VIEW" | "SYSTEM VIEW" => {
            return Err(Error::schema(format!("{} is a view, not a table", found.name))
                .hint("name the table behind it"));
        }
        "SEQUENCE" => {
            return Err(Error::schema(format!(
                "{} is a sequence, not a table",
                found.name
            )));
        }
        _ => {}
    }
    describe_found(conn, version, found).await.map(Some)
}

/// Reads a table or a view, whatever can be written to it; none where there is neither of this name.
pub(super) async fn describe_readable(
    conn: &mut Conn,
    version: &Version,
    database: &str,
    name: &TableName,
) -> Result<Option<Described>> {
    match find(conn, database, name).await? {
        Some(found) => describe_found(conn, version, found).await.map(Some),
        None => Ok(None),
    }
}

/// The tables that a table is spread over.
async fn shards(conn: &mut Conn, version: &Version, name: &TableName) -> Result<usize> {
    if version.product != Product::PolarDbX {
        return Ok(1);
    }
    let topology = format!("SHOW TOPOLOGY FROM {}", types::quote_table(name));
    match conn.query::<Row, _>(topology).await {
        Ok(rows) => Ok(rows.len().max(1)),
        // A view has none, and not everyone may ask.
        Err(failure) if errors::number(&failure).is_some() => Ok(1),
        Err(failure) => Err(errors::statement(failure)),
    }
}

/// The triggers of a table: when each runs and its name, and what it does.
async fn triggers(conn: &mut Conn, place: &[&str]) -> Result<Vec<(String, String)>> {
    let mut triggers = Vec::new();
    for mut row in rows(conn, TRIGGERS, place).await? {
        let row = &mut row;
        let (name, timing, event): (String, String, String) = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
        triggers.push((format!("{timing} {event} {name}"), get(row, 3)?));
    }
    Ok(triggers)
}

async fn transactions(conn: &mut Conn, engine: &str) -> Result<Transactions> {
    let has_transactions =
        "SELECT coalesce(transactions, 'NO') FROM information_schema.engines WHERE engine = ?";
    let mut engines = rows(conn, has_transactions, &[engine]).await?;
    let found = engines.first_mut().map(|row| get::<String>(row, 0)).transpose()?;
    Ok(match found.as_deref() {
        Some("YES") => Transactions::Yes,
        _ => Transactions::No,
    })
}

/// What a user should know of the triggers of a table.
async fn trigger_notes(conn: &mut Conn, schema: &str, triggers: &[(String, String)]) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for (trigger, text) in triggers {
        if let Some((table, engine)) = plain_table_in(conn, schema, text).await? {
            notes.push(format!(
                "the trigger {trigger} names {table}, whose engine {engine} has no transactions: what it writes there \
                 stays where a write is undone, and comes again when that is tried again"
            ));
        }
    }
    if !triggers.is_empty() {
        let names: Vec<_> = triggers.iter().map(|(name, _)| name.as_str()).collect();
        notes.push(format!(
            "triggers see every row and may change it: {}",
            names.join(", ")
        ));
    }
    Ok(notes)
}

/// The line of a column in the shape of its table.
fn shape_of(column: &DeclaredColumn) -> String {
    let mut line = format!("{} {}", column.name, column.column_type);
    if let Some(collation) = &column.collation {
        line.push_str(&format!(" collate {collation}"));
    }
    if !column.nullable {
        line.push_str(" not null");
    }
    if !column.extra.is_empty() {
        line.push_str(&format!(" {}", column.extra));
    }
    line
}

/// A column as the target has it, and how its values travel.
fn carried(column: &DeclaredColumn, version: &Version, notes: &mut Vec<String>) -> (Column, Option<Kind>) {
    let carried = types::carry(column, version);
    let mut declared = column.column_type.clone();
    let (ty, kind) = match &carried {
        Carried::As(ty, kind) => (Some(*ty), Some(kind.clone())),
        Carried::Not(why) => {
            if let Some(why) = why {
                declared = format!("{declared} ({why})");
            }
            (None, None)
        }
    };
    if ty == Some(ColumnType::Json) && column.data_type == "json" {
        notes.push(format!(
            "{} keeps the value of JSON, not its spacing, key order or repeated keys",
            column.name
        ));
    }
    if matches!(ty, Some(ColumnType::Float32 | ColumnType::Float64))
        && !(version.keeps_negative_zero() && column.scale.is_none())
    {
        notes.push(format!("{} may keep a negative zero as zero", column.name));
    }
    notes.extend(kind.as_ref().and_then(|kind| types::note(&column.name, kind)));
    let column = Column {
        name: column.name.clone(),
        ty,
        declared,
        nullable: column.nullable,
        has_default: column.has_default || column.extra.contains("auto_increment"),
        generated: column.is_generated(),
        // Given values move the counter.
        numbered: None,
        equality: types::equality(column, &carried),
    };
    (column, kind)
}

async fn describe_found(conn: &mut Conn, version: &Version, found: Found) -> Result<Described> {
    let schema = found.name.schema.clone().unwrap_or_default();
    let place = [schema.as_str(), found.name.name.as_str()];
    let mut checks = Vec::new();
    if version.product == Product::MariaDb {
        for mut row in rows(conn, CHECKS, &place).await? {
            checks.push(get::<String>(&mut row, 0)?);
        }
    }
    let declared = columns(conn, &place, &checks).await?;
    let indexes = unique(conn, &place).await?;
    let triggers = triggers(conn, &place).await?;
    let transactions = transactions(conn, &found.engine).await?;
    let transactional = transactions == Transactions::Yes;
    let (made, made_note) = made(conn, version, &found).await?;
    let shards = shards(conn, version, &found.name).await?;

    let mut notes = Vec::new();
    if !transactional {
        notes.push(format!(
            "the engine {} has no transactions: rows are written one by one and stay, whatever happens",
            found.engine
        ));
    }
    notes.extend(trigger_notes(conn, &schema, &triggers).await?);
    notes.extend(made_note.map(str::to_owned));
    let less_durable = match found.kind.ends_with("VIEW") {
        true => None,
        false => less_durable(&found.name.to_string(), &found.engine, transactions),
    };
    let mut shape = vec![format!("engine {}", found.engine), made];
    shape.extend(declared.iter().map(shape_of));
    let carried = declared
        .iter()
        .map(|column| carried(column, version, &mut notes))
        .unzip();
    let (table_columns, kinds): (Vec<Column>, Vec<_>) = carried;
    let mut keys: Vec<Key> = Vec::new();
    for index in &indexes {
        shape.push(format!("unique {} ({})", index.name, index.columns.join(", ")));
        if index.whole && !keys.iter().any(|key| key.columns == index.columns) {
            keys.push(Key {
                columns: index.columns.clone(),
                primary: index.name == "PRIMARY",
            });
        }
    }
    shape.extend(checks.iter().map(|clause| format!("check {clause}")));
    shape.extend(
        triggers
            .iter()
            .map(|(name, body)| format!("trigger {name} {body}")),
    );
    Ok(Described {
        kinds,
        collations: declared.into_iter().map(|column| column.collation).collect(),
        is_view: found.kind.ends_with("VIEW"),
        shards,
        unique: indexes.into_iter().map(|index| index.columns).collect(),
        table: Table {
            identity: TableIdentity {
                object: format!("{schema}.{}", found.name.name),
                shape: shape.join("\n"),
            },
            name: found.name,
            columns: table_columns,
            keys,
            transactional,
            less_durable,
            notes,
        },
    })
}
