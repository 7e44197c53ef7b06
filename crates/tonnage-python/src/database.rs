//! A database, and what is done with it.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Instant,
};

use pyo3::prelude::*;
use tonnage::{
    BulkPut, Error, ErrorKind, Result,
    connected::Connected,
    driver::Connector,
    fetch,
    load::{Ended, Progress},
    put::{AfterFailure, Entry},
    reader::CutStates,
    reject::RejectData,
    report::RunState,
    stop,
    target::Target,
    targets::{self, connect, connect_sharded, redact},
    unload::{self, Batches},
};
use tonnage_cli::described::{self, Decided, Given};

use crate::{
    buffer::Buffer,
    cut::Cut,
    errors::Failed,
    runtime::{Stop, wait, wait_for},
    source::{Raised, Source, Watched},
    stream::{Found, Stream, Unloading, all, json},
};

/// Moments of a run that are kept for its picture; of more every second one is left out.
const SAMPLES_MAX: usize = 400;

/// Rows of a preview.
const PREVIEW_ROWS: usize = 3;

/// A database by its URL, or several that hold tables together. It is connected to when it is first needed.
#[pyclass(frozen)]
pub struct Database {
    places: Vec<String>,
    shard_by: Vec<String>,
    target: Arc<Mutex<Option<Arc<dyn Target>>>>,
}

/// Where rows come from.
#[derive(FromPyObject)]
pub enum Rows {
    Inputs(Vec<String>),
    Program(Py<Source>),
}

/// What a database is connected by.
#[derive(Clone)]
pub(crate) struct Connection {
    places: Vec<String>,
    shard_by: Vec<String>,
    target: Arc<Mutex<Option<Arc<dyn Target>>>>,
}

impl Connection {
    pub(crate) fn shown(&self) -> String {
        let shown: Vec<_> = self.places.iter().map(|place| redact(place)).collect();
        shown.join(", ")
    }

    pub(crate) async fn target(&self) -> Result<Arc<dyn Target>> {
        let known = self.target.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(target) = known {
            return Ok(target);
        }
        let target = match self.places.as_slice() {
            [only] if self.shard_by.is_empty() => connect(only).await?,
            several => connect_sharded(several, &self.shard_by, None).await?,
        };
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Some(target.clone());
        Ok(target)
    }

    /// What connects a buffer, which may outlive the connection at hand.
    fn connector(&self) -> Connector {
        if let ([only], true) = (self.places.as_slice(), self.shard_by.is_empty()) {
            return targets::connector(only.clone(), None);
        }
        let connection = self.clone();
        Connector {
            shown: self.shown(),
            connect: Arc::new(move || {
                let connection = connection.clone();
                Box::pin(async move { connection.target().await })
            }),
        }
    }
}

/// The account of a load as JSON, rows written by time, and what comparing has found.
type Loaded = (String, Vec<(f64, u64)>, Option<String>);

/// Rows written by time, for the picture of a run.
struct Samples {
    started: Instant,
    every: usize,
    ticks: usize,
    taken: Vec<(f64, u64)>,
}

impl Samples {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            every: 1,
            ticks: 0,
            taken: Vec::new(),
        }
    }

    fn take(&mut self, progress: &Progress) {
        self.ticks += 1;
        if !self.ticks.is_multiple_of(self.every) {
            return;
        }
        if self.taken.len() == SAMPLES_MAX {
            let mut at = 0;
            self.taken.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            self.every *= 2;
        }
        self.taken
            .push((self.started.elapsed().as_secs_f64(), written(progress)));
    }
}

/// Rows in the table, or in the transaction that is still open: those of a single one are counted in both once it is over.
fn written(progress: &Progress) -> u64 {
    let committed = progress.written.load(Ordering::Relaxed);
    committed.max(progress.uncommitted.load(Ordering::Relaxed))
}

/// Tells `call`, if there is one, how far a run has come: rows read, written and put aside, bytes read and in all.
fn tell(py: Python<'_>, call: Option<&Py<PyAny>>, progress: &Progress, bytes: Option<u64>) -> PyResult<()> {
    let Some(call) = call else { return Ok(()) };
    let get = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    call.call1(
        py,
        (
            get(&progress.read),
            written(progress),
            get(&progress.rejected),
            get(&progress.bytes_read),
            bytes,
        ),
    )?;
    Ok(())
}

impl Database {
    pub(crate) fn connection(&self) -> Connection {
        Connection {
            places: self.places.clone(),
            shard_by: self.shard_by.clone(),
            target: Arc::clone(&self.target),
        }
    }

