//! SIGKILL of the server and of the database, and cuts of its connections, while idempotent clients send, give up on
//! answers and send again: every acknowledged row is there once.

use std::{
    collections::BTreeSet,
    io::Write,
    net::TcpStream,
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use super::{Serve, state, url};
use crate::{
    events::Chance,
    faults::servers::Cluster,
    proxy::{Protocol, Proxy},
    support::{Database, TestDatabase},
};

/// Rounds for each acknowledgement and database; more by TONNAGE_SERVE_ROUNDS.
const ROUNDS: u64 = 3;
const CLIENTS: u64 = 4;
const ACKS: [&str; 3] = ["accepted", "journaled", "committed"];

fn rounds() -> u64 {
    std::env::var("TONNAGE_SERVE_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(ROUNDS)
}

/// What happens to a server while clients send.
struct Faults<'a> {
    url: &'a str,
    state: &'a std::path::Path,
    server: Arc<RwLock<Option<Serve>>>,
}

impl Faults<'_> {
    /// SIGKILL of the server, and a start.
    fn kill_server(&self) {
        let mut server = self.server.write().expect("a lock");
        server.take().expect("it runs").kill();
        *server = Some(Serve::of(self.url, self.state));
    }
}

/// Has clients send while `round` does its worst, and compares what they were told with what `found` finds.
fn check(
    url: &str,
    state: &std::path::Path,
    ack: &'static str,
    mut round: impl FnMut(&Faults<'_>, u64),
    found: impl FnOnce() -> Vec<String>,
) {
    let faults = Faults {
        url,
        state,
        server: Arc::new(RwLock::new(Some(Serve::of(url, state)))),
    };
    let done = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (server, done) = (faults.server.clone(), done.clone());
            thread::spawn(move || send(&server, &done, client, ack))
        })
        .collect();
    for number in 0..rounds() {
        thread::sleep(Duration::from_millis(60 + number * 37 % 200));
        round(&faults, number);
    }
    thread::sleep(Duration::from_millis(100));
    done.store(true, Ordering::Relaxed);
    let acknowledged: Vec<u64> = clients
        .into_iter()
        .map(|client| client.join().expect("a client"))
        .collect();
    let server = faults.server.write().expect("a lock").take().expect("it runs");
    server.until_drained();
    server.stop().expect(0);
    let found = found();
    let ids: BTreeSet<u64> = found.iter().map(|id| id.parse().expect("a number")).collect();
    assert_eq!(ids.len(), found.len(), "{ack}: rows are doubled");
    for (client, last) in acknowledged.iter().enumerate() {
        let base = client as u64 * 1_000_000;
        let missing = (1..=*last)
            .filter(|number| !ids.contains(&(base + number)))
            .count();
        assert!(*last > 0, "{ack}: client {client} was never answered");
        assert_eq!(missing, 0, "{ack}: client {client} had {last} acknowledged");
    }
    eprintln!(
        "{ack}: {} rounds, {} rows acknowledged, {} found",
        rounds(),
        acknowledged.iter().sum::<u64>(),
        found.len()
    );
}

#[test]
fn what_was_acknowledged_is_there_once_when_the_server_is_killed() {
    for ack in ACKS {
        let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (id bigint NOT NULL)", &[]);
        check(
            &url(&place),
            &state(&place),
            ack,
            |faults, _| faults.kill_server(),
            || place.sql("SELECT id FROM t ORDER BY id"),
        );
    }
}

#[test]
fn what_was_acknowledged_is_there_once_when_the_server_the_database_and_connections_are() {
    let cluster = Cluster::start("");
    for ack in ACKS {
        cluster.query("postgres", &format!("CREATE DATABASE {ack}"));
        cluster.query(ack, "CREATE TABLE t (id bigint NOT NULL)");
        let proxy = Proxy::start(Protocol::Postgres, &cluster.address(), Chance::new());
        let url = format!(
            "postgresql://tonnage@127.0.0.1:{}/{ack}?sslmode=disable",
            proxy.port
        );
        let state = tempfile::tempdir().expect("a directory");
        let round = |faults: &Faults<'_>, number: u64| match number % 3 {
            0 => faults.kill_server(),
            1 => {
                proxy.arm(3);
                cluster.kill();
                if number.is_multiple_of(2) {
                    faults.kill_server();
                }
                cluster.restart();
            }
            _ => proxy.arm(3),
        };
        let found = || {
            let rows = cluster.query(ack, "SELECT id FROM t ORDER BY id");
            rows.into_iter().filter_map(|mut row| row.remove(0)).collect()
        };
        check(&url, state.path(), ack, round, found);
        eprintln!("{ack}: cuts {:?}", proxy.made().len());
    }
}

/// A request whose sender goes away before it is answered, in the middle of it or at its end.
fn abandon(server: &Serve, path: &str, headers: &[&str], body: &[u8], is_whole: bool) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(server.address())?;
    let mut head = format!("POST {path} HTTP/1.1\r\nHost: {}\r\n", server.address());
    for header in headers {
        head.push_str(&format!("{header}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes())?;
    let count = if is_whole { body.len() } else { body.len() / 2 };
    stream.write_all(&body[..count])
}

/// Sends rows in batches of its own numbers until it is told to stop; the last number that is safe. What was only accepted
/// may be lost, and is sent again from the number that the server says is due.
fn send(server: &RwLock<Option<Serve>>, done: &AtomicBool, client: u64, ack: &str) -> u64 {
    let base = client * 1_000_000;
    let producer = format!("Tonnage-Producer: client{client}");
    let path = format!("/v1/tables/t/rows?ack={ack}");
    let mut first = 1;
    let mut is_last = false;
    let mut sent = 0;
    loop {
        let rows = 1 + first % 20;
        let body: String = (first..first + rows)
            .map(|number| format!("{{\"id\":{}}}\n", base + number))
            .collect();
        let headers = [
            "Content-Type: application/x-ndjson",
            &producer,
            &format!("Tonnage-Sequence: {first}"),
        ];
        // The last one is journaled whatever the others are, so that what is safe is known.
        let path = match is_last && ack == "accepted" {
            true => "/v1/tables/t/rows?ack=journaled",
            false => &path,
        };
        sent += 1;
        let answer = {
            let server = server.read().expect("a lock");
            let server = server.as_ref().expect("it runs");
            if sent % 7 == 0 {
                // Nobody waits for the answer, and the same comes again.
                let _ = abandon(server, path, &headers, body.as_bytes(), sent % 2 == 0);
            }
            server.try_send("POST", path, &headers, body.as_bytes()).ok()
        };
        match answer {
            Some(answer) if answer.status == 200 => {
                first += rows;
                if is_last {
                    return first - 1;
                }
                is_last = done.load(Ordering::Relaxed);
            }
            Some(answer) if answer.status == 409 && ack == "accepted" => {
                // Rows that were accepted are gone with the server: the due number says which.
                first = answer.json()["due"].as_u64().expect("the due number");
            }
            Some(answer) if [429, 503, 504].contains(&answer.status) => {
                thread::sleep(Duration::from_millis(5))
            }
            Some(answer) => panic!("{ack}: {} {}", answer.head, answer.text()),
            None => thread::sleep(Duration::from_millis(5)),
        }
    }
}
