//! `tonnage job`: one load whose parts any number of processes carry out.
//!
//! What a job is lies in the ledger of its database. The file that `plan` writes names the job and the database, and nothing
//! secret; `run`, `status` and `finish` read it. A part is loaded as the arguments of `plan` say, which are in the ledger.

mod carry_out;
mod file;
mod plan;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use tonnage::{
    Error, ErrorKind, Result,
    connected::Connected,
    job::{Busy, Claimant, Finish, Job, JobReport, LEASE_SECONDS_LEAST, OpenPart, PartClaim, WhichPart},
    plan::LoadOptions,
    sources::{self, Scan},
    targets::{self, Password},
};

#[cfg(test)]
pub use self::carry_out::JobRunReport;
use self::{carry_out::RunArgs, file::JobFile, plan::PlanArgs};
pub(crate) use self::{
    carry_out::part_of_program,
    plan::{planned, planned_of_program},
};
pub use self::{
    carry_out::{PartRun, WantedPart},
    plan::Asked,
};
use super::load::{self, LoadArgs};
use crate::{
    Ending,
    connection::ConnectionArgs,
    described::{parsed, with_places},
    interrupt::unless_interrupted,
    options::age,
    output::out,
    progress::Verbosity,
    report::{ReportArgs, after_report, write_report},
};

/// Between two looks whether a part can be had: first, and at most.
const LOOK_MIN: Duration = Duration::from_millis(250);
const LOOK_MAX: Duration = Duration::from_secs(5);

/// How often a database is asked for a connection that has none left, one look after another.
const REFUSED_MAX: usize = 120;

/// One load in parts, which any number of processes on any number of machines carry out: every row once, and one account
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tonnage job plan 's3://lake/orders/*.parquet' postgresql://app@db/shop -t orders --parts 200 -o job.json
  tonnage job run job.json --part 17
  tonnage job run job.json
  tonnage job status job.json
  tonnage job finish job.json")]
pub struct JobArgs {
    #[command(subcommand)]
    command: JobCommand,
}

#[derive(Debug, Subcommand)]
enum JobCommand {
    /// Share files out in parts, and put the job on record; makes and prepares its table, and loads nothing
    #[command(
        after_help = "Options of a load are those of each part, but for --create, --truncate, --recreate, \
--rebuild-indexes, --add-columns, --before-sql and --after-sql, which are the job's; --rejects names a directory, or a prefix of \
objects.

Examples:
  tonnage job plan 'orders/*.csv.gz' postgresql://app@db/shop -t orders -o job.json
  tonnage job plan 's3://lake/orders/*.parquet' postgresql://app@db/shop -t orders --parts 200 --recreate -o job.json"
    )]
    Plan(Box<PlanArgs>),
    /// Carry out one part, or all that are left one after another; what is done stays done
    Run(Box<RunArgs>),
    /// Say how far a job is
    Status(StatusArgs),
    /// End a job all of whose parts are done: indexes are built, a table takes its place
    Finish(FinishArgs),
}

/// Which job, and in which database.
#[derive(Debug, Args)]
struct Which {
    /// The file that `tonnage job plan` has written, or the id of a job
    #[arg(value_name = "JOB")]
    job: PathBuf,

    /// The database, where the file does not say it: of an id, and of a URL that had a password
    #[arg(value_name = "TARGET")]
    target: Option<String>,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// How long a process is waited for that has said nothing.
#[derive(Debug, Args)]
struct LeaseArgs {
    /// How long a process that is gone keeps its part: a lease is renewed three times while it lasts
    #[arg(long, value_name = "DURATION", value_parser = age, default_value = "60s", help_heading = "How to do it")]
    lease: Duration,
}

#[derive(Debug, Args)]
struct StatusArgs {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    account: ReportArgs,
}

#[derive(Debug, Args)]
struct FinishArgs {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    lease: LeaseArgs,

    #[command(flatten)]
    account: ReportArgs,
}

/// Does what was asked for.
pub async fn run(args: &JobArgs, verbosity: Verbosity) -> Result<Ending> {
    match &args.command {
        JobCommand::Plan(args) => plan::run(args, verbosity).await,
        JobCommand::Run(args) => carry_out::run(args, verbosity).await,
        JobCommand::Status(args) => match unless_interrupted(status(args)).await {
            Ok(ending) => Ok(ending),
            Err(interrupted) => interrupted.ending(),
        },
        JobCommand::Finish(args) => match unless_interrupted(finish(args, verbosity)).await {
            Ok(ending) => Ok(ending),
            Err(interrupted) => interrupted.ending(),
        },
    }
}

impl LeaseArgs {
    fn claimant(&self) -> Result<Claimant> {
        let lease_seconds = self.lease.as_secs();
        if lease_seconds < LEASE_SECONDS_LEAST {
            return Err(Error::config(format!(
                "--lease must be at least {LEASE_SECONDS_LEAST}s, as it is renewed while it lasts"
            )));
        }
        Ok(Claimant {
            name: process_name(),
            lease_seconds,
        })
    }
}

/// `host:4711`, by which people know a process.
pub(crate) fn process_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = match host.trim() {
        "" => "a machine without a name",
        host => host,
    };
    format!("{host}:{}", std::process::id())
}

/// A job that is named, and where it is.
struct Place {
    job_id: String,
    url: String,
    ledger: Option<PathBuf>,
    /// What the user was asked for.
    password: Option<Password>,
}

