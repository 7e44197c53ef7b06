//! `--single-transaction`: all rows of a run or none, whatever ends it.

use std::{thread::sleep, time::Duration};

use crate::{
    database::Database,
    events::{Chance, Events, Mode, Size},
    process::{Running, count, report},
    support::{
        Database::{MariaDb, Postgres, Sqlite},
        TestDatabase,
    },
};

const ORDERS: &str = "CREATE TABLE orders (id integer PRIMARY KEY, qty integer CHECK (qty < 100)); \
                      INSERT INTO orders VALUES (1000, 1), (1001, 2)";

/// Rows 1 to 300; the bad one is the last but one.
fn orders(bad: &str) -> String {
    let mut text = "id,qty\n".to_owned();
    for id in 1..=300 {
        match id {
            299 => text.push_str(bad),
            id => text.push_str(&format!("{},{}\n", id * 11 % 301, id % 100)),
        }
    }
    text
}

#[test]
fn a_run_that_fails_leaves_the_table_as_it_was_and_can_be_repeated() {
    let ways = [
        "",
        "--truncate",
        "--sort full",
        "--sort full --truncate --jobs 4",
        "--method array --batch-rows 7",
        "--method batch --batch-rows 50",
        "--mode upsert --batch-rows 40",
        "--mode upsert --batch-rows 40 --truncate",
        "--mode upsert --method array --batch-rows 40",
        "--ledger none --truncate",
    ];
    let good = orders("999,7\n");
    let bad = [
        ("299,x\n", "row 299"),
        ("299,100\n", "row 299"),
        ("\"", "row 299"),
    ];
    for database in [Sqlite, Postgres, MariaDb] {
        for way in ways {
            let place = TestDatabase::with(database, ORDERS, &[]);
            let load = format!("load orders.csv {{db}} -t orders -1 --on-error stop {way}");
            for (row, at) in bad {
                place.write("orders.csv", orders(row));
                let ran = place.run(&format!("{load} --report report.json"));
                assert_eq!(ran.code, Some(1), "{way} {row}: {}", ran.stderr);
                assert!(ran.stderr.contains(at), "{way} {row}: {}", ran.stderr);
                assert_eq!(
                    place.sql("SELECT * FROM orders ORDER BY id"),
                    ["1000|1", "1001|2"]
                );
                let report = report(&place.path("report.json"));
                assert_eq!(count(&report, "/rows/written"), 0, "{way}");
                // Nothing is left of it in the ledger either.
                assert_eq!(place.run("runs {db}").stdout, "", "{way}");
            }
            place.write("orders.csv", &good);
            let ran = place.run(&load);
            assert_eq!(ran.code, Some(0), "{way}: {}", ran.stderr);
            let kept = if way.contains("truncate") { "300" } else { "302" };
            assert_eq!(place.sql("SELECT count(*) FROM orders"), [kept], "{way}");
            if !way.contains("none") {
                let ran = place.run(&format!("{load} --resume"));
                assert_eq!(ran.code, Some(0), "{way}: {}", ran.stderr);
                assert!(
                    ran.stderr.contains("has loaded all of this already"),
                    "{}",
                    ran.stderr
                );
                assert_eq!(place.sql("SELECT count(*) FROM orders"), [kept], "{way}");
            }
        }
    }
}

#[test]
fn bad_rows_are_put_aside_and_too_many_undo_all() {
    for database in [Sqlite, Postgres, MariaDb] {
        let place = TestDatabase::with(database, ORDERS, &[("orders.csv", &orders("299,x\n1,5\n"))]);
        let load = "load orders.csv {db} -t orders -1 --rejects bad.jsonl --batch-rows 20";
        let ran = place.run(&format!("{load} --max-rejects 1"));
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(
            ran.stderr.ends_with(
                "  note: nothing of the run is in orders: its transaction was rolled back\n  \
                 note: the bad rows found until then are in {directory}/bad.jsonl.rolled-back\n\
                 error: more than 1 rows are bad\n\
                 hint: look at {directory}/bad.jsonl.rolled-back; --max-rejects allows more\n"
            ) || ran.stderr.contains("is in public.orders")
                || ran.stderr.contains("is in {name}.orders"),
            "{}",
            ran.stderr
        );
        assert_eq!(place.sql("SELECT count(*) FROM orders"), ["2"]);
        assert!(!place.path("bad.jsonl").exists());
        let ran = place.run(load);
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        assert_eq!(place.sql("SELECT count(*) FROM orders"), ["301"]);
        assert_eq!(place.read("bad.jsonl").lines().count(), 2);
        assert_eq!(
            place.sql("SELECT written, rejected FROM tonnage_runs"),
            ["299|2"],
            "one run, with its account"
        );
    }
}

#[test]
fn a_killed_run_leaves_nothing_and_is_begun_anew_by_the_same_command() {
    for mode in [Mode::Insert, Mode::Upsert] {
        for database in Database::all() {
            let mut chance = Chance::new();
            let size = Size {
                files: 6,
                rows_each: 2_000,
            };
            let events = Events::generate(mode, size, &mut chance);
            events.prepare(&database);
            let before = database.number("SELECT count(*) FROM events");
            let single = || {
                let mut command = events.load(&database.url());
                command.args(["-1", "--batch-rows", "50"]);
                command
            };
            for _ in 0..6 {
                // Slow enough that it cannot have come to its end.
                let running = Running::start(single().args(["--rate", "4k/s"]));
                sleep(Duration::from_micros(chance.below(250_000)));
                let ended = running.kill();
                assert_eq!(ended.status.code(), None, "{}", ended.stderr);
                assert_eq!(database.number("SELECT count(*) FROM events"), before);
            }
            let account = events.directory.path().join("report.json");
            let mut command = single();
            Running::start(command.arg("--report").arg(&account))
                .wait()
                .expect(3);
            events.check(&database);
            let account = report(&account);
            assert_eq!(count(&account, "/rows/skipped/resumed"), 0);
            assert_eq!(count(&account, "/commits"), 1);
        }
    }
}
