//! The engine against the reference target: whatever fails, every row stands once and the account is exact.

mod after_commit;
mod altered;
mod dice;
mod numbers;
mod pace;
mod prepared;
mod sorted;
mod whole;
mod wide;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use tonnage_core::{
    ledger::{Ledger, RunQuery},
    operation::Mode,
    report::RunState,
    table::TableName,
};
use tonnage_testing::memory::{Fault, Memory};

use self::{dice::Dice, numbers::Numbers};
use super::*;
use crate::plan::{Attempt, OnError, Rate, RejectsMax};

fn options(dir: &Path) -> LoadOptions {
    LoadOptions {
        mode: Mode::Insert,
        key: vec!["id".into()],
        create: Create::Missing,
        on_error: OnError::Reject,
        rejects: Some(dir.join("rejects.jsonl")),
        attempt: Attempt::Resume,
        ..LoadOptions::new(TableName::bare("t"))
    }
}

async fn load(memory: &Memory, source: Numbers, options: LoadOptions) -> Result<Ended> {
    let target: Arc<dyn Target> = Arc::new(memory.clone());
    let prepared = prepare(target, "memory:".into(), Box::new(source), options).await?;
    prepared.run(Arc::default(), Stop::default()).await
}

fn rejected_rows(dir: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(dir.join("rejects.jsonl")).unwrap_or_default();
    let row = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["row"].as_u64();
    let mut rows: Vec<u64> = text.lines().map(|l| row(l).expect("a row")).collect();
    rows.sort();
    rows
}

fn refuses_thirteens(row: &tonnage_testing::memory::Row) -> Option<(&'static str, String)> {
    let value = row[1].as_deref()?;
    value
        .ends_with("13")
        .then(|| ("23514", format!("{value} ends with 13")))
}

