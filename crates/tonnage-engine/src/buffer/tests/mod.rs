//! The buffer against the reference target: whatever fails, every row that was put stands once or is accounted for,
//! and the marks say which.

mod altered;
mod away;
mod copies;
mod crashes;
mod journals;
mod recycled;
mod together;

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tonnage_core::{
    table::{ColumnSpec, TableName, TableSpec},
    target::Target,
    types::ColumnType,
};
use tonnage_testing::memory::{Fault, Memory};

use super::{journal::Store, *};
use crate::connected::Connected;

/// Longer than any test: rows are drained only when they are asked for.
const NEVER: Duration = Duration::from_secs(100_000);

/// A small generator, so that a failure is repeated by its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

/// A table `t (id int64 primary key, v text)` which refuses values that end with 13.
async fn memory() -> Memory {
    let memory = Memory::new();
    let column = |name: &str, ty| ColumnSpec {
        name: name.to_owned(),
        ty,
        nullable: name != "id",
    };
    let spec = TableSpec {
        name: TableName::bare("t"),
        columns: vec![column("id", ColumnType::Int64), column("v", ColumnType::TEXT)],
        key: vec!["id".to_owned()],
    };
    memory.create(&spec).await.expect("the table is made");
    memory.check("t", |row| {
        let value = row[1].as_deref()?;
        value
            .ends_with("13")
            .then(|| ("23514", format!("{value} ends with 13")))
    });
    memory
}

fn options(memory: &Memory, dir: &Path) -> BufferOptions {
    Connected::new(Arc::new(memory.clone()), "memory:")
        .buffer("t")
        .rejects(dir.join("rejects.jsonl"), REJECTS_MAX)
}

fn row(id: u64) -> Row {
    Row::json(format!("{{\"id\": {id}, \"v\": \"v{id}\"}}"))
}

fn batch(ids: std::ops::Range<u64>) -> RecordBatch {
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id as i64)));
    let v: ArrayRef = Arc::new(StringArray::from_iter_values(ids.map(|id| format!("v{id}"))));
    RecordBatch::try_from_iter([("id", id), ("v", v)]).expect("columns of one length")
}

/// The ids in the table, in the order in which they were committed.
fn ids(memory: &Memory) -> Vec<u64> {
    let rows = memory.rows("t").into_iter();
    rows.map(|row| row[0].as_deref().expect("an id").parse().expect("a number"))
        .collect()
}

/// The sequence numbers in the rejects.
fn rejected(dir: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(dir.join("rejects.jsonl")).unwrap_or_default();
    let row = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["row"].as_u64();
    let mut rows: Vec<u64> = text.lines().map(|line| row(line).expect("a number")).collect();
    rows.sort();
    rows
}

#[tokio::test]
async fn a_row_is_there_exactly_when_the_mark_has_reached_it() {
    for seed in 0..20 {
        let mut dice = Dice(seed);
        let dir = tempfile::tempdir().unwrap();
        let memory = memory().await;
        let buffer = options(&memory, dir.path())
            .drain(usize::MAX, NEVER)
            .open()
            .await
            .unwrap();
        let mut producers = vec![buffer.clone(), buffer.clone(), buffer.clone()];
        let mut put = 0;
        for _ in 0..60 {
            let producer = dice.below(3) as usize;
            match dice.below(5) {
                0 => {
                    producers[producer].flush().await.unwrap();
                    assert!(buffer.committed() >= producers[producer].written());
                }
                1 if put > 0 => {
                    let sequence = 1 + dice.below(put);
                    // Nobody waits for a row that nobody asks to be drained.
                    if sequence <= buffer.committed() {
                        producers[producer].wait(sequence).await.unwrap();
                    }
                }
                2 => {
                    let count = 1 + dice.below(9);
                    let last = producers[producer]
                        .put_many(batch(put + 1..put + 1 + count))
                        .await;
                    put += count;
                    assert_eq!(last.unwrap(), put);
                    assert_eq!(producers[producer].written(), put);
                }
                _ => {
                    put += 1;
                    assert_eq!(producers[producer].put(row(put)).await.unwrap(), put);
                }
            }
            // Nothing is being drained now, so the mark says exactly what is there.
            let there: Vec<u64> = (1..=buffer.committed()).filter(|id| id % 100 != 13).collect();
            assert_eq!(ids(&memory), there, "seed {seed}");
            assert_eq!(buffer.accepted(), put);
        }
        producers.clear();
        buffer.flush_all().await.unwrap();
        assert_eq!(buffer.committed(), put);
        let report = buffer.close().await.unwrap();
        assert!(report.rows.balances() && report.rows.unfinished == 0);
        assert_eq!(
            (report.rows.put, report.rows.written),
            (put, ids(&memory).len() as u64)
        );
    }
}

