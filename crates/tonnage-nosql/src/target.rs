//! A store as a target.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use tonnage_core::{
    error::{Error, Result},
    extent::Extent,
    getter::{GetRequest, Getter, ReadSnapshot},
    ledger::{Ledger, NewRun, RunHandle},
    operation::{Durability, Method, Operation, Support},
    password::Password,
    preparation::Preparation,
    reader::{ScanRequest, Snapshot},
    slot::SlotState,
    sync::Lock,
    table::{Table, TableName, TableSpec},
    target::{
        BATCH_BYTES, Capabilities, CommitTimes, KeyPart, Lookup, Parts, Rows, Scan, Target, WriteRequest,
        Writer,
    },
    types::ColumnType,
};
use tonnage_sqlite::local::{LedgerFile, RunRows, default_path};
use uuid::Uuid;

use super::{
    DRIVER,
    errors::{Doing, KEY_EXISTS},
    reader::{self, NosqlGetter},
    settings::Settings,
    types,
    wire::{Limited, Store, failed},
    writer::{NosqlWriter, SharedMemory},
};

/// Rows of a write unless asked for: a commit of the ledger each.
const BATCH_ROWS: usize = 4_096;

/// A store at one URL.
pub struct NosqlTarget {
    store: Arc<Store>,
    capabilities: Capabilities,
    ledger: Arc<LedgerFile>,
    /// What is known of rows whose slots have not moved, by the run: a writer that takes another's place goes on with it.
    memories: Mutex<HashMap<String, SharedMemory>>,
}

impl NosqlTarget {
    /// Connects.
    ///
    /// # Errors
    ///
    /// `Config` where the URL is wrong, or nobody answers.
    pub async fn connect(url: &str, password: Option<Password>) -> Result<Self> {
        let settings = Settings::parse(url, password)?;
        let file = settings.ledger.clone().unwrap_or_else(|| {
            default_path(
                "nosql",
                &[
                    &settings.shown(),
                    settings.compartment.as_deref().unwrap_or_default(),
                ],
            )
        });
        let store = Store::open(settings).await?;
        Ok(Self {
            store,
            capabilities: Capabilities {
                product: "Oracle NoSQL".to_owned(),
                writers_max: None,
                durability: DRIVER.durability,
                methods: DRIVER.methods,
                text_holds_nul: true,
                partial_dates: false,
                repeats_keys: true,
                batch_rows_default: BATCH_ROWS,
                batch_bytes_default: BATCH_BYTES,
                commits: CommitTimes::Comparable,
                insert_replaces: false,
                says_key_exists: |code| code == KEY_EXISTS,
                own_schema: None,
                array_rows_max: |_| usize::MAX,
            },
            ledger: Arc::new(LedgerFile::at(&file, Arc::new(NosqlRows))?),
            memories: Mutex::default(),
        })
    }

    fn memory(&self, run: Option<&RunHandle>) -> SharedMemory {
        let Some(run) = run else {
            return SharedMemory::default();
        };
        let mut memories = self.memories.locked();
        memories
            .entry(format!("{}/{}", run.run_id, run.epoch))
            .or_default()
            .clone()
    }
}

#[async_trait]
impl Target for NosqlTarget {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn support(&self, _: &Table, operation: &Operation, _: Method) -> Support {
        match operation {
            Operation::Insert
            | Operation::Ignore { .. }
            | Operation::Upsert { .. }
            | Operation::Delete { .. } => Support::Yes,
            Operation::Update { .. } => Support::no(
                "a put takes the place of the whole row that is there",
                "--mode upsert with all columns",
            ),
            Operation::Statement { .. } => Support::no(
                "statements of your own are not run here: sent twice they may mean something else",
                "`tonnage load`",
            ),
        }
    }

    async fn table(&self, name: &TableName) -> Result<Option<Table>> {
        let Some(mut described) = self.store.describe(name).await? else {
            return Ok(None);
        };
        let notes = &mut described.table.notes;
        notes.push("Oracle NoSQL is not verified against a server in this release".to_owned());
        notes.push(
            "the durability is the server's own, a simple majority unless it was changed: the SDK asks for none"
                .to_owned(),
        );
        notes.push(
            "after a resume, a row whose key is there with the very values of the input counts as written"
                .to_owned(),
        );
        Ok(Some(described.table))
    }

