//! MariaDB, MySQL and OceanBase.

use std::sync::Arc;

use async_trait::async_trait;
use tonnage::target::Target;
use tonnage_contract::{Alteration, Exception, Fixture, Language, Layout, Refusing};

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

    /// MySQL's TIMESTAMP begins with 1970 and ends with 2038, MariaDB's with 2106, OceanBase's with 9999.
    fn exceptions(&self) -> &'static [Exception] {
        if self.0.server == Server::OceanBase {
            return &[];
        }
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

    fn other_types(&self) -> &'static [(&'static str, &'static str)] {
        match self.0.server {
            Server::System | Server::Newest | Server::Galera => &[],
            // MariaDB alone has a type for them.
            Server::MySql | Server::OceanBase => &[("uuid", "char(36)")],
        }
    }

    fn table_name(&self, given: &str) -> String {
        match self.0.server {
            // Its lower_case_table_names is 1, and cannot be another one.
            Server::OceanBase => given.to_lowercase(),
            _ => given.to_owned(),
        }
    }

    fn language(&self) -> Option<&dyn Language> {
        Some(self)
    }
}

const LAYOUTS: &[Layout] = &[
    Layout::refusing(
        "CREATE TABLE t (id bigint PRIMARY KEY, v varchar(20) CHECK (v <> 'bad'), w varchar(20))",
    ),
    Layout::refusing("CREATE TABLE t (w text, id decimal(30,2) PRIMARY KEY, v text CHECK (v <> 'bad'))"),
    Layout::refusing("CREATE TABLE t (id varchar(9) PRIMARY KEY, v text CHECK (v <> 'bad'), w text)"),
    Layout::refusing(
        "CREATE TABLE t (v text CHECK (v <> 'bad'), w text, id int UNIQUE NOT NULL, d int DEFAULT 7)",
    ),
    Layout {
        made_by: "CREATE TABLE t (id bigint PRIMARY KEY, v text, w text) PARTITION BY HASH (id) PARTITIONS 3",
        refusing: Refusing::Nothing,
    },
];

const ALTERATIONS: &[Alteration] = &[
    Alteration::of("ALTER TABLE t MODIFY id double", "column 'id' was bigint"),
    Alteration::of("ALTER TABLE t MODIFY v varchar(5)", "and is varchar(5)"),
    Alteration::of("ALTER TABLE t ENGINE = MyISAM", "was altered"),
    Alteration::of(
        "ALTER TABLE t RENAME COLUMN v TO w, RENAME COLUMN w TO v",
        "its columns have another order",
    ),
    Alteration::of(
        "DROP TABLE IF EXISTS old;\nRENAME TABLE t TO old;\nCREATE TABLE t LIKE old",
        "was altered",
    ),
    Alteration::of("ALTER TABLE t ADD COLUMN c int", "column 'c' is new"),
    Alteration::of("ALTER TABLE t ADD UNIQUE (v(9))", "was altered"),
];

/// It has one engine, whatever it is asked for.
const ALTERATIONS_OF_OCEANBASE: &[Alteration] = &[
    ALTERATIONS[0],
    ALTERATIONS[1],
    ALTERATIONS[3],
    ALTERATIONS[4],
    ALTERATIONS[5],
    ALTERATIONS[6],
];

#[async_trait]
impl Language for MariaDbFixture {
    async fn run(&self, statements: &str) {
        self.0.run(statements).await;
    }

    fn layouts(&self) -> &'static [Layout] {
        LAYOUTS
    }

    fn alterations(&self) -> &'static [Alteration] {
        match self.0.server {
            Server::OceanBase => ALTERATIONS_OF_OCEANBASE,
            _ => ALTERATIONS,
        }
    }

    /// Statistics are no alteration.
    fn harmless(&self) -> &'static str {
        "ANALYZE TABLE t"
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

mod on_mysql {
    use super::*;

    tonnage_contract::suites!(MariaDbFixture(TestDatabase::on(Server::MySql).await));
}

mod on_oceanbase {
    use super::*;

    tonnage_contract::suites!(MariaDbFixture(TestDatabase::on(Server::OceanBase).await));
}

/// What a cluster may do otherwise than a server. That a table was dropped and made again alike is not seen there, as each
/// node numbers tables by itself.
mod on_galera {
    use super::*;

    tonnage_contract::suites!(@suite MariaDbFixture(TestDatabase::on(Server::Galera).await), ledger: [
        a_claim_moves_a_slot_once, a_rollback_moves_nothing, an_owner_that_was_taken_over_moves_nothing,
        an_identity_has_one_unfinished_run,
    ]);
    tonnage_contract::suites!(@suite MariaDbFixture(TestDatabase::on(Server::Galera).await), claims: [
        a_retry_learns_what_became_of_its_predecessor, a_take_over_is_the_end_of_what_it_finds_open,
        a_commit_comes_about_or_its_run_is_forgotten, first_runs_at_once_make_one_ledger,
        counts_are_what_the_commit_says,
    ]);
    tonnage_contract::suites!(@suite MariaDbFixture(TestDatabase::on(Server::Galera).await), resume: [a_stopped_run_goes_on]);
    tonnage_contract::suites!(@suite MariaDbFixture(TestDatabase::on(Server::Galera).await), faults: [a_connection_lost_anywhere]);
}
