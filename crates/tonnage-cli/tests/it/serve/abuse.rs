//! Senders that drip, connections that do nothing, bodies that grow, a disk that is full, requests of any kind: what is
//! wrong is refused, and everything else goes on.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use super::{Serve, state, url, written};
use crate::{
    events::Chance,
    faults::room::Disk,
    support::{Database, TestDatabase},
};

const TABLE: &str =
    "CREATE TABLE t (id integer PRIMARY KEY, v text); CREATE TABLE other (id integer PRIMARY KEY, v text)";

/// Sends `begin`, and then a byte now and then; how it is answered.
fn drip(address: &str, begin: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let mut reading = stream.try_clone().expect("the same connection");
    stream.write_all(begin.as_bytes()).expect("sent");
    let dripping = thread::spawn(move || {
        while stream.write_all(b"a").is_ok() {
            thread::sleep(Duration::from_millis(50));
        }
    });
    let mut answer = Vec::new();
    let _ = reading.read_to_end(&mut answer);
    drop(reading);
    dripping.join().expect("it ends with the connection");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    answer.split(' ').nth(1).unwrap_or("closed").to_owned()
}

#[test]
fn senders_that_drip_are_given_up_and_hold_nobody_up() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    let server = Serve::configured(&place, "[limits]\nsender_seconds = 1\nrequests = 2\n");
    let head = "POST /v1/tables/t/rows HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n";
    // A head, a body that is read at once, and one that is read as it comes.
    let begins = [
        format!("{head}X"),
        format!("{head}Content-Length: 5000\r\n\r\n{{"),
        format!("{head}Content-Length: 50000000\r\n\r\n{{"),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n5000000\r\n{{"),
    ];
    let dripping: Vec<_> = (0..40)
        .map(|number| {
            let (begin, address) = (begins[number % begins.len()].clone(), server.address().to_owned());
            thread::spawn(move || (number % 4, drip(&address, &begin)))
        })
        .collect();
    for id in 0..20 {
        let row = format!("{{\"id\":{id}}}\n");
        server
            .put("/v1/tables/other/rows?ack=committed", &row)
            .expect(200);
        server.put("/v1/tables/t/rows?ack=committed", &row).expect(200);
    }
    let mut ends: BTreeMap<(usize, String), usize> = BTreeMap::new();
    for dripping in dripping {
        *ends.entry(dripping.join().expect("it ends")).or_default() += 1;
    }
    for (kind, status) in ends.keys() {
        // The third and the fourth are large: two at once may be.
        let known: &[&str] = match kind {
            0 => &["408", "closed"],
            1 => &["408"],
            _ => &["408", "429"],
        };
        assert!(known.contains(&status.as_str()), "{ends:?}");
    }
    assert!(
        ends.contains_key(&(2, "408".to_owned())) || ends.contains_key(&(3, "408".to_owned())),
        "{ends:?}"
    );
    // Nobody is left who holds a place.
    let large = "{\"id\":99}\n".to_owned() + &" \n".repeat(70_000);
    server.put("/v1/tables/t/rows?ack=committed", &large).expect(200);
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["21"]);
}

#[test]
fn a_connection_that_says_nothing_or_half_of_a_greeting_is_closed() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    let server = Serve::configured(&place, "[limits]\nsender_seconds = 1\n");
    let silent: Vec<TcpStream> = [
        "",
        "P",
        "PRI * HTTP/2",
        "G",
        "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ]
    .iter()
    .map(|begin| {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.write_all(begin.as_bytes()).expect("sent");
        stream
    })
    .collect();
    for mut stream in silent {
        let mut answer = Vec::new();
        // It ends: else this test would not.
        let _ = stream.read_to_end(&mut answer);
    }
    server.get("/livez").expect(200);
}

