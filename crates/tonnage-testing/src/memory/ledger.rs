//! The ledger of the reference target, and what a run owes to its table.

use async_trait::async_trait;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{
        Emptied, Ledger, NewRun, Opening, OtherLedger, RunHandle, RunQuery, RunRecord, RunStatus, Setup,
        Sought,
        inputs::{self, InputRecord},
        jobs::{Jobs, RunRole},
    },
    preparation::{IndexDefinition, Pending, Preparation, not_empty, shadow},
    slot::{Counts, SlotState},
    table::{TableIdentity, TableName},
};

use super::{Memory, State, Stored};

impl State {
    fn stored(&mut self, name: &TableName) -> Result<&mut Stored> {
        let stored = self.tables.get_mut(&name.name);
        stored.ok_or_else(|| Error::schema(format!("there is no table {name}")))
    }

    /// Does what a run's preparation asks for, and says what is owed then.
    fn prepare(&mut self, run: &NewRun) -> Result<Option<Pending>> {
        let mut pending = Pending {
            table: run.table.clone(),
            shadow: None,
            indexes: Vec::new(),
        };
        if run.preparation.truncates() {
            self.stored(&run.table)?.rows.clear();
        }
        match run.preparation {
            Preparation::Keep | Preparation::Truncate => return Ok(None),
            Preparation::Recreate => {
                let name = shadow(&run.table, &run.run_id);
                self.created += 1;
                let object = self.created.to_string();
                let stored = self.stored(&run.table)?;
                let mut table = stored.table.clone();
                table.name = name.clone();
                table.identity.object = object;
                let shadow = Stored {
                    table,
                    rows: Vec::new(),
                    check: stored.check,
                    indexes: stored.indexes.clone(),
                };
                self.tables.insert(name.name.clone(), shadow);
                pending.shadow = Some(name);
            }
            Preparation::RebuildIndexes { .. } => {
                let stored = self.stored(&run.table)?;
                if !stored.rows.is_empty() {
                    return Err(not_empty(&run.table));
                }
                let dropped = std::mem::take(&mut stored.indexes).into_iter();
                pending.indexes = dropped
                    .map(|name| IndexDefinition {
                        definition: format!("index {name}"),
                        name,
                        comment: None,
                    })
                    .collect();
            }
        }
        Ok(Some(pending))
    }

    /// Gives the table what is owed to it; says what it is then.
    fn finish_preparation(&mut self, pending: Pending) -> Result<TableIdentity> {
        let Pending {
            table,
            shadow,
            indexes,
        } = pending;
        if let Some(shadow) = shadow {
            let stored = self.tables.remove(&shadow.name);
            let mut stored = stored.ok_or_else(|| Error::schema(format!("there is no table {shadow}")))?;
            stored.table.name = table.clone();
            self.tables.insert(table.name.clone(), stored);
        }
        let stored = self.stored(&table)?;
        stored.indexes.extend(indexes.into_iter().map(|index| index.name));
        Ok(stored.table.identity.clone())
    }

    /// Removes a run and undoes what it was about to do to the table; false where there is none.
    fn forget(&mut self, run_id: &str) -> bool {
        let Some(at) = self.runs.iter().position(|r| r.run_id == run_id) else {
            let before = self.pruned.len();
            self.pruned.retain(|run| run.run_id != run_id);
            return self.pruned.len() < before;
        };
        if let Some(pending) = self.runs.remove(at).detail.pending {
            self.undo(pending);
        }
        self.slots.remove(run_id);
        for part in self.forget_job(run_id) {
            self.forget(&part);
        }
        true
    }

    /// Leaves the table as if the run had never been prepared.
    fn undo(&mut self, pending: Pending) {
        if let Some(shadow) = pending.shadow {
            self.tables.remove(&shadow.name);
        }
        if let Some(stored) = self.tables.get_mut(&pending.table.name) {
            stored
                .indexes
                .extend(pending.indexes.into_iter().map(|index| index.name));
        }
    }
}

