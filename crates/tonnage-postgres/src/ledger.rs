//! The ledger: `tonnage_runs`, a row a run, `tonnage_slots`, a row a slot, and `tonnage_inputs`, the rows by which runs
//! are found ([`found`]); beside them `tonnage_unlogged`, where runs go into tables that a crash empties ([`witness`]).
//!
//! They are in the schema that the URL names (`ledger_schema`), else in the first schema of the search path that has them,
//! else in a schema called `tonnage` that has them; else they are made in the first schema of the search path in which the
//! role may make tables.
//! A slot's row is updated in place (fill factor 50, no index on what changes) and carries the run's epoch: whoever
//! raises the epoch waits for the transactions that hold slots, and shuts older owners out. Unsigned 64-bit values
//! are kept by their bit patterns.

mod crash_marker;
mod found;
mod setup;

use async_trait::async_trait;
use tokio_postgres::{Client, GenericClient, IsolationLevel, Statement, Transaction, types::ToSql};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::{
        Emptied, Ledger, NewRun, Opening, OtherLedger, RunDetail, RunHandle, RunQuery, RunRecord, Setup,
        Sought, inputs::InputRecord,
    },
    slot::{Advance, BlockMark, Counts, Position, SlotState},
};

use super::{
    PostgresTarget,
    catalog::{INPUTS, RUNS, SLOTS, UNLOGGED, get},
    errors, prepare, statements,
    types::quote,
};

/// Attempts at a take-over that meets a deadlock with an owner that is still at work.
const TAKE_OVER_ATTEMPTS: usize = 10;

/// The schema that is looked in where the search path leads to no ledger, and in which `tonnage init` makes one.
const SCHEMA: &str = "tonnage";

/// The schema that has the ledger's tables, and whether the rows are among them by which runs are found; none where the
/// ledger was never made.
async fn locate(client: &impl GenericClient, asked: Option<&str>) -> Result<Option<(String, bool)>> {
    let row = client
        .query_opt(
            "SELECT n.nspname::text, EXISTS (SELECT FROM pg_catalog.pg_class i \
                 WHERE i.relname = $2 AND i.relkind = 'r' AND i.relnamespace = n.oid) \
             FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relname = $1 AND c.relkind = 'r' AND CASE WHEN $3::text IS NULL \
                 THEN pg_catalog.pg_table_is_visible(c.oid) \
                     OR (n.nspname::text = $4 AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')) \
                 ELSE n.nspname::text = $3 END \
             ORDER BY pg_catalog.pg_table_is_visible(c.oid) DESC LIMIT 1",
            &[&RUNS, &INPUTS, &asked, &SCHEMA],
        )
        .await
        .map_err(errors::statement)?;
    row.map(|row| Ok((get(&row, 0)?, get(&row, 1)?))).transpose()
}

/// The ledger's tables in SQL.
struct Tables {
    /// The name of the schema, as it is.
    schema: String,
    runs: String,
    slots: String,
    /// None in a ledger of an earlier version, until a run starts in it under a role that may add the table.
    inputs: Option<String>,
    /// It need not be there.
    witnesses: String,
}

impl Tables {
    fn within(schema: &str, has_inputs: bool) -> Self {
        let table = |name| format!("{}.{name}", quote(schema));
        Self {
            schema: schema.to_owned(),
            runs: table(RUNS),
            slots: table(SLOTS),
            inputs: has_inputs.then(|| table(INPUTS)),
            witnesses: table(UNLOGGED),
        }
    }

    async fn locate(client: &impl GenericClient, asked: Option<&str>) -> Result<Option<Self>> {
        let found = locate(client, asked).await?;
        Ok(found.map(|(schema, has_inputs)| Self::within(&schema, has_inputs)))
    }

    async fn existing(client: &impl GenericClient, asked: Option<&str>) -> Result<Self> {
        Self::locate(client, asked).await?.ok_or_else(|| {
            Error::new(ErrorKind::Fenced, "this database has no ledger of runs any more")
                .hint("start the load anew with --restart")
        })
    }

