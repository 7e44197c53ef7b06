//! The account of a command as one JSON object.

use std::{io::Write, path::Path};

use tonnage::{Error, ErrorKind, Result};

use crate::Ending;

/// Writes `report` to `path`; `-` is standard output.
pub fn write_report(path: &Path, report: &impl serde::Serialize) -> Result<()> {
    let mut json = serde_json::to_string_pretty(report)
        .map_err(|e| Error::bug(format!("the report cannot be written as JSON: {e}")))?;
    json.push('\n');
    let written = match path == Path::new("-") {
        true => std::io::stdout().write_all(json.as_bytes()),
        false => std::fs::write(path, json),
    };
    written.map_err(|e| Error::new(ErrorKind::Refused, format!("report {}: {e}", path.display())))
}

/// The end of a run whose report was written, or not: how the run ended matters more than that its report is missing.
pub fn after_report(ending: Result<Ending>, written: Result<()>) -> Result<Ending> {
    match (ending, written) {
        (ending, Ok(())) => ending,
        (Ok(Ending::Done | Ending::Rejects), Err(missing)) => {
            Err(missing.hint("the run itself has ended well"))
        }
        (ending, Err(missing)) => {
            tracing::warn!("{missing}");
            ending
        }
    }
}
