//! Unloads: what is read is what is there, all of it, once, and of one moment.

use tonnage::{Database, operation::Method, sources::TextOptions};

use super::{Server, TestDatabase};
use crate::common::keys;

on_every_server! {
    every_type_comes_back_as_it_was,
    rows_within_columns_and_arrays_of_times_come_back,
    money_comes_back_as_the_number_within,
    the_far_ends_of_time_come_back_where_the_format_has_them,
    a_table_made_from_the_file_has_the_types_of_the_first,
    however_it_is_cut_every_row_comes_once,
    rows_come_in_the_order_of_the_table,
    what_has_no_exact_form_names_its_row,
    what_cannot_be_read_is_told_before_a_file_is_made,
    a_reader_that_is_dropped_stops_its_query,
    rows_of_another_server_are_read_by_one,
}

/// A snapshot is shared within a server only.
async fn rows_of_another_server_are_read_by_one(server: Server) {
    let place = TestDatabase::on(server).await;
    // Extensions and servers are not in schemas.
    let elsewhere = format!("elsewhere_{}", place.schema);
    place
        .run(&format!(
            "CREATE EXTENSION IF NOT EXISTS file_fdw SCHEMA public; CREATE SERVER {elsewhere} FOREIGN DATA WRAPPER file_fdw; \
             CREATE TABLE t (id int) PARTITION BY RANGE (id); \
             CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (100000); \
             CREATE FOREIGN TABLE t_2 PARTITION OF t FOR VALUES FROM (100000) TO (200000) \
                 SERVER {elsewhere} OPTIONS (program 'echo 100001', format 'csv'); \
             INSERT INTO t SELECT generate_series(1, 90000); ANALYZE t_1"
        ))
        .await;
    let directory = tempfile::tempdir().unwrap();
    let db = database(&place).await;
    for by in [None, Some("id")] {
        let mut unload = db.unload("t").jobs(3);
        if let Some(column) = by {
            unload = unload.split_by(column);
        }
        let path = directory.path().join("t.csv");
        let report = unload.to(path).overwrite().run().await.unwrap();
        assert_eq!((report.jobs, report.rows), (1, 90_001), "{report:?}");
        let said = report
            .notes
            .iter()
            .any(|note| note.contains("a state of its own"));
        assert!(said, "{:?}", report.notes);
    }
}

/// Every way to a file and back.
const FORMATS: [&str; 6] = ["csv", "jsonl", "parquet", "arrow", "csv.zst", "tsv"];
/// Those that have dates of all years, and a JSON null.
const BINARY: [&str; 2] = ["parquet", "arrow"];

const TYPES: &str = "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN cents AS numeric(6,2); \
    CREATE DOMAIN naming AS text; \
    CREATE TABLE t (o int4 PRIMARY KEY, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric, \
        n2 numeric(10,2), n38 numeric(38,10), n50 numeric(50,3), s text, v varchar(5), c char(5), y bytea, d date, \
        ti time, ts timestamp, ts0 timestamp(0), tz timestamptz, u uuid, j json, jb jsonb, m mood, ce cents, na naming, \
        ia int4[], ta text[], ip inet, cd cidr, bi bit(3), vb varbit, iv interval, r int4range, x xml)";

