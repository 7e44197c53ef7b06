//! A ledger in a file of its own, for databases that cannot hold one.
//!
//! It is the ledger of a SQLite database without the rows: the same tables, the same compare-and-set. What it cannot do
//! is move together with rows. So a writer reads the slots' positions before its rows are sent
//! ([`LedgerFile::stands`]) and moves them once these are acknowledged ([`LedgerFile::advance`]); a run that ends in
//! between sends rows again, which is harmless only where the target makes it so.
//!
//! A target with such a ledger implements [`RunRows`], holds a [`LedgerFile`], and returns it as its
//! [`Ledger`] ([`LedgerFile::as_ledger`]) and as its [`LocalLedger`].
//!
//! The file and its directory are made when the first run starts; reading makes nothing. Losing the last steps with the
//! machine means no more than sending rows again, so commits are not synced.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tokio::sync::OnceCell;
use tonnage_core::{
    error::{Error, Result},
    ledger::{Emptied, Ledger, NewRun, OtherLedger, RunHandle, Setup, Sought},
    slot::{Advance, SlotState},
    target::{Claim, LocalLedger},
};
use tonnage_sql::{
    ledger::{Place, SqlLedger, Work, no_ledger},
    thread::Thread,
};

use super::{
    connect::Location,
    errors,
    ledger::{InFile, advance, failed, ready, statements},
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

/// Where the rows of a ledger's runs are.
#[derive(Clone)]
pub(super) enum RowsIn {
    /// In the file of the ledger.
    ThisFile,
    /// In a database that cannot hold a ledger.
    Elsewhere(Arc<dyn RunRows>),
}

/// Where the ledger of a database is that names no file for it: `$XDG_STATE_HOME/tonnage/KIND/NAMES.ledger`, by default under
/// `~/.local/state`. In `names`, which tell databases of a kind apart, characters that a file's name may lack become `_`.
pub fn default_path(kind: &str, names: &[&str]) -> PathBuf {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .unwrap_or_else(std::env::temp_dir);
    let plain = |name: &&str| name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-', "_");
    let names: Vec<_> = names.iter().map(plain).collect();
    state
        .join("tonnage")
        .join(kind)
        .join(format!("{}.ledger", names.join(".")))
}

/// See the module.
pub struct LedgerFile(SqlLedger<File>);

/// The file of a ledger. A target whose rows are in it uses its connection for the catalogue as well.
pub(super) struct File {
    location: Mutex<Location>,
    rows: RowsIn,
    /// Started when it is first used.
    control: OnceCell<Thread<Control>>,
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path)
        .map_err(|error| Error::config(format!("'{}' is not a path: {error}", path.display())))
}

/// What the thread of a file owns.
pub(super) struct Control {
    pub(super) location: Location,
    rows: RowsIn,
    connection: Option<Connection>,
}

impl Control {
    fn directory(&self) -> &Path {
        self.location.path.parent().unwrap_or(Path::new("/"))
    }

    /// The file, if there is one by now.
    pub(super) fn existing(&mut self) -> Result<Option<InFile<'_>>> {
        // The directory of a ledger is made with it.
        let may_be = matches!(self.rows, RowsIn::ThisFile) || self.directory().is_dir();
        if self.connection.is_none() && may_be {
            self.open(self.location.open_existing()?)?;
        }
        let rows = &self.rows;
        Ok(self
            .connection
            .as_mut()
            .map(|connection| InFile { connection, rows }))
    }

    /// The file, which must be there.
    pub(super) fn required(&mut self) -> Result<InFile<'_>> {
        let missing = self.location.missing();
        self.existing()?.ok_or(missing)
    }

    /// The file, a new one if there was none.
    pub(super) fn created(&mut self) -> Result<InFile<'_>> {
        if self.connection.is_none() {
            if let RowsIn::Elsewhere(_) = self.rows {
                let directory = self.directory();
                std::fs::create_dir_all(directory).map_err(|cause| {
                    Error::config(format!(
                        "the directory {} of the ledger cannot be made: {cause}",
                        directory.display()
                    ))
                    .hint("--ledger PATH keeps it elsewhere")
                })?;
            }
            self.open(Some(self.location.open_or_create()?))?;
        }
        self.required()
    }

    fn open(&mut self, connection: Option<Connection>) -> Result<()> {
        // Where the rows are elsewhere a commit is written and not synced: the write-ahead log keeps the file whole.
        if let (Some(connection), RowsIn::Elsewhere(_)) = (&connection, &self.rows) {
            let unsynced = "PRAGMA synchronous = NORMAL";
            connection.execute_batch(unsynced).map_err(failed)?;
        }
        self.connection = connection;
        Ok(())
    }
}

impl File {
    pub(super) fn of(location: Location, rows: RowsIn) -> Self {
        Self {
            location: Mutex::new(location),
            rows,
            control: OnceCell::new(),
        }
    }

