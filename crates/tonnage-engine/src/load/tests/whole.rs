//! A run as one transaction: at every moment all of its rows are there, or none.

use super::*;

fn ids(memory: &Memory) -> Vec<i64> {
    let rows = memory.rows("t").into_iter();
    let mut ids: Vec<i64> = rows.map(|r| r[0].clone().unwrap().parse().unwrap()).collect();
    ids.sort();
    ids
}

/// Random faults at every call: after each attempt the table is as it was or as it shall be, and never in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_all_rows_are_there_or_none() {
    for seed in 0..80 {
        let mut dice = Dice(seed);
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory::new();
        let before: Vec<i64> = vec![1_001, 1_002, 1_003];
        let old = before.iter().map(|id| (*id, format!("old{id}"))).collect();
        let first = LoadOptions {
            rejects: Some(dir.path().join("none.jsonl")),
            ..options(dir.path())
        };
        load(&memory, Numbers::new(old, 10), first).await.unwrap();
        memory.check("t", refuses_thirteens);
        let truncate = dice.below(2) == 1;
        let upsert = dice.below(2) == 1;
        let rows: Vec<(i64, String)> = (0..dice.below(400) as i64)
            .map(|at| match dice.below(40) {
                0 => (-1, String::new()),
                _ => (at, format!("v{at}")),
            })
            .collect();
        let good: Vec<i64> = rows
            .iter()
            .filter(|(id, value)| *id >= 0 && !value.ends_with("13"))
            .map(|(id, _)| *id)
            .collect();
        let mut after = good.clone();
        if !truncate {
            after.extend(&before);
        }
        let bad: Vec<u64> = (1..)
            .zip(&rows)
            .filter(|(_, (id, value))| *id < 0 || value.ends_with("13"))
            .map(|(row, _)| row)
            .collect();
        let block_rows = 1 + dice.below(60) as usize;
        let mut attempts = 0;
        let report = loop {
            attempts += 1;
            assert!(attempts < 100, "seed {seed}: no end");
            let options = LoadOptions {
                mode: if upsert { Mode::Upsert } else { Mode::Insert },
                create: Create::No,
                key: if upsert { vec!["id".into()] } else { Vec::new() },
                single_transaction: true,
                truncate,
                batch_rows: Some(1 + dice.below(150) as usize),
                // A run that was committed and not recorded as finished is gone on with; any other begins anew.
                attempt: if ids(&memory) == after || dice.below(2) == 0 {
                    Attempt::Resume
                } else {
                    Attempt::New
                },
                ..options(dir.path())
            };
            if attempts < 60 && dice.below(4) > 0 {
                let fault = match dice.below(5) {
                    0 => Fault::Before(ErrorKind::Overloaded),
                    1 => Fault::Before(ErrorKind::Unsent),
                    2 | 3 => Fault::After,
                    _ => Fault::Dead,
                };
                memory.fail_after(dice.below(24), fault);
            }
            let ended = load(&memory, Numbers::new(rows.clone(), block_rows), options).await;
            let found = ids(&memory);
            assert!(found == before || found == after, "seed {seed}: {found:?}");
            memory.revive();
            match ended {
                Ok(Ended { report, error: None }) => break report,
                Ok(Ended {
                    report,
                    error: Some(error),
                }) => {
                    assert!(report.rows.balances());
                    assert_ne!(error.kind(), ErrorKind::Bug, "seed {seed}: {error}");
                    if found == before && before != after {
                        assert_eq!(report.rows.written, 0, "seed {seed}: {error}");
                    }
                }
                Err(error) => assert_ne!(error.kind(), ErrorKind::Bug, "seed {seed}: {error}"),
            }
        };
        assert_eq!(ids(&memory), after, "seed {seed}");
        assert_eq!(report.rows.unfinished, 0, "seed {seed}");
        assert_eq!(rejected_rows(dir.path()), bad, "seed {seed}");
    }
}

