//! Rows of the program: Arrow streams, taken over without a copy, and objects of Python.
//!
//! Rows are pulled by the engine's reading thread, which takes the interpreter where a producer calls into Python and at no
//! other time. What the program raises there ends the load, and is the cause of its error.
//!
//! A source with a name of the program's (`source_id`) can be read again: it is made anew, by the function that made it. Its
//! blocks are cut by its rows alone, however they come in batches, and each mark has the hash of all rows before it; a resume
//! that finds others is refused.

use std::{
    ffi::CStr,
    sync::{Arc, Mutex, PoisonError},
};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, PrimitiveArray, RecordBatch, RecordBatchIterator, RecordBatchReader,
        StructArray,
    },
    compute::concat_batches,
    datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type, Schema, SchemaRef},
    error::ArrowError,
    ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi},
    ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream},
    row::{RowConverter, Rows, SortField},
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyCapsule, PyTuple},
};
use tonnage::{
    Error, ErrorKind, Result,
    convert::schema_of_batches,
    error::arrow_bug,
    extent::Extent,
    ledger::InputIdentity,
    parse::{ParseContext, timezone},
    reject::RejectData,
    slot::BlockMark,
    source::{Block, BlockCounter, ReadRequest, Source as EngineSource, SourceSchema, SourceTableInfo},
    sources::rows::RowSource,
    stop::Stop,
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::rows::Objects;

/// Rows that blocks of many small batches have at least.
const SMALL_BLOCK_ROWS: usize = 8_192;

/// Batches of one schema.
pub type Reader = Box<dyn RecordBatchReader + Send>;

/// What the program raised, kept for the exception that it causes.
#[derive(Clone, Default)]
pub struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// Keeps it; an error that says what it was.
    pub fn keep(&self, py: Python<'_>, error: PyErr) -> Error {
        let ended = Self::message(py, &error);
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
        ended
    }

    fn message(py: Python<'_>, error: &PyErr) -> Error {
        let name = error.get_type(py).name().map(|name| name.to_string());
        let name = name.unwrap_or_else(|_| "an exception".to_owned());
        Error::input(format!("the program's rows ended by {name}: {}", error.value(py)))
    }

    /// Takes it.
    pub fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

fn name<'py>(py: Python<'py>, method: &'static str) -> Bound<'py, pyo3::types::PyString> {
    pyo3::types::PyString::intern(py, method)
}

/// The pointer of a capsule that must be called `wanted`.
fn pointer<T>(capsule: &Bound<'_, PyAny>, wanted: &'static CStr) -> PyResult<*mut T> {
    let capsule = capsule
        .cast::<PyCapsule>()
        .map_err(|_| PyTypeError::new_err(format!("a capsule {wanted:?} was expected")))?;
    Ok(capsule.pointer_checked(Some(wanted))?.cast::<T>().as_ptr())
}

fn not_arrow(error: &ArrowError) -> PyErr {
    PyValueError::new_err(format!("the Arrow data cannot be taken over: {error}"))
}

/// The batches of an object with `__arrow_c_stream__` or `__arrow_c_array__`. `None` for any other.
pub fn reader(object: &Bound<'_, PyAny>) -> PyResult<Option<Reader>> {
    let py = object.py();
    if object.hasattr(name(py, "__arrow_c_stream__"))? {
        let capsule = object.call_method0(name(py, "__arrow_c_stream__"))?;
        let stream: *mut FFI_ArrowArrayStream = pointer(&capsule, c"arrow_array_stream")?;
        // SAFETY: the capsule's name says what it points to, and what is moved out is marked as released.
        let reader =
            unsafe { ArrowArrayStreamReader::from_raw(stream) }.map_err(|error| not_arrow(&error))?;
        return Ok(Some(Box::new(reader)));
    }
    if !object.hasattr(name(py, "__arrow_c_array__"))? {
        return Ok(None);
    }
    let capsules = object.call_method0(name(py, "__arrow_c_array__"))?;
    let capsules = capsules
        .cast::<PyTuple>()
        .map_err(|_| PyTypeError::new_err("__arrow_c_array__ gave no pair of capsules"))?;
    let schema: *mut FFI_ArrowSchema = pointer(&capsules.get_item(0)?, c"arrow_schema")?;
    let array: *mut FFI_ArrowArray = pointer(&capsules.get_item(1)?, c"arrow_array")?;
    // SAFETY: as above.
    let (schema, data) = unsafe {
        let schema = FFI_ArrowSchema::from_raw(schema);
        let data = from_ffi(FFI_ArrowArray::from_raw(array), &schema);
        (schema, data)
    };
    let data = data.map_err(|error| not_arrow(&error))?;
    if !matches!(data.data_type(), DataType::Struct(_)) {
        return Err(PyTypeError::new_err(
            "an Arrow array of structs was expected, which is a batch of rows; this is a single column",
        ));
    }
    let named = Schema::try_from(&schema).map_err(|error| not_arrow(&error))?;
    let batch = RecordBatch::from(StructArray::from(data));
    let batch = batch
        .with_schema(Arc::new(named))
        .map_err(|error| not_arrow(&error))?;
    let schema = batch.schema();
    Ok(Some(Box::new(RecordBatchIterator::new([Ok(batch)], schema))))
}

/// An iterator of objects of Arrow, one after another.
struct Chain {
    objects: Py<PyAny>,
    schema: SchemaRef,
    now: Option<Reader>,
}

impl Chain {
    /// Of an iterator whose first object must be one of Arrow.
    fn new(objects: &Bound<'_, PyAny>) -> PyResult<Self> {
        let first = Self::following(objects)?;
        let schema = first.as_ref().map(|reader| reader.schema());
        Ok(Self {
            objects: objects.clone().unbind(),
            schema: schema
                .ok_or_else(|| PyValueError::new_err("there is no batch, and so there are no columns"))?,
            now: first,
        })
    }

    fn following(objects: &Bound<'_, PyAny>) -> PyResult<Option<Reader>> {
        let Some(object) = objects.try_iter()?.next().transpose()? else {
            return Ok(None);
        };
        let kind = object.get_type().name()?;
        let reader = reader(&object)?;
        reader.map(Some).ok_or_else(|| {
            PyTypeError::new_err(format!(
                "an object of Arrow (with __arrow_c_stream__ or __arrow_c_array__) was expected, and a {kind} came"
            ))
        })
    }
}

impl Iterator for Chain {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.now.as_mut()?.next() {
                return Some(batch);
            }
            match Python::attach(|py| Self::following(self.objects.bind(py))) {
                Ok(following) => self.now = following,
                Err(error) => {
                    self.now = None;
                    return Some(Err(ArrowError::ExternalError(Box::new(error))));
                }
            }
        }
    }
}

