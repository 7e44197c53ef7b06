//! A ledger in a file of its own, for databases that cannot hold one.
//!
//! It is the ledger of a SQLite database without the rows: the same tables, the same compare-and-set. What it cannot do
//! is move together with rows. So a writer looks where the slots stand before its rows are sent
//! ([`LedgerFile::stands`]) and moves them once these are acknowledged ([`LedgerFile::advance`]); a run that ends in
//! between sends rows again, which is harmless only where the target makes it so.
//!
//! A target with such a ledger implements [`RunRows`], holds a [`LedgerFile`], and returns it as its
//! [`Ledger`] and as its [`LocalLedger`].
//!
//! The file and its directory are made when the first run starts; reading makes nothing. Losing the last steps with the
//! machine means no more than sending rows again, so commits are not synced.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tokio::sync::OnceCell;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{
        Emptied, Ledger, NewRun, Opening, OtherLedger, RunHandle, RunQuery, RunRecord, Setup, Sought,
        inputs::InputRecord,
    },
    slot::{Advance, Counts, SlotState},
    target::{Claim, LocalLedger},
};

use super::{
    connect::Location,
    errors::{self, Doing},
    ledger::{self, change},
    thread::Thread,
};

/// What a database does with the rows of a run at the two turns of its ledger that concern them.
#[async_trait]
pub trait RunRows: Send + Sync {
    /// Prepares the table of a run that is recorded next. Should it not come to be recorded, the table is as prepared.
    async fn prepare(&self, run: &NewRun) -> Result<()>;

    /// A run is being taken over, and its slots are at `slots`. Called while the ledger is locked: no earlier owner of the
    /// run moves them any more, and no later one has begun.
    fn taken_over(&self, run_id: &str, slots: &[SlotState]) -> Result<()>;
}

fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

/// A commit is written and not synced: the write-ahead log keeps the file whole.
fn unsynced(connection: &Connection) -> Result<()> {
    connection
        .execute_batch("PRAGMA synchronous = NORMAL")
        .map_err(failed)
}

/// See the module.
pub struct LedgerFile {
    path: Mutex<PathBuf>,
    rows: Arc<dyn RunRows>,
    /// Started when it is first used.
    control: OnceCell<Thread<Control>>,
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path)
        .map_err(|error| Error::config(format!("'{}' is not a path: {error}", path.display())))
}

struct Control {
    location: Location,
    connection: Option<Connection>,
}

impl Control {
    /// The connection, if there is a file.
    fn existing(&mut self) -> Result<Option<&mut Connection>> {
        let directory = self.location.path.parent().unwrap_or(Path::new("/"));
        if self.connection.is_none() && directory.is_dir() {
            self.connection = self.location.open_existing()?;
            if let Some(connection) = &self.connection {
                unsynced(connection)?;
            }
        }
        Ok(self.connection.as_mut())
    }

    fn required(&mut self) -> Result<&mut Connection> {
        let missing = Error::new(
            ErrorKind::Fenced,
            format!("the ledger {} is gone", self.location.shown()),
        );
        self.existing()?.ok_or(missing)
    }

    fn created(&mut self) -> Result<&mut Connection> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let directory = self.location.path.parent().unwrap_or(Path::new("/"));
                std::fs::create_dir_all(directory).map_err(|cause| {
                    Error::config(format!(
                        "the directory {} of the ledger cannot be made: {cause}",
                        directory.display()
                    ))
                    .hint("--ledger PATH keeps it elsewhere")
                })?;
                let connection = self.location.open_or_create()?;
                unsynced(&connection)?;
                connection
            }
        };
        Ok(self.connection.insert(connection))
    }
}

impl LedgerFile {
    /// The ledger at `path`, which need not be there yet, of runs whose rows `rows` takes care of.
    pub fn at(path: &Path, rows: Arc<dyn RunRows>) -> Result<Self> {
        Ok(Self {
            path: Mutex::new(absolute(path)?),
            rows,
            control: OnceCell::new(),
        })
    }

    async fn control(&self) -> Result<&Thread<Control>> {
        let location = Location::of(self.ledger_file());
        let start = || {
            Thread::start("ledger", || {
                Ok(Control {
                    location,
                    connection: None,
                })
            })
        };
        self.control.get_or_try_init(start).await
    }

