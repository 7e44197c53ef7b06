//! `tonnage ingest`: JSON lines from standard input, a file or a URL through a buffer into a table.
//!
//! Three parts work side by side: a thread reads lines and puts them, a task prints the numbers of rows as the mark
//! reaches them (the reader does it by itself where being put is enough), and this one waits for the end of the input
//! or for a signal.

mod lines;

use std::{
    collections::HashSet,
    io::{BufWriter, IsTerminal, Write},
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use clap::{Args, ValueEnum};
use tokio::sync::mpsc;
use tonnage::{
    Buffer, Error, ErrorKind, Result,
    buffer::{AREA_BYTES_MAX, Ack, BufferOptions, BufferReport, JOURNAL_BYTES_MAX, JournalOptions},
    driver::Connector,
    load::Progress,
    operation::Durability,
    report::{Counted, Grouped},
    sources::Format,
    targets::connector,
};

use self::lines::{Inputs, Label, Numbering, Numbers, no_output, read};
use crate::{
    Ending,
    connection::ConnectionArgs,
    interrupt::{Interrupt, requested, unless_interrupted},
    options::{ModeName, age, count, size},
    paths::Paths,
    progress::{self, ProgressArgs, Style, Verbosity},
    report::{after_report, write_report},
};

/// How long an interrupted ingest with a journal waits for the database.
const INTERRUPTED_WAIT: Duration = Duration::from_secs(10);
/// Numbers are printed at most this many at a time.
const PRINTED_AT_ONCE: u64 = 4_096;
/// How often progress is brought up to date.
const FOLLOWED: Duration = Duration::from_millis(200);
/// Rows of which the own numbers wait to be printed, at most.
const LABELS_MAX: usize = 1 << 16;

/// Take JSON lines from standard input or files, one row each, and drain them into a table in the background
#[derive(Debug, Args)]
#[command(
    after_help = "Each row is acknowledged on standard output by its sequence number, in order, once it is as
safe as --ack asks for; at committed with what became of it: 17 written, 18 rejected, 16 known
of a row that was taken before. A key that a row does not name takes its column's default.

With --producer or --producer-field rows have numbers of their own: 1, 2, 3 and so on for each
producer. Rows that the journal has taken before are not taken again, so whoever got no answer
sends once more from the last number that was acknowledged. It is these numbers that are printed
then, with --producer-field followed by the producer.

A file is not remembered: read again, its rows are put again. With --journal and --producer its
lines are numbered, and those that the journal has taken are known.

Examples:
  mosquitto_sub -t readings | tonnage ingest house.db -t readings > /dev/null
  tail -F events.jsonl | tonnage ingest postgresql://app@db/shop -t events --journal journal --ack journaled
  tonnage ingest house.db -t readings --journal journal --producer may < may.jsonl
  tonnage ingest house.db -t readings --input 's3://lake/readings/*.jsonl.gz' --journal journal --producer lake
  mosquitto_sub -t readings | tonnage ingest house.db -t readings --journal journal \\
      --ack journaled --producer-field device --sequence-field n"
)]
pub struct IngestArgs {
    /// The database: a URL, a file, or @NAME of targets.toml
    #[arg(value_name = "TARGET")]
    target: String,

    /// The table: table, schema.table or "odd.name"
    #[arg(short, long, value_name = "TABLE")]
    table: String,

    /// A file, glob, directory or URL of JSON lines, taken one after another; - is standard input
    #[arg(long, value_name = "SOURCE", default_value = "-")]
    input: String,

    /// When a row is acknowledged
    #[arg(long, value_enum, default_value_t = AckName::Accepted)]
    ack: AckName,

    /// Keep rows in a journal in DIR until the database has them; the next ingest with it goes on with what is left
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,

    /// The most bytes of the journal; producers are held when they are reached [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "journal")]
    journal_bytes: Option<usize>,

    /// Go on without rows of the journal that are damaged or missing, and with an old copy of it
    #[arg(long, requires = "journal")]
    accept_loss: bool,

