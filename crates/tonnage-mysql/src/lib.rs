//! MariaDB, and the servers that speak its protocol: MySQL, OceanBase, TiDB, PolarDB-X.
//!
//! Rows travel by LOAD DATA LOCAL from memory ([`Method::Native`]), many a statement ([`Method::Array`]: MariaDB's bulk
//! protocol, elsewhere a prepared INSERT of many rows) or one a statement ([`Method::Batch`], [`Method::Single`]).
//! Every transaction opens with the compare-and-set of the ledger rows it moves. What these servers change without an
//! error is found before it is sent (`encode`), or by the warnings and counts that a statement ends with (`writer`).
//!
//! There are no object ids that stay while a table is altered, so a table is known by its name; when it was made is
//! part of its shape, and a run does not go on in a table of another one.
//!
//! The order to read in: `settings`, `product` and `connect` (how a session comes about), `catalog` and `types` (what a
//! table is), `encode` (values), `statements`, `sizes` and `writer` (rows), `execute` (statements of the user's own),
//! `ledger`; and the way out, `reader` with `splits`, `stream` and `decode`, and `getter`.

mod apart;
mod catalog;
mod connect;
mod decode;
mod definition;
mod encode;
mod errors;
mod execute;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
mod getter;
mod instruments;
mod ledger;
mod once;
mod product;
mod reader;
mod schemas;
mod session;
mod settings;
mod sizes;
mod splits;
mod statements;
mod stream;
mod types;
mod writer;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures::{FutureExt, future::BoxFuture};
use mysql_async::{Conn, prelude::Queryable};
use tonnage_core::{
    driver::Driver,
    error::{Error, Result},
    extent::Extent,
    getter::{GetRequest, Getter, ReadSnapshot},
    ledger::{Ledger, RunHandle},
    operation::{Durability, Method, Operation, Split, Support},
    password::Password,
    preparation::{Preparation, PreparationEffects},
    reader::{CutScan, CutStates, ScanPart, ScanRequest, Snapshot},
    statement::{Dialect, Statement, Verb},
    sync::Lock,
    table::{ColumnSpec, ForeignKey, Table, TableName, TableSpec},
    target::{
        BATCH_BYTES, Capabilities, CommitTimes, KeyPart, Lookup, Parts, Prepare, Relations, Rows, Scan,
        ScanApart, StatementMax, StatementSplitting, Statements, Target, UniqueKeys, WriteRequest, Writer,
        splits_nothing,
    },
    types::ColumnType,
};
use tonnage_sql::ledger::SqlLedger;

use self::{
    connect::Counting,
    definition::Definition,
    getter::MysqlGetter,
    ledger::{Control, Mover},
    product::{Product, Version},
    settings::{ProcessSurroundings, Settings},
    sizes::Sizes,
    writer::{MysqlWriter, Subject},
};

/// The registry's entry.
pub const DRIVER: Driver = Driver {
    name: "MariaDB",
    schemes: &["mariadb", "mysql"],
    example: "mariadb://user@localhost:3306/database",
    extensions: &[],
    keywords: &[],
    operations: &["insert", "upsert", "ignore", "update", "delete", "statement"],
    methods: &[Method::Array, Method::Native, Method::Batch, Method::Single],
    native: "LOAD DATA LOCAL from memory, for inserts",
    durability: &[Durability::Relaxed, Durability::Durable],
    declares: types::declared,
    verified: "MariaDB 10.11 and 11.4, three nodes of Galera 26.4, MySQL 9.7, OceanBase's engine seekdb 1.4; TiDB and PolarDB-X are not verified",
    passwords: true,
    connect: connect_url,
    redact: tonnage_sql::url::redact,
    files: tonnage_core::driver::no_files,
};

fn connect_url(url: &str, password: Option<Password>) -> BoxFuture<'_, Result<Arc<dyn Target>>> {
    async move {
        let mut settings = Settings::resolve(url, &ProcessSurroundings)?;
        if let Some(password) = password {
            settings.replace_password(&password);
        }
        Ok(Arc::new(MysqlTarget::connect(settings).await?) as Arc<dyn Target>)
    }
    .boxed()
}

/// One database of one server.
struct MysqlTarget {
    settings: Settings,
    version: Version,
    capabilities: Capabilities,
    server: Server,
    /// Its session is the catalogue's as well.
    ledger: SqlLedger<Control>,
    /// By object, of the tables that were asked for; [`Target::support`] cannot ask.
    traits: Mutex<BTreeMap<String, Traits>>,
}

