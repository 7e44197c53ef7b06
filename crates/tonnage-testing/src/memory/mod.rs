//! The reference target: tables, transactions and a ledger in memory, which can be made to fail at the Nth call.
//!
//! It keeps the contracts of [`Target`], [`Writer`] and [`Ledger`] and nothing else, so that a test of the engine
//! against it is a test of the engine. A transaction sees what is committed and its own rows; ledger rows are locked
//! by the transaction that moves them, and who waits for one sees the truth afterwards.

mod getter;
mod jobs;
mod ledger;
mod reader;
mod view;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
};

use arrow::{
    array::{Array, RecordBatch},
    compute::cast,
    datatypes::DataType,
    util::display::{ArrayFormatter, FormatOptions},
};
use async_trait::async_trait;
use tokio::sync::Notify;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    extent::Extent,
    getter::{GetRequest, Getter, ReadSnapshot},
    ledger::{Ledger, RunHandle, RunRecord, jobs::PartRecord},
    operation::{Durability, Method, Operation, Support},
    preparation::{Preparation, PreparationEffects},
    reader::{ScanRequest, Snapshot},
    slot::{Advance, SlotState, gather},
    sync::Lock,
    table::{Column, ColumnSpec, Key, Table, TableIdentity, TableName, TableSpec, check_unaltered},
    target::{
        BATCH_BYTES, Capabilities, Claim, CommitTimes, EachOutcome, Failure, Guard, KeyPart, Lookup, Outcome,
        Parts, Prepare, Refused, Rows, Scan, Target, WriteRequest, Writer,
    },
    types::ColumnType,
};

use self::{getter::MemoryGetter, view::View};

/// A row: values as text, in the order of the table's columns; null as `None`.
pub type Row = Vec<Option<String>>;

/// A fault to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this kind and has no effect. The connection is gone afterwards.
    Before(ErrorKind),
    /// The call takes effect, and its answer is lost (`InDoubt`). The connection is gone afterwards.
    After,
    /// This call and every later one fails: what a killed process leaves behind is what was committed.
    Dead,
    /// This call and every later one finds nobody who answers, until the database is [revived](Memory::revive).
    Away,
}

/// A rule of the ledger that a test leaves out, to see that its absence is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Only the newest attempt at a part may do what an attempt does.
    Attempt,
    /// While a lease lasts nobody else is given the part.
    Lease,
    /// A slot is moved only by the newest owner of its run, and from where it is. Without one of the two the other does:
    /// an owner that is not the newest has read positions that are not the newest.
    Advance,
    /// The connections of all attempts are counted.
    Connections,
}

