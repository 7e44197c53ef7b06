//! Bulk in and bulk out for databases: every row once, and accounted for.
//!
//! A load takes four steps. [`sources::open`] opens what holds the rows, [`targets::connect`] the database;
//! [`load::prepare`] looks at both and decides the [`plan::Plan`], which writes nothing and can be printed;
//! [`load::Prepared::run`] moves the rows and returns the account, a [`report::Report`].
//!
//! ```
//! use std::sync::Arc;
//! use tonnage::{load, plan::{Create, LoadOptions, OnError}, sources, targets};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let orders = directory.path().join("orders.csv").display().to_string();
//! # let shop = directory.path().join("shop.db").display().to_string();
//! # std::fs::write(&orders, "id,quantity,placed\n1,2,2025-02-28\n2,5,2025-02-30\n")?;
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let source = sources::open(&[orders], None, &sources::TextOptions::default())?;
//! let target = targets::connect(&shop).await?;
//! let options = LoadOptions {
//!     create: Create::Missing,
//!     types: vec![("placed".to_owned(), "date".parse()?)],
//!     on_error: OnError::Reject,
//! #   rejects: Some(directory.path().join("rejects.jsonl")),
//!     ..LoadOptions::new("orders".parse()?)
//! };
//! let prepared = load::prepare(target, targets::redact(&shop), source, options).await?;
//! let ended = prepared.run(Arc::default(), load::Stop::default()).await?;
//! assert_eq!(ended.report.rows.to_string(), "2 read = 1 written + 1 rejected");
//! # ended.error.map_or(Ok(()), |error| Err(error.into()))
//! # })
//! # }
//! ```
//!
//! A program of your own brings its rows as a [`source::Source`], and another database is a [`target::Target`] with
//! its [`target::Writer`] and [`ledger::Ledger`]; nothing else knows which database it is. [`targets::memory`] is the
//! smallest of them, and fails when it is told to.

#![warn(missing_docs)]

pub mod buffer;
pub mod convert;
pub mod database;
pub mod error;
pub mod extent;
pub mod fetch;
#[cfg(all(
    any(test, fuzzing),
    feature = "mysql",
    feature = "postgres",
    feature = "sqlite"
))]
#[doc(hidden)]
pub mod fuzz;
pub mod generate;
pub mod getter;
pub mod ledger;
pub mod load;
pub mod measure;
pub mod operation;
pub mod parse;
pub mod plan;
pub mod preparation;
pub mod put;
pub mod reader;
pub mod reject;
pub mod report;
pub mod router;
pub mod sinks;
pub mod slot;
pub mod source;
pub mod sources;
pub(crate) mod spill;
pub mod statement;
pub mod table;
pub mod target;
pub mod targets;
pub mod types;
pub mod unload;

pub use buffer::{Buffer, Row};
pub use database::{Database, Exec, Load, Unload};
pub use error::{Error, ErrorKind, Result};
pub use fetch::BulkGet;
pub use put::BulkPut;
pub use types::ColumnType;

/// The README's example compiles.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../README.md")]
mod readme {}
