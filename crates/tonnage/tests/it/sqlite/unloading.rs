//! Unloads: what is read is what is there, all of it, once, and of one moment.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use arrow::{array::AsArray, datatypes::Int64Type};
use rusqlite::Connection;

use super::Database;
use crate::common::keys;

/// Every way to a file and back.
const FORMATS: [&str; 5] = ["csv", "jsonl", "parquet", "arrow", "jsonl.gz"];

async fn library(db: &Database) -> tonnage::Database {
    let url = db.path().display().to_string();
    tonnage::Database::connect(&url).await.unwrap()
}

/// Unloads by every way, loads into a table of the same columns, and compares values with their storage classes.
async fn round_trip(columns: &str, rows: &str, formats: &[&str]) {
    let db = Database::new(&format!(
        "CREATE TABLE t ({columns}); INSERT INTO t VALUES {rows}"
    ))
    .await;
    let library = library(&db).await;
    let all = |table: &str| db.rows(&format!("SELECT * FROM {table} ORDER BY rowid"));
    for format in formats {
        let path = db.directory.path().join(format!("t.{format}"));
        let written = library.unload("t").to(&path).run().await;
        let written = written.unwrap_or_else(|e| panic!("{format}: {e}"));
        db.other()
            .execute_batch(&format!(
                "DROP TABLE IF EXISTS again; CREATE TABLE again ({columns})"
            ))
            .unwrap();
        let load = library.load(path.display().to_string()).table("again").jobs(1);
        let loaded = load.run().await.unwrap_or_else(|e| panic!("{format}: {e}"));
        assert_eq!(written.rows, loaded.rows.written, "{format}");
        assert_eq!(all("again"), all("t"), "{format}");
    }
}

#[tokio::test]
async fn every_type_comes_back_as_it_was() {
    round_trip(
        "id INTEGER PRIMARY KEY, b BOOLEAN, i INTEGER, r REAL, d DECIMAL(10,2), n NUMERIC, s TEXT, v VARCHAR(5), y BLOB, \
         da DATE, ti TIME, ts TIMESTAMP, tz TIMESTAMPTZ, u UUID, j JSON, big TEXT",
        r#"(1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        (2, 1, 9223372036854775807, 1.7976931348623157e308, 99999999.99, 9223372036854775807, '', '', x'', '9999-12-31',
         '23:59:59.999999', '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59.999999+00:00',
         'ffffffff-ffff-ffff-ffff-ffffffffffff', '{"a":[1,null,"x"]}', '12345678901234567890.10'),
        (3, 0, -9223372036854775808, -1.5, -0.01, -0.5, 'null', 'a"b,c', x'00ff0a', '0001-01-01', '00:00:00',
         '0001-01-01 00:00:00', '0001-01-01 00:00:00+00:00', '00000000-0000-0000-0000-000000000000', '"text"', '007'),
        (4, 1, 0, 5e-324, 0, 123456789012345.0, 'line
break é', '\.', x'5c78', '1970-01-01', '12:34:56', '1969-12-31 23:59:59.500000', '1970-01-01 00:00:00+00:00',
         '123e4567-e89b-12d3-a456-426614174000', 'true', ' 1 '),
        (5, 1, -1, 9e999, 12, 1e-10, '1', 'true', x'31', '2024-02-29', '00:00:00.000001', '2024-02-29 00:00:00',
         '2024-02-29 00:00:00+00:00', '123e4567-e89b-12d3-a456-426614174000', '[1.50]', 'é')"#,
        &FORMATS,
    )
    .await;
}

#[tokio::test]
async fn the_year_zero_comes_back_where_the_format_has_it() {
    round_trip(
        "da DATE, ts TIMESTAMP",
        "('0000-01-01', '0000-01-01 00:00:00'), ('0000-12-31', '0000-02-29 23:59:59.999999')",
        &["parquet", "arrow"],
    )
    .await;
}

