//! Rows into tables: insert and upsert by both methods, bad rows, savepoints.

use std::sync::Arc;

use arrow::array::{Int32Array, Int64Array, RecordBatch, StringArray};
use tonnage::{
    ErrorKind,
    operation::{Method, Operation, Support},
    target::{Failure, Guard, Writer},
    types::ColumnType,
};

use super::{Server, TestDatabase, batch, upsert};

on_every_server! {
    a_load_of_many_chunks_arrives_in_order,
    steps_out_of_order_are_defects,
    a_bad_row_is_suspected_and_costs_the_transaction_without_a_savepoint,
    under_a_savepoint_the_transaction_goes_on,
    a_duplicate_key_is_a_bad_row,
    rows_that_a_trigger_leaves_out_are_not_lost_in_silence,
    an_upsert_replaces_the_loaded_columns_only,
    keys_that_only_the_server_can_compare_keep_the_last_row,
    identity_columns_take_the_values_given,
    deferred_constraints_fail_with_the_row_and_not_at_commit,
    durability_is_set_for_the_transaction_where_it_differs,
    a_lost_connection_is_unsent_before_commit,
    a_connection_lost_at_commit_is_in_doubt,
    only_exact_keys_are_supported_for_an_upsert,
    a_partitioned_table_is_loaded_through_its_parent,
}

const METHODS: [Method; 2] = [Method::Native, Method::Array];

fn numbers(values: impl IntoIterator<Item = i64>) -> (ColumnType, Arc<Int64Array>) {
    (ColumnType::Int64, Arc::new(Int64Array::from_iter_values(values)))
}

fn rows(ids: Vec<i64>, texts: Vec<Option<&str>>) -> RecordBatch {
    let (ty, ids) = numbers(ids);
    batch(&[(ty, ids), (ColumnType::TEXT, Arc::new(StringArray::from(texts)))])
}

async fn written(writer: &mut Box<dyn Writer>, rows: &RecordBatch) {
    let outcome = writer.write(rows, Guard::None).await.unwrap();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    assert!(outcome.bytes_sent > 0 && outcome.statements > 0);
}

async fn failed(writer: &mut Box<dyn Writer>, rows: &RecordBatch, guard: Guard) -> Failure {
    writer
        .write(rows, guard)
        .await
        .unwrap()
        .failure
        .expect("the batch holds a bad row")
}

async fn a_load_of_many_chunks_arrives_in_order(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run("CREATE TABLE t (o bigserial, id int8, note text)")
        .await;
    let plan = place
        .plan("t", &["id", "note"], Operation::Insert, Method::Native)
        .await;
    let mut writer = place.writer(&plan).await;
    let text = "x".repeat(100);
    writer.begin(&[]).await.unwrap();
    for _ in 0..2 {
        written(
            &mut writer,
            &rows((0..50_000).collect(), vec![Some(text.as_str()); 50_000]),
        )
        .await;
    }
    writer.commit(&[]).await.unwrap();
    assert_eq!(
        place
            .number("SELECT count(*) FROM t WHERE id = (o - 1) % 50000 AND length(note) = 100")
            .await,
        100_000
    );
}

async fn steps_out_of_order_are_defects(server: Server) {
    let place = TestDatabase::on(server).await;
    place.run("CREATE TABLE t (id int8, note text)").await;
    let plan = place
        .plan("t", &["id", "note"], Operation::Insert, Method::Native)
        .await;
    let mut writer = place.writer(&plan).await;
    assert_eq!(writer.commit(&[]).await.unwrap_err().kind(), ErrorKind::Bug);
    let outside = writer.write(&rows(vec![1], vec![None]), Guard::None).await;
    assert_eq!(outside.unwrap_err().kind(), ErrorKind::Bug);
    writer.begin(&[]).await.unwrap();
    assert_eq!(writer.begin(&[]).await.unwrap_err().kind(), ErrorKind::Bug);
    let wrong = batch(&[numbers([1]), numbers([1])].map(|(ty, array)| (ty, array as _)));
    assert_eq!(
        writer.write(&wrong, Guard::None).await.unwrap_err().kind(),
        ErrorKind::Bug
    );
}

