//! The journal: rows on disk before the database has them.
//!
//! Invariants:
//! - A row counts as journaled once the frame it is in has been fsynced, with the file's directory entry. One fsync
//!   serves all rows that have gathered while the one before was under way.
//! - Frames are appended in the order of their sequence numbers, without gaps. A write that fails is cut off again and
//!   repeated; a failed fsync poisons the journal, as nobody knows what is on disk.
//! - Bytes go where the file has them already, so that an fsync waits for nothing else: segments are prepared ahead of
//!   their use, and files of finished ones are used again. What such a file held before is never right in its new life.
//! - A segment is let go only when the database has said that its last row is durable there.
//! - What is not whole is never applied. In the last group it is a torn write and is cut off; anywhere else rows are
//!   lost, and opening says which.
//! - A journal has an identity of its own, part of the identity of its run in the ledger: the rows of a new journal are
//!   never taken for those of a lost one.
//! - One process has it open: the file `lock` is locked as long.
//!
//! [`format`] has the layout, docs/journal.md the same for people.

mod ahead;
mod format;
#[cfg(all(
    any(test, fuzzing),
    feature = "mysql",
    feature = "postgres",
    feature = "sqlite"
))]
pub(super) mod fuzz;
mod read;
mod recover;
#[cfg(test)]
mod tests;
mod write;

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use serde::{Deserialize, Serialize};

#[cfg(test)]
pub(super) use self::format::tests::old_segment;
pub use self::recover::{Lost, Torn};
use self::{ahead::sync_directory, format::JournalId, recover::Found};
pub(super) use self::{read::Reader, write::Writer};
use super::attach::numbers_used_twice;
use crate::error::{Error, ErrorKind, Result};

const META: &str = "journal.json";
const LOCK: &str = "lock";
/// The first has no recycled segments; it is read, and gone on with in this one.
const FORMAT: u32 = 2;
const FORMAT_LEAST: u32 = 1;

/// A file of the journal, as far as writing goes: tests put one in its place that fails.
pub(super) trait Storage: Send {
    /// Writes all of `bytes` at `offset`.
    fn write(&mut self, bytes: &[u8], offset: u64) -> std::io::Result<()>;
    /// Makes what was written survive the loss of power.
    fn sync(&mut self) -> std::io::Result<()>;
    /// Cuts the file off.
    fn cut(&mut self, length: u64) -> std::io::Result<()>;
}

impl Storage for File {
    fn write(&mut self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, offset)
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, length: u64) -> std::io::Result<()> {
        self.set_len(length)
    }
}

/// What makes a [`Storage`] of a segment's file.
pub(super) type Store = Arc<dyn Fn(File) -> Box<dyn Storage> + Send + Sync>;

/// What `journal.json` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Meta {
    format: u32,
    id: String,
    /// Whether the ledger has a run of this journal.
    begun: bool,
    /// The columns of its table, as they were last seen.
    #[serde(default)]
    columns: Vec<String>,
    /// The first row that was taken while nobody knew how far the database had come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unsure_from: Option<u64>,
}

/// Notes what the database has said, or that it has not, also once the journal is in use.
#[derive(Debug, Clone)]
pub(super) struct Marker {
    directory: PathBuf,
    meta: Meta,
}

impl Marker {
    /// Where the journal is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its identity.
    pub fn id(&self) -> &str {
        &self.meta.id
    }

    /// Notes that rows from `next` on are taken without knowing how far the database has come.
    pub fn unsure(&mut self, next: u64) -> Result<()> {
        let from = self.meta.unsure_from.map_or(next, |from| from.min(next));
        self.meta.unsure_from = Some(from);
        write_meta(&self.directory, &self.meta)
    }

    /// Refuses rows that were taken so, where the database turns out to have their numbers already.
    pub fn check(&self, position: u64) -> Result<()> {
        match self.meta.unsure_from {
            Some(from) if position >= from => Err(numbers_used_twice(&self.directory, from, position)),
            _ => Ok(()),
        }
    }

