//! What is written is what is read back.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, StringArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use proptest::prelude::*;
use rusqlite::types::Value;
use tonnage::{
    ColumnType, ErrorKind,
    table::{ColumnSpec, TableName, TableSpec},
};

use super::{Database, METHODS, batch, integer, text};

/// Values of one type and what a column of `plain` or `strict` type has afterwards.
struct Case {
    ty: ColumnType,
    plain: &'static str,
    strict: &'static str,
    values: ArrayRef,
    stored: Vec<Value>,
    /// What a STRICT column has, where that differs.
    stored_strict: Option<Vec<Value>>,
}

fn case(
    ty: ColumnType,
    plain: &'static str,
    strict: &'static str,
    values: ArrayRef,
    stored: Vec<Value>,
) -> Case {
    Case {
        ty,
        plain,
        strict,
        values,
        stored,
        stored_strict: None,
    }
}

const DAY: i64 = 86_400_000_000;

fn cases() -> Vec<Case> {
    let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
    let decimals = |precision, scale, values: [Option<i128>; 4]| -> ArrayRef {
        Arc::new(
            Decimal128Array::from(values.to_vec())
                .with_precision_and_scale(precision, scale)
                .unwrap(),
        )
    };
    let strings = |values: [Option<&str>; 4]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
    let timestamps = |values: [Option<i64>; 4]| TimestampMicrosecondArray::from(values.to_vec());
    let real = Value::Real;
    let null = || Value::Null;
    let times = [
        Some(-62_167_219_200_000_000),
        Some(0),
        None,
        Some(253_402_300_799_999_999),
    ];
    let uuids = [
        Some([0u8; 16]),
        Some([0xff; 16]),
        None,
        Some(*b"0123456789abcdef"),
    ];
    vec![
        case(
            ColumnType::Bool,
            "BOOLEAN",
            "INTEGER",
            Arc::new(BooleanArray::from(vec![
                Some(true),
                Some(false),
                None,
                Some(true),
            ])),
            vec![integer(1), integer(0), null(), integer(1)],
        ),
        case(
            ColumnType::Int16,
            "SMALLINT",
            "INT",
            Arc::new(Int16Array::from(vec![
                Some(i16::MIN),
                Some(0),
                None,
                Some(i16::MAX),
            ])),
            vec![integer(-32768), integer(0), null(), integer(32767)],
        ),
        case(
            ColumnType::Int32,
            "INT",
            "INT",
            Arc::new(Int32Array::from(vec![
                Some(i32::MIN),
                Some(0),
                None,
                Some(i32::MAX),
            ])),
            vec![
                integer(i32::MIN.into()),
                integer(0),
                null(),
                integer(i32::MAX.into()),
            ],
        ),
        case(
            ColumnType::Int64,
            "INTEGER",
            "INTEGER",
            Arc::new(Int64Array::from(vec![
                Some(i64::MIN),
                Some(0),
                None,
                Some(i64::MAX),
            ])),
            vec![integer(i64::MIN), integer(0), null(), integer(i64::MAX)],
        ),
        case(
            ColumnType::Int64,
            "REAL",
            "REAL",
            Arc::new(Int64Array::from(vec![Some(-(1 << 53)), Some(0), None, Some(7)])),
            vec![real(-9_007_199_254_740_992.0), real(0.0), null(), real(7.0)],
        ),
        case(
            ColumnType::Float32,
            "FLOAT",
            "REAL",
            Arc::new(Float32Array::from(vec![
                Some(f32::MIN),
                Some(0.1),
                None,
                Some(f32::INFINITY),
            ])),
            vec![
                real(f64::from(f32::MIN)),
                real(f64::from(0.1f32)),
                null(),
                real(f64::INFINITY),
            ],
        ),
        case(
            ColumnType::Float64,
            "DOUBLE",
            "REAL",
            Arc::new(Float64Array::from(vec![
                Some(f64::MAX),
                Some(5e-324),
                None,
                Some(f64::NEG_INFINITY),
            ])),
            vec![real(f64::MAX), real(5e-324), null(), real(f64::NEG_INFINITY)],
        ),
        Case {
            stored_strict: Some(vec![
                text("12.50"),
                text("-999999999999.999"),
                null(),
                text("3.000"),
            ]),
            ..case(
                decimal(15, 3),
                "DECIMAL(15,3)",
                "TEXT",
                decimals(
                    15,
                    3,
                    [Some(12_500), Some(-999_999_999_999_999), None, Some(3_000)],
                ),
                vec![real(12.5), real(-999_999_999_999.999), null(), integer(3)],
            )
        },
        case(
            decimal(38, 10),
            "TEXT",
            "TEXT",
            decimals(38, 10, [Some(10i128.pow(38) - 1), Some(-1), None, Some(0)]),
            vec![
                text("9999999999999999999999999999.9999999999"),
                text("-0.0000000001"),
                null(),
                text("0.0000000000"),
            ],
        ),
        Case {
            stored_strict: Some(vec![integer(i64::MIN), real(0.125), null(), text("1.50")]),
            ..case(
                ColumnType::Numeric,
                "NUMERIC",
                "ANY",
                strings([Some("-9223372036854775808"), Some("0.125"), None, Some("1.50")]),
                vec![integer(i64::MIN), real(0.125), null(), real(1.5)],
            )
        },
        case(
            ColumnType::TEXT,
            "VARCHAR(2)",
            "TEXT",
            strings([Some("007"), Some(""), None, Some("žluťoučký 🐎 ' \" ; --")]),
            vec![text("007"), text(""), null(), text("žluťoučký 🐎 ' \" ; --")],
        ),
        case(
            ColumnType::TEXT,
            "",
            "ANY",
            strings([Some("007"), Some("1e5"), None, Some("x")]),
            vec![text("007"), text("1e5"), null(), text("x")],
        ),
        case(
            ColumnType::Bytes,
            "BLOB",
            "BLOB",
            Arc::new(BinaryArray::from(vec![
                Some(&b""[..]),
                Some(b"\0\xff"),
                None,
                Some(b"text"),
            ])),
            vec![
                Value::Blob(vec![]),
                Value::Blob(vec![0, 255]),
                null(),
                Value::Blob(b"text".to_vec()),
            ],
        ),
        case(
            ColumnType::Date,
            "DATE",
            "TEXT",
            Arc::new(Date32Array::from(vec![
                Some(-719_528),
                Some(0),
                None,
                Some(2_932_896),
            ])),
            vec![text("0000-01-01"), text("1970-01-01"), null(), text("9999-12-31")],
        ),
        case(
            ColumnType::Time,
            "TIME",
            "TEXT",
            Arc::new(Time64MicrosecondArray::from(vec![
                Some(0),
                Some(1),
                None,
                Some(DAY - 1),
            ])),
            vec![
                text("00:00:00"),
                text("00:00:00.000001"),
                null(),
                text("23:59:59.999999"),
            ],
        ),
        case(
            ColumnType::Timestamp,
            "DATETIME",
            "TEXT",
            Arc::new(timestamps(times)),
            vec![
                text("0000-01-01 00:00:00"),
                text("1970-01-01 00:00:00"),
                null(),
                text("9999-12-31 23:59:59.999999"),
            ],
        ),
        case(
            ColumnType::TimestampTz,
            "TIMESTAMPTZ",
            "TEXT",
            Arc::new(timestamps(times).with_timezone("UTC")),
            vec![
                text("0000-01-01 00:00:00+00:00"),
                text("1970-01-01 00:00:00+00:00"),
                null(),
                text("9999-12-31 23:59:59.999999+00:00"),
            ],
        ),
        case(
            ColumnType::Uuid,
            "UUID",
            "TEXT",
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids.into_iter(), 16).unwrap()),
            vec![
                text("00000000-0000-0000-0000-000000000000"),
                text("ffffffff-ffff-ffff-ffff-ffffffffffff"),
                null(),
                text("30313233-3435-3637-3839-616263646566"),
            ],
        ),
        case(
            ColumnType::Json,
            "JSON",
            "TEXT",
            strings([Some("{\"a\": 1.0}"), Some("null"), None, Some("[1e5]")]),
            vec![text("{\"a\": 1.0}"), text("null"), null(), text("[1e5]")],
        ),
    ]
}