    /// Inside a transaction that is to start a run.
    async fn make(client: &impl GenericClient, asked: Option<&str>) -> Result<Self> {
        match Self::locate(client, asked).await? {
            Some(tables) if tables.inputs.is_some() => return Ok(tables),
            Some(tables) if !found::may_add(client, &tables.runs).await? => return Ok(tables),
            _ => {}
        }
        setup::lock(client).await?;
        match locate(client, asked).await? {
            Some((schema, true)) => return Ok(Self::within(&schema, true)),
            Some((schema, false)) => {
                let tables = Self::within(&schema, true);
                found::add(client, &tables).await?;
                return Ok(tables);
            }
            None => {}
        }
        let schema = setup::schema_for_new(client, asked).await?;
        let tables = Self::within(&schema, true);
        for statement in setup::left(client, &tables)
            .await?
            .into_iter()
            .chain(setup::statements(&tables))
        {
            if let Err(failure) = client.batch_execute(&statement).await {
                let error =
                    errors::statement(failure).at(format!("cannot make the ledger in schema {schema}"));
                // Of another refusal, such as a full disk, the server knows better what to do. The transaction is
                // broken, so nobody can be asked for the role.
                return Err(match error.code_text() {
                    Some("42501") => error.hint(setup::hint("ROLE")),
                    _ => error,
                });
            }
        }
        Ok(tables)
    }

    /// An error of a statement about them.
    fn failed(&self, failure: tokio_postgres::Error) -> Error {
        let error = errors::statement(failure);
        match error.code_text() {
            Some("42501") => error
                .at(format!("the ledger in schema {} cannot be used", self.schema))
                .hint(setup::hint("ROLE")),
            _ => error,
        }
    }

    /// The columns of a slot's state, in the order in which [`slot_state`] reads them.
    const STATE: &str = "slot, block, block_rows, file, byte_offset, file_rows, source_rows, hash, \
                         written, skipped, rejected";
}

fn slot_state(row: &tokio_postgres::Row) -> Result<SlotState> {
    let unsigned = |index| get::<i64>(row, index).map(|value| value as u64);
    let narrow = |index| {
        u32::try_from(get::<i64>(row, index)?)
            .map_err(|_| Error::new(ErrorKind::Refused, format!("{SLOTS} holds a value out of range")))
    };
    let slot: i32 = get(row, 0)?;
    Ok(SlotState {
        slot: u16::try_from(slot)
            .map_err(|_| Error::new(ErrorKind::Refused, format!("{SLOTS} holds slot {slot}")))?,
        position: Position {
            block: unsigned(1)?,
            rows: unsigned(2)?,
        },
        mark: BlockMark {
            file: narrow(3)?,
            offset: unsigned(4)?,
            file_rows: unsigned(5)?,
            rows: unsigned(6)?,
            hash: unsigned(7)?,
        },
        counts: Counts {
            written: unsigned(8)?,
            skipped: unsigned(9)?,
            rejected: unsigned(10)?,
        },
    })
}

/// Begins a transaction of the ledger, which sees what others have committed whatever the role's default is.
async fn begin(client: &mut Client) -> Result<Transaction<'_>> {
    client
        .build_transaction()
        .isolation_level(IsolationLevel::ReadCommitted)
        .start()
        .await
        .map_err(errors::statement)
}

/// Writes anew the detail of a run whose table has another identity than before, or owes nothing any more.
async fn record(
    client: &impl GenericClient,
    tables: &Tables,
    run_id: &str,
    detail: &RunDetail,
) -> Result<()> {
    let update = format!("UPDATE {} SET detail = $2 WHERE run_id = $1", tables.runs);
    let recorded = client.execute(&update, &[&run_id, &detail.to_json()?]).await;
    recorded.map(|_| ()).map_err(errors::statement)?;
    found::put_on_record(client, tables, run_id, detail).await
}

