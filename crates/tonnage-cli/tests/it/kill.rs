//! Processes that are killed, and processes that get in each other's way: every row stands once, whatever happened.

use std::{os::unix::process::ExitStatusExt, process::Command, thread::sleep, time::Duration};

use crate::{
    database::Database,
    events::{Chance, Events, Mode, Size, handled},
    process::{Running, count, report},
};

const KILLS: u64 = 20;
const SIGKILL: i32 = 9;

/// Large enough for twenty kills to land in its middle.
const LARGE: Size = Size {
    files: 12,
    rows_each: 4_000,
};

/// Settings that may change between the attempts at a run.
fn vary(command: &mut Command, database: &Database, mode: Mode, chance: &mut Chance) {
    command.args(["--jobs", chance.one(&["1", "2", "3", "4"])]);
    command.args(["--batch-rows", chance.one(&["17", "60", "150", "400"])]);
    command.args(["--batch-bytes", chance.one(&["4KiB", "64KiB", "1MiB"])]);
    let methods = match (database, mode) {
        // LOAD DATA does nothing but insert.
        (Database::MariaDb(_), Mode::Upsert) => ["array", "batch"],
        _ => ["array", "native"],
    };
    command.args(["--method", chance.one(&methods)]);
}

#[test]
fn twenty_kills_of_an_insert_into_sqlite() {
    twenty_kills(&Database::sqlite(), Mode::Insert);
}

#[test]
fn twenty_kills_of_an_upsert_into_sqlite() {
    twenty_kills(&Database::sqlite(), Mode::Upsert);
}

#[test]
fn twenty_kills_of_an_insert_into_postgres() {
    twenty_kills(&Database::postgres(), Mode::Insert);
}

#[test]
fn twenty_kills_of_an_upsert_into_postgres() {
    twenty_kills(&Database::postgres(), Mode::Upsert);
}

#[test]
fn twenty_kills_of_an_insert_into_mariadb() {
    twenty_kills(&Database::mariadb(), Mode::Insert);
}

#[test]
fn twenty_kills_of_an_upsert_into_mariadb() {
    twenty_kills(&Database::mariadb(), Mode::Upsert);
}

#[test]
fn kills_of_an_insert_into_duckdb() {
    kills_of_duckdb(Mode::Insert);
}

#[test]
fn kills_of_an_upsert_into_duckdb() {
    kills_of_duckdb(Mode::Upsert);
}

/// As many as TONNAGE_DUCKDB_KILLS says.
fn duckdb_kills() -> u64 {
    const KILLS: u64 = 6;
    let number = std::env::var("TONNAGE_DUCKDB_KILLS");
    number.map_or(KILLS, |number| {
        number.parse().expect("TONNAGE_DUCKDB_KILLS is a number")
    })
}

/// Nobody can look at the file while the process has it, so kills come at any time, and after each one what is in the table is
/// what the ledger says.
fn kills_of_duckdb(mode: Mode) {
    let (database, mut chance) = (Database::duckdb(), Chance::new());
    let events = Events::generate(mode, LARGE, &mut chance);
    events.prepare(&database);
    let kills = duckdb_kills();
    // So slow that the last kill comes before the end, and fast enough for each attempt to commit something.
    let rate = format!("{}/s", (events.rows / (2 * kills)).max(400));
    let mut advanced = 0;
    for kill in 1..=kills {
        let before = handled(&database);
        let mut command = events.load(&database.url());
        command.args([
            "--resume",
            "--rate",
            &rate,
            "--jobs",
            chance.one(&["1", "2", "3"]),
        ]);
        command.args(["--batch-rows", chance.one(&["17", "60", "150", "400"])]);
        command.args(["--method", chance.one(&["array", "native", "native"])]);
        let running = Running::start(&mut command);
        sleep(Duration::from_micros(chance.below(2_500_000)));
        let ended = running.kill();
        assert_eq!(
            ended.status.signal(),
            Some(SIGKILL),
            "attempt {kill} ended by itself:\n{}",
            ended.stderr
        );
        let now = handled(&database);
        assert!(
            now >= before,
            "attempt {kill} has lost rows: {now} after {before}"
        );
        advanced += u64::from(now > before);
        if mode == Mode::Insert {
            let written = database.number("SELECT coalesce(sum(written), 0) FROM tonnage_slots");
            let there = database.number("SELECT count(*) FROM events");
            assert_eq!(
                there,
                Some(written.unwrap_or(0)),
                "attempt {kill}: rows in the table, and in the ledger"
            );
        }
    }
    assert!(
        advanced >= kills / 3,
        "only {advanced} of {kills} attempts got on"
    );
    eprintln!("{advanced} of {kills} attempts got on");
    let account = events.directory.path().join("report.json");
    let mut command = events.load(&database.url());
    Running::start(command.arg("--resume").arg("--report").arg(&account))
        .wait()
        .expect(3);
    events.check(&database);
    let last = report(&account);
    assert_eq!(
        (count(&last, "/rows/read"), count(&last, "/rows/unfinished")),
        (events.rows, 0)
    );
    let mut command = events.load(&database.url());
    let ended = Running::start(command.arg("--resume").arg("--report").arg(&account)).wait();
    assert_eq!(report(&account)["state"], "nothing to do", "{}", ended.stderr);
    events.check(&database);
}

