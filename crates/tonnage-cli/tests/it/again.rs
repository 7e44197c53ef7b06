//! The same, nearly the same, and more of the same loaded again: no row comes to be there twice without a word.

use std::{
    fs,
    os::unix::fs::symlink,
    time::{Duration, SystemTime},
};

use crate::support::{ALL, Database, TestDatabase};

const TABLE: &str = "CREATE TABLE t (id bigint, v varchar(20))";
const A: &str = "id,v\n1,a\n2,b\n";
const B: &str = "id,v\n3,c\n";

fn place(database: Database) -> TestDatabase {
    TestDatabase::with(database, TABLE, &[("in/a.csv", A), ("in/b.csv", B)])
}

fn count(place: &TestDatabase) -> usize {
    place.sql("SELECT id FROM t").len()
}

/// Sets a file's time, so that it differs whatever the file system's clock is.
fn touch(place: &TestDatabase, name: &str, seconds: u64) {
    let file = fs::File::options()
        .append(true)
        .open(place.path(name))
        .expect("the file opens");
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds))
        .expect("its time is set");
}

struct Nearly {
    name: &'static str,
    /// The first load, which ends well.
    first: &'static str,
    change: fn(&TestDatabase),
    /// The second.
    second: &'static str,
    /// What is said of it.
    says: &'static str,
}

const IN: &str = "load in {db} -t t --resume";

#[test]
fn what_is_nearly_the_same_is_refused() {
    let cases = [
        Nearly {
            name: "a file more",
            first: IN,
            change: |place| place.write("in/c.csv", "id,v\n4,d\n"),
            second: IN,
            says: "in/c.csv was not among its files",
        },
        Nearly {
            name: "a file less",
            first: IN,
            change: |place| fs::remove_file(place.path("in/b.csv")).expect("it goes"),
            second: IN,
            says: "in/b.csv was among its files and is not now",
        },
        Nearly {
            name: "appended to",
            first: IN,
            change: |place| place.write("in/b.csv", "id,v\n3,c\n4,d\n"),
            second: IN,
            says: "in/b.csv has changed: 9 bytes then, 13 now",
        },
        Nearly {
            name: "touched",
            first: IN,
            change: |place| touch(place, "in/b.csv", 1),
            second: IN,
            says: "in/b.csv has been written to since, though it holds the same",
        },
        Nearly {
            name: "moved",
            first: IN,
            change: |place| fs::rename(place.path("in"), place.path("out")).expect("it moves"),
            second: "load out {db} -t t --resume",
            says: "out/a.csv was {directory}/in/a.csv then",
        },
        Nearly {
            name: "a link that leads elsewhere",
            first: "load latest.csv {db} -t t --resume",
            change: |place| {
                fs::remove_file(place.path("latest.csv")).expect("it goes");
                symlink(place.path("in/b.csv"), place.path("latest.csv")).expect("a link");
            },
            second: "load latest.csv {db} -t t --resume",
            says: "latest.csv led to {directory}/in/a.csv then and leads to {directory}/in/b.csv now",
        },
        Nearly {
            name: "a part of it",
            first: IN,
            change: |_| {},
            second: "load in/a.csv {db} -t t --resume",
            says: "in/b.csv was among its files and is not now",
        },
        Nearly {
            name: "read in another way",
            first: IN,
            change: |_| {},
            second: "load in {db} -t t --resume --null b",
            says: "the run began with null=[\"\"] and is now asked to go on with null=[\"b\"]",
        },
    ];
    for database in ALL {
        for case in &cases {
            let place = place(*database);
            symlink(place.path("in/a.csv"), place.path("latest.csv")).expect("a link");
            let ran = place.run(case.first);
            assert_eq!(ran.code, Some(0), "{}: {}", case.name, ran.stderr);
            assert!(
                ran.stderr.contains("note: no earlier run found: began anew"),
                "{}: {}",
                case.name,
                ran.stderr
            );
            let rows = count(&place);
            (case.change)(&place);
            let ran = place.run(case.second);
            assert_eq!(ran.code, Some(2), "{}: {}", case.name, ran.stderr);
            assert!(ran.stderr.contains(case.says), "{}: {}", case.name, ran.stderr);
            assert!(
                ran.stderr.contains("\nhint: --new-files loads only the files"),
                "{}",
                ran.stderr
            );
            assert_eq!(count(&place), rows, "{}", case.name);
            // What is meant can be said.
            let anew = case.second.replace("--resume", "--restart");
            let ran = place.run(&anew);
            assert_eq!(ran.code, Some(0), "{}: {}", case.name, ran.stderr);
        }
    }
}

