//! What every target must keep, as suites over a [`Fixture`]: one case a function, run on every database.
//!
//! - What runs is derived from what the target says of itself: its capabilities, `Target::support`, its parts.
//! - Nothing is skipped in silence. What a target says that it cannot do is asked for all the same, and has to be refused
//!   with an error of the user's kind, and to have changed nothing.
//! - Where a database takes less than the contract asks, its fixture says so as an [`Exception`], which has to be true.
//!
//! A target's tests make a fixture and instantiate all cases with [`suites!`]:
//!
//! ```ignore
//! tonnage_contract::suites!(DirectoryFixture::new().await);
//! ```

pub mod claims;
pub mod faults;
pub mod faulty;
pub mod get;
pub mod jobs;
pub mod ledger;
pub mod model;
pub mod operations;
pub mod rejects;
pub mod resume;
pub mod transactions;
pub mod unload;
pub mod values;

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use tempfile::TempDir;
use tonnage_core::{
    ColumnType, Error, ErrorKind, Result,
    convert::shown_value,
    operation::{Method, Mode, Operation, Support},
    reader::BeyondArrow,
    table::{ColumnSpec, Table, TableName, TableSpec},
    target::{Rows, Target},
};
use tonnage_engine::{connected::Connected, load::builder::Load, plan::RejectsMax, unload::builder::Unload};

/// A database of one test's own, without tables.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// The database.
    fn target(&self) -> Arc<dyn Target>;

    /// The same database and the same ledger, connected to anew as by another process.
    async fn again(&self) -> Arc<dyn Target>;

    /// The rows of a table, counted behind the target's back.
    async fn count(&self, table: &str) -> u64;

    /// What it takes less than the contract asks.
    fn exceptions(&self) -> &'static [Exception];

    /// Types that columns are made of another one for: what was asked for, and what they are.
    fn other_types(&self) -> &'static [(&'static str, &'static str)];

    /// The name of a table that was made as `given`, where the database keeps names in another case.
    fn table_name(&self, given: &str) -> String {
        given.to_owned()
    }

    /// The same database as others reach it, in statements; none where it has no language.
    fn language(&self) -> Option<&dyn Language>;
}

/// What others than the target do to a database.
#[async_trait]
pub trait Language: Send + Sync {
    /// Runs statements, which end at semicolons at the ends of lines.
    async fn run(&self, statements: &str);

    /// Tables that mean the same to a load as one that the target makes, and take other ways.
    fn layouts(&self) -> &'static [Layout];

    /// What becomes of a table `t` of a key `id` and texts `v` and `w` while it is written to.
    fn alterations(&self) -> &'static [Alteration];

    /// What may be done to it and is no alteration.
    fn harmless(&self) -> &'static str;
}

/// A table `t` of a key `id` of whole numbers and texts `v` and `w`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Makes it.
    pub made_by: &'static str,
    /// Whether it refuses a `v` of `bad`.
    pub refusing: Refusing,
}

impl Layout {
    /// That refuses a `v` of `bad`.
    pub const fn refusing(made_by: &'static str) -> Self {
        Self {
            made_by,
            refusing: Refusing::Bad,
        }
    }
}

/// Whether a table refuses rows of which a column says that they are bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusing {
    /// It refuses them.
    Bad,
    /// It has no conditions.
    Nothing,
}

/// An alteration of a table by somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alteration {
    /// Statements; they may leave a table `old`.
    pub statements: &'static str,
    /// What the error says of it.
    pub message: &'static str,
    /// Who is refused.
    pub refused: Writers,
}

impl Alteration {
    /// That no writer of the plan passes over.
    pub const fn of(statements: &'static str, message: &'static str) -> Self {
        Self {
            statements,
            message,
            refused: Writers::All,
        }
    }
}

/// Writers of a plan whose table was altered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// All of that plan.
    All,
    /// Those that were open: it is no part of what the plan rests on.
    Open,
}

/// A value that a database does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exception {
    /// The type of the column, as it is shown.
    pub ty: &'static str,
    /// The value, or none for a type that no column can be made of.
    pub value: Option<&'static str>,
}

