//! The ledger: which runs there are and how far each slot of them has come.
//!
//! Three tables next to the user's: a row a run, a row a slot, and the rows by which a run is found again
//! ([`inputs`]). A slot's row moves by compare-and-set **in the
//! transaction that carries its rows** ([`Writer::begin`](crate::target::Writer::begin)); it holds the run's epoch, so
//! raising the epoch ([`Ledger::take_over`]) waits for transactions in flight and shuts an older process out.
//!
//! Nothing reads the history as a whole: every look-up ([`RunQuery`], [`Ledger::inputs`]) goes by an index and has a
//! bound. Finished runs beyond the newest [`RUNS_KEPT`] are pruned in small steps; the files that they loaded stay on
//! record.

pub mod inputs;
pub mod jobs;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use self::{
    inputs::InputRecord,
    jobs::{Jobs, PartId, RunRole},
};
use crate::{
    error::{Error, ErrorKind, Result},
    operation::OperationKind,
    preparation::{Pending, Preparation},
    slot::{Counts, Dealing, SlotState, Sort},
    table::{TableIdentity, TableName},
};

/// Finished runs that a ledger keeps; older ones are pruned as later ones finish.
pub const RUNS_KEPT: u64 = 10_000;

/// The most runs that are pruned when a run finishes, so that finishing stays quick in a ledger that holds many.
pub const RUNS_PRUNED_MAX: u64 = 100;

/// The most records that a look-up by one key returns, the newest of them.
pub const FOUND_MAX: usize = 100;

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
    /// What happens to a row.
    pub operation: OperationKind,
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
    /// How rows are dealt to slots.
    pub slot_by: Dealing,
    /// The order of a slot's rows within a block.
    pub sort: Sort,
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
    /// The opening of the journal that its rows come from; see [`Opening`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<String>,
    /// Whether a crash of the server empties the table, while the ledger survives: see [`Ledger::emptied`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emptied_by_crash: bool,
    /// The part of a job that it carries out, or the job that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<PartId>,
}

/// The openings of a buffer's journal, as the ledger's record of its run names them: each has a random name, and names the
/// one before. Of several copies of a journal only one knows the name that the ledger has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The one that the record names; none where it names none yet.
    pub before: Option<String>,
    /// The one that it is to name.
    pub now: String,
}

impl Opening {
    /// Has `detail` name the opening. False where it names neither that nor the one before.
    pub fn put_into(&self, detail: &mut RunDetail) -> bool {
        let found = detail.opening.as_ref();
        let is_expected = found == self.before.as_ref() || found == Some(&self.now);
        if is_expected {
            detail.opening = Some(self.now.clone());
        }
        is_expected
    }
}

impl RunDetail {
    /// As the ledger stores it.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self)
            .map_err(|cause| Error::bug("a run's detail cannot be written as JSON").caused_by(cause))
    }

    /// Reads what [`RunDetail::to_json`] wrote. `Schema` where it is something else.
    pub fn from_json(run_id: &str, text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|cause| unreadable(run_id, cause))
    }

    /// Hash over what makes two invocations the same run: names of inputs, the table as created, operation and key.
    pub fn identity(&self) -> String {
        let names = self.inputs.iter().map(|input| input.path.as_str());
        let rest = [self.table_identity.object.as_str(), self.operation.name()];
        inputs::hash(names.chain(rest).chain(self.key.iter().map(String::as_str)))
    }

    /// The table in the database that holds this record: the member's own, where several hold the table together.
    pub fn own_table(&self) -> String {
        match &self.member {
            Some(member) => member.table.to_string(),
            None => self.table.clone(),
        }
    }
}

/// A record of the ledger that cannot be read.
pub fn unreadable(run_id: &str, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(
        ErrorKind::Schema,
        format!("the ledger's record of run {run_id} cannot be read: {cause}"),
    )
    .hint(format!(
        "another version of tonnage wrote it, or another hand; `tonnage runs TARGET --forget {run_id}` removes it"
    ))
    .caused_by(cause)
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputIdentity {
    /// Absolute path, without symbolic links.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Modification time, nanoseconds since 1970.
    pub modified_nanos: i128,
    /// Absolute path as it was named, where a symbolic link led to the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named: Option<String>,
    /// Hash of the content: of all of it in a small file, of parts of a larger one. None in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
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
    /// What it is to jobs.
    pub role: RunRole,
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

/// A run of whose rows it is not certain that they are there: [`Ledger::emptied`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emptied {
    /// The run.
    pub run_id: String,
    /// What has happened, in a sentence.
    pub why: String,
}

/// Whether a run has come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// It can be gone on with.
    Unfinished,
    /// All of it is done.
    Finished,
}

impl RunStatus {
    /// Of a run that ended at `finished`, if it did.
    pub fn of<T>(finished: Option<T>) -> Self {
        match finished {
            Some(_) => Self::Finished,
            None => Self::Unfinished,
        }
    }
}

