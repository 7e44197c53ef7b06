//! How far a run has come: blocks of the source, slots of rows, and positions in both.
//!
//! A source is cut into **blocks** in a way that depends on nothing but the input and the run's fixed bounds, so an
//! attempt with other jobs, batch sizes or methods cuts it at the same rows. The rows of a block are dealt to
//! **slots**: all to slot `block % slots`, each by the hash of its key, or each by the shard that it belongs to. The rows of a slot form one sequence, and a
//! slot commits that sequence **in order**, so one [`Position`] a slot says exactly which rows have been handled.

use serde::{Deserialize, Serialize};

/// A place in the source where a block begins. Enough to open the source there and to count from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BlockMark {
    /// Index of the file in the run's list of files.
    pub file: u32,
    /// Byte offset in that file, after decompression; for Parquet the row in the file.
    pub offset: u64,
    /// Rows of that file before this place (parse rejects are rows too).
    pub file_rows: u64,
    /// Rows of the whole source before this place.
    pub rows: u64,
    /// Rolling hash of all that lies before this place, the files before included, to tell that an input changed. 0
    /// where nothing lies before, or where it is not known.
    pub hash: u64,
}

/// How far a slot has come: all its rows of the blocks before `block`, and the first `rows` of it within `block`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Position {
    /// The block it is in.
    pub block: u64,
    /// Rows of the slot in that block that have been handled.
    pub rows: u64,
}

/// What has become of rows. Cumulative in a [`SlotState`], a difference in an [`Advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Applied by the database.
    pub written: u64,
    /// Left out: replaced by a later row of the same key before they were sent, or what the operation leaves out.
    pub skipped: u64,
    /// Put aside in the rejects file.
    pub rejected: u64,
}

impl Counts {
    /// All rows handled.
    pub fn total(&self) -> u64 {
        self.written + self.skipped + self.rejected
    }

    /// Adds `other` to these.
    pub fn add(&mut self, other: Self) {
        self.written += other.written;
        self.skipped += other.skipped;
        self.rejected += other.rejected;
    }
}

/// A slot's row in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SlotState {
    /// The slot, from 0.
    pub slot: u16,
    /// How far it has come.
    pub position: Position,
    /// Where block `position.block` begins; but where some of its rows have been handled, with the hash at its end.
    pub mark: BlockMark,
    /// What has become of its rows, over all attempts.
    pub counts: Counts,
}

/// Adds `steps` to those that one transaction has taken before: a slot has one step, from its first position to its
/// present one.
pub fn gather(taken: &mut Vec<Advance>, steps: &[Advance]) {
    for step in steps {
        match taken.iter_mut().find(|known| known.slot == step.slot) {
            Some(known) => {
                known.to = step.to;
                known.mark = step.mark;
                known.counts.add(step.counts);
            }
            None => taken.push(*step),
        }
    }
}

/// A step of one slot, committed together with its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advance {
    /// The slot.
    pub slot: u16,
    /// Where the ledger must find it.
    pub from: Position,
    /// Its position afterwards.
    pub to: Position,
    /// Where block `to.block` begins; see [`SlotState::mark`].
    pub mark: BlockMark,
    /// What becomes of the rows between.
    pub counts: Counts,
}
