//! Rows of keys, on a thread of their own.
//!
//! Keys of one column are handed to SQLite as a virtual table (`rarray`), which the table is joined to key by key; its
//! rowid tells which key a row has. Keys of several columns are looked up one by one by a prepared statement within one
//! transaction. Each key goes down the index; comparing is SQLite's.
//! Keys that no value of the column can equal are bound as null, which equals nothing.
//!
//! Columns that no index leads to are joined to all keys of a question at once: SQLite then makes an index for it,
//! which reads the table once.
//!
//! Connections that have begun to read while nobody committed see the state of one [moment](SqliteReadSnapshot), for as long
//! as they are open. Without it every question is a transaction of its own and sees what is committed by then.

use std::{rc::Rc, sync::Mutex, time::Duration};

use arrow::array::{RecordBatch, UInt32Builder};
use async_trait::async_trait;
use rusqlite::{Connection, InterruptHandle, types::Value, vtab::array};
use tokio::sync::mpsc;
use tonnage_core::{
    error::{Error, ErrorKind, Result, arrow_bug},
    getter::{Answer, GetKey, GetRequest, Getter, RangeEnd, ReadSnapshot, no_index},
    reader::{ReadColumn, schema},
    sync::Lock,
};
use tonnage_sql::thread::Thread;

use super::{
    catalog,
    connect::{Journal, Location},
    encode::Encoder,
    errors::{self, Doing},
    reader::{Building, RowDecoding, begin, of_rows},
    scan::{Classes, Scanned},
    sql::quote,
};

/// Answers that may wait to be fetched, so that reading goes on meanwhile.
const ANSWERS_AHEAD: usize = 2;
/// Rows by which it is decided what a column without a declared type holds.
const CLASSES_ROWS: u64 = 10_000;
/// Times that connections begin to read, until nobody has committed meanwhile.
const ATTEMPTS_MAX: u32 = 100;

/// Connections that see what was committed when they began to read.
pub(super) struct SqliteReadSnapshot {
    location: Location,
    connections: Mutex<Vec<Connection>>,
}

impl SqliteReadSnapshot {
    /// Opens so many; none where somebody commits all the time. No writer is held up, but for the commits into a file
    /// with a rollback journal, which cannot be read and written at once: there it is none.
    pub(super) async fn begin(location: &Location, count: usize) -> Result<Option<Self>> {
        let location = location.clone();
        let opening = tokio::task::spawn_blocking(move || Self::open(location, count));
        let opened = opening.await;
        opened.map_err(|error| Error::bug(format!("the connections were not opened: {error}")))?
    }

    fn open(location: Location, count: usize) -> Result<Option<Self>> {
        let Some(watch) = location.open_existing()? else {
            return Ok(None);
        };
        if Journal::of(&watch).map_err(failed)? != Journal::Wal {
            return Ok(None);
        }
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(existing(&location)?);
        }
        for attempt in 1..=ATTEMPTS_MAX {
            // Changes with every commit of another connection that this one sees.
            let version = || -> Result<i64> {
                watch
                    .query_row("PRAGMA data_version", [], |row| row.get(0))
                    .map_err(failed)
            };
            let before = version()?;
            for connection in &connections {
                begin(connection)?;
            }
            if version()? == before {
                return Ok(Some(Self {
                    location,
                    connections: Mutex::new(connections),
                }));
            }
            for connection in &connections {
                connection.execute_batch("ROLLBACK").map_err(failed)?;
            }
            std::thread::sleep(Duration::from_micros(u64::from(attempt) * 50));
        }
        Ok(None)
    }
}

#[async_trait]
impl ReadSnapshot for SqliteReadSnapshot {
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>> {
        let left = self.connections.locked().pop();
        let connection = left.ok_or_else(|| {
            Error::new(
                ErrorKind::Refused,
                "a connection that saw the state in which rows are looked up was lost",
            )
            .hint("begin again: other rows would be of a later state")
        })?;
        let opened = SqliteGetter::open(&self.location, Some(connection), request).await;
        Ok(Box::new(opened?))
    }
}

/// A connection to the file, which must be there, that only reads.
fn existing(location: &Location) -> Result<Connection> {
    let connection = location.open_existing()?.ok_or_else(|| location.missing())?;
    connection
        .execute_batch("PRAGMA query_only = ON")
        .map_err(failed)?;
    Ok(connection)
}

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
    form: RowDecoding,
    encoder: Encoder,
    sql: String,
    /// Values of the range's ends.
    ends: Vec<Value>,
    /// Whether all keys of several columns are in one list of values, key by key.
    listed: bool,
}

fn failed(failure: rusqlite::Error) -> Error {
    errors::error(failure, Doing::Else)
}

