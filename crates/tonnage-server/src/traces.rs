//! Traces: a span a request, to a collector of OpenTelemetry.
//!
//! They go out as OTLP over HTTP with JSON, which every collector takes on the same path as protobuf; so nothing else is
//! needed of OpenTelemetry's libraries. What holds: without the usual variables nothing is recorded; a request never waits
//! for a collector; what waits for one is bounded, and what has no room is dropped and counted.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::{timeout, timeout_at},
};
use tonnage::{Error, Result};

use crate::access::hex;

/// Spans that wait for the collector.
const WAITING_MAX: usize = 4_096;
/// Spans of one request to it.
const BATCH_MAX: usize = 512;
/// How long spans are gathered.
const EVERY: Duration = Duration::from_secs(1);
/// What the collector has for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where spans go.
#[derive(Debug)]
struct Collector {
    url: String,
    headers: HeaderMap,
    resource: Value,
}

/// Takes spans.
#[derive(Debug)]
pub struct Traces {
    spans: mpsc::Sender<Recorded>,
}

/// What goes to the task that sends.
#[derive(Debug)]
enum Recorded {
    /// A span that has ended.
    Span(Value),
    /// What was recorded before is to be sent at once, and this told of it.
    Flush(oneshot::Sender<()>),
}

/// A request that is under way.
#[derive(Debug)]
pub struct Span {
    trace: String,
    parent: Option<String>,
    started: SystemTime,
}

/// What became of it.
pub struct Outcome<'a> {
    /// The route, `other` where there is none.
    pub route: &'a str,
    /// The method.
    pub method: &'a Method,
    /// The status.
    pub status: u16,
    /// The code of a refusal.
    pub code: Option<&'a str>,
}

impl Collector {
    /// As the environment says; none where it names no collector. `Config` where what it says cannot be used.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let is =
            |name: &str, value: &str| variable(name).is_some_and(|text| text.eq_ignore_ascii_case(value));
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        let url = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| {
            let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(format!("{}/v1/traces", base.trim_end_matches('/')))
        });
        let Some(url) = url else {
            return Ok(None);
        };
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Error::config(format!("traces cannot be sent to {url}"))
                .hint("OTEL_EXPORTER_OTLP_ENDPOINT is the collector's for HTTP: http://localhost:4318"));
        }
        let protocol = variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            .or_else(|| variable("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if protocol.is_some_and(|protocol| protocol == "grpc") {
            return Err(Error::config("traces are not sent by gRPC")
                .hint("OTEL_EXPORTER_OTLP_PROTOCOL=http/json, to the collector's port for HTTP (4318)"));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in pairs(&variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default()) {
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
            url,
            headers,
            resource: json!({ "attributes": attributes }),
        }))
    }
}

