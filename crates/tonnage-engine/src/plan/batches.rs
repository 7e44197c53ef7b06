//! How large a write is.

use tonnage_core::{
    error::{Error, Result},
    operation::Method,
    target::Capabilities,
};

use super::{LoadOptions, Rate, WRITES_A_SECOND};

/// The most of a write.
pub(super) struct Batches {
    pub rows: usize,
    pub bytes: usize,
    pub notes: Vec<String>,
}

/// Decides the most rows and bytes of a write of so many `columns`.
pub(super) fn decide(
    capabilities: &Capabilities,
    options: &LoadOptions,
    method: Method,
    columns: usize,
) -> Result<Batches> {
    let mut notes = Vec::new();
    let mut batch_rows = match method {
        Method::Single => 1,
        _ => options.batch_rows.unwrap_or(capabilities.batch_rows_default),
    };
    if batch_rows == 0 {
        return Err(Error::config("--batch-rows must be at least 1"));
    }
    if method == Method::Array {
        let most = (capabilities.array_rows_max)(columns).max(1);
        if let Some(asked) = options.batch_rows.filter(|asked| *asked > most) {
            notes.push(format!(
                "{asked} rows a write were asked for, one statement takes {most}"
            ));
        }
        batch_rows = batch_rows.min(most);
    }
    let mut batch_bytes = options
        .batch_bytes
        .unwrap_or(capabilities.batch_bytes_default)
        .max(1);
    // A rate is kept between writes, so writes are small enough to begin several times a second.
    match options.rate {
        Some(Rate::Rows(0) | Rate::Bytes(0) | Rate::Offered(0)) => {
            return Err(Error::config("--rate must be more than 0"));
        }
        Some(Rate::Rows(rate)) => batch_rows = batch_rows.min((rate / WRITES_A_SECOND).max(1) as usize),
        Some(Rate::Bytes(rate)) => batch_bytes = batch_bytes.min((rate / WRITES_A_SECOND).max(1) as usize),
        // Who measures asks for a size.
        Some(Rate::Offered(_)) | None => {}
    }
    Ok(Batches {
        rows: batch_rows,
        bytes: batch_bytes,
        notes,
    })
}
