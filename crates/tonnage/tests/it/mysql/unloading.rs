//! Unloads: what is read is what is there, all of it, once, and of one moment.

use tonnage::Database;

use super::TestDatabase;
use crate::common::keys;

/// Every way to a file and back.
const FORMATS: [&str; 6] = ["csv", "jsonl", "parquet", "arrow", "csv.zst", "tsv"];

const TYPES: &str = "CREATE TABLE t (o int PRIMARY KEY, b boolean, i1 tinyint, u1 tinyint unsigned, i2 smallint, \
    u2 smallint unsigned, i3 mediumint, u3 mediumint unsigned, i4 int, u4 int unsigned, i8 bigint, \
    u8 bigint unsigned, f float, d double, n decimal(10,2), n38 decimal(38,10), n65 decimal(65,30), y year, \
    b1 bit(1), b9 bit(9), b64 bit(64), s text, v varchar(5), l varchar(9) CHARACTER SET latin1, c char(5), \
    bi binary(3), vb varbinary(9), bl longblob, da date, ti time(6), ti0 time, dt datetime(6), dt0 datetime, \
    ts timestamp(6) NULL, j json, u uuid, e enum('one','t''wo','') , se set('a','b','c'), h text INVISIBLE, \
    g int AS (o * 2) STORED)";

const NAMES: &str = "o, b, i1, u1, i2, u2, i3, u3, i4, u4, i8, u8, f, d, n, n38, n65, y, b1, b9, b64, s, v, l, c, bi, \
    vb, bl, da, ti, ti0, dt, dt0, ts, j, u, e, se, h";

const ROWS: &str = r#"(2, true, -128, 0, -32768, 0, -8388608, 0, -2147483648, 0, -9223372036854775808, 0,
     -3.4028234e38, -1.7976931348623157e308, -99999999.99, -9999999999999999999999999999.9999999999,
     -99999999999999999999999999999999999.999999999999999999999999999999, 1901, b'0', b'0', 0, '', '', '', '',
     x'000000', '', '', '0001-01-01', '00:00:00', '00:00:00', '0001-01-01 00:00:00', '0001-01-01 00:00:00',
     '1970-01-01 00:00:01', '{}', '00000000-0000-0000-0000-000000000000', 'one', '', ''),
    (3, false, 127, 255, 32767, 65535, 8388607, 16777215, 2147483647, 4294967295, 9223372036854775807,
     18446744073709551615, 3.4028234e38, 1.7976931348623157e308, 0.01, 0.0000000001,
     0.000000000000000000000000000001, 2155, b'1', b'111111111', 18446744073709551615, 'null', 'a"b', 'né', 'ab',
     x'00ff5c', x'31323334', x'00ff0a0d5c', '9999-12-31', '23:59:59.999999', '23:59:59',
     '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59', '2038-01-19 03:14:07.999999', '"text"',
     'ffffffff-ffff-ffff-ffff-ffffffffffff', 't''wo', 'a,c', 'NULL'),
    (4, true, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9223372036854775808, 0.1, 0.1, 12.50, 1.5, 7, 2024, b'1', b'101', 3689065110378427960,
     'line\nbreak,"quoted"\ttab\r\\. é 😀', 'hé😀é', 'ÿ', ' é', x'313233', ' x ', x'ff', '2024-02-29', '12:34:56.789012',
     '12:34:56', '1969-12-31 23:59:59.999999', '1999-12-31 23:59:59', '2000-01-01 00:00:00.000001',
     '{"b": 1,  "a": [1.50, "x\\ny"]}', '123e4567-e89b-12d3-a456-426614174000', '', 'a,b,c', '\\N')"#;

/// Unloads `t` into a file of each format, loads each into `again` by every method, and compares what `shown` selects.
async fn every_way_back(
    place: &TestDatabase,
    db: &Database,
    formats: &[&str],
    shown: &str,
    wanted: &[Option<String>],
) {
    let directory = tempfile::tempdir().unwrap();
    for format in formats {
        let path = directory.path().join(format!("t.{format}"));
        db.unload("t").to(&path).run().await.unwrap();
        for method in super::METHODS {
            place.run("TRUNCATE again").await;
            let load = db.load(path.display().to_string()).table("again").method(method);
            load.run().await.unwrap();
            assert_eq!(place.texts(shown).await, wanted, "{format} {method}");
        }
    }
}

