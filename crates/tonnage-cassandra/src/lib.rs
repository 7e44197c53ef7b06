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
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::AtomicUsize},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_trait::async_trait;
use futures::future::BoxFuture;
use scylla::{
    client::{execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder},
    policies::load_balancing::DefaultPolicy,
    statement::{Consistency, prepared::PreparedStatement},
};
use tokio::sync::OnceCell;
use tonnage_core::{
    driver::Driver,
    error::{Error, Result},
    extent::Extent,
    getter::{GetRequest, Getter, ReadSnapshot},
    ledger::{
        Emptied, Ledger, NewRun, Opening, OtherLedger, RunHandle, RunQuery, RunRecord, Setup, Sought,
        inputs::InputRecord,
    },
    operation::{Durability, Method, Operation, Support},
    password::Password,
    preparation::{Preparation, PreparationEffects},
    reader::{ScanRequest, Snapshot, no_table},
    slot::{Counts, SlotState},
    sync::Lock,
    table::{Table, TableName, TableSpec},
    target::{
        Capabilities, KeyPart, LocalLedger, Lookup, Parts, Prepare, Rows, Scan, Target, WriteRequest, Writer,
    },
    types::ColumnType,
};
use tonnage_sqlite::local::LedgerFile;

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

/// How long a session may take to begin, beside a connection to each node that is named.
const SESSION_TIMEOUT: Duration = Duration::from_secs(120);

/// A keyspace of a cluster.
pub struct CassandraTarget {
    session: Arc<Session>,
    settings: Settings,
    keyspace: String,
    capabilities: Capabilities,
    ledger_file: Mutex<PathBuf>,
    ledger: OnceCell<Arc<LedgerFile>>,
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
            .unwrap_or_else(|| default_ledger(&cluster, &keyspace));
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
                // A write is cut into batches.
                insert_replaces: true,
                says_key_exists: |_| false,
                own_schema: None,
                array_rows_max: |_| usize::MAX,
            },
            ledger_file: Mutex::new(ledger_file),
            ledger: OnceCell::new(),
            in_flight_max: Arc::new(AtomicUsize::new(batches::IN_FLIGHT_MAX)),
        })
    }

    async fn local(&self) -> Result<&Arc<LedgerFile>> {
        let path = self.ledger_path();
        let open = || async { LedgerFile::open(&path).await.map(Arc::new) };
        self.ledger.get_or_try_init(open).await
    }

    fn ledger_path(&self) -> PathBuf {
        self.ledger_file.locked().clone()
    }

    async fn described(&self, name: &TableName) -> Result<catalog::Described> {
        match catalog::describe(&self.session, &self.keyspace, name).await? {
            Some(described) => Ok(described),
            None => Err(no_table(name, &self.table_names().await?)),
        }
    }
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

