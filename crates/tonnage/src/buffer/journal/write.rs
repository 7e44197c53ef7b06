//! The journal's thread: it takes what has gathered, appends and fsyncs it, and removes what the database has.

use std::{
    fs::{self, File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    super::{area::Area, drain::LOOK_AGAIN, producers::Producers, row::Chunk},
    Storage, Store, failed,
    format::{self, JournalId, SegmentHeader},
    recover::{Segment, file_name},
};
use crate::error::{Error, ErrorKind, Result};

/// Where segments are made.
pub struct Place {
    pub directory: PathBuf,
    pub id: JournalId,
    /// A segment of this size gets no further frame.
    pub segment_bytes: u64,
    pub store: Store,
    /// Released when the journal is closed.
    pub _lock: File,
}

/// See the module.
pub struct Writer {
    place: Place,
    /// All segments, the one at hand last.
    segments: Arc<Mutex<Vec<Segment>>>,
    /// As they stand behind what is written.
    producers: Producers,
    file: Box<dyn Storage>,
    /// Frames of the group at hand.
    buffer: Vec<u8>,
}

/// Why a group is not in the journal.
enum Trouble {
    /// Nothing of it is there: it can be tried again.
    Undone(Error),
    /// Nobody knows what is there.
    Poisoned(Error),
}

impl Writer {
    /// Makes the segment that row `next` goes to.
    pub fn new(
        place: Place,
        segments: Arc<Mutex<Vec<Segment>>>,
        producers: Producers,
        next: u64,
    ) -> Result<Self> {
        let (segment, file) = create(&place, &producers, next)?;
        locked(&segments).push(segment);
        Ok(Self {
            place,
            segments,
            producers,
            file,
            buffer: Vec::new(),
        })
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        locked(&self.segments).iter().map(|segment| segment.bytes).sum()
    }

    /// Works until the buffer is closed and everything is drained, or something has ended it.
    pub fn run(mut self, area: &Area) {
        loop {
            let mut state = area.lock();
            let mut chunks = Vec::new();
            while state.failed.is_none() {
                let removable = self.removable(state.committed);
                if !state.pending.is_empty() || removable || state.ended {
                    chunks = state.pending.drain(..).collect();
                    break;
                }
                if state.closing && !state.journal_done {
                    state.journal_done = true;
                    area.drain.notify_one();
                }
                state = area.wait_on(&area.journal, state, LOOK_AGAIN);
            }
            let (committed, next) = (state.committed, state.next);
            let ended = state.failed.is_some() || state.ended && chunks.is_empty();
            drop(state);
            if !chunks.is_empty() {
                if let Err(error) = self.append_until_done(&chunks, area) {
                    area.fail(&error);
                    return;
                }
                area.journaled(chunks, self.bytes());
            }
            match self.remove(committed, next) {
                Ok(true) => {
                    area.lock().journal_bytes = self.bytes();
                    area.tell();
                }
                Ok(false) => {}
                // The next opening knows from the ledger what is not needed.
                Err(error) => tracing::warn!("{error}"),
            }
            if ended {
                return;
            }
        }
    }

    /// Appends a group, over full disks. An error poisons the journal.
    fn append_until_done(&mut self, chunks: &[Chunk], area: &Area) -> Result<()> {
        self.buffer.clear();
        for chunk in chunks {
            let tag = chunk.tag.as_ref().map(|(name, first)| (&**name, *first));
            format::encode(&mut self.buffer, self.place.id, chunk.first, &chunk.rows, tag)?;
        }
        loop {
            match self.append(chunks) {
                Ok(()) => return Ok(()),
                Err(Trouble::Poisoned(error)) => return Err(error),
                Err(Trouble::Undone(error)) => {
                    tracing::warn!("rows wait for the journal: {error}");
                    let state = area.lock();
                    if let Some(failure) = &state.failed {
                        return Err(failure.error());
                    }
                    // Rows that the database gets meanwhile may make room.
                    let committed = state.committed;
                    drop(area.wait_on(&area.journal, state, LOOK_AGAIN));
                    if let Err(error) = self.remove(committed, chunks[0].first) {
                        tracing::warn!("{error}");
                    }
                }
            }
        }
    }

    fn append(&mut self, chunks: &[Chunk]) -> Result<(), Trouble> {
        let is_full = locked(&self.segments)
            .last()
            .is_none_or(|segment| segment.has_rows() && segment.bytes >= self.place.segment_bytes);
        if is_full {
            self.rotate(chunks[0].first).map_err(Trouble::Undone)?;
        }
        let (offset, path) = match locked(&self.segments).last() {
            Some(segment) => (segment.bytes, segment.path.clone()),
            None => return Err(Trouble::Poisoned(Error::bug("a journal without a segment"))),
        };
        if let Err(error) = self.file.write(&self.buffer, offset) {
            return Err(match self.file.cut(offset) {
                Ok(()) => Trouble::Undone(failed(&path, &error)),
                Err(_) => Trouble::Poisoned(poisoned(&path, &error)),
            });
        }
        self.file
            .sync()
            .map_err(|error| Trouble::Poisoned(poisoned(&path, &error)))?;
        if let Some(segment) = locked(&self.segments).last_mut() {
            segment.bytes += self.buffer.len() as u64;
            segment.last = chunks.last().map_or(segment.last, Chunk::last);
        }
        for chunk in chunks {
            if let Some((name, first)) = &chunk.tag {
                self.producers
                    .note(name, *first, chunk.rows.count(), chunk.last());
            }
        }
        Ok(())
    }

    fn rotate(&mut self, first: u64) -> Result<()> {
        let (segment, file) = create(&self.place, &self.producers, first)?;
        self.file = file;
        locked(&self.segments).push(segment);
        Ok(())
    }

    /// Whether a segment can be removed that is not the one at hand.
    fn removable(&self, committed: u64) -> bool {
        let segments = locked(&self.segments);
        segments.len() > 1 && segments.first().is_some_and(|segment| segment.last <= committed)
    }

    /// Removes the segments whose rows the database has; says whether there were any. If that is all there is, a large
    /// segment at hand gives way to a new one, so that a bounded journal never fills up with rows that are done with.
    fn remove(&mut self, committed: u64, next: u64) -> Result<bool> {
        let is_done = locked(&self.segments).last().is_some_and(|segment| {
            segment.has_rows() && segment.last <= committed && segment.bytes >= self.place.segment_bytes / 2
        });
        let written = locked(&self.segments).last().map_or(0, |segment| segment.last);
        if is_done && next > written {
            self.rotate(written + 1)?;
        }
        let mut removed = false;
        while self.removable(committed) {
            let path = match locked(&self.segments).first() {
                Some(segment) => segment.path.clone(),
                None => break,
            };
            fs::remove_file(&path).map_err(|e| failed(&path, &e))?;
            locked(&self.segments).remove(0);
            removed = true;
        }
        Ok(removed)
    }
}

fn locked(segments: &Mutex<Vec<Segment>>) -> MutexGuard<'_, Vec<Segment>> {
    segments.lock().unwrap_or_else(PoisonError::into_inner)
}

fn poisoned(path: &std::path::Path, error: &std::io::Error) -> Error {
    Error::new(
        ErrorKind::InDoubt,
        format!("journal {}: {error}; it takes no further rows", path.display()),
    )
    .hint("rows that were not acknowledged may or may not be in it: open it again once the disk is well")
}

/// Makes a segment in one step: it has its name once its header is on disk.
fn create(place: &Place, producers: &Producers, first: u64) -> Result<(Segment, Box<dyn Storage>)> {
    let path = place.directory.join(file_name(first));
    let header = SegmentHeader {
        first,
        producers: producers.clone(),
    }
    .encode(place.id);
    let partial = path.with_extension("segment.partial");
    let make = || -> std::io::Result<Box<dyn Storage>> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&partial)?;
        let mut file = (place.store)(file);
        file.write(&header, 0)?;
        file.sync()?;
        fs::rename(&partial, &path)?;
        File::open(&place.directory)?.sync_all()?;
        Ok(file)
    };
    let file = make().map_err(|e| failed(&path, &e))?;
    let segment = Segment {
        path,
        first,
        last: first.saturating_sub(1),
        bytes: header.len() as u64,
    };
    Ok((segment, file))
}
