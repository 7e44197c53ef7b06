//! Rows that come from a client: into a table, through a statement, or into a file until a transaction ends.
//!
//! - A stream that breaks, and a client that is gone, is an error of the source, never its end: nothing is committed of it.
//! - A load goes on in a task of its own, so that it ends with an account also where nobody waits for it any more.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Seek, Write},
    path::Path,
    sync::Arc,
};

use arrow::{
    array::RecordBatch,
    datatypes::{Field, Schema, SchemaRef},
    ipc::{reader::StreamReader, writer::StreamWriter},
};
use arrow_flight::{
    decode::FlightRecordBatchStream, error::FlightError, sql::server::PeekableFlightDataStream,
};
use futures::{StreamExt, TryStreamExt};
use tokio::{sync::mpsc, task::spawn_blocking};
use tonic::Status;
use tonnage_core::{
    error::{Error, Result},
    operation::Method,
    source::Source,
    stop::Stop,
    table::TableName,
};
use tonnage_engine::{connected::Connected, load::builder::Load, plan::Create};
use tonnage_formats::sources::batches::BatchSource;

use crate::{Caller, answer::failed};

/// Batches that have come and are not taken yet; each has at most the bytes of a message.
const BATCHES_AHEAD: usize = 2;

/// What messages call the rows of a client.
const SHOWN: &str = "the client's stream";

/// What rows are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A table.
    Table {
        /// Its name.
        name: TableName,
        /// Whether it is made.
        create: Create,
    },
    /// A statement with named parameters, which is run for each row.
    Statement {
        /// The statement.
        text: String,
        /// Whether the columns are its parameters `p1`, `p2` .. in order, rather than by their names.
        by_position: bool,
    },
}

/// The rows of a request, whose schema has come.
pub(crate) struct Incoming {
    stream: FlightRecordBatchStream,
    schema: SchemaRef,
    first: Option<RecordBatch>,
    caller: Arc<dyn Caller>,
}

impl Incoming {
    /// Waits for the schema. `InvalidArgument` where there is none, `ResourceExhausted` where the caller's rate is used up.
    pub(crate) async fn open(
        stream: PeekableFlightDataStream,
        caller: Arc<dyn Caller>,
    ) -> Result<Self, Status> {
        caller.may_send()?;
        let mut stream = FlightRecordBatchStream::new_from_flight_data(stream.map_err(FlightError::from));
        let first = stream.try_next().await.map_err(Status::from)?;
        match stream.schema().cloned() {
            Some(schema) => Ok(Self {
                stream,
                schema,
                first,
                caller,
            }),
            None => Err(Status::invalid_argument(
                "there are no rows: the stream has no schema",
            )),
        }
    }

    /// Does the work with the rows as they come. How many rows were written.
    pub(crate) async fn write(self, database: &Connected, destination: &Destination) -> Result<u64, Status> {
        let Self {
            mut stream,
            schema,
            first,
            caller,
        } = self;
        let (send, mut receive) = mpsc::channel::<Result<Option<RecordBatch>>>(BATCHES_AHEAD);
        let gone = || Error::input("the client went away before its rows were all here");
        let batches =
            std::iter::from_fn(move || receive.blocking_recv().unwrap_or_else(|| Err(gone())).transpose());
        let load = spawn(database, destination, schema, batches)?;
        let mut next = first.map(Ok);
        loop {
            let sent = match next.take() {
                None => Ok(None),
                Some(batch) => batch.map(Some),
            };
            if let Ok(Some(batch)) = &sent {
                caller.has_sent(batch.num_rows() as u64);
            }
            let last = !matches!(sent, Ok(Some(_)));
            let sent = sent.map_err(|error: FlightError| Error::input(format!("{SHOWN} broke: {error}")));
            // A load that has ended by itself says why below.
            if send.send(sent).await.is_err() || last {
                break;
            }
            next = stream.next().await;
        }
        load.await
            .map_err(|panic| Status::internal(format!("the load ended without an account: {panic}")))?
    }

    /// Writes the rows to the end of `kept`, whose schema must be the same. The file with them, and how many there were.
    pub(crate) async fn keep(mut self, mut kept: Kept) -> Result<(Kept, u64), Status> {
        let mut rows = 0;
        let mut next = self.first.take().map(Ok);
        if next.is_none() {
            next = self.stream.next().await;
        }
        while let Some(batch) = next {
            let batch = batch.map_err(Status::from)?;
            rows += batch.num_rows() as u64;
            self.caller.has_sent(batch.num_rows() as u64);
            kept = spawn_blocking(move || kept.write(&batch).map(|()| kept))
                .await
                .map_err(|panic| Status::internal(panic.to_string()))??;
            next = self.stream.next().await;
        }
        Ok((kept, rows))
    }