#[test]
fn a_table_that_took_the_place_of_another_is_told() {
    for database in ALL {
        let place = place(*database);
        place.load("in {db} -t t --resume");
        place.sql("CREATE TABLE u AS SELECT * FROM t; DROP TABLE t; ALTER TABLE u RENAME TO t");
        let ran = place.run(IN);
        match database {
            // There a table is its name. What it has on record is finished, and the rows are there.
            Database::MariaDb => assert_ne!(ran.code, Some(1), "{}", ran.stderr),
            _ => {
                assert_eq!(ran.code, Some(2), "{}", ran.stderr);
                assert!(
                    ran.stderr
                        .contains("is not the one that it was: it was created again, or restored"),
                    "{}",
                    ran.stderr
                );
            }
        }
        assert_eq!(count(&place), 3);
        // Emptied first, nothing can come twice.
        place.load("in {db} -t t --resume --truncate");
        assert_eq!(count(&place), 3);
    }
}

#[test]
fn an_unfinished_run_of_other_files_is_told() {
    for database in ALL {
        let place = place(*database);
        place.write("in/b.csv", "id,v\n3,c\nbad,d\n");
        let ran = place.run("load in {db} -t t --batch-rows 1 -j 1 --sort none");
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        let rows = count(&place);
        assert!(rows > 0);
        place.write("in/c.csv", "id,v\n5,e\n");
        let ran = place.run(IN);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("has begun, and not finished, to load")
                && ran.stderr.contains("in/c.csv was not among its files"),
            "{}",
            ran.stderr
        );
        let ran = place.run("load in {db} -t t --new-files");
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("is unfinished"), "{}", ran.stderr);
        assert_eq!(count(&place), rows);
        // The unfinished one goes on first, and the new file comes with the next load.
        let ran = place.run("load in {db} -t t --new-files --resume --on-error reject --rejects bad.jsonl");
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("1 file left for the next load"),
            "{}",
            ran.stderr
        );
        assert_eq!(count(&place), 3);
        let ran = place.run("load in {db} -t t --new-files --resume");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("2 files left out, loaded before"),
            "{}",
            ran.stderr
        );
        assert_eq!(count(&place), 4);
    }
}

#[test]
fn statements_are_the_same_by_their_tokens() {
    for database in ALL {
        let place = place(*database);
        let exec = |sql: &str| place.run(&format!("exec in/a.csv {{db}} --resume --sql '{sql}'"));
        let ran = exec("insert into t (id, v) values (:id, :v)");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let ran = exec("INSERT  INTO t (id,v)\n  /* again */ VALUES (:id, :v);");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("has loaded all of this already"),
            "{}",
            ran.stderr
        );
        let ran = exec("insert into t (id) values (:id) -- :v");
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert_eq!(count(&place), 2);
    }
}

