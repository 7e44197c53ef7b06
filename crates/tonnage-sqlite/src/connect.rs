//! Where the file is, and how a connection to it is opened and set.
//!
//! No connection depends on how the library that it is linked with was built, or on what another part of the program has
//! set for all connections: what decides on rows and values is set when a connection is opened. All pragmas of
//! SQLite 3.50 were considered:
//!
//! | Pragma | What it changes | Here |
//! |---|---|---|
//! | `foreign_keys` | rows without a parent are refused | on; off in a copy of a table, whose parents are not copied |
//! | `ignore_check_constraints` | rows against a CHECK are taken | off |
//! | `defer_foreign_keys` | a foreign key is checked at the commit only | off, and again after each transaction |
//! | `recursive_triggers` | triggers of rows that a REPLACE removes | off, as everywhere |
//! | `reverse_unordered_selects` | the order of rows that nothing orders | off |
//! | `case_sensitive_like` | which rows a LIKE in a condition finds | off, as everywhere |
//! | `empty_result_callbacks` `full_column_names` `short_column_names` `count_changes` | names and rows of answers | default |
//! | `writable_schema` | the catalogue can be damaged by a statement | off |
//! | `legacy_alter_table` | whether views follow a table that is renamed | off; on while a table is swapped |
//! | `query_only` | refuses to write | on where rows are read |
//! | `read_uncommitted` | rows of others before their commit, where connections share a cache | off; none is shared |
//! | `synchronous` `wal_autocheckpoint` `busy_timeout` `cache_size` | durability and speed | set by writers |
//! | `journal_mode` `page_size` `auto_vacuum` `encoding` `user_version` `application_id` | the file itself | left: they are the file's |
//! | `locking_mode` | whether others may open the file | left: shared is the default, and the other one fails |
//! | `trusted_schema` `cell_size_check` `integrity_check` `data_version` | safety against files made to harm | left: no row is changed by them |
//! | `temp_store` `mmap_size` `threads` `cache_spill` `analysis_limit` `automatic_index` `optimize` `soft_heap_limit` `hard_heap_limit` | memory and the plan of a query, not its rows | left |

use std::{
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags};
use tonnage_core::{
    error::{Error, Result},
    operation::Durability,
};

use super::errors::{self, Doing};

/// How long a locked file is waited for unless `?busy_timeout_ms=` says otherwise.
const BUSY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// The longest wait that can be asked for.
const BUSY_TIMEOUT_MS_MAX: u64 = 3_600_000;

/// How long is waited before a file is made anew that another process makes at the same time.
const RETRY_AFTER: Duration = Duration::from_millis(5);

/// Page cache of a writer, in KiB.
const CACHE_KIB: u32 = 65_536;

/// Page size of a file that is made here. SQLite's own choice is half of it, which costs twice the writes: a sixth more
/// processor time for rows of 190 bytes.
const PAGE_BYTES: u32 = 8_192;

/// The settings of every connection, in addition to its foreign keys.
const SESSION: &str = "PRAGMA ignore_check_constraints = OFF; PRAGMA defer_foreign_keys = OFF; \
    PRAGMA recursive_triggers = OFF; PRAGMA reverse_unordered_selects = OFF; PRAGMA case_sensitive_like = OFF; \
    PRAGMA writable_schema = OFF; PRAGMA legacy_alter_table = OFF; PRAGMA read_uncommitted = OFF; \
    PRAGMA full_column_names = OFF; PRAGMA short_column_names = ON; PRAGMA empty_result_callbacks = OFF; \
    PRAGMA count_changes = OFF";

/// A database file and how to wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    /// Absolute, so that nothing in it can be taken for a URI or a special name.
    pub(super) path: PathBuf,
    /// How long a locked file is waited for.
    pub(super) busy_timeout: Duration,
    /// Whether foreign keys are checked; not in a copy of a table, whose parents are not copied.
    pub(super) foreign_keys: bool,
}

/// The endings that SQLite adds to a database's name for its other files.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// The database's file and those that SQLite keeps next to it; none where the URL cannot be read.
pub(super) fn files(url: &str) -> Vec<PathBuf> {
    let Ok(location) = Location::parse(url) else {
        return Vec::new();
    };
    let beside = BESIDE.iter().map(|ending| {
        let mut path = location.path.clone().into_os_string();
        path.push(ending);
        PathBuf::from(path)
    });
    std::iter::once(location.path.clone()).chain(beside).collect()
}

