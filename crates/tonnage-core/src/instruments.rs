//! The seam between measuring and a database: scratch tables, and what the database reports of its work.
//!
//! Invariants of every implementation:
//! - What is made bears the name that it was asked for and lies where no table of the user's is looked for; nothing else
//!   is made, changed or emptied.
//! - Whatever was made for a name is gone after [`Instruments::discard`], which succeeds where nothing is there.

mod form;
mod place;

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use async_trait::async_trait;

pub use self::{
    form::{Keys, Making, Partitions, Storage, TableForm},
    place::{Address, Listening, Servers},
};
use crate::{
    error::{Error, Result},
    operation::{Method, Mode},
    table::{Table, TableName},
    target::Target,
};

/// Where tables for measuring will be, before any is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScratchPlace {
    /// For people: `tables tonnage_bench_1f2e_* in PostgreSQL 15.18`.
    pub shown: String,
    /// Whether that is outside the database itself, so that nothing of it is touched.
    pub outside_database: bool,
}

/// An empty copy of a user's table.
pub struct Copied {
    /// Where it is; none for the database that was asked.
    pub target: Option<Arc<dyn Target>>,
    /// Its name there.
    pub table: TableName,
    /// What the table has and the copy has not, a phrase each: `trigger audit`.
    pub lacking: Vec<String>,
}

/// What a table takes on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// The rows themselves; none where they cannot be separated from the indexes.
    pub rows_bytes: Option<u64>,
    /// Rows and indexes.
    pub bytes: u64,
    /// A page.
    pub page_bytes: u64,
}

/// How far a database has come with its log: totals that only grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogMark {
    /// Bytes of log since its beginning.
    pub bytes: u64,
    /// Changes of pages, or pages, that were logged, where the database counts them.
    pub changes: Option<u64>,
}

/// A figure, or why there is none.
pub type Measured<T> = std::result::Result<T, String>;

/// What a database has done since it began to count: totals that only grow, whoever asked for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// Flushes of its log to disk.
    pub log_flushes: Measured<u64>,
    /// Bytes that it wrote to its files: the log, pages and everything else.
    pub written_bytes: Measured<u64>,
    /// Processor seconds, where it counts them itself.
    pub processor_seconds: Option<f64>,
    /// The sessions that there are, as far as [`Instruments::work`] has to know them.
    pub sessions: Vec<i64>,
}

impl Work {
    /// Of a database that counts nothing of it, because of `why`.
    pub fn untold(why: &str) -> Self {
        Self {
            log_flushes: Err(why.to_owned()),
            written_bytes: Err(why.to_owned()),
            processor_seconds: None,
            sessions: Vec::new(),
        }
    }
}

/// Records of the log that are about one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Records {
    /// They could be counted.
    Counted {
        /// What a record is there: `WAL record`.
        what: &'static str,
        /// Records of the table's rows; those of its indexes too, where the two cannot be separated.
        rows: u64,
        /// Records of its indexes.
        indexes: Option<u64>,
        /// Bytes that the log has because of the table's rows, images taken off; none where only its length is known.
        bytes: Option<u64>,
        /// Bytes of images of whole pages, which depend on when the last checkpoint was and not on the method.
        image_bytes: u64,
        /// Whether what others do is counted as well, so that the background must be subtracted.
        shared: bool,
    },
    /// They could not.
    Unknown {
        /// Why, and what would help, a sentence.
        why: String,
    },
}

/// What the catalogue says of how rows of a table are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// A sentence without a full stop.
    pub text: String,
    /// Whether it makes the database take rows one by one although an empty copy without it does not show that.
    pub decides: bool,
}

impl Cause {
    /// What also the copy shows, or what only adds to it.
    pub fn shown(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            decides: false,
        }
    }
}

impl ScratchPlace {
    /// Tables whose names begin with `prefix`, in the database itself.
    pub fn in_database(prefix: &str) -> Self {
        Self {
            shown: format!("tables {prefix}_* in the database"),
            outside_database: false,
        }
    }
}

