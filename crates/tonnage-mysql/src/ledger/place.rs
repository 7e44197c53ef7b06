//! Where the ledger is: in the database that the URL names for it (`ledger_schema`), else in the database of the URL, else in
//! one called `tonnage` that has it; else it is made in the database of the URL.

use mysql_async::{Conn, prelude::Queryable};
use tonnage_core::{
    error::{Error, Result},
    ledger::{OtherLedger, Sought},
};
use tonnage_sql::ledger::{self, INPUTS, PARTS, RUNS, Tables};

use super::{
    literal,
    session::{DIALECT, InSession},
    setup,
};
use crate::{errors, types::quote};

/// The database that is looked in where that of the URL has no ledger, and in which `tonnage init` makes one.
pub(super) const DATABASE: &str = "tonnage";

/// All tables, in a database.
pub(super) fn within(database: &str) -> Tables {
    Tables::within(&DIALECT, database, |name| format!("{}.{name}", quote(database)))
}

/// Those of a ledger that has `names`, among which neither inputs nor parts are if it is of an earlier version.
fn of_ledger(database: &str, names: &[&str]) -> Tables {
    let mut tables = within(database);
    tables.inputs = tables.inputs.filter(|_| names.contains(&INPUTS));
    tables.parts = tables.parts.filter(|_| names.contains(&PARTS));
    tables
}

/// The tables; none where it was never made.
pub(super) async fn found(conn: &mut Conn, asked: Option<&str>) -> Result<Option<Tables>> {
    let within = match asked {
        Some(asked) => format!("table_schema = {}", literal(asked)),
        None => format!("table_schema IN (database(), '{DATABASE}')"),
    };
    let found: Vec<(String, String)> = conn
        .query(format!(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE {within} \
             AND table_name IN ('{RUNS}', '{INPUTS}', '{PARTS}') ORDER BY table_schema = database() DESC"
        ))
        .await
        .map_err(errors::statement)?;
    let Some((database, _)) = found.iter().find(|(_, table)| table == RUNS) else {
        return Ok(None);
    };
    let own = found.iter().filter(|(other, _)| other == database);
    let names: Vec<_> = own.map(|(_, table)| table.as_str()).collect();
    Ok(Some(of_ledger(database, &names)))
}

/// The tables, which must be fit to move with rows. `Fenced` where there are none.
pub(super) async fn existing(conn: &mut Conn, asked: Option<&str>) -> Result<Tables> {
    let tables = found(conn, asked).await?.ok_or_else(ledger::no_ledger)?;
    check_engines(conn, &tables).await?;
    Ok(tables)
}

/// An error of a statement about them, with what to do where the user lacks a right.
pub(super) fn failed(tables: &Tables, failure: mysql_async::Error) -> Error {
    let error = errors::statement(failure);
    match error.code_text() {
        Some("1044" | "1142" | "1143") => error
            .at(format!("the ledger in database {} cannot be used", tables.schema))
            .hint(setup::HINT),
        _ => error,
    }
}

/// Refuses a ledger whose tables were given an engine without transactions: positions would move without their rows, and
/// stay where those are undone.
pub(super) async fn check_engines(conn: &mut Conn, tables: &Tables) -> Result<()> {
    let plain: Option<(String, String)> = conn
        .query_first(format!(
            "SELECT table_name, coalesce(engine, 'none') FROM information_schema.tables t \
             WHERE table_schema = {} AND table_name IN ('{}') AND NOT EXISTS \
                 (SELECT 1 FROM information_schema.engines e WHERE e.engine = t.engine AND e.transactions = 'YES')",
            literal(&tables.schema),
            ledger::TABLES.join("', '")
        ))
        .await
        .map_err(errors::statement)?;
    match plain {
        None => Ok(()),
        Some((table, engine)) => Err(Error::config(format!(
            "the ledger's table {table} has the engine {engine}, which has no transactions: positions would move \
             without their rows"
        ))
        .hint(format!(
            "ALTER TABLE {}.{table} ENGINE=InnoDB",
            quote(&tables.schema)
        ))),
    }
}

/// Ledgers of other databases of the server that this user can read.
pub(super) async fn elsewhere(
    conn: &mut Conn,
    asked: Option<&str>,
    sought: &Sought,
) -> Result<Vec<OtherLedger>> {
    let used = found(conn, asked).await?.map(|used| used.schema);
    let databases: Vec<(String, bool)> = conn
        .query(format!(
            "SELECT r.table_schema, EXISTS (SELECT 1 FROM information_schema.tables AS i \
                 WHERE i.table_schema = r.table_schema AND i.table_name = '{INPUTS}') \
             FROM information_schema.tables AS r WHERE r.table_name = '{RUNS}' ORDER BY 1"
        ))
        .await
        .map_err(errors::statement)?;
    let mut others = Vec::new();
    for (database, has_inputs) in databases {
        if Some(&database) == used.as_ref() {
            continue;
        }
        let named = (
            format!("database {database}"),
            format!("?ledger_schema={database} in the URL"),
        );
        let names: &[&str] = if has_inputs { &[INPUTS] } else { &[] };
        let tables = of_ledger(&database, names);
        match ledger::other(&mut InSession::of(conn, &tables), &tables, named, sought).await {
            Ok(other) => others.extend(Some(other).filter(OtherLedger::has_any)),
            // One that this user may see and not read.
            Err(error) if matches!(error.code_text(), Some("1044" | "1142" | "1143" | "1146")) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(others)
}