async fn a_bad_row_is_suspected_and_costs_the_transaction_without_a_savepoint(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run("CREATE TABLE t (id int8 CHECK (id <> 13), note varchar(5) NOT NULL)")
        .await;
    let plan = place
        .plan("t", &["id", "note"], Operation::Insert, Method::Native)
        .await;
    let mut writer = place.writer(&plan).await;
    let good = |id: i64| (id, Some("a"));
    let cases = [
        // The check is the server's, and it names the line.
        ((13, Some("a")), "23514", None),
        ((1, None), "23502", Some("note")),
        // A value that the type refuses: the context names the column.
        ((1, Some("a\0")), "22021", Some("note")),
        // Found before it is sent.
        ((1, Some("abcdef")), "22001", Some("note")),
    ];
    for (bad, code, column) in cases {
        for at in [0, 777, 29_999] {
            let all: Vec<_> = (0..30_000)
                .map(|i| if i == at { bad } else { good(20 + i as i64) })
                .collect();
            writer.begin(&[]).await.unwrap();
            let (ids, notes) = all.into_iter().unzip();
            let failure = failed(&mut writer, &rows(ids, notes), Guard::None).await;
            assert_eq!(failure.suspect, Some(at), "{code}: {}", failure.error);
            assert_eq!(failure.error.code_text(), Some(code));
            assert_eq!(failure.error.kind(), ErrorKind::Rejected);
            assert_eq!(failure.column.as_deref(), column);
            assert_eq!(failure.applied, 0);
            if !failure.intact {
                assert_eq!(writer.commit(&[]).await.unwrap_err().kind(), ErrorKind::Bug);
            }
            writer.rollback().await.unwrap();
        }
    }
    assert_eq!(place.number("SELECT count(*) FROM t").await, 0);
}

async fn under_a_savepoint_the_transaction_goes_on(server: Server) {
    let place = TestDatabase::on(server).await;
    for (operation, method) in [
        (Operation::Insert, Method::Native),
        (Operation::Insert, Method::Array),
        (upsert(&["id"]), Method::Native),
        (upsert(&["id"]), Method::Array),
    ] {
        place
            .run("DROP TABLE IF EXISTS t; CREATE TABLE t (id int8 PRIMARY KEY, note text CHECK (note <> ''))")
            .await;
        let plan = place.plan("t", &["id", "note"], operation, method).await;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        for id in 0..6 {
            let bad = id % 2 == 1;
            let batch = rows(
                vec![2 * id, 2 * id + 1],
                vec![Some("a"), Some(if bad { "" } else { "b" })],
            );
            let outcome = writer.write(&batch, Guard::Savepoint).await.unwrap();
            assert_eq!(outcome.failure.is_some(), bad);
            if let Some(failure) = outcome.failure {
                assert!(failure.intact);
                assert_eq!(failure.error.code_text(), Some("23514"));
            }
        }
        writer.commit(&[]).await.unwrap();
        assert_eq!(
            place
                .texts("SELECT string_agg(id::text, ',' ORDER BY id) FROM t")
                .await,
            [Some("0,1,4,5,8,9".to_owned())],
            "{} {method}",
            plan.operation.name()
        );
    }
}

async fn a_duplicate_key_is_a_bad_row(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run("CREATE TABLE t (id int8 PRIMARY KEY, note text); INSERT INTO t VALUES (5, 'old')")
        .await;
    for method in METHODS {
        let plan = place.plan("t", &["id", "note"], Operation::Insert, method).await;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let failure = failed(&mut writer, &rows(vec![4, 5], vec![None, None]), Guard::Savepoint).await;
        assert_eq!(failure.error.code_text(), Some("23505"));
        assert_eq!(
            failure.error.to_string(),
            "duplicate key value violates unique constraint \"t_pkey\" (Key (id)=(5) already exists)"
        );
        assert_eq!(failure.suspect, (method == Method::Native).then_some(1));
        writer.rollback().await.unwrap();
    }
}

async fn rows_that_a_trigger_leaves_out_are_not_lost_in_silence(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE t (id int8, note text); \
             CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN IF new.id = 7 THEN RAISE 'seven'; END IF; \
                      IF new.id % 2 = 1 THEN RETURN new; END IF; RETURN NULL; END $$; \
             CREATE TRIGGER odd BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION odd()",
        )
        .await;
    for method in METHODS {
        let plan = place.plan("t", &["id", "note"], Operation::Insert, method).await;
        assert!(plan.table.notes[0].contains("(odd)"), "{:?}", plan.table.notes);
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let failure = failed(&mut writer, &rows(vec![1, 2, 3], vec![None; 3]), Guard::Savepoint).await;
        assert_eq!(
            failure.error.to_string(),
            "the database kept 2 of 3 rows: a trigger or rule left the others out"
        );
        let failure = failed(&mut writer, &rows(vec![7], vec![None]), Guard::Savepoint).await;
        assert_eq!(
            (failure.error.to_string().as_str(), failure.error.code_text()),
            ("seven", Some("P0001"))
        );
        written(&mut writer, &rows(vec![1], vec![None])).await;
        writer.commit(&[]).await.unwrap();
    }
    assert_eq!(place.number("SELECT count(*) FROM t").await, 2);
}

