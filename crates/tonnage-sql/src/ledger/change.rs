//! What becomes of a run, each function within a transaction.

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{NewRun, Opening, RunDetail, RunHandle, jobs::RunRole},
    slot::{Counts, SlotState},
};

use super::{
    Row, Session, Tables, Value,
    codec::{self, Columns, odd},
    find::{slots, states},
    history::{put_on_record, take_off_record},
    insert, jobs, no_run, taken_over,
};

/// Records the run and its slots, and prepares its table: [`Ledger::start`](tonnage_core::ledger::Ledger::start).
pub async fn start(session: &mut dyn Session, tables: &Tables, run: &NewRun) -> Result<RunHandle> {
    let handle = RunHandle {
        run_id: run.run_id.clone(),
        epoch: 1,
    };
    if !record(session, tables, run).await? {
        // The answer to an earlier attempt of ours may have been lost. What others have done since is not ours.
        return match is_unfinished(session, tables, run).await? {
            true => Ok(handle),
            false => Err(Error::new(
                ErrorKind::Fenced,
                format!(
                    "an unfinished run of this input into {} is in the ledger",
                    run.detail.table
                ),
            )
            .hint("go on with --resume, or begin again with --restart")),
        };
    }
    record_slots(session, tables, run).await?;
    match &run.role {
        RunRole::Alone => {}
        RunRole::Job(parts) => jobs::put(session, tables, &run.run_id, parts).await?,
        RunRole::Part(attempt) => jobs::begin(session, tables, attempt, &run.run_id).await?,
    }
    let mut detail = run.detail.clone();
    session.prepare(run, &mut detail).await?;
    if detail != run.detail {
        write_detail(session, tables, &run.run_id, &detail).await?;
    }
    put_on_record(session, tables, &run.run_id, &detail).await?;
    Ok(handle)
}

/// False where there is an unfinished run of this identity, or a run of this id.
async fn record(session: &mut dyn Session, tables: &Tables, run: &NewRun) -> Result<bool> {
    let dialect = tables.dialect;
    let mut columns = vec!["run_id", "identity", "detail"];
    let mut values: Row = vec![
        run.run_id.as_str().into(),
        run.identity.as_str().into(),
        run.detail.to_json()?.into(),
    ];
    if let Some(unfinished) = dialect.unfinished {
        columns.push(unfinished);
        values.push(run.identity.as_str().into());
    }
    let insert = format!(
        "INSERT INTO {} ({}, epoch, started, written, skipped, rejected) VALUES ({}, 1, {}, 0, 0, 0){}",
        tables.runs,
        columns.join(", "),
        dialect.list(0, values.len()),
        dialect.now,
        dialect.on_conflict
    );
    match session.execute(&insert, &values).await {
        Ok(inserted) => Ok(inserted > 0),
        Err(error) if dialect.duplicate.is_some() && error.code_text() == dialect.duplicate => Ok(false),
        Err(error) => Err(error),
    }
}

async fn is_unfinished(session: &mut dyn Session, tables: &Tables, run: &NewRun) -> Result<bool> {
    let [id, identity] = tables.dialect.given();
    let query = format!(
        "SELECT 1 FROM {} WHERE run_id = {id} AND identity = {identity} AND finished IS NULL",
        tables.runs
    );
    let values = [run.run_id.as_str().into(), run.identity.as_str().into()];
    let found = session.query(&query, &values).await?;
    Ok(!found.is_empty())
}

async fn record_slots(session: &mut dyn Session, tables: &Tables, run: &NewRun) -> Result<()> {
    let dialect = tables.dialect;
    let mut columns = format!("run_id, epoch, {}", dialect.slot_columns);
    columns.extend(dialect.moves.iter().flat_map(|moves| [", ", moves]));
    // All behind the run, the epoch and the slot's number.
    let zeros = columns.matches(", ").count() - 2;
    let state = |slot: u16| {
        let mut row: Row = vec![
            run.run_id.as_str().into(),
            Value::Integer(1),
            i64::from(slot).into(),
        ];
        row.extend(std::iter::repeat_n(Value::Integer(0), zeros));
        row
    };
    let into = format!("{} ({columns})", tables.slots);
    insert(session, dialect, &into, (0..run.detail.slots).map(state)).await
}

