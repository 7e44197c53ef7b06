//! What a failure asks of the caller, decided by the server's error number, never by message text.

use std::io::ErrorKind as Io;

use mysql_async::{DriverError, Error as Failure, IoError, ServerError};
use tonnage_core::error::{Error, ErrorKind};

/// An error of a statement outside COMMIT: whatever was open is undone when the connection is gone.
pub(super) fn statement(failure: Failure) -> Error {
    match &failure {
        Failure::Server(server) => from_server(server).caused_by(failure),
        _ => lost(failure, ErrorKind::Unsent),
    }
}

/// An error of COMMIT: without a plain refusal by the server nobody knows whether it happened.
pub(super) fn commit(failure: Failure) -> Error {
    match &failure {
        Failure::Server(server) => {
            let error = from_server(server);
            match error.kind() {
                // A lost race is undone (a cluster's certification); all else may have struck after the commit.
                ErrorKind::Overloaded if server.code == 1213 => error.caused_by(failure),
                _ => Error::new(ErrorKind::InDoubt, &server.message)
                    .code(server.code)
                    .caused_by(failure),
            }
        }
        _ => lost(failure, ErrorKind::InDoubt),
    }
}

fn lost(failure: Failure, kind: ErrorKind) -> Error {
    let message = match &failure {
        Failure::Io(IoError::Io(io)) => format!("the connection to the server was lost: {}", describe_io(io)),
        Failure::Io(IoError::Tls(_)) => "the connection to the server was lost: TLS failed".to_owned(),
        Failure::Driver(DriverError::ConnectionClosed | DriverError::PacketOutOfOrder) => {
            "the connection to the server was lost".to_owned()
        }
        // The driver could not make sense of what was asked or answered; its own words hold no values.
        // The driver knows what the server takes, and sends no more.
        Failure::Driver(DriverError::PacketTooLarge) => {
            return Error::new(
                ErrorKind::Refused,
                "a statement is larger than the server takes at once",
            )
            .code(PACKET_TOO_LARGE)
            .hint(PACKET_HINT)
            .caused_by(failure);
        }
        Failure::Driver(DriverError::FromValue { .. } | DriverError::FromRow { .. }) => {
            return Error::bug("the server's answer has an unexpected form");
        }
        other => return Error::bug(format!("MySQL driver: {other}")).caused_by(failure),
    };
    Error::new(kind, message).caused_by(failure)
}

/// An I/O error in the words people know.
pub(super) fn describe_io(error: &std::io::Error) -> String {
    match error.kind() {
        Io::ConnectionRefused => "connection refused".to_owned(),
        Io::NotFound => "no such socket".to_owned(),
        Io::PermissionDenied => "permission denied".to_owned(),
        Io::ConnectionReset => "connection reset".to_owned(),
        Io::BrokenPipe | Io::UnexpectedEof => "connection closed".to_owned(),
        Io::TimedOut => "timed out".to_owned(),
        Io::HostUnreachable => "no route to host".to_owned(),
        Io::NetworkUnreachable => "network unreachable".to_owned(),
        _ => error.to_string(),
    }
}

/// The server's refusal.
pub(super) fn from_server(server: &ServerError) -> Error {
    let error = Error::new(kind(server.code, &server.state), &server.message).code(server.code);
    match server.code {
        PACKET_TOO_LARGE => error.hint(PACKET_HINT),
        _ => error,
    }
}

/// The number by which a server refuses a packet.
const PACKET_TOO_LARGE: u16 = 1153;
/// What to do about it.
pub(super) const PACKET_HINT: &str = "max_allowed_packet is the server's setting of it";

/// The number of a server's refusal; none for what is not one.
pub(super) fn number(failure: &Failure) -> Option<u16> {
    match failure {
        Failure::Server(server) => Some(server.code),
        _ => None,
    }
}

/// Classes of SQLSTATEs that servers have themselves.
const CLASSES: [&str; 31] = [
    "00", "01", "02", "07", "08", "0A", "0K", "0Z", "20", "21", "22", "23", "24", "25", "26", "27", "28",
    "2B", "2D", "2F", "35", "37", "3B", "3D", "40", "42", "44", "45", "70", "HY", "XA",
];

/// Numbers of errors that are of one row: a subquery of several rows, a null, a duplicate, a value that does not fit, a
/// foreign key, a CHECK, no partition, SIGNAL of a trigger, a row too large for its page, an expression out of range, text
/// that is no JSON.
pub(super) const OF_ROWS: [u16; 33] = [
    1048, 1062, 1118, 1169, 1216, 1217, 1242, 1264, 1265, 1292, 1300, 1364, 1366, 1367, 1369, 1406, 1411,
    1416, 1441, 1451, 1452, 1526, 1557, 1586, 1643, 1644, 1690, 1748, 1761, 1762, 3140, 3819, 4025,
];

/// A statement that took longer than it may; the transaction goes on.
pub(super) const STATEMENT_TIME: u16 = 1969;

