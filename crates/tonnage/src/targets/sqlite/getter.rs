//! Rows of keys, on a thread of their own.
//!
//! Keys of one column are handed to SQLite as a virtual table (`rarray`), which the table is joined to key by key; its
//! rowid tells which key a row has. Keys of several columns are looked up one by one by a prepared statement within one
//! transaction. Each key goes down the index; comparing is SQLite's.
//! Keys that no value of the column can equal are bound as null, which equals nothing.
//!
//! Every question is a transaction of its own and sees what is committed by then.

use std::{rc::Rc, sync::Arc};

use arrow::array::{RecordBatch, UInt32Builder};
use async_trait::async_trait;
use rusqlite::{Connection, InterruptHandle, types::Value, vtab::array};
use tokio::sync::mpsc;

use super::{
    catalog,
    connect::Location,
    encode::Encoder,
    errors::{self, Doing},
    reader::{Building, Form, of_rows},
    scan::Scanned,
    sql::quote,
    thread::Thread,
};
use crate::{
    error::{Error, Result},
    getter::{Answer, GetKey, GetRequest, Getter, RangeEnd},
    load::arrow_bug,
    reader::{ReadColumn, Relation, ScanRequest, schema},
};

/// Answers that may wait to be fetched, so that reading goes on meanwhile.
const ANSWERS_AHEAD: usize = 2;

pub(super) struct SqliteGetter {
    columns: Vec<ReadColumn>,
    notes: Vec<String>,
    /// Before the thread, so that what it reads for nobody ends when both are dropped.
    answers: Option<mpsc::Receiver<Result<Answer>>>,
    interrupt: InterruptHandle,
    thread: Thread<Looking>,
}

/// What the thread owns.
struct Looking {
    connection: Connection,
    form: Form,
    encoder: Encoder,
    sql: String,
    /// Values of the range's ends.
    ends: Vec<Value>,
}

fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

impl SqliteGetter {
    pub(super) async fn open(location: &Location, request: &GetRequest) -> Result<Self> {
        let (location, request) = (location.clone(), request.clone());
        let (send, opened) = tokio::sync::oneshot::channel();
        let thread = Thread::start("sqlite-getter", move || {
            let (looking, columns, notes) = Looking::open(&location, &request)?;
            // Whoever started the thread waits for this.
            let _ = send.send((columns, notes, looking.connection.get_interrupt_handle()));
            Ok(looking)
        })
        .await?;
        let (columns, notes, interrupt) = opened
            .await
            .map_err(|_| Error::bug("the getting thread was opened without a word"))?;
        Ok(Self {
            columns,
            notes,
            answers: None,
            interrupt,
            thread,
        })
    }
}

#[async_trait]
impl Getter for SqliteGetter {
    fn columns(&self) -> &[ReadColumn] {
        &self.columns
    }