impl RecordBatchReader for Chain {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Rows of the program, described: what makes them, and how they are read.
#[pyclass(frozen)]
pub struct Source {
    /// Gives the object that has the rows; called again where they are read again.
    make: Py<PyAny>,
    shown: String,
    /// `arrow`, `batches` or `rows`.
    kind: String,
    /// Of rows.
    columns: Vec<String>,
    timezone: Option<String>,
    nan_is_null: bool,
    id: Option<String>,
}

#[pymethods]
impl Source {
    #[new]
    #[pyo3(signature = (make, shown, kind, columns, timezone, nan_is_null, id))]
    fn new(
        make: Py<PyAny>,
        shown: String,
        kind: String,
        columns: Vec<String>,
        timezone: Option<String>,
        nan_is_null: bool,
        id: Option<String>,
    ) -> Self {
        Self {
            make,
            shown,
            kind,
            columns,
            timezone,
            nan_is_null,
            id,
        }
    }
}

/// How a source is made, and made again.
type Make = Box<dyn FnMut() -> Result<Box<dyn EngineSource>> + Send>;

impl Source {
    /// Opens it. What the program raises is kept in `raised`; reading ends where `stop` asks for it.
    pub fn open(&self, py: Python<'_>, raised: &Raised, stop: &Stop) -> Result<Box<dyn EngineSource>> {
        let make = self.make.clone_ref(py);
        let (shown, kind, columns) = (self.shown.clone(), self.kind.clone(), self.columns.clone());
        let (nan_is_null, exact) = (self.nan_is_null, self.id.is_some());
        let zone = self.timezone.as_deref().map(timezone).transpose()?;
        let (kept, stopped) = (raised.clone(), stop.clone());
        let mut make: Make = Box::new(move || {
            let failed = kept.clone();
            let opened = Python::attach(|py| -> Result<Box<dyn EngineSource>> {
                let keep = |error| failed.keep(py, error);
                let object = make.bind(py).call0().map_err(keep)?;
                if kind == "rows" {
                    let rows = Objects::new(&object, columns.clone(), nan_is_null, failed.clone());
                    let rows = RowSource::new(&shown, columns.clone(), rows.map_err(keep)?);
                    return Ok(Box::new(rows.context(ParseContext {
                        timezone: zone.clone(),
                        ..ParseContext::default()
                    })));
                }
                let reader: Reader = match kind.as_str() {
                    "batches" => Box::new(Chain::new(&object).map_err(keep)?),
                    _ => reader(&object)
                        .map_err(keep)?
                        .ok_or_else(|| Error::config("the object has no Arrow data"))?,
                };
                Ok(Box::new(Batches::new(
                    &shown,
                    reader,
                    nan_is_null,
                    exact,
                    failed.clone(),
                )?))
            })?;
            Ok(Box::new(Watched::new(opened, kept.clone(), stopped.clone())))
        });
        let source = make()?;
        Ok(match &self.id {
            None => source,
            Some(id) => Box::new(Again::new(id.clone(), source, make)),
        })
    }
}

/// Passes everything of the source that it wraps but what is written out.
macro_rules! passes {
    ($($name:ident),*) => {
        $(passes!(@ $name);)*
    };
    (@ schema) => { fn schema(&self) -> &SourceSchema { self.inner.schema() } };
    (@ extents) => { fn extents(&self) -> &[Extent] { self.inner.extents() } };
    (@ table_info) => { fn table_info(&self) -> Option<&SourceTableInfo> { self.inner.table_info() } };
    (@ options) => { fn options(&self) -> Vec<String> { self.inner.options() } };
    (@ remarks) => { fn remarks(&self) -> Vec<String> { self.inner.remarks() } };
    (@ bytes_total) => { fn bytes_total(&self) -> Option<u64> { self.inner.bytes_total() } };
}

/// A source that ends by an error where the program has raised one, or was asked to stop: an iterator can only end.
pub struct Watched {
    inner: Box<dyn EngineSource>,
    raised: Raised,
    stop: Stop,
}

impl Watched {
    /// Over `inner`, of which the program keeps in `raised` what it raises.
    pub fn new(inner: Box<dyn EngineSource>, raised: Raised, stop: Stop) -> Self {
        Self { inner, raised, stop }
    }

