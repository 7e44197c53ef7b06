//! How runs are found: by indexes of `tonnage_runs`, and by `tonnage_inputs`, which has a row for a run's table and for
//! each of its inputs. Of a ledger of an earlier version, which has no such rows, the records are read one after another.

use tonnage_core::{
    error::Result,
    ledger::{
        FOUND_MAX, OtherLedger, RunQuery, RunRecord, Sought,
        inputs::{InputRecord, of_detail, table_key},
    },
    slot::SlotState,
};

use super::{
    Keys, RUNS, Session, Tables, Value,
    codec::{self, Columns, odd},
    history, jobs,
};

/// The runs that `query` asks for: [`Ledger::runs`](tonnage_core::ledger::Ledger::runs).
pub async fn runs(session: &mut dyn Session, tables: &Tables, query: &RunQuery) -> Result<Vec<RunRecord>> {
    let Tables {
        dialect, runs, slots, ..
    } = tables;
    let [given] = dialect.given();
    let limited = format!(" LIMIT {}", query.limit());
    let (which, value, limit) = match (query, &tables.inputs) {
        (RunQuery::Newest(_), _) => (String::new(), None, limited),
        (RunQuery::Id(id), _) => (format!("WHERE r.run_id = {given}"), Some(id.clone()), limited),
        (RunQuery::Identity(identity), _) => (
            format!("WHERE r.identity = {given}"),
            Some(identity.clone()),
            limited,
        ),
        (RunQuery::Unfinished, _) => match dialect.unfinished {
            Some(column) => (format!("WHERE r.{column} IS NOT NULL"), None, limited),
            None => ("WHERE r.finished IS NULL".to_owned(), None, limited),
        },
        (RunQuery::Table(table), Some(inputs)) => (
            format!("JOIN {inputs} AS i ON i.run_id = r.run_id WHERE i.found_by = {given}"),
            Some(table_key(table)),
            limited,
        ),
        (RunQuery::Table(_), None) => (String::new(), None, String::new()),
    };
    let first = match query {
        RunQuery::Identity(_) => "(r.finished IS NULL) DESC, ",
        _ => "",
    };
    let [written, skipped, rejected] = ["written", "skipped", "rejected"].map(|column| {
        format!(
            "CASE WHEN r.finished IS NULL THEN (SELECT cast(coalesce(sum(s.{column}), 0) AS {}) \
             FROM {slots} AS s WHERE s.run_id = r.run_id) ELSE r.{column} END",
            dialect.count_type
        )
    });
    let text = format!(
        "SELECT r.run_id, r.identity, r.epoch, r.started, r.finished, r.detail, {written}, {skipped}, {rejected} \
         FROM {runs} AS r {which} ORDER BY {first}r.run_id DESC{limit}"
    );
    let values: Vec<Value> = value.into_iter().map(Value::Text).collect();
    let mut found = Vec::new();
    for row in session.query(&text, &values).await? {
        let run = codec::run(&row, query)?;
        found.extend(run.filter(|run| query.matches(run)));
    }
    found.truncate(query.limit());
    Ok(found)
}

/// The ids that begin with `prefix`: [`Ledger::ids`](tonnage_core::ledger::Ledger::ids).
pub async fn ids(session: &mut dyn Session, tables: &Tables, prefix: &str) -> Result<Vec<String>> {
    let [first, second] = tables.dialect.given();
    let of = |table: &str, given: &str| {
        let begins = (tables.dialect.begins_with)(given, prefix.chars().count());
        format!("SELECT run_id FROM {table} WHERE {begins}")
    };
    let mut query = of(&tables.runs, &first);
    let mut values = vec![Value::from(prefix)];
    if let Some(inputs) = &tables.inputs {
        query = format!("{query} UNION {}", of(inputs, &second));
        values.push(prefix.into());
    }
    let rows = session.query(&format!("{query} LIMIT 2"), &values).await?;
    rows.iter().map(|row| codec::id(row)).collect()
}

/// What is on record of inputs: [`Ledger::inputs`](tonnage_core::ledger::Ledger::inputs).
pub async fn inputs(session: &mut dyn Session, tables: &Tables, keys: &[String]) -> Result<Vec<InputRecord>> {
    let Some(inputs) = &tables.inputs else {
        return inputs_of_details(session, tables, keys).await;
    };
    let of_key = |key: &str| {
        format!(
            "SELECT i.run_id, i.detail, r.run_id IS NULL OR r.finished IS NOT NULL AS finished FROM {inputs} AS i \
             LEFT JOIN {} AS r ON r.run_id = i.run_id WHERE i.found_by = {key} AND (r.run_id IS NOT NULL \
               OR NOT EXISTS (SELECT 1 FROM {inputs} AS t WHERE t.run_id = i.run_id AND t.number = 0)) \
             ORDER BY i.run_id DESC LIMIT {FOUND_MAX}",
            tables.runs
        )
    };
    let rows = match tables.dialect.keys {
        Keys::Array => {
            let [given] = tables.dialect.given();
            let query = format!(
                "SELECT f.* FROM unnest({given}::text[]) AS k (found_by) CROSS JOIN LATERAL ({}) AS f",
                of_key("k.found_by")
            );
            session.query(&query, &[Value::Texts(keys.to_vec())]).await?
        }
        Keys::Each(at_once) => {
            let mut rows = Vec::new();
            for keys in keys.chunks(at_once) {
                let each: Vec<_> = (1..=keys.len())
                    .map(|at| {
                        format!(
                            "SELECT * FROM ({}) AS f{at}",
                            of_key(&(tables.dialect.placeholder)(at))
                        )
                    })
                    .collect();
                let values: Vec<_> = keys.iter().map(|key| Value::from(key.as_str())).collect();
                rows.extend(session.query(&each.join(" UNION ALL "), &values).await?);
            }
            rows
        }
    };
    let mut found = Vec::new();
    for row in &rows {
        found.extend(codec::input(row)?);
    }
    Ok(found)
}

