//! The shards of a run: what has become of the rows of each, and which have failed.
//!
//! Where shards are databases of their own, one that fails leaves its own rows undone and the others go on; the run then
//! ends with its error, and is gone on with by a resume.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use tonnage_core::{
    error::{Error, ErrorKind},
    report::ShardReport,
    slot::Advance,
    sync::Lock,
};

use crate::plan::{Plan, SlotBy};

/// See the module.
#[derive(Default)]
pub struct Shards {
    each: Vec<Shard>,
    separate_databases: bool,
}

#[derive(Default)]
struct Shard {
    name: String,
    written: AtomicU64,
    skipped: AtomicU64,
    rejected: AtomicU64,
    commits: AtomicU64,
    lost: Mutex<Option<Error>>,
}

impl Shards {
    /// Those that `plan` deals rows to; none where it deals by none.
    pub fn of(plan: &Plan) -> Self {
        let separate_databases = plan.databases() > 1;
        let dealt = plan
            .routing
            .as_ref()
            .filter(|_| separate_databases || plan.slot_by == SlotBy::Shard);
        let names = dealt.map_or(&[][..], |routing| routing.router.shards());
        let shard = |name: &String| Shard {
            name: name.clone(),
            ..Shard::default()
        };
        Self {
            each: names.iter().map(shard).collect(),
            separate_databases,
        }
    }

    /// The shard of lane `lane`, where it writes to no other.
    pub fn of_lane(&self, lane: usize) -> Option<usize> {
        self.separate_databases.then(|| lane % self.each.len().max(1))
    }

    /// The name of the shard that lane `lane` writes to, where it is one only.
    pub fn name_of_lane(&self, lane: usize) -> Option<String> {
        let shard = self.of_lane(lane)?;
        self.each.get(shard).map(|shard| shard.name.clone())
    }

    /// Counts a commit.
    pub fn count(&self, advances: &[Advance]) {
        if self.each.is_empty() {
            return;
        }
        let mut last = None;
        for advance in advances {
            let at = usize::from(advance.slot) % self.each.len();
            let shard = &self.each[at];
            shard.written.fetch_add(advance.counts.written, Ordering::Relaxed);
            shard.skipped.fetch_add(advance.counts.skipped, Ordering::Relaxed);
            shard
                .rejected
                .fetch_add(advance.counts.rejected, Ordering::Relaxed);
            if last.replace(at) != Some(at) {
                shard.commits.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Whether `shard` has failed.
    pub fn is_lost(&self, shard: Option<usize>) -> bool {
        let shard = shard.and_then(|shard| self.each.get(shard));
        shard.is_some_and(|shard| lock(shard).is_some())
    }

    /// Notes that `shard` has failed, where that does not end the run; gives the error back where it does.
    pub fn lose(&self, shard: Option<usize>, error: Error) -> Option<Error> {
        let shard = shard.and_then(|shard| self.each.get(shard));
        let Some(shard) = shard.filter(|_| error.is_transient() || error.kind() == ErrorKind::Refused) else {
            return Some(error);
        };
        tracing::warn!("its rows are left undone: {error}");
        lock(shard).get_or_insert(error);
        None
    }

    /// Whether none is left that rows could go to.
    pub fn all_lost(&self) -> bool {
        self.each.iter().all(|shard| lock(shard).is_some())
    }

    /// The error of a run with shards that have failed.
    pub fn error(&self) -> Option<Error> {
        let in_doubt = |shard: &&&Shard| lock(shard).as_ref().map(Error::kind) == Some(ErrorKind::InDoubt);
        let lost: Vec<&Shard> = self.each.iter().filter(|shard| lock(shard).is_some()).collect();
        // A commit that may still come about decides what can be done with the run.
        let first = lost.iter().find(in_doubt).or(lost.first())?;
        let others = lost.len() - 1;
        let held = lock(first);
        let error = held.as_ref()?;
        let message = match others {
            0 => error.to_string(),
            more => format!(
                "{error} (and {more} more of {} databases have failed)",
                self.each.len()
            ),
        };
        let mut united = Error::new(error.kind(), message);
        if let Some(code) = error.code_text() {
            united = united.code(code);
        }
        Some(match error.hint_text() {
            Some(hint) => united.hint(hint),
            None => united,
        })
    }

    /// The account, shard by shard.
    pub fn report(&self) -> Vec<ShardReport> {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let one = |shard: &Shard| ShardReport {
            name: shard.name.clone(),
            written: get(&shard.written),
            skipped: get(&shard.skipped),
            rejected: get(&shard.rejected),
            commits: get(&shard.commits),
            error: lock(shard).as_ref().map(ToString::to_string),
        };
        self.each.iter().map(one).collect()
    }
}

fn lock(shard: &Shard) -> std::sync::MutexGuard<'_, Option<Error>> {
    shard.lost.locked()
}
