//! A table that is altered while it is loaded.

use super::*;
use crate::plan::LedgerPlace;

fn rows(count: i64) -> Vec<(i64, String)> {
    (0..count).map(|at| (at, format!("v{at}"))).collect()
}

/// The options of a load that begins with an empty table, in small writes.
async fn made(memory: &Memory, dir: &Path) -> LoadOptions {
    let ended = load(memory, Numbers::new(Vec::new(), 1), options(dir)).await;
    ended.expect("an empty load makes the table");
    LoadOptions {
        jobs: Some(3),
        batch_rows: Some(10),
        ..options(dir)
    }
}

/// The load stops with an error that says so; what was committed stays and is accounted for, and a resume is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_altered_table_stops_the_load() {
    for single_transaction in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new();
        let options = LoadOptions {
            single_transaction,
            ..made(&memory, dir.path()).await
        };
        let begins = if single_transaction { 0 } else { 5 };
        memory.alter_after(begins, "t", |table, _| {
            table.columns[1].nullable = false;
        });
        let ended = load(&memory, Numbers::new(rows(500), 7), options.clone()).await;
        let ended = ended.expect("a load that has begun");
        let error = ended.error.expect("a table that was altered");
        assert_eq!(error.kind(), ErrorKind::Altered, "{error}");
        assert!(
            error.to_string().contains("'v' takes no nulls any more"),
            "{error}"
        );
        assert!(error.hint_text().is_some_and(|hint| hint.contains("--restart")));
        assert!(ended.report.rows.balances());
        assert_eq!(ended.report.rows.written, memory.rows("t").len() as u64);
        let resumed = load(&memory, Numbers::new(rows(500), 7), options).await;
        match (single_transaction, resumed) {
            // Nothing of it was there: it is begun anew.
            (true, resumed) => assert!(resumed.expect("a load").error.is_none()),
            (false, resumed) => {
                let refused = resumed.expect_err("an altered table is not gone on with");
                assert!(refused.to_string().contains("has been altered"), "{refused}");
            }
        }
    }
}

/// Without a ledger, too; and a table that is dropped or replaced is no more the same one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_ledger_a_replaced_table_stops_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let options = LoadOptions {
        ledger: LedgerPlace::None,
        attempt: Attempt::New,
        ..made(&memory, dir.path()).await
    };
    memory.alter_after(4, "t", |table, rows| {
        table.identity.object = "another".to_owned();
        rows.clear();
    });
    let ended = load(&memory, Numbers::new(rows(500), 7), options).await;
    let error = ended
        .expect("a load that has begun")
        .error
        .expect("a replaced table");
    assert_eq!(error.kind(), ErrorKind::Altered, "{error}");
    assert!(error.to_string().contains("was replaced"), "{error}");
    assert_eq!(memory.rows("t"), Vec::<Vec<Option<String>>>::new());
}

/// A commit whose answer was lost, and which has happened, counts, although the table was altered since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_in_doubt_counts_before_the_table_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let mut options = made(&memory, dir.path()).await;
    options.jobs = Some(1);
    let before = memory.calls();
    let ended = load(&memory, Numbers::new(rows(10), 10), options.clone()).await;
    assert!(ended.expect("a load").error.is_none());
    let calls = memory.calls() - before;
    memory.clear("t");
    for fault in 0..calls {
        options.attempt = Attempt::Restart;
        memory.clear("t");
        memory.fail_after(fault, Fault::After);
        memory.alter_after(1, "t", |_, _| {});
        let ended = load(&memory, Numbers::new(rows(30), 10), options.clone()).await;
        memory.revive();
        let Ok(ended) = ended else { continue };
        assert!(ended.report.rows.balances(), "fault {fault}");
        let written = memory.rows("t").len() as u64;
        assert_eq!(ended.report.rows.written, written, "fault {fault}");
    }
}
