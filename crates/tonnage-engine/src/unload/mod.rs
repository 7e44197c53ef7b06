//! Bulk out: a table or the result of a query into files, each row once and of one state.
//!
//! Readers hand batches to the threads that write files: to one thread, in the order of the splits, where there is one
//! file, else each to a separate thread. No file has its final name before everything is written.

pub mod builder;
mod files;
mod lists;
mod plan;
pub mod source;
mod stream;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    thread,
    time::Instant,
};

use arrow::datatypes::SchemaRef;
use serde::Serialize;
use tokio::sync::oneshot;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reader::{BatchBounds, BeyondArrow, Reader, Relation, ScanRequest},
    report::{peak_memory_bytes, processor_seconds},
    stop::Stop,
    target::Target,
};
use tonnage_formats::sinks::{self, Output, Sink, create_unless, finish_all};

use self::{
    files::Files,
    lists::Lists,
    stream::{Splits, unless_stopped},
};
pub use self::{
    plan::{UnloadPlan, plan},
    stream::Batches,
};
use crate::progress::Progress;

/// The bounds of a batch unless others are asked for: large enough that a batch costs next to nothing, small enough that
/// those that wait take some tens of megabytes.
pub const BATCH: BatchBounds = BatchBounds {
    rows_max: 65_536,
    bytes_max: 1 << 20,
};

/// What is unloaded, and where to.
#[derive(Debug, Clone)]
pub struct UnloadOptions {
    /// The table or query.
    pub relation: Relation,
    /// The columns wanted, in order; none for all (of a table, but for those that it computes itself).
    pub columns: Option<Vec<String>>,
    /// Columns that come as the database's text, with any content.
    pub texts: Vec<String>,
    /// A condition in the database's own SQL.
    pub filter: Option<String>,
    /// At most so many rows, any of them.
    pub limit: Option<u64>,
    /// The column whose values cut the work; none lets the target choose.
    pub split_by: Option<String>,
    /// Connections that read at once; none takes one a processor, at most 4.
    pub jobs: Option<usize>,
    /// Where to. A directory, a prefix of objects, or a name with `{}` in it, gets a file a job.
    pub output: Output,
    /// Whether a list of the files is written next to them, last: `_manifest.json`.
    pub manifest: bool,
}

impl UnloadOptions {
    /// All of `relation` into `output`.
    pub fn new(relation: Relation, output: Output) -> Self {
        Self {
            relation,
            columns: None,
            texts: Vec::new(),
            filter: None,
            limit: None,
            split_by: None,
            jobs: None,
            output,
            manifest: false,
        }
    }

    /// What a target is asked for. `Config` for no jobs.
    pub fn request(&self) -> Result<ScanRequest> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let readers = match self.jobs {
            Some(0) => return Err(Error::config("--jobs must be at least 1")),
            Some(jobs) => jobs,
            None => processors.clamp(1, 4),
        };
        Ok(ScanRequest {
            relation: self.relation.clone(),
            columns: self.columns.clone(),
            texts: self.texts.clone(),
            filter: self.filter.clone(),
            limit: self.limit,
            split_by: self.split_by.clone(),
            readers,
            batch: BATCH,
            beyond_arrow: BeyondArrow::Refused,
        })
    }
}

/// What an unload did. Serialises to the object that `--report` writes.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct UnloadReport {
    /// The database's URL, its password removed.
    pub target: String,
    /// The table's full name, as the database has it; none for a query.
    pub table: Option<String>,
    /// The query; none for a table.
    pub query: Option<String>,
    /// Rows written.
    pub rows: u64,
    /// Bytes written, after compression.
    pub bytes: u64,
    /// The files.
    pub files: Vec<UnloadedFile>,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Rows a second.
    pub rows_per_second: f64,
    /// Connections that read.
    pub jobs: usize,
    /// Parts that the work was cut into.
    pub splits: usize,
    /// Whether a reader at the other end of a pipe has gone before all was written.
    pub closed: bool,
    /// Session settings changed, a line each.
    pub settings_changed: Vec<String>,
    /// What the user should know, a sentence each.
    pub notes: Vec<String>,
    /// Processor seconds of this process so far; none where the system does not tell.
    pub client_cpu_seconds: Option<f64>,
    /// Peak resident memory of this process; none where the system does not tell.
    pub peak_memory_bytes: Option<u64>,
}

/// A file that was written.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct UnloadedFile {
    /// Its path; `-` for standard output.
    pub path: String,
    /// Rows in it.
    pub rows: u64,
    /// Its size.
    pub bytes: u64,
    /// The SHA-256 of its bytes, where there is a manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The list of the files of an unload.
