//! `tonnage load`: files, or rows of another database, into a table.

use clap::{Args, ValueEnum};
use tonnage::{
    Error, Result,
    parse::EpochUnit,
    plan::{Create, LedgerPlace, LoadOptions, Sort},
    sources::Scan,
};

use super::rows::{ColumnTypes, Place, Rows, RowsArgs, RowsFrom, Task, Usage, Verifying};
use crate::{
    Ending,
    described::Given,
    options::{ModeName, pair},
    paths::Paths,
    progress::Verbosity,
};

/// Load files into a table: every row once, bad ones put aside, resumable
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tonnage load orders.csv shop.db -t orders
  tonnage load 'orders/*.csv.gz' postgresql://app@db/shop -t orders --mode upsert --key id
  tonnage generate sbtest --rows 1M -o - | tonnage load - shop.db -t sbtest1 --create")]
pub struct LoadArgs {
    /// Files, globs, directories or URLs (- is standard input), or a database, and the database to load into last: a URL, a
    /// file, or @NAME of targets.toml
    #[arg(value_name = "SOURCE... TARGET", required = true)]
    pub places: Vec<String>,

    /// The table: table, schema.table or "odd.name"
    #[arg(short, long, value_name = "TABLE")]
    table: String,

    /// What happens to a row
    #[arg(long, value_enum, default_value_t = ModeName::Insert, help_heading = "What to do")]
    mode: ModeName,

