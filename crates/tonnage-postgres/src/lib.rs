//! PostgreSQL 12 and later.
//!
//! Rows travel by binary COPY ([`Method::Native`]), as one array a column ([`Method::Array`]) or as executions of one
//! prepared statement ([`Method::Batch`], [`Method::Single`]); by COPY, operations that look for a key go through a
//! temporary table of the session. Every transaction opens with the compare-and-set of the ledger rows
//! it moves. Nothing becomes durable by being dropped: a COPY and a transaction that are not finished by name are
//! undone by the server.
//!
//! The order to read in: `settings` and `connect` (how a session comes about), `catalog`, `composition`, `types` and `carry` (what a
//! table is), `encode`, `spelling` and `numeric` (values), `statements` and `writer` (rows), `ledger`.

mod apart;
mod carry;
mod catalog;
mod composition;
mod connect;
mod decode;
mod definition;
mod each;
mod encode;
mod errors;
mod execute;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod getter;
mod instruments;
mod ledger;
mod making;
mod numeric;
mod partitions;
mod pooler;
mod prepare;
mod reader;
mod schemas;
mod session;
mod settings;
mod shadow;
mod spelling;
mod splits;
mod statements;
mod tls;
mod types;
mod writer;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures::{FutureExt, future::BoxFuture};
use tokio_postgres::Client;
use tonnage_core::{
    driver::Driver,
    error::{Error, Result},
    extent::Extent,
    getter::{GetRequest, Getter, ReadSnapshot},
    ledger::{Ledger, RunHandle},
    operation::{Durability, Method, Operation, Support},
    password::Password,
    preparation::{Preparation, PreparationEffects},
    reader::{CutScan, CutStates, ScanPart, ScanRequest, Snapshot},
    router::Router,
    statement::{Dialect, Statement},
    sync::Lock,
    table::{ColumnSpec, ForeignKey, Table, TableName, TableSpec},
    target::{
        BATCH_BYTES, Capabilities, CommitTimes, KeyPart, Lookup, Parts, Prepare, Relations, Routed, Routes,
        Rows, Scan, ScanApart, Statements, Target, WriteRequest, Writer,
    },
    types::ColumnType,
};
use tonnage_sql::ledger::SqlLedger;

use self::{
    catalog::RuleEvent,
    getter::{PostgresGetter, PostgresReadSnapshot},
    ledger::Control,
    partitions::Partitions,
    settings::{ProcessSurroundings, Settings},
};

/// The registry's entry.
pub const DRIVER: Driver = Driver {
    name: "PostgreSQL",
    schemes: &["postgresql", "postgres"],
    example: "postgresql://user@localhost:5432/database",
    extensions: &[],
    keywords: settings::OPTIONS,
    operations: &["insert", "upsert", "ignore", "update", "delete", "statement"],
    methods: &[Method::Native, Method::Array, Method::Batch, Method::Single],
    native: "binary COPY",
    durability: &[Durability::Relaxed, Durability::Durable],
    declares: types::sql_type,
    verified: "PostgreSQL 15 and 18",
    passwords: true,
    connect: connect_url,
    redact: settings::redact,
    files: tonnage_core::driver::no_files,
};

fn connect_url(url: &str, password: Option<Password>) -> BoxFuture<'_, Result<Arc<dyn Target>>> {
    async move {
        let mut settings = Settings::resolve(url, &ProcessSurroundings)?;
        if let Some(password) = password {
            settings.replace_password(&password);
        }
        Ok(Arc::new(PostgresTarget::connect(settings).await?) as Arc<dyn Target>)
    }
    .boxed()
}

/// One PostgreSQL database.
struct PostgresTarget {
    settings: Settings,
    capabilities: Capabilities,
    /// What `synchronous_commit` is without us.
    synchronous_commit: String,
    /// Its session is the catalogue's as well.
    ledger: SqlLedger<Control>,
    /// By object, of the tables that were asked for; [`Target::support`] cannot ask.
    traits: Mutex<BTreeMap<String, Traits>>,
    /// The partitions of tables that are written partition by partition, by their router's identity.
    partitions: Mutex<BTreeMap<String, Arc<Partitions>>>,
    /// By text, of the statements that were described: why their rows may not be sent together, if so.
    obstacles: Mutex<BTreeMap<String, Option<String>>>,
}

