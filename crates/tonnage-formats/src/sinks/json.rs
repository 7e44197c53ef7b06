//! JSON lines: an object a row.
//!
//! Invariants: what is written is read back exactly. Every column is in every object; null is `null`. Numbers keep all
//! of their digits; what JSON has no number for (`NaN`, `Infinity`) and everything else but truth values is a string, as
//! CSV writes it. JSON columns are nested as they are, but for line breaks between their tokens, which become spaces. A
//! JSON column's own `null` could not be told from no value, so it is refused. Structs are objects and lists of them
//! arrays.

use std::{io::Write, ops::Range};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, Field, Fields, SchemaRef},
};
use serde_json::value::RawValue;
use tonnage_core::{
    error::{Error, Result},
    types::ColumnType,
};

use super::{
    Settled, Sink,
    csv::{
        BUFFER_BYTES,
        cells::{self, Cells, Style},
    },
    destination::Destination,
};

/// Rows encoded at a time, as for CSV.
const SLICE_ROWS: usize = 128;

/// How a column's values stand in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueForm {
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
    /// With the columns that it is within, for messages.
    name: String,
    /// `"name":`, after a comma unless it is the first.
    key: Vec<u8>,
    values: Values,
}

/// What a column's values become.
enum Values {
    /// Each a value.
    Single {
        form: ValueForm,
        encode: cells::Encode,
        cells: Cells,
    },
    /// Each an object.
    Object(Object),
    /// Each an array of objects.
    Objects(Object),
}

/// Values of several columns, by their names.
struct Object {
    columns: Vec<Column>,
    /// Not used by what is encoded here: text is quoted by JSON's rules.
    style: Style,
}

/// Where rows stand that are encoded.
#[derive(Clone, Copy)]
struct RowPlacement {
    /// Rows of the file before those of the batch; none for rows within others.
    rows_before: Option<u64>,
    /// What stands between two rows.
    between: &'static [u8],
}

/// Turns batches of one schema into lines.
pub struct Encoder {
    object: Object,
    rows_before: u64,
}

impl Encoder {
    /// Chooses the encoder of every column. `Config` for types that JSON has no text for here.
    pub fn new(schema: &SchemaRef) -> Result<Self> {
        if schema.fields().is_empty() {
            return Err(Error::config("there are no columns to write"));
        }
        Ok(Self {
            object: Object::new(schema.fields(), "")?,
            rows_before: 0,
        })
    }

    /// Appends the rows of a batch, a line each. An error names column and row (from 1, over all batches) of a value that
    /// JSON cannot hold.
    pub fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let place = RowPlacement {
            rows_before: Some(self.rows_before),
            between: b"\n",
        };
        if batch.num_rows() > 0 {
            self.object
                .encode(batch.columns(), 0..batch.num_rows(), place, out)?;
            out.push(b'\n');
        }
        self.rows_before += batch.num_rows() as u64;
        Ok(())
    }
}

impl Object {
    /// `within` is the name of the column that it is in, with a point behind it.
    fn new(fields: &Fields, within: &str) -> Result<Self> {
        let columns = fields.iter().enumerate().map(|(at, field)| {
            let name = format!("{within}{}", field.name());
            let mut key = if at == 0 { b"{".to_vec() } else { b",".to_vec() };
            push_string(&mut key, field.name());
            key.push(b':');
            let inner = |fields: &Fields| Self::new(fields, &format!("{name}."));
            let values = match (fields_of(field.data_type()), field.data_type()) {
                (Some(fields), DataType::Struct(_)) => Values::Object(inner(fields)?),
                (Some(fields), _) => Values::Objects(inner(fields)?),
                (None, single) => Values::Single {
                    form: form(field),
                    encode: cells::encoder(single).ok_or_else(|| {
                        Error::config(format!("column {name}: {single} cannot be written as JSON"))
                            .hint("write it as Parquet, or leave the column out")
                    })?,
                    cells: Cells::default(),
                },
            };
            Ok(Column { name, key, values })
        });
        Ok(Self {
            columns: columns.collect::<Result<_>>()?,
            style: Style { delimiter: b',' },
        })
    }

