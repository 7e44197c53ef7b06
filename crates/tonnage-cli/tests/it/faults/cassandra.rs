//! A node of Cassandra that gets more requests than it can answer. A client that does not ask for errors when a limit
//! on requests or bytes is reached, as this driver does not, is simply not read from meanwhile. What it does tell such a
//! client is that a request has waited too long to be begun (`OverloadedException`), or that a write was not done in
//! time.

use super::servers::Node;
use crate::{
    keyspace::Keyspace,
    process::{Running, count, report, tonnage},
};

/// One request at a time is worked at, and a write waits for the log to be synced, which it is 25 times a second however
/// fast the machine. What has waited for five seconds is refused: half of 256 requests, and more where it is slow.
const SETTINGS: &str = "native_transport_max_threads: 1
native_transport_timeout: 5000ms
commitlog_sync: group
commitlog_sync_period: 0ms
commitlog_sync_group_window: 40ms
";

/// More than the requests that a load begins with.
const ROWS: u64 = 300;

#[test]
fn requests_that_a_node_refuses_become_fewer_and_are_sent_again() {
    let node = Node::start(SETTINGS);
    let keyspace = Keyspace::on(node.url(), 1);
    keyspace.run("CREATE TABLE events (id int PRIMARY KEY, note text)");
    keyspace.run("CREATE TABLE refused (id int PRIMARY KEY)");

    // It does refuse them.
    let insert = |id: u64| format!("INSERT INTO refused (id) VALUES ({id})");
    let failed = keyspace.run_at_once((0..256).map(insert).collect());
    let refused = |error: &&String| error.contains("Query timed out before it could start");
    assert!(failed.iter().filter(refused).count() > 0, "{failed:?}");

    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let lines = (0..ROWS).map(|id| format!("{id},note {id}\n"));
    let text = format!("id,note\n{}", lines.collect::<String>());
    std::fs::write(path("events.csv"), text).expect("a file");
    let mut load = tonnage();
    load.arg("load").arg(path("events.csv")).arg(keyspace.url());
    // Each row a request.
    load.args(["-t", "events", "--method", "batch", "--jobs", "1", "--report"])
        .arg(path("report.json"))
        .arg("--rejects")
        .arg(path("rejects.jsonl"));
    Running::start(&mut load).wait().expect(0);

    let told = report(&path("report.json"));
    assert_eq!(count(&told, "/rows/written"), ROWS, "{told:#}");
    assert_eq!(count(&told, "/rows/rejected"), 0, "{told:#}");
    assert!(count(&told, "/overload/writes") > 0, "{told:#}");
    // It begins with 256.
    assert!(count(&told, "/overload/requests_least") <= 128, "{told:#}");
    let said = told["overload"]["error"].as_str().expect("what it said");
    assert!(
        said.contains("before it could start") || said.contains("in time"),
        "{told:#}"
    );
    let mut found = keyspace.rows("SELECT id, note FROM events");
    found.sort_by_key(|row| row[0].as_ref().and_then(|id| id.parse::<u64>().ok()));
    let expected: Vec<_> = (0..ROWS)
        .map(|id| vec![Some(id.to_string()), Some(format!("note {id}"))])
        .collect();
    assert_eq!(found, expected);
}
