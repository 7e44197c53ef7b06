//! Moves the write-ahead log into the file on a connection and a thread of its own, while the writer goes on.
//!
//! - A commit that leaves [`LOG_BYTES`] or more in the log asks for a checkpoint and does not wait for it. So pages are
//!   copied and synced while the next rows are bound, where SQLite itself would do both within the commit.
//! - The log stays bounded: at [`LOG_BYTES_MAX`] the commit checkpoints by itself, as SQLite would. While the writer is
//!   in its commit nothing is added to the log, so it is moved as a whole and begins anew.
//! - A checkpoint changes nothing that anyone reads, and may be cut short at any point. One that fails has thus failed
//!   without consequence: a later one, or the next process to open the file, does it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, SyncSender},
    },
    thread::JoinHandle,
};

use rusqlite::{Connection, hooks::Wal};
use tonnage_core::error::{Error, ErrorKind, Result};

use super::{
    connect::Location,
    errors::{self, Doing},
};

/// Bytes in the log from which on it is moved into the file.
pub(super) const LOG_BYTES: u64 = 32 << 20;

/// Bytes in the log at which the writer waits for that.
const LOG_BYTES_MAX: u64 = 256 << 20;

/// The thread. Dropping it waits for the checkpoint at hand.
pub(super) struct Checkpoints {
    wanted: SyncSender<()>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Takes the checkpoints of `writer`, which has the file at `location` open in WAL mode, over.
    pub(super) fn start(location: &Location, writer: &mut Connection) -> Result<Option<Self>> {
        let failed = |failure| errors::error(failure, Doing::Else);
        let Some(connection) = location.open_existing()? else {
            return Ok(None);
        };
        let page_bytes: u32 = writer
            .query_row("PRAGMA page_size", [], |row| row.get(0))
            .map_err(failed)?;
        let (wanted, requests) = mpsc::sync_channel(1);
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let spawned = std::thread::Builder::new()
            .name("sqlite-checkpoint".to_owned())
            .spawn(move || {
                while requests.recv().is_ok() && !end.load(Ordering::Relaxed) {
                    checkpoint(&connection);
                }
            });
        let thread = spawned.map_err(|error| {
            Error::new(ErrorKind::Refused, format!("no thread could be started: {error}"))
        })?;
        let request = wanted.clone();
        writer
            .wal_hook(Some(move |log: &mut Wal, pages: i32| {
                let bytes = u64::from(pages.unsigned_abs()) * u64::from(page_bytes);
                if bytes >= LOG_BYTES_MAX {
                    if let Err(error) = log.checkpoint() {
                        tracing::debug!("checkpoint: {error}");
                    }
                } else if bytes >= LOG_BYTES {
                    // One that waits already will see these pages too.
                    let _ = request.try_send(());
                }
                Ok(())
            }))
            .map_err(failed)?;
        Ok(Some(Self {
            wanted,
            ended,
            thread: Some(thread),
        }))
    }
}

/// Moves what it can without making anyone wait.
fn checkpoint(connection: &Connection) {
    if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
        tracing::debug!("checkpoint: {error}");
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // A full queue wakes the thread as well.
        let _ = self.wanted.try_send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
