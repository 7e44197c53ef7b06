//! Files that are not what they were: while they are read, or between two attempts, by size, time or content alone.

use std::fs::File;

use crate::support::{BOTH, Database, TestDatabase};

/// Files of every format that an unload writes, one or several.
const OUTPUTS: &[&str] = &[
    "data.csv",
    "data.csv.gz",
    "data.jsonl",
    "data.parquet",
    "data.arrow",
];

/// The eighth row has the key of the seventh, which ends a load behind seven rows.
fn source(value: &str) -> String {
    format!(
        "DROP TABLE IF EXISTS s; CREATE TABLE s (id integer, v varchar(9)); INSERT INTO s VALUES (1,'one'), (2,'{value}'),
         (3,'tre'), (4,'fou'), (5,'fiv'), (6,'six'), (7,'sev'), (7,'eig'), (9,'nin')"
    )
}

#[test]
fn what_was_passed_over_is_compared_by_content_in_every_format() {
    for database in BOTH {
        for output in OUTPUTS {
            for jobs in ["--batch-rows 3", "--batch-rows 2", "--batch-rows 3 --sort full"] {
                if *database == Database::Postgres && jobs != "--batch-rows 3" {
                    continue;
                }
                let place = TestDatabase::with(
                    *database,
                    "CREATE TABLE t (id integer PRIMARY KEY, v varchar(9))",
                    &[],
                );
                place.sql(&source("two"));
                assert_eq!(
                    place.run(&format!("unload {{db}} -t s -o {output}")).code,
                    Some(0)
                );
                let load = format!("load {output} {{db}} -t t {jobs}");
                let first = place.run(&load);
                assert_eq!(first.code, Some(1), "{output}: {}", first.stderr);
                let before = place.sql("SELECT * FROM t ORDER BY id");
                assert!(!before.is_empty(), "{output}");
                let modified = place.path(output).metadata().and_then(|file| file.modified());
                place.sql(&source("TWO"));
                assert_eq!(
                    place
                        .run(&format!("unload {{db}} -t s --overwrite -o {output}"))
                        .code,
                    Some(0)
                );
                File::options()
                    .write(true)
                    .open(place.path(output))
                    .and_then(|file| file.set_modified(modified.expect("a time")))
                    .expect("the file is ours");
                let resumed = place.run(&format!("{load} --resume"));
                assert_eq!(resumed.code, Some(1), "{output} {jobs}: {}", resumed.stderr);
                assert!(
                    resumed.stderr.contains("has changed since the run began"),
                    "{output} {jobs}: {}",
                    resumed.stderr
                );
                assert!(resumed.stderr.contains("--restart"), "{}", resumed.stderr);
                assert_eq!(
                    place.sql("SELECT * FROM t ORDER BY id"),
                    before,
                    "{output} {jobs}"
                );
            }
        }
    }
}

#[test]
fn files_that_are_done_are_compared_too() {
    let rows = |from: u32, value: &str| -> String {
        let line = |id: u32| format!("{id},{value}\n");
        format!("id,v\n{}", (from..from + 4).map(line).collect::<String>())
    };
    let place = TestDatabase::with(
        Database::Sqlite,
        "CREATE TABLE t (id integer PRIMARY KEY, v varchar(9))",
        &[
            ("in/a.csv", &rows(1, "old")),
            ("in/b.csv", &rows(5, "old")),
            ("in/c.csv", &rows(8, "old")),
        ],
    );
    let load = "load in {db} -t t --batch-rows 4";
    assert_eq!(place.run(load).code, Some(1));
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["8"]);
    let modified = place.path("in/a.csv").metadata().and_then(|file| file.modified());
    place.write("in/a.csv", rows(1, "new"));
    let file = File::options()
        .write(true)
        .open(place.path("in/a.csv"))
        .expect("the file is ours");
    file.set_modified(modified.expect("a time"))
        .expect("the file is ours");
    let resumed = place.run(&format!("{load} --resume"));
    assert_eq!(resumed.code, Some(1), "{}", resumed.stderr);
    assert!(
        resumed
            .stderr
            .contains("in/a.csv has changed since the run began"),
        "{}",
        resumed.stderr
    );
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["8"]);
}

#[test]
fn what_did_not_change_is_gone_on_with() {
    for output in OUTPUTS {
        let place = TestDatabase::with(
            Database::Sqlite,
            "CREATE TABLE t (id integer PRIMARY KEY, v varchar(9)); INSERT INTO t VALUES (9, 'in the way')",
            &[],
        );
        place.sql(&source("two").replace("(7,'eig')", "(8,'eig')"));
        assert_eq!(
            place.run(&format!("unload {{db}} -t s -o {output}")).code,
            Some(0)
        );
        let load = format!("load {output} {{db}} -t t --batch-rows 2");
        assert_eq!(place.run(&load).code, Some(1), "{output}");
        place.sql("DELETE FROM t WHERE v = 'in the way'");
        let resumed = place.run(&format!("{load} --resume"));
        assert_eq!(resumed.code, Some(0), "{output}: {}", resumed.stderr);
        assert_eq!(place.sql("SELECT count(*), sum(id) FROM t"), ["9|45"], "{output}");
    }
}
