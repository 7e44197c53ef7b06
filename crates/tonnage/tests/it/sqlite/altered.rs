//! Tables that are altered, replaced or dropped while they are written to.

use tonnage::{
    ErrorKind,
    target::{Claim, Guard},
};

use super::{Database, METHODS, PAIR, pairs};

/// DDL from another connection, and what the error says.
const CHANGES: &[(&str, &str)] = &[
    (
        "ALTER TABLE t RENAME COLUMN id TO x; ALTER TABLE t RENAME COLUMN name TO id; ALTER TABLE t RENAME COLUMN x TO name",
        "was altered",
    ),
    (
        "ALTER TABLE t RENAME TO old; CREATE TABLE t (id INTEGER PRIMARY KEY, name REAL)",
        "while rows were written",
    ),
    ("DROP TABLE t", "was dropped"),
    ("ALTER TABLE t ADD COLUMN c INTEGER", "column 'c' is new"),
];

#[tokio::test]
async fn every_transaction_finds_what_has_become_of_its_table() {
    for (change, what) in CHANGES {
        for method in METHODS {
            let database = Database::new("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)").await;
            let plan = database.plan("t", &PAIR, method).await;
            let mut writer = database.writer(&plan).await;
            writer.begin(&[]).await.unwrap();
            let outcome = writer
                .write(&pairs(&[(Some(1), "x")]), Guard::None)
                .await
                .unwrap();
            assert!(outcome.failure.is_none());
            writer.commit(&[]).await.unwrap();
            // A new table or index is no alteration.
            let other = "CREATE TABLE other (id INTEGER); CREATE INDEX i ON t (name)";
            database.other().execute_batch(other).unwrap();
            assert_eq!(writer.begin(&[]).await.unwrap(), Claim::Held);
            writer.rollback().await.unwrap();
            database.other().execute_batch(change).unwrap();
            for mut writer in [writer, database.writer(&plan).await] {
                for _ in 0..2 {
                    let error = writer.begin(&[]).await.expect_err(change);
                    assert_eq!(error.kind(), ErrorKind::Altered, "{change}: {error}");
                    assert!(error.to_string().contains(what), "{change}: {error}");
                }
            }
        }
    }
}
