//! JSON lines: an object a line, its keys the columns.
//!
//! - The columns are the keys of a sample of the first rows, in order of first appearance. A key that comes up
//!   later makes its row a reject, as a field too many does in CSV; a key that is missing is null, and the
//!   table's default does not apply to it.
//! - A value is read from its text: a number never goes through a float, and an object or array is its own text.
//!   A string is what its escapes say; only for a column of JSON does it keep its quotes.
//! - Lines that are reject records of this program (by their keys: `file`, `row`, `code`, `message`, `slot` and an
//!   object `data`) stand for the row under `data`, whose values are text as in CSV. The first line decides for
//!   the whole input.
//! - Blocks, marks, hashes and bad rows are as in the CSV source: a block is cut by the text alone and holds rows
//!   of one file, and a bad line costs its own row only. Blank lines are not rows.

mod block;
mod object;

#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc};

use arrow::datatypes::{DataType, SchemaRef};
use encoding_rs::Encoding;

use self::{
    block::{Line, Lines, Shape, line, record, row, skip_blank},
    object::decoded,
};
use super::{
    InputFile, TextOptions,
    infer::Guess,
    text::{
        RECORD_BYTES_LIMIT, SAMPLE_BYTES, SAMPLE_ROWS, batch_schema, begin, check_bounds, decode,
        window::Window,
    },
};
use crate::{
    error::{Error, Result},
    ledger::InputIdentity,
    parse::{ParseContext, timezone},
    slot::BlockMark,
    source::{Block, ReadRequest, Source, SourceColumn, SourceSchema},
};

/// The most columns. Objects with more keys than that have data for keys.
const COLUMNS_MAX: usize = 4096;

/// Files of JSON lines as a source.
pub struct JsonSource {
    files: Vec<InputFile>,
    options: TextOptions,
    encoding: Option<&'static Encoding>,
    context: ParseContext,
    schema: SourceSchema,
    names: Vec<Arc<str>>,
    places: HashMap<Arc<str>, usize>,
    are_records: bool,
    request: Option<(ReadRequest, SchemaRef)>,
    /// The file being read; none behind the last.
    current: Option<OpenFile>,
    /// Number of the next block, and where it begins.
    index: u64,
    mark: BlockMark,
    /// Bytes consumed of files that are done, and not yet counted to a block.
    carried_bytes: u64,
    lines: Lines,
}

/// A file being read.
struct OpenFile {
    index: usize,
    window: Window,
    /// Rows consumed.
    rows: u64,
    /// Bytes counted to blocks.
    counted_bytes: u64,
    /// No block has been read since it was opened at its beginning.
    fresh: bool,
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
        let encoding = decode::encoding(&options.encoding)?;
        let context = ParseContext {
            timezone: options.timezone.as_deref().map(timezone).transpose()?,
        };
        let mut sample = Sample::default();
        let mut current = None;
        for (index, file) in files.iter().enumerate() {
            if index > 0 && (sample.rows > 0 || file.identity.is_none()) {
                continue;
            }
            let mut window = Window::open(file, encoding)?;
            begin(&mut window, &file.shown, encoding.is_some())?;
            sample.take(&mut window, file, options)?;
            current.get_or_insert(OpenFile::new(0, window));
        }
        if current.is_none() {
            return Err(Error::config("no input is named"));
        }
        if sample.rows == 0 && sample.lines > 0 {
            let shown = &files[0].shown;
            return Err(Error::input(format!("{shown}: no line is a JSON object"))
                .hint("write one object a line: jq -c . FILE"));
        }
        let columns = sample
            .names
            .iter()
            .zip(&sample.guesses)
            .map(|(name, (guess, rows))| SourceColumn {
                name: name.to_string(),
                arrow: DataType::Utf8,
                suggested: Some(guess.column_type()),
                nullable: guess.nulls() || *rows < sample.rows,
                // JSON has a null of its own.
                null_word: None,
            })
            .collect();
        let shown = files.first().map_or_else(|| "".into(), |file| file.shown.clone());
        Ok(Self {
            files,
            options: options.clone(),
            encoding,
            context,
            schema: SourceSchema {
                shown,
                columns,
                named: true,
                text: true,
            },
            names: sample.names,
            places: sample.places,
            are_records: sample.are_records.unwrap_or(false),
            request: None,
            current,
            index: 0,
            mark: BlockMark::default(),
            carried_bytes: 0,
            lines: Lines::default(),
        })
    }

    fn open_file(&self, index: usize) -> Result<OpenFile> {
        let file = &self.files[index];
        let mut window = Window::open(file, self.encoding)?;
        begin(&mut window, &file.shown, self.encoding.is_some())?;
        Ok(OpenFile::new(index, window))
    }
}

impl OpenFile {
    fn new(index: usize, window: Window) -> Self {
        Self {
            index,
            window,
            rows: 0,
            counted_bytes: 0,
            fresh: true,
        }
    }
}

