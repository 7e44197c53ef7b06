//! SQLite's result codes as error kinds. The code decides alone; the message is for people.

use rusqlite::ffi;
use tonnage_core::error::{Error, ErrorKind};

/// The extended codes that people meet, by name. Other extended codes go by their primary code's name.
const NAMES: &[(i32, &str)] = &[
    (ffi::SQLITE_ERROR, "SQLITE_ERROR"),
    (ffi::SQLITE_INTERNAL, "SQLITE_INTERNAL"),
    (ffi::SQLITE_PERM, "SQLITE_PERM"),
    (ffi::SQLITE_ABORT, "SQLITE_ABORT"),
    (ffi::SQLITE_ABORT_ROLLBACK, "SQLITE_ABORT_ROLLBACK"),
    (ffi::SQLITE_BUSY, "SQLITE_BUSY"),
    (ffi::SQLITE_BUSY_RECOVERY, "SQLITE_BUSY_RECOVERY"),
    (ffi::SQLITE_BUSY_SNAPSHOT, "SQLITE_BUSY_SNAPSHOT"),
    (ffi::SQLITE_BUSY_TIMEOUT, "SQLITE_BUSY_TIMEOUT"),
    (ffi::SQLITE_LOCKED, "SQLITE_LOCKED"),
    (ffi::SQLITE_LOCKED_SHAREDCACHE, "SQLITE_LOCKED_SHAREDCACHE"),
    (ffi::SQLITE_NOMEM, "SQLITE_NOMEM"),
    (ffi::SQLITE_READONLY, "SQLITE_READONLY"),
    (ffi::SQLITE_READONLY_CANTLOCK, "SQLITE_READONLY_CANTLOCK"),
    (ffi::SQLITE_READONLY_ROLLBACK, "SQLITE_READONLY_ROLLBACK"),
    (ffi::SQLITE_READONLY_DBMOVED, "SQLITE_READONLY_DBMOVED"),
    (ffi::SQLITE_READONLY_DIRECTORY, "SQLITE_READONLY_DIRECTORY"),
    (ffi::SQLITE_INTERRUPT, "SQLITE_INTERRUPT"),
    (ffi::SQLITE_IOERR, "SQLITE_IOERR"),
    (ffi::SQLITE_IOERR_READ, "SQLITE_IOERR_READ"),
    (ffi::SQLITE_IOERR_SHORT_READ, "SQLITE_IOERR_SHORT_READ"),
    (ffi::SQLITE_IOERR_WRITE, "SQLITE_IOERR_WRITE"),
    (ffi::SQLITE_IOERR_FSYNC, "SQLITE_IOERR_FSYNC"),
    (ffi::SQLITE_IOERR_DIR_FSYNC, "SQLITE_IOERR_DIR_FSYNC"),
    (ffi::SQLITE_IOERR_TRUNCATE, "SQLITE_IOERR_TRUNCATE"),
    (ffi::SQLITE_IOERR_DELETE, "SQLITE_IOERR_DELETE"),
    (ffi::SQLITE_IOERR_LOCK, "SQLITE_IOERR_LOCK"),
    (ffi::SQLITE_IOERR_SHMOPEN, "SQLITE_IOERR_SHMOPEN"),
    (ffi::SQLITE_IOERR_SHMSIZE, "SQLITE_IOERR_SHMSIZE"),
    (ffi::SQLITE_IOERR_SHMMAP, "SQLITE_IOERR_SHMMAP"),
    (ffi::SQLITE_CORRUPT, "SQLITE_CORRUPT"),
    (ffi::SQLITE_CORRUPT_INDEX, "SQLITE_CORRUPT_INDEX"),
    (ffi::SQLITE_FULL, "SQLITE_FULL"),
    (ffi::SQLITE_CANTOPEN, "SQLITE_CANTOPEN"),
    (ffi::SQLITE_CANTOPEN_ISDIR, "SQLITE_CANTOPEN_ISDIR"),
    (ffi::SQLITE_PROTOCOL, "SQLITE_PROTOCOL"),
    (ffi::SQLITE_SCHEMA, "SQLITE_SCHEMA"),
    (ffi::SQLITE_TOOBIG, "SQLITE_TOOBIG"),
    (ffi::SQLITE_CONSTRAINT, "SQLITE_CONSTRAINT"),
    (ffi::SQLITE_CONSTRAINT_CHECK, "SQLITE_CONSTRAINT_CHECK"),
    (ffi::SQLITE_CONSTRAINT_DATATYPE, "SQLITE_CONSTRAINT_DATATYPE"),
    (ffi::SQLITE_CONSTRAINT_FOREIGNKEY, "SQLITE_CONSTRAINT_FOREIGNKEY"),
    (ffi::SQLITE_CONSTRAINT_FUNCTION, "SQLITE_CONSTRAINT_FUNCTION"),
    (ffi::SQLITE_CONSTRAINT_NOTNULL, "SQLITE_CONSTRAINT_NOTNULL"),
    (ffi::SQLITE_CONSTRAINT_PRIMARYKEY, "SQLITE_CONSTRAINT_PRIMARYKEY"),
    (ffi::SQLITE_CONSTRAINT_ROWID, "SQLITE_CONSTRAINT_ROWID"),
    (ffi::SQLITE_CONSTRAINT_TRIGGER, "SQLITE_CONSTRAINT_TRIGGER"),
    (ffi::SQLITE_CONSTRAINT_UNIQUE, "SQLITE_CONSTRAINT_UNIQUE"),
    (ffi::SQLITE_MISMATCH, "SQLITE_MISMATCH"),
    (ffi::SQLITE_MISUSE, "SQLITE_MISUSE"),
    (ffi::SQLITE_NOLFS, "SQLITE_NOLFS"),
    (ffi::SQLITE_AUTH, "SQLITE_AUTH"),
    (ffi::SQLITE_RANGE, "SQLITE_RANGE"),
    (ffi::SQLITE_NOTADB, "SQLITE_NOTADB"),
];

