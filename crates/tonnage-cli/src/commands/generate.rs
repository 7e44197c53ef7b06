//! `tonnage generate`: made-up rows into a file or a pipe.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Instant,
};

use clap::Args;
use serde::Serialize;
use tonnage::{
    Error, Result,
    generate::{self, Generated, Generation, Workload},
    plan::Bytes,
    report::Grouped,
    sinks::{
        self, Output,
        csv::CsvOptions,
        parquet::{ParquetCompression, ParquetOptions},
    },
    sources::Format,
    stop::Stop,
};

use crate::{
    Ending,
    paths::Paths,
    progress::{self, ProgressArgs, Verbosity, counted_sink},
    report::{ReportArgs, write_report},
};

/// Make rows up: equal workload, seed and row number always give an equal row
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct GenerateArgs {
    /// The kind of rows, listed below
    #[arg(value_name = "WORKLOAD")]
    workload: String,

    /// How many rows: 1000, 10k, 5M, 2G
    #[arg(long, alias = "limit", value_name = "N", value_parser = crate::options::count)]
    rows: u64,

    /// Another seed makes other rows
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// The file to write (.csv, .tsv, .jsonl, .parquet, .arrow; .csv.gz and .csv.zst are compressed); - is standard
    /// output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,

    /// The format: csv, tsv, jsonl, parquet or arrow [default: by the ending of OUT, csv for -]
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,

    /// How Parquet is compressed
    #[arg(long, value_name = "METHOD", value_enum, default_value_t = CompressionName::Snappy)]
    compression: CompressionName,

    /// Leave the line of column names out of CSV
    #[arg(long)]
    no_header: bool,

    /// Replace OUT if it exists
    #[arg(long)]
    overwrite: bool,

    /// Threads that make rows [default: one a processor]
    #[arg(short, long, value_name = "N")]
    jobs: Option<NonZeroUsize>,

    #[command(flatten)]
    account: ReportArgs,

    #[command(flatten)]
    progress: ProgressArgs,
}

/// What was made.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GenerateReport {
    /// The kind of rows.
    workload: String,
    /// The seed.
    seed: u64,
    /// Rows made.
    rows: u64,
    /// Bytes written.
    bytes: u64,
    /// The file; `-` for standard output.
    output: String,
    /// Seconds that it took.
    seconds: f64,
    /// Rows a second.
    rows_per_second: f64,
    /// Whoever read standard output left before all rows were there.
    closed: bool,
}

/// The compressions of Parquet by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum CompressionName {
    None,
    Snappy,
    Zstd,
}

/// Makes the rows; a summary goes to standard error, unless nothing is to be said. A reader that closes the pipe ends it
/// quietly; a request to stop leaves no file.
pub async fn run(args: &GenerateArgs, verbosity: Verbosity) -> Result<Ending> {
    let started = Instant::now();
    let mut paths = Paths::default();
    paths.writes("-o", Some(&args.output));
    paths.report(args.account.path());
    paths.check()?;
    if args.output == Path::new("-") && args.account.path() == Some(Path::new("-")) {
        return Err(
            Error::config("rows and the report cannot both go to standard output")
                .hint("--report PATH writes the report into a file"),
        );
    }
    let generation = Generation {
        workload: args.workload.parse()?,
        seed: args.seed,
        first_row: 0,
        rows: args.rows,
        threads: args.jobs.unwrap_or_else(processors),
    };
    generation.check()?;
    let (progress, stop) = (Arc::default(), Stop::default());
    let sink = counted_sink(&output(args)?, &generation.workload.schema(), &progress, &stop)?;
    let writing = tokio::task::spawn_blocking({
        let generation = generation.clone();
        move || generate::write(&generation, sink)
    });
    let style = verbosity.progress(args.progress);
    let written = progress::written(writing, style, progress, &stop).await;
    let generated = match written {
        Ok(written) => written?,
        Err(ending) => return Ok(ending),
    };
    let seconds = started.elapsed().as_secs_f64();
    if !generated.closed && verbosity == Verbosity::Normal {
        eprintln!("{}", summary(&generation, &generated, seconds));
    }
    let Some(path) = args.account.path() else {
        return Ok(Ending::Done);
    };
    let report = GenerateReport {
        workload: generation.workload.to_string(),
        seed: generation.seed,
        rows: generated.rows,
        bytes: generated.bytes,
        output: args.output.display().to_string(),
        seconds,
        rows_per_second: generated.rows as f64 / seconds.max(1e-9),
        closed: generated.closed,
    };
    write_report(path, &report)?;
    Ok(Ending::Done)
}

fn output(args: &GenerateArgs) -> Result<Output> {
    let format: Option<Format> = args.format.as_deref().map(sinks::format_named).transpose()?;
    let compression = match args.compression {
        CompressionName::None => ParquetCompression::None,
        CompressionName::Snappy => ParquetCompression::Snappy,
        CompressionName::Zstd => ParquetCompression::Zstd,
    };
    Ok(Output {
        path: args.output.clone(),
        format,
        compression: None,
        overwrite: args.overwrite,
        checksum: false,
        csv: CsvOptions {
            delimiter: None,
            header: !args.no_header,
        },
        parquet: ParquetOptions {
            compression,
            ..ParquetOptions::default()
        },
    })
}

fn processors() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// The workloads, from their registry, and an example.
fn after_help() -> String {
    let mut text = "Workloads:\n".to_owned();
    for workload in Workload::all() {
        text.push_str(&format!("  {:<9} {}\n", workload.name(), workload.about()));
    }
    text.push_str(
        "\nExamples:\n  \
         tonnage generate journal --rows 1M -o journal.parquet\n  \
         tonnage generate sbtest --rows 10k --seed 7 -o - | head",
    );
    text
}

fn summary(generation: &Generation, generated: &Generated, seconds: f64) -> String {
    format!(
        "{} {} rows, {} in {seconds:.2} s: {} rows/s",
        Grouped(generated.rows),
        generation.workload,
        Bytes(generated.bytes as usize),
        Grouped((generated.rows as f64 / seconds.max(1e-9)) as u64),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: GenerateArgs,
    }

    fn generate(line: &str, output: &Path) -> Result<()> {
        let output = output.to_string_lossy();
        let words = ["generate"].into_iter().chain(line.split(' '));
        let line = Line::try_parse_from(words.chain(["-o", &output])).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime
            .unwrap()
            .block_on(run(&line.args, Verbosity::Quiet))
            .map(|_| ())
    }

    #[test]
    fn jobs_do_not_change_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.csv");
        generate("journal --rows 3k -j 1", &path).unwrap();
        let one = fs::read(&path).unwrap();
        assert_eq!(one.iter().filter(|b| **b == b'\n').count(), 3_001);
        generate("journal --rows 3k -j 3 --seed 1 --overwrite --no-header", &path).unwrap();
        let header = one.iter().position(|b| *b == b'\n').unwrap();
        assert!(
            fs::read(&path).unwrap() == one[header + 1..],
            "the same rows, without the header"
        );
    }

    #[test]
    fn a_refused_request_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        for (line, wanted) in [
            (
                "sbtest --rows 3G",
                "3000000000 rows are too many for sbtest: it ends at row 2147483647",
            ),
            ("sbtes --rows 1", "unknown workload 'sbtes'"),
            ("sbtest --rows 1 --format xml", "unknown format 'xml'"),
        ] {
            let refused = generate(line, &directory.path().join("rows.csv")).unwrap_err();
            assert_eq!(refused.to_string(), wanted);
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "{line}");
        }
    }
}
