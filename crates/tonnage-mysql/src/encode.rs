//! Arrow columns as parameters of prepared statements, and as the text of LOAD DATA.
//!
//! Work goes column by column: a column's checks and its form are chosen once. Every value that the server would
//! change without an error, or only with a warning, is found here, before anything is sent.

mod check;
mod fixed;
mod geometry;

use std::ops::Range;

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, Float32Array, Float64Array, PrimitiveArray,
        RecordBatch, StringArray,
    },
    buffer::{Buffer, NullBuffer, OffsetBuffer},
    datatypes::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
        Time64MicrosecondType, TimestampMicrosecondType,
    },
};
use mysql_async::Value;
use tonnage_core::{
    digits,
    error::{Error, ErrorKind, Result},
    parse::{PartialDate, text_of_time},
    reject::sqlstate,
    types::ColumnType,
};

use self::fixed::Rounding;
pub(super) use self::geometry::{HAS_SYSTEM, SYSTEM_BYTES};
use super::types::Kind;

/// A value that cannot be sent as it is.
#[derive(Debug)]
pub(super) struct Fault {
    /// The row, counted from the front of the batch.
    pub row: usize,
    /// The column's name.
    pub column: String,
    /// What is wrong, kind `Rejected`.
    pub error: Error,
}

/// What is wrong with a value, of the row counted from the front of the batch.
struct Wrong {
    row: usize,
    code: &'static str,
    message: String,
}

/// One column of a plan.
#[derive(Debug, Clone)]
pub(super) struct ColumnEncoder {
    pub name: String,
    pub ty: ColumnType,
    pub kind: Kind,
    pub nullable: bool,
}

/// Bytes a row, in one buffer.
struct Texts {
    offsets: OffsetBuffer<i32>,
    values: Buffer,
    /// Whether LOAD DATA may find something in them that has to be escaped.
    escape: bool,
    /// Whether LOAD DATA carries them as hexadecimal digits.
    hex: bool,
}

impl Texts {
    fn value(&self, row: usize) -> &[u8] {
        &self.values[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }
}

/// The values of a column, in the one form of each.
enum Cells {
    Signed(Vec<i64>),
    Unsigned(Vec<u64>),
    Single(Float32Array),
    Double(Float64Array),
    Texts(Texts),
}

struct EncodedColumn {
    cells: Cells,
    nulls: Option<NullBuffer>,
}

/// A batch, ready to be sent.
pub(super) struct Encoded {
    columns: Vec<EncodedColumn>,
    rows: usize,
    /// Bytes that each row takes as parameters, about and at least.
    pub sizes: Vec<usize>,
}

/// Looks at every value, and gives the rows their form; the first bad row of all columns is the fault.
pub(super) fn encode(
    columns: &[ColumnEncoder],
    batch: &RecordBatch,
) -> Result<std::result::Result<Encoded, Fault>> {
    let mut encoded = Vec::with_capacity(columns.len());
    let mut fault: Option<Fault> = None;
    for (column, array) in columns.iter().zip(batch.columns()) {
        match column.encode(array)? {
            Ok(found) => encoded.push(found),
            Err(wrong) => {
                if fault.as_ref().is_none_or(|known| wrong.row < known.row) {
                    fault = Some(Fault {
                        row: wrong.row,
                        column: column.name.clone(),
                        error: Error::new(ErrorKind::Rejected, wrong.message).code(wrong.code),
                    });
                }
            }
        }
    }
    if let Some(fault) = fault {
        return Ok(Err(fault));
    }
    let rows = batch.num_rows();
    let mut sizes = vec![0; rows];
    for column in &encoded {
        column.measure(&mut sizes);
    }
    Ok(Ok(Encoded {
        columns: encoded,
        rows,
        sizes,
    }))
}

fn integers<T>(array: &ArrayRef) -> Option<Vec<i64>>
where
    T: ArrowPrimitiveType,
    i64: From<T::Native>,
{
    let array = array.as_primitive_opt::<T>()?;
    Some(array.values().iter().map(|value| i64::from(*value)).collect())
}

/// Texts of a column whose values are written one by one; those of nulls are empty.
fn written<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    bytes: usize,
    write: impl Fn(&mut Vec<u8>, T::Native),
) -> Texts {
    let mut values = Vec::with_capacity(array.len() * bytes);
    let mut offsets = Vec::with_capacity(array.len() + 1);
    offsets.push(0_i32);
    for value in array.iter() {
        if let Some(value) = value {
            write(&mut values, value);
        }
        offsets.push(values.len() as i32);
    }
    Texts {
        offsets: OffsetBuffer::new(offsets.into()),
        values: values.into(),
        escape: false,
        hex: false,
    }
}

