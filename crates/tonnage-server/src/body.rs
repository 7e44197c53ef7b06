//! A request's body as rows, in bounded memory whatever its length.
//!
//! Invariants: a block has at most [`BLOCK_ROWS`] rows or about [`BLOCK_BYTES`]; what is compressed is bounded by what it
//! becomes; every record of the body is a row of a block, also one that cannot be read, so that a row's number is its
//! place in the body. JSON is read as it comes. CSV, Arrow and Parquet go through a file, since their readers go back.

use std::io::{self, BufRead, BufReader, Read, Write};

use arrow::array::{Array, AsArray};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tonnage::{
    buffer::Rows,
    reject::{Reject, RejectData},
    source::{Block, ReadRequest},
    sources::{self, Format as FileFormat, TextOptions},
    types::ColumnType,
};
use xxhash_rust::xxh3::Xxh3;

use crate::{config::Limits, refusal::Refusal};

/// Rows of a block.
pub const BLOCK_ROWS: u64 = 8_192;
/// Bytes of a block, about.
pub const BLOCK_BYTES: usize = 256 << 10;

/// Bytes that a body is read by. Small, since every request has them: 64 KiB went back to the system with each request of one
/// row, for some 3 % of the server's time.
const READ_BYTES: usize = 8 << 10;

/// What a body holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An object a line.
    JsonLines,
    /// An array of objects, or one object.
    Json,
    /// Comma-separated text with a header.
    Csv,
    /// A stream or file of Arrow IPC.
    Arrow,
    /// A Parquet file.
    Parquet,
}

/// The formats by their media types.
pub const FORMATS: &[(&str, Format)] = &[
    ("application/x-ndjson", Format::JsonLines),
    ("application/jsonl", Format::JsonLines),
    ("application/jsonlines", Format::JsonLines),
    ("application/json", Format::Json),
    ("text/csv", Format::Csv),
    ("application/vnd.apache.arrow.stream", Format::Arrow),
    ("application/vnd.apache.arrow.file", Format::Arrow),
    ("application/vnd.apache.parquet", Format::Parquet),
];

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// Not at all.
    Identity,
    /// By gzip.
    Gzip,
    /// By zstd.
    Zstd,
}

/// What the headers say of a body. 415 where that is nothing known.
pub fn described(headers: &HeaderMap) -> Result<(Format, Coding), Refusal> {
    let unsupported = |message: String| {
        Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            message,
        )
    };
    let text = |name| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let media = text(header::CONTENT_TYPE);
    let media = media
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let format = FORMATS.iter().find(|(known, _)| *known == media);
    let (_, format) = format.ok_or_else(|| {
        let known: Vec<&str> = FORMATS.iter().map(|(known, _)| *known).collect();
        let given = match media.is_empty() {
            true => "the body has no Content-Type".to_owned(),
            false => format!("a body of {media} cannot be read"),
        };
        unsupported(given).hint(format!("Content-Type is one of {}", known.join(", ")))
    })?;
    let coding = match text(header::CONTENT_ENCODING)
        .trim()
        .to_ascii_lowercase()
        .as_str()
    {
        "" | "identity" => Coding::Identity,
        "gzip" | "x-gzip" => Coding::Gzip,
        "zstd" => Coding::Zstd,
        other => {
            return Err(unsupported(format!("a body encoded by {other} cannot be read"))
                .hint("Content-Encoding is gzip, zstd or nothing"));
        }
    };
    Ok((*format, coding))
}

/// Frames of a body, for a thread that reads them.
pub struct Frames {
    frames: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

impl Frames {
    /// What comes through `frames`.
    pub fn new(frames: mpsc::Receiver<io::Result<Bytes>>) -> Self {
        Self {
            frames,
            current: Bytes::new(),
        }
    }
}

impl Read for Frames {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.frames.blocking_recv() {
                Some(frame) => self.current = frame?,
                None => return Ok(0),
            }
        }
        let count = out.len().min(self.current.len());
        out[..count].copy_from_slice(&self.current.split_to(count));
        Ok(count)
    }
}

/// Bytes as they are after decompression: counted, bounded and hashed.
struct Counted<R> {
    inner: R,
    left: u64,
    hash: Xxh3,
}

