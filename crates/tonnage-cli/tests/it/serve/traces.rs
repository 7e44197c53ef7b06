//! Traces and logs, as a collector of OpenTelemetry gets them: a scripted one, which notes what is posted to it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;

use super::{Serve, state, url};
use crate::{
    process::tonnage,
    support::{Database, TestDatabase},
};

/// Paths and bodies.
type Posted = Arc<Mutex<Vec<(String, String, Value)>>>;

/// A collector on a free port; its address, and what was posted.
fn collector() -> (String, Posted) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let posted = Posted::default();
    let noted = posted.clone();
    // Ends with the test's process.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Spans and log lines come by connections of their own, which stay open.
            let noted = noted.clone();
            thread::spawn(move || take(stream, &noted));
        }
    });
    (address, posted)
}

/// Answers the requests of a connection until its peer ends it, and notes them.
fn take(stream: TcpStream, noted: &Posted) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
            head.push_str(&line);
            line.clear();
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse().ok())?
        });
        let Some(length) = length else { break };
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a whole body");
        let body = serde_json::from_slice(&body).expect("JSON");
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        noted
            .lock()
            .expect("no panic")
            .push((path, head.to_ascii_lowercase(), body));
        let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        reader.get_mut().write_all(answer).expect("sent");
    }
}

#[test]
fn a_collector_gets_a_span_of_every_request_and_the_log() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (id integer PRIMARY KEY)", &[]);
    let (address, posted) = collector();
    let mut command = tonnage();
    command
        .args(["serve", &url(&place), "--listen", "127.0.0.1:0", "--state"])
        .arg(state(&place))
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"))
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20secret")
        .env("OTEL_SERVICE_NAME", "gate");
    let server = Serve::run(&mut command);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let media = "Content-Type: application/json";
    let within = |flags: &str| format!("traceparent: 00-{trace}-00f067aa0ba902b7-{flags}");
    let rows = "/v1/tables/t/rows?ack=committed";
    server
        .send("POST", rows, &[media, &within("01")], b"{\"id\":1}")
        .expect(200);
    // Its caller does not record this one.
    server
        .send("POST", rows, &[media, &within("00")], b"{\"id\":2}")
        .expect(200);
    server.send("GET", "/v1/tables/nothing", &[], b"").expect(404);
    server.stop().expect(0);
    let posted = posted.lock().expect("no panic").clone();
    let mut spans = Vec::new();
    let logs = posted.iter().filter(|(path, ..)| path == "/v1/logs");
    let lines: Vec<_> = logs
        .filter_map(|(.., body)| body["resourceLogs"][0]["scopeLogs"][0]["logRecords"].as_array())
        .flatten()
        .collect();
    // The audit's line of the request that was refused, as on standard error.
    assert!(
        lines
            .iter()
            .any(|line| line["severityText"] == "INFO" && line.to_string().contains("no_table")),
        "{lines:?}"
    );
    for (path, head, body) in posted.iter().filter(|(path, ..)| path != "/v1/logs") {
        assert_eq!(path, "/v1/traces");
        assert!(
            head.contains("x-key: a secret") && head.contains("content-type: application/json"),
            "{head}"
        );
        let resource = &body["resourceSpans"][0];
        assert!(resource["resource"].to_string().contains("gate"), "{resource}");
        spans.extend(
            resource["scopeSpans"][0]["spans"]
                .as_array()
                .expect("spans")
                .clone(),
        );
    }
    assert_eq!(spans.len(), 2, "{spans:?}");
    assert_eq!(spans[0]["name"], "POST /v1/tables/{table}/rows");
    assert_eq!(
        (&spans[0]["traceId"], &spans[0]["parentSpanId"]),
        (&trace.into(), &"00f067aa0ba902b7".into())
    );
    let nanos = |name: &str| {
        spans[0][name]
            .as_str()
            .and_then(|text| text.parse::<u64>().ok())
            .expect("a time")
    };
    assert!(nanos("endTimeUnixNano") > nanos("startTimeUnixNano"));
    assert_eq!(spans[1]["parentSpanId"], "");
    assert!(
        spans[1]["attributes"].to_string().contains("no_table"),
        "{}",
        spans[1]
    );
}

#[test]
fn a_collector_that_is_away_holds_nobody_up() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (id integer PRIMARY KEY)", &[]);
    let mut command = tonnage();
    command
        .args(["serve", &url(&place), "--listen", "127.0.0.1:0", "--state"])
        .arg(state(&place))
        // Nobody listens there.
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let server = Serve::run(&mut command);
    server
        .put("/v1/tables/t/rows?ack=committed", "{\"id\":1}\n")
        .expect(200);
    let ended = server.stop();
    ended.expect(0);
    assert!(
        ended.stderr.contains("not taken by the collector"),
        "{}",
        ended.stderr
    );
}
