//! Jobs and their parts: [`Jobs`](tonnage_core::ledger::jobs::Jobs), each function within a transaction.
//!
//! Claims of a job wait for one another: each locks the row of the whole first. Renewals and endings touch the row of
//! their part only.

use tonnage_core::{
    error::Result,
    ledger::{
        RunHandle,
        jobs::{
            Busy, ClaimRequest, Decision, HeldPart, InUse, NewPart, PartAttempt, PartClaim, PartId,
            PartRecord, PartState, WHOLE, WhichPart, added_part, decide, kept_error, missing, no_job,
            superseded,
        },
    },
    slot::{Counts, SlotState},
};

use super::{PARTS, Row, Session, Tables, Value, change, codec, insert, no_run};

/// Parts that are looked at for one that is free, when others take those that were found.
const LOOKS_MAX: usize = 10;

/// The table, which whoever planned a job has made.
fn table<'t>(tables: &'t Tables, job_id: &str) -> Result<&'t str> {
    tables.parts.as_deref().ok_or_else(|| no_job(job_id))
}

/// Puts the rows of a job on record.
pub(super) async fn put(
    session: &mut dyn Session,
    tables: &Tables,
    job_id: &str,
    parts: &[NewPart],
) -> Result<()> {
    let into = format!(
        "{} (job_id, part, state, attempt, lease_until, connections, run_id, written, skipped, rejected, detail)",
        table(tables, job_id)?
    );
    let zero = || Value::Integer(0);
    let rows = parts.iter().map(|part| {
        let run_id = match part.part {
            WHOLE => job_id.into(),
            _ => Value::Null,
        };
        vec![
            job_id.into(),
            part.part.into(),
            PartState::Open.name().into(),
            zero(),
            zero(),
            Value::Integer(part.connections_max.unwrap_or(0).min(i64::MAX as u64) as i64),
            run_id,
            zero(),
            zero(),
            zero(),
            part.detail.as_str().into(),
        ]
    });
    insert(session, tables.dialect, &into, rows.collect::<Vec<Row>>()).await
}

/// Rows of a job: all, or the one of this number; locked, where it is to be changed.
async fn rows(
    session: &mut dyn Session,
    tables: &Tables,
    job_id: &str,
    only: Option<(i64, &str)>,
) -> Result<Vec<PartRecord>> {
    let Some(parts) = &tables.parts else {
        return Ok(Vec::new());
    };
    let [job, number] = tables.dialect.given();
    let mut values: Row = vec![job_id.into()];
    let (mut which, mut lock) = (String::new(), "");
    if let Some((part, for_update)) = only {
        which = format!(" AND part = {number}");
        values.push(part.into());
        lock = for_update;
    }
    let query = format!(
        "SELECT part, state, attempt, owner, lease_until, {}, connections, run_id, written, skipped, rejected, error, \
         detail FROM {parts} WHERE job_id = {job}{which} ORDER BY part{lock}",
        tables.dialect.now
    );
    let rows = session.query(&query, &values).await?;
    rows.iter().map(|row| codec::part(row)).collect()
}

/// All rows of a job, that of the whole first.
pub(super) async fn all(session: &mut dyn Session, tables: &Tables, job_id: &str) -> Result<Vec<PartRecord>> {
    rows(session, tables, job_id, None).await
}

/// One row of a job.
pub(super) async fn one(
    session: &mut dyn Session,
    tables: &Tables,
    of: &PartId,
) -> Result<Option<PartRecord>> {
    Ok(rows(session, tables, &of.job_id, Some((of.part, "")))
        .await?
        .pop())
}

/// A row that is locked.
async fn locked(session: &mut dyn Session, tables: &Tables, of: &PartId) -> Result<Option<PartRecord>> {
    let only = Some((of.part, tables.dialect.for_update));
    Ok(rows(session, tables, &of.job_id, only).await?.pop())
}

