//! Cuts text into records, and records into fields.
//!
//! - What is found depends on the bytes alone, never on how many of them have been read so far: where more
//!   bytes could change the answer, it is [`Record::Incomplete`].
//! - A record that breaks the quoting rules ends at the first line end after its **beginning**, so that one
//!   open quote costs one line and not the rest of the file. Scans for a closing quote do not add up: a scan
//!   goes on only over bytes in which no later record could open a quote of its own without ending it.
//! - Only LF ends a record, and a CR directly before it belongs to the line end, as does one that the file ends with.
//!   Any other CR is data within quotes and a flaw outside of them (as for COPY): it may be the line end of a file that
//!   has no other.
//! - A blank line is no record, except in a file of one column, where it is an empty field (as for COPY).

use std::fmt;

use memchr::{memchr, memchr_iter, memchr2, memchr3};

use super::dialect::{Dialect, Lenient, Quoting};

/// The most fields a record may have where the number of columns is yet to be found.
pub(super) const COLUMNS_MAX: usize = 65_536;

const QUOTED: u32 = 1 << 31;
const UNESCAPED: u32 = 1 << 30;
const OFFSET: u32 = UNESCAPED - 1;

/// The most bytes that spans can address.
pub(super) const SPAN_BYTES_MAX: usize = OFFSET as usize;

/// Where a field lies: in the block, or unescaped beside it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize, flags: u32) -> Self {
        // Both are below SPAN_BYTES_MAX: a block's bytes are bounded before it is cut.
        Self {
            start: start as u32 | flags,
            end: end as u32,
        }
    }

    /// A field that its row does not have. No field that was there is unescaped and not quoted.
    const ABSENT: Self = Self {
        start: UNESCAPED,
        end: 0,
    };

    /// Whether its row does not have the field; such a field is always null.
    #[inline]
    pub fn is_absent(self) -> bool {
        self.start & (QUOTED | UNESCAPED) == UNESCAPED
    }

    /// Whether the field was in quotes; such a field is never null.
    #[inline]
    pub fn is_quoted(self) -> bool {
        self.start & QUOTED != 0
    }
}

/// Fields of records, one record after another.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// A span a field.
    pub spans: Vec<Span>,
    /// What fields with escapes in them mean.
    unescaped: Vec<u8>,
}

impl Fields {
    /// The bytes of a field of the text that was cut.
    #[inline]
    pub fn bytes<'a>(&'a self, span: Span, text: &'a [u8]) -> &'a [u8] {
        let from = if span.start & UNESCAPED == 0 {
            text
        } else {
            &self.unescaped
        };
        &from[(span.start & OFFSET) as usize..span.end as usize]
    }

    /// Forgets all fields, and keeps the room they took.
    pub fn clear(&mut self) {
        self.spans.clear();
        self.unescaped.clear();
    }
}

/// What is wrong with a record's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It has too few or too many fields.
    FieldCount {
        /// The fields it has.
        found: usize,
        /// The fields it should have.
        expected: usize,
    },
    /// A quote inside a field that does not begin with one. Fields count from 0.
    QuoteInField(usize),
    /// Something between a closing quote and the end of its field.
    TextAfterQuote(usize),
    /// A quote that is not closed before the file ends.
    Unclosed(usize),
    /// A CR outside of quotes that ends no line.
    CarriageReturn(usize),
    /// The record, or a quoted field in it, goes on beyond the bound.
    TooLong {
        /// The bound.
        record_bytes_max: usize,
    },
}

impl Flaw {
    /// The field to blame, from 0.
    pub fn field(self) -> Option<usize> {
        match self {
            Self::QuoteInField(field)
            | Self::TextAfterQuote(field)
            | Self::Unclosed(field)
            | Self::CarriageReturn(field) => Some(field),
            Self::FieldCount { .. } | Self::TooLong { .. } => None,
        }
    }

