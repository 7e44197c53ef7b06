//! How runs are found: by indexes of `tonnage_runs`, and by `tonnage_inputs`, which has a row for a run's table and for
//! each of its inputs (see [`inputs`]).
//!
//! A ledger of an earlier version gets the table when the next run starts under a user who may add it; until then its
//! records are read one after another. The table gets its name when it has all rows, so that one that was left half
//! filled is never taken for whole.

use mysql_async::{Conn, Row, prelude::Queryable};
use tonnage_core::{
    error::Result,
    ledger::{
        FOUND_MAX, OtherLedger, RunDetail, RunQuery, RunRecord, Sought,
        inputs::{self, InputRecord},
    },
};

use super::{Tables, counts, literal, setup};
use crate::{
    catalog::{INPUTS, RUNS, get, rows},
    errors,
};

/// Records of an earlier version that are read at once.
const READ_AT_ONCE: usize = 1_000;
/// Bytes of rows that go in one statement: some servers take no more than 16 KiB.
const STATEMENT_BYTES_MAX: usize = 12 << 10;
/// Keys that are asked for in one statement.
const KEYS_AT_ONCE: usize = 50;
/// Adds the table to a ledger that was made before there was one, with the rows of the runs that it has; under a lock.
/// Without it where this user may not.
pub(super) async fn add(conn: &mut Conn, tables: Tables) -> Result<Tables> {
    let has_inputs = tables.has_inputs || fill(conn, &tables).await?;
    Ok(Tables { has_inputs, ..tables })
}

async fn fill(conn: &mut Conn, tables: &Tables) -> Result<bool> {
    let Tables { runs, inputs, .. } = tables;
    let unfilled = format!("{inputs}_unfilled");
    let create = setup::inputs(&unfilled);
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
                Some(1044 | 1142 | 1227) => return Ok(false),
                _ => return Err(errors::statement(failure)),
            },
        }
    }
    let mut last = String::new();
    loop {
        let details = details(conn, runs, &last).await?;
        let all = details.len() < READ_AT_ONCE;
        for (run_id, detail, _) in details {
            if let Ok(detail) = RunDetail::from_json(&run_id, &detail) {
                put_on_record(conn, &unfilled, &run_id, &detail).await?;
            }
            last = run_id;
        }
        if all {
            break;
        }
    }
    conn.query_drop(format!("RENAME TABLE {unfilled} TO {inputs}"))
        .await
        .map_err(errors::statement)?;
    Ok(true)
}

