//! Segments ahead of their use, so that a put waits for nothing but its own bytes.
//!
//! An fsync of a file that grows waits for the file system to commit what it has changed, and with it for what other
//! programs have changed at the same time. An fsync of bytes that were there before waits for the bytes alone. So a thread
//! of its own makes files that are full of zeros and on disk, with their names, before they are needed; and the file of a
//! segment that the database has in full gets another number and is written over.
//!
//! Invariants:
//! - A file is ready once its bytes and its name are on disk. Nobody waits for one: where none is ready, the segment at
//!   hand grows, and failing that a new one is made that grows.
//! - Segments are begun in the order of their numbers. One that was made ready too late gets another number.
//! - Files of finished segments are taken in their order, so that a later one is never gone before an earlier.
//! - Every byte of every file counts against the journal's bound, also while it is being prepared; and preparing leaves
//!   room for the rows that may be waiting.
//! - That a segment cannot be prepared is no error of any row.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    os::unix::fs::OpenOptionsExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    sync::Lock,
};

use super::{
    super::{area::Area, drain::LOOK_AGAIN},
    Storage, failed,
    meta::Newest,
    recover::{Segment, file_name},
    write::SegmentStore,
};

/// So many are prepared once rows come.
const SPARES_LEAST: usize = 2;
/// So many are kept of those that are finished: what the rows of a few seconds take that the database is late by.
const SPARES_MAX: usize = 4;
/// Bytes of the first one. Each is twice as large as the one before, up to a whole segment, so that the first is ready
/// soon and a journal of few rows stays small.
const FIRST_BYTES: u64 = 1 << 20;
/// Zeros are written in pieces of this size.
const FILL_BYTES: usize = 1 << 20;
/// And synced so often: much at once would hold up the rows that go to the same disk.
const SYNC_BYTES: u64 = 4 << 20;
/// How long a disk is left alone on which a segment could not be prepared.
const AGAIN: Duration = Duration::from_secs(30);
/// The name of a file that is being prepared.
const PREPARING: &str = "ahead.segment.partial";

/// A file that may become the next segment.
pub struct Spare {
    pub segment: Segment,
    pub file: Box<dyn Storage>,
}

/// See the module.
pub struct Ahead {
    shared: Arc<AheadState>,
    /// Whether segments are to be prepared: not for the few rows that many openings bring.
    is_wanted: bool,
    thread: Option<JoinHandle<()>>,
}

struct AheadState {
    place: Arc<SegmentStore>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// In the order of their numbers.
    ready: VecDeque<Spare>,
    /// Files to be used again or removed, in order.
    finished: VecDeque<Segment>,
    /// To be noted.
    newest: Option<Newest>,
    is_wanted: bool,
    is_ended: bool,
    /// The next segment's number.
    number: u64,
    /// The length of the next that is made.
    length: u64,
    /// Nothing is made before.
    not_before: Option<Instant>,
}

/// What the thread does next.
enum Task {
    /// Note which segment is there.
    Note(Newest),
    /// Use the file of a finished segment again, or remove it.
    Recycle(Segment),
    /// Make a file of this length, which is counted already.
    Make(u64),
}

impl Ahead {
    /// With `number` for the next segment. Nothing is prepared before it is started.
    pub fn new(place: Arc<SegmentStore>, number: u64) -> Self {
        let state = State {
            ready: VecDeque::new(),
            finished: VecDeque::new(),
            newest: None,
            is_wanted: false,
            is_ended: false,
            number,
            length: FIRST_BYTES.min(place.segment_bytes),
            not_before: None,
        };
        let shared = AheadState {
            place,
            state: Mutex::new(state),
            changed: Condvar::new(),
        };
        Self {
            shared: Arc::new(shared),
            is_wanted: false,
            thread: None,
        }
    }

    /// Starts the thread. `Refused` where the system has none left.
    pub fn start(&mut self, area: &Arc<Area>) -> Result<()> {
        let (shared, area) = (self.shared.clone(), area.clone());
        let thread = std::thread::Builder::new()
            .name("journal ahead".to_owned())
            .spawn(move || {
                // Nobody else removes what is finished with.
                if catch_unwind(AssertUnwindSafe(|| shared.run(&area))).is_err() {
                    let thread = "the thread that prepares the journal's segments";
                    area.fail(&Error::bug(format!("{thread} ended unexpectedly")));
                }
            });
        let thread = thread.map_err(|e| {
            let thread = "the thread that prepares the journal's segments";
            Error::new(ErrorKind::Refused, format!("{thread} cannot start: {e}"))
        })?;
        self.thread = Some(thread);
        Ok(())
    }