#[tokio::test]
async fn every_type_in_every_kind_of_table() {
    for case in cases() {
        for (declared, options, stored) in [
            (case.plain, "", &case.stored),
            (case.plain, "WITHOUT ROWID", &case.stored),
            (
                case.strict,
                "STRICT",
                case.stored_strict.as_ref().unwrap_or(&case.stored),
            ),
        ] {
            for method in METHODS {
                let schema = format!("CREATE TABLE t (id INTEGER PRIMARY KEY, v {declared}) {options}");
                let what = format!("{} into {declared} {options} by {method}", case.ty);
                let database = Database::new(&schema).await;
                let columns = [("id", ColumnType::Int64), ("v", case.ty)];
                let plan = database.plan("t", &columns, method).await;
                let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..4));
                let rows = batch(vec![
                    ("id", ColumnType::Int64, ids),
                    ("v", case.ty, case.values.clone()),
                ]);
                let failure = database.write(&plan, &rows).await;
                assert!(failure.is_none(), "{what}: {failure:?}");
                let read: Vec<Value> = database.rows("SELECT v FROM t ORDER BY id").concat();
                let mut wanted = stored.clone();
                if case.ty
                    == (ColumnType::Decimal {
                        precision: 15,
                        scale: 3,
                    })
                    && options == "STRICT"
                {
                    wanted[0] = text("12.500");
                }
                assert_eq!(read, wanted, "{what}");
            }
        }
    }
}

