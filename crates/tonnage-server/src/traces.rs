//! Traces: a span a request, to a collector of OpenTelemetry.

use std::time::SystemTime;

use axum::http::{HeaderMap, Method};
use serde_json::json;
use tonnage::Result;

use crate::{
    access::hex,
    otlp::{Exporter, Signal, nanos, text},
};

/// Takes spans.
#[derive(Debug)]
pub struct Traces {
    exporter: Exporter,
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
    /// As the environment says; none where nothing is asked for. `Config` where what it says cannot be used. Must be called
    /// within an async runtime.
    pub fn start() -> Result<Option<Self>> {
        let exporter = Exporter::start(Signal::Traces)?;
        Ok(exporter.map(|exporter| Self { exporter }))
    }

    /// Waits until what was recorded is sent, within what a collector has for an answer.
    pub async fn flush(&self) {
        self.exporter.flush().await;
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
        if !self.exporter.record(ended) {
            tracing::debug!("a span is dropped: the collector does not keep up");
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

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
