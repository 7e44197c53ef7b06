//! `tonnage bench`: which way of writing a database takes best.

mod files;
mod html;
mod overlay;
mod svg;
pub(super) mod text;

use std::{
    cell::OnceCell,
    fmt::{self, Display},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use tonnage::{
    Error, ErrorKind, Result,
    buffer::Ack,
    generate::Workload,
    instruments::{Keys, Storage},
    measure::{
        Answer, Bench, BenchMethod, BenchOptions, BenchReport, Budget, Event, Matrix, OwnRows, RowKind,
        answer::{Short, Time},
        compare::{Comparison, compare},
        figures::REPORT_VERSION,
        left::{left, remove_left},
        touch::Touch,
    },
    operation::{Durability, Method, Mode},
    stop::Stop,
    target::Target,
    targets::{DRIVERS, redact},
};

use crate::{
    Ending,
    confirm::{self, Consent},
    connection::ConnectionArgs,
    interrupt::{Interrupt, Interrupted, requested, unless_interrupted},
    options::{bandwidth, count, percent, round_trip, rows_rate, seconds, size},
    output::{out, outln},
    paths::Paths,
    progress::{ProgressArgs, Steps, Style, Verbosity},
    report::{ReportArgs, write_report},
};

/// Measure which method, batch size, number of jobs and durability a database takes rows best with
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tonnage bench sqlite:shop.db
  tonnage bench postgresql://app@db/shop --workload journal --method array,native --batch-rows 100,1k,10k -j 1,2,4
  tonnage bench mariadb://app@db/shop --mode insert,update,delete --repeat 5 -o before --yes
  tonnage bench postgresql://app@db/shop --rtt 0,1ms,70ms --method single,native
  tonnage bench postgresql://app@db/shop --table orders --mode insert,upsert
  tonnage bench mariadb://app@db/shop --rows-from 'orders/*.csv' --key id --indexes 0,1,3
  tonnage bench shop.db --workload readings --columns 5,50,500 --page-size 4k,16k
  tonnage bench mariadb://app@db/shop --workload ycsb --mode update --touch zipfian --reads 50,95
  tonnage bench postgresql://app@db/shop --rate 5k --method single,array --batch-rows 10,100 --duration 10s
  tonnage bench --compare before after

Rows are made up, or your own, and go into tables of its own, which are removed; yours are at most read. Each run is a load
like any other. The forms of tables (indexes, columns, keys, storage, page size, partitions, how many) are no choice of a
load: each has an answer of its own, and they are set beside each other; so has each mix with reads. The order of the runs is random, and one cell is run again and again to show noise and drift.")]
pub struct BenchArgs {
    /// The database: a URL, a file, or @NAME of targets.toml
    #[arg(value_name = "TARGET", required_unless_present = "compare")]
    target: Option<String>,

    /// The kinds of rows: see tonnage generate --help [default: sbtest]
    #[arg(long, value_name = "W,..", value_delimiter = ',', value_parser = workload, conflicts_with_all = ["table", "rows_from"], help_heading = "What to measure")]
    workload: Vec<Workload>,

    /// Measure with empty copies of this table of yours, and with its rows unless --rows-from names others. The table
    /// itself is only read: table, schema.table or "odd.name"
    #[arg(short, long, value_name = "TABLE", help_heading = "What to measure")]
    table: Option<String>,

    /// Measure with the rows of this file, of any format that a load reads, as many as --rows takes and memory holds
    /// (96 MiB); may be given again, and be a directory or a pattern
    #[arg(long, value_name = "FILE", help_heading = "What to measure")]
    rows_from: Vec<String>,

    /// The columns of --rows-from that no two rows share, for a primary key; a copy of a table has its own
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        requires = "rows_from",
        conflicts_with = "table",
        help_heading = "What to measure"
    )]
    key: Vec<String>,

    /// insert, upsert (every second row is there), update, delete (every row is there)
    #[arg(long = "mode", alias = "operation", value_name = "O,..", value_delimiter = ',', value_parser = operation, default_value = "insert", help_heading = "What to measure")]
    operation: Vec<Mode>,

    /// Which of the rows that are there an update, an upsert or a read meets: each once, uniform (any, some again), zipfian
    /// (some few very often), latest (those most often that were added last) [default: each]
    #[arg(long, value_name = "T,..", value_delimiter = ',', value_parser = touch, help_heading = "What to measure")]
    touch: Vec<Touch>,

    /// Of a hundred operations so many are reads by key: 50, 95, up to 99. After each write a job looks up as many keys as
    /// that makes, at most as many at once as a write has rows, or 4,096; of the method single one by one [default: 0]
    #[arg(long, value_name = "PERCENT,..", value_delimiter = ',', value_parser = percent, help_heading = "What to measure")]
    reads: Vec<u8>,

    /// single, batch, array, native [default: all that the database has]; buffer: single rows put into a buffer, whose drain
    /// writes them in the background
    #[arg(long, value_name = "M,..", value_delimiter = ',', value_parser = asked_method, help_heading = "What to measure")]
    method: Vec<AskedMethod>,

    /// When a put into a buffer is answered: accepted (in memory), journaled (fsynced here), committed [default: all of
    /// them]
    #[arg(long, value_name = "A,..", value_delimiter = ',', value_parser = ack, help_heading = "What to measure")]
    ack: Vec<Ack>,

    /// Rows of a write at most [default: 100,1000,10000]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = count, help_heading = "What to measure")]
    batch_rows: Vec<u64>,

    /// Connections that write at once, to all tables together; of a buffer the producers that put at once [default: 1,2,4, of these what can be dealt over --tables, or
    /// one a table; 1 where the database has one writer]
    #[arg(short, long, value_name = "N,..", value_delimiter = ',', value_parser = count, help_heading = "What to measure")]
    jobs: Vec<u64>,

    /// What a commit promises [default: the strongest that the database keeps]
    #[arg(long, value_name = "D,..", value_delimiter = ',', value_parser = durability, help_heading = "What to measure")]
    durability: Vec<Durability>,

    /// What a round trip to the database takes longer than it does: 0, 500us, 70ms. By a proxy within this process, so
    /// only for a server that is reached by TCP
    #[arg(long, value_name = "TIME,..", value_delimiter = ',', value_parser = round_trip, help_heading = "What to measure")]
    rtt: Vec<Duration>,

    /// Limit the way to the database to so much a second each way, all connections together: 10MB/s
    #[arg(long, value_name = "BYTES/s", value_parser = bandwidth, help_heading = "What to measure")]
    bandwidth: Option<u64>,

    /// Offer so many rows a second, whether or not the database keeps up (an open loop), and measure how long writes take
    /// from when they are due: 5k. The answer is then about that time, not about the best rate
    #[arg(long, value_name = "ROWS/s", value_parser = rows_rate, help_heading = "What to measure")]
    rate: Option<u64>,

    /// Make one transaction of each run, which then goes to the end of its rows
    #[arg(short = '1', long, help_heading = "What to measure")]
    single_transaction: bool,

    /// Indexes beside the primary key, of a column each, numbers and times first; a copy of a table has its own [default:
    /// 0]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = count, help_heading = "What the tables are like")]
    indexes: Vec<u64>,

    /// Columns of a row, of the workloads readings (further ones are numbers) and ycsb (further ones are texts of 100
    /// characters) [default: 10, and 11]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = count, help_heading = "What the tables are like")]
    columns: Vec<u64>,

    /// Where keys come from: given by the rows, generated (rows come without, and an identity column, AUTO_INCREMENT or
    /// the rowid numbers them), none [default: given]
    #[arg(long, value_name = "K,..", value_delimiter = ',', value_parser = keys, help_heading = "What the tables are like")]
    keys: Vec<Keys>,

    /// Leave the primary key out of the tables: --keys none
    #[arg(long, conflicts_with = "keys", help_heading = "What the tables are like")]
    no_key: bool,

    /// How tables are kept: plain, unlogged (PostgreSQL), compressed (MariaDB: ROW_FORMAT=COMPRESSED;
    /// PostgreSQL: texts of rows above 2 kB, with lz4) [default: plain]
    #[arg(long, value_name = "S,..", value_delimiter = ',', value_parser = storage, help_heading = "What the tables are like")]
    storage: Vec<Storage>,

    /// Bytes of a page, of SQLite files that are made to measure with: 4k, 16k [default: those of the database]
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',', value_parser = page_size, help_heading = "What the tables are like")]
    page_size: Vec<u32>,

    /// Partitions by the time of the rows (journal with --keys none, readings), each of a part of the time that a run's
    /// rows take (PostgreSQL, MariaDB); 0 is a table without [default: 0]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = count, help_heading = "What the tables are like")]
    partitions: Vec<u64>,

    /// Deal rows over so many tables, each of which is written by as many of the jobs [default: 1]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = count, help_heading = "What the tables are like")]
    tables: Vec<u64>,

    /// Keep positions in the ledger, as a load does unless told otherwise; its tables stay where they are made
    #[arg(long, help_heading = "What to measure")]
    with_ledger: bool,

    /// Rows of a run at most
    #[arg(long, alias = "limit", value_name = "N", value_parser = count, default_value = "200k", help_heading = "How long")]
    rows: u64,

    /// Time of a run at most, but for one commit: 500ms, 2s
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "1s", help_heading = "How long")]
    duration: Duration,

    /// Runs of each cell
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "How long")]
    repeat: usize,

    /// Runs of each cell before these, which do not count
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "How long")]
    warm_up: usize,

    /// Another seed gives other rows and another order
    #[arg(long, value_name = "S", default_value_t = 1, help_heading = "How long")]
    seed: u64,

    /// Write report.html, cells.csv and report.json into this directory
    #[arg(short, long, value_name = "DIR", help_heading = "What comes out")]
    output: Option<PathBuf>,

    #[command(flatten)]
    account: ReportArgs,

    #[command(flatten)]
    progress: ProgressArgs,

    /// Compare two reports instead: directories that -o wrote, or their report.json
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2, conflicts_with = "target", help_heading = "What comes out")]
    compare: Option<Vec<PathBuf>>,

    /// Measure nothing: remove what runs of bench and explain have left that were killed. Not while another one runs
    #[arg(long)]
    remove_left: bool,

    /// Do not ask before tables are made
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Measures, or compares. The answer goes to standard output, all else to standard error.
pub async fn run(args: &BenchArgs, verbosity: Verbosity) -> Result<Ending> {
    if let Some([before, after]) = args.compare.as_deref() {
        out!("{}", text::comparison(&compared(before, after)?))?;
        return Ok(Ending::Done);
    }
    let Some(place) = args.target.as_deref() else {
        return Err(Error::config("no database to measure").hint("tonnage bench sqlite:shop.db"));
    };
    let mut paths = Paths::default();
    paths.sources(&args.rows_from, None);
    paths.databases(&[place.to_owned()]);
    if let Some(directory) = &args.output {
        files::check(directory)?;
        for name in files::NAMES {
            paths.writes("-o", Some(&directory.join(name)));
        }
    }
    paths.report(args.account.path());
    paths.check()?;
    let target = match unless_interrupted(args.connection.connect(place)).await {
        Ok(target) => target,
        Err(interrupted) => return interrupted.ending(),
    };
    let consent = match args.yes {
        true => Consent::Given,
        false => Consent::Asked,
    };
    if args.remove_left {
        return match remove(&*target, consent).await {
            Ok(()) => Ok(Ending::Done),
            Err(interrupted) => interrupted.ending(),
        };
    }
    let prepared = unless_interrupted(Bench::prepare(target, redact(place), options(args)?)).await;
    let bench = match prepared {
        Ok(bench) => bench,
        Err(interrupted) => return interrupted.ending(),
    };
    // What it costs is known before anybody is asked.
    if verbosity == Verbosity::Normal {
        let cells = bench.cells().run.len();
        eprintln!(
            "{cells} cells, {} runs of at most {}: some {}; then {} looks at how rows are taken",
            bench.runs(),
            Time(args.duration.as_secs_f64()),
            Time(bench.duration().as_secs_f64()),
            bench.looks()
        );
    }
    let report = match measured(bench, "tonnage bench", consent, verbosity.progress(args.progress)).await? {
        Ok(report) => report,
        Err(ending) => return Ok(ending),
    };
    if let Some(directory) = &args.output {
        files::write(directory, &report)?;
    }
    match args.account.path() {
        Some(path) if path == Path::new("-") => write_report(path, &report)?,
        path => {
            if let Some(path) = path {
                write_report(path, &report)?;
            }
            out!("{}", text::answer(&report, place, "TABLE"))?;
        }
    }
    if let Some(directory) = args.output.as_deref().filter(|_| verbosity == Verbosity::Normal) {
        eprintln!(
            "{} has report.html, cells.csv and report.json",
            directory.display()
        );
    }
    Ok(Ending::Done)
}

