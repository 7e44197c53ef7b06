//! `tonnage tune`: the settings to load a table with, found by measuring and kept where a load finds them.

use std::{fmt, path::Path, time::Duration};

use clap::Args;
use tonnage::{
    Error, Result,
    measure::{
        Bench, BenchMethod, BenchOptions, BenchReport, Budget, Goal, Matrix, OwnRows, RowKind, Until,
        answer::{Short, Time},
    },
    operation::{Durability, Method, Mode},
    table::TableName,
    target::Target,
    targets::{
        redact,
        tuned::{Tuned, save},
    },
};

use super::bench::{durability, measured, method, operation, text};
use crate::{
    Ending,
    confirm::Consent,
    connection::ConnectionArgs,
    interrupt::unless_interrupted,
    options::{count, seconds},
    output::out,
    paths::Paths,
    progress::{ProgressArgs, Verbosity},
    report::{ReportArgs, write_report},
};

/// Find the settings to load a table with: measures until it is sure, and keeps them if asked
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tonnage tune shop.db -t orders
  tonnage tune @shop -t orders --save
  tonnage tune postgresql://app@db/shop -t orders 'orders/*.csv' --for latency=50ms
  tonnage tune @shop -t orders --mode upsert --for load=0.3 --time 5min --save

Rows are those of the table, or of SOURCE, and go into empty copies of the table, which are removed; the table itself is only
read. Settings that are slower are given up round by round, so that what may be the best is measured most often. It ends when
one setting is known to be within 5% of the best, or with its time; then it says what is decided and what is not.")]
pub struct TuneArgs {
    /// The database: a URL, a file, or @NAME of targets.toml
    #[arg(value_name = "TARGET")]
    target: String,

    /// Files with rows like those to be loaded [default: the table's own rows]
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,

    /// The table: table, schema.table or "odd.name". Where there is none yet, SOURCE says what it is like
    #[arg(short, long, value_name = "TABLE")]
    table: String,

    /// What is looked for: throughput; latency=50ms, the most rows a second where 99% of the writes take at most that; load=0.3,
    /// where the database takes at most that share of this machine's processors
    #[arg(long = "for", value_name = "GOAL", value_parser = goal, default_value = "throughput")]
    goal: Goal,

    /// How long to measure at most, but for two rounds
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "2min")]
    time: Duration,

    /// Keep what is found, with its date, in the section of @NAME in targets.toml, where a load into the table takes it from
    #[arg(long)]
    save: bool,

    /// insert, upsert (every second row is there), update, delete (every row is there)
    #[arg(long, value_name = "O", value_parser = operation, default_value = "insert", help_heading = "What to try")]
    mode: Mode,

    /// The columns that no two rows share, for the primary key where the table is not there yet
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        requires = "sources",
        help_heading = "What to try"
    )]
    key: Vec<String>,

    /// single, batch, array, native [default: all that the database has]
    #[arg(long, value_name = "M,..", value_delimiter = ',', value_parser = method, help_heading = "What to try")]
    method: Vec<Method>,

    /// Rows of a write at most [default: 100,1000,10000,50000; for latency 10,100,1000,10000]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = count, help_heading = "What to try")]
    batch_rows: Vec<u64>,

    /// Connections that write at once [default: 1,2,4; 1 where the database has one writer]
    #[arg(short, long, value_name = "N,..", value_delimiter = ',', value_parser = count, help_heading = "What to try")]
    jobs: Vec<u64>,

    /// What a commit promises [default: the strongest that the database keeps]
    #[arg(long, value_name = "D", value_parser = durability, help_heading = "What to try")]
    durability: Option<Durability>,

    /// Keep positions in the ledger, as a load does; its tables stay where they are made
    #[arg(long, help_heading = "What to try")]
    with_ledger: bool,

    /// Rows of a run at most
    #[arg(long, alias = "limit", value_name = "N", value_parser = count, default_value = "200k", help_heading = "What to try")]
    rows: u64,

    /// Time of a run at most, but for one commit
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "400ms", help_heading = "What to try")]
    duration: Duration,

    #[command(flatten)]
    account: ReportArgs,

    #[command(flatten)]
    progress: ProgressArgs,

    /// Do not ask before tables are made
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Rows of a write that are tried where none are named.
const BATCH_ROWS: [usize; 4] = [100, 1_000, 10_000, 50_000];
/// The same where writes are to be short.
const BATCH_ROWS_OF_SHORT: [usize; 4] = [10, 100, 1_000, 10_000];

