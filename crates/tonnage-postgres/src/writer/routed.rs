//! Rows by the partitions that they go to.

use std::collections::hash_map::Entry;

use arrow::array::RecordBatch;
use tonnage_core::error::{Error, Result};

use super::{PartitionCopy, PostgresWriter, PreparedStrategy, Runs, State, table_statements};
use crate::{
    definition::{Definition, DefinitionQuery},
    statements,
};

impl PostgresWriter {
    /// Consecutive rows of a partition; none where the rows go to one table. The COPY of a partition is
    /// prepared when its first rows come.
    pub(super) async fn runs(&mut self, rows: &RecordBatch) -> Result<Runs> {
        let PreparedStrategy::Partitions {
            partitions,
            routing,
            copies,
        } = &mut self.path
        else {
            return Ok(Vec::new());
        };
        let shards = routing.route(rows)?;
        let mut runs = Vec::new();
        let mut end = 0;
        for run in shards.chunk_by(|a, b| a == b) {
            let (start, shard) = (end, run[0]);
            end += run.len();
            if let Entry::Vacant(entry) = copies.entry(shard) {
                let table = partitions
                    .table(shard)
                    .ok_or_else(|| Error::bug("a row was routed to a partition that is not there"))?;
                let watched = DefinitionQuery {
                    table,
                    as_partition: true,
                    beside: None,
                };
                let prepared = async {
                    let definition = match partitions.oid(shard) {
                        // The transaction has begun with this one.
                        None => None,
                        Some(oid) => match Definition::read(&self.client, watched).await? {
                            Some(now) if now.oid() == oid => Some(now),
                            _ => return Ok(None),
                        },
                    };
                    let copy = statements::copy(table, &self.columns);
                    Ok(Some(PartitionCopy {
                        copy: table_statements::statement(&self.client, &copy).await?,
                        definition,
                        verified: false,
                    }))
                };
                match prepared.await {
                    Ok(Some(copy)) => {
                        entry.insert(copy);
                    }
                    Ok(None) => return Err(self.altered().await),
                    Err(error) => {
                        self.state = State::Broken;
                        return Err(error);
                    }
                }
            }
            runs.push((start..end, shard));
        }
        Ok(runs)
    }
}
