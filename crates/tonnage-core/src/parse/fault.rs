//! What is wrong with a value, in the words the user gets.

use std::fmt::Write;

use crate::{
    reject::{self, Problems, sqlstate},
    types::ColumnType,
};

/// The most characters of a value that a message repeats.
const SHOWN_CHARS_MAX: usize = 60;

/// Spellings of "no value" that files have instead of an empty field, in lower case.
const NULL_WORDS: &[&str] = &[
    "na",
    "n/a",
    "#n/a",
    "null",
    "(null)",
    "<null>",
    "none",
    "nil",
    "nan",
    "\\n",
    "-",
    "--",
    "?",
    ".",
    "missing",
    "undefined",
];

/// Whether a value is a word that files have instead of an empty field.
pub fn is_null_word(value: &[u8]) -> bool {
    NULL_WORDS
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// What is wrong with one value. Boxed in results, because good values are what has to be fast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// One of [`sqlstate`].
    pub code: &'static str,
    /// One line for people.
    pub message: String,
    /// The next step, if there is an obvious one.
    pub hint: Option<String>,
}

/// A value, or what is wrong with it.
pub type Parsed<T> = std::result::Result<T, Box<Fault>>;

impl Fault {
    /// A fault without a hint.
    #[cold]
    pub fn new(code: &'static str, message: String) -> Box<Self> {
        Box::new(Self {
            code,
            message,
            hint: None,
        })
    }

    /// Adds the next step.
    pub fn hint(mut self: Box<Self>, hint: impl Into<String>) -> Box<Self> {
        self.hint = Some(hint.into());
        self
    }

    /// `'abc' is not an int32`.
    #[cold]
    pub fn not_a(value: &[u8], ty: &ColumnType) -> Box<Self> {
        let name = ty.to_string();
        let article = match name.as_bytes().first() {
            Some(b'a' | b'e' | b'i' | b'o') => "an",
            _ => "a",
        };
        Self::new(
            sqlstate::INVALID_TEXT,
            format!("{} is not {article} {name}", shown(value)),
        )
    }

    /// `'99999' is out of range for int16`.
    #[cold]
    pub fn out_of_range(value: &[u8], ty: &ColumnType) -> Box<Self> {
        Self::new(
            sqlstate::OUT_OF_RANGE,
            format!("{} is out of range for {ty}", shown(value)),
        )
    }
}

/// Whether `--null` may be the answer to a value that could not be read: it is for text files only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NullHint {
    /// The values are fields of a text file.
    Offered,
    /// They are not.
    Withheld,
}

/// Where the faults of one column go.
pub struct Notes<'a> {
    /// The column's name.
    pub column: &'a str,
    /// The rows' problems.
    pub problems: &'a mut Problems,
    /// Whether to suggest `--null`.
    pub null_hint: NullHint,
}

impl Notes<'_> {
    /// Notes that the value in row `row` is bad.
    #[cold]
    pub fn add(&mut self, row: usize, fault: Fault) {
        self.problems.add(
            row,
            reject::Problem {
                column: Some(self.column.to_owned()),
                code: fault.code.to_owned(),
                message: fault.message,
                hint: fault.hint,
            },
        );
    }

    /// Notes that `value` in row `row` could not be read.
    #[cold]
    pub fn add_text(&mut self, row: usize, value: &[u8], mut fault: Fault) {
        let unreadable = matches!(fault.code, sqlstate::INVALID_TEXT | sqlstate::INVALID_DATETIME);
        if unreadable && self.null_hint == NullHint::Offered {
            let value = String::from_utf8_lossy(value.trim_ascii());
            if NULL_WORDS.contains(&value.to_ascii_lowercase().as_str()) {
                fault.hint = Some(format!("if it stands for null, add --null '{value}'"));
            }
        }
        self.add(row, fault);
    }
}

/// The value in quotes: at most 60 characters of it, control characters and bytes that are not UTF-8 escaped.
pub fn shown(value: &[u8]) -> String {
    format!("'{}'", shown_bare(value))
}

/// [`shown`] without the quotes.
pub fn shown_bare(value: &[u8]) -> String {
    let mut text = String::new();
    let mut chars = 0;
    for chunk in value.utf8_chunks() {
        for c in chunk.valid().chars() {
            if chars == SHOWN_CHARS_MAX {
                text.push_str("...");
                return text;
            }
            chars += 1;
            match c {
                c if c.is_control() => text.extend(c.escape_default()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            if chars == SHOWN_CHARS_MAX {
                text.push_str("...");
                return text;
            }
            chars += 1;
            // Writing to a string does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}