fn no_run(run_id: &str) -> Error {
    Error::new(
        ErrorKind::Fenced,
        format!("run {run_id} is no longer in the ledger or has finished"),
    )
    .hint("tonnage runs lists what the ledger knows")
}

/// The statements by which a writer moves slots, prepared once.
pub(super) struct Mover {
    handle: RunHandle,
    claim: Statement,
    adjust: Statement,
}

/// A parameter of the driver.
pub(super) type Parameter = Box<dyn ToSql + Send + Sync>;

fn column<T: ToSql + Send + Sync + 'static>(advances: &[Advance], value: impl Fn(&Advance) -> T) -> Parameter
where
    Vec<T>: ToSql,
{
    Box::new(advances.iter().map(value).collect::<Vec<_>>())
}

/// Parameters as the driver wants them.
pub(super) fn borrowed(parameters: &[Parameter]) -> Vec<&(dyn ToSql + Sync)> {
    parameters
        .iter()
        .map(|p| p.as_ref() as &(dyn ToSql + Sync))
        .collect()
}

/// A transaction's claim that it is open, which goes behind its BEGIN. The compare-and-set is sent without waiting for
/// either and moves nothing outside of it: a BEGIN that is cancelled, as `statement_timeout` does to a server that stands
/// still, would leave positions that are committed by themselves, ahead of their rows.
///
/// It is none in another server process than `process`, whose prepared statements are not those of this session: a pooler
/// may change it between transactions.
pub(super) fn opened(process: i32) -> String {
    format!(
        "SELECT pg_catalog.set_config('tonnage.opened', \
             CASE WHEN pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) {process} THEN 'on' ELSE 'off' END, true)"
    )
}

impl Mover {
    /// Of a run into a table that a crash empties (`has_witness`) only where that has not happened: none comes while
    /// `client` is connected.
    pub async fn prepare(
        client: &Client,
        handle: &RunHandle,
        asked: Option<&str>,
        has_witness: bool,
    ) -> Result<Self> {
        let tables = Tables::existing(client, asked).await?;
        if has_witness {
            crash_marker::check(client, &tables, &handle.run_id).await?;
        }
        let Tables { slots, .. } = tables;
        let claim = format!(
            "UPDATE {slots} AS s SET block = a.to_block, block_rows = a.to_rows, file = a.file, \
                 byte_offset = a.byte_offset, file_rows = a.file_rows, source_rows = a.source_rows, hash = a.hash, \
                 written = s.written + a.written, skipped = s.skipped + a.skipped, \
                 rejected = s.rejected + a.rejected \
             FROM unnest($3::int4[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], \
                 $10::int8[], $11::int8[], $12::int8[], $13::int8[], $14::int8[], $15::int8[]) \
                 AS a (slot, from_block, from_rows, to_block, to_rows, file, byte_offset, file_rows, source_rows, \
                       hash, written, skipped, rejected) \
             WHERE s.run_id = $1::text AND s.epoch = $2::int8 AND s.slot = a.slot \
               AND s.block = a.from_block AND s.block_rows = a.from_rows \
               AND current_setting('tonnage.opened', true) = 'on'"
        );
        let adjust = format!(
            "UPDATE {slots} AS s SET written = s.written + a.written, skipped = s.skipped + a.skipped, \
                 rejected = s.rejected + a.rejected \
             FROM unnest($3::int4[], $4::int8[], $5::int8[], $6::int8[]) AS a (slot, written, skipped, rejected) \
             WHERE s.run_id = $1::text AND s.epoch = $2::int8 AND s.slot = a.slot"
        );
        let (claim, adjust) =
            futures::try_join!(client.prepare(&claim), client.prepare(&adjust)).map_err(errors::statement)?;
        Ok(Self {
            handle: handle.clone(),
            claim,
            adjust,
        })
    }

