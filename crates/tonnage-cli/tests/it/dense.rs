//! Many bad rows that only the database finds: each as if it had come alone, and few statements for all of them.

use std::fmt::Write;

use serde_json::Value;

use crate::support::{
    Database::{MariaDb, Postgres},
    TestDatabase, assert_balanced,
};

const ROWS: u64 = 800;

/// Every second row is bad, in each of these ways in turn.
const WAYS: [&str; 8] = [
    "the key of the row before",
    "another unique key, of a row that is there",
    "a CHECK",
    "a foreign key",
    "a null",
    "a domain",
    "a trigger that raises",
    "a trigger that leaves it out",
];

/// What `{table}` stands for is named by the test.
const TABLE: &str = "CREATE TABLE {table} (id int PRIMARY KEY, code text UNIQUE, qty int CHECK (qty >= 0),
    parent int REFERENCES parents DEFERRABLE INITIALLY DEFERRED, name text NOT NULL, few small,
    made int DEFAULT 7, \"odd $tonnage$ \"\"name\" json);
    INSERT INTO {table} (id, code, name) VALUES (-1, 'taken', 'is there');
    CREATE TRIGGER picky BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION pick();
    GRANT ALL ON {table} TO PUBLIC";

const AROUND: &str = "CREATE TABLE parents (id int PRIMARY KEY); INSERT INTO parents SELECT generate_series(0, 9);
    GRANT ALL ON parents TO PUBLIC;
    CREATE DOMAIN small AS int CHECK (VALUE < 1000);
    CREATE FUNCTION pick() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.name = 'raise' THEN
            RAISE EXCEPTION 'not %', NEW.id USING DETAIL = 'It is picky.', HINT = 'Take another.', ERRCODE = 'P0001';
        END IF;
        IF NEW.name = 'leave' THEN RETURN NULL; END IF;
        RETURN NEW;
    END $$";

fn rows() -> String {
    let mut text = "id,code,qty,parent,name,few,\"odd $tonnage$ \"\"name\"\n".to_owned();
    for row in 0..ROWS {
        let way = (row % 2 == 1).then(|| row / 2 % WAYS.len() as u64);
        let is = |bad: u64| way == Some(bad);
        let id = if is(0) { row - 1 } else { row };
        let code = if is(1) {
            "taken".to_owned()
        } else {
            format!("c{row}")
        };
        let qty = if is(2) { -1 } else { 1 };
        let parent = if is(3) { 99 } else { row % 10 };
        let name = match way {
            Some(4) => "",
            Some(6) => "raise",
            Some(7) => "leave",
            _ => "fine",
        };
        let few = if is(5) { 5_000 } else { 5 };
        writeln!(
            text,
            "{id},{code},{qty},{parent},{name},{few},\"{{\"\"a\"\": {row}}}\""
        )
        .expect("memory");
    }
    text
}

/// The records of a rejects file by row, and the report.
fn load(place: &TestDatabase, url: &str, table: &str, arguments: &str) -> (Vec<Value>, Value) {
    let rejects = format!("{table}.jsonl");
    let ran = place.run(&format!(
        "load rows.csv {url} -t {table} --rejects {rejects} --max-rejects 100000 --report - -j 2 {arguments}"
    ));
    assert_eq!(ran.code, Some(3), "{arguments}: {}", ran.stderr);
    let report: Value = serde_json::from_str(&ran.stdout_exact).expect("the report is JSON");
    assert_balanced(&report);
    let records = place.read(&rejects).replace(&format!("\\\"{table}"), "\\\"TABLE");
    let records = records
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let mut records: Vec<Value> = records.collect();
    for record in &mut records {
        // Of a domain's CHECK only COPY names the column, as the place where it reads.
        let of_domain = record["message"]
            .as_str()
            .is_some_and(|told| told.starts_with("value for domain"));
        if let (true, Some(record)) = (of_domain, record.as_object_mut()) {
            record.remove("column");
        }
    }
    records.sort_by_key(|record: &Value| record["row"].as_u64());
    (records, report)
}

