//! Ignore, update and delete: what they do to rows, to nulls, to triggers, and how they count.

use tonnage::{
    ColumnType, ErrorKind,
    operation::{Method, Operation, Support},
    target::{Failure, Guard, Outcome},
};

use super::{Database, PAIR, integer, pairs, text, upsert};
use crate::common::key;

const ALL: [Method; 4] = [Method::Native, Method::Array, Method::Batch, Method::Single];
const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL CHECK (name <> 'bad'))";
const KEY: [(&str, ColumnType); 1] = [("id", ColumnType::Int64)];

fn ignore(names: &[&str]) -> Operation {
    Operation::Ignore { key: key(names) }
}

fn update(names: &[&str]) -> Operation {
    Operation::Update { key: key(names) }
}

fn delete(names: &[&str]) -> Operation {
    Operation::Delete { key: key(names) }
}

/// The ways in which an operation can go.
fn methods(operation: &Operation) -> &'static [Method] {
    match operation {
        Operation::Update { .. } => &[Method::Native],
        _ => &[Method::Native, Method::Array],
    }
}

type Pairs<'a> = &'a [(Option<i64>, &'a str)];

/// Sends rows in one write and commits what is left of it; a delete sends `id` alone, where that is its key.
async fn send(
    database: &Database,
    operation: &Operation,
    method: Method,
    guard: Guard,
    rows: Pairs<'_>,
) -> Outcome {
    let mut batch = pairs(rows);
    let mut columns = &PAIR[..];
    if *operation == delete(&["id"]) {
        batch = batch.project(&[0]).unwrap();
        columns = &KEY;
    }
    let mut plan = database.plan("t", columns, method).await;
    plan.operation = operation.clone();
    let mut writer = database.writer(&plan).await;
    writer.begin(&[]).await.unwrap();
    let outcome = writer.write(&batch, guard).await.unwrap();
    match &outcome.failure {
        Some(failure) if !failure.intact => writer.rollback().await.unwrap(),
        _ => writer.commit(&[]).await.unwrap(),
    }
    outcome
}

#[tokio::test]
async fn a_null_in_a_key_equals_nothing() {
    let rows: Pairs<'_> = &[(None, "a"), (None, "b")];
    for (operation, skipped, there) in [
        (ignore(&["id"]), 0, 3),
        (update(&["id"]), 2, 1),
        (delete(&["id"]), 2, 1),
    ] {
        for method in methods(&operation) {
            let schema = "CREATE TABLE t (id UNIQUE, name TEXT); INSERT INTO t VALUES (NULL, 'old')";
            let database = Database::new(schema).await;
            let outcome = send(&database, &operation, *method, Guard::None, rows).await;
            assert!(outcome.failure.is_none());
            assert_eq!(outcome.skipped, skipped, "{operation:?} by {method}");
            assert_eq!(database.count("t"), there);
            assert_eq!(
                database.rows("SELECT name FROM t WHERE rowid = 1"),
                [[text("old")]]
            );
        }
    }
}

fn refusal(outcome: Outcome) -> (Failure, u64) {
    let failure = outcome.failure.expect("a row is refused");
    assert_eq!(failure.error.kind(), ErrorKind::Rejected);
    (failure, outcome.skipped)
}

#[tokio::test]
async fn an_ignored_key_hides_no_other_fault() {
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL CHECK (name <> 'bad'));
                  INSERT INTO t VALUES (1, 'a'), (2, 'b')";
    let cases = [
        ((Some(5), "bad"), "SQLITE_CONSTRAINT_CHECK"),
        ((Some(5), "b"), "SQLITE_CONSTRAINT_UNIQUE"),
    ];
    for (bad, code) in cases {
        for operation in [ignore(&["id"]), update(&["id"])] {
            let bad = match operation {
                Operation::Update { .. } => (Some(1), bad.1),
                _ => bad,
            };
            let rows = [(Some(1), "a"), bad, (Some(2), "b")];
            let database = Database::new(schema).await;
            let sent = send(&database, &operation, Method::Native, Guard::None, &rows).await;
            let (failure, skipped) = refusal(sent);
            assert_eq!(failure.error.code_text(), Some(code), "{operation:?}");
            assert_eq!(
                (failure.applied, failure.suspect, failure.intact),
                (1, Some(1), true)
            );
            let before = u64::from(operation == ignore(&["id"]));
            assert_eq!(skipped, before, "only what came before the bad row counts");
        }
        let database = Database::new(schema).await;
        let rows = [(Some(1), "a"), bad];
        let sent = send(&database, &ignore(&["id"]), Method::Array, Guard::None, &rows).await;
        let (failure, skipped) = refusal(sent);
        assert_eq!((failure.applied, failure.suspect, skipped), (0, None, 0));
        assert_eq!(database.count("t"), 2);
    }
}

#[tokio::test]
async fn conflict_clauses_of_the_table_hide_nothing() {
    for clause in ["REPLACE", "IGNORE", "FAIL", "ROLLBACK"] {
        let database = Database::new(&format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY ON CONFLICT {clause},
             name TEXT UNIQUE ON CONFLICT {clause});
             INSERT INTO t VALUES (1, 'a'), (2, 'b')"
        ))
        .await;
        for operation in [ignore(&["id"]), update(&["id"])] {
            let id = if operation == ignore(&["id"]) { 3 } else { 2 };
            let rows = [(Some(id), "a")];
            let sent = send(&database, &operation, Method::Native, Guard::None, &rows).await;
            let (failure, _) = refusal(sent);
            assert_eq!(
                failure.error.code_text(),
                Some("SQLITE_CONSTRAINT_UNIQUE"),
                "{clause}"
            );
            assert!(failure.intact);
        }
        let sent = send(
            &database,
            &ignore(&["id"]),
            Method::Array,
            Guard::None,
            &[(Some(2), "c")],
        )
        .await;
        assert_eq!(sent.skipped, 1, "{clause}");
        assert_eq!(
            database.rows("SELECT id, name FROM t ORDER BY id"),
            [[integer(1), text("a")], [integer(2), text("b")]]
        );
    }
}