    fn failure(&self) -> Option<Error> {
        let raised = self.raised.0.lock().unwrap_or_else(PoisonError::into_inner);
        let error = raised.as_ref()?;
        Some(Python::attach(|py| Raised::message(py, error)))
    }
}

impl EngineSource for Watched {
    passes!(schema, extents, table_info, options, remarks, bytes_total);

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        None
    }

    fn not_rereadable(&self) -> &'static str {
        "the rows come from the program"
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        self.inner.request(request)
    }

    fn seek(&mut self, index: u64, mark: &BlockMark) -> Result<()> {
        self.inner.seek(index, mark)
    }

    fn next(&mut self) -> Result<Option<Block>> {
        if self.stop.requested() {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
        let next = self.inner.next();
        match self.failure() {
            Some(error) => Err(error),
            None => next,
        }
    }
}

/// A source that is made anew to be read again.
struct Again {
    id: String,
    inner: Box<dyn EngineSource>,
    make: Make,
    request: Option<ReadRequest>,
    /// The block that comes next.
    index: u64,
    hash: u64,
    converter: Option<RowConverter>,
}

impl Again {
    fn new(id: String, inner: Box<dyn EngineSource>, make: Make) -> Self {
        Self {
            id,
            inner,
            make,
            request: None,
            index: 0,
            hash: 0,
            converter: None,
        }
    }

