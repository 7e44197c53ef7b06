//! Where rows belong: the seam between the engine and a table that is spread over several places.
//!
//! A place is a **shard**: a partition of a table, a database of several. The engine deals the rows of a shard to slots
//! of its own, so that a write holds few shards and a shard is written by few lanes. A router is a pure function of the
//! values of a row, and its [identity](Router::identity) is in the ledger: every attempt deals rows in the same way.

use std::{fmt, sync::Arc};

use arrow::array::{ArrayRef, RecordBatch};

use crate::error::Result;

/// The most shards that rows are dealt to; a table of more is written without dealing.
pub const SHARDS_MAX: usize = 64;

/// See the module.
pub trait Router: fmt::Debug + Send + Sync {
    /// The shards' names, in order; between 1 and [`SHARDS_MAX`].
    fn shards(&self) -> &[String];

    /// The columns that decide, in the order in which [`Router::route`] takes them.
    fn columns(&self) -> &[String];

    /// Columns that a row must bring besides: a shard would fill them otherwise than the table does.
    fn brought(&self) -> &[String];

    /// Whether each shard is a separate database. Then every row must be routed, whatever is done with it, and brings
    /// a value for each deciding column; a lane writes to one shard; and a shard that fails does not end the run.
    fn separate_databases(&self) -> bool;

    /// Changes whenever a row might go to another shard than before.
    fn identity(&self) -> String;

    /// The shard of each row, by the values of the deciding columns in their
    /// [`ColumnType::arrow`](crate::types::ColumnType::arrow) types. A row that belongs to none goes to one that refuses
    /// it.
    fn route(&self, columns: &[ArrayRef]) -> Result<Vec<u16>>;
}

/// A router, and where a plan's batches carry its columns.
#[derive(Debug, Clone)]
pub struct Routing {
    /// The router.
    pub router: Arc<dyn Router>,
    /// Positions of the router's columns among the plan's.
    pub at: Vec<usize>,
    /// Lanes that write at a time, at most; no more than there are.
    pub writes_max: usize,
}

impl Routing {
    /// The shard of each row of a batch in the plan's columns.
    pub fn route(&self, rows: &RecordBatch) -> Result<Vec<u16>> {
        let columns: Vec<_> = self.at.iter().map(|at| rows.column(*at).clone()).collect();
        self.router.route(&columns)
    }

    /// How many shards there are; at least 1.
    pub fn shards(&self) -> usize {
        self.router.shards().len().max(1)
    }

    /// Whether each shard is a separate database: [`Router::separate_databases`].
    pub fn separate_databases(&self) -> bool {
        self.router.separate_databases()
    }
}
