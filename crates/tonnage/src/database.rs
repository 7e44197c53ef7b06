//! A database to load into, and loads written as sentences:
//! `db.load("orders/*.parquet").table("orders").upsert(["id"]).run().await?`.

use std::{path::PathBuf, sync::Arc};

use crate::{
    buffer::BufferOptions,
    error::{Error, Result},
    load::{Ended, Prepared, Progress, Stop, prepare},
    operation::{Durability, Method},
    plan::{Attempt, Create, LoadOptions, Mode, OnError, RejectsMax},
    report::Report,
    source::Source,
    sources::{self, Format, TextOptions},
    table::TableName,
    target::Target,
    targets,
    types::ColumnType,
};

/// One database at one URL.
#[derive(Clone)]
pub struct Database {
    target: Arc<dyn Target>,
    url: String,
}

impl Database {
    /// Connects to what `url` names: see [`targets::DRIVERS`]. `Config` where it names no database, `Unsent` where
    /// nothing answers.
    pub async fn connect(url: &str) -> Result<Self> {
        Ok(Self {
            target: targets::connect(url).await?,
            url: targets::redact(url),
        })
    }

    /// A load of files: a path, a glob or a directory.
    pub fn load(&self, input: impl Into<String>) -> Load {
        self.load_from(Input::Files(vec![input.into()]))
    }

    /// A load of any source.
    pub fn load_source(&self, source: impl Source + 'static) -> Load {
        self.load_from(Input::Source(Box::new(source)))
    }

    /// A buffer that takes rows for `table`, one at a time or many, and drains them in the background. See
    /// [`buffer`](crate::buffer).
    pub fn buffer(&self, table: impl Into<String>) -> BufferOptions {
        BufferOptions::new(self.clone(), TableName::bare(table))
    }

    /// A database that is connected already. `url` is only shown, so it must be [redacted](targets::redact).
    pub fn with_target(target: Arc<dyn Target>, url: impl Into<String>) -> Self {
        Self {
            target,
            url: url.into(),
        }
    }

    pub(crate) fn target(&self) -> &Arc<dyn Target> {
        &self.target
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    fn load_from(&self, from: Input) -> Load {
        Load {
            database: self.clone(),
            from,
            format: None,
            text: TextOptions::default(),
            options: LoadOptions::new(TableName::bare("")),
        }
    }
}

enum Input {
    Files(Vec<String>),
    Source(Box<dyn Source>),
}

/// A load being described. What is left out is decided by the [plan](crate::plan::decide).
pub struct Load {
    database: Database,
    from: Input,
    format: Option<Format>,
    text: TextOptions,
    options: LoadOptions,
}

impl Load {
    /// The table, by its plain name.
    #[must_use]
    pub fn table(mut self, name: impl Into<String>) -> Self {
        self.options.table.name = name.into();
        self
    }

    /// The table's schema.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.options.table.schema = Some(schema.into());
        self
    }

    /// Replaces rows whose `key` exists; an empty key takes the primary key.
    #[must_use]
    pub fn upsert<S: Into<String>>(self, key: impl IntoIterator<Item = S>) -> Self {
        self.keyed(Mode::Upsert, key)
    }

    /// Leaves rows out whose `key` exists; an empty key takes the primary key.
    #[must_use]
    pub fn ignore<S: Into<String>>(self, key: impl IntoIterator<Item = S>) -> Self {
        self.keyed(Mode::Ignore, key)
    }

    /// Changes the rows whose `key` exists and leaves the others out; an empty key takes the primary key.
    #[must_use]
    pub fn update<S: Into<String>>(self, key: impl IntoIterator<Item = S>) -> Self {
        self.keyed(Mode::Update, key)
    }

    /// Removes the rows whose `key` exists; an empty key takes the primary key.
    #[must_use]
    pub fn delete<S: Into<String>>(self, key: impl IntoIterator<Item = S>) -> Self {
        self.keyed(Mode::Delete, key)
    }

    fn keyed<S: Into<String>>(mut self, mode: Mode, key: impl IntoIterator<Item = S>) -> Self {
        self.options.mode = mode;
        self.options.key = key.into_iter().map(Into::into).collect();
        self
    }

    /// Creates the table if it is missing, with `key` as its primary key (none if empty).
    #[must_use]
    pub fn create<S: Into<String>>(mut self, key: impl IntoIterator<Item = S>) -> Self {
        self.options.create = Create::Missing;
        self.options.key = key.into_iter().map(Into::into).collect();
        self
    }

    /// The type of a column of a created table.
    #[must_use]
    pub fn column_type(mut self, column: impl Into<String>, ty: ColumnType) -> Self {
        self.options.types.push((column.into(), ty));
        self
    }

    /// Empties the table when the run starts.
    #[must_use]
    pub fn truncate(mut self) -> Self {
        self.options.truncate = true;
        self
    }

    /// Fills a table column from a source column of another name.
    #[must_use]
    pub fn map(mut self, source: impl Into<String>, table: impl Into<String>) -> Self {
        self.options.map.push((source.into(), table.into()));
        self
    }

    /// Puts bad rows aside in `path` (JSON lines), at most `max` of them.
    #[must_use]
    pub fn rejects(mut self, path: impl Into<PathBuf>, max: RejectsMax) -> Self {
        self.options.on_error = OnError::Reject;
        self.options.rejects = Some(path.into());
        self.options.rejects_max = max;
        self
    }

    /// Goes on with an unfinished run of the same input; a new run where there is none.
    #[must_use]
    pub fn resume(mut self) -> Self {
        self.options.attempt = Attempt::Resume;
        self
    }

    /// How rows travel.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.options.method = Some(method);
        self
    }

    /// Connections that write at once.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.options.jobs = Some(jobs);
        self
    }

    /// The most rows of a write; a write is a commit.
    #[must_use]
    pub fn batch_rows(mut self, rows: usize) -> Self {
        self.options.batch_rows = Some(rows);
        self
    }

    /// What a commit promises.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.options.durability = Some(durability);
        self
    }

    /// How text files are read.
    #[must_use]
    pub fn text(mut self, format: Option<Format>, text: TextOptions) -> Self {
        self.format = format;
        self.options.timezone.clone_from(&text.timezone);
        self.text = text;
        self
    }

    /// Everything else.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut LoadOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Decides the load and writes nothing: [`Prepared::plan`] is what it would do.
    pub async fn prepare(self) -> Result<Prepared> {
        if self.options.table.name.is_empty() {
            return Err(Error::config("no table was named").hint(".table(\"orders\") names it"));
        }
        let source = match self.from {
            Input::Files(inputs) => sources::open(&inputs, self.format, &self.text)?,
            Input::Source(source) => source,
        };
        prepare(self.database.target, self.database.url, source, self.options).await
    }

    /// Loads. A run that is stopped by an error returns that error; [`Load::prepare`] and [`Prepared::run`] give the
    /// account in either case.
    pub async fn run(self) -> Result<Report> {
        let Ended { report, error } = self
            .prepare()
            .await?
            .run(Arc::<Progress>::default(), Stop::default())
            .await?;
        match error {
            None => Ok(report),
            Some(error) => Err(error),
        }
    }
}
