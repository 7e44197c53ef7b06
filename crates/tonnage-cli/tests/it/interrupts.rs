//! Ctrl-C and SIGTERM: the load ends soon, says how to go on, and goes on exactly.

use std::{thread::sleep, time::Duration};

use crate::{
    database::Database,
    events::{Chance, Events, Mode, Size, handled},
    process::{Running, count, report},
};

const SIGNALS: [(i32, i32); 2] = [(2, 130), (15, 143)];

const LARGE: Size = Size {
    files: 8,
    rows_each: 4_000,
};

#[test]
fn an_interrupted_load_says_how_to_go_on_and_goes_on_exactly() {
    for (signal, code) in SIGNALS {
        for database in Database::all() {
            let case = format!("signal {signal}, {}", database.name());
            let mut chance = Chance::new();
            let events = Events::generate(Mode::Insert, LARGE, &mut chance);
            events.prepare(&database);
            let account = events.directory.path().join("report.json");
            let mut command = events.load(&database.url());
            command.args(["--batch-rows", "10", "--report"]).arg(&account);
            // So slow that the signal comes before the end, however late this process is given its turn.
            let mut running = Running::start(command.args(["--rate", "2k/s"]));
            while handled(&database) == 0 && !running.has_ended() {
                sleep(Duration::from_millis(1));
            }
            running.signal(signal);
            let ended = running.wait();
            ended.expect(code);
            assert!(
                ended
                    .stderr
                    .contains("stopping: what is being written is finished")
                    && ended
                        .stderr
                        .ends_with("error: stopped on request\nhint: go on with --resume\n"),
                "{case}: {}",
                ended.stderr
            );
            let first = report(&account);
            assert_eq!(
                count(&first, "/rows/written") + count(&first, "/rows/rejected"),
                handled(&database),
                "{case}: what the report counts is what is committed"
            );

            let mut command = events.load(&database.url());
            command.args(["--resume", "--report"]).arg(&account);
            Running::start(&mut command).wait().expect(3);
            events.check(&database);
            let second = report(&account);
            assert_eq!(second["run_id"], first["run_id"], "{case}");
            assert_eq!(count(&second, "/rows/read"), events.rows, "{case}");
            assert_eq!(count(&second, "/rows/unfinished"), 0, "{case}");
        }
    }
}

#[test]
fn a_load_that_waits_for_its_input_ends_at_once() {
    for (signal, code) in SIGNALS {
        let database = Database::sqlite();
        database.run("CREATE TABLE events (id integer PRIMARY KEY)");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (reader, _writer) = std::io::pipe().expect("a pipe that stays open");
        let mut command = crate::process::tonnage();
        command
            .args(["load", "-", &database.url(), "-t", "events"])
            .current_dir(directory.path());
        let mut running = Running::start_with(&mut command, reader.into());
        running.until_it_listens(signal);
        running.signal(signal);
        let ended = running.wait();
        ended.expect(code);
        assert!(ended.stderr.contains("error: interrupted"), "{}", ended.stderr);
        assert!(
            !ended.stderr.contains("--resume"),
            "a pipe cannot be read again: {}",
            ended.stderr
        );
    }
}

#[test]
fn an_interrupted_get_leaves_no_file() {
    for (signal, code) in SIGNALS {
        let database = Database::sqlite();
        database.run("CREATE TABLE events (id integer PRIMARY KEY)");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let names = || {
            let names = std::fs::read_dir(directory.path()).expect("a directory");
            names
                .map(|name| name.expect("a name").file_name())
                .collect::<Vec<_>>()
        };
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let endless = std::thread::spawn(move || {
            let keys = "1\n2\n3\n".repeat(10_000);
            // Ends when nobody reads any more.
            while std::io::Write::write_all(&mut writer, keys.as_bytes()).is_ok() {}
        });
        let mut command = crate::process::tonnage();
        command
            .args([
                "get",
                &database.url(),
                "-t",
                "events",
                "--keys",
                "-",
                "--keys-no-header",
            ])
            .args(["--ordered", "-o", "found.csv", "--missing", "gone.csv"])
            .current_dir(directory.path());
        let mut running = Running::start_with(&mut command, reader.into());
        while names().len() < 2 && !running.has_ended() {
            sleep(Duration::from_millis(1));
        }
        running.until_it_listens(signal);
        running.signal(signal);
        let ended = running.wait();
        ended.expect(code);
        assert_eq!(ended.stderr, "error: interrupted while rows were being written\n");
        // It holds an end of the pipe.
        drop(command);
        endless.join().expect("the writer ends");
        assert!(names().is_empty(), "{:?}", names());
    }
}

#[test]
fn an_interrupted_unload_leaves_no_file() {
    const ENDLESS: &str = "WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g)";
    let database = Database::sqlite();
    database.run("CREATE TABLE one (id integer PRIMARY KEY)");
    database.run("INSERT INTO one VALUES (1)");
    // One is being written when it is told to stop, the other has not come to its first row.
    let cases = [
        ("SELECT one.id FROM g, one", true),
        ("SELECT max(n) AS n FROM g", false),
    ];
    for ((signal, code), (select, has_rows)) in SIGNALS.into_iter().zip(cases) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut command = crate::process::tonnage();
        command
            .args(["unload", &database.url(), "-o", "rows.csv", "--query"])
            .arg(format!("{ENDLESS} {select}"))
            .current_dir(directory.path());
        let is_empty = || {
            let mut files = std::fs::read_dir(directory.path()).expect("the directory is there");
            files.next().is_none()
        };
        let mut waited = Duration::from_millis(100);
        let ended = loop {
            let mut running = Running::start(&mut command);
            running.until_it_listens(signal);
            if has_rows {
                while is_empty() && !running.has_ended() {
                    sleep(Duration::from_millis(1));
                }
            } else {
                sleep(waited);
            }
            running.signal(signal);
            let ended = running.wait();
            ended.expect(code);
            assert!(is_empty());
            // It had not connected, which is told in other words: later, then.
            if has_rows || !ended.stderr.contains("no rows were written") {
                break ended;
            }
            waited *= 2;
        };
        assert!(
            ended.stderr.contains("error: interrupted; no file was written"),
            "{}",
            ended.stderr
        );
    }
}