    /// What can be done about it.
    pub fn hint(self) -> Option<&'static str> {
        match self {
            Self::QuoteInField(_) | Self::TextAfterQuote(_) => {
                Some("where quotes are data and stand around no field: --quote none")
            }
            Self::Unclosed(_) => {
                Some("close it; or where quotes are data and stand around no field: --quote none")
            }
            Self::CarriageReturn(_) => {
                Some("put the field into quotes; where CR alone ends lines: tr '\\r' '\\n'")
            }
            Self::FieldCount { .. } | Self::TooLong { .. } => None,
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FieldCount { found, expected } => {
                let fields = if *found == 1 { "field" } else { "fields" };
                let were = if *expected == 1 { "was" } else { "were" };
                write!(f, "{found} {fields} where {expected} {were} expected")
            }
            Self::QuoteInField(_) => f.write_str("a quote inside an unquoted field"),
            Self::TextAfterQuote(_) => f.write_str("text behind a closing quote"),
            Self::Unclosed(_) => f.write_str("a quote that is not closed before the file ends"),
            Self::CarriageReturn(_) => f.write_str("a carriage return that ends no line, outside of quotes"),
            Self::TooLong { record_bytes_max } => {
                write!(
                    f,
                    "a record of more than {record_bytes_max} bytes; a quote may be unclosed"
                )
            }
        }
    }
}

/// What stands at a place where a record may begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// A line that is no record; the next begins at `next`.
    Line {
        /// Where it begins.
        next: usize,
    },
    /// A record.
    Record,
    /// More bytes are needed to tell.
    Incomplete,
    /// Nothing: the file ends.
    End,
}

/// A record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// Its fields were added.
    Good {
        /// Where its bytes end, without the line end.
        end: usize,
        /// Where the next begins.
        next: usize,
    },
    /// It is bad; no field was added.
    Bad {
        /// Where its bytes end, without the line end.
        end: usize,
        /// Where the next begins.
        next: usize,
        /// What is wrong.
        flaw: Flaw,
    },
    /// No line end within the bound.
    Endless,
    /// More bytes are needed.
    Incomplete,
}

/// Cuts the records of one file.
#[derive(Debug, Clone)]
pub(super) struct Tokeniser {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    comment: Option<u8>,
    quoting: Quoting,
    lenient: Lenient,
    record_bytes_max: usize,
    /// Fields a record must have; none while that is unknown.
    columns: Option<usize>,
}

/// How a quoted field ends.
enum Closing {
    /// By the quote there; whether there are escapes before.
    At(usize, bool),
    /// By none that is there.
    Nowhere,
    /// By none in its line, in which a quote is that closes nothing.
    NotInLine,
}

/// The bytes in which a record has to end.
struct Window<'a> {
    /// Where the record begins in the text.
    at: usize,
    /// From there on, as far as the record may go.
    bytes: &'a [u8],
    /// How the bytes end.
    edge: Edge,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    /// More may be read.
    Open,
    /// The file ends here.
    File,
    /// The record may not go beyond.
    Bound,
}

impl Tokeniser {
    /// For records of `columns` fields, or of any number.
    pub fn new(dialect: &Dialect, columns: Option<usize>) -> Self {
        Self {
            delimiter: dialect.delimiter,
            quote: dialect.quote,
            escape: dialect.escape,
            comment: dialect.comment,
            quoting: dialect.quoting,
            lenient: dialect.lenient,
            record_bytes_max: dialect.record_bytes_max,
            columns,
        }
    }