impl Location {
    /// Reads `sqlite:path`, `sqlite:///absolute/path` (percent-encoded, options after `?`) or a bare path.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let Some(rest) = url.strip_prefix("sqlite:") else {
            return Self::at(url, BUSY_TIMEOUT_DEFAULT);
        };
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = percent_encoding::percent_decode_str(path)
            .decode_utf8()
            .map_err(|_| Error::config(format!("'{url}' does not decode to UTF-8")))?;
        let mut busy_timeout = BUSY_TIMEOUT_DEFAULT;
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match name.as_ref() {
                "busy_timeout_ms" => {
                    busy_timeout = value
                        .parse()
                        .ok()
                        .filter(|ms| *ms <= BUSY_TIMEOUT_MS_MAX)
                        .map(Duration::from_millis)
                        .ok_or_else(|| {
                            Error::config(format!("busy_timeout_ms={value} is not a number of milliseconds"))
                                .hint(format!("give 0 to {BUSY_TIMEOUT_MS_MAX}"))
                        })?;
                }
                other => {
                    return Err(Error::config(format!("unknown option '{other}' in '{url}'"))
                        .hint("SQLite takes ?busy_timeout_ms=MILLISECONDS"));
                }
            }
        }
        Self::at(&path, busy_timeout)
    }

    /// The file at an absolute path.
    pub(super) fn of(path: PathBuf) -> Self {
        Self {
            path,
            busy_timeout: BUSY_TIMEOUT_DEFAULT,
            foreign_keys: true,
        }
    }

    fn at(path: &str, busy_timeout: Duration) -> Result<Self> {
        if path.is_empty() {
            return Err(Error::config("no database file is named").hint("write sqlite:path.db, or path.db"));
        }
        if path == ":memory:" {
            return Err(
                Error::config("a database in memory would be gone when the load ends")
                    .hint("name a file: sqlite:path.db"),
            );
        }
        let path = std::path::absolute(path)
            .map_err(|error| Error::config(format!("'{path}' is not a path: {error}")))?;
        Ok(Self {
            path,
            busy_timeout,
            foreign_keys: true,
        })
    }

    /// For messages.
    pub(super) fn shown(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// The file was to be there.
    pub(super) fn missing(&self) -> Error {
        Error::schema(format!("{} does not exist", self.shown()))
            .hint("is it the database you mean? A load with --create makes one")
    }

    /// Opens the file; none where there is no file.
    pub(super) fn open_existing(&self) -> Result<Option<Connection>> {
        match self.path.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                Err(Error::config(format!("{} is a directory", self.shown()))
                    .hint("name a database file in it"))
            }
            Ok(_) => self.open(OpenFlags::empty()).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let directory = self.path.parent().unwrap_or(Path::new("/"));
                if directory.is_dir() {
                    return Ok(None);
                }
                Err(Error::config(format!(
                    "{}: the directory {} does not exist",
                    self.shown(),
                    directory.display()
                ))
                .hint("make the directory first, or check the path"))
            }
            Err(error) => {
                Err(Error::config(format!("{} cannot be opened: {error}", self.shown())).caused_by(error))
            }
        }
    }

    /// The file for a table that is made to measure with, next to this one.
    pub(super) fn scratch(&self, name: &str) -> Self {
        let mut path = self.path.clone().into_os_string();
        path.push(".");
        path.push(name);
        Self {
            path: path.into(),
            ..self.clone()
        }
    }

    /// Makes the file with the form of another one.
    pub(super) fn make(&self, form: FileFormat) -> Result<()> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_CREATE)?;
        let failed = |failure| self.failed(failure);
        let journal = match form.journal {
            Journal::Wal => "WAL",
            Journal::Rollback => "DELETE",
        };
        connection
            .execute_batch(&format!("PRAGMA page_size = {}", form.page_bytes))
            .map_err(failed)?;
        connection
            .query_row(&format!("PRAGMA journal_mode = {journal}"), [], |_| Ok(()))
            .map_err(failed)?;
        // The first write fixes the form.
        connection
            .execute_batch("PRAGMA user_version = 1")
            .map_err(failed)
    }

    /// Opens the file, and makes it, in WAL mode, where it is missing or empty.
    pub(super) fn open_or_create(&self) -> Result<Connection> {
        let connection = self.open(OpenFlags::SQLITE_OPEN_CREATE)?;
        let until = Instant::now() + self.busy_timeout;
        while let Err(failure) = make_if_empty(&connection) {
            // Two that make the file at once each hold what the other waits for. SQLite then refuses without waiting.
            let is_busy = errors::code(&failure) & 0xff == rusqlite::ffi::SQLITE_BUSY;
            if !is_busy || Instant::now() >= until {
                return Err(self.failed(failure));
            }
            thread::sleep(RETRY_AFTER);
        }
        Ok(connection)
    }

    fn open(&self, extra: OpenFlags) -> Result<Connection> {
        let failed = |failure| self.failed(failure);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | extra;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(failed)?;
        connection.busy_timeout(self.busy_timeout).map_err(failed)?;
        // The first read: a file that is no database says so here.
        connection
            .query_row("PRAGMA schema_version", [], |_| Ok(()))
            .map_err(failed)?;
        connection
            .execute_batch(&format!("PRAGMA foreign_keys = {}; {SESSION}", self.checks()))
            .map_err(failed)?;
        Ok(connection)
    }

    fn checks(&self) -> &'static str {
        if self.foreign_keys { "ON" } else { "OFF" }
    }

    fn failed(&self, failure: rusqlite::Error) -> Error {
        if errors::code(&failure) == rusqlite::ffi::SQLITE_NOTADB {
            return Error::config(format!("{} is not a SQLite database", self.shown()))
                .code("SQLITE_NOTADB")
                .hint("the database comes last: tonnage load SOURCE... TARGET -t TABLE")
                .caused_by(failure);
        }
        errors::error(failure, Doing::Else).at(self.shown())
    }
}

