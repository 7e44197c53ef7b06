//! Cassandra and ScyllaDB, by their own protocol.
//!
//! - A row has the timestamp of its place in the run (`writer`), so that what is sent twice is the same as what is sent
//!   once, and the last row of a key wins whichever lane sends it first. That is what takes the place of transactions.
//! - Rows are grouped by partition, then by replicas, into unlogged batches below the server's limit (`batches`).
//! - The ledger is a local file, written after the database has acknowledged the rows.
//! - Consistency says how many replicas acknowledge, not that any has it on disk.
//! - Overload, timeouts and missing replicas are never a row's fault.

mod batches;
mod catalog;
mod decode;
mod duration;
mod encode;
mod errors;
mod getter;
mod instruments;
mod nested;
mod number;
mod reader;
mod settings;
mod types;
mod values;
mod writer;

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use scylla::{
    client::{execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder},
    policies::load_balancing::DefaultPolicy,
    statement::{Consistency, prepared::PreparedStatement},
};
use tonnage_core::{
    driver::Driver,
    error::{Error, Result},
    extent::Extent,
    getter::{GetRequest, Getter, ReadSnapshot},
    ledger::{Ledger, NewRun, RunHandle},
    operation::{Durability, Method, Operation, Support},
    password::Password,
    preparation::{Preparation, PreparationEffects},
    reader::{ScanRequest, Snapshot, no_table},
    slot::SlotState,
    table::{ColumnSpec, Table, TableName, TableSpec},
    target::{
        BATCH_BYTES, Capabilities, CommitTimes, KeyPart, Lookup, Parts, Prepare, Rows, Scan, Target,
        WriteRequest, Writer,
    },
    types::ColumnType,
};
use tonnage_sqlite::local::{LedgerFile, RunRows, default_path};

use self::{getter::CassandraGetter, settings::Settings, writer::CassandraWriter};

/// Cassandra's line in the registry.
pub const DRIVER: Driver = Driver {
    name: "Cassandra",
    schemes: &["cassandra", "scylla"],
    example: "cassandra://host1,host2/keyspace",
    extensions: &[],
    keywords: &[],
    operations: &["insert", "upsert", "delete"],
    methods: &[Method::Array, Method::Batch, Method::Single],
    native: "none",
    durability: &[
        Durability::None,
        Durability::Relaxed,
        Durability::Majority,
        Durability::All,
    ],
    declares: |ty| types::declared(ty, "c").ok().map(str::to_owned),
    verified: "Cassandra 5.0, three nodes; ScyllaDB is not verified",
    passwords: true,
    connect,
    redact: tonnage_sql::url::redact,
    files: tonnage_core::driver::no_files,
};

/// Rows of a write unless asked for: a commit of the ledger each.
const BATCH_ROWS: usize = 16_384;

fn connect(url: &str, password: Option<Password>) -> BoxFuture<'_, Result<Arc<dyn Target>>> {
    Box::pin(async move {
        let target: Arc<dyn Target> = Arc::new(CassandraTarget::connect(url, password).await?);
        Ok(target)
    })
}

/// How long all nodes together may take to empty or to drop a table.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(120);

/// How long all nodes that are reached may take to prepare a statement: the driver waits for each without a limit.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a session may take to begin, in addition to a connection to each node that is named.
const SESSION_TIMEOUT: Duration = Duration::from_secs(120);

/// A keyspace of a cluster.
pub struct CassandraTarget {
    session: Arc<Session>,
    settings: Settings,
    keyspace: String,
    capabilities: Capabilities,
    ledger: Arc<LedgerFile>,
    /// Requests that a lane may have under way: fewer after an overload.
    in_flight_max: Arc<AtomicUsize>,
}

