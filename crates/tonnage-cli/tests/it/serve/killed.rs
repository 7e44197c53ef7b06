//! SIGKILL of the server while idempotent clients send and send again: every acknowledged row is there once.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use super::{Serve, state, url};
use crate::support::{BOTH, TestDatabase};

/// Rounds for each acknowledgement and database; more by TONNAGE_SERVE_ROUNDS.
const ROUNDS: u64 = 3;
const CLIENTS: u64 = 4;

fn rounds() -> u64 {
    std::env::var("TONNAGE_SERVE_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(ROUNDS)
}

#[test]
fn what_was_acknowledged_is_there_once_whatever_was_killed() {
    for database in BOTH {
        for ack in ["accepted", "journaled", "committed"] {
            let place = TestDatabase::with(*database, "CREATE TABLE t (id bigint NOT NULL)", &[]);
            let (url, state) = (url(&place), state(&place));
            let server = Arc::new(RwLock::new(Some(Serve::of(&url, &state))));
            let done = Arc::new(AtomicBool::new(false));
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (server, done) = (server.clone(), done.clone());
                    thread::spawn(move || send(&server, &done, client, ack))
                })
                .collect();
            for round in 0..rounds() {
                thread::sleep(Duration::from_millis(60 + round * 37 % 200));
                let old = server.write().expect("a lock").take().expect("it runs");
                old.kill();
                *server.write().expect("a lock") = Some(Serve::of(&url, &state));
            }
            thread::sleep(Duration::from_millis(100));
            done.store(true, Ordering::Relaxed);
            let acknowledged: Vec<u64> = clients
                .into_iter()
                .map(|client| client.join().expect("a client"))
                .collect();
            let server = server.write().expect("a lock").take().expect("it runs");
            server.stop().expect(0);
            let found = place.sql("SELECT id FROM t ORDER BY id");
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
        }
    }
}

/// Sends rows in batches of its own numbers until it is told to stop; the last number that is safe. What was only accepted
/// may be lost, and is sent again from the number that the server says is due.
fn send(server: &RwLock<Option<Serve>>, done: &AtomicBool, client: u64, ack: &str) -> u64 {
    let base = client * 1_000_000;
    let producer = format!("Tonnage-Producer: client{client}");
    let path = format!("/v1/tables/t/rows?ack={ack}");
    let mut first = 1;
    let mut safe = 0;
    let mut is_last = false;
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
        let answer = server
            .read()
            .expect("a lock")
            .as_ref()
            .and_then(|server| server.try_send("POST", path, &headers, body.as_bytes()).ok());
        match answer {
            Some(answer) if answer.status == 200 => {
                first += rows;
                safe = first - 1;
                if is_last {
                    return safe;
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
        let _ = safe;
    }
}
