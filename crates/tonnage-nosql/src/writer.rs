//! Writing: single puts, or those of a shard key together, many requests at once.
//!
//! Invariants:
//! - Nothing is undone. What a request has come to is remembered by the number of its row in the source until the slots
//!   move, so a write that is sent again, whole or in parts, sends no row twice that was answered.
//! - A row without an answer may be there: of a request that failed, and of every row after another process has owned the
//!   run. If a put-if-absent of such a row finds its key with the very values that were sent, it was written.
//! - The slots of a write move once all of its rows are acknowledged.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use futures::{StreamExt, stream};
use oracle_nosql_rust_sdk::{
    DeleteRequest, NoSQLError, PutRequest, WriteMultipleRequest, WriteMultipleResult, types::MapValue,
};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    ledger::RunHandle,
    operation::{Method, Operation},
    slot::{Advance, at_commit},
    sync::Lock,
    table::{altered, check_unaltered},
    target::{Claim, EachOutcome, Failure, Guard, Outcome, WriteRequest, Writer},
};
use tonnage_sqlite::local::LedgerFile;

use super::{
    encode::{Cell, Nulls, Together, encode, rounds},
    errors::{Doing, KEY_EXISTS},
    types::{Described, Kind},
    wire::{Store, failed, from_wire, to_wire},
};

/// What a row has come to.
#[derive(Debug, Clone)]
enum Answer {
    Done,
    /// Its key was there, or was not for a delete.
    LeftOut,
    /// The code and what the database said.
    Refused(String, String),
}

/// What is known of rows whose slots have not moved yet, by their numbers in the source. The writers of a run share it.
#[derive(Debug, Default)]
pub(super) struct Memory {
    answers: HashMap<u64, Answer>,
    /// Sent, and without an answer.
    unanswered: HashSet<u64>,
}

pub(super) type SharedMemory = Arc<Mutex<Memory>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Put {
    IfAbsent,
    Always,
    Delete,
}

struct WrittenColumn {
    name: String,
    kind: Kind,
    nulls: Nulls,
}

/// Writes one lane's rows.
pub(super) struct NosqlWriter {
    store: Arc<Store>,
    described: Described,
    columns: Vec<WrittenColumn>,
    /// Places of the primary key among the columns, in its order.
    key: Vec<usize>,
    put: Put,
    operation: Operation,
    together: Together,
    ledger: Option<(Arc<LedgerFile>, RunHandle)>,
    memory: SharedMemory,
    places: Vec<u64>,
    /// The rows of the open write by their numbers.
    written: Vec<u64>,
    open: Option<Vec<Advance>>,
}

impl NosqlWriter {
    pub(super) fn open(
        store: Arc<Store>,
        described: Described,
        plan: &WriteRequest,
        ledger: Option<(Arc<LedgerFile>, RunHandle)>,
        memory: SharedMemory,
    ) -> Result<Self> {
        check_unaltered(&plan.table, Some(&described.table))?;
        let columns = plan.columns.iter().map(|column| {
            let known = described
                .table
                .columns
                .iter()
                .position(|known| known.name == column.name);
            let at = known.ok_or_else(|| Error::altered(&plan.table.name, "was altered"))?;
            Ok(WrittenColumn {
                name: column.name.clone(),
                kind: described.kinds[at].ok_or_else(|| Error::bug("a column that cannot be written"))?,
                nulls: match described.table.columns[at].nullable {
                    true => Nulls::Taken,
                    false => Nulls::Refused,
                },
            })
        });
        let columns: Vec<WrittenColumn> = columns.collect::<Result<_>>()?;
        let place = |name: &String| {
            let found = columns.iter().position(|column| column.name == *name);
            found.ok_or_else(|| {
                Error::schema(format!("the source does not fill key column '{name}'"))
                    .hint("a row is found by its whole primary key; --map names a column of another name")
            })
        };
        let key: Vec<usize> = described
            .key
            .iter()
            .map(|at| place(&described.table.columns[*at].name))
            .collect::<Result<_>>()?;
        let put = match &plan.operation {
            Operation::Upsert { .. } => Put::Always,
            Operation::Delete { .. } => Put::Delete,
            _ => Put::IfAbsent,
        };
        let absent = described
            .table
            .columns
            .iter()
            .find(|known| !columns.iter().any(|column| column.name == known.name));
        if let (Put::Always, Some(absent)) = (put, absent) {
            return Err(Error::schema(format!(
                "an upsert puts whole rows, and the source does not fill column '{}'",
                absent.name
            ))
            .hint("fill every column, or use --mode insert or ignore"));
        }
        Ok(Self {
            store,
            described,
            columns,
            key,
            put,
            operation: plan.operation.clone(),
            together: match plan.method {
                Method::Single => Together::Single,
                _ => Together::ShardKey,
            },
            ledger,
            memory,
            places: Vec::new(),
            written: Vec::new(),
            open: None,
        })
    }

