//! What is done to a table around a run: it is recreated (`shadow`), or its indexes are built again.
//!
//! Everything happens in the open transaction of the ledger, so it is there with the ledger's rows or not at all.
//! CREATE INDEX, DROP TABLE and ALTER TABLE are transactional; the server undoes what a killed process has not
//! committed.

use tokio_postgres::GenericClient;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{NewRun, RunDetail},
    preparation::{
        IndexDefinition, Pending, Preparation, PreparationEffects, altered, not_empty, not_recreatable,
    },
    table::{Table, TableName},
};

use super::{catalog, errors, shadow, types::quote_table};

/// Memory for the sort behind an index, unless the server allows more; a run that does not fit is merged from disk.
const MAINTENANCE_MEMORY: &str = "256MB";
/// Processes that build an index in addition to the session's own, unless the server allows more.
const MAINTENANCE_WORKERS: &str = "4";

/// The session's settings while indexes are built, each at least this.
const SETTINGS: &str = "\
    SELECT pg_catalog.set_config('maintenance_work_mem', $1, true) \
    WHERE pg_catalog.pg_size_bytes(pg_catalog.current_setting('maintenance_work_mem')) < pg_catalog.pg_size_bytes($1) \
    UNION ALL \
    SELECT pg_catalog.set_config('max_parallel_maintenance_workers', $2, true) \
    WHERE pg_catalog.current_setting('max_parallel_maintenance_workers')::int < $2::int";

/// Indexes of an ordinary table, and whether each can be dropped and built again: it enforces nothing, nothing rests on
/// it, and its definition says all about it.
const INDEXES: &str = "\
    SELECT c.relname::text, pg_catalog.pg_get_indexdef(c.oid), pg_catalog.obj_description(c.oid, 'pg_class'), \
           NOT (i.indisunique OR i.indisexclusion OR i.indisclustered OR i.indisreplident OR c.relispartition \
                OR NOT i.indisvalid OR c.relkind <> 'i' OR c.reltablespace <> 0 \
                OR EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conindid = c.oid AND k.conrelid = $1) \
                OR EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attstattarget >= 0) \
                OR EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_class'::regclass \
                           AND d.objid = c.oid AND d.deptype IN ('e', 'x')) \
                OR EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.refclassid = 'pg_catalog.pg_class'::regclass \
                           AND d.refobjid = c.oid)) \
    FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
    WHERE i.indrelid = $1 ORDER BY c.oid";

/// The table's oid, of its identity.
pub(super) fn oid(table: &Table) -> Result<u32> {
    let object = &table.identity.object;
    let oid = object.split_once('.').and_then(|(_, oid)| oid.parse().ok());
    oid.ok_or_else(|| Error::bug(format!("'{object}' is no identity of a table")))
}

/// The table as it is now; an error where there is none.
async fn existing(client: &impl GenericClient, name: &TableName) -> Result<Table> {
    match catalog::describe(client, name).await? {
        Some(described) => Ok(described.table),
        None => Err(Error::schema(format!("there is no table {name} any more"))),
    }
}

pub(super) async fn execute(client: &impl GenericClient, statement: &str) -> Result<()> {
    client.batch_execute(statement).await.map_err(errors::statement)
}

async fn indexes(client: &impl GenericClient, oid: u32) -> Result<Vec<(IndexDefinition, bool)>> {
    let rows = client.query(INDEXES, &[&oid]).await.map_err(errors::statement)?;
    rows.iter()
        .map(|row| {
            let index = IndexDefinition {
                name: catalog::get(row, 0)?,
                definition: catalog::get(row, 1)?,
                comment: catalog::get(row, 2)?,
            };
            Ok((index, catalog::get(row, 3)?))
        })
        .collect()
}

/// What a preparation will do, or why it cannot be done.
pub(super) async fn check_preparation(
    client: &impl GenericClient,
    table: &Table,
    preparation: Preparation,
) -> Result<PreparationEffects> {
    let name = &table.name;
    let mut effects = PreparationEffects::default();
    match preparation {
        Preparation::Keep | Preparation::Truncate => {}
        Preparation::Recreate => {
            not_recreatable(name, &shadow::obstacles(client, oid(table)?).await?)?;
            effects.notes.push(format!(
                "rows go into a table made like {name}, which takes its place at the end; rows that others write into \
                 {name} until then are lost"
            ));
        }
        Preparation::RebuildIndexes { .. } => {
            let (dropped, kept): (Vec<_>, Vec<_>) = indexes(client, oid(table)?)
                .await?
                .into_iter()
                .partition(|(_, free)| *free);
            let names = |indexes: &[(IndexDefinition, bool)]| {
                let names: Vec<_> = indexes.iter().map(|(index, _)| index.name.as_str()).collect();
                names.join(", ")
            };
            match dropped.is_empty() {
                true => effects
                    .notes
                    .push(format!("{name} has no index that could be built at the end")),
                false => {
                    effects.notes.push(format!(
                        "indexes dropped when the run starts and built at its end: {}",
                        names(&dropped)
                    ));
                    effects.settings = vec![
                        format!(
                            "maintenance_work_mem = at least {MAINTENANCE_MEMORY}, while indexes are built"
                        ),
                        format!(
                            "max_parallel_maintenance_workers = at least {MAINTENANCE_WORKERS}, while indexes are built"
                        ),
                    ];
                }
            }
            if !kept.is_empty() {
                effects.notes.push(format!(
                    "indexes kept up, as they enforce something or cannot be made again by their definition: {}",
                    names(&kept)
                ));
            }
        }
    }
    Ok(effects)
}

