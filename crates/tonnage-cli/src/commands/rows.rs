//! What the commands share that take rows from files to a database: how rows are read, how they travel, what becomes
//! of bad ones, and the run from its plan to its account.

use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{Args, ValueEnum};
use tokio::task::JoinHandle;
use tonnage::{
    ColumnType, Error, ErrorKind, Result,
    load::{Ended, Prepared, Progress, prepare, prepare_files},
    operation::{Durability, Method, Split},
    parse::EpochUnit,
    plan::{Attempt, LedgerPlace, LoadOptions, OnError, Rate, RejectsMax, Tune},
    reader::Relation,
    report::{Counted, Grouped, Report},
    sinks::Output,
    source::Source,
    sources::{self, Format, TextOptions},
    stop::Stop,
    table::TableName,
    target::Target,
    targets::{self, Password},
    unload::{UnloadOptions, source::DatabaseSource},
    verify::AfterLoad,
};
use tonnage_places::url_of;

use super::{
    kept,
    read::{ColumnArgs, ReadArgs},
    verify::{LoadReport, compare, is_finished, verified_ending},
};
use crate::{
    Ending,
    connection::{ConnectionArgs, ShardArgs, TargetArgs},
    interrupt::{Interrupt, requested, unless_interrupted},
    options::{count, rate, size},
    output::out,
    paths::Paths,
    progress::{self, ProgressArgs, Verbosity},
    report::{ReportArgs, after_report, write_report},
};

/// Rows that a dry run shows.
const PREVIEW_ROWS: usize = 3;

/// How a command is called, for messages.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Its name.
    pub command: &'static str,
    /// What it cannot do without, behind the database.
    pub options: &'static str,
}

/// Whether rows are looked for in the table once all are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verifying {
    Yes,
    No,
}

/// What is to be done with rows.
#[derive(Debug)]
pub struct Task {
    pub options: LoadOptions,
    /// Columns whose instants are numbers.
    pub epochs: Vec<(String, EpochUnit)>,
    pub verifying: Verifying,
}

/// See the module.
#[derive(Debug, Args)]
pub struct RowsArgs {
    /// All rows or none: one job writes them in one transaction
    #[arg(short = '1', long, help_heading = "What to do")]
    single_transaction: bool,

    #[command(flatten)]
    columns: ColumnArgs,

    /// Read at most N rows
    #[arg(long, alias = "rows", value_name = "N", value_parser = count, help_heading = "What to do")]
    limit: Option<u64>,

    /// How rows travel
    #[arg(long, value_enum, default_value_t = MethodName::Auto, help_heading = "How to do it")]
    method: MethodName,

    /// Connections that write at once [default: one a processor, at most 4; 1 where the database has one writer]
    #[arg(short, long, value_name = "N", help_heading = "How to do it")]
    jobs: Option<usize>,

    /// Connections that write to one database, or one partition, at once [default: as many as --jobs come to]
    #[arg(long, value_name = "N", help_heading = "How to do it")]
    jobs_per_shard: Option<usize>,

    /// Whether sizes of writes and the number of jobs that are not named are found: auto takes what `tonnage tune --save` has
    /// kept for the table of an @NAME, and else changes them while rows go in, up to the most that the plan says; off leaves
    /// them as the plan says
    #[arg(long, value_enum, default_value_t = TuneName::Auto, help_heading = "How to do it")]
    tune: TuneName,

    /// Rows of a write at most; a write is a commit
    #[arg(long, value_name = "N", value_parser = count, help_heading = "How to do it")]
    batch_rows: Option<u64>,

    /// Bytes of a write at most [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "How to do it")]
    batch_bytes: Option<usize>,

    /// Statements that the database would split (PolarDB-X): keep below its limits, or tell it not to
    #[arg(long, value_enum, default_value_t = SplitName::Auto, help_heading = "How to do it")]
    split: SplitName,

