//! Every type, by both methods, read back by the server.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use tonnage::{
    Database,
    operation::{Method, Operation},
    plan::{RejectsMax, Sort},
    put::AfterFailure,
    reader::Relation,
    sources::batches::BatchSource,
    target::{Claim, Guard},
    types::ColumnType,
};

use super::{Server, TestDatabase, batch};

on_every_server! {
    every_type_keeps_its_extremes,
    what_the_column_would_change_or_cannot_hold_is_refused,
    the_largest_number_of_a_typed_source_is_not_infinite,
    any_value_comes_back_from_the_server,
}

const METHODS: [Method; 4] = [Method::Native, Method::Array, Method::Batch, Method::Single];

/// Writes one column into a table of its own by each method and compares what the server shows.
pub(super) async fn check(
    place: &TestDatabase,
    declared: &str,
    array: ArrayRef,
    shown: &str,
    expected: &[Option<&str>],
) {
    for method in METHODS {
        place
            .run(&format!(
                "DROP TABLE IF EXISTS v; CREATE TABLE v (o serial, v {declared})"
            ))
            .await;
        let plan = place.plan("v", &["v"], Operation::Insert, method).await;
        let ty = plan.columns[0].ty;
        let mut writer = place.writer(&plan).await;
        assert_eq!(writer.begin(&[]).await.unwrap(), Claim::Held);
        let outcome = writer
            .write(&batch(&[(ty, array.clone())]), Guard::None)
            .await
            .unwrap();
        assert!(
            outcome.failure.is_none(),
            "{declared} {method}: {:?}",
            outcome.failure
        );
        writer.commit(&[]).await.unwrap();
        let found = place.texts(&format!("SELECT {shown} FROM v ORDER BY o")).await;
        let found: Vec<_> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, expected, "{declared} by {method}");
    }
}

/// Writes one value by each method and expects it to be refused with `code`, and nothing else to be harmed.
pub(super) async fn refused(place: &TestDatabase, declared: &str, array: ArrayRef, code: &str) {
    for method in METHODS {
        place
            .run(&format!(
                "DROP TABLE IF EXISTS v; CREATE TABLE v (o serial, v {declared})"
            ))
            .await;
        let plan = place.plan("v", &["v"], Operation::Insert, method).await;
        let ty = plan.columns[0].ty;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let outcome = writer
            .write(&batch(&[(ty, array.clone())]), Guard::Savepoint)
            .await
            .unwrap();
        let failure = outcome
            .failure
            .unwrap_or_else(|| panic!("{declared} {method}: it was taken"));
        assert_eq!(
            failure.error.code_text(),
            Some(code),
            "{declared} {method}: {}",
            failure.error
        );
        assert!(failure.intact);
        writer.commit(&[]).await.unwrap();
        assert_eq!(
            place.number("SELECT count(*) FROM v").await,
            0,
            "{declared} {method}"
        );
    }
}

fn array<A: arrow::array::Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

