//! Delimited text: CSV, TSV and their relatives.
//!
//! - A block holds rows of one file only and is cut by the text alone, so every attempt cuts it alike.
//! - A bad row is a reject of its block, and reading goes on with the next row.
//! - Memory is bounded by a block, the longest record and what is read ahead; never by the file.
//! - Marks count bytes after decompression and decoding; the hash is over these bytes, byte order mark and
//!   header included. The place where a file begins has offset 0 and hash 0, and whatever ends a file (blank
//!   lines, comments) belongs to its last block, so a block never begins behind the last row of a file.

mod block;
mod dialect;
mod header;
mod records;
mod tokenise;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use encoding_rs::Encoding;

pub use self::records::records;
use self::{
    block::{Records, Shape, skip_idle},
    dialect::Dialect,
    header::FileColumns,
    tokenise::{Fields, Idle, Record, SPAN_BYTES_MAX, Tokeniser},
};
use super::{
    Format, InputFile, TextOptions,
    infer::Guess,
    text::{
        BLOCK_BYTES_MAX, RECORD_BYTES_LIMIT, SAMPLE_BYTES, SAMPLE_ROWS, batch_schema, begin, check_bounds,
        decode, window::Window,
    },
};
use crate::{
    error::{Error, Result},
    ledger::InputIdentity,
    parse::{ParseContext, timezone},
    slot::BlockMark,
    source::{Block, ReadRequest, Source, SourceColumn, SourceSchema},
};

const _: () = assert!(BLOCK_BYTES_MAX + RECORD_BYTES_LIMIT <= SPAN_BYTES_MAX);

/// Characters that separate fields in files that are called CSV all the same.
const DELIMITERS: [char; 4] = [';', '\t', '|', ','];

/// Text files as a source.
pub struct CsvSource {
    files: Vec<InputFile>,
    format: Format,
    options: TextOptions,
    dialect: Dialect,
    encoding: Option<&'static Encoding>,
    context: ParseContext,
    schema: SourceSchema,
    names: Vec<Arc<str>>,
    request: Option<(ReadRequest, SchemaRef)>,
    /// The file being read; none behind the last.
    current: Option<OpenFile>,
    /// Number of the next block, and where it begins.
    index: u64,
    mark: BlockMark,
    /// Bytes consumed of files that are done, and not yet counted to a block.
    carried_bytes: u64,
    records: Records,
}

/// A file being read.
struct OpenFile {
    index: usize,
    columns: FileColumns,
    tokeniser: Tokeniser,
    window: Window,
    /// Rows consumed.
    rows: u64,
    /// Bytes counted to blocks.
    counted_bytes: u64,
    /// No block has been read since it was opened at its beginning.
    fresh: bool,
}

impl CsvSource {
    /// Opens text files of one set of columns, and infers types from a sample of the first that has rows.
    ///
    /// `Config` for options that make no sense; `Input` for files that cannot be read, have no columns, or
    /// differ in them. Pipes are opened in their turn; what they begin with is kept, not read twice.
    pub fn open(files: Vec<InputFile>, format: Format, options: &TextOptions) -> Result<Self> {
        let dialect = Dialect::new(format, options)?;
        let encoding = decode::encoding(&options.encoding)?;
        let context = ParseContext {
            timezone: options.timezone.as_deref().map(timezone).transpose()?,
        };
        let Some(first) = files.first() else {
            return Err(Error::config("no input is named"));
        };
        let mut window = Window::open(first, encoding)?;
        begin(&mut window, &first.shown, encoding.is_some())?;
        let names = match options.header {
            true => header::read_names(&mut window, &first.shown, &dialect)?,
            false => header::numbered_names(&mut window, &first.shown, &dialect)?,
        };
        let columns = FileColumns::first(&names);
        let tokeniser = Tokeniser::new(&dialect, Some(names.len()));
        let mut guesses = vec![Guess::default(); names.len()];
        let shown = first.shown.clone();
        let mut sampled = sample(&mut window, &tokeniser, &dialect, &columns, &mut guesses)?;
        let mut source = Self {
            current: Some(OpenFile {
                index: 0,
                columns,
                tokeniser,
                window,
                rows: 0,
                counted_bytes: 0,
                fresh: true,
            }),
            files,
            format,
            options: options.clone(),
            dialect,
            encoding,
            context,
            schema: SourceSchema {
                shown,
                columns: Vec::new(),
                named: options.header,
                text: true,
            },
            names,
            request: None,
            index: 0,
            mark: BlockMark::default(),
            carried_bytes: 0,
            records: Records::default(),
        };
        for index in 1..source.files.len() {
            // Columns that differ are found before the first row is loaded, where the file can be read twice.
            if source.files[index].identity.is_some() && (options.header || sampled == 0) {
                let mut open = source.open_file(index)?;
                if sampled == 0 {
                    let OpenFile {
                        window,
                        tokeniser,
                        columns,
                        ..
                    } = &mut open;
                    sampled = sample(window, tokeniser, &source.dialect, columns, &mut guesses)?;
                }
            }
        }
        source.schema.columns = source
            .names
            .iter()
            .zip(guesses)
            .map(|(name, guess)| SourceColumn {
                name: name.to_string(),
                arrow: DataType::Utf8,
                suggested: Some(guess.column_type()),
                nullable: guess.nulls(),
            })
            .collect();
        Ok(source)
    }

