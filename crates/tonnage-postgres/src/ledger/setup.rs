//! What makes the ledger and grants its use: the one place that has its definition.
//!
//! The statements change nothing that is there already, but for an index or a table that a later version has added.

use tokio_postgres::GenericClient;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::Setup,
};
use tonnage_sql::ledger::{self, INPUTS, PARTS, Tables};

use super::{
    crash_marker,
    place::{SCHEMA, found, within, witnesses},
    session::InSession,
};
use crate::{catalog::get, errors, types::quote};

/// Taken while the tables are made, so that two first runs do not collide. "tonnage" in ASCII.
const CREATION_LOCK: i64 = 0x0074_6f6e_6e61_6765;

/// Waits, in a transaction, for others that make a ledger.
pub(super) async fn lock(client: &impl GenericClient) -> Result<()> {
    client
        .execute("SELECT pg_catalog.pg_advisory_xact_lock($1)", &[&CREATION_LOCK])
        .await
        .map(|_| ())
        .map_err(errors::statement)
}

/// The statements that make the tables.
pub(super) fn statements(tables: &Tables) -> Vec<String> {
    let Tables {
        runs,
        slots,
        inputs,
        parts,
        ..
    } = tables;
    let inputs = inputs.as_deref().unwrap_or_default();
    let parts = parts.as_deref().unwrap_or_default();
    vec![
        format!(
            "CREATE TABLE IF NOT EXISTS {runs} (\
                 run_id text PRIMARY KEY, identity text NOT NULL, epoch bigint NOT NULL, started bigint NOT NULL, \
                 finished bigint, written bigint NOT NULL, skipped bigint NOT NULL, rejected bigint NOT NULL, \
                 detail text NOT NULL)"
        ),
        format!(
            "CREATE UNIQUE INDEX IF NOT EXISTS tonnage_runs_unfinished ON {runs} (identity) WHERE finished IS NULL"
        ),
        format!("CREATE INDEX IF NOT EXISTS tonnage_runs_identity ON {runs} (identity, run_id)"),
        format!(
            "CREATE INDEX IF NOT EXISTS tonnage_runs_finished ON {runs} (finished, run_id) \
             WHERE finished IS NOT NULL"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {slots} (\
                 run_id text NOT NULL, slot integer NOT NULL, epoch bigint NOT NULL, \
                 block bigint NOT NULL, block_rows bigint NOT NULL, \
                 file bigint NOT NULL, byte_offset bigint NOT NULL, file_rows bigint NOT NULL, \
                 source_rows bigint NOT NULL, hash bigint NOT NULL, \
                 written bigint NOT NULL, skipped bigint NOT NULL, rejected bigint NOT NULL, \
                 PRIMARY KEY (run_id, slot)) WITH (fillfactor = 50)"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {inputs} (\
                 run_id text NOT NULL, number integer NOT NULL, found_by text NOT NULL, detail text NOT NULL, \
                 PRIMARY KEY (run_id, number))"
        ),
        format!("CREATE INDEX IF NOT EXISTS tonnage_inputs_found ON {inputs} (found_by, run_id)"),
        format!(
            "CREATE TABLE IF NOT EXISTS {parts} (\
                 job_id text NOT NULL, part bigint NOT NULL, state text NOT NULL, attempt bigint NOT NULL, \
                 owner text, lease_until bigint NOT NULL, connections bigint NOT NULL, run_id text, \
                 written bigint NOT NULL, skipped bigint NOT NULL, rejected bigint NOT NULL, \
                 error text, detail text NOT NULL, PRIMARY KEY (job_id, part)) WITH (fillfactor = 50)"
        ),
    ]
}

/// Whether this role may add to a ledger that was made before.
pub(super) async fn may_add(client: &impl GenericClient, runs: &str) -> Result<bool> {
    let row = client
        .query_one(
            "SELECT pg_catalog.pg_has_role(c.relowner, 'USAGE') \
                 AND pg_catalog.has_schema_privilege(c.relnamespace, 'CREATE') \
             FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass($1::text)",
            &[&runs],
        )
        .await
        .map_err(errors::statement)?;
    get(&row, 0)
}