#[derive(Serialize)]
struct Manifest<'a> {
    /// The version that wrote it.
    tonnage: &'static str,
    table: Option<&'a str>,
    query: Option<&'a str>,
    rows: u64,
    bytes: u64,
    files: Vec<ManifestFile<'a>>,
}

#[derive(Serialize)]
struct ManifestFile<'a> {
    /// Beside the manifest.
    name: &'a str,
    rows: u64,
    bytes: u64,
    sha256: Option<&'a str>,
}

impl<'a> Manifest<'a> {
    fn of(report: &'a UnloadReport) -> Self {
        let file = |file: &'a UnloadedFile| ManifestFile {
            name: file.path.rsplit('/').next().unwrap_or_default(),
            rows: file.rows,
            bytes: file.bytes,
            sha256: file.sha256.as_deref(),
        };
        Self {
            tonnage: env!("CARGO_PKG_VERSION"),
            table: report.table.as_deref(),
            query: report.query.as_deref(),
            rows: report.rows,
            bytes: report.bytes,
            files: report.files.iter().map(file).collect(),
        }
    }

    fn write(&self, path: &Path) -> Result<()> {
        let mut json = serde_json::to_vec_pretty(self)
            .map_err(|cause| Error::bug(format!("the manifest cannot be written as JSON: {cause}")))?;
        json.push(b'\n');
        sinks::write_whole(path, &json).map_err(|error| error.hint("the files themselves are whole"))
    }
}

/// Unloads. `url` is only shown, so it must be redacted. `progress` counts rows as they are
/// written.
///
/// `Config` for what cannot be done as asked, `Schema` for a table, column or value that is not there or has no exact
/// form, `Refused` where the output cannot be written, `Cancelled` where `stop` asked for it. No file is left behind by
/// an error.
pub async fn unload(
    target: &dyn Target,
    url: String,
    options: &UnloadOptions,
    progress: Arc<Progress>,
    stop: Stop,
) -> Result<UnloadReport> {
    let started = Instant::now();
    let files = Files::of(&Output {
        checksum: options.manifest,
        ..options.output.clone()
    })?;
    let manifest = options.manifest.then(|| files.manifest()).transpose()?;
    if let Some(path) = &manifest {
        sinks::check(&Output {
            overwrite: options.output.overwrite,
            ..Output::new(path)
        })?;
    }
    let request = ScanRequest {
        beyond_arrow: files.beyond_arrow()?,
        ..options.request()?
    };
    files.make()?;
    let ended = run(target, &request, &files, &progress, &stop).await;
    let (mut report, written) = match ended {
        Ok(ended) => ended,
        Err(error) => {
            files.undo();
            return Err(error);
        }
    };
    files.finish(&written)?;
    if let Some(path) = manifest {
        Manifest::of(&report).write(&path)?;
    }
    report.target = url;
    report.seconds = started.elapsed().as_secs_f64();
    report.rows_per_second = report.rows as f64 / report.seconds.max(1e-9);
    Ok(report)
}

async fn run(
    target: &dyn Target,
    request: &ScanRequest,
    files: &Files,
    progress: &Arc<Progress>,
    stop: &Stop,
) -> Result<(UnloadReport, Vec<PathBuf>)> {
    let snapshot = unless_stopped(stop, target.scan(request)).await?;
    let (jobs, count) = (snapshot.readers.len(), snapshot.splits);
    let schema = snapshot.schema();
    let outputs = files.outputs(jobs);
    let notes = [snapshot.notes, files.notes(outputs.len())].concat();
    let lists = Arc::new(Lists::of(&snapshot.columns, files.format()?));
    let sinks = outputs
        .iter()
        .map(|output| create_unless(stop, output, lists.schema()));
    let sinks = sinks.collect::<Result<Vec<_>>>()?;

    let splits = Splits::new(count);
    // Set by the first writer that fails, and by whoever asks from outside.
    let mut groups: Vec<Vec<Box<dyn Reader>>> = outputs.iter().map(|_| Vec::new()).collect();
    for (at, reader) in snapshot.readers.into_iter().enumerate() {
        let group = at % groups.len();
        groups[group].push(reader);
    }
    let failed = Stop::default();
    let writers = groups.into_iter().zip(sinks).map(|(readers, sink)| {
        let writer = Writer {
            batches: Batches::with(readers, SchemaRef::clone(&schema), &splits, stop),
            lists: Arc::clone(&lists),
            progress: Arc::clone(progress),
            stop: stop.clone(),
            failed: failed.clone(),
        };
        writer.start(sink)
    });
    // All of them are waited for, so that none is left writing when this ends.
    let ended = futures::future::join_all(writers.collect::<Result<Vec<_>>>()?).await;
    let ended = ended.into_iter().map(|writer| {
        writer.unwrap_or_else(|_| Err(Error::bug("a writing thread ended before its work was done")))
    });
    let written = all_or_first_error(ended)?;
    let closed = written.iter().any(|filled| filled.sink.is_closed());
    if !closed {
        splits.check_complete()?;
    }
    files.withdraw_manifest()?;
    // A store may take its time, and whoever asks to stop is to be heard meanwhile.
    let named = tokio::task::spawn_blocking(move || name_all(written, &outputs)).await;
    let (filled, paths) =
        named.map_err(|cause| Error::bug(format!("naming the files ended early: {cause}")))??;
    let report = UnloadReport {
        target: String::new(),
        table: snapshot.table.map(|name| name.to_string()),
        query: match &request.relation {
            Relation::Query(query) => Some(query.clone()),
            Relation::Table(_) => None,
        },
        rows: filled.iter().map(|file| file.rows).sum(),
        bytes: filled.iter().map(|file| file.bytes).sum(),
        files: filled,
        seconds: 0.0,
        rows_per_second: 0.0,
        jobs,
        splits: count,
        closed,
        settings_changed: snapshot.settings_changed,
        notes,
        client_cpu_seconds: processor_seconds(),
        peak_memory_bytes: peak_memory_bytes(),
    };
    Ok((report, paths))
}

