//! Reading, by binary COPY, of one state.
//!
//! The first session begins a REPEATABLE READ READ ONLY transaction and exports its snapshot; the others begin theirs
//! with it before any row is read, so that all see what was committed at that moment and nothing later. What they read
//! is cut (`splits`) into queries whose rows are disjoint and complete whatever the table's pages hold by then.

use std::{pin::Pin, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use tokio_postgres::{
    Client, CopyOutStream,
    types::{Kind, Type},
};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reader::{
        self, BY_ITSELF, BatchBounds, ReadColumn, Reader, Relation, ScanRequest, Snapshot, no_table, wanted,
    },
    statement,
    table::{Loss, TableName},
    types::ColumnType,
};

use super::{
    catalog::{self, Described, get},
    connect,
    decode::{Decoder, Fields, without_header},
    errors,
    execute::DIALECT,
    settings::Settings,
    splits::{self, Source},
    types::{MONEY_SCALE, ServerType, oid, quote, quote_table},
};

/// What makes the text of instants the same everywhere, has tables read from their beginning, and lets a reader wait for
/// the file; in addition to the settings of every session.
pub(super) const SETTINGS: [(&str, &str); 3] = [
    ("timezone", "UTC"),
    ("synchronize_seqscans", "off"),
    ("idle_in_transaction_session_timeout", "0"),
];

/// Opens as many readers as are wanted and of use.
pub(super) async fn scan(settings: &Settings, request: &ScanRequest) -> Result<Snapshot> {
    let leader = connect::open(settings).await?;
    begin(&leader, None).await?;
    let found = relation(&leader, request).await?;
    let (columns, arriving, selected) = describe(&leader, request, &found).await?;
    let cut = splits::cut(&leader, request, &found.source, &selected).await?;
    let mut notes = cut.notes;
    let not_of_one_state = not_of_one_state(&leader, &found).await?;
    notes.extend(found.notes(&columns, request));

    let key = found.key(&columns);
    let shared = Arc::new(ScanContext {
        decoder: Decoder::new(&columns, &arriving, &key, request.beyond_arrow)?,
        queries: cut.queries,
        columns: columns.len(),
        batch: request.batch,
        settings: settings.clone(),
    });
    let mut wanted = request.readers.clamp(1, shared.queries.len());
    if let Some(why) = not_of_one_state.filter(|_| wanted > 1) {
        notes.push(format!(
            "one job: {why}, which shows each connection a state of its own"
        ));
        wanted = 1;
    }
    let mut readers: Vec<Box<dyn Reader>> = Vec::with_capacity(wanted);
    if wanted > 1 {
        let snapshot = export(&leader).await?;
        let open = (1..wanted).map(|_| async {
            let client = connect::open(settings).await?;
            begin(&client, Some(&snapshot)).await?;
            Ok::<_, Error>(client)
        });
        let others = futures::future::try_join_all(open).await?;
        readers.push(PostgresReader::boxed(leader, &shared));
        readers.extend(
            others
                .into_iter()
                .map(|client| PostgresReader::boxed(client, &shared)),
        );
    } else {
        readers.push(PostgresReader::boxed(leader, &shared));
    }
    Ok(Snapshot {
        table: found.table(),
        splits: shared.queries.len(),
        columns,
        key,
        consistency: match readers.len() {
            1 => BY_ITSELF,
            _ => "an exported snapshot, which all transactions share",
        },
        readers,
        settings_changed: SETTINGS.map(|(name, value)| format!("{name} = {value}")).to_vec(),
        notes,
    })
}

/// Whether rows come from another server, and which.
pub(super) async fn not_of_one_state(client: &Client, found: &Found) -> Result<Option<String>> {
    let Some(described) = &found.described else {
        return Ok(None);
    };
    let less = catalog::less_durable(client, described.oid, &described.table.name).await?;
    let not_of_one_state = less.into_iter().find(|less| less.loss == Loss::Apart);
    Ok(not_of_one_state.map(|less| less.why))
}

