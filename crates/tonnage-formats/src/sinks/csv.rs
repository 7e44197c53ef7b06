//! CSV files.
//!
//! Invariants: what is written is read back exactly. Null is the empty field and the empty string is `""`; a
//! field is quoted only if it is empty, holds the delimiter, a quote, a carriage return or a line feed, or is
//! `\.` (which ends COPY's input); quotes are doubled and records end in a line feed. Timestamps are
//! `2024-01-02 03:04:05.123456` with as many digits as their unit has, zeros included, and instants are in
//! UTC and end in `+00`. Decimals have all digits of their scale, floats the fewest that give the same float
//! again (`NaN`, `Infinity`, `-Infinity` by name), bytes are `\x` and hexadecimal, UUIDs (16 bytes of fixed
//! size) have hyphens, booleans are `true` and `false`.
//!
//! A batch is encoded in slices of `SLICE_ROWS` rows: each column by the encoder that was chosen for its
//! type, into cells; then the cells are joined row by row.

use std::io::Write;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use tonnage_core::error::{Error, Result};

use super::{Settled, Sink, destination::Destination};

pub(super) mod cells;

use cells::{Cells, Style};

/// The text that is collected before it is written.
pub const BUFFER_BYTES: usize = 1 << 20;

/// Rows encoded at a time: few enough that the cells of wide rows stay in a processor's cache.
const SLICE_ROWS: usize = 128;

/// How CSV is written.
#[derive(Debug, Clone, PartialEq)]
pub struct CsvOptions {
    /// Between fields; none takes the format's own. An ASCII character that no number, date or time holds.
    pub delimiter: Option<u8>,
    /// Whether the first record names the columns.
    pub header: bool,
}

impl Default for CsvOptions {
    /// Comma (in TSV the tab), with a header.
    fn default() -> Self {
        Self {
            delimiter: None,
            header: true,
        }
    }
}

/// Turns batches of one schema into CSV text.
pub struct Encoder {
    columns: Vec<Column>,
    style: Style,
    header: bool,
    rows_before: u64,
}

struct Column {
    name: String,
    encode: cells::Encode,
    cells: Cells,
}

impl Encoder {
    /// Chooses the encoder of every column. `Config` for a delimiter that could not be told from data, and
    /// for types that have no text (lists, structs).
    pub fn new(schema: &SchemaRef, options: &CsvOptions) -> Result<Self> {
        let delimiter = options.delimiter.unwrap_or(b',');
        if !delimiter.is_ascii()
            || delimiter.is_ascii_alphanumeric()
            || b" +-.:\\\"\r\n\0".contains(&delimiter)
        {
            return Err(Error::config(format!(
                "'{}' cannot be a delimiter",
                char::from(delimiter).escape_default()
            ))
            .hint("take a comma, a semicolon, a tab or |"));
        }
        if schema.fields().is_empty() {
            return Err(Error::config("rows without columns cannot be written as CSV"));
        }
        let columns = schema.fields().iter().map(|field| {
            let encode = cells::encoder(field.data_type()).ok_or_else(|| {
                Error::config(format!(
                    "column {}: {} cannot be written as CSV",
                    field.name(),
                    field.data_type()
                ))
                .hint("write it as Parquet, or leave the column out")
            })?;
            Ok(Column {
                name: field.name().clone(),
                encode,
                cells: Cells::default(),
            })
        });
        Ok(Self {
            columns: columns.collect::<Result<_>>()?,
            style: Style { delimiter },
            header: options.header,
            rows_before: 0,
        })
    }

    /// Appends the record of names, if there is to be one.
    pub fn header(&self, out: &mut Vec<u8>) {
        if !self.header {
            return;
        }
        for (index, column) in self.columns.iter().enumerate() {
            if index > 0 {
                out.push(self.style.delimiter);
            }
            self.style.push_text(out, column.name.as_bytes());
        }
        out.push(b'\n');
    }

    /// Appends the rows of a batch. An error names column and row (from 1, over all batches) of a value that
    /// has no exact text, such as a date after the year 9999; `out` then ends with a whole record before it.
    pub fn encode(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        if batch.num_columns() != self.columns.len() {
            return Err(Error::bug("a batch has other columns than its sink"));
        }
        for start in (0..batch.num_rows()).step_by(SLICE_ROWS) {
            let rows = start..batch.num_rows().min(start + SLICE_ROWS);
            for (column, array) in self.columns.iter_mut().zip(batch.columns()) {
                column.cells.clear();
                column.cells.rows_before = self.rows_before;
                (column.encode)(array.as_ref(), rows.clone(), &self.style, &mut column.cells)
                    .map_err(|e| e.at(format_args!("column {}", column.name)))?;
            }
            self.join(rows.len(), out);
        }
        self.rows_before += batch.num_rows() as u64;
        Ok(())
    }

    /// Appends the records that the cells of all columns make.
    fn join(&mut self, rows: usize, out: &mut Vec<u8>) {
        out.reserve(self.columns.iter().map(|c| c.cells.len() + rows).sum());
        let last = self.columns.len() - 1;
        for row in 0..rows {
            for (index, column) in self.columns.iter().enumerate() {
                out.extend_from_slice(column.cells.get(row));
                out.push(if index == last {
                    b'\n'
                } else {
                    self.style.delimiter
                });
            }
        }
    }
}

/// Writes CSV.
pub(super) struct CsvSink {
    encoder: Encoder,
    destination: Destination,
    buffer: Vec<u8>,
}

impl CsvSink {
    /// Begins with the header.
    pub(super) fn new(encoder: Encoder, destination: Destination) -> Result<Self> {
        let mut buffer = Vec::with_capacity(2 * BUFFER_BYTES);
        encoder.header(&mut buffer);
        Ok(Self {
            encoder,
            destination,
            buffer,
        })
    }

    fn send(&mut self) -> Result<()> {
        let sent = self.destination.write_all(&self.buffer);
        self.buffer.clear();
        sent.map_err(|e| self.destination.error(e))
    }
}

impl Sink for CsvSink {
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
