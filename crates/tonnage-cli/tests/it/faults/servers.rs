//! Servers of a test's own, which it may kill as it likes. They go away with the test.

use std::{
    fs::File,
    net::TcpListener,
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    thread::sleep,
    time::Duration,
};

use mysql_async::{Conn, prelude::Queryable};
use tempfile::TempDir;
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::{relative::Relative, room::Disk, until};
use crate::{
    database::{Row, variable},
    keyspace::{cluster, cluster_script},
};

/// Ports tried until a server starts, and starts after it was killed.
pub const PORTS_TRIED: u32 = 10;
const STARTS_TRIED: u32 = 1_000;
/// Between two looks at a server that starts.
const LOOK: Duration = Duration::from_millis(100);
/// Between two questions to one that has not answered yet: each takes time from its start.
const ASK: Duration = Duration::from_millis(50);
/// What an answer may take, so that a server that hangs is told from one that is slow.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// Who servers run as where this is root.
const POSTGRES: &str = "postgres";
const MYSQL: &str = "mysql";

pub fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id starts");
    id.stdout == b"0\n"
}

/// Ports below those that Linux by default gives to whoever asks for any: nobody is given one while its server is away.
const PORTS: Range<u16> = 10_000..20_000;

/// A port that nobody listens on; another may take it before it is used.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Two runs at once begin elsewhere.
    let first = std::process::id() as u16;
    let mut ports = PORTS.map(|_| {
        let next = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        PORTS.start + next.wrapping_mul(7) % PORTS.len() as u16
    });
    let free = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.expect("a free port")
}

