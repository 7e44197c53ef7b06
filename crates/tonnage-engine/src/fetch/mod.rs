//! Rows of keys: many keys in, their rows and the keys that have none out, both as a stream in bounded memory.
//!
//! - [`prepare`] looks at tables and keys and decides the [`GetPlan`]; [`Prepared::start`] begins; [`Get::next`] hands
//!   out what comes; [`Get::finish`] is the account.
//! - Every key is accounted for, and checked: of keys that are each asked once, `distinct = found + missing`; of
//!   ordered ones, `asked = found + missing`.
//! - Rows come request by request in the order of the requests, whatever the number of connections: in the order of
//!   their keys, or as asked where that is wanted.
//! - A key with a null in it equals nothing, so it is missing.
//! - All rows are of the state of one moment where the database can keep it ([`GetPlan::one_state`]); else each request
//!   sees its own state, and the notes say so.
//! - Rows of other tables come after those that they belong to, table by table and each once: the columns by which they
//!   are joined are keys like any others, sorted and asked for in the same way. Nested ones come within them.
//! - What waits is bounded: requests in the queue, batches of an answered request, and the bytes of an answer that is
//!   held until it is whole.

mod answer;
mod ask;
mod builder;
mod keys;
mod lookup;
mod nest;
mod plan;
mod prepare;
mod related;
mod report;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::Schema,
};
use futures::{Stream, stream};
use tokio::sync::mpsc;
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    report::{RunState, peak_memory_bytes, processor_seconds},
};

pub use self::ask::{Asked, Asker, Known};
use self::{answer::Part, lookup::Lookup, nest::Nested};
pub use self::{
    builder::BulkGet,
    plan::{
        ATTEMPTS_MAX, BATCH_BYTES, BATCH_ROWS, GetOptions, GetPlan, HELD_BYTES, KeyColumn, NESTED_BYTES,
        NESTED_ROW_BYTES, REQUEST_KEYS, RangeText, SORT_BYTES, WAITING_BATCHES, decide,
    },
    prepare::{Prepared, prepare},
    related::{End, Join, On, Related, With},
    report::{GetReport, KeyCounts, RelatedReport},
};

/// What a get hands out.
#[derive(Debug)]
pub enum Fetched {
    /// Rows of keys.
    Rows(RecordBatch),
    /// Keys that have no row.
    Missing(RecordBatch),
    /// Rows of another table, behind all rows of those that it hangs on.
    Related {
        /// Its place in [`GetPlan::related`].
        table: usize,
        /// Its rows.
        rows: RecordBatch,
    },
}

/// A get under way. Dropping it ends it.
pub struct Get {
    plan: Arc<GetPlan>,
    url: String,
    started: Instant,
    /// That of the table, and of each that comes after it.
    lookups: Vec<Lookup>,
    /// The one whose turn it is.
    at: usize,
    /// Where the keys go that rows have of each other table, until they are all there.
    feeds: Vec<Option<mpsc::Sender<RecordBatch>>>,
    /// What was put into rows of each table within.
    nested: Vec<Arc<Nested>>,
    ended: bool,
    /// Whether it came to its end.
    whole: bool,
}

impl Get {
    fn new(
        plan: Arc<GetPlan>,
        url: String,
        started: Instant,
        got: Lookup,
        others: Vec<(Lookup, mpsc::Sender<RecordBatch>)>,
        nested: Vec<Arc<Nested>>,
    ) -> Self {
        let (others, feeds): (Vec<_>, Vec<_>) = others.into_iter().unzip();
        Self {
            plan,
            url,
            started,
            lookups: std::iter::once(got).chain(others).collect(),
            at: 0,
            feeds: feeds.into_iter().map(Some).collect(),
            nested,
            ended: false,
            whole: false,
        }
    }

    /// The next rows, or keys that have none; none at the end. After an error there is nothing more.
    pub async fn next(&mut self) -> Result<Option<Fetched>> {
        if self.ended {
            return Ok(None);
        }
        let next = self.part().await;
        self.whole = matches!(next, Ok(None));
        self.ended = !matches!(next, Ok(Some(_)));
        next
    }