    pub(crate) fn given(
        py: Python<'_>,
        rows: &Rows,
        in_one: bool,
        raised: &Raised,
        stop: &stop::Stop,
    ) -> PyResult<Given> {
        Ok(match rows {
            Rows::Inputs(inputs) => Given::Inputs(inputs.clone()),
            Rows::Program(source) => Given::Source {
                source: source
                    .get()
                    .open(py, raised, stop)
                    .map_err(|error| Failed::of(error).caused_by(raised.take()).raise(py))?,
                in_one,
            },
        })
    }

    /// Decides a load or an exec.
    fn decided(
        &self,
        py: Python<'_>,
        command: &str,
        arguments: Vec<String>,
        given: Given,
        raised: &Raised,
    ) -> PyResult<Decided> {
        let connection = self.connection();
        let is_load = command == "load";
        let deciding = async move {
            // A task of its own, as opening a pipe may block.
            let deciding = tokio::spawn(async move {
                let target = connection.target().await?;
                match is_load {
                    true => described::load(&arguments, given, target, connection.shown()).await,
                    false => described::exec(&arguments, given, target, connection.shown()).await,
                }
            });
            let decided = deciding.await;
            decided.unwrap_or_else(|error| Err(Error::bug(format!("the rows were not prepared: {error}"))))
        };
        wait_for(py, deciding).inspect_err(|error| {
            if let Some(cause) = raised.take() {
                error.set_cause(py, Some(cause));
            }
        })
    }
}

#[pymethods]
impl Database {
    #[new]
    fn new(places: Vec<String>, shard_by: Vec<String>) -> Self {
        Self {
            places,
            shard_by,
            target: Arc::default(),
        }
    }

    /// The URL without its password.
    #[getter]
    fn url(&self) -> String {
        self.connection().shown()
    }

    /// Connects now.
    fn connect(&self, py: Python<'_>) -> PyResult<()> {
        let connection = self.connection();
        wait_for(py, async move { connection.target().await }).map(drop)
    }