impl Memory {
    /// Takes a run over where `check` lets it, once no transaction holds its slots.
    pub(super) async fn take_over_if(
        &self,
        run_id: &str,
        check: impl Fn(&mut State) -> Result<()> + Send,
    ) -> Result<(RunHandle, Vec<SlotState>)> {
        self.call()?;
        loop {
            let released = self.released.notified();
            {
                let mut state = self.lock();
                check(&mut state)?;
                let is_free = !state.locks.keys().any(|(run, _)| run == run_id);
                let unfinished = |r: &&mut RunRecord| r.run_id == run_id && r.finished.is_none();
                let Some(run) = state.runs.iter_mut().find(unfinished) else {
                    return Err(Error::new(
                        ErrorKind::Fenced,
                        format!("run {run_id} is finished or forgotten"),
                    ));
                };
                if is_free {
                    run.epoch += 1;
                    let handle = RunHandle {
                        run_id: run_id.to_owned(),
                        epoch: run.epoch,
                    };
                    let slots = state.slots.get(run_id).cloned().unwrap_or_default();
                    return Ok((handle, slots));
                }
            }
            released.await;
        }
    }
}

#[async_trait]
impl Ledger for Memory {
    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>> {
        self.call()?;
        let state = self.lock();
        let mut runs: Vec<_> = state.runs.iter().rev().cloned().collect();
        for run in runs.iter_mut().filter(|r| r.finished.is_none()) {
            run.counts = Counts::default();
            for slot in state.slots.get(&run.run_id).into_iter().flatten() {
                run.counts.add(slot.counts);
            }
        }
        runs.retain(|run| query.matches(run));
        if let RunQuery::Identity(_) = query {
            runs.sort_by_key(|run| run.finished.is_some());
        }
        runs.truncate(query.limit());
        Ok(runs)
    }

    async fn ids(&self, prefix: &str) -> Result<Vec<String>> {
        self.call()?;
        let state = self.lock();
        let pruned = state.pruned.iter().map(|run| &run.run_id);
        let known = state.runs.iter().map(|run| &run.run_id).chain(pruned);
        Ok(known
            .filter(|id| id.starts_with(prefix))
            .take(2)
            .cloned()
            .collect())
    }

    async fn inputs(&self, keys: &[String]) -> Result<Vec<InputRecord>> {
        self.call()?;
        let state = self.lock();
        let mut found = Vec::new();
        for run in state.runs.iter().rev().chain(&state.pruned) {
            found.extend(inputs::of_detail(
                &run.run_id,
                &run.detail,
                RunStatus::of(run.finished),
                keys,
            )?);
        }
        Ok(found)
    }

    async fn prune(&self, keep: u64, limit: u64) -> Result<u64> {
        self.call()?;
        let mut state = self.lock();
        let finished = state.runs.iter().filter(|run| run.finished.is_some()).count() as u64;
        let mut left = finished.saturating_sub(keep).min(limit);
        let pruned = left;
        let (kept, pruned_runs): (Vec<_>, Vec<_>) = state.runs.drain(..).partition(|run| {
            let stays = run.finished.is_none() || left == 0;
            left -= u64::from(!stays);
            stays
        });
        state.runs = kept;
        state.pruned.extend(pruned_runs);
        Ok(pruned)
    }

    async fn elsewhere(&self, _: &Sought) -> Result<Vec<OtherLedger>> {
        Ok(Vec::new())
    }

    async fn setup(&self, _: &[String]) -> Result<Vec<Setup>> {
        Ok(Vec::new())
    }

    async fn set_up(&self, _: &[String]) -> Result<()> {
        Ok(())
    }

