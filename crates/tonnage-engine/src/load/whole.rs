//! A run as one transaction: all rows or none.
//!
//! Invariants:
//! - One lane opens the transaction with its first write and goes on in it; every write is under a savepoint, so that a
//!   bad row costs itself only.
//! - Nothing counts as written before the one commit, which follows only when reader, dealer and lane have come to
//!   their end without an error and nobody has asked to stop.
//! - Nothing is tried again but the question whether a commit in doubt has happened. The ledger answers it: the steps
//!   of all writes together are one compare-and-set.

use std::{sync::atomic::Ordering, time::Instant};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    slot::{Advance, gather},
};

use super::{
    identity::Ownership,
    lane::{LaneTask, UnknownCommit, WriteError},
    rejects::{Appended, RejectsFile},
    write::Write,
};
use crate::{plan::Plan, progress::Progress};

/// What the open transaction has done so far: a step a slot, however many writes there were.
#[derive(Default)]
pub(super) struct Whole {
    advances: Vec<Advance>,
    superseded: u64,
    open: bool,
    /// When the first write began.
    begun: Option<Instant>,
}

impl LaneTask {
    /// Adds a write to the transaction.
    pub(super) async fn add(&mut self, write: &Write) -> Result<()> {
        self.whole.begun.get_or_insert_with(Instant::now);
        match self.apply(write, &mut None).await {
            Ok(Some(applied)) => {
                self.whole.open = true;
                gather(&mut self.whole.advances, &applied.advances);
                self.whole.superseded += applied.superseded;
                let rows = write.rows.num_rows() as u64;
                self.shared
                    .progress
                    .uncommitted
                    .fetch_add(rows, Ordering::Relaxed);
                Ok(())
            }
            Ok(None) => Err(Error::bug("a write was committed before its transaction")),
            Err(WriteError::Failed(error) | WriteError::UnknownCommit(error, _)) => Err(error),
            Err(WriteError::Full(_)) => Err(self.shared.too_many_rejects()),
            Err(WriteError::Ended(_)) => Err(Error::bug(
                "a part of one transaction was to be committed by itself",
            )),
        }
    }

    /// Commits, once everything else has ended well. The table is emptied also where no row came.
    pub(super) async fn conclude(&mut self) -> Result<()> {
        let shared = self.shared.clone();
        if !self.whole.open && shared.plan.preparation.truncates() {
            self.begin(&[], &mut None).await?;
            self.whole.open = true;
        }
        if !std::mem::take(&mut self.whole.open) {
            return Ok(());
        }
        let steps = match shared.handle.is_some() {
            true => self.whole.advances.clone(),
            false => Vec::new(),
        };
        let writer = self
            .writer
            .as_mut()
            .ok_or_else(|| Error::bug("a transaction without a writer"))?;
        match writer.commit(&steps).await {
            Ok(()) => {
                shared.progress.commits.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.kind() == ErrorKind::InDoubt => self.resolve(error, steps).await?,
            Err(error) => return Err(error),
        }
        if let Some(begun) = self.whole.begun {
            shared.progress.writes.record(begun, Instant::now());
        }
        shared.count(&self.whole.advances, self.whole.superseded, &[]);
        Ok(())
    }

    /// Asks the ledger whether a commit of `steps`, whose answer was lost, has happened.
    async fn resolve(&mut self, lost: Error, steps: Vec<Advance>) -> Result<()> {
        if steps.is_empty() {
            return Err(lost.hint("without a ledger nothing says whether its rows are there"));
        }
        let mut doubt = Some(UnknownCommit {
            appended: Appended::default(),
            advances: steps.clone(),
            superseded: 0,
            taken: 0,
            rejects: Vec::new(),
        });
        let mut attempts = self.shared.plan.attempts();
        loop {
            self.writer = None;
            let error = match self.begin(&steps, &mut doubt).await {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => {
                    self.rollback().await?;
                    return Err(Error::new(ErrorKind::Unsent, lost));
                }
                Err(error) => error,
            };
            if attempts.after(error).await.is_err() {
                return Err(
                    lost.hint("--resume finds out whether all was committed, and loads it if nothing was")
                );
            }
        }
    }
}

/// The error of a run of which nothing is left, with the next step; its bad rows are moved out of the way. Where the
/// commit happened, or may have happened, the error is returned as it is.
pub(super) fn undone(
    error: Error,
    plan: &Plan,
    ownership: &mut Ownership,
    rejects: Option<&RejectsFile>,
    progress: &Progress,
) -> Error {
    let committed = progress.commits.load(Ordering::Relaxed) > 0 || ownership.has_begun();
    if committed || error.kind() == ErrorKind::InDoubt {
        return error;
    }
    let table = &plan.table.name;
    ownership.notes.push(format!(
        "nothing of the run is in {table}: its transaction was rolled back"
    ));
    match rejects.map_or(Ok(None), RejectsFile::set_aside) {
        Ok(Some(aside)) => ownership.notes.push(format!(
            "the bad rows found until then are in {}",
            aside.display()
        )),
        Ok(None) => {}
        // What ended the run matters more.
        Err(failed) => tracing::warn!("{failed}"),
    }
    match error.hint_text() {
        Some(_) => error,
        None if error.kind() == ErrorKind::Cancelled => {
            error.hint("nothing was written: the same command loads it from the beginning")
        }
        None => error.hint("nothing was written: mend the cause, then load again"),
    }
}
