//! How a file is written, found in its first records where the options do not say it.
//!
//! - A file that the options read well is read by them: nothing is looked for.
//! - Otherwise the reading is taken under which the sample's records have one number of fields. It has to explain the
//!   sample clearly better than the options do; where none does, the options stay, and bad rows are refused with what
//!   is wrong with them.
//! - What was found is said: each finding is a note of the plan, with the option that reads the file otherwise.

use std::{borrow::Cow, cmp::Reverse, collections::HashMap};

use memchr::{memchr, memchr_iter};

use super::{
    dialect::{Dialect, Lenient, Quoting},
    tokenise::{Fields, Flaw, Idle, Record, Span, Tokeniser},
};
use crate::sources::{TextOptions, infer::Guess, text::blanks::split_by_blanks};

/// Bytes that are looked at.
pub(super) const SAMPLE_BYTES: usize = 256 << 10;

/// Records that are looked at.
const SAMPLE_RECORDS: usize = 1_000;

/// The most lines before a header that are taken for no rows.
const PREAMBLE_LINES_MAX: usize = 50;

/// Rows by which a header is told from a row.
const HEADER_ROWS: usize = 100;

/// Of records that blanks separate: the fewest fields, and the fewest records, that are no text of a few words.
const BLANKS_WIDTH_MIN: usize = 3;
const BLANKS_RECORDS_MIN: usize = 3;

/// Fields with a space before them by which spaces behind delimiters are told.
const SPACED_FIELDS_MIN: usize = 3;

/// Numbers that are years more often than values: `country,2019,2020` is a header, and so may `2019,2020` be.
const YEARS: std::ops::RangeInclusive<f64> = 1800.0..=2100.0;

/// Delimiters that are tried, besides the one of the options; the first of equals is taken.
const DELIMITERS: [u8; 8] = [b',', b';', b'\t', b'|', b'^', b'~', 0x01, 0x1f];

/// What was found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The delimiter, where it is another one.
    pub delimiter: Option<u8>,
    /// The quote, where it is another one.
    pub quote: Option<u8>,
    /// The escape sign, where there is one.
    pub escape: Option<u8>,
    /// Quoting that is taken besides.
    pub quoting: Quoting,
    /// Quotes stand around no field: they are characters.
    pub unquoted: bool,
    /// Carriage returns outside of quotes are characters, or belong to a line end.
    pub returns: bool,
    /// Runs of spaces and tabs separate fields; each is made a tab.
    pub blanks: bool,
    /// Spaces behind delimiters mean nothing, nor do others around unquoted fields.
    pub trim: bool,
    /// Lines before the header.
    pub skip: u64,
    /// There is no header: the first record is a row.
    pub headerless: bool,
    /// The number of fields that most records have.
    pub width: usize,
    /// What the header has that rows do not have, or the reverse.
    pub header: HeaderWidth,
}

/// How many names a header has, compared with the fields of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum HeaderWidth {
    /// As many.
    #[default]
    Equal,
    /// One less, and the last field of rows is empty: rows end with a delimiter.
    OneLess,
    /// One more, which is empty: the header ends with a delimiter.
    OneMore,
    /// One less, and all rows have as many: the first column, of row names, has no name, as R writes it.
    RowNames,
}

/// The beginning of a file, behind lines that are skipped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample<'a> {
    pub text: &'a [u8],
    /// The file ends with it.
    pub whole: bool,
    /// The file can be opened again, to be read with its blanks made tabs.
    pub rereadable: bool,
}

/// What a sample shows beyond the options.
pub(super) fn detect(sample: Sample<'_>, dialect: &Dialect, options: &TextOptions) -> Found {
    let Sample { text, whole, .. } = sample;
    let delimited = reading(text, whole, dialect, options);
    let by_blanks = match sample.rereadable && options.delimiter.is_none() && !delimited.is_perfect() {
        true => Reading::by_blanks(text, whole, dialect, options),
        false => None,
    };
    let mut found = by_blanks.unwrap_or(delimited).found;
    let dialect = found.applied(dialect);
    let split = match found.blanks {
        true => Cow::Owned(split_by_blanks(text, dialect.quote)),
        false => Cow::Borrowed(text),
    };
    let rows = behind_lines(&split, found.skip);
    found.trim = !dialect.trim && !found.blanks && has_spaces_behind_delimiters(rows, whole, &dialect);
    found.headerless =
        options.header && found.header == HeaderWidth::Equal && lacks_header(rows, whole, &dialect);
    found
}

/// What follows so many lines.
fn behind_lines(mut text: &[u8], lines: u64) -> &[u8] {
    for _ in 0..lines {
        text = &text[memchr(b'\n', text).map_or(text.len(), |end| end + 1)..];
    }
    text
}

