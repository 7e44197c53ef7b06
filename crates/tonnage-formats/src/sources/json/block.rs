//! Cuts a block from a file's lines and makes typed columns of it.
//!
//! A block ends with the line that is its `block_rows`th row or reaches its `block_bytes`th byte, where the
//! file ends, or before a line that is too long (which is a block of its own): all of it decided by the text
//! alone.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array},
    datatypes::SchemaRef,
};
use memchr::memchr;
use tonnage_core::{
    error::{Error, Result},
    parse::{Notes, NullHint, ParseContext, parse_values, shown_bare},
    reject::{Problem, Problems, Reject, RejectData, sqlstate},
    source::{Origin, ReadRequest},
    types::ColumnType,
};

use super::object::{Flaw, decoded, members};
use crate::sources::text::{drain, keep_good, reading::Parts, window::Window};

/// The most bytes of a key that a reject names as its column.
const COLUMN_BYTES_MAX: usize = 1024;

/// The keys that every reject record has, and those that it may have.
const RECORD_KEYS: [&str; 6] = ["file", "row", "code", "message", "slot", "data"];
const RECORD_KEYS_OPTIONAL: [&str; 2] = ["offset", "column"];

/// What stands at a place of the text.
pub(super) enum Line {
    /// Nothing more.
    End,
    /// A line of spaces.
    Blank { next: usize },
    /// A row.
    Row { end: usize, next: usize },
    /// A line longer than its bound.
    Endless,
    /// More has to be read to tell.
    Incomplete,
}

/// The line that begins at `at`.
pub(super) fn line(text: &[u8], at: usize, whole: bool, bytes_max: usize) -> Line {
    let rest = &text[at..];
    let (length, next) = match memchr(b'\n', rest) {
        Some(length) => (length, at + length + 1),
        None if rest.len() > bytes_max => return Line::Endless,
        None if !whole => return Line::Incomplete,
        None if rest.is_empty() => return Line::End,
        None => (rest.len(), text.len()),
    };
    if length > bytes_max {
        return Line::Endless;
    }
    match rest[..length].trim_ascii().is_empty() {
        true => Line::Blank { next },
        false => Line::Row {
            end: at + length,
            next,
        },
    }
}

/// Consumes blank lines. False where the file ends.
pub(super) fn skip_blank(window: &mut Window, bytes_max: usize) -> Result<bool> {
    loop {
        match line(window.text(), 0, window.whole(), bytes_max) {
            Line::Blank { next } => {
                window.consume(next);
                window.pass_blank_lines(1);
            }
            Line::Incomplete => window.read(window.text().len())?,
            Line::End => return Ok(false),
            Line::Row { .. } | Line::Endless => return Ok(true),
        }
    }
}

/// Which object of a line has the columns for its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// The line's own.
    Objects,
    /// The line's own, and those within it under the names of both: `address.city`.
    Flattened,
    /// That under `data`, as lines are reject records.
    Records,
}

/// Calls `each` with the keys that are columns, and the text of their values.
pub(super) fn row<'a>(
    line: &'a [u8],
    rows: Rows,
    mut each: impl FnMut(&str, &'a str) -> Result<(), Flaw>,
) -> Result<(), Flaw> {
    match rows {
        Rows::Objects => members(line, each),
        Rows::Flattened => flattened(line, "", 0, &mut each),
        Rows::Records => match record(line)? {
            Some(data) => members(data.as_bytes(), &mut each),
            None => Err(Flaw::NoRecord),
        },
    }
}

/// Objects within objects deeper than this stay values.
const NESTED_MAX: usize = 32;

/// Calls `each` with the members of `object` and of the objects within it. An empty object is a value.
fn flattened<'a>(
    object: &'a [u8],
    prefix: &str,
    depth: usize,
    each: &mut dyn FnMut(&str, &'a str) -> Result<(), Flaw>,
) -> Result<(), Flaw> {
    members(object, |key, value| {
        let name = match prefix {
            "" => key.to_owned(),
            prefix => format!("{prefix}.{key}"),
        };
        let within = value.strip_prefix('{').map(str::trim_start);
        match within.is_some_and(|within| !within.starts_with('}')) && depth < NESTED_MAX {
            true => flattened(value.as_bytes(), &name, depth + 1, each),
            false => each(&name, value),
        }
    })
}