/// Asks whether tables may be made, and measures; how it ended where it was interrupted. `command` is asked for.
pub(super) async fn measured(
    bench: Bench,
    command: &str,
    consent: Consent,
    style: Style,
) -> Result<std::result::Result<BenchReport, Ending>> {
    if bench.buffers() {
        eprintln!(
            "a buffer keeps its position in the ledger: its tables are made where they are missing, and stay"
        );
    }
    if let Err(interrupted) = confirm::allowed(command, &bench.place()?, consent).await {
        return interrupted.ending().map(Err);
    }
    let stop = Stop::default();
    let first = OnceCell::new();
    let steps = Steps::new(style);
    let watch = |event: Event| steps.show(&Shown(event));
    let ran = tokio::select! {
        ran = bench.run(stop.clone(), &watch) => ran,
        interrupt = interrupted(stop, &first) => {
            let error = Error::new(ErrorKind::Cancelled, "interrupted; tables tonnage_bench_* may be left");
            return Ok(Err(Ending::Interrupted(interrupt, error)));
        }
    };
    drop(steps);
    match (ran, first.get()) {
        (Err(error), Some(interrupt)) if error.kind() == ErrorKind::Cancelled => {
            Ok(Err(Ending::Interrupted(*interrupt, error)))
        }
        (ran, _) => ran.map(Ok),
    }
}