fn reading(text: &[u8], whole: bool, dialect: &Dialect, options: &TextOptions) -> Reading {
    let plain = Reading::without_titles(text, whole, dialect, options);
    if plain.is_perfect() {
        // Titles may have as many fields as rows.
        let behind_titles = Reading::of(text, whole, dialect, options, Found::default());
        return match behind_titles.is_perfect() {
            true => behind_titles,
            false => plain,
        };
    }
    if plain.width <= 1 && plain.fits == plain.records && !has_other_delimiter(text, dialect) {
        return plain;
    }
    let delimiters: Vec<u8> = match options.delimiter {
        Some(delimiter) => vec![delimiter],
        None => {
            let is_there = |other: &u8| *other != dialect.delimiter && memchr(*other, text).is_some();
            let others = DELIMITERS.into_iter().filter(is_there);
            std::iter::once(dialect.delimiter).chain(others).collect()
        }
    };
    let mut best: Option<Reading> = None;
    for delimiter in delimiters {
        for quotes in quotings(text, dialect, plain.has_quoted) {
            let found = Found {
                delimiter: (delimiter != dialect.delimiter).then_some(delimiter),
                ..quotes
            };
            let reading = Reading::of(text, whole, dialect, options, found);
            if reading.explains(&plain) && reading.rank() > best.as_ref().unwrap_or(&plain).rank() {
                best = Some(reading);
            }
        }
    }
    best.unwrap_or(plain)
}

/// The readings of quotes and carriage returns that the text gives reason to try, plainest first.
fn quotings(text: &[u8], dialect: &Dialect, has_quoted: bool) -> Vec<Found> {
    let mut readings = quotings_alone(text, dialect, has_quoted);
    if has_loose_return(text) {
        let with_returns = readings.iter().map(|found| Found {
            returns: true,
            ..found.clone()
        });
        readings.extend(with_returns.collect::<Vec<_>>());
    }
    readings
}

fn quotings_alone(text: &[u8], dialect: &Dialect, has_quoted: bool) -> Vec<Found> {
    let mut readings = vec![Found::default()];
    let (Some(quote), None) = (dialect.quote, dialect.escape) else {
        return readings;
    };
    if memchr(quote, text).is_none() {
        if quote == b'"' && memchr(b'\'', text).is_some() {
            readings.push(Found {
                quote: Some(b'\''),
                ..Found::default()
            });
        }
        return readings;
    }
    let quoting = |spaced, bare| Found {
        quoting: Quoting {
            spaced,
            bare,
            inner: false,
        },
        ..Found::default()
    };
    readings.push(quoting(true, false));
    if memchr::memmem::find(text, &[b'\\', quote]).is_some() {
        readings.push(Found {
            escape: Some(b'\\'),
            ..Found::default()
        });
    }
    readings.push(quoting(false, true));
    readings.push(quoting(true, true));
    let inner = |bare| Found {
        quoting: Quoting {
            spaced: false,
            bare,
            inner: true,
        },
        ..Found::default()
    };
    readings.extend([inner(false), inner(true)]);
    // Where any field is in quotes, an open one is a damaged row.
    if !has_quoted {
        readings.push(Found {
            unquoted: true,
            ..Found::default()
        });
    }
    readings
}

/// Whether there is a carriage return that is not the one before a line feed.
fn has_loose_return(text: &[u8]) -> bool {
    memchr_iter(b'\r', text).any(|at| !matches!(text.get(at + 1), Some(b'\n') | None))
}

/// Whether half of the lines or more have another delimiter in them.
fn has_other_delimiter(text: &[u8], dialect: &Dialect) -> bool {
    let lines: Vec<&[u8]> = text
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty())
        .take(SAMPLE_RECORDS)
        .collect();
    let mut others = DELIMITERS.into_iter().filter(|other| *other != dialect.delimiter);
    others.any(|other| {
        lines.iter().filter(|line| memchr(other, line).is_some()).count() * 2 >= lines.len().max(1)
    })
}

/// The sample, read in one way.
struct Reading {
    found: Found,
    records: usize,
    /// The number of fields that most records have.
    width: usize,
    /// Records that have it.
    fits: usize,
    /// Whether the header is among them.
    header_fits: bool,
    /// Whether a field is in quotes.
    has_quoted: bool,
}

/// Whether a header of one name less than rows have fields may be what is meant: where nothing else is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowNames {
    Taken,
    Refused,
}

/// A record of the sample.
#[derive(Debug, Clone, Copy)]
struct Seen {
    start: usize,
    /// None for a bad one.
    width: Option<usize>,
    last_is_empty: bool,
    /// Whether a field of it is in quotes.
    is_quoted: bool,
}