    /// Statement and parameters of the compare-and-set; it must move as many rows as there are advances.
    pub fn claim(&self, advances: &[Advance]) -> (&Statement, Vec<Parameter>) {
        let parameters = vec![
            Box::new(self.handle.run_id.clone()) as Parameter,
            Box::new(self.handle.epoch),
            column(advances, |a| i32::from(a.slot)),
            column(advances, |a| a.from.block as i64),
            column(advances, |a| a.from.rows as i64),
            column(advances, |a| a.to.block as i64),
            column(advances, |a| a.to.rows as i64),
            column(advances, |a| i64::from(a.mark.file)),
            column(advances, |a| a.mark.offset as i64),
            column(advances, |a| a.mark.file_rows as i64),
            column(advances, |a| a.mark.rows as i64),
            column(advances, |a| a.mark.hash as i64),
            column(advances, |a| a.counts.written as i64),
            column(advances, |a| a.counts.skipped as i64),
            column(advances, |a| a.counts.rejected as i64),
        ];
        (&self.claim, parameters)
    }

    /// Statement and parameters that turn the counts claimed into those of `advances`.
    pub fn adjust(&self, claimed: &[Advance], advances: &[Advance]) -> Result<(&Statement, Vec<Parameter>)> {
        let mut differences = Vec::with_capacity(advances.len());
        for advance in advances {
            let before = claimed
                .iter()
                .find(|c| c.slot == advance.slot)
                .ok_or_else(|| Error::bug(format!("slot {} is committed but was not begun", advance.slot)))?;
            let (after, before) = (advance.counts, before.counts);
            // Two's complement: the sum wraps back to what it should be.
            let counts = Counts {
                written: after.written.wrapping_sub(before.written),
                skipped: after.skipped.wrapping_sub(before.skipped),
                rejected: after.rejected.wrapping_sub(before.rejected),
            };
            differences.push(Advance { counts, ..*advance });
        }
        let parameters = vec![
            Box::new(self.handle.run_id.clone()) as Parameter,
            Box::new(self.handle.epoch),
            column(&differences, |a| i32::from(a.slot)),
            column(&differences, |a| a.counts.written as i64),
            column(&differences, |a| a.counts.skipped as i64),
            column(&differences, |a| a.counts.rejected as i64),
        ];
        Ok((&self.adjust, parameters))
    }
}

impl PostgresTarget {
    /// The schema of the ledger, where one was chosen.
    pub(super) fn asked(&self) -> Option<&str> {
        self.settings.ledger_schema.as_deref()
    }

    async fn take_over_once(&self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
        let mut session = self.session().await?;
        let transaction = begin(&mut session).await?;
        let Tables { runs, slots, .. } = Tables::existing(&transaction, self.asked()).await?;
        let raise = format!(
            "UPDATE {runs} SET epoch = epoch + 1 WHERE run_id = $1 AND finished IS NULL RETURNING epoch"
        );
        let row = transaction
            .query_opt(&raise, &[&run_id])
            .await
            .map_err(errors::statement)?;
        let epoch: i64 = get(&row.ok_or_else(|| no_run(run_id))?, 0)?;
        let fence = format!(
            "UPDATE {slots} SET epoch = $2 WHERE run_id = $1 RETURNING {}",
            Tables::STATE
        );
        let rows = transaction
            .query(&fence, &[&run_id, &epoch])
            .await
            .map_err(errors::statement)?;
        let mut states = rows.iter().map(slot_state).collect::<Result<Vec<_>>>()?;
        transaction.commit().await.map_err(errors::commit)?;
        states.sort_by_key(|state| state.slot);
        Ok((
            RunHandle {
                run_id: run_id.to_owned(),
                epoch,
            },
            states,
        ))
    }
}