    async fn on_existing<T: Send + 'static>(
        &self,
        absent: T,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let work = move |control: &mut Control| match control.existing()? {
            None => Ok(absent),
            Some(connection) => work(connection),
        };
        self.control().await?.run(work).await?
    }

    async fn on_required<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.control()
            .await?
            .run(move |control| control.required().and_then(work))
            .await?
    }

    /// Whether the slots of `steps` stand where they begin, under the epoch of `run`. Moves nothing.
    pub async fn stands(&self, run: &RunHandle, steps: &[Advance]) -> Result<Claim> {
        let (run, steps) = (run.clone(), steps.to_vec());
        self.on_required(move |connection| {
            let mut look = connection
                .prepare_cached(
                    "SELECT count(*) FROM tonnage_slots
                     WHERE run_id = ?1 AND slot = ?2 AND epoch = ?3 AND block = ?4 AND rows = ?5",
                )
                .map_err(failed)?;
            for step in &steps {
                let found: i64 = look
                    .query_row(
                        params![
                            run.run_id,
                            step.slot,
                            run.epoch,
                            step.from.block as i64,
                            step.from.rows as i64
                        ],
                        |row| row.get(0),
                    )
                    .map_err(failed)?;
                if found != 1 {
                    return Ok(Claim::Moved);
                }
            }
            Ok(Claim::Held)
        })
        .await
    }

    /// Moves the slots, by compare-and-set, all or none. `Fenced` where one stands elsewhere by now.
    pub async fn advance(&self, run: &RunHandle, steps: Vec<Advance>) -> Result<()> {
        self.advance_with(run, steps, || Ok(())).await
    }

    /// The same, and does `work` when the slots can be moved and before they are, while the ledger is locked. They stay
    /// where `work` fails.
    pub async fn advance_with(
        &self,
        run: &RunHandle,
        steps: Vec<Advance>,
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let run = run.clone();
        self.on_required(move |connection| {
            change(connection, |connection| {
                match ledger::advance(connection, &run, &steps)? {
                    true => work(),
                    false => Err(Error::fenced()),
                }
            })
        })
        .await
    }
}

impl LocalLedger for LedgerFile {
    fn ledger_file(&self) -> PathBuf {
        self.path.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep_ledger(&self, path: &Path) -> Result<()> {
        if self.control.initialized() {
            return Err(Error::bug("the ledger was to be moved while it is in use"));
        }
        *self.path.lock().unwrap_or_else(PoisonError::into_inner) = absolute(path)?;
        Ok(())
    }
}

#[async_trait]
impl Ledger for LedgerFile {
    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>> {
        let query = query.clone();
        self.on_existing(Vec::new(), move |connection| ledger::runs(connection, &query))
            .await
    }

    async fn ids(&self, prefix: &str) -> Result<Vec<String>> {
        let prefix = prefix.to_owned();
        self.on_existing(Vec::new(), move |connection| ledger::ids(connection, &prefix))
            .await
    }

    async fn inputs(&self, keys: &[String]) -> Result<Vec<InputRecord>> {
        let keys = keys.to_vec();
        self.on_existing(Vec::new(), move |connection| ledger::inputs(connection, &keys))
            .await
    }

    async fn prune(&self, keep: u64, limit: u64) -> Result<u64> {
        self.on_existing(0, move |connection| ledger::prune(connection, keep, limit))
            .await
    }

    /// The file that holds it is the one that was named.
    async fn elsewhere(&self, _: &Sought) -> Result<Vec<OtherLedger>> {
        Ok(Vec::new())
    }

    async fn setup(&self, grantees: &[String]) -> Result<Vec<Setup>> {
        let shown = self
            .control()
            .await?
            .run(|control| control.location.shown().to_string())
            .await?;
        Setup::of_file(&shown, grantees)
    }

    async fn set_up(&self, _: &[String]) -> Result<()> {
        Ok(())
    }

    async fn start(&self, run: &NewRun) -> Result<RunHandle> {
        self.rows.prepare(run).await?;
        let run = run.clone();
        self.control()
            .await?
            .run(move |control| {
                change(control.created()?, |connection| {
                    ledger::record(connection, &run, &run.detail)
                })
            })
            .await?
    }

    async fn slots(&self, run_id: &str) -> Result<Vec<SlotState>> {
        let run_id = run_id.to_owned();
        self.on_existing(Vec::new(), move |connection| ledger::slots(connection, &run_id))
            .await
    }

    async fn take_over(&self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
        let (run_id, rows) = (run_id.to_owned(), self.rows.clone());
        self.on_required(move |connection| {
            ledger::take_over(connection, &run_id, |slots| rows.taken_over(&run_id, slots))
        })
        .await
    }

    /// The database says nothing of crashes.
    async fn emptied(&self, _: &[String]) -> Result<Vec<Emptied>> {
        Ok(Vec::new())
    }

    async fn accept_emptied(&self, _: &RunHandle) -> Result<()> {
        Ok(())
    }

    async fn note_opening(&self, run_id: &str, opening: &Opening) -> Result<bool> {
        let (run_id, opening) = (run_id.to_owned(), opening.clone());
        self.on_existing(false, move |connection| {
            ledger::note_opening(connection, &run_id, &opening)
        })
        .await
    }

    async fn finish(&self, handle: &RunHandle, counts: Counts) -> Result<()> {
        let handle = handle.clone();
        self.on_required(move |connection| ledger::finish(connection, &handle, counts))
            .await
    }

    async fn forget(&self, run_id: &str) -> Result<bool> {
        let run_id = run_id.to_owned();
        self.on_existing(false, move |connection| ledger::forget(connection, &run_id))
            .await
    }

    async fn forget_unbegun(&self, handle: &RunHandle) -> Result<bool> {
        let handle = handle.clone();
        self.on_existing(false, move |connection| {
            ledger::forget_unbegun(connection, &handle)
        })
        .await
    }

    async fn conclude(&self, _: &str) -> Result<()> {
        Ok(())
    }
}
