//! Reading in parts that other processes carry out.
//!
//! The session that cuts keeps its transaction, whose snapshot it exports: whoever reads a part begins with it, and all see one
//! state for as long as that session lasts. Where nothing is to be held, parts are ranges of values, never of pages: a row
//! that is updated moves to another page, and would be read twice or not at all.

use std::sync::Arc;

use tokio_postgres::Client;
use tonnage_core::{
    error::{Error, Result},
    reader::{BY_ITSELF, CutScan, CutStates, ReadColumn, ScanPart, ScanRequest, Snapshot, parts_of},
};

use super::{
    connect,
    decode::Decoder,
    reader::{
        Found, PostgresReader, SETTINGS, ScanContext, begin, describe, export, not_of_one_state, relation,
    },
    settings::Settings,
    splits::{self, SPLITS_PER_READER},
    types::ServerType,
};

/// What a session has found of what is to be read.
struct Described {
    found: Found,
    columns: Vec<ReadColumn>,
    arriving: Vec<ServerType>,
    selected: String,
}

impl Described {
    async fn of(client: &Client, request: &ScanRequest) -> Result<Self> {
        let found = relation(client, request).await?;
        let (columns, arriving, selected) = describe(client, request, &found).await?;
        Ok(Self {
            found,
            columns,
            arriving,
            selected,
        })
    }

    fn context(
        &self,
        settings: &Settings,
        request: &ScanRequest,
        queries: Vec<String>,
    ) -> Result<Arc<ScanContext>> {
        let key = self.found.key(&self.columns);
        Ok(Arc::new(ScanContext {
            decoder: Decoder::new(&self.columns, &self.arriving, &key, request.beyond_arrow)?,
            queries,
            columns: self.columns.len(),
            batch: request.batch,
            settings: settings.clone(),
        }))
    }
}

/// See [`ScanApart::cut_scan`](tonnage_core::target::ScanApart::cut_scan).
pub(super) async fn cut_scan(
    settings: &Settings,
    request: &ScanRequest,
    states: CutStates,
    parts_max: usize,
) -> Result<CutScan> {
    let leader = connect::open(settings).await?;
    begin(&leader, None).await?;
    let described = Described::of(&leader, request).await?;
    let (mut parts_max, mut notes) = (parts_max.max(1), Vec::new());
    if states == CutStates::One
        && parts_max > 1
        && let Some(why) = not_of_one_state(&leader, &described.found).await?
    {
        notes.push(format!(
            "one part: {why}, which shows each connection a state of its own"
        ));
        parts_max = 1;
    }
    let mut cut = request.clone();
    if states == CutStates::Any && request.split_by.is_none() && request.limit.is_none() && parts_max > 1 {
        let key = described
            .found
            .described
            .as_ref()
            .and_then(|known| known.table.primary_key());
        cut.split_by = key.and_then(|key| key.columns.first().cloned());
        if cut.split_by.is_none() {
            notes.push("one part: there is no primary key to be cut by; split_by names a column".to_owned());
            parts_max = 1;
        }
    }
    cut.readers = match parts_max {
        1 => 1,
        parts => parts.div_ceil(SPLITS_PER_READER).max(2),
    };
    let splits = splits::cut(&leader, &cut, &described.found.source, &described.selected).await?;
    notes.extend(splits.notes);
    notes.extend(described.found.notes(&described.columns, request));
    let state = match states {
        CutStates::One => Some(export(&leader).await?),
        CutStates::Any => None,
    };
    let context = described.context(settings, request, splits.queries.clone())?;
    Ok(CutScan {
        parts: parts_of(splits.queries, state.as_deref(), parts_max),
        holder: state.is_some().then(|| PostgresReader::boxed(leader, &context)),
        columns: described.columns,
        notes,
    })
}

/// See [`ScanApart::scan_part`](tonnage_core::target::ScanApart::scan_part).
pub(super) async fn scan_part(
    settings: &Settings,
    request: &ScanRequest,
    part: &ScanPart,
) -> Result<Snapshot> {
    let is_name = |state: &String| state.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if !part.state.as_ref().is_none_or(is_name) || part.queries.is_empty() {
        return Err(Error::config("this part is of another database"));
    }
    let client = connect::open(settings).await?;
    begin(&client, part.state.as_deref())
        .await
        .map_err(|error| match &part.state {
            Some(_) => error.hint(
                "a state lasts as long as the process and the frame that hold it: keep both until all parts are read",
            ),
            None => error,
        })?;
    let described = Described::of(&client, request).await?;
    let notes = described.found.notes(&described.columns, request);
    let context = described.context(settings, request, part.queries.clone())?;
    Ok(Snapshot {
        table: described.found.table(),
        splits: part.queries.len(),
        key: described.found.key(&described.columns),
        columns: described.columns,
        readers: vec![PostgresReader::boxed(client, &context)],
        consistency: match part.state {
            Some(_) => "an exported snapshot, which all parts share",
            None => BY_ITSELF,
        },
        settings_changed: SETTINGS.map(|(name, value)| format!("{name} = {value}")).to_vec(),
        notes,
    })
}
