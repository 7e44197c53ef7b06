//! `tonnage job plan`.

use std::path::PathBuf;

use clap::Args;
use tonnage::{
    Error, Result,
    connected::Connected,
    job::{Job, PARTS_MAX},
    load::{NewJob, NewParts, PlannedJob, prepare},
    plan::{LoadOptions, OnError},
    report::{Counted, Grouped},
    source::Source,
    sources,
    target::Target,
};
use tonnage_places::url_of;

use super::{file::JobFile, part_load};
use crate::{
    Ending,
    commands::{
        load::{self, LoadArgs},
        rows::{LedgerChoice, Task, Usage, Verifying},
    },
    connection::TargetArgs,
    described::Written,
    interrupt::unless_interrupted,
    options::count,
    output::out,
    paths::Paths,
    progress::Verbosity,
    report::write_report,
};

/// Options of a load that say nothing of how a part is loaded.
const NOT_OF_PARTS: &[&str] = &[
    "--rejects",
    "--restart",
    "--ledger",
    "--dry-run",
    "--json",
    "--report",
    "--progress",
    "--ask-password",
];

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    load: Written<LoadArgs>,

    /// Parts of like size; a file is the smallest, so there are no more than files
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 100, help_heading = "The job")]
    parts: u64,

    /// Write the file that names the job, for the other commands, to PATH (- is standard output)
    #[arg(
        short,
        long,
        value_name = "PATH",
        default_value = "-",
        help_heading = "The job"
    )]
    output: PathBuf,

    /// Connections of all processes together, at most: one that writes and one for the ledger are the least of a part
    #[arg(long, value_name = "N", value_parser = count, help_heading = "The job")]
    connections_max: Option<u64>,
}

const USAGE: Usage = Usage {
    command: "job plan",
    options: "-t TABLE",
};

/// Plans a job; its file goes where it was asked for, what there is to know to standard error.
pub(super) async fn run(args: &PlanArgs, verbosity: Verbosity) -> Result<Ending> {
    let load = &args.load.args;
    let (inputs, place) = load.rows.files_and_place(&load.places, USAGE)?;
    JobFile::check(&args.output)?;
    let mut paths = Paths::default();
    paths.sources(inputs, None);
    paths.databases(&[place.first().to_owned()]);
    paths.writes("-o", Some(&args.output));
    paths.report(load.rows.account().path());
    paths.check()?;
    match unless_interrupted(plan(args, (inputs, &place), verbosity)).await {
        Ok(ending) => Ok(ending),
        Err(interrupted) => interrupted.ending(),
    }
}

async fn plan(
    args: &PlanArgs,
    (inputs, place): (&[String], &TargetArgs),
    verbosity: Verbosity,
) -> Result<Ending> {
    let load = &args.load.args;
    let target = place
        .connect(load.rows.connection().password(place.first())?)
        .await?;
    let ledger = ledger_file(&*target, load.rows.ledger_choice())?;
    let database = Connected::new(target, place.shown());
    let asked = Asked {
        parts: args.parts,
        connections_max: args.connections_max,
    };
    if load.rows.is_dry_run() {
        return dry_run(&database, (load, &args.load.written), inputs, asked).await;
    }
    let planned = planned(&database, (load, &args.load.written), inputs, asked).await?;
    let job = Job::open(database, &planned.job_id).await?;
    // What was planned can be read again.
    part_load(&job)?;
    let file = JobFile {
        tonnage: env!("CARGO_PKG_VERSION").to_owned(),
        job: planned.job_id.clone(),
        target: JobFile::target_of(place.first()),
        ledger,
        table: job.table().to_owned(),
        parts: planned.detail.parts,
        files: planned.detail.files,
        bytes: planned.detail.bytes,
    };
    file.write(&args.output)?;
    if let Some(path) = load.rows.account().path() {
        write_report(path, &job.report().await?)?;
    }
    if verbosity == Verbosity::Normal {
        eprint!("{}", summary(&planned, job.table()));
    }
    Ok(Ending::Done)
}

/// Where the ledger is, if it is a file that was named.
fn ledger_file(target: &dyn Target, choice: &LedgerChoice) -> Result<Option<PathBuf>> {
    choice.apply(target)?;
    match choice {
        LedgerChoice::File(path) => std::path::absolute(path)
            .map(Some)
            .map_err(|cause| Error::config(format!("--ledger {}: {cause}", path.display()))),
        _ => Ok(None),
    }
}

/// What is asked of a job beyond its load.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Parts, at most.
    pub parts: u64,
    /// Connections of the whole job, at most.
    pub connections_max: Option<u64>,
}

/// Plans a job of the files `inputs`, as the arguments of a load say, of which `written` are those that were given.
pub(crate) async fn planned(
    database: &Connected,
    (args, written): (&LoadArgs, &[String]),
    inputs: &[String],
    asked: Asked,
) -> Result<PlannedJob> {
    let (prepared, job) = prepared(database, (args, written), inputs, asked).await?;
    prepared.plan_job(job).await
}