/// Removes a run, and undoes what it owes; whether there was one.
async fn remove(client: &impl GenericClient, tables: &Tables, run_id: &str) -> Result<bool> {
    let Tables {
        runs, slots, inputs, ..
    } = tables;
    let removed = client
        .query_opt(
            &format!("DELETE FROM {runs} WHERE run_id = $1 RETURNING detail, finished IS NULL"),
            &[&run_id],
        )
        .await
        .map_err(errors::statement)?;
    // They wait for transactions in flight, which then find their run gone.
    client
        .execute(&format!("DELETE FROM {slots} WHERE run_id = $1"), &[&run_id])
        .await
        .map_err(errors::statement)?;
    crash_marker::remove(client, tables, run_id).await?;
    let mut known = removed.is_some();
    if let Some(inputs) = inputs {
        let of_run = format!("DELETE FROM {inputs} WHERE run_id = $1");
        known |= client
            .execute(&of_run, &[&run_id])
            .await
            .map_err(errors::statement)?
            > 0;
    }
    if let Some(row) = &removed
        && get::<bool>(row, 1)?
    {
        // Without a readable detail nothing can be known to be owed.
        match RunDetail::from_json(run_id, &get::<String>(row, 0)?) {
            Ok(detail) => prepare::undo(client, &detail).await?,
            Err(error) => tracing::warn!("{error}"),
        }
    }
    Ok(known)
}

#[async_trait]
impl Ledger for PostgresTarget {
    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRecord>> {
        let session = self.session().await?;
        found::runs(&session, self.asked(), query).await
    }

    async fn ids(&self, prefix: &str) -> Result<Vec<String>> {
        let session = self.session().await?;
        found::ids(&session, self.asked(), prefix).await
    }

    async fn inputs(&self, keys: &[String]) -> Result<Vec<InputRecord>> {
        let session = self.session().await?;
        found::inputs(&session, self.asked(), keys).await
    }

    async fn prune(&self, keep: u64, limit: u64) -> Result<u64> {
        let session = self.session().await?;
        found::prune(&session, self.asked(), keep, limit).await
    }

    async fn elsewhere(&self, sought: &Sought) -> Result<Vec<OtherLedger>> {
        let session = self.session().await?;
        found::elsewhere(&session, self.asked(), sought).await
    }

    async fn setup(&self, grantees: &[String]) -> Result<Vec<Setup>> {
        let session = self.session().await?;
        Ok(vec![setup::setup(&*session, self.asked(), grantees).await?])
    }

    async fn set_up(&self, grantees: &[String]) -> Result<()> {
        let mut session = self.session().await?;
        let transaction = session.transaction().await.map_err(errors::statement)?;
        setup::set_up(&transaction, self.asked(), grantees).await?;
        transaction.commit().await.map_err(errors::commit)
    }

    async fn start(&self, run: &NewRun) -> Result<RunHandle> {
        let mut detail = run.detail.clone();
        let mut session = self.session().await?;
        let transaction = begin(&mut session).await?;
        let tables = Tables::make(&transaction, self.asked()).await?;
        let Tables { runs, slots, .. } = &tables;
        let insert = format!(
            "INSERT INTO {runs} (run_id, identity, epoch, started, written, skipped, rejected, detail) \
             VALUES ($1, $2, 1, extract(epoch FROM now())::int8, 0, 0, 0, $3) \
             ON CONFLICT DO NOTHING"
        );
        let inserted = transaction
            .execute(&insert, &[&run.run_id, &run.identity, &detail.to_json()?])
            .await
            .map_err(|failure| tables.failed(failure))?;
        if inserted == 0 {
            let known =
                format!("SELECT 1 FROM {runs} WHERE run_id = $1 AND identity = $2 AND finished IS NULL");
            let known = transaction.query_opt(&known, &[&run.run_id, &run.identity]).await;
            // The answer to an earlier attempt of ours may have been lost. What others have done since is not ours.
            if known.map_err(errors::statement)?.is_some() {
                return Ok(RunHandle {
                    run_id: run.run_id.clone(),
                    epoch: 1,
                });
            }
            return Err(Error::new(
                ErrorKind::Fenced,
                format!(
                    "an unfinished run of this input into {} is in the ledger",
                    run.detail.table
                ),
            )
            .hint("go on with --resume, or begin again with --restart"));
        }
        let insert = format!(
            "INSERT INTO {slots} (run_id, slot, epoch, block, block_rows, file, byte_offset, file_rows, source_rows, \
                 hash, written, skipped, rejected) \
             SELECT $1, slot, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM generate_series(0, $2::int4 - 1) slot"
        );
        transaction
            .execute(&insert, &[&run.run_id, &i32::from(run.detail.slots)])
            .await
            .map_err(errors::statement)?;
        if detail.emptied_by_crash {
            crash_marker::put(&transaction, &tables, &run.run_id).await?;
        }
        if run.preparation.truncates() {
            let table = &run.table;
            transaction
                .batch_execute(&statements::truncate(table))
                .await
                .map_err(|e| errors::statement(e).at(format!("cannot empty {table}")))?;
        }
        match prepare::prepare(&transaction, run, &mut detail).await? {
            true => record(&transaction, &tables, &run.run_id, &detail).await?,
            false => found::put_on_record(&transaction, &tables, &run.run_id, &detail).await?,
        }
        transaction.commit().await.map_err(errors::commit)?;
        Ok(RunHandle {
            run_id: run.run_id.clone(),
            epoch: 1,
        })
    }