#[test]
fn new_files_are_loaded_once() {
    for database in ALL {
        let place = place(*database);
        let new = |files: &str| place.run(&format!("load {files} {{db}} -t t --new-files"));
        let done = |files: &str, says: &str, rows: usize| {
            let ran = new(files);
            assert_eq!(ran.code, Some(0), "{database:?}: {}", ran.stderr);
            assert!(ran.stderr.contains(says), "{database:?}: {}", ran.stderr);
            assert_eq!(count(&place), rows, "{database:?}: {}", ran.stderr);
        };
        done("in/a.csv", "2 rows written", 2);
        done("in", "1 file left out, loaded before", 3);
        done("in", "2 files left out, loaded before", 3);
        // Of a file that was moved, or touched without a change, no row is new.
        fs::rename(place.path("in/a.csv"), place.path("in/renamed.csv")).expect("it moves");
        touch(&place, "in/b.csv", 1);
        done("in", "2 files left out, loaded before", 3);
        place.write("in/c.csv", "id,v\n9,z\n");
        done("in", "2 files left out, loaded before", 4);
        // A copy of another name is a file of its own, and is told.
        place.write("in/d.csv", "id,v\n9,z\n");
        touch(&place, "in/d.csv", 7);
        done("in", "it is loaded as a file of its own", 5);
        // Its memory is longer than that of runs.
        let ran = place.run("runs {db} --prune --keep 0");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("finished runs pruned"), "{}", ran.stderr);
        done("in", "4 files left out, loaded before", 5);

        place.write("in/c.csv", "id,v\n9,z\n10,y\n");
        let ran = new("in");
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(
            ran.stderr
                .contains("in/c.csv has changed: 9 bytes then, 14 now (run {run} has loaded it into"),
            "{}",
            ran.stderr
        );
        assert_eq!(count(&place), 5);
        let piped = place.run_with("load - {db} -t t --new-files", &[], b"id,v\n1,a\n");
        assert_eq!(piped.code, Some(2), "{}", piped.stderr);
    }
}

#[test]
fn two_at_once_never_both_load_a_file() {
    for database in ALL {
        let place = place(*database);
        for round in 0..5 {
            for file in 0..6 {
                let name = format!("in/r{round}-{file}.csv");
                place.write(&name, format!("id,v\n{},{name}\n", round * 10 + file));
            }
            let new = || place.run("load in {db} -t t --new-files");
            let both = std::thread::scope(|scope| {
                let runs = [scope.spawn(new), scope.spawn(new)];
                runs.map(|run| run.join().expect("it ends"))
            });
            // Who comes too late withdraws.
            let left = new();
            for ran in both.iter().chain([&left]) {
                assert!(!ran.stderr.contains("defect of tonnage"), "{}", ran.stderr);
            }
            assert_eq!(left.code, Some(0), "{database:?}: {}", left.stderr);
            let twice = place.sql("SELECT v FROM t GROUP BY v HAVING count(*) > 1");
            assert_eq!(
                twice, [""; 0],
                "{database:?}: {}\n{}",
                both[0].stderr, both[1].stderr
            );
            // The three rows of two files that were there before.
            assert_eq!(count(&place), 3 + (round + 1) * 6, "{database:?}");
        }
    }
}

#[test]
fn files_of_a_table_that_is_gone_are_no_excuse() {
    for database in [Database::Sqlite, Database::Postgres] {
        let place = place(database);
        place.load("in {db} -t t --new-files");
        place.sql(&format!("DROP TABLE t; {TABLE}"));
        let ran = place.run("load in {db} -t t --new-files");
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("that was not this one"), "{}", ran.stderr);
        assert_eq!(count(&place), 0);
        let (_, id) = ran
            .stderr
            .split_once("--forget ")
            .expect("the hint names the run");
        assert!(id.starts_with("{run}"), "{id}");
        // Loaded again as a whole, they are known again.
        place.load("in {db} -t t");
        place.load("in {db} -t t --new-files");
        assert_eq!(count(&place), 3);
    }
}

#[test]
fn one_file_under_two_names_is_refused() {
    let place = place(Database::Sqlite);
    fs::hard_link(place.path("in/a.csv"), place.path("in/z.csv")).expect("a hard link");
    let ran = place.run("load in {db} -t t");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("in/z.csv and in/a.csv are one file under two names (a hard link)"),
        "{}",
        ran.stderr
    );
    symlink(place.path("in/a.csv"), place.path("link.csv")).expect("a link");
    let ran = place.run("load in/a.csv link.csv {db} -t t");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("link.csv is named twice: in/a.csv leads to the same file"),
        "{}",
        ran.stderr
    );
    // A file that happens to have another name elsewhere is a file like any.
    let ran = place.run("load in/a.csv in/b.csv {db} -t t");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(count(&place), 3);
}

