//! Arrow columns in the server's binary form, for COPY and for array parameters alike: a field is four bytes of length
//! (-1 for null) and the value.
//!
//! Work goes column by column within a chunk of rows: every column adds the size of its fields, then every column
//! writes its fields where its row has come to. So a value's type is looked at once a column and chunk. `write` may
//! only follow `measure` of the same rows: `measure` finds every value that cannot be sent.

use std::ops::{Range, RangeInclusive};

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, FixedSizeBinaryArray,
        PrimitiveArray, RecordBatch, StringArray,
    },
    buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
    datatypes::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
        Time64MicrosecondType, TimestampMicrosecondType,
    },
};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reject::sqlstate,
    types::ColumnType,
};

use super::{
    carry::Cast,
    numeric::{self, NotExact},
    spelling::Spelling,
    types::{ServerType, oid},
};

/// A value that cannot be sent as it is.
#[derive(Debug)]
pub(super) struct Fault {
    /// The row, counted from the front of the batch.
    pub row: usize,
    /// SQLSTATE.
    pub code: &'static str,
    /// One line.
    pub message: String,
}

/// Whether values can be sent.
pub(super) type Checked = std::result::Result<(), Fault>;

/// One column of a batch, ready to be written.
pub(super) trait Field: Send {
    /// Adds what each row's field takes to `sizes`, and refuses what cannot be sent.
    fn measure(&mut self, rows: Range<usize>, sizes: &mut [usize]) -> Checked;

    /// Writes each row's field at `at` and moves `at` behind it.
    fn write(&self, rows: Range<usize>, out: &mut [u8], at: &mut [usize]);

    /// Whether there are nulls.
    fn has_nulls(&self) -> bool;
}

const LENGTH_BYTES: usize = 4;
const NULL_LENGTH: [u8; LENGTH_BYTES] = (-1i32).to_be_bytes();

fn put_null(out: &mut [u8], at: &mut usize) {
    out[*at..*at + LENGTH_BYTES].copy_from_slice(&NULL_LENGTH);
    *at += LENGTH_BYTES;
}

fn put(out: &mut [u8], at: &mut usize, value: &[u8]) {
    out[*at..*at + LENGTH_BYTES].copy_from_slice(&(value.len() as u32).to_be_bytes());
    *at += LENGTH_BYTES;
    out[*at..*at + value.len()].copy_from_slice(value);
    *at += value.len();
}

/// Values of a fixed size. `convert` gives none for a value that the server has no equal of.
struct Fixed<T: arrow::datatypes::ArrowNativeType, const N: usize, F> {
    values: ScalarBuffer<T>,
    nulls: Option<NullBuffer>,
    convert: F,
    refusal: (&'static str, &'static str),
}

impl<T, const N: usize, F> Field for Fixed<T, N, F>
where
    T: arrow::datatypes::ArrowNativeType + std::fmt::Display,
    F: Fn(T) -> Option<[u8; N]> + Send,
{
    fn measure(&mut self, rows: Range<usize>, sizes: &mut [usize]) -> Checked {
        let values = &self.values[rows.clone()];
        let refused = |at: usize, value: T| Fault {
            row: rows.start + at,
            code: self.refusal.0,
            message: format!("{} ({value})", self.refusal.1),
        };
        match &self.nulls {
            None => {
                sizes.iter_mut().for_each(|size| *size += LENGTH_BYTES + N);
                if let Some(at) = values.iter().position(|value| (self.convert)(*value).is_none()) {
                    return Err(refused(at, values[at]));
                }
            }
            Some(nulls) => {
                for (at, (value, size)) in values.iter().zip(sizes).enumerate() {
                    let valid = nulls.is_valid(rows.start + at);
                    *size += LENGTH_BYTES + if valid { N } else { 0 };
                    if valid && (self.convert)(*value).is_none() {
                        return Err(refused(at, *value));
                    }
                }
            }
        }
        Ok(())
    }

    fn write(&self, rows: Range<usize>, out: &mut [u8], at: &mut [usize]) {
        let values = &self.values[rows.clone()];
        let put = |value: T, at: &mut usize, out: &mut [u8]| {
            let field = &mut out[*at..*at + LENGTH_BYTES + N];
            field[..LENGTH_BYTES].copy_from_slice(&(N as u32).to_be_bytes());
            // None was refused by `measure`.
            field[LENGTH_BYTES..].copy_from_slice(&(self.convert)(value).unwrap_or([0; N]));
            *at += LENGTH_BYTES + N;
        };
        match &self.nulls {
            None => values.iter().zip(at).for_each(|(value, at)| put(*value, at, out)),
            Some(nulls) => {
                for ((row, value), at) in rows.zip(values).zip(at) {
                    if nulls.is_valid(row) {
                        put(*value, at, out);
                    } else {
                        put_null(out, at);
                    }
                }
            }
        }
    }

    fn has_nulls(&self) -> bool {
        self.nulls.is_some()
    }
}

