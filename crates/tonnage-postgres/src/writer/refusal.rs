//! Why a write did not happen, and of which rows.

use tonnage_core::error::Error;

use crate::encode::ColumnFault;

/// Why a write did not happen.
pub(super) enum Refusal {
    /// The server or the connection, of rows from `first` on.
    Server {
        error: tokio_postgres::Error,
        first: usize,
    },
    /// A value that cannot be sent. Whether part of the batch was on its way already.
    Value { fault: ColumnFault, sent: bool },
    /// Other rows than the operation means were touched. The row, where it is known.
    Missing {
        expected: u64,
        touched: u64,
        row: Option<usize>,
    },
    /// The server, of one row.
    Row {
        row: usize,
        error: tokio_postgres::Error,
    },
    /// Something of our own.
    Other(Error),
}

impl From<tokio_postgres::Error> for Refusal {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server { error, first: 0 }
    }
}

impl Refusal {
    /// The refusal of rows that are the batch's from row `first` on.
    pub fn behind(self, first: usize) -> Self {
        match self {
            Self::Server { error, .. } => Self::Server { error, first },
            Self::Value {
                fault: (column, mut fault),
                sent,
            } => {
                fault.row += first;
                Self::Value {
                    fault: (column, fault),
                    sent: sent || first > 0,
                }
            }
            other => other,
        }
    }

    /// The refusal of a row sent alone.
    pub fn of_row(self, row: usize) -> Self {
        match self {
            Self::Server { error, .. } => Self::Row { row, error },
            Self::Missing {
                expected, touched, ..
            } => Self::Missing {
                expected,
                touched,
                row: Some(row),
            },
            other => other,
        }
    }
}