/// Measures, and keeps what was found. The answer goes to standard output, all else to standard error.
pub async fn run(args: &TuneArgs, verbosity: Verbosity) -> Result<Ending> {
    let place = args.target.as_str();
    if args.save && !place.starts_with('@') {
        return Err(Error::config(format!(
            "--save keeps settings for a target with a name, and {} has none",
            redact(place)
        ))
        .hint("give it a section in targets.toml and call it @NAME, or leave --save out"));
    }
    let mut paths = Paths::default();
    paths.sources(&args.sources, None);
    paths.databases(&[place.to_owned()]);
    paths.report(args.account.path());
    paths.check()?;
    let table: TableName = args.table.parse()?;
    let target = match unless_interrupted(args.connection.connect(place)).await {
        Ok(target) => target,
        Err(interrupted) => return interrupted.ending(),
    };
    let preparing = async {
        let options = options(args, &*target, &table).await?;
        Bench::prepare(target.clone(), redact(place), options).await
    };
    let bench = match unless_interrupted(preparing).await {
        Ok(bench) => bench,
        Err(interrupted) => return interrupted.ending(),
    };
    if verbosity == Verbosity::Normal {
        eprintln!(
            "{} settings, each measured twice at least, for {} at most",
            bench.cells().run.len(),
            Time(args.time.as_secs_f64())
        );
    }
    let consent = match args.yes {
        true => Consent::Given,
        false => Consent::Asked,
    };
    let report = match measured(bench, "tonnage tune", consent, verbosity.progress(args.progress)).await? {
        Ok(report) => report,
        Err(ending) => return Ok(ending),
    };
    match args.account.path() {
        Some(path) if path == Path::new("-") => write_report(path, &report)?,
        path => {
            if let Some(path) = path {
                write_report(path, &report)?;
            }
            out!("{}", text::answer(&report, place, &args.table))?;
        }
    }
    if args.save {
        keep(args, &table, &report)?;
    }
    Ok(Ending::Done)
}

/// Writes what is recommended into the file of the target.
fn keep(args: &TuneArgs, table: &TableName, report: &BenchReport) -> Result<()> {
    let answer = report.answers.first();
    let Some(setting) = answer.and_then(|answer| answer.recommended) else {
        return Err(Error::config("nothing is kept: no setting meets the goal")
            .hint("ask for less with --for, or try more with --method, --batch-rows and --jobs"));
    };
    let of = report.cells.iter().find(|cell| cell.setting == setting);
    let rate = of.map_or(0.0, |cell| cell.rows_per_second.median);
    let method = setting
        .method
        .of_load()
        .ok_or_else(|| Error::bug("a buffer was recommended for a load"))?;
    let settings = Tuned {
        method,
        batch_rows: (method != Method::Single).then_some(setting.batch_rows),
        jobs: setting.jobs,
    };
    let why = format!(
        "{}: {setting}: {} rows/s, {}, for {}, by tonnage {}",
        jiff::Zoned::now().date(),
        Short(rate),
        setting.durability,
        Shown(args.goal),
        env!("CARGO_PKG_VERSION")
    );
    let path = save(&args.target, table, args.mode, &settings, &why)?;
    eprintln!(
        "kept in {}: loads into {table} take it from there",
        path.display()
    );
    Ok(())
}

async fn options(args: &TuneArgs, target: &dyn Target, table: &TableName) -> Result<BenchOptions> {
    let sizes = |numbers: &[u64]| -> Option<Vec<usize>> {
        let sizes = numbers.iter().map(|n| usize::try_from(*n).unwrap_or(usize::MAX));
        (!numbers.is_empty()).then(|| sizes.collect())
    };
    let is_new = !args.sources.is_empty() && target.table(table).await?.is_none();
    let usual = match args.goal {
        Goal::Latency(_) => BATCH_ROWS_OF_SHORT,
        Goal::Throughput | Goal::Load(_) => BATCH_ROWS,
    };
    let methods: Vec<BenchMethod> = args.method.iter().map(|method| (*method).into()).collect();
    Ok(BenchOptions {
        matrix: Matrix {
            workloads: vec![RowKind::Own],
            operations: vec![args.mode],
            methods: (!methods.is_empty()).then_some(methods),
            batch_rows: Some(sizes(&args.batch_rows).unwrap_or_else(|| usual.to_vec())),
            jobs: sizes(&args.jobs),
            durability: args.durability.map(|level| vec![level]),
            ..Matrix::default()
        },
        budget: Budget {
            rows: args.rows,
            duration: args.duration,
            repeats: 1,
            warm_up: 0,
        },
        seed: 1,
        ledger: args.with_ledger,
        own: Some(OwnRows {
            table: (!is_new).then(|| table.clone()),
            files: args.sources.clone(),
            key: args.key.clone(),
        }),
        single_transaction: false,
        bandwidth: None,
        rate: None,
        until: Some(Until {
            goal: args.goal,
            time: args.time,
        }),
    })
}

/// A goal as it is asked for.
struct Shown(Goal);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Goal::Throughput => f.write_str("throughput"),
            Goal::Latency(limit) => write!(f, "latency={}", Time(limit.as_secs_f64())),
            Goal::Load(limit) => write!(f, "load={limit}"),
        }
    }
}

fn goal(text: &str) -> Result<Goal, String> {
    let wrong = || "write throughput, latency=50ms or load=0.3".to_owned();
    match text.split_once('=') {
        None if text == "throughput" => Ok(Goal::Throughput),
        Some(("latency", limit)) => seconds(limit).map(Goal::Latency).map_err(|_| wrong()),
        Some(("load", limit)) => match limit.trim().parse::<f64>() {
            Ok(limit) if limit > 0.0 && limit <= 1.0 => Ok(Goal::Load(limit)),
            _ => Err("load is a share of all processors, above 0 and up to 1: load=0.3".to_owned()),
        },
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_read_as_they_are_shown() {
        for text in ["throughput", "latency=50ms", "latency=2s", "load=0.3", "load=1"] {
            assert_eq!(Shown(goal(text).expect("a goal")).to_string(), text);
        }
        for text in [
            "latency",
            "latency=50",
            "load=0",
            "load=2",
            "load=x",
            "cost=1",
            "throughput=1",
        ] {
            assert!(goal(text).is_err(), "{text}");
        }
    }
}
