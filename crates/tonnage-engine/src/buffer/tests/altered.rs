//! A table that is altered while rows are put for it: each row goes to what the table is when it is written, or is put
//! aside with the reason.

use tonnage_core::table::{Column, Table};

use super::*;

type Rows = Vec<Vec<Option<String>>>;

fn add(table: &mut Table, rows: &mut Rows, name: &str) {
    let like = table.columns[1].clone();
    table.columns.push(Column {
        name: name.to_owned(),
        ..like
    });
    rows.iter_mut().for_each(|row| row.push(None));
}

fn remove(table: &mut Table, rows: &mut Rows, name: &str) {
    let at = table.columns.iter().position(|column| column.name == name);
    let at = at.expect("a column");
    table.columns.remove(at);
    rows.iter_mut().for_each(|row| drop(row.remove(at)));
}

fn rename(table: &mut Table, from: &str, to: &str) {
    let column = table.columns.iter_mut().find(|column| column.name == from);
    column.expect("a column").name = to.to_owned();
}

/// Gives `v` another type; values stay as they are.
fn retype(table: &mut Table, ty: ColumnType) {
    table.columns[1].ty = Some(ty);
    table.columns[1].declared = format!("{ty:?}");
}

fn json(text: &str) -> Row {
    Row::json(text)
}

/// The rows of the table as text.
fn table(memory: &Memory) -> Vec<String> {
    let value = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let row = |row: Vec<Option<String>>| row.into_iter().map(value).collect::<Vec<_>>().join("|");
    memory.rows("t").into_iter().map(row).collect()
}

/// Row, column and code of each reject, in the order of the file.
fn rejects(dir: &Path) -> Vec<(u64, String, String)> {
    let text = std::fs::read_to_string(dir.join("rejects.jsonl")).unwrap_or_default();
    let record = |line: &str| {
        let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let row = record["row"].as_u64().expect("a number");
        (row, text(&record["message"]), record["data"].to_string())
    };
    text.lines().map(record).collect()
}

/// A table that refuses no values.
async fn memory() -> Memory {
    let memory = super::memory().await;
    memory.check("t", |_| None);
    memory
}

fn unhurried(memory: &Memory, dir: &Path) -> BufferOptions {
    options(memory, dir).drain(usize::MAX, NEVER)
}

#[tokio::test]
async fn a_column_that_was_added_counts_from_then_on() {
    for batches in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory().await;
        let buffer = unhurried(&memory, dir.path()).open().await.unwrap();
        buffer.put(row(1)).await.unwrap();
        buffer.flush_all().await.unwrap();
        // Before the next transaction: rows are formed by then.
        memory.alter_after(0, "t", |table, rows| add(table, rows, "w"));
        let last = match batches {
            false => {
                buffer.put(row(2)).await.unwrap();
                buffer
                    .put(json(r#"{"id": 3, "v": "v3", "w": "w3"}"#))
                    .await
                    .unwrap()
            }
            true => buffer.put_many(batch(2..4)).await.unwrap(),
        };
        buffer.flush_all().await.unwrap();
        assert_eq!(buffer.committed(), last);
        let third = if batches { "3|v3|-" } else { "3|v3|w3" };
        assert_eq!(table(&memory), ["1|v1|-", "2|v2|-", third]);
        let w: ArrayRef = Arc::new(StringArray::from_iter_values(["w4", "w5"]));
        let wide = batch(4..6);
        let id = wide.column(0).clone();
        let wide = RecordBatch::try_from_iter([("id", id), ("w", w)]).unwrap();
        buffer.put_many(wide).await.unwrap();
        let report = buffer.close().await.unwrap();
        assert!(report.rows.balances());
        assert_eq!((report.rows.written, report.rows.rejected), (5, 0));
        assert_eq!(table(&memory)[3..], ["4|-|w4", "5|-|w5"]);
    }
}

#[tokio::test]
async fn rows_that_name_a_column_that_is_gone_are_put_aside() {
    for renames in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory().await;
        let buffer = unhurried(&memory, dir.path()).open().await.unwrap();
        buffer.put(row(1)).await.unwrap();
        buffer.flush_all().await.unwrap();
        memory.alter_after(0, "t", move |table, rows| match renames {
            true => rename(table, "v", "value"),
            false => remove(table, rows, "v"),
        });
        for text in [
            r#"{"id": 2, "v": "v2"}"#,
            r#"{"id": 3}"#,
            r#"{"id": 4, "v": "v4"}"#,
            r#"{"id": 5}"#,
        ] {
            buffer.put(json(text)).await.unwrap();
        }
        buffer.put_many(batch(6..8)).await.unwrap();
        buffer.flush_all().await.unwrap();
        assert_eq!(ids(&memory), [1, 3, 5]);
        let found = rejects(dir.path());
        let rows: Vec<u64> = found.iter().map(|(row, ..)| *row).collect();
        assert_eq!(rows, [2, 4, 6, 7], "{found:?}");
        for (row, message, data) in &found {
            assert!(message.contains("'v'"), "{message}");
            assert!(data.contains(&format!("v{row}")), "the row is in it: {data}");
        }
        let report = buffer.close().await.unwrap();
        assert!(report.rows.balances());
        assert_eq!((report.rows.written, report.rows.rejected), (3, 4));
    }
}

