//! `tonnage ingest` killed under load, after whatever else it has met: every row that was acknowledged as journaled
//! stands in the table once, and none that was not sent.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{JoinHandle, sleep},
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{
    Fault, TIME_MAX, restored, round, rounds, seed,
    servers::{Cluster, Maria, Server},
    tally::{RoundDirectory, Tally},
    target::ProxyChain,
    until,
    wire::Event,
};
use crate::{
    database::{Database, Row},
    events::Chance,
    process::{Running, tonnage},
    proxy::Protocol,
};

const READINGS: &str =
    "CREATE TABLE readings (id integer NOT NULL, device text, value double precision, state text)";
const ROUNDS: u64 = 6;
/// What a life is fed at once, about as much as any waits for; then a row now and then.
const BURST_ROWS: u64 = 5_000;
const TRICKLE_MILLIS: u64 = 10;
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(1);

/// A database that can be taken away.
trait Fallible {
    fn url(&self) -> String;
    /// A way to it that can be cut, and its URL by that way; none where there is no server, or one of others too.
    fn way(&self) -> Option<(&ProxyChain, String)> {
        None
    }
    /// What it is to the buffer that it is taken away.
    fn fault(&self) -> Fault;
    /// Takes it away at once, whatever is under way.
    fn fail(&mut self);
    fn recover(&mut self);
    /// Whether nobody answers while it is away: a journal that was in use opens without it.
    fn is_unreachable(&self) -> bool;
    /// Runs statements, which rows may go on between; what queries among them find.
    fn execute(&self, sql: &str) -> Vec<Row>;
    /// Statements that give the table another name, and its own to an empty one like it.
    fn swap(&self, name: &str) -> String;
    /// Whether a table is known by more than its name.
    fn knows_tables(&self) -> bool;
    /// Keeps what is there now under a name; false if that cannot be had.
    fn save(&self, name: &str, directory: &Path) -> bool;
    /// Puts back what was kept, nobody being connected.
    fn restore(&self, name: &str, directory: &Path);
}

/// An ingest that is fed without end.
struct Load {
    child: Child,
    sent: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
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
    /// Feeds rows from id `first` on to an ingest that meets `fault`, if that is one of its own process.
    fn start(url: &str, directory: &Path, first: u64, fault: Fault, mut chance: Chance) -> Self {
        let drain_age = chance.one(&["1", "20", "1000"]);
        // A smaller journal has its segments prepared sooner; it holds what comes while the database is away.
        let journal_bytes = chance.one(&["64MiB", "1GiB"]);
        let mut ingest = command(url, directory);
        ingest.args(["--drain-age", drain_age, "--journal-bytes", journal_bytes]);
        match fault {
            Fault::Disk => {
                ingest = round::cramped(&ingest, chance.one(&[4, 64, 512, 4_096]));
                ingest.current_dir(directory);
            }
            Fault::Clock => round::at_another_time(&mut ingest, chance.one(&["-3d", "+40d", "-20y"])),
            _ => {}
        }
        let mut child = ingest
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
            threads: vec![feeding, counting],
        }
    }

    /// Waits until so many more rows are acknowledged.
    fn goes_on(&mut self, rows: u64) {
        let goal = self.acknowledged.load(Ordering::SeqCst) + rows;
        let until = Instant::now() + TIME_MAX;
        while self.acknowledged.load(Ordering::SeqCst) < goal {
            let ended = self.child.try_wait().expect("the child can be asked");
            assert_eq!(ended, None, "it ended by itself");
            assert!(Instant::now() < until, "nothing is acknowledged any more");
            sleep(LOOK);
        }
    }

    fn has_ended(&mut self) -> bool {
        let ended = self.child.try_wait().expect("the child can be asked");
        ended.is_some()
    }

    /// SIGKILL; how many rows were sent at most, and how many acknowledged.
    fn kill(mut self) -> (u64, u64) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it can be waited for");
        self.threads
            .drain(..)
            .for_each(|thread| thread.join().expect("a thread ends"));
        let of = |count: &AtomicU64| count.load(Ordering::SeqCst);
        (of(&self.sent), of(&self.acknowledged))
    }
}

impl Drop for Load {
    /// Where a test fails it does not go on.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line(id: u64) -> String {
    format!(
        "{{\"id\": {id}, \"device\": \"d{}\", \"value\": {id}.5}}\n",
        id % 9
    )
}