impl SqliteGetter {
    /// By a connection that has begun to read, or one of its own.
    pub(super) async fn open(
        location: &Location,
        begun: Option<Connection>,
        request: &GetRequest,
    ) -> Result<Self> {
        let (location, request) = (location.clone(), request.clone());
        let (send, opened) = tokio::sync::oneshot::channel();
        let thread = Thread::start("sqlite-getter", move || {
            let connection = match begun {
                Some(connection) => connection,
                None => existing(&location)?,
            };
            let (looking, columns, notes) = Looking::open(connection, &request)?;
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
    fn open(connection: Connection, request: &GetRequest) -> Result<(Self, Vec<ReadColumn>, Vec<String>)> {
        array::load_module(&connection).map_err(failed)?;
        let scanned = Scanned::look(&connection, &request.scan(), Classes::OfFirst(CLASSES_ROWS))?;
        let gone = || Error::schema(format!("table {} was altered meanwhile", request.table));
        let names: Vec<String> = request.key.iter().map(|key| key.name.clone()).collect();
        let indexed = request.keyed || catalog::is_indexed(&connection, &request.table.name, &names)?;
        let mut notes = scanned.notes;
        if !indexed {
            notes.push(no_index(&request.table, &request.key));
        }
        let ranged = request.range.iter().map(|range| range.column.name.clone());
        let names: Vec<String> = names.into_iter().chain(ranged).collect();
        let behaviour = catalog::behaviour(&connection, &request.table.name, &names)?.ok_or_else(gone)?;
        let encoded = |key: &GetKey| {
            let affinity = behaviour.affinities.iter().find(|(name, _)| *name == key.name);
            let (_, affinity) = affinity.ok_or_else(gone)?;
            Ok((key.name.clone(), key.ty, *affinity))
        };
        let keys = request.key.iter().map(encoded).collect::<Result<Vec<_>>>()?;

        let listed = !indexed && keys.len() > 1;
        // As the key's index compares, which may be unlike the column.
        let compared = |at: usize| {
            let key = &behaviour.key[at];
            let collate = match &key.collation {
                Some(collation) => format!(" COLLATE {}", quote(collation)),
                None => String::new(),
            };
            format!("wanted.{}{collate}", quote(&key.name))
        };
        let condition = |at: usize| {
            let value = match (keys.len(), listed) {
                (1, _) => "asked.value".to_owned(),
                (_, true) => format!("asked.key{at}"),
                (_, false) => format!("?{}", at + 1),
            };
            format!("{} = {value}", compared(at))
        };
        let mut conditions: Vec<String> = (0..keys.len()).map(condition).collect();
        let mut ends = Vec::new();
        if let Some(range) = &request.range {
            let column = [encoded(&range.column)?];
            let encoder = Encoder::new(column)?;
            for (operator, end) in [(">", &range.from), ("<", &range.to)] {
                let Some(RangeEnd { value, inclusive }) = end else {
                    continue;
                };
                let one = RecordBatch::try_from_iter([(&range.column.name, value.clone())]);
                let one = one.map_err(arrow_bug)?;
                ends.extend(encoder.encode(&one)?.values(0));
                let parameter = keys.len() + ends.len();
                let equal = if *inclusive { "=" } else { "" };
                conditions.push(format!("{} {operator}{equal} ?{parameter}", compared(keys.len())));
            }
        }
        let names = scanned
            .columns
            .iter()
            .map(|column| format!("wanted.{}", quote(&column.name)));
        let mut list: Vec<String> = names.collect();
        let table = quote(&request.table.name);
        let (before, asked, place) = match (keys.len(), listed) {
            (1, _) => (
                String::new(),
                "rarray(?1) AS asked CROSS JOIN ",
                Some("asked.rowid"),
            ),
            (count, true) => (together(count), "asked CROSS JOIN ", Some("asked.place")),
            (_, false) => (String::new(), "", None),
        };
        list.extend(place.map(str::to_owned));
        let sql = format!(
            "{before}SELECT {} FROM {asked}{table} AS wanted WHERE {}",
            list.join(", "),
            conditions.join(" AND ")
        );
        let looking = Self {
            form: RowDecoding {
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
            listed,
        };
        Ok((looking, scanned.columns, notes))
    }

    /// Passes on the rows of `keys` until nobody takes them any more.
    fn answer(&self, keys: &RecordBatch, pass: &mut dyn FnMut(Answer) -> bool) -> Result<()> {
        // What cannot be written exactly cannot be there.
        let encoded = self.encoder.encode(keys)?;
        // One state for all of them, and one lock instead of one a key: three times as fast. Dropping it undoes nothing.
        let _read = match self.connection.is_autocommit() {
            true => Some(self.connection.unchecked_transaction().map_err(failed)?),
            false => None,
        };
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
        if keys.num_columns() == 1 || self.listed {
            let values = match self.listed {
                true => {
                    let columns: Vec<_> = (0..keys.num_columns()).map(|at| encoded.values(at)).collect();
                    let key = |row: usize| columns.iter().map(move |column| column[row].clone());
                    Rc::new((0..keys.num_rows()).flat_map(key).collect())
                }
                false => Rc::new(encoded.values(0)),
            };
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

/// What makes one list of the values of all keys, of so many columns, a table of `asked` keys and their places.
fn together(columns: usize) -> String {
    let key = |at: usize| format!("max(CASE WHEN at % {columns} = {at} THEN value END) AS key{at}");
    let keys: Vec<_> = (0..columns).map(key).collect();
    format!(
        "WITH listed AS MATERIALIZED (SELECT rowid - 1 AS at, value FROM rarray(?1)), \
         asked AS MATERIALIZED (SELECT at / {columns} + 1 AS place, {} FROM listed GROUP BY at / {columns}) ",
        keys.join(", ")
    )
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