impl Reading {
    /// The sample under what was `found`, behind titles above the header.
    fn of(text: &[u8], whole: bool, dialect: &Dialect, options: &TextOptions, mut found: Found) -> Self {
        let dialect = found.applied(dialect);
        let records = records(text, whole, &dialect);
        let records = without_comments(text, &records, &dialect);
        let mut first = 0;
        if options.header && options.skip.is_none() {
            first = preamble(text, &records, commonest(&records), &dialect);
            if let Some(record) = records.get(first).filter(|_| first > 0) {
                found.skip = memchr_iter(b'\n', &text[..record.start]).count() as u64;
            }
        }
        Self::of_records(&records[first..], options, found, RowNames::Taken)
    }

    /// The sample with each run of blanks for a delimiter, if that reads all of it: several fields in every record, numbers
    /// in a column, and more than text of a few words has.
    fn by_blanks(text: &[u8], whole: bool, dialect: &Dialect, options: &TextOptions) -> Option<Self> {
        let text = split_by_blanks(text, dialect.quote);
        let found = Found {
            delimiter: Some(b'\t'),
            blanks: true,
            ..Found::default()
        };
        let reading = Self::of(&text, whole, dialect, options, found);
        let dialect = reading.found.applied(dialect);
        let rows_text = behind_lines(&text, reading.found.skip);
        let rows = records(rows_text, whole, &dialect);
        let is_table = reading.is_perfect()
            && reading.width >= BLANKS_WIDTH_MIN
            && reading.found.header == HeaderWidth::Equal
            && rows.len() >= BLANKS_RECORDS_MIN;
        (is_table && are_typed(rows_text, &rows[1..], reading.width, &dialect)).then_some(reading)
    }

    /// The sample under the options alone.
    fn without_titles(text: &[u8], whole: bool, dialect: &Dialect, options: &TextOptions) -> Self {
        let records = records(text, whole, dialect);
        Self::of_records(&records, options, Found::default(), RowNames::Refused)
    }

    fn of_records(records: &[Seen], options: &TextOptions, mut found: Found, row_names: RowNames) -> Self {
        let width = commonest(records);
        found.width = width;
        if options.header {
            found.header = header_width(records, width);
        }
        if found.header == HeaderWidth::RowNames && row_names == RowNames::Refused {
            found.header = HeaderWidth::Equal;
        }
        let fits = |record: &Seen| record.width == Some(width);
        let is_uneven = found.header != HeaderWidth::Equal;
        Self {
            records: records.len(),
            fits: records.iter().filter(|record| fits(record)).count() + usize::from(is_uneven),
            header_fits: records.first().is_none_or(fits) || is_uneven,
            has_quoted: records.iter().any(|record| record.is_quoted),
            width,
            found,
        }
    }

    /// Whether every record has as many fields, of several.
    fn is_perfect(&self) -> bool {
        self.width > 1 && self.fits == self.records
    }

    /// Whether it reads the sample so much better than the options that they cannot be meant.
    fn explains(&self, plain: &Self) -> bool {
        let share = |reading: &Self| reading.fits as f64 / reading.records.max(1) as f64;
        if self.width < 2 || !self.header_fits {
            return false;
        }
        match plain.width {
            0 | 1 => share(self) >= 0.9,
            // By a comma the rows may have one number of fields, that are halves of decimals, and only the header another.
            _ if self.found.delimiter.is_some() => {
                let is_worse = share(plain) < 0.9 || !plain.header_fits;
                (self.fits == self.records && is_worse) || (share(self) >= 0.98 && share(plain) < 0.5)
            }
            _ => share(self) > share(plain),
        }
    }

    /// More is better: the share of records that fit, then what is assumed, then the number of fields.
    fn rank(&self) -> (u64, Reverse<u32>, usize) {
        let found = &self.found;
        // Lines that are left out are assumed last.
        let assumed = [
            (found.delimiter.is_some(), 1),
            (found.quote.is_some(), 1),
            (found.escape.is_some(), 1),
            (found.quoting.spaced, 1),
            (found.quoting.bare, 1),
            (found.quoting.inner, 1),
            (found.unquoted, 2),
            (found.returns, 1),
            (found.header != HeaderWidth::Equal, 1),
            (found.header == HeaderWidth::RowNames, 1),
            (found.skip > 0, 3),
        ];
        let share = match self.width {
            0 | 1 => 0,
            _ => self.fits as u64 * 1_000_000 / self.records.max(1) as u64,
        };
        let assumed = assumed
            .iter()
            .map(|(is_so, weight)| u32::from(*is_so) * weight)
            .sum();
        (share, Reverse(assumed), self.width)
    }
}