/// What decides on the operations that a table allows.
struct Traits {
    /// Its unique indexes.
    unique: Vec<Vec<String>>,
    transactional: bool,
    shards: usize,
}

/// What the server is set to.
struct Server {
    /// Whether it takes LOAD DATA LOCAL.
    local_infile: bool,
    packet_bytes_max: usize,
    /// How commits are kept, in the server's words.
    keeps: String,
}

/// Rows of a block at most, so that a block is a write when nothing else limits it.
const BATCH_ROWS: usize = 65_536;

/// The settings that decide on what survives the loss of power.
struct Flushing {
    log_at_commit: i64,
    binary_log: bool,
    binary_log_every: i64,
}

impl Flushing {
    /// With a binary log it is this log that decides on what is committed.
    fn is_durable(&self) -> bool {
        self.log_at_commit == 1 && (!self.binary_log || self.binary_log_every == 1)
    }
}

impl MysqlTarget {
    async fn connect(settings: Settings) -> Result<Self> {
        let (mut conn, version) = connect::open(&settings, Counting::Found).await?;
        let first = |found: Option<(i64, u64)>| {
            found.ok_or_else(|| Error::bug("the server does not answer a question about itself"))
        };
        let (local_infile, packet_bytes_max) = first(
            conn.query_first("SELECT @@local_infile, @@max_allowed_packet")
                .await
                .map_err(errors::statement)?,
        )?;
        let flushing: Option<(i64, i64, i64)> = conn
            .query_first("SELECT @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog")
            .await
            .unwrap_or_default();
        let flushing = flushing.map(|(log_at_commit, binary_log, binary_log_every)| Flushing {
            log_at_commit,
            binary_log: binary_log != 0,
            binary_log_every,
        });
        let keeps = match (&flushing, version.product) {
            (_, Product::TiDb) => "the server replicates a commit before it answers".to_owned(),
            (_, Product::OceanBase) => {
                "the server syncs its log, on most of its replicas, before it answers".to_owned()
            }
            (None, _) => "the server does not say how it keeps commits".to_owned(),
            (Some(flushing), _) => format!(
                "the server keeps commits with innodb_flush_log_at_trx_commit = {}, {}; a session cannot change it",
                flushing.log_at_commit,
                match flushing.binary_log {
                    true => format!("sync_binlog = {}", flushing.binary_log_every),
                    false => "no binary log".to_owned(),
                }
            ),
        };
        let durable = matches!(version.product, Product::TiDb | Product::OceanBase)
            || flushing.is_some_and(|flushing| flushing.is_durable());
        let durability: &'static [Durability] = match durable {
            true => DRIVER.durability,
            false => &[Durability::Relaxed],
        };
        let capabilities = Capabilities {
            product: version.shown.clone(),
            writers_max: None,
            durability,
            // The bulk protocol costs the server two thirds of what LOAD DATA does; without it a row is cheaper there
            // than in a statement of many.
            methods: match (version.has_bulk(), version.load_data_warns()) {
                (true, _) => DRIVER.methods,
                (false, false) => &[Method::Array, Method::Batch, Method::Single],
                (false, true) => &[Method::Native, Method::Array, Method::Batch, Method::Single],
            },
            text_holds_nul: true,
            partial_dates: true,
            repeats_keys: true,
            batch_rows_default: BATCH_ROWS,
            batch_bytes_default: BATCH_BYTES,
            commits: CommitTimes::Comparable,
            // A write is cut into statements.
            insert_replaces: false,
            says_key_exists: // Of a unique key, by number alone or by name.
 |code| matches!(code, "1062" | "1169" | "1586"),
            own_schema: Some(settings.database.clone()),
            array_rows_max: |_| usize::MAX,
        };
        Ok(Self {
            ledger: SqlLedger(Control::of(settings.clone(), conn)),
            settings,
            version,
            capabilities,
            server: Server {
                local_infile: local_infile != 0,
                packet_bytes_max: usize::try_from(packet_bytes_max).unwrap_or(usize::MAX),
                keeps,
            },
            traits: Mutex::default(),
        })
    }

    /// The session for catalogue and ledger.
    async fn session(&self) -> Result<tokio::sync::MutexGuard<'_, Conn>> {
        self.ledger.0.session().await
    }

    /// What decides on the size of a statement.
    fn sizes(&self, columns: usize, shards: usize) -> Sizes<'_> {
        Sizes {
            version: &self.version,
            columns,
            shards,
            packet_bytes_max: self.server.packet_bytes_max,
        }
    }

    /// What prevents an operation on a table, by any method.
    fn refusal(table: &Table, operation: &Operation) -> Option<Support> {
        let key = operation.key();
        if !key.is_empty() && !table.keys.iter().any(|known| same_columns(&known.columns, key)) {
            let instead = match table.keys.as_slice() {
                [] => format!("add a primary key or a unique index on ({})", key.join(", ")),
                keys => {
                    let keys: Vec<_> = keys.iter().map(|key| key.columns.join(",")).collect();
                    format!("--key {}", keys.join(" or --key "))
                }
            };
            return Some(Support::No {
                why: format!(
                    "({}) is not a primary or unique key of {}",
                    key.join(", "),
                    table.name
                ),
                instead,
            });
        }
        None
    }

    /// What is known of a table that was asked for; of one that is about to be created, what it is created with.
    fn of_table<T>(&self, table: &Table, take: impl FnOnce(&Traits) -> T) -> T {
        let traits = self.traits.locked();
        match traits.get(&table.identity.object) {
            Some(known) => take(known),
            None => take(&Traits {
                unique: table.keys.iter().map(|key| key.columns.clone()).collect(),
                transactional: true,
                shards: 1,
            }),
        }
    }
}

