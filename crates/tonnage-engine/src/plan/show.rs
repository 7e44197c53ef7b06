//! The plan for people.

use std::fmt;

use tonnage_core::operation::Operation;

use super::{LedgerPlace, OnError, Plan, Rate, SlotBy, Sort};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, value: &dyn fmt::Display| writeln!(f, "{name:<12} {value}");
        line("database", &self.product)?;
        if let Some(create) = &self.create {
            line("create", &create.replace('\n', "\n             "))?;
        }
        let mut title = "columns";
        if let Operation::Statement { statement, .. } = &self.operation {
            line("statement", &statement.text().replace('\n', "\n             "))?;
            title = "parameters";
        }
        line("table", &self.table.name)?;
        let key = self.operation.key();
        match key.is_empty() {
            true => line("operation", &self.operation.name())?,
            false => line(
                "operation",
                &format!("{} by ({})", self.operation.name(), key.join(", ")),
            )?,
        }
        line("method", &self.method)?;
        for (index, column) in self.columns.iter().enumerate() {
            let from = match column.source_name == column.name {
                true => String::new(),
                false => format!(" from {}", column.source_name),
            };
            let title = if index == 0 { title } else { "" };
            line(title, &format!("{} {}{from}", column.name, column.ty))?;
        }
        line("jobs", &self.jobs)?;
        line(
            "write",
            &format!(
                "at most {} rows, {}; {}",
                self.batch_rows,
                Bytes(self.batch_bytes),
                match self.single_transaction {
                    true => "one commit for all",
                    false => "a commit each",
                }
            ),
        )?;
        if let Some(most) = &self.statement_max {
            let rows = match most.rows {
                usize::MAX => String::new(),
                rows => format!("{rows} rows, "),
            };
            line(
                "statements",
                &format!("at most {rows}{} each; {}", Bytes(most.bytes), most.why),
            )?;
        }
        if let Some(routing) = &self.routing {
            let shards = routing.router.shards();
            let more = match shards.len() {
                0..=8 => "",
                _ => ", ..",
            };
            let names: Vec<_> = shards.iter().take(8).map(String::as_str).collect();
            line("shards", &format!("{}: {}{more}", shards.len(), names.join(", ")))?;
        }
        line(
            "block",
            &format!(
                "at most {} rows, about {}; {}",
                self.block_rows,
                Bytes(self.block_bytes),
                match self.slot_by {
                    SlotBy::One => "one slot".to_owned(),
                    by => format!("{} slots by {}", self.slots, by.name()),
                }
            ),
        )?;
        let names: Vec<_> = self
            .sort_by
            .iter()
            .map(|at| self.columns[*at].name.as_str())
            .collect();
        match self.sort {
            Sort::None => line("sort", &"none")?,
            Sort::Block => line("sort", &format!("within a block by ({})", names.join(", ")))?,
            Sort::Full => line(
                "sort",
                &format!(
                    "the whole source by ({}), in {} of memory, the rest in temporary files",
                    names.join(", "),
                    Bytes(self.sort_bytes_max)
                ),
            )?,
        }
        line("durability", &self.durability)?;
        let ledger = match self.ledger {
            LedgerPlace::Target => "in the target, in the transactions of the rows",
            LedgerPlace::Local => "in a local file, after the rows",
            LedgerPlace::None => "none",
        };
        line("ledger", &ledger)?;
        match self.on_error {
            OnError::Stop => line("bad rows", &"stop at the first")?,
            OnError::Reject => line(
                "bad rows",
                &format!("to the rejects file, at most {}", self.rejects_max),
            )?,
        }
        match self.single_transaction {
            true => line("attempts", &"one")?,
            false => line(
                "attempts",
                &format!(
                    "{} at a write, within {} s",
                    self.attempts_max,
                    self.attempts_time_max.as_secs()
                ),
            )?,
        }
        line("queue", &format!("at most {}", Bytes(self.queue_bytes_max)))?;
        match self.rate {
            Some(rate @ Rate::Offered(_)) => line("rate", &rate.to_string())?,
            Some(rate) => line("rate", &format!("at most {rate}"))?,
            None => {}
        }
        if let Some(limit) = self.limit {
            line("limit", &format!("{limit} rows"))?;
        }
        for setting in &self.settings_changed {
            line("setting", setting)?;
        }
        for lost in &self.guarantees_lost {
            line("given up", lost)?;
        }
        for note in &self.notes {
            line("note", note)?;
        }
        Ok(())
    }
}

/// Bytes for people: `8.0 MiB`.
pub struct Bytes(pub usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        match unit {
            0 => write!(f, "{} B", self.0),
            _ => write!(f, "{value:.1} {}", UNITS[unit]),
        }
    }
}
