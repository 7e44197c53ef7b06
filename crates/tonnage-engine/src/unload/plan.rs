//! What an unload would do.

use std::fmt;

use tonnage_core::{
    error::Result,
    reader::{ReadColumn, Relation},
    stop::Stop,
    target::Target,
};
use tonnage_formats::sinks::{Output, check};

use super::{UnloadOptions, files::Files, stream::unless_stopped};

/// What an unload would do, as its connections found it. Prints as `--dry-run` shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct UnloadPlan {
    /// The database and its version.
    pub product: String,
    /// The table or query.
    pub relation: Relation,
    /// A condition in the database's own SQL.
    pub filter: Option<String>,
    /// At most so many rows.
    pub limit: Option<u64>,
    /// The columns, in order.
    pub columns: Vec<ReadColumn>,
    /// Connections that would read.
    pub jobs: usize,
    /// Parts that the work would be cut into.
    pub splits: usize,
    /// The files, `-` for standard output.
    pub files: Vec<String>,
    /// How it comes that all rows are of one state.
    pub consistency: &'static str,
    /// Session settings that would be changed, a line each.
    pub settings_changed: Vec<String>,
    /// What the user should know, a sentence each.
    pub notes: Vec<String>,
}

/// Finds out what an unload would do: opens its connections, reads no row and writes nothing. Errors are those of
/// [`unload`](super::unload).
pub async fn plan(target: &dyn Target, options: &UnloadOptions, stop: &Stop) -> Result<UnloadPlan> {
    let request = options.request()?;
    let files = Files::of(&options.output)?;
    for output in files.outputs(1) {
        // Parts that are there were looked at, and are replaced.
        check(&Output {
            overwrite: output.overwrite || !files.is_one(),
            ..output
        })?;
    }
    let snapshot = unless_stopped(stop, target.scan(&request)).await?;
    let jobs = snapshot.readers.len();
    let outputs = files.outputs(jobs);
    let notes = [snapshot.notes, files.notes(outputs.len())].concat();
    Ok(UnloadPlan {
        product: target.capabilities().product.clone(),
        relation: request.relation,
        filter: request.filter,
        limit: request.limit,
        columns: snapshot.columns,
        jobs,
        splits: snapshot.splits,
        files: outputs
            .iter()
            .map(|output| output.path.display().to_string())
            .collect(),
        consistency: snapshot.consistency,
        settings_changed: snapshot.settings_changed,
        notes,
    })
}

impl fmt::Display for UnloadPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Files that are named; there is one a job.
        const SHOWN: usize = 8;
        let mut line = |name: &str, value: &dyn fmt::Display| writeln!(f, "{name:<12} {value}");
        let indented = |text: &str| text.replace('\n', "\n             ");
        line("database", &self.product)?;
        match &self.relation {
            Relation::Table(name) => line("table", name)?,
            Relation::Query(query) => line("query", &indented(query))?,
        }
        if let Some(filter) = &self.filter {
            line("where", &indented(filter))?;
        }
        if let Some(limit) = self.limit {
            line("limit", &format!("{limit} rows"))?;
        }
        for (index, column) in self.columns.iter().enumerate() {
            let title = if index == 0 { "columns" } else { "" };
            line(title, &format!("{} {}", column.name, column.ty))?;
        }
        line("jobs", &self.jobs)?;
        line("splits", &self.splits)?;
        line("one state", &self.consistency)?;
        for (index, file) in self.files.iter().take(SHOWN).enumerate() {
            let title = if index == 0 { "files" } else { "" };
            line(title, file)?;
        }
        if self.files.len() > SHOWN {
            line("", &format!("and {} more", self.files.len() - SHOWN))?;
        }
        for setting in &self.settings_changed {
            line("setting", setting)?;
        }
        for note in &self.notes {
            line("note", note)?;
        }
        Ok(())
    }
}