    /// The columns that recognise a row [default: the primary key], or the primary key of a table that --create makes
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "What to do")]
    key: Vec<String>,

    /// Let an upsert or an ignore go by whichever unique key a row meets, where a table has several and the database can
    /// be told no single one
    #[arg(long, help_heading = "What to do")]
    any_unique_key: bool,

    /// Create the table from the source's columns: where it is missing, as one that must be new, or in place of one that
    /// is there, which is dropped with its rows
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "missing", help_heading = "What to do")]
    create: Option<CreateName>,

    /// The rows of text that the types of a table that --create makes are inferred from: the first ones, or all, which
    /// are read once more before; auto takes all of files of up to 64 MiB together
    #[arg(long, value_enum, default_value_t = ScanName::Auto, requires = "create", help_heading = "What to do")]
    scan: ScanName,

    /// The type of a column of a table that --create makes: id=int64, price=decimal(10,2); timestamp(epoch_ms), also
    /// epoch_s, _us, _ns, reads instants that are numbers, into a table that is there as well
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = pair, help_heading = "What to do")]
    types: Vec<(String, String)>,

    /// Empty the table when the run starts
    #[arg(long, help_heading = "What to do")]
    truncate: bool,

    /// Give the table the columns of the input that it lacks; they may be null
    #[arg(long, help_heading = "What to do")]
    add_columns: bool,

    /// SQL to run before the first row; may be given again. An attempt after one that has written nothing runs it again
    #[arg(long, value_name = "SQL", help_heading = "What to do")]
    before_sql: Vec<String>,

    /// SQL to run after the last row; may be given again. Where it fails the run is unfinished, and --resume runs it again
    #[arg(long, value_name = "SQL", help_heading = "What to do")]
    after_sql: Vec<String>,

    /// Load only the files that no finished run has loaded into the table; with --resume an unfinished run goes on first
    #[arg(long, conflicts_with_all = ["restart", "truncate", "recreate", "source_table", "source_query"], help_heading = "What to do")]
    new_files: bool,

    /// Load into a new table like the table, which takes its place at the end; until then readers see the old one
    #[arg(long, help_heading = "What to do")]
    recreate: bool,

    /// Drop the secondary indexes of an empty table when the run starts, and build them again at its end; a run that
    /// is interrupted builds them when it is resumed or forgotten
    #[arg(long, help_heading = "How to do it")]
    rebuild_indexes: bool,

    /// Read the input again at the end and look whether every row that was to be written is in the table with its values;
    /// exit code 5 where one is not
    #[arg(long, help_heading = "What to do")]
    verify: bool,

    #[command(flatten)]
    pub rows: RowsArgs,

    /// Sort rows by primary key: not at all, within each block, or all of them before the first is written (spills
    /// to temporary files) [auto: block where there is a primary key]
    #[arg(long, value_enum, default_value_t = SortName::Auto, help_heading = "How to do it")]
    sort: SortName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CreateName {
    Missing,
    New,
    Replace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScanName {
    Auto,
    Sample,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SortName {
    Auto,
    None,
    Block,
    Full,
}

const USAGE: Usage = Usage {
    command: "load",
    options: "-t TABLE",
};

/// Loads; the summary goes to standard error.
pub async fn run(args: &LoadArgs, verbosity: Verbosity) -> Result<Ending> {
    let task = task(args)?;
    let options = &task.options;
    if args.rows.headerless() && options.columns.is_none() && options.create != Create::No {
        tracing::info!("without a header the new table's columns are c1, c2 ..; --columns names them");
    }
    args.rows
        .carry_out(&args.places, USAGE, task, Paths::default(), verbosity)
        .await
}

/// The rows `from` the program or of its files, into a database at hand.
pub fn rows(args: &LoadArgs, given: Given, place: Place) -> Result<Rows> {
    let mut task = task(args)?;
    let options = &mut task.options;
    let from = match given {
        Given::Inputs(inputs) => args.rows.files(&inputs, &task)?,
        Given::Source { source, in_one } => {
            let is_apart = options.recreate || options.rebuild_indexes || options.ledger == LedgerPlace::None;
            options.single_transaction |= in_one && args.rows.goes_in_one_transaction() && !is_apart;
            RowsFrom::Source(source)
        }
    };
    Ok(args.rows.rows(from, place, task))
}

/// Reads the arguments.
pub fn task(args: &LoadArgs) -> Result<Task> {
    let (options, epochs) = options(args)?;
    Ok(Task {
        options,
        epochs,
        verifying: match args.verify {
            true => Verifying::Yes,
            false => Verifying::No,
        },
    })
}

/// What to do, and the columns whose instants are numbers.
pub fn options(args: &LoadArgs) -> Result<(LoadOptions, Vec<(String, EpochUnit)>)> {
    let ColumnTypes { mut types, epochs } =
        ColumnTypes::parse(&[args.rows.types(), args.types.clone()].concat())?;
    if args.create.is_none() && !args.add_columns {
        // The column has its own type: how its values are written is all that is said of it.
        types.retain(|(name, _)| epochs.iter().all(|(epoch, _)| epoch != name));
    }
    let makes_columns = args.create.is_some() || args.add_columns;
    if !types.is_empty() && !makes_columns {
        return Err(Error::config("--type is for tables that --create makes")
            .hint("a column's own type decides how text is read"));
    }
    let options = LoadOptions {
        mode: args.mode.mode(),
        key: args.key.clone(),
        any_unique_key: args.any_unique_key,
        sort: match args.sort {
            SortName::Auto => None,
            SortName::None => Some(Sort::None),
            SortName::Block => Some(Sort::Block),
            SortName::Full => Some(Sort::Full),
        },
        truncate: args.truncate,
        add_columns: args.add_columns,
        before_sql: args.before_sql.clone(),
        after_sql: args.after_sql.clone(),
        new_files: args.new_files,
        recreate: args.recreate,
        rebuild_indexes: args.rebuild_indexes,
        create: match args.create {
            None => Create::No,
            Some(CreateName::Missing) => Create::Missing,
            Some(CreateName::New) => Create::New,
            Some(CreateName::Replace) => Create::Replace,
        },
        scan: match args.scan {
            ScanName::Auto if !makes_columns => Scan::Sample,
            ScanName::Auto => Scan::Auto,
            ScanName::Sample => Scan::Sample,
            ScanName::All => Scan::All,
        },
        types,
        ..args.rows.options(args.table.parse()?)?
    };
    Ok((options, epochs))
}
