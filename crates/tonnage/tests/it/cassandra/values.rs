//! Values of every type: what arrives, what comes back, and what is refused.

use serde_json::{Value, json};
use tonnage::plan::RejectsMax;

use super::{TestDatabase, counts};

/// A type, and of each value: as it is loaded, and as the database shows it.
type Case = (&'static str, Vec<(Value, Value)>);

fn same(value: Value) -> (Value, Value) {
    (value.clone(), value)
}

fn shown(value: Value, shown: Value) -> (Value, Value) {
    (value, shown)
}

fn cases() -> Vec<Case> {
    vec![
        ("ascii", vec![same(json!("plain ~")), same(json!(""))]),
        ("bigint", vec![same(json!(i64::MIN)), same(json!(i64::MAX))]),
        (
            "blob",
            vec![
                shown(json!("\\x00ff"), json!("0x00ff")),
                shown(json!("\\x"), json!("0x")),
            ],
        ),
        ("boolean", vec![same(json!(true)), same(json!(false))]),
        ("date", vec![same(json!("0001-01-01")), same(json!("9999-12-31"))]),
        (
            "decimal",
            vec![
                (json!("-0.0500"), json!(-0.05)),
                (json!("12345678.25"), json!(12345678.25)),
            ],
        ),
        (
            "double",
            vec![same(json!(-1.5)), same(json!(1.7976931348623157e308))],
        ),
        (
            "duration",
            vec![
                shown(json!("P1Y2M3DT4H5M6.789S"), json!("1y2mo3d4h5m6s789ms")),
                shown(json!("-P1D"), json!("-1d")),
            ],
        ),
        ("float", vec![same(json!(0.25)), same(json!(-2.5))]),
        (
            "inet",
            vec![
                same(json!("127.0.0.1")),
                shown(json!("2001:db8::1"), json!("2001:db8:0:0:0:0:0:1")),
            ],
        ),
        ("int", vec![same(json!(i32::MIN)), same(json!(i32::MAX))]),
        ("smallint", vec![same(json!(i16::MIN)), same(json!(i16::MAX))]),
        ("text", vec![same(json!("é \"'\\ 🦀")), same(json!(""))]),
        (
            "time",
            vec![
                shown(json!("23:59:59.999999"), json!("23:59:59.999999000")),
                shown(json!("00:00:00"), json!("00:00:00.000000000")),
            ],
        ),
        (
            "timestamp",
            vec![
                shown(
                    json!("1969-12-31T23:59:59.999Z"),
                    json!("1969-12-31 23:59:59.999Z"),
                ),
                shown(json!("2024-02-29T12:00:00Z"), json!("2024-02-29 12:00:00.000Z")),
            ],
        ),
        (
            "timeuuid",
            vec![same(json!("50554d6e-29bb-11e5-b345-feff819cdc9f"))],
        ),
        ("tinyint", vec![same(json!(-128)), same(json!(127))]),
        ("uuid", vec![same(json!("6f1f1d70-2b3c-4d5e-8f90-a1b2c3d4e5f6"))]),
        (
            "varint",
            vec![
                (json!("-18446744073709551616"), json!(-18446744073709551616.0)),
                (json!("255"), json!(255)),
            ],
        ),
        (
            "list<int>",
            vec![same(json!([3, 1, 3])), shown(json!([]), json!(null))],
        ),
        (
            "frozen<set<text>>",
            vec![same(json!(["a", "b"])), same(json!([]))],
        ),
        (
            "map<text, frozen<list<bigint>>>",
            vec![same(json!({"x": [1, i64::MAX], "y": []}))],
        ),
        ("map<int, boolean>", vec![same(json!({"-1": true, "7": false}))]),
        (
            "map<frozen<list<int>>, text>",
            vec![(json!({"[1,2]": "k"}), json!({"[1, 2]": "k"}))],
        ),
        (
            "tuple<int, text, double>",
            vec![same(json!([1, "one", 0.5])), same(json!([null, null, 2.5]))],
        ),
        (
            "frozen<address>",
            vec![same(
                json!({"street": "High St \"1\"", "zips": [1, 2], "since": "2020-01-01"}),
            )],
        ),
        (
            "address",
            vec![shown(
                json!({"zips": [7]}),
                json!({"street": null, "zips": [7], "since": null}),
            )],
        ),
        ("vector<float, 3>", vec![same(json!([0.5, -1.5, 2.0]))]),
        ("vector<text, 2>", vec![same(json!(["short", "x".repeat(300)]))]),
    ]
}

const ADDRESS: &str = "CREATE TYPE address (street text, zips frozen<list<int>>, since date)";

fn numbers_alike(a: &Value, b: &Value) -> bool {
    a == b || matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if a == b)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_goes_both_ways() {
    let cases = cases();
    let columns: Vec<String> = cases
        .iter()
        .enumerate()
        .map(|(at, (ty, _))| format!("c{at} {ty}"))
        .collect();
    let create = |table: &str| {
        format!(
            "CREATE TABLE {table} (id int PRIMARY KEY, {})",
            columns.join(", ")
        )
    };
    let place = TestDatabase::new(&[ADDRESS, &create("v"), &create("w")]).await;
    let rows = cases.iter().map(|(_, values)| values.len()).max().unwrap();
    let mut lines = String::new();
    // The last row has nothing but its key.
    for row in 0..=rows {
        let mut line = serde_json::Map::from_iter([("id".to_owned(), json!(row))]);
        for (at, (_, values)) in cases.iter().enumerate() {
            let value = values.get(row).map_or(Value::Null, |(value, _)| value.clone());
            line.insert(format!("c{at}"), value);
        }
        lines.push_str(&format!("{}\n", Value::Object(line)));
    }
    let file = place.write("v.jsonl", &lines);
    let database = place.database().await;
    let ended = database.load(&file).table("v").run().await.unwrap();
    assert_eq!(counts(ended), (rows as u64 + 1, 0, 0));

    for line in place.texts("SELECT JSON * FROM v").await {
        let line: Value = serde_json::from_str(&line).unwrap();
        let row = line["id"].as_u64().unwrap() as usize;
        for (at, (ty, values)) in cases.iter().enumerate() {
            let expected = values.get(row).map_or(&Value::Null, |(_, shown)| shown);
            let found = &line[&format!("c{at}")];
            assert!(numbers_alike(found, expected), "{ty}: {found} is not {expected}");
        }
    }
    assert_eq!(place.unload("v", &[]).await.len(), rows + 1);
    // What was unloaded is the same when it is loaded again.
    let again = place.path("unloaded.jsonl").display().to_string();
    let ended = database.load(&again).table("w").run().await.unwrap();
    assert_eq!(counts(ended), (rows as u64 + 1, 0, 0));
    let cql = |table: &str| format!("SELECT JSON * FROM {table}");
    assert_eq!(place.texts(&cql("v")).await, place.texts(&cql("w")).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_type_cannot_hold_is_a_reject() {
    let bad: [(&str, &[&str]); 19] = [
        ("ascii", &["é"]),
        ("tinyint", &["128", "-129"]),
        ("smallint", &["32768"]),
        ("varint", &["1.5", "NaN"]),
        ("decimal", &["Infinity"]),
        ("inet", &["1.2.3", "localhost"]),
        ("duration", &["1x", "P", "PT1D"]),
        ("time", &["24:00:00"]),
        ("timestamp", &["2024-01-01T00:00:00.0001Z"]),
        ("timeuuid", &["6f1f1d70-2b3c-4d5e-8f90-a1b2c3d4e5f6"]),
        ("list<int>", &["{}", "[1,null]", "[\"x\"]", "7"]),
        ("set<int>", &["[1,1]"]),
        (
            "map<int, int>",
            &["{\"x\":1}", "{\"1\":1,\"01\":2}", "{\"1\":null}"],
        ),
        ("tuple<int, int>", &["[1,2,3]"]),
        ("frozen<address>", &["{\"stret\":\"x\"}", "{\"zips\":\"x\"}"]),
        ("vector<float, 3>", &["[1,2]", "[1,2,null]"]),
        ("list<text>", &["[1]"]),
        ("blob", &[]),
        ("text", &[]),
    ];
    let columns: Vec<String> = bad
        .iter()
        .enumerate()
        .map(|(at, (ty, _))| format!("c{at} {ty}"))
        .collect();
    let table = format!("CREATE TABLE v (id text PRIMARY KEY, {})", columns.join(", "));
    let place = TestDatabase::new(&[ADDRESS, &table]).await;
    let mut lines = String::new();
    for (at, (ty, values)) in bad.iter().enumerate() {
        for value in *values {
            let id = format!("{ty} {value}");
            lines.push_str(&format!("{}\n", json!({"id": id, format!("c{at}"): value})));
        }
    }
    // A partition key that is empty or missing, and one that is too long.
    lines.push_str("{\"id\":\"\"}\n{\"id\":null}\n");
    lines.push_str(&format!("{}\n", json!({"id": "x".repeat(65_536)})));
    let expected = lines.lines().count() as u64;
    lines.push_str(&format!("{}\n", json!({"id": "good"})));
    let file = place.write("bad.jsonl", &lines);
    let rejects = place.path("rejects.jsonl");
    let load = place.database().await.load(&file).table("v");
    let ended = load
        .rejects(&rejects, RejectsMax::Rows(1_000))
        .run()
        .await
        .unwrap();
    let found = std::fs::read_to_string(rejects).unwrap();
    assert_eq!(counts(ended), (1, 0, expected), "{found}");
    assert_eq!(place.texts("SELECT id FROM v").await, ["good"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_equal_comes_as_text() {
    let place = TestDatabase::new(&["CREATE TABLE v (id int PRIMARY KEY, t time)"]).await;
    place
        .run("INSERT INTO v (id, t) VALUES (1, '01:02:03.000000004')")
        .await;
    let database = place.database().await;
    let path = place.path("out.jsonl");
    let failed = database.unload("v").to(&path).run().await.unwrap_err();
    assert!(failed.to_string().contains("id = 1"), "{failed}");
    let rows = place.unload("v", &["t"]).await;
    assert_eq!(rows, [json!({"id": 1, "t": "01:02:03.000000004"})]);

    place.run("CREATE TABLE c (id int PRIMARY KEY, n counter)").await;
    place.run("UPDATE c SET n = n + 7 WHERE id = 1").await;
    assert_eq!(place.unload("c", &[]).await, [json!({"id": 1, "n": 7})]);
    let file = place.write("c.csv", "id,n\n1,1\n");
    let refused = database.load(&file).table("c").run().await.unwrap_err();
    assert!(refused.to_string().contains("counter"), "{refused}");
}