/// Booleans.
struct Bools(BooleanArray);

impl Field for Bools {
    fn measure(&mut self, rows: Range<usize>, sizes: &mut [usize]) -> Checked {
        for (row, size) in rows.zip(sizes) {
            *size += LENGTH_BYTES + usize::from(self.0.is_valid(row));
        }
        Ok(())
    }

    fn write(&self, rows: Range<usize>, out: &mut [u8], at: &mut [usize]) {
        for (row, at) in rows.zip(at) {
            if self.0.is_valid(row) {
                put(out, at, &[u8::from(self.0.value(row))]);
            } else {
                put_null(out, at);
            }
        }
    }

    fn has_nulls(&self) -> bool {
        self.0.null_count() > 0
    }
}

/// Uuids.
struct Uuids(FixedSizeBinaryArray);

const UUID_BYTES: usize = 16;

impl Field for Uuids {
    fn measure(&mut self, rows: Range<usize>, sizes: &mut [usize]) -> Checked {
        for (row, size) in rows.zip(sizes) {
            *size += LENGTH_BYTES + if self.0.is_valid(row) { UUID_BYTES } else { 0 };
        }
        Ok(())
    }

    fn write(&self, rows: Range<usize>, out: &mut [u8], at: &mut [usize]) {
        for (row, at) in rows.zip(at) {
            if self.0.is_valid(row) {
                put(out, at, self.0.value(row));
            } else {
                put_null(out, at);
            }
        }
    }

    fn has_nulls(&self) -> bool {
        self.0.null_count() > 0
    }
}

/// Text and bytes, sent as they are.
struct Bytes {
    offsets: OffsetBuffer<i32>,
    values: Buffer,
    nulls: Option<NullBuffer>,
    /// The most characters, for varchar: the server would cut excess spaces off without a word.
    chars_max: Option<usize>,
}

