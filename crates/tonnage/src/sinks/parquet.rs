//! Parquet files.
//!
//! Invariants: a row group holds at most [`ParquetOptions::row_group_bytes_max`] encoded bytes (give or take
//! a batch), which bounds both this writer's memory and that of whoever reads the file; field metadata is
//! kept, so a reader finds the column types again.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    errors::ParquetError,
    file::properties::WriterProperties,
};

use super::{Sink, destination::Destination};
use crate::error::{Error, ErrorKind, Result};

/// How the pages of a Parquet file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParquetCompression {
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
    /// Snappy, in row groups of at most 64 MiB.
    fn default() -> Self {
        Self {
            compression: ParquetCompression::Snappy,
            row_group_bytes_max: 64 << 20,
        }
    }
}

/// Writes Parquet.
pub(super) struct ParquetSink {
    writer: ArrowWriter<Destination>,
    shown: String,
}

impl ParquetSink {
    /// Writes the head of the file. `Config` for a type that Parquet does not have.
    pub(super) fn new(
        schema: &SchemaRef,
        options: &ParquetOptions,
        destination: Destination,
    ) -> Result<Self> {
        let compression = match options.compression {
            ParquetCompression::None => Compression::UNCOMPRESSED,
            ParquetCompression::Snappy => Compression::SNAPPY,
            ParquetCompression::Zstd => {
                let level = ZstdLevel::try_new(1).map_err(|e| Error::bug(format!("zstd level 1: {e}")))?;
                Compression::ZSTD(level)
            }
        };
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_max_row_group_bytes(Some(options.row_group_bytes_max.max(1)))
            .set_created_by(concat!("tonnage version ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let shown = destination.shown().to_owned();
        let writer = ArrowWriter::try_new(destination, Arc::clone(schema), Some(properties))
            .map_err(|e| failed(&shown, ErrorKind::Config, e))?;
        Ok(Self { writer, shown })
    }
}

impl Sink for ParquetSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = self.writer.write(batch);
        written.map_err(|e| failed(&self.shown, ErrorKind::Refused, e))
    }

    fn finish(self: Box<Self>) -> Result<u64> {
        let Self { writer, shown } = *self;
        let destination = writer
            .into_inner()
            .map_err(|e| failed(&shown, ErrorKind::Refused, e))?;
        destination.finish()
    }

    fn is_closed(&self) -> bool {
        self.writer.inner().is_closed()
    }
}

fn failed(shown: &str, kind: ErrorKind, cause: ParquetError) -> Error {
    Error::new(kind, format!("cannot write {shown} as Parquet: {cause}")).caused_by(cause)
}