/// Raises the run's epoch: [`Ledger::take_over`](tonnage_core::ledger::Ledger::take_over).
pub async fn take_over(
    session: &mut dyn Session,
    tables: &Tables,
    run_id: &str,
) -> Result<(RunHandle, Vec<SlotState>)> {
    let Tables { dialect, runs, .. } = tables;
    let [id] = dialect.given();
    let raise = format!("UPDATE {runs} SET epoch = epoch + 1 WHERE run_id = {id} AND finished IS NULL");
    if session.execute(&raise, &[run_id.into()]).await? != 1 {
        return Err(no_run(run_id));
    }
    let raised = format!("SELECT epoch FROM {runs} WHERE run_id = {id}");
    let raised = session.query(&raised, &[run_id.into()]).await?;
    let raised = raised.first().ok_or_else(|| no_run(run_id))?;
    let epoch = Columns::of(raised).integer().map_err(odd(runs))?;
    // Waits for every transaction that holds a slot.
    let [raised, id] = dialect.given();
    let fence = format!("UPDATE {} SET epoch = {raised} WHERE run_id = {id}", tables.slots);
    session.execute(&fence, &[epoch.into(), run_id.into()]).await?;
    let handle = RunHandle {
        run_id: run_id.to_owned(),
        epoch,
    };
    let slots = slots(session, tables, run_id).await?;
    session.taken_over(run_id, &slots).await?;
    Ok((handle, slots))
}

/// The row of an unfinished run, which is locked; under `epoch`, where one is given.
pub(super) async fn lock(
    session: &mut dyn Session,
    tables: &Tables,
    run_id: &str,
    epoch: Option<i64>,
) -> Result<Option<Row>> {
    let [id, under] = tables.dialect.given();
    let mut values: Row = vec![run_id.into()];
    let mut owned = String::new();
    if let Some(epoch) = epoch {
        owned = format!(" AND epoch = {under}");
        values.push(epoch.into());
    }
    let query = format!(
        "SELECT detail FROM {} WHERE run_id = {id}{owned} AND finished IS NULL{}",
        tables.runs, tables.dialect.for_update
    );
    Ok(session.query(&query, &values).await?.pop())
}

/// Has the record name an opening: [`Ledger::note_opening`](tonnage_core::ledger::Ledger::note_opening).
pub async fn note_opening(
    session: &mut dyn Session,
    tables: &Tables,
    run_id: &str,
    opening: &Opening,
) -> Result<bool> {
    let Some(row) = lock(session, tables, run_id, None).await? else {
        return Ok(false);
    };
    let mut detail = codec::detail(run_id, &row)?;
    if !opening.put_into(&mut detail) {
        return Ok(false);
    }
    write_detail(session, tables, run_id, &detail).await?;
    Ok(true)
}

async fn write_detail(
    session: &mut dyn Session,
    tables: &Tables,
    run_id: &str,
    detail: &RunDetail,
) -> Result<()> {
    let [written, id] = tables.dialect.given();
    let update = format!(
        "UPDATE {} SET detail = {written} WHERE run_id = {id}",
        tables.runs
    );
    let values = [detail.to_json()?.into(), run_id.into()];
    session.execute(&update, &values).await.map(|_| ())
}

/// Rewrites a run's detail, and the rows by which it is found.
pub async fn rewrite(
    session: &mut dyn Session,
    tables: &Tables,
    run_id: &str,
    detail: &RunDetail,
) -> Result<()> {
    write_detail(session, tables, run_id, detail).await?;
    take_off_record(session, tables, run_id).await?;
    put_on_record(session, tables, run_id, detail).await
}

