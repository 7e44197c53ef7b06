//! Rows of keys: many keys in, their rows and the keys that have none out, both as a stream in bounded memory.
//!
//! - [`prepare`] looks at table and keys and decides the [`GetPlan`]; [`Prepared::start`] begins; [`Get::next`] hands
//!   out what comes; [`Get::finish`] is the account.
//! - Every key is accounted for, and checked: of keys that are each asked once, `distinct = found + missing`; of
//!   ordered ones, `asked = found + missing`.
//! - Rows come request by request in the order of the requests, whatever the number of connections: in the order of
//!   their keys, or as asked where that is wanted.
//! - A key with a null in it equals nothing, so it is missing.
//! - Each request sees a state of its own.
//! - What waits is bounded: requests in the queue, batches of an answered request, and the bytes of an answer that is
//!   held until it is whole.

mod answer;
mod keys;
mod plan;
mod report;
mod sentence;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::{Stream, stream};
use tokio::{
    sync::{Mutex, mpsc},
    task::{JoinHandle, JoinSet},
};

use self::{
    answer::{Getters, Part, Request, Worker},
    keys::{Counted, KeyReader, Keys},
};
pub use self::{
    plan::{
        ATTEMPTS_MAX, BATCH_BYTES, BATCH_ROWS, GetOptions, GetPlan, HELD_BYTES, KeyColumn, REQUEST_KEYS,
        RangeText, SORT_BYTES, WAITING_BATCHES, decide,
    },
    report::{GetReport, KeyCounts},
    sentence::BulkGet,
};
use crate::{
    error::{Error, Result},
    getter::Getter,
    parse::{ParseContext, timezone},
    reader::{no_table, schema},
    report::{peak_memory_bytes, processor_seconds},
    source::Source,
    target::Target,
};

/// A get that has been decided and not begun.
pub struct Prepared {
    target: Arc<dyn Target>,
    url: String,
    source: Box<dyn Source>,
    context: ParseContext,
    plan: Arc<GetPlan>,
    getter: Box<dyn Getter>,
}