/// The ledger as an earlier version left it: without the rows by which runs are found, and with records that know of no
/// content.
fn as_earlier(place: &TestDatabase) {
    place.sql("DROP TABLE tonnage_inputs");
    match place.database {
        Database::Sqlite => place.sql(
            "DROP INDEX tonnage_runs_identity; DROP INDEX tonnage_runs_finished;
             UPDATE tonnage_runs SET detail = json_remove(detail, '$.inputs[0].sample', '$.inputs[1].sample')",
        ),
        Database::Postgres => place.sql(
            "DROP INDEX tonnage_runs_identity; DROP INDEX tonnage_runs_finished;
             UPDATE tonnage_runs SET detail = (detail::jsonb #- '{inputs,0,sample}' #- '{inputs,1,sample}')::text",
        ),
        Database::MariaDb => place.sql(
            "ALTER TABLE tonnage_runs DROP KEY tonnage_runs_identity, DROP KEY tonnage_runs_finished;
             UPDATE tonnage_runs SET detail = json_remove(detail, '$.inputs[0].sample', '$.inputs[1].sample')",
        ),
    };
}

#[test]
fn a_ledger_of_an_earlier_version_goes_on() {
    for database in ALL {
        let place = place(*database);
        place.load("in {db} -t t");
        as_earlier(&place);
        let refused = |when: &str| {
            let ran = place.run("load in/b.csv {db} -t t --resume");
            assert_eq!(ran.code, Some(2), "{database:?} {when}: {}", ran.stderr);
            let ran = place.run("load in {db} -t t --resume");
            assert!(
                ran.stderr.contains("has loaded all of this already"),
                "{database:?} {when}: {}",
                ran.stderr
            );
            let ran = place.run("load in {db} -t t --new-files");
            assert!(
                ran.stderr.contains("2 files left out, loaded before"),
                "{database:?} {when}: {}",
                ran.stderr
            );
        };
        refused("before a run starts in it");
        place.write("c.csv", "id,v\n4,d\n");
        place.load("c.csv {db} -t t");
        assert_eq!(
            place.sql("SELECT count(*) FROM tonnage_inputs WHERE number = 0"),
            ["2"]
        );
        refused("afterwards");
        assert_eq!(count(&place), 4);
    }
}

#[test]
fn a_record_that_cannot_be_read_is_left_out() {
    for database in ALL {
        let place = place(*database);
        place.load("in/a.csv {db} -t t");
        place.sql("UPDATE tonnage_runs SET detail = 'nonsense'");
        place.load("in/b.csv {db} -t t");
        assert_eq!(count(&place), 3);
        let ran = place.run("runs {db}");
        assert_eq!(
            (ran.code, ran.stdout.lines().count()),
            (Some(0), 1),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr
                .contains("the ledger's record of run {run} cannot be read"),
            "{}",
            ran.stderr
        );
        let id = &place.sql("SELECT run_id FROM tonnage_runs WHERE detail = 'nonsense'")[0];
        let ran = place.run(&format!("runs {{db}} --forget {id}"));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(place.run("runs {db}").stderr, "");
        // The one that is to go on is another matter.
        place.sql("UPDATE tonnage_runs SET detail = 'nonsense'");
        match database {
            Database::MariaDb => place.sql("UPDATE tonnage_runs SET finished = NULL, unfinished = identity"),
            _ => place.sql("UPDATE tonnage_runs SET finished = NULL"),
        };
        let ran = place.run("load in/b.csv {db} -t t --resume");
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("cannot be read") && ran.stderr.contains("--forget {run}"),
            "{}",
            ran.stderr
        );
        assert_eq!(count(&place), 3);
    }
}

#[test]
fn a_ledger_beside_the_search_path_is_told() {
    let place = TestDatabase::with(
        Database::Postgres,
        "CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE a.t (id bigint, v text)",
        &[("a.csv", A)],
    );
    let load = |path: &str, option: &str| {
        place.run(&format!(
            "load a.csv {{db}}?options=-csearch_path%3D{path} -t a.t {option}"
        ))
    };
    assert_eq!(load("a", "").code, Some(0));
    let ran = load("b", "--resume");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("the ledger in schema a has runs into a.t"),
        "{}",
        ran.stderr
    );
    assert_eq!(place.sql("SELECT count(*) FROM a.t"), ["2"]);
    assert_eq!(
        place.sql(
            "SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace \
                   WHERE relname = 'tonnage_runs'"
        ),
        ["a"],
        "none is made beside it"
    );
    assert!(
        load("a", "--resume")
            .stderr
            .contains("has loaded all of this already")
    );
    assert_eq!(load("b", "--restart").code, Some(0));
}

