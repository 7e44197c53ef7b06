//! The statements by which a writer moves slots in the transactions of its rows.

use std::fmt::Write;

use mysql_async::Conn;
use tonnage_core::{error::Result, ledger::RunHandle, slot::Advance};
use tonnage_sql::ledger::{Tables, with_claimed};

use super::{literal, place::existing};

/// The statements by which a writer moves slots. They hold nothing but numbers and the run's id.
///
/// The slots are looked up by their key (`STRAIGHT_JOIN`). Otherwise, while the statistics say that the table is small,
/// the server reads all slots of the run and locks those of other lanes as well: lanes wait for each other, and deadlock.
pub(crate) struct Mover {
    handle: RunHandle,
    /// The table in SQL.
    slots: String,
}

impl Mover {
    pub async fn new(conn: &mut Conn, handle: &RunHandle, asked: Option<&str>) -> Result<Self> {
        let Tables { slots, .. } = existing(conn, asked).await?;
        Ok(Self {
            handle: handle.clone(),
            slots,
        })
    }

    fn of_run(&self) -> String {
        format!(
            "s.run_id = {} AND s.epoch = {}",
            literal(&self.handle.run_id),
            self.handle.epoch
        )
    }

    /// The compare-and-set; it must move as many rows as there are advances.
    pub fn claim(&self, advances: &[Advance]) -> String {
        let mut given = String::new();
        for (index, a) in advances.iter().enumerate() {
            if index > 0 {
                given.push_str(" UNION ALL ");
            }
            let _ = write!(
                given,
                "SELECT {} AS slot, {} AS from_block, {} AS from_rows, {} AS block, {} AS block_rows, {} AS file, \
                 {} AS byte_offset, {} AS file_rows, {} AS source_rows, {} AS hash, {} AS written, {} AS skipped, \
                 {} AS rejected",
                a.slot,
                a.from.block,
                a.from.rows,
                a.to.block,
                a.to.rows,
                a.mark.file,
                a.mark.offset,
                a.mark.file_rows,
                a.mark.rows,
                a.mark.hash,
                a.counts.written,
                a.counts.skipped,
                a.counts.rejected
            );
        }
        format!(
            "UPDATE ({given}) AS a STRAIGHT_JOIN {} AS s ON s.slot = a.slot \
             SET s.block = a.block, s.block_rows = a.block_rows, s.file = a.file, s.byte_offset = a.byte_offset, \
                 s.file_rows = a.file_rows, s.source_rows = a.source_rows, s.hash = a.hash, \
                 s.written = s.written + a.written, s.skipped = s.skipped + a.skipped, \
                 s.rejected = s.rejected + a.rejected, s.moves = s.moves + 1 \
             WHERE {} AND s.block = a.from_block AND s.block_rows = a.from_rows",
            self.slots,
            self.of_run()
        )
    }

    /// Turns the counts claimed into those of `advances`.
    pub fn adjust(&self, claimed: &[Advance], advances: &[Advance]) -> Result<String> {
        let mut given = String::new();
        for (index, (advance, before)) in with_claimed(claimed, advances)?.into_iter().enumerate() {
            if index > 0 {
                given.push_str(" UNION ALL ");
            }
            let difference = |after: u64, before: u64| i128::from(after) - i128::from(before);
            let Advance { slot, counts, .. } = advance;
            let written = difference(counts.written, before.written);
            let skipped = difference(counts.skipped, before.skipped);
            let rejected = difference(counts.rejected, before.rejected);
            let _ = write!(
                given,
                "SELECT {slot} AS slot, {written} AS written, {skipped} AS skipped, {rejected} AS rejected"
            );
        }
        Ok(format!(
            "UPDATE ({given}) AS a STRAIGHT_JOIN {} AS s ON s.slot = a.slot \
             SET s.written = s.written + a.written, s.skipped = s.skipped + a.skipped, \
                 s.rejected = s.rejected + a.rejected, s.moves = s.moves + 1 WHERE {}",
            self.slots,
            self.of_run()
        ))
    }
}