/// A row that the table refuses: the code and message of the refusal, or none.
pub type Check = fn(&Row) -> Option<(&'static str, String)>;

/// What an alteration does to a table and to its rows.
type Alteration = Box<dyn FnOnce(&mut Table, &mut Vec<Row>) + Send>;

/// An alteration of a table that is to come.
struct Altering {
    table: String,
    /// Transactions that are opened before it.
    begins: u64,
    alteration: Alteration,
}

/// A database in memory. Clones share it.
#[derive(Clone)]
pub struct Memory {
    state: Arc<Mutex<State>>,
    released: Arc<Notify>,
    capabilities: Arc<Capabilities>,
}

#[derive(Default)]
struct State {
    tables: BTreeMap<String, Stored>,
    created: u64,
    runs: Vec<RunRecord>,
    /// Runs that were pruned: what is left on record is their inputs.
    pruned: Vec<RunRecord>,
    slots: HashMap<String, Vec<SlotState>>,
    /// Rows of jobs, by job and number.
    parts: BTreeMap<(String, i64), StoredPart>,
    /// The time by which leases go, in seconds, where it is not that of the machine.
    clock: Option<i64>,
    /// The rule that is left out.
    broken: Option<Rule>,
    /// Ledger rows moved by an open transaction, with its number.
    locks: HashMap<(String, u16), u64>,
    transactions: u64,
    /// Open transactions that write to each table: they hold off its alteration.
    writing: HashMap<String, usize>,
    altering: Vec<Altering>,
    /// Calls until the fault; none for no fault.
    fault: Option<(u64, Fault)>,
    dead: bool,
    away: bool,
    writers: usize,
    /// The most rows of a statement, and the most writers, before it is overloaded.
    rows_max: Option<usize>,
    writers_max: Option<usize>,
    calls: u64,
}

/// A row of a job.
struct StoredPart {
    record: PartRecord,
    lease_until: i64,
}

struct Stored {
    table: Table,
    rows: Vec<Row>,
    check: Option<Check>,
    /// Names of secondary indexes. They do nothing.
    indexes: Vec<String>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            state: Arc::default(),
            released: Arc::default(),
            capabilities: Arc::new(Capabilities {
                product: "memory".to_owned(),
                writers_max: None,
                durability: &[Durability::Relaxed, Durability::Durable],
                methods: &[Method::Native, Method::Array, Method::Batch, Method::Single],
                text_holds_nul: true,
                partial_dates: false,
                repeats_keys: false,
                batch_rows_default: 65_536,
                batch_bytes_default: BATCH_BYTES,
                commits: CommitTimes::Comparable,
                insert_replaces: false,
                says_key_exists: |code| code == "23505",
                own_schema: None,
                array_rows_max: |_| 1_000,
            }),
        }
    }

    /// Makes a call after the next `calls` fail.
    pub fn fail_after(&self, calls: u64, fault: Fault) {
        self.lock().fault = Some((calls, fault));
    }

    /// Ends every fault: a new process meets the database as it was left.
    pub fn revive(&self) {
        let mut state = self.lock();
        state.fault = None;
        state.dead = false;
        state.away = false;
        state.locks.clear();
    }

    /// Makes a statement of more than `rows` rows, and more than `writers` connections, too much for it.
    pub fn bear(&self, rows: Option<usize>, writers: Option<usize>) {
        let mut state = self.lock();
        (state.rows_max, state.writers_max) = (rows, writers);
    }

    /// Has leases go by a time of the test's own, in seconds.
    pub fn set_clock(&self, seconds: i64) {
        self.lock().clock = Some(seconds);
    }

    /// Leaves a rule out from now on.
    pub fn break_rule(&self, rule: Rule) {
        self.lock().broken = Some(rule);
    }

    /// Calls made so far.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Gives a table a check that rows must pass.
    pub fn check(&self, table: &str, check: Check) {
        if let Some(stored) = self.lock().tables.get_mut(table) {
            stored.check = Some(check);
        }
    }

    /// Gives a table a secondary index.
    pub fn index(&self, table: &str, name: &str) {
        if let Some(stored) = self.lock().tables.get_mut(table) {
            stored.indexes.push(name.to_owned());
        }
    }

    /// The secondary indexes of a table.
    pub fn indexes(&self, table: &str) -> Vec<String> {
        let state = self.lock();
        state
            .tables
            .get(table)
            .map(|t| t.indexes.clone())
            .unwrap_or_default()
    }

    /// The tables there are.
    pub fn tables(&self) -> Vec<String> {
        self.lock().tables.keys().cloned().collect()
    }

    /// The rows of a table in the order in which they were committed; empty where there is no table.
    pub fn rows(&self, table: &str) -> Vec<Row> {
        self.lock()
            .tables
            .get(table)
            .map(|t| t.rows.clone())
            .unwrap_or_default()
    }

    /// Removes the rows of a table.
    pub fn clear(&self, table: &str) {
        if let Some(stored) = self.lock().tables.get_mut(table) {
            stored.rows.clear();
        }
    }

    /// Alters a table and its rows, as soon as no open transaction writes to it.
    pub async fn alter(&self, table: &str, alteration: impl FnOnce(&mut Table, &mut Vec<Row>)) {
        loop {
            let released = self.released.notified();
            {
                let mut state = self.lock();
                if !state.writing.contains_key(table) {
                    return state.alter(table, alteration);
                }
            }
            released.await;
        }
    }

    /// Alters a table when `begins` more transactions have been opened, before the next one is and when no open one
    /// writes to it.
    pub fn alter_after(
        &self,
        begins: u64,
        table: &str,
        alteration: impl FnOnce(&mut Table, &mut Vec<Row>) + Send + 'static,
    ) {
        self.lock().altering.push(Altering {
            table: table.to_owned(),
            begins,
            alteration: Box::new(alteration),
        });
    }

    /// Drops a table.
    pub fn drop_table(&self, table: &str) {
        self.lock().tables.remove(table);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }

    /// Counts a call and meets its fault: an error before its effect, or true if its answer is to be lost.
    fn call(&self) -> Result<bool> {
        let mut state = self.lock();
        state.calls += 1;
        if state.dead {
            return Err(Error::new(ErrorKind::Refused, "the process is dead"));
        }
        if state.away {
            return Err(Error::new(ErrorKind::Unsent, "nobody answers"));
        }
        let Some((calls, fault)) = &mut state.fault else {
            return Ok(false);
        };
        if *calls > 0 {
            *calls -= 1;
            return Ok(false);
        }
        let fault = *fault;
        state.fault = None;
        match fault {
            Fault::Before(kind) => Err(Error::new(kind, "a fault was asked for")),
            Fault::After => Ok(true),
            Fault::Dead => {
                state.dead = true;
                Err(Error::new(ErrorKind::Refused, "the process died"))
            }
            Fault::Away => {
                state.away = true;
                Err(Error::new(ErrorKind::Unsent, "nobody answers"))
            }
        }
    }
}