/// A trigger that leaves a row out is not the operation that leaves it out.
#[tokio::test]
async fn rows_left_out_by_triggers_are_refused() {
    let cases = [
        (ignore(&["id"]), "INSERT", "new.id = 5", 5),
        (update(&["id"]), "UPDATE", "old.id = 1", 1),
        (delete(&["id"]), "DELETE", "old.id = 1", 1),
        (upsert(&["id", "name"]), "INSERT", "new.id = 5", 5),
    ];
    for (operation, event, when, bad) in cases {
        for method in methods(&operation) {
            let database = Database::new(&format!(
                "CREATE TABLE t (id INTEGER, name TEXT, UNIQUE (id), UNIQUE (id, name));
                 CREATE TABLE log (id);
                 INSERT INTO t VALUES (1, 'a'), (2, 'b');
                 CREATE TRIGGER l BEFORE {event} ON t WHEN {when} BEGIN
                   INSERT INTO log VALUES (1); SELECT RAISE(IGNORE); END"
            ))
            .await;
            // One row that is spared, where the operation spares any, and one that the trigger leaves out.
            let spared = match operation {
                Operation::Update { .. } | Operation::Delete { .. } => (Some(8), "x"),
                _ => (Some(2), "b"),
            };
            let rows = [spared, (Some(bad), "e")];
            let sent = send(&database, &operation, *method, Guard::Savepoint, &rows).await;
            let (failure, skipped) = refusal(sent);
            assert_eq!(
                failure.error.code_text(),
                Some("22000"),
                "{operation:?} by {method}"
            );
            assert_eq!(
                (failure.applied, failure.suspect, failure.intact),
                (1, Some(1), true),
                "{operation:?} by {method}"
            );
            assert_eq!(
                skipped,
                u64::from(!matches!(operation, Operation::Upsert { .. })),
                "{operation:?}"
            );
            assert_eq!(
                (database.count("t"), database.count("log")),
                (2, 0),
                "{operation:?}"
            );
            // Without a savepoint the transaction is given up, and with it what was left out in it.
            let sent = send(&database, &operation, *method, Guard::None, &rows).await;
            let (failure, skipped) = refusal(sent);
            assert_eq!((failure.applied, failure.intact, skipped), (0, false, 0));
        }
    }
}

