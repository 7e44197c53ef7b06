//! The memory area: rows from their acceptance to their commit, and the marks that say how far they have come.
//!
//! Invariants:
//! - Sequence numbers are given under one lock, from 1 on, without gaps, and rows leave the area in their order.
//! - `committed <= journaled < next`: a row is drained only once it is journaled (without a journal, once it is
//!   accepted), and `committed` moves only when the database has said that the rows up to it are durable.
//! - Rows count against the area's bound until they are committed. With a journal, rows that find no room stay in the
//!   journal alone (`spilled`), all from there on, and are read back in order.
//! - Whoever waits for a row is woken once a mark has reached it, everyone else by every change; nobody holds the lock
//!   while waiting.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    sync::Lock,
};
use tonnage_formats::row::Row;

pub use super::{
    producers::Producers,
    row::{Chunk, Rows},
    waits::{Reached, Waits},
};

/// How much the area and what is behind it may hold. See [`BufferOptions`](super::BufferOptions).
#[derive(Debug, Clone)]
pub(super) struct Limits {
    pub area_bytes_max: usize,
    pub pending_bytes_max: usize,
    pub journal_bytes_max: u64,
    pub drain_bytes: usize,
    pub drain_age: Duration,
    pub has_journal: bool,
}

/// The most bytes of one row.
const ROW_BYTES_MAX: usize = 64 << 20;

/// What ended the buffer, for everyone who asks.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub fn of(error: &Error) -> Self {
        Self {
            kind: error.kind(),
            message: error.to_string(),
            hint: error.hint_text().map(str::to_owned),
        }
    }

    pub fn error(&self) -> Error {
        let error = Error::new(self.kind, &self.message);
        match &self.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// Counters that only grow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub rows_in: u64,
    pub bytes_in: u64,
    pub duplicates: u64,
    pub refused: u64,
    pub drains: u64,
    pub groups: u64,
}

/// What the lock guards.
pub(super) struct State {
    /// The sequence number of the next row.
    pub next: u64,
    /// Rows up to here are in the journal; without one, accepted.
    pub journaled: u64,
    /// The low mark: rows up to here are durable in the table or in the rejects.
    pub committed: u64,
    /// Accepted, not yet journaled.
    pub pending: VecDeque<Chunk>,
    pub pending_bytes: usize,
    /// To be drained.
    pub queue: VecDeque<Chunk>,
    pub queue_bytes: usize,
    /// Bytes of rows that are queued or on their way to the database.
    pub held_bytes: usize,
    /// The highest that it was.
    pub held_bytes_peak: usize,
    /// Taken to be drained: the last sequence number and the bytes of each chunk.
    flights: VecDeque<(u64, usize, Instant)>,
    /// From this row on rows are in the journal alone; and since when.
    pub spilled: Option<(u64, Instant)>,
    /// Bytes of the journal's files, those included that are prepared or being prepared.
    pub journal_bytes: u64,
    /// How many of them the segment at hand has room for.
    pub journal_room: u64,
    /// And the one that is ready to follow it; 0 where none is.
    pub journal_room_ahead: u64,
    /// Rows up to here are wanted at once.
    flush_to: u64,
    /// How many follow the low mark, to tell producers of it.
    followers: usize,
    /// No further rows are taken.
    pub closing: bool,
    /// The journal takes no further rows, as all that there will be are in it.
    pub journal_done: bool,
    /// All rows are drained and the parts have ended.
    pub ended: bool,
    pub failed: Option<Failure>,
    pub producers: Producers,
    pub counters: Counters,
    wait_journaled: Waits,
    wait_committed: Waits,
}

/// See the module.
pub(super) struct Area {
    limits: Limits,
    state: Mutex<State>,
    /// For whoever waits for room, for the end or for a mark to move at all.
    changed: Notify,
    /// For the drain.
    pub drain: Notify,
    /// For the journal's thread.
    pub journal: Condvar,
}

/// Whether rows were taken.
pub(super) enum Offered {
    /// They were; the sequence number of the last one.
    Taken(u64),
    /// There is no room now.
    Full,
}

/// What a group of rows has changed about the journal's files.
pub(super) struct Appended {
    /// By how much they have grown.
    pub grown_bytes: u64,
    /// How much room the segment at hand has now.
    pub room_bytes: u64,
}

