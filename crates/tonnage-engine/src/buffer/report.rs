//! The account of a buffer.

use std::{sync::atomic::Ordering, time::Instant};

use schemars::JsonSchema;
use serde::Serialize;
use tonnage_core::report::{Skipped, peak_memory_bytes, processor_seconds};

use super::{Lost, Metrics, Torn, Uncertain, attach::Attached};
use crate::load::Progress;

/// What a journal held when it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Recovery {
    /// Rows that the database did not have.
    pub rows: u64,
    /// The end that was cut off, where a write had been interrupted.
    pub torn: Option<Torn>,
    /// Rows that could not be read.
    pub lost: Vec<Lost>,
    /// Rows of which nobody knows whether the table has them, where that was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertain: Option<Uncertain>,
}

/// Rows by what became of them:
/// `put + recovered = written + skipped + rejected + unfinished`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BufferRows {
    /// Accepted since the buffer was opened.
    pub put: u64,
    /// Found in the journal, from before.
    pub recovered: u64,
    /// Applied and committed.
    pub written: u64,
    /// Left out for a reason.
    pub skipped: Skipped,
    /// Put aside in the rejects.
    pub rejected: u64,
    /// Not committed: in the journal, or lost where there is none.
    pub unfinished: u64,
}

/// What a buffer did from its opening on.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BufferReport {
    /// The run in the ledger; none where the database was away all the time.
    pub run_id: Option<String>,
    /// The target's URL, its password removed.
    pub target: String,
    /// The table.
    pub table: String,
    /// What happened to rows.
    pub operation: &'static str,
    /// How they travelled; none where the database was away all the time.
    pub method: Option<String>,
    /// The rows.
    pub rows: BufferRows,
    /// Seconds since it was opened.
    pub seconds: f64,
    /// Rows written a second.
    pub rows_per_second: f64,
    /// What its commits promise; none where the database was away all the time.
    pub durability: Option<String>,
    /// Payload bytes handed to drivers.
    pub bytes_sent: u64,
    /// Statements sent.
    pub statements: u64,
    /// Where rejects are, if there are any, also from earlier openings of the journal.
    pub rejects: Option<String>,
    /// What was in the journal.
    pub recovery: Recovery,
    /// Marks and counters.
    pub metrics: Metrics,
    /// Session settings changed.
    pub settings_changed: Vec<String>,
    /// Guarantees given up.
    pub guarantees_lost: Vec<String>,
    /// Processor seconds of this process so far; none where the system does not tell.
    pub client_cpu_seconds: Option<f64>,
    /// Peak resident memory of this process; none where the system does not tell.
    pub peak_memory_bytes: Option<u64>,
}

impl BufferRows {
    /// Whether the account balances.
    pub fn balances(&self) -> bool {
        let skipped = self.skipped.conflict + self.skipped.unmatched + self.skipped.superseded;
        self.put + self.recovered == self.written + skipped + self.rejected + self.unfinished
    }
}

/// What is known since a buffer was opened.
pub(super) struct Opened {
    pub started: Instant,
    pub url: String,
    pub table: String,
    pub operation: &'static str,
    /// The low mark then; where the database was away, the least that it can be.
    pub position: u64,
    /// What was in the journal; where the database was away, the most that it has not got.
    pub recovery: Recovery,
    /// The table's columns, as far as they are known.
    pub columns: Vec<String>,
}

pub(super) fn report(
    opened: &Opened,
    attached: Option<&Attached>,
    metrics: &Metrics,
    progress: &Progress,
) -> BufferReport {
    let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let plan = attached.map(|attached| &*attached.plan);
    let recovery = attached.map_or(&opened.recovery, |attached| &attached.recovery);
    let left_out = get(&progress.left_out);
    let ignores = opened.operation == "ignore";
    let mut rows = BufferRows {
        put: metrics.rows_in,
        recovered: recovery.rows,
        written: get(&progress.written),
        skipped: Skipped {
            conflict: if ignores { left_out } else { 0 },
            unmatched: if ignores { 0 } else { left_out },
            superseded: get(&progress.superseded),
            resumed: 0,
        },
        rejected: metrics.rejected - attached.map_or(0, |attached| attached.rejected),
        unfinished: 0,
    };
    let done = rows.written + left_out + rows.skipped.superseded + rows.rejected;
    rows.unfinished = (rows.put + rows.recovered).saturating_sub(done);
    let seconds = opened.started.elapsed().as_secs_f64();
    BufferReport {
        run_id: attached.map(|attached| attached.handle.run_id.clone()),
        target: opened.url.clone(),
        table: opened.table.clone(),
        operation: opened.operation,
        method: plan.map(|plan| plan.method.to_string()),
        rows,
        seconds,
        rows_per_second: if seconds > 0.0 {
            rows.written as f64 / seconds
        } else {
            0.0
        },
        durability: plan.map(|plan| plan.durability.to_string()),
        bytes_sent: get(&progress.bytes_sent),
        statements: get(&progress.statements),
        rejects: attached
            .filter(|_| metrics.rejected > 0)
            .map(|attached| attached.rejects.path().display().to_string()),
        recovery: recovery.clone(),
        metrics: *metrics,
        settings_changed: plan.map_or_else(Vec::new, |plan| plan.settings_changed.clone()),
        guarantees_lost: plan.map_or_else(Vec::new, |plan| plan.guarantees_lost.clone()),
        client_cpu_seconds: processor_seconds(),
        peak_memory_bytes: peak_memory_bytes(),
    }
}
