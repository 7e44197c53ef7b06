//! `tonnage ingest` killed under load, and its database with it: every row that was acknowledged as journaled stands in
//! the table once, and none that was not sent.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{JoinHandle, sleep},
    time::Duration,
};

use rusqlite::Connection;

use super::{rounds, servers::Cluster};
use crate::{
    database::Database,
    events::Chance,
    process::{Running, tonnage},
};

const READINGS: &str =
    "CREATE TABLE readings (id integer NOT NULL, device text, value double precision, state text)";
const ROUNDS: u64 = 6;
/// What a life is fed at once, more than any waits for; then a row now and then.
const BURST_ROWS: u64 = 5_000;
const TRICKLE_MILLIS: u64 = 10;
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(1);

/// A database that can be taken away.
trait Fallible {
    fn url(&self) -> String;
    /// Takes it away at once, whatever is under way.
    fn fail(&mut self);
    fn recover(&mut self);
    /// Whether nobody answers while it is away: a journal that was in use opens without it.
    fn is_unreachable(&self) -> bool;
    /// The ids in the table.
    fn ids(&self) -> Vec<u64>;
}

/// An ingest that is fed without end.
struct Load {
    child: Child,
    sent: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
    threads: [JoinHandle<()>; 2],
}

fn command(url: &str, directory: &Path) -> Command {
    let mut command = tonnage();
    let fixed = [
        "-t",
        "readings",
        "--journal",
        "journal",
        "--ack",
        "journaled",
        "--rejects",
        "r.jsonl",
    ];
    command.arg("ingest").arg(url).args(fixed).current_dir(directory);
    command
}

