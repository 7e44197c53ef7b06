//! JSON lines: an object a row.
//!
//! Invariants: what is written is read back exactly. Every column is in every object; null is `null`. Numbers keep all
//! of their digits; what JSON has no number for (`NaN`, `Infinity`) and everything else but truth values is a string, as
//! CSV writes it. JSON columns are nested as they are, but for line breaks between their tokens, which become spaces. A
//! JSON column's own `null` could not be told from no value, so it is refused.

use std::{io::Write, ops::Range};

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{DataType, Field, SchemaRef},
};
use serde_json::value::RawValue;

use super::{
    Sink,
    csv::{
        BUFFER_BYTES,
        cells::{self, Cells, Style},
    },
    destination::Destination,
};
use crate::{
    error::{Error, Result},
    types::ColumnType,
};

/// Rows encoded at a time, as for CSV.
const SLICE_ROWS: usize = 128;

/// How a column's values stand in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As numbers or truth values.
    Plain,
    /// As numbers, where they are finite.
    Float,
    /// In quotes; their text needs no escapes but for backslashes.
    Quoted,
    /// As strings of any text.
    Text,
    /// As numbers, where their text is one.
    Numeric,
    /// As they are.
    Json,
}

struct Column {
    name: String,
    /// `"name":`, after a comma unless it is the first.
    key: Vec<u8>,
    form: Form,
    encode: cells::Encode,
    cells: Cells,
}

/// Turns batches of one schema into lines.
struct Encoder {
    columns: Vec<Column>,
    /// Not used by what is encoded here: text is quoted by JSON's rules.
    style: Style,
    rows_before: u64,
}

impl Encoder {
    fn new(schema: &SchemaRef) -> Result<Self> {
        if schema.fields().is_empty() {
            return Err(Error::config("there are no columns to write"));
        }
        let columns = schema.fields().iter().enumerate().map(|(at, field)| {
            let encode = cells::encoder(field.data_type()).ok_or_else(|| {
                Error::config(format!(
                    "column {}: {} cannot be written as JSON",
                    field.name(),
                    field.data_type()
                ))
                .hint("write it as Parquet, or leave the column out")
            })?;
            let mut key = if at == 0 { b"{".to_vec() } else { b",".to_vec() };
            push_string(&mut key, field.name());
            key.push(b':');
            Ok(Column {
                name: field.name().clone(),
                key,
                form: form(field),
                encode,
                cells: Cells::default(),
            })
        });
        Ok(Self {
            columns: columns.collect::<Result<_>>()?,
            style: Style { delimiter: b',' },
            rows_before: 0,
        })
    }

    fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        for start in (0..batch.num_rows()).step_by(SLICE_ROWS) {
            let rows = start..batch.num_rows().min(start + SLICE_ROWS);
            for (column, array) in self.columns.iter_mut().zip(batch.columns()) {
                column.cells.clear();
                column.cells.rows_before = self.rows_before;
                if !matches!(column.form, Form::Text | Form::Numeric | Form::Json) {
                    (column.encode)(array.as_ref(), rows.clone(), &self.style, &mut column.cells)
                        .map_err(|e| e.at(format_args!("column {}", column.name)))?;
                }
            }
            self.join(batch, rows, out)?;
        }
        self.rows_before += batch.num_rows() as u64;
        Ok(())
    }

    fn join(&self, batch: &RecordBatch, rows: Range<usize>, out: &mut Vec<u8>) -> Result<()> {
        let first = rows.start;
        for row in rows {
            for (column, array) in self.columns.iter().zip(batch.columns()) {
                out.extend_from_slice(&column.key);
                if array.is_null(row) {
                    out.extend_from_slice(b"null");
                    continue;
                }
                match column.form {
                    Form::Plain => out.extend_from_slice(column.cells.get(row - first)),
                    Form::Float => {
                        let text = column.cells.get(row - first);
                        match text.last() {
                            Some(last) if last.is_ascii_digit() => out.extend_from_slice(text),
                            _ => push_quoted(out, text),
                        }
                    }
                    Form::Quoted => push_quoted(out, column.cells.get(row - first)),
                    Form::Text => push_string(out, text(array, row)?),
                    Form::Numeric => {
                        let text = text(array, row)?;
                        match is_number(text.as_bytes()) {
                            true => out.extend_from_slice(text.as_bytes()),
                            false => push_string(out, text),
                        }
                    }
                    Form::Json => push_json(out, text(array, row)?).map_err(|e| {
                        e.at(format_args!(
                            "column {}: row {}",
                            column.name,
                            self.rows_before + row as u64 + 1
                        ))
                    })?,
                }
            }
            out.extend_from_slice(b"}\n");
        }
        Ok(())
    }
}

fn form(field: &Field) -> Form {
    match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => match ColumnType::of_field(field) {
            Some(ColumnType::Json) => Form::Json,
            Some(ColumnType::Numeric) => Form::Numeric,
            _ => Form::Text,
        },
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Form::Float,
        DataType::Boolean => Form::Plain,
        other if other.is_integer() || other.is_decimal() => Form::Plain,
        _ => Form::Quoted,
    }
}

fn text(array: &dyn Array, row: usize) -> Result<&str> {
    match array.data_type() {
        DataType::Utf8 => array.as_string_opt::<i32>().map(|texts| texts.value(row)),
        DataType::LargeUtf8 => array.as_string_opt::<i64>().map(|texts| texts.value(row)),
        _ => array.as_string_view_opt().map(|texts| texts.value(row)),
    }
    .ok_or_else(|| Error::bug("an array is not of its field's type"))
}

