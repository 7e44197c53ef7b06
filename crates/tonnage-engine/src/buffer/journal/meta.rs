//! `journal.json`: which journal it is, and what the next opening goes by.
//!
//! Invariants:
//! - It is replaced in one step, fsynced, and never in a directory that is not the one that was opened.
//! - Before the ledger is to name an opening the journal knows its name, so that a crash at any point leaves a journal that
//!   knows what the ledger names: the opening before or the one that was being noted.
//! - `newest` never promises what was not on disk before.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};

use serde::{Deserialize, Serialize};
use tonnage_core::{
    error::{Error, Result},
    sync::Lock,
};

use super::{failed, lock::Home};

pub const META: &str = "journal.json";
/// The first has no recycled segments; the second names neither openings nor its newest segment. Both are read, and gone
/// on with in this one.
pub const FORMAT: u32 = 3;
pub const FORMAT_LEAST: u32 = 1;

/// What `journal.json` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    pub format: u32,
    pub id: String,
    /// Whether the ledger has a run of this journal.
    pub begun: bool,
    /// The columns of its table, as they were last seen.
    #[serde(default)]
    pub columns: Vec<String>,
    /// The first row that was taken while nobody knew how far the database had come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsure_from: Option<u64>,
    /// The opening that the ledger names; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<String>,
    /// One that was being noted in the ledger, which may name it or the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_opening: Option<String>,
    /// What was on disk at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<Newest>,
}

/// What an opening has to find, or rows are missing at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newest {
    /// A segment with this number or a higher one.
    pub segment: u64,
    /// This row, or that it was there.
    pub row: u64,
}

impl Meta {
    /// Of a new journal.
    pub fn new() -> Self {
        Self {
            format: FORMAT,
            id: uuid::Uuid::now_v7().simple().to_string(),
            begun: false,
            columns: Vec::new(),
            unsure_from: None,
            opening: None,
            next_opening: None,
            newest: None,
        }
    }

    /// What a directory's `journal.json` says.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(META);
        let text = fs::read(&path).map_err(|e| failed(&path, &e))?;
        serde_json::from_slice(&text).map_err(|error| {
            Error::input(format!(
                "{} is not what it was written as: {error}",
                path.display()
            ))
        })
    }

    /// Writes it in one step.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let path = directory.join(META);
        let partial = directory.join(format!("{META}.partial"));
        let mut text =
            serde_json::to_vec(self).map_err(|e| Error::bug(format!("{META} cannot be written: {e}")))?;
        text.push(b'\n');
        let write = || {
            let mut file = OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(true)
                .mode(0o600)
                .open(&partial)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&partial, &path)?;
            File::open(directory)?.sync_all()
        };
        write().map_err(|e: std::io::Error| failed(&path, &e))
    }
}

/// Notes in `journal.json` what comes to be known, also while the journal is in use. Clones note in the same.
#[derive(Debug, Clone)]
pub struct Marker {
    home: Home,
    meta: Arc<Mutex<Meta>>,
    /// The first row that the journal had when it was opened, and the last.
    rows: (u64, u64),
}

impl Marker {
    pub fn new(home: Home, meta: Meta, rows: (u64, u64)) -> Self {
        Self {
            home,
            // What is noted from here on is noted by this release.
            meta: Arc::new(Mutex::new(Meta {
                format: FORMAT,
                ..meta
            })),
            rows,
        }
    }

    fn meta(&self) -> MutexGuard<'_, Meta> {
        self.meta.locked()
    }

    /// Where the journal is.
    pub fn directory(&self) -> &Path {
        self.home.path()
    }

    /// Its identity.
    pub fn id(&self) -> String {
        self.meta().id.clone()
    }

    /// Whether the ledger has a run of it.
    pub fn begun(&self) -> bool {
        self.meta().begun
    }

    /// The first row that it had when it was opened, and the last.
    pub fn rows(&self) -> (u64, u64) {
        self.rows
    }

    fn change(&self, change: impl FnOnce(&mut Meta)) -> Result<()> {
        let mut meta = self.meta();
        let mut changed = meta.clone();
        change(&mut changed);
        if changed != *meta {
            self.home.check()?;
            changed.write(self.directory())?;
            *meta = changed;
        }
        Ok(())
    }

    /// Notes that rows from `next` on are taken without knowing how far the database has come.
    pub fn unsure(&self, next: u64) -> Result<()> {
        self.change(|meta| {
            meta.unsure_from = Some(meta.unsure_from.map_or(next, |from| from.min(next)));
        })
    }

    /// The first row that was taken so, if the database turns out to have its number already.
    pub fn used_twice(&self, position: u64) -> Option<u64> {
        self.meta().unsure_from.filter(|from| position >= *from)
    }

    /// Whether the journal, in this state of it, has been opened under this name, or none was noted yet.
    pub fn knows(&self, opening: Option<&str>) -> bool {
        let meta = self.meta();
        opening == meta.opening.as_deref() || opening.is_some() && opening == meta.next_opening.as_deref()
    }

    /// Notes that the ledger names `before`, and may soon name `now`.
    pub fn note_opening(&self, before: Option<&str>, now: &str) -> Result<()> {
        self.change(|meta| {
            meta.opening = before.map(str::to_owned);
            meta.next_opening = Some(now.to_owned());
        })
    }

    /// Notes that the ledger has a run of the journal and names its last opening, and the columns of its table.
    pub fn record_run(&self, columns: &[String]) -> Result<()> {
        self.change(|meta| {
            meta.begun = true;
            meta.columns = columns.to_vec();
            meta.unsure_from = None;
            if let Some(now) = meta.next_opening.take() {
                meta.opening = Some(now);
            }
        })
    }

    /// Notes what is on disk by now.
    pub fn note_newest(&self, newest: Newest) -> Result<()> {
        self.change(|meta| meta.newest = Some(newest))
    }
}
