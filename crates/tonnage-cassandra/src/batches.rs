//! Which rows go together: those of a partition, else those that the same nodes hold.
//!
//! A batch costs its coordinator a message to every replica of every row in it, so a batch of rows that share their
//! replicas, sent to one of these, costs little more than a single row; a batch of any rows is slower than none.

use std::collections::HashMap;

use scylla::{
    client::session::Session,
    routing::{
        Token,
        partitioner::{Partitioner, PartitionerHasher, PartitionerName},
    },
};

use super::{catalog::Described, encode::Cells};

/// Bytes of a batch, as the server is believed to count them: it refuses more than 50 KiB by default
/// (`batch_size_fail_threshold`). A batch that it refuses is sent in halves.
pub(super) const BYTES_MAX: usize = 44 << 10;

/// What the server counts in addition to the bytes of a value: its timestamp, its time to live and when it is deleted.
const CELL_BYTES: usize = 24;

/// Rows of a batch: more bring nothing once they share their replicas.
const ROWS_MAX: usize = 1_000;

/// Requests under way a lane. 256 single rows, or 64 batches of 44 KiB.
pub(super) const IN_FLIGHT_MAX: usize = 256;

/// Batches count for so many requests.
pub(super) const BATCH_WEIGHT: usize = 4;

/// Which nodes hold which tokens.
pub(super) struct Ring {
    /// Where each range ends, ascending, and the number of the set of nodes that hold it.
    ranges: Vec<(i64, usize)>,
}

impl Ring {
    /// The ring as the driver knows it by now. Where it changes meanwhile, batches are slower and no less right.
    pub fn of(session: &Session, described: &Described) -> Self {
        let state = session.get_cluster_state();
        let table = &described.table.name.name;
        let mut sets: HashMap<Vec<uuid::Uuid>, usize> = HashMap::new();
        let ends = state.replica_locator().ring().iter().map(|(token, _)| *token);
        let ranges = ends.map(|token| {
            let replicas = state.get_token_endpoints(&described.keyspace, table, token);
            let mut hosts: Vec<_> = replicas.iter().map(|(node, _)| node.host_id).collect();
            hosts.sort_unstable();
            let next = sets.len();
            (token.value(), *sets.entry(hosts).or_insert(next))
        });
        let mut ranges: Vec<_> = ranges.collect();
        ranges.sort_unstable();
        Self { ranges }
    }

    /// The set of nodes that hold `token`.
    pub fn set(&self, token: i64) -> usize {
        let at = self.ranges.partition_point(|(end, _)| *end < token);
        // Behind the last end the ring begins anew.
        let range = self.ranges.get(at).or(self.ranges.first());
        range.map_or(0, |(_, set)| *set)
    }

    /// The ends of the ranges, ascending.
    pub fn ends(&self) -> impl Iterator<Item = i64> {
        self.ranges.iter().map(|(end, _)| *end)
    }
}

/// The token of a partition key.
pub(super) fn token<'a>(key: impl ExactSizeIterator<Item = &'a [u8]>) -> Token {
    let mut hasher = PartitionerName::Murmur3.build_hasher();
    let single = key.len() == 1;
    for part in key {
        if single {
            hasher.write(part);
        } else {
            hasher.write(&(part.len() as u16).to_be_bytes());
            hasher.write(part);
            hasher.write(&[0]);
        }
    }
    hasher.finish()
}

/// Puts the rows into batches. `partition` are the places of the partition key among `columns`, in its order.
pub(super) fn group(columns: &[Cells], partition: &[usize], rows: usize, ring: &Ring) -> Vec<Vec<usize>> {
    let mut placed: Vec<(usize, i64, usize)> = (0..rows)
        .map(|row| {
            let parts = partition
                .iter()
                .map(|at| columns[*at].get(row).unwrap_or_default());
            let token = token(parts).value();
            (ring.set(token), token, row)
        })
        .collect();
    placed.sort_unstable();
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let (mut set_before, mut bytes_left) = (None, 0);
    for (set, _, row) in placed {
        let bytes: usize = columns
            .iter()
            .map(|column| CELL_BYTES + column.get(row).map_or(0, <[u8]>::len))
            .sum();
        match batches.last_mut() {
            Some(batch) if set_before == Some(set) && bytes <= bytes_left && batch.len() < ROWS_MAX => {
                batch.push(row);
                bytes_left -= bytes;
            }
            _ => {
                batches.push(vec![row]);
                bytes_left = BYTES_MAX.saturating_sub(bytes);
                set_before = Some(set);
            }
        }
    }
    batches
}

#[cfg(test)]
impl Ring {
    /// A ring of ranges that all have the same nodes.
    pub fn with_ends(ends: &[i64]) -> Self {
        Self {
            ranges: ends.iter().map(|end| (*end, 0)).collect(),
        }
    }
}