const ROWS: &str = r#"INSERT INTO t VALUES
    (2, true, -32768, -2147483648, -9223372036854775808, '-Infinity', '-Infinity', '-Infinity', -99999999.99,
     -9999999999999999999999999999.9999999999, -12345678901234567890123456789012345678901234567.001, '', '', '', '',
     '0001-01-01', '00:00:00', '0001-01-01 00:00:00', '0001-01-01 00:00:00', '0001-01-01 00:00:00+00',
     '00000000-0000-0000-0000-000000000000', '{}', '{}', 'sad', -0.01, '', '{}', '{}', '0.0.0.0/0', '0.0.0.0/0', B'000', B'',
     '-1 year -2 days', 'empty', '<a/>'),
    (3, false, 32767, 2147483647, 9223372036854775807, 'NaN', 'NaN', 'NaN', 0.00, 0, 0.001, 'null', 'a"b', 'ab ', '\x00ff5c22',
     '9999-12-31', '24:00:00', '9999-12-31 23:59:59.999999', '1999-12-31 23:59:59', '9999-12-31 23:59:59.999999+00',
     'ffffffff-ffff-ffff-ffff-ffffffffffff', '"text"', '[1, null]', 'glad', 9999.99, 'NULL', '{1,NULL,-3}',
     '{"a,b","\"",NULL,"NULL",""}', '10.1.2.3/8', '10.0.0.0/8', B'101', B'10101', '1 day 02:03:04.000005', '[1,10)',
     '<a b="c">d,e</a>'),
    (4, true, 0, 0, 0, '-0', '-0', 123456789012345678901234567890.000000000000000000000000000001, 0.01, 0.0000000001, 7,
     E'line\nbreak,"quoted"\ttab\r\\. é 😀', 'héé', 'é', '\x', '1970-01-01', '12:34:56.789012', '1969-12-31 23:59:59.999999',
     '1970-01-01', '1970-01-01 00:00:00+02', '123e4567-e89b-12d3-a456-426614174000', '{"b": 1,  "a": [1.50, "x\ny"]}',
     '{"b": 1, "a": 1.50}', 'glad', 0, ' padded ', '{{1,2},{3,4}}', '{é}', '::1', '::/0', B'111', B'1', '0', '(,)', 'plain'),
    (5, NULL, 1, 1, 1, 3.4028235e38, 1.7976931348623157e308, 0.00, 1.10, 1e-10, 0.000, '007', ' ', '     ', '\x0a0d',
     '2000-01-01', '00:00:00.000001', '2000-01-01', '2000-01-01', '2000-01-01Z', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
     '12.50', '12.50', 'sad', 1.10, '\.', '{}', '{}', '1.2.3.4', '1.2.3.4', B'010', B'0', '1 mon', '[5,6)', '<x/>'),
    (6, NULL, 2, 2, 2, 1e-45, 5e-324, 1e-40, 2.20, 2, 2.5, '\x00', 'true', 't', '\x31', '2024-02-29', '01:02:03', '2024-02-29 01:02:03',
     '2024-02-29 01:02:03', '2024-02-29 01:02:03+05:30', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'true', 'false', 'sad', 2,
     '[]', '{7}', '{null}', '1.2.3.4', '1.2.3.4', B'010', B'0', '1 mon', '[5,6)', '<x/>');
    INSERT INTO t VALUES (1)"#;

async fn database(place: &TestDatabase) -> Database {
    Database::connect(&place.url).await.unwrap()
}

/// Unloads by every way, loads again, and compares every row as the server shows it.
async fn round_trip(place: &TestDatabase, table: &str, formats: &[&str]) {
    round_trip_without_lists(place, table, formats, &[]).await;
}

/// The same, where `no_lists` are columns of arrays that are no lists to Parquet and Arrow: of several dimensions, or with an
/// infinite date.
async fn round_trip_without_lists(place: &TestDatabase, table: &str, formats: &[&str], no_lists: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let db = database(place).await;
    for format in formats {
        let path = directory.path().join(format!("t.{format}"));
        let unload = db.unload(table).to(&path);
        let unload = match *format {
            "parquet" | "arrow" if !no_lists.is_empty() => {
                let refused = unload.run().await.unwrap_err();
                assert!(refused.to_string().contains(" is no list of "), "{refused}");
                db.unload(table).to(&path).text(no_lists.iter().copied())
            }
            _ => unload,
        };
        let written = unload.run().await;
        let written = written.unwrap_or_else(|e| panic!("{format}: {e}"));
        place
            .run(&format!(
                "DROP TABLE IF EXISTS again; CREATE TABLE again (LIKE {table} INCLUDING ALL)"
            ))
            .await;
        let load = db.load(path.display().to_string()).table("again");
        let loaded = load.run().await.unwrap_or_else(|e| panic!("{format}: {e}"));
        assert_eq!(written.rows, loaded.rows.written, "{format}");
        same(place, table, "again", format).await;
    }
}

/// Compares two tables as the server shows their rows.
async fn same(place: &TestDatabase, one: &str, other: &str, context: &str) {
    let shown = |name: &str| format!("SELECT x::text FROM {name} x ORDER BY 1");
    let wanted = place.texts(&shown(one)).await;
    assert!(!wanted.is_empty());
    assert_eq!(place.texts(&shown(other)).await, wanted, "{context}");
}

