//! A buffer as it is asked for.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use tonnage_core::{
    driver::Connector,
    error::{Error, Result},
    operation::{Durability, Method, Mode},
    reject::Reject,
    table::TableName,
};

use super::{Buffer, OnReject};
use crate::{connected::Connected, plan::LoadOptions};

/// Bytes of rows in memory, unless asked for.
pub const AREA_BYTES_MAX: usize = 64 << 20;
/// Bytes of the journal on disk, unless asked for.
pub const JOURNAL_BYTES_MAX: u64 = 1 << 30;
/// The least that a journal may be bounded to: a few segments.
pub const JOURNAL_BYTES_LEAST: u64 = 1 << 20;
/// Bytes of rows that are drained without waiting for more, unless asked for.
pub const DRAIN_BYTES: usize = 1 << 20;
/// How long a row waits for others, unless asked for.
pub const DRAIN_AGE: Duration = Duration::from_secs(1);
/// Rejects after which a buffer ends, unless asked for.
pub const REJECTS_MAX: u64 = 1_000_000;
/// The least that the area may be bounded to.
pub const AREA_BYTES_LEAST: usize = 64 << 10;

/// When a put is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ack {
    /// Once the row is in memory: lost if the process dies before it is journaled or drained.
    Accepted,
    /// Once the row is fsynced in the local journal: drained after a crash by the next that opens the journal.
    Journaled,
    /// Once the row is durable in the table or in the rejects.
    Committed,
}

impl fmt::Display for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accepted => "accepted",
            Self::Journaled => "journaled",
            Self::Committed => "committed",
        })
    }
}

/// What a put does for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits.
    Wait,
    /// It fails at once, with [`ErrorKind::Overloaded`](tonnage_core::error::ErrorKind::Overloaded).
    Fail,
}

/// A journal to be opened.
#[derive(Debug, Clone)]
pub struct JournalOptions {
    /// Its directory; made if it is not there.
    pub directory: PathBuf,
    /// The most bytes on disk, what is prepared for rows to come included. Producers are held when they are reached.
    pub bytes_max: u64,
    /// Goes on without rows that are damaged or missing, and with a copy or an older state of a journal that was opened
    /// since; unless asked for, opening such a journal is refused.
    pub accept_loss: bool,
}

/// A buffer being described: [`Connected::buffer`] begins it, [`BufferOptions::open`] opens it.
#[derive(Clone)]
pub struct BufferOptions {
    pub(super) place: BufferTarget,
    pub(super) load: LoadOptions,
    pub(super) ack: Ack,
    pub(super) when_full: WhenFull,
    pub(super) journal: Option<JournalOptions>,
    pub(super) area_bytes_max: usize,
    pub(super) drain_bytes: usize,
    pub(super) drain_age: Duration,
    pub(super) rejects_max: u64,
    pub(super) on_reject: Option<OnReject>,
}

/// The database of a buffer.
#[derive(Clone)]
pub(super) enum BufferTarget {
    Connected(Connected),
    /// Connected to when the buffer is opened, or when it is back.
    Later(Connector),
}

impl BufferTarget {
    /// The database, connected.
    pub async fn connected(&self) -> Result<Connected> {
        match self {
            Self::Connected(database) => Ok(database.clone()),
            Self::Later(connector) => Ok(Connected::new(
                (connector.connect)().await?,
                connector.shown.clone(),
            )),
        }
    }

    /// What it is called.
    pub fn shown(&self) -> String {
        match self {
            Self::Connected(database) => database.url().to_owned(),
            Self::Later(connector) => connector.shown.clone(),
        }
    }
}

impl BufferOptions {
    /// A buffer into a table of a database that is connected to when the buffer is opened. With a journal that was in use
    /// before it opens also while the database is away: rows go to the journal, and are drained once the database answers.
    pub fn connecting(connector: Connector, table: TableName) -> Self {
        Self::of(BufferTarget::Later(connector), table)
    }

    pub(crate) fn new(database: Connected, table: TableName) -> Self {
        Self::of(BufferTarget::Connected(database), table)
    }

    fn of(place: BufferTarget, table: TableName) -> Self {
        Self {
            place,
            load: LoadOptions::new(table),
            ack: Ack::Accepted,
            when_full: WhenFull::Wait,
            journal: None,
            area_bytes_max: AREA_BYTES_MAX,
            drain_bytes: DRAIN_BYTES,
            drain_age: DRAIN_AGE,
            rejects_max: REJECTS_MAX,
            on_reject: None,
        }
    }

