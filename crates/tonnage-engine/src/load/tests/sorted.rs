//! A source that is sorted as a whole before it is written.

use super::*;

/// A whole source sorted through many spilled runs, merged in several rounds: in key order, the last row of a key
/// last, bad rows put aside, and resumable in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_is_sorted_as_a_whole() {
    let mut dice = Dice(7);
    // 4,001 is prime, so the ids of the first 4,000 rows are all different and in no order.
    let row = |at: i64, unreadable: bool| match unreadable {
        true => (-1, String::new()),
        false => (at * 1_237 % 4_001, format!("v{at}")),
    };
    let once: Vec<(i64, String)> = (0..4_000).map(|at| row(at, dice.below(500) == 0)).collect();
    let repeated: Vec<(i64, String)> = (0..6_000).map(|at| row(at, dice.below(500) == 0)).collect();
    for (mode, rows) in [(Mode::Insert, once), (Mode::Upsert, repeated)] {
        for sort_bytes_max in [1, 10_000, 1 << 30] {
            sorted_as_a_whole(mode, &rows, sort_bytes_max).await;
        }
    }
}

async fn sorted_as_a_whole(mode: Mode, rows: &[(i64, String)], sort_bytes_max: usize) {
    let bad: Vec<u64> = (1..)
        .zip(rows)
        .filter(|(_, r)| r.0 < 0)
        .map(|(at, _)| at)
        .collect();
    let expected: BTreeMap<i64, String> = rows.iter().filter(|r| r.0 >= 0).cloned().collect();
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new();
    load(&memory, Numbers::new(Vec::new(), 1), options(dir.path()))
        .await
        .unwrap();
    let mut died = false;
    loop {
        let sorted = LoadOptions {
            mode,
            sort: Some(crate::plan::Sort::Full),
            jobs: Some(1),
            batch_rows: Some(500),
            ..options(dir.path())
        };
        let target: Arc<dyn Target> = Arc::new(memory.clone());
        let source = Box::new(Numbers::new(rows.to_vec(), 30));
        let mut prepared = prepare(target, "memory:".into(), source, sorted).await.unwrap();
        prepared.plan.sort_bytes_max = sort_bytes_max;
        prepared.plan.block_rows = 300;
        if !died {
            memory.fail_after(25, Fault::Dead);
            died = true;
        }
        let ended = prepared.run(Arc::default(), Stop::default()).await.unwrap();
        assert!(ended.report.rows.balances());
        if ended.error.is_none() {
            assert_eq!(ended.report.rows.read, rows.len() as u64);
            assert!(ended.report.rows.skipped.resumed > 0);
            break;
        }
        memory.revive();
    }
    let found: Vec<(i64, String)> = memory
        .rows("t")
        .into_iter()
        .map(|r| (r[0].clone().unwrap().parse().unwrap(), r[1].clone().unwrap()))
        .collect();
    assert!(mode == Mode::Upsert || found.is_sorted(), "{sort_bytes_max}");
    assert_eq!(found.into_iter().collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(rejected_rows(dir.path()), bad);
}