    fn encode(
        &mut self,
        arrays: &[ArrayRef],
        rows: Range<usize>,
        place: RowPlacement,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        for start in rows.clone().step_by(SLICE_ROWS) {
            let slice = start..rows.end.min(start + SLICE_ROWS);
            for (column, array) in self.columns.iter_mut().zip(arrays) {
                let Values::Single { form, encode, cells } = &mut column.values else {
                    continue;
                };
                cells.clear();
                cells.rows_before = place.rows_before.unwrap_or_default();
                if !matches!(form, ValueForm::Text | ValueForm::Numeric | ValueForm::Json) {
                    encode(array.as_ref(), slice.clone(), &self.style, cells)
                        .map_err(|e| e.at(format_args!("column {}", column.name)))?;
                }
            }
            if start > rows.start {
                out.extend_from_slice(place.between);
            }
            self.join(arrays, slice, place, out)?;
        }
        Ok(())
    }

    fn join(
        &mut self,
        arrays: &[ArrayRef],
        rows: Range<usize>,
        place: RowPlacement,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let first = rows.start;
        for row in rows {
            if row > first {
                out.extend_from_slice(place.between);
            }
            for (column, array) in self.columns.iter_mut().zip(arrays) {
                out.extend_from_slice(&column.key);
                if array.is_null(row) {
                    out.extend_from_slice(b"null");
                    continue;
                }
                let pushed = match &mut column.values {
                    Values::Single { form, cells, .. } => push_value(*form, cells, array, row, first, out),
                    Values::Object(object) => object.push_object(array, row, out),
                    Values::Objects(object) => object.push_objects(array, row, out),
                };
                pushed.map_err(|e| match place.rows_before {
                    Some(before) => e.at(format_args!(
                        "column {}: row {}",
                        column.name,
                        before + row as u64 + 1
                    )),
                    None => e,
                })?;
            }
            out.push(b'}');
        }
        Ok(())
    }

    fn push_object(&mut self, array: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let rows = array.as_struct_opt().ok_or_else(other_type)?;
        self.encode(rows.columns(), row..row + 1, WITHIN, out)
    }

    fn push_objects(&mut self, array: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<()> {
        let lists = array.as_list_opt::<i32>().ok_or_else(other_type)?;
        let rows = lists.values().as_struct_opt().ok_or_else(other_type)?;
        let place = |at: usize| usize::try_from(lists.value_offsets()[at]).map_err(|_| other_type());
        out.push(b'[');
        self.encode(rows.columns(), place(row)?..place(row + 1)?, WITHIN, out)?;
        out.push(b']');
        Ok(())
    }
}

/// Of rows within others.
const WITHIN: RowPlacement = RowPlacement {
    rows_before: None,
    between: b",",
};

fn push_value(
    form: ValueForm,
    cells: &Cells,
    array: &ArrayRef,
    row: usize,
    first: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    match form {
        ValueForm::Plain => out.extend_from_slice(cells.get(row - first)),
        ValueForm::Float => {
            let text = cells.get(row - first);
            match text.last() {
                Some(last) if last.is_ascii_digit() => out.extend_from_slice(text),
                _ => push_quoted(out, text),
            }
        }
        ValueForm::Quoted => push_quoted(out, cells.get(row - first)),
        ValueForm::Text => push_string(out, text(array, row)?),
        ValueForm::Numeric => {
            let text = text(array, row)?;
            match is_number(text.as_bytes()) {
                true => out.extend_from_slice(text.as_bytes()),
                false => push_string(out, text),
            }
        }
        ValueForm::Json => push_json(out, text(array, row)?)?,
    }
    Ok(())
}

/// The fields of structs, or of lists of them.
fn fields_of(ty: &DataType) -> Option<&Fields> {
    match ty {
        DataType::Struct(fields) => Some(fields),
        DataType::List(item) => match item.data_type() {
            DataType::Struct(fields) => Some(fields),
            _ => None,
        },
        _ => None,
    }
}

fn other_type() -> Error {
    Error::bug("an array is not of its field's type")
}

fn form(field: &Field) -> ValueForm {
    match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => match ColumnType::of_field(field) {
            Some(ColumnType::Json) => ValueForm::Json,
            Some(ColumnType::Numeric) => ValueForm::Numeric,
            _ => ValueForm::Text,
        },
        DataType::Float16 | DataType::Float32 | DataType::Float64 => ValueForm::Float,
        DataType::Boolean => ValueForm::Plain,
        other if other.is_integer() || other.is_decimal() => ValueForm::Plain,
        _ => ValueForm::Quoted,
    }
}

