//! The contract of all targets, on the servers. The reference target and SQLite have it in `tonnage-contract`, the example
//! in its own tests.

#[cfg(feature = "cassandra")]
mod cassandra;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