/// Numbers of parts that are not done, in the order of `order`, at most `limit`.
async fn undone(
    session: &mut dyn Session,
    tables: &Tables,
    job_id: &str,
    (condition, order, limit): (&str, &str, usize),
) -> Result<Vec<i64>> {
    let [job] = tables.dialect.given();
    let query = format!(
        "SELECT part FROM {} WHERE job_id = {job} AND part >= 0 AND state <> 'done'{condition} ORDER BY {order} \
         LIMIT {limit}",
        table(tables, job_id)?
    );
    let found = session.query(&query, &[job_id.into()]).await?;
    found.iter().map(|row| codec::number(row, PARTS)).collect()
}

/// Claims a part: [`Jobs::claim`](tonnage_core::ledger::jobs::Jobs::claim).
pub(super) async fn claim(
    session: &mut dyn Session,
    tables: &Tables,
    request: &ClaimRequest,
) -> Result<PartClaim> {
    let job_id = request.job_id.as_str();
    let of = |part| PartId {
        job_id: job_id.to_owned(),
        part,
    };
    let whole = locked(session, tables, &of(WHOLE)).await?;
    let whole = whole.ok_or_else(|| no_job(job_id))?;
    let part = match request.which {
        WhichPart::Numbered(WHOLE) => {
            let undone = undone(session, tables, job_id, ("", "part", usize::MAX >> 1)).await?;
            if !undone.is_empty() {
                return Err(missing(&undone, whole.job()?.parts));
            }
            whole.clone()
        }
        WhichPart::Numbered(number) => {
            let part = locked(session, tables, &of(number)).await?;
            match part {
                Some(part) => part,
                None => {
                    let added = added_part(number, &whole)?;
                    put(session, tables, job_id, &[added]).await?;
                    let part = locked(session, tables, &of(number)).await?;
                    part.ok_or_else(|| no_job(job_id))?
                }
            }
        }
        WhichPart::Next => match next_free(session, tables, job_id).await? {
            Some(part) => part,
            None => return none_free(session, tables, request).await,
        },
    };
    let used = InUse {
        connections: connections(session, tables, job_id, part.part).await?,
        max: (whole.connections > 0).then_some(whole.connections),
    };
    let (attempt, connections) = match decide(&part, request, used) {
        Decision::Refused(claim) => return Ok(claim),
        Decision::Given { attempt, connections } => (attempt, connections),
    };
    let attempt = PartAttempt {
        of: of(part.part),
        attempt,
    };
    give(session, tables, request, (&attempt, connections)).await?;
    Ok(PartClaim::Held(HeldPart {
        attempt,
        connections,
        detail: part.detail,
    }))
}

async fn give(
    session: &mut dyn Session,
    tables: &Tables,
    request: &ClaimRequest,
    (attempt, connections): (&PartAttempt, u64),
) -> Result<()> {
    let [number, owner, lease, opens, job, part] = tables.dialect.given();
    let update = format!(
        "UPDATE {} SET state = 'running', attempt = {number}, owner = {owner}, lease_until = {} + {lease}, \
         connections = {opens}, error = NULL WHERE job_id = {job} AND part = {part}",
        table(tables, &request.job_id)?,
        tables.dialect.now
    );
    let values = [
        attempt.attempt.into(),
        request.owner.as_str().into(),
        seconds(request.lease_seconds),
        Value::Integer(connections.min(i64::MAX as u64) as i64),
        request.job_id.as_str().into(),
        attempt.of.part.into(),
    ];
    session.execute(&update, &values).await.map(|_| ())
}

fn seconds(seconds: u64) -> Value {
    // More than a person lives.
    Value::Integer(seconds.min(1 << 32) as i64)
}

/// A part that nobody holds, which is locked.
async fn next_free(session: &mut dyn Session, tables: &Tables, job_id: &str) -> Result<Option<PartRecord>> {
    let free = format!(
        " AND (state <> 'running' OR lease_until <= {})",
        tables.dialect.now
    );
    for _ in 0..LOOKS_MAX {
        let found = undone(session, tables, job_id, (&free, "attempt, part", 1)).await?;
        let Some(part) = found.first() else {
            return Ok(None);
        };
        let of = PartId {
            job_id: job_id.to_owned(),
            part: *part,
        };
        // Its last attempt may have come to its end meanwhile after all.
        let found = locked(session, tables, &of).await?;
        if let Some(part) = found.filter(|part| part.state != PartState::Done && !part.is_held()) {
            return Ok(Some(part));
        }
    }
    Ok(None)
}