async fn inputs_of_details(
    session: &mut dyn Session,
    tables: &Tables,
    keys: &[String],
) -> Result<Vec<InputRecord>> {
    let mut found = Vec::new();
    let mut last = Some(String::new());
    while let Some(from) = last {
        let (runs, next) = history::page(session, tables, &from).await?;
        for run in runs {
            found.extend(of_detail(&run.run_id, &run.detail, run.status, keys)?);
        }
        last = next;
    }
    Ok(found)
}

/// The run's slots: [`Ledger::slots`](tonnage_core::ledger::Ledger::slots).
pub async fn slots(session: &mut dyn Session, tables: &Tables, run_id: &str) -> Result<Vec<SlotState>> {
    states(session, tables, run_id, "").await
}

/// The run's slots; `lock` is the clause that follows the SELECT.
pub(super) async fn states(
    session: &mut dyn Session,
    tables: &Tables,
    run_id: &str,
    lock: &str,
) -> Result<Vec<SlotState>> {
    let [id] = tables.dialect.given();
    let query = format!(
        "SELECT {} FROM {} WHERE run_id = {id} ORDER BY slot{lock}",
        tables.dialect.slot_columns, tables.slots
    );
    let rows = session.query(&query, &[run_id.into()]).await?;
    rows.iter().map(|row| codec::slot(row)).collect()
}

/// The newest finished run that may be pruned, by when it finished and its id.
#[derive(Debug, Clone)]
pub struct Bound {
    finished: i64,
    run_id: String,
}

/// The newest finished run beyond `keep` of them, where there is something to be pruned. Looked at before a transaction is
/// begun: most often there is nothing to do.
pub async fn bound(session: &mut dyn Session, tables: &Tables, keep: u64) -> Result<Option<Bound>> {
    if tables.inputs.is_none() {
        return Ok(None);
    }
    let query = format!(
        "SELECT finished, run_id FROM {} WHERE finished IS NOT NULL ORDER BY finished DESC, run_id DESC LIMIT 1 OFFSET {}",
        tables.runs,
        keep.min(i64::MAX as u64)
    );
    let rows = session.query(&query, &[]).await?;
    let read = |columns: &mut Columns<'_>| {
        Ok(Bound {
            finished: columns.integer()?,
            run_id: columns.text()?.to_owned(),
        })
    };
    let bound = rows.first().map(|row| read(&mut Columns::of(row)));
    bound.transpose().map_err(odd(RUNS))
}

/// Removes finished runs up to `bound`, at most `limit`: [`Ledger::prune`](tonnage_core::ledger::Ledger::prune).
pub async fn prune(session: &mut dyn Session, tables: &Tables, bound: &Bound, limit: u64) -> Result<u64> {
    let Tables {
        dialect,
        runs,
        inputs: Some(inputs),
        ..
    } = tables
    else {
        return Ok(0);
    };
    let [to, before, id] = dialect.given();
    // The newest run of its table is looked up for each candidate: of NOT EXISTS MariaDB makes a table of all runs.
    let query = format!(
        "SELECT r.run_id FROM {runs} AS r WHERE r.finished <= {to} AND (r.finished < {before} OR r.run_id <= {id}) \
         AND coalesce((SELECT later.run_id FROM {inputs} AS later WHERE later.found_by = (\
           SELECT i.found_by FROM {inputs} AS i WHERE i.run_id = r.run_id AND i.number = 0) \
           ORDER BY later.run_id DESC LIMIT 1) > r.run_id, true) \
         ORDER BY r.finished, r.run_id LIMIT {}{}",
        limit.min(i64::MAX as u64),
        dialect.skip_locked
    );
    let Bound { finished, run_id } = bound;
    let values = [(*finished).into(), (*finished).into(), run_id.as_str().into()];
    let prunable = session.query(&query, &values).await?;
    let ids: Vec<Value> = prunable.into_iter().flatten().collect();
    for ids in ids.chunks(PRUNED_AT_ONCE) {
        let given = dialect.list(0, ids.len());
        let delete = format!("DELETE FROM {runs} WHERE run_id IN ({given})");
        session.execute(&delete, ids).await?;
        let delete = format!("DELETE FROM {inputs} WHERE number = 0 AND run_id IN ({given})");
        session.execute(&delete, ids).await?;
        jobs::remove(session, tables, ids).await?;
    }
    Ok(ids.len() as u64)
}

/// Runs that one statement prunes.
const PRUNED_AT_ONCE: usize = 100;

/// What a ledger that a connection does not use has of what is sought; `place` and `used_with` are those of
/// [`OtherLedger`].
pub async fn other(
    session: &mut dyn Session,
    tables: &Tables,
    (place, used_with): (String, String),
    sought: &Sought,
) -> Result<OtherLedger> {
    let mut other = OtherLedger {
        place,
        used_with,
        runs: runs(session, tables, &RunQuery::Identity(sought.identity.clone())).await?,
        inputs: inputs(session, tables, &sought.keys).await?,
    };
    other.add(runs(session, tables, &RunQuery::Table(sought.table.clone())).await?);
    for id in other.unread(sought) {
        other.add(runs(session, tables, &RunQuery::Id(id)).await?);
    }
    Ok(other)
}
