//! Databases as an Arrow Flight SQL service.
//!
//! - Who may do what is for the host to say ([`Access`]); nothing here knows a token.
//! - An ingest, and a statement for many rows, is one transaction: all rows or none. Where the table takes no part in
//!   transactions, what was written before a failure stays, as in a load.
//! - A client's transaction is a list of work that is done at its end: rows wait in a file, which a rollback removes. So a
//!   transaction holds the rows of one table, or the executions of one statement; what the client reads meanwhile does not
//!   see them.
//! - A query is run when the client asks about it, and read once, of one state. One that nobody reads is let go.
//! - Everything that waits for a client has a bound and ends by itself ([`Limits`]).
//! - What is not offered is refused by its name.

mod answer;
mod describe;
mod held;
mod ingest;
mod placeholders;
mod service;

use std::{path::PathBuf, sync::Arc, time::Duration};

use arrow_flight::flight_service_server::FlightServiceServer;
use async_trait::async_trait;
use tonic::{Extensions, Status, metadata::MetadataMap};
use tonnage_core::table::TableName;
use tonnage_engine::connected::Connected;

/// What a caller wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// See the names of tables, and of their columns.
    List,
    /// Read a table.
    Read,
    /// Write rows into a table.
    Write,
    /// Make a table, and write rows into it.
    Create,
    /// Drop a table with its rows, and make it anew.
    Replace,
    /// Run SQL of its own, which may read and write whatever the database's role may.
    Sql,
}

/// Knows callers.
#[async_trait]
pub trait Access: Send + Sync + 'static {
    /// Who asks, by the request's metadata and by what was found of it before it came here. `Unauthenticated` for a
    /// stranger.
    async fn admit(&self, metadata: &MetadataMap, found: &Extensions) -> Result<Arc<dyn Caller>, Status>;
}

/// Who asks, and for which database.
#[async_trait]
pub trait Caller: Send + Sync {
    /// Its name, which no other caller has: what waits for one is given to nobody else.
    fn name(&self) -> &str;

    /// The database.
    fn database(&self) -> &Connected;

    /// Whether it may; `table` where it is about one.
    async fn may(&self, right: Right, table: Option<&TableName>) -> bool;

    /// Whether rows may come from it now. `ResourceExhausted` where its rate is used up.
    fn may_send(&self) -> Result<(), Status>;

    /// So many rows have come from it.
    fn has_sent(&self, rows: u64);
}

/// What waits for clients, and for how long. All are bounds of the whole service but the first.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a message; a batch is one.
    pub message_bytes_max: usize,
    /// Queries that were asked about and not read, and statements that were prepared.
    pub held_max: usize,
    /// Transactions that are open.
    pub transactions_max: usize,
    /// Bytes of the rows that a transaction holds on disk.
    pub transaction_bytes_max: u64,
    /// How long what is held waits for its client.
    pub idle_max: Duration,
    /// Where rows of open transactions are; files in it have no names.
    pub directory: PathBuf,
}

impl Limits {
    /// Messages of 64 MiB, 256 queries and statements, 64 transactions of 4 GiB each, ten minutes, the system's directory
    /// for temporary files.
    pub fn usual() -> Self {
        Self {
            message_bytes_max: 64 << 20,
            held_max: 256,
            transactions_max: 64,
            transaction_bytes_max: 4 << 30,
            idle_max: Duration::from_secs(600),
            directory: std::env::temp_dir(),
        }
    }
}

/// The service, as routes that go with others on one port; it answers what has a path below
/// `/arrow.flight.protocol.FlightService/`. Must be called within an async runtime.
pub fn router(access: Arc<dyn Access>, limits: Limits) -> axum::Router {
    let message_bytes_max = limits.message_bytes_max;
    let service = FlightServiceServer::new(service::Service::new(access, limits))
        .max_decoding_message_size(message_bytes_max)
        // What is sent is cut by the encoder.
        .max_encoding_message_size(usize::MAX);
    // One route, and not tonic's router, which has an answer of its own for every other path.
    axum::Router::new().route_service("/arrow.flight.protocol.FlightService/{request}", service)
}