fn push_seconds(out: &mut Vec<u8>, micros: u64) {
    digits::push_clock(out, micros / 1_000_000);
    match micros % 1_000_000 {
        0 => {}
        fraction => {
            out.push(b'.');
            digits::push_padded::<6>(out, fraction);
        }
    }
}

fn push_day(out: &mut Vec<u8>, days: i64) {
    match PartialDate::of_days(days) {
        None => digits::push_date(out, days),
        Some(date) => out.extend_from_slice(date.to_string().as_bytes()),
    }
}

fn push_moment(out: &mut Vec<u8>, micros: i64) {
    if let Some((date, of_day)) = PartialDate::of_micros(micros) {
        out.extend_from_slice(date.to_string().as_bytes());
        out.push(b' ');
        return push_seconds(out, of_day as u64);
    }
    digits::push_date(out, micros.div_euclid(digits::DAY_MICROS));
    out.push(b' ');
    push_seconds(out, micros.rem_euclid(digits::DAY_MICROS) as u64);
}

impl ColumnEncoder {
    fn encode(&self, array: &ArrayRef) -> Result<std::result::Result<EncodedColumn, Wrong>> {
        let odd = || {
            Error::bug(format!(
                "column {} reached the writer as {} instead of {}",
                self.name,
                array.data_type(),
                self.ty.arrow()
            ))
        };
        if *array.data_type() != self.ty.arrow() {
            return Err(odd());
        }
        if let Some(wrong) = self.null(array) {
            return Ok(Err(wrong));
        }
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        let cells = self.cells(array).ok_or_else(odd)?;
        Ok(cells.map(|cells| EncodedColumn { cells, nulls }))
    }

    /// The first null of a column that takes none: the server would put a default, the time of day or the next number
    /// in its place, where it does not refuse it.
    fn null(&self, array: &ArrayRef) -> Option<Wrong> {
        if self.nullable {
            return None;
        }
        let nulls = array.nulls()?;
        let row = (0..nulls.len()).find(|row| nulls.is_null(*row))?;
        Some(Wrong {
            row,
            code: sqlstate::NOT_NULL,
            message: format!("null in column '{}', which takes none", self.name),
        })
    }