impl Load {
    /// Feeds rows from id `first` on.
    fn start(url: &str, directory: &Path, first: u64, mut chance: Chance) -> Self {
        let drain_age = chance.one(&["1", "20", "1000"]);
        // A smaller journal has its segments prepared sooner; it holds what comes while the database is away.
        let journal_bytes = chance.one(&["64MiB", "1GiB"]);
        let mut child = command(url, directory)
            .args(["--drain-age", drain_age, "--journal-bytes", journal_bytes])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the binary starts");
        let (sent, acknowledged) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut input = child.stdin.take().expect("a pipe to it");
        let output = child.stdout.take().expect("a pipe from it");
        let feeding = {
            let sent = sent.clone();
            std::thread::spawn(move || {
                let mut next = first;
                loop {
                    // So a hundred lives do not fill the smaller journal, which takes no more while the database is away.
                    let (count, pause) = match next - first < BURST_ROWS {
                        true => (chance.below(200) + 1, chance.below(8)),
                        false => (1, TRICKLE_MILLIS),
                    };
                    let lines: String = (next..next + count).map(line).collect();
                    next += count;
                    sent.fetch_add(count, Ordering::SeqCst);
                    // What is killed reads no more.
                    if input.write_all(lines.as_bytes()).is_err() {
                        return;
                    }
                    sleep(Duration::from_millis(pause));
                }
            })
        };
        let counting = {
            let acknowledged = acknowledged.clone();
            std::thread::spawn(move || {
                for _ in BufReader::new(output).lines().map_while(Result::ok) {
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        Self {
            child,
            sent,
            acknowledged,
            threads: [feeding, counting],
        }
    }

    /// Waits until so many more rows are acknowledged.
    fn goes_on(&mut self, rows: u64) {
        let goal = self.acknowledged.load(Ordering::SeqCst) + rows;
        while self.acknowledged.load(Ordering::SeqCst) < goal {
            let ended = self.child.try_wait().expect("the child can be asked");
            assert_eq!(ended, None, "it ended by itself");
            sleep(LOOK);
        }
    }

    /// SIGKILL; how many rows were sent at most, and how many acknowledged.
    fn kill(mut self) -> (u64, u64) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
        self.threads
            .into_iter()
            .for_each(|thread| thread.join().expect("a thread ends"));
        let of = |count: &AtomicU64| count.load(Ordering::SeqCst);
        (of(&self.sent), of(&self.acknowledged))
    }
}

fn line(id: u64) -> String {
    format!(
        "{{\"id\": {id}, \"device\": \"d{}\", \"value\": {id}.5}}\n",
        id % 9
    )
}

/// SIGKILL under load again and again, and the database taken away in half of the rounds. It comes back before the kill,
/// after it, or only when the next life has taken rows without it.
fn killed_under_load(mut database: impl Fallible) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut chance = Chance::new();
    let (mut sent, mut acknowledged) = (0, BTreeSet::new());
    let mut is_away = false;
    let rounds = rounds(ROUNDS);
    for round in 0..rounds {
        let first = sent + 1;
        let mut load = Load::start(&database.url(), directory.path(), first, chance.another());
        if is_away {
            load.goes_on(1 + chance.below(500));
            database.recover();
            is_away = false;
        }
        if round % 2 == 1 {
            load.goes_on(1 + chance.below(500));
            database.fail();
            is_away = true;
            load.goes_on(1 + chance.below(2_000));
            if chance.below(2) == 0 {
                database.recover();
                is_away = false;
                load.goes_on(1 + chance.below(2_000));
            }
        } else if round % 8 == 6 {
            // Also while it connects, takes the run over or replays the journal.
            sleep(Duration::from_micros(chance.below(100_000)));
        } else {
            load.goes_on(1 + chance.below(2_000));
        }
        let (sent_now, acknowledged_now) = load.kill();
        sent += sent_now;
        // Acknowledged in the order in which they were sent.
        acknowledged.extend(first..first + acknowledged_now);
        if is_away && (!database.is_unreachable() || chance.below(2) == 0) {
            database.recover();
            is_away = false;
        }
    }
    if is_away {
        database.recover();
    }
    let mut last = command(&database.url(), directory.path());
    Running::start(last.arg("-q")).wait().expect(0);
    let found = database.ids();
    let distinct: BTreeSet<u64> = found.iter().copied().collect();
    assert_eq!(found.len(), distinct.len(), "a row stands twice");
    let missing: Vec<_> = acknowledged.difference(&distinct).take(5).collect();
    assert!(missing.is_empty(), "{missing:?} are missing");
    assert!(
        distinct.iter().all(|id| (1..=sent).contains(id)),
        "a row was never sent"
    );
    assert!(
        !directory
            .path()
            .join("r.jsonl")
            .metadata()
            .is_ok_and(|file| file.len() > 0)
    );
    eprintln!(
        "{rounds} rounds: {sent} rows sent, {} acknowledged, {} in the table",
        acknowledged.len(),
        found.len()
    );
}

/// A table that somebody else locks: it is away as long.
struct Locked {
    database: Database,
    lock: Option<Connection>,
}

impl Locked {
    fn new(database: Database) -> Self {
        database.run(READINGS);
        Self { database, lock: None }
    }
}

impl Fallible for Locked {
    fn url(&self) -> String {
        self.database.url()
    }

    fn fail(&mut self) {
        let url = self.database.url();
        let Some(path) = url.strip_prefix("sqlite:") else {
            return self.database.run("LOCK TABLES readings WRITE");
        };
        let lock = Connection::open(path).expect("a database file");
        lock.busy_timeout(Duration::from_secs(600))
            .expect("a busy timeout");
        lock.execute_batch("BEGIN IMMEDIATE")
            .expect("the lock is had in its turn");
        self.lock = Some(lock);
    }

    fn recover(&mut self) {
        if self.lock.take().is_none() {
            self.database.run("UNLOCK TABLES");
        }
    }

    fn is_unreachable(&self) -> bool {
        false
    }

    fn ids(&self) -> Vec<u64> {
        numbers(self.database.rows("SELECT id FROM readings"))
    }
}

fn numbers(rows: Vec<crate::database::Row>) -> Vec<u64> {
    let id = |row: crate::database::Row| row[0].as_deref().expect("an id").parse().expect("a number");
    rows.into_iter().map(id).collect()
}

impl Fallible for Cluster {
    fn url(&self) -> String {
        Self::url(self, "postgres")
    }

    fn fail(&mut self) {
        self.kill();
    }

    fn recover(&mut self) {
        self.restart();
    }

    fn is_unreachable(&self) -> bool {
        true
    }

    fn ids(&self) -> Vec<u64> {
        numbers(self.query("postgres", "SELECT id FROM readings"))
    }
}

#[test]
fn killed_under_load_into_sqlite() {
    killed_under_load(Locked::new(Database::sqlite()));
}

#[test]
fn killed_under_load_into_mariadb() {
    killed_under_load(Locked::new(Database::mariadb()));
}

#[test]
fn killed_under_load_into_postgres() {
    let cluster = Cluster::start("");
    cluster.query("postgres", READINGS);
    killed_under_load(cluster);
}
