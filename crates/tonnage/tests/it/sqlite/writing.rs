//! Transactions, bad rows, upserts and locks.

use rusqlite::Connection;
use tonnage::{
    ColumnType, ErrorKind,
    operation::Method,
    table::{ColumnSpec, TableName, TableSpec},
    target::{Claim, Guard, Target},
    targets::sqlite::SqliteTarget,
};

use super::{Database, METHODS, PAIR, advance, integer, many, new_run, pairs, text, upsert};

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL CHECK (name <> 'bad'))";

#[tokio::test]
async fn a_batch_is_written_and_counted() {
    for (method, statements) in [(Method::Native, 2_345), (Method::Array, 47)] {
        let database = Database::new(TABLE).await;
        let plan = database.plan("t", &PAIR, method).await;
        let mut writer = database.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let outcome = writer.write(&many(2_345), Guard::None).await.unwrap();
        assert!(outcome.failure.is_none());
        assert_eq!(outcome.statements, statements);
        assert!(outcome.bytes_sent > 2_345 * 9, "{}", outcome.bytes_sent);
        assert_eq!(database.count("t"), 0, "nothing is seen before the commit");
        writer.commit(&[]).await.unwrap();
        assert_eq!(database.count("t"), 2_345);
    }
}

#[tokio::test]
async fn a_bad_row_costs_its_own_statement() {
    let rows = |bad: (Option<i64>, &'static str)| {
        let mut rows: Vec<_> = (0..120).map(|id| (Some(id), "x")).collect();
        rows[70] = bad;
        pairs(&rows)
    };
    let cases = [
        ((Some(3), "x"), "SQLITE_CONSTRAINT_PRIMARYKEY", Some("id")),
        ((Some(70), "bad"), "SQLITE_CONSTRAINT_CHECK", None),
    ];
    for (bad, code, column) in cases {
        for (method, applied, suspect) in [(Method::Native, 70, Some(70)), (Method::Array, 50, None)] {
            for guard in [Guard::None, Guard::Savepoint] {
                let database = Database::new(TABLE).await;
                let plan = database.plan("t", &PAIR, method).await;
                let mut writer = database.writer(&plan).await;
                writer.begin(&[]).await.unwrap();
                let failure = writer.write(&rows(bad), guard).await.unwrap().failure.unwrap();
                assert_eq!(
                    (failure.applied, failure.suspect, failure.intact),
                    (applied, suspect, true)
                );
                assert_eq!(failure.error.kind(), ErrorKind::Rejected);
                assert_eq!(failure.error.code_text(), Some(code));
                assert_eq!(failure.column.as_deref(), column);
                let rest = rows((Some(70), "x")).slice(applied, 120 - applied);
                assert!(writer.write(&rest, guard).await.unwrap().failure.is_none());
                writer.commit(&[]).await.unwrap();
                assert_eq!(database.count("t"), 120);
            }
        }
    }
}

#[tokio::test]
async fn a_plain_table_takes_many_rows_a_statement_and_keeps_those_before_a_bad_one() {
    let rows = |bad: Option<i64>| {
        let mut rows: Vec<_> = (0..120).map(|id| (Some(id), "x")).collect();
        rows[70].0 = bad;
        pairs(&rows)
    };
    for (guard, statements) in [(Guard::None, 3), (Guard::Savepoint, 120)] {
        let database = Database::new("CREATE TABLE t (id INTEGER NOT NULL, name TEXT)").await;
        let plan = database.plan("t", &PAIR, Method::Native).await;
        let mut writer = database.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let failure = writer.write(&rows(None), guard).await.unwrap().failure.unwrap();
        assert_eq!(
            (failure.applied, failure.suspect, failure.intact),
            (70, Some(70), true)
        );
        assert_eq!(failure.error.code_text(), Some("SQLITE_CONSTRAINT_NOTNULL"));
        let rest = rows(Some(70)).slice(70, 50);
        assert!(writer.write(&rest, guard).await.unwrap().failure.is_none());
        let all = writer.write(&rows(Some(70)), guard).await.unwrap();
        assert_eq!(all.statements, statements);
        writer.commit(&[]).await.unwrap();
        assert_eq!(database.count("t"), 240);
        assert_eq!(database.count("t WHERE id = 70"), 2);
    }
}

