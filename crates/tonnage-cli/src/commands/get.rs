//! `tonnage get`: rows by their keys.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use tonnage::{
    Error, Result,
    fetch::{GetOptions, GetReport, Prepared, REQUEST_KEYS, RangeText, With, prepare},
    report::{Counted, Grouped},
    sinks::{Output, csv::CsvOptions, format_named},
    source::Source,
    sources::{self, Format, TextOptions, csv::records, files::format_of},
    stop::Stop,
    targets,
};

use super::tables::Files;
use crate::{
    Ending,
    connection::{ConnectionArgs, ShardArgs},
    interrupt::unless_interrupted,
    options::{byte, count},
    paths::Paths,
    progress::{self, ProgressArgs, Verbosity},
    report::{ReportArgs, write_report},
};

/// Get rows by their keys: many keys at once, each once, and those that are not there
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tonnage get shop.db 17 42 -t orders
  tonnage get shop.db --keys wanted.csv -t orders -o orders.parquet --missing gone.csv
  tonnage get postgresql://app@db/shop 'DE,Berlin' -t shops --ordered
  tonnage get shop.db 17 -t lines --from 2 --before 5 -o - --format jsonl
  tonnage get shop.db --keys wanted.csv -t orders --with lines --with customers -o found/
  tonnage get shop.db 17 -t orders --with lines --nested --format jsonl")]
pub struct GetArgs {
    /// The database: a URL, a file, or @NAME of targets.toml
    #[arg(value_name = "TARGET")]
    target: String,

    /// With --shard-by the other databases, then keys, each a CSV record without a header: 17, or DE,Berlin for a key of two columns; the first columns of a key
    /// get all rows below them
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    key_arguments: Vec<String>,

    /// The table: table, schema.table or "odd.name"
    #[arg(short, long, value_name = "TABLE")]
    table: String,