/// Appends text that has no control characters and no quotes.
fn push_quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        if *byte == b'\\' {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// Appends a string with its escapes.
fn push_string(out: &mut Vec<u8>, text: &str) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut done = 0;
    for (at, byte) in text.bytes().enumerate() {
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0..0x20 => b'u',
            _ => continue,
        };
        out.extend_from_slice(&text.as_bytes()[done..at]);
        out.extend_from_slice(&[b'\\', short]);
        if short == b'u' {
            out.extend_from_slice(b"00");
            out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        done = at + 1;
    }
    out.extend_from_slice(&text.as_bytes()[done..]);
    out.push(b'"');
}

fn push_json(out: &mut Vec<u8>, text: &str) -> Result<()> {
    let raw: &RawValue = serde_json::from_str(text)
        .map_err(|cause| Error::schema(format!("the value is not JSON: {cause}")).caused_by(cause))?;
    let raw = raw.get();
    if raw == "null" {
        return Err(
            Error::schema("a JSON null could not be told from no value in JSON lines")
                .hint("write it as CSV, Parquet or Arrow, which can"),
        );
    }
    // Within strings they are escaped, so these stand between tokens.
    out.extend(raw.bytes().map(|byte| match byte {
        b'\n' | b'\r' => b' ',
        byte => byte,
    }));
    Ok(())
}

/// Whether JSON reads this text as a number.
fn is_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, fraction) = match memchr::memchr(b'.', digits) {
        Some(point) => (&digits[..point], Some(&digits[point + 1..])),
        None => (digits, None),
    };
    let all_digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    all_digits(whole) && (whole.len() == 1 || whole[0] != b'0') && fraction.is_none_or(all_digits)
}

/// Writes JSON lines.
pub(super) struct JsonSink {
    encoder: Encoder,
    destination: Destination,
    buffer: Vec<u8>,
}

impl JsonSink {
    /// Checks the schema before `open` makes the file.
    pub(super) fn new(schema: &SchemaRef, open: impl FnOnce() -> Result<Destination>) -> Result<Self> {
        Ok(Self {
            encoder: Encoder::new(schema)?,
            destination: open()?,
            buffer: Vec::with_capacity(2 * BUFFER_BYTES),
        })
    }

    fn send(&mut self) -> Result<()> {
        let sent = self.destination.write_all(&self.buffer);
        self.buffer.clear();
        sent.map_err(|e| self.destination.error(&e))
    }
}

impl Sink for JsonSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        // In pieces, so that a batch of any size takes no more than the buffer.
        let row_bytes = batch.get_array_memory_size() / batch.num_rows().max(1) + 1;
        let piece_rows = (BUFFER_BYTES / row_bytes).max(1);
        for start in (0..batch.num_rows()).step_by(piece_rows) {
            let rows = piece_rows.min(batch.num_rows() - start);
            self.encoder.encode(&batch.slice(start, rows), &mut self.buffer)?;
            if self.buffer.len() >= BUFFER_BYTES {
                self.send()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<u64> {
        self.send()?;
        self.destination.finish()
    }

    fn is_closed(&self) -> bool {
        self.destination.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{ArrayRef, BinaryArray, Float64Array, Int64Array, StringArray},
        datatypes::Schema,
    };

    use super::*;

    fn lines(columns: Vec<(Field, ArrayRef)>) -> Result<String> {
        let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(schema.clone(), arrays).unwrap();
        let mut out = Vec::new();
        Encoder::new(&schema)?.encode(&batch, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn texts(ty: ColumnType, values: &[Option<&str>]) -> (Field, ArrayRef) {
        (ty.field("v", true), Arc::new(StringArray::from(values.to_vec())))
    }

    #[test]
    fn values_stand_as_json_has_them() {
        let plain = |ty: ColumnType, array: ArrayRef| lines(vec![(ty.field("v", true), array)]).unwrap();
        assert_eq!(
            plain(
                ColumnType::Int64,
                Arc::new(Int64Array::from(vec![Some(-7), None]))
            ),
            "{\"v\":-7}\n{\"v\":null}\n"
        );
        let floats = Float64Array::from(vec![1e16, f64::NAN, f64::NEG_INFINITY]);
        assert_eq!(
            plain(ColumnType::Float64, Arc::new(floats)),
            "{\"v\":1e16}\n{\"v\":\"NaN\"}\n{\"v\":\"-Infinity\"}\n"
        );
        let bytes = BinaryArray::from(vec![&b"\x00\xff"[..], b""]);
        assert_eq!(
            plain(ColumnType::Bytes, Arc::new(bytes)),
            "{\"v\":\"\\\\x00ff\"}\n{\"v\":\"\\\\x\"}\n"
        );
        let numerics = [
            Some("12345678901234567890.50"),
            Some("Infinity"),
            Some("007"),
            Some("-0.5"),
        ];
        assert_eq!(
            lines(vec![texts(ColumnType::Numeric, &numerics)]).unwrap(),
            "{\"v\":12345678901234567890.50}\n{\"v\":\"Infinity\"}\n{\"v\":\"007\"}\n{\"v\":-0.5}\n"
        );
        assert_eq!(
            lines(vec![texts(
                ColumnType::TEXT,
                &[Some(""), Some("a\"\\\n\u{1}é"), None]
            )])
            .unwrap(),
            "{\"v\":\"\"}\n{\"v\":\"a\\\"\\\\\\n\\u0001é\"}\n{\"v\":null}\n"
        );
        assert_eq!(
            lines(vec![texts(ColumnType::Json, &[Some("{\"a\":\n[1, 2]}"), None])]).unwrap(),
            "{\"v\":{\"a\": [1, 2]}}\n{\"v\":null}\n"
        );
    }

    #[test]
    fn a_json_null_is_refused() {
        let refused = lines(vec![texts(ColumnType::Json, &[Some("1"), Some(" null")])]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "column v: row 2: a JSON null could not be told from no value in JSON lines"
        );
    }
}
