//! Rows of keys, and unloads of parts.

use std::sync::Arc;

use arrow::{
    array::{Int32Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use tonnage::{
    ColumnType,
    getter::{GetKey, GetRequest},
    reader::{BatchBounds, BeyondArrow, Relation, ScanRequest},
    table::TableName,
};

use super::{TestDatabase, counts};
use crate::gets::{case, check, check_composite, collect, get};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_several_types() {
    let place = TestDatabase::new(&[
        "CREATE TABLE ints (k bigint PRIMARY KEY, v text)",
        "CREATE TABLE texts (k text PRIMARY KEY, v text)",
        "CREATE TABLE uuids (k uuid PRIMARY KEY, v text)",
        "CREATE TABLE decimals (k decimal PRIMARY KEY, v text)",
        "CREATE TABLE addresses (k inet PRIMARY KEY, v text)",
    ])
    .await;
    for row in [
        "ints (k, v) VALUES (-5, 'minus')",
        "ints (k, v) VALUES (7, 'seven')",
        "ints (k, v) VALUES (9223372036854775807, 'most')",
        "texts (k, v) VALUES ('a', 'lower')",
        "texts (k, v) VALUES ('A', 'upper')",
        "texts (k, v) VALUES ('007', 'agent')",
        "uuids (k, v) VALUES (6f1f1d70-2b3c-4d5e-8f90-a1b2c3d4e5f6, 'one')",
        "decimals (k, v) VALUES (1.5, 'half')",
        "addresses (k, v) VALUES ('::1', 'home')",
    ] {
        place.run(&format!("INSERT INTO {row}")).await;
    }
    let cases = [
        case(
            "ints",
            &["7", "8", "-5", "9223372036854775807", ""],
            &["seven", "minus", "most"],
            &["8", ""],
        ),
        case(
            "texts",
            &["A", "b", "\"\"", "007", "7"],
            &["upper", "agent"],
            &["b", "", "7"],
        ),
        case("uuids", &["6F1F1D702B3C4D5E8F90A1B2C3D4E5F6"], &["one"], &[]),
        // Keys of a partition are equal if they are the same bytes, and a scale is some of them.
        case("decimals", &["1.5", "1.50"], &["half"], &["1.50"]),
        // Two keys that are one row are each answered.
        case(
            "addresses",
            &["::1", "0:0:0:0:0:0:0:1", "::2"],
            &["home", "home"],
            &["::2"],
        ),
    ];
    check(&place.target().await, &cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_several_columns() {
    let place = TestDatabase::new(&["CREATE TABLE t (a int, b int, v text, PRIMARY KEY (a, b))"]).await;
    let mut text = "a,b,v\n".to_owned();
    for a in 0..100 {
        (0..50).for_each(|b| text.push_str(&format!("{a},{b},{a}-{b}\n")));
    }
    let file = place.write("t.csv", &text);
    let database = place.database().await;
    counts(database.load(&file).table("t").run().await.unwrap());
    let target = place.target().await;
    check_composite(&target, "t").await;

    let path = place.path("part.csv");
    let part = database.unload("t").columns(["v"]).filter("b >= 48").to(&path);
    part.run().await.unwrap();
    let read = std::fs::read_to_string(&path).unwrap();
    assert_eq!(read.lines().count(), 1 + 200);
    let few = database.unload("t").limit(7).to(&path).overwrite();
    few.run().await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1 + 7);
    let query = database
        .unload_query("SELECT v FROM t WHERE a = 3;")
        .to(&path)
        .overwrite();
    query.run().await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1 + 50);

    place
        .run("CREATE TABLE p (a int, b int, c int, v text, PRIMARY KEY ((a, b), c))")
        .await;
    place
        .run("INSERT INTO p (a, b, c, v) VALUES (1, 2, 3, 'one')")
        .await;
    let got = collect(get(&target, "p").columns(["v"]).keys(["1,2", "2,1"]))
        .await
        .unwrap();
    assert_eq!(
        (got.rows, got.missing),
        (vec!["one".to_owned()], vec!["2|1".to_owned()])
    );
    let refused = collect(get(&target, "p").keys(["1"])).await.unwrap_err();
    assert!(refused.to_string().contains("a key without 'b'"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_of_static_columns_alone_is_a_row_without_the_others() {
    let place = TestDatabase::new(&[
        "CREATE TABLE t (a int, b int, s text static, v text, PRIMARY KEY (a, b))",
        "INSERT INTO t (a, s) VALUES (1, 'alone')",
        "INSERT INTO t (a, b, s, v) VALUES (2, 5, 'shared', 'row')",
    ])
    .await;
    let alone = serde_json::json!({"a": 1, "b": null, "s": "alone", "v": null});
    let row = serde_json::json!({"a": 2, "b": 5, "s": "shared", "v": "row"});
    let mut wanted = [alone, row];
    wanted.sort_by_key(ToString::to_string);
    assert_eq!(place.unload("t", &[]).await, wanted);
    let target = place.target().await;
    let got = collect(get(&target, "t").columns(["s"]).keys(["1", "2", "3"]))
        .await
        .unwrap();
    assert_eq!(got.rows, ["alone", "shared"]);
    assert_eq!(got.missing, ["3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_read_as_asked_is_refused_before_a_file_is_made() {
    let place = TestDatabase::new(&[
        "CREATE TABLE t (a int PRIMARY KEY, v text)",
        "CREATE MATERIALIZED VIEW by_v AS SELECT * FROM t WHERE v IS NOT NULL AND a IS NOT NULL PRIMARY KEY (v, a)",
        "INSERT INTO t (a, v) VALUES (1, 'one')",
    ])
    .await;
    let (database, path) = (place.database().await, place.path("out.csv"));
    let query = || database.unload_query("SELECT a, v FROM t").to(&path);
    let file = place.write("t.csv", "a,v\n1,one\n");
    for (refused, why) in [
        (query().limit(1).run().await.err(), "and how many"),
        (
            query().columns(["a"]).run().await.err(),
            "which columns and rows are wanted",
        ),
        (
            query().text(["w"]).run().await.err(),
            "the query has no column 'w'",
        ),
        (
            database
                .unload("t")
                .limit(3_000_000_000)
                .to(&path)
                .run()
                .await
                .err(),
            "a limit of 3000000000 rows is more than Cassandra counts to",
        ),
        (
            database.unload("by_v").to(&path).run().await.err(),
            "by_v is a materialized view of t, and follows it by itself",
        ),
        (
            database.load(&file).table("by_v").run().await.err(),
            "by_v is a materialized view of t, and follows it by itself",
        ),
        (
            collect(get(&place.target().await, "by_v").keys(["one"]))
                .await
                .err(),
            "by_v is a materialized view of t, and follows it by itself",
        ),
    ] {
        let refused = refused.unwrap_or_else(|| panic!("{why}: it is not refused"));
        assert!(refused.to_string().contains(why), "{why}: {refused}");
        assert!(refused.hint_text().is_some(), "{refused}");
        assert!(!path.exists(), "{why}");
    }
    // What the hint says.
    place.run("INSERT INTO t (a, v) VALUES (2, 'two')").await;
    let view = loop {
        database
            .unload_query("SELECT a FROM by_v WHERE v = 'two'")
            .to(&path)
            .overwrite()
            .run()
            .await
            .unwrap();
        let read = std::fs::read_to_string(&path).unwrap();
        if read.lines().count() > 1 {
            break read;
        }
    };
    assert_eq!(view, "a\n2\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_rows_come_a_few_at_a_time_from_the_beginning() {
    const ROWS: usize = 50;
    /// Rows of a page before anything is known of their size, and once it is: of 100 kB in 300 kB.
    const FIRST: usize = 16;
    const OTHERS: usize = 3;
    let place = TestDatabase::new(&["CREATE TABLE t (p int, c int, v text, PRIMARY KEY (p, c))"]).await;
    let value = "x".repeat(100_000);
    let lines = (0..ROWS).map(|row| format!("1,{row},{value}\n"));
    let file = place.write("t.csv", &format!("p,c,v\n{}", lines.collect::<String>()));
    counts(place.database().await.load(&file).table("t").run().await.unwrap());
    let target = place.target().await;
    let batch = BatchBounds {
        rows_max: 65_536,
        bytes_max: 300_000,
    };
    let check = |pages: Vec<usize>| {
        assert_eq!(pages.iter().sum::<usize>(), ROWS);
        assert!(pages[0] <= FIRST, "{pages:?}");
        assert!(pages[1..].iter().all(|rows| *rows <= OTHERS), "{pages:?}");
    };

    let request = ScanRequest {
        relation: Relation::Table(TableName::bare("t")),
        columns: None,
        texts: Vec::new(),
        filter: None,
        limit: None,
        split_by: None,
        readers: 1,
        batch,
        beyond_arrow: BeyondArrow::Refused,
    };
    let mut snapshot = target.scan(&request).await.unwrap();
    let mut pages = Vec::new();
    for split in 0..snapshot.splits {
        snapshot.readers[0].open(split).await.unwrap();
        while let Some(page) = snapshot.readers[0].next().await.unwrap() {
            pages.push(page.num_rows());
        }
    }
    check(pages);

    let request = GetRequest {
        table: TableName::bare("t"),
        key: vec![GetKey {
            name: "p".to_owned(),
            ty: ColumnType::Int32,
        }],
        range: None,
        columns: None,
        texts: Vec::new(),
        batch,
        keyed: true,
    };
    let schema = Schema::new(vec![Field::new("p", DataType::Int32, false)]);
    // Most keys have no rows, so that several are asked before any row is seen.
    let keys: Vec<i32> = (2..600).chain([1]).collect();
    let keys = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int32Array::from(keys))]).unwrap();
    let mut getter = target.getter(&request).await.unwrap();
    getter.ask(&keys).await.unwrap();
    let mut pages = Vec::new();
    while let Some(answer) = getter.next().await.unwrap() {
        pages.push(answer.rows.num_rows());
    }
    check(pages);
}