    /// The table's schema.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.load.table.schema = Some(schema.into());
        self
    }

    /// Replaces rows whose `key` exists, in the columns that a row names; an empty key takes the primary key.
    #[must_use]
    pub fn upsert<S: Into<String>>(self, key: impl IntoIterator<Item = S>) -> Self {
        self.mode(Mode::Upsert, key)
    }

    /// Leaves rows out whose `key` exists; an empty key takes the primary key.
    #[must_use]
    pub fn ignore<S: Into<String>>(self, key: impl IntoIterator<Item = S>) -> Self {
        self.mode(Mode::Ignore, key)
    }

    /// What happens to rows, and the key that recognises them; an empty key takes the primary key.
    #[must_use]
    pub fn mode<S: Into<String>>(mut self, mode: Mode, key: impl IntoIterator<Item = S>) -> Self {
        self.load.mode = mode;
        self.load.key = key.into_iter().map(Into::into).collect();
        self
    }

    /// Lets an upsert or an ignore go by any unique key that a row meets, where a statement of the database cannot name a single one.
    #[must_use]
    pub fn any_unique_key(mut self) -> Self {
        self.load.any_unique_key = true;
        self
    }

    /// When a put is answered.
    #[must_use]
    pub fn ack(mut self, ack: Ack) -> Self {
        self.ack = ack;
        self
    }

    /// What a put does for which there is no room.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Keeps rows in a journal in `directory` until the database has them. A journal belongs to one table.
    #[must_use]
    pub fn journal(self, directory: impl Into<PathBuf>) -> Self {
        self.journal_options(JournalOptions {
            directory: directory.into(),
            bytes_max: JOURNAL_BYTES_MAX,
            accept_loss: false,
        })
    }

    /// The same, in full.
    #[must_use]
    pub fn journal_options(mut self, journal: JournalOptions) -> Self {
        self.journal = Some(journal);
        self
    }

    /// The most bytes of rows in memory. Rows that are being written take a few times 4 MiB more.
    #[must_use]
    pub fn memory(mut self, bytes_max: usize) -> Self {
        self.area_bytes_max = bytes_max;
        self
    }

    /// Drains when so many bytes have gathered, or when the oldest row is so old.
    #[must_use]
    pub fn drain(mut self, bytes: usize, age: Duration) -> Self {
        self.drain_bytes = bytes;
        self.drain_age = age;
        self
    }

    /// Where bad rows go, and how many end the buffer.
    #[must_use]
    pub fn rejects(mut self, path: impl Into<PathBuf>, max: u64) -> Self {
        self.load.rejects = Some(path.into());
        self.rejects_max = max;
        self
    }

    /// How many bad rows end the buffer; they go to a separate file in the working directory.
    #[must_use]
    pub fn rejects_max(mut self, max: u64) -> Self {
        self.rejects_max = max;
        self
    }

    /// Is called with every row that was put aside, after it is on disk in the rejects and its write is committed;
    /// [`Reject::row`] is its sequence number. It is called by the drain, which waits for it.
    #[must_use]
    pub fn on_reject(mut self, call: impl Fn(&Reject) + Send + Sync + 'static) -> Self {
        self.on_reject = Some(Arc::new(call));
        self
    }

    /// How rows travel.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.load.method = Some(method);
        self
    }

    /// What a commit promises; with a journal no less than that rows survive the loss of power.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.load.durability = Some(durability);
        self
    }

    /// The zone of times that carry none (IANA name).
    #[must_use]
    pub fn timezone(mut self, zone: impl Into<String>) -> Self {
        self.load.timezone = Some(zone.into());
        self
    }

    /// Opens it: connects, finds the table, takes the journal over and begins to drain what it holds. Has to be called
    /// within a Tokio runtime.
    ///
    /// `Config` for bounds that make no sense and for a journal that is in use or another table's; `Schema` where the
    /// table is not there; `Input` where rows of the journal are damaged; `Unsent` where the database is away, unless
    /// [`BufferOptions::connecting`] knows better.
    pub async fn open(self) -> Result<Buffer> {
        if self.ack == Ack::Journaled && self.journal.is_none() {
            return Err(
                Error::config("rows cannot be acknowledged as journaled without a journal")
                    .hint("name a directory for it"),
            );
        }
        if self.area_bytes_max < AREA_BYTES_LEAST {
            return Err(Error::config(format!(
                "{} bytes of memory are less than the {AREA_BYTES_LEAST} that a buffer needs",
                self.area_bytes_max
            )));
        }
        if let Some(journal) = &self.journal
            && journal.bytes_max < JOURNAL_BYTES_LEAST
        {
            return Err(Error::config(format!(
                "{} bytes of journal are less than the {JOURNAL_BYTES_LEAST} that it needs",
                journal.bytes_max
            )));
        }
        if let (Some(_), Some(asked @ (Durability::None | Durability::Relaxed))) =
            (&self.journal, self.load.durability)
        {
            return Err(Error::config(format!(
                "a journal lets go of rows once they are committed, and at durability {asked} the last commits may be \
                 lost with the machine"
            ))
            .hint("leave the durability out: with a journal only the drain waits for it"));
        }
        Buffer::open(self).await
    }
}

impl Connected {
    /// A buffer that takes rows for `table`, one at a time or many, and drains them in the background. See
    /// [`buffer`](crate::buffer).
    pub fn buffer(&self, table: impl Into<String>) -> BufferOptions {
        BufferOptions::new(self.clone(), TableName::bare(table))
    }
}
