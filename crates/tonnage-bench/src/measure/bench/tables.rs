//! The tables that rows go into, and what of the rows they take.

use std::{ops::Range, sync::Arc};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    instruments::{Copied, Keys, Partitions, TableForm, Triggers},
    operation::Mode,
    report::{Counted, Grouped},
    table::TableName,
    target::Target,
};

use super::{Bench, BenchOptions, Running, instruments};
use crate::measure::{
    own::Own,
    rows::AllRows,
    setting::{Matrix, RowKind, Setting},
    touch::Touch,
};

/// A table that was made for a run.
pub(super) struct Made {
    /// Where it is.
    pub(super) target: Arc<dyn Target>,
    /// Its name there.
    pub(super) table: TableName,
    /// What the user's table has and it has not, a phrase each.
    lacking: Vec<String>,
}

/// Reads the user's own rows, where they are asked for: a run then has no more than these.
pub(super) async fn own(
    target: &Arc<dyn Target>,
    url: &str,
    options: &mut BenchOptions,
) -> Result<Option<Arc<Own>>> {
    let Some(asked) = &options.own else {
        return Ok(None);
    };
    let own = asked.open(target, url, options.budget.rows).await?;
    options.budget.rows = options.budget.rows.min(own.rows);
    Ok(Some(Arc::new(own)))
}

/// What keeps settings from being measured, known before any is.
pub(super) struct Obstacles {
    own: Option<Arc<Own>>,
    /// What the database cannot make.
    forms: Vec<(TableForm, String)>,
    /// Rows of a run.
    rows: u64,
}

impl Obstacles {
    /// Asks the database for those to the forms of `matrix`, for runs of so many `rows`.
    pub(super) async fn of(
        target: &dyn Target,
        matrix: &Matrix,
        own: Option<Arc<Own>>,
        rows: u64,
    ) -> Result<Self> {
        let instruments = instruments(target)?;
        let mut forms = Vec::new();
        for form in matrix.tables() {
            if let Some(why) = instruments.obstacle(&form).await? {
                forms.push((form, why));
            }
        }
        Ok(Self { own, forms, rows })
    }

    /// The first that a setting meets.
    pub(super) fn to(&self, setting: &Setting) -> Option<String> {
        let form = &setting.table;
        if let Some(why) = not_met(setting) {
            return Some(why);
        }
        let of_rows = || {
            let unlike = super::super::form::unlike(form, setting.workload);
            unlike
                .or_else(|| not_read(setting, self.rows))
                .or_else(|| not_parted(setting))
        };
        let of_database = || {
            let found = self.forms.iter().find(|(of, _)| of == form);
            found.map(|(_, why)| why.clone())
        };
        let of_operation = || match (setting.workload, &self.own) {
            (RowKind::Own, Some(own)) => own.obstacle(setting),
            _ if setting.operation == Mode::Insert || form.keys == Keys::Given => None,
            _ => Some(format!(
                "{} needs a primary key that rows bring",
                setting.operation.phrase()
            )),
        };
        of_rows().or_else(of_operation).or_else(of_database)
    }
}

/// Why rows that are there cannot be met in such a way.
fn not_met(setting: &Setting) -> Option<String> {
    let touch = setting.touch;
    match (touch, setting.operation, setting.workload) {
        (Touch::Each, ..) => None,
        (_, Mode::Insert, RowKind::Workload(_)) if setting.reads > 0 => None,
        (_, Mode::Update | Mode::Upsert, RowKind::Workload(_)) => None,
        (_, Mode::Update | Mode::Upsert, RowKind::Own) => Some(format!(
            "rows of one's own are met each once: {touch} ones are made up"
        )),
        (_, operation, _) => Some(format!(
            "{} meets no row twice, {touch} or not",
            operation.phrase()
        )),
    }
}

/// Why partitions of equal length would not have equal parts of the rows.
fn not_parted(setting: &Setting) -> Option<String> {
    let meets_others = setting.operation == Mode::Upsert || setting.reads > 0;
    let form = &setting.table;
    (form.partitions > 1 && form.tables > 1 && meets_others && setting.operation != Mode::Update).then(|| {
        "the rows that each of several tables has beforehand and those that it gets are far apart in time, with \
         partitions between that stay empty"
            .to_owned()
    })
}

/// Rows of a run of a mix: the keys that can be read are held in memory, twice.
const READ_ROWS_MAX: u64 = 10_000_000;