async fn every_type_keeps_its_extremes(server: Server) {
    let place = TestDatabase::on(server).await;
    let p = &place;
    check(
        p,
        "bool",
        array(BooleanArray::from(vec![Some(true), None, Some(false)])),
        "v::text",
        &[Some("true"), None, Some("false")],
    )
    .await;
    check(
        p,
        "int2",
        array(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX)])),
        "v::text",
        &[Some("-32768"), None, Some("32767")],
    )
    .await;
    check(
        p,
        "int4",
        array(Int32Array::from(vec![i32::MIN, 0, i32::MAX])),
        "v::text",
        &[Some("-2147483648"), Some("0"), Some("2147483647")],
    )
    .await;
    check(
        p,
        "int8",
        array(Int64Array::from(vec![i64::MIN, 0, i64::MAX])),
        "v::text",
        &[
            Some("-9223372036854775808"),
            Some("0"),
            Some("9223372036854775807"),
        ],
    )
    .await;
    let floats = vec![
        Some(0.1),
        Some(-0.0),
        None,
        Some(f32::NAN),
        Some(f32::NEG_INFINITY),
        Some(f32::MAX),
    ];
    check(
        p,
        "float4",
        array(Float32Array::from(floats)),
        "v::text",
        &[
            Some("0.1"),
            Some("-0"),
            None,
            Some("NaN"),
            Some("-Infinity"),
            Some("3.4028235e+38"),
        ],
    )
    .await;
    let doubles = vec![f64::MIN_POSITIVE, 5e-324, f64::INFINITY];
    check(
        p,
        "float8",
        array(Float64Array::from(doubles)),
        "v::text",
        &[Some("2.2250738585072014e-308"), Some("5e-324"), Some("Infinity")],
    )
    .await;
    let decimals = Decimal128Array::from(vec![Some(-5), None, Some(0), Some(9_999_999_999)])
        .with_precision_and_scale(10, 2)
        .unwrap();
    check(
        p,
        "numeric(10,2)",
        array(decimals),
        "v::text",
        &[Some("-0.05"), None, Some("0.00"), Some("99999999.99")],
    )
    .await;
    let nines = 10i128.pow(38) - 1;
    let widest = Decimal128Array::from(vec![nines, -nines, 1])
        .with_precision_and_scale(38, 38)
        .unwrap();
    check(
        p,
        "numeric(38,38)",
        array(widest),
        "v::text",
        &[
            Some("0.99999999999999999999999999999999999999"),
            Some("-0.99999999999999999999999999999999999999"),
            Some("0.00000000000000000000000000000000000001"),
        ],
    )
    .await;
    let numerics = [
        "NaN",
        "-12.50",
        "Infinity",
        "0.000",
        "1000000000000000000000000000000000000000000.1",
        "+7",
    ];
    check(
        p,
        "numeric",
        array(StringArray::from(numerics.to_vec())),
        "v::text",
        &[
            Some("NaN"),
            Some("-12.50"),
            Some("Infinity"),
            Some("0.000"),
            Some("1000000000000000000000000000000000000000000.1"),
            Some("7"),
        ],
    )
    .await;
    check(
        p,
        "numeric(5,-2)",
        array(StringArray::from(vec!["1200", "-1234500"])),
        "v::text",
        &[Some("1200"), Some("-1234500")],
    )
    .await;
    let texts = vec![Some(""), None, Some("a\tb\n\\N\"'"), Some("grüße 🦀")];
    for declared in ["text", "varchar", "varchar(9)", "bpchar"] {
        check(p, declared, array(StringArray::from(texts.clone())), "v", &texts).await;
    }
    check(
        p,
        "char(4)",
        array(StringArray::from(vec!["ab", "ab      ", "äöüß"])),
        "v || '|'",
        &[Some("ab|"), Some("ab|"), Some("äöüß|")],
    )
    .await;
    let bytes: Vec<Option<&[u8]>> = vec![Some(b""), None, Some(&[0, 255, 10])];
    check(
        p,
        "bytea",
        array(BinaryArray::from(bytes)),
        "encode(v, 'hex')",
        &[Some(""), None, Some("00ff0a")],
    )
    .await;
    let dates = vec![
        Some(0),
        None,
        Some(-719_162),
        Some(2_932_896),
        Some(-2_440_588),
        Some(2_145_042_905),
    ];
    check(
        p,
        "date",
        array(Date32Array::from(dates)),
        "v::text",
        &[
            Some("1970-01-01"),
            None,
            Some("0001-01-01"),
            Some("9999-12-31"),
            Some("4714-11-24 BC"),
            Some("5874897-12-31"),
        ],
    )
    .await;
    let times = vec![0, 86_399_999_999, 86_400_000_000];
    check(
        p,
        "time",
        array(Time64MicrosecondArray::from(times)),
        "v::text",
        &[Some("00:00:00"), Some("23:59:59.999999"), Some("24:00:00")],
    )
    .await;
    let instants = vec![Some(-1), None, Some(0), Some(253_402_300_799_999_999)];
    check(
        p,
        "timestamp",
        array(TimestampMicrosecondArray::from(instants.clone())),
        "v::text",
        &[
            Some("1969-12-31 23:59:59.999999"),
            None,
            Some("1970-01-01 00:00:00"),
            Some("9999-12-31 23:59:59.999999"),
        ],
    )
    .await;
    let zoned = TimestampMicrosecondArray::from(instants).with_timezone("UTC");
    check(
        p,
        "timestamptz",
        array(zoned),
        "(v AT TIME ZONE 'UTC')::text",
        &[
            Some("1969-12-31 23:59:59.999999"),
            None,
            Some("1970-01-01 00:00:00"),
            Some("9999-12-31 23:59:59.999999"),
        ],
    )
    .await;
    check(
        p,
        "timestamp(3)",
        array(TimestampMicrosecondArray::from(vec![1_000, -1_000])),
        "v::text",
        &[Some("1970-01-01 00:00:00.001"), Some("1969-12-31 23:59:59.999")],
    )
    .await;
    let uuid: Vec<u8> = (0..16).collect();
    let uuids =
        FixedSizeBinaryArray::try_from_sparse_iter_with_size([Some(uuid), None].into_iter(), 16).unwrap();
    check(
        p,
        "uuid",
        array(uuids),
        "v::text",
        &[Some("00010203-0405-0607-0809-0a0b0c0d0e0f"), None],
    )
    .await;
    let json = vec![Some("{\"b\": 1,  \"a\": [null]}"), None, Some("\"x\"")];
    check(
        p,
        "json",
        array(StringArray::from(json.clone())),
        "v::text",
        &json,
    )
    .await;
    check(
        p,
        "jsonb",
        array(StringArray::from(json)),
        "v::text",
        &[Some("{\"a\": [null], \"b\": 1}"), None, Some("\"x\"")],
    )
    .await;
    place
        .run("CREATE DOMAIN cents AS numeric(10,2) CHECK (VALUE >= 0)")
        .await;
    let decimals = Decimal128Array::from(vec![5])
        .with_precision_and_scale(10, 2)
        .unwrap();
    check(p, "cents", array(decimals), "v::text", &[Some("0.05")]).await;
}