    async fn slots(&self, run_id: &str) -> Result<Vec<SlotState>> {
        let session = self.session().await?;
        let Tables { slots, .. } = Tables::existing(&*session, self.asked()).await?;
        let query = format!(
            "SELECT {} FROM {slots} WHERE run_id = $1 ORDER BY slot",
            Tables::STATE
        );
        let rows = session
            .query(&query, &[&run_id])
            .await
            .map_err(errors::statement)?;
        rows.iter().map(slot_state).collect()
    }

    async fn take_over(&self, run_id: &str) -> Result<(RunHandle, Vec<SlotState>)> {
        let mut attempt = 1;
        loop {
            match self.take_over_once(run_id).await {
                Err(error) if error.kind() == ErrorKind::Overloaded && attempt < TAKE_OVER_ATTEMPTS => {
                    attempt += 1
                }
                done => return done,
            }
        }
    }

    async fn emptied(&self, run_ids: &[String]) -> Result<Vec<Emptied>> {
        let mut session = self.session().await?;
        crash_marker::emptied(&mut session, self.asked(), run_ids).await
    }

    async fn accept_emptied(&self, handle: &RunHandle) -> Result<()> {
        let mut session = self.session().await?;
        crash_marker::accept(&mut session, self.asked(), handle).await
    }

    async fn note_opening(&self, run_id: &str, opening: &Opening) -> Result<bool> {
        let mut session = self.session().await?;
        let transaction = begin(&mut session).await?;
        let Some(Tables { runs, .. }) = Tables::locate(&transaction, self.asked()).await? else {
            return Ok(false);
        };
        let found = format!("SELECT detail FROM {runs} WHERE run_id = $1 AND finished IS NULL FOR UPDATE");
        let found = transaction.query_opt(&found, &[&run_id]).await;
        let Some(row) = found.map_err(errors::statement)? else {
            return Ok(false);
        };
        let mut detail = RunDetail::from_json(run_id, &get::<String>(&row, 0)?)?;
        if !opening.put_into(&mut detail) {
            return Ok(false);
        }
        let update = format!("UPDATE {runs} SET detail = $2 WHERE run_id = $1");
        let updated = transaction.execute(&update, &[&run_id, &detail.to_json()?]).await;
        updated.map_err(errors::statement)?;
        transaction.commit().await.map_err(errors::commit)?;
        Ok(true)
    }