/// `program` as `user` where this is root, since servers do not run as root; with a disk of its own if there is one.
fn as_user(user: &str, is_root: bool, disk: Option<&Disk>, program: PathBuf) -> Command {
    if let Some(disk) = disk {
        return disk.run(user, program);
    }
    if !is_root {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args([format!("--reuid={user}"), format!("--regid={user}")])
        .args(["--init-groups", "--"])
        .arg(program);
    command
}

/// A directory of a server's in a temporary directory, and its owner's.
fn place(directory: &TempDir, user: &str, is_root: bool) -> PathBuf {
    let place = directory.path().join("place");
    std::fs::create_dir(&place).expect("a directory");
    if is_root {
        // The server has to find its way to its data.
        run(Command::new("chmod").arg("711").arg(directory.path()));
        run(Command::new("chown").arg(format!("{user}:")).arg(&place));
    }
    place
}

/// An empty directory beside, for a disk to be mounted at.
fn disk(directory: &TempDir, user: &str) -> Result<Disk, String> {
    let place = directory.path().join("disk");
    std::fs::create_dir(&place).expect("a directory");
    Disk::mount(&place, user)
}

fn runtime() -> Runtime {
    let built = Builder::new_current_thread().enable_all().build();
    built.expect("a runtime")
}

/// A server of PostgreSQL.
pub struct Cluster {
    directory: TempDir,
    programs: PathBuf,
    is_root: bool,
    port: u16,
    /// Of the server's command line.
    options: String,
    /// The largest size that a file of the server's may have, in bytes.
    pub file_max: Option<u64>,
    disk: Option<Disk>,
}

impl Cluster {
    /// Starts one with more `options`, as `-c max_connections=20`.
    pub fn start(options: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let is_root = is_root();
        place(&directory, POSTGRES, is_root);
        let mut cluster = Self {
            programs: variable("TONNAGE_TEST_POSTGRES_PROGRAMS").into(),
            is_root,
            directory,
            port: 0,
            options: options.to_owned(),
            file_max: None,
            disk: None,
        };
        let settings = [
            "-U",
            "tonnage",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
            "--wal-segsize=1",
        ];
        run(cluster.program("initdb").args(settings));
        let started = (0..PORTS_TRIED).any(|_| {
            cluster.port = free_port();
            cluster.starts()
        });
        assert!(started, "{}", cluster.log());
        cluster
    }

    /// Starts one that follows another as its standby.
    pub fn standby_of(primary: &Self) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        place(&directory, POSTGRES, primary.is_root);
        let mut standby = Self {
            programs: primary.programs.clone(),
            is_root: primary.is_root,
            directory,
            port: 0,
            options: String::new(),
            file_max: None,
            disk: None,
        };
        let mut copy = standby.program("pg_basebackup");
        copy.args([
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "-h",
            "127.0.0.1",
            "-U",
            "tonnage",
            "-p",
        ]);
        run(copy.arg(primary.port.to_string()));
        let started = (0..PORTS_TRIED).any(|_| {
            standby.port = free_port();
            standby.starts()
        });
        assert!(started, "{}", standby.log());
        standby
    }

    /// Has a standby become a server of its own.
    pub fn promote(&self) {
        run(self.program("pg_ctl").args(["-w", "promote"]));
    }

    /// A program of the server's, as its user and for its data.
    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let as_user = |program| as_user(POSTGRES, self.is_root, self.disk.as_ref(), program);
        let mut command = match self.file_max {
            Some(bytes) => {
                let mut limited = as_user("prlimit".into());
                limited.arg(format!("--fsize={bytes}")).arg(program);
                limited
            }
            None => as_user(program),
        };
        let place = self.directory.path().join("place");
        command.arg("-D").arg(place.join("data")).current_dir(place);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Whether it starts on its port.
    fn starts(&self) -> bool {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' {}",
            self.port, self.options
        );
        let mut start = self.program("pg_ctl");
        start.args(["-w", "-t", "600", "-l"]).arg(self.log_file());
        start.args(["-o", &options, "start"]);
        start.status().expect("pg_ctl starts").success()
    }

    fn log_file(&self) -> PathBuf {
        self.directory.path().join("place/server.log")
    }

    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Starts it anew with a small disk, beside that of its data; why there is none.
    pub fn mount(&mut self) -> Result<(), String> {
        let disk = disk(&self.directory, POSTGRES)?;
        self.stop();
        self.disk = Some(disk);
        self.restart();
        Ok(())
    }

    /// Where the disk is mounted; none where it is not.
    pub fn disk(&self) -> Option<&Path> {
        self.disk.as_ref().map(Disk::place)
    }

    /// Leaves room for so many KiB on the disk, or all of it.
    pub fn fill_disk(&self, left: Option<u64>) {
        self.disk.as_ref().expect("it is mounted").leave(POSTGRES, left);
    }

    /// Host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn url(&self, database: &str) -> String {
        format!(
            "postgresql://tonnage@{}/{database}?sslmode=disable",
            self.address()
        )
    }

    /// A program that connects to a database of it.
    pub fn client(&self, name: &str, database: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.args(["-h", "127.0.0.1", "-U", "tonnage", "-d", database, "-p"]);
        command.arg(self.port.to_string()).stdin(Stdio::null());
        command
    }

    /// Runs statements; the rows of the queries among them.
    pub fn query(&self, database: &str, sql: &str) -> Vec<Row> {
        self.try_query(database, sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    pub fn try_query(&self, database: &str, sql: &str) -> Result<Vec<Row>, String> {
        let asking = async {
            let (client, connection) = tokio_postgres::connect(&self.url(database), NoTls).await?;
            tokio::spawn(connection);
            client.simple_query(sql).await
        };
        let asked = runtime().block_on(async { timeout(ANSWER_TIME_MAX, asking).await });
        let asked = asked.map_err(|_| "no answer".to_owned())?;
        let messages = asked.map_err(|error| format!("{error:?}"))?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
            }
            _ => None,
        });
        Ok(rows.collect())
    }

    /// SIGKILL of the server; its sessions find out by themselves.
    pub fn kill(&self) {
        let file = self.directory.path().join("place/data/postmaster.pid");
        let text = std::fs::read_to_string(file).expect("the server runs");
        let process = text.lines().next().expect("its process id");
        run(Command::new("kill").arg("-KILL").arg(process));
    }

    /// Has it shut down.
    pub fn stop(&self) {
        run(self
            .program("pg_ctl")
            .args(["-m", "fast", "-w", "-t", "600", "stop"]));
    }

    /// Starts it after it was killed, once the sessions of the one that was killed have ended.
    pub fn restart(&self) {
        let started = (0..STARTS_TRIED).any(|_| {
            sleep(LOOK);
            self.starts()
        });
        assert!(started, "{}", self.log());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self
            .program("pg_ctl")
            .args(["-m", "immediate", "-w", "stop"])
            .status();
    }
}

