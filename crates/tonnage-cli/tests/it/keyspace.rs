//! A keyspace of Cassandra of a test's own: on three nodes, which the first test that needs them brings up, or on
//! others.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use scylla::{
    client::session::Session,
    value::{CqlValue, Row as CqlRow},
};
use tempfile::TempDir;
use tokio::{runtime::Runtime, task::JoinSet};

use crate::{
    database::{Row, variable},
    session::{session, until_whole},
};

/// See the module.
pub struct Keyspace {
    nodes: String,
    name: String,
    session: Arc<Session>,
    /// Where the ledger is.
    directory: TempDir,
    runtime: Runtime,
}

impl Keyspace {
    pub fn new() -> Self {
        let url = cluster("up", &variable("TONNAGE_TEST_CASSANDRA_DIRECTORY"), &[]);
        Self::on(&url, 3)
    }

    /// One of so many replicas on the nodes of a URL.
    pub fn on(url: &str, replicas: u32) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let nodes = url.to_owned();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("kept_{}_{number}", std::process::id());
        let runtime = Runtime::new().expect("a runtime");
        let session = runtime.block_on(async {
            let known: Vec<&str> = nodes.trim_start_matches("cassandra://").split(',').collect();
            let session = session(&known).await;
            // What every node has is only to be asked for where there are several.
            if known.len() > 1 {
                until_whole(&session, known.len()).await;
            }
            let replication = format!("{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}");
            let create = format!("CREATE KEYSPACE {name} WITH replication = {replication}");
            session.query_unpaged(create, ()).await.expect("a keyspace");
            session.use_keyspace(&name, false).await.expect("it is there");
            Arc::new(session)
        });
        Self {
            nodes,
            name,
            session,
            directory: tempfile::tempdir().expect("a temporary directory"),
            runtime,
        }
    }

    /// Its URL, without a place for the ledger.
    pub fn bare_url(&self) -> String {
        format!("{}/{}", self.nodes, self.name)
    }

    pub fn url(&self) -> String {
        let ledger = self.directory.path().join("runs.ledger");
        format!("{}?ledger={}", self.bare_url(), ledger.display())
    }

    /// Runs a statement.
    pub fn run(&self, cql: &str) {
        self.rows(cql);
    }

    /// Runs statements all at once; the errors of those that failed.
    pub fn run_at_once(&self, statements: Vec<String>) -> Vec<String> {
        self.runtime.block_on(async {
            let mut running = JoinSet::new();
            for cql in statements {
                let session = self.session.clone();
                running.spawn(async move { session.query_unpaged(cql, ()).await });
            }
            let answers = running.join_all().await;
            let failed = answers.into_iter().filter_map(Result::err);
            failed.map(|error| error.to_string()).collect()
        })
    }

    /// The rows of a query; none of another statement.
    pub fn rows(&self, cql: &str) -> Vec<Row> {
        self.try_rows(cql)
            .unwrap_or_else(|error| panic!("{cql}: {error}"))
    }

    fn try_rows(&self, cql: &str) -> Result<Vec<Row>, String> {
        let found = self.runtime.block_on(self.session.query_unpaged(cql, ()));
        let found = found.map_err(|error| error.to_string())?;
        if !found.is_rows() {
            return Ok(Vec::new());
        }
        let found = found.into_rows_result().map_err(|error| error.to_string())?;
        let rows = found.rows::<CqlRow>().map_err(|error| error.to_string())?;
        let text = |value: CqlValue| match value {
            CqlValue::Text(text) | CqlValue::Ascii(text) => text,
            CqlValue::Int(number) => number.to_string(),
            CqlValue::BigInt(number) => number.to_string(),
            CqlValue::Blob(bytes) => {
                let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("\\x{}", digits.concat())
            }
            other => format!("{other:?}"),
        };
        let row = |row: CqlRow| row.columns.into_iter().map(|value| value.map(text)).collect();
        rows.map(|found| found.map(row).map_err(|error| error.to_string()))
            .collect()
    }
}

/// scripts/cassandra-cluster.
pub fn cluster_script(action: &str, directory: &str) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cassandra-cluster");
    let mut command = Command::new(script);
    command.args([action, directory]);
    command
}

/// Runs it; what it says, as the URL of a cluster that is brought up.
pub fn cluster(action: &str, directory: &str, rest: &[&str]) -> String {
    let ran = cluster_script(action, directory).args(rest).output();
    let ran = ran.expect("the script runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("a URL").trim().to_owned()
}

impl Drop for Keyspace {
    fn drop(&mut self) {
        // A test that has failed already says more than a failure here would.
        let _ = self.try_rows(&format!("DROP KEYSPACE {}", self.name));
    }
}
