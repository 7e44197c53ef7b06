//! A longer way to the database.

use serde_json::Value;

use super::{ORDERS, SMALL, assert_untouched, bench};
use crate::support::{Database, TestDatabase};

/// The cell of a bench that was asked for one round trip beside the way as it is.
fn remote(report: &Value) -> &Value {
    let cells = report["cells"].as_array().expect("cells");
    let found = cells
        .iter()
        .find(|cell| cell["setting"]["round_trip_micros"].as_u64() > Some(0));
    found.expect("a cell by a longer way")
}

#[test]
fn a_row_costs_the_round_trips_that_its_statements_wait_for() {
    // Of rows each in a write of its own within one transaction. PostgreSQL is sent a row behind its savepoint; MariaDB's
    // protocol waits for the answer to the savepoint and to the row. A row that is committed by itself waits for its
    // BEGIN, for itself and for its COMMIT.
    let within = "--method array --batch-rows 1 -1";
    let single = "--method single";
    for (database, method, expected) in [
        (Database::Postgres, within, 1.0),
        (Database::MariaDb, within, 2.0),
        (Database::Postgres, single, 3.0),
        (Database::MariaDb, single, 3.0),
    ] {
        let place = TestDatabase::with(database, ORDERS, &[]);
        let trips = |rows: u64| {
            let report = bench(
                &place,
                &format!("--rows {rows} --duration 10m --repeat 1 --yes {method} --jobs 1 --rtt 0,4ms"),
            );
            let cell = remote(&report);
            let run = &cell["runs"][0];
            assert_eq!(run["rows"], rows, "{cell}");
            // No faster than light: what waits for a round trip takes one.
            let rate = run["rows_per_second"].as_f64().expect("a rate");
            assert!(rate <= 250.0 / expected, "{database:?} {method}: {rate} rows/s");
            assert!(report["cells"][0]["runs"][0]["round_trips"].is_null(), "{report}");
            assert_eq!(report["answers"].as_array().map(Vec::len), Some(2), "{report}");
            run["round_trips"].as_f64().expect("they are counted")
        };
        // What beginning and end take differs by an answer or two.
        let a_row = (trips(120) - trips(20)) / 100.0;
        assert!(
            (0.95 * expected..=1.05 * expected).contains(&a_row),
            "{database:?} {method}: {a_row} round trips a row"
        );
        assert_untouched(&place);
    }
}

#[test]
fn a_longer_way_asks_the_same_of_the_server() {
    let place = TestDatabase::with(Database::Postgres, ORDERS, &[]);
    let authority = std::env::var("TONNAGE_TEST_POSTGRES_CA").expect("the authority");
    let options = format!("{SMALL} --method native --jobs 2 --rtt 1ms --bandwidth 50MB/s --report -");
    let verified = format!("sslmode=verify-full&sslrootcert={authority}");
    let ran = place.run(&format!("bench {{db}}?{verified} {options}"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout_exact).expect("JSON");
    assert_eq!(report["bandwidth"], 50_000_000);
    assert!(
        remote(&report)["runs"][0]["round_trips"].as_u64() > Some(0),
        "{report}"
    );
    // The server's certificate is made out to that name and to its address.
    let url = place.url().replace("127.0.0.1", "localhost");
    let ran = place.run(&format!("bench {url}?{verified} {options}"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);

    let socket = std::env::var("TONNAGE_TEST_POSTGRES_SOCKET").expect("the socket");
    let url = place.url();
    let (_, rest) = url.rsplit_once(':').expect("a port");
    let (port, name) = rest.split_once('/').expect("a database");
    let ran = place.run(&format!(
        "bench postgresql:///{name}?host={socket}&user=tonnage&port={port} --rtt 1ms --yes"
    ));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("is a socket of this machine"),
        "{}",
        ran.stderr
    );
    assert_untouched(&place);
}
