//! Rows of keys, on a thread of their own.
//!
//! The keys of a request go into a temporary table with their places, which the table is joined to: DuckDB compares. A key
//! that the column could never hold is cast to null, which equals nothing. Connections of a [`DuckReadSnapshot`] have begun to read
//! while nobody could change the file, and see the state of that moment; without one every request sees its own.

use std::sync::Mutex;

use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::cast,
    datatypes::{DataType, UInt32Type},
};
use async_trait::async_trait;
use tokio::sync::mpsc;
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    getter::{Answer, GetRequest, Getter, RangeEnd, ReadSnapshot, encodable, no_index},
    reader::{BeyondArrow, ReadColumn},
    sync::Lock,
};
use tonnage_sql::thread::Thread;

use super::{
    catalog,
    connection::{self, Connection},
    decode::Decoder,
    encode::{Encoded, Encoder},
    errors::failed,
    ledger::{Database, Missing},
    location::Location,
    reader::{Gathered, begun, of_rows},
    scan::Scanned,
    sql::{PLACE, name_of, quote, value},
    types::{self, Check},
};

/// Answers that may wait to be fetched, so that reading goes on meanwhile.
const ANSWERS_AHEAD: usize = 2;
/// The temporary tables of keys, and of the ends of a range.
const KEYS: &str = "tonnage_keys";
const ENDS: &str = "tonnage_ends";

/// Connections that see one state.
pub(crate) struct DuckReadSnapshot {
    location: Location,
    connections: Mutex<Vec<Connection>>,
}

impl DuckReadSnapshot {
    /// Opens so many, while nobody changes the file; none where there is no file.
    pub(crate) async fn begin(database: &Database, count: usize) -> Result<Option<Self>> {
        if !database.location().exists()? {
            return Ok(None);
        }
        let held = match count {
            0 | 1 => None,
            _ => database.hold(Missing::Left).await?,
        };
        let location = database.location().clone();
        let opening = tokio::task::spawn_blocking(move || {
            let connections = (0..count).map(|_| begun(&location)).collect::<Result<Vec<_>>>()?;
            drop(held);
            Ok(Some(Self {
                location,
                connections: Mutex::new(connections),
            }))
        });
        opening
            .await
            .map_err(|error| Error::bug(format!("the connections were not opened: {error}")))?
    }
}

#[async_trait]
impl ReadSnapshot for DuckReadSnapshot {
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>> {
        let connection = self.connections.locked().pop();
        let connection = connection.ok_or_else(|| Error::bug("more getters than were asked for"))?;
        Ok(Box::new(
            DuckGetter::open(self.location.clone(), Some(connection), request).await?,
        ))
    }
}

/// A connection that looks rows up.
pub(crate) struct DuckGetter {
    thread: Thread<Looking>,
    columns: Vec<ReadColumn>,
    notes: Vec<String>,
    answers: Option<mpsc::Receiver<Result<Answer>>>,
}

impl DuckGetter {
    /// Opens one, or takes `connection`.
    pub(crate) async fn open(
        location: Location,
        connection: Option<Connection>,
        request: &GetRequest,
    ) -> Result<Self> {
        let request = request.clone();
        let open = move || {
            let connection = match connection {
                Some(connection) => connection,
                None if location.exists()? => connection::open(&location)?.connect()?,
                None => return Err(Error::schema(format!("{} does not exist", location.shown()))),
            };
            Looking::open(connection, &request)
        };
        let thread = Thread::start("duckdb-getter", open).await?;
        let (columns, notes) = thread
            .run(|looking| (looking.columns.clone(), looking.notes.clone()))
            .await?;
        Ok(Self {
            thread,
            columns,
            notes,
            answers: None,
        })
    }
}

#[async_trait]
impl Getter for DuckGetter {
    fn columns(&self) -> &[ReadColumn] {
        &self.columns
    }

