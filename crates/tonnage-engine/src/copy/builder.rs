//! Copies as sentences: `target.copy_from(&source).tables(["order*"]).run().await?`.

use std::sync::Arc;

use tonnage_core::{error::Result, stop::Stop};

use super::{CopyOptions, CopyReport, Existing, Planned, Prepared, TableReport, Watch, prepare};
use crate::{connected::Connected, load::Progress};

/// A copy of a database being described.
pub struct Copy {
    source: Connected,
    target: Connected,
    options: CopyOptions,
}

impl Copy {
    pub(crate) fn new(source: Connected, target: Connected) -> Self {
        Self {
            source,
            target,
            options: CopyOptions::default(),
        }
    }

    /// Only these tables: names, or patterns with `*` and `?`.
    #[must_use]
    pub fn tables<S: Into<String>>(mut self, tables: impl IntoIterator<Item = S>) -> Self {
        self.options.tables = tables.into_iter().map(Into::into).collect();
        self
    }

    /// Drops tables of the same names, with their rows.
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.options.existing = Existing::Replaced;
        self
    }

    /// Goes on with a copy that was interrupted.
    #[must_use]
    pub fn resume(mut self) -> Self {
        self.options.existing = Existing::Resumed;
        self
    }

    /// Everything else.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut CopyOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Decides the copy and writes nothing.
    pub async fn prepare(self) -> Result<Prepared> {
        prepare(&self.source, &self.target, self.options).await
    }

    /// Copies. Tables that failed are in the report: [`CopyReport::failed`].
    pub async fn run(self) -> Result<CopyReport> {
        self.prepare().await?.run(&Unwatched, Stop::default()).await
    }
}

/// Nobody wants to know.
struct Unwatched;

impl Watch for Unwatched {
    fn begins(&self, _: &Planned, _: Arc<Progress>) {}

    fn done(&self, _: &TableReport) {}
}

impl Connected {
    /// A copy of the tables of another database into this one: `target.copy_from(&source).run()`. See [`copy`](crate::copy).
    pub fn copy_from(&self, source: &Connected) -> Copy {
        Copy::new(source.clone(), self.clone())
    }
}