async fn what_the_column_would_change_or_cannot_hold_is_refused(server: Server) {
    let place = TestDatabase::on(server).await;
    let p = &place;
    let text = |value: &str| array(StringArray::from(vec![value]));
    let micros = |value: i64| array(TimestampMicrosecondArray::from(vec![value]));
    refused(p, "varchar(3)", text("abcd"), "22001").await;
    // The server alone would cut these spaces off without a word.
    refused(p, "varchar(3)", text("abc  "), "22001").await;
    refused(p, "varchar(3)", text("äöüß"), "22001").await;
    refused(p, "char(3)", text("abcd"), "22001").await;
    refused(p, "text", text("a\0b"), "22021").await;
    refused(p, "json", text("{"), "22P02").await;
    refused(p, "jsonb", text("{"), "22P02").await;
    refused(p, "numeric", text("12x"), "22P02").await;
    refused(p, "numeric(50,2)", text("1.005"), "22000").await;
    refused(p, "numeric(50,2)", text(&"9".repeat(49)), "22003").await;
    refused(p, "numeric(5,-2)", text("1250"), "22000").await;
    refused(p, "timestamp(3)", micros(1), "22008").await;
    refused(p, "timestamp", micros(-210_866_803_200_000_001), "22008").await;
    refused(p, "timestamp", micros(i64::MIN + 946_684_800_000_000), "22008").await;
    refused(
        p,
        "date",
        array(Date32Array::from(vec![i32::MIN + 10_957])),
        "22008",
    )
    .await;
    // The greatest and the least are infinite here: of typed sources they do not come so far (see below).
    refused(p, "date", array(Date32Array::from(vec![i32::MAX - 1])), "22008").await;
    refused(p, "time", array(Time64MicrosecondArray::from(vec![-1])), "22008").await;
    refused(
        p,
        "time(0)",
        array(Time64MicrosecondArray::from(vec![1])),
        "22008",
    )
    .await;
    refused(
        p,
        "int4 NOT NULL",
        array(Int32Array::from(vec![None::<i32>])),
        "23502",
    )
    .await;
    refused(p, "int4 CHECK (v > 0)", array(Int32Array::from(vec![0])), "23514").await;
    let decimals = Decimal128Array::from(vec![-1])
        .with_precision_and_scale(10, 2)
        .unwrap();
    place
        .run("CREATE DOMAIN cents AS numeric(10,2) CHECK (VALUE >= 0)")
        .await;
    refused(p, "cents", array(decimals), "23514").await;
}