/// What the drain is to do.
pub(super) enum Take {
    /// Write these.
    Rows(Vec<Chunk>),
    /// Read on in the journal from this row on, up to that one.
    Spilled(u64, u64),
    /// Nothing yet; look again at this time, if nothing happens before.
    Wait(Option<Instant>),
    /// Nothing more will come.
    End,
}

/// A mark that can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Journaled,
    Committed,
}

impl Area {
    /// Of rows from `next` on, those before being accounted for but for `spilled` ones.
    pub fn new(
        limits: Limits,
        next: u64,
        committed: u64,
        spilled: Option<u64>,
        producers: Producers,
    ) -> Self {
        Self {
            limits,
            state: Mutex::new(State {
                next,
                journaled: next - 1,
                committed,
                pending: VecDeque::new(),
                pending_bytes: 0,
                queue: VecDeque::new(),
                queue_bytes: 0,
                held_bytes: 0,
                held_bytes_peak: 0,
                flights: VecDeque::new(),
                spilled: spilled.map(|first| (first, Instant::now())),
                journal_bytes: 0,
                journal_room: 0,
                journal_room_ahead: 0,
                flush_to: 0,
                followers: 0,
                closing: false,
                journal_done: false,
                ended: false,
                failed: None,
                producers,
                counters: Counters::default(),
                wait_journaled: Waits::default(),
                wait_committed: Waits::default(),
            }),
            changed: Notify::new(),
            drain: Notify::new(),
            journal: Condvar::new(),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }

    /// Waits on `condvar` for at most `most`.
    pub fn wait_on<'a>(
        &self,
        condvar: &Condvar,
        state: MutexGuard<'a, State>,
        most: Duration,
    ) -> MutexGuard<'a, State> {
        let waited = condvar.wait_timeout(state, most);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes those whose rows a mark has reached, and everyone who waits for room or for the end.
    pub fn tell(&self) {
        let mut state = self.lock();
        // Where it has ended nobody is to wait any more.
        let over = state.failed.is_some() || state.ended;
        let (journaled, committed) = match over {
            true => (u64::MAX, u64::MAX),
            false => (state.journaled, state.committed),
        };
        let reached = [
            state.wait_journaled.reached(journaled),
            state.wait_committed.reached(committed),
        ];
        drop(state);
        for waker in reached.into_iter().flat_map(BTreeMap::into_values) {
            waker.wake();
        }
        self.changed.notify_waiters();
    }

