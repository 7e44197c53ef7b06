//! Reading all members: each sees one state, and they see theirs at about the same time.
//!
//! - The splits of the members take turns, so that readers at work are in different members. A split is in one member
//!   and comes once.
//! - A member's readers are lent: whoever opens one of its splits takes one, and gives it back at the split's end. They
//!   are taken in the order of the splits, so a split that others wait for is never kept waiting by later ones. One that
//!   fails is not given back, and whoever waits for one then gets an error.

use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use tokio::sync::Notify;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reader::{Reader, Relation, ScanRequest, Snapshot},
    sync::Lock,
    target::Target,
};

use super::ShardedTarget;

const CONSISTENCY: &str = "each database by itself, as of the moment in which its reading begins";

/// The readers of a member.
struct Lent {
    name: String,
    state: Mutex<LentState>,
    changed: Notify,
}

struct LentState {
    idle: Vec<Box<dyn Reader>>,
    /// The split of this member whose turn it is to take one.
    next: usize,
    /// Whether one has failed: what is read is of no use any more.
    failed: bool,
}

impl Lent {
    /// `Cancelled` where another one has failed: its error is the one to tell.
    async fn take(&self, split: usize) -> Result<Box<dyn Reader>> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            {
                let mut state = self.state.locked();
                if state.failed {
                    return Err(Error::new(
                        ErrorKind::Cancelled,
                        format!("{}: reading it has failed elsewhere", self.name),
                    ));
                }
                // One that has had its turn is read again.
                if split <= state.next
                    && let Some(reader) = state.idle.pop()
                {
                    state.next = state.next.max(split + 1);
                    self.changed.notify_waiters();
                    return Ok(reader);
                }
            }
            changed.await;
        }
    }

    fn give_back(&self, reader: Box<dyn Reader>) {
        let mut state = self.state.locked();
        state.idle.push(reader);
        self.changed.notify_waiters();
    }

    /// The error of one that has failed, now that nobody waits for it any more.
    fn fail(&self, error: Error) -> Error {
        let mut state = self.state.locked();
        state.failed = true;
        self.changed.notify_waiters();
        error.at(&self.name)
    }
}

/// Reads any split of any member.
struct MembersReader {
    members: Arc<Vec<Lent>>,
    /// Member and split of each split of the whole.
    splits: Arc<Vec<(usize, usize)>>,
    at: Option<(usize, Box<dyn Reader>)>,
    /// Rows that may still come, where their number is limited.
    left: Option<u64>,
}

#[async_trait]
impl Reader for MembersReader {
    async fn open(&mut self, split: usize) -> Result<()> {
        if let Some((member, reader)) = self.at.take() {
            self.members[member].give_back(reader);
        }
        let Some((member, own)) = self.splits.get(split).copied() else {
            return Err(Error::bug("a split that is not there"));
        };
        let lent = &self.members[member];
        let mut reader = lent.take(own).await?;
        if self.left != Some(0) {
            reader.open(own).await.map_err(|error| lent.fail(error))?;
        }
        self.at = Some((member, reader));
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some((member, reader)) = &mut self.at else {
            return Ok(None);
        };
        let lent = &self.members[*member];
        let batch = match self.left {
            Some(0) => None,
            _ => reader.next().await.map_err(|error| lent.fail(error))?,
        };
        let Some(mut batch) = batch else {
            if let Some((_, reader)) = self.at.take() {
                lent.give_back(reader);
            }
            return Ok(None);
        };
        if let Some(left) = &mut self.left {
            let rows = batch.num_rows().min(usize::try_from(*left).unwrap_or(usize::MAX));
            batch = batch.slice(0, rows);
            *left -= rows as u64;
        }
        Ok(Some(batch))
    }
}

impl Drop for MembersReader {
    /// Another one may wait for what this one has taken.
    fn drop(&mut self) {
        if let Some((member, reader)) = self.at.take() {
            self.members[member].give_back(reader);
        }
    }
}

pub(super) async fn scan(target: &ShardedTarget, request: &ScanRequest) -> Result<Snapshot> {
    let table = match &request.relation {
        Relation::Query(_) => {
            return Err(Error::config(format!(
                "a query runs in one database, and these are {}",
                target.members.len()
            ))
            .hint("name a table, with --columns and --where; or unload from each database by itself"));
        }
        // Compares the definitions, where the name is that of a table.
        Relation::Table(name) => target.table(name).await?.map(|_| name),
    };
    let members = target.members.len();
    let own = ScanRequest {
        readers: match request.limit {
            Some(_) => 1,
            None => request.readers.div_ceil(members).max(1),
        },
        ..request.clone()
    };
    let scan = async |at: usize, member: Arc<dyn Target>| {
        let relation = match table {
            Some(name) => Relation::Table(target.table_of(at, name).await?.name.clone()),
            None => own.relation.clone(),
        };
        let request = ScanRequest {
            relation,
            ..own.clone()
        };
        member.scan(&request).await
    };
    let snapshots = target.all(scan).await?;
    let United {
        mut snapshot,
        members: lent,
        splits,
    } = unite(target, snapshots)?;
    let readers = match request.limit {
        Some(_) => 1,
        None => request.readers.min(splits.len()).max(1),
    };
    snapshot.splits = splits.len();
    snapshot.notes.push(format!(
        "rows of the {members} databases are not of one moment: {CONSISTENCY}"
    ));
    let (members, splits) = (Arc::new(lent), Arc::new(splits));
    snapshot.readers = (0..readers)
        .map(|_| {
            Box::new(MembersReader {
                members: members.clone(),
                splits: splits.clone(),
                at: None,
                left: request.limit,
            }) as Box<dyn Reader>
        })
        .collect();
    Ok(snapshot)
}