    /// Rows or bytes a second at most: 50k/s, 20MB/s
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "How to do it")]
    rate: Option<Rate>,

    /// What a commit promises [default: durable; majority where replicas acknowledge]
    #[arg(long, value_enum, help_heading = "How to do it")]
    durability: Option<DurabilityName>,

    /// What a bad row does: stop the run, or go to the rejects file [default: stop; reject with --rejects]
    #[arg(long, value_enum, help_heading = "Bad rows and resuming")]
    on_error: Option<OnErrorName>,

    /// Where bad rows go, as JSON lines [default: ./TABLE-RUN.rejects.jsonl]
    #[arg(long, value_name = "PATH", help_heading = "Bad rows and resuming")]
    rejects: Option<PathBuf>,

    /// Stop after more rejects than this, a number or a share such as 5%
    #[arg(long, value_name = "N|N%", value_parser = rejects_max, default_value = "1000", help_heading = "Bad rows and resuming")]
    max_rejects: RejectsMax,

    /// Go on with an unfinished run of the same input; a new run where there is none
    #[arg(long, conflicts_with = "restart", help_heading = "Bad rows and resuming")]
    resume: bool,

    /// Forget an unfinished run of the same input and load from the beginning
    #[arg(long, help_heading = "Bad rows and resuming")]
    restart: bool,

    /// Where positions are kept: in tables of the database, whose names begin with tonnage_ (target; `tonnage init` prints
    /// what makes them), nowhere (none), or in a file of this machine, for databases that have no transactions
    /// [auto: target, or such a file]
    #[arg(
        long,
        value_name = "auto|target|none|PATH",
        value_parser = ledger_place,
        default_value = "auto",
        help_heading = "Bad rows and resuming"
    )]
    ledger: LedgerChoice,

    #[command(flatten)]
    read: ReadArgs,

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
enum MethodName {
    /// The fastest safe one
    Auto,
    /// A row a statement, a commit a row
    Single,
    /// A row a statement, a commit a batch
    Batch,
    /// Many rows a statement
    Array,
    /// The database's own bulk path
    Native,
}

/// A durability on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DurabilityName {
    /// Any node acknowledges, be it one that only keeps rows for others
    None,
    /// The last commits may be lost if the machine fails; of many machines one acknowledges
    Relaxed,
    /// Commits survive the loss of power
    Durable,
    /// Most replicas acknowledge
    Majority,
    /// All replicas acknowledge
    All,
}