impl Sample {
    /// Looks at the first rows without consuming them.
    fn take(&mut self, window: &mut Window, file: &InputFile, options: &TextOptions) -> Result<()> {
        let mut at = 0;
        while self.rows < SAMPLE_ROWS && at < SAMPLE_BYTES {
            match line(window.text(), at, window.whole(), options.record_bytes_max) {
                Line::Blank { next } => at = next,
                Line::Row { end, next } => {
                    let bytes = &window.text()[at..end];
                    if self.lines == 0 && bytes.trim_ascii_start().starts_with(b"[") {
                        return Err(
                            Error::input(format!("{} is a JSON array, not JSON lines", file.shown))
                                .hint("write one object a line: jq -c '.[]' FILE"),
                        );
                    }
                    self.see(bytes);
                    if self.names.len() > COLUMNS_MAX {
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
    fn see(&mut self, bytes: &[u8]) {
        self.lines += 1;
        let are_records = match self.are_records {
            Some(known) => known,
            None => match record(bytes) {
                Ok(data) => *self.are_records.insert(data.is_some()),
                Err(object::Flaw::NoFields) => *self.are_records.insert(true),
                Err(_) => return,
            },
        };
        let mut members = Vec::new();
        let read = row(bytes, are_records, |key, raw| {
            members.push((key.to_owned(), raw));
            Ok(())
        });
        if read.is_err() {
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
                    Some(text) if are_records => guess.see(Some(text.as_bytes())),
                    Some(text) => guess.see_string(text.as_bytes()),
                    None => {}
                },
                plain => guess.see(Some(plain)),
            }
        }
    }
}

impl Source for JsonSource {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        self.files.iter().map(|file| file.identity.clone()).collect()
    }

    fn options(&self) -> Vec<String> {
        let options = &self.options;
        let rows = if self.are_records { "rejects" } else { "objects" };
        vec![
            "format=json".to_owned(),
            format!("rows={rows}"),
            format!("encoding={}", options.encoding.to_ascii_lowercase()),
            format!("timezone={}", options.timezone.as_deref().unwrap_or("none")),
            format!("record_bytes_max={}", options.record_bytes_max),
        ]
    }

    fn bytes_total(&self) -> Option<u64> {
        self.files
            .iter()
            .map(|file| Some(file.identity.as_ref()?.bytes))
            .sum()
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        check_bounds(request)?;
        let schema = batch_schema(&self.names, request)?;
        self.request = Some((request.clone(), schema));
        Ok(())
    }

    fn seek(&mut self, index: u64, mark: &BlockMark) -> Result<()> {
        let file_index = mark.file as usize;
        let Some(file) = self.files.get(file_index) else {
            return Err(Error::input(format!(
                "the run stopped in input {}, but there are {} inputs",
                file_index + 1,
                self.files.len()
            )));
        };
        let there = |open: &OpenFile| open.index == file_index && open.fresh;
        if mark.offset > 0 || !self.current.as_ref().is_some_and(there) {
            if file.identity.is_none() {
                return Err(
                    Error::input(format!("{} cannot be read a second time", file.shown))
                        .hint("put the data into a file, whose load can be resumed"),
                );
            }
            let mut open = self.open_file(file_index)?;
            if mark.offset > 0 {
                let reached = open.window.consume_to(mark.offset)?;
                if !reached || open.window.hash() != mark.hash {
                    return Err(
                        Error::input(format!("{} has changed since the run began", file.shown))
                            .hint("load it as a new run with --restart"),
                    );
                }
                open.fresh = false;
                open.counted_bytes = open.window.disk_bytes();
            }
            open.rows = mark.file_rows;
            self.current = Some(open);
        }
        self.index = index;
        self.mark = *mark;
        self.carried_bytes = 0;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Block>> {
        let Some((request, schema)) = &self.request else {
            return Err(Error::bug("a block was asked for before the columns were"));
        };
        let line_bytes_max = self.options.record_bytes_max;
        loop {
            let Some(open) = &mut self.current else {
                return Ok(None);
            };
            open.fresh = false;
            if skip_blank(&mut open.window, line_bytes_max)? {
                break;
            }
            self.carried_bytes += open.window.disk_bytes() - open.counted_bytes;
            let following = open.index + 1;
            self.current = match following < self.files.len() {
                true => Some(self.open_file(following)?),
                false => None,
            };
        }
        let Some(open) = &mut self.current else {
            return Ok(None);
        };
        let shape = Shape {
            shown: &self.files[open.index].shown,
            names: &self.names,
            places: &self.places,
            are_records: self.are_records,
            request,
            schema,
            context: &self.context,
            line_bytes_max,
        };
        let parts = block::next(&mut open.window, &shape, &mut self.lines, open.rows)?;
        let rows = (parts.rows.num_rows() + parts.rejects.len()) as u64;
        open.rows += rows;
        let more = skip_blank(&mut open.window, line_bytes_max)?;
        let start = self.mark;
        self.mark = BlockMark {
            file: open.index as u32,
            offset: open.window.offset(),
            file_rows: open.rows,
            rows: start.rows + rows,
            hash: open.window.hash(),
        };
        if !more && open.index + 1 < self.files.len() {
            self.mark = BlockMark {
                file: open.index as u32 + 1,
                rows: self.mark.rows,
                ..BlockMark::default()
            };
        }
        let consumed = open.window.disk_bytes();
        let bytes = self.carried_bytes + consumed - open.counted_bytes;
        self.carried_bytes = 0;
        open.counted_bytes = consumed;
        let index = self.index;
        self.index += 1;
        Ok(Some(Block {
            index,
            rows: parts.rows,
            origin: parts.origin,
            rejects: parts.rejects,
            start,
            end: self.mark,
            bytes,
        }))
    }
}
