//! Whether a table that a crash empties still has what a run has written to it.
//!
//! `tonnage_unlogged` is an UNLOGGED table next to the ledger. It has the id of each run into a table that is UNLOGGED, or
//! has partitions that are: from the transaction on that starts the run, so before any row. Whatever empties the one empties
//! the other: a crash of the server, the promotion of a replica, a dump without the rows of such tables. So:
//!
//! - A run may go on, or be finished, only as long as its witness is there. A writer looks as it connects, since a
//!   crash ends every connection; finishing a run looks in its own transaction.
//! - A table that was made LOGGED while the witness was there has all rows, and keeps them: its runs need none from then on.
//! - A table that was made UNLOGGED after its run began has no witness of it, and nobody knows whether its rows are there.

use tokio_postgres::{Client, GenericClient};
use tonnage_core::{
    error::{Error, Result},
    ledger::{Emptied, RunDetail, RunHandle, inputs::InputDetail},
};
use tonnage_sql::ledger::{self, Tables};

use super::{
    begin,
    place::{existing, found, witnesses},
    session::InSession,
    setup,
};
use crate::{
    catalog::{self, get},
    errors,
};

/// `pg_class.relpersistence` of the witnesses' table; none where there is none.
async fn persistence(client: &impl GenericClient, tables: &Tables) -> Result<Option<String>> {
    let row = client
        .query_opt(
            "SELECT relpersistence::text FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass($1::text)",
            &[&witnesses(tables)],
        )
        .await
        .map_err(errors::statement)?;
    row.map(|row| get(&row, 0)).transpose()
}

/// Whether there are witnesses that go with an emptied table.
async fn are_kept(client: &impl GenericClient, tables: &Tables) -> Result<bool> {
    Ok(persistence(client, tables).await?.as_deref() == Some("u"))
}

/// Puts the witness of a run, in the transaction that starts it; makes their table where it is missing.
pub(super) async fn put(client: &impl GenericClient, tables: &Tables, run_id: &str) -> Result<()> {
    if !are_kept(client, tables).await? {
        setup::lock(client).await?;
        if !are_kept(client, tables).await? {
            make(client, tables).await?;
        }
    }
    let put = format!(
        "INSERT INTO {} (run_id) VALUES ($1) ON CONFLICT DO NOTHING",
        witnesses(tables)
    );
    let put = client.execute(&put, &[&run_id]).await;
    put.map(|_| ()).map_err(errors::statement)
}

/// The statement that makes their table.
pub(super) fn definition(tables: &Tables) -> String {
    format!(
        "CREATE UNLOGGED TABLE IF NOT EXISTS {} (run_id text PRIMARY KEY)",
        witnesses(tables)
    )
}

/// Makes their table, in place of one that is LOGGED: what that one has witnesses nothing.
async fn make(client: &impl GenericClient, tables: &Tables) -> Result<()> {
    let witnesses = &witnesses(tables);
    let make = format!("DROP TABLE IF EXISTS {witnesses}; {}", definition(tables));
    client.batch_execute(&make).await.map_err(|e| {
        let error = errors::statement(e).at(format!("cannot make {witnesses}, next to the ledger"));
        match error.code_text() {
            Some("42501") => error.hint(
                "a load into an UNLOGGED table needs it: `tonnage init TARGET --grant ROLE` prints what makes it, for the \
                 database's owner; or use --ledger none",
            ),
            _ => error,
        }
    })?;
    setup::grant(client, &tables.runs, witnesses).await
}

/// Those of `run_ids` whose witness is there.
async fn present(client: &impl GenericClient, tables: &Tables, run_ids: &[String]) -> Result<Vec<String>> {
    if !are_kept(client, tables).await? {
        return Ok(Vec::new());
    }
    let present = format!("SELECT run_id FROM {} WHERE run_id = ANY ($1)", witnesses(tables));
    let present = client.query(&present, &[&run_ids]).await;
    let present = present.map_err(errors::statement)?;
    present.iter().map(|row| get(row, 0)).collect()
}