/// Ids, details and whether they are finished of the runs behind `last`.
async fn details(conn: &mut Conn, runs: &str, last: &str) -> Result<Vec<(String, String, bool)>> {
    conn.exec(
        format!(
            "SELECT run_id, detail, finished IS NOT NULL FROM {runs} WHERE run_id > ? ORDER BY run_id LIMIT {READ_AT_ONCE}"
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

pub(super) async fn runs(conn: &mut Conn, asked: Option<&str>, query: &RunQuery) -> Result<Vec<RunRecord>> {
    match Tables::locate(conn, asked).await? {
        Some(tables) => runs_in(conn, &tables, query)
            .await
            .map_err(|failure| tables.denied(failure)),
        None => Ok(Vec::new()),
    }
}

async fn runs_in(conn: &mut Conn, tables: &Tables, query: &RunQuery) -> Result<Vec<RunRecord>> {
    let Tables {
        runs,
        slots,
        inputs,
        has_inputs,
        ..
    } = tables;
    let table_key;
    let mut limit = query.limit();
    let (which, given): (String, &[&str]) = match query {
        RunQuery::Newest(_) => (String::new(), &[]),
        RunQuery::Id(id) => ("WHERE r.run_id = ?".to_owned(), &[id.as_str()]),
        RunQuery::Identity(identity) => ("WHERE r.identity = ?".to_owned(), &[identity.as_str()]),
        RunQuery::Unfinished => ("WHERE r.unfinished IS NOT NULL".to_owned(), &[]),
        RunQuery::Table(table) if *has_inputs => {
            table_key = inputs::table_key(table);
            (
                format!("JOIN {inputs} AS i ON i.run_id = r.run_id WHERE i.found_by = ?"),
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
             FROM {slots} AS s WHERE s.run_id = r.run_id) ELSE r.{column} END"
        )
    };
    let text = format!(
        "SELECT r.run_id, r.identity, r.epoch, r.started, r.finished, r.detail, {}, {}, {} \
         FROM {runs} AS r {which} ORDER BY {first}r.run_id DESC LIMIT {limit}",
        sum("written"),
        sum("skipped"),
        sum("rejected")
    );
    let mut found = Vec::new();
    for row in rows(conn, &text, given).await? {
        let run = record(row, query)?;
        found.extend(run.filter(|run| query.matches(run)));
    }
    found.truncate(query.limit());
    Ok(found)
}

pub(super) async fn ids(conn: &mut Conn, asked: Option<&str>, prefix: &str) -> Result<Vec<String>> {
    let Some(tables) = Tables::locate(conn, asked).await? else {
        return Ok(Vec::new());
    };
    let begin = |table: &str| {
        format!(
            "SELECT run_id FROM {table} WHERE left(run_id, char_length({0})) = {0}",
            literal(prefix)
        )
    };
    let mut query = begin(&tables.runs);
    if tables.has_inputs {
        query = format!("{query} UNION {}", begin(&tables.inputs));
    }
    conn.query(format!("{query} LIMIT 2"))
        .await
        .map_err(errors::statement)
}

pub(super) async fn inputs(
    conn: &mut Conn,
    asked: Option<&str>,
    keys: &[String],
) -> Result<Vec<InputRecord>> {
    match Tables::locate(conn, asked).await? {
        Some(tables) => inputs_in(conn, &tables, keys).await,
        None => Ok(Vec::new()),
    }
}

async fn inputs_in(conn: &mut Conn, tables: &Tables, keys: &[String]) -> Result<Vec<InputRecord>> {
    let Tables { runs, inputs, .. } = tables;
    let mut found = Vec::new();
    if !tables.has_inputs {
        let mut last = String::new();
        loop {
            let details = details(conn, runs, &last).await?;
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
                    "(SELECT i.run_id, i.detail, r.run_id IS NULL OR r.finished IS NOT NULL FROM {inputs} AS i \
                     LEFT JOIN {runs} AS r ON r.run_id = i.run_id WHERE i.found_by = {} \
                     AND (r.run_id IS NOT NULL OR NOT EXISTS ( \
                       SELECT 1 FROM {inputs} AS t WHERE t.run_id = i.run_id AND t.number = 0)) \
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
pub(super) async fn bound(conn: &mut Conn, tables: &Tables, keep: u64) -> Result<Option<(i64, String)>> {
    let Tables { runs, .. } = tables;
    conn.query_first(format!(
        "SELECT finished, run_id FROM {runs} WHERE finished IS NOT NULL \
         ORDER BY finished DESC, run_id DESC LIMIT 1 OFFSET {keep}"
    ))
    .await
    .map_err(errors::statement)
}

pub(super) async fn prune_within(
    conn: &mut Conn,
    tables: &Tables,
    (finished, run_id): &(i64, String),
    limit: u64,
) -> Result<u64> {
    let Tables { runs, inputs, .. } = tables;
    // The newest run of its table is looked up for each candidate: of NOT EXISTS the server makes a table of all runs.
    let ids: Vec<String> = conn
        .exec(
            format!(
                "SELECT r.run_id FROM {runs} AS r WHERE r.finished IS NOT NULL \
                 AND (r.finished < ? OR (r.finished = ? AND r.run_id <= ?)) \
                 AND coalesce((SELECT later.run_id FROM {inputs} AS later WHERE later.found_by = (\
                   SELECT i.found_by FROM {inputs} AS i WHERE i.run_id = r.run_id AND i.number = 0) \
                   ORDER BY later.run_id DESC LIMIT 1) > r.run_id, true) \
                 ORDER BY r.finished, r.run_id LIMIT {limit}"
            ),
            (finished, finished, run_id),
        )
        .await
        .map_err(errors::statement)?;
    for id in &ids {
        for statement in [
            format!("DELETE FROM {runs} WHERE run_id = ?"),
            format!("DELETE FROM {inputs} WHERE run_id = ? AND number = 0"),
        ] {
            conn.exec_drop(statement, (id,))
                .await
                .map_err(errors::statement)?;
        }
    }
    Ok(ids.len() as u64)
}

/// Ledgers of other databases of the server that this user can read.
pub(super) async fn elsewhere(
    conn: &mut Conn,
    asked: Option<&str>,
    sought: &Sought,
) -> Result<Vec<OtherLedger>> {
    let used = Tables::locate(conn, asked).await?.map(|used| used.database);
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
        match of_other(conn, &Tables::within(&database, has_inputs), sought).await {
            Ok(other) => others.extend(Some(other).filter(OtherLedger::has_any)),
            // One that this user may see and not read.
            Err(error) if matches!(error.code_text(), Some("1044" | "1142" | "1143" | "1146")) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(others)
}

async fn of_other(conn: &mut Conn, tables: &Tables, sought: &Sought) -> Result<OtherLedger> {
    let mut other = OtherLedger {
        place: format!("database {}", tables.database),
        used_with: format!("?ledger_schema={} in the URL", tables.database),
        runs: runs_in(conn, tables, &RunQuery::Identity(sought.identity.clone())).await?,
        inputs: inputs_in(conn, tables, &sought.keys).await?,
    };
    other.add(runs_in(conn, tables, &RunQuery::Table(sought.table.clone())).await?);
    for id in other.unread(sought) {
        other.add(runs_in(conn, tables, &RunQuery::Id(id)).await?);
    }
    Ok(other)
}