impl State {
    /// Its shape is new even where its columns are the same.
    fn alter(&mut self, name: &str, alteration: impl FnOnce(&mut Table, &mut Vec<Row>)) {
        if let Some(stored) = self.tables.get_mut(name) {
            alteration(&mut stored.table, &mut stored.rows);
            stored.table.identity.shape.push_str("; altered");
        }
    }

    /// Opens a transaction that writes to `table`, behind the alterations that are due; false while one of them waits
    /// for other transactions. An error where the table is not what it was.
    fn open(&mut self, table: &Table) -> Result<bool> {
        for altering in std::mem::take(&mut self.altering) {
            match altering.begins == 0 && !self.writing.contains_key(&altering.table) {
                true => self.alter(&altering.table, altering.alteration),
                false => self.altering.push(altering),
            }
        }
        let waits = |a: &Altering| a.begins == 0 && a.table == table.name.name;
        if self.altering.iter().any(waits) {
            return Ok(false);
        }
        let now = self.tables.get(&table.name.name).map(|stored| &stored.table);
        check_unaltered(table, now)?;
        self.altering.iter_mut().for_each(|altering| altering.begins -= 1);
        *self.writing.entry(table.name.name.clone()).or_default() += 1;
        Ok(true)
    }

    /// Ends a transaction that wrote to `table`.
    fn close(&mut self, table: &str) {
        if let Some(writing) = self.writing.get_mut(table) {
            *writing -= 1;
            if *writing == 0 {
                self.writing.remove(table);
            }
        }
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::InDoubt, "the connection was lost")
}

#[async_trait]
impl Target for Memory {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn support(&self, _: &Table, _: &Operation, _: Method) -> Support {
        Support::Yes
    }

    async fn table(&self, name: &TableName) -> Result<Option<Table>> {
        let state = self.lock();
        if state.away || matches!(state.fault, Some((0, Fault::Away))) {
            return Err(Error::new(ErrorKind::Unsent, "nobody answers"));
        }
        Ok(state.tables.get(&name.name).map(|t| t.table.clone()))
    }

    async fn table_names(&self) -> Result<Vec<String>> {
        Ok(self.lock().tables.keys().cloned().collect())
    }

    fn column_type(&self, wanted: ColumnType, _: &Extent, _: KeyPart) -> ColumnType {
        wanted
    }

    fn create_statement(&self, spec: &TableSpec) -> Result<String> {
        let columns: Vec<_> = spec
            .columns
            .iter()
            .map(|c| format!("{} {}", c.name, c.ty))
            .collect();
        Ok(format!("create table {} ({})", spec.name, columns.join(", ")))
    }

    async fn create(&self, spec: &TableSpec) -> Result<()> {
        let shape = self.create_statement(spec)?;
        let mut state = self.lock();
        state.created += 1;
        let columns = spec.columns.iter().map(Column::plain);
        let table = Table {
            name: spec.name.clone(),
            identity: TableIdentity {
                object: state.created.to_string(),
                shape,
            },
            columns: columns.collect(),
            keys: match spec.key.is_empty() {
                true => Vec::new(),
                false => vec![Key {
                    columns: spec.key.clone(),
                    primary: true,
                }],
            },
            transactional: true,
            less_durable: None,
            notes: Vec::new(),
        };
        let stored = Stored {
            table,
            rows: Vec::new(),
            check: None,
            indexes: Vec::new(),
        };
        match state.tables.insert(spec.name.name.clone(), stored) {
            None => Ok(()),
            Some(_) => Err(Error::schema(format!("table {} exists", spec.name))),
        }
    }

