//! Every operation by every method: what it does, what it counts, and what it refuses.

use std::sync::Arc;

use arrow::array::{Array, Int64Array, RecordBatch, StringArray};
use tonnage::{
    operation::{Method, Operation, Support},
    target::{Failure, Guard},
    types::ColumnType,
};

use super::{Server, TestDatabase, batch};

on_every_server! {
    what_an_operation_leaves_out_is_counted,
    an_update_by_a_key_of_the_servers_keeps_the_last_row_and_counts_all,
    rows_that_a_trigger_leaves_out_do_not_pass_for_skipped,
    a_row_a_statement_names_the_first_bad_row,
    a_rule_that_rewrites_an_operation_is_refused,
}

const METHODS: [Method; 4] = [Method::Native, Method::Array, Method::Batch, Method::Single];

fn key() -> Vec<String> {
    vec!["k".to_owned()]
}

fn ignore() -> Operation {
    Operation::Ignore { key: key() }
}

fn update() -> Operation {
    Operation::Update { key: key() }
}

fn delete() -> Operation {
    Operation::Delete { key: key() }
}

/// Keys and values.
type Given = &'static [(Option<i64>, &'static str)];

/// The columns that an operation is given.
fn columns(operation: &Operation) -> &'static [&'static str] {
    match operation {
        Operation::Delete { .. } => &["k"],
        _ => &["v", "k"],
    }
}

/// Rows of a key of type `ty` and a value, in the columns of `operation`.
fn rows(operation: &Operation, ty: ColumnType, given: &[(Option<i64>, &str)]) -> RecordBatch {
    let keys: Arc<dyn Array> = match ty {
        ColumnType::Int64 => Arc::new(given.iter().map(|(k, _)| *k).collect::<Int64Array>()),
        _ => Arc::new(
            given
                .iter()
                .map(|(k, _)| k.map(|k| k.to_string()))
                .collect::<StringArray>(),
        ),
    };
    let values = Arc::new(given.iter().map(|(_, v)| Some(*v)).collect::<StringArray>());
    match operation {
        Operation::Delete { .. } => batch(&[(ty, keys)]),
        _ => batch(&[(ColumnType::TEXT, values), (ty, keys)]),
    }
}

async fn contents(place: &TestDatabase) -> String {
    let found = place
        .texts(
            "SELECT string_agg(coalesce(trim(k::text), '-') || v, ' ' ORDER BY trim(k::text)::int8 NULLS LAST, v) FROM t WHERE v <> 'heir'",
        )
        .await;
    found[0].clone().unwrap_or_default()
}

const TRIGGER: &str = "CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS \
     $$ BEGIN IF TG_OP = 'DELETE' THEN RETURN old; END IF; RETURN new; END $$; \
     CREATE TRIGGER seen BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION seen()";

/// Tables that mean the same and take different ways.
fn tables() -> Vec<String> {
    let plain = "CREATE TABLE t (k int8 UNIQUE, v text)";
    let server_only = "CREATE TABLE t (k char(6) UNIQUE, v text)";
    let partitioned = "CREATE TABLE t (k int8, v text, UNIQUE (k)) PARTITION BY RANGE (k); \
         CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (3); CREATE TABLE high PARTITION OF t DEFAULT";
    vec![
        plain.to_owned(),
        format!("{plain}; CREATE TABLE heir () INHERITS (t); INSERT INTO heir VALUES (2, 'heir')"),
        "CREATE TABLE t (w text GENERATED ALWAYS AS (v || '!') STORED, v text, k int8 UNIQUE, d int4 DEFAULT 7)"
            .to_owned(),
        format!("{plain}; {TRIGGER}"),
        server_only.to_owned(),
        format!("{server_only}; {TRIGGER}"),
        partitioned.to_owned(),
        format!("{partitioned}; {TRIGGER}"),
        "CREATE TABLE t (k numeric UNIQUE, v text)".to_owned(),
    ]
}