/// The first and the last day and microsecond, each in a row of its own, and a row of none.
fn ends_of_numbers() -> RecordBatch {
    let numbers = Int32Array::from_iter_values(1..=7);
    let dates = vec![
        Some(i32::MAX),
        Some(i32::MIN),
        None,
        None,
        None,
        None,
        Some(i32::MAX - 1_000_000_000),
    ];
    let micros = |first: usize| {
        let mut micros = vec![None; 7];
        micros[first..first + 2].copy_from_slice(&[Some(i64::MAX), Some(i64::MIN)]);
        TimestampMicrosecondArray::from(micros)
    };
    RecordBatch::try_from_iter([
        ("o", array(numbers)),
        ("d", array(Date32Array::from(dates))),
        ("ts", array(micros(2))),
        ("tz", array(micros(4).with_timezone("UTC"))),
    ])
    .unwrap()
}

async fn the_largest_number_of_a_typed_source_is_not_infinite(server: Server) {
    let place = TestDatabase::on(server).await;
    let db = Database::connect(&place.url).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let batch = ends_of_numbers();
    let file = std::fs::File::create(path("v.parquet")).unwrap();
    let mut parquet = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    parquet.close().unwrap();
    let file = std::fs::File::create(path("v.arrow")).unwrap();
    let mut ipc = arrow::ipc::writer::FileWriter::try_new(file, &batch.schema()).unwrap();
    ipc.write(&batch).unwrap();
    ipc.finish().unwrap();
    let source = || BatchSource::new("batches", batch.schema(), std::iter::once(batch.clone()));
    let of_file = |name: &str| db.load(path(name).display().to_string());
    let ways = ["a file", "IPC", "a sort", "batches", "a put", "a buffer", "text"];
    for way in ways {
        let types = match way {
            "text" => "d text, ts text, tz text",
            _ => "d date, ts timestamp, tz timestamptz",
        };
        place
            .run(&format!(
                "DROP TABLE IF EXISTS v; CREATE TABLE v (o int PRIMARY KEY, {types})"
            ))
            .await;
        let bad = path(&format!("{way}.jsonl"));
        let of_load = match way {
            "a file" | "text" => Some(of_file("v.parquet")),
            "IPC" => Some(of_file("v.arrow")),
            "a sort" => Some(of_file("v.parquet").options(|options| options.sort = Some(Sort::Full))),
            "batches" => Some(db.load_source(source())),
            _ => None,
        };
        match (of_load, way) {
            (Some(load), _) => {
                let load = load.table("v").rejects(&bad, RejectsMax::Rows(10));
                load.run().await.unwrap();
            }
            (None, "a put") => {
                let put = db.bulk_put("v").stream(source());
                let put = put.on_failed(|_, _| AfterFailure::Continue);
                put.run().await.unwrap();
            }
            (None, _) => {
                let buffer = db.buffer("v").rejects(&bad, 10).open().await.unwrap();
                buffer.put_many(batch.clone()).await.unwrap();
                buffer.close().await.unwrap();
            }
        }
        let found = "SELECT string_agg(concat_ws(' ', o, d, ts, tz), ', ' ORDER BY o) FROM v";
        let expected = match way {
            // They are days like any others to a column that has room for them.
            "text" => {
                "1 5881580-07-11, 2 5877642-06-23 BC, 3 294247-01-10 04:00:54.775807, \
                 4 290309-12-21 19:59:05.224192 BC, 5 294247-01-10 04:00:54.775807+00:00, \
                 6 290309-12-21 19:59:05.224192+00:00 BC, 7 3143673-07-08"
            }
            _ => "7 3143673-07-08",
        };
        assert_eq!(place.texts(found).await, [Some(expected.to_owned())], "{way}");
        let rejects = std::fs::read_to_string(&bad).unwrap_or_default();
        match way {
            "text" | "a put" => {}
            _ => {
                assert_eq!(rejects.lines().count(), 6, "{way}: {rejects}");
                for said in [
                    "'5881580-07-11' is out of range for date",
                    r#""ts":"290309-12-21 19:59:05.224192 BC""#,
                ] {
                    assert!(rejects.contains(said), "{way}: {rejects}");
                }
            }
        }
    }
    // Text says what it means, also that of a typed source.
    let words = RecordBatch::try_from_iter([
        ("o", array(Int32Array::from(vec![1]))),
        ("d", array(StringArray::from(vec!["infinity"]))),
        ("ts", array(StringArray::from(vec!["-infinity"]))),
    ])
    .unwrap();
    place
        .run("DROP TABLE v; CREATE TABLE v (o int, d date, ts timestamp)")
        .await;
    let source = BatchSource::new("words", words.schema(), std::iter::once(words));
    db.load_source(source).table("v").run().await.unwrap();
    let found = place.texts("SELECT d || ' ' || ts FROM v").await;
    assert_eq!(found, [Some("infinity -infinity".to_owned())]);
    // An infinite date is an infinite timestamp, in the zone that is named too.
    place
        .run("CREATE TABLE w (o int, d timestamp, ts timestamptz)")
        .await;
    let load = db.load_database(&db, Relation::Table("v".parse().unwrap()));
    let load = load.options(|options| options.timezone = Some("Europe/Berlin".to_owned()));
    load.table("w").run().await.unwrap();
    let found = place.texts("SELECT d || ' ' || ts FROM w").await;
    assert_eq!(found, [Some("infinity -infinity".to_owned())]);
}