fn twenty_kills(database: &Database, mode: Mode) {
    let mut chance = Chance::new();
    let events = Events::generate(mode, LARGE, &mut chance);
    events.prepare(database);
    let mut advanced = 0;
    for kill in 1..=KILLS {
        let before = handled(database);
        let mut command = events.load(&database.url());
        vary(command.arg("--resume"), database, mode, &mut chance);
        // So slow that the kill comes before the end, however late this process is given its turn.
        let mut running = Running::start(command.args(["--rate", "4k/s"]));
        if kill % 4 == 0 {
            // Also while it connects, takes the run over or mends the rejects file.
            sleep(Duration::from_micros(chance.below(60_000)));
        } else {
            let goal = before + 1 + chance.below(events.rows / KILLS / 2);
            while handled(database) < goal && !running.has_ended() {
                sleep(Duration::from_micros(chance.below(2_000)));
            }
        }
        let ended = running.kill();
        // The last attempt proves that the run was unfinished at every kill: it finishes it.
        let signal = ended.status.signal();
        assert_eq!(
            signal,
            Some(SIGKILL),
            "attempt {kill} ended by itself:\n{}",
            ended.stderr
        );
        advanced += u64::from(handled(database) > before);
    }
    assert!(
        advanced >= KILLS / 2,
        "only {advanced} of {KILLS} attempts got on"
    );

    let account = events.directory.path().join("report.json");
    let mut command = events.load(&database.url());
    vary(
        command.arg("--resume").arg("--report").arg(&account),
        database,
        mode,
        &mut chance,
    );
    Running::start(&mut command).wait().expect(3);
    let rejects = events.check(database);

    let last = report(&account);
    assert_eq!(last["state"], "finished");
    assert_eq!(count(&last, "/rows/read"), events.rows);
    assert_eq!(count(&last, "/rows/unfinished"), 0);
    assert!(count(&last, "/rows/skipped/resumed") > 0);
    let runs = database.rows(
        "SELECT finished IS NOT NULL AND epoch > 10, written + skipped + rejected, rejected FROM tonnage_runs",
    );
    let [run] = runs.as_slice() else {
        panic!("all attempts are one run: {runs:?}");
    };
    let truth = run[0].as_deref();
    assert!(
        matches!(truth, Some("t" | "1")),
        "finished, and taken over at every attempt: {run:?}"
    );
    assert_eq!(run[1], Some(events.rows.to_string()), "rows in the ledger");
    assert_eq!(run[2], Some(rejects.to_string()), "rejects in the ledger");

    // One more time there is nothing to do, and nothing is done.
    let mut command = events.load(&database.url());
    let ended = Running::start(command.arg("--resume").arg("--report").arg(&account)).wait();
    assert_eq!(report(&account)["state"], "nothing to do", "{}", ended.stderr);
    events.check(database);
}

#[test]
fn a_run_that_is_taken_over_stops_and_the_table_is_exact() {
    for database in Database::all() {
        let mut chance = Chance::new();
        let events = Events::generate(Mode::Insert, LARGE, &mut chance);
        events.prepare(&database);
        let mut first = events.load(&database.url());
        // So slow that the other one comes before its end.
        let slowly = ["--batch-rows", "10", "--jobs", "2", "--rate", "2k/s"];
        let mut first = Running::start(first.args(slowly));
        while handled(&database) == 0 {
            assert!(!first.has_ended(), "{}", first.wait().stderr);
            sleep(Duration::from_millis(1));
        }
        let mut second = events.load(&database.url());
        let second = Running::start(second.arg("--resume"));
        let first = first.wait();
        first.expect(1);
        assert!(
            first
                .stderr
                .contains("error: another process has taken this run over"),
            "{}: {}",
            database.name(),
            first.stderr
        );
        second.wait().expect(3);
        events.check(&database);
    }
}

#[test]
fn of_two_starts_at_once_one_is_refused() {
    for database in Database::all() {
        let mut chance = Chance::new();
        let events = Events::generate(Mode::Insert, LARGE, &mut chance);
        events.prepare(&database);
        let rounds = 6;
        for round in 1..=rounds {
            // Whoever comes late finds the other one at work.
            let slowly = ["--batch-rows", "10", "--rate", "4k/s"];
            let start = || Running::start(events.load(&database.url()).args(slowly));
            let mut rivals = [start(), start()];
            while !rivals.iter_mut().any(Running::has_ended) {
                sleep(Duration::from_millis(1));
            }
            let [mut first, second] = rivals;
            let (refused, other) = match first.has_ended() {
                true => (first, second),
                false => (second, first),
            };
            let refused = refused.wait();
            assert!(
                refused.stderr.contains("unfinished") && refused.stderr.contains("--resume"),
                "{} round {round}: {}",
                database.name(),
                refused.stderr
            );
            if round == rounds {
                other.wait().expect(3);
                events.check(&database);
            } else {
                other.kill();
                let _ = std::fs::remove_file(events.rejects());
                database.until_alone();
                database.run("DELETE FROM tonnage_slots; DELETE FROM tonnage_runs; DELETE FROM events");
            }
        }
    }
}
