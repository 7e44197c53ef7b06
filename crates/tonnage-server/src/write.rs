//! Rows in: `POST /v1/tables/{table}/rows`.
//!
//! Invariants:
//! - Every record of a body is put in its place, good or bad: a bad one goes to the table's rejects when its turn comes,
//!   and is named in the answer. So a producer's numbers count records, and what is sent again means the same.
//! - The answer names a mark that the rows have reached; a mark that they have not reached in time is an error.
//! - One request of a producer comes after the other.

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::{OwnedMutexGuard, mpsc};
use tonnage::{
    Error, ErrorKind,
    buffer::{Ack, Check, Rows, WhenFull},
    reject::Reject,
};

use crate::{
    App,
    access::{Caller, Right},
    asked::{Asked, Named},
    body::{self, Coding, Format, Frames},
    config::{Limits, MODES},
    refusal::Refusal,
    tables::{Bad, Place, Sent},
};

/// A body of at most so many bytes is read at once.
pub const SMALL_BYTES: u64 = 64 << 10;
/// Requests of a producer that are remembered.
const REQUESTS_KEPT: usize = 16;
/// Marks of a producer that are remembered.
const MARKS_KEPT: usize = 1_024;

/// The acknowledgements by their names.
pub const ACKS: &[(&str, Ack)] = &[
    ("accepted", Ack::Accepted),
    ("journaled", Ack::Journaled),
    ("committed", Ack::Committed),
];

/// Where the rows of a request stand.
struct Span {
    /// The row's number in the body.
    row: u64,
    /// The sequence number of that row.
    sequence: u64,
    rows: u64,
}

/// Puts the rows of one request.
pub struct Putting {
    place: Arc<Place>,
    caller: Caller,
    limits: Limits,
    producer: Option<Producer>,
    /// Rows of the body so far.
    rows: u64,
    taken: u64,
    known: u64,
    spans: Vec<Span>,
    rejected: u64,
    rejects: Vec<(u64, Bad)>,
}

struct Producer {
    name: String,
    first: u64,
    sent: OwnedMutexGuard<Sent>,
    /// The last number and the hash of the request that began with the same number.
    before: Option<(u64, u64)>,
}

/// Handles the request.
pub async fn rows(State(app): State<Arc<App>>, asked: Asked, content: Body) -> Result<Response, Refusal> {
    if app.is_stopping.load(Ordering::Relaxed) {
        return Err(Refusal::stopping());
    }
    let parameters = &asked.parameters;
    parameters.only(&["ack", "mode", "database"])?;
    let limits = &app.config.limits;
    let ack = named(
        ACKS,
        parameters.get("ack").unwrap_or("journaled"),
        "acknowledgement",
    )?
    .1;
    let mode = named(MODES, parameters.get("mode").unwrap_or("insert"), "mode")?.0;
    let (database, table) = asked.find(&app, Right::Write).await?;
    let (format, coding) = body::described(&asked.headers)?;
    let length = asked
        .headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limits.body.0) {
        return Err(Refusal::too_large(format!(
            "a body has at most {} bytes",
            limits.body.0
        )));
    }
    let place = app.tables.place(&database, &table, mode).await?;
    let producer = numbered(&place, &asked.headers, limits.wait()).await?;
    let mut putting = Putting {
        place,
        caller: asked.caller,
        limits: limits.clone(),
        producer,
        rows: 0,
        taken: 0,
        known: 0,
        spans: Vec::new(),
        rejected: 0,
        rejects: Vec::new(),
    };
    let is_small = length.is_some_and(|length| length <= SMALL_BYTES)
        && coding == Coding::Identity
        && matches!(format, Format::JsonLines | Format::Json);
    let checked = ack != Ack::Committed;
    let read = match is_small {
        true => putting.small(content, format, checked).await,
        false => putting.large(content, format, coding, checked).await,
    };
    let ended = match read {
        Ok(hash) => putting.finish(hash, ack).await,
        Err(refusal) => Err(refusal),
    };
    app.metrics
        .rows(&putting.place, putting.taken, putting.known, putting.rejected);
    match ended {
        Ok(()) => Ok(putting.answer(ack)),
        Err(refusal) => {
            if putting.place.buffer.closed() {
                app.tables.ended(&putting.place).await;
            }
            // What was taken stays.
            Err(match putting.taken + putting.known {
                0 => refusal,
                _ => refusal.with("taken", putting.taken).with("known", putting.known),
            })
        }
    }
}

