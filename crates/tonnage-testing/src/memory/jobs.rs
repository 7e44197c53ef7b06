//! Jobs of the reference target. Every call is one transaction, as it holds the state's lock.

use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use tonnage_core::{
    error::Result,
    ledger::{
        RunHandle,
        jobs::{
            Busy, ClaimRequest, Decision, HeldPart, InUse, Jobs, NewPart, PartAttempt, PartClaim, PartId,
            PartRecord, PartState, WHOLE, WhichPart, added_part, decide, kept_error, missing, no_job,
            superseded,
        },
    },
    slot::{Counts, SlotState},
};

use super::{Memory, Rule, State, StoredPart};

impl State {
    fn now(&self) -> i64 {
        self.clock.unwrap_or_else(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            since.map_or(0, |since| since.as_secs() as i64)
        })
    }

    fn records(&self, job_id: &str) -> Vec<PartRecord> {
        let now = self.now();
        let own = self.parts.iter().filter(|((job, _), _)| job == job_id);
        own.map(|(_, stored)| PartRecord {
            lease_seconds: match self.broken {
                Some(Rule::Lease) => 0,
                _ => stored.lease_until - now,
            },
            ..stored.record.clone()
        })
        .collect()
    }

    fn part(&mut self, of: &PartId) -> Option<&mut StoredPart> {
        self.parts.get_mut(&(of.job_id.clone(), of.part))
    }

    /// The row of an attempt that is the newest and not at its end.
    fn attempted(&mut self, attempt: &PartAttempt) -> Option<&mut StoredPart> {
        let any = self.broken == Some(Rule::Attempt);
        self.part(&attempt.of).filter(|stored| {
            (any || stored.record.attempt == attempt.attempt) && stored.record.state == PartState::Running
        })
    }

    pub(super) fn put_job(&mut self, job_id: &str, parts: &[NewPart]) {
        for part in parts {
            let record = PartRecord {
                part: part.part,
                state: PartState::Open,
                attempt: 0,
                owner: None,
                lease_seconds: 0,
                connections: part.connections_max.unwrap_or(0),
                run_id: (part.part == WHOLE).then(|| job_id.to_owned()),
                counts: Counts::default(),
                error: None,
                detail: part.detail.clone(),
            };
            let key = (job_id.to_owned(), part.part);
            self.parts.insert(
                key,
                StoredPart {
                    record,
                    lease_until: 0,
                },
            );
        }
    }

    pub(super) fn begin_part(&mut self, attempt: &PartAttempt, run_id: &str) -> Result<()> {
        let stored = self.attempted(attempt).ok_or_else(|| superseded(attempt))?;
        stored.record.run_id = Some(run_id.to_owned());
        Ok(())
    }

    pub(super) fn end_part(&mut self, of: &PartId, counts: Counts) {
        if let Some(stored) = self.part(of) {
            stored.record.state = PartState::Done;
            stored.record.counts = counts;
            stored.lease_until = 0;
        }
    }

    /// Removes the rows of a job; the runs of its parts that are not done.
    pub(super) fn forget_job(&mut self, job_id: &str) -> Vec<String> {
        let records = self.records(job_id);
        self.parts.retain(|(job, _), _| job != job_id);
        let undone = |part: &PartRecord| part.state != PartState::Done && part.part != WHOLE;
        let undone = records.into_iter().filter(undone);
        undone.filter_map(|part| part.run_id).collect()
    }

    fn claim(&mut self, request: &ClaimRequest) -> Result<PartClaim> {
        let mut records = self.records(&request.job_id);
        if let WhichPart::Numbered(number) = request.which
            && let Some(whole) = records.iter().find(|record| record.part == WHOLE)
            && !records.iter().any(|record| record.part == number)
        {
            let added = added_part(number, whole)?;
            self.put_job(&request.job_id, &[added]);
            records = self.records(&request.job_id);
        }
        let whole = records.iter().find(|record| record.part == WHOLE);
        let whole = whole.ok_or_else(|| no_job(&request.job_id))?;
        let parts = || records.iter().filter(|record| record.part != WHOLE);
        let undone = || parts().filter(|part| part.state != PartState::Done);
        let part = match request.which {
            WhichPart::Numbered(WHOLE) => {
                let undone: Vec<_> = undone().map(|part| part.part).collect();
                if !undone.is_empty() {
                    return Err(missing(&undone, whole.job()?.parts));
                }
                whole
            }
            WhichPart::Numbered(number) => match parts().find(|part| part.part == number) {
                Some(part) => part,
                None => return Err(no_job(&request.job_id)),
            },
            WhichPart::Next => {
                let free = undone().filter(|part| !part.is_held());
                match free.min_by_key(|part| (part.attempt, part.part)) {
                    Some(part) => part,
                    None => {
                        let left = undone().map(|part| part.lease_seconds.max(0)).min();
                        return Ok(left.map_or(PartClaim::NothingLeft, |left| {
                            PartClaim::Busy(Busy {
                                why: "all parts that are not done are being carried out".to_owned(),
                                seconds: left.unsigned_abs(),
                            })
                        }));
                    }
                }
            }
        };
        let others = parts().filter(|other| other.is_held() && other.part != part.part);
        let used = InUse {
            connections: match self.broken {
                Some(Rule::Connections) => 0,
                _ => others.map(|other| other.connections).sum(),
            },
            max: (whole.connections > 0).then_some(whole.connections),
        };
        let (attempt, connections) = match decide(part, request, used) {
            Decision::Refused(claim) => return Ok(claim),
            Decision::Given { attempt, connections } => (attempt, connections),
        };
        let of = PartId {
            job_id: request.job_id.clone(),
            part: part.part,
        };
        let lease_until = self.now() + request.lease_seconds as i64;
        let stored = self.part(&of).ok_or_else(|| no_job(&request.job_id))?;
        stored.lease_until = lease_until;
        stored.record.state = PartState::Running;
        stored.record.attempt = attempt;
        stored.record.connections = connections;
        stored.record.owner = Some(request.owner.clone());
        stored.record.error = None;
        Ok(PartClaim::Held(HeldPart {
            detail: stored.record.detail.clone(),
            attempt: PartAttempt { of, attempt },
            connections,
        }))
    }
}

