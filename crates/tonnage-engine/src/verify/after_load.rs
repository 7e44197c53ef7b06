//! Whether the rows of a source are in a table once a load has ended.
//!
//! Rows with a key are looked for by it, whatever else the table holds. Without one only a table that held nothing before can
//! be compared, as a whole. What the load put aside is left out, and what it was to leave out is not held against it.

use std::{
    collections::HashSet,
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
    sync::Arc,
    time::Instant,
};

use serde::Deserialize;
use tonnage_core::{
    error::{Error, Result},
    operation::Operation,
    preparation::Preparation,
    reader::Relation,
    report::{Counted, Report},
    source::Source,
    stop::Stop,
    table::TableName,
    target::{Target, WriteColumn},
};
use tonnage_formats::sources::{added, empty};

use super::{
    DIFFERENCES, Decided, Differing, Expected, Kind, Opened, VerifyReport, compare::Winner, comparison,
    context, request, workers,
};
use crate::{
    load::{Prepared, Progress, fillable},
    plan::{Attempt, LoadOptions},
};

/// What is to be compared once a load has ended.
pub struct AfterLoad {
    target: Arc<dyn Target>,
    url: String,
    source: Box<dyn Source>,
    options: LoadOptions,
    columns: Vec<WriteColumn>,
    key: Vec<String>,
    expected: Expected,
    /// Whether rows whose key is there are left out.
    ignores: bool,
    /// Whether the load itself sees to it that the table has no other rows.
    begins_empty: bool,
}

impl Prepared {
    /// What is to be compared once this load has ended; `source` is the same input, opened again. `Config` where it could not
    /// be decided whether the rows are there. To be [checked](AfterLoad::checked) before the load runs.
    pub fn verification(&self, source: Box<dyn Source>) -> Result<AfterLoad> {
        let (plan, options) = (self.plan(), self.options());
        let source = added::with_columns(source, &options.add, &context(options)?, self.run_start())?;
        let source = empty::with_columns(source, fillable(&plan.table));
        check_options(options)?;
        match source.identity() {
            None => {
                return Err(Error::config(format!(
                    "--verify reads the input again, and {}",
                    source.not_rereadable()
                ))
                .hint("write it to a file first, or compare afterwards: tonnage verify"));
            }
            Some(identity) if self.source_identity().is_some_and(|known| known != identity) => {
                return Err(Error::input("the input has changed while the load was prepared"));
            }
            Some(_) => {}
        }
        let written = |name: &String| plan.columns.iter().any(|column| column.name == *name);
        let primary = plan.table.primary_key().map(|key| key.columns.clone());
        let primary = primary.filter(|key| key.iter().all(written)).unwrap_or_default();
        let target = self.target();
        let replaces = target.capabilities().insert_replaces;
        let (key, winner) = match &plan.operation {
            Operation::Insert if replaces => (primary, Winner::Last),
            Operation::Insert => (primary, Winner::Any),
            Operation::Upsert { key } => (key.clone(), Winner::Last),
            Operation::Ignore { key } => (key.clone(), Winner::Any),
            Operation::Update { .. } | Operation::Delete { .. } | Operation::Statement { .. } => {
                return Err(Error::config(format!(
                    "--verify is for rows that are put into a table, and not for {}",
                    plan.operation.name()
                ))
                .hint("leave --verify out"));
            }
        };
        let expected = match key.is_empty() {
            false => Expected::Contained(winner),
            true => Expected::Equal,
        };
        let begins_empty = match plan.preparation {
            Preparation::Truncate | Preparation::Recreate | Preparation::RebuildIndexes { .. } => true,
            Preparation::Keep => self.makes_table(),
        };
        Ok(AfterLoad {
            target: Arc::clone(target),
            url: self.url().to_owned(),
            source,
            options: options.clone(),
            columns: plan.columns.clone(),
            key,
            expected,
            ignores: plan.operation.leaves_out_present(),
            begins_empty,
        })
    }
}

/// Refuses a table whose rows could not be recognised as those of the source.
async fn check_nothing_before(target: &dyn Target, name: &TableName) -> Result<()> {
    let mut first = request(Relation::Table(name.clone()), None, 1);
    first.limit = Some(1);
    let mut snapshot = target.scan(&first).await?;
    for split in 0..snapshot.splits {
        let Some(reader) = snapshot.readers.first_mut() else {
            break;
        };
        reader.open(split).await?;
        if reader.next().await?.is_some() {
            return Err(Error::config(format!(
                "--verify cannot tell the rows of this load from those that {name} has already: no primary key among \
                 the columns tells them apart"
            ))
            .hint("load into an empty table, with --truncate or with --mode upsert --key COLUMN; or leave --verify out"));
        }
    }
    Ok(())
}

