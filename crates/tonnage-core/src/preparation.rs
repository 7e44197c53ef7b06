//! What a run does to its table around its rows.
//!
//! A preparation is done in the transaction that starts the run ([`Ledger::start`](crate::ledger::Ledger::start)), which
//! records what is then owed to the table as [`Pending`]; it is settled in the transaction that finishes the run
//! ([`Ledger::finish`](crate::ledger::Ledger::finish)), or undone in the one that forgets it
//! ([`Ledger::forget`](crate::ledger::Ledger::forget)). So a table whose indexes are missing, or that is to be replaced,
//! always has an unfinished run that says so, and whoever finishes or forgets that run puts it right, exactly once.

use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, ErrorKind, Result},
    table::TableName,
};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preparation {
    /// The table is as it is.
    Keep,
    /// It is emptied before its rows come.
    Truncate,
    /// Rows go into a table that is made like it, the shadow, which takes its place at the end.
    Recreate,
    /// Its secondary indexes are dropped before its rows come and built again at the end.
    RebuildIndexes {
        /// Whether it is emptied before; else it must be empty.
        truncate: bool,
    },
}

impl Preparation {
    /// Whether the table itself is emptied.
    pub fn truncates(self) -> bool {
        matches!(self, Self::Truncate | Self::RebuildIndexes { truncate: true })
    }

    /// The option that asks for it, where something is owed to the table afterwards.
    pub fn option(self) -> Option<&'static str> {
        match self {
            Self::Keep | Self::Truncate => None,
            Self::Recreate => Some("--recreate"),
            Self::RebuildIndexes { .. } => Some("--rebuild-indexes"),
        }
    }
}

/// What an unfinished run owes to its table. Stored in the ledger as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The table.
    pub table: TableName,
    /// The table that is to take its place.
    pub shadow: Option<TableName>,
    /// The indexes that are to be built on it.
    pub indexes: Vec<IndexDefinition>,
}

/// An index that was dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexDefinition {
    /// Its name, without a schema.
    pub name: String,
    /// The statement that makes it.
    pub definition: String,
    /// What is said of it.
    pub comment: Option<String>,
}

/// What a preparation will do to a table at hand, for the plan.
#[derive(Debug, Clone, Default)]
pub struct PreparationEffects {
    /// What a user should know, a sentence each.
    pub notes: Vec<String>,
    /// Settings of the session that differ while it is settled, a line each.
    pub settings: Vec<String>,
}

/// The shadow of a table in a run: in the table's schema, under a name that no other run uses.
pub fn shadow(table: &TableName, run_id: &str) -> TableName {
    TableName {
        schema: table.schema.clone(),
        name: format!("tonnage_{run_id}"),
    }
}

/// The refusal of a table that something depends on, or that has what a shadow cannot have.
pub fn not_recreatable(table: &TableName, reasons: &[String]) -> Result<()> {
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Schema,
        format!("{table} cannot be recreated: {}", reasons.join("; ")),
    )
    .hint("--truncate empties the table and leaves everything else about it as it is"))
}

/// The refusal of a table that has rows, where one without is needed.
pub fn not_empty(table: &TableName) -> Error {
    Error::new(
        ErrorKind::Schema,
        format!("--rebuild-indexes needs an empty table, and {table} has rows"),
    )
    .hint("--truncate empties it first; without --rebuild-indexes its indexes are kept up")
}

/// The refusal to put a shadow in the place of a table that is no longer what the shadow was made like.
pub fn altered(table: &TableName) -> Error {
    Error::new(
        ErrorKind::Schema,
        format!("{table} was altered or replaced while the table that is to take its place was loaded"),
    )
    .hint("--restart makes it anew, or `tonnage runs TARGET --forget RUN` gives it up")
}