async fn an_upsert_replaces_the_loaded_columns_only(server: Server) {
    let place = TestDatabase::on(server).await;
    for method in METHODS {
        place
            .run(
                "DROP TABLE IF EXISTS t; \
                 CREATE TABLE t (id int8 PRIMARY KEY, note text, kept text DEFAULT 'new'); \
                 INSERT INTO t VALUES (1, 'old', 'old'), (2, 'old', 'old')",
            )
            .await;
        let plan = place.plan("t", &["note", "id"], upsert(&["id"]), method).await;
        let mut writer = place.writer(&plan).await;
        let reversed = |ids: Vec<i64>, texts: Vec<Option<&str>>| rows(ids, texts).project(&[1, 0]).unwrap();
        for _ in 0..2 {
            writer.begin(&[]).await.unwrap();
            written(&mut writer, &reversed(vec![2, 3], vec![Some("first"), None])).await;
            // A second write of one transaction meets neither its predecessor's rows in the stage nor its keys.
            written(
                &mut writer,
                &reversed(vec![3, 4], vec![Some("second"), Some("second")]),
            )
            .await;
            writer.commit(&[]).await.unwrap();
        }
        let found = place
            .texts("SELECT concat_ws(' ', id, note, kept) FROM t ORDER BY id")
            .await;
        let found: Vec<_> = found.iter().flatten().map(String::as_str).collect();
        assert_eq!(
            found,
            ["1 old old", "2 first old", "3 second new", "4 second new"],
            "{method}"
        );
    }
}

async fn keys_that_only_the_server_can_compare_keep_the_last_row(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false); \
             CREATE TABLE loosely (k text COLLATE loose UNIQUE, v int4); \
             CREATE TABLE padded (k char(5) PRIMARY KEY, v int4); \
             CREATE TABLE floating (k numeric PRIMARY KEY, v int4)",
        )
        .await;
    let cases = [
        ("loosely", ["abc", "x", "ABC", "Abc"], ["Abc 3", "x 1"]),
        ("padded", ["abc", "x", "abc ", "abc"], ["abc   3", "x     1"]),
        ("floating", ["1.0", "2", "1.00", "1"], ["1 3", "2 1"]),
    ];
    for (table, keys, expected) in cases {
        for method in METHODS {
            place.run(&format!("TRUNCATE {table}")).await;
            let plan = place.plan(table, &["k", "v"], upsert(&["k"]), method).await;
            let mut writer = place.writer(&plan).await;
            writer.begin(&[]).await.unwrap();
            let keys = Arc::new(StringArray::from(keys.to_vec()));
            let values = Arc::new(Int32Array::from(vec![0, 1, 2, 3]));
            written(
                &mut writer,
                &batch(&[(plan.columns[0].ty, keys), (ColumnType::Int32, values)]),
            )
            .await;
            writer.commit(&[]).await.unwrap();
            let found = place
                .texts(&format!(
                    "SELECT concat(k::text, ' ', v) FROM {table} ORDER BY v DESC"
                ))
                .await;
            let found: Vec<_> = found
                .iter()
                .flatten()
                .map(|t| t.split_whitespace().collect::<Vec<_>>())
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .map(|t| t.split_whitespace().collect::<Vec<_>>())
                .collect();
            assert_eq!(found, expected, "{table} by {method}");
        }
    }
}

async fn identity_columns_take_the_values_given(server: Server) {
    let place = TestDatabase::on(server).await;
    for (operation, method) in [
        (Operation::Insert, Method::Native),
        (Operation::Insert, Method::Array),
        (upsert(&["id"]), Method::Native),
        (upsert(&["id"]), Method::Array),
    ] {
        place
            .run(
                "DROP TABLE IF EXISTS t; \
                 CREATE TABLE t (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text)",
            )
            .await;
        let plan = place.plan("t", &["id", "note"], operation, method).await;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        written(&mut writer, &rows(vec![41, 42], vec![Some("a"), Some("b")])).await;
        writer.commit(&[]).await.unwrap();
        assert_eq!(place.number("SELECT sum(id)::int8 FROM t").await, 83);
    }
}

async fn deferred_constraints_fail_with_the_row_and_not_at_commit(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE parents (id int8 PRIMARY KEY); \
             CREATE TABLE t (id int8 REFERENCES parents DEFERRABLE INITIALLY DEFERRED, note text)",
        )
        .await;
    for method in METHODS {
        let plan = place.plan("t", &["id", "note"], Operation::Insert, method).await;
        assert!(plan.table.notes[0].contains("deferred"), "{:?}", plan.table.notes);
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let failure = failed(&mut writer, &rows(vec![1], vec![None]), Guard::Savepoint).await;
        assert_eq!(failure.error.code_text(), Some("23503"));
        writer.commit(&[]).await.unwrap();
    }
}