    fn settings_changed(&self) -> Vec<String> {
        vec!["query_only = ON".to_owned()]
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    async fn ask(&mut self, keys: &RecordBatch) -> Result<()> {
        let (send, answers) = mpsc::channel(ANSWERS_AHEAD);
        let keys = keys.clone();
        // What was read for the last question ends when it finds that nobody listens.
        self.answers = Some(answers);
        self.thread.send(move |looking| {
            let mut pass = |answer| send.blocking_send(Ok(answer)).is_ok();
            if let Err(error) = looking.answer(&keys, &mut pass) {
                // Nobody listening means nobody to tell.
                let _ = send.blocking_send(Err(error));
            }
        })
    }

    async fn next(&mut self) -> Result<Option<Answer>> {
        match &mut self.answers {
            Some(answers) => answers.recv().await.transpose(),
            None => Ok(None),
        }
    }
}

impl Drop for SqliteGetter {
    fn drop(&mut self) {
        self.answers = None;
        self.interrupt.interrupt();
    }
}

impl Looking {
    fn open(location: &Location, request: &GetRequest) -> Result<(Self, Vec<ReadColumn>, Vec<String>)> {
        let missing = || Error::schema(format!("{} does not exist", location.shown()));
        let connection = location.open_existing()?.ok_or_else(missing)?;
        connection
            .execute_batch("PRAGMA query_only = ON")
            .map_err(failed)?;
        array::load_module(&connection).map_err(failed)?;
        let scanned = Scanned::look(
            &connection,
            &ScanRequest {
                relation: Relation::Table(request.table.clone()),
                columns: request.columns.clone(),
                texts: request.texts.clone(),
                filter: None,
                limit: None,
                split_by: None,
                readers: 1,
                batch: request.batch,
            },
        )?;
        let gone = || Error::schema(format!("table {} was altered meanwhile", request.table));
        let names: Vec<String> = request.key.iter().map(|key| key.name.clone()).collect();
        let behaviour = catalog::behaviour(&connection, &request.table.name, &names)?.ok_or_else(gone)?;
        let encoded = |key: &GetKey| {
            let affinity = behaviour.affinities.iter().find(|(name, _)| *name == key.name);
            let (_, affinity) = affinity.ok_or_else(gone)?;
            Ok((key.name.clone(), key.ty, *affinity))
        };
        let keys = request.key.iter().map(encoded).collect::<Result<Vec<_>>>()?;

        let mut conditions = Vec::new();
        // As the key's index compares, which may be unlike the column.
        for (at, key) in behaviour.key.iter().enumerate() {
            let collate = match &key.collation {
                Some(collation) => format!(" COLLATE {}", quote(collation)),
                None => String::new(),
            };
            let value = match keys.len() {
                1 => "asked.value".to_owned(),
                _ => format!("?{}", at + 1),
            };
            conditions.push(format!("wanted.{}{collate} = {value}", quote(&key.name)));
        }
        let mut ends = Vec::new();
        if let Some(range) = &request.range {
            let column = [encoded(&range.column)?];
            let encoder = Encoder::new(column)?;
            for (operator, end) in [(">", &range.from), ("<", &range.to)] {
                let Some(RangeEnd { value, inclusive }) = end else {
                    continue;
                };
                let field =
                    arrow::datatypes::Field::new(&range.column.name, value.data_type().clone(), false);
                let one = arrow::datatypes::Schema::new(vec![field]);
                let one = RecordBatch::try_new(Arc::new(one), vec![value.clone()]).map_err(arrow_bug)?;
                ends.extend(encoder.encode(&one)?.values(0));
                let parameter = keys.len() + ends.len();
                let equal = if *inclusive { "=" } else { "" };
                let name = quote(&range.column.name);
                conditions.push(format!("wanted.{name} {operator}{equal} ?{parameter}"));
            }
        }
        let names = scanned
            .columns
            .iter()
            .map(|column| format!("wanted.{}", quote(&column.name)));
        let mut list: Vec<String> = names.collect();
        let table = quote(&request.table.name);
        let from = match keys.len() {
            1 => {
                list.push("asked.rowid".to_owned());
                format!("rarray(?1) AS asked CROSS JOIN {table} AS wanted")
            }
            _ => format!("{table} AS wanted"),
        };
        let sql = format!(
            "SELECT {} FROM {from} WHERE {}",
            list.join(", "),
            conditions.join(" AND ")
        );
        let looking = Self {
            form: Form {
                schema: schema(&scanned.columns),
                types: scanned.columns.iter().map(|column| column.ty).collect(),
                texts: scanned.texts,
                naming: scanned.naming,
                batch: request.batch,
            },
            encoder: Encoder::new(keys)?,
            connection,
            sql,
            ends,
        };
        Ok((looking, scanned.columns, scanned.notes))
    }

    /// Passes on the rows of `keys` until nobody takes them any more.
    fn answer(&self, keys: &RecordBatch, pass: &mut dyn FnMut(Answer) -> bool) -> Result<()> {
        // What cannot be written exactly cannot be there.
        let encoded = self.encoder.encode(keys)?;
        // One state for all of them, and one lock instead of one a key: three times as fast. Dropping it undoes nothing.
        let _read = self.connection.unchecked_transaction().map_err(failed)?;
        let mut statement = self.connection.prepare_cached(&self.sql).map_err(failed)?;
        for (at, end) in self.ends.iter().enumerate() {
            statement
                .raw_bind_parameter(keys.num_columns() + at + 1, end)
                .map_err(failed)?;
        }
        let mut answering = Answering {
            building: Building::new(&self.form)?,
            keys: UInt32Builder::new(),
            pass,
        };
        if keys.num_columns() == 1 {
            let values = Rc::new(encoded.values(0));
            statement.raw_bind_parameter(1, values).map_err(failed)?;
            let ordinal = self.form.types.len();
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next().map_err(of_rows)? {
                let key: u32 = row.get(ordinal).map_err(failed)?;
                // Rowids begin at 1.
                if !answering.push(row, key.saturating_sub(1))? {
                    return Ok(());
                }
            }
        } else {
            let parameters: Vec<usize> = (0..keys.num_columns()).collect();
            for key in 0..keys.num_rows() {
                encoded
                    .bind(&mut statement, &parameters, key..key + 1)
                    .map_err(failed)?;
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next().map_err(of_rows)? {
                    if !answering.push(row, key as u32)? {
                        return Ok(());
                    }
                }
            }
        }
        answering.finish()
    }
}

/// An answer under way.
struct Answering<'a> {
    building: Building<'a>,
    keys: UInt32Builder,
    pass: &'a mut dyn FnMut(Answer) -> bool,
}

impl Answering<'_> {
    /// Takes a row of key `key`; false where nobody wants it.
    fn push(&mut self, row: &rusqlite::Row<'_>, key: u32) -> Result<bool> {
        self.building.push(row)?;
        self.keys.append_value(key);
        Ok(!self.building.is_full() || self.hand_over()?)
    }

    fn hand_over(&mut self) -> Result<bool> {
        Ok((self.pass)(Answer {
            rows: self.building.finish()?,
            keys: self.keys.finish(),
        }))
    }

    fn finish(mut self) -> Result<()> {
        if self.building.rows > 0 {
            self.hand_over()?;
        }
        Ok(())
    }
}