    async fn table_names(&self) -> Result<Vec<String>> {
        self.store.names().await
    }

    fn column_type(&self, wanted: ColumnType, extent: &Extent, _: KeyPart) -> ColumnType {
        match wanted {
            ColumnType::Int16 => ColumnType::Int32,
            ColumnType::Numeric | ColumnType::Decimal { .. } if !extent.is_finite() => ColumnType::TEXT,
            ColumnType::Decimal { .. } => ColumnType::Numeric,
            ColumnType::Date | ColumnType::Time | ColumnType::Uuid | ColumnType::Timestamp => {
                ColumnType::TEXT
            }
            ColumnType::Text { .. } | ColumnType::Char { .. } => ColumnType::TEXT,
            wanted => wanted,
        }
    }

    fn create_statement(&self, spec: &TableSpec) -> Result<String> {
        types::create_table(spec, &Uuid::now_v7().to_string())
    }

    async fn create(&self, spec: &TableSpec) -> Result<()> {
        let statement = self.create_statement(spec)?;
        let created = self.store.define(&spec.name.name, &statement, Limited::New).await;
        created.map_err(|error| error.at(format!("table {} cannot be created", spec.name)))
    }

    async fn drop_table(&self, table: &Table, rows: Rows) -> Result<bool> {
        let Some(found) = self.store.describe(&table.name).await? else {
            return Ok(false);
        };
        if found.table.identity.object != table.identity.object {
            return Ok(false);
        }
        let name = &found.table.name.name;
        if rows == Rows::Keep {
            let mut any = oracle_nosql_rust_sdk::QueryRequest::new(&format!("SELECT * FROM {name} LIMIT 1"))
                .consistency(&oracle_nosql_rust_sdk::types::Consistency::Absolute);
            let mut there = Vec::new();
            while there.is_empty() && !any.is_done() {
                let asked = any.execute_batch(&self.store.handle, &mut there).await;
                asked.map_err(|error| failed(error, Doing::Else))?;
            }
            if !there.is_empty() {
                return Ok(false);
            }
        }
        self.store
            .define(name, &format!("DROP TABLE {name}"), Limited::None)
            .await?;
        Ok(true)
    }

    fn settings(&self, _: Durability) -> Vec<String> {
        vec!["durability = the server's own".to_owned()]
    }

    async fn writer(&self, plan: &WriteRequest, run: Option<&RunHandle>) -> Result<Box<dyn Writer>> {
        let name = &plan.table.name;
        let described = self.store.describe(name).await?;
        let described = described.ok_or_else(|| Error::altered(name, "was dropped"))?;
        let ledger = run.map(|run| (self.ledger.clone(), run.clone()));
        let writer = NosqlWriter::open(self.store.clone(), described, plan, ledger, self.memory(run))?;
        Ok(Box::new(writer))
    }

    fn ledger(&self) -> &dyn Ledger {
        self.ledger.as_ledger()
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            scan: Some(self),
            lookup: Some(self),
            local_ledger: Some(&*self.ledger),
            ..Parts::NONE
        }
    }
}

#[async_trait]
impl Scan for NosqlTarget {
    async fn scan(&self, request: &ScanRequest) -> Result<Snapshot> {
        reader::scan(&self.store, request).await
    }
}

#[async_trait]
impl Lookup for NosqlTarget {
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>> {
        let described = self.store.required(&request.table).await?;
        Ok(Box::new(NosqlGetter::open(
            self.store.clone(),
            &described,
            request,
        )?))
    }

    async fn read_snapshot(&self, _: usize) -> Result<Option<Box<dyn ReadSnapshot>>> {
        Ok(None)
    }
}

/// Of a run that is taken over, a row that is there with the values that are sent was written by it (`writer`).
struct NosqlRows;

#[async_trait]
impl RunRows for NosqlRows {
    async fn prepare(&self, run: &NewRun) -> Result<()> {
        match run.preparation {
            Preparation::Keep => Ok(()),
            // The parts have none that prepares a table.
            _ => Err(Error::bug("a preparation that was refused")),
        }
    }

    fn taken_over(&self, _: &str, _: &[SlotState]) -> Result<()> {
        Ok(())
    }
}
