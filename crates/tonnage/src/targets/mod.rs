//! The databases: one folder each, one line each in [`DRIVERS`]. Nothing outside this folder names a database.

pub mod memory;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "postgres")]
pub mod postgres;

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::{error::Result, target::Target};

/// How to reach one kind of database.
pub struct Driver {
    /// Its name for people.
    pub name: &'static str,
    /// The URL schemes it answers to.
    pub schemes: &'static [&'static str],
    /// An example URL.
    pub example: &'static str,
    /// File name endings that mean this database when a target is given without a scheme.
    pub extensions: &'static [&'static str],
    /// Connects, and finds out what the database can do.
    pub connect: for<'a> fn(&'a str) -> BoxFuture<'a, Result<Arc<dyn Target>>>,
    /// The URL as it may be shown: without its password.
    pub redact: fn(&str) -> String,
}

/// Every database there is.
pub const DRIVERS: &[Driver] = &[
    #[cfg(feature = "sqlite")]
    sqlite::DRIVER,
    #[cfg(feature = "postgres")]
    postgres::DRIVER,
];
