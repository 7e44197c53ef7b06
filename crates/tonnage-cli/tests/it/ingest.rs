//! `tonnage ingest` as devices and services use it: lines in, numbers out.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Stdio},
};

use crate::{
    database::Database,
    process::{Ended, Running, tonnage},
    support::{BOTH, TestDatabase},
};

const READINGS: &str = "CREATE TABLE readings (id integer NOT NULL, device text, value double precision, state text DEFAULT 'new')";

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
            let place = TestDatabase::with(*database, READINGS, &[]);
            let command = format!("ingest {{db}} -t readings --rejects r.jsonl --ack {ack}");
            let ran = place.run_with(&command, &[], lines.as_bytes());
            assert_eq!(ran.code, Some(3), "{ran:?}");
            let acknowledged = match ack {
                "committed" => "1 written\n2 rejected\n3 written\n4 rejected\n5 rejected\n6 written\n",
                _ => "1\n2\n3\n4\n5\n6\n",
            };
            assert_eq!(ran.stdout, acknowledged);
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
fn wide_rows_have_their_columns_in_any_order() {
    const COLUMNS: usize = 500;
    const ROWS: usize = 40;
    let columns: Vec<String> = (0..COLUMNS)
        .map(|at| format!("c{at} integer DEFAULT -1"))
        .collect();
    let table = format!("CREATE TABLE wide (id integer, {})", columns.join(", "));
    let lines: String = (0..ROWS)
        .map(|row| {
            // Some rows lack some columns, and some are written in capitals.
            let step = [1, 3, 7][row % 3];
            let keys = (0..COLUMNS).map(|at| (at * step + row * 17) % COLUMNS);
            let keys = keys.filter(|key| row % 4 != 1 || !key.is_multiple_of(5));
            let name = if row % 10 == 9 { "C" } else { "c" };
            let members: Vec<_> = keys
                .map(|key| format!("\"{name}{key}\":{}", row * 1_000 + key))
                .collect();
            format!("{{{},\"id\":{row}}}\n", members.join(","))
        })
        .collect();
    for database in BOTH {
        let place = TestDatabase::with(*database, &table, &[]);
        let ran = place.run_with("ingest {db} -t wide -q", &[], lines.as_bytes());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let found = place.sql("SELECT * FROM wide ORDER BY id");
        let wanted = (0..ROWS).map(|row| {
            let value = |key: usize| match row % 4 == 1 && key.is_multiple_of(5) {
                true => "-1".to_owned(),
                false => (row * 1_000 + key).to_string(),
            };
            let values: Vec<String> = (0..COLUMNS).map(value).collect();
            format!("{row}|{}", values.join("|"))
        });
        assert!(found.iter().cloned().eq(wanted), "{found:#?}");
    }
}

#[test]
fn quiet_says_nothing_and_an_upsert_keeps_the_last() {
    for database in BOTH {
        let place = TestDatabase::with(
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
            (ran.code, ran.stdout.lines().count(), ran.stderr.as_str()),
            (Some(0), 500, "")
        );
        let found = place.sql("SELECT device, value, note FROM state ORDER BY device");
        assert_eq!(found, ["a|498|kept", "b|499|-", "c|497|-"]);
    }
}

#[test]
fn mistakes_are_refused_with_the_next_step() {
    let place = TestDatabase::with(
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
            "ingest {db} -t readings --journal j --durability relaxed",
            2,
            "error: a journal lets go of rows once they are committed, and at durability relaxed the last commits may be \
             lost with the machine\n\
             hint: leave the durability out: with a journal only the drain waits for it\n",
        ),
        (
            "ingest {db} -t readings --journal taken",
            2,
            "error: taken is no journal: it has no journal.json, but notes.txt\nhint: name an empty directory, or one that is not there\n",
        ),
        (
            "ingest {db} -t readings --journal j --sequence-field n",
            2,
            "error: --sequence-field needs to know whose numbers they are\nhint: --producer NAME for all rows, or --producer-field KEY\n",
        ),
    ] {
        let ran = place.run(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(code), said), "{arguments}");
        assert_eq!(ran.stdout, "");
    }
    for (line, said) in [
        ("{\"id\": 1}", "error: line 1 has no 'n'\n"),
        ("{\"id\": 1, \"n\": null}", "error: line 1 has no 'n'\n"),
        (
            "{\"id\": 1, \"n\": 1.5}",
            "error: line 1: 'n' is 1.5, which is no whole number\n",
        ),
    ] {
        let command = "ingest {db} -t readings --journal k --producer p --sequence-field n";
        let ran = place.run_with(command, &[], line.as_bytes());
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}

