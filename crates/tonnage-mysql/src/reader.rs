//! Reading, by prepared statements, of one state.
//!
//! For several readers writers are held off the table, by LOCK TABLES READ on a session of its own, while each reader
//! begins a REPEATABLE READ transaction with its snapshot: for milliseconds. The lock is had when no transaction that has
//! written to the table is open, so every reader sees the state of that moment. Where writers cannot be held off (a
//! query, a view, a right that is missing, a writer that does not end) there is one reader, which needs no help to see
//! one state.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use mysql_async::{
    Conn,
    consts::{ColumnFlags, ColumnType as Wire},
    prelude::Queryable,
};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reader::{
        self, BY_ITSELF, HELD_OFF, ReadColumn, Reader, Relation, ScanRequest, Snapshot, no_table, wanted,
    },
    statement,
    table::TableName,
    types::{ColumnType, decimal},
};

use super::{
    catalog,
    connect::{self, Counting},
    decode::Decoder,
    errors,
    execute::DIALECT,
    product::{Product, Version},
    settings::Settings,
    splits::{self, BINARY, Query, Source},
    stream::{Answering, RowDecoding},
    types::{Kind, UNSIGNED, quote, quote_table},
};

/// What lets a reader wait for the file: a day, in seconds. A statement's own time limit would end it meanwhile.
const SETTINGS: [(&str, &str); 2] = [("net_write_timeout", "86400"), ("wait_timeout", "86400")];

/// The same on MariaDB only.
const STATEMENT_TIME: (&str, &str) = ("max_statement_time", "0");

/// Seconds that writers may have to end, and that new ones wait for them at most.
const LOCK_WAIT_SECONDS: u32 = 5;

/// Settings of sessions that read, as name and value.
pub(super) fn session_settings(version: &Version) -> Vec<(&'static str, &'static str)> {
    let mut settings = SETTINGS.to_vec();
    if version.product == Product::MariaDb {
        settings.push(STATEMENT_TIME);
    }
    settings
}

/// What a session that reads a state is set to, a line each.
pub(super) fn settings_changed(version: &Version) -> Vec<String> {
    let mut lines = vec!["transaction isolation level = REPEATABLE READ, READ ONLY".to_owned()];
    let settings = session_settings(version);
    lines.extend(settings.iter().map(|(name, value)| format!("{name} = {value}")));
    lines
}

/// Opens a session that reads.
pub(super) async fn open(settings: &Settings) -> Result<(Conn, Version, Settings)> {
    let (mut conn, version, one) = connect::open_at(settings, Counting::Found).await?;
    let pairs: Vec<_> = session_settings(&version)
        .iter()
        .map(|(name, value)| format!("SESSION {name} = {value}"))
        .collect();
    conn.query_drop(format!("SET {}", pairs.join(", ")))
        .await
        .map_err(errors::statement)?;
    Ok((conn, version, one))
}

pub(super) async fn begin(conn: &mut Conn) -> Result<()> {
    for statement in [
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ] {
        conn.query_drop(statement).await.map_err(errors::statement)?;
    }
    Ok(())
}