impl CassandraTarget {
    /// Opens a session.
    ///
    /// # Errors
    ///
    /// `Config` where the URL is wrong, no node answers, or there is no such keyspace.
    pub async fn connect(url: &str, password: Option<Password>) -> Result<Self> {
        let settings = Settings::parse(url, password)?;
        let session = Arc::new(open(&settings).await?);
        let keyspace = settings.keyspace.clone().ok_or_else(|| {
            Error::config("the URL names no keyspace").hint("write it as cassandra://host/keyspace")
        })?;
        catalog::check_keyspace(&session, &keyspace).await?;
        // For queries of the user's own.
        session.use_keyspace(&keyspace, true).await.map_err(|error| {
            Error::config(format!("the keyspace '{keyspace}' cannot be used: {error}")).caused_by(error)
        })?;
        let (product, cluster) = catalog::product(&session).await?;
        let ledger_file = settings
            .ledger
            .clone()
            .unwrap_or_else(|| default_path("cassandra", &[&cluster, &keyspace]));
        let rows = CassandraRows {
            session: session.clone(),
            keyspace: keyspace.clone(),
        };
        Ok(Self {
            session,
            settings,
            keyspace,
            capabilities: Capabilities {
                product,
                writers_max: None,
                durability: DRIVER.durability,
                methods: DRIVER.methods,
                text_holds_nul: true,
                partial_dates: false,
                repeats_keys: false,
                batch_rows_default: BATCH_ROWS,
                batch_bytes_default: BATCH_BYTES,
                commits: CommitTimes::Comparable,
                // A write is cut into batches.
                insert_replaces: true,
                says_key_exists: |_| false,
                own_schema: None,
                array_rows_max: |_| usize::MAX,
            },
            ledger: Arc::new(LedgerFile::at(&ledger_file, Arc::new(rows))?),
            in_flight_max: Arc::new(AtomicUsize::new(batches::IN_FLIGHT_MAX)),
        })
    }
}

/// The table of this name. `Schema` where there is none.
async fn described(session: &Session, keyspace: &str, name: &TableName) -> Result<catalog::Described> {
    match catalog::describe(session, keyspace, name).await? {
        Some(described) => Ok(described),
        None => Err(no_table(name, &catalog::names(session, keyspace).await?)),
    }
}

async fn truncate(session: &Session, keyspace: &str, name: &TableName) -> Result<()> {
    let described = described(session, keyspace, name).await?;
    let mut statement = scylla::statement::Statement::new(format!("TRUNCATE {}", described.quoted()));
    // Every node answers, each after a flush.
    statement.set_request_timeout(Some(SCHEMA_TIMEOUT));
    statement.set_consistency(Consistency::All);
    let emptied = session.query_unpaged(statement, ()).await;
    let failed = |error| errors::execution(error, errors::Doing::Else);
    emptied
        .map(|_| ())
        .map_err(|error| failed(error).at(format!("table {name} cannot be emptied")))
}

async fn open(settings: &Settings) -> Result<Session> {
    let mut policy = DefaultPolicy::builder().token_aware(true);
    if let Some(datacenter) = &settings.datacenter {
        policy = policy.prefer_datacenter(datacenter.clone());
    }
    let profile = ExecutionProfile::builder()
        .consistency(settings.read)
        .request_timeout(Some(settings.request_timeout))
        .load_balancing_policy(policy.build())
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&settings.nodes)
        .connection_timeout(settings.connect_timeout)
        .default_execution_profile_handle(profile.into_handle());
    if let Some((user, password)) = &settings.user {
        builder = builder.user(user, &password.0);
    }
    let nodes = settings.nodes.len() as u32;
    let most = SESSION_TIMEOUT + settings.connect_timeout.saturating_mul(nodes);
    match tokio::time::timeout(most, builder.build()).await {
        Ok(built) => built.map_err(|error| errors::session(error, &settings.shown())),
        Err(_) => Err(errors::silent(&settings.shown(), most)),
    }
}

/// Prepares a statement on the nodes that are reached.
async fn prepare(session: &Session, cql: String) -> Result<PreparedStatement> {
    match tokio::time::timeout(PREPARE_TIMEOUT, session.prepare(cql)).await {
        Ok(prepared) => prepared.map_err(errors::prepare),
        Err(_) => Err(errors::silent("the nodes", PREPARE_TIMEOUT)),
    }
}

