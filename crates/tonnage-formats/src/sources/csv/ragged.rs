//! Records that do not have as many fields as there are columns, and mean something all the same.
//!
//! A field that is missing is null only where the fields that are there are of the kinds of their columns; a row that an
//! unquoted line feed has cut in two is none of these, and stays a bad row.

use memchr::memchr;

use super::{
    dialect::{Dialect, Lenient},
    tokenise::{Fields, Flaw, Record, Tokeniser},
};
use crate::sources::infer::Guess;

/// One row of so many has to be short for that to be the custom of whoever wrote the file. Fewer are damage: each costs
/// its own rejection.
const SHORT_SHARE_MIN: u64 = 5;

/// The most rows that are kept until all kinds are known.
const ROWS_KEPT_MAX: usize = 1_000;

/// The most bytes of them.
const BYTES_KEPT_MAX: usize = 4 << 20;

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Ragged {
    /// Fields of rows that are short, with the row of the file.
    short: Vec<Vec<Option<Vec<u8>>>>,
    short_bytes: usize,
    /// The first of them, in rows from 1.
    first_short: u64,
    /// Rows of any number of fields.
    rows: u64,
    /// Rows with as many fields as there are columns.
    full: u64,
    /// Of these, whether one ends with an empty field.
    ends_empty: bool,
    /// Of these, whether one begins with `#`.
    begins_with_sign: bool,
    /// The number of fields of the record before, where it was short.
    before: Option<usize>,
    /// Two lines may be one that is cut.
    may_be_cut: bool,
    /// Rows that are bad whatever is taken for a row, or too many to tell.
    is_damaged: bool,
    /// Rows with empty fields behind the last column.
    empty: u64,
    /// Lines of spaces.
    spaces: u64,
    /// Lines that begin with `#`.
    comments: u64,
}

impl Ragged {
    /// Takes note of a row with all its `fields`, at `at` of `text`.
    pub fn see_row(&mut self, text: &[u8], at: usize, fields: &Fields) {
        self.rows += 1;
        self.full += 1;
        self.before = None;
        self.begins_with_sign |= text.get(at) == Some(&b'#');
        let last = fields.spans.last().map(|span| fields.bytes(*span, text));
        self.ends_empty |= last.is_some_and(<[u8]>::is_empty);
    }

    /// Takes note of a bad record, `text`, with its line end. Whatever it may mean is shown to `guesses` by
    /// [`Ragged::settle`].
    pub fn see_bad(&mut self, text: &[u8], flaw: Flaw, dialect: &Dialect) {
        let Flaw::FieldCount { found, expected } = flaw else {
            self.rows += 1;
            self.is_damaged = true;
            self.before = None;
            return;
        };
        let line = text.trim_ascii();
        if expected > 1 && found == 1 && line.is_empty() {
            self.spaces += 1;
            return;
        }
        if expected > 1 && line.first() == Some(&b'#') && dialect.comment.is_none() && !has_line_end(line) {
            self.comments += 1;
            return;
        }
        self.rows += 1;
        let mut fields = Fields::default();
        let cut = Tokeniser::new(dialect, None).record(text, 0, true, &mut fields);
        if !matches!(cut, Record::Good { .. }) {
            self.is_damaged = true;
            return;
        }
        let values: Vec<Option<Vec<u8>>> = fields
            .spans
            .iter()
            .map(|span| Some(dialect.value(fields.bytes(*span, text), *span)?.to_vec()))
            .collect();
        if found > expected {
            let is_nothing =
                |value: &Option<Vec<u8>>| value.as_ref().is_none_or(|value| value.trim_ascii().is_empty());
            match values[expected..].iter().all(is_nothing) {
                true => self.empty += 1,
                false => self.is_damaged = true,
            }
            self.before = None;
            // What its columns have decides their types.
            self.keep(values[..expected].to_vec());
            return;
        }
        // Two lines that together have the fields of one row are probably one, unless both begin as a row does.
        self.may_be_cut |= self.before.is_some_and(|before| before + found == expected + 1);
        self.before = Some(found);
        if self.first_short == 0 {
            self.first_short = self.rows;
        }
        self.keep(values);
    }

