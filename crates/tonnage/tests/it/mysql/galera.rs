//! A Galera cluster of three nodes, which the first of these tests brings up: writers of several nodes that are in each
//! other's way, and nodes that are lost.

use std::{fmt::Write as _, path::PathBuf, sync::OnceLock, time::Duration};

use mysql_async::{Conn, prelude::Queryable};
use tempfile::TempDir;
use tokio::sync::RwLock;
use tonnage::{
    Database,
    operation::{Method, Operation, Support},
    report::Report,
};

use super::family;

/// Pairs of loads that may go past each other.
const ROUNDS_MAX: usize = 30;

/// Held by every test; alone by one that kills a node.
static CLUSTER: RwLock<()> = RwLock::const_new(());

/// The URL of all nodes, up to the database.
fn nodes() -> &'static str {
    static NODES: OnceLock<String> = OnceLock::new();
    NODES.get_or_init(|| {
        let url = family("up", "galera");
        url.rsplit_once('/').expect("a database").0.to_owned()
    })
}

/// The URL of one node, up to the database.
pub fn node(number: usize) -> String {
    let (scheme, rest) = nodes().split_once("://").expect("a URL");
    let (login, hosts) = rest.split_once('@').expect("a user");
    let host = hosts.split(',').nth(number - 1).expect("a node");
    format!("{scheme}://{login}@{host}")
}

async fn session(number: usize, database: &str) -> Conn {
    let url = format!("{}/{database}", node(number)).replace("mariadb://", "mysql://");
    let mut conn = Conn::from_url(url).await.expect("the node answers");
    conn.query_drop("SET SESSION wsrep_sync_wait = 1").await.unwrap();
    conn
}