/// Whether the copy of a table has its triggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Triggers {
    /// It does.
    Copied,
    /// It has none.
    LeftOut,
}

/// What measuring needs of a target. See the module.
#[async_trait]
pub trait Instruments: Send + Sync {
    /// Where tables whose names begin with `prefix` will be.
    fn place(&self, prefix: &str) -> ScratchPlace;

    /// Where the table `name` is to be created, with pages of so many bytes where `page_bytes` asks for it; none for the
    /// database itself.
    async fn scratch(&self, name: &str, page_bytes: Option<u32>) -> Result<Option<Arc<dyn Target>>>;

    /// Why no table of this form can be made; none where it can. Writes nothing.
    async fn obstacle(&self, form: &TableForm) -> Result<Option<String>>;

    /// Makes a table, of a form that meets no [obstacle](Instruments::obstacle), in the database that this is. `Refused` where
    /// the database took the statement and made something else.
    async fn make(&self, making: &Making) -> Result<()>;

    /// Where its server listens, so that a longer way there can be made. `Config` with the reason where there is no such
    /// place, or a driver that would go past it.
    fn address(&self) -> Result<Address>;

    /// The same database by way of `local`, which passes on to [`Instruments::address`]. Whom it takes for its server, and what
    /// it asks of his certificate, stays as it is.
    async fn through_proxy(&self, local: SocketAddr) -> Result<Arc<dyn Target>>;

    /// Where its servers listen and what their processes are called, so that these can be found where they run on this
    /// machine; or why there are none to be found.
    async fn servers(&self) -> Result<Measured<Servers>>;

    /// What it has done so far. With what it had done before `since`, connections that were closed since then are given a
    /// moment to tell of their work, where they only do so as they end.
    async fn work(&self, since: Option<&Work>) -> Result<Work>;

    /// An empty copy of `table`, with its indexes and checks and with its own sequences, for the name `name`. What its
    /// triggers do to other tables they do.
    async fn copy(&self, table: &Table, name: &str, triggers: Triggers) -> Result<Copied>;

    /// A value, as text, for each column of `table` whose values are none that its type has elsewhere (an array, a label of
    /// an enumeration), by the column's name: rows are made up of them.
    async fn samples(&self, table: &Table) -> Result<BTreeMap<String, String>>;

    /// Removes all that was made for `name`. Nothing may use it any more.
    async fn discard(&self, name: &str) -> Result<()>;

    /// The names of what is there whose name begins with `prefix`, as [`Instruments::discard`] takes them.
    async fn left(&self, prefix: &str) -> Result<Vec<String>>;

    /// What a table takes on disk; none where the database does not tell.
    async fn disk(&self, table: &TableName) -> Result<Option<Disk>>;

    /// How far the log is; none where this user may not know.
    async fn log(&self) -> Result<Option<LogMark>>;

    /// Keeps what is logged from now on for [`Instruments::records`], until what it returns is dropped; none where the database
    /// keeps it anyway, or this user may not ask for it.
    async fn keep_log(&self) -> Result<Option<Box<dyn Send + Sync>>>;

    /// The records about `table` that `operation` leaves, between two marks.
    async fn records(&self, table: &Table, operation: Mode, from: &LogMark, to: &LogMark) -> Result<Records>;

    /// Why `operation` with `columns` on `table` by `method` would be taken row by row, or costs what it costs.
    async fn causes(
        &self,
        table: &Table,
        operation: Mode,
        method: Method,
        columns: &[String],
    ) -> Result<Vec<Cause>>;
}

/// Why there is no [other way](Instruments::through_proxy) to a database without an `address`.
pub fn no_way_to(address: Result<Address>) -> Error {
    address
        .err()
        .unwrap_or_else(|| Error::bug("a database with an address and no way to it"))
}

/// The refusal of a longer way, because of `why`.
pub fn not_by_tcp(why: &str) -> Error {
    Error::config(format!("{why}, so no longer way there can be made"))
        .hint("leave --rtt and --bandwidth out")
}
