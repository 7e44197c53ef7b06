//! Rows of keys.

use std::sync::Arc;

use tonnage::{target::Target, targets::sqlite::SqliteTarget};

use super::Database;
use crate::gets::{RELATED, case, check, check_composite, check_related, collect, collect_while, get};

async fn target(database: &Database) -> Arc<dyn Target> {
    let url = format!("sqlite:{}", database.path().display());
    Arc::new(SqliteTarget::connect(&url).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_every_type() {
    let database = Database::new(
        "CREATE TABLE ints (k INTEGER PRIMARY KEY, v TEXT);
         INSERT INTO ints VALUES (-5, 'minus'), (7, 'seven'), (9223372036854775807, 'most');
         CREATE TABLE texts (k TEXT PRIMARY KEY, v TEXT);
         INSERT INTO texts VALUES ('a', 'lower'), ('A', 'upper'), ('', 'empty'), ('007', 'agent'), ('é', 'accent');
         CREATE TABLE nocase (k TEXT COLLATE NOCASE PRIMARY KEY, v TEXT);
         INSERT INTO nocase VALUES ('Abc', 'abc');
         CREATE TABLE indexed (k TEXT, v TEXT);
         CREATE UNIQUE INDEX by_k ON indexed (k COLLATE NOCASE);
         INSERT INTO indexed VALUES ('Abc', 'abc');
         CREATE TABLE uuids (k UUID PRIMARY KEY, v TEXT);
         INSERT INTO uuids VALUES ('6f1f1d70-2b3c-4d5e-8f90-a1b2c3d4e5f6', 'one');
         CREATE TABLE dates (k DATE PRIMARY KEY, v TEXT);
         INSERT INTO dates VALUES ('2024-02-29', 'leap'), ('0001-01-01', 'first');
         CREATE TABLE decimals (k DECIMAL(10,2) PRIMARY KEY, v TEXT);
         INSERT INTO decimals VALUES (12.5, 'half'), (3, 'three');
         CREATE TABLE reals (k REAL PRIMARY KEY, v TEXT);
         INSERT INTO reals VALUES (0.5, 'half'), (0.0, 'zero');
         CREATE TABLE blobs (k BLOB PRIMARY KEY, v TEXT) WITHOUT ROWID;
         INSERT INTO blobs VALUES (x'00ff', 'bytes'), (x'', 'none');
         CREATE TABLE numeric (k NUMERIC PRIMARY KEY, v TEXT);
         INSERT INTO numeric VALUES (1, 'one'), (2.5, 'more');
         CREATE TABLE string (k STRING PRIMARY KEY, v TEXT);
         INSERT INTO string VALUES ('x', 'text'), (7, 'number');",
    )
    .await;
    let cases = [
        case(
            "ints",
            &["7", "8", "-5", "9223372036854775807", ""],
            &["seven", "minus", "most"],
            &["8", ""],
        ),
        case(
            "texts",
            &["A", "b", "\"\"", "007", "7", "é", "a"],
            &["upper", "empty", "agent", "accent", "lower"],
            &["b", "7"],
        ),
        case("nocase", &["ABC", "abd", "abc"], &["abc", "abc"], &["abd"]),
        case("uuids", &["6F1F1D702B3C4D5E8F90A1B2C3D4E5F6"], &["one"], &[]),
        case(
            "dates",
            &["2024-02-29", "2023-02-28", "0001-01-01"],
            &["leap", "first"],
            &["2023-02-28"],
        ),
        case(
            "decimals",
            &["12.50", "3", "12.51"],
            &["half", "three"],
            &["12.51"],
        ),
        case("reals", &["5e-1", "NaN", "-0"], &["half", "zero"], &["NaN"]),
        case("blobs", &["\\x00FF", "\\x00", "\\x"], &["bytes", "none"], &["00"]),
        case(
            "numeric",
            &["1.0", "2.50", "0.3333333333333333333333", "1"],
            &["one", "more", "one"],
            &["0.3333333333333333333333"],
        ),
        case("string", &["x", "7", "y"], &["text", "number"], &["y"]),
    ];
    check(&target(&database).await, &cases).await;
    let got = collect(get(&target(&database).await, "indexed").by(["k"]).keys(["aBC"]))
        .await
        .unwrap();
    assert_eq!(got.rows, ["Abc|abc"], "compared as the key's index does");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_several_columns() {
    let database = Database::new(
        "CREATE TABLE t (a INTEGER, b INTEGER, v TEXT, PRIMARY KEY (a, b));
         WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 4999)
         INSERT INTO t SELECT i / 50, i % 50, (i / 50) || '-' || (i % 50) FROM n;",
    )
    .await;
    check_composite(&target(&database).await, "t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_not_of_its_column_is_an_error_that_names_its_row() {
    let database = Database::new(
        "CREATE TABLE t (k INTEGER PRIMARY KEY, placed DATE);
         INSERT INTO t VALUES (1, '2024-01-01'), (2, 'soon');",
    )
    .await;
    let target = target(&database).await;
    let got = collect(get(&target, "t").keys(["1"])).await.unwrap();
    assert_eq!(got.rows, ["1|2024-01-01"]);
    let error = collect(get(&target, "t").keys(["1", "2"])).await.err().unwrap();
    assert_eq!(
        error.to_string(),
        "column 'placed' of the row with k = 2: the text 'soon' is not a date"
    );
    let get = get(&target, "t").keys(["1", "2"]);
    let got = collect(get.options(|options| options.texts = vec!["placed".to_owned()]))
        .await
        .unwrap();
    assert_eq!(got.rows, ["1|2024-01-01", "2|soon"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_other_tables() {
    for journal in ["WAL", "DELETE"] {
        let database = Database::new(&format!("PRAGMA journal_mode = {journal};\n{RELATED};")).await;
        check_related(&target(&database).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_keys_as_people_write_them() {
    let database = Database::new(
        "CREATE TABLE Parents (a INTEGER, b TEXT COLLATE NOCASE, PRIMARY KEY (b, a));
         CREATE TABLE children (k INTEGER PRIMARY KEY, x TEXT COLLATE NOCASE, y INTEGER, FOREIGN KEY (x, y) REFERENCES parents);
         CREATE TABLE strays (k INTEGER PRIMARY KEY, p INTEGER REFERENCES nowhere (id));
         CREATE TABLE exact (k INTEGER PRIMARY KEY, x TEXT, y INTEGER, FOREIGN KEY (x, y) REFERENCES parents (b, a));
         INSERT INTO parents VALUES (1, 'Ada'), (2, 'Ada');
         INSERT INTO children VALUES (7, 'ADA', 1), (8, 'ada', 2), (9, 'Ada', NULL);
         INSERT INTO exact VALUES (7, 'ADA', 1), (8, 'Ada', 1)",
    )
    .await;
    let target = target(&database).await;
    let of = |key: &'static str| get(&target, "parents").keys([key]);
    let got = collect(of("ada,1").with("children")).await.unwrap();
    assert_eq!(got.related, [["7|ADA|1"]], "compared as the columns compare");
    let got = collect(get(&target, "children").keys(["8"]).with("parents"))
        .await
        .unwrap();
    assert_eq!(got.related, [["2|Ada"]]);
    let got = collect(get(&target, "exact").keys(["7"]).with("parents"))
        .await
        .unwrap();
    assert_eq!(got.related, [["1|Ada"]]);
    // Here SQLite's foreign key takes texts for equal that the column does not.
    let error = collect(of("Ada,1").with("exact")).await.err().unwrap();
    assert_eq!(
        error.to_string(),
        "the foreign key exact(x, y) = Parents(b, a) cannot be followed to its rows: 'x' compares as BINARY does, 'b' as \
         NOCASE"
    );
    let got = collect(of("Ada,1").with("exact").on("exact(x, y) = parents(b, a)"))
        .await
        .unwrap();
    assert_eq!(got.related, [["8|Ada|1"]]);
    let error = collect(get(&target, "strays").keys(["1"]).with("parents"))
        .await
        .err()
        .unwrap();
    assert_eq!(error.to_string(), "no foreign key joins Parents to strays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_rows_are_of_one_moment_where_the_log_keeps_it() {
    for (journal, nested) in [("WAL", false), ("WAL", true), ("DELETE", false)] {
        let database = Database::new(&format!("PRAGMA journal_mode = {journal};\n{RELATED};")).await;
        let path = database.path();
        let got = collect_while(&target(&database).await, nested, move || {
            let connection = rusqlite::Connection::open(&path).unwrap();
            connection
                .busy_timeout(std::time::Duration::from_secs(60))
                .unwrap();
            let write = "BEGIN; UPDATE orders SET note = 'later'; UPDATE items SET article = 'later'; \
                         INSERT INTO items VALUES (3, 2, 'later'); COMMIT";
            connection.execute_batch(write).unwrap();
        })
        .await;
        let all = format!("{:?} {:?}", got.rows, got.related);
        let note = "each request sees what is committed when it is answered";
        let is_told = got.report.notes.iter().any(|told| told == note);
        match journal {
            "WAL" => {
                assert!(!all.contains("later") && all.contains("chair"), "{all}");
                assert_eq!((got.report.one_state, is_told), (true, false));
            }
            _ => {
                assert!(all.contains("later"), "{all}");
                assert_eq!((got.report.one_state, is_told), (false, true));
            }
        }
        assert_eq!(database.count("items WHERE article = 'later'"), 6);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_columns_of_a_key_compare_as_its_index_does() {
    let database = Database::new(
        "CREATE TABLE t (a TEXT, b TEXT, v TEXT);
         CREATE UNIQUE INDEX by_both ON t (a COLLATE NOCASE, b COLLATE NOCASE);
         INSERT INTO t VALUES ('Abc', 'B', 1), ('aBC', 'c', 2), ('abd', 'd', 3)",
    )
    .await;
    let target = target(&database).await;
    let of = |get: tonnage::BulkGet| collect(get.columns(["v"]));
    let keys = || get(&target, "t").by(["a"]).keys(["ABC", "x"]).ordered();
    let got = of(keys()).await.unwrap();
    assert_eq!(
        (got.rows, got.missing),
        (vec!["1".to_owned(), "2".to_owned()], vec!["x".to_owned()])
    );
    assert_eq!(of(keys().range_from("C")).await.unwrap().rows, ["2"]);
    assert_eq!(of(keys().range_before("C")).await.unwrap().rows, ["1"]);
    let whole = get(&target, "t").by(["a", "b"]).keys(["ABC,b"]);
    assert_eq!(of(whole).await.unwrap().rows, ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_column_without_a_type_is_what_its_first_rows_hold() {
    let database = Database::new(
        "CREATE TABLE t (k INTEGER PRIMARY KEY, n, e);
         WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < 20000)
         INSERT INTO t SELECT i, CASE i WHEN 20000 THEN 'late' ELSE i * 2 END, CASE i WHEN 20000 THEN 1.5 END FROM g",
    )
    .await;
    let target = target(&database).await;
    let prepared = get(&target, "t").keys(["7"]).prepare().await.unwrap();
    assert_eq!(
        prepared.schema().field(1).data_type(),
        &arrow::datatypes::DataType::Int64
    );
    let note = "column 'e' has no type, and no value among the first rows: it comes as text";
    assert_eq!(
        prepared.plan().notes.iter().filter(|told| *told == note).count(),
        1
    );
    assert_eq!(
        collect(get(&target, "t").keys(["7"])).await.unwrap().rows,
        ["7|14|"]
    );
    let late = || get(&target, "t").keys(["20000"]);
    let error = collect(late()).await.err().unwrap();
    assert_eq!(
        error.to_string(),
        "column 'n' of the row with k = 20000: the text 'late' is not an integer"
    );
    assert_eq!(
        error.hint_text(),
        Some("--text n gives every value of the column as text")
    );
    let got = collect(late().options(|options| options.texts = vec!["n".to_owned()]))
        .await
        .unwrap();
    assert_eq!(got.rows, ["20000|late|1.5"]);
}
