//! What the tests of all crates share.
//!
//! [`memory`] is the reference target: a database in memory that does what the seams say and fails on request.
//! [`corpus`] gives the files of `fuzz/corpus`, and broken forms of them, to what reads foreign bytes.
//! [`duckdb_library`] finds the library that DuckDB is.

pub mod corpus;
mod duckdb;
pub mod memory;

pub use self::duckdb::duckdb_library;