    /// Lets go of its connections.
    fn close(&self, py: Python<'_>) {
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(target));
    }

    /// Loads, or runs a statement for every row: the account as JSON, and rows written by time.
    #[pyo3(signature = (command, arguments, rows, in_one, stop, progress))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn load(
        &self,
        py: Python<'_>,
        command: &str,
        arguments: Vec<String>,
        rows: Rows,
        in_one: bool,
        stop: &Stop,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Loaded> {
        let raised = Raised::default();
        let given = Self::given(py, &rows, in_one, &raised, &stop.0)?;
        let Decided { prepared, check } = self.decided(py, command, arguments, given, &raised)?;
        if stop.0.requested() {
            let error = Error::new(ErrorKind::Cancelled, "interrupted; no rows were written");
            return Err(Failed::of(error).raise(py));
        }
        let (counts, resumable) = (Arc::<Progress>::default(), prepared.resumable());
        let bytes = prepared.bytes_total();
        let mut samples = Samples::new();
        let running = prepared.run(counts.clone(), stop.0.clone());
        let tick = |py: Python<'_>| {
            samples.take(&counts);
            tell(py, progress.as_ref(), &counts, bytes)
        };
        let waited = wait(py, &stop.0, tick, running)?;
        let Ended { report, error } = match (waited.done, waited.raised) {
            (Ok(ended), None) => ended,
            (Ok(ended), Some(raised)) => {
                // Ctrl-C, or a callback's exception: with the account of what was done.
                let report = json(&ended.report).map_err(|error| Failed::of(error).raise(py))?;
                return Err(interrupted(py, raised, &report, resumable));
            }
            (Err(_), Some(raised)) => return Err(raised),
            (Err(error), None) => return Err(Failed::of(error).caused_by(raised.take()).raise(py)),
        };
        let account = json(&report).map_err(|error| Failed::of(error).raise(py))?;
        if let Some(error) = error {
            let is_cancelled = error.kind() == ErrorKind::Cancelled && resumable;
            let error = match is_cancelled {
                true => error.hint("go on with --resume"),
                false => error,
            };
            return Err(Failed::of(error)
                .with_report(account)
                .caused_by(raised.take())
                .raise(py));
        }
        tell(py, progress.as_ref(), &counts, bytes)?;
        samples.every = 1;
        samples.take(&counts);
        let verified = match check.filter(|_| report.state == RunState::Finished) {
            None => None,
            Some(check) => {
                let compared = wait_for(py, async move {
                    check.run(&report, Arc::default(), stop::Stop::default()).await
                })?;
                Some(json(&compared).map_err(|error| Failed::of(error).raise(py))?)
            }
        };
        Ok((account, samples.taken, verified))
    }

    /// What a load, an exec or an unload would do.
    fn plan(
        &self,
        py: Python<'_>,
        command: &str,
        arguments: Vec<String>,
        rows: Rows,
        in_one: bool,
    ) -> PyResult<String> {
        if command == "unload" {
            let connection = self.connection();
            return wait_for(py, async move {
                let options = described::unload(&arguments)?;
                let target = connection.target().await?;
                let plan = unload::plan(&*target, &options, &stop::Stop::default()).await?;
                Ok(plan.to_string())
            });
        }
        let raised = Raised::default();
        let given = Self::given(py, &rows, in_one, &raised, &stop::Stop::default())?;
        let Decided { prepared, .. } = self.decided(py, command, arguments, given, &raised)?;
        let plan = prepared.plan().to_string();
        let preview = wait_for(py, async move { prepared.preview(PREVIEW_ROWS).await })?;
        Ok(format!("{plan}{preview}"))
    }

    /// The rows of a table or a query.
    fn unload(&self, py: Python<'_>, arguments: Vec<String>) -> PyResult<Stream> {
        let connection = self.connection();
        let batches = wait_for(py, async move {
            let options = described::unload(&arguments)?;
            let target = connection.target().await?;
            let snapshot = target.scan(&options.request()?).await?;
            Ok(Batches::of(snapshot, stop::Stop::default()))
        })?;
        Ok(Stream::new(Box::new(Unloading { batches })))
    }

    /// What an unload reads, cut into at most so many parts for other processes; they are of one state where that is wanted and
    /// the database can show it.
    fn cut(
        &self,
        py: Python<'_>,
        arguments: Vec<String>,
        parts_max: usize,
        one_state: bool,
    ) -> PyResult<Cut> {
        let connection = self.connection();
        wait_for(py, async move {
            let options = described::unload(&arguments)?;
            let target = connection.target().await?;
            let states = match one_state {
                true => CutStates::One,
                false => CutStates::Any,
            };
            let cut = target.cut_scan(&options.request()?, states, parts_max).await?;
            Cut::of(cut)
        })
    }

    /// The rows of such a part, by any process.
    fn unload_part(&self, py: Python<'_>, arguments: Vec<String>, part: String) -> PyResult<Stream> {
        let connection = self.connection();
        let batches = wait_for(py, async move {
            let options = described::unload(&arguments)?;
            let part = serde_json::from_str(&part)
                .map_err(|error| Error::config(format!("this is no part of an unload: {error}")))?;
            let target = connection.target().await?;
            let snapshot = target.scan_part(&options.request()?, &part).await?;
            Ok(Batches::of(snapshot, stop::Stop::default()))
        })?;
        Ok(Stream::new(Box::new(Unloading { batches })))
    }

    /// The same into files: the account as JSON.
    #[pyo3(signature = (arguments, stop, progress))]
    fn unload_files(
        &self,
        py: Python<'_>,
        arguments: Vec<String>,
        stop: &Stop,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let connection = self.connection();
        let counts = Arc::<Progress>::default();
        let (shared, stopped) = (counts.clone(), stop.0.clone());
        let work = async move {
            let options = described::unload(&arguments)?;
            let target = connection.target().await?;
            let shown = connection.shown();
            let report = unload::unload(&*target, shown, &options, shared, stopped).await?;
            json(&report)
        };
        let waited = wait(py, &stop.0, |py| tell(py, progress.as_ref(), &counts, None), work)?;
        match waited.raised {
            Some(error) => Err(error),
            None => waited.done.map_err(|error| Failed::of(error).raise(py)),
        }
    }

    /// Rows by their keys: texts, files (in `arguments`), or rows of the program.
    fn get(&self, py: Python<'_>, arguments: Vec<String>, keys: Rows) -> PyResult<Found> {
        let raised = Raised::default();
        let (texts, source) = match &keys {
            Rows::Inputs(texts) => (texts.clone(), None),
            Rows::Program(source) => {
                let source = source.get().open(py, &raised, &stop::Stop::default());
                let failed = |error| Failed::of(error).caused_by(raised.take()).raise(py);
                (Vec::new(), Some(source.map_err(failed)?))
            }
        };
        let connection = self.connection();
        let preparing = async move {
            let (options, named) = tokio::task::spawn_blocking(move || described::get(&arguments, &texts))
                .await
                .map_err(|error| Error::bug(format!("the keys were not opened: {error}")))??;
            let keys = source.or(named).ok_or_else(|| {
                Error::config("no keys")
                    .hint("a list of keys, files of them, or a frame with columns of their names")
            })?;
            let target = connection.target().await?;
            fetch::prepare(target, connection.shown(), keys, &options).await
        };
        let prepared = wait_for(py, preparing)?;
        let (schema, key_schema) = (prepared.schema(), prepared.key_schema());
        let names = prepared
            .plan()
            .related
            .iter()
            .map(|related| related.plan.table.name.to_string());
        let schemas = prepared.related_schemas().iter().cloned();
        let related: Vec<_> = names.zip(schemas).collect();
        // The threads of a get are those of the runtime.
        let get = wait_for(py, async move { prepared.start() })?;
        if related.is_empty() {
            return Found::streamed(py, get, schema, key_schema);
        }
        let tables = related.len();
        let found = wait_for(py, all(get, tables))?;
        Found::whole(py, found, schema, key_schema, related)
    }

    /// A buffer.
    fn buffer(&self, py: Python<'_>, arguments: Vec<String>) -> PyResult<Buffer> {
        let connection = self.connection();
        let buffer = wait_for(py, async move {
            described::buffer(&arguments, connection.connector())?
                .open()
                .await
        })?;
        Ok(Buffer::new(buffer))
    }

    /// Streams of entries: the account as JSON.
    #[pyo3(signature = (arguments, streams, parallelism, stop, on_completed, on_key_exists, on_failed))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn bulk_put(
        &self,
        py: Python<'_>,
        arguments: Vec<String>,
        streams: Vec<Py<Source>>,
        parallelism: usize,
        stop: &Stop,
        on_completed: Option<Py<PyAny>>,
        on_key_exists: Option<Py<PyAny>>,
        on_failed: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let raised = Raised::default();
        let failed = |error| Failed::of(error).raise(py);
        let options = described::put(&arguments).map_err(failed)?;
        let mut sources = Vec::with_capacity(streams.len());
        for stream in &streams {
            let source = stream.get().open(py, &raised, &stop.0);
            let source = source.map_err(|error| Failed::of(error).caused_by(raised.take()).raise(py))?;
            sources.push(Watched::new(source, raised.clone(), stop.0.clone()));
        }
        let connection = self.connection();
        let (kept, stopped) = (raised.clone(), stop.0.clone());
        let work = async move {
            let target = connection.target().await?;
            let database = Connected::new(target, connection.shown());
            let mut put = BulkPut::new(database, "").options(|all| *all = options);
            put = put.stream_parallelism(parallelism);
            for source in sources {
                put = put.stream(source);
            }
            if let Some(call) = on_completed {
                let (kept, stopped) = (kept.clone(), stopped.clone());
                put = put.on_completed(move |stream| {
                    called(&kept, &stopped, |py| call.call1(py, (stream,)).map(drop));
                });
            }
            if let Some(call) = on_key_exists {
                let (kept, stopped) = (kept.clone(), stopped.clone());
                put = put.on_key_exists(move |entry| {
                    called(&kept, &stopped, |py| call.call1(py, told(&entry)).map(drop));
                });
            }
            if let Some(call) = on_failed {
                put = put.on_failed(move |failure, entry| {
                    let (stream, row, data) = told(&entry);
                    let failure = (failure.column, failure.code, failure.message);
                    let answer = called(&kept, &stopped, |py| {
                        call.call1(py, (failure, stream, row, data))?.is_truthy(py)
                    });
                    match answer {
                        Some(true) => AfterFailure::Continue,
                        _ => AfterFailure::Abort,
                    }
                });
            }
            json(&put.run().await?)
        };
        let waited = wait(py, &stop.0, |_| Ok(()), work)?;
        match (waited.raised, waited.done) {
            (Some(error), _) => Err(error),
            (None, Ok(report)) => Ok(report),
            (None, Err(error)) => Err(Failed::of(error).caused_by(raised.take()).raise(py)),
        }
    }
}

/// Calls the program back. What it raises is kept, and ends the run.
fn called<T>(raised: &Raised, stop: &stop::Stop, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
    Python::attach(|py| match call(py) {
        Ok(answer) => Some(answer),
        Err(error) => {
            let _ = raised.keep(py, error);
            stop.request();
            None
        }
    })
}

type Told = (usize, u64, Vec<(String, Option<String>)>);

/// An entry: its stream, its row, and its values as text.
fn told(entry: &Entry) -> Told {
    let data = match &entry.data {
        RejectData::Fields(fields) => fields
            .iter()
            .map(|(name, value)| (name.to_string(), value.clone()))
            .collect(),
        RejectData::Raw(bytes) => vec![("".to_owned(), Some(String::from_utf8_lossy(bytes).into_owned()))],
    };
    (entry.stream, entry.row, data)
}

/// What was raised, with the account of the run that it stopped.
fn interrupted(py: Python<'_>, raised: PyErr, report: &str, resumable: bool) -> PyErr {
    let noted = py
        .import("tonnage._errors")
        .and_then(|module| module.call_method1("interrupted", (raised.value(py), report, resumable)));
    noted.err().unwrap_or(raised)
}