#[tokio::test]
async fn created_tables_take_every_type() {
    let database = Database::new("").await;
    let cases: Vec<_> = cases()
        .into_iter()
        .filter(|case| case.plain != "REAL" && !case.plain.is_empty())
        .collect();
    let names: Vec<String> = cases.iter().map(|case| format!("odd \"{}\"", case.ty)).collect();
    let spec = TableSpec {
        name: TableName::bare("made; \"here\""),
        columns: cases
            .iter()
            .zip(&names)
            .map(|(case, name)| ColumnSpec {
                name: name.clone(),
                ty: case.ty,
                nullable: true,
            })
            .collect(),
        key: Vec::new(),
    };
    database.target.create(&spec).await.unwrap();
    let columns: Vec<_> = cases
        .iter()
        .zip(&names)
        .map(|(case, name)| (name.as_str(), case.ty))
        .collect();
    for method in METHODS {
        let plan = database.plan("made; \"here\"", &columns, method).await;
        let arrays = cases
            .iter()
            .zip(&names)
            .map(|(case, name)| (name.as_str(), case.ty, case.values.clone()));
        assert!(database.write(&plan, &batch(arrays.collect())).await.is_none());
    }
    let read = database.rows("SELECT * FROM \"made; \"\"here\"\"\" ORDER BY rowid");
    assert_eq!(read.len(), 8);
    for (column, case) in cases.iter().enumerate() {
        let stored: Vec<_> = read.iter().map(|row| row[column].clone()).collect();
        assert_eq!(
            stored,
            [case.stored.clone(), case.stored.clone()].concat(),
            "{}",
            case.ty
        );
    }
}

