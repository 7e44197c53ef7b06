//! Targets against real databases. `make test` starts the servers; see scripts/with-servers.

mod common;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
