//! Rows of other tables put into those that they belong to.
//!
//! Rows are taken a slice at a time. For each slice the keys that its rows have of another table are asked for, each
//! once, and what hangs on the answer likewise, before it is put into place: a parent as a struct, which is null where
//! there is none; children as a list of structs, which is empty where there are none. All of it is held until it is
//! put together, so a lost connection costs nothing but time.
//!
//! A slice with all that is in it takes at most [`GetPlan::nested_bytes_max`] bytes: one that outgrows them is taken in
//! halves, down to a single row, which may take [`GetPlan::nested_row_bytes_max`].

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow::{
    array::{
        Array, ArrayRef, ListArray, RecordBatch, RecordBatchOptions, StructArray, UInt32Array,
        new_empty_array,
    },
    buffer::{NullBuffer, OffsetBuffer, ScalarBuffer},
    compute::{concat_batches, take, take_record_batch},
    datatypes::{DataType, Field, Fields, Schema, SchemaRef},
    row::RowConverter,
};
use tonnage_core::{
    convert::Conversion,
    error::{Error, ErrorKind, Result, arrow_bug},
    getter::{Answer, Getter},
    parse::ParseContext,
    reader::ReadColumn,
    retry::pause,
    spill::converter,
};

use super::{
    answer::Getters,
    keys::{conversions, in_order, of_rows},
    plan::{ATTEMPTS_MAX, GetPlan},
    related::{Join, Related},
};
use crate::plan::Bytes;

/// Rows of a slice, to begin with.
const SLICE_ROWS: usize = 1_024;
/// Rows of a slice at most.
const SLICE_ROWS_MAX: usize = 8_192;

/// What was put into rows so far.
#[derive(Debug, Default)]
pub struct Nested {
    /// Keys that were asked for, and were found.
    pub asked: AtomicU64,
    /// Those that had rows.
    pub found: AtomicU64,
    /// Rows that came.
    pub rows: AtomicU64,
    /// Times that the database was asked.
    pub requests: AtomicU64,
    /// Times that an answer was lost.
    pub retries: AtomicU64,
}

/// What all that nest have in common.
pub struct Shape {
    /// Those of the rows that are got and of each table within, in its place.
    forms: Vec<RowLayout>,
    inner: Vec<Inner>,
    bytes_max: usize,
    /// The same of a single row.
    row_bytes_max: usize,
}

/// How rows of a table look.
struct RowLayout {
    /// With everything that is put into them.
    schema: SchemaRef,
    /// How many of the columns that are read are handed out.
    shown: usize,
}

/// A table whose rows are put into others.
struct Inner {
    plan: Arc<GetPlan>,
    join: Join,
    key: SchemaRef,
    conversions: Vec<Conversion>,
    getters: Arc<Getters>,
    nested: Arc<Nested>,
}

/// The rows that are got and each table within, in its place, as they are read.
pub struct Read<'a> {
    /// The columns.
    pub columns: &'a [ReadColumn],
    /// How many of the last are not handed out.
    pub hidden: usize,
}

impl<'a> Read<'a> {
    /// The columns that are handed out.
    pub fn shown(&self) -> &'a [ReadColumn] {
        &self.columns[..self.columns.len() - self.hidden]
    }
}

/// The schemas of what is handed out: of the rows that are got, and of each table within, in its place.
pub fn schemas(read: &[Read<'_>], related: &[Related]) -> Result<Vec<SchemaRef>> {
    let mut fields: Vec<Vec<Arc<Field>>> = read
        .iter()
        .map(|read| {
            let field = |column: &ReadColumn| Arc::new(column.ty.field(&column.name, column.nullable));
            read.shown().iter().map(field).collect()
        })
        .collect();
    let own: Vec<usize> = fields.iter().map(Vec::len).collect();
    // Each table comes after the one it hangs on, so from behind all are whole before they are put into another.
    for table in related.iter().rev() {
        let name = &table.plan.table.name.name;
        let of_it = Fields::from(fields[table.join.table].clone());
        let field = match table.join.one {
            true => Field::new(name, DataType::Struct(of_it), true),
            false => Field::new(name, list_of(of_it), false),
        };
        let near = &mut fields[table.join.to];
        if near.iter().any(|known| known.name() == name) {
            return Err(Error::config(format!(
                "rows of {} cannot stand within others under their table's name: '{name}' is there already",
                table.plan.table.name
            ))
            .hint("let them have a file of their own: leave --nested out"));
        }
        near.insert(own[table.join.to], Arc::new(field));
    }
    Ok(fields
        .into_iter()
        .map(|fields| Arc::new(Schema::new(fields)))
        .collect())
}

fn list_of(fields: Fields) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Struct(fields), false)))
}

