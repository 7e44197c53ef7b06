//! A server that takes less than it is offered: no connections, no time, no locks. The load goes on with what it gets, or
//! ends with an error that says what was missing, and its account is exact.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use mysql_async::{Conn, prelude::Queryable};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use super::{
    servers::{Cluster, Maria, Server},
    until,
};
use crate::{
    process::{Ended, Running, count, report, tonnage},
    support::{Database, TestDatabase},
};

const ROWS: u64 = 2_000;
/// The fewest connections that MariaDB can be limited to.
const CONNECTIONS_MIN: usize = 10;

/// A server with a table, and an account, `loader`, that is nobody special.
struct Crowded {
    server: Server,
    place: TestDatabase,
}

/// A session of somebody else's.
enum Session {
    Postgres(Runtime, Client),
    MariaDb(Runtime, Conn),
}

impl Session {
    fn run(&mut self, sql: &str) -> Result<(), String> {
        match self {
            Self::Postgres(runtime, client) => {
                let ran = runtime.block_on(client.batch_execute(sql));
                ran.map_err(|error| format!("{sql}: {error:?}"))
            }
            Self::MariaDb(runtime, conn) => {
                let ran = runtime.block_on(conn.query_drop(sql));
                ran.map_err(|error| format!("{sql}: {error:?}"))
            }
        }
    }

    /// Begins a transaction that has inserted a row.
    fn begin_with(&mut self, id: u64) {
        self.run("BEGIN").expect("it begins");
        self.insert(id).expect("it inserts");
    }

    fn insert(&mut self, id: u64) -> Result<(), String> {
        self.run(&format!("INSERT INTO items VALUES ({id}, 0, '')"))
    }
}

impl Crowded {
    fn postgres() -> Self {
        let crowded = Self::on(Server::Postgres(Cluster::start("")));
        crowded.query("CREATE ROLE loader LOGIN; GRANT ALL ON SCHEMA public TO loader");
        crowded
    }

    fn mariadb() -> Self {
        let crowded = Self::on(Server::MariaDb(Maria::start()));
        crowded.query("CREATE USER loader@'%' IDENTIFIED BY 'loader'");
        crowded.query("GRANT ALL ON tonnage.* TO loader@'%'");
        crowded
    }

    fn on(server: Server) -> Self {
        let place = TestDatabase::with(Database::Sqlite, "", &[]);
        let lines = (0..ROWS).map(|id| format!("{id},{},note {id}\n", id * 7));
        place.write(
            "items.csv",
            format!("id,quantity,note\n{}", lines.collect::<String>()),
        );
        Self { server, place }
    }

    /// Limits nothing, and has an empty table and no ledger.
    fn begin_anew(&self) {
        let limits: &[&str] = match self.server {
            Server::Postgres(_) => &[
                "ALTER ROLE loader RESET ALL",
                "ALTER ROLE loader CONNECTION LIMIT -1",
            ],
            Server::MariaDb(_) => &[
                "SET GLOBAL max_connections = 151",
                "SET GLOBAL innodb_lock_wait_timeout = 50",
                "ALTER USER loader@'%' WITH MAX_STATEMENT_TIME 0",
            ],
        };
        for sql in limits {
            self.query(sql);
        }
        self.query("DROP TABLE IF EXISTS items, tonnage_inputs, tonnage_slots, tonnage_runs");
        self.query("CREATE TABLE items (id integer PRIMARY KEY, quantity integer NOT NULL, note text)");
        if let Server::Postgres(_) = self.server {
            self.query("GRANT ALL ON items TO loader");
        }
    }

    /// Lets `loader` have so many connections and no more, as long as the sessions that come back are there.
    fn leave_connections(&self, connections: usize) -> Vec<Session> {
        match &self.server {
            Server::Postgres(_) => {
                self.query(&format!("ALTER ROLE loader CONNECTION LIMIT {connections}"));
                Vec::new()
            }
            Server::MariaDb(_) => {
                let others: Vec<_> = (connections..CONNECTIONS_MIN).map(|_| self.session()).collect();
                self.query(&format!("SET GLOBAL max_connections = {CONNECTIONS_MIN}"));
                // Who asks is one more.
                let connected = "SELECT variable_value FROM information_schema.global_status \
                                 WHERE variable_name = 'Threads_connected'";
                let wanted = (others.len() + 1).to_string();
                until("others are connected, and nobody else", || {
                    self.query(connected) == wanted
                });
                others
            }
        }
    }

