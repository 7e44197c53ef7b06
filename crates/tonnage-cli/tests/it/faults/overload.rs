//! A server that takes less than it is offered: no connections, no time, no locks. The load goes on with what it gets, or
//! ends with an error that says what was missing, and its account is exact.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::sleep,
    time::Duration,
};

use serde_json::Value;
use tokio_postgres::{Client, NoTls};

use super::servers::Cluster;
use crate::{
    process::{Ended, Running, count, report, tonnage},
    support::{Database, Place},
};

const ROWS: u64 = 2_000;
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A server with a table, and a role that is nobody special.
struct Crowded {
    cluster: Cluster,
    place: Place,
}

impl Crowded {
    fn new(sql: &str) -> Self {
        let cluster = Cluster::start("");
        cluster.query(
            "postgres",
            &format!(
                "CREATE TABLE items (id integer PRIMARY KEY, quantity integer NOT NULL, note text); \
                 CREATE ROLE loader LOGIN; GRANT ALL ON SCHEMA public TO loader; \
                 GRANT ALL ON items TO loader; {sql}"
            ),
        );
        let place = Place::with(Database::Sqlite, "", &[]);
        let lines = (0..ROWS).map(|id| format!("{id},{},note {id}\n", id * 7));
        place.write(
            "items.csv",
            format!("id,quantity,note\n{}", lines.collect::<String>()),
        );
        Self { cluster, place }
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let url = self.cluster.url("postgres").replace("tonnage@", "loader@");
        let mut command = tonnage();
        command
            .current_dir(self.place.path(""))
            .arg("load")
            .arg("items.csv");
        command.args([url.as_str(), "-t", "items", "--report", "report.json"]);
        Running::start(command.args(arguments))
    }

    fn load(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).wait()
    }

    fn report(&self) -> Value {
        report(&self.place.path("report.json"))
    }

    /// The first value of a query; empty where there is none.
    fn query(&self, sql: &str) -> String {
        let rows = self.cluster.query("postgres", sql);
        let first = rows.into_iter().next().and_then(|row| row.into_iter().next());
        first.flatten().unwrap_or_default()
    }

    /// Every row is there as the file has it.
    #[track_caller]
    fn check_rows(&self) {
        let found = self.query(
            "SELECT count(*) || ' ' || count(*) FILTER (WHERE quantity = id * 7 AND note = 'note ' || id) FROM items",
        );
        assert_eq!(found, format!("{ROWS} {ROWS}"));
    }

    /// The same, by one run, which is finished.
    #[track_caller]
    fn check(&self) {
        self.check_rows();
        let runs =
            "SELECT count(*) || ' ' || sum(written + skipped) FROM tonnage_runs WHERE finished IS NOT NULL";
        assert_eq!(self.query(runs), format!("1 {ROWS}"));
    }

    /// A session of somebody else's that has done something and does no more.
    fn session(&self, sql: &str) -> (tokio::runtime::Runtime, Client) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let url = self.cluster.url("postgres");
        let (client, connection) = runtime
            .block_on(tokio_postgres::connect(&url, NoTls))
            .expect("the server answers");
        runtime.spawn(connection);
        runtime.block_on(client.batch_execute(sql)).expect("it runs");
        (runtime, client)
    }

    /// Waits until somebody waits for a lock.
    fn until_locked_out(&self, running: &mut Running) {
        let waiting = "SELECT 1 FROM pg_locks WHERE NOT granted";
        while self.query(waiting).is_empty() {
            assert!(!running.has_ended(), "it ended without waiting");
            sleep(LOOK);
        }
    }
}

#[test]
fn with_fewer_connections_than_jobs_a_load_goes_on_with_those() {
    let crowded = Crowded::new("ALTER ROLE loader CONNECTION LIMIT 3");
    crowded
        .load(&["--jobs", "8", "--batch-rows", "20", "--batch-bytes", "4KiB"])
        .expect(0);
    crowded.check();
}

#[test]
fn without_a_connection_a_load_says_so_and_a_resume_goes_on() {
    let crowded = Crowded::new("ALTER ROLE loader CONNECTION LIMIT 0");
    let ended = crowded.load(&[]);
    ended.expect(1);
    assert!(ended.stderr.contains("too many connections"), "{}", ended.stderr);
    crowded.query("ALTER ROLE loader CONNECTION LIMIT -1");
    crowded.load(&["--resume"]).expect(0);
    crowded.check();
}

