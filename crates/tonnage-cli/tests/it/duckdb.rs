//! DuckDB on the command line: what is its own there.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
    thread::sleep,
    time::Duration,
};

use tempfile::TempDir;
use tonnage_testing::duckdb_library;

use crate::{
    database::Database,
    process::{Running, report, tonnage},
};

/// A database, and a directory of files.
struct Place {
    database: Database,
    files: TempDir,
}

impl Place {
    fn with(sql: &str) -> Self {
        let database = Database::duckdb();
        database.run(sql);
        Self {
            database,
            files: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file is written");
    }

    /// Runs words, of which `{db}` is the database, in the directory of the files.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = tonnage();
        command.current_dir(self.files.path());
        command.args(
            words
                .iter()
                .map(|word| word.replace("{db}", &self.database.url())),
        );
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("the binary starts")
    }

    #[track_caller]
    fn ok(&self, words: &[&str], code: i32) -> String {
        let ran = self.run(words);
        assert_eq!(ran.status.code(), Some(code), "{words:?}: {}", said(&ran));
        String::from_utf8(ran.stdout).expect("text")
    }

    fn texts(&self, sql: &str) -> Vec<String> {
        let rows = self.database.rows(sql).into_iter();
        let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        rows.map(|row| row.into_iter().map(text).collect::<Vec<_>>().join("|"))
            .collect()
    }
}

fn said(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stderr).into_owned()
}

#[test]
fn a_library_that_is_not_found_says_where_it_was_looked_for() {
    let place = Place::with("SELECT 1");
    let path = place.path("a.duckdb");
    fs::write(&path, "x").expect("a file");
    let run = |variable: Option<&str>, url: &str| {
        let mut command = tonnage();
        // Nowhere are a manifest or a library.
        command
            .env("HOME", place.files.path())
            .env("XDG_CONFIG_HOME", place.files.path());
        command
            .env_remove("TONNAGE_DUCKDB_LIBRARY")
            .env_remove("ADBC_DRIVER_PATH");
        command.envs(variable.map(|value| ("TONNAGE_DUCKDB_LIBRARY", value)));
        let ran = command.args(["runs", url]).output().expect("the binary starts");
        assert_eq!(ran.status.code(), Some(2), "{}", said(&ran));
        said(&ran)
    };
    let shown = path.display().to_string();
    let nowhere = run(None, &shown);
    for part in [
        "DuckDB's library was not found",
        "TONNAGE_DUCKDB_LIBRARY",
        "hint: ",
        "?driver=",
        "dbc install duckdb",
    ] {
        assert!(nowhere.contains(part), "{part}: {nowhere}");
    }
    let wrong = run(Some("/nowhere/libduckdb.so"), &shown);
    assert!(
        wrong.contains("DuckDB's library /nowhere/libduckdb.so cannot be loaded"),
        "{wrong}"
    );
    let library = duckdb_library();
    let no_database = run(Some(&library), &shown);
    assert!(no_database.contains("is not a DuckDB database"), "{no_database}");
}

#[test]
fn a_file_that_another_process_has_is_refused_with_the_reason() {
    let place = Place::with("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)");
    let rows: String = (0..2_000).map(|id| format!("{id},v{id}\n")).collect();
    place.write("t.csv", &format!("id,v\n{rows}"));
    let mut load = place.command(&[
        "load",
        "t.csv",
        "{db}",
        "-t",
        "t",
        "--rate",
        "400/s",
        "--batch-rows",
        "20",
    ]);
    let first = Running::start(&mut load);
    let mut refused = None;
    for _ in 0..600 {
        let ran = place.run(&["runs", "{db}"]);
        if ran.status.code() == Some(1) {
            refused = Some(said(&ran));
            break;
        }
        sleep(Duration::from_millis(10));
    }
    let refused = refused.expect("the file is in use");
    assert!(
        refused.contains("hint: one process at a time may have a DuckDB file open for writing"),
        "{refused}"
    );
    first.wait().expect(0);
    assert_eq!(place.texts("SELECT count(*) FROM t"), ["2000"]);
}

#[test]
fn decimals_come_back_as_they_were_written() {
    let place = Place::with("CREATE TABLE other (n INTEGER)");
    place.write("rows.csv", "n,m\n1.50,12345678901234567890\n20,1\n");
    place.ok(&["load", "rows.csv", "{db}", "-t", "made", "--create"], 0);
    assert_eq!(
        place.texts("SELECT n::VARCHAR || ' ' || m::VARCHAR FROM made ORDER BY n"),
        ["1.50 12345678901234567890", "20.00 1"]
    );
}