    /// Waits until `mark` has reached row `sequence`.
    pub fn reached(&self, mark: Mark, sequence: u64) -> Reached<'_> {
        Reached::new(self, mark, sequence)
    }

    /// Takes one row, if there is room. Of a named producer only if it has not sent the row before, by its own number
    /// of it; the answer is then the sequence number of its last one.
    pub fn offer_row(&self, row: &Row, tag: Option<(&Arc<str>, u64)>) -> Result<Offered> {
        let bytes = row.text().len();
        if bytes > ROW_BYTES_MAX {
            return Err(Error::config(format!(
                "a row of {bytes} bytes is longer than {ROW_BYTES_MAX}"
            )));
        }
        self.check_size(bytes)?;
        let mut state = self.lock();
        state.check_open()?;
        if let Some((name, number)) = tag
            && state.producers.known(name, number, 1)? > 0
        {
            state.counters.duplicates += 1;
            let sequence = state.producers.sequence(name);
            return Ok(Offered::Taken(sequence.unwrap_or(state.next - 1)));
        }
        let named = tag.map_or(0, |(name, _)| name.len());
        if !self.has_room(&state, bytes + named + Rows::one_overhead_bytes()) {
            return Ok(Offered::Full);
        }
        let sequence = state.next;
        if let Some((name, number)) = tag {
            state.producers.note(name, number, 1, sequence);
        }
        let chunks = match self.limits.has_journal {
            true => &mut state.pending,
            false => &mut state.queue,
        };
        match chunks.back_mut().filter(|chunk| chunk.takes(row, tag)) {
            Some(chunk) => {
                let grown = chunk.push(row);
                state.next += 1;
                self.count(&mut state, 1, grown);
            }
            None => {
                let chunk = Chunk {
                    first: sequence,
                    born: Instant::now(),
                    rows: Rows::one(row),
                    tag: tag.map(|(name, number)| (name.clone(), number)),
                };
                self.append(&mut state, chunk);
            }
        }
        Ok(Offered::Taken(sequence))
    }

    /// How many of the first `rows` of a producer's batch are known already, the first being its row `first`.
    pub fn known(&self, name: &str, first: u64, rows: u64) -> Result<u64> {
        self.lock().producers.known(name, first, rows)
    }

    /// Takes rows as a whole, if there is room. Of a named producer only those beyond what it has sent before, by its
    /// own number of the first; the answer is then the sequence number of its last one.
    pub fn offer_rows(&self, mut rows: Rows, tag: Option<(&Arc<str>, u64)>) -> Result<Offered> {
        let mut state = self.lock();
        state.check_open()?;
        let mut producer = None;
        if let Some((name, first)) = tag {
            let known = state.producers.known(name, first, rows.count())?;
            if known > 0 && known == rows.count() {
                state.counters.duplicates += known;
                let sequence = state.producers.sequence(name);
                return Ok(Offered::Taken(sequence.unwrap_or(state.next - 1)));
            }
            if known > 0 {
                rows = rows.tail(known as usize);
            }
            producer = Some((name.clone(), first + known, known));
        }
        let count = rows.count();
        if count == 0 {
            return Ok(Offered::Taken(state.next - 1));
        }
        self.check_size(rows.bytes())?;
        let named = tag.map_or(0, |(name, _)| name.len());
        if !self.has_room(&state, rows.bytes() + named) {
            return Ok(Offered::Full);
        }
        let first = state.next;
        let last = first + count - 1;
        let mut tag = None;
        if let Some((name, own_first, known)) = producer {
            state.counters.duplicates += known;
            state.producers.note(&name, own_first, count, last);
            tag = Some((name, own_first));
        }
        let chunk = Chunk {
            first,
            born: Instant::now(),
            rows,
            tag,
        };
        self.append(&mut state, chunk);
        Ok(Offered::Taken(last))
    }

    fn check_size(&self, bytes: usize) -> Result<()> {
        let most = match self.limits.has_journal {
            true => self.limits.pending_bytes_max.min(self.limits.area_bytes_max),
            false => self.limits.area_bytes_max,
        } / 2;
        match bytes <= most {
            true => Ok(()),
            false => Err(Error::config(format!(
                "{bytes} bytes at once are more than the {most} that the buffer takes"
            ))
            .hint("put fewer rows at once, or give the buffer more memory")),
        }
    }

    fn has_room(&self, state: &State, bytes: usize) -> bool {
        if !self.limits.has_journal {
            return state.held_bytes + bytes <= self.limits.area_bytes_max;
        }
        let pending = state.pending_bytes + bytes;
        // Rows that do not fit where they would go make a file grow. With a segment ready they go to that one at the
        // latest, and leave what is left of the one at hand.
        let room = match state.journal_room_ahead {
            0 => state.journal_room,
            ahead => ahead,
        };
        let grown = (pending as u64).saturating_sub(room);
        pending <= self.limits.pending_bytes_max
            && state.journal_bytes + grown <= self.limits.journal_bytes_max
    }

    /// Counts a file of the journal of so many bytes that is to be prepared; false where it would leave too little for
    /// the rows that may be waiting.
    pub fn reserve_journal(&self, bytes: u64) -> bool {
        let mut state = self.lock();
        let kept = self.limits.pending_bytes_max as u64;
        let has_room = state.journal_bytes + bytes + kept <= self.limits.journal_bytes_max;
        if has_room {
            state.journal_bytes += bytes;
        }
        has_room
    }

    fn append(&self, state: &mut State, chunk: Chunk) {
        let (rows, bytes) = (chunk.rows.count(), chunk.bytes());
        state.next += rows;
        match self.limits.has_journal {
            true => state.pending.push_back(chunk),
            false => state.queue.push_back(chunk),
        }
        self.count(state, rows, bytes);
        if !self.limits.has_journal {
            // The drain has to note when the first row's time will come.
            self.drain.notify_one();
        }
    }

    fn count(&self, state: &mut State, rows: u64, bytes: usize) {
        state.counters.rows_in += rows;
        state.counters.bytes_in += bytes as u64;
        if self.limits.has_journal {
            // The journal's thread sleeps only while nothing is pending.
            if state.pending_bytes == 0 {
                self.journal.notify_one();
            }
            state.pending_bytes += bytes;
            return;
        }
        state.journaled = state.next - 1;
        let before = state.queue_bytes;
        state.queue_bytes += bytes;
        state.hold(bytes);
        if before < self.limits.drain_bytes && state.queue_bytes >= self.limits.drain_bytes {
            self.drain.notify_one();
        }
    }

    /// Hands rows over that are journaled: into the queue while there is room, else they stay in the journal alone.
    pub fn journaled(&self, chunks: Vec<Chunk>, appended: Appended) {
        let mut state = self.lock();
        for chunk in chunks {
            let bytes = chunk.bytes();
            state.pending_bytes = state.pending_bytes.saturating_sub(bytes);
            state.journaled = chunk.last();
            if state.spilled.is_none() && state.held_bytes + bytes > self.limits.area_bytes_max {
                state.spilled = Some((chunk.first, chunk.born));
            }
            if state.spilled.is_none() {
                state.queue_bytes += bytes;
                state.hold(bytes);
                state.queue.push_back(chunk);
            }
        }
        state.counters.groups += 1;
        state.journal_bytes += appended.grown_bytes;
        state.journal_room = appended.room_bytes;
        drop(state);
        self.drain.notify_one();
        self.tell();
    }

    /// What the drain is to do now; at most about `bytes_max` of rows at a time.
    pub fn take(&self, bytes_max: usize) -> Take {
        let mut state = self.lock();
        if state.failed.is_some() {
            return Take::End;
        }
        let Some(front) = state.queue.front() else {
            if let Some((first, _)) = state.spilled {
                return Take::Spilled(first, state.journaled);
            }
            let all_in = state.closing && (state.journal_done || !self.limits.has_journal);
            return if all_in { Take::End } else { Take::Wait(None) };
        };
        let ripe = front.born + self.limits.drain_age;
        let due = state.queue_bytes >= self.limits.drain_bytes
            || front.first <= state.flush_to
            || state.is_waited_for()
            || state.spilled.is_some()
            || state.closing
            || ripe <= Instant::now();
        if !due {
            return Take::Wait(Some(ripe));
        }
        let mut taken = Vec::new();
        let mut taken_bytes = 0;
        while taken_bytes < bytes_max
            && let Some(chunk) = state.queue.pop_front()
        {
            let bytes = chunk.bytes();
            taken_bytes += bytes;
            state.queue_bytes = state.queue_bytes.saturating_sub(bytes);
            state.flights.push_back((chunk.last(), bytes, chunk.born));
            taken.push(chunk);
        }
        state.counters.drains += 1;
        Take::Rows(taken)
    }

    /// Notes rows that were read back from the journal, up to `last`: they are on their way, and if nothing more is in
    /// the journal alone, new rows go to memory again.
    pub fn read_back(&self, chunks: &[Chunk], last: u64) {
        let mut state = self.lock();
        for chunk in chunks {
            let bytes = chunk.bytes();
            state.hold(bytes);
            state.flights.push_back((chunk.last(), bytes, chunk.born));
        }
        state.counters.drains += 1;
        state.spilled = match state.spilled {
            Some((_, since)) if last < state.journaled => Some((last + 1, since)),
            _ => None,
        };
    }

    /// Notes how far the database has come, which it had not said when the buffer was opened.
    pub fn attach(&self, position: u64) {
        let mut state = self.lock();
        state.committed = state.committed.max(position);
        state.spilled = match state.spilled {
            Some((first, since)) if position < state.journaled => Some((first.max(position + 1), since)),
            _ => None,
        };
        drop(state);
        self.journal.notify_one();
        self.tell();
    }

    /// Notes that nothing is drained any more.
    pub fn end(&self) {
        self.lock().ended = true;
        self.journal.notify_one();
        self.tell();
    }

    /// Notes that rows up to `last` are durable in the table or in the rejects.
    pub fn committed(&self, last: u64) {
        let mut state = self.lock();
        state.committed = state.committed.max(last);
        while let Some((end, bytes, _)) = state.flights.front().copied()
            && end <= last
        {
            state.flights.pop_front();
            state.held_bytes = state.held_bytes.saturating_sub(bytes);
        }
        drop(state);
        self.journal.notify_one();
        self.tell();
    }

    /// Ends the buffer with an error. The first one stays.
    pub fn fail(&self, error: &Error) {
        self.lock().failed.get_or_insert_with(|| Failure::of(error));
        self.drain.notify_one();
        self.journal.notify_one();
        self.tell();
    }

    /// Takes no further rows.
    pub fn close(&self) {
        self.lock().closing = true;
        self.drain.notify_one();
        self.journal.notify_one();
        self.tell();
    }

    /// Drains rows up to `sequence` without waiting for more.
    pub fn hurry(&self, sequence: u64) {
        let mut state = self.lock();
        if sequence > state.flush_to {
            state.flush_to = sequence;
            drop(state);
            self.drain.notify_one();
        }
    }

    /// Waits until `mark` is beyond `after`; none where it never will be. Rows are not held back for more to come while
    /// somebody follows the low mark for producers.
    pub async fn beyond(&self, mark: Mark, after: u64) -> Option<u64> {
        let _following = (mark == Mark::Committed).then(|| Following::new(self, after));
        self.until(|state| match state.at(mark) {
            at if at > after => Some(Some(at)),
            _ if state.ended || state.failed.is_some() => Some(None),
            _ => None,
        })
        .await
    }

    /// Waits until `done` says something.
    pub async fn until<T>(&self, mut done: impl FnMut(&State) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            if let Some(value) = done(&self.lock()) {
                return value;
            }
            changed.await;
        }
    }

    /// Offers again and again until there is room.
    pub async fn offered(&self, mut offer: impl FnMut() -> Result<Offered>) -> Result<u64> {
        loop {
            let changed = self.changed.notified();
            match offer()? {
                Offered::Taken(sequence) => return Ok(sequence),
                Offered::Full => changed.await,
            }
        }
    }
}

