//! Rates and retries, on a clock that stands still until somebody waits for it.

use tokio::time::{Duration, Instant};

use super::*;
use crate::{load::retry::Attempts, plan::Rate};

/// Rows that are tried again, or in halves, count once.
#[tokio::test(start_paused = true)]
async fn a_rate_counts_rows_once_however_often_they_are_tried() {
    const ROWS: i64 = 4_000;
    const RATE: u64 = 1_000;
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    load(&memory, Numbers::new(Vec::new(), 1), options(dir.path()))
        .await
        .unwrap();
    // A rate of 1,000 rows makes writes of 200: every one comes in halves.
    memory.bear(Some(100), None);
    let rows: Vec<_> = (0..ROWS).map(|i| (i, format!("v{i}"))).collect();
    let options = LoadOptions {
        jobs: Some(1),
        rate: Some(Rate::Rows(RATE)),
        ..options(dir.path())
    };
    let began = Instant::now();
    let ended = load(&memory, Numbers::new(rows, 1_000), options).await.unwrap();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(memory.rows("t").len(), ROWS as usize);
    assert!(ended.report.retries >= 18, "{} retries", ended.report.retries);
    let kept = Duration::from_secs(ROWS as u64 / RATE);
    let took = began.elapsed();
    assert!(
        took + Duration::from_secs(1) > kept && took < kept + kept / 4,
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn attempts_end_by_number_and_by_time() {
    let minute = Duration::from_secs(60);
    let mut attempts = Attempts::of(3, minute);
    assert!(attempts.pause().is_some() && attempts.pause().is_some() && attempts.pause().is_none());
    // Smaller writes are tried as often, but no longer.
    attempts.smaller();
    assert!(attempts.pause().is_some());
    tokio::time::advance(minute).await;
    attempts.smaller();
    assert!(attempts.pause().is_none());
}
