//! Every declared type against every kind of value: a value stands in the table as what it was, or its row is bad, or
//! the load is refused. What SQLite would make of it is never asked.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array,
        Int64Array, RecordBatch, StringArray, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    },
    datatypes::{DataType, Field},
    ipc::writer::FileWriter,
};
use rusqlite::types::Value;
use tonnage::{
    Database, ErrorKind,
    operation::Durability,
    plan::{LedgerPlace, RejectsMax},
};

const PLAIN: &[&str] = &[
    "",
    "INTEGER",
    "INT",
    "BIGINT",
    "SMALLINT",
    "UNSIGNED BIG INT",
    "POINT",
    "FLOATING POINT",
    "INTERVAL",
    "CHARINT",
    "TEXTINT",
    "DATE_INT",
    "REAL",
    "DOUBLE",
    "DOUBLE PRECISION",
    "FLOAT",
    "TEXT",
    "VARCHAR(3)",
    "CHAR(5)",
    "NVARCHAR(100)",
    "CLOB",
    "BLOB",
    "BLOBTEXT",
    "NUMERIC",
    "NUMERIC(5)",
    "DECIMAL",
    "DECIMAL(10,2)",
    "DECIMAL(18)",
    "DECIMAL(20,2)",
    "DECIMAL(38,10)",
    "NUMBER(3,3)",
    "BOOLEAN",
    "BOOL",
    "DATE",
    "TIME",
    "DATETIME",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "TIMESTAMP WITH TIME ZONE",
    "UUID",
    "JSON",
    "JSONB",
    "STRING",
    "ANY",
    "MONEY",
    "YEAR",
    "BIT",
    "XML",
    "ENUM",
];
const STRICT: &[&str] = &["INT", "INTEGER", "REAL", "TEXT", "BLOB", "ANY"];

/// A value as people write it, with all its digits.
#[derive(Debug, Clone)]
enum Is {
    /// A number or truth value, in plain decimal text.
    Number(String),
    /// A float, with all that it is.
    Float(f64),
    /// Text; of a number, where the column's type says that it holds numbers.
    Text(String),
    /// Dates and times, in any of their forms.
    Time(&'static [&'static str]),
    /// JSON.
    Json(&'static str),
    Bytes(Vec<u8>),
}

struct Kind {
    name: &'static str,
    array: ArrayRef,
    values: Vec<Is>,
}

fn texts() -> Vec<&'static str> {
    vec![
        "007",
        "1",
        "1.0",
        "1.10",
        "-0",
        "+5",
        "1e3",
        " 12",
        "12 ",
        "0x10",
        "9007199254740993",
        "9223372036854775808",
        "0.1",
        "123456789012345678.5",
        "abc",
        "",
        "NaN",
        "inf",
        "Infinity",
        "1_000",
        "12abc",
        "true",
        ".5",
        "5.",
        "2020-02-29",
        "04:05:06",
        "2020-02-29 04:05:06",
        "2020-02-29 04:05:06+00:00",
        "{\"a\": 1}",
        "1e400",
        "\u{663}",
        "00010203-0405-0607-0809-0a0b0c0d0e0f",
    ]
}

