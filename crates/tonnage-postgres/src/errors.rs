//! What a failure asks of the caller, decided by SQLSTATE and severity, never by message text.

use std::error::Error as _;

use tokio_postgres::error::{DbError, Severity};
use tonnage_core::error::{Error, ErrorKind};

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
    described(db, kind(db))
}

/// Functions of the server that report an error because of one row, whatever its code: a RAISE of PL/pgSQL, which has any
/// code that its author chose, and the checks of views and of row security. A missing right has another code.
const OF_ONE_ROW: [&str; 2] = ["exec_stmt_raise", "ExecWithCheckOptions"];

/// Whether an error that is not about values or constraints by its code is about a row of the statement nevertheless.
fn is_of_one_row(db: &DbError) -> bool {
    if is_fatal(db) {
        return false;
    }
    if db.routine().is_some_and(|routine| OF_ONE_ROW.contains(&routine)) {
        return true;
    }
    let code = db.code().code();
    match code.get(..2) {
        // Raised by a function in whatever language: triggered actions, routines of other languages, PL/pgSQL's own.
        Some("09" | "20" | "21" | "27" | "2F" | "38" | "39" | "P0") => true,
        Some(class) => !CLASSES.contains(&class),
        None => false,
    }
}

/// Classes of codes that the server has for itself; any other one is of a user's own function.
const CLASSES: [&str; 44] = [
    "00", "01", "02", "03", "08", "09", "0A", "0B", "0F", "0L", "0P", "0Z", "10", "20", "21", "22", "23",
    "24", "25", "26", "27", "28", "2B", "2D", "2F", "34", "38", "39", "3B", "3D", "3F", "40", "42", "44",
    "53", "54", "55", "57", "58", "72", "F0", "HV", "P0", "XX",
];

/// Codes by which input functions refuse text, in addition to those of class 22. A prepared statement has no syntax error of its
/// own, so 42601 is one of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextCodes {
    /// No values are made of text.
    None,
    /// 42601.
    Syntax,
    /// XX000 too: hstore before 16.
    Internal,
}

impl TextCodes {
    /// The codes.
    pub fn codes(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Syntax => &["42601"],
            Self::Internal => &["42601", "XX000"],
        }
    }
}

/// An error of a statement that carries rows.
pub(super) fn of_rows(error: tokio_postgres::Error, codes: TextCodes) -> Error {
    match error.as_db_error() {
        Some(db) if is_of_one_row(db) || !is_fatal(db) && codes.codes().contains(&db.code().code()) => {
            described(db, ErrorKind::Rejected).caused_by(error)
        }
        _ => statement(error),
    }
}

/// The refusal of a row, from what the server has reported; none where the code is not about a row.
pub(super) fn of_row(
    code: &str,
    message: &str,
    detail: Option<&str>,
    hint: Option<&str>,
    codes: TextCodes,
) -> Option<Error> {
    let is_rows = kind_of(code) == ErrorKind::Rejected || codes.codes().contains(&code);
    is_rows.then(|| worded(ErrorKind::Rejected, code, message, detail, hint))
}

fn described(db: &DbError, kind: ErrorKind) -> Error {
    worded(kind, db.code().code(), db.message(), db.detail(), db.hint())
}

fn worded(kind: ErrorKind, code: &str, message: &str, detail: Option<&str>, hint: Option<&str>) -> Error {
    let mut message = message.to_owned();
    if let Some(detail) = detail {
        message = format!("{message} ({})", detail.trim_end_matches('.'));
    }
    let error = Error::new(kind, message).code(code);
    match hint {
        Some(hint) => error.hint(hint.trim_end_matches('.')),
        None => error,
    }
}

/// Classes of codes that are a row's fault.
pub(super) const ROW_CLASSES: [&str; 3] = ["22", "23", "44"];

/// Others that are: raised by a trigger or a function, a value too large for its index, or one for which a subquery has
/// several rows, as far as anyone can tell.
pub(super) const ROW_CODES: [&str; 3] = ["P0001", "54000", "21000"];