/// How long the lock of a table to be dropped is waited for.
const DROP_WAIT_SECONDS: u32 = 30;

#[async_trait]
impl Target for MysqlTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn support(&self, table: &Table, operation: &Operation, method: Method) -> Support {
        if let Operation::Statement { statement, .. } = operation {
            return execute::support(statement, method, table);
        }
        if let Some(refusal) = Self::refusal(table, operation) {
            return refusal;
        }
        let by_row = matches!(method, Method::Batch | Method::Single);
        if !by_row && !self.of_table(table, |known| known.transactional) {
            return Support::No {
                why: format!(
                    "{} has no transactions, so only rows that go one by one can be told",
                    table.name
                ),
                instead: "--method batch".to_owned(),
            };
        }
        match (method, operation) {
            (Method::Native, Operation::Insert) if !self.version.load_data_warns() => Support::No {
                why: format!(
                    "LOAD DATA of {} cuts texts and clamps numbers without a warning",
                    self.version.shown
                ),
                instead: "--method array".to_owned(),
            },
            (Method::Native, Operation::Insert) if self.version.splits_load_data => Support::No {
                why: "the cluster commits within a LOAD DATA (wsrep_load_data_splitting)".to_owned(),
                instead: "--method array, or SET GLOBAL wsrep_load_data_splitting = OFF on every node"
                    .to_owned(),
            },
            (Method::Native, Operation::Insert) if !self.server.local_infile => Support::No {
                why: "the server does not take LOAD DATA LOCAL".to_owned(),
                instead: "--method array, or SET GLOBAL local_infile = ON".to_owned(),
            },
            (Method::Native, Operation::Insert) => Support::Yes,
            (Method::Native, _) => Support::No {
                why: "LOAD DATA does nothing but insert".to_owned(),
                instead: "--method array".to_owned(),
            },
            (Method::Array, Operation::Update { .. } | Operation::Delete { .. })
                if !self.version.has_bulk() =>
            {
                Support::No {
                    why: format!("{} has no statement for many rows of it", self.version.shown),
                    instead: "--method batch".to_owned(),
                }
            }
            _ => Support::Yes,
        }
    }

    async fn table(&self, name: &TableName) -> Result<Option<Table>> {
        let mut session = self.session().await?;
        let described = catalog::describe(&mut session, &self.version, &self.settings.database, name).await?;
        let Some(mut described) = described else {
            return Ok(None);
        };
        described.table.notes.push(self.server.keeps.clone());
        let mut traits = self.traits.locked();
        traits.insert(
            described.table.identity.object.clone(),
            Traits {
                unique: described.unique,
                transactional: described.table.transactional,
                shards: described.shards,
            },
        );
        Ok(Some(described.table))
    }

    async fn table_names(&self) -> Result<Vec<String>> {
        catalog::names(&mut *self.session().await?, &self.settings.database).await
    }

    fn column_type(&self, wanted: ColumnType, extent: &Extent, key: KeyPart) -> ColumnType {
        types::for_values(wanted, extent, key)
    }

    fn create_statement(&self, spec: &TableSpec) -> Result<String> {
        types::create_statement(spec, &self.version)
    }

    async fn create(&self, spec: &TableSpec) -> Result<()> {
        let statement = self.create_statement(spec)?;
        let mut session = self.session().await?;
        session
            .query_drop(statement)
            .await
            .map_err(|e| errors::statement(e).at(format!("cannot create {}", spec.name)))
    }

    async fn drop_table(&self, table: &Table, rows: Rows) -> Result<bool> {
        // Whatever fails here ends the connection, and with it the lock.
        let (mut conn, version) = connect::open(&self.settings, Counting::Found).await?;
        let failed = |failure| errors::statement(failure).at(format!("cannot drop {}", table.name));
        let name = types::quote_table(&table.name);
        let wait = format!("SET SESSION lock_wait_timeout = {DROP_WAIT_SECONDS}");
        conn.query_drop(wait).await.map_err(failed)?;
        let found =
            catalog::describe_readable(&mut conn, &version, &self.settings.database, &table.name).await?;
        let is_it = found.is_some_and(|found| found.table.identity == table.identity);
        if !is_it {
            return Ok(false);
        }
        if rows == Rows::Keep {
            conn.query_drop(format!("LOCK TABLES {name} WRITE"))
                .await
                .map_err(failed)?;
            let one: Option<u8> = conn
                .query_first(format!("SELECT 1 FROM {name} LIMIT 1"))
                .await
                .map_err(failed)?;
            if one.is_some() {
                return Ok(false);
            }
        }
        conn.query_drop(format!("DROP TABLE {name}"))
            .await
            .map_err(failed)?;
        Ok(true)
    }

    fn settings(&self, _durability: Durability) -> Vec<String> {
        let mut lines: Vec<_> = session::REPORTED
            .iter()
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        if self.version.is_galera {
            let (name, value) = session::GALERA;
            lines.push(format!("{name} = {value}"));
        }
        lines.push("names = utf8mb4".to_owned());
        lines.push("transaction isolation level = READ COMMITTED".to_owned());
        lines
    }

    async fn writer(&self, plan: &WriteRequest, run: Option<&RunHandle>) -> Result<Box<dyn Writer>> {
        // Rows that were found and left alone differ from new ones in not being changed.
        let counting = match &plan.operation {
            Operation::Ignore { .. } => Counting::Changed,
            Operation::Statement { statement, .. } if statement.verb() == Verb::Insert => Counting::Changed,
            _ => Counting::Found,
        };
        let (mut conn, _) = connect::open(&self.settings, counting).await?;
        let version = &self.version;
        let database = &self.settings.database;
        // Whatever happens to the table from now on is found by the first transaction.
        let definition = Definition::read(&mut conn, version, &plan.table.name).await?;
        let carrying = match writer::described(&mut conn, version, database, plan).await? {
            Ok(_) if definition.is_none() && !matches!(plan.operation, Operation::Statement { .. }) => {
                Err("was dropped or renamed".to_owned())
            }
            Ok(described) => Ok((statements::statements(plan, &described, version)?, definition)),
            Err(what) => Err(what),
        };
        let shards = self.of_table(&plan.table, |known| known.shards);
        // A statement of the user's own may name a parameter twice.
        let columns = carrying
            .as_ref()
            .map_or(1, |(statements, _)| statements.columns.len());
        let most = self.sizes(columns, shards).statement_max(plan.split);
        let sizes = (most, self.server.packet_bytes_max);
        let mover = match run {
            Some(run) => Some(Mover::new(&mut conn, run, self.ledger.0.asked()).await?),
            None => None,
        };
        let writer = MysqlWriter::open(conn, Subject::of(plan, version), carrying, mover, sizes).await?;
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
            routes: None,
            separate_databases: None,
            prepare: Some(self),
            unique_keys: Some(self),
            statement_splitting: Some(self),
            local_ledger: None,
            schemas: Some(self),
            instruments: Some(self),
        }
    }
}