/// Where a statement failed: the same code asks for different things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// Writing rows: constraints and errors of evaluation are the row's fault.
    Rows,
    /// Anything else: a constraint that speaks here is not about a row of the source.
    Else,
}

/// The kind that `code` (extended) asks for.
fn kind(code: i32, doing: Doing) -> ErrorKind {
    match code & 0xff {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED | ffi::SQLITE_PROTOCOL | ffi::SQLITE_NOMEM => {
            ErrorKind::Overloaded
        }
        ffi::SQLITE_CONSTRAINT | ffi::SQLITE_MISMATCH | ffi::SQLITE_TOOBIG => match doing {
            Doing::Rows => ErrorKind::Rejected,
            Doing::Else => ErrorKind::Refused,
        },
        // Statements are prepared in the transaction that runs them, so what fails later was wrong with a
        // value: an expression of a CHECK, an index or a trigger that could not be evaluated.
        ffi::SQLITE_ERROR if doing == Doing::Rows => ErrorKind::Rejected,
        ffi::SQLITE_ERROR | ffi::SQLITE_SCHEMA => ErrorKind::Schema,
        ffi::SQLITE_INTERRUPT => ErrorKind::Cancelled,
        ffi::SQLITE_MISUSE | ffi::SQLITE_RANGE | ffi::SQLITE_INTERNAL => ErrorKind::Bug,
        _ => ErrorKind::Refused,
    }
}

/// Whether a failure while rows are written is their fault.
pub(super) fn is_rejection(failure: &rusqlite::Error) -> bool {
    matches!(failure, rusqlite::Error::SqliteFailure(..))
        && kind(code(failure), Doing::Rows) == ErrorKind::Rejected
}

/// Whether a statement OR FAIL that failed so has kept the rows before the one that failed.
pub(super) fn keeps_rows(failure: &rusqlite::Error) -> bool {
    matches!(
        code(failure),
        ffi::SQLITE_CONSTRAINT_UNIQUE
            | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
            | ffi::SQLITE_CONSTRAINT_ROWID
            | ffi::SQLITE_CONSTRAINT_NOTNULL
            | ffi::SQLITE_CONSTRAINT_CHECK
    )
}

/// The code's name: the extended one where it is known, else the primary one.
fn name(code: i32) -> Option<&'static str> {
    let by_code = |wanted: i32| {
        NAMES
            .iter()
            .find(|(code, _)| *code == wanted)
            .map(|(_, name)| *name)
    };
    by_code(code).or_else(|| by_code(code & 0xff))
}

/// The next step, where the code alone makes it obvious.
fn hint(code: i32) -> Option<&'static str> {
    match code & 0xff {
        ffi::SQLITE_BUSY => {
            Some("another process is writing to the file; wait for it, or raise ?busy_timeout_ms=")
        }
        ffi::SQLITE_FULL => Some("make room on the disk (or raise max_page_count), then --resume"),
        ffi::SQLITE_READONLY => Some("check the rights on the file and on its directory"),
        ffi::SQLITE_CORRUPT => Some("the file is damaged: restore it, or try the sqlite3 shell's .recover"),
        ffi::SQLITE_NOTADB => Some("the file is not a SQLite database, or it is encrypted"),
        _ => None,
    }
}

/// The crate's error for a failed call.
pub(super) fn error(failure: rusqlite::Error, doing: Doing) -> Error {
    let (code, message) = match &failure {
        rusqlite::Error::SqliteFailure(code, message) => (code.extended_code, message.clone()),
        rusqlite::Error::SqlInputError { error, msg, .. } => (error.extended_code, Some(msg.clone())),
        other => {
            return Error::bug(format!("SQLite was asked for something odd: {other}")).caused_by(failure);
        }
    };
    let name = name(code);
    let message = message.unwrap_or_else(|| name.unwrap_or("SQLite failed").to_owned());
    let mut error = match kind(code, doing) {
        ErrorKind::Bug => Error::bug(message),
        kind => Error::new(kind, message),
    };
    error = match name {
        Some(name) => error.code(name),
        None => error.code(code),
    };
    if let Some(hint) = hint(code) {
        error = error.hint(hint);
    }
    error.caused_by(failure)
}