/// Random data, random faults at every call, other settings at every attempt: in the end every good row stands once,
/// every bad one is in the rejects once, and the last row of a key has won.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_every_row_stands_once() {
    for seed in 0..60 {
        let mut dice = Dice(seed);
        let upsert = dice.below(2) == 1;
        let rows: Vec<(i64, String)> = (0..dice.below(900))
            .map(|at| match dice.below(60) {
                0 => (-1, String::new()),
                _ if upsert => (dice.below(200) as i64, format!("v{at}")),
                1 => (dice.below(at + 1) as i64, format!("again{at}")),
                _ => (at as i64, format!("v{at}")),
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new();
        let block_rows = 1 + dice.below(90) as usize;
        let mut attempts = 0;
        let ended = loop {
            attempts += 1;
            assert!(attempts < 400, "seed {seed}: no end");
            let mut options = options(dir.path());
            options.mode = if upsert { Mode::Upsert } else { Mode::Insert };
            options.jobs = Some(1 + dice.below(4) as usize);
            options.batch_rows = Some(1 + dice.below(200) as usize);
            options.batch_bytes = Some(1 + dice.below(20_000) as usize);
            options.method = Some(if dice.below(2) == 0 {
                tonnage_core::operation::Method::Array
            } else {
                tonnage_core::operation::Method::Native
            });
            if attempts > 1 && dice.below(4) > 0 {
                let kind = match dice.below(6) {
                    0 => Fault::Before(ErrorKind::Overloaded),
                    1 => Fault::Before(ErrorKind::Unsent),
                    2 | 3 => Fault::After,
                    _ => Fault::Dead,
                };
                memory.fail_after(dice.below(120), kind);
            }
            let result = load(&memory, Numbers::new(rows.clone(), block_rows), options).await;
            if attempts == 1 && result.is_ok() {
                // The check comes with the table, so the first load makes it and is then undone.
                memory.drop_table("t");
                for run in memory.runs(&RunQuery::Newest(1)).await.unwrap() {
                    assert!(memory.forget(&run.run_id).await.unwrap());
                }
                let _ = std::fs::remove_file(dir.path().join("rejects.jsonl"));
                let mut make = super::tests::options(dir.path());
                make.mode = if upsert { Mode::Upsert } else { Mode::Insert };
                load(&memory, Numbers::new(Vec::new(), 1), make)
                    .await
                    .expect("an empty load makes the table");
                memory.check("t", refuses_thirteens);
                continue;
            }
            match result {
                Ok(Ended { report, error: None }) => break report,
                Ok(Ended {
                    report,
                    error: Some(_),
                }) => assert!(report.rows.balances()),
                Err(error) => assert_ne!(error.kind(), ErrorKind::Bug, "seed {seed}: {error}"),
            }
            memory.revive();
        };
        let mut expected: BTreeMap<String, String> = BTreeMap::new();
        let mut bad = Vec::new();
        for (at, (id, value)) in rows.iter().enumerate() {
            let taken = !upsert && expected.contains_key(&id.to_string());
            if *id < 0 || value.ends_with("13") || taken {
                bad.push(at as u64 + 1);
            } else {
                expected.insert(id.to_string(), value.clone());
            }
        }
        let found: Vec<(String, String)> = memory
            .rows("t")
            .into_iter()
            .map(|r| (r[0].clone().expect("id"), r[1].clone().expect("v")))
            .collect();
        assert_eq!(
            found.len(),
            expected.len(),
            "seed {seed}: a row stands twice or is missing"
        );
        if upsert {
            assert_eq!(
                found.into_iter().collect::<BTreeMap<_, _>>(),
                expected,
                "seed {seed}"
            );
            // A bad row that a later one of its key replaced need not have been tried.
            let rejected = rejected_rows(dir.path());
            assert!(rejected.iter().all(|row| bad.contains(row)), "seed {seed}");
            let last = |row: &&u64| {
                let (id, _) = &rows[**row as usize - 1];
                *id < 0 || !rows[**row as usize..].iter().any(|(later, _)| later == id)
            };
            assert!(
                bad.iter().filter(last).all(|row| rejected.contains(row)),
                "seed {seed}"
            );
            assert!(
                rejected.is_sorted_by(|a, b| a < b),
                "seed {seed}: a row is there twice"
            );
        } else {
            // Of two rows with one key the lanes decide which is first; one of them is there, one is rejected.
            let found: BTreeMap<_, _> = found.into_iter().collect();
            assert!(found.keys().eq(expected.keys()), "seed {seed}");
            assert_eq!(rejected_rows(dir.path()).len(), bad.len(), "seed {seed}");
        }
        assert!(ended.rows.balances());
        assert_eq!(ended.rows.unfinished, 0);
        assert_eq!(ended.rows.read, rows.len() as u64, "seed {seed}");
    }
}

#[tokio::test]
async fn a_bad_row_stops_the_run_and_leaves_nothing_of_its_write() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let mut rows: Vec<_> = (0..100).map(|i| (i, format!("v{i}"))).collect();
    rows[57].0 = 3;
    let stop = |attempt| LoadOptions {
        on_error: OnError::Stop,
        rejects: None,
        attempt,
        jobs: Some(1),
        ..options(dir.path())
    };
    let ended = load(&memory, Numbers::new(rows.clone(), 10), stop(Attempt::New))
        .await
        .unwrap();
    let error = ended.error.expect("row 58 repeats a key");
    assert_eq!(error.to_string(), "numbers row 58: the key is there already");
    assert_eq!(error.code_text(), Some("23505"));
    assert_eq!(ended.report.rows.written as usize, memory.rows("t").len());
    assert!(ended.report.rows.balances());
    assert!(ended.report.rows.unfinished > 0);

    // An unreadable row is found in its place: rows before it are tried first.
    rows[57].0 = 57;
    rows[55].0 = -1;
    rows[52].0 = 3;
    let memory = Memory::new();
    let ended = load(&memory, Numbers::new(rows, 10), stop(Attempt::New))
        .await
        .unwrap();
    assert_eq!(
        ended.error.expect("stops").to_string(),
        "numbers row 53: the key is there already"
    );
    assert!(memory.rows("t").len() <= 50);
}

