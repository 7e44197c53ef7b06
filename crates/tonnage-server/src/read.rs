//! Rows out: by key, and whole tables.
//!
//! Invariants: an answer that ends early is cut off, so that it cannot be taken for a whole one; keys and columns are
//! looked up by the get itself, never pasted into a statement; memory is bounded by a few batches.

use std::io;

use arrow::{array::RecordBatch, datatypes::SchemaRef, ipc::writer::StreamWriter};
use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::Response,
};
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;
use tonnage::{
    Error, Result,
    fetch::{BulkGet, Fetched},
    reader::Relation,
    sinks::{Output, csv, json},
    stop::Stop,
    unload::{Batches, UnloadOptions},
};

use crate::{
    App,
    access::{Caller, Right},
    body::{self, Coding, Frames},
    refusal::Refusal,
};

/// Missing keys that an answer in JSON names; the others are counted.
const MISSING_NAMED: u64 = 100_000;
/// Keys in a URL.
const KEYS_MAX: usize = 10_000;

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// An object with `rows` and, of a get, `missing`.
    Json,
    /// An object a line.
    JsonLines,
    /// With a header.
    Csv,
    /// A stream of Arrow IPC.
    Arrow,
}

/// The media types of answers.
pub const FORMS: &[(&str, Form)] = &[
    ("application/json", Form::Json),
    ("application/x-ndjson", Form::JsonLines),
    ("text/csv", Form::Csv),
    ("application/vnd.apache.arrow.stream", Form::Arrow),
];

/// What `Accept` asks for. 406 where it is nothing that there is.
pub fn form(headers: &HeaderMap, default: Form) -> Result<Form, Refusal> {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("*/*");
    for wanted in accept.split(',') {
        let media = wanted
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        if media == "*/*" || media.is_empty() {
            return Ok(default);
        }
        if let Some((_, form)) = FORMS.iter().find(|(known, _)| *known == media) {
            return Ok(*form);
        }
    }
    let known: Vec<&str> = FORMS.iter().map(|(known, _)| *known).collect();
    Err(Refusal::new(
        StatusCode::NOT_ACCEPTABLE,
        "not_acceptable",
        format!("rows cannot be given as {accept}"),
    )
    .hint(format!("Accept is one of {}", known.join(", "))))
}

/// Batches to bytes.
enum Encoder {
    Json { rows: json::Encoder, is_first: bool },
    JsonLines(json::Encoder),
    Csv(csv::Encoder),
    Arrow(Box<StreamWriter<Vec<u8>>>),
}

impl Encoder {
    /// And what comes before the first row.
    fn new(form: Form, schema: &SchemaRef) -> Result<(Self, Vec<u8>)> {
        let mut out = Vec::new();
        let encoder = match form {
            Form::Json => {
                out.extend_from_slice(b"{\"rows\":[");
                Self::Json {
                    rows: json::Encoder::new(schema)?,
                    is_first: true,
                }
            }
            Form::JsonLines => Self::JsonLines(json::Encoder::new(schema)?),
            Form::Csv => {
                let encoder = csv::Encoder::new(schema, &csv::CsvOptions::default())?;
                encoder.header(&mut out);
                Self::Csv(encoder)
            }
            Form::Arrow => {
                let writer = StreamWriter::try_new(Vec::new(), schema).map_err(tonnage::error::arrow_bug)?;
                Self::Arrow(Box::new(writer))
            }
        };
        Ok((encoder, out))
    }

    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Json { rows, is_first } => {
                if batch.num_rows() == 0 {
                    return Ok(());
                }
                if !std::mem::take(is_first) {
                    out.push(b',');
                }
                let start = out.len();
                rows.encode(batch, out)?;
                // A line feed stands between rows only: within a row it is written as an escape.
                out.pop();
                out[start..]
                    .iter_mut()
                    .filter(|byte| **byte == b'\n')
                    .for_each(|byte| *byte = b',');
                Ok(())
            }
            Self::JsonLines(encoder) => encoder.encode(batch, out),
            Self::Csv(encoder) => encoder.encode(batch, out),
            Self::Arrow(writer) => {
                writer.write(batch).map_err(tonnage::error::arrow_bug)?;
                out.append(writer.get_mut());
                Ok(())
            }
        }
    }

    fn end(self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Json { .. } => out.push(b']'),
            Self::JsonLines(_) | Self::Csv(_) => {}
            Self::Arrow(mut writer) => {
                writer.finish().map_err(tonnage::error::arrow_bug)?;
                out.append(writer.get_mut());
            }
        }
        Ok(())
    }
}

type Sent = mpsc::Sender<io::Result<Bytes>>;