/// The time by this machine's clock.
fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// How many replicas acknowledge a write.
fn consistency(durability: Durability, settings: &Settings) -> Consistency {
    match durability {
        Durability::None => Consistency::Any,
        Durability::Relaxed => Consistency::One,
        Durability::Durable | Durability::Majority if settings.datacenter.is_some() => {
            Consistency::LocalQuorum
        }
        Durability::Durable | Durability::Majority => Consistency::Quorum,
        Durability::All => Consistency::All,
    }
}

#[async_trait]
impl Target for CassandraTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn support(&self, table: &Table, operation: &Operation, _: Method) -> Support {
        if let Some(counter) = table.columns.iter().find(|column| column.declared == "counter") {
            return Support::no(
                format!(
                    "column '{}' is a counter, and an addition that is sent twice counts twice",
                    counter.name
                ),
                "count in a table of plain numbers, or let the application add",
            );
        }
        match operation {
            Operation::Insert | Operation::Upsert { .. } | Operation::Delete { .. } => Support::Yes,
            Operation::Ignore { .. } => Support::no(
                "only a lightweight transaction tells whether a row exists, four round trips for each",
                "--mode insert, which replaces what is there",
            ),
            Operation::Update { .. } => Support::no(
                "an UPDATE makes the row that it does not find, and only a lightweight transaction would not",
                "--mode upsert",
            ),
            Operation::Statement { .. } => Support::no(
                "statements of your own are not run here: sent twice they may mean something else",
                "`tonnage load`",
            ),
        }
    }

    async fn table(&self, name: &TableName) -> Result<Option<Table>> {
        let Some(mut described) = catalog::describe(&self.session, &self.keyspace, name).await? else {
            return Ok(None);
        };
        described.table.notes.extend(catalog::clock(&self.session).await?);
        Ok(Some(described.table))
    }

    async fn table_names(&self) -> Result<Vec<String>> {
        catalog::names(&self.session, &self.keyspace).await
    }

    fn column_type(&self, wanted: ColumnType, extent: &Extent, _: KeyPart) -> ColumnType {
        match wanted {
            // Its decimals have no words for what is no number.
            ColumnType::Numeric if !extent.is_finite() && extent.rounded_by_double => ColumnType::TEXT,
            ColumnType::Numeric if !extent.is_finite() => ColumnType::Float64,
            wanted => wanted,
        }
    }

    fn create_statement(&self, spec: &TableSpec) -> Result<String> {
        types::create_table(spec, &self.keyspace)
    }

    async fn create(&self, spec: &TableSpec) -> Result<()> {
        let created = self
            .session
            .query_unpaged(self.create_statement(spec)?, ())
            .await
            .map_err(|error| errors::execution(error, errors::Doing::Else));
        created.map_err(|error| error.at(format!("table {} cannot be created", spec.name)))?;
        Ok(())
    }

    async fn drop_table(&self, table: &Table, rows: Rows) -> Result<bool> {
        let failed = |error| {
            errors::execution(error, errors::Doing::Else)
                .at(format!("table {} cannot be dropped", table.name))
        };
        let Some(found) = catalog::describe(&self.session, &self.keyspace, &table.name).await? else {
            return Ok(false);
        };
        if found.table.identity.object != table.identity.object {
            return Ok(false);
        }
        let statement = |text: String| {
            let mut statement = scylla::statement::Statement::new(text);
            statement.set_request_timeout(Some(SCHEMA_TIMEOUT));
            statement
        };
        if rows == Rows::Keep {
            let mut any = statement(format!("SELECT * FROM {} LIMIT 1", found.quoted()));
            any.set_consistency(Consistency::All);
            let answer = self.session.query_unpaged(any, ()).await.map_err(failed)?;
            if answer.into_rows_result().is_ok_and(|rows| rows.rows_num() > 0) {
                return Ok(false);
            }
        }
        let dropped = statement(format!("DROP TABLE {}", found.quoted()));
        self.session.query_unpaged(dropped, ()).await.map_err(failed)?;
        Ok(true)
    }

    fn settings(&self, durability: Durability) -> Vec<String> {
        vec![
            format!("consistency = {:?}", consistency(durability, &self.settings)),
            format!("batches = unlogged, below {} KiB", batches::BYTES_MAX / 1024),
            "TLS = none".to_owned(),
        ]
    }

    async fn writer(&self, plan: &WriteRequest, run: Option<&RunHandle>) -> Result<Box<dyn Writer>> {
        let name = &plan.table.name;
        let described = catalog::describe(&self.session, &self.keyspace, name).await?;
        let described = described.ok_or_else(|| Error::altered(name, "was dropped"))?;
        let ledger = run.map(|run| (self.ledger.clone(), run.clone()));
        let consistency = consistency(plan.durability, &self.settings);
        let opened = CassandraWriter::open(
            &self.session,
            described,
            plan,
            consistency,
            ledger,
            &self.in_flight_max,
        );
        Ok(Box::new(opened.await?))
    }

    fn ledger(&self) -> &dyn Ledger {
        self.ledger.as_ledger()
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            statements: None,
            scan: Some(self),
            scan_apart: None,
            lookup: Some(self),
            relations: None,
            routes: None,
            separate_databases: None,
            prepare: Some(self),
            unique_keys: None,
            statement_splitting: None,
            local_ledger: Some(&*self.ledger),
            schemas: None,
            instruments: Some(self),
        }
    }
}