#[tokio::test]
async fn what_triggers_and_foreign_keys_change_does_not_count() {
    let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, parent REFERENCES t ON DELETE CASCADE);
                  CREATE TABLE log (id);
                  INSERT INTO t VALUES (1, 'a', NULL), (2, 'b', 1), (3, 'c', 2), (4, 'd', NULL);";
    let log = "CREATE TRIGGER d AFTER DELETE ON t BEGIN INSERT INTO log VALUES (old.id), (old.id); END;
               CREATE TRIGGER u AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (old.id), (old.id); END;";
    for triggers in ["", log] {
        let logged = |rows| if triggers.is_empty() { 0 } else { rows };
        for method in [Method::Native, Method::Array] {
            let database = Database::new(&format!("{schema} {triggers}")).await;
            let rows = [(Some(1), ""), (Some(6), ""), (Some(4), "")];
            let outcome = send(&database, &delete(&["id"]), method, Guard::None, &rows).await;
            assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
            assert_eq!(outcome.skipped, 1, "{method}");
            assert_eq!((database.count("t"), database.count("log")), (0, logged(8)));
        }
        let database = Database::new(&format!("{schema} {triggers}")).await;
        let rows = [(Some(1), "x"), (Some(6), "x"), (Some(1), "x")];
        let outcome = send(&database, &update(&["id"]), Method::Native, Guard::None, &rows).await;
        assert!(outcome.failure.is_none());
        assert_eq!((outcome.skipped, database.count("log")), (1, logged(4)));
    }
}

/// A key compares as its index does, whatever its column does.
#[tokio::test]
async fn keys_compare_as_their_index_does() {
    for (column, index, matches) in [("NOCASE", "BINARY", 1), ("BINARY", "NOCASE", 2)] {
        let database = Database::new(&format!(
            "CREATE TABLE t (id INTEGER, name TEXT COLLATE {column});
             CREATE UNIQUE INDEX k ON t (name COLLATE {index}, id)"
        ))
        .await;
        let rows = [(Some(1), "a"), (Some(1), "A")];
        for method in [Method::Native, Method::Array] {
            for guard in [Guard::None, Guard::Savepoint] {
                database
                    .other()
                    .execute_batch("DELETE FROM t; INSERT INTO t VALUES (1, 'a')")
                    .unwrap();
                let key = ["name", "id"];
                let ignored = send(&database, &ignore(&key), method, guard, &rows).await;
                assert_eq!(ignored.skipped, matches, "{index}, {method}");
                database
                    .other()
                    .execute_batch("DELETE FROM t; INSERT INTO t VALUES (1, 'a')")
                    .unwrap();
                let deleted = send(&database, &delete(&key), method, guard, &rows[1..]).await;
                assert_eq!(deleted.skipped, 2 - matches, "{index}, {method}");
            }
        }
    }
}

#[tokio::test]
async fn update_by_array_is_refused() {
    let database = Database::new(TABLE).await;
    let table = database.table("t").await;
    for operation in [
        Operation::Insert,
        upsert(&["id"]),
        ignore(&["id"]),
        update(&["id"]),
        delete(&["id"]),
    ] {
        for method in ALL {
            assert!(database.target.capabilities().methods.contains(&method));
            let refused = operation == update(&["id"]) && method == Method::Array;
            let support = database.target.support(&table, &operation, method);
            assert_eq!(support != Support::Yes, refused, "{operation:?} by {method}");
        }
    }
}