/// Refuses options that would give other values, or other files, the second time.
fn check_options(options: &LoadOptions) -> Result<()> {
    let again = "leave one of them out, or compare afterwards: tonnage verify";
    if options.new_files {
        return Err(Error::config("--verify and --new-files do not go together").hint(again));
    }
    if options.any_unique_key {
        return Err(Error::config(
            "--verify looks rows up by one key, and with --any-unique-key any of several may decide",
        )
        .hint(again));
    }
    match added::changing(&options.add).filter(|_| options.attempt == Attempt::Resume) {
        Some(name) => Err(Error::config(format!(
            "--verify and --resume do not go together with --add {name}: {{run}} or {{now}} may be others than in the rows \
             that an earlier attempt has written"
        ))
        .hint("compare afterwards without the column: tonnage verify --columns")),
        None => Ok(()),
    }
}

impl AfterLoad {
    /// Checks, before the load runs, that its rows can be distinguished from others. `Config` where they cannot.
    pub async fn checked(self) -> Result<Self> {
        if self.expected == Expected::Equal && !self.begins_empty {
            check_nothing_before(&*self.target, &self.options.table).await?;
        }
        Ok(self)
    }

    /// Compares, once the load has ended as `report` says. `progress` counts the rows of both sides.
    pub async fn run(self, report: &Report, progress: Arc<Progress>, stop: Stop) -> Result<VerifyReport> {
        let started = Instant::now();
        let Self {
            target, options, key, ..
        } = self;
        let found = target.table(&options.table).await?;
        let gone = || Error::schema(format!("table {} is gone, which was just loaded", options.table));
        let table = found.ok_or_else(gone)?;
        let mut columns = self.columns;
        for column in &mut columns {
            let at = table.columns.iter().position(|known| known.name == column.name);
            column.target = at.ok_or_else(gone)?;
        }
        let jobs = workers(options.jobs)?;
        let names = columns.iter().map(|column| column.name.clone()).collect();
        let snapshot = target
            .scan(&request(Relation::Table(table.name.clone()), Some(names), jobs))
            .await?;
        let excluded = match &report.rejects {
            Some(path) => rejected(Path::new(path))?,
            None => HashSet::new(),
        };
        let mut notes = Vec::new();
        if !excluded.is_empty() {
            let rows = Counted(excluded.len() as u64, "rejected row");
            notes.push(format!("{rows} are not compared"));
        }
        let decided = Decided {
            key,
            jobs,
            limit: options.limit,
            context: context(&options)?,
            progress,
            stop,
            differences: DIFFERENCES,
            notes,
            excluded,
            expected: self.expected,
        };
        let partial_dates = target.capabilities().partial_dates;
        let comparison = comparison(
            Opened::Source(self.source),
            (&table, partial_dates),
            columns,
            snapshot,
            decided,
        )?;
        let mut verified = comparison.run().await?;
        if self.ignores {
            let skipped = &report.rows.skipped;
            forgive(
                &mut verified,
                skipped.conflict + skipped.superseded + skipped.resumed,
            );
        }
        Ok(VerifyReport {
            target: self.url,
            seconds: started.elapsed().as_secs_f64(),
            jobs,
            ..verified
        })
    }
}

/// Rows that were left out since their key was there may have other values: at most so many.
fn forgive(report: &mut VerifyReport, left_out: u64) {
    let Some(found) = report.differing.filter(|found| found.changed <= left_out) else {
        return;
    };
    if left_out > 0 {
        report.notes.push(format!(
            "of {} that were left out, since their key was there or was handled before, only the keys are compared",
            Counted(left_out, "row")
        ));
    }
    let found = Differing { changed: 0, ..found };
    report.differing = Some(found);
    report.agrees = found.is_none();
    report
        .differences
        .retain(|difference| difference.kind != Kind::Changed);
}

/// The rows of a rejects file, by file and row.
fn rejected(path: &Path) -> Result<HashSet<(String, u64)>> {
    #[derive(Deserialize)]
    struct Place {
        file: String,
        row: u64,
    }
    let failed = |error: &dyn std::fmt::Display| {
        Error::input(format!("rejects file {}: {error}", path.display()))
            .hint("without it nothing says which rows were put aside, so nothing was compared")
    };
    let file = File::open(path).map_err(|error| failed(&error))?;
    let mut places = HashSet::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|error| failed(&error))?;
        let place: Place = serde_json::from_str(&line).map_err(|error| failed(&error))?;
        places.insert((place.file, place.row));
    }
    Ok(places)
}
