//! Where the rows of a get go: those of the table, the keys without, and those of each table that comes with them.
//!
//! Files get their names when all of them are complete. A directory that was made for them goes with them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::datatypes::SchemaRef;
use tonnage::{
    Error, ErrorKind, Result,
    fetch::{Fetched, Get, GetPlan, GetReport, Prepared},
    load::Progress,
    sinks::{self, Output, Sink, finish_all},
    sources::Format,
    stop::Stop,
};
use tonnage_places::url_of;

use crate::progress::counted_sink;

/// What stands for a table's name.
const NAME: &str = "{}";

/// A file for each table.
struct TableFile {
    sink: Box<dyn Sink>,
    path: PathBuf,
}

/// Where everything goes.
pub struct Files {
    rows: TableFile,
    missing: Option<TableFile>,
    /// Of each table that comes behind.
    related: Vec<TableFile>,
    /// A directory that was made for them, until they have their names.
    made: Option<PathBuf>,
}

impl Files {
    /// Opens them. `rows` is where those of the table go; where other tables come behind it, it is a directory, or a
    /// name with `{}` for the name of the table.
    ///
    /// Rows of the tables are counted in `progress`, and `stop` ends the writing.
    pub fn create(
        prepared: &Prepared,
        rows: &Output,
        missing: Option<&Output>,
        progress: &Arc<Progress>,
        stop: &Stop,
    ) -> Result<Self> {
        let schemas = prepared.related_schemas();
        let outputs = match schemas.is_empty() {
            true => vec![rows.clone()],
            false => outputs(prepared.plan(), rows)?,
        };
        let made = match outputs.first().and_then(|output| output.path.parent()) {
            Some(directory) if !schemas.is_empty() => make(directory)?,
            _ => None,
        };
        let first = prepared.schema();
        let open = |output: &Output, schema: &SchemaRef, progress: &Arc<Progress>| {
            let sink = counted_sink(output, schema, progress, stop)?;
            let path = output.path.clone();
            Ok::<_, Error>(TableFile { sink, path })
        };
        // Keys without a row are no rows.
        let uncounted = Arc::default();
        let opened = || -> Result<(Vec<TableFile>, Option<TableFile>)> {
            let all = outputs.iter().zip(std::iter::once(&first).chain(schemas));
            let named = all
                .map(|(output, schema)| open(output, schema, progress))
                .collect::<Result<_>>()?;
            let missing = missing
                .map(|output| open(output, &prepared.key_schema(), &uncounted))
                .transpose()?;
            Ok((named, missing))
        };
        let (mut named, missing) = opened().inspect_err(|_| undo(made.as_deref()))?;
        let related = named.split_off(1);
        let rows = named.pop().ok_or_else(|| Error::bug("rows have nowhere to go"))?;
        Ok(Self {
            rows,
            missing,
            related,
            made,
        })
    }

    /// Writes what comes, until its end or until `stop` is asked for: `Cancelled`.
    pub async fn write(&mut self, mut get: Get, stop: &Stop) -> Result<GetReport> {
        loop {
            let fetched = stop.unless(get.next()).await;
            let fetched = fetched.ok_or_else(|| Error::new(ErrorKind::Cancelled, "stopped on request"))?;
            match fetched? {
                Some(Fetched::Rows(rows)) => self.rows.sink.write(&rows)?,
                Some(Fetched::Missing(keys)) => {
                    if let Some(missing) = &mut self.missing {
                        missing.sink.write(&keys)?;
                    }
                }
                Some(Fetched::Related { table, rows }) => {
                    let related = self.related.get_mut(table);
                    let related =
                        related.ok_or_else(|| Error::bug("rows of a table that was not asked for"))?;
                    related.sink.write(&rows)?;
                }
                None => return get.finish(),
            }
            if self.rows.sink.is_closed() {
                return get.finish();
            }
        }
    }

    /// Gives the files their names; whether a pipe's reader had seen enough.
    pub fn finish(mut self) -> Result<bool> {
        let closed = self.rows.sink.is_closed();
        let made = self.made.take();
        let all = [self.rows].into_iter().chain(self.missing).chain(self.related);
        finish_all(all.map(|named| (named.sink, named.path))).inspect_err(|_| undo(made.as_deref()))?;
        Ok(closed)
    }

    /// Takes everything away again.
    pub fn abandon(self) {
        let made = self.made.clone();
        drop(self);
        undo(made.as_deref());
    }
}

/// An output for each table, those that were asked for first.
fn outputs(plan: &GetPlan, rows: &Output) -> Result<Vec<Output>> {
    let names: Vec<_> = std::iter::once(&plan.table.name)
        .chain(plan.related.iter().map(|related| &related.plan.table.name))
        .collect();
    let name = rows
        .path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let is_directory = rows.path.to_string_lossy().ends_with('/') || rows.path.is_dir();
    let (directory, pattern) = match name {
        _ if is_directory => {
            let format = rows.format.unwrap_or(Format::Parquet);
            (rows.path.clone(), format!("{NAME}.{}", sinks::ending(format)))
        }
        Some(name) if name.matches(NAME).count() == 1 => {
            let directory = rows.path.parent().unwrap_or(Path::new(""));
            (directory.to_owned(), name)
        }
        _ => {
            return Err(
                Error::config(format!("rows of {} tables do not go into one file", names.len())).hint(
                    "-o DIR/ or a name with {} in it has a file for each; --nested puts rows into each other",
                ),
            );
        }
    };
    let is_unique = |name: &str| names.iter().filter(|other| other.name == name).count() == 1;
    let output = |name: &&tonnage::table::TableName| {
        let shown = match is_unique(&name.name) {
            true => name.name.clone(),
            false => name.to_string(),
        };
        // No part of a path.
        let shown = shown.replace(['/', '\\', '\0'], "_");
        Output {
            path: directory.join(pattern.replace(NAME, &shown)),
            ..rows.clone()
        }
    };
    Ok(names.iter().map(output).collect())
}

/// Makes a directory that is not there; what was made.
fn make(directory: &Path) -> Result<Option<PathBuf>> {
    // A store has no directories.
    if directory.as_os_str().is_empty() || url_of(directory).is_some() || directory.exists() {
        return Ok(None);
    }
    match fs::create_dir(directory) {
        Ok(()) => Ok(Some(directory.to_owned())),
        Err(error) => Err(Error::new(
            ErrorKind::Refused,
            format!("cannot create {}: {error}", directory.display()),
        )
        .hint("name a directory in one that is there, and that you may write to")),
    }
}

/// Removes a directory that was made, if it is empty.
fn undo(made: Option<&Path>) {
    if let Some(directory) = made {
        // What does not go is empty or somebody else's; the error that led here is what counts.
        let _ = fs::remove_dir(directory);
    }
}