    async fn start(&self, run: &NewRun) -> Result<RunHandle> {
        self.call()?;
        let mut state = self.lock();
        let unfinished = |known: &&RunRecord| known.identity == run.identity && known.finished.is_none();
        match state.runs.iter().find(unfinished) {
            // Its answer was lost.
            Some(known) if (&known.run_id, known.epoch) == (&run.run_id, 1) => {
                return Ok(RunHandle {
                    run_id: run.run_id.clone(),
                    epoch: 1,
                });
            }
            Some(_) => {
                let table = &run.detail.table;
                let message = format!("an unfinished run of this input into {table} is in the ledger");
                return Err(Error::new(ErrorKind::Fenced, message)
                    .hint("go on with --resume, or begin again with --restart"));
            }
            None => {}
        }
        if let RunRole::Part(attempt) = &run.role {
            state.begin_part(attempt, &run.run_id)?;
        }
        let mut detail = run.detail.clone();
        detail.pending = state.prepare(run)?;
        if let RunRole::Job(parts) = &run.role {
            state.put_job(&run.run_id, parts);
        }
        state.runs.push(RunRecord {
            run_id: run.run_id.clone(),
            identity: run.identity.clone(),
            epoch: 1,
            started: 0,
            finished: None,
            detail,
            counts: Counts::default(),
        });
        let slots = (0..run.detail.slots).map(|slot| SlotState {
            slot,
            ..SlotState::default()
        });
        state.slots.insert(run.run_id.clone(), slots.collect());
        Ok(RunHandle {
            run_id: run.run_id.clone(),
            epoch: 1,
        })
    }

    async fn slots(&self, run_id: &str) -> Result<Vec<SlotState>> {
        self.call()?;
        Ok(self.lock().slots.get(run_id).cloned().unwrap_or_default())
    }

    async fn take_over(&self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
        self.take_over_if(run_id, |_| Ok(())).await
    }

    /// Its tables and its ledger go together.
    async fn emptied(&self, _: &[String]) -> Result<Vec<Emptied>> {
        Ok(Vec::new())
    }

    async fn accept_emptied(&self, _: &RunHandle) -> Result<()> {
        Ok(())
    }

    async fn note_opening(&self, run_id: &str, opening: &Opening) -> Result<bool> {
        self.call()?;
        let mut state = self.lock();
        let unfinished = |r: &&mut RunRecord| r.run_id == run_id && r.finished.is_none();
        let run = state.runs.iter_mut().find(unfinished);
        Ok(run.is_some_and(|run| opening.put_into(&mut run.detail)))
    }

    async fn finish(&self, handle: &RunHandle, counts: Counts) -> Result<()> {
        self.call()?;
        let mut state = self.lock();
        match state
            .runs
            .iter()
            .position(|r| r.run_id == handle.run_id && r.epoch == handle.epoch)
        {
            Some(at) => {
                if let Some(pending) = state.runs[at].detail.pending.clone() {
                    let before = state.runs[at].detail.identity();
                    state.runs[at].detail.table_identity = state.finish_preparation(pending)?;
                    state.runs[at].detail.pending = None;
                    if state.runs[at].identity == before {
                        state.runs[at].identity = state.runs[at].detail.identity();
                    }
                }
                let run = &mut state.runs[at];
                let is_first = run.finished.is_none();
                run.finished = Some(0);
                run.counts = counts;
                let part = run.detail.part.clone();
                state.slots.remove(&handle.run_id);
                if let Some(part) = part.filter(|_| is_first) {
                    state.end_part(&part, counts);
                }
                Ok(())
            }
            None => Err(Error::fenced()),
        }
    }

    async fn forget(&self, run_id: &str) -> Result<bool> {
        self.call()?;
        Ok(self.lock().forget(run_id))
    }

    async fn forget_unbegun(&self, handle: &RunHandle) -> Result<bool> {
        self.call()?;
        loop {
            let released = self.released.notified();
            {
                let mut state = self.lock();
                let is_owned = |r: &RunRecord| r.run_id == handle.run_id && r.epoch == handle.epoch;
                let slots = state.slots.get(&handle.run_id);
                let moved = slots.into_iter().flatten().any(|slot| slot.counts.total() > 0);
                if moved || !state.runs.iter().any(|r| is_owned(r) && r.finished.is_none()) {
                    return Ok(false);
                }
                if !state.locks.keys().any(|(run, _)| *run == handle.run_id) {
                    return Ok(state.forget(&handle.run_id));
                }
            }
            released.await;
        }
    }

    async fn conclude(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn jobs(&self) -> Option<&dyn Jobs> {
        Some(self)
    }
}
