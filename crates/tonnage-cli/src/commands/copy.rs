//! `tonnage copy`: whole databases.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use clap::Args;
use tokio::task::JoinHandle;
use tonnage::{
    ColumnType, Error, ErrorKind, Result,
    connected::Connected,
    copy::{CopyOptions, CopyReport, Existing, Planned, Prepared, TableReport, Watch, prepare},
    load::Progress,
    stop::Stop,
    targets,
};

use super::rows::DurabilityName;
use crate::{
    Ending,
    connection::ConnectionArgs,
    interrupt::{Interrupt, requested, unless_interrupted},
    options::pair,
    output::outln,
    paths::Paths,
    progress::{self, ProgressArgs, Style, Verbosity},
    report::{after_report, write_report},
};

/// Copy tables of a database into another: their definitions, rows, keys, indexes and foreign keys
#[derive(Debug, Args)]
#[command(
    after_help = "Between databases of one kind tables are made as they are; between others their types are translated, \
and what the target cannot have is listed. Views, triggers and functions are not copied.

Examples:
  tonnage copy shop.db postgresql://app@db/shop
  tonnage copy postgresql://app@db/shop shop.db --tables 'order*,users' --exclude orders_old
  tonnage copy mariadb://app@db/shop postgresql://app@db/shop --resume"
)]
pub struct CopyArgs {
    /// The database that is copied: a URL, a file, or @NAME of targets.toml
    #[arg(value_name = "SOURCE_DB")]
    source: String,

    /// The database that it is copied into
    #[arg(value_name = "TARGET_DB")]
    target: String,

    /// Copy only these tables: names, or patterns with * and ? [default: all]
    #[arg(
        short,
        long,
        visible_alias = "table",
        value_name = "A,B",
        value_delimiter = ',',
        help_heading = "What to do"
    )]
    tables: Vec<String>,

    /// Leave these tables out: names or patterns
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "What to do")]
    exclude: Vec<String>,

    /// Go on with a copy that was interrupted: a table that has all rows of its source is left, another is made anew
    #[arg(long, conflicts_with = "replace", help_heading = "What to do")]
    resume: bool,

    /// Drop tables of these names in the target first, with their rows
    #[arg(long, help_heading = "What to do")]
    replace: bool,

    /// The type of a column in a database of another kind: orders.due=timestamp
    #[arg(long = "type", value_name = "TABLE.COLUMN=TYPE", value_parser = pair, help_heading = "What to do")]
    types: Vec<(String, String)>,

    /// Do not compare each table with its source once it has its rows
    #[arg(long, help_heading = "What to do")]
    no_verify: bool,

    /// Print the statements, and what is not copied; change nothing
    #[arg(short = 'n', long, help_heading = "What to do")]
    dry_run: bool,

    /// Connections that read a table, and as many that write it [default: the plan chooses]
    #[arg(short, long, value_name = "N", help_heading = "How to do it")]
    jobs: Option<usize>,

    /// What a commit promises [default: what the target is set to]
    #[arg(long, value_enum, help_heading = "How to do it")]
    durability: Option<DurabilityName>,

    #[command(flatten)]
    connection: ConnectionArgs,

    /// Print the result as one JSON object
    #[arg(long, conflicts_with = "dry_run", help_heading = "What to show")]
    json: bool,

    /// Write the result as one JSON object to PATH (- is standard output)
    #[arg(long, value_name = "PATH", conflicts_with_all = ["json", "dry_run"], help_heading = "What to show")]
    report: Option<PathBuf>,

    #[command(flatten)]
    progress: ProgressArgs,
}