/// Makes a test of each case of each suite. The expression makes the fixture and may await.
#[macro_export]
macro_rules! suites {
    ($fixture:expr) => {
        $crate::suites!(@suite $fixture, ledger: [
            a_claim_moves_a_slot_once, a_rollback_moves_nothing, an_owner_that_was_taken_over_moves_nothing,
            an_identity_has_one_unfinished_run, a_finished_run_stays_finished, a_run_is_forgotten_once,
            inputs_are_found_after_pruning, an_unknown_run_is_no_run,
        ]);
        $crate::suites!(@suite $fixture, claims: [
            a_retry_learns_what_became_of_its_predecessor, a_take_over_is_the_end_of_what_it_finds_open,
            a_commit_comes_about_or_its_run_is_forgotten, first_runs_at_once_make_one_ledger,
            a_slot_that_is_elsewhere_is_not_moved, counts_are_what_the_commit_says, a_start_is_on_record,
            a_table_is_emptied_with_the_start_or_not_at_all,
        ]);
        $crate::suites!(@suite $fixture, jobs: [
            a_part_has_one_attempt_at_a_time, an_attempt_that_lost_its_part_does_nothing, a_lease_ends,
            a_part_is_done_with_its_run, a_job_is_finished_once_all_parts_are, connections_have_a_bound,
            a_job_is_forgotten_with_its_parts,
        ]);
        $crate::suites!(@suite $fixture, transactions: [
            what_is_not_committed_is_not_there, a_table_that_was_altered_is_not_written,
        ]);
        $crate::suites!(@suite $fixture, values: [every_type_comes_back_as_it_went, a_table_has_the_types_it_was_made_with]);
        $crate::suites!(@suite $fixture, operations: [
            inserts, upserts, ignores, updates, deletes, an_upsert_of_keys_alone_leaves_rows_as_they_are,
            a_key_is_refused_or_kept,
        ]);
        $crate::suites!(@suite $fixture, model: [loads_do_what_one_row_at_a_time_does]);
        $crate::suites!(@suite $fixture, rejects: [a_bad_row_costs_only_itself, more_bad_rows_than_allowed_end_the_run]);
        $crate::suites!(@suite $fixture, resume: [a_stopped_run_goes_on, an_input_that_changed_is_refused]);
        $crate::suites!(@suite $fixture, unload: [
            all_rows_come_once, what_is_asked_for_comes, what_cannot_be_read_is_refused_before_a_file_is_made,
            all_of_it_is_of_one_moment, a_table_is_compared_with_files,
        ]);
        $crate::suites!(@suite $fixture, get: [found_and_missing]);
        $crate::suites!(@suite $fixture, faults: [a_connection_lost_anywhere]);
    };
    (@suite $fixture:expr, $suite:ident: [$($case:ident),+ $(,)?]) => {
        mod $suite {
            use super::*;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let fixture = $fixture;
                $crate::$suite::$case(&fixture).await;
            })+
        }
    };
}

/// A row as it is read: its values as text.
type Row = Vec<Option<String>>;

fn row(id: i64, v: impl Into<String>) -> Row {
    vec![Some(id.to_string()), Some(v.into())]
}

/// Whether tables can have a key, and the key of those that are made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keyed {
    Yes,
    No,
}

impl Keyed {
    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Yes => &["id"],
            Self::No => &[],
        }
    }
}

fn spec(name: &str, columns: &[(&str, ColumnType, bool)], keyed: Keyed) -> TableSpec {
    let columns = columns.iter().map(|(name, ty, nullable)| ColumnSpec {
        name: (*name).to_owned(),
        ty: *ty,
        nullable: *nullable,
    });
    TableSpec {
        name: TableName::bare(name),
        columns: columns.collect(),
        key: keyed
            .columns()
            .iter()
            .map(|column| (*column).to_owned())
            .collect(),
    }
}

/// Makes a table `t` of an `id`, its key if it can have one, and a text `v`.
async fn make(target: &Arc<dyn Target>) -> (Table, Keyed) {
    make_of(
        target,
        &[("id", ColumnType::Int64, false), ("v", ColumnType::TEXT, true)],
    )
    .await
}

/// A table of a key `id` and texts `v` and `w`, as [`Language`] means it.
const WIDE: &[(&str, ColumnType, bool)] = &[
    ("id", ColumnType::Int64, false),
    ("v", ColumnType::TEXT, true),
    ("w", ColumnType::TEXT, true),
];