/// What was written, and into which tables.
fn measured_rows(report: &BenchReport) -> String {
    match &report.own_rows {
        Some(own) => own.clone(),
        None => {
            let mut workloads: Vec<String> = Vec::new();
            for ceiling in &report.generator {
                let name = ceiling.workload.to_string();
                if !workloads.contains(&name) {
                    workloads.push(name);
                }
            }
            format!(
                "made-up rows of {} into tables tonnage_bench_*, made for them",
                workloads.join(", ")
            )
        }
    }
}

/// Removes what killed runs have left.
async fn remove(target: &dyn Target, consent: Consent) -> Result<(), Interrupted> {
    let names = unless_interrupted(left(target)).await?;
    if names.is_empty() {
        outln!("nothing is left")?;
        return Ok(());
    }
    confirm::removal(&names, consent).await?;
    unless_interrupted(remove_left(target, &names)).await?;
    outln!("removed {}", names.join(", "))?;
    Ok(())
}

/// Methods, and a buffer for each of the acknowledgements.
fn ways(methods: &[AskedMethod], acks: &[Ack]) -> Vec<BenchMethod> {
    let acks = match acks {
        [] => &ACKS[..],
        asked => asked,
    };
    let of = |method: &AskedMethod| match method {
        AskedMethod::Load(method) => vec![BenchMethod::from(*method)],
        AskedMethod::Buffer => acks.iter().copied().map(BenchMethod::Buffer).collect(),
    };
    methods.iter().flat_map(of).collect()
}

