//! The ledger of a database, over what each database does in its own way.

use async_trait::async_trait;
use futures::future::BoxFuture;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{
        Emptied, Ledger, NewRun, Opening, OtherLedger, RunHandle, RunQuery, RunRecord, Setup, Sought,
        inputs::InputRecord,
        jobs::{ClaimRequest, Jobs, PartAttempt, PartClaim, PartId, PartRecord, no_job},
    },
    slot::{Counts, SlotState},
};

use super::{Session, Tables, change, find, jobs, no_ledger};

/// Attempts at a take-over that meets a deadlock with an owner that is still at work.
const TAKE_OVER_ATTEMPTS: usize = 10;

/// What is asked of a session. It owns what it needs, as it may be done on another thread.
pub type Work<T> =
    Box<dyn for<'s> FnOnce(&'s mut dyn Session, &'s Tables) -> BoxFuture<'s, Result<T>> + Send>;

/// Where a ledger is, how it is made, and how one asks it.
#[async_trait]
pub trait Place: Send + Sync {
    /// Does `work`; none where the ledger was never made.
    async fn ask<T: Send + 'static>(&self, work: Work<T>) -> Result<Option<T>>;

    /// The same in a transaction, which is committed where `work` succeeds and else undone.
    async fn change<T: Send + 'static>(&self, work: Work<T>) -> Result<Option<T>>;

    /// Makes the tables where they are missing, and does `work`, which starts a run, in a transaction.
    async fn begin(&self, run: &NewRun, work: Work<RunHandle>) -> Result<RunHandle>;

    /// Refuses a ledger that is not fit to go on with a run.
    async fn check(&self) -> Result<()>;

    /// See [`Ledger::elsewhere`].
    async fn elsewhere(&self, sought: &Sought) -> Result<Vec<OtherLedger>>;

    /// See [`Ledger::setup`].
    async fn setup(&self, grantees: &[String]) -> Result<Vec<Setup>>;

    /// See [`Ledger::set_up`].
    async fn set_up(&self, grantees: &[String]) -> Result<()>;

    /// See [`Ledger::emptied`].
    async fn emptied(&self, run_ids: &[String]) -> Result<Vec<Emptied>>;

    /// See [`Ledger::accept_emptied`].
    async fn accept_emptied(&self, handle: &RunHandle) -> Result<()>;
}

/// The ledger of a SQL database.
pub struct SqlLedger<P>(pub P);

/// How often a transaction of the ledger is tried that others get ahead of.
const RACE_ATTEMPTS: u32 = 5;

/// Whether the server ended a transaction for the sake of another one: a deadlock, or in a cluster one of another node,
/// such as that node's making of the same tables. What the server has not said itself was waited for long enough.
fn lost_a_race(error: &Error) -> bool {
    error.kind() == ErrorKind::Overloaded && error.code_text().is_some()
}

/// What a closure asks of a session.
fn work<T, F>(ask: F) -> Work<T>
where
    F: for<'s> FnOnce(&'s mut dyn Session, &'s Tables) -> BoxFuture<'s, Result<T>> + Send + 'static,
{
    Box::new(ask)
}

#[async_trait]
impl<P: Place> Ledger for SqlLedger<P> {
    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>> {
        let query = query.clone();
        let asked = work(|on, tables| Box::pin(async move { find::runs(on, tables, &query).await }));
        Ok(self.0.ask(asked).await?.unwrap_or_default())
    }

    async fn ids(&self, prefix: &str) -> Result<Vec<String>> {
        let prefix = prefix.to_owned();
        let asked = work(|on, tables| Box::pin(async move { find::ids(on, tables, &prefix).await }));
        Ok(self.0.ask(asked).await?.unwrap_or_default())
    }

    async fn inputs(&self, keys: &[String]) -> Result<Vec<InputRecord>> {
        let keys = keys.to_vec();
        let asked = work(|on, tables| Box::pin(async move { find::inputs(on, tables, &keys).await }));
        Ok(self.0.ask(asked).await?.unwrap_or_default())
    }

    async fn prune(&self, keep: u64, limit: u64) -> Result<u64> {
        let bound = work(move |on, tables| Box::pin(find::bound(on, tables, keep)));
        let Some(bound) = self.0.ask(bound).await?.flatten() else {
            return Ok(0);
        };
        let pruned =
            work(move |on, tables| Box::pin(async move { find::prune(on, tables, &bound, limit).await }));
        Ok(self.0.change(pruned).await?.unwrap_or(0))
    }

    async fn elsewhere(&self, sought: &Sought) -> Result<Vec<OtherLedger>> {
        self.0.elsewhere(sought).await
    }

    async fn setup(&self, grantees: &[String]) -> Result<Vec<Setup>> {
        self.0.setup(grantees).await
    }

    async fn set_up(&self, grantees: &[String]) -> Result<()> {
        self.0.set_up(grantees).await
    }

    async fn start(&self, run: &NewRun) -> Result<RunHandle> {
        let mut attempt = 1;
        loop {
            let new = run.clone();
            let started = work(|on, tables| Box::pin(async move { change::start(on, tables, &new).await }));
            match self.0.begin(run, started).await {
                Err(error) if lost_a_race(&error) && attempt < RACE_ATTEMPTS => attempt += 1,
                done => return done,
            }
        }
    }