/// What a reject record has under `data`; none if the line is another object.
pub(super) fn record(line: &[u8]) -> Result<Option<&str>, Flaw> {
    let mut seen = [false; RECORD_KEYS.len()];
    let (mut others, mut data, mut has_bytes) = (false, None, false);
    members(line, |key, value| {
        match RECORD_KEYS.iter().position(|known| *known == key) {
            Some(at) => others |= std::mem::replace(&mut seen[at], true),
            None if key == "raw" || key == "raw_hex" => has_bytes = true,
            None => others |= !RECORD_KEYS_OPTIONAL.contains(&key),
        }
        if key == "data" {
            data = Some(value);
        }
        Ok(())
    })?;
    let complete = seen[..RECORD_KEYS.len() - 1].iter().all(|seen| *seen) && !others;
    match data {
        Some(data) if complete && data.starts_with('{') => Ok(Some(data)),
        None if complete && has_bytes => Err(Flaw::NoFields),
        _ => Ok(None),
    }
}

/// A value of a row.
#[derive(Debug, Clone, Copy)]
enum Cell {
    Null,
    /// In the text of the block.
    Text {
        start: u32,
        end: u32,
    },
    /// In the buffer of decoded strings.
    Decoded {
        start: usize,
        end: usize,
    },
}

/// Where a line lies in its block.
#[derive(Debug, Clone, Copy)]
struct LineSpan {
    /// Its row in the block, from 0.
    row: u32,
    start: u32,
    end: u32,
}

/// The rows of a block. Kept from block to block for the room it has taken.
#[derive(Debug, Default)]
pub(super) struct Lines {
    places: Vec<LineSpan>,
    /// One a column requested and good row, row by row.
    cells: Vec<Cell>,
    decoded: Vec<u8>,
    good: Vec<LineSpan>,
    bad: Vec<(LineSpan, Flaw)>,
    /// For each column of the source the number of the line that had it last.
    had: Vec<usize>,
    /// The columns in the order in which the last line had them: most lines have one order.
    order: Vec<usize>,
    /// For each column of the source the first of the places at which it is requested, for each of these the next one of
    /// the same column; [`NOWHERE`] where there is none.
    first: Vec<usize>,
    further: Vec<usize>,
}

/// No place among the columns requested.
const NOWHERE: usize = usize::MAX;

/// Everything that stays the same for the blocks of a file.
pub(super) struct Shape<'a> {
    /// The file, as the user named it.
    pub shown: &'a Arc<str>,
    /// The columns' names.
    pub names: &'a [Arc<str>],
    /// Their places.
    pub places: &'a HashMap<Arc<str>, usize>,
    /// Places by names in lower case, where the case of keys need not be that of the columns.
    pub folded: Option<&'a HashMap<String, usize>>,
    /// What a key without a place is.
    pub unknown: fn(String) -> Flaw,
    /// Whether lines are reject records.
    pub rows: Rows,
    /// What is wanted.
    pub request: &'a ReadRequest,
    /// The schema of the batches.
    pub schema: &'a SchemaRef,
    /// For values of all types.
    pub context: &'a ParseContext,
    /// The most bytes of a line.
    pub line_bytes_max: usize,
}

/// Cuts the next block and consumes it. The window has to be at a row. `rows_before`: rows of the file before it.
pub(super) fn next(
    window: &mut Window,
    shape: &Shape<'_>,
    lines: &mut Lines,
    rows_before: u64,
) -> Result<Parts> {
    let offset = window.offsets_are_the_files().then(|| window.offset());
    let origin = Origin {
        file: shape.shown.clone(),
        first_row: rows_before + 1,
        first_offset: offset,
        rows: UInt32Array::from(Vec::<u32>::new()),
        offsets: offset.map(|_| UInt32Array::from(Vec::<u32>::new())),
        places: None,
    };
    let end = lines.cut(window, shape)?;
    if lines.places.is_empty() {
        let kept = drain(window, shape.line_bytes_max)?;
        let reject = Reject {
            file: shape.shown.clone(),
            row: rows_before + 1,
            offset,
            problem: problem(&Flaw::TooLong(shape.line_bytes_max)),
            data: RejectData::Raw(kept),
        };
        return Ok(Parts {
            rows: RecordBatch::new_empty(shape.schema.clone()),
            origin,
            rejects: vec![reject],
        });
    }
    let parts = lines.read(window.text(), shape, origin)?;
    window.consume(end);
    Ok(parts)
}