/// Opens as many readers as are wanted and of use.
pub(super) async fn scan(settings: &Settings, request: &ScanRequest) -> Result<Snapshot> {
    // What belongs together is done on one server.
    let (mut leader, version, settings) = open(settings).await?;
    let settings = &settings;
    let mut found = relation(&mut leader, &version, &settings.database, request).await?;
    let (columns, selected) = describe(&mut leader, &version, request, &found).await?;
    let query = Query {
        selected: &selected,
        filter: request.filter.as_deref(),
    };
    let one = check(&mut leader, request, &found.source, &query).await?;
    let mut notes = found.notes(&columns, request);
    let plain = plain_table(&mut leader, &settings.database, &found).await?;
    let mut conns = vec![leader];
    match alone(request, &found, &version) {
        Some(why) => notes.extend(why.map(|why| format!("one job: {why}"))),
        None => {
            let refused = begin_together(settings, &found, &mut conns, request.readers).await?;
            notes.extend(refused.map(|why| format!("one job: {why}")));
        }
    }
    if conns.len() == 1 {
        begin(&mut conns[0]).await?;
    }
    let cutting = &mut conns[0];
    let queries = match (&request.split_by, &mut found.source) {
        // Each statement would see another state, of which rows are lost or doubled that are changed between two.
        (Some(column), source) if plain.is_some() => {
            splits::by_column(cutting, request, source, &query, column).await?;
            let table = plain.as_deref().unwrap_or_default();
            notes.push(format!(
                "not split: {table} has no transactions, so only one statement sees one state of it"
            ));
            vec![one]
        }
        (Some(column), source) => splits::by_column(cutting, request, source, &query, column).await?,
        (None, Source::Table(described)) if request.limit.is_none() && request.readers > 1 => {
            let columns = splits::key_columns(described);
            match !columns.is_empty() && !described.is_view && described.table.transactional {
                true => splits::by_key(cutting, request, described, &query, &columns).await?,
                false => vec![one],
            }
        }
        _ => vec![one],
    };
    if plain.is_none() && request.split_by.is_some() && matches!(found.source, Source::Query(_)) {
        notes.push(format!("the query runs {} times, once a split", queries.len()));
    }
    conns.truncate(queries.len());
    if conns.len() > 1 {
        notes.push("writers were held off the table for the moment in which the readers began".to_owned());
    }
    let key = found.key(&columns);
    let form = Arc::new(RowDecoding {
        decoder: Decoder::new(&columns, &key, request.beyond_arrow)?,
        batch: request.batch,
    });
    let queries = Arc::new(queries);
    let reader = |conn| -> Box<dyn Reader> {
        Box::new(MysqlReader {
            rows: Answering::start(conn, Arc::clone(&form), settings.clone()),
            queries: Arc::clone(&queries),
        })
    };
    let consistency = if conns.len() > 1 { HELD_OFF } else { BY_ITSELF };
    Ok(Snapshot {
        table: found.table(),
        splits: queries.len(),
        columns,
        key,
        readers: conns.into_iter().map(reader).collect(),
        consistency,
        settings_changed: settings_changed(&version),
        notes,
    })
}

/// Opens connections up to `readers`, and begins the transactions of all of them while nobody writes. Says why it cannot;
/// then there are no more than before, and none has begun.
async fn begin_together(
    settings: &Settings,
    found: &Found,
    conns: &mut Vec<Conn>,
    readers: usize,
) -> Result<Option<String>> {
    let mut others = Vec::new();
    for _ in 1..readers {
        others.push(open(settings).await?.0);
    }
    let mut holder = match hold(settings, found).await? {
        Ok(holder) => holder,
        Err(why) => return Ok(Some(why)),
    };
    let begun = async {
        for conn in conns.iter_mut().chain(&mut others) {
            begin(conn).await?;
            // Keeps the table from being altered before its rows are read.
            touch(conn, found).await?;
        }
        Ok::<_, Error>(())
    };
    let begun = begun.await;
    let released = holder.query_drop("UNLOCK TABLES").await;
    begun?;
    released.map_err(errors::statement)?;
    conns.extend(others);
    Ok(None)
}

/// The table without transactions that rows come from, if any does: itself, or one that a view or a query names.
async fn plain_table(conn: &mut Conn, database: &str, found: &Found) -> Result<Option<String>> {
    let (schema, text) = match &found.source {
        Source::Table(described) if !described.is_view => {
            let table = &described.table;
            return Ok((!table.transactional).then(|| table.name.to_string()));
        }
        Source::Table(described) => {
            let name = &described.table.name;
            let text = catalog::view_text(conn, database, name).await?;
            (name.schema.as_deref(), text.unwrap_or_default())
        }
        Source::Query(text) => (None, text.clone()),
    };
    let found = catalog::plain_table_in(conn, schema.unwrap_or(database), &text).await?;
    Ok(found.map(|(table, _)| table))
}

/// Whether one reader has to do, and why, where a user should know.
fn alone(request: &ScanRequest, found: &Found, version: &Version) -> Option<Option<String>> {
    if request.readers <= 1 || request.limit.is_some() {
        return Some(None);
    }
    let described = match &found.source {
        Source::Query(_) => {
            return Some(request.split_by.as_ref().map(|_| {
                "writers cannot be held off the tables of a query while several readers begin".to_owned()
            }));
        }
        Source::Table(described) => described,
    };
    if described.is_view {
        let why = "writers cannot be held off the tables of a view while several readers begin";
        return Some(Some(why.to_owned()));
    }
    if !described.table.transactional {
        let why = format!("{} has no transactions to see one state in", described.table.name);
        return Some(Some(why));
    }
    if version.is_galera {
        let why = "writers of other nodes of the cluster cannot be held off while several readers begin";
        return Some(Some(why.to_owned()));
    }
    if !matches!(version.product, Product::MariaDb | Product::MySql) {
        let why = format!(
            "writers of {} cannot be held off while several readers begin",
            version.shown
        );
        return Some(Some(why));
    }
    if request.split_by.is_none() && splits::key_columns(described).is_empty() {
        let why = format!(
            "{} has no primary key to be cut by; --split-by names a column",
            described.table.name
        );
        return Some(Some(why));
    }
    None
}