fn options(args: &BenchArgs) -> Result<BenchOptions> {
    let sizes = |numbers: &[u64]| -> Result<Option<Vec<usize>>> {
        let sizes = numbers.iter().map(|n| {
            usize::try_from(*n).map_err(|_| Error::config(format!("{n} is more than this machine can count")))
        });
        let sizes: Vec<usize> = sizes.collect::<Result<_>>()?;
        Ok((!sizes.is_empty()).then_some(sizes))
    };
    if !args.ack.is_empty() && !args.method.contains(&AskedMethod::Buffer) {
        return Err(
            Error::config("--ack says when puts into a buffer are answered, and none is measured")
                .hint("--method buffer measures one"),
        );
    }
    let some = |empty: bool| !empty;
    let own = match (&args.table, args.rows_from.is_empty()) {
        (None, true) => None,
        (table, _) => Some(OwnRows {
            table: table.as_deref().map(str::parse).transpose()?,
            files: args.rows_from.clone(),
            key: args.key.clone(),
        }),
    };
    let workloads = match (&own, args.workload.is_empty()) {
        (Some(_), _) => vec![RowKind::Own],
        (None, true) => vec![Workload::Sbtest.into()],
        (None, false) => args.workload.iter().map(|workload| (*workload).into()).collect(),
    };
    Ok(BenchOptions {
        matrix: Matrix {
            workloads,
            touches: args.touch.clone(),
            reads: args.reads.clone(),
            indexes: sizes(&args.indexes)?.unwrap_or_default(),
            columns: sizes(&args.columns)?.unwrap_or_default(),
            keys: match args.no_key {
                true => vec![Keys::None],
                false => args.keys.clone(),
            },
            storage: args.storage.clone(),
            page_bytes: args.page_size.clone(),
            partitions: sizes(&args.partitions)?.unwrap_or_default(),
            several: sizes(&args.tables)?.unwrap_or_default(),
            operations: args.operation.clone(),
            methods: some(args.method.is_empty()).then(|| ways(&args.method, &args.ack)),
            batch_rows: sizes(&args.batch_rows)?,
            jobs: sizes(&args.jobs)?,
            durability: some(args.durability.is_empty()).then(|| args.durability.clone()),
            round_trips: args.rtt.clone(),
        },
        budget: Budget {
            rows: args.rows,
            duration: args.duration,
            repeats: args.repeat,
            warm_up: args.warm_up,
        },
        seed: args.seed,
        ledger: args.with_ledger,
        own,
        single_transaction: args.single_transaction,
        bandwidth: args.bandwidth,
        rate: args.rate,
        until: None,
    })
}