    /// The columns that keys are of: a primary or unique key, or the first columns of one [default: the primary key,
    /// or as many of its first columns as a key has]
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "What to get")]
    key: Vec<String>,

    /// Files, globs, directories or URLs of keys; - is standard input. Columns are found by name, others are not used
    #[arg(long, value_name = "SOURCE", help_heading = "What to get")]
    keys: Vec<String>,

    /// The columns wanted, in order, of another table as TABLE.COLUMN [default: all, but for those that the database
    /// computes]
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "What to get")]
    columns: Option<Vec<String>>,

    /// Columns to give as the database's own text, whatever they hold
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "What to get")]
    text: Vec<String>,

    /// Only rows whose next key column, behind those that are given, is at least V
    #[arg(
        long,
        value_name = "V",
        allow_negative_numbers = true,
        help_heading = "What to get"
    )]
    from: Option<String>,

    /// Only rows whose next key column is greater than V
    #[arg(
        long,
        value_name = "V",
        allow_negative_numbers = true,
        conflicts_with = "from",
        help_heading = "What to get"
    )]
    after: Option<String>,

    /// Only rows whose next key column is at most V
    #[arg(
        long,
        value_name = "V",
        allow_negative_numbers = true,
        help_heading = "What to get"
    )]
    to: Option<String>,

    /// Only rows whose next key column is less than V
    #[arg(
        long,
        value_name = "V",
        allow_negative_numbers = true,
        conflicts_with = "to",
        help_heading = "What to get"
    )]
    before: Option<String>,

    /// Also the rows of TABLE that belong to these: its foreign key leads to them (children), or theirs to it (parents),
    /// or to another table of --with; may be given again
    #[arg(long, value_name = "TABLE", help_heading = "Other tables")]
    with: Vec<String>,

    /// The columns that tables are joined by, where their foreign keys do not say it: 'lines(order_id) = orders(id)'
    #[arg(long, value_name = "A(X)=B(Y)", help_heading = "Other tables")]
    on: Vec<String>,

    /// Rows of other tables within those that they belong to: children as a list under their table's name, a parent as
    /// an object; as JSON lines, Parquet or Arrow [default: a file for each table]
    #[arg(long, requires = "with", help_heading = "Other tables")]
    nested: bool,

    /// Answer keys as often and in the order in which they are asked [default: each once, sorted]
    #[arg(long, help_heading = "How to do it")]
    ordered: bool,

    /// Connections that ask at once [default: one a processor, at most 4]
    #[arg(short, long, value_name = "N", help_heading = "How to do it")]
    jobs: Option<usize>,

    /// Keys of a request at most
    #[arg(long, value_name = "N", value_parser = count, default_value_t = REQUEST_KEYS as u64, help_heading = "How to do it")]
    request_keys: u64,

    /// The format of keys: csv, tsv, jsonl, parquet or arrow [default: by the files' endings; csv for standard
    /// input and other endings]
    #[arg(long, value_name = "FORMAT", help_heading = "How to read keys")]
    keys_format: Option<String>,

    /// The first line of keys is a key, not names
    #[arg(long, help_heading = "How to read keys")]
    keys_no_header: bool,

    /// The zone of times that carry none, for columns with time zone: Europe/Berlin, UTC
    #[arg(long, value_name = "ZONE", help_heading = "How to read keys")]
    timezone: Option<String>,

    /// The file to write rows to (.csv, .tsv, .jsonl, .parquet, .arrow; text also with .gz or .zst behind); - is
    /// standard output; with other tables a directory, or a name with {} in it for the table's
    #[arg(
        short,
        long,
        value_name = "OUT",
        default_value = "-",
        help_heading = "How to write"
    )]
    output: PathBuf,

    /// The file to write the keys to that have no row, as one that --keys reads
    #[arg(long, value_name = "PATH", help_heading = "How to write")]
    missing: Option<PathBuf>,

    /// The format of rows: csv, tsv, jsonl, parquet or arrow [default: by the ending of OUT; csv for -,
    /// jsonl with --nested; parquet for a directory]
    #[arg(long, value_name = "FORMAT", help_heading = "How to write")]
    format: Option<String>,

    /// Between fields of CSV: one character, or \t
    #[arg(long, value_name = "C", value_parser = byte, help_heading = "How to write")]
    delimiter: Option<u8>,

    /// Leave the line of column names out of CSV
    #[arg(long, help_heading = "How to write")]
    no_header: bool,

    /// Replace OUT and the file of missing keys if they exist
    #[arg(long, help_heading = "How to write")]
    overwrite: bool,

    #[command(flatten)]
    connection: ConnectionArgs,

    #[command(flatten)]
    shards: ShardArgs,

    #[command(flatten)]
    account: ReportArgs,

    #[command(flatten)]
    progress: ProgressArgs,
}

/// Gets; the summary goes to standard error.
pub async fn run(args: &GetArgs, verbosity: Verbosity) -> Result<Ending> {
    let options = options(args)?;
    let (databases, key_arguments) = databases(args);
    let place = args.shards.place(&databases)?;
    let password = args.connection.password(place.first())?;
    let (rows, missing) = outputs(args)?;
    let keys = keys(args, key_arguments)?;
    let mut paths = Paths::default();
    if let Keys::Inputs { inputs, format, .. } = &keys {
        paths.sources(inputs, *format);
    }
    paths.databases(&databases);
    paths.writes("-o", Some(&args.output));
    paths.writes("--missing", args.missing.as_deref());
    paths.report(args.account.path());
    paths.check()?;
    // A task of its own, as the first read of a pipe may block and interrupts must be heard meanwhile.
    let preparing = tokio::spawn(async move {
        let target = place.connect(password).await?;
        let source = tokio::task::spawn_blocking(move || keys.open());
        let source = source
            .await
            .map_err(|error| Error::bug(format!("the keys were not opened: {error}")))??;
        prepare(target, place.shown(), source, &options).await
    });
    let prepared = async {
        let prepared = preparing.await;
        prepared.unwrap_or_else(|error| Err(Error::bug(format!("the get was not prepared: {error}"))))
    };
    let prepared: Prepared = match unless_interrupted(prepared).await {
        Ok(prepared) => prepared,
        Err(interrupted) => return interrupted.ending(),
    };
    let (progress, stop) = (Arc::default(), Stop::default());
    let mut files = Files::create(&prepared, &rows, missing.as_ref(), &progress, &stop)?;
    for setting in &prepared.plan().settings_changed {
        tracing::info!("setting: {setting}");
    }
    let get = prepared.start()?;
    let stopped = stop.clone();
    let writing = tokio::spawn(async move {
        match files.write(get, &stopped).await {
            Ok(report) => Ok::<_, Error>((report, files.finish()?)),
            Err(error) => {
                files.abandon();
                Err(error)
            }
        }
    });
    let style = verbosity.progress(args.progress);
    let written = progress::written(writing, style, progress, &stop).await;
    let (report, closed) = match written {
        Ok(written) => written?,
        Err(ending) => return Ok(ending),
    };
    if let Some(path) = args.account.path() {
        write_report(path, &report)?;
    }
    if verbosity == Verbosity::Normal && !closed {
        eprint!("{}", summary(&report, args.missing.as_deref()));
    }
    Ok(Ending::Done)
}

