//! One write: the rows that go to the database in one transaction, and the steps of the slots that they complete.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use arrow::{array::RecordBatch, compute::concat_batches};
use tonnage_core::{
    error::{Result, arrow_bug},
    reject::Reject,
    slot::{Advance, BlockMark, Counts, Position, gather},
    source::Origin,
};

use super::{deal::Piece, run::QueuePermit};
use crate::plan::Plan;

/// Consecutive rows of one slot within a block.
#[derive(Debug, Clone)]
pub struct Part {
    slot: u16,
    from: Position,
    to: Position,
    block: u64,
    /// Rows of the slot's sequence in the block that were handled before.
    done: u64,
    /// Where the block begins, and where the next one does.
    marks: (BlockMark, BlockMark),
    /// Bad rows that come first.
    pub rejects: Vec<Reject>,
    /// Its rows in the write.
    pub rows: Range<usize>,
    origin: Arc<Origin>,
    origin_at: usize,
}

/// Which rows of a write are sent.
pub enum Sent<'a> {
    /// All but these, which ascend.
    Without(&'a [usize]),
    /// Those from this one on.
    From(usize),
}

/// See the module.
pub struct Write {
    /// The rows, in the plan's columns.
    pub rows: RecordBatch,
    /// What they are, in order.
    pub parts: Vec<Part>,
    /// A bad row that ends the run once the rows before it have been tried.
    pub fatal_reject: Option<Arc<Reject>>,
    /// Given back when the write is done with, committed or not.
    _room: Vec<QueuePermit>,
}

impl Write {
    /// The slot and origin of row `row`.
    pub fn place(&self, row: usize) -> Option<(u16, &Origin, usize)> {
        let at = self.parts.partition_point(|p| p.rows.end <= row);
        let part = self.parts.get(at)?;
        Some((part.slot, &part.origin, part.origin_at + row - part.rows.start))
    }

    /// The number in the source of each of the `rows` rows that are sent, as their blocks are dealt: by slot, each in
    /// its order.
    pub fn places(&self, sent: Sent<'_>, rows: usize) -> Vec<u64> {
        let places = self.parts.iter().flat_map(|part| {
            let first = part.marks.0.rows + part.done + part.rejects.len() as u64;
            (0..part.rows.len() as u64).map(move |row| first + row)
        });
        match sent {
            Sent::From(first) => places.skip(first).take(rows).collect(),
            Sent::Without(gone) => {
                let mut gone = gone.iter().peekable();
                let kept = |(row, _): &(usize, u64)| gone.next_if(|next| **next == *row).is_none();
                places.enumerate().filter(kept).map(|(_, place)| place).collect()
            }
        }
    }

    /// The blocks that it has rows of, and how many of each, bad ones included.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, u64)> {
        let rows = |part: &Part| (part.rows.len() + part.rejects.len()) as u64;
        self.parts.iter().map(move |part| (part.block, rows(part)))
    }

    /// The bad rows found before the database, with their slots.
    pub fn rejects(&self) -> impl Iterator<Item = (u16, &Reject)> {
        self.parts
            .iter()
            .flat_map(|p| p.rejects.iter().map(|r| (p.slot, r)))
    }

    /// The steps of its slots, where `superseded` and `rejected` say which of its rows are not written.
    pub fn advances(&self, superseded: &[usize], rejected: &[usize]) -> Vec<Advance> {
        let within = |rows: &[usize], range: &Range<usize>| {
            let below = |end: usize| rows.partition_point(|row| *row < end);
            (below(range.end) - below(range.start)) as u64
        };
        let mut advances: Vec<Advance> = Vec::new();
        for part in &self.parts {
            let skipped = within(superseded, &part.rows);
            let bad = within(rejected, &part.rows);
            let counts = Counts {
                written: part.rows.len() as u64 - skipped - bad,
                skipped,
                rejected: bad + part.rejects.len() as u64,
            };
            let (begin, end) = part.marks;
            // Within a block the hash has to cover the rows that are handled.
            let mark = match part.to.rows {
                0 => end,
                _ => BlockMark {
                    hash: end.hash,
                    ..begin
                },
            };
            let step = Advance {
                slot: part.slot,
                from: part.from,
                to: part.to,
                mark,
                counts,
            };
            gather(&mut advances, &[step]);
        }
        advances
    }

    /// The write of its first `rows` rows only; the rest is left undone.
    pub fn head(&self, rows: usize) -> Self {
        let mut parts = Vec::new();
        for part in &self.parts {
            if part.rows.end <= rows {
                parts.push(part.clone());
                continue;
            }
            let kept = rows.saturating_sub(part.rows.start);
            if kept > 0 || !part.rejects.is_empty() {
                let mut part = part.clone();
                part.rows.end = part.rows.start + kept;
                part.to = Position {
                    block: part.block,
                    rows: part.done + (part.rejects.len() + kept) as u64,
                };
                parts.push(part);
            }
            break;
        }
        Self {
            rows: self.rows.slice(0, rows),
            parts,
            fatal_reject: None,
            _room: Vec::new(),
        }
    }
}

/// The most pieces that a lane gathers, even small ones: it bounds the memory that they take in addition to their rows.
pub const PIECES_MAX: usize = 256;

