//! The account of every command has one shape, on standard output and in a file.

use serde_json::Value;

use crate::support::{Database, TestDatabase};

/// Commands, what they read from standard input, and whether they move rows of a table.
const COMMANDS: &[(&str, &[u8], bool)] = &[
    ("load o.csv {db} -t t", b"", true),
    (
        "exec o.csv {db} --sql 'UPDATE t SET n = :n WHERE id = :id'",
        b"",
        true,
    ),
    ("unload {db} -t t -o u.csv --overwrite", b"", true),
    ("get {db} 1 2 -t t -o g.csv --overwrite", b"", true),
    ("verify o.csv {db} -t t", b"", true),
    ("ingest {db} -t t --mode upsert", b"{\"id\":1,\"n\":2}\n", true),
    ("generate sbtest --rows 10 -o s.csv --overwrite", b"", false),
    ("explain {db} -t t --yes", b"", false),
    (
        "bench {db} --yes --rows 100 --duration 10ms --repeat 1 --batch-rows 10 --method batch",
        b"",
        false,
    ),
];

#[test]
fn every_account_has_the_same_shape() {
    let table = "CREATE TABLE t (id integer PRIMARY KEY, n integer)";
    for database in [Database::Sqlite, Database::Postgres, Database::MariaDb] {
        let place = TestDatabase::with(database, table, &[("o.csv", "id,n\n1,2\n2,3\n")]);
        for (command, input, moves_rows) in COMMANDS {
            let told = |how: &str| place.run_with(&format!("{command} {how}"), &[], input);
            let printed = told("--json -q");
            assert_eq!(printed.code, Some(0), "{command}: {}", printed.stderr);
            let printed: Value = serde_json::from_str(&printed.stdout_exact)
                .unwrap_or_else(|error| panic!("{command}: {error}: {}", printed.stdout));
            // The same rows are there by now.
            if command.starts_with("load") {
                place.sql("DELETE FROM t");
            }
            assert_eq!(told("--report r.json -q").code, Some(0), "{command}");
            let written: Value = serde_json::from_str(&place.read("r.json")).expect("JSON");
            for report in [&printed, &written] {
                for name in ["tonnage", "$schema", "started", "ended", "state"] {
                    assert!(report[name].is_string(), "{command}: {name}: {report}");
                }
                if *moves_rows {
                    assert!(report["rows"].is_object(), "{command}: {report}");
                    // All of them were given `t`.
                    let full = match database {
                        Database::Sqlite => "t".to_owned(),
                        Database::Postgres => "public.t".to_owned(),
                        Database::MariaDb => format!("{}.t", place.name()),
                    };
                    assert_eq!(report["table"], full.as_str(), "{command}: {report}");
                    assert!(report["target"].is_string(), "{command}: {report}");
                }
            }
            let names = |report: &Value| {
                report
                    .as_object()
                    .expect("an object")
                    .keys()
                    .cloned()
                    .collect::<Vec<_>>()
            };
            assert_eq!(names(&printed), names(&written), "{command}");
        }
    }
}
