//! Reading, on a thread for each connection, of one state.
//!
//! For several readers writers are held off, by BEGIN IMMEDIATE on the first connection, while each of the others begins
//! to read: for milliseconds. From then on every reader sees the state of that moment, in a file with a write-ahead log
//! and in one with a rollback journal alike; in the latter nobody can commit until the readers are done. Where writers
//! cannot be held off (a file that may not be written, a writer that does not end) there is one reader, which needs no
//! help to see one state.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use rusqlite::{Connection, params_from_iter};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reader::{BY_ITSELF, BatchBounds, HELD_OFF, Reader, ScanRequest, Snapshot, schema},
};
use tonnage_sql::splits::{SplitThread, TakeBatch};

use super::{
    connect::{Journal, Location},
    decode::{Misfit, Values, shown},
    errors::{self, Doing},
    scan::{Classes, Scanned, Split},
};

/// Opens as many readers as are wanted and of use.
pub(super) async fn scan(location: &Location, request: &ScanRequest) -> Result<Snapshot> {
    let (location, request) = (location.clone(), request.clone());
    let opening = tokio::task::spawn_blocking(move || open(&location, &request));
    let opened = opening.await;
    opened.map_err(|error| Error::bug(format!("the readers were not opened: {error}")))?
}

fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

fn open(location: &Location, request: &ScanRequest) -> Result<Snapshot> {
    let connect = || -> Result<Connection> {
        let connection = location.open_existing()?.ok_or_else(|| location.missing())?;
        // No mistake in a query can write.
        connection
            .execute_batch("PRAGMA query_only = ON")
            .map_err(failed)?;
        Ok(connection)
    };
    let mut connections = vec![connect()?];
    let mut notes = Vec::new();
    if request.readers > 1 && request.limit.is_none() {
        let holder = location.open_existing()?.ok_or_else(|| location.missing())?;
        match holder.execute_batch("BEGIN IMMEDIATE") {
            Ok(()) => {
                for _ in 1..request.readers {
                    connections.push(connect()?);
                }
                for connection in &connections {
                    begin(connection)?;
                }
                holder.execute_batch("ROLLBACK").map_err(failed)?;
            }
            Err(failure) => {
                let why = match errors::error(failure, Doing::Else) {
                    busy if busy.kind() == ErrorKind::Overloaded => "another process is writing to the file",
                    _ => "the file cannot be written to",
                };
                notes.push(format!(
                    "one job: {why}, so writers cannot be held off while several begin to read"
                ));
            }
        }
    }
    if connections.len() == 1 {
        begin(&connections[0])?;
    }
    let scanned = Scanned::look(&connections[0], request, Classes::OfAll)?;
    connections.truncate(scanned.splits.len());
    if connections.len() > 1 {
        notes.push("writers were held off for the moment in which the readers began".to_owned());
        if Journal::of(&connections[0]).map_err(failed)? != Journal::Wal {
            notes.push("the file has a rollback journal: writers wait until the readers are done".to_owned());
        }
    }
    notes.extend(scanned.notes);
    let shared = Arc::new(ScanContext {
        form: RowDecoding {
            schema: schema(&scanned.columns),
            naming: scanned.naming,
            batch: request.batch,
            texts: scanned.texts,
            types: scanned.columns.iter().map(|column| column.ty).collect(),
        },
        splits: scanned.splits,
    });
    let splits = shared.splits.len();
    let consistency = if connections.len() > 1 {
        HELD_OFF
    } else {
        BY_ITSELF
    };
    let readers = connections
        .into_iter()
        .map(|connection| start(connection, Arc::clone(&shared)))
        .collect::<Result<_>>()?;
    Ok(Snapshot {
        table: scanned.name,
        columns: scanned.columns,
        key: scanned.key,
        splits,
        consistency,
        readers,
        settings_changed: Vec::new(),
        notes,
    })
}

/// Begins a transaction that sees what is committed by now: it begins with its first read.
pub(super) fn begin(connection: &Connection) -> Result<()> {
    connection.execute_batch("BEGIN").map_err(failed)?;
    connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        .map_err(failed)
}

/// What all readers of a snapshot have in common.
struct ScanContext {
    form: RowDecoding,
    splits: Vec<Split>,
}

