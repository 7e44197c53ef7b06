//! What makes the ledger and grants its use: the one place that has its definition.
//!
//! The statements change nothing that is there already.

use mysql_async::{Conn, prelude::Queryable};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::Setup,
};

use super::{DATABASE, Tables, found, literal};
use crate::{catalog::INPUTS, errors, types::quote};

/// How long another process that makes tables is waited for.
const LOCK_SECONDS: u32 = 600;

/// What to do for a user who may neither make nor use a ledger.
pub(super) const HINT: &str = "`tonnage init TARGET --grant USER`, for an administrator, prints what makes a ledger and lets \
                               that user use it; --ledger none loads without one";

const TABLE_OPTIONS: &str = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin";

/// Does `work` while no other process makes tables of the ledger in `database`.
pub(super) async fn locked<T>(
    conn: &mut Conn,
    database: &str,
    work: impl AsyncFnOnce(&mut Conn) -> Result<T>,
) -> Result<T> {
    let lock = format!("concat('tonnage ledger ', md5({}))", literal(database));
    let held: Option<Option<u8>> = conn
        .query_first(format!("SELECT get_lock({lock}, {LOCK_SECONDS})"))
        .await
        .map_err(errors::statement)?;
    if held.flatten() != Some(1) {
        return Err(
            Error::new(ErrorKind::Overloaded, "another process is making the ledger")
                .hint("the same command again, once it is done"),
        );
    }
    let done = work(conn).await;
    // The end of the session gives it back as well.
    if let Err(failure) = conn.query_drop(format!("DO release_lock({lock})")).await {
        tracing::debug!("release_lock: {failure}");
    }
    done
}

/// The statement that makes the rows by which runs are found.
pub(super) fn inputs(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (\
             run_id varchar(64) NOT NULL, number int unsigned NOT NULL, found_by varchar(64) NOT NULL, \
             detail longtext NOT NULL, PRIMARY KEY (run_id, number), KEY tonnage_inputs_found (found_by, run_id)) \
         {TABLE_OPTIONS}"
    )
}

/// The statements that make the tables. The runs last: who finds them finds all.
pub(super) fn statements(tables: &Tables) -> Vec<String> {
    let Tables { runs, slots, .. } = tables;
    vec![
        inputs(&tables.inputs),
        format!(
            "CREATE TABLE IF NOT EXISTS {slots} (\
                 run_id varchar(64) NOT NULL, slot int NOT NULL, epoch bigint NOT NULL, \
                 block bigint unsigned NOT NULL, block_rows bigint unsigned NOT NULL, \
                 file int unsigned NOT NULL, byte_offset bigint unsigned NOT NULL, \
                 file_rows bigint unsigned NOT NULL, source_rows bigint unsigned NOT NULL, \
                 hash bigint unsigned NOT NULL, written bigint unsigned NOT NULL, \
                 skipped bigint unsigned NOT NULL, rejected bigint unsigned NOT NULL, \
                 moves bigint unsigned NOT NULL, PRIMARY KEY (run_id, slot)) {TABLE_OPTIONS}"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {runs} (\
                 run_id varchar(64) NOT NULL PRIMARY KEY, identity varchar(190) NOT NULL, \
                 unfinished varchar(190) NULL, epoch bigint NOT NULL, started bigint NOT NULL, finished bigint NULL, \
                 written bigint unsigned NOT NULL, skipped bigint unsigned NOT NULL, \
                 rejected bigint unsigned NOT NULL, detail longtext NOT NULL, \
                 UNIQUE KEY tonnage_runs_unfinished (unfinished), \
                 KEY tonnage_runs_identity (identity, run_id), \
                 KEY tonnage_runs_finished (finished, run_id)) {TABLE_OPTIONS}"
        ),
    ]
}

/// The statement that removes what is left of a ledger that was dropped: what it knew is to be forgotten.
pub(super) async fn left(conn: &mut Conn, tables: &Tables) -> Result<Option<String>> {
    let found: Option<u8> = conn
        .query_first(format!(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = {} AND table_name = '{INPUTS}'",
            literal(&tables.database)
        ))
        .await
        .map_err(errors::statement)?;
    Ok(found.map(|_| format!("DROP TABLE {}", tables.inputs)))
}

/// An account as GRANT names it: `user`, `user@host` or the name of a role.
fn account(name: &str) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    match name.rsplit_once('@') {
        Some((user, host)) => format!("{}@{}", quoted(user), quoted(host)),
        None => quoted(name),
    }
}

/// See [`Ledger::setup`](tonnage_core::ledger::Ledger::setup).
pub(super) async fn setup(conn: &mut Conn, asked: Option<&str>, grantees: &[String]) -> Result<Setup> {
    let mut setup = Setup {
        place: String::new(),
        statements: Vec::new(),
        notes: Vec::new(),
    };
    let tables = match Tables::locate(conn, asked).await? {
        Some(tables) if tables.has_inputs => {
            setup.statements = statements(&tables);
            tables
        }
        Some(tables) => {
            setup.notes.push(
                "it is of an earlier version: the next run of a user who may, or --execute, adds what is new, with what \
                 it knows of earlier runs"
                    .to_owned(),
            );
            tables
        }
        None => {
            let database = asked.unwrap_or(DATABASE);
            let tables = Tables::within(database, true);
            let exists: Option<u8> = conn
                .query_first(format!(
                    "SELECT 1 FROM information_schema.schemata WHERE schema_name = {}",
                    literal(database)
                ))
                .await
                .map_err(errors::statement)?;
            match exists {
                None => setup
                    .statements
                    .push(format!("CREATE DATABASE {}", quote(database))),
                Some(_) => setup.statements.extend(left(conn, &tables).await?),
            }
            setup.statements.extend(statements(&tables));
            tables
        }
    };
    setup.place = format!("database {}", tables.database);
    let inputs = Some(&tables.inputs).filter(|_| tables.has_inputs);
    for grantee in grantees {
        for table in [Some(&tables.runs), Some(&tables.slots), inputs]
            .into_iter()
            .flatten()
        {
            setup.statements.push(format!(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {}",
                account(grantee)
            ));
        }
    }
    Ok(setup)
}

/// Runs what [`setup`] returns.
pub(super) async fn set_up(conn: &mut Conn, asked: Option<&str>, grantees: &[String]) -> Result<()> {
    let found = Tables::locate(conn, asked).await?;
    let database = found.map_or_else(|| asked.unwrap_or(DATABASE).to_owned(), |tables| tables.database);
    locked(conn, &database, async |conn| {
        if let Some(tables) = Tables::locate(conn, asked).await? {
            found::add(conn, tables).await?;
        }
        for statement in setup(conn, asked, grantees).await?.statements {
            conn.query_drop(statement.as_str())
                .await
                .map_err(|failure| errors::statement(failure).at(statement.clone()))?;
        }
        Ok(())
    })
    .await
}
