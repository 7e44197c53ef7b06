//! Tables that are recreated, and indexes that are built again: over every fault the table is whole, or an unfinished
//! run says what is owed to it.

use tonnage_core::report::RunState;

use super::*;

/// A table `t` of three old rows, unless it is to be empty, with two secondary indexes.
async fn table(dir: &Path, rows: bool) -> Memory {
    let memory = Memory::new();
    let old = match rows {
        true => (1_001..1_004).map(|id| (id, "old".to_owned())).collect(),
        false => Vec::new(),
    };
    let first = LoadOptions {
        rejects: Some(dir.join("none.jsonl")),
        ..options(dir)
    };
    load(&memory, Numbers::new(old, 10), first).await.unwrap();
    memory.check("t", refuses_thirteens);
    memory.index("t", "by_v");
    memory.index("t", "by_both");
    memory
}

fn around(dir: &Path, recreate: bool) -> LoadOptions {
    LoadOptions {
        create: Create::No,
        key: Vec::new(),
        recreate,
        rebuild_indexes: !recreate,
        ..options(dir)
    }
}

fn ids(memory: &Memory) -> Vec<i64> {
    let rows = memory.rows("t").into_iter();
    let mut ids: Vec<i64> = rows.map(|r| r[0].clone().unwrap().parse().unwrap()).collect();
    ids.sort();
    ids
}

async fn owing(memory: &Memory) -> usize {
    let runs = memory.runs(&RunQuery::Newest(1_000)).await.unwrap();
    runs.iter().filter(|run| run.detail.pending.is_some()).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_the_table_is_whole_or_a_run_owes_it() {
    for seed in 0..80 {
        let mut dice = Dice(seed);
        let recreate = dice.below(2) == 1;
        let dir = tempfile::tempdir().unwrap();
        let memory = table(dir.path(), recreate).await;
        let before = ids(&memory);
        let rows: Vec<(i64, String)> = (0..dice.below(400) as i64)
            .map(|at| match dice.below(40) {
                0 => (-1, String::new()),
                _ => (at, format!("v{at}")),
            })
            .collect();
        let after: Vec<i64> = rows
            .iter()
            .filter(|(id, value)| *id >= 0 && !value.ends_with("13"))
            .map(|(id, _)| *id)
            .collect();
        let block_rows = 1 + dice.below(60) as usize;
        let mut attempts = 0;
        loop {
            attempts += 1;
            assert!(attempts < 100, "seed {seed}: no end");
            let options = LoadOptions {
                jobs: Some(1 + dice.below(4) as usize),
                batch_rows: Some(1 + dice.below(150) as usize),
                attempt: if dice.below(8) == 0 {
                    Attempt::Restart
                } else {
                    Attempt::Resume
                },
                truncate: !recreate && dice.below(2) == 0,
                rejects: Some(dir.path().join(format!("rejects-{}.jsonl", dice.below(3)))),
                ..around(dir.path(), recreate)
            };
            // What an earlier run has put aside under the name is not in the way of this test.
            if options.attempt == Attempt::Restart {
                for number in 0..3 {
                    let _ = std::fs::remove_file(dir.path().join(format!("rejects-{number}.jsonl")));
                }
            }
            if attempts < 60 && dice.below(4) > 0 {
                let fault = match dice.below(5) {
                    0 => Fault::Before(ErrorKind::Overloaded),
                    1 => Fault::Before(ErrorKind::Unsent),
                    2 | 3 => Fault::After,
                    _ => Fault::Dead,
                };
                memory.fail_after(dice.below(30), fault);
            }
            let ended = load(&memory, Numbers::new(rows.clone(), block_rows), options).await;
            memory.revive();
            let owing = owing(&memory).await;
            let whole = memory.indexes("t").len() == 2 && memory.tables() == ["t"];
            assert_ne!(
                whole,
                owing > 0,
                "seed {seed}: {:?}, {owing} owing",
                memory.tables()
            );
            if recreate {
                let found = ids(&memory);
                assert!(found == before || found == after, "seed {seed}: {found:?}");
                assert!(
                    owing == 0 || found == before,
                    "seed {seed}: swapped and still owing"
                );
            }
            match ended {
                Ok(Ended { error: None, .. }) if memory.indexes("t").len() == 2 => break,
                // Without the option to empty it, a table that a forgotten run has left rows in is refused.
                Err(error) if error.to_string().starts_with("--rebuild-indexes needs") => memory.clear("t"),
                Err(error) => assert_ne!(error.kind(), ErrorKind::Bug, "seed {seed}: {error}"),
                Ok(Ended { report, error }) => {
                    assert!(report.rows.balances());
                    let error = error.expect("not whole, so not finished");
                    assert_ne!(error.kind(), ErrorKind::Bug, "seed {seed}: {error}");
                }
            }
        }
        assert_eq!(ids(&memory), after, "seed {seed}");
        assert_eq!(memory.indexes("t"), ["by_v", "by_both"]);
        assert_eq!(memory.tables(), ["t"]);
        // The table has another identity now, and the run is still known to have loaded it.
        let again = load(
            &memory,
            Numbers::new(rows, block_rows),
            around(dir.path(), recreate),
        )
        .await;
        assert_eq!(again.unwrap().report.state, RunState::NothingToDo, "seed {seed}");
    }
}

#[tokio::test]
async fn a_run_that_fails_at_once_gives_back_what_it_took() {
    for recreate in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let memory = table(dir.path(), recreate).await;
        let before = memory.rows("t").len();
        let stop = LoadOptions {
            on_error: OnError::Stop,
            rejects: None,
            attempt: Attempt::New,
            ..around(dir.path(), recreate)
        };
        let bad = vec![(1, "v13".to_owned())];
        let ended = load(&memory, Numbers::new(bad, 10), stop).await.unwrap();
        ended.error.expect("the row is bad");
        assert_eq!(memory.tables(), ["t"]);
        assert_eq!(memory.indexes("t").len(), 2);
        assert_eq!((memory.rows("t").len(), owing(&memory).await), (before, 0));
    }
}

