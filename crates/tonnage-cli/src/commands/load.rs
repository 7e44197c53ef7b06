//! `tonnage load`: files, or rows of another database, into a table.

use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{Args, ValueEnum};
use tonnage::{
    ColumnType, Error, ErrorKind, Result,
    load::{Ended, Progress, Stop, prepare},
    operation::{Durability, Method},
    plan::{Attempt, Create, LedgerPlace, LoadOptions, Mode, OnError, Rate, RejectsMax, Sort},
    reader::Relation,
    report::{Grouped, Report},
    sinks::Output,
    source::Source,
    sources::{self, Format, TextOptions, database::DatabaseSource},
    targets,
    unload::UnloadOptions,
};

use crate::{
    Ending,
    connection::ConnectionArgs,
    interrupt::{Interrupt, requested, unless_interrupted},
    options::{byte, count, pair, rate, size},
    progress::{self, Style},
    report::write_report,
};

/// Load files into a table: every row once, bad ones put aside, resumable
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tonnage load orders.csv shop.db -t orders
  tonnage load 'orders/*.csv.gz' postgresql://app@db/shop -t orders --mode upsert --key id
  tonnage generate sbtest --rows 1M -o - | tonnage load - shop.db -t sbtest1 --create")]
pub struct LoadArgs {
    /// Files, globs or directories (- is standard input), or a database, and the database to load into last: a URL, a
    /// file, or @NAME of targets.toml
    #[arg(value_name = "SOURCE... TARGET", required = true)]
    places: Vec<String>,

    /// The table: table, schema.table or "odd.name"
    #[arg(short, long, value_name = "TABLE")]
    table: String,

    /// What happens to a row
    #[arg(long, value_enum, default_value_t = ModeName::Insert, help_heading = "What to do")]
    mode: ModeName,