/// Fails a test that would wait for ever.
async fn within<F: Future>(done: F) -> F::Output {
    let done = tokio::time::timeout(Duration::from_secs(60), done).await;
    done.expect("it does not come")
}

/// There is nothing to gather for where everything under way is waited for.
#[tokio::test]
async fn rows_that_are_waited_for_are_not_held_back() {
    for has_journal in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory().await;
        let unhurried = options(&memory, dir.path()).drain(usize::MAX, NEVER);
        let unhurried = match has_journal {
            true => unhurried.journal(dir.path().join("journal")),
            false => unhurried,
        };
        let buffer = unhurried.clone().ack(Ack::Committed).open().await.unwrap();
        for id in 1..=2 {
            let put = within(buffer.put(row(id))).await;
            assert_eq!(put.unwrap(), id);
        }
        let puts = (3..=9).map(|id| buffer.put(row(id)));
        let puts = within(futures::future::join_all(puts)).await;
        assert!(puts.iter().all(Result::is_ok));
        assert_eq!(ids(&memory).len(), 9);
        buffer.close().await.unwrap();

        let buffer = unhurried.open().await.unwrap();
        let first = buffer.put(row(10)).await.unwrap();
        within(buffer.wait(first)).await.unwrap();
        // Who tells producers of the mark waits for all of them.
        let following = {
            let buffer = buffer.clone();
            tokio::spawn(async move { buffer.committed_beyond(first).await })
        };
        let second = buffer.put(row(11)).await.unwrap();
        let mark = within(following).await.unwrap();
        assert_eq!(mark, Some(second));
        buffer.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_mark_is_never_ahead_of_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let buffer = options(&memory, dir.path())
        .drain(2_000, Duration::from_millis(1))
        .open()
        .await
        .unwrap();
    let watching = {
        let (buffer, memory) = (buffer.clone(), memory.clone());
        tokio::spawn(async move {
            loop {
                let mark = buffer.committed();
                let there: BTreeSet<u64> = ids(&memory).into_iter().collect();
                for sequence in 1..=mark {
                    assert!(
                        sequence % 100 == 13 || there.contains(&sequence),
                        "{sequence} of {mark}"
                    );
                }
                if mark == 1_500 {
                    return;
                }
                tokio::task::yield_now().await;
            }
        })
    };
    for id in 1..=1_500 {
        if id % 40 == 0 {
            memory.fail_after(id % 7, Fault::After);
        }
        assert_eq!(buffer.put(row(id)).await.unwrap(), id);
    }
    buffer.flush().await.unwrap();
    watching.await.expect("the mark was right all the time");
    assert_eq!(rejected(dir.path()).len(), 15);
}

