//! The driver's errors as error kinds, by their variants and the server's codes.

use std::time::Duration;

use scylla::errors::{DbError, ExecutionError, NewSessionError, PrepareError, RequestAttemptError};
use tonnage_core::error::{Error, ErrorKind};

/// What a statement was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// Writing rows: what is invalid is a row.
    Rows,
    /// Anything else.
    Else,
}

/// The server's own code of an error, as the protocol numbers them.
fn code(error: &DbError) -> String {
    match error {
        // Its number is agreed upon a connection.
        DbError::RateLimitReached { .. } => "RATE_LIMIT".to_owned(),
        known => format!("0x{:04X}", known.code(&Default::default())),
    }
}

fn database(error: &DbError, message: &str, doing: Doing) -> Error {
    let (kind, said) = match error {
        DbError::Invalid if doing == Doing::Rows => (ErrorKind::Rejected, message.to_owned()),
        DbError::Invalid | DbError::SyntaxError | DbError::AlreadyExists { .. } => {
            (ErrorKind::Schema, message.to_owned())
        }
        DbError::Unavailable {
            consistency,
            required,
            alive,
        } => (
            ErrorKind::Unsent,
            format!("{alive} replicas are alive, and consistency {consistency:?} needs {required}"),
        ),
        DbError::Overloaded | DbError::RateLimitReached { .. } => (ErrorKind::Overloaded, message.to_owned()),
        DbError::WriteTimeout {
            consistency,
            received,
            required,
            ..
        }
        | DbError::ReadTimeout {
            consistency,
            received,
            required,
            ..
        } => (
            ErrorKind::Overloaded,
            format!(
                "{received} replicas have answered in time, and consistency {consistency:?} needs {required}"
            ),
        ),
        DbError::WriteFailure { numfailures, .. } | DbError::ReadFailure { numfailures, .. } => (
            ErrorKind::Overloaded,
            format!("{numfailures} replicas have failed: {message}"),
        ),
        DbError::IsBootstrapping | DbError::ServerError | DbError::Unprepared { .. } => {
            (ErrorKind::Unsent, message.to_owned())
        }
        DbError::ConfigError => (ErrorKind::Config, message.to_owned()),
        _ => (ErrorKind::Refused, message.to_owned()),
    };
    let error = Error::new(kind, format!("Cassandra: {said}")).code(code(error));
    match kind {
        ErrorKind::Unsent => {
            error.hint("bring the nodes up, or ask for a lower --durability; then go on with --resume")
        }
        _ => error,
    }
}

fn attempt(error: &RequestAttemptError, doing: Doing) -> Error {
    match error {
        RequestAttemptError::DbError(error, message) => database(error, message, doing),
        RequestAttemptError::SerializationError(cause) => {
            Error::bug(format!("a value was not encoded: {cause}"))
        }
        broken @ (RequestAttemptError::UnableToAllocStreamId
        | RequestAttemptError::BrokenConnectionError(_)) => Error::new(
            ErrorKind::Unsent,
            format!("the connection to a node was lost: {broken}"),
        ),
        other => Error::new(
            ErrorKind::Unsent,
            format!("a node answered otherwise than expected: {other}"),
        ),
    }
}

/// The error of a statement that was run. Every statement of this target can be run twice, so that what may have been
/// applied counts as unsent.
pub(super) fn execution(error: ExecutionError, doing: Doing) -> Error {
    let found = match &error {
        ExecutionError::LastAttemptError(error) => attempt(error, doing),
        ExecutionError::PrepareError(error) => prepare_error(error),
        ExecutionError::RequestTimeout(after) => Error::new(
            ErrorKind::Overloaded,
            format!("no node has answered within {} s", after.as_secs()),
        ),
        ExecutionError::BadQuery(cause) => Error::bug(format!("a statement was not encoded: {cause}")),
        other => Error::new(ErrorKind::Unsent, format!("no node can be reached: {other}")),
    };
    found.caused_by(error)
}

fn prepare_error(error: &PrepareError) -> Error {
    match error {
        PrepareError::AllAttemptsFailed { first_attempt } => attempt(first_attempt, Doing::Else),
        other => Error::new(ErrorKind::Unsent, format!("no node can be reached: {other}")),
    }
}

/// The error of a statement that was to be prepared.
pub(super) fn prepare(error: PrepareError) -> Error {
    prepare_error(&error).caused_by(error)
}

/// The error of a session that was to be opened on `nodes`.
pub(super) fn session(error: NewSessionError, nodes: &str) -> Error {
    Error::config(format!("no connection to {nodes}: {}", deepest(&error)))
        .hint("is a node up there, does it take clients without TLS, and are user and password right?")
        .caused_by(error)
}

/// That `who` has not answered within `most`.
pub(super) fn silent(who: &str, most: Duration) -> Error {
    let message = format!("no answer from {who} within {} s", most.as_secs());
    Error::new(ErrorKind::Unsent, message).hint("are the nodes up, and is the network?")
}

/// What an error comes down to.
fn deepest(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}