#[test]
fn a_plain_load_beside_another_ledger_says_so() {
    for database in [Database::Postgres, Database::MariaDb] {
        let place = TestDatabase::with(
            database,
            match database {
                Database::Postgres => {
                    "CREATE SCHEMA a; CREATE SCHEMA b; CREATE TABLE a.t (id bigint, v text)"
                }
                _ => "CREATE TABLE t (id bigint, v text)",
            },
            &[("a.csv", A), ("b.csv", "id,v\n3,c\n")],
        );
        // In MariaDB a ledger belongs to the database of the URL.
        let (table, of, other, ledger) = match database {
            Database::Postgres => (
                "a.t".to_owned(),
                "?options=-csearch_path%3Da",
                "{db}?options=-csearch_path%3Db".to_owned(),
                "schema a".to_owned(),
            ),
            _ => {
                let second = format!("{}_b", place.name());
                place.sql(&format!("CREATE DATABASE {second}"));
                (
                    format!("{}.t", place.name()),
                    "",
                    format!("{}_b", place.url()),
                    "database {name}".to_owned(),
                )
            }
        };
        let beside =
            |file: &str, option: &str| place.run(&format!("load {file} {other} -t {table} {option}"));
        assert_eq!(
            place.run(&format!("load a.csv {{db}}{of} -t {table}")).code,
            Some(0)
        );
        let said = format!("the ledger in {ledger}, which this connection does not use, has 1 run into ");
        let ran = beside("b.csv", "");
        assert_eq!(ran.code, Some(0), "{database:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(&said) && ran.stderr.contains("?ledger_schema="),
            "{database:?}: {}",
            ran.stderr
        );
        // What it says leads there.
        let chosen = match database {
            Database::Postgres => format!("{other}&ledger_schema=a"),
            _ => format!("{other}?ledger_schema={}", place.name()),
        };
        let ran = place.run(&format!("load a.csv {chosen} -t {table} --resume"));
        assert!(
            ran.stderr.contains("has loaded all of this already"),
            "{database:?}: {}",
            ran.stderr
        );
        match database {
            Database::MariaDb => place.sql("UPDATE tonnage_runs SET finished = NULL, unfinished = identity"),
            _ => place.sql("UPDATE a.tonnage_runs SET finished = NULL"),
        };
        let ran = beside("a.csv", "");
        assert_eq!(ran.code, Some(2), "{database:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("has run {run} of {directory}/a.csv into ")
                && ran.stderr.contains("unfinished"),
            "{database:?}: {}",
            ran.stderr
        );
        let rows = match database {
            Database::Postgres => place.sql("SELECT count(*) FROM a.t"),
            _ => place.sql("SELECT count(*) FROM t"),
        };
        assert_eq!(rows, ["3"], "{database:?}");
        let ran = beside("a.csv", "--restart");
        assert_eq!(ran.code, Some(0), "{database:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(&said), "{database:?}: {}", ran.stderr);
        if database == Database::MariaDb {
            place.sql(&format!("DROP DATABASE {}_b", place.name()));
        }
    }
}

#[test]
fn runs_are_listed_and_pruned_with_a_bound() {
    for database in ALL {
        let place = place(*database);
        for _ in 0..3 {
            place.load("in/a.csv {db} -t t");
        }
        place.load("in/b.csv {db} -t t");
        let ran = place.run("runs {db} --limit 2");
        assert_eq!(
            (ran.code, ran.stdout.lines().count()),
            (Some(0), 2),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains("there are older runs"), "{}", ran.stderr);
        let ran = place.run("runs {db} --prune --keep 2");
        assert_eq!(
            ran.stderr,
            "2 finished runs pruned; the files that they loaded stay on record\n"
        );
        assert_eq!(place.run("runs {db}").stdout.lines().count(), 2);
        // The newest of each table stays, whatever is asked for.
        let ran = place.run("runs {db} --prune --keep 0");
        assert_eq!(
            ran.stderr,
            "1 finished run pruned; the files that they loaded stay on record\n"
        );
        assert_eq!(place.run("runs {db}").stdout.lines().count(), 1);
    }
}