impl Lines {
    /// Finds the rows of the next block and where it ends; none where the first line is too long.
    fn cut(&mut self, window: &mut Window, shape: &Shape<'_>) -> Result<usize> {
        self.places.clear();
        let request = shape.request;
        let mut at = 0;
        loop {
            let rows = self.places.len();
            if rows > 0 && (rows >= request.block_rows || at >= request.block_bytes) {
                return Ok(at);
            }
            match line(window.text(), at, window.whole(), shape.line_bytes_max) {
                Line::Blank { next } => {
                    at = next;
                    window.pass_blank_lines(1);
                }
                Line::Row { end, next } => {
                    // Blocks and lines are bounded so that their places fit.
                    self.places.push(LineSpan {
                        row: rows as u32,
                        start: at as u32,
                        end: end as u32,
                    });
                    at = next;
                }
                Line::End | Line::Endless => return Ok(at),
                Line::Incomplete => window.read(window.text().len() - at)?,
            }
        }
    }

    /// Takes these lines for a block: where each ends in `text`, the first of them at `start`.
    pub fn read_all(
        &mut self,
        text: &[u8],
        start: usize,
        ends: &[u32],
        shape: &Shape<'_>,
        origin: Origin,
    ) -> Result<Parts> {
        self.places.clear();
        let mut at = start as u32;
        for (row, end) in ends.iter().enumerate() {
            self.places.push(LineSpan {
                row: row as u32,
                start: at,
                end: *end,
            });
            at = *end;
        }
        self.read(text, shape, origin)
    }

    /// Makes columns of the rows. `origin` is complete but for its rows.
    fn read(&mut self, text: &[u8], shape: &Shape<'_>, mut origin: Origin) -> Result<Parts> {
        self.parse(text, shape);
        let stride = shape.request.columns.len();
        let mut problems = Problems::default();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(stride);
        for (place, (index, ty)) in shape.request.columns.iter().enumerate() {
            let mut notes = Notes {
                column: shape.names.get(*index).map_or("", |name| name),
                problems: &mut problems,
                null_hint: NullHint::Withheld,
            };
            let cells = self.cells.get(place..).unwrap_or_default();
            let values = cells.iter().step_by(stride).map(|cell| self.value(*cell, text));
            arrays.push(parse_values(ty, values, shape.context, &mut notes));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.good.len()));
        let rows = RecordBatch::try_new_with_options(shape.schema.clone(), arrays, &options)
            .map_err(|cause| Error::bug(format!("columns of a block do not fit together: {cause}")))?;
        let numbers = |of: fn(&LineSpan) -> u32| self.good.iter().map(of).collect::<Vec<_>>().into();
        origin.rows = numbers(|place| place.row);
        origin.offsets = origin.first_offset.map(|_| numbers(|place| place.start));
        let rows = keep_good(rows, &mut origin, &problems)?;
        let reject = |place: &LineSpan, problem: Problem, data: RejectData| Reject {
            file: shape.shown.clone(),
            row: origin.first_row + u64::from(place.row),
            offset: origin.first_offset.map(|first| first + u64::from(place.start)),
            problem,
            data,
        };
        let bytes = |place: &LineSpan| &text[place.start as usize..place.end as usize];
        let mut rejects = Vec::with_capacity(self.bad.len() + problems.len());
        for (place, flaw) in &self.bad {
            rejects.push(reject(place, problem(flaw), data(bytes(place), shape)));
        }
        for (row, problem) in problems.iter() {
            let Some(place) = self.good.get(row) else { continue };
            rejects.push(reject(place, problem.clone(), data(bytes(place), shape)));
        }
        rejects.sort_by_key(|reject| reject.row);
        Ok(Parts {
            rows,
            origin,
            rejects,
        })
    }

    /// Cuts the lines into cells; those that cannot be go to the bad ones.
    fn parse(&mut self, text: &[u8], shape: &Shape<'_>) {
        self.cells.clear();
        self.decoded.clear();
        self.good.clear();
        self.bad.clear();
        self.had.clear();
        self.had.resize(shape.names.len(), 0);
        self.order.clear();
        self.request(shape);
        let stride = shape.request.columns.len();
        let (cells, buffer, had) = (&mut self.cells, &mut self.decoded, &mut self.had);
        let (order, first, further) = (&mut self.order, &self.first, &self.further);
        for (number, place) in self.places.iter().enumerate() {
            let start = cells.len();
            cells.resize(start + stride, Cell::Null);
            let bytes = &text[place.start as usize..place.end as usize];
            let mut keys = 0;
            let read = row(bytes, shape.rows, |key, raw| {
                let column = match order.get(keys) {
                    Some(column) if *shape.names[*column] == *key => *column,
                    _ => shape
                        .places
                        .get(key)
                        .copied()
                        .or_else(|| shape.folded?.get(&key.to_lowercase()).copied())
                        .ok_or_else(|| (shape.unknown)(key.to_owned()))?,
                };
                match order.get_mut(keys) {
                    Some(known) => *known = column,
                    None => order.push(column),
                }
                keys += 1;
                if std::mem::replace(&mut had[column], number + 1) == number + 1 {
                    return Err(Flaw::RepeatedKey(key.to_owned()));
                }
                let mut at = first[column];
                while let Some((_, ty)) = shape.request.columns.get(at) {
                    if *ty == ColumnType::Bytes && !raw.starts_with('"') && raw != "null" {
                        return Err(Flaw::NoBytes(key.to_owned()));
                    }
                    cells[start + at] = cell(raw, ty, text, buffer)?;
                    at = further[at];
                }
                Ok(())
            });
            match read {
                Ok(()) => self.good.push(*place),
                Err(flaw) => {
                    cells.truncate(start);
                    self.bad.push((*place, flaw));
                }
            }
        }
    }

    /// Finds the places at which each column of the source is requested.
    fn request(&mut self, shape: &Shape<'_>) {
        let columns = &shape.request.columns;
        self.first.clear();
        self.first.resize(shape.names.len(), NOWHERE);
        self.further.clear();
        self.further.resize(columns.len(), NOWHERE);
        for (at, (index, _)) in columns.iter().enumerate().rev() {
            if let Some(first) = self.first.get_mut(*index) {
                self.further[at] = std::mem::replace(first, at);
            }
        }
    }

    #[inline]
    fn value<'a>(&'a self, cell: Cell, text: &'a [u8]) -> Option<&'a [u8]> {
        match cell {
            Cell::Null => None,
            Cell::Text { start, end } => text.get(start as usize..end as usize),
            Cell::Decoded { start, end } => self.decoded.get(start..end),
        }
    }
}

