//! The databases that rounds run against, each reached through wires that can be cut, and looked at past them.

use std::{
    collections::BTreeSet,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, types::ValueRef};

use super::{
    scenario::{Constraints, Operation, Scenario},
    servers::{Cluster, Maria},
    wire::Wire,
};
use crate::{
    database::{Row, variable},
    events::Chance,
    keyspace::{Keyspace, cluster},
    process::{Running, tonnage},
    proxy::{Protocol, Proxy},
};

/// See the module.
pub struct Target {
    pub name: &'static str,
    pub(super) kind: Kind,
    /// The way to the server; none where there is no server, or where its clients find their own way.
    pub way: Option<ProxyChain>,
    rounds: u64,
}

/// Two wires, one behind the other.
pub struct ProxyChain {
    pub wire: Wire,
    /// Knows a COMMIT when it sees one.
    pub proxy: Proxy,
}

pub(super) enum Kind {
    Sqlite,
    Postgres {
        cluster: Cluster,
        members: Vec<&'static str>,
        partitions: &'static str,
        /// Whether a crash of the server empties the table.
        unlogged: bool,
    },
    MariaDb(Maria),
    Cassandra {
        keyspace: Box<Keyspace>,
        may_fail: bool,
    },
}

/// What the ledger says of a run.
#[derive(Debug)]
pub struct Run {
    pub finished: bool,
    pub written: u64,
    pub skipped: u64,
    pub rejected: u64,
}

const PARTITIONS: &str = " PARTITION BY HASH (id); \
     CREATE TABLE items_0 PARTITION OF items FOR VALUES WITH (MODULUS 3, REMAINDER 0); \
     CREATE TABLE items_1 PARTITION OF items FOR VALUES WITH (MODULUS 3, REMAINDER 1); \
     CREATE TABLE items_2 PARTITION OF items FOR VALUES WITH (MODULUS 3, REMAINDER 2)";

impl ProxyChain {
    pub fn to(server: &str, protocol: Protocol) -> Self {
        let proxy = Proxy::start(protocol, server, Chance::of(0));
        let wire = Wire::start(&format!("127.0.0.1:{}", proxy.port));
        Self { wire, proxy }
    }

    /// Everything passes from now on.
    pub fn release(&self) {
        self.proxy.arm(0);
        self.wire.release();
    }
}

impl Target {
    pub fn sqlite() -> Self {
        Self::of("SQLite", Kind::Sqlite, None)
    }

    pub fn postgres() -> Self {
        Self::cluster("PostgreSQL", vec!["postgres"], "")
    }

    pub fn partitioned() -> Self {
        Self::cluster("partitioned PostgreSQL", vec!["postgres"], PARTITIONS)
    }

    /// A table that a crash of the server empties.
    pub fn unlogged() -> Self {
        let mut target = Self::cluster("UNLOGGED PostgreSQL", vec!["postgres"], "");
        if let Kind::Postgres { unlogged, .. } = &mut target.kind {
            *unlogged = true;
        }
        target
    }

    pub fn sharded() -> Self {
        let target = Self::cluster("sharded PostgreSQL", vec!["first", "second", "third"], "");
        if let Kind::Postgres { cluster, members, .. } = &target.kind {
            for member in members {
                cluster.query("postgres", &format!("CREATE DATABASE {member}"));
            }
        }
        target
    }

    fn cluster(name: &'static str, members: Vec<&'static str>, partitions: &'static str) -> Self {
        let mut cluster = Cluster::start("");
        tell(name, cluster.mount());
        if let Some(disk) = cluster.disk() {
            let create = format!("CREATE TABLESPACE small LOCATION '{}'", disk.display());
            cluster.query("postgres", &create);
            // The ledger's tables too.
            cluster.query("postgres", "ALTER ROLE tonnage SET default_tablespace = 'small'");
        }
        let way = ProxyChain::to(&cluster.address(), Protocol::Postgres);
        let kind = Kind::Postgres {
            cluster,
            members,
            partitions,
            unlogged: false,
        };
        Self::of(name, kind, Some(way))
    }

    pub fn mariadb() -> Self {
        let maria = Maria::start();
        let way = ProxyChain::to(&maria.address(), Protocol::MariaDb);
        Self::of("MariaDB", Kind::MariaDb(maria), Some(way))
    }

    pub fn mysql() -> Self {
        Self::relative("MySQL 9", "mysql")
    }

