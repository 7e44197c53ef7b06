//! Look-ups whose keys are known beforehand, a request at a time by one connection: what measuring does between writes.
//!
//! A request is answered as any other of a get is: asked, tried again where a connection is lost, put into order. Each
//! sees what is committed when it is answered.

use std::sync::Arc;

use arrow::{array::RecordBatch, compute::concat_batches, datatypes::SchemaRef, row::RowConverter};
use tokio::sync::mpsc;
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    parse::ParseContext,
    reader::no_table,
    source::Source,
    spill::converter,
    table::TableName,
    target::Target,
};

use super::{
    answer::{Getters, Opener, Part, Request, Worker},
    keys::{KeyReader, Keys, in_order},
    plan::{GetOptions, GetPlan, WAITING_BATCHES, decide},
};

/// Keys of one table, and connections that look them up.
pub struct Known {
    plan: Arc<GetPlan>,
    getters: Arc<Getters>,
    keys: RecordBatch,
    /// Session settings that the connections have changed.
    pub settings_changed: Vec<String>,
}

impl Known {
    /// Reads all of `keys`, which must have the columns of the table's primary key, and opens so many `connections`.
    pub async fn prepare(
        target: Arc<dyn Target>,
        table: &TableName,
        keys: Box<dyn Source>,
        connections: usize,
    ) -> Result<Self> {
        let options = GetOptions::new(table.clone());
        let Some(found) = target.table(table).await? else {
            return Err(no_table(table, &target.table_names().await?));
        };
        let context = ParseContext {
            timezone: None,
            bytes_as_written: true,
            ..ParseContext::default()
        };
        let plan = Arc::new(decide(
            found,
            keys.schema(),
            &options,
            &[],
            &context,
            connections,
        )?);
        let opener = Arc::new(Opener { target, moment: None });
        let first = opener.open(&plan.request).await?;
        let settings_changed = first.settings_changed();
        let getters = Getters::new(opener, plan.clone(), first, Arc::default());
        for _ in 1..connections {
            getters.keep_one_more().await?;
        }
        let of = plan.clone();
        let reading = move || {
            let mut reader = KeyReader::new(keys, &of, &context, Arc::default())?;
            let mut batches = Vec::new();
            while let Some(batch) = reader.next()? {
                batches.push(batch);
            }
            concat_batches(&of.key_schema(), &batches).map_err(arrow_bug)
        };
        let read = tokio::task::spawn_blocking(reading).await;
        let keys = read.map_err(|error| Error::bug(format!("keys could not be read: {error}")))??;
        Ok(Self {
            plan,
            getters: Arc::new(getters),
            keys,
            settings_changed,
        })
    }

    /// The keys, in the order in which they came.
    pub fn keys(&self) -> &RecordBatch {
        &self.keys
    }

    /// The columns of a key.
    pub fn schema(&self) -> SchemaRef {
        self.plan.key_schema()
    }

    /// One that asks, over a separate connection.
    pub fn asker(&self) -> Result<Asker> {
        let columns: Vec<usize> = (0..self.plan.key.len()).collect();
        Ok(Asker {
            worker: Worker::new(self.getters.clone(), self.plan.clone(), None),
            converter: converter(&self.schema(), &columns)?,
        })
    }
}

/// Asks, one request after another.
pub struct Asker {
    worker: Worker,
    converter: RowConverter,
}

/// What came of keys: `distinct = found + missing`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Keys, repeated ones too.
    pub keys: u64,
    /// Those that differ within their request, each of which is asked once.
    pub distinct: u64,
    /// Of these, with rows.
    pub(crate) found: u64,
    /// Without.
    pub missing: u64,
    /// Rows.
    pub rows: u64,
    /// Times that the database was asked.
    pub requests: u64,
    /// Times that an answer was lost.
    pub retries: u64,
}

impl Asked {
    /// Counts `other` as well.
    pub fn add(&mut self, other: &Self) {
        self.keys += other.keys;
        self.distinct += other.distinct;
        self.found += other.found;
        self.missing += other.missing;
        self.rows += other.rows;
        self.requests += other.requests;
        self.retries += other.retries;
    }
}

impl Asker {
    /// Asks for the rows of `keys` at once, and lets them go. `Bug` if the account does not balance.
    pub async fn ask(&mut self, keys: &RecordBatch) -> Result<Asked> {
        let Keys { distinct, .. } = in_order(&self.converter, keys)?;
        let mut asked = Asked {
            keys: keys.num_rows() as u64,
            distinct: distinct.num_rows() as u64,
            ..Asked::default()
        };
        let keys = Keys {
            distinct,
            asked: None,
        };
        let (parts, answer) = mpsc::channel(WAITING_BATCHES);
        let asking = self.worker.answer(Request { keys, parts });
        let (_, counted) = futures::join!(asking, count(answer, &mut asked));
        counted?;
        if asked.distinct != asked.found + asked.missing {
            return Err(Error::bug(format!("the account does not balance: {asked:?}")));
        }
        Ok(asked)
    }
}

/// Counts what comes, to its end.
async fn count(mut answer: mpsc::Receiver<Result<Part>>, asked: &mut Asked) -> Result<()> {
    while let Some(part) = answer.recv().await {
        match part? {
            Part::Rows(rows) => asked.rows += rows.num_rows() as u64,
            Part::Missing(keys) => asked.missing += keys.num_rows() as u64,
            Part::Done {
                found,
                requests,
                retries,
            } => {
                asked.found = found;
                asked.requests = requests;
                asked.retries = retries;
                return Ok(());
            }
        }
    }
    Err(Error::bug("a request ended without an answer"))
}
