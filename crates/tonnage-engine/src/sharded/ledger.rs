//! The ledger of a run over several databases: each member's own, put together.
//!
//! - A slot belongs to member `slot % members`. Every member records the run with all its slots, and moves its own; of
//!   the others' it knows nothing but that they are at the beginning.
//! - Each member's record says which member it is ([`MemberDetail`]), so that a table whose members were put into another
//!   order, which would send rows elsewhere, is found out before a row is written.
//! - A run may begin without members that are away, but not without most: so whoever begins another one of the same input
//!   meets a member that knows of it. It goes on only with all of them: the position of one that cannot be reached is not
//!   known. A member that lacks the run then gets it.
//! - A run is finished member by member, once all its rows are there. So a run that one member has finished is over,
//!   and what others have open of it is closed by the next attempt at the same input.

use async_trait::async_trait;
use futures::future::join_all;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{
        Emptied, Ledger, MemberDetail, NewRun, Opening, OtherLedger, RunHandle, RunQuery, RunRecord, Setup,
        Sought,
        inputs::InputRecord,
        jobs::{Jobs, RunRole},
    },
    preparation::Preparation,
    slot::{Counts, SlotState},
    sync::Lock,
};

use super::{ShardedTarget, is_away};

/// What to do about a member that is away.
const BACK: &str = "a run goes on once all members can be reached; go on with --resume then";

/// A run that this process works on.
pub(super) struct Owned {
    /// Under which it does so; each ownership of a run has another one.
    epoch: i64,
    /// Of each member's own ledger; none where the member was away when the run began.
    handles: Vec<Option<RunHandle>>,
    /// Of each member, once the run is being finished: its slots are gone with its part of that.
    counts: Option<Vec<Counts>>,
}

fn not_begun(name: &str) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!("{name}: it was away when the run began, so the run is not in its ledger"),
    )
}

fn sum<'a>(slots: impl Iterator<Item = &'a SlotState>) -> Counts {
    let mut counts = Counts::default();
    slots.for_each(|slot| counts.add(slot.counts));
    counts
}

impl ShardedTarget {
    /// The handle of member `at` for a run of this process.
    pub(super) fn handle_of(&self, run: &RunHandle, at: usize) -> Result<RunHandle> {
        let owned = self.owned.locked();
        let owned = owned.get(&run.run_id).filter(|owned| owned.epoch == run.epoch);
        let Some(owned) = owned else {
            return Err(Error::new(
                ErrorKind::Fenced,
                "another attempt has taken this run over",
            ));
        };
        match owned.handles.get(at) {
            Some(Some(handle)) => Ok(handle.clone()),
            _ => Err(not_begun(&self.names[at])),
        }
    }

    fn own(&self, run_id: &str, handles: Vec<Option<RunHandle>>) -> RunHandle {
        let mut owned = self.owned.locked();
        let before = owned.get(run_id).map_or(0, |owned| owned.epoch);
        let highest = handles.iter().flatten().map(|handle| handle.epoch).max();
        let epoch = highest.unwrap_or_default().max(before + 1);
        owned.insert(
            run_id.to_owned(),
            Owned {
                epoch,
                handles,
                counts: None,
            },
        );
        RunHandle {
            run_id: run_id.to_owned(),
            epoch,
        }
    }

    /// Whether this process has begun the run without member `at`.
    fn lacks(&self, run_id: &str, at: usize) -> bool {
        let owned = self.owned.locked();
        let handle = owned.get(run_id).and_then(|owned| owned.handles.get(at));
        matches!(handle, Some(None))
    }

    /// The runs in each member's ledger that a query asks for.
    async fn runs_of_each(&self, query: &RunQuery) -> Result<Vec<Result<Vec<RunRecord>>>> {
        self.each(async |_, target| target.ledger().runs(query).await)
            .await
    }

    /// Which member of the table member `at` is, for its ledger.
    async fn detail_of(&self, at: usize, run: &NewRun, truncates: bool) -> Result<MemberDetail> {
        let table = self.table_of(at, &run.table).await?;
        Ok(MemberDetail {
            shard: at as u16,
            routing: self.routing(),
            table: table.name.clone(),
            table_identity: table.identity.clone(),
            truncates,
        })
    }

