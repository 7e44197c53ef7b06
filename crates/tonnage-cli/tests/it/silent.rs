//! A pipe that is open and silent: nothing that happens to the load waits for it.

use std::{
    fmt::Write as _,
    io::{PipeWriter, Write as _},
    process::{Command, Stdio},
};

use crate::{
    process::{Running, tonnage},
    support::{ALL, TestDatabase},
};

/// More than a block, so that some are written while the next is read.
const ROWS: u64 = 70_000;

const SIGTERM: i32 = 15;

fn command(place: &TestDatabase, arguments: &[&str]) -> Command {
    let mut command = tonnage();
    command
        .current_dir(place.path(""))
        .args(["load", "-", &place.url(), "-t", "t", "--format", "csv"])
        .args(arguments);
    command
}

/// Starts a load of `rows` rows, of which `twice` come a second time, from a pipe that then stays open.
fn started(mut command: Command, rows: u64, twice: Option<u64>) -> (Running, PipeWriter) {
    let (input, mut pipe) = std::io::pipe().expect("a pipe");
    let running = Running::start_with(&mut command, Stdio::from(input));
    drop(command);
    let mut text = "id,v\n".to_owned();
    for row in 0..rows {
        let id = twice.filter(|at| *at + 1 == row).unwrap_or(row);
        writeln!(text, "{id},v{row}").expect("text is written to memory");
    }
    pipe.write_all(text.as_bytes()).expect("the load reads all of it");
    (running, pipe)
}

fn place(database: crate::support::Database) -> TestDatabase {
    TestDatabase::with(
        database,
        "CREATE TABLE t (id integer PRIMARY KEY, v varchar(20))",
        &[],
    )
}

#[test]
fn a_load_that_failed_says_so_although_its_pipe_is_silent() {
    for database in ALL {
        let place = place(*database);
        for single in [&[][..], &["--single-transaction"]] {
            let (running, pipe) = started(command(&place, single), ROWS, Some(7));
            let ended = running.wait();
            drop(pipe);
            ended.expect(1);
            assert!(
                ended.stderr.contains("error: stdin row 9"),
                "{database:?}: {}",
                ended.stderr
            );
        }
        assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"], "{database:?}");
    }
}

#[test]
fn a_load_that_is_told_to_stop_gives_its_account_although_its_pipe_is_silent() {
    for database in ALL {
        let place = place(*database);
        let (mut running, pipe) = started(command(&place, &[]), ROWS, None);
        while place.sql("SELECT count(*) FROM t") == ["0"] {
            assert!(!running.has_ended(), "{database:?}: {}", running.said());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        running.signal(SIGTERM);
        let ended = running.wait();
        drop(pipe);
        ended.expect(143);
        assert!(
            ended.stderr.contains("stopped on request") && ended.stderr.contains(" read = "),
            "{database:?}: {}",
            ended.stderr
        );
    }
}

#[test]
fn an_ingest_that_failed_says_so_although_its_pipe_is_silent() {
    for database in ALL {
        let place = place(*database);
        let (input, mut pipe) = std::io::pipe().expect("a pipe");
        let mut command = tonnage();
        command
            .current_dir(place.path(""))
            .args(["ingest", &place.url(), "-t", "t", "--max-rejects", "1"]);
        let running = Running::start_with(&mut command, Stdio::from(input));
        drop(command);
        let text = "{\"id\": 1, \"v\": \"a\"}\n".repeat(4);
        pipe.write_all(text.as_bytes())
            .expect("the ingest reads all of it");
        let ended = running.wait();
        drop(pipe);
        ended.expect(1);
        assert!(
            ended.stderr.contains("1 written") && ended.stderr.contains("error: "),
            "{database:?}: {}",
            ended.stderr
        );
    }
}
