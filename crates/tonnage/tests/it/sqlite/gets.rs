//! Rows of keys.

use std::sync::Arc;

use tonnage::{target::Target, targets::sqlite::SqliteTarget};

use super::Database;
use crate::gets::{Case, check, check_composite, collect, get};

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
        Case {
            table: "ints",
            keys: &["7", "8", "-5", "9223372036854775807", ""],
            rows: &["seven", "minus", "most"],
            missing: &["8", ""],
        },
        Case {
            table: "texts",
            keys: &["A", "b", "\"\"", "007", "7", "é", "a"],
            rows: &["upper", "empty", "agent", "accent", "lower"],
            missing: &["b", "7"],
        },
        Case {
            table: "nocase",
            keys: &["ABC", "abd", "abc"],
            rows: &["abc", "abc"],
            missing: &["abd"],
        },
        Case {
            table: "uuids",
            keys: &["6F1F1D702B3C4D5E8F90A1B2C3D4E5F6"],
            rows: &["one"],
            missing: &[],
        },
        Case {
            table: "dates",
            keys: &["2024-02-29", "2023-02-28", "0001-01-01"],
            rows: &["leap", "first"],
            missing: &["2023-02-28"],
        },
        Case {
            table: "decimals",
            keys: &["12.50", "3", "12.51"],
            rows: &["half", "three"],
            missing: &["12.51"],
        },
        Case {
            table: "reals",
            keys: &["5e-1", "NaN", "-0"],
            rows: &["half", "zero"],
            missing: &["NaN"],
        },
        Case {
            table: "blobs",
            keys: &["\\x00FF", "\\x00", "\\x"],
            rows: &["bytes", "none"],
            missing: &["00"],
        },
        Case {
            table: "numeric",
            keys: &["1.0", "2.50", "0.3333333333333333333333", "1"],
            rows: &["one", "more", "one"],
            missing: &["0.3333333333333333333333"],
        },
        Case {
            table: "string",
            keys: &["x", "7", "y"],
            rows: &["text", "number"],
            missing: &["y"],
        },
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
