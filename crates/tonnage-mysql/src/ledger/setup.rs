//! What makes the ledger and grants its use: the one place that has its definition.
//!
//! The statements change nothing that is there already.

use mysql_async::{Conn, prelude::Queryable};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::Setup,
};
use tonnage_sql::ledger::{self, INPUTS, Tables};

use super::{
    literal,
    place::{DATABASE, check_engines, found, within},
    session::InSession,
};
use crate::{errors, types::quote};

/// How long another process that makes tables is waited for.
const LOCK_SECONDS: u32 = 600;

/// What to do for a user who may neither make nor use a ledger.
pub(super) const HINT: &str = "`tonnage init TARGET --grant USER`, for an administrator, prints what makes a ledger and lets \
                               that user use it; --ledger none loads without one";

const TABLE_OPTIONS: &str = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin";

/// Does `work` while no other process makes tables of the ledger in `database`.
async fn locked<T>(
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
fn inputs(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (\
             run_id varchar(64) NOT NULL, number int unsigned NOT NULL, found_by varchar(64) NOT NULL, \
             detail longtext NOT NULL, PRIMARY KEY (run_id, number), KEY tonnage_inputs_found (found_by, run_id)) \
         {TABLE_OPTIONS}"
    )
}

/// The statements that make the tables. The runs last: who finds them finds all.
fn statements(tables: &Tables) -> Vec<String> {
    let Tables { runs, slots, .. } = tables;
    vec![
        inputs(inputs_name(tables)),
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

/// Adds the table of inputs to a ledger that was made before there was one, with the rows of the runs that it has; under
/// a lock. Without it where this user may not. The table gets its name when it has all rows, so that one that was left half
/// filled is never taken for whole.
async fn add(conn: &mut Conn, earlier: Tables) -> Result<Tables> {
    if earlier.inputs.is_some() {
        return Ok(earlier);
    }
    let tables = within(&earlier.schema);
    let (runs, all) = (&tables.runs, inputs_name(&tables));
    let unfilled = format!("{all}_unfilled");
    let create = inputs(&unfilled);
    let indexes = format!(
        "ALTER TABLE {runs} ADD KEY tonnage_runs_identity (identity, run_id), \
         ADD KEY tonnage_runs_finished (finished, run_id)"
    );
    for statement in [format!("DROP TABLE IF EXISTS {unfilled}"), create, indexes] {
        match conn.query_drop(statement).await {
            Ok(()) => {}
            Err(failure) => match errors::number(&failure) {
                // The indexes are there, of an attempt that was killed.
                Some(1061) => {}
                // No right to do so: another user's next run does it.
                Some(1044 | 1142 | 1227) => return Ok(earlier),
                _ => return Err(errors::statement(failure)),
            },
        }
    }
    ledger::fill(&mut InSession::of(conn, &earlier), &earlier, &unfilled).await?;
    conn.query_drop(format!("RENAME TABLE {unfilled} TO {all}"))
        .await
        .map_err(errors::statement)?;
    Ok(tables)
}

fn inputs_name(tables: &Tables) -> &str {
    tables.inputs.as_deref().unwrap_or_default()
}

/// The statement that removes what is left of a ledger that was dropped: what it knew is to be forgotten.
async fn left(conn: &mut Conn, tables: &Tables) -> Result<Option<String>> {
    let found: Option<u8> = conn
        .query_first(format!(
            "SELECT 1 FROM information_schema.tables WHERE table_schema = {} AND table_name = '{INPUTS}'",
            literal(&tables.schema)
        ))
        .await
        .map_err(errors::statement)?;
    Ok(found.map(|_| format!("DROP TABLE {}", inputs_name(tables))))
}

/// Makes the tables where they are missing, and refuses those that cannot move with rows.
pub(super) async fn made(conn: &mut Conn, own: &str, asked: Option<&str>) -> Result<Tables> {
    let tables = match found(conn, asked).await? {
        Some(tables) if tables.inputs.is_some() => tables,
        other => {
            let database = other.map_or_else(|| asked.unwrap_or(own).to_owned(), |tables| tables.schema);
            locked(conn, &database, async |conn| match found(conn, asked).await? {
                Some(tables) => add(conn, tables).await,
                None => make_all(conn, &database).await,
            })
            .await?
        }
    };
    check_engines(conn, &tables).await?;
    Ok(tables)
}

async fn make_all(conn: &mut Conn, database: &str) -> Result<Tables> {
    let tables = within(database);
    let left = left(conn, &tables).await?;
    for statement in left.into_iter().chain(statements(&tables)) {
        conn.query_drop(statement).await.map_err(|failure| {
            let error = errors::statement(failure);
            if error.kind() != ErrorKind::Refused {
                return error;
            }
            let error = error.at(format!("cannot make the ledger in database {database}"));
            // Not every refusal is a matter of rights: a disk may be full.
            match error.code_text() {
                Some("1044" | "1142" | "1227") => error.hint(HINT),
                Some("1049") => {
                    error.hint("`tonnage init TARGET --execute` makes it, or prints what makes it")
                }
                _ => error,
            }
        })?;
    }
    Ok(tables)
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
    let tables = match found(conn, asked).await? {
        Some(tables) if tables.inputs.is_some() => {
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
            let tables = within(database);
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
    setup.place = format!("database {}", tables.schema);
    let Tables {
        runs, slots, inputs, ..
    } = &tables;
    for grantee in grantees {
        for table in [Some(runs), Some(slots), inputs.as_ref()].into_iter().flatten() {
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
    let other = found(conn, asked).await?;
    let database = other.map_or_else(|| asked.unwrap_or(DATABASE).to_owned(), |tables| tables.schema);
    locked(conn, &database, async |conn| {
        if let Some(tables) = found(conn, asked).await? {
            add(conn, tables).await?;
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