    /// Opens a file and goes to its first row.
    fn open_file(&self, index: usize) -> Result<OpenFile> {
        let file = &self.files[index];
        let mut window = Window::open(file, self.encoding)?;
        begin(&mut window, &file.shown, self.encoding.is_some())?;
        let columns = if self.options.header {
            let names = header::read_names(&mut window, &file.shown, &self.dialect)?;
            FileColumns::further(names, &file.shown, &self.names, &self.files[0].shown)?
        } else {
            FileColumns::first(&self.names)
        };
        Ok(OpenFile {
            index,
            tokeniser: Tokeniser::new(&self.dialect, Some(columns.names.len())),
            columns,
            window,
            rows: 0,
            counted_bytes: 0,
            fresh: true,
        })
    }
}

impl Source for CsvSource {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        self.files.iter().map(|file| file.identity.clone()).collect()
    }

    fn options(&self) -> Vec<String> {
        self.dialect.describe(self.format, &self.options)
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
            let reached = open.window.consume_to(mark.offset.max(open.window.offset()))?;
            if mark.offset > 0
                && (!reached || open.window.offset() != mark.offset || open.window.hash() != mark.hash)
            {
                return Err(
                    Error::input(format!("{} has changed since the run began", file.shown))
                        .hint("load it as a new run with --restart"),
                );
            }
            open.rows = mark.file_rows;
            if mark.offset > 0 {
                open.fresh = false;
                open.counted_bytes = open.window.disk_bytes();
            }
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
        loop {
            let Some(open) = &mut self.current else {
                return Ok(None);
            };
            open.fresh = false;
            if skip_idle(&mut open.window, &open.tokeniser)? {
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
            columns: &open.columns,
            tokeniser: &open.tokeniser,
            request,
            schema,
            nulls: &self.dialect.nulls,
            context: &self.context,
        };
        let parts = block::next(&mut open.window, &shape, &mut self.records, open.rows)?;
        let rows = (parts.rows.num_rows() + parts.rejects.len()) as u64;
        open.rows += rows;
        let more = skip_idle(&mut open.window, &open.tokeniser)?;
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

/// Shows the values of the first rows to `guesses`, without consuming them. Returns the rows seen.
fn sample(
    window: &mut Window,
    tokeniser: &Tokeniser,
    dialect: &Dialect,
    columns: &FileColumns,
    guesses: &mut [Guess],
) -> Result<usize> {
    let mut fields = Fields::default();
    let (mut at, mut rows) = (0, 0);
    while rows < SAMPLE_ROWS && at < SAMPLE_BYTES {
        let text = window.text();
        let enough = match tokeniser.idle(text, at, window.whole()) {
            Idle::End => break,
            Idle::Line { next } => {
                at = next;
                true
            }
            Idle::Incomplete => false,
            Idle::Record => {
                fields.clear();
                match tokeniser.record(text, at, window.whole(), &mut fields) {
                    Record::Good { next, .. } => {
                        for (guess, field) in guesses.iter_mut().zip(&columns.fields) {
                            let Some(span) = fields.spans.get(*field) else {
                                continue;
                            };
                            let value = fields.bytes(*span, text);
                            let null = !span.is_quoted() && dialect.nulls.contains(value);
                            guess.see((!null).then_some(value));
                        }
                        rows += 1;
                        at = next;
                        true
                    }
                    Record::Bad { next, .. } => {
                        at = next;
                        true
                    }
                    Record::Incomplete => false,
                    Record::Endless => break,
                }
            }
        };
        if !enough {
            window.read(window.text().len() - at)?;
        }
    }
    Ok(rows)
}

/// The character that probably separates fields, where the whole header was taken for one name: `a;b;c`.
pub fn suspicious_delimiter(schema: &SourceSchema) -> Option<char> {
    match schema.columns.as_slice() {
        [column] if schema.text && schema.named => DELIMITERS.into_iter().find(|d| column.name.contains(*d)),
        _ => None,
    }
}
