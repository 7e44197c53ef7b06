//! Rows of keys.

use super::{Server, TestDatabase};
use crate::gets::{RELATED, case, check, check_composite, check_related, collect, collect_while, get};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_every_type() {
    let place = TestDatabase::on(Server::System).await;
    place
        .run(
            "CREATE TABLE ints (k bigint PRIMARY KEY, v text);
             INSERT INTO ints VALUES (-5, 'minus'), (7, 'seven'), (9223372036854775807, 'most');
             CREATE TABLE smalls (k smallint PRIMARY KEY, v text); INSERT INTO smalls VALUES (1, 'one');
             CREATE TABLE texts (k text PRIMARY KEY, v text);
             INSERT INTO texts VALUES ('a', 'lower'), ('A', 'upper'), ('', 'empty'), ('007', 'agent'), ('é', 'accent');
             CREATE TABLE shorts (k varchar(3) PRIMARY KEY, v text); INSERT INTO shorts VALUES ('abc', 'abc');
             CREATE TABLE padded (k char(5) PRIMARY KEY, v text); INSERT INTO padded VALUES ('abc', 'abc');
             CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
             CREATE TABLE folded (k text COLLATE nocase PRIMARY KEY, v text);
             INSERT INTO folded VALUES ('Abc', 'abc');
             CREATE TABLE sorted (k text COLLATE \"C\" PRIMARY KEY, v text); INSERT INTO sorted VALUES ('Abc', 'abc');
             CREATE TABLE uuids (k uuid PRIMARY KEY, v text);
             INSERT INTO uuids VALUES ('6f1f1d70-2b3c-4d5e-8f90-a1b2c3d4e5f6', 'one');
             CREATE TABLE dates (k date PRIMARY KEY, v text);
             INSERT INTO dates VALUES ('2024-02-29', 'leap');
             CREATE TABLE instants (k timestamptz PRIMARY KEY, v text);
             INSERT INTO instants VALUES ('2024-02-29 12:00:00+02', 'noon');
             CREATE TABLE decimals (k numeric(10,2) PRIMARY KEY, v text);
             INSERT INTO decimals VALUES (12.5, 'half'), (3, 'three');
             CREATE TABLE numerics (k numeric PRIMARY KEY, v text);
             INSERT INTO numerics VALUES (1.00, 'one'), ('NaN', 'nan'), (1e40, 'large');
             CREATE TABLE floats (k float8 PRIMARY KEY, v text);
             INSERT INTO floats VALUES (0.5, 'half'), (0, 'zero'), ('NaN', 'nan');
             CREATE TABLE bytes (k bytea PRIMARY KEY, v text);
             INSERT INTO bytes VALUES ('\\x00ff', 'bytes'), ('', 'none');
             CREATE TYPE mood AS ENUM ('glad', 'sad');
             CREATE TABLE moods (k mood PRIMARY KEY, v text); INSERT INTO moods VALUES ('sad', 'tears');
             CREATE TABLE addresses (k inet PRIMARY KEY, v text); INSERT INTO addresses VALUES ('10.0.0.1', 'ten');
             CREATE DOMAIN code AS text CHECK (value <> '');
             CREATE TABLE codes (k code PRIMARY KEY, v text); INSERT INTO codes VALUES ('x', 'one');
             CREATE TABLE parts (k int PRIMARY KEY, v text) PARTITION BY HASH (k);
             CREATE TABLE parts0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
             CREATE TABLE parts1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
             INSERT INTO parts SELECT i, 'p' || i FROM generate_series(1, 9) i",
        )
        .await;
    let cases = [
        case(
            "ints",
            &["7", "8", "-5", "9223372036854775807", ""],
            &["seven", "minus", "most"],
            &["8", ""],
        ),
        case("smalls", &["1", "2"], &["one"], &["2"]),
        case(
            "texts",
            &["A", "b", "\"\"", "007", "7", "é", "a"],
            &["upper", "empty", "agent", "accent", "lower"],
            &["b", "7"],
        ),
        case("shorts", &["abc", "ab"], &["abc"], &["ab"]),
        case("padded", &["abc", "abd", "abc  "], &["abc", "abc"], &["abd"]),
        case("folded", &["ABC", "abd", "abc"], &["abc", "abc"], &["abd"]),
        case("sorted", &["ABC", "Abc"], &["abc"], &["ABC"]),
        case("uuids", &["6F1F1D702B3C4D5E8F90A1B2C3D4E5F6"], &["one"], &[]),
        case("dates", &["2024-02-29", "2023-02-28"], &["leap"], &["2023-02-28"]),
        case(
            "instants",
            &["2024-02-29T10:00Z", "2024-02-29T11:00Z"],
            &["noon"],
            &["2024-02-29T11:00:00Z"],
        ),
        case(
            "decimals",
            &["12.50", "3", "12.51"],
            &["half", "three"],
            &["12.51"],
        ),
        case(
            "numerics",
            &["1", "NaN", "1.0000", "2", "1e40"],
            &["one", "nan", "one", "large"],
            &["2"],
        ),
        case(
            "floats",
            &["5e-1", "NaN", "-0", "0.1"],
            &["half", "nan", "zero"],
            &["0.1"],
        ),
        case("bytes", &["\\x00FF", "\\x00", "\\x"], &["bytes", "none"], &["00"]),
        case("moods", &["sad", "glad"], &["tears"], &["glad"]),
        case(
            "addresses",
            &["10.0.0.1", "10.0.0.1/32", "10.0.0.2"],
            &["ten", "ten"],
            &["10.0.0.2"],
        ),
        case("codes", &["x", "y"], &["one"], &["y"]),
        case("parts", &["9", "3", "12"], &["p9", "p3"], &["12"]),
    ];
    check(&place.target, &cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_several_columns() {
    let place = TestDatabase::on(Server::System).await;
    place
        .run(
            "CREATE TABLE t (v text, b int, a bigint, PRIMARY KEY (a, b));
             INSERT INTO t SELECT (i / 50) || '-' || (i % 50), i % 50, i / 50 FROM generate_series(0, 4999) i",
        )
        .await;
    check_composite(&place.target, "t").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_the_server_has_not_is_a_key_without_rows() {
    let place = TestDatabase::on(Server::System).await;
    place
        .run("CREATE TABLE t (k varchar(3) PRIMARY KEY, v text); INSERT INTO t VALUES ('b', 'bee'), ('z', 'zed')")
        .await;
    let source = |keys: &[&str]| {
        let column = arrow::array::StringArray::from(keys.to_vec());
        let batch =
            arrow::array::RecordBatch::try_from_iter([("k", std::sync::Arc::new(column) as _)]).unwrap();
        tonnage::sources::batches::BatchSource::new("keys", batch.schema(), std::iter::once(batch))
    };
    let got = collect(get(&place.target, "t").keys_source(source(&["z", "b", "c"])))
        .await
        .unwrap();
    assert_eq!((got.rows.len(), got.missing), (2, vec!["c".to_owned()]));
    // What is too long for the column is a mistake, as in a load.
    let error = collect(get(&place.target, "t").keys(["z", "abcd"]))
        .await
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "keys row 2, column 'k': 'abcd' has 4 characters, the column takes 3"
    );
    place
        .run("CREATE TABLE d (k date PRIMARY KEY, v text); INSERT INTO d VALUES ('2024-01-01', 'new')")
        .await;
    let error = collect(get(&place.target, "d").keys(["soon"]))
        .await
        .err()
        .unwrap();
    assert_eq!(error.to_string(), "keys row 1, column 'k': 'soon' is not a date");
    let days = |days: Vec<i32>| {
        let column = arrow::array::Date32Array::from(days);
        let batch =
            arrow::array::RecordBatch::try_from_iter([("k", std::sync::Arc::new(column) as _)]).unwrap();
        tonnage::sources::batches::BatchSource::new("keys", batch.schema(), std::iter::once(batch))
    };
    let of = |source| collect(get(&place.target, "d").columns(["v"]).keys_source(source));
    let got = of(days(vec![19_723, i32::MIN + 5_000_000])).await.unwrap();
    assert_eq!(got.rows, ["new"]);
    assert_eq!(got.missing.len(), 1);
    // The last number stands for infinity, and that is no day.
    let error = of(days(vec![19_723, i32::MAX])).await.err().unwrap();
    assert_eq!(
        error.to_string(),
        "keys row 2, column 'k': '5881580-07-11' is out of range for date"
    );
    // Days from 1970 before and behind all that the server has; and its own first and last one.
    let got = of(days(vec![
        19_723,
        i32::MAX - 3,
        -2_440_589,
        -2_440_588,
        2_145_042_905,
        2_145_042_906,
    ]));
    let got = got.await.unwrap();
    assert_eq!((got.rows, got.missing.len()), (vec!["new".to_owned()], 5));
    place
        .run(
            "INSERT INTO d VALUES ('4714-11-24 BC', 'first'), ('5874897-12-31', 'last');
             CREATE TABLE i (k timestamp PRIMARY KEY, v text);
             INSERT INTO i VALUES ('4714-11-24 BC', 'first')",
        )
        .await;
    let got = of(days(vec![-2_440_588, 2_145_042_905])).await.unwrap();
    assert_eq!(got.rows, ["first", "last"]);
    let column = arrow::array::TimestampMicrosecondArray::from(vec![
        i64::MIN + 400_000_000_000_000_000,
        -210_866_803_200_000_001,
        -210_866_803_200_000_000,
        i64::MAX - 1,
    ]);
    let batch = arrow::array::RecordBatch::try_from_iter([("k", std::sync::Arc::new(column) as _)]).unwrap();
    let source = tonnage::sources::batches::BatchSource::new("keys", batch.schema(), std::iter::once(batch));
    let got = collect(get(&place.target, "i").columns(["v"]).keys_source(source)).await;
    assert_eq!(got.unwrap().rows, ["first"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_lost_between_two_answers_costs_nothing() {
    let place = TestDatabase::on(Server::System).await;
    place
        .run("CREATE TABLE t (k int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10000)")
        .await;
    let cut = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE query LIKE '%asked.place%' AND query LIKE '%{}%' AND pid <> pg_backend_pid()",
        place.schema
    );
    let url = place.url.clone();
    let runtime = tokio::runtime::Handle::current();
    let batches = (0..40).map(move |at: i32| {
        if at == 20 {
            let cutting = async {
                let client = super::session(&url).await;
                let ended: i64 = client.query_one(&cut, &[]).await.unwrap().get(0);
                assert!(ended > 0, "there is a connection to be cut");
            };
            runtime.block_on(cutting);
        }
        let keys = arrow::array::Int32Array::from_iter_values(at * 500..at * 500 + 500);
        arrow::array::RecordBatch::try_from_iter([("k", std::sync::Arc::new(keys) as _)]).unwrap()
    });
    let schema = arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new(
        "k",
        arrow::datatypes::DataType::Int32,
        false,
    )]);
    let source = tonnage::sources::batches::BatchSource::new("keys", std::sync::Arc::new(schema), batches);
    let get = get(&place.target, "t").keys_source(source).ordered().jobs(2);
    let got = collect(get).await.unwrap();
    let wanted: Vec<_> = (1..=10_000).map(|key| key.to_string()).collect();
    assert_eq!(got.rows, wanted);
    assert_eq!((got.report.keys.asked, got.missing.len()), (20_000, 10_000));
    assert!(got.report.retries > 0, "a lost connection was met");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_other_tables() {
    let place = TestDatabase::on(Server::System).await;
    place.run(RELATED).await;
    check_related(&place.target).await;
    // A partitioned table and its partitions are one way, not several.
    place
        .run(
            "CREATE TABLE whole (id int PRIMARY KEY) PARTITION BY HASH (id);
             CREATE TABLE half0 PARTITION OF whole FOR VALUES WITH (MODULUS 2, REMAINDER 0);
             CREATE TABLE half1 PARTITION OF whole FOR VALUES WITH (MODULUS 2, REMAINDER 1);
             CREATE TABLE of_whole (k int PRIMARY KEY, id int REFERENCES whole);
             INSERT INTO whole VALUES (1), (2); INSERT INTO of_whole VALUES (7, 1), (8, 2)",
        )
        .await;
    let got = collect(get(&place.target, "whole").keys(["1"]).with("of_whole"))
        .await
        .unwrap();
    assert_eq!(got.related, [["7|1"]]);
    let got = collect(get(&place.target, "of_whole").keys(["8"]).with("whole"))
        .await
        .unwrap();
    assert_eq!(got.related, [["2"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_rows_are_of_one_moment() {
    for nested in [false, true] {
        let place = TestDatabase::on(Server::System).await;
        place.run(RELATED).await;
        let (url, runtime) = (place.url.clone(), tokio::runtime::Handle::current());
        let got = collect_while(&place.target, nested, move || {
            runtime.block_on(async {
                let client = super::session(&url).await;
                let write = "UPDATE orders SET note = 'later'; UPDATE items SET article = 'later'; \
                             INSERT INTO items VALUES (3, 2, 'later')";
                client.batch_execute(write).await.unwrap();
            });
        })
        .await;
        let all = format!("{:?} {:?}", got.rows, got.related);
        assert!(!all.contains("later") && all.contains("chair"), "{all}");
        assert!(got.report.one_state);
        assert_eq!(
            place.texts("SELECT DISTINCT note FROM orders").await,
            [Some("later".to_owned())]
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moment_that_is_lost_ends_the_get() {
    let place = TestDatabase::on(Server::System).await;
    place
        .run("CREATE TABLE t (k int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 100)")
        .await;
    let name = format!("lost_{}", place.schema);
    let target = super::connect(&format!("{}&application_name={name}", place.url))
        .await
        .unwrap();
    let moment = target
        .read_snapshot(2)
        .await
        .unwrap()
        .expect("PostgreSQL keeps a moment");
    let request = tonnage::getter::GetRequest {
        table: place.table("t").await.name,
        key: vec![tonnage::getter::GetKey {
            name: "k".to_owned(),
            ty: tonnage::ColumnType::Int32,
        }],
        range: None,
        columns: None,
        texts: Vec::new(),
        batch: tonnage::reader::BatchBounds {
            rows_max: 10,
            bytes_max: 1 << 20,
        },
        keyed: true,
    };
    moment.getter(&request).await.unwrap();
    place
        .run(&format!(
            "SELECT pg_terminate_backend(pid, 600000) FROM pg_stat_activity WHERE application_name = '{name}'"
        ))
        .await;
    let error = moment.getter(&request).await.err().expect("the state is gone");
    assert!(!error.is_transient(), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_may_have_their_tables_in_schemas_of_their_own() {
    let places = [
        TestDatabase::on(Server::System).await,
        TestDatabase::on(Server::System).await,
    ];
    for place in &places {
        place.run("CREATE TABLE t (k bigint PRIMARY KEY, v text)").await;
    }
    let urls = places.iter().map(|place| &place.url);
    let database = tonnage::Database::connect_sharded(urls, ["k"]).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.csv");
    let lines: String = (0..100).map(|k| format!("{k},v{k}\n")).collect();
    std::fs::write(&file, format!("k,v\n{lines}")).unwrap();
    database
        .load(file.display().to_string())
        .table("t")
        .run()
        .await
        .unwrap();
    for place in &places {
        assert!(place.number("SELECT count(*) FROM t").await > 20);
    }
    let keys: Vec<String> = (0..101).map(|k| k.to_string()).collect();
    let get = database.bulk_get("t").keys(keys).columns(["v"]).ordered();
    let got = collect(get).await.unwrap();
    let wanted: Vec<String> = (0..100).map(|k| format!("v{k}")).collect();
    assert_eq!((got.rows, got.missing), (wanted, vec!["100".to_owned()]));
}
