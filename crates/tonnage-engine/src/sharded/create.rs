//! The new table, in every member.
//!
//! Where a member does not take it, the others have it by then, and the error says which: they are not dropped, since
//! somebody may have used one meanwhile.

use tonnage_core::{
    error::{Error, Result},
    table::{TableSpec, columns_hint},
};

use super::{ShardedTarget, key};

/// The statement that makes it in each of them. `Schema` where it cannot be sharded.
pub(super) fn statement(target: &ShardedTarget, spec: &TableSpec) -> Result<String> {
    for column in &target.key {
        let Some(known) = spec.columns.iter().find(|known| known.name == *column) else {
            return Err(Error::schema(format!(
                "the new table {} has no column '{column}', by which it is sharded",
                spec.name
            ))
            .hint(columns_hint(
                column,
                spec.columns.iter().map(|known| known.name.as_str()),
            )));
        };
        if key::form(&known.ty).is_none() {
            return Err(Error::schema(format!(
                "the new table {} cannot be sharded by '{column}': only the server can tell whether two values of type \
                 {} are equal",
                spec.name, known.ty
            ))
            .hint(format!("--type {column}=int64, text or decimal(p,s) gives it another one")));
        }
    }
    let connected = target.members.iter().find_map(|member| member.target.get());
    connected
        .ok_or_else(|| Error::bug("a sharded target without a connected member"))?
        .create_statement(spec)
}

/// Makes it in all of them.
pub(super) async fn create(target: &ShardedTarget, spec: &TableSpec) -> Result<()> {
    statement(target, spec)?;
    // Before any is made: one that is away has no table either.
    target.all(async |_, _| Ok(())).await?;
    let created = target
        .all_answers(async |_, member| member.create(spec).await)
        .await;
    let (mut made, mut failed) = (Vec::new(), None);
    for (name, created) in target.names.iter().zip(created) {
        match created {
            Ok(()) => made.push(name.as_str()),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        None => Ok(()),
        Some(error) if made.is_empty() => Err(error),
        Some(error) => Err(error.hint(format!(
            "table {} was made in {} of {} databases and is empty there: drop it in {}, put right what is wrong, and \
             load again",
            spec.name,
            made.len(),
            target.members.len(),
            made.join(" and ")
        ))),
    }
}
