//! Where batches of rows are written: CSV, JSON lines, Parquet and Arrow IPC, to a file, an object or standard output.
//!
//! Invariants: nothing stands under a file's final name before [`Settled::publish`] has put it there,
//! complete and synced; a sink dropped unfinished takes its temporary file away; a file that exists is
//! replaced only on request; and memory is bounded, by [`csv::BUFFER_BYTES`] or
//! [`parquet::ParquetOptions::row_group_bytes_max`] and a batch.

use std::path::{Path, PathBuf};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    stop::Stop,
    table::nearest,
};
use tonnage_places::url_of;

use crate::sources::Format;

mod arrow_ipc;
pub mod csv;
mod destination;
mod growing;
pub mod json;
pub mod parquet;

use self::{
    arrow_ipc::ArrowSink,
    csv::{CsvOptions, CsvSink},
    destination::Destination,
    json::JsonSink,
    parquet::{ParquetOptions, ParquetSink},
};

pub use self::destination::{Compression, Settled, Written};
pub use crate::sources::files::MANIFEST;

/// Takes batches of one schema.
pub trait Sink: Send {
    /// Writes a batch. An error leaves the sink good for nothing but to be dropped.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;

    /// Writes what is held back and brings all of it to its place, where it is not seen yet.
    fn settle(self: Box<Self>) -> Result<Settled>;

    /// Settles the file and gives it its name.
    fn finish(self: Box<Self>) -> Result<Written> {
        self.settle()?.publish()
    }

    /// Whether the other end of a pipe was closed. What is written from then on goes nowhere, without an
    /// error: a reader that has seen enough (`head`) is no failure, but the caller had better stop.
    fn is_closed(&self) -> bool {
        false
    }
}

/// What to write and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The file, or the URL of an object; `-` is standard output.
    pub path: PathBuf,
    /// The format; none takes it from the file's ending, and CSV for standard output.
    pub format: Option<Format>,
    /// How text is compressed as a whole; none takes it from the file's ending.
    pub compression: Option<Compression>,
    /// Whether a file that exists is replaced.
    pub overwrite: bool,
    /// Whether the SHA-256 of a file is computed while it is written.
    pub checksum: bool,
    /// Used for CSV and TSV.
    pub csv: CsvOptions,
    /// Used for Parquet.
    pub parquet: ParquetOptions,
}

impl Output {
    /// To `path`, in the format of its ending, replacing nothing.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            format: None,
            compression: None,
            overwrite: false,
            checksum: false,
            csv: CsvOptions::default(),
            parquet: ParquetOptions::default(),
        }
    }

    fn is_stdout(&self) -> bool {
        self.path.as_os_str() == "-"
    }
}

/// The formats by the names that endings and `--format` have.
const FORMATS: &[(&str, Format)] = &[
    ("csv", Format::Csv),
    ("tsv", Format::Tsv),
    ("jsonl", Format::Json),
    ("ndjson", Format::Json),
    ("json", Format::Json),
    ("parquet", Format::Parquet),
    ("arrow", Format::Arrow),
    ("ipc", Format::Arrow),
];

/// The ending of files of a format, without its point.
pub fn ending(format: Format) -> &'static str {
    FORMATS
        .iter()
        .find(|(_, known)| *known == format)
        .map_or("csv", |(name, _)| name)
}

/// The format called `name` (csv, tsv, jsonl, parquet, arrow).
pub fn format_named(name: &str) -> Result<Format> {
    if let Some((_, format)) = FORMATS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Ok(*format);
    }
    let names: Vec<_> = FORMATS.iter().map(|(known, _)| *known).collect();
    let hint = match nearest(name, names.iter().copied()).first() {
        Some(known) => format!("did you mean {known}?"),
        None => format!("formats are {}", names.join(", ")),
    };
    Err(Error::config(format!("unknown format '{name}'")).hint(hint))
}

