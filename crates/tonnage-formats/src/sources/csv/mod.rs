//! Delimited text: CSV, TSV and their relatives.
//!
//! - A bad row is a reject of its block, and reading goes on with the next row.
//! - Blocks, marks and memory are as for every format of text: see `sources::text::reading`.

mod block;
mod detect;
mod dialect;
mod footer;
mod header;
mod ragged;
mod records;
mod tokenise;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::{collections::HashSet, sync::Arc};

use arrow::datatypes::DataType;
use memchr::memchr;
use tonnage_core::{
    error::{Error, Result},
    parse::{ParseContext, timezone},
    reader::BeyondArrow,
    source::{SourceColumn, SourceSchema},
};
use tonnage_places::READ_BYTES_MAX;

pub use self::records::records;
use self::{
    block::{Records, Shape, skip_idle},
    detect::{Found, HeaderWidth, Sample, detect},
    dialect::Dialect,
    footer::{FOOTER_LOOKED_AT_BYTES, Footer, footer},
    header::FileColumns,
    ragged::Ragged,
    tokenise::{Fields, Idle, Record, SPAN_BYTES_MAX, Tokeniser},
};
use super::{
    DifferingColumns, Format, InputFile, Scan, TextOptions, foresee,
    infer::Guess,
    object_notes,
    text::{
        BLOCK_BYTES_MAX, RECORD_BYTES_LIMIT, SAMPLE_BYTES, SAMPLE_ROWS, again,
        opening::{Layout, Opening},
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
    header_width: HeaderWidth,
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
        options.formats.check()?;
        let mut opening = Opening::new(options, Layout::Lines)?;
        let context = ParseContext {
            timezone: options.timezone.as_deref().map(timezone).transpose()?,
            formats: options.formats.clone(),
            ..ParseContext::default()
        };
        let Some(first) = files.first() else {
            return Err(Error::config("no input is named"));
        };
        let shown = first.shown.clone();
        let mut window = open_window(first, &opening)?;
        let mut notes = window.notes().to_vec();
        // What is found at the end of one file is not to be looked for in others.
        let is_single = files.len() == 1 && first.identity.is_some();
        if is_single && !window.is_decoded() && opening.look_further(first, &mut notes)? {
            window = open_window(first, &opening)?;
        }
        let Looked {
            options,
            dialect,
            found,
        } = look(&mut window, format, options, first, &mut notes)?;
        let header_width = found.header;
        let mut options = options;
        if found.blanks {
            opening.split_by_blanks();
            window = open_window(first, &opening)?;
        }
        if is_single
            && options.detect
            && options.skip_footer == 0
            && let Some(footer) = footer_of(&window, first, &options, &dialect, &found)?
        {
            notes.push(footer.note(&shown));
            options.skip_footer = footer.lines;
            opening.leave_out_footer(footer.lines);
            window = open_window(first, &opening)?;
        }
        if window.is_excel() {
            notes.push(format!(
                "{shown} is held in memory: at most 128 MiB, and 1 GiB without its compression"
            ));
        }
        notes.extend(object_notes(&files, READ_BYTES_MAX, !window.can_skip()));
        let mut csv = Csv {
            options,
            dialect,
            header_width,
            context,
            first_shown: shown.clone(),
            names: Vec::new(),
            records: Records::default(),
        };
        csv.skip_lines(&mut window)?;
        if csv.options.header {
            let header = csv.read_names(&mut window, &shown)?;
            notes.extend(header.notes);
            csv.names = header.names;
        } else {
            csv.names = header::numbered_names(&mut window, &shown, &csv.dialect)?;
            for file in files[1..].iter().filter(|file| file.identity.is_some()) {
                if csv.names.is_empty() {
                    let mut window = open_window(file, &opening)?;
                    csv.skip_lines(&mut window)?;
                    csv.names = header::numbered_names(&mut window, &file.shown, &csv.dialect)?;
                }
            }
        }
        let (scan, has_header) = (csv.options.scan.of(&files), csv.options.header);
        let is_united = csv.options.differing == DifferingColumns::United && has_header;
        let mut known = FileColumns::first(&csv.names);
        if is_united {
            csv.unite(&files[1..], &opening)?;
            known.fields.resize(csv.names.len(), None);
        }
        let mut known = csv.file(known);
        let mut guesses = vec![Guess::default(); csv.names.len()];
        let mut ragged = csv.options.detect.then(Ragged::default);
        let mut sampled = match scan {
            Scan::Auto | Scan::Sample => {
                csv.sample(&mut window, &known, &mut guesses, Scan::Sample, ragged.as_mut())?
            }
            // Of a window of its own, as what is looked at is passed by.
            Scan::All => {
                let mut window = open_window(again(first)?, &opening)?;
                let known = csv.begin(&mut window, first)?;
                csv.sample(&mut window, &known, &mut guesses, Scan::All, ragged.as_mut())?
            }
        };
        if let Some(ragged) = ragged {
            ragged.settle(
                &mut csv.dialect,
                &mut guesses,
                &known.columns.fields,
                &shown,
                &mut notes,
            );
            known.tokeniser = csv.tokeniser(&known.columns);
        }
        for (at, file) in files[1..].iter().enumerate() {
            // Columns that differ are found before the first row is loaded, where the file can be read twice.
            let is_all = scan == Scan::All;
            if is_all {
                again(file)?;
            }
            if file.identity.is_some() && (has_header || sampled == 0 || is_all) {
                foresee(&files[1..], at);
                let mut window = open_window(file, &opening)?;
                let known = csv.begin(&mut window, file)?;
                if sampled == 0 || is_all || is_united {
                    sampled += csv.sample(&mut window, &known, &mut guesses, scan, None)?;
                }
            }
        }
        let extents = guesses.iter().map(|guess| guess.extent(scan)).collect();
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
            named: has_header,
            text: true,
            header: has_header,
            notes,
        };
        Ok(Self::new(csv, files, opening, (schema, extents), (window, known)))
    }
}

