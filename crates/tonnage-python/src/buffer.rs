//! A buffer: rows one at a time, drained in the background.

use std::{pin::pin, time::Duration};

use arrow::array::RecordBatch;
use futures::{FutureExt, future::try_join_all};
use pyo3::prelude::*;
use tonnage::{Error, Result, Row, buffer};

use crate::{
    acknowledged::{self, Acknowledged},
    errors::Failed,
    log, rows,
    runtime::{runtime, wait_for},
    source,
    stream::json,
};

/// How long a put waits before it looks at signals.
const TICK: Duration = Duration::from_millis(100);
/// Rows of a `put_many` that are on their way at once.
const ROWS_AT_ONCE: usize = 1_024;

/// Takes rows for a table.
#[pyclass(frozen)]
pub struct Buffer {
    buffer: buffer::Buffer,
}

impl Buffer {
    pub fn new(buffer: buffer::Buffer) -> Self {
        Self { buffer }
    }
}

/// Waits on this very thread, which costs less than handing the work over; signals are looked at meanwhile. What is left for
/// an exception has put nothing while it waited for room.
fn here<T: Send>(py: Python<'_>, work: impl Future<Output = Result<T>> + Send) -> PyResult<T> {
    let runtime = runtime(py)?;
    let mut work = pin!(work);
    loop {
        let done = py.detach(|| runtime.block_on(async { tokio::time::timeout(TICK, work.as_mut()).await }));
        match done {
            Ok(done) => return done.map_err(|error| Failed::of(error).raise(py)),
            Err(_) => {
                log::hand_over(py)?;
                py.check_signals()?;
            }
        }
    }
}

#[pymethods]
impl Buffer {
    /// Puts a row; its sequence number, once it is acknowledged.
    fn put(&self, py: Python<'_>, row: &Bound<'_, PyAny>) -> PyResult<u64> {
        let row = Row::json(rows::row(row, self.buffer.columns(), false)?);
        here(py, self.buffer.put(row))
    }

    /// The same of a producer that numbers its rows.
    fn put_from(&self, py: Python<'_>, producer: &str, number: u64, row: &Bound<'_, PyAny>) -> PyResult<u64> {
        let row = Row::json(rows::row(row, self.buffer.columns(), false)?);
        here(py, self.buffer.put_from(producer, number, row))
    }

    /// Puts a row for a coroutine: its number where it is acknowledged at once, else none, and `settle` is called later, on
    /// another thread, with a list of what was acknowledged: `future`, number, exception.
    fn put_soon(
        &self,
        py: Python<'_>,
        row: &Bound<'_, PyAny>,
        producer: Option<String>,
        number: u64,
        future: Py<PyAny>,
        settle: Py<PyAny>,
    ) -> PyResult<Option<u64>> {
        let row = Row::json(rows::row(row, self.buffer.columns(), false)?);
        let buffer = self.buffer.clone();
        let mut put = Box::pin(async move {
            match producer {
                None => buffer.put(row).await,
                Some(producer) => buffer.put_from(&producer, number, row).await,
            }
        });
        let runtime = runtime(py)?;
        let acknowledgements = acknowledged::sender(py)?;
        {
            let _entered = runtime.enter();
            // The first poll accepts the row where there is room, so rows are accepted in the order of their calls.
            if let Some(put) = put.as_mut().now_or_never() {
                return put.map(Some).map_err(|error| Failed::of(error).raise(py));
            }
        }
        runtime.spawn(async move {
            // The thread that takes it lives as long as the process.
            let _ = acknowledgements.send(Acknowledged {
                put: put.await,
                future,
                settle,
            });
        });
        Ok(None)
    }

    /// Puts the rows of Arrow data; the number of the last one.
    fn put_arrow(&self, py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<u64> {
        let reader = source::reader(object)?;
        let mut reader =
            reader.ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("the object has no Arrow data"))?;
        let mut last = self.buffer.accepted();
        // The producer may need the interpreter for each of its batches.
        while let Some(batch) = py.detach(|| reader.next()) {
            let failed = |error| Failed::of(Error::input(error)).raise(py);
            let batch: RecordBatch = batch.map_err(failed)?;
            last = here(py, self.buffer.put_many(batch))?;
        }
        Ok(last)
    }

    /// Puts rows; the number of the last one.
    fn put_rows(&self, py: Python<'_>, objects: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut last = self.buffer.accepted();
        let mut waiting = Vec::with_capacity(ROWS_AT_ONCE);
        let mut objects = objects.try_iter()?;
        loop {
            let object = objects.next().transpose()?;
            if let Some(object) = &object {
                waiting.push(Row::json(rows::row(object, self.buffer.columns(), false)?));
            }
            if waiting.len() == ROWS_AT_ONCE || (object.is_none() && !waiting.is_empty()) {
                // Polled in their order, so they are accepted in it.
                let puts = waiting.drain(..).map(|row| self.buffer.put(row));
                let numbers = here(py, try_join_all(puts.collect::<Vec<_>>()))?;
                last = numbers.last().copied().unwrap_or(last);
            }
            if object.is_none() {
                return Ok(last);
            }
        }
    }

    /// Waits until a row is in the table, or in the rejects.
    fn wait(&self, py: Python<'_>, sequence: u64) -> PyResult<()> {
        here(py, self.buffer.wait(sequence))
    }

    /// Waits until a row is in the journal.
    fn wait_journaled(&self, py: Python<'_>, sequence: u64) -> PyResult<()> {
        here(py, self.buffer.wait_journaled(sequence))
    }

    /// Drains what was put before.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        here(py, self.buffer.flush())
    }

    #[getter]
    fn columns(&self) -> Vec<String> {
        self.buffer.columns().to_vec()
    }

    #[getter]
    fn accepted(&self) -> u64 {
        self.buffer.accepted()
    }

    #[getter]
    fn journaled(&self) -> u64 {
        self.buffer.journaled()
    }

    #[getter]
    fn committed(&self) -> u64 {
        self.buffer.committed()
    }

    /// The account so far, as JSON.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        json(&self.buffer.report()).map_err(|error| Failed::of(error).raise(py))
    }

    /// Drains all and ends: the account as JSON.
    fn close(&self, py: Python<'_>) -> PyResult<String> {
        let buffer = self.buffer.clone();
        wait_for(py, async move { json(&buffer.close().await?) })
    }

    /// Ends without waiting for the database; with a journal the next that opens it drains the rest.
    fn stop(&self, py: Python<'_>) -> PyResult<String> {
        let buffer = self.buffer.clone();
        wait_for(py, async move { json(&buffer.stop().await) })
    }
}