/// The keys that the arguments name.
pub fn key_source(args: &GetArgs) -> Result<Box<dyn Source>> {
    keys(args, &args.key_arguments)?.open()
}

/// Where keys come from.
enum Keys {
    Arguments(Vec<String>),
    Inputs {
        inputs: Vec<String>,
        format: Option<Format>,
        text: Box<TextOptions>,
    },
}

impl Keys {
    fn open(self) -> Result<Box<dyn Source>> {
        match self {
            Self::Arguments(keys) => records("arguments", &keys),
            Self::Inputs { inputs, format, text } => sources::open(&inputs, format, &text),
        }
    }
}

/// The database, with --shard-by all that are named, and the arguments behind them.
fn databases(args: &GetArgs) -> (Vec<String>, &[String]) {
    let is_database = |place: &&String| targets::driver(place).is_ok();
    let others = match args.shards.are_given() {
        true => args.key_arguments.iter().take_while(is_database).count(),
        false => 0,
    };
    let (others, keys) = args.key_arguments.split_at(others);
    (
        std::iter::once(&args.target).chain(others).cloned().collect(),
        keys,
    )
}

fn keys(args: &GetArgs, key_arguments: &[String]) -> Result<Keys> {
    if !key_arguments.is_empty() && !args.keys.is_empty() {
        return Err(Error::config(format!(
            "keys are named by arguments ({}) and by --keys",
            key_arguments.join(" ")
        ))
        .hint("leave one of them out"));
    }
    if !key_arguments.is_empty() {
        return Ok(Keys::Arguments(key_arguments.to_vec()));
    }
    if args.keys.is_empty() {
        return Err(Error::config("no keys").hint(format!(
            "name them behind the database, or a file of them: tonnage get {} --keys wanted.csv -t {}; - is standard \
             input",
            targets::redact(&args.target),
            args.table
        )));
    }
    // A list of keys often has a name that tells nothing, and is what CSV is as well: a key a line.
    let tells_nothing = |input: &String| Path::new(input).is_file() && format_of(Path::new(input)).is_none();
    Ok(Keys::Inputs {
        inputs: args.keys.clone(),
        format: match &args.keys_format {
            Some(name) => Some(format_named(name)?),
            None => args.keys.iter().all(tells_nothing).then_some(Format::Csv),
        },
        text: Box::new(TextOptions {
            header: !args.keys_no_header,
            timezone: args.timezone.clone(),
            ..TextOptions::default()
        }),
    })
}

