//! PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use tonnage::target::Target;
use tonnage_contract::{Alteration, Exception, Fixture, Language, Layout, Writers};

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

    fn other_types(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn language(&self) -> Option<&dyn Language> {
        Some(self)
    }
}

const LAYOUTS: &[Layout] = &[
    Layout::refusing("CREATE TABLE t (id int8 PRIMARY KEY, v text CHECK (v <> 'bad'), w text)"),
    Layout::refusing("CREATE TABLE t (id char(8) PRIMARY KEY, v text CHECK (v <> 'bad'), w text)"),
    Layout::refusing("CREATE TABLE t (w text, v text CHECK (v <> 'bad'), id numeric UNIQUE)"),
    Layout::refusing(
        "CREATE TABLE t (x text GENERATED ALWAYS AS (v || '!') STORED, v text CHECK (v <> 'bad'), w text, \
         id int8 UNIQUE, d int4 DEFAULT 7)",
    ),
    Layout::refusing(
        "CREATE TABLE t (id int8, v text CHECK (v <> 'bad'), w text, UNIQUE (id)) PARTITION BY RANGE (id); \
         CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (30); CREATE TABLE high PARTITION OF t DEFAULT",
    ),
    Layout::refusing(
        "CREATE TABLE t (id int8 PRIMARY KEY, v text CHECK (v <> 'bad'), w text); \
         CREATE OR REPLACE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN IF TG_OP = 'DELETE' THEN RETURN old; END IF; RETURN new; END $$; \
         CREATE TRIGGER seen BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION seen()",
    ),
];

const ALTERATIONS: &[Alteration] = &[
    Alteration::of(
        "ALTER TABLE t ALTER COLUMN id TYPE float8",
        "'id' was bigint and is double precision",
    ),
    Alteration::of(
        "ALTER TABLE t RENAME COLUMN v TO x; ALTER TABLE t RENAME COLUMN w TO v; ALTER TABLE t RENAME COLUMN x TO w",
        "was altered",
    ),
    Alteration::of(
        "DROP TABLE IF EXISTS old; ALTER TABLE t RENAME TO old; CREATE TABLE t (LIKE old INCLUDING ALL)",
        "was replaced by another table of its name",
    ),
    Alteration::of("ALTER TABLE t ADD COLUMN c int", "column 'c' is new"),
    Alteration {
        statements: "ALTER TABLE t SET UNLOGGED",
        message: "",
        refused: Writers::Open,
    },
    Alteration {
        statements: "CREATE RULE gone AS ON INSERT TO t DO INSTEAD NOTHING",
        message: "",
        refused: Writers::Open,
    },
];

#[async_trait]
impl Language for PostgresFixture {
    async fn run(&self, statements: &str) {
        for statement in statements.split(";\n") {
            self.0.run(statement).await;
        }
    }

    fn layouts(&self) -> &'static [Layout] {
        LAYOUTS
    }

    /// A rule and a log are no part of what a plan rests on.
    fn alterations(&self) -> &'static [Alteration] {
        ALTERATIONS
    }

    fn harmless(&self) -> &'static str {
        "VACUUM ANALYZE t"
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