fn kinds() -> Vec<Kind> {
    let integers = [0, 1, -7, 1 << 53, (1 << 53) + 1, i64::MAX, i64::MIN];
    let floats = [
        0.1,
        1.0,
        -0.0,
        1e300,
        5e-324,
        f64::NAN,
        f64::INFINITY,
        9_007_199_254_740_993.0,
        1e15,
        123.0,
    ];
    let decimals: [i128; 7] = [
        0,
        11_000,
        15,
        10i128.pow(19) + 1,
        -10_000,
        9_007_199_254_740_993,
        10i128.pow(23),
    ];
    let decimal = |unscaled: &i128| {
        let digits = format!("{:05}", unscaled.unsigned_abs());
        let (whole, fraction) = digits.split_at(digits.len() - 4);
        Is::Number(format!(
            "{}{whole}.{fraction}",
            if *unscaled < 0 { "-" } else { "" }
        ))
    };
    let made = Decimal128Array::from(decimals.to_vec())
        .with_precision_and_scale(30, 4)
        .unwrap();
    let moment = 1_582_949_106_500_000;
    let object = StructArray::from(vec![(
        Arc::new(Field::new("a", DataType::Int32, true)),
        Arc::new(Int32Array::from(vec![1])) as ArrayRef,
    )]);
    let kind = |name, array: ArrayRef, values: Vec<Is>| Kind { name, array, values };
    vec![
        kind(
            "bool",
            Arc::new(BooleanArray::from(vec![true, false])),
            vec![Is::Number("1".into()), Is::Number("0".into())],
        ),
        kind(
            "integer",
            Arc::new(Int64Array::from(integers.to_vec())),
            integers.iter().map(|i| Is::Number(i.to_string())).collect(),
        ),
        kind(
            "float",
            Arc::new(Float64Array::from(floats.to_vec())),
            floats.iter().map(|f| Is::Float(*f)).collect(),
        ),
        kind("decimal", Arc::new(made), decimals.iter().map(decimal).collect()),
        kind(
            "text",
            Arc::new(StringArray::from(texts())),
            texts()
                .into_iter()
                .map(|text| Is::Text(text.to_owned()))
                .collect(),
        ),
        kind(
            "bytes",
            Arc::new(BinaryArray::from(vec![&b"007"[..], b"", b"\0\xff"])),
            vec![
                Is::Bytes(b"007".to_vec()),
                Is::Bytes(Vec::new()),
                Is::Bytes(b"\0\xff".to_vec()),
            ],
        ),
        kind(
            "date",
            Arc::new(Date32Array::from(vec![18_321])),
            vec![Is::Time(&["2020-02-29", "2020-02-29 00:00:00"])],
        ),
        kind(
            "time",
            Arc::new(Time64MicrosecondArray::from(vec![14_706_500_000])),
            vec![Is::Time(&["04:05:06.5", "04:05:06.500000"])],
        ),
        kind(
            "timestamp",
            Arc::new(TimestampMicrosecondArray::from(vec![moment])),
            vec![Is::Time(&["2020-02-29 04:05:06.5", "2020-02-29 04:05:06.500000"])],
        ),
        kind(
            "instant",
            Arc::new(TimestampMicrosecondArray::from(vec![moment]).with_timezone("UTC")),
            vec![Is::Time(&[
                "2020-02-29 04:05:06.500000+00:00",
                "2020-02-29 04:05:06.5+00:00",
                "2020-02-29 04:05:06.5Z",
            ])],
        ),
        kind("object", Arc::new(object), vec![Is::Json("{\"a\":1}")]),
    ]
}

/// A number without what means nothing: `-12.5`.
fn plain(number: &str) -> Option<String> {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || whole.len() + fraction.len() == 0 {
        return None;
    }
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(match (whole, fraction) {
        ("0", "") => "0".to_owned(),
        (whole, "") => format!("{sign}{whole}"),
        (whole, fraction) => format!("{sign}{whole}.{fraction}"),
    })
}

/// Whether what stands in the table is the value.
fn same(value: &Is, stored: &Value, declared: &str) -> bool {
    match (value, stored) {
        (Is::Number(number), Value::Integer(i)) => plain(number) == Some(i.to_string()),
        // The shortest digits that mean this float are the number's own, or all of its digits are.
        (Is::Number(number), Value::Real(r)) => {
            plain(number) == plain(&format!("{r}")) || plain(number) == plain(&format!("{r:.0}"))
        }
        (Is::Number(number), Value::Text(text)) => {
            plain(number) == plain(text) || [("1", "true"), ("0", "false")].contains(&(number, text))
        }
        (Is::Float(float), Value::Real(r)) => float == r,
        (Is::Float(float), Value::Integer(i)) => *float == *i as f64 && *float as i128 == i128::from(*i),
        (Is::Float(float), Value::Text(text)) => {
            text.parse().ok() == Some(*float) || (float.is_nan() && text == "NaN")
        }
        (Is::Text(text), Value::Text(stored)) => {
            text == stored
                || (numeric(declared)
                    && plain(text.trim()).is_some_and(|number| plain(stored) == Some(number)))
        }
        (Is::Text(text), Value::Blob(blob)) => text.as_bytes() == blob,
        (Is::Text(text), Value::Integer(_) | Value::Real(_)) if numeric(declared) => {
            let trimmed = text.trim();
            if let Some(number) = plain(trimmed) {
                same(&Is::Number(number), stored, declared)
                    // A text in a column of floats is the float nearest to it.
                    || (floating(declared) && matches!(stored, Value::Real(r) if trimmed.parse() == Ok(*r)))
            } else if let Ok(float) = trimmed.parse::<f64>() {
                same(&Is::Float(float), stored, declared)
            } else {
                trimmed == "true" && *stored == Value::Integer(1)
            }
        }
        (Is::Time(forms), Value::Text(text)) => forms
            .iter()
            .any(|form| form.replace(' ', "T") == text.replace(' ', "T")),
        (Is::Json(json), Value::Text(text)) => json == text,
        (Is::Bytes(bytes), Value::Blob(blob)) => bytes == blob,
        _ => false,
    }
}

