//! Delimited text: CSV, TSV and their relatives.
//!
//! - A bad row is a reject of its block, and reading goes on with the next row.
//! - Blocks, marks and memory are as for every format of text: see `sources::text::reading`.

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

use arrow::datatypes::DataType;
use tonnage_core::{
    error::{Error, Result},
    parse::{ParseContext, timezone},
    reader::BeyondArrow,
    source::{SourceColumn, SourceSchema},
};

pub use self::records::records;
use self::{
    block::{Records, Shape, skip_idle},
    dialect::Dialect,
    header::FileColumns,
    tokenise::{Fields, Idle, Record, SPAN_BYTES_MAX, Tokeniser},
};
use super::{
    Format, InputFile, Scan, TextOptions,
    infer::Guess,
    text::{
        BLOCK_BYTES_MAX, RECORD_BYTES_LIMIT, SAMPLE_BYTES, SAMPLE_ROWS, again, decode,
        reading::{Parts, TextFormat, TextSource, Wanted, open_window},
        window::{READ_BYTES, Window},
    },
};

const _: () = assert!(BLOCK_BYTES_MAX + RECORD_BYTES_LIMIT <= SPAN_BYTES_MAX);

/// Characters that separate fields in files that are called CSV all the same.
const DELIMITERS: [char; 4] = [';', '\t', '|', ','];

/// Files of delimited text as a source.
pub(crate) type CsvSource = TextSource<Csv>;

/// Delimited text of one dialect and one set of columns.
pub(crate) struct Csv {
    options: TextOptions,
    dialect: Dialect,
    context: ParseContext,
    /// The first file, as the user named it, and its names.
    first_shown: Arc<str>,
    names: Vec<Arc<str>>,
    records: Records,
}

/// What is known of one file: its columns, and what cuts it.
pub(crate) struct CsvFile {
    columns: FileColumns,
    tokeniser: Tokeniser,
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
            bytes_as_written: false,
        };
        let Some(first) = files.first() else {
            return Err(Error::config("no input is named"));
        };
        let mut window = open_window(first, encoding)?;
        let (names, notes) = match options.header {
            true => {
                let header = header::read_names(&mut window, &first.shown, &dialect)?;
                (header.names, Some(header.notes))
            }
            false => {
                let mut names = header::numbered_names(&mut window, &first.shown, &dialect)?;
                for file in files[1..].iter().filter(|file| file.identity.is_some()) {
                    if names.is_empty() {
                        let mut window = open_window(file, encoding)?;
                        names = header::numbered_names(&mut window, &file.shown, &dialect)?;
                    }
                }
                (names, None)
            }
        };
        let shown = first.shown.clone();
        let csv = Csv {
            options: options.clone(),
            dialect,
            context,
            first_shown: shown.clone(),
            names,
            records: Records::default(),
        };
        let known = csv.file(FileColumns::first(&csv.names));
        let mut guesses = vec![Guess::default(); csv.names.len()];
        let mut sampled = match options.scan {
            Scan::Sample => csv.sample(&mut window, &known, &mut guesses, Scan::Sample)?,
            // Of a window of its own, as what is looked at is passed by.
            Scan::All => {
                let mut window = open_window(again(first)?, encoding)?;
                let known = csv.begin(&mut window, first)?;
                csv.sample(&mut window, &known, &mut guesses, Scan::All)?
            }
        };
        for file in &files[1..] {
            // Columns that differ are found before the first row is loaded, where the file can be read twice.
            let is_all = options.scan == Scan::All;
            if is_all {
                again(file)?;
            }
            if file.identity.is_some() && (options.header || sampled == 0 || is_all) {
                let mut window = open_window(file, encoding)?;
                let known = csv.begin(&mut window, file)?;
                if sampled == 0 || is_all {
                    sampled += csv.sample(&mut window, &known, &mut guesses, options.scan)?;
                }
            }
        }
        let extents = guesses.iter().map(Guess::extent).collect();
        let columns = csv.names.iter().zip(guesses).map(|(name, guess)| SourceColumn {
            beyond_arrow: BeyondArrow::Refused,
            name: name.to_string(),
            arrow: DataType::Utf8,
            suggested: Some(guess.column_type()),
            nullable: guess.nulls(),
            null_word: guess.null_word(),
        });
        let schema = SourceSchema {
            shown,
            columns: columns.collect(),
            named: options.header,
            text: true,
            header: notes,
        };
        Ok(Self::new(
            csv,
            files,
            encoding,
            (schema, extents),
            (window, known),
        ))
    }
}

impl Csv {
    fn file(&self, columns: FileColumns) -> CsvFile {
        CsvFile {
            tokeniser: Tokeniser::new(&self.dialect, Some(columns.names.len())),
            columns,
        }
    }

    /// Shows values to `guesses`: those of the first rows, without consuming them, or of all, which are consumed.
    /// Returns the rows seen.
    fn sample(
        &self,
        window: &mut Window,
        file: &CsvFile,
        guesses: &mut [Guess],
        scan: Scan,
    ) -> Result<usize> {
        let CsvFile { columns, tokeniser } = file;
        let mut fields = Fields::default();
        let (mut at, mut rows) = (0, 0);
        while scan == Scan::All || (rows < SAMPLE_ROWS && at < SAMPLE_BYTES) {
            if scan == Scan::All && at >= READ_BYTES {
                window.consume(at);
                at = 0;
            }
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
                                let null = !span.is_quoted() && self.dialect.nulls.contains(value);
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
}

impl TextFormat for Csv {
    type File = CsvFile;

    fn options(&self) -> Vec<String> {
        self.dialect.describe(&self.options)
    }

    fn begin(&self, window: &mut Window, file: &InputFile) -> Result<CsvFile> {
        let columns = if self.options.header {
            let names = header::read_names(window, &file.shown, &self.dialect)?.names;
            FileColumns::further(names, &file.shown, &self.names, &self.first_shown)?
        } else {
            FileColumns::first(&self.names)
        };
        Ok(self.file(columns))
    }

    fn skip_idle(&self, window: &mut Window, file: &CsvFile) -> Result<bool> {
        skip_idle(window, &file.tokeniser)
    }

    fn block(&mut self, window: &mut Window, file: &CsvFile, wanted: &Wanted<'_>) -> Result<Parts> {
        let shape = Shape {
            shown: wanted.shown,
            columns: &file.columns,
            tokeniser: &file.tokeniser,
            request: wanted.request,
            schema: wanted.schema,
            nulls: &self.dialect.nulls,
            context: &self.context,
        };
        block::next(window, &shape, &mut self.records, wanted.rows_before)
    }
}

/// The character that probably separates fields, where the whole header was taken for one name: `a;b;c`.
pub fn suspicious_delimiter(schema: &SourceSchema) -> Option<char> {
    match schema.columns.as_slice() {
        [column] if schema.text && schema.named => DELIMITERS.into_iter().find(|d| column.name.contains(*d)),
        _ => None,
    }
}
