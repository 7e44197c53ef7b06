//! Gets written as sentences: `db.bulk_get("orders").keys(["1", "2"]).columns(["id", "total"]).start().await?`.

use std::sync::Arc;

use tonnage_core::{
    error::{Error, Result},
    source::Source,
    table::TableName,
    target::Target,
};
use tonnage_formats::sources::{self, Format, TextOptions, csv::records};

use super::{Get, GetOptions, On, Prepared, RangeText, With, prepare};
use crate::connected::Connected;

/// A get being described. What is left out is decided by the [plan](super::decide).
pub struct BulkGet {
    target: Arc<dyn Target>,
    url: String,
    keys: Keys,
    format: Option<Format>,
    text: TextOptions,
    on: Vec<String>,
    options: GetOptions,
}

enum Keys {
    None,
    Records(Vec<String>),
    Files(Vec<String>),
    Source(Box<dyn Source>),
}

impl BulkGet {
    /// `url` is only shown, so it must be redacted.
    pub fn new(target: Arc<dyn Target>, url: String, table: TableName) -> Self {
        Self {
            target,
            url,
            keys: Keys::None,
            format: None,
            text: TextOptions::default(),
            on: Vec::new(),
            options: GetOptions::new(table),
        }
    }

    /// The table's schema.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.options.table.schema = Some(schema.into());
        self
    }

    /// The columns that keys are of: a primary or unique key, or the first columns of one. Left out, the primary key.
    #[must_use]
    pub fn by<S: Into<String>>(mut self, key: impl IntoIterator<Item = S>) -> Self {
        self.options.key = key.into_iter().map(Into::into).collect();
        self
    }

    /// The keys as text: each a CSV record without a header, a field a key column.
    #[must_use]
    pub fn keys<S: Into<String>>(mut self, keys: impl IntoIterator<Item = S>) -> Self {
        self.keys = Keys::Records(keys.into_iter().map(Into::into).collect());
        self
    }

    /// The keys of a file, a glob, a directory or a URL.
    #[must_use]
    pub fn keys_from(mut self, input: impl Into<String>) -> Self {
        self.keys = Keys::Files(vec![input.into()]);
        self
    }

    /// The keys of any source, such as batches in memory ([`BatchSource`](sources::batches::BatchSource)).
    #[must_use]
    pub fn keys_source(mut self, source: impl Source + 'static) -> Self {
        self.keys = Keys::Source(Box::new(source));
        self
    }

    /// How files of keys are read.
    #[must_use]
    pub fn text(mut self, format: Option<Format>, text: TextOptions) -> Self {
        self.format = format;
        self.options.timezone.clone_from(&text.timezone);
        self.text = text;
        self
    }

    /// The columns wanted, in order.
    #[must_use]
    pub fn columns<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.options.columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Only rows whose next key column is at least `value`.
    #[must_use]
    pub fn range_from(mut self, value: impl Into<String>) -> Self {
        self.options.from = Some(end(value, true));
        self
    }

    /// Only rows whose next key column is at most `value`.
    #[must_use]
    pub fn range_to(mut self, value: impl Into<String>) -> Self {
        self.options.to = Some(end(value, true));
        self
    }

    /// Only rows whose next key column is less than `value`.
    #[must_use]
    pub fn range_before(mut self, value: impl Into<String>) -> Self {
        self.options.to = Some(end(value, false));
        self
    }

    /// Rows of another table too: of children or parents of these rows, or of theirs. They come after these, each once,
    /// unless they are [`nested`](Self::nested).
    #[must_use]
    pub fn with(mut self, table: impl Into<String>) -> Self {
        self.options.with.push(With::new(TableName::bare(table)));
        self
    }

    /// The columns that tables are joined by, where their foreign keys do not say it: `lines(order_id) = orders(id)`.
    #[must_use]
    pub fn on(mut self, on: impl Into<String>) -> Self {
        self.on.push(on.into());
        self
    }

    /// Rows of other tables within those that they belong to: children as a list of structs under their table's name, a
    /// parent as a struct.
    #[must_use]
    pub fn nested(mut self) -> Self {
        self.options.nested = true;
        self
    }

    /// Rows as often and in the order in which their keys are asked.
    #[must_use]
    pub fn ordered(mut self) -> Self {
        self.options.ordered = true;
        self
    }

    /// Connections that ask at once.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.options.jobs = Some(jobs);
        self
    }

    /// Everything else.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut GetOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Decides the get; its [schema](Prepared::schema) is that of the rows.
    pub async fn prepare(mut self) -> Result<Prepared> {
        let on = self.on.iter().map(|on| on.parse::<On>());
        self.options.on.extend(on.collect::<Result<Vec<_>>>()?);
        let keys = match self.keys {
            Keys::None => {
                return Err(
                    Error::config("no keys were given").hint(".keys([..]) or .keys_from(..) gives them")
                );
            }
            Keys::Records(keys) => records("keys", &keys)?,
            Keys::Files(inputs) => sources::open(&inputs, self.format, &self.text)?,
            Keys::Source(source) => source,
        };
        prepare(self.target, self.url, keys, &self.options).await
    }

    /// Begins.
    pub async fn start(self) -> Result<Get> {
        self.prepare().await?.start()
    }
}

fn end(value: impl Into<String>, inclusive: bool) -> RangeText {
    RangeText {
        value: value.into(),
        inclusive,
    }
}

impl Connected {
    /// Rows of a table by their keys.
    pub fn bulk_get(&self, table: impl Into<String>) -> BulkGet {
        BulkGet::new(self.target.clone(), self.url.clone(), TableName::bare(table))
    }
}
