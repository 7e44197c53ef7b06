//! The database's error codes as error kinds.

use tonnage_core::error::ErrorKind;

/// What a request was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// Writing rows: what is illegal is a row.
    Rows,
    /// Anything else.
    Else,
}

/// The code, which none of the database's own has, of a row whose key is there.
pub(super) const KEY_EXISTS: &str = "KEY_EXISTS";

/// The code of a table that is not there.
pub(super) const NO_TABLE: i32 = 2;

/// What an error with the database's `code` asks for. Every request of this target can be sent twice (`writer`), so what
/// may have been applied counts as unsent.
pub(super) fn kind(code: i32, doing: Doing) -> ErrorKind {
    match code {
        // An illegal argument, or a row, a key or a request that is too large; more than the operations of a request.
        4..=8 if doing == Doing::Rows => ErrorKind::Rejected,
        // Of an operation, a table, an index or a request that is wrong or not there.
        1..=10 | 13 | 14 | 17 | 22..=24 | 27 | 28 => ErrorKind::Schema,
        11 => ErrorKind::Config,
        // Throttled: reads, writes, other operations. 52 is a table that is full, which waiting does not mend.
        50 | 51 | 53 => ErrorKind::Overloaded,
        // A time-out, and a table that is being changed.
        100 | 103 => ErrorKind::Overloaded,
        // A table that is not ready yet; the server's own errors, which pass; what was lost on the way, which the SDK
        // gives the code of a server error.
        26 | 101 | 102 | 104 | 105 => ErrorKind::Unsent,
        _ => ErrorKind::Refused,
    }
}

/// What to do about an error with the database's `code`, where that is known.
pub(super) fn hint(code: i32) -> Option<&'static str> {
    match code {
        11 => Some("are the user and the password, or the keys of the cloud, right?"),
        12 => Some("the user lacks a right for it"),
        50 => Some(
            "the table's read units are used up: a lower --rate, fewer jobs, or a larger limit of the table",
        ),
        51 => Some(
            "the table's write units are used up: a lower --rate, fewer jobs, or a larger limit of the table",
        ),
        52 => Some("the table is full: raise its storage limit"),
        100..=102 => Some("is the proxy up, and does it speak http at this port? Then go on with --resume"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_never_a_rows_fault() {
        for code in [26, 50, 51, 53, 100, 101, 102, 103, 104, 105] {
            let kind = kind(code, Doing::Rows);
            assert!(
                matches!(kind, ErrorKind::Overloaded | ErrorKind::Unsent),
                "{code}: {kind:?}"
            );
        }
    }

    #[test]
    fn only_what_is_wrong_with_a_row_rejects_it() {
        let rejects = |doing| {
            (0..200)
                .filter(|code| kind(*code, doing) == ErrorKind::Rejected)
                .collect::<Vec<_>>()
        };
        assert_eq!(rejects(Doing::Rows), [4, 5, 6, 7, 8]);
        assert!(rejects(Doing::Else).is_empty());
        // A full table, and what nobody knows, stop a load.
        assert_eq!(kind(52, Doing::Rows), ErrorKind::Refused);
        assert_eq!(kind(125, Doing::Rows), ErrorKind::Refused);
    }
}
