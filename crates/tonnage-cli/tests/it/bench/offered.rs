//! Rows that are offered at a rate.

use serde_json::Value;

use super::{ORDERS, assert_untouched, bench};
use crate::support::{ALL, Database, TestDatabase};

#[test]
fn what_is_offered_at_a_rate_is_answered_by_its_time() {
    const RATE: f64 = 2_000.0;
    for database in ALL {
        let place = TestDatabase::with(*database, ORDERS, &[]);
        let line =
            "--rows 200 --duration 10m --repeat 2 --method single,array --batch-rows 20 --jobs 1 --yes";
        let ran = place.run(&format!("bench {{db}} {line} --rate 2k/s -o out"));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let report: Value = serde_json::from_str(&place.read("out/report.json")).expect("JSON");
        assert_eq!(report["rate"], 2_000);
        let cells = report["cells"].as_array().expect("cells");
        assert_eq!(cells.len(), 2, "{report}");
        for run in cells
            .iter()
            .flat_map(|cell| cell["runs"].as_array().expect("runs"))
        {
            let offered = &run["offered"];
            let reached = offered["reached"].as_f64().expect("a rate");
            assert_eq!(offered["rows_per_second"].as_f64(), Some(RATE));
            assert!(reached > 0.0 && reached <= RATE, "{run}");
            assert_eq!(run["bound_by"] == "rate", reached >= 0.95 * RATE, "{run}");
            // No more rows than are offered.
            assert!(run["rows_per_second"].as_f64() <= Some(RATE * 1.000_001), "{run}");
            for at in 0..4 {
                let [response, write] =
                    [&offered["response_seconds"], &run["write_seconds"]].map(|times| times[at].as_f64());
                assert!(response >= write && write > Some(0.0), "{run}");
            }
        }
        let answer = &report["answers"][0];
        let sentence = answer["sentence"].as_str().expect("a sentence");
        let told = match answer["recommended"].is_null() {
            true => "no setting that was measured holds 2k rows/s; nearest is ",
            false => " at 2k rows/s: 99% of the writes are committed within ",
        };
        assert!(sentence.contains(told), "{sentence}");
        // Long lines are broken between words.
        let words: Vec<_> = ran.stdout.split_whitespace().collect();
        assert!(words.join(" ").starts_with(sentence), "{}", ran.stdout);
        for title in ["due p50", "reached"] {
            assert!(ran.stdout.contains(title), "{}", ran.stdout);
        }
        let page = place.read("out/report.html");
        assert!(page.contains("milliseconds from when it was due"));
        let csv = place.read("out/cells.csv");
        assert!(
            csv.lines()
                .next()
                .is_some_and(|names| names.contains("response_seconds_p99"))
        );
        let same = place.run("bench --compare out out");
        assert!(
            same.stdout.contains("0 of 2 cells changed") && same.stdout.contains("from when they were due"),
            "{}",
            same.stdout
        );
        assert_untouched(&place);
    }
}

#[test]
fn a_rate_that_nobody_holds_is_not_recommended_for() {
    let place = TestDatabase::new(Database::Sqlite);
    let line = "--rows 50 --duration 10m --repeat 1 --method single --rate 1G --yes";
    let report = bench(&place, line);
    let run = &report["cells"][0]["runs"][0];
    assert!(run["offered"]["reached"].as_f64() < Some(0.95e9), "{run}");
    assert_ne!(run["bound_by"], "rate");
    let answer = &report["answers"][0];
    assert!(
        answer["recommended"].is_null() && answer["flags"].is_null(),
        "{answer}"
    );
    let sentence = answer["sentence"].as_str().expect("a sentence");
    assert!(
        sentence.starts_with("no setting that was measured holds 1G rows/s"),
        "{sentence}"
    );
}
