//! What a user asks for, before anything is decided.

use std::{fmt, path::PathBuf};

use tonnage_core::{
    error::{Error, Result},
    operation::{Durability, Method, Mode, Split},
    preparation::Preparation,
    table::TableName,
    types::ColumnType,
};
use tonnage_formats::sources::Scan;

use super::{REJECTS_MAX, Sort};

/// What a user asked for; everything `None` is decided by the plan.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// The table.
    pub table: TableName,
    /// What happens to rows.
    pub mode: Mode,
    /// A statement with `:name` parameters to run for every row, in place of table and mode.
    pub statement: Option<String>,
    /// The columns that recognise a row; empty takes the primary key. Of a statement the parameters that say what it
    /// touches; empty where nothing says so.
    pub key: Vec<String>,
    /// Whether an upsert or an ignore may go by any unique key that a row meets, where a statement of the database cannot name a
    /// single one.
    pub any_unique_key: bool,
    /// How rows travel.
    pub method: Option<Method>,
    /// The most rows of a write.
    pub batch_rows: Option<usize>,
    /// The most bytes of a write.
    pub batch_bytes: Option<usize>,
    /// Connections that write at once, in all.
    pub jobs: Option<usize>,
    /// Whether sizes of writes and the number of lanes are found while rows go in, where none are asked for.
    pub tune: Tune,
    /// Connections that write to one shard at once, of a table that is spread over several places.
    pub jobs_per_shard: Option<usize>,
    /// What becomes of statements that the database would split.
    pub split: Split,
    /// What a commit promises.
    pub durability: Option<Durability>,
    /// Whether rows of one primary key keep their order also in an insert, where the first of them is the one to be
    /// written. Other operations keep it anyway.
    pub in_key_order: bool,
    /// The order of rows.
    pub sort: Option<Sort>,
    /// Whether to empty the table first.
    pub truncate: bool,
    /// Whether to load into a new table that takes the place of the table at the end.
    pub recreate: bool,
    /// Whether to drop secondary indexes and build them again at the end.
    pub rebuild_indexes: bool,
    /// Whether the run is one transaction: all rows or none.
    pub single_transaction: bool,
    /// Whether to create the table.
    pub create: Create,
    /// How many rows the types of a created table's columns were inferred from.
    pub scan: Scan,
    /// Types for columns of a created table.
    pub types: Vec<(String, ColumnType)>,
    /// Source column to table column.
    pub map: Vec<(String, String)>,
    /// The table columns to load; without a header the names of the source's fields.
    pub columns: Option<Vec<String>>,
    /// The most source rows to read.
    pub limit: Option<u64>,
    /// How fast rows may go.
    pub rate: Option<Rate>,
    /// What a bad row does.
    pub on_error: OnError,
    /// Where rejects go; none takes a name of the run's own in the working directory.
    pub rejects: Option<PathBuf>,
    /// How many rejects stop the run.
    pub rejects_max: RejectsMax,
    /// New run, or an unfinished one.
    pub attempt: Attempt,
    /// Whether only files are loaded that no finished run has loaded into the table, by path, size, time and
    /// content; the ledger remembers them also when it has pruned the run. One that has changed since is refused. With
    /// [`Attempt::Resume`] an unfinished run that has taken up any of the files goes on first, alone; without it such a
    /// run is refused.
    pub new_files: bool,
    /// Whether the table is given the columns of the source that it lacks, which may be null.
    pub add_columns: bool,
    /// SQL that is run, in this order, before the first row of a run, and again by an attempt after one that has written
    /// none. It is no part of any transaction of the run.
    pub before_sql: Vec<String>,
    /// SQL that is run, in this order, once all rows are in and before the run is over: an attempt at a run whose SQL failed
    /// runs it again.
    pub after_sql: Vec<String>,
    /// Columns that the source does not have, and their values: a text in which `{..}` is a column of the source, `{file}`,
    /// `{row}`, `{run}`, `{now}`, or a function of such.
    pub add: Vec<(String, String)>,
    /// Whether names of the source are made plain: `First Name` is `first_name`.
    pub normalize_names: bool,
    /// Where positions are kept.
    pub ledger: LedgerPlace,
    /// Zone of times that carry none (IANA name).
    pub timezone: Option<String>,
    /// What whoever has chosen these wants the user to know, a sentence each: they are the first notes of the plan.
    pub notes: Vec<String>,
}