fn text(array: &dyn Array, row: usize) -> Result<&str> {
    match array.data_type() {
        DataType::Utf8 => array.as_string_opt::<i32>().map(|texts| texts.value(row)),
        DataType::LargeUtf8 => array.as_string_opt::<i64>().map(|texts| texts.value(row)),
        _ => array.as_string_view_opt().map(|texts| texts.value(row)),
    }
    .ok_or_else(other_type)
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
        sent.map_err(|e| self.destination.error(e))
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

    fn settle(mut self: Box<Self>) -> Result<Settled> {
        self.send()?;
        self.destination.settle()
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
    fn structs_are_objects_and_lists_of_them_arrays() {
        use arrow::{
            array::{ListArray, StructArray},
            buffer::{NullBuffer, OffsetBuffer},
        };
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
        let names: ArrayRef = Arc::new(StringArray::from(vec!["a", "\"", "c"]));
        let fields = Fields::from(vec![
            Field::new("n", DataType::Int64, true),
            Field::new("s", DataType::Utf8, false),
        ]);
        let rows = |nulls| StructArray::new(fields.clone(), vec![numbers.clone(), names.clone()], nulls);
        let item = Arc::new(Field::new_list_field(DataType::Struct(fields.clone()), false));
        let lists = ListArray::new(
            item,
            OffsetBuffer::from_lengths([2, 0, 1]),
            Arc::new(rows(None)),
            None,
        );
        let one = rows(Some(NullBuffer::from(vec![true, false, true])));
        let columns: Vec<(Field, ArrayRef)> = vec![
            (
                Field::new("of", lists.data_type().clone(), false),
                Arc::new(lists),
            ),
            (Field::new("in", one.data_type().clone(), true), Arc::new(one)),
        ];
        assert_eq!(
            lines(columns).unwrap(),
            "{\"of\":[{\"n\":1,\"s\":\"a\"},{\"n\":null,\"s\":\"\\\"\"}],\"in\":{\"n\":1,\"s\":\"a\"}}\n\
             {\"of\":[],\"in\":null}\n\
             {\"of\":[{\"n\":3,\"s\":\"c\"}],\"in\":{\"n\":3,\"s\":\"c\"}}\n"
        );
        let children = 0..3 * SLICE_ROWS as i64;
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(children.clone()));
        let fields = Fields::from(vec![Field::new("n", DataType::Int64, true)]);
        let item = Arc::new(Field::new_list_field(DataType::Struct(fields.clone()), false));
        let all = Arc::new(StructArray::new(fields, vec![numbers], None));
        let lists = ListArray::new(item, OffsetBuffer::from_lengths([3 * SLICE_ROWS]), all, None);
        let wanted: Vec<_> = children.map(|n| format!("{{\"n\":{n}}}")).collect();
        assert_eq!(
            lines(vec![(
                Field::new("v", lists.data_type().clone(), false),
                Arc::new(lists)
            )])
            .unwrap(),
            format!("{{\"v\":[{}]}}\n", wanted.join(","))
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
