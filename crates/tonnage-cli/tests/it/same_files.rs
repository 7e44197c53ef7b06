//! What one command reads and writes are different files, however they are named; a report replaces nothing else.

use std::os::unix::fs::symlink;

use crate::support::{
    Database::{Postgres, Sqlite},
    TestDatabase,
};

const TABLE: &str =
    "CREATE TABLE orders (id integer PRIMARY KEY, qty integer); INSERT INTO orders VALUES (7, 7)";

#[test]
fn nothing_that_a_command_is_given_is_written_over() {
    for database in [Sqlite, Postgres] {
        let files = [
            ("orders.csv", "id,qty\n1,2\n"),
            ("keys.csv", "id\n7\n"),
            ("put.sql", "insert into orders values (:id, :qty)"),
            ("other.json", "{\"name\": \"mine\"}"),
            ("targets.toml", "[shop]\nurl = \"sqlite:shop.db\"\n"),
        ];
        let place = TestDatabase::with(database, TABLE, &files);
        std::fs::hard_link(place.path("orders.csv"), place.path("hard.json")).expect("a link");
        symlink("orders.csv", place.path("soft.json")).expect("a link");
        let mut cases = vec![
            (
                "load orders.csv {db} -t orders --report orders.csv",
                "the source and --report",
            ),
            (
                "load orders.csv {db} -t orders --report hard.json",
                "the source and --report",
            ),
            (
                "load orders.csv {db} -t orders --report ./soft.json",
                "the source and --report",
            ),
            (
                "load . --format csv {db} -t orders --report orders.csv",
                "the source and --report",
            ),
            (
                "load 'ord*.csv' {db} -t orders --rejects orders.csv",
                "the source and --rejects",
            ),
            (
                "load orders.csv {db} -t orders --rejects bad.jsonl --report bad.jsonl",
                "--rejects and --report",
            ),
            (
                "load orders.csv {db} -t orders --report other.json",
                "no earlier report",
            ),
            (
                "load orders.csv {db} -t orders --report gone/r.json",
                "--report gone/r.json",
            ),
            (
                "exec orders.csv {db} --sql @put.sql --report put.sql",
                "--sql and --report",
            ),
            (
                "get {db} --keys keys.csv -t orders -o o.csv --report keys.csv",
                "the source and --report",
            ),
            (
                "get {db} --keys keys.csv -t orders -o o.csv --missing o.csv",
                "-o and --missing",
            ),
            (
                "get {db} --keys keys.csv -t orders -o keys.csv --overwrite",
                "the source and -o",
            ),
            ("unload {db} -t orders -o o.csv --report o.csv", "-o and --report"),
            (
                "unload {db} -t orders -o o-{}.csv --report o-1.csv",
                "-o and --report",
            ),
            (
                "unload {db} -t orders -o o.csv --report other.json",
                "no earlier report",
            ),
            (
                "ingest {db} -t orders --rejects r.json --report r.json",
                "--rejects and --report",
            ),
            ("ingest {db} -t orders --report other.json", "no earlier report"),
            (
                "explain {db} orders orders.csv --yes --report orders.csv",
                "the source and --report",
            ),
            (
                "bench {db} --yes -o out --report out/report.json",
                "-o and --report",
            ),
            (
                "bench {db} --yes --table orders --rows-from orders.csv --report orders.csv",
                "the source and --report",
            ),
        ];
        if database == Sqlite {
            cases.extend([
                (
                    "load orders.csv {db} -t orders --report shop.db",
                    "the database and --report",
                ),
                (
                    "load orders.csv {db} -t orders --report shop.db-wal",
                    "the database and --report",
                ),
                (
                    "load orders.csv {db} -t orders --rejects shop.db",
                    "the database and --rejects",
                ),
                (
                    "load orders.csv @shop -t orders --report targets.toml",
                    "the database and --report",
                ),
                (
                    "load orders.csv @shop -t orders --report shop.db",
                    "the database and --report",
                ),
                (
                    "unload {db} -t orders -o shop.db --format csv --overwrite",
                    "the database and -o",
                ),
                (
                    "load {db} copy.db --source-table orders -t orders --create --report shop.db",
                    "the database and --report",
                ),
                ("runs {db} --ledger shop.db", "the database and --ledger"),
            ]);
        }
        let before: Vec<_> = files.iter().map(|(name, _)| place.read(name)).collect();
        for (arguments, why) in cases {
            let ran = place.run_with(arguments, &[], b"{\"id\": 1, \"qty\": 2}\n");
            assert_eq!(ran.code, Some(2), "{arguments}: {}", ran.stderr);
            assert!(ran.stderr.contains(why), "{arguments}: {}", ran.stderr);
            let after: Vec<_> = files.iter().map(|(name, _)| place.read(name)).collect();
            assert_eq!(after, before, "{arguments}");
            assert_eq!(place.sql("SELECT id, qty FROM orders"), ["7|7"], "{arguments}");
            assert!(!place.path("o.csv").exists(), "{arguments}");
        }
    }
}

#[test]
fn a_report_replaces_an_earlier_one() {
    let place = TestDatabase::with(
        Sqlite,
        TABLE,
        &[("orders.csv", "id,qty\n1,2\n"), ("keys.csv", "id\n7\n")],
    );
    for (arguments, operation) in [
        ("load orders.csv {db} -t orders --mode upsert", "upsert"),
        ("load orders.csv {db} -t orders --mode upsert --restart", "upsert"),
        ("unload {db} -t orders -o -", ""),
        ("get {db} --keys keys.csv -t orders", ""),
        ("ingest {db} -t orders --mode ignore", "ignore"),
        (
            "explain {db} orders orders.csv --yes --method array --operation insert",
            "",
        ),
        ("load orders.csv {db} -t orders --mode update", "update"),
    ] {
        let ran = place.run(&format!("{arguments} --report report.json"));
        assert_eq!(ran.code, Some(0), "{arguments}: {}", ran.stderr);
        let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).expect("JSON");
        assert_eq!(report["tonnage"], env!("CARGO_PKG_VERSION"), "{arguments}");
        if !operation.is_empty() {
            assert_eq!(report["operation"], operation);
        }
    }
}

#[test]
fn a_condition_does_not_leave_its_place() {
    for database in crate::support::ALL {
        let place = TestDatabase::with(*database, TABLE, &[]);
        place.sql("INSERT INTO orders VALUES (1, 1), (2, 2), (3, 3)");
        let refused = [
            ("--where 'qty=1) or (qty=2'", "the ')' at column 6 closes nothing"),
            (
                "--where 'qty=1; delete from orders'",
                "there is a semicolon at column 6",
            ),
            ("--where 'qty=1 /* or'", "the comment at column 7 is not closed"),
        ];
        for (condition, why) in refused {
            for more in ["-j 2", "-j 1", "-j 2 --split-by id", "--limit 5"] {
                let ran = place.run(&format!("unload {{db}} -t orders -o - -q {condition} {more}"));
                assert_eq!(ran.code, Some(2), "{condition} {more}: {}", ran.stderr);
                assert_eq!(ran.stdout_exact, "");
                assert!(ran.stderr.contains(why), "{condition} {more}: {}", ran.stderr);
            }
        }
        let ran = place.run("unload {db} -t orders -o - -q -j 2 --where '(qty = 1) or (qty = 2) -- not 7'");
        assert_eq!(ran.stdout_exact, "id,qty\n1,1\n2,2\n", "{}", ran.stderr);
        let query = "unload {db} -o - -q --query 'select id from orders) q union all (select id from orders'";
        let ran = place.run(query);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    }
}