impl Shape {
    /// For the rows of `plan`; `getters` are those of each table within.
    pub fn new(
        plan: &GetPlan,
        read: &[Read<'_>],
        getters: Vec<(Arc<Getters>, Arc<Nested>)>,
        context: &ParseContext,
    ) -> Result<Self> {
        let forms = schemas(read, &plan.related)?
            .into_iter()
            .zip(read)
            .map(|(schema, read)| RowLayout {
                schema,
                shown: read.shown().len(),
            });
        let inner = plan
            .related
            .iter()
            .zip(getters)
            .map(|(table, (getters, nested))| {
                Ok(Inner {
                    key: table.plan.key_schema(),
                    conversions: conversions(&table.plan, read[table.join.to].columns, context)?,
                    plan: table.plan.clone(),
                    join: table.join.clone(),
                    getters,
                    nested,
                })
            });
        Ok(Self {
            forms: forms.collect(),
            inner: inner.collect::<Result<_>>()?,
            bytes_max: plan.nested_bytes_max,
            row_bytes_max: plan.nested_row_bytes_max,
        })
    }
}

/// Puts rows of other tables into those that one worker finds.
pub struct Nest {
    shape: Arc<Shape>,
    /// A connection a table within.
    getters: Vec<Option<Box<dyn Getter>>>,
    /// What is left to be done, the first rows last.
    waiting: Vec<RecordBatch>,
    slice_rows: usize,
    /// What the slice may still take.
    bytes_left: usize,
    /// What is in the slice of each table within.
    counts: Vec<Count>,
}

/// Of a slice: keys that were asked for, those that had rows, and these.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    asked: usize,
    found: usize,
    rows: usize,
}

/// Rows of a table for the keys that were asked.
struct Found {
    /// All of them, those of one key together; none where there are none at all.
    rows: Option<RecordBatch>,
    /// For each row the place of its key.
    keys: Vec<u32>,
}

/// Rows with all that is in them; none where that is more than they may take.
type Fitting = Option<StructArray>;

impl Nest {
    /// Connects with its first rows.
    pub fn new(shape: Arc<Shape>) -> Self {
        Self {
            getters: shape.inner.iter().map(|_| None).collect(),
            counts: vec![Count::default(); shape.inner.len()],
            shape,
            waiting: Vec::new(),
            slice_rows: SLICE_ROWS,
            bytes_left: 0,
        }
    }

    /// Takes rows.
    pub fn begin(&mut self, rows: RecordBatch) {
        self.waiting = vec![rows];
    }