/// Follows the low mark.
struct Following<'a> {
    area: &'a Area,
    /// Not where it waits for no row, but for the end.
    counts: bool,
}

impl<'a> Following<'a> {
    fn new(area: &'a Area, after: u64) -> Self {
        let mut state = area.lock();
        let counts = after < state.next;
        state.followers += usize::from(counts);
        drop(state);
        area.drain.notify_one();
        Self { area, counts }
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.area.lock().followers -= usize::from(self.counts);
    }
}

impl State {
    /// Whether somebody waits until everything that is under way is committed, so that there is nothing to gather for: what
    /// comes while rows are being written gathers by itself.
    pub fn is_waited_for(&self) -> bool {
        self.followers > 0
            || self
                .wait_committed
                .highest()
                .is_some_and(|highest| highest + 1 >= self.next)
    }

    /// Notes that the journal's files have become smaller, or fewer.
    pub fn shrink_journal(&mut self, bytes: u64) {
        self.journal_bytes = self.journal_bytes.saturating_sub(bytes);
    }

    fn hold(&mut self, bytes: usize) {
        self.held_bytes += bytes;
        self.held_bytes_peak = self.held_bytes_peak.max(self.held_bytes);
    }

    fn check_open(&self) -> Result<()> {
        if let Some(failure) = &self.failed {
            return Err(failure.error());
        }
        match self.closing {
            true => Err(Error::new(ErrorKind::Cancelled, "the buffer is closed")),
            false => Ok(()),
        }
    }

