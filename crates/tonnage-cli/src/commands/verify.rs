//! `tonnage verify`: whether rows are those of a table; and the comparison behind a load (`load --verify`).

use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use tonnage::{
    Error, ErrorKind, Result,
    load::{Ended, Progress},
    parse::EpochUnit,
    reader::Relation,
    report::{Report, RunState},
    sources,
    stop::Stop,
    targets,
    verify::{AfterLoad, DIFFERENCES, Input, VerifyOptions, VerifyReport, verify},
};

use super::{
    read::{ColumnArgs, ReadArgs},
    rows::{ColumnTypes, Usage},
};
use crate::{
    Ending,
    connection::{ConnectionArgs, ShardArgs},
    interrupt::{Interrupted, unless_interrupted},
    options::{count, pair},
    output::out,
    paths::Paths,
    progress::{self, ProgressArgs, Style, Verbosity},
    report::{ReportArgs, write_report},
};

/// Compare a table with files, or with another table: which rows are missing, are too many or differ
#[derive(Debug, Args)]
#[command(after_help = "Exit code 5 says that rows differ.

Examples:
  tonnage verify orders.csv shop.db -t orders
  tonnage verify 'orders/*.parquet' postgresql://app@db/shop -t orders --key id --report verified.json
  tonnage verify old.db postgresql://app@db/shop -t orders --source-table orders")]
pub struct VerifyArgs {
    /// Files, globs, directories or URLs (- is standard input), or a database, and the database of the table last: a URL, a
    /// file, or @NAME of targets.toml
    #[arg(value_name = "SOURCE... TARGET", required = true)]
    places: Vec<String>,

    /// The table: table, schema.table or "odd.name"
    #[arg(short, long, value_name = "TABLE")]
    table: String,

    /// The columns that tell rows apart [default: the primary key; without one rows are compared by value]
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "What to do")]
    key: Vec<String>,

    /// Columns whose instants are numbers: t=timestamp(epoch_ms), also epoch_s, _us, _ns
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = pair, help_heading = "What to do")]
    types: Vec<(String, String)>,

    #[command(flatten)]
    columns: ColumnArgs,

    /// Compare with the first N rows of the source
    #[arg(long, value_name = "N", value_parser = count, help_heading = "What to do")]
    limit: Option<u64>,

    /// Name at most N rows of those that differ in one way; 0 only counts them
    #[arg(long, value_name = "N", value_parser = count, default_value_t = DIFFERENCES as u64, help_heading = "What to show")]
    differences: u64,

    /// Workers a side, and connections that read at once [default: one a processor, at most 4]
    #[arg(short, long, value_name = "N", help_heading = "How to do it")]
    jobs: Option<usize>,

    #[command(flatten)]
    read: ReadArgs,

    #[command(flatten)]
    connection: ConnectionArgs,

    #[command(flatten)]
    shards: ShardArgs,

    #[command(flatten)]
    account: ReportArgs,

    #[command(flatten)]
    progress: ProgressArgs,
}

const USAGE: Usage = Usage {
    command: "verify",
    options: "-t TABLE",
};

/// Compares; the result goes to standard output.
pub async fn run(args: &VerifyArgs, verbosity: Verbosity) -> Result<Ending> {
    let (inputs, databases) = args.read.places(&args.places, &args.shards, USAGE)?;
    let place = args.shards.place(databases)?;
    let options = options(args)?;
    let mut text = args.read.text_options()?;
    text.timezone.clone_from(&options.load.timezone);
    text.formats.epochs = epochs(args)?;
    let (format, relation) = (args.read.format(), args.read.relation(inputs)?);
    let mut paths = Paths::default();
    paths.sources(inputs, format);
    paths.databases(databases);
    paths.report(args.account.path());
    paths.check()?;
    let password = args.connection.password(place.first())?;
    let progress: Arc<Progress> = Arc::default();
    let stop = Stop::default();
    let comparing = {
        let (inputs, progress, stop) = (inputs.to_vec(), progress.clone(), stop.clone());
        // A task of its own, as the first read of a pipe may block and interrupts must be heard meanwhile.
        let comparing = tokio::spawn(async move {
            let input = match (relation, inputs.first()) {
                (Some(relation), Some(place)) => Input::Database {
                    target: targets::connect(place).await?,
                    shown: format!("{} {}", targets::redact(place), shown(&relation))
                        .trim_end()
                        .to_owned(),
                    relation,
                    columns: None,
                    texts: Vec::new(),
                },
                _ => Input::Source(sources::open(&inputs, format, &text)?),
            };
            let target = place.connect(password).await?;
            verify(&*target, place.shown(), input, &options, progress, stop).await
        });
        async {
            let compared = comparing.await;
            compared.unwrap_or_else(|error| Err(Error::bug(format!("the rows were not compared: {error}"))))
        }
    };
    let style = verbosity.progress(args.progress);
    let compared = tokio::select! {
        compared = unless_interrupted(comparing) => compared,
        never = progress::show(style, progress, None) => match never {},
    };
    let compared = match compared {
        Ok(compared) => compared,
        Err(interrupted) => {
            stop.request();
            return interrupted.ending();
        }
    };
    if let Some(path) = args.account.path() {
        write_report(path, &compared)?;
    }
    let is_stdout = args.account.path().is_some_and(|path| path.as_os_str() == "-");
    if verbosity == Verbosity::Normal && !is_stdout {
        out!("{compared}")?;
    }
    Ok(match compared.agrees {
        true => Ending::Done,
        false => Ending::Differs,
    })
}