/// Rows of several devices on one input, each numbered by its device; sent again from somewhere before the end.
#[test]
fn what_is_sent_again_is_not_taken_again() {
    let line = |device: &str, n: u64| {
        format!("{{\"n\": {n}, \"device\": \"{device}\", \"id\": {n}, \"value\": 1.50}}\n")
    };
    let first: String = [
        line("a", 1),
        line("b", 7),
        line("a", 2),
        "no\n".to_owned(),
        line("b", 8),
    ]
    .concat();
    let again: String = [
        line("a", 2),
        line("b", 7),
        line("a", 3),
        line("b", 8),
        line("b", 9),
    ]
    .concat();
    let command =
        "ingest {db} -t readings --journal j --rejects r.jsonl --producer-field device --sequence-field n";
    for database in BOTH {
        for ack in ["accepted", "journaled", "committed"] {
            let place = TestDatabase::with(*database, READINGS, &[]);
            let command = format!("{command} --ack {ack}");
            let ran = place.run_with(&command, &[], first.as_bytes());
            assert_eq!(
                (ran.code, ran.stdout.as_str()),
                (
                    Some(3),
                    match ack {
                        "committed" => "1 a written\n7 b written\n2 a written\n- rejected\n8 b written\n",
                        _ => "1 a\n7 b\n2 a\n-\n8 b\n",
                    }
                ),
                "{ran:?}"
            );
            let ran = place.run_with(&command, &[], again.as_bytes());
            assert_eq!(
                (ran.code, ran.stdout.as_str()),
                (
                    Some(0),
                    match ack {
                        "committed" => "2 a known\n7 b known\n3 a written\n8 b known\n9 b written\n",
                        _ => "2 a\n7 b\n3 a\n8 b\n9 b\n",
                    }
                ),
                "{ran:?}"
            );
            let found = place.sql("SELECT device, id, value FROM readings ORDER BY device, id");
            assert_eq!(
                found,
                ["a|1|1.5", "a|2|1.5", "a|3|1.5", "b|7|1.5", "b|8|1.5", "b|9|1.5"]
            );
            let ran = place.run_with(&command, &[], line("a", 5).as_bytes());
            assert_eq!(ran.code, Some(1));
            assert!(
                ran.stderr
                    .contains("error: line 1: producer a sends row 5 where row 4 is due\n"),
                "{}",
                ran.stderr
            );
        }
    }
}

#[test]
fn the_account_of_an_ingest_takes_the_place_of_its_acknowledgements() {
    for database in BOTH {
        let place = TestDatabase::with(*database, READINGS, &[]);
        let lines = "{\"id\": 1}\n{\"id\": 2}\n{\"id\": \"two\"}\n";
        for ack in ["accepted", "committed"] {
            let command = format!("ingest {{db}} -t readings --json --ack {ack} --rejects bad-{ack}.jsonl");
            let ran = place.run_with(&command, &[], lines.as_bytes());
            let report: serde_json::Value =
                serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
            assert_eq!(report["rows"]["put"], 3, "{ran:?}");
            assert_eq!(report["rows"]["rejected"], 1, "{ran:?}");
        }
        let refused = place.run_with("ingest {db} -t readings --json --report r.json", &[], b"");
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
}

/// An input that is fed once more from its beginning, longer than it was.
#[test]
fn the_lines_of_one_producer_are_counted() {
    for database in BOTH {
        let place = TestDatabase::with(*database, READINGS, &[]);
        let lines = |count: u64| {
            (1..=count)
                .map(|id| format!("{{\"id\": {id}}}\n\n"))
                .collect::<String>()
        };
        let command = "ingest {db} -t readings --journal j --ack journaled --producer may";
        for (count, printed) in [(3, "1\n2\n3\n"), (5, "1\n2\n3\n4\n5\n"), (2, "1\n2\n")] {
            let ran = place.run_with(command, &[], lines(count).as_bytes());
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), printed), "{ran:?}");
        }
        assert_eq!(
            place.sql("SELECT id FROM readings ORDER BY id"),
            ["1", "2", "3", "4", "5"]
        );
    }
}

