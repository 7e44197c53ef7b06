//! One connection that writes.
//!
//! A transaction is `Idle`, `Open` or `Broken` (the server refuses everything but its end). COMMIT is sent only when
//! it is open: a COMMIT of a broken transaction would undo it and report success.

use std::{ops::Range, pin::pin};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use futures::SinkExt;
use tokio_postgres::{
    Client, Statement,
    types::{Format, IsNull, ToSql, Type, to_sql_checked},
};

use super::{
    catalog,
    encode::{ColumnFault, EncodedColumn, Encoder},
    errors,
    ledger::{Mover, Parameter, borrowed},
    statements,
};
use crate::{
    error::{Error, ErrorKind, Result},
    ledger::RunHandle,
    operation::{Method, Operation},
    plan::Plan,
    reject::sqlstate,
    slot::Advance,
    target::{Claim, Failure, Guard, Outcome, Writer},
};

/// How rows reach the table.
enum Path {
    /// COPY into it.
    Copy(Statement),
    /// An INSERT whose parameters are arrays.
    Array(Statement),
    /// COPY into a table of the session, and an INSERT from there.
    Staged {
        copy: Statement,
        merge: Statement,
        clear: Statement,
        ordinal: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Open,
    Broken,
}

/// See the module.
pub(super) struct PostgresWriter {
    client: Client,
    columns: Vec<EncodedColumn>,
    begin: String,
    path: Path,
    counts_rows: bool,
    mover: Option<Mover>,
    claimed: Vec<Advance>,
    state: State,
    /// Whether this transaction has put rows into the stage.
    staged: bool,
}

/// Chunks of an encoded COPY that wait for the connection.
const CHUNKS_QUEUED_MAX: usize = 2;

const SAVEPOINT: &str = "SAVEPOINT tonnage_write";
const RELEASE: &str = "RELEASE SAVEPOINT tonnage_write";
const ROLLBACK_TO: &str = "ROLLBACK TO SAVEPOINT tonnage_write; RELEASE SAVEPOINT tonnage_write";

/// Why a write did not happen.
enum Refusal {
    /// The server or the connection.
    Server(tokio_postgres::Error),
    /// A value that cannot be sent. Whether part of the batch was on its way already.
    Value { fault: ColumnFault, sent: bool },
    /// Fewer rows than were sent arrived.
    Missing { sent: usize, arrived: u64 },
    /// Something of our own.
    Other(Error),
}

impl From<tokio_postgres::Error> for Refusal {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

/// What was sent.
#[derive(Default)]
struct Sent {
    statements: u64,
    bytes: u64,
}

impl PostgresWriter {
    /// Prepares everything that `plan` needs on `client`.
    pub async fn open(
        client: Client,
        plan: &Plan,
        run: Option<&RunHandle>,
        synchronous_commit: &str,
    ) -> Result<Self> {
        let described = catalog::describe(&client, &plan.table.name)
            .await?
            .filter(|described| described.table.identity.object == plan.table.identity.object)
            .ok_or_else(|| {
                Error::schema(format!(
                    "{} was dropped or replaced while it was loaded",
                    plan.table.name
                ))
            })?;
        let columns = statements::columns(plan, &described)?;
        let texts = statements::statements(plan, &described, &columns, synchronous_commit);
        let path = match (plan.method, &plan.operation, texts.stage) {
            (Method::Array, ..) => Path::Array(prepare(&client, &texts.array).await?),
            (Method::Native, Operation::Upsert { .. }, Some(stage)) => {
                client.batch_execute(&stage.create).await.map_err(|e| {
                    let error =
                        errors::statement(e).at("cannot make the temporary table of an upsert by COPY");
                    match error.kind() {
                        ErrorKind::Refused => {
                            error.hint("grant TEMPORARY on the database, or use --method array")
                        }
                        _ => error,
                    }
                })?;
                Path::Staged {
                    copy: prepare(&client, &stage.copy).await?,
                    merge: prepare(&client, &stage.merge).await?,
                    clear: prepare(&client, &stage.clear).await?,
                    ordinal: stage.ordinal,
                }
            }
            (Method::Native, ..) => Path::Copy(prepare(&client, &texts.copy).await?),
            (Method::Batch | Method::Single, ..) => {
                return Err(Error::bug(format!("PostgreSQL has no method {}", plan.method)));
            }
        };
        let mover = match run {
            Some(run) => Some(Mover::prepare(&client, run).await?),
            None => None,
        };
        Ok(Self {
            client,
            columns,
            begin: texts.begin,
            path,
            counts_rows: texts.counts_rows,
            mover,
            claimed: Vec::new(),
            state: State::Idle,
            staged: false,
        })
    }

    /// Undoes what there is, on the way out of a failure that matters more.
    async fn give_up(&mut self) {
        self.state = State::Idle;
        if let Err(error) = self.client.batch_execute("ROLLBACK").await {
            tracing::debug!("ROLLBACK after a failure: {error}");
        }
    }

