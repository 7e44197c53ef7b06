//! What comes out of a database: batches, one after another, for whoever takes Arrow.
//!
//! Nothing is kept but a few batches that were read ahead, so a table may be larger than memory. A stream is read once.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arrow::{
    array::{
        Array, ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray,
        StructArray,
    },
    datatypes::{Field, Schema, SchemaRef},
    error::ArrowError,
    ffi::{FFI_ArrowArray, FFI_ArrowSchema},
    ffi_stream::FFI_ArrowArrayStream,
};
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyList},
};
use tokio::runtime::Handle;
use tonnage::{
    Error, ErrorKind, Result,
    fetch::{Fetched, Get},
    sinks::{self, Output},
    stop,
    unload::Batches,
};

use crate::{
    errors::Failed,
    runtime::{Stop, runtime, wait, wait_for},
    source::Reader,
    values,
};

/// The batches of an unload, for a thread that may block.
pub struct Unloading {
    pub batches: Batches,
}

impl Iterator for Unloading {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next_blocking().map_err(wrapped).transpose()
    }
}

impl RecordBatchReader for Unloading {
    fn schema(&self) -> SchemaRef {
        self.batches.schema().clone()
    }
}

/// What a get has found so far besides the rows that it has handed out.
#[derive(Default)]
pub struct Beside {
    missing: Vec<RecordBatch>,
    /// The account, once it is whole.
    report: Option<String>,
}

/// The rows of a get, for a thread that may block.
pub struct Getting {
    pub get: Option<Get>,
    pub schema: SchemaRef,
    pub runtime: Handle,
    pub beside: Arc<Mutex<Beside>>,
}

impl Iterator for Getting {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let get = self.get.as_mut()?;
            match self.runtime.block_on(get.next()) {
                Ok(Some(Fetched::Rows(rows))) => return Some(Ok(rows)),
                Ok(Some(Fetched::Missing(keys))) => locked(&self.beside).missing.push(keys),
                Ok(Some(Fetched::Related { .. })) => {}
                Ok(None) => {
                    let finished = self.get.take()?.finish();
                    return match finished.and_then(|report| json(&report)) {
                        Ok(report) => {
                            locked(&self.beside).report = Some(report);
                            None
                        }
                        Err(error) => Some(Err(wrapped(error))),
                    };
                }
                Err(error) => {
                    self.get = None;
                    return Some(Err(wrapped(error)));
                }
            }
        }
    }
}

impl RecordBatchReader for Getting {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// An account as JSON.
pub fn json(report: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(report).map_err(|error| Error::bug(format!("the account is no JSON: {error}")))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wrapped(error: Error) -> ArrowError {
    ArrowError::ExternalError(Box::new(error))
}

fn unwrapped(error: ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(cause) => match cause.downcast::<Error>() {
            Ok(error) => *error,
            Err(cause) => Error::input(cause),
        },
        other => Error::input(other),
    }
}

/// Batches to be read once.
#[pyclass(frozen)]
pub struct Stream {
    schema: SchemaRef,
    /// None once they were handed on, or were read.
    reader: Mutex<Option<Reader>>,
}

impl Stream {
    pub fn new(reader: Reader) -> Self {
        Self {
            schema: reader.schema(),
            reader: Mutex::new(Some(reader)),
        }
    }

    /// Of batches in memory.
    pub fn of(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let batches = batches.into_iter().map(Ok);
        Self::new(Box::new(RecordBatchIterator::new(batches, schema)))
    }

    fn take(&self, py: Python<'_>) -> PyResult<Reader> {
        locked(&self.reader).take().ok_or_else(|| {
            let error = Error::config("the rows of this stream were read already, or are being read");
            Failed::of(error.hint("ask for them again, or keep them: .to_arrow()")).raise(py)
        })
    }
}

#[pymethods]
impl Stream {
    /// The rows as an Arrow stream.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // What was requested is a wish, and the columns' own types are the answer.
        drop(requested_schema);
        let stream = FFI_ArrowArrayStream::new(self.take(py)?);
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The columns.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema);
        let schema = schema.map_err(|error| Failed::of(unwrapped(error)).raise(py))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    /// The names of the columns and their Arrow types.
    #[getter]
    fn column_types(&self) -> Vec<(String, String)> {
        let fields = self.schema.fields().iter();
        fields
            .map(|field| (field.name().clone(), field.data_type().to_string()))
            .collect()
    }