/// The first interrupt ends the run at hand and removes its table; the second leaves at once.
async fn interrupted(stop: Stop, first: &OnceCell<Interrupt>) -> Interrupt {
    let interrupt = requested().await;
    let _ = first.set(interrupt);
    eprintln!("stopping: what was made is removed; interrupt again to leave at once");
    stop.request();
    requested().await
}

/// How far it is, in words.
struct Shown(Event);

impl Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event::Ran {
            done,
            total,
            setting,
            rows_per_second,
        } = &self.0;
        write!(f, "{done} of {total}: {}: {setting}: ", setting.kind())?;
        match rows_per_second {
            Some(rate) => write!(f, "{} rows/s", Short(*rate)),
            None => f.write_str("ruled out"),
        }
    }
}

fn compared(before: &Path, after: &Path) -> Result<Comparison> {
    Ok(compare(&read(before)?, &read(after)?))
}

fn read(path: &Path) -> Result<BenchReport> {
    let file = match path.is_dir() {
        true => path.join("report.json"),
        false => path.to_owned(),
    };
    let text = fs::read_to_string(&file)
        .map_err(|e| Error::input(format!("{}: {e}", file.display())).hint("bench -o DIR writes one"))?;
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|e| Error::input(format!("{} is not JSON: {e}", file.display())))?;
    match value["version"].as_u64() {
        Some(version) if version == u64::from(REPORT_VERSION) => {}
        _ => {
            return Err(Error::input(format!(
                "{} is no report of a bench of this release",
                file.display()
            ))
            .hint("measure again, with bench -o DIR"));
        }
    }
    serde_json::from_value(value)
        .map_err(|e| Error::input(format!("{} is no report of a bench: {e}", file.display())))
}