/// The cause of an error of reading that is a bound.
const BOUND: &str = "the body is larger than a body may be once it is decompressed";

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(out)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => return Err(io::Error::new(io::ErrorKind::FileTooLarge, BOUND)),
        }
        self.hash.update(&out[..count]);
        Ok(count)
    }
}

/// Takes blocks of rows.
pub trait Take {
    /// Takes one; an error ends the reading.
    fn take(&mut self, rows: Rows) -> Result<(), Refusal>;
}

impl<F: FnMut(Rows) -> Result<(), Refusal>> Take for F {
    fn take(&mut self, rows: Rows) -> Result<(), Refusal> {
        self(rows)
    }
}

fn decoded<'a>(
    body: impl Read + Send + 'a,
    coding: Coding,
    limits: &Limits,
) -> Result<BufReader<Counted<Box<dyn Read + Send + 'a>>>, Refusal> {
    let inner: Box<dyn Read + Send> = match coding {
        Coding::Identity => Box::new(body),
        Coding::Gzip => Box::new(flate2::read::MultiGzDecoder::new(body)),
        Coding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(body).map_err(|error| unreadable(&error))?;
            // What a frame may ask for in memory: 8 MiB is what level 19 has.
            decoder.window_log_max(23).map_err(|error| unreadable(&error))?;
            Box::new(decoder)
        }
    };
    let counted = Counted {
        inner,
        left: limits.decompressed.0,
        hash: Xxh3::new(),
    };
    Ok(BufReader::with_capacity(READ_BYTES, counted))
}

/// A body as a file, decompressed.
pub fn spooled(
    body: impl Read + Send,
    format: Format,
    coding: Coding,
    limits: &Limits,
) -> Result<tempfile::NamedTempFile, Refusal> {
    spool(&mut decoded(body, coding, limits)?, format)
}

/// Reads a body to its end; the hash of its bytes once they are decompressed.
pub fn read(
    body: impl Read + Send,
    format: Format,
    coding: Coding,
    limits: &Limits,
    take: &mut dyn Take,
) -> Result<u64, Refusal> {
    let mut reader = decoded(body, coding, limits)?;
    let mut blocks = Blocks {
        rows: Rows::texts(),
        bytes: 0,
        count: 0,
        total: 0,
        rows_max: limits.rows,
        row_bytes_max: limits.row.0 as usize,
        take,
    };
    match format {
        Format::JsonLines => lines(&mut reader, &mut blocks)?,
        Format::Json => json(&mut reader, &mut blocks)?,
        Format::Csv | Format::Arrow | Format::Parquet => {
            let file = spool(&mut reader, format)?;
            from_file(&file, format, limits, &mut blocks)?;
        }
    }
    blocks.flush()?;
    Ok(reader.into_inner().hash.digest())
}

/// Puts a body into a file.
fn spool(reader: &mut dyn Read, format: Format) -> Result<tempfile::NamedTempFile, Refusal> {
    let ending = match format {
        Format::JsonLines | Format::Json => ".jsonl",
        Format::Csv => ".csv",
        Format::Arrow => ".arrow",
        Format::Parquet => ".parquet",
    };
    let failed = |error: io::Error| {
        Refusal::new(
            StatusCode::INSUFFICIENT_STORAGE,
            "no_space",
            format!("the body cannot be kept for reading: {error}"),
        )
    };
    let mut file = tempfile::Builder::new()
        .prefix("tonnage-body-")
        .suffix(ending)
        .tempfile()
        .map_err(failed)?;
    let mut chunk = vec![0; 64 << 10];
    loop {
        let count = match reader.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(&error)),
        };
        file.write_all(&chunk[..count]).map_err(failed)?;
    }
    Ok(file)
}

struct Blocks<'a> {
    rows: Rows,
    bytes: usize,
    count: u64,
    total: u64,
    rows_max: u64,
    row_bytes_max: usize,
    take: &'a mut dyn Take,
}