/// The producer's name and number, with the right to put its rows.
async fn numbered(place: &Place, headers: &HeaderMap, wait: Duration) -> Result<Option<Producer>, Refusal> {
    let text = |name: &str| {
        let value = headers.get(name)?;
        Some(
            value
                .to_str()
                .map_err(|_| Refusal::bad(format!("{name} is no text"))),
        )
    };
    let (name, number) = match (
        text("tonnage-producer").transpose()?,
        text("tonnage-sequence").transpose()?,
    ) {
        (None, None) => return Ok(None),
        (Some(name), Some(number)) => (name, number),
        _ => {
            return Err(Refusal::bad("Tonnage-Producer and Tonnage-Sequence go together")
                .hint("the sequence is the producer's own number of the first row of the body: 1, then 1 + rows, and so on"));
        }
    };
    let first: u64 = number
        .trim()
        .parse()
        .ok()
        .filter(|first| *first > 0)
        .ok_or_else(|| Refusal::bad("Tonnage-Sequence is no whole number from 1 on"))?;
    if name.is_empty() || name.len() > tonnage::buffer::PRODUCER_NAME_BYTES_MAX {
        return Err(Refusal::bad(format!(
            "a producer's name has 1 to {} bytes",
            tonnage::buffer::PRODUCER_NAME_BYTES_MAX
        )));
    }
    let sent = tokio::time::timeout(wait, place.sent(name).lock_owned())
        .await
        .map_err(|_| {
            Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "producer_busy",
                "another request of this producer is under way",
            )
            .retry_after(1)
        })?;
    // A producer that nobody knows begins at 1: what it had accepted may have been lost with the server.
    let due = place.buffer.producer(name).map_or(1, |known| known.highest + 1);
    if first > due {
        return Err(gap(name, first, due));
    }
    let before = sent.requests.iter().find(|(begun, ..)| *begun == first);
    let before = before.map(|(_, last, hash)| (*last, *hash));
    let within = sent
        .requests
        .iter()
        .any(|(begun, last, _)| (*begun + 1..=*last).contains(&first));
    if before.is_none() && within {
        return Err(conflict("another request has this number within"));
    }
    Ok(Some(Producer {
        name: name.to_owned(),
        first,
        sent,
        before,
    }))
}

fn gap(name: &str, first: u64, due: u64) -> Refusal {
    Refusal::new(
        StatusCode::CONFLICT,
        "gap",
        format!("producer {name} sends row {first} where row {due} is due"),
    )
    .hint("send what lies between first, or once more what was not acknowledged as journaled")
    .with("due", due)
}

fn conflict(message: &str) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, "conflict", message)
        .hint("a number that is sent again has the same body; GET /v1/producers/NAME says which is due")
}

/// The entry called `name`.
fn named<T: Copy>(
    all: &'static [(&'static str, T)],
    name: &str,
    what: &str,
) -> Result<(&'static str, T), Refusal> {
    all.iter()
        .find(|(known, _)| *known == name)
        .copied()
        .ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|(known, _)| *known).collect();
            Refusal::bad(format!("there is no {what} '{name}'"))
                .hint(format!("{} are there", known.join(", ")))
        })
}

impl Putting {
    async fn small(&mut self, content: Body, format: Format, checked: bool) -> Result<u64, Refusal> {
        let whole = collected(content, self.limits.sender()).await?;
        let mut blocks = Vec::new();
        let mut keep = |rows: Rows| {
            blocks.push(rows);
            Ok(())
        };
        let hash = body::read(&whole[..], format, Coding::Identity, &self.limits, &mut keep)?;
        let mut check = match checked {
            true => self.place.check()?,
            false => None,
        };
        for rows in blocks {
            let bad = match &mut check {
                Some(check) => check.rejects(&rows, self.rows + 1)?,
                None => Vec::new(),
            };
            self.put(rows, &bad).await?;
        }
        check.into_iter().for_each(|check| self.place.keep_check(check));
        Ok(hash)
    }