    /// Has an insert take 2 ms a row, and a statement of `loader` no more than 200 ms.
    fn slow_down(&self) {
        let statements: &[&str] = match self.server {
            Server::Postgres(_) => &[
                "CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN PERFORM pg_sleep(0.002); RETURN NEW; END'",
                "CREATE TRIGGER slow BEFORE INSERT ON items FOR EACH ROW EXECUTE FUNCTION slow()",
                "ALTER ROLE loader SET statement_timeout = '200ms'",
            ],
            Server::MariaDb(_) => &[
                "CREATE TRIGGER slow BEFORE INSERT ON items FOR EACH ROW DO SLEEP(0.002)",
                "ALTER USER loader@'%' WITH MAX_STATEMENT_TIME 0.2",
            ],
        };
        for sql in statements {
            self.query(sql);
        }
    }

    /// Has `loader` wait for a lock no longer than that; MariaDB counts in seconds.
    fn bound_lock_waits(&self) {
        self.query(match self.server {
            Server::Postgres(_) => "ALTER ROLE loader SET lock_timeout = '20ms'",
            Server::MariaDb(_) => "SET GLOBAL innodb_lock_wait_timeout = 1",
        });
    }

    /// Waits until so many sessions wait for others' transactions.
    fn until_waiting(&self, sessions: u64, running: &mut Running) {
        let waiting = match self.server {
            Server::Postgres(_) => {
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
            }
            // Not of innodb_trx: who reads that oftener than every 100 ms reads the same again and again.
            Server::MariaDb(_) => {
                "SELECT variable_value FROM information_schema.global_status \
                 WHERE variable_name = 'Innodb_row_lock_current_waits'"
            }
        };
        until("it waits for a lock", || {
            let found = self.query(waiting).parse::<u64>().expect("a number");
            assert!(
                found >= sessions || !running.has_ended(),
                "it ended without waiting"
            );
            found >= sessions
        });
    }

    /// Has the server resolve a deadlock by the load, and a session that may be in one with it.
    fn sacrifice_the_load(&self) -> Session {
        let mut other = self.session();
        let statements: &[&str] = match self.server {
            // It is resolved by the first to look for one.
            Server::Postgres(_) => {
                self.query("ALTER ROLE loader SET deadlock_timeout = '10ms'");
                &["SET deadlock_timeout = '1h'", "BEGIN"]
            }
            // It is resolved by the one that has changed less.
            Server::MariaDb(_) => {
                self.query("CREATE OR REPLACE TABLE weights (id integer PRIMARY KEY)");
                &["BEGIN", "INSERT INTO weights SELECT seq FROM seq_1_to_10000"]
            }
        };
        for sql in statements {
            other.run(sql).expect("it may do that");
        }
        other
    }

    /// How many deadlocks there were.
    fn deadlocks(&self) -> String {
        self.query(match self.server {
            Server::Postgres(_) => "SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'",
            Server::MariaDb(_) => {
                "SELECT variable_value FROM information_schema.global_status \
                 WHERE variable_name = 'Innodb_deadlocks'"
            }
        })
    }

    /// The ways of an insert, and of an upsert, of many rows at once.
    fn methods(&self) -> ([&'static str; 2], [&'static str; 2]) {
        match self.server {
            Server::Postgres(_) => (["native", "array"], ["array", "native"]),
            Server::MariaDb(_) => (["native", "array"], ["array", "batch"]),
        }
    }

    fn session(&self) -> Session {
        let runtime = Runtime::new().expect("a runtime");
        match &self.server {
            Server::Postgres(cluster) => {
                let url = cluster.url("postgres");
                let connecting = tokio_postgres::connect(&url, NoTls);
                let (client, connection) = runtime.block_on(connecting).expect("the server answers");
                runtime.spawn(connection);
                Session::Postgres(runtime, client)
            }
            Server::MariaDb(maria) => {
                let conn = runtime.block_on(Conn::from_url(maria.url()));
                Session::MariaDb(runtime, conn.expect("the server answers"))
            }
        }
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let url = match &self.server {
            Server::Postgres(cluster) => cluster.url("postgres").replace("tonnage@", "loader@"),
            Server::MariaDb(maria) => format!(
                "mariadb://loader:loader@{}/tonnage?sslmode=disable",
                maria.address()
            ),
        };
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
        let rows = match &self.server {
            Server::Postgres(cluster) => cluster.query("postgres", sql),
            Server::MariaDb(maria) => {
                let mut answered = maria.try_query(sql);
                let is_refused = |answered: &Result<_, String>| {
                    let refused = answered.as_ref().err();
                    refused.is_some_and(|error| error.contains("Too many connections"))
                };
                // Who has asked before may take a while to be gone.
                until("there is room for one more connection", || {
                    if is_refused(&answered) {
                        answered = maria.try_query(sql);
                    }
                    !is_refused(&answered)
                });
                answered.unwrap_or_else(|error| panic!("{sql}: {error}"))
            }
        };
        let first = rows.into_iter().next().and_then(|row| row.into_iter().next());
        first.flatten().unwrap_or_default()
    }

