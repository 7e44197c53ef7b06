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
//! let ended = prepared.run(Arc::default(), tonnage::stop::Stop::default()).await?;
//! assert_eq!(ended.report.rows.to_string(), "2 read = 1 written + 1 rejected");
//! # ended.error.map_or(Ok(()), |error| Err(error.into()))
//! # })
//! # }
//! ```
//!
//! A program of your own brings its rows as a [`source::Source`], and another database is a [`target::Target`] with
//! its [`target::Writer`] and [`ledger::Ledger`]; nothing else knows which database it is. `tonnage_testing::memory` is the
//! smallest of them, and fails on request.

#![warn(missing_docs)]

pub mod database;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod targets;

pub use tonnage_bench::measure;
pub use tonnage_core::{
    convert, driver, error, extent, getter, instruments, ledger, operation, parse, preparation, reader,
    reject, report, router, schema, slot, source, statement, stop, table, target, types,
};
/// An example:
///
/// ```
/// use tonnage::{Database, row::Row};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("house.db");
/// # let shown = path.display().to_string();
/// # let made = rusqlite::Connection::open(&path)?;
/// # made.execute_batch("CREATE TABLE readings (device TEXT, value REAL)")?;
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let db = Database::connect(&shown).await?;
/// let buffer = db.buffer("readings").open().await?;
/// let sequence = buffer.put(Row::json(r#"{"device": "a7", "value": 21.5}"#)).await?;
/// buffer.wait(sequence).await?;
/// assert_eq!((sequence, buffer.committed()), (1, 1));
/// let report = buffer.close().await?;
/// assert_eq!(report.rows.written, 1);
/// # Ok(())
/// # })
/// # }
/// ```
pub use tonnage_engine::buffer;
/// An example:
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use tonnage::{ColumnType, Database, Row, put::AfterFailure};
/// # use tonnage::sources::{self, TextOptions};
///
/// #[derive(serde::Serialize)]
/// struct Order { id: i64, total: &'static str }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let shop = directory.path().join("shop.db").display().to_string();
/// # let none = directory.path().join("none.csv").display().to_string();
/// # std::fs::write(&none, "id,total\n1,1.50\n")?;
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let db = Database::connect(&shop).await?;
/// # db.load(&none).table("orders").create(["id"]).column_type("total", "decimal(6,2)".parse()?).run().await?;
/// // The table orders (id, total) has the order 1.
/// let shops = [
///     vec![Order { id: 1, total: "9.99" }, Order { id: 2, total: "4.20" }],
///     vec![Order { id: 3, total: "free" }, Order { id: 4, total: "0.00" }],
/// ];
/// let streams = shops.map(|orders| orders.into_iter().filter_map(|order| Row::of(&order).ok()));
/// let told = Arc::new(Mutex::new(Vec::new()));
/// let tell = |what: &'static str| {
///     let told = told.clone();
///     move |stream: usize, row: u64| told.lock().unwrap().push((what, stream, row))
/// };
/// let (completed, exists, failed) = (tell("completed"), tell("exists"), tell("failed"));
/// let report = db
///     .bulk_put("orders")
///     .rows(["id", "total"], streams)
///     .stream_parallelism(2)
///     .on_completed(move |stream| completed(stream, 0))
///     .on_key_exists(move |entry| exists(entry.stream, entry.row))
///     .on_failed(move |_, entry| {
///         failed(entry.stream, entry.row);
///         AfterFailure::Continue
///     })
///     .run()
///     .await?;
/// assert_eq!((report.written, report.key_exists, report.failed), (2, 1, 1));
/// let mut told = told.lock().unwrap().clone();
/// told.sort();
/// assert_eq!(told, [("completed", 0, 0), ("completed", 1, 0), ("exists", 0, 1), ("failed", 1, 1)]);
/// # Ok(())
/// # })
/// # }
/// ```
pub use tonnage_engine::put;
pub use tonnage_engine::{connected, copy, fetch, job, load, plan, unload, verify};
pub use tonnage_formats::{generate, row, sinks, sources};

pub use self::database::Database;
pub use buffer::Buffer;
pub use error::{Error, ErrorKind, Result};
pub use fetch::BulkGet;
pub use load::builder::{Exec, Load};
pub use put::BulkPut;
pub use row::Row;
pub use types::ColumnType;
pub use unload::builder::Unload;
pub use verify::builder::Verify;

/// The examples of the book's page compile.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../docs/library.md")]
mod library {}