/// SIGKILL under load again and again, after another fault each time. A database that is taken away comes back before
/// the kill, after it, or only when the next life has taken rows without it.
fn killed_under_load(name: &'static str, database: impl Fallible) {
    let seed = seed().unwrap_or_else(|| Chance::new().next());
    let mut tally = Tally::new(name);
    let run = || Lives::new(database, seed).run(&mut tally);
    if let Err(failure) = catch_unwind(AssertUnwindSafe(run)) {
        eprintln!("{name}: TONNAGE_FAULT_SEED={seed} begins the same again");
        tally.fail_all(seed);
        resume_unwind(failure);
    }
}

/// An ingest's lives, one after another.
struct Lives<D> {
    database: D,
    directory: RoundDirectory,
    chance: Chance,
    sent: u64,
    acknowledged: BTreeSet<u64>,
    is_away: bool,
    /// The table, and those that had its name before.
    tables: Vec<String>,
    /// Columns that were added.
    columns: usize,
}

impl<D: Fallible> Lives<D> {
    fn new(database: D, seed: u64) -> Self {
        Self {
            database,
            directory: RoundDirectory::new(),
            chance: Chance::of(seed),
            sent: 0,
            acknowledged: BTreeSet::new(),
            is_away: false,
            tables: vec!["readings".to_owned()],
            columns: 0,
        }
    }

    fn run(mut self, tally: &mut Tally) {
        let rounds = rounds(ROUNDS);
        for round in 0..rounds {
            let fault = match round % 2 {
                1 => self.database.fault(),
                _ => self.other_fault(),
            };
            self.live(fault);
            let met: &[Fault] = match fault {
                Fault::Kill => &[Fault::Kill],
                other => &[Fault::Kill, other],
            };
            tally.add(met, None);
        }
        if self.is_away {
            self.recover();
        }
        self.check();
        eprintln!(
            "{rounds} rounds: {} rows sent, {} acknowledged",
            self.sent,
            self.acknowledged.len()
        );
    }

    fn other_fault(&mut self) -> Fault {
        use Fault::{Alter, Clock, Commit, Copy, Cut, Disk, Kill, Restore, Second, Stall};
        let faults: &[Fault] = match self.database.way() {
            Some(_) => &[
                Kill, Second, Copy, Disk, Clock, Alter, Restore, Cut, Commit, Stall,
            ],
            None => &[Kill, Second, Copy, Disk, Clock, Alter],
        };
        self.chance.one(faults)
    }

    /// One life, up to its kill.
    fn live(&mut self, fault: Fault) {
        let first = self.sent + 1;
        let passes = matches!(fault, Fault::Cut | Fault::Commit | Fault::Stall);
        // A copy is known once the database has been told of the opening behind it.
        if self.is_away && (passes || matches!(fault, Fault::Copy | Fault::Alter | Fault::Restore)) {
            self.recover();
        }
        let has_copy = fault == Fault::Copy && self.copy_journal();
        let has_backup = fault == Fault::Restore && self.save();
        let url = match self.database.way() {
            Some((_, url)) if passes => url,
            _ => self.database.url(),
        };
        let another = self.chance.another();
        let mut load = Load::start(&url, self.directory.path(), first, fault, another);
        if self.is_away && fault != Fault::Disk {
            load.goes_on(1 + self.chance.below(500));
            self.recover();
        }
        self.meet(fault, &mut load);
        if has_copy {
            self.is_refused("copy");
            load.goes_on(1 + self.chance.below(500));
        }
        let (sent_now, acknowledged_now) = load.kill();
        if has_copy {
            self.restored();
        }
        if has_backup {
            self.put_back();
        }
        self.sent += sent_now;
        // Acknowledged in the order in which they were sent.
        self.acknowledged.extend(first..first + acknowledged_now);
        if let Some((way, _)) = self.database.way() {
            way.release();
        }
        if self.is_away && (!self.database.is_unreachable() || self.chance.below(2) == 0) {
            self.recover();
        }
    }

    /// A copy of the journal as the last life has left it; false where there is none yet.
    fn copy_journal(&self) -> bool {
        let (journal, copy) = (
            self.directory.path().join("journal"),
            self.directory.path().join("copy"),
        );
        if !journal.join("journal.json").exists() {
            return false;
        }
        std::fs::create_dir(&copy).expect("a directory");
        for entry in std::fs::read_dir(&journal).expect("a journal") {
            let entry = entry.expect("a file");
            std::fs::copy(entry.path(), copy.join(entry.file_name())).expect("a copy");
        }
        true
    }

    /// A journal of that name, which was opened elsewhere since, is not gone on with.
    fn is_refused(&self, journal: &str) {
        let mut ingest = tonnage();
        ingest
            .args([
                "ingest",
                &self.database.url(),
                "-t",
                "readings",
                "--journal",
                journal,
            ])
            .args(["--rejects", "r.jsonl"])
            .current_dir(self.directory.path());
        let refused = Running::start(&mut ingest).wait();
        refused.expect(4);
        assert!(
            refused.stderr.contains("may be lost or doubled"),
            "{}",
            refused.stderr
        );
    }