/// Nobody goes on with the rows of an ingest without a journal: once its process has ended its run is settled.
#[test]
fn the_run_of_an_ingest_that_was_killed_is_finished_by_the_next() {
    for database in Database::all() {
        database.run(READINGS);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let ingest = |ack: &str| {
            let mut command = tonnage();
            let url = database.url();
            command
                .args(["ingest", url.as_str(), "-t", "readings", "--ack", ack])
                .current_dir(directory.path());
            command
        };
        let runs = || {
            let listed = tonnage()
                .args(["runs", &database.url()])
                .output()
                .expect("the binary starts");
            String::from_utf8(listed.stdout).expect("text")
        };
        let mut first = ingest("committed")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut input = first.stdin.take().expect("a pipe to it");
        input.write_all(line(1).as_bytes()).expect("it reads");
        let mut number = String::new();
        let mut numbers = BufReader::new(first.stdout.take().expect("a pipe from it"));
        numbers.read_line(&mut number).expect("a line");
        assert_eq!(number, "1 written\n");
        assert!(runs().contains("  open        20"), "{}", runs());
        first.kill().expect("it can be killed");
        first.wait().expect("it can be waited for");
        assert!(runs().contains("  abandoned   20"), "{}", runs());
        Running::start(&mut ingest("accepted")).wait().expect(0);
        let listed = runs();
        let finished: Vec<_> = listed
            .lines()
            .filter(|line| line.contains("  finished  "))
            .collect();
        assert_eq!(finished.len(), 2, "{listed}");
        assert!(finished[1].contains(": 1 written, 0 rejected"), "{listed}");
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
            ])
            .args(["--rejects", "r.jsonl"])
            .args(match further.contains(&"--ack") {
                true => &[][..],
                false => &["--ack", "journaled"],
            })
            .args(further)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary starts");
        let numbers = BufReader::new(child.stdout.take().expect("a pipe from it"));
        Self { child, numbers }
    }

    /// Sends rows, a line each.
    fn send(&mut self, ids: std::ops::Range<u64>) {
        let lines: String = ids.map(line).collect();
        let input = self.child.stdin.as_mut().expect("a pipe to it");
        let _ = input.write_all(lines.as_bytes()).and_then(|()| input.flush());
    }
}

