//! The account of a command as one JSON object.

use std::{io::Write, path::Path};

use tonnage::{Error, ErrorKind, Result};

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