    async fn apply(&self, rows: &RecordBatch, sent: &mut Sent) -> std::result::Result<(), Refusal> {
        let arrived = match &self.path {
            Path::Copy(copy) => self.copy(copy, rows, false, sent).await?,
            Path::Array(insert) => self.array(insert, rows, sent).await?,
            Path::Staged {
                copy,
                merge,
                clear,
                ordinal,
            } => {
                if self.staged {
                    sent.statements += 1;
                    self.client.execute(clear, &[]).await?;
                }
                self.copy(copy, rows, *ordinal, sent).await?;
                sent.statements += 1;
                self.client.execute(merge, &[]).await?
            }
        };
        if self.counts_rows && arrived != rows.num_rows() as u64 {
            return Err(Refusal::Missing {
                sent: rows.num_rows(),
                arrived,
            });
        }
        Ok(())
    }

    async fn copy(
        &self,
        copy: &Statement,
        rows: &RecordBatch,
        ordinal: bool,
        sent: &mut Sent,
    ) -> std::result::Result<u64, Refusal> {
        let mut encoder = Encoder::new(rows, &self.columns, ordinal).map_err(Refusal::Other)?;
        let mut chunks = encoder.chunks();
        let first = chunks.next().unwrap_or(0..0);
        // A bad value in the first chunk costs nothing: the COPY has not begun.
        let first = encoder
            .copy_chunk(first)
            .map_err(|fault| Refusal::Value { fault, sent: false })?;
        sent.statements += 1;
        let mut sink = pin!(self.client.copy_in::<_, Bytes>(copy).await?);
        sent.bytes += first.len() as u64;
        feed(sink.as_mut(), first).await?;
        let rest: Vec<Range<usize>> = chunks.collect();
        if !rest.is_empty() {
            let (sender, mut receiver) = tokio::sync::mpsc::channel(CHUNKS_QUEUED_MAX);
            // Encoding is work for a processor: it must not hold up the connections.
            tokio::task::spawn_blocking(move || {
                for range in rest {
                    let chunk = encoder.copy_chunk(range);
                    let last = chunk.is_err();
                    if sender.blocking_send(chunk).is_err() || last {
                        return;
                    }
                }
            });
            while let Some(chunk) = receiver.recv().await {
                // Leaving drops the sink unfinished, and the server undoes the COPY.
                let chunk = chunk.map_err(|fault| Refusal::Value { fault, sent: true })?;
                sent.bytes += chunk.len() as u64;
                feed(sink.as_mut(), chunk).await?;
            }
        }
        Ok(sink.finish().await?)
    }

    async fn array(
        &self,
        insert: &Statement,
        rows: &RecordBatch,
        sent: &mut Sent,
    ) -> std::result::Result<u64, Refusal> {
        let mut encoder = Encoder::new(rows, &self.columns, false).map_err(Refusal::Other)?;
        let mut parameters: Vec<Parameter> = Vec::with_capacity(self.columns.len());
        let mut fault: Option<ColumnFault> = None;
        for (index, column) in self.columns.iter().enumerate() {
            match encoder.array(index, column.server.oid) {
                Ok(array) => {
                    sent.bytes += array.len() as u64;
                    parameters.push(Box::new(EncodedArray(array)));
                }
                Err(found) if fault.as_ref().is_none_or(|(_, known)| found.1.row < known.row) => {
                    fault = Some(found);
                }
                Err(_) => {}
            }
        }
        if let Some(fault) = fault {
            sent.bytes = 0;
            return Err(Refusal::Value { fault, sent: false });
        }
        sent.statements += 1;
        Ok(self.client.execute(insert, &borrowed(&parameters)).await?)
    }

    /// What a refusal means for the batch; an error where it is not about rows.
    async fn refused(&mut self, refusal: Refusal, guard: Guard) -> Result<Failure> {
        let mut untouched = false;
        let failure = match refusal {
            Refusal::Other(error) => {
                self.state = State::Broken;
                return Err(error);
            }
            Refusal::Server(error) => {
                let names: Vec<_> = self.columns.iter().map(|c| c.name.as_str()).collect();
                let (suspect, column) = error
                    .as_db_error()
                    .map_or((None, None), |db| errors::suspect(db, &names));
                let error = errors::statement(error);
                if error.kind() != ErrorKind::Rejected {
                    self.state = State::Broken;
                    return Err(error);
                }
                (suspect, column, error)
            }
            Refusal::Value {
                fault: (column, fault),
                sent,
            } => {
                untouched = !sent;
                let column = self.columns.get(column).map(|c| c.name.clone());
                (Some(fault.row), column, fault.into_error())
            }
            Refusal::Missing { sent, arrived } => {
                let error = Error::new(
                    ErrorKind::Rejected,
                    format!(
                        "the database kept {arrived} of {sent} rows: a trigger or rule left the others out"
                    ),
                );
                (None, None, error.code(sqlstate::WOULD_CHANGE))
            }
        };
        let (suspect, column, error) = failure;
        let intact = match guard {
            Guard::Savepoint => {
                self.client
                    .batch_execute(ROLLBACK_TO)
                    .await
                    .inspect_err(|_| self.state = State::Broken)
                    .map_err(errors::statement)?;
                true
            }
            Guard::None => untouched,
        };
        if !intact {
            self.state = State::Broken;
        }
        Ok(Failure {
            applied: 0,
            suspect,
            intact,
            error,
            column,
        })
    }
}

async fn prepare(client: &Client, statement: &str) -> Result<Statement> {
    client.prepare(statement).await.map_err(errors::statement)
}

async fn feed(
    mut sink: std::pin::Pin<&mut tokio_postgres::CopyInSink<Bytes>>,
    chunk: Vec<u8>,
) -> std::result::Result<(), Refusal> {
    Ok(sink.send(Bytes::from(chunk)).await?)
}

/// An array parameter that is already in the server's binary form.
#[derive(Debug)]
struct EncodedArray(Vec<u8>);

impl ToSql for EncodedArray {
    fn to_sql(
        &self,
        _ty: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_ty: &Type) -> bool {
        true
    }

