//! What becomes of rows by each operation and method, and the account of it.
//!
//! Rows 1 to 6 are there, rows 4 to 9 come.

use std::sync::Arc;

use tonnage_core::{
    operation::{Method, Mode, Support},
    target::Target,
};

use crate::{
    Files, Fixture, Keyed, Row, assert_refused, described, drop_t, load, make, methods, operation, row, rows,
};

const METHODS: [Method; 4] = [Method::Native, Method::Array, Method::Batch, Method::Single];

fn old(ids: std::ops::RangeInclusive<i64>) -> impl Iterator<Item = (i64, String)> {
    ids.map(|id| (id, format!("old{id}")))
}

fn new(ids: std::ops::RangeInclusive<i64>) -> impl Iterator<Item = (i64, String)> {
    ids.map(|id| (id, format!("new{id}")))
}

/// What is there afterwards, and rows written, left out and rejected; none of what the database does not count.
struct Expected {
    rows: Vec<Row>,
    written: u64,
    left_out: u64,
    rejected: u64,
}

fn expected(target: &Arc<dyn Target>, mode: Mode, keyed: Keyed) -> Expected {
    let of = |parts: Vec<(i64, String)>| {
        let mut rows: Vec<Row> = parts.into_iter().map(|(id, v)| row(id, v)).collect();
        rows.sort();
        rows
    };
    let replaces = target.capabilities().insert_replaces;
    let (there, written, left_out, rejected) = match (mode, keyed) {
        (Mode::Insert, Keyed::No) => (old(1..=6).chain(new(4..=9)).collect(), 6, 0, 0),
        (Mode::Insert, Keyed::Yes) if !replaces => (old(1..=6).chain(new(7..=9)).collect(), 3, 0, 3),
        (Mode::Insert | Mode::Upsert, _) => (old(1..=3).chain(new(4..=9)).collect(), 6, 0, 0),
        (Mode::Ignore, _) => (old(1..=6).chain(new(7..=9)).collect(), 3, 3, 0),
        (Mode::Update, _) => (old(1..=3).chain(new(4..=6)).collect(), 3, 3, 0),
        (Mode::Delete, _) => (old(1..=3).collect(), 3, 3, 0),
    };
    Expected {
        rows: of(there),
        written,
        left_out,
        rejected,
    }
}

/// Each method does what the operation says, or is refused and changes nothing.
async fn check(fixture: &dyn Fixture, mode: Mode) {
    let target = fixture.target();
    let (_, keyed) = make(&target).await;
    for method in METHODS {
        let context = format!("{mode:?} by {method}");
        let files = Files::new();
        let table = described(&target).await;
        let before = files.csv("before.csv", old(1..=6));
        load(&target, &before, &files.path("none.jsonl"))
            .run()
            .await
            .expect("rows to begin with");
        let came = files.csv("input.csv", new(4..=9));
        let load = load(&target, &came, &files.rejects())
            .method(method)
            .options(|options| {
                options.mode = mode;
                if mode != Mode::Insert {
                    options.key = vec!["id".to_owned()];
                }
            });
        let can = target.capabilities().methods.contains(&method)
            && target.support(&table, &operation(mode), method) == Support::Yes
            && (mode == Mode::Insert || keyed == Keyed::Yes);
        match (can, load.run().await) {
            (true, Ok(report)) => {
                let expected = expected(&target, mode, keyed);
                let account = report.rows;
                assert!(account.balances(), "{context}: {account:?}");
                assert_eq!(
                    (account.read, account.rejected),
                    (6, expected.rejected),
                    "{context}"
                );
                // A database that does not say whether a key was there has all rows as written.
                let left_out = account.skipped.conflict + account.skipped.unmatched;
                let uncounted = left_out == 0 && target.capabilities().insert_replaces;
                if !uncounted {
                    assert_eq!(
                        (account.written, left_out),
                        (expected.written, expected.left_out),
                        "{context}"
                    );
                }
                assert_eq!(rows(fixture).await, expected.rows, "{context}");
            }
            (false, Err(error)) => {
                assert_refused(&error);
                let mut unchanged: Vec<Row> = old(1..=6).map(|(id, v)| row(id, v)).collect();
                unchanged.sort();
                assert_eq!(rows(fixture).await, unchanged, "{context}");
            }
            (can, ended) => panic!("{context}: can: {can}, and {:?}", ended.map(|report| report.rows)),
        }
        drop_t(&target).await;
        make(&target).await;
    }
}

