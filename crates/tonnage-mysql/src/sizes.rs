//! What one statement of many rows carries.
//!
//! - Never more than the server takes: its packet, and 65,535 parameters.
//! - PolarDB-X cuts a statement of more than 256 KiB (`MAX_BATCH_INSERT_SQL_LENGTH`) into statements of 200 rows
//!   (`BATCH_INSERT_CHUNK_SIZE_DEFAULT`) that it runs one after another, so it is sent less than either, unless the
//!   statement asks it not to.
//! - Where it does not cut, its makers advise 100 to 1,000 rows for each shard of the table, 2 to 8 MB, and never more
//!   than 16: every shard gets rows of one statement at the same time.

use tonnage_core::{operation::Split, target::StatementMax};

use super::product::{Product, Version};

/// The most parameters of a statement.
pub(super) const PARAMETERS_MAX: usize = 65_535;
/// What a packet holds in addition to its rows: the statement's head and the types of its columns.
const PACKET_HEADER_BYTES: usize = 16 << 10;

/// What a statement's rows may take of a packet; a small one leaves its head a quarter.
pub(super) fn packet_rows_bytes(packet_bytes_max: usize) -> usize {
    let header = PACKET_HEADER_BYTES.min(packet_bytes_max / 4);
    packet_bytes_max.saturating_sub(header).max(1)
}
/// Of a table that is one: more was measured to gain nothing.
const STATEMENT_BYTES: usize = 4 << 20;
/// From here on PolarDB-X splits.
const SPLIT_BYTES: usize = 256 << 10;
/// Into statements of so many rows.
const SPLIT_ROWS: usize = 200;
/// The most of a statement for each shard of its table.
const SHARD_ROWS: usize = 1_000;
/// The same in bytes, within what is advised for all of them.
const SHARD_BYTES: usize = 256 << 10;
const SHARDS_BYTES_LEAST: usize = 2 << 20;
const SHARDS_BYTES_MOST: usize = 8 << 20;

/// What decides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes<'a> {
    pub version: &'a Version,
    /// Of a row.
    pub columns: usize,
    /// The tables that the table is spread over; 1 where it is one.
    pub shards: usize,
    /// The largest packet that the server takes.
    pub packet_bytes_max: usize,
}

impl Sizes<'_> {
    /// The most that a statement carries.
    pub fn statement_max(&self, split: Split) -> StatementMax {
        let by_parameters = (PARAMETERS_MAX / self.columns.max(1)).max(1);
        let packet = packet_rows_bytes(self.packet_bytes_max);
        let within = |bytes: usize, why: String| match packet < bytes {
            true => (packet, "the server takes no larger packet".to_owned()),
            false => (bytes, why),
        };
        let (rows, (bytes, why)) = match (self.version.product, split) {
            (Product::PolarDbX, Split::Auto) => (
                by_parameters.min(SPLIT_ROWS),
                within(
                    SPLIT_BYTES - PACKET_HEADER_BYTES,
                    "the server splits what is larger".to_owned(),
                ),
            ),
            (Product::PolarDbX, Split::None) => {
                let shards = self.shards.max(1);
                let bytes = shards.saturating_mul(SHARD_BYTES);
                (
                    by_parameters.min(shards.saturating_mul(SHARD_ROWS)),
                    within(
                        bytes.clamp(SHARDS_BYTES_LEAST, SHARDS_BYTES_MOST),
                        match shards {
                            1 => "the server is told not to split it".to_owned(),
                            _ => format!("for {shards} shards; the server is told not to split it"),
                        },
                    ),
                )
            }
            _ => (
                match self.version.has_bulk() {
                    true => usize::MAX,
                    false => by_parameters,
                },
                within(STATEMENT_BYTES, "more would gain nothing".to_owned()),
            ),
        };
        StatementMax { rows, bytes, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_stays_below_what_the_server_would_cut_or_refuse() {
        const KIB: usize = 1 << 10;
        const MIB: usize = 1 << 20;
        let maria = "10.11.1-MariaDB";
        let mysql = "8.0.36";
        let polardb = "5.6.29-TDDL-5.4.18-1";
        for (text, columns, shards, packet, split, wanted) in [
            (maria, 10, 1, 16 * MIB, Split::Auto, (usize::MAX, 4 * MIB)),
            (maria, 10, 1, MIB, Split::Auto, (usize::MAX, MIB - 16 * KIB)),
            (maria, 10, 1, 16 * KIB, Split::Auto, (usize::MAX, 12 * KIB)),
            (mysql, 10, 1, KIB, Split::Auto, (6_553, 768)),
            // 65,535 parameters.
            (mysql, 10, 1, 64 * MIB, Split::Auto, (6_553, 4 * MIB)),
            (mysql, 100_000, 1, 64 * MIB, Split::Auto, (1, 4 * MIB)),
            (polardb, 10, 16, 16 * MIB, Split::Auto, (200, 240 * KIB)),
            (polardb, 1_000, 16, 16 * MIB, Split::Auto, (65, 240 * KIB)),
            (polardb, 10, 16, 128 * KIB, Split::Auto, (200, 112 * KIB)),
            // 1,000 rows a shard, 2 to 8 MiB.
            (polardb, 2, 1, 16 * MIB, Split::None, (1_000, 2 * MIB)),
            (polardb, 2, 16, 16 * MIB, Split::None, (16_000, 4 * MIB)),
            (polardb, 2, 24, 16 * MIB, Split::None, (24_000, 6 * MIB)),
            (polardb, 2, 512, 64 * MIB, Split::None, (32_767, 8 * MIB)),
            (polardb, 10, 16, 2 * MIB, Split::None, (6_553, 2 * MIB - 16 * KIB)),
        ] {
            let version = Version::parse(text).unwrap();
            let sizes = Sizes {
                version: &version,
                columns,
                shards,
                packet_bytes_max: packet,
            };
            let most = sizes.statement_max(split);
            let shown = format!("{text} {columns} {shards} {packet} {split:?}");
            assert_eq!((most.rows, most.bytes), wanted, "{shown}");
            assert!(most.bytes <= 16 * MIB, "{shown}");
        }
    }
}
