//! Disks that are full: what cannot be written ends the load with an error that says so, nothing is lost, and once there
//! is room it goes on.
//!
//! A disk is full for one process by a limit on the size of its files, which needs no rights. What it is told then is
//! "File too large", where a disk would say "No space left on device". Servers have a disk that is full in truth as
//! well (`room`), wherever one can be mounted.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use super::servers::{Cluster, Maria, Server};
use crate::{
    process::{Running, count, tonnage},
    support::{Database, TestDatabase},
};

const ROWS: u64 = 3_000;
/// The length of a text, of which a server has room for some.
const NOTE: usize = 5_000;
/// That room, on a disk, in KiB.
const LEFT: u64 = 3 << 10;
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

fn place(database: Database) -> TestDatabase {
    TestDatabase::with(
        database,
        "CREATE TABLE numbers (id integer PRIMARY KEY)",
        &[("numbers.csv", &numbers())],
    )
}

fn check(place: &TestDatabase) {
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

/// How a server has too little room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// The disk that the table is on is full.
    Disk,
    /// None of its files may grow beyond a size, which it takes for a full disk.
    Files,
}

impl Server {
    /// The first value of a query; empty where there is none.
    fn query(&self, sql: &str) -> String {
        let first = self
            .rows(sql)
            .into_iter()
            .next()
            .and_then(|row| row.into_iter().next());
        first.flatten().unwrap_or_default()
    }

    /// Makes an empty table, for which there is some room but not enough. How, since a disk cannot be mounted
    /// everywhere.
    fn cramp(&mut self, lack: Lack) -> Lack {
        let mounted = match (lack, &mut *self) {
            (Lack::Files, _) => None,
            (Lack::Disk, Self::Postgres(cluster)) => Some(cluster.mount()),
            (Lack::Disk, Self::MariaDb(maria)) => Some(maria.mount()),
        };
        let lack = match mounted {
            Some(Ok(())) => Lack::Disk,
            Some(Err(why)) => {
                // Of a test that passes, only what it writes itself is shown.
                let _ = writeln!(
                    std::io::stderr(),
                    "no disk can be mounted ({why}): the sizes of files are limited instead"
                );
                Lack::Files
            }
            None => Lack::Files,
        };
        let columns = "(id integer PRIMARY KEY, note text)";
        // Text of this size would be compressed, and go to a table of its own.
        let plain = "ALTER TABLE numbers ALTER note SET STORAGE PLAIN";
        match (lack, &mut *self) {
            (Lack::Disk, Self::Postgres(cluster)) => {
                let place = cluster.disk().expect("it is mounted").display();
                cluster.query("postgres", &format!("CREATE TABLESPACE small LOCATION '{place}'"));
                cluster.query(
                    "postgres",
                    &format!("CREATE TABLE numbers {columns} TABLESPACE small; {plain}"),
                );
                cluster.fill_disk(Some(LEFT));
            }
            (Lack::Disk, Self::MariaDb(maria)) => {
                let place = maria.disk().expect("it is mounted").display();
                maria.query(&format!(
                    "CREATE TABLE numbers {columns} DATA DIRECTORY '{place}'"
                ));
                maria.fill_disk(Some(LEFT));
            }
            (Lack::Files, Self::Postgres(cluster)) => {
                cluster.query("postgres", &format!("CREATE TABLE numbers {columns}; {plain}"));
                cluster.stop();
                cluster.file_max = Some(2 << 20);
                cluster.restart();
            }
            (Lack::Files, Self::MariaDb(maria)) => {
                maria.query(&format!("CREATE TABLE numbers {columns}"));
                maria.kill();
                // Its own files have 12 MiB.
                maria.file_max = Some(13 << 20);
                maria.restart();
            }
        }
        lack
    }

