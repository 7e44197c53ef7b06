//! Comparisons as sentences: `db.verify("orders").files("orders/*.parquet").run().await?`.

use std::sync::Arc;

use tonnage_core::{
    error::{Error, Result},
    reader::Relation,
    source::Source,
    stop::Stop,
    table::TableName,
};
use tonnage_formats::sources::{self, Format, TextOptions};

use super::{DIFFERENCES, Input, VerifyOptions, VerifyReport, verify};
use crate::{connected::Connected, load::Progress, plan::LoadOptions};

/// What a table is compared with.
enum From {
    Nothing,
    Files(Vec<String>),
    Source(Box<dyn Source>),
    Database(Connected, Relation),
}

/// A comparison being described.
pub struct Verify {
    database: Connected,
    table: String,
    from: From,
    format: Option<Format>,
    text: TextOptions,
    options: VerifyOptions,
}

impl Verify {
    pub(crate) fn new(database: Connected, table: String) -> Self {
        Self {
            database,
            table,
            from: From::Nothing,
            format: None,
            text: TextOptions::default(),
            options: VerifyOptions {
                load: LoadOptions::new(TableName::bare("")),
                differences: DIFFERENCES,
            },
        }
    }

    /// With the rows of files: a path, a glob or a directory; may be called again.
    #[must_use]
    pub fn files(mut self, input: impl Into<String>) -> Self {
        match &mut self.from {
            From::Files(inputs) => inputs.push(input.into()),
            other => *other = From::Files(vec![input.into()]),
        }
        self
    }

    /// With the rows of any source.
    #[must_use]
    pub fn source(mut self, source: impl Source + 'static) -> Self {
        self.from = From::Source(Box::new(source));
        self
    }

    /// With a table, or the result of a query, of a database.
    #[must_use]
    pub fn database(mut self, from: &Connected, relation: Relation) -> Self {
        self.from = From::Database(from.clone(), relation);
        self
    }

    /// How text files are read.
    #[must_use]
    pub fn text(mut self, format: Option<Format>, text: TextOptions) -> Self {
        self.format = format;
        self.options.load.timezone.clone_from(&text.timezone);
        self.text = text;
        self
    }

    /// The columns that tell rows apart, instead of the primary key.
    #[must_use]
    pub fn key<S: Into<String>>(mut self, key: impl IntoIterator<Item = S>) -> Self {
        self.options.load.key = key.into_iter().map(Into::into).collect();
        self
    }

    /// Compares a table column with a source column of another name.
    #[must_use]
    pub fn map(mut self, source: impl Into<String>, table: impl Into<String>) -> Self {
        self.options.load.map.push((source.into(), table.into()));
        self
    }

    /// Names at most so many rows of those that differ in one way.
    #[must_use]
    pub fn differences(mut self, rows: usize) -> Self {
        self.options.differences = rows;
        self
    }

    /// Workers a side, and connections that read a table at once.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.options.load.jobs = Some(jobs);
        self
    }

    /// Everything else.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut VerifyOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Compares. Rows that differ are no error: see [`VerifyReport::agrees`].
    pub async fn run(mut self) -> Result<VerifyReport> {
        self.options.load.table = self.table.parse()?;
        let input = match self.from {
            From::Nothing => {
                return Err(Error::config("nothing was named that the table is compared with")
                    .hint(".files(\"orders.csv\") names files, .database(&other, ..) another table"));
            }
            From::Files(inputs) => Input::Source(sources::open(&inputs, self.format, &self.text)?),
            From::Source(source) => Input::Source(source),
            From::Database(from, relation) => Input::Database {
                shown: from.url.clone(),
                target: from.target,
                relation,
                columns: None,
                texts: Vec::new(),
            },
        };
        let Connected { target, url } = &self.database;
        let progress = Arc::<Progress>::default();
        verify(
            &**target,
            url.clone(),
            input,
            &self.options,
            progress,
            Stop::default(),
        )
        .await
    }
}

impl Connected {
    /// A comparison of a table with files or another table: `db.verify("orders").files("orders.csv").run()`. See
    /// [`verify`](crate::verify).
    pub fn verify(&self, table: impl Into<String>) -> Verify {
        Verify::new(self.clone(), table.into())
    }
}