impl Blocks<'_> {
    fn push(&mut self, object: &[u8]) -> Result<(), Refusal> {
        if object.len() > self.row_bytes_max {
            return Err(self.too_long());
        }
        self.more(1)?;
        if !self.rows.push(object) {
            return Err(self.too_long());
        }
        self.bytes += object.len();
        self.count += 1;
        match self.bytes >= BLOCK_BYTES || self.count >= BLOCK_ROWS {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn more(&mut self, rows: u64) -> Result<(), Refusal> {
        self.total += rows;
        match self.total > self.rows_max {
            true => Err(Refusal::too_large(format!(
                "a request has at most {} rows",
                self.rows_max
            ))),
            false => Ok(()),
        }
    }

    fn too_long(&self) -> Refusal {
        Refusal::too_large(format!(
            "row {} is longer than {} bytes",
            self.total + 1,
            self.row_bytes_max
        ))
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        if self.count == 0 {
            return Ok(());
        }
        let rows = std::mem::replace(&mut self.rows, Rows::texts());
        (self.bytes, self.count) = (0, 0);
        self.take.take(rows)
    }

    fn batch(&mut self, rows: Rows) -> Result<(), Refusal> {
        self.flush()?;
        self.more(rows.count())?;
        self.take.take(rows)
    }
}

fn unreadable(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::FileTooLarge => Refusal::too_large(error.to_string()),
        _ => Refusal::bad(format!("the body cannot be read: {error}")),
    }
}

fn lines(reader: &mut dyn BufRead, blocks: &mut Blocks<'_>) -> Result<(), Refusal> {
    let mut line = Vec::new();
    loop {
        line.clear();
        // One byte beyond the longest row and its end.
        let most = blocks.row_bytes_max as u64 + 3;
        let count = (&mut *reader)
            .take(most)
            .read_until(b'\n', &mut line)
            .map_err(|error| unreadable(&error))?;
        if count == 0 {
            return Ok(());
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            blocks.push(text)?;
        }
    }
}

/// The elements of an array, or objects one after another.
fn json(reader: &mut dyn BufRead, blocks: &mut Blocks<'_>) -> Result<(), Refusal> {
    // What comes first says which it is.
    let first = loop {
        let buffer = reader.fill_buf().map_err(|error| unreadable(&error))?;
        match buffer.iter().position(|byte| !byte.is_ascii_whitespace()) {
            Some(at) => {
                let byte = buffer[at];
                reader.consume(at);
                break byte;
            }
            None if buffer.is_empty() => return Ok(()),
            None => {
                let count = buffer.len();
                reader.consume(count);
            }
        }
    };
    let mut refusal = None;
    let mut from = serde_json::Deserializer::from_reader(reader);
    let read = match first {
        b'[' => {
            let elements = Elements {
                blocks,
                refusal: &mut refusal,
            };
            from.deserialize_seq(elements).and_then(|()| from.end())
        }
        _ => from.into_iter::<Box<RawValue>>().try_for_each(|value| {
            let value = value?;
            blocks.push(value.get().as_bytes()).map_err(|refused| {
                refusal = Some(refused);
                serde::de::Error::custom("refused")
            })
        }),
    };
    match (read, refusal) {
        (_, Some(refusal)) => Err(refusal),
        (Ok(()), None) => Ok(()),
        (Err(error), None) => match error.io_error_kind() {
            Some(io::ErrorKind::FileTooLarge) => Err(Refusal::too_large(BOUND)),
            _ => Err(Refusal::bad(format!("the body is not JSON: {error}"))
                .hint("an array of objects, one object, or with application/x-ndjson an object a line")),
        },
    }
}

struct Elements<'a, 'b> {
    blocks: &'a mut Blocks<'b>,
    refusal: &'a mut Option<Refusal>,
}

