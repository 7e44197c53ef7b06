//! Rows one by one at the server: see [`each`](crate::each).

use std::pin::pin;

use arrow::array::RecordBatch;
use bytes::Bytes;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    getter::{Encodable, encodable},
    target::{EachOutcome, Refused},
};

use super::{PostgresWriter, ROLLBACK_TO, SAVEPOINT, SAVEPOINT_AGAIN, Sent, State, feed, refusal::Refusal};
use crate::{
    each::{Each, Found},
    encode::{EncodedColumn, Encoder, Numbering},
    errors,
};

/// The server has stopped a statement that took longer than its role may. Rows one by one are many statements in one.
const CANCELED: &str = "57014";

impl PostgresWriter {
    /// None where the server does not do it, for a right or a language that is lacking, say: it is not asked again.
    pub(super) async fn each(&mut self, rows: &RecordBatch) -> Result<Option<EachOutcome>> {
        if self.state != State::Open {
            return Err(Error::bug("rows were written outside a transaction"));
        }
        let Some(each) = self.each.take() else {
            return Ok(None);
        };
        let savepoint = match std::mem::take(&mut self.saved) {
            true => SAVEPOINT_AGAIN,
            false => SAVEPOINT,
        };
        let mut sent = Sent::default();
        let ended = match self.client.batch_execute(savepoint).await {
            Ok(()) => self.take_each(&each, rows, &mut sent).await,
            Err(error) => {
                self.state = State::Broken;
                return Err(errors::statement(error));
            }
        };
        let error = match ended {
            Ok(outcome) => {
                self.saved = true;
                self.each = Some(each);
                return Ok(Some(outcome));
            }
            Err(Refusal::Server { error, .. }) => errors::statement(error),
            Err(Refusal::Other(error)) => error,
            Err(_) => Error::bug("rows that can be encoded were not"),
        };
        if error.kind() == ErrorKind::Bug || error.is_transient() && error.code_text() != Some(CANCELED) {
            self.state = State::Broken;
            return Err(error);
        }
        tracing::debug!("rows do not go one by one at the server: {error}");
        let undone = self.client.batch_execute(ROLLBACK_TO).await;
        undone.map_err(|error| {
            self.state = State::Broken;
            errors::statement(error)
        })?;
        Ok(None)
    }

    async fn take_each(
        &self,
        each: &Each,
        rows: &RecordBatch,
        sent: &mut Sent,
    ) -> std::result::Result<EachOutcome, Refusal> {
        let (columns, all) = (self.columns.clone(), rows.clone());
        // Encoding is work for a processor: it must not hold up the connections.
        let encoding = tokio::task::spawn_blocking(move || encode(&columns, &all));
        let encoded = encoding
            .await
            .unwrap_or_else(|error| Err(Error::bug(format!("rows were not encoded: {error}"))));
        let Encodable {
            encoded,
            places,
            faults,
            ..
        } = encoded.map_err(Refusal::Other)?;
        sent.bytes += encoded.len() as u64;
        self.client.batch_execute(&each.create).await?;
        let copy = self.client.prepare(&each.copy).await?;
        let mut sink = pin!(self.client.copy_in::<_, Bytes>(&copy).await?);
        feed(sink.as_mut(), encoded).await?;
        sink.finish().await?;
        self.client.batch_execute(&each.run).await?;
        let found = self.client.query(&each.refused, &[]).await?;
        self.client.batch_execute(&each.drop).await?;
        // The tables, the COPY, the block, what was refused, and the end.
        sent.statements += 6;
        let mut outcome = EachOutcome {
            statements: sent.statements,
            bytes_sent: sent.bytes,
            skipped: 0,
            refused: Vec::with_capacity(found.len() + faults.len()),
        };
        for (row, (column, fault)) in faults {
            outcome.refused.push(Refused {
                row,
                column: self.columns.get(column).map(|column| column.name.clone()),
                error: fault.into_error(),
            });
        }
        for row in &found {
            match Found::of(row, each).map_err(Refusal::Other)? {
                Found::Skipped(rows) => outcome.skipped += rows,
                Found::Refused(mut refused) => {
                    if let Some(places) = &places {
                        let place = places.get(refused.row).copied();
                        refused.row =
                            place.ok_or_else(|| Refusal::Other(Error::bug("no such row was sent")))? as usize;
                    }
                    outcome.refused.push(refused);
                }
            }
        }
        outcome.refused.sort_by_key(|refused| refused.row);
        Ok(outcome)
    }
}

type Encoded = Encodable<Vec<u8>, crate::encode::ColumnFault>;

/// The rows that can be sent, as one COPY.
fn encode(columns: &[EncodedColumn], rows: &RecordBatch) -> Result<Encoded> {
    encodable(rows, |rows| {
        let mut encoder = Encoder::new(rows, columns, Numbering::Last)?;
        Ok(encoder.copy_chunk(0..rows.num_rows()))
    })
}