/// Values to write, and each as the server writes it as text.
type Values = (ArrayRef, Vec<Option<String>>);

/// Any value of a type, as it is sent and as the server should show it.
struct Sample {
    declared: &'static str,
    shown: &'static str,
    ty: ColumnType,
    values: fn(&mut TestRunner, usize) -> Values,
}

fn draw<S: Strategy>(runner: &mut TestRunner, rows: usize, strategy: S) -> Vec<Option<S::Value>> {
    let strategy = prop::option::weighted(0.8, strategy);
    (0..rows)
        .map(|_| strategy.new_tree(runner).unwrap().current())
        .collect()
}

fn shown<T>(values: &[Option<T>], show: impl Fn(&T) -> String) -> Vec<Option<String>> {
    values.iter().map(|value| value.as_ref().map(&show)).collect()
}

fn decimal_text(value: i128, scale: usize) -> String {
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (integer, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale > 0 { "." } else { "" };
    format!("{}{integer}{point}{fraction}", if value < 0 { "-" } else { "" })
}

fn decimals<const P: u8, const S: u8>(
    runner: &mut TestRunner,
    rows: usize,
) -> (ArrayRef, Vec<Option<String>>) {
    let limit = 10i128.pow(u32::from(P)) - 1;
    // As many small values as large ones, whose digits end in zeros now and then.
    let strategy = (-limit..=limit, 0..u32::from(P)).prop_map(|(value, cut)| value / 10i128.pow(cut));
    let values = draw(runner, rows, strategy);
    let texts = shown(&values, |v| decimal_text(*v, usize::from(S)));
    let decimals = Decimal128Array::from(values)
        .with_precision_and_scale(P, S as i8)
        .unwrap();
    (array(decimals), texts)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const SAMPLES: &[Sample] = &[
    Sample {
        declared: "bool",
        shown: "v::text",
        ty: ColumnType::Bool,
        values: |runner, rows| {
            let values = draw(runner, rows, any::<bool>());
            let texts = shown(&values, bool::to_string);
            (array(BooleanArray::from(values)), texts)
        },
    },
    Sample {
        declared: "int2",
        shown: "v::text",
        ty: ColumnType::Int16,
        values: |runner, rows| {
            let values = draw(runner, rows, any::<i16>());
            let texts = shown(&values, i16::to_string);
            (array(Int16Array::from(values)), texts)
        },
    },
    Sample {
        declared: "int4",
        shown: "v::text",
        ty: ColumnType::Int32,
        values: |runner, rows| {
            let values = draw(runner, rows, any::<i32>());
            let texts = shown(&values, i32::to_string);
            (array(Int32Array::from(values)), texts)
        },
    },
    Sample {
        declared: "int8",
        shown: "v::text",
        ty: ColumnType::Int64,
        values: |runner, rows| {
            let values = draw(runner, rows, any::<i64>());
            let texts = shown(&values, i64::to_string);
            (array(Int64Array::from(values)), texts)
        },
    },
    Sample {
        declared: "float4",
        shown: "encode(float4send(v), 'hex')",
        ty: ColumnType::Float32,
        values: |runner, rows| {
            let values = draw(runner, rows, prop::num::f32::ANY);
            let texts = shown(&values, |v| hexadecimal(&v.to_be_bytes()));
            (array(Float32Array::from(values)), texts)
        },
    },
    Sample {
        declared: "float8",
        shown: "encode(float8send(v), 'hex')",
        ty: ColumnType::Float64,
        values: |runner, rows| {
            let values = draw(runner, rows, prop::num::f64::ANY);
            let texts = shown(&values, |v| hexadecimal(&v.to_be_bytes()));
            (array(Float64Array::from(values)), texts)
        },
    },
    Sample {
        declared: "numeric(10,2)",
        shown: "v::text",
        ty: ColumnType::Decimal {
            precision: 10,
            scale: 2,
        },
        values: decimals::<10, 2>,
    },
    Sample {
        declared: "numeric(18,0)",
        shown: "v::text",
        ty: ColumnType::Decimal {
            precision: 18,
            scale: 0,
        },
        values: decimals::<18, 0>,
    },
    Sample {
        declared: "numeric(38,17)",
        shown: "v::text",
        ty: ColumnType::Decimal {
            precision: 38,
            scale: 17,
        },
        values: decimals::<38, 17>,
    },
    Sample {
        declared: "numeric(38,37)",
        shown: "v::text",
        ty: ColumnType::Decimal {
            precision: 38,
            scale: 37,
        },
        values: decimals::<38, 37>,
    },
    Sample {
        declared: "numeric",
        shown: "v::text",
        ty: ColumnType::Numeric,
        values: |runner, rows| {
            let values = draw(runner, rows, "-?(0|[1-9][0-9]{0,60})\\.[0-9]{1,40}");
            // The server has no negative zero.
            let texts = shown(&values, |v| match v.strip_prefix('-') {
                Some(zero) if !zero.contains(|c: char| ('1'..='9').contains(&c)) => zero.to_owned(),
                _ => v.clone(),
            });
            (array(StringArray::from(values)), texts)
        },
    },
    Sample {
        declared: "text",
        shown: "v",
        ty: ColumnType::TEXT,
        values: |runner, rows| {
            let values = draw(runner, rows, "[^\\x00]{0,200}");
            (array(StringArray::from(values.clone())), values)
        },
    },
    Sample {
        declared: "bytea",
        shown: "encode(v, 'hex')",
        ty: ColumnType::Bytes,
        values: |runner, rows| {
            let values = draw(runner, rows, prop::collection::vec(any::<u8>(), 0..200));
            // The server breaks long lines in base64 only.
            let texts = shown(&values, |v| hexadecimal(v));
            (array(BinaryArray::from_iter(values)), texts)
        },
    },
    Sample {
        declared: "date",
        shown: "(v - '1970-01-01'::date)::text",
        ty: ColumnType::Date,
        values: |runner, rows| {
            let values = draw(runner, rows, -2_440_588i32..=2_145_042_905);
            let texts = shown(&values, i32::to_string);
            (array(Date32Array::from(values)), texts)
        },
    },
    Sample {
        declared: "time",
        shown: "((extract(epoch FROM v) * 1000000)::int8)::text",
        ty: ColumnType::Time,
        values: |runner, rows| {
            let values = draw(runner, rows, 0i64..=86_400_000_000);
            let texts = shown(&values, i64::to_string);
            (array(Time64MicrosecondArray::from(values)), texts)
        },
    },
    Sample {
        declared: "timestamp",
        shown: "((extract(epoch FROM v) * 1000000)::int8)::text",
        ty: ColumnType::Timestamp,
        values: |runner, rows| {
            // 4714 BC to 294276 AD.
            let values = draw(
                runner,
                rows,
                -210_866_803_200_000_000i64..9_223_371_331_200_000_000,
            );
            let texts = shown(&values, i64::to_string);
            (array(TimestampMicrosecondArray::from(values)), texts)
        },
    },
    Sample {
        declared: "timestamptz",
        shown: "((extract(epoch FROM v) * 1000000)::int8)::text",
        ty: ColumnType::TimestampTz,
        values: |runner, rows| {
            let values = draw(
                runner,
                rows,
                -210_866_803_200_000_000i64..9_223_371_331_200_000_000,
            );
            let texts = shown(&values, i64::to_string);
            (
                array(TimestampMicrosecondArray::from(values).with_timezone("UTC")),
                texts,
            )
        },
    },
    Sample {
        declared: "uuid",
        shown: "replace(v::text, '-', '')",
        ty: ColumnType::Uuid,
        values: |runner, rows| {
            let values = draw(runner, rows, any::<[u8; 16]>());
            let texts = shown(&values, |v| hexadecimal(v));
            let uuids = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.into_iter(), 16).unwrap();
            (array(uuids), texts)
        },
    },
];

async fn any_value_comes_back_from_the_server(server: Server) {
    let place = TestDatabase::on(server).await;
    let mut runner = TestRunner::new(Config::default());
    // All types side by side, so that fields of every size follow each other; several chunks of a COPY.
    let declared: Vec<_> = SAMPLES
        .iter()
        .enumerate()
        .map(|(i, s)| format!("c{i} {}", s.declared))
        .collect();
    let names: Vec<_> = (0..SAMPLES.len()).map(|index| format!("c{index}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for (method, rows) in [
        (Method::Native, 3_000),
        (Method::Array, 1_000),
        (Method::Native, 1),
    ] {
        place
            .run(&format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (o serial, {})",
                declared.join(", ")
            ))
            .await;
        let plan = place.plan("t", &names, Operation::Insert, method).await;
        let mut columns = Vec::new();
        let mut expected = Vec::new();
        for (sample, column) in SAMPLES.iter().zip(&plan.columns) {
            assert_eq!(sample.ty, column.ty, "{}", sample.declared);
            let (array, texts) = (sample.values)(&mut runner, rows);
            columns.push((sample.ty, array));
            expected.push(texts);
        }
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let outcome = writer.write(&batch(&columns), Guard::None).await.unwrap();
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        writer.commit(&[]).await.unwrap();
        for ((sample, name), expected) in SAMPLES.iter().zip(&names).zip(expected) {
            let shown = sample.shown.replace('v', name);
            let found = place.texts(&format!("SELECT {shown} FROM t ORDER BY o")).await;
            for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(found, expected, "{} by {method}, row {row}", sample.declared);
            }
            assert_eq!(found.len(), rows);
        }
    }
}