#[test]
fn a_bad_row_is_rejected_also_where_its_key_is_there() {
    let place = Place::with(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR CHECK (v <> 'bad'), n INTEGER DEFAULT 7 CHECK (n > 0), \
         w VARCHAR UNIQUE); INSERT INTO t VALUES (1, 'a', 1, 'one'), (2, 'b', 1, 'two')",
    );
    place.write(
        "t.csv",
        "id,v,w\n1,bad,x1\n2,c,x2\n3,bad,x3\n4,d,x4\n4,e,x5\n5,f,two\n6,g,x6\n",
    );
    let rejects = [
        "--on-error",
        "reject",
        "--rejects",
        "r.jsonl",
        "--report",
        "report.json",
    ];
    let load = |mode: &'static str| {
        [
            &["load", "t.csv", "{db}", "-t", "t", "--mode", mode, "--key", "id"][..],
            &rejects,
        ]
        .concat()
    };
    place.ok(&load("ignore"), 3);
    let account = report(&place.path("report.json"));
    assert_eq!(account["rows"]["rejected"], 3, "{account:#}");
    assert_eq!(account["rows"]["skipped"]["conflict"], 2, "{account:#}");
    assert_eq!(
        place.texts("SELECT id, v, w FROM t ORDER BY id"),
        ["1|a|one", "2|b|two", "4|d|x4", "6|g|x6"]
    );
    let text = fs::read_to_string(place.path("r.jsonl")).expect("rejects");
    let mut found: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .collect();
    found.sort_by_key(|line| line["row"].as_u64());
    let codes: Vec<_> = found
        .iter()
        .map(|line| (line["row"].as_u64(), line["code"].as_str()))
        .collect();
    assert_eq!(
        codes,
        [
            (Some(1), Some("23514")),
            (Some(3), Some("23514")),
            (Some(6), Some("Constraint"))
        ]
    );
}

#[test]
fn values_that_a_cast_would_change_are_rejected_and_types_that_cannot_be_carried_refused() {
    let place = Place::with(
        "CREATE TABLE t (h HUGEINT, u UBIGINT, s TIMESTAMP_S, m TIMESTAMP_MS, e ENUM('a', 'b'), i UTINYINT, j JSON); \
         CREATE TABLE odd (id INTEGER, l INTEGER[], s STRUCT(a INTEGER), m MAP(VARCHAR, INTEGER), i INTERVAL, b BIT, \
         t TIMETZ, x UNION(a INTEGER, b VARCHAR)); \
         INSERT INTO odd VALUES (1, [1, 2], {'a': 1}, MAP {'k': 1}, INTERVAL 1 DAY, '101', '10:00:00+01', 5); \
         CREATE TABLE ns (id INTEGER, t TIMESTAMP_NS); INSERT INTO ns VALUES (7, '2020-01-01 00:00:00.123456789')",
    );
    place.write(
        "t.csv",
        "h,u,s,m,e,i,j\n\
         170141183460469231731687303715884105727,18446744073709551615,2020-01-01 00:00:01,2020-01-01 00:00:00.001,a,255,{\"a\": 1}\n\
         1.5,1,2020-01-01 00:00:01,2020-01-01 00:00:00.001,a,1,1\n\
         1,18446744073709551616,2020-01-01 00:00:01,2020-01-01 00:00:00.001,a,1,1\n\
         1,-1,2020-01-01 00:00:01,2020-01-01 00:00:00.001,a,1,1\n\
         1,1,2020-01-01 00:00:01.5,2020-01-01 00:00:00.001,a,1,1\n\
         1,1,2020-01-01 00:00:01,2020-01-01 00:00:00.0001,a,1,1\n\
         1,1,2020-01-01 00:00:01,2020-01-01 00:00:00.001,c,1,1\n\
         1,1,2020-01-01 00:00:01,2020-01-01 00:00:00.001,a,256,1\n\
         340282366920938463463374607431768211455,1,2020-01-01 00:00:01,2020-01-01 00:00:00.001,a,1,1\n\
         -170141183460469231731687303715884105728,0,1969-12-31 23:59:59,2020-01-01 00:00:00.999,b,0,[]\n",
    );
    place.ok(
        &[
            "load",
            "t.csv",
            "{db}",
            "-t",
            "t",
            "--on-error",
            "reject",
            "--rejects",
            "r.jsonl",
        ],
        3,
    );
    let rows = [
        "-170141183460469231731687303715884105728|0|1969-12-31 23:59:59|2020-01-01 00:00:00.999|b|0|[]",
        "170141183460469231731687303715884105727|18446744073709551615|2020-01-01 00:00:01|2020-01-01 00:00:00.001|a|255|{\"a\": 1}",
    ];
    assert_eq!(place.texts("SELECT * FROM t ORDER BY h"), rows);
    assert_eq!(
        fs::read_to_string(place.path("r.jsonl"))
            .expect("rejects")
            .lines()
            .count(),
        8
    );
    let out = place.ok(&["unload", "{db}", "-t", "t", "--format", "csv", "-o", "-"], 0);
    assert!(
        out.contains("170141183460469231731687303715884105727,18446744073709551615,2020-01-01 00:00:01"),
        "{out}"
    );
    for column in ["l", "s", "m", "i", "b", "t", "x"] {
        place.write("odd.csv", &format!("id,{column}\n2,1\n"));
        let ran = place.run(&["load", "odd.csv", "{db}", "-t", "odd", "--dry-run"]);
        assert_eq!(ran.status.code(), Some(1), "{column}: {}", said(&ran));
        let named = format!("column '{column}' of odd has type ");
        assert!(
            said(&ran).contains(&named) && said(&ran).contains("hint: leave it out"),
            "{}",
            said(&ran)
        );
    }
    let out = place.ok(&["unload", "{db}", "-t", "odd", "--format", "csv", "-o", "-"], 0);
    assert!(
        out.contains("1,\"[1, 2]\",{'a': 1},{k=1},1 day,101,10:00:00+01,5"),
        "{out}"
    );
    let ran = place.run(&["unload", "{db}", "-t", "ns", "--format", "csv", "-o", "-"]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        said(&ran).contains("column 't'") && said(&ran).contains("--text t"),
        "{}",
        said(&ran)
    );
    let out = place.ok(
        &[
            "unload", "{db}", "-t", "ns", "--text", "t", "--format", "csv", "-o", "-",
        ],
        0,
    );
    assert_eq!(out, "id,t\n7,2020-01-01 00:00:00.123456789\n");
}

