//! The statements by which a writer moves slots in the transactions of its rows.

use tokio_postgres::{Client, Statement, types::ToSql};
use tonnage_core::{
    error::Result,
    ledger::RunHandle,
    slot::{Advance, Counts},
    table::Table,
};
use tonnage_sql::ledger::{Tables, with_claimed};

use super::{crash_marker, place::existing};
use crate::errors;

/// The statements by which a writer moves slots, prepared once.
pub(crate) struct Mover {
    handle: RunHandle,
    claim: Statement,
    adjust: Statement,
}

/// A parameter of the driver.
pub(crate) type Parameter = Box<dyn ToSql + Send + Sync>;

fn column<T: ToSql + Send + Sync + 'static>(advances: &[Advance], value: impl Fn(&Advance) -> T) -> Parameter
where
    Vec<T>: ToSql,
{
    Box::new(advances.iter().map(value).collect::<Vec<_>>())
}

/// Parameters as the driver wants them.
pub(crate) fn borrowed(parameters: &[Parameter]) -> Vec<&(dyn ToSql + Sync)> {
    parameters
        .iter()
        .map(|p| p.as_ref() as &(dyn ToSql + Sync))
        .collect()
}

/// A transaction's claim that it is open, which goes behind its BEGIN. The compare-and-set is sent without waiting for
/// either and moves nothing outside of it: a BEGIN that is cancelled, as `statement_timeout` does to a server that is stopped
/// still, would leave positions that are committed by themselves, ahead of their rows.
///
/// It is none in another server process than `process`, whose prepared statements are not those of this session: a pooler
/// may change it between transactions.
pub(crate) fn opened(process: i32) -> String {
    format!(
        "SELECT pg_catalog.set_config('tonnage.opened', \
             CASE WHEN pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) {process} THEN 'on' ELSE 'off' END, true)"
    )
}

impl Mover {
    /// Of a run into a table that a crash empties only where that has not happened: none comes while `client` is
    /// connected.
    pub async fn prepare(
        client: &Client,
        handle: &RunHandle,
        asked: Option<&str>,
        table: &Table,
    ) -> Result<Self> {
        let tables = existing(client, asked).await?;
        if table.is_emptied_by_crash() {
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
        let difference = |(advance, before): (&Advance, Counts)| {
            let after = advance.counts;
            // Two's complement: the sum wraps back to what it should be.
            let counts = Counts {
                written: after.written.wrapping_sub(before.written),
                skipped: after.skipped.wrapping_sub(before.skipped),
                rejected: after.rejected.wrapping_sub(before.rejected),
            };
            Advance { counts, ..*advance }
        };
        let paired = with_claimed(claimed, advances)?;
        let differences: Vec<_> = paired.into_iter().map(difference).collect();
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