    /// Whose rows they are: of its numbers none is taken twice
    #[arg(
        long,
        value_name = "NAME",
        requires = "journal",
        conflicts_with = "producer_field"
    )]
    producer: Option<String>,

    /// The key under which a row names its producer; left out of the row unless the table has such a column
    #[arg(long, value_name = "KEY", requires = "journal", requires = "sequence_field")]
    producer_field: Option<String>,

    /// The key of a row's number; left out as well. Without it the lines of --producer are counted, from 1
    #[arg(long, value_name = "KEY", requires = "journal")]
    sequence_field: Option<String>,

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

    /// Drain when the oldest row is this old; at once where --ack committed waits for it
    #[arg(long, value_name = "TIME", value_parser = age, default_value = "1s")]
    drain_age: Duration,

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

    /// Print the account as one JSON object, in the place of acknowledgements
    #[arg(long, help_heading = "What to show")]
    json: bool,

    /// Write the account as one JSON object to PATH
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with = "json",
        help_heading = "What to show"
    )]
    report: Option<PathBuf>,

    #[command(flatten)]
    progress: ProgressArgs,
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
enum DurabilityName {
    /// The last commits may be lost if the machine fails
    Relaxed,
    /// Commits survive the loss of power
    Durable,
}

/// Ingests; acknowledgements go to standard output, the summary to standard error.
pub async fn run(args: &IngestArgs, verbosity: Verbosity) -> Result<Ending> {
    let mut paths = Paths::default();
    paths.sources(std::slice::from_ref(&args.input), Some(Format::Json));
    paths.databases(std::slice::from_ref(&args.target));
    paths.writes("--journal", args.journal.as_deref());
    paths.writes("--rejects", args.rejects.as_deref());
    paths.report(args.report.as_deref());
    paths.check()?;
    let inputs = Inputs::find(&args.input)?;
    let rejected = Rejected::default();
    let buffer = match unless_interrupted(open(args, &rejected)).await {
        Ok(buffer) => buffer,
        Err(interrupted) => return interrupted.ending(),
    };
    let recovery = buffer.recovery();
    if recovery.rows > 0 && verbosity == Verbosity::Normal {
        eprintln!("{} of the journal drained first", Counted(recovery.rows, "row"));
    }
    let stopped = Arc::new(AtomicBool::new(false));
    let numbering = Numbering::new(
        &buffer,
        args.producer.as_deref(),
        args.producer_field.as_deref(),
        args.sequence_field.as_deref(),
    );
    let numbered = match numbering {
        Some(_) => Numbered::ByProducers,
        None => Numbered::ByBuffer,
    };
    let (numbers, printing) = acknowledgements(args, &buffer, rejected, numbered);
    let (ended_in, ended) = tokio::sync::oneshot::channel();
    let reading = {
        let (buffer, stopped) = (buffer.clone(), stopped.clone());
        std::thread::spawn(move || {
            // Nobody listens any more once the command has been interrupted.
            let _ = ended_in.send(read(&buffer, &stopped, inputs, numbers, numbering));
        })
    };
    let mut interrupt = None;
    let mut shown = std::pin::pin!(show(args, verbosity, buffer.clone()));
    let read = tokio::select! {
        never = &mut shown => match never {},
        read = ended => read.unwrap_or_else(|_| Err(Error::bug("the reader ended unexpectedly"))),
        // A row with this number never comes: the buffer has failed, and the next line may never come either.
        _ = buffer.committed_beyond(u64::MAX - 1) => {
            stopped.store(true, Ordering::Relaxed);
            Ok(())
        }
        found = requested() => {
            stopped.store(true, Ordering::Relaxed);
            interrupt = Some(found);
            if verbosity == Verbosity::Normal {
                eprintln!("stopping: what was read is drained; interrupt again to leave at once");
            }
            Ok(())
        }
    };
    // It may wait for input that never comes.
    drop(reading);
    let watched = buffer.clone();
    let (closed, interrupt) = close(args, buffer, interrupt, shown).await;
    if let Some(printing) = printing {
        if closed.is_err() {
            printing.abort();
        }
        printed(printing.await)?;
    }
    let (report, error) = match closed {
        Ok(report) => (report, read.err()),
        Err(error) => (watched.stop().await, Some(error)),
    };
    let written = match (args.json, &args.report) {
        (true, _) => write_report(Path::new("-"), &report),
        (false, Some(path)) => write_report(path, &report),
        (false, None) => Ok(()),
    };
    if verbosity == Verbosity::Normal {
        eprint!("{}", summary(&report));
    }
    after_report(finish(args, &report, error, interrupt), written)
}

/// What prints acknowledgements beside the reader; none where the reader prints them, or nobody.
type Printing = Option<tokio::task::JoinHandle<std::io::Result<()>>>;