#[tokio::test]
async fn what_would_be_rewritten_is_refused() {
    let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
    let string = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec!["x", value])) };
    let number = |value: &str| -> ArrayRef { Arc::new(StringArray::from(vec!["1", value])) };
    let code = "22000";
    let refused: Vec<(&str, ColumnType, ArrayRef, &str)> = vec![
        ("STRING", ColumnType::TEXT, string("007"), code),
        ("STRING", ColumnType::TEXT, string(" 1.0 "), code),
        ("NUMERIC", ColumnType::TEXT, string("1e5"), code),
        ("INTEGER", ColumnType::TEXT, string("12"), code),
        ("REAL", ColumnType::TEXT, string(".5"), code),
        (
            "JSON",
            ColumnType::Json,
            Arc::new(StringArray::from(vec!["{}", "1.0"])),
            code,
        ),
        ("NUMERIC", ColumnType::Numeric, number("NaN"), code),
        ("NUMERIC", ColumnType::Numeric, number("-Infinity"), code),
        (
            "NUMERIC",
            ColumnType::Numeric,
            number("9223372036854775808"),
            code,
        ),
        (
            "NUMERIC",
            ColumnType::Numeric,
            number("0.12345678901234567"),
            code,
        ),
        (
            "NUMERIC",
            decimal(20, 2),
            Arc::new(
                Decimal128Array::from(vec![1, 12_345_678_901_234_567_891])
                    .with_precision_and_scale(20, 2)
                    .unwrap(),
            ),
            code,
        ),
        (
            "REAL",
            ColumnType::Float64,
            Arc::new(Float64Array::from(vec![1.0, f64::NAN])),
            code,
        ),
        (
            "REAL",
            ColumnType::Float32,
            Arc::new(Float32Array::from(vec![1.0, f32::NAN])),
            code,
        ),
        (
            "",
            ColumnType::Float64,
            Arc::new(Float64Array::from(vec![1.0, f64::NAN])),
            code,
        ),
        (
            "REAL",
            ColumnType::Int64,
            Arc::new(Int64Array::from(vec![1, (1 << 53) + 1])),
            code,
        ),
        (
            "DATE",
            ColumnType::Date,
            Arc::new(Date32Array::from(vec![0, 2_932_897])),
            "22008",
        ),
        (
            "TIME",
            ColumnType::Time,
            Arc::new(Time64MicrosecondArray::from(vec![0, DAY])),
            "22008",
        ),
        (
            "TIMESTAMP",
            ColumnType::Timestamp,
            Arc::new(TimestampMicrosecondArray::from(vec![0, i64::MAX])),
            "22008",
        ),
    ];
    for (declared, ty, values, code) in refused {
        for method in METHODS {
            let database = Database::new(&format!("CREATE TABLE t (v {declared})")).await;
            let plan = database.plan("t", &[("v", ty)], method).await;
            let failure = database
                .write(&plan, &batch(vec![("v", ty, values.clone())]))
                .await;
            let failure = failure.unwrap_or_else(|| panic!("{ty} into {declared} was written"));
            assert_eq!(
                (failure.applied, failure.suspect, failure.intact),
                (1, Some(1), true)
            );
            assert_eq!(failure.error.kind(), ErrorKind::Rejected);
            assert_eq!(failure.error.code_text(), Some(code), "{ty} into {declared}");
            assert_eq!(failure.column.as_deref(), Some("v"));
            assert_eq!(database.count("t"), 1, "the row before it was written");
        }
    }
}

#[tokio::test]
async fn numbers_do_not_become_text() {
    let database = Database::new("CREATE TABLE t (v TEXT)").await;
    for ty in [ColumnType::Int64, ColumnType::Float64, ColumnType::Bool] {
        let plan = database.plan("t", &[("v", ty)], super::Method::Native).await;
        let error = database
            .target
            .writer(&plan.write_request(), None)
            .await
            .err()
            .unwrap();
        assert_eq!(error.kind(), ErrorKind::Schema);
        assert!(error.to_string().contains("column v would turn"), "{error}");
    }
}

/// A row of one value each; what a source could hold.
type Row = (
    Option<i64>,
    Option<f64>,
    Option<f32>,
    Option<String>,
    Option<Vec<u8>>,
    (Option<i32>, Option<i64>, Option<i64>),
    Option<u128>,
    Option<i64>,
);

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (
        any::<Option<i64>>(),
        proptest::option::of(any::<f64>().prop_map(|float| if float == 0.0 { 0.0 } else { float })),
        proptest::option::of(any::<f32>().prop_map(|float| if float == 0.0 { 0.0 } else { float })),
        proptest::option::of("[^\0]{0,12}|[0-9 .e+-]{0,6}"),
        any::<Option<Vec<u8>>>(),
        (
            proptest::option::of(-719_528..2_932_897),
            proptest::option::of(0..DAY),
            proptest::option::of(-62_167_219_200_000_000i64..253_402_300_800_000_000),
        ),
        any::<Option<u128>>(),
        proptest::option::of(-999_999_999_999_999i64..=999_999_999_999_999),
    );
    proptest::collection::vec(row, 1..70)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_values_come_back(rows in rows()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for method in METHODS {
                let database = Database::new(
                    "CREATE TABLE t (n INTEGER PRIMARY KEY, i INTEGER, d REAL, f REAL, s TEXT, b BLOB,
                     date DATE, time TIME, ts TIMESTAMP, u UUID, m DECIMAL(15,4), a)",
                ).await;
                round_trip(&database, method, &rows).await;
            }
        });
    }
}

