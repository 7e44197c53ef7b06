//! A server that is lost in the middle of a load, and its standby that takes its place: the load goes on there.

use std::fmt::Write as _;

use super::{servers::Cluster, until};
use crate::process::{Running, tonnage};

const ROWS: usize = 100_000;

#[test]
fn a_load_goes_on_with_a_standby_that_is_promoted() {
    let primary = Cluster::start("");
    let standby = Cluster::standby_of(&primary);
    for statement in [
        // What is committed is on the standby as well, else no load could know what became of it.
        "ALTER SYSTEM SET synchronous_standby_names = '*'",
        "SELECT pg_reload_conf()",
        "CREATE TABLE t (id integer PRIMARY KEY, v text)",
    ] {
        primary.query("postgres", statement);
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("t.csv");
    let mut csv = "id,v\n".to_owned();
    for id in 0..ROWS {
        writeln!(csv, "{id},row").expect("a string takes it");
    }
    std::fs::write(&file, csv).expect("a file");
    let mut load = tonnage();
    load.arg("load").arg(&file).arg(format!(
        "postgresql://tonnage@{},{}/postgres?sslmode=disable&target_session_attrs=read-write",
        primary.address(),
        standby.address()
    ));
    load.args(["-t", "t", "-j", "2", "--batch-rows", "200"]);
    let load = Running::start(&mut load);
    let rows = |server: &Cluster| -> usize {
        let counted = server.query("postgres", "SELECT count(*) FROM t");
        let count = counted[0][0].as_deref().expect("a count");
        count.parse().expect("a number")
    };
    let mut there = 0;
    until("rows are committed", || {
        there = rows(&primary);
        there > 0
    });
    assert!(there < ROWS, "it is over before anything is lost");
    primary.kill();
    standby.promote();
    load.wait().expect(0);
    assert_eq!(rows(&standby), ROWS);
    let unfinished = "SELECT count(*) FROM tonnage_runs WHERE finished IS NULL";
    assert_eq!(
        standby.query("postgres", unfinished),
        [vec![Some("0".to_owned())]]
    );
}