/// A server of MariaDB.
pub struct Maria {
    directory: TempDir,
    is_root: bool,
    port: u16,
    process: Option<Child>,
    /// The largest size that a file of the server's may have, in bytes, from its next start on.
    pub file_max: Option<u64>,
    disk: Option<Disk>,
    /// It is another server of its family.
    pub(super) relative: Option<Relative>,
}

/// Who may do everything, and where.
const INIT: &str = "CREATE USER IF NOT EXISTS 'tonnage'@'%' IDENTIFIED BY 'tonnage';
GRANT ALL PRIVILEGES ON *.* TO 'tonnage'@'%' WITH GRANT OPTION;
CREATE DATABASE IF NOT EXISTS tonnage;
";

impl Maria {
    pub fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let is_root = is_root();
        let place = place(&directory, MYSQL, is_root);
        std::fs::write(place.join("init.sql"), INIT).expect("a file");
        let mut maria = Self {
            directory,
            is_root,
            port: 0,
            process: None,
            file_max: None,
            disk: None,
            relative: None,
        };
        let mut install = maria.program("mariadb-install-db");
        install.args(["--skip-test-db", "--auth-root-authentication-method=normal"]);
        run(install.stdout(Stdio::null()).stderr(Stdio::null()));
        let started = (0..PORTS_TRIED).any(|_| {
            maria.port = free_port();
            maria.starts()
        });
        assert!(started, "{}", maria.log());
        maria
    }

    /// Starts a server as `scripts/family-server` names it.
    pub fn relative(name: &'static str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let is_root = is_root();
        // Servers that do not run as root have to find their way to their data.
        run(Command::new("chmod").arg("711").arg(directory.path()));
        let relative = Relative::start(name, directory.path());
        Self {
            directory,
            is_root,
            port: 0,
            process: None,
            file_max: None,
            disk: None,
            relative: Some(relative),
        }
    }

    /// A program of the server's, as its user and for its data.
    fn program(&self, name: &str) -> Command {
        let place = self.directory.path().join("place");
        let as_user = |program| as_user(MYSQL, self.is_root, self.disk.as_ref(), program);
        let mut command = match self.file_max {
            Some(bytes) => {
                // It goes on after the signal that a file has become too large, and is told so by the write.
                let mut limited = as_user("env".into());
                limited.args(["--ignore-signal=XFSZ", "prlimit"]);
                limited.arg(format!("--fsize={bytes}")).arg(name);
                limited
            }
            None => as_user(name.into()),
        };
        let data = format!("--datadir={}", place.join("data").display());
        // What starts takes all that lies in a shared directory of temporary files for its own.
        command.args(["--no-defaults", &data]).env("TMPDIR", &place);
        command.current_dir(place).stdin(Stdio::null());
        command
    }

    /// Whether it starts on its port, and answers.
    fn starts(&mut self) -> bool {
        let place = self.directory.path().join("place");
        // What it said before it was killed stays.
        let log = File::options()
            .create(true)
            .append(true)
            .open(place.join("server.log"))
            .expect("a file for its log");
        let mut server = self.program("mariadbd");
        server
            .args(["--bind-address=127.0.0.1", "--local-infile=ON"])
            .args([
                "--character-set-server=utf8mb4",
                "--innodb-buffer-pool-size=32M",
                "--innodb-log-file-size=8M",
            ]);
        server.args([
            format!("--port={}", self.port),
            format!("--socket={}", place.join("socket").display()),
            format!("--init-file={}", place.join("init.sql").display()),
        ]);
        server.stdout(Stdio::null()).stderr(log);
        self.process = Some(server.spawn().expect("mariadbd starts"));
        let mut answers = false;
        until("MariaDB has started or ended", || {
            sleep(ASK);
            // Another server may have taken the port.
            let found = self.try_query("SELECT @@datadir").ok();
            let found = found.and_then(|rows| rows.into_iter().next()?.into_iter().next()?);
            answers = found.is_some_and(|found| Path::new(&found) == place.join("data"));
            answers || !matches!(self.process.as_mut().map(Child::try_wait), Some(Ok(None)))
        });
        answers
    }

    /// What it has said since its first start.
    pub fn log(&self) -> String {
        if let Some(relative) = &self.relative {
            let log = |at: &str| self.directory.path().join(format!("{}{at}/log", relative.name));
            let logs = ["", "-1", "-2", "-3"].map(|at| std::fs::read_to_string(log(at)));
            return logs.map(Result::unwrap_or_default).concat();
        }
        let log = self.directory.path().join("place/server.log");
        std::fs::read_to_string(log).unwrap_or_default()
    }

    /// Starts it anew with a small disk, beside that of its data; why there is none.
    pub fn mount(&mut self) -> Result<(), String> {
        let disk = disk(&self.directory, MYSQL)?;
        self.kill();
        self.disk = Some(disk);
        self.restart();
        Ok(())
    }

    /// Where the disk is mounted; none where it is not.
    pub fn disk(&self) -> Option<&Path> {
        self.disk.as_ref().map(Disk::place)
    }

    /// Leaves room for so many KiB on the disk, or all of it.
    pub fn fill_disk(&self, left: Option<u64>) {
        self.disk.as_ref().expect("it is mounted").leave(MYSQL, left);
    }

    /// Host and port.
    pub fn address(&self) -> String {
        match &self.relative {
            Some(relative) => relative.hosts().swap_remove(0).to_owned(),
            None => format!("127.0.0.1:{}", self.port),
        }
    }

    /// Runs a statement; the rows of a query.
    pub fn query(&self, sql: &str) -> Vec<Row> {
        self.try_query(sql)
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// A program that connects to it, which is MariaDB.
    pub fn client(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.args([
            "--no-defaults",
            "--protocol=tcp",
            "--host=127.0.0.1",
            "--user=tonnage",
        ]);
        command.args(["--password=tonnage".to_owned(), format!("--port={}", self.port)]);
        command.stdin(Stdio::null());
        command
    }

    /// As its own client takes it.
    pub fn url(&self) -> String {
        // A node that is not killed is looked at.
        let address = match &self.relative {
            Some(relative) => relative.hosts().pop().expect("a host").to_owned(),
            None => self.address(),
        };
        let password = self.password();
        format!("mysql://tonnage:{password}@{address}/tonnage?prefer_socket=false")
    }

    pub fn try_query(&self, sql: &str) -> Result<Vec<Row>, String> {
        let asking = async {
            let mut conn = Conn::from_url(self.url()).await?;
            if self
                .relative
                .as_ref()
                .is_some_and(|relative| relative.name == "galera")
            {
                conn.query_drop("SET SESSION wsrep_sync_wait = 7").await?;
            }
            let rows: Vec<mysql_async::Row> = conn.query(sql).await?;
            conn.disconnect().await?;
            Ok::<_, mysql_async::Error>(rows)
        };
        let asked = runtime().block_on(async { timeout(ANSWER_TIME_MAX, asking).await });
        let asked = asked.map_err(|_| "no answer".to_owned())?;
        let text = |value: mysql_async::Value| match value {
            mysql_async::Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        };
        let rows = asked.map_err(|error| error.to_string())?;
        let row = |row: mysql_async::Row| row.unwrap().into_iter().map(text).collect();
        Ok(rows.into_iter().map(row).collect())
    }

    /// SIGKILL of the server.
    pub fn kill(&mut self) {
        if let Some(relative) = &self.relative {
            relative.script("kill", self.directory.path());
            return;
        }
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it can be killed");
            process.wait().expect("it can be waited for");
        }
    }

    /// Starts it again if it has ended by itself, or is about to; whether it has.
    pub fn revive(&mut self) -> bool {
        if self.try_query("SELECT 1").is_ok() {
            return false;
        }
        self.kill();
        self.restart();
        true
    }

    /// Starts it after it was killed.
    pub fn restart(&mut self) {
        if let Some(relative) = &self.relative {
            relative.script("up", self.directory.path());
            return;
        }
        let started = (0..PORTS_TRIED).any(|_| self.starts());
        assert!(started, "{}", self.log());
    }
}

