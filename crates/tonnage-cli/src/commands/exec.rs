//! `tonnage exec`: a statement for every row of files.

use std::path::Path;

use clap::Args;
use tonnage::{
    Error, Result,
    plan::{LedgerPlace, LoadOptions},
    table::TableName,
};

use super::rows::{ColumnTypes, Place, Rows, RowsArgs, RowsFrom, Task, Usage, Verifying};
use crate::{Ending, described::Given, options::pair, paths::Paths, progress::Verbosity};

/// Run an INSERT, UPDATE, DELETE or MERGE with :name parameters for every row of files, exactly once
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tonnage exec moves.csv shop.db --sql 'update stock set quantity = quantity + :moved where id = :id'
  tonnage exec gone.parquet postgresql://app@db/shop --sql @archive.sql --key customer -j 4")]
pub struct ExecArgs {
    /// Files, globs, directories or URLs (- is standard input), or a database, and the database to write to last: a URL, a
    /// file, or @NAME of targets.toml
    #[arg(value_name = "SOURCE... TARGET", required = true)]
    places: Vec<String>,

    /// The statement, or @FILE that holds it; :name is the value of column 'name' of the row at hand
    #[arg(long, value_name = "SQL|@FILE")]
    sql: String,

    /// The parameters that say which rows the statement touches: rows that differ in them may be applied at the same
    /// time [default: all rows in their order, by one job]
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "What to do")]
    key: Vec<String>,

    /// The type of a parameter, where the database has none: id=int64, price=decimal(10,2)
    #[arg(long = "type", value_name = "NAME=TYPE", value_parser = pair, help_heading = "What to do")]
    types: Vec<(String, String)>,

    #[command(flatten)]
    rows: RowsArgs,
}

const USAGE: Usage = Usage {
    command: "exec",
    options: "--sql SQL",
};

/// Runs the statement; the summary goes to standard error.
pub async fn run(args: &ExecArgs, verbosity: Verbosity) -> Result<Ending> {
    let mut paths = Paths::default();
    if let Some(path) = args.sql.strip_prefix('@') {
        paths.reads("--sql", Path::new(path));
    }
    let task = task(args)?;
    args.rows
        .carry_out(&args.places, USAGE, task, paths, verbosity)
        .await
}

/// The rows `from` the program or of its files, for a database at hand.
pub fn rows(args: &ExecArgs, given: Given, place: Place) -> Result<Rows> {
    let mut task = task(args)?;
    let from = match given {
        Given::Inputs(inputs) => args.rows.files(&inputs, &task)?,
        Given::Source { source, in_one } => {
            let options = &mut task.options;
            let has_ledger = options.ledger != LedgerPlace::None;
            options.single_transaction |= in_one && args.rows.goes_in_one_transaction() && has_ledger;
            RowsFrom::Source(source)
        }
    };
    Ok(args.rows.rows(from, place, task))
}

fn task(args: &ExecArgs) -> Result<Task> {
    let statement = match args.sql.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path).map_err(|error| {
            Error::config(format!("--sql @{path}: {error}"))
                .hint("@ is followed by the name of a file that holds the statement")
        })?,
        None => args.sql.clone(),
    };
    let ColumnTypes { types, epochs } =
        ColumnTypes::parse(&[args.rows.types(), args.types.clone()].concat())?;
    let options = LoadOptions {
        statement: Some(statement),
        key: args.key.clone(),
        types,
        ..args.rows.options(TableName::bare(""))?
    };
    Ok(Task {
        options,
        epochs,
        verifying: Verifying::No,
    })
}
