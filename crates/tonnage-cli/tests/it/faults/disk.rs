//! Disks that are full: what cannot be written ends the load with an error that says so, nothing is lost, and once there
//! is room it goes on.
//!
//! A disk is full for one process by a limit on the size of its files, which needs no rights. What it is told then is
//! "File too large", where a disk would say "No space left on device".

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use super::servers::Cluster;
use crate::support::{Database, Place};

const ROWS: u64 = 3_000;
/// One row in so many is bad.
const BAD: u64 = 10;

/// Numbers, of which one in ten is none.
fn numbers() -> String {
    let line = |row: u64| match row % BAD {
        0 => format!("{row}x\n"),
        _ => format!("{row}\n"),
    };
    std::iter::once("id\n".to_owned())
        .chain((0..ROWS).map(line))
        .collect()
}

fn place(database: Database) -> Place {
    Place::with(
        database,
        "CREATE TABLE numbers (id integer PRIMARY KEY)",
        &[("numbers.csv", &numbers())],
    )
}

fn check(place: &Place) {
    let found = place.sql("SELECT count(*), sum(id) FROM numbers");
    let good = (0..ROWS).filter(|row| row % BAD > 0);
    assert_eq!(found, [format!("{}|{}", good.clone().count(), good.sum::<u64>())]);
    let rejects: BTreeSet<_> = place.read("bad.jsonl").lines().map(str::to_owned).collect();
    assert_eq!(rejects.len() as u64, ROWS / BAD, "each bad row once");
    assert_eq!(place.read("bad.jsonl").lines().count(), rejects.len());
}

#[test]
fn a_rejects_file_that_cannot_grow_ends_the_load_which_goes_on_once_it_can() {
    for database in [Database::Postgres, Database::MariaDb] {
        let place = place(database);
        let load = "numbers.csv -t numbers --rejects bad.jsonl --batch-rows 300";
        let told = place.run_cramped(8, &format!("load {load} '{}'", place.url()));
        assert!(told.contains("bad.jsonl: File too large"), "{told}");
        assert!(told.contains("--resume"), "{told}");
        let ran = place.run(&format!("load {load} {{db}} --resume"));
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        check(&place);
        assert_eq!(place.files(".").len(), 2, "{:?}", place.files("."));
    }
}

#[test]
fn a_table_that_cannot_grow_ends_the_load_which_goes_on_once_it_can() {
    let place = place(Database::Sqlite);
    let lines: String = (0..ROWS * 10).map(|id| format!("{id}\n")).collect();
    place.write("numbers.csv", format!("id\n{lines}"));
    let load = "load numbers.csv shop.db -t numbers";
    let told = place.run_cramped(160, &format!("{load} --batch-rows 2000"));
    assert!(told.contains("disk I/O error"), "{told}");
    assert!(told.contains("hint: "), "{told}");
    let ran = place.run(&format!("{load} --resume"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let found = place.sql("SELECT count(*), sum(id) FROM numbers");
    let sum = (0..ROWS * 10).sum::<u64>();
    assert_eq!(found, [format!("{}|{sum}", ROWS * 10)]);
}

#[test]
fn a_server_that_has_no_room_ends_the_load_which_goes_on_once_it_has() {
    let mut cluster = Cluster::start("");
    cluster.query(
        "postgres",
        "CREATE TABLE numbers (id integer PRIMARY KEY, note text);
         ALTER TABLE numbers ALTER note SET STORAGE PLAIN",
    );
    cluster.stop();
    cluster.file_max = Some(2 << 20);
    cluster.restart();
    let place = Place::with(Database::Sqlite, "", &[]);
    let note = "n".repeat(1_000);
    let lines = (0..ROWS).map(|row| format!("{row},{note}\n"));
    place.write("numbers.csv", format!("id,note\n{}", lines.collect::<String>()));
    let load = format!(
        "load numbers.csv {} -t numbers --batch-rows 100",
        cluster.url("postgres")
    );
    let ran = place.run(&load);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("could not extend file"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    cluster.stop();
    cluster.file_max = None;
    cluster.restart();
    let ran = place.run(&format!("{load} --resume --report report.json"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let found = cluster.query(
        "postgres",
        "SELECT count(*) || ' ' || sum(id) || ' ' || sum(length(note)) FROM numbers",
    );
    let expected = format!("{ROWS} {} {}", (0..ROWS).sum::<u64>(), ROWS * 1_000);
    assert_eq!(found, [vec![Some(expected)]]);
    let told = crate::process::report(&place.path("report.json"));
    assert!(
        crate::process::count(&told, "/rows/skipped/resumed") > 0,
        "{told:#}"
    );
}

#[test]
fn a_report_that_cannot_be_written_is_told_and_the_run_is_finished() {
    for database in [Database::Sqlite, Database::Postgres, Database::MariaDb] {
        let place = place(database);
        let load = "load numbers.csv {db} -t numbers --rejects bad.jsonl";
        let ran = place.run(&format!("{load} --report /dev/full"));
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        let rest = "error: report /dev/full: No space left on device (os error 28)\n\
                    hint: the run itself has ended well\n";
        assert!(ran.stderr.ends_with(rest), "{}", ran.stderr);
        assert!(ran.stderr.contains("2,700 rows written"), "{}", ran.stderr);
        check(&place);
        // Of a load that fails the error is told, not that of its report.
        let ran = place.run("load numbers.csv {db} -t numbers --report /dev/full");
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("error: numbers.csv row 1"), "{}", ran.stderr);
    }
}

#[test]
fn what_a_journal_without_room_has_acknowledged_is_drained_later() {
    let place = Place::with(
        Database::Postgres,
        "CREATE TABLE numbers (id integer NOT NULL)",
        &[],
    );
    let lines: String = (1..=20_000).map(|id| format!("{{\"id\": {id}}}\n")).collect();
    place.write("numbers.jsonl", &lines);
    let ingest = format!(
        "'{}' ingest '{}' -t numbers --journal journal --ack journaled",
        env!("CARGO_BIN_EXE_tonnage"),
        place.url()
    );
    let cramped = format!("trap '' XFSZ; ulimit -f 64; exec {ingest} < numbers.jsonl");
    let mut child = Command::new("bash")
        .args(["--noprofile", "--norc", "-c", &cramped])
        .current_dir(place.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash starts");
    let output = child.stdout.take().expect("a pipe");
    let counting = std::thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).count());
    // It waits for room: what it says of that is what is waited for here.
    let errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut told = errors.lines().map_while(Result::ok);
    assert!(
        told.any(|line| line.contains("journal") && line.contains("File too large")),
        "it has said nothing of it"
    );
    child.kill().expect("it can be killed");
    child.wait().expect("it can be waited for");
    let acknowledged = counting.join().expect("the thread ends");
    let ran = place.run("ingest {db} -t numbers --journal journal --ack journaled");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ids = place.sql("SELECT id FROM numbers ORDER BY id");
    let expected: Vec<_> = (1..=ids.len()).map(|id| id.to_string()).collect();
    assert_eq!(ids, expected, "the first rows, once each");
    assert!(ids.len() >= acknowledged, "{} and {acknowledged}", ids.len());
}