#[async_trait]
impl Statements for MysqlTarget {
    fn dialect(&self) -> Dialect {
        execute::DIALECT
    }

    async fn describe(&self, statement: &Statement) -> Result<Table> {
        let mut session = self.session().await?;
        let database = &self.settings.database;
        let mut described = execute::describe(&mut session, &self.version, database, statement).await?;
        described.table.notes.push(self.server.keeps.clone());
        Ok(described.table)
    }

    async fn run_script(&self, script: &str) -> Result<()> {
        let mut session = self.session().await?;
        session.query_drop(script).await.map_err(errors::statement)
    }
}

#[async_trait]
impl Scan for MysqlTarget {
    async fn scan(&self, request: &ScanRequest) -> Result<Snapshot> {
        reader::scan(&self.settings, request).await
    }
}

#[async_trait]
impl ScanApart for MysqlTarget {
    async fn cut_scan(&self, request: &ScanRequest, states: CutStates, parts_max: usize) -> Result<CutScan> {
        apart::cut_scan(&self.settings, request, states, parts_max).await
    }

    async fn scan_part(&self, request: &ScanRequest, part: &ScanPart) -> Result<Snapshot> {
        apart::scan_part(&self.settings, request, part).await
    }
}

#[async_trait]
impl Lookup for MysqlTarget {
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>> {
        let getter = MysqlGetter::open(&self.settings, self.server.packet_bytes_max, request).await?;
        Ok(Box::new(getter))
    }

