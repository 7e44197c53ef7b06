//! What somebody else does to the table in the middle of a load, and how it is undone.

use super::{
    scenario::Scenario,
    target::{Kind, Target},
};

/// See the module.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// The table gets another name, and an empty one like it has its name.
    Swap,
    /// The table gets a column.
    Column,
    /// A column gets another type, which holds every value of it.
    Type,
    /// A partition becomes a table of its own.
    Partition,
}

impl Change {
    pub fn name(self) -> &'static str {
        match self {
            Self::Swap => "the table replaced",
            Self::Column => "a column added",
            Self::Type => "a column's type changed",
            Self::Partition => "a partition detached",
        }
    }
}

impl Target {
    /// What can be done to its table.
    pub fn changes(&self) -> &'static [Change] {
        use Change::{Column, Partition, Swap, Type};
        match &self.kind {
            Kind::Sqlite => &[Swap, Column],
            Kind::Postgres { partitions: "", .. } => &[Swap, Column, Type],
            // There a type is changed by making the table anew, which no run goes on with.
            Kind::MariaDb(_) => &[Swap, Column],
            Kind::Postgres { .. } => &[Swap, Column, Type, Partition],
            Kind::Cassandra { .. } => &[Column],
        }
    }

    /// Makes the change.
    pub fn alter(&self, change: Change, scenario: &Scenario) {
        let statements: &[&str] = match (change, &self.kind) {
            (Change::Swap, Kind::MariaDb(_)) => &[
                "CREATE TABLE impostor LIKE items",
                "RENAME TABLE items TO aside, impostor TO items",
            ],
            (Change::Swap, Kind::Sqlite) => &["BEGIN IMMEDIATE; ALTER TABLE items RENAME TO aside; \
                 CREATE TABLE items (id integer PRIMARY KEY, label text NOT NULL, quantity bigint NOT NULL, \
                 amount decimal(12,2), note text); COMMIT"],
            (Change::Swap, _) => {
                &["ALTER TABLE items RENAME TO aside; CREATE TABLE items (LIKE aside INCLUDING ALL)"]
            }
            (Change::Column, Kind::Cassandra { .. }) => &["ALTER TABLE items ADD extra int"],
            (Change::Column, _) => &["ALTER TABLE items ADD COLUMN extra integer"],
            (Change::Type, _) => &["ALTER TABLE items ALTER quantity TYPE double precision"],
            (Change::Partition, _) => &["ALTER TABLE items DETACH PARTITION items_1"],
        };
        for statement in statements {
            self.execute(scenario, statement);
        }
    }

    /// Undoes it. What has taken the table's place has got no row.
    pub fn alter_back(&self, change: Change, scenario: &Scenario) {
        let statements: &[&str] = match (change, &self.kind) {
            (Change::Swap, kind) => {
                let found = self
                    .ask(scenario, "SELECT id FROM items")
                    .expect("it can be read");
                assert_eq!(
                    found.len(),
                    0,
                    "rows went into a table that took the place of another"
                );
                match kind {
                    Kind::MariaDb(_) => &["DROP TABLE items", "RENAME TABLE aside TO items"],
                    Kind::Sqlite => {
                        &["BEGIN IMMEDIATE; DROP TABLE items; ALTER TABLE aside RENAME TO items; COMMIT"]
                    }
                    _ => &["DROP TABLE items; ALTER TABLE aside RENAME TO items"],
                }
            }
            (Change::Column, Kind::Cassandra { .. }) => &["ALTER TABLE items DROP extra"],
            (Change::Column, _) => &["ALTER TABLE items DROP COLUMN extra"],
            (Change::Type, _) => &["ALTER TABLE items ALTER quantity TYPE bigint"],
            (Change::Partition, _) => {
                &["ALTER TABLE items ATTACH PARTITION items_1 FOR VALUES WITH (MODULUS 3, REMAINDER 1)"]
            }
        };
        for statement in statements {
            self.execute(scenario, statement);
        }
    }
}
