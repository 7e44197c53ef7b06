//! Parquet files.
//!
//! Invariants: a row group holds at most [`ParquetOptions::row_group_bytes_max`] encoded bytes (give or take
//! a batch), which bounds both this writer's memory and that of whoever reads the file; field metadata is
//! kept, so a reader finds the column types again.
//!
//! The first batch decides what is spent on a column. A dictionary of values that hardly repeat is built and thrown
//! away in every row group, and Snappy runs over random text for an eighth of its size: together a third of the processor
//! time of unloading such text.

use std::{collections::HashSet, io};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, SchemaRef},
    row::{RowConverter, SortField},
};
use parquet::{
    arrow::{ArrowSchemaConverter, ArrowWriter},
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::properties::{WriterProperties, WriterPropertiesBuilder},
    schema::types::ColumnPath,
};
use tonnage_core::error::{Error, ErrorKind, Result};

use super::{
    Settled, Sink,
    destination::{Destination, written},
};

/// How the pages of a Parquet file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParquetCompression {
    /// Snappy, but for columns whose first values are text in which hardly a string comes twice.
    Suited,
    /// Not at all.
    None,
    /// Snappy: fast, and read by everything.
    Snappy,
    /// Zstandard at level 1: smaller (sbtest to 93 MB a million rows, against Snappy's 169), as fast to write on
    /// digits, half as fast on random text.
    Zstd,
}

/// How Parquet is written.
#[derive(Debug, Clone, PartialEq)]
pub struct ParquetOptions {
    /// How pages are compressed.
    pub compression: ParquetCompression,
    /// About the most encoded bytes of a row group, and so of memory; at least 1.
    pub row_group_bytes_max: usize,
}

impl Default for ParquetOptions {
    /// [`ParquetCompression::Suited`], in row groups of at most 64 MiB.
    fn default() -> Self {
        Self {
            compression: ParquetCompression::Suited,
            row_group_bytes_max: 64 << 20,
        }
    }
}

/// Rows of the first batch below which nothing is concluded from them.
const LOOKED_AT_MIN: usize = 1_024;
/// Bytes of a column's text that are compressed for trial.
const TRIAL_BYTES: usize = 256 << 10;

/// Writes Parquet.
pub(super) struct ParquetSink {
    state: State,
    schema: SchemaRef,
    options: ParquetOptions,
    shown: String,
}

enum State {
    /// Before the first batch.
    Waiting(Box<Destination>),
    Writing(Box<ArrowWriter<Destination>>),
    /// After a writer could not be made.
    Failed,
}

impl ParquetSink {
    /// Writes nothing yet. `Config` for a type that Parquet does not have.
    pub(super) fn new(
        schema: &SchemaRef,
        options: &ParquetOptions,
        destination: Destination,
    ) -> Result<Self> {
        let shown = destination.shown().to_owned();
        ArrowSchemaConverter::new()
            .convert(schema)
            .map_err(|e| failed(&shown, ErrorKind::Config, e))?;
        Ok(Self {
            state: State::Waiting(Box::new(destination)),
            schema: schema.clone(),
            options: options.clone(),
            shown,
        })
    }

    /// The writer, made for a table that begins with `first`.
    fn writer(&mut self, first: Option<&RecordBatch>) -> Result<&mut ArrowWriter<Destination>> {
        if matches!(self.state, State::Waiting(_))
            && let State::Waiting(destination) = std::mem::replace(&mut self.state, State::Failed)
        {
            let properties = properties(&self.options, first)?;
            let writer = ArrowWriter::try_new(*destination, self.schema.clone(), Some(properties))
                .map_err(|e| failed(&self.shown, ErrorKind::Config, e))?;
            self.state = State::Writing(Box::new(writer));
        }
        match &mut self.state {
            State::Writing(writer) => Ok(writer),
            State::Waiting(_) | State::Failed => Err(Error::bug("a Parquet file without a writer")),
        }
    }
}

