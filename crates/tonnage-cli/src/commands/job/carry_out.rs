//! `tonnage job run`.

use std::{cell::OnceCell, sync::Arc};

use clap::Args;
use serde::Serialize;
use tonnage::{
    Error, ErrorKind, Result,
    connected::Connected,
    job::{Claimant, HeldPart, Job, OpenPart, PartClaim, PartReport, WhichPart},
    load::Progress,
    report::Report,
    source::Source,
    stop::Stop,
    targets,
};

use super::{LeaseArgs, PartLoad, Place, Which, claimed, part_load, pause, process_name};
use crate::{
    Ending,
    commands::rows::{interrupted, summary},
    interrupt::{Interrupt, requested},
    progress::{self, ProgressArgs, Verbosity},
    report::{ReportArgs, after_report, write_report},
};

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    which: Which,

    /// The part, from 0 on; auto takes the next one that is free [default: all that are left, one after another]
    #[arg(long, value_name = "N|auto", value_parser = part, help_heading = "What to do")]
    part: Option<Wanted>,

    /// The number of this attempt, where whoever starts processes counts them: it takes the part from a lower one
    /// whose lease has not ended
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..), requires = "part", help_heading = "What to do")]
    attempt: Option<i64>,

    #[command(flatten)]
    lease: LeaseArgs,

    #[command(flatten)]
    account: ReportArgs,

    #[command(flatten)]
    progress: ProgressArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Part(i64),
    Next,
}

fn part(text: &str) -> Result<Wanted, String> {
    match (text, text.parse::<u32>()) {
        ("auto", _) => Ok(Wanted::Next),
        (_, Ok(number)) => Ok(Wanted::Part(number.into())),
        _ => Err("write the number of a part, from 0 on, or auto".to_owned()),
    }
}

/// What a process has done for a job.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JobRunReport {
    /// The job.
    pub job_id: String,
    /// How it ended: `finished`, `nothing to do`, or `stopped` where a part is not done.
    pub state: &'static str,
    /// The target's URL, its password removed.
    pub target: String,
    /// The table.
    pub table: String,
    /// The parts that it was to carry out.
    pub parts: Vec<PartRun>,
}

/// What a process has done for a part.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PartRun {
    /// The part as it is now.
    #[serde(flatten)]
    pub part: PartReport,
    /// Whether it was done before.
    pub already_done: bool,
    /// The account of this attempt; none where there was nothing to do.
    pub load: Option<Report>,
}

/// Carries parts out; a summary of each goes to standard error.
pub(super) async fn run(args: &RunArgs, verbosity: Verbosity) -> Result<Ending> {
    let place = args.which.place()?;
    let claimant = args.lease.claimant()?;
    let mut report = JobRunReport {
        job_id: place.job_id.clone(),
        state: "nothing to do",
        target: targets::redact(&place.url),
        table: String::new(),
        parts: Vec::new(),
    };
    let ending = parts(args, (&place, &claimant), verbosity, &mut report).await;
    report.state = match &ending {
        Ok(Ending::Interrupted(..)) | Err(_) => "stopped",
        Ok(_) if report.parts.iter().all(|part| part.already_done) => "nothing to do",
        Ok(_) => "finished",
    };
    let written = match args.account.path() {
        // Before a part was held there is no account to give.
        Some(path) if ending.is_ok() || !report.parts.is_empty() => write_report(path, &report),
        _ => Ok(()),
    };
    after_report(ending, written)
}

/// Carries out the parts that are asked for, and adds what became of each to `report`.
async fn parts(
    args: &RunArgs,
    (place, claimant): (&Place, &Claimant),
    verbosity: Verbosity,
    report: &mut JobRunReport,
) -> Result<Ending> {
    let which = match args.part {
        Some(Wanted::Part(number)) => WhichPart::Numbered(number),
        Some(Wanted::Next) | None => WhichPart::Next,
    };
    let is_normal = verbosity == Verbosity::Normal;
    let mut rejected = false;
    loop {
        let waiting = claimed(place, (which, args.attempt), (claimant, verbosity));
        let (job, claim) = tokio::select! {
            claimed = waiting => claimed?,
            interrupt = requested() => return Ok(Ending::Interrupted(interrupt, between_parts())),
        };
        report.table = job.table().to_owned();
        let held = match claim {
            PartClaim::Held(held) => held,
            PartClaim::Done(done) => {
                let part = one(&job, done.part).await?;
                if is_normal {
                    eprintln!("part {} is already done: {}", part.part, part.rows);
                }
                report.parts.push(PartRun {
                    part,
                    already_done: true,
                    load: None,
                });
                return Ok(Ending::Done);
            }
            PartClaim::NothingLeft => {
                if is_normal && report.parts.is_empty() {
                    eprintln!("no part is left; `tonnage job finish` ends the job");
                }
                break;
            }
            PartClaim::Busy(_) => continue,
        };
        let ran = carried_out(args, &job, (&held, claimant), verbosity).await;
        let part = one(&job, held.attempt.of.part).await;
        let (load, ended) = match ran {
            Ok(ran) => ran,
            Err(error) => (None, Err(error)),
        };
        match part {
            Ok(part) => {
                rejected |= part.rows.rejected > 0;
                report.parts.push(PartRun {
                    part,
                    already_done: false,
                    load,
                });
            }
            // How the part ended matters more.
            Err(error) if ended.is_err() => tracing::warn!("{error}"),
            Err(error) => return Err(error),
        }
        if let Some(ending) = ended? {
            return Ok(ending);
        }
        if args.part.is_some() {
            break;
        }
    }
    match rejected {
        true => Ok(Ending::Rejects),
        false => Ok(Ending::Done),
    }
}

