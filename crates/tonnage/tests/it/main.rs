//! Tests against real databases, a module a database.

#[cfg(feature = "sqlite")]
mod sqlite;
