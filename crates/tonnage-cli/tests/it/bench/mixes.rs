//! Reads between writes.

use serde_json::Value;

use super::{ORDERS, assert_untouched, bench};
use crate::support::{ALL, Database, TestDatabase};

const ROWS: u64 = 100;

fn list<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    report[name].as_array().map_or(&[], Vec::as_slice)
}

fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name}: {of}"))
}

/// Whatever was read is what the mix asks for, and all of it was found.
fn assert_account(cell: &Value, jobs: u64) {
    let (setting, run) = (&cell["setting"], &cell["runs"][0]);
    let (percent, rows) = (number(setting, "reads"), number(run, "rows"));
    assert_eq!(rows, ROWS, "{cell}");
    if percent == 0 {
        assert!(run["reads"].is_null(), "{cell}");
        return;
    }
    let reads = &run["reads"];
    let [keys, distinct, found, requests] =
        ["keys", "distinct", "rows", "requests"].map(|name| number(reads, name));
    // What each job owes at the end is less than a key.
    let owed = rows * percent - keys * (100 - percent);
    assert!(owed < jobs * (100 - percent), "{cell}");
    assert!(distinct <= keys && found == distinct, "{cell}");
    match setting["method"].as_str() {
        Some("single") => assert!(distinct == keys && requests >= keys, "{cell}"),
        _ => assert!(requests >= keys.div_ceil(number(setting, "batch_rows")), "{cell}"),
    }
    let seconds = run["seconds"].as_f64().expect("seconds");
    let second = reads["keys_per_second"].as_f64().expect("keys a second");
    assert!((second * seconds / keys as f64 - 1.0).abs() < 1e-6, "{cell}");
    for at in 0..4 {
        let taken = reads["request_seconds"][at].as_f64();
        // Less than a hundredth above the time that it stands for.
        assert!(taken > Some(0.0) && taken <= Some(seconds * 1.01), "{cell}");
    }
}

#[test]
fn a_mix_reads_exactly_its_share_and_finds_all_of_it() {
    for database in ALL {
        let place = TestDatabase::with(*database, ORDERS, &[]);
        let line = format!(
            "--rows {ROWS} --duration 10m --repeat 1 --batch-rows 40 --jobs 1 --method single,batch --yes --workload ycsb \
             --operation insert,update,upsert --touch latest --reads 50,90"
        );
        let ran = place.run(&format!("bench {{db}} {line} -o out"));
        assert_eq!(ran.code, Some(0), "{database:?}: {}", ran.stderr);
        let report: Value = serde_json::from_str(&place.read("out/report.json")).expect("JSON");
        assert_eq!(report["ruled_out"], serde_json::json!([]), "{report:#}");
        assert_eq!(list(&report, "cells").len(), 12, "{report:#}");
        for cell in list(&report, "cells") {
            assert_account(cell, 1);
        }
        // Each mix has an answer of its own.
        assert_eq!(list(&report, "answers").len(), 6, "{report:#}");
        for told in [
            "ycsb update, latest rows, 50% reads, durable\n",
            "reads/s",
            "read p50",
        ] {
            assert!(ran.stdout.contains(told), "{told}: {}", ran.stdout);
        }
        let csv = place.read("out/cells.csv");
        let names: Vec<&str> = csv.lines().next().expect("names").split(',').collect();
        for name in [
            "reads_percent",
            "reads_per_second",
            "reads_distinct",
            "read_seconds_p99",
        ] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        let page = place.read("out/report.html");
        assert!(page.contains("A request of the reads of these, milliseconds"));
        let same = place.run("bench --compare out out");
        assert!(same.stdout.contains("0 of 12 cells changed"), "{}", same.stdout);
        assert_untouched(&place);
    }
}

#[test]
fn rows_of_every_kind_are_read_whichever_of_them_are_met() {
    for database in ALL {
        let place = TestDatabase::new(*database);
        let report = bench(
            &place,
            &format!(
                "--rows {ROWS} --duration 10m --repeat 1 --batch-rows 25 --jobs 1 --method array --yes \
                 --workload journal,readings --touch each,uniform,zipfian,latest --reads 0,40 --indexes 1"
            ),
        );
        // An insert that nothing is read beside meets no row twice.
        assert_eq!(list(&report, "cells").len(), 2 * (4 + 1), "{report:#}");
        for cell in list(&report, "cells") {
            assert_account(cell, 1);
        }
        let ruled_out = list(&report, "ruled_out");
        assert_eq!(ruled_out.len(), 2 * 3, "{report:#}");
        for out in ruled_out {
            let why = out["why"].as_str().expect("why");
            assert!(why.starts_with("an insert meets no row twice"), "{out}");
        }
    }
}

#[test]
fn several_jobs_and_tables_read_what_they_owe() {
    for database in [Database::Postgres, Database::MariaDb] {
        let place = TestDatabase::new(database);
        let report = bench(
            &place,
            &format!(
                "--rows {ROWS} --duration 10m --repeat 1 --batch-rows 5 --jobs 4 --tables 1,2 --method array,single --yes \
                 --operation insert,update --touch latest --reads 30 --with-ledger"
            ),
        );
        assert_eq!(report["ruled_out"], serde_json::json!([]), "{report:#}");
        assert_eq!(list(&report, "cells").len(), 8, "{report:#}");
        for cell in list(&report, "cells") {
            assert_account(cell, 4);
        }
    }
}