/// The error of a COMMIT that was cut off by a failure of the disk: it may have taken effect.
pub(super) fn in_doubt(failure: rusqlite::Error) -> Error {
    let error = error(failure, Doing::Else);
    let code = error.code_text().unwrap_or_default().to_owned();
    Error::new(ErrorKind::InDoubt, format!("the commit was cut off: {error}"))
        .code(code)
        .caused_by(error)
}

/// The extended code of a failed call.
pub(super) fn code(failure: &rusqlite::Error) -> i32 {
    failure.sqlite_extended_error_code().unwrap_or(0)
}

/// The one column that a failure names, for display only: SQLite tells it in the message alone.
pub(super) fn column(failure: &rusqlite::Error, table: &str, columns: &[String]) -> Option<String> {
    let rusqlite::Error::SqliteFailure(code, Some(message)) = failure else {
        return None;
    };
    let place = match code.extended_code {
        ffi::SQLITE_CONSTRAINT_NOTNULL
        | ffi::SQLITE_CONSTRAINT_UNIQUE
        | ffi::SQLITE_CONSTRAINT_PRIMARYKEY => message.split_once(": ")?.1,
        ffi::SQLITE_CONSTRAINT_DATATYPE => message.split_once(" column ")?.1,
        _ => return None,
    };
    let named = place.strip_prefix(table)?.strip_prefix('.')?;
    columns.iter().find(|column| *column == named).cloned()
}

/// Whether a code says that another connection has written since a transaction began to read.
pub(super) fn lost_race(code: &str) -> bool {
    code == "SQLITE_BUSY_SNAPSHOT"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(code: i32, doing: Doing) -> (ErrorKind, Option<String>) {
        let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some("said".to_owned()));
        let error = error(failure, doing);
        (error.kind(), error.code_text().map(str::to_owned))
    }

    #[test]
    fn the_code_decides() {
        let cases = [
            (
                ffi::SQLITE_BUSY_SNAPSHOT,
                Doing::Rows,
                ErrorKind::Overloaded,
                "SQLITE_BUSY_SNAPSHOT",
            ),
            (
                ffi::SQLITE_LOCKED,
                Doing::Else,
                ErrorKind::Overloaded,
                "SQLITE_LOCKED",
            ),
            (ffi::SQLITE_FULL, Doing::Rows, ErrorKind::Refused, "SQLITE_FULL"),
            (
                ffi::SQLITE_IOERR_FSYNC,
                Doing::Rows,
                ErrorKind::Refused,
                "SQLITE_IOERR_FSYNC",
            ),
            (
                ffi::SQLITE_IOERR_VNODE,
                Doing::Rows,
                ErrorKind::Refused,
                "SQLITE_IOERR",
            ),
            (
                ffi::SQLITE_CONSTRAINT_UNIQUE,
                Doing::Rows,
                ErrorKind::Rejected,
                "SQLITE_CONSTRAINT_UNIQUE",
            ),
            (
                ffi::SQLITE_CONSTRAINT_FOREIGNKEY,
                Doing::Else,
                ErrorKind::Refused,
                "SQLITE_CONSTRAINT_FOREIGNKEY",
            ),
            (
                ffi::SQLITE_TOOBIG,
                Doing::Rows,
                ErrorKind::Rejected,
                "SQLITE_TOOBIG",
            ),
            (
                ffi::SQLITE_ERROR,
                Doing::Rows,
                ErrorKind::Rejected,
                "SQLITE_ERROR",
            ),
            (ffi::SQLITE_ERROR, Doing::Else, ErrorKind::Schema, "SQLITE_ERROR"),
            (ffi::SQLITE_MISUSE, Doing::Else, ErrorKind::Bug, "SQLITE_MISUSE"),
        ];
        for (code, doing, kind, name) in cases {
            assert_eq!(
                kind_of(code, doing),
                (kind, Some(name.to_owned())),
                "{code} {doing:?}"
            );
        }
    }

    #[test]
    fn a_column_is_named_only_when_it_is_one() {
        let columns = ["a".to_owned(), "b".to_owned()];
        let named = |code, message: &str| {
            let failure = rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(message.to_owned()));
            column(&failure, "t", &columns)
        };
        assert_eq!(
            named(ffi::SQLITE_CONSTRAINT_NOTNULL, "NOT NULL constraint failed: t.b").as_deref(),
            Some("b")
        );
        assert_eq!(
            named(
                ffi::SQLITE_CONSTRAINT_DATATYPE,
                "cannot store TEXT value in INTEGER column t.a"
            )
            .as_deref(),
            Some("a")
        );
        assert_eq!(
            named(
                ffi::SQLITE_CONSTRAINT_UNIQUE,
                "UNIQUE constraint failed: t.a, t.b"
            ),
            None
        );
        assert_eq!(
            named(ffi::SQLITE_CONSTRAINT_CHECK, "CHECK constraint failed: t.a"),
            None
        );
    }
}
