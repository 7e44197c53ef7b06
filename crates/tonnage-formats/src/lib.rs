//! Files as sources and sinks of rows: CSV, JSON lines, Parquet and Arrow IPC, plain or compressed.
//!
//! [`sources`] opens files, directories and globs as a [`Source`](tonnage_core::source::Source): it finds out format,
//! compression and types, and cuts the input into blocks. [`sinks`] writes batches to files. [`row`] is a single row on its
//! way, as JSON. [`generate`] makes up rows. Nothing here knows a database.

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod generate;
pub mod sinks;
pub mod sources;

pub use sources::row;
