//! Rows one by one, for a write of which many are bad.
//!
//! A statement of one row that is refused leaves nothing behind, so it needs no savepoint of its own: a row costs one
//! round trip, and a bad one no more. Where one statement did other than it should, all are undone, and the rows are sent
//! as without this.

use arrow::array::RecordBatch;
use mysql_async::{Statement, prelude::Queryable};

use super::{MysqlWriter, PreparedStrategy, ROLLBACK_TO, SAVEPOINT, State, Stop, too_large};
use crate::{encode, errors, sizes::packet_rows_bytes};
use tonnage_core::{
    error::{Error, Result},
    getter::{Encodable, encodable},
    target::{EachOutcome, Refused},
};

/// The statement of one row.
pub(super) enum SingleRow {
    /// Its text.
    Text(String),
    /// Once it was needed.
    Prepared(Statement),
}

impl MysqlWriter {
    /// None where a savepoint undoes nothing, or where rows went otherwise than they should.
    pub(super) async fn each(&mut self, rows: &RecordBatch) -> Result<Option<EachOutcome>> {
        if self.link.state != State::Open {
            return Err(Error::bug("rows were written outside a transaction"));
        }
        let Some(one) = self.one_row.take().filter(|_| self.transactional) else {
            return Ok(None);
        };
        let statement = match one {
            SingleRow::Prepared(statement) => statement,
            SingleRow::Text(text) => self.link.conn.prep(text).await.map_err(errors::statement)?,
        };
        self.one_row = Some(SingleRow::Prepared(statement.clone()));
        let rows = self.ordered(rows)?;
        let Encodable {
            encoded,
            rows: count,
            places,
            faults,
        } = encodable(&rows, |rows| encode::encode(&self.columns, rows))?;
        let mut outcome = EachOutcome {
            statements: 0,
            bytes_sent: 0,
            skipped: 0,
            refused: Vec::new(),
        };
        outcome
            .refused
            .extend(faults.into_iter().map(|(row, fault)| Refused {
                row,
                error: fault.error,
                column: Some(fault.column),
            }));
        self.link.plain(SAVEPOINT).await?;
        let most = packet_rows_bytes(self.packet_bytes_max);
        let mut path = PreparedStrategy::Row(statement);
        let mut refused = Vec::new();
        for row in 0..count {
            let place = places.as_ref().map_or(row, |places| places[row] as usize);
            if encoded.sizes[row] > most {
                refused.push((place, too_large(encoded.sizes[row], most)));
                continue;
            }
            outcome.statements += 1;
            outcome.bytes_sent += encoded.sizes[row] as u64;
            match self.link.execute(&mut path, &encoded, row..row + 1).await {
                Ok(skipped) => outcome.skipped += skipped,
                Err(Stop::Refused(mysql_async::Error::Server(server))) => {
                    refused.push((place, errors::from_server(&server)));
                }
                Err(Stop::Wrong(error)) => {
                    tracing::debug!("rows do not go one by one: {error}");
                    self.one_row = None;
                    self.link.plain(ROLLBACK_TO).await?;
                    return Ok(None);
                }
                Err(Stop::Refused(failure)) => {
                    self.link.state = State::Broken;
                    return Err(errors::statement(failure));
                }
                Err(Stop::Fatal(error)) => {
                    self.link.state = State::Broken;
                    return Err(error);
                }
            }
        }
        outcome
            .refused
            .extend(refused.into_iter().map(|(row, error)| Refused {
                row,
                error,
                column: None,
            }));
        outcome.refused.sort_by_key(|refused| refused.row);
        Ok(Some(outcome))
    }
}