    /// Gives it room, where it lacked it. Whether it had ended by itself: MariaDB may do so while it undoes
    /// the statement that had no room.
    fn relieve(&mut self, lack: Lack) -> bool {
        match (lack, self) {
            (Lack::Disk, Self::Postgres(cluster)) => cluster.fill_disk(None),
            (Lack::Disk, Self::MariaDb(maria)) => {
                maria.fill_disk(None);
                return maria.revive();
            }
            (Lack::Files, Self::Postgres(cluster)) => {
                cluster.stop();
                cluster.file_max = None;
                cluster.restart();
            }
            (Lack::Files, Self::MariaDb(maria)) => {
                let has_ended = maria.try_query("SELECT 1").is_err();
                maria.kill();
                maria.file_max = None;
                maria.restart();
                return has_ended;
            }
        }
        false
    }

    /// What the load has to say of it.
    fn complaints(&self, lack: Lack) -> &'static [&'static str] {
        match (self, lack) {
            (Self::Postgres(_), Lack::Disk) => &["could not extend file", "No space left on device"],
            (Self::Postgres(_), Lack::Files) => &["could not extend file"],
            (Self::MariaDb(_), _) => &["The table 'numbers' is full"],
        }
    }
}

/// The load ends with the server's error and an exact account, and goes on once there is room.
fn runs_out_of_room(mut server: Server, lack: Lack) {
    let lack = server.cramp(lack);
    let place = TestDatabase::with(Database::Sqlite, "", &[]);
    let note = "n".repeat(NOTE);
    let lines = (0..ROWS).map(|row| format!("{row},{note}\n"));
    place.write("numbers.csv", format!("id,note\n{}", lines.collect::<String>()));
    let report = || crate::process::report(&place.path("report.json"));
    let url = server.url();
    // A server without room may leave it without an answer: it has a time by which it must have ended.
    let load = |more: &[&str]| {
        let mut load = tonnage();
        load.current_dir(place.path(""));
        load.args(["load", "numbers.csv", &url, "-t", "numbers", "--batch-rows", "20"]);
        load.args(["--jobs", "1", "--report", "report.json"]);
        Running::start(load.args(more)).wait()
    };
    let ran = load(&[]);
    ran.expect(1);
    let has_ended = server.relieve(lack);
    let complains = server
        .complaints(lack)
        .iter()
        .all(|complaint| ran.stderr.contains(complaint));
    assert!(
        complains || (has_ended && ran.stderr.contains("connect")),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    let told = report();
    let written = count(&told, "/rows/written");
    assert!(written > 0 && written < ROWS, "{told:#}");
    assert_eq!(count(&told, "/rows/rejected"), 0, "{told:#}");
    assert_eq!(server.query("SELECT count(*) FROM numbers"), written.to_string());
    load(&["--resume"]).expect(0);
    assert_eq!(count(&report(), "/rows/skipped/resumed"), written);
    assert_eq!(count(&report(), "/rows/written"), ROWS - written);
    let found = server.query("SELECT concat(count(*), ' ', sum(id), ' ', sum(length(note))) FROM numbers");
    assert_eq!(
        found,
        format!("{ROWS} {} {}", (0..ROWS).sum::<u64>(), ROWS * NOTE as u64)
    );
}

#[test]
fn postgres_whose_disk_is_full_ends_the_load_which_goes_on_once_there_is_room() {
    runs_out_of_room(Server::Postgres(Cluster::start("")), Lack::Disk);
}

#[test]
fn mariadb_whose_disk_is_full_ends_the_load_which_goes_on_once_there_is_room() {
    runs_out_of_room(Server::MariaDb(Maria::start()), Lack::Disk);
}

#[test]
fn postgres_whose_files_cannot_grow_ends_the_load_which_goes_on_once_they_can() {
    runs_out_of_room(Server::Postgres(Cluster::start("")), Lack::Files);
}

#[test]
fn mariadb_whose_files_cannot_grow_ends_the_load_which_goes_on_once_they_can() {
    runs_out_of_room(Server::MariaDb(Maria::start()), Lack::Files);
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
    let place = TestDatabase::with(
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
