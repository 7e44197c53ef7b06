//! `tonnage runs`: what the ledger of a database knows.

use clap::Args;
use tonnage::{Error, Result, ledger::RunRecord, report::Grouped, targets::redact};

use crate::{Ending, connection::ConnectionArgs};

/// List the runs that a database's ledger knows, newest first
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// The database
    #[arg(value_name = "TARGET")]
    target: String,

    /// Remove a run from the ledger; its rows stay
    #[arg(long, value_name = "RUN")]
    forget: Option<String>,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Lists, or forgets.
pub async fn run(args: &RunsArgs) -> Result<Ending> {
    let target = args.connection.connect(&args.target).await?;
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
                .hint(format!("`tonnage runs {}` lists them", redact(&args.target))));
        };
        target.ledger().forget(&run.run_id).await?;
        eprintln!(
            "run {} is forgotten; its {} rows stay",
            run.run_id,
            Grouped(run.counts.written)
        );
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
    let state = if run.finished.is_some() {
        "finished"
    } else {
        "unfinished"
    };
    format!(
        "{}  {state:<10}  {} {} from {inputs}: {} written, {} rejected",
        run.run_id,
        run.detail.operation,
        run.detail.table,
        Grouped(run.counts.written),
        Grouped(run.counts.rejected)
    )
}