/// What rows become.
pub(super) struct RowDecoding {
    pub(super) schema: arrow::datatypes::SchemaRef,
    pub(super) types: Vec<tonnage_core::types::ColumnType>,
    /// Columns that come as text whatever they hold.
    pub(super) texts: Vec<bool>,
    /// Positions of the columns that name a row in messages.
    pub(super) naming: Vec<usize>,
    pub(super) batch: BatchBounds,
}

/// A reader on a thread of its own. Dropping it ends the transaction, so that whoever writes next is not held up by it.
fn start(connection: Connection, shared: Arc<ScanContext>) -> Result<Box<dyn Reader>> {
    let interrupt = connection.get_interrupt_handle();
    let read = move |split: usize, send: TakeBatch<'_>| read(&connection, &shared, split, send);
    let reader = SplitThread::start("sqlite-reader", read, move || interrupt.interrupt())?;
    Ok(Box::new(reader))
}

/// Reads a split and sends its batches; false where nobody takes them any more.
fn read(connection: &Connection, shared: &ScanContext, split: usize, send: TakeBatch<'_>) -> Result<bool> {
    let split = shared
        .splits
        .get(split)
        .ok_or_else(|| Error::bug(format!("there is no split {split}")))?;
    let mut building = Building::new(&shared.form)?;
    let mut statement = connection.prepare_cached(&split.sql).map_err(failed)?;
    let mut found = statement
        .query(params_from_iter(&split.parameters))
        .map_err(failed)?;
    while let Some(row) = found.next().map_err(of_rows)? {
        building.push(row)?;
        if building.is_full() && !send(building.finish()?) {
            return Ok(false);
        }
    }
    Ok(building.rows == 0 || send(building.finish()?))
}

/// A batch being built of rows, which may have further columns behind those that it takes.
pub(super) struct Building<'a> {
    form: &'a RowDecoding,
    columns: Vec<Values>,
    pub(super) rows: usize,
    bytes: usize,
}

impl<'a> Building<'a> {
    pub(super) fn new(form: &'a RowDecoding) -> Result<Self> {
        let columns = form.types.iter().zip(&form.texts).map(|(ty, as_text)| {
            Values::new(*ty, *as_text)
                .ok_or_else(|| Error::bug(format!("no column of SQLite has the type {ty}")))
        });
        Ok(Self {
            form,
            columns: columns.collect::<Result<_>>()?,
            rows: 0,
            bytes: 0,
        })
    }

    pub(super) fn push(&mut self, row: &rusqlite::Row<'_>) -> Result<()> {
        for (at, column) in self.columns.iter_mut().enumerate() {
            let value = row.get_ref(at).map_err(failed)?;
            let pushed = column.push(value);
            self.bytes += pushed.map_err(|misfit| bad(self.form, row, at, &misfit))?;
        }
        self.rows += 1;
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows >= self.form.batch.rows_max || self.bytes >= self.form.batch.bytes_max
    }

    /// The batch; what comes is another one.
    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        let arrays: Vec<ArrayRef> = self.columns.iter_mut().map(Values::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(self.form.schema.clone(), arrays, &options)
            .map_err(|cause| Error::bug(format!("decoded columns do not fit together: {cause}")))
    }
}

/// An error while rows arrive: an expression of the query that could not be evaluated, say.
pub(super) fn of_rows(failure: rusqlite::Error) -> Error {
    let error = failed(failure);
    match error.kind() {
        // Asked for by a reader that is being dropped.
        ErrorKind::Cancelled => Error::new(ErrorKind::Cancelled, "the reading was stopped"),
        _ => error,
    }
}

fn bad(form: &RowDecoding, row: &rusqlite::Row<'_>, at: usize, misfit: &Misfit) -> Error {
    let name = |at: usize| form.schema.field(at).name();
    let named = form.naming.iter().filter(|named| **named != at);
    let named = named.filter_map(|named| {
        let value = row.get_ref(*named).ok()?;
        Some(format!("{} = {}", name(*named), shown(value)))
    });
    let named: Vec<_> = named.collect();
    let column = name(at);
    let place = match named.is_empty() {
        true => format!("column '{column}'"),
        false => format!("column '{column}' of the row with {}", named.join(", ")),
    };
    Error::new(ErrorKind::Schema, format!("{place}: {misfit}"))
        .hint(format!("--text {column} gives every value of the column as text"))
}
