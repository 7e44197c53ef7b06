//! A database at hand, from which loads, unloads, gets, puts and buffers begin.

use std::sync::Arc;

use tonnage_core::{reader::Relation, source::Source, table::TableName, target::Target};

use crate::{
    buffer::BufferOptions,
    copy::builder::Copy,
    fetch::BulkGet,
    load::builder::{Exec, Input, Load},
    put::BulkPut,
    unload::builder::Unload,
    verify::builder::Verify,
};

/// A database that is connected, and what it is called.
#[derive(Clone)]
pub struct Connected {
    pub(crate) target: Arc<dyn Target>,
    pub(crate) url: String,
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

    /// Rows of a table by their keys.
    pub fn bulk_get(&self, table: impl Into<String>) -> BulkGet {
        BulkGet::new(self.target.clone(), self.url.clone(), TableName::bare(table))
    }

    /// Many streams of entries into `table`, several of them read at once. See [`put`](crate::put).
    pub fn bulk_put(&self, table: impl Into<String>) -> BulkPut {
        BulkPut::new(self.clone(), table)
    }

    /// A load of a table or a query of another database, without a file in between. It cannot be resumed.
    pub fn load_database(&self, from: &Connected, relation: Relation) -> Load {
        Load::of(self.clone(), Input::Database(from.clone(), relation))
    }

    /// An unload of a table or view: `t`, `schema.t`, `"odd.name"`.
    pub fn unload(&self, table: impl Into<String>) -> Unload {
        Unload::table(self.clone(), table.into())
    }

    /// An unload of the rows of a query, in the database's own SQL.
    pub fn unload_query(&self, query: impl Into<String>) -> Unload {
        Unload::query(self.clone(), query.into())
    }

    /// A comparison of a table with files or another table: `db.verify("orders").files("orders.csv").run()`. See
    /// [`verify`](crate::verify).
    pub fn verify(&self, table: impl Into<String>) -> Verify {
        Verify::new(self.clone(), table.into())
    }

    /// A copy of the tables of another database into this one: `target.copy_from(&source).run()`. See [`copy`](crate::copy).
    pub fn copy_from(&self, source: &Connected) -> Copy {
        Copy::new(source.clone(), self.clone())
    }

    /// A buffer that takes rows for `table`, one at a time or many, and drains them in the background. See
    /// [`buffer`](crate::buffer).
    pub fn buffer(&self, table: impl Into<String>) -> BufferOptions {
        BufferOptions::new(self.clone(), TableName::bare(table))
    }

    /// A database that is connected already. `url` is only shown, and must have no password in it.
    pub fn new(target: Arc<dyn Target>, url: impl Into<String>) -> Self {
        Self {
            target,
            url: url.into(),
        }
    }

    /// The database.
    pub fn target(&self) -> &Arc<dyn Target> {
        &self.target
    }

    /// What it is called.
    pub fn url(&self) -> &str {
        &self.url
    }
}