/// Copies; a line a table, and the account, go to standard error.
pub async fn run(args: &CopyArgs, verbosity: Verbosity) -> Result<Ending> {
    let report = match args.json {
        true => Some(PathBuf::from("-")),
        false => args.report.clone(),
    };
    let mut paths = Paths::default();
    paths.databases(&[args.source.clone(), args.target.clone()]);
    paths.report(report.as_deref());
    paths.check()?;
    let options = options(args)?;
    let password = args.connection.password(&args.target)?;
    let preparing = async {
        let source = Connected::new(
            targets::connect(&args.source).await?,
            targets::redact(&args.source),
        );
        let target = targets::connect_with(&args.target, password).await?;
        prepare(
            &source,
            &Connected::new(target, targets::redact(&args.target)),
            options,
        )
        .await
    };
    let prepared = match unless_interrupted(preparing).await {
        Ok(prepared) => prepared,
        Err(interrupted) => return interrupted.ending(),
    };
    if args.dry_run {
        return show(&prepared).map(|()| Ending::Done);
    }
    let style = verbosity.progress(args.progress);
    let watch = Lines {
        style,
        verbosity,
        showing: Mutex::default(),
    };
    let stop = Stop::default();
    let copying = prepared.run(&watch, stop.clone());
    tokio::pin!(copying);
    let (copied, interrupt) = tokio::select! {
        copied = &mut copying => (copied?, None),
        interrupt = requested() => {
            eprintln!("stopping: what is being written is finished; interrupt again to leave at once");
            stop.request();
            tokio::select! {
                copied = &mut copying => (copied?, Some(interrupt)),
                again = requested() => return Ok(Ending::Interrupted(again, interrupted())),
            }
        }
    };
    let written = report.map_or(Ok(()), |path| write_report(&path, &copied));
    if verbosity == Verbosity::Normal {
        eprint!("{copied}");
    }
    after_report(ending(&copied, interrupt), written)
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Cancelled, "interrupted before all tables were copied")
        .hint("the same command with --resume goes on")
}

fn ending(copied: &CopyReport, interrupt: Option<Interrupt>) -> Result<Ending> {
    let failed = copied.failed();
    if let Some(interrupt) = interrupt.filter(|_| failed > 0) {
        return Ok(Ending::Interrupted(interrupt, interrupted()));
    }
    if failed == 0 {
        return Ok(Ending::Done);
    }
    let is_only_different = copied
        .tables
        .iter()
        .all(|table| table.errors.is_empty() || (table.agrees == Some(false) && table.errors.len() == 1));
    match is_only_different {
        true => Ok(Ending::Differs),
        false => Err(Error::new(
            ErrorKind::Refused,
            format!(
                "{failed} of {} tables are not copied as they are",
                copied.tables.len()
            ),
        )
        .hint("once the reason is gone, the same command with --resume goes on")),
    }
}

fn options(args: &CopyArgs) -> Result<CopyOptions> {
    let ty = |(name, text): &(String, String)| {
        let ty = text.parse::<ColumnType>();
        Ok((
            name.clone(),
            ty.map_err(|error| error.at(format!("--type {name}")))?,
        ))
    };
    Ok(CopyOptions {
        tables: args.tables.clone(),
        exclude: args.exclude.clone(),
        existing: match (args.resume, args.replace) {
            (true, _) => Existing::Resumed,
            (false, true) => Existing::Replaced,
            (false, false) => Existing::Refused,
        },
        types: args.types.iter().map(ty).collect::<Result<_>>()?,
        jobs: args.jobs,
        durability: args.durability.map(DurabilityName::durability),
        verify: !args.no_verify,
    })
}

/// What would be done, as SQL.
fn show(prepared: &Prepared) -> Result<()> {
    for table in prepared.tables() {
        if table.exists {
            outln!("-- {} is there", table.name)?;
        }
        for statement in &table.statements.create {
            outln!("{statement};")?;
        }
        outln!("-- the rows of {} into {}", table.definition.name, table.name)?;
        for step in &table.statements.after_rows {
            outln!("{};", step.sql)?;
        }
        outln!("")?;
    }
    for step in prepared
        .tables()
        .iter()
        .flat_map(|table| &table.statements.foreign_keys)
    {
        outln!("{};", step.sql)?;
    }
    for left_out in prepared.left_out() {
        outln!("-- not copied: {left_out}")?;
    }
    Ok(())
}

/// A line a table, and its progress until then.
struct Lines {
    style: Style,
    verbosity: Verbosity,
    showing: Mutex<Option<JoinHandle<()>>>,
}

impl Lines {
    fn show(&self, next: Option<JoinHandle<()>>) {
        let mut showing = self.showing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = std::mem::replace(&mut *showing, next) {
            before.abort();
        }
    }
}

impl Watch for Lines {
    fn begins(&self, _: &Planned, progress: Arc<Progress>) {
        let style = self.style;
        self.show(Some(tokio::spawn(async move {
            match progress::show(style, progress, None).await {}
        })));
    }

    fn done(&self, report: &TableReport) {
        self.show(None);
        if self.verbosity == Verbosity::Normal {
            // What failed is in the account at the end.
            let text = report.to_string();
            eprintln!("{}", text.lines().next().unwrap_or_default());
        }
    }
}
