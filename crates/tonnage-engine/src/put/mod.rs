//! Bulk put: many streams of entries into one table, several read at once.
//!
//! - Entries go the way of every load: the same plan, slots, lanes and ledger. An entry is written once or handed to a
//!   callback, over lost connections as well.
//! - Entries of one key within a stream keep their order: of an upsert the last one wins, of an insert the first one is
//!   written, but for a database whose inserts replace what is there: then the last one wins. Between streams there is no
//!   order.
//! - A stream is [completed](BulkPut::on_completed) when each of its entries is durable or was handed to a callback, and
//!   every callback for its entries has returned.
//! - Callbacks are called from several threads, also at the same time; while one runs, a connection waits for it.

mod streams;
mod tally;

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use serde::Serialize;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    operation::Mode,
    reject::{Reject, RejectData},
    report::Report,
    source::Source,
    stop::Stop,
    sync::Lock,
    table::TableName,
};
use tonnage_formats::{
    row::Row,
    sources::{batches::BatchSource, rows::RowSource},
};

use self::{
    streams::Streams,
    tally::{OnCompleted, Tally},
};
use crate::{
    connected::Connected,
    load::{Ended, Progress, Watch, prepare},
    plan::{LoadOptions, OnError, RejectsMax},
};

/// Streams that are read at once unless asked for.
pub const STREAM_PARALLELISM: usize = 4;

/// An entry that was not written.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its stream, from 0.
    pub stream: usize,
    /// Its place in the stream, from 1.
    pub row: u64,
    /// Its values by column, as text; or its text, where it could not be read.
    pub data: RejectData,
}

/// Why an entry was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The column, where one is to blame.
    pub column: Option<String>,
    /// The database's code, or the SQLSTATE of what was found before it.
    pub code: String,
    /// What is wrong, in a line.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What a put does after an entry has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// It goes on.
    Continue,
    /// It ends: what is being written is finished, the rest is left.
    Abort,
}

type OnKeyExists = Box<dyn Fn(Entry) + Send + Sync>;
type OnFailed = Box<dyn Fn(Failure, Entry) -> AfterFailure + Send + Sync>;

/// A put being described: `db.bulk_put("orders").rows(["id", "total"], streams).run().await?`.
pub struct BulkPut {
    database: Connected,
    streams: Vec<Box<dyn Source>>,
    parallelism: usize,
    completed: Option<OnCompleted>,
    key_exists: Option<OnKeyExists>,
    failed: Option<OnFailed>,
    options: LoadOptions,
}

/// What a put did.
#[derive(Debug, Clone, Serialize)]
pub struct PutReport {
    /// Streams that were given.
    pub streams: usize,
    /// Streams that were completed.
    pub completed: usize,
    /// Entries written.
    pub written: u64,
    /// Entries of an insert whose key was there.
    pub key_exists: u64,
    /// Entries that failed.
    pub failed: u64,
    /// The account of the load that it was; entries that were not written are its rejects.
    pub load: Report,
}

/// What the callbacks of a run share.
struct Calls {
    key_exists: Option<OnKeyExists>,
    failed: Option<OnFailed>,
    stop: Stop,
    keys_found: AtomicU64,
    failures: AtomicU64,
    /// The failure that ended the put.
    aborted_by: Mutex<Option<Error>>,
}

impl BulkPut {
    /// Of entries for `table` by its plain name.
    pub fn new(database: Connected, table: impl Into<String>) -> Self {
        Self {
            database,
            streams: Vec::new(),
            parallelism: STREAM_PARALLELISM,
            completed: None,
            key_exists: None,
            failed: None,
            options: LoadOptions::new(TableName::bare(table)),
        }
    }