    /// The number of a segment that is not one of these.
    pub fn number(&self) -> u64 {
        self.shared.lock().take_number()
    }

    /// Has segments prepared from now on.
    pub fn want(&mut self) {
        if !self.is_wanted {
            self.is_wanted = true;
            self.shared.lock().is_wanted = true;
            self.shared.changed.notify_one();
        }
    }

    /// Whether one is ready that can follow segment `after`.
    pub fn is_ready(&self, after: u64) -> bool {
        let state = self.shared.lock();
        state.ready.iter().any(|spare| spare.segment.number > after)
    }

    /// Has it noted which segment has rows on disk now. Nobody waits for that.
    pub fn note(&self, newest: Newest) {
        self.shared.lock().newest = Some(newest);
        self.shared.changed.notify_one();
    }

    /// The next one that can follow segment `after`.
    pub fn take(&self, after: u64, area: &Area) -> Option<Spare> {
        let mut state = self.shared.lock();
        let mut taken = state.ready.pop_front();
        while let Some(late) = taken.take_if(|spare| spare.segment.number < after) {
            state.finished.push_back(late.segment);
            taken = state.ready.pop_front();
        }
        state.tell_room(area);
        drop(state);
        self.shared.changed.notify_one();
        taken
    }

    /// Takes segments over of which the database has all rows.
    pub fn finished(&self, segments: impl IntoIterator<Item = Segment>) {
        self.shared.lock().finished.extend(segments);
        self.shared.changed.notify_one();
    }

    /// Ends the thread, and removes all files that it had.
    pub fn clear(mut self, area: &Area) -> Result<()> {
        self.end();
        let mut state = self.shared.lock();
        let ready: Vec<Segment> = state.ready.drain(..).map(|spare| spare.segment).collect();
        for segment in state.finished.drain(..).chain(ready) {
            remove(&segment, area)?;
        }
        state.tell_room(area);
        Ok(())
    }

    fn end(&mut self) {
        self.shared.lock().is_ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // It has caught its own panic.
            let _ = thread.join();
        }
    }
}

impl Drop for Ahead {
    /// The journal is unlocked only once nothing of it is changed any more.
    fn drop(&mut self) {
        self.end();
    }
}

impl State {
    fn take_number(&mut self) -> u64 {
        let number = self.number;
        self.number += 1;
        number
    }

    /// Tells how many bytes the next segment has room for.
    fn tell_room(&self, area: &Area) {
        let room = self.ready.front().map_or(0, |spare| spare.segment.length);
        area.lock().journal_room_ahead = room;
    }

    fn task(&mut self, segment_bytes: u64, area: &Area) -> Option<Task> {
        // Before an earlier one goes.
        if let Some(newest) = self.newest.take() {
            return Some(Task::Note(newest));
        }
        if let Some(segment) = self.finished.pop_front() {
            return Some(Task::Recycle(segment));
        }
        let is_due = self.is_wanted
            && self.ready.len() < SPARES_LEAST
            && self.not_before.is_none_or(|time| time <= Instant::now());
        let length = self.length;
        (is_due && area.reserve_journal(length)).then(|| {
            self.length = (length * 2).min(segment_bytes);
            Task::Make(length)
        })
    }
}

