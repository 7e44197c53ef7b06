//! Keys out of a source: read, brought to the types of their columns, cut into requests.
//!
//! Without an order to keep, all keys are sorted and each is asked once; what does not fit in memory is spilled. With
//! it, a request is the next keys as they come, and each is asked once a request.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use arrow::{
    array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array},
    compute::{concat_batches, filter_record_batch, take_record_batch},
    datatypes::SchemaRef,
    row::{OwnedRow, RowConverter},
};
use tokio::sync::mpsc;
use tonnage_core::{
    convert::Conversion,
    error::{Error, ErrorKind, Result, arrow_bug},
    parse::ParseContext,
    reader::{BeyondArrow, ReadColumn},
    reject::Problems,
    source::{ReadRequest, Source, SourceColumn},
    spill::{MergedBounds, Sorter, converter},
};

use super::plan::GetPlan;

/// Keys of a block, and of a merged batch.
const BLOCK_KEYS: usize = 65_536;
/// Source bytes of a block.
const BLOCK_BYTES: usize = 8 << 20;

/// What has been read so far.
#[derive(Debug, Default)]
pub struct Counted {
    /// Keys read, repeated ones too.
    pub asked: AtomicU64,
    /// Keys that differ; of ordered gets, those that differ within their request.
    pub distinct: AtomicU64,
}

/// Keys that are asked at once.
#[derive(Debug, Clone)]
pub struct Keys {
    /// The keys, each once, in key order.
    pub distinct: RecordBatch,
    /// Where the order matters: for every key asked its place in `distinct`.
    pub asked: Option<Vec<u32>>,
}

/// Where keys come from.
enum KeysOf {
    /// Whatever somebody wants to know, and what brings each of its columns to the key's type: none where it yields
    /// that itself.
    Source(Box<dyn Source>, Vec<Option<Conversion>>),
    /// Columns of rows of another table.
    Rows(mpsc::Receiver<RecordBatch>, Vec<Conversion>),
}

/// Reads keys.
pub struct KeyReader {
    from: KeysOf,
    schema: SchemaRef,
    names: Vec<String>,
    counted: Arc<Counted>,
}

/// How columns of rows of another table, which has the columns `near`, become the keys of `plan`.
pub fn conversions(plan: &GetPlan, near: &[ReadColumn], context: &ParseContext) -> Result<Vec<Conversion>> {
    let conversion = |key: &super::KeyColumn| {
        let (near, column) = (&near[key.source], &plan.table.columns[key.target]);
        let from = SourceColumn {
            beyond_arrow: BeyondArrow::Refused,
            name: near.name.clone(),
            arrow: near.ty.arrow(),
            suggested: Some(near.ty),
            nullable: near.nullable,
            null_word: None,
        };
        Conversion::plan(&from, column, key.ty, context)
    };
    plan.key.iter().map(conversion).collect()
}

/// The keys that rows of another table have, and the place of each one's row: without those that have a null in them or
/// are no values of their column, which no row has. `columns` are the columns that `conversions` are for.
pub fn of_rows(
    schema: &SchemaRef,
    columns: &[ArrayRef],
    conversions: &[Conversion],
) -> Result<(RecordBatch, UInt32Array)> {
    let mut problems = Problems::default();
    let mut arrays = Vec::with_capacity(columns.len());
    for (array, conversion) in columns.iter().zip(conversions) {
        arrays.push(conversion.apply(array, &mut problems)?);
    }
    let all = RecordBatch::try_new(schema.clone(), arrays).map_err(arrow_bug)?;
    // What is no value of the column has become null.
    let keep: Vec<bool> = (0..all.num_rows())
        .map(|row| all.columns().iter().all(|column| column.is_valid(row)))
        .collect();
    let places = (0..keep.len() as u32).filter(|at| keep[*at as usize]);
    let places = UInt32Array::from_iter_values(places);
    if places.len() == all.num_rows() {
        return Ok((all, places));
    }
    let kept = filter_record_batch(&all, &BooleanArray::from(keep)).map_err(arrow_bug)?;
    Ok((kept, places))
}

