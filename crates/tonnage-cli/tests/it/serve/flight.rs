//! Arrow Flight SQL, as a client does it that was written elsewhere: the ADBC driver.

use std::{path::Path, process::Command};

use super::{Serve, access::token, state, url};
use crate::support::{ALL, Database, TestDatabase};

/// A Python that has the driver.
pub fn python() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fetch-adbc");
    let ran = Command::new(script).output().expect("it runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("a path").trim().to_owned()
}

#[test]
fn the_adbc_driver_reads_and_writes() {
    let python = python();
    for database in ALL.iter().copied() {
        let place = TestDatabase::with(database, "CREATE TABLE elsewhere (id integer)", &[]);
        let (all, weak) = (token(), token());
        let text = format!(
            "state = {:?}\n[databases.d]\nurl = {:?}\ncreate = true\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
             [tokens.all]\nsha256 = \"{}\"\nread = [\"*\"]\nwrite = [\"*\"]\nsql = true\nadmin = true\n\
             [tokens.weak]\nsha256 = \"{}\"\nwrite = [\"readings\"]\n",
            state(&place).display().to_string(),
            url(&place),
            all.1,
            weak.1,
        );
        place.write("serve.toml", &text);
        let server = Serve::start(&["--config", &place.path("serve.toml").display().to_string()]);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/serve/flight.py");
        let uri = format!("grpc://{}", server.address());
        let ran = Command::new(&python)
            .arg(script)
            .args([&uri, &all.0, &weak.0])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{database:?}: {said}\n{}", server.said());
        assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), "all of it");
        server.stop().expect(0);
    }
}

#[test]
fn each_token_may_by_flight_what_it_says_and_nothing_else() {
    let place = TestDatabase::with(
        Database::Sqlite,
        "CREATE TABLE a (id integer); CREATE TABLE b (id integer); INSERT INTO a VALUES (1)",
        &[],
    );
    // Holders, as the table of docs/serve.md has them: two that nobody knows come last.
    let rights = [
        "write = [\"a\", \"new\"]",
        "read = [\"a\"]",
        "admin = true",
        "sql = true",
        "write = [\"a\"]\nadmin = true",
        "write = [\"*\"]\nread = [\"*\"]\nadmin = true\nsql = true",
        "write = [\"*\"]\nread = [\"*\"]\nadmin = true\nsql = true\nexpires = \"2001-01-01T00:00:00Z\"",
    ];
    let tokens: Vec<_> = rights.iter().map(|_| token()).collect();
    let configured = |create: bool| {
        let mut text = format!(
            "state = {:?}\n[databases.d]\nurl = {:?}\ncreate = {create}\n[[listen]]\naddress = \"127.0.0.1:0\"\n",
            state(&place).display().to_string(),
            url(&place)
        );
        for (number, (rights, (_, hash))) in rights.iter().zip(&tokens).enumerate() {
            text.push_str(&format!("[tokens.t{number}]\nsha256 = \"{hash}\"\n{rights}\n"));
        }
        place.write("serve.toml", &text);
        Serve::start(&["--config", &place.path("serve.toml").display().to_string()])
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/serve/flight_rights.py");
    for (create, wanted) in [
        (
            true,
            [
                "read a: 010101000",
                "read b: 000101000",
                "query: 000101000",
                "change: 000101000",
                "append a: 100011000",
                "append b: 000001000",
                "create a: 100011000",
                "create new: 100001000",
                "replace a: 000011000",
                "replace b: 000001000",
            ],
        ),
        (
            false,
            [
                "read a: 010101000",
                "read b: 000101000",
                "query: 000101000",
                "change: 000101000",
                "append a: 100011000",
                "append b: 000001000",
                "create a: 000000000",
                "create new: 000000000",
                "replace a: 000000000",
                "replace b: 000000000",
            ],
        ),
    ] {
        let server = configured(create);
        let shown = tokens.iter().map(|(token, _)| token.as_str());
        let ran = Command::new(python())
            .arg(&script)
            .arg(format!("grpc://{}", server.address()))
            .args(shown.chain(["tng_00", "-"]))
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.success(),
            "{:?}: {said}\n{}",
            ran.status,
            server.said()
        );
        assert!(
            server.said().contains("code=\"forbidden\""),
            "what is refused is noted: {}",
            server.said()
        );
        let found = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(found.lines().collect::<Vec<_>>(), wanted, "create = {create}");
        server.stop().expect(0);
    }
}

#[test]
fn rows_of_an_ingest_count_in_the_rate_of_its_token() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE a (id integer)", &[]);
    let (token, hash) = token();
    let rights = format!("[tokens.slow]\nsha256 = \"{hash}\"\nwrite = [\"a\"]\nrows_per_second = 1\n");
    let server = Serve::configured(&place, &rights);
    let script = "import sys, pyarrow as pa, adbc_driver_flightsql.dbapi as flight
uri, token = sys.argv[1:]
options = {'adbc.flight.sql.authorization_header': f'Bearer {token}'}
with flight.connect(uri, options, autocommit=True) as db, db.cursor() as cursor:
    assert cursor.adbc_ingest('a', pa.table({'id': list(range(100_000))}), 'append') == 100_000
    try:
        cursor.adbc_ingest('a', pa.table({'id': [1]}), 'append')
    except flight.Error as error:
        print(error)";
    let ran = Command::new(python())
        .args(["-c", script, &format!("grpc://{}", server.address()), &token])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        said.contains("this token's rows a second are used up"),
        "{said} {}",
        String::from_utf8_lossy(&ran.stderr)
    );
    server.stop().expect(0);
    assert_eq!(place.sql("SELECT count(*) FROM a"), ["100000"]);
}