/// Does what the run's preparation asks for beyond emptying, and notes in its detail what is owed then.
pub(super) async fn prepare(client: &impl GenericClient, run: &NewRun, detail: &mut RunDetail) -> Result<()> {
    let name = &run.table;
    let mut pending = Pending {
        table: name.clone(),
        shadow: None,
        indexes: Vec::new(),
    };
    match run.preparation {
        Preparation::Keep | Preparation::Truncate => return Ok(()),
        Preparation::Recreate => {
            let table = existing(client, name).await?;
            let shadow = tonnage_core::preparation::shadow(name, &run.run_id);
            not_recreatable(name, &shadow::obstacles(client, oid(&table)?).await?)?;
            shadow::make(client, &table, &shadow).await?;
            pending.shadow = Some(shadow);
        }
        Preparation::RebuildIndexes { .. } => {
            // Waits for rows that others are about to commit.
            execute(
                client,
                &format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", quote_table(name)),
            )
            .await?;
            let filled = format!("SELECT EXISTS (SELECT FROM {})", quote_table(name));
            let filled = client.query_one(&filled, &[]).await.map_err(errors::statement)?;
            if catalog::get::<bool>(&filled, 0)? {
                return Err(not_empty(name));
            }
            let table = existing(client, name).await?;
            // Definitions name what they need in full, whatever the path of the session that builds them.
            let path = set_path(client, "pg_catalog").await?;
            let found = indexes(client, oid(&table)?).await?;
            set_path(client, &path).await?;
            for (index, free) in found {
                if free {
                    execute(
                        client,
                        &format!("DROP INDEX {}", quote_table(&beside(name, &index.name))),
                    )
                    .await?;
                    pending.indexes.push(index);
                }
            }
        }
    }
    detail.pending = Some(pending);
    Ok(())
}

/// Gives the table what is owed to it.
pub(super) async fn finish(client: &impl GenericClient, detail: &mut RunDetail) -> Result<()> {
    let Some(pending) = detail.pending.take() else {
        return Ok(());
    };
    let name = &pending.table;
    if let Some(shadow) = &pending.shadow {
        execute(
            client,
            &format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", quote_table(name)),
        )
        .await?;
        let table = existing(client, name).await?;
        if table.identity != detail.table_identity {
            return Err(altered(name));
        }
        not_recreatable(name, &shadow::obstacles(client, oid(&table)?).await?)?;
        shadow::swap(client, &table, &existing(client, shadow).await?).await?;
        detail.table_identity = existing(client, name).await?.identity;
    }
    build(client, name, &pending.indexes).await
}

/// Leaves the table as if the run had never been prepared.
pub(super) async fn undo(client: &impl GenericClient, detail: &RunDetail) -> Result<()> {
    let Some(pending) = &detail.pending else {
        return Ok(());
    };
    if let Some(shadow) = &pending.shadow {
        execute(client, &format!("DROP TABLE IF EXISTS {}", quote_table(shadow))).await?;
    }
    // The indexes of a table that was dropped or made again are nobody's any more.
    let found = catalog::describe(client, &pending.table).await?;
    match found.is_some_and(|found| found.table.identity.object == detail.table_identity.object) {
        true => build(client, &pending.table, &pending.indexes).await,
        false => Ok(()),
    }
}

/// A name in the schema of `table`.
pub(super) fn beside(table: &TableName, name: &str) -> TableName {
    TableName {
        schema: table.schema.clone(),
        name: name.to_owned(),
    }
}

/// Builds indexes that are not there.
async fn build(client: &impl GenericClient, table: &TableName, indexes: &[IndexDefinition]) -> Result<()> {
    if indexes.is_empty() {
        return Ok(());
    }
    let settings = client
        .query(SETTINGS, &[&MAINTENANCE_MEMORY, &MAINTENANCE_WORKERS])
        .await;
    settings.map_err(errors::statement)?;
    let path = set_path(client, "pg_catalog").await?;
    for index in indexes {
        let name = quote_table(&beside(table, &index.name));
        let found = client
            .query_one("SELECT pg_catalog.to_regclass($1::text) IS NOT NULL", &[&name])
            .await
            .map_err(errors::statement)?;
        if catalog::get::<bool>(&found, 0)? {
            continue;
        }
        // The ledger is a table that others may write; nothing but an index is made from it. A statement that is
        // prepared is one only.
        if !index.definition.starts_with("CREATE INDEX ") {
            return Err(Error::new(
                ErrorKind::Refused,
                format!("the ledger's definition of index {} is none", index.name),
            ));
        }
        let built = client.execute(&index.definition, &[]).await;
        built.map_err(|e| errors::statement(e).at(format!("cannot build index {}", index.name)))?;
        if let Some(comment) = &index.comment {
            let literal = format!("E'{}'", comment.replace('\\', "\\\\").replace('\'', "''"));
            execute(client, &format!("COMMENT ON INDEX {name} IS {literal}")).await?;
        }
    }
    set_path(client, &path).await?;
    Ok(())
}

/// Sets the search path until the transaction ends; what it was.
async fn set_path(client: &impl GenericClient, path: &str) -> Result<String> {
    let set =
        "SELECT pg_catalog.current_setting('search_path'), pg_catalog.set_config('search_path', $1, true)";
    let row = client.query_one(set, &[&path]).await.map_err(errors::statement)?;
    catalog::get(&row, 0)
}
