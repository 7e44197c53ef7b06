//! How far a run has come: blocks of the source, slots of rows, and positions in both.
//!
//! A source is cut into **blocks** in a way that depends on nothing but the input and the run's fixed bounds, so an
//! attempt with other jobs, batch sizes or methods cuts it at the same rows. The rows of a block are dealt to
//! **slots**: all to slot `block % slots`, each by the hash of its key, or each by the shard that it belongs to. The rows of a slot form one sequence, and a
//! slot commits that sequence **in order**, so one [`Position`] a slot says exactly which rows have been handled.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How rows are dealt to slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotBy {
    /// A block's rows to slot `block % slots`: rows are independent.
    Block,
    /// By the hash of the key: rows of one key keep their order.
    Key,
    /// By the shard that they belong to: see [`Router`](crate::router::Router).
    Shard,
    /// All to one: keys whose equality only the server knows keep their order.
    One,
}

impl SlotBy {
    /// Its name in the plan and in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Key => "key",
            Self::Shard => "shard",
            Self::One => "one",
        }
    }

    /// The one of this name.
    fn of_name(name: &str) -> Option<Self> {
        let all = [Self::Block, Self::Key, Self::Shard, Self::One];
        all.into_iter().find(|by| by.name() == name)
    }
}

/// How the rows of a run are dealt to its slots, as its ledger has it: the name of [`SlotBy`], and behind a space what
/// the rows are routed by, where that decides it too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Dealing {
    /// By what.
    pub by: SlotBy,
    /// The [identity](crate::router::Router::identity) of the router that decides it.
    pub router: Option<String>,
}

impl From<SlotBy> for Dealing {
    fn from(by: SlotBy) -> Self {
        Self { by, router: None }
    }
}

impl fmt::Display for Dealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.router {
            Some(router) => write!(f, "{} {router}", self.by.name()),
            None => f.write_str(self.by.name()),
        }
    }
}

impl From<Dealing> for String {
    fn from(dealing: Dealing) -> Self {
        dealing.to_string()
    }
}

impl TryFrom<String> for Dealing {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (name, router) = match text.split_once(' ') {
            Some((name, router)) => (name, Some(router.to_owned())),
            None => (text.as_str(), None),
        };
        match SlotBy::of_name(name) {
            Some(by) => Ok(Self { by, router }),
            None => Err(format!("rows are dealt by '{name}', which is not known")),
        }
    }
}

/// The order of a slot's rows within a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// As in the source.
    None,
    /// By primary key: a tree index is filled page by page.
    Block,
    /// The whole source by primary key before the first row is written, on disk where memory does not do.
    Full,
}

impl Sort {
    /// Its name on the command line and in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Block => "block",
            Self::Full => "full",
        }
    }
}

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

/// The steps of a transaction at its commit, one a slot: those that it has `begun` with, or of `fixed` where it has them.
pub fn at_commit(mut begun: Vec<Advance>, fixed: &[Advance]) -> Vec<Advance> {
    for step in fixed {
        if let Some(known) = begun.iter_mut().find(|known| known.slot == step.slot) {
            *known = *step;
        }
    }
    let mut steps = Vec::with_capacity(begun.len());
    gather(&mut steps, &begun);
    steps
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dealings_are_stored_as_they_always_were() {
        let of_router = |by| Dealing {
            by,
            router: Some("shards 3 by id".to_owned()),
        };
        for (dealing, text) in [
            (SlotBy::Block.into(), "\"block\""),
            (SlotBy::Key.into(), "\"key\""),
            (SlotBy::One.into(), "\"one\""),
            (of_router(SlotBy::Shard), "\"shard shards 3 by id\""),
            (of_router(SlotBy::Key), "\"key shards 3 by id\""),
        ] {
            let dealing: Dealing = dealing;
            assert_eq!(serde_json::to_string(&dealing).expect("JSON"), text);
            assert_eq!(serde_json::from_str::<Dealing>(text).expect("a dealing"), dealing);
        }
        serde_json::from_str::<Dealing>("\"row\"").expect_err("a dealing that nobody knows");
        let sorts = [Sort::None, Sort::Block, Sort::Full];
        assert_eq!(
            serde_json::to_string(&sorts).expect("JSON"),
            r#"["none","block","full"]"#
        );
    }
}
