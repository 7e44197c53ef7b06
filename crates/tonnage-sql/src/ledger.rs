//! The ledger of a SQL database: its vocabulary, its codec, and what is done to it, once for all databases.
//!
//! `tonnage_runs` has a row a run, `tonnage_slots` a row a slot of an unfinished run, `tonnage_inputs` the rows by which
//! runs are found ([`inputs`](tonnage_core::ledger::inputs)), and `tonnage_parts` a row a part of a job
//! ([`jobs`](tonnage_core::ledger::jobs)); a ledger of an earlier version gets the last two when a run, or a job, starts in it. Where the tables are, how they are made, and the compare-and-set of slots among the rows of a write are
//! each database's own.
//!
//! - Statements are written for a [`Dialect`] over [`Tables`]; values are parameters, in the order in which they are named.
//! - Rows come back as [`Value`]s, which one codec reads.
//! - What becomes of a run is a sequence of statements to a [`Session`], within a transaction that the database's [`Place`]
//!   begins and ends, as drivers differ in how one is undone whose future is dropped. Its isolation is READ COMMITTED, or one
//!   writer at a time: a statement that has waited for a lock sees what was committed meanwhile.
//! - The row of a run is locked before those of its slots, and before that of the part that it carries out, everywhere.

mod change;
mod codec;
mod find;
mod history;
mod jobs;
mod place;

use async_trait::async_trait;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{NewRun, RunDetail},
    slot::{Advance, Counts, SlotState},
};

pub use self::{
    change::rewrite,
    find::{inputs, other, runs, slots},
    history::fill,
    place::{Place, SqlLedger, Work},
};

/// The ledger's table of runs.
pub const RUNS: &str = "tonnage_runs";
/// The ledger's table of slots.
pub const SLOTS: &str = "tonnage_slots";
/// The ledger's table of what runs are found by.
pub const INPUTS: &str = "tonnage_inputs";
/// The ledger's table of parts of jobs.
pub const PARTS: &str = "tonnage_parts";
/// All of them, which are none of the user's.
pub const TABLES: [&str; 4] = [RUNS, SLOTS, INPUTS, PARTS];

/// The columns of a slot's state, in the order in which they are read; SQLite's ledger has other names.
pub const SLOT_COLUMNS: &str =
    "slot, block, block_rows, file, byte_offset, file_rows, source_rows, hash, written, skipped, rejected";

