//! Connections that are lost while a load goes on: the run goes on by itself and ends exact.

use std::{path::Path, thread::sleep, time::Duration};

use serde_json::Value;

use crate::{
    database::Database,
    events::{Chance, Events, Mode, Size, handled},
    process::{Running, count, report},
    proxy::{CUTS, Cut, Protocol, Proxy},
};

const MEDIUM: Size = Size {
    files: 8,
    rows_each: 2_500,
};

/// A database, an operation, a method.
type Way = (fn() -> Database, Mode, &'static str);

/// Every way that rows travel.
fn ways() -> Vec<Way> {
    vec![
        (Database::postgres, Mode::Insert, "array"),
        (Database::postgres, Mode::Insert, "native"),
        (Database::postgres, Mode::Upsert, "array"),
        (Database::postgres, Mode::Upsert, "native"),
        (Database::mariadb, Mode::Insert, "array"),
        (Database::mariadb, Mode::Insert, "native"),
        (Database::mariadb, Mode::Upsert, "array"),
    ]
}

/// Begins a load, so slow that what it is to meet comes before its end.
fn start(events: &Events, url: &str, method: &str, account: &Path) -> Running {
    let mut command = events.load(url);
    command.args(["--rate", "8k/s"]);
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

/// A proxy in front of `database`, and the URL that leads through it.
fn proxied(database: &Database, chance: &mut Chance) -> (Proxy, String) {
    let url = database.url();
    let (credentials, place) = url.rsplit_once('@').expect("the URL has a password");
    let (server, name) = place.split_once('/').expect("the URL names a database");
    let protocol = match database {
        Database::MariaDb(_) => Protocol::MariaDb,
        _ => Protocol::Postgres,
    };
    let proxy = Proxy::start(protocol, server, chance.another());
    let url = format!("{credentials}@127.0.0.1:{}/{name}?sslmode=disable", proxy.port);
    (proxy, url)
}

fn check(events: &Events, database: &Database, account: &Path) -> Value {
    let rejects = events.check(database);
    let ledger = database.rows("SELECT finished IS NOT NULL, rejected FROM tonnage_runs");
    let truth = if matches!(database, Database::Postgres(_)) {
        "t"
    } else {
        "1"
    };
    let finished = vec![Some(truth.to_owned()), Some(rejects.to_string())];
    assert_eq!(ledger, [finished], "one run, finished, and its rejects");
    let account = report(account);
    assert_eq!(account["state"], "finished");
    assert_eq!(count(&account, "/rows/read"), events.rows);
    assert_eq!(count(&account, "/rows/unfinished"), 0);
    account
}

/// Ends one of the load's sessions, if it has any; how many.
fn terminate(database: &Database) -> usize {
    if !matches!(database, Database::MariaDb(_)) {
        let rows = database.rows(
            "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity \
             WHERE application_name = 'tonnage' AND datname = current_database() ORDER BY random() LIMIT 1) one",
        );
        return rows.len();
    }
    let rows = database.rows(
        "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id() \
         ORDER BY rand() LIMIT 1",
    );
    let Some(id) = rows.first().and_then(|row| row[0].as_deref()) else {
        return 0;
    };
    // It may have ended by itself meanwhile.
    database.number(&format!("KILL {id}"));
    1
}

#[test]
fn a_terminated_backend_costs_nothing() {
    let mut chance = Chance::new();
    for (open, mode, method) in ways() {
        let database = open();
        let events = Events::generate(mode, MEDIUM, &mut chance);
        events.prepare(&database);
        let account = events.directory.path().join("report.json");
        let mut running = start(&events, &database.url(), method, &account);
        under_way(&mut running, &database);
        let mut terminated = 0;
        while terminated < 15 && !running.has_ended() {
            terminated += terminate(&database);
            sleep(Duration::from_millis(chance.below(120)));
        }
        let ended = running.wait();
        ended.expect(3);
        assert!(
            ended.stderr.contains("reconnected after") && ended.stderr.contains("wait for the database"),
            "{mode:?} by {method}: {}",
            ended.stderr
        );
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
    for (open, mode, method) in ways() {
        let database = open();
        let (proxy, url) = proxied(&database, &mut chance);
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

/// Statements of the ledger that begin a run, go on with one and end one.
const BEGIN: &str = "INTO \"public\".tonnage_runs";
const BEGIN_MARIADB: &str = "(run_id, identity, detail, unfinished, epoch";
const GO_ON: &str = "SET epoch = epoch + 1";
const END: &str = "SET finished";

#[test]
fn a_connection_lost_while_a_run_begins_goes_on_or_ends_costs_nothing() {
    let small = || Size {
        files: 3,
        rows_each: 400,
    };
    let mut chance = Chance::new();
    let mut cases = Vec::new();
    for (open, begin) in [
        (Database::postgres as fn() -> Database, BEGIN),
        (Database::mariadb, BEGIN_MARIADB),
    ] {
        for statement in [begin, GO_ON, END] {
            cases.extend([(open, statement, Cut::Before), (open, statement, Cut::After)]);
        }
    }
    for (open, statement, cut) in cases {
        let database = open();
        let (proxy, url) = proxied(&database, &mut chance);
        let events = Events::generate(Mode::Insert, small(), &mut chance);
        events.prepare(&database);
        if statement == GO_ON {
            let slowly = ["--batch-rows", "5", "--rate", "200/s"];
            let mut first = Running::start(events.load(&url).args(slowly));
            under_way(&mut first, &database);
            first.kill();
        }
        proxy.mark(statement, cut);
        let account = events.directory.path().join("report.json");
        let mut command = events.load(&url);
        let ended = Running::start(command.arg("--resume").arg("--report").arg(&account)).wait();
        let code = ended.status.code();
        assert_eq!(code, Some(3), "{statement} cut {cut:?}:\n{}", ended.stderr);
        assert_eq!(proxy.made(), [cut], "{statement}");
        check(&events, &database, &account);
    }
}

/// What a writer prepares before its transaction.
const WRITE: &str = "SET block = ";

#[test]
fn a_single_transaction_is_there_or_not_whatever_becomes_of_its_commit() {
    let small = || Size {
        files: 3,
        rows_each: 400,
    };
    let mut chance = Chance::new();
    for cut in [Cut::Before, Cut::With, Cut::After] {
        let database = Database::postgres();
        let (proxy, url) = proxied(&database, &mut chance);
        let events = Events::generate(Mode::Insert, small(), &mut chance);
        events.prepare(&database);
        let account = events.directory.path().join("report.json");
        let single = || {
            let mut command = events.load(&url);
            command
                .args(["-1", "--batch-rows", "50", "--report"])
                .arg(&account);
            Running::start(&mut command)
        };
        proxy.mark(WRITE, cut);
        let ended = single().wait();
        assert_eq!(proxy.made(), [cut]);
        let rows = database.number("SELECT count(*) FROM events");
        if ended.status.code() == Some(3) {
            assert_ne!(cut, Cut::Before);
        } else {
            ended.expect(1);
            assert_ne!(cut, Cut::After, "{}", ended.stderr);
            assert_eq!((rows, count(&report(&account), "/rows/written")), (Some(0), 0));
            assert!(
                ended.stderr.contains("nothing of the run is in"),
                "{}",
                ended.stderr
            );
            assert_eq!(database.number("SELECT count(*) FROM tonnage_runs"), Some(0));
            single().wait().expect(3);
        }
        let account = check(&events, &database, &account);
        assert_eq!(count(&account, "/commits"), 1);
    }
}

/// The swap of a recreated table and the building of its indexes are in the transaction that ends the run.
#[test]
fn what_is_owed_to_a_table_is_done_once_whatever_becomes_of_the_commit() {
    let mut chance = Chance::new();
    for option in ["--recreate", "--rebuild-indexes"] {
        for (statement, cut) in [
            (BEGIN, Cut::Before),
            (BEGIN, Cut::After),
            (END, Cut::Before),
            (END, Cut::With),
            (END, Cut::After),
        ] {
            let database = Database::postgres();
            let (proxy, url) = proxied(&database, &mut chance);
            let small = Size {
                files: 2,
                rows_each: 300,
            };
            let events = Events::generate(Mode::Insert, small, &mut chance);
            events.prepare(&database);
            database.run("CREATE INDEX by_at ON events (at)");
            proxy.mark(statement, cut);
            let account = events.directory.path().join("report.json");
            let mut command = events.load(&url);
            command.args([option, "--report"]).arg(&account);
            let ended = Running::start(&mut command).wait();
            assert_eq!(
                ended.status.code(),
                Some(3),
                "{option} {statement} {cut:?}: {}",
                ended.stderr
            );
            assert_eq!(proxy.made(), [cut], "{statement}");
            check(&events, &database, &account);
            let indexes =
                "SELECT count(*) FROM pg_indexes WHERE tablename = 'events' AND indexname = 'by_at'";
            assert_eq!(database.number(indexes), Some(1));
        }
    }
}