async fn every_type_comes_back_as_it_was(server: Server) {
    let place = TestDatabase::on(server).await;
    place.run(TYPES).await;
    place.run(ROWS).await;
    round_trip_without_lists(&place, "t", &FORMATS, &["ia"]).await;
}

async fn rows_within_columns_and_arrays_of_times_come_back(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TYPE part AS (no int8, price numeric(8,2), seen timestamptz, kinds text[]);
             CREATE DOMAIN parts AS part CHECK ((value).no > 0);
             CREATE TABLE t (o int4 PRIMARY KEY, co part, dm parts, many part[], da date[], tz timestamptz[],
                 tr tstzrange, dr daterange, mr datemultirange, ir interval[]);
             INSERT INTO t VALUES
                 (1, '(1,2.50,2024-02-29 12:00:00.000001+05,\"{a,\"\"b,c\"\",NULL}\")', '(7,,,)',
                  ARRAY['(1,0.10,1999-12-31Z,{})'::part, NULL], '{2024-02-29,NULL,infinity}', '{2024-02-29 12:00:00.5+00}',
                  '[2024-01-01 00:00+00,2024-02-01 00:00+00)', '[2024-01-01,)', '{[2024-01-01,2024-01-03)}',
                  '{1 day 02:00:00,-1 mons}'),
                 (2, '(,,,)', NULL, '{}', '{}', '{}', 'empty', 'empty', '{}', '{}'),
                 (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
             SET datestyle = 'German'; SET timezone = 'Asia/Tokyo'",
        )
        .await;
    round_trip_without_lists(&place, "t", &FORMATS, &["da"]).await;
}

async fn money_comes_back_as_the_number_within(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE t (o int4, m money, x money); CREATE DOMAIN price AS money; \
             INSERT INTO t VALUES (1, 1.5, -0.01), (2, '-92233720368547758.08', '92233720368547758.07'), (3, 0, NULL)",
        )
        .await;
    round_trip(&place, "t", &FORMATS).await;
    // As a number it goes into any column of numbers, and of domains.
    place
        .run("CREATE TABLE n (o int4, m numeric, x price); CREATE TABLE back (LIKE t)")
        .await;
    let db = database(&place).await;
    let of = |table: &str| tonnage::reader::Relation::Table(table.parse().unwrap());
    db.load_database(&db, of("t")).table("n").run().await.unwrap();
    db.load_database(&db, of("n")).table("back").run().await.unwrap();
    same(&place, "t", "back", "by way of numbers").await;
    // What it has no room for is a bad row, by every method and as a parameter, too.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("m.csv");
    std::fs::write(&file, "o,m\n1,1.005\n2,92233720368547758.08\n3,$1\n4,1.10\n").unwrap();
    let methods = [Method::Native, Method::Array, Method::Batch, Method::Single].map(Some);
    for (number, method) in methods.into_iter().chain([None]).enumerate() {
        place.run("TRUNCATE t").await;
        let bad = directory.path().join(format!("{number}.jsonl"));
        let rejects = tonnage::plan::RejectsMax::Rows(10);
        let shown = file.display().to_string();
        let report = match method {
            None => {
                let exec = db.exec("INSERT INTO t (o, m) VALUES (:o, :m)").from(shown);
                exec.rejects(&bad, rejects).run().await.unwrap()
            }
            Some(method) => {
                let load = db.load(shown).table("t").rejects(&bad, rejects);
                load.method(method).run().await.unwrap()
            }
        };
        assert_eq!((report.rows.written, report.rows.rejected), (1, 3), "{method:?}");
        let found = place.texts("SELECT m::numeric::text FROM t").await;
        assert_eq!(found, [Some("1.10".to_owned())], "{method:?}");
    }
}