/// Whether people who declare a column so mean numbers.
fn numeric(declared: &str) -> bool {
    let means = ["INT", "DEC", "NUM", "BOOL"]
        .iter()
        .any(|part| declared.contains(part));
    means || floating(declared)
}

fn floating(declared: &str) -> bool {
    ["REAL", "DOUB", "FLOA"]
        .iter()
        .any(|part| declared.contains(part))
}

#[tokio::test]
async fn a_value_is_stored_as_it_is_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let inputs: Vec<_> = kinds()
        .into_iter()
        .map(|kind| {
            let path = directory.path().join(format!("{}.arrow", kind.name));
            let numbers: Int64Array = (0..kind.values.len() as i64).collect();
            let columns = [("o", Arc::new(numbers) as ArrayRef), ("v", kind.array.clone())];
            let rows = RecordBatch::try_from_iter(columns).unwrap();
            let file = std::fs::File::create(&path).unwrap();
            let mut writer = FileWriter::try_new(file, &rows.schema()).unwrap();
            writer.write(&rows).unwrap();
            writer.finish().unwrap();
            (kind, path)
        })
        .collect();
    let tables = PLAIN.iter().map(|declared| (declared, ""));
    let tables = tables.chain(STRICT.iter().map(|declared| (declared, " STRICT")));
    let mut wrong = Vec::new();
    let (mut refused, mut stored) = (0, 0);
    for (number, (declared, strict)) in tables.enumerate() {
        let path = directory.path().join(format!("{number}.db"));
        let other = rusqlite::Connection::open(&path).unwrap();
        other
            .execute_batch(&format!(
                "PRAGMA synchronous = OFF; CREATE TABLE t (o INTEGER PRIMARY KEY, v {declared}){strict}"
            ))
            .unwrap();
        let database = Database::connect(&format!("sqlite:{}", path.display()))
            .await
            .unwrap();
        for (kind, input) in &inputs {
            other.execute_batch("DELETE FROM t").unwrap();
            let rejects = directory.path().join(format!("{number}.{}.rejects", kind.name));
            let load = database
                .load(input.display().to_string())
                .table("t")
                .durability(Durability::Relaxed)
                .rejects(&rejects, RejectsMax::Rows(100))
                .options(|options| options.ledger = LedgerPlace::None);
            let what = format!("{} into {declared}{strict}", kind.name);
            let report = match load.run().await {
                Ok(report) => report,
                Err(error) if error.kind() == ErrorKind::Schema => {
                    refused += 1;
                    continue;
                }
                Err(error) => panic!("{what}: {error}"),
            };
            let mut statement = other.prepare("SELECT o, v FROM t").unwrap();
            let rows = statement
                .query_map([], |row| {
                    Ok((row.get::<_, u32>(0)? as usize, row.get::<_, Value>(1)?))
                })
                .unwrap();
            let rows: Vec<_> = rows.map(Result::unwrap).collect();
            assert_eq!(rows.len() as u64, report.rows.written, "{what}");
            assert_eq!(
                report.rows.written + report.rows.rejected,
                kind.values.len() as u64,
                "{what}"
            );
            for (at, found) in rows {
                stored += 1;
                // A date alone is that day's midnight.
                let midnight = matches!((&kind.values[at], &found), (Is::Text(date), Value::Text(time))
                    if ["DATETIME", "TIMESTAMP"].contains(declared) && *time == format!("{date} 00:00:00"));
                if !midnight && !same(&kind.values[at], &found, declared) {
                    wrong.push(format!("{what}: {:?} became {found:?}", kind.values[at]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The table above would prove nothing if everything were refused.
    assert!(
        refused > 100 && stored > 1_500,
        "{refused} refused, {stored} stored"
    );
}
