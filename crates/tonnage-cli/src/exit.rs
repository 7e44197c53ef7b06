//! How the process ends. The comments are the table of `docs/reference/exit-codes.md`.

use tonnage::ErrorKind;

/// An exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Exit {
    /// All rows are done.
    Done = 0,
    /// Failed: the message says what and where, a hint what to do next.
    Failed = 1,
    /// Wrong usage: an option, a name, a URL. Nothing was done.
    Usage = 2,
    /// Done, but rows were rejected.
    Rejects = 3,
    /// Rows of a journal of `ingest` are lost or may be lost or doubled: refused, or done with `--accept-loss`.
    Uncertain = 4,
    /// Done, and rows that were compared differ: `verify`, `load --verify`, `copy`.
    Differs = 5,
    /// Interrupted by Ctrl-C; what was not committed is undone.
    Interrupted = 130,
    /// Ended by SIGTERM; what was not committed is undone.
    Terminated = 143,
}

impl Exit {
    /// Of an error of `kind`.
    pub fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Config => Self::Usage,
            ErrorKind::Uncertain => Self::Uncertain,
            ErrorKind::Cancelled => Self::Interrupted,
            _ => Self::Failed,
        }
    }
}
