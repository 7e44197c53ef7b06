//! Cassandra.

use std::sync::Arc;

use async_trait::async_trait;
use tonnage::target::Target;
use tonnage_contract::{Alteration, Exception, Fixture, Language, Layout, Refusing};

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

    fn other_types(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn language(&self) -> Option<&dyn Language> {
        Some(self)
    }
}

const LAYOUTS: &[Layout] = &[Layout {
    made_by: "CREATE TABLE t (w text, id varint PRIMARY KEY, v text)",
    refusing: Refusing::Nothing,
}];

const ALTERATIONS: &[Alteration] = &[Alteration::of("ALTER TABLE t ADD c int", "column 'c' is new")];

#[async_trait]
impl Language for CassandraFixture {
    async fn run(&self, statements: &str) {
        for statement in statements.split(";\n") {
            self.place.run(statement).await;
        }
    }

    fn layouts(&self) -> &'static [Layout] {
        LAYOUTS
    }

    fn alterations(&self) -> &'static [Alteration] {
        ALTERATIONS
    }

    fn harmless(&self) -> &'static str {
        "ALTER TABLE t WITH comment = 'seen'"
    }
}

tonnage_contract::suites!(CassandraFixture::new().await);