    async fn large(
        &mut self,
        content: Body,
        format: Format,
        coding: Coding,
        checked: bool,
    ) -> Result<u64, Refusal> {
        let permit = self.place.requests.clone().try_acquire_owned().map_err(|_| {
            Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "busy",
                "as many large requests as may be are under way into this table",
            )
            .retry_after(1)
        })?;
        let check = match checked {
            true => self.place.check()?,
            false => None,
        };
        let (frames_in, frames) = mpsc::channel(4);
        let (blocks_in, mut blocks) = mpsc::channel::<(Rows, Vec<Reject>)>(2);
        let limits = self.limits.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let mut reading = Reading {
                check,
                row: 1,
                blocks: blocks_in,
            };
            let read = body::read(Frames::new(frames), format, coding, &limits, &mut reading);
            (read, reading.check)
        });
        let feeding = feed(content, frames_in, self.limits.body.0, self.limits.sender());
        let mut fed = None;
        let put = {
            let putting = async {
                while let Some((rows, bad)) = blocks.recv().await {
                    self.put(rows, &bad).await?;
                }
                Ok::<_, Refusal>(())
            };
            tokio::pin!(feeding, putting);
            loop {
                tokio::select! {
                    put = &mut putting => break put,
                    end = &mut feeding, if fed.is_none() => fed = Some(end),
                }
            }
        };
        put?;
        // What ended the sending comes before what the reader made of it.
        if let Some(Err(refusal)) = fed {
            return Err(refusal);
        }
        let (read, check) = reading
            .await
            .map_err(|error| Refusal::from(Error::bug(format!("the reader of a body ended: {error}"))))?;
        check.into_iter().for_each(|check| self.place.keep_check(check));
        drop(permit);
        read
    }

    /// Puts a block.
    pub async fn put(&mut self, rows: Rows, bad: &[Reject]) -> Result<(), Refusal> {
        let count = rows.count();
        // A request that has begun is not refused: what is above the rate is owed.
        match self.rows {
            0 => self.caller.rows(count)?,
            _ => self.caller.has_sent(count),
        }
        let numbered = match &self.producer {
            Some(producer) => {
                let first = producer.first + self.rows;
                if let Some((last, _)) = producer.before
                    && first + count - 1 > last
                {
                    return Err(conflict(
                        "this number came with another body, which had fewer rows",
                    ));
                }
                Some((producer.name.as_str(), first))
            }
            None => None,
        };
        // A request that has begun waits for room; one that has not is told at once.
        let when_full = match self.taken {
            0 => WhenFull::Fail,
            _ => WhenFull::Wait,
        };
        let putting = self.place.buffer.put_rows(rows, numbered, when_full);
        let put = match tokio::time::timeout(self.limits.wait(), putting).await {
            Ok(Ok(put)) => put,
            Ok(Err(error)) if error.kind() == ErrorKind::Overloaded => return Err(full(&self.place)),
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => return Err(full(&self.place)),
        };
        if put.taken > 0 {
            self.spans.push(Span {
                row: self.rows + put.known + 1,
                sequence: put.last + 1 - put.taken,
                rows: put.taken,
            });
        }
        self.rows += count;
        self.taken += put.taken;
        self.known += put.known;
        for reject in bad {
            self.note(reject.row, Bad::of(reject));
        }
        if let Some(producer) = &mut self.producer {
            let highest = producer.first + self.rows - 1;
            if put.taken > 0 {
                if producer.sent.marks.len() >= MARKS_KEPT {
                    producer.sent.marks.pop_front();
                }
                producer.sent.marks.push_back((highest, put.last));
            }
        }
        Ok(())
    }

    fn note(&mut self, row: u64, bad: Bad) {
        self.rejected += 1;
        if self.rejects.len() < self.limits.rejects_named {
            self.rejects.push((row, bad));
        }
    }

    /// The sequence number of the last row that has to be as safe as was asked for.
    fn last(&self) -> Option<u64> {
        let taken = self.spans.last().map(|span| span.sequence + span.rows - 1);
        // What was taken before is waited for as well.
        taken.or_else(|| {
            let producer = self.producer.as_ref().filter(|_| self.known > 0)?;
            Some(self.place.buffer.producer(&producer.name)?.sequence)
        })
    }

    /// Waits for the mark.
    pub async fn finish(&mut self, hash: u64, ack: Ack) -> Result<(), Refusal> {
        let rows = self.rows;
        if let Some(producer) = &mut self.producer
            && rows > 0
        {
            let last = producer.first + rows - 1;
            match producer.before {
                Some(before) if before != (last, hash) => {
                    return Err(conflict("this number came with another body before"));
                }
                Some(_) => {}
                None => {
                    if producer.sent.requests.len() >= REQUESTS_KEPT {
                        producer.sent.requests.pop_front();
                    }
                    producer.sent.requests.push_back((producer.first, last, hash));
                }
            }
        }
        let Some(last) = self.last() else {
            return Ok(());
        };
        let buffer = &self.place.buffer;
        let reached = async {
            match ack {
                Ack::Accepted => Ok(()),
                Ack::Journaled => buffer.wait_journaled(last).await,
                Ack::Committed => buffer.wait(last).await,
            }
        };
        match tokio::time::timeout(self.limits.wait(), reached).await {
            Ok(reached) => reached?,
            Err(_) => {
                let reached = match buffer.journaled() >= last {
                    true => "journaled",
                    false => "accepted",
                };
                return Err(Refusal::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    "not_reached",
                    format!("the rows are {reached} and come to the table later"),
                )
                .hint(
                    "send the same once more: with Tonnage-Producer and Tonnage-Sequence it doubles nothing",
                )
                .with("reached", reached));
            }
        }
        if ack == Ack::Committed {
            let mut found = Vec::new();
            {
                let rejects = self
                    .place
                    .rejects
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                for span in &self.spans {
                    let bad = rejects.within(span.sequence, span.sequence + span.rows - 1);
                    found.extend(
                        bad.map(|(sequence, bad)| (span.row + sequence - span.sequence, bad.clone())),
                    );
                }
            }
            found.into_iter().for_each(|(row, bad)| self.note(row, bad));
        }
        Ok(())
    }

    /// What the caller is told.
    fn answer(&self, ack: Ack) -> Response {
        let first = self.spans.first().map(|span| span.sequence);
        let last = self.spans.last().map(|span| span.sequence + span.rows - 1);
        let name = ACKS
            .iter()
            .find(|(_, known)| *known == ack)
            .map_or("", |(name, _)| name);
        let mut body = json!({
            "table": self.place.table.to_string(),
            "rows": self.rows,
            "first": first,
            "last": last,
            "known": self.known,
            "ack": name,
            "rejected": self.rejected,
        });
        if self.rejected > 0 {
            let rejects = self.rejects.iter().map(|(row, bad)| {
                json!({ "row": row, "column": bad.column, "code": bad.code, "message": bad.message })
            });
            body["rejects"] = Value::Array(rejects.collect());
        }
        if let Some(producer) = &self.producer {
            body["producer"] = producer.name.clone().into();
            body["next"] = (producer.first + self.rows).into();
        }
        let status = match self.rejected {
            0 => StatusCode::OK,
            _ => StatusCode::MULTI_STATUS,
        };
        (status, Json(body)).into_response()
    }
}

