//! What is refused, and that nothing else suffers from it.

use std::{io::Write, net::TcpStream};

use super::{Serve, state, url};
use crate::{
    process::tonnage,
    support::{Database, TestDatabase},
};

const TABLE: &str =
    "CREATE TABLE t (id integer PRIMARY KEY, v text); CREATE TABLE other (id integer PRIMARY KEY, v text)";

fn configured(place: &TestDatabase, text: &str) -> Serve {
    let url = url(place);
    let state = state(place);
    let text = format!(
        "state = {:?}\n{text}\n[databases.d]\nurl = {url:?}\n[[listen]]\naddress = \"127.0.0.1:0\"\n",
        state.display().to_string()
    );
    place.write("serve.toml", text);
    Serve::start(&["--config", &place.path("serve.toml").display().to_string()])
}

#[test]
fn each_bound_has_its_status() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    let server = configured(
        &place,
        "[limits]\nbody = 100000\ndecompressed = 200000\nrow = 1000\nrows = 50\ncolumns = 3\nheader = 9000\n",
    );
    let many = "{\"id\":1}\n".repeat(51);
    let long = format!("{{\"id\":1,\"v\":\"{}\"}}", "x".repeat(2_000));
    let huge = vec![b' '; 100_001];
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![b' '; 50 << 20]).expect("written");
    let bomb = bomb.finish().expect("written");
    let json = "Content-Type: application/json";
    let cases: &[(&str, &[&str], &[u8], u16)] = &[
        ("/v1/tables/t/rows", &[json], many.as_bytes(), 413),
        ("/v1/tables/t/rows", &[json], long.as_bytes(), 413),
        ("/v1/tables/t/rows", &[json], &huge, 413),
        ("/v1/tables/t/rows", &[json, "Content-Encoding: gzip"], &bomb, 413),
        (
            "/v1/tables/t/rows",
            &["Content-Type: text/csv"],
            b"a,b,c,d\n1,2,3,4\n",
            413,
        ),
        ("/v1/tables/t/rows", &[], b"{}", 415),
        ("/v1/tables/t/rows", &["Content-Type: text/html"], b"{}", 415),
        ("/v1/tables/t/rows", &[json, "Content-Encoding: br"], b"{}", 415),
        ("/v1/tables/t/rows", &[json, "Content-Encoding: gzip"], b"{}", 400),
        ("/v1/tables/t/rows?acknowledge=now", &[json], b"{}", 400),
        ("/v1/tables/t/rows?ack=now", &[json], b"{}", 400),
        ("/v1/tables/t/rows", &[json, "Tonnage-Producer: a"], b"{}", 400),
        (
            "/v1/tables/t/rows",
            &[json, "Tonnage-Producer: a", "Tonnage-Sequence: 0"],
            b"{}",
            400,
        ),
        ("/v1/tables/t/rows", &[json], b"[{\"id\":1}", 400),
        ("/v1/tables/nothing/rows", &[json], b"{}", 404),
        ("/v1/nothing", &[json], b"{}", 404),
        ("/v1/tables/t/export", &[json], b"{}", 405),
    ];
    for (path, headers, body, status) in cases {
        let answer = server.send("POST", path, headers, body);
        assert_eq!(answer.status, *status, "{path} {headers:?}: {}", answer.text());
        assert!(!answer.code().is_empty(), "{}", answer.text());
    }
    let header = format!("X: {}", "x".repeat(20_000));
    assert_eq!(server.send("GET", "/livez", &[&header], b"").status, 431);
    assert_eq!(
        server
            .send("GET", "/v1/tables/t/export", &["Accept: image/png"], b"")
            .status,
        406
    );
    // It still works, and nothing but what was before the broken end of an array has come.
    server
        .put("/v1/tables/t/rows?ack=committed", "{\"id\":2}\n")
        .expect(200);
    assert_eq!(place.sql("SELECT max(id) FROM t"), ["2"]);
    server.get("/livez").expect(200);
    server.get("/readyz").expect(200);
    let metrics = server.get("/metrics").expect(200).text();
    for wanted in [
        "tonnage_refusals_total{code=\"too_large\"}",
        "tonnage_request_seconds_bucket",
        "tonnage_buffer_depth_rows{",
    ] {
        assert!(metrics.contains(wanted), "{metrics}");
    }
}