impl<'de> Visitor<'de> for Elements<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(value) = elements.next_element_seed(Raw)? {
            if let Err(refused) = self.blocks.push(value.get().as_bytes()) {
                *self.refusal = Some(refused);
                return Err(serde::de::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

struct Raw;

impl<'de> DeserializeSeed<'de> for Raw {
    type Value = Box<RawValue>;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        serde::Deserialize::deserialize(from)
    }
}

/// How files of a format are read.
pub fn file_format(format: Format) -> FileFormat {
    match format {
        Format::JsonLines | Format::Json => FileFormat::Json,
        Format::Csv => FileFormat::Csv,
        Format::Arrow => FileFormat::Arrow,
        Format::Parquet => FileFormat::Parquet,
    }
}

/// How text in them is read: nothing is guessed.
pub fn text_options() -> TextOptions {
    TextOptions {
        detect: false,
        ..TextOptions::default()
    }
}

fn from_file(
    file: &tempfile::NamedTempFile,
    format: Format,
    limits: &Limits,
    blocks: &mut Blocks<'_>,
) -> Result<(), Refusal> {
    if file.as_file().metadata().map_or(0, |found| found.len()) == 0 {
        return Ok(());
    }
    let path = file.path().display().to_string();
    let named = |error: tonnage::Error| {
        let mut refusal = Refusal::from(error);
        refusal.message = refusal.message.replace(&path, "the body");
        refusal
    };
    let mut source = sources::open(
        std::slice::from_ref(&path),
        Some(file_format(format)),
        &text_options(),
    )
    .map_err(named)?;
    let columns = &source.schema().columns;
    if columns.len() > limits.columns {
        return Err(Refusal::too_large(format!(
            "{} columns are more than the {} that a request may have",
            columns.len(),
            limits.columns
        )));
    }
    let is_text = source.schema().text;
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let wanted = columns.iter().enumerate().map(|(at, column)| match is_text {
        true => (at, ColumnType::TEXT),
        false => (at, column.suggested.unwrap_or(ColumnType::TEXT)),
    });
    let request = ReadRequest {
        columns: wanted.collect(),
        block_rows: BLOCK_ROWS as usize,
        block_bytes: BLOCK_BYTES,
    };
    source.request(&request).map_err(named)?;
    let keys: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let comma = if at == 0 { "{" } else { "," };
            format!("{comma}{}:", serde_json::Value::from(name.as_str()))
        })
        .collect();
    while let Some(block) = source.next().map_err(named)? {
        match is_text {
            true => objects(&block, &keys, blocks)?,
            false => batches(block, blocks)?,
        }
    }
    Ok(())
}

/// Rows of text as objects, those that could not be read among them in their places.
fn objects(block: &Block, keys: &[String], blocks: &mut Blocks<'_>) -> Result<(), Refusal> {
    let mut rejects: Vec<&Reject> = block.rejects.iter().collect();
    rejects.sort_by_key(|reject| reject.row);
    let mut rejects = rejects.into_iter().peekable();
    let mut text = Vec::new();
    for row in 0..block.rows.num_rows() {
        let number = block.origin.row(row);
        while let Some(reject) = rejects.next_if(|reject| reject.row < number) {
            blocks.push(&raw(reject))?;
        }
        text.clear();
        for (key, column) in keys.iter().zip(block.rows.columns()) {
            text.extend_from_slice(key.as_bytes());
            match column
                .as_string_opt::<i32>()
                .filter(|values| values.is_valid(row))
            {
                Some(values) => serde_json::to_writer(&mut text, values.value(row))
                    .map_err(|error| Refusal::bad(error.to_string()))?,
                None => text.extend_from_slice(b"null"),
            }
        }
        text.push(b'}');
        blocks.push(&text)?;
    }
    rejects.try_for_each(|reject| blocks.push(&raw(reject)))
}

/// The text of a record that could not be read; no object, so it is put aside as it is.
fn raw(reject: &Reject) -> Vec<u8> {
    match &reject.data {
        RejectData::Raw(bytes) => bytes.clone(),
        RejectData::Fields(fields) => {
            let values: Vec<&str> = fields
                .iter()
                .map(|(_, value)| value.as_deref().unwrap_or_default())
                .collect();
            values.join(",").into_bytes()
        }
    }
}

