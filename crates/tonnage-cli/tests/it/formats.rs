//! The same rows in every format, compression and encoding: what stands in the table is always the same.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};

use crate::{
    packing::{arrow_file, arrow_stream, bzip2, lz4, xz},
    support::{BOTH, Database, TestDatabase},
};

const ROWS: i64 = 3_000;
/// 2020-02-29 04:05:06, the time of the first row.
const BEGIN: i64 = 1_582_949_106;

const TABLE: &str =
    "CREATE TABLE orders (id bigint PRIMARY KEY, name text NOT NULL, amount decimal(10,2), at timestamp)";

/// Letters that every encoding here has, and what has to be quoted.
fn name(id: i64) -> String {
    format!("Zoë \"{id}\", Köln\\{}", if id % 7 == 0 { "\nß" } else { "" })
}

/// Hundredths; every fifth row has none.
fn amount(id: i64) -> Option<i128> {
    (id % 5 != 0).then(|| i128::from(id) * 101 - 50_000)
}

fn amount_text(id: i64) -> Option<String> {
    let hundredths = amount(id)?;
    let sign = if hundredths < 0 { "-" } else { "" };
    let digits = hundredths.unsigned_abs();
    Some(format!("{sign}{}.{:02}", digits / 100, digits % 100))
}

/// Seconds within an hour of [`BEGIN`].
fn at(id: i64) -> i64 {
    BEGIN + id
}

fn at_text(id: i64) -> String {
    let second = at(id) % 86_400;
    format!(
        "2020-02-29 {:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

fn csv(delimiter: char) -> String {
    let mut text = ["id", "name", "amount", "at"].join(&delimiter.to_string()) + "\n";
    for id in 0..ROWS {
        let name = name(id).replace('"', "\"\"");
        let amount = amount_text(id).unwrap_or_default();
        let fields = [id.to_string(), format!("\"{name}\""), amount, at_text(id)];
        text.push_str(&fields.join(&delimiter.to_string()));
        text.push('\n');
    }
    text
}

fn json() -> String {
    let line = |id: i64| {
        let amount = amount_text(id).unwrap_or_else(|| "null".to_owned());
        let name = serde_json::Value::from(name(id));
        format!(
            "{{\"id\": {id}, \"name\": {name}, \"amount\": {amount}, \"at\": \"{}\"}}\n",
            at_text(id)
        )
    };
    (0..ROWS).map(line).collect()
}

fn batches() -> Vec<RecordBatch> {
    let batch = |ids: std::ops::Range<i64>| {
        let amounts: Decimal128Array = ids.clone().map(amount).collect();
        let times: TimestampMicrosecondArray = ids.clone().map(|id| Some(at(id) * 1_000_000)).collect();
        RecordBatch::try_from_iter([
            (
                "id",
                Arc::new(Int64Array::from_iter_values(ids.clone())) as ArrayRef,
            ),
            (
                "name",
                Arc::new(ids.map(|id| Some(name(id))).collect::<StringArray>()),
            ),
            (
                "amount",
                Arc::new(amounts.with_precision_and_scale(10, 2).expect("a decimal")),
            ),
            ("at", Arc::new(times)),
        ])
        .expect("columns of one length")
    };
    vec![batch(0..1), batch(1..ROWS - 10), batch(ROWS - 10..ROWS)]
}

/// Latin letters with a byte each.
fn latin1(text: &str) -> Vec<u8> {
    text.chars()
        .map(|c| u8::try_from(u32::from(c)).expect("a Latin letter"))
        .collect()
}

fn utf16(text: &str) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(u16::to_le_bytes).collect()
}

#[test]
fn the_same_rows_come_out_of_every_format() {
    let text = csv(',');
    let files = [
        ("orders.csv", text.clone().into_bytes(), ""),
        ("orders.tsv", csv('\t').into_bytes(), ""),
        ("orders.jsonl", json().into_bytes(), ""),
        ("orders.arrow", arrow_file(&batches(), None), ""),
        ("orders.arrows", arrow_stream(&batches(), None), "--format arrow"),
        ("orders.csv.bz2", bzip2(text.as_bytes()), ""),
        ("orders.csv.xz", xz(text.as_bytes()), ""),
        ("orders.csv.lz4", lz4(text.as_bytes()), ""),
        ("orders.jsonl.xz", xz(json().as_bytes()), ""),
        ("orders.arrow.lz4", lz4(&arrow_stream(&batches(), None)), ""),
        ("latin.csv", latin1(&text), "--encoding iso-8859-1"),
        (
            "western.csv.bz2",
            bzip2(&latin1(&text)),
            "--encoding windows-1252",
        ),
        ("wide.csv", utf16(&text), "--encoding utf-16"),
        ("wide.jsonl", utf16(&json()), "--encoding utf-16"),
    ];
    for database in BOTH {
        let place = TestDatabase::with(*database, TABLE, &[]);
        for (file, bytes, options) in &files {
            place.write(file, bytes);
            let report = place.load(&format!("{file} {{db}} -t orders --truncate {options}"));
            assert_eq!(report["rows"]["written"], ROWS, "{file}");
            let time = match database {
                Database::Sqlite => "at",
                _ => "to_char(at, 'YYYY-MM-DD HH24:MI:SS')",
            };
            // Names as bytes, which no display changes.
            let bytes = match database {
                Database::Sqlite => "lower(hex(name))",
                _ => "encode(convert_to(name, 'UTF8'), 'hex')",
            };
            let found = place.sql(&format!(
                "SELECT id, {bytes}, CAST(round(amount * 100) AS bigint), {time} FROM orders ORDER BY id"
            ));
            let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
            let expected = (0..ROWS).map(|id| {
                let amount = amount(id).map_or("-".to_owned(), |amount| amount.to_string());
                format!("{id}|{}|{amount}|{}", hex(&name(id)), at_text(id))
            });
            for (found, expected) in found.iter().zip(expected) {
                assert_eq!(*found, expected, "{file}");
            }
            assert_eq!(found.len(), ROWS as usize, "{file}");
        }
    }
}

#[test]
fn what_is_not_of_the_encoding_is_a_bad_row() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, &[]);
    place.write("orders.csv", b"id,name\n1,Zo\xff\n2,Anna\n");
    let ran = place.run("load orders.csv {db} -t orders");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("UTF-8") && ran.stderr.contains("--encoding"),
        "{}",
        ran.stderr
    );
    place.load("orders.csv {db} -t orders --encoding latin1");
    assert_eq!(
        place.sql("SELECT hex(name) FROM orders ORDER BY id"),
        ["5A6FC3BF", "416E6E61"]
    );
}

#[test]
fn a_word_for_no_value_is_named_in_the_plan() {
    let place = TestDatabase::new(Database::Sqlite);
    place.write("readings.csv", "id,delay\n1,2\n2,NA\n3,4\n");
    let ran = place.run("load readings.csv {db} -t readings --create --dry-run");
    assert!(
        ran.stdout
            .contains("column 'delay' is text because of 'NA', without which it would be int64: --null 'NA'"),
        "{}",
        ran.stdout
    );
    let ran = place.run("load readings.csv {db} -t readings --create --null NA --dry-run");
    assert!(!ran.stdout.contains("because of"), "{}", ran.stdout);
}