/// Starts what acknowledges rows: the numbers of the buffer, or those that producers gave where they are `numbered`.
fn acknowledgements(
    args: &IngestArgs,
    buffer: &Buffer,
    rejected: Rejected,
    numbered: Numbered,
) -> (Numbers, Printing) {
    if args.json {
        return (Numbers::Unwanted, None);
    }
    if args.ack == AckName::Accepted {
        return (Numbers::Printed(BufWriter::new(std::io::stdout())), None);
    }
    match numbered {
        Numbered::ByProducers => {
            let (labels_in, labels) = mpsc::channel(LABELS_MAX);
            let printing = tokio::spawn(print_labels(buffer.clone(), args.ack, labels, rejected));
            (Numbers::Passed(labels_in), Some(printing))
        }
        Numbered::ByBuffer => {
            let accepted = buffer.accepted();
            let printing = tokio::spawn(acknowledge(buffer.clone(), args.ack, accepted, rejected));
            (Numbers::Unwanted, Some(printing))
        }
    }
}

/// Whose numbers acknowledgements have.
enum Numbered {
    ByProducers,
    ByBuffer,
}

/// Drains the buffer and closes it; how it ended, and the interruption that came before it had. What is in a journal is not
/// waited for after an interruption.
async fn close(
    args: &IngestArgs,
    buffer: Buffer,
    mut interrupt: Option<Interrupt>,
    mut shown: Pin<&mut impl Future<Output = std::convert::Infallible>>,
) -> (Result<BufferReport>, Option<Interrupt>) {
    let interrupted = || Err(Error::new(ErrorKind::Cancelled, "interrupted"));
    let closed = tokio::select! {
        never = &mut shown => match never {},
        closed = buffer.close() => closed,
        found = requested() => {
            interrupt = Some(found);
            interrupted()
        }
        () = tokio::time::sleep(INTERRUPTED_WAIT), if interrupt.is_some() && args.journal.is_some() => interrupted(),
    };
    (closed, interrupt)
}

/// Shows how far the buffer has come, until it is dropped. A terminal that has the acknowledgements has no bar.
async fn show(args: &IngestArgs, verbosity: Verbosity, buffer: Buffer) -> std::convert::Infallible {
    let style = match verbosity.progress(args.progress) {
        Style::Auto if !args.json && std::io::stdout().is_terminal() => Style::None,
        style => style,
    };
    let progress: Arc<Progress> = Arc::default();
    let follow = async {
        loop {
            let metrics = buffer.metrics();
            let set = |count: &AtomicU64, value| count.store(value, Ordering::Relaxed);
            set(&progress.read, metrics.rows_in);
            set(&progress.bytes_read, metrics.bytes_in);
            set(&progress.rejected, metrics.rejected.min(metrics.rows_out));
            set(
                &progress.written,
                metrics.rows_out.saturating_sub(metrics.rejected),
            );
            tokio::time::sleep(FOLLOWED).await;
        }
    };
    tokio::select! {
        never = follow => never,
        never = progress::show(style, progress.clone(), None) => never,
    }
}

/// Whether all acknowledgements were printed; a reader that leaves early wanted no more of them.
fn printed(ended: std::result::Result<std::io::Result<()>, tokio::task::JoinError>) -> Result<()> {
    match ended {
        Ok(Err(error)) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(no_output(&error)),
        _ => Ok(()),
    }
}

/// The sequence numbers of rows that were put aside and are not acknowledged yet. At most as many as the buffer holds rows.
#[derive(Debug, Clone, Default)]
struct Rejected(Arc<Mutex<HashSet<u64>>>);

impl Rejected {
    fn set(&self) -> MutexGuard<'_, HashSet<u64>> {
        // A set is whole whatever its holder did.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What became of a row, behind its number, once that is known.
    fn outcome(&self, ack: AckName, sequence: u64) -> &'static str {
        match (ack, self.set().remove(&sequence)) {
            (AckName::Committed, true) => " rejected",
            (AckName::Committed, false) => " written",
            (AckName::Accepted | AckName::Journaled, _) => "",
        }
    }
}

async fn open(args: &IngestArgs, rejected: &Rejected) -> Result<Buffer> {
    if args.sequence_field.is_some() && args.producer.is_none() && args.producer_field.is_none() {
        return Err(
            Error::config("--sequence-field needs to know whose numbers they are")
                .hint("--producer NAME for all rows, or --producer-field KEY"),
        );
    }
    let password = args.connection.password(&args.target)?;
    let mut options = options(args, connector(&args.target, password))?;
    if args.ack == AckName::Committed {
        let rejected = rejected.clone();
        options = options.on_reject(move |reject| {
            rejected.set().insert(reject.row);
        });
    }
    // Rows are put one after another without waiting; what is printed waits instead.
    options.ack(Ack::Accepted).open().await
}