#[tokio::test]
async fn a_column_without_a_type_is_what_it_holds() {
    for (rows, wanted) in [
        ("(1), (NULL), (-5)", "int64"),
        ("(1.5), (NULL), (-2.0)", "float64"),
        (
            "(1.5), (2), (3.0), (0.30000000000000004), (1e300), (-9e999), (9007199254740993), (NULL)",
            "numeric",
        ),
        ("('1'), ('a')", "text"),
        ("(x'00'), (x'')", "bytes"),
        ("(NULL)", "text"),
    ] {
        let db = Database::new(&format!("CREATE TABLE t (a); INSERT INTO t VALUES {rows}")).await;
        let batches = library(&db).await.unload("t").batches().await.unwrap();
        let ty = tonnage::ColumnType::of_field(batches.schema().field(0)).unwrap();
        assert_eq!(ty.to_string(), wanted, "{rows}");
        // CSV says nothing of a type that neither column has.
        let formats: &[&str] = match wanted {
            "text" => &["csv", "parquet"],
            _ => &["parquet"],
        };
        round_trip("a", rows, formats).await;
    }
    let db = Database::new("CREATE TABLE t (a); INSERT INTO t VALUES (1), ('x'), (x'00ff')").await;
    let refused = library(&db).await.unload("t").batches().await.err().unwrap();
    assert_eq!(
        refused.to_string(),
        "column 'a' holds integer values and text values and blob values"
    );
    assert_eq!(refused.hint_text(), Some("--text a gives them all as text"));
    let path = db.directory.path().join("t.csv");
    library(&db)
        .await
        .unload("t")
        .text(["a"])
        .to(&path)
        .run()
        .await
        .unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), "a\n1\nx\n\\x00ff\n");
}

#[tokio::test]
async fn a_value_of_another_class_names_its_row() {
    for (declared, value, wanted) in [
        ("INTEGER", "'x'", "the text 'x' is not an integer"),
        ("INTEGER", "1.5", "the real 1.5 is not an integer"),
        ("BOOLEAN", "2", "the integer 2 is not a truth value (0 or 1)"),
        ("DATE", "1700000000", "the integer 1700000000 is not a date"),
        ("DATE", "'2023-02-29'", "the text '2023-02-29' is not a date"),
        (
            "TIMESTAMPTZ",
            "'2024-01-01 00:00:00'",
            "the text '2024-01-01 00:00:00' is not an instant",
        ),
        ("TEXT", "x'00ff'", "the blob \\x00ff is not text"),
        ("BLOB", "'x'", "the text 'x' is not a blob"),
        ("DECIMAL(5,2)", "1.234", "the real 1.234 is not a decimal(5,2)"),
        ("DECIMAL(5,2)", "1000", "the integer 1000 is not a decimal(5,2)"),
        ("NUMERIC", "'x'", "the text 'x' is not a number"),
        ("UUID", "'x'", "the text 'x' is not a uuid"),
        ("JSON", "'{'", "the text '{' is not JSON"),
        ("TEXT", "CAST(x'ff' AS TEXT)", "the text is not UTF-8"),
    ] {
        let sql = format!(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v {declared}); INSERT INTO t VALUES (1, NULL), (7, {value})"
        );
        let db = Database::new(&sql).await;
        let path = db.directory.path().join("t.csv");
        let refused = library(&db).await.unload("t").to(&path).run().await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("column 'v' of the row with id = 7: {wanted}")
        );
        assert_eq!(
            refused.hint_text(),
            Some("--text v gives every value of the column as text")
        );
        assert!(!path.exists());
        if wanted != "the text is not UTF-8" {
            library(&db)
                .await
                .unload("t")
                .text(["v"])
                .to(&path)
                .run()
                .await
                .unwrap();
        }
    }
}

#[tokio::test]
async fn other_spellings_of_times_are_understood() {
    let db = Database::new(
        "CREATE TABLE t (ts TIMESTAMP, tz TIMESTAMPTZ); INSERT INTO t VALUES ('2024-01-01T10:00', '2024-01-01T10:00:00+02:00')",
    )
    .await;
    let path = db.directory.path().join("t.csv");
    library(&db).await.unload("t").to(&path).run().await.unwrap();
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        "ts,tz\n2024-01-01 10:00:00.000000,2024-01-01 08:00:00.000000+00\n"
    );
}