impl AheadState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }

    fn run(&self, area: &Area) {
        // An error is reported once, until something succeeds.
        let mut has_failed = false;
        while let Some(task) = self.next(area) {
            let (what, done) = match task {
                Task::Note(newest) => (
                    "the newest segment is not noted",
                    self.place.marker.note_newest(newest),
                ),
                Task::Recycle(segment) => ("a finished segment stays", self.recycle(segment, area)),
                Task::Make(length) => ("no segment is prepared ahead", self.make(length, area)),
            };
            match done {
                Ok(()) => has_failed = false,
                Err(error) if has_failed => tracing::debug!("{what}: {error}"),
                Err(error) => {
                    has_failed = true;
                    tracing::warn!("{what}: {error}");
                }
            }
            // Who waits for room may have it now.
            area.tell();
        }
    }

    /// Waits for something to do; none at the end.
    fn next(&self, area: &Area) -> Option<Task> {
        let mut state = self.lock();
        while !state.is_ended {
            if let Some(task) = state.task(self.place.segment_bytes, area) {
                return Some(task);
            }
            let waited = self.changed.wait_timeout(state, LOOK_AGAIN);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// Makes a finished segment's file the next one, or removes it.
    fn recycle(&self, mut segment: Segment, area: &Area) -> Result<()> {
        let is_kept = segment.is_reusable
            && segment.length >= self.place.segment_bytes
            && self.lock().ready.len() < SPARES_MAX;
        let done = match is_kept {
            true => self.reuse(&mut segment, area).map(Some),
            false => remove(&segment, area).map(|()| None),
        };
        let mut state = self.lock();
        match done {
            Ok(None) => Ok(()),
            Ok(Some(file)) => {
                state.ready.push_back(Spare { segment, file });
                state.tell_room(area);
                Ok(())
            }
            Err(error) => {
                // Those behind it wait for it.
                state.finished.push_front(segment);
                if !state.is_ended {
                    drop(self.changed.wait_timeout(state, LOOK_AGAIN));
                }
                Err(error)
            }
        }
    }

    /// Gives a file a new number, in one step. What it holds is nobody's then.
    fn reuse(&self, segment: &mut Segment, area: &Area) -> Result<Box<dyn Storage>> {
        let file = OpenOptions::new().write(true).open(&segment.path);
        let file = file.map_err(|e| failed(&segment.path, &e))?;
        let longer = segment.length - self.place.segment_bytes;
        if longer > 0 {
            // It had grown while nothing was ready to follow it.
            let cut = file.set_len(self.place.segment_bytes);
            cut.and_then(|()| file.sync_all())
                .map_err(|e| failed(&segment.path, &e))?;
            segment.length -= longer;
            area.lock().shrink_journal(longer);
        }
        self.place.home.check()?;
        let number = self.lock().take_number();
        let path = self.place.home.path().join(file_name(number));
        fs::rename(&segment.path, &path).map_err(|e| failed(&segment.path, &e))?;
        // Also if its name cannot be synced: it is tried again from there.
        *segment = Segment::prepared(number, path, segment.length);
        sync_directory(self.place.home.path())?;
        Ok((self.place.store)(file))
    }

    /// Makes a file full of zeros.
    fn make(&self, length: u64, area: &Area) -> Result<()> {
        let partial = self.place.home.path().join(PREPARING);
        let made = self.fill(&partial, length).and_then(|file| {
            let Some(file) = file else { return Ok(None) };
            let number = self.lock().take_number();
            let path = self.place.home.path().join(file_name(number));
            fs::rename(&partial, &path).map_err(|e| failed(&partial, &e))?;
            let segment = Segment::prepared(number, path, length);
            match sync_directory(self.place.home.path()) {
                Ok(()) => Ok(Some(Spare { segment, file })),
                Err(error) => {
                    let _ = fs::remove_file(&segment.path);
                    Err(error)
                }
            }
        });
        let mut state = self.lock();
        match made {
            Ok(Some(spare)) => {
                state.ready.push_back(spare);
                state.tell_room(area);
                Ok(())
            }
            nothing => {
                // What there is of it goes; if it cannot, the next attempt writes over it.
                let _ = fs::remove_file(&partial);
                area.lock().shrink_journal(length);
                state.length = length;
                state.not_before = Some(Instant::now() + AGAIN);
                nothing.map(|_| ())
            }
        }
    }

    /// Writes zeros, and makes them durable; none where it was ended meanwhile.
    fn fill(&self, path: &Path, length: u64) -> Result<Option<Box<dyn Storage>>> {
        self.place.home.check()?;
        let zeros = vec![0; FILL_BYTES];
        let fill = || -> std::io::Result<Option<Box<dyn Storage>>> {
            let file = OpenOptions::new()
                .create(true)
                .truncate(true)
                .write(true)
                .mode(0o600)
                .open(path)?;
            let mut file = (self.place.store)(file);
            let mut at = 0;
            while at < length {
                if self.lock().is_ended {
                    return Ok(None);
                }
                let bytes = (length - at).min(FILL_BYTES as u64);
                file.write(&zeros[..bytes as usize], at)?;
                at += bytes;
                if at == length || at.is_multiple_of(SYNC_BYTES) {
                    file.sync()?;
                }
            }
            Ok(Some(file))
        };
        fill().map_err(|e| failed(path, &e))
    }
}

fn remove(segment: &Segment, area: &Area) -> Result<()> {
    match fs::remove_file(&segment.path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(&segment.path, &error)),
        _ => {
            area.lock().shrink_journal(segment.length);
            Ok(())
        }
    }
}

/// Makes the names in a directory survive the loss of power.
pub fn sync_directory(directory: &Path) -> Result<()> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|e| failed(directory, &e))
}
