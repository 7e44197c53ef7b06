//! Reads an object ahead of whoever reads it.
//!
//! Parts of it are asked for on several connections at once, so that a round trip is waited for once and not once a
//! part. The first part is small: many readers look at the beginning of a file only.

use std::{
    collections::VecDeque,
    io::{self, Read, Seek, SeekFrom},
    ops::Range,
    sync::Arc,
};

use bytes::Bytes;
use tonnage_core::error::Result;

use super::{object::Object, runtime::Pending};

/// Bytes of the first part, and of those that follow once it was read to its end.
const FIRST_PART_BYTES: u64 = 256 << 10;
const PART_BYTES: u64 = 4 << 20;

/// Parts under way beside those at hand: what a connection of 70 ms brings in that time at 340 MB/s.
const PARTS_AHEAD: usize = 6;

/// Parts at hand: a reader may go a little back.
const PARTS_HELD: usize = 2;

/// The most that a reader of a whole object holds.
pub const READ_BYTES_MAX: u64 = (PARTS_AHEAD + PARTS_HELD) as u64 * PART_BYTES;

/// The most that all readers of one file's columns hold together, unless there are more than a thousand columns.
pub const COLUMNS_BYTES_MAX: u64 = 64 << 20;
const COLUMN_PART_BYTES_MIN: u64 = 16 << 10;
const COLUMN_PARTS_AHEAD: usize = 2;

/// Reads an object from a position.
pub struct ObjectReader {
    object: Object,
    position: u64,
    /// What will be read, in order; all of it but the first is behind the position.
    plan: Arc<[Range<u64>]>,
    /// The next byte to ask for, and the range of the plan that it is in.
    next: Option<(usize, u64)>,
    held: VecDeque<(u64, Bytes)>,
    ahead: VecDeque<(Range<u64>, Pending<Result<Bytes>>)>,
    /// Bytes of the next part, and of the largest.
    part_bytes: u64,
    part_bytes_max: u64,
    /// Parts to have under way; more once it is read in order.
    parts_ahead: usize,
    parts_ahead_max: usize,
}

impl ObjectReader {
    /// Over all of it, which must have ranges.
    pub fn new(object: Object) -> Self {
        let bytes = object.bytes().unwrap_or(0);
        Self {
            object,
            position: 0,
            plan: std::iter::once(0..bytes).collect(),
            next: None,
            held: VecDeque::new(),
            ahead: VecDeque::new(),
            part_bytes: FIRST_PART_BYTES,
            part_bytes_max: PART_BYTES,
            parts_ahead: 1,
            parts_ahead_max: PARTS_AHEAD,
        }
    }

    /// Over ranges of it that will be read one after another, as one of `readers` that do so at once.
    pub fn of_ranges(object: Object, ranges: Vec<Range<u64>>, readers: usize) -> Self {
        let parts = (COLUMN_PARTS_AHEAD + PARTS_HELD) as u64;
        let part_bytes = COLUMNS_BYTES_MAX / parts / (readers.max(1) as u64);
        let part_bytes = part_bytes.clamp(COLUMN_PART_BYTES_MIN, PART_BYTES);
        let mut reader = Self {
            plan: ranges.into(),
            part_bytes,
            part_bytes_max: part_bytes,
            parts_ahead: COLUMN_PARTS_AHEAD,
            parts_ahead_max: COLUMN_PARTS_AHEAD,
            ..Self::new(object)
        };
        // They are waited for column after column: all are asked for before the first is.
        reader.next = reader.plan.first().map(|first| (0, first.start));
        let _ = reader.top_up();
        reader
    }

    /// What is read.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// One more reader of the same, at its beginning.
    #[must_use]
    pub fn again(&self) -> Self {
        Self::new(self.object.clone())
    }

    fn size(&self) -> u64 {
        self.object.bytes().unwrap_or(0)
    }

    /// Asks for parts until enough are under way.
    fn top_up(&mut self) -> io::Result<()> {
        while self.ahead.len() < self.parts_ahead
            && let Some((index, from)) = self.next
        {
            let Some(range) = self.plan.get(index) else { break };
            let to = range.end.min(from + self.part_bytes);
            if from < to {
                self.ahead.push_back((from..to, self.object.ask(from..to)?));
                self.part_bytes = (self.part_bytes * 4).min(self.part_bytes_max);
            }
            self.next = match to >= range.end {
                true => self.plan.get(index + 1).map(|range| (index + 1, range.start)),
                false => Some((index, to)),
            };
        }
        Ok(())
    }

    /// The part that has the byte at `position`, which is not behind the end.
    fn part(&mut self, position: u64) -> io::Result<(u64, Bytes)> {
        let has = |from: u64, bytes: &Bytes| from <= position && position < from + bytes.len() as u64;
        if let Some((from, bytes)) = self.held.iter().find(|(from, bytes)| has(*from, bytes)) {
            return Ok((*from, bytes.clone()));
        }
        match self.ahead.iter().position(|(range, _)| range.contains(&position)) {
            Some(passed) => {
                drop(self.ahead.drain(..passed));
                if passed == 0 {
                    // It is read in order.
                    self.parts_ahead = self.parts_ahead_max;
                }
            }
            None => {
                let is_next = self.ahead.is_empty()
                    && self.next.is_some_and(|(_, next)| next == position)
                    && !self.held.is_empty();
                if is_next {
                    self.parts_ahead = self.parts_ahead_max;
                }
                self.ahead.clear();
                let within = self.plan.iter().position(|range| range.contains(&position));
                self.next = within.map(|index| (index, position));
                if within.is_none() {
                    // Not foreseen: as much as one part has, and then as planned.
                    let to = self.size().min(position + self.part_bytes);
                    self.ahead
                        .push_back((position..to, self.object.ask(position..to)?));
                }
            }
        }
        self.top_up()?;
        let Some((range, part)) = self.ahead.pop_front() else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        self.top_up()?;
        let bytes = part.wait()?.map_err(|error| self.object.failed(error))?;
        while self.held.len() >= PARTS_HELD {
            self.held.pop_front();
        }
        self.held.push_back((range.start, bytes.clone()));
        Ok((range.start, bytes))
    }

    /// Reads some bytes at `position`; 0 behind the end.
    pub fn read_at(&mut self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if position >= self.size() || buffer.is_empty() {
            return Ok(0);
        }
        let (from, bytes) = self.part(position)?;
        // Within the part, as it has the position.
        let rest = &bytes[(position - from) as usize..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(self.position, buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for ObjectReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = sought(to, self.position, self.size())?;
        Ok(self.position)
    }
}

/// Where a seek leads.
pub(crate) fn sought(to: SeekFrom, position: u64, bytes: u64) -> io::Result<u64> {
    let sought = match to {
        SeekFrom::Start(offset) => Some(offset),
        SeekFrom::Current(by) => position.checked_add_signed(by),
        SeekFrom::End(by) => bytes.checked_add_signed(by),
    };
    sought.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