    async fn read_snapshot(&self, _: usize) -> Result<Option<Box<dyn ReadSnapshot>>> {
        Ok(None)
    }
}

#[async_trait]
impl Relations for MysqlTarget {
    async fn foreign_keys(&self, table: &TableName) -> Result<Vec<ForeignKey>> {
        catalog::foreign_keys(&mut *self.session().await?, table).await
    }
}

#[async_trait]
impl Prepare for MysqlTarget {
    async fn truncate(&self, name: &TableName) -> Result<()> {
        let mut session = self.session().await?;
        session
            .query_drop(statements::empty(name))
            .await
            .map_err(|e| errors::statement(e).at(format!("cannot empty {name}")))
    }

    async fn add_columns(&self, table: &Table, columns: &[ColumnSpec]) -> Result<()> {
        let statement = types::add_columns(&table.name, columns, &self.version)?;
        let added = self.run_script(&statement).await;
        added.map_err(|error| error.at(format!("no columns can be added to {}", table.name)))
    }

    async fn check_preparation(&self, table: &Table, preparation: Preparation) -> Result<PreparationEffects> {
        match preparation.option() {
            None => Ok(PreparationEffects::default()),
            Some(option) => Err(Error::config(format!(
                "{option} cannot be done for {}: {} commits whenever it makes, renames or drops a table or an index, \
                 so what was done could not be kept apart from what is owed",
                table.name, self.version.product.name()
            ))
            .hint(match preparation {
                Preparation::Recreate => {
                    "--truncate empties the table first; with --single-transaction in the transaction of the rows"
                }
                _ => "leave it out: rows sorted by the primary key (--sort full) are what helps most",
            })),
        }
    }
}

impl UniqueKeys for MysqlTarget {
    /// ON DUPLICATE KEY UPDATE takes a row that any of them finds for the one that is meant.
    fn other_unique_keys(&self, table: &Table, key: &[String]) -> Vec<Vec<String>> {
        let others = |unique: &&Vec<String>| !same_columns(unique, key);
        self.of_table(table, |known| {
            known.unique.iter().filter(others).cloned().collect()
        })
    }
}

impl StatementSplitting for MysqlTarget {
    fn statement_max(
        &self,
        table: &Table,
        columns: usize,
        method: Method,
        split: Split,
    ) -> Result<Option<StatementMax>> {
        let product = self.version.product;
        match (split, method) {
            (Split::None, _) if product != Product::PolarDbX => Err(splits_nothing()),
            (_, Method::Array) => {
                let shards = self.of_table(table, |known| known.shards);
                Ok(Some(self.sizes(columns, shards).statement_max(split)))
            }
            (Split::Auto, _) => Ok(None),
            (Split::None, _) => Err(Error::config(format!(
                "--split none is about statements of many rows, and method {method} sends none"
            ))
            .hint("--method array")),
        }
    }
}

fn same_columns(a: &[String], b: &[String]) -> bool {
    a.len() == b.len() && a.iter().all(|column| b.contains(column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_durable_where_every_log_is_flushed_with_it() {
        for (log_at_commit, binary_log, binary_log_every, durable) in [
            (1, false, 0, true),
            (1, true, 1, true),
            (1, true, 0, false),
            (1, true, 100, false),
            (0, false, 1, false),
            (2, false, 1, false),
            (2, true, 1, false),
        ] {
            let flushing = Flushing {
                log_at_commit,
                binary_log,
                binary_log_every,
            };
            assert_eq!(
                flushing.is_durable(),
                durable,
                "{log_at_commit} {binary_log} {binary_log_every}"
            );
        }
    }
}