/// A response whose body `write` sends. Its first bytes are waited for, so that what fails at once has a status.
async fn streamed<F>(form: Form, write: impl FnOnce(Sent) -> F) -> Result<Response, Refusal>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let (sent, mut received) = mpsc::channel::<io::Result<Bytes>>(4);
    let failed = sent.clone();
    let writing = write(sent);
    let (told, mut error) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        if let Err(error) = writing.await {
            tracing::warn!("an answer was cut off: {error}");
            let cut = io::Error::other("the answer is cut off");
            let _ = told.send(error);
            let _ = failed.send(Err(cut)).await;
        }
    });
    let first = match received.recv().await {
        Some(Ok(first)) => Some(first),
        Some(Err(_)) => {
            return Err(match error.try_recv() {
                Ok(error) => error.into(),
                Err(_) => Error::bug("an answer failed without a reason").into(),
            });
        }
        None => None,
    };
    let body = stream::unfold((first, received), |(first, mut received)| async move {
        match first {
            Some(first) => Some((Ok(first), (None, received))),
            None => received.recv().await.map(|next| (next, (None, received))),
        }
    });
    let media = FORMS
        .iter()
        .find(|(_, known)| *known == form)
        .map_or("", |(media, _)| media);
    let mut response = Response::new(Body::from_stream(body));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    Ok(response)
}

/// Nobody takes the rows any more: no error of ours.
async fn send(sent: &Sent, out: &mut Vec<u8>) -> bool {
    if out.is_empty() {
        return true;
    }
    sent.send(Ok(std::mem::take(out).into())).await.is_ok()
}

/// What a get is asked for.
pub struct Asked<'a> {
    /// Who asks.
    pub caller: &'a Caller,
    /// The table in the URL.
    pub table: &'a str,
    /// The parameters of the URL, in order.
    pub query: &'a [(String, String)],
    /// The headers.
    pub headers: &'a HeaderMap,
}

impl Asked<'_> {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    fn columns(&self) -> Option<Vec<String>> {
        self.parameter("columns")
            .map(|columns| columns.split(',').map(|name| name.trim().to_owned()).collect())
    }
}

/// Parameters that are no key columns.
const RESERVED: &[&str] = &["database", "columns", "limit", "by"];

/// `GET .../rows?id=17&id=42`: rows by keys of the URL.
pub async fn rows(app: &App, asked: Asked<'_>) -> Result<Response, Refusal> {
    let form = form(asked.headers, Form::Json)?;
    let mut names: Vec<&str> = Vec::new();
    let mut values: Vec<Vec<&str>> = Vec::new();
    for (name, value) in asked
        .query
        .iter()
        .filter(|(name, _)| !RESERVED.contains(&name.as_str()))
    {
        match names.iter().position(|known| known == name) {
            Some(at) => values[at].push(value),
            None => {
                names.push(name);
                values.push(vec![value]);
            }
        }
    }
    let count = values.first().map_or(0, Vec::len);
    if count == 0 {
        return Err(Refusal::bad("no keys are asked for")
            .hint("?id=17&id=42 asks for two; POST .../get takes many, GET .../export gives all rows"));
    }
    if count > KEYS_MAX {
        return Err(Refusal::too_large(format!("more than {KEYS_MAX} keys in a URL"))
            .hint("POST .../get takes any number"));
    }
    if values.iter().any(|column| column.len() != count) {
        return Err(
            Refusal::bad("the columns of the key have different numbers of values")
                .hint("?a=1&b=2&a=3&b=4 asks for the keys (1, 2) and (3, 4)"),
        );
    }
    let keys: Vec<String> = (0..count)
        .map(|row| {
            let fields = values
                .iter()
                .map(|column| format!("\"{}\"", column[row].replace('"', "\"\"")));
            fields.collect::<Vec<_>>().join(",")
        })
        .collect();
    let get = describe(app, &asked).await?.by(names).keys(keys);
    answer(get, form, None).await
}

/// `POST .../get`: rows by the keys of a body.
pub async fn get(app: &App, asked: Asked<'_>, content: Body) -> Result<Response, Refusal> {
    let form = form(asked.headers, Form::Json)?;
    let (format, coding) = body::described(asked.headers)?;
    let get = describe(app, &asked).await?;
    let (frames_in, frames) = mpsc::channel(4);
    let limits = app.config.limits.clone();
    let reading =
        tokio::task::spawn_blocking(move || spool_keys(Frames::new(frames), format, coding, &limits));
    let fed = crate::write::feed(
        content,
        frames_in,
        app.config.limits.body.0,
        app.config.limits.sender(),
    )
    .await;
    let file = reading
        .await
        .map_err(|error| Refusal::from(Error::bug(format!("the reader of keys ended: {error}"))))?;
    fed?;
    let file = file?;
    let by: Vec<String> = asked
        .parameter("by")
        .map(|by| by.split(',').map(|name| name.trim().to_owned()).collect())
        .unwrap_or_default();
    let path = file.path().display().to_string();
    let get = get
        .by(by)
        .keys_from(path)
        .text(Some(body::file_format(format)), body::text_options());
    answer(get, form, Some(file)).await
}

