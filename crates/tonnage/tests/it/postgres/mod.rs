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

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{Field, Schema},
};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::{Client, NoTls};
use tonnage::{
    operation::{Method, Operation},
    plan::Plan,
    table::{Table, TableName},
    target::{Target, WriteColumn},
    targets::DRIVERS,
    types::ColumnType,
};

/// A variable that scripts/with-servers sets.
pub fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run `make test`, which starts the servers"))
}

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
    let driver = DRIVERS
        .iter()
        .find(|driver| driver.schemes.contains(&"postgresql"))
        .expect("PostgreSQL is registered");
    (driver.connect)(url, None).await
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
        let table = Arc::new(self.table(table).await);
        let columns = columns
            .iter()
            .enumerate()
            .map(|(source, name)| {
                let target = table
                    .columns
                    .iter()
                    .position(|c| c.name == *name)
                    .expect("a column of the table");
                let column = &table.columns[target];
                WriteColumn {
                    source,
                    source_name: column.name.clone(),
                    target,
                    name: column.name.clone(),
                    ty: column.ty.expect("a column that can be written"),
                }
            })
            .collect();
        crate::common::plan(table, columns, operation, method)
    }
}

/// A batch of `columns`.
pub fn batch(columns: &[(ColumnType, ArrayRef)]) -> RecordBatch {
    let fields: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(index, (ty, _))| Field::new(format!("c{index}"), ty.arrow(), true))
        .collect();
    let arrays = columns.iter().map(|(_, array)| array.clone()).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// The key of an upsert.
pub fn upsert(key: &[&str]) -> Operation {
    Operation::Upsert {
        key: key.iter().map(|column| (*column).to_owned()).collect(),
    }
}