async fn the_far_ends_of_time_come_back_where_the_format_has_them(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE t (o int4, d date, ts timestamp, tz timestamptz, j json); \
             INSERT INTO t VALUES (1, '4713-01-01 BC', '4713-01-01 BC', '4713-01-02 BC', 'null'), \
             (2, '5874897-12-31', '294246-12-31 23:59:59.999999', '294246-12-31 00:00:00+00', NULL)",
        )
        .await;
    round_trip(&place, "t", &BINARY).await;
    let db = database(&place).await;
    let directory = tempfile::tempdir().unwrap();
    // Text has words for what is infinite, too.
    place
        .run(
            "CREATE TABLE far AS SELECT o, d, ts, tz FROM t; \
             INSERT INTO far VALUES (3, 'infinity', 'infinity', 'infinity'), (4, '-infinity', '-infinity', '-infinity'), \
             (5, '0001-12-31 BC', '0044-03-15 12:34:56.5 BC', '0044-03-15 12:34:56.5+00 BC'), \
             (6, '10000-01-01', '10000-01-01 00:00:01', '10000-01-01 00:00:01+00')",
        )
        .await;
    round_trip(&place, "far", &["csv", "jsonl", "tsv"]).await;
    // From database to database they cross where both have them, and are bad rows where one has not.
    place.run("CREATE TABLE again2 (LIKE far)").await;
    let far = || tonnage::reader::Relation::Table("far".parse().unwrap());
    let load = db.load_database(&db, far()).table("again2");
    assert_eq!(load.run().await.unwrap().rows.written, 6);
    same(&place, "far", "again2", "from database to database").await;
    let sqlite = Database::connect(&directory.path().join("other.db").display().to_string()).await;
    let load = sqlite.unwrap().load_database(&db, far()).table("far");
    let load = load.create(Vec::<String>::new());
    let load = load.rejects(
        directory.path().join("bad.jsonl"),
        tonnage::plan::RejectsMax::Rows(10),
    );
    let report = load.run().await.unwrap();
    assert_eq!((report.rows.written, report.rows.rejected), (0, 6));
    for name in ["other.db", "bad.jsonl"] {
        std::fs::remove_file(directory.path().join(name)).unwrap();
    }
    for name in ["far.parquet", "far.arrow"] {
        let refused = db
            .unload("far")
            .to(directory.path().join(name))
            .run()
            .await
            .unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("infinity is no date or time to other systems")
        );
        assert_eq!(
            refused.hint_text(),
            Some("--text d gives it as the database's own text")
        );
    }
    let refused = db
        .unload("t")
        .columns(["o", "j"])
        .to(directory.path().join("t.jsonl"));
    assert_eq!(
        refused.run().await.unwrap_err().to_string(),
        "column j: row 1: a JSON null could not be told from no value in JSON lines"
    );
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert!(
        left.iter()
            .all(|entry| !entry.as_ref().unwrap().path().ends_with("t.jsonl"))
    );
}

async fn a_table_made_from_the_file_has_the_types_of_the_first(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE t (o int4, n numeric, n2 numeric(10,2), v varchar(5), c char(3), u uuid, j json, i int2, f float4); \
             INSERT INTO t VALUES (1, 1.50, 2.5, 'a', 'b', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{}', 1, 0.1)",
        )
        .await;
    let directory = tempfile::tempdir().unwrap();
    let db = database(&place).await;
    for format in BINARY {
        let path = directory.path().join(format!("t.{format}"));
        db.unload("t").to(&path).run().await.unwrap();
        place.run("DROP TABLE IF EXISTS again").await;
        let load = db.load(path.display().to_string()).table("again");
        load.create(Vec::<String>::new()).run().await.unwrap();
        let columns = |name: &str| {
            format!(
                "SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute \
                 WHERE attrelid = '{}.{name}'::regclass AND attnum > 0 ORDER BY attnum",
                place.schema
            )
        };
        assert_eq!(
            place.texts(&columns("again")).await,
            place.texts(&columns("t")).await,
            "{format}"
        );
        same(&place, "t", "again", format).await;
    }
}

