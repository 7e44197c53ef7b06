//! Loads as sentences: `db.load("orders/*.parquet").table("orders").upsert(["id"]).run().await?`.

use std::{path::PathBuf, sync::Arc};

use tonnage_core::{
    error::{Error, Result},
    operation::{Durability, Method, Mode, Split},
    reader::Relation,
    report::Report,
    source::Source,
    stop::Stop,
    table::TableName,
    types::ColumnType,
};
use tonnage_formats::{
    sinks::Output,
    sources::{Format, Scan, TextOptions},
};

use super::{Ended, Prepared, Progress, prepare, prepare_files};
use crate::{
    connected::Connected,
    plan::{Attempt, Create, LoadOptions, OnError, RejectsMax},
    unload::{UnloadOptions, source::DatabaseSource},
};

/// A statement that waits for its rows.
pub struct Exec {
    database: Connected,
    statement: String,
}

impl Exec {
    pub(crate) fn of(database: Connected, statement: String) -> Self {
        Self { database, statement }
    }

    /// Its rows are those of files: a path, a glob or a directory.
    #[must_use]
    pub fn from(self, input: impl Into<String>) -> Load {
        self.rows(Input::Files(vec![input.into()]))
    }

    /// Its rows are those of any source.
    #[must_use]
    pub fn from_source(self, source: impl Source + 'static) -> Load {
        self.rows(Input::Source(Box::new(source)))
    }

    fn rows(self, from: Input) -> Load {
        Load::of(self.database, from).options(|options| options.statement = Some(self.statement))
    }
}

/// What is loaded.
pub(crate) enum Input {
    Files(Vec<String>),
    Source(Box<dyn Source>),
    Database(Connected, Relation),
}

/// A load being described. What is left out is decided by the [plan](crate::plan::decide).
pub struct Load {
    database: Connected,
    from: Input,
    format: Option<Format>,
    text: TextOptions,
    options: LoadOptions,
}

impl Load {
    pub(crate) fn of(database: Connected, from: Input) -> Self {
        Self {
            database,
            from,
            format: None,
            text: TextOptions::default(),
            options: LoadOptions::new(TableName::bare("")),
        }
    }

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

    /// Lets an upsert or an ignore go by any unique key that a row meets, where a statement of the database cannot name a single one.
    #[must_use]
    pub fn any_unique_key(mut self) -> Self {
        self.options.any_unique_key = true;
        self
    }

    /// The parameters that say which rows a statement touches: rows that differ in them may be applied at the same time.
    #[must_use]
    pub fn touches<S: Into<String>>(mut self, parameters: impl IntoIterator<Item = S>) -> Self {
        self.options.key = parameters.into_iter().map(Into::into).collect();
        self
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
        if self.text.scan == Scan::Sample {
            self.text.scan = Scan::Auto;
            self.options.scan = Scan::Auto;
        }
        self.options.key = key.into_iter().map(Into::into).collect();
        self
    }

    /// Creates the table, in place of one that is there, which is dropped with its rows; `key` as for [`Load::create`].
    #[must_use]
    pub fn create_anew<S: Into<String>>(self, key: impl IntoIterator<Item = S>) -> Self {
        let mut load = self.create(key);
        load.options.create = Create::Replace;
        load
    }

    /// Infers the types of a created table's columns from all rows of text files, which are read once more before.
    #[must_use]
    pub fn scan_all(mut self) -> Self {
        self.text.scan = Scan::All;
        self.options.scan = Scan::All;
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

    /// Loads into a new table like the table, which takes its place at the end.
    #[must_use]
    pub fn recreate(mut self) -> Self {
        self.options.recreate = true;
        self
    }

    /// Drops secondary indexes when the run starts, and builds them again at its end. The table must be empty.
    #[must_use]
    pub fn rebuild_indexes(mut self) -> Self {
        self.options.rebuild_indexes = true;
        self
    }

    /// What becomes of statements that the database would split into several.
    #[must_use]
    pub fn split(mut self, split: Split) -> Self {
        self.options.split = split;
        self
    }

    /// All rows or none: the run is one transaction, by one job.
    #[must_use]
    pub fn single_transaction(mut self) -> Self {
        self.options.single_transaction = true;
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

    /// Loads only files that no finished run has loaded into the table; ends well where there is none. See
    /// [`LoadOptions::new_files`].
    #[must_use]
    pub fn new_files(mut self) -> Self {
        self.options.new_files = true;
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
        self.options.scan = text.scan;
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
        if self.options.table.name.is_empty() && self.options.statement.is_none() {
            return Err(Error::config("no table was named").hint(".table(\"orders\") names it"));
        }
        let Connected { target, url } = self.database;
        let source = match self.from {
            Input::Files(inputs) => {
                return prepare_files(target, url, &inputs, self.format, &self.text, self.options).await;
            }
            Input::Source(source) => source,
            Input::Database(from, relation) => {
                let options = UnloadOptions::new(relation, Output::new("-"));
                let request = options.request()?;
                Box::new(DatabaseSource::open(&*from.target, &from.url, &request).await?)
            }
        };
        prepare(target, url, source, self.options).await
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

impl Connected {
    /// A load of files: a path, a glob, a directory or a URL.
    pub fn load(&self, input: impl Into<String>) -> Load {
        Load::of(self.clone(), Input::Files(vec![input.into()]))
    }

    /// A statement with `:name` parameters to be run for every row of a source:
    /// `db.exec("update stock set quantity = quantity + :moved where id = :id").from("moves.csv").run()`.
    pub fn exec(&self, statement: impl Into<String>) -> Exec {
        Exec::of(self.clone(), statement.into())
    }

    /// A load of any source.
    pub fn load_source(&self, source: impl Source + 'static) -> Load {
        Load::of(self.clone(), Input::Source(Box::new(source)))
    }

    /// A load of a table or a query of another database, without a file in between. It cannot be resumed.
    pub fn load_database(&self, from: &Connected, relation: Relation) -> Load {
        Load::of(self.clone(), Input::Database(from.clone(), relation))
    }
}
