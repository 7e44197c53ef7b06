//! How runs are found: by indexes of `tonnage_runs`, and by `tonnage_inputs`, which has a row for a run's table and for
//! each of its inputs (see [`inputs`]).
//!
//! A ledger of an earlier version gets the table when the next run starts under a role that owns the ledger, with the
//! same grants; until then its records are read one after another.

use tokio_postgres::{Client, GenericClient, Row};
use tonnage_core::{
    error::Result,
    ledger::{
        FOUND_MAX, OtherLedger, RunDetail, RunQuery, RunRecord, Sought,
        inputs::{self, InputRecord},
    },
    slot::Counts,
};

use super::{Tables, locate, setup};
use crate::{
    catalog::{INPUTS, RUNS, SLOTS, get},
    errors,
};

/// Records of an earlier version that are read at once.
const READ_AT_ONCE: i64 = 1_000;

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

/// Adds the table to a ledger that was made before there was one, with the rows of the runs that it has.
pub(super) async fn add(client: &impl GenericClient, found: &Tables) -> Result<()> {
    for statement in setup::statements(found) {
        client
            .batch_execute(&statement)
            .await
            .map_err(errors::statement)?;
    }
    let inputs = found.inputs.as_deref().unwrap_or_default();
    grant(client, &found.runs, inputs).await?;
    let mut last = Some(String::new());
    while let Some(from) = last {
        let (page, next) = page(client, &found.runs, &from).await?;
        for Stored {
            run_id,
            detail,
            finished,
        } in page
        {
            put_on_record(client, found, &run_id, &detail).await?;
            // Such a run may have put another table in the place of its own, and is known by that one.
            if finished && detail.prepared_by.is_some() {
                let update = format!("UPDATE {} SET identity = $2 WHERE run_id = $1", found.runs);
                client
                    .execute(&update, &[&run_id, &detail.identity()])
                    .await
                    .map_err(errors::statement)?;
            }
        }
        last = next;
    }
    Ok(())
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

/// A run whose record can be read.
struct Stored {
    run_id: String,
    detail: RunDetail,
    finished: bool,
}

/// Runs behind `last` in the order of their ids, and behind which one others follow.
async fn page(client: &impl GenericClient, runs: &str, last: &str) -> Result<(Vec<Stored>, Option<String>)> {
    let query = format!(
        "SELECT run_id, detail, finished IS NOT NULL FROM {runs} WHERE run_id > $1 ORDER BY run_id LIMIT $2"
    );
    let rows = client
        .query(&query, &[&last, &READ_AT_ONCE])
        .await
        .map_err(errors::statement)?;
    let mut page = Vec::with_capacity(rows.len());
    let mut next = None;
    for row in &rows {
        let run_id: String = get(row, 0)?;
        if let Ok(detail) = RunDetail::from_json(&run_id, &get::<String>(row, 1)?) {
            page.push(Stored {
                run_id: run_id.clone(),
                detail,
                finished: get(row, 2)?,
            });
        }
        next = Some(run_id);
    }
    Ok((page, next))
}

/// Writes the rows by which a run is found.
pub(super) async fn put_on_record(
    client: &impl GenericClient,
    tables: &Tables,
    run_id: &str,
    detail: &RunDetail,
) -> Result<()> {
    let Some(inputs) = &tables.inputs else {
        return Ok(());
    };
    let rows = detail.rows()?;
    let numbers: Vec<i32> = rows.iter().map(|row| row.number as i32).collect();
    let keys: Vec<&str> = rows.iter().map(|row| row.found_by.as_str()).collect();
    let details: Vec<&str> = rows.iter().map(|row| row.detail.as_str()).collect();
    let insert = format!(
        "INSERT INTO {inputs} (run_id, number, found_by, detail) \
         SELECT $1, number, found_by, detail \
         FROM unnest($2::int4[], $3::text[], $4::text[]) r (number, found_by, detail) \
         ON CONFLICT (run_id, number) DO UPDATE SET found_by = excluded.found_by, detail = excluded.detail"
    );
    let inserted = client
        .execute(&insert, &[&run_id, &numbers, &keys, &details])
        .await;
    inserted.map(|_| ()).map_err(errors::statement)
}

fn record(row: &Row, query: &RunQuery) -> Result<Option<RunRecord>> {
    let run_id: String = get(row, 0)?;
    let finished: Option<i64> = get(row, 4)?;
    let Some(detail) = query.detail(&run_id, &get::<String>(row, 5)?, finished.is_some())? else {
        return Ok(None);
    };
    let unsigned = |index| get::<i64>(row, index).map(|value| value as u64);
    Ok(Some(RunRecord {
        identity: get(row, 1)?,
        epoch: get(row, 2)?,
        started: get(row, 3)?,
        finished,
        counts: Counts {
            written: unsigned(6)?,
            skipped: unsigned(7)?,
            rejected: unsigned(8)?,
        },
        run_id,
        detail,
    }))
}

pub(super) async fn runs(client: &Client, asked: Option<&str>, query: &RunQuery) -> Result<Vec<RunRecord>> {
    match Tables::locate(client, asked).await? {
        Some(tables) => runs_in(client, &tables, query).await,
        None => Ok(Vec::new()),
    }
}

async fn runs_in(client: &Client, tables: &Tables, query: &RunQuery) -> Result<Vec<RunRecord>> {
    let Tables {
        runs, slots, inputs, ..
    } = tables;
    let limit = i64::try_from(query.limit()).unwrap_or(i64::MAX);
    let (which, given, limit) = match (query, inputs) {
        (RunQuery::Newest(_), _) => (String::new(), None, limit),
        (RunQuery::Id(id), _) => ("WHERE r.run_id = $2".to_owned(), Some(id.clone()), limit),
        (RunQuery::Identity(identity), _) => {
            ("WHERE r.identity = $2".to_owned(), Some(identity.clone()), limit)
        }
        (RunQuery::Unfinished, _) => ("WHERE r.finished IS NULL".to_owned(), None, limit),
        (RunQuery::Table(table), Some(inputs)) => (
            format!("JOIN {inputs} i ON i.run_id = r.run_id WHERE i.found_by = $2"),
            Some(inputs::table_key(table)),
            limit,
        ),
        // A ledger of an earlier version.
        (RunQuery::Table(_), None) => (String::new(), None, i64::MAX),
    };
    let first = match query {
        RunQuery::Identity(_) => "(r.finished IS NULL) DESC, ",
        _ => "",
    };
    let query_text = format!(
        "SELECT r.run_id, r.identity, r.epoch, r.started, r.finished, r.detail, \
             CASE WHEN r.finished IS NULL THEN s.written ELSE r.written END, \
             CASE WHEN r.finished IS NULL THEN s.skipped ELSE r.skipped END, \
             CASE WHEN r.finished IS NULL THEN s.rejected ELSE r.rejected END \
         FROM (SELECT r.* FROM {runs} r {which} ORDER BY {first}r.run_id DESC LIMIT $1) r LEFT JOIN LATERAL (\
             SELECT coalesce(sum(written), 0)::int8 AS written, coalesce(sum(skipped), 0)::int8 AS skipped, \
                 coalesce(sum(rejected), 0)::int8 AS rejected FROM {slots} WHERE run_id = r.run_id) s ON true \
         ORDER BY {first}r.run_id DESC"
    );
    let rows = match &given {
        Some(given) => client.query(&query_text, &[&limit, given]).await,
        None => client.query(&query_text, &[&limit]).await,
    }
    .map_err(|failure| tables.failed(failure))?;
    let mut found = Vec::new();
    for row in &rows {
        let run = record(row, query)?;
        found.extend(run.filter(|run| query.matches(run)));
    }
    found.truncate(query.limit());
    Ok(found)
}

pub(super) async fn ids(client: &Client, asked: Option<&str>, prefix: &str) -> Result<Vec<String>> {
    let Some(Tables { runs, inputs, .. }) = Tables::locate(client, asked).await? else {
        return Ok(Vec::new());
    };
    let begin = |table: &str| {
        format!(
            "SELECT run_id FROM {table} WHERE pg_catalog.left(run_id, pg_catalog.length($1::text)) = $1::text"
        )
    };
    let mut query = begin(&runs);
    if let Some(inputs) = &inputs {
        query = format!("{query} UNION {}", begin(inputs));
    }
    let rows = client
        .query(&format!("{query} LIMIT 2"), &[&prefix])
        .await
        .map_err(errors::statement)?;
    rows.iter().map(|row| get(row, 0)).collect()
}

pub(super) async fn inputs(
    client: &Client,
    asked: Option<&str>,
    keys: &[String],
) -> Result<Vec<InputRecord>> {
    match Tables::locate(client, asked).await? {
        Some(tables) => inputs_in(client, &tables, keys).await,
        None => Ok(Vec::new()),
    }
}

async fn inputs_in(client: &Client, tables: &Tables, keys: &[String]) -> Result<Vec<InputRecord>> {
    let Tables { runs, inputs, .. } = tables;
    let mut found = Vec::new();
    let Some(inputs) = inputs else {
        let mut last = Some(String::new());
        while let Some(from) = last {
            let (page, next) = page(client, runs, &from).await?;
            for run in page {
                found.extend(inputs::of_detail(&run.run_id, &run.detail, run.finished, keys)?);
            }
            last = next;
        }
        return Ok(found);
    };
    let query = format!(
        "SELECT i.run_id, i.detail, r.run_id IS NULL OR r.finished IS NOT NULL \
         FROM unnest($1::text[]) k (found_by) CROSS JOIN LATERAL (\
             SELECT run_id, detail FROM {inputs} WHERE found_by = k.found_by ORDER BY run_id DESC LIMIT {FOUND_MAX}) i \
         LEFT JOIN {runs} r ON r.run_id = i.run_id \
         WHERE r.run_id IS NOT NULL \
            OR NOT EXISTS (SELECT FROM {inputs} t WHERE t.run_id = i.run_id AND t.number = 0)"
    );
    let rows = client.query(&query, &[&keys]).await.map_err(errors::statement)?;
    for row in &rows {
        found.extend(InputRecord::read(
            get(row, 0)?,
            get(row, 2)?,
            &get::<String>(row, 1)?,
        ));
    }
    Ok(found)
}

pub(super) async fn prune(client: &Client, asked: Option<&str>, keep: u64, limit: u64) -> Result<u64> {
    let Some(Tables {
        runs,
        inputs: Some(inputs),
        ..
    }) = Tables::locate(client, asked).await?
    else {
        return Ok(0);
    };
    let [keep, limit] = [keep, limit].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    let bound = format!(
        "SELECT finished, run_id FROM {runs} WHERE finished IS NOT NULL \
         ORDER BY finished DESC, run_id DESC LIMIT 1 OFFSET $1"
    );
    let bound = client
        .query_opt(&bound, &[&keep])
        .await
        .map_err(errors::statement)?;
    let Some(bound) = bound else { return Ok(0) };
    let (finished, run_id): (i64, String) = (get(&bound, 0)?, get(&bound, 1)?);
    // One statement is one transaction. Rows that another process is pruning are left to it.
    let prune = format!(
        "WITH pruned AS (DELETE FROM {runs} WHERE run_id IN (\
             SELECT run_id FROM {runs} r WHERE finished IS NOT NULL AND (finished, run_id) <= ($1, $2) \
               AND NOT EXISTS (SELECT FROM {inputs} i WHERE i.run_id = r.run_id AND i.number = 0 \
                 AND NOT EXISTS (SELECT FROM {inputs} later \
                   WHERE later.found_by = i.found_by AND later.run_id > i.run_id)) \
             ORDER BY finished, run_id LIMIT $3 FOR UPDATE SKIP LOCKED) RETURNING run_id), \
         tables AS (DELETE FROM {inputs} WHERE number = 0 AND run_id IN (SELECT run_id FROM pruned)) \
         SELECT count(*) FROM pruned"
    );
    let pruned = client
        .query_one(&prune, &[&finished, &run_id, &limit])
        .await
        .map_err(errors::statement)?;
    get::<i64>(&pruned, 0).map(|pruned| pruned as u64)
}

/// Ledgers of other schemas that this role can read.
pub(super) async fn elsewhere(
    client: &Client,
    asked: Option<&str>,
    sought: &Sought,
) -> Result<Vec<OtherLedger>> {
    let used = locate(client, asked).await?.map(|(schema, _)| schema);
    let schemas = client
        .query(
            "SELECT n.nspname::text, i.oid IS NOT NULL FROM pg_catalog.pg_class c \
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
        let tables = Tables::within(&get::<String>(row, 0)?, get(row, 1)?);
        let mut other = OtherLedger {
            place: format!("schema {}", tables.schema),
            used_with: format!("?ledger_schema={} in the URL", tables.schema),
            runs: runs_in(client, &tables, &RunQuery::Identity(sought.identity.clone())).await?,
            inputs: inputs_in(client, &tables, &sought.keys).await?,
        };
        other.add(runs_in(client, &tables, &RunQuery::Table(sought.table.clone())).await?);
        for id in other.unread(sought) {
            other.add(runs_in(client, &tables, &RunQuery::Id(id)).await?);
        }
        if other.has_any() {
            others.push(other);
        }
    }
    Ok(others)
}
