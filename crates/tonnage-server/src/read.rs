//! Rows out: by key, and whole tables.
//!
//! Invariants: an answer that ends early is cut off, so that it cannot be taken for a whole one; keys and columns are
//! looked up by the get itself, never pasted into a statement; memory is bounded by a few batches.

use std::{io, sync::Arc, time::Duration};

use arrow::{array::RecordBatch, datatypes::SchemaRef, ipc::writer::StreamWriter};
use axum::{
    body::Body,
    extract::State,
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
    sources::Format as FileFormat,
    stop::Stop,
    unload::{Batches, UnloadOptions},
};

use crate::{
    App,
    access::Right,
    asked::Asked,
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
                list(out, start);
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

    /// What comes after the last row; `besides` is what an object has besides its rows.
    fn end(self, besides: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Json { .. } => {
                out.push(b']');
                out.extend_from_slice(besides);
                out.extend_from_slice(b"}\n");
            }
            Self::JsonLines(_) | Self::Csv(_) => {}
            Self::Arrow(mut writer) => {
                writer.finish().map_err(tonnage::error::arrow_bug)?;
                out.append(writer.get_mut());
            }
        }
        Ok(())
    }
}

/// Objects a line, from `start` on, as the elements of an array. A line feed stands between them only: within one it is
/// written as an escape.
fn list(lines: &mut Vec<u8>, start: usize) {
    if lines.len() > start {
        lines.pop();
    }
    let ends = lines[start..].iter_mut().filter(|byte| **byte == b'\n');
    ends.for_each(|byte| *byte = b',');
}

/// Rows on their way to a client.
struct Answer {
    encoder: Encoder,
    out: Vec<u8>,
    sent: mpsc::Sender<io::Result<Bytes>>,
    /// How long its client may take nothing: rows that wait hold a connection to the database.
    patience: Duration,
}

impl Answer {
    /// Writes rows. False where nobody takes them any more, which is no error of ours.
    async fn rows(&mut self, batch: &RecordBatch) -> Result<bool> {
        self.encoder.encode(batch, &mut self.out)?;
        if self.out.is_empty() {
            return Ok(true);
        }
        let out = std::mem::take(&mut self.out);
        match tokio::time::timeout(self.patience, self.sent.send(Ok(out.into()))).await {
            Ok(sent) => Ok(sent.is_ok()),
            Err(_) => Err(Error::input("its client takes nothing")),
        }
    }

    /// Ends it, with what an object has besides its rows.
    async fn end(self, besides: &[u8]) -> Result<()> {
        let Self {
            encoder,
            mut out,
            sent,
            patience,
        } = self;
        encoder.end(besides, &mut out)?;
        match tokio::time::timeout(patience, sent.send(Ok(out.into()))).await {
            Ok(_) => Ok(()),
            Err(_) => Err(Error::input("its client takes nothing")),
        }
    }
}