/// The name by which other sessions see what this one does, for as long as its transaction lasts.
pub(super) async fn export(client: &Client) -> Result<String> {
    let row = client
        .query_one("SELECT pg_catalog.pg_export_snapshot()", &[])
        .await;
    get(&row.map_err(errors::statement)?, 0)
}

/// Begins a transaction that sees `snapshot`, or what is committed by now.
pub(super) async fn begin(client: &Client, snapshot: Option<&str>) -> Result<()> {
    let mut sql = "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY".to_owned();
    if let Some(snapshot) = snapshot {
        // An identifier that the server made up, of digits and hyphens.
        sql.push_str(&format!("; SET TRANSACTION SNAPSHOT '{snapshot}'"));
    }
    for (name, value) in SETTINGS {
        sql.push_str(&format!("; SET LOCAL {name} = '{value}'"));
    }
    client.batch_execute(&sql).await.map_err(errors::statement)
}

/// What is read, in SQL.
pub(super) struct Found {
    pub(super) source: Source,
    /// The table's or view's entry in the catalogue.
    pub(super) described: Option<Described>,
    /// The tables that inherit from it, whose rows are among its own.
    heirs: Vec<String>,
}

/// The tables below a table that is not partitioned.
const HEIRS: &str = "\
    WITH RECURSIVE heir (oid) AS ( \
        SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = $1 \
        UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN heir h ON h.oid = i.inhparent) \
    SELECT heir.oid::pg_catalog.regclass::text FROM heir ORDER BY 1";

impl Found {
    /// The full name of the table or view; none for a query.
    pub(super) fn table(&self) -> Option<TableName> {
        self.described
            .as_ref()
            .map(|described| described.table.name.clone())
    }

    /// The columns of the primary key; none where there is none, or not all of them are among `columns`.
    pub(super) fn key(&self, columns: &[ReadColumn]) -> Vec<String> {
        let key = self
            .described
            .as_ref()
            .and_then(|described| described.table.primary_key());
        let is_read = |name: &String| columns.iter().any(|column| column.name == *name);
        let key = key.map(|key| key.columns.clone());
        key.filter(|key| key.iter().all(is_read)).unwrap_or_default()
    }

    /// What a user should know.
    pub(super) fn notes(&self, columns: &[ReadColumn], request: &ScanRequest) -> Vec<String> {
        let Some(described) = &self.described else {
            return Vec::new();
        };
        let mut notes = reader::notes(&described.table, columns, request);
        if described.row_security {
            notes
                .push("row security applies to this role: only the rows that it may see are read".to_owned());
        }
        if !self.heirs.is_empty() {
            notes.push(format!(
                "the rows of the tables that inherit from {table} are read with its own ({}); --query 'SELECT * FROM ONLY \
                 {table}' leaves them out",
                self.heirs.join(", "),
                table = described.table.name,
            ));
        }
        notes
    }
}

pub(super) async fn relation(client: &Client, request: &ScanRequest) -> Result<Found> {
    if let Some(filter) = &request.filter {
        statement::condition(filter, DIALECT)?;
    }
    match &request.relation {
        Relation::Query(query) => Ok(Found {
            source: Source::Query(statement::query(query, DIALECT)?.to_owned()),
            described: None,
            heirs: Vec::new(),
        }),
        Relation::Table(name) => match catalog::describe_readable(client, name).await? {
            Some(described) => Ok(Found {
                heirs: match described.partitioned {
                    true => Vec::new(),
                    false => heirs(client, described.oid).await?,
                },
                source: Source::Table {
                    oid: described.oid,
                    name: described.table.name.clone(),
                    kind: described.kind.clone(),
                    row_security: described.row_security,
                    key: described
                        .table
                        .primary_key()
                        .map(|key| key.columns.clone())
                        .unwrap_or_default(),
                },
                described: Some(described),
            }),
            None => Err(no_table(name, &catalog::names(client).await?)),
        },
    }
}