/// What decides on the operations that a table allows.
struct Traits {
    /// Row security applies to this role.
    row_security: bool,
    /// Its rows are in partitions.
    partitioned: bool,
    /// Events that a rule rewrites, with the rule's name.
    rules: Vec<(RuleEvent, String)>,
    /// The rule that does something else in the place of an INSERT.
    instead: Option<String>,
}

/// Rows of a block at most, so that a block is a write when nothing else limits it.
const BATCH_ROWS: usize = 65_536;
/// An array statement is parsed and planned as one and holds all its values at once in the server.
const ARRAY_ROWS_MAX: usize = 10_000;

impl PostgresTarget {
    async fn connect(mut settings: Settings) -> Result<Self> {
        settings.control = Arc::default();
        let client = connect::open_control(&settings).await?;
        let row = client
            .query_one(
                "SELECT current_setting('server_version_num')::int4, current_setting('server_version'), \
                 current_setting('synchronous_commit'), current_setting('fsync')",
                &[],
            )
            .await
            .map_err(errors::statement)?;
        let version: i32 = catalog::get(&row, 0)?;
        let version_text: String = catalog::get(&row, 1)?;
        if version < catalog::SERVER_VERSION_MIN {
            return Err(
                Error::config(format!("PostgreSQL {version_text} is too old")).hint("12 or later is needed")
            );
        }
        let fsync: String = catalog::get(&row, 3)?;
        // Without fsync no commit survives the loss of power, whatever a session sets.
        let durability: &'static [Durability] = match fsync.as_str() {
            "off" => &[Durability::Relaxed],
            _ => DRIVER.durability,
        };
        let shown = version_text.split(' ').next().unwrap_or(&version_text);
        let capabilities = Capabilities {
            product: format!("PostgreSQL {shown}"),
            writers_max: None,
            durability,
            methods: DRIVER.methods,
            text_holds_nul: false,
            partial_dates: false,
            repeats_keys: false,
            batch_rows_default: BATCH_ROWS,
            batch_bytes_default: BATCH_BYTES,
            commits: CommitTimes::Comparable,
            insert_replaces: false,
            says_key_exists: |code| code == "23505",
            own_schema: None,
            array_rows_max: |_| ARRAY_ROWS_MAX,
        };
        Ok(Self {
            capabilities,
            synchronous_commit: catalog::get(&row, 2)?,
            ledger: SqlLedger(Control::of(settings.clone(), client)),
            traits: Mutex::default(),
            partitions: Mutex::default(),
            obstacles: Mutex::default(),
            settings,
        })
    }

    /// The session for catalogue and ledger.
    async fn session(&self) -> Result<tokio::sync::MutexGuard<'_, Client>> {
        self.ledger.0.session().await
    }
}

