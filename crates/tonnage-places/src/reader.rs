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

use super::{
    kept::{self, BEGINNING_BYTES},
    object::Object,
    runtime::Pending,
};

/// Bytes of the parts that follow once the first one, of [`BEGINNING_BYTES`], was read to its end.
const PART_BYTES: u64 = 4 << 20;

/// Parts under way beside those at hand: what comes at 570 MB/s in a round trip of 70 ms. PostgreSQL takes 250 MB/s of CSV, and
/// parts come neither at once nor at the same pace.
const PARTS_AHEAD: usize = 10;

/// Parts at hand: a reader may go a little back.
const PARTS_HELD: usize = 2;

/// The most that a reader of a whole object holds.
pub const READ_BYTES_MAX: u64 = (PARTS_AHEAD + PARTS_HELD) as u64 * PART_BYTES;

/// The most that all readers of one file's columns hold together, unless there are more than a thousand columns.
pub const COLUMNS_BYTES_MAX: u64 = 64 << 20;
const COLUMN_PART_BYTES_MIN: u64 = 16 << 10;

/// Parts of each column under way, and how many there may be of all columns together where that leaves some: the larger
/// a column, the more of them it has.
const COLUMN_PARTS_AHEAD: usize = 2;
const COLUMNS_PARTS_AHEAD: usize = 24;

/// What one of several readers of a file may hold and ask for.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    part_bytes: u64,
    parts_ahead: usize,
}

impl Share {
    /// Of the only reader.
    pub fn whole() -> Self {
        Self::of(1, 1, 1)
    }

    /// Of a reader that will read `bytes`, where so many `readers` will read `bytes_in_all`. All of them are read at the
    /// same pace, each to its end when the others are, so what a reader holds goes by what it reads.
    pub fn of(bytes: u64, bytes_in_all: u64, readers: usize) -> Self {
        let bytes_in_all = bytes_in_all.max(1);
        let part = |of: u64| {
            let part = u128::from(of) * u128::from(bytes.min(bytes_in_all)) / u128::from(bytes_in_all);
            // At most `of`.
            part as u64
        };
        let readers = readers.max(1);
        let least_bytes = (COLUMN_PARTS_AHEAD + PARTS_HELD) as u64 * COLUMN_PART_BYTES_MIN;
        let held_bytes = least_bytes + part(COLUMNS_BYTES_MAX.saturating_sub(least_bytes * readers as u64));
        let more = COLUMNS_PARTS_AHEAD.saturating_sub(COLUMN_PARTS_AHEAD * readers);
        let parts_ahead = COLUMN_PARTS_AHEAD + part(more as u64) as usize;
        let part_bytes = held_bytes / (parts_ahead + PARTS_HELD) as u64;
        Self {
            part_bytes: part_bytes.clamp(COLUMN_PART_BYTES_MIN, PART_BYTES),
            parts_ahead,
        }
    }
}

/// A part that was asked for, or kept by who read it before.
enum Part {
    Asked(Pending<Result<Bytes>>),
    Kept(Bytes),
}

/// Reads an object from a position.
pub struct ObjectReader {
    object: Object,
    position: u64,
    /// What will be read, in order; all of it but the first is behind the position.
    plan: Arc<[Range<u64>]>,
    /// The next byte to ask for, and the range of the plan that it is in.
    next: Option<(usize, u64)>,
    held: VecDeque<(u64, Bytes)>,
    ahead: VecDeque<(Range<u64>, Part)>,
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
            part_bytes: BEGINNING_BYTES,
            part_bytes_max: PART_BYTES,
            parts_ahead: 1,
            parts_ahead_max: PARTS_AHEAD,
        }
    }

    /// Over ranges of it that will be read one after another, within a share.
    ///
    /// As many parts as there may be are asked for at once: a block of rows may take several parts of a wide column, which
    /// is not read before the columns in front of it are there.
    pub fn of_ranges(object: Object, ranges: Vec<Range<u64>>, share: Share) -> Self {
        let mut reader = Self {
            plan: ranges.into(),
            part_bytes: share.part_bytes,
            part_bytes_max: share.part_bytes,
            parts_ahead: share.parts_ahead,
            parts_ahead_max: share.parts_ahead,
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

    /// Puts a part that begins at `from` and ends before `end` behind those ahead: what is kept, or else what is asked for.
    /// Gives where it ends.
    fn begin(&mut self, from: u64, end: u64) -> io::Result<u64> {
        if let Some((start, bytes)) = kept::at(&self.object, from) {
            let to = end.min(start + bytes.len() as u64);
            // Within what is kept, as it has `from`.
            let bytes = bytes.slice((from - start) as usize..(to - start) as usize);
            self.ahead.push_back((from..to, Part::Kept(bytes)));
            return Ok(to);
        }
        let to = end.min(from + self.part_bytes);
        let asked = self.object.ask(from..to)?;
        self.ahead.push_back((from..to, Part::Asked(asked)));
        Ok(to)
    }

    /// Asks for parts until enough are under way.
    fn top_up(&mut self) -> io::Result<()> {
        while self.ahead.len() < self.parts_ahead
            && let Some((index, from)) = self.next
        {
            let Some(range) = self.plan.get(index) else { break };
            let end = range.end;
            let mut to = from;
            if from < end {
                to = self.begin(from, end)?;
                self.part_bytes = (self.part_bytes * 4).min(self.part_bytes_max);
            }
            self.next = match to >= end {
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
                    self.begin(position, self.size())?;
                }
            }
        }
        self.top_up()?;
        let Some((range, part)) = self.ahead.pop_front() else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        // The place of what is waited for, within the bound.
        while self.held.len() >= PARTS_HELD {
            self.held.pop_front();
        }
        // Whoever looks at a beginning that is kept may want no more of it.
        if self.parts_ahead > 1 || matches!(part, Part::Asked(_)) {
            self.top_up()?;
        }
        let bytes = match part {
            Part::Kept(bytes) => bytes,
            Part::Asked(asked) => {
                let bytes = asked.wait()?.map_err(|error| self.object.failed(error))?;
                kept::keep(&self.object, range.start, bytes.clone());
                bytes
            }
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_columns_together_stay_within_the_bounds() {
        for columns in [
            vec![1],
            vec![4, 4, 120, 60],
            vec![0, 0, 1_000_000_000],
            vec![7; 12],
            vec![1; 1_000],
            (0..300).collect(),
        ] {
            let (count, bytes) = (columns.len(), columns.iter().sum());
            let shares: Vec<Share> = columns
                .iter()
                .map(|column| Share::of(*column, bytes, count))
                .collect();
            let held = shares
                .iter()
                .map(|share| share.part_bytes * (share.parts_ahead + PARTS_HELD) as u64);
            assert!(held.sum::<u64>() <= COLUMNS_BYTES_MAX, "{columns:?}: {shares:?}");
            let ahead: usize = shares.iter().map(|share| share.parts_ahead).sum();
            assert!(
                ahead <= COLUMNS_PARTS_AHEAD.max(COLUMN_PARTS_AHEAD * count),
                "{columns:?}: {shares:?}"
            );
        }
    }
}