fn between_parts() -> Error {
    Error::new(ErrorKind::Cancelled, "interrupted between two parts")
        .hint("the same command goes on with those that are left")
}

/// Which part a program wants to carry out.
#[derive(Debug, Clone, Copy)]
pub struct WantedPart {
    /// Its number; the next one that is free where none is named.
    pub part: Option<i64>,
    /// The number of the attempt, where the program counts them.
    pub attempt: Option<i64>,
    /// How long its lease lasts, in seconds.
    pub lease_seconds: u64,
}

/// Carries out a part for a program, whose rows are `rows`, or those of the part's files; waits until it can be had. The part,
/// and what ended the attempt early; none where nothing is left.
pub(crate) async fn part_of_program(
    database: Connected,
    (job_id, wanted): (&str, WantedPart),
    rows: Option<Box<dyn Source>>,
    (progress, stop): (Arc<Progress>, Stop),
) -> Result<Option<(PartRun, Option<Error>)>> {
    let job = Job::open(database, job_id).await?;
    let claimant = Claimant {
        name: process_name(),
        lease_seconds: wanted.lease_seconds,
    };
    let PartLoad { options, open } = part_load(&job)?;
    let which = wanted.part.map_or(WhichPart::Next, WhichPart::Numbered);
    let mut looks = 0;
    let held = loop {
        match job.claim(which, (wanted.attempt, &claimant), &options).await? {
            PartClaim::Held(held) => break held,
            PartClaim::NothingLeft => return Ok(None),
            PartClaim::Done(done) => {
                let part = one(&job, done.part).await?;
                let done = PartRun {
                    part,
                    already_done: true,
                    load: None,
                };
                return Ok(Some((done, None)));
            }
            PartClaim::Busy(busy) => {
                if stop
                    .unless(tokio::time::sleep(pause(&busy, &mut looks)))
                    .await
                    .is_none()
                {
                    return Err(Error::new(
                        ErrorKind::Cancelled,
                        "interrupted while a part was waited for",
                    ));
                }
            }
        }
    };
    let open: OpenPart = match rows {
        Some(rows) => Box::new(move |_| Ok(rows)),
        None => open,
    };
    let number = held.attempt.of.part;
    let ended = job
        .carry_out((&held, &claimant), (open, options), (progress, stop))
        .await;
    let ended = ended.map_err(|error| failed(number, error))?;
    let done = PartRun {
        part: one(&job, number).await?,
        already_done: false,
        load: Some(ended.report),
    };
    Ok(Some((done, ended.error.map(|error| failed(number, error)))))
}

/// A part as it is.
async fn one(job: &Job, number: i64) -> Result<PartReport> {
    job.part(number).await?.ok_or_else(|| {
        Error::schema(format!(
            "the job was forgotten while its part {number} was carried out"
        ))
    })
}

/// Carries a part out. Its account, and how it ended: with an error, or by request.
async fn carried_out(
    args: &RunArgs,
    job: &Job,
    (held, claimant): (&HeldPart, &Claimant),
    verbosity: Verbosity,
) -> Result<(Option<Report>, Result<Option<Ending>>)> {
    let number = held.attempt.of.part;
    let PartLoad { options, open } = part_load(job)?;
    let progress: Arc<Progress> = Arc::default();
    let stop = Stop::default();
    let first: OnceCell<Interrupt> = OnceCell::new();
    let working = job.carry_out(
        (held, claimant),
        (open, options),
        (progress.clone(), stop.clone()),
    );
    tokio::pin!(working);
    let ended = tokio::select! {
        ended = &mut working => ended,
        never = progress::show(verbosity.progress(args.progress), progress, None) => match never {},
        interrupt = interrupted(stop, &first) => {
            let error = Error::new(
                ErrorKind::Cancelled,
                format!("interrupted; what part {number} has not committed is undone"),
            )
            .hint("the same command goes on with it, once its lease has ended");
            return Ok((None, Ok(Some(Ending::Interrupted(interrupt, error)))));
        }
    };
    let ended = match (ended, first.get()) {
        (Ok(ended), _) => ended,
        (Err(error), Some(interrupt)) if error.kind() == ErrorKind::Cancelled => {
            return Ok((
                None,
                Ok(Some(Ending::Interrupted(*interrupt, failed(number, error)))),
            ));
        }
        (Err(error), _) => return Err(failed(number, error)),
    };
    if verbosity == Verbosity::Normal {
        eprint!("part {number}: {}", summary(&ended.report));
    }
    let ending = match (ended.error, first.get()) {
        (Some(error), Some(interrupt)) if error.kind() == ErrorKind::Cancelled => {
            Ok(Some(Ending::Interrupted(*interrupt, failed(number, error))))
        }
        (Some(error), _) => Err(failed(number, error)),
        (None, _) => Ok(None),
    };
    Ok((Some(ended.report), ending))
}

/// An error of a part, with what to do next.
fn failed(number: i64, error: Error) -> Error {
    let has_hint = error.hint_text().is_some();
    let error = error.at(format!("part {number}"));
    match has_hint {
        true => error,
        false => error.hint("the same command goes on with it where it stopped"),
    }
}