async fn heirs(client: &Client, oid: u32) -> Result<Vec<String>> {
    let rows = client.query(HEIRS, &[&oid]).await.map_err(errors::statement)?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// The columns, as what each arrives, and the list that selects them: `*` for all of a query's.
pub(super) async fn describe(
    client: &Client,
    request: &ScanRequest,
    found: &Found,
) -> Result<(Vec<ReadColumn>, Vec<ServerType>, String)> {
    let from = match &found.source {
        Source::Query(query) => query.clone(),
        Source::Table { name, .. } => format!("SELECT * FROM {}", quote_table(name)),
    };
    let prepared = client.prepare(&from).await.map_err(|e| of_query(e, request))?;
    if !prepared.params().is_empty() {
        return Err(
            Error::config("the query has parameters ($1), and there is nothing to fill them with")
                .hint("write the values into the query"),
        );
    }
    let described = prepared.columns();
    if described.is_empty() && matches!(found.source, Source::Query(_)) {
        return Err(Error::config("the query returns no rows").hint("write a query that only reads"));
    }
    let names = described.iter().map(|column| column.name());
    let catalogued = found.described.as_ref().map(|described| &described.table.columns);
    let all = (0..described.len()).filter(|at| {
        let generated = catalogued
            .and_then(|columns| columns.get(*at))
            .is_some_and(|c| c.generated);
        !generated
    });
    let place = match &found.source {
        Source::Query(_) => "the query".to_owned(),
        Source::Table { name, .. } => name.to_string(),
    };
    let wanted = wanted(request, &place, names, all)?;
    let (servers, declared) = declared(client, described).await?;
    let (mut columns, mut arriving, mut selected) = (Vec::new(), Vec::new(), Vec::new());
    for (at, as_text) in wanted {
        let column = &described[at];
        let server = servers[at];
        let catalogued = catalogued.and_then(|columns| columns.iter().find(|c| c.name == column.name()));
        let name = quote(column.name());
        let made = |oid: u32| ServerType { oid, modifier: -1 };
        let (ty, server, expression) = match server.column_type().filter(|_| !as_text) {
            Some(ty) => (ty, server, name),
            // As a load takes them.
            None if !as_text && has_fields(column.type_()) => (
                ColumnType::Json,
                made(oid::JSON),
                format!("pg_catalog.to_json({name}) AS {name}"),
            ),
            None => (
                ColumnType::TEXT,
                made(oid::TEXT),
                format!("{name}::pg_catalog.text AS {name}"),
            ),
        };
        columns.push(ReadColumn {
            element: element_of(column.type_(), servers[at].modifier).filter(|_| !as_text),
            name: column.name().to_owned(),
            ty,
            declared: declared.get(at).cloned().unwrap_or_default(),
            nullable: catalogued.is_none_or(|column| column.nullable),
        });
        arriving.push(server);
        selected.push(expression);
    }
    // Not of a table: its partitions may have their columns in another order.
    let is_all = request.columns.is_none() && matches!(found.source, Source::Query(_));
    let as_they_are = columns
        .iter()
        .zip(&selected)
        .all(|(column, expression)| quote(&column.name) == *expression);
    let selected = match is_all && as_they_are {
        true => "*".to_owned(),
        false => selected.join(", "),
    };
    Ok((columns, arriving, selected))
}

/// What the elements of an array are, whose modifier is theirs.
fn element_of(ty: &Type, modifier: i32) -> Option<ColumnType> {
    match ty.kind() {
        Kind::Array(element) => {
            let oid = element.oid();
            ServerType { oid, modifier }.column_type()
        }
        _ => None,
    }
}

/// The types of columns, and how the server writes them.
async fn declared(
    client: &Client,
    columns: &[tokio_postgres::Column],
) -> Result<(Vec<ServerType>, Vec<String>)> {
    let oids: Vec<u32> = columns.iter().map(|column| column.type_().oid()).collect();
    let modifiers: Vec<i32> = columns.iter().map(|column| column.type_modifier()).collect();
    let declared = client
        .query_one(
            &format!(
                "SELECT ARRAY(SELECT pg_catalog.format_type(o, m) FROM unnest($1::oid[], $2::int4[]) \
                 WITH ORDINALITY t (o, m, i) ORDER BY i), {MONEY_SCALE}"
            ),
            &[&oids, &modifiers],
        )
        .await
        .map_err(errors::statement)?;
    let money_scale: i32 = get(&declared, 1)?;
    let server = |(oid, modifier)| match oid {
        oid::MONEY => ServerType {
            oid,
            modifier: money_scale,
        },
        _ => ServerType { oid, modifier },
    };
    let servers = oids.into_iter().zip(modifiers).map(server).collect();
    Ok((servers, get(&declared, 0)?))
}

/// Whether a type is a composite one, or made of one.
fn has_fields(ty: &Type) -> bool {
    match ty.kind() {
        Kind::Composite(_) => true,
        Kind::Domain(base) | Kind::Array(base) => has_fields(base),
        _ => false,
    }
}

/// The server's refusal of SQL that the user has written.
pub(super) fn of_query(error: tokio_postgres::Error, request: &ScanRequest) -> Error {
    let of_user = error.as_db_error().is_some();
    let error = errors::statement(error);
    match (&request.relation, of_user) {
        (Relation::Query(_), true) => error.at("the query"),
        _ => error,
    }
}

/// What all readers of a snapshot have in common.
pub(super) struct ScanContext {
    pub(super) decoder: Decoder,
    /// One a split.
    pub(super) queries: Vec<String>,
    pub(super) columns: usize,
    pub(super) batch: BatchBounds,
    pub(super) settings: Settings,
}

pub(super) struct PostgresReader {
    client: Client,
    shared: Arc<ScanContext>,
    rows: Option<Rows>,
    fields: Fields,
}

/// A COPY that goes on.
struct Rows {
    stream: Pin<Box<CopyOutStream>>,
    begun: bool,
}

impl PostgresReader {
    pub(super) fn boxed(client: Client, shared: &Arc<ScanContext>) -> Box<dyn Reader> {
        Box::new(Self {
            client,
            fields: Fields::new(shared.columns),
            shared: Arc::clone(shared),
            rows: None,
        })
    }

    /// Reads until the fields fill a batch; false where the split ends before.
    async fn fill(&mut self) -> Result<bool> {
        let Some(rows) = &mut self.rows else {
            return Ok(false);
        };
        let bounds = self.shared.batch;
        while self.fields.rows() < bounds.rows_max && self.fields.bytes() < bounds.bytes_max {
            let Some(message) = rows.stream.next().await else {
                return Ok(false);
            };
            let message: Bytes = message.map_err(of_rows)?;
            let body = match std::mem::replace(&mut rows.begun, true) {
                true => &message[..],
                false => without_header(&message)?,
            };
            if !self.fields.push_copied(body)? {
                // Nothing but the end of the COPY follows.
                while let Some(rest) = rows.stream.next().await {
                    rest.map_err(of_rows)?;
                }
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// An error while rows arrive. Nothing that was asked for can be had from another attempt: the snapshot is gone.
fn of_rows(error: tokio_postgres::Error) -> Error {
    let error = errors::statement(error);
    match error.kind() {
        ErrorKind::Rejected => error.of_kind(ErrorKind::Refused),
        _ => error,
    }
}

#[async_trait]
impl Reader for PostgresReader {
    async fn open(&mut self, split: usize) -> Result<()> {
        let query = self
            .shared
            .queries
            .get(split)
            .ok_or_else(|| Error::bug(format!("there is no split {split}")))?;
        self.fields.clear();
        let copy = format!("COPY (\n{query}\n) TO STDOUT (FORMAT binary)");
        let stream = self.client.copy_out(&copy).await.map_err(of_rows)?;
        self.rows = Some(Rows {
            stream: Box::pin(stream),
            begun: false,
        });
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<arrow::array::RecordBatch>> {
        if !self.fill().await? {
            self.rows = None;
        }
        if self.fields.rows() == 0 {
            return Ok(None);
        }
        let batch = self.shared.decoder.decode(&self.fields);
        self.fields.clear();
        batch.map(Some)
    }
}

impl Drop for PostgresReader {
    /// Tells the server to stop what nobody reads any more: left alone it would send the rest of the table.
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if self.rows.is_some() {
            let (token, settings) = (self.client.cancel_token(), self.shared.settings.clone());
            runtime.spawn(async move { connect::cancel(&settings, token).await });
        }
    }
}