/// The kind of a SQLSTATE.
pub(super) fn kind(db: &DbError) -> ErrorKind {
    kind_of(db.code().code())
}

fn kind_of(code: &str) -> ErrorKind {
    match code {
        code if ROW_CODES.contains(&code) => ErrorKind::Rejected,
        // Serialization failure, deadlock, lock not available, too many connections, out of memory or another limit
        // of configuration, statement or lock timeout.
        "40001" | "40P01" | "55P03" | "53200" | "53300" | "53400" | "57014" => ErrorKind::Overloaded,
        // Shut down, crashed, not accepting connections yet, idle for longer than allowed.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => ErrorKind::Unsent,
        // Rights, read-only, disk full.
        "42501" | "25006" | "53100" => ErrorKind::Refused,
        _ => match code.get(..2) {
            Some(class) if ROW_CLASSES.contains(&class) => ErrorKind::Rejected,
            Some("08") => ErrorKind::Unsent,
            Some("28" | "3D") => ErrorKind::Config,
            Some("42" | "3F" | "0A") => ErrorKind::Schema,
            Some("25" | "26" | "2D" | "34") => ErrorKind::Bug,
            _ => ErrorKind::Refused,
        },
    }
}

/// The row, counted from 0, and the column that a failure names. The context of a COPY reads
/// `COPY t, line 12, column c: ...` with translated words, so only digits, punctuation and the names of `columns` are
/// looked at. A suspicion, never the ground of a decision.
pub(super) fn suspect(db: &DbError, columns: &[&str]) -> (Option<usize>, Option<String>) {
    let (row, column) = db
        .where_()
        .map_or((None, None), |context| place(context, columns));
    (row, db.column().or(column).map(str::to_owned))
}

fn place<'a>(context: &str, columns: &[&'a str]) -> (Option<usize>, Option<&'a str>) {
    let Some(copy) = context.lines().find(|line| line.starts_with("COPY ")) else {
        return (None, None);
    };
    // The table's name comes first and may hold anything: the line is the first word and number between a comma and
    // a comma, a colon or the end.
    for (at, _) in copy.match_indices(", ") {
        let Some((_, rest)) = copy[at + 2..].split_once(' ') else {
            continue;
        };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = rest.split_at(digits);
        if digits == 0 || !(rest.is_empty() || rest.starts_with([',', ':'])) {
            continue;
        }
        let row = number.parse::<usize>().ok().and_then(|line| line.checked_sub(1));
        let after = rest.strip_prefix(", ").and_then(|rest| rest.split_once(' '));
        let column = after.and_then(|(_, name)| {
            let is = |column: &&&str| {
                name.strip_prefix(**column)
                    .is_some_and(|r| r.is_empty() || r.starts_with(':'))
            };
            columns.iter().find(is).copied()
        });
        return (row, column);
    }
    (None, None)
}

/// Whether a SQLSTATE says that a transaction was ended for the sake of another one: a serialization failure, a deadlock.
pub(super) fn lost_race(code: &str) -> bool {
    matches!(code, "40001" | "40P01")
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn line_and_column_of_a_copy_are_found_in_any_language() {
        let cases = [
            ("COPY readings, line 1", (Some(0), None)),
            ("COPY readings, line 12, column c: \"x\"", (Some(11), Some("c"))),
            ("COPY a, b, line 7: \"1,2\"", (Some(6), None)),
            (
                "COPY readings, Zeile 3, Spalte odd name",
                (Some(2), Some("odd name")),
            ),
            ("COPY readings, line 3, column other", (Some(2), None)),
            (
                "SQL statement \"SELECT 1\"\nPL/pgSQL function f() line 3 at RAISE\nCOPY t, line 5",
                (Some(4), None),
            ),
            ("COPY readings, line 0", (None, None)),
            ("COPY readings", (None, None)),
            ("while inserting index tuple (0,1)", (None, None)),
            ("", (None, None)),
        ];
        for (context, expected) in cases {
            assert_eq!(place(context, &["a", "c", "odd name"]), expected, "{context}");
        }
    }
}
