//! Lines at the end of a file that are no rows: notes, sources and totals.
//!
//! They are found only where the line before them is a row, so that the middle of a quoted field is never taken for them;
//! and only where a blank line, their first word or the kind of the values before them tells that they are none.

use memchr::memrchr;

use super::{
    dialect::Dialect,
    tokenise::{Fields, Record, Tokeniser},
};
use crate::sources::infer::Guess;

/// Bytes at the end of a file that are looked at.
pub(super) const FOOTER_LOOKED_AT_BYTES: u64 = 64 << 10;

/// The most lines, blank ones included.
const LINES_MAX: u64 = 50;

/// Rows before them by which the kind of the first column is told.
const ROWS_SEEN: usize = 20;

/// The most characters of the first that a note shows.
const TEXT_SHOWN_MAX: usize = 60;

/// What DOS ends a text with.
const END_OF_TEXT: &[u8] = b"\x1a";

/// What notes begin with, in small letters.
const FIRST_WORDS: &[&str] = &[
    "source",
    "note",
    "total",
    "footnote",
    "last updated",
    "data from",
    "generated",
    "*",
    "(",
    "\u{a9}",
    "copyright",
];

/// What is at the end of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Footer {
    /// How many lines, blank ones among them included.
    pub lines: u64,
    /// The first that is not blank.
    pub text: String,
}

impl Footer {
    /// What there is to say of it.
    pub fn note(&self, shown: &str) -> String {
        let text: String = self.text.chars().take(TEXT_SHOWN_MAX).collect();
        let text = text.escape_debug();
        match self.lines {
            1 => format!(
                "the last line of {shown}, '{text}', is no row and is not read, by the last 64 KiB; --format csv takes it for one"
            ),
            lines => format!(
                "the last {lines} lines of {shown}, '{text}' and what is below, are no rows and are not read, by the last \
                 {LINES_MAX} lines and 64 KiB; --format csv takes them for rows"
            ),
        }
    }
}

/// The lines at the end of `text` that are no rows; its rows have `width` fields. `text` ends with the file and begins with
/// a line.
pub(super) fn footer(text: &[u8], dialect: &Dialect, width: usize) -> Option<Footer> {
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let (mut end, mut lines, mut found) = (body.len(), 0, Found::default());
    while lines < LINES_MAX {
        let start = memrchr(b'\n', &body[..end]).map_or(0, |at| at + 1);
        let line = body[start..end].trim_ascii();
        if line.is_empty() {
            found.blank_above = true;
        } else {
            let fields = fields(&body[start..end], dialect)?;
            if fields.len() == width {
                return found.told(&body[..end], dialect, width);
            }
            found.add(line, lines + 1, fields.len());
        }
        lines += 1;
        // It has to have a row before it.
        end = start.checked_sub(1)?;
    }
    None
}

/// What was seen so far, from the last line on.
#[derive(Default)]
struct Found {
    /// Lines to the first of them.
    lines: u64,
    /// That one.
    first: Vec<u8>,
    /// Whether all have one field.
    are_single: bool,
    /// A blank line is above it.
    blank_above: bool,
}

impl Found {
    fn add(&mut self, line: &[u8], lines: u64, fields: usize) {
        self.are_single = fields == 1 && (self.lines == 0 || self.are_single);
        self.lines = lines;
        self.first = line.to_vec();
        self.blank_above = false;
    }

    /// The footer, if something tells that it is one; `rows` end before it.
    fn told(self, rows: &[u8], dialect: &Dialect, width: usize) -> Option<Footer> {
        if self.lines == 0 || width < 2 {
            return None;
        }
        let text = String::from_utf8_lossy(&self.first)
            .trim_matches('"')
            .trim()
            .to_owned();
        let small = text.to_lowercase();
        let has_word = FIRST_WORDS.iter().any(|word| small.starts_with(word)) || self.first == END_OF_TEXT;
        let is_told =
            self.blank_above || (self.are_single && (has_word || is_foreign(text.as_bytes(), rows, dialect)));
        is_told.then_some(Footer {
            lines: self.lines,
            text,
        })
    }
}

/// Whether `text` is of another kind than the first fields of the last rows, which are of one.
fn is_foreign(text: &[u8], rows: &[u8], dialect: &Dialect) -> bool {
    let mut guess = Guess::default();
    let lines = rows
        .rsplit(|byte| *byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty());
    for line in lines.take(ROWS_SEEN) {
        if let Some(first) = fields(line, dialect).as_deref().and_then(<[_]>::first) {
            guess.see(Some(first).filter(|first| !first.is_empty()).map(Vec::as_slice));
        }
    }
    // The header may be among few rows.
    guess.is_foreign(text)
}

/// The fields of a line; none where it is no record by itself.
fn fields(line: &[u8], dialect: &Dialect) -> Option<Vec<Vec<u8>>> {
    let mut fields = Fields::default();
    match Tokeniser::new(dialect, None).record(line, 0, true, &mut fields) {
        Record::Good { .. } => Some(
            fields
                .spans
                .iter()
                .map(|span| fields.bytes(*span, line).trim_ascii().to_vec())
                .collect(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{Format, TextOptions};

    #[test]
    fn what_is_no_row_at_the_end_is_told_by_its_form() {
        let dialect = Dialect::new(Format::Csv, &TextOptions::default()).unwrap();
        let cases = [
            ("1,x\n2,y\nTotal: 2\n", Some((1, "Total: 2"))),
            ("1,x\n2,y\nmade by hand", Some((1, "made by hand"))),
            ("x,1\ny,2\nmade by hand\n", None),
            ("x,1\ny,2\n\nmade, by, hand\n", Some((1, "made, by, hand"))),
            ("x,1\ny,2\n\nSource: a\n\nNote: b\n\n", Some((4, "Source: a"))),
            ("x,1\ny,2\n\"Source: a, b\"\n", Some((1, "Source: a, b"))),
            ("x,1\ny,2\n\x1a", Some((1, "\x1a"))),
            ("1,x\n2,y\n3\n", None),
            ("1,x\n2,\"y\nTotal\n\"\n", None),
            ("1,x\n2,y\n\n\n", None),
            ("Total\n", None),
            ("", None),
        ];
        for (text, expected) in cases {
            let found = footer(text.as_bytes(), &dialect, 2);
            let found = found.as_ref().map(|found| (found.lines, found.text.as_str()));
            assert_eq!(found, expected, "{text:?}");
        }
    }
}
