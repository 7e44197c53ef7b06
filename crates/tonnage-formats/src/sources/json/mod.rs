//! JSON: an object a line, its keys the columns; also an array of objects, and objects over several lines.
//!
//! - The columns are the keys of a sample of the first rows, in order of first appearance. A key that comes up
//!   later makes its row a reject, as a field too many does in CSV; a key that is missing is null, and the
//!   table's default does not apply to it.
//! - A value is read from its text: a number never goes through a float, and an object or array is its own text.
//!   A string is what its escapes say; only for a column of JSON does it keep its quotes.
//! - Lines that are reject records of this program (by their keys: `file`, `row`, `code`, `message`, `slot` and an
//!   object `data`) stand for the row under `data`, whose values are text as in CSV. The first line decides for
//!   the whole input.
//! - A bad line costs its own row only. Blank lines are not rows. Blocks and marks are as for every format of text:
//!   see `sources::text::reading`.

mod block;
mod object;
mod rows;
mod values;

#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use arrow::datatypes::DataType;
use tonnage_core::{
    error::{Error, Result},
    parse::{ParseContext, Seen, timezone},
    reader::BeyondArrow,
    source::{SourceColumn, SourceSchema},
};
use tonnage_places::READ_BYTES_MAX;

pub use self::rows::{Names, Objects, members};
pub(crate) use self::values::Values;
use self::{
    block::{Line, Lines, Rows, Shape, line, record, row, skip_blank},
    object::decoded,
};
use super::{
    DifferingColumns, InputFile, Scan, TextOptions,
    files::misnamed_note,
    infer::Guess,
    object_notes,
    text::{
        RECORD_BYTES_LIMIT, SAMPLE_BYTES, SAMPLE_ROWS, again,
        opening::{Layout, Opening},
        reading::{Parts, TextFormat, TextSource, Wanted, open_window},
        window::{READ_BYTES, Window},
    },
};

/// The most columns, and keys of an object. Objects with more keys than that have data for keys.
const COLUMNS_MAX: usize = 4096;

/// Files of JSON lines as a source.
pub(crate) type JsonSource = TextSource<Json>;

/// JSON lines of one set of columns.
pub(crate) struct Json {
    options: TextOptions,
    context: ParseContext,
    names: Vec<Arc<str>>,
    places: HashMap<Arc<str>, usize>,
    rows: Rows,
    lines: Lines,
}

/// What the first rows tell.
#[derive(Default)]
struct Sample {
    /// Lines, good and bad.
    lines: usize,
    rows: usize,
    are_records: Option<bool>,
    names: Vec<Arc<str>>,
    places: HashMap<Arc<str>, usize>,
    /// A column's type, and in how many rows it was.
    guesses: Vec<(Guess, usize)>,
    /// A line had more keys than there may be columns.
    crowded: bool,
}

impl JsonSource {
    /// Opens files of JSON lines, and tells their columns from a sample of the first that has rows.
    ///
    /// `Config` for options that make no sense; `Input` for files that cannot be read or hold no object a line.
    /// Pipes are opened in their turn; what the first begins with is kept, not read twice.
    pub fn open(files: Vec<InputFile>, options: &TextOptions) -> Result<Self> {
        if options.record_bytes_max == 0 || options.record_bytes_max > RECORD_BYTES_LIMIT {
            return Err(Error::config(format!(
                "the most bytes of a record have to be between 1 and {RECORD_BYTES_LIMIT}"
            )));
        }
        options.formats.check()?;
        let options = &TextOptions {
            scan: options.scan.of(&files),
            ..options.clone()
        };
        let opening = Opening::new(options, Layout::JsonLines)?;
        let context = ParseContext {
            timezone: options.timezone.as_deref().map(timezone).transpose()?,
            formats: options.formats.clone(),
            ..ParseContext::default()
        };
        let mut sample = Sample::default();
        let mut first = None;
        for (index, file) in files.iter().enumerate() {
            if options.scan == Scan::All {
                sample.take(&mut open_window(again(file)?, &opening)?, file, options)?;
                if index == 0 {
                    first = Some(open_window(file, &opening)?);
                }
                continue;
            }
            let is_told = sample.rows > 0 && options.differing == DifferingColumns::Refused;
            if index > 0 && (is_told || file.identity.is_none()) {
                continue;
            }
            let mut window = open_window(file, &opening)?;
            sample.take(&mut window, file, options)?;
            first.get_or_insert(window);
        }
        let Some(window) = first else {
            return Err(Error::config("no input is named"));
        };
        if sample.rows == 0 && sample.lines > 0 {
            let shown = &files[0].shown;
            return Err(Error::input(format!("{shown}: no line is a JSON object"))
                .hint("write one object a line: jq -c . FILE"));
        }
        let extents = sample.guesses.iter();
        let extents = extents.map(|(guess, _)| guess.extent(options.scan)).collect();
        let columns = sample
            .names
            .iter()
            .zip(&sample.guesses)
            .map(|(name, (guess, rows))| SourceColumn {
                beyond_arrow: BeyondArrow::Refused,
                name: name.to_string(),
                arrow: DataType::Utf8,
                suggested: Some(guess.column_type()),
                nullable: guess.nulls() || *rows < sample.rows,
                // JSON has a null of its own.
                null_word: None,
            })
            .collect();
        let schema = SourceSchema {
            shown: files[0].shown.clone(),
            columns,
            named: true,
            text: true,
            header: false,
            notes: [
                window.notes(),
                misnamed_note(&files).as_slice(),
                &object_notes(&files, READ_BYTES_MAX, true),
            ]
            .concat(),
        };
        let json = Json {
            options: options.clone(),
            context,
            names: sample.names,
            places: sample.places,
            rows: rows_of(sample.are_records, options),
            lines: Lines::default(),
        };
        Ok(Self::new(json, files, opening, (schema, extents), (window, ())))
    }
}