    /// Those who wait for `mark`.
    pub fn waits(&mut self, mark: Mark) -> &mut Waits {
        match mark {
            Mark::Journaled => &mut self.wait_journaled,
            Mark::Committed => &mut self.wait_committed,
        }
    }

    /// The value of `mark`.
    pub fn at(&self, mark: Mark) -> u64 {
        match mark {
            Mark::Journaled => self.journaled,
            Mark::Committed => self.committed,
        }
    }

    /// Whether rows up to `sequence` are at `mark`; an error where they will never be.
    pub fn reached(&self, mark: Mark, sequence: u64) -> Option<Result<()>> {
        let at = self.at(mark);
        if sequence >= self.next {
            return Some(Err(Error::config(format!(
                "row {sequence} was never put; the highest is {}",
                self.next - 1
            ))));
        }
        if at >= sequence {
            return Some(Ok(()));
        }
        self.failed.as_ref().map(|failure| Err(failure.error()))
    }

    /// When the oldest row that is not committed was taken.
    pub fn oldest(&self) -> Option<Instant> {
        let flights = self.flights.front().map(|(_, _, born)| *born);
        let queued = self.queue.front().map(|chunk| chunk.born);
        let pending = self.pending.front().map(|chunk| chunk.born);
        let spilled = self.spilled.map(|(_, since)| since);
        flights.or(queued).or(spilled).or(pending)
    }
}