    async fn drop_table(&self, table: &Table, rows: Rows) -> Result<bool> {
        let mut state = self.lock();
        let goes = state.tables.get(&table.name.name).is_some_and(|stored| {
            stored.table.identity == table.identity && (rows == Rows::Drop || stored.rows.is_empty())
        });
        if goes {
            state.tables.remove(&table.name.name);
        }
        Ok(goes)
    }

    fn settings(&self, _: Durability) -> Vec<String> {
        Vec::new()
    }

    async fn writer(&self, plan: &WriteRequest, run: Option<&RunHandle>) -> Result<Box<dyn Writer>> {
        self.call()?;
        {
            let mut state = self.lock();
            if state.writers_max.is_some_and(|max| state.writers >= max) {
                return Err(Error::new(ErrorKind::Overloaded, "too many connections"));
            }
            state.writers += 1;
        }
        Ok(Box::new(MemoryWriter {
            memory: self.clone(),
            table: plan.table.clone(),
            columns: plan.columns.iter().map(|c| c.target).collect(),
            operation: plan.operation.clone(),
            run: run.cloned(),
            open: None,
            broken: false,
            single_transaction: plan.single_transaction,
            truncate: plan.single_transaction && plan.preparation.truncates(),
        }))
    }

    fn ledger(&self) -> &dyn Ledger {
        self
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
            local_ledger: None,
            schemas: None,
            instruments: None,
        }
    }
}

#[async_trait]
impl Scan for Memory {
    async fn scan(&self, request: &ScanRequest) -> Result<Snapshot> {
        reader::scan(self, request)
    }
}

#[async_trait]
impl Lookup for Memory {
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>> {
        self.call()?;
        let table = self.table(&request.table).await?;
        let table = table.ok_or_else(|| Error::schema(format!("there is no table {}", request.table)))?;
        Ok(Box::new(MemoryGetter::open(
            self.clone(),
            table,
            request.clone(),
        )?))
    }

    async fn read_snapshot(&self, _: usize) -> Result<Option<Box<dyn ReadSnapshot>>> {
        Ok(None)
    }
}

#[async_trait]
impl Prepare for Memory {
    async fn truncate(&self, name: &TableName) -> Result<()> {
        if let Some(stored) = self.lock().tables.get_mut(&name.name) {
            stored.rows.clear();
        }
        Ok(())
    }

    async fn add_columns(&self, table: &Table, columns: &[ColumnSpec]) -> Result<()> {
        if let Some(stored) = self.lock().tables.get_mut(&table.name.name) {
            stored.table.columns.extend(columns.iter().map(Column::plain));
            stored.table.identity.shape.push_str("\nmore columns");
            let width = stored.table.columns.len();
            for row in &mut stored.rows {
                row.resize(width, None);
            }
        }
        Ok(())
    }

    async fn check_preparation(&self, table: &Table, preparation: Preparation) -> Result<PreparationEffects> {
        let notes = match preparation {
            Preparation::RebuildIndexes { .. } => self.indexes(&table.name.name),
            _ => Vec::new(),
        };
        Ok(PreparationEffects {
            notes,
            settings: Vec::new(),
        })
    }
}

struct MemoryWriter {
    memory: Memory,
    table: Arc<Table>,
    columns: Vec<usize>,
    operation: Operation,
    run: Option<RunHandle>,
    open: Option<Transaction>,
    broken: bool,
    /// Whether a transaction goes on over many writes, and whether it empties the table first.
    single_transaction: bool,
    truncate: bool,
}

struct Transaction {
    number: u64,
    advances: Vec<Advance>,
    /// The rows it has applied, in order.
    changes: Vec<Row>,
}

impl Transaction {
    fn new(number: u64) -> Self {
        Self {
            number,
            advances: Vec::new(),
            changes: Vec::new(),
        }
    }
}

