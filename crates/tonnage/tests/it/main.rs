//! Tests against real databases, a module a database.

#[cfg(feature = "sqlite")]
mod sqlite;
//! Tests against real databases. `make test` starts the servers; see scripts/with-servers.

#[cfg(feature = "postgres")]
mod postgres;