    fn location(&self) -> MutexGuard<'_, Location> {
        self.location.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does `work` on the file's thread.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Control) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let control = Control {
            location: self.location().clone(),
            rows: self.rows.clone(),
            connection: None,
        };
        let start = || Thread::start("sqlite-control", || Ok(control));
        self.control.get_or_try_init(start).await?.run(work).await?
    }
}

#[async_trait]
impl Place for File {
    fn lost_race(&self, error: &Error) -> bool {
        error.code_text().is_some_and(errors::lost_race)
    }

    async fn ask<T: Send + 'static>(&self, work: Work<T>) -> Result<Option<T>> {
        self.run(|control| {
            let Some(mut file) = control.existing()? else {
                return Ok(None);
            };
            match file.tables()? {
                Some(tables) => ready(work(&mut file, &tables)).map(Some),
                None => Ok(None),
            }
        })
        .await
    }

    async fn change<T: Send + 'static>(&self, work: Work<T>) -> Result<Option<T>> {
        self.run(|control| {
            let Some(mut file) = control.existing()? else {
                return Ok(None);
            };
            // Looked at before the file is locked, and again as they may have been added to meanwhile.
            if file.tables()?.is_none() {
                return Ok(None);
            }
            file.change(|file| match file.tables()? {
                Some(tables) => ready(work(file, &tables)).map(Some),
                None => Ok(None),
            })
        })
        .await
    }

    async fn begin(&self, run: &NewRun, work: Work<RunHandle>) -> Result<RunHandle> {
        if let RowsIn::Elsewhere(rows) = &self.rows {
            rows.prepare(run).await?;
        }
        self.run(|control| {
            let mut file = match control.rows {
                RowsIn::ThisFile => control.required()?,
                RowsIn::Elsewhere(_) => control.created()?,
            };
            file.change(|file| {
                let tables = file.make()?;
                ready(work(file, &tables))
            })
        })
        .await
    }

    async fn check(&self) -> Result<()> {
        Ok(())
    }

    /// The file that holds it is the one that was named.
    async fn elsewhere(&self, _: &Sought) -> Result<Vec<OtherLedger>> {
        Ok(Vec::new())
    }

    async fn setup(&self, grantees: &[String]) -> Result<Vec<Setup>> {
        if let RowsIn::Elsewhere(_) = self.rows {
            return Setup::of_file(&self.location().shown().to_string(), grantees);
        }
        if !grantees.is_empty() {
            return Err(Error::config("SQLite has no roles to grant the ledger's use to")
                .hint("leave --grant out; who may write the file may use the ledger"));
        }
        Ok(vec![Setup {
            place: "the file that has the rows".to_owned(),
            statements: statements(),
            notes: vec!["the first run makes them, and two more by which tables are told apart".to_owned()],
        }])
    }

    async fn set_up(&self, _: &[String]) -> Result<()> {
        match self.rows {
            RowsIn::Elsewhere(_) => Ok(()),
            RowsIn::ThisFile => {
                self.run(|control| control.required()?.change(|file| file.make().map(|_| ())))
                    .await
            }
        }
    }

    /// A file holds the ledger and the rows, or the database of the rows says nothing of crashes.
    async fn emptied(&self, _: &[String]) -> Result<Vec<Emptied>> {
        Ok(Vec::new())
    }

    async fn accept_emptied(&self, _: &RunHandle) -> Result<()> {
        Ok(())
    }
}

impl LedgerFile {
    /// The ledger at `path`, which need not be there yet, of runs whose rows `rows` takes care of.
    pub fn at(path: &Path, rows: Arc<dyn RunRows>) -> Result<Self> {
        let location = Location::of(absolute(path)?);
        Ok(Self(SqlLedger(File::of(location, RowsIn::Elsewhere(rows)))))
    }

    /// The ledger, as a target hands it out.
    pub fn as_ledger(&self) -> &dyn Ledger {
        &self.0
    }

    fn file(&self) -> &File {
        &self.0.0
    }

    /// Whether the slots are at the beginnings of `steps`, under the epoch of `run`. Moves nothing.
    pub async fn stands(&self, run: &RunHandle, steps: &[Advance]) -> Result<Claim> {
        let (run, steps) = (run.clone(), steps.to_vec());
        self.file()
            .run(move |control| {
                let file = control.existing()?.ok_or_else(no_ledger)?;
                let mut look = file
                    .connection
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

    /// Moves the slots, by compare-and-set, all or none. `Fenced` where one has moved by now.
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
        self.file()
            .run(move |control| {
                let mut file = control.existing()?.ok_or_else(no_ledger)?;
                file.change(|file| match advance(file.connection, &run, &steps)? {
                    true => work(),
                    false => Err(Error::fenced()),
                })
            })
            .await
    }
}

impl LocalLedger for LedgerFile {
    fn ledger_file(&self) -> PathBuf {
        self.file().location().path.clone()
    }

    fn keep_ledger(&self, path: &Path) -> Result<()> {
        if self.file().control.initialized() {
            return Err(Error::bug("the ledger was to be moved while it is in use"));
        }
        self.file().location().path = absolute(path)?;
        Ok(())
    }
}