/// What is asked for, the keys aside.
pub fn options(args: &GetArgs) -> Result<GetOptions> {
    let end = |inclusive: &Option<String>, exclusive: &Option<String>| {
        let text = |value: &String, inclusive| RangeText {
            value: value.clone(),
            inclusive,
        };
        let closed = inclusive.as_ref().map(|value| text(value, true));
        closed.or_else(|| exclusive.as_ref().map(|value| text(value, false)))
    };
    if args.request_keys == 0 {
        return Err(Error::config("--request-keys must be at least 1"));
    }
    let mut with: Vec<With> = Vec::with_capacity(args.with.len());
    for table in &args.with {
        with.push(With::new(table.parse()?));
    }
    let mut columns: Option<Vec<String>> = None;
    for name in args.columns.iter().flatten() {
        match of_other(name, &mut with) {
            Some((table, column)) => table.columns.get_or_insert_default().push(column),
            None => columns.get_or_insert_default().push(name.clone()),
        }
    }
    let mut texts = Vec::new();
    for name in &args.text {
        match of_other(name, &mut with) {
            Some((table, column)) => table.texts.push(column),
            None => texts.push(name.clone()),
        }
    }
    let on = args.on.iter().map(|on| on.parse());
    Ok(GetOptions {
        key: args.key.clone(),
        columns,
        texts,
        on: on.collect::<Result<_>>()?,
        with,
        nested: args.nested,
        from: end(&args.from, &args.after),
        to: end(&args.to, &args.before),
        ordered: args.ordered,
        jobs: args.jobs,
        request_keys: usize::try_from(args.request_keys).unwrap_or(usize::MAX),
        timezone: args.timezone.clone(),
        ..GetOptions::new(args.table.parse()?)
    })
}

/// The table of --with that `TABLE.COLUMN` is of, and the column.
fn of_other<'a>(name: &str, with: &'a mut [With]) -> Option<(&'a mut With, String)> {
    let (table, column) = name.rsplit_once('.')?;
    let is_it = |with: &&mut With| {
        let names = [with.table.to_string(), with.table.name.clone()];
        names.iter().any(|name| name.eq_ignore_ascii_case(table))
    };
    Some((with.iter_mut().find(is_it)?, column.to_owned()))
}

/// Where rows go, and the keys without.
fn outputs(args: &GetArgs) -> Result<(Output, Option<Output>)> {
    let is_stdout = |path: &Path| path == Path::new("-");
    let places = [
        Some(args.output.as_path()),
        args.missing.as_deref(),
        args.account.path(),
    ];
    if places
        .into_iter()
        .flatten()
        .filter(|path| is_stdout(path))
        .count()
        > 1
    {
        return Err(
            Error::config("only one of rows, missing keys and the report can go to standard output")
                .hint("send the others to files: -o OUT, --missing PATH, --report PATH"),
        );
    }
    let csv = CsvOptions {
        delimiter: args.delimiter,
        header: !args.no_header,
    };
    let format = args.format.as_deref().map(format_named).transpose()?;
    let rows = Output {
        // CSV has no rows within rows.
        format: format.or((args.nested && is_stdout(&args.output)).then_some(Format::Json)),
        overwrite: args.overwrite,
        csv,
        ..Output::new(&args.output)
    };
    let missing = args.missing.as_ref().map(|path| Output {
        overwrite: args.overwrite,
        ..Output::new(path)
    });
    Ok((rows, missing))
}

/// The account in a few lines.
fn summary(report: &GetReport, missing: Option<&Path>) -> String {
    let mut text = format!(
        "{} of {}: {} in {:.2} s, {} keys/s\n",
        report.table,
        report.target,
        Counted(report.rows, "row"),
        report.seconds,
        Grouped(report.keys_per_second as u64)
    );
    text.push_str(&format!("  keys ({}): {}\n", report.key.join(", "), report.keys));
    text.push_str(&format!(
        "  {} by {}\n",
        Counted(report.requests, "request"),
        Counted(report.jobs as u64, "job")
    ));
    for related in &report.related {
        let rows = Counted(related.rows, "row");
        text.push_str(&format!("  {}: {rows} ({})\n", related.table, related.on));
    }
    if let Some(path) = missing.filter(|_| report.keys.missing > 0) {
        text.push_str(&format!("  missing keys in {}\n", path.display()));
    }
    for note in &report.notes {
        text.push_str(&format!("  note: {note}\n"));
    }
    text
}