    /// Notes that the ledger has a run of the journal, and the columns of its table.
    pub fn settle(&self, columns: &[String]) -> Result<()> {
        let meta = Meta {
            begun: true,
            columns: columns.to_vec(),
            unsure_from: None,
            ..self.meta.clone()
        };
        match meta == self.meta {
            true => Ok(()),
            false => write_meta(&self.directory, &meta),
        }
    }
}

/// A journal that this process has locked.
pub(super) struct Journal {
    directory: PathBuf,
    meta: Meta,
    id: JournalId,
    found: Found,
    /// Locked as long as it is open.
    lock: File,
}

/// An I/O error and the file that it concerns.
fn failed(path: &Path, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => ErrorKind::Config,
        _ => ErrorKind::Refused,
    };
    Error::new(kind, format!("journal {}: {error}", path.display()))
}

impl Journal {
    /// Opens the journal in `directory`, which is made if it is not there, and locks it. Changes nothing in it yet.
    ///
    /// `Config` where another process has it, or where it is no journal of this release.
    pub fn open(directory: &Path) -> Result<Self> {
        let make = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory);
        make.map_err(|e| failed(directory, &e))?;
        let path = directory.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path);
        let lock = lock.map_err(|e| failed(&path, &e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::config(format!(
                    "journal {} is in use by another process",
                    directory.display()
                ))
                .hint("a journal has one owner: stop the other, or name another directory"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&path, &error)),
        }
        let path = directory.join(META);
        let meta = match path.try_exists() {
            Ok(true) => read_meta(directory)?,
            Ok(false) => {
                let strangers = fs::read_dir(directory).map_err(|e| failed(directory, &e))?;
                let names = strangers.filter_map(|entry| Some(entry.ok()?.file_name()));
                if let Some(name) = names.into_iter().find(|name| name != LOCK && !is_partial(name)) {
                    return Err(Error::config(format!(
                        "{} is no journal: it has no {META}, but {}",
                        directory.display(),
                        name.to_string_lossy()
                    ))
                    .hint("name an empty directory, or one that is not there"));
                }
                let meta = Meta {
                    format: FORMAT,
                    id: uuid::Uuid::now_v7().simple().to_string(),
                    begun: false,
                    columns: Vec::new(),
                    unsure_from: None,
                };
                write_meta(directory, &meta)?;
                // The directory itself may be new.
                let parent = std::path::absolute(directory).ok();
                if let Some(parent) = parent.as_deref().and_then(Path::parent) {
                    sync_directory(parent)?;
                }
                meta
            }
            Err(error) => return Err(failed(&path, &error)),
        };
        if !(FORMAT_LEAST..=FORMAT).contains(&meta.format) {
            return Err(Error::config(format!(
                "journal {} has format {}, this release knows {FORMAT_LEAST} to {FORMAT}",
                directory.display(),
                meta.format
            ))
            .hint("a later release wrote it: open it with that one, or name a new journal"));
        }
        let id = uuid::Uuid::try_parse(&meta.id)
            .map_err(|_| Error::input(format!("{}: '{}' is no identity", path.display(), meta.id)))?;
        let id = JournalId(*id.as_bytes());
        let found = recover::find(directory, id)?;
        Ok(Self {
            directory: directory.to_owned(),
            meta,
            id,
            found,
            lock,
        })
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its identity.
    pub fn id(&self) -> &str {
        &self.meta.id
    }

    /// Whether the ledger has a run of it.
    pub fn begun(&self) -> bool {
        self.meta.begun
    }

    /// For noting what the database says.
    pub fn marker(&self) -> Marker {
        Marker {
            directory: self.directory.clone(),
            // What is noted from here on is noted by this release.
            meta: Meta {
                format: FORMAT,
                ..self.meta.clone()
            },
        }
    }

    /// Whether the ledger has a run of the journal in `directory`, if there is one. Changes nothing.
    pub fn has_begun(directory: &Path) -> bool {
        let text = fs::read(directory.join(META)).unwrap_or_default();
        serde_json::from_slice::<Meta>(&text).is_ok_and(|meta| meta.begun)
    }

    /// The columns of its table, as they were last seen.
    pub fn columns(&self) -> &[String] {
        &self.meta.columns
    }

    /// Rows up to here the database has: their segments are gone.
    pub fn position_least(&self) -> u64 {
        self.found.first.saturating_sub(1)
    }

    /// The highest row in it.
    pub fn last(&self) -> u64 {
        self.found.last
    }

    /// Whether nobody can tell without the database with which row it began.
    pub fn is_headless(&self) -> bool {
        self.found.is_headless
    }

    /// Rows after `position` that it had and cannot be read.
    pub fn lost(&self, position: u64) -> Vec<Lost> {
        let mut lost = Vec::new();
        if let Some(segment) = self.found.segments.first()
            && self.found.first > position + 1
        {
            lost.push(Lost {
                first: position + 1,
                last: self.found.first - 1,
                segment: segment.path.display().to_string(),
                offset: 0,
            });
        }
        for found in self.found.lost.iter().filter(|lost| lost.last > position) {
            lost.push(Lost {
                first: found.first.max(position + 1),
                ..found.clone()
            });
        }
        lost
    }

    /// The end that has to be cut off.
    pub fn torn(&self) -> Option<&Torn> {
        self.found.torn.as_ref()
    }

    /// What it knows of producers.
    pub fn producers(&self) -> &super::producers::Producers {
        &self.found.producers
    }

    /// Cuts off what lies behind the last frame, and goes on with row `next` in a segment of its own.
    pub fn start(self, next: u64, segment_bytes: u64, store: Store) -> Result<(Writer, Reader)> {
        let (mut segments, mut leftovers) = (self.found.segments, self.found.leftovers);
        if let Some(segment) = segments.last_mut()
            && segment.length > segment.bytes
        {
            let file = OpenOptions::new().write(true).open(&segment.path);
            let cut = file.and_then(|file| file.set_len(segment.bytes).and_then(|()| file.sync_all()));
            cut.map_err(|e| failed(&segment.path, &e))?;
            segment.length = segment.bytes;
        }
        if self.meta.format != FORMAT {
            // As it says now: the database may have been noted in it meanwhile.
            let meta = Meta {
                format: FORMAT,
                ..read_meta(&self.directory)?
            };
            write_meta(&self.directory, &meta)?;
        }
        // Those that never got a row: the new one knows as much.
        let empty = segments.extract_if(.., |segment| !segment.has_rows());
        leftovers.extend(empty.map(|segment| segment.path));
        let segments = Arc::new(Mutex::new(segments));
        let reader = Reader::new(self.id, segments.clone());
        let writer = Writer::new(
            write::Place {
                directory: self.directory,
                id: self.id,
                segment_bytes,
                store,
                _lock: self.lock,
            },
            segments,
            self.found.producers,
            next,
            self.found.next_number,
        )?;
        for path in leftovers {
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!("{}", failed(&path, &error));
            }
        }
        Ok((writer, reader))
    }
}

fn is_partial(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().ends_with(".partial")
}

/// What `journal.json` says.
fn read_meta(directory: &Path) -> Result<Meta> {
    let path = directory.join(META);
    let text = fs::read(&path).map_err(|e| failed(&path, &e))?;
    serde_json::from_slice(&text).map_err(|error| {
        Error::input(format!(
            "{} is not what it was written as: {error}",
            path.display()
        ))
    })
}

/// Writes `journal.json` in one step.
fn write_meta(directory: &Path, meta: &Meta) -> Result<()> {
    let path = directory.join(META);
    let partial = directory.join(format!("{META}.partial"));
    let mut text =
        serde_json::to_vec(meta).map_err(|e| Error::bug(format!("{META} cannot be written: {e}")))?;
    text.push(b'\n');
    let write = || {
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&partial, &path)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|e: std::io::Error| failed(&path, &e))
}
