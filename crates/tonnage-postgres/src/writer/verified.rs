//! The claim that a transaction begins with, and whether the table is what it was.

use tonnage_core::{
    error::{Error, Result},
    operation::Operation,
    slot::Advance,
    table::altered,
    target::Claim,
};

use super::{PostgresWriter, PreparedStrategy, Runs};
use crate::{catalog, errors, ledger::borrowed};

impl PostgresWriter {
    /// Moves the slots of `advances`.
    pub(super) async fn claim(&self, advances: &[Advance]) -> Result<Claim> {
        let Some(mover) = self.mover.as_ref().filter(|_| !advances.is_empty()) else {
            return Ok(Claim::Held);
        };
        let (statement, parameters) = mover.claim(advances);
        let moved = self.client.execute(statement, &borrowed(&parameters)).await;
        match moved.map_err(errors::statement)? == advances.len() as u64 {
            true => Ok(Claim::Held),
            false => Ok(Claim::Moved),
        }
    }

    /// Whether the table is what it was.
    pub(super) async fn holds(&self) -> Result<bool> {
        match (&self.path, &self.definition) {
            (PreparedStrategy::Altered(_), _) => Ok(false),
            (_, Some(definition)) => definition.holds(&self.client).await,
            (_, None) => Ok(true),
        }
    }

    /// Whether the partitions that the rows of `runs` go to are what they were.
    pub(super) async fn partitions_hold(&self, runs: &Runs) -> Result<bool> {
        let PreparedStrategy::Partitions { copies, .. } = &self.path else {
            return Ok(true);
        };
        let unverified = |shard: &u16| copies.get(shard).filter(|copy| !copy.verified);
        let mut shards: Vec<u16> = runs.iter().map(|(_, shard)| *shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let definitions = shards
            .iter()
            .filter_map(unverified)
            .filter_map(|copy| copy.definition.as_ref());
        let held = definitions.map(|definition| definition.holds(&self.client));
        let held = futures::future::try_join_all(held).await?;
        Ok(held.into_iter().all(|held| held))
    }

    /// That the partitions of `runs` need not be asked again in this transaction.
    pub(super) fn verified(&mut self, runs: &Runs) {
        if let PreparedStrategy::Partitions { copies, .. } = &mut self.path {
            for (_, shard) in runs {
                if let Some(copy) = copies.get_mut(shard) {
                    copy.verified = true;
                }
            }
        }
    }

    /// Ends the transaction of a table that is not what it was, and says what differs.
    pub(super) async fn altered(&mut self) -> Error {
        self.give_up().await;
        let name = &self.table.name;
        let what = match (&self.path, &self.operation) {
            (PreparedStrategy::Altered(what), _) => Some(what.clone()),
            (_, Operation::Statement { .. }) => None,
            _ => match catalog::describe(&self.client, name).await {
                Ok(now) => altered(&self.table, now.as_ref().map(|now| &now.table)),
                // Why it cannot be read is not what matters.
                Err(_) => None,
            },
        };
        Error::altered(name, what.as_deref().unwrap_or("was altered"))
    }
}
