//! How far a load, an unload or a comparison has come, while it goes on.

mod pace;
mod times;

use std::sync::{
    Mutex, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

pub use self::{pace::Pace, times::WriteTimes};

/// Counters of a run while it goes on; read by progress displays and by the report.
#[derive(Debug, Default)]
pub struct Progress {
    /// Rows read, bad ones included; on a resume also those before the place where reading began.
    pub read: AtomicU64,
    /// Source bytes read.
    pub bytes_read: AtomicU64,
    /// Rows committed by this attempt.
    pub written: AtomicU64,
    /// Rows handed to the database in a single transaction that is still open.
    pub uncommitted: AtomicU64,
    /// Rows replaced, before they were sent, by a later row of the same key.
    pub superseded: AtomicU64,
    /// Rows that the operation left out: their key was there, or was not.
    pub left_out: AtomicU64,
    /// Rows put aside by this attempt.
    pub rejected: AtomicU64,
    /// What was wrong with the first of them, and where it was.
    pub first_reject: OnceLock<String>,
    /// Rows that earlier attempts handled.
    pub resumed: AtomicU64,
    /// Payload bytes handed to drivers.
    pub bytes_sent: AtomicU64,
    /// Statements sent.
    pub statements: AtomicU64,
    /// Transactions committed.
    pub commits: AtomicU64,
    /// Connections that are lost and not there again; those of lanes that have given up among them.
    pub unconnected: AtomicU64,
    /// Writes tried again.
    pub retries: AtomicU64,
    /// How long writes took that are commits of their own.
    pub writes: WriteTimes,
    /// The same from when they were due, and whether they began then, where rows are offered at a rate.
    pub pace: Pace,
    /// Whether the ledger has the run.
    pub recorded: AtomicBool,
    /// Whether all rows are there and what the table is still owed is being done: its indexes built, its successor
    /// put into its place.
    pub completing: AtomicBool,
    /// What the source says of what was read: [`Source::remarks`](tonnage_core::source::Source::remarks).
    pub remarks: Mutex<Vec<String>>,
}

impl Progress {
    /// Rows that were read and that nobody has dealt with yet: they wait for the database.
    pub fn waiting(&self) -> u64 {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = [
            &self.written,
            &self.uncommitted,
            &self.superseded,
            &self.left_out,
            &self.rejected,
            &self.resumed,
        ];
        let done: u64 = counts.into_iter().map(get).sum();
        get(&self.read).saturating_sub(done)
    }

    /// What part of `bytes_total` source bytes has been dealt with, from 0 to 1: of those that were read, as many as rows
    /// do not wait.
    pub fn share(&self, bytes_total: u64) -> f64 {
        let read = self.read.load(Ordering::Relaxed).max(1) as f64;
        let bytes_read = self.bytes_read.load(Ordering::Relaxed) as f64;
        let done = 1.0 - self.waiting() as f64 / read;
        (bytes_read / bytes_total.max(1) as f64 * done).clamp(0.0, 1.0)
    }
}