    fn keep(&mut self, values: Vec<Option<Vec<u8>>>) {
        self.short_bytes += values.iter().flatten().map(Vec::len).sum::<usize>();
        if self.short.len() < ROWS_KEPT_MAX && self.short_bytes <= BYTES_KEPT_MAX {
            self.short.push(values);
        } else {
            self.is_damaged = true;
        }
    }

    /// What is to be taken for rows and for none, a sentence each in `notes`; the rows are shown to `guesses`, one for each
    /// of `width` columns.
    pub fn settle(
        self,
        dialect: &mut Dialect,
        guesses: &mut [Guess],
        fields: &[Option<usize>],
        shown: &str,
        notes: &mut Vec<String>,
    ) {
        let width = fields.iter().flatten().max().map_or(0, |last| last + 1);
        let short = self.short.iter().filter(|row| row.len() < width).count();
        let is_custom = short as u64 * SHORT_SHARE_MIN >= self.rows;
        let takes_short = short > 0 && is_custom && self.are_rows(guesses, fields, width);
        if self.comments > 0
            && !self.begins_with_sign
            && dialect.delimiter != b'#'
            && dialect.quote != Some(b'#')
        {
            dialect.comment = Some(b'#');
            notes.push(format!(
                "lines of {shown} that begin with # are no rows; --format csv takes them for rows"
            ));
        }
        if self.spaces > 0 {
            notes.push(format!(
                "lines of spaces of {shown} are no rows; --format csv refuses them"
            ));
        }
        if self.empty > 0 {
            notes.push(format!(
                "rows of {shown} have more fields than the header, and nothing in them; --format csv refuses such rows"
            ));
        }
        if takes_short {
            notes.push(format!(
                "{} of {shown}, the first is row {}, have fewer fields than the header: what they lack is null; --format \
                 csv refuses such rows",
                match short {
                    1 => "some rows".to_owned(),
                    short => format!("{short} rows that were looked at"),
                },
                self.first_short
            ));
        }
        dialect.lenient = Lenient {
            short: takes_short,
            empty: self.empty > 0,
            spaces: self.spaces > 0,
            ..dialect.lenient
        };
        for row in &self.short {
            if row.len() < width && !takes_short {
                continue;
            }
            for (guess, field) in guesses.iter_mut().zip(fields) {
                let value = field.and_then(|field| row.get(field)).and_then(Option::as_deref);
                guess.see(value);
            }
        }
    }

    /// Whether the short rows are rows: each value is of the kind of its column, and a column of a kind is among them; or
    /// rows of text have several fields, and no row is there that ends with an empty one. Where full
    /// rows are rare, only the former tells.
    fn are_rows(&self, guesses: &[Guess], fields: &[Option<usize>], width: usize) -> bool {
        if self.is_damaged || self.full == 0 {
            return false;
        }
        let are_full = self.full as usize * 4 >= self.short.len();
        let typed: Vec<&Guess> = (0..width)
            .filter_map(|field| fields.iter().position(|other| *other == Some(field)))
            .map(|column| &guesses[column])
            .collect();
        self.short.iter().filter(|row| row.len() < width).all(|row| {
            let mut pairs = row.iter().zip(&typed);
            let is_foreign = |(value, guess): (&Option<Vec<u8>>, &&Guess)| {
                value.as_deref().is_some_and(|value| guess.is_foreign(value))
            };
            let has_kind = row
                .iter()
                .zip(&typed)
                .any(|(value, guess)| value.is_some() && guess.is_typed());
            let is_told = has_kind || (are_full && row.len() > 1 && !self.ends_empty);
            let begins_as_row = row.first().is_some_and(Option::is_some)
                && typed.first().is_some_and(|guess| guess.is_typed());
            !pairs.any(is_foreign) && is_told && (begins_as_row || !self.may_be_cut)
        })
    }
}

/// A record may have line ends within quotes.
fn has_line_end(line: &[u8]) -> bool {
    memchr(b'\n', line).is_some()
}