impl Found {
    /// The dialect with what was found.
    pub fn applied(&self, dialect: &Dialect) -> Dialect {
        Dialect {
            delimiter: self.delimiter.unwrap_or(dialect.delimiter),
            quote: match self.unquoted {
                true => None,
                false => self.quote.or(dialect.quote),
            },
            escape: self.escape.or(dialect.escape),
            quoting: self.quoting,
            trim: self.trim || dialect.trim,
            blanks: self.blanks,
            lenient: Lenient {
                returns: self.returns,
                ..dialect.lenient
            },
            ..dialect.clone()
        }
    }

    /// What there is to say of it, a sentence each.
    pub fn notes(&self, shown: &str) -> Vec<String> {
        let mut notes = Vec::new();
        if self.blanks {
            notes.push(format!(
                "spaces and tabs separate the fields of {shown}, however many there are, by its first 256 KiB; --delimiter \
                 says otherwise"
            ));
        } else if let Some(delimiter) = self.delimiter {
            notes.push(format!(
                "'{}' separates the fields of {shown}, by its first 256 KiB; --delimiter says otherwise",
                char::from(delimiter).escape_default()
            ));
        }
        if let Some(quote) = self.quote {
            notes.push(format!(
                "fields of {shown} are quoted with {}, by its first 256 KiB; --quote says otherwise",
                char::from(quote)
            ));
        }
        if self.escape.is_some() {
            notes.push(format!(
                "a backslash escapes quotes in {shown}, by its first 256 KiB; --format csv reads only doubled ones"
            ));
        }
        if self.quoting.spaced {
            notes.push(format!(
                "spaces before and behind quoted fields of {shown} mean nothing; --format csv refuses such rows"
            ));
        }
        if self.quoting.bare {
            notes.push(format!(
                "quotes inside unquoted fields of {shown} are characters of them; --format csv refuses such rows"
            ));
        }
        if self.quoting.inner {
            notes.push(format!(
                "quotes inside quoted fields of {shown} are characters of them, where neither a delimiter nor a line end is \
                 behind; --format csv refuses such rows"
            ));
        }
        if self.unquoted {
            notes.push(format!(
                "quotes in {shown} are characters, as none stands around a whole field; --format csv reads them as quotes"
            ));
        }
        if self.returns {
            notes.push(format!(
                "carriage returns outside of quotes in {shown} are characters, and several before a line feed end a line \
                 with it; --format csv refuses such rows"
            ));
        }
        if self.trim {
            notes.push(format!(
                "spaces behind delimiters, and around fields without quotes, mean nothing in {shown}; --format csv keeps them"
            ));
        }
        if self.headerless {
            notes.push(format!(
                "{shown} has no header, its first line is of the kinds of the rows and is read as one: the columns are c1, \
                 c2 .., --columns names them, --format csv takes the line for names"
            ));
        }
        match self.skip {
            0 => {}
            1 => notes.push(format!(
                "the first line of {shown} is before the header and is skipped; --skip 0 reads it"
            )),
            lines => notes.push(format!(
                "the first {lines} lines of {shown} are before the header and are skipped; --skip 0 reads them"
            )),
        }
        match self.header {
            HeaderWidth::Equal => {}
            HeaderWidth::OneLess => notes.push(format!(
                "rows of {shown} end with a delimiter, the header does not: the last column has no name"
            )),
            HeaderWidth::OneMore => notes.push(format!(
                "the header of {shown} ends with a delimiter, rows do not: no column is made of it"
            )),
            HeaderWidth::RowNames => notes.push(format!(
                "the header of {shown} has one name less than its rows have fields: the first column has no name"
            )),
        }
        notes
    }
}

/// The records of the sample that are there in whole.
fn records(text: &[u8], whole: bool, dialect: &Dialect) -> Vec<Seen> {
    let tokeniser = Tokeniser::new(dialect, None);
    let (mut fields, mut records, mut at) = (Fields::default(), Vec::new(), 0);
    while records.len() < SAMPLE_RECORDS {
        match tokeniser.idle(text, at, whole) {
            Idle::Line { next } => {
                at = next;
                continue;
            }
            Idle::Record => {}
            Idle::Incomplete | Idle::End => break,
        }
        fields.clear();
        match tokeniser.record(text, at, whole, &mut fields) {
            Record::Good { next, .. } => {
                let last = fields.spans.last().map(|span| fields.bytes(*span, text));
                records.push(Seen {
                    start: at,
                    width: Some(fields.spans.len()),
                    last_is_empty: last.is_some_and(|last| last.trim_ascii().is_empty()),
                    is_quoted: fields.spans.iter().any(|span| span.is_quoted()),
                });
                at = next;
            }
            Record::Bad { next, flaw, .. } => {
                let cut = !whole && matches!(flaw, Flaw::Unclosed(_));
                if cut {
                    break;
                }
                records.push(Seen {
                    start: at,
                    width: None,
                    last_is_empty: false,
                    is_quoted: false,
                });
                at = next;
            }
            Record::Incomplete | Record::Endless => break,
        }
    }
    records
}

