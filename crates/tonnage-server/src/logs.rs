//! Log lines, to a collector of OpenTelemetry: what goes to standard error goes there as well, once a server has started.

use std::{
    fmt::{Debug, Write},
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use serde_json::{Value, json};
use tonnage::Result;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use crate::otlp::{Exporter, Signal, nanos, text};

/// What sends lines, once it is known where to: logging begins before there is a runtime to send with.
static EXPORTER: OnceLock<Option<Arc<Exporter>>> = OnceLock::new();

/// Passes log lines on to the collector that the usual variables name, from when a server starts in this process.
#[derive(Debug, Default)]
pub struct CollectorLayer;

/// Begins to send, where the environment names a collector. `Config` where what it says cannot be used.
pub(crate) fn start() -> Result<()> {
    let exporter = Exporter::start(Signal::Logs)?.map(Arc::new);
    // A second server of this process logs to where the first does.
    let _ = EXPORTER.set(exporter);
    Ok(())
}

/// Waits until what was logged is sent, for some seconds at most.
pub async fn flush_logs() {
    if let Some(Some(exporter)) = EXPORTER.get() {
        exporter.flush().await;
    }
}

impl<S: Subscriber> Layer<S> for CollectorLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(Some(exporter)) = EXPORTER.get() else {
            return;
        };
        // What is said of a collector that takes nothing is not for it.
        if event
            .metadata()
            .target()
            .starts_with(concat!(env!("CARGO_CRATE_NAME"), "::otlp"))
        {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields.attributes.push(text("target", event.metadata().target()));
        let now = nanos(SystemTime::now());
        let (number, name) = severity(*event.metadata().level());
        exporter.record(json!({
            "timeUnixNano": now,
            "observedTimeUnixNano": now,
            "severityNumber": number,
            "severityText": name,
            "body": { "stringValue": fields.message },
            "attributes": fields.attributes,
        }));
    }
}

/// As OpenTelemetry numbers and names them.
fn severity(level: Level) -> (u8, &'static str) {
    match level {
        Level::ERROR => (17, "ERROR"),
        Level::WARN => (13, "WARN"),
        Level::INFO => (9, "INFO"),
        Level::DEBUG => (5, "DEBUG"),
        Level::TRACE => (1, "TRACE"),
    }
}

/// The message of a line, and what is said beside it.
#[derive(Default)]
struct Fields {
    message: String,
    attributes: Vec<Value>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // A string takes all that is written to it.
            let _ = write!(self.message, "{value:?}");
        } else {
            self.attributes.push(text(field.name(), &format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.attributes.push(text(field.name(), value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attributes
            .push(json!({ "key": field.name(), "value": { "intValue": value.to_string() } }));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.attributes
            .push(json!({ "key": field.name(), "value": { "intValue": value.to_string() } }));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.attributes
            .push(json!({ "key": field.name(), "value": { "boolValue": value } }));
    }
}