/// The kind of an error number; where it is not known, of its SQLSTATE.
pub(super) fn kind(code: u16, state: &str) -> ErrorKind {
    match code {
        code if OF_ROWS.contains(&code) => ErrorKind::Rejected,
        // Too many connections or threads, too little memory, lock waits, deadlocks, changed since it was read, limits
        // of the user, statement timeouts, interrupted statements; TiDB's write conflicts and busy regions.
        1020
        | 1037
        | 1038
        | 1040
        | 1041
        | 1135
        | 1203
        | 1205
        | 1206
        | 1213
        | 1226
        | 1317
        | 1637
        | 1969
        | 3024
        | 8002
        | 8005
        | 8022
        | 8028
        | 9001..=9007 => ErrorKind::Overloaded,
        // Shut down, killed, idle for too long, cut off.
        1053 | 1077 | 1080 | 1152 | 1158..=1161 | 1184 | 1927 | 2006 | 2013 | 3169 | 4031 => {
            ErrorKind::Unsent
        }
        // Rights, read-only, full, more than the server takes at once.
        1021 | 1153 | 1044 | 1114 | 1142 | 1143 | 1227 | 1290 | 1370 | 1792 | 1836 => ErrorKind::Refused,
        // Who and where.
        1045 | 1046 | 1049 | 1129 | 1130 | 1251 | 1524 | 1698 | 1862 => ErrorKind::Config,
        // What there is and what it looks like.
        1050..=1052 | 1054 | 1060 | 1072 | 1074 | 1101 | 1103 | 1109 | 1136 | 1146 | 1305 | 1347 | 1471 => {
            ErrorKind::Schema
        }
        1064 | 1210 | 1243 | 1295 => ErrorKind::Bug,
        _ => match state.get(..2) {
            Some("22" | "23" | "44" | "45") => ErrorKind::Rejected,
            Some("40") => ErrorKind::Overloaded,
            Some("08") => ErrorKind::Unsent,
            Some("28" | "3D") => ErrorKind::Config,
            Some("42") => ErrorKind::Schema,
            // Of a class that no server has: a SIGNAL of the user's own.
            Some(class) if !CLASSES.contains(&class) => ErrorKind::Rejected,
            _ => ErrorKind::Refused,
        },
    }
}

/// The row, counted from 0, that a message names. Its words are translated, so only its last number is looked at. A
/// suspicion, never the ground of a decision.
pub(super) fn suspect(server: &ServerError) -> Option<usize> {
    let text = server.message.trim_end();
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (before, number) = text.split_at(text.len() - digits);
    // A quoted value that ends in digits ends in a quote.
    if !before.ends_with(' ') {
        return None;
    }
    number.parse::<usize>().ok()?.checked_sub(1)
}

/// Whether a number says that a transaction was ended for the sake of another one: changed since it was read, a deadlock or a
/// cluster's certification, interrupted by another node's; TiDB's write conflicts.
pub(super) fn lost_race(code: &str) -> bool {
    matches!(code, "1020" | "1213" | "1317" | "8002" | "8022" | "9007")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_say_what_to_do() {
        let cases = [
            (1062, "23000", ErrorKind::Rejected),
            (4025, "23000", ErrorKind::Rejected),
            (1213, "40001", ErrorKind::Overloaded),
            (1205, "HY000", ErrorKind::Overloaded),
            (1040, "08004", ErrorKind::Overloaded),
            (1927, "70100", ErrorKind::Unsent),
            (1053, "08S01", ErrorKind::Unsent),
            (1290, "HY000", ErrorKind::Refused),
            (1146, "42S02", ErrorKind::Schema),
            (1045, "28000", ErrorKind::Config),
            (9999, "22001", ErrorKind::Rejected),
            (9999, "HY000", ErrorKind::Refused),
        ];
        for (code, state, wanted) in cases {
            assert_eq!(kind(code, state), wanted, "{code} {state}");
        }
    }

    #[test]
    fn a_row_is_suspected_by_the_last_number() {
        let cases = [
            ("Out of range value for column 'v' at row 12", Some(11)),
            ("Wert zu groß für Feld 'v' in Zeile 1", Some(0)),
            ("Duplicate entry '7' for key 'PRIMARY'", None),
            ("CONSTRAINT `c5` failed for `t`", None),
            ("at row 0", None),
            ("", None),
        ];
        for (message, wanted) in cases {
            let server = ServerError {
                code: 1264,
                message: message.to_owned(),
                state: "22003".to_owned(),
            };
            assert_eq!(suspect(&server), wanted, "{message}");
        }
    }

    #[test]
    fn a_commit_that_is_refused_is_in_doubt() {
        let failure = |code: u16, state: &str| {
            Failure::Server(ServerError {
                code,
                message: "no".to_owned(),
                state: state.to_owned(),
            })
        };
        assert_eq!(commit(failure(1213, "40001")).kind(), ErrorKind::Overloaded);
        for code in [1053, 1205, 1317, 1927, 1180] {
            assert_eq!(
                commit(failure(code, "HY000")).kind(),
                ErrorKind::InDoubt,
                "{code}"
            );
        }
    }
}