/// A value of the ledger, as a parameter or in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Null.
    Null,
    /// A number or, in a row, 64 unsigned bits as the integer of the same bits; 0 and 1 are false and true.
    Integer(i64),
    /// 64 unsigned bits, as a parameter.
    Bits(u64),
    /// Text.
    Text(String),
    /// Texts, as a parameter of a database with arrays ([`Keys::Array`]).
    Texts(Vec<String>),
    /// In a row, what no ledger holds, such as text that is not UTF-8.
    Unreadable,
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u64> for Value {
    fn from(bits: u64) -> Self {
        Self::Bits(bits)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// The values of a row, in the order of the columns.
pub type Row = Vec<Value>;

/// How the database says what not all say alike.
#[derive(Debug)]
pub struct Dialect {
    /// The parameter of this number, from 1 on.
    pub placeholder: fn(usize) -> String,
    /// The time now, in whole seconds since 1970.
    pub now: &'static str,
    /// The type that a sum of counts is cast to.
    pub count_type: &'static str,
    /// Behind a SELECT, locks its rows; empty where the transaction has locked everything.
    pub for_update: &'static str,
    /// Behind a SELECT, locks its rows of `r` but for those that others have locked.
    pub skip_locked: &'static str,
    /// Behind an INSERT, has it do nothing where there is such a row.
    pub on_conflict: &'static str,
    /// The code of an INSERT's error where there is such a row.
    pub duplicate: Option<&'static str>,
    /// The column that has a run's identity while it is unfinished, where there are no partial indexes.
    pub unfinished: Option<&'static str>,
    /// [`SLOT_COLUMNS`] in this ledger.
    pub slot_columns: &'static str,
    /// A column of slots that counts their moves, where there is one.
    pub moves: Option<&'static str>,
    /// That `run_id` begins with the text of a parameter, which has so many characters.
    pub begins_with: fn(&str, usize) -> String,
    /// How several keys are asked for.
    pub keys: Keys,
    /// Bytes of values that go in one statement, about.
    pub statement_bytes_max: usize,
}

/// How what is on record under several keys is asked for.
#[derive(Debug, Clone, Copy)]
pub enum Keys {
    /// All as one array.
    Array,
    /// At most so many in one statement.
    Each(usize),
}

impl Dialect {
    /// The first parameters of a statement. Each is named once, in this order.
    fn given<const N: usize>(&self) -> [String; N] {
        std::array::from_fn(|at| (self.placeholder)(at + 1))
    }

    /// So many parameters behind the first `before`, with commas between.
    fn list(&self, before: usize, count: usize) -> String {
        let each = (before + 1..=before + count).map(self.placeholder);
        each.collect::<Vec<_>>().join(", ")
    }
}

/// The ledger's tables, as the database's SQL names them.
#[derive(Debug, Clone)]
pub struct Tables {
    /// The SQL that they are named in.
    pub dialect: &'static Dialect,
    /// The schema or database that has them, as it is; empty where there is only one.
    pub schema: String,
    /// See [`RUNS`].
    pub runs: String,
    /// See [`SLOTS`].
    pub slots: String,
    /// See [`INPUTS`]; none in a ledger of an earlier version.
    pub inputs: Option<String>,
    /// See [`PARTS`]; none in a ledger of an earlier version.
    pub parts: Option<String>,
}

impl Tables {
    /// All of them in a schema, by what a name in it is in SQL.
    pub fn within(dialect: &'static Dialect, schema: &str, name: impl Fn(&str) -> String) -> Self {
        Self {
            dialect,
            schema: schema.to_owned(),
            runs: name(RUNS),
            slots: name(SLOTS),
            inputs: Some(name(INPUTS)),
            parts: Some(name(PARTS)),
        }
    }
}

/// A connection to the database of a ledger, and what it does to a run's table in the transactions of the ledger.
#[async_trait]
pub trait Session: Send {
    /// Rows of a query.
    async fn query(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>>;

    /// Runs a statement; how many rows it found to change.
    async fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64>;

    /// Does to the table what the run begins with, and notes in `detail` what is owed then.
    async fn prepare(&mut self, run: &NewRun, detail: &mut RunDetail) -> Result<()>;

    /// A run is being taken over, and its slots are at `slots`: no earlier owner moves them any more, and no later one has begun.
    async fn taken_over(&mut self, run_id: &str, slots: &[SlotState]) -> Result<()>;

    /// Gives the table of a run that ends what is owed to it, and takes that out of `detail`.
    async fn settle(&mut self, run_id: &str, detail: &mut RunDetail) -> Result<()>;

    /// Undoes what was done for a run that is forgotten; `owed` is its detail while it is unfinished and readable.
    async fn undo(&mut self, run_id: &str, owed: Option<&RunDetail>) -> Result<()>;
}

/// A database that has no ledger, where a run of it is to go on.
pub fn no_ledger() -> Error {
    Error::new(ErrorKind::Fenced, "this database has no ledger of runs any more")
        .hint("start the load anew with --restart")
}

/// A ledger of an earlier version, at `place`, in which a job is to be planned by who may not add to it.
pub fn no_parts(place: &str) -> Error {
    Error::new(
        ErrorKind::Refused,
        format!("the ledger in {place} is of an earlier version and has no table for jobs, which this user may not add"),
    )
    .hint("`tonnage init TARGET --execute`, by the ledger's owner, adds it")
}

/// A run that is to be taken over and is not there, or not unfinished.
fn no_run(run_id: &str) -> Error {
    Error::new(
        ErrorKind::Fenced,
        format!("run {run_id} is no longer in the ledger or has finished"),
    )
    .hint("tonnage runs lists what the ledger knows")
}

/// A run whose epoch is another one by now.
pub fn taken_over(run_id: &str) -> Error {
    Error::new(
        ErrorKind::Fenced,
        format!("run {run_id} was taken over by another process"),
    )
    .hint("tonnage runs shows where it stands")
}

/// Each of `advances`, which are committed, with the counts that were claimed for its slot.
pub fn with_claimed<'a>(claimed: &[Advance], advances: &'a [Advance]) -> Result<Vec<(&'a Advance, Counts)>> {
    let paired = |advance: &'a Advance| match claimed.iter().find(|claimed| claimed.slot == advance.slot) {
        Some(claimed) => Ok((advance, claimed.counts)),
        None => Err(Error::bug(format!(
            "slot {} is committed but was not begun",
            advance.slot
        ))),
    };
    advances.iter().map(paired).collect()
}

/// Inserts rows; `into` is a table with columns.
async fn insert(
    session: &mut dyn Session,
    dialect: &Dialect,
    into: &str,
    rows: impl IntoIterator<Item = Row, IntoIter: Send> + Send,
) -> Result<()> {
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        let (mut tuples, mut values, mut bytes) = (Vec::new(), Vec::new(), 0);
        while bytes < dialect.statement_bytes_max
            && values.len() < VALUES_AT_ONCE
            && let Some(row) = rows.next()
        {
            tuples.push(format!("({})", dialect.list(values.len(), row.len())));
            bytes += row.iter().map(size).sum::<usize>();
            values.extend(row);
        }
        let insert = format!("INSERT INTO {into} VALUES {}", tuples.join(", "));
        session.execute(&insert, &values).await?;
    }
    Ok(())
}

/// Parameters of a statement, about: databases take 32,766 and more.
const VALUES_AT_ONCE: usize = 10_000;

fn size(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        _ => size_of::<u64>(),
    }
}
