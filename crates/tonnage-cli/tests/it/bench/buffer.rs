//! A buffer is measured like any other way to bring rows.

use serde_json::Value;

use super::{ORDERS, SMALL, assert_nothing_left, bench};
use crate::support::{ALL, Database, TestDatabase};

#[test]
fn a_buffer_is_measured_on_every_database_with_each_acknowledgement() {
    for database in ALL {
        let place = TestDatabase::with(*database, ORDERS, &[]);
        let report = bench(
            &place,
            "--rows 60 --duration 10m --repeat 1 --yes --method single,buffer --jobs 1,3 --mode insert,upsert",
        );
        let cells = report["cells"].as_array().expect("cells");
        for mode in ["insert", "upsert"] {
            for ack in ["accepted", "journaled", "committed"] {
                for jobs in [1, 3] {
                    let of = |cell: &&Value| {
                        let setting = &cell["setting"];
                        (&setting["method"], &setting["jobs"], &setting["operation"])
                            == (&format!("buffer-{ack}").into(), &jobs.into(), &mode.into())
                    };
                    let cell = cells.iter().find(of);
                    let cell = cell.unwrap_or_else(|| panic!("{database:?} {mode} {ack} {jobs}: {report}"));
                    for run in cell["runs"].as_array().expect("runs") {
                        assert_eq!(run["rows"], 60, "{cell}");
                        assert!(
                            run["acknowledged"]["rows_per_second"].as_f64() > Some(0.0),
                            "{cell}"
                        );
                        assert!(
                            run["acknowledged"]["behind_seconds"].as_f64() >= Some(0.0),
                            "{cell}"
                        );
                        assert!(run["write_seconds"][3].as_f64() > Some(0.0), "{cell}");
                        assert!(run["commits"].as_u64() > Some(0), "{cell}");
                    }
                    assert!(cell["write_path"].is_null(), "{cell}");
                }
            }
        }
        for answer in report["answers"].as_array().expect("answers") {
            assert_eq!(answer["buffer"].as_array().map(Vec::len), Some(3), "{answer}");
            let recommended = &answer["recommended"]["method"];
            assert!(recommended.is_null() || recommended == "single", "{answer}");
        }
        // What a buffer leaves is the ledger, without its runs, of a server; of SQLite not even the file.
        let known: &[&str] = match database {
            Database::Sqlite => &["orders"],
            _ => &[
                "orders",
                "tonnage_inputs",
                "tonnage_parts",
                "tonnage_runs",
                "tonnage_slots",
            ],
        };
        assert_nothing_left(&place, known);
        if *database != Database::Sqlite {
            assert_eq!(
                place.sql("SELECT count(*) FROM tonnage_runs"),
                ["0"],
                "{database:?}"
            );
        }
    }
}

#[test]
fn the_answer_says_whether_to_buffer() {
    let place = TestDatabase::new(Database::Sqlite);
    let ran = place.run(&format!(
        "bench {{db}} {SMALL} --method single,buffer --ack accepted --jobs 1 -o out"
    ));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let words = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(" buffer buffer-accepted, 1 producer: "),
        "{}",
        ran.stdout
    );
    assert!(words.contains(" in the table, answered at "), "{}", ran.stdout);
    let page = place.read("out/report.html");
    assert!(
        page.contains("<span class=\"key buffer\"></span>buffer-accepted"),
        "{page}"
    );
    let alone = place.run(&format!(
        "bench {{db}} {SMALL} --method buffer --ack journaled --jobs 1"
    ));
    assert!(alone.stdout.contains("  tonnage ingest "), "{}", alone.stdout);
    assert!(
        alone.stdout.contains(" --ack journaled --journal DIR"),
        "{}",
        alone.stdout
    );
}

#[test]
fn what_a_buffer_cannot_be_measured_with_is_ruled_out() {
    let place = TestDatabase::new(Database::Sqlite);
    for (line, told) in [
        (
            "--method buffer -1",
            "a buffer commits as it drains, never all rows at once",
        ),
        (
            "--method buffer --rate 5k",
            "rows are offered at a rate to loads only",
        ),
        (
            "--method buffer --reads 50",
            "nothing is read between the puts of a buffer",
        ),
        ("--method native --ack accepted", "none is measured"),
        (
            "--method buffer --ack soon",
            "acknowledgements are accepted, journaled, committed",
        ),
    ] {
        let ran = place.run(&format!("bench {{db}} {line}"));
        assert!(matches!(ran.code, Some(1 | 2)), "{line}: {:?}", ran.code);
        assert!(ran.stderr.contains(told), "{line}: {}", ran.stderr);
    }
}
