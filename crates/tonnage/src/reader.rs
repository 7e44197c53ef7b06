//! The seam on the way out: rows of a table or a query, read by several connections that see one state.
//!
//! A [`Snapshot`] is cut into splits: disjoint parts that together are everything, exactly once, however long the
//! reading takes and whoever writes meanwhile. Its readers have all begun when it is handed out, so each may read any
//! split, one after another; dropping a reader ends its transaction. Splits are small where the database can cut
//! cheaply, so that no reader is left with a large one at the end.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use async_trait::async_trait;

use crate::{error::Result, table::TableName, types::ColumnType};

/// Where rows are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// A table or a view: exact name, else a unique case-insensitive one.
    Table(TableName),
    /// The rows of a query, in the database's own SQL.
    Query(String),
}

/// What is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanRequest {
    /// From where.
    pub relation: Relation,
    /// The columns wanted, in order; none for all of a query's, and all of a table's that it does not compute itself.
    pub columns: Option<Vec<String>>,
    /// Columns that come as the database's own text, whatever they hold.
    pub texts: Vec<String>,
    /// Which rows: a condition in the database's own SQL.
    pub filter: Option<String>,
    /// At most so many rows, whichever they are. They are one split.
    pub limit: Option<u64>,
    /// The column whose values cut the splits; none lets the target choose.
    pub split_by: Option<String>,
    /// The most readers wanted, at least 1. There are fewer where they could not see one state, or have nothing to do.
    pub readers: usize,
    /// The bounds of a batch.
    pub batch: BatchBounds,
}

/// The bounds of a batch: it ends with the row that reaches either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchBounds {
    /// Rows.
    pub rows_max: usize,
    /// Bytes, about.
    pub bytes_max: usize,
}

/// A column that is read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadColumn {
    /// Its name.
    pub name: String,
    /// What it holds; never `Any`. Batches have it as [`ColumnType::arrow`].
    pub ty: ColumnType,
    /// Its type in the database's words.
    pub declared: String,
    /// Whether it may hold nulls.
    pub nullable: bool,
}

/// One state of a table or a query's result.
pub struct Snapshot {
    /// Its columns.
    pub columns: Vec<ReadColumn>,
    /// The columns of its primary key in key order; empty where it has none or not all of them are read.
    pub key: Vec<String>,
    /// How many splits there are, numbered from 0. Read in this order, rows come as one reader alone would see them.
    pub splits: usize,
    /// At least one, and no more than were asked for.
    pub readers: Vec<Box<dyn Reader>>,
    /// What a user should know of how it is read, a sentence each.
    pub notes: Vec<String>,
}

impl Snapshot {
    /// The schema of its batches. A field's metadata keeps what its Arrow type does not say, so that a file of them
    /// loaded again makes the same columns.
    pub fn schema(&self) -> SchemaRef {
        schema(&self.columns)
    }
}

/// The schema of batches of `columns`.
pub fn schema(columns: &[ReadColumn]) -> SchemaRef {
    let fields = columns
        .iter()
        .map(|column| column.ty.field(&column.name, column.nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// One connection that reads a [`Snapshot`]. Dropping it ends its transaction.
#[async_trait]
pub trait Reader: Send {
    /// Begins split `split`; what is left of another one is dropped.
    async fn open(&mut self, split: usize) -> Result<()>;

    /// The next rows of the split that was opened; `None` at its end. Batches are never empty. An error names the
    /// row whose value has no exact form, and is the end of this reader.
    async fn next(&mut self) -> Result<Option<RecordBatch>>;
}
