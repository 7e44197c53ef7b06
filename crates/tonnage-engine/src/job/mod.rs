//! Jobs: one load whose parts any number of processes carry out, on any number of machines.
//!
//! [`Prepared::plan_job`](crate::load::Prepared::plan_job) plans one; [`Job`] is one that was planned. A part is claimed
//! ([`Job::claim`]) and carried out ([`Job::carry_out`]): a load with an identity of its own, which goes on where an earlier
//! attempt has stopped. Once all are done, [`Job::finish`] settles what the job owes to its table. Nothing here knows what
//! starts the processes, or how often: that every row is there once, and every part done once, is the ledger's promise
//! ([`tonnage_core::ledger::jobs`]).

mod lease;
mod report;
pub(crate) mod share;

use std::{collections::HashMap, sync::Arc};

pub use tonnage_core::ledger::jobs::{
    Busy, ClaimRequest, HeldPart, JobDetail, PARTS_MAX, PartAttempt, PartClaim, PartRecord, PartState, WHOLE,
    WhichPart,
};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{
        InputIdentity, RUNS_KEPT, RUNS_PRUNED_MAX, RunQuery, RunRecord,
        jobs::{Jobs, PartId, missing, no_job, numbers, superseded},
    },
    retry::Attempts,
    slot::Counts,
    source::Source,
    stop::Stop,
};
use tonnage_places::url_of;

use self::lease::Lease;
pub use self::report::{JobReport, JobRows, JobState, PartCounts, PartReport};
use crate::{
    connected::Connected,
    load::{Ended, PartOfJob, Progress, prepare, run_scripts},
    plan::{ATTEMPTS_MAX, ATTEMPTS_TIME_MAX, Attempt, Create, LoadOptions, OnError, jobs_by_default},
};

/// How long a lease lasts that nobody has said anything else of, in seconds.
pub const LEASE_SECONDS: u64 = 60;

/// The shortest lease, in seconds: it is renewed three times while it lasts.
pub const LEASE_SECONDS_LEAST: u64 = 3;

/// The file with the rejects of a part, in the job's directory or under its prefix of objects.
pub fn part_rejects(directory: &str, part: i64) -> String {
    format!("{}/part-{part:05}.rejects.jsonl", directory.trim_end_matches('/'))
}

/// The options of a part's load: those of the whole, without what belongs to the job.
pub fn part_options(options: LoadOptions) -> LoadOptions {
    LoadOptions {
        // The table has them by now.
        types: match options.create {
            Create::No => options.types,
            _ => Vec::new(),
        },
        create: match options.create {
            Create::No => Create::No,
            // It is there: what was said for making it, such as its key, stays allowed.
            _ => Create::Missing,
        },
        add_columns: false,
        truncate: false,
        recreate: false,
        rebuild_indexes: false,
        before_sql: Vec::new(),
        after_sql: Vec::new(),
        attempt: Attempt::New,
        ..options
    }
}

/// A job that was planned, in the ledger of a database at hand.
pub struct Job {
    database: Connected,
    job_id: String,
    detail: JobDetail,
    run: RunRecord,
}

/// Who claims parts, and for how long.
#[derive(Debug, Clone)]
pub struct Claimant {
    /// For people: a host and a process.
    pub name: String,
    /// How long a lease lasts unless it is renewed.
    pub lease_seconds: u64,
}

/// How an attempt to finish a job ended.
#[derive(Debug)]
pub enum Finish {
    /// By this one, or by another before.
    Done(Box<JobReport>),
    /// Another one is at it.
    Busy(Busy),
}

impl Job {
    /// The job of this id. `Config` where the ledger has none.
    pub async fn open(database: Connected, job_id: &str) -> Result<Self> {
        let ledger = database.target().ledger();
        let of = PartId {
            job_id: job_id.to_owned(),
            part: WHOLE,
        };
        let whole = jobs_of(&database)?.part(&of).await?;
        let whole = whole.ok_or_else(|| no_job(job_id))?;
        let runs = ledger.runs(&RunQuery::Id(job_id.to_owned())).await?;
        Ok(Self {
            detail: whole.job()?,
            run: runs.into_iter().next().ok_or_else(|| no_job(job_id))?,
            job_id: job_id.to_owned(),
            database,
        })
    }

    /// What it is.
    pub fn detail(&self) -> &JobDetail {
        &self.detail
    }

    /// The table, by its resolved name.
    pub fn table(&self) -> &str {
        &self.run.detail.table
    }

    fn jobs(&self) -> Result<&dyn Jobs> {
        jobs_of(&self.database)
    }