#[tokio::test]
async fn all_bad_stops_at_the_allowance_and_goes_on_from_there() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    load(&memory, Numbers::new(Vec::new(), 1), options(dir.path()))
        .await
        .unwrap();
    memory.check("t", |_| Some(("23514", "no row is good".into())));
    let rows: Vec<_> = (0..500).map(|i| (i, format!("v{i}"))).collect();
    for jobs in [1, 3] {
        let run = |max, attempt| LoadOptions {
            rejects_max: RejectsMax::Rows(max),
            attempt,
            jobs: Some(jobs),
            ..options(dir.path())
        };
        let before = memory.calls();
        let ended = load(&memory, Numbers::new(rows.clone(), 100), run(7, Attempt::Restart))
            .await
            .unwrap();
        assert_eq!(
            ended.error.expect("too many").to_string(),
            "more than 7 rows are bad"
        );
        assert_eq!(ended.report.rows.rejected, 7);
        assert_eq!(rejected_rows(dir.path()).len(), 7);
        assert!(memory.calls() - before < 400, "{} calls", memory.calls() - before);
        let ended = load(
            &memory,
            Numbers::new(rows.clone(), 100),
            run(600, Attempt::Resume),
        )
        .await
        .unwrap();
        assert!(ended.error.is_none());
        assert_eq!(ended.report.rows.rejected, 493);
        assert_eq!(ended.report.rows.skipped.resumed, 7);
        assert_eq!(rejected_rows(dir.path()), (1..=500).collect::<Vec<_>>());
        std::fs::remove_file(dir.path().join("rejects.jsonl")).unwrap();
    }
    // Unreadable rows stop as quickly, with their allowance used to the last.
    let rows = vec![(-1, String::new()); 500];
    let run = |max, attempt| LoadOptions {
        rejects_max: RejectsMax::Rows(max),
        attempt,
        ..options(dir.path())
    };
    let ended = load(
        &memory,
        Numbers::new(rows.clone(), 100),
        run(250, Attempt::Restart),
    )
    .await
    .unwrap();
    assert_eq!(
        (ended.report.rows.rejected, rejected_rows(dir.path()).len()),
        (250, 250)
    );
    let ended = load(&memory, Numbers::new(rows, 100), run(500, Attempt::Resume))
        .await
        .unwrap();
    assert!(ended.error.is_none());
    assert_eq!(rejected_rows(dir.path()), (1..=500).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_run_is_told_from_another() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let rows: Vec<_> = (0..100).map(|i| (i, format!("v{i}"))).collect();
    let source = || Numbers::new(rows.clone(), 10);
    let with = |attempt| LoadOptions {
        attempt,
        jobs: Some(1),
        batch_rows: Some(10),
        ..options(dir.path())
    };
    load(&memory, Numbers::new(Vec::new(), 1), with(Attempt::New))
        .await
        .unwrap();
    memory.fail_after(12, Fault::Dead);
    load(&memory, source(), with(Attempt::New))
        .await
        .unwrap()
        .error
        .expect("died");
    memory.revive();

    let refused = load(&memory, source(), with(Attempt::New))
        .await
        .expect_err("unfinished");
    assert!(refused.to_string().contains("is unfinished"), "{refused}");
    assert!(
        refused
            .hint_text()
            .unwrap()
            .starts_with("--resume goes on where it stopped; --restart")
    );

    let mut changed = source();
    changed.changed = true;
    let refused = load(&memory, changed, with(Attempt::Resume))
        .await
        .expect_err("changed");
    assert_eq!(
        refused.to_string(),
        "/numbers has changed since the run began: 100 bytes then, 101 now"
    );

    let ended = load(&memory, source(), with(Attempt::Resume)).await.unwrap();
    assert!(ended.error.is_none());
    assert!(ended.report.rows.skipped.resumed > 0);
    assert_eq!(memory.rows("t").len(), 100);

    let again = load(&memory, source(), with(Attempt::Resume)).await.unwrap();
    assert_eq!(
        (again.report.state, memory.rows("t").len()),
        (RunState::NothingToDo, 100)
    );

    // The same load again is a new run, and says that the rows were there.
    let again = load(
        &memory,
        source(),
        LoadOptions {
            rejects_max: RejectsMax::Rows(100),
            ..with(Attempt::New)
        },
    )
    .await;
    let again = again.unwrap();
    assert_eq!(again.report.rows.rejected, 100);
    assert!(
        again
            .report
            .notes
            .iter()
            .any(|n| n.contains("was loaded into t before"))
    );

    // A table dropped and made again, as one that was restored from a dump, may have the rows or not.
    std::fs::remove_file(dir.path().join("rejects.jsonl")).unwrap();
    memory.drop_table("t");
    load(&memory, Numbers::new(Vec::new(), 1), with(Attempt::New))
        .await
        .unwrap();
    let refused = load(&memory, source(), with(Attempt::Resume)).await;
    let refused = refused.expect_err("another table").to_string();
    assert!(
        refused.contains("table t is not the one that it was"),
        "{refused}"
    );
    let fresh = load(&memory, source(), with(Attempt::Restart)).await.unwrap();
    assert_eq!((fresh.report.rows.written, memory.rows("t").len()), (100, 100));
}

