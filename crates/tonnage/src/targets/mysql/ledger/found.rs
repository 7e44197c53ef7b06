//! How runs are found: by indexes of `tonnage_runs`, and by `tonnage_inputs`, which has a row for a run's table and for
//! each of its inputs (see [`inputs`]).
//!
//! A ledger of an earlier version gets the table when the next run starts under a user who may add it; until then its
//! records are read one after another. The table gets its name when it has all rows, so that one that was left half
//! filled is never taken for whole.

use mysql_async::{Conn, Row, prelude::Queryable};

use super::{TABLES, counts, exists, has_table, literal};
use crate::{
    error::Result,
    ledger::{
        FOUND_MAX, RunDetail, RunQuery, RunRecord,
        inputs::{self, InputRecord},
    },
    targets::mysql::{
        catalog::{INPUTS, RUNS, SLOTS, get, rows},
        errors,
    },
};

/// The table while it is filled.
const UNFILLED: &str = "tonnage_inputs_unfilled";
/// Records of an earlier version that are read at once.
const READ_AT_ONCE: usize = 1_000;
/// Bytes of rows that go in one statement: some servers take no more than 16 KiB.
const STATEMENT_BYTES_MAX: usize = 12 << 10;
/// Keys that are asked for in one statement.
const KEYS_AT_ONCE: usize = 50;
/// How long another process that adds the table is waited for.
const LOCK_SECONDS: u32 = 600;

/// What is locked while tables of the ledger are made, as SQL has it.
const LOCK: &str = "concat('tonnage ledger ', md5(database()))";

/// Waits for other processes that make tables of the ledger; false where that takes too long.
pub(super) async fn lock(conn: &mut Conn) -> Result<bool> {
    let held: Option<Option<u8>> = conn
        .query_first(format!("SELECT get_lock({LOCK}, {LOCK_SECONDS})"))
        .await
        .map_err(errors::statement)?;
    Ok(held.flatten() == Some(1))
}

pub(super) async fn unlock(conn: &mut Conn) {
    // The end of the session gives it back as well.
    if let Err(failure) = conn.query_drop(format!("DO release_lock({LOCK})")).await {
        tracing::debug!("release_lock: {failure}");
    }
}

/// Adds the table to a ledger that was made before there was one, with the rows of the runs that it has; under
/// [`lock`]. False where this user may not.
pub(super) async fn add(conn: &mut Conn) -> Result<bool> {
    match has_table(conn, INPUTS).await? {
        true => Ok(true),
        false => fill(conn).await,
    }
}

async fn fill(conn: &mut Conn) -> Result<bool> {
    let create = TABLES[2].replacen(INPUTS, UNFILLED, 1);
    let indexes = format!(
        "ALTER TABLE {RUNS} ADD KEY tonnage_runs_identity (identity, run_id), \
         ADD KEY tonnage_runs_finished (finished, run_id)"
    );
    for statement in [format!("DROP TABLE IF EXISTS {UNFILLED}"), create, indexes] {
        match conn.query_drop(statement).await {
            Ok(()) => {}
            Err(failure) => match errors::number(&failure) {
                // The indexes are there, of an attempt that was killed.
                Some(1061) => {}
                // No right to do so: another user's next run does it.
                Some(1044 | 1142 | 1227) => return Ok(false),
                _ => return Err(errors::statement(failure)),
            },
        }
    }
    let mut last = String::new();
    loop {
        let details = details(conn, &last).await?;
        let all = details.len() < READ_AT_ONCE;
        for (run_id, detail, _) in details {
            if let Ok(detail) = RunDetail::from_json(&run_id, &detail) {
                put_on_record(conn, UNFILLED, &run_id, &detail).await?;
            }
            last = run_id;
        }
        if all {
            break;
        }
    }
    conn.query_drop(format!("RENAME TABLE {UNFILLED} TO {INPUTS}"))
        .await
        .map_err(errors::statement)?;
    Ok(true)
}

/// Ids, details and whether they are finished of the runs behind `last`.
async fn details(conn: &mut Conn, last: &str) -> Result<Vec<(String, String, bool)>> {
    conn.exec(
        format!(
            "SELECT run_id, detail, finished IS NOT NULL FROM {RUNS} WHERE run_id > ? ORDER BY run_id LIMIT {READ_AT_ONCE}"
        ),
        (last,),
    )
    .await
    .map_err(errors::statement)
}