    /// The hash of all rows up to the end of `block`.
    fn hash_of(&mut self, block: &Block) -> Result<u64> {
        let rows = canonical(&mut self.converter, &block.rows)?;
        let mut hash = rows
            .iter()
            .fold(self.hash, |hash, row| xxh3_64_with_seed(row.as_ref(), hash));
        for reject in &block.rejects {
            hash = xxh3_64_with_seed(&reject.row.to_le_bytes(), hash);
            hash = match &reject.data {
                RejectData::Raw(bytes) => xxh3_64_with_seed(bytes, hash),
                RejectData::Fields(fields) => fields.iter().fold(hash, |hash, (_, value)| {
                    xxh3_64_with_seed(value.as_deref().unwrap_or("\0").as_bytes(), hash)
                }),
            };
        }
        // 0 says that it is not known.
        Ok(hash.max(1))
    }
}

/// Rows as bytes that are the same for the same values, however a column is laid out.
fn canonical(converter: &mut Option<RowConverter>, batch: &RecordBatch) -> Result<Rows> {
    let fields = batch.schema_ref().fields().iter();
    let fields: Vec<_> = fields
        .map(|field| SortField::new(field.data_type().clone()))
        .collect();
    if converter.is_none() {
        if !RowConverter::supports_fields(&fields) {
            return Err(Error::config(
                "a column has a type whose values cannot be told from others, so rows with a source_id cannot have it",
            )
            .hint("leave source_id out, or write the rows to a Parquet file and load that"));
        }
        *converter = Some(RowConverter::new(fields).map_err(arrow_bug)?);
    }
    match converter {
        Some(converter) => converter.convert_columns(batch.columns()).map_err(arrow_bug),
        None => Err(Error::bug("rows have no converter")),
    }
}

