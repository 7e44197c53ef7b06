//! Rows of keys: many small questions at once.
//!
//! A key is at least the partition key. Where it is one column and nothing else, of a type whose values are equal only
//! as bytes, keys whose rows the same nodes hold are asked in one `IN`; every row tells its key by the bytes of that
//! column, which the server compares too. All other keys are asked one by one, many at a time.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use async_trait::async_trait;
use futures::{StreamExt, future::BoxFuture, stream::FuturesOrdered};
use scylla::{
    client::session::Session,
    cluster::metadata::NativeType,
    response::{PagingState, query_result::QueryRowsResult},
    statement::prepared::PreparedStatement,
};
use tonnage_core::{
    error::{Error, Result},
    getter::{Answer, GetKey, GetRequest, Getter, KeyRange, encodable},
    reader::{BatchBounds, ReadColumn},
};

use super::{
    batches::{self, Ring},
    catalog::Described,
    decode::{Decoder, Fields},
    encode::{Cells, ColumnEncoder, Given, Role},
    reader::{self, PageSize},
    types::{Kind, quote},
};

/// Keys of an `IN`.
const KEYS_MAX: usize = 100;

/// Questions under way.
const IN_FLIGHT_MAX: usize = 64;

/// Bytes of a page, about.
const PAGE_BYTES: usize = 256 << 10;

/// Bytes of all pages that are under way or wait to be taken, about; one page there may be whatever it takes.
const PAGES_BYTES: usize = IN_FLIGHT_MAX * PAGE_BYTES;

/// Some keys that are asked together: the values of the statement, and of each key its place.
struct Question {
    values: Vec<Vec<u8>>,
    keys: Vec<u32>,
}

type Asked = (Arc<Question>, Result<(QueryRowsResult, Option<PagingState>)>);

pub(super) struct CassandraGetter {
    session: Arc<Session>,
    statement: Arc<PreparedStatement>,
    ring: Ring,
    keys: Vec<ColumnEncoder>,
    /// The place of the column by whose bytes a row tells its key, where several are asked together.
    told_by: Option<usize>,
    /// The ends of the range behind the key.
    range: Vec<Vec<u8>>,
    columns: Vec<ReadColumn>,
    decoder: Decoder,
    fields: usize,
    page: PageSize,
    /// Questions that may be under way before it is known how large rows are: one, and twice as many with each answer
    /// that had none.
    unknown_max: usize,
    waiting: VecDeque<Arc<Question>>,
    /// In the order of the questions, so that rows of keys that are asked one by one come in the order of the keys.
    asked: FuturesOrdered<BoxFuture<'static, Asked>>,
    /// The keys of the last question by their bytes.
    places: HashMap<Vec<u8>, u32>,
}

fn encoder(described: &Described, key: &GetKey) -> Result<ColumnEncoder> {
    let at = described.position(&key.name);
    let kind = at.and_then(|at| described.kinds[at].clone());
    Ok(ColumnEncoder {
        name: key.name.clone(),
        kind: kind.ok_or_else(|| Error::schema(format!("column '{}' cannot be a key", key.name)))?,
        role: match described.partition.as_slice() {
            [one] if at == Some(*one) => Role::Partition,
            _ => Role::Key,
        },
    })
}

/// Whether values of a type are equal only if they are the same bytes, and those of a key only if they are written alike.
/// The server takes one of several equal values of an `IN` for all of them, though another scale of a decimal is another
/// partition; and an address is written in several ways.
fn exact(kind: &Kind) -> bool {
    match kind {
        Kind::Scalar(native) => !matches!(
            native,
            NativeType::Decimal
                | NativeType::Varint
                | NativeType::Float
                | NativeType::Double
                | NativeType::Inet
        ),
        _ => false,
    }
}

