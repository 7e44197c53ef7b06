//! A transaction that goes on over all writes of a run.

use tonnage_core::{
    error::Result,
    slot::{Advance, gather},
    target::Claim,
};

use super::{PostgresWriter, PreparedStrategy, State};
use crate::{errors, ledger::borrowed, statements};

impl PostgresWriter {
    /// Moves further slots in the open transaction.
    pub(super) async fn go_on(&mut self, advances: &[Advance]) -> Result<Claim> {
        let Some(mover) = self.mover.as_ref().filter(|_| !advances.is_empty()) else {
            return Ok(Claim::Held);
        };
        let (statement, parameters) = mover.claim(advances);
        let moved = self.client.execute(statement, &borrowed(&parameters)).await;
        let moved = moved
            .inspect_err(|_| self.state = State::Broken)
            .map_err(errors::statement)?;
        if moved != advances.len() as u64 {
            self.give_up().await;
            return Ok(Claim::Moved);
        }
        gather(&mut self.claimed, advances);
        Ok(Claim::Held)
    }

    /// Empties the stage before a further write of a single transaction. Outside a savepoint TRUNCATE gives its pages
    /// back at once; rows that were deleted would stay until the end, to be passed over by every later write.
    pub(super) async fn clear_stage(&mut self) -> Result<()> {
        if !(self.single_transaction && self.staged && matches!(self.path, PreparedStrategy::Stage { .. })) {
            return Ok(());
        }
        let cleared = self
            .client
            .batch_execute(&format!("TRUNCATE {}", statements::STAGE))
            .await;
        cleared
            .inspect_err(|_| self.state = State::Broken)
            .map_err(errors::statement)?;
        self.staged = false;
        Ok(())
    }

    /// Empties the table, where that belongs to the transaction.
    pub(super) async fn empty(&mut self) -> Result<()> {
        let Some(statement) = &self.truncate else {
            return Ok(());
        };
        let emptied = self.client.batch_execute(statement).await;
        emptied
            .inspect_err(|_| self.state = State::Broken)
            .map_err(|e| errors::statement(e).at(format!("cannot empty {}", self.table.name)))
    }
}