/// `$XDG_STATE_HOME/tonnage/cassandra/CLUSTER.KEYSPACE.ledger`, by default under `~/.local/state`.
fn default_ledger(cluster: &str, keyspace: &str) -> PathBuf {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .unwrap_or_else(std::env::temp_dir);
    let plain = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-', "_");
    state
        .join("tonnage/cassandra")
        .join(format!("{}.{}.ledger", plain(cluster), plain(keyspace)))
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
        let no = |why: &str, instead: &str| Support::No {
            why: why.to_owned(),
            instead: instead.to_owned(),
        };
        if let Some(counter) = table.columns.iter().find(|column| column.declared == "counter") {
            return Support::No {
                why: format!(
                    "column '{}' is a counter, and an addition that is sent twice counts twice",
                    counter.name
                ),
                instead: "count in a table of plain numbers, or let the application add".to_owned(),
            };
        }
        match operation {
            Operation::Insert | Operation::Upsert { .. } | Operation::Delete { .. } => Support::Yes,
            Operation::Ignore { .. } => no(
                "only a lightweight transaction tells whether a row exists, four round trips for each",
                "--mode insert, which replaces what is there",
            ),
            Operation::Update { .. } => no(
                "an UPDATE makes the row that it does not find, and only a lightweight transaction would not",
                "--mode upsert",
            ),
            Operation::Statement { .. } => no(
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
        let ledger = match run {
            Some(run) => Some((self.local().await?.clone(), run.clone())),
            None => None,
        };
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
        self
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            statements: None,
            scan: Some(self),
            lookup: Some(self),
            relations: None,
            routes: None,
            separate_databases: None,
            prepare: Some(self),
            unique_keys: None,
            statement_splitting: None,
            local_ledger: Some(self),
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
        let described = self.described(&request.table).await?;
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
        let described = self.described(name).await?;
        let mut statement = scylla::statement::Statement::new(format!("TRUNCATE {}", described.quoted()));
        // Every node answers, each after a flush.
        statement.set_request_timeout(Some(SCHEMA_TIMEOUT));
        statement.set_consistency(Consistency::All);
        let emptied = self.session.query_unpaged(statement, ()).await;
        let failed = |error| errors::execution(error, errors::Doing::Else);
        emptied
            .map(|_| ())
            .map_err(|error| failed(error).at(format!("table {name} cannot be emptied")))
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

impl LocalLedger for CassandraTarget {
    fn ledger_file(&self) -> PathBuf {
        self.ledger_path()
    }

    fn keep_ledger(&self, path: &Path) -> Result<()> {
        if self.ledger.initialized() {
            return Err(Error::bug("the ledger was to be moved while it is in use"));
        }
        let path = std::path::absolute(path)
            .map_err(|error| Error::config(format!("'{}' is not a path: {error}", path.display())))?;
        *self.ledger_file.locked() = path;
        Ok(())
    }
}

#[async_trait]
impl Ledger for CassandraTarget {
    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>> {
        self.local().await?.runs(query).await
    }

    async fn ids(&self, prefix: &str) -> Result<Vec<String>> {
        self.local().await?.ids(prefix).await
    }

    async fn inputs(&self, keys: &[String]) -> Result<Vec<InputRecord>> {
        self.local().await?.inputs(keys).await
    }

    async fn prune(&self, keep: u64, limit: u64) -> Result<u64> {
        self.local().await?.prune(keep, limit).await
    }

    async fn elsewhere(&self, sought: &Sought) -> Result<Vec<OtherLedger>> {
        self.local().await?.elsewhere(sought).await
    }

    async fn setup(&self, grantees: &[String]) -> Result<Vec<Setup>> {
        self.local().await?.setup(grantees).await
    }

    async fn set_up(&self, grantees: &[String]) -> Result<()> {
        self.local().await?.set_up(grantees).await
    }

    async fn start(&self, run: &NewRun) -> Result<RunHandle> {
        match run.preparation {
            Preparation::Keep => {}
            // Should the run not come to be recorded, the table is empty, as was asked for.
            Preparation::Truncate => self.truncate(&run.table).await?,
            Preparation::Recreate | Preparation::RebuildIndexes { .. } => {
                return Err(Error::bug("a preparation that was refused"));
            }
        }
        self.local().await?.start(run).await
    }

    async fn slots(&self, run_id: &str) -> Result<Vec<SlotState>> {
        self.local().await?.slots(run_id).await
    }

    async fn take_over(&self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
        self.local().await?.take_over(run_id).await
    }

    async fn emptied(&self, run_ids: &[String]) -> Result<Vec<Emptied>> {
        self.local().await?.emptied(run_ids).await
    }

    async fn accept_emptied(&self, handle: &RunHandle) -> Result<()> {
        self.local().await?.accept_emptied(handle).await
    }

    async fn note_opening(&self, run_id: &str, opening: &Opening) -> Result<bool> {
        self.local().await?.note_opening(run_id, opening).await
    }

    async fn finish(&self, handle: &RunHandle, counts: Counts) -> Result<()> {
        self.local().await?.finish(handle, counts).await
    }

    async fn forget(&self, run_id: &str) -> Result<bool> {
        self.local().await?.forget(run_id).await
    }

    async fn forget_unbegun(&self, handle: &RunHandle) -> Result<bool> {
        self.local().await?.forget_unbegun(handle).await
    }

    async fn conclude(&self, run_id: &str) -> Result<()> {
        self.local().await?.conclude(run_id).await
    }

    async fn slots_of(&self, run_id: &str, slots: &[u16]) -> Result<Vec<SlotState>> {
        self.local().await?.slots_of(run_id, slots).await
    }

    async fn is_owned(&self, handle: &RunHandle) -> Result<bool> {
        self.local().await?.is_owned(handle).await
    }
}