    /// The table's schema.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.options.table.schema = Some(schema.into());
        self
    }

    /// Streams of Arrow batches, all of `schema`.
    #[must_use]
    pub fn batches<I>(mut self, schema: &SchemaRef, streams: impl IntoIterator<Item = I>) -> Self
    where
        I: IntoIterator<Item = RecordBatch>,
        I::IntoIter: Send + 'static,
    {
        for batches in streams {
            let name = streams::name(self.streams.len());
            let source = BatchSource::new(&name, schema.clone(), batches.into_iter());
            self.streams.push(Box::new(source));
        }
        self
    }

    /// Streams of rows, of which each is an object with some of these columns. One that a row lacks is null.
    #[must_use]
    pub fn rows<S, I>(
        mut self,
        columns: impl IntoIterator<Item = S>,
        streams: impl IntoIterator<Item = I>,
    ) -> Self
    where
        S: Into<String>,
        I: IntoIterator<Item = Row>,
        I::IntoIter: Send + 'static,
    {
        let columns: Vec<String> = columns.into_iter().map(Into::into).collect();
        for rows in streams {
            let name = streams::name(self.streams.len());
            self.streams
                .push(Box::new(RowSource::new(&name, columns.iter(), rows)));
        }
        self
    }

    /// A stream of any source.
    #[must_use]
    pub fn stream(mut self, source: impl Source + 'static) -> Self {
        self.streams.push(Box::new(source));
        self
    }

    /// How many streams are read at once; at least 1.
    #[must_use]
    pub fn stream_parallelism(mut self, streams: usize) -> Self {
        self.parallelism = streams;
        self
    }

    /// Entries replace what has their key; an empty key takes the primary key. Else entries are new, and one whose key is
    /// there is not written: [`BulkPut::on_key_exists`].
    #[must_use]
    pub fn upsert<S: Into<String>>(mut self, key: impl IntoIterator<Item = S>) -> Self {
        self.options.mode = Mode::Upsert;
        self.options.key = key.into_iter().map(Into::into).collect();
        self
    }

    /// Connections that write at once.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.options.jobs = Some(jobs);
        self
    }

    /// Everything else of the load that it is. What is said of bad rows has no effect: they go to the callbacks.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut LoadOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Told of each stream that is completed, once.
    #[must_use]
    pub fn on_completed(mut self, told: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.completed = Some(Box::new(told));
        self
    }

    /// Told of each entry of an insert that was not written as its key, or another unique one, was there: before the put,
    /// from another stream, or earlier in its own. Without this they are only counted. An insert is refused with this
    /// where the database replaces what is there and does not tell.
    #[must_use]
    pub fn on_key_exists(mut self, told: impl Fn(Entry) + Send + Sync + 'static) -> Self {
        self.key_exists = Some(Box::new(told));
        self
    }

    /// Asked what to do about each entry that cannot be written for any other reason. Without this the first one aborts
    /// the put.
    #[must_use]
    pub fn on_failed(
        mut self,
        asked: impl Fn(Failure, Entry) -> AfterFailure + Send + Sync + 'static,
    ) -> Self {
        self.failed = Some(Box::new(asked));
        self
    }

    /// Puts. An error if it ended before all streams were completed; the callbacks have reported how far it came.
    pub async fn run(self) -> Result<PutReport> {
        let Self {
            database,
            streams,
            parallelism,
            completed,
            key_exists,
            failed,
            mut options,
        } = self;
        if options.single_transaction {
            return Err(Error::config(
                "a put in a single transaction could complete no stream before its end",
            )
            .hint("load a source instead"));
        }
        let aside = tempfile::tempdir()
            .map_err(|error| Error::new(ErrorKind::Refused, format!("no temporary directory: {error}")))?;
        options.on_error = OnError::Reject;
        options.rejects = Some(aside.path().join("entries.jsonl"));
        options.rejects_max = RejectsMax::Rows(u64::MAX);
        options.in_key_order = true;
        let count = streams.len();
        let tally = Arc::new(Tally::new(count, completed));
        let source = Streams::new(streams, parallelism, tally.clone())?;
        let target = database.target().clone();
        if key_exists.is_some() && options.mode == Mode::Insert && target.capabilities().insert_replaces {
            let product = &target.capabilities().product;
            return Err(Error::config(format!(
                "{product} does not tell whether a key exists: an insert replaces what is there, and on_key_exists would \
                 never be called"
            ))
            .hint("leave on_key_exists out, or say that entries replace what is there: .upsert(..)"));
        }
        let stop = Stop::default();
        let calls = Arc::new(Calls {
            key_exists,
            failed,
            stop: stop.clone(),
            keys_found: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            aborted_by: Mutex::new(None),
        });
        let prepared = prepare(
            target.clone(),
            database.url().to_owned(),
            Box::new(source),
            options,
        )
        .await?;
        let watch = Watch {
            rejected: {
                let calls = calls.clone();
                Box::new(move |rejects| rejects.iter().for_each(|reject| calls.call(&*target, reject)))
            },
            rows_done: {
                let tally = tally.clone();
                Box::new(move |block, entries| tally.rows_done(block, entries))
            },
        };
        let Ended { mut report, error } = prepared
            .watched(watch)
            .run(Arc::<Progress>::default(), stop)
            .await?;
        let aborted = calls.aborted_by.locked().take();
        if let Some(error) = aborted.or(error) {
            return Err(error);
        }
        // It is taken away with this.
        report.rejects = None;
        Ok(PutReport {
            streams: count,
            completed: tally.completed(),
            written: report.rows.written,
            key_exists: calls.keys_found.load(Ordering::Relaxed),
            failed: calls.failures.load(Ordering::Relaxed),
            load: report,
        })
    }
}

impl Calls {
    fn call(&self, target: &dyn tonnage_core::target::Target, reject: &Reject) {
        let entry = Entry {
            // Every block bears the name of its stream.
            stream: streams::number(&reject.file).unwrap_or_default(),
            row: reject.row,
            data: reject.data.clone(),
        };
        let problem = &reject.problem;
        if (target.capabilities().says_key_exists)(&problem.code) {
            self.keys_found.fetch_add(1, Ordering::Relaxed);
            if let Some(told) = &self.key_exists {
                told(entry);
            }
            return;
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        let failure = Failure {
            column: problem.column.clone(),
            code: problem.code.clone(),
            message: problem.message.clone(),
        };
        let (message, place) = (
            failure.message.clone(),
            format!("{} row {}", reject.file, reject.row),
        );
        let next = match &self.failed {
            Some(asked) => asked(failure, entry),
            None => AfterFailure::Abort,
        };
        if next == AfterFailure::Abort {
            let error = Error::new(ErrorKind::Rejected, message)
                .at(place)
                .code(&problem.code);
            let mut aborted_by = self.aborted_by.locked();
            aborted_by.get_or_insert(error);
            self.stop.request();
        }
    }
}

impl Connected {
    /// Many streams of entries into `table`, several of them read at once. See [`put`](crate::put).
    pub fn bulk_put(&self, table: impl Into<String>) -> BulkPut {
        BulkPut::new(self.clone(), table)
    }
}