    fn settings_changed(&self) -> Vec<String> {
        Vec::new()
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    async fn ask(&mut self, keys: &RecordBatch) -> Result<()> {
        // What is left of the last answer is dropped, so that the thread comes to its end.
        self.answers = None;
        let (send, answers) = mpsc::channel(ANSWERS_AHEAD);
        let keys = keys.clone();
        self.thread.send(move |looking| {
            let answered = looking.answer(&keys, &mut |answer| send.blocking_send(Ok(answer)).is_ok());
            if let Err(error) = answered {
                // Nobody waiting means nobody to tell.
                let _ = send.blocking_send(Err(error));
            }
        })?;
        self.answers = Some(answers);
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<Answer>> {
        match &mut self.answers {
            Some(answers) => answers.recv().await.transpose(),
            None => Ok(None),
        }
    }
}

/// What the thread owns.
struct Looking {
    connection: Connection,
    decoder: Decoder,
    encoder: Encoder,
    sql: String,
    request: GetRequest,
    columns: Vec<ReadColumn>,
    notes: Vec<String>,
}

impl Looking {
    fn open(mut connection: Connection, request: &GetRequest) -> Result<Self> {
        let scanned = Scanned::look(&mut connection, &request.scan())?;
        let found = catalog::find(&mut connection, &request.table)?;
        let found = found.ok_or_else(|| Error::schema(format!("there is no table {}", request.table)))?;
        let names = catalog::described(
            &mut connection,
            &format!("SELECT * FROM {}", name_of(&found.name)),
        )?;
        let declared = |name: &str| declared(&names, request, name);
        let mut conditions = Vec::new();
        let mut encoded = Vec::new();
        for (at, key) in request.key.iter().enumerate() {
            let declared = declared(&key.name)?;
            conditions.push(format!(
                "tonnage_t.{} = TRY_CAST(tonnage_k.{} AS {declared})",
                quote(&key.name),
                value(at)
            ));
            encoded.push(Encoded {
                name: key.name.clone(),
                ty: key.ty,
                check: types::of_name(&declared).map_or(Check::None, |known| known.check),
                required: false,
            });
        }
        let mut ends = String::new();
        if let Some(range) = &request.range {
            let declared = declared(&range.column.name)?;
            let name = quote(&range.column.name);
            let mut end = |at: usize, of: &Option<RangeEnd>, signs: [&str; 2]| {
                if let Some(of) = of {
                    let sign = signs[usize::from(of.inclusive)];
                    conditions.push(format!(
                        "tonnage_t.{name} {sign} CAST(tonnage_e.{} AS {declared})",
                        value(at)
                    ));
                    ends = format!(" CROSS JOIN {ENDS} AS tonnage_e");
                }
            };
            end(0, &range.from, [">", ">="]);
            end(1, &range.to, ["<", "<="]);
            stage_ends(&mut connection, request)?;
        }
        let is_indexed = request.keyed;
        let mut notes = scanned.notes.clone();
        if !is_indexed {
            notes.push(no_index(&request.table, &request.key));
        }
        let sql = format!(
            "SELECT {}, CAST(tonnage_k.{PLACE} AS BIGINT) FROM {KEYS} AS tonnage_k{ends} JOIN (SELECT *, {} FROM {}) AS \
             tonnage_t ON {}",
            columns_of(&scanned.columns),
            aliased(&scanned),
            name_of(&found.name),
            conditions.join(" AND ")
        );
        Ok(Self {
            decoder: Decoder::new(&scanned.columns, &scanned.key, BeyondArrow::Refused),
            encoder: Encoder::new(encoded),
            request: request.clone(),
            columns: scanned.columns,
            connection,
            sql,
            notes,
        })
    }

    /// Passes on the rows of `keys` until nobody takes them any more.
    fn answer(&mut self, keys: &RecordBatch, pass: &mut dyn FnMut(Answer) -> bool) -> Result<()> {
        // What cannot be written exactly cannot be there.
        let encoded = encodable(keys, |keys| self.encoder.encode(keys))?;
        let places = encoded.places;
        if encoded.rows == 0 {
            return Ok(());
        }
        self.connection.stage(KEYS, encoded.encoded).map_err(failed)?;
        let rows = self.connection.stream(&self.sql, None).map_err(of_rows)?;
        let mut gathered = Gathered::new(self.request.batch);
        let width = self.columns.len();
        let mut hand_over = |whole: RecordBatch| -> Result<bool> {
            let keys = cast(whole.column(width), &DataType::UInt32).map_err(arrow_bug)?;
            let keys = arrow::array::AsArray::as_primitive::<UInt32Type>(&keys);
            let keys: UInt32Array = match &places {
                None => keys.clone(),
                Some(places) => keys.unary(|key| places[key as usize]),
            };
            Ok(pass(Answer {
                rows: self.decoder.decode(&whole)?,
                keys,
            }))
        };
        for batch in rows {
            for whole in gathered.push(batch.map_err(of_rows)?)? {
                if !hand_over(whole)? {
                    return Ok(());
                }
            }
        }
        if let Some(rest) = gathered.rest()? {
            hand_over(rest)?;
        }
        Ok(())
    }
}

/// The type of the table's column of this name, of `names` and types.
fn declared(names: &[(String, String)], request: &GetRequest, name: &str) -> Result<String> {
    let known = names.iter().find(|(known, _)| known == name);
    let (_, known) =
        known.ok_or_else(|| Error::schema(format!("{} has no column '{name}'", request.table)))?;
    match types::of_name(known) {
        Some(_) => Ok(known.clone()),
        None => Err(Error::schema(format!(
            "column '{name}' of {} has type {known}, which no key can be given in",
            request.table
        ))),
    }
}

/// The values of the columns wanted, under names of their own.
fn aliased(scanned: &Scanned) -> String {
    let each = scanned.expressions.iter().enumerate();
    let each = each.map(|(at, expression)| format!("{expression} AS tonnage_c{at}"));
    each.collect::<Vec<_>>().join(", ")
}

fn columns_of(columns: &[ReadColumn]) -> String {
    let each = (0..columns.len()).map(|at| format!("tonnage_t.tonnage_c{at}"));
    each.collect::<Vec<_>>().join(", ")
}

/// Puts the ends of the range into a temporary table of one row.
fn stage_ends(connection: &mut Connection, request: &GetRequest) -> Result<()> {
    let Some(range) = &request.range else {
        return Ok(());
    };
    let encoded = |at: usize| Encoded {
        name: format!("{} {at}", range.column.name),
        ty: range.column.ty,
        check: Check::None,
        required: false,
    };
    let none = || arrow::array::new_null_array(&range.column.ty.arrow(), 1);
    let of = |end: &Option<RangeEnd>| end.as_ref().map_or_else(none, |end| end.value.clone());
    let ends = [("from", of(&range.from), true), ("to", of(&range.to), true)];
    let ends = RecordBatch::try_from_iter_with_nullable(ends).map_err(arrow_bug)?;
    match Encoder::new(vec![encoded(0), encoded(1)]).encode(&ends)? {
        Ok(ends) => connection.stage(ENDS, ends).map_err(failed),
        Err(bad) => Err(Error::config(format!(
            "the range cannot be asked for: {}",
            bad.message
        ))),
    }
}