#[async_trait]
impl Scan for CassandraTarget {
    async fn scan(&self, request: &ScanRequest) -> Result<Snapshot> {
        reader::scan(&self.session, &self.keyspace, request).await
    }
}

#[async_trait]
impl Lookup for CassandraTarget {
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>> {
        let described = described(&self.session, &self.keyspace, &request.table).await?;
        Ok(Box::new(
            CassandraGetter::open(self.session.clone(), described, request).await?,
        ))
    }

    async fn read_snapshot(&self, _: usize) -> Result<Option<Box<dyn ReadSnapshot>>> {
        Ok(None)
    }
}

#[async_trait]
impl Prepare for CassandraTarget {
    async fn truncate(&self, name: &TableName) -> Result<()> {
        truncate(&self.session, &self.keyspace, name).await
    }

    async fn add_columns(&self, table: &Table, columns: &[ColumnSpec]) -> Result<()> {
        let keyspace = table.name.schema.as_deref().unwrap_or(&self.keyspace);
        let name = format!("{}.{}", types::quote(keyspace), types::quote(&table.name.name));
        let mut statement = scylla::statement::Statement::new(types::add_columns(&name, columns)?);
        statement.set_request_timeout(Some(SCHEMA_TIMEOUT));
        let added = self.session.query_unpaged(statement, ()).await;
        added.map_err(|error| {
            errors::execution(error, errors::Doing::Else)
                .at(format!("no columns can be added to {}", table.name))
        })?;
        Ok(())
    }

    async fn check_preparation(&self, table: &Table, preparation: Preparation) -> Result<PreparationEffects> {
        match preparation.option() {
            None => Ok(PreparationEffects::default()),
            Some(option) => Err(Error::config(format!(
                "{} has no {option} for {}",
                self.capabilities.product, table.name
            ))
            .hint("--truncate empties the table first")),
        }
    }
}

/// A row that is sent again has the timestamp that it had, so nothing is to be done about those of a run that is taken
/// over.
struct CassandraRows {
    session: Arc<Session>,
    keyspace: String,
}

#[async_trait]
impl RunRows for CassandraRows {
    async fn prepare(&self, run: &NewRun) -> Result<()> {
        match run.preparation {
            Preparation::Keep => Ok(()),
            // Should the run not come to be recorded, the table is empty, as was asked for.
            Preparation::Truncate => truncate(&self.session, &self.keyspace, &run.table).await,
            Preparation::Recreate | Preparation::RebuildIndexes { .. } => {
                Err(Error::bug("a preparation that was refused"))
            }
        }
    }

    fn taken_over(&self, _: &str, _: &[SlotState]) -> Result<()> {
        Ok(())
    }
}
