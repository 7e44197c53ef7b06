//! Rows on their way out.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use arrow::{
    array::{ArrayRef, AsArray, Int64Array, RecordBatch},
    datatypes::Int64Type,
};
use tonnage_core::{
    ColumnType, ErrorKind,
    operation::Mode,
    reader::{ReadColumn, schema},
    stop::Stop,
    target::{Guard, WriteRequest},
};

use crate::{
    Files, Fixture, Row, assert_refused, connected, ledger::request, load, make, make_of, methods, operation,
    read, row, rows_of,
};

const ROWS: i64 = 5_000;

async fn filled(fixture: &dyn Fixture) -> Vec<Row> {
    let target = fixture.target();
    make(&target).await;
    let files = Files::new();
    let path = files.csv("input.csv", (0..ROWS).map(|id| (id, format!("v{id}"))));
    load(&target, &path, &files.rejects())
        .batch_rows(700)
        .run()
        .await
        .expect("rows");
    let mut all: Vec<Row> = (0..ROWS).map(|id| row(id, format!("v{id}"))).collect();
    all.sort();
    all
}

/// However many read, every row comes once.
pub async fn all_rows_come_once(fixture: &dyn Fixture) {
    let all = filled(fixture).await;
    let target = fixture.target();
    for jobs in [1, 2, 5] {
        match (target.parts().scan, read(&target, "t", jobs).await) {
            (Some(_), rows) => assert!(rows.expect("rows") == all, "{jobs} jobs"),
            (None, rows) => assert_refused(&rows.expect_err("it cannot be read")),
        }
    }
    for column in ["id", "v"] {
        let split = connected(&target).unload("t").jobs(3).split_by(column);
        match rows_of(split).await {
            Ok(rows) => assert!(rows == all, "split by {column}"),
            Err(error) => assert_refused(&error),
        }
    }
    match rows_of(connected(&target).unload("t").jobs(3).filter("id < 20 -- few")).await {
        Ok(rows) => assert_eq!(rows.len(), 20),
        Err(error) => assert_refused(&error),
    }
}

/// A table is read as often as it takes to find what differs from a file.
pub async fn a_table_is_compared_with_files(fixture: &dyn Fixture) {
    filled(fixture).await;
    let target = fixture.target();
    let files = Files::new();
    let same = files.csv("same.csv", (0..ROWS).map(|id| (id, format!("v{id}"))));
    let other = |id: i64| {
        if id % 100 == 7 {
            format!("w{id}")
        } else {
            format!("v{id}")
        }
    };
    let changed = files.csv("changed.csv", (10..=ROWS).map(|id| (id, other(id))));
    for jobs in [1, 3] {
        let verify = |path: &str| {
            connected(&target)
                .verify("t")
                .key(["id"])
                .files(path)
                .jobs(jobs)
                .run()
        };
        let (same, changed) = (verify(&same).await, verify(&changed).await);
        if target.parts().scan.is_none() {
            assert_refused(&same.expect_err("it cannot be read"));
            continue;
        }
        assert!(same.expect("a comparison").agrees, "{jobs} jobs");
        let found = changed.expect("a comparison").differing.expect("what differs");
        let counts = (found.missing, found.extra, found.changed, found.bad);
        assert_eq!(counts, (1, 10, 49, 0), "{jobs} jobs");
    }
}

/// What is not there and what contradicts itself is an error before a file is made, and so is what is no query; nothing of it
/// changes the table.
pub async fn what_cannot_be_read_is_refused_before_a_file_is_made(fixture: &dyn Fixture) {
    filled(fixture).await;
    let target = fixture.target();
    let database = connected(&target);
    let of = || database.unload("t");
    let query = |text: &str| database.unload_query(text);
    let cases = [
        (database.unload("nothing"), "there is no table nothing"),
        (of().columns(["nope"]), "has no column 'nope'"),
        (
            of().text(["v"]).columns(["id"]),
            "column 'v' comes as text, but it does not come at all",
        ),
        (of().split_by("id").limit(1), ""),
        (of().jobs(0), "--jobs must be at least 1"),
        (of().filter("nope = 1"), ""),
        (of().filter("id ="), ""),
        (of().split_by("nope"), ""),
        (query(" ; "), ""),
        (query("SELECT id FROM t; SELECT v FROM t"), ""),
        (query("SELECT id AS a, v AS a FROM t"), ""),
        (query("DELETE FROM t"), ""),
        (query("this is no query"), ""),
    ];
    let files = Files::new();
    for (number, (unload, message)) in cases.into_iter().enumerate() {
        let refused = unload.to(files.path("t.csv")).run().await;
        let refused = refused.expect_err(&format!("case {number}: {message}"));
        assert_refused(&refused);
        assert!(refused.to_string().contains(message), "case {number}: {refused}");
    }
    assert_eq!(std::fs::read_dir(files.path("")).expect("a directory").count(), 0);
    assert_eq!(fixture.count("t").await, ROWS as u64);
}