/// Writes the rows by which a run is found.
pub(super) async fn put_on_record(
    conn: &mut Conn,
    table: &str,
    run_id: &str,
    detail: &RunDetail,
) -> Result<()> {
    let run_id = literal(run_id);
    let mut values = String::new();
    let rows = detail.rows()?;
    for (at, row) in rows.iter().enumerate() {
        if !values.is_empty() {
            values.push_str(", ");
        }
        values.push_str(&format!(
            "({run_id}, {}, {}, {})",
            row.number,
            literal(&row.found_by),
            literal(&row.detail)
        ));
        if values.len() >= STATEMENT_BYTES_MAX / 2 || at + 1 == rows.len() {
            conn.query_drop(format!(
                "INSERT INTO {table} (run_id, number, found_by, detail) VALUES {values}"
            ))
            .await
            .map_err(errors::statement)?;
            values.clear();
        }
    }
    Ok(())
}

fn record(mut row: Row, query: &RunQuery) -> Result<Option<RunRecord>> {
    let row = &mut row;
    let run_id: String = get(row, 0)?;
    let finished: Option<i64> = get(row, 4)?;
    let Some(detail) = query.detail(&run_id, &get::<String>(row, 5)?, finished.is_some())? else {
        return Ok(None);
    };
    Ok(Some(RunRecord {
        identity: get(row, 1)?,
        epoch: get(row, 2)?,
        started: get(row, 3)?,
        finished,
        counts: counts(row, 6)?,
        run_id,
        detail,
    }))
}

pub(super) async fn runs(conn: &mut Conn, query: &RunQuery) -> Result<Vec<RunRecord>> {
    if !exists(conn).await? {
        return Ok(Vec::new());
    }
    let table_key;
    let mut limit = query.limit();
    let (which, given): (String, &[&str]) = match query {
        RunQuery::Newest(_) => (String::new(), &[]),
        RunQuery::Id(id) => ("WHERE r.run_id = ?".to_owned(), &[id.as_str()]),
        RunQuery::Identity(identity) => ("WHERE r.identity = ?".to_owned(), &[identity.as_str()]),
        RunQuery::Unfinished => ("WHERE r.unfinished IS NOT NULL".to_owned(), &[]),
        RunQuery::Table(table) if has_table(conn, INPUTS).await? => {
            table_key = inputs::table_key(table);
            (
                format!("JOIN {INPUTS} AS i ON i.run_id = r.run_id WHERE i.found_by = ?"),
                &[table_key.as_str()],
            )
        }
        // A ledger of an earlier version.
        RunQuery::Table(_) => {
            limit = i64::MAX as usize;
            (String::new(), &[])
        }
    };
    let first = match query {
        RunQuery::Identity(_) => "r.finished IS NULL DESC, ",
        _ => "",
    };
    let sum = |column: &str| {
        format!(
            "CASE WHEN r.finished IS NULL THEN (SELECT cast(coalesce(sum(s.{column}), 0) AS unsigned) \
             FROM {SLOTS} AS s WHERE s.run_id = r.run_id) ELSE r.{column} END"
        )
    };
    let text = format!(
        "SELECT r.run_id, r.identity, r.epoch, r.started, r.finished, r.detail, {}, {}, {} \
         FROM {RUNS} AS r {which} ORDER BY {first}r.run_id DESC LIMIT {limit}",
        sum("written"),
        sum("skipped"),
        sum("rejected")
    );
    let mut runs = Vec::new();
    for row in rows(conn, &text, given).await? {
        let run = record(row, query)?;
        runs.extend(run.filter(|run| query.matches(run)));
    }
    runs.truncate(query.limit());
    Ok(runs)
}

pub(super) async fn ids(conn: &mut Conn, prefix: &str) -> Result<Vec<String>> {
    if !exists(conn).await? {
        return Ok(Vec::new());
    }
    let begin = |table: &str| {
        format!(
            "SELECT run_id FROM {table} WHERE left(run_id, char_length({0})) = {0}",
            literal(prefix)
        )
    };
    let mut query = begin(RUNS);
    if has_table(conn, INPUTS).await? {
        query = format!("{query} UNION {}", begin(INPUTS));
    }
    conn.query(format!("{query} LIMIT 2"))
        .await
        .map_err(errors::statement)
}