/// How the first file is read.
struct Looked {
    /// The options, completed by what was found.
    options: TextOptions,
    /// How its text is cut.
    dialect: Dialect,
    found: Found,
}

/// What the beginning of the first file shows beyond `options`. What was found is added to `notes`.
fn look(
    window: &mut Window,
    format: Format,
    options: &TextOptions,
    file: &InputFile,
    notes: &mut Vec<String>,
) -> Result<Looked> {
    let mut options = options.clone();
    if !options.detect {
        let dialect = Dialect::new(format, &options)?;
        return Ok(Looked {
            options,
            dialect,
            found: Found::default(),
        });
    }
    while window.text().len() < detect::SAMPLE_BYTES && !window.whole() {
        window.read(detect::SAMPLE_BYTES)?;
    }
    let shown = window.shown().to_owned();
    if is_markup(window.text()) {
        return Err(Error::input(format!("{shown} is a web page or XML, and no table")).hint(
            "a server may have answered with a page in place of the file: look into it; --format csv reads it as CSV",
        ));
    }
    let named = separator_line(window.text());
    if let (Some((delimiter, _)), None) = (named, options.delimiter) {
        options.delimiter = Some(delimiter);
        notes.push(format!(
            "the first line of {shown} names the delimiter, '{}'",
            char::from(delimiter).escape_default()
        ));
    }
    let dialect = Dialect::new(format, &options)?;
    let mut text = &window.text()[named.map_or(0, |(_, end)| end)..];
    for _ in 0..options.skip.unwrap_or(0) {
        text = &text[memchr(b'\n', text).map_or(text.len(), |end| end + 1)..];
    }
    let sample = Sample {
        text,
        whole: window.whole(),
        rereadable: file.identity.is_some(),
    };
    let found: Found = detect(sample, &dialect, &options);
    notes.extend(found.notes(&shown));
    if found.skip > 0 {
        options.skip = Some(found.skip);
    }
    options.header &= !found.headerless;
    Ok(Looked {
        options,
        dialect: found.applied(&dialect),
        found,
    })
}

