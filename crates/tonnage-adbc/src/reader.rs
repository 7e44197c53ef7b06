//! Reading, on a thread for each connection, of one state.
//!
//! Every reader is a transaction that only reads. Several begin while nobody may change the file: for milliseconds. From then on
//! DuckDB gives each of them what was committed then, and holds up nobody.

use std::sync::Arc;

use arrow::{array::RecordBatch, compute::concat_batches};
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    reader::{BY_ITSELF, BatchBounds, HELD_OFF, Reader, ScanRequest, Snapshot},
};
use tonnage_sql::splits::{SplitThread, TakeBatch};

use super::{
    connection::{self, Connection},
    decode::Decoder,
    errors::{Doing, error, failed},
    ledger::{Database, Missing},
    location::Location,
    scan::Scanned,
};

/// Opens as many readers as are wanted and of use.
pub(crate) async fn scan(database: &Database, request: &ScanRequest) -> Result<Snapshot> {
    // One reader needs no help to see one state, and waits for nobody.
    let held = match request.readers {
        0 | 1 => None,
        _ => database.hold(Missing::Left).await?,
    };
    let (location, request) = (database.location().clone(), request.clone());
    let opening = tokio::task::spawn_blocking(move || {
        if !location.exists()? {
            return Err(Error::schema(format!("{} does not exist", location.shown())));
        }
        let opened = open(&location, &request);
        drop(held);
        opened
    });
    opening
        .await
        .map_err(|error| Error::bug(format!("the readers were not opened: {error}")))?
}

/// A connection that has begun to read.
pub(crate) fn begun(location: &Location) -> Result<Connection> {
    let mut connection = connection::open(location)?.connect()?;
    connection.run("BEGIN TRANSACTION READ ONLY").map_err(failed)?;
    // A transaction sees what is committed when it first looks at the file.
    connection
        .run("SELECT count(*) FROM duckdb_tables()")
        .map_err(failed)?;
    Ok(connection)
}

fn open(location: &Location, request: &ScanRequest) -> Result<Snapshot> {
    let mut first = begun(location)?;
    let scanned = Scanned::look(&mut first, request)?;
    let mut connections = vec![first];
    while connections.len() < request.readers.min(scanned.splits.len()) {
        connections.push(begun(location)?);
    }
    let decoder = Decoder::new(&scanned.columns, &scanned.key, request.beyond_arrow);
    let shared = Arc::new(ScanContext {
        decode: Box::new(move |rows| decoder.decode(rows)),
        batch: request.batch,
        splits: scanned.splits,
    });
    let consistency = if connections.len() > 1 {
        HELD_OFF
    } else {
        BY_ITSELF
    };
    let readers = connections
        .into_iter()
        .map(|connection| start(connection, Arc::clone(&shared)));
    Ok(Snapshot {
        table: scanned.name,
        columns: scanned.columns,
        key: scanned.key,
        splits: shared.splits.len(),
        consistency,
        readers: readers.collect::<Result<_>>()?,
        settings_changed: Vec::new(),
        notes: scanned.notes,
    })
}

/// How rows of the database become those of the crate.
pub(crate) type Decode = Box<dyn Fn(&RecordBatch) -> Result<RecordBatch> + Send + Sync>;

/// What all readers of a snapshot have in common.
struct ScanContext {
    decode: Decode,
    batch: BatchBounds,
    splits: Vec<String>,
}

/// A reader on a thread of its own. Dropping it ends the transaction.
fn start(mut connection: Connection, shared: Arc<ScanContext>) -> Result<Box<dyn Reader>> {
    let mut interrupt = connection.interrupter();
    let read = move |split: usize, send: TakeBatch<'_>| read(&mut connection, &shared, split, send);
    let reader = SplitThread::start("duckdb-reader", read, move || interrupt.interrupt())?;
    Ok(Box::new(reader))
}

/// Reads a split and sends its batches; false where nobody takes them any more.
fn read(
    connection: &mut Connection,
    shared: &ScanContext,
    split: usize,
    send: TakeBatch<'_>,
) -> Result<bool> {
    let sql = shared
        .splits
        .get(split)
        .ok_or_else(|| Error::bug(format!("there is no split {split}")))?;
    let rows = connection.stream(sql, None).map_err(of_rows)?;
    let mut gathered = Gathered::new(shared.batch);
    for batch in rows {
        for whole in gathered.push(batch.map_err(of_rows)?)? {
            if !send((shared.decode)(&whole)?) {
                return Ok(false);
            }
        }
    }
    match gathered.rest()? {
        Some(rest) => Ok(send((shared.decode)(&rest)?)),
        None => Ok(true),
    }
}

/// An error while rows arrive: an expression of the query that could not be evaluated, say.
pub(crate) fn of_rows(failure: adbc_core::error::Error) -> Error {
    error(failure, Doing::Else)
}

/// Batches of the database, which are small, as batches within bounds.
pub(crate) struct Gathered {
    bounds: BatchBounds,
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Gathered {
    pub(crate) fn new(bounds: BatchBounds) -> Self {
        Self {
            bounds,
            batches: Vec::new(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Takes a batch; what is full by that.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<Vec<RecordBatch>> {
        let mut full = Vec::new();
        let mut left = batch;
        while left.num_rows() > 0 {
            let room = self.bounds.rows_max.saturating_sub(self.rows).max(1);
            // As many as fill the bytes, at least one row.
            let each = (bytes(&left) / left.num_rows()).max(1);
            let by_bytes = (self.bounds.bytes_max.saturating_sub(self.bytes) / each).max(1);
            let taken = left.num_rows().min(room).min(by_bytes);
            self.rows += taken;
            self.bytes += taken * each;
            self.batches.push(left.slice(0, taken));
            left = left.slice(taken, left.num_rows() - taken);
            if self.rows >= self.bounds.rows_max || self.bytes >= self.bounds.bytes_max {
                full.extend(self.rest()?);
            }
        }
        Ok(full)
    }

    /// What is left.
    pub(crate) fn rest(&mut self) -> Result<Option<RecordBatch>> {
        let batches = std::mem::take(&mut self.batches);
        (self.rows, self.bytes) = (0, 0);
        match batches.as_slice() {
            [] => Ok(None),
            [first, ..] => concat_batches(&first.schema(), &batches)
                .map(Some)
                .map_err(arrow_bug),
        }
    }
}

/// Bytes of its values, about: of a slice, its part.
fn bytes(batch: &RecordBatch) -> usize {
    let each = batch
        .columns()
        .iter()
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0));
    each.sum()
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn batches_keep_their_bounds_and_lose_no_row() {
        let batch = |from: i64, rows: i64| {
            let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + rows));
            RecordBatch::try_from_iter([("id", ids)]).unwrap()
        };
        for (rows_max, bytes_max) in [(1, 1 << 20), (7, 1 << 20), (1_000, 64), (10_000, 1 << 20)] {
            let mut gathered = Gathered::new(BatchBounds { rows_max, bytes_max });
            let mut out = Vec::new();
            for round in 0..10 {
                out.extend(gathered.push(batch(round * 100, 100)).unwrap());
            }
            out.extend(gathered.rest().unwrap());
            assert!(
                out.iter()
                    .all(|batch| batch.num_rows() <= rows_max && batch.num_rows() > 0)
            );
            let all = concat_batches(&out[0].schema(), &out).unwrap();
            assert_eq!(all, batch(0, 1_000), "{rows_max} {bytes_max}");
        }
    }
}
