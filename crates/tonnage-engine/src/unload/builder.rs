//! Unloads as sentences.

use std::{path::PathBuf, sync::Arc};

use tonnage_core::{
    error::{Error, Result},
    reader::Relation,
    stop::Stop,
};
use tonnage_formats::{sinks::Output, sources::Format};

use crate::{
    connected::Connected,
    progress::Progress,
    unload::{Batches, UnloadOptions, UnloadReport, unload},
};

/// An unload being described.
pub struct Unload {
    database: Connected,
    /// None until the name of the table was read.
    table: Option<String>,
    options: UnloadOptions,
}

impl Unload {
    pub(crate) fn table(database: Connected, table: String) -> Self {
        Self {
            database,
            table: Some(table),
            options: UnloadOptions::new(Relation::Query(String::new()), Output::new("")),
        }
    }

    pub(crate) fn query(database: Connected, query: String) -> Self {
        Self {
            database,
            table: None,
            options: UnloadOptions::new(Relation::Query(query), Output::new("")),
        }
    }

    /// The file or object, in the format of its ending; a directory, a URL that ends in a slash, or a name with `{}` in it gets
    /// a file a job.
    #[must_use]
    pub fn to(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.output.path = path.into();
        self
    }

    /// The format, with any file ending.
    #[must_use]
    pub fn format(mut self, format: Format) -> Self {
        self.options.output.format = Some(format);
        self
    }

    /// Replaces files that exist.
    #[must_use]
    pub fn overwrite(mut self) -> Self {
        self.options.output.overwrite = true;
        self
    }

    /// Writes a list of the files next to them, last: `_manifest.json`.
    #[must_use]
    pub fn manifest(mut self) -> Self {
        self.options.manifest = true;
        self
    }

    /// The columns, in order.
    #[must_use]
    pub fn columns<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.options.columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Gives columns as the database's text, with any content.
    #[must_use]
    pub fn text<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.options.texts = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Only rows of which this condition, in the database's own SQL, is true.
    #[must_use]
    pub fn filter(mut self, condition: impl Into<String>) -> Self {
        self.options.filter = Some(condition.into());
        self
    }

    /// At most so many rows, any of them.
    #[must_use]
    pub fn limit(mut self, rows: u64) -> Self {
        self.options.limit = Some(rows);
        self
    }

    /// Cuts the work by the values of a column.
    #[must_use]
    pub fn split_by(mut self, column: impl Into<String>) -> Self {
        self.options.split_by = Some(column.into());
        self
    }

    /// Connections that read at once.
    #[must_use]
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.options.jobs = Some(jobs);
        self
    }

    /// Everything else.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut UnloadOptions)) -> Self {
        change(&mut self.options);
        self
    }

    fn described(&mut self) -> Result<()> {
        if let Some(table) = self.table.take() {
            self.options.relation = Relation::Table(table.parse()?);
        }
        Ok(())
    }

    /// Writes the files. No file is left behind by an error.
    pub async fn run(mut self) -> Result<UnloadReport> {
        self.described()?;
        if self.options.output.path.as_os_str().is_empty() {
            return Err(Error::config("no file was named").hint(".to(\"orders.parquet\") names it"));
        }
        let Connected { target, url } = &self.database;
        let progress = Arc::<Progress>::default();
        unload(&**target, url.clone(), &self.options, progress, Stop::default()).await
    }

    /// The rows as batches, instead of files: all of one state, however long they are read.
    pub async fn batches(mut self) -> Result<Batches> {
        self.described()?;
        let snapshot = self.database.target.scan(&self.options.request()?).await?;
        Ok(Batches::of(snapshot, Stop::default()))
    }
}

impl Connected {
    /// An unload of a table or view: `t`, `schema.t`, `"odd.name"`.
    pub fn unload(&self, table: impl Into<String>) -> Unload {
        Unload::table(self.clone(), table.into())
    }

    /// An unload of the rows of a query, in the database's own SQL.
    pub fn unload_query(&self, query: impl Into<String>) -> Unload {
        Unload::query(self.clone(), query.into())
    }
}