    pub fn oceanbase() -> Self {
        Self::relative("OceanBase", "oceanbase")
    }

    /// The way leads to the first node, which fails; the others are reached without one.
    pub fn galera() -> Self {
        Self::relative("Galera", "galera")
    }

    fn relative(name: &'static str, server: &'static str) -> Self {
        let maria = Maria::relative(server);
        let way = ProxyChain::to(&maria.address(), Protocol::MariaDb);
        Self::of(name, Kind::MariaDb(maria), Some(way))
    }

    /// `may_fail` says whether its nodes are nobody else's, so that they can be killed.
    pub fn cassandra(may_fail: bool) -> Self {
        let kind = Kind::Cassandra {
            keyspace: Box::new(Keyspace::new()),
            may_fail,
        };
        Self::of("Cassandra", kind, None)
    }

    fn of(name: &'static str, kind: Kind, way: Option<ProxyChain>) -> Self {
        Self {
            name,
            kind,
            way,
            rounds: 0,
        }
    }

    pub fn operations(&self) -> &'static [Operation] {
        use Operation::{Delete, Exec, Insert, Upsert};
        match self.kind {
            Kind::Cassandra { .. } => &[Insert, Upsert, Delete],
            _ => &[Insert, Exec, Upsert, Delete],
        }
    }

    pub fn constraints(&self) -> Constraints {
        match self.kind {
            Kind::Cassandra { .. } => Constraints::Unknown,
            _ => Constraints::Kept,
        }
    }

    pub fn methods(&self, operation: Operation) -> &'static [&'static str] {
        match (&self.kind, operation) {
            (Kind::Cassandra { .. }, _) => &["array", "batch"],
            (_, Operation::Exec) => &["auto", "batch"],
            (Kind::MariaDb(_), Operation::Delete) if self.is_relative() => &["batch"],
            (Kind::MariaDb(_), Operation::Upsert | Operation::Delete) => &["array", "batch"],
            (Kind::MariaDb(maria), _) if !maria.has_native() => &["array", "batch"],
            _ => &["array", "native", "batch"],
        }
    }

    /// Whether it is of MariaDB's family and no MariaDB by itself: it is not altered, dumped or out of room in rounds.
    pub fn is_relative(&self) -> bool {
        matches!(&self.kind, Kind::MariaDb(maria) if maria.is_relative())
    }

    /// Whether there is a server that [`Target::fail`] takes away.
    pub fn may_fail(&self) -> bool {
        match self.kind {
            Kind::Sqlite => false,
            Kind::Cassandra { may_fail, .. } => may_fail,
            // A seekdb that was killed was seen not to start again for a while.
            Kind::MariaDb(ref maria) => maria.has_native(),
            _ => true,
        }
    }

    /// Whether [`Target::pause`] can have a node stand still.
    pub fn may_pause(&self) -> bool {
        matches!(self.kind, Kind::Cassandra { may_fail: true, .. })
    }

    /// Whether rows are stamped by the clock of who writes them.
    pub fn stamps(&self) -> bool {
        matches!(self.kind, Kind::Cassandra { .. })
    }

    pub(super) fn table(&self) -> String {
        match self.kind {
            // A table that is dropped there takes its time.
            Kind::Cassandra { .. } => format!("items_{}", self.rounds),
            _ => "items".to_owned(),
        }
    }

    pub(super) fn file(scenario: &Scenario) -> PathBuf {
        scenario.directory.path().join("items.db")
    }

    pub(super) fn ledger(scenario: &Scenario) -> PathBuf {
        scenario.directory.path().join("runs.ledger")
    }

    /// Makes an empty table, an empty ledger, and the rows that are there before.
    pub fn prepare(&mut self, scenario: &Scenario) {
        self.make(scenario);
        self.add_before(scenario);
        if let Kind::Postgres { .. } | Kind::MariaDb(_) = self.kind {
            self.execute(scenario, "CREATE TABLE items_before AS SELECT * FROM items");
        }
    }

    /// Makes the rows of the table those that were there before, and has every run forgotten.
    pub fn begin_anew(&self, scenario: &Scenario) {
        for statement in ["TRUNCATE items", "INSERT INTO items SELECT * FROM items_before"] {
            self.execute(scenario, statement);
        }
        let ids = self.ask(scenario, "SELECT run_id FROM tonnage_runs");
        // Over several databases it is one run. Where nothing has begun there is no ledger.
        let ids: BTreeSet<_> = ids.unwrap_or_default().into_iter().flatten().flatten().collect();
        for id in ids {
            let mut forget = tonnage();
            forget.arg("runs");
            self.add_place(&mut forget, &Self::ledger(scenario), scenario);
            Running::start(forget.args(["--forget", &id])).wait().expect(0);
        }
    }

    fn make(&mut self, scenario: &Scenario) {
        self.rounds += 1;
        let columns = |text: &str, integer: &str| {
            format!(
                "CREATE TABLE items (id {integer} PRIMARY KEY, label {text} NOT NULL CHECK (length(label) <= 20), \
                 quantity bigint NOT NULL, amount decimal(12,2) CHECK (amount < 1000000), note text)"
            )
        };
        match &self.kind {
            Kind::Sqlite => {
                let database = Connection::open(Self::file(scenario)).expect("a database file");
                let create = columns("text", "integer");
                database.execute_batch(&create).expect("a table");
            }
            Kind::Postgres {
                cluster,
                members,
                partitions,
                unlogged,
            } => {
                for member in members {
                    let drop = "DROP TABLE IF EXISTS items, aside, items_before, tonnage_inputs, tonnage_unlogged, tonnage_slots, tonnage_runs";
                    let mut create = columns("varchar(20)", "bigint");
                    if *unlogged {
                        create = create.replacen("TABLE", "UNLOGGED TABLE", 1);
                    }
                    cluster.query(member, &format!("{drop}; {create}{partitions}"));
                }
            }
            Kind::MariaDb(maria) => {
                maria.query("DROP TABLE IF EXISTS items, aside, impostor, items_before, tonnage_inputs, tonnage_slots, tonnage_runs");
                maria.query(&columns("varchar(20)", "bigint"));
            }
            Kind::Cassandra { keyspace, .. } => keyspace.run(&format!(
                "CREATE TABLE {} (id bigint PRIMARY KEY, label text, quantity bigint, amount text, note text)",
                self.table()
            )),
        }
    }

    fn add_before(&self, scenario: &Scenario) {
        let Some(before) = scenario.before() else { return };
        let path = scenario.directory.path().join("before.csv");
        std::fs::write(&path, before).expect("a file");
        let mut load = tonnage();
        load.arg("load").arg(&path);
        self.add_place(
            &mut load,
            &scenario.directory.path().join("before.ledger"),
            scenario,
        );
        Running::start(load.args(["-t", &self.table()])).wait().expect(0);
        // The ledger is the round's.
        match &self.kind {
            Kind::Sqlite => {
                let database = Connection::open(Self::file(scenario)).expect("a database file");
                database
                    .execute_batch("DELETE FROM tonnage_runs")
                    .expect("it is finished");
            }
            Kind::Postgres { cluster, members, .. } => {
                for member in members {
                    cluster.query(member, "DELETE FROM tonnage_runs");
                }
            }
            Kind::MariaDb(maria) => {
                maria.query("DELETE FROM tonnage_runs");
            }
            Kind::Cassandra { .. } => {}
        }
    }

    /// The database, or databases, that rows go to, and what belongs to them.
    fn add_place(&self, command: &mut Command, ledger: &Path, scenario: &Scenario) {
        let port = self.way.as_ref().map_or(0, |way| way.wire.port);
        match &self.kind {
            Kind::Sqlite => {
                command.arg(Self::file(scenario));
            }
            Kind::Postgres { members, .. } => {
                for member in members {
                    command.arg(format!(
                        "postgresql://tonnage@127.0.0.1:{port}/{member}?sslmode=disable"
                    ));
                }
                if members.len() > 1 {
                    command.args(["--shard-by", "id"]);
                }
            }
            Kind::MariaDb(maria) => {
                command.arg(format!(
                    "mariadb://tonnage:{}@127.0.0.1:{port}{}/tonnage?sslmode=disable",
                    maria.password(),
                    maria.further()
                ));
            }
            Kind::Cassandra { keyspace, .. } => {
                command.arg(keyspace.bare_url()).arg("--ledger").arg(ledger);
            }
        }
    }

    /// What every attempt at the round's load says.
    pub fn add_load(&self, command: &mut Command, scenario: &Scenario) {
        let update = "update items set quantity = quantity + :more where id = :id";
        match scenario.operation {
            Operation::Exec => command.arg("exec").args(&scenario.files),
            _ => command.arg("load").args(&scenario.files),
        };
        self.add_place(command, &Self::ledger(scenario), scenario);
        match scenario.operation {
            Operation::Exec if scenario.by_key => command.args(["--sql", update, "--key", "id"]),
            Operation::Exec => command.args(["--sql", update]),
            Operation::Insert => command.args(["-t", &self.table()]),
            operation => command.args(["-t", &self.table(), "--key", "id", "--mode", operation.name()]),
        };
        command.args(["--resume", "--rejects"]).arg(scenario.rejects());
    }

    /// Answers of each database.
    pub(super) fn ask(&self, scenario: &Scenario, sql: &str) -> Result<Vec<Row>, String> {
        match &self.kind {
            Kind::Sqlite => sqlite(&Self::file(scenario), sql).map_err(|error| error.to_string()),
            Kind::Postgres { cluster, members, .. } => {
                let mut rows = Vec::new();
                for member in members {
                    rows.extend(cluster.try_query(member, sql)?);
                }
                Ok(rows)
            }
            Kind::MariaDb(maria) => maria.try_query(sql),
            // Its ledger is a file.
            Kind::Cassandra { .. } => sqlite(&Self::ledger(scenario), sql).map_err(|error| error.to_string()),
        }
    }

    /// Runs a statement in every database.
    pub(super) fn execute(&self, scenario: &Scenario, sql: &str) {
        let done = match &self.kind {
            Kind::Sqlite => Connection::open(Self::file(scenario))
                .and_then(|database| {
                    database.busy_timeout(Duration::from_secs(60))?;
                    database.execute_batch(sql)
                })
                .map_err(|error| error.to_string()),
            Kind::Cassandra { keyspace, .. } => {
                keyspace.run(&sql.replace("items", &self.table()));
                Ok(())
            }
            _ => self.ask(scenario, sql).map(|_| ()),
        };
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Rows that the ledger has as handled by an unfinished run; 0 where nobody answers.
    pub fn handled(&self, scenario: &Scenario) -> u64 {
        let sum = "SELECT coalesce(sum(written + skipped + rejected), 0) FROM tonnage_slots";
        let rows = self.ask(scenario, sum).unwrap_or_default();
        rows.iter().map(|row| number(&row[0])).sum()
    }

    /// Runs that the ledger knows; none where there is no ledger.
    pub fn known(&self, scenario: &Scenario) -> usize {
        let runs = self.ask(scenario, "SELECT run_id FROM tonnage_runs");
        runs.map_or(0, |runs| runs.len())
    }

    /// The runs in the ledger; those of several databases one by one.
    pub fn runs(&self, scenario: &Scenario) -> Vec<Run> {
        let runs = "SELECT CASE WHEN finished IS NULL THEN 0 ELSE 1 END, written, skipped, rejected FROM tonnage_runs";
        let rows = self.ask(scenario, runs).expect("the ledger can be read");
        let run = |row: &Row| Run {
            finished: number(&row[0]) == 1,
            written: number(&row[1]),
            skipped: number(&row[2]),
            rejected: number(&row[3]),
        };
        rows.iter().map(run).collect()
    }

    /// The ledger's runs in full, or why they cannot be read.
    pub fn ledger_text(&self, scenario: &Scenario) -> String {
        let found = self.ask(
            scenario,
            "SELECT run_id, identity, epoch, finished, detail FROM tonnage_runs",
        );
        format!("{found:#?}\n")
    }

    /// How many runs the ledgers have if they have one.
    pub fn members(&self) -> usize {
        match &self.kind {
            Kind::Postgres { members, .. } => members.len(),
            _ => 1,
        }
    }

    /// All rows of the table, by their ids.
    pub fn rows(&self, scenario: &Scenario) -> Vec<Row> {
        let all = "SELECT id, label, quantity, amount, note FROM items";
        let mut rows = match &self.kind {
            Kind::Cassandra { keyspace, .. } => keyspace.rows(&all.replace("items", &self.table())),
            Kind::Sqlite => {
                let amount = "CASE WHEN amount IS NOT NULL THEN printf('%.2f', amount) END";
                let all = all.replace("amount", amount);
                self.ask(scenario, &all).expect("the table can be read")
            }
            _ => self.ask(scenario, all).expect("the table can be read"),
        };
        rows.sort_by_key(|row| row[0].as_deref().and_then(|id| id.parse::<i64>().ok()));
        rows
    }

    /// SIGKILL of the server, or of one of its nodes.
    pub fn fail(&mut self) {
        match &mut self.kind {
            Kind::Sqlite => {}
            Kind::Postgres { cluster, .. } => cluster.kill(),
            Kind::MariaDb(maria) => maria.kill(),
            Kind::Cassandra { .. } => shared_cluster("kill", &["3"]),
        }
    }

    /// Whether the table is empty once the server was killed.
    pub fn is_emptied_by_crashes(&self) -> bool {
        matches!(self.kind, Kind::Postgres { unlogged: true, .. })
    }

    /// Rows that the ledger has as written, by whatever run; 0 where there is no ledger.
    pub fn written(&self, scenario: &Scenario) -> u64 {
        let sum = "SELECT coalesce((SELECT sum(written) FROM tonnage_slots), 0) + \
                   coalesce((SELECT sum(written) FROM tonnage_runs), 0)";
        let rows = self.ask(scenario, sum).unwrap_or_default();
        rows.iter().map(|row| number(&row[0])).sum()
    }

    /// Whether the table is on a disk that [`Target::fill_disk`] fills.
    pub fn has_disk(&self) -> bool {
        match &self.kind {
            Kind::Postgres { cluster, .. } => cluster.disk().is_some(),
            _ => false,
        }
    }

    /// Leaves so many KiB free on the server's disk, or all of it.
    pub fn fill_disk(&self, left: Option<u64>) {
        if let Kind::Postgres { cluster, .. } = &self.kind {
            cluster.fill_disk(left);
        }
    }

    /// Starts it again.
    pub fn recover(&mut self) {
        match &mut self.kind {
            Kind::Sqlite => {}
            Kind::Postgres { cluster, .. } => cluster.restart(),
            Kind::MariaDb(maria) => maria.restart(),
            Kind::Cassandra { .. } => shared_cluster("up", &[]),
        }
    }

    /// What the server has to say, or its nodes.
    pub fn log(&self) -> String {
        match &self.kind {
            Kind::Sqlite => String::new(),
            Kind::Postgres { cluster, .. } => cluster.log(),
            Kind::MariaDb(maria) => maria.log(),
            Kind::Cassandra { .. } => {
                let directory = variable("TONNAGE_TEST_CASSANDRA_DIRECTORY");
                let log = |node| std::fs::read_to_string(Path::new(&directory).join(node).join("log"));
                ["1", "2", "3"].map(log).map(Result::unwrap_or_default).concat()
            }
        }
    }

    /// Has one node stand still for `time`.
    pub fn pause(&self, time: Duration) {
        let directory = variable("TONNAGE_TEST_CASSANDRA_DIRECTORY");
        let process = std::fs::read_to_string(Path::new(&directory).join("3/pid")).expect("a process id");
        for signal in ["-STOP", "-CONT"] {
            let mut kill = Command::new("kill");
            let sent = kill.arg(signal).arg(process.trim()).status();
            assert!(sent.expect("kill starts").success());
            if signal == "-STOP" {
                std::thread::sleep(time);
            }
        }
    }
}

/// Says so where a server of rounds has no disk of its own.
fn tell(name: &str, mounted: Result<(), String>) {
    if let Err(why) = mounted {
        // Of a test that passes, only what it writes itself is shown.
        let _ = writeln!(
            std::io::stderr(),
            "{name}: no disk can be mounted ({why}): none is full in its rounds"
        );
    }
}

/// Does something to the nodes that tests share.
fn shared_cluster(action: &str, rest: &[&str]) {
    cluster(action, &variable("TONNAGE_TEST_CASSANDRA_DIRECTORY"), rest);
}

fn number(value: &Option<String>) -> u64 {
    let number = value.as_deref().map(str::parse);
    number.expect("a value").expect("a whole number")
}

/// The rows of a query, of a file that is there.
fn sqlite(path: &Path, sql: &str) -> rusqlite::Result<Vec<Row>> {
    // It is not made by asking.
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(Duration::from_secs(60))?;
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let text = |value: ValueRef<'_>| match value {
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    };
    let rows = statement.query_map([], |row| {
        (0..columns).map(|at| Ok(text(row.get_ref(at)?))).collect()
    })?;
    rows.collect()
}
