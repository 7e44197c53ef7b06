//! Openings of one journal that end in a crash, again and again.

use super::*;

/// What a crash may leave behind what was fsynced.
fn tear(directory: &Path, dice: &mut Dice) {
    let mut segments: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "segment"))
        .collect();
    segments.sort();
    let last = segments.last().expect("a journal has a segment");
    let mut bytes = std::fs::read(last).unwrap();
    bytes.extend(b"TFRM".iter().take(dice.below(5) as usize));
    bytes.extend((0..dice.below(60)).map(|_| dice.below(256) as u8));
    std::fs::write(last, bytes).unwrap();
}

/// The process dies at any call to the database, or between calls; the next goes on. In the end every row that was
/// acknowledged as journaled stands once, and every row that is there was put.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_crashes_every_journaled_row_stands_once() {
    for seed in 0..8 {
        let mut dice = Dice(seed);
        let dir = tempfile::tempdir().unwrap();
        let memory = memory().await;
        let journal = dir.path().join("journal");
        let (mut id, mut acknowledged) = (0, BTreeSet::new());
        let mut sequence_before = 0;
        for life in 0..8 {
            if life > 0 && dice.below(2) == 0 {
                tear(&journal, &mut dice);
            }
            let area = AREA_BYTES_LEAST;
            // A small one soon uses its files again.
            let bytes_max = [JOURNAL_BYTES_LEAST, JOURNAL_BYTES_MAX][dice.below(2) as usize];
            let asked = options(&memory, dir.path())
                .journal_options(JournalOptions {
                    directory: journal.clone(),
                    bytes_max,
                    accept_loss: false,
                })
                .ack(Ack::Journaled)
                .memory(area)
                .drain(
                    1 + dice.below(3_000) as usize,
                    Duration::from_millis(1 + dice.below(5)),
                );
            let buffer = asked.open().await.unwrap();
            assert!(
                buffer.accepted() >= sequence_before,
                "numbers are never used twice"
            );
            if dice.below(4) > 0 {
                memory.fail_after(
                    dice.below(60),
                    [Fault::Dead, Fault::After][dice.below(2) as usize],
                );
            }
            let mut puts = tokio::task::JoinSet::new();
            for _ in 0..1 + dice.below(40) {
                let (buffer, first) = (buffer.clone(), id + 1);
                let count = if dice.below(5) == 0 { 1 + dice.below(30) } else { 1 };
                id += count;
                puts.spawn(async move {
                    let last = match count {
                        1 => buffer.put(row(first)).await,
                        _ => buffer.put_many(batch(first..first + count)).await,
                    };
                    (last.unwrap(), first..first + count)
                });
                if dice.below(3) == 0 {
                    tokio::time::sleep(Duration::from_millis(dice.below(4))).await;
                }
            }
            while let Some(put) = puts.join_next().await {
                let (last, ids) = put.unwrap();
                sequence_before = sequence_before.max(last);
                acknowledged.extend(ids);
            }
            let report = buffer.stop().await;
            assert!(report.rows.balances(), "seed {seed}: {:?}", report.rows);
            memory.revive();
        }
        let asked = options(&memory, dir.path()).journal(&journal);
        let report = asked.open().await.unwrap().close().await.unwrap();
        assert_eq!(report.rows.unfinished, 0, "seed {seed}: {report:?}");
        let found = ids(&memory);
        let expected: BTreeSet<u64> = acknowledged.iter().copied().filter(|id| id % 100 != 13).collect();
        assert_eq!(
            found.len(),
            expected.len(),
            "seed {seed}: a row is missing or stands twice"
        );
        assert_eq!(
            found.into_iter().collect::<BTreeSet<_>>(),
            expected,
            "seed {seed}"
        );
        assert_eq!(
            rejected(dir.path()).len(),
            acknowledged.len() - expected.len(),
            "seed {seed}"
        );
        // What is drained is not there for ever.
        let again = options(&memory, dir.path())
            .journal(&journal)
            .open()
            .await
            .unwrap();
        assert_eq!(again.recovery(), &Recovery::default());
        assert_eq!(again.committed(), again.accepted());
    }
}

/// A producer that sends again what it got no answer for, over crashes: nothing is doubled.
#[tokio::test]
async fn a_producer_is_remembered_over_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    memory.check("t", |_| None);
    let journal = || JournalOptions {
        directory: dir.path().join("journal"),
        bytes_max: JOURNAL_BYTES_LEAST,
        accept_loss: false,
    };
    let (mut first, mut lives) = (1, 0);
    while first <= 3_000 {
        lives += 1;
        let asked = options(&memory, dir.path())
            .journal_options(journal())
            .ack(Ack::Journaled);
        let buffer = asked.drain(usize::MAX, NEVER).open().await.unwrap();
        // Sent before, and again.
        let known = buffer
            .put_many_from("p", 1.max(first - 1), batch(1.max(first - 1)..first))
            .await;
        assert_eq!(known.unwrap(), first - 1, "life {lives}");
        buffer
            .put_many_from("p", first, batch(first..first + 500))
            .await
            .unwrap();
        first += 500;
        buffer.flush_all().await.unwrap();
        buffer.stop().await;
    }
    assert_eq!(ids(&memory).len(), 3_000);
}

/// The same one row at a time, several producers in turn: their rows are numbered each by its own.
#[tokio::test]
async fn rows_that_are_sent_again_one_by_one_are_taken_once() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let mut put = BTreeSet::new();
    for life in 0..6_u64 {
        let asked = options(&memory, dir.path()).journal(dir.path().join("journal"));
        let buffer = asked.ack(Ack::Journaled).open().await.unwrap();
        // The last five of the life before once more.
        for number in (life * 20).saturating_sub(4).max(1)..=(life + 1) * 20 {
            for producer in ["p", "q"] {
                let id = number * 10 + u64::from(producer == "q");
                let before = buffer.accepted();
                let sequence = buffer.put_from(producer, number, row(id)).await.unwrap();
                match put.insert(id) {
                    true => assert_eq!(sequence, before + 1),
                    false => assert_eq!(buffer.accepted(), before, "row {number} of {producer} is known"),
                }
            }
        }
        // Rows of one producer, one after another, share a frame.
        for number in 1..=20 {
            let id = 5_000 + life * 20 + number;
            let known = buffer.put_from_blocking("r", life * 20 + number, row(id));
            known.unwrap();
            put.insert(id);
        }
        assert!(
            buffer.put_from("p", (life + 1) * 20 + 2, row(1)).await.is_err(),
            "a row is missing between"
        );
        if life % 2 == 0 {
            buffer.flush_all().await.unwrap();
        }
        buffer.stop().await;
    }
    let asked = options(&memory, dir.path()).journal(dir.path().join("journal"));
    asked.open().await.unwrap().close().await.unwrap();
    let found = ids(&memory);
    let good: BTreeSet<u64> = put.into_iter().filter(|id| id % 100 != 13).collect();
    assert_eq!(found.len(), good.len(), "a row stands twice");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), good);
}