/// Batches small enough for a buffer.
fn batches(block: Block, blocks: &mut Blocks<'_>) -> Result<(), Refusal> {
    if let Some(reject) = block.rejects.first() {
        return Err(Refusal::bad(format!(
            "row {}: {}",
            reject.row, reject.problem.message
        )));
    }
    let batch = block.rows;
    let rows = batch.num_rows();
    let bytes = Rows::Arrow(batch.clone()).bytes().max(1);
    // As many as make a block.
    let at_once = (rows * BLOCK_BYTES / bytes).clamp(1, rows.max(1));
    let mut first = 0;
    while first < rows {
        let count = at_once.min(rows - first);
        blocks.batch(Rows::Arrow(batch.slice(first, count)))?;
        first += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(body: &[u8], format: Format, coding: Coding, limits: &Limits) -> Result<Vec<String>, Refusal> {
        let mut found = Vec::new();
        let mut take = |rows: Rows| {
            if let Rows::Json { text, ends } = rows {
                let mut start = 0;
                for end in ends {
                    found.push(String::from_utf8_lossy(&text[start..end as usize]).into_owned());
                    start = end as usize;
                }
            }
            Ok(())
        };
        read(body, format, coding, limits, &mut take)?;
        Ok(found)
    }

    #[test]
    fn each_format_has_its_rows_in_their_places() {
        let limits = Limits::default();
        for (format, body, wanted) in [
            (
                Format::JsonLines,
                "{\"a\":1}\r\n\n nonsense\n{\"a\":2}",
                vec!["{\"a\":1}", "nonsense", "{\"a\":2}"],
            ),
            (
                Format::Json,
                " [ {\"a\": 1} , 5, {\"a\":\n2}]\n",
                vec!["{\"a\": 1}", "5", "{\"a\":\n2}"],
            ),
            (Format::Json, "{\"a\":1}", vec!["{\"a\":1}"]),
            (Format::Json, "[]", vec![]),
            (Format::Json, "", vec![]),
            (Format::Csv, "", vec![]),
            (
                Format::Csv,
                "a,b\n1,\n2,\"\"\n3\n\"x\"\"y\",\"z\nz\"\n",
                vec![
                    "{\"a\":\"1\",\"b\":null}",
                    "{\"a\":\"2\",\"b\":\"\"}",
                    "3",
                    "{\"a\":\"x\\\"y\",\"b\":\"z\\nz\"}",
                ],
            ),
        ] {
            assert_eq!(
                rows(body.as_bytes(), format, Coding::Identity, &limits).unwrap(),
                wanted,
                "{body}"
            );
        }
    }

    #[test]
    fn what_is_not_json_is_refused() {
        let limits = Limits::default();
        for body in [
            "[{\"a\":1}",
            "[{\"a\":1} {\"a\":2}]",
            "[1] 2",
            "{\"a\":",
            "nonsense",
        ] {
            let refusal = rows(body.as_bytes(), Format::Json, Coding::Identity, &limits).unwrap_err();
            assert_eq!(refusal.status, StatusCode::BAD_REQUEST, "{body}");
        }
    }

    #[test]
    fn bounds_hold_for_what_is_decompressed() {
        let limits = Limits {
            decompressed: crate::config::Bytes(1 << 20),
            rows: 100,
            row: crate::config::Bytes(50),
            ..Limits::default()
        };
        let bomb = vec![b' '; 64 << 20];
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gz.write_all(&bomb).unwrap();
        let gz = gz.finish().unwrap();
        let zst = zstd::encode_all(&bomb[..], 19).unwrap();
        let many = "{}\n".repeat(101);
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(60));
        for (body, coding, format) in [
            (&gz[..], Coding::Gzip, Format::JsonLines),
            (&gz[..], Coding::Gzip, Format::Json),
            (&gz[..], Coding::Gzip, Format::Csv),
            (&zst[..], Coding::Zstd, Format::JsonLines),
            (&bomb[..], Coding::Identity, Format::JsonLines),
            (many.as_bytes(), Coding::Identity, Format::JsonLines),
            (long.as_bytes(), Coding::Identity, Format::JsonLines),
            (long.as_bytes(), Coding::Identity, Format::Json),
        ] {
            let refusal = rows(body, format, coding, &limits).unwrap_err();
            assert_eq!(
                refusal.status,
                StatusCode::PAYLOAD_TOO_LARGE,
                "{format:?} {coding:?}: {}",
                refusal.message
            );
        }
    }

    #[test]
    fn damaged_bodies_are_refused_and_nothing_more() {
        let limits = Limits::default();
        for format in [
            Format::Arrow,
            Format::Parquet,
            Format::Csv,
            Format::Json,
            Format::JsonLines,
        ] {
            for coding in [Coding::Gzip, Coding::Zstd] {
                assert!(rows(b"not compressed", format, coding, &limits).is_err());
            }
        }
        for format in [Format::Arrow, Format::Parquet] {
            for body in [&b"PAR1PAR1"[..], b"ARROW1\0\0ARROW1", &[0xff; 64], b"{}"] {
                assert!(rows(body, format, Coding::Identity, &limits).is_err());
            }
        }
    }
}