/// A buffer as the arguments describe it, of a database that is connected to when it is opened.
pub fn options(args: &IngestArgs, connector: Connector) -> Result<BufferOptions> {
    let mut options = BufferOptions::connecting(connector, args.table.parse()?)
        .mode(args.mode.mode(), args.key.clone())
        .memory(args.memory.unwrap_or(AREA_BYTES_MAX))
        .drain(args.drain_bytes, args.drain_age)
        .rejects_max(args.max_rejects);
    if args.any_unique_key {
        options = options.any_unique_key();
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
    Ok(options.ack(match args.ack {
        AckName::Accepted => Ack::Accepted,
        AckName::Journaled => Ack::Journaled,
        AckName::Committed => Ack::Committed,
    }))
}

/// Prints the numbers of rows after `from` as the mark reaches them, until the buffer has ended.
async fn acknowledge(buffer: Buffer, ack: AckName, from: u64, rejected: Rejected) -> std::io::Result<()> {
    let mut printed = from;
    while let Some(mark) = beyond(&buffer, ack, printed).await {
        let until = mark.min(printed + PRINTED_AT_ONCE);
        let lines =
            (printed + 1..=until).map(|sequence| format!("{sequence}{}\n", rejected.outcome(ack, sequence)));
        print(lines.collect()).await?;
        printed = until;
    }
    Ok(())
}

/// The same for rows that have numbers of their own: in the order in which they were put.
async fn print_labels(
    buffer: Buffer,
    ack: AckName,
    mut labels: mpsc::Receiver<Label>,
    rejected: Rejected,
) -> std::io::Result<()> {
    let mut mark = 0;
    let mut waiting = Vec::new();
    loop {
        // The one who puts rows may wait for input that never comes, so the end of the buffer is an end too.
        let count = tokio::select! {
            biased;
            count = labels.recv_many(&mut waiting, PRINTED_AT_ONCE as usize) => count,
            _ = beyond(&buffer, ack, u64::MAX - 1) => 0,
        };
        if count == 0 {
            return Ok(());
        }
        let mut lines = String::new();
        for Label {
            sequence,
            text,
            is_known,
        } in waiting.drain(..)
        {
            if sequence > mark {
                print(std::mem::take(&mut lines)).await?;
                while mark < sequence {
                    let Some(moved) = beyond(&buffer, ack, mark).await else {
                        return Ok(());
                    };
                    mark = moved;
                }
            }
            lines.push_str(&text);
            lines.push_str(match (ack, is_known) {
                (AckName::Committed, true) => " known",
                _ => rejected.outcome(ack, sequence),
            });
            lines.push('\n');
        }
        print(lines).await?;
    }
}

/// The mark that `ack` asks for, once it is beyond `after`; none once the buffer has ended.
async fn beyond(buffer: &Buffer, ack: AckName, after: u64) -> Option<u64> {
    match ack {
        AckName::Journaled => buffer.journaled_beyond(after).await,
        AckName::Accepted | AckName::Committed => buffer.committed_beyond(after).await,
    }
}

async fn print(lines: String) -> std::io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let written = tokio::task::spawn_blocking(move || {
        let mut output = std::io::stdout().lock();
        output.write_all(lines.as_bytes()).and_then(|()| output.flush())
    });
    written.await.unwrap_or(Ok(()))
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
        None if report.recovery.uncertain.is_some() || !report.recovery.lost.is_empty() => {
            Ok(Ending::Uncertain)
        }
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
        report.method.as_deref().unwrap_or("not yet known"),
        Counted(report.metrics.commits, "commit"),
        report.durability.as_deref().unwrap_or("not yet known"),
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
    for lost in &report.recovery.lost {
        text.push_str(&format!(
            "  rows {} to {} of the journal are lost\n",
            lost.first, lost.last
        ));
    }
    if let Some(uncertain) = &report.recovery.uncertain {
        text.push_str(&format!("  {uncertain}\n"));
    }
    if let Some(rejects) = &report.rejects {
        text.push_str(&format!("  rejects in {rejects}\n"));
    }
    text
}