/// A value as a column of type `ty` takes it: strings without their quotes, all else, and everything for JSON, as
/// it is written.
fn cell(raw: &str, ty: &ColumnType, text: &[u8], buffer: &mut Vec<u8>) -> Result<Cell, Flaw> {
    if raw == "null" {
        return Ok(Cell::Null);
    }
    // A part of the text, so its place is the difference.
    let start = raw.as_ptr() as usize - text.as_ptr() as usize;
    let within = |start: usize, end: usize| Cell::Text {
        start: start as u32,
        end: end as u32,
    };
    if !raw.starts_with('"') || *ty == ColumnType::Json {
        return Ok(within(start, start + raw.len()));
    }
    match decoded(raw) {
        Some(std::borrow::Cow::Borrowed(plain)) => Ok(within(start + 1, start + 1 + plain.len())),
        Some(std::borrow::Cow::Owned(plain)) => {
            let start = buffer.len();
            buffer.extend_from_slice(plain.as_bytes());
            Ok(Cell::Decoded {
                start,
                end: buffer.len(),
            })
        }
        None => Err(Flaw::Syntax(
            "a string has an escape that is no character".to_owned(),
        )),
    }
}

/// A line as a reject keeps it: by key where it is an object of different keys, else its bytes.
fn data(line: &[u8], shape: &Shape<'_>) -> RejectData {
    let mut fields: Vec<(Arc<str>, Option<String>)> = Vec::new();
    let mut seen = HashSet::new();
    let read = row(line, shape.rows, |key, raw| {
        if !seen.insert(key.to_owned()) {
            return Err(Flaw::RepeatedKey(key.to_owned()));
        }
        let value = match raw.as_bytes() {
            b"null" => None,
            [b'"', ..] => Some(decoded(raw).unwrap_or(raw.into()).into_owned()),
            _ => Some(raw.to_owned()),
        };
        fields.push((Arc::from(key), value));
        Ok(())
    });
    match read {
        Ok(()) => RejectData::Fields(fields),
        Err(_) => RejectData::Raw(line.to_vec()),
    }
}

fn problem(flaw: &Flaw) -> Problem {
    let (column, code) = match flaw {
        Flaw::UnknownKey(key) | Flaw::NoColumn(key) | Flaw::RepeatedKey(key) | Flaw::NoBytes(key) => {
            let column = match key.len() > COLUMN_BYTES_MAX {
                true => shown_bare(key.as_bytes()),
                false => key.clone(),
            };
            (Some(column), sqlstate::BAD_FORMAT)
        }
        Flaw::Encoding => (None, sqlstate::INVALID_ENCODING),
        _ => (None, sqlstate::BAD_FORMAT),
    };
    Problem {
        column,
        code: code.to_owned(),
        message: flaw.to_string(),
        hint: None,
    }
}