    /// Every row is there as the file has it.
    #[track_caller]
    fn check_rows(&self) {
        let is_right = "CASE WHEN quantity = id * 7 AND note = concat('note ', id) THEN 1 ELSE 0 END";
        let found = self.query(&format!(
            "SELECT concat(count(*), ' ', sum({is_right})) FROM items"
        ));
        assert_eq!(found, format!("{ROWS} {ROWS}"));
    }

    /// The same, by one run, which is finished.
    #[track_caller]
    fn check(&self) {
        self.check_rows();
        let runs = "SELECT concat(count(*), ' ', sum(written + skipped)) FROM tonnage_runs \
                    WHERE finished IS NOT NULL";
        assert_eq!(self.query(runs), format!("1 {ROWS}"));
    }
}

/// A name, and what is looked at.
type Case = (&'static str, fn(&Crowded));

/// What a load may meet.
const CASES: &[Case] = &[
    ("fewer connections than jobs", with_fewer_connections_than_jobs),
    ("no connection", without_a_connection),
    ("statements that may not take long", writes_that_take_too_long),
    ("a lock that is given back", a_lock_that_is_given_back),
    ("a lock that is kept", a_lock_that_is_kept),
    ("a deadlock", a_deadlock_that_the_load_loses),
    ("another writer of the same keys", another_writer_of_the_same_keys),
];

fn each_of_them(crowded: &Crowded) {
    for (name, case) in CASES {
        eprintln!("{name}");
        crowded.begin_anew();
        case(crowded);
    }
}

#[test]
fn postgres_takes_less_than_it_is_offered() {
    each_of_them(&Crowded::postgres());
}

#[test]
fn mariadb_takes_less_than_it_is_offered() {
    each_of_them(&Crowded::mariadb());
}

/// It goes on with those.
fn with_fewer_connections_than_jobs(crowded: &Crowded) {
    let _others = crowded.leave_connections(3);
    crowded
        .load(&["--jobs", "8", "--batch-rows", "20", "--batch-bytes", "4KiB"])
        .expect(0);
    crowded.check();
}

/// It says so, and a resume goes on.
fn without_a_connection(crowded: &Crowded) {
    let others = crowded.leave_connections(0);
    let ended = crowded.load(&[]);
    ended.expect(1);
    assert!(
        ended.stderr.to_lowercase().contains("too many connections"),
        "{}",
        ended.stderr
    );
    drop(others);
    crowded.begin_anew();
    crowded.load(&["--resume"]).expect(0);
    crowded.check();
}

/// They become smaller.
fn writes_that_take_too_long(crowded: &Crowded) {
    // So that the ledger is there.
    crowded.load(&["--limit", "1"]).expect(0);
    crowded.slow_down();
    // A hundred rows take longer than a statement may.
    for method in crowded.methods().0 {
        crowded.query("DELETE FROM items");
        let path = crowded.place.path("report.json");
        let _ = std::fs::remove_file(&path);
        let ended = crowded.load(&["--method", method, "--jobs", "4", "--restart"]);
        match ended.status.code() {
            Some(0) => {
                let report = crowded.report();
                assert_eq!(count(&report, "/rows/written"), ROWS);
                assert!(count(&report, "/overload/writes") > 0, "{report:#}");
            }
            // A machine so slow that not even single rows come through, or what the ledger needs.
            _ => assert!(
                ["timeout", "max_statement_time"]
                    .iter()
                    .any(|limit| ended.stderr.contains(limit)),
                "{}",
                ended.stderr
            ),
        }
        let written = match path.exists() {
            true => count(&crowded.report(), "/rows/written"),
            false => 0,
        };
        let found = crowded.query("SELECT count(*) FROM items");
        assert_eq!(found, written.to_string(), "the account is exact");
    }
}

/// It is waited for.
fn a_lock_that_is_given_back(crowded: &Crowded) {
    let mut other = crowded.session();
    other.begin_with(ROWS / 2);
    let mut running = crowded.start(&["--jobs", "3"]);
    crowded.until_waiting(1, &mut running);
    other.run("ROLLBACK").expect("it is undone");
    running.wait().expect(0);
    crowded.check();
}

/// It ends the load, and a resume goes on.
fn a_lock_that_is_kept(crowded: &Crowded) {
    crowded.bound_lock_waits();
    let mut other = crowded.session();
    // The last of the rows is taken, so that others come through.
    other.begin_with(ROWS - 1);
    let ended = crowded.load(&["--batch-rows", "25", "--jobs", "2"]);
    ended.expect(1);
    let said = ended.stderr.to_lowercase();
    assert!(
        said.contains("lock") && said.contains("timeout"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("--resume"), "{}", ended.stderr);
    let told = crowded.report();
    let written = count(&told, "/rows/written");
    assert_eq!(
        written + count(&told, "/rows/unfinished"),
        count(&told, "/rows/read")
    );
    assert_eq!(crowded.query("SELECT count(*) FROM items"), written.to_string());
    other.run("ROLLBACK").expect("it is undone");
    crowded.load(&["--resume", "--jobs", "3"]).expect(0);
    crowded.check();
}

/// It is tried again, and costs nothing. The load has inserted row 0 and waits for row 20, which somebody else has
/// inserted. Meanwhile another session, which has inserted row 40, comes to wait for row 0. Once row 20 is taken back
/// the load comes to row 40: now each of them waits for the other.
fn a_deadlock_that_the_load_loses(crowded: &Crowded) {
    for method in crowded.methods().0 {
        crowded.begin_anew();
        let mut gate = crowded.session();
        gate.begin_with(20);
        let mut other = crowded.sacrifice_the_load();
        other.insert(40).expect("it inserts");
        let mut running = crowded.start(&["--jobs", "1", "--batch-rows", "2000", "--method", method]);
        crowded.until_waiting(1, &mut running);
        let waiting = std::thread::spawn(move || {
            let first = other.insert(0);
            // From now on nobody is in the load's way.
            (first, other.run("ROLLBACK"))
        });
        crowded.until_waiting(2, &mut running);
        gate.run("ROLLBACK").expect("it is undone");
        let (first, undone) = waiting.join().expect("the other one ends");
        first.expect("the deadlock is not resolved by the other one");
        undone.expect("it is undone");
        running.wait().expect(0);
        crowded.check();
        let told = crowded.report();
        assert_eq!(count(&told, "/rows/written"), ROWS, "{told:#}");
        // Where the other one is slow to undo, the load may meet a second deadlock when it tries again.
        assert!(count(&told, "/overload/writes") > 0, "{told:#}");
        let said = told["overload"]["error"].as_str().map(str::to_lowercase);
        assert!(said.is_some_and(|said| said.contains("deadlock")), "{told:#}");
    }
}

/// In another order than the load's, so that they meet in deadlocks: these cost nothing.
fn another_writer_of_the_same_keys(crowded: &Crowded) {
    crowded.load(&[]).expect(0);
    for method in crowded.methods().1 {
        crowded.query("UPDATE items SET quantity = 0, note = ''");
        let done = Arc::new(AtomicBool::new(false));
        let other = touching(crowded.session(), done.clone());
        let arguments = ["--mode", "upsert", "--method", method, "--batch-rows", "90"];
        let ended = crowded.load(&[arguments.as_slice(), &["--jobs", "4", "--restart"]].concat());
        done.store(true, Ordering::SeqCst);
        other.join().expect("the other one ends");
        ended.expect(0);
        assert_eq!(count(&crowded.report(), "/rows/written"), ROWS);
        crowded.check_rows();
    }
    eprintln!("{} deadlocks", crowded.deadlocks());
}

/// Touches a few rows at a time in descending order, until it is done.
fn touching(mut session: Session, done: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut last = ROWS - 1;
        while !done.load(Ordering::SeqCst) {
            // It may be the one that a deadlock is resolved by.
            let _ = session.run("BEGIN");
            for id in (last.saturating_sub(60)..last).rev().step_by(20) {
                let touch = format!("UPDATE items SET quantity = quantity WHERE id = {id}");
                if session.run(&touch).is_err() {
                    break;
                }
            }
            let _ = session.run("COMMIT");
            last = if last < 60 { ROWS - 1 } else { last - 37 };
        }
    })
}