/// Removes the witness of a run that is forgotten.
pub(super) async fn remove(client: &impl GenericClient, tables: &Tables, run_id: &str) -> Result<()> {
    if !are_kept(client, tables).await? {
        return Ok(());
    }
    let remove = format!("DELETE FROM {} WHERE run_id = $1", witnesses(tables));
    let removed = client.execute(&remove, &[&run_id]).await;
    removed.map(|_| ()).map_err(errors::statement)
}

/// Refuses to go on with a run that is at work where its witness is gone.
pub(super) async fn check(client: &impl GenericClient, tables: &Tables, run_id: &str) -> Result<()> {
    match present(client, tables, &[run_id.to_owned()]).await?.is_empty() {
        false => Ok(()),
        true => Err(Error::config(format!(
            "a crash of the server has emptied the table, which is UNLOGGED: what run {run_id} has written is gone"
        ))
        .hint("--restart loads all of it, as a new run")),
    }
}

/// A run, as far as it matters here.
struct Known {
    run_id: String,
    /// Whether the table was UNLOGGED when the run began.
    was_unlogged: bool,
    /// The table's object id, where it is on record.
    table: Option<u32>,
    name: String,
    /// Whether the run itself is on record.
    is_kept: bool,
}

/// The object id in a table's identity.
fn object_id(object: &str) -> Option<u32> {
    let (_, oid) = object.split(' ').next()?.split_once('.')?;
    oid.parse().ok()
}

async fn known(client: &Client, tables: &Tables, run_ids: &[String]) -> Result<Vec<Known>> {
    let Tables { runs, inputs, .. } = tables;
    let kept = format!("SELECT run_id, detail FROM {runs} WHERE run_id = ANY ($1)");
    let kept = client
        .query(&kept, &[&run_ids])
        .await
        .map_err(errors::statement)?;
    let mut known = Vec::new();
    for row in &kept {
        let run_id: String = get(row, 0)?;
        // A record that cannot be read was reported when it was looked up.
        let Ok(detail) = RunDetail::from_json(&run_id, &get::<String>(row, 1)?) else {
            continue;
        };
        let identity = match &detail.member {
            Some(member) => &member.table_identity,
            None => &detail.table_identity,
        };
        known.push(Known {
            run_id,
            was_unlogged: detail.emptied_by_crash,
            table: object_id(&identity.object),
            name: detail.own_table(),
            is_kept: true,
        });
    }
    let Some(inputs) = inputs else {
        return Ok(known);
    };
    let pruned = format!(
        "SELECT i.run_id, i.detail FROM {inputs} i WHERE i.run_id = ANY ($1) AND i.number = 1 \
           AND NOT EXISTS (SELECT FROM {runs} r WHERE r.run_id = i.run_id)"
    );
    let pruned = client.query(&pruned, &[&run_ids]).await;
    for row in &pruned.map_err(errors::statement)? {
        let Ok(detail) = serde_json::from_str::<InputDetail>(&get::<String>(row, 1)?) else {
            continue;
        };
        known.push(Known {
            run_id: get(row, 0)?,
            was_unlogged: detail.emptied_by_crash,
            table: None,
            name: detail.table,
            is_kept: false,
        });
    }
    Ok(known)
}