#[async_trait]
impl Target for PostgresTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn support(&self, table: &Table, operation: &Operation, method: Method) -> Support {
        if let Operation::Statement { statement, .. } = operation {
            let obstacles = self.obstacles.locked();
            let obstacle = obstacles.get(statement.text()).and_then(Option::as_deref);
            return execute::support(statement, method, obstacle);
        }
        let key = operation.key();
        if !key.is_empty() && !table.keys.iter().any(|known| same_columns(&known.columns, key)) {
            let instead = match table.keys.as_slice() {
                [] => format!("add a primary key or a unique constraint on ({})", key.join(", ")),
                keys => {
                    let keys: Vec<_> = keys.iter().map(|key| key.columns.join(",")).collect();
                    format!("--key {}", keys.join(" or --key "))
                }
            };
            return Support::No {
                why: format!(
                    "({}) is not a primary or unique key of {}",
                    key.join(", "),
                    table.name
                ),
                instead,
            };
        }
        let traits = self.traits.locked();
        let Some(traits) = traits.get(&table.identity.object) else {
            return Support::Yes;
        };
        // A stage is a table of our own, so only a COPY into the table itself is in the way.
        if method == Method::Native && *operation == Operation::Insert && traits.row_security {
            return Support::No {
                why: format!(
                    "COPY does not work on {}, where row security applies to this role",
                    table.name
                ),
                instead: "--method array".to_owned(),
            };
        }
        // The server counts the rows of such an INSERT, wherever they went.
        if let Some(rule) = traits
            .instead
            .as_ref()
            .filter(|_| *operation == Operation::Insert)
            && method != Method::Native
        {
            return Support::No {
                why: format!("the rule {rule} of {} takes the place of an INSERT", table.name),
                instead: format!(
                    "--method native, which passes by it, or ALTER TABLE {} DISABLE RULE {rule}, for the time of the load",
                    table.name
                ),
            };
        }
        // Nobody could tell the rows that a rule has taken elsewhere from those that the operation left out.
        let rewritten: &[RuleEvent] = match operation {
            Operation::Insert | Operation::Statement { .. } => &[],
            Operation::Upsert { .. } | Operation::Ignore { .. } => &[RuleEvent::Insert, RuleEvent::Update],
            Operation::Update { .. } => &[RuleEvent::Update],
            Operation::Delete { .. } => &[RuleEvent::Delete],
        };
        if let Some((_, rule)) = traits.rules.iter().find(|(event, _)| rewritten.contains(event)) {
            return Support::No {
                why: format!("the rule {rule} of {} rewrites what would be done", table.name),
                instead: format!(
                    "ALTER TABLE {} DISABLE RULE {rule}, for the time of the load",
                    table.name
                ),
            };
        }
        Support::Yes
    }

    async fn table(&self, name: &TableName) -> Result<Option<Table>> {
        let session = self.session().await?;
        let Some(described) = catalog::describe(&*session, name).await? else {
            return Ok(None);
        };
        let mut traits = self.traits.locked();
        traits.insert(
            described.table.identity.object.clone(),
            Traits {
                row_security: described.row_security,
                partitioned: described.partitioned,
                rules: described.rules,
                instead: described.instead,
            },
        );
        Ok(Some(described.table))
    }

    async fn table_names(&self) -> Result<Vec<String>> {
        catalog::names(&*self.session().await?).await
    }

    fn column_type(&self, wanted: ColumnType, _: &Extent, _: KeyPart) -> ColumnType {
        // Its numerics and times hold all that can be inferred.
        wanted
    }

    fn create_statement(&self, spec: &TableSpec) -> Result<String> {
        types::create_statement(spec)
    }

    async fn create(&self, spec: &TableSpec) -> Result<()> {
        let statement = types::create_statement(spec)?;
        let session = self.session().await?;
        session
            .batch_execute(&statement)
            .await
            .map_err(|e| errors::statement(e).at(format!("cannot create {}", spec.name)))
    }

    async fn drop_table(&self, table: &Table, rows: Rows) -> Result<bool> {
        // Whatever fails here ends the connection, and with it the transaction.
        let client = connect::open(&self.settings).await?;
        statements::drop_table(&client, table, rows).await
    }

    fn settings(&self, durability: Durability) -> Vec<String> {
        types::commit_setting(&self.synchronous_commit, durability)
            .map(|value| format!("synchronous_commit = {value}"))
            .into_iter()
            .collect()
    }

    async fn writer(&self, plan: &WriteRequest, run: Option<&RunHandle>) -> Result<Box<dyn Writer>> {
        let client = connect::open(&self.settings).await?;
        let partitions = plan.routing.as_ref().and_then(|routing| {
            let known = self.partitions.locked();
            known.get(&routing.router.identity()).cloned()
        });
        let schema = self.ledger.0.asked();
        let run = run.map(|run| writer::Recorded { run, schema });
        let writer =
            writer::PostgresWriter::open(client, plan, run, &self.synchronous_commit, partitions).await?;
        Ok(Box::new(writer))
    }

    fn ledger(&self) -> &dyn Ledger {
        &self.ledger
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            statements: Some(self),
            scan: Some(self),
            scan_apart: Some(self),
            lookup: Some(self),
            relations: Some(self),
            routes: Some(self),
            separate_databases: None,
            prepare: Some(self),
            unique_keys: None,
            statement_splitting: None,
            local_ledger: None,
            schemas: Some(self),
            instruments: Some(self),
        }
    }
}

