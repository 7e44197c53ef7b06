//! `tonnage ingest`: JSON lines from standard input through a buffer into a table.
//!
//! Three parts work side by side: a thread reads lines and puts them, a task prints the numbers of rows as the mark
//! reaches them (the reader does it by itself where being put is enough), and this one waits for the end of the input
//! or for a signal.

use std::{
    io::{BufRead, BufReader, BufWriter, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use clap::{Args, ValueEnum};
use tonnage::{
    Buffer, Database, Error, ErrorKind, Result, Row,
    buffer::{AREA_BYTES_MAX, Ack, BufferReport, JOURNAL_BYTES_MAX, JournalOptions},
    operation::Durability,
    plan::Mode,
    report::{Counted, Grouped},
    targets::redact,
};

use crate::{
    Ending,
    connection::ConnectionArgs,
    interrupt::{Interrupt, requested, unless_interrupted},
    options::{count, size},
};

/// The longest line.
const LINE_BYTES_MAX: usize = 16 << 20;
/// How long an interrupted ingest with a journal waits for the database.
const INTERRUPTED_WAIT: Duration = Duration::from_secs(10);
/// Numbers are printed at most this many at a time.
const PRINTED_AT_ONCE: u64 = 4_096;

/// Take JSON lines from standard input, one row each, and drain them into a table in the background
#[derive(Debug, Args)]
#[command(
    after_help = "Each row is acknowledged on standard output by its sequence number, in order, once it is as
safe as --ack asks for. A key that a row does not name takes its column's default.

Examples:
  mosquitto_sub -t readings | tonnage ingest house.db -t readings -q
  tail -F events.jsonl | tonnage ingest postgresql://app@db/shop -t events --journal journal --ack journaled"
)]
pub struct IngestArgs {
    /// The database: a URL, a file, or @NAME of targets.toml
    #[arg(value_name = "TARGET")]
    target: String,

    /// The table: table, schema.table or "odd.name"
    #[arg(short, long, value_name = "TABLE")]
    table: String,

    /// When a row is acknowledged
    #[arg(long, value_enum, default_value_t = AckName::Accepted)]
    ack: AckName,

    /// Keep rows in a journal in DIR until the database has them; the next ingest with it goes on with what is left
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,

    /// The most bytes of the journal; producers are held when they are reached [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "journal")]
    journal_bytes: Option<usize>,

    /// Go on without rows of the journal that are damaged
    #[arg(long, requires = "journal")]
    accept_loss: bool,

    /// What happens to a row
    #[arg(long, value_enum, default_value_t = ModeName::Insert)]
    mode: ModeName,

    /// The columns that recognise a row [default: the primary key]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    key: Vec<String>,

    /// Let an upsert or an ignore go by whichever unique key a row meets, where a table has several and the database can
    /// be told no single one
    #[arg(long)]
    any_unique_key: bool,

    /// The most bytes of rows in memory [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<usize>,

    /// Drain when this much has gathered
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1MiB")]
    drain_bytes: usize,

    /// Drain when the oldest row is this old
    #[arg(long, value_name = "MILLISECONDS", value_parser = count, default_value = "1000")]
    drain_age: u64,

    /// What a commit promises [default: the strongest the database has]
    #[arg(long, value_enum)]
    durability: Option<DurabilityName>,

    /// Where bad rows go [default: a name of the run's own]
    #[arg(long, value_name = "PATH")]
    rejects: Option<PathBuf>,

    /// Stop after more rejects than this
    #[arg(long, value_name = "N", value_parser = count, default_value = "1000000")]
    max_rejects: u64,

    /// The zone of times that carry none, for columns with time zone: Europe/Berlin, UTC
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,

    #[command(flatten)]
    connection: ConnectionArgs,