#[tokio::test]
async fn a_run_that_fails_leaves_nothing_and_can_be_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let mut rows: Vec<_> = (0..100).map(|i| (i, format!("v{i}"))).collect();
    let with = |on_error, max| LoadOptions {
        on_error,
        rejects: (on_error == OnError::Reject).then(|| dir.path().join("rejects.jsonl")),
        rejects_max: RejectsMax::Rows(max),
        single_transaction: true,
        attempt: Attempt::New,
        jobs: Some(4),
        batch_rows: Some(7),
        ..options(dir.path())
    };
    rows[93].0 = 3;
    rows[97].0 = 4;
    let ended = load(&memory, Numbers::new(rows.clone(), 10), with(OnError::Stop, 0)).await;
    let Ended { report, error } = ended.unwrap();
    assert_eq!(
        error.expect("row 94 repeats a key").to_string(),
        "numbers row 94: the key is there already"
    );
    assert_eq!((report.rows.written, memory.rows("t").len()), (0, 0));
    assert!(report.rows.unfinished > 90);

    let ended = load(&memory, Numbers::new(rows.clone(), 10), with(OnError::Reject, 1)).await;
    let Ended { report, error } = ended.unwrap();
    let error = error.expect("two rows are bad");
    let aside = dir.path().join("rejects.jsonl.rolled-back");
    assert_eq!(
        error.hint_text(),
        Some(format!("look at {}; --max-rejects allows more", aside.display()).as_str())
    );
    assert_eq!((report.rows.rejected, report.rejects), (0, None));
    assert!(aside.exists() && !dir.path().join("rejects.jsonl").exists());
    assert_eq!(memory.rows("t").len(), 0);

    let ended = load(&memory, Numbers::new(rows, 10), with(OnError::Reject, 2)).await;
    let Ended { report, error } = ended.unwrap();
    assert!(error.is_none());
    assert_eq!((report.jobs, report.commits), (1, 1));
    assert_eq!(rejected_rows(dir.path()), [94, 98]);
    assert_eq!(memory.rows("t").len(), 98);
}

/// An interrupt, or an input that breaks off, leaves nothing either.
#[tokio::test]
async fn an_end_that_is_none_commits_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let rows: Vec<_> = (0..100).map(|i| (i, format!("v{i}"))).collect();
    let single = || LoadOptions {
        single_transaction: true,
        batch_rows: Some(5),
        ..options(dir.path())
    };
    let mut broken = Numbers::new(rows.clone(), 10);
    broken.breaks_at = Some(7);
    let ended = load(&memory, broken, single()).await.unwrap();
    assert_eq!(ended.error.expect("broken").to_string(), "numbers breaks off");
    assert_eq!((ended.report.rows.written, memory.rows("t").len()), (0, 0));

    let target: Arc<dyn Target> = Arc::new(memory.clone());
    let source = Box::new(Numbers::new(rows, 10));
    let prepared = prepare(target, "memory:".into(), source, single()).await.unwrap();
    let stop = Stop::default();
    stop.request();
    let ended = prepared.run(Arc::default(), stop).await.unwrap();
    let error = ended.error.expect("stopped");
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(
        error.hint_text(),
        Some("nothing was written: the same command loads it from the beginning")
    );
    assert_eq!((ended.report.rows.written, memory.rows("t").len()), (0, 0));
}

#[tokio::test]
async fn a_table_is_emptied_with_its_rows_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    let rows: Vec<_> = (0..10).map(|i| (i, format!("v{i}"))).collect();
    load(&memory, Numbers::new(rows, 10), options(dir.path()))
        .await
        .unwrap();
    let empty = LoadOptions {
        single_transaction: true,
        truncate: true,
        attempt: Attempt::New,
        ..options(dir.path())
    };
    let twice = vec![(1, "a".to_owned()), (1, "b".to_owned())];
    let stops = LoadOptions {
        on_error: OnError::Stop,
        rejects: None,
        ..empty.clone()
    };
    let ended = load(&memory, Numbers::new(twice, 10), stops).await.unwrap();
    ended.error.expect("a key comes twice");
    assert_eq!(memory.rows("t").len(), 10);
    let ended = load(&memory, Numbers::new(Vec::new(), 10), empty).await.unwrap();
    assert!(ended.error.is_none());
    assert_eq!(memory.rows("t").len(), 0);
}