/// Settles what is owed to the table and marks the run finished: [`Ledger::finish`](tonnage_core::ledger::Ledger::finish).
pub async fn finish(
    session: &mut dyn Session,
    tables: &Tables,
    handle: &RunHandle,
    counts: Counts,
) -> Result<()> {
    let run_id = handle.run_id.as_str();
    // The row is locked first, so that nothing is settled that another process finishes or forgets.
    let owned = lock(session, tables, run_id, Some(handle.epoch)).await?;
    // A table that took the place of another has another identity, and the run with it.
    let mut replaced = (String::new(), String::new());
    let mut part = None;
    if let Some(row) = owned {
        let found = codec::detail(run_id, &row)?;
        let mut detail = found.clone();
        session.settle(run_id, &mut detail).await?;
        if detail != found {
            rewrite(session, tables, run_id, &detail).await?;
        }
        replaced = (found.identity(), detail.identity());
        part = found.part;
    }
    let dialect = tables.dialect;
    let [before, after, written, skipped, rejected, id, epoch] = dialect.given();
    let unfinished = dialect
        .unfinished
        .map_or(String::new(), |column| format!("{column} = NULL, "));
    // A run that has finished already stays so: the answer to an earlier attempt may have been lost.
    let update = format!(
        "UPDATE {} SET finished = coalesce(finished, {}), {unfinished}\
             identity = CASE WHEN identity = {before} THEN {after} ELSE identity END, \
             written = {written}, skipped = {skipped}, rejected = {rejected} WHERE run_id = {id} AND epoch = {epoch}",
        tables.runs, dialect.now
    );
    let values = [
        replaced.0.into(),
        replaced.1.into(),
        counts.written.into(),
        counts.skipped.into(),
        counts.rejected.into(),
        run_id.into(),
        handle.epoch.into(),
    ];
    if session.execute(&update, &values).await? != 1 {
        return Err(taken_over(run_id));
    }
    remove_slots(session, tables, run_id).await?;
    match part {
        Some(part) => jobs::done(session, tables, &part, counts).await,
        None => Ok(()),
    }
}

async fn remove_slots(session: &mut dyn Session, tables: &Tables, run_id: &str) -> Result<()> {
    let [id] = tables.dialect.given();
    let delete = format!("DELETE FROM {} WHERE run_id = {id}", tables.slots);
    session.execute(&delete, &[run_id.into()]).await.map(|_| ())
}

/// Removes the run: [`Ledger::forget`](tonnage_core::ledger::Ledger::forget).
pub async fn forget(session: &mut dyn Session, tables: &Tables, run_id: &str) -> Result<bool> {
    let unfinished = lock(session, tables, run_id, None).await?;
    // Those of a job's parts go with it.
    for part in jobs::unfinished_runs(session, tables, run_id).await? {
        let unfinished = lock(session, tables, &part, None).await?;
        remove(session, tables, &part, unfinished).await?;
    }
    jobs::remove(session, tables, &[run_id.into()]).await?;
    remove(session, tables, run_id, unfinished).await
}

/// Removes the run if nothing of it was committed:
/// [`Ledger::forget_unbegun`](tonnage_core::ledger::Ledger::forget_unbegun).
pub async fn forget_unbegun(session: &mut dyn Session, tables: &Tables, handle: &RunHandle) -> Result<bool> {
    let run_id = handle.run_id.as_str();
    let Some(unfinished) = lock(session, tables, run_id, Some(handle.epoch)).await? else {
        return Ok(false);
    };
    // Waits for transactions in flight, and then sees what they have committed.
    let slots = states(session, tables, run_id, tables.dialect.for_update).await?;
    match slots.iter().all(|slot| slot.counts == Counts::default()) {
        true => remove(session, tables, run_id, Some(unfinished)).await,
        false => Ok(false),
    }
}

/// Removes a run, and undoes what it owes; `unfinished` is its row while it is.
async fn remove(
    session: &mut dyn Session,
    tables: &Tables,
    run_id: &str,
    unfinished: Option<Row>,
) -> Result<bool> {
    let [id] = tables.dialect.given();
    let delete = format!("DELETE FROM {} WHERE run_id = {id}", tables.runs);
    let mut removed = session.execute(&delete, &[run_id.into()]).await?;
    // They wait for transactions in flight, which then find their run gone.
    remove_slots(session, tables, run_id).await?;
    removed += take_off_record(session, tables, run_id).await?;
    let owed = unfinished.and_then(|row| match codec::detail(run_id, &row) {
        Ok(detail) => Some(detail),
        Err(error) => {
            // Without a readable detail nothing can be known to be owed.
            tracing::warn!("{error}");
            None
        }
    });
    session.undo(run_id, owed.as_ref()).await?;
    Ok(removed > 0)
}
