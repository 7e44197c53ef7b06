//! Rows one by one, for a write of which many are bad.
//!
//! A statement of one row that is refused leaves nothing behind, so it needs no savepoint of its own: a row costs one
//! round trip, and a bad one no more. Where the server runs [blocks](Blocks), many rows cost one together. Where one
//! statement did other than it should, all are undone, and the rows are sent as without this.

use arrow::array::RecordBatch;
use mysql_async::{Statement, prelude::Queryable};
use tonnage_core::{
    error::{Error, Result},
    getter::{Encodable, encodable},
    operation::Operation,
    target::{EachOutcome, Refused},
};

use super::{
    MysqlWriter, PreparedStrategy, ROLLBACK_TO, SAVEPOINT, Sent, State, Stop,
    block::{Blocks, Ran},
    too_large,
};
use crate::{
    encode::{self, Encoded},
    errors,
    sizes::packet_rows_bytes,
};

/// The statement of one row.
pub(super) struct SingleRow {
    text: String,
    /// Once it was needed.
    prepared: Option<Statement>,
    blocks: Many,
}

/// Whether rows go together.
enum Many {
    /// Nothing was sent yet.
    Unknown,
    No,
    Yes(Blocks),
}

impl SingleRow {
    pub fn of(text: String) -> Self {
        Self {
            text,
            prepared: None,
            blocks: Many::Unknown,
        }
    }
}

/// What became of all rows.
enum Went {
    /// The number left out, and those refused.
    Whole(u64, Vec<Refused>),
    /// They are to be undone, and sent without blocks.
    Unfit(String),
    /// They are to be undone, and do not go one by one.
    Wrong(Error),
}

impl MysqlWriter {
    /// None where a savepoint undoes nothing, or where rows went otherwise than they should.
    pub(super) async fn each(&mut self, rows: &RecordBatch) -> Result<Option<EachOutcome>> {
        if self.link.state != State::Open {
            return Err(Error::bug("rows were written outside a transaction"));
        }
        let Some(mut one) = self.one_row.take().filter(|_| self.transactional) else {
            return Ok(None);
        };
        if matches!(one.blocks, Many::Unknown) {
            // What a statement of the user's own does to a transaction is seen between statements only.
            let own = matches!(self.subject.operation, Operation::Statement { .. });
            one.blocks = match self.subject.version.has_blocks() && !own {
                true => Many::Yes(Blocks::of(&one.text, self.columns.len(), self.link.account)),
                false => Many::No,
            };
        }
        let done = self.one_by_one(&mut one, rows).await;
        if !matches!(done, Ok(None)) {
            self.one_row = Some(one);
        }
        done
    }

    async fn one_by_one(&mut self, one: &mut SingleRow, rows: &RecordBatch) -> Result<Option<EachOutcome>> {
        let rows = self.ordered(rows)?;
        let Encodable {
            encoded,
            rows: count,
            places,
            faults,
        } = encodable(&rows, |rows| encode::encode(&self.columns, rows))?;
        let faults: Vec<_> = faults
            .into_iter()
            .map(|(row, fault)| Refused {
                row,
                error: fault.error,
                column: Some(fault.column),
            })
            .collect();
        self.link.plain(SAVEPOINT).await?;
        let mut sent = Sent::default();
        loop {
            let went = self.all_of(one, &encoded, count, &mut sent).await;
            match went.inspect_err(|_| self.link.state = State::Broken)? {
                Went::Whole(skipped, mut refused) => {
                    if let Some(places) = places {
                        refused
                            .iter_mut()
                            .for_each(|refused| refused.row = places[refused.row] as usize);
                    }
                    refused.extend(faults);
                    refused.sort_by_key(|refused| refused.row);
                    return Ok(Some(EachOutcome {
                        statements: sent.statements,
                        bytes_sent: sent.bytes,
                        skipped,
                        refused,
                    }));
                }
                Went::Unfit(why) => {
                    tracing::debug!("rows do not go together: {why}");
                    one.blocks = Many::No;
                    self.link.plain(ROLLBACK_TO).await?;
                }
                Went::Wrong(error) => {
                    tracing::debug!("rows do not go one by one: {error}");
                    self.link.plain(ROLLBACK_TO).await?;
                    return Ok(None);
                }
            }
        }
    }

    /// Sends all rows. An error has broken the transaction.
    async fn all_of(
        &mut self,
        one: &mut SingleRow,
        encoded: &Encoded,
        count: usize,
        sent: &mut Sent,
    ) -> Result<Went> {
        let most = packet_rows_bytes(self.packet_bytes_max);
        let (mut skipped, mut refused) = (0, Vec::new());
        let mut row = 0;
        while row < count {
            let together = match &one.blocks {
                Many::Yes(blocks) => blocks.cut(encoded, row..count, most),
                _ => None,
            };
            if let (Many::Yes(blocks), Some(rows)) = (&mut one.blocks, together) {
                let range = row..row + rows;
                sent.statements += 1;
                sent.bytes += encoded.sizes[range.clone()].iter().sum::<usize>() as u64;
                match blocks.run(&mut self.link, encoded, range).await? {
                    Ran::Done(left_out, errors) => {
                        skipped += left_out;
                        refused.extend(errors.into_iter().map(|(at, error)| alone(row + at, error)));
                    }
                    Ran::Unfit(why) => return Ok(Went::Unfit(why)),
                }
                row += rows;
                continue;
            }
            if encoded.sizes[row] > most {
                refused.push(alone(row, too_large(encoded.sizes[row], most)));
                row += 1;
                continue;
            }
            let statement = match &one.prepared {
                Some(statement) => statement.clone(),
                None => {
                    let prepared = self.link.conn.prep(&*one.text).await;
                    one.prepared.insert(prepared.map_err(errors::statement)?).clone()
                }
            };
            sent.statements += 1;
            sent.bytes += encoded.sizes[row] as u64;
            let mut path = PreparedStrategy::Row(statement);
            match self.link.execute(&mut path, encoded, row..row + 1).await {
                Ok(left_out) => skipped += left_out,
                Err(Stop::Refused(mysql_async::Error::Server(server))) => {
                    refused.push(alone(row, errors::from_server(&server)));
                }
                Err(Stop::Wrong(error)) => return Ok(Went::Wrong(error)),
                Err(Stop::Refused(failure)) => return Err(errors::statement(failure)),
                Err(Stop::Fatal(error)) => return Err(error),
            }
            row += 1;
        }
        Ok(Went::Whole(skipped, refused))
    }
}

fn alone(row: usize, error: Error) -> Refused {
    Refused {
        row,
        error,
        column: None,
    }
}
