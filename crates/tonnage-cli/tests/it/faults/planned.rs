//! A statement whose connection is cut at any byte that the program sends, also while it still asks what the statement
//! means: gone on with, it is the same run, and no row runs twice.

use super::{
    servers::{Cluster, Maria},
    target::ProxyChain,
    wire::Event,
};
use crate::{
    database::Row,
    process::{Running, tonnage},
    proxy::Protocol,
};

const ROWS: u64 = 10;
/// Bytes from one cut to the next: less than a question about a table has.
const STEP: u64 = 700;
/// Attempts of which one must come to the end: only the first is cut.
const ATTEMPTS_MAX: u32 = 5;

/// Cuts a statement farther and farther behind its beginning, until it comes to its end before. `to` gives the URL of a
/// database by a port, `query` asks it.
fn cut_anywhere(way: &ProxyChain, to: fn(u16) -> String, query: impl Fn(&str) -> Vec<Row>) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let lines = (1..=ROWS).map(|id| format!("{id},{}\n", id * 100));
    let text = format!("id,more\n{}", lines.collect::<String>());
    std::fs::write(directory.path().join("more.csv"), text).expect("a file");
    query("CREATE TABLE sums (id integer PRIMARY KEY, total bigint NOT NULL)");
    let places: Vec<_> = (1..=ROWS).map(|id| format!("({id}, 0)")).collect();
    query(&format!("INSERT INTO sums VALUES {}", places.join(", ")));
    let sum = (1..=ROWS).map(|id| id * 100).sum::<u64>();
    let attempt = || {
        let mut exec = tonnage();
        exec.current_dir(directory.path());
        exec.args(["exec", "more.csv"]).arg(to(way.wire.port));
        exec.args(["--sql", "update sums set total = total + :more where id = :id"]);
        Running::start(exec.args(["--resume", "-q"])).wait()
    };
    for cuts in 0.. {
        query("DROP TABLE IF EXISTS tonnage_inputs, tonnage_slots, tonnage_runs");
        query("UPDATE sums SET total = 0");
        let at = 1 + cuts * STEP;
        way.wire.arm(at, Event::Cut);
        let mut ended = attempt();
        let is_cut = !way.wire.is_armed();
        way.release();
        let first = ended.stderr.clone();
        // Once more in any case: whoever has come to the end has nothing to do.
        for _ in 0..ATTEMPTS_MAX {
            ended = attempt();
            if ended.status.success() {
                break;
            }
        }
        ended.expect(0);
        let found = query("SELECT sum(total) FROM sums").concat();
        assert_eq!(
            found,
            [Some(sum.to_string())],
            "cut behind byte {at}\n{first}\n{}",
            ended.stderr
        );
        if !is_cut {
            assert!(cuts > 1, "it is cut more than once");
            return;
        }
    }
}

#[test]
fn a_statement_that_is_cut_anywhere_in_postgres_runs_once_a_row() {
    let cluster = Cluster::start("");
    let way = ProxyChain::to(&cluster.address(), Protocol::Postgres);
    let to = |port| format!("postgresql://tonnage@127.0.0.1:{port}/postgres?sslmode=disable");
    cut_anywhere(&way, to, |sql| cluster.query("postgres", sql));
}

#[test]
fn a_statement_that_is_cut_anywhere_in_mariadb_runs_once_a_row() {
    let maria = Maria::start();
    let way = ProxyChain::to(&maria.address(), Protocol::MariaDb);
    let to = |port| format!("mariadb://tonnage:tonnage@127.0.0.1:{port}/tonnage?sslmode=disable");
    cut_anywhere(&way, to, |sql| maria.query(sql));
}
