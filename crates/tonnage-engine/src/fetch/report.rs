//! The account of a get.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use tonnage_core::report::{Grouped, RunState};

/// What a get did. Serialises to the object that `--report` writes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct GetReport {
    /// `finished` or `stopped`.
    pub state: RunState,
    /// The target's URL, its password removed.
    pub target: String,
    /// The table's full name, as the database has it.
    pub table: String,
    /// The columns that keys are of.
    pub key: Vec<String>,
    /// The keys.
    pub keys: KeyCounts,
    /// Rows that were found.
    pub rows: u64,
    /// Times that the database was asked.
    pub requests: u64,
    /// Requests tried again.
    pub retries: u64,
    /// The tables whose rows came with these.
    pub related: Vec<RelatedReport>,
    /// Whether all rows were of the state of one moment; else of that in which each request was answered.
    pub one_state: bool,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Keys read a second.
    pub keys_per_second: f64,
    /// Rows a second.
    pub rows_per_second: f64,
    /// Connections that asked.
    pub jobs: usize,
    /// Keys of a request at most.
    pub request_keys: usize,
    /// Whether keys were answered as often and in the order in which they were asked.
    pub ordered: bool,
    /// Session settings changed.
    pub settings_changed: Vec<String>,
    /// What the user should know.
    pub notes: Vec<String>,
    /// Processor seconds of this process so far; none where the system does not tell.
    pub client_cpu_seconds: Option<f64>,
    /// Peak resident memory of this process; none where the system does not tell.
    pub peak_memory_bytes: Option<u64>,
}

/// What came of another table.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RelatedReport {
    /// The table.
    pub table: String,
    /// The columns that it is joined by, as `--on` takes them.
    pub on: String,
    /// The keys that rows had of it; where its rows are nested, those that were asked for.
    pub keys: KeyCounts,
    /// Rows that were found.
    pub rows: u64,
    /// Times that the database was asked.
    pub requests: u64,
    /// Requests tried again.
    pub retries: u64,
}

/// Keys by what became of them: `distinct = found + missing`, or `asked = found + missing` where nobody counts the
/// distinct ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeyCounts {
    /// Keys read, repeated ones too.
    pub asked: u64,
    /// Keys that differ; none where keys are answered as often as asked.
    pub distinct: Option<u64>,
    /// Keys with rows.
    pub found: u64,
    /// Keys without.
    pub missing: u64,
}

impl KeyCounts {
    /// Whether the account balances.
    pub fn balance(&self) -> bool {
        let handled = self.distinct.unwrap_or(self.asked);
        handled == self.found + self.missing && handled <= self.asked
    }
}

impl fmt::Display for KeyCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} asked", Grouped(self.asked))?;
        if let Some(distinct) = self.distinct.filter(|distinct| *distinct != self.asked) {
            write!(f, ", {} distinct", Grouped(distinct))?;
        }
        write!(
            f,
            " = {} found + {} missing",
            Grouped(self.found),
            Grouped(self.missing)
        )
    }
}