    /// The next batch; none at the end.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let Some(mut reader) = locked(&self.reader).take() else {
            return Ok(None);
        };
        let (batch, reader) = wait_for(py, async move {
            let read = tokio::task::spawn_blocking(move || (reader.next(), reader));
            read.await
                .map_err(|error| Error::bug(format!("reading ended: {error}")))
        })?;
        match batch {
            None => Ok(None),
            Some(Ok(batch)) => {
                *locked(&self.reader) = Some(reader);
                Ok(Some(Batch { batch }))
            }
            Some(Err(error)) => Err(Failed::of(unwrapped(error)).raise(py)),
        }
    }

    /// Reads what is left into memory, where it can still be read: whoever takes it from there neither waits nor fails.
    fn complete(&self, py: Python<'_>) -> PyResult<()> {
        let Some(reader) = locked(&self.reader).take() else {
            return Ok(());
        };
        let stop = stop::Stop::default();
        let stopped = stop.clone();
        let read = wait_for(py, async move {
            let read = tokio::task::spawn_blocking(move || collect(reader, &stopped));
            read.await
                .map_err(|error| Error::bug(format!("reading ended: {error}")))?
        });
        // The thread may be reading yet, where the call was interrupted.
        let batches = read.inspect_err(|_| stop.request())?;
        let batches = batches.into_iter().map(Ok);
        *locked(&self.reader) = Some(Box::new(RecordBatchIterator::new(batches, self.schema.clone())));
        Ok(())
    }

    /// Writes the rest to a file, in the format of its ending; the rows and bytes.
    #[pyo3(signature = (path, overwrite, stop = None))]
    fn write(&self, py: Python<'_>, path: PathBuf, overwrite: bool, stop: Option<&Stop>) -> PyResult<u64> {
        let reader = self.take(py)?;
        let output = Output {
            overwrite,
            ..Output::new(path)
        };
        let stop = stop.map_or_else(stop::Stop::default, |stop| stop.0.clone());
        let stopped = stop.clone();
        let waited = wait(py, &stop, |_| Ok(()), async move {
            let written = tokio::task::spawn_blocking(move || write(reader, &output, &stopped));
            written
                .await
                .unwrap_or_else(|error| Err(Error::bug(format!("writing ended: {error}"))))
        })?;
        match waited.raised {
            Some(error) => Err(error),
            None => waited.done.map_err(|error| Failed::of(error).raise(py)),
        }
    }

    /// Ends the reading.
    fn close(&self, py: Python<'_>) {
        let reader = locked(&self.reader).take();
        py.detach(|| drop(reader));
    }
}

fn collect(reader: Reader, stop: &stop::Stop) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    for batch in reader {
        if stop.requested() {
            return Err(Error::new(ErrorKind::Cancelled, "interrupted"));
        }
        batches.push(batch.map_err(unwrapped)?);
    }
    Ok(batches)
}

fn write(reader: Reader, output: &Output, stop: &stop::Stop) -> Result<u64> {
    let mut sink = sinks::create(output, &reader.schema())?;
    let mut rows = 0;
    for batch in reader {
        if stop.requested() {
            return Err(Error::new(
                ErrorKind::Cancelled,
                "interrupted; no file was written",
            ));
        }
        let batch = batch.map_err(unwrapped)?;
        rows += batch.num_rows() as u64;
        sink.write(&batch)?;
    }
    sink.finish()?;
    Ok(rows)
}

/// A batch of rows, for whoever takes Arrow.
#[pyclass(frozen)]
pub struct Batch {
    batch: RecordBatch,
}

#[pymethods]
impl Batch {
    /// The rows as an Arrow array of structs.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let schema = FFI_ArrowSchema::try_from(&*self.batch.schema());
        let schema = schema.map_err(|error| Failed::of(unwrapped(error)).raise(py))?;
        let array = FFI_ArrowArray::new(&StructArray::from(self.batch.clone()).to_data());
        Ok((
            PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// The rows as dicts.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        values::dicts(py, &self.batch)
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        let schema = self.batch.schema();
        schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }
}

/// What a get has found.
#[pyclass(frozen)]
pub struct Found {
    rows: Py<Stream>,
    related: Vec<(String, Py<Stream>)>,
    key_schema: SchemaRef,
    beside: Arc<Mutex<Beside>>,
}

impl Found {
    /// Of a get under way, whose rows are read as they are asked for.
    pub fn streamed(py: Python<'_>, get: Get, schema: SchemaRef, key_schema: SchemaRef) -> PyResult<Self> {
        let beside = Arc::default();
        let reader = Getting {
            get: Some(get),
            schema,
            runtime: runtime(py)?.handle().clone(),
            beside: Arc::clone(&beside),
        };
        Ok(Self {
            rows: Py::new(py, Stream::new(Box::new(reader)))?,
            related: Vec::new(),
            key_schema,
            beside,
        })
    }