/// Why there is nothing to be read between the writes, where some is to be.
fn not_read(setting: &Setting, rows: u64) -> Option<String> {
    let why = match (setting.reads, setting.workload, setting.operation) {
        (0, ..) => return None,
        _ if rows > READ_ROWS_MAX => {
            return Some(format!(
                "the keys of {} would be held in memory to be read, {} at most are; --rows gives a run fewer",
                Counted(rows, "row"),
                Grouped(READ_ROWS_MAX)
            ));
        }
        (_, _, Mode::Delete) => "a delete leaves nothing to be read",
        (_, RowKind::Own, _) => "rows of one's own are only written: those that are read are made up",
        _ if setting.table.keys != Keys::Given => "reads need a primary key that rows bring",
        _ => return None,
    };
    Some(why.to_owned())
}

impl Bench {
    /// The rows of all cells.
    pub(super) async fn all_rows(&self) -> Result<AllRows> {
        let (settings, own) = (self.cells.run.clone(), self.own.clone());
        let (seed, rows) = (self.options.seed, self.options.budget.rows);
        let making = move || AllRows::make(&settings, own.as_ref(), seed, rows);
        tokio::task::spawn_blocking(making)
            .await
            .map_err(|e| Error::bug(format!("rows could not be made: {e}")))?
    }
}

impl Running<'_> {
    /// Makes a table of a run, for `rows` of it.
    pub(super) async fn make(&self, setting: &Setting, name: &str, rows: Range<u64>) -> Result<Made> {
        let bench = self.bench;
        let of_database = instruments(&*bench.target)?;
        let own = match setting.workload {
            RowKind::Own => bench.own.as_ref(),
            RowKind::Workload(_) => None,
        };
        if let Some(table) = own.and_then(|own| own.table()) {
            let copied = of_database.copy(table, name, Triggers::LeftOut).await;
            let Copied {
                target,
                table,
                lacking,
            } = copied.map_err(|error| error.at(format!("{} cannot be copied", table.name)))?;
            return Ok(Made {
                target: target.unwrap_or_else(|| bench.target.clone()),
                table,
                lacking,
            });
        }
        let form = &setting.table;
        let scratch = of_database.scratch(name, form.page_bytes).await?;
        let target = scratch.unwrap_or_else(|| bench.target.clone());
        let table = TableName::bare(name);
        let (columns, key) = match (setting.workload, own) {
            (RowKind::Workload(workload), _) => {
                let key = workload.key().iter().map(|name| (*name).to_owned());
                (workload.columns_of(form.columns), key.collect())
            }
            (RowKind::Own, Some(own)) => (own.columns(), own.key.clone()),
            (RowKind::Own, None) => return Err(Error::bug("own rows that were not read")),
        };
        let mut making = super::super::form::making(form, table.clone(), columns, key);
        making.partitions = self.partitions(setting, rows)?;
        instruments(&*target)?.make(&making).await?;
        Ok(Made {
            target,
            table,
            lacking: Vec::new(),
        })
    }

    /// How the table for `rows` of a run is partitioned; none where it is not.
    fn partitions(&self, setting: &Setting, rows: Range<u64>) -> Result<Option<Partitions>> {
        let parts = setting.table.partitions;
        let RowKind::Workload(workload) = setting.workload else {
            return Ok(None);
        };
        let Some(column) = workload.time().filter(|_| parts > 0) else {
            return Ok(None);
        };
        let count = rows.end - rows.start;
        let times = self.rows_of(setting)?.times(rows);
        let found = times.and_then(|times| Partitions::even(column, parts, times));
        match found {
            Some(partitions) => Ok(Some(partitions)),
            None => Err(Error::new(
                ErrorKind::Refused,
                format!(
                    "{} of {workload} lie too near to one another to be parted by whole seconds into {}; --rows gives a \
                     run more",
                    Counted(count, "row"),
                    Grouped(parts as u64)
                ),
            )),
        }
    }

    /// The columns that `operation` takes of the rows; none for all.
    pub(super) fn columns(&self, setting: &Setting, operation: Mode) -> Option<Vec<String>> {
        let keys = setting.table.keys;
        match (setting.workload, &self.bench.own) {
            (RowKind::Own, Some(own)) => Some(own.taken(operation, keys)),
            (RowKind::Workload(workload), _) if keys == Keys::Generated => {
                let mut columns = workload.columns_of(setting.table.columns);
                // A key of several columns is data like any other where the database numbers the rows.
                if let [key] = workload.key() {
                    columns.retain(|column| column.name != *key);
                }
                Some(columns.into_iter().map(|column| column.name).collect())
            }
            _ => None,
        }
    }

    /// Tells once of what the user's table has and its copies have not.
    pub(super) fn note_lacking(&mut self, made: &Made) {
        if made.lacking.is_empty() {
            return;
        }
        let note = format!("the copies were without {}", made.lacking.join(", "));
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}
