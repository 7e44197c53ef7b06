//! How one kind of database is reached.

use std::{path::PathBuf, sync::Arc};

use futures::future::BoxFuture;

use crate::{
    error::Result,
    operation::{Durability, Method},
    password::Password,
    target::Target,
    types::ColumnType,
};

/// A connection being made.
pub type Connecting<'a> = BoxFuture<'a, Result<Arc<dyn Target>>>;

/// How one database is reached again and again: by who opens it only when it is needed, or when it is back.
#[derive(Clone)]
pub struct Connector {
    /// What messages call the database: its URL without a password, or `@name`.
    pub shown: String,
    /// Connects.
    pub connect: Arc<dyn Fn() -> Connecting<'static> + Send + Sync>,
}

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
    /// Options of a target that is given as `name=value name=value`, one of which means this database.
    pub keywords: &'static [&'static str],
    /// What it can be made to do with a row, by [`Operation::name`](crate::operation::Operation::name); a table may
    /// lack what one of them needs.
    pub operations: &'static [&'static str],
    /// The methods it has, fastest first.
    pub methods: &'static [Method],
    /// What [`Method::Native`] is there.
    pub native: &'static str,
    /// The levels of durability there are, weakest first; a database at hand may keep fewer.
    pub durability: &'static [Durability],
    /// The type that a column of a table to be made is declared with, where it is no part of a key; none for a type that
    /// the database has not.
    pub declares: fn(ColumnType) -> Option<String>,
    /// What this crate's tests load into.
    pub verified: &'static str,
    /// Whether it knows passwords.
    pub passwords: bool,
    /// Connects, and finds out what the database can do. A password given separately from the URL comes before any other.
    pub connect: for<'a> fn(&'a str, Option<Password>) -> Connecting<'a>,
    /// The URL as it may be shown: without its password.
    pub redact: fn(&str) -> String,
    /// The files of this machine that the database at the URL consists of, whether they are there or not.
    pub files: fn(&str) -> Vec<PathBuf>,
}

/// [`Driver::files`] of a database behind a connection.
pub fn no_files(_: &str) -> Vec<PathBuf> {
    Vec::new()
}