pub(super) async fn inputs(conn: &mut Conn, keys: &[String]) -> Result<Vec<InputRecord>> {
    let mut found = Vec::new();
    if !exists(conn).await? {
        return Ok(found);
    }
    if !has_table(conn, INPUTS).await? {
        let mut last = String::new();
        loop {
            let details = details(conn, &last).await?;
            let all = details.len() < READ_AT_ONCE;
            for (run_id, detail, finished) in details {
                if let Ok(detail) = RunDetail::from_json(&run_id, &detail) {
                    found.extend(inputs::of_detail(&run_id, &detail, finished, keys)?);
                }
                last = run_id;
            }
            if all {
                return Ok(found);
            }
        }
    }
    for keys in keys.chunks(KEYS_AT_ONCE) {
        let each: Vec<String> = keys
            .iter()
            .map(|key| {
                format!(
                    "(SELECT i.run_id, i.detail, r.run_id IS NULL OR r.finished IS NOT NULL FROM {INPUTS} AS i \
                     LEFT JOIN {RUNS} AS r ON r.run_id = i.run_id WHERE i.found_by = {} \
                     AND (r.run_id IS NOT NULL OR NOT EXISTS ( \
                       SELECT 1 FROM {INPUTS} AS t WHERE t.run_id = i.run_id AND t.number = 0)) \
                     ORDER BY i.run_id DESC LIMIT {FOUND_MAX})",
                    literal(key)
                )
            })
            .collect();
        let rows: Vec<(String, String, bool)> = conn
            .query(each.join(" UNION ALL "))
            .await
            .map_err(errors::statement)?;
        let read =
            |(run_id, detail, finished): (String, String, bool)| InputRecord::read(run_id, finished, &detail);
        found.extend(rows.into_iter().filter_map(read));
    }
    Ok(found)
}

/// The newest finished run beyond `keep` of them, by when it finished.
pub(super) async fn bound(conn: &mut Conn, keep: u64) -> Result<Option<(i64, String)>> {
    conn.query_first(format!(
        "SELECT finished, run_id FROM {RUNS} WHERE finished IS NOT NULL \
         ORDER BY finished DESC, run_id DESC LIMIT 1 OFFSET {keep}"
    ))
    .await
    .map_err(errors::statement)
}

pub(super) async fn prune_within(
    conn: &mut Conn,
    (finished, run_id): &(i64, String),
    limit: u64,
) -> Result<u64> {
    let ids: Vec<String> = conn
        .exec(
            format!(
                "SELECT r.run_id FROM {RUNS} AS r WHERE r.finished IS NOT NULL \
                 AND (r.finished < ? OR (r.finished = ? AND r.run_id <= ?)) \
                 AND NOT EXISTS (SELECT 1 FROM {INPUTS} AS i WHERE i.run_id = r.run_id AND i.number = 0 \
                   AND NOT EXISTS (SELECT 1 FROM {INPUTS} AS later \
                     WHERE later.found_by = i.found_by AND later.run_id > i.run_id)) \
                 ORDER BY r.finished, r.run_id LIMIT {limit}"
            ),
            (finished, finished, run_id),
        )
        .await
        .map_err(errors::statement)?;
    for id in &ids {
        for statement in [
            format!("DELETE FROM {RUNS} WHERE run_id = ?"),
            format!("DELETE FROM {INPUTS} WHERE run_id = ? AND number = 0"),
        ] {
            conn.exec_drop(statement, (id,))
                .await
                .map_err(errors::statement)?;
        }
    }
    Ok(ids.len() as u64)
}

/// Ledgers of other databases of the server that this user can read.
pub(super) async fn elsewhere(conn: &mut Conn, identity: &str, object: &str) -> Result<Option<String>> {
    let databases: Vec<String> = conn
        .query(format!(
            "SELECT table_schema FROM information_schema.tables \
             WHERE table_name = '{RUNS}' AND table_schema <> database() ORDER BY 1"
        ))
        .await
        .map_err(errors::statement)?;
    // As it stands in the detail's JSON.
    let object = serde_json::json!({ "object": object }).to_string();
    let object = object.trim_matches(['{', '}']);
    for database in databases {
        let query = format!(
            "SELECT 1 FROM `{}`.{RUNS} WHERE identity = ? OR instr(detail, ?) > 0 LIMIT 1",
            database.replace('`', "``")
        );
        match conn.exec_first::<u8, _, _>(query, (identity, object)).await {
            Ok(None) => {}
            Ok(Some(_)) => return Ok(Some(format!("database {database}"))),
            // One that this user may see and not read.
            Err(failure) if matches!(errors::number(&failure), Some(1044 | 1142 | 1143)) => {}
            Err(failure) => return Err(errors::statement(failure)),
        }
    }
    Ok(None)
}