#[tokio::test]
async fn a_null_where_there_may_be_none_names_its_column() {
    let database = Database::new("CREATE TABLE t (id INTEGER NOT NULL, name TEXT)").await;
    let plan = database.plan("t", &PAIR, Method::Native).await;
    let failure = database
        .write(&plan, &pairs(&[(Some(1), "a"), (None, "b")]))
        .await
        .unwrap();
    assert_eq!(failure.error.code_text(), Some("SQLITE_CONSTRAINT_NOTNULL"));
    assert_eq!(failure.error.to_string(), "NOT NULL constraint failed: t.id");
    assert_eq!(failure.column.as_deref(), Some("id"));
}

#[tokio::test]
async fn foreign_keys_are_checked() {
    let schema = "CREATE TABLE p (id INTEGER PRIMARY KEY); INSERT INTO p VALUES (1);";
    for (clause, at_commit) in [("", false), ("DEFERRABLE INITIALLY DEFERRED", true)] {
        let schema = format!("{schema} CREATE TABLE t (id INTEGER REFERENCES p {clause}, name TEXT)");
        let database = Database::new(&schema).await;
        let plan = database.plan("t", &PAIR, Method::Native).await;
        let mut writer = database.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let outcome = writer
            .write(&pairs(&[(Some(1), "a"), (Some(2), "b")]), Guard::None)
            .await
            .unwrap();
        let error = match outcome.failure {
            Some(failure) if !at_commit => {
                assert_eq!(failure.suspect, Some(1));
                failure.error
            }
            None if at_commit => writer.commit(&[]).await.unwrap_err(),
            other => panic!("{clause}: {other:?}"),
        };
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert_eq!(error.code_text(), Some("SQLITE_CONSTRAINT_FOREIGNKEY"));
        writer.rollback().await.unwrap();
        assert_eq!(database.count("t"), 0);
        assert_eq!(
            writer.begin(&[]).await.unwrap(),
            Claim::Held,
            "the writer can go on"
        );
    }
}

#[tokio::test]
async fn an_upsert_of_keys_alone_leaves_rows_as_they_are() {
    for method in METHODS {
        let database = Database::new(
            "CREATE TABLE t (id INTEGER, name TEXT COLLATE NOCASE, n INTEGER DEFAULT 0, UNIQUE (name, id));
             INSERT INTO t VALUES (1, 'a', 7)",
        )
        .await;
        let mut plan = database.plan("t", &PAIR, method).await;
        plan.operation = upsert(&["name", "id"]);
        let rows = pairs(&[(Some(1), "A"), (Some(2), "b"), (Some(2), "b")]);
        assert!(database.write(&plan, &rows).await.is_none());
        assert_eq!(database.rows("SELECT id, name, n FROM t ORDER BY id").len(), 2);
        assert_eq!(
            database.rows("SELECT name, n FROM t WHERE id = 1"),
            [[text("a"), integer(7)]]
        );
    }
}

#[tokio::test]
async fn another_unique_key_refuses_an_upserted_row() {
    let database = Database::new(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT UNIQUE); INSERT INTO t VALUES (1, 'a')",
    )
    .await;
    let mut plan = database.plan("t", &PAIR, Method::Native).await;
    plan.operation = upsert(&["id"]);
    let failure = database.write(&plan, &pairs(&[(Some(2), "a")])).await.unwrap();
    assert_eq!(failure.error.code_text(), Some("SQLITE_CONSTRAINT_UNIQUE"));
    assert_eq!(failure.column.as_deref(), Some("name"));
}