/// See [`Ledger::emptied`](tonnage_core::ledger::Ledger::emptied).
pub(super) async fn emptied(
    client: &mut Client,
    asked: Option<&str>,
    run_ids: &[String],
) -> Result<Vec<Emptied>> {
    let Some(tables) = found(client, asked).await? else {
        return Ok(Vec::new());
    };
    if run_ids.is_empty() {
        return Ok(Vec::new());
    }
    let known = known(client, &tables, run_ids).await?;
    // Read before the witnesses: one that is there once the table is LOGGED was there when it was made so.
    let mut unlogged: Vec<(u32, bool)> = Vec::new();
    for oid in known.iter().filter_map(|run| run.table) {
        if !unlogged.iter().any(|(seen, _)| *seen == oid) {
            unlogged.push((oid, catalog::is_unlogged(client, oid).await?));
        }
    }
    let present = present(client, &tables, run_ids).await?;
    let mut emptied = Vec::new();
    for run in known {
        let now = unlogged.iter().find(|(oid, _)| run.table == Some(*oid));
        let is_unlogged = now.map(|(_, is_unlogged)| *is_unlogged);
        let is_there = present.contains(&run.run_id);
        let Known { run_id, name, .. } = run;
        let why = match (run.was_unlogged, is_unlogged, is_there) {
            (true, Some(false), true) => {
                if run.is_kept {
                    keeps_rows_from_now(client, &tables, &run_id).await?;
                }
                continue;
            }
            (_, _, true) | (false, None | Some(false), _) => continue,
            (true, Some(false), false) => format!(
                "table {name} was UNLOGGED then, and the server has crashed or was promoted since: whether its rows are \
                 there is not known"
            ),
            (true, _, false) => format!(
                "table {name}, which is UNLOGGED, was emptied since: the server has crashed, was promoted, or was \
                 restored"
            ),
            (false, Some(true), false) => format!(
                "table {name} was made UNLOGGED since: whether a crash has emptied it is not known; ALTER TABLE {name} \
                 SET LOGGED, if its rows are there"
            ),
        };
        emptied.push(Emptied { run_id, why });
    }
    Ok(emptied)
}

/// Records that the table of a run keeps its rows from now on.
async fn keeps_rows_from_now(client: &mut Client, tables: &Tables, run_id: &str) -> Result<()> {
    change(client, tables, run_id, "true", false).await?;
    Ok(())
}

/// Changes whether a run needs a crash_marker, in a transaction that it returns; none where there is no such run.
async fn change(
    client: &mut Client,
    tables: &Tables,
    run_id: &str,
    which: &str,
    emptied_by_crash: bool,
) -> Result<bool> {
    let transaction = begin(client).await?;
    let detail = format!(
        "SELECT detail FROM {} WHERE run_id = $1 AND {which} FOR UPDATE",
        tables.runs
    );
    let detail = transaction.query_opt(&detail, &[&run_id]).await;
    let Some(row) = detail.map_err(errors::statement)? else {
        return Ok(false);
    };
    let mut detail = RunDetail::from_json(run_id, &get::<String>(&row, 0)?)?;
    detail.emptied_by_crash = emptied_by_crash;
    let session = &mut InSession::of(&transaction, tables);
    ledger::rewrite(session, tables, run_id, &detail).await?;
    match emptied_by_crash {
        true => put(&transaction, tables, run_id).await?,
        false => remove(&transaction, tables, run_id).await?,
    }
    transaction.commit().await.map_err(errors::commit)?;
    Ok(true)
}

/// See [`Ledger::accept_emptied`](tonnage_core::ledger::Ledger::accept_emptied).
pub(super) async fn accept(client: &mut Client, asked: Option<&str>, handle: &RunHandle) -> Result<()> {
    let tables = existing(client, asked).await?;
    let owned = format!("epoch = {} AND finished IS NULL", handle.epoch);
    match change(client, &tables, &handle.run_id, &owned, true).await? {
        true => Ok(()),
        false => Err(ledger::taken_over(&handle.run_id)),
    }
}

#[cfg(test)]
mod tests {
    use super::object_id;

    #[test]
    fn the_object_id_is_part_of_the_identity() {
        for (object, id) in [
            ("5.16401", Some(16401)),
            ("5.16401 insert into t values ($1)", Some(16401)),
            (" insert into t.v values (1)", None),
            ("", None),
            ("00ff public.t", None),
        ] {
            assert_eq!(object_id(object), id, "{object}");
        }
    }
}