impl KeyReader {
    /// `Schema` where no value of a source column could be one of the key's.
    pub fn new(
        mut source: Box<dyn Source>,
        plan: &GetPlan,
        context: &ParseContext,
        counted: Arc<Counted>,
    ) -> Result<Self> {
        let is_text = source.schema().text;
        let conversions = plan.key.iter().map(|key| {
            let (from, to) = (
                &source.schema().columns[key.source],
                &plan.table.columns[key.target],
            );
            match is_text {
                true => Ok(None),
                false => Conversion::plan(from, to, key.ty, context).map(Some),
            }
        });
        let conversions = conversions.collect::<Result<_>>()?;
        source.request(&ReadRequest {
            columns: plan.key.iter().map(|key| (key.source, key.ty)).collect(),
            block_rows: BLOCK_KEYS,
            block_bytes: BLOCK_BYTES,
        })?;
        Ok(Self {
            from: KeysOf::Source(source, conversions),
            schema: plan.key_schema(),
            names: plan.key.iter().map(|key| key.name.clone()).collect(),
            counted,
        })
    }

    /// Of the columns that rows of another table have for `plan`, which has the columns `near`.
    pub fn of_rows(
        rows: mpsc::Receiver<RecordBatch>,
        near: &[ReadColumn],
        plan: &GetPlan,
        context: &ParseContext,
        counted: Arc<Counted>,
    ) -> Result<Self> {
        Ok(Self {
            from: KeysOf::Rows(rows, conversions(plan, near, context)?),
            schema: plan.key_schema(),
            names: plan.key.iter().map(|key| key.name.clone()).collect(),
            counted,
        })
    }

    /// The next keys in the order of the source. A key that cannot be one of its columns is an error.
    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        let (source, conversions) = match &mut self.from {
            KeysOf::Source(source, conversions) => (source, conversions),
            KeysOf::Rows(rows, conversions) => {
                let Some(rows) = rows.blocking_recv() else {
                    return Ok(None);
                };
                let (keys, _) = of_rows(&self.schema, rows.columns(), conversions)?;
                self.counted
                    .asked
                    .fetch_add(keys.num_rows() as u64, Ordering::Relaxed);
                return Ok(Some(keys));
            }
        };
        let Some(block) = source.next()? else {
            return Ok(None);
        };
        let mut problems = Problems::default();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(conversions.len());
        for (array, conversion) in block.rows.columns().iter().zip(conversions) {
            columns.push(match conversion {
                Some(conversion) => conversion.apply(array, &mut problems)?,
                None => array.clone(),
            });
        }
        let unread = block.rejects.iter().min_by_key(|reject| reject.row);
        let unread = unread.map(|reject| (reject.file.clone(), reject.row, &reject.problem));
        let unfit = problems.iter().next();
        let unfit = unfit.map(|(row, problem)| (block.origin.file(row), block.origin.row(row), problem));
        if let Some((file, row, problem)) = unread.into_iter().chain(unfit).min_by_key(|(_, row, _)| *row) {
            let column = problem.column.as_ref().or(match self.names.as_slice() {
                [only] => Some(only),
                _ => None,
            });
            let place = match column {
                Some(column) => format!("{file} row {row}, column '{column}'"),
                None => format!("{file} row {row}"),
            };
            let error = Error::new(ErrorKind::Rejected, &problem.message).at(place);
            let hint = problem.hint.as_deref();
            return Err(error
                .code(&problem.code)
                .hint(hint.unwrap_or("a key of another type can have no row: take it out of the keys")));
        }
        let keys = RecordBatch::try_new(self.schema.clone(), columns).map_err(arrow_bug)?;
        self.counted
            .asked
            .fetch_add(keys.num_rows() as u64, Ordering::Relaxed);
        Ok(Some(keys))
    }

    /// Reads all keys and hands them to `send` in requests, until it says that nobody wants more.
    pub fn requests(mut self, plan: &GetPlan, send: &mut dyn FnMut(Keys) -> bool) -> Result<()> {
        match plan.ordered {
            true => self.as_asked(plan, send),
            false => self.sorted(plan, send),
        }
    }

    fn sorted(&mut self, plan: &GetPlan, send: &mut dyn FnMut(Keys) -> bool) -> Result<()> {
        let key_at: Vec<usize> = (0..self.schema.fields().len()).collect();
        let mut sorter = Sorter::new(self.schema.clone(), key_at.clone(), plan.sort_bytes_max)?;
        while let Some(keys) = self.next()? {
            if keys.num_rows() > 0 {
                sorter.push(keys)?;
            }
        }
        let mut merge = sorter.finish(MergedBounds {
            rows_max: BLOCK_KEYS,
            bytes_max: BLOCK_BYTES,
        })?;
        let mut distinct = Distinct {
            converter: converter(&self.schema, &key_at)?,
            last: None,
        };
        // What does not fill a request waits for more.
        let mut rest = RecordBatch::new_empty(self.schema.clone());
        while let Some(keys) = merge.next_rows()? {
            let keys = distinct.of(&keys)?;
            self.counted
                .distinct
                .fetch_add(keys.num_rows() as u64, Ordering::Relaxed);
            let keys = concat_batches(&self.schema, [&rest, &keys]).map_err(arrow_bug)?;
            let mut at = 0;
            while keys.num_rows() - at >= plan.request_keys {
                let distinct = keys.slice(at, plan.request_keys);
                if !send(Keys {
                    distinct,
                    asked: None,
                }) {
                    return Ok(());
                }
                at += plan.request_keys;
            }
            rest = keys.slice(at, keys.num_rows() - at);
        }
        if rest.num_rows() > 0 {
            send(Keys {
                distinct: rest,
                asked: None,
            });
        }
        Ok(())
    }

    fn as_asked(&mut self, plan: &GetPlan, send: &mut dyn FnMut(Keys) -> bool) -> Result<()> {
        let key_at: Vec<usize> = (0..self.schema.fields().len()).collect();
        let converter = converter(&self.schema, &key_at)?;
        while let Some(keys) = self.next()? {
            let mut at = 0;
            while at < keys.num_rows() {
                let count = plan.request_keys.min(keys.num_rows() - at);
                let request = in_order(&converter, &keys.slice(at, count))?;
                self.counted
                    .distinct
                    .fetch_add(request.distinct.num_rows() as u64, Ordering::Relaxed);
                if !send(request) {
                    return Ok(());
                }
                at += count;
            }
        }
        Ok(())
    }
}

