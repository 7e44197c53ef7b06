//! What a comparison found, for people and as JSON.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tonnage_core::report::{Counted, Grouped};

/// Characters of a value that are shown of a line of text.
const SHOWN_CHARS: usize = 60;

/// How rows compare with those of a table. Serialises to the object that `--report` writes; its text is what a terminal
/// shows.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VerifyReport {
    /// What the rows were read from, its password removed.
    pub source: String,
    /// The table's database, its password removed.
    pub target: String,
    /// The table's full name, as the database has it.
    pub table: String,
    /// Whether nothing differs.
    pub agrees: bool,
    /// The columns that were compared, by their names in the table.
    pub columns: Vec<String>,
    /// The columns that identified rows; empty where rows were compared by their values alone.
    pub key: Vec<String>,
    /// How many rows there are.
    pub rows: RowsCompared,
    /// Sums of the hashes of all rows, whatever their order; none where a part of the table was compared.
    pub checksums: Option<Checksums>,
    /// What differs, counted; none where it could not be found out, which a note explains.
    pub differing: Option<Differing>,
    /// The first of it: so many of a kind at most as were asked for.
    pub differences: Vec<Difference>,
    /// What a user should know, a sentence each.
    pub notes: Vec<String>,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Workers a side.
    pub jobs: usize,
}

/// How many rows there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RowsCompared {
    /// In the source, with those that the table cannot hold; without rows that were left out because they were rejected.
    pub source: u64,
    /// In the table.
    pub table: u64,
}

/// Sums of the hashes of all rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Checksums {
    /// Of the source: 128 bits in hexadecimal.
    pub source: String,
    /// Of the table.
    pub table: String,
    /// Parts that rows are cut into by the hash of their key, with a sum each.
    pub splits: usize,
    /// Those whose sums differ.
    pub splits_differing: usize,
}

/// What differs, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Differing {
    /// Rows of the source that the table lacks.
    pub missing: u64,
    /// Rows of the table that the source lacks.
    pub extra: u64,
    /// Rows whose key is on both sides and whose other values are not the same.
    pub changed: u64,
    /// Rows of the source that the table cannot hold.
    pub bad: u64,
}

impl Differing {
    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A row that differs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// What is so.
    pub kind: Kind,
    /// How often, where rows are the same in all that is compared.
    pub times: u64,
    /// The file of the source, where it is one.
    pub file: Option<String>,
    /// The row of the file, from 1.
    pub row: Option<u64>,
    /// The values that tell the row: of its key, or all; what is null is null, everything else text.
    pub values: Map<String, Value>,
    /// The columns that differ.
    pub columns: Vec<ColumnDifference>,
    /// What is wrong with a bad row.
    pub message: Option<String>,
}

/// How a row differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The table lacks it.
    Missing,
    /// The source lacks it.
    Extra,
    /// Its values are others.
    Changed,
    /// The table cannot hold it.
    Bad,
}

/// A value that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ColumnDifference {
    /// The column.
    pub name: String,
    /// Its value in the source; none for null.
    pub source: Option<String>,
    /// Its value in the table; none for null.
    pub table: Option<String>,
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            target,
            table,
            rows,
            ..
        } = self;
        let verdict = if self.agrees { "agree" } else { "differ" };
        writeln!(
            f,
            "{source} and {table} of {target} {verdict}: {} in the source, {} in the table",
            Counted(rows.source, "row"),
            Grouped(rows.table)
        )?;
        let by = match self.key.is_empty() {
            true => "by value".to_owned(),
            false => format!("by {}", self.key.join(", ")),
        };
        writeln!(
            f,
            "  compared {by}, {} in {:.2} s",
            Counted(self.columns.len() as u64, "column"),
            self.seconds
        )?;
        if let Some(checksums) = &self.checksums {
            match checksums.source == checksums.table {
                true => writeln!(f, "  checksum {}", checksums.source)?,
                false => writeln!(
                    f,
                    "  checksum {} in the source, {} in the table",
                    checksums.source, checksums.table
                )?,
            }
        }
        if let Some(found) = self.differing.filter(|found| !found.is_none()) {
            writeln!(f, "  {}", counts(&found))?;
        }
        for difference in &self.differences {
            writeln!(f, "  {difference}")?;
        }
        for note in &self.notes {
            writeln!(f, "  note: {note}")?;
        }
        Ok(())
    }
}

fn counts(found: &Differing) -> String {
    let kinds = [
        (found.missing, "missing in the table"),
        (found.extra, "only in the table"),
        (found.changed, "with other values"),
        (found.bad, "that the table cannot hold"),
    ];
    let counted = kinds.iter().filter(|(count, _)| *count > 0);
    let counted: Vec<_> = counted
        .map(|(count, what)| format!("{} {what}", Counted(*count, "row")))
        .collect();
    counted.join(", ")
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.iter().map(|(name, value)| match value {
            Value::String(text) => format!("{name}={}", shown(Some(text))),
            _ => format!("{name}=null"),
        });
        let values = values.collect::<Vec<_>>().join(", ");
        let times = match self.times {
            0 | 1 => String::new(),
            times => format!(" {} times", Grouped(times)),
        };
        let place = match (&self.file, self.row) {
            (Some(file), Some(row)) => format!(" ({file} row {row})"),
            _ => String::new(),
        };
        match self.kind {
            Kind::Missing => write!(f, "missing in the table{times}: {values}{place}"),
            Kind::Extra => write!(f, "only in the table{times}: {values}"),
            Kind::Changed => {
                let columns = self.columns.iter().map(|column| {
                    let (source, table) = (shown(column.source.as_ref()), shown(column.table.as_ref()));
                    format!(
                        "{} is {source} in the source and {table} in the table",
                        column.name
                    )
                });
                let columns = columns.collect::<Vec<_>>().join("; ");
                write!(f, "{values}{place}: {columns}")
            }
            Kind::Bad => {
                let message = self.message.as_deref().unwrap_or_default();
                write!(f, "the table cannot hold{place}: {message}")
            }
        }
    }
}

/// A value on a line: null, or its text, cut and quoted where it could be taken for something else.
fn shown(value: Option<&String>) -> String {
    let Some(text) = value else {
        return "null".to_owned();
    };
    let mut cut: String = text.chars().take(SHOWN_CHARS).collect();
    if cut.len() < text.len() {
        cut.push_str("..");
    }
    let is_plain = |c: char| !c.is_control() && !matches!(c, '\'' | ',' | ';');
    match !cut.is_empty() && cut != "null" && cut.trim() == cut && cut.chars().all(is_plain) {
        true => cut,
        false => {
            let mut quoted = String::from("'");
            for c in cut.chars() {
                match c.is_control() {
                    true => quoted.extend(c.escape_debug()),
                    false => quoted.push(c),
                }
            }
            quoted + "'"
        }
    }
}