#[async_trait]
impl Statements for PostgresTarget {
    fn dialect(&self) -> Dialect {
        execute::DIALECT
    }

    async fn describe(&self, statement: &Statement) -> Result<Table> {
        let session = self.session().await?;
        let described = execute::describe(&session, statement).await?;
        let obstacle = execute::obstacle(&session, statement).await?;
        let mut obstacles = self.obstacles.locked();
        obstacles.insert(statement.text().to_owned(), obstacle);
        Ok(described.table)
    }

    async fn run_script(&self, script: &str) -> Result<()> {
        let session = self.session().await?;
        session.batch_execute(script).await.map_err(errors::statement)
    }
}

#[async_trait]
impl Scan for PostgresTarget {
    async fn scan(&self, request: &ScanRequest) -> Result<Snapshot> {
        reader::scan(&self.settings, request).await
    }
}

#[async_trait]
impl ScanApart for PostgresTarget {
    async fn cut_scan(&self, request: &ScanRequest, states: CutStates, parts_max: usize) -> Result<CutScan> {
        apart::cut_scan(&self.settings, request, states, parts_max).await
    }

    async fn scan_part(&self, request: &ScanRequest, part: &ScanPart) -> Result<Snapshot> {
        apart::scan_part(&self.settings, request, part).await
    }
}

#[async_trait]
impl Lookup for PostgresTarget {
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>> {
        let getter = PostgresGetter::open(&self.settings, None, request).await?;
        Ok(Box::new(getter))
    }

    async fn read_snapshot(&self, _: usize) -> Result<Option<Box<dyn ReadSnapshot>>> {
        let snapshot = PostgresReadSnapshot::begin(&self.settings).await?;
        Ok(Some(Box::new(snapshot)))
    }
}

#[async_trait]
impl Relations for PostgresTarget {
    async fn foreign_keys(&self, table: &TableName) -> Result<Vec<ForeignKey>> {
        catalog::foreign_keys(&*self.session().await?, table).await
    }
}

#[async_trait]
impl Routes for PostgresTarget {
    async fn router(&self, table: &Table) -> Result<Routed> {
        let partitioned = {
            let traits = self.traits.locked();
            traits
                .get(&table.identity.object)
                .is_none_or(|traits| traits.partitioned)
        };
        if !partitioned {
            return Ok(Routed::No);
        }
        let session = self.session().await?;
        let Some(described) = catalog::describe(&*session, &table.name).await? else {
            return Ok(Routed::No);
        };
        let partitions = match partitions::find(&*session, &described).await? {
            None => return Ok(Routed::No),
            Some(Err(why)) => {
                let name = &table.name;
                return Ok(Routed::Not(format!("{name} is written as one table: {why}")));
            }
            Some(Ok(partitions)) => Arc::new(partitions),
        };
        let mut known = self.partitions.locked();
        known.insert(partitions.identity(), partitions.clone());
        Ok(Routed::By(partitions))
    }
}

#[async_trait]
impl Prepare for PostgresTarget {
    async fn truncate(&self, name: &TableName) -> Result<()> {
        let session = self.session().await?;
        session
            .batch_execute(&statements::truncate(name))
            .await
            .map_err(|e| errors::statement(e).at(format!("cannot empty {name}")))
    }

    async fn check_preparation(&self, table: &Table, preparation: Preparation) -> Result<PreparationEffects> {
        prepare::check_preparation(&*self.session().await?, table, preparation).await
    }

    async fn add_columns(&self, table: &Table, columns: &[ColumnSpec]) -> Result<()> {
        let added = self.run_script(&types::add_columns(&table.name, columns)?).await;
        added.map_err(|error| error.at(format!("no columns can be added to {}", table.name)))
    }
}

fn same_columns(a: &[String], b: &[String]) -> bool {
    a.len() == b.len() && a.iter().all(|column| b.contains(column))
}