impl EngineSource for Again {
    passes!(schema, extents, table_info, options, remarks, bytes_total);

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        Some(vec![InputIdentity {
            path: format!("source_id:{}", self.id),
            ..InputIdentity::default()
        }])
    }

    fn not_rereadable(&self) -> &'static str {
        "the rows come from the program"
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        self.request = Some(request.clone());
        self.inner.request(request)
    }

    fn seek(&mut self, index: u64, mark: &BlockMark) -> Result<()> {
        if index < self.index {
            self.inner = (self.make)()?;
            (self.index, self.hash, self.converter) = (0, 0, None);
            if let Some(request) = &self.request {
                self.inner.request(request)?;
            }
        }
        let differs = |id: &str| {
            Error::input(format!(
                "source '{id}' has changed since the run began: rows that it has loaded are not there as they were"
            ))
            .hint("restart=True begins anew; a source_id is for one content, so other rows have another")
        };
        let mut rows = if index == 0 { Some(0) } else { None };
        while self.index < index {
            let block = self.next()?.ok_or_else(|| differs(&self.id))?;
            rows = Some(block.end.rows);
        }
        let moved = rows.is_some_and(|rows| rows != mark.rows);
        if moved || (mark.hash != 0 && mark.hash != self.hash) {
            return Err(differs(&self.id));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Block>> {
        let Some(mut block) = self.inner.next()? else {
            return Ok(None);
        };
        block.start.hash = self.hash;
        self.hash = self.hash_of(&block)?;
        block.end.hash = self.hash;
        self.index = block.index + 1;
        Ok(Some(block))
    }
}

/// The batches of a reader.
struct Batches {
    schema: SourceSchema,
    arrow: SchemaRef,
    reader: Reader,
    nan_is_null: bool,
    /// Whether blocks are cut by rows alone.
    exact: bool,
    raised: Raised,
    /// Those that came.
    batches: u64,
    columns: Vec<usize>,
    block_rows: usize,
    block_bytes: usize,
    /// What is left of a batch.
    rest: Option<RecordBatch>,
    converter: Option<RowConverter>,
    blocks: BlockCounter,
}

impl Batches {
    fn new(shown: &str, reader: Reader, nan_is_null: bool, exact: bool, raised: Raised) -> Result<Self> {
        let arrow = reader.schema();
        let mut names: Vec<&str> = arrow.fields().iter().map(|field| field.name().as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::schema(format!("{shown} has two columns '{}'", twice[0]))
                .hint("give each column a name of its own"));
        }
        Ok(Self {
            schema: schema_of_batches(shown, &arrow),
            arrow,
            reader,
            nan_is_null,
            exact,
            raised,
            batches: 0,
            columns: Vec::new(),
            block_rows: usize::MAX,
            block_bytes: usize::MAX,
            rest: None,
            converter: None,
            blocks: BlockCounter::default(),
        })
    }

    /// The next batch that has rows, of the columns wanted.
    fn pull(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let batch = match self.rest.take() {
                Some(rest) => return Ok(Some(rest)),
                None => match self.reader.next() {
                    None => return Ok(None),
                    Some(batch) => batch.map_err(|error| self.failed(error))?,
                },
            };
            self.batches += 1;
            if batch.num_rows() == 0 {
                continue;
            }
            if let Some(difference) = difference(batch.schema_ref(), &self.arrow) {
                return Err(Error::input(format!(
                    "batch {} of {} has other columns than the first: {difference}",
                    self.batches, self.schema.shown
                ))
                .hint("all batches have the columns of the first, in its order and with its types"));
            }
            let batch = batch.project(&self.columns).map_err(arrow_bug)?;
            return match self.nan_is_null {
                true => without_nan(&batch).map(Some),
                false => Ok(Some(batch)),
            };
        }
    }

    fn failed(&self, error: ArrowError) -> Error {
        let error = match error {
            ArrowError::ExternalError(cause) => match cause.downcast::<PyErr>() {
                Ok(raised) => return Python::attach(|py| self.raised.keep(py, *raised)),
                Err(cause) => ArrowError::ExternalError(cause),
            },
            other => other,
        };
        Error::input(format!("{}: {error}", self.schema.shown))
    }

    /// How many of the first rows of `batch` a block takes that has `rows` and `bytes` already; and their bytes.
    fn room(&mut self, batch: &RecordBatch, rows: usize, bytes: usize) -> Result<(usize, usize)> {
        let most = batch.num_rows().min(self.block_rows - rows);
        if !self.exact {
            let all = size(batch);
            let each = (all / batch.num_rows()).max(1);
            let fitting = (self.block_bytes.saturating_sub(bytes) / each).max(1);
            let taken = most.min(fitting);
            return Ok((taken, taken * each));
        }
        let canonical = canonical(&mut self.converter, &batch.slice(0, most))?;
        let mut sum = 0;
        for row in 0..most {
            sum += canonical.row(row).as_ref().len();
            if bytes + sum >= self.block_bytes {
                return Ok((row + 1, sum));
            }
        }
        Ok((most, sum))
    }
}