    /// None where the array is of another type than it says.
    fn cells(&self, array: &ArrayRef) -> Option<std::result::Result<Cells, Wrong>> {
        let cells = match (self.ty, &self.kind) {
            (ColumnType::Bool, Kind::Integer { .. }) => {
                let values = array.as_boolean_opt()?.values().iter().map(i64::from).collect();
                Ok(Cells::Signed(values))
            }
            (ColumnType::Int16, Kind::Integer { .. }) => self.within(array, integers::<Int16Type>(array)?),
            (ColumnType::Int16, Kind::Year) => {
                let array = array.as_primitive_opt::<Int16Type>()?;
                // Four digits: a zero in text would be taken for the year 2000.
                self.years(array).map(|()| {
                    Cells::Texts(written(array, 4, |out, year| {
                        digits::push_padded::<4>(out, year as u64)
                    }))
                })
            }
            (ColumnType::Int32, Kind::Integer { .. }) => self.within(array, integers::<Int32Type>(array)?),
            (ColumnType::Int64, Kind::Integer { .. }) => self.within(array, integers::<Int64Type>(array)?),
            (ColumnType::Decimal { .. }, Kind::Integer { .. }) => {
                self.unsigned(array.as_primitive_opt::<Decimal128Type>()?)
            }
            (ColumnType::Float32, Kind::Single { unsigned, scale }) => {
                let array = array.as_primitive_opt::<Float32Type>()?;
                self.finite(array, *unsigned, f32::is_finite, |value| value.is_sign_negative())
                    .and_then(|()| self.unrounded(array, *scale, Rounding::keeps_single))
                    .map(|()| Cells::Single(array.clone()))
            }
            (ColumnType::Float64, Kind::Double { unsigned, scale }) => {
                let array = array.as_primitive_opt::<Float64Type>()?;
                self.finite(array, *unsigned, f64::is_finite, |value| value.is_sign_negative())
                    .and_then(|()| self.unrounded(array, *scale, Rounding::keeps_double))
                    .map(|()| Cells::Double(array.clone()))
            }
            (ColumnType::Decimal { scale, .. }, Kind::Decimal { unsigned, .. }) => {
                let array = array.as_primitive_opt::<Decimal128Type>()?;
                self.not_negative(array, *unsigned).map(|()| {
                    Cells::Texts(written(array, 12, |out, value| {
                        digits::push_decimal(out, value, scale as i8);
                    }))
                })
            }
            (ColumnType::Date, Kind::Date) => {
                let array = array.as_primitive_opt::<Date32Type>()?;
                self.days(array)
                    .map(|()| Cells::Texts(written(array, 10, |out, days| push_day(out, i64::from(days)))))
            }
            (ColumnType::Time, Kind::Seconds(precision)) => {
                let array = array.as_primitive_opt::<Time64MicrosecondType>()?;
                self.of_day(array, *precision).map(|()| {
                    Cells::Texts(written(array, 15, |out, micros| match micros {
                        0..=digits::DAY_MICROS => push_seconds(out, micros as u64),
                        outside => out.extend_from_slice(text_of_time(outside).as_bytes()),
                    }))
                })
            }
            (ColumnType::Timestamp | ColumnType::TimestampTz, Kind::Seconds(precision)) => {
                let array = array.as_primitive_opt::<TimestampMicrosecondType>()?;
                self.moments(array, *precision)
                    .map(|()| Cells::Texts(written(array, 26, push_moment)))
            }
            (ColumnType::Uuid, Kind::Uuid) => {
                let array = array.as_fixed_size_binary_opt()?;
                let mut buffer = uuid::Uuid::encode_buffer();
                let texts = array.iter().map(|bytes| {
                    let uuid = uuid::Uuid::from_slice(bytes?).ok()?;
                    Some(uuid.as_hyphenated().encode_lower(&mut buffer).to_owned())
                });
                Ok(Cells::Texts(of_strings(&texts.collect::<StringArray>(), false)))
            }
            (ColumnType::Bytes, Kind::Binary(_) | Kind::Bytes(_)) => {
                let array = array.as_binary_opt::<i32>()?;
                self.lengths(array).map(|()| {
                    Cells::Texts(Texts {
                        offsets: array.offsets().clone(),
                        values: array.values().clone(),
                        escape: false,
                        hex: true,
                    })
                })
            }
            (ColumnType::Bytes, Kind::Geometry) => {
                self.geometries(array.as_binary_opt::<i32>()?).map(Cells::Texts)
            }
            (
                ColumnType::Numeric | ColumnType::Text { .. } | ColumnType::Char { .. } | ColumnType::Json,
                _,
            ) => {
                let array = array.as_string_opt::<i32>()?;
                self.texts(array)
                    .map(|array| Cells::Texts(of_strings(&array, true)))
            }
            _ => return None,
        };
        Some(cells)
    }
}

fn of_strings(array: &StringArray, escape: bool) -> Texts {
    Texts {
        offsets: array.offsets().clone(),
        values: array.values().clone(),
        escape,
        hex: false,
    }
}

/// What a length in front of text takes at most.
const LENGTH_BYTES: usize = 9;

impl EncodedColumn {
    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    fn measure(&self, sizes: &mut [usize]) {
        match &self.cells {
            Cells::Texts(texts) => {
                for (size, pair) in sizes.iter_mut().zip(texts.offsets.windows(2)) {
                    *size += LENGTH_BYTES + (pair[1] - pair[0]) as usize;
                }
            }
            _ => sizes.iter_mut().for_each(|size| *size += LENGTH_BYTES),
        }
    }

    /// Appends the values of `rows` to what each row has already.
    fn push(&self, rows: Range<usize>, out: &mut [Vec<Value>]) {
        fn each(
            column: &EncodedColumn,
            rows: Range<usize>,
            out: &mut [Vec<Value>],
            value: impl Fn(usize) -> Value,
        ) {
            match &column.nulls {
                None => rows.zip(out).for_each(|(row, out)| out.push(value(row))),
                Some(nulls) => rows.zip(out).for_each(|(row, out)| {
                    out.push(match nulls.is_null(row) {
                        true => Value::NULL,
                        false => value(row),
                    });
                }),
            }
        }
        match &self.cells {
            Cells::Signed(values) => each(self, rows, out, |row| Value::Int(values[row])),
            Cells::Unsigned(values) => each(self, rows, out, |row| Value::UInt(values[row])),
            Cells::Single(array) => each(self, rows, out, |row| Value::Float(array.value(row))),
            Cells::Double(array) => each(self, rows, out, |row| Value::Double(array.value(row))),
            Cells::Texts(texts) => each(self, rows, out, |row| Value::Bytes(texts.value(row).to_vec())),
        }
    }

