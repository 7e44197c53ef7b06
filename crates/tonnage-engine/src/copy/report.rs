//! The account of a copy.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use tonnage_core::report::{Counted, Grouped, RunState};

/// What a copy did. Serialises to the object that `--report` writes; its text is what a terminal shows.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct CopyReport {
    /// How it ended: stopped on request, or where a table or something of it failed.
    pub state: RunState,
    /// The database that was copied, its password removed.
    pub source: String,
    /// The database that it was copied into, its password removed.
    pub target: String,
    /// The tables, in the order in which they were copied.
    pub tables: Vec<TableReport>,
    /// The rows of all tables.
    pub rows: CopyRows,
    /// What was not copied, a few words each.
    pub left_out: Vec<String>,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// Rows of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CopyRows {
    /// Read from the source.
    pub read: u64,
    /// Committed in the target.
    pub written: u64,
}

/// What became of a table.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TableReport {
    /// Its name in the source.
    pub source: String,
    /// Its name in the target.
    pub table: String,
    /// What became of it.
    pub state: TableState,
    /// Its rows.
    pub rows: CopyRows,
    /// Whether the table was compared with its source and has the same rows; none where it was not compared.
    pub agrees: Option<bool>,
    /// Keys, indexes, checks and counters that were made after its rows.
    pub made_after_rows: u64,
    /// Foreign keys that were made, or that were looked through.
    pub foreign_keys: u64,
    /// What failed, a sentence each.
    pub errors: Vec<String>,
    /// Wall-clock seconds, without its foreign keys.
    pub seconds: f64,
}

/// What became of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TableState {
    /// It is there with all rows and all that belongs to it.
    Copied,
    /// It was there with all rows, from an earlier attempt.
    Kept,
    /// It is not whole: see its errors.
    Failed,
    /// The copy ended before it was its turn.
    NotBegun,
}

impl CopyReport {
    /// How many tables are not whole.
    pub fn failed(&self) -> u64 {
        let failed = |table: &&TableReport| matches!(table.state, TableState::Failed | TableState::NotBegun);
        self.tables.iter().filter(failed).count() as u64
    }
}

impl fmt::Display for TableReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, table, .. } = self;
        match source == table {
            true => write!(f, "{source}: ")?,
            false => write!(f, "{source} as {table}: ")?,
        }
        match self.state {
            TableState::Copied => write!(
                f,
                "{} in {:.2} s",
                Counted(self.rows.written, "row"),
                self.seconds
            )?,
            TableState::Kept => f.write_str("was there, from an earlier attempt")?,
            TableState::Failed => write!(f, "failed, {} written", Counted(self.rows.written, "row"))?,
            TableState::NotBegun => f.write_str("not begun")?,
        }
        if self.agrees == Some(true) {
            f.write_str(", the same as in the source")?;
        }
        for error in &self.errors {
            write!(f, "\n  {error}")?;
        }
        Ok(())
    }
}

impl fmt::Display for CopyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |state| self.tables.iter().filter(|table| table.state == state).count() as u64;
        write!(
            f,
            "{} of {} to {}: {} of {} rows in {:.2} s",
            self.source,
            Counted(self.tables.len() as u64, "table"),
            self.target,
            Grouped(self.rows.written),
            Grouped(self.rows.read),
            self.seconds
        )?;
        let states = [
            (TableState::Kept, "there before"),
            (TableState::Failed, "failed"),
            (TableState::NotBegun, "not begun"),
        ];
        for (state, what) in states {
            let count = count(state);
            if count > 0 {
                write!(f, ", {} {what}", Counted(count, "table"))?;
            }
        }
        writeln!(f)?;
        let failed = self.tables.iter().filter(|table| !table.errors.is_empty());
        for table in failed {
            writeln!(f, "  {}", table.to_string().replace('\n', "\n  "))?;
        }
        for left_out in &self.left_out {
            writeln!(f, "  not copied: {left_out}")?;
        }
        Ok(())
    }
}