/// The answer where no part is free: all are done, or the others are held.
async fn none_free(session: &mut dyn Session, tables: &Tables, request: &ClaimRequest) -> Result<PartClaim> {
    let held = undone(session, tables, &request.job_id, ("", "lease_until, part", 1)).await?;
    let Some(first) = held.first() else {
        return Ok(PartClaim::NothingLeft);
    };
    let only = Some((*first, ""));
    let first = rows(session, tables, &request.job_id, only).await?.pop();
    let left = first.map_or(0, |part| part.lease_seconds.max(0));
    Ok(PartClaim::Busy(Busy {
        why: "all parts that are not done are being carried out".to_owned(),
        seconds: left.unsigned_abs(),
    }))
}

/// Connections of attempts whose leases last, other than at `part`.
async fn connections(session: &mut dyn Session, tables: &Tables, job_id: &str, part: i64) -> Result<u64> {
    let [job, own] = tables.dialect.given();
    let query = format!(
        "SELECT cast(coalesce(sum(connections), 0) AS {}) FROM {} WHERE job_id = {job} AND part <> {own} AND part >= 0 \
         AND state = 'running' AND lease_until > {}",
        tables.dialect.count_type,
        table(tables, job_id)?,
        tables.dialect.now
    );
    let found = session.query(&query, &[job_id.into(), part.into()]).await?;
    let sum = found.first().map(|row| codec::number(row, PARTS)).transpose()?;
    Ok(sum.unwrap_or(0).unsigned_abs())
}

/// Changes the row of an attempt that is the newest and not at its end; false where it is not.
async fn change_of(
    session: &mut dyn Session,
    tables: &Tables,
    attempt: &PartAttempt,
    (set, values): (&str, Vec<Value>),
) -> Result<bool> {
    let given = |at: usize| (tables.dialect.placeholder)(values.len() + at);
    let update = format!(
        "UPDATE {} SET {set} WHERE job_id = {} AND part = {} AND attempt = {} AND state = 'running'",
        table(tables, &attempt.of.job_id)?,
        given(1),
        given(2),
        given(3)
    );
    let mut values = values.clone();
    values.push(attempt.of.job_id.as_str().into());
    values.push(attempt.of.part.into());
    values.push(attempt.attempt.into());
    Ok(session.execute(&update, &values).await? > 0)
}

/// Extends a lease: [`Jobs::renew`](tonnage_core::ledger::jobs::Jobs::renew).
pub(super) async fn renew(
    session: &mut dyn Session,
    tables: &Tables,
    attempt: &PartAttempt,
    lease_seconds: u64,
) -> Result<bool> {
    let [lease] = tables.dialect.given();
    let set = format!("lease_until = {} + {lease}", tables.dialect.now);
    change_of(session, tables, attempt, (&set, vec![seconds(lease_seconds)])).await
}

/// Ends a lease: [`Jobs::release`](tonnage_core::ledger::jobs::Jobs::release).
pub(super) async fn release(
    session: &mut dyn Session,
    tables: &Tables,
    attempt: &PartAttempt,
    error: Option<&str>,
) -> Result<()> {
    let [why] = tables.dialect.given();
    let set = format!("state = 'failed', lease_until = 0, error = {why}");
    let error = error.map_or(Value::Null, |error| kept_error(error).into());
    change_of(session, tables, attempt, (&set, vec![error]))
        .await
        .map(|_| ())
}

/// Has the row of a part name the run that carries it out. `Fenced` where there was a later attempt.
pub(super) async fn begin(
    session: &mut dyn Session,
    tables: &Tables,
    attempt: &PartAttempt,
    run_id: &str,
) -> Result<()> {
    let [run] = tables.dialect.given();
    let set = format!("run_id = {run}");
    match change_of(session, tables, attempt, (&set, vec![run_id.into()])).await? {
        true => Ok(()),
        // MySQL counts rows that it has changed, and this may be the same run.
        false => check(session, tables, attempt).await,
    }
}

