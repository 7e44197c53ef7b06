//! Bulk put: many streams, each completed when its entries are durable or were handed over, on every kind of database.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use tonnage::{
    Database, ErrorKind, Row,
    put::{AfterFailure, BulkPut, PutReport},
};

use crate::postgres::{Place, Server};

const TABLE: &str = "CREATE TABLE events (tenant bigint NOT NULL, id bigint NOT NULL, \
                     state text NOT NULL CHECK (state <> 'bad'), PRIMARY KEY (tenant, id))";

/// What callbacks were told, in the order in which they were called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Completed(usize),
    KeyExists(usize, u64),
    Failed(usize, u64),
}

type Heard = Arc<Mutex<Vec<Told>>>;

fn listening(put: BulkPut, after: AfterFailure) -> (BulkPut, Heard) {
    let heard = Heard::default();
    let tell = |heard: &Heard| {
        let heard = heard.clone();
        move |told| heard.lock().expect("no callback panics").push(told)
    };
    let (completed, exists, failed) = (tell(&heard), tell(&heard), tell(&heard));
    let put = put
        .on_completed(move |stream| completed(Told::Completed(stream)))
        .on_key_exists(move |entry| exists(Told::KeyExists(entry.stream, entry.row)))
        .on_failed(move |_, entry| {
            failed(Told::Failed(entry.stream, entry.row));
            after
        });
    (put, heard)
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("tenant", DataType::Int64, false),
        Field::new("id", DataType::Int64, false),
        Field::new("state", DataType::Utf8, true),
    ]))
}

fn batch(rows: &[(i64, i64, &str)]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.2))),
    ];
    RecordBatch::try_new(schema(), columns).expect("a batch")
}

/// Rows of the table by their keys.
type Rows = BTreeMap<(i64, i64), String>;

/// A database to put into, and how its rows are seen without this crate.
enum Kind {
    Postgres(Vec<Place>),
    Sqlite(tempfile::TempDir),
    #[cfg(feature = "mysql")]
    MariaDb(crate::mysql::Place),
}

impl Kind {
    async fn all() -> Vec<Self> {
        // Places are limited, so tests that want several wait for them one after another.
        static WAITING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _waiting = WAITING.lock().await;
        let mut shards = Vec::new();
        for _ in 0..3 {
            shards.push(Place::on(Server::System).await);
        }
        let kinds = vec![
            Self::Sqlite(tempfile::tempdir().expect("a directory")),
            Self::Postgres(vec![Place::on(Server::System).await]),
            Self::Postgres(shards),
            #[cfg(feature = "mysql")]
            Self::MariaDb(crate::mysql::Place::new().await),
        ];
        for kind in &kinds {
            kind.execute(TABLE).await;
        }
        kinds
    }

    async fn execute(&self, sql: &str) {
        match self {
            Self::Postgres(places) => {
                for place in places {
                    place.run(sql).await;
                }
            }
            Self::Sqlite(directory) => {
                let connection = rusqlite::Connection::open(directory.path().join("put.db")).expect("a file");
                connection.execute_batch(sql).expect(sql);
            }
            #[cfg(feature = "mysql")]
            Self::MariaDb(place) => place.run(sql).await,
        }
    }

    async fn connect(&self) -> Database {
        match self {
            Self::Postgres(places) => match places.as_slice() {
                [only] => Database::connect(&only.url).await,
                several => {
                    Database::connect_sharded(several.iter().map(|place| &place.url), ["tenant"]).await
                }
            },
            Self::Sqlite(directory) => {
                let path = directory.path().join("put.db").display().to_string();
                Database::connect(&path).await
            }
            #[cfg(feature = "mysql")]
            Self::MariaDb(place) => Database::connect(&place.url).await,
        }
        .expect("the database answers")
    }

    async fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        match self {
            Self::Postgres(places) => {
                for place in places {
                    let found = place
                        .client
                        .query("SELECT tenant, id, state FROM events", &[])
                        .await;
                    for row in found.expect("the rows") {
                        let known = rows.insert((row.get(0), row.get(1)), row.get(2));
                        assert_eq!(known, None, "a row stands once");
                    }
                }
            }
            Self::Sqlite(directory) => {
                let connection = rusqlite::Connection::open(directory.path().join("put.db")).expect("a file");
                let mut statement = connection
                    .prepare("SELECT tenant, id, state FROM events")
                    .expect("a query");
                let found = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)));
                rows.extend(found.expect("the rows").map(|row| row.expect("a row")));
            }
            #[cfg(feature = "mysql")]
            Self::MariaDb(place) => {
                let found = place
                    .texts("SELECT CONCAT_WS('|', tenant, id, state) FROM events")
                    .await;
                rows.extend(found.into_iter().flatten().map(|row| {
                    let mut fields = row.splitn(3, '|');
                    let mut next = || fields.next().expect("a field");
                    let number = |text: &str| text.parse().expect("a number");
                    ((number(next()), number(next())), next().to_owned())
                }));
            }
        }
        rows
    }
}