impl MemoryWriter {
    fn call(&mut self) -> Result<bool> {
        if self.broken {
            return Err(Error::new(ErrorKind::Unsent, "the connection is closed"));
        }
        let called = self.memory.call();
        if let Err(error) = &called {
            self.broken = !matches!(error.kind(), ErrorKind::Overloaded);
        }
        called
    }

    /// Opens a transaction, when the table can be written to.
    async fn open_table(&mut self) -> Result<()> {
        loop {
            let released = self.memory.released.notified();
            {
                let mut state = self.memory.lock();
                if state.open(&self.table)? {
                    state.transactions += 1;
                    self.open = Some(Transaction::new(state.transactions));
                    return Ok(());
                }
            }
            released.await;
        }
    }

    fn end(&mut self) -> Option<Transaction> {
        let ended = self.open.take();
        if let Some(transaction) = &ended {
            let mut state = self.memory.lock();
            state.locks.retain(|_, holder| *holder != transaction.number);
            state.close(&self.table.name.name);
            drop(state);
            self.memory.released.notify_waiters();
        }
        ended
    }

    /// The table as the open transaction sees it.
    fn view<'a>(&'a self, state: &State, open: &Transaction) -> Result<View<'a>> {
        let stored = state
            .tables
            .get(&self.table.name.name)
            .ok_or_else(|| Error::schema(format!("there is no table {}", self.table.name)))?;
        let mut view = View::new(stored, &self.table, &self.operation, &self.columns);
        if self.truncate {
            view.clear();
        }
        for row in &open.changes {
            // Another transaction may have committed the key meanwhile: a lost race, not a bad row.
            view.apply(row.clone(), &mut HashSet::new())
                .map_err(|e| Error::new(ErrorKind::Overloaded, format!("lost a race: {e}")))?;
        }
        Ok(view)
    }

    /// In the columns of the table.
    fn rows(&self, rows: &RecordBatch) -> Result<Vec<Row>> {
        let mut batch = Vec::with_capacity(rows.num_rows());
        for at in 0..rows.num_rows() {
            let mut row: Row = vec![None; self.table.columns.len()];
            for (array, column) in rows.columns().iter().zip(&self.columns) {
                row[*column] = text(array, at)?;
            }
            batch.push(row);
        }
        Ok(batch)
    }
}

#[async_trait]
impl Writer for MemoryWriter {
    async fn begin(&mut self, advances: &[Advance]) -> Result<Claim> {
        self.call()?;
        if self.open.is_some() && !self.single_transaction {
            return Err(Error::bug("a transaction was begun inside another"));
        }
        let verified = match self.open {
            Some(_) => Ok(()),
            None => self.open_table().await,
        };
        let Some(run) = self.run.clone() else {
            return verified.map(|()| Claim::Held);
        };
        let number = self.open.as_ref().map_or(0, |open| open.number);
        let memory = self.memory.clone();
        loop {
            let released = memory.released.notified();
            {
                let mut state = memory.lock();
                let lock = |slot: u16| (run.run_id.clone(), slot);
                let is_others = |a: &Advance| {
                    let holder = state.locks.get(&lock(a.slot));
                    holder.is_some_and(|holder| *holder != number)
                };
                if !advances.iter().any(is_others) {
                    let owned = state
                        .runs
                        .iter()
                        .any(|r| r.run_id == run.run_id && r.epoch == run.epoch);
                    let slots = state.slots.get(&run.run_id).map_or(&[][..], |s| s);
                    let mine = self.open.as_ref().map_or(&[][..], |open| &open.advances);
                    let stands = |a: &Advance| match mine.iter().find(|m| m.slot == a.slot) {
                        Some(mine) => mine.to == a.from,
                        None => slots.iter().any(|s| s.slot == a.slot && s.position == a.from),
                    };
                    let holds = owned && advances.iter().all(stands);
                    if !holds && state.broken != Some(Rule::Advance) {
                        drop(state);
                        self.end();
                        return Ok(Claim::Moved);
                    }
                    verified?;
                    state
                        .locks
                        .extend(advances.iter().map(|a| (lock(a.slot), number)));
                    if let Some(open) = &mut self.open {
                        gather(&mut open.advances, advances);
                    }
                    return Ok(Claim::Held);
                }
            }
            released.await;
        }
    }