#[tokio::test]
async fn however_it_is_cut_every_row_comes_once() {
    // Rowids in clusters, at both ends of what there is.
    let db = Database::new(
        "CREATE TABLE t (k TEXT, s TEXT COLLATE NOCASE, rowid INTEGER, m);
         WITH RECURSIVE g(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM g WHERE n < 29999)
         INSERT INTO t (_rowid_, k, s, rowid, m) SELECT
             CASE n % 3 WHEN 0 THEN n WHEN 1 THEN n - 9223372036854775807 ELSE 9223372036854775807 - n END,
             n, CASE WHEN n % 10 = 0 THEN NULL WHEN n % 2 = 0 THEN 'Same' ELSE 'v''' || n END, n % 4,
             CASE n % 4 WHEN 0 THEN n WHEN 1 THEN n / 7.0 WHEN 2 THEN 't' || n ELSE NULL END FROM g;
         CREATE VIEW v AS SELECT k, s FROM t;
         CREATE TABLE w (k TEXT PRIMARY KEY, s TEXT) WITHOUT ROWID; INSERT INTO w SELECT k, s FROM t;
         CREATE TABLE empty (k TEXT)",
    )
    .await;
    let mut wanted: Vec<String> = (0..30_000).map(|n| n.to_string()).collect();
    wanted.sort();
    let library = library(&db).await;
    for (name, jobs) in [("t", 3), ("v", 1), ("w", 1), ("empty", 1)] {
        let path = db.directory.path().join("one.csv");
        let report = library
            .unload(name)
            .columns(["k"])
            .jobs(3)
            .to(path)
            .overwrite()
            .run()
            .await
            .unwrap();
        assert_eq!(report.jobs, jobs, "{name}");
        let found = keys(library.unload(name).columns(["k"]).jobs(3), db.directory.path()).await;
        match name {
            "empty" => assert!(found.is_empty()),
            _ => assert!(found == wanted, "{name}: {} rows", found.len()),
        }
    }
    for (name, column) in [("t", "k"), ("t", "s"), ("t", "m"), ("v", "s"), ("w", "k")] {
        let unload = library.unload(name).columns(["k"]).jobs(3).split_by(column);
        let found = keys(unload, db.directory.path()).await;
        assert!(found == wanted, "{name} by {column}: {} rows", found.len());
    }
    let some = library
        .unload("t")
        .columns(["k"])
        .jobs(3)
        .filter("CAST(k AS INTEGER) < 3 -- few");
    assert_eq!(keys(some, db.directory.path()).await, ["0", "1", "2"]);
    let few = library.unload("t").columns(["k"]).jobs(3).limit(5);
    assert_eq!(keys(few, db.directory.path()).await.len(), 5);
    let sorted = library.unload_query("SELECT k FROM t ORDER BY CAST(k AS INTEGER) DESC LIMIT 2;");
    assert_eq!(keys(sorted, db.directory.path()).await, ["29998", "29999"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_it_is_of_one_moment() {
    for journal in ["WAL", "DELETE"] {
        let db = Database::new(&format!(
            "PRAGMA journal_mode = {journal};
             CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER NOT NULL, w TEXT);
             WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < 40000)
             INSERT INTO t SELECT n, 0, 'some text' FROM g"
        ))
        .await;
        let done = std::sync::Arc::new(AtomicBool::new(false));
        let (path, until) = (db.path(), done.clone());
        let (begun, first) = std::sync::mpsc::channel();
        let writing = std::thread::spawn(move || {
            let connection = Connection::open(path).unwrap();
            connection.busy_timeout(Duration::from_secs(60)).unwrap();
            let mut rounds = 0;
            while !until.load(Ordering::Relaxed) {
                let (from, to) = (rounds * 7919 % 40_000 + 1, rounds * 104_729 % 40_000 + 1);
                connection
                    .execute_batch(&format!(
                        "BEGIN IMMEDIATE; UPDATE t SET v = v - 1 WHERE id = {from};
                         UPDATE t SET v = v + 1 WHERE id = {to}; COMMIT"
                    ))
                    .unwrap();
                rounds += 1;
                // Only the first is waited for.
                let _ = begun.send(());
                // Leaves others a chance: SQLite's lock is not fair.
                std::thread::sleep(Duration::from_micros(200));
            }
            rounds
        });
        first.recv().expect("it writes");
        let library = library(&db).await;
        for _ in 0..3 {
            let mut batches = library.unload("t").jobs(3).batches().await.unwrap();
            let (mut ids, mut sum) = (HashSet::new(), 0);
            while let Some(batch) = batches.next().await.unwrap() {
                for id in batch.column(0).as_primitive::<Int64Type>().values() {
                    assert!(ids.insert(*id), "row {id} came twice");
                }
                sum += batch
                    .column(1)
                    .as_primitive::<Int64Type>()
                    .values()
                    .iter()
                    .sum::<i64>();
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            assert_eq!((ids.len(), sum), (40_000, 0), "{journal}");
            drop(batches);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        done.store(true, Ordering::Relaxed);
        assert!(writing.join().unwrap() > 0, "nothing was written meanwhile");
    }
}

#[tokio::test]
async fn where_writers_cannot_be_held_off_one_reads() {
    let db = Database::with_options(
        "PRAGMA journal_mode = WAL; CREATE TABLE t (id INTEGER PRIMARY KEY);
         WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < 30000) INSERT INTO t SELECT n FROM g",
        "",
    )
    .await;
    let other = db.other();
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM t").unwrap();
    let url = format!("sqlite:{}?busy_timeout_ms=10", db.path().display());
    let library = tonnage::Database::connect(&url).await.unwrap();
    let path = db.directory.path().join("t.parquet");
    let report = library.unload("t").jobs(3).to(&path).run().await.unwrap();
    assert_eq!((report.rows, report.jobs), (30_000, 1));
    assert_eq!(
        report.notes,
        [
            "one job: another process is writing to the file, so writers cannot be held off while several begin to read"
        ]
    );
}

#[tokio::test]
async fn what_cannot_be_read_is_told_before_a_file_is_made() {
    let db = Database::new("CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)").await;
    let library = library(&db).await;
    let path = db.directory.path().join("t.csv");
    let cases = [
        (library.unload("tt"), "there is no table tt"),
        (library.unload("s.t"), "there is no schema 's'"),
        (library.unload("t").columns(["nope"]), "t has no column 'nope'"),
        (
            library.unload("t").filter("nope = 1"),
            "the condition (nope = 1): no such column: nope",
        ),
        (
            library.unload("t").split_by("nope"),
            "there is no column 'nope' to split by",
        ),
        (
            library.unload_query("SELECT 1 AS a; SELECT 2"),
            "there is more than one statement",
        ),
        (
            library.unload_query("SELECT ?1 AS a"),
            "the query has parameters, and there is nothing to fill them with",
        ),
        (
            library.unload_query("DELETE FROM t RETURNING id"),
            "the query would change the database",
        ),
        (
            library.unload_query("SELECT 1 AS a, 2 AS a"),
            "column 'a' is there twice, and columns are identified by their names",
        ),
    ];
    for (unload, wanted) in cases {
        let refused = unload.to(&path).run().await.unwrap_err();
        assert_eq!(refused.to_string(), wanted);
        assert!(!path.exists());
    }
    let absent = db.directory.path().join("absent.db");
    let absent = tonnage::Database::connect(&absent.display().to_string())
        .await
        .unwrap();
    let refused = absent.unload("t").to(&path).run().await.unwrap_err();
    assert!(
        refused.to_string().ends_with("absent.db does not exist"),
        "{refused}"
    );
}