/// Producers of every kind at once, a database that fails at random: every good row once, in order for each producer,
/// every bad one in the rejects and told of by its number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_every_row_stands_once() {
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let dir = tempfile::tempdir().unwrap();
        let memory = memory().await;
        let told: Arc<Mutex<Vec<u64>>> = Arc::default();
        let told_here = told.clone();
        let mut asked = options(&memory, dir.path())
            .drain(
                1 + dice.below(4_000) as usize,
                Duration::from_millis(1 + dice.below(20)),
            )
            .memory(AREA_BYTES_LEAST)
            .ack([Ack::Accepted, Ack::Committed][dice.below(2) as usize])
            .on_reject(move |reject| told_here.lock().unwrap().push(reject.row));
        if dice.below(2) == 0 {
            asked = asked.journal(dir.path().join("journal"));
        }
        memory.bear(Some(50 + dice.below(500) as usize), None);
        let buffer = asked.open().await.unwrap();
        let mut putting = Vec::new();
        for producer in 0..4u64 {
            let (buffer, mut dice) = (buffer.clone(), Dice(seed * 10 + producer));
            putting.push(tokio::spawn(async move {
                let mut bad = Vec::new();
                let mut id = producer * 100_000;
                for _ in 0..60 {
                    match dice.below(12) {
                        0 => bad.push(buffer.put(Row::json("{\"id\": 1")).await.unwrap()),
                        1 => bad.push(buffer.put(Row::json(r#"{"id": "x", "v": "v"}"#)).await.unwrap()),
                        2 => bad.push(buffer.put(Row::json(r#"{"id": 1, "w": 1}"#)).await.unwrap()),
                        3 => {
                            let count = dice.below(40);
                            let last = buffer.put_many(batch(id + 1..id + 1 + count)).await.unwrap();
                            let first = last + 1 - count;
                            bad.extend(
                                (0..count)
                                    .filter(|at| (id + 1 + at) % 100 == 13)
                                    .map(|at| first + at),
                            );
                            id += count;
                        }
                        4 => {
                            let task = buffer.clone();
                            id += 1;
                            let next = id;
                            let put = tokio::task::spawn_blocking(move || task.put_blocking(row(next)));
                            let sequence = put.await.unwrap().unwrap();
                            bad.extend((id % 100 == 13).then_some(sequence));
                        }
                        _ => {
                            id += 1;
                            let sequence = buffer.put(row(id)).await.unwrap();
                            bad.extend((id % 100 == 13).then_some(sequence));
                        }
                    }
                }
                buffer.flush().await.unwrap();
                (id - producer * 100_000, bad)
            }));
        }
        for _ in 0..6 {
            let fault = match dice.below(4) {
                0 => Fault::Before(ErrorKind::Unsent),
                1 => Fault::Before(ErrorKind::Refused),
                _ => Fault::After,
            };
            memory.fail_after(dice.below(40), fault);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (mut expected, mut bad) = (BTreeSet::new(), BTreeSet::new());
        for (producer, putting) in (0u64..).zip(putting) {
            let (count, of_producer) = putting.await.expect("a producer ends");
            let all = (1..=count).map(|at| producer * 100_000 + at);
            expected.extend(all.filter(|id| id % 100 != 13));
            bad.extend(of_producer);
        }
        let report = buffer.close().await.unwrap();
        let found = ids(&memory);
        for producer in 0..4 {
            let of_producer = found.iter().filter(|id| *id / 100_000 == producer);
            assert!(
                of_producer.is_sorted(),
                "seed {seed}: rows of a producer keep their order"
            );
        }
        assert_eq!(found.len(), expected.len(), "seed {seed}: {report:?}");
        assert_eq!(
            found.into_iter().collect::<BTreeSet<_>>(),
            expected,
            "seed {seed}"
        );
        assert!(
            rejected(dir.path()).into_iter().eq(bad.iter().copied()),
            "seed {seed}"
        );
        let mut told = told.lock().unwrap().clone();
        told.sort();
        assert!(told.iter().eq(&bad), "seed {seed}");
        assert!(report.rows.balances(), "seed {seed}: {:?}", report.rows);
        assert_eq!(report.rows.rejected, bad.len() as u64, "seed {seed}");
        assert_eq!(report.rows.unfinished, 0, "seed {seed}");
        assert!(report.metrics.depth_bytes_peak <= (AREA_BYTES_LEAST + 2 * drain::TAKE_BYTES) as u64);
    }
}

#[tokio::test]
async fn age_and_size_drain_by_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let by_age = options(&memory, dir.path()).drain(usize::MAX, Duration::from_millis(1));
    let buffer = by_age.open().await.unwrap();
    let sequence = buffer.put(row(1)).await.unwrap();
    buffer.wait(sequence).await.unwrap();
    buffer.close().await.unwrap();
    let by_size = options(&memory, dir.path()).drain(300, NEVER);
    let buffer = by_size.open().await.unwrap();
    buffer.put(row(2)).await.unwrap();
    assert_eq!(ids(&memory), [1]);
    for id in 3..20 {
        buffer.put(row(id)).await.unwrap();
    }
    buffer.wait(1).await.unwrap();
    assert!(ids(&memory).contains(&2));
}

#[tokio::test]
async fn metrics_tell_how_fast_rows_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let asked = options(&memory, dir.path()).drain(usize::MAX, NEVER);
    let buffer = asked.open().await.unwrap();
    for id in 1..=6 {
        buffer.put(row(id)).await.unwrap();
    }
    buffer.flush_all().await.unwrap();
    for id in 7..=10 {
        buffer.put(row(id)).await.unwrap();
    }
    let over = Duration::from_secs(5);
    let started = Instant::now()
        .checked_sub(over)
        .expect("the machine runs so long");
    *buffer.shared.speed.lock().unwrap() = metrics::Speed::from(started);
    let told = buffer.metrics();
    let (rows_in, rows_out) = (told.rows_in_per_second, told.rows_out_per_second);
    // Over five seconds, or more if the machine was busy: both over the same time.
    assert!(0.0 < rows_in && rows_in <= 10.0 / over.as_secs_f64(), "{rows_in}");
    assert!(
        (rows_in / rows_out - 10.0 / 6.0).abs() < 1e-9,
        "{rows_in} in, {rows_out} out"
    );
}

#[tokio::test]
async fn a_dead_database_holds_producers_within_the_bound_and_is_caught_up_with() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let asked = options(&memory, dir.path())
        .memory(AREA_BYTES_LEAST)
        .drain(20_000, Duration::from_millis(50));
    let fails = asked.clone().when_full(WhenFull::Fail).open().await.unwrap();
    memory.fail_after(0, Fault::Dead);
    let mut put = 0;
    let refused = loop {
        match fails.put(row(put + 1)).await {
            Ok(_) => put += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Overloaded);
    assert!(fails.metrics().depth_bytes <= AREA_BYTES_LEAST as u64);
    assert_eq!((fails.metrics().refused, fails.committed()), (1, 0));
    memory.revive();
    fails.flush().await.unwrap();
    assert_eq!(fails.put(row(put + 1)).await.unwrap(), put + 1);
    let report = fails.close().await.unwrap();
    assert_eq!(report.rows.written + report.rows.rejected, put + 1);

    memory.revive();
    let dir = tempfile::tempdir().unwrap();
    let other = super::tests::memory().await;
    let waits = options(&other, dir.path())
        .memory(AREA_BYTES_LEAST)
        .drain(20_000, Duration::from_millis(50))
        .open()
        .await
        .unwrap();
    other.fail_after(0, Fault::Dead);
    let held = {
        let waits = waits.clone();
        tokio::spawn(async move {
            for id in 1..=2_500 {
                waits.put(row(id)).await.unwrap();
            }
        })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!held.is_finished() && waits.metrics().depth_bytes <= AREA_BYTES_LEAST as u64);
    other.revive();
    held.await.expect("the producer goes on");
    let report = waits.close().await.unwrap();
    assert_eq!((report.rows.put, report.rows.rejected), (2_500, 25));
    assert_eq!(ids(&other).len(), 2_475);
}

#[tokio::test]
async fn a_producer_that_sends_again_doubles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let buffer = options(&memory, dir.path()).open().await.unwrap();
    let send = |first: u64, count: u64| buffer.put_many_from("gate 7", first, batch(first..first + count));
    assert_eq!(send(101, 5).await.unwrap(), 5);
    assert_eq!(buffer.put(row(1)).await.unwrap(), 6);
    assert_eq!(send(101, 5).await.unwrap(), 5, "where they are");
    assert_eq!(send(103, 6).await.unwrap(), 9, "the last three are new");
    assert_eq!(send(102, 2).await.unwrap(), 9);
    let gap = send(111, 1).await.unwrap_err();
    assert_eq!(
        gap.to_string(),
        "producer gate 7 sends row 111 where row 109 is due"
    );
    assert!(send(100, 3).await.is_err());
    let report = buffer.close().await.unwrap();
    assert_eq!(ids(&memory), [101, 102, 103, 104, 105, 1, 106, 107, 108]);
    assert_eq!(report.metrics.duplicates, 10);
}

#[tokio::test]
async fn an_upsert_keeps_the_order_of_each_key() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let asked = options(&memory, dir.path())
        .upsert(["id"])
        .drain(500, Duration::from_millis(1));
    let buffer = asked.open().await.unwrap();
    for round in 0..200 {
        let text = format!(r#"{{"id": {}, "v": "round {round}"}}"#, round % 7);
        buffer.put(Row::json(text)).await.unwrap();
    }
    let report = buffer.close().await.unwrap();
    // Of row 13 another of its key may have taken the place before the database saw it.
    assert!(
        report.rows.balances() && report.rows.rejected <= 2,
        "{:?}",
        report.rows
    );
    for row in memory.rows("t") {
        let id: u64 = row[0].as_deref().unwrap().parse().unwrap();
        let last = (0..200).filter(|round| round % 7 == id).max().unwrap();
        assert_eq!(row[1].as_deref(), Some(format!("round {last}").as_str()));
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let asked = || options(&memory, dir.path());
    let refused = |opened: Result<Buffer>| opened.err().expect("it is refused");
    let error = refused(asked().ack(Ack::Journaled).open().await);
    assert!(error.to_string().contains("without a journal"), "{error}");
    let error = refused(asked().memory(1).open().await);
    assert_eq!(error.kind(), ErrorKind::Config);
    let database = Connected::new(Arc::new(memory.clone()), "memory:");
    let error = refused(database.buffer("tt").open().await);
    assert_eq!(error.to_string(), "there is no table tt");

    let buffer = asked().open().await.unwrap();
    let strange: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let strange = RecordBatch::try_from_iter([("nope", strange)]).unwrap();
    assert_eq!(
        buffer.put_many(strange).await.unwrap_err().kind(),
        ErrorKind::Schema
    );
    assert!(buffer.wait(1).await.is_err(), "row 1 was never put");
    assert_eq!(buffer.put_many(batch(1..1)).await.unwrap(), 0);
    let large = Row::json("x".repeat(AREA_BYTES_MAX));
    assert_eq!(buffer.put(large).await.unwrap_err().kind(), ErrorKind::Config);
    let late = buffer.clone();
    buffer.close().await.unwrap();
    assert_eq!(late.put(row(1)).await.unwrap_err().kind(), ErrorKind::Cancelled);
}

/// Rows that cannot be read, rows that the table refuses, and both.
#[tokio::test]
async fn too_many_bad_rows_end_the_buffer_before_they_are_put_aside() {
    for bad in [
        ["no", "no", "no", "no"],
        [
            r#"{"id": 1, "v": "13"}"#,
            r#"{"id": 2, "v": "13"}"#,
            r#"{"id": 3, "v": "13"}"#,
            r#"{"id": 4, "v": "13"}"#,
        ],
        ["no", r#"{"id": 2, "v": "13"}"#, "no", r#"{"id": 4, "v": "13"}"#],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory().await;
        let asked = |max| {
            options(&memory, dir.path())
                .rejects(dir.path().join("rejects.jsonl"), max)
                .journal(dir.path().join("journal"))
                .drain(usize::MAX, NEVER)
        };
        let buffer = asked(3).open().await.unwrap();
        for (row, text) in (1..).zip(bad) {
            buffer.put(Row::json(text)).await.unwrap();
            buffer.put(self::row(100 + row)).await.unwrap();
        }
        let error = buffer.flush_all().await;
        assert_eq!(
            error.map_err(|e| e.to_string()),
            Err("more than 3 rows are bad".to_owned())
        );
        assert!(buffer.put(row(1)).await.is_err());
        assert!(buffer.committed() <= 6);
        let report = buffer.stop().await;
        assert!(report.rows.balances(), "{:?}", report.rows);
        assert!(rejected(dir.path()).len() <= 3);
        // With a larger allowance it goes on where it was.
        let report = asked(4).open().await.unwrap().close().await.unwrap();
        assert_eq!(report.rows.unfinished, 0);
        assert_eq!(rejected(dir.path()), [1, 3, 5, 7]);
        assert_eq!(ids(&memory), [101, 102, 103, 104]);
    }
}

#[tokio::test]
async fn a_rejects_file_that_cannot_be_used_leaves_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    std::fs::write(dir.path().join("rejects.jsonl"), "mine").unwrap();
    let asked = || options(&memory, dir.path()).journal(dir.path().join("journal"));
    assert!(asked().open().await.is_err());
    let buffer = asked()
        .rejects(dir.path().join("other.jsonl"), 1)
        .open()
        .await
        .unwrap();
    buffer.put(row(1)).await.unwrap();
    buffer.close().await.unwrap();
    assert_eq!(ids(&memory), [1]);
}

#[tokio::test]
async fn a_callback_that_panics_ends_the_buffer_and_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let buffer = options(&memory, dir.path())
        .on_reject(|_| panic!("a callback panics"))
        .open()
        .await
        .unwrap();
    buffer.put(Row::json("no")).await.unwrap();
    assert_eq!(buffer.flush().await.unwrap_err().kind(), ErrorKind::Bug);
}