/// Keys as a file; those of a JSON array become lines.
fn spool_keys(
    frames: Frames,
    format: body::Format,
    coding: Coding,
    limits: &crate::config::Limits,
) -> Result<tempfile::NamedTempFile, Refusal> {
    use std::io::Write;
    match format {
        body::Format::Json | body::Format::JsonLines => {
            let failed = |error: io::Error| Refusal::bad(format!("the keys cannot be kept: {error}"));
            let mut file = tempfile::Builder::new()
                .suffix(".jsonl")
                .tempfile()
                .map_err(failed)?;
            let mut take = |rows: tonnage::buffer::Rows| {
                let tonnage::buffer::Rows::Json { text, ends } = rows else {
                    return Ok(());
                };
                let mut start = 0;
                for end in ends {
                    let mut row = text[start..end as usize].to_vec();
                    // Between the tokens of an object only: within a string it is an escape.
                    row.iter_mut()
                        .filter(|byte| **byte == b'\n')
                        .for_each(|byte| *byte = b' ');
                    row.push(b'\n');
                    file.write_all(&row).map_err(failed)?;
                    start = end as usize;
                }
                Ok(())
            };
            body::read(frames, format, coding, limits, &mut take)?;
            Ok(file)
        }
        body::Format::Csv | body::Format::Arrow | body::Format::Parquet => {
            body::spooled(frames, format, coding, limits)
        }
    }
}

async fn describe(app: &App, asked: &Asked<'_>) -> Result<BulkGet, Refusal> {
    let (database, table) = app
        .tables
        .find(
            asked.caller,
            Right::Read,
            asked.parameter("database"),
            asked.table,
        )
        .await?;
    let connected = database.connected().await?;
    let get = BulkGet::new(connected.target().clone(), connected.url().to_owned(), table);
    Ok(match asked.columns() {
        Some(columns) => get.columns(columns),
        None => get,
    })
}

async fn answer(
    get: BulkGet,
    form: Form,
    keys: Option<tempfile::NamedTempFile>,
) -> Result<Response, Refusal> {
    let prepared = get.prepare().await?;
    let (mut encoder, mut out) = Encoder::new(form, &prepared.schema())?;
    let mut missing = match form {
        Form::Json => Some(json::Encoder::new(&prepared.key_schema())?),
        Form::JsonLines | Form::Csv | Form::Arrow => None,
    };
    let mut get = prepared.start()?;
    streamed(form, move |sent| async move {
        let (mut named, mut count, mut absent) = (Vec::new(), 0u64, 0u64);
        while let Some(fetched) = get.next().await? {
            match fetched {
                Fetched::Rows(rows) => encoder.encode(&rows, &mut out)?,
                Fetched::Missing(batch) => {
                    absent += batch.num_rows() as u64;
                    if let Some(missing) = missing.as_mut().filter(|_| count < MISSING_NAMED) {
                        missing.encode(&batch, &mut named)?;
                        count += batch.num_rows() as u64;
                    }
                }
                Fetched::Related { .. } => {}
            }
            if !send(&sent, &mut out).await {
                return Ok(());
            }
        }
        encoder.end(&mut out)?;
        if form == Form::Json {
            named.pop();
            named
                .iter_mut()
                .filter(|byte| **byte == b'\n')
                .for_each(|byte| *byte = b',');
            out.extend_from_slice(b",\"missing\":[");
            out.append(&mut named);
            out.extend_from_slice(format!("],\"missing_count\":{absent}}}\n").as_bytes());
        }
        send(&sent, &mut out).await;
        drop(keys);
        Ok(())
    })
    .await
}

/// `GET .../export`: all rows of one state.
pub async fn export(app: &App, asked: Asked<'_>) -> Result<Response, Refusal> {
    let form = form(asked.headers, Form::JsonLines)?;
    let limit = asked
        .parameter("limit")
        .map(|limit| {
            limit
                .parse::<u64>()
                .map_err(|_| Refusal::bad("limit is no number of rows"))
        })
        .transpose()?;
    let (database, table) = app
        .tables
        .find(
            asked.caller,
            Right::Read,
            asked.parameter("database"),
            asked.table,
        )
        .await?;
    let connected = database.connected().await?;
    let mut options = UnloadOptions::new(Relation::Table(table), Output::new(""));
    options.limit = limit;
    options.columns = asked.columns();
    let snapshot = connected.target().scan(&options.request()?).await?;
    let mut batches = Batches::of(snapshot, Stop::default());
    let (mut encoder, mut out) = Encoder::new(form, batches.schema())?;
    streamed(form, move |sent| async move {
        while let Some(batch) = batches.next().await? {
            encoder.encode(&batch, &mut out)?;
            if !send(&sent, &mut out).await {
                return Ok(());
            }
        }
        encoder.end(&mut out)?;
        if form == Form::Json {
            out.extend_from_slice(b"}\n");
        }
        send(&sent, &mut out).await;
        Ok(())
    })
    .await
}