/// How a file keeps what a commit needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Journal {
    /// A write-ahead log.
    Wal,
    /// A rollback journal.
    Rollback,
}

impl Journal {
    /// That of an open file.
    pub(super) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
        Ok(match mode.eq_ignore_ascii_case("wal") {
            true => Self::Wal,
            false => Self::Rollback,
        })
    }
}

/// What is fixed when a file is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileFormat {
    /// A page.
    pub(super) page_bytes: u32,
    /// What it keeps for a commit.
    pub(super) journal: Journal,
}

impl FileFormat {
    /// That of a file which is made here.
    pub(super) const NEW: Self = Self {
        page_bytes: PAGE_BYTES,
        journal: Journal::Wal,
    };

    /// That of an open file.
    pub(super) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            page_bytes: connection.query_row("PRAGMA page_size", [], |row| row.get(0))?,
            journal: Journal::of(connection)?,
        })
    }
}

/// Makes a file that has nothing in it one in WAL mode.
fn make_if_empty(connection: &Connection) -> rusqlite::Result<()> {
    let pages: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    if pages == 0 {
        connection.execute_batch(&format!("PRAGMA page_size = {PAGE_BYTES}"))?;
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    }
    Ok(())
}

/// How a commit is synced. With a rollback journal NORMAL may corrupt the file when power fails, and only
/// EXTRA syncs the directory that the journal was removed from, without which a commit could be undone
/// (<https://sqlite.org/pragma.html#pragma_synchronous>).
fn synchronous(durability: Durability, journal: Journal) -> &'static str {
    match (durability, journal) {
        (Durability::None | Durability::Relaxed, Journal::Wal) => "NORMAL",
        (Durability::None | Durability::Relaxed, Journal::Rollback) | (_, Journal::Wal) => "FULL",
        (_, Journal::Rollback) => "EXTRA",
    }
}

/// What a writer's connection is set to: pragma and value.
pub(super) fn writer_settings(
    durability: Durability,
    journal: Journal,
    location: &Location,
) -> Vec<(&'static str, String)> {
    let mut settings = vec![
        ("synchronous", synchronous(durability, journal).to_owned()),
        ("foreign_keys", location.checks().to_owned()),
        ("busy_timeout", location.busy_timeout.as_millis().to_string()),
        ("cache_size", format!("-{CACHE_KIB}")),
    ];
    if journal == Journal::Wal {
        // A connection of its own makes them; see `checkpoint`.
        settings.push(("wal_autocheckpoint", "0".to_owned()));
    }
    settings
}

/// Sets a writer's connection; says what the file keeps for a commit.
pub(super) fn set_up_writer(
    connection: &Connection,
    durability: Durability,
    location: &Location,
) -> Result<Journal> {
    let failed = |failure| errors::error(failure, Doing::Else);
    let journal = Journal::of(connection).map_err(failed)?;
    for (pragma, value) in writer_settings(durability, journal, location) {
        // Some of these answer with a row, some do not.
        connection
            .execute_batch(&format!("PRAGMA {pragma} = {value}"))
            .map_err(failed)?;
    }
    Ok(journal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_may_make_a_file_at_once() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..100 {
            let location = Location::of(directory.path().join(round.to_string()));
            thread::scope(|scope| {
                let opening: Vec<_> = (0..8)
                    .map(|_| scope.spawn(|| location.open_or_create()))
                    .collect();
                for opened in opening {
                    assert_eq!(
                        Journal::of(&opened.join().unwrap().unwrap()).unwrap(),
                        Journal::Wal
                    );
                }
            });
        }
    }

    #[test]
    fn urls() {
        let cases = [
            ("sqlite:/a/b.db", "/a/b.db", 10_000),
            ("sqlite:///a/b.db", "/a/b.db", 10_000),
            ("/a/b c?.db", "/a/b c?.db", 10_000),
            ("sqlite:/a/b%20c.db?busy_timeout_ms=250", "/a/b c.db", 250),
        ];
        for (url, path, ms) in cases {
            let location = Location::parse(url).unwrap();
            assert_eq!(location.path, Path::new(path), "{url}");
            assert_eq!(location.busy_timeout, Duration::from_millis(ms), "{url}");
        }
        let relative = Location::parse("sqlite:a.db").unwrap();
        assert_eq!(relative.path, std::env::current_dir().unwrap().join("a.db"));
        for url in [
            "sqlite:",
            "sqlite::memory:",
            "sqlite:a.db?x=1",
            "sqlite:a.db?busy_timeout_ms=soon",
        ] {
            assert!(Location::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn no_level_may_corrupt_the_file() {
        assert_eq!(synchronous(Durability::Durable, Journal::Wal), "FULL");
        assert_eq!(synchronous(Durability::Durable, Journal::Rollback), "EXTRA");
        assert_eq!(synchronous(Durability::Relaxed, Journal::Wal), "NORMAL");
        assert_eq!(synchronous(Durability::Relaxed, Journal::Rollback), "FULL");
    }
}