async fn what_an_operation_leaves_out_is_counted(server: Server) {
    let place = TestDatabase::on(server).await;
    let cases: [(Operation, Given, &str, u64); 6] = [
        (
            ignore(),
            &[
                (Some(2), "a"),
                (Some(3), "b"),
                (Some(3), "c"),
                (None, "d"),
                (None, "e"),
            ],
            "1x 2x 3b -d -e",
            2,
        ),
        (ignore(), &[(Some(1), "a"), (Some(2), "b")], "1x 2x", 2),
        (
            update(),
            &[(Some(2), "a"), (Some(4), "b"), (None, "c")],
            "1x 2a",
            2,
        ),
        (update(), &[(Some(2), "a"), (Some(1), "b")], "1b 2a", 0),
        (
            delete(),
            &[(Some(2), ""), (Some(2), ""), (Some(4), ""), (None, "")],
            "1x",
            3,
        ),
        (delete(), &[(Some(2), ""), (Some(1), "")], "", 0),
    ];
    for table in tables() {
        for (operation, given, expected, left_out) in &cases {
            for method in METHODS {
                place
                    .run(&format!(
                        "DROP TABLE IF EXISTS t CASCADE; DROP FUNCTION IF EXISTS seen; {table}; \
                         INSERT INTO t (k, v) VALUES (1, 'x'), (2, 'x')"
                    ))
                    .await;
                let plan = place
                    .plan("t", columns(operation), operation.clone(), method)
                    .await;
                assert_eq!(place.target.support(&plan.table, operation, method), Support::Yes);
                let ty = plan.columns[plan.columns.len() - 1].ty;
                let mut writer = place.writer(&plan).await;
                // The second write of a transaction meets what the first has done, and nothing of its rows.
                writer.begin(&[]).await.unwrap();
                let (first, rest) = given.split_at(given.len() / 2);
                let mut skipped = 0;
                for (part, guard) in [(first, Guard::None), (rest, Guard::Savepoint)] {
                    let outcome = writer.write(&rows(operation, ty, part), guard).await.unwrap();
                    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
                    skipped += outcome.skipped;
                }
                writer.rollback().await.unwrap();
                let what = format!("{} by {method} into {table}", operation.name());
                assert_eq!(skipped, *left_out, "in two writes, {what}");

                writer.begin(&[]).await.unwrap();
                let outcome = writer
                    .write(&rows(operation, ty, given), Guard::None)
                    .await
                    .unwrap();
                assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
                writer.commit(&[]).await.unwrap();
                let found = contents(&place).await;
                assert_eq!(
                    (found.as_str(), outcome.skipped),
                    (*expected, *left_out),
                    "{what}"
                );
            }
        }
    }
}