    async fn slots(&self, run_id: &str) -> Result<Vec<SlotState>> {
        let run_id = run_id.to_owned();
        let asked = work(|on, tables| Box::pin(async move { find::slots(on, tables, &run_id).await }));
        Ok(self.0.ask(asked).await?.unwrap_or_default())
    }

    async fn take_over(&self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
        self.0.check().await?;
        let mut attempt = 1;
        loop {
            let run_id = run_id.to_owned();
            let taken =
                work(|on, tables| Box::pin(async move { change::take_over(on, tables, &run_id).await }));
            match self.0.change(taken).await {
                Err(error) if error.kind() == ErrorKind::Overloaded && attempt < TAKE_OVER_ATTEMPTS => {
                    attempt += 1;
                }
                taken => return taken?.ok_or_else(no_ledger),
            }
        }
    }

    async fn emptied(&self, run_ids: &[String]) -> Result<Vec<Emptied>> {
        self.0.emptied(run_ids).await
    }

    async fn accept_emptied(&self, handle: &RunHandle) -> Result<()> {
        self.0.accept_emptied(handle).await
    }

    async fn note_opening(&self, run_id: &str, opening: &Opening) -> Result<bool> {
        let mut attempt = 1;
        loop {
            let (run_id, opening) = (run_id.to_owned(), opening.clone());
            let noted = work(|on, tables| {
                Box::pin(async move { change::note_opening(on, tables, &run_id, &opening).await })
            });
            match self.0.change(noted).await {
                Err(error) if lost_a_race(&error) && attempt < RACE_ATTEMPTS => attempt += 1,
                done => return Ok(done?.unwrap_or(false)),
            }
        }
    }

    async fn finish(&self, handle: &RunHandle, counts: Counts) -> Result<()> {
        let mut attempt = 1;
        loop {
            let handle = handle.clone();
            let finished = work(move |on, tables| {
                Box::pin(async move { change::finish(on, tables, &handle, counts).await })
            });
            match self.0.change(finished).await {
                Err(error) if lost_a_race(&error) && attempt < RACE_ATTEMPTS => attempt += 1,
                done => return done?.ok_or_else(no_ledger),
            }
        }
    }

    async fn forget(&self, run_id: &str) -> Result<bool> {
        let run_id = run_id.to_owned();
        let forgotten = work(|on, tables| Box::pin(async move { change::forget(on, tables, &run_id).await }));
        Ok(self.0.change(forgotten).await?.unwrap_or(false))
    }

    async fn forget_unbegun(&self, handle: &RunHandle) -> Result<bool> {
        let handle = handle.clone();
        let forgotten =
            work(|on, tables| Box::pin(async move { change::forget_unbegun(on, tables, &handle).await }));
        Ok(self.0.change(forgotten).await?.unwrap_or(false))
    }

    async fn conclude(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn jobs(&self) -> Option<&dyn Jobs> {
        Some(self)
    }
}

#[async_trait]
impl<P: Place> Jobs for SqlLedger<P> {
    async fn parts(&self, job_id: &str) -> Result<Vec<PartRecord>> {
        let job_id = job_id.to_owned();
        let asked = work(|on, tables| Box::pin(async move { jobs::all(on, tables, &job_id).await }));
        Ok(self.0.ask(asked).await?.unwrap_or_default())
    }

    async fn part(&self, of: &PartId) -> Result<Option<PartRecord>> {
        let of = of.clone();
        let asked = work(|on, tables| Box::pin(async move { jobs::one(on, tables, &of).await }));
        Ok(self.0.ask(asked).await?.flatten())
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<PartClaim> {
        let request = request.clone();
        let missing = no_job(&request.job_id);
        let claimed = work(|on, tables| Box::pin(async move { jobs::claim(on, tables, &request).await }));
        self.0.change(claimed).await?.ok_or(missing)
    }

    async fn renew(&self, attempt: &PartAttempt, lease_seconds: u64) -> Result<bool> {
        let attempt = attempt.clone();
        let renewed = work(move |on, tables| {
            Box::pin(async move { jobs::renew(on, tables, &attempt, lease_seconds).await })
        });
        Ok(self.0.change(renewed).await?.unwrap_or(false))
    }

    async fn release(&self, attempt: &PartAttempt, error: Option<&str>) -> Result<()> {
        let (attempt, error) = (attempt.clone(), error.map(str::to_owned));
        let released = work(|on, tables| {
            Box::pin(async move { jobs::release(on, tables, &attempt, error.as_deref()).await })
        });
        self.0.change(released).await.map(|_| ())
    }

    async fn take_over_part(
        &self,
        attempt: &PartAttempt,
        run_id: &str,
    ) -> Result<(RunHandle, Vec<SlotState>)> {
        self.0.check().await?;
        let mut tries = 1;
        loop {
            let (attempt, run_id) = (attempt.clone(), run_id.to_owned());
            let taken = work(|on, tables| {
                Box::pin(async move { jobs::take_over(on, tables, &attempt, &run_id).await })
            });
            match self.0.change(taken).await {
                Err(error) if error.kind() == ErrorKind::Overloaded && tries < TAKE_OVER_ATTEMPTS => {
                    tries += 1
                }
                taken => return taken?.ok_or_else(no_ledger),
            }
        }
    }

    async fn disagreeing(&self, job_id: &str) -> Result<Vec<i64>> {
        let job_id = job_id.to_owned();
        let asked = work(|on, tables| Box::pin(async move { jobs::disagreeing(on, tables, &job_id).await }));
        Ok(self.0.ask(asked).await?.unwrap_or_default())
    }
}