    fn encode_format(&self, _ty: &Type) -> Format {
        Format::Binary
    }

    to_sql_checked!();
}

#[async_trait]
impl Writer for PostgresWriter {
    async fn begin(&mut self, advances: &[Advance]) -> Result<Claim> {
        if self.state != State::Idle {
            return Err(Error::bug("a transaction was begun inside another"));
        }
        self.staged = false;
        self.claimed.clear();
        let Some(mover) = self.mover.as_ref().filter(|_| !advances.is_empty()) else {
            self.client
                .batch_execute(&self.begin)
                .await
                .map_err(errors::statement)?;
            self.state = State::Open;
            return Ok(Claim::Held);
        };
        let (statement, parameters) = mover.claim(advances);
        let parameters = borrowed(&parameters);
        // One round trip: the second is sent behind the first, and fails with it.
        let (begun, moved) = futures::join!(
            self.client.batch_execute(&self.begin),
            self.client.execute(statement, &parameters)
        );
        let moved = match begun.and(moved) {
            Ok(moved) => moved,
            Err(error) => {
                self.give_up().await;
                return Err(errors::statement(error));
            }
        };
        if moved != advances.len() as u64 {
            self.give_up().await;
            return Ok(Claim::Moved);
        }
        self.claimed.extend_from_slice(advances);
        self.state = State::Open;
        Ok(Claim::Held)
    }

    async fn write(&mut self, rows: &RecordBatch, guard: Guard) -> Result<Outcome> {
        if self.state != State::Open {
            return Err(Error::bug("rows were written outside a transaction"));
        }
        let mut sent = Sent::default();
        if rows.num_rows() == 0 {
            return Ok(Outcome {
                skipped: 0,
                statements: 0,
                bytes_sent: 0,
                failure: None,
            });
        }
        let applied = match guard {
            Guard::None => self.apply(rows, &mut sent).await,
            Guard::Savepoint => {
                // One round trip: rows are sent behind the savepoint, and fail with it.
                let (saved, applied) =
                    futures::join!(self.client.batch_execute(SAVEPOINT), self.apply(rows, &mut sent));
                if let Err(error) = saved {
                    self.state = State::Broken;
                    return Err(errors::statement(error));
                }
                applied
            }
        };
        let failure = match applied {
            Ok(()) => {
                self.staged = true;
                if guard == Guard::Savepoint {
                    self.client
                        .batch_execute(RELEASE)
                        .await
                        .inspect_err(|_| self.state = State::Broken)
                        .map_err(errors::statement)?;
                }
                None
            }
            Err(refusal) => Some(self.refused(refusal, guard).await?),
        };
        Ok(Outcome {
            skipped: 0,
            statements: sent.statements,
            bytes_sent: sent.bytes,
            failure,
        })
    }

    async fn commit(&mut self, advances: &[Advance]) -> Result<()> {
        if self.state != State::Open {
            return Err(Error::bug("a transaction that is not open was to be committed"));
        }
        if let Some(mover) = self.mover.as_ref().filter(|_| !advances.is_empty()) {
            let (statement, parameters) = mover.adjust(&self.claimed, advances)?;
            self.state = State::Broken;
            let adjusted = self
                .client
                .execute(statement, &borrowed(&parameters))
                .await
                .map_err(errors::statement)?;
            if adjusted != advances.len() as u64 {
                return Err(Error::bug("the ledger's rows changed inside our own transaction"));
            }
        }
        self.state = State::Idle;
        self.client.batch_execute("COMMIT").await.map_err(errors::commit)
    }

    async fn rollback(&mut self) -> Result<()> {
        if self.state == State::Idle {
            return Ok(());
        }
        self.state = State::Idle;
        match self.client.batch_execute("ROLLBACK").await {
            Ok(()) => Ok(()),
            // A connection that is gone has taken its transaction with it.
            Err(error) if error.as_db_error().is_none_or(errors::is_fatal) => Ok(()),
            Err(error) => Err(errors::statement(error)),
        }
    }
}