async fn however_it_is_cut_every_row_comes_once(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE t (k int8, s text COLLATE \"C\", u uuid, e float8, w text); \
             INSERT INTO t SELECT g, CASE WHEN g % 10 = 0 THEN NULL WHEN g % 2 = 0 THEN 'same' ELSE 'v' || g || '''' END, \
                 CASE WHEN g % 7 = 0 THEN NULL ELSE md5(g::text)::uuid END, \
                 CASE WHEN g % 5 = 0 THEN 'NaN' ELSE exp(g % 600) END, repeat('x', 700) FROM generate_series(1, 30000) g; \
             DELETE FROM t WHERE k % 3 = 0; ANALYZE t; \
             CREATE VIEW v AS SELECT k, s FROM t; \
             CREATE TABLE p (k int8, s text) PARTITION BY HASH (k); \
             CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0); \
             CREATE TABLE p1 (s text, gone int, k int8); ALTER TABLE p1 DROP COLUMN gone; \
             ALTER TABLE p ATTACH PARTITION p1 FOR VALUES WITH (MODULUS 2, REMAINDER 1); \
             INSERT INTO p SELECT k, w FROM t; \
             CREATE TABLE parent (k int8); CREATE TABLE child (more text) INHERITS (parent); \
             INSERT INTO parent SELECT k FROM t WHERE k < 1000; INSERT INTO child SELECT k, w FROM t WHERE k >= 1000; \
             CREATE MATERIALIZED VIEW mv AS SELECT * FROM t; CREATE TABLE empty (k int8)",
        )
        .await;
    let wanted: Vec<String> = {
        let mut all: Vec<String> = (1..=30_000)
            .filter(|k| k % 3 != 0)
            .map(|k: i64| k.to_string())
            .collect();
        all.sort();
        all
    };
    let directory = tempfile::tempdir().unwrap();
    let db = database(&place).await;
    for (name, jobs_wanted) in [
        ("t", 3),
        ("v", 1),
        ("p", 2),
        ("parent", 3),
        ("mv", 2),
        ("empty", 1),
    ] {
        let unload = db.unload(name).columns(["k"]).jobs(3);
        let report = unload
            .to(directory.path().join("one.csv"))
            .overwrite()
            .run()
            .await
            .unwrap();
        assert_eq!(report.jobs.min(jobs_wanted), jobs_wanted, "{name} {report:?}");
        let unload = db.unload(name).columns(["k"]).jobs(3);
        let found = keys(unload, directory.path()).await;
        match name {
            "empty" => assert!(found.is_empty()),
            "parent" => {
                assert!(found == wanted);
                let told = report.notes.iter().any(|note| {
                    note.starts_with("the rows of the tables that inherit from")
                        && note.contains("are read with its own (child)")
                });
                assert!(told, "{:?}", report.notes);
            }
            _ => assert!(found == wanted, "{name}: {} rows", found.len()),
        }
    }
    for column in ["k", "s", "u", "e"] {
        let unload = db.unload("t").columns(["k"]).jobs(3).split_by(column);
        let found = keys(unload, directory.path()).await;
        assert!(found == wanted, "by {column}: {} rows", found.len());
    }
    let query = db
        .unload_query("SELECT k, s FROM t -- all of it")
        .columns(["k"])
        .jobs(2)
        .split_by("s");
    assert!(keys(query, directory.path()).await == wanted);
}

async fn rows_come_in_the_order_of_the_table(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run("CREATE TABLE t AS SELECT g AS k, repeat('x', 900) AS w FROM generate_series(1, 30000) g")
        .await;
    let db = database(&place).await;
    let mut batches = db.unload("t").columns(["k"]).jobs(4).batches().await.unwrap();
    let mut next = 1;
    while let Some(batch) = batches.next().await.unwrap() {
        let column = batch.column(0);
        let numbers = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int32Type>(column);
        for number in numbers.values() {
            assert_eq!(*number, next);
            next += 1;
        }
    }
    assert_eq!(next, 30_001);
}