/// Adds the tables that a ledger lacks which was made before there were such: of inputs, with the rows of the runs that it
/// has, and of parts.
pub(super) async fn add(client: &(impl GenericClient + Sync), earlier: Tables) -> Result<Tables> {
    if earlier.inputs.is_some() && earlier.parts.is_some() {
        return Ok(earlier);
    }
    let tables = within(&earlier.schema);
    for statement in statements(&tables) {
        let added = client.batch_execute(&statement).await;
        added.map_err(errors::statement)?;
    }
    if earlier.parts.is_none() {
        grant(client, &tables.runs, tables.parts.as_deref().unwrap_or_default()).await?;
    }
    if earlier.inputs.is_none() {
        let inputs = tables.inputs.as_deref().unwrap_or_default();
        grant(client, &tables.runs, inputs).await?;
        ledger::fill(&mut InSession::of(client, &tables), &tables, inputs).await?;
    }
    Ok(tables)
}

/// Gives those who may do something with the table of runs, and its owner, the same rights to another table of the ledger.
pub(super) async fn grant(client: &impl GenericClient, runs: &str, table: &str) -> Result<()> {
    let grants = client
        .query(
            "SELECT pg_catalog.format('GRANT %s ON %s TO %s', a.privilege_type, $2::text, \
                 CASE a.grantee WHEN 0 THEN 'PUBLIC' \
                 ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END) \
             FROM pg_catalog.pg_class c, \
                  pg_catalog.aclexplode(coalesce(c.relacl, pg_catalog.acldefault('r', c.relowner))) a \
             WHERE c.oid = pg_catalog.to_regclass($1::text) \
               AND a.grantee <> (SELECT relowner FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass($2::text))",
            &[&runs, &table],
        )
        .await
        .map_err(errors::statement)?;
    for grant in &grants {
        client
            .batch_execute(&get::<String>(grant, 0)?)
            .await
            .map_err(errors::statement)?;
    }
    Ok(())
}

/// The statements that let a role use the ledger.
fn grants(tables: &Tables, role: &str) -> Vec<String> {
    // A role cannot have this name.
    let role = match role.eq_ignore_ascii_case("public") {
        true => "PUBLIC".to_owned(),
        false => quote(role),
    };
    let Tables {
        runs,
        slots,
        inputs,
        parts,
        ..
    } = tables;
    let witnesses = witnesses(tables);
    let witnesses = inputs.is_some().then_some(&witnesses);
    let all = [
        Some(runs),
        Some(slots),
        inputs.as_ref(),
        parts.as_ref(),
        witnesses,
    ];
    let mut grants = vec![format!(
        "GRANT USAGE ON SCHEMA {} TO {role}",
        quote(&tables.schema)
    )];
    for table in all.into_iter().flatten() {
        grants.push(format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role}"
        ));
    }
    grants
}

/// What to do for a role that may neither make nor use a ledger.
pub(super) fn hint(role: &str) -> String {
    format!(
        "`tonnage init TARGET --grant {role}` prints what makes a ledger and lets that role use it, for the \
         database's owner; --ledger none loads without one"
    )
}