    async fn write(&mut self, rows: &RecordBatch, guard: Guard) -> Result<Outcome> {
        self.call()?;
        let Some(open) = &self.open else {
            return Err(Error::bug("a write outside a transaction"));
        };
        if self
            .memory
            .lock()
            .rows_max
            .is_some_and(|max| rows.num_rows() > max)
        {
            return Err(Error::new(ErrorKind::Overloaded, "too many rows at once"));
        }
        let batch = self.rows(rows)?;
        let mut skipped = 0;
        let refused = {
            let state = self.memory.lock();
            let mut view = self.view(&state, open)?;
            let mut touched = HashSet::new();
            batch
                .iter()
                .find_map(|row| match view.apply(row.clone(), &mut touched) {
                    Ok(true) => None,
                    Ok(false) => {
                        skipped += 1;
                        None
                    }
                    Err(error) => Some(error),
                })
        };
        let failure = refused.map(|error| Failure {
            applied: 0,
            suspect: None,
            intact: guard == Guard::Savepoint,
            error,
            column: None,
        });
        if failure.is_none()
            && let Some(open) = &mut self.open
        {
            open.changes.extend(batch);
        }
        Ok(Outcome {
            statements: 1,
            bytes_sent: rows.get_array_memory_size() as u64,
            skipped: if failure.is_none() { skipped } else { 0 },
            failure,
        })
    }

    async fn write_each(&mut self, rows: &RecordBatch) -> Result<Option<EachOutcome>> {
        self.call()?;
        let Some(open) = &self.open else {
            return Err(Error::bug("a write outside a transaction"));
        };
        let batch = self.rows(rows)?;
        let (mut kept, mut refused, mut skipped) = (Vec::new(), Vec::new(), 0);
        {
            let state = self.memory.lock();
            let mut view = self.view(&state, open)?;
            for (at, row) in batch.into_iter().enumerate() {
                match view.apply(row.clone(), &mut HashSet::new()) {
                    Ok(written) => {
                        skipped += u64::from(!written);
                        kept.push(row);
                    }
                    Err(error) => refused.push(Refused {
                        row: at,
                        error,
                        column: None,
                    }),
                }
            }
        }
        if let Some(open) = &mut self.open {
            open.changes.extend(kept);
        }
        Ok(Some(EachOutcome {
            statements: 1,
            bytes_sent: rows.get_array_memory_size() as u64,
            skipped,
            refused,
        }))
    }

    async fn commit(&mut self, fixed: &[Advance]) -> Result<()> {
        let answer_lost = self.call()?;
        let Some(transaction) = &self.open else {
            return Err(Error::bug("a commit outside a transaction"));
        };
        {
            let mut state = self.memory.lock();
            let mut rows = self.view(&state, transaction)?.rows;
            rows.retain(|row| !row.is_empty());
            if let Some(stored) = state.tables.get_mut(&self.table.name.name) {
                stored.rows = rows;
            }
            let run_id = self.run.as_ref().map(|r| r.run_id.as_str()).unwrap_or_default();
            for slot in state.slots.get_mut(run_id).into_iter().flatten() {
                let of_slot = |a: &&Advance| a.slot == slot.slot;
                if let Some(step) = transaction.advances.iter().find(of_slot) {
                    slot.position = step.to;
                    slot.mark = step.mark;
                    slot.counts.add(fixed.iter().find(of_slot).unwrap_or(step).counts);
                }
            }
        }
        self.end();
        if answer_lost {
            self.broken = true;
            return Err(lost());
        }
        Ok(())
    }

    async fn rollback(&mut self) -> Result<()> {
        self.call()?;
        self.end();
        Ok(())
    }

    fn places(&mut self) -> Option<&mut Vec<u64>> {
        None
    }

    fn requests_max(&self) -> Option<usize> {
        None
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        self.end();
        self.memory.lock().writers -= 1;
    }
}

fn text(array: &dyn Array, row: usize) -> Result<Option<String>> {
    if array.is_null(row) {
        return Ok(None);
    }
    let shown = |array: &dyn Array, row| {
        ArrayFormatter::try_new(array, &FormatOptions::default()).and_then(|f| f.value(row).try_to_string())
    };
    // A time beyond the calendar is shown as its number.
    shown(array, row)
        .or_else(|_| shown(&cast(&array.slice(row, 1), &DataType::Int64)?, 0))
        .map(Some)
        .map_err(|e| Error::bug(format!("arrow: {e}")))
}