/// The records without lines among them that begin with `#` and do not have the fields of the others: comments.
fn without_comments<'a>(text: &[u8], records: &'a [Seen], dialect: &Dialect) -> Cow<'a, [Seen]> {
    let width = commonest(records);
    let is_comment = |record: &Seen| text[record.start..].starts_with(b"#") && record.width != Some(width);
    let may_be = dialect.comment.is_none() && dialect.delimiter != b'#' && width > 1;
    match may_be && records.iter().skip(1).any(is_comment) {
        true => {
            let (first, rows) = records.split_at(1);
            let rows = rows.iter().filter(|record| !is_comment(record));
            Cow::Owned(first.iter().chain(rows).copied().collect())
        }
        false => Cow::Borrowed(records),
    }
}

/// Whether spaces are behind all delimiters: `1, x, 2`. One field in twenty may be without.
fn has_spaces_behind_delimiters(text: &[u8], whole: bool, dialect: &Dialect) -> bool {
    let (mut fields, mut with, mut without) = (Fields::default(), 0, 0);
    for record in records(text, whole, dialect).iter().take(HEADER_ROWS) {
        fields.clear();
        let line = &text[record.start..];
        if let Record::Good { .. } = Tokeniser::new(dialect, None).record(line, 0, true, &mut fields) {
            for span in fields.spans.iter().skip(1).filter(|span| !span.is_quoted()) {
                match fields.bytes(*span, line) {
                    [] => {}
                    [b' ', ..] => with += 1,
                    _ => without += 1,
                }
            }
        }
    }
    with >= SPACED_FIELDS_MIN && without * 20 <= with
}

/// The number of fields that most records have; of equals the larger one.
fn commonest(records: &[Seen]) -> usize {
    let mut counts: HashMap<usize, usize> = HashMap::new();
    for width in records.iter().filter_map(|record| record.width) {
        *counts.entry(width).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(width, count)| (*count, *width));
    most.map_or(0, |(width, _)| width)
}

/// How many records before the header are none: comments, and titles, which have one field where rows have several, or some
/// but at least two less. The record behind them has to look like a header; where only a title says so, and no blank line
/// does, the rows have to be of another kind than it, lest a header of free text be taken for a title.
fn preamble(text: &[u8], records: &[Seen], width: usize, dialect: &Dialect) -> usize {
    if width < 2 {
        return 0;
    }
    let comments = comments(text, records, width);
    let is_title = |record: &&Seen| match record.width {
        Some(1) => true,
        Some(fields) => fields + 1 < width,
        None => false,
    };
    let behind_comments = || records[comments..].iter().take(PREAMBLE_LINES_MAX);
    let titles = behind_comments().take_while(is_title).count();
    // A blank line tells titles from rows too, as wide as they are.
    let narrow = behind_comments().take_while(|record| record.width.is_some_and(|fields| fields < width));
    let narrow = narrow.count();
    let next = records.get(comments + narrow);
    let titles = match next.is_some_and(|record| is_blank_before(text, record.start)) {
        true => narrow,
        false => titles,
    };
    let first = match titles {
        0 => comments + behind_titles(text, &records[comments..], dialect),
        titles => comments + titles,
    };
    let Some(header) = records
        .get(first)
        .filter(|header| first > 0 && header.width == Some(width))
    else {
        return 0;
    };
    let behind = &records[first..];
    let fitting = behind.iter().filter(|record| record.width == Some(width)).count();
    if fitting < 2 || fitting * 10 < behind.len() * 9 {
        return 0;
    }
    let is_apart = is_blank_before(text, header.start);
    let is_told = titles == 0 || is_apart || are_typed(text, &behind[1..], width, dialect);
    let line = &text[header.start..];
    let is_header = is_header(line, dialect)
        || (comments == first && titles == 0)
        || (is_apart && begins_as_header(line, dialect))
        || (titles > 0 && fitting == behind.len() && fields_are_values(line, behind, text, dialect));
    if is_told && is_header { first } else { 0 }
}

/// How many records are comments: they begin with `#`, and with a space behind it or another number of fields than rows.
fn comments(text: &[u8], records: &[Seen], width: usize) -> usize {
    let is_comment = |record: &&Seen| {
        let line = &text[record.start..];
        line.starts_with(b"# ") || (line.starts_with(b"#") && record.width != Some(width))
    };
    records
        .iter()
        .take(PREAMBLE_LINES_MAX)
        .take_while(is_comment)
        .count()
}

