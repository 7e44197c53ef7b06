//! The foreign keys of a table that is spread over all members.
//!
//! Each member enforces its own among its own rows. So a foreign key says which rows belong together only where it leads
//! by the whole shard key, whose values are in one member; otherwise rows of other members may have the same values. It is
//! then there, and says why it is not followed.

use std::sync::Arc;

use tonnage_core::{
    error::Result,
    table::{ForeignKey, TableName},
    target::Target,
};

use super::ShardedTarget;

/// The keys that any member has.
pub(super) async fn of(target: &ShardedTarget, table: &TableName) -> Result<Vec<ForeignKey>> {
    let own = async |at: usize, member: Arc<dyn Target>| {
        let name = target.table_of(at, table).await?.name.clone();
        let mut keys = member.foreign_keys(&name).await?;
        for key in &mut keys {
            key.table = target.plain(at, &key.table);
        }
        Ok((at, keys))
    };
    let members: Vec<(usize, Vec<ForeignKey>)> = target
        .each(own)
        .await?
        .into_iter()
        .filter_map(Result::ok)
        .collect();
    let mut united: Vec<ForeignKey> = Vec::new();
    for (_, keys) in &members {
        for key in keys {
            if !united.iter().any(|known| is_same(known, key)) {
                united.push(key.clone());
            }
        }
    }
    for key in &mut united {
        let lacking = members
            .iter()
            .find(|(_, keys)| !keys.iter().any(|own| is_same(own, key)));
        let unled = target.key.iter().find(|column| !key.key.contains(column));
        key.partial = match (lacking, unled) {
            (Some((at, _)), _) => Some(format!("{} does not have it", target.names[*at])),
            (None, Some(column)) => Some(format!(
                "each database keeps it among its own rows, as it does not lead to '{column}', by which {} is sharded",
                key.table
            )),
            (None, None) => None,
        };
    }
    Ok(united)
}

/// Whether two members mean the same: schemas may differ, as a search path may lead to another one in each.
fn is_same(a: &ForeignKey, b: &ForeignKey) -> bool {
    a.columns == b.columns && a.table.name == b.table.name && a.key == b.key
}
