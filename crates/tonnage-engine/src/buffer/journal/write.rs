//! The journal's thread: it takes what has gathered, appends and fsyncs it, and lets go of what the database has.
//!
//! Invariants:
//! - A group goes to one segment, with one fsync; a segment that was prepared gets its header with its first group.
//! - A segment is let go only once a later one has its header on disk, which knows how far numbers and producers are.
//! - A write that fails leaves nothing of its group: the file is cut off.
//! - What is missing at the end is missed: once a segment has rows on disk, `journal.json` comes to name it.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    sync::{Arc, Mutex, MutexGuard},
};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    sync::Lock as _,
};

use super::{
    super::{
        area::{Appended, Area},
        drain::LOOK_AGAIN,
        producers::Producers,
        row::Chunk,
    },
    Storage, Store,
    ahead::{Ahead, sync_directory},
    failed,
    format::{self, JournalId, SegmentHeader},
    lock::{Home, Lock},
    meta::{Marker, Newest},
    recover::{Segment, file_name},
};

/// Bytes of the disk's blocks: whole ones are written into what was prepared, so that nothing has to be read for it.
const BLOCK_BYTES: u64 = 4096;
/// Segments are prepared once this part of one has been written.
const WANTED_FROM: u64 = 64;

/// Where segments are made.
pub struct SegmentStore {
    pub home: Home,
    /// For noting which segments there are.
    pub marker: Marker,
    pub id: JournalId,
    /// A segment of this size gets no further frame.
    pub segment_bytes: u64,
    pub store: Store,
    /// Released when the journal is closed.
    pub _lock: Lock,
}

/// See the module.
pub struct Writer {
    place: Arc<SegmentStore>,
    /// All segments, the one at hand last.
    segments: Arc<Mutex<Vec<Segment>>>,
    /// As they are after what is written.
    producers: Producers,
    file: Box<dyn Storage>,
    ahead: Ahead,
    /// Frames of the group at hand.
    frames: Vec<u8>,
}

/// Why a group is not in the journal.
enum AppendError {
    /// Nothing of it is there: it can be tried again.
    Undone(Error),
    /// Nobody knows what is there.
    Poisoned(Error),
}

impl Writer {
    /// Makes the segment that row `next` goes to.
    pub fn new(
        place: SegmentStore,
        segments: Arc<Mutex<Vec<Segment>>>,
        producers: Producers,
        next: u64,
        number: u64,
    ) -> Result<Self> {
        let (segment, file) = create(&place, &producers, next, number)?;
        locked(&segments).push(segment);
        let place = Arc::new(place);
        Ok(Self {
            ahead: Ahead::new(place.clone(), number + 1),
            place,
            segments,
            producers,
            file,
            frames: Vec::new(),
        })
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        locked(&self.segments).iter().map(|segment| segment.length).sum()
    }