    async fn part(&mut self) -> Result<Option<Fetched>> {
        loop {
            let table = self.at;
            let Some(lookup) = self.lookups.get_mut(table) else {
                return Ok(None);
            };
            match lookup.next().await? {
                Some(Part::Rows(rows)) => {
                    let rows = self.feed(rows).await?;
                    return Ok(Some(match table {
                        0 => Fetched::Rows(rows),
                        table => Fetched::Related {
                            table: table - 1,
                            rows,
                        },
                    }));
                }
                Some(Part::Missing(keys)) if table == 0 => return Ok(Some(Fetched::Missing(keys))),
                // That a row has no children, say, is counted and nothing more.
                Some(Part::Missing(_) | Part::Done { .. }) => {}
                None => {
                    for (feed, related) in self.feeds.iter_mut().zip(&self.plan.related) {
                        if related.join.to == table {
                            *feed = None;
                        }
                    }
                    self.at += 1;
                }
            }
        }
    }

    /// Passes the keys on that rows have of other tables; what is handed out of them.
    async fn feed(&mut self, rows: RecordBatch) -> Result<RecordBatch> {
        if self.plan.nested {
            return Ok(rows);
        }
        for (feed, related) in self.feeds.iter().zip(&self.plan.related) {
            let Some(feed) = feed.as_ref().filter(|_| related.join.to == self.at) else {
                continue;
            };
            let columns = related.plan.key.iter().map(|key| rows.column(key.source).clone());
            // A failure there is reported when its turn comes.
            let _ = feed.send(unnamed(columns.collect())?).await;
        }
        let hidden = match self.at {
            0 => self.plan.hidden,
            at => self.plan.related[at - 1].plan.hidden,
        };
        match hidden {
            0 => Ok(rows),
            hidden => {
                let shown: Vec<usize> = (0..rows.num_columns() - hidden).collect();
                rows.project(&shown).map_err(arrow_bug)
            }
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
        let got = &self.lookups[0];
        let keys = got.keys();
        let related = self.related();
        let all = related.iter().map(|related| &related.keys).chain([&keys]);
        if let Some(keys) = all.into_iter().find(|keys| self.whole && !keys.balance()) {
            return Err(Error::bug(format!("the account does not balance: {keys}")));
        }
        let seconds = self.started.elapsed().as_secs_f64();
        Ok(GetReport {
            state: match self.whole {
                true => RunState::Finished,
                false => RunState::Stopped,
            },
            target: self.url,
            table: self.plan.table.name.to_string(),
            key: self.plan.key.iter().map(|key| key.name.clone()).collect(),
            keys,
            rows: got.counts.rows,
            requests: got.counts.requests,
            retries: got.counts.retries,
            related,
            one_state: self.plan.one_state,
            seconds,
            keys_per_second: keys.asked as f64 / seconds.max(1e-9),
            rows_per_second: got.counts.rows as f64 / seconds.max(1e-9),
            jobs: got.jobs(),
            request_keys: self.plan.request_keys,
            ordered: self.plan.ordered,
            settings_changed: self.plan.settings_changed.clone(),
            notes: self.plan.notes.clone(),
            client_cpu_seconds: processor_seconds(),
            peak_memory_bytes: peak_memory_bytes(),
        })
    }

    fn related(&self) -> Vec<RelatedReport> {
        let account = |(at, related): (usize, &Related)| {
            let (keys, rows, requests, retries) = match (self.nested.get(at), self.lookups.get(at + 1)) {
                (Some(nested), _) => {
                    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
                    let (asked, found) = (count(&nested.asked), count(&nested.found));
                    let keys = KeyCounts {
                        asked,
                        distinct: None,
                        found,
                        missing: asked.saturating_sub(found),
                    };
                    (
                        keys,
                        count(&nested.rows),
                        count(&nested.requests),
                        count(&nested.retries),
                    )
                }
                (None, Some(lookup)) => {
                    let counts = lookup.counts;
                    (lookup.keys(), counts.rows, counts.requests, counts.retries)
                }
                (None, None) => (KeyCounts::default(), 0, 0, 0),
            };
            RelatedReport {
                table: related.plan.table.name.to_string(),
                on: related.on.to_string(),
                keys,
                rows,
                requests,
                retries,
            }
        };
        self.plan.related.iter().enumerate().map(account).collect()
    }
}

/// A batch of columns whose names nobody asks for: the same one may be there twice.
fn unnamed(columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let field = |column: &ArrayRef| arrow::datatypes::Field::new("", column.data_type().clone(), true);
    let fields: Vec<_> = columns.iter().map(field).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(arrow_bug)
}