#[test]
fn many_bad_rows_are_told_as_each_alone_by_few_statements() {
    let place = TestDatabase::with(Postgres, AROUND, &[("rows.csv", &rows())]);
    // A role that may make no temporary table: its rows are found one by one from here.
    let role = format!("plain_{}", place.name());
    place.sql(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'plain'; GRANT ALL ON SCHEMA public TO {role};
         REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC",
        place.name()
    ));
    let url = place.url();
    let address = url.rsplit_once('@').expect("the URL has a user").1;
    let plain = format!("postgresql://{role}:plain@{address}");
    let cases = [
        "--method native",
        "--method native --single-transaction",
        "--method array --batch-rows 1000",
        "--method batch --batch-rows 500",
        "--method array --mode upsert --key id",
    ];
    for (number, arguments) in cases.into_iter().enumerate() {
        let (here, there) = (format!("each_{number}"), format!("alone_{number}"));
        for table in [&here, &there] {
            place.sql(&TABLE.replace("{table}", table));
        }
        // The ledger is whose load is first, and the other may use it in any case.
        let (expected, _) = load(&place, &plain, &there, arguments);
        let (told, report) = load(&place, &url, &here, arguments);
        for (told, expected) in told.iter().zip(&expected) {
            assert_eq!(told, expected, "{arguments}");
        }
        assert_eq!(told.len(), expected.len(), "{arguments}");
        let columns = "id, code, qty, parent, name, few, made, \"odd $tonnage$ \"\"name\"::text";
        let all = |table: &str| place.sql(&format!("SELECT {columns} FROM {table} ORDER BY id"));
        assert_eq!(all(&here), all(&there), "{arguments}");
        let statements = report["statements"].as_u64().expect("a number");
        assert!(statements < ROWS / 8, "{arguments}: {statements} statements");
    }
}

/// Rows of the other databases' test: a commit each, where they go alone.
const ROWS_ALONE: u64 = 320;

#[test]
fn many_bad_rows_are_told_as_each_alone_by_few_statements_too() {
    let table = "CREATE TABLE {table} (id int PRIMARY KEY, code varchar(20) UNIQUE,
        qty int, parent int, name varchar(20) NOT NULL, CONSTRAINT qty_{table} CHECK (qty >= 0),
        CONSTRAINT parent_{table} FOREIGN KEY (parent) REFERENCES parents (id));
        INSERT INTO {table} (id, code, name) VALUES (-1, 'taken', 'is there')";
    let mut text = "id,code,qty,parent,name\n".to_owned();
    for row in 0..ROWS_ALONE {
        let way = (row % 2 == 1).then_some(row / 2 % 5);
        let is = |bad: u64| way == Some(bad);
        let id = if is(0) { row - 1 } else { row };
        let code = if is(1) {
            "taken".to_owned()
        } else {
            format!("c{row}")
        };
        let qty = if is(2) { -1 } else { 1 };
        let parent = if is(3) { 99 } else { 1 };
        let name = if is(4) { "" } else { "fine" };
        writeln!(text, "{id},{code},{qty},{parent},{name}").expect("memory");
    }
    let place = TestDatabase::with(
        MariaDb,
        "CREATE TABLE parents (id int PRIMARY KEY); INSERT INTO parents VALUES (1)",
        &[("rows.csv", &text)],
    );
    let url = place.url();
    for (number, method) in ["native", "array", "batch"].into_iter().enumerate() {
        let (here, there) = (format!("each_{number}"), format!("alone_{number}"));
        for name in [&here, &there] {
            place.sql(&table.replace("{table}", name));
        }
        let (told, report) = load(&place, &url, &here, &format!("--method {method}"));
        let (expected, _) = load(&place, &url, &there, &format!("--method {method} --batch-rows 1"));
        let reasons = |records: &[Value], table: &str| -> Vec<String> {
            let reason = |record: &Value| record.to_string().replace(table, "TABLE");
            records.iter().map(reason).collect()
        };
        assert_eq!(reasons(&told, &here), reasons(&expected, &there), "{method}");
        let all = |table: &str| place.sql(&format!("SELECT * FROM {table} ORDER BY id"));
        assert_eq!(all(&here), all(&there), "{method}");
        let statements = report["statements"].as_u64().expect("a number");
        assert!(statements < ROWS_ALONE / 4, "{method}: {statements} statements");
    }
}
