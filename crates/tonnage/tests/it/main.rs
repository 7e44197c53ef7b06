//! Targets against real databases. `make test` starts the servers; see scripts/with-servers.

#[cfg(all(feature = "postgres", feature = "sqlite"))]
mod buffer;
#[cfg(feature = "cassandra")]
mod cassandra;
mod common;
mod contract;
mod gets;
mod ledger_model;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "sqlite")]
mod objects;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod oddities;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(all(feature = "postgres", feature = "sqlite"))]
mod puts;
mod splits;
#[cfg(feature = "sqlite")]
mod sqlite;
