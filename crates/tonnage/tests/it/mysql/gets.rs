//! Rows of keys.

use super::TestDatabase;
use crate::gets::{RELATED, case, check, check_composite, check_related, collect, collect_while, get};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_every_type() {
    let place = TestDatabase::new().await;
    place
        .run(
            "CREATE TABLE ints (k bigint PRIMARY KEY, v text);\n\
             INSERT INTO ints VALUES (-5, 'minus'), (7, 'seven'), (9223372036854775807, 'most');\n\
             CREATE TABLE unsigneds (k bigint unsigned PRIMARY KEY, v text);\n\
             INSERT INTO unsigneds VALUES (18446744073709551615, 'most'), (0, 'zero');\n\
             CREATE TABLE years (k year PRIMARY KEY, v text);\nINSERT INTO years VALUES (2024, 'leap');\n\
             CREATE TABLE bits (k bit(9) PRIMARY KEY, v text);\nINSERT INTO bits VALUES (257, 'two');\n\
             CREATE TABLE texts (k varchar(20) COLLATE utf8mb4_nopad_bin PRIMARY KEY, v text);\n\
             INSERT INTO texts VALUES ('a', 'lower'), ('A', 'upper'), ('', 'empty'), ('007', 'agent'), ('é', 'accent'), \
             ('q\"\\\\', 'quoted');\n\
             CREATE TABLE folded (k varchar(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v text);\n\
             INSERT INTO folded VALUES ('Abc', 'abc');\n\
             CREATE TABLE latins (k varchar(20) CHARACTER SET latin1 PRIMARY KEY, v text);\n\
             INSERT INTO latins VALUES ('é', 'accent'), ('?', 'question');\n\
             CREATE TABLE padded (k char(5) PRIMARY KEY, v text);\nINSERT INTO padded VALUES ('abc', 'abc');\n\
             CREATE TABLE uuids (k uuid PRIMARY KEY, v text);\n\
             INSERT INTO uuids VALUES ('6f1f1d70-2b3c-4d5e-8f90-a1b2c3d4e5f6', 'one');\n\
             CREATE TABLE dates (k date PRIMARY KEY, v text);\nINSERT INTO dates VALUES ('2024-02-29', 'leap');\n\
             CREATE TABLE moments (k datetime(6) PRIMARY KEY, v text);\n\
             INSERT INTO moments VALUES ('2024-02-29 12:00:00.000001', 'noon');\n\
             SET time_zone = '+00:00';\n\
             CREATE TABLE instants (k timestamp PRIMARY KEY, v text);\n\
             INSERT INTO instants VALUES ('2024-02-29 10:00:00', 'noon');\n\
             CREATE TABLE times (k time(3) PRIMARY KEY, v text);\nINSERT INTO times VALUES ('12:00:00.5', 'noon');\n\
             CREATE TABLE decimals (k decimal(10,2) PRIMARY KEY, v text);\n\
             INSERT INTO decimals VALUES (12.5, 'half'), (3, 'three'), (99999999.99, 'most');\n\
             CREATE TABLE numerics (k decimal(65,2) PRIMARY KEY, v text);\n\
             INSERT INTO numerics VALUES (1, 'one'), (123456789012345678901234567890123456789012345.67, 'large');\n\
             CREATE TABLE floats (k double PRIMARY KEY, v text);\n\
             INSERT INTO floats VALUES (0.5, 'half'), (0, 'zero'), (0.1, 'tenth');\n\
             CREATE TABLE singles (k float PRIMARY KEY, v text);\nINSERT INTO singles VALUES (0.1, 'tenth');\n\
             CREATE TABLE bytes (k varbinary(9) PRIMARY KEY, v text);\n\
             INSERT INTO bytes VALUES (x'00ff', 'bytes'), ('', 'none');\n\
             CREATE TABLE labels (k enum('glad','sad') PRIMARY KEY, v text);\nINSERT INTO labels VALUES ('sad', 'tears')",
        )
        .await;
    let cases = [
        case(
            "ints",
            &["7", "8", "-5", "9223372036854775807", ""],
            &["seven", "minus", "most"],
            &["8", ""],
        ),
        case(
            "unsigneds",
            &["18446744073709551615", "1", "0"],
            &["most", "zero"],
            &["1"],
        ),
        case("years", &["2024", "2023"], &["leap"], &["2023"]),
        case("bits", &["257", "1"], &["two"], &["1"]),
        case(
            "texts",
            &["A", "b", "\"\"", "007", "7", "é", "a", "\"q\"\"\\\"", "a "],
            &["upper", "empty", "agent", "accent", "lower", "quoted"],
            &["b", "7", "a "],
        ),
        case("folded", &["ABC", "abd", "abc"], &["abc", "abc"], &["abd"]),
        // What latin1 does not have is no question mark.
        case(
            "latins",
            &["é", "ж", "?", "E"],
            &["accent", "question", "accent"],
            &["ж"],
        ),
        case("padded", &["abc", "abd", "abc  "], &["abc", "abc"], &["abd"]),
        case("uuids", &["6F1F1D702B3C4D5E8F90A1B2C3D4E5F6"], &["one"], &[]),
        case("dates", &["2024-02-29", "2023-02-28"], &["leap"], &["2023-02-28"]),
        case(
            "moments",
            &["2024-02-29T12:00:00.000001", "2024-02-29T12:00:00"],
            &["noon"],
            &["2024-02-29T12:00:00"],
        ),
        case(
            "instants",
            &["2024-02-29T12:00+02", "2024-02-29T11:00Z"],
            &["noon"],
            &["2024-02-29T11:00:00Z"],
        ),
        case("times", &["12:00:00.5", "12:00"], &["noon"], &["12:00:00"]),
        case(
            "decimals",
            &["12.50", "3", "12.51", "99999999.99"],
            &["half", "three", "most"],
            &["12.51"],
        ),
        case(
            "numerics",
            &[
                "1",
                "1.00",
                "2",
                "123456789012345678901234567890123456789012345.67",
            ],
            &["one", "one", "large"],
            &["2"],
        ),
        case(
            "floats",
            &["5e-1", "-0", "0.1", "0.2"],
            &["half", "zero", "tenth"],
            &["0.2"],
        ),
        case("singles", &["0.1", "0.2"], &["tenth"], &["0.2"]),
        case("bytes", &["\\x00FF", "\\x00", "\\x"], &["bytes", "none"], &["00"]),
        case("labels", &["sad", "glad"], &["tears"], &["glad"]),
    ];
    check(&place.target, &cases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_several_columns() {
    let place = TestDatabase::new().await;
    place
        .run(
            "CREATE TABLE t (a int, b int, v text, PRIMARY KEY (a, b));\n\
             INSERT INTO t SELECT a.seq, b.seq, CONCAT(a.seq, '-', b.seq) FROM seq_0_to_99 a, seq_0_to_49 b;\n\
             CREATE TABLE s (v text, a bigint unsigned NOT NULL, b bigint unsigned NOT NULL, PRIMARY KEY (a, b));\n\
             INSERT INTO s SELECT v, a, b FROM t",
        )
        .await;
    check_composite(&place.target, "t").await;
    check_composite(&place.target, "s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_column_cannot_hold_is_a_key_without_rows() {
    let place = TestDatabase::new().await;
    place
        .run("CREATE TABLE d (k date PRIMARY KEY, v text);\nINSERT INTO d VALUES ('2024-01-01', 'new')")
        .await;
    let days = arrow::array::Date32Array::from(vec![19_723, i32::MIN + 5_000_000, 19_724]);
    let batch = arrow::array::RecordBatch::try_from_iter([("k", std::sync::Arc::new(days) as _)]).unwrap();
    let source = tonnage::sources::batches::BatchSource::new("keys", batch.schema(), std::iter::once(batch));
    let got = get(&place.target, "d").columns(["v"]).keys_source(source);
    let got = collect(got).await.unwrap();
    assert_eq!((got.rows, got.missing.len()), (vec!["new".to_owned()], 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_lost_between_two_answers_costs_nothing() {
    let place = TestDatabase::new().await;
    place
        .run("CREATE TABLE t (k int PRIMARY KEY);\nINSERT INTO t SELECT seq FROM seq_1_to_10000")
        .await;
    let database = place.database.clone();
    let runtime = tokio::runtime::Handle::current();
    let batches = (0..40).map(move |at: i32| {
        if at == 20 {
            let cutting = async {
                use mysql_async::prelude::Queryable;
                let mut conn = super::session("tonnage").await;
                let sessions: Vec<u64> = conn
                    .query(format!(
                        "SELECT id FROM information_schema.processlist WHERE db = '{database}'"
                    ))
                    .await
                    .unwrap();
                assert!(!sessions.is_empty(), "there is a connection to be cut");
                for session in sessions {
                    // It may have ended by itself meanwhile.
                    let _ = conn.query_drop(format!("KILL {session}")).await;
                }
            };
            runtime.block_on(cutting);
        }
        let keys = arrow::array::Int32Array::from_iter_values(at * 500..at * 500 + 500);
        arrow::array::RecordBatch::try_from_iter([("k", std::sync::Arc::new(keys) as _)]).unwrap()
    });
    let field = arrow::datatypes::Field::new("k", arrow::datatypes::DataType::Int32, false);
    let schema = arrow::datatypes::Schema::new(vec![field]);
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
    let place = TestDatabase::new().await;
    place.run(RELATED).await;
    check_related(&place.target).await;
    // Of several foreign keys each has its own columns, also where the other table is elsewhere.
    let other = format!("{}_other", place.database);
    place
        .run(&format!(
            "CREATE DATABASE {other};\nCREATE TABLE {other}.far (a int, b int, v text, PRIMARY KEY (a, b));\n\
             INSERT INTO {other}.far VALUES (1, 2, 'far');\n\
             CREATE TABLE near (k int PRIMARY KEY, x int, y int, o bigint, FOREIGN KEY (y, x) REFERENCES {other}.far (a, b), \
             FOREIGN KEY (o) REFERENCES orders (id));\nINSERT INTO near VALUES (5, 2, 1, 3)"
        ))
        .await;
    let near = get(&place.target, "near")
        .keys(["5"])
        .with("orders")
        .options(|options| {
            let far = format!("{other}.far").parse().unwrap();
            options.with.push(tonnage::fetch::With::new(far));
        });
    let got = collect(near).await.unwrap();
    place
        .run(&format!("DROP TABLE near;\nDROP DATABASE {other}"))
        .await;
    assert_eq!(got.related, [["3|10|"], ["1|2|far"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_sees_a_state_of_its_own_and_says_so() {
    let place = TestDatabase::new().await;
    place.run(RELATED).await;
    let (database, runtime) = (place.database.clone(), tokio::runtime::Handle::current());
    let got = collect_while(&place.target, false, move || {
        runtime.block_on(async {
            use mysql_async::prelude::Queryable;
            let mut conn = super::session(&database).await;
            conn.query_drop("UPDATE items SET article = 'later'")
                .await
                .unwrap();
        });
    })
    .await;
    assert_eq!(
        got.related[0].iter().filter(|row| row.ends_with("later")).count(),
        4
    );
    assert!(!got.report.one_state);
    assert!(
        got.report
            .notes
            .iter()
            .any(|told| told == "each request sees what is committed when it is answered")
    );
}
