//! Bulk in and bulk out for databases: every row once, and accounted for.

pub mod convert;
pub mod error;
pub mod ledger;
pub mod operation;
pub mod parse;
pub mod plan;
pub mod reject;
pub mod slot;
pub mod source;
pub mod sources;
pub mod table;
pub mod target;
pub mod targets;
pub mod types;

pub use error::{Error, ErrorKind, Result};
pub use types::ColumnType;
