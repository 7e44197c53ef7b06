//! A prefix with more objects than memory should hold. The lists are scripted: no store at hand has so many objects in
//! reasonable time, and pages of keys are all that is asked for.

use std::{
    convert::Infallible,
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, header::RANGE, service::service_fn};
use hyper_util::rt::TokioIo;

use super::faulty::url_of;
use crate::support::{Database, Ran, TestDatabase};

const PAGE_KEYS: usize = 1_000;

/// Objects `p/part-0000000.csv` and so on, with one row each, which is their number.
struct Many {
    url: String,
    pages: Arc<AtomicUsize>,
}

impl Many {
    fn of(count: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let url = url_of(listener.local_addr().expect("an address"));
        let pages = Arc::new(AtomicUsize::new(0));
        let asked = pages.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
                while let Ok((connection, _)) = listener.accept().await {
                    let asked = asked.clone();
                    tokio::spawn(async move {
                        let answer = service_fn(move |request: Request<Incoming>| {
                            let answer = answer(&request, count, &asked);
                            async move { Ok::<_, Infallible>(answer) }
                        });
                        let http = hyper::server::conn::http1::Builder::new();
                        // A client may go when it likes.
                        let _ = http.serve_connection(TokioIo::new(connection), answer).await;
                    });
                }
            });
        });
        Self { url, pages }
    }

    fn run(&self, place: &TestDatabase, arguments: &str) -> Ran {
        let environment = [
            ("AWS_ENDPOINT_URL", self.url.as_str()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_SKIP_SIGNATURE", "true"),
        ];
        place.run_with(arguments, &environment, b"")
    }

    fn pages(&self) -> usize {
        self.pages.swap(0, Ordering::Relaxed)
    }
}

fn key(number: usize) -> String {
    format!("p/part-{number:07}.csv")
}

/// What a list says of each object.
fn entry(number: usize) -> String {
    format!(
        "<Contents><Key>{}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;{number}&quot;</ETag>\
         <Size>10</Size><StorageClass>STANDARD</StorageClass></Contents>",
        key(number)
    )
}

fn answer(request: &Request<Incoming>, count: usize, pages: &AtomicUsize) -> Response<Full<Bytes>> {
    let query = request.uri().query().unwrap_or_default();
    if query.contains("list-type=2") {
        pages.fetch_add(1, Ordering::Relaxed);
        let asked = |name: &str| {
            let value = query
                .split('&')
                .find_map(|pair| pair.strip_prefix(&format!("{name}=")));
            value.unwrap_or_default().replace("%2F", "/")
        };
        // Tokens are numbers, and all keys are in order.
        let from: usize = asked("continuation-token").parse().unwrap_or(0);
        let prefix = asked("prefix");
        let mut matching = (from..count).filter(|number| key(*number).starts_with(&prefix));
        let entries: String = matching.by_ref().take(PAGE_KEYS).map(entry).collect();
        let more = matching.next().map_or(String::new(), |next| {
            format!("<NextContinuationToken>{next}</NextContinuationToken>")
        });
        let list = format!(
            "<ListBucketResult><Name>lake</Name><Prefix>{prefix}</Prefix><IsTruncated>{}</IsTruncated>{more}{entries}\
             </ListBucketResult>",
            !more.is_empty()
        );
        return Response::new(Full::new(list.into()));
    }
    let number = request.uri().path().rsplit('-').next().unwrap_or_default();
    let number: usize = number.trim_end_matches(".csv").parse().unwrap_or(count);
    if number >= count {
        let missing = Response::builder().status(404);
        return missing.body(Full::default()).expect("an answer");
    }
    let body = format!("a\n{number:07}\n");
    let range = request.headers().get(RANGE).and_then(|range| range.to_str().ok());
    let (from, to) = range
        .and_then(|range| range.strip_prefix("bytes=")?.split_once('-'))
        .and_then(|(from, to)| Some((from.parse().ok()?, to.parse::<usize>().ok()? + 1)))
        .unwrap_or((0, body.len()));
    let to = to.min(body.len());
    let answer = Response::builder()
        .status(if range.is_some() { 206 } else { 200 })
        .header("etag", format!("\"{number}\""))
        .header("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        .header("content-range", format!("bytes {from}-{}/{}", to - 1, body.len()));
    answer
        .body(Full::new(Bytes::copy_from_slice(&body.as_bytes()[from..to])))
        .expect("an answer")
}

/// The most that the memory of a load may grow by for all objects that it does not take: 16 MiB.
const GROWTH_BYTES_MAX: u64 = 16 << 20;

#[test]
fn objects_that_are_not_taken_cost_no_memory() {
    let count = std::env::var("TONNAGE_TEST_OBJECTS")
        .ok()
        .and_then(|asked| asked.parse().ok());
    let count: usize = count.unwrap_or(120_000);
    let peak = |many: &Many, glob: &str, rows: usize| {
        let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
        let ran = many.run(&place, &format!("load '{glob}' {{db}} -t t --report r.json"));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(place.sql("SELECT count(*) FROM t"), [rows.to_string()]);
        let report: serde_json::Value = serde_json::from_str(&place.read("r.json")).expect("JSON");
        report["peak_memory_bytes"].as_u64().expect("a number")
    };
    let all = "s3://lake/p/*-000001?.csv";
    let few = Many::of(1_000);
    let least = peak(&few, all, 10);
    assert_eq!(few.pages(), 1);
    let many = Many::of(count);
    let most = peak(&many, all, 10);
    assert_eq!(
        many.pages(),
        count.div_ceil(PAGE_KEYS),
        "each page is asked for once"
    );
    assert!(most < least + GROWTH_BYTES_MAX, "{least} and {most} bytes");
    eprintln!("{count} objects: {most} bytes, of 1,000 {least}");
    // What begins otherwise is not even listed.
    peak(&many, "s3://lake/p/part-000001?.csv", 10);
    assert_eq!(many.pages(), 1);
    // More than a run may have.
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    for input in ["s3://lake/p/", "s3://lake/p/*.csv"] {
        let ran = many.run(&place, &format!("load '{input}' {{db}} -t t"));
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        let says = ran.stderr.contains("names more than 100,000 objects") && ran.stderr.contains("narrower");
        assert!(says, "{}", ran.stderr);
    }
}
