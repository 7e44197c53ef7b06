//! The plan for people.

use std::fmt;

use tonnage_core::operation::Operation;

use super::{LedgerPlace, OnError, Plan, Rate, SlotBy, Sort};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Lines(f);
        lines.what(self)?;
        lines.sizes(self)?;
        lines.order(self)?;
        lines.promises(self)?;
        lines.bounds(self)?;
        for setting in &self.settings_changed {
            lines.line("setting", setting)?;
        }
        for lost in &self.guarantees_lost {
            lines.line("given up", lost)?;
        }
        for note in &self.notes {
            lines.line("note", note)?;
        }
        Ok(())
    }
}

/// Writes a line a decision, its name first.
struct Lines<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Lines<'_, '_> {
    fn line(&mut self, name: &str, value: impl fmt::Display) -> fmt::Result {
        writeln!(self.0, "{name:<12} {value}")
    }

    /// What is done to which columns.
    fn what(&mut self, plan: &Plan) -> fmt::Result {
        self.line("database", &plan.product)?;
        if let Some(create) = &plan.create {
            self.line("create", create.replace('\n', "\n             "))?;
        }
        let mut title = "columns";
        if let Operation::Statement { statement, .. } = &plan.operation {
            self.line("statement", statement.text().replace('\n', "\n             "))?;
            title = "parameters";
        }
        self.line("table", &plan.table.name)?;
        let (operation, key) = (plan.operation.name(), plan.operation.key());
        match key.is_empty() {
            true => self.line("operation", operation)?,
            false => self.line("operation", format!("{operation} by ({})", key.join(", ")))?,
        }
        self.line("method", plan.method)?;
        for (index, column) in plan.columns.iter().enumerate() {
            let from = match column.source_name == column.name {
                true => String::new(),
                false => format!(" from {}", column.source_name),
            };
            let title = if index == 0 { title } else { "" };
            self.line(title, format!("{} {}{from}", column.name, column.ty))?;
        }
        Ok(())
    }

    /// How much goes at once, and where.
    fn sizes(&mut self, plan: &Plan) -> fmt::Result {
        self.line("jobs", plan.jobs)?;
        let commits = match plan.single_transaction {
            true => "one commit for all",
            false => "a commit each",
        };
        let bytes = Bytes(plan.batch_bytes);
        self.line(
            "write",
            format!("at most {} rows, {bytes}; {commits}", plan.batch_rows),
        )?;
        if let Some(most) = &plan.statement_max {
            let rows = match most.rows {
                usize::MAX => String::new(),
                rows => format!("{rows} rows, "),
            };
            let bytes = Bytes(most.bytes);
            self.line("statements", format!("at most {rows}{bytes} each; {}", most.why))?;
        }
        if let Some(routing) = &plan.routing {
            let shards = routing.router.shards();
            let more = match shards.len() {
                0..=8 => "",
                _ => ", ..",
            };
            let names: Vec<_> = shards.iter().take(8).map(String::as_str).collect();
            self.line("shards", format!("{}: {}{more}", shards.len(), names.join(", ")))?;
        }
        Ok(())
    }

    /// In which order rows go.
    fn order(&mut self, plan: &Plan) -> fmt::Result {
        let slots = match plan.slot_by {
            SlotBy::One => "one slot".to_owned(),
            by => format!("{} slots by {}", plan.slots, by.name()),
        };
        let bytes = Bytes(plan.block_bytes);
        self.line(
            "block",
            format!("at most {} rows, about {bytes}; {slots}", plan.block_rows),
        )?;
        let names = plan.sort_by.iter().map(|at| plan.columns[*at].name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        match plan.sort {
            Sort::None => self.line("sort", "none"),
            Sort::Block => self.line("sort", format!("within a block by ({names})")),
            Sort::Full => self.line(
                "sort",
                format!(
                    "the whole source by ({names}), in {} of memory, the rest in temporary files",
                    Bytes(plan.sort_bytes_max)
                ),
            ),
        }
    }

    /// What holds of the rows that are written, and of those that are not.
    fn promises(&mut self, plan: &Plan) -> fmt::Result {
        self.line("durability", plan.durability)?;
        let ledger = match plan.ledger {
            LedgerPlace::Target => "in the target, in the transactions of the rows",
            LedgerPlace::Local => "in a local file, after the rows",
            LedgerPlace::None => "none",
        };
        self.line("ledger", ledger)?;
        match plan.on_error {
            OnError::Stop => self.line("bad rows", "stop at the first"),
            OnError::Reject => self.line(
                "bad rows",
                format!("to the rejects file, at most {}", plan.rejects_max),
            ),
        }
    }

    /// What is done at most.
    fn bounds(&mut self, plan: &Plan) -> fmt::Result {
        let seconds = plan.attempts_time_max.as_secs();
        match plan.single_transaction {
            true => self.line("attempts", "one")?,
            false => self.line(
                "attempts",
                format!("{} at a write, within {seconds} s", plan.attempts_max),
            )?,
        }
        self.line("queue", format!("at most {}", Bytes(plan.queue_bytes_max)))?;
        match plan.rate {
            Some(rate @ Rate::Offered(_)) => self.line("rate", rate)?,
            Some(rate) => self.line("rate", format!("at most {rate}"))?,
            None => {}
        }
        match plan.limit {
            Some(limit) => self.line("limit", format!("{limit} rows")),
            None => Ok(()),
        }
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
