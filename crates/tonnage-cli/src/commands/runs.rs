//! `tonnage runs`: what the ledger of a database knows.
//!
//! A run whose record cannot be read is still found by its id, so that it can be forgotten.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tonnage::{
    Error, ErrorKind, Result,
    buffer::{is_abandoned, is_buffer},
    ledger::{Ledger, RUNS_KEPT, RunQuery, RunRecord},
    operation::OperationKind,
    parse::text_of_timestamp,
    preparation::Pending,
    report::{Counted, Grouped},
    table::TableName,
    targets::files,
};

use crate::{
    Ending,
    connection::{ConnectionArgs, ShardArgs},
    options::count,
    output::outln,
    paths::Paths,
};

/// The most runs that are pruned in one transaction.
const PRUNED_AT_ONCE: u64 = 1_000;

/// List the runs that a database's ledger knows, newest first
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// The database; several with --shard-by
    #[arg(value_name = "TARGET", required = true)]
    targets: Vec<String>,

    /// Remove a run from the ledger; its rows stay, and what it owes to its table (indexes that it dropped, a table
    /// that was to take its place) is put right
    #[arg(long, value_name = "RUN")]
    forget: Option<String>,

    /// Remove finished runs from the ledger but for the newest ones; the files that they loaded stay known to
    /// `tonnage load --new-files`, and so does the newest run of each table
    #[arg(long, conflicts_with = "forget")]
    prune: bool,

    /// How many finished runs --prune keeps
    #[arg(long, value_name = "N", value_parser = count, default_value_t = RUNS_KEPT, requires = "prune")]
    keep: u64,

    /// List only the runs into this table: table or schema.table
    #[arg(short, long, value_name = "TABLE", conflicts_with_all = ["forget", "prune"])]
    table: Option<String>,

    /// List runs as JSON, an object a line, with the times of their start and end
    #[arg(long, conflicts_with_all = ["forget", "prune"])]
    json: bool,

    /// List at most N runs
    #[arg(long, value_name = "N", value_parser = count, default_value_t = 100)]
    limit: u64,

    /// The local file that holds the ledger, where a load was given one
    #[arg(long, value_name = "PATH")]
    ledger: Option<PathBuf>,

    #[command(flatten)]
    connection: ConnectionArgs,

    #[command(flatten)]
    shards: ShardArgs,
}

/// Lists, or forgets.
pub async fn run(args: &RunsArgs) -> Result<Ending> {
    let place = args.shards.place(&args.targets)?;
    let mut paths = Paths::default();
    paths.databases(&args.targets);
    paths.writes("--ledger", args.ledger.as_deref());
    paths.check()?;
    let target = place.connect(args.connection.password(place.first())?).await?;
    if let Some(path) = &args.ledger {
        target.keep_ledger(path)?;
    }
    let ledger = target.ledger();
    if let Some(asked) = &args.forget {
        return forget(ledger, asked, &place.shown()).await;
    }
    if args.prune {
        return prune(ledger, args.keep).await;
    }
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX - 1);
    let mut runs = match &args.table {
        // One more says whether there are more.
        None => ledger.runs(&RunQuery::Newest(limit + 1)).await?,
        Some(table) => {
            let wanted: TableName = table.parse()?;
            let mut runs = ledger.runs(&RunQuery::Newest(RUNS_KEPT as usize)).await?;
            runs.retain(|run| is_into(run, &wanted));
            runs
        }
    };
    if runs.is_empty() {
        let into = args.table.as_ref().map(|table| format!(" into {table}"));
        let missing = args.targets.iter().find_map(|target| missing_file(target));
        let missing = missing.map(|file| format!(": {} does not exist", file.display()));
        eprintln!(
            "no runs{}{}",
            into.unwrap_or_default(),
            missing.unwrap_or_default()
        );
    }
    let more = runs.len() > limit;
    runs.truncate(limit);
    for run in &runs {
        match args.json {
            true => outln!("{}", object(run)?)?,
            false => outln!("{}", line(run))?,
        }
    }
    if more {
        eprintln!("there are older runs; --limit lists more of them");
    }
    Ok(Ending::Done)
}

/// The file of a database that is missing, where the database is a file. Of a name, [`files`] begins with the `targets.toml`
/// that explains it, and behind the database's own file come those beside it, such as a log.
fn missing_file(target: &str) -> Option<PathBuf> {
    let all = files(target).into_iter();
    let mut own = all.filter(|file| file.extension().is_none_or(|ending| ending != "toml"));
    own.next().filter(|file| !file.exists())
}