#[test]
fn writes_that_take_too_long_become_smaller() {
    // A row takes 2 ms, so a hundred take longer than a statement may.
    let crowded = Crowded::new(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN PERFORM pg_sleep(0.002); RETURN NEW; END'; \
         CREATE TRIGGER slow BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION slow(); \
         ALTER ROLE loader SET statement_timeout = '200ms'",
    );
    for method in ["native", "array"] {
        crowded.query("TRUNCATE items");
        let ended = crowded.load(&["--method", method, "--jobs", "4", "--restart"]);
        match ended.status.code() {
            Some(0) => assert_eq!(count(&crowded.report(), "/rows/written"), ROWS),
            // A machine so slow that not even single rows come through.
            _ => assert!(ended.stderr.contains("timeout"), "{}", ended.stderr),
        }
        let written = count(&crowded.report(), "/rows/written").to_string();
        assert_eq!(
            crowded.query("SELECT count(*) FROM items"),
            written,
            "the account is exact"
        );
    }
}

#[test]
fn a_lock_that_is_given_back_is_waited_for() {
    let crowded = Crowded::new("");
    let (runtime, client) = crowded.session("BEGIN; LOCK TABLE items IN SHARE MODE");
    let mut running = crowded.start(&["--jobs", "3"]);
    crowded.until_locked_out(&mut running);
    runtime
        .block_on(client.batch_execute("COMMIT"))
        .expect("it commits");
    running.wait().expect(0);
    crowded.check();
}

#[test]
fn a_lock_that_is_kept_ends_the_load_and_a_resume_goes_on() {
    let crowded = Crowded::new("ALTER ROLE loader SET lock_timeout = '20ms'");
    // The last of the rows is taken, so that others come through.
    let last = ROWS - 1;
    let keep = format!("BEGIN; INSERT INTO items VALUES ({last}, 0, '')");
    let (runtime, client) = crowded.session(&keep);
    let ended = crowded.load(&["--batch-rows", "100", "--jobs", "2"]);
    ended.expect(1);
    assert!(ended.stderr.contains("lock timeout"), "{}", ended.stderr);
    assert!(ended.stderr.contains("--resume"), "{}", ended.stderr);
    let told = crowded.report();
    let written = count(&told, "/rows/written");
    assert_eq!(
        written + count(&told, "/rows/unfinished"),
        count(&told, "/rows/read")
    );
    assert_eq!(crowded.query("SELECT count(*) FROM items"), written.to_string());
    runtime
        .block_on(client.batch_execute("ROLLBACK"))
        .expect("it is undone");
    crowded.load(&["--resume", "--jobs", "3"]).expect(0);
    crowded.check();
}

#[test]
fn another_writer_of_the_same_keys_in_another_order_costs_nothing() {
    let before = format!("INSERT INTO items SELECT id, 0, '' FROM generate_series(0, {ROWS} - 1) id");
    let crowded = Crowded::new(&before);
    let done = Arc::new(AtomicBool::new(false));
    let other = {
        let (url, done) = (crowded.cluster.url("postgres"), done.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&url, NoTls)
                    .await
                    .expect("the server answers");
                tokio::spawn(connection);
                let mut last = ROWS as i32 - 1;
                while !done.load(Ordering::SeqCst) {
                    // It may be the one that a deadlock is resolved by.
                    let _ = client.batch_execute("BEGIN").await;
                    for id in (last - 60..last).rev().step_by(20) {
                        let touch = format!("UPDATE items SET quantity = quantity WHERE id = {}", id.max(0));
                        if client.batch_execute(&touch).await.is_err() {
                            break;
                        }
                    }
                    let _ = client.batch_execute("COMMIT").await;
                    last = if last < 60 { ROWS as i32 - 1 } else { last - 37 };
                }
            });
        })
    };
    for method in ["array", "native"] {
        let arguments = ["--mode", "upsert", "--method", method, "--batch-rows", "90"];
        let ended = crowded.load(&[arguments.as_slice(), &["--jobs", "4", "--restart"]].concat());
        ended.expect(0);
        assert_eq!(count(&crowded.report(), "/rows/written"), ROWS);
        crowded.check_rows();
    }
    done.store(true, Ordering::SeqCst);
    other.join().expect("the other one ends");
    let deadlocks = crowded.query("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'");
    eprintln!("{deadlocks} deadlocks");
}
