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

use crate::postgres::{Server, TestDatabase};

const TABLE: &str = "CREATE TABLE events (tenant bigint NOT NULL, id bigint NOT NULL, \
                     state text NOT NULL CHECK (state <> 'bäd'), PRIMARY KEY (tenant, id))";

/// The same without checks, of which the type of a column takes the place.
#[cfg(feature = "cassandra")]
const TABLE_OF_ASCII: &str =
    "CREATE TABLE events (tenant bigint, id bigint, state ascii, PRIMARY KEY (tenant, id))";

/// A state that no table takes.
const BAD: &str = "bäd";

/// What callbacks were told, in the order in which they were called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Completed(usize),
    KeyExists(usize, u64),
    Failed(usize, u64),
}

type Heard = Arc<Mutex<Vec<Call>>>;

fn tell(heard: &Heard) -> impl Fn(Call) + Send + Sync + 'static {
    let heard = heard.clone();
    move |told| heard.lock().expect("no callback panics").push(told)
}

/// Hears of streams that are completed and of entries that fail.
fn listening(put: BulkPut, after: AfterFailure) -> (BulkPut, Heard) {
    let heard = Heard::default();
    let (completed, failed) = (tell(&heard), tell(&heard));
    let put = put
        .on_completed(move |stream| completed(Call::Completed(stream)))
        .on_failed(move |_, entry| {
            failed(Call::Failed(entry.stream, entry.row));
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
    Postgres(Vec<TestDatabase>),
    Sqlite(tempfile::TempDir),
    #[cfg(feature = "mysql")]
    MariaDb(crate::mysql::TestDatabase),
    #[cfg(feature = "cassandra")]
    Cassandra(Box<crate::cassandra::TestDatabase>),
}

impl Kind {
    async fn all() -> Vec<Self> {
        // Places are limited, so tests that want several wait for them one after another.
        static WAITING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _waiting = WAITING.lock().await;
        let mut shards = Vec::new();
        for _ in 0..3 {
            shards.push(TestDatabase::on(Server::System).await);
        }
        let mut kinds = vec![
            Self::Sqlite(tempfile::tempdir().expect("a directory")),
            Self::Postgres(vec![TestDatabase::on(Server::System).await]),
            Self::Postgres(shards),
            #[cfg(feature = "mysql")]
            Self::MariaDb(crate::mysql::TestDatabase::new().await),
        ];
        for kind in &kinds {
            kind.execute(TABLE).await;
        }
        #[cfg(feature = "cassandra")]
        kinds.push(Self::cassandra().await);
        kinds
    }

    #[cfg(feature = "cassandra")]
    async fn cassandra() -> Self {
        Self::Cassandra(Box::new(
            crate::cassandra::TestDatabase::new(&[TABLE_OF_ASCII]).await,
        ))
    }

    /// Whether an insert replaces what is there.
    fn replaces(&self) -> bool {
        match self {
            #[cfg(feature = "cassandra")]
            Self::Cassandra(_) => true,
            _ => false,
        }
    }

    /// Takes the rows of the tenants 0 to 3 out of the table.
    async fn clear(&self) {
        let sql = match self {
            // What the next put writes is newer.
            #[cfg(feature = "cassandra")]
            Self::Cassandra(_) => "DELETE FROM events WHERE tenant IN (0, 1, 2, 3)",
            _ => "DELETE FROM events WHERE tenant < 4",
        };
        self.execute(sql).await;
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
            #[cfg(feature = "cassandra")]
            Self::Cassandra(place) => place.run(sql).await,
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
            #[cfg(feature = "cassandra")]
            Self::Cassandra(place) => Database::connect(&place.url).await,
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
            #[cfg(feature = "cassandra")]
            Self::Cassandra(place) => {
                let found = place
                    .session
                    .query_unpaged("SELECT tenant, id, state FROM events", ())
                    .await;
                let found = found.expect("the rows").into_rows_result().expect("rows");
                let found = found.rows::<(i64, i64, String)>().expect("three columns");
                rows.extend(found.map(|row| {
                    let (tenant, id, state) = row.expect("a row");
                    ((tenant, id), state)
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
                    let state = if id == 1_234 { BAD } else { "good" };
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
        let (mut put, heard) = listening(put, AfterFailure::Continue);
        if !kind.replaces() {
            let exists = tell(&heard);
            put = put.on_key_exists(move |entry| exists(Call::KeyExists(entry.stream, entry.row)));
        }
        let report = put.run().await.expect("the put");
        let rows = kind.rows().await;
        let heard = heard.lock().expect("no callback panics").clone();

        let ended = |stream| [Call::Completed(stream), Call::Failed(stream, 1_235)];
        let mut expected: BTreeSet<_> = (0..STREAMS as usize).flat_map(ended).collect();
        if !kind.replaces() {
            expected.extend((0..STREAMS as usize).map(|stream| Call::KeyExists(stream, 2_001)));
            expected.extend([Call::KeyExists(0, 6), Call::KeyExists(3, 10)]);
        }
        assert_eq!(heard.iter().cloned().collect::<BTreeSet<_>>(), expected);
        assert_eq!(heard.len(), expected.len(), "each once: {heard:?}");
        for stream in 0..STREAMS as usize {
            let of = |told: &Call| match told {
                Call::Completed(at) | Call::KeyExists(at, _) | Call::Failed(at, _) => *at == stream,
            };
            let last = heard.iter().rfind(|told| of(told));
            assert_eq!(
                last,
                Some(&Call::Completed(stream)),
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
        let found = if kind.replaces() { 0 } else { STREAMS as u64 + 2 };
        assert_eq!((key_exists, failed), (found, STREAMS as u64));
        assert_eq!(written, (STREAMS * EACH) as u64 - key_exists - failed);
        // Of each stream all but the bad one and the one that came again.
        assert_eq!(rows.len(), (STREAMS * (EACH - 2)) as usize);
        assert_eq!(rows[&(0, 5)], if kind.replaces() { "good" } else { "before" });
    }
}

#[tokio::test]
async fn what_is_told_as_completed_is_there() {
    const STREAMS: i64 = 8;
    const EACH: i64 = 400;
    for kind in Kind::all().await {
        // Who reads it holds its one writer up.
        if matches!(kind, Kind::Sqlite(_)) {
            continue;
        }
        let database = kind.connect().await;
        let streams = (0..STREAMS).map(|stream| {
            let batches = (0..EACH).step_by(100);
            batches.map(move |first| {
                let rows: Vec<_> = (first..first + 100).map(|id| (stream, id, "good")).collect();
                batch(&rows)
            })
        });
        let (completed, mut told) = tokio::sync::mpsc::unbounded_channel();
        let put = database
            .bulk_put("events")
            .batches(&schema(), streams)
            .jobs(2)
            .options(|options| options.batch_rows = Some(150))
            .on_completed(move |stream| completed.send(stream).expect("somebody listens"));
        let looking = async {
            let mut streams = BTreeSet::new();
            // Ends when the put has let go of its callbacks.
            while let Some(stream) = told.recv().await {
                let rows = kind.rows().await;
                let own = rows.keys().filter(|(tenant, _)| *tenant == stream as i64);
                assert_eq!(own.count() as i64, EACH, "stream {stream}");
                streams.insert(stream);
            }
            streams
        };
        let (report, streams) = tokio::join!(put.run(), looking);
        assert_eq!(report.expect("the put").completed, STREAMS as usize);
        assert_eq!(streams.len(), STREAMS as usize);
    }
}

#[cfg(feature = "cassandra")]
#[tokio::test]
async fn where_an_insert_replaces_nobody_asks_to_be_told_of_keys() {
    let kind = Kind::cassandra().await;
    let database = kind.connect().await;
    let put = |state: &'static str| {
        let streams = [vec![batch(&[(1, 1, state)])]];
        database.bulk_put("events").batches(&schema(), streams)
    };
    let never = |_| panic!("no key is told of");
    let error = put("refused").on_key_exists(never).run().await;
    let error = error.expect_err("it would never be called");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let said = "does not tell whether a key exists";
    assert!(error.to_string().contains(said), "{error}");
    let hint = error.hint_text().unwrap_or_default();
    assert!(hint.starts_with("leave on_key_exists out"), "{hint}");
    assert!(kind.rows().await.is_empty());
    // Without it the account says what an insert is.
    for state in ["first", "second"] {
        let report = put(state).run().await.expect("the put");
        assert_eq!((report.written, report.key_exists, report.completed), (1, 0, 1));
        assert!(report.load.notes.iter().any(|note| note.contains(said)));
        assert_eq!(kind.rows().await[&(1, 1)], state);
    }
    let put = put("third").upsert(["tenant", "id"]).on_key_exists(never);
    assert_eq!(put.run().await.expect("the put").written, 1);
    assert_eq!(kind.rows().await[&(1, 1)], "third");
}

#[tokio::test]
async fn entries_of_one_key_keep_their_order_within_a_stream() {
    for kind in Kind::all().await {
        // Rows whose key is there cost a statement each.
        for (upserts, times) in [(true, 4_000_i64), (false, 200)] {
            kind.clear().await;
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
                let expected = match upserts || kind.replaces() {
                    true => (times - 7..times).find(|time| time % 7 == id),
                    false => Some(id),
                };
                assert_eq!(
                    Some(state),
                    expected.map(|time| time.to_string()),
                    "upsert: {upserts}"
                );
            }
            let found = match upserts || kind.replaces() {
                true => 0,
                false => 4 * (times as u64 - 7),
            };
            assert_eq!(report.key_exists, found);
            assert_eq!(report.completed, 4);
        }
    }
}

#[tokio::test]
async fn a_failure_that_aborts_ends_the_put() {
    for kind in Kind::all().await {
        let database = kind.connect().await;
        for with_callback in [true, false] {
            let streams = [vec![batch(&[(1, 1, "good"), (1, 2, BAD), (1, 3, "good")])]];
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
                .contains(&Call::Failed(0, 2));
            assert_eq!(told, with_callback);
            kind.clear().await;
        }
    }
}

#[tokio::test]
async fn streams_of_other_columns_are_refused() {
    let kind = Kind::Sqlite(tempfile::tempdir().expect("a directory"));
    kind.execute(TABLE).await;
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