/// The operation of `mode` by the key `id`.
fn operation(mode: Mode) -> Operation {
    let key = vec!["id".to_owned()];
    match mode {
        Mode::Insert => Operation::Insert,
        Mode::Upsert => Operation::Upsert { key },
        Mode::Ignore => Operation::Ignore { key },
        Mode::Update => Operation::Update { key },
        Mode::Delete => Operation::Delete { key },
    }
}

/// The methods by which `mode` goes on `table`, fastest first.
fn methods(target: &Arc<dyn Target>, table: &Table, mode: Mode) -> Vec<Method> {
    let can = |method: &Method| target.support(table, &operation(mode), *method) == Support::Yes;
    target
        .capabilities()
        .methods
        .iter()
        .copied()
        .filter(can)
        .collect()
}

/// Drops `t`, if it is there.
async fn drop_t(target: &Arc<dyn Target>) {
    let there = target
        .table(&TableName::bare("t"))
        .await
        .expect("the catalogue is read");
    if let Some(table) = there {
        let dropped = target.drop_table(&table, Rows::Drop).await.expect("an answer");
        assert!(dropped, "it is still that table");
    }
}

async fn make_of(target: &Arc<dyn Target>, columns: &[(&str, ColumnType, bool)]) -> (Table, Keyed) {
    let keyed = match target.create(&spec("t", columns, Keyed::Yes)).await {
        Ok(()) => Keyed::Yes,
        Err(error) => {
            assert_refused(&error);
            target
                .create(&spec("t", columns, Keyed::No))
                .await
                .expect("a table without a key");
            Keyed::No
        }
    };
    (described(target).await, keyed)
}

async fn described(target: &Arc<dyn Target>) -> Table {
    let table = target
        .table(&TableName::bare("t"))
        .await
        .expect("the catalogue is read");
    table.expect("the table is there")
}

/// What cannot be done is the user's to change, and says what it is.
#[track_caller]
fn assert_refused(error: &Error) {
    let kinds = [ErrorKind::Config, ErrorKind::Schema];
    assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
    assert!(!error.to_string().is_empty());
}

/// Files of a test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A CSV file of `id` and `v`.
    fn csv(&self, name: &str, rows: impl IntoIterator<Item = (i64, String)>) -> String {
        let mut text = "id,v\n".to_owned();
        for (id, v) in rows {
            writeln!(text, "{id},{v}").expect("memory");
        }
        self.text(name, &text)
    }

    fn text(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("a file is written");
        path.display().to_string()
    }

    fn rejects(&self) -> PathBuf {
        self.path("rejects.jsonl")
    }
}

fn connected(target: &Arc<dyn Target>) -> Connected {
    Connected::new(target.clone(), "contract")
}

/// A load into `t` that puts bad rows aside.
fn load(target: &Arc<dyn Target>, path: &str, rejects: &Path) -> Load {
    connected(target)
        .load(path)
        .table("t")
        .rejects(rejects, RejectsMax::Rows(1_000))
}

/// The rows of a table, sorted, read by so many jobs.
async fn read(target: &Arc<dyn Target>, table: &str, jobs: usize) -> Result<Vec<Row>> {
    rows_of(connected(target).unload(table).jobs(jobs)).await
}

/// What an unload reads, sorted.
async fn rows_of(unload: Unload) -> Result<Vec<Row>> {
    let mut batches = unload.batches().await?;
    let mut rows = Vec::new();
    while let Some(batch) = batches.next().await? {
        rows.extend(texts(&batch));
    }
    rows.sort();
    Ok(rows)
}

/// The rows of `t`: those that the target reads, which are as many as are there.
async fn rows(fixture: &dyn Fixture) -> Vec<Row> {
    let target = fixture.again().await;
    let read = read(&target, "t", 2).await;
    match target.parts().scan {
        Some(_) => {
            let read = read.expect("rows are read");
            assert_eq!(read.len() as u64, fixture.count("t").await, "{read:?}");
            read
        }
        None => panic!(
            "the contract reads rows by scan, which {} lacks",
            target.capabilities().product
        ),
    }
}

fn texts(batch: &RecordBatch) -> Vec<Row> {
    let value = |row| move |column| shown_value(column, row, BeyondArrow::Refused);
    let row = |row| batch.columns().iter().map(value(row)).collect();
    (0..batch.num_rows()).map(row).collect()
}
