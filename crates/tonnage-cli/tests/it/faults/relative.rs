//! Servers of MariaDB's family in rounds: MySQL, OceanBase's engine, a Galera cluster.

use std::{path::Path, process::Command};

use super::servers::Maria;

/// A server of MariaDB's family that `scripts/family-server` starts.
pub struct Relative {
    pub name: &'static str,
    /// Its URL, with all its nodes.
    url: String,
}

impl Relative {
    /// Starts it; what it holds is in `directory`.
    pub fn start(name: &'static str, directory: &Path) -> Self {
        let mut relative = Self {
            name,
            url: String::new(),
        };
        relative.url = relative.script("up", directory);
        relative
    }

    /// Does something to it, or to the node of it that fails.
    pub fn script(&self, action: &str, directory: &Path) -> String {
        // Of a cluster it is the first node that is killed, and comes back.
        let server = match (action, self.name) {
            ("kill", "galera") => "galera-1",
            (_, name) => name,
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/family-server");
        let ran = Command::new(script)
            .args([action, server])
            .arg(directory)
            .output()
            .expect("the script starts");
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{action} {server}: {errors}");
        String::from_utf8_lossy(&ran.stdout).trim().to_owned()
    }

    /// The hosts of its nodes, with their ports.
    pub fn hosts(&self) -> Vec<&str> {
        let hosts = self.url.split(['@', '/']).rev().nth(1).expect("hosts");
        hosts.split(',').collect()
    }
}

impl Maria {
    /// Whether it is no MariaDB by itself.
    pub fn is_relative(&self) -> bool {
        self.relative.is_some()
    }

    /// Whether LOAD DATA is trusted there.
    pub fn has_native(&self) -> bool {
        self.relative
            .as_ref()
            .is_none_or(|relative| relative.name != "oceanbase")
    }

    /// What follows the first server in a URL: the others of a cluster.
    pub fn further(&self) -> String {
        let hosts = self
            .relative
            .iter()
            .flat_map(|relative| relative.hosts().into_iter().skip(1));
        hosts.map(|host| format!(",{host}")).collect()
    }

    /// Its user's password.
    pub fn password(&self) -> &'static str {
        match self.relative {
            Some(_) => "of_the_tests",
            None => "tonnage",
        }
    }
}