    /// Write the account as one JSON object to PATH
    #[arg(long, value_name = "PATH", help_heading = "What to show")]
    report: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AckName {
    /// In memory
    Accepted,
    /// On disk, in the journal
    Journaled,
    /// In the table, or in the rejects
    Committed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeName {
    /// Every row is new; one whose key exists is bad
    Insert,
    /// A row whose key exists replaces what is there, in the columns that it names
    Upsert,
    /// A row whose key exists is left out
    Ignore,
    /// A row changes what has its key; without one it is left out
    Update,
    /// A row removes what has its key; only the key's columns are used
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DurabilityName {
    /// The last commits may be lost if the machine fails
    Relaxed,
    /// Commits survive the loss of power
    Durable,
}

/// Ingests; acknowledgements go to standard output, the summary to standard error.
pub async fn run(args: &IngestArgs, quiet: bool) -> Result<Ending> {
    let buffer = match unless_interrupted(open(args)).await {
        Ok(buffer) => buffer,
        Err(interrupted) => return interrupted.ending(),
    };
    let recovery = buffer.recovery();
    if recovery.rows > 0 && !quiet {
        eprintln!("{} of the journal drained first", Counted(recovery.rows, "row"));
    }
    let stopped = Arc::new(AtomicBool::new(false));
    let prints = !quiet && args.ack == AckName::Accepted;
    let (ended_in, ended) = tokio::sync::oneshot::channel();
    let from = buffer.accepted();
    let reading = {
        let (buffer, stopped) = (buffer.clone(), stopped.clone());
        std::thread::spawn(move || {
            // Nobody listens any more once the command has been interrupted.
            let _ = ended_in.send(read(&buffer, &stopped, prints));
        })
    };
    let printing = (!quiet && !prints).then(|| tokio::spawn(acknowledge(buffer.clone(), args.ack, from)));
    let mut interrupt = None;
    let read = tokio::select! {
        read = ended => read.unwrap_or_else(|_| Err(Error::bug("the reader ended unexpectedly"))),
        found = requested() => {
            stopped.store(true, Ordering::Relaxed);
            interrupt = Some(found);
            if !quiet {
                eprintln!("stopping: what was read is drained; interrupt again to leave at once");
            }
            Ok(())
        }
    };
    // It may wait for input that never comes.
    drop(reading);
    let watched = buffer.clone();
    let closed = tokio::select! {
        closed = buffer.close() => closed,
        found = requested() => {
            interrupt = Some(found);
            Err(Error::new(ErrorKind::Cancelled, "interrupted"))
        }
        // What is in a journal need not be waited for.
        () = tokio::time::sleep(INTERRUPTED_WAIT), if interrupt.is_some() && args.journal.is_some() => {
            Err(Error::new(ErrorKind::Cancelled, "interrupted"))
        }
    };
    if let Some(printing) = printing {
        if closed.is_err() {
            printing.abort();
        }
        if let Ok(Err(error)) = printing.await
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            return Err(no_output(&error));
        }
    }
    let (report, error) = match closed {
        Ok(report) => (report, read.err()),
        Err(error) => (watched.stop().await, Some(error)),
    };
    if let Some(path) = &args.report {
        write_report(path, &report)?;
    }
    if !quiet {
        eprint!("{}", summary(&report));
    }
    finish(args, &report, error, interrupt)
}

async fn open(args: &IngestArgs) -> Result<Buffer> {
    let password = args.connection.password(&args.target)?;
    let target = tonnage::targets::connect_with(&args.target, password).await?;
    let name: tonnage::table::TableName = args.table.parse()?;
    let database = Database::with_target(target, redact(&args.target));
    let mut options = database
        .buffer(name.name)
        .mode(
            match args.mode {
                ModeName::Insert => Mode::Insert,
                ModeName::Upsert => Mode::Upsert,
                ModeName::Ignore => Mode::Ignore,
                ModeName::Update => Mode::Update,
                ModeName::Delete => Mode::Delete,
            },
            args.key.clone(),
        )
        .memory(args.memory.unwrap_or(AREA_BYTES_MAX))
        .drain(args.drain_bytes, Duration::from_millis(args.drain_age))
        .rejects_max(args.max_rejects);
    if args.any_unique_key {
        options = options.any_unique_key();
    }
    if let Some(schema) = name.schema {
        options = options.schema(schema);
    }
    if let Some(path) = &args.rejects {
        options = options.rejects(path, args.max_rejects);
    }
    if let Some(durability) = args.durability {
        options = options.durability(match durability {
            DurabilityName::Relaxed => Durability::Relaxed,
            DurabilityName::Durable => Durability::Durable,
        });
    }
    if let Some(zone) = &args.timezone {
        options = options.timezone(zone);
    }
    match &args.journal {
        Some(directory) => {
            options = options.journal_options(JournalOptions {
                directory: directory.clone(),
                bytes_max: args.journal_bytes.map_or(JOURNAL_BYTES_MAX, |bytes| bytes as u64),
                accept_loss: args.accept_loss,
            });
        }
        None if args.ack == AckName::Journaled => {
            return Err(
                Error::config("--ack journaled needs a journal").hint("--journal DIR names its directory")
            );
        }
        None => {}
    }
    // Rows are put one after another without waiting; what is printed waits instead.
    options.ack(Ack::Accepted).open().await
}

/// Puts every line that is not blank, until the input ends or nobody wants more.
fn read(buffer: &Buffer, stopped: &AtomicBool, prints: bool) -> Result<()> {
    let mut output = prints.then(|| BufWriter::new(std::io::stdout()));
    let mut input = BufReader::with_capacity(64 << 10, std::io::stdin());
    let mut line = Vec::new();
    let mut number = 0_u64;
    while !stopped.load(Ordering::Relaxed) {
        line.clear();
        number += 1;
        if !read_line(&mut input, &mut line, number)? {
            return Ok(());
        }
        let text = line.trim_ascii();
        if text.is_empty() || stopped.load(Ordering::Relaxed) {
            continue;
        }
        match buffer.put_blocking(Row::json(text)) {
            Ok(sequence) => {
                // Gathered while there is more to read at once.
                let has_more = !input.buffer().is_empty();
                let print = |output: &mut BufWriter<_>| {
                    writeln!(output, "{sequence}")?;
                    if has_more { Ok(()) } else { output.flush() }
                };
                match output.as_mut().map(print) {
                    Some(Err(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => output = None,
                    Some(Err(error)) => return Err(no_output(&error)),
                    _ => {}
                }
            }
            Err(error) if error.kind() == ErrorKind::Cancelled => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The next line, of bounded length; false at the end.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, number: u64) -> Result<bool> {
    let mut bounded = std::io::Read::take(&mut *input, LINE_BYTES_MAX as u64 + 1);
    let read = bounded.read_until(b'\n', line);
    let read = read.map_err(|error| Error::input(format!("standard input: {error}")))?;
    if read > LINE_BYTES_MAX {
        return Err(Error::input(format!(
            "line {number} of standard input is longer than {LINE_BYTES_MAX} bytes"
        ))
        .hint("write one JSON object a line"));
    }
    Ok(read > 0)
}

/// Prints the numbers of rows after `from` as the mark reaches them, until the buffer has ended.
async fn acknowledge(buffer: Buffer, ack: AckName, from: u64) -> std::io::Result<()> {
    let mut printed = from;
    loop {
        let mark = match ack {
            AckName::Journaled => buffer.journaled_beyond(printed).await,
            AckName::Accepted | AckName::Committed => buffer.committed_beyond(printed).await,
        };
        let Some(mark) = mark else { return Ok(()) };
        let until = mark.min(printed + PRINTED_AT_ONCE);
        let mut lines = String::new();
        for sequence in printed + 1..=until {
            lines.push_str(&format!("{sequence}\n"));
        }
        let written = tokio::task::spawn_blocking(move || {
            let mut output = std::io::stdout().lock();
            output.write_all(lines.as_bytes()).and_then(|()| output.flush())
        });
        written.await.unwrap_or(Ok(()))?;
        printed = until;
    }
}

fn no_output(error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Refused, format!("standard output: {error}"))
}

fn write_report(path: &std::path::Path, report: &BufferReport) -> Result<()> {
    let mut json = serde_json::to_string_pretty(report)
        .map_err(|e| Error::bug(format!("the report cannot be written as JSON: {e}")))?;
    json.push('\n');
    std::fs::write(path, json)
        .map_err(|e| Error::new(ErrorKind::Refused, format!("report {}: {e}", path.display())))
}

fn finish(
    args: &IngestArgs,
    report: &BufferReport,
    error: Option<Error>,
    interrupt: Option<Interrupt>,
) -> Result<Ending> {
    let left = report.rows.unfinished;
    if let Some(interrupt) = interrupt {
        let message = match (left, &args.journal) {
            (0, _) => "stopped on request; every row that was read is accounted for".to_owned(),
            (left, Some(_)) => format!("stopped on request; {} rows are in the journal", Grouped(left)),
            (left, None) => format!(
                "stopped on request; {} rows that were read are lost",
                Grouped(left)
            ),
        };
        let error = Error::new(ErrorKind::Cancelled, message);
        let error = match (left, &args.journal) {
            (0, _) => error,
            (_, Some(journal)) => error.hint(format!(
                "the next ingest with --journal {} drains them",
                journal.display()
            )),
            (_, None) => error.hint("--journal DIR keeps them"),
        };
        return Ok(Ending::Interrupted(interrupt, error));
    }
    match error {
        Some(error) => Err(error),
        None if report.rows.rejected > 0 => Ok(Ending::Rejects),
        None => Ok(Ending::Done),
    }
}

/// The account in a few lines.
fn summary(report: &BufferReport) -> String {
    let rows = &report.rows;
    let mut text = format!(
        "{} into {} {}: {} written in {:.2} s, {} rows/s\n  {} by the buffer, {}, durability {}\n",
        report.operation,
        report.target,
        report.table,
        Counted(rows.written, "row"),
        report.seconds,
        Grouped(report.rows_per_second as u64),
        report.method,
        Counted(report.metrics.commits, "commit"),
        report.durability,
    );
    text.push_str(&format!("  {} put", Grouped(rows.put)));
    if rows.recovered > 0 {
        text.push_str(&format!(" + {} from the journal", Grouped(rows.recovered)));
    }
    text.push_str(&format!(" = {} written", Grouped(rows.written)));
    for (count, name) in [
        (rows.skipped.conflict, "skipped (key exists)"),
        (rows.skipped.unmatched, "skipped (no such key)"),
        (rows.skipped.superseded, "superseded"),
        (rows.rejected, "rejected"),
        (rows.unfinished, "unfinished"),
    ] {
        if count > 0 {
            text.push_str(&format!(" + {} {name}", Grouped(count)));
        }
    }
    text.push('\n');
    if let Some(rejects) = &report.rejects {
        text.push_str(&format!("  rejects in {rejects}\n"));
    }
    text
}