impl Drop for Maria {
    fn drop(&mut self) {
        if let Some(relative) = &self.relative {
            relative.script("down", self.directory.path());
            return;
        }
        self.kill();
    }
}

/// A node of Cassandra that is a cluster of its own.
pub struct Node {
    directory: TempDir,
    url: String,
}

impl Node {
    /// Starts one with `settings`, lines of cassandra.yaml.
    pub fn start(settings: &str) -> Self {
        let shared = PathBuf::from(variable("TONNAGE_TEST_CASSANDRA_DIRECTORY"));
        // What is named so is taken down with the other servers, should the test be killed.
        let beside = shared.parent().expect("the directory of all servers");
        let directory = TempDir::with_prefix_in("cassandra-", beside).expect("a directory");
        // The one that is not among the nodes that tests share.
        std::fs::write(directory.path().join("nodes"), "4\n").expect("a file");
        std::fs::write(directory.path().join("settings"), settings).expect("a file");
        let mut node = Self {
            directory,
            url: String::new(),
        };
        node.url = cluster("up", node.place(), &[]);
        node
    }

    fn place(&self) -> &str {
        self.directory.path().to_str().expect("a path in Unicode")
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = cluster_script("down", self.place()).status();
    }
}

fn run(command: &mut Command) {
    let status = command.status().expect("the program starts");
    assert!(status.success(), "{command:?}: {status}");
}