/// Each key once, and where each that was asked is among them.
pub fn in_order(converter: &RowConverter, keys: &RecordBatch) -> Result<Keys> {
    let rows = converter.convert_columns(keys.columns()).map_err(arrow_bug)?;
    let mut order: Vec<u32> = (0..keys.num_rows() as u32).collect();
    order.sort_by(|a, b| rows.row(*a as usize).cmp(&rows.row(*b as usize)));
    let mut firsts: Vec<u32> = Vec::with_capacity(order.len());
    let mut asked = vec![0; order.len()];
    for row in order {
        let is_new = firsts
            .last()
            .is_none_or(|last| rows.row(*last as usize) != rows.row(row as usize));
        if is_new {
            firsts.push(row);
        }
        asked[row as usize] = firsts.len() as u32 - 1;
    }
    Ok(Keys {
        distinct: take_record_batch(keys, &UInt32Array::from(firsts)).map_err(arrow_bug)?,
        asked: Some(asked),
    })
}

/// Takes repeated keys out of sorted ones.
struct Distinct {
    converter: RowConverter,
    /// The last key of the batches before.
    last: Option<OwnedRow>,
}

impl Distinct {
    fn of(&mut self, keys: &RecordBatch) -> Result<RecordBatch> {
        let rows = self
            .converter
            .convert_columns(keys.columns())
            .map_err(arrow_bug)?;
        let is_new = |row: usize| match row {
            0 => self.last.as_ref().is_none_or(|last| last.row() != rows.row(row)),
            _ => rows.row(row - 1) != rows.row(row),
        };
        let firsts: Vec<u32> = (0..rows.num_rows())
            .filter(|row| is_new(*row))
            .map(|row| row as u32)
            .collect();
        if rows.num_rows() > 0 {
            self.last = Some(rows.row(rows.num_rows() - 1).owned());
        }
        if firsts.len() == keys.num_rows() {
            return Ok(keys.clone());
        }
        take_record_batch(keys, &UInt32Array::from(firsts)).map_err(arrow_bug)
    }
}
