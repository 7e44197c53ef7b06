//! The account of a command as one JSON object.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use tonnage::{Error, ErrorKind, Result, sinks};
use tonnage_places::url_of;

use crate::{Ending, paths::can_report};

/// Where the account goes.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Print the account as one JSON object
    #[arg(long, help_heading = "What to show")]
    json: bool,

    /// Write the account as one JSON object to PATH (- is standard output)
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with = "json",
        help_heading = "What to show"
    )]
    report: Option<PathBuf>,
}

impl ReportArgs {
    /// The file, `-` for standard output; none where nobody asked.
    pub fn path(&self) -> Option<&Path> {
        match self.json {
            true => Some(Path::new("-")),
            false => self.report.as_deref(),
        }
    }
}

/// The name of the schema of all reports, which is in `docs/reference`.
const SCHEMA: &str = "report.schema.json";

/// When the command began.
static STARTED: Mutex<Option<jiff::Timestamp>> = Mutex::new(None);

/// Takes note that a command begins.
pub fn begin() {
    *STARTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(jiff::Timestamp::now());
}

/// What every report has besides its own fields.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Marked<'a, R> {
    /// The version that wrote it.
    pub tonnage: &'static str,
    /// What its fields mean: `docs/reference/report.schema.json`.
    #[serde(rename = "$schema")]
    pub schema: &'static str,
    /// When the command began, in UTC: `2024-02-29T23:59:58Z`.
    pub started: String,
    /// When the report was written, in UTC.
    pub ended: String,
    /// The report itself.
    #[serde(flatten)]
    pub report: &'a R,
}

/// Gives reports one shape: `rows` is an object in all of them, where some count only rows that were written, and `state`
/// says how the command ended.
fn shape(report: &mut Value) {
    let Some(fields) = report.as_object_mut() else {
        return;
    };
    if let Some(rows) = fields.get("rows").filter(|rows| rows.is_number()) {
        let rows = json!({ "written": rows });
        fields.insert("rows".to_owned(), rows);
    }
    if !fields.contains_key("state") {
        let is_closed = fields.get("closed").and_then(Value::as_bool).unwrap_or(false);
        let unfinished = fields.get("rows").and_then(|rows| rows.get("unfinished"));
        let is_stopped = is_closed || unfinished.and_then(Value::as_u64).unwrap_or(0) > 0;
        let state = if is_stopped { "stopped" } else { "finished" };
        fields.insert("state".to_owned(), json!(state));
    }
}

/// Writes `report` to `path`, where nothing but an earlier report may be; `-` is standard output.
pub fn write_report(path: &Path, report: &impl Serialize) -> Result<()> {
    if path != Path::new("-") {
        // What the run itself has written is looked at only now.
        can_report(path)?;
    }
    let ended = jiff::Timestamp::now();
    let started = *STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let instant = |time: jiff::Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let marked = Marked {
        tonnage: env!("CARGO_PKG_VERSION"),
        schema: SCHEMA,
        started: instant(started.unwrap_or(ended)),
        ended: instant(ended),
        report,
    };
    let unwritten = |e| Error::bug(format!("the report cannot be written as JSON: {e}"));
    let mut value = serde_json::to_value(&marked).map_err(unwritten)?;
    shape(&mut value);
    let mut json = serde_json::to_string_pretty(&value).map_err(unwritten)?;
    json.push('\n');
    let written = match path == Path::new("-") {
        true => std::io::stdout().write_all(json.as_bytes()),
        false if url_of(path).is_some() => return sinks::write_whole(path, json.as_bytes()),
        false => std::fs::write(path, json),
    };
    written.map_err(|e| Error::new(ErrorKind::Refused, format!("report {}: {e}", path.display())))
}

/// The end of a run whose report was written, or not: how the run ended matters more than that its report is missing.
pub fn after_report(ending: Result<Ending>, written: Result<()>) -> Result<Ending> {
    match (ending, written) {
        (ending, Ok(())) => ending,
        (Ok(Ending::Done | Ending::Rejects | Ending::Uncertain | Ending::Differs), Err(missing)) => {
            Err(missing.hint("the run itself has ended well"))
        }
        (ending, Err(missing)) => {
            tracing::warn!("{missing}");
            ending
        }
    }
}