#[tokio::test]
async fn entries_are_written_or_handed_over_before_their_stream_is_completed() {
    const STREAMS: i64 = 6;
    const EACH: i64 = 3_000;
    for kind in Kind::all().await {
        let database = kind.connect().await;
        let before = [vec![batch(&[(0, 5, "before"), (3, 9, "before")])]];
        let put = database.bulk_put("events").batches(&schema(), before);
        assert_eq!(put.run().await.expect("the put").written, 2);
        let streams = (0..STREAMS).map(|stream| {
            (0..EACH).step_by(500).map(move |first| {
                let row = |id: i64| {
                    // One in a stream is bad, one comes again.
                    let state = if id == 1_234 { "bad" } else { "good" };
                    (stream, if id == 2_000 { 100 } else { id }, state)
                };
                batch(&(first..first + 500).map(row).collect::<Vec<_>>())
            })
        });
        let put = database
            .bulk_put("events")
            .batches(&schema(), streams)
            .stream_parallelism(3)
            .options(|options| options.batch_rows = Some(700));
        let (put, heard) = listening(put, AfterFailure::Continue);
        let report = put.run().await.expect("the put");
        let rows = kind.rows().await;
        let heard = heard.lock().expect("no callback panics").clone();

        let expected: BTreeSet<_> = (0..STREAMS as usize)
            .flat_map(|stream| {
                [
                    Told::Completed(stream),
                    Told::KeyExists(stream, 2_001),
                    Told::Failed(stream, 1_235),
                ]
            })
            .chain([Told::KeyExists(0, 6), Told::KeyExists(3, 10)])
            .collect();
        assert_eq!(heard.iter().cloned().collect::<BTreeSet<_>>(), expected);
        assert_eq!(heard.len(), expected.len(), "each once: {heard:?}");
        for stream in 0..STREAMS as usize {
            let of = |told: &Told| match told {
                Told::Completed(at) | Told::KeyExists(at, _) | Told::Failed(at, _) => *at == stream,
            };
            let last = heard.iter().rfind(|told| of(told));
            assert_eq!(
                last,
                Some(&Told::Completed(stream)),
                "completed comes last: {heard:?}"
            );
        }
        let PutReport {
            streams,
            completed,
            written,
            key_exists,
            failed,
            ..
        } = report;
        assert_eq!((streams, completed), (STREAMS as usize, STREAMS as usize));
        assert_eq!((key_exists, failed), (STREAMS as u64 + 2, STREAMS as u64));
        assert_eq!(written, (STREAMS * EACH) as u64 - key_exists - failed);
        assert_eq!(rows.len() as u64, written + 2);
        assert_eq!(rows[&(0, 5)], "before");
    }
}

#[tokio::test]
async fn entries_of_one_key_keep_their_order_within_a_stream() {
    for kind in Kind::all().await {
        // Rows whose key is there cost a statement each.
        for (upserts, times) in [(true, 4_000_i64), (false, 200)] {
            kind.execute("DELETE FROM events").await;
            // Each stream has keys of its own, and each of its keys comes again and again.
            let streams = (0..4i64).map(|tenant| {
                (0..times).filter_map(move |time| {
                    Row::of(
                        &serde_json::json!({"tenant": tenant, "id": time % 7, "state": format!("{time}")}),
                    )
                    .ok()
                })
            });
            let database = kind.connect().await;
            let put = database
                .bulk_put("events")
                .rows(["tenant", "id", "state"], streams)
                .jobs(4)
                .options(|options| options.batch_rows = Some(300));
            let put = match upserts {
                true => put.upsert(["tenant", "id"]),
                false => put,
            };
            let report = put.run().await.expect("the put");
            let rows = kind.rows().await;
            assert_eq!(rows.len(), 28);
            for ((_, id), state) in rows {
                let expected = match upserts {
                    true => (times - 7..times).find(|time| time % 7 == id),
                    false => Some(id),
                };
                assert_eq!(
                    Some(state),
                    expected.map(|time| time.to_string()),
                    "upsert: {upserts}"
                );
            }
            assert_eq!(
                report.key_exists,
                if upserts { 0 } else { 4 * (times as u64 - 7) }
            );
            assert_eq!(report.completed, 4);
        }
    }
}

#[tokio::test]
async fn a_failure_that_aborts_ends_the_put() {
    for kind in Kind::all().await {
        let database = kind.connect().await;
        for with_callback in [true, false] {
            let streams = [vec![batch(&[(1, 1, "good"), (1, 2, "bad"), (1, 3, "good")])]];
            let put = database.bulk_put("events").batches(&schema(), streams);
            let (put, heard) = match with_callback {
                true => listening(put, AfterFailure::Abort),
                false => (put, Heard::default()),
            };
            let error = put.run().await.expect_err("it is aborted");
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
            assert!(error.to_string().starts_with("stream 0 row 2: "), "{error}");
            let told = heard
                .lock()
                .expect("no callback panics")
                .contains(&Told::Failed(0, 2));
            assert_eq!(told, with_callback);
            kind.execute("DELETE FROM events").await;
        }
    }
}

#[tokio::test]
async fn streams_of_other_columns_are_refused() {
    let kind = &Kind::all().await[0];
    let database = kind.connect().await;
    let none: [Vec<RecordBatch>; 0] = [];
    let error = database.bulk_put("events").batches(&schema(), none).run().await;
    assert!(error.expect_err("no streams").to_string().contains("no stream"));
    let rows = [vec![Row::json("{}")]];
    let put = database.bulk_put("events").batches(&schema(), [vec![batch(&[])]]);
    let error = put
        .rows(["tenant"], rows)
        .run()
        .await
        .expect_err("columns differ");
    assert!(
        error.to_string().contains("stream 1 has other columns"),
        "{error}"
    );
}