    async fn finish(&self, handle: &RunHandle, counts: Counts) -> Result<()> {
        let mut session = self.session().await?;
        let transaction = begin(&mut session).await?;
        let tables = Tables::existing(&transaction, self.asked()).await?;
        let Tables { runs, slots, .. } = &tables;
        // The row is locked first, so that nothing is settled that another process finishes or forgets.
        let owner = format!(
            "SELECT detail FROM {runs} WHERE run_id = $1 AND epoch = $2 AND finished IS NULL FOR UPDATE"
        );
        let owned = transaction
            .query_opt(&owner, &[&handle.run_id, &handle.epoch])
            .await;
        // A table that took the place of another has an identity of its own, and the run with it.
        let mut replaced = (String::new(), String::new());
        if let Some(row) = owned.map_err(errors::statement)? {
            let mut detail = RunDetail::from_json(&handle.run_id, &get::<String>(&row, 0)?)?;
            if detail.emptied_by_crash {
                crash_marker::check(&transaction, &tables, &handle.run_id).await?;
            }
            replaced.0 = detail.identity();
            if prepare::finish(&transaction, &mut detail).await? {
                record(&transaction, &tables, &handle.run_id, &detail).await?;
            }
            replaced.1 = detail.identity();
        }
        // A run that has finished already stays so: the answer to an earlier attempt may have been lost.
        let finish = format!(
            "UPDATE {runs} SET finished = coalesce(finished, extract(epoch FROM now())::int8), \
                 identity = CASE WHEN identity = $6 THEN $7 ELSE identity END, \
                 written = $3, skipped = $4, rejected = $5 WHERE run_id = $1 AND epoch = $2"
        );
        let (written, skipped, rejected) = (
            counts.written as i64,
            counts.skipped as i64,
            counts.rejected as i64,
        );
        let finished = transaction
            .execute(
                &finish,
                &[
                    &handle.run_id,
                    &handle.epoch,
                    &written,
                    &skipped,
                    &rejected,
                    &replaced.0,
                    &replaced.1,
                ],
            )
            .await
            .map_err(errors::statement)?;
        if finished == 0 {
            return Err(Error::new(
                ErrorKind::Fenced,
                format!("run {} was taken over by another process", handle.run_id),
            )
            .hint("tonnage runs shows where it stands"));
        }
        transaction
            .execute(
                &format!("DELETE FROM {slots} WHERE run_id = $1"),
                &[&handle.run_id],
            )
            .await
            .map_err(errors::statement)?;
        transaction.commit().await.map_err(errors::commit)
    }

    async fn forget(&self, run_id: &str) -> Result<bool> {
        let mut session = self.session().await?;
        if Tables::locate(&*session, self.asked()).await?.is_none() {
            return Ok(false);
        }
        let transaction = session.transaction().await.map_err(errors::statement)?;
        let tables = Tables::existing(&transaction, self.asked()).await?;
        let removed = remove(&transaction, &tables, run_id).await?;
        transaction.commit().await.map_err(errors::commit)?;
        Ok(removed)
    }

    async fn forget_unbegun(&self, handle: &RunHandle) -> Result<bool> {
        let mut session = self.session().await?;
        if Tables::locate(&*session, self.asked()).await?.is_none() {
            return Ok(false);
        }
        let transaction = begin(&mut session).await?;
        let tables = Tables::existing(&transaction, self.asked()).await?;
        let owner = format!(
            "SELECT epoch FROM {} WHERE run_id = $1 AND epoch = $2 AND finished IS NULL FOR UPDATE",
            tables.runs
        );
        let owned = transaction
            .query_opt(&owner, &[&handle.run_id, &handle.epoch])
            .await;
        if owned.map_err(errors::statement)?.is_none() {
            return Ok(false);
        }
        // Waits for transactions in flight, and then sees what they have committed.
        let slots = format!(
            "SELECT written <> 0 OR skipped <> 0 OR rejected <> 0 FROM {} WHERE run_id = $1 FOR UPDATE",
            tables.slots
        );
        let slots = transaction.query(&slots, &[&handle.run_id]).await;
        for row in slots.map_err(errors::statement)? {
            if get::<bool>(&row, 0)? {
                return Ok(false);
            }
        }
        let removed = remove(&transaction, &tables, &handle.run_id).await?;
        transaction.commit().await.map_err(errors::commit)?;
        Ok(removed)
    }

    async fn conclude(&self, _: &str) -> Result<()> {
        Ok(())
    }
}
