//! Watching a load: what the database logs for it, and what it logs by itself.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tonnage_core::{
    error::Result,
    instruments::{Instruments, LogMark, Records},
    operation::Mode,
    stop::Stop,
    table::Table,
};
use tonnage_engine::load::{Ended, Prepared, Progress};

use super::{
    judge::Seen,
    verdict::{drowned, without_background},
};

/// How long the log is watched before a load.
const WATCHED: Duration = Duration::from_millis(200);

/// Runs a load of `operation` into `table`, which nobody else knows of, and says what it left behind.
pub(super) async fn look(
    instruments: &dyn Instruments,
    table: &Table,
    operation: Mode,
    prepared: Prepared,
    stop: &Stop,
) -> Result<Seen> {
    let batch_rows = prepared.plan().batch_rows;
    // Rows that are changed or removed leave room behind, so that pages say how many rows they held before only.
    let there = match operation {
        Mode::Update | Mode::Delete => instruments.disk(&table.name).await?,
        _ => None,
    };
    let _kept = instruments.keep_log().await?;
    let idle_from = instruments.log().await?;
    let idle = Instant::now();
    tokio::time::sleep(WATCHED).await;
    let from = instruments.log().await?;
    let idle_seconds = idle.elapsed().as_secs_f64();
    let began = Instant::now();
    let Ended { report, error } = prepared.run(Arc::<Progress>::default(), stop.clone()).await?;
    if let Some(error) = error {
        return Err(error);
    }
    let to = instruments.log().await?;
    let seconds = began.elapsed().as_secs_f64();
    let records = match (&from, &to) {
        (Some(from), Some(to)) => instruments.records(table, operation, from, to).await?,
        _ => Records::Unknown {
            why: "the database does not tell how far its log is".to_owned(),
        },
    };
    let idle_records = match (&records, &idle_from, &from) {
        (Records::Counted { shared: true, .. }, Some(idle_from), Some(from)) => {
            match instruments.records(table, operation, idle_from, from).await? {
                Records::Counted { rows, .. } => rows,
                Records::Unknown { .. } => 0,
            }
        }
        _ => 0,
    };
    let grown = |from: &Option<LogMark>, to: &Option<LogMark>| {
        let (from, to) = (from.as_ref()?, to.as_ref()?);
        Some(to.bytes.saturating_sub(from.bytes))
    };
    let log_bytes = grown(&from, &to).and_then(|bytes| {
        let background = grown(&idle_from, &from).unwrap_or_default();
        let left = without_background(bytes, seconds, background, idle_seconds);
        (!drowned(bytes, left)).then_some(left)
    });
    let disk = match operation {
        Mode::Update | Mode::Delete => there,
        // Other rows were there before, of as many pages as nobody has counted.
        Mode::Upsert => None,
        _ => instruments.disk(&table.name).await?,
    };
    Ok(Seen {
        rows: report.rows.written + report.rows.skipped.superseded,
        batch_rows,
        seconds,
        records,
        idle_records,
        idle_seconds,
        log_bytes,
        disk,
    })
}