#[tokio::test]
async fn the_table_s_own_conflict_clauses_hide_nothing() {
    for clause in ["REPLACE", "IGNORE", "FAIL", "ROLLBACK"] {
        for method in METHODS {
            let database = Database::new(&format!(
                "CREATE TABLE t (id INTEGER PRIMARY KEY ON CONFLICT {clause},
                 name TEXT NOT NULL ON CONFLICT {clause});
                 INSERT INTO t VALUES (1, 'old')"
            ))
            .await;
            let plan = database.plan("t", &PAIR, method).await;
            assert_eq!(plan.table.notes.len(), 1);
            let failure = database.write(&plan, &pairs(&[(Some(1), "new")])).await.unwrap();
            assert_eq!(
                failure.error.code_text(),
                Some("SQLITE_CONSTRAINT_PRIMARYKEY"),
                "{clause}"
            );
            assert!(failure.intact);
            assert_eq!(database.rows("SELECT name FROM t"), [[text("old")]]);
            let mut plan = plan;
            plan.operation = upsert(&["id"]);
            assert!(database.write(&plan, &pairs(&[(Some(1), "new")])).await.is_none());
            assert_eq!(database.rows("SELECT name FROM t"), [[text("new")]]);
        }
    }
}

#[tokio::test]
async fn triggers_lose_no_row_silently() {
    for (action, code) in [
        ("RAISE(IGNORE)", "22000"),
        ("RAISE(ABORT, 'no')", "SQLITE_CONSTRAINT_TRIGGER"),
        ("RAISE(FAIL, 'no')", "SQLITE_CONSTRAINT_TRIGGER"),
        ("RAISE(ROLLBACK, 'no')", "SQLITE_CONSTRAINT_TRIGGER"),
    ] {
        for method in METHODS {
            let database = Database::new(&format!(
                "{TABLE}; CREATE TABLE log (id);
                 CREATE TRIGGER l BEFORE INSERT ON t WHEN new.name = 'no' BEGIN
                   INSERT INTO log VALUES (new.id); SELECT {action}; END"
            ))
            .await;
            let plan = database.plan("t", &PAIR, method).await;
            let mut writer = database.writer(&plan).await;
            let rows = pairs(&[(Some(1), "a"), (Some(2), "no"), (Some(3), "b")]);
            writer.begin(&[]).await.unwrap();
            let failure = writer.write(&rows, Guard::None).await.unwrap().failure.unwrap();
            assert!(!failure.intact, "{action} may have left something behind");
            assert_eq!(failure.error.code_text(), Some(code), "{action}");
            writer.rollback().await.unwrap();

            writer.begin(&[]).await.unwrap();
            let failure = writer
                .write(&rows, Guard::Savepoint)
                .await
                .unwrap()
                .failure
                .unwrap();
            assert_eq!(failure.intact, !action.contains("ROLLBACK"));
            if !failure.intact {
                continue;
            }
            let applied = if method == Method::Native { 1 } else { 0 };
            assert_eq!(failure.applied, applied);
            for row in [0, 2].into_iter().skip(applied) {
                assert!(
                    writer
                        .write(&rows.slice(row, 1), Guard::Savepoint)
                        .await
                        .unwrap()
                        .failure
                        .is_none()
                );
            }
            writer.commit(&[]).await.unwrap();
            assert_eq!(
                database.rows("SELECT id FROM t"),
                [[integer(1)], [integer(3)]],
                "{action}"
            );
            assert_eq!(database.count("log"), 0, "{action}");
        }
    }
}

#[tokio::test]
async fn what_a_trigger_adds_stays() {
    let database = Database::new(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE seen (name PRIMARY KEY);
         CREATE TRIGGER l AFTER INSERT ON t BEGIN INSERT OR IGNORE INTO seen VALUES (new.name); END",
    )
    .await;
    for method in METHODS {
        let plan = database.plan("t", &PAIR, method).await;
        assert!(
            database
                .write(&plan, &pairs(&[(None, "a"), (None, "a"), (None, "b")]))
                .await
                .is_none()
        );
    }
    assert_eq!((database.count("t"), database.count("seen")), (6, 2));
}

#[tokio::test]
async fn expressions_that_fail_are_the_row_s_fault() {
    let database = Database::new(
        "CREATE TABLE t (id INTEGER, name TEXT, kind AS (json_extract(name, '$.kind')) STORED)",
    )
    .await;
    let plan = database.plan("t", &PAIR, Method::Native).await;
    let failure = database
        .write(&plan, &pairs(&[(Some(1), "{}"), (Some(2), "{")]))
        .await
        .unwrap();
    assert_eq!((failure.applied, failure.suspect), (1, Some(1)));
    assert_eq!(failure.error.to_string(), "malformed JSON");
    assert_eq!(failure.error.kind(), ErrorKind::Rejected);
}