impl Write {
    /// The write of the rows from `rows` on, once [`Write::head`] of that many is committed.
    pub fn tail(&self, rows: usize) -> Self {
        let mut parts = Vec::new();
        for part in &self.parts {
            if part.rows.end <= rows {
                continue;
            }
            let mut part = part.clone();
            let gone = rows.saturating_sub(part.rows.start);
            // The head holds the rejects of the part that it ends in, or just before.
            if parts.is_empty() && (gone > 0 || !part.rejects.is_empty()) {
                part.done += (part.rejects.len() + gone) as u64;
                part.from = Position {
                    block: part.block,
                    rows: part.done,
                };
                part.rejects.clear();
                part.origin_at += gone;
            }
            part.rows = part.rows.start.max(rows) - rows..part.rows.end - rows;
            parts.push(part);
        }
        Self {
            rows: self.rows.slice(rows, self.rows.num_rows() - rows),
            parts,
            fatal_reject: self.fatal_reject.clone(),
            _room: Vec::new(),
        }
    }
}

/// Pieces waiting to become writes.
pub struct WriteBuilder {
    plan: Arc<Plan>,
    pieces: VecDeque<Piece>,
}

impl WriteBuilder {
    /// Nothing waiting.
    pub fn new(plan: Arc<Plan>) -> Self {
        Self {
            plan,
            pieces: VecDeque::new(),
        }
    }

    /// One more.
    pub fn push(&mut self, piece: Piece) {
        self.pieces.push_back(piece);
    }

    /// Whether there is any piece.
    pub fn any(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Whether the pieces make a full write, so that waiting for more would gain nothing.
    pub fn full(&self) -> bool {
        if self.pieces.iter().any(|p| p.fatal_reject.is_some()) {
            return true;
        }
        let rows: usize = self.pieces.iter().map(rows_left).sum();
        let bytes: usize = self
            .pieces
            .iter()
            .map(|p| rows_left(p) * row_bytes(p) + p.rejects_bytes)
            .sum();
        rows >= self.plan.batch_rows || bytes >= self.plan.batch_bytes || self.pieces.len() >= PIECES_MAX
    }

    /// Takes the next write: whole pieces while they fit, a part of one that is larger than a write by itself.
    /// At most `rows_max` rows of it, but at least one.
    pub fn take(&mut self, rows_max: usize) -> Result<Option<Write>> {
        let (mut rows_left_max, mut bytes_left) = (rows_max.max(1), self.plan.batch_bytes);
        let mut slices: Vec<RecordBatch> = Vec::new();
        let mut parts = Vec::new();
        let mut room = Vec::new();
        let mut fatal_reject = None;
        let mut at = 0;
        while let Some(piece) = self.pieces.front_mut() {
            let (rows, row_bytes) = (rows_left(piece), row_bytes(piece));
            let before = rows;
            let fits = rows <= rows_left_max && rows * row_bytes + piece.rejects_bytes <= bytes_left;
            if !parts.is_empty() && (!fits || piece.fatal_reject.is_some()) {
                break;
            }
            let take = match fits {
                true => rows,
                false => rows_left_max.min(bytes_left / row_bytes).max(1).min(rows),
            };
            rows_left_max -= take.min(rows_left_max);
            bytes_left -= (take * row_bytes + piece.rejects_bytes).min(bytes_left);
            // The rejects of a piece come first and leave with its first row.
            piece.rejects_bytes = 0;
            if take > 0
                && let Some(first) = piece.segments.front()
            {
                slices.push(piece.rows.slice(first.rows.start, take));
            }
            at = take_segments(piece, take, at, &mut parts);
            fatal_reject = piece.fatal_reject.clone();
            if !piece.segments.is_empty() {
                let left = rows_left(piece);
                room.extend(piece.room.as_mut().and_then(|room| room.split(left, before)));
                break;
            }
            if let Some(mut piece) = self.pieces.pop_front() {
                room.extend(piece.room.take());
            }
            if fatal_reject.is_some() {
                break;
            }
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let rows = match slices.as_slice() {
            [] => RecordBatch::new_empty(self.plan.schema()),
            [one] => one.clone(),
            many => concat_batches(&self.plan.schema(), many).map_err(arrow_bug)?,
        };
        Ok(Some(Write {
            rows,
            parts,
            fatal_reject,
            _room: room,
        }))
    }
}

/// Takes `rows_max` rows of a piece into parts of a write, whose rows begin at `at`; returns where they end.
fn take_segments(piece: &mut Piece, rows_max: usize, mut at: usize, parts: &mut Vec<Part>) -> usize {
    let end = at + rows_max;
    let origin = Arc::new(piece.origin.clone());
    while let Some(segment) = piece.segments.front_mut() {
        let rows = segment.rows.len().min(end - at);
        if rows == 0 && !segment.rows.is_empty() {
            break;
        }
        let last = rows == segment.rows.len();
        let whole = last && !segment.cut;
        let rejects = std::mem::take(&mut segment.rejects);
        let from = segment.from;
        let done = segment.done + (rejects.len() + rows) as u64;
        let to = match whole {
            true => Position {
                block: piece.block + 1,
                rows: 0,
            },
            false => Position {
                block: piece.block,
                rows: done,
            },
        };
        parts.push(Part {
            slot: segment.slot,
            from,
            to,
            block: piece.block,
            done: segment.done,
            marks: (piece.start, piece.end),
            rejects,
            rows: at..at + rows,
            origin: origin.clone(),
            origin_at: segment.rows.start,
        });
        at += rows;
        if last {
            piece.segments.pop_front();
        } else {
            segment.done = done;
            segment.from = to;
            segment.rows.start += rows;
            break;
        }
    }
    at
}

fn rows_left(piece: &Piece) -> usize {
    piece.segments.iter().map(|s| s.rows.len()).sum()
}

/// Rounded up, so that what a lane gathers is never more than it counts.
fn row_bytes(piece: &Piece) -> usize {
    let bytes = piece.rows.get_array_memory_size();
    bytes.div_ceil(piece.rows.num_rows().max(1)).max(1)
}