/// What all writers have written, or the error of the first that failed: what the others report is that one of them has.
fn all_or_first_error(ended: impl Iterator<Item = Result<Filled>>) -> Result<Vec<Filled>> {
    let mut written = Vec::new();
    let mut first_error: Option<Error> = None;
    for writer in ended {
        match writer {
            Ok(filled) => written.push(filled),
            Err(error)
                if first_error
                    .as_ref()
                    .is_none_or(|known| known.kind() == ErrorKind::Cancelled) =>
            {
                first_error = Some(error);
            }
            Err(_) => {}
        }
    }
    match first_error {
        Some(error) => Err(error),
        None => Ok(written),
    }
}

/// Finishes every file, now that all are written.
fn name_all(written: Vec<Filled>, outputs: &[Output]) -> Result<(Vec<UnloadedFile>, Vec<PathBuf>)> {
    let rows: Vec<u64> = written.iter().map(|filled| filled.rows).collect();
    let paths: Vec<PathBuf> = outputs.iter().map(|output| output.path.clone()).collect();
    let finished = finish_all(written.into_iter().map(|filled| filled.sink).zip(paths.clone()))?;
    let finished = paths
        .iter()
        .zip(rows)
        .zip(finished)
        .map(|((path, rows), written)| UnloadedFile {
            path: path.display().to_string(),
            rows,
            bytes: written.bytes,
            sha256: written.sha256,
        });
    Ok((finished.collect(), paths))
}

/// A sink that has all its rows and is not finished.
struct Filled {
    sink: Box<dyn Sink>,
    rows: u64,
}

/// Writes batches on a separate thread.
struct Writer {
    batches: Batches,
    lists: Arc<Lists>,
    progress: Arc<Progress>,
    /// Asked for from outside.
    stop: Stop,
    /// One of the writers has failed.
    failed: Stop,
}

impl Writer {
    fn start(mut self, sink: Box<dyn Sink>) -> Result<oneshot::Receiver<Result<Filled>>> {
        let (send, filled) = oneshot::channel();
        let writing = move || {
            let ended = self.write(sink);
            if ended.is_err() {
                self.failed.request();
            }
            // The readers' connections are given back before anybody hears of the end.
            drop(self);
            // Nobody waiting means nobody to tell.
            let _ = send.send(ended);
        };
        let runtime = tokio::runtime::Handle::current();
        let entered = move || {
            // Readers that are dropped here may have something to tell their servers.
            let _runtime = runtime.enter();
            writing();
        };
        thread::Builder::new()
            .name("unload-writer".to_owned())
            .spawn(entered)
            .map_err(|error| {
                Error::new(ErrorKind::Refused, format!("no thread could be started: {error}"))
            })?;
        Ok(filled)
    }

    fn write(&mut self, mut sink: Box<dyn Sink>) -> Result<Filled> {
        let mut rows = 0;
        while let Some(batch) = self.batches.next_blocking()? {
            if self.stop.requested() || self.failed.requested() {
                return Err(Error::new(
                    ErrorKind::Cancelled,
                    "interrupted; no file was written",
                ));
            }
            let converted = self.lists.converted(&batch)?;
            sink.write(&converted)?;
            rows += batch.num_rows() as u64;
            let bytes = batch.get_array_memory_size() as u64;
            self.progress.bytes_read.fetch_add(bytes, Ordering::Relaxed);
            self.progress
                .read
                .fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            self.progress
                .written
                .fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            if sink.is_closed() {
                break;
            }
        }
        Ok(Filled { sink, rows })
    }
}