    /// The copy in the place of the journal, as from a backup, is not gone on with either. Then it goes.
    fn restored(&self) {
        let at = |name: &str| self.directory.path().join(name);
        let moved = |from: &str, to: &str| std::fs::rename(at(from), at(to)).expect("it is moved");
        moved("journal", "aside");
        moved("copy", "journal");
        self.is_refused("journal");
        std::fs::remove_dir_all(at("journal")).expect("it is removed");
        moved("aside", "journal");
    }

    /// Keeps the database as the last life has left it; false where it has left none.
    fn save(&self) -> bool {
        let journal = self.directory.path().join("journal/journal.json");
        journal.exists() && self.database.save("older", self.directory.path())
    }

    /// A database from an older backup lacks rows that the journal has given up: that is said, and nothing goes on.
    fn put_back(&self) {
        let directory = self.directory.path();
        assert!(self.database.save("newer", directory));
        self.database.restore("older", directory);
        self.is_refused("journal");
        self.database.restore("newer", directory);
    }

    /// Another table gets the name of the table. A database that tells the two apart gets no row in it, and the ingest ends.
    fn swap(&mut self, load: &mut Load) {
        let name = format!("readings_{}", self.tables.len());
        self.database.execute(&self.database.swap(&name));
        if !self.database.knows_tables() {
            self.tables.push(name);
            return;
        }
        until("the ingest ends", || load.has_ended());
        let found = self.database.execute("SELECT id FROM readings");
        assert_eq!(
            found.len(),
            0,
            "rows went into a table that took the place of another"
        );
        let back = format!("DROP TABLE readings; ALTER TABLE {name} RENAME TO readings");
        self.database.execute(&back);
    }

    /// The table gets a column.
    fn add_column(&mut self) {
        self.columns += 1;
        let add = format!("ALTER TABLE readings ADD COLUMN extra_{} integer", self.columns);
        self.database.execute(&add);
    }

    fn meet(&mut self, fault: Fault, load: &mut Load) {
        if fault == Fault::Alter {
            load.goes_on(1 + self.chance.below(1_000));
            match self.chance.below(2) {
                0 => self.swap(load),
                _ => self.add_column(),
            }
            if !load.has_ended() {
                load.goes_on(1 + self.chance.below(1_000));
            }
            return;
        }
        let chance = &mut self.chance;
        match fault {
            // It may wait for room, which does not come. Other kills come while it connects or replays the journal.
            Fault::Disk => sleep(Duration::from_micros(chance.below(200_000))),
            Fault::Kill if chance.below(4) == 0 => sleep(Duration::from_micros(chance.below(100_000))),
            Fault::Server | Fault::Lock => {
                load.goes_on(1 + chance.below(500));
                self.database.fail();
                self.is_away = true;
                load.goes_on(1 + self.chance.below(2_000));
                if self.chance.below(2) == 0 {
                    self.recover();
                    load.goes_on(1 + self.chance.below(2_000));
                }
            }
            Fault::Copy | Fault::Restore => load.goes_on(1 + chance.below(500)),
            Fault::Second => {
                load.goes_on(1);
                let mut second = command(&self.database.url(), self.directory.path());
                let refused = Running::start(&mut second).wait();
                assert!(
                    refused.stderr.contains("in use by another process"),
                    "{}",
                    refused.stderr
                );
                load.goes_on(1 + chance.below(1_000));
            }
            Fault::Cut | Fault::Commit | Fault::Stall => {
                let (way, _) = self.database.way().expect("a way");
                load.goes_on(1);
                if fault == Fault::Commit {
                    way.proxy.arm_by(1 + chance.below(6), chance.another());
                }
                for _ in 0..1 + chance.below(4) {
                    let time = Duration::from_millis(20 + chance.below(600));
                    let bytes = 1 + chance.below(40_000);
                    match fault {
                        Fault::Cut => way.wire.arm(bytes, Event::Cut),
                        Fault::Stall => way.wire.arm(bytes, Event::Stall(time)),
                        _ => {}
                    }
                    load.goes_on(1 + chance.below(1_000));
                }
            }
            _ => load.goes_on(1 + chance.below(2_000)),
        }
    }

    fn recover(&mut self) {
        self.database.recover();
        self.is_away = false;
    }