/// Whether a blank line ends at `at`.
fn is_blank_before(text: &[u8], at: usize) -> bool {
    let before = &text[..at];
    before.ends_with(b"\n\n") || before.ends_with(b"\n\r\n")
}

/// Whether there is a column that is a number in every row.
fn are_typed(text: &[u8], rows: &[Seen], width: usize, dialect: &Dialect) -> bool {
    let mut numbers = vec![true; width];
    for row in rows.iter().filter(|row| row.width == Some(width)) {
        let fields = first_fields(&text[row.start..], dialect);
        for (is_number, field) in numbers.iter_mut().zip(&fields) {
            *is_number &= field.replace(',', ".").parse::<f64>().is_ok();
        }
    }
    numbers.contains(&true)
}

/// Where the header is behind titles that have as many fields as rows, of which only the first is not empty, and a
/// record without a value: `Report,,` and `,,`. Without the latter a title cannot be told from names that are missing.
fn behind_titles(text: &[u8], records: &[Seen], dialect: &Dialect) -> usize {
    let titles = records
        .iter()
        .take(PREAMBLE_LINES_MAX)
        .take_while(|record| is_title(&text[record.start..], dialect))
        .count();
    let last = titles.checked_sub(1).and_then(|last| records.get(last));
    let is_empty = last.is_some_and(|record| {
        let fields = first_fields(&text[record.start..], dialect);
        fields.iter().all(String::is_empty)
    });
    if is_empty { titles } else { 0 }
}

/// Whether all fields of a record but its first are empty: a title in a file that a spreadsheet wrote.
fn is_title(text: &[u8], dialect: &Dialect) -> bool {
    let fields = first_fields(text, dialect);
    fields.len() > 1 && fields[1..].iter().all(String::is_empty)
}

/// Whether a record looks like names: all there, all different, not one a number.
fn is_header(text: &[u8], dialect: &Dialect) -> bool {
    let mut fields = first_fields(text, dialect);
    let are_names = fields
        .iter()
        .all(|field| !field.is_empty() && field.parse::<f64>().is_err());
    let count = fields.len();
    fields.sort();
    fields.dedup();
    are_names && fields.len() == count
}

/// Whether the first fields of a record are names. The others may be years, or nothing.
fn begins_as_header(text: &[u8], dialect: &Dialect) -> bool {
    let fields = first_fields(text, dialect);
    let is_name = |field: &String| !field.is_empty() && field.parse::<f64>().is_err();
    fields.len() > 1 && fields.iter().take(2).all(is_name)
}

/// Whether the first record is a row.
fn lacks_header(text: &[u8], whole: bool, dialect: &Dialect) -> bool {
    let records = records(text, whole, dialect);
    let Some(first) = records.first() else {
        return false;
    };
    fields_are_values(&text[first.start..], &records, text, dialect)
}

/// Whether the first of `records`, which is at `line`, is a row: where columns behind it are numbers, dates or the like, it
/// has such values too. Names may be numbers as well: years, or such as go on by the same step; and what is in quotes where
/// the values of its column are not, is a name.
fn fields_are_values(line: &[u8], records: &[Seen], text: &[u8], dialect: &Dialect) -> bool {
    let Some((first, rows)) = records.split_first() else {
        return false;
    };
    let names = first_cells(line, dialect);
    // A column of row names has none.
    if names.first().is_none_or(|name| name.text.is_empty()) {
        return false;
    }
    let mut columns = vec![Column::default(); names.len()];
    let rows = rows
        .iter()
        .filter(|row| row.width == first.width)
        .take(HEADER_ROWS);
    let mut count = 0;
    for row in rows {
        for (column, cell) in columns.iter_mut().zip(first_cells(&text[row.start..], dialect)) {
            column.see(&cell);
        }
        count += 1;
    }
    let mut values = Vec::new();
    for (name, column) in names.iter().zip(&mut columns) {
        // What stands alone is told by itself.
        if count == 0 {
            column.guess.see(name.value());
        }
        if name.text.is_empty() || !column.guess.is_typed() {
            continue;
        }
        if column.guess.is_foreign(name.text.as_bytes()) || (name.is_quoted && !column.has_quoted) {
            return false;
        }
        values.push((name, &*column));
    }
    let begins_as_value = |(name, _): &(&Cell, _)| {
        name.text
            .starts_with(|sign: char| sign.is_ascii_digit() || "+-.".contains(sign))
    };
    values.iter().any(begins_as_value) && !are_numbered(&values, names.len())
}