/// No room.
fn full(place: &Place) -> Refusal {
    if place.is_away() {
        return Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "database_away",
            "the database is away and the buffer is full",
        )
        .retry_after(10);
    }
    let metrics = place.buffer.metrics();
    let seconds = match metrics.rows_out_per_second >= 1.0 {
        true => (metrics.depth_rows as f64 / metrics.rows_out_per_second / 4.0).clamp(1.0, 30.0) as u64,
        false => 2,
    };
    Refusal::new(
        StatusCode::TOO_MANY_REQUESTS,
        "full",
        "the buffer is full: the database takes rows more slowly than they come",
    )
    .retry_after(seconds)
}

fn slow() -> Refusal {
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "slow", "the body came too slowly")
}

/// A small body.
pub async fn collected(content: Body, patience: Duration) -> Result<Bytes, Refusal> {
    let whole = tokio::time::timeout(patience, content.collect());
    let whole = whole.await.map_err(|_| slow())?;
    let whole = whole.map_err(|error| Refusal::bad(format!("the body ended early: {error}")))?;
    Ok(whole.to_bytes())
}

/// A body has so many bytes at least in the time for which a sender may be silent; one byte now and then holds nothing.
const PACE_BYTES: u64 = 8 << 10;

/// Passes a body on to its reader.
pub async fn feed(
    mut content: Body,
    frames: mpsc::Sender<io::Result<Bytes>>,
    bytes_max: u64,
    patience: Duration,
) -> Result<(), Refusal> {
    let mut left = bytes_max;
    // Since the pace was last looked at; what the reader takes is not the sender's time.
    let (mut waited, mut came) = (Duration::ZERO, 0);
    let refusal = loop {
        let asked = Instant::now();
        let frame = tokio::time::timeout(patience, content.frame()).await;
        waited += asked.elapsed();
        let frame = match frame {
            Err(_) => break slow(),
            Ok(None) => return Ok(()),
            Ok(Some(Err(error))) => break Refusal::bad(format!("the body ended early: {error}")),
            Ok(Some(Ok(frame))) => frame,
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        match left.checked_sub(data.len() as u64) {
            Some(less) => left = less,
            None => break Refusal::too_large(format!("a body has at most {bytes_max} bytes")),
        }
        came += data.len() as u64;
        if waited >= patience {
            if came < PACE_BYTES {
                break slow();
            }
            (waited, came) = (Duration::ZERO, 0);
        }
        // Nobody reads on: what the reader says counts.
        if frames.send(Ok(data)).await.is_err() {
            return Ok(());
        }
    };
    let ended = io::Error::new(io::ErrorKind::UnexpectedEof, refusal.message.clone());
    let _ = frames.send(Err(ended)).await;
    Err(refusal)
}

/// Blocks on their way from a reader's thread.
struct Reading {
    check: Option<Check>,
    row: u64,
    blocks: mpsc::Sender<(Rows, Vec<Reject>)>,
}

impl body::Take for Reading {
    fn take(&mut self, rows: Rows) -> Result<(), Refusal> {
        let bad = match &mut self.check {
            Some(check) => check.rejects(&rows, self.row)?,
            None => Vec::new(),
        };
        self.row += rows.count();
        self.blocks
            .blocking_send((rows, bad))
            .map_err(|_| Refusal::bad("the request was given up"))
    }
}

/// `GET /v1/producers/{producer}`: up to where its rows are safe, in every table that the caller may write.
pub async fn producer(
    State(app): State<Arc<App>>,
    caller: Caller,
    Named(name): Named,
) -> Result<Response, Refusal> {
    let mut found = Vec::new();
    for place in app.tables.places() {
        let known = app
            .tables
            .find(
                &caller,
                Right::Write,
                Some(&place.database.name),
                &place.table.to_string(),
            )
            .await;
        let (Ok(_), Some(producer)) = (known, place.buffer.producer(&name)) else {
            continue;
        };
        let (journaled, committed) = (place.buffer.journaled(), place.buffer.committed());
        let sent = place.sent(&name);
        let marks: Vec<(u64, u64)> = match sent.try_lock() {
            Ok(sent) => sent.marks.iter().copied().collect(),
            // A request is under way; what was there before it is known from the buffer.
            Err(_) => Vec::new(),
        };
        let reached = |mark: u64| match producer.sequence <= mark {
            true => Some(producer.highest),
            false => marks
                .iter()
                .rev()
                .find(|(_, sequence)| *sequence <= mark)
                .map(|(number, _)| *number),
        };
        found.push(json!({
            "database": place.database.name,
            "table": place.table.to_string(),
            "mode": place.mode,
            "first": producer.first,
            "accepted": producer.highest,
            "journaled": reached(journaled),
            "committed": reached(committed),
            "next": producer.highest + 1,
        }));
    }
    if found.is_empty() {
        return Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "no_producer",
            "no producer of this name has put rows here",
        ));
    }
    Ok(Json(json!({ "producer": name, "tables": found })).into_response())
}