/// The schema in which a ledger is to be made.
pub(super) async fn schema_for_new(client: &impl GenericClient, asked: Option<&str>) -> Result<String> {
    if let Some(asked) = asked {
        return match has_schema(client, asked).await? {
            true => Ok(asked.to_owned()),
            false => Err(Error::config(format!(
                "there is no schema {asked}, in which the ledger is to be (ledger_schema)"
            ))
            .hint("`tonnage init TARGET --execute` makes it, or prints what makes it")),
        };
    }
    let row = client
        .query_one(
            "SELECT current_user::text, p.path, (SELECT s.name FROM unnest(p.path) WITH ORDINALITY s (name, place) \
                 WHERE pg_catalog.has_schema_privilege(s.name, 'CREATE') ORDER BY s.place LIMIT 1) \
             FROM (SELECT pg_catalog.current_schemas(false)::text[] AS path) p",
            &[],
        )
        .await
        .map_err(errors::statement)?;
    let (role, path, schema): (String, Vec<String>, Option<String>) =
        (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
    match (schema, path.as_slice()) {
        (Some(schema), _) => Ok(schema),
        (None, []) => Err(
            Error::config("the search path names no schema in which the ledger could be made")
                .hint("?ledger_schema=SCHEMA in the URL names one; or set search_path for this role"),
        ),
        (None, path) => Err(Error::new(
            ErrorKind::Refused,
            format!(
                "cannot make the ledger: role {role} may make no tables in schema {}, and there is none in schema \
                 {SCHEMA} that it may use",
                path.join(", ")
            ),
        )
        .hint(hint(&role))),
    }
}

async fn has_schema(client: &impl GenericClient, schema: &str) -> Result<bool> {
    let row = client
        .query_one(
            "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname::text = $1)",
            &[&schema],
        )
        .await
        .map_err(errors::statement)?;
    get(&row, 0)
}

/// See [`Ledger::setup`](tonnage_core::ledger::Ledger::setup).
pub(super) async fn setup(
    client: &impl GenericClient,
    asked: Option<&str>,
    grantees: &[String],
) -> Result<Setup> {
    let mut setup = Setup {
        place: String::new(),
        statements: Vec::new(),
        notes: Vec::new(),
    };
    let tables = match found(client, asked).await? {
        Some(tables) if tables.inputs.is_some() && tables.parts.is_some() => {
            setup.statements = statements(&tables);
            setup.statements.push(crash_marker::definition(&tables));
            tables
        }
        Some(tables) => {
            setup.notes.push(
                "it is of an earlier version: the next run of its owner, or --execute, adds what is new, with what it \
                 knows of earlier runs"
                    .to_owned(),
            );
            tables
        }
        None => {
            let tables = within(asked.unwrap_or(SCHEMA));
            match has_schema(client, &tables.schema).await? {
                false => setup
                    .statements
                    .push(format!("CREATE SCHEMA {}", quote(&tables.schema))),
                true => setup.statements.extend(left(client, &tables).await?),
            }
            setup.statements.extend(statements(&tables));
            setup.statements.push(crash_marker::definition(&tables));
            tables
        }
    };
    setup.place = format!("schema {}", tables.schema);
    setup
        .statements
        .extend(grantees.iter().flat_map(|role| grants(&tables, role)));
    Ok(setup)
}

/// The statements that remove what is left of a ledger that was dropped: what it knew is to be forgotten.
pub(super) async fn left(client: &impl GenericClient, tables: &Tables) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for (name, table) in [(INPUTS, &tables.inputs), (PARTS, &tables.parts)] {
        let row = client
            .query_one(
                "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c \
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                 WHERE c.relname = $1 AND n.nspname::text = $2)",
                &[&name, &tables.schema],
            )
            .await
            .map_err(errors::statement)?;
        let is_left: bool = get(&row, 0)?;
        left.extend(
            table
                .iter()
                .filter(|_| is_left)
                .map(|table| format!("DROP TABLE {table}")),
        );
    }
    Ok(left)
}

/// Runs what [`setup`] returns, in a transaction.
pub(super) async fn set_up(
    client: &(impl GenericClient + Sync),
    asked: Option<&str>,
    grantees: &[String],
) -> Result<()> {
    lock(client).await?;
    if let Some(earlier) = found(client, asked).await? {
        add(client, earlier).await?;
    }
    for statement in setup(client, asked, grantees).await?.statements {
        client
            .batch_execute(&statement)
            .await
            .map_err(|failure| errors::statement(failure).at(statement.clone()))?;
    }
    Ok(())
}