/// A second process takes the run over while the first still writes: the first stops, and no row is there twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_taken_over_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let rows: Vec<_> = (0..3000).map(|i| (i, format!("v{i}"))).collect();
    let with = |attempt| LoadOptions {
        attempt,
        jobs: Some(2),
        batch_rows: Some(20),
        // So slow that the second comes before the first one's end.
        rate: (attempt == Attempt::New).then_some(Rate::Rows(1_000)),
        rejects: Some(dir.path().join(format!("{attempt:?}.jsonl"))),
        ..options(dir.path())
    };
    load(&memory, Numbers::new(Vec::new(), 1), with(Attempt::New))
        .await
        .unwrap();
    let first = {
        let (memory, source, options) = (
            memory.clone(),
            Numbers::new(rows.clone(), 100),
            with(Attempt::New),
        );
        tokio::spawn(async move { load(&memory, source, options).await })
    };
    while memory.rows("t").len() < 200 {
        tokio::task::yield_now().await;
    }
    let second = load(&memory, Numbers::new(rows, 100), with(Attempt::Resume))
        .await
        .unwrap();
    assert!(second.error.is_none(), "{:?}", second.error);
    let first = first.await.unwrap().unwrap();
    assert_eq!(first.error.expect("fenced").kind(), ErrorKind::Fenced);
    assert_eq!(memory.rows("t").len(), 3000);
    assert_eq!(
        second.report.rows.written + second.report.rows.skipped.resumed,
        3000
    );
}

