//! Tables that are altered, replaced or dropped while they are written to.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use mysql_async::prelude::Queryable;
use tonnage::{
    ErrorKind,
    operation::Operation,
    target::{Claim, Guard},
    types::ColumnType,
};

use super::{METHODS, Server, TestDatabase, batch};

on_every_server! {
    every_transaction_finds_what_has_become_of_its_table,
    ddl_waits_for_the_transaction,
}

fn pairs(ids: &[i64]) -> RecordBatch {
    let column = || Arc::new(Int64Array::from(ids.to_vec())) as _;
    batch(&[(ColumnType::Int64, column()), (ColumnType::Int64, column())])
}

const TABLE: &str = "DROP TABLE IF EXISTS t, old;\nCREATE TABLE t (a bigint, b bigint, s datetime(6), n int AUTO_INCREMENT UNIQUE)";

/// DDL from another connection, and what the error says.
const CHANGES: &[(&str, &str)] = &[
    (
        "ALTER TABLE t MODIFY a double",
        "'a' was bigint(20) and is double",
    ),
    (
        "ALTER TABLE t MODIFY s datetime(0)",
        "'s' was datetime(6) and is datetime",
    ),
    ("ALTER TABLE t ENGINE = MyISAM", "was altered"),
    (
        "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "its columns have another order",
    ),
    ("RENAME TABLE t TO old;\nCREATE TABLE t LIKE old", "was altered"),
    ("DROP TABLE t", "was dropped"),
    ("ALTER TABLE t ADD COLUMN c int", "column 'c' is new"),
    ("ALTER TABLE t ADD UNIQUE (b)", "was altered"),
];

async fn every_transaction_finds_what_has_become_of_its_table(server: Server) {
    let place = TestDatabase::on(server).await;
    for (change, what) in CHANGES {
        for method in METHODS {
            place.run(TABLE).await;
            let plan = place.plan("t", &["a", "b"], Operation::Insert, method).await;
            let mut writer = place.writer(&plan).await;
            for id in 1..3 {
                assert_eq!(writer.begin(&[]).await.unwrap(), Claim::Held);
                let outcome = writer.write(&pairs(&[id]), Guard::None).await.unwrap();
                assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
                writer.commit(&[]).await.unwrap();
            }
            // Statistics and an index that refuses nothing are no alteration.
            place.run("ANALYZE TABLE t").await;
            writer.begin(&[]).await.unwrap();
            writer.rollback().await.unwrap();
            place.run(change).await;
            for mut writer in [writer, place.writer(&plan).await] {
                for _ in 0..2 {
                    let error = writer.begin(&[]).await.expect_err(change);
                    assert_eq!(error.kind(), ErrorKind::Altered, "{change}: {error}");
                    assert!(error.to_string().contains(what), "{change}: {error}");
                }
            }
        }
    }
}

async fn ddl_waits_for_the_transaction(server: Server) {
    let place = TestDatabase::on(server).await;
    for method in METHODS {
        place.run(TABLE).await;
        let plan = place.plan("t", &["a", "b"], Operation::Insert, method).await;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let mut other = place.session().await;
        let ddl = tokio::spawn(async move {
            other.query_drop("ALTER TABLE t MODIFY a double").await.unwrap();
        });
        let waiting = format!(
            "SELECT count(*) FROM information_schema.processlist WHERE db = '{}' AND state LIKE '%metadata lock%'",
            place.database
        );
        while place.number(&waiting).await == 0 {
            assert!(!ddl.is_finished(), "it has not waited");
            tokio::task::yield_now().await;
        }
        writer.write(&pairs(&[7]), Guard::None).await.unwrap();
        writer.commit(&[]).await.unwrap();
        ddl.await.unwrap();
        assert_eq!(place.texts("SELECT a FROM t").await, [Some("7".to_owned())]);
        let error = writer.begin(&[]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Altered, "{method}");
    }
}
