//! What becomes of rows by each operation, method by method: the same table, and the same counts.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use tonnage::{
    operation::{Method, Operation, Support},
    types::ColumnType,
};

use super::{METHODS, Place, batch, key, write};

fn upsert(columns: &[&str]) -> Operation {
    Operation::Upsert { key: key(columns) }
}

fn rows(ids: &[i64], texts: &[&str]) -> RecordBatch {
    batch(&[
        (ColumnType::Int64, Arc::new(Int64Array::from(ids.to_vec()))),
        (
            ColumnType::Text { chars_max: Some(20) },
            Arc::new(StringArray::from(texts.to_vec())),
        ),
    ])
}

/// The methods by which `operation` goes.
fn methods(place: &Place, table: &tonnage::table::Table, operation: &Operation) -> Vec<Method> {
    let supported = |method: &Method| place.target.support(table, operation, *method) == Support::Yes;
    METHODS.into_iter().filter(supported).collect()
}

/// Applies batches one after another to a table that holds (1, 'one') and (2, 'two'); the table, and rows left out.
async fn applied(operation: Operation, batches: &[RecordBatch]) -> Vec<(Method, Vec<Option<String>>, u64)> {
    let place = Place::new().await;
    let mut found = Vec::new();
    let reset = "DROP TABLE IF EXISTS t;\nCREATE TABLE t (id bigint PRIMARY KEY, v varchar(20));\n\
                 INSERT INTO t VALUES (1, 'one'), (2, 'two')";
    place.run(reset).await;
    let methods = methods(&place, &place.table("t").await, &operation);
    for method in methods {
        place.run(reset).await;
        let plan = place.plan("t", &["id", "v"], operation.clone(), method).await;
        let mut writer = place.writer(&plan).await;
        let mut skipped = 0;
        for rows in batches {
            skipped += write(&mut *writer, rows).await.skipped;
        }
        let shown = place
            .texts("SELECT concat(id, ' ', coalesce(v, '-')) FROM t ORDER BY id")
            .await;
        found.push((method, shown, skipped));
    }
    found
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}

#[tokio::test]
async fn an_upsert_replaces_and_adds_and_the_last_row_of_a_key_wins() {
    let batches = [
        rows(&[2, 3, 2, 3], &["zwei", "drei", "deux", "trois"]),
        // A row that changes nothing is written all the same.
        rows(&[1, 3, 4], &["one", "tres", "four"]),
    ];
    let found = applied(upsert(&["id"]), &batches).await;
    assert_eq!(found.len(), 3, "array, batch and single");
    for (method, shown, skipped) in found {
        assert_eq!(shown, some(&["1 one", "2 deux", "3 tres", "4 four"]), "{method}");
        assert_eq!(skipped, 0, "{method}");
    }
}

#[tokio::test]
async fn an_ignore_leaves_out_what_is_there_and_the_first_row_of_a_key_counts() {
    let batches = [rows(&[2, 3, 3, 4, 1], &["x", "three", "x", "four", "x"])];
    for (method, shown, skipped) in applied(Operation::Ignore { key: key(&["id"]) }, &batches).await {
        assert_eq!(shown, some(&["1 one", "2 two", "3 three", "4 four"]), "{method}");
        assert_eq!(skipped, 3, "{method}");
    }
}

#[tokio::test]
async fn an_update_counts_rows_it_does_not_find_and_no_others() {
    // The first changes nothing, and is found.
    let batches = [rows(&[1, 2, 9, 2], &["one", "x", "x", "deux"])];
    let found = applied(Operation::Update { key: key(&["id"]) }, &batches).await;
    assert_eq!(found.len(), 3);
    for (method, shown, skipped) in found {
        assert_eq!(shown, some(&["1 one", "2 deux"]), "{method}");
        assert_eq!(skipped, 1, "{method}");
    }
}

#[tokio::test]
async fn a_delete_counts_rows_it_does_not_find() {
    let place = Place::new().await;
    let operation = Operation::Delete { key: key(&["id"]) };
    for method in [Method::Array, Method::Batch, Method::Single] {
        place
            .run("DROP TABLE IF EXISTS t;\nCREATE TABLE t (id bigint PRIMARY KEY);\nINSERT INTO t VALUES (1), (2), (3)")
            .await;
        let plan = place.plan("t", &["id"], operation.clone(), method).await;
        let mut writer = place.writer(&plan).await;
        let ids: ArrayRef = Arc::new(Int64Array::from(vec![3, 9, 1]));
        let outcome = write(&mut *writer, &batch(&[(ColumnType::Int64, ids)])).await;
        assert_eq!(outcome.skipped, 1, "{method}");
        assert_eq!(place.texts("SELECT id FROM t").await, some(&["2"]), "{method}");
    }
}