impl DurabilityName {
    /// What it means.
    pub fn durability(self) -> Durability {
        match self {
            Self::None => Durability::None,
            Self::Relaxed => Durability::Relaxed,
            Self::Durable => Durability::Durable,
            Self::Majority => Durability::Majority,
            Self::All => Durability::All,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnErrorName {
    Stop,
    Reject,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TuneName {
    Auto,
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SplitName {
    Auto,
    None,
}

/// Where positions are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LedgerChoice {
    /// Where the target has them.
    Auto,
    /// Beside the rows, and nowhere else.
    Target,
    /// Nowhere.
    None,
    /// In a local file.
    File(PathBuf),
}

impl LedgerChoice {
    /// Has `target` keep its ledger there.
    pub fn apply(&self, target: &dyn Target) -> Result<()> {
        match (self, target.ledger_file()) {
            (Self::File(path), _) => target.keep_ledger(path),
            (Self::Target, Some(_)) => Err(Error::config(format!(
                "{} cannot hold the ledger: its rows and the ledger would not move together",
                target.capabilities().product
            ))
            .hint("leave --ledger out, which keeps it in a local file, or name the file")),
            _ => Ok(()),
        }
    }
}

/// `auto`, `target`, `none` or a path.
pub fn ledger_place(text: &str) -> Result<LedgerChoice, String> {
    match text {
        "auto" => Ok(LedgerChoice::Auto),
        "target" => Ok(LedgerChoice::Target),
        "none" => Ok(LedgerChoice::None),
        path if path.contains(['/', '.']) => Ok(LedgerChoice::File(path.into())),
        _ => Err("write auto, target, none or the path of a file, such as ./load.ledger".to_owned()),
    }
}

fn rejects_max(text: &str) -> Result<RejectsMax, String> {
    match text.strip_suffix('%') {
        Some(percent) => match percent.trim().parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(RejectsMax::Percent(percent)),
            _ => Err("write a share from 0% to 100%".to_owned()),
        },
        None => count(text).map(RejectsMax::Rows),
    }
}

/// What `--type` says.
#[derive(Debug, Default)]
pub struct ColumnTypes {
    /// The types by column.
    pub types: Vec<(String, ColumnType)>,
    /// The units of columns whose instants are numbers, as in `timestamp(epoch_ms)`.
    pub epochs: Vec<(String, EpochUnit)>,
}

impl ColumnTypes {
    /// Of pairs of a column and its type.
    pub fn parse(pairs: &[(String, String)]) -> Result<Self> {
        let mut found = Self::default();
        for (name, text) in pairs {
            let unit_of = |text: &str| EpochUnit::by_name(&text.trim().to_ascii_lowercase());
            let parts = text.strip_suffix(')').and_then(|text| text.split_once('('));
            let unit = parts.and_then(|(_, unit)| unit_of(unit));
            let written = match (unit, parts) {
                (Some(_), Some((ty, _))) => ty,
                _ => text.as_str(),
            };
            let parsed = written.parse::<ColumnType>();
            let ty = parsed.map_err(|error| error.at(format!("--type {name}")))?;
            if let Some(unit) = unit {
                if !matches!(ty, ColumnType::Timestamp | ColumnType::TimestampTz) {
                    return Err(Error::config(format!(
                        "--type {name}: numbers since 1970 ({unit}) are no values of type {ty}"
                    ))
                    .hint(format!("timestamp({unit}) or timestamptz({unit})")));
                }
                found.epochs.push((name.clone(), unit));
            }
            found.types.push((name.clone(), ty));
        }
        Ok(found)
    }
}

impl RowsArgs {
    /// The types that --columns names columns with.
    pub fn types(&self) -> Vec<(String, String)> {
        self.columns.types()
    }

    /// Whether the first line is a row.
    pub fn headerless(&self) -> bool {
        self.read.headerless()
    }

    /// The options of a load into `table` as far as these arguments go.
    pub fn options(&self, table: TableName) -> Result<LoadOptions> {
        Ok(LoadOptions {
            method: match self.method {
                MethodName::Auto => None,
                MethodName::Single => Some(Method::Single),
                MethodName::Batch => Some(Method::Batch),
                MethodName::Array => Some(Method::Array),
                MethodName::Native => Some(Method::Native),
            },
            batch_rows: self.batch_rows.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            batch_bytes: self.batch_bytes,
            jobs: match self.jobs {
                Some(0) => return Err(Error::config("--jobs must be at least 1")),
                jobs => jobs,
            },
            tune: match self.tune {
                TuneName::Auto => Tune::Auto,
                TuneName::Off => Tune::Off,
            },
            jobs_per_shard: self.jobs_per_shard,
            split: match self.split {
                SplitName::Auto => Split::Auto,
                SplitName::None => Split::None,
            },
            durability: self.durability.map(DurabilityName::durability),
            single_transaction: self.single_transaction,
            limit: self.limit,
            rate: self.rate,
            on_error: match (self.on_error, &self.rejects) {
                (Some(OnErrorName::Reject), _) | (None, Some(_)) => OnError::Reject,
                (Some(OnErrorName::Stop), Some(_)) => {
                    return Err(
                        Error::config("--rejects and --on-error stop contradict each other")
                            .hint("leave one of them out"),
                    );
                }
                (Some(OnErrorName::Stop) | None, None) => OnError::Stop,
            },
            rejects: self.rejects.clone(),
            rejects_max: self.max_rejects,
            attempt: match (self.resume, self.restart) {
                (true, _) => Attempt::Resume,
                (_, true) => Attempt::Restart,
                _ => Attempt::New,
            },
            ledger: match self.ledger {
                LedgerChoice::Auto | LedgerChoice::Target | LedgerChoice::File(_) => LedgerPlace::Target,
                LedgerChoice::None => LedgerPlace::None,
            },
            timezone: self.read.timezone.clone(),
            ..self.columns.options(table)
        })
    }

    /// `inputs` as the arguments say that they are read.
    pub fn files(&self, inputs: &[String], task: &Task) -> Result<RowsFrom> {
        let (format, text) = self.reading(task)?;
        Ok(RowsFrom::Inputs {
            inputs: inputs.to_vec(),
            relation: self.read.relation(inputs)?,
            format,
            text: Box::new(text),
        })
    }

    /// How files are read.
    pub fn reading(&self, task: &Task) -> Result<(Option<Format>, TextOptions)> {
        let mut text = self.read.text_options()?;
        text.timezone = task.options.timezone.clone();
        text.scan = task.options.scan;
        text.formats.epochs = task.epochs.clone();
        Ok((self.read.format(), text))
    }

    /// The files, none of which is a database, and the database that comes last.
    pub fn files_and_place<'a>(
        &self,
        places: &'a [String],
        usage: Usage,
    ) -> Result<(&'a [String], TargetArgs)> {
        let (inputs, databases) = self.read.places(places, &self.shards, usage)?;
        if self.read.relation(inputs)?.is_some() {
            return Err(Error::config(format!(
                "tonnage {} shares files out, and the source is a database",
                usage.command
            ))
            .hint("unload it first: tonnage unload SOURCE -t TABLE -o 'rows-{}.parquet'"));
        }
        Ok((inputs, self.shards.place(databases)?))
    }

    /// The file that the ledger was asked to be in, if it was.
    pub fn ledger_choice(&self) -> &LedgerChoice {
        &self.ledger
    }

    /// How to connect.
    pub fn connection(&self) -> &ConnectionArgs {
        &self.connection
    }

    /// Where the account goes.
    pub fn account(&self) -> &ReportArgs {
        &self.account
    }

    /// Whether nothing is to be written.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Whether nothing was asked for that a single transaction does not go with.
    pub fn goes_in_one_transaction(&self) -> bool {
        let is_plain = self.jobs.is_none() && self.jobs_per_shard.is_none() && !self.shards.are_given();
        is_plain && self.method != MethodName::Single
    }

    /// What is to be done with the rows `from` somewhere.
    pub fn rows(&self, from: RowsFrom, place: Place, task: Task) -> Rows {
        Rows {
            from,
            place,
            ledger: self.ledger.clone(),
            task,
        }
    }

    /// Moves the rows of `places`, of which the last is the database, as `task` says. The summary goes to standard
    /// error. `usage` is shown where a place is missing; `paths` are files that are named besides.
    pub async fn carry_out(
        &self,
        places: &[String],
        usage: Usage,
        task: Task,
        paths: Paths,
        verbosity: Verbosity,
    ) -> Result<Ending> {
        let (inputs, databases) = self.read.places(places, &self.shards, usage)?;
        let place = self.shards.place(databases)?;
        let from = self.files(inputs, &task)?;
        let mut paths = paths;
        paths.sources(inputs, self.read.format());
        paths.databases(databases);
        if let LedgerChoice::File(path) = &self.ledger {
            paths.writes("--ledger", Some(path));
        }
        paths.writes("--rejects", self.rejects.as_deref());
        paths.report(self.account.path());
        paths.check()?;
        let password = self.connection.password(place.first())?;
        let rows = self.rows(from, Place::Named(place, password), task);
        // A task of its own, as the first read of a pipe may block and interrupts must be heard meanwhile.
        let preparing = tokio::spawn(rows.prepare());
        let prepared = async {
            let prepared = preparing.await;
            prepared.unwrap_or_else(|error| Err(Error::bug(format!("the rows were not prepared: {error}"))))
        };
        let (prepared, check) = match unless_interrupted(prepared).await {
            Ok(prepared) => prepared,
            Err(interrupted) => return interrupted.ending(),
        };
        if self.dry_run {
            out!("{}", prepared.plan())?;
            let preview = match unless_interrupted(prepared.preview(PREVIEW_ROWS)).await {
                Ok(preview) => preview,
                Err(interrupted) => return interrupted.ending(),
            };
            out!("{preview}")?;
            return Ok(Ending::Done);
        }
        let show_style = verbosity.progress(self.progress);
        for setting in &prepared.plan().settings_changed {
            tracing::info!("setting: {setting}");
        }
        for lost in &prepared.plan().guarantees_lost {
            tracing::info!("given up: {lost}");
        }
        let progress: Arc<Progress> = Arc::default();
        let stop = Stop::default();
        let first = OnceCell::new();
        let bytes_total = prepared.bytes_total();
        let resumable = prepared.resumable();
        let load = prepared.run(progress.clone(), stop.clone());
        let ended = tokio::select! {
            ended = load => ended,
            never = progress::show(show_style, progress, bytes_total) => match never {},
            interrupt = interrupted(stop, &first) => {
                let message = "interrupted; what was not committed is undone";
                let error = Error::new(ErrorKind::Cancelled, message);
                let error = if resumable { error.hint("go on with --resume") } else { error };
                return Ok(Ending::Interrupted(interrupt, error));
            }
        };
        let ended = match (ended, first.get()) {
            (Ok(ended), _) => ended,
            // Before the first row there is no account to give.
            (Err(error), Some(interrupt)) if error.kind() == ErrorKind::Cancelled => {
                return Ok(Ending::Interrupted(*interrupt, error));
            }
            (Err(error), _) => return Err(error),
        };
        let verified = match check.filter(|_| is_finished(&ended)) {
            Some(check) => Some(compare(check, &ended.report, show_style).await),
            None => None,
        };
        let report = LoadReport {
            report: &ended.report,
            verified: verified.as_ref().and_then(|verified| verified.as_ref().ok()),
        };
        let written = match self.account.path() {
            Some(path) => write_report(path, &report),
            None => Ok(()),
        };
        let ending = finish(ended, verbosity, first.get().copied());
        after_report(verified_ending(ending, verified, verbosity), written)
    }
}

/// Where rows come from.
pub enum RowsFrom {
    /// Files, or a database of which `relation` says what is read.
    Inputs {
        inputs: Vec<String>,
        relation: Option<Relation>,
        format: Option<Format>,
        text: Box<TextOptions>,
    },
    /// The program that this is part of.
    Source(Box<dyn Source>),
}

/// The database that rows go to.
pub enum Place {
    /// To be connected to.
    Named(TargetArgs, Option<Password>),
    /// Being connected to.
    Connecting(Connecting),
    /// At hand, and what it is called.
    Connected(Arc<dyn Target>, String),
}

impl Place {
    async fn connected(self) -> Result<(Arc<dyn Target>, String)> {
        match self {
            Self::Named(place, password) => Ok((place.connect(password).await?, place.shown())),
            Self::Connecting(connecting) => connecting.done().await,
            Self::Connected(target, shown) => Ok((target, shown)),
        }
    }
}

/// A database that is being connected to while something else is done; dropping it ends that.
pub struct Connecting(JoinHandle<Result<(Arc<dyn Target>, String)>>);

impl Connecting {
    fn begin(place: TargetArgs, password: Option<Password>) -> Self {
        Self(tokio::spawn(async move {
            Ok((place.connect(password).await?, place.shown()))
        }))
    }

    async fn done(mut self) -> Result<(Arc<dyn Target>, String)> {
        let done = (&mut self.0).await;
        done.unwrap_or_else(|error| Err(Error::bug(format!("the database was not connected to: {error}"))))
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is known before anything is opened.
pub struct Rows {
    from: RowsFrom,
    place: Place,
    ledger: LedgerChoice,
    task: Task,
}

impl Rows {
    /// Opens source and database, and decides; writes nothing. With --verify also what compares afterwards.
    pub async fn prepare(self) -> Result<(Prepared, Option<AfterLoad>)> {
        let Self {
            from,
            place,
            ledger,
            task,
        } = self;
        let Task {
            mut options,
            verifying,
            ..
        } = task;
        if let Place::Named(named, _) = &place {
            kept::take(named.first(), &mut options)?;
        }
        let (inputs, relation, format, text) = match from {
            RowsFrom::Inputs {
                inputs,
                relation,
                format,
                text,
            } => (inputs, relation, format, text),
            RowsFrom::Source(source) => {
                if verifying == Verifying::Yes || options.new_files {
                    return Err(Error::config(
                        "--verify and --new-files are for files, and the rows come from the program",
                    )
                    .hint("leave them out, or write the rows to a file first"));
                }
                let (target, shown) = place.connected().await?;
                ledger.apply(&*target)?;
                return Ok((prepare(target, shown, source, options).await?, None));
            }
        };
        if verifying == Verifying::Yes && relation.is_some() {
            return Err(Error::config(
                "--verify reads the input again, and a database may have changed by then",
            )
            .hint("compare afterwards: tonnage verify SOURCE TARGET -t TABLE --source-table TABLE"));
        }
        if options.new_files && verifying == Verifying::No {
            let (target, shown) = place.connected().await?;
            ledger.apply(&*target)?;
            let prepared = prepare_files(target, shown, &inputs, format, &text, options).await;
            return prepared.map(|prepared| (prepared, None));
        }
        // A store may be as far away as the database: nobody waits for one and then for the other.
        let is_far = |input: &String| url_of(Path::new(input)).is_some();
        let place = match place {
            Place::Named(named, password) if named.is_server() && inputs.iter().any(is_far) => {
                Place::Connecting(Connecting::begin(named, password))
            }
            place => place,
        };
        let source = match relation {
            Some(relation) => open_database(&inputs, relation, options.jobs).await?,
            None => {
                let (inputs, text) = (inputs.clone(), text.clone());
                // On a thread of its own, as it waits.
                let opened = tokio::task::spawn_blocking(move || sources::open(&inputs, format, &text)).await;
                opened
                    .unwrap_or_else(|error| Err(Error::bug(format!("the source was not opened: {error}"))))?
            }
        };
        if verifying == Verifying::Yes && source.identity().is_none() {
            return Err(Error::config(format!(
                "--verify reads the input again, and {}",
                source.not_rereadable()
            ))
            .hint("write it to a file first, or leave --verify out"));
        }
        let (target, shown) = place.connected().await?;
        ledger.apply(&*target)?;
        let prepared = prepare(target, shown, source, options).await?;
        let check = match verifying {
            Verifying::No => return Ok((prepared, None)),
            Verifying::Yes => prepared.verification(sources::open(&inputs, format, &text)?)?,
        };
        Ok((prepared, Some(check.checked().await?)))
    }
}

/// Opens a database as a source.
async fn open_database(
    inputs: &[String],
    relation: Relation,
    jobs: Option<usize>,
) -> Result<Box<dyn Source>> {
    let place = inputs.first().map(String::as_str).unwrap_or_default();
    let target = targets::connect(place).await?;
    let shown = match &relation {
        Relation::Table(name) => format!("{} {name}", targets::redact(place)),
        Relation::Query(_) => targets::redact(place),
    };
    let options = UnloadOptions {
        jobs,
        ..UnloadOptions::new(relation, Output::new("-"))
    };
    let source = DatabaseSource::open(&*target, &shown, &options.request()?).await?;
    for note in source.notes() {
        tracing::info!("source: {note}");
    }
    Ok(Box::new(source))
}

/// The first interrupt, which is kept in `first`, lets what is being written finish; the second, or ten seconds, ends
/// the process.
pub async fn interrupted(stop: Stop, first: &OnceCell<Interrupt>) -> Interrupt {
    let interrupt = requested().await;
    let _ = first.set(interrupt);
    eprintln!("stopping: what is being written is finished; interrupt again to leave at once");
    stop.request();
    tokio::select! {
        again = requested() => again,
        () = tokio::time::sleep(Duration::from_secs(10)) => interrupt,
    }
}

fn finish(ended: Ended, verbosity: Verbosity, interrupt: Option<Interrupt>) -> Result<Ending> {
    let Ended { report, error } = ended;
    if verbosity == Verbosity::Normal {
        eprint!("{}", summary(&report));
    }
    match (error, interrupt) {
        (Some(error), Some(interrupt)) if error.kind() == ErrorKind::Cancelled => {
            Ok(Ending::Interrupted(interrupt, error))
        }
        (Some(error), _) => Err(error),
        (None, _) if report.rejects.is_some() => Ok(Ending::Rejects),
        (None, _) => Ok(Ending::Done),
    }
}

/// The account in a few lines.
pub fn summary(report: &Report) -> String {
    let mut text = format!(
        "{} {} {} {}: {} written in {:.2} s, {} rows/s\n",
        report.operation,
        if report.operation == "statement" {
            "on"
        } else {
            "into"
        },
        report.target,
        report.table,
        Counted(report.rows.written, "row"),
        report.seconds,
        Grouped(report.rows_per_second as u64)
    );
    text.push_str(&format!(
        "  {} by {}, {}, durability {}, bound by {}\n",
        report.method,
        Counted(report.jobs as u64, "job"),
        Counted(report.commits, "commit"),
        report.durability,
        report.bound_by.bottleneck
    ));
    text.push_str(&format!("  {}\n", report.rows));
    for shard in report.shards.iter().filter(|shard| shard.error.is_some()) {
        text.push_str(&format!(
            "  {} failed: {} of its rows written, the rest is left undone\n",
            shard.name,
            Grouped(shard.written)
        ));
    }
    if let Some(rejects) = &report.rejects {
        text.push_str(&format!("  rejects in {rejects}\n"));
    }
    for why in report.tuned.iter().flat_map(|tuned| &tuned.why) {
        text.push_str(&format!("  tuned: {why}\n"));
    }
    for note in &report.notes {
        text.push_str(&format!("  note: {note}\n"));
    }
    text
}