/// Opens the output. `Config` where the ending says no format, the file exists, the directory does not, or a
/// column's type cannot be written in the format.
pub fn create(output: &Output, schema: &SchemaRef) -> Result<Box<dyn Sink>> {
    create_unless(&Stop::default(), output, schema)
}

/// The same; what is written to a store is `Cancelled` once `stop` is asked for, and not only when the store answers.
pub fn create_unless(stop: &Stop, output: &Output, schema: &SchemaRef) -> Result<Box<dyn Sink>> {
    let (format, compression) = kind(output)?;
    let open = || match output.is_stdout() {
        true => Destination::stdout(
            matches!(format, Format::Parquet | Format::Arrow) || compression != Compression::None,
            compression,
        ),
        false => Destination::file(output, compression, stop),
    };
    match format {
        Format::Csv | Format::Tsv => {
            let mut options = output.csv.clone();
            if format == Format::Tsv && options.delimiter.is_none() {
                options.delimiter = Some(b'\t');
            }
            // The schema is checked first, so that a refused one leaves no file behind.
            let encoder = csv::Encoder::new(schema, &options)?;
            Ok(Box::new(CsvSink::new(encoder, open()?)?))
        }
        Format::Parquet => Ok(Box::new(ParquetSink::new(schema, &output.parquet, open()?)?)),
        Format::Json => Ok(Box::new(JsonSink::new(schema, open)?)),
        Format::Arrow => Ok(Box::new(ArrowSink::new(schema, open()?)?)),
    }
}

/// Whether the output is text.
pub fn is_text(output: &Output) -> Result<bool> {
    let (format, _) = kind(output)?;
    Ok(matches!(format, Format::Csv | Format::Tsv | Format::Json))
}

/// Refuses what [`create`] would refuse of a path; writes nothing.
pub fn check(output: &Output) -> Result<()> {
    kind(output)?;
    match output.is_stdout() {
        true => Ok(()),
        false => Destination::check(&output.path, output.overwrite),
    }
}

/// Finishes all of `sinks`, each with the path that it writes to. None of the files is seen before all are in their
/// places. If one cannot be given its name, files that were are removed again: a part of what belongs together never
/// stands where all is looked for. What cannot be removed either, the error names.
pub fn finish_all(sinks: impl IntoIterator<Item = (Box<dyn Sink>, PathBuf)>) -> Result<Vec<Written>> {
    let (mut finished, mut all) = (Vec::new(), Vec::new());
    for (settled, path) in settle_all(sinks)? {
        match settled.publish() {
            Ok(written) => {
                finished.push(path);
                all.push(written);
            }
            Err(error) => {
                let finished = finished.iter().filter(|path| path.as_os_str() != "-");
                let left = finished.filter(|path| remove(path).is_err());
                return Err(with_left(error, left.map(|path| path.display().to_string())));
            }
        }
    }
    Ok(all)
}

/// How many files are settled at once: enough to hide a round trip each, few enough for thousands of files.
const SETTLED_AT_ONCE: usize = 32;

/// Settles all of `sinks`, some at once and in their order. After an error no further one is settled.
fn settle_all(sinks: impl IntoIterator<Item = (Box<dyn Sink>, PathBuf)>) -> Result<Vec<(Settled, PathBuf)>> {
    let mut sinks = sinks.into_iter().peekable();
    let mut settled = Vec::new();
    while sinks.peek().is_some() {
        settled.extend(settle_at_once(sinks.by_ref().take(SETTLED_AT_ONCE))?);
    }
    Ok(settled)
}

/// Settles each of `sinks` on its own thread: a store takes a round trip or more for the last part of each, and a disk syncs
/// several files at once as fast as one.
fn settle_at_once(sinks: impl Iterator<Item = (Box<dyn Sink>, PathBuf)>) -> Result<Vec<(Settled, PathBuf)>> {
    std::thread::scope(|scope| {
        let begin = |(sink, path): (Box<dyn Sink>, PathBuf)| {
            let thread = std::thread::Builder::new().name("settle".to_owned());
            (thread.spawn_scoped(scope, move || sink.settle()), path)
        };
        // All are begun before one is waited for.
        let begun: Vec<_> = sinks.map(begin).collect();
        let ended = begun.into_iter().map(|(thread, path)| {
            let thread = thread.map_err(|cause| {
                Error::new(ErrorKind::Refused, format!("no thread could be started: {cause}"))
            })?;
            let settled = thread.join();
            let settled =
                settled.map_err(|_| Error::bug("a file could not be settled: its thread ended early"))?;
            Ok((settled?, path))
        });
        ended.collect()
    })
}