/// Holds writers off the table; or why they cannot be.
async fn hold(settings: &Settings, found: &Found) -> Result<std::result::Result<Conn, String>> {
    let Source::Table(described) = &found.source else {
        return Err(Error::bug("a query is to be locked"));
    };
    let (mut conn, _) = connect::open(settings, Counting::Found).await?;
    conn.query_drop(format!("SET SESSION lock_wait_timeout = {LOCK_WAIT_SECONDS}"))
        .await
        .map_err(errors::statement)?;
    let table = quote_table(&described.table.name);
    match conn.query_drop(format!("LOCK TABLES {table} READ")).await {
        Ok(()) => Ok(Ok(conn)),
        Err(failure) => match errors::statement(failure) {
            busy if busy.kind() == ErrorKind::Overloaded => Ok(Err(format!(
                "a transaction that has written to the table did not end within {LOCK_WAIT_SECONDS} s, so writers \
                 cannot be held off while several readers begin"
            ))),
            denied if matches!(denied.kind(), ErrorKind::Refused | ErrorKind::Config) => Ok(Err(
                "the privilege LOCK TABLES is missing, so writers cannot be held off while several readers begin"
                    .to_owned(),
            )),
            other => Err(other),
        },
    }
}

async fn touch(conn: &mut Conn, found: &Found) -> Result<()> {
    conn.query_drop(format!("SELECT 1 FROM {} LIMIT 0", found.source.whole()))
        .await
        .map_err(errors::statement)
}

/// What is read, in SQL.
pub(super) struct Found {
    pub(super) source: Source,
}

impl Found {
    /// The full name of the table or view; none for a query.
    pub(super) fn table(&self) -> Option<TableName> {
        match &self.source {
            Source::Table(described) => Some(described.table.name.clone()),
            Source::Query(_) => None,
        }
    }

    /// The columns of the primary key, where all of them are read.
    pub(super) fn key(&self, columns: &[ReadColumn]) -> Vec<String> {
        let Source::Table(described) = &self.source else {
            return Vec::new();
        };
        let is_read = |name: &String| columns.iter().any(|column| column.name == *name);
        let key = described.table.primary_key().map(|key| key.columns.clone());
        key.filter(|key| key.iter().all(is_read)).unwrap_or_default()
    }

    /// What a user should know.
    pub(super) fn notes(&self, columns: &[ReadColumn], request: &ScanRequest) -> Vec<String> {
        let Source::Table(described) = &self.source else {
            return Vec::new();
        };
        reader::notes(&described.table, columns, request)
    }
}

pub(super) async fn relation(
    conn: &mut Conn,
    version: &Version,
    database: &str,
    request: &ScanRequest,
) -> Result<Found> {
    if let Some(filter) = &request.filter {
        statement::condition(filter, DIALECT)?;
    }
    let source = match &request.relation {
        Relation::Query(query) => Source::Query(statement::query(query, DIALECT)?.to_owned()),
        Relation::Table(name) => match catalog::describe_readable(conn, version, database, name).await? {
            Some(described) => Source::Table(Box::new(described)),
            None => return Err(no_table(name, &catalog::names(conn, database).await?)),
        },
    };
    Ok(Found { source })
}

/// A column that could be read.
struct Offered {
    column: ReadColumn,
    /// What it takes, where that is known from the catalogue.
    wire: Wire,
    binary: bool,
    /// The database computes it.
    generated: bool,
    known: bool,
}