impl Which {
    fn place(&self) -> Result<Place> {
        let name = self.job.to_string_lossy();
        let is_id = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_id && !self.job.exists() {
            let url = self.target.clone().ok_or_else(|| {
                Error::config(format!("nothing says in which database job {name} is"))
                    .hint(format!("name it behind: tonnage job status {name} TARGET"))
            })?;
            return Ok(Place {
                job_id: name.into_owned(),
                password: self.connection.password(&url)?,
                url,
                ledger: None,
            });
        }
        let file = JobFile::read(&self.job)?;
        let url = self.target.clone().unwrap_or_else(|| file.url());
        Ok(Place {
            password: self.connection.password(&url)?,
            url,
            job_id: file.job,
            ledger: file.ledger,
        })
    }
}

impl Place {
    async fn open(&self) -> Result<Job> {
        let target = targets::connect_with(&self.url, self.password.clone()).await?;
        if let Some(ledger) = &self.ledger {
            target.keep_ledger(ledger)?;
        }
        Job::open(Connected::new(target, targets::redact(&self.url)), &self.job_id).await
    }
}

/// How the parts of a job are loaded.
pub(crate) struct PartLoad {
    pub options: LoadOptions,
    pub open: OpenPart,
}

/// How a part of `job` is loaded, as whoever planned it has said.
pub(crate) fn part_load(job: &Job) -> Result<PartLoad> {
    let args: LoadArgs = parsed("load", &with_places(&job.detail().arguments))?;
    let mut task = load::task(&args)?;
    task.options.scan = Scan::Sample;
    let (format, text) = args.rows.reading(&task)?;
    Ok(PartLoad {
        options: task.options,
        open: Box::new(move |files| sources::open(&files, format, &text)),
    })
}

/// Claims a part, and waits until it can be had; whoever waits has no connection open meanwhile.
async fn claimed(
    place: &Place,
    (which, attempt): (WhichPart, Option<i64>),
    (claimant, verbosity): (&Claimant, Verbosity),
) -> Result<(Job, PartClaim)> {
    let (mut told, mut refused, mut looks) = (String::new(), 0, 0);
    loop {
        let job = match place.open().await {
            Ok(job) => job,
            // Other processes of the job may have all connections that there are.
            Err(error) if error.kind() == ErrorKind::Overloaded && refused < REFUSED_MAX => {
                refused += 1;
                tokio::time::sleep(LOOK_MAX).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        let options = part_load(&job)?.options;
        let busy = match job.claim(which, (attempt, claimant), &options).await? {
            PartClaim::Busy(busy) => busy,
            claim => return Ok((job, claim)),
        };
        let about = busy.why.split(", whose lease").next().unwrap_or_default();
        if verbosity == Verbosity::Normal && told != about {
            eprintln!("waiting: {}", busy.why);
            about.clone_into(&mut told);
        }
        drop(job);
        tokio::time::sleep(pause(&busy, &mut looks)).await;
    }
}

/// How long is waited before it is looked again, after so many looks: a part that ends soon leaves nobody idle, and many
/// that wait long ask the database little.
fn pause(busy: &Busy, looks: &mut u32) -> Duration {
    let growing = LOOK_MIN * 2_u32.saturating_pow((*looks).min(8));
    *looks += 1;
    Duration::from_secs(busy.seconds.max(1))
        .min(growing)
        .min(LOOK_MAX)
}

async fn status(args: &StatusArgs) -> Result<Ending> {
    let place = args.which.place()?;
    let report = place.open().await?.report().await?;
    match args.account.path() {
        Some(path) => write_report(path, &report)?,
        None => out!("{report}")?,
    }
    Ok(Ending::Done)
}

/// Finishes a job for a program; waits where another process is at it.
pub(crate) async fn finished(database: Connected, job_id: &str, lease_seconds: u64) -> Result<JobReport> {
    let job = Job::open(database, job_id).await?;
    let claimant = Claimant {
        name: process_name(),
        lease_seconds,
    };
    let options = part_load(&job)?.options;
    let mut looks = 0;
    loop {
        match job.finish(&claimant, &options).await? {
            Finish::Done(report) => return Ok(*report),
            Finish::Busy(busy) => {
                tokio::time::sleep(pause(&busy, &mut looks)).await;
            }
        }
    }
}

async fn finish(args: &FinishArgs, verbosity: Verbosity) -> Result<Ending> {
    let place = args.which.place()?;
    let claimant = args.lease.claimant()?;
    let (mut told, mut looks) = (false, 0);
    let report = loop {
        let job = place.open().await?;
        let options = part_load(&job)?.options;
        match job.finish(&claimant, &options).await? {
            Finish::Done(report) => break *report,
            Finish::Busy(busy) => {
                if verbosity == Verbosity::Normal && !told {
                    eprintln!("waiting: {}", busy.why);
                    told = true;
                }
                tokio::time::sleep(pause(&busy, &mut looks)).await;
            }
        }
    };
    let written = match args.account.path() {
        Some(path) => write_report(path, &report),
        None => Ok(()),
    };
    if verbosity == Verbosity::Normal {
        eprint!("{report}");
    }
    after_report(Ok(ending(&report)), written)
}

fn ending(report: &JobReport) -> Ending {
    match report.rows.rejected {
        0 => Ending::Done,
        _ => Ending::Rejects,
    }
}