    /// The next rows with all that is in them; none at the end.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(rows) = self.waiting.pop() {
            let count = self.slice_rows.min(rows.num_rows());
            if count < rows.num_rows() {
                self.waiting.push(rows.slice(count, rows.num_rows() - count));
            }
            let slice = rows.slice(0, count);
            let most = match count {
                1 => self.shape.row_bytes_max,
                _ => self.shape.bytes_max,
            };
            self.bytes_left = most;
            self.counts.fill(Count::default());
            match self.nested(0, slice.clone()).await? {
                Some(whole) => {
                    if self.bytes_left > most / 2 {
                        self.slice_rows = (self.slice_rows * 2).min(SLICE_ROWS_MAX);
                    }
                    for (inner, count) in self.shape.inner.iter().zip(&self.counts) {
                        inner.count(*count);
                    }
                    let schema = self.shape.forms[0].schema.clone();
                    let options = RecordBatchOptions::new().with_row_count(Some(whole.len()));
                    let (_, columns, _) = whole.into_parts();
                    let batch = RecordBatch::try_new_with_options(schema, columns, &options);
                    return batch.map(Some).map_err(arrow_bug);
                }
                None if count > 1 => {
                    self.slice_rows = count / 2;
                    self.waiting.push(slice.slice(count / 2, count - count / 2));
                    self.waiting.push(slice.slice(0, count / 2));
                }
                None => {
                    return Err(Error::new(
                        ErrorKind::Refused,
                        format!(
                            "what belongs to one row takes more than {}, and is held until it is put into it",
                            Bytes(most)
                        ),
                    )
                    .hint("let the other tables have files of their own: leave --nested out"));
                }
            }
        }
        Ok(None)
    }

    /// Rows of `table` with all that is in them.
    fn nested(
        &mut self,
        table: usize,
        rows: RecordBatch,
    ) -> Pin<Box<dyn Future<Output = Result<Fitting>> + Send + '_>> {
        Box::pin(async move {
            let shape = Arc::clone(&self.shape);
            let form = &shape.forms[table];
            let mut columns: Vec<ArrayRef> = rows.columns()[..form.shown].to_vec();
            for (at, inner) in shape
                .inner
                .iter()
                .enumerate()
                .filter(|(_, inner)| inner.join.to == table)
            {
                let column = self.column(at, inner, &rows).await?;
                let Some(column) = column else { return Ok(None) };
                columns.push(column);
            }
            let fields = form.schema.fields().clone();
            StructArray::try_new_with_length(fields, columns, None, rows.num_rows())
                .map(Some)
                .map_err(arrow_bug)
        })
    }

    /// What `inner` has for each of `rows`; none where it is too much.
    async fn column(&mut self, at: usize, inner: &Inner, rows: &RecordBatch) -> Result<Option<ArrayRef>> {
        let near: Vec<ArrayRef> = inner
            .plan
            .key
            .iter()
            .map(|key| rows.column(key.source).clone())
            .collect();
        let (keys, places) = of_rows(&inner.key, &near, &inner.conversions)?;
        let key_at: Vec<usize> = (0..inner.key.fields().len()).collect();
        let converter: RowConverter = converter(&inner.key, &key_at)?;
        let keys = in_order(&converter, &keys)?;
        let Some(found) = self.all_of(at, inner, &keys.distinct).await? else {
            return Ok(None);
        };
        // The rows of each key.
        let mut starts = vec![0_u32; keys.distinct.num_rows() + 1];
        for key in &found.keys {
            starts[*key as usize + 1] += 1;
        }
        for key in 1..starts.len() {
            starts[key] += starts[key - 1];
        }
        let mut of_row: Vec<Option<u32>> = vec![None; rows.num_rows()];
        for (place, key) in places.values().iter().zip(keys.asked.iter().flatten()) {
            of_row[*place as usize] = Some(*key);
        }
        let bytes = found
            .rows
            .as_ref()
            .map_or(0, |rows| rows.get_array_memory_size() / rows.num_rows().max(1));
        let of_key = |key: &Option<u32>| match key {
            Some(key) => starts[*key as usize]..starts[*key as usize + 1],
            None => 0..0,
        };
        // Rows that several of the others have are there as often.
        let placed: usize = of_row.iter().map(|key| of_key(key).len()).sum();
        if !self.take(placed.saturating_sub(found.keys.len()).saturating_mul(bytes)) {
            return Ok(None);
        }
        let whole = match found.rows {
            Some(found) => match self.nested(inner.join.table, found).await? {
                Some(whole) => whole,
                None => return Ok(None),
            },
            None => {
                let fields = self.shape.forms[inner.join.table].schema.fields().clone();
                let columns = fields
                    .iter()
                    .map(|field| new_empty_array(field.data_type()))
                    .collect();
                StructArray::try_new_with_length(fields, columns, None, 0).map_err(arrow_bug)?
            }
        };
        let column: ArrayRef = match inner.join.one {
            true if starts.windows(2).any(|key| key[1] - key[0] > 1) => {
                return Err(Error::schema(format!(
                    "a row has more than one row of {} by {}, so they cannot be nested as one",
                    inner.plan.table.name,
                    inner
                        .key
                        .fields()
                        .iter()
                        .map(|field| field.name().as_str())
                        .collect::<Vec<_>>()
                        .join(", ")
                ))
                .hint("leave --nested out: each table then has a file of its own"));
            }
            true => Arc::new(parents(&whole, of_row.iter().map(|key| of_key(key).next()))?),
            false => Arc::new(children(&whole, of_row.iter().map(of_key))?),
        };
        Ok(Some(column))
    }

    /// Whether there is room for so many bytes, which are then taken.
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.bytes_left.checked_sub(bytes);
        self.bytes_left = left.unwrap_or(0);
        left.is_some()
    }

    /// All rows of `keys`; none where they are too many.
    async fn all_of(&mut self, at: usize, inner: &Inner, keys: &RecordBatch) -> Result<Option<Found>> {
        let mut answers: Vec<Answer> = Vec::new();
        for first in (0..keys.num_rows()).step_by(inner.plan.request_keys) {
            let some = keys.slice(first, inner.plan.request_keys.min(keys.num_rows() - first));
            let Some(answered) = self.asked(at, inner, &some).await? else {
                return Ok(None);
            };
            answers.extend(answered.into_iter().map(|answer| Answer {
                keys: answer.keys.unary(|key| key + first as u32),
                ..answer
            }));
        }
        let schema = match answers.first() {
            Some(answer) => answer.rows.schema(),
            None => {
                self.counts[at].asked += keys.num_rows();
                return Ok(Some(Found {
                    rows: None,
                    keys: Vec::new(),
                }));
            }
        };
        let rows = concat_batches(&schema, answers.iter().map(|answer| &answer.rows)).map_err(arrow_bug)?;
        let mut keys_of: Vec<u32> = answers
            .iter()
            .flat_map(|answer| answer.keys.values())
            .copied()
            .collect();
        let rows = match keys_of.is_sorted() {
            true => rows,
            false => {
                let mut order: Vec<u32> = (0..keys_of.len() as u32).collect();
                order.sort_by_key(|row| keys_of[*row as usize]);
                keys_of.sort_unstable();
                take_record_batch(&rows, &UInt32Array::from(order)).map_err(arrow_bug)?
            }
        };
        if keys_of
            .last()
            .is_some_and(|last| *last as usize >= keys.num_rows())
        {
            return Err(Error::bug("a row of a key that was not asked"));
        }
        let found = keys_of.chunk_by(|a, b| a == b).count();
        let count = &mut self.counts[at];
        count.asked += keys.num_rows();
        count.found += found;
        count.rows += keys_of.len();
        Ok(Some(Found {
            rows: Some(rows),
            keys: keys_of,
        }))
    }

    /// The answer to one question, asked again where it is lost; none where it is too much.
    async fn asked(&mut self, at: usize, inner: &Inner, keys: &RecordBatch) -> Result<Option<Vec<Answer>>> {
        let left = self.bytes_left;
        for attempt in 1.. {
            self.bytes_left = left;
            inner.nested.requests.fetch_add(1, Ordering::Relaxed);
            match self.attempt(at, inner, keys).await {
                Err(error) if error.is_transient() && attempt < ATTEMPTS_MAX => {
                    self.getters[at] = None;
                    inner.nested.retries.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!("attempt {attempt} of {ATTEMPTS_MAX}: {error}");
                    tokio::time::sleep(pause(attempt)).await;
                }
                answered => return answered,
            }
        }
        Err(Error::bug("there was no last attempt"))
    }

    async fn attempt(&mut self, at: usize, inner: &Inner, keys: &RecordBatch) -> Result<Option<Vec<Answer>>> {
        let mut getter = match self.getters[at].take() {
            Some(getter) => getter,
            None => inner.getters.open().await?,
        };
        let mut answers = Vec::new();
        getter.ask(keys).await?;
        while let Some(answer) = getter.next().await? {
            if !self.take(answer.rows.get_array_memory_size()) {
                // What is left of the answer is dropped with the next question.
                self.getters[at] = Some(getter);
                return Ok(None);
            }
            answers.push(answer);
        }
        self.getters[at] = Some(getter);
        Ok(Some(answers))
    }
}