    /// How far it is.
    pub async fn report(&self) -> Result<JobReport> {
        let records = self.jobs()?.parts(&self.job_id).await?;
        let (whole, parts): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| record.part == WHOLE);
        let whole = whole.first().ok_or_else(|| no_job(&self.job_id))?;
        JobReport::of((&self.run, self.database.url()), (whole, &self.detail), &parts)
    }

    /// How far a part is; none where there is no such.
    pub async fn part(&self, number: i64) -> Result<Option<PartReport>> {
        let of = PartId {
            job_id: self.job_id.clone(),
            part: number,
        };
        let found = self.jobs()?.part(&of).await?;
        found
            .map(|record| PartReport::of(&record, &self.detail))
            .transpose()
    }

    /// Claims a part. Ask again, later, where the answer is [`PartClaim::Busy`].
    pub async fn claim(
        &self,
        which: WhichPart,
        (attempt, claimant): (Option<i64>, &Claimant),
        options: &LoadOptions,
    ) -> Result<PartClaim> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = options.jobs.unwrap_or_else(|| jobs_by_default(processors));
        let request = ClaimRequest {
            job_id: self.job_id.clone(),
            which,
            attempt,
            owner: claimant.name.clone(),
            lease_seconds: claimant.lease_seconds.max(LEASE_SECONDS_LEAST),
            // And the one for the ledger.
            connections: jobs as u64 + 1,
        };
        let mut attempts = Attempts::of(ATTEMPTS_MAX, ATTEMPTS_TIME_MAX);
        loop {
            match self.jobs()?.claim(&request).await {
                Ok(claim) => return Ok(claim),
                // A claim whose answer was lost is one that nobody knows of, and ends with its lease.
                Err(error) => attempts.after(error).await?,
            }
        }
    }

    /// Carries a part out: the rows of `open`, given the files of the part, as `options` of the whole job say. The lease is
    /// renewed meanwhile, and ended with it. What ended the attempt early is in the account, as of a load.
    pub async fn carry_out(
        &self,
        (held, claimant): (&HeldPart, &Claimant),
        (open, options): (OpenPart, LoadOptions),
        (progress, stop): (Arc<Progress>, Stop),
    ) -> Result<Ended> {
        let lease = Lease::keep(
            self.database.target().clone(),
            (held.attempt.clone(), claimant.lease_seconds),
            stop.clone(),
        );
        let ended = self.load(held, open, options, progress, stop).await;
        let is_lost = lease.end();
        let ended = match ended {
            Ok(Ended {
                report,
                error: Some(error),
            }) => Ok(Ended {
                report,
                error: Some(self.shut_out(held, is_lost, error).await),
            }),
            Err(error) => Err(self.shut_out(held, is_lost, error).await),
            ended => ended,
        };
        let error = match &ended {
            Ok(ended) => ended.error.as_ref(),
            Err(error) => Some(error),
        };
        if let Some(error) = error {
            self.release(&held.attempt, error).await;
        }
        ended
    }

    /// The error of an attempt that was shut out says by whom; another one stays as it is.
    async fn shut_out(&self, held: &HeldPart, is_lost: bool, error: Error) -> Error {
        let may_be = match error.kind() {
            ErrorKind::Fenced => true,
            ErrorKind::Cancelled => is_lost,
            _ => false,
        };
        if !may_be {
            return error;
        }
        let found = async { self.jobs()?.part(&held.attempt.of).await };
        match found.await {
            Ok(Some(part)) if part.attempt > held.attempt.attempt => superseded(&held.attempt),
            Ok(None) => no_job(&self.job_id),
            _ => error,
        }
    }

    /// Ends the lease of an attempt that has failed. Where that fails as well, the lease ends by itself.
    async fn release(&self, attempt: &PartAttempt, error: &Error) {
        let released = async { self.jobs()?.release(attempt, Some(&error.to_string())).await };
        if let Err(failed) = released.await {
            tracing::warn!("the lease of {} ends by itself: {failed}", attempt.of);
        }
    }

    async fn load(
        &self,
        held: &HeldPart,
        open: OpenPart,
        options: LoadOptions,
        progress: Arc<Progress>,
        stop: Stop,
    ) -> Result<Ended> {
        let part = held.attempt.of.part;
        let planned = PartRecord::inputs_of(part, &held.detail)?;
        let files = planned.iter().map(|input| input.path.clone()).collect();
        let opened = tokio::task::spawn_blocking(move || open(files)).await;
        let source =
            opened.unwrap_or_else(|error| Err(Error::bug(format!("part {part} was not opened: {error}"))))?;
        check_unchanged(&planned, source.identity())?;
        let mut options = part_options(options);
        // Rows that cannot be read again are there as a whole or not at all, so that their end can be recorded without them.
        options.single_transaction = source.identity().is_none();
        if let Some(directory) = &self.detail.rejects {
            make_directory(directory)?;
            options.rejects = Some(part_rejects(directory, part).into());
            options.on_error = OnError::Reject;
        }
        if self.detail.connections_max.is_some() {
            options.jobs = Some(
                usize::try_from(held.connections.saturating_sub(1))
                    .unwrap_or(1)
                    .max(1),
            );
        }
        // A table by its resolved name: the search path of this machine may be another one.
        options.table = self.run.detail.table.parse().unwrap_or(options.table);
        let target = self.database.target().clone();
        let prepared = prepare(target, self.database.url().to_owned(), source, options).await?;
        self.check_table(&prepared.plan().table.identity.object)?;
        let shadow = self
            .run
            .detail
            .pending
            .as_ref()
            .and_then(|pending| pending.shadow.clone());
        let part = PartOfJob {
            attempt: held.attempt.clone(),
            shadow,
        };
        prepared.for_part(part).run(progress, stop).await
    }

    /// Refuses a table that was made anew since the job was planned.
    fn check_table(&self, object: &str) -> Result<()> {
        match self.run.detail.table_identity.object == object {
            true => Ok(()),
            false => Err(Error::schema(format!(
                "table {} was dropped and created again since the job was planned",
                self.run.detail.table
            ))
            .hint(format!(
                "plan the job again; `tonnage runs TARGET --forget {}` removes this one",
                self.job_id
            ))),
        }
    }

    /// Settles what the job owes to its table, once all of its parts are done, and marks it as finished. One does it; to
    /// others it is done, or they wait. `Config` where parts are not done.
    pub async fn finish(&self, claimant: &Claimant, options: &LoadOptions) -> Result<Finish> {
        let held = match self
            .claim(WhichPart::Numbered(WHOLE), (None, claimant), options)
            .await?
        {
            PartClaim::Held(held) => held,
            PartClaim::Busy(busy) => return Ok(Finish::Busy(busy)),
            PartClaim::Done(_) | PartClaim::NothingLeft => {
                return Ok(Finish::Done(Box::new(self.report().await?)));
            }
        };
        let lease = Lease::keep(
            self.database.target().clone(),
            (held.attempt.clone(), claimant.lease_seconds),
            Stop::default(),
        );
        let settled = self.settle(&held, options).await;
        lease.end();
        if let Err(error) = settled {
            self.release(&held.attempt, &error).await;
            return Err(error);
        }
        Ok(Finish::Done(Box::new(self.report().await?)))
    }

    async fn settle(&self, held: &HeldPart, options: &LoadOptions) -> Result<()> {
        let target = &**self.database.target();
        let ledger = target.ledger();
        let disagreeing = self.jobs()?.disagreeing(&self.job_id).await?;
        if !disagreeing.is_empty() {
            return Err(Error::new(
                ErrorKind::Refused,
                format!(
                    "the accounts of parts {} are not those of their runs",
                    numbers(&disagreeing)
                ),
            )
            .hint("another hand has changed the ledger; `tonnage runs TARGET` lists the runs"));
        }
        let records = self.jobs()?.parts(&self.job_id).await?;
        let parts = || records.iter().filter(|record| record.part != WHOLE);
        let undone: Vec<_> = parts()
            .filter(|part| part.state != PartState::Done)
            .map(|part| part.part)
            .collect();
        if !undone.is_empty() {
            return Err(missing(&undone, self.detail.parts));
        }
        let mut counts = Counts::default();
        parts().for_each(|part| counts.add(part.counts));
        let (handle, _) = self.jobs()?.take_over_part(&held.attempt, &self.job_id).await?;
        run_scripts(target, &options.after_sql, "--after-sql").await?;
        let mut attempts = Attempts::of(ATTEMPTS_MAX, ATTEMPTS_TIME_MAX);
        while let Err(error) = ledger.finish(&handle, counts).await {
            attempts.after(error).await?;
        }
        if let Err(error) = ledger.prune(RUNS_KEPT, RUNS_PRUNED_MAX).await {
            tracing::debug!("the ledger was not pruned: {error}");
        }
        Ok(())
    }
}

