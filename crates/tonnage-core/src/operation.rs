//! What happens to a row, how rows travel, and what a commit promises.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::statement::Statement;

/// What happens to a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Every row is new; a row whose key exists is bad.
    Insert,
    /// A row whose key exists replaces the loaded columns of the row that is there.
    Upsert {
        /// The columns that recognise a row: exactly those of a primary or unique key, as the table spells them.
        key: Vec<String>,
    },
    /// A row whose key exists is left out; of equal keys in the source the first one counts.
    Ignore {
        /// As for [`Operation::Upsert`].
        key: Vec<String>,
    },
    /// A row changes the other loaded columns of the row that has its key; without one it is left out.
    Update {
        /// As for [`Operation::Upsert`].
        key: Vec<String>,
    },
    /// A row removes the row that has its key; without one it is left out. Only key columns are sent.
    Delete {
        /// As for [`Operation::Upsert`].
        key: Vec<String>,
    },
    /// A row gives the parameters of one execution of a statement of the user's.
    Statement {
        /// The statement.
        statement: Arc<Statement>,
        /// Parameters that say what an execution touches: executions that differ in them touch different rows. Empty
        /// where nothing says so.
        key: Vec<String>,
    },
}

/// Which operation it is, without its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// See [`Operation::Insert`].
    Insert,
    /// See [`Operation::Upsert`].
    Upsert,
    /// See [`Operation::Ignore`].
    Ignore,
    /// See [`Operation::Update`].
    Update,
    /// See [`Operation::Delete`].
    Delete,
    /// See [`Operation::Statement`].
    Statement,
}

impl OperationKind {
    /// Its name on the command line, in reports and in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Upsert => "upsert",
            Self::Ignore => "ignore",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Statement => "statement",
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Operation {
    /// Which one it is.
    pub fn kind(&self) -> OperationKind {
        match self {
            Self::Insert => OperationKind::Insert,
            Self::Upsert { .. } => OperationKind::Upsert,
            Self::Ignore { .. } => OperationKind::Ignore,
            Self::Update { .. } => OperationKind::Update,
            Self::Delete { .. } => OperationKind::Delete,
            Self::Statement { .. } => OperationKind::Statement,
        }
    }

    /// Its name on the command line and in reports.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// The columns that identify a row; empty where the operation has no key.
    pub fn key(&self) -> &[String] {
        match self {
            Self::Insert => &[],
            Self::Upsert { key } | Self::Ignore { key } | Self::Update { key } | Self::Delete { key } => key,
            Self::Statement { key, .. } => key,
        }
    }

    /// Whether the rows that it leaves out are those whose key is there; else they are those whose key is not.
    pub fn leaves_out_present(&self) -> bool {
        match self {
            Self::Ignore { .. } => true,
            Self::Statement { statement, .. } => statement.may_conflict(),
            Self::Insert | Self::Upsert { .. } | Self::Update { .. } | Self::Delete { .. } => false,
        }
    }
}

/// The operation by name; its key is resolved by the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// See [`Operation::Insert`].
    Insert,
    /// See [`Operation::Upsert`].
    Upsert,
    /// See [`Operation::Ignore`].
    Ignore,
    /// See [`Operation::Update`].
    Update,
    /// See [`Operation::Delete`].
    Delete,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Insert,
        Self::Upsert,
        Self::Ignore,
        Self::Update,
        Self::Delete,
    ];

    /// The operation which it asks for.
    pub fn kind(self) -> OperationKind {
        match self {
            Self::Insert => OperationKind::Insert,
            Self::Upsert => OperationKind::Upsert,
            Self::Ignore => OperationKind::Ignore,
            Self::Update => OperationKind::Update,
            Self::Delete => OperationKind::Delete,
        }
    }

    /// Its name, as that of the operation which it asks for.
    pub fn name(self) -> &'static str {
        self.kind().name()
    }

    /// As the subject of a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Insert => "an insert",
            Self::Upsert => "an upsert",
            Self::Ignore => "--mode ignore",
            Self::Update => "an update",
            Self::Delete => "a delete",
        }
    }
}

/// How rows travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// A row a statement, a commit a row.
    Single,
    /// A row a statement, a commit a batch.
    Batch,
    /// Many rows a statement.
    Array,
    /// The database's own bulk path: COPY, or an embedded engine's prepared statement in large transactions.
    Native,
}

impl Method {
    /// All of them, from a row a statement to the database's own path.
    pub const ALL: [Self; 4] = [Self::Single, Self::Batch, Self::Array, Self::Native];

    /// Its name on the command line, in reports and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Batch => "batch",
            Self::Array => "array",
            Self::Native => "native",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a commit promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Taken by some node, be it one that only keeps it for those that are away: nothing reads it yet.
    None,
    /// Committed rows survive a crash of the process; the last ones may be lost with the machine. Never corrupts. Of
    /// a database of many machines: one replica has it.
    Relaxed,
    /// Committed rows survive the loss of power.
    Durable,
    /// More than half of a row's replicas have it, which says nothing of their disks.
    Majority,
    /// All replicas have it, which says nothing of their disks.
    All,
}

impl Durability {
    /// What is not promised, in a sentence; none where nothing is left open.
    pub fn given_up(self) -> Option<&'static str> {
        match self {
            Self::None => Some(
                "durability none: a write is acknowledged by any node, which may not hold the row itself; rows may be \
                 lost with that node and are not read until it has passed them on",
            ),
            Self::Relaxed => Some("durability relaxed: the last commits may be lost if the machine fails"),
            Self::Durable => None,
            Self::Majority => Some(
                "durability majority: an acknowledgement of most replicas is not an fsync; the last writes may be lost \
                 if most of them lose power at once",
            ),
            Self::All => Some(
                "durability all: an acknowledgement of all replicas is not an fsync; the last writes may be lost if \
                 all of them lose power at once",
            ),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Relaxed => "relaxed",
            Self::Durable => "durable",
            Self::Majority => "majority",
            Self::All => "all",
        })
    }
}

/// Whether a target can do something; if not, why, and what can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Support {
    /// It can.
    Yes,
    /// It cannot.
    No {
        /// The reason.
        why: String,
        /// What to use instead.
        instead: String,
    },
}

impl Support {
    /// It cannot.
    pub fn no(why: impl Into<String>, instead: impl Into<String>) -> Self {
        Self::No {
            why: why.into(),
            instead: instead.into(),
        }
    }
}

/// What becomes of statements that the database would split into several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// They are kept below the size from which on it splits them.
    Auto,
    /// They are larger, and a setting forbids it to split them.
    None,
}
