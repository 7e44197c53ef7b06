//! What goes to the client: batches as Flight data, errors as statuses.

use std::pin::Pin;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use arrow_flight::{FlightData, encode::FlightDataEncoderBuilder, error::FlightError};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tonic::{Code, Status};
use tonnage_core::error::{Error, ErrorKind};
use tonnage_engine::unload::Batches;

/// What a DoGet answers with.
pub(crate) type Answer = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// Batches of a database.
pub(crate) fn of_batches(batches: Batches) -> Answer {
    let schema = batches.schema().clone();
    let next = |mut batches: Batches| async move {
        match batches.next().await {
            Ok(Some(batch)) => Ok(Some((batch, batches))),
            Ok(None) => Ok(None),
            Err(error) => Err(FlightError::from(status(&error))),
        }
    };
    encoded(schema, stream::try_unfold(batches, next))
}

/// A batch that was made here.
pub(crate) fn of_batch(batch: RecordBatch) -> Answer {
    encoded(batch.schema(), stream::iter([Ok(batch)]))
}

fn encoded(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static,
) -> Answer {
    let encoder = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
    encoder.map_err(Status::from).boxed()
}

/// The status of an error, with its hint and its code.
pub(crate) fn status(error: &Error) -> Status {
    let code = match error.kind() {
        ErrorKind::Config | ErrorKind::Input | ErrorKind::Rejected => Code::InvalidArgument,
        ErrorKind::Schema => Code::NotFound,
        ErrorKind::Refused | ErrorKind::Altered | ErrorKind::Fenced => Code::FailedPrecondition,
        ErrorKind::Cancelled => Code::Cancelled,
        ErrorKind::Overloaded => Code::ResourceExhausted,
        ErrorKind::Unsent => Code::Unavailable,
        ErrorKind::InDoubt | ErrorKind::Uncertain => Code::Unknown,
        ErrorKind::Bug => Code::Internal,
    };
    let mut message = error.to_string();
    if let Some(code) = error.code_text() {
        message.push_str(&format!(" ({code})"));
    }
    if let Some(hint) = error.hint_text() {
        message.push_str(&format!("\nhint: {hint}"));
    }
    Status::new(code, message)
}

/// [`status`], for `map_err`.
pub(crate) fn failed(error: Error) -> Status {
    status(&error)
}

/// What a client asked for that is not offered, and what there is instead.
pub(crate) fn not_offered(what: &str, instead: &str) -> Status {
    Status::unimplemented(format!("{what} are not offered\nhint: {instead}"))
}
