//! Where rows come from: files of several formats, plain or compressed, or standard input.

pub mod added;
mod archive;
pub mod arrow_ipc;
pub mod batches;
pub(crate) mod columns;
pub mod compress;
pub mod csv;
pub mod damage;
pub mod empty;
mod excel;
pub mod files;
pub(crate) mod infer;
pub mod json;
pub mod parquet;
mod pinned;
pub mod row;
pub mod rows;
pub mod state;
pub(crate) mod text;

use std::{
    io::{self, Read, Seek, SeekFrom},
    path::PathBuf,
    sync::Arc,
};

use tonnage_core::{
    error::{Error, Result},
    ledger::InputIdentity,
    parse::ValueFormats,
    source::{PIPE, Source},
};
use tonnage_places::{File, KEPT_BYTES_MAX, Object};

/// Opens what a user names as one source: paths, globs, directories, `-` for standard input. `format` is told
/// by the files' endings where it is not given.
///
/// `Config` where the names or options make no sense; `Input` for what is not there or cannot be read.
pub fn open(inputs: &[String], format: Option<Format>, text: &TextOptions) -> Result<Box<dyn Source>> {
    let (files, format) = files::find(inputs, format)?;
    open_files(files, format, text)
}

/// Opens files that were found ([`files::find`]) as one source.
pub fn open_files(mut files: Vec<InputFile>, format: Format, text: &TextOptions) -> Result<Box<dyn Source>> {
    for file in &mut files {
        file.sheet = text.sheet.as_deref().map(Arc::from);
    }
    match format {
        Format::Csv | Format::Tsv => Ok(Box::new(csv::CsvSource::open(files, format, text)?)),
        Format::Parquet => {
            let opened = parquet::ParquetSource::open(files.clone(), text.differing);
            Ok(Box::new(opened.or_else(|error| {
                refuse_text(&files)?;
                Err(error)
            })?))
        }
        Format::Json => Ok(Box::new(json::JsonSource::open(files, text)?)),
        Format::Arrow => Ok(Box::new(arrow_ipc::ArrowSource::open(files, text.differing)?)),
    }
}

/// Text in files that are called Parquet is told apart from damaged Parquet.
fn refuse_text(files: &[InputFile]) -> Result<()> {
    for file in files {
        if let Some(what) = compress::not_parquet(file)? {
            return Err(
                Error::input(format!("{} is not a Parquet file but {what}", file.shown))
                    .hint("if it is text, read it with --format csv or --format tsv"),
            );
        }
    }
    Ok(())
}

/// One file to read.
#[derive(Debug, Clone, PartialEq)]
pub struct InputFile {
    /// As the user named it; goes into messages and rejects.
    pub shown: Arc<str>,
    /// Where it is on a disk; `None` for standard input and for an object.
    pub path: Option<PathBuf>,
    /// The object that it is; `None` for standard input and on a disk.
    pub object: Option<Object>,
    /// Absolute path or URL, size and time; `None` for what cannot be read again.
    pub identity: Option<InputIdentity>,
    /// What it was on a disk when it was found; `None` for what cannot be read again, and for objects.
    pub state: Option<state::FileState>,
    /// The sheet to read, where it is an Excel file; none for the first.
    pub sheet: Option<Arc<str>>,
}

impl InputFile {
    /// Opens it for reading from any position; `Unsupported` where it can only be read from its beginning to its end.
    pub(crate) fn opened(&self) -> io::Result<File> {
        match (&self.path, &self.object) {
            (Some(path), _) => File::open(path),
            (None, Some(object)) if object.has_ranges() => Ok(File::of_object(object)),
            (None, _) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Its last bytes as they are stored, at most `bytes_max`.
    pub(crate) fn end(&self, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut file = self.opened()?;
        let start = file.size()?.saturating_sub(bytes_max);
        file.seek(SeekFrom::Start(start))?;
        let mut end = Vec::new();
        file.take(bytes_max).read_to_end(&mut end)?;
        Ok(end)
    }
}

/// Objects whose beginnings are asked for before they are looked at: 4 MiB of them.
const FORESEEN: usize = 16;

/// Asks for the beginnings of the files that follow the one at `at`, as all are looked at one after another: of those of
/// stores each takes a round trip.
pub(crate) fn foresee(files: &[InputFile], at: usize) {
    let from = if at == 0 { 0 } else { at + FORESEEN - 1 };
    let further = files.iter().take(at + FORESEEN).skip(from);
    for object in further.filter_map(|file| file.object.as_ref()) {
        object.foresee_beginning();
    }
}

/// What a user should know of files that are objects, of each of which `bytes_max` are held. Of those that are `passed` over byte by byte a resume reads again
/// what lies before.
fn object_notes<'a>(
    files: impl IntoIterator<Item = &'a InputFile>,
    bytes_max: u64,
    passed: bool,
) -> Vec<String> {
    let has_ranges = |file: &InputFile| file.object.as_ref().is_some_and(Object::has_ranges);
    if !files.into_iter().any(has_ranges) {
        return Vec::new();
    }
    let mut notes = vec![format!(
        "objects are read ahead: at most {} MiB of one are held, and {} MiB of the ends of all",
        bytes_max >> 20,
        KEPT_BYTES_MAX >> 20
    )];
    if passed {
        notes.push("a resume reads them again from the beginning, and passes over what is loaded".to_owned());
    }
    notes
}

/// What the files are that cannot be read a second time.
fn not_rereadable(files: &[InputFile]) -> &'static str {
    let is_object = |file: &InputFile| file.identity.is_none() && file.object.is_some();
    match files.iter().any(is_object) {
        true => "the server gives a file from its beginning only",
        false => PIPE,
    }
}