/// What is read of a database, for people.
fn shown(relation: &Relation) -> String {
    match relation {
        Relation::Table(name) => name.to_string(),
        Relation::Query(_) => String::new(),
    }
}

fn options(args: &VerifyArgs) -> Result<VerifyOptions> {
    let mut load = args.columns.options(args.table.parse()?);
    load.key.clone_from(&args.key);
    load.limit = args.limit;
    load.jobs = args.jobs;
    load.timezone.clone_from(&args.read.timezone);
    Ok(VerifyOptions {
        load,
        differences: usize::try_from(args.differences).unwrap_or(usize::MAX),
    })
}

/// The columns whose instants are numbers; a column's own type decides everything else.
fn epochs(args: &VerifyArgs) -> Result<Vec<(String, EpochUnit)>> {
    let ColumnTypes { types, epochs } =
        ColumnTypes::parse(&[args.columns.types(), args.types.clone()].concat())?;
    match types
        .iter()
        .find(|(name, _)| epochs.iter().all(|(epoch, _)| epoch != name))
    {
        Some((name, ty)) => Err(Error::config(format!(
            "--type {name}={ty}: the column's own type decides how text is read"
        ))
        .hint("leave it out; --type is for instants that are numbers: t=timestamp(epoch_ms)")),
        None => Ok(epochs),
    }
}

/// The account of a load, and of the comparison behind it.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoadReport<'a> {
    /// The account.
    #[serde(flatten)]
    pub report: &'a Report,
    /// With `--verify`, whether the rows are in the table; not there otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<&'a VerifyReport>,
}

/// Whether all rows of a load are done, so that they can be looked for.
pub fn is_finished(ended: &Ended) -> bool {
    ended.error.is_none() && ended.report.state == RunState::Finished
}

/// Looks for the rows of a load that has ended as `report` says.
pub async fn compare(check: AfterLoad, report: &Report, style: Style) -> Result<VerifyReport, Interrupted> {
    let progress: Arc<Progress> = Arc::default();
    let stop = Stop::default();
    let comparing = check.run(report, progress.clone(), stop.clone());
    let compared = tokio::select! {
        compared = unless_interrupted(comparing) => compared,
        never = progress::show(style, progress, None) => match never {},
    };
    compared.inspect_err(|_| stop.request())
}

/// How a load ends whose rows were looked for.
pub fn verified_ending(
    ending: Result<Ending>,
    verified: Option<Result<VerifyReport, Interrupted>>,
    verbosity: Verbosity,
) -> Result<Ending> {
    let ending = ending?;
    match verified {
        None => Ok(ending),
        Some(Err(Interrupted::Failed(error))) => Err(match error.hint_text() {
            Some(_) => error,
            None => error.hint("the load itself has ended well; tonnage verify compares again"),
        }),
        Some(Err(Interrupted::By(interrupt))) => {
            let error = Error::new(
                ErrorKind::Cancelled,
                "interrupted while rows were compared; all of them are written",
            );
            Ok(Ending::Interrupted(
                interrupt,
                error.hint("tonnage verify compares again"),
            ))
        }
        Some(Ok(report)) => {
            if verbosity == Verbosity::Normal {
                eprint!("{report}");
            }
            match report.agrees {
                true => Ok(ending),
                false => Ok(Ending::Differs),
            }
        }
    }
}