    fn map(&self, cells: &[Vec<Cell>], row: usize) -> Result<MapValue> {
        let mut map = MapValue::new();
        for (at, column) in self.columns.iter().enumerate() {
            if self.put != Put::Delete || self.key.contains(&at) {
                map.put_field_value(&column.name, to_wire(&cells[at][row])?);
            }
        }
        Ok(map)
    }

    /// Whether the row that is there has the very values that were sent.
    fn is_same(&self, there: Option<&MapValue>, cells: &[Vec<Cell>], row: usize) -> Result<bool> {
        let Some(there) = there else { return Ok(false) };
        for (column, cells) in self.columns.iter().zip(cells) {
            let found = from_wire(there.get_field_value(&column.name), column.kind, &column.name)?;
            if found != cells[row] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn may_be_there(&self, place: u64) -> bool {
        let was_owned_before = self.ledger.as_ref().is_some_and(|(_, run)| run.epoch > 1);
        was_owned_before || self.memory.locked().unanswered.contains(&place)
    }

    fn put_request(&self, cells: &[Vec<Cell>], row: usize, table: &str) -> Result<PutRequest> {
        let request = PutRequest::new(table).value(self.map(cells, row)?);
        Ok(match self.put {
            Put::IfAbsent => request
                .if_absent()
                .return_row(self.may_be_there(self.places[row])),
            _ => request,
        })
    }

    /// What a put or a delete has come to that was done, or was not.
    fn answer(
        &self,
        is_done: bool,
        there: Option<&MapValue>,
        cells: &[Vec<Cell>],
        row: usize,
    ) -> Result<Answer> {
        if is_done
            || (self.put == Put::IfAbsent
                && self.may_be_there(self.places[row])
                && self.is_same(there, cells, row)?)
        {
            return Ok(Answer::Done);
        }
        Ok(match self.operation {
            Operation::Insert => Answer::Refused(
                KEY_EXISTS.to_owned(),
                "a row with this primary key is there already".to_owned(),
            ),
            _ => Answer::LeftOut,
        })
    }

    async fn send_one(&self, cells: &[Vec<Cell>], row: usize) -> Result<Answer> {
        let (table, handle) = (&self.described.table.name.name, &self.store.handle);
        if self.put == Put::Delete {
            let done = DeleteRequest::new(table, self.map(cells, row)?)
                .execute(handle)
                .await;
            return match done {
                Ok(done) => self.answer(done.success(), None, cells, row),
                Err(error) => refused(failed(error, Doing::Rows)),
            };
        }
        match self.put_request(cells, row, table)?.execute(handle).await {
            Ok(done) => self.answer(done.version().is_some(), done.existing_value(), cells, row),
            Err(error) => refused(failed(error, Doing::Rows)),
        }
    }

    /// Sends rows of a shard key; one by one where the database finds something wrong with one of them. Gives the number of
    /// requests.
    async fn send(&self, cells: &[Vec<Cell>], rows: &[usize]) -> Result<u64> {
        if let [row] = rows {
            let answer = self.send_one(cells, *row).await;
            self.remember(*row, answer)?;
            return Ok(1);
        }
        let operations = rows.iter().map(|row| {
            Ok(match self.put {
                Put::Delete => Sub::Delete(DeleteRequest::new("", self.map(cells, *row)?)),
                _ => Sub::Put(self.put_request(cells, *row, "")?),
            })
        });
        let operations: Vec<Sub> = operations.collect::<Result<_>>()?;
        let found = match send_together(&self.store, &self.described.table.name.name, operations).await? {
            Ok(found) if found.results().len() == rows.len() && found.failed_operation_index() < 0 => found,
            // A request with a failure is undone as a whole.
            Ok(_) => return self.send_each(cells, rows).await,
            Err(error) => {
                let error = failed(error, Doing::Rows);
                if error.kind() == ErrorKind::Rejected {
                    return self.send_each(cells, rows).await;
                }
                self.memory
                    .locked()
                    .unanswered
                    .extend(rows.iter().map(|row| self.places[*row]));
                return Err(error);
            }
        };
        for (row, found) in rows.iter().zip(found.results()) {
            let answer = self.answer(found.success(), found.existing_value(), cells, *row);
            self.remember(*row, answer)?;
        }
        Ok(1)
    }

    async fn send_each(&self, cells: &[Vec<Cell>], rows: &[usize]) -> Result<u64> {
        for row in rows {
            let answer = self.send_one(cells, *row).await;
            self.remember(*row, answer)?;
        }
        Ok(rows.len() as u64 + 1)
    }

    fn remember(&self, row: usize, answer: Result<Answer>) -> Result<()> {
        let place = self.places[row];
        let mut memory = self.memory.locked();
        match answer {
            Ok(answer) => {
                memory.unanswered.remove(&place);
                memory.answers.insert(place, answer);
                Ok(())
            }
            Err(error) => {
                memory.unanswered.insert(place);
                Err(error)
            }
        }
    }

    /// The values, or the first row that the database would not keep as it is.
    fn encoded(&self, rows: &RecordBatch) -> Result<std::result::Result<Vec<Vec<Cell>>, Failure>> {
        let mut cells = Vec::with_capacity(self.columns.len());
        for (column, array) in self.columns.iter().zip(rows.columns()) {
            match encode(array, column.kind, column.nulls)? {
                Ok(encoded) => cells.push(encoded),
                Err((row, (code, what))) => {
                    let message = format!("column '{}' {what}", column.name);
                    return Ok(Err(Failure::of_row(row, &column.name, code, message)));
                }
            }
        }
        Ok(Ok(cells))
    }

    /// The account of rows that were all answered.
    fn account(&self, outcome: &mut Outcome) {
        let memory = self.memory.locked();
        for (row, place) in self.places.iter().enumerate() {
            match memory.answers.get(place) {
                Some(Answer::LeftOut) => outcome.skipped += 1,
                Some(Answer::Refused(code, message)) => {
                    // The engine sends what is before and after it again, and gets the same answers without a request.
                    outcome.skipped = 0;
                    outcome.failure = Some(Failure {
                        applied: 0,
                        suspect: Some(row),
                        intact: true,
                        error: Error::new(ErrorKind::Rejected, message).code(code),
                        column: None,
                    });
                    return;
                }
                _ => {}
            }
        }
    }
}

/// One operation of several.
enum Sub {
    Put(PutRequest),
    Delete(DeleteRequest),
}

/// Sends operations as one. The SDK's request cannot be sent between threads, so one that blocks makes it and waits for it.
async fn send_together(
    store: &Arc<Store>,
    table: &str,
    operations: Vec<Sub>,
) -> Result<std::result::Result<WriteMultipleResult, NoSQLError>> {
    let (store, table) = (store.clone(), table.to_owned());
    let runtime = tokio::runtime::Handle::current();
    let sent = tokio::task::spawn_blocking(move || {
        let empty = WriteMultipleRequest::new(&table);
        let request = operations
            .into_iter()
            .fold(empty, |request, operation| match operation {
                Sub::Put(put) => request.add(Box::new(put)),
                Sub::Delete(delete) => request.add(Box::new(delete)),
            });
        runtime.block_on(request.execute(&store.handle))
    });
    sent.await
        .map_err(|cause| Error::bug(format!("a request ended without an answer: {cause}")))
}

/// What is a row's fault is its answer.
fn refused(error: Error) -> Result<Answer> {
    match error.kind() {
        ErrorKind::Rejected => Ok(Answer::Refused(
            error.code_text().unwrap_or_default().to_owned(),
            error.to_string(),
        )),
        _ => Err(error),
    }
}

#[async_trait]
impl Writer for NosqlWriter {
    async fn begin(&mut self, advances: &[Advance]) -> Result<Claim> {
        if let Some((ledger, run)) = &self.ledger
            && ledger.stands(run, advances).await? == Claim::Moved
        {
            return Ok(Claim::Moved);
        }
        let now = self.store.describe(&self.described.table.name).await?;
        match altered(&self.described.table, now.as_ref().map(|now| &now.table)) {
            Some(what) => Err(Error::altered(&self.described.table.name, what)),
            None => {
                self.open = Some(advances.to_vec());
                Ok(Claim::Held)
            }
        }
    }

    fn places(&mut self) -> Option<&mut Vec<u64>> {
        Some(&mut self.places)
    }

    fn requests_max(&self) -> Option<usize> {
        Some(self.store.settings.requests)
    }

    async fn write(&mut self, rows: &RecordBatch, _: Guard) -> Result<Outcome> {
        if self.open.is_none() {
            return Err(Error::bug("rows were written outside a write"));
        }
        if self.places.len() != rows.num_rows() {
            return Err(Error::bug("rows came without their places"));
        }
        let mut outcome = Outcome {
            statements: 0,
            bytes_sent: 0,
            skipped: 0,
            failure: None,
        };
        let cells = match self.encoded(rows)? {
            Ok(cells) => cells,
            Err(failure) => {
                outcome.failure = Some(failure);
                return Ok(outcome);
            }
        };
        self.written.extend(&self.places);
        let unknown: Vec<usize> = {
            let memory = self.memory.locked();
            (0..rows.num_rows())
                .filter(|row| !memory.answers.contains_key(&self.places[*row]))
                .collect()
        };
        let bytes = |row: &usize| {
            cells
                .iter()
                .map(|column| column[*row].bytes() as u64)
                .sum::<u64>()
        };
        outcome.bytes_sent = unknown.iter().map(bytes).sum();
        for round in rounds(
            &cells,
            unknown.into_iter(),
            &self.key,
            self.described.shard,
            self.together,
        ) {
            let (writer, cells) = (&*self, &cells);
            let sending: Vec<_> = round.iter().map(|rows| writer.send(cells, rows)).collect();
            let mut sending = stream::iter(sending).buffer_unordered(self.store.settings.requests);
            // All are waited for, so that what is not answered is known, and none is under way when the write is sent again.
            let mut first = None;
            while let Some(sent) = sending.next().await {
                match sent {
                    Ok(requests) => outcome.statements += requests,
                    Err(error) => first = first.or(Some(error)),
                }
            }
            if let Some(error) = first {
                return Err(error);
            }
        }
        self.account(&mut outcome);
        Ok(outcome)
    }

    async fn write_each(&mut self, _: &RecordBatch) -> Result<Option<EachOutcome>> {
        // A row that was answered is not sent again.
        Ok(None)
    }

    async fn commit(&mut self, fixed: &[Advance]) -> Result<()> {
        let Some(begun) = self.open.take() else {
            return Err(Error::bug("a commit outside a write"));
        };
        if let Some((ledger, run)) = &self.ledger {
            ledger.advance(run, at_commit(begun, fixed)).await?;
        }
        let mut memory = self.memory.locked();
        for place in self.written.drain(..) {
            memory.answers.remove(&place);
            memory.unanswered.remove(&place);
        }
        Ok(())
    }

    async fn rollback(&mut self) -> Result<()> {
        self.open = None;
        Ok(())
    }
}