async fn durability_is_set_for_the_transaction_where_it_differs(server: Server) {
    use tonnage::operation::Durability;
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE t (id int8, note text DEFAULT 'x', seen text DEFAULT current_setting('synchronous_commit'))",
        )
        .await;
    for durability in [Durability::Relaxed, Durability::Durable] {
        let mut plan = place
            .plan("t", &["id", "note"], Operation::Insert, Method::Array)
            .await;
        plan.durability = durability;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        written(&mut writer, &rows(vec![1], vec![None])).await;
        writer.commit(&[]).await.unwrap();
    }
    assert_eq!(
        place.target.settings(Durability::Relaxed),
        ["synchronous_commit = off"]
    );
    assert!(place.target.settings(Durability::Durable).is_empty());
    assert_eq!(
        place.texts("SELECT string_agg(seen, ',') FROM t").await,
        [Some("off,on".to_owned())]
    );
}

async fn a_lost_connection_is_unsent_before_commit(server: Server) {
    let place = TestDatabase::on(server).await;
    place.run("CREATE TABLE t (id int8, note text)").await;
    let plan = place
        .plan("t", &["id", "note"], Operation::Insert, Method::Native)
        .await;
    let mut writer = place.writer(&plan).await;
    writer.begin(&[]).await.unwrap();
    written(&mut writer, &rows(vec![1], vec![None])).await;
    place
        .run(
            "SELECT pg_terminate_backend(pid, 600000) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation \
             WHERE c.oid = 't'::regclass AND pid <> pg_backend_pid()",
        )
        .await;
    let error = writer
        .write(&rows(vec![2], vec![None]), Guard::None)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsent, "{error}");
    writer.rollback().await.unwrap();
    assert_eq!(place.number("SELECT count(*) FROM t").await, 0);
}

async fn a_connection_lost_at_commit_is_in_doubt(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            // That of a table of its own stays deferred: it ends the session in COMMIT.
            "CREATE TABLE t (id int8, note text); CREATE TABLE u (id int8); \
             CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(5); RETURN NULL; END $$; \
             CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN INSERT INTO u VALUES (NEW.id); RETURN NULL; END $$; \
             CREATE TRIGGER tell AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION tell(); \
             CREATE CONSTRAINT TRIGGER die AFTER INSERT ON u DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION die()",
        )
        .await;
    let plan = place
        .plan("t", &["id", "note"], Operation::Insert, Method::Native)
        .await;
    let mut writer = place.writer(&plan).await;
    writer.begin(&[]).await.unwrap();
    written(&mut writer, &rows(vec![1], vec![None])).await;
    let error = writer.commit(&[]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InDoubt, "{error}");
}

async fn only_exact_keys_are_supported_for_an_upsert(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE t (a int4, b int4, c int4 UNIQUE DEFERRABLE, d int4, PRIMARY KEY (a, b)); \
             CREATE UNIQUE INDEX ON t (d) WHERE d > 0; CREATE TABLE keyless (a int4)",
        )
        .await;
    let table = place.table("t").await;
    let support = |key: &[&str], method| place.target.support(&table, &upsert(key), method);
    for method in METHODS {
        assert_eq!(support(&["b", "a"], method), Support::Yes);
        for key in [&["a"][..], &["c"], &["d"], &["a", "b", "c"]] {
            assert_eq!(
                support(key, method),
                Support::No {
                    why: format!(
                        "({}) is not a primary or unique key of {}.t",
                        key.join(", "),
                        place.schema
                    ),
                    instead: "--key a,b".to_owned(),
                }
            );
        }
    }
    let keyless = place.table("keyless").await;
    let Support::No { instead, .. } = place.target.support(&keyless, &upsert(&["a"]), Method::Native) else {
        panic!("there is no key");
    };
    assert_eq!(instead, "add a primary key or a unique constraint on (a)");
}

async fn a_partitioned_table_is_loaded_through_its_parent(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE t (id int8, note text, PRIMARY KEY (id)) PARTITION BY RANGE (id); \
             CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10); \
             CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (20)",
        )
        .await;
    for (operation, method) in [
        (Operation::Insert, Method::Native),
        (Operation::Insert, Method::Array),
        (upsert(&["id"]), Method::Native),
        (upsert(&["id"]), Method::Array),
    ] {
        place.run("TRUNCATE t").await;
        let plan = place.plan("t", &["id", "note"], operation, method).await;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        written(&mut writer, &rows(vec![1, 11], vec![None, None])).await;
        let failure = failed(
            &mut writer,
            &rows(vec![2, 30], vec![None, None]),
            Guard::Savepoint,
        )
        .await;
        assert_eq!(
            failure.error.code_text(),
            Some("23514"),
            "no partition for the row"
        );
        writer.commit(&[]).await.unwrap();
        assert_eq!(place.number("SELECT count(*) FROM high").await, 1);
    }
}