/// Whether text begins as a document of HTML or XML does.
fn is_markup(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    ["<!doctype", "<html", "<?xml"].iter().any(|tag| {
        let start = text.get(..tag.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
    })
}

/// The lines at the end of the only file that are no rows, as far as its end can be looked at: where it is short, or plain
/// text.
fn footer_of(
    window: &Window,
    file: &InputFile,
    options: &TextOptions,
    dialect: &Dialect,
    found: &Found,
) -> Result<Option<Footer>> {
    if window.whole() {
        let mut rows = window.text();
        for _ in 0..options.skip.unwrap_or(0) + u64::from(options.header) {
            rows = &rows[memchr(b'\n', rows).map_or(rows.len(), |end| end + 1)..];
        }
        return Ok(footer(rows, dialect, found.width));
    }
    if !window.is_plain() {
        return Ok(None);
    }
    // An object says more of it, and what to do.
    let unread = |cause: std::io::Error| {
        let failure = file.object.as_ref().and_then(|object| object.failure());
        failure.unwrap_or_else(|| {
            Error::input(format!("{}: its end cannot be read: {cause}", file.shown)).caused_by(cause)
        })
    };
    let end = file.end(FOOTER_LOOKED_AT_BYTES).map_err(unread)?;
    let lines = memchr(b'\n', &end).map_or(&end[end.len()..], |at| &end[at + 1..]);
    Ok(footer(lines, dialect, found.width))
}

/// The delimiter that a first line `sep=;` names, as Excel writes and reads it, and where the line ends.
fn separator_line(text: &[u8]) -> Option<(u8, usize)> {
    let end = memchr(b'\n', text)?;
    match text[..end].strip_suffix(b"\r").unwrap_or(&text[..end]) {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', delimiter] => Some((*delimiter, end + 1)),
        _ => None,
    }
}

impl Csv {
    /// Consumes what is before the header, or the first row.
    fn skip_lines(&self, window: &mut Window) -> Result<()> {
        if self.options.detect {
            window.read(1)?;
            if let Some((_, end)) = separator_line(window.text()) {
                window.consume(end);
            }
        }
        for _ in 0..self.options.skip.unwrap_or(0) {
            loop {
                if let Some(end) = memchr(b'\n', window.text()) {
                    window.consume(end + 1);
                    break;
                }
                window.consume(window.text().len());
                if window.whole() {
                    break;
                }
                window.read(1)?;
            }
        }
        Ok(())
    }

    /// Adds the names of further files that the first lacks, in order.
    fn unite(&mut self, files: &[InputFile], opening: &Opening) -> Result<()> {
        let mut known: HashSet<Arc<str>> = self.names.iter().cloned().collect();
        let is_read_twice = |(_, file): &(usize, &InputFile)| file.identity.is_some();
        for (at, file) in files.iter().enumerate().filter(is_read_twice) {
            foresee(files, at);
            let mut window = open_window(file, opening)?;
            self.skip_lines(&mut window)?;
            for name in self.read_names(&mut window, &file.shown)?.names {
                if known.insert(name.clone()) {
                    self.names.push(name);
                }
            }
        }
        Ok(())
    }

    fn read_names(&self, window: &mut Window, shown: &str) -> Result<header::Names> {
        header::read_names(window, shown, &self.dialect, self.header_width)
    }

    fn file(&self, columns: FileColumns) -> CsvFile {
        CsvFile {
            tokeniser: self.tokeniser(&columns),
            columns,
        }
    }

    fn tokeniser(&self, columns: &FileColumns) -> Tokeniser {
        Tokeniser::new(&self.dialect, Some(columns.names.len()))
    }

    /// Shows values to `guesses`: those of the first rows, without consuming them, or of all, which are consumed; what may be
    /// a row and is not one goes to `ragged`. Returns the rows seen.
    fn sample(
        &self,
        window: &mut Window,
        file: &CsvFile,
        guesses: &mut [Guess],
        scan: Scan,
        mut ragged: Option<&mut Ragged>,
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
                                let Some(field) = field else {
                                    guess.see(None);
                                    continue;
                                };
                                let Some(span) = fields.spans.get(*field) else {
                                    continue;
                                };
                                let value = self.dialect.value(fields.bytes(*span, text), *span);
                                guess.see_written(value, &self.context.formats);
                            }
                            if let Some(ragged) = &mut ragged {
                                ragged.see_row(text, at, &fields);
                            }
                            rows += 1;
                            at = next;
                            true
                        }
                        Record::Bad { next, flaw, .. } => {
                            if let Some(ragged) = &mut ragged {
                                ragged.see_bad(&text[at..next], flaw, &self.dialect);
                            }
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
        self.skip_lines(window)?;
        let columns = if self.options.header {
            let names = self.read_names(window, &file.shown)?.names;
            FileColumns::further(
                names,
                &file.shown,
                &self.names,
                &self.first_shown,
                self.options.differing,
            )?
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
            dialect: &self.dialect,
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