#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let place = TestDatabase::with(
        Database::Sqlite,
        "CREATE TABLE t (id integer PRIMARY KEY, v text);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
         INSERT INTO t SELECT i, printf('%01000d', i) FROM n",
        &[],
    );
    let server = Serve::configured(&place, "[limits]\nreader_seconds = 1\n");
    let mut stream = TcpStream::connect(server.address()).expect("a connection");
    let request = "GET /v1/tables/t/export HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("sent");
    while !server
        .said()
        .contains("an answer was cut off: its client takes nothing")
    {
        thread::sleep(Duration::from_millis(20));
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(
        answer.starts_with(b"HTTP/1.1 200 OK") && !answer.ends_with(b"\r\n0\r\n\r\n"),
        "it does not look whole"
    );
    // Whoever reads gets all of it.
    let whole = server.get("/v1/tables/t/export").expect(200).text();
    assert_eq!(whole.lines().count(), 60_000);
    server.stop().expect(0);
}

#[test]
fn ten_thousand_idle_connections_cost_little_and_hold_nobody_up() {
    const COUNT: u64 = 10_000;
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    let mut command = Command::new("sh");
    let script = format!("ulimit -n {} && exec \"$0\" \"$@\"", COUNT + 2_000);
    command
        .args([
            "-c",
            &script,
            env!("CARGO_BIN_EXE_tonnage"),
            "serve",
            &url(&place),
            "--listen",
            "127.0.0.1:0",
        ])
        .arg("--state")
        .arg(state(&place));
    let server = Serve::run(&mut command);
    server
        .put("/v1/tables/t/rows?ack=committed", "{\"id\":1}\n")
        .expect(200);
    let before = server.memory("VmRSS");
    let (host, port) = server.address().split_once(':').expect("host and port");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/serve/idle.py");
    let mut holding = Command::new("python3")
        .arg(script)
        .args([host, port, &COUNT.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut said = String::new();
    BufReader::new(holding.stdout.take().expect("a pipe"))
        .read_line(&mut said)
        .expect("text");
    assert_eq!(said, "open\n");
    let after = server.memory("VmRSS");
    for id in 2..50 {
        server
            .put("/v1/tables/t/rows?ack=committed", &format!("{{\"id\":{id}}}\n"))
            .expect(200);
    }
    let each = (after - before) as f64 / COUNT as f64;
    eprintln!(
        "{COUNT} idle connections take {} KiB, {each:.1} each",
        after - before
    );
    assert!(each < 64.0, "an idle connection takes {each:.1} KiB");
    drop(holding.stdin.take());
    assert!(holding.wait().expect("it ends").success());
    server.stop().expect(0);
}

#[test]
fn a_body_that_grows_costs_its_bound_and_no_more() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    let server = Serve::configured(&place, "[limits]\ndecompressed = \"64MiB\"\n");
    // 1 GiB once it is read, by zeros and by blank lines.
    let mebibyte = |byte: u8| vec![byte; 1 << 20];
    let gzip = |byte: u8| {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        (0..1_024).for_each(|_| writer.write_all(&mebibyte(byte)).expect("written"));
        writer.finish().expect("written")
    };
    let zstd = |byte: u8, window: u32| {
        let mut writer = zstd::stream::Encoder::new(Vec::new(), 3).expect("an encoder");
        writer.window_log(window).expect("a window");
        (0..1_024).for_each(|_| writer.write_all(&mebibyte(byte)).expect("written"));
        writer.finish().expect("written")
    };
    server
        .put("/v1/tables/t/rows?ack=committed", "{\"id\":1}\n")
        .expect(200);
    let before = server.memory("VmHWM");
    for byte in [b'\n', b'0', b'['] {
        for (coding, body, status) in [
            ("gzip", gzip(byte), 413),
            ("zstd", zstd(byte, 21), 413),
            // A frame that asks for 128 MiB to be read.
            ("zstd", zstd(byte, 27), 400),
        ] {
            for media in ["application/x-ndjson", "application/json", "text/csv"] {
                let headers = [
                    format!("Content-Type: {media}"),
                    format!("Content-Encoding: {coding}"),
                ];
                let headers = headers.each_ref().map(String::as_str);
                let answer = server.send("POST", "/v1/tables/t/rows", &headers, &body);
                // What is no JSON, or too long a row, is seen before its end is.
                let is_early = byte != b'\n' && [400, 413].contains(&answer.status);
                assert!(
                    answer.status == status || is_early,
                    "{media} {coding} {byte}: {}",
                    answer.text()
                );
            }
        }
    }
    let grown = server.memory("VmHWM") - before;
    eprintln!("bodies of 1 GiB in some kilobytes: the server has grown by {grown} KiB");
    // 27 GiB in all, and 64 MiB each before it is refused.
    assert!(grown < 256 << 10, "{grown} KiB");
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["1"]);
    server.stop().expect(0);
}

