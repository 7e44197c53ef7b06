//! The account of a command as one JSON object.

use std::{io::Write, path::Path};

use serde::Serialize;
use tonnage::{Error, ErrorKind, Result, sinks};
use tonnage_places::url_of;

use crate::{Ending, paths::can_report};

/// A report with the field that a later one knows it by.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Marked<'a, R> {
    /// The version that wrote it.
    pub tonnage: &'static str,
    /// The report itself.
    #[serde(flatten)]
    pub report: &'a R,
}

/// Writes `report` to `path`, where nothing but an earlier report may be; `-` is standard output.
pub fn write_report(path: &Path, report: &impl Serialize) -> Result<()> {
    if path != Path::new("-") {
        // What the run itself has written is looked at only now.
        can_report(path)?;
    }
    let marked = Marked {
        tonnage: env!("CARGO_PKG_VERSION"),
        report,
    };
    let mut json = serde_json::to_string_pretty(&marked)
        .map_err(|e| Error::bug(format!("the report cannot be written as JSON: {e}")))?;
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