/// The conditions of the range, and what they are bound to.
fn range_of(described: &Described, range: &KeyRange) -> Result<(String, Vec<Vec<u8>>)> {
    let encoder = encoder(described, &range.column)?;
    let (mut cql, mut values) = (String::new(), Vec::new());
    for (end, inclusive, exclusive) in [(&range.from, ">=", ">"), (&range.to, "<=", "<")] {
        let Some(end) = end else { continue };
        let cells = encoder.encode(&end.value)?.map_err(|fault| {
            Error::config(format!(
                "an end of the range on '{}': {}",
                fault.column, fault.misfit.message
            ))
        })?;
        let compare = if end.inclusive { inclusive } else { exclusive };
        cql.push_str(&format!(" AND {} {compare} ?", quote(&range.column.name)));
        values.push(cells.get(0).unwrap_or_default().to_vec());
    }
    Ok((cql, values))
}

impl CassandraGetter {
    pub(super) async fn open(
        session: Arc<Session>,
        described: Described,
        request: &GetRequest,
    ) -> Result<Self> {
        let named = |at: &usize| &described.table.columns[*at].name;
        let absent = described
            .partition
            .iter()
            .map(named)
            .find(|name| !request.key.iter().any(|key| key.name == **name));
        if let Some(absent) = absent {
            return Err(
                Error::schema(format!("a key without '{absent}' says of no row where it is")).hint(format!(
                    "a key has at least the partition key ({}); unload reads a whole table",
                    described
                        .partition
                        .iter()
                        .map(named)
                        .cloned()
                        .collect::<Vec<_>>()
                        .join(", ")
                )),
            );
        }
        let keys = request.key.iter().map(|key| encoder(&described, key));
        let keys: Vec<ColumnEncoder> = keys.collect::<Result<_>>()?;
        let together = keys.len() == 1 && request.range.is_none() && exact(&keys[0].kind);
        let scan = request.scan();
        let (mut names, texts) = reader::select(&described, &scan)?;
        let wanted = names.len();
        let mut cql = String::new();
        if together {
            let name = quote(&keys[0].name);
            cql.push_str(&format!("{name} IN ?"));
            names.push(name);
        } else {
            let conditions: Vec<String> = keys
                .iter()
                .map(|key| format!("{} = ?", quote(&key.name)))
                .collect();
            cql.push_str(&conditions.join(" AND "));
        }
        let mut range = Vec::new();
        if let Some(asked) = &request.range {
            let (condition, values) = range_of(&described, asked)?;
            cql.push_str(&condition);
            range = values;
        }
        let cql = format!(
            "SELECT {} FROM {} WHERE {cql}",
            names.join(", "),
            described.quoted()
        );
        let mut statement = super::prepare(&session, cql).await?;
        statement.set_is_idempotent(true);
        let (columns, decoders) = reader::columns(&statement, &texts, |name| described.may_lack(name))?;
        let naming = reader::naming(&described, &columns, &decoders);
        Ok(Self {
            ring: Ring::of(&session, &described),
            session,
            statement: Arc::new(statement),
            keys,
            told_by: together.then_some(wanted),
            range,
            decoder: Decoder::new(decoders, &columns, naming),
            columns,
            fields: names.len(),
            page: PageSize::of(BatchBounds {
                bytes_max: request.batch.bytes_max.min(PAGE_BYTES),
                ..request.batch
            }),
            unknown_max: 1,
            waiting: VecDeque::new(),
            asked: FuturesOrdered::new(),
            places: HashMap::new(),
        })
    }

    /// The keys, and their places: those that a column could not hold have no rows.
    fn encode(&self, keys: &RecordBatch) -> Result<Vec<(u32, Vec<Vec<u8>>)>> {
        let sent = encodable(keys, |keys| {
            let cells = self.cells(keys.columns())?;
            Ok(cells.ok_or(()))
        })?;
        let place = |row: usize| sent.places.as_ref().map_or(row as u32, |places| places[row]);
        let encoded = (0..sent.rows).map(|row| (place(row), values(&sent.encoded, row)));
        Ok(encoded.collect())
    }

    /// None where a value is none of its column's.
    fn cells(&self, keys: &[ArrayRef]) -> Result<Option<Vec<Cells>>> {
        let mut cells = Vec::with_capacity(keys.len());
        for (column, array) in self.keys.iter().zip(keys) {
            match column.encode(array)? {
                Ok(encoded) => cells.push(encoded),
                Err(_) => return Ok(None),
            }
        }
        Ok(Some(cells))
    }