    /// Refuses a table whose rows were routed otherwise before.
    fn check_place(&self, at: usize, detail: &MemberDetail, runs: &[RunRecord]) -> Result<()> {
        for run in runs {
            let Some(before) = run.detail.member.as_ref().filter(|m| m.table == detail.table) else {
                continue;
            };
            let is_same = before.shard == detail.shard && before.routing == detail.routing;
            if is_same
                || before.table_identity.object != detail.table_identity.object
                || run.counts.written == 0
            {
                continue;
            }
            let name = &self.names[at];
            return Err(Error::config(format!(
                "{name}: run {} has loaded its table {} as member {} of {}, and now it is member {} of {}: rows would \
                 be looked for elsewhere than they are",
                run.run_id,
                detail.table,
                before.shard + 1,
                before.routing,
                detail.shard + 1,
                detail.routing
            ))
            .hint("name the same members in the same order, and the same shard key"));
        }
        Ok(())
    }

    /// Begins the run in member `at`, or finds it begun by an attempt whose answer was lost.
    async fn start_in(&self, at: usize, run: &NewRun, over: &[String]) -> Result<RunHandle> {
        let member = &self.members[at];
        let named = |error: Error| error.at(&member.name);
        let target = member.target().await?;
        let ledger = target.ledger();
        let runs = async |query: RunQuery| ledger.runs(&query).await.map_err(named);
        if let Some(begun) = runs(RunQuery::Id(run.run_id.clone())).await?.first() {
            let other = begun.detail.member.as_ref().map(|own| usize::from(own.shard));
            if let Some(other) = other
                .filter(|other| *other != at)
                .and_then(|at| self.names.get(at))
            {
                return Err(
                    Error::config(format!("{} and {other} are the same database", member.name))
                        .hint("each member is a database of its own"),
                );
            }
            // What others have done with it since is not ours.
            return Ok(RunHandle {
                run_id: begun.run_id.clone(),
                epoch: 1,
            });
        }
        let emptied_by_crash = self.table_of(at, &run.table).await?.is_emptied_by_crash();
        let detail = self.detail_of(at, run, run.preparation.truncates()).await?;
        let of_table = runs(RunQuery::Table(detail.table.to_string())).await?;
        self.check_place(at, &detail, &of_table)?;
        let is_left = |known: &&RunRecord| known.finished.is_none() && over.contains(&known.run_id);
        let same = runs(RunQuery::Identity(run.identity.clone())).await?;
        for left in same.iter().filter(is_left) {
            close(ledger, &left.run_id).await.map_err(named)?;
        }
        let own = NewRun {
            table: detail.table.clone(),
            detail: tonnage_core::ledger::RunDetail {
                member: Some(detail),
                emptied_by_crash,
                ..run.detail.clone()
            },
            ..run.clone()
        };
        ledger.start(&own).await.map_err(named)
    }

    /// Forgets a run in the members that have begun it, since others will not.
    async fn withdraw(&self, run_id: &str, handles: &[Option<RunHandle>]) {
        for (member, _) in self
            .members
            .iter()
            .zip(handles)
            .filter(|(_, handle)| handle.is_some())
        {
            let forgotten = match member.target().await {
                Ok(target) => target.ledger().forget(run_id).await.map(|_| ()),
                Err(error) => Err(error),
            };
            if let Err(error) = forgotten {
                tracing::warn!("run {run_id} stays in the ledger of {}: {error}", member.name);
            }
        }
    }

    /// Whether the table of an unfinished run is the one that the run began with, in member `at`.
    async fn is_still_there(&self, at: usize, detail: &MemberDetail) -> Result<bool> {
        let target = self.members[at].target().await?;
        let table = target.table(&detail.table).await?;
        Ok(table.is_none_or(|table| table.identity.object == detail.table_identity.object))
    }
}

