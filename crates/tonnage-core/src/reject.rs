//! Rows put aside, and the file they go to.

use std::sync::Arc;

/// A row that was not loaded, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Reject {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// Row of the file, from 1; a header is not a row.
    pub row: u64,
    /// Byte offset of the row, for formats that have one.
    pub offset: Option<u64>,
    /// What is wrong.
    pub problem: Problem,
    /// The row itself.
    pub data: RejectData,
}

impl Reject {
    /// Bytes of memory that it takes, about.
    pub fn bytes(&self) -> usize {
        let data = match &self.data {
            RejectData::Fields(fields) => fields
                .iter()
                .map(|(_, value)| 48 + value.as_ref().map_or(0, String::len))
                .sum(),
            RejectData::Raw(bytes) => bytes.len(),
        };
        size_of::<Self>() + self.problem.message.len() + data
    }
}

/// What is wrong with a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The column, where one is to blame.
    pub column: Option<String>,
    /// The database's code, or for what is found on the way there the SQLSTATE of the same meaning.
    pub code: String,
    /// One line for people.
    pub message: String,
    /// The next step, if there is an obvious one.
    pub hint: Option<String>,
}

/// The row as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub enum RejectData {
    /// Column names and values as text; `None` is null.
    Fields(Vec<(Arc<str>, Option<String>)>),
    /// The bytes of the record, where they could not be cut into fields of text.
    Raw(Vec<u8>),
}

/// SQLSTATEs given to rows found bad before the database sees them.
pub mod sqlstate {
    /// Makes a constant of each code, and the list of them with what their comments say.
    macro_rules! codes {
        ($(#[doc = $meaning:literal] $name:ident = $code:literal;)*) => {
            $(#[doc = $meaning] pub const $name: &str = $code;)*

            /// Every code, with what it means.
            pub const ALL: &[(&str, &str)] = &[$(($code, $meaning),)*];
        };
    }

    codes! {
        /// A value is not of the column's type.
        INVALID_TEXT = "22P02";
        /// A number does not fit.
        OUT_OF_RANGE = "22003";
        /// Text is longer than the column.
        TOO_LONG = "22001";
        /// Not a date or time.
        INVALID_DATETIME = "22007";
        /// A date or time that does not exist.
        DATETIME_OVERFLOW = "22008";
        /// Invalid encoding, or a NUL where there may be none.
        INVALID_ENCODING = "22021";
        /// Wrong number of fields, a stray quote.
        BAD_FORMAT = "22P04";
        /// A null where there may be none.
        NOT_NULL = "23502";
        /// A value that the column would change.
        WOULD_CHANGE = "22000";
    }
}

/// Problems found while a batch is read or converted: at most one a row, the first found.
#[derive(Debug, Default)]
pub struct Problems {
    found: std::collections::BTreeMap<usize, Problem>,
}

impl Problems {
    /// Notes that row `row` of the batch is bad. The first problem of a row stays.
    pub fn add(&mut self, row: usize, problem: Problem) {
        self.found.entry(row).or_insert(problem);
    }

    /// Whether every row is good.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Number of bad rows.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether row `row` is bad.
    pub fn contains(&self, row: usize) -> bool {
        self.found.contains_key(&row)
    }

    /// The bad rows in row order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Problem)> {
        self.found.iter().map(|(row, problem)| (*row, problem))
    }
}
