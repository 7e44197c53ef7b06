//! What a failure asks of the caller, decided by SQLSTATE and severity, never by message text.

use std::error::Error as _;

use tokio_postgres::error::{DbError, Severity};

use crate::error::{Error, ErrorKind};

/// An error of a statement outside COMMIT: whatever was open is undone when the connection is gone.
pub(super) fn statement(error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(db) => from_server(db).caused_by(error),
        None => lost(error, ErrorKind::Unsent),
    }
}

/// An error of COMMIT: without a plain refusal by the server nobody knows whether it happened.
pub(super) fn commit(error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        // A session that dies while it waits for a standby has committed already.
        Some(db) if is_fatal(db) => Error::new(ErrorKind::InDoubt, db.message())
            .code(db.code().code())
            .caused_by(error),
        Some(db) => from_server(db).caused_by(error),
        None => lost(error, ErrorKind::InDoubt),
    }
}

/// Whether the session ends with this error.
pub(super) fn is_fatal(db: &DbError) -> bool {
    matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

fn lost(error: tokio_postgres::Error, kind: ErrorKind) -> Error {
    let io = error
        .source()
        .and_then(|cause| cause.downcast_ref::<std::io::Error>());
    if error.is_closed() || io.is_some() {
        let why = match io {
            Some(io) => format!("the connection to PostgreSQL was lost: {}", describe_io(io)),
            None => "the connection to PostgreSQL was lost".to_owned(),
        };
        return Error::new(kind, why).caused_by(error);
    }
    // The driver could not make sense of what was asked or answered; its own words hold no values.
    Error::bug(format!("PostgreSQL driver: {error}")).caused_by(error)
}

/// An I/O error in the words people know.
pub(super) fn describe_io(error: &std::io::Error) -> String {
    use std::io::ErrorKind as Io;
    match error.kind() {
        Io::ConnectionRefused => "connection refused".to_owned(),
        Io::NotFound => "no such socket".to_owned(),
        Io::PermissionDenied => "permission denied".to_owned(),
        Io::ConnectionReset => "connection reset".to_owned(),
        Io::BrokenPipe => "connection closed".to_owned(),
        Io::UnexpectedEof => "connection closed".to_owned(),
        Io::TimedOut => "timed out".to_owned(),
        Io::HostUnreachable => "no route to host".to_owned(),
        Io::NetworkUnreachable => "network unreachable".to_owned(),
        _ => error.to_string(),
    }
}

/// The server's refusal: its message, its detail where it names no row, its own hint.
pub(super) fn from_server(db: &DbError) -> Error {
    let kind = kind(db);
    let mut message = db.message().to_owned();
    if let Some(detail) = db.detail() {
        message = format!("{message} ({})", detail.trim_end_matches('.'));
    }
    let error = Error::new(kind, message).code(db.code().code());
    match db.hint() {
        Some(hint) => error.hint(hint.trim_end_matches('.')),
        None => error,
    }
}

/// The kind of a SQLSTATE.
pub(super) fn kind(db: &DbError) -> ErrorKind {
    let code = db.code().code();
    match code {
        // Raised by a trigger or a function: this row's fault, as far as anyone can tell.
        "P0001" => ErrorKind::Rejected,
        // Serialization failure, deadlock, lock not available, too many connections, out of memory or another limit
        // of configuration, statement or lock timeout.
        "40001" | "40P01" | "55P03" | "53200" | "53300" | "53400" | "57014" => ErrorKind::Overloaded,
        // Shut down, crashed, not accepting connections yet.
        "57P01" | "57P02" | "57P03" | "57P05" => ErrorKind::Unsent,
        // Rights, read-only, disk full.
        "42501" | "25006" | "53100" => ErrorKind::Refused,
        _ => match code.get(..2) {
            Some("22" | "23" | "44") => ErrorKind::Rejected,
            Some("08") => ErrorKind::Unsent,
            Some("28" | "3D") => ErrorKind::Config,
            Some("42" | "3F" | "0A") => ErrorKind::Schema,
            Some("25" | "26" | "2D" | "34") => ErrorKind::Bug,
            _ => ErrorKind::Refused,
        },
    }
}

/// The row, counted from 0, that a failed COPY names. The server's context reads `COPY t, line 12, column c: ...` with
/// a translated `line`, so only digits and punctuation are looked at. A suspicion, never the ground of a decision.
pub(super) fn suspect(db: &DbError) -> Option<usize> {
    line_of(db.where_()?)
}

fn line_of(context: &str) -> Option<usize> {
    let copy = context.lines().find(|line| line.starts_with("COPY "))?;
    // The table's name comes first and may hold anything but is followed by a comma: search behind the last comma
    // that is followed by a word and digits.
    let mut found = None;
    for (at, _) in copy.match_indices(", ") {
        let rest = &copy[at + 2..];
        let Some((_, rest)) = rest.split_once(' ') else {
            continue;
        };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let followed = rest.as_bytes().get(digits);
        if digits > 0 && matches!(followed, None | Some(b',' | b':')) {
            found = rest[..digits].parse::<usize>().ok();
            break;
        }
    }
    found?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::line_of;

    #[test]
    fn the_line_of_a_copy_is_found_in_any_language() {
        let cases = [
            ("COPY readings, line 1", Some(0)),
            ("COPY readings, line 12, column c: \"x\"", Some(11)),
            ("COPY a, b, line 7: \"1,2\"", Some(6)),
            ("COPY readings, Zeile 3, Spalte c", Some(2)),
            (
                "SQL statement \"SELECT 1\"\nPL/pgSQL function f() line 3 at RAISE\nCOPY t, line 5",
                Some(4),
            ),
            ("COPY readings, line 0", None),
            ("COPY readings", None),
            ("while inserting index tuple (0,1)", None),
            ("", None),
        ];
        for (context, row) in cases {
            assert_eq!(line_of(context), row, "{context}");
        }
    }
}