/// Plans a job whose parts a program brings, of rows like those of `source`, which moves none.
pub(crate) async fn planned_of_program(
    database: &Connected,
    (args, written): (&LoadArgs, &[String]),
    source: Box<dyn Source>,
    asked: Asked,
) -> Result<PlannedJob> {
    let (mut task, mut job) = asked_for(args, written, asked)?;
    job.parts = NewParts::Program(usize::try_from(asked.parts).unwrap_or(usize::MAX));
    task.options.single_transaction = false;
    let (target, shown) = (database.target().clone(), database.url().to_owned());
    prepare(target, shown, source, task.options)
        .await?
        .plan_job(job)
        .await
}

async fn prepared(
    database: &Connected,
    (args, written): (&LoadArgs, &[String]),
    inputs: &[String],
    asked: Asked,
) -> Result<(tonnage::load::Prepared, NewJob)> {
    if asked.parts == 0 || asked.parts > PARTS_MAX as u64 {
        return Err(Error::config(format!(
            "--parts must be from 1 to {}",
            Grouped(PARTS_MAX as u64)
        )));
    }
    let (task, job) = asked_for(args, written, asked)?;
    let (format, text) = args.rows.reading(&task)?;
    let inputs = inputs.to_vec();
    let opened = tokio::task::spawn_blocking(move || sources::open(&inputs, format, &text)).await;
    let source =
        opened.unwrap_or_else(|error| Err(Error::bug(format!("the files were not opened: {error}"))))?;
    let prepared = prepare(
        database.target().clone(),
        database.url().to_owned(),
        source,
        task.options,
    );
    Ok((prepared.await?, job))
}

/// What the arguments ask of a job.
fn asked_for(args: &LoadArgs, written: &[String], asked: Asked) -> Result<(Task, NewJob)> {
    let mut task = load::task(args)?;
    if task.verifying == Verifying::Yes {
        return Err(Error::config("--verify is of a load, and a job is many")
            .hint("compare at the end: tonnage verify SOURCE TARGET -t TABLE"));
    }
    if task.options.new_files {
        return Err(
            Error::config("a job does not go with --new-files: its files are those that are named")
                .hint("leave it out"),
        );
    }
    let rejects = rejects_directory(&mut task.options)?;
    if asked.connections_max.is_some_and(|max| max < 2) {
        return Err(Error::config(
            "--connections-max must be at least 2: a part has one that writes and one for the ledger",
        ));
    }
    let is_of_parts = |option: &&String| {
        let name = option.split('=').next().unwrap_or_default();
        !NOT_OF_PARTS.contains(&name)
    };
    let job = NewJob {
        parts: NewParts::Files(usize::try_from(asked.parts).unwrap_or(usize::MAX)),
        arguments: written.iter().filter(is_of_parts).cloned().collect(),
        rejects,
        connections_max: asked.connections_max,
    };
    Ok((task, job))
}

/// The directory, or the prefix of objects, that rejects go to: a file a part, readable from any machine.
fn rejects_directory(options: &mut LoadOptions) -> Result<Option<String>> {
    match (options.rejects.take(), options.on_error) {
        (None, OnError::Stop) => Ok(None),
        (None, OnError::Reject) => Err(Error::config(
            "nothing says where the rejects of all parts go",
        )
        .hint("--rejects DIRECTORY, which all machines can reach, or a prefix of objects: s3://bucket/rejects")),
        (Some(path), _) if url_of(&path).is_some() => Ok(Some(path.display().to_string())),
        (Some(path), _) if path.is_file() => Err(Error::config(format!(
            "--rejects {} is a file, and a job has one for each part",
            path.display()
        ))
        .hint("name a directory")),
        (Some(path), _) => {
            let failed = |cause| Error::config(format!("--rejects {}: {cause}", path.display()));
            std::fs::create_dir_all(&path).map_err(failed)?;
            let path = std::path::absolute(&path).map_err(failed)?;
            Ok(Some(path.display().to_string()))
        }
    }
}

async fn dry_run(
    database: &Connected,
    (args, written): (&LoadArgs, &[String]),
    inputs: &[String],
    asked: Asked,
) -> Result<Ending> {
    let (prepared, job) = prepared(database, (args, written), inputs, asked).await?;
    out!("{}", prepared.plan())?;
    if let NewParts::Files(parts) = job.parts {
        out!("in up to {}\n", Counted(parts as u64, "part"))?;
    }
    Ok(Ending::Done)
}

fn summary(planned: &PlannedJob, table: &str) -> String {
    let detail = &planned.detail;
    let mut text = format!(
        "job {} into {table}: {} of {}, {} bytes\n",
        planned.job_id,
        Counted(detail.parts, "part"),
        Counted(detail.files, "file"),
        Grouped(detail.bytes)
    );
    for note in &planned.notes {
        text.push_str(&format!("  note: {note}\n"));
    }
    text
}