    /// Works until the buffer is closed and everything is drained, or something has ended it.
    pub fn run(mut self, area: &Arc<Area>) {
        if let Err(error) = self.ahead.start(area) {
            return area.fail(&error);
        }
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
            let committed = state.committed;
            let ended = state.failed.is_some() || state.ended && chunks.is_empty();
            drop(state);
            if !chunks.is_empty() {
                match self.append_until_done(&chunks, area) {
                    Ok(appended) => area.journaled(chunks, appended),
                    Err(error) => return area.fail(&error),
                }
            }
            self.let_go(committed);
            if ended {
                // The next opening knows from the ledger what is not needed.
                if let Err(error) = self.close(committed, area) {
                    tracing::warn!("{error}");
                }
                return;
            }
        }
    }

    /// Appends a group, over full disks. An error poisons the journal.
    fn append_until_done(&mut self, chunks: &[Chunk], area: &Area) -> Result<Appended> {
        self.frames.clear();
        for chunk in chunks {
            let tag = chunk.tag.as_ref().map(|(name, first)| (&**name, *first));
            format::encode(&mut self.frames, chunk.first, &chunk.rows, tag)?;
        }
        loop {
            match self.append(chunks, area) {
                Ok(appended) => return Ok(appended),
                Err(AppendError::Poisoned(error)) => return Err(error),
                Err(AppendError::Undone(error)) => {
                    tracing::warn!("rows wait for the journal: {error}");
                    let state = area.lock();
                    if let Some(failure) = &state.failed {
                        return Err(failure.error());
                    }
                    // Rows that the database gets meanwhile may make room.
                    let committed = state.committed;
                    drop(area.wait_on(&area.journal, state, LOOK_AGAIN));
                    self.let_go(committed);
                }
            }
        }
    }

    fn append(&mut self, chunks: &[Chunk], area: &Area) -> Result<Appended, AppendError> {
        if self.is_over() {
            self.rotate(chunks[0].first, area).map_err(AppendError::Undone)?;
        }
        let Some(segment) = locked(&self.segments).last().cloned() else {
            return Err(AppendError::Poisoned(Error::bug("a journal without a segment")));
        };
        let id = self.place.id.segment(segment.number);
        let header = match segment.bytes {
            0 => self.header(chunks[0].first, segment.length).encode(id),
            _ => Vec::new(),
        };
        let place = format::FrameOffsets {
            group: segment.bytes,
            frames: segment.bytes + header.len() as u64,
        };
        format::seal(&mut self.frames, id, place);
        let length = self.frames.len();
        let end = place.frames + length as u64;
        let block_end = end.next_multiple_of(BLOCK_BYTES);
        if block_end <= segment.length {
            self.frames.resize(length + (block_end - end) as usize, 0);
        }
        let mut written = match header.is_empty() {
            true => Ok(()),
            false => self.file.write(&header, 0),
        };
        written = written.and_then(|()| self.file.write(&self.frames, place.frames));
        self.frames.truncate(length);
        if let Err(error) = written {
            if self.file.cut(segment.bytes).is_err() {
                return Err(AppendError::Poisoned(poisoned(&segment.path, &error)));
            }
            if let Some(at_hand) = locked(&self.segments).last_mut() {
                at_hand.length = segment.bytes;
                at_hand.is_reusable = false;
            }
            let mut state = area.lock();
            state.shrink_journal(segment.length - segment.bytes);
            state.journal_room = 0;
            return Err(AppendError::Undone(failed(&segment.path, &error)));
        }
        self.file
            .sync()
            .map_err(|error| AppendError::Poisoned(poisoned(&segment.path, &error)))?;
        self.is_there(&segment).map_err(AppendError::Poisoned)?;
        let grown = end.max(segment.length);
        if let Some(at_hand) = locked(&self.segments).last_mut() {
            at_hand.bytes = end;
            at_hand.length = grown;
            at_hand.last = chunks.last().map_or(segment.last, Chunk::last);
        }
        for chunk in chunks {
            if let Some((name, first)) = &chunk.tag {
                self.producers
                    .note(name, *first, chunk.rows.count(), chunk.last());
            }
        }
        if !segment.has_rows() {
            self.ahead.note(Newest {
                segment: segment.number,
                row: chunks.last().map_or(segment.last, Chunk::last),
            });
        }
        if end >= self.place.segment_bytes / WANTED_FROM {
            self.ahead.want();
        }
        Ok(Appended {
            grown_bytes: grown - segment.length,
            room_bytes: grown - end,
        })
    }

    /// Refuses a segment that was moved away or removed: the next opening would not find it.
    fn is_there(&self, segment: &Segment) -> Result<()> {
        self.place.home.check()?;
        fs::metadata(&segment.path)
            .map(|_| ())
            .map_err(|error| poisoned(&segment.path, &error))
    }

    fn header(&self, first: u64, prepared_bytes: u64) -> SegmentHeader {
        SegmentHeader {
            prepared_bytes,
            first,
            producers: self.producers.clone(),
        }
    }

    /// Whether the group at hand goes to another segment than the rows before it: the one at hand is full, or another is
    /// ready before it would have to grow.
    fn is_over(&self) -> bool {
        let segments = locked(&self.segments);
        let Some(segment) = segments.last() else {
            return true;
        };
        let end = segment.bytes + self.frames.len() as u64;
        segment.has_rows()
            && (segment.bytes >= self.place.segment_bytes
                || end > segment.length && self.ahead.is_ready(segment.number))
    }

    /// Goes on in another segment, which row `first` is the first of.
    fn rotate(&mut self, first: u64, area: &Area) -> Result<()> {
        let at_hand = locked(&self.segments).last().map_or(0, |segment| segment.number);
        let (segment, file) = match self.ahead.take(at_hand, area) {
            Some(mut spare) => {
                spare.segment.first = first;
                spare.segment.last = first.saturating_sub(1);
                (spare.segment, spare.file)
            }
            None => {
                let (segment, file) = create(&self.place, &self.producers, first, self.ahead.number())?;
                area.lock().journal_bytes += segment.length;
                (segment, file)
            }
        };
        area.lock().journal_room = segment.length - segment.bytes;
        self.file = file;
        locked(&self.segments).push(segment);
        Ok(())
    }

    /// Whether a segment can go that is not the one at hand.
    fn removable(&self, committed: u64) -> bool {
        removable(&locked(&self.segments), committed) > 0
    }

    /// Lets the segments go whose rows the database has.
    fn let_go(&self, committed: u64) {
        let mut segments = locked(&self.segments);
        let count = removable(&segments, committed);
        if count > 0 {
            let gone: Vec<Segment> = segments.drain(..count).collect();
            drop(segments);
            self.ahead.finished(gone);
        }
    }

    /// Leaves nothing on disk but what the next opening needs: a large segment whose rows the database has gives way to a
    /// new one, and what was prepared goes.
    fn close(mut self, committed: u64, area: &Area) -> Result<()> {
        let Some(at_hand) = locked(&self.segments).last().cloned() else {
            return Ok(());
        };
        if at_hand.has_rows() && at_hand.last <= committed && at_hand.bytes >= self.place.segment_bytes / 2 {
            let (first, number) = (at_hand.last + 1, self.ahead.number());
            let (segment, file) = create(&self.place, &self.producers, first, number)?;
            area.lock().journal_bytes += segment.length;
            self.file = file;
            locked(&self.segments).push(segment);
            self.let_go(committed);
        } else if at_hand.length > at_hand.bytes {
            self.file
                .cut(at_hand.bytes)
                .map_err(|e| failed(&at_hand.path, &e))?;
            area.lock().shrink_journal(at_hand.length - at_hand.bytes);
        }
        let newest = locked(&self.segments).last().map(|segment| Newest {
            segment: segment.number,
            row: segment.last,
        });
        self.ahead.clear(area)?;
        match newest {
            Some(newest) => self.place.marker.note_newest(newest),
            None => Ok(()),
        }
    }
}

