//! Cassandra.

use std::sync::Arc;

use async_trait::async_trait;
use tonnage::target::Target;
use tonnage_contract::{Exception, Fixture};

use crate::cassandra::TestDatabase;

struct CassandraFixture {
    place: TestDatabase,
    target: Arc<dyn Target>,
}

impl CassandraFixture {
    async fn new() -> Self {
        let place = TestDatabase::new(&[]).await;
        Self {
            target: place.target().await,
            place,
        }
    }
}

#[async_trait]
impl Fixture for CassandraFixture {
    fn target(&self) -> Arc<dyn Target> {
        self.target.clone()
    }

    async fn again(&self) -> Arc<dyn Target> {
        self.place.target().await
    }

    async fn count(&self, table: &str) -> u64 {
        self.place.count(table).await as u64
    }

    /// It has no times without a zone, and keeps milliseconds.
    fn exceptions(&self) -> &'static [Exception] {
        &[
            Exception {
                ty: "timestamp",
                value: None,
            },
            Exception {
                ty: "timestamptz",
                value: Some("1969-12-31 23:59:59.999999+00"),
            },
        ]
    }
}

tonnage_contract::suites!(CassandraFixture::new().await);
