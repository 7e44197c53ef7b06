//! The plan: what will be done, decided once, printable, and nothing downstream reads anything else.

use std::sync::Arc;

use crate::{
    operation::{Durability, Method, Operation},
    table::Table,
    types::ColumnType,
};

/// A column the plan writes.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanColumn {
    /// Index in the source.
    pub source: usize,
    /// Name in the source.
    pub source_name: String,
    /// Index in [`Table::columns`].
    pub target: usize,
    /// Name in the table.
    pub name: String,
    /// The type its values have when they reach the writer; never `Any`.
    pub ty: ColumnType,
}

/// The resolved decision.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The table.
    pub table: Arc<Table>,
    /// The columns written, in the order in which batches carry them.
    pub columns: Vec<PlanColumn>,
    /// What happens to a row.
    pub operation: Operation,
    /// How rows travel.
    pub method: Method,
    /// What a commit promises.
    pub durability: Durability,
    /// Lanes.
    pub jobs: usize,
    /// The most rows of a write; a write is a commit.
    pub batch_rows: usize,
    /// The most Arrow bytes of a write, but at least one row.
    pub batch_bytes: usize,
}