impl Bytes {
    fn value(&self, row: usize) -> &[u8] {
        &self.values[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

fn too_long(value: &[u8], chars_max: usize) -> bool {
    // A character is at least a byte, so most values need not be counted.
    value.len() > chars_max && value.iter().filter(|byte| (**byte & 0xc0) != 0x80).count() > chars_max
}

impl Field for Bytes {
    fn measure(&mut self, rows: Range<usize>, sizes: &mut [usize]) -> Checked {
        let offsets = &self.offsets[rows.start..=rows.end];
        match &self.nulls {
            None => {
                for (size, pair) in sizes.iter_mut().zip(offsets.windows(2)) {
                    *size += LENGTH_BYTES + (pair[1] - pair[0]) as usize;
                }
            }
            Some(nulls) => {
                for ((row, size), pair) in rows.clone().zip(sizes).zip(offsets.windows(2)) {
                    let length = if nulls.is_valid(row) {
                        (pair[1] - pair[0]) as usize
                    } else {
                        0
                    };
                    *size += LENGTH_BYTES + length;
                }
            }
        }
        let Some(chars_max) = self.chars_max else {
            return Ok(());
        };
        for row in rows {
            let valid = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            if valid && too_long(self.value(row), chars_max) {
                return Err(Fault {
                    row,
                    code: sqlstate::TOO_LONG,
                    message: format!("value too long for type character varying({chars_max})"),
                });
            }
        }
        Ok(())
    }

    fn write(&self, rows: Range<usize>, out: &mut [u8], at: &mut [usize]) {
        match &self.nulls {
            None => rows.zip(at).for_each(|(row, at)| put(out, at, self.value(row))),
            Some(nulls) => {
                for (row, at) in rows.zip(at) {
                    if nulls.is_valid(row) {
                        put(out, at, self.value(row));
                    } else {
                        put_null(out, at);
                    }
                }
            }
        }
    }

    fn has_nulls(&self) -> bool {
        self.nulls.is_some()
    }
}

/// Values whose form must be worked out to know their size: `measure` keeps whole fields, `write` copies them.
struct Prepared<A, F> {
    values: A,
    prepare: F,
    fields: Vec<u8>,
    ends: Vec<usize>,
}

impl<A, F> Prepared<A, F> {
    fn new(values: A, prepare: F) -> Self {
        Self {
            values,
            prepare,
            fields: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl<A, F> Field for Prepared<A, F>
where
    A: Array,
    F: Fn(&A, usize, &mut Vec<u8>) -> std::result::Result<(), NotExact> + Send,
{
    fn measure(&mut self, rows: Range<usize>, sizes: &mut [usize]) -> Checked {
        self.fields.clear();
        self.ends.clear();
        for (row, size) in rows.zip(sizes) {
            let start = self.fields.len();
            self.fields.extend_from_slice(&NULL_LENGTH);
            if self.values.is_valid(row) {
                (self.prepare)(&self.values, row, &mut self.fields).map_err(|refused| Fault {
                    row,
                    code: refused.code,
                    message: refused.message,
                })?;
                let length = (self.fields.len() - start - LENGTH_BYTES) as u32;
                self.fields[start..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
            }
            *size += self.fields.len() - start;
            self.ends.push(self.fields.len());
        }
        Ok(())
    }

    fn write(&self, _rows: Range<usize>, out: &mut [u8], at: &mut [usize]) {
        let mut start = 0;
        for (end, at) in self.ends.iter().zip(at) {
            let field = &self.fields[start..*end];
            out[*at..*at + field.len()].copy_from_slice(field);
            *at += field.len();
            start = *end;
        }
    }

    fn has_nulls(&self) -> bool {
        self.values.null_count() > 0
    }
}

/// The row's number in the batch: the order of rows, for the server to see.
struct Ordinal;

impl Field for Ordinal {
    fn measure(&mut self, _rows: Range<usize>, sizes: &mut [usize]) -> Checked {
        sizes.iter_mut().for_each(|size| *size += LENGTH_BYTES + 4);
        Ok(())
    }

    fn write(&self, rows: Range<usize>, out: &mut [u8], at: &mut [usize]) {
        for (row, at) in rows.zip(at) {
            put(out, at, &(row as u32).to_be_bytes());
        }
    }

    fn has_nulls(&self) -> bool {
        false
    }
}

/// Days between 1970-01-01 and 2000-01-01, where the server's dates begin.
pub(super) const EPOCH_DAYS: i32 = 10_957;
/// The same in microseconds.
pub(super) const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// Dates that the server takes, in days from 2000-01-01: from the first Julian day to the end of the year 5874897.
const DATES: Range<i32> = -2_451_545..2_145_031_949;
/// Timestamps likewise, in microseconds, to the end of the year 294276.
const TIMESTAMPS: Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;
/// Times likewise; the end of the day is one.
const TIMES: RangeInclusive<i64> = 0..=86_400_000_000;

const MONEY_RANGE: (&str, &str) = (sqlstate::OUT_OF_RANGE, "value out of range for type money");
const DATE_RANGE: (&str, &str) = (sqlstate::DATETIME_OVERFLOW, "date out of range");
const TIME_RANGE: (&str, &str) = (
    sqlstate::DATETIME_OVERFLOW,
    "time out of range, or finer than the column",
);
const TIMESTAMP_RANGE: (&str, &str) = (
    sqlstate::DATETIME_OVERFLOW,
    "timestamp out of range, or finer than the column",
);
const NEVER: (&str, &str) = (sqlstate::WOULD_CHANGE, "value cannot be sent");

fn fixed<T: ArrowPrimitiveType, const N: usize>(
    array: &PrimitiveArray<T>,
    refusal: (&'static str, &'static str),
    convert: impl Fn(T::Native) -> Option<[u8; N]> + Send + 'static,
) -> Box<dyn Field>
where
    T::Native: std::fmt::Display,
{
    Box::new(Fixed {
        values: array.values().clone(),
        nulls: array.nulls().filter(|nulls| nulls.null_count() > 0).cloned(),
        convert,
        refusal,
    })
}

fn bytes(array: &ArrayRef, chars_max: Option<usize>) -> Option<Box<dyn Field>> {
    let (offsets, values) = match array.as_string_opt::<i32>() {
        Some(text) => (text.offsets().clone(), text.values().clone()),
        None => {
            let binary = array.as_binary_opt::<i32>()?;
            (binary.offsets().clone(), binary.values().clone())
        }
    };
    Some(Box::new(Bytes {
        offsets,
        values,
        nulls: array.nulls().filter(|nulls| nulls.null_count() > 0).cloned(),
        chars_max,
    }))
}

fn field(array: &ArrayRef, ty: ColumnType, server: ServerType) -> Option<Box<dyn Field>> {
    let scale = server.precision_scale().map(|(_, scale)| scale);
    Some(match (server.oid, ty) {
        (oid::BOOL, ColumnType::Bool) => Box::new(Bools(array.as_boolean_opt()?.clone())),
        (oid::INT2, ColumnType::Int16) => fixed(array.as_primitive_opt::<Int16Type>()?, NEVER, |v| {
            Some(v.to_be_bytes())
        }),
        (oid::INT4, ColumnType::Int32) => fixed(array.as_primitive_opt::<Int32Type>()?, NEVER, |v| {
            Some(v.to_be_bytes())
        }),
        (oid::INT8, ColumnType::Int64) => fixed(array.as_primitive_opt::<Int64Type>()?, NEVER, |v| {
            Some(v.to_be_bytes())
        }),
        (oid::FLOAT4, ColumnType::Float32) => fixed(array.as_primitive_opt::<Float32Type>()?, NEVER, |v| {
            Some(v.to_be_bytes())
        }),
        (oid::FLOAT8, ColumnType::Float64) => fixed(array.as_primitive_opt::<Float64Type>()?, NEVER, |v| {
            Some(v.to_be_bytes())
        }),
        (oid::DATE, ColumnType::Date) => fixed(array.as_primitive_opt::<Date32Type>()?, DATE_RANGE, |days| {
            // The ends of time are the server's, too.
            if matches!(days, i32::MAX | i32::MIN) {
                return Some(days.to_be_bytes());
            }
            let days = days.checked_sub(EPOCH_DAYS).filter(|days| DATES.contains(days))?;
            Some(days.to_be_bytes())
        }),
        (oid::TIME, ColumnType::Time) => {
            let tick = server.tick();
            fixed(
                array.as_primitive_opt::<Time64MicrosecondType>()?,
                TIME_RANGE,
                move |micros| (micros % tick == 0 && TIMES.contains(&micros)).then(|| micros.to_be_bytes()),
            )
        }
        (oid::TIMESTAMP, ColumnType::Timestamp) | (oid::TIMESTAMPTZ, ColumnType::TimestampTz) => {
            let tick = server.tick();
            let array = array.as_primitive_opt::<TimestampMicrosecondType>()?;
            fixed(array, TIMESTAMP_RANGE, move |micros| {
                if matches!(micros, i64::MAX | i64::MIN) {
                    return Some(micros.to_be_bytes());
                }
                let since = micros
                    .checked_sub(EPOCH_MICROS)
                    .filter(|micros| TIMESTAMPS.contains(micros))?;
                (micros % tick == 0).then(|| since.to_be_bytes())
            })
        }
        // The binary form counts the smallest units, as a decimal of that scale does.
        (oid::MONEY, ColumnType::Decimal { scale: own, .. }) if i32::from(own) == server.modifier => fixed(
            array.as_primitive_opt::<Decimal128Type>()?,
            MONEY_RANGE,
            |units| Some(i64::try_from(units).ok()?.to_be_bytes()),
        ),
        (oid::NUMERIC, ColumnType::Decimal { scale: own, .. }) => {
            let values = array.as_primitive_opt::<Decimal128Type>()?.clone();
            let limit = scale.filter(|limit| *limit < i32::from(own));
            Box::new(Prepared::new(
                values,
                move |values: &Decimal128Array, row: usize, out: &mut Vec<u8>| {
                    let value = values.value(row);
                    if let Some(limit) = limit {
                        numeric::unscaled_keeps(value, own, limit)?;
                    }
                    numeric::from_unscaled(value, own, out);
                    Ok(())
                },
            ))
        }
        (oid::NUMERIC, ColumnType::Numeric) => Box::new(Prepared::new(
            array.as_string_opt::<i32>()?.clone(),
            move |values: &StringArray, row: usize, out: &mut Vec<u8>| {
                numeric::from_text(values.value(row), scale, out)
            },
        )),
        (oid::VARCHAR, ColumnType::Text { .. }) => {
            let limit = match server.column_type() {
                Some(ColumnType::Text { chars_max }) => chars_max,
                _ => None,
            };
            bytes(array, limit.map(|limit| limit as usize))?
        }
        (oid::TEXT | oid::BPCHAR, ColumnType::Text { .. } | ColumnType::Char { .. })
        | (oid::BYTEA, ColumnType::Bytes)
        | (oid::JSON, ColumnType::Json) => bytes(array, None)?,
        (oid::JSONB, ColumnType::Json) => Box::new(Prepared::new(
            array.as_string_opt::<i32>()?.clone(),
            |values: &StringArray, row: usize, out: &mut Vec<u8>| {
                // The version of the binary form.
                out.push(1);
                out.extend_from_slice(values.value(row).as_bytes());
                Ok(())
            },
        )),
        (oid::UUID, ColumnType::Uuid) => Box::new(Uuids(array.as_fixed_size_binary_opt()?.clone())),
        _ => return None,
    })
}

/// Text that is to be written in the way of its type.
fn spelled(array: &ArrayRef, spelling: &Spelling) -> Option<Box<dyn Field>> {
    let spelling = spelling.clone();
    Some(Box::new(Prepared::new(
        array.as_string_opt::<i32>()?.clone(),
        move |values: &StringArray, row: usize, out: &mut Vec<u8>| {
            let mut text = String::new();
            spelling
                .write(values.value(row), &mut text)
                .map_err(|fault| NotExact {
                    code: fault.code,
                    message: fault.message,
                })?;
            out.extend_from_slice(text.as_bytes());
            Ok(())
        },
    )))
}

/// A column that will be written: its name for messages, and its type on both sides.
#[derive(Debug, Clone)]
pub(super) struct EncodedColumn {
    /// Its name.
    pub name: String,
    /// What arrives.
    pub ty: ColumnType,
    /// What the server takes: the column's own type, or text.
    pub server: ServerType,
    /// How the server makes a value of text, where it takes text.
    pub cast: Option<Cast>,
}

impl EncodedColumn {
    /// Object id of what the server takes.
    pub fn taken(&self) -> u32 {
        match self.cast {
            Some(_) => oid::TEXT,
            None => self.server.oid,
        }
    }
}

/// Whether rows are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// They have nothing but their columns.
    None,
    /// Their number comes behind their columns.
    Last,
}

/// A batch being encoded.
pub(super) struct Encoder {
    fields: Vec<Box<dyn Field>>,
    rows: usize,
    sizes: Vec<usize>,
    rows_per_chunk: usize,
}

/// A fault and the index of its column.
pub(super) type ColumnFault = (usize, Fault);

/// Start of a binary COPY: signature, flags, length of the header's extension.
const COPY_HEADER: &[u8; 19] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// End of a binary COPY.
const COPY_TRAILER: [u8; 2] = (-1i16).to_be_bytes();

/// Bytes of a chunk, about: large enough to be cheap to send, small enough to stay in the processor's cache.
const CHUNK_BYTES: usize = 256 << 10;
/// Rows of a chunk at most.
const CHUNK_ROWS_MAX: usize = 8192;

impl Encoder {
    /// Chooses an encoder for each column.
    pub fn new(batch: &RecordBatch, columns: &[EncodedColumn], ordinal: Numbering) -> Result<Self> {
        if batch.num_columns() != columns.len() {
            return Err(Error::bug(format!(
                "a batch has {} columns where the plan has {}",
                batch.num_columns(),
                columns.len()
            )));
        }
        let mut fields = Vec::with_capacity(columns.len() + 1);
        for (array, column) in batch.columns().iter().zip(columns) {
            // The scale of a decimal and the zone of a timestamp are in the Arrow type alone.
            let expected = Some(array).filter(|array| *array.data_type() == column.ty.arrow());
            let spelling = column.cast.as_ref().map(|cast| &cast.spelling);
            let field = expected.and_then(|array| match spelling.filter(|spelling| !spelling.is_free()) {
                Some(spelling) => spelled(array, spelling),
                None => field(array, column.ty, column.server),
            });
            fields.push(field.ok_or_else(|| {
                Error::bug(format!(
                    "column '{}' of type {} arrived as Arrow {}",
                    column.name,
                    column.ty,
                    array.data_type()
                ))
            })?);
        }
        if ordinal == Numbering::Last {
            fields.push(Box::new(Ordinal));
        }
        let rows = batch.num_rows();
        // Of the slice: a write is often a small part of a block, whose buffers it shares.
        let slice_bytes: usize = batch
            .columns()
            .iter()
            .map(|array| array.to_data().get_slice_memory_size().unwrap_or(CHUNK_BYTES))
            .sum();
        let row_bytes = slice_bytes / rows.max(1) + fields.len() * LENGTH_BYTES + 2;
        Ok(Self {
            fields,
            rows,
            sizes: Vec::new(),
            rows_per_chunk: (CHUNK_BYTES / row_bytes).clamp(1, CHUNK_ROWS_MAX),
        })
    }

    /// The ranges of rows that make the chunks of a COPY.
    pub fn chunks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let (rows, step) = (self.rows, self.rows_per_chunk);
        (0..rows)
            .step_by(step)
            .map(move |start| start..(start + step).min(rows))
    }

    /// A chunk of a COPY, with the header before the first row and the trailer behind the last.
    pub fn copy_chunk(&mut self, rows: Range<usize>) -> std::result::Result<Vec<u8>, ColumnFault> {
        let header = if rows.start == 0 { COPY_HEADER.len() } else { 0 };
        let trailer = if rows.end == self.rows {
            COPY_TRAILER.len()
        } else {
            0
        };
        let total = self.place(rows.clone(), 0..self.fields.len(), header, 2)?;
        let mut out = vec![0; total + trailer];
        out[..header].copy_from_slice(&COPY_HEADER[..header]);
        let count = (self.fields.len() as u16).to_be_bytes();
        for at in &mut self.sizes {
            out[*at..*at + 2].copy_from_slice(&count);
            *at += 2;
        }
        for field in &self.fields {
            field.write(rows.clone(), &mut out, &mut self.sizes);
        }
        out[total..].copy_from_slice(&COPY_TRAILER[..trailer]);
        Ok(out)
    }

    /// Fields of `rows`, row after row: no lengths of rows, no header.
    pub fn fields(&mut self, rows: Range<usize>) -> std::result::Result<Vec<u8>, ColumnFault> {
        let total = self.place(rows.clone(), 0..self.fields.len(), 0, 0)?;
        let mut out = vec![0; total];
        for field in &self.fields {
            field.write(rows.clone(), &mut out, &mut self.sizes);
        }
        Ok(out)
    }

    /// Column `index` as a one-dimensional array of element type `element`.
    pub fn array(&mut self, index: usize, element: u32) -> std::result::Result<Vec<u8>, ColumnFault> {
        const HEADER: usize = 20;
        let rows = 0..self.rows;
        let total = self.place(rows.clone(), index..index + 1, HEADER, 0)?;
        let field = &self.fields[index];
        let mut out = vec![0; total];
        let header = [1, u32::from(field.has_nulls()), element, self.rows as u32, 1];
        for (word, value) in out.chunks_exact_mut(4).zip(header) {
            word.copy_from_slice(&value.to_be_bytes());
        }
        field.write(rows, &mut out, &mut self.sizes);
        Ok(out)
    }

    /// Measures `columns` and turns `sizes` into where each row begins; returns where the last one ends.
    fn place(
        &mut self,
        rows: Range<usize>,
        columns: Range<usize>,
        start: usize,
        row_bytes: usize,
    ) -> std::result::Result<usize, ColumnFault> {
        self.sizes.clear();
        self.sizes.resize(rows.len(), row_bytes);
        let mut first: Option<ColumnFault> = None;
        for index in columns {
            match self.fields[index].measure(rows.clone(), &mut self.sizes) {
                Ok(()) => {}
                // The first bad row of all columns, so that rows are reported in order.
                Err(fault) if first.as_ref().is_none_or(|(_, known)| fault.row < known.row) => {
                    first = Some((index, fault));
                }
                Err(_) => {}
            }
        }
        if let Some(fault) = first {
            return Err(fault);
        }
        let mut end = start;
        for size in &mut self.sizes {
            let bytes = *size;
            *size = end;
            end += bytes;
        }
        Ok(end)
    }
}

impl Fault {
    /// The fault as an error of the database's kind.
    pub fn into_error(self) -> Error {
        Error::new(ErrorKind::Rejected, self.message).code(self.code)
    }
}
