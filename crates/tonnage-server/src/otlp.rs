//! What goes to a collector of OpenTelemetry: spans ([`traces`](super::traces)) and log lines ([`logs`](super::logs)).
//!
//! Both go out as OTLP over HTTP with JSON, which every collector takes on the same path as protobuf; so nothing else is
//! needed of OpenTelemetry's libraries. What holds: without the usual variables nothing is recorded; nobody waits for a
//! collector; what waits for one is bounded, and what has no room is dropped.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::{timeout, timeout_at},
};
use tonnage::{Error, Result};

/// Records that wait for the collector.
const WAITING_MAX: usize = 4_096;
/// Records of one request to it.
const BATCH_MAX: usize = 512;
/// How long records are gathered.
const EVERY: Duration = Duration::from_secs(1);
/// What the collector has for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is sent: each kind has its path, its variables and its envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Log lines.
    Logs,
}

impl Signal {
    /// Its name in paths and, in capitals, in variables.
    fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Logs => "logs",
        }
    }

    /// A variable of its own: `OTEL_EXPORTER_OTLP_LOGS_ENDPOINT`.
    fn variable(self, what: &str) -> String {
        format!("OTEL_EXPORTER_OTLP_{}_{what}", self.name().to_uppercase())
    }

    /// The body of a request.
    fn envelope(self, resource: &Value, records: Vec<Value>) -> Value {
        let scope = json!({ "name": "tonnage-server", "version": env!("CARGO_PKG_VERSION") });
        match self {
            Self::Traces => json!({ "resourceSpans": [{
                "resource": resource,
                "scopeSpans": [{ "scope": scope, "spans": records }],
            }] }),
            Self::Logs => json!({ "resourceLogs": [{
                "resource": resource,
                "scopeLogs": [{ "scope": scope, "logRecords": records }],
            }] }),
        }
    }
}

/// Where records go.
#[derive(Debug)]
struct Collector {
    signal: Signal,
    url: String,
    headers: HeaderMap,
    resource: Value,
}

/// Takes records and sends them.
#[derive(Debug)]
pub struct Exporter {
    records: mpsc::Sender<Recorded>,
}

/// What goes to the task that sends.
#[derive(Debug)]
enum Recorded {
    /// A span that has ended, or a log line.
    Record(Value),
    /// What was recorded before is to be sent at once, and this told of it.
    Flush(oneshot::Sender<()>),
}

impl Exporter {
    /// As the environment says; none where nothing is asked for. `Config` where what it says cannot be used. Must be called
    /// within an async runtime.
    pub fn start(signal: Signal) -> Result<Option<Self>> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(collector) = Collector::of(signal, variable)? else {
            return Ok(None);
        };
        let client = reqwest::Client::builder().timeout(PATIENCE).build();
        let client =
            client.map_err(|error| Error::config(format!("{} cannot be sent: {error}", signal.name())))?;
        let (records, waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(send(collector, client, waiting));
        Ok(Some(Self { records }))
    }

    /// Sends a record when its turn comes; whether there was room for it.
    pub fn record(&self, record: Value) -> bool {
        self.records.try_send(Recorded::Record(record)).is_ok()
    }

    /// Waits until what was recorded is sent, within what a collector has for an answer.
    pub async fn flush(&self) {
        let (told, done) = oneshot::channel();
        let flushing = async {
            if self.records.send(Recorded::Flush(told)).await.is_ok() {
                let _ = done.await;
            }
        };
        let _ = timeout(PATIENCE, flushing).await;
    }
}