async fn database(place: &TestDatabase) -> Database {
    Database::connect(&place.url).await.unwrap()
}

/// Rows as the server shows them, a line each, whatever they hold.
async fn lines(place: &TestDatabase, table: &str) -> Vec<Option<String>> {
    let shown: Vec<_> = NAMES
        .split(", ")
        .map(|name| match name {
            // The text of a float is of six digits.
            "f" => "IFNULL(CAST(f AS double), '-')".to_owned(),
            name => format!("IFNULL(HEX(CONCAT({name})), '-')"),
        })
        .collect();
    let sql = format!(
        "SELECT CONCAT_WS('|', {}) FROM {table} ORDER BY o",
        shown.join(", ")
    );
    place.texts(&sql).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_comes_back_as_it_was() {
    let place = TestDatabase::new().await;
    place.run("SET sql_mode = 'STRICT_ALL_TABLES'").await;
    place.run("SET time_zone = '+00:00'").await;
    place.run(TYPES).await;
    place.run(&format!("INSERT INTO t ({NAMES}) VALUES {ROWS}")).await;
    place.run("INSERT INTO t (o) VALUES (1)").await;
    let wanted = lines(&place, "t").await;
    assert_eq!(wanted.len(), 4);
    let directory = tempfile::tempdir().unwrap();
    let db = database(&place).await;
    for format in FORMATS {
        let path = directory.path().join(format!("t.{format}"));
        let written = db.unload("t").to(&path).run().await;
        let written = written.unwrap_or_else(|e| panic!("{format}: {e}"));
        assert_eq!(written.rows, 4);
        place
            .run("DROP TABLE IF EXISTS again;\nCREATE TABLE again LIKE t")
            .await;
        let load = db.load(path.display().to_string()).table("again");
        let loaded = load.run().await.unwrap_or_else(|e| panic!("{format}: {e}"));
        assert_eq!(loaded.rows.written, 4, "{format}");
        assert_eq!(lines(&place, "again").await, wanted, "{format}");
    }
    // A query tells the types of its columns, too.
    let path = directory.path().join("q.parquet");
    db.unload_query(format!("SELECT {NAMES} FROM t"))
        .to(&path)
        .run()
        .await
        .unwrap();
    place.run("DROP TABLE again;\nCREATE TABLE again LIKE t").await;
    let load = db.load(path.display().to_string()).table("again");
    load.run().await.unwrap();
    assert_eq!(lines(&place, "again").await, wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_made_from_the_file_has_the_types_of_the_first() {
    let place = TestDatabase::new().await;
    place
        .run(
            "CREATE TABLE t (o int, i smallint, i8 bigint, u decimal(20,0), f float, d double, n decimal(10,2), \
             v varchar(5), c char(3), da date, ti time(6), dt datetime(6), ts timestamp(6) NULL, id uuid, b boolean, \
             s longtext, y longblob);\n\
             INSERT INTO t (o, n, v) VALUES (1, 1.50, 'a')",
        )
        .await;
    let directory = tempfile::tempdir().unwrap();
    let db = database(&place).await;
    let types = |table: &str| {
        format!(
            "SELECT CONCAT(column_name, ' ', column_type) FROM information_schema.columns \
             WHERE table_schema = '{}' AND table_name = '{table}' ORDER BY ordinal_position",
            place.database
        )
    };
    for format in ["parquet", "arrow"] {
        let path = directory.path().join(format!("t.{format}"));
        db.unload("t").to(&path).run().await.unwrap();
        place.run("DROP TABLE IF EXISTS again").await;
        let load = db.load(path.display().to_string()).table("again");
        load.create(Vec::<String>::new()).run().await.unwrap();
        assert_eq!(place.texts(&types("again")).await, place.texts(&types("t")).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_it_is_cut_every_row_comes_once() {
    let place = TestDatabase::new().await;
    place
        .run(
            "CREATE TABLE t (k bigint PRIMARY KEY, s varchar(40), u uuid, e double, n decimal(12,3), d date, \
             b varbinary(20), i bit(20), l text, en enum('x','a'));\n\
             INSERT INTO t SELECT seq, IF(seq % 10 = 0, NULL, IF(seq % 2 = 0, 'Same', CONCAT('v', seq, ''''))), \
             IF(seq % 7 = 0, NULL, CONCAT(LEFT(MD5(seq), 8), '-0000-4000-8000-', RIGHT(MD5(seq), 12))), IF(seq % 5 = 0, -1, EXP(seq % 600)), seq / 7, \
             '2000-01-01' + INTERVAL seq DAY, UNHEX(MD5(seq)), seq, REPEAT(MD5(seq % 1000), 5), IF(seq % 2, 'x', 'a') \
             FROM seq_1_to_90000 WHERE seq % 3 <> 0;\n\
             CREATE TABLE texts (x varchar(20), y int, k bigint, PRIMARY KEY (x, y));\n\
             INSERT INTO texts SELECT CONCAT(IF(k % 2, 'K', 'k'), k % 40000), k, k FROM t;\n\
             CREATE TABLE uuids (u uuid PRIMARY KEY, k bigint);\nINSERT INTO uuids SELECT CONCAT(LEFT(MD5(k), 8), '-0000-4000-8000-', RIGHT(MD5(k), 12)), k FROM t;\n\
             CREATE TABLE labels (en enum('x','a'), k bigint, PRIMARY KEY (en, k));\n\
             INSERT INTO labels SELECT en, k FROM t;\n\
             CREATE TABLE plain (k bigint);\nINSERT INTO plain SELECT k FROM t;\n\
             CREATE TABLE aria (k bigint PRIMARY KEY) ENGINE=Aria;\nINSERT INTO aria SELECT k FROM t;\n\
             CREATE TABLE parts (k bigint PRIMARY KEY) PARTITION BY HASH (k) PARTITIONS 3;\n\
             INSERT INTO parts SELECT k FROM t;\n\
             CREATE VIEW v AS SELECT k, s FROM t;\nCREATE TABLE none_at_all (k bigint PRIMARY KEY);\n\
             ANALYZE TABLE t, texts, uuids, parts",
        )
        .await;
    let mut wanted: Vec<String> = (1..=90_000)
        .filter(|k| k % 3 != 0)
        .map(|k: i64| k.to_string())
        .collect();
    wanted.sort();
    let directory = tempfile::tempdir().unwrap();
    let db = database(&place).await;
    for (name, jobs, note) in [
        ("t", 3, "writers were held off the table"),
        ("texts", 3, "writers were held off the table"),
        ("uuids", 3, "writers were held off the table"),
        ("parts", 3, "writers were held off the table"),
        ("labels", 1, "has no primary key to be cut by"),
        ("plain", 1, "has no primary key to be cut by"),
        ("aria", 1, "has no transactions to see one state in"),
        ("v", 1, "writers cannot be held off the tables of a view"),
        ("none_at_all", 1, ""),
    ] {
        let unload = db.unload(name).columns(["k"]).jobs(3);
        let path = directory.path().join("one.csv");
        let report = unload.to(path).overwrite().run().await.unwrap();
        assert_eq!(report.jobs, jobs, "{name} {report:?}");
        assert!(
            note.is_empty() || report.notes.iter().any(|n| n.contains(note)),
            "{name}: {:?}",
            report.notes
        );
        let found = keys(db.unload(name).columns(["k"]).jobs(3), directory.path()).await;
        match name {
            "none_at_all" => assert!(found.is_empty()),
            _ => assert!(found == wanted, "{name}: {} rows", found.len()),
        }
    }
    for column in ["k", "s", "u", "e", "n", "d", "b", "i", "l"] {
        let unload = db.unload("t").columns(["k"]).jobs(3).split_by(column);
        let found = keys(unload, directory.path()).await;
        assert!(found == wanted, "by {column}: {} rows", found.len());
    }
    let query = db.unload_query("SELECT k, s FROM t -- all of it");
    let query = query.columns(["k"]).jobs(2).split_by("s");
    assert!(keys(query, directory.path()).await == wanted);
}

/// Without transactions only one statement sees one state: of rows that change between two some would be lost or doubled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_without_transactions_is_not_split() {
    let place = TestDatabase::new().await;
    place
        .run(
            "CREATE TABLE aria (k bigint PRIMARY KEY, v int) ENGINE=Aria;\n\
             INSERT INTO aria SELECT seq, seq FROM seq_1_to_50000;\n\
             CREATE TABLE memory (k bigint PRIMARY KEY, v int) ENGINE=MEMORY;\n\
             INSERT INTO memory SELECT k, v FROM aria;\n\
             CREATE TABLE t (k bigint PRIMARY KEY, v int);\nINSERT INTO t SELECT k, v FROM aria;\n\
             CREATE VIEW v AS SELECT k, v FROM aria;\nCREATE VIEW safe AS SELECT k, v FROM t",
        )
        .await;
    let directory = tempfile::tempdir().unwrap();
    let db = database(&place).await;
    for (unload, is_split) in [
        (db.unload("aria"), false),
        (db.unload("memory"), false),
        (db.unload("v"), false),
        (
            db.unload_query("SELECT t.k, a.v FROM t JOIN `aria` a ON a.k = t.k"),
            false,
        ),
        (db.unload("safe"), true),
        (db.unload_query("SELECT k, v FROM t"), true),
    ] {
        let path = directory.path().join("split.csv");
        let unload = unload.jobs(3).split_by("k").to(path).overwrite();
        let report = unload.run().await.unwrap();
        assert_eq!(report.jobs, 1, "{report:?}");
        let said = report.notes.iter().any(|note| note.contains("not split: "));
        assert_eq!(said, !is_split, "{:?}", report.notes);
        assert_eq!(report.rows, 50_000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_does_not_end_leaves_one_job() {
    let place = TestDatabase::new().await;
    place
        .run("CREATE TABLE t (id int PRIMARY KEY);\nINSERT INTO t VALUES (1), (2);\nBEGIN;\nINSERT INTO t VALUES (3)")
        .await;
    let directory = tempfile::tempdir().unwrap();
    let unload = database(&place).await.unload("t").jobs(2);
    let report = unload.to(directory.path().join("t.csv")).run().await.unwrap();
    assert_eq!((report.rows, report.jobs), (2, 1));
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.starts_with("one job: a transaction that has written")),
        "{:?}",
        report.notes
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_exact_form_names_its_row() {
    let place = TestDatabase::new().await;
    place.run("SET sql_mode = ''").await;
    place
        .run(
            "CREATE TABLE t (id int PRIMARY KEY, d date, dt datetime, ti time, b boolean, y binary(2), i bit(9), \
             ip inet6, p point, g int AS (id * 2) STORED);\n\
             INSERT INTO t VALUES (1, '2024-01-01', '2024-01-01', '01:00:00', 1, x'00ff', b'101', '::1', POINT(1, 2), DEFAULT), \
             (7, '0000-00-00', '2024-02-00 00:00:00', '-26:00:00', 2, NULL, NULL, NULL, NULL, DEFAULT)",
        )
        .await;
    let db = database(&place).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    for (column, wanted) in [
        ("d", "'0000-00-00' is not a date"),
        ("dt", "'2024-02-00' is not a timestamp"),
        ("ti", "'-26:00:00' is not a time"),
        ("b", "'2' is not a bool"),
    ] {
        let refused = db.unload("t").columns(["id", column]).to(&path).run().await;
        let refused = refused.unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("column '{column}' of the row with id = 7: {wanted}")
        );
        let hint = format!("--text {column} gives it as the database's own text");
        let said = refused.hint_text().unwrap_or_default();
        assert!(said.starts_with(&hint), "{said}");
        assert!(!path.exists());
    }
    let path = directory.path().join("t.csv");
    let texts = ["d", "dt", "ti", "b", "y", "i", "p"];
    let report = db.unload("t").text(texts).to(&path).run().await.unwrap();
    let note = "g is computed by the database and left out; --columns names what to take";
    assert!(report.notes.iter().any(|n| n == note), "{:?}", report.notes);
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "id,d,dt,ti,b,y,i,ip,p\n\
         1,2024-01-01,2024-01-01 00:00:00,01:00:00,1,00FF,5,::1,POINT(1 2)\n\
         7,0000-00-00,2024-02-00 00:00:00,-26:00:00,2,,,,\n"
    );
}

/// Text says them, and so does another database of the family.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_outside_a_day_come_back() {
    let place = TestDatabase::new().await;
    place
        .run(
            "CREATE TABLE t (id int PRIMARY KEY, ti time(6), t0 time);\n\
             INSERT INTO t VALUES (1, '-838:59:59.999999', '838:59:59'), (2, '-00:00:00.5', '-26:00:00'), \
             (3, '24:00:00.000001', '100:00:00'), (4, '23:59:59.5', '00:00:00'), (5, NULL, NULL);\n\
             CREATE TABLE again LIKE t",
        )
        .await;
    let shown = |table: &str| format!("SELECT concat_ws('|', id, ti, t0) FROM {table} ORDER BY id");
    let wanted = place.texts(&shown("t")).await;
    let db = database(&place).await;
    every_way_back(&place, &db, &["csv", "jsonl", "tsv"], &shown("again"), &wanted).await;
    place.run("TRUNCATE again").await;
    let table = tonnage::reader::Relation::Table("t".parse().unwrap());
    db.load_database(&db, table).table("again").run().await.unwrap();
    assert_eq!(place.texts(&shown("again")).await, wanted);
}

/// `tinyint(1)` is BOOLEAN to MariaDB, which holds any small integer in it all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_boolean_of_two_comes_back() {
    let place = TestDatabase::new().await;
    place
        .run(
            "CREATE TABLE t (id int PRIMARY KEY, b boolean);\n\
             INSERT INTO t VALUES (1, 0), (2, 1), (3, 2), (4, -128), (5, 127), (6, NULL);\n\
             CREATE TABLE again LIKE t",
        )
        .await;
    let shown = |table: &str| format!("SELECT concat_ws('|', id, b) FROM {table} ORDER BY id");
    let wanted = place.texts(&shown("t")).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    let refused = database(&place)
        .await
        .unload("t")
        .to(&path)
        .run()
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("id = 3"), "{refused}");
    assert!(
        refused.hint_text().unwrap().contains("tinyint1=int"),
        "{refused:?}"
    );
    let separator = if place.url.contains('?') { '&' } else { '?' };
    let db = Database::connect(&format!("{}{separator}tinyint1=int", place.url))
        .await
        .unwrap();
    every_way_back(&place, &db, &["csv", "parquet"], &shown("again"), &wanted).await;
    let query = tonnage::reader::Relation::Query("SELECT id, b FROM t".to_owned());
    place.run("TRUNCATE again").await;
    db.load_database(&db, query).table("again").run().await.unwrap();
    assert_eq!(place.texts(&shown("again")).await, wanted);
}

/// The same of dates that no calendar has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dates_with_a_zero_come_back() {
    let place = TestDatabase::new().await;
    place.run("SET sql_mode = ''").await;
    place
        .run(
            "CREATE TABLE t (id int PRIMARY KEY, d date, dt datetime(6), d0 datetime, ts timestamp NULL, y year);\n\
             INSERT INTO t VALUES (1, '0000-00-00', '0000-00-00', '0000-00-00 01:02:03', '0000-00-00', '0000'), \
             (2, '2024-00-00', '2024-02-00 12:34:56.5', '2024-00-15 23:59:59', NULL, 2024), \
             (3, '0000-01-01', '0000-02-28 00:00:00.000001', '0000-12-31', '2024-02-29 12:00:00', 1901), \
             (4, '9999-12-31', '1970-01-01', '0001-01-01', '2024-02-29', NULL);\n\
             CREATE TABLE again LIKE t",
        )
        .await;
    let shown =
        |table: &str| format!("SELECT concat_ws('|', id, d, dt, d0, ts, y + 0) FROM {table} ORDER BY id");
    let wanted = place.texts(&shown("t")).await;
    assert_eq!(wanted.len(), 4);
    let db = database(&place).await;
    let directory = tempfile::tempdir().unwrap();
    every_way_back(&place, &db, &["csv", "jsonl", "tsv"], &shown("again"), &wanted).await;
    let table = || tonnage::reader::Relation::Table("t".parse().unwrap());
    place.run("TRUNCATE again").await;
    db.load_database(&db, table()).table("again").run().await.unwrap();
    assert_eq!(place.texts(&shown("again")).await, wanted);
    let made = db.load_database(&db, table()).table("made").create(["id"]);
    made.options(|options| options.sort = Some(tonnage::plan::Sort::Full))
        .run()
        .await
        .unwrap();
    let found = place.texts(&shown("made")).await;
    let whole = |rows: &[Option<String>]| {
        let rows = rows.iter().flatten();
        rows.map(|row| row.replace(".000000", "")).collect::<Vec<_>>()
    };
    assert_eq!(whole(&found), whole(&wanted));
    // Who does not have them refuses the row; a Parquet file refuses them with its name.
    let bad = directory.path().join("bad.jsonl");
    let other = Database::connect(&directory.path().join("other.db").display().to_string()).await;
    let other = other.unwrap();
    let load = other
        .load_database(&db, table())
        .table("t")
        .create(Vec::<String>::new());
    let report = load
        .rejects(&bad, tonnage::plan::RejectsMax::Rows(10))
        .run()
        .await
        .unwrap();
    assert_eq!((report.rows.written, report.rows.rejected), (1, 3));
    let rejects = std::fs::read_to_string(&bad).unwrap();
    assert!(
        rejects.contains("'0000-00-00' is a date that does not exist")
            && rejects.contains(r#""dt":"2024-02-00 12:34:56.5""#),
        "{rejects}"
    );
    // A timestamp is an instant, and only the zero of all is kept beside.
    std::fs::write(
        directory.path().join("ts.csv"),
        "id,ts\n1,0000-00-00 00:00:00\n2,2024-00-00\n",
    )
    .unwrap();
    place.run("TRUNCATE again").await;
    let load = db
        .load(directory.path().join("ts.csv").display().to_string())
        .table("again");
    let load = load.rejects(
        directory.path().join("ts.jsonl"),
        tonnage::plan::RejectsMax::Rows(1),
    );
    let report = load.run().await.unwrap();
    assert_eq!((report.rows.written, report.rows.rejected), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_is_told_before_a_file_is_made() {
    let place = TestDatabase::new().await;
    place
        .run("CREATE TABLE t (id int PRIMARY KEY, e enum('a'));\nINSERT INTO t VALUES (1, 'a')")
        .await;
    let db = database(&place).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.csv");
    let cases = [
        (
            db.unload("t").filter("nope = 1"),
            "the condition (nope = 1): Unknown column 'nope'",
        ),
        (
            db.unload("t").filter("id ="),
            "the condition (id =): You have an error in your SQL syntax",
        ),
        (
            db.unload("t").split_by("nope"),
            "there is no column 'nope' to split by",
        ),
        (
            db.unload("t").split_by("e"),
            "column 'e' has no order to split by",
        ),
        (db.unload_query(" ; "), "the query is empty"),
        (
            db.unload_query("SELECT 1; SELECT 2"),
            "there is more than one statement",
        ),
        (
            db.unload_query("SELECT ?"),
            "the query has parameters (?), and there is nothing to fill them with",
        ),
        (db.unload_query("DELETE FROM t"), "the query returns no rows"),
        (
            db.unload_query("DELETE FROM t RETURNING id"),
            "the query returns no rows",
        ),
        (
            db.unload_query("SELECT 1 AS a, 2 AS a"),
            "column 'a' is there twice, and columns are identified by their names",
        ),
    ];
    for (unload, wanted) in cases {
        let refused = unload.to(&path).run().await.unwrap_err();
        assert!(refused.to_string().contains(wanted), "{refused}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    assert_eq!(place.number("SELECT count(*) FROM t").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_is_dropped_stops_its_query() {
    let place = TestDatabase::new().await;
    let db = database(&place).await;
    let query = "SELECT seq, REPEAT('x', 1000) AS x FROM seq_1_to_100000000";
    let mut batches = db.unload_query(query).batches().await.unwrap();
    assert!(batches.next().await.unwrap().is_some());
    let running = format!(
        "SELECT count(*) FROM information_schema.processlist WHERE db = '{}' AND info LIKE '%seq_1_to_100000000' \
         AND id <> connection_id()",
        place.database
    );
    // A session that is just being looked at by somebody else has no text.
    until(&place, &running, 1).await;
    drop(batches);
    until(&place, &running, 0).await;
}

/// Waits until a query answers so; fails after 3,000 looks.
async fn until(place: &TestDatabase, query: &str, answer: i64) {
    for _ in 0..3_000 {
        if place.number(query).await == answer {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("{query} is not {answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_go_to_another_database_and_back_without_a_file() {
    let place = TestDatabase::new().await;
    place
        .run(
            "CREATE TABLE t (id bigint PRIMARY KEY, n decimal(20,4), s varchar(50), d date, dt datetime(6), y longblob, \
             f double, b boolean);\n\
             INSERT INTO t SELECT seq, seq / 7, IF(seq % 3, CONCAT('é', seq), NULL), '2024-01-01' + INTERVAL seq DAY, \
             '2024-01-01' + INTERVAL seq MICROSECOND, UNHEX(MD5(seq)), 1 / seq, seq % 2 FROM seq_1_to_3000;\n\
             CREATE TABLE again LIKE t",
        )
        .await;
    let directory = tempfile::tempdir().unwrap();
    let sqlite = directory.path().join("other.db").display().to_string();
    let other = crate::postgres::TestDatabase::on(crate::postgres::Server::System).await;
    let table = |name: &str| tonnage::reader::Relation::Table(name.parse().unwrap());
    let here = database(&place).await;
    for url in [sqlite, other.url.clone()] {
        let there = Database::connect(&url).await.unwrap();
        let load = there.load_database(&here, table("t")).table("t");
        let loaded = load.create(Vec::<String>::new()).run().await.unwrap();
        assert_eq!(loaded.rows.written, 3_000, "{url}");
        place.run("TRUNCATE again").await;
        let back = here.load_database(&there, table("t")).table("again");
        assert_eq!(back.run().await.unwrap().rows.written, 3_000, "{url}");
        let unlike = "SELECT count(*) FROM t JOIN again a USING (id) WHERE NOT (t.n <=> a.n AND t.s <=> a.s AND t.d <=> a.d \
                      AND t.dt <=> a.dt AND t.y <=> a.y AND t.f <=> a.f AND t.b <=> a.b)";
        assert_eq!(place.number(unlike).await, 0);
        assert_eq!(
            place.number("SELECT count(*) FROM t JOIN again USING (id)").await,
            3_000
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_only_read_has_one_job() {
    let place = TestDatabase::new().await;
    place
        .run("CREATE TABLE t (id int PRIMARY KEY);\nINSERT INTO t SELECT seq FROM seq_1_to_100")
        .await;
    let user = format!("reads_{}", place.database);
    place
        .run(&format!(
            "CREATE USER {user}@'%' IDENTIFIED BY 'p';\nGRANT SELECT ON {}.* TO {user}@'%'",
            place.database
        ))
        .await;
    let (_, address) = place.url.rsplit_once('@').unwrap();
    let db = Database::connect(&format!("mariadb://{user}:p@{address}")).await;
    let db = db.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let unload = db.unload("t").jobs(2).to(directory.path().join("t.csv"));
    let report = unload.run().await.unwrap();
    assert_eq!((report.rows, report.jobs), (100, 1));
    let told = report
        .notes
        .iter()
        .any(|note| note.contains("the privilege LOCK TABLES is missing"));
    assert!(told, "{:?}", report.notes);
    place.run(&format!("DROP USER {user}@'%'")).await;
}

#[tokio::test]
async fn one_value_of_a_key_s_first_column_is_cut_as_well() {
    let place = TestDatabase::new().await;
    place
        .run(
            "CREATE TABLE t (tenant varchar(20), day date, n int, v text, PRIMARY KEY (tenant, day, n));\n\
             INSERT INTO t SELECT IF(seq % 100 = 0, CONCAT('o''', seq), 'all'), '2024-02-29', seq, REPEAT('x', 20) \
             FROM seq_1_to_120000;\nANALYZE TABLE t",
        )
        .await;
    let directory = tempfile::tempdir().unwrap();
    let db = database(&place).await;
    let unload = db.unload("t").columns(["n"]).jobs(2);
    let report = unload.to(directory.path().join("t.csv")).run().await.unwrap();
    assert!(report.splits >= 4 && report.jobs == 2, "{report:?}");
    let mut wanted: Vec<String> = (1..=120_000).map(|n: i64| n.to_string()).collect();
    wanted.sort();
    let found = keys(db.unload("t").columns(["n"]).jobs(2), directory.path()).await;
    assert!(found == wanted, "{} rows", found.len());
}
