//! `tonnage ingest` as devices and services use it: lines in, numbers out, whatever dies in between.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Stdio},
    thread::sleep,
    time::Duration,
};

use crate::{
    database::Database,
    events::Chance,
    process::{Running, tonnage},
    support::{BOTH, Place},
};

const READINGS: &str = "CREATE TABLE readings (id integer NOT NULL, device text, value double precision, state text DEFAULT 'new')";

/// Lives of one journal that end with SIGKILL, for each database.
const KILLS: u32 = 12;

#[test]
fn each_row_is_acknowledged_by_its_number_and_bad_ones_cost_themselves() {
    let lines = concat!(
        "{\"id\": 1, \"device\": \"a\", \"value\": 0.5}\n",
        "\n",
        "{\"id\": \"two\"}\n",
        "{\"id\": 3, \"device\": null, \"state\": \"old\"}\n",
        "{\"id\": 4, \"colour\": \"red\"}\n",
        "{\"device\": \"nobody\"}\n",
        "{\"Id\": 6, \"DEVICE\": \"last\"}",
    );
    for database in BOTH {
        for ack in ["accepted", "journaled --journal j", "committed"] {
            let place = Place::with(*database, READINGS, &[]);
            let command = format!("ingest {{db}} -t readings --rejects r.jsonl --ack {ack}");
            let ran = place.run_with(&command, &[], lines.as_bytes());
            assert_eq!(ran.code, Some(3), "{ran:?}");
            assert_eq!(ran.stdout, "1\n2\n3\n4\n5\n6\n");
            assert!(
                ran.stderr.contains("  6 put = 3 written + 3 rejected\n"),
                "{}",
                ran.stderr
            );
            let found = place.sql("SELECT id, device, value, state FROM readings ORDER BY id");
            assert_eq!(found, ["1|a|0.5|new", "3|-|-|old", "6|last|-|new"]);
            let rejects = place.read("r.jsonl");
            let numbers = rejects.lines().map(|line| {
                let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
                record["row"].as_u64().expect("a number")
            });
            let numbers: BTreeSet<u64> = numbers.collect();
            assert_eq!(numbers, [2, 4, 5].into());
        }
    }
}

#[test]
fn quiet_says_nothing_and_an_upsert_keeps_the_last() {
    for database in BOTH {
        let place = Place::with(
            *database,
            "CREATE TABLE state (device text PRIMARY KEY, value integer, note text)",
            &[],
        );
        place.sql("INSERT INTO state VALUES ('a', 0, 'kept')");
        let lines: String = (0..500)
            .map(|round| {
                format!(
                    "{{\"device\": \"{}\", \"value\": {round}}}\n",
                    ["a", "b", "c"][round % 3]
                )
            })
            .collect();
        let ran = place.run_with("ingest {db} -t state --mode upsert -q", &[], lines.as_bytes());
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (Some(0), "", "")
        );
        let found = place.sql("SELECT device, value, note FROM state ORDER BY device");
        assert_eq!(found, ["a|498|kept", "b|499|-", "c|497|-"]);
    }
}

#[test]
fn mistakes_are_refused_with_the_next_step() {
    let place = Place::with(
        crate::support::Database::Sqlite,
        READINGS,
        &[("taken/notes.txt", "mine")],
    );
    for (arguments, code, said) in [
        (
            "ingest {db} -t reading",
            1,
            "error: there is no table reading\nhint: did you mean readings?\n",
        ),
        (
            "ingest {db} -t readings --ack journaled",
            2,
            "error: --ack journaled needs a journal\nhint: --journal DIR names its directory\n",
        ),
        (
            "ingest {db} -t readings --journal taken",
            2,
            "error: taken is no journal: it has no journal.json, but notes.txt\nhint: name an empty directory, or one that is not there\n",
        ),
    ] {
        let ran = place.run(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(code), said), "{arguments}");
        assert_eq!(ran.stdout, "");
    }
}

/// A process that takes lines.
struct Ingest {
    child: Child,
    numbers: BufReader<ChildStdout>,
}

impl Ingest {
    fn start(database: &Database, directory: &Path, further: &[&str]) -> Self {
        let mut command = tonnage();
        command
            .args([
                "ingest",
                &database.url(),
                "-t",
                "readings",
                "--journal",
                "journal",
                "--ack",
                "journaled",
            ])
            .args(["--rejects", "r.jsonl"])
            .args(further)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        let numbers = BufReader::new(child.stdout.take().expect("a pipe from it"));
        Self { child, numbers }
    }