/// By every method that the target has, with the account of its rows.
pub async fn inserts(fixture: &dyn Fixture) {
    check(fixture, Mode::Insert).await;
}

/// By every method that the target has, with the account of its rows.
pub async fn upserts(fixture: &dyn Fixture) {
    check(fixture, Mode::Upsert).await;
}

/// By every method that the target has, with the account of its rows.
pub async fn ignores(fixture: &dyn Fixture) {
    check(fixture, Mode::Ignore).await;
}

/// By every method that the target has, with the account of its rows.
pub async fn updates(fixture: &dyn Fixture) {
    check(fixture, Mode::Update).await;
}

/// By every method that the target has, with the account of its rows.
pub async fn deletes(fixture: &dyn Fixture) {
    check(fixture, Mode::Delete).await;
}

/// An upsert that gives nothing but keys adds the rows whose key is not there, by every method.
pub async fn an_upsert_of_keys_alone_leaves_rows_as_they_are(fixture: &dyn Fixture) {
    let target = fixture.target();
    let (table, keyed) = make(&target).await;
    let methods = methods(&target, &table, Mode::Upsert);
    assert!(methods.is_empty() || keyed == Keyed::Yes);
    for method in methods {
        let files = Files::new();
        let before = files.csv("before.csv", old(1..=2));
        load(&target, &before, &files.path("none.jsonl"))
            .run()
            .await
            .expect("rows to begin with");
        let came = files.text("input.csv", "id\n2\n3\n3\n");
        let upsert = load(&target, &came, &files.rejects())
            .upsert(["id"])
            .method(method);
        let report = upsert.run().await.expect("an upsert");
        assert!(report.rows.balances(), "{method}");
        let mut expected: Vec<Row> = old(1..=2).map(|(id, v)| row(id, v)).collect();
        expected.push(vec![Some("3".to_owned()), None]);
        assert_eq!(rows(fixture).await, expected, "{method}");
        drop_t(&target).await;
        make(&target).await;
    }
}

/// A table that is made with a key has that key; and one with rows is dropped only when its rows may go with it.
pub async fn a_key_is_refused_or_kept(fixture: &dyn Fixture) {
    let target = fixture.target();
    let (table, keyed) = make(&target).await;
    let key = table.primary_key().map(|key| key.columns.clone());
    let wanted = keyed
        .columns()
        .iter()
        .map(|column| (*column).to_owned())
        .collect::<Vec<_>>();
    assert_eq!(key.unwrap_or_default(), wanted);
    assert!(
        target
            .table_names()
            .await
            .expect("names")
            .iter()
            .any(|name| name.ends_with('t'))
    );
    let files = Files::new();
    let before = files.csv("before.csv", old(1..=2));
    load(&target, &before, &files.rejects())
        .run()
        .await
        .expect("rows to begin with");
    let drop = |rows| target.drop_table(&table, rows);
    assert!(!drop(tonnage_core::target::Rows::Keep).await.expect("an answer"));
    assert_eq!(rows(fixture).await.len(), 2);
    assert!(drop(tonnage_core::target::Rows::Drop).await.expect("an answer"));
    make(&target).await;
    assert!(
        !drop(tonnage_core::target::Rows::Drop).await.expect("an answer"),
        "another table of its name"
    );
    assert_ne!(described(&target).await.identity, table.identity);
}