    /// What its columns are.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

/// Rows that wait for the end of a transaction, in a file without a name.
pub(crate) struct Kept {
    writer: StreamWriter<BufWriter<File>>,
    schema: SchemaRef,
    bytes: u64,
    bytes_max: u64,
}

impl Kept {
    /// None yet, of `schema`, in a file in `directory` that may have so many bytes, about.
    pub(crate) fn new(directory: &Path, schema: &SchemaRef, bytes_max: u64) -> Result<Self, Status> {
        let file = tempfile::tempfile_in(directory).map_err(|cause| {
            Status::unavailable(format!(
                "rows of a transaction cannot be kept in {}: {cause}",
                directory.display()
            ))
        })?;
        let writer = StreamWriter::try_new_buffered(file, schema);
        Ok(Self {
            writer: writer.map_err(|cause| Status::invalid_argument(cause.to_string()))?,
            schema: schema.clone(),
            bytes: 0,
            bytes_max,
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Status> {
        if batch.schema_ref().fields() != self.schema.fields() {
            return Err(Status::invalid_argument(
                "the rows have other columns than those before them in this transaction",
            ));
        }
        self.bytes += batch.get_array_memory_size() as u64;
        if self.bytes > self.bytes_max {
            return Err(Status::resource_exhausted(format!(
                "a transaction holds {} bytes of rows at most\nhint: commit more often, or without a transaction",
                self.bytes_max
            )));
        }
        self.writer
            .write(batch)
            .map_err(|cause| Status::unavailable(format!("rows of a transaction cannot be kept: {cause}")))
    }

    /// Does the work with the rows. How many rows were written.
    pub(crate) async fn write_to(
        self,
        database: &Connected,
        destination: &Destination,
    ) -> Result<u64, Status> {
        let unread =
            |cause: String| Status::internal(format!("rows of a transaction cannot be read: {cause}"));
        let schema = self.schema.clone();
        let read = || -> Result<_, Box<dyn std::error::Error + Send + Sync>> {
            let mut writer = self.writer.into_inner()?;
            writer.flush()?;
            let mut file = writer.into_inner()?;
            file.rewind()?;
            Ok(StreamReader::try_new(BufReader::new(file), None)?)
        };
        let read = read().map_err(|cause| unread(cause.to_string()))?;
        let failed = |cause| Error::input(format!("rows of a transaction cannot be read: {cause}"));
        let batches = read.map(move |batch| batch.map_err(failed));
        spawn(database, destination, schema, batches)?
            .await
            .map_err(|panic| unread(panic.to_string()))?
    }
}

type Task = tokio::task::JoinHandle<Result<u64, Status>>;

/// Begins a load of batches.
fn spawn(
    database: &Connected,
    destination: &Destination,
    schema: SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch>> + Send + 'static,
) -> Result<Task, Status> {
    let schema = match destination {
        Destination::Statement {
            by_position: true, ..
        } => numbered(&schema),
        _ => schema,
    };
    let named = schema.clone();
    let batches = batches.map(move |batch| {
        RecordBatch::try_new(named.clone(), batch?.columns().to_vec())
            .map_err(|cause| Error::input(format!("{SHOWN} has other columns than its schema: {cause}")))
    });
    let source = BatchSource::new(SHOWN, schema, batches).not_rereadable("the rows come from a client");
    let database = database.clone();
    let destination = destination.clone();
    Ok(tokio::spawn(async move {
        let written = run(&database, destination, source).await;
        written.map_err(failed)
    }))
}

/// The columns as parameters of a statement.
fn numbered(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().zip(1..);
    let fields = fields.map(|(field, number)| Field::clone(field).with_name(format!("p{number}")));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

async fn run(database: &Connected, destination: Destination, source: impl Source + 'static) -> Result<u64> {
    let load: Load = match destination {
        Destination::Table { name, create } => {
            let table = database.target().table(&name).await?;
            let is_undone = table.is_none_or(|table| table.transactional);
            database.load_source(source).options(|options| {
                options.table = name;
                options.create = create;
                // A client that asks for rows without a transaction of its own does not know where they stopped.
                options.single_transaction = is_undone;
            })
        }
        Destination::Statement { text, .. } => {
            let has_batches = database.target().capabilities().methods.contains(&Method::Batch);
            let exec = database.exec(text).from_source(source);
            exec.options(|options| options.single_transaction = has_batches)
        }
    };
    let ended = load.prepare().await?.run(Arc::default(), Stop::default()).await?;
    match ended.error {
        None => Ok(ended.report.rows.written),
        Some(error) => Err(error),
    }
}