#[test]
fn a_sender_that_is_slow_is_given_up_and_holds_nobody_up() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    let server = configured(&place, "[limits]\nsender_seconds = 1\n");
    let slow: Vec<TcpStream> = (0..50)
        .map(|at| {
            let mut stream = TcpStream::connect(server.address()).expect("a connection");
            // Half a head, or half a body.
            let head = match at % 2 {
                0 => "POST /v1/tables/t/rows HTTP/1.1\r\nHost: localhost\r\nX",
                _ => "POST /v1/tables/t/rows HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: 9999999\r\n\r\n{\"id\":",
            };
            stream.write_all(head.as_bytes()).expect("sent");
            stream
        })
        .collect();
    server
        .put("/v1/tables/other/rows?ack=committed", "{\"id\":1}\n")
        .expect(200);
    let mut statuses = std::collections::BTreeSet::new();
    for mut stream in slow {
        let mut answer = String::new();
        let _ = std::io::Read::read_to_string(&mut stream, &mut answer);
        statuses.insert(answer.split(' ').nth(1).unwrap_or("closed").to_owned());
    }
    let known = ["408", "429", "closed"].map(str::to_owned);
    assert!(
        statuses.iter().all(|status| known.contains(status)) && statuses.contains("408"),
        "{statuses:?}"
    );
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn a_full_buffer_says_when_to_come_again() {
    // A lock on the database holds the drain up.
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    let server = configured(
        &place,
        "table_memory = \"1MiB\"\njournal = \"16MiB\"\n[limits]\nwait_seconds = 1\n",
    );
    server
        .put("/v1/tables/t/rows?ack=committed&mode=upsert", "{\"id\":0}\n")
        .expect(200);
    server
        .put("/v1/tables/other/rows?ack=committed", "{\"id\":0}\n")
        .expect(200);
    let locking = rusqlite::Connection::open(place.path("shop.db")).expect("the database");
    locking.execute_batch("BEGIN IMMEDIATE").expect("a lock");
    let row = format!("{{\"id\":1,\"v\":\"{}\"}}\n", "x".repeat(100_000));
    let full = (0..1_000).find_map(|_| {
        let answer = server.put("/v1/tables/t/rows?mode=upsert", &row);
        (answer.status != 200).then_some(answer)
    });
    let full = full.expect("it is full in the end");
    assert!([429, 503].contains(&full.status), "{}", full.text());
    assert!(
        full.head.to_ascii_lowercase().contains("retry-after: "),
        "{}",
        full.head
    );
    // Another table takes rows.
    server.put("/v1/tables/other/rows", "{\"id\":1}\n").expect(200);
    server.get("/readyz").expect(200);
    locking.execute_batch("ROLLBACK").expect("no lock");
    server.stop().expect(0);
    assert_eq!(place.sql("SELECT count(*) FROM other"), ["2"]);
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["2"]);
}

#[test]
fn the_description_names_every_route_and_nothing_else() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    let server = Serve::of(&url(&place), &state(&place));
    let document = server.get("/v1/openapi.json").expect(200).json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.len() > 8, "{document}");
    for (path, methods) in paths {
        let real = path.replace("{table}", "t").replace("{producer}", "p");
        // An endless stream is looked at by the page's own test.
        if path == "/events" {
            continue;
        }
        for method in ["get", "post", "put", "delete"] {
            let answer = server.send(
                &method.to_uppercase(),
                &real,
                &["Content-Type: application/json"],
                b"",
            );
            match methods.get(method) {
                Some(_) => assert!(
                    answer.status != 405 && (answer.status != 404 || answer.code() == "no_producer"),
                    "{method} {path}: {}",
                    answer.text()
                ),
                None => assert_eq!(answer.status, 405, "{method} {path}: {}", answer.text()),
            }
        }
    }
}

#[test]
fn a_configuration_is_looked_at_before_it_is_used() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    let check = |text: &str| {
        place.write("serve.toml", text);
        let ran = tonnage()
            .args(["serve", "--check", "--config"])
            .arg(place.path("serve.toml"))
            .output()
            .expect("it runs");
        (
            ran.status.code(),
            String::from_utf8_lossy(&ran.stderr).into_owned(),
        )
    };
    let database = "[databases.d]\nurl = \"d.db\"\n";
    assert_eq!(check(database).0, Some(0));
    for (text, said) in [
        (
            format!("{database}[[listen]]\naddress = \"0.0.0.0:1\"\n"),
            "has no TLS",
        ),
        (
            format!("{database}[[listen]]\naddress = \"127.0.0.1:1\"\ncertificate = \"c\"\nkey = \"k\"\n"),
            "c: ",
        ),
        (format!("colour = \"red\"\n{database}"), "unknown field"),
        (
            format!("{database}[tokens.a]\nsha256 = \"12\"\n"),
            "is no SHA-256",
        ),
        (format!("memory = \"1 parsec\"\n{database}"), "no unit"),
        (String::new(), "no database is named"),
    ] {
        let (code, stderr) = check(&text);
        assert_eq!(code, Some(2), "{text}: {stderr}");
        assert!(stderr.contains(said), "{text}: {stderr}");
    }
    // Off loopback it does not start either.
    let ran = tonnage()
        .args(["serve", "d.db", "--listen", "0.0.0.0:0"])
        .output()
        .expect("it runs");
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("hint: give the listener certificate and key"));
}