/// The columns, and the list that selects them: `*` for all of a query's.
pub(super) async fn describe(
    conn: &mut Conn,
    version: &Version,
    request: &ScanRequest,
    found: &Found,
) -> Result<(Vec<ReadColumn>, String)> {
    let from = match &found.source {
        Source::Query(query) => query.clone(),
        // Also those that are hidden from a star.
        Source::Table(described) => {
            let names: Vec<_> = described.table.columns.iter().map(|c| quote(&c.name)).collect();
            format!("SELECT {} FROM {}", names.join(", "), found.source.whole())
        }
    };
    let prepared = conn.prep(from).await.map_err(|e| of_user(e, "the query"))?;
    if prepared.num_params() > 0 {
        return Err(
            Error::config("the query has parameters (?), and there is nothing to fill them with")
                .hint("write the values into the query"),
        );
    }
    let described = prepared.columns();
    if described.is_empty() {
        return Err(Error::config("the query returns no rows").hint("write a query that only reads"));
    }
    let offered: Vec<Offered> = described
        .iter()
        .enumerate()
        .map(|(at, column)| offered(column, version, &found.source, at))
        .collect();
    conn.close(prepared).await.map_err(errors::statement)?;
    let place = match &found.source {
        Source::Query(_) => "the query".to_owned(),
        Source::Table(described) => described.table.name.to_string(),
    };
    let names = offered.iter().map(|offered| offered.column.name.as_str());
    let all = (0..offered.len()).filter(|at| !offered[*at].generated);
    let (mut columns, mut selected) = (Vec::new(), Vec::new());
    for (at, as_text) in wanted(request, &place, names, all)? {
        let Offered {
            column,
            wire,
            binary,
            known,
            ..
        } = &offered[at];
        let name = quote(&column.name);
        let as_bits = *wire == Wire::MYSQL_TYPE_BIT;
        let expression = match (as_text || !known, wire) {
            (true, Wire::MYSQL_TYPE_GEOMETRY) => format!("ST_AsText({name})"),
            (true, _) if *binary => format!("HEX({name})"),
            (true, _) if as_bits => format!("CAST(CAST({name} AS UNSIGNED) AS CHAR)"),
            (true, _) => format!("CAST({name} AS CHAR)"),
            (false, _) if as_bits => format!("CAST({name} AS UNSIGNED)"),
            (false, _) => name.clone(),
        };
        selected.push(match expression == name {
            true => name,
            false => format!("{expression} AS {name}"),
        });
        let mut column = column.clone();
        if as_text {
            column.ty = ColumnType::TEXT;
        }
        columns.push(column);
    }
    let is_all = request.columns.is_none() && matches!(found.source, Source::Query(_));
    let as_they_are = columns
        .iter()
        .zip(&selected)
        .all(|(column, expression)| quote(&column.name) == *expression);
    let selected = match is_all && as_they_are {
        true => "*".to_owned(),
        false => selected.join(", "),
    };
    Ok((columns, selected))
}

fn offered(column: &mysql_async::Column, version: &Version, source: &Source, at: usize) -> Offered {
    let wire = column.column_type();
    let text = matches!(
        wire,
        Wire::MYSQL_TYPE_STRING
            | Wire::MYSQL_TYPE_VAR_STRING
            | Wire::MYSQL_TYPE_VARCHAR
            | Wire::MYSQL_TYPE_BLOB
            | Wire::MYSQL_TYPE_TINY_BLOB
            | Wire::MYSQL_TYPE_MEDIUM_BLOB
            | Wire::MYSQL_TYPE_LONG_BLOB
    );
    let binary = text && column.character_set() == BINARY;
    match source {
        Source::Table(described) if at < described.table.columns.len() => {
            let known = &described.table.columns[at];
            Offered {
                column: ReadColumn {
                    element: None,
                    name: known.name.clone(),
                    ty: known.ty.unwrap_or(ColumnType::TEXT),
                    declared: known.declared.clone(),
                    nullable: known.nullable,
                },
                wire,
                // UUIDs and addresses are text, whatever they are sent as.
                binary: matches!(described.kinds[at], Some(Kind::Binary(_) | Kind::Bytes(_))),
                generated: known.generated,
                known: known.ty.is_some(),
            }
        }
        _ => {
            let ty = of_result(column, version, text, binary);
            Offered {
                column: ReadColumn {
                    element: None,
                    name: column.name_str().into_owned(),
                    ty: ty.unwrap_or(ColumnType::TEXT),
                    declared: match column.column_type() {
                        Wire::MYSQL_TYPE_GEOMETRY => "geometry".to_owned(),
                        _ => ty.unwrap_or(ColumnType::TEXT).to_string(),
                    },
                    nullable: !column.flags().contains(ColumnFlags::NOT_NULL_FLAG),
                },
                wire,
                binary,
                generated: false,
                known: ty.is_some(),
            }
        }
    }
}

