//! Databases that are put back to what they were: the table, and the ledger with it.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    scenario::Scenario,
    servers::{Cluster, Maria},
    target::{Kind, Target},
};

/// See the module.
#[derive(Debug, Clone, Copy)]
pub enum Backup {
    /// Its files.
    Files,
    /// Statements that make all tables anew.
    Dump,
    /// The rows of all tables, which are the same to the database afterwards.
    Rows,
}

impl Backup {
    /// Whether a table from it is the one that a run began with. Elsewhere somebody has to decide.
    pub fn keeps_tables(self) -> bool {
        !matches!(self, Self::Dump)
    }
}

impl Target {
    /// How its databases can be saved.
    pub fn backups(&self) -> &'static [Backup] {
        match &self.kind {
            Kind::Sqlite | Kind::Cassandra { .. } => &[Backup::Files],
            Kind::Postgres { .. } => &[Backup::Dump, Backup::Rows],
            Kind::MariaDb(_) => &[Backup::Dump],
        }
    }

    /// Keeps what is there now.
    pub fn save(&self, backup: Backup, scenario: &Scenario) {
        match &self.kind {
            Kind::Sqlite => copy_database(&Self::file(scenario), &saved(scenario, "items.db")),
            Kind::Cassandra { .. } => copy_database(&Self::ledger(scenario), &saved(scenario, "runs.ledger")),
            Kind::Postgres { cluster, members, .. } => {
                for member in members {
                    let to = saved(scenario, member);
                    match backup {
                        Backup::Rows => save_rows(cluster, member, &to),
                        _ => run(cluster.client("pg_dump", member).arg("-f").arg(to)),
                    }
                }
            }
            Kind::MariaDb(maria) => {
                dump(maria, &saved(scenario, "dump.sql"));
            }
        }
    }

    /// Puts back what was kept; nobody else uses it.
    pub fn restore(&self, backup: Backup, scenario: &Scenario) {
        match &self.kind {
            Kind::Sqlite => copy_database(&saved(scenario, "items.db"), &Self::file(scenario)),
            Kind::Cassandra { .. } => copy_database(&saved(scenario, "runs.ledger"), &Self::ledger(scenario)),
            Kind::Postgres { cluster, members, .. } => {
                for member in members {
                    let from = saved(scenario, member);
                    if let Backup::Rows = backup {
                        restore_rows(cluster, member, &from);
                        continue;
                    }
                    let drop = format!("DROP DATABASE {member} WITH (FORCE)");
                    cluster.query("template1", &drop);
                    cluster.query("template1", &format!("CREATE DATABASE {member}"));
                    run_file(cluster, member, &from);
                }
            }
            Kind::MariaDb(maria) => {
                load_dump(maria, &saved(scenario, "dump.sql"));
            }
        }
    }
}

fn saved(scenario: &Scenario, name: &str) -> PathBuf {
    let directory = scenario.directory.path().join("saved");
    std::fs::create_dir_all(&directory).expect("a directory");
    directory.join(name)
}

/// Copies a file of SQLite, together with what a process that was killed has left beside it.
fn copy_database(from: &Path, to: &Path) {
    for suffix in ["", "-wal", "-journal", "-shm"] {
        let of = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        let _ = std::fs::remove_file(of(to));
        if suffix != "-shm" && of(from).exists() {
            std::fs::copy(of(from), of(to)).expect("a copy");
        }
    }
}

/// The rows of all tables of a database.
pub fn save_rows(cluster: &Cluster, database: &str, to: &Path) {
    run(cluster
        .client("pg_dump", database)
        .args(["--data-only", "-f"])
        .arg(to));
}

/// Makes those rows the only ones. Nobody else is connected any more.
pub fn restore_rows(cluster: &Cluster, database: &str, from: &Path) {
    let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'");
    cluster.query("template1", &end);
    let tables =
        "SELECT string_agg(format('%I', tablename), ', ') FROM pg_tables WHERE schemaname = 'public'";
    if let Some(Some(tables)) = cluster.query(database, tables).concat().first() {
        cluster.query(database, &format!("TRUNCATE {tables}"));
    }
    run_file(cluster, database, from);
}

fn run_file(cluster: &Cluster, database: &str, statements: &Path) {
    let mut psql = cluster.client("psql", database);
    psql.args(["-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-f"]);
    run(psql.arg(statements));
}

/// All tables of a server's database, as statements.
pub fn dump(maria: &Maria, to: &Path) {
    let file = File::create(to).expect("a file");
    run(maria.client("mariadb-dump").arg("tonnage").stdout(file));
}

/// Makes those tables anew.
pub fn load_dump(maria: &Maria, from: &Path) {
    let file = File::open(from).expect("a dump");
    run(maria.client("mariadb").arg("tonnage").stdin(file));
}

fn run(command: &mut Command) {
    let ended = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{command:?}: {}\n{said}", ended.status);
}