/// A server of either kind, of which a test asks the same.
pub enum Server {
    Postgres(Cluster),
    MariaDb(Maria),
}

impl Server {
    /// As tonnage takes it.
    pub fn url(&self) -> String {
        match self {
            Self::Postgres(cluster) => cluster.url("postgres"),
            Self::MariaDb(maria) => format!(
                "mariadb://tonnage:tonnage@{}/tonnage?sslmode=disable",
                maria.address()
            ),
        }
    }

    /// Host and port.
    pub fn address(&self) -> String {
        match self {
            Self::Postgres(cluster) => cluster.address(),
            Self::MariaDb(maria) => maria.address(),
        }
    }

    /// Runs a statement; the rows of a query.
    pub fn rows(&self, sql: &str) -> Vec<Row> {
        match self {
            Self::Postgres(cluster) => cluster.query("postgres", sql),
            Self::MariaDb(maria) => maria.query(sql),
        }
    }

    /// SIGKILL of the server.
    pub fn kill(&mut self) {
        match self {
            Self::Postgres(cluster) => cluster.kill(),
            Self::MariaDb(maria) => maria.kill(),
        }
    }

    /// Starts it again after that.
    pub fn restart(&mut self) {
        match self {
            Self::Postgres(cluster) => cluster.restart(),
            Self::MariaDb(maria) => maria.restart(),
        }
    }
}
