//! Rows of a relation on their way into the table.
//!
//! A statement may not touch a row of the table twice. So of rows of one key each goes by a statement of its own, in their
//! order; where a key comes more often than [`ROUNDS_MAX`] only its last row does.

use std::ops::Range;

use arrow::array::RecordBatch;
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    operation::Operation,
};

use super::{
    catalog,
    connection::{self, Connection, Prepared},
    encode::Encoder,
    errors::{self, Doing, failed},
    sql::{Change, Of, STAGE},
};

/// Why rows were not applied; the transaction is lost.
pub(crate) enum Refusal {
    /// It is no row's fault.
    Failed(Error),
    /// It is a row's, which may be known.
    Refused { error: Error, suspect: Option<usize> },
}

/// Statements sent, and rows left out.
pub(crate) type Applied = std::result::Result<(u64, u64), Refusal>;

fn refusal(failure: adbc_core::error::Error, suspect: Option<usize>) -> Refusal {
    let error = errors::error(failure, Doing::Rows);
    match error.kind() {
        ErrorKind::Rejected => Refusal::Refused { error, suspect },
        _ => Refusal::Failed(error),
    }
}

/// Rows that the operation has left out of `sent`, of which it has changed so many.
fn left_out(operation: &Operation, sent: u64, changed: u64) -> Result<u64> {
    match operation {
        Operation::Insert if changed != sent => Err(Error::bug(format!(
            "{changed} of {sent} rows were inserted, and none was refused"
        ))),
        Operation::Insert | Operation::Upsert { .. } => Ok(0),
        _ => Ok(sent.saturating_sub(changed)),
    }
}

/// By bulk ingest into a temporary table, and from there by one statement, or as many as it takes for equal keys.
pub(crate) fn staged(connection: &mut Connection, change: &Change, relation: RecordBatch) -> Applied {
    let rows = relation.num_rows() as u64;
    connection
        .stage(STAGE, relation)
        .map_err(|failure| refusal(failure, None))?;
    let there = catalog::count(
        connection,
        &format!("SELECT CAST(count(*) AS BIGINT) FROM {STAGE}"),
    )
    .map_err(Refusal::Failed)?;
    if there as u64 != rows {
        // The driver does not report what the last rows of an ingest have met.
        let message = format!("{there} of {rows} rows have reached the temporary table");
        return Err(Refusal::Failed(Error::new(ErrorKind::Overloaded, message)));
    }
    let mut changed = 0;
    let rounds = rounds(connection, change, STAGE, None).map_err(Refusal::Failed)?;
    let statements = rounds.len() as u64;
    for of in rounds {
        let sql = change.sql(STAGE, of).map_err(Refusal::Failed)?;
        changed += connection
            .change(&sql, None)
            .map_err(|failure| refusal(failure, None))?;
    }
    let skipped = left_out(&change.operation, rows, changed).map_err(Refusal::Failed)?;
    Ok((statements, skipped))
}

/// Rows of one key up to which each of them is applied by a statement of its own; of more of them only the last one is.
const ROUNDS_MAX: i64 = 16;

/// The statements that it takes to apply rows, of which several may have one key.
fn rounds(
    connection: &mut Connection,
    change: &Change,
    relation: &str,
    parameters: Option<RecordBatch>,
) -> Result<Vec<Of>> {
    match change.operation {
        Operation::Ignore { .. } => return Ok(vec![Of::First]),
        Operation::Upsert { .. } | Operation::Update { .. } => {}
        Operation::Insert | Operation::Delete { .. } | Operation::Statement { .. } => {
            return Ok(vec![Of::All]);
        }
    }
    let answer = connection
        .query(&change.repeats(relation), parameters)
        .map_err(failed)?;
    let most = answer.iter().find(|batch| batch.num_rows() > 0);
    let most = most.map(|batch| connection::numbers(batch, 0)).transpose()?;
    let most = most.and_then(|most| most.first().copied().flatten());
    Ok(match most.unwrap_or(1) {
        ..=1 => vec![Of::All],
        most @ 2..=ROUNDS_MAX => (1..=most).map(Of::Number).collect(),
        _ => vec![Of::Last],
    })
}

/// By statements with the values of `at_once` rows each.
pub(crate) fn by_values(
    connection: &mut Connection,
    change: &Change,
    relation: &RecordBatch,
    at_once: usize,
) -> Applied {
    let rows = relation.num_rows();
    let (mut statements, mut skipped, mut row) = (0, 0, 0);
    // The statement for so many rows, none of whose keys comes twice.
    let mut prepared: Option<(usize, Prepared)> = None;
    while row < rows {
        let range = row..(row + at_once).min(rows);
        let sent = range.len();
        let parameters = Encoder::parameters(relation, range).map_err(Refusal::Failed)?;
        let values = change.values(sent);
        let rounds = match sent {
            1 => vec![Of::All],
            _ => rounds(connection, change, &values, Some(parameters.clone())).map_err(Refusal::Failed)?,
        };
        let suspect = (sent == 1).then_some(row);
        let mut changed = 0;
        for of in rounds {
            let known = prepared.take().filter(|(rows, _)| *rows == sent && of == Of::All);
            let mut statement = match known {
                Some((_, statement)) => statement,
                None => {
                    let sql = change.sql(&values, of).map_err(Refusal::Failed)?;
                    connection
                        .prepare(&sql)
                        .map_err(|failure| refusal(failure, None))?
                }
            };
            changed += statement
                .change(parameters.clone())
                .map_err(|failure| refusal(failure, suspect))?;
            statements += 1;
            prepared = (of == Of::All).then_some((sent, statement));
        }
        skipped += left_out(&change.operation, sent as u64, changed).map_err(Refusal::Failed)?;
        row += sent;
    }
    Ok((statements, skipped))
}

/// By the user's own statement; rows changed.
pub(crate) fn by_statements(connection: &mut Connection, sql: &str, relation: &RecordBatch) -> Applied {
    let rows = relation.num_rows();
    let mut statement = connection
        .prepare(sql)
        .map_err(|failure| refusal(failure, None))?;
    let mut changed = 0;
    for row in 0..rows {
        let range: Range<usize> = row..row + 1;
        let parameters = Encoder::parameters(relation, range).map_err(Refusal::Failed)?;
        let found = statement
            .change(parameters)
            .map_err(|failure| refusal(failure, Some(row)))?;
        // A row may change many others.
        changed += found.min(1);
    }
    Ok((rows as u64, changed))
}
