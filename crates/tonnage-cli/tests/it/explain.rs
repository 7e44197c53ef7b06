//! `tonnage explain`: verdicts on real databases, their reasons, and the table that is only read.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use serde_json::Value;

use crate::support::{
    Database::{MariaDb, Postgres, Sqlite},
    TestDatabase,
};

fn explain(place: &TestDatabase, arguments: &str) -> Value {
    let ran = place.run(&format!("explain {{db}} {arguments} --yes --report -"));
    assert_eq!(ran.code, Some(0), "explain {arguments}\n{}", ran.stderr);
    serde_json::from_str(&ran.stdout_exact).expect("the report is JSON")
}

/// What one method did of an insert.
fn by<'a>(report: &'a Value, method: &str) -> &'a Value {
    of(report, "insert", method)
}

/// What one method did of an operation.
fn of<'a>(report: &'a Value, operation: &str, method: &str) -> &'a Value {
    let methods = report["methods"].as_array().expect("methods");
    let found = methods
        .iter()
        .find(|one| one["operation"] == operation && one["method"] == method);
    found.unwrap_or_else(|| panic!("{operation} {method} in {report:#}"))
}

fn why(one: &Value) -> String {
    let lines = one["why"].as_array().expect("reasons").iter();
    lines
        .map(|line| line.as_str().expect("text"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn postgres_tells_copy_from_insert_by_the_records_of_its_log() {
    let place = TestDatabase::with(
        Postgres,
        "CREATE TABLE t (id integer PRIMARY KEY, k integer, name text); CREATE INDEX ON t (k)",
        &[],
    );
    let report = explain(&place, "t --rows 2k");
    let native = by(&report, "native");
    assert_eq!(native["taken"], "by_array", "{report:#}");
    assert!(native["row_records"].as_f64() < Some(0.1), "{report:#}");
    for method in ["array", "batch", "single"] {
        let one = by(&report, method);
        assert_eq!(one["taken"], "row_by_row", "{report:#}");
        assert_eq!(one["row_records"], 1.0, "{report:#}");
        assert!(why(one).contains("INSERT adds rows one by one"), "{report:#}");
    }
    for method in ["native", "array"] {
        let one = by(&report, method);
        assert!(
            one["index_records"].as_f64() >= Some(1.9),
            "two indexes: {report:#}"
        );
        assert!(one["log_bytes"].as_f64() > Some(0.0), "{report:#}");
        assert!(why(one).contains("2 indexes"), "{report:#}");
    }
    assert_eq!(
        report["rows_from"],
        "made up, as the table has fewer than 2000 rows to take"
    );
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"]);
    let extensions = place.sql("SELECT count(*) FROM pg_extension WHERE extname = 'pg_walinspect'");
    assert_eq!(extensions, ["0"], "it is created for a moment only");
    let left = place.sql("SELECT count(*) FROM pg_class WHERE relname LIKE 'tonnage\\_bench%'");
    assert_eq!(left, ["0"]);
}

/// Sets a flag when it goes away, also where the test fails.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whoever creates or drops a database begins a checkpoint, and it removes the log before it.
#[test]
fn checkpoints_do_not_take_the_log_away_that_is_to_be_read() {
    let place = TestDatabase::with(
        Postgres,
        "CREATE TABLE t (id integer PRIMARY KEY, name text)",
        &[],
    );
    let role = format!("{}_reader", place.name());
    place.sql(&format!(
        "CREATE EXTENSION pg_walinspect; CREATE ROLE {role} LOGIN PASSWORD 'plain' IN ROLE pg_read_server_files; \
         GRANT CREATE ON SCHEMA public TO {role}; ALTER TABLE t OWNER TO {role}"
    ));
    let url = place.url();
    let (_, rest) = url.split_once('@').expect("a URL with a user");
    let explained = AtomicBool::new(false);
    let (kept, not_kept) = thread::scope(|scope| {
        let _explained = SetWhenDropped(&explained);
        scope.spawn(|| {
            while !explained.load(Ordering::Relaxed) {
                place.sql("SELECT pg_switch_wal()");
                place.sql("CHECKPOINT");
            }
        });
        let kept = explain(&place, "t --rows 500 --method native");
        let not_kept = place.run(&format!(
            "explain postgresql://{role}:plain@{rest} t --rows 500 --method native --yes --report -"
        ));
        (kept, not_kept)
    });
    place.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    assert_eq!(by(&kept, "native")["taken"], "by_array", "{kept:#}");

    // This role may read the log and may not hold it: what is gone is unknown, and no failure.
    assert_eq!(not_kept.code, Some(0), "{}", not_kept.stderr);
    let report: Value = serde_json::from_str(&not_kept.stdout_exact).expect("JSON");
    let native = by(&report, "native");
    if native["taken"] != "by_array" {
        assert_eq!(native["taken"], "unknown", "{report:#}");
        assert!(
            why(native).contains("a checkpoint has removed that part of the log"),
            "{report:#}"
        );
    }
}

#[test]
fn triggers_and_volatile_defaults_make_copy_go_row_by_row() {
    let place = TestDatabase::with(
        Postgres,
        "CREATE TABLE t (name text, k integer); \
         CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.k := 1; RETURN NEW; END $$; \
         CREATE TRIGGER stamped BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION stamp(); \
         CREATE TABLE v (name text, id uuid NOT NULL DEFAULT gen_random_uuid()); \
         CREATE TABLE s (name text, id bigserial PRIMARY KEY)",
        &[],
    );
    let report = explain(&place, "t --rows 1k --method native");
    let native = by(&report, "native");
    assert_eq!(native["taken"], "row_by_row", "{report:#}");
    assert!(why(native).contains("BEFORE ROW trigger stamped"), "{report:#}");
    assert!(
        why(native).contains("the copy, which is without that, was taken by array"),
        "{report:#}"
    );
    assert_eq!(report["lacking"][0], "trigger stamped");

    let report = explain(&place, "v --rows 1k --method native");
    let native = by(&report, "native");
    assert_eq!(native["taken"], "row_by_row", "{report:#}");
    assert!(
        why(native).contains("column id is left to its default gen_random_uuid()"),
        "{report:#}"
    );
    assert_eq!(report["left_out"][0], "id");
    let report = explain(&place, "v --rows 1k --method native --columns name,id");
    assert_eq!(by(&report, "native")["taken"], "by_array", "{report:#}");

    // A number of a sequence is no obstacle, and the table's own sequence is not moved.
    let report = explain(&place, "s --rows 1k --method native");
    assert_eq!(by(&report, "native")["taken"], "by_array", "{report:#}");
    assert_eq!(place.sql("SELECT last_value, is_called FROM s_id_seq"), ["1|f"]);
}

#[test]
fn a_role_that_may_not_read_the_log_is_told_what_would_let_it() {
    let place = TestDatabase::new(Postgres);
    let role = format!("{}_reader", place.name());
    place.sql(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'plain'; GRANT CREATE ON SCHEMA public TO {role}; \
         CREATE TABLE t (id integer, name text); ALTER TABLE t OWNER TO {role}"
    ));
    let url = place.url();
    let (_, rest) = url.split_once('@').expect("a URL with a user");
    let ran = place.run(&format!(
        "explain postgresql://{role}:plain@{rest} t --rows 500 --yes --report -"
    ));
    place.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout_exact).expect("JSON");
    let native = by(&report, "native");
    assert_eq!(native["taken"], "unknown", "{report:#}");
    assert!(
        why(native).contains("CREATE EXTENSION pg_walinspect"),
        "{report:#}"
    );
    // Only the length of the whole server's log is known, to which other tests add.
    let bytes = &native["log_bytes"];
    assert!(bytes.is_null() || bytes.as_f64() > Some(0.0), "{report:#}");
    assert!(!ran.stdout.contains("plain"), "the report has the password");
}

#[test]
fn sqlite_logs_whole_pages_a_commit() {
    for page_bytes in [512, 4_096, 65_536] {
        let place = TestDatabase::with(
            Sqlite,
            &format!(
                "PRAGMA page_size = {page_bytes}; PRAGMA journal_mode = WAL; \
                 CREATE TABLE parent (id integer PRIMARY KEY); \
                 CREATE TABLE t (id integer PRIMARY KEY, parent integer NOT NULL REFERENCES parent, name text)"
            ),
            &[],
        );
        let report = explain(&place, "t --rows 3k");
        let single = by(&report, "single");
        assert_eq!(single["taken"], "row_by_row", "{report:#}");
        assert!(
            single["log_bytes"].as_f64() >= Some(f64::from(page_bytes)),
            "{report:#}"
        );
        assert!(
            why(single).contains(&format!("whole, {page_bytes} bytes")),
            "{report:#}"
        );
        for method in ["native", "array", "batch"] {
            assert_eq!(
                by(&report, method)["taken"],
                "by_array",
                "{page_bytes}: {report:#}"
            );
        }
        assert_eq!(report["lacking"][0], "checks of its foreign keys");
        assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"]);
        assert_eq!(place.files(""), [] as [&str; 0]);
    }
}

#[test]
fn a_rollback_journal_has_no_frames_to_count() {
    let place = TestDatabase::with(
        Sqlite,
        "PRAGMA journal_mode = DELETE; CREATE TABLE t (id integer, name text)",
        &[],
    );
    let report = explain(&place, "t --rows 100 --method native");
    let native = by(&report, "native");
    assert_eq!(native["taken"], "unknown", "{report:#}");
    assert!(
        why(native).contains("with a rollback journal each commit writes"),
        "{report:#}"
    );
}

#[test]
fn mariadb_changes_pages_row_by_row_unless_others_drown_it() {
    let place = TestDatabase::with(
        MariaDb,
        "CREATE TABLE t (id bigint PRIMARY KEY AUTO_INCREMENT, k integer, name varchar(50), KEY (k)) ENGINE = InnoDB",
        &[],
    );
    let report = explain(&place, "t --rows 2k --method array,native");
    for method in ["array", "native"] {
        let one = by(&report, method);
        match one["taken"].as_str() {
            Some("row_by_row") => assert!(one["row_records"].as_f64() >= Some(0.9), "{report:#}"),
            // The server is that of all tests.
            _ => assert!(why(one).contains("others do more on it"), "{report:#}"),
        }
        assert_eq!(one["rows"], 2_000);
    }
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"]);
    assert_eq!(report["left_out"][0], "id");
}

#[test]
fn rows_are_the_tables_own_where_it_has_enough_or_those_of_a_file() {
    for database in [Sqlite, Postgres, MariaDb] {
        let place = TestDatabase::with(
            database,
            "CREATE TABLE t (id integer PRIMARY KEY, name varchar(20))",
            &[("rows.csv", "id,name\n7,anna\n8,ben\n")],
        );
        let values: Vec<String> = (0..50).map(|n| format!("({n}, 'name {n}')")).collect();
        place.sql(&format!("INSERT INTO t VALUES {}", values.join(", ")));
        let report = explain(&place, "t --rows 50 --method native,single");
        assert_eq!(report["rows_from"], "the table itself", "{report:#}");
        assert_eq!(by(&report, "native")["rows"], 50, "{report:#}");
        let report = explain(&place, "t rows.csv --method native");
        assert_eq!(report["rows_from"], "rows.csv");
        assert_eq!(by(&report, "native")["rows"], 2);
        assert_eq!(place.sql("SELECT count(*) FROM t"), ["50"], "{database:?}");
    }
}

#[test]
fn the_text_says_verdict_figures_and_reasons() {
    let place = TestDatabase::with(
        Sqlite,
        "PRAGMA journal_mode = WAL; CREATE TABLE t (id integer PRIMARY KEY, name text)",
        &[],
    );
    let ran = place.run("explain {db} t --rows 1k --method native,single");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for part in [
        "INSERT into t of SQLite ",
        "native   ",
        "single   ",
        " WAL frames a row",
        "columns  name; left to the database: id",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
}

#[test]
fn rows_that_a_check_refuses_ask_for_rows_of_the_users_own() {
    let place = TestDatabase::with(Postgres, "CREATE TABLE t (a integer CHECK (a < 0))", &[]);
    let ran = place.run("explain {db} t --rows 100 --yes");
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(
        ran.stderr.contains("hint: rows of your own: tonnage explain"),
        "{}",
        ran.stderr
    );
    let left = place.sql("SELECT count(*) FROM pg_class WHERE relname LIKE 'tonnage\\_bench%'");
    assert_eq!(left, ["0"]);
}

#[test]
fn updates_and_deletes_are_looked_at_where_rows_have_a_key() {
    let place = TestDatabase::with(
        Postgres,
        "CREATE TABLE t (id integer PRIMARY KEY, code varchar(20) UNIQUE, k integer, name text); \
         CREATE INDEX ON t (k); CREATE TABLE plain (a integer)",
        &[],
    );
    let report = explain(&place, "t --rows 1k --batch-rows 500");
    for method in ["native", "array", "batch", "single"] {
        for operation in ["update", "delete"] {
            let one = of(&report, operation, method);
            assert!(one["refused"].is_null(), "{report:#}");
            assert_eq!(one["taken"], "row_by_row", "{report:#}");
            assert_eq!(one["row_records"], 1.0, "{report:#}");
        }
        assert_eq!(of(&report, "delete", method)["index_records"], 0.0, "{report:#}");
        assert!(
            of(&report, "update", method)["index_records"].as_f64() >= Some(2.9),
            "an indexed column changes: {report:#}"
        );
        assert!(
            why(of(&report, "delete", method)).contains("DELETE marks each row"),
            "{report:#}"
        );
    }
    let report = explain(&place, "plain --rows 100 --method native");
    let methods = report["methods"].as_array().expect("methods");
    assert!(
        methods.iter().all(|one| one["operation"] == "insert"),
        "{report:#}"
    );
    let ran = place.run("explain {db} plain --operation delete --yes");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("has no primary key, by which a delete would find its rows"),
        "{}",
        ran.stderr
    );

    for (database, method) in [(Sqlite, "native"), (MariaDb, "array")] {
        let place = TestDatabase::with(
            database,
            "CREATE TABLE t (id integer PRIMARY KEY, code varchar(20) UNIQUE, name varchar(20))",
            &[("rows.csv", "id,code,name\n7,a,anna\n8,b,ben\n")],
        );
        for arguments in ["t --rows 300", "t rows.csv --columns id,name"] {
            let report = explain(&place, &format!("{arguments} --method {method}"));
            for operation in ["insert", "update", "delete"] {
                let one = of(&report, operation, method);
                assert!(one["refused"].is_null(), "{database:?} {report:#}");
                assert!(one["rows"].as_u64() >= Some(2), "{database:?} {report:#}");
            }
        }
        let ran = place.run(&format!("explain {{db}} t --rows 100 --method {method} --yes"));
        for part in ["INSERT into ", "UPDATE of ", "DELETE from "] {
            assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
        }
        assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"]);
    }
}

#[test]
fn triggers_are_copied_where_they_are_asked_for_and_do_their_work() {
    let log = "CREATE TABLE seen (id integer); ";
    let postgres = format!(
        "{log} CREATE TABLE t (id integer PRIMARY KEY, name text); \
         CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (NEW.id); RETURN NEW; END $$; \
         CREATE TRIGGER looked BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION look()"
    );
    let sqlite = format!(
        "{log} CREATE TABLE t (id integer PRIMARY KEY, name text); \
         CREATE TRIGGER looked AFTER INSERT ON t BEGIN INSERT INTO seen VALUES (NEW.id); END"
    );
    let mariadb = format!(
        "{log} CREATE TABLE t (id integer PRIMARY KEY, name varchar(20)); \
         CREATE TRIGGER looked AFTER INSERT ON t FOR EACH ROW INSERT INTO seen VALUES (NEW.id)"
    );
    // A copy in a file of its own has a table of its own that the trigger writes.
    for (database, sql, stays) in [
        (Postgres, postgres, "200"),
        (MariaDb, mariadb, "200"),
        (Sqlite, sqlite, "0"),
    ] {
        let place = TestDatabase::with(database, &sql, &[]);
        let arguments = "t --rows 200 --method native --operation insert";
        let report = explain(&place, arguments);
        assert_eq!(report["lacking"][0], "trigger looked", "{report:#}");
        assert_eq!(place.sql("SELECT count(*) FROM seen"), ["0"]);
        let report = explain(&place, &format!("{arguments} --with-triggers"));
        let native = by(&report, "native");
        assert_eq!(report["lacking"], serde_json::json!([]), "{report:#}");
        assert_eq!(native["rows"], 200, "{report:#}");
        assert_eq!(place.sql("SELECT count(*) FROM seen"), [stays], "{database:?}");
        if database == Postgres {
            assert_eq!(native["taken"], "row_by_row", "{report:#}");
            assert_eq!(native["row_records"], 1.0, "{report:#}");
            assert!(
                !why(native).contains("the copy, which is without that"),
                "{report:#}"
            );
        }
        assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"]);
    }
}

#[test]
fn columns_whose_values_travel_as_text_are_made_up_too() {
    let place = TestDatabase::with(
        Postgres,
        "CREATE TYPE pair AS (x integer, y text); CREATE TYPE mood AS ENUM ('calm', 'cross'); CREATE DOMAIN tags AS text[];
         CREATE TABLE t (id integer PRIMARY KEY, numbers integer[] NOT NULL, words tags NOT NULL, two pair NOT NULL,
             pairs pair[] NOT NULL, mood mood NOT NULL, span int4range NOT NULL, spans int4multirange NOT NULL,
             host inet NOT NULL, bits bit(5) NOT NULL, more varbit(9) NOT NULL, at point NOT NULL)",
        &[],
    );
    let report = explain(&place, "t --rows 100");
    assert_eq!(by(&report, "native")["rows"], 100, "{report:#}");
    // Rows of its own.
    place.sql(
        "INSERT INTO t SELECT n, ARRAY[n, NULL], ARRAY['a b', 'c,d'], (n, 'x,y')::pair, ARRAY[(n, NULL)::pair], 'cross',
             int4range(n, n + 5), '{[1,2), [5,6)}', '192.0.2.1', B'10101', B'1', point(n, 0) FROM generate_series(1, 100) n",
    );
    let report = explain(&place, "t --rows 100");
    assert_eq!(report["rows_from"], "the table itself", "{report:#}");
    assert_eq!(by(&report, "array")["rows"], 100, "{report:#}");

    let place = TestDatabase::with(
        MariaDb,
        "CREATE TABLE t (id integer PRIMARY KEY, mood enum('calm','cross') NOT NULL, moods set('a','b') NOT NULL,
             host inet6 NOT NULL, at point NOT NULL, form geometry NOT NULL)",
        &[],
    );
    let report = explain(&place, "t --rows 100");
    assert_eq!(by(&report, "native")["rows"], 100, "{report:#}");
}
