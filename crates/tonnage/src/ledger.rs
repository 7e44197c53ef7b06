//! The ledger: which runs there are and how far each slot of them has come.
//!
//! Two tables beside the user's: a row a run, a row a slot. A slot's row moves by compare-and-set **in the
//! transaction that carries its rows** ([`Writer::begin`](crate::target::Writer::begin)); it holds the run's epoch, so
//! raising the epoch ([`Ledger::take_over`]) waits for transactions in flight and shuts an older process out.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    error::Result,
    preparation::{Pending, Preparation},
    slot::{Counts, SlotState},
    table::{TableIdentity, TableName},
};

/// What a run is, beyond its positions: fixed when it starts. Stored as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunDetail {
    /// The inputs, in order: path, size in bytes, modification time.
    pub inputs: Vec<InputIdentity>,
    /// The options that decide how the inputs are read, as `name=value` in a fixed order.
    pub options: Vec<String>,
    /// The table's resolved name.
    pub table: String,
    /// The table as the run found it, or left it, where it changed it.
    pub table_identity: TableIdentity,
    /// `insert` or `upsert`.
    pub operation: String,
    /// The key columns.
    pub key: Vec<String>,
    /// The columns written, in order.
    pub columns: Vec<String>,
    /// Rows a block at most.
    pub block_rows: u64,
    /// Source bytes a block, about.
    pub block_bytes: u64,
    /// Number of slots.
    pub slots: u16,
    /// `block`, `key` or `one`: how rows are dealt to slots.
    pub slot_by: String,
    /// `none` or `block`: the order of a slot's rows within a block.
    pub sort: String,
    /// Where rejects go, should there be any: an absolute path.
    pub rejects: String,
    /// Whether its rows are one transaction: while it is unfinished, nothing of it is there, or everything.
    #[serde(default)]
    pub single_transaction: bool,
    /// The option that asked for a preparation by which something is owed to the table at the end.
    #[serde(default)]
    pub prepared_by: Option<String>,
    /// What is owed; none once the run is finished.
    #[serde(default)]
    pub pending: Option<Pending>,
    /// Which of several databases this is that hold the table together; only in its own ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<MemberDetail>,
}

/// One of several databases that hold a table together, in its ledger's record of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberDetail {
    /// Which one it is, from 0.
    pub shard: u16,
    /// How rows are routed among them: [`Router::identity`](crate::router::Router::identity).
    pub routing: String,
    /// The table in it.
    pub table: TableName,
    /// Which table that is.
    pub table_identity: TableIdentity,
    /// Whether it is emptied when the run starts there.
    pub truncates: bool,
}

/// One input of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputIdentity {
    /// Absolute path.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Modification time, nanoseconds since 1970.
    pub modified_nanos: i128,
}

/// A run to be started.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// A fresh, unique, time-ordered id.
    pub run_id: String,
    /// Hash over input names, table object, operation and key: at most one unfinished run has it.
    pub identity: String,
    /// Everything else.
    pub detail: RunDetail,
    /// The table.
    pub table: TableName,
    /// What is done to it in the transaction that starts the run, so that a resume never does it again.
    pub preparation: Preparation,
}

/// A run as the ledger has it.
#[derive(Debug, Clone)]
pub struct RunRecord {
    /// Its id.
    pub run_id: String,
    /// See [`NewRun::identity`].
    pub identity: String,
    /// Raised by every take-over; 1 at first.
    pub epoch: i64,
    /// When it started, seconds since 1970.
    pub started: i64,
    /// When it finished; none while unfinished.
    pub finished: Option<i64>,
    /// What it is.
    pub detail: RunDetail,
    /// Sum over its slots, or the final account once finished.
    pub counts: Counts,
}

/// Proof of ownership of a run: every advance carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunHandle {
    /// The run.
    pub run_id: String,
    /// The epoch under which this process owns it.
    pub epoch: i64,
}

/// A target's ledger.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// All runs, newest first; none where the ledger has never been made. Creates nothing.
    async fn runs(&self) -> Result<Vec<RunRecord>>;

    /// Makes the ledger's tables where they are missing, then, in one transaction, records the run and its slots, all
    /// at position 0 and epoch 1, prepares the table, and records what is owed to it. A second unfinished run of one identity is refused
    /// (`Fenced`).
    async fn start(&self, run: &NewRun) -> Result<RunHandle>;

    /// The run's slots, in slot order, as now committed.
    async fn slots(&self, run_id: &str) -> Result<Vec<SlotState>>;

    /// The run's slots, of which those in `slots` are wanted and others may be left out.
    async fn slots_of(&self, run_id: &str, slots: &[u16]) -> Result<Vec<SlotState>> {
        let _ = slots;
        self.slots(run_id).await
    }

    /// Raises the run's epoch and returns the slots as they stand once every transaction of earlier owners has ended.
    /// `Fenced` if the run is finished or forgotten.
    async fn take_over(&self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)>;

    /// Whether the run is still `handle`'s: nobody has taken it over or forgotten it.
    async fn is_owned(&self, handle: &RunHandle) -> Result<bool> {
        let runs = self.runs().await?;
        let own = runs.iter().find(|run| run.run_id == handle.run_id);
        Ok(own.is_some_and(|run| run.epoch == handle.epoch))
    }

    /// Settles what is owed to the table, marks the run finished with its account and drops its slots, all in one
    /// transaction. `Fenced` if the epoch is not `handle`'s. Finishing
    /// it again is no error: the answer to the first time may have been lost.
    async fn finish(&self, handle: &RunHandle, counts: Counts) -> Result<()>;

    /// Finishes the rest of a run that was finished in part, as by a process that was killed meanwhile. Nothing where a run
    /// is finished as a whole.
    async fn conclude(&self, run_id: &str) -> Result<()> {
        let _ = run_id;
        Ok(())
    }

    /// Removes the run; its rows stay, but for those in a shadow, which is dropped; indexes that it owes are built
    /// again. False where there is none.
    async fn forget(&self, run_id: &str) -> Result<bool>;

    /// The same of a run that is still `handle`'s and of which nothing has been committed: looks and forgets in one
    /// transaction, which waits for those in flight. False where the run stays, since another process has taken it over
    /// or a commit whose answer was lost has happened after all.
    async fn forget_unbegun(&self, handle: &RunHandle) -> Result<bool>;
}