impl Sink for ParquetSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = self.writer(Some(batch))?.write(batch);
        written.map_err(|e| failed(&self.shown, ErrorKind::Refused, e))
    }

    fn settle(mut self: Box<Self>) -> Result<Settled> {
        self.writer(None)?;
        let Self { state, shown, .. } = *self;
        let State::Writing(writer) = state else {
            return Err(Error::bug("a Parquet file without a writer"));
        };
        let destination = writer
            .into_inner()
            .map_err(|e| failed(&shown, ErrorKind::Refused, e))?;
        destination.settle()
    }

    fn is_closed(&self) -> bool {
        match &self.state {
            State::Waiting(destination) => destination.is_closed(),
            State::Writing(writer) => writer.inner().is_closed(),
            State::Failed => true,
        }
    }
}

fn properties(options: &ParquetOptions, first: Option<&RecordBatch>) -> Result<WriterProperties> {
    let compression = match options.compression {
        ParquetCompression::None => Compression::UNCOMPRESSED,
        ParquetCompression::Suited | ParquetCompression::Snappy => Compression::SNAPPY,
        ParquetCompression::Zstd => {
            let level = ZstdLevel::try_new(1).map_err(|e| Error::bug(format!("zstd level 1: {e}")))?;
            Compression::ZSTD(level)
        }
    };
    let mut builder = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_bytes(Some(options.row_group_bytes_max.max(1)))
        .set_created_by(concat!("tonnage version ", env!("CARGO_PKG_VERSION")).to_owned());
    if let Some(first) = first.filter(|first| first.num_rows() >= LOOKED_AT_MIN) {
        for (field, column) in first.schema_ref().fields().iter().zip(first.columns()) {
            builder = suited(builder, options.compression, field.name(), column);
        }
    }
    Ok(builder.build())
}

/// The properties of a column, as its first values suggest.
fn suited(
    builder: WriterPropertiesBuilder,
    compression: ParquetCompression,
    name: &str,
    values: &ArrayRef,
) -> WriterPropertiesBuilder {
    if values.data_type().is_nested() || !hardly_repeats(values) {
        return builder;
    }
    let path = ColumnPath::new(vec![name.to_owned()]);
    let builder = builder.set_column_dictionary_enabled(path.clone(), false);
    match compression == ParquetCompression::Suited && text(values).is_some_and(is_dense) {
        true => builder.set_column_compression(path, Compression::UNCOMPRESSED),
        false => builder,
    }
}

/// Whether more than three of four values are new ones.
fn hardly_repeats(values: &ArrayRef) -> bool {
    let there = values.len() - values.null_count();
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())]);
    let Ok(rows) = converter.and_then(|converter| converter.convert_columns(std::slice::from_ref(values)))
    else {
        return false;
    };
    let distinct: HashSet<_> = rows.iter().collect();
    distinct.len().saturating_sub(1) > there / 4 * 3
}

/// The bytes of a column's first values, where they are of text or binary.
fn text(values: &ArrayRef) -> Option<&[u8]> {
    let (offsets, bytes) = match values.data_type() {
        DataType::Utf8 => {
            let values = values.as_string::<i32>();
            (values.value_offsets(), values.value_data())
        }
        DataType::Binary => {
            let values = values.as_binary::<i32>();
            (values.value_offsets(), values.value_data())
        }
        _ => return None,
    };
    let (first, last) = (*offsets.first()? as usize, *offsets.last()? as usize);
    bytes.get(first..last.min(first + TRIAL_BYTES))
}

/// Whether a compressor that looks for repeated strings, as Snappy does, saves less than a sixteenth.
fn is_dense(text: &[u8]) -> bool {
    lz4_flex::block::compress(text).len() > text.len() - text.len() / 16
}

fn failed(shown: &str, kind: ErrorKind, cause: ParquetError) -> Error {
    let cause = match cause {
        // What the place says by itself.
        ParquetError::External(cause) if cause.is::<io::Error>() => match cause.downcast::<io::Error>() {
            Ok(cause) => return written(shown, *cause),
            Err(cause) => ParquetError::External(cause),
        },
        cause => cause,
    };
    Error::new(kind, format!("cannot write {shown} as Parquet: {cause}")).caused_by(cause)
}
