//! What a driver says of a failure, by its codes.
//!
//! DuckDB's driver gives the kind of an error as a detail where it has run a statement, and none where it could not
//! prepare it. Other drivers give an SQLSTATE, or ADBC's own status.

use adbc_core::error::{Error as DriverError, Status};
use tonnage_core::error::{Error, ErrorKind};

/// The detail that has DuckDB's name for the kind of an error.
const ERROR_TYPE: &str = "duckdb:error_type";

/// Where a statement failed: the same code asks for different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Writing rows: constraints and conversions are the row's fault.
    Rows,
    /// Ending a transaction, which may have taken effect where nothing says that it has not.
    Commit,
    /// Anything else: a constraint that speaks here is not about a row of the source.
    Else,
}

/// DuckDB's name for the kind of an error.
fn error_type(failure: &DriverError) -> Option<&str> {
    let details = failure.details.as_ref()?;
    let (_, name) = details.iter().find(|(key, _)| key == ERROR_TYPE)?;
    str::from_utf8(name).ok()
}

/// The SQLSTATE, where the driver gives one.
fn sqlstate(failure: &DriverError) -> Option<String> {
    let state: String = failure
        .sqlstate
        .iter()
        .map(|c| char::from(*c as u8))
        .filter(|c| c.is_ascii_alphanumeric())
        .collect();
    (state.len() == 5 && state != "00000").then_some(state)
}

/// The code of a failure, as rejects and errors show it.
fn code(failure: &DriverError) -> String {
    match (error_type(failure), sqlstate(failure)) {
        (Some(name), _) => name.to_owned(),
        (None, Some(state)) => state,
        (None, None) => format!("{:?}", failure.status),
    }
}

/// Of a constraint, a conversion or another fault of values.
fn of_values(doing: Doing) -> ErrorKind {
    match doing {
        Doing::Rows => ErrorKind::Rejected,
        Doing::Commit | Doing::Else => ErrorKind::Refused,
    }
}

/// The kind that DuckDB's name for an error asks for.
fn kind_of_type(name: &str, doing: Doing) -> ErrorKind {
    match name {
        "Constraint" | "Conversion" | "OutOfRange" | "MismatchType" | "DivideByZero" | "Decimal"
        | "InvalidType" | "InvalidInput" | "ObjectSize" | "Executor" => of_values(doing),
        // Another transaction has changed the same rows, or the table, meanwhile.
        "Transaction" | "OutOfMemory" => ErrorKind::Overloaded,
        "Interrupt" => ErrorKind::Cancelled,
        "IO" | "Fatal" | "Permission" | "Serialization" | "Connection" | "Settings" => match doing {
            Doing::Commit => ErrorKind::InDoubt,
            Doing::Rows | Doing::Else => ErrorKind::Refused,
        },
        "Internal" => ErrorKind::Refused,
        _ => ErrorKind::Schema,
    }
}

/// The kind that an SQLSTATE asks for.
fn kind_of_state(state: &str, doing: Doing) -> ErrorKind {
    match &state[..2] {
        "22" | "23" => of_values(doing),
        "40" | "53" | "55" => ErrorKind::Overloaded,
        "08" | "57" if doing == Doing::Commit => ErrorKind::InDoubt,
        "08" => ErrorKind::Unsent,
        "42" | "3F" | "3D" | "26" => ErrorKind::Schema,
        _ => ErrorKind::Refused,
    }
}

/// The kind that ADBC's status asks for.
fn kind_of_status(status: Status, doing: Doing) -> ErrorKind {
    match status {
        Status::Integrity | Status::InvalidData => of_values(doing),
        Status::NotFound | Status::AlreadyExists => ErrorKind::Schema,
        Status::Unauthenticated | Status::Unauthorized => ErrorKind::Refused,
        Status::Cancelled => ErrorKind::Cancelled,
        Status::NotImplemented => ErrorKind::Config,
        Status::IO | Status::Timeout | Status::Unknown if doing == Doing::Commit => ErrorKind::InDoubt,
        Status::IO | Status::Timeout => ErrorKind::Unsent,
        // A statement that could not be prepared: DuckDB gives no kind for it.
        Status::Internal | Status::InvalidArguments | Status::InvalidState if doing != Doing::Commit => {
            ErrorKind::Schema
        }
        Status::Internal | Status::InvalidArguments | Status::InvalidState => ErrorKind::InDoubt,
        Status::Unknown | Status::Ok => ErrorKind::Refused,
    }
}