/// The snapshots of all members as one.
struct United {
    /// What they have in common, without readers and splits.
    snapshot: Snapshot,
    members: Vec<Lent>,
    /// The member of each split, and which of its own it is; members take turns.
    splits: Vec<(usize, usize)>,
}

fn unite(target: &ShardedTarget, snapshots: Vec<Snapshot>) -> Result<United> {
    let mut members = Vec::with_capacity(snapshots.len());
    let mut splits = Vec::new();
    let mut united: Option<Snapshot> = None;
    for (at, snapshot) in snapshots.into_iter().enumerate() {
        splits.extend((0..snapshot.splits).map(|split| (split, at)));
        let Snapshot {
            table,
            columns,
            key,
            readers,
            settings_changed,
            notes,
            ..
        } = snapshot;
        members.push(Lent {
            name: target.names[at].clone(),
            state: Mutex::new(LentState {
                idle: readers,
                next: 0,
                failed: false,
            }),
            changed: Notify::new(),
        });
        let known = united.get_or_insert_with(|| Snapshot {
            table,
            columns: columns.clone(),
            key,
            splits: 0,
            readers: Vec::new(),
            consistency: CONSISTENCY,
            settings_changed: Vec::new(),
            notes: Vec::new(),
        });
        if known.columns != columns {
            return Err(Error::schema(format!(
                "{}: its columns are not those of {}",
                target.names[at], target.names[0]
            ))
            .hint("the table of a sharded target is defined alike in all its members"));
        }
        let news = |known: &[String], new: Vec<String>| -> Vec<String> {
            new.into_iter().filter(|one| !known.contains(one)).collect()
        };
        known
            .settings_changed
            .extend(news(&known.settings_changed, settings_changed));
        known.notes.extend(news(&known.notes, notes));
    }
    // By their numbers, so that members take turns.
    splits.sort_unstable();
    let splits = splits.into_iter().map(|(split, member)| (member, split));
    Ok(United {
        snapshot: united.ok_or_else(|| Error::bug("a sharded target without members"))?,
        members,
        splits: splits.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads nothing, or fails.
    struct Played {
        fails: bool,
    }

    #[async_trait]
    impl Reader for Played {
        async fn open(&mut self, _: usize) -> Result<()> {
            Ok(())
        }

        async fn next(&mut self) -> Result<Option<RecordBatch>> {
            match self.fails {
                true => Err(Error::schema("a value that cannot be read")),
                false => Ok(None),
            }
        }
    }

    /// Two who read three splits of the only member, which lends one reader.
    fn two(fails: bool) -> (MembersReader, MembersReader) {
        let reader: Box<dyn Reader> = Box::new(Played { fails });
        let members = Arc::new(vec![Lent {
            name: "db1".to_owned(),
            state: Mutex::new(LentState {
                idle: vec![reader],
                next: 0,
                failed: false,
            }),
            changed: Notify::new(),
        }]);
        let splits = Arc::new(vec![(0, 0), (0, 1), (0, 2)]);
        let reads = || MembersReader {
            members: members.clone(),
            splits: splits.clone(),
            at: None,
            left: None,
        };
        (reads(), reads())
    }

    #[tokio::test]
    async fn who_waits_for_a_reader_gets_it_or_is_told_that_it_has_failed() {
        let (mut first, mut second) = two(false);
        first.open(0).await.unwrap();
        let waiting = tokio::spawn(async move { second.open(1).await.map(|()| second) });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        assert!(first.next().await.unwrap().is_none());
        let second = waiting.await.unwrap().unwrap();
        // What nobody reads to its end is given back too.
        let waiting = tokio::spawn(async move { first.open(2).await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.unwrap().unwrap();

        let (mut first, mut second) = two(true);
        first.open(0).await.unwrap();
        let waiting = tokio::spawn(async move { second.open(1).await });
        tokio::task::yield_now().await;
        let failed = first.next().await.unwrap_err();
        assert_eq!(failed.to_string(), "db1: a value that cannot be read");
        assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    }
}
