//! Finding the bad rows of a write.
//!
//! A row is bad if the database refuses it when it is alone. A few are found by trying fewer and fewer rows at once. Where
//! many are bad, the database takes the rest one by one by itself ([`Writer::write_each`](tonnage_core::target::Writer)), if it
//! has a way to do that.

use std::sync::atomic::Ordering;

use tonnage_core::{
    error::{Error, ErrorKind},
    reject::{Problem, Reject},
    slot::Advance,
    target::{Failure, Guard},
};

use super::{
    deal::reject,
    keys::Keys,
    lane::{LaneTask, WriteError, ended_with_all, stopped_by},
    write::{Sent, Write},
};
use crate::plan::OnError;

/// Rows tried at once after a bad one, where the database names the next bad one by itself.
const STRIDE_NAMED: usize = 1_024;

/// Bad rows of a write from which on the rest of it may go one by one at the database, and how few rows may be between
/// them: there a row takes some 15 us, while one that is found from here takes two or three round trips.
const EACH_AFTER: usize = 3;
const EACH_BETWEEN_MAX: usize = 128;

/// Rows that go so together: between them it is looked whether the run was stopped, and how many may still be bad.
const EACH_ROWS_MAX: usize = 8_192;
const EACH_ROWS_MIN: usize = 64;

impl LaneTask {
    /// Applies the rows from `first` on, finding the bad ones. The number tried at once, `stride` at first, shrinks where
    /// rows fail and grows where they do not, so a few bad rows cost a few statements each, and many cost one statement a
    /// row. A bad row that ends the transaction (SQLite's RAISE(ROLLBACK)) is recognised only where no other row is in it.
    pub(super) async fn isolate(
        &mut self,
        write: &Write,
        steps: &[Advance],
        keys: Option<&Keys>,
        (first, stride): (usize, usize),
        rejected: &mut Vec<(usize, Reject)>,
    ) -> Result<(), WriteError> {
        let (mut row, mut stride) = (first, stride);
        let rows = write.rows.num_rows();
        let (mut has_each, mut each) = (true, false);
        while row < rows {
            if self.shared.stopped() {
                return Err(WriteError::Failed(Error::new(
                    ErrorKind::Cancelled,
                    "stopped on request",
                )));
            }
            if each {
                match self.write_each(write, row, rejected).await? {
                    Some(applied) => {
                        row += applied;
                        continue;
                    }
                    None => (has_each, each) = (false, false),
                }
            }
            let mut tried = stride.clamp(1, rows - row);
            if let Some(keys) = keys {
                tried = keys.distinct(row, tried);
            }
            let sent = (&write.rows.slice(row, tried), Sent::From(row));
            let Some(failure) = self.send(write, sent, Guard::Savepoint).await? else {
                row += tried;
                stride = tried.saturating_mul(4);
                continue;
            };
            if !failure.intact {
                if self.shared.plan.single_transaction {
                    return Err(WriteError::Failed(ended_with_all(failure.error)));
                }
                let good = row + failure.suspect.unwrap_or(0);
                if good > 0 {
                    return Err(WriteError::Ended(good));
                }
                self.rollback().await?;
                if self.begin(steps, &mut None).await?.is_some() {
                    return Err(Error::bug("a write was committed by nobody").into());
                }
                self.left_out = 0;
            }
            row += failure.applied;
            if tried > 1 {
                stride = next_stride(&failure, tried);
                continue;
            }
            let found = self.rejected(write, row, &failure.error, failure.column.clone());
            if let Some(trouble) = self.put_down(row, found, rejected) {
                return Err(trouble);
            }
            row += 1;
            let dense = (row - first) / EACH_BETWEEN_MAX < rejected.len();
            each = has_each && dense && rejected.len() >= EACH_AFTER;
            stride = if failure.suspect.is_some() {
                STRIDE_NAMED
            } else {
                1
            };
        }
        Ok(())
    }

    /// Applies rows from `first` on one by one, where the database has its own way for that; how many.
    async fn write_each(
        &mut self,
        write: &Write,
        first: usize,
        rejected: &mut Vec<(usize, Reject)>,
    ) -> Result<Option<usize>, WriteError> {
        // Of a file that is all bad not many more are tried than may be.
        let left = usize::try_from(self.shared.rejects_left()).unwrap_or(usize::MAX);
        let most = left.saturating_mul(2).clamp(EACH_ROWS_MIN, EACH_ROWS_MAX);
        let count = (write.rows.num_rows() - first).min(most);
        let rows = write.rows.slice(first, count);
        let writer = self
            .writer
            .as_mut()
            .ok_or_else(|| Error::bug("a transaction without a writer"))?;
        let written = self
            .shared
            .times
            .call(self.lane, writer.write_each(&rows))
            .await?;
        let Some(outcome) = written else {
            return Ok(None);
        };
        let progress = &self.shared.progress;
        progress
            .statements
            .fetch_add(outcome.statements, Ordering::Relaxed);
        progress
            .bytes_sent
            .fetch_add(outcome.bytes_sent, Ordering::Relaxed);
        self.left_out += outcome.skipped;
        for refused in outcome.refused {
            let row = first + refused.row;
            let found = self.rejected(write, row, &refused.error, refused.column);
            if let Some(trouble) = self.put_down(row, found, rejected) {
                return Err(trouble);
            }
        }
        Ok(Some(count))
    }

    /// Counts a bad row, unless it ends the run or is one more than are allowed.
    fn put_down(
        &mut self,
        row: usize,
        found: Reject,
        rejected: &mut Vec<(usize, Reject)>,
    ) -> Option<WriteError> {
        if self.shared.plan.on_error == OnError::Stop {
            return Some(WriteError::Failed(stopped_by(&found, &self.shared.plan)));
        }
        if !self.shared.take_reject() {
            return Some(WriteError::Full(row));
        }
        self.taken += 1;
        rejected.push((row, found));
        None
    }

    fn rejected(&self, write: &Write, row: usize, error: &Error, column: Option<String>) -> Reject {
        let problem = Problem {
            column,
            code: error.code_text().unwrap_or_default().to_owned(),
            message: error.to_string(),
            hint: error.hint_text().map(str::to_owned),
        };
        match write.place(row) {
            Some((_, origin, at)) => {
                let mut found = reject(&write.rows.slice(row, 1), &self.names, origin, 0, problem);
                found.file = origin.file(at);
                found.row = origin.row(at);
                found.offset = origin.offset(at);
                found
            }
            None => Reject {
                file: "".into(),
                row: 0,
                offset: None,
                problem,
                data: tonnage_core::reject::RejectData::Fields(Vec::new()),
            },
        }
    }
}

/// How many rows to try after `failure` of `tried` rows.
pub(super) fn next_stride(failure: &Failure, tried: usize) -> usize {
    match failure.suspect {
        Some(suspect) if suspect > failure.applied && suspect < tried => suspect - failure.applied,
        Some(_) => 1,
        None => ((tried - failure.applied.min(tried)) / 2).max(1),
    }
}