#[test]
fn a_table_that_was_made_again_is_a_new_one_to_a_resume() {
    let place =
        Place::with("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR); COMMENT ON TABLE t IS 'ours'");
    let rows: String = (0..5_000).map(|id| format!("{id},v{id}\n")).collect();
    place.write("t.csv", &format!("id,v\n{rows}"));
    let load = ["load", "t.csv", "{db}", "-t", "t", "--resume"];
    let slowly = [&load[..], &["--rate", "500/s", "--batch-rows", "50"]].concat();
    let killed = Running::start(&mut place.command(&slowly));
    sleep(Duration::from_secs(4));
    killed.kill();
    let written = place.texts("SELECT count(*) FROM t");
    assert_ne!(written, ["0"], "something was written before it was killed");
    let comment = place.texts("SELECT comment FROM duckdb_tables() WHERE table_name = 't'");
    assert!(comment[0].starts_with("ours [tonnage "), "{comment:?}");
    place
        .database
        .run("DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)");
    let refused = place.run(&load);
    let there = place.texts("SELECT count(*) FROM t");
    // Another table than that of the run: it is refused, or begun anew, and never gone on with.
    match refused.status.code() {
        Some(0) => assert_eq!(there, ["5000"], "{}", said(&refused)),
        _ => assert_eq!(there, ["0"], "{}", said(&refused)),
    }
    place.ok(&["load", "t.csv", "{db}", "-t", "t", "--restart"], 0);
    assert_eq!(
        place.texts("SELECT count(*), count(DISTINCT id) FROM t"),
        ["5000|5000"]
    );
}

#[test]
fn statements_gets_and_single_transactions() {
    let place = Place::with(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR, n DECIMAL(9,2)); \
         INSERT INTO t SELECT i, 'v' || i, i / 2 FROM range(10) r(i)",
    );
    place.write("s.csv", "id,v\n1,one\n99,none\n3,three\n");
    place.ok(
        &[
            "exec",
            "s.csv",
            "{db}",
            "--sql",
            "update t set v = :v where id = :id",
            "--report",
            "report.json",
        ],
        0,
    );
    let account = report(&place.path("report.json"));
    assert_eq!(
        (
            account["rows"]["written"].as_u64(),
            account["rows"]["skipped"]["unmatched"].as_u64()
        ),
        (Some(2), Some(1))
    );
    let got = place.ok(&["get", "{db}", "3", "1", "77", "-t", "t", "--ordered"], 0);
    assert_eq!(got, "id,v,n\n3,three,1.50\n1,one,0.50\n");
    place.write("more.csv", "id,v,n\n20,a,1\n21,b,2\n1,c,3\n");
    place.ok(&["load", "more.csv", "{db}", "-t", "t", "-1"], 1);
    assert_eq!(place.texts("SELECT count(*) FROM t"), ["10"]);
    place.ok(
        &[
            "load",
            "more.csv",
            "{db}",
            "-t",
            "t",
            "-1",
            "--mode",
            "upsert",
            "--truncate",
            "--restart",
        ],
        0,
    );
    assert_eq!(
        place.texts("SELECT id, v FROM t ORDER BY id"),
        ["1|c", "20|a", "21|b"]
    );
    for options in [&["--recreate"][..], &["--rebuild-indexes", "--truncate"]] {
        let words = [&["load", "more.csv", "{db}", "-t", "t", "--restart"][..], options].concat();
        let ran = place.run(&words);
        assert_eq!(ran.status.code(), Some(2), "{}", said(&ran));
        assert!(
            said(&ran).contains(" is not there for DuckDB's table t"),
            "{}",
            said(&ran)
        );
    }
}