impl Collector {
    /// As the environment says; none where it names no collector. `Config` where what it says cannot be used.
    fn of(signal: Signal, variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let is =
            |name: &str, value: &str| variable(name).is_some_and(|text| text.eq_ignore_ascii_case(value));
        let what = signal.name();
        let exporter = format!("OTEL_{}_EXPORTER", what.to_uppercase());
        if is("OTEL_SDK_DISABLED", "true") || is(&exporter, "none") {
            return Ok(None);
        }
        let url = variable(&signal.variable("ENDPOINT")).or_else(|| {
            let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(format!("{}/v1/{what}", base.trim_end_matches('/')))
        });
        let Some(url) = url else {
            return Ok(None);
        };
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Error::config(format!("{what} cannot be sent to {url}"))
                .hint("OTEL_EXPORTER_OTLP_ENDPOINT is the collector's for HTTP: http://localhost:4318"));
        }
        let protocol =
            variable(&signal.variable("PROTOCOL")).or_else(|| variable("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if protocol.is_some_and(|protocol| protocol == "grpc") {
            return Err(Error::config(format!("{what} are not sent by gRPC"))
                .hint("OTEL_EXPORTER_OTLP_PROTOCOL=http/json, to the collector's port for HTTP (4318)"));
        }
        let mut headers = HeaderMap::new();
        let own = variable(&signal.variable("HEADERS"));
        let given = own.or_else(|| variable("OTEL_EXPORTER_OTLP_HEADERS"));
        for (name, value) in pairs(&given.unwrap_or_default()) {
            let wrong = || Error::config(format!("OTEL_EXPORTER_OTLP_HEADERS: '{name}' is no header"));
            let mut value = HeaderValue::from_str(&value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            headers.insert(
                HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?,
                value,
            );
        }
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut attributes: Vec<Value> = pairs(&variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default())
            .filter(|(name, _)| name != "service.name" || variable("OTEL_SERVICE_NAME").is_none())
            .map(|(name, value)| text(&name, &value))
            .collect();
        let service = variable("OTEL_SERVICE_NAME");
        if service.is_some() || !attributes.iter().any(|known| known["key"] == "service.name") {
            attributes.push(text("service.name", service.as_deref().unwrap_or("tonnage")));
        }
        Ok(Some(Self {
            signal,
            url,
            headers,
            resource: json!({ "attributes": attributes }),
        }))
    }
}

impl Collector {
    /// Sends records; what it does not take is dropped and said.
    async fn take(&self, client: &reqwest::Client, records: Vec<Value>) {
        let count = records.len();
        let body = self.signal.envelope(&self.resource, records);
        let asked = client.post(&self.url).headers(self.headers.clone());
        let sent = asked.body(body.to_string()).send().await;
        if let Err(error) = sent.and_then(reqwest::Response::error_for_status) {
            tracing::warn!(
                "{count} {} were not taken by the collector: {}",
                match self.signal {
                    Signal::Traces => "spans",
                    Signal::Logs => "log lines",
                },
                error.without_url()
            );
        }
    }
}

/// `name=value,name=value`, with percent signs.
fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split(',').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8_lossy();
        Some((name.trim().to_owned(), value.into_owned()))
    })
}

/// An attribute.
pub fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Nanoseconds since 1970, as OTLP has them in JSON.
pub fn nanos(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}

/// Sends records until nobody makes any more.
async fn send(collector: Collector, client: reqwest::Client, mut waiting: mpsc::Receiver<Recorded>) {
    while let Some(first) = waiting.recv().await {
        let (mut records, mut flush) = (Vec::new(), None);
        let mut next = Some(first);
        let gathering = tokio::time::Instant::now() + EVERY;
        loop {
            match next {
                Some(Recorded::Record(record)) => records.push(record),
                Some(Recorded::Flush(told)) => flush = Some(told),
                None => break,
            }
            if flush.is_some() || records.len() >= BATCH_MAX {
                break;
            }
            next = timeout_at(gathering, waiting.recv()).await.unwrap_or_default();
        }
        if !records.is_empty() {
            collector.take(&client, records).await;
        }
        if let Some(told) = flush {
            // Whoever waits may have gone.
            let _ = told.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Option<Collector>> {
        Collector::of(Signal::Traces, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_usual_variables_say_where_spans_go() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318/");
        let found = of(&[base, ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%20c, d=e")])
            .unwrap()
            .unwrap();
        assert_eq!(found.url, "http://localhost:4318/v1/traces");
        assert_eq!(
            (&found.headers["a"], &found.headers["d"]),
            (&"b c".parse().unwrap(), &"e".parse().unwrap())
        );
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c.example/x");
        assert_eq!(of(&[base, own]).unwrap().unwrap().url, "https://c.example/x");
        for nothing in [
            &[][..],
            &[base, ("OTEL_SDK_DISABLED", "true")],
            &[base, ("OTEL_TRACES_EXPORTER", "none")],
        ] {
            assert!(of(nothing).unwrap().is_none());
        }
        for wrong in [
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4317")][..],
            &[base, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
            &[base, ("OTEL_EXPORTER_OTLP_HEADERS", "a b=c")],
        ] {
            assert!(of(wrong).is_err());
        }
        let logs = Collector::of(Signal::Logs, |name| (name == base.0).then(|| base.1.to_owned()));
        assert_eq!(logs.unwrap().unwrap().url, "http://localhost:4318/v1/logs");
        let named = [
            base,
            ("OTEL_SERVICE_NAME", "gate"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=x,zone=eu"),
        ];
        let resource = of(&named).unwrap().unwrap().resource.to_string();
        assert!(
            resource.contains("gate") && resource.contains("zone") && !resource.contains("\"x\""),
            "{resource}"
        );
    }
}
