//! What is printed for people and for programs, whole. `INSTA_UPDATE=always` writes it anew after a change that
//! was meant; read the difference before it is committed.

use insta::assert_snapshot;

use crate::support::{
    BOTH,
    Database::{self, MariaDb, Postgres, Sqlite},
    TestDatabase,
};

const ORDERS: &str =
    "CREATE TABLE orders (id integer PRIMARY KEY, customer text, placed date, total numeric(10,2))";
const CSV: &str =
    "id,customer,placed,total\n1,anna,2024-02-29,12.50\n2,,2024-03-01,0.10\n2,ben,2024-03-01,0.20\n";

fn name(database: Database) -> &'static str {
    match database {
        Sqlite => "sqlite",
        Postgres => "postgres",
        MariaDb => "mariadb",
    }
}

/// Without the database's version.
fn without_version(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("database     ") {
        Some(product) => {
            let name = product.split(' ').next().unwrap_or_default();
            format!("database     {name} {{version}}\n")
        }
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn help() {
    let place = TestDatabase::new(Sqlite);
    for command in [
        "",
        "load",
        "exec",
        "unload",
        "verify",
        "get",
        "ingest",
        "job",
        "job plan",
        "job run",
        "job status",
        "job finish",
        "runs",
        "init",
        "generate",
        "bench",
        "tune",
        "explain",
        "targets",
        "completions",
        "man",
    ] {
        let ran = place.run(&format!("{command} --help"));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{command} --help");
        let name = if command.is_empty() { "tonnage" } else { command };
        assert_snapshot!(format!("help_{}", name.replace(' ', "_")), ran.stdout);
    }
}

#[test]
fn targets() {
    let place = TestDatabase::new(Sqlite);
    assert_snapshot!("targets", place.run("targets").stdout);
    for database in BOTH {
        let place = TestDatabase::new(*database);
        let ran = place.run("targets {db}");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        assert_snapshot!(
            format!("targets_{}", name(*database)),
            without_version(&ran.stdout)
        );
    }
}

#[test]
fn plans() {
    let cases = [
        ("insert", "load orders.csv {db} -t orders -j 2"),
        (
            "upsert",
            "load orders.csv {db} -t orders -j 2 --mode upsert --method array --rejects bad.jsonl \
             --max-rejects 5% --durability relaxed --limit 10 --truncate",
        ),
        (
            "whole",
            "load orders.csv {db} -t orders -j 2 -1 --truncate --create --rejects bad.jsonl",
        ),
        ("recreate", "load orders.csv {db} -t orders -j 2 --recreate"),
        (
            "rebuild",
            "load - {db} -t orders -j 2 --rebuild-indexes --truncate --columns id,customer",
        ),
        (
            "create",
            "load orders.csv {db} -t visits -j 2 --create --key id,placed --type id=int64 --map customer=who \
             --ledger none",
        ),
        (
            "pipe",
            "load - {db} -t orders -j 2 --columns id,customer --batch-rows 500 --batch-bytes 64KiB \
             --sort none",
        ),
    ];
    for database in BOTH {
        let place = TestDatabase::with(*database, ORDERS, &[("orders.csv", CSV)]);
        for (case, arguments) in cases {
            let arguments = format!("{arguments} --dry-run");
            let ran = place.run_with(&arguments, &[], CSV.as_bytes());
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{arguments}");
            let name = format!("plan_{case}_{}", name(*database));
            assert_snapshot!(name, without_version(&ran.stdout));
        }
        assert_eq!(
            place.run("runs {db}").stderr,
            "no runs\n",
            "a dry run writes nothing"
        );
        assert_eq!(place.sql("SELECT count(*) FROM orders"), ["0"]);
    }
}

/// The names in an object and in those within it, in alphabetical order.
fn names(value: &serde_json::Value, before: &str, found: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        found.push(format!("{before}{name}"));
        names(value, &format!("{before}{name}."), found);
    }
}

#[test]
fn the_report_has_every_name() {
    // What the design promises to programs that read it.
    const PROMISED: &[&str] = &[
        "run_id",
        "target",
        "table",
        "operation",
        "method",
        "rows",
        "rows.read",
        "rows.written",
        "rows.skipped",
        "rows.skipped.conflict",
        "rows.skipped.unmatched",
        "rows.skipped.superseded",
        "rows.skipped.resumed",
        "rows.rejected",
        "rows.unfinished",
        "bytes.read",
        "bytes.sent",
        "seconds",
        "rows_per_second",
        "jobs",
        "batch_rows",
        "batch_bytes",
        "durability",
        "statements",
        "commits",
        "retries",
        "settings_changed",
        "guarantees_lost",
        "client_cpu_seconds",
        "peak_memory_bytes",
        "bound_by",
    ];
    for database in BOTH {
        let place = TestDatabase::with(*database, ORDERS, &[("orders.csv", CSV)]);
        let report = place.load("orders.csv {db} -t orders --mode upsert");
        let mut found = Vec::new();
        names(&report, "", &mut found);
        let missing: Vec<_> = PROMISED
            .iter()
            .filter(|name| !found.iter().any(|f| f == *name))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert_snapshot!("report_names", found.join("\n"));
        let counted = [
            "operation",
            "table",
            "rows",
            "state",
            "durability",
            "error",
            "rejects",
            "retries",
        ];
        let counted: serde_json::Map<_, _> = counted
            .iter()
            .map(|n| ((*n).to_owned(), report[n].clone()))
            .collect();
        let counted = serde_json::to_string_pretty(&counted).expect("JSON");
        assert_snapshot!(format!("report_{}", name(*database)), counted);
        if *database == Postgres {
            let shown = report["target"].as_str().expect("the target");
            assert!(shown.starts_with("postgresql://tonnage:***@"), "{shown}");
        }
    }
}

#[test]
fn runs() {
    for database in BOTH {
        let place = TestDatabase::with(
            *database,
            ORDERS,
            &[("orders.csv", CSV), ("more.csv", "id\n7\n8\n")],
        );
        let ran = place.run("load orders.csv {db} -t orders --batch-rows 1 --sort none -j 1");
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        place.load("more.csv {db} -t orders");
        let ran = place.run("runs {db}");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        let is_instant = |word: &str| word.len() == 20 && word.contains("T") && word.ends_with('Z');
        let words = ran.stdout.split(' ');
        let steady: Vec<_> = words
            .map(|word| if is_instant(word) { "{time}" } else { word })
            .collect();
        assert_snapshot!(format!("runs_{}", name(*database)), steady.join(" "));
    }
}

#[test]
fn a_run_is_forgotten_by_the_beginning_of_its_id() {
    for database in BOTH {
        let place = TestDatabase::with(*database, ORDERS, &[("more.csv", "id\n7\n8\n")]);
        let report = place.load("more.csv {db} -t orders");
        let id = report["run_id"].as_str().expect("an id");
        // Without the last digits, so that it is not taken for a whole id.
        let ran = place.run(&format!("runs {{db}} --forget {}", &id[..20]));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(
            ran.stderr,
            "run {run} is forgotten; it leaves 2 rows in the table\n"
        );
        assert_eq!(place.run("runs {db}").stderr, "no runs\n");
        assert_eq!(place.sql("SELECT count(*) FROM orders"), ["2"]);
    }
}

/// A summary without its figures of time.
fn without_speed(text: &str) -> String {
    let line = |line: &str| match line.split_once(" rows written in ") {
        Some((before, _)) => format!("{before} rows written in {{seconds}} s, {{rate}} rows/s\n"),
        None => match line.split_once("bound by the ") {
            Some((before, _)) => format!("{before}bound by the {{end}}\n"),
            None => format!("{line}\n"),
        },
    };
    text.lines().map(line).collect()
}

#[test]
fn the_summary() {
    for database in BOTH {
        let place = TestDatabase::with(*database, ORDERS, &[("orders.csv", CSV)]);
        let ran = place.run("load orders.csv {db} -t orders -j 1 --rejects bad.jsonl");
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        assert_snapshot!(format!("summary_{}", name(*database)), without_speed(&ran.stderr));
        assert_snapshot!(format!("rejects_{}", name(*database)), place.read("bad.jsonl"));
        assert_eq!(ran.stdout, "");
    }
}