#[tokio::test]
async fn a_file_that_others_hold_is_waited_for_and_then_given_up() {
    for mode in ["WAL", "DELETE"] {
        let schema = format!("PRAGMA journal_mode = {mode}; {TABLE}");
        let database = Database::with_options(&schema, "?busy_timeout_ms=50").await;
        let plan = database.plan("t", &PAIR, Method::Native).await;
        let mut writer = database.writer(&plan).await;
        let other = database.other();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let error = writer.begin(&[]).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.code_text()),
            (ErrorKind::Overloaded, Some("SQLITE_BUSY"))
        );
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(writer.begin(&[]).await.unwrap(), Claim::Held);
        writer.write(&many(5), Guard::None).await.unwrap();
        // A reader keeps a rollback journal's commit from its exclusive lock.
        other.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        match mode {
            "WAL" => writer.commit(&[]).await.unwrap(),
            _ => {
                let error = writer.commit(&[]).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Overloaded);
                other.execute_batch("COMMIT").unwrap();
                assert_eq!(
                    writer.begin(&[]).await.unwrap(),
                    Claim::Held,
                    "the transaction was undone"
                );
                writer.write(&many(5), Guard::None).await.unwrap();
                writer.commit(&[]).await.unwrap();
            }
        }
        assert_eq!(database.count("t"), 5);
    }
}

#[tokio::test]
async fn a_length_that_was_asked_for_holds() {
    let database = Database::new("").await;
    let spec = TableSpec {
        name: TableName::bare("t"),
        columns: vec![
            ColumnSpec {
                name: "id".to_owned(),
                ty: ColumnType::Int64,
                nullable: true,
            },
            ColumnSpec {
                name: "name".to_owned(),
                ty: ColumnType::Text { chars_max: Some(3) },
                nullable: true,
            },
        ],
        key: Vec::new(),
    };
    database.target.create(&spec).await.unwrap();
    let plan = database.plan("t", &PAIR, Method::Native).await;
    let failure = database
        .write(&plan, &pairs(&[(None, "žžž"), (Some(1), "abcd")]))
        .await
        .unwrap();
    assert_eq!((failure.applied, failure.suspect), (1, Some(1)));
    assert_eq!(failure.error.code_text(), Some("SQLITE_CONSTRAINT_CHECK"));
    assert_eq!(database.count("t"), 1);
}

#[tokio::test]
async fn files_copied_in_mid_transaction_hold_what_was_committed() {
    for mode in ["WAL", "DELETE"] {
        let database = Database::new(&format!("PRAGMA journal_mode = {mode}; {TABLE}")).await;
        let run = new_run(&database, "t", "1").await;
        let handle = database.target.ledger().start(&run).await.unwrap();
        let plan = database.plan("t", &PAIR, Method::Native).await;
        let mut writer = database
            .target
            .writer(&plan.write_request(), Some(&handle))
            .await
            .unwrap();
        writer.begin(&[advance(0, 0, 100)]).await.unwrap();
        writer.write(&many(100), Guard::None).await.unwrap();
        writer.commit(&[]).await.unwrap();
        writer.begin(&[advance(0, 100, 200)]).await.unwrap();
        writer
            .write(&pairs(&[(Some(1_000), "x")]), Guard::None)
            .await
            .unwrap();
        // What a killed process leaves.
        let left = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(database.directory.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), left.path().join(file.file_name())).unwrap();
        }
        let after = SqliteTarget::connect(left.path().join("test.db").to_str().unwrap())
            .await
            .unwrap();
        let (_, slots) = after.ledger().take_over("1").await.unwrap();
        assert_eq!(
            (slots[0].position.rows, slots[0].counts.written),
            (100, 100),
            "{mode}"
        );
        let rows: i64 = Connection::open(left.path().join("test.db"))
            .unwrap()
            .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, 100, "{mode}");
    }
}