/// Rows of transactions that move amounts between two rows come with a sum of nothing, however many read.
pub async fn all_of_it_is_of_one_moment(fixture: &dyn Fixture) {
    const COUNT: i64 = 20_000;
    let target = fixture.target();
    let columns = [("id", ColumnType::Int64, false), ("n", ColumnType::Int64, false)];
    let (table, _) = make_of(&target, &columns).await;
    let files = Files::new();
    let lines = (0..COUNT).fold("id,n\n".to_owned(), |text, id| text + &format!("{id},0\n"));
    let path = files.text("input.csv", &lines);
    load(&target, &path, &files.rejects()).run().await.expect("rows");
    let methods = methods(&target, &table, Mode::Upsert);
    let (true, Some(method)) = (table.transactional, methods.first()) else {
        // Rows are then of no moment that could be told by them. All of them come.
        assert_eq!(read(&target, "t", 3).await.expect("rows").len() as i64, COUNT);
        return;
    };
    let request = WriteRequest {
        operation: operation(Mode::Upsert),
        method: *method,
        ..request(&target, &table)
    };
    let mut writer = fixture
        .again()
        .await
        .writer(&request, None)
        .await
        .expect("a writer");
    let moved = Arc::new(AtomicI64::new(0));
    let (stop, count) = (Stop::default(), moved.clone());
    let numbered = schema(&columns.map(|(name, ty, nullable)| ReadColumn {
        element: None,
        name: name.to_owned(),
        ty,
        declared: String::new(),
        nullable,
    }));
    let until = stop.clone();
    let writing = tokio::spawn(async move {
        let mut amounts = vec![0_i64; COUNT as usize];
        for round in 0.. {
            if until.requested() {
                break;
            }
            // The second is another one whenever the first is the same.
            let (from, to) = (round * 7_919 % COUNT, (round * 7_919 + 1 + round % 97) % COUNT);
            let of = |id: i64, by: i64| (id, amounts[id as usize] + by);
            let rows = [of(from, -1), of(to, 1)];
            let numbers = |at: fn(&(i64, i64)) -> i64| -> ArrayRef {
                Arc::new(Int64Array::from_iter_values(rows.iter().map(at)))
            };
            let columns = vec![numbers(|row| row.0), numbers(|row| row.1)];
            let batch = RecordBatch::try_new(numbered.clone(), columns).expect("a batch");
            let written = async {
                writer.begin(&[]).await?;
                writer.write(&batch, Guard::None).await?;
                writer.commit(&[]).await
            };
            // A database that readers keep from a commit is asked again.
            match written.await {
                Ok(()) => {
                    rows.iter()
                        .for_each(|(id, amount)| amounts[*id as usize] = *amount);
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Overloaded, "{error}");
                    let _ = writer.rollback().await;
                }
            }
            // Others get in between: not every lock is fair.
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    });
    while moved.load(Ordering::Relaxed) == 0 {
        assert!(!writing.is_finished(), "the writer ended");
        tokio::task::yield_now().await;
    }
    for split_by in [None, Some("id"), None] {
        let mut unload = connected(&target).unload("t").columns(["id", "n"]).jobs(3);
        if let Some(column) = split_by {
            unload = unload.split_by(column);
        }
        let mut batches = match unload.batches().await {
            Ok(batches) => batches,
            Err(error) if split_by.is_some() => {
                assert_refused(&error);
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let (mut ids, mut sum) = (HashSet::new(), 0);
        while let Some(batch) = batches.next().await.expect("rows") {
            let ids_of = batch.column(0).as_primitive::<Int64Type>().values();
            assert!(ids_of.iter().all(|id| ids.insert(*id)), "a row came twice");
            sum += batch
                .column(1)
                .as_primitive::<Int64Type>()
                .values()
                .iter()
                .sum::<i64>();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!((ids.len() as i64, sum), (COUNT, 0));
    }
    stop.request();
    writing.await.expect("no panic");
}

/// Columns in their order, no more rows than asked for; what is not there is refused, and so is SQL where there is none.
pub async fn what_is_asked_for_comes(fixture: &dyn Fixture) {
    filled(fixture).await;
    let target = fixture.target();
    let database = connected(&target);
    let mut batches = database
        .unload("t")
        .columns(["v"])
        .limit(7)
        .jobs(3)
        .batches()
        .await
        .expect("an unload");
    let mut rows = 0;
    while let Some(batch) = batches.next().await.expect("rows") {
        assert_eq!(batch.num_columns(), 1);
        rows += batch.num_rows();
    }
    assert_eq!(rows, 7);
    for unload in [
        database.unload("nothing"),
        database.unload("t").columns(["nothing"]),
    ] {
        assert_refused(&unload.batches().await.err().expect("it is not there"));
    }
    let nonsense = database.unload_query("this is no query").batches().await;
    assert_refused(&nonsense.err().expect("no database takes that"));
}