    /// The columns that recognise a row [default: the primary key], or the primary key of a table that --create makes
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "What to do")]
    key: Vec<String>,

    /// Create the table from the source's columns: where it is missing, or as one that must be new
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "missing", help_heading = "What to do")]
    create: Option<CreateName>,

    /// The type of a column of a table that --create makes: id=int64, price=decimal(10,2)
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = pair, help_heading = "What to do")]
    types: Vec<(String, String)>,

    /// Empty the table when the run starts
    #[arg(long, help_heading = "What to do")]
    truncate: bool,

    /// Fill table column DST from source column SRC
    #[arg(long, value_name = "SRC=DST", value_parser = pair, help_heading = "What to do")]
    map: Vec<(String, String)>,

    /// The table columns to load; without a header, the names of the fields in order
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "What to do")]
    columns: Option<Vec<String>>,

    /// Read at most N rows
    #[arg(long, value_name = "N", value_parser = count, help_heading = "What to do")]
    limit: Option<u64>,

    /// How rows travel
    #[arg(long, value_enum, default_value_t = MethodName::Auto, help_heading = "How to do it")]
    method: MethodName,

    /// Connections that write at once [default: one a processor, at most 4; 1 where the database has one writer]
    #[arg(short, long, value_name = "N", help_heading = "How to do it")]
    jobs: Option<usize>,

    /// Rows of a write at most; a write is a commit
    #[arg(long, value_name = "N", value_parser = count, help_heading = "How to do it")]
    batch_rows: Option<u64>,

    /// Bytes of a write at most [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "How to do it")]
    batch_bytes: Option<usize>,

    /// Rows or bytes a second at most: 50k/s, 20MB/s
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "How to do it")]
    rate: Option<Rate>,

    /// What a commit promises [default: durable]
    #[arg(long, value_enum, help_heading = "How to do it")]
    durability: Option<DurabilityName>,

    /// Sort rows by primary key: not at all, within each block, or all of them before the first is written (spills
    /// to temporary files) [auto: block where there is a primary key]
    #[arg(long, value_enum, default_value_t = SortName::Auto, help_heading = "How to do it")]
    sort: SortName,

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

    /// Where positions are kept: tables tonnage_runs and tonnage_slots beside yours, or nowhere
    #[arg(long, value_enum, default_value_t = LedgerName::Auto, help_heading = "Bad rows and resuming")]
    ledger: LedgerName,

    /// The table or view to read, where the source is a database: table, schema.table or "odd.name"
    #[arg(
        long,
        value_name = "TABLE",
        conflicts_with = "source_query",
        help_heading = "How to read"
    )]
    source_table: Option<String>,

    /// The query whose rows to read, where the source is a database
    #[arg(long, value_name = "SQL", help_heading = "How to read")]
    source_query: Option<String>,

    /// The format [default: by the files' endings; csv for standard input]
    #[arg(long, value_enum, help_heading = "How to read")]
    format: Option<FormatName>,

    /// Between fields: one character, or \t [default: , for CSV, tab for TSV]
    #[arg(long, value_name = "C", value_parser = byte, help_heading = "How to read")]
    delimiter: Option<u8>,

    /// Around fields: one character, or none
    #[arg(long, value_name = "C", default_value = "\"", help_heading = "How to read")]
    quote: String,

    /// Before a quote inside a quoted field [default: the quote is doubled]
    #[arg(long, value_name = "C", value_parser = byte, help_heading = "How to read")]
    escape: Option<u8>,

    /// The first line is a row, not names
    #[arg(long, help_heading = "How to read")]
    no_header: bool,

    /// Unquoted text that means null, instead of the empty field; may be given again
    #[arg(long, value_name = "TEXT", help_heading = "How to read")]
    null: Vec<String>,

    /// Skip lines that begin with this character
    #[arg(long, value_name = "C", value_parser = byte, help_heading = "How to read")]
    comment: Option<u8>,

    /// The character set of text files
    #[arg(
        long,
        value_name = "NAME",
        default_value = "utf-8",
        help_heading = "How to read"
    )]
    encoding: String,

    /// The zone of times that carry none, for columns with time zone: Europe/Berlin, UTC
    #[arg(long, value_name = "ZONE", help_heading = "How to read")]
    timezone: Option<String>,

    #[command(flatten)]
    connection: ConnectionArgs,

    /// Print the plan and write nothing
    #[arg(long, help_heading = "What to show")]
    dry_run: bool,

    /// Write the account as one JSON object to PATH (- is standard output)
    #[arg(long, value_name = "PATH", help_heading = "What to show")]
    report: Option<PathBuf>,

    /// How progress is shown
    #[arg(long, value_enum, default_value_t = Style::Auto, help_heading = "What to show")]
    progress: Style,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeName {
    /// Every row is new; one whose key exists is bad
    Insert,
    /// A row whose key exists replaces what is there
    Upsert,
    /// A row whose key exists is left out
    Ignore,
    /// A row changes what has its key; without one it is left out
    Update,
    /// A row removes what has its key; only the key's columns are used
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CreateName {
    Missing,
    New,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DurabilityName {
    /// The last commits may be lost if the machine fails
    Relaxed,
    /// Commits survive the loss of power
    Durable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SortName {
    Auto,
    None,
    Block,
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnErrorName {
    Stop,
    Reject,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LedgerName {
    Auto,
    Target,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatName {
    Csv,
    Tsv,
    Json,
    Parquet,
    Arrow,
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

/// Loads; the summary goes to standard error.
pub async fn run(args: &LoadArgs, quiet: bool) -> Result<Ending> {
    let (inputs, url) = places(&args.places)?;
    let options = options(args)?;
    let mut text = text_options(args)?;
    if !text.header && options.columns.is_none() && options.create != Create::No {
        tracing::info!("without a header the new table's columns are c1, c2 ..; --columns names them");
    }
    text.timezone = options.timezone.clone();
    let format = args.format.map(|f| match f {
        FormatName::Csv => Format::Csv,
        FormatName::Tsv => Format::Tsv,
        FormatName::Json => Format::Json,
        FormatName::Parquet => Format::Parquet,
        FormatName::Arrow => Format::Arrow,
    });
    let relation = relation(args, inputs)?;
    let password = args.connection.password(url)?;
    let (inputs, url, jobs) = (inputs.to_vec(), url.to_owned(), args.jobs);
    // A task of its own, as the first read of a pipe may block and interrupts must be heard meanwhile.
    let preparing = tokio::spawn(async move {
        let source = match relation {
            Some(relation) => open_database(&inputs, relation, jobs).await?,
            None => sources::open(&inputs, format, &text)?,
        };
        let target = targets::connect_with(&url, password).await?;
        prepare(target, targets::redact(&url), source, options).await
    });
    let prepared = async {
        let prepared = preparing.await;
        prepared.unwrap_or_else(|error| Err(Error::bug(format!("the load was not prepared: {error}"))))
    };
    let prepared = match unless_interrupted(prepared).await {
        Ok(prepared) => prepared,
        Err(interrupted) => return interrupted.ending(),
    };
    if args.dry_run {
        print!("{}", prepared.plan());
        return Ok(Ending::Done);
    }
    let show_style = if quiet { Style::None } else { args.progress };
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
        ended = load => ended?,
        never = progress::show(show_style, progress, bytes_total) => match never {},
        interrupt = interrupted(stop, &first) => {
            let message = "interrupted; what was not committed is undone";
            let error = Error::new(ErrorKind::Cancelled, message);
            let error = if resumable { error.hint("go on with --resume") } else { error };
            return Ok(Ending::Interrupted(interrupt, error));
        }
    };
    if let Some(path) = &args.report {
        write_report(path, &ended.report)?;
    }
    finish(ended, quiet, first.get().copied())
}

/// What to read from a source that is a database; none where the sources are files.
fn relation(args: &LoadArgs, inputs: &[String]) -> Result<Option<Relation>> {
    let relation = match (&args.source_table, &args.source_query) {
        (Some(table), _) => Some(Relation::Table(table.parse()?)),
        (None, Some(query)) => Some(Relation::Query(query.clone())),
        (None, None) => None,
    };
    let database = inputs.iter().find(|input| targets::driver(input).is_ok());
    match (relation, database, inputs) {
        (None, None, _) => Ok(None),
        (None, Some(database), _) => Err(Error::config(format!(
            "the source '{}' is a database, and nothing says what to read",
            targets::redact(database)
        ))
        .hint("--source-table TABLE or --source-query SQL says it")),
        (Some(_), None, _) => Err(Error::config(format!(
            "--source-table and --source-query read a database, and '{}' is none",
            inputs.join(" ")
        ))
        .hint("leave them out to load files")),
        (Some(_), Some(_), [_, _, ..]) => {
            Err(Error::config("a database is a source by itself").hint("load files in a run of their own"))
        }
        (relation, Some(_), _) => Ok(relation),
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

/// The sources and the database, which comes last.
fn places(places: &[String]) -> Result<(&[String], &str)> {
    let Some((target, inputs)) = places.split_last() else {
        return Err(Error::config("no source and no database"));
    };
    let is_file = Path::new(target).is_file();
    if let Err(error) = targets::driver(target) {
        return Err(match is_file {
            true => Error::config(format!(
                "the last argument, '{target}', is a file and not a database"
            ))
            .hint(format!(
                "name the database last, as in cp: tonnage load {} shop.db -t TABLE",
                places.join(" ")
            )),
            false => error,
        });
    }
    if inputs.is_empty() {
        return Err(
            Error::config(format!("no source: '{target}' is the database")).hint(format!(
                "name the files first: tonnage load FILE.. {target} -t TABLE; - is standard input"
            )),
        );
    }
    Ok((inputs, target))
}

fn options(args: &LoadArgs) -> Result<LoadOptions> {
    let types = args
        .types
        .iter()
        .map(|(name, ty)| {
            let parsed = ty.parse::<ColumnType>();
            Ok((
                name.clone(),
                parsed.map_err(|error| error.at(format!("--type {name}")))?,
            ))
        })
        .collect::<Result<Vec<_>>>()?;
    if !types.is_empty() && args.create.is_none() {
        return Err(Error::config("--type is for tables that --create makes")
            .hint("a column's own type decides how text is read"));
    }
    Ok(LoadOptions {
        mode: match args.mode {
            ModeName::Insert => Mode::Insert,
            ModeName::Upsert => Mode::Upsert,
            ModeName::Ignore => Mode::Ignore,
            ModeName::Update => Mode::Update,
            ModeName::Delete => Mode::Delete,
        },
        key: args.key.clone(),
        method: match args.method {
            MethodName::Auto => None,
            MethodName::Single => Some(Method::Single),
            MethodName::Batch => Some(Method::Batch),
            MethodName::Array => Some(Method::Array),
            MethodName::Native => Some(Method::Native),
        },
        batch_rows: args.batch_rows.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
        batch_bytes: args.batch_bytes,
        jobs: match args.jobs {
            Some(0) => return Err(Error::config("--jobs must be at least 1")),
            jobs => jobs,
        },
        durability: args.durability.map(|d| match d {
            DurabilityName::Relaxed => Durability::Relaxed,
            DurabilityName::Durable => Durability::Durable,
        }),
        sort: match args.sort {
            SortName::Auto => None,
            SortName::None => Some(Sort::None),
            SortName::Block => Some(Sort::Block),
            SortName::Full => Some(Sort::Full),
        },
        truncate: args.truncate,
        create: match args.create {
            None => Create::No,
            Some(CreateName::Missing) => Create::Missing,
            Some(CreateName::New) => Create::New,
        },
        types,
        map: args.map.clone(),
        columns: args.columns.clone(),
        limit: args.limit,
        rate: args.rate,
        on_error: match (args.on_error, &args.rejects) {
            (Some(OnErrorName::Reject), _) | (None, Some(_)) => OnError::Reject,
            (Some(OnErrorName::Stop), Some(_)) => {
                return Err(
                    Error::config("--rejects and --on-error stop contradict each other")
                        .hint("leave one of them out"),
                );
            }
            (Some(OnErrorName::Stop) | None, None) => OnError::Stop,
        },
        rejects: args.rejects.clone(),
        rejects_max: args.max_rejects,
        attempt: match (args.resume, args.restart) {
            (true, _) => Attempt::Resume,
            (_, true) => Attempt::Restart,
            _ => Attempt::New,
        },
        ledger: match args.ledger {
            LedgerName::Auto | LedgerName::Target => LedgerPlace::Target,
            LedgerName::None => LedgerPlace::None,
        },
        timezone: args.timezone.clone(),
        ..LoadOptions::new(args.table.parse()?)
    })
}

fn text_options(args: &LoadArgs) -> Result<TextOptions> {
    Ok(TextOptions {
        delimiter: args.delimiter,
        quote: match args.quote.as_str() {
            "none" | "" => None,
            quote => Some(byte(quote).map_err(|e| Error::config(format!("--quote '{quote}': {e}")))?),
        },
        escape: args.escape,
        header: !args.no_header,
        nulls: if args.null.is_empty() {
            vec![String::new()]
        } else {
            args.null.clone()
        },
        comment: args.comment,
        encoding: args.encoding.clone(),
        ..TextOptions::default()
    })
}

/// The first interrupt, which is kept in `first`, lets what is being written finish; the second, or ten seconds, ends
/// the process.
async fn interrupted(stop: Stop, first: &OnceCell<Interrupt>) -> Interrupt {
    let interrupt = requested().await;
    let _ = first.set(interrupt);
    eprintln!("stopping: what is being written is finished; interrupt again to leave at once");
    stop.request();
    tokio::select! {
        again = requested() => again,
        () = tokio::time::sleep(Duration::from_secs(10)) => interrupt,
    }
}

fn finish(ended: Ended, quiet: bool, interrupt: Option<Interrupt>) -> Result<Ending> {
    let Ended { report, error } = ended;
    if !quiet {
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
fn summary(report: &Report) -> String {
    let mut text = format!(
        "{} into {} {}: {} rows written in {:.2} s, {} rows/s\n",
        report.operation,
        report.target,
        report.table,
        Grouped(report.rows.written),
        report.seconds,
        Grouped(report.rows_per_second as u64)
    );
    text.push_str(&format!(
        "  {} by {} job{}, {} commit{}, durability {}, bound by the {}\n",
        report.method,
        report.jobs,
        if report.jobs == 1 { "" } else { "s" },
        Grouped(report.commits),
        if report.commits == 1 { "" } else { "s" },
        report.durability,
        report.bound_by
    ));
    text.push_str(&format!("  {}\n", report.rows));
    if let Some(rejects) = &report.rejects {
        text.push_str(&format!("  rejects in {rejects}\n"));
    }
    for note in &report.notes {
        text.push_str(&format!("  note: {note}\n"));
    }
    text
}