impl LoadOptions {
    /// What is to be done to the table around its rows. `Config` where it cannot be what was asked for.
    pub fn preparation(&self) -> Result<Preparation> {
        let preparation = match (self.recreate, self.rebuild_indexes, self.truncate) {
            (true, true, _) => {
                return Err(
                    Error::config("--recreate and --rebuild-indexes do not go together").hint(
                        "--truncate --rebuild-indexes empties the table and builds its indexes at the end",
                    ),
                );
            }
            (true, false, true) => {
                return Err(Error::config("--recreate and --truncate do not go together")
                    .hint("--recreate leaves no row of the old table by itself"));
            }
            (true, false, false) => Preparation::Recreate,
            (false, true, truncate) => Preparation::RebuildIndexes { truncate },
            (false, false, true) => Preparation::Truncate,
            (false, false, false) => Preparation::Keep,
        };
        let Some(option) = preparation.option() else {
            return Ok(preparation);
        };
        if self.ledger == LedgerPlace::None {
            return Err(Error::config(format!("{option} needs the ledger"))
                .hint("leave --ledger none out: the ledger holds what is owed to the table"));
        }
        if self.single_transaction {
            return Err(
                Error::config(format!("{option} does not go with --single-transaction")).hint(
                    match preparation {
                        Preparation::Recreate => "leave one out: --recreate shows all rows or none by itself",
                        _ => {
                            "leave one out: indexes are dropped before the rows, in a transaction of its own"
                        }
                    },
                ),
            );
        }
        if preparation == Preparation::Recreate && matches!(self.mode, Mode::Update | Mode::Delete) {
            return Err(Error::config(format!(
                "--recreate starts without rows, so {} would find nothing",
                self.mode.phrase()
            ))
            .hint("leave --recreate out"));
        }
        Ok(preparation)
    }

    /// Insert into `table`, everything else decided by the plan.
    pub fn new(table: TableName) -> Self {
        Self {
            table,
            mode: Mode::Insert,
            statement: None,
            key: Vec::new(),
            any_unique_key: false,
            method: None,
            batch_rows: None,
            batch_bytes: None,
            jobs: None,
            tune: Tune::Auto,
            jobs_per_shard: None,
            split: Split::Auto,
            durability: None,
            in_key_order: false,
            sort: None,
            truncate: false,
            recreate: false,
            rebuild_indexes: false,
            single_transaction: false,
            create: Create::No,
            scan: Scan::Sample,
            types: Vec::new(),
            map: Vec::new(),
            columns: None,
            limit: None,
            rate: None,
            on_error: OnError::Stop,
            rejects: None,
            rejects_max: RejectsMax::Rows(REJECTS_MAX),
            attempt: Attempt::New,
            new_files: false,
            add_columns: false,
            before_sql: Vec::new(),
            after_sql: Vec::new(),
            add: Vec::new(),
            normalize_names: false,
            ledger: LedgerPlace::Target,
            timezone: None,
            notes: Vec::new(),
        }
    }
}

/// Whether a load is tuned while its rows go in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tune {
    /// Sizes of writes and the number of lanes change with what writes take, up to what the plan says.
    Auto,
    /// They are what the plan says, but for a database that asks for less.
    Off,
}

/// Whether to create the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// It must be there.
    No,
    /// If it is missing.
    Missing,
    /// It must not be there.
    New,
    /// If it is there it is dropped first, with its rows.
    Replace,
}

/// How fast rows may go, over all lanes. Neither is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Rows a second.
    Rows(u64),
    /// Arrow bytes a second.
    Bytes(u64),
    /// Rows a second that come whether or not the database keeps up (an open loop): a write is due so long after the one
    /// before as its rows take, and one that begins late puts off none of those behind it.
    Offered(u64),
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) | Self::Offered(rows) => write!(f, "{rows} rows/s"),
            Self::Bytes(bytes) => write!(f, "{}/s", super::Bytes(*bytes as usize)),
        }
    }
}

/// What a bad row does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// Ends the run; the write it is in is undone.
    Stop,
    /// Goes to the rejects file; the run goes on.
    Reject,
}

/// How many rejects stop a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RejectsMax {
    /// This many are allowed.
    Rows(u64),
    /// This share of the rows read so far is allowed, in percent; counted from the 1,000th row on.
    Percent(f64),
}

impl RejectsMax {
    /// How many are allowed when `read` rows have been read.
    pub fn allowed(self, read: u64) -> u64 {
        match self {
            Self::Rows(rows) => rows,
            Self::Percent(percent) => (read.max(1_000) as f64 * percent / 100.0) as u64,
        }
    }
}

impl fmt::Display for RejectsMax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "{rows}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// New run, or an unfinished one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// A new run; refused while one of the same input is unfinished.
    New,
    /// Goes on where the unfinished run stopped; a new run where there is none.
    Resume,
    /// Forgets the unfinished run and starts a new one.
    Restart,
}

/// Where positions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerPlace {
    /// Where the target has it: in the database, in the transactions of the rows, or else in a local file.
    Target,
    /// In a local file, which is written after the rows. Only a plan says so.
    Local,
    /// Nowhere: not resumable, not exactly once.
    None,
}
