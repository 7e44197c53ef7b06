//! Doing what was decided.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::RunQuery,
    reader::Relation,
    report::RunState,
    schema::Step,
    stop::Stop,
    table::TableName,
    target::{Rows, Target},
};

use super::{
    CopyReport, CopyRows, Existing, Planned, Prepared, TableReport, TableState, definitions::existing, open,
};
use crate::{
    load::{self, Ended, Progress, forget_runs_into},
    plan::LoadOptions,
    verify::{Input, VerifyOptions, verify},
};

/// Rows that differ that are named of a table.
const DIFFERENCES: usize = 3;

/// Who wants to know how far a copy has come.
pub trait Watch: Send + Sync {
    /// The rows of a table begin.
    fn begins(&self, table: &Planned, progress: Arc<Progress>);
    /// All is done for a table, but its foreign keys.
    fn done(&self, report: &TableReport);
}

/// Where a table that is in the target was left.
enum Found {
    /// There is none, or none any more.
    Nothing,
    /// It has all rows; these of its keys and indexes are there.
    Rows(HashSet<String>),
}

impl Prepared {
    /// Copies. A table that fails is in the report, and the others go on; where the target cannot be reached, or `stop` is
    /// requested, no other is begun.
    pub async fn run(self, watch: &dyn Watch, stop: Stop) -> Result<CopyReport> {
        let started = Instant::now();
        if self.options.existing == Existing::Replaced {
            self.drop_existing().await?;
        }
        let names = match self.options.existing {
            Existing::Resumed => self.names_of_tables().await?,
            Existing::Refused | Existing::Replaced => HashMap::new(),
        };
        let mut reports: Vec<TableReport> = self.tables.iter().map(not_begun).collect();
        let mut kept = vec![HashSet::new(); self.tables.len()];
        for (index, table) in self.tables.iter().enumerate() {
            if stop.requested() {
                break;
            }
            let begun = Instant::now();
            let report = &mut reports[index];
            let done = self
                .table(table, &names, &mut kept[index], report, watch, &stop)
                .await;
            report.seconds = begun.elapsed().as_secs_f64();
            let ends = done.as_ref().is_err_and(ends_all);
            if let Err(error) = done {
                fail(report, &error);
            }
            watch.done(report);
            if ends {
                break;
            }
        }
        for (index, table) in self.tables.iter().enumerate() {
            if stop.requested() {
                // Whoever goes on makes the rest.
                break;
            }
            if matches!(reports[index].state, TableState::Copied | TableState::Kept) {
                self.foreign_keys(table, &kept[index], &mut reports[index]).await;
            }
        }
        let total = |rows: fn(&CopyRows) -> u64| reports.iter().map(|table| rows(&table.rows)).sum();
        let rows = CopyRows {
            read: total(|rows| rows.read),
            written: total(|rows| rows.written),
        };
        let mut report = CopyReport {
            state: RunState::Finished,
            source: self.source.url.clone(),
            target: self.target.url.clone(),
            tables: reports,
            rows,
            left_out: self.left_out.clone(),
            seconds: started.elapsed().as_secs_f64(),
        };
        if report.failed() > 0 || stop.requested() {
            report.state = RunState::Stopped;
        }
        Ok(report)
    }

    /// Drops the tables that are there, children first.
    async fn drop_existing(&self) -> Result<()> {
        let target = &*self.target.target;
        for table in self.tables.iter().rev().filter(|table| table.exists) {
            if let Some(found) = existing(target, &table.name).await? {
                forget_runs_into(target, &found.name).await?;
                target.drop_table(&found, Rows::Drop).await?;
            }
        }
        Ok(())
    }

    /// The names of keys and indexes of the tables of the target.
    async fn names_of_tables(&self) -> Result<HashMap<TableName, HashSet<String>>> {
        let found = self.target.target.schemas()?.definitions().await?;
        let names = found.tables.into_iter();
        Ok(names
            .map(|table| (table.name, table.names.into_iter().collect()))
            .collect())
    }