fn kind(failure: &DriverError, doing: Doing) -> ErrorKind {
    match (error_type(failure), sqlstate(failure)) {
        (Some(name), _) => kind_of_type(name, doing),
        (None, Some(state)) => kind_of_state(&state, doing),
        (None, None) => kind_of_status(failure.status, doing),
    }
}

/// The next step, where the code alone makes it obvious.
fn hint(failure: &DriverError) -> Option<&'static str> {
    match error_type(failure)? {
        "IO" => Some("check the disk and the rights on the file and its directory, then --resume"),
        "OutOfMemory" => Some("?memory_limit=SIZE in the URL gives DuckDB more, --batch-rows asks for less"),
        "Fatal" => Some("the database has to be opened anew: run the command again with --resume"),
        "Transaction" => Some("somebody else in this process changes the same rows or the table"),
        _ => None,
    }
}

/// The crate's error for a failed call.
pub(crate) fn error(failure: DriverError, doing: Doing) -> Error {
    let mut error = Error::new(kind(&failure, doing), one_line(&failure.message)).code(code(&failure));
    if let Some(hint) = hint(&failure) {
        error = error.hint(hint);
    }
    error.caused_by(failure)
}

/// The message without the copy of the statement that some drivers put below it.
fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim);
    let said: Vec<&str> = lines
        .take_while(|line| !line.starts_with("LINE "))
        .filter(|line| !line.is_empty())
        .collect();
    match said.is_empty() {
        true => "the driver gave no message".to_owned(),
        false => said.join("; "),
    }
}

/// [`error`] for what is no row's fault.
pub(crate) fn failed(failure: DriverError) -> Error {
    error(failure, Doing::Else)
}

/// Whether a code says that another transaction has changed the same rows, or the table, meanwhile.
pub(crate) fn lost_race(code: &str) -> bool {
    code == "Transaction"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: Status, error_type: Option<&str>, state: &str) -> DriverError {
        let mut failure = DriverError::with_message_and_status("Said\n\nLINE 1: select", status);
        failure.details = error_type.map(|name| vec![(ERROR_TYPE.to_owned(), name.as_bytes().to_vec())]);
        for (at, c) in state.bytes().enumerate() {
            failure.sqlstate[at] = c as std::os::raw::c_char;
        }
        failure
    }

    #[test]
    fn codes_decide() {
        use ErrorKind::*;
        let cases = [
            (
                Status::InvalidArguments,
                Some("Constraint"),
                "",
                Doing::Rows,
                Rejected,
                "Constraint",
            ),
            (
                Status::InvalidArguments,
                Some("Constraint"),
                "",
                Doing::Else,
                Refused,
                "Constraint",
            ),
            (
                Status::InvalidArguments,
                Some("Transaction"),
                "",
                Doing::Commit,
                Overloaded,
                "Transaction",
            ),
            (
                Status::InvalidArguments,
                Some("IO"),
                "",
                Doing::Commit,
                InDoubt,
                "IO",
            ),
            (
                Status::InvalidArguments,
                Some("Catalog"),
                "",
                Doing::Rows,
                Schema,
                "Catalog",
            ),
            (Status::Internal, None, "", Doing::Else, Schema, "Internal"),
            (Status::Internal, None, "", Doing::Commit, InDoubt, "Internal"),
            (Status::Integrity, None, "23505", Doing::Rows, Rejected, "23505"),
            (Status::IO, None, "", Doing::Rows, Unsent, "IO"),
            (Status::IO, None, "08006", Doing::Commit, InDoubt, "08006"),
        ];
        for (status, name, state, doing, kind, code) in cases {
            let error = error(failure(status, name, state), doing);
            assert_eq!(
                (error.kind(), error.code_text()),
                (kind, Some(code)),
                "{status:?} {name:?}"
            );
            assert_eq!(error.to_string(), "Said");
        }
    }
}