/// How many of the first segments can go. One that has no header yet is as if it were not there.
fn removable(segments: &[Segment], committed: u64) -> usize {
    match segments.split_last() {
        Some((at_hand, before)) if at_hand.bytes > 0 => before
            .iter()
            .take_while(|segment| segment.last <= committed)
            .count(),
        _ => 0,
    }
}

fn locked(segments: &Mutex<Vec<Segment>>) -> MutexGuard<'_, Vec<Segment>> {
    segments.locked()
}

fn poisoned(path: &std::path::Path, error: &std::io::Error) -> Error {
    Error::new(
        ErrorKind::InDoubt,
        format!("journal {}: {error}; it takes no further rows", path.display()),
    )
    .hint("rows that were not acknowledged may or may not be in it: open it again once the disk is well")
}

/// Makes a segment that grows, in one step: it has its name once its header is on disk.
fn create(
    place: &SegmentStore,
    producers: &Producers,
    first: u64,
    number: u64,
) -> Result<(Segment, Box<dyn Storage>)> {
    place.home.check()?;
    let path = place.home.path().join(file_name(number));
    let header = SegmentHeader {
        prepared_bytes: 0,
        first,
        producers: producers.clone(),
    }
    .encode(place.id.segment(number));
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
        Ok(file)
    };
    let file = make().map_err(|e| failed(&path, &e))?;
    sync_directory(place.home.path())?;
    let segment = Segment {
        number,
        path,
        first,
        last: first.saturating_sub(1),
        bytes: header.len() as u64,
        length: header.len() as u64,
        is_reusable: false,
    };
    Ok((segment, file))
}