fn named<T: Display + Copy>(what: &str, all: &[T], text: &str) -> Result<T, String> {
    let wanted = text.trim().to_ascii_lowercase();
    all.iter()
        .copied()
        .find(|one| one.to_string() == wanted)
        .ok_or_else(|| {
            let names: Vec<_> = all.iter().map(T::to_string).collect();
            format!("{what} are {}", names.join(", "))
        })
}

fn workload(text: &str) -> Result<Workload, String> {
    let all: Vec<Workload> = Workload::all().collect();
    named("workloads", &all, text)
}

fn touch(text: &str) -> Result<Touch, String> {
    named("ways to meet rows", &Touch::ALL, text)
}

fn keys(text: &str) -> Result<Keys, String> {
    named("keys", &Keys::ALL, text)
}

fn storage(text: &str) -> Result<Storage, String> {
    named("kinds of storage", &Storage::ALL, text)
}

fn page_size(text: &str) -> Result<u32, String> {
    let bytes = size(text).ok().and_then(|bytes| u32::try_from(bytes).ok());
    bytes.ok_or_else(|| "write a size such as 4k, 8192 or 16KiB".to_owned())
}

/// An operation that can be measured, by its name.
pub fn operation(text: &str) -> Result<Mode, String> {
    let measured = [Mode::Insert, Mode::Upsert, Mode::Update, Mode::Delete];
    mode(
        "operations that can be measured are insert, upsert, update and delete",
        &measured,
        text,
    )
}

/// One of `modes` by its name, or what they are.
pub fn mode(they_are: &str, modes: &[Mode], text: &str) -> Result<Mode, String> {
    let wanted = text.trim().to_ascii_lowercase();
    let found = modes.iter().find(|mode| mode.name() == wanted);
    found.copied().ok_or_else(|| they_are.to_owned())
}

const ACKS: [Ack; 3] = [Ack::Accepted, Ack::Journaled, Ack::Committed];

fn ack(text: &str) -> Result<Ack, String> {
    named("acknowledgements", &ACKS, text)
}

/// What `--method` may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AskedMethod {
    /// Of a load.
    Load(Method),
    /// The buffer.
    Buffer,
}

fn asked_method(text: &str) -> Result<AskedMethod, String> {
    match text.trim().eq_ignore_ascii_case("buffer") {
        true => Ok(AskedMethod::Buffer),
        false => method(text)
            .map(AskedMethod::Load)
            .map_err(|they_are| format!("{they_are}, buffer")),
    }
}

/// The command that an answer's options are of.
fn command(answer: &Answer, (place, table): (&str, &str), flags: &str) -> String {
    match answer
        .recommended
        .is_some_and(|setting| setting.method.is_buffer())
    {
        true => format!("tonnage ingest {place} -t {table} {flags}"),
        false => format!("tonnage load SOURCE {place} -t {table} {flags}"),
    }
}

/// A method by its name.
pub fn method(text: &str) -> Result<Method, String> {
    named("methods", &Method::ALL, text)
}

/// A level of durability that any database has, by its name.
pub fn durability(text: &str) -> Result<Durability, String> {
    let mut all: Vec<Durability> = Vec::new();
    for level in DRIVERS.iter().flat_map(|driver| driver.durability) {
        if !all.contains(level) {
            all.push(*level);
        }
    }
    named("levels", &all, text)
}