impl Sample {
    /// Looks at the first rows without consuming them, or at all, which are consumed.
    fn take(&mut self, window: &mut Window, file: &InputFile, options: &TextOptions) -> Result<()> {
        let mut at = 0;
        let is_all = options.scan == Scan::All;
        let before = self.rows;
        while is_all || (self.rows - before < SAMPLE_ROWS && at < SAMPLE_BYTES) {
            if is_all && at >= READ_BYTES {
                window.consume(at);
                at = 0;
            }
            match line(window.text(), at, window.whole(), options.record_bytes_max) {
                Line::Blank { next } => at = next,
                Line::Row { end, next } => {
                    let bytes = &window.text()[at..end];
                    self.see(bytes, options);
                    if self.crowded || self.names.len() > COLUMNS_MAX {
                        return Err(Error::input(format!(
                            "{}: the first rows have more than {COLUMNS_MAX} different keys",
                            file.shown
                        ))
                        .hint("keys are names of columns: write what they hold as values"));
                    }
                    at = next;
                }
                Line::End | Line::Endless => break,
                Line::Incomplete => window.read(window.text().len() - at)?,
            }
        }
        Ok(())
    }

    /// Takes a line into account; a bad one says nothing.
    fn see(&mut self, bytes: &[u8], options: &TextOptions) {
        self.lines += 1;
        let are_records = match self.are_records {
            Some(known) => known,
            None => match record(bytes) {
                Ok(data) => *self.are_records.insert(data.is_some()),
                Err(object::Flaw::NoFields) => *self.are_records.insert(true),
                Err(flaw) => {
                    self.crowded |= flaw == object::Flaw::TooManyKeys;
                    return;
                }
            },
        };
        let mut members = Vec::new();
        let read = row(bytes, rows_of(Some(are_records), options), |key, raw| {
            members.push((key.to_owned(), raw));
            Ok(())
        });
        if let Err(flaw) = read {
            self.crowded |= flaw == object::Flaw::TooManyKeys;
            return;
        }
        self.rows += 1;
        for (key, raw) in members {
            let column = match self.places.get(key.as_str()) {
                Some(column) => *column,
                None => {
                    let name: Arc<str> = key.into();
                    self.names.push(name.clone());
                    self.guesses.push(Default::default());
                    self.places.insert(name, self.names.len() - 1);
                    self.names.len() - 1
                }
            };
            let (guess, rows) = &mut self.guesses[column];
            *rows += 1;
            match raw.as_bytes() {
                b"null" => guess.see(None),
                [b'{' | b'[', ..] => guess.see_nested(),
                [b'"', ..] => match decoded(raw) {
                    // Values of reject records are text whatever they were.
                    Some(text) if are_records => guess.see_written(Some(text.as_bytes()), &options.formats),
                    Some(text) => match options.formats.seen(text.as_bytes()) {
                        Seen::Value(value) => guess.see_string(&value),
                        Seen::Text => guess.see_string(text.as_bytes()),
                    },
                    None => {}
                },
                plain => guess.see(Some(plain)),
            }
        }
    }
}

/// `are_records`: none where no line was seen.
fn rows_of(are_records: Option<bool>, options: &TextOptions) -> Rows {
    match (are_records, options.flatten) {
        (Some(true), _) => Rows::Records,
        (_, true) => Rows::Flattened,
        (_, false) => Rows::Objects,
    }
}

impl TextFormat for Json {
    type File = ();

    fn options(&self) -> Vec<String> {
        let options = &self.options;
        let rows = match self.rows {
            Rows::Records => "rejects",
            Rows::Objects | Rows::Flattened => "objects",
        };
        let mut parts = vec![
            "format=json".to_owned(),
            format!("rows={rows}"),
            format!("encoding={}", options.encoding.to_ascii_lowercase()),
            format!("timezone={}", options.timezone.as_deref().unwrap_or("none")),
            format!("record_bytes_max={}", options.record_bytes_max),
        ];
        // Not there where an earlier version had no such option, whose runs are gone on with.
        parts.extend(options.flatten.then(|| "flatten=true".to_owned()));
        let is_united = options.differing == DifferingColumns::United;
        parts.extend(is_united.then(|| "union=true".to_owned()));
        parts.extend(options.formats.describe());
        parts
    }

    fn begin(&self, _window: &mut Window, _file: &InputFile) -> Result<()> {
        Ok(())
    }

    fn skip_idle(&self, window: &mut Window, _file: &()) -> Result<bool> {
        skip_blank(window, self.options.record_bytes_max)
    }

    fn block(&mut self, window: &mut Window, _file: &(), wanted: &Wanted<'_>) -> Result<Parts> {
        let shape = Shape {
            shown: wanted.shown,
            names: &self.names,
            places: &self.places,
            folded: None,
            unknown: object::Flaw::UnknownKey,
            rows: self.rows,
            request: wanted.request,
            schema: wanted.schema,
            context: &self.context,
            line_bytes_max: self.options.record_bytes_max,
        };
        block::next(window, &shape, &mut self.lines, wanted.rows_before)
    }
}