    /// Questions that may be under way.
    fn in_flight_max(&self) -> usize {
        let fit = self.page.pages_of(PAGES_BYTES);
        fit.unwrap_or(self.unknown_max).min(IN_FLIGHT_MAX)
    }

    fn page(&self, question: Arc<Question>, from: PagingState) -> BoxFuture<'static, Asked> {
        let (session, statement, size) = (self.session.clone(), self.statement.clone(), self.page);
        Box::pin(async move {
            let values = Given(question.values.iter().map(Vec::as_slice).collect());
            let page = reader::page(&session, &statement, size, &values, from).await;
            drop(values);
            (question, page)
        })
    }
}

fn values(cells: &[Cells], row: usize) -> Vec<Vec<u8>> {
    let values = cells
        .iter()
        .map(|cells| cells.get(row).unwrap_or_default().to_vec());
    values.collect()
}

/// Some values as one list.
fn list<'a>(values: impl ExactSizeIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut list = (values.len() as i32).to_be_bytes().to_vec();
    for value in values {
        list.extend_from_slice(&(value.len() as i32).to_be_bytes());
        list.extend_from_slice(value);
    }
    list
}

#[async_trait]
impl Getter for CassandraGetter {
    fn columns(&self) -> &[ReadColumn] {
        &self.columns
    }

    async fn ask(&mut self, keys: &RecordBatch) -> Result<()> {
        self.asked = FuturesOrdered::new();
        self.places.clear();
        let encoded = self.encode(keys)?;
        if self.told_by.is_none() {
            let range = &self.range;
            let questions = encoded.into_iter().map(|(place, mut values)| {
                values.extend(range.iter().cloned());
                Arc::new(Question {
                    values,
                    keys: vec![place],
                })
            });
            self.waiting = questions.collect();
            return Ok(());
        }
        let mut placed: Vec<(usize, i64, u32, Vec<u8>)> = encoded
            .into_iter()
            .filter_map(|(place, mut key)| {
                let key = key.pop()?;
                let token = batches::token(std::iter::once(key.as_slice())).value();
                Some((self.ring.set(token), token, place, key))
            })
            .collect();
        placed.sort_unstable();
        self.waiting = placed
            .chunk_by(|a, b| a.0 == b.0)
            .flat_map(|set| set.chunks(KEYS_MAX))
            .map(|keys| {
                Arc::new(Question {
                    values: vec![list(keys.iter().map(|(_, _, _, key)| key))],
                    keys: keys.iter().map(|(_, _, place, _)| *place).collect(),
                })
            })
            .collect();
        self.places = placed
            .into_iter()
            .map(|(_, _, place, key)| (key, place))
            .collect();
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<Answer>> {
        loop {
            while self.asked.len() < self.in_flight_max()
                && let Some(question) = self.waiting.pop_front()
            {
                self.asked.push_back(self.page(question, PagingState::start()));
            }
            let Some((question, page)) = self.asked.next().await else {
                return Ok(None);
            };
            let (rows, next) = page?;
            self.page.learn(rows.rows_num(), rows.rows_bytes_size());
            self.unknown_max = self.unknown_max.saturating_mul(2);
            if let Some(next) = next {
                self.asked.push_front(self.page(question.clone(), next));
            }
            if rows.rows_num() == 0 {
                continue;
            }
            let fields = Fields::of(&rows, self.fields)?;
            let keys = match self.told_by {
                None => vec![question.keys[0]; fields.rows()],
                Some(at) => {
                    let place = |row| {
                        let key = fields.get(row, at).and_then(|key| self.places.get(key));
                        key.copied()
                            .ok_or_else(|| Error::bug("a row of a key that was not asked for"))
                    };
                    (0..fields.rows()).map(place).collect::<Result<_>>()?
                }
            };
            return Ok(Some(Answer {
                rows: self.decoder.decode(&fields)?,
                keys: UInt32Array::from(keys),
            }));
        }
    }

    fn settings_changed(&self) -> Vec<String> {
        Vec::new()
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
