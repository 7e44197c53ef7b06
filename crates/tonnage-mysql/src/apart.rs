//! Reading in parts that other processes carry out.
//!
//! No state can be shown to several sessions by name, so each part sees what is committed when its reading begins. Parts are
//! ranges of values, of the primary key or a column, so that a row that nobody changes meanwhile is in exactly one.

use std::sync::Arc;

use mysql_async::Conn;
use tonnage_core::{
    error::{Error, Result},
    reader::{BY_ITSELF, CutScan, CutStates, ReadColumn, Reader, ScanPart, ScanRequest, Snapshot, parts_of},
};

use super::{
    decode::Decoder,
    reader::{Found, MysqlReader, begin, check, describe, open, relation, settings_changed},
    settings::Settings,
    splits::{self, Query, SPLITS_PER_READER, Source},
    stream::{Answering, RowDecoding},
};

/// See [`ScanApart::cut_scan`](tonnage_core::target::ScanApart::cut_scan).
pub(super) async fn cut_scan(
    settings: &Settings,
    request: &ScanRequest,
    states: CutStates,
    parts_max: usize,
) -> Result<CutScan> {
    let (mut conn, version, settings) = open(settings).await?;
    let found = relation(&mut conn, &version, &settings.database, request).await?;
    let (columns, selected) = describe(&mut conn, &version, request, &found).await?;
    let query = Query {
        selected: &selected,
        filter: request.filter.as_deref(),
    };
    let one = check(&mut conn, request, &found.source, &query).await?;
    begin(&mut conn).await?;
    let mut notes = found.notes(&columns, request);
    let cut = ScanRequest {
        readers: parts_max.div_ceil(SPLITS_PER_READER).max(1),
        ..request.clone()
    };
    let queries = match parts_max > 1 && request.limit.is_none() {
        true => ranges(&mut conn, &cut, &found, &query).await?,
        false => None,
    };
    let queries = queries.unwrap_or_else(|| {
        if parts_max > 1 && request.limit.is_none() {
            notes.push("one part: there is no primary key to be cut by; split_by names a column".to_owned());
        }
        vec![one]
    });
    let parts = parts_of(queries, None, parts_max);
    if states == CutStates::One && parts.len() > 1 {
        notes.push(
            "each part is read of a state of its own: of rows that are changed meanwhile some come as they were and some as \
             they are then"
                .to_owned(),
        );
    }
    Ok(CutScan {
        columns,
        parts,
        holder: None,
        notes,
    })
}

/// The queries of ranges of the column that was asked for, or of the primary key; none where there is neither.
async fn ranges(
    conn: &mut Conn,
    request: &ScanRequest,
    found: &Found,
    query: &Query<'_>,
) -> Result<Option<Vec<String>>> {
    if let Some(column) = &request.split_by {
        return splits::by_column(conn, request, &found.source, query, column)
            .await
            .map(Some);
    }
    let Source::Table(described) = &found.source else {
        return Ok(None);
    };
    let columns = splits::key_columns(described);
    if columns.is_empty() || described.is_view {
        return Ok(None);
    }
    splits::by_key(conn, request, described, query, &columns)
        .await
        .map(Some)
}

/// See [`ScanApart::scan_part`](tonnage_core::target::ScanApart::scan_part).
pub(super) async fn scan_part(
    settings: &Settings,
    request: &ScanRequest,
    part: &ScanPart,
) -> Result<Snapshot> {
    if part.state.is_some() || part.queries.is_empty() {
        return Err(Error::config("this part is of another database"));
    }
    let (mut conn, version, settings) = open(settings).await?;
    let found = relation(&mut conn, &version, &settings.database, request).await?;
    let (columns, _): (Vec<ReadColumn>, _) = describe(&mut conn, &version, request, &found).await?;
    begin(&mut conn).await?;
    let key = found.key(&columns);
    let form = Arc::new(RowDecoding {
        decoder: Decoder::new(&columns, &key, request.beyond_arrow)?,
        batch: request.batch,
    });
    let reader: Box<dyn Reader> = Box::new(MysqlReader {
        rows: Answering::start(conn, form, settings),
        queries: Arc::new(part.queries.clone()),
    });
    Ok(Snapshot {
        table: found.table(),
        splits: part.queries.len(),
        notes: found.notes(&columns, request),
        columns,
        key,
        readers: vec![reader],
        consistency: BY_ITSELF,
        settings_changed: settings_changed(&version),
    })
}
