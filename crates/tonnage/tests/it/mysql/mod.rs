//! MariaDB, against the servers of scripts/with-servers.

/// Makes of each function of a [`Server`] a test on each.
macro_rules! on_every_server {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_the_systems_server() {
                super::$test(super::super::Server::System).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_mariadb_11() {
                super::$test(super::super::Server::Newest).await;
            }
        })+
    };
}

mod altered;
mod connecting;
mod each;
mod family;
mod galera;
mod gets;
mod ledger;
mod masquerade;
mod measuring;
mod operations;
mod shapes;
mod tables;
mod unloading;
mod values;
mod writing;

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use arrow::array::RecordBatch;
use mysql_async::{Conn, prelude::Queryable};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tonnage::{
    operation::{Method, Operation},
    plan::Plan,
    table::{Table, TableName},
    target::{Outcome, Target, Writer},
};

pub use crate::common::{batch, key, variable};

pub const METHODS: [Method; 4] = [Method::Native, Method::Array, Method::Batch, Method::Single];

/// The test servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// Of the system's packages, with a certificate.
    System,
    /// Of the newest series with long support.
    Newest,
    /// MySQL, which the first test that needs it brings up.
    MySql,
    /// OceanBase's engine as one node, likewise.
    OceanBase,
    /// The second node of a Galera cluster, likewise.
    Galera,
}

/// Brings up a server that `scripts/with-servers` does not (scripts/family-server); its URL.
pub fn family(action: &str, server: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/family-server");
    let ran = Command::new(script)
        .args([action, server, &variable("TONNAGE_TEST_FAMILY_DIRECTORY")])
        .output()
        .expect("the script runs");
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

impl Server {
    /// Its URL, up to the database.
    pub fn url(self) -> String {
        static MYSQL: LazyLock<String> = LazyLock::new(|| family("up", "mysql"));
        static OCEANBASE: LazyLock<String> = LazyLock::new(|| family("up", "oceanbase"));
        let url = match self {
            Self::System => variable("TONNAGE_TEST_MARIADB_URL"),
            Self::Newest => variable("TONNAGE_TEST_MARIADB11_URL"),
            Self::MySql => MYSQL.clone(),
            Self::OceanBase => OCEANBASE.clone(),
            Self::Galera => format!("{}/tonnage", galera::node(2)),
        };
        url.rsplit_once('/').expect("a URL with a database").0.to_owned()
    }

    /// A session of the tests' own, with the server's settings.
    async fn session(self, database: &str) -> Conn {
        let url = format!("{}/{database}?prefer_socket=false", self.url()).replace("mariadb://", "mysql://");
        Conn::from_url(url).await.expect("the test server answers")
    }
}

/// The URL of the test server with a certificate, up to its database.
pub fn server() -> String {
    Server::System.url()
}

/// Connects as a user of the library does.
pub async fn connect(url: &str) -> tonnage::Result<Arc<dyn Target>> {
    tonnage::targets::connect(url).await
}

/// A session of the tests' own on the server with a certificate.
pub async fn session(database: &str) -> Conn {
    Server::System.session(database).await
}

/// A database of a test's own, with a target and a session that work in it.
pub struct TestDatabase {
    pub database: String,
    pub url: String,
    pub target: Arc<dyn Target>,
    pub server: Server,
    conn: Mutex<Conn>,
    /// Tests at once are limited, so that a machine with many processors stays below the server's connections.
    _permit: SemaphorePermit<'static>,
}

static PLACES: Semaphore = Semaphore::const_new(8);

impl TestDatabase {
    /// On the server of the system's packages.
    pub async fn new() -> Self {
        Self::on(Server::System).await
    }

    pub async fn on(server: Server) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let permit = PLACES.acquire().await.unwrap();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let database = format!("place_{}_{number}", std::process::id());
        let mut admin = server.session("tonnage").await;
        let create = format!("CREATE DATABASE {database} CHARACTER SET utf8mb4");
        admin.query_drop(create).await.unwrap();
        let url = format!("{}/{database}", server.url());
        Self {
            target: connect(&url).await.unwrap(),
            conn: Mutex::new(server.session(&database).await),
            server,
            database,
            url,
            _permit: permit,
        }
    }

    /// A further session in it.
    pub async fn session(&self) -> Conn {
        self.server.session(&self.database).await
    }

    /// Runs statements, cut at semicolons at the ends of lines.
    pub async fn run(&self, sql: &str) {
        let mut conn = self.conn.lock().await;
        for statement in sql.split(";\n") {
            conn.query_drop(statement)
                .await
                .unwrap_or_else(|e| panic!("{statement}: {e:?}"));
        }
    }

    /// The first column of a query, as the server's text protocol shows it.
    pub async fn texts(&self, sql: &str) -> Vec<Option<String>> {
        let mut conn = self.conn.lock().await;
        conn.query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"))
    }

    /// The first value of a query.
    pub async fn number(&self, sql: &str) -> i64 {
        let mut conn = self.conn.lock().await;
        let found: Option<i64> = conn
            .query_first(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        found.expect("a row")
    }

    pub async fn table(&self, name: &str) -> Table {
        let name: TableName = name.parse().unwrap();
        let table = self.target.table(&name).await.unwrap();
        table.expect("the table is there")
    }

    /// A plan that writes `columns` of `table`.
    pub async fn plan(&self, table: &str, columns: &[&str], operation: Operation, method: Method) -> Plan {
        crate::common::plan_of(self.table(table).await, columns, operation, method)
    }

    /// A writer without a ledger.
    pub async fn writer(&self, plan: &Plan) -> Box<dyn Writer> {
        self.target.writer(&plan.write_request(), None).await.unwrap()
    }
}

/// Writes a batch in a transaction of its own, all of which must go well.
pub async fn write(writer: &mut dyn Writer, rows: &RecordBatch) -> Outcome {
    writer.begin(&[]).await.unwrap();
    let outcome = writer.write(rows, tonnage::target::Guard::None).await.unwrap();
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    writer.commit(&[]).await.unwrap();
    outcome
}