/// A response whose rows `write` gives. Its first bytes are waited for, so that what fails at once has a status.
async fn streamed<F>(
    form: Form,
    schema: &SchemaRef,
    patience: Duration,
    write: impl FnOnce(Answer) -> F,
) -> Result<Response, Refusal>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let (encoder, out) = Encoder::new(form, schema)?;
    let (sent, mut received) = mpsc::channel::<io::Result<Bytes>>(4);
    let failed = sent.clone();
    let writing = write(Answer {
        encoder,
        out,
        sent,
        patience,
    });
    let (told, mut error) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        if let Err(error) = writing.await {
            tracing::warn!("an answer was cut off: {error}");
            let cut = io::Error::other("the answer is cut off");
            let _ = told.send(error);
            // Where nothing is taken this waits as well, until the client has gone or reads what is cut off.
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

/// Parameters that are no key columns.
const RESERVED: &[&str] = &["database", "columns", "limit", "by"];

/// `GET .../rows?id=17&id=42`: rows by keys of the URL.
pub async fn rows(State(app): State<Arc<App>>, asked: Asked) -> Result<Response, Refusal> {
    let form = form(&asked.headers, Form::Json)?;
    let mut names: Vec<&str> = Vec::new();
    let mut values: Vec<Vec<&str>> = Vec::new();
    let parameters = asked.parameters.iter();
    for (name, value) in parameters.filter(|(name, _)| !RESERVED.contains(name)) {
        match names.iter().position(|known| *known == name) {
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
    let get = describe(&app, &asked).await?.by(names).keys(keys);
    answer(get, form, None, app.config.limits.reader()).await
}

/// `POST .../get`: rows by the keys of a body.
pub async fn get(State(app): State<Arc<App>>, asked: Asked, content: Body) -> Result<Response, Refusal> {
    asked.parameters.only(&["database", "columns", "by"])?;
    let form = form(&asked.headers, Form::Json)?;
    let get = describe(&app, &asked).await?;
    let (file, format) = spooled(&app, &asked, content).await?;
    let by = asked.parameters.names("by").unwrap_or_default();
    let path = file.path().display().to_string();
    let get = get
        .by(by)
        .keys_from(path)
        .text(Some(format), body::text_options());
    answer(get, form, Some(file), app.config.limits.reader()).await
}

/// A body as a file of rows, and what it is.
pub async fn spooled(
    app: &App,
    asked: &Asked,
    content: Body,
) -> Result<(tempfile::NamedTempFile, FileFormat), Refusal> {
    let (format, coding) = body::described(&asked.headers)?;
    let (frames_in, frames) = mpsc::channel(4);
    let limits = app.config.limits.clone();
    let (bytes_max, patience) = (limits.body.0, limits.sender());
    let reading =
        tokio::task::spawn_blocking(move || spool_rows(Frames::new(frames), format, coding, &limits));
    let fed = crate::write::feed(content, frames_in, bytes_max, patience).await;
    let file = reading
        .await
        .map_err(|error| Refusal::from(Error::bug(format!("the reader of a body ended: {error}"))))?;
    fed?;
    Ok((file?, body::file_format(format)))
}

/// Rows as a file; those of a JSON array become lines.
fn spool_rows(
    frames: Frames,
    format: body::Format,
    coding: Coding,
    limits: &crate::config::Limits,
) -> Result<tempfile::NamedTempFile, Refusal> {
    use std::io::Write;
    match format {
        body::Format::Json | body::Format::JsonLines => {
            let failed = |error: io::Error| Refusal::bad(format!("the rows cannot be kept: {error}"));
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

async fn describe(app: &App, asked: &Asked) -> Result<BulkGet, Refusal> {
    let (database, table) = asked.find(app, Right::Read).await?;
    let connected = database.connected().await?;
    let get = BulkGet::new(connected.target().clone(), connected.url().to_owned(), table);
    Ok(match asked.parameters.names("columns") {
        Some(columns) => get.columns(columns),
        None => get,
    })
}

async fn answer(
    get: BulkGet,
    form: Form,
    keys: Option<tempfile::NamedTempFile>,
    patience: Duration,
) -> Result<Response, Refusal> {
    let prepared = get.prepare().await?;
    let mut missing = match form {
        Form::Json => Some(json::Encoder::new(&prepared.key_schema())?),
        Form::JsonLines | Form::Csv | Form::Arrow => None,
    };
    let schema = prepared.schema();
    let mut get = prepared.start()?;
    streamed(form, &schema, patience, move |mut answer| async move {
        let (mut named, mut count, mut absent) = (Vec::new(), 0u64, 0u64);
        while let Some(fetched) = get.next().await? {
            match fetched {
                Fetched::Rows(rows) => {
                    if !answer.rows(&rows).await? {
                        return Ok(());
                    }
                }
                Fetched::Missing(batch) => {
                    absent += batch.num_rows() as u64;
                    if let Some(missing) = missing.as_mut().filter(|_| count < MISSING_NAMED) {
                        missing.encode(&batch, &mut named)?;
                        count += batch.num_rows() as u64;
                    }
                }
                Fetched::Related { .. } => {}
            }
        }
        list(&mut named, 0);
        let mut besides = b",\"missing\":[".to_vec();
        besides.append(&mut named);
        besides.extend_from_slice(format!("],\"missing_count\":{absent}").as_bytes());
        // The keys are read until here.
        drop(keys);
        answer.end(&besides).await
    })
    .await
}

/// `GET .../export`: all rows of one state.
pub async fn export(State(app): State<Arc<App>>, asked: Asked) -> Result<Response, Refusal> {
    asked.parameters.only(&["database", "columns", "limit"])?;
    let form = form(&asked.headers, Form::JsonLines)?;
    let limit = asked.parameters.get("limit").map(str::parse::<u64>);
    let limit = limit
        .transpose()
        .map_err(|_| Refusal::bad("limit is no number of rows"))?;
    let (database, table) = asked.find(&app, Right::Read).await?;
    let connected = database.connected().await?;
    let mut options = UnloadOptions::new(Relation::Table(table), Output::new(""));
    options.limit = limit;
    options.columns = asked.parameters.names("columns");
    let snapshot = connected.target().scan(&options.request()?).await?;
    let mut batches = Batches::of(snapshot, Stop::default());
    let schema = batches.schema().clone();
    streamed(
        form,
        &schema,
        app.config.limits.reader(),
        move |mut answer| async move {
            while let Some(batch) = batches.next().await? {
                if !answer.rows(&batch).await? {
                    return Ok(());
                }
            }
            answer.end(b"").await
        },
    )
    .await
}