/// The type of a column of a query's result; none where only text does.
fn of_result(
    column: &mysql_async::Column,
    version: &Version,
    text: bool,
    binary: bool,
) -> Option<ColumnType> {
    let unsigned = column.flags().contains(ColumnFlags::UNSIGNED_FLAG);
    let length = column.column_length();
    // Lengths are in bytes of the session's character set, four a character.
    let chars = length / 4;
    Some(match column.column_type() {
        Wire::MYSQL_TYPE_TINY if length == 1 && !unsigned && version.tinyint1_is_bool => ColumnType::Bool,
        Wire::MYSQL_TYPE_TINY | Wire::MYSQL_TYPE_YEAR => ColumnType::Int16,
        Wire::MYSQL_TYPE_SHORT if unsigned => ColumnType::Int32,
        Wire::MYSQL_TYPE_SHORT => ColumnType::Int16,
        Wire::MYSQL_TYPE_LONG if unsigned => ColumnType::Int64,
        Wire::MYSQL_TYPE_LONG | Wire::MYSQL_TYPE_INT24 => ColumnType::Int32,
        Wire::MYSQL_TYPE_LONGLONG if unsigned => UNSIGNED,
        Wire::MYSQL_TYPE_LONGLONG => ColumnType::Int64,
        Wire::MYSQL_TYPE_BIT => match length {
            1 => ColumnType::Bool,
            64 => UNSIGNED,
            _ => ColumnType::Int64,
        },
        Wire::MYSQL_TYPE_FLOAT => ColumnType::Float32,
        Wire::MYSQL_TYPE_DOUBLE => ColumnType::Float64,
        Wire::MYSQL_TYPE_DECIMAL | Wire::MYSQL_TYPE_NEWDECIMAL => {
            let scale = u32::from(column.decimals());
            // The length has room for a sign and a point.
            let precision = length
                .saturating_sub(u32::from(!unsigned))
                .saturating_sub(u32::from(scale > 0));
            decimal(precision.max(scale), scale).unwrap_or(ColumnType::Numeric)
        }
        Wire::MYSQL_TYPE_DATE | Wire::MYSQL_TYPE_NEWDATE => ColumnType::Date,
        Wire::MYSQL_TYPE_TIME => ColumnType::Time,
        Wire::MYSQL_TYPE_DATETIME => ColumnType::Timestamp,
        Wire::MYSQL_TYPE_TIMESTAMP => ColumnType::TimestampTz,
        Wire::MYSQL_TYPE_JSON => ColumnType::Json,
        Wire::MYSQL_TYPE_GEOMETRY => ColumnType::Bytes,
        _ if binary => ColumnType::Bytes,
        Wire::MYSQL_TYPE_VAR_STRING | Wire::MYSQL_TYPE_VARCHAR if chars > 0 => ColumnType::Text {
            chars_max: Some(chars),
        },
        _ if text => ColumnType::TEXT,
        Wire::MYSQL_TYPE_NULL => ColumnType::TEXT,
        _ => return None,
    })
}

/// The query of one split alone, whose mistakes are found before anything is written.
pub(super) async fn check(
    conn: &mut Conn,
    request: &ScanRequest,
    source: &Source,
    query: &Query<'_>,
) -> Result<String> {
    if request.split_by.is_some() && request.limit.is_some() {
        return Err(
            Error::config("a limit and a column to split by contradict each other")
                .hint("leave one of them out: rows up to a limit are read by one connection"),
        );
    }
    // A query by itself keeps the order that it asks for.
    let mut one = match source {
        Source::Query(text)
            if request.filter.is_none() && request.limit.is_none() && query.selected == "*" =>
        {
            text.clone()
        }
        _ => query.of(&source.whole(), None),
    };
    if let Some(limit) = request.limit {
        one.push_str(&format!(" LIMIT {limit}"));
    }
    let place = match &request.filter {
        Some(filter) => format!("the condition ({filter})"),
        None => "the query".to_owned(),
    };
    let prepared = conn.prep(one.as_str()).await.map_err(|e| of_user(e, &place))?;
    if prepared.num_params() > 0 {
        return Err(Error::config(format!(
            "{place} has parameters (?), and there is nothing to fill them with"
        ))
        .hint("write the values into it"));
    }
    conn.close(prepared).await.map_err(errors::statement)?;
    Ok(one)
}

/// The server's refusal of SQL that the user has written.
pub(super) fn of_user(failure: mysql_async::Error, place: &str) -> Error {
    match &failure {
        mysql_async::Error::Server(server) => {
            let error = errors::from_server(server);
            match error.kind() {
                // Words that the server does not understand are the user's own.
                ErrorKind::Bug => Error::config(&server.message).code(server.code),
                _ => error,
            }
            .at(place)
            .caused_by(failure)
        }
        _ => errors::statement(failure),
    }
}

pub(super) struct MysqlReader {
    pub(super) rows: Answering,
    pub(super) queries: Arc<Vec<String>>,
}

#[async_trait]
impl Reader for MysqlReader {
    async fn open(&mut self, split: usize) -> Result<()> {
        let query = self.queries.get(split);
        let query = query.ok_or_else(|| Error::bug(format!("there is no split {split}")))?;
        self.rows.ask(query.clone(), Vec::new())
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.rows.next().await
    }
}
