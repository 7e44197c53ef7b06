//! One error type. Its kind says what to do next and is decided from codes, never from message text.

use std::fmt;

/// The most bytes of a message or a hint. What they quote of a file, a name above all, can be of any length.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a failure asks of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, schemars::JsonSchema)]
pub enum ErrorKind {
    /// A setting, an argument or a URL is wrong: stop.
    Config,
    /// The source cannot be read, or is not what it was: stop.
    Input,
    /// Table and source do not fit together, or the table is not there: stop.
    Schema,
    /// The database refused something that is not a row's fault (rights, read-only, disk full): stop.
    Refused,
    /// Interrupted on request: stop; resumable.
    Cancelled,
    /// A promise of this crate does not hold: stop and report it.
    Bug,
    /// One or more rows are bad: find them, put them aside.
    Rejected,
    /// The database asks for less at a time, or lost a lock race: back off, then retry.
    Overloaded,
    /// Nothing was applied: retry freely.
    Unsent,
    /// The connection broke where a commit may or may not have happened: ask the ledger, then retry.
    InDoubt,
    /// Another process has taken this run over: stop.
    Fenced,
    /// The table is not the one that the plan was made for: it was altered, replaced or dropped. Nothing of the
    /// transaction is there; what was committed before stays. Plan again from the catalogue, or stop.
    Altered,
    /// Rows that were acknowledged may be lost or doubled, and nothing says which: stop, unless that is accepted.
    Uncertain,
}

/// The text, or its beginning.
fn bounded(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push_str("...");
    }
    text
}

/// A failure: what and where, and a hint at the next step.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    /// The database's own code (SQLSTATE, extended result code), where it gave one.
    code: Option<String>,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`. Messages have no full stop and never hold a password; of a very long one only the
    /// beginning is kept.
    pub fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            message: bounded(message.to_string()),
            hint: None,
            code: None,
            source: None,
        }
    }

    /// A wrong setting.
    pub fn config(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    /// A source that cannot be read.
    pub fn input(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    /// A table that is missing or does not fit.
    pub fn schema(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Schema, message)
    }

    /// A broken promise of this crate.
    pub fn bug(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Bug, message).hint("this is a defect of tonnage; please report it")
    }

    /// A run that another process goes on with.
    pub fn fenced() -> Self {
        Self::new(ErrorKind::Fenced, "another process has taken this run over")
            .hint("`tonnage runs` shows it; this process has stopped")
    }

    /// A table that is not what the plan was made for; `what` differs is the end of a sentence about it (`was altered:
    /// column 'a' is new`).
    pub fn altered(table: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::Altered,
            format!("table {table} {what} while rows were written to it"),
        )
        .hint("what was committed before stays; --resume goes on if the table is put back as it was, --restart begins anew")
    }

    /// As an error of `kind`, with all that it says: what is a row's fault in a write is the query's in a read.
    #[must_use]
    pub fn of_kind(mut self, kind: ErrorKind) -> Self {
        self.kind = kind;
        self
    }

    /// Adds the next step, shown on a separate line.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(bounded(hint.to_string()));
        self
    }

    /// Adds the database's code.
    #[must_use]
    pub fn code(mut self, code: impl fmt::Display) -> Self {
        self.code = Some(code.to_string());
        self
    }

    /// Adds the cause, for logs; its text is not shown to users, so put what matters into the message.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(cause.into());
        self
    }

    /// Puts `where_` before the message: `where_: message`.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Puts `what` behind the message: `message; what`.
    #[must_use]
    pub fn and(mut self, what: impl fmt::Display) -> Self {
        self.message = bounded(format!("{}; {what}", self.message));
        self
    }

    /// What to do next.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The hint, if there is one.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The database's code, if it gave one.
    pub fn code_text(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// Whether the same work may be tried again, on a new connection if need be.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Overloaded | ErrorKind::Unsent | ErrorKind::InDoubt
        )
    }
}

/// An Arrow kernel refused what its types say it takes.
pub fn arrow_bug(error: arrow::error::ArrowError) -> Error {
    Error::bug(format!("arrow: {error}"))
}
