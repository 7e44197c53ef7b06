//! SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use tempfile::TempDir;
use tonnage_contract::{Exception, Fixture};
use tonnage_core::target::Target;
use tonnage_sqlite::SqliteTarget;

struct SqliteFixture {
    directory: TempDir,
    target: Arc<dyn Target>,
}

async fn connect(directory: &TempDir) -> Arc<dyn Target> {
    let path = directory.path().join("test.db").display().to_string();
    Arc::new(SqliteTarget::connect(&path).await.expect("a database"))
}

impl SqliteFixture {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self {
            target: connect(&directory).await,
            directory,
        }
    }
}

#[async_trait]
impl Fixture for SqliteFixture {
    fn target(&self) -> Arc<dyn Target> {
        self.target.clone()
    }

    async fn again(&self) -> Arc<dyn Target> {
        connect(&self.directory).await
    }

    async fn count(&self, table: &str) -> u64 {
        let connection =
            rusqlite::Connection::open(self.directory.path().join("test.db")).expect("a database");
        let count = format!("SELECT count(*) FROM {table}");
        let count: i64 = connection
            .query_row(&count, [], |row| row.get(0))
            .expect("a number");
        count as u64
    }

    fn exceptions(&self) -> &'static [Exception] {
        // A number that is no 64-bit integer is a double there, which must give its digits back.
        &[Exception {
            ty: "numeric",
            value: Some("123456789012345678901234567890.5"),
        }]
    }
}

tonnage_contract::suites!(SqliteFixture::new().await);
