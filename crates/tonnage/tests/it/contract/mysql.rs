//! MariaDB.

use std::sync::Arc;

use async_trait::async_trait;
use tonnage::target::Target;
use tonnage_contract::{Exception, Fixture};

use crate::mysql::{Server, TestDatabase, connect};

struct MariaDbFixture(TestDatabase);

#[async_trait]
impl Fixture for MariaDbFixture {
    fn target(&self) -> Arc<dyn Target> {
        self.0.target.clone()
    }

    async fn again(&self) -> Arc<dyn Target> {
        connect(&self.0.url).await.unwrap()
    }

    async fn count(&self, table: &str) -> u64 {
        self.0.number(&format!("SELECT count(*) FROM {table}")).await as u64
    }

    /// Its TIMESTAMP begins with 1970 and ends with 2038, or 2106.
    fn exceptions(&self) -> &'static [Exception] {
        &[
            Exception {
                ty: "timestamptz",
                value: Some("1969-12-31 23:59:59.999999+00"),
            },
            Exception {
                ty: "timestamptz",
                value: Some("9999-12-31 00:00:00+00"),
            },
        ]
    }
}

mod on_the_systems_server {
    use super::*;

    tonnage_contract::suites!(MariaDbFixture(TestDatabase::on(Server::System).await));
}

mod on_mariadb_11 {
    use super::*;

    tonnage_contract::suites!(MariaDbFixture(TestDatabase::on(Server::Newest).await));
}