    /// Of all that a get has found, with rows of other tables.
    pub fn whole(
        py: Python<'_>,
        all: All,
        schema: SchemaRef,
        key_schema: SchemaRef,
        related: Vec<(String, SchemaRef)>,
    ) -> PyResult<Self> {
        let others = related.into_iter().zip(all.related);
        let others =
            others.map(|((name, schema), batches)| Ok((name, Py::new(py, Stream::of(schema, batches))?)));
        Ok(Self {
            rows: Py::new(py, Stream::of(schema, all.rows))?,
            related: others.collect::<PyResult<_>>()?,
            key_schema,
            beside: Arc::new(Mutex::new(all.beside)),
        })
    }
}

/// All that a get has found.
pub struct All {
    rows: Vec<RecordBatch>,
    related: Vec<Vec<RecordBatch>>,
    beside: Beside,
}

/// Reads a get to its end, of which `tables` hang on the first.
pub async fn all(mut get: Get, tables: usize) -> Result<All> {
    let mut all = All {
        rows: Vec::new(),
        related: vec![Vec::new(); tables],
        beside: Beside::default(),
    };
    while let Some(fetched) = get.next().await? {
        match fetched {
            Fetched::Rows(rows) => all.rows.push(rows),
            Fetched::Missing(keys) => all.beside.missing.push(keys),
            Fetched::Related { table, rows } => match all.related.get_mut(table) {
                Some(known) => known.push(rows),
                None => return Err(Error::bug("rows of a table that was not asked for")),
            },
        }
    }
    all.beside.report = Some(json(&get.finish()?)?);
    Ok(all)
}

#[pymethods]
impl Found {
    /// The rows.
    #[getter]
    fn rows(&self, py: Python<'_>) -> Py<Stream> {
        self.rows.clone_ref(py)
    }

    /// The rows of other tables.
    #[getter]
    fn related(&self, py: Python<'_>) -> Vec<(String, Py<Stream>)> {
        let related = self.related.iter();
        related
            .map(|(name, rows)| (name.clone(), rows.clone_ref(py)))
            .collect()
    }

    /// [`Stream::complete`] of the rows.
    fn complete(&self, py: Python<'_>) -> PyResult<()> {
        self.rows.get().complete(py)
    }

    /// The keys that have no row, once all rows were read.
    fn missing(&self, py: Python<'_>) -> PyResult<Py<Stream>> {
        let missing = locked(&self.beside).missing.clone();
        Py::new(py, Stream::of(self.key_schema.clone(), missing))
    }

    /// The account, as JSON, once all rows were read.
    fn report(&self) -> Option<String> {
        locked(&self.beside).report.clone()
    }
}

/// A column that Python made.
#[derive(FromPyObject)]
enum Column {
    Numbers(Vec<Option<i64>>),
    Texts(Vec<Option<String>>),
}

/// Columns in memory as a stream. One without any value is of text, but for those called `row`.
#[pyfunction]
pub fn columns(py: Python<'_>, columns: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Stream> {
    let mut arrays: Vec<(String, ArrayRef)> = Vec::with_capacity(columns.len());
    for (name, values) in columns {
        let array: ArrayRef = match values.extract::<Column>()? {
            Column::Numbers(values) if name == "row" || values.iter().any(Option::is_some) => {
                Arc::new(Int64Array::from(values))
            }
            Column::Numbers(values) => Arc::new(StringArray::from_iter(values.iter().map(|_| None::<&str>))),
            Column::Texts(values) => Arc::new(StringArray::from_iter(values)),
        };
        arrays.push((name, array));
    }
    let fields = arrays
        .iter()
        .map(|(name, array)| Field::new(name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(
        schema.clone(),
        arrays.into_iter().map(|(_, array)| array).collect(),
    );
    let batch = batch.map_err(|error| Failed::of(unwrapped(error)).raise(py))?;
    Ok(Stream::of(schema, vec![batch]))
}