    /// The last life ends by itself.
    fn check(&self) {
        let mut last = command(&self.database.url(), self.directory.path());
        Running::start(last.arg("-q")).wait().expect(0);
        let ids = |table: &String| numbers(self.database.execute(&format!("SELECT id FROM {table}")));
        let found: Vec<u64> = self.tables.iter().flat_map(ids).collect();
        let distinct: BTreeSet<u64> = found.iter().copied().collect();
        assert_eq!(found.len(), distinct.len(), "a row stands twice");
        let missing: Vec<_> = self.acknowledged.difference(&distinct).take(5).collect();
        assert!(missing.is_empty(), "{missing:?} are missing");
        assert!(
            distinct.iter().all(|id| (1..=self.sent).contains(id)),
            "a row was never sent"
        );
        let rejects = self.directory.path().join("r.jsonl");
        assert!(!rejects.metadata().is_ok_and(|file| file.len() > 0));
    }
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

    fn fault(&self) -> Fault {
        Fault::Lock
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

    fn execute(&self, sql: &str) -> Vec<Row> {
        if sql.starts_with("SELECT") {
            return self.database.rows(sql);
        }
        self.database.run(sql);
        Vec::new()
    }

    fn swap(&self, name: &str) -> String {
        match self.database.url().starts_with("sqlite:") {
            true => format!("BEGIN IMMEDIATE; ALTER TABLE readings RENAME TO {name}; {READINGS}; COMMIT"),
            false => maria_swap(name),
        }
    }

    fn knows_tables(&self) -> bool {
        self.database.url().starts_with("sqlite:")
    }

    fn save(&self, _: &str, _: &Path) -> bool {
        false
    }

    fn restore(&self, _: &str, _: &Path) {
        unreachable!("nothing was kept");
    }
}

fn maria_swap(name: &str) -> String {
    format!("CREATE TABLE next LIKE readings; RENAME TABLE readings TO {name}, next TO readings")
}

fn numbers(rows: Vec<Row>) -> Vec<u64> {
    let id = |row: Row| row[0].as_deref().expect("an id").parse().expect("a number");
    rows.into_iter().map(id).collect()
}

/// A server of the test's own, and a way to it.
struct Own {
    server: Server,
    way: ProxyChain,
}

impl Own {
    fn new(server: Server, protocol: Protocol) -> Self {
        server.rows(READINGS);
        let way = ProxyChain::to(&server.address(), protocol);
        Self { server, way }
    }
}

impl Fallible for Own {
    fn url(&self) -> String {
        self.server.url()
    }

    fn way(&self) -> Option<(&ProxyChain, String)> {
        let (server, way) = (self.server.address(), format!("127.0.0.1:{}", self.way.wire.port));
        Some((&self.way, self.url().replace(&server, &way)))
    }

    fn fault(&self) -> Fault {
        Fault::Server
    }

    fn fail(&mut self) {
        self.server.kill();
    }

    fn recover(&mut self) {
        self.server.restart();
    }

    fn is_unreachable(&self) -> bool {
        true
    }

    fn execute(&self, sql: &str) -> Vec<Row> {
        sql.split("; ")
            .flat_map(|statement| self.server.rows(statement))
            .collect()
    }

    fn swap(&self, name: &str) -> String {
        match self.server {
            Server::Postgres(_) => {
                format!("ALTER TABLE readings RENAME TO {name}; CREATE TABLE readings (LIKE {name})")
            }
            Server::MariaDb(_) => maria_swap(name),
        }
    }

    fn knows_tables(&self) -> bool {
        matches!(self.server, Server::Postgres(_))
    }

    fn save(&self, name: &str, directory: &Path) -> bool {
        match &self.server {
            Server::Postgres(cluster) => restored::save_rows(cluster, "postgres", &directory.join(name)),
            Server::MariaDb(maria) => restored::dump(maria, &directory.join(name)),
        }
        true
    }

    fn restore(&self, name: &str, directory: &Path) {
        match &self.server {
            Server::Postgres(cluster) => restored::restore_rows(cluster, "postgres", &directory.join(name)),
            Server::MariaDb(maria) => restored::load_dump(maria, &directory.join(name)),
        }
    }
}

#[test]
fn killed_under_load_into_sqlite() {
    killed_under_load("a buffer, into SQLite", Locked::new(Database::sqlite()));
}

#[test]
fn killed_under_load_into_locked_mariadb() {
    killed_under_load(
        "a buffer, into MariaDB (locked)",
        Locked::new(Database::mariadb()),
    );
}

#[test]
fn killed_under_load_into_mariadb() {
    let server = Server::MariaDb(Maria::start());
    killed_under_load("a buffer, into MariaDB", Own::new(server, Protocol::MariaDb));
}

#[test]
fn killed_under_load_into_postgres() {
    let server = Server::Postgres(Cluster::start(""));
    killed_under_load("a buffer, into PostgreSQL", Own::new(server, Protocol::Postgres));
}
