//! Rates and retries, on a clock that stands still until somebody waits for it.

use tokio::time::{Duration, Instant};
use tonnage_core::retry::Attempts;

use super::*;
use crate::plan::Rate;

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

/// Who waits for the next write of a low rate does not keep a run from ending.
#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_the_rate() {
    for rate in [Rate::Rows(1), Rate::Offered(1)] {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new();
        let rows: Vec<_> = (0..4_000).map(|i| (i, format!("v{i}"))).collect();
        let target: Arc<dyn Target> = Arc::new(memory.clone());
        let options = LoadOptions {
            jobs: Some(1),
            // A write every quarter of an hour, where its size is what was asked for.
            batch_rows: Some(900),
            rate: Some(rate),
            ..options(dir.path())
        };
        let source = Box::new(Numbers::new(rows, 1_000));
        let prepared = prepare(target, "memory:".into(), source, options).await.unwrap();
        let (progress, stop) = (Arc::<Progress>::default(), Stop::default());
        let asking = async {
            while progress.writes.count() == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            stop.request();
            std::future::pending::<()>().await;
        };
        let began = Instant::now();
        let ended = tokio::select! {
            ended = prepared.run(progress.clone(), stop.clone()) => ended.unwrap(),
            () = asking => unreachable!("it asks for ever"),
        };
        assert!(
            began.elapsed() < Duration::from_secs(600),
            "{:?}",
            began.elapsed()
        );
        let account = ended.report.rows;
        assert!(account.balances() && account.unfinished > 0, "{account}");
        assert_eq!(memory.rows("t").len() as u64, account.written);
        assert!(account.written > 0, "{account}");
    }
}

/// A lane that is slower than the rate begins its writes ever later, and their times count from when they were due.
#[tokio::test]
async fn what_is_offered_counts_from_when_it_was_due() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let rows: Vec<_> = (0..2_000).map(|i| (i, format!("v{i}"))).collect();
    let target: Arc<dyn Target> = Arc::new(memory.clone());
    let options = LoadOptions {
        jobs: Some(1),
        batch_rows: Some(100),
        // All of them are due within two microseconds.
        rate: Some(Rate::Offered(1_000_000_000)),
        ..options(dir.path())
    };
    let source = Box::new(Numbers::new(rows, 1_000));
    let prepared = prepare(target, "memory:".into(), source, options).await.unwrap();
    assert_eq!(
        prepared.plan().batch_rows,
        100,
        "the rate does not change a write"
    );
    let progress = Arc::<Progress>::default();
    let ended = prepared.run(progress.clone(), Stop::default()).await.unwrap();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let writes = progress.writes.count();
    assert!(writes >= 20, "{writes}");
    assert_eq!(progress.pace.responses.count(), writes);
    let (due, began) = progress.pace.kept().unwrap();
    assert!(
        due < std::time::Duration::from_micros(3) && began > due,
        "{due:?} {began:?}"
    );
    for share in [0.5, 0.99, 1.0] {
        let [response, write] =
            [&progress.pace.responses, &progress.writes].map(|times| times.quantile(share));
        assert!(response >= write, "{share}: {response:?} {write:?}");
    }
    // The last has waited for all before it.
    let window = progress.writes.window().unwrap();
    assert!(progress.pace.responses.quantile(1.0) >= Some(window - due));
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
