//! Writes that fail in whole or in part, transactions, and what statements carry.

use std::{sync::Arc, time::Duration};

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use mysql_async::prelude::Queryable;
use tonnage::{
    ErrorKind,
    operation::{Method, Operation},
    target::{Claim, Guard},
    types::ColumnType,
};

use super::{METHODS, TestDatabase, batch, session};

fn rows(ids: impl IntoIterator<Item = i32>) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(ids));
    batch(&[(ColumnType::Int32, ids)])
}

#[tokio::test]
async fn a_bad_row_among_good_ones_undoes_no_more_than_the_outcome_says() {
    let place = TestDatabase::new().await;
    for method in METHODS {
        place
            .run("DROP TABLE IF EXISTS t;\nCREATE TABLE t (id int PRIMARY KEY CHECK (id <> 13))")
            .await;
        let plan = place.plan("t", &["id"], Operation::Insert, method).await;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        assert!(
            writer
                .write(&rows(1..=3), Guard::None)
                .await
                .unwrap()
                .failure
                .is_none()
        );
        // A duplicate and a failed check, which LOAD DATA would leave out with a warning.
        for bad in [13, 2] {
            let ids = [4, 5, bad, 6];
            let outcome = writer.write(&rows(ids), Guard::None).await.unwrap();
            let failure = outcome.failure.expect("a bad row");
            assert_eq!(failure.error.kind(), ErrorKind::Rejected);
            let code = if bad == 13 { "4025" } else { "1062" };
            assert_eq!(failure.error.code_text(), Some(code), "{method}");
            assert!(failure.intact, "{method}");
            let by_row = matches!(method, Method::Batch | Method::Single);
            assert_eq!(failure.applied, if by_row { 2 } else { 0 }, "{method}");
            if by_row {
                assert_eq!(failure.suspect, Some(2));
                writer.rollback().await.unwrap();
                writer.begin(&[]).await.unwrap();
                writer.write(&rows(1..=3), Guard::None).await.unwrap();
            }
            let outcome = writer.write(&rows(ids), Guard::Savepoint).await.unwrap();
            let failure = outcome.failure.expect("a bad row");
            assert!(failure.intact && failure.applied == 0, "{method}");
        }
        assert!(
            writer
                .write(&rows([7]), Guard::Savepoint)
                .await
                .unwrap()
                .failure
                .is_none()
        );
        writer.commit(&[]).await.unwrap();
        assert_eq!(
            place.number("SELECT sum(id) FROM t").await,
            1 + 2 + 3 + 7,
            "{method}"
        );
    }
}

#[tokio::test]
async fn a_value_that_the_server_would_change_is_found_in_every_place_of_a_batch() {
    let place = TestDatabase::new().await;
    for method in METHODS {
        for bad in 0..5 {
            place
                .run("DROP TABLE IF EXISTS t;\nCREATE TABLE t (v tinytext CHARACTER SET ucs2)")
                .await;
            let plan = place.plan("t", &["v"], Operation::Insert, method).await;
            let mut writer = place.writer(&plan).await;
            writer.begin(&[]).await.unwrap();
            // 200 bytes here, 400 there, and what the server would cut off are spaces.
            let long = format!("{}{}", "x".repeat(100), " ".repeat(100));
            let texts: Vec<_> = (0..5)
                .map(|row| if row == bad { long.as_str() } else { "short" })
                .collect();
            let texts: ArrayRef = Arc::new(StringArray::from(texts));
            let rows = batch(&[(ColumnType::TEXT, texts)]);
            let outcome = writer.write(&rows, Guard::Savepoint).await.unwrap();
            let failure = outcome
                .failure
                .unwrap_or_else(|| panic!("{method} took a text that is cut off"));
            let code = failure.error.code_text();
            assert!(
                matches!(code, Some("1265" | "1406")),
                "{method}: {}",
                failure.error
            );
            writer.commit(&[]).await.unwrap();
            assert_eq!(place.number("SELECT count(*) FROM t").await, 0, "{method}");
        }
    }
}

#[tokio::test]
async fn a_write_larger_than_a_packet_is_cut_and_a_row_larger_than_one_is_bad() {
    let place = TestDatabase::new().await;
    let most = place.number("SELECT @@max_allowed_packet").await as usize;
    for method in METHODS {
        place
            .run("DROP TABLE IF EXISTS t;\nCREATE TABLE t (v longtext)")
            .await;
        let plan = place.plan("t", &["v"], Operation::Insert, method).await;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let text = "y".repeat(1 << 20);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![text.as_str(); (most >> 20) + 4]));
        let count = texts.len() as i64;
        let outcome = writer
            .write(&batch(&[(ColumnType::TEXT, texts)]), Guard::None)
            .await
            .unwrap();
        assert!(outcome.failure.is_none(), "{method}: {:?}", outcome.failure);
        let statements = match method {
            Method::Native => 1,
            // At most 4 MiB, which three of them and their lengths are.
            Method::Array => (count as u64).div_ceil(3),
            _ => count as u64,
        };
        assert_eq!(outcome.statements, statements, "{method}");
        let huge = "z".repeat(most);
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", huge.as_str()]));
        let outcome = writer
            .write(&batch(&[(ColumnType::TEXT, texts)]), Guard::Savepoint)
            .await
            .unwrap();
        let failure = outcome.failure.expect("too large");
        assert_eq!(
            (failure.suspect, failure.error.code_text()),
            (Some(1), Some("22001"))
        );
        writer.commit(&[]).await.unwrap();
        assert_eq!(place.number("SELECT count(*) FROM t").await, count, "{method}");
    }
}

