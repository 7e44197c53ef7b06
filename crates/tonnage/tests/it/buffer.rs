//! The buffer on real databases: many threads, several tables, a database that goes away.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use rusqlite::Connection;
use tonnage::{
    Buffer, Database, Row,
    buffer::{Ack, BufferOptions},
};

use crate::postgres::TestDatabase;

const SCHEMA: &str = "CREATE TABLE readings (id bigint NOT NULL, device text, state text DEFAULT 'new');
     CREATE TABLE events (id bigint PRIMARY KEY, what text)";

/// Ids in the order in which a database gives them.
type Ids = BTreeSet<i64>;

fn row(id: i64) -> Row {
    Row::json(format!(r#"{{"id": {id}, "device": "d{id}"}}"#))
}

fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone()));
    let device: ArrayRef = Arc::new(StringArray::from_iter_values(ids.map(|id| format!("d{id}"))));
    RecordBatch::try_from_iter([("id", id), ("device", device)]).unwrap()
}

/// Threads and tasks put single rows and batches at once; every one is there once.
async fn many_put(options: BufferOptions) -> Ids {
    let buffer = options
        .drain(20_000, Duration::from_millis(10))
        .open()
        .await
        .unwrap();
    let mut threads = Vec::new();
    for thread in 0..4 {
        let buffer = buffer.clone();
        threads.push(std::thread::spawn(move || {
            for at in 0..500 {
                let sequence = buffer.put_blocking(row(thread * 10_000 + at)).unwrap();
                if at % 100 == 99 {
                    buffer.wait_blocking(sequence).unwrap();
                }
            }
        }));
    }
    let mut tasks = tokio::task::JoinSet::new();
    for task in 4..8 {
        let buffer = buffer.clone();
        tasks.spawn(async move {
            for at in 0..10 {
                let first = task * 10_000 + at * 60;
                buffer.put_many(batch(first..first + 50)).await.unwrap();
                for id in first + 50..first + 60 {
                    buffer.put(row(id)).await.unwrap();
                }
            }
            buffer.flush().await.unwrap();
            assert!(buffer.committed() >= buffer.written());
        });
    }
    tasks.join_all().await;
    let joined = tokio::task::spawn_blocking(move || threads.into_iter().for_each(|t| t.join().unwrap()));
    joined.await.unwrap();
    let report = buffer.close().await.unwrap();
    assert_eq!(
        (report.rows.put, report.rows.written, report.rows.unfinished),
        (4_400, 4_400, 0)
    );
    let of_threads = (0..4).flat_map(|thread| (0..500).map(move |at| thread * 10_000 + at));
    let of_tasks = (4..8).flat_map(|task| (0..600).map(move |at| task * 10_000 + at));
    of_threads.chain(of_tasks).collect()
}

/// Two tables of one database at once, with and without a journal.
async fn two_tables(
    database: &Database,
    directory: &std::path::Path,
    options: impl Fn(BufferOptions) -> BufferOptions,
) {
    let readings = options(database.buffer("readings"))
        .journal(directory.join("journal"))
        .ack(Ack::Journaled);
    let readings = readings.open().await.unwrap();
    let events = options(database.buffer("events"))
        .ack(Ack::Committed)
        .drain(1, Duration::ZERO);
    let events = events.open().await.unwrap();
    for id in 1..=40 {
        assert_eq!(readings.put(row(1_000_000 + id)).await.unwrap() as i64, id);
        let event = Row::json(format!(r#"{{"id": {id}, "what": "{id}"}}"#));
        assert_eq!(events.put(event).await.unwrap() as i64, id);
        assert!(events.committed() as i64 >= id);
    }
    readings.close().await.unwrap();
    let close = |buffer: Buffer| buffer.close();
    close(events).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("test.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    let database = Database::connect(&path.display().to_string()).await.unwrap();
    let rejects = |options: BufferOptions| options.rejects(directory.path().join("none.jsonl"), 0);
    let expected = many_put(rejects(database.buffer("readings"))).await;
    let mut statement = connection
        .prepare("SELECT id FROM readings WHERE state = 'new'")
        .unwrap();
    let found: Vec<i64> = statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(found.len(), expected.len());
    assert_eq!(found.into_iter().collect::<Ids>(), expected);
    two_tables(&database, directory.path(), rejects).await;
    let counts = "SELECT (SELECT count(*) FROM readings WHERE id > 1000000) + (SELECT count(*) FROM events)";
    assert_eq!(
        connection.query_row(counts, [], |row| row.get::<_, i64>(0)),
        Ok(80)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    let place = TestDatabase::on(crate::postgres::Server::System).await;
    place.run(SCHEMA).await;
    let directory = tempfile::tempdir().unwrap();
    let database = Database::connect(&place.url).await.unwrap();
    let rejects = |options: BufferOptions| options.rejects(directory.path().join("none.jsonl"), 0);
    // Its sessions are killed again and again meanwhile: the drain comes back by itself.
    let killer = {
        let kill = format!(
            "SELECT count(pg_terminate_backend(a.pid)) FROM pg_stat_activity a JOIN pg_locks l USING (pid) \
             WHERE l.relation = '{}.readings'::regclass AND a.pid <> pg_backend_pid()",
            place.schema
        );
        let session = crate::postgres::session(&crate::postgres::url()).await;
        tokio::spawn(async move {
            for _ in 0..40 {
                session.query(&kill, &[]).await.unwrap();
                tokio::time::sleep(Duration::from_millis(7)).await;
            }
        })
    };
    let expected = many_put(rejects(database.buffer("readings"))).await;
    killer.await.unwrap();
    let rows = place
        .client
        .query("SELECT id FROM readings WHERE state = 'new'", &[])
        .await
        .unwrap();
    assert_eq!(rows.len(), expected.len());
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Ids>(), expected);
    two_tables(&database, directory.path(), rejects).await;
    assert_eq!(
        place
            .number("SELECT count(*) FROM readings WHERE id > 1000000")
            .await,
        40
    );
    assert_eq!(place.number("SELECT count(*) FROM events").await, 40);
}