/// Which runs are asked for. Answers are newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunQuery {
    /// The newest ones, at most this many.
    Newest(usize),
    /// The one with this id.
    Id(String),
    /// Those of this [identity](NewRun::identity): the unfinished one, and the newest [`FOUND_MAX`] finished ones.
    Identity(String),
    /// Those that are unfinished, at most [`RUNS_KEPT`].
    Unfinished,
    /// The newest [`FOUND_MAX`] whose rows went into the table of this name ([`RunDetail::own_table`]).
    Table(String),
}

impl RunQuery {
    /// The detail of a run that the query found; none, with a warning, where it cannot be read and nothing depends on it.
    /// An error where it is the very run that was asked for.
    pub fn detail(&self, run_id: &str, text: &str, status: RunStatus) -> Result<Option<RunDetail>> {
        self.readable(RunDetail::from_json(run_id, text), status)
    }

    /// What was read; none, with a warning, where it cannot be read and nothing depends on it.
    pub fn readable<T>(&self, read: Result<T>, status: RunStatus) -> Result<Option<T>> {
        match (read, self) {
            (Ok(read), _) => Ok(Some(read)),
            (Err(error), RunQuery::Id(_)) => Err(error),
            (Err(error), RunQuery::Identity(_)) if status == RunStatus::Unfinished => Err(error),
            (Err(error), _) => {
                tracing::warn!("{error}");
                Ok(None)
            }
        }
    }

    /// Whether `run` is one of those asked for, for a ledger without an index; how many is not looked at.
    pub fn matches(&self, run: &RunRecord) -> bool {
        match self {
            RunQuery::Newest(_) => true,
            RunQuery::Id(id) => run.run_id == *id,
            RunQuery::Identity(identity) => run.identity == *identity,
            RunQuery::Unfinished => run.finished.is_none(),
            RunQuery::Table(table) => run.detail.own_table() == *table,
        }
    }

    /// The most runs of an answer.
    pub fn limit(&self) -> usize {
        match self {
            RunQuery::Newest(limit) => *limit,
            RunQuery::Id(_) => 1,
            // The unfinished one comes first.
            RunQuery::Identity(_) => FOUND_MAX + 1,
            RunQuery::Unfinished => RUNS_KEPT as usize,
            RunQuery::Table(_) => FOUND_MAX,
        }
    }
}

/// What is looked for in ledgers that a connection does not use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sought {
    /// Runs of this [identity](NewRun::identity).
    pub identity: String,
    /// Runs into the table of this name.
    pub table: String,
    /// Inputs on record under any of these keys.
    pub keys: Vec<String>,
}

/// Runs of inputs on record that are read from another ledger, at most.
const OTHERS_READ_MAX: usize = 20;

/// A ledger of a database or server that a connection does not use.
#[derive(Debug, Clone)]
pub struct OtherLedger {
    /// What it is called, as `schema etl`.
    pub place: String,
    /// What makes a connection use it.
    pub used_with: String,
    /// Runs of the identity and into the table that were sought, each kind with the bound of its [`RunQuery`], and some
    /// of those whose inputs were found.
    pub runs: Vec<RunRecord>,
    /// What is on record of the inputs that were sought.
    pub inputs: Vec<InputRecord>,
}

impl OtherLedger {
    /// Runs whose inputs were found and that were not read yet: unfinished ones first, then the newest.
    pub fn unread(&self, sought: &Sought) -> Vec<String> {
        let is_unread = |record: &&InputRecord| {
            record.detail.own_table() == sought.table
                && !self.runs.iter().any(|run| run.run_id == record.run_id)
        };
        let mut unread: Vec<_> = self.inputs.iter().filter(is_unread).collect();
        unread.sort_by(|a, b| (a.finished, &b.run_id).cmp(&(b.finished, &a.run_id)));
        let mut ids: Vec<_> = unread.into_iter().map(|record| record.run_id.clone()).collect();
        ids.dedup();
        ids.truncate(OTHERS_READ_MAX);
        ids
    }

    /// Adds runs that are not among its own.
    pub fn add(&mut self, runs: Vec<RunRecord>) {
        for run in runs {
            if !self.runs.iter().any(|known| known.run_id == run.run_id) {
                self.runs.push(run);
            }
        }
    }

    /// Whether it has any of what was sought.
    pub fn has_any(&self) -> bool {
        !self.runs.is_empty() || !self.inputs.is_empty()
    }
}

/// What has to be there for a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Where the ledger is or will be, as `schema etl`.
    pub place: String,
    /// The statements that make it and grant its use, in the database's words and without semicolons. Those that make
    /// what is there already change nothing.
    pub statements: Vec<String>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

impl Setup {
    /// Of a ledger that is a local file. `Config` where roles are to be granted its use.
    pub fn of_file(file: &str, grantees: &[String]) -> Result<Vec<Self>> {
        if !grantees.is_empty() {
            return Err(Error::config(
                "the ledger is a local file, and there are no roles to grant its use to",
            )
            .hint("leave --grant out; who may write the file may use the ledger"));
        }
        Ok(vec![Self {
            place: format!("the local file {file}"),
            statements: Vec::new(),
            notes: vec!["it is made by the first run that needs it".to_owned()],
        }])
    }
}