impl Collector {
    /// Sends spans; what it does not take is dropped and told.
    async fn take(&self, client: &reqwest::Client, spans: Vec<Value>) {
        let count = spans.len();
        let scope = json!({ "name": "tonnage-server", "version": env!("CARGO_PKG_VERSION") });
        let body = json!({ "resourceSpans": [{
            "resource": self.resource,
            "scopeSpans": [{ "scope": scope, "spans": spans }],
        }] });
        let asked = client.post(&self.url).headers(self.headers.clone());
        let sent = asked.body(body.to_string()).send().await;
        if let Err(error) = sent.and_then(reqwest::Response::error_for_status) {
            tracing::warn!(
                "{count} spans were not taken by the collector: {}",
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

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn nanos(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}

/// A random name of so many bytes; without random bytes there is none, and nothing is recorded.
fn random<const BYTES: usize>() -> Option<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Some(hex(&bytes))
}

/// The trace and the span that a request belongs to, and whether it is recorded: the header `traceparent` of W3C.
pub fn parent(headers: &HeaderMap) -> Option<(String, String, bool)> {
    let mut parts = headers.get("traceparent")?.to_str().ok()?.split('-');
    let is_hex = |text: &&str, digits: usize| {
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        text.len() == digits && text.chars().all(is_digit) && text.contains(|c| c != '0')
    };
    let _version = parts
        .next()
        .filter(|version| version.len() == 2 && *version != "ff")?;
    let trace = parts.next().filter(|trace| is_hex(trace, 32))?;
    let span = parts.next().filter(|span| is_hex(span, 16))?;
    let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
    Some((trace.to_owned(), span.to_owned(), flags & 1 == 1))
}

impl Traces {
    /// As the environment says; none where nothing is asked for. Must be called within an async runtime.
    pub fn start() -> Result<Option<Self>> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let Some(collector) = Collector::of(variable)? else {
            return Ok(None);
        };
        let client = reqwest::Client::builder().timeout(PATIENCE).build();
        let client = client.map_err(|error| Error::config(format!("traces cannot be sent: {error}")))?;
        let (spans, waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(send(collector, client, waiting));
        Ok(Some(Self { spans }))
    }

    /// Waits until what was recorded is sent, within what a collector has for an answer.
    pub async fn flush(&self) {
        let (told, done) = oneshot::channel();
        let flushing = async {
            if self.spans.send(Recorded::Flush(told)).await.is_ok() {
                let _ = done.await;
            }
        };
        let _ = timeout(PATIENCE, flushing).await;
    }

    /// A request that begins; none where its caller has decided that it is not recorded.
    pub fn begin(&self, headers: &HeaderMap) -> Option<Span> {
        let (trace, parent) = match parent(headers) {
            Some((_, _, false)) => return None,
            Some((trace, parent, true)) => (trace, Some(parent)),
            None => (random::<16>()?, None),
        };
        Some(Span {
            trace,
            parent,
            started: SystemTime::now(),
        })
    }

    /// It has been answered.
    pub fn end(&self, span: Span, outcome: &Outcome<'_>) {
        let Some(id) = random::<8>() else {
            return;
        };
        let mut attributes = vec![
            text("http.request.method", outcome.method.as_str()),
            text("http.route", outcome.route),
            json!({ "key": "http.response.status_code", "value": { "intValue": outcome.status.to_string() } }),
        ];
        attributes.extend(outcome.code.map(|code| text("error.type", code)));
        let ended = json!({
            "traceId": span.trace,
            "spanId": id,
            "parentSpanId": span.parent.unwrap_or_default(),
            "name": format!("{} {}", outcome.method, outcome.route),
            // A server's.
            "kind": 2,
            "startTimeUnixNano": nanos(span.started),
            "endTimeUnixNano": nanos(SystemTime::now()),
            "attributes": attributes,
            // As the conventions have it, an error is one of the server.
            "status": if outcome.status >= 500 { json!({ "code": 2 }) } else { json!({}) },
        });
        if self.spans.try_send(Recorded::Span(ended)).is_err() {
            tracing::debug!("a span is dropped: the collector does not keep up");
        }
    }
}

/// Sends spans until nobody makes any more.
async fn send(collector: Collector, client: reqwest::Client, mut waiting: mpsc::Receiver<Recorded>) {
    while let Some(first) = waiting.recv().await {
        let (mut spans, mut flush) = (Vec::new(), None);
        let mut next = Some(first);
        let gathering = tokio::time::Instant::now() + EVERY;
        loop {
            match next {
                Some(Recorded::Span(span)) => spans.push(span),
                Some(Recorded::Flush(told)) => flush = Some(told),
                None => break,
            }
            if flush.is_some() || spans.len() >= BATCH_MAX {
                break;
            }
            next = timeout_at(gathering, waiting.recv()).await.unwrap_or_default();
        }
        if !spans.is_empty() {
            collector.take(&client, spans).await;
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
        Collector::of(|name| {
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

    #[test]
    fn a_request_belongs_to_the_trace_of_its_caller() {
        let with = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", HeaderValue::from_static(text));
            parent(&headers)
        };
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let found = with("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        assert_eq!(
            found,
            Some((trace.to_owned(), "00f067aa0ba902b7".to_owned(), true))
        );
        let unsampled = with("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
        assert!(unsampled.is_some_and(|(.., is_recorded)| !is_recorded));
        for nothing in [
            "",
            "00-4bf9-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        ] {
            assert_eq!(with(nothing), None, "{nothing}");
        }
    }
}