async fn what_has_no_exact_form_names_its_row(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TYPE pair AS (a int4, b text); \
             CREATE TABLE t (id int4 PRIMARY KEY, d date, ts timestamptz, n numeric(5,2), p pair, m money[], \
                 g int8 GENERATED ALWAYS AS (id * 2) STORED); \
             INSERT INTO t VALUES (1, '2024-01-01', now(), 1, (1, 'x'), '{1.5}'), (7, 'infinity', '-infinity', 'NaN', NULL, NULL)",
        )
        .await;
    let db = database(&place).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.parquet");
    for (column, wanted) in [
        ("d", "infinity is no date or time to other systems"),
        ("ts", "-infinity is no date or time to other systems"),
        ("n", "NaN is not a decimal(5,2)"),
    ] {
        let refused = db
            .unload("t")
            .columns(["id", column])
            .to(&path)
            .run()
            .await
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("column '{column}' of the row with id = 7: {wanted}")
        );
        assert_eq!(
            refused.hint_text(),
            Some(&*format!("--text {column} gives it as the database's own text"))
        );
        assert!(!path.exists());
    }
    let path = directory.path().join("t.csv");
    let report = db
        .unload("t")
        .text(["d", "ts", "n"])
        .columns(["id", "d", "ts", "n", "p", "m"]);
    let report = report.filter("id = 7 OR id = 1").to(&path).run().await.unwrap();
    assert_eq!(
        report.notes,
        ["column 'm' of type money[] (whose text depends on lc_monetary) comes as text"]
    );
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("\n7,infinity,-infinity,NaN,,\n"), "{text}");
    assert!(
        text.contains("\"{\"\"a\"\":1,\"\"b\"\":\"\"x\"\"}\",{$1.50}\n"),
        "{text}"
    );
    // What the database computes is left out unless it is asked for, so that the file can be loaded again.
    let report = db
        .unload("t")
        .text(["d", "ts", "n"])
        .to(&path)
        .overwrite()
        .run()
        .await
        .unwrap();
    let note = "g is computed by the database and left out; --columns names what to take";
    assert!(report.notes.iter().any(|n| n == note), "{:?}", report.notes);
    assert!(
        std::fs::read_to_string(&path)
            .unwrap()
            .starts_with("id,d,ts,n,p,m\n")
    );
    let asked = db
        .unload("t")
        .columns(["g"])
        .to(&path)
        .overwrite()
        .run()
        .await
        .unwrap();
    assert_eq!(asked.rows, 2);
    let types = TextOptions::default();
    assert!(types.header);
}

async fn what_cannot_be_read_is_told_before_a_file_is_made(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run("CREATE TABLE t (id int4 PRIMARY KEY, j json); INSERT INTO t VALUES (1, '{}')")
        .await;
    let db = database(&place).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.csv");
    let cases = [
        (
            db.unload("t").filter("nope = 1"),
            "the condition (nope = 1): column \"nope\" does not exist",
        ),
        (
            db.unload("t").split_by("nope"),
            "there is no column 'nope' to split by",
        ),
        (
            db.unload("t").split_by("j"),
            "column 'j' has no order to split by",
        ),
        (db.unload_query(" ; "), "the query is empty"),
        (
            db.unload_query("SELECT 1; SELECT 2"),
            "there is more than one statement",
        ),
        (
            db.unload_query("SELECT $1::int4"),
            "the query has parameters ($1), and there is nothing to fill them with",
        ),
        (db.unload_query("DELETE FROM t"), "the query returns no rows"),
        (
            db.unload_query("SELECT 1 AS a, 2 AS a"),
            "column 'a' is there twice, and columns are identified by their names",
        ),
    ];
    for (unload, wanted) in cases {
        let refused = unload.to(&path).run().await.unwrap_err();
        assert!(refused.to_string().contains(wanted), "{refused}");
    }
    let refused = db
        .unload_query("DELETE FROM t RETURNING id")
        .to(&path)
        .run()
        .await
        .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot execute DELETE in a read-only transaction"
    );
    let refused = db
        .unload_query("SELECT 1 / (id - 1) FROM t")
        .to(&path)
        .run()
        .await
        .unwrap_err();
    assert_eq!(refused.to_string(), "division by zero");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    assert_eq!(place.number("SELECT count(*) FROM t").await, 1);
}

async fn a_reader_that_is_dropped_stops_its_query(server: Server) {
    let place = TestDatabase::on(server).await;
    let db = database(&place).await;
    let mut batches = db
        .unload_query("SELECT g, repeat('x', 1000) FROM generate_series(1, 100000000) g")
        .batches()
        .await
        .unwrap();
    assert!(batches.next().await.unwrap().is_some());
    drop(batches);
    let running = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY%100000000%' \
         AND pid <> pg_backend_pid() AND '{}' <> ''",
        place.schema
    );
    for _ in 0..1_000 {
        if place.number(&running).await == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the query goes on");
}