    async fn table(
        &self,
        table: &Planned,
        names: &HashMap<TableName, HashSet<String>>,
        kept: &mut HashSet<String>,
        report: &mut TableReport,
        watch: &dyn Watch,
        stop: &Stop,
    ) -> Result<()> {
        let found = match self.options.existing {
            Existing::Resumed => self.earlier(table, names, stop).await?,
            Existing::Refused | Existing::Replaced => Found::Nothing,
        };
        match found {
            Found::Rows(names) => {
                report.state = TableState::Kept;
                report.agrees = self.options.verify.then_some(true);
                *kept = names;
            }
            Found::Nothing => {
                self.make(table).await?;
                self.rows(table, report, watch, stop).await?;
                report.state = TableState::Copied;
            }
        }
        for step in &table.statements.after_rows {
            if stop.requested() {
                return Err(Error::new(
                    ErrorKind::Cancelled,
                    "interrupted before its keys and indexes",
                ));
            }
            if self.step(table, step, kept, report).await {
                report.made_after_rows += 1;
            }
        }
        if self.options.verify && report.state == TableState::Copied {
            report.agrees = Some(self.compare(table, report, stop).await?);
        }
        Ok(())
    }

    /// Where an earlier attempt has left a table. One that has not all rows is dropped.
    async fn earlier(
        &self,
        table: &Planned,
        names: &HashMap<TableName, HashSet<String>>,
        stop: &Stop,
    ) -> Result<Found> {
        let target = &*self.target.target;
        let Some(found) = existing(target, &table.name).await? else {
            return Ok(Found::Nothing);
        };
        let name = found.name.to_string();
        let runs = target.ledger().runs(&RunQuery::Table(name.clone())).await?;
        let has_all = match self.options.verify {
            // It may not be comparable at all: then it is no copy.
            true => self.agree(table, stop).await.is_ok_and(|report| report.agrees),
            false => runs.first().is_some_and(|run| run.finished.is_some()),
        };
        if has_all {
            let there = names.get(&found.name).cloned();
            return Ok(Found::Rows(there.unwrap_or_default()));
        }
        if runs.is_empty() {
            // One that was made and has not got a row.
            if target.drop_table(&found, Rows::Keep).await? {
                return Ok(Found::Nothing);
            }
            return Err(Error::config(format!(
                "{name} is there with other rows, and no copy has made it"
            ))
            .hint("--exclude leaves it out, --replace drops it with its rows"));
        }
        forget_runs_into(target, &found.name).await?;
        target.drop_table(&found, Rows::Drop).await?;
        Ok(Found::Nothing)
    }

    async fn make(&self, table: &Planned) -> Result<()> {
        for statement in &table.statements.create {
            tracing::info!("{statement}");
            let made = self.target.target.run_script(statement).await;
            made.map_err(|error| error.at(format!("{} cannot be made", table.name)))?;
        }
        Ok(())
    }

    async fn rows(
        &self,
        table: &Planned,
        report: &mut TableReport,
        watch: &dyn Watch,
        stop: &Stop,
    ) -> Result<()> {
        let Self { source, options, .. } = self;
        let rows = open(
            source,
            &table.definition.name,
            &table.columns,
            &table.texts,
            options.jobs,
        )
        .await?;
        let load = LoadOptions {
            jobs: options.jobs,
            durability: options.durability,
            columns: Some(table.columns.clone()),
            ..LoadOptions::new(table.name.clone())
        };
        let url = self.target.url.clone();
        let prepared = load::prepare(self.writer.clone(), url, Box::new(rows), load).await?;
        let progress: Arc<Progress> = Arc::default();
        watch.begins(table, progress.clone());
        let Ended {
            report: loaded,
            error,
        } = prepared.run(progress, stop.clone()).await?;
        report.rows = CopyRows {
            read: loaded.rows.read,
            written: loaded.rows.written,
        };
        error.map_or(Ok(()), |error| Err(with_own_hint(error)))
    }

    /// Makes what comes after the rows; whether it did.
    async fn step(
        &self,
        table: &Planned,
        step: &Step,
        kept: &HashSet<String>,
        report: &mut TableReport,
    ) -> bool {
        if step.name.as_ref().is_some_and(|name| kept.contains(name)) {
            return false;
        }
        tracing::info!("{}", step.sql);
        match self.target.target.run_script(&step.sql).await {
            Ok(()) => true,
            // The server may have gone on with what a process that is gone has asked for, and be done with it by now.
            Err(_) if self.is_there(table, step).await => false,
            Err(error) => {
                fail(report, &error.at(format!("{} is not made", step.what)));
                false
            }
        }
    }