#[tokio::test]
async fn readers_see_the_old_table_until_the_new_one_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let memory = table(dir.path(), true).await;
    let rows: Vec<_> = (0..100).map(|i| (i, format!("v{i}"))).collect();
    let with = |attempt, recreate| LoadOptions {
        recreate,
        jobs: Some(1),
        batch_rows: Some(10),
        attempt,
        ..around(dir.path(), true)
    };
    memory.fail_after(20, Fault::Dead);
    let ended = load(&memory, Numbers::new(rows.clone(), 10), with(Attempt::New, true)).await;
    let Ended { report, error } = ended.unwrap();
    error.expect("died");
    memory.revive();
    assert!(report.rows.written > 0);
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.starts_with("t is as it was; rows written are in tonnage_"))
    );
    assert_eq!(ids(&memory), [1_001, 1_002, 1_003]);

    let plain = LoadOptions {
        rebuild_indexes: false,
        ..with(Attempt::Resume, false)
    };
    let refused = load(&memory, Numbers::new(rows.clone(), 10), plain).await;
    assert_eq!(
        refused.expect_err("another kind of run").to_string(),
        "the run began with --recreate and is now asked to go on without"
    );
    let ended = load(&memory, Numbers::new(rows, 10), with(Attempt::Resume, true)).await;
    let Ended { report, error } = ended.unwrap();
    assert!(error.is_none());
    assert!(report.rows.skipped.resumed > 0);
    assert_eq!(ids(&memory), (0..100).filter(|id| *id != 13).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_table_with_rows_keeps_its_indexes() {
    let dir = tempfile::tempdir().unwrap();
    let memory = table(dir.path(), true).await;
    let anew = LoadOptions {
        attempt: Attempt::New,
        ..around(dir.path(), false)
    };
    let refused = load(&memory, Numbers::new(Vec::new(), 1), anew).await;
    let error = refused.expect_err("it has rows");
    assert_eq!(
        error.to_string(),
        "--rebuild-indexes needs an empty table, and t has rows"
    );
    assert_eq!((memory.indexes("t").len(), memory.rows("t").len()), (2, 3));
}