    /// Sends rows, a line each. What is killed meanwhile reads no more.
    fn send(&mut self, ids: std::ops::Range<u64>) {
        let lines: String = ids.map(line).collect();
        let input = self.child.stdin.as_mut().expect("a pipe to it");
        let _ = input.write_all(lines.as_bytes()).and_then(|()| input.flush());
    }

    /// How many rows are acknowledged by the time it is killed.
    fn kill(mut self) -> u64 {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
        self.numbers.lines().map_while(Result::ok).count() as u64
    }
}

fn line(id: u64) -> String {
    format!(
        "{{\"id\": {id}, \"device\": \"d{}\", \"value\": {id}.5}}\n",
        id % 9
    )
}

/// SIGKILL at random moments, sessions of the database killed in half of the lives: every row that was acknowledged is
/// in the table once, and none that was not put.
#[test]
fn killed_again_and_again_every_journaled_row_stands_once() {
    for database in Database::all() {
        database.run(READINGS);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut chance = Chance::new();
        let (mut sent, mut acknowledged) = (0, BTreeSet::new());
        for life in 0..KILLS {
            let mut ingest = Ingest::start(&database, directory.path(), &["--drain-age", "5"]);
            let first = sent + 1;
            for _ in 0..chance.below(30) + 1 {
                let count = chance.below(400) + 1;
                ingest.send(sent + 1..sent + 1 + count);
                sent += count;
                sleep(Duration::from_millis(chance.below(15)));
                if life % 2 == 0 && matches!(database, Database::Postgres(_)) && chance.below(6) == 0 {
                    database.run(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                         WHERE datname = current_database() AND pid <> pg_backend_pid()",
                    );
                }
            }
            sleep(Duration::from_millis(chance.below(60)));
            // Acknowledged in the order in which they were sent.
            let count = ingest.kill();
            acknowledged.extend(first..first + count);
        }
        assert!(
            acknowledged.len() > 100,
            "{}: {} rows",
            database.name(),
            acknowledged.len()
        );
        let ended = Running::start(
            tonnage()
                .args([
                    "ingest",
                    &database.url(),
                    "-t",
                    "readings",
                    "--journal",
                    "journal",
                ])
                .current_dir(directory.path()),
        )
        .wait();
        ended.expect(0);
        let rows = database.rows("SELECT id FROM readings");
        let found: Vec<u64> = rows
            .iter()
            .map(|row| row[0].as_deref().expect("an id").parse().expect("a number"))
            .collect();
        let distinct: BTreeSet<u64> = found.iter().copied().collect();
        assert_eq!(
            found.len(),
            distinct.len(),
            "{}: a row stands twice",
            database.name()
        );
        let missing: Vec<_> = acknowledged.difference(&distinct).take(5).collect();
        assert!(missing.is_empty(), "{}: {missing:?} are missing", database.name());
        assert!(
            distinct.iter().all(|id| (1..=sent).contains(id)),
            "{}",
            database.name()
        );
    }
}

#[test]
fn a_signal_ends_it_with_every_row_accounted_for() {
    for (signal, code) in [(2, 130), (15, 143)] {
        for database in Database::all() {
            database.run(READINGS);
            let directory = tempfile::tempdir().expect("a temporary directory");
            let mut ingest = Ingest::start(
                &database,
                directory.path(),
                &["--drain-age", "100000", "--report", "report.json"],
            );
            ingest.send(1..301);
            let mut number = String::new();
            while number != "300\n" {
                number.clear();
                assert!(
                    ingest.numbers.read_line(&mut number).expect("a line") > 0,
                    "it goes on"
                );
            }
            assert_eq!(
                database.rows("SELECT id FROM readings").len(),
                0,
                "they are in the journal only"
            );
            let second = Running::start(
                tonnage()
                    .args([
                        "ingest",
                        &database.url(),
                        "-t",
                        "readings",
                        "--journal",
                        "journal",
                    ])
                    .current_dir(directory.path()),
            )
            .wait();
            second.expect(2);
            assert!(
                second
                    .stderr
                    .contains("journal journal is in use by another process"),
                "{}",
                second.stderr
            );
            // The input stays open: it is the signal that ends it.
            let _input = ingest.child.stdin.take();
            let sent = std::process::Command::new("kill")
                .arg(format!("-{signal}"))
                .arg(ingest.child.id().to_string())
                .status();
            assert!(sent.expect("kill starts").success());
            let status = ingest.child.wait().expect("it ends");
            assert_eq!(status.code(), Some(code));
            assert_eq!(database.rows("SELECT id FROM readings").len(), 300);
            let report = std::fs::read_to_string(directory.path().join("report.json")).expect("a report");
            let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
            assert_eq!(report["rows"]["written"], 300);
            assert_eq!(report["rows"]["unfinished"], 0);
        }
    }
}