#[test]
fn a_full_disk_under_the_journal_is_told_and_nothing_acknowledged_is_lost() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    let directory = place.path("disk");
    std::fs::create_dir(&directory).expect("a directory");
    let user = String::from_utf8(Command::new("id").arg("-un").output().expect("id").stdout).expect("text");
    let user = user.trim();
    let disk = Disk::mount(&directory, user).expect("a small disk");
    let mut command = disk.run(user, env!("CARGO_BIN_EXE_tonnage").into());
    let file = written(
        &place,
        "[limits]\nwait_seconds = 1\n[[listen]]\naddress = \"127.0.0.1:0\"\n",
    );
    command
        .args(["serve", "--config", &file, "--state"])
        .arg(directory.join("state"));
    let server = Serve::run(&mut command);
    let mut acknowledged = Vec::new();
    let mut id = 0;
    let mut put = |server: &Serve, wanted: bool| {
        let mut statuses = BTreeMap::new();
        for _ in 0..3_000 {
            id += 1;
            let row = format!("{{\"id\":{id},\"v\":\"{}\"}}\n", "x".repeat(2_000));
            let answer = server.put("/v1/tables/t/rows?mode=ignore", &row);
            *statuses.entry(answer.status).or_insert(0) += 1;
            match answer.status {
                200 => acknowledged.push(id),
                429 | 503 | 504 | 507 => thread::sleep(Duration::from_millis(2)),
                _ => panic!("{}", answer.text()),
            }
            if (answer.status == 200) == wanted {
                return statuses;
            }
        }
        panic!("it does not come to that: {statuses:?}");
    };
    put(&server, true);
    disk.leave(user, Some(0));
    let statuses = put(&server, false);
    eprintln!("on a full disk: {statuses:?}");
    let ready = server.get("/readyz").expect(503);
    assert_eq!(ready.code(), "not_ready");
    server.get("/livez").expect(200);
    disk.leave(user, None);
    put(&server, true);
    server.get("/readyz").expect(200);
    server.until_drained();
    server.stop().expect(0);
    let found = place.sql("SELECT id FROM t ORDER BY id");
    let found: Vec<u64> = found.iter().map(|id| id.parse().expect("a number")).collect();
    let missing: Vec<_> = acknowledged.iter().filter(|id| !found.contains(id)).collect();
    assert!(
        missing.is_empty() && acknowledged.len() > 1,
        "{missing:?} of {}",
        acknowledged.len()
    );
}

/// One of them.
fn one<'a>(chance: &mut Chance, of: &[&'a str]) -> &'a str {
    of[chance.below(of.len() as u64) as usize]
}