/// What `schema` has otherwise than `first`.
fn difference(schema: &Schema, first: &Schema) -> Option<String> {
    let (fields, wanted) = (schema.fields(), first.fields());
    if fields.len() != wanted.len() {
        return Some(format!("{} of them, and not {}", fields.len(), wanted.len()));
    }
    fields.iter().zip(wanted).find_map(|(field, wanted)| {
        if field.name() != wanted.name() {
            return Some(format!("'{}' is where '{}' was", field.name(), wanted.name()));
        }
        let (kind, was) = (field.data_type(), wanted.data_type());
        (kind != was).then(|| format!("'{}' is {kind}, and was {was}", field.name()))
    })
}

/// Bytes of memory that the rows of a batch take, those of other slices aside.
fn size(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    let bytes = columns.map(|column| {
        let data = column.to_data();
        data.get_slice_memory_size()
            .unwrap_or_else(|_| column.get_array_memory_size())
    });
    bytes.sum()
}

/// The batch with nulls in the place of what is no number.
fn without_nan(batch: &RecordBatch) -> Result<RecordBatch> {
    fn nulled<T: ArrowPrimitiveType>(
        array: &PrimitiveArray<T>,
        is_nan: fn(&T::Native) -> bool,
    ) -> Option<ArrayRef> {
        let found = array.values().iter().any(is_nan);
        found.then(|| {
            let values = array.iter().map(|value| value.filter(|value| !is_nan(value)));
            Arc::new(PrimitiveArray::<T>::from_iter(values)) as ArrayRef
        })
    }
    let columns = batch.columns().iter().map(|column| {
        let changed = match column.data_type() {
            DataType::Float64 => nulled::<Float64Type>(column.as_primitive(), |value| value.is_nan()),
            DataType::Float32 => nulled::<Float32Type>(column.as_primitive(), |value| value.is_nan()),
            _ => None,
        };
        changed.unwrap_or_else(|| column.clone())
    });
    let fields = batch.schema_ref().fields().iter();
    let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.collect()).map_err(arrow_bug)
}

impl EngineSource for Batches {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        None
    }

    fn not_rereadable(&self) -> &'static str {
        "the rows come from the program"
    }

    fn extents(&self) -> &[Extent] {
        &[]
    }

    fn table_info(&self) -> Option<&SourceTableInfo> {
        None
    }

    fn options(&self) -> Vec<String> {
        match self.nan_is_null {
            true => vec!["nan=null".to_owned()],
            false => Vec::new(),
        }
    }

    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    fn bytes_total(&self) -> Option<u64> {
        None
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        self.columns = request.columns.iter().map(|(at, _)| *at).collect();
        // The rows of a block are numbered with 32 bits.
        self.block_rows = request.block_rows.clamp(1, u32::MAX as usize);
        self.block_bytes = request.block_bytes.max(1);
        Ok(())
    }

    fn seek(&mut self, _: u64, _: &BlockMark) -> Result<()> {
        Err(Error::input(format!(
            "{} cannot be read again",
            self.schema.shown
        )))
    }

    fn next(&mut self) -> Result<Option<Block>> {
        let (mut parts, mut rows, mut bytes) = (Vec::new(), 0, 0);
        let enough = match self.exact {
            true => self.block_rows,
            false => self.block_rows.min(SMALL_BLOCK_ROWS),
        };
        while rows < enough && bytes < self.block_bytes {
            let Some(batch) = self.pull()? else { break };
            let (taken, size) = self.room(&batch, rows, bytes)?;
            if taken < batch.num_rows() {
                self.rest = Some(batch.slice(taken, batch.num_rows() - taken));
            }
            parts.push(batch.slice(0, taken));
            (rows, bytes) = (rows + taken, bytes + size);
        }
        let rows = match parts.as_slice() {
            [] => return Ok(None),
            [only] => only.clone(),
            [first, ..] => concat_batches(&first.schema(), &parts).map_err(arrow_bug)?,
        };
        Ok(Some(self.blocks.block(&self.schema.shown, rows, bytes as u64)))
    }
}
