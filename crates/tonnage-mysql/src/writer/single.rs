//! A transaction that goes on over all writes of a run.

use mysql_async::prelude::Queryable;
use tonnage_core::{
    error::Result,
    slot::{Advance, gather},
    target::Claim,
};

use super::MysqlWriter;
use crate::{errors, statements};

impl MysqlWriter {
    /// The compare-and-set of the ledger rows; where they have moved the transaction is rolled back.
    pub(super) async fn claim(&mut self, advances: &[Advance]) -> Result<Claim> {
        let Some(mover) = self.mover.as_ref().filter(|_| !advances.is_empty()) else {
            return Ok(Claim::Held);
        };
        let moved = match self.link.conn.query_drop(mover.claim(advances)).await {
            Ok(()) => self.link.conn.affected_rows(),
            Err(failure) => {
                self.link.give_up().await;
                return Err(errors::statement(failure));
            }
        };
        if moved != advances.len() as u64 {
            self.link.give_up().await;
            return Ok(Claim::Moved);
        }
        gather(&mut self.claimed, advances);
        Ok(Claim::Held)
    }

    /// Moves further slots in the open transaction. A failure undoes all of it: nothing may be written by itself
    /// behind a transaction that a deadlock has ended.
    pub(super) async fn go_on(&mut self, advances: &[Advance]) -> Result<Claim> {
        let claim = self.claim(advances).await?;
        if claim == Claim::Held && !advances.is_empty() && self.mover.is_some() {
            self.link.still_open()?;
        }
        Ok(claim)
    }

    /// Empties the table, where that belongs to the transaction.
    pub(super) async fn empty(&mut self) -> Result<()> {
        if !self.subject.truncates {
            return Ok(());
        }
        let name = &self.subject.table.name;
        let emptied = self.link.plain(&statements::empty(name)).await;
        emptied.map_err(|e| e.at(format!("cannot empty {name}")))?;
        self.link.still_open()
    }
}
