//! Runs that stop and go on.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use tonnage_core::{ErrorKind, Result, ledger::RunQuery, stop::Stop, target::Target};
use tonnage_engine::load::{AfterCommit, Ended, builder::Load};

use crate::{Files, Fixture, Row, load, make, row, rows};

const ROWS: i64 = 1_000;

/// Asks for a stop after so many commits.
struct StopAfter {
    commits: AtomicUsize,
    stop: Stop,
}

#[async_trait]
impl AfterCommit for StopAfter {
    async fn after(&self, _: usize, _: &RecordBatch) -> Result<()> {
        if self.commits.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.stop.request();
        }
        Ok(())
    }
}

fn input(files: &Files) -> String {
    files.csv("input.csv", (0..ROWS).map(|id| (id, format!("v{id}"))))
}

fn all() -> Vec<Row> {
    let mut rows: Vec<Row> = (0..ROWS).map(|id| row(id, format!("v{id}"))).collect();
    rows.sort();
    rows
}

fn in_pieces(target: &Arc<dyn Target>, path: &str, rejects: &Path, batch_rows: usize) -> Load {
    let load = load(target, path, rejects).jobs(1).batch_rows(batch_rows);
    // Blocks as small as that, so that a run of few rows has many steps.
    load.options(|options| options.batch_bytes = Some(2_000))
}

async fn stopped_after(load: Load, commits: usize) -> Ended {
    let stop = Stop::default();
    let between = StopAfter {
        commits: AtomicUsize::new(commits),
        stop: stop.clone(),
    };
    let prepared = load
        .prepare()
        .await
        .expect("a plan")
        .with_between(Arc::new(between));
    prepared
        .run(Arc::default(), stop)
        .await
        .expect("a run that begins")
}

/// A run that was stopped after some writes goes on where it was, cut into other writes: each row is there once.
pub async fn a_stopped_run_goes_on(fixture: &dyn Fixture) {
    let target = fixture.target();
    make(&target).await;
    let files = Files::new();
    let path = input(&files);
    let ended = stopped_after(in_pieces(&target, &path, &files.rejects(), 90), 3).await;
    assert_eq!(ended.error.map(|error| error.kind()), Some(ErrorKind::Cancelled));
    assert!(ended.report.rows.balances());
    let there = fixture.count("t").await;
    assert_eq!(there, ended.report.rows.written);
    assert!(0 < there && there < ROWS as u64, "{there}");
    let unfinished = target.ledger().runs(&RunQuery::Unfinished).await.expect("runs");
    assert_eq!(unfinished.len(), 1);
    drop(target);
    let target = fixture.again().await;
    let again = in_pieces(&target, &path, &files.rejects(), 70);
    let refused = again.run().await.expect_err("neither resumed nor begun anew");
    assert_ne!(refused.kind(), ErrorKind::Bug, "{refused}");
    let report = in_pieces(&target, &path, &files.rejects(), 70)
        .resume()
        .run()
        .await
        .expect("it goes on");
    assert!(report.rows.balances());
    assert_eq!(
        (report.rows.skipped.resumed, report.rows.written),
        (there, ROWS as u64 - there)
    );
    assert_eq!(rows(fixture).await, all());
    assert!(
        target
            .ledger()
            .runs(&RunQuery::Unfinished)
            .await
            .expect("runs")
            .is_empty()
    );
}

/// An input that is not what it was is refused, and nothing is written.
pub async fn an_input_that_changed_is_refused(fixture: &dyn Fixture) {
    let target = fixture.target();
    make(&target).await;
    let files = Files::new();
    let path = input(&files);
    stopped_after(in_pieces(&target, &path, &files.rejects(), 90), 2).await;
    let there = fixture.count("t").await;
    files.csv("input.csv", (0..ROWS).map(|id| (id, format!("w{id}"))));
    let target = fixture.again().await;
    let refused = in_pieces(&target, &path, &files.rejects(), 90)
        .resume()
        .run()
        .await;
    let refused = refused.expect_err("the file has changed");
    assert_ne!(refused.kind(), ErrorKind::Bug, "{refused}");
    assert_eq!(fixture.count("t").await, there);
}
