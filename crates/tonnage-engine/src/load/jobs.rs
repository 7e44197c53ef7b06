//! A load as a job, which is planned here, and as a part of one.

use tonnage_core::{
    error::{Error, Result},
    ledger::{
        InputIdentity,
        jobs::{JobDetail, NewPart, PARTS_MAX, PartAttempt, PartDetail, WHOLE},
    },
    table::TableName,
};

use super::{Prepared, drop_made, identity, run_scripts};
use crate::{
    job::share,
    load::identity::Reading,
    plan::{Attempt, LedgerPlace, LoadOptions},
};

/// The part of a job that a load is.
#[derive(Debug, Clone)]
pub struct PartOfJob {
    /// The attempt that carries it out.
    pub attempt: PartAttempt,
    /// The table that rows go into, where the job makes one that takes the place of its own.
    pub shadow: Option<TableName>,
}

/// A job to be planned.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// What its parts are.
    pub parts: NewParts,
    /// See [`JobDetail::arguments`].
    pub arguments: Vec<String>,
    /// See [`JobDetail::rejects`].
    pub rejects: Option<String>,
    /// See [`JobDetail::connections_max`].
    pub connections_max: Option<u64>,
}

/// The parts of a job to be planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewParts {
    /// So many, of files of like size; there are no more than files.
    Files(usize),
    /// So many, whose rows come from a program; 0 where it is not known beforehand how many.
    Program(usize),
}

/// A job that was planned.
#[derive(Debug, Clone)]
pub struct PlannedJob {
    /// Its id.
    pub job_id: String,
    /// What it is.
    pub detail: JobDetail,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// A ledger that keeps no jobs.
pub(crate) fn no_jobs() -> Error {
    Error::config("a table that several databases hold together has no ledger for jobs")
        .hint("plan a job for each of the databases")
}

/// Refuses options that a load in parts does not go with.
fn check(options: &LoadOptions) -> Result<()> {
    let refused = [
        (
            options.single_transaction,
            "--single-transaction",
            "its parts are transactions of their own",
        ),
        (
            options.limit.is_some(),
            "--limit",
            "nobody knows which part has how many rows",
        ),
        (
            options.ledger == LedgerPlace::None,
            "--ledger none",
            "its parts are in the ledger",
        ),
        (
            options.attempt == Attempt::Resume,
            "--resume",
            "`tonnage job run` carries out what is missing",
        ),
        (
            options.statement.is_some(),
            "a statement",
            "a job loads into a table",
        ),
    ];
    match refused.iter().find(|(is_asked, ..)| *is_asked) {
        Some((_, option, why)) => {
            Err(Error::config(format!("a job does not go with {option}: {why}")).hint("leave it out"))
        }
        None => Ok(()),
    }
}

impl Prepared {
    /// This load as a part of a job. What belongs to the job is to be left out of its options:
    /// [`part_options`](crate::job::part_options).
    pub(crate) fn for_part(mut self, part: PartOfJob) -> Self {
        self.part = Some(part);
        self
    }

    /// Plans this load as a job: makes and prepares its table and puts it and its parts on record. No row is moved.
    pub async fn plan_job(self, new: NewJob) -> Result<PlannedJob> {
        check(&self.options)?;
        let target = self.target.clone();
        if target.ledger().jobs().is_none() {
            return Err(no_jobs());
        }
        let inputs = match new.parts {
            NewParts::Program(_) => None,
            NewParts::Files(_) => Some(self.source.identity().ok_or_else(|| {
                Error::config(format!(
                    "the parts of a job are files that can be read again, and {}",
                    self.source.not_rereadable()
                ))
                .hint("write the rows to files first")
            })?),
        };
        let (detail, parts) = parts(inputs.as_deref(), new)?;
        let mut notes = self.job_notes(&detail);
        let (prepared, made) = self.with_table().await?;
        let planned = prepared.record_job(inputs, parts).await;
        match planned {
            Ok((job_id, owned)) => {
                notes.extend(owned);
                Ok(PlannedJob {
                    job_id,
                    detail,
                    notes,
                })
            }
            Err(error) => {
                if let Some(made) = made {
                    drop_made(&*target, &made).await;
                }
                Err(error)
            }
        }
    }

    fn job_notes(&self, detail: &JobDetail) -> Vec<String> {
        let mut notes = Vec::new();
        if detail.files > 0 && detail.parts == detail.files {
            notes.push("a file is the smallest part".to_owned());
        }
        if !self.plan.operation.key().is_empty() {
            notes.push(
                "rows of one key are applied in the order of the input within a part; which of two parts comes later is \
                 not decided"
                    .to_owned(),
            );
        }
        notes.extend(self.plan.notes.iter().cloned());
        notes
    }

    /// The job's id, and what the user should know.
    async fn record_job(
        self,
        inputs: Option<Vec<InputIdentity>>,
        parts: Vec<NewPart>,
    ) -> Result<(String, Vec<String>)> {
        let target = &*self.target;
        let reading = Reading {
            inputs,
            options: self.source.options(),
        };
        let ledger = target.ledger();
        let ownership = identity::own_job(ledger, &self.plan, reading, (&self.options, parts)).await?;
        let handle = ownership
            .handle
            .ok_or_else(|| Error::bug("a job without a run"))?;
        let began = run_scripts(target, &self.options.before_sql, "--before-sql").await;
        if let Err(error) = began {
            // Nothing of it is there yet.
            ledger.forget(&handle.run_id).await?;
            return Err(error);
        }
        Ok((handle.run_id, ownership.notes))
    }
}

/// The parts of a job as they are put on record, and the job as a whole.
fn parts(inputs: Option<&[InputIdentity]>, new: NewJob) -> Result<(JobDetail, Vec<NewPart>)> {
    let inputs = inputs.unwrap_or_default();
    let shared = match new.parts {
        NewParts::Files(parts) => share::share(inputs, parts)?,
        NewParts::Program(parts) if parts <= PARTS_MAX => vec![Vec::new(); parts],
        NewParts::Program(_) => return Err(Error::config(format!("a job has at most {PARTS_MAX} parts"))),
    };
    let detail = JobDetail {
        arguments: new.arguments,
        parts: shared.len() as u64,
        files: inputs.len() as u64,
        bytes: inputs.iter().map(|input| input.bytes).sum(),
        rejects: new.rejects,
        connections_max: new.connections_max,
    };
    let json = |cause| Error::bug(format!("a job cannot be written as JSON: {cause}"));
    let mut parts = vec![NewPart {
        part: WHOLE,
        detail: serde_json::to_string(&detail).map_err(json)?,
        connections_max: detail.connections_max,
    }];
    for (number, inputs) in shared.into_iter().enumerate() {
        parts.push(NewPart {
            part: number as i64,
            detail: serde_json::to_string(&PartDetail { inputs }).map_err(json)?,
            connections_max: None,
        });
    }
    Ok((detail, parts))
}
