//! PostgreSQL, against the servers of scripts/with-servers.

/// Makes of each function of a [`Server`] a test on each.
macro_rules! on_every_server {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            #[tokio::test]
            async fn on_the_systems_server() {
                super::$test(super::super::Server::System).await;
            }

            #[tokio::test]
            async fn on_postgresql_18() {
                super::$test(super::super::Server::Newest).await;
            }
        })+
    };
}

mod altered;
mod connecting;
mod gets;
mod ledger;
mod measuring;
mod operations;
mod partitions;
mod tables;
mod texts;
mod unloading;
mod values;
mod writing;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::{Client, NoTls};
use tonnage::{
    operation::{Method, Operation},
    plan::Plan,
    table::{Table, TableName},
    target::{Target, Writer},
};

pub use crate::common::{batch, upsert, variable};

/// The test servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// Of the system's packages, with TLS.
    System,
    /// The newest release.
    Newest,
}

impl Server {
    /// The URL of its cluster.
    pub fn url(self) -> String {
        variable(match self {
            Self::System => "TONNAGE_TEST_POSTGRES_URL",
            Self::Newest => "TONNAGE_TEST_POSTGRES18_URL",
        })
    }
}

/// The URL of the test cluster with TLS.
pub fn url() -> String {
    Server::System.url()
}

/// Connects as a user of the library does.
pub async fn connect(url: &str) -> tonnage::Result<Arc<dyn Target>> {
    tonnage::targets::connect(url).await
}

/// A session of the tests' own.
pub async fn session(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .expect("the test server answers");
    tokio::spawn(connection);
    client
}

/// A schema of a test's own, with a target and a session that work in it.
pub struct TestDatabase {
    pub schema: String,
    pub url: String,
    pub target: Arc<dyn Target>,
    pub client: Client,
    /// Tests at once are limited, so that a machine with many processors stays below the server's connections.
    _permit: SemaphorePermit<'static>,
}

static PLACES: Semaphore = Semaphore::const_new(8);

impl TestDatabase {
    pub async fn on(server: Server) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let permit = PLACES.acquire().await.unwrap();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("place_{}_{number}", std::process::id());
        let admin = session(&server.url()).await;
        admin
            .batch_execute(&format!("CREATE SCHEMA {schema}"))
            .await
            .unwrap();
        let url = format!("{}?options=-csearch_path%3D{schema}", server.url());
        Self {
            target: connect(&url).await.unwrap(),
            client: session(&url).await,
            schema,
            url,
            _permit: permit,
        }
    }

    pub async fn run(&self, sql: &str) {
        self.client
            .batch_execute(sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }

    /// The first column of a query, as text.
    pub async fn texts(&self, sql: &str) -> Vec<Option<String>> {
        let rows = self
            .client
            .query(sql, &[])
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// The first value of a query.
    pub async fn number(&self, sql: &str) -> i64 {
        self.client
            .query_one(sql, &[])
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"))
            .get(0)
    }

    pub async fn table(&self, name: &str) -> Table {
        let name: TableName = name.parse().unwrap();
        self.target
            .table(&name)
            .await
            .unwrap()
            .expect("the table is there")
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