/// Finishes a run in a member, whose rows are all there.
async fn close(ledger: &dyn Ledger, run_id: &str) -> Result<()> {
    let (handle, slots) = ledger.take_over(run_id).await?;
    ledger.finish(&handle, sum(slots.iter())).await
}

/// Ids of the runs that any member has finished.
fn finished_in_any(runs: &[Result<Vec<RunRecord>>]) -> Vec<String> {
    let all = runs.iter().flatten().flatten();
    all.filter(|run| run.finished.is_some())
        .map(|run| run.run_id.clone())
        .collect()
}

#[async_trait]
impl Ledger for ShardedTarget {
    /// In every member: two who take a run over at once may get some each.
    async fn is_owned(&self, handle: &RunHandle) -> Result<bool> {
        let each = self.each(async |at, target| match self.handle_of(handle, at) {
            Ok(own) => target.ledger().is_owned(&own).await,
            Err(error) if error.kind() == ErrorKind::Fenced => Ok(false),
            Err(error) => Err(error),
        });
        let owned: Vec<bool> = each.await?.into_iter().collect::<Result<_>>()?;
        Ok(owned.into_iter().all(|owned| owned))
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>> {
        let mut united: Vec<RunRecord> = Vec::new();
        for (at, runs) in self.runs_of_each(query).await?.into_iter().enumerate() {
            let runs = match runs {
                Ok(runs) => runs,
                Err(error) => {
                    tracing::warn!("its runs are not known: {error}");
                    continue;
                }
            };
            for mut run in runs {
                // What was loaded into a member by itself is no run of this table.
                let Some(member) = run
                    .detail
                    .member
                    .take()
                    .filter(|member| member.routing == self.routing())
                else {
                    continue;
                };
                if run.finished.is_none() && !self.is_still_there(at, &member).await? {
                    tracing::warn!(
                        "table {} of {} was dropped and created again since run {} began",
                        member.table,
                        self.names[at],
                        run.run_id
                    );
                    run.detail.table_identity.shape.push_str("\nanother table");
                }
                match united.iter_mut().find(|known| known.run_id == run.run_id) {
                    None => united.push(run),
                    Some(known) => {
                        known.counts.add(run.counts);
                        known.epoch = known.epoch.max(run.epoch);
                        known.started = known.started.min(run.started);
                        known.detail.emptied_by_crash |= run.detail.emptied_by_crash;
                        known.finished = known.finished.max(run.finished);
                        if run.detail.table_identity.shape.len() > known.detail.table_identity.shape.len() {
                            known.detail.table_identity = run.detail.table_identity;
                        }
                    }
                }
            }
        }
        united.sort_by(|a, b| b.started.cmp(&a.started).then_with(|| b.run_id.cmp(&a.run_id)));
        if let RunQuery::Identity(_) = query {
            united.sort_by_key(|run| run.finished.is_some());
        }
        united.truncate(query.limit());
        Ok(united)
    }

    async fn ids(&self, prefix: &str) -> Result<Vec<String>> {
        let mut united = Vec::new();
        for ids in self
            .each(async |_, target| target.ledger().ids(prefix).await)
            .await?
        {
            united.extend(ids?);
        }
        united.sort_unstable();
        united.dedup();
        united.truncate(2);
        Ok(united)
    }

    async fn inputs(&self, keys: &[String]) -> Result<Vec<InputRecord>> {
        let mut united: Vec<InputRecord> = Vec::new();
        let (mut answered, mut away) = (false, None);
        for found in self
            .each(async |_, target| target.ledger().inputs(keys).await)
            .await?
        {
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!("the inputs that it knows of are left out: {error}");
                    away.get_or_insert(error);
                    continue;
                }
            };
            answered = true;
            // What was loaded into a member by itself is no input of this table.
            let routing = self.routing();
            let own = |record: &InputRecord| record.detail.routing.as_ref() == Some(&routing);
            for record in found.into_iter().filter(own) {
                let same = |known: &&mut InputRecord| {
                    known.run_id == record.run_id && known.detail.input == record.detail.input
                };
                // A run that one member has finished is over.
                match united.iter_mut().find(same) {
                    Some(known) => known.finished |= record.finished,
                    None => united.push(record),
                }
            }
        }
        match away {
            Some(error) if !answered => Err(error),
            _ => Ok(united),
        }
    }

    async fn prune(&self, keep: u64, limit: u64) -> Result<u64> {
        let mut most = 0;
        for pruned in self
            .each(async |_, target| target.ledger().prune(keep, limit).await)
            .await?
        {
            most = most.max(pruned?);
        }
        Ok(most)
    }

    async fn elsewhere(&self, sought: &Sought) -> Result<Vec<OtherLedger>> {
        let routing = self.routing();
        let mut others = Vec::new();
        let own_tables = self.own_tables(&sought.table);
        let each = self.each(async |at, target| {
            let own = Sought {
                table: own_tables[at].clone(),
                ..sought.clone()
            };
            target.ledger().elsewhere(&own).await
        });
        for (at, found) in each.await?.into_iter().enumerate() {
            let own_table = &own_tables[at];
            // Who is away is reported where its own ledger is asked.
            for mut other in found.unwrap_or_default() {
                // What was loaded into a member by itself is no run of this table; nor is what went into a table of the
                // same name in other databases of the server.
                other.runs.retain_mut(|run| {
                    let is_own = run.detail.own_table() == *own_table;
                    let member = run.detail.member.take();
                    is_own && member.is_some_and(|member| member.routing == routing)
                });
                other.inputs.retain(|record| {
                    let detail = &record.detail;
                    detail.routing.as_ref() == Some(&routing)
                        && detail
                            .member_table
                            .as_ref()
                            .is_none_or(|table| table == own_table)
                });
                if !other.runs.is_empty() || !other.inputs.is_empty() {
                    other.place = format!("{} of {}", other.place, self.names[at]);
                    others.push(other);
                }
            }
        }
        Ok(others)
    }

    async fn setup(&self, grantees: &[String]) -> Result<Vec<Setup>> {
        let mut all = Vec::new();
        let each = self.each(async |_, target| target.ledger().setup(grantees).await);
        for (at, setups) in each.await?.into_iter().enumerate() {
            for setup in setups? {
                let place = format!("{} of {}", setup.place, self.names[at]);
                all.push(Setup { place, ..setup });
            }
        }
        Ok(all)
    }

    async fn set_up(&self, grantees: &[String]) -> Result<()> {
        let each = self.each(async |_, target| target.ledger().set_up(grantees).await);
        each.await?.into_iter().collect()
    }

    async fn start(&self, run: &NewRun) -> Result<RunHandle> {
        let same = RunQuery::Identity(run.identity.clone());
        let over = finished_in_any(&self.runs_of_each(&same).await?);
        let mut handles = vec![None; self.members.len()];
        let mut away = None;
        for at in 0..self.members.len() {
            match self.start_in(at, run, &over).await {
                Ok(handle) => handles[at] = Some(handle),
                Err(error) if is_away(&error) && !run.preparation.truncates() => {
                    tracing::warn!("its rows are left undone: {error}");
                    away.get_or_insert(error);
                }
                Err(error) => {
                    self.withdraw(&run.run_id, &handles).await;
                    return Err(error);
                }
            }
        }
        let begun = handles.iter().flatten().count();
        match away {
            Some(error) if begun * 2 <= handles.len() => {
                self.withdraw(&run.run_id, &handles).await;
                Err(error.hint(format!(
                    "a run begins where most members can be reached, and {begun} of {} are",
                    handles.len()
                )))
            }
            _ => Ok(self.own(&run.run_id, handles)),
        }
    }

    async fn slots(&self, run_id: &str) -> Result<Vec<SlotState>> {
        self.slots_of(run_id, &(0..self.members.len() as u16).collect::<Vec<_>>())
            .await
    }

    async fn slots_of(&self, run_id: &str, slots: &[u16]) -> Result<Vec<SlotState>> {
        let members = self.members.len();
        let asked = self.members.iter().enumerate().map(|(at, member)| async move {
            let wanted = slots.iter().any(|slot| usize::from(*slot) % members == at);
            if !wanted || self.lacks(run_id, at) {
                return Ok(Vec::new());
            }
            let target = member.target().await?;
            let mut own = target
                .ledger()
                .slots(run_id)
                .await
                .map_err(|error| error.at(&member.name))?;
            own.retain(|slot| usize::from(slot.slot) % members == at);
            Ok(own)
        });
        let mut united = Vec::new();
        for own in join_all(asked).await {
            united.extend(own?);
        }
        united.sort_by_key(|slot: &SlotState| slot.slot);
        Ok(united)
    }

    async fn take_over(&self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
        let each = self.runs_of_each(&RunQuery::Id(run_id.to_owned())).await?;
        if finished_in_any(&each).iter().any(|over| over == run_id) {
            return Err(Error::new(
                ErrorKind::Fenced,
                format!("run {run_id} has been finished by another process"),
            ));
        }
        let mut runs = Vec::with_capacity(each.len());
        for own in each {
            let own = own.map_err(|error| error.hint(BACK))?;
            runs.push(own.into_iter().find(|run| run.run_id == run_id));
        }
        let mut begun = runs.iter().enumerate();
        let Some((begun_in, known)) = begun.find_map(|(at, run)| Some((at, run.clone()?))) else {
            return Err(Error::new(
                ErrorKind::Fenced,
                format!("run {run_id} was forgotten"),
            ));
        };
        let members = self.members.len();
        let mut handles = Vec::with_capacity(members);
        let mut slots = Vec::new();
        for (at, own) in runs.iter().enumerate() {
            let member = &self.members[at];
            if own.is_some() {
                let taken = member.target().await?.ledger().take_over(run_id).await;
                let (handle, states) = taken.map_err(|error| error.at(&member.name))?;
                handles.push(Some(handle));
                slots.extend(
                    states
                        .into_iter()
                        .filter(|slot| usize::from(slot.slot) % members == at),
                );
                continue;
            }
            let Some(detail) = &known.detail.member else {
                return Err(Error::bug("a run of several databases that does not say so"));
            };
            let run = NewRun {
                run_id: run_id.to_owned(),
                identity: known.identity.clone(),
                table: self
                    .asked(&known.detail.table)
                    .unwrap_or_else(|| self.plain(begun_in, &detail.table)),
                preparation: match detail.truncates {
                    true => Preparation::Truncate,
                    false => Preparation::Keep,
                },
                detail: known.detail.clone(),
                role: RunRole::Alone,
            };
            handles.push(Some(self.start_in(at, &run, &[]).await?));
            let own = (0..known.detail.slots).filter(|slot| usize::from(*slot) % members == at);
            slots.extend(own.map(|slot| SlotState {
                slot,
                ..SlotState::default()
            }));
        }
        slots.sort_by_key(|slot| slot.slot);
        Ok((self.own(run_id, handles), slots))
    }

    /// Each member knows of its own table.
    async fn emptied(&self, run_ids: &[String]) -> Result<Vec<Emptied>> {
        let each = self.each(async |_, target| target.ledger().emptied(run_ids).await);
        let mut united: Vec<Emptied> = Vec::new();
        for (at, found) in each.await?.into_iter().enumerate() {
            for Emptied { run_id, why } in found.map_err(|error| error.hint(BACK))? {
                if !united.iter().any(|known| known.run_id == run_id) {
                    let why = format!("{}: {why}", self.names[at]);
                    united.push(Emptied { run_id, why });
                }
            }
        }
        Ok(united)
    }

    async fn accept_emptied(&self, handle: &RunHandle) -> Result<()> {
        for (at, member) in self.members.iter().enumerate() {
            if self.lacks(&handle.run_id, at) {
                continue;
            }
            let own = self.handle_of(handle, at)?;
            let accepted = member.target().await?.ledger().accept_emptied(&own).await;
            accepted.map_err(|error| error.at(&member.name))?;
        }
        Ok(())
    }

    /// In every member that has the run, one after another: what a kill leaves undone the next attempt does.
    async fn note_opening(&self, run_id: &str, opening: &Opening) -> Result<bool> {
        let mut is_noted = false;
        let same = RunQuery::Id(run_id.to_owned());
        for (at, runs) in self.runs_of_each(&same).await?.into_iter().enumerate() {
            let runs = runs.map_err(|error| error.hint(BACK))?;
            if runs.iter().any(|run| run.run_id == run_id) {
                let ledger = self.members[at].target().await?;
                if !ledger.ledger().note_opening(run_id, opening).await? {
                    return Ok(false);
                }
                is_noted = true;
            }
        }
        Ok(is_noted)
    }

    async fn finish(&self, handle: &RunHandle, _: Counts) -> Result<()> {
        let members = self.members.len();
        let kept = {
            let owned = self.owned.locked();
            owned.get(&handle.run_id).and_then(|owned| owned.counts.clone())
        };
        let counts = match kept {
            Some(counts) => counts,
            None => {
                let slots = self.slots(&handle.run_id).await?;
                let of = |at: usize| sum(slots.iter().filter(|slot| usize::from(slot.slot) % members == at));
                let counts: Vec<_> = (0..members).map(of).collect();
                let mut owned = self.owned.locked();
                if let Some(owned) = owned.get_mut(&handle.run_id) {
                    owned.counts = Some(counts.clone());
                }
                counts
            }
        };
        for (at, counts) in counts.into_iter().enumerate() {
            let member = &self.members[at];
            let own = self.handle_of(handle, at)?;
            let finished = member.target().await?.ledger().finish(&own, counts).await;
            match finished {
                // The run was over with the first member: another process does the rest, as it would after a kill.
                Err(error) if at > 0 && error.kind() == ErrorKind::Fenced => {
                    tracing::debug!("{}: {error}", member.name);
                }
                finished => finished.map_err(|error| error.at(&member.name))?,
            }
        }
        Ok(())
    }

    async fn conclude(&self, run_id: &str) -> Result<()> {
        let runs = self.runs_of_each(&RunQuery::Id(run_id.to_owned())).await?;
        if !finished_in_any(&runs).iter().any(|over| over == run_id) {
            return Ok(());
        }
        for (member, runs) in self.members.iter().zip(runs) {
            if runs?
                .iter()
                .any(|run| run.run_id == run_id && run.finished.is_none())
            {
                let closed = close(member.target().await?.ledger(), run_id).await;
                closed.map_err(|error| error.at(&member.name))?;
            }
        }
        Ok(())
    }

    async fn forget(&self, run_id: &str) -> Result<bool> {
        let mut any = false;
        let mut first_error = None;
        for (at, member) in self.members.iter().enumerate() {
            if self.lacks(run_id, at) {
                continue;
            }
            let forgotten = match member.target().await {
                Ok(target) => target
                    .ledger()
                    .forget(run_id)
                    .await
                    .map_err(|error| error.at(&member.name)),
                Err(error) => Err(error),
            };
            match forgotten {
                Ok(was_there) => any |= was_there,
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        match first_error {
            Some(error) => {
                Err(error.hint("the others have forgotten it; do it again once all can be reached"))
            }
            None => Ok(any),
        }
    }

    async fn forget_unbegun(&self, handle: &RunHandle) -> Result<bool> {
        let slots = self.slots(&handle.run_id).await?;
        if slots.iter().any(|slot| slot.counts.total() > 0) {
            return Ok(false);
        }
        let mut all = true;
        for (at, member) in self.members.iter().enumerate() {
            if self.lacks(&handle.run_id, at) {
                continue;
            }
            let own = self.handle_of(handle, at)?;
            // A resume begins the run again where a member before has forgotten it and this one has not.
            let forgotten = member.target().await?.ledger().forget_unbegun(&own).await;
            all &= forgotten.map_err(|error| error.at(&member.name))?;
        }
        Ok(all)
    }

    /// A part would have to be claimed in every member, and be done in all or none.
    fn jobs(&self) -> Option<&dyn Jobs> {
        None
    }
}