/// `Fenced` where an attempt is not the newest, or its part is done. Nothing changes until the transaction ends.
async fn check(session: &mut dyn Session, tables: &Tables, attempt: &PartAttempt) -> Result<()> {
    let part = locked(session, tables, &attempt.of).await?;
    let part = part.ok_or_else(|| no_job(&attempt.of.job_id))?;
    match part.attempt == attempt.attempt && part.state == PartState::Running {
        true => Ok(()),
        false => Err(superseded(attempt)),
    }
}

/// Takes the run of a part over: [`Jobs::take_over_part`](tonnage_core::ledger::jobs::Jobs::take_over_part).
pub(super) async fn take_over(
    session: &mut dyn Session,
    tables: &Tables,
    attempt: &PartAttempt,
    run_id: &str,
) -> Result<(RunHandle, Vec<SlotState>)> {
    if change::lock(session, tables, run_id, None).await?.is_none() {
        return Err(no_run(run_id));
    }
    check(session, tables, attempt).await?;
    change::take_over(session, tables, run_id).await
}

/// Marks a part as done, in the transaction that finishes its run.
pub(super) async fn done(
    session: &mut dyn Session,
    tables: &Tables,
    of: &PartId,
    counts: Counts,
) -> Result<()> {
    let [written, skipped, rejected, job, part] = tables.dialect.given();
    let update = format!(
        "UPDATE {} SET state = 'done', lease_until = 0, written = {written}, skipped = {skipped}, rejected = {rejected} \
         WHERE job_id = {job} AND part = {part}",
        table(tables, &of.job_id)?
    );
    let values = [
        counts.written.into(),
        counts.skipped.into(),
        counts.rejected.into(),
        of.job_id.as_str().into(),
        of.part.into(),
    ];
    session.execute(&update, &values).await.map(|_| ())
}

/// Parts whose accounts differ from their runs': [`Jobs::disagreeing`](tonnage_core::ledger::jobs::Jobs::disagreeing).
pub(super) async fn disagreeing(
    session: &mut dyn Session,
    tables: &Tables,
    job_id: &str,
) -> Result<Vec<i64>> {
    let [job] = tables.dialect.given();
    let query = format!(
        "SELECT p.part FROM {} AS p JOIN {} AS r ON r.run_id = p.run_id WHERE p.job_id = {job} AND p.part >= 0 \
         AND p.state = 'done' AND (r.finished IS NULL OR r.written <> p.written OR r.skipped <> p.skipped \
           OR r.rejected <> p.rejected) ORDER BY p.part",
        table(tables, job_id)?,
        tables.runs
    );
    let found = session.query(&query, &[job_id.into()]).await?;
    found.iter().map(|row| codec::number(row, PARTS)).collect()
}

/// The unfinished runs of a job's parts.
pub(super) async fn unfinished_runs(
    session: &mut dyn Session,
    tables: &Tables,
    job_id: &str,
) -> Result<Vec<String>> {
    let Some(parts) = &tables.parts else {
        return Ok(Vec::new());
    };
    let [job] = tables.dialect.given();
    let query = format!(
        "SELECT run_id FROM {parts} WHERE job_id = {job} AND part >= 0 AND state <> 'done' AND run_id IS NOT NULL \
         ORDER BY part"
    );
    let found = session.query(&query, &[job_id.into()]).await?;
    found.iter().map(|row| codec::id(row)).collect()
}

/// Removes the rows of jobs.
pub(super) async fn remove(session: &mut dyn Session, tables: &Tables, job_ids: &[Value]) -> Result<()> {
    let Some(parts) = &tables.parts else {
        return Ok(());
    };
    let delete = format!(
        "DELETE FROM {parts} WHERE job_id IN ({})",
        tables.dialect.list(0, job_ids.len())
    );
    session.execute(&delete, job_ids).await.map(|_| ())
}
