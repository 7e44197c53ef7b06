//! `tonnage unload`: a table or a query into files.

use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::{Args, ValueEnum};
use tonnage::{
    Error, ErrorKind, Result,
    load::Progress,
    plan::Bytes,
    reader::Relation,
    report::{Counted, Grouped},
    sinks::{
        Compression, Output,
        csv::CsvOptions,
        format_named,
        parquet::{ParquetCompression, ParquetOptions},
    },
    sources::Format,
    stop::Stop,
    unload::{UnloadOptions, UnloadReport, plan, unload},
};

use crate::{
    Ending,
    connection::{ConnectionArgs, ShardArgs},
    interrupt::{Interrupt, requested, unless_interrupted},
    options::{byte, count},
    output::out,
    paths::Paths,
    progress::{self, ProgressArgs, Verbosity},
    report::{ReportArgs, write_report},
};

/// Unload a table or a query into files: every row once, all of one moment, types kept
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tonnage unload shop.db -t orders -o orders.csv
  tonnage unload postgresql://app@db/shop -t orders -j 4 -o 'orders-{}.parquet'
  tonnage unload shop.db --query 'SELECT city, count(*) AS n FROM people GROUP BY city' -o - --format jsonl")]
pub struct UnloadArgs {
    /// The database: a URL, a file, or @NAME of targets.toml; several with --shard-by
    #[arg(value_name = "TARGET", required = true)]
    targets: Vec<String>,

    /// The table or view: table, schema.table or "odd.name"
    #[arg(
        short,
        long,
        value_name = "TABLE",
        conflicts_with = "query",
        required_unless_present = "query"
    )]
    table: Option<String>,

    /// The rows of this query instead of a table's
    #[arg(long, alias = "source-query", value_name = "SQL")]
    query: Option<String>,

    /// The file to write (.csv, .tsv, .jsonl, .parquet, .arrow; text also with .gz or .zst behind); a directory or a
    /// name with {} in it gets a file a job; - is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// The columns wanted, in order [default: all, but for those of a table that the database computes]
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        help_heading = "What to read"
    )]
    columns: Option<Vec<String>>,

    /// Only rows of which this is true: a condition in the database's own SQL
    #[arg(long = "where", value_name = "SQL", help_heading = "What to read")]
    filter: Option<String>,

    /// At most N rows, whichever they are
    #[arg(long, alias = "rows", value_name = "N", value_parser = count, help_heading = "What to read")]
    limit: Option<u64>,

    /// Columns to give as the database's own text, whatever they hold
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        help_heading = "What to read"
    )]
    text: Vec<String>,

    /// Connections that read at once [default: one a processor, at most 4]
    #[arg(short, long, value_name = "N", help_heading = "How to do it")]
    jobs: Option<usize>,

    /// Cut the work by the values of this column [default: by where rows are stored, where the database can]
    #[arg(long, value_name = "COLUMN", help_heading = "How to do it")]
    split_by: Option<String>,

    /// The format: csv, tsv, jsonl, parquet or arrow [default: by the ending of OUT; csv for -, parquet for a directory]
    #[arg(long, value_name = "FORMAT", help_heading = "How to write")]
    format: Option<String>,

    /// How files are compressed [default: by the ending of OUT; for Parquet snappy, where it pays]
    #[arg(long, value_enum, value_name = "METHOD", help_heading = "How to write")]
    compression: Option<CompressionName>,

    /// Between fields of CSV: one character, or \t
    #[arg(long, value_name = "C", value_parser = byte, help_heading = "How to write")]
    delimiter: Option<u8>,

    /// Leave the line of column names out of CSV
    #[arg(long, help_heading = "How to write")]
    no_header: bool,

    /// Replace OUT if it exists
    #[arg(long, help_heading = "How to write")]
    overwrite: bool,

    /// Write _manifest.json beside the files, last: their names, rows, bytes and SHA-256
    #[arg(long, help_heading = "How to write")]
    manifest: bool,

    #[command(flatten)]
    connection: ConnectionArgs,

    #[command(flatten)]
    shards: ShardArgs,

    /// Print the plan and write nothing
    #[arg(long, help_heading = "What to show")]
    dry_run: bool,

    #[command(flatten)]
    account: ReportArgs,

    #[command(flatten)]
    progress: ProgressArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompressionName {
    None,
    Gzip,
    Zstd,
    Snappy,
}