    /// The column's fields as LOAD DATA reads them; nulls are any text.
    fn rendered(&self) -> Rendered {
        fn written<T: Copy>(values: &[T], write: impl Fn(&mut Vec<u8>, T)) -> Rendered {
            let mut out = Vec::with_capacity(values.len() * 8);
            let mut ends = Vec::with_capacity(values.len() + 1);
            ends.push(0);
            for value in values {
                write(&mut out, *value);
                ends.push(out.len());
            }
            Rendered {
                bytes: out.into(),
                ends,
            }
        }
        match &self.cells {
            Cells::Signed(values) => written(values, digits::push_signed),
            Cells::Unsigned(values) => written(values, digits::push_unsigned),
            // The digits of the double it is, so that no rounding is left to whoever reads them.
            Cells::Single(array) => written(array.values(), |out, value| push_display(out, f64::from(value))),
            Cells::Double(array) => written(array.values(), push_display),
            Cells::Texts(texts) if texts.hex => texts.rendered(push_hexadecimal),
            Cells::Texts(texts) if texts.escape && texts.needs_escapes() => texts.rendered(push_escaped),
            Cells::Texts(texts) => Rendered {
                bytes: texts.values.clone(),
                ends: texts.offsets.iter().map(|end| *end as usize).collect(),
            },
        }
    }
}

fn push_display(out: &mut Vec<u8>, value: f64) {
    use std::io::Write;
    // Writing to memory does not fail.
    let _ = write!(out, "{value:e}");
}

fn push_hexadecimal(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

fn push_escaped(out: &mut Vec<u8>, mut bytes: &[u8]) {
    while let Some(at) = memchr::memchr3(b'\\', b'\t', b'\n', bytes) {
        out.extend_from_slice(&bytes[..at]);
        out.extend([
            b'\\',
            match bytes[at] {
                b'\t' => b't',
                b'\n' => b'n',
                other => other,
            },
        ]);
        bytes = &bytes[at + 1..];
    }
    out.extend_from_slice(bytes);
}

impl Texts {
    fn needs_escapes(&self) -> bool {
        memchr::memchr3(b'\\', b'\t', b'\n', &self.values).is_some()
    }

    fn rendered(&self, write: impl Fn(&mut Vec<u8>, &[u8])) -> Rendered {
        let rows = self.offsets.len() - 1;
        let mut out = Vec::with_capacity(self.values.len() + self.values.len() / 8);
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        for row in 0..rows {
            write(&mut out, self.value(row));
            ends.push(out.len());
        }
        Rendered {
            bytes: out.into(),
            ends,
        }
    }
}

/// A column's fields, one behind another.
struct Rendered {
    bytes: Buffer,
    ends: Vec<usize>,
}

/// Bytes of text that go on their way at a time.
const CHUNK_BYTES: usize = 256 << 10;

impl Encoded {
    /// The parameters of `rows`, a list a row.
    pub fn parameters(&self, rows: Range<usize>) -> Vec<Vec<Value>> {
        let mut out: Vec<_> = rows
            .clone()
            .map(|_| Vec::with_capacity(self.columns.len()))
            .collect();
        for column in &self.columns {
            column.push(rows.clone(), &mut out);
        }
        out
    }

    /// The rows as LOAD DATA reads them: fields that end in tabs, lines that end in line feeds, `\N` for null.
    pub fn text(&self) -> Vec<bytes::Bytes> {
        let columns: Vec<_> = self
            .columns
            .iter()
            .map(|column| (column, column.rendered()))
            .collect();
        let mut chunks = Vec::new();
        let mut chunk = Vec::with_capacity(CHUNK_BYTES + (CHUNK_BYTES >> 2));
        for row in 0..self.rows {
            for (column, rendered) in &columns {
                match column.is_null(row) {
                    true => chunk.extend_from_slice(b"\\N"),
                    false => {
                        chunk.extend_from_slice(&rendered.bytes[rendered.ends[row]..rendered.ends[row + 1]])
                    }
                }
                chunk.push(b'\t');
            }
            chunk.pop();
            chunk.push(b'\n');
            if chunk.len() >= CHUNK_BYTES {
                chunks.push(
                    std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_BYTES + (CHUNK_BYTES >> 2)))
                        .into(),
                );
            }
        }
        if !chunk.is_empty() {
            chunks.push(chunk.into());
        }
        chunks
    }
}
