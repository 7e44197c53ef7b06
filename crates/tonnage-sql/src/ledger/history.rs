//! The rows by which runs are found, and the history of a ledger of an earlier version, which has none.

use tonnage_core::{
    error::Result,
    ledger::{RunDetail, RunStatus},
};

use super::{
    Dialect, RUNS, Session, Tables, Value,
    codec::{Columns, odd},
    insert,
};

/// Records of an earlier version that are read at once.
const READ_AT_ONCE: usize = 1_000;

/// A run whose record can be read.
pub(super) struct Stored {
    pub(super) run_id: String,
    pub(super) detail: RunDetail,
    pub(super) status: RunStatus,
}

/// Runs behind `last` in the order of their ids, and behind which one others may follow.
pub(super) async fn page(
    session: &mut dyn Session,
    tables: &Tables,
    last: &str,
) -> Result<(Vec<Stored>, Option<String>)> {
    let [behind] = tables.dialect.given();
    let query = format!(
        "SELECT run_id, detail, finished IS NOT NULL FROM {} WHERE run_id > {behind} ORDER BY run_id LIMIT {READ_AT_ONCE}",
        tables.runs
    );
    let rows = session.query(&query, &[last.into()]).await?;
    let (mut page, mut next) = (Vec::with_capacity(rows.len()), None);
    for row in &rows {
        let mut columns = Columns::of(row);
        // What cannot be read is found by nothing but its identity.
        let Ok(run_id) = columns.text() else { continue };
        next = Some(run_id.to_owned());
        if let Ok(text) = columns.text()
            && let Ok(detail) = RunDetail::from_json(run_id, text)
        {
            page.push(Stored {
                run_id: run_id.to_owned(),
                detail,
                status: columns.status().map_err(odd(RUNS))?,
            });
        }
    }
    Ok((page, next.filter(|_| rows.len() == READ_AT_ONCE)))
}

/// Writes the rows by which the runs of a ledger of an earlier version are found, into a new table.
pub async fn fill(session: &mut dyn Session, tables: &Tables, inputs: &str) -> Result<()> {
    let mut last = Some(String::new());
    while let Some(from) = last {
        let (runs, next) = page(session, tables, &from).await?;
        for run in runs {
            put(session, tables.dialect, inputs, &run.run_id, &run.detail).await?;
            // Such a run may have put another table in the place of its own, and is known by that one.
            if run.status == RunStatus::Finished && run.detail.prepared_by.is_some() {
                let [identity, id] = tables.dialect.given();
                let update = format!(
                    "UPDATE {} SET identity = {identity} WHERE run_id = {id}",
                    tables.runs
                );
                let values = [run.detail.identity().into(), run.run_id.into()];
                session.execute(&update, &values).await?;
            }
        }
        last = next;
    }
    Ok(())
}

/// Writes the rows by which a run is found that has none yet.
pub(super) async fn put_on_record(
    session: &mut dyn Session,
    tables: &Tables,
    run_id: &str,
    detail: &RunDetail,
) -> Result<()> {
    match &tables.inputs {
        Some(inputs) => put(session, tables.dialect, inputs, run_id, detail).await,
        None => Ok(()),
    }
}

/// Removes the rows by which a run is found; how many.
pub(super) async fn take_off_record(session: &mut dyn Session, tables: &Tables, run_id: &str) -> Result<u64> {
    let Some(inputs) = &tables.inputs else {
        return Ok(0);
    };
    let [id] = tables.dialect.given();
    let delete = format!("DELETE FROM {inputs} WHERE run_id = {id}");
    session.execute(&delete, &[run_id.into()]).await
}

async fn put(
    session: &mut dyn Session,
    dialect: &Dialect,
    inputs: &str,
    run_id: &str,
    detail: &RunDetail,
) -> Result<()> {
    let rows = detail.rows()?.into_iter().map(|row| {
        let number = i64::from(row.number);
        vec![
            run_id.into(),
            Value::Integer(number),
            row.found_by.into(),
            row.detail.into(),
        ]
    });
    let into = format!("{inputs} (run_id, number, found_by, detail)");
    insert(session, dialect, &into, rows.collect::<Vec<_>>()).await
}
