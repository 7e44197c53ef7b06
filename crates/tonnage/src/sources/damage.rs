//! What sources of a binary format share about files that are not what they should be.

use std::{
    fmt::Display,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::error::Error;

/// Does what may panic on a damaged file: the reader indexes by what pages and footers claim (found by
/// flipping bits; see the tests). What `read` borrows mutably must not be used after an error.
pub(crate) fn guarded<T, E: Display>(
    read: impl FnOnce() -> std::result::Result<T, E>,
) -> std::result::Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(cause)) => Err(cause.to_string()),
        Err(panic) => Err(panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "the reader failed".to_owned())),
    }
}

/// `orders.parquet has changed since the run began`.
pub(crate) fn has_changed(shown: impl Display) -> Error {
    Error::input(format!("{shown} has changed since the run began"))
        .hint("put back the file that the run began with, or start again with --restart")
}