/// The error of files that belong together, where some of them could neither be completed with the others nor removed.
fn with_left(error: Error, left: impl Iterator<Item = String>) -> Error {
    let left: Vec<String> = left.collect();
    if left.is_empty() {
        return error;
    }
    let hint = format!(
        "remove them, they are a part of the rows only; and {}",
        error.hint_text().unwrap_or("write all of them again")
    );
    error
        .and(format!(
            "written before that, and not removable: {}",
            left.join(", ")
        ))
        .hint(hint)
}

/// Writes a small file or object at once, in the place of one that is there.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(url) = url_of(path) {
        return tonnage_places::write_whole(url, bytes.to_vec());
    }
    let output = Output {
        overwrite: true,
        ..Output::new(path)
    };
    let mut destination = Destination::file(&output, Compression::None, &Stop::default())?;
    let written = std::io::Write::write_all(&mut destination, bytes);
    written.map_err(|cause| destination.error(cause))?;
    destination.settle()?.publish()?;
    Ok(())
}

/// Removes a file or an object that was written. Devices and pipes are not ours; of a link, what it leads to is removed,
/// as that is what was written.
pub fn remove(path: &Path) -> Result<()> {
    if let Some(url) = url_of(path) {
        return tonnage_places::remove(url);
    }
    match path.canonicalize() {
        Ok(file) if file.is_file() => std::fs::remove_file(&file).map_err(|cause| {
            Error::new(
                ErrorKind::Refused,
                format!("cannot remove {}: {cause}", path.display()),
            )
        }),
        _ => Ok(()),
    }
}

/// The format and compression of an output, from what was asked for and the file's endings.
pub fn kind(output: &Output) -> Result<(Format, Compression)> {
    if output.is_stdout() {
        let format = output.format.unwrap_or(Format::Csv);
        return by_itself(format, output.compression.unwrap_or(Compression::None), "-");
    }
    let shown = output.path.display();
    let extension = |path: &Path| path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    let outer = extension(&output.path);
    let (compression, inner) = match outer.as_deref() {
        Some("gz") => (
            Compression::Gzip,
            extension(Path::new(&output.path.with_extension(""))),
        ),
        Some("zst") => (
            Compression::Zstd,
            extension(Path::new(&output.path.with_extension(""))),
        ),
        _ => (Compression::None, outer),
    };
    let by_ending = inner.as_deref().and_then(|ending| {
        let found = FORMATS.iter().find(|(known, _)| *known == ending);
        found.map(|(_, format)| *format)
    });
    let format = output.format.or(by_ending).ok_or_else(|| {
        Error::config(format!("the ending of '{shown}' says no format"))
            .hint("end it in .csv, .csv.gz, .csv.zst, .tsv, .jsonl, .parquet or .arrow, or give --format")
    })?;
    by_itself(
        format,
        output.compression.unwrap_or(compression),
        &shown.to_string(),
    )
}

/// Refuses to compress what does so by itself.
fn by_itself(format: Format, compression: Compression, shown: &str) -> Result<(Format, Compression)> {
    let ending = match format {
        Format::Parquet => Some(".parquet"),
        Format::Arrow => Some(".arrow"),
        _ => None,
    };
    if let Some(ending) = ending
        && compression != Compression::None
    {
        return Err(
            Error::config(format!("'{shown}': {} compresses by itself", format.name()))
                .hint(format!("end it in {ending}")),
        );
    }
    Ok((format, compression))
}

#[cfg(test)]
mod tests;