/// Unloads; the summary goes to standard error.
pub async fn run(args: &UnloadArgs, verbosity: Verbosity) -> Result<Ending> {
    let options = options(args)?;
    let place = args.shards.place(&args.targets)?;
    let mut paths = Paths::default();
    paths.databases(&args.targets);
    paths.writes("-o", Some(&args.output));
    paths.report(args.account.path());
    paths.check()?;
    let password = args.connection.password(place.first())?;
    let connecting = place.connect(password);
    let target = match unless_interrupted(connecting).await {
        Ok(target) => target,
        Err(interrupted) => return interrupted.ending(),
    };
    if args.dry_run {
        return match unless_interrupted(plan(&*target, &options, &Stop::default())).await {
            Ok(plan) => {
                out!("{plan}")?;
                Ok(Ending::Done)
            }
            Err(interrupted) => interrupted.ending(),
        };
    }
    let progress: Arc<Progress> = Arc::default();
    let stop = Stop::default();
    let first = OnceCell::new();
    let url = place.shown();
    let unloading = unload(&*target, url, &options, progress.clone(), stop.clone());
    let show_style = verbosity.progress(args.progress);
    let ended = tokio::select! {
        ended = unloading => ended,
        never = progress::show(show_style, progress, None) => match never {},
        interrupt = interrupted(stop, &first) => {
            let error = Error::new(ErrorKind::Cancelled, "interrupted while files were being written");
            return Ok(Ending::Interrupted(interrupt, error));
        }
    };
    let report = match (ended, first.get()) {
        (Ok(report), _) => report,
        (Err(error), Some(interrupt)) if error.kind() == ErrorKind::Cancelled => {
            return Ok(Ending::Interrupted(*interrupt, error));
        }
        (Err(error), _) => return Err(error),
    };
    if let Some(path) = args.account.path() {
        write_report(path, &report)?;
    }
    if verbosity == Verbosity::Normal && !report.closed {
        eprint!("{}", summary(&report));
    }
    Ok(Ending::Done)
}

/// What is unloaded and where to.
pub fn options(args: &UnloadArgs) -> Result<UnloadOptions> {
    let relation = match (&args.table, &args.query) {
        (Some(table), _) => Relation::Table(table.parse()?),
        (None, Some(query)) => Relation::Query(query.clone()),
        (None, None) => return Err(Error::config("neither --table nor --query says what to read")),
    };
    let is_stdout = |path: &Path| path == Path::new("-");
    if is_stdout(&args.output) && args.account.path().is_some_and(is_stdout) {
        return Err(
            Error::config("rows and the report cannot both go to standard output")
                .hint("send one of them to a file"),
        );
    }
    Ok(UnloadOptions {
        columns: args.columns.clone(),
        texts: args.text.clone(),
        filter: args.filter.clone(),
        limit: args.limit,
        split_by: args.split_by.clone(),
        jobs: args.jobs,
        manifest: args.manifest,
        ..UnloadOptions::new(relation, output(args)?)
    })
}

fn output(args: &UnloadArgs) -> Result<Output> {
    let format = args.format.as_deref().map(format_named).transpose()?;
    let ending = args.output.to_string_lossy().to_ascii_lowercase();
    let is_directory = ending.ends_with('/') || args.output.is_dir();
    let is_parquet = match format {
        Some(format) => format == Format::Parquet,
        None => is_directory || ending.ends_with(".parquet"),
    };
    let mut output = Output {
        format,
        overwrite: args.overwrite,
        csv: CsvOptions {
            delimiter: args.delimiter,
            header: !args.no_header,
        },
        ..Output::new(&args.output)
    };
    match args.compression {
        None => {}
        Some(name) if is_parquet => {
            let compression = match name {
                CompressionName::None => ParquetCompression::None,
                CompressionName::Snappy => ParquetCompression::Snappy,
                CompressionName::Zstd => ParquetCompression::Zstd,
                CompressionName::Gzip => {
                    return Err(Error::config("Parquet is not written with gzip")
                        .hint("--compression takes none, snappy or zstd for Parquet"));
                }
            };
            output.parquet = ParquetOptions {
                compression,
                ..ParquetOptions::default()
            };
        }
        Some(name) => {
            output.compression = Some(match name {
                CompressionName::None => Compression::None,
                CompressionName::Gzip => Compression::Gzip,
                CompressionName::Zstd => Compression::Zstd,
                CompressionName::Snappy => {
                    return Err(Error::config("snappy is a compression of Parquet only")
                        .hint("--compression takes none, gzip or zstd for text"));
                }
            });
        }
    }
    Ok(output)
}

/// The first interrupt ends the reading, and no file is left; the second ends the process.
async fn interrupted(stop: Stop, first: &OnceCell<Interrupt>) -> Interrupt {
    let interrupt = requested().await;
    let _ = first.set(interrupt);
    stop.request();
    requested().await
}

/// The account in a few lines.
fn summary(report: &UnloadReport) -> String {
    let what = report.table.as_deref().unwrap_or("the query");
    let mut text = format!(
        "{what} of {}: {}, {} in {:.2} s, {} rows/s\n",
        report.target,
        Counted(report.rows, "row"),
        Bytes(usize::try_from(report.bytes).unwrap_or(usize::MAX)),
        report.seconds,
        Grouped(report.rows_per_second as u64)
    );
    text.push_str(&format!(
        "  {} by {}\n",
        Counted(report.files.len() as u64, "file"),
        Counted(report.jobs as u64, "job")
    ));
    for note in &report.notes {
        text.push_str(&format!("  note: {note}\n"));
    }
    text
}
