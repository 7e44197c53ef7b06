//! What makes the ledger and grants its use: the one place that has its definition.
//!
//! The statements change nothing that is there already.

use mysql_async::{Conn, prelude::Queryable};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{Setup, jobs::RunRole},
};
use tonnage_sql::ledger::{self, INPUTS, PARTS, Tables};

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
    // A lock's name has 64 characters at most, and md5() is no part of MySQL from 9.6 on.
    let lock = format!(
        "concat('tonnage ledger ', left(sha2({}, 256), 32))",
        literal(database)
    );
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

/// The statement that makes the rows of jobs.
fn parts(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (\
             job_id varchar(64) NOT NULL, part bigint NOT NULL, state varchar(16) NOT NULL, attempt bigint NOT NULL, \
             owner text NULL, lease_until bigint NOT NULL, connections bigint NOT NULL, run_id varchar(64) NULL, \
             written bigint unsigned NOT NULL, skipped bigint unsigned NOT NULL, rejected bigint unsigned NOT NULL, \
             error text NULL, detail longtext NOT NULL, PRIMARY KEY (job_id, part)) {TABLE_OPTIONS}"
    )
}

/// The statements that make the tables. The runs last: who finds them finds all.
fn statements(tables: &Tables) -> Vec<String> {
    let Tables { runs, slots, .. } = tables;
    vec![
        inputs(inputs_name(tables)),
        parts(parts_name(tables)),
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
async fn add(conn: &mut Conn, mut earlier: Tables) -> Result<Tables> {
    let tables = within(&earlier.schema);
    if earlier.parts.is_none() {
        match conn.query_drop(parts(parts_name(&tables))).await {
            Ok(()) => earlier.parts.clone_from(&tables.parts),
            Err(failure) => match errors::number(&failure) {
                Some(1044 | 1142 | 1227) => {}
                _ => return Err(errors::statement(failure)),
            },
        }
    }
    if earlier.inputs.is_some() {
        return Ok(earlier);
    }
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
    Ok(Tables {
        parts: earlier.parts,
        ..tables
    })
}

fn inputs_name(tables: &Tables) -> &str {
    tables.inputs.as_deref().unwrap_or_default()
}

fn parts_name(tables: &Tables) -> &str {
    tables.parts.as_deref().unwrap_or_default()
}

/// The statements that remove what is left of a ledger that was dropped: what it knew is to be forgotten.
async fn left(conn: &mut Conn, tables: &Tables) -> Result<Vec<String>> {
    let found: Vec<String> = conn
        .query(format!(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = {} \
             AND table_name IN ('{INPUTS}', '{PARTS}')",
            literal(&tables.schema)
        ))
        .await
        .map_err(errors::statement)?;
    let drop = |name: &String| format!("DROP TABLE {}.{}", quote(&tables.schema), quote(name));
    Ok(found.iter().map(drop).collect())
}

/// Makes the tables where they are missing, and refuses those that cannot move with rows; that of parts is needed only
/// where a job is to be planned.
pub(super) async fn made(
    conn: &mut Conn,
    (own, asked): (&str, Option<&str>),
    role: &RunRole,
) -> Result<Tables> {
    let needs_parts = matches!(role, RunRole::Job(_));
    let tables = match found(conn, asked).await? {
        Some(tables) if tables.inputs.is_some() && (tables.parts.is_some() || !needs_parts) => tables,
        other => {
            let database = other.map_or_else(|| asked.unwrap_or(own).to_owned(), |tables| tables.schema);
            locked(conn, &database, async |conn| match found(conn, asked).await? {
                Some(tables) => add(conn, tables).await,
                None => make_all(conn, &database).await,
            })
            .await?
        }
    };
    if needs_parts && tables.parts.is_none() {
        return Err(ledger::no_parts(&format!("database {}", tables.schema)));
    }
    check_engines(conn, &tables).await?;
    Ok(tables)
}

async fn make_all(conn: &mut Conn, database: &str) -> Result<Tables> {
    let tables = within(database);
    // The lock holds off those of one node only. In a cluster another node may be making the same tables, which are
    // then not to be dropped; that they are made once is up to the cluster, which brings definitions into one order.
    let in_cluster = is_clustered(conn).await?;
    let (left, orphans) = match in_cluster {
        true => (Vec::new(), Some(orphans(&tables))),
        false => (left(conn, &tables).await?, None),
    };
    for statement in left.into_iter().chain(statements(&tables)).chain(orphans) {
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

/// Whether it is a node of a Galera cluster.
async fn is_clustered(conn: &mut Conn) -> Result<bool> {
    let asked = "SHOW SESSION VARIABLES LIKE 'wsrep_on'";
    let found: Option<(String, String)> = conn.query_first(asked).await.map_err(errors::statement)?;
    Ok(found.is_some_and(|(_, value)| value == "ON"))
}

/// The statement that forgets what is known of runs of a ledger that was dropped.
fn orphans(tables: &Tables) -> String {
    format!(
        "DELETE FROM {} WHERE run_id NOT IN (SELECT run_id FROM {})",
        inputs_name(tables),
        tables.runs
    )
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
        Some(tables) if tables.inputs.is_some() && tables.parts.is_some() => {
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
        runs,
        slots,
        inputs,
        parts,
        ..
    } = &tables;
    let all = [Some(runs), Some(slots), inputs.as_ref(), parts.as_ref()];
    for grantee in grantees {
        for table in all.into_iter().flatten() {
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