/// A file's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated text.
    Csv,
    /// Tab-separated text.
    Tsv,
    /// JSON lines: an object a line.
    Json,
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow IPC, as a file or a stream.
    Arrow,
}

impl Format {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::Tsv => "TSV",
            Self::Json => "JSON",
            Self::Parquet => "Parquet",
            Self::Arrow => "Arrow",
        }
    }
}

/// What becomes of files that do not have the same columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DifferingColumns {
    /// They are refused.
    #[default]
    Refused,
    /// The columns are those of all files together, by name: a file that lacks one has nulls for it.
    United,
}

/// How text files are read. Everything here is part of a run's identity.
#[derive(Debug, Clone, PartialEq)]
pub struct TextOptions {
    /// Between fields; none takes the format's own.
    pub delimiter: Option<u8>,
    /// Around fields; none turns quoting off.
    pub quote: Option<u8>,
    /// Before a quote inside a quoted field; none means that the quote is doubled.
    pub escape: Option<u8>,
    /// Whether the first record names the columns.
    pub header: bool,
    /// Unquoted fields that mean null; as COPY, the empty field where none was given.
    pub nulls: Vec<String>,
    /// Lines that begin with this byte are skipped and are not rows.
    pub comment: Option<u8>,
    /// The WHATWG label of the character set, or `auto` to tell it by the bytes; `utf-8` unless given.
    pub encoding: String,
    /// Whether another character set is taken where the bytes are none of `encoding` and clearly of that one; said in the plan.
    pub encoding_guessed: bool,
    /// Zone of times that carry none, where the column wants an instant (IANA name).
    pub timezone: Option<String>,
    /// Whether what is not given is found by looking at the first file: the delimiter, quoting that the rules of COPY
    /// refuse, lines before the header, UTF-16 with its mark, lines that end with CR alone. What is found is said in the
    /// plan. Without it the text is read as these options say and not otherwise.
    pub detect: bool,
    /// Lines before the header, or the first row, that are skipped; none where they may be detected.
    pub skip: Option<u64>,
    /// Lines at the end of each file that are no rows; at most 1,000.
    pub skip_footer: u64,
    /// Whether spaces around unquoted fields mean nothing.
    pub trim: bool,
    /// How values are written.
    pub formats: ValueFormats,
    /// Whether the keys of an object within an object of JSON are columns: `address.city`.
    pub flatten: bool,
    /// The sheet of an Excel file; none for its first.
    pub sheet: Option<String>,
    /// What becomes of files with other columns than the first.
    pub differing: DifferingColumns,
    /// The most bytes of one record; longer ones are rejects.
    pub record_bytes_max: usize,
    /// How many rows the types of columns are inferred from.
    pub scan: Scan,
}

/// How many rows the types of columns are inferred from, for a table that is made for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// All of files that together have at most [`SCANNED_BYTES_MAX`], and that can be read twice; else the first ones.
    Auto,
    /// The first ones.
    Sample,
    /// All: files are read twice.
    All,
}

/// The most bytes of files all of which [`Scan::Auto`] looks at.
pub const SCANNED_BYTES_MAX: u64 = 64 << 20;

impl Scan {
    /// What is done with these files: [`Scan::Sample`] or [`Scan::All`].
    fn of(self, files: &[InputFile]) -> Self {
        if self != Self::Auto {
            return self;
        }
        let bytes: Option<u64> = files.iter().map(|file| Some(file.identity.as_ref()?.bytes)).sum();
        match bytes.is_some_and(|bytes| bytes <= SCANNED_BYTES_MAX) {
            true => Self::All,
            false => Self::Sample,
        }
    }
}

impl Default for TextOptions {
    /// As PostgreSQL's COPY in CSV mode, with a header, and records of at most 64 MiB.
    fn default() -> Self {
        Self {
            delimiter: None,
            quote: Some(b'"'),
            escape: None,
            header: true,
            nulls: vec![String::new()],
            comment: None,
            encoding: "utf-8".to_owned(),
            encoding_guessed: true,
            timezone: None,
            detect: true,
            skip: None,
            skip_footer: 0,
            trim: false,
            formats: ValueFormats::default(),
            flatten: false,
            sheet: None,
            differing: DifferingColumns::Refused,
            record_bytes_max: 64 << 20,
            scan: Scan::Sample,
        }
    }
}

#[cfg(test)]
mod tests;