#[async_trait]
impl Jobs for Memory {
    async fn parts(&self, job_id: &str) -> Result<Vec<PartRecord>> {
        self.call()?;
        Ok(self.lock().records(job_id))
    }

    async fn part(&self, of: &PartId) -> Result<Option<PartRecord>> {
        self.call()?;
        let records = self.lock().records(&of.job_id);
        Ok(records.into_iter().find(|record| record.part == of.part))
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<PartClaim> {
        self.call()?;
        self.lock().claim(request)
    }

    async fn renew(&self, attempt: &PartAttempt, lease_seconds: u64) -> Result<bool> {
        self.call()?;
        let mut state = self.lock();
        let until = state.now() + lease_seconds as i64;
        let stored = state.attempted(attempt);
        Ok(stored.map(|stored| stored.lease_until = until).is_some())
    }

    async fn release(&self, attempt: &PartAttempt, error: Option<&str>) -> Result<()> {
        self.call()?;
        if let Some(stored) = self.lock().attempted(attempt) {
            stored.lease_until = 0;
            stored.record.state = PartState::Failed;
            stored.record.error = error.map(kept_error);
        }
        Ok(())
    }

    async fn take_over_part(
        &self,
        attempt: &PartAttempt,
        run_id: &str,
    ) -> Result<(RunHandle, Vec<SlotState>)> {
        let check = |state: &mut State| match state.attempted(attempt) {
            Some(_) => Ok(()),
            None => Err(superseded(attempt)),
        };
        self.take_over_if(run_id, check).await
    }

    async fn disagreeing(&self, job_id: &str) -> Result<Vec<i64>> {
        self.call()?;
        let state = self.lock();
        let differs = |part: &&PartRecord| {
            let run = state
                .runs
                .iter()
                .find(|run| Some(&run.run_id) == part.run_id.as_ref());
            part.part != WHOLE
                && part.state == PartState::Done
                && run.is_some_and(|run| run.finished.is_none() || run.counts != part.counts)
        };
        let records = state.records(job_id);
        Ok(records.iter().filter(differs).map(|part| part.part).collect())
    }
}
