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

    /// Whether the server has ended a transaction for the sake of another one: a deadlock, or in a cluster one of another node,
    /// such as that node's making of the same tables. Not where it was waited for long enough.
    fn lost_race(&self, error: &Error) -> bool;

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

/// Attempts at a transaction that the server ends for the sake of another one.
const RACE_ATTEMPTS: u32 = 5;

/// Attempts at a take-over, which may also wait in vain for an owner that is still at work.
const TAKE_OVER_ATTEMPTS: u32 = 10;

/// Makes at most so many attempts at what leaves nothing behind where it fails, as long as `again` says so of its error.
async fn tried<T, F>(most: u32, again: impl Fn(&Error) -> bool, mut attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    for _ in 1..most {
        match attempt().await {
            Err(error) if again(&error) => {}
            done => return done,
        }
    }
    attempt().await
}

/// Whether the database has no room for it now, or was waited for in vain.
fn overloaded(error: &Error) -> bool {
    error.kind() == ErrorKind::Overloaded
}

/// What a closure asks of a session.
fn work<T, F>(ask: F) -> Work<T>
where
    F: for<'s> FnOnce(&'s mut dyn Session, &'s Tables) -> BoxFuture<'s, Result<T>> + Send + 'static,
{
    Box::new(ask)
}

impl<P: Place> SqlLedger<P> {
    /// Does work in a transaction, again where that was ended for the sake of another one.
    async fn change<T: Send + 'static>(&self, made: impl Fn() -> Work<T>) -> Result<Option<T>> {
        tried(
            RACE_ATTEMPTS,
            |error| self.0.lost_race(error),
            || self.0.change(made()),
        )
        .await
    }
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
        let prune = || {
            let bound = bound.clone();
            work(move |on, tables| Box::pin(async move { find::prune(on, tables, &bound, limit).await }))
        };
        Ok(self.change(prune).await?.unwrap_or(0))
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
        let start = || {
            let new = run.clone();
            let started = work(|on, tables| Box::pin(async move { change::start(on, tables, &new).await }));
            self.0.begin(run, started)
        };
        tried(RACE_ATTEMPTS, |error| self.0.lost_race(error), start).await
    }

    async fn slots(&self, run_id: &str) -> Result<Vec<SlotState>> {
        let run_id = run_id.to_owned();
        let asked = work(|on, tables| Box::pin(async move { find::slots(on, tables, &run_id).await }));
        Ok(self.0.ask(asked).await?.unwrap_or_default())
    }

    async fn take_over(&self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
        self.0.check().await?;
        let take = || {
            let run_id = run_id.to_owned();
            let taken =
                work(|on, tables| Box::pin(async move { change::take_over(on, tables, &run_id).await }));
            self.0.change(taken)
        };
        tried(TAKE_OVER_ATTEMPTS, overloaded, take)
            .await?
            .ok_or_else(no_ledger)
    }

    async fn emptied(&self, run_ids: &[String]) -> Result<Vec<Emptied>> {
        self.0.emptied(run_ids).await
    }

    async fn accept_emptied(&self, handle: &RunHandle) -> Result<()> {
        self.0.accept_emptied(handle).await
    }

    async fn note_opening(&self, run_id: &str, opening: &Opening) -> Result<bool> {
        let note = || {
            let (run_id, opening) = (run_id.to_owned(), opening.clone());
            work(|on, tables| {
                Box::pin(async move { change::note_opening(on, tables, &run_id, &opening).await })
            })
        };
        Ok(self.change(note).await?.unwrap_or(false))
    }

    async fn finish(&self, handle: &RunHandle, counts: Counts) -> Result<()> {
        let finish = || {
            let handle = handle.clone();
            work(move |on, tables| Box::pin(async move { change::finish(on, tables, &handle, counts).await }))
        };
        self.change(finish).await?.ok_or_else(no_ledger)
    }

    async fn forget(&self, run_id: &str) -> Result<bool> {
        let forget = || {
            let run_id = run_id.to_owned();
            work(|on, tables| Box::pin(async move { change::forget(on, tables, &run_id).await }))
        };
        Ok(self.change(forget).await?.unwrap_or(false))
    }

    async fn forget_unbegun(&self, handle: &RunHandle) -> Result<bool> {
        let forget = || {
            let handle = handle.clone();
            work(|on, tables| Box::pin(async move { change::forget_unbegun(on, tables, &handle).await }))
        };
        Ok(self.change(forget).await?.unwrap_or(false))
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
        let claim = || {
            let request = request.clone();
            work(|on, tables| Box::pin(async move { jobs::claim(on, tables, &request).await }))
        };
        self.change(claim).await?.ok_or_else(|| no_job(&request.job_id))
    }

    async fn renew(&self, attempt: &PartAttempt, lease_seconds: u64) -> Result<bool> {
        let renew = || {
            let attempt = attempt.clone();
            work(move |on, tables| {
                Box::pin(async move { jobs::renew(on, tables, &attempt, lease_seconds).await })
            })
        };
        Ok(self.change(renew).await?.unwrap_or(false))
    }

    async fn release(&self, attempt: &PartAttempt, error: Option<&str>) -> Result<()> {
        let release = || {
            let (attempt, error) = (attempt.clone(), error.map(str::to_owned));
            work(|on, tables| {
                Box::pin(async move { jobs::release(on, tables, &attempt, error.as_deref()).await })
            })
        };
        self.change(release).await.map(|_| ())
    }

    async fn take_over_part(
        &self,
        attempt: &PartAttempt,
        run_id: &str,
    ) -> Result<(RunHandle, Vec<SlotState>)> {
        self.0.check().await?;
        let take = || {
            let (attempt, run_id) = (attempt.clone(), run_id.to_owned());
            let taken = work(|on, tables| {
                Box::pin(async move { jobs::take_over(on, tables, &attempt, &run_id).await })
            });
            self.0.change(taken)
        };
        tried(TAKE_OVER_ATTEMPTS, overloaded, take)
            .await?
            .ok_or_else(no_ledger)
    }

    async fn disagreeing(&self, job_id: &str) -> Result<Vec<i64>> {
        let job_id = job_id.to_owned();
        let asked = work(|on, tables| Box::pin(async move { jobs::disagreeing(on, tables, &job_id).await }));
        Ok(self.0.ask(asked).await?.unwrap_or_default())
    }
}