async fn forget(ledger: &dyn Ledger, asked: &str, shown: &str) -> Result<Ending> {
    let matching = ledger.ids(asked).await?;
    let exact = matching.iter().find(|id| *id == asked);
    let run_id = match (exact, matching.as_slice()) {
        (Some(run_id), _) | (None, [run_id]) => run_id,
        (None, several) => {
            let count = match several {
                [] => "no run has",
                _ => "several runs have",
            };
            return Err(Error::config(format!("{count} an id that begins with '{asked}'"))
                .hint(format!("`tonnage runs {shown}` lists them")));
        }
    };
    let run = match ledger.runs(&RunQuery::Id(run_id.clone())).await {
        Ok(runs) => runs.into_iter().next(),
        // It is to go because of that.
        Err(error) if error.kind() == ErrorKind::Schema => None,
        Err(error) => return Err(error),
    };
    ledger.forget(run_id).await?;
    let Some(run) = run else {
        eprintln!("run {run_id} is forgotten; nothing more is known of it");
        return Ok(Ending::Done);
    };
    let rows = Counted(run.counts.written, "row");
    let left = match &run.detail.pending {
        None => format!("it leaves {rows} in the table"),
        Some(Pending { shadow: Some(_), .. }) => {
            format!(
                "{} is as it was, and the table with its {rows} is dropped",
                run.detail.table
            )
        }
        Some(_) => {
            format!("it leaves {rows} in the table, and the indexes that it dropped are built again")
        }
    };
    eprintln!("run {} is forgotten; {left}", run.run_id);
    Ok(Ending::Done)
}

async fn prune(ledger: &dyn Ledger, keep: u64) -> Result<Ending> {
    let mut pruned = 0;
    loop {
        match ledger.prune(keep, PRUNED_AT_ONCE).await? {
            0 => break,
            some => pruned += some,
        }
    }
    eprintln!(
        "{} pruned; the files that they loaded stay on record",
        Counted(pruned, "finished run")
    );
    Ok(Ending::Done)
}

/// Whether a run went into a table; without a schema into one of that name in any.
fn is_into(run: &RunRecord, wanted: &TableName) -> bool {
    match run.detail.table.parse::<TableName>() {
        Ok(table) => table.name == wanted.name && (wanted.schema.is_none() || table.schema == wanted.schema),
        Err(_) => run.detail.table == wanted.to_string(),
    }
}

fn state(run: &RunRecord) -> &'static str {
    match run.finished {
        Some(_) => "finished",
        None if is_abandoned(run) => "abandoned",
        None if is_buffer(run) => "open",
        None => "unfinished",
    }
}

/// A run as others read it.
#[derive(Serialize)]
struct Listed<'a> {
    run_id: &'a str,
    state: &'a str,
    operation: OperationKind,
    table: &'a str,
    inputs: Vec<&'a str>,
    rows: ListedRows,
    started: String,
    finished: Option<String>,
}

#[derive(Serialize)]
struct ListedRows {
    written: u64,
    skipped: u64,
    rejected: u64,
}

fn object(run: &RunRecord) -> Result<String> {
    let listed = Listed {
        run_id: &run.run_id,
        state: state(run),
        operation: run.detail.operation,
        table: &run.detail.table,
        inputs: run
            .detail
            .inputs
            .iter()
            .map(|input| input.path.as_str())
            .collect(),
        rows: ListedRows {
            written: run.counts.written,
            skipped: run.counts.skipped,
            rejected: run.counts.rejected,
        },
        started: instant(run.started),
        finished: run.finished.map(instant),
    };
    serde_json::to_string(&listed)
        .map_err(|error| Error::bug(format!("a run cannot be written as JSON: {error}")))
}

/// `2024-02-29T23:59:58Z` of seconds since 1970.
fn instant(seconds: i64) -> String {
    format!(
        "{}Z",
        text_of_timestamp(seconds.saturating_mul(1_000_000)).replacen(' ', "T", 1)
    )
}

fn line(run: &RunRecord) -> String {
    let inputs: Vec<_> = run.detail.inputs.iter().map(|i| i.path.as_str()).collect();
    let inputs = match inputs.as_slice() {
        [] => "a pipe or a database".to_owned(),
        [one] => (*one).to_owned(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    };
    let state = state(run);
    let owed = match &run.detail.pending {
        None => String::new(),
        Some(Pending {
            shadow: Some(shadow), ..
        }) => format!("; in {shadow}, which is to take its place"),
        Some(Pending { indexes, .. }) if indexes.is_empty() => String::new(),
        Some(Pending { indexes, .. }) => {
            let names: Vec<_> = indexes.iter().map(|index| index.name.as_str()).collect();
            format!("; indexes to be built: {}", names.join(", "))
        }
    };
    format!(
        "{}  {state:<10}  {}  {} {} from {inputs}: {} written, {} rejected{owed}",
        run.run_id,
        instant(run.started),
        run.detail.operation,
        run.detail.table,
        Grouped(run.counts.written),
        Grouped(run.counts.rejected)
    )
}
