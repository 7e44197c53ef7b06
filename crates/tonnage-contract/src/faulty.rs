//! A target whose connections are lost at a call of choice: before the call does anything, or after it has done all.
//!
//! It wraps any target, so that what a lost connection may cost is asked of all of them alike.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use tonnage_core::{
    ColumnType, Error, ErrorKind, Result,
    extent::Extent,
    ledger::{Ledger, RunHandle},
    operation::{Durability, Method, Operation, Support},
    slot::Advance,
    table::{Table, TableName, TableSpec},
    target::{
        Capabilities, Claim, EachOutcome, Guard, KeyPart, Outcome, Parts, Rows, Target, WriteRequest, Writer,
    },
};

/// When a connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Before the call has an effect.
    Before,
    /// After it, so that only its answer is lost.
    After,
}

/// See the module.
pub struct Faulty {
    inner: Arc<dyn Target>,
    /// Calls of writers until the fault; below 0 there is none any more.
    calls: Arc<AtomicI64>,
    lost: Lost,
}

impl Faulty {
    /// Loses the connection of the writer that makes the call after the next `calls`.
    pub fn new(inner: Arc<dyn Target>, calls: i64, lost: Lost) -> Self {
        Self {
            inner,
            calls: Arc::new(AtomicI64::new(calls)),
            lost,
        }
    }

    /// Whether the fault has come.
    pub fn has_come(&self) -> bool {
        self.calls.load(Ordering::Relaxed) < 0
    }
}

struct FaultyWriter {
    /// None once the connection is lost.
    inner: Option<Box<dyn Writer>>,
    calls: Arc<AtomicI64>,
    lost: Lost,
}

impl FaultyWriter {
    /// Whether this call is the one.
    fn is_due(&self) -> bool {
        self.calls.fetch_sub(1, Ordering::Relaxed) == 0
    }

    fn inner(&mut self) -> Result<&mut Box<dyn Writer>> {
        self.inner
            .as_mut()
            .ok_or_else(|| Error::new(ErrorKind::Unsent, "the connection is closed"))
    }

    /// The connection, unless it is lost before this call; and whether it is lost after it.
    fn call(&mut self) -> Result<(&mut Box<dyn Writer>, bool)> {
        let is_due = self.is_due();
        if is_due && self.lost == Lost::Before {
            self.inner = None;
        }
        Ok((self.inner()?, is_due))
    }
}

#[async_trait]
impl Writer for FaultyWriter {
    async fn begin(&mut self, advances: &[Advance]) -> Result<Claim> {
        let (inner, is_lost) = self.call()?;
        let claim = inner.begin(advances).await?;
        if is_lost {
            self.inner = None;
        }
        self.inner()?;
        Ok(claim)
    }

    fn places(&mut self) -> Option<&mut Vec<u64>> {
        self.inner.as_mut()?.places()
    }

    fn requests_max(&self) -> Option<usize> {
        self.inner.as_ref()?.requests_max()
    }

    async fn write(&mut self, rows: &RecordBatch, guard: Guard) -> Result<Outcome> {
        let (inner, is_lost) = self.call()?;
        let outcome = inner.write(rows, guard).await?;
        if is_lost {
            self.inner = None;
        }
        self.inner()?;
        Ok(outcome)
    }

    async fn write_each(&mut self, rows: &RecordBatch) -> Result<Option<EachOutcome>> {
        self.inner()?.write_each(rows).await
    }

    async fn commit(&mut self, advances: &[Advance]) -> Result<()> {
        let (inner, is_lost) = self.call()?;
        inner.commit(advances).await?;
        if is_lost {
            self.inner = None;
            return Err(Error::new(ErrorKind::InDoubt, "the connection was lost"));
        }
        Ok(())
    }

    async fn rollback(&mut self) -> Result<()> {
        self.inner()?.rollback().await
    }
}

#[async_trait]
impl Target for Faulty {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn support(&self, table: &Table, operation: &Operation, method: Method) -> Support {
        self.inner.support(table, operation, method)
    }

    async fn table(&self, name: &TableName) -> Result<Option<Table>> {
        self.inner.table(name).await
    }

    async fn table_names(&self) -> Result<Vec<String>> {
        self.inner.table_names().await
    }

    fn column_type(&self, wanted: ColumnType, extent: &Extent, key: KeyPart) -> ColumnType {
        self.inner.column_type(wanted, extent, key)
    }

    fn create_statement(&self, spec: &TableSpec) -> Result<String> {
        self.inner.create_statement(spec)
    }

    async fn create(&self, spec: &TableSpec) -> Result<()> {
        self.inner.create(spec).await
    }

    async fn drop_table(&self, table: &Table, rows: Rows) -> Result<bool> {
        self.inner.drop_table(table, rows).await
    }

    fn settings(&self, durability: Durability) -> Vec<String> {
        self.inner.settings(durability)
    }

    async fn writer(&self, request: &WriteRequest, run: Option<&RunHandle>) -> Result<Box<dyn Writer>> {
        let inner = Some(self.inner.writer(request, run).await?);
        Ok(Box::new(FaultyWriter {
            inner,
            calls: self.calls.clone(),
            lost: self.lost,
        }))
    }

    fn ledger(&self) -> &dyn Ledger {
        self.inner.ledger()
    }

    fn parts(&self) -> Parts<'_> {
        self.inner.parts()
    }
}