/// Decides a get and opens its first connection. Reads the catalogue and the schema of the keys. `url` is only shown,
/// so it must be [redacted](crate::targets::redact).
pub async fn prepare(
    target: Arc<dyn Target>,
    url: String,
    keys: Box<dyn Source>,
    options: &GetOptions,
) -> Result<Prepared> {
    let context = ParseContext {
        timezone: options.timezone.as_deref().map(timezone).transpose()?,
    };
    let Some(table) = target.table(&options.table).await? else {
        return Err(no_table(&options.table, &target.table_names().await?));
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut plan = decide(table, keys.schema(), options, &context, processors)?;
    let getter = target.getter(&plan.request).await?;
    plan.settings_changed = getter.settings_changed();
    plan.notes.extend(getter.notes());
    Ok(Prepared {
        target,
        url,
        source: keys,
        context,
        plan: Arc::new(plan),
        getter,
    })
}

impl Prepared {
    /// The decision.
    pub fn plan(&self) -> &GetPlan {
        &self.plan
    }

    /// The schema of the rows.
    pub fn schema(&self) -> SchemaRef {
        schema(self.getter.columns())
    }

    /// The schema of the keys, and so of those that are missing.
    pub fn key_schema(&self) -> SchemaRef {
        self.plan.key_schema()
    }

    /// Begins to read keys and to ask for their rows. Needs a tokio runtime of more than one thread or blocking
    /// threads.
    pub fn start(self) -> Result<Get> {
        let started = Instant::now();
        let plan = self.plan;
        let counted: Arc<Counted> = Arc::default();
        let keys = KeyReader::new(self.source, &plan, &self.context, counted.clone())?;
        let connections: Arc<AtomicUsize> = Arc::default();
        let getters = Getters::new(self.target, plan.clone(), self.getter, connections.clone());
        let getters = Arc::new(getters);
        let (requests_in, requests_out) = mpsc::channel::<Request>(plan.jobs);
        // Requests that are asked, answered and waiting for their turn.
        let (answers_in, answers_out) = mpsc::channel(2 * plan.jobs + 2);
        let requests_out = Arc::new(Mutex::new(requests_out));
        let mut workers = JoinSet::new();
        for _ in 0..plan.jobs {
            let mut worker = Worker::new(getters.clone(), plan.clone());
            let requests = requests_out.clone();
            workers.spawn(async move {
                loop {
                    let request = requests.lock().await.recv().await;
                    let Some(request) = request else { break };
                    if !worker.answer(request).await {
                        break;
                    }
                }
            });
        }
        let reading = plan.clone();
        let failed = answers_in.clone();
        let reader = tokio::task::spawn_blocking(move || {
            let mut send = |keys: Keys| {
                let (parts, answer) = mpsc::channel(WAITING_BATCHES);
                answers_in.blocking_send(Ok(answer)).is_ok()
                    && requests_in.blocking_send(Request { keys, parts }).is_ok()
            };
            if let Err(error) = keys.requests(&reading, &mut send) {
                // Who does not listen any more does not want to know.
                let _ = failed.blocking_send(Err(error));
            }
        });
        Ok(Get {
            plan,
            url: self.url,
            started,
            counted,
            connections,
            answers: answers_out,
            answer: None,
            reader: Some(reader),
            _workers: workers,
            counts: Counts::default(),
            ended: false,
        })
    }
}

/// What a get hands out.
#[derive(Debug)]
pub enum Fetched {
    /// Rows of keys.
    Rows(RecordBatch),
    /// Keys that have no row.
    Missing(RecordBatch),
}

#[derive(Debug, Default)]
struct Counts {
    found: u64,
    missing: u64,
    rows: u64,
    requests: u64,
    retries: u64,
}

/// A get under way. Dropping it ends it.
pub struct Get {
    plan: Arc<GetPlan>,
    url: String,
    started: Instant,
    counted: Arc<Counted>,
    /// Connections that were used.
    connections: Arc<AtomicUsize>,
    /// The answers to come, in order.
    answers: mpsc::Receiver<Result<mpsc::Receiver<Result<Part>>>>,
    /// The one whose turn it is.
    answer: Option<mpsc::Receiver<Result<Part>>>,
    reader: Option<JoinHandle<()>>,
    _workers: JoinSet<()>,
    counts: Counts,
    ended: bool,
}

impl Get {
    /// The next rows, or keys that have none; none at the end. After an error there is nothing more.
    pub async fn next(&mut self) -> Result<Option<Fetched>> {
        if self.ended {
            return Ok(None);
        }
        let next = self.part().await;
        if !matches!(next, Ok(Some(_))) {
            self.ended = true;
        }
        next
    }

    async fn part(&mut self) -> Result<Option<Fetched>> {
        loop {
            let Some(answer) = &mut self.answer else {
                match self.answers.recv().await {
                    Some(answer) => self.answer = Some(answer?),
                    None => return self.read().await.map(|()| None),
                }
                continue;
            };
            match answer.recv().await {
                Some(Ok(Part::Rows(rows))) => {
                    self.counts.rows += rows.num_rows() as u64;
                    return Ok(Some(Fetched::Rows(rows)));
                }
                Some(Ok(Part::Missing(keys))) => {
                    self.counts.missing += keys.num_rows() as u64;
                    return Ok(Some(Fetched::Missing(keys)));
                }
                Some(Ok(Part::Done {
                    found,
                    requests,
                    retries,
                })) => {
                    self.counts.found += found;
                    self.counts.requests += requests;
                    self.counts.retries += retries;
                    self.answer = None;
                }
                Some(Err(error)) => return Err(error),
                None => return Err(Error::bug("a request ended without an answer")),
            }
        }
    }

    /// The keys came to their end, not their reader.
    async fn read(&mut self) -> Result<()> {
        match self.reader.take() {
            Some(reader) => reader
                .await
                .map_err(|error| Error::bug(format!("the reader of keys ended unexpectedly: {error}"))),
            None => Ok(()),
        }
    }

    /// The rest as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<Fetched>> {
        stream::try_unfold(self, async |mut get| {
            Ok(get.next().await?.map(|fetched| (fetched, get)))
        })
    }

    /// The account so far; after [`Get::next`] gave none it is the whole one. `Bug` if that does not balance.
    pub fn finish(self) -> Result<GetReport> {
        let asked = self.counted.asked.load(Ordering::Relaxed);
        let distinct = self.counted.distinct.load(Ordering::Relaxed);
        let Counts {
            found,
            missing,
            rows,
            requests,
            retries,
        } = self.counts;
        let keys = KeyCounts {
            asked,
            distinct: (!self.plan.ordered).then_some(distinct),
            found,
            missing,
        };
        if self.ended && !keys.balance() {
            return Err(Error::bug(format!("the account does not balance: {keys}")));
        }
        let seconds = self.started.elapsed().as_secs_f64();
        Ok(GetReport {
            state: if self.ended { "finished" } else { "stopped" },
            target: self.url,
            table: self.plan.table.name.to_string(),
            key: self.plan.key.iter().map(|key| key.name.clone()).collect(),
            keys,
            rows,
            requests,
            retries,
            seconds,
            keys_per_second: asked as f64 / seconds.max(1e-9),
            rows_per_second: rows as f64 / seconds.max(1e-9),
            jobs: self.connections.load(Ordering::Relaxed),
            request_keys: self.plan.request_keys,
            ordered: self.plan.ordered,
            settings_changed: self.plan.settings_changed.clone(),
            notes: self.plan.notes.clone(),
            client_cpu_seconds: processor_seconds(),
            peak_memory_bytes: peak_memory_bytes(),
        })
    }
}