    /// Whether a copy that goes on finds that a table has by now what `step` makes.
    async fn is_there(&self, table: &Planned, step: &Step) -> bool {
        let Some(name) = step
            .name
            .as_ref()
            .filter(|_| self.options.existing == Existing::Resumed)
        else {
            return false;
        };
        let (Ok(names), Ok(Some(found))) = (
            self.names_of_tables().await,
            existing(&*self.target.target, &table.name).await,
        ) else {
            return false;
        };
        names.get(&found.name).is_some_and(|names| names.contains(name))
    }

    async fn foreign_keys(&self, table: &Planned, kept: &HashSet<String>, report: &mut TableReport) {
        for step in &table.statements.foreign_keys {
            if self.step(table, step, kept, report).await {
                report.foreign_keys += 1;
            }
        }
        if Arc::ptr_eq(&self.writer, &self.target.target) || table.definition.foreign_keys.is_empty() {
            return;
        }
        let checked = match self.target.target.schemas() {
            Ok(schemas) => schemas.broken_foreign_keys(&table.name).await,
            Err(error) => Err(error),
        };
        match checked {
            Ok(None) => report.foreign_keys += table.definition.foreign_keys.len() as u64,
            Ok(Some(broken)) => fail(
                report,
                &Error::schema(format!("foreign keys do not hold: {broken}")),
            ),
            Err(error) => fail(report, &error.at("foreign keys cannot be looked through")),
        }
    }

    async fn agree(&self, table: &Planned, stop: &Stop) -> Result<crate::verify::VerifyReport> {
        let load = LoadOptions {
            jobs: self.options.jobs,
            columns: Some(table.columns.clone()),
            ..LoadOptions::new(table.name.clone())
        };
        let input = Input::Database {
            target: self.source.target.clone(),
            shown: self.source.url.clone(),
            relation: Relation::Table(table.definition.name.clone()),
            columns: Some(table.columns.clone()),
            texts: table.texts.clone(),
        };
        let options = VerifyOptions {
            load,
            differences: DIFFERENCES,
        };
        let target: &dyn Target = &*self.target.target;
        verify(
            target,
            self.target.url.clone(),
            input,
            &options,
            Arc::default(),
            stop.clone(),
        )
        .await
    }

    /// Whether the table has the rows of its source; what differs goes to the report.
    async fn compare(&self, table: &Planned, report: &mut TableReport, stop: &Stop) -> Result<bool> {
        let compared = self.agree(table, stop).await?;
        if !compared.agrees {
            let differences: Vec<String> = compared.differences.iter().map(ToString::to_string).collect();
            fail(
                report,
                &Error::schema(format!(
                    "{} rows in the source and {} in the table are not the same: {}",
                    compared.rows.source,
                    compared.rows.table,
                    differences.join("; ")
                ))
                .hint("if the source was written to meanwhile, --resume copies this table again"),
            );
        }
        Ok(compared.agrees)
    }
}

fn not_begun(table: &Planned) -> TableReport {
    TableReport {
        source: table.definition.name.to_string(),
        table: table.name.to_string(),
        state: TableState::NotBegun,
        rows: CopyRows::default(),
        agrees: None,
        made_after_rows: 0,
        foreign_keys: 0,
        errors: Vec::new(),
        seconds: 0.0,
    }
}

/// Whether nothing else can go well after `error`.
fn ends_all(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Cancelled | ErrorKind::Unsent | ErrorKind::InDoubt | ErrorKind::Bug
    )
}

/// What else to do where a row is at fault: a load and an unload have options that a copy has not.
fn with_own_hint(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Rejected | ErrorKind::Input | ErrorKind::Schema => error.hint(
            "--exclude leaves the table out; into another kind of database --type TABLE.COLUMN=text takes the column as \
             text, and other types as they are named",
        ),
        _ => error,
    }
}

fn fail(report: &mut TableReport, error: &Error) {
    report.state = TableState::Failed;
    let hint = error.hint_text().map(|hint| format!(" ({hint})"));
    report.errors.push(format!("{error}{}", hint.unwrap_or_default()));
}
