//! Rows that a trigger, a function or row security refuses: each is a bad row, whatever code it is refused with.

use crate::support::{
    Database::{MariaDb, Postgres, Sqlite},
    TestDatabase,
};

/// 300 rows, of which every hundredth is bad.
const ROWS: u64 = 300;
const BAD: [u64; 3] = [100, 200, 300];

fn rows() -> String {
    let rows = (1..=ROWS).map(|id| match BAD.contains(&id) {
        true => format!("{id},bad\n"),
        false => format!("{id},good\n"),
    });
    format!("id,note\n{}", rows.collect::<String>())
}

/// Loads the rows with `options`; the codes of those that were put aside.
#[track_caller]
fn codes(place: &TestDatabase, url: &str, options: &str) -> Vec<String> {
    place.write("rows.csv", rows());
    // Of the load before.
    let _ = std::fs::remove_file(place.path("bad.jsonl"));
    let ran = place.run(&format!(
        "load rows.csv {url} -t t --rejects bad.jsonl --truncate {options} --report report.json"
    ));
    assert_eq!(ran.code, Some(3), "{options}\n{}", ran.stderr);
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).expect("JSON");
    assert_eq!(
        (&report["rows"]["written"], &report["rows"]["rejected"]),
        (&(ROWS - 3).into(), &3.into()),
        "{options}"
    );
    assert_eq!(
        place.sql("SELECT count(*) FROM t"),
        [(ROWS - 3).to_string()],
        "{options}"
    );
    let records = place.read("bad.jsonl");
    let records = records.lines().map(|line| {
        let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let row = record["row"].as_u64().expect("the row");
        assert!(BAD.contains(&row), "{options} {record}");
        record["code"].as_str().expect("the code").to_owned()
    });
    records.collect()
}

#[test]
fn what_postgres_raises_of_a_row_is_its_own() {
    for code in [
        "P0001", "42501", "0A000", "55000", "AB123", "28000", "57P03", "XX000", "40001",
    ] {
        let place = TestDatabase::with(
            Postgres,
            &format!(
                "CREATE TABLE t (id integer PRIMARY KEY, note text);
                 CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     IF new.note = 'bad' THEN RAISE EXCEPTION 'not this one' USING ERRCODE = '{code}'; END IF;
                     RETURN new; END $$;
                 CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION refuse()"
            ),
            &[],
        );
        for method in ["native", "array", "batch", "single"] {
            assert_eq!(codes(&place, "{db}", &format!("--method {method}")), [code; 3]);
        }
        assert_eq!(codes(&place, "{db}", "--mode upsert --key id"), [code; 3]);
    }
}

#[test]
fn rows_that_row_security_refuses_are_bad_rows() {
    let place = TestDatabase::new(Postgres);
    let role = format!("secured_{}", place.name());
    place.sql(&format!(
        "CREATE TABLE t (id integer PRIMARY KEY, note text); ALTER TABLE t ENABLE ROW LEVEL SECURITY;
         CREATE POLICY good ON t USING (true) WITH CHECK (note = 'good');
         CREATE ROLE {role} LOGIN PASSWORD 'secured'; GRANT ALL ON SCHEMA public TO {role}; GRANT ALL ON t TO {role}"
    ));
    let url = format!("postgresql://{role}:secured@{{server}}/{{name}}");
    for options in [
        "",
        "--method array",
        "--method batch",
        "--method single",
        "--mode upsert --key id",
        "--mode upsert --key id --method native",
        "--single-transaction",
    ] {
        assert_eq!(codes(&place, &url, options), ["42501"; 3], "{options}");
    }
    let ran = place.run(&format!("load rows.csv {url} -t t --dry-run"));
    assert!(
        ran.stdout.contains("array") && ran.stdout.contains("row security"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    // Without the right nothing goes, and no row is to blame.
    place.sql(&format!("TRUNCATE t; REVOKE INSERT ON t FROM {role}"));
    let ran = place.run(&format!(
        "load rows.csv {url} -t t --rejects none.jsonl --restart"
    ));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("permission denied"), "{}", ran.stderr);
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"]);
    place.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[test]
fn what_mariadb_signals_of_a_row_is_its_own() {
    for (state, code) in [
        ("45000", "1644"),
        ("42501", "1644"),
        ("02000", "1643"),
        ("ABC12", "1644"),
    ] {
        let place = TestDatabase::with(
            MariaDb,
            &format!(
                // A semicolon within would end the statement here.
                "CREATE TABLE t (id integer PRIMARY KEY, note text);
                 EXECUTE IMMEDIATE concat('CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW IF new.note = ''bad'' THEN
                     SIGNAL SQLSTATE ''{state}'' SET MESSAGE_TEXT = ''no''', char(59), ' END IF')"
            ),
            &[],
        );
        for method in ["native", "array", "batch", "single"] {
            assert_eq!(
                codes(&place, "{db}", &format!("--method {method}")),
                [code; 3],
                "{state}"
            );
        }
        assert_eq!(
            codes(&place, "{db}", "--mode upsert --key id"),
            [code; 3],
            "{state}"
        );
    }
}

#[test]
fn a_row_that_ends_the_transaction_of_sqlite_ends_no_other() {
    for action in ["ABORT", "FAIL", "ROLLBACK"] {
        let place = TestDatabase::with(
            Sqlite,
            &format!(
                "CREATE TABLE t (id INTEGER PRIMARY KEY, note TEXT); CREATE TABLE log (id);
                 CREATE TRIGGER refuse BEFORE INSERT ON t WHEN new.note = 'bad' BEGIN
                   INSERT INTO log VALUES (new.id); SELECT RAISE({action}, 'not this one'); END"
            ),
            &[],
        );
        for options in [
            "",
            "--method array",
            "--batch-rows 7",
            "--batch-rows 1",
            "--mode upsert --key id",
            "--method single",
        ] {
            assert_eq!(
                codes(&place, "{db}", options),
                ["SQLITE_CONSTRAINT_TRIGGER"; 3],
                "{action} {options}"
            );
        }
        assert_eq!(place.sql("SELECT count(*) FROM log"), ["0"], "{action}");
    }
    // All of one transaction is what it says, so a row that ends it ends the run.
    let place = TestDatabase::with(
        Sqlite,
        "CREATE TABLE t (id INTEGER PRIMARY KEY, note TEXT);
         CREATE TRIGGER refuse BEFORE INSERT ON t WHEN new.note = 'bad' BEGIN SELECT RAISE(ROLLBACK, 'not this one'); END",
        &[("rows.csv", &rows())],
    );
    let ran = place.run("load rows.csv {db} -t t --rejects bad.jsonl --single-transaction");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("has ended the transaction"), "{}", ran.stderr);
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"]);
}
