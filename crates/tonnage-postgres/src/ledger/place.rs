//! Where the ledger is: in the schema that the URL names (`ledger_schema`), else in the first schema of the search path that
//! has it, else in a schema called `tonnage` that has it; else it is made in the first schema of the search path in which
//! the role may make tables.

use tokio_postgres::{Client, GenericClient, Row};
use tonnage_core::{
    error::{Error, Result},
    ledger::{OtherLedger, Sought, jobs::RunRole},
};
use tonnage_sql::ledger::{self, INPUTS, PARTS, RUNS, SLOTS, Tables};

use super::{
    session::{DIALECT, InSession},
    setup,
};
use crate::{
    catalog::{UNLOGGED, get},
    errors,
    types::quote,
};

/// The schema that is looked in where the search path leads to no ledger, and in which `tonnage init` makes one.
pub(super) const SCHEMA: &str = "tonnage";

fn table(schema: &str, name: &str) -> String {
    format!("{}.{name}", quote(schema))
}

/// All tables, in a schema.
pub(super) fn within(schema: &str) -> Tables {
    Tables::within(&DIALECT, schema, |name| table(schema, name))
}

/// The table of witnesses, which need not be there.
pub(super) fn witnesses(tables: &Tables) -> String {
    table(&tables.schema, UNLOGGED)
}

/// Those of a schema, and whether it has inputs and parts, which a ledger of an earlier version has not.
fn of_ledger(row: &Row) -> Result<Tables> {
    let mut tables = within(get(row, 0)?);
    let (has_inputs, has_parts): (bool, bool) = (get(row, 1)?, get(row, 2)?);
    tables.inputs = tables.inputs.filter(|_| has_inputs);
    tables.parts = tables.parts.filter(|_| has_parts);
    Ok(tables)
}

/// The tables; none where the ledger was never made.
pub(super) async fn found(client: &impl GenericClient, asked: Option<&str>) -> Result<Option<Tables>> {
    let row = client
        .query_opt(
            "SELECT n.nspname::text, EXISTS (SELECT FROM pg_catalog.pg_class i \
                 WHERE i.relname = $2 AND i.relkind = 'r' AND i.relnamespace = n.oid), \
                 EXISTS (SELECT FROM pg_catalog.pg_class p \
                 WHERE p.relname = $5 AND p.relkind = 'r' AND p.relnamespace = n.oid) \
             FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relname = $1 AND c.relkind = 'r' AND CASE WHEN $3::text IS NULL \
                 THEN pg_catalog.pg_table_is_visible(c.oid) \
                     OR (n.nspname::text = $4 AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')) \
                 ELSE n.nspname::text = $3 END \
             ORDER BY pg_catalog.pg_table_is_visible(c.oid) DESC LIMIT 1",
            &[&RUNS, &INPUTS, &asked, &SCHEMA, &PARTS],
        )
        .await
        .map_err(errors::statement)?;
    row.map(|row| of_ledger(&row)).transpose()
}

/// The tables. `Fenced` where there are none.
pub(super) async fn existing(client: &impl GenericClient, asked: Option<&str>) -> Result<Tables> {
    found(client, asked).await?.ok_or_else(ledger::no_ledger)
}

/// The tables, made where they are missing, in the transaction that is to start a run; that of parts only where it is
/// to plan a job.
pub(super) async fn made(
    client: &(impl GenericClient + Sync),
    asked: Option<&str>,
    role: &RunRole,
) -> Result<Tables> {
    let needs_parts = matches!(role, RunRole::Job(_));
    match found(client, asked).await? {
        Some(tables) if tables.inputs.is_some() && (tables.parts.is_some() || !needs_parts) => {
            return Ok(tables);
        }
        Some(tables) if !setup::may_add(client, &tables.runs).await? => {
            return match needs_parts && tables.parts.is_none() {
                true => Err(ledger::no_parts(&format!("schema {}", tables.schema))),
                false => Ok(tables),
            };
        }
        _ => {}
    }
    setup::lock(client).await?;
    if let Some(earlier) = found(client, asked).await? {
        return setup::add(client, earlier).await;
    }
    let schema = setup::schema_for_new(client, asked).await?;
    let tables = within(&schema);
    for statement in setup::left(client, &tables)
        .await?
        .into_iter()
        .chain(setup::statements(&tables))
    {
        if let Err(failure) = client.batch_execute(&statement).await {
            let error = errors::statement(failure).at(format!("cannot make the ledger in schema {schema}"));
            // Of another refusal, such as a full disk, the server knows better what to do. The transaction is
            // broken, so nobody can be asked for the role.
            return Err(match error.code_text() {
                Some("42501") => error.hint(setup::hint("ROLE")),
                _ => error,
            });
        }
    }
    Ok(tables)
}

/// An error of a statement about them, with what to do where the role lacks a right.
pub(super) fn failed(tables: &Tables, failure: tokio_postgres::Error) -> Error {
    let error = errors::statement(failure);
    match error.code_text() {
        Some("42501") => error
            .at(format!("the ledger in schema {} cannot be used", tables.schema))
            .hint(setup::hint("ROLE")),
        _ => error,
    }
}

/// Ledgers of other schemas that this role can read.
pub(super) async fn elsewhere(
    client: &Client,
    asked: Option<&str>,
    sought: &Sought,
) -> Result<Vec<OtherLedger>> {
    let used = found(client, asked).await?.map(|used| used.schema);
    let schemas = client
        .query(
            "SELECT n.nspname::text, i.oid IS NOT NULL, false FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             JOIN pg_catalog.pg_class s ON s.relnamespace = n.oid AND s.relname = $3 AND s.relkind = 'r' \
             LEFT JOIN pg_catalog.pg_class i ON i.relnamespace = n.oid AND i.relname = $4 AND i.relkind = 'r' \
             WHERE c.relname = $1 AND c.relkind = 'r' AND n.nspname::text IS DISTINCT FROM $2 \
               AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') \
               AND pg_catalog.has_table_privilege(c.oid, 'SELECT') \
               AND pg_catalog.has_table_privilege(s.oid, 'SELECT') \
               AND (i.oid IS NULL OR pg_catalog.has_table_privilege(i.oid, 'SELECT')) ORDER BY 1",
            &[&RUNS, &used, &SLOTS, &INPUTS],
        )
        .await
        .map_err(errors::statement)?;
    let mut others = Vec::new();
    for row in &schemas {
        let tables = of_ledger(row)?;
        let schema = &tables.schema;
        let named = (
            format!("schema {schema}"),
            format!("?ledger_schema={schema} in the URL"),
        );
        let session = &mut InSession::of(client, &tables);
        let other = ledger::other(session, &tables, named, sought).await?;
        if other.has_any() {
            others.push(other);
        }
    }
    Ok(others)
}