async fn round_trip(database: &Database, method: super::Method, rows: &[Row]) {
    let money = ColumnType::Decimal {
        precision: 15,
        scale: 4,
    };
    let uuids = rows.iter().map(|row| row.6.map(u128::to_be_bytes));
    let columns: Vec<(&str, ColumnType, ArrayRef)> = vec![
        (
            "i",
            ColumnType::Int64,
            Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>()),
        ),
        (
            "d",
            ColumnType::Float64,
            Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>()),
        ),
        (
            "f",
            ColumnType::Float32,
            Arc::new(rows.iter().map(|row| row.2).collect::<Float32Array>()),
        ),
        (
            "s",
            ColumnType::TEXT,
            Arc::new(rows.iter().map(|row| row.3.as_ref()).collect::<StringArray>()),
        ),
        (
            "b",
            ColumnType::Bytes,
            Arc::new(rows.iter().map(|row| row.4.as_ref()).collect::<BinaryArray>()),
        ),
        (
            "date",
            ColumnType::Date,
            Arc::new(rows.iter().map(|row| row.5.0).collect::<Date32Array>()),
        ),
        (
            "time",
            ColumnType::Time,
            Arc::new(rows.iter().map(|row| row.5.1).collect::<Time64MicrosecondArray>()),
        ),
        (
            "ts",
            ColumnType::Timestamp,
            Arc::new(
                rows.iter()
                    .map(|row| row.5.2)
                    .collect::<TimestampMicrosecondArray>(),
            ),
        ),
        (
            "u",
            ColumnType::Uuid,
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16).unwrap()),
        ),
        (
            "m",
            money,
            Arc::new(
                rows.iter()
                    .map(|row| row.7.map(i128::from))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(15, 4)
                    .unwrap(),
            ),
        ),
        (
            "a",
            ColumnType::TEXT,
            Arc::new(rows.iter().map(|row| row.3.as_ref()).collect::<StringArray>()),
        ),
    ];
    let types: Vec<_> = columns.iter().map(|(name, ty, _)| (*name, *ty)).collect();
    let plan = database.plan("t", &types, method).await;
    let failure = database.write(&plan, &batch(columns)).await;
    assert!(failure.is_none(), "{failure:?}");
    let read = database.rows("SELECT i, d, f, s, b, date, time, ts, u, m, a FROM t ORDER BY n");
    assert_eq!(read.len(), rows.len());
    for (read, row) in read.into_iter().zip(rows) {
        let wanted = [
            row.0.map(Value::Integer),
            row.1.map(Value::Real),
            row.2.map(|float| Value::Real(float.into())),
            row.3.clone().map(Value::Text),
            row.4.clone().map(Value::Blob),
            row.5.0.map(|days| Value::Text(day(days.into()).to_string())),
            row.5
                .1
                .map(|micros| Value::Text(datetime(micros).time().to_string())),
            row.5.2.map(|micros| Value::Text(datetime(micros).to_string())),
            row.6
                .map(|bits| Value::Text(uuid::Uuid::from_u128(bits).to_string())),
            row.7
                .map(|unscaled| Value::Real(format!("{unscaled}e-4").parse().unwrap())),
            row.3.clone().map(Value::Text),
        ];
        for (column, (read, wanted)) in read.into_iter().zip(wanted).enumerate() {
            let read = match (column, read) {
                // A time prints its fraction without the zeros at its end, and dates are joined to times by a
                // T.
                (6, Value::Text(time)) => Value::Text(time.parse::<jiff::civil::Time>().unwrap().to_string()),
                (7, Value::Text(time)) => {
                    Value::Text(time.parse::<jiff::civil::DateTime>().unwrap().to_string())
                }
                // A whole number is an integer in a numeric column.
                (9, Value::Integer(whole)) => Value::Real(whole as f64),
                (_, read) => read,
            };
            assert_eq!(read, wanted.unwrap_or(Value::Null), "column {column}");
        }
    }
}

fn day(days: i64) -> jiff::civil::Date {
    jiff::civil::date(1970, 1, 1) + jiff::Span::new().days(days)
}

fn datetime(micros: i64) -> jiff::civil::DateTime {
    day(micros.div_euclid(DAY)).at(0, 0, 0, 0) + jiff::Span::new().microseconds(micros.rem_euclid(DAY))
}
