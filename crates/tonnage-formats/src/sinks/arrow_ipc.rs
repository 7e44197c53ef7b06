//! Arrow IPC files.
//!
//! Invariants: a batch of the file is a batch that was written; memory is bounded by one of them.

use arrow::{
    array::RecordBatch,
    datatypes::SchemaRef,
    error::ArrowError,
    ipc::{
        CompressionType,
        writer::{FileWriter, IpcWriteOptions},
    },
};
use tonnage_core::error::{Error, ErrorKind, Result};

use super::{
    Settled, Sink,
    destination::{Destination, written},
};

/// Writes the file form, its buffers compressed with LZ4.
pub(super) struct ArrowSink {
    writer: FileWriter<Destination>,
    shown: String,
}

impl ArrowSink {
    /// Writes the head of the file.
    pub(super) fn new(schema: &SchemaRef, destination: Destination) -> Result<Self> {
        let shown = destination.shown().to_owned();
        let writer = IpcWriteOptions::default()
            .try_with_compression(Some(CompressionType::LZ4_FRAME))
            .and_then(|options| FileWriter::try_new_with_options(destination, schema, options))
            .map_err(|cause| failed(&shown, cause))?;
        Ok(Self { writer, shown })
    }
}

impl Sink for ArrowSink {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = self.writer.write(batch);
        written.map_err(|cause| failed(&self.shown, cause))
    }

    fn settle(self: Box<Self>) -> Result<Settled> {
        let Self { writer, shown } = *self;
        // This writes the footer too.
        let destination = writer.into_inner().map_err(|cause| failed(&shown, cause))?;
        destination.settle()
    }

    fn is_closed(&self) -> bool {
        self.writer.get_ref().is_closed()
    }
}

fn failed(shown: &str, cause: ArrowError) -> Error {
    if let ArrowError::IoError(_, cause) = cause {
        return written(shown, cause);
    }
    let message = format!("cannot write {shown} as Arrow: {cause}");
    Error::new(ErrorKind::Refused, message).caused_by(cause)
}