#[tokio::test]
async fn values_that_no_longer_convert_are_put_aside() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let buffer = unhurried(&memory, dir.path()).open().await.unwrap();
    memory.alter_after(0, "t", |table, _| retype(table, ColumnType::Int64));
    for text in [
        r#"{"id": 1, "v": "one"}"#,
        r#"{"id": 2, "v": 2}"#,
        r#"{"id": 3, "v": "3.5"}"#,
        r#"{"id": 4, "v": null}"#,
    ] {
        buffer.put(json(text)).await.unwrap();
    }
    let report = buffer.close().await.unwrap();
    assert_eq!(table(&memory), ["2|2", "4|-"]);
    assert_eq!(rejected(dir.path()), [1, 3]);
    assert!(report.rows.balances());
}

/// Bad rows are counted once against what is allowed, however often they are read.
#[tokio::test]
async fn rejects_are_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let memory = memory().await;
    let buffer = unhurried(&memory, dir.path())
        .rejects(dir.path().join("rejects.jsonl"), 2)
        .open()
        .await
        .unwrap();
    for begins in [0, 0, 0] {
        memory.alter_after(begins, "t", |_, _| {});
    }
    for text in [r#"{"id": "a"}"#, r#"{"id": 2}"#, r#"{"id": "c"}"#, r#"{"id": 4}"#] {
        buffer.put(json(text)).await.unwrap();
    }
    let report = buffer.close().await.unwrap();
    assert_eq!((report.rows.written, report.rows.rejected), (2, 2));
    assert_eq!(rejected(dir.path()), [1, 3]);
}

#[tokio::test]
async fn another_table_in_its_place_gets_nothing() {
    for drops in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let memory = memory().await;
        let journaled = || {
            unhurried(&memory, dir.path())
                .journal(dir.path().join("journal"))
                .ack(Ack::Journaled)
        };
        let buffer = journaled().open().await.unwrap();
        buffer.put(row(1)).await.unwrap();
        buffer.flush_all().await.unwrap();
        let kept = Arc::new(Mutex::new(None));
        {
            let kept = kept.clone();
            memory
                .alter("t", move |table, _| {
                    *kept.lock().unwrap() = Some(table.identity.clone());
                    table.identity.object = "another".to_owned();
                })
                .await;
        }
        if drops {
            memory.drop_table("t");
        }
        buffer.put(row(2)).await.unwrap();
        let error = buffer.flush_all().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
        assert!(error.to_string().contains("was dropped"), "{error}");
        let report = buffer.stop().await;
        assert!(report.rows.balances() && report.rows.unfinished == 1);
        if drops {
            continue;
        }
        assert_eq!(ids(&memory), [1]);
        let before = kept.lock().unwrap().clone().expect("it was altered");
        memory.alter("t", |table, _| table.identity = before).await;
        journaled().open().await.unwrap().close().await.unwrap();
        assert_eq!(ids(&memory), [1, 2], "it is back");
    }
}

/// Whatever is altered when, and whatever fails, with and without a journal: every row stands once or is in the rejects, in
/// its order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_altered_every_row_is_accounted_for() {
    for seed in 0..24 {
        let mut dice = Dice(seed);
        let dir = tempfile::tempdir().unwrap();
        let memory = memory().await;
        let has_journal = seed % 2 == 0;
        let asked = || {
            let asked = options(&memory, dir.path()).drain(300, Duration::from_millis(1));
            match has_journal {
                true => asked.journal(dir.path().join("journal")).ack(Ack::Journaled),
                false => asked,
            }
        };
        let mut put = 0;
        let lives = if has_journal { 4 } else { 1 };
        for life in 0..lives {
            let buffer = asked().open().await.unwrap();
            for _ in 0..80 {
                put += 1;
                let more = match dice.below(4) {
                    0 => format!(r#", "w": "w{put}""#),
                    1 => format!(r#", "v": "v{put}""#),
                    2 => format!(r#", "v": {put}"#),
                    _ => String::new(),
                };
                buffer
                    .put(json(&format!("{{\"id\": {put}{more}}}")))
                    .await
                    .unwrap();
                if dice.below(12) == 0 {
                    let kind = dice.below(3);
                    memory.alter_after(dice.below(4), "t", move |table, rows| {
                        let has_w = table.columns.iter().any(|column| column.name == "w");
                        match (kind, has_w) {
                            (0, true) => remove(table, rows, "w"),
                            (0, false) => add(table, rows, "w"),
                            (1, _) => retype(table, ColumnType::Int64),
                            _ => retype(table, ColumnType::TEXT),
                        }
                    });
                }
                if dice.below(25) == 0 {
                    memory.fail_after(dice.below(5), Fault::After);
                }
            }
            let report = match life + 1 < lives {
                true => buffer.stop().await,
                false => {
                    buffer.flush_all().await.unwrap();
                    buffer.close().await.unwrap()
                }
            };
            assert!(report.rows.balances(), "seed {seed}: {:?}", report.rows);
            memory.revive();
        }
        let there = ids(&memory);
        assert!(there.is_sorted(), "seed {seed}: rows are in their order");
        let aside: Vec<u64> = rejects(dir.path()).into_iter().map(|(row, ..)| row).collect();
        assert!(aside.is_sorted(), "seed {seed}: {aside:?}");
        let mut all = there;
        all.extend(aside);
        all.sort_unstable();
        assert_eq!(all, (1..=put).collect::<Vec<_>>(), "seed {seed}");
    }
}