#[tokio::test]
async fn a_lost_race_for_a_lock_is_no_reject() {
    let place = TestDatabase::new().await;
    place
        .run("CREATE TABLE t (id int PRIMARY KEY, v int);\nINSERT INTO t VALUES (1, 0), (2, 0)")
        .await;
    let operation = Operation::Update {
        key: super::key(&["id"]),
    };
    let plan = place.plan("t", &["id", "v"], operation, Method::Batch).await;
    let pair = |id: i32| {
        let column = |value| Arc::new(Int32Array::from(vec![value])) as ArrayRef;
        batch(&[(ColumnType::Int32, column(id)), (ColumnType::Int32, column(7))])
    };
    let (mut first, mut second) = (place.writer(&plan).await, place.writer(&plan).await);
    for (writer, id) in [(&mut first, 1), (&mut second, 2)] {
        assert_eq!(writer.begin(&[]).await.unwrap(), Claim::Held);
        writer.write(&pair(id), Guard::None).await.unwrap();
    }
    let (two, one) = (pair(2), pair(1));
    let (a, b) = futures::join!(first.write(&two, Guard::None), second.write(&one, Guard::None));
    let (won, lost) = match (a, b) {
        (Ok(_), Err(error)) => (&mut first, error),
        (Err(error), Ok(_)) => (&mut second, error),
        other => panic!("one of two loses: {other:?}"),
    };
    assert_eq!(
        (lost.kind(), lost.code_text()),
        (ErrorKind::Overloaded, Some("1213"))
    );
    won.commit(&[]).await.unwrap();
    // The loser's transaction is gone, and nothing of it may be committed.
    for writer in [&mut first, &mut second] {
        let _ = writer.rollback().await;
    }
    assert_eq!(place.number("SELECT sum(v) FROM t").await, 14);
}

#[tokio::test]
async fn a_transaction_that_something_else_has_ended_is_not_committed() {
    let place = TestDatabase::new().await;
    place
        .run("CREATE TABLE t (id int PRIMARY KEY) ENGINE=InnoDB")
        .await;
    let plan = place.plan("t", &["id"], Operation::Insert, Method::Batch).await;
    let mut writer = place.writer(&plan).await;
    writer.begin(&[]).await.unwrap();
    writer.write(&rows([1]), Guard::None).await.unwrap();
    // Killed connections take their transaction with them.
    let mut admin = session(&place.database).await;
    let mut looks = 0;
    let ids: Vec<u64> = loop {
        let writing = "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx t \
                       JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
                       WHERE p.db = database()";
        let ids: Vec<u64> = admin.query(writing).await.unwrap();
        if !ids.is_empty() {
            break ids;
        }
        looks += 1;
        assert!(looks < 1_000, "the transaction is not shown");
        // Read again within 100 ms, by anybody, the table of transactions says the same again.
        tokio::time::sleep(Duration::from_millis(150)).await;
    };
    assert_eq!(ids.len(), 1);
    admin.query_drop(format!("KILL {}", ids[0])).await.unwrap();
    let error = writer.write(&rows([2]), Guard::None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsent, "{error}");
    assert_eq!(writer.commit(&[]).await.unwrap_err().kind(), ErrorKind::Bug);
    assert_eq!(place.number("SELECT count(*) FROM t").await, 0);
}

#[tokio::test]
async fn a_table_without_transactions_tells_which_rows_have_stayed() {
    let place = TestDatabase::new().await;
    place.run("CREATE TABLE t (id int PRIMARY KEY) ENGINE=Aria").await;
    let plan = place.plan("t", &["id"], Operation::Insert, Method::Batch).await;
    let mut writer = place.writer(&plan).await;
    writer.begin(&[]).await.unwrap();
    for (ids, guard) in [([1, 2, 1, 3], Guard::None), ([4, 5, 1, 6], Guard::Savepoint)] {
        let outcome = writer.write(&rows(ids), guard).await.unwrap();
        let failure = outcome.failure.expect("a duplicate");
        assert_eq!((failure.applied, failure.intact), (2, true), "{guard:?}");
    }
    writer.commit(&[]).await.unwrap();
    assert_eq!(place.number("SELECT count(*) FROM t").await, 4);
}