#[tokio::test]
async fn a_decimal_key_is_compared_digit_by_digit() {
    let place = Place::new().await;
    let ty = ColumnType::Decimal {
        precision: 30,
        scale: 2,
    };
    // As doubles these two are the same.
    let near = [100_000_000_000_000_000_001_i128, 100_000_000_000_000_000_002];
    for method in [Method::Array, Method::Batch] {
        place
            .run(
                "DROP TABLE IF EXISTS t;\nCREATE TABLE t (id decimal(30,2) PRIMARY KEY, v varchar(20));\n\
                 INSERT INTO t VALUES (1000000000000000000.01, 'a'), (1000000000000000000.02, 'b')",
            )
            .await;
        let operation = Operation::Update { key: key(&["id"]) };
        let plan = place.plan("t", &["id", "v"], operation, method).await;
        let mut writer = place.writer(&plan).await;
        let ids = Decimal128Array::from(vec![near[1]])
            .with_precision_and_scale(30, 2)
            .unwrap();
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["B"]));
        let rows = batch(&[
            (ty, Arc::new(ids)),
            (ColumnType::Text { chars_max: Some(20) }, texts),
        ]);
        assert_eq!(write(&mut *writer, &rows).await.skipped, 0);
        assert_eq!(
            place.texts("SELECT v FROM t ORDER BY id").await,
            some(&["a", "B"]),
            "{method}"
        );
    }
}

#[tokio::test]
async fn keys_that_only_the_server_can_compare_are_taken_as_it_compares_them() {
    let place = Place::new().await;
    for method in [Method::Array, Method::Batch] {
        place
            .run("DROP TABLE IF EXISTS t;\nCREATE TABLE t (k varchar(9) PRIMARY KEY, v int)")
            .await;
        let plan = place.plan("t", &["k", "v"], upsert(&["k"]), method).await;
        assert_eq!(
            plan.table.columns[0].equality,
            tonnage::table::Equality::ServerOnly
        );
        let mut writer = place.writer(&plan).await;
        let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "A", "b", "b "]));
        let values: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![1, 2, 3, 4]));
        let rows = batch(&[(plan.columns[0].ty, keys), (plan.columns[1].ty, values)]);
        write(&mut *writer, &rows).await;
        assert_eq!(
            place.texts("SELECT concat(k, '|', v) FROM t ORDER BY k").await,
            some(&["a|2", "b|4"]),
            "{method}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_told_is_refused_with_the_way_out() {
    let place = Place::new().await;
    place
        .run(
            "CREATE TABLE t (id int PRIMARY KEY, email varchar(40), UNIQUE (email));\n\
             CREATE TABLE part (id int PRIMARY KEY, note text, UNIQUE (note(9)));\n\
             CREATE TABLE plain (id int, v int);\n\
             CREATE TABLE aria (id int PRIMARY KEY, v int) ENGINE=Aria",
        )
        .await;
    let refusal = |table: &tonnage::table::Table, operation: Operation, method| match place
        .target
        .support(table, &operation, method)
    {
        Support::Yes => "yes".to_owned(),
        Support::No { why, instead } => format!("{why}; {instead}"),
    };
    let d = &place.database;
    let t = place.table("t").await;
    assert_eq!(
        refusal(&t, upsert(&["id"]), Method::Array),
        format!(
            "the further unique key (email) of {d}.t could take a row for another one; --mode update for rows that \
             are there, --mode insert for new ones"
        )
    );
    assert!(refusal(&t, Operation::Ignore { key: key(&["id"]) }, Method::Batch).contains("(email)"));
    assert_eq!(
        refusal(&t, Operation::Update { key: key(&["email"]) }, Method::Array),
        "yes"
    );
    assert_eq!(refusal(&t, Operation::Insert, Method::Native), "yes");
    let part = place.table("part").await;
    assert_eq!(part.keys.len(), 1, "a part of a column is no key");
    assert!(refusal(&part, upsert(&["id"]), Method::Array).contains("(note)"));
    let plain = place.table("plain").await;
    assert_eq!(
        refusal(&plain, upsert(&["id"]), Method::Batch),
        format!(
            "(id) is not a primary or unique key of {d}.plain; add a primary key or a unique index on (id)"
        )
    );
    let aria = place.table("aria").await;
    assert!(!aria.transactional);
    assert_eq!(
        refusal(&aria, Operation::Insert, Method::Array),
        format!("{d}.aria has no transactions, so only rows that go one by one can be told; --method batch")
    );
    assert_eq!(refusal(&aria, Operation::Insert, Method::Batch), "yes");
    assert_eq!(
        refusal(&plain, Operation::Delete { key: key(&["id"]) }, Method::Native)
            .split(';')
            .next(),
        Some(format!("(id) is not a primary or unique key of {d}.plain").as_str())
    );
}
