//! Making many rows with several threads and writing them in order.
//!
//! Invariants: thread `t` of `n` makes batches t, t + n, t + 2n .. and hands them over through a channel of
//! its own, so taking from the channels in turn gives the batches in order; a channel holds
//! [`QUEUE_BATCHES_MAX`] batches, so memory is bounded by threads and batch size; and when the sink fails or
//! closes, every thread ends with its next batch.

use std::{num::NonZeroUsize, sync::mpsc, thread};

use arrow::array::RecordBatch;
use tonnage_core::error::{Error, Result};

use super::Workload;
use crate::sinks::Sink;

/// The most finished batches that wait for the writer, a thread.
const QUEUE_BATCHES_MAX: usize = 2;

/// The most threads that make rows.
const THREADS_MAX: usize = 64;

/// What to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// The kind of rows.
    pub workload: Workload,
    /// Equal seeds make equal rows.
    pub seed: u64,
    /// The number of the first row, from 0.
    pub first_row: u64,
    /// How many rows, no further than [`Workload::rows_max`].
    pub rows: u64,
    /// Threads that make rows, at most 64; the caller's thread writes.
    pub threads: NonZeroUsize,
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// Rows written.
    pub rows: u64,
    /// Bytes written, after compression.
    pub bytes: u64,
    /// Whether the reader of a pipe went away, so that fewer rows than asked for were written.
    pub closed: bool,
}

/// Makes the rows and writes them to `sink`, in order, then finishes it. `Config` if the workload has fewer
/// rows.
pub fn write(generation: &Generation, mut sink: Box<dyn Sink>) -> Result<Generated> {
    generation.check()?;
    let batch_rows = generation.workload.batch_rows() as u64;
    let batches = generation.rows.div_ceil(batch_rows);
    let threads = (generation.threads.get().min(THREADS_MAX) as u64).min(batches.max(1));
    let mut written = 0;
    thread::scope(|scope| -> Result<()> {
        let mut queues = Vec::new();
        for index in 0..threads {
            let (sender, queue) = mpsc::sync_channel(QUEUE_BATCHES_MAX);
            queues.push(queue);
            let work = move || {
                make(
                    generation,
                    batch_rows,
                    (index..batches).step_by(threads as usize),
                    &sender,
                )
            };
            thread::Builder::new()
                .name(format!("generate-{index}"))
                .spawn_scoped(scope, work)
                .map_err(|e| {
                    Error::config(format!("cannot start thread {}: {e}", index + 1)).hint("use fewer jobs")
                })?;
        }
        for batch in 0..batches {
            let queue = &queues[(batch % threads) as usize];
            let batch = queue
                .recv()
                .map_err(|_| Error::bug("a thread that makes rows ended early"))?;
            sink.write(&batch)?;
            written += batch.num_rows() as u64;
            if sink.is_closed() {
                break;
            }
        }
        Ok(())
    })?;
    let closed = sink.is_closed();
    Ok(Generated {
        rows: written,
        bytes: sink.finish()?.bytes,
        closed,
    })
}

/// Makes the batches of one thread; ends early when nobody takes them any more.
fn make(
    generation: &Generation,
    batch_rows: u64,
    batches: impl Iterator<Item = u64>,
    sender: &mpsc::SyncSender<RecordBatch>,
) {
    for batch in batches {
        let done = batch * batch_rows;
        let rows = batch_rows.min(generation.rows - done) as usize;
        let first_row = generation.first_row + done;
        let batch = generation.workload.batch(generation.seed, first_row, rows);
        if sender.send(batch).is_err() {
            return;
        }
    }
}

impl Generation {
    /// Whether the workload has so many rows: `Config` if not. Asked before an output is opened.
    pub fn check(&self) -> Result<()> {
        let rows_max = self.workload.rows_max().unwrap_or(u64::MAX);
        match self.first_row.checked_add(self.rows) {
            Some(end) if end <= rows_max => Ok(()),
            _ => {
                let message = format!(
                    "{} rows are too many for {}: it ends at row {rows_max}",
                    self.rows, self.workload
                );
                let left = rows_max.saturating_sub(self.first_row);
                Err(Error::config(message).hint(format!("ask for at most {left} rows")))
            }
        }
    }
}