/// Opens the files of a part, which are given by their paths. It may block.
pub type OpenPart = Box<dyn FnOnce(Vec<String>) -> Result<Box<dyn Source>> + Send>;

fn jobs_of(database: &Connected) -> Result<&dyn Jobs> {
    database.target().ledger().jobs().ok_or_else(crate::load::no_jobs)
}

/// Refuses files that are not as they were when the job was planned.
fn check_unchanged(planned: &[InputIdentity], found: Option<Vec<InputIdentity>>) -> Result<()> {
    let found = found.unwrap_or_default();
    let found: HashMap<&str, &InputIdentity> = found.iter().map(|now| (now.path.as_str(), now)).collect();
    let again = |error: Error| error.hint("plan the job again: its account would be of another input");
    for before in planned {
        let Some(now) = found.get(before.path.as_str()) else {
            return Err(again(Error::input(format!(
                "{} is another file than when the job was planned",
                before.path
            ))));
        };
        if let Some(how) = crate::load::changed_file(before, now, "the job was planned") {
            return Err(again(Error::input(how)));
        }
    }
    Ok(())
}

/// The directory of rejects, made where it is missing; a prefix of objects needs none.
fn make_directory(directory: &str) -> Result<()> {
    if url_of(directory.as_ref()).is_some() {
        return Ok(());
    }
    std::fs::create_dir_all(directory).map_err(|cause| {
        Error::config(format!(
            "the directory {directory} of rejects cannot be made: {cause}"
        ))
    })
}
