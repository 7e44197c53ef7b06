//! The reports of real commands are what `docs/reference/report.schema.json` says.

use std::path::Path;

use serde_json::Value;

use crate::support::{ALL, TestDatabase};

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/report.schema.json");
    let text = std::fs::read_to_string(path).expect("the schema is there");
    serde_json::from_str(&text).expect("the schema is JSON")
}

/// What of `value` is not as `schema` says: the part of JSON Schema that the schema uses, and no field that it does not
/// name.
fn differences(value: &Value, schema: &Value, root: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let definition = &root["$defs"][name.trim_start_matches("#/$defs/")];
        assert!(definition.is_object(), "{name} is defined");
        return differences(value, definition, root, at, found);
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[choice].as_array() {
            let fits = |one: &Value| {
                let mut of_one = Vec::new();
                differences(value, one, root, at, &mut of_one);
                of_one.is_empty()
            };
            if !choices.iter().any(fits) {
                found.push(format!("{at}: {value} is none of {choices:?}"));
            }
        }
    }
    if let Some(listed) = schema["enum"].as_array()
        && !listed.contains(value)
    {
        found.push(format!("{at}: {value} is not in {listed:?}"));
    }
    if !schema["const"].is_null() && schema["const"] != *value {
        found.push(format!("{at}: {value} is not {}", schema["const"]));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let is = |one: &&str| match *one {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{at}: type {other}"),
    };
    if !types.is_empty() && !types.iter().any(is) {
        found.push(format!("{at}: {value} is not {types:?}"));
    }
    if let Some(fields) = value.as_object()
        && schema["properties"].is_object()
    {
        for (name, field) in fields {
            match schema["properties"].get(name) {
                Some(of_field) => differences(field, of_field, root, &format!("{at}.{name}"), found),
                None => found.push(format!("{at}.{name} is not in the schema")),
            }
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            if !fields.contains_key(name.as_str().unwrap_or_default()) {
                found.push(format!("{at}.{name} is missing"));
            }
        }
    }
    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
        differences(item, &schema["items"], root, &format!("{at}[{number}]"), found);
    }
}

/// The report of a command, which is as the definition `name` says.
fn reported(place: &TestDatabase, name: &str, command: &str, input: &[u8], code: i32) -> Value {
    let ran = place.run_with(&format!("{command} --report report.json"), &[], input);
    assert_eq!(ran.code, Some(code), "{command}\n{}", ran.stderr);
    let report = serde_json::from_str(&place.read("report.json")).expect("the report is JSON");
    let root = schema();
    let mut found = Vec::new();
    differences(&report, &root["$defs"][name], &root, name, &mut found);
    differences(&report, &root, &root, "root", &mut found);
    assert!(found.is_empty(), "{command}: {found:#?}");
    report
}

#[test]
fn reports_are_as_their_schema_says() {
    for database in ALL {
        let sql = "CREATE TABLE orders (id integer PRIMARY KEY, customer varchar(20)); \
                   CREATE TABLE items (id integer PRIMARY KEY, order_id integer REFERENCES orders (id))";
        let files = [("orders.csv", "id,customer\n1,anna\n2,ben\nx,cleo\n")];
        let place = TestDatabase::with(*database, sql, &files);
        let cases: [(&str, &str, &[u8], i32); 8] = [
            (
                "load",
                "load orders.csv {db} -t orders --rejects bad.jsonl -j 1",
                b"",
                3,
            ),
            (
                "load",
                "load orders.csv {db} -t orders --batch-rows 1 -j 1 --restart",
                b"",
                1,
            ),
            (
                "load",
                "exec orders.csv {db} --sql 'UPDATE orders SET customer = :customer WHERE id = :id' --limit 2 -j 1",
                b"",
                0,
            ),
            ("unload", "unload {db} -t orders -o out.csv -j 1", b"", 0),
            (
                "unload",
                "unload {db} --query 'SELECT id FROM orders' -o all.jsonl",
                b"",
                0,
            ),
            ("get", "get {db} 1 7 -t orders -o found/ --with items", b"", 0),
            (
                "ingest",
                "ingest {db} -t orders --journal j --rejects late.jsonl --ack journaled",
                b"{\"id\": 8}\n{\"id\": 1}\n",
                3,
            ),
            ("generate", "generate sbtest --rows 10 -o rows.csv", b"", 0),
        ];
        for (name, command, input, code) in cases {
            let report = reported(&place, name, command, input, code);
            assert_eq!(report["tonnage"], env!("CARGO_PKG_VERSION"), "{command}");
        }
    }
}

#[test]
fn what_is_listed_is_there_as_json() {
    let place = TestDatabase::with(crate::support::Database::Sqlite, "CREATE TABLE t (a)", &[]);
    let objects = |command: &str| -> Vec<Value> {
        let ran = place.run(command);
        assert_eq!(ran.code, Some(0), "{command}\n{}", ran.stderr);
        let lines = ran.stdout_exact.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("an object a line"))
            .collect()
    };
    let names = |objects: &[Value]| -> Vec<String> {
        let name = |object: &Value| object["name"].as_str().expect("a name").to_owned();
        objects.iter().map(name).collect()
    };
    assert_eq!(
        names(&objects("targets --json")),
        ["SQLite", "PostgreSQL", "MariaDB", "Cassandra", "DuckDB"]
    );
    let one = objects("targets {db} --json");
    assert!(
        one[0]["methods"]
            .as_array()
            .expect("methods")
            .contains(&"native".into())
    );
    let ledger = objects("init {db} --json");
    assert!(!ledger[0]["statements"].as_array().expect("statements").is_empty());
    assert_eq!(ledger[0]["executed"], false);
    let ran = place.run("generate sbtest --rows 1 -o quiet.csv -q");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let ran = place.run("generate sbtest --rows 1 -o - --json");
    assert!(
        ran.stderr
            .contains("rows and the report cannot both go to standard output"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_differs_from_the_schema_is_found() {
    let root = schema();
    let place = TestDatabase::with(
        crate::support::Database::Sqlite,
        "CREATE TABLE t (a)",
        &[("t.csv", "a\n1\n")],
    );
    let report = place.load("t.csv {db} -t t");
    let changed: [(&str, Value); 4] = [
        ("state", "gone".into()),
        ("seconds", "1".into()),
        ("rows", Value::Null),
        ("other", 1.into()),
    ];
    for (name, value) in changed {
        let mut changed = report.clone();
        changed[name] = value;
        let mut found = Vec::new();
        differences(&changed, &root["$defs"]["load"], &root, "load", &mut found);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
    }
}