/// Whether values of the first record, which has `width` fields, are names all the same: years, where the values of their
/// columns are others; or numbers that go on by the same step, next to names.
fn are_numbered(values: &[(&Cell, &Column)], width: usize) -> bool {
    let Some(numbers) = values
        .iter()
        .map(|(name, _)| name.text.parse::<f64>().ok())
        .collect::<Option<Vec<_>>>()
    else {
        return false;
    };
    let are_years = numbers.iter().all(|year| YEARS.contains(year));
    if are_years && !values.iter().all(|(_, column)| column.has_only_years()) {
        return true;
    }
    let steps: Vec<f64> = numbers.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let is_even = steps
        .first()
        .is_some_and(|first| *first > 0.0 && steps.iter().all(|step| step == first));
    let counts_from_zero = numbers.len() > 2 && numbers[0] == 0.0 && steps[0] == 1.0;
    is_even && (counts_from_zero || (numbers.len() < width && (steps.len() > 1 || steps[0] == 1.0)))
}

/// A field of a record, without spaces around it.
struct Cell {
    text: String,
    is_quoted: bool,
}

impl Cell {
    fn value(&self) -> Option<&[u8]> {
        Some(self.text.as_bytes()).filter(|text| !text.is_empty())
    }
}

/// What is below a name.
#[derive(Default, Clone)]
struct Column {
    guess: Guess,
    has_quoted: bool,
    has_years: bool,
    has_others: bool,
}

impl Column {
    fn see(&mut self, cell: &Cell) {
        self.guess.see(cell.value());
        self.has_quoted |= cell.is_quoted;
        if cell.value().is_some() {
            let is_year = cell.text.parse::<f64>().is_ok_and(|year| YEARS.contains(&year));
            self.has_years |= is_year;
            self.has_others |= !is_year;
        }
    }

    fn has_only_years(&self) -> bool {
        self.has_years && !self.has_others
    }
}

fn first_fields(text: &[u8], dialect: &Dialect) -> Vec<String> {
    let cells = first_cells(text, dialect);
    cells.into_iter().map(|cell| cell.text).collect()
}

fn first_cells(text: &[u8], dialect: &Dialect) -> Vec<Cell> {
    let mut fields = Fields::default();
    match Tokeniser::new(dialect, None).record(text, 0, true, &mut fields) {
        Record::Good { .. } => {
            let cell = |span: &Span| Cell {
                text: String::from_utf8_lossy(fields.bytes(*span, text))
                    .trim()
                    .to_owned(),
                is_quoted: span.is_quoted(),
            };
            fields.spans.iter().map(cell).collect()
        }
        _ => Vec::new(),
    }
}

