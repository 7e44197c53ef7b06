//! Ignore, update and delete: what they do to rows, to nulls, to triggers, and how they count.

use std::{collections::BTreeMap, fmt::Write};

use tonnage::{
    ColumnType, Database as Loader, ErrorKind,
    operation::{Durability, Method, Mode, Operation, Support},
    plan::Create,
    target::{Failure, Guard, Outcome},
};

use super::{Database, PAIR, integer, pairs, text, upsert};

const ALL: [Method; 4] = [Method::Native, Method::Array, Method::Batch, Method::Single];
const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT NOT NULL CHECK (name <> 'bad'))";
const KEY: [(&str, ColumnType); 1] = [("id", ColumnType::Int64)];

fn key(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

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
async fn rows_that_an_operation_leaves_out_are_counted() {
    let rows: Pairs<'_> = &[
        (Some(1), "a"),
        (Some(2), "b"),
        (Some(1), "c"),
        (Some(2), "d"),
        (Some(7), "e"),
    ];
    let cases = [
        (
            ignore(&["id"]),
            3,
            vec![(1, "old"), (2, "b"), (7, "e"), (9, "kept")],
        ),
        (update(&["id"]), 3, vec![(1, "c"), (9, "kept")]),
        (delete(&["id"]), 4, vec![(9, "kept")]),
    ];
    for tail in ["", " STRICT", " WITHOUT ROWID", " STRICT, WITHOUT ROWID"] {
        for (operation, skipped, expected) in &cases {
            for method in methods(operation) {
                let schema = format!("{TABLE}{tail}; INSERT INTO t VALUES (1, 'old'), (9, 'kept')");
                let database = Database::new(&schema).await;
                let outcome = send(&database, operation, *method, Guard::None, rows).await;
                assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
                assert_eq!(outcome.skipped, *skipped, "{operation:?} by {method}{tail}");
                let expected: Vec<_> = expected
                    .iter()
                    .map(|(id, name)| [integer(*id), text(name)])
                    .collect();
                assert_eq!(
                    database.rows("SELECT id, name FROM t ORDER BY id"),
                    expected,
                    "{operation:?} by {method}{tail}"
                );
            }
        }
    }
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

/// Deterministic dice (xorshift), so that a failure can be repeated from the seed in its message.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

/// Whole loads against a model of one row at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_mean_what_they_say() {
    let tables = [
        (
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, v TEXT, w TEXT)",
            &["a"][..],
        ),
        (
            "CREATE TABLE t (v TEXT, a INT NOT NULL, b TEXT NOT NULL, w TEXT, PRIMARY KEY (b, a)) STRICT",
            &["b", "a"][..],
        ),
        (
            "CREATE TABLE t (a INT, w TEXT, b TEXT, v TEXT, PRIMARY KEY (a, b)) WITHOUT ROWID",
            &["a", "b"][..],
        ),
        (
            "CREATE TABLE t (a REAL, b TEXT, v TEXT, w TEXT, UNIQUE (a, b));
             CREATE TABLE log (a);
             CREATE TRIGGER l AFTER UPDATE ON t BEGIN INSERT INTO log VALUES (new.a); END",
            &["a", "b"][..],
        ),
    ];
    let modes = [
        Mode::Insert,
        Mode::Upsert,
        Mode::Ignore,
        Mode::Update,
        Mode::Delete,
    ];
    let methods = [
        None,
        Some(Method::Array),
        Some(Method::Batch),
        Some(Method::Single),
    ];
    // They wait for the disk more than they compute.
    let mut loads = tokio::task::JoinSet::new();
    let mut seed = 0_u64;
    for (schema, key) in tables {
        for mode in modes {
            for method in methods {
                if (mode, method) != (Mode::Update, Some(Method::Array)) {
                    seed += 1;
                    loads.spawn(check_load(schema, key, mode, method, seed));
                }
            }
        }
    }
    loads.join_all().await;
}

/// Key to `v` and `w`.
type Model = BTreeMap<(i64, String), (String, String)>;

async fn check_load(
    schema: &'static str,
    key: &'static [&'static str],
    mode: Mode,
    method: Option<Method>,
    seed: u64,
) {
    let what = format!("seed {seed}: {mode:?} by {method:?} into {schema}");
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    // With a write-ahead log a relaxed commit waits for no disk.
    let database = Database::new(&format!("PRAGMA journal_mode = WAL; {schema}")).await;
    let mut model = Model::new();
    for a in 0..40 {
        let b = if key.len() == 2 {
            format!("b{}", a % 3)
        } else {
            String::new()
        };
        model.insert((a, b), (format!("v{a}"), "kept".to_owned()));
    }
    let other = database.other();
    for ((a, b), (v, w)) in &model {
        other
            .execute("INSERT INTO t (a, b, v, w) VALUES (?1, ?2, ?3, ?4)", (a, b, v, w))
            .unwrap();
    }
    let mut csv = "v,a,b\n".to_owned();
    let (mut written, mut left_out) = (0, 0);
    for row in 0..250 {
        // An insert brings keys of its own; the other operations meet some twice and some that are not there.
        let a = match mode {
            Mode::Insert => 1_000 + row,
            _ => dice.below(60) as i64,
        };
        let b = if key.len() == 2 {
            format!("b{}", dice.below(3))
        } else {
            String::new()
        };
        let v = format!("n{row}");
        let shown = if b.is_empty() { "\"\"" } else { &b };
        writeln!(csv, "{v},{a},{shown}").unwrap();
        let there = model.get(&(a, b.clone())).cloned();
        let applied = match mode {
            Mode::Insert | Mode::Upsert => true,
            Mode::Ignore => there.is_none(),
            Mode::Update | Mode::Delete => there.is_some(),
        };
        if !applied {
            left_out += 1;
            continue;
        }
        written += 1;
        match mode {
            Mode::Delete => drop(model.remove(&(a, b))),
            _ => {
                let w = there.map_or_else(|| "none".to_owned(), |(_, w)| w);
                model.insert((a, b), (v, w));
            }
        }
    }
    let file = database.directory.path().join("rows.csv");
    std::fs::write(&file, csv).unwrap();
    let loader = Loader::connect(database.path().to_str().unwrap()).await.unwrap();
    let batch_rows = 1 + dice.below(90) as usize;
    let report = loader
        .load(file.to_str().unwrap())
        .table("t")
        .options(|options| {
            options.mode = mode;
            options.create = Create::No;
            options.method = method;
            options.batch_rows = Some(batch_rows);
            options.durability = Some(Durability::Relaxed);
            if mode != Mode::Insert {
                options.key = key.iter().map(|name| (*name).to_owned()).collect();
            }
        })
        .run()
        .await
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(report.rows.balances(), "{what}");
    let skipped = report.rows.skipped;
    let ignores = mode == Mode::Ignore;
    assert_eq!(
        (report.rows.written, skipped.conflict, skipped.unmatched),
        (
            written,
            if ignores { left_out } else { 0 },
            if ignores { 0 } else { left_out }
        ),
        "{what}"
    );
    let found: Vec<_> = database
        .rows("SELECT CAST(a AS INT), b, v, coalesce(w, 'none') FROM t ORDER BY a, b")
        .into_iter()
        .collect();
    let expected: Vec<_> = model
        .iter()
        .map(|((a, b), (v, w))| vec![integer(*a), text(b), text(v), text(w)])
        .collect();
    assert_eq!(found, expected, "{what}");
}