#[test]
fn no_request_breaks_it() {
    let requests = std::env::var("TONNAGE_SERVE_REQUESTS");
    let requests: u64 = requests
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(3_000);
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    let server = Serve::configured(&place, "[limits]\nsender_seconds = 1\nwait_seconds = 2\n");
    let mut chance = Chance::new();
    let mut seen: BTreeMap<u16, u64> = BTreeMap::new();
    let bodies: [&[u8]; 10] = [
        b"",
        b"{\"id\":1}",
        b"[{\"id\":1},{\"id\":\"x\"}]",
        b"id,v\n1,a\n\"2",
        b"\xff\xfe\x00",
        b"[[[[[[[[",
        b"{\"id\":1e999,\"v\":{}}",
        b"PAR1\0\0\0\0PAR1",
        b"\x1f\x8b\x08\0\0\0\0\0",
        b"\x28\xb5\x2f\xfd\x04",
    ];
    for _ in 0..requests {
        let mut path = String::new();
        for _ in 0..chance.below(6) {
            path.push('/');
            path.push_str(one(
                &mut chance,
                &[
                    "v1",
                    "v1",
                    "tables",
                    "tables",
                    "t",
                    "t",
                    "other",
                    "rows",
                    "rows",
                    "get",
                    "export",
                    "producers",
                    "metrics",
                    "events?",
                    "%ff",
                    "%00",
                    "..",
                    "",
                    "%2F",
                    "t%22;--",
                    "\"t\"",
                    "a.b.c",
                    "{table}",
                    "openapi.json",
                    "arrow.flight.protocol.FlightService",
                    "DoPut",
                    "%E2%82%AC",
                ],
            ));
        }
        // Most of them come somewhere.
        if chance.below(3) > 0 {
            let end = one(&mut chance, &["rows", "rows", "get", "export", ""]);
            path = format!("/v1/tables/t/{end}");
        }
        let query = one(
            &mut chance,
            &[
                "",
                "?id=1",
                "?id=1&id=",
                "?id=%ff",
                "?ack=committed",
                "?mode=delete",
                "?mode=upsert&ack=accepted",
                "?&&=&",
                "?limit=18446744073709551616",
                "?limit=1",
                "?columns=",
                "?columns=v,v",
                "?by=v",
                "?database=d",
                "?id=1;v=2",
                "?v=\u{1}",
            ],
        );
        let method = one(
            &mut chance,
            &[
                "GET", "POST", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "BREW",
            ],
        );
        let mut headers = Vec::new();
        for _ in 0..chance.below(4) {
            headers.push(one(
                &mut chance,
                &[
                    "Content-Type: application/json",
                    "Content-Type: application/x-ndjson",
                    "Content-Type: text/csv",
                    "Content-Type: application/vnd.apache.arrow.stream",
                    "Content-Type: application/vnd.apache.parquet",
                    "Content-Type: application/grpc",
                    "Content-Encoding: gzip",
                    "Content-Encoding: zstd",
                    "Accept: text/csv",
                    "Accept: application/vnd.apache.arrow.stream",
                    "Accept: ,;q",
                    "Tonnage-Producer: p",
                    "Tonnage-Producer: \u{e4}",
                    "Tonnage-Sequence: 1",
                    "Tonnage-Sequence: 99999999999999999999",
                    "Authorization: Basic !!!",
                    "Authorization: Bearer",
                    "Origin: http://evil.example",
                    "Expect: 100-continue",
                ],
            ));
        }
        let mut body = bodies[chance.below(bodies.len() as u64) as usize].to_vec();
        if chance.below(4) == 0 && !body.is_empty() {
            let at = chance.below(body.len() as u64) as usize;
            body[at] = chance.below(256) as u8;
        }
        if path.is_empty() {
            path.push('/');
        }
        // An endless stream is looked at by the page's own test.
        if path.starts_with("/events?") {
            continue;
        }
        // What HTTP itself refuses may be closed without an answer.
        let Ok(answer) = server.try_send(method, &format!("{path}{query}"), &headers, &body) else {
            continue;
        };
        *seen.entry(answer.status).or_default() += 1;
        assert_ne!(
            answer.status,
            500,
            "{method} {path}{query} {headers:?} {body:?}: {}",
            answer.text()
        );
    }
    eprintln!("answers by status: {seen:?}");
    assert!(seen.get(&200).is_some_and(|count| *count > 10), "{seen:?}");
    server.get("/readyz").expect(200);
    assert!(!server.said().contains("panicked"), "{}", server.said());
    server.stop().expect(0);
}
