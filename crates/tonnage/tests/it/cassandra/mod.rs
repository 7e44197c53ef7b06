//! Cassandra, on a cluster of three nodes that the first of these tests brings up (scripts/cassandra-cluster).

mod gets;
mod nodes;
mod operations;
mod session;
mod values;

use std::{
    any::Any,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use scylla::client::session::Session;
use session::{session, until_whole};
use tempfile::TempDir;
use tokio::sync::RwLock;
use tonnage::{Database, report::Report, sources::Format, target::Target};

/// As many as the script starts.
const NODES: usize = 3;

/// Held by every test; alone by one that kills a node.
fn cluster() -> Arc<RwLock<()>> {
    static CLUSTER: std::sync::OnceLock<Arc<RwLock<()>>> = std::sync::OnceLock::new();
    CLUSTER.get_or_init(Arc::default).clone()
}

/// Where the cluster is.
pub fn directory() -> String {
    crate::common::variable("TONNAGE_TEST_CASSANDRA_DIRECTORY")
}

/// Runs scripts/cassandra-cluster.
pub fn script(action: &str, arguments: &[&str]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cassandra-cluster");
    let ran = Command::new(script)
        .args([action, &directory()])
        .args(arguments)
        .output()
        .expect("the script runs");
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

/// The URL of the cluster, which is up.
async fn up() -> String {
    tokio::task::spawn_blocking(|| script("up", &[])).await.unwrap()
}

/// A keyspace of a test's own.
pub struct TestDatabase {
    pub url: String,
    pub session: Session,
    pub directory: TempDir,
    pub keyspace: String,
    /// The cluster, shared or alone.
    _guard: Box<dyn Any + Send + Sync>,
}

impl TestDatabase {
    pub async fn new(ddl: &[&str]) -> Self {
        Self::with(ddl, Box::new(cluster().read_owned().await)).await
    }

    /// While no other test is on the cluster.
    pub async fn alone(ddl: &[&str]) -> Self {
        Self::with(ddl, Box::new(cluster().write_owned().await)).await
    }

    async fn with(ddl: &[&str], guard: Box<dyn Any + Send + Sync>) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let base = up().await;
        let nodes: Vec<&str> = base.trim_start_matches("cassandra://").split(',').collect();
        let session = session(&nodes).await;
        until_whole(&session, NODES).await;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let keyspace = format!("place_{}_{number}", std::process::id());
        let directory = tempfile::tempdir().unwrap();
        let place = Self {
            url: format!(
                "{base}/{keyspace}?ledger={}",
                directory.path().join("state/runs.ledger").display()
            ),
            session,
            directory,
            keyspace,
            _guard: guard,
        };
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 3}";
        place
            .run(&format!(
                "CREATE KEYSPACE {} WITH replication = {replication}",
                place.keyspace
            ))
            .await;
        place.session.use_keyspace(&place.keyspace, false).await.unwrap();
        for statement in ddl {
            place.run(statement).await;
        }
        place
    }

    pub async fn run(&self, cql: &str) {
        self.session
            .query_unpaged(cql, ())
            .await
            .unwrap_or_else(|error| panic!("{cql}: {error}"));
    }

    /// The rows of a query of one column of text, sorted.
    pub async fn texts(&self, cql: &str) -> Vec<String> {
        let found = self.session.query_unpaged(cql, ()).await;
        let found = found.unwrap_or_else(|error| panic!("{cql}: {error}"));
        let found = found.into_rows_result().unwrap();
        let rows = found.rows::<(String,)>().unwrap();
        let mut texts: Vec<String> = rows.map(|row| row.unwrap().0).collect();
        texts.sort();
        texts
    }

    pub async fn count(&self, table: &str) -> i64 {
        let cql = format!("SELECT count(*) FROM {table}");
        // A node that has just died is asked until the others know.
        let found = loop {
            if let Ok(found) = self.session.query_unpaged(cql.as_str(), ()).await {
                break found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        found
            .into_rows_result()
            .unwrap()
            .single_row::<(i64,)>()
            .unwrap()
            .0
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    pub async fn database(&self) -> Database {
        Database::connect(&self.url).await.unwrap()
    }

    pub async fn target(&self) -> Arc<dyn Target> {
        tonnage::targets::connect(&self.url).await.unwrap()
    }

    /// The lines of an unload as JSON, sorted.
    pub async fn unload(&self, table: &str, texts: &[&str]) -> Vec<serde_json::Value> {
        let path = self.path("unloaded.jsonl");
        let unload = self.database().await.unload(table).to(&path).format(Format::Json);
        unload.text(texts.to_vec()).overwrite().run().await.unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let mut lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        lines.sort_by_key(ToString::to_string);
        lines
    }
}

/// What a load has written, superseded and rejected.
pub fn counts(report: Report) -> (u64, u64, u64) {
    let rows = report.rows;
    (rows.written, rows.skipped.superseded, rows.rejected)
}