/// What the header has that rows do not have; `width` is that of most records.
fn header_width(records: &[Seen], width: usize) -> HeaderWidth {
    let Some((header, rows)) = records.split_first().filter(|(_, rows)| !rows.is_empty()) else {
        return HeaderWidth::Equal;
    };
    let all_rows = |is_so: fn(&Seen) -> bool| rows.iter().filter(|row| row.width == Some(width)).all(is_so);
    match header.width {
        Some(names) if names + 1 == width && all_rows(|row| row.last_is_empty) => HeaderWidth::OneLess,
        Some(names) if names == width + 1 && header.last_is_empty => HeaderWidth::OneMore,
        Some(names) if names > 1 && names + 1 == width && rows.iter().all(|row| row.width == Some(width)) => {
            HeaderWidth::RowNames
        }
        _ => HeaderWidth::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Format;

    fn found(text: &str, format: Format) -> Found {
        let options = TextOptions::default();
        let sample = Sample {
            text: text.as_bytes(),
            whole: true,
            rereadable: true,
        };
        detect(sample, &Dialect::new(format, &options).unwrap(), &options)
    }

    fn csv(text: &str) -> String {
        let found = found(text, Format::Csv);
        let parts = [
            found
                .delimiter
                .map(|sign| format!("delimiter {}", char::from(sign).escape_default())),
            found.quote.map(|sign| format!("quote {}", char::from(sign))),
            found.escape.map(|_| "escape".to_owned()),
            found.quoting.spaced.then(|| "spaced".to_owned()),
            found.quoting.bare.then(|| "bare".to_owned()),
            (found.skip > 0).then(|| format!("skip {}", found.skip)),
            found.unquoted.then(|| "unquoted".to_owned()),
            found.returns.then(|| "returns".to_owned()),
            found.blanks.then(|| "blanks".to_owned()),
            found.trim.then(|| "trim".to_owned()),
            found.headerless.then(|| "headerless".to_owned()),
            (found.header != HeaderWidth::Equal).then(|| format!("{:?}", found.header)),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_the_options_read_is_read_by_them() {
        for text in [
            "",
            "a,b\n",
            "a,b\n1,2\n",
            "a\n1\n2\n",
            "a,b\n1;2,3\n",
            "text\nSmith; John\nDoe; Jane\n",
            "a,b\n\"x\ny\",2\n",
            "a,b\n1,\"C:\\\"\n",
            "a,b,c\n1,2\n1,2,3\n",
            "name,notes\nx,it's\ny,'n'\n",
            "year,1990,1991\nx,1,2\n",
            "1990,1991\n1,2\n",
            "name,1,2\nx,3,4\n",
            "0,1,2\n3,4,5\n",
            ",400,410,420\nx,1,2,3\n",
            "\"a\",\"1\"\nx,2\n",
            "code,2020-01-31\nx,1\n",
            "text\nSmith John\nDoe Jane\n",
            "phone number\n030 1234\n030 5678\n",
            "a,b\n1,\"x\n2,\"y\"\n",
        ] {
            assert_eq!(csv(text), "", "{text:?}");
        }
    }

    #[test]
    fn what_they_do_not_read_is_found() {
        let cases = [
            ("a;b;c\n1;2;3\n", "delimiter ;"),
            ("a;b;c\n1,5;2,5;x\n3,5;4,5;y\n", "delimiter ;"),
            ("a;b\n", "delimiter ;"),
            ("a\tb\n1,5\t2\n", "delimiter \\t"),
            ("a|b\n1|2\n", "delimiter |"),
            ("a, b\n1, \"x, y\"\n2, \"z\"\n", "spaced"),
            ("a,b\n1,\"x \\\"y\\\", z\"\n2,\"w\"\n", "escape"),
            ("a,b\n1,5\" pipe\n2,6\" pipe\n", "bare"),
            ("a,b\n1,'x, y'\n2,'z'\n", "quote '"),
            ("Report of May\n\na,b\n1,2\n3,4\n", "skip 2"),
            ("Report of May,,\n,,\na,b,c\n1,2,3\n3,4,5\n", "skip 2"),
            ("name,,\na,b,c\nd,e,f\n", ""),
            ("# made by x, y, z\n# on a day\na,b\n1,2\n3,4\n", "skip 2"),
            ("Sales;\na;b\n1;2\n3;4\n", "delimiter ;"),
            ("title\na;b\n1;2\n3;4\n", "delimiter ; skip 1"),
            ("a|b\n1|x, y\n2|z, w\n", "delimiter |"),
            ("# made by x, y\n#a,b\n1,2\n", "skip 1"),
            ("#a,b\nx,y\nz,w\n", ""),
            ("title\na,b\nx,y\nz,w\n", ""),
            ("title\n\na,b\nx,y\nz,w\n", "skip 2"),
            ("a,b\n1,2,\n3,4,\n", "OneLess"),
            ("a,b,\n1,2\n3,4\n", "OneMore"),
            ("a,b\nr1,1,2\nr2,3,4\n", "RowNames"),
            ("a,b\n1,\"x\n2,y\n", "unquoted"),
            ("a,b\n1,x\ry\n", "returns"),
            ("a,b\r\r\n1,x\r\r\n", "returns"),
            ("1,2.5\n3,4\n", "headerless"),
            ("1,x\n2,y\n", "headerless"),
            ("x,2020-01-31\ny,2020-02-29\n", "headerless"),
            ("2019,5\n2020,6\n", "headerless"),
            ("2019\n2020\n2021\n", "headerless"),
            ("3,x\n", "headerless"),
            ("2,3,x,y\n1,2,3,4,5,6,7\n2,3,4,5,6,7,8\n", "skip 1 headerless"),
            ("a b  c\n1 2 3\n  4 5\t6 \n", "delimiter \\t blanks"),
            ("3 2 1\n9 5 7\n4 4 6\n", "delimiter \\t blanks headerless"),
            ("a, b, c\n1, x, 2\n", "trim"),
            (
                "a;b\n1,5;2\n2,5;3\n3,5;4\n4,5;5\n5,5;6\n6,5;7\n7,5;8\n8,5;9\n9,5;1\n1,5;2\n2,5;3\n",
                "delimiter ;",
            ),
            ("# x\na,b\n1,x\n# y\n2,y\n# z\n", "skip 1"),
            ("2024-01-01\n2024-01-02\n", "headerless"),
            (
                "Source,World Bank,\n\nUpdated,2021,\n\nname,code,year,unit,2019\na,b,c,d,1\ne,f,g,h,2\n",
                "skip 4",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(csv(text), expected, "{text:?}");
        }
        assert_eq!(found("a,b\n1,2\n", Format::Tsv).delimiter, Some(b','));
    }
}
