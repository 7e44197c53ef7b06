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
//! - A journal has its own identity, part of the identity of its run in the ledger: the rows of a new journal are
//!   never taken for those of a lost one.
//! - One process has it open, and of several copies of a journal one is gone on with: [`lock`] and [`meta`].
//!
//! [`format`] has the layout, docs/journal.md the same for people.

mod ahead;
mod format;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod lock;
mod meta;
mod read;
mod recover;
#[cfg(test)]
mod tests;
mod write;

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::DirBuilderExt,
    path::Path,
    sync::{Arc, Mutex},
};

use tonnage_core::error::{Error, ErrorKind, Result};

#[cfg(test)]
pub(super) use self::format::tests::old_segment;
pub use self::recover::{Lost, Torn, Uncertain};
use self::{
    ahead::sync_directory,
    format::JournalId,
    lock::{Home, LOCK, Lock, lock},
    meta::{FORMAT, FORMAT_LEAST, META, Meta, Newest},
    recover::Found,
};
pub(super) use self::{meta::Marker, read::Reader, write::Writer};

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

/// A journal that this process has locked.
pub(super) struct Journal {
    home: Home,
    meta: Meta,
    marker: Marker,
    id: JournalId,
    found: Found,
    /// Locked as long as it is open.
    lock: Lock,
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
        let (lock, home) = lock(directory)?;
        let path = directory.join(META);
        let meta = match path.try_exists() {
            Ok(true) => Meta::read(directory)?,
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
                let meta = Meta::new();
                meta.write(directory)?;
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
        let marker = Marker::new(home.clone(), meta.clone(), (found.first, found.last));
        Ok(Self {
            home,
            meta,
            marker,
            id,
            found,
            lock,
        })
    }

    /// Whether the ledger has a run of it.
    pub fn begun(&self) -> bool {
        self.meta.begun
    }

    /// For noting what the database says.
    pub fn marker(&self) -> Marker {
        self.marker.clone()
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

    /// What of it nobody can know, as its end is not there, or not the end that the database has seen.
    pub fn uncertain(&self, position: u64) -> Option<Uncertain> {
        let last = self.found.last;
        let number = self.found.segments.last().map_or(0, |segment| segment.number);
        let reason = match self.meta.newest {
            Some(newest) if newest.segment > number => format!(
                "its newest segment, {}, is missing or damaged",
                recover::file_name(newest.segment)
            ),
            Some(newest) if newest.row > last => {
                format!("it ends at row {last} and had row {}", newest.row)
            }
            _ if position > last => format!("it ends at row {last} and the database has row {position}"),
            _ => return None,
        };
        Some(Uncertain {
            first: last + 1,
            last: None,
            reason,
        })
    }

    /// The end that has to be cut off.
    pub fn torn(&self) -> Option<&Torn> {
        self.found.torn.as_ref()
    }

    /// What it knows of producers.
    pub fn producers(&self) -> &super::producers::Producers {
        &self.found.producers
    }

    /// Cuts off what follows the last frame, and goes on with row `next` in a new segment.
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
        // Those that never got a row: the new one knows as much.
        let empty = segments.extract_if(.., |segment| !segment.has_rows());
        leftovers.extend(empty.map(|segment| segment.path));
        let segments = Arc::new(Mutex::new(segments));
        let reader = Reader::new(self.id, segments.clone());
        let writer = Writer::new(
            write::SegmentStore {
                home: self.home,
                marker: self.marker.clone(),
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
        // Before anything goes that it takes the place of. An earlier release does not know how to open it from here on.
        self.marker.note_newest(Newest {
            segment: self.found.next_number,
            row: next - 1,
        })?;
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