/// A database of a test's own with a table `t`, and a file of so many rows of which each is of one text.
async fn place(name: &str, rows: usize, text: &str) -> (String, TempDir, PathBuf) {
    let database = format!("galera_{name}_{}", std::process::id());
    let mut conn = session(2, "tonnage").await;
    for statement in [
        format!("CREATE DATABASE {database} CHARACTER SET utf8mb4"),
        format!("CREATE TABLE {database}.t (id int PRIMARY KEY, v varchar(20))"),
    ] {
        conn.query_drop(statement).await.unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let file = csv(&directory, rows, text);
    (database, directory, file)
}

fn csv(directory: &TempDir, rows: usize, text: &str) -> PathBuf {
    let mut csv = "id,v\n".to_owned();
    for id in 0..rows {
        writeln!(csv, "{id},{text}").unwrap();
    }
    let file = directory.path().join(format!("{text}.csv"));
    std::fs::write(&file, csv).unwrap();
    file
}

async fn number(conn: &mut Conn, sql: &str) -> u64 {
    conn.query_first(sql).await.unwrap().expect("a row")
}

/// What the cluster has refused at commit, by all nodes.
async fn conflicts() -> u64 {
    let mut all = 0;
    for at in 1..=3 {
        let mut conn = session(at, "tonnage").await;
        for counter in ["wsrep_local_cert_failures", "wsrep_local_bf_aborts"] {
            let found: Option<(String, u64)> = conn
                .query_first(format!("SHOW STATUS LIKE '{counter}'"))
                .await
                .unwrap();
            all += found.expect("a counter").1;
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_several_nodes_that_meet_are_tried_again() {
    let _shared = CLUSTER.read().await;
    nodes();
    const ROWS: usize = 60_000;
    let (database, directory, file) = place("meet", ROWS, "one").await;
    let other = csv(&directory, ROWS, "two");
    let before = conflicts().await;
    // Both go over the same keys at once, so before long somebody loses a race, says so, and tries again.
    for _ in 0..ROUNDS_MAX {
        let mut loads = tokio::task::JoinSet::new();
        for (at, file) in [(1, &file), (3, &other)] {
            loads.spawn(upsert(format!("{}/{database}", node(at)), file.clone()));
        }
        let mut retries = 0;
        for report in loads.join_all().await {
            assert_eq!((report.rows.written, report.rows.rejected), (ROWS as u64, 0));
            assert!(report.rows.balances());
            retries += report.retries;
        }
        for at in 1..=3 {
            let mut conn = session(at, &database).await;
            assert_eq!(number(&mut conn, "SELECT count(*) FROM t").await, ROWS as u64);
            let odd = "SELECT count(*) FROM t WHERE v NOT IN ('one', 'two')";
            assert_eq!(number(&mut conn, odd).await, 0);
        }
        if retries > 0 && conflicts().await > before {
            return;
        }
    }
    panic!("nobody met anybody");
}

async fn upsert(url: String, file: PathBuf) -> Report {
    let database = Database::connect(&url).await.unwrap();
    let load = database
        .load(file.display().to_string())
        .table("t")
        .upsert(["id"])
        .jobs(4)
        .batch_rows(3_000);
    load.run().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_goes_on_with_another_node() {
    let _alone = CLUSTER.write().await;
    const ROWS: usize = 50_000;
    let (database, _directory, file) = place("lost", ROWS, "row").await;
    let url = format!("{}/{database}", nodes());
    let load = tokio::spawn(async move {
        let database = Database::connect(&url).await.unwrap();
        let load = database
            .load(file.display().to_string())
            .table("t")
            .jobs(2)
            .batch_rows(500);
        load.run().await
    });
    let mut conn = session(2, &database).await;
    let mut there = 0;
    while there == 0 && !load.is_finished() {
        tokio::time::sleep(Duration::from_millis(5)).await;
        there = number(&mut conn, "SELECT count(*) FROM t").await;
    }
    assert!(
        there > 0 && there < ROWS as u64,
        "{there} rows when the node is lost"
    );
    tokio::task::spawn_blocking(|| family("kill", "galera-1"))
        .await
        .unwrap();
    let report = load.await.unwrap();
    // Whatever became of it: the node is there for others.
    tokio::task::spawn_blocking(|| family("up", "galera-1"))
        .await
        .unwrap();
    let report = report.unwrap();
    assert_eq!(report.rows.written, ROWS as u64);
    assert!(report.rows.balances());
    for at in 1..=3 {
        let mut conn = session(at, &database).await;
        assert_eq!(
            number(&mut conn, "SELECT count(*) FROM t").await,
            ROWS as u64,
            "node {at}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_or_takes_no_writes_is_passed_over() {
    let _shared = CLUSTER.read().await;
    let (database, _directory, file) = place("away", 10, "row").await;
    let hosts = nodes().split_once('@').expect("hosts").1;
    let login = nodes().split_once('@').expect("hosts").0;
    let url = format!("{login}@127.0.0.1:1,{hosts}/{database}");
    let connected = Database::connect(&url).await.unwrap();
    let report = connected
        .load(file.display().to_string())
        .table("t")
        .run()
        .await
        .unwrap();
    assert_eq!(report.rows.written, 10);
    let none = Database::connect(&format!("{login}@127.0.0.1:1,127.0.0.1:2/{database}")).await;
    let message = none.err().expect("nobody is there").to_string();
    assert!(
        message.starts_with("none of the 2 servers can be used: cannot connect to 127.0.0.1:1"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_that_the_cluster_would_commit_in_parts_is_refused() {
    let _alone = CLUSTER.write().await;
    let (database, _directory, _file) = place("parts", 1, "row").await;
    let mut conn = session(3, &database).await;
    let set = async |conn: &mut Conn, to: &str| {
        let set = format!("SET GLOBAL wsrep_load_data_splitting = {to}");
        conn.query_drop(set).await.unwrap();
    };
    set(&mut conn, "ON").await;
    let target = super::connect(&format!("{}/{database}", node(3))).await.unwrap();
    set(&mut conn, "OFF").await;
    let table = target.table(&"t".parse().unwrap()).await.unwrap().unwrap();
    let said = target.support(&table, &Operation::Insert, Method::Native);
    assert!(
        matches!(&said, Support::No { why, .. } if why.contains("wsrep_load_data_splitting")),
        "{said:?}"
    );
}