/// Each operation against a model of one row at a time, with repeated keys, at several jobs and write sizes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_mean_what_they_say() {
    let first: Vec<(i64, String)> = (0..200).map(|id| (id, format!("old{id}"))).collect();
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let second: Vec<(i64, String)> = (0..400)
            .map(|at| (dice.below(300) as i64, format!("new{at}")))
            .collect();
        for mode in [Mode::Ignore, Mode::Update, Mode::Delete, Mode::Upsert] {
            let dir = tempfile::tempdir().unwrap();
            let memory = Memory::new();
            load(&memory, Numbers::new(first.clone(), 50), options(dir.path()))
                .await
                .unwrap();
            let change = LoadOptions {
                mode,
                create: Create::No,
                jobs: Some(1 + dice.below(4) as usize),
                batch_rows: Some(1 + dice.below(150) as usize),
                method: Some(match dice.below(3) {
                    0 => tonnage_core::operation::Method::Single,
                    1 => tonnage_core::operation::Method::Batch,
                    _ => tonnage_core::operation::Method::Array,
                }),
                ..options(dir.path())
            };
            let ended = load(
                &memory,
                Numbers::new(second.clone(), 1 + dice.below(120) as usize),
                change,
            )
            .await;
            let Ended { report, error } = ended.unwrap();
            assert!(error.is_none(), "{error:?}");
            assert!(report.rows.balances());

            let mut expected: BTreeMap<i64, String> = first.iter().cloned().collect();
            let mut left_out = 0;
            for (id, value) in &second {
                let there = expected.contains_key(id);
                let applied = match mode {
                    Mode::Ignore => !there,
                    Mode::Update | Mode::Delete => there,
                    _ => true,
                };
                match (applied, mode) {
                    (false, _) => left_out += 1,
                    (true, Mode::Delete) => drop(expected.remove(id)),
                    (true, _) => drop(expected.insert(*id, value.clone())),
                }
            }
            let found: BTreeMap<i64, String> = memory
                .rows("t")
                .into_iter()
                .map(|r| (r[0].clone().unwrap().parse().unwrap(), r[1].clone().unwrap()))
                .collect();
            assert_eq!(found, expected, "seed {seed}, {mode:?}");
            let rows = report.rows;
            let (conflict, unmatched) = (rows.skipped.conflict, rows.skipped.unmatched);
            match mode {
                Mode::Ignore => assert_eq!((conflict, unmatched), (left_out, 0)),
                Mode::Delete => assert_eq!((conflict, unmatched), (0, left_out)),
                // A superseded row is not tried, so whether it would have matched is not known.
                Mode::Update => assert!(conflict == 0 && unmatched <= left_out),
                _ => assert_eq!((conflict, unmatched), (0, 0)),
            }
        }
    }
}

/// Writes are cut anywhere, also between a block's rejects and its rows: nothing is done twice or left out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn halves_of_a_write_make_the_whole() {
    let rows: Vec<(i64, String)> = (0..60)
        .map(|at| (if at % 3 == 0 { -1 } else { at }, format!("v{at}")))
        .collect();
    let bad: Vec<u64> = (1..=60).filter(|row| row % 3 == 1).collect();
    for block_rows in [1, 2, 4, 7, 30] {
        for mode in [Mode::Insert, Mode::Upsert] {
            let dir = tempfile::tempdir().unwrap();
            let memory = Memory::new();
            load(&memory, Numbers::new(Vec::new(), 1), options(dir.path()))
                .await
                .unwrap();
            memory.bear(Some(1), None);
            let options = LoadOptions {
                mode,
                jobs: Some(2),
                batch_rows: Some(16),
                ..options(dir.path())
            };
            let ended = load(&memory, Numbers::new(rows.clone(), block_rows), options)
                .await
                .unwrap();
            assert!(ended.error.is_none(), "{:?}", ended.error);
            assert!(ended.report.rows.balances());
            assert_eq!(memory.rows("t").len(), 40);
            assert_eq!(rejected_rows(dir.path()), bad);
        }
    }
}

