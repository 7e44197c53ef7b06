//! `tonnage runs`: what the ledger of a database knows.

use std::path::PathBuf;

use clap::Args;
use tonnage::{
    Error, Result,
    buffer::{is_abandoned, is_buffer},
    ledger::RunRecord,
    preparation::Pending,
    report::{Counted, Grouped},
};

use crate::{
    Ending,
    connection::{ConnectionArgs, ShardArgs},
};

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
    let target = place.connect(args.connection.password(place.first())?).await?;
    if let Some(path) = &args.ledger {
        target.keep_ledger(path)?;
    }
    let runs = target.ledger().runs().await?;
    if let Some(asked) = &args.forget {
        let matching: Vec<_> = runs
            .iter()
            .filter(|r| r.run_id.starts_with(asked.as_str()))
            .collect();
        let [run] = matching.as_slice() else {
            let count = match matching.len() {
                0 => "no run has".to_owned(),
                several => format!("{several} runs have"),
            };
            return Err(Error::config(format!("{count} an id that begins with '{asked}'"))
                .hint(format!("`tonnage runs {}` lists them", place.shown())));
        };
        target.ledger().forget(&run.run_id).await?;
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
        return Ok(Ending::Done);
    }
    if runs.is_empty() {
        eprintln!("no runs");
    }
    for run in &runs {
        println!("{}", line(run));
    }
    Ok(Ending::Done)
}

fn line(run: &RunRecord) -> String {
    let inputs: Vec<_> = run.detail.inputs.iter().map(|i| i.path.as_str()).collect();
    let inputs = match inputs.as_slice() {
        [] => "a pipe or a database".to_owned(),
        [one] => (*one).to_owned(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    };
    let state = match run.finished {
        Some(_) => "finished",
        None if is_abandoned(run) => "abandoned",
        None if is_buffer(run) => "open",
        None => "unfinished",
    };
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
        "{}  {state:<10}  {} {} from {inputs}: {} written, {} rejected{owed}",
        run.run_id,
        run.detail.operation,
        run.detail.table,
        Grouped(run.counts.written),
        Grouped(run.counts.rejected)
    )
}