/// A target's ledger.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// The runs that `query` asks for, newest first, an unfinished one before finished ones of its identity; none where
    /// the ledger has never been made. Creates nothing. A record that cannot be read is left out with a warning, unless
    /// it is the one that matters (`Schema`).
    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>>;

    /// The ids that begin with `prefix`, at most two, of runs on record, readable or not, and of those that were pruned
    /// and whose files are on record.
    async fn ids(&self, prefix: &str) -> Result<Vec<String>>;

    /// What is on record of inputs under any of `keys` ([`InputIdentity::keys`]): for each key the newest
    /// [`FOUND_MAX`], also of runs that were pruned.
    async fn inputs(&self, keys: &[String]) -> Result<Vec<InputRecord>>;

    /// Removes finished runs beyond the newest `keep`, oldest first and at most `limit` of them; how many. The files that
    /// they loaded stay on record, and so does the newest run of each table.
    async fn prune(&self, keep: u64, limit: u64) -> Result<u64>;

    /// The other ledgers of this database or server, which this connection can read and does not use, that have any of
    /// what is sought.
    async fn elsewhere(&self, sought: &Sought) -> Result<Vec<OtherLedger>>;

    /// What has to be there for the ledger, and what `grantees`, which are roles, need to use it. One for each database
    /// that has its own ledger. Changes nothing. `Config` where `grantees` are named and there are no roles.
    async fn setup(&self, grantees: &[String]) -> Result<Vec<Setup>>;

    /// Runs what [`Ledger::setup`] returns.
    async fn set_up(&self, grantees: &[String]) -> Result<()>;

    /// Makes the ledger's tables where they are missing, then, in one transaction, records the run and its slots, all
    /// at position 0 and epoch 1, prepares the table, and records what is owed to it. A second unfinished run of one identity is refused
    /// (`Fenced`).
    async fn start(&self, run: &NewRun) -> Result<RunHandle>;

    /// The run's slots, in slot order, as now committed; none of a run that is finished or was never there.
    async fn slots(&self, run_id: &str) -> Result<Vec<SlotState>>;

    /// The run's slots, of which those in `slots` are wanted and others may be left out.
    async fn slots_of(&self, run_id: &str, slots: &[u16]) -> Result<Vec<SlotState>> {
        let _ = slots;
        self.slots(run_id).await
    }

    /// Raises the run's epoch and returns the slots as they are once every transaction of earlier owners has ended.
    /// `Fenced` if the run is finished, forgotten or was never there.
    async fn take_over(&self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)>;

    /// Of these runs, those of whose rows it is not certain that they are there, as the table is, or was, one that a crash
    /// of the server empties while the ledger survives. Each such run leaves a witness in a table that the same crash
    /// empties. One whose table has become durable, while the witness was there, is recorded as such.
    async fn emptied(&self, run_ids: &[String]) -> Result<Vec<Emptied>>;

    /// Has a run that is `handle`'s go on although its table was emptied: from here on its rows have to be there. `Fenced` if
    /// the epoch is not `handle`'s.
    async fn accept_emptied(&self, handle: &RunHandle) -> Result<()>;

    /// Has the record of an unfinished run name an opening of its journal, by compare-and-set; the answer to an earlier
    /// attempt may have been lost, so one that is named already is right. False where another is named, or where there is
    /// no such run.
    async fn note_opening(&self, run_id: &str, opening: &Opening) -> Result<bool>;

    /// Whether the run is still `handle`'s: nobody has taken it over or forgotten it.
    async fn is_owned(&self, handle: &RunHandle) -> Result<bool> {
        let runs = self.runs(&RunQuery::Id(handle.run_id.clone())).await?;
        Ok(runs.first().is_some_and(|run| run.epoch == handle.epoch))
    }

    /// Settles what is owed to the table, marks the run finished with its account and drops its slots, all in one
    /// transaction. `Fenced` if the epoch is not `handle`'s, as where there is no such run. Finishing
    /// it again is no error: the answer to the first time may have been lost.
    async fn finish(&self, handle: &RunHandle, counts: Counts) -> Result<()>;

    /// Finishes the rest of a run that was finished in part, as by a process that was killed meanwhile. Nothing where a run
    /// is finished as a whole.
    async fn conclude(&self, run_id: &str) -> Result<()>;

    /// Removes the run; its rows stay, but for those in a shadow, which is dropped; indexes that it owes are built
    /// again. False where there is none.
    async fn forget(&self, run_id: &str) -> Result<bool>;

    /// The same of a run that is still `handle`'s and of which nothing has been committed: looks and forgets in one
    /// transaction, which waits for those in flight. False where the run stays, since another process has taken it over
    /// or a commit whose answer was lost has happened after all.
    async fn forget_unbegun(&self, handle: &RunHandle) -> Result<bool>;

    /// The jobs that it can keep; none where it keeps none.
    fn jobs(&self) -> Option<&dyn Jobs>;
}