async fn an_update_by_a_key_of_the_servers_keeps_the_last_row_and_counts_all(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run("CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
        .await;
    for key in ["char(6)", "numeric", "text COLLATE loose"] {
        for method in METHODS {
            place
                .run(&format!(
                    "DROP TABLE IF EXISTS t; CREATE TABLE t (k {key} PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'x'), (2, 'x')"
                ))
                .await;
            let plan = place.plan("t", &["v", "k"], update(), method).await;
            let mut writer = place.writer(&plan).await;
            let given = [
                (Some(1), "a"),
                (Some(3), "b"),
                (Some(1), "c"),
                (Some(3), "d"),
                (Some(1), "e"),
            ];
            writer.begin(&[]).await.unwrap();
            let given = rows(&update(), plan.columns[1].ty, &given);
            let outcome = writer.write(&given, Guard::None).await.unwrap();
            assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
            writer.commit(&[]).await.unwrap();
            assert_eq!(
                (contents(&place).await.as_str(), outcome.skipped),
                ("1e 2x", 2),
                "{key} by {method}"
            );
        }
    }
}

async fn rows_that_a_trigger_leaves_out_do_not_pass_for_skipped(server: Server) {
    let place = TestDatabase::on(server).await;
    let cases = [
        (ignore(), "INSERT", "1x 2x 4x 6a"),
        (update(), "UPDATE", "1x 2a 4x"),
        (delete(), "DELETE", "1x 4x"),
    ];
    for (operation, event, expected) in cases {
        for method in METHODS {
            place
                .run(&format!(
                    "DROP TABLE IF EXISTS t; DROP FUNCTION IF EXISTS odd; CREATE TABLE t (k int8 PRIMARY KEY, v text); \
                     INSERT INTO t VALUES (1, 'x'), (2, 'x'), (4, 'x'); \
                     CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS \
                     $$ BEGIN IF TG_OP = 'DELETE' THEN IF old.k = 1 THEN RETURN NULL; END IF; RETURN old; END IF; \
                              IF new.k IN (1, 7) THEN RETURN NULL; END IF; RETURN new; END $$; \
                     CREATE TRIGGER odd BEFORE {event} ON t FOR EACH ROW EXECUTE FUNCTION odd()"
                ))
                .await;
            let plan = place
                .plan("t", columns(&operation), operation.clone(), method)
                .await;
            let mut writer = place.writer(&plan).await;
            let suppressed = if operation == ignore() { 7 } else { 1 };
            let applied = if operation == ignore() { 6 } else { 2 };
            let rows = |keys: &[i64]| {
                let given: Vec<_> = keys.iter().map(|k| (Some(*k), "a")).collect();
                rows(&operation, ColumnType::Int64, &given)
            };
            writer.begin(&[]).await.unwrap();
            let given =
                rows(&[applied, suppressed, 9].map(|k| if operation == ignore() && k == 9 { 1 } else { k }));
            let failure = writer.write(&given, Guard::Savepoint).await.unwrap().failure;
            let Failure {
                applied: kept,
                suspect,
                intact,
                error,
                ..
            } = failure.expect("a row is suppressed");
            assert_eq!((kept, intact, error.code_text()), (0, true, Some("22000")));
            let named = matches!(method, Method::Batch | Method::Single);
            assert_eq!(suspect, named.then_some(1), "{event} by {method}");
            assert!(
                error
                    .to_string()
                    .ends_with("rows: a trigger or rule left the others out"),
                "{error}"
            );
            let outcome = writer.write(&rows(&[applied]), Guard::Savepoint).await.unwrap();
            assert!(outcome.failure.is_none() && outcome.skipped == 0);
            writer.commit(&[]).await.unwrap();
            assert_eq!(contents(&place).await, expected, "{event} by {method}");
        }
    }
}

async fn a_row_a_statement_names_the_first_bad_row(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run("CREATE TABLE t (k int8 PRIMARY KEY, v varchar(3) CHECK (v <> 'bad')); INSERT INTO t VALUES (-1, 'x')")
        .await;
    let upsert = Operation::Upsert { key: key() };
    for method in [Method::Batch, Method::Single] {
        for operation in [Operation::Insert, upsert.clone(), ignore()] {
            let plan = place.plan("t", &["v", "k"], operation.clone(), method).await;
            let mut writer = place.writer(&plan).await;
            // More rows than are sent without an answer, and more than one chunk of them.
            const ROWS: usize = 20_000;
            for (at, bad, code) in [
                (0, "bad", "23514"),
                (300, "bad", "23514"),
                (ROWS - 1, "bad", "23514"),
                // Found before it is sent.
                (2, "long", "22001"),
            ] {
                let given: Vec<_> = (0..ROWS)
                    .map(|row| {
                        (
                            Some(row as i64),
                            if row == at || row == ROWS - 1 { bad } else { "ok" },
                        )
                    })
                    .collect();
                for guard in [Guard::None, Guard::Savepoint] {
                    writer.begin(&[]).await.unwrap();
                    let outcome = writer
                        .write(&rows(&operation, ColumnType::Int64, &given), guard)
                        .await
                        .unwrap();
                    let failure = outcome.failure.expect("a row is bad");
                    assert_eq!(failure.error.code_text(), Some(code));
                    assert_eq!(
                        (failure.applied, failure.suspect),
                        (0, Some(at)),
                        "{}",
                        failure.error
                    );
                    if guard == Guard::Savepoint {
                        assert!(failure.intact);
                        let good = rows(&operation, ColumnType::Int64, &[(Some(-2), "ok")]);
                        assert!(writer.write(&good, guard).await.unwrap().failure.is_none());
                        assert_eq!(contents(&place).await, "-1x");
                    }
                    writer.rollback().await.unwrap();
                }
            }
        }
    }
    assert_eq!(contents(&place).await, "-1x");
}

async fn a_rule_that_rewrites_an_operation_is_refused(server: Server) {
    let place = TestDatabase::on(server).await;
    let upsert = Operation::Upsert { key: key() };
    let cases: [(&str, &[Operation], &[Operation]); 3] = [
        (
            "INSERT",
            &[upsert.clone(), ignore()],
            &[Operation::Insert, update(), delete()],
        ),
        (
            "UPDATE",
            &[upsert.clone(), ignore(), update()],
            &[Operation::Insert, delete()],
        ),
        (
            "DELETE",
            &[delete()],
            &[Operation::Insert, upsert.clone(), ignore(), update()],
        ),
    ];
    for (event, refused, allowed) in cases {
        place
            .run(&format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (k int8 PRIMARY KEY, v text); \
                 CREATE RULE elsewhere AS ON {event} TO t DO INSTEAD NOTHING"
            ))
            .await;
        let table = place.table("t").await;
        for method in METHODS {
            for operation in refused {
                let Support::No { why, instead } = place.target.support(&table, operation, method) else {
                    panic!("{event} has a rule, {operation:?}");
                };
                assert_eq!(
                    why,
                    format!("the rule elsewhere of {} rewrites what would be done", table.name)
                );
                assert!(instead.contains("DISABLE RULE elsewhere"), "{instead}");
            }
            for operation in allowed {
                let support = place.target.support(&table, operation, method);
                // COPY passes by the rule; the rows of an INSERT would be counted, wherever they went.
                let passes = event != "INSERT" || *operation != Operation::Insert || method == Method::Native;
                assert_eq!(support == Support::Yes, passes, "{event} {operation:?} {method}");
            }
        }
    }
}
