//! PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use tonnage::target::Target;
use tonnage_contract::{Exception, Fixture};

use crate::postgres::{Server, TestDatabase, connect};

struct PostgresFixture(TestDatabase);

#[async_trait]
impl Fixture for PostgresFixture {
    fn target(&self) -> Arc<dyn Target> {
        self.0.target.clone()
    }

    async fn again(&self) -> Arc<dyn Target> {
        connect(&self.0.url).await.unwrap()
    }

    async fn count(&self, table: &str) -> u64 {
        self.0.number(&format!("SELECT count(*) FROM {table}")).await as u64
    }

    fn exceptions(&self) -> &'static [Exception] {
        &[]
    }
}

mod on_the_systems_server {
    use super::*;

    tonnage_contract::suites!(PostgresFixture(TestDatabase::on(Server::System).await));
}

mod on_postgresql_18 {
    use super::*;

    tonnage_contract::suites!(PostgresFixture(TestDatabase::on(Server::Newest).await));
}