/// A database that bears little gets smaller writes and fewer lanes, and all of the rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overloaded_database_gets_less_at_a_time() {
    for (rows_max, writers_max) in [(Some(7), None), (None, Some(1)), (Some(30), Some(2))] {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new();
        let mut rows: Vec<_> = (0..600).map(|i| (i, format!("v{i}"))).collect();
        rows[100].0 = -1;
        rows[333].0 = 5;
        load(&memory, Numbers::new(Vec::new(), 1), options(dir.path()))
            .await
            .unwrap();
        memory.bear(rows_max, writers_max);
        for (mode, jobs) in [(Mode::Insert, 4), (Mode::Upsert, 3)] {
            let options = LoadOptions {
                mode,
                jobs: Some(jobs),
                ..options(dir.path())
            };
            let ended = load(&memory, Numbers::new(rows.clone(), 90), options)
                .await
                .unwrap();
            assert!(ended.error.is_none(), "{:?}", ended.error);
            assert!(ended.report.rows.balances());
            assert!(ended.report.retries > 0 || rows_max.is_none());
            let overload = ended.report.overload;
            assert_eq!(
                overload.as_ref().map_or(0, |overload| overload.writes),
                ended.report.retries
            );
            assert!(overload.is_none_or(|overload| overload.jobs_least < jobs));
            assert_eq!(memory.rows("t").len(), 598);
            let written = if mode == Mode::Insert { 598 } else { 599 };
            assert_eq!(
                ended.report.rows.written + ended.report.rows.skipped.superseded,
                written
            );
            std::fs::remove_file(dir.path().join("rejects.jsonl")).unwrap();
        }
    }
}

#[tokio::test]
async fn a_limit_counts_source_rows() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let mut rows: Vec<_> = (0..100).map(|i| (i, format!("v{i}"))).collect();
    rows[4].0 = -1;
    let limited = LoadOptions {
        limit: Some(25),
        ..options(dir.path())
    };
    let report = load(&memory, Numbers::new(rows, 10), limited)
        .await
        .unwrap()
        .report;
    assert_eq!(
        (report.rows.read, report.rows.written, report.rows.rejected),
        (25, 24, 1)
    );
}

#[tokio::test]
async fn a_stop_on_request_can_be_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let rows: Vec<_> = (0..100).map(|i| (i, format!("v{i}"))).collect();
    let target: Arc<dyn Target> = Arc::new(memory.clone());
    let prepared = prepare(
        target,
        "memory:".into(),
        Box::new(Numbers::new(rows.clone(), 10)),
        options(dir.path()),
    )
    .await
    .unwrap();
    let stop = Stop::default();
    stop.request();
    let progress: Arc<Progress> = Arc::default();
    let ended = prepared.run(progress.clone(), stop).await.unwrap();
    assert_eq!(
        ended.error.expect("stopped").hint_text(),
        Some("go on with --resume")
    );
    assert_eq!(progress.written.load(Ordering::Relaxed), 0);
    let ended = load(&memory, Numbers::new(rows, 10), options(dir.path()))
        .await
        .unwrap();
    assert!(ended.error.is_none());
    assert_eq!(memory.rows("t").len(), 100);
}

/// Blocks much larger than a write leave every lane with a rest that it waits to fill up: the room of what it has
/// written must be free for the next block by then, or all would wait for one another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_that_wait_for_rows_leave_room_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let rows = |ids: std::ops::Range<i64>| ids.map(|id| (id, "v".repeat(2_000))).collect();
    load(&memory, Numbers::new(rows(0..1), 1), options(dir.path()))
        .await
        .unwrap();
    let wide = LoadOptions {
        jobs: Some(2),
        batch_bytes: Some(4 << 10),
        attempt: Attempt::New,
        ..options(dir.path())
    };
    let source = Box::new(Numbers::new(rows(1..1_001), 99));
    let target: Arc<dyn Target> = Arc::new(memory.clone());
    let mut prepared = prepare(target, "memory:".into(), source, wide).await.unwrap();
    // Room for what waiting lanes hold and a little more, far less than a block a lane.
    let held = 2 * ((4 << 10) + super::write::PIECES_MAX * 1024);
    prepared.plan.queue_bytes_max = held + (16 << 10);
    let running = prepared.run(Arc::default(), Stop::default());
    // Not a bound on how long it takes: it ends, or it never does.
    let ended = tokio::time::timeout(std::time::Duration::from_secs(60), running).await;
    let ended = ended.expect("the run ends").unwrap();
    assert_eq!(ended.report.rows.to_string(), "1,000 read = 1,000 written");
    assert_eq!(memory.rows("t").len(), 1_001);
}