fn line(id: u64) -> String {
    format!(
        "{{\"id\": {id}, \"device\": \"d{}\", \"value\": {id}.5}}\n",
        id % 9
    )
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

fn copied(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a journal") {
        let entry = entry.expect("a file");
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

/// `tonnage ingest` of one row with a journal of that name.
fn ingest_row(database: &Database, directory: &Path, journal: &str, id: u64, further: &[&str]) -> Ended {
    std::fs::write(directory.join("row.jsonl"), line(id)).expect("a file");
    let input = std::fs::File::open(directory.join("row.jsonl")).expect("the file");
    let mut command = tonnage();
    command
        .args(["ingest", &database.url(), "-t", "readings", "--journal", journal])
        .args(["--rejects", "r.jsonl", "--report", "report.json"])
        .args(further)
        .current_dir(directory);
    Running::start_with(&mut command, input.into()).wait()
}

#[test]
fn a_copy_of_a_journal_is_refused_and_an_accepted_loss_is_told_by_the_exit_code() {
    for database in Database::all() {
        database.run(READINGS);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let directory = directory.path();
        ingest_row(&database, directory, "journal", 1, &[]).expect(0);
        copied(&directory.join("journal"), &directory.join("copy"));
        ingest_row(&database, directory, "journal", 2, &[]).expect(0);
        let refused = ingest_row(&database, directory, "copy", 3, &[]);
        refused.expect(4);
        assert!(
            refused.stderr.contains("it is a copy or an older state")
                && refused.stderr.contains("may be lost or doubled"),
            "{}",
            refused.stderr
        );
        ingest_row(&database, directory, "journal", 4, &[]).expect(0);
        let ids = || database.rows("SELECT id FROM readings").len();
        assert_eq!(ids(), 3, "{}", database.name());
        // A backup that is put back, as there is nothing else.
        let accepted = ingest_row(&database, directory, "copy", 5, &["--accept-loss"]);
        accepted.expect(4);
        assert!(
            accepted.stderr.contains("may be lost or doubled"),
            "{}",
            accepted.stderr
        );
        let text = std::fs::read_to_string(directory.join("report.json")).expect("a report");
        let account: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(account["rows"]["written"], 1);
        assert_eq!(account["recovery"]["uncertain"]["first"], 1);
        assert_eq!(ids(), 4);
        ingest_row(&database, directory, "copy", 6, &[]).expect(0);
        ingest_row(&database, directory, "journal", 7, &[]).expect(4);
        assert_eq!(ids(), 5);
    }
}

/// Neither the journal nor the ledger of an earlier release names an opening.
#[test]
fn a_journal_of_an_earlier_release_is_gone_on_with() {
    let database = Database::sqlite();
    database.run(READINGS);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let directory = directory.path();
    ingest_row(&database, directory, "journal", 1, &[]).expect(0);
    let path = directory.join("journal/journal.json");
    let text = std::fs::read_to_string(&path).expect("journal.json");
    let mut meta: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    meta["format"] = 2.into();
    let members = meta.as_object_mut().expect("an object");
    assert!(members.remove("opening").is_some() && members.remove("newest").is_some());
    std::fs::write(&path, meta.to_string()).expect("a file");
    database.run("UPDATE tonnage_runs SET detail = json_remove(detail, '$.opening')");
    copied(&directory.join("journal"), &directory.join("copy"));
    ingest_row(&database, directory, "journal", 2, &[]).expect(0);
    ingest_row(&database, directory, "copy", 3, &[]).expect(4);
    ingest_row(&database, directory, "journal", 4, &[]).expect(0);
    assert_eq!(database.rows("SELECT id FROM readings").len(), 3);
}

/// Reads the next number; the ingest is killed where none comes.
fn next_number(ingest: &mut Ingest, expected: u64) {
    let (ended, watched) = std::sync::mpsc::channel::<()>();
    let id = ingest.child.id();
    let watch = std::thread::spawn(move || {
        if watched.recv_timeout(std::time::Duration::from_secs(120)).is_err() {
            let _ = std::process::Command::new("kill")
                .arg("-9")
                .arg(id.to_string())
                .status();
        }
    });
    let mut number = String::new();
    ingest.numbers.read_line(&mut number).expect("a line");
    let _ = ended.send(());
    watch.join().expect("it is watched");
    // What became of it is behind it, where that is known.
    assert_eq!(
        number.split_whitespace().next(),
        Some(&*expected.to_string()),
        "{number}"
    );
}

/// One row under way, and its sender waits for it: there is nothing to gather for.
#[test]
fn a_row_that_is_waited_for_is_not_held_back() {
    for numbering in [&[][..], &["--producer", "p"]] {
        let database = Database::sqlite();
        database.run(READINGS);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let unhurried = ["--ack", "committed", "--drain-age", "100000000"];
        let mut ingest = Ingest::start(&database, directory.path(), &[&unhurried, numbering].concat());
        for id in 1..=3 {
            ingest.send(id..id + 1);
            next_number(&mut ingest, id);
            assert_eq!(database.rows("SELECT id FROM readings").len() as u64, id);
        }
        drop(ingest.child.stdin.take());
        assert!(ingest.child.wait().expect("it ends").success());
    }
}

/// A table that is altered between two rows: the next goes to what it is then.
#[test]
fn an_altered_table_gets_rows_as_it_is_now() {
    for database in Database::all() {
        database.run(READINGS);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut ingest = Ingest::start(&database, directory.path(), &["--ack", "committed"]);
        let mut sent = 0;
        let mut send = |text: &str| {
            let input = ingest.child.stdin.as_mut().expect("a pipe to it");
            writeln!(input, "{text}")
                .and_then(|()| input.flush())
                .expect("it reads");
            sent += 1;
            next_number(&mut ingest, sent);
        };
        send(r#"{"id": 1, "device": "a", "value": 1.5}"#);
        database.run("ALTER TABLE readings ADD COLUMN place text");
        send(r#"{"id": 2, "device": "a", "place": "attic"}"#);
        database.run("ALTER TABLE readings RENAME COLUMN device TO sender");
        send(r#"{"id": 3, "device": "a"}"#);
        send(r#"{"id": 4, "sender": "b"}"#);
        // Text goes there only as a number.
        let retype = match &database {
            Database::Sqlite(_) => {
                "ALTER TABLE readings DROP COLUMN place; ALTER TABLE readings ADD COLUMN place integer"
            }
            Database::Postgres(_) | Database::DuckDb(_) => {
                "ALTER TABLE readings ALTER COLUMN place TYPE bigint USING NULL"
            }
            Database::MariaDb(_) => {
                "UPDATE readings SET place = NULL; ALTER TABLE readings MODIFY COLUMN place bigint"
            }
        };
        database.run(retype);
        send(r#"{"id": 5, "place": "cellar"}"#);
        send(r#"{"id": 6, "place": 7}"#);
        database.run("ALTER TABLE readings DROP COLUMN value");
        send(r#"{"id": 7, "value": 0.5}"#);
        send(r#"{"id": 8}"#);
        drop(ingest.child.stdin.take());
        assert_eq!(ingest.child.wait().expect("it ends").code(), Some(3));
        let found = database.rows("SELECT id, sender, place FROM readings ORDER BY id");
        let shown: Vec<String> = found
            .into_iter()
            .map(|row| {
                row.into_iter()
                    .map(|value| value.unwrap_or_else(|| "-".to_owned()))
                    .collect::<Vec<_>>()
                    .join("|")
            })
            .collect();
        assert_eq!(
            shown,
            ["1|a|-", "2|a|-", "4|b|-", "6|-|7", "8|-|-"],
            "{}",
            database.name()
        );
        let rejects = std::fs::read_to_string(directory.path().join("r.jsonl")).expect("rejects");
        let rows: Vec<u64> = rejects
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).expect("JSON")["row"]
                    .as_u64()
                    .expect("a row")
            })
            .collect();
        assert_eq!(rows, [3, 5, 7], "{}: {rejects}", database.name());
    }
}
