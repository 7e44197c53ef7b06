//! PgBouncer between: refused where it gives each transaction another session, and not noticed where it does not.

use crate::{
    database::variable,
    support::{Database::Postgres, Ran, TestDatabase},
};

/// A table with rows, and files for more.
fn place() -> TestDatabase {
    TestDatabase::with(
        Postgres,
        "CREATE TABLE t (id integer PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'one')",
        &[
            ("more.csv", "id,v\n2,two\n3,three\n"),
            ("one.csv", "id,v\n1,ONE\n"),
            ("more.json", "{\"id\": 4, \"v\": \"four\"}\n"),
        ],
    )
}

/// Runs the program against the place's database by way of the pooler at `server`.
fn through_proxy(place: &TestDatabase, server: &str, arguments: &str, input: &[u8]) -> Ran {
    let url = variable(server);
    let (address, _) = url.rsplit_once('/').expect("the URL names a database");
    let arguments = arguments.replace("{pool}", &format!("{address}/{}", place.name()));
    place.run_with(&arguments, &[], input)
}

#[test]
fn sessions_that_change_with_each_transaction_are_refused() {
    for arguments in [
        "load more.csv {pool} -t t",
        "load more.csv {pool} -t t --method single",
        "load more.csv {pool} -t t --method array --ledger none",
        "load more.csv {pool} -t t --single-transaction",
        "load more.csv {pool} -t t -j 4 --batch-rows 1 --resume",
        "unload {pool} -t t -o out.csv",
        "unload {pool} -t t -o out.csv -j 3",
        "get {pool} 1 -t t -o -",
        "exec one.csv {pool} --sql 'update t set v = :v where id = :id'",
        "ingest {pool} -t t --ack committed",
    ] {
        // Of its own: the pool has no session yet.
        let place = place();
        let ran = through_proxy(
            &place,
            "TONNAGE_TEST_PGBOUNCER_URL",
            arguments,
            b"{\"id\": 5, \"v\": \"five\"}\n",
        );
        assert!(
            matches!(ran.code, Some(1 | 2)),
            "{arguments}\n{:?}\n{}",
            ran.code,
            ran.stderr
        );
        assert!(
            ran.stderr
                .contains("is a pooler that gives each transaction another session")
                && ran.stderr.contains("pool_mode = session"),
            "{arguments}\n{}",
            ran.stderr
        );
        assert_eq!(place.sql("SELECT * FROM t"), ["1|one"], "{arguments}");
        assert!(!place.path("out.csv").exists());
    }
}

#[test]
fn a_session_for_each_client_is_a_session() {
    let place = place();
    let done = |arguments: &str| {
        let ran = through_proxy(
            &place,
            "TONNAGE_TEST_PGBOUNCER_SESSION_URL",
            arguments,
            b"{\"id\": 5, \"v\": \"five\"}\n",
        );
        assert_eq!(ran.code, Some(0), "{arguments}\n{}", ran.stderr);
        ran.stdout_exact
    };
    for method in ["native", "array", "batch", "single"] {
        done(&format!(
            "load more.csv {{pool}} -t t --mode upsert --key id --method {method} -j 2 --batch-rows 1"
        ));
    }
    done("load more.json {pool} -t t --resume");
    done("load more.json {pool} -t t --resume");
    done("exec one.csv {pool} --sql 'update t set v = :v where id = :id'");
    done("ingest {pool} -t t --ack committed");
    assert_eq!(
        done("get {pool} 1 5 -t t --ordered -o -"),
        "id,v\n1,ONE\n5,five\n"
    );
    done("unload {pool} -t t -o out.csv -j 3");
    assert_eq!(place.read("out.csv").lines().count(), 6);
    assert_eq!(done("runs {pool}").lines().count(), 7);
}
