//! What the commands share that take rows from files to a database: how rows are read, how they travel, what becomes
//! of bad ones, and the run from its plan to its account.

use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::{Args, ValueEnum};
use tonnage::{
    ColumnType, Error, ErrorKind, Result,
    load::{Ended, Progress, prepare, prepare_files},
    operation::{Durability, Method, Split},
    parse::{DateFormat, EpochUnit, ValueFormats},
    plan::{Attempt, LedgerPlace, LoadOptions, OnError, Rate, RejectsMax},
    reader::Relation,
    report::{Counted, Grouped, Report},
    sinks::Output,
    source::Source,
    sources::{self, DifferingColumns, Format, TextOptions},
    stop::Stop,
    table::TableName,
    target::Target,
    targets,
    unload::{UnloadOptions, source::DatabaseSource},
};

use crate::{
    Ending,
    connection::{ConnectionArgs, ShardArgs},
    interrupt::{Interrupt, requested, unless_interrupted},
    options::{Pairs, byte, count, pair, pairs, rate, size},
    output::out,
    paths::Paths,
    progress::{self, Style},
    report::{after_report, write_report},
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

/// See the module.
#[derive(Debug, Args)]
pub struct RowsArgs {
    /// All rows or none: one job writes them in one transaction
    #[arg(short = '1', long, help_heading = "What to do")]
    single_transaction: bool,

    /// Fill table column, or parameter, DST from source column SRC
    #[arg(long, value_name = "SRC=DST,..", value_parser = pairs, help_heading = "What to do")]
    map: Vec<Pairs>,

    /// A column that the input does not have, or another value for one that it has: a text, or {column}, {file}, {row}
    ///
    /// May be given again. A text, in which {name} is a column of the input, and {file}, {row} (its number in the file), {run} and {now} are what is known of
    /// the row; {trim(name)} is what a function makes of it: cast(x, type), coalesce(x, y), concat(x, y),
    /// format(time, '%d.%m.%Y'), json(x, '$.a.b[0]'), lower, nullif(x, 'text'), replace(x, 'what', 'by'),
    /// split(x, ' ', 1), substr(x, from, length), trim, upper
    #[arg(long, value_name = "NAME=TEXT", value_parser = pair, help_heading = "What to do")]
    add: Vec<(String, String)>,

    /// Make the names of the input plain: `First Name (mm)` is first_name_mm
    #[arg(long, help_heading = "What to do")]
    normalize_names: bool,

    /// The table columns to load; without a header, or in its place, the names of the fields
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "What to do")]
    columns: Option<Vec<String>>,

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

    /// The table or view to read, where the source is a database: table, schema.table or "odd.name"
    #[arg(
        long,
        value_name = "TABLE",
        conflicts_with = "source_query",
        help_heading = "How to read"
    )]
    source_table: Option<String>,

    /// The query whose rows to read, where the source is a database
    #[arg(long, alias = "query", value_name = "SQL", help_heading = "How to read")]
    source_query: Option<String>,

    /// The format
    ///
    /// auto goes by the files' endings, or by what they begin with, and finds out how text is cut where the
    /// options do not say it; csv and tsv read it as the options say and not otherwise
    #[arg(long, value_enum, default_value_t = FormatName::Auto, hide_default_value = true, help_heading = "How to read")]
    format: FormatName,

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

    /// Lines before the header, or the first row, that are not read [default: titles above a header are found]
    #[arg(long, value_name = "N", value_parser = count, help_heading = "How to read")]
    skip: Option<u64>,

    /// Lines at the end of each file that are not read, such as totals
    #[arg(long, value_name = "N", value_parser = count, default_value = "0", hide_default_value = true, help_heading = "How to read")]
    skip_footer: u64,

    /// Take spaces around unquoted fields for nothing
    #[arg(long, help_heading = "How to read")]
    trim: bool,

    /// How dates are written: dmy, mdy, ymd, or a pattern such as %d.%m.%y; may be given again. ISO dates are read as well
    #[arg(long, value_name = "FORMAT", value_parser = date_format, help_heading = "How to read")]
    date_format: Vec<DateFormat>,

    /// The decimal sign of numbers
    #[arg(long, value_name = "C", help_heading = "How to read")]
    decimal: Option<char>,

    /// The sign between groups of three digits
    #[arg(long, value_name = "C", help_heading = "How to read")]
    thousands: Option<char>,

    /// A word for true, besides true, t, yes, y, on and 1; may be given again
    #[arg(long = "true", value_name = "WORD", help_heading = "How to read")]
    truths: Vec<String>,

    /// A word for false, besides false, f, no, n, off and 0; may be given again
    #[arg(long = "false", value_name = "WORD", help_heading = "How to read")]
    falsehoods: Vec<String>,

    /// Make columns of the keys of objects within objects of JSON: address.city
    #[arg(long, help_heading = "How to read")]
    flatten: bool,

    /// Take the columns of all files, by name, where they differ; a file that lacks one has nulls for it
    #[arg(long, help_heading = "How to read")]
    union: bool,

    /// The sheet of an Excel file [default: the first]
    #[arg(long, value_name = "NAME", help_heading = "How to read")]
    sheet: Option<String>,

    /// The character set of text files; auto tells it by their bytes
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

    #[command(flatten)]
    shards: ShardArgs,

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnErrorName {
    Stop,
    Reject,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatName {
    Auto,
    Csv,
    Tsv,
    #[value(alias = "jsonl", alias = "ndjson")]
    Json,
    Parquet,
    #[value(alias = "ipc")]
    Arrow,
}

fn date_format(text: &str) -> Result<DateFormat, String> {
    text.parse().map_err(|error: Error| match error.hint_text() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    })
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
    /// Whether the first line is a row.
    pub fn headerless(&self) -> bool {
        self.no_header
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
            jobs_per_shard: self.jobs_per_shard,
            split: match self.split {
                SplitName::Auto => Split::Auto,
                SplitName::None => Split::None,
            },
            durability: self.durability.map(|d| match d {
                DurabilityName::None => Durability::None,
                DurabilityName::Relaxed => Durability::Relaxed,
                DurabilityName::Durable => Durability::Durable,
                DurabilityName::Majority => Durability::Majority,
                DurabilityName::All => Durability::All,
            }),
            single_transaction: self.single_transaction,
            map: self.map.iter().flat_map(|pairs| pairs.0.clone()).collect(),
            columns: self.columns.clone(),
            add: self.add.clone(),
            normalize_names: self.normalize_names,
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
            timezone: self.timezone.clone(),
            ..LoadOptions::new(table)
        })
    }

    fn text_options(&self) -> Result<TextOptions> {
        Ok(TextOptions {
            delimiter: self.delimiter,
            quote: match self.quote.as_str() {
                "none" | "" => None,
                quote => Some(byte(quote).map_err(|e| Error::config(format!("--quote '{quote}': {e}")))?),
            },
            escape: self.escape,
            header: !self.no_header,
            nulls: if self.null.is_empty() {
                vec![String::new()]
            } else {
                self.null.clone()
            },
            comment: self.comment,
            encoding: self.encoding.clone(),
            detect: self.format == FormatName::Auto,
            skip: self.skip,
            skip_footer: self.skip_footer,
            trim: self.trim,
            formats: ValueFormats {
                dates: self.date_format.clone(),
                decimal: self.decimal,
                thousands: self.thousands,
                truths: self.truths.clone(),
                falsehoods: self.falsehoods.clone(),
                epochs: Vec::new(),
            },
            flatten: self.flatten,
            sheet: self.sheet.clone(),
            differing: match self.union {
                true => DifferingColumns::United,
                false => DifferingColumns::Refused,
            },
            ..TextOptions::default()
        })
    }

    /// What to read from a source that is a database; none where the sources are files.
    fn relation(&self, inputs: &[String]) -> Result<Option<Relation>> {
        let relation = match (&self.source_table, &self.source_query) {
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
                Err(Error::config("a database is a source by itself")
                    .hint("load files in a run of their own"))
            }
            (relation, Some(_), _) => Ok(relation),
        }
    }

    /// The sources, and the database that comes last; with --shard-by the databases that do.
    fn places<'a>(&self, places: &'a [String], usage: Usage) -> Result<(&'a [String], &'a [String])> {
        let Some((target, before)) = places.split_last() else {
            return Err(Error::config("no source and no database"));
        };
        let is_database = |place: &&String| targets::driver(place).is_ok();
        if let Err(error) = targets::driver(target) {
            let (databases, files): (Vec<&String>, Vec<&String>) = places.iter().partition(is_database);
            let files: Vec<&str> = files.iter().map(|file| file.as_str()).collect();
            return Err(match Path::new(target).is_file() {
                true => Error::config(format!(
                    "the last argument, '{target}', is a file and not a database"
                ))
                .hint(format!(
                    "name the database last, as in cp: tonnage {} {} {} {}",
                    usage.command,
                    files.join(" "),
                    databases
                        .last()
                        .map_or_else(|| "shop.db".to_owned(), |database| targets::redact(database)),
                    usage.options
                )),
                false => error,
            });
        }
        let mut others = 0;
        if self.shards.are_given() {
            others = before.iter().rev().take_while(is_database).count();
            // A database that is read comes first.
            if others == before.len() && (self.source_table.is_some() || self.source_query.is_some()) {
                others = others.saturating_sub(1);
            }
        }
        let (inputs, databases) = places.split_at(before.len() - others);
        if inputs.is_empty() {
            return Err(
                Error::config(format!("no source: '{target}' is the database")).hint(format!(
                    "name the files first: tonnage {} FILE.. {target} {}; - is standard input",
                    usage.command, usage.options
                )),
            );
        }
        Ok((inputs, databases))
    }

    /// Moves the rows of `places`, of which the last is the database, as `options` say; instants in the columns of
    /// `epochs` are numbers. The summary goes to standard error. `usage` is shown where a place is missing; `paths` are files that are named besides.
    pub async fn carry_out(
        &self,
        places: &[String],
        usage: Usage,
        options: LoadOptions,
        epochs: Vec<(String, EpochUnit)>,
        paths: Paths,
        quiet: bool,
    ) -> Result<Ending> {
        let (inputs, databases) = self.places(places, usage)?;
        let place = self.shards.place(databases)?;
        let mut text = self.text_options()?;
        text.timezone = options.timezone.clone();
        text.scan = options.scan;
        text.formats.epochs = epochs;
        let format = match self.format {
            FormatName::Auto => None,
            FormatName::Csv => Some(Format::Csv),
            FormatName::Tsv => Some(Format::Tsv),
            FormatName::Json => Some(Format::Json),
            FormatName::Parquet => Some(Format::Parquet),
            FormatName::Arrow => Some(Format::Arrow),
        };
        let relation = self.relation(inputs)?;
        let mut paths = paths;
        paths.sources(inputs, format);
        paths.databases(databases);
        if let LedgerChoice::File(path) = &self.ledger {
            paths.writes("--ledger", Some(path));
        }
        paths.writes("--rejects", self.rejects.as_deref());
        paths.report(self.report.as_deref());
        paths.check()?;
        let password = self.connection.password(place.first())?;
        let (inputs, jobs) = (inputs.to_vec(), self.jobs);
        let ledger = self.ledger.clone();
        // A task of its own, as the first read of a pipe may block and interrupts must be heard meanwhile.
        let preparing = tokio::spawn(async move {
            if options.new_files {
                let target = place.connect(password).await?;
                ledger.apply(&*target)?;
                return prepare_files(target, place.shown(), &inputs, format, &text, options).await;
            }
            let source = match relation {
                Some(relation) => open_database(&inputs, relation, jobs).await?,
                None => sources::open(&inputs, format, &text)?,
            };
            let target = place.connect(password).await?;
            ledger.apply(&*target)?;
            prepare(target, place.shown(), source, options).await
        });
        let prepared = async {
            let prepared = preparing.await;
            prepared.unwrap_or_else(|error| Err(Error::bug(format!("the rows were not prepared: {error}"))))
        };
        let prepared = match unless_interrupted(prepared).await {
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
        let show_style = if quiet { Style::None } else { self.progress };
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
        let written = match &self.report {
            Some(path) => write_report(path, &ended.report),
            None => Ok(()),
        };
        after_report(finish(ended, quiet, first.get().copied()), written)
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
    for note in &report.notes {
        text.push_str(&format!("  note: {note}\n"));
    }
    text
}
