//! Nodes that die or stand still during a load.

use std::{
    path::Path,
    process::Command,
    sync::{Arc, atomic::Ordering},
};

use tonnage::{
    load::{Progress, prepare},
    operation::{Durability, Method},
    plan::{Attempt, LoadOptions, Rate},
    stop::Stop,
    table::TableName,
};

use super::{NODES, TestDatabase, directory, script, session::until_whole};

const ROWS: u64 = 30_000;

type Running = tokio::task::JoinHandle<tonnage::Result<tonnage::load::Ended>>;

/// A file of so many rows.
fn rows_file(place: &TestDatabase, rows: u64) -> String {
    let mut text = "id,v\n".to_owned();
    (0..rows).for_each(|row| text.push_str(&format!("{row},v{row}\n")));
    place.write("t.csv", &text)
}

/// Begins a load of a file, so slow that it is not over before something happens to nodes, and waits until it has written.
async fn begun(place: &TestDatabase, file: &str, options: LoadOptions) -> (Running, Arc<Progress>) {
    let source = tonnage::sources::open(&[file.to_owned()], None, &Default::default()).unwrap();
    let options = LoadOptions {
        rate: Some(Rate::Rows(3_000)),
        ..options
    };
    let prepared = prepare(place.target().await, place.url.clone(), source, options).await;
    let progress: Arc<Progress> = Arc::default();
    let running = tokio::spawn(prepared.unwrap().run(progress.clone(), Stop::default()));
    while progress.written.load(Ordering::Relaxed) == 0 {
        assert!(!running.is_finished(), "the load ended before it wrote anything");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    (running, progress)
}

/// Begins a load at `durability`, kills a node once something is written, and waits for the load's end.
async fn load_while_a_node_dies(
    place: &TestDatabase,
    file: &str,
    durability: Durability,
) -> tonnage::load::Ended {
    let options = LoadOptions {
        durability: Some(durability),
        batch_rows: Some(500),
        jobs: Some(2),
        ..LoadOptions::new(TableName::bare("t"))
    };
    let (running, _) = begun(place, file, options).await;
    tokio::task::spawn_blocking(|| script("kill", &["3"]))
        .await
        .unwrap();
    running.await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_stops_a_load_at_all_and_not_one_at_majority() {
    let place = TestDatabase::alone(&["CREATE TABLE t (id int PRIMARY KEY, v text)"]).await;
    let file = rows_file(&place, ROWS);

    let ended = load_while_a_node_dies(&place, &file, Durability::Majority).await;
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(ended.report.rows.written, ROWS);
    assert_eq!(place.count("t").await, ROWS as i64);

    tokio::task::spawn_blocking(|| script("up", &[])).await.unwrap();
    until_whole(&place.session, NODES).await;
    while place.session.query_unpaged("TRUNCATE t", ()).await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let ended = load_while_a_node_dies(&place, &file, Durability::All).await;
    let error = ended.error.expect("a replica is missing");
    assert!(error.is_transient(), "{error}");
    assert!(error.to_string().contains("All"), "{error}");
    let rows = ended.report.rows;
    assert!(
        rows.balances() && rows.written > 0 && rows.unfinished > 0,
        "{rows}"
    );
    let slots = place.target().await;
    let runs = slots
        .ledger()
        .runs(&tonnage::ledger::RunQuery::Newest(1_000))
        .await
        .unwrap();
    let unfinished = runs
        .iter()
        .find(|run| run.finished.is_none())
        .expect("an unfinished run");
    assert_eq!(unfinished.counts.written, rows.written);
    assert!(place.count("t").await >= rows.written as i64);

    tokio::task::spawn_blocking(|| script("up", &[])).await.unwrap();
    until_whole(&place.session, NODES).await;
    let source = tonnage::sources::open(std::slice::from_ref(&file), None, &Default::default()).unwrap();
    let options = LoadOptions {
        durability: Some(Durability::All),
        attempt: Attempt::Resume,
        ..LoadOptions::new(TableName::bare("t"))
    };
    let prepared = prepare(place.target().await, place.url.clone(), source, options).await;
    let ended = prepared
        .unwrap()
        .run(Arc::default(), Stop::default())
        .await
        .unwrap();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    assert_eq!(ended.report.rows.skipped.resumed, rows.written);
    assert_eq!(ended.report.rows.written, ROWS - rows.written);
    assert_eq!(place.count("t").await, ROWS as i64);
}

/// Nodes that stand still; they go on when this is dropped.
struct Stopped(&'static [u32]);

impl Stopped {
    fn new(nodes: &'static [u32]) -> Self {
        let stopped = Self(nodes);
        stopped.signal("-STOP");
        stopped
    }

    fn signal(&self, signal: &str) {
        for node in self.0 {
            let path = Path::new(&directory()).join(node.to_string()).join("pid");
            let process = std::fs::read_to_string(path).expect("the node's process id");
            let sent = Command::new("kill").arg(signal).arg(process.trim()).status();
            assert!(sent.expect("kill starts").success());
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_are_not_acknowledged_in_time_become_fewer_and_are_sent_again() {
    const ROWS: u64 = 12_000;
    const JOBS: usize = 2;
    let place = TestDatabase::alone(&["CREATE TABLE t (id int PRIMARY KEY, v text)"]).await;
    let file = rows_file(&place, ROWS);
    let options = LoadOptions {
        durability: Some(Durability::Majority),
        // Each row a request, so that every node has some.
        method: Some(Method::Batch),
        batch_rows: Some(1_000),
        jobs: Some(JOBS),
        ..LoadOptions::new(TableName::bare("t"))
    };
    let (running, progress) = begun(&place, &file, options).await;
    // The node that is left has no majority, and says so once its time is over.
    let stopped = Stopped::new(&[2, 3]);
    while progress.retries.load(Ordering::Relaxed) == 0 {
        assert!(!running.is_finished(), "the load ended without being tried again");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    drop(stopped);

    let ended = running.await.unwrap().unwrap();
    assert!(ended.error.is_none(), "{:?}", ended.error);
    let (report, rows) = (&ended.report, ended.report.rows);
    assert_eq!((rows.read, rows.written, rows.rejected), (ROWS, ROWS, 0));
    assert_eq!(place.count("t").await, ROWS as i64);
    let overload = report.overload.as_ref().expect("it met timeouts");
    assert!(overload.writes > 0 && overload.writes <= report.retries);
    assert!(
        overload.error.contains("in time") || overload.error.contains("no node has answered"),
        "{}",
        overload.error
    );
    assert_eq!(overload.jobs_least, JOBS - 1);
    // A lane begins with 256.
    assert!(
        overload.requests_least.is_some_and(|requests| requests <= 128),
        "{overload:?}"
    );
    let target = place.target().await;
    let runs = target
        .ledger()
        .runs(&tonnage::ledger::RunQuery::Newest(1_000))
        .await
        .unwrap();
    assert_eq!((runs.len(), runs[0].counts.written), (1, ROWS));
    assert!(runs[0].finished.is_some());
}