impl Inner {
    fn count(&self, count: Count) {
        self.nested.asked.fetch_add(count.asked as u64, Ordering::Relaxed);
        self.nested.found.fetch_add(count.found as u64, Ordering::Relaxed);
        self.nested.rows.fetch_add(count.rows as u64, Ordering::Relaxed);
    }
}

/// One of `rows` or none for each.
fn parents(rows: &StructArray, places: impl Iterator<Item = Option<u32>>) -> Result<StructArray> {
    let places: UInt32Array = places.collect();
    let columns = rows.columns().iter().map(|column| take(column, &places, None));
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(arrow_bug)?;
    let there = NullBuffer::from_iter((0..places.len()).map(|at| places.is_valid(at)));
    StructArray::try_new(rows.fields().clone(), columns, Some(there)).map_err(arrow_bug)
}

/// A list of `rows` for each.
fn children(rows: &StructArray, ranges: impl Iterator<Item = std::ops::Range<u32>>) -> Result<ListArray> {
    let (mut places, mut offsets) = (Vec::new(), vec![0_i32]);
    for range in ranges {
        places.extend(range);
        let end = i32::try_from(places.len()).map_err(|_| Error::bug("a list outgrew its offsets"))?;
        offsets.push(end);
    }
    let values: ArrayRef = match places.iter().copied().eq(0..rows.len() as u32) {
        true => Arc::new(rows.clone()),
        false => take(rows, &UInt32Array::from(places), None).map_err(arrow_bug)?,
    };
    let DataType::List(item) = list_of(rows.fields().clone()) else {
        return Err(Error::bug("a list is none"));
    };
    ListArray::try_new(item, OffsetBuffer::new(ScalarBuffer::from(offsets)), values, None).map_err(arrow_bug)
}
