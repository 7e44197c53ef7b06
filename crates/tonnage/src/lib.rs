//! Bulk in and bulk out for databases: every row once, and accounted for.

pub mod convert;
pub mod database;
pub mod error;
pub mod generate;
pub mod ledger;
pub mod load;
pub mod operation;
pub mod parse;
pub mod plan;
pub mod reject;
pub mod report;
pub mod sinks;
pub mod slot;
pub mod source;
pub mod sources;
pub mod table;
pub mod target;
pub mod targets;
pub mod types;

pub use database::{Database, Load};
pub use error::{Error, ErrorKind, Result};
pub use types::ColumnType;