    fn window<'a>(&self, text: &'a [u8], at: usize, whole: bool) -> Window<'a> {
        let end = text.len().min(at + self.record_bytes_max + 1);
        let edge = match (end - at > self.record_bytes_max, whole) {
            (true, _) => Edge::Bound,
            (false, true) => Edge::File,
            (false, false) => Edge::Open,
        };
        Window {
            at,
            bytes: &text[at..end],
            edge,
        }
    }

    /// What stands at `at`. `whole`: the file ends where `text` does.
    #[inline]
    pub fn idle(&self, text: &[u8], at: usize, whole: bool) -> Idle {
        let rest = &text[at..];
        let next = match rest {
            [] if whole => return Idle::End,
            [] => return Idle::Incomplete,
            [b'\r'] if !whole => return Idle::Incomplete,
            [b'\n', ..] | [b'\r'] => at + 1,
            [b'\r', b'\n', ..] => at + 2,
            [first, ..] if Some(*first) == self.comment => return self.comment_line(text, at, whole),
            [b' ' | b'\t', ..] if self.lenient.spaces => match self.line_of_spaces(text, at, whole) {
                Idle::Line { next } => next,
                other => return other,
            },
            [b'\r', ..] if self.lenient.returns => match self.line_of_returns(text, at, whole) {
                Idle::Line { next } => next,
                other => return other,
            },
            _ => return Idle::Record,
        };
        match self.columns {
            Some(1) => Idle::Record,
            _ => Idle::Line { next },
        }
    }

    /// A line of nothing but spaces and tabs, unless a delimiter is among them.
    #[cold]
    fn line_of_spaces(&self, text: &[u8], at: usize, whole: bool) -> Idle {
        let window = self.window(text, at, whole);
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t') && *byte != self.delimiter;
        let spaces = window.bytes.iter().take_while(|byte| is_space(byte)).count();
        match (&window.bytes[spaces..], window.edge) {
            ([b'\n', ..], _) => Idle::Line {
                next: at + spaces + 1,
            },
            ([b'\r', b'\n', ..], _) => Idle::Line {
                next: at + spaces + 2,
            },
            ([] | [b'\r'], Edge::File) => Idle::Line { next: text.len() },
            ([] | [b'\r'], Edge::Open) => Idle::Incomplete,
            _ => Idle::Record,
        }
    }

    /// A line of nothing but carriage returns.
    #[cold]
    fn line_of_returns(&self, text: &[u8], at: usize, whole: bool) -> Idle {
        let window = self.window(text, at, whole);
        let returns = window.bytes.iter().take_while(|byte| **byte == b'\r').count();
        match (&window.bytes[returns..], window.edge) {
            ([b'\n', ..], _) => Idle::Line {
                next: at + returns + 1,
            },
            ([], Edge::File) => Idle::Line { next: text.len() },
            ([], Edge::Open) => Idle::Incomplete,
            _ => Idle::Record,
        }
    }

    #[cold]
    fn comment_line(&self, text: &[u8], at: usize, whole: bool) -> Idle {
        let window = self.window(text, at, whole);
        match (memchr(b'\n', window.bytes), window.edge) {
            (Some(end), _) => Idle::Line { next: at + end + 1 },
            (None, Edge::Open) => Idle::Incomplete,
            (None, Edge::File) => Idle::Line { next: text.len() },
            // It is dropped as what it would be without the comment sign: a record that does not end.
            (None, Edge::Bound) => Idle::Record,
        }
    }

    /// The record at `at`, where [`Tokeniser::idle`] has seen one. Its fields are added to `fields`.
    #[inline]
    pub fn record(&self, text: &[u8], at: usize, whole: bool, fields: &mut Fields) -> Record {
        let window = self.window(text, at, whole);
        let hit = match self.quote {
            _ if self.lenient.returns => return self.with_returns(text, &window, fields),
            Some(quote) => memchr3(b'\n', b'\r', quote, window.bytes),
            None => memchr2(b'\n', b'\r', window.bytes),
        };
        match (hit, window.edge) {
            (Some(hit), _) if window.bytes[hit] == b'\n' => {
                self.plain(text, at, at + hit, at + hit + 1, fields)
            }
            (Some(hit), edge) if window.bytes[hit] == b'\r' => match (&window.bytes[hit + 1..], edge) {
                ([b'\n', ..], _) => self.plain(text, at, at + hit, at + hit + 2, fields),
                ([], Edge::File) => self.plain(text, at, at + hit, text.len(), fields),
                ([], Edge::Open) => Record::Incomplete,
                ([], Edge::Bound) => Record::Endless,
                _ => {
                    let field = memchr_iter(self.delimiter, &window.bytes[..hit]).count();
                    self.first_line(text, &window, Flaw::CarriageReturn(field))
                }
            },
            (Some(_), _) => self.quoted(text, &window, fields),
            (None, Edge::File) => self.plain(text, at, text.len(), text.len(), fields),
            (None, Edge::Open) => Record::Incomplete,
            (None, Edge::Bound) => Record::Endless,
        }
    }

    /// The record where carriage returns outside of quotes are characters.
    #[cold]
    fn with_returns(&self, text: &[u8], window: &Window<'_>, fields: &mut Fields) -> Record {
        let at = window.at;
        let hit = match self.quote {
            Some(quote) => memchr2(b'\n', quote, window.bytes),
            None => memchr(b'\n', window.bytes),
        };
        match (hit, window.edge) {
            (Some(hit), _) if window.bytes[hit] == b'\n' => {
                let end = at + self.without_cr(&window.bytes[..hit]);
                self.plain(text, at, end, at + hit + 1, fields)
            }
            (Some(_), _) => self.quoted(text, window, fields),
            (None, Edge::File) => {
                let end = at + self.without_cr(window.bytes);
                self.plain(text, at, end, text.len(), fields)
            }
            (None, Edge::Open) => Record::Incomplete,
            (None, Edge::Bound) => Record::Endless,
        }
    }

    /// A record without a quote in it.
    #[inline]
    fn plain(&self, text: &[u8], at: usize, end: usize, next: usize, fields: &mut Fields) -> Record {
        let before = fields.spans.len();
        let limit = self.columns.unwrap_or(COLUMNS_MAX);
        let (mut start, mut found) = (at, 0);
        for hit in memchr_iter(self.delimiter, &text[at..end]) {
            if found < limit {
                fields.spans.push(Span::new(start, at + hit, 0));
            }
            start = at + hit + 1;
            found += 1;
        }
        if found < limit {
            fields.spans.push(Span::new(start, end, 0));
        } else if self.lenient.empty
            && let Some(last) = fields.spans.last()
            && self.are_empty(&text[last.end as usize..end])
        {
            found = limit - 1;
        }
        self.counted(found + 1, before, end, next, fields)
    }

    /// Whether fields beyond the last column, from the delimiter before them on, have nothing in them.
    fn are_empty(&self, fields: &[u8]) -> bool {
        let is_nothing = |byte: &u8| *byte == self.delimiter || *byte == b' ' || Some(*byte) == self.quote;
        fields.iter().all(is_nothing)
    }

    /// Ends a well-formed record, if it has the right number of fields.
    #[inline]
    fn counted(&self, found: usize, before: usize, end: usize, next: usize, fields: &mut Fields) -> Record {
        let expected = self.columns.unwrap_or_else(|| found.min(COLUMNS_MAX));
        if found == expected {
            return Record::Good { end, next };
        }
        if found < expected && self.lenient.short {
            let missing = std::iter::repeat_n(Span::ABSENT, expected - found);
            fields.spans.extend(missing);
            return Record::Good { end, next };
        }
        fields.spans.truncate(before);
        let flaw = Flaw::FieldCount { found, expected };
        Record::Bad { end, next, flaw }
    }

    /// A record with a quote in it, field by field.
    fn quoted(&self, text: &[u8], window: &Window<'_>, fields: &mut Fields) -> Record {
        let spans_before = fields.spans.len();
        let unescaped_before = fields.unescaped.len();
        let limit = self.columns.unwrap_or(COLUMNS_MAX);
        let (at, bytes) = (window.at, window.bytes);
        let mut place = 0;
        let mut found = 0;
        // Where the field of the last column ends.
        let mut last_end = bytes.len();
        let flawed = loop {
            let opening = self.opening_quote(bytes, place);
            let (span, after) = if let Some(open) = opening {
                let (close, escapes) = match self.closing_quote(bytes, open + 1) {
                    Closing::At(close, escapes) => (close, escapes),
                    Closing::Nowhere => break self.beyond(window, Flaw::Unclosed(found)),
                    Closing::NotInLine => break Some(Flaw::TextAfterQuote(found)),
                };
                if close + 1 == bytes.len() && window.edge == Edge::Open {
                    // What follows may make it an escape.
                    break None;
                }
                let span = if !escapes {
                    Span::new(at + open + 1, at + close, QUOTED)
                } else {
                    let start = fields.unescaped.len();
                    if found < limit {
                        self.unescape(&bytes[open + 1..close], &mut fields.unescaped);
                    }
                    Span::new(start, fields.unescaped.len(), QUOTED | UNESCAPED)
                };
                let after = close + 1 + self.spaces(&bytes[close + 1..]);
                if after == bytes.len() && window.edge == Edge::Open {
                    break None;
                }
                (span, after)
            } else {
                let quote = match self.quoting.bare {
                    true => self.delimiter,
                    false => self.quote.unwrap_or(self.delimiter),
                };
                let hit = memchr3(self.delimiter, b'\n', quote, &bytes[place..]).map(|hit| place + hit);
                let end = match hit {
                    Some(hit) if bytes[hit] == b'\n' => place + self.without_cr(&bytes[place..hit]),
                    Some(hit) if bytes[hit] == self.delimiter => hit,
                    Some(_) => break Some(Flaw::QuoteInField(found)),
                    None if window.edge == Edge::File => place + self.without_cr(&bytes[place..]),
                    None => break self.beyond(window, self.too_long()),
                };
                if !self.lenient.returns && memchr(b'\r', &bytes[place..end]).is_some() {
                    break Some(Flaw::CarriageReturn(found));
                }
                (Span::new(at + place, at + end, 0), end)
            };
            if found < limit {
                fields.spans.push(span);
            }
            found += 1;
            if found == limit {
                last_end = after;
            }
            // The record ends here, or the next field begins.
            let returns = match self.lenient.returns {
                true => bytes[after..].iter().take_while(|byte| **byte == b'\r').count(),
                false => usize::from(bytes.get(after) == Some(&b'\r')),
            };
            let next = match &bytes[after + returns..] {
                [byte, ..] if *byte == self.delimiter && returns == 0 => {
                    place = after + 1;
                    continue;
                }
                [b'\n', ..] => after + returns + 1,
                [] if window.edge == Edge::File => bytes.len(),
                [] => break self.beyond(window, self.too_long()),
                _ => break Some(Flaw::TextAfterQuote(found - 1)),
            };
            if found > limit && self.lenient.empty && self.are_empty(&bytes[last_end..after]) {
                found = limit;
            }
            return self.counted(found, spans_before, at + after, at + next, fields);
        };
        fields.spans.truncate(spans_before);
        fields.unescaped.truncate(unescaped_before);
        match flawed {
            None => Record::Incomplete,
            Some(flaw) => self.first_line(text, window, flaw),
        }
    }

    /// Where the quote is that opens the field at `place`; none where the field is not quoted.
    #[inline]
    fn opening_quote(&self, bytes: &[u8], place: usize) -> Option<usize> {
        let at = place + self.spaces(&bytes[place..]);
        (self.quote.is_some() && bytes.get(at).copied() == self.quote).then_some(at)
    }

    /// How many spaces `bytes` begin with that mean nothing next to a quote.
    #[inline]
    fn spaces(&self, bytes: &[u8]) -> usize {
        match self.quoting.spaced {
            true => bytes.iter().take_while(|byte| **byte == b' ').count(),
            false => 0,
        }
    }

    /// The record needs what lies beyond its window: more bytes, or it is flawed.
    fn beyond(&self, window: &Window<'_>, flaw: Flaw) -> Option<Flaw> {
        match window.edge {
            Edge::Open => None,
            Edge::File => Some(flaw),
            Edge::Bound => Some(self.too_long()),
        }
    }

    /// The most bytes of a record.
    pub fn record_bytes_max(&self) -> usize {
        self.record_bytes_max
    }

    /// The flaw of a record that reaches its bound.
    pub fn too_long(&self) -> Flaw {
        Flaw::TooLong {
            record_bytes_max: self.record_bytes_max,
        }
    }

    /// A flawed record is given up at the end of its first line.
    fn first_line(&self, text: &[u8], window: &Window<'_>, flaw: Flaw) -> Record {
        let at = window.at;
        match (memchr(b'\n', window.bytes), window.edge) {
            (Some(hit), _) => Record::Bad {
                end: at + self.without_cr(&window.bytes[..hit]),
                next: at + hit + 1,
                flaw,
            },
            (None, Edge::Open) => Record::Incomplete,
            (None, Edge::File) => Record::Bad {
                end: text.len(),
                next: text.len(),
                flaw,
            },
            (None, Edge::Bound) => Record::Endless,
        }
    }

    /// The length of a line without the CR of its CRLF.
    #[inline]
    fn without_cr(&self, line: &[u8]) -> usize {
        match line {
            _ if self.lenient.returns => {
                line.len() - line.iter().rev().take_while(|byte| **byte == b'\r').count()
            }
            [rest @ .., b'\r'] => rest.len(),
            _ => line.len(),
        }
    }

    /// Where the field whose content begins at `from` is closed. A quote that is the last byte counts as closing.
    fn closing_quote(&self, bytes: &[u8], from: usize) -> Closing {
        let Some(quote) = self.quote else {
            return Closing::Nowhere;
        };
        let mut place = from;
        let mut escapes = false;
        // Where the field has to end, once there is a quote in it that does not close it.
        let mut line_end = None;
        loop {
            let rest = &bytes[place..];
            let hit = match self.escape {
                None => memchr(quote, rest),
                Some(escape) => memchr2(quote, escape, rest),
            };
            let hit = match (hit, line_end) {
                (Some(hit), _) if line_end.is_none_or(|end| place + hit < end) => place + hit,
                (None, None) => return Closing::Nowhere,
                // The line may go on.
                (None, Some(end)) if end == bytes.len() => return Closing::Nowhere,
                _ => return Closing::NotInLine,
            };
            let following = bytes.get(hit + 1).copied();
            match self.escape {
                Some(escape) if bytes[hit] == escape => {
                    // An escape before anything else stands for itself.
                    let escaping = following == Some(quote) || following == Some(escape);
                    escapes |= escaping;
                    place = hit + 1 + usize::from(escaping);
                }
                None if following == Some(quote) => {
                    escapes = true;
                    place = hit + 2;
                }
                None if self.quoting.inner && !self.ends_field(&bytes[hit + 1..]) => {
                    let end = || memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |end| from + end);
                    if *line_end.get_or_insert_with(end) < hit {
                        return Closing::NotInLine;
                    }
                    place = hit + 1;
                }
                _ => return Closing::At(hit, escapes),
            }
        }
    }

    /// Whether a field ends where `rest` begins.
    fn ends_field(&self, rest: &[u8]) -> bool {
        match rest {
            [] | [b'\n', ..] | [b'\r'] | [b'\r', b'\n', ..] => true,
            [byte, ..] => *byte == self.delimiter,
        }
    }

    /// Appends what `content` means.
    fn unescape(&self, content: &[u8], out: &mut Vec<u8>) {
        let Some(quote) = self.quote else { return };
        let sign = self.escape.unwrap_or(quote);
        let mut copied = 0;
        let mut place = 0;
        while let Some(hit) = memchr(sign, &content[place..]) {
            let hit = place + hit;
            match content.get(hit + 1) {
                Some(byte) if *byte == quote || *byte == sign => {
                    out.extend_from_slice(&content[copied..hit]);
                    copied = hit + 1;
                    place = hit + 2;
                }
                _ => place = hit + 1,
            }
        }
        out.extend_from_slice(&content[copied..]);
    }
}

/// Whether a line that begins with this byte ends with it, and is no comment.
pub(super) fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}
