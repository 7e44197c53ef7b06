//! What lanes do between their writes.

use std::{collections::BTreeSet, sync::Mutex};

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::Int64Type,
};
use async_trait::async_trait;
use tonnage_core::sync::Lock;

use super::*;
use crate::load::AfterCommit;

/// Writes down what it is told, and fails once it was told of more than so many rows.
struct Recorder {
    memory: Memory,
    ids: Mutex<Vec<i64>>,
    rows_max: usize,
}

#[async_trait]
impl AfterCommit for Recorder {
    async fn after(&self, lane: usize, rows: &RecordBatch) -> Result<()> {
        assert!(lane < 3, "lane {lane}");
        let there: BTreeSet<_> = self.memory.rows("t").iter().map(|row| row[0].clone()).collect();
        let mut ids = self.ids.locked();
        for id in rows.column(0).as_primitive::<Int64Type>().values() {
            assert!(there.contains(&Some(id.to_string())), "{id} is not there yet");
            ids.push(*id);
        }
        match ids.len() > self.rows_max {
            true => Err(Error::new(ErrorKind::Refused, "enough was told")),
            false => Ok(()),
        }
    }
}

async fn told(jobs: usize, rows_max: usize) -> (Ended, Vec<i64>, usize) {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    load(&memory, Numbers::new(Vec::new(), 1), options(dir.path()))
        .await
        .unwrap();
    // Writes of 40 come in pieces.
    memory.bear(Some(15), None);
    let rows: Vec<_> = (0..500).map(|i| (i, format!("v{i}"))).collect();
    let options = LoadOptions {
        jobs: Some(jobs),
        batch_rows: Some(40),
        ..options(dir.path())
    };
    let target: Arc<dyn Target> = Arc::new(memory.clone());
    let source = Box::new(Numbers::new(rows, 90));
    let told = Arc::new(Recorder {
        memory: memory.clone(),
        ids: Mutex::default(),
        rows_max,
    });
    let prepared = prepare(target, "memory:".into(), source, options).await.unwrap();
    let prepared = prepared.with_between(told.clone());
    let ended = prepared.run(Arc::default(), Stop::default()).await.unwrap();
    let mut ids = told.ids.locked().clone();
    ids.sort_unstable();
    (ended, ids, memory.rows("t").len())
}

#[tokio::test(start_paused = true)]
async fn lanes_are_told_of_every_row_once_it_is_there() {
    for jobs in [1, 3] {
        let (ended, ids, there) = told(jobs, usize::MAX).await;
        assert!(ended.error.is_none(), "{:?}", ended.error);
        assert_eq!(ids, (0..500).collect::<Vec<_>>(), "{jobs} jobs");
        assert_eq!(there, 500);
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_between_writes_ends_the_run() {
    for jobs in [1, 3] {
        let (ended, ids, there) = told(jobs, 200).await;
        let error = ended.error.expect("it has failed");
        assert!(error.to_string().contains("enough was told"), "{error}");
        let account = ended.report.rows;
        assert!(account.balances(), "{account}");
        assert_eq!(account.written, there as u64);
        assert!(
            ids.len() > 200 && there < 500,
            "{} told, {there} there",
            ids.len()
        );
    }
}
