//! Connections to PostgreSQL that are lost while a load goes on: the run goes on by itself and ends exact.

use std::{path::Path, thread::sleep, time::Duration};

use serde_json::Value;

use crate::{
    database::Database,
    events::{Chance, Events, Mode, Size, handled},
    process::{Running, count, report},
    proxy::{CUTS, Proxy},
};

const MEDIUM: Size = Size {
    files: 8,
    rows_each: 2_500,
};

/// Every way that rows travel.
const WAYS: [(Mode, &str); 4] = [
    (Mode::Insert, "array"),
    (Mode::Insert, "native"),
    (Mode::Upsert, "array"),
    (Mode::Upsert, "native"),
];

fn start(events: &Events, url: &str, method: &str, account: &Path) -> Running {
    let mut command = events.load(url);
    command.args([
        "--method",
        method,
        "--jobs",
        "3",
        "--batch-rows",
        "50",
        "--report",
    ]);
    Running::start(command.arg(account))
}

/// Waits until the run has written rows.
fn under_way(running: &mut Running, database: &Database) {
    while handled(database) == 0 && !running.has_ended() {
        sleep(Duration::from_millis(1));
    }
}

fn check(events: &Events, database: &Database, account: &Path) -> Value {
    let rejects = events.check(database);
    let account = report(account);
    assert_eq!(account["state"], "finished");
    assert_eq!(count(&account, "/rows/read"), events.rows);
    assert_eq!(count(&account, "/rows/rejected"), rejects);
    assert_eq!(count(&account, "/rows/unfinished"), 0);
    account
}

#[test]
fn a_terminated_backend_costs_nothing() {
    let mut chance = Chance::new();
    for (mode, method) in WAYS {
        let database = Database::postgres();
        let events = Events::generate(mode, MEDIUM, &mut chance);
        events.prepare(&database);
        let account = events.directory.path().join("report.json");
        let mut running = start(&events, &database.url(), method, &account);
        under_way(&mut running, &database);
        let mut terminated = 0;
        while terminated < 15 && !running.has_ended() {
            let rows = database.rows(
                "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity \
                 WHERE application_name = 'tonnage' AND datname = current_database() ORDER BY random() LIMIT 1) one",
            );
            terminated += rows.len();
            sleep(Duration::from_millis(chance.below(120)));
        }
        running.wait().expect(3);
        let account = check(&events, &database, &account);
        assert!(
            terminated >= 3,
            "{mode:?} by {method}: only {terminated} backends were terminated"
        );
        assert!(
            count(&account, "/retries") > 0,
            "{mode:?} by {method}: nothing was tried again"
        );
    }
}

#[test]
fn a_connection_lost_around_a_commit_is_settled_by_the_ledger() {
    let mut chance = Chance::new();
    let mut made = Vec::new();
    for (mode, method) in WAYS {
        let database = Database::postgres();
        let url = database.url();
        let (credentials, place) = url.rsplit_once('@').expect("the URL has a password");
        let (server, name) = place.split_once('/').expect("the URL names a database");
        let proxy = Proxy::start(server, chance.another());
        let url = format!("{credentials}@127.0.0.1:{}/{name}?sslmode=disable", proxy.port);

        let events = Events::generate(mode, MEDIUM, &mut chance);
        events.prepare(&database);
        let account = events.directory.path().join("report.json");
        let mut running = start(&events, &url, method, &account);
        under_way(&mut running, &database);
        proxy.arm(12);
        running.wait().expect(3);
        let account = check(&events, &database, &account);
        let cuts = proxy.made();
        assert!(cuts.len() >= 8, "{mode:?} by {method}: {cuts:?}");
        assert!(
            count(&account, "/retries") >= cuts.len() as u64,
            "{mode:?} by {method}: each of {cuts:?} is a retry"
        );
        made.extend(cuts);
    }
    for cut in CUTS {
        assert!(made.contains(&cut), "nothing was cut {cut:?}: {made:?}");
    }
}
