use std::collections::HashMap;

use arrow::{
    array::{
        BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Date64Array, Decimal128Array,
        Decimal256Array, DictionaryArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array,
        Int16Array, Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, NullArray, PrimitiveArray,
        RunArray, StringArray, StringViewArray, Time32MillisecondArray, Time32SecondArray,
        Time64MicrosecondArray, Time64NanosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray, TimestampSecondArray, UInt32Array, UInt64Array,
    },
    datatypes::{Decimal32Type, Decimal64Type, Fields, Int32Type, IntervalUnit, i256},
    util::display::{ArrayFormatter, FormatOptions},
};
use proptest::prelude::*;

use super::*;
use crate::{parse::timezone, table::Equality};

const DECIMAL: ColumnType = ColumnType::Decimal {
    precision: 5,
    scale: 2,
};
const VARCHAR: ColumnType = ColumnType::Text { chars_max: Some(5) };

const TYPES: &[ColumnType] = &[
    ColumnType::Bool,
    ColumnType::Int16,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::Float32,
    ColumnType::Float64,
    DECIMAL,
    ColumnType::Numeric,
    ColumnType::TEXT,
    VARCHAR,
    ColumnType::Char { chars: 5 },
    ColumnType::Bytes,
    ColumnType::Date,
    ColumnType::Time,
    ColumnType::Timestamp,
    ColumnType::TimestampTz,
    ColumnType::Uuid,
    ColumnType::Json,
];

fn sources() -> Vec<DataType> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let mut sources = vec![
        DataType::Null,
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal32(5, 2),
        DataType::Decimal64(12, 3),
        DataType::Decimal128(20, 4),
        DataType::Decimal128(5, -2),
        DataType::Decimal256(60, 10),
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        DataType::FixedSizeBinary(3),
        DataType::FixedSizeBinary(16),
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(Second),
        DataType::Time32(Millisecond),
        DataType::Time64(Microsecond),
        DataType::Time64(Nanosecond),
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
        DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Int16)),
        DataType::RunEndEncoded(
            Arc::new(Field::new("run_ends", DataType::Int32, false)),
            Arc::new(Field::new("values", DataType::Float64, true)),
        ),
        DataType::Duration(Second),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::List(Arc::new(Field::new("item", DataType::Int32, true))),
        DataType::Struct(Fields::from(vec![Field::new("a", DataType::Int32, true)])),
    ];
    for unit in [Second, Millisecond, Microsecond, Nanosecond] {
        sources.push(DataType::Timestamp(unit, None));
        sources.push(DataType::Timestamp(unit, Some("+02:00".into())));
    }
    sources
}

fn column() -> Column {
    Column {
        name: "price".to_owned(),
        ty: None,
        declared: String::new(),
        nullable: true,
        has_default: false,
        generated: false,
        equality: Equality::ServerOnly,
    }
}

fn source(arrow: &DataType) -> SourceColumn {
    SourceColumn {
        name: "price".to_owned(),
        arrow: arrow.clone(),
        suggested: suggested(&Field::new("price", arrow.clone(), true)),
        nullable: true,
    }
}

fn context(zone: Option<&str>) -> ParseContext {
    ParseContext {
        timezone: zone.map(|name| timezone(name).expect("the zone is known")),
    }
}

fn plan(arrow: &DataType, ty: ColumnType, zone: Option<&str>) -> Result<Conversion> {
    Conversion::plan(&source(arrow), false, &column(), ty, &context(zone))
}

/// Each value as Arrow shows it, `null`, or `code: message`.
fn convert_in(array: ArrayRef, ty: ColumnType, zone: Option<&str>) -> Vec<String> {
    let mut problems = Problems::default();
    let conversion = plan(array.data_type(), ty, zone).expect("it can be carried");
    let converted = conversion.apply(&array, &mut problems).expect("it applies");
    assert_eq!(converted.data_type(), &ty.arrow());
    assert_eq!(converted.len(), array.len());
    let options = FormatOptions::default().with_null("null");
    let formatter = ArrayFormatter::try_new(&converted, &options).expect("every type here can be shown");
    let mut shown: Vec<String> = (0..array.len())
        .map(|row| formatter.value(row).to_string())
        .collect();
    for (row, problem) in problems.iter() {
        assert!(converted.is_null(row), "a bad value is null");
        assert_eq!(problem.column.as_deref(), Some("price"));
        shown[row] = format!("{}: {}", problem.code, problem.message);
    }
    shown
}

#[track_caller]
fn check(array: impl Array + 'static, ty: ColumnType, expected: &[&str]) {
    let array: ArrayRef = Arc::new(array);
    assert_eq!(convert_in(array.clone(), ty, None), expected);
    // A slice in the middle of a larger array says the same.
    let nulls = new_null_array(array.data_type(), 2);
    let Ok(padded) = arrow::compute::concat(&[&nulls, &array, &nulls]) else {
        return;
    };
    if padded.data_type() == array.data_type() {
        assert_eq!(convert_in(padded.slice(2, array.len()), ty, None), expected);
    }
}

#[track_caller]
fn check_refused(arrow: DataType, ty: ColumnType, message: &str, hint: &str) {
    let error = plan(&arrow, ty, None).expect_err("it is refused");
    assert_eq!(error.kind(), crate::ErrorKind::Schema);
    assert_eq!(error.to_string(), message);
    assert_eq!(error.hint_text(), Some(hint));
}

#[test]
fn every_pair_is_refused_or_carried() {
    for arrow in sources() {
        for ty in TYPES {
            for zone in [None, Some("Europe/Berlin")] {
                let Ok(conversion) = plan(&arrow, *ty, zone) else {
                    continue;
                };
                for rows in [0, 3] {
                    let array = new_null_array(&arrow, rows);
                    let mut problems = Problems::default();
                    let converted = conversion
                        .apply(&array, &mut problems)
                        .unwrap_or_else(|error| panic!("{arrow} into {ty}: {error}"));
                    assert!(problems.is_empty());
                    assert_eq!(converted.data_type(), &ty.arrow(), "{arrow} into {ty}");
                    assert_eq!(converted.null_count(), rows, "{arrow} into {ty}");
                }
            }
        }
    }
}

#[test]
fn the_suggested_type_takes_it() {
    for arrow in sources() {
        if let Some(ty) = suggested(&Field::new("c", arrow.clone(), true)) {
            plan(&arrow, ty, None).unwrap_or_else(|error| panic!("{arrow}: {error}"));
        }
    }
}

#[test]
fn suggestions() {
    let with_extension = |arrow: DataType, name: &str| {
        let metadata = HashMap::from([("ARROW:extension:name".to_owned(), name.to_owned())]);
        suggested(&Field::new("c", arrow, true).with_metadata(metadata))
    };
    assert_eq!(
        with_extension(DataType::FixedSizeBinary(16), "arrow.uuid"),
        Some(ColumnType::Uuid)
    );
    assert_eq!(
        with_extension(DataType::Utf8, "arrow.json"),
        Some(ColumnType::Json)
    );
    let plain = |arrow: DataType| suggested(&Field::new("c", arrow, true));
    assert_eq!(plain(DataType::FixedSizeBinary(16)), Some(ColumnType::Bytes));
    assert_eq!(plain(DataType::UInt64), Some(ColumnType::Numeric));
    assert_eq!(plain(DataType::Decimal256(60, 10)), Some(ColumnType::Numeric));
    assert_eq!(
        plain(DataType::Decimal128(5, -2)),
        Some(ColumnType::Decimal {
            precision: 7,
            scale: 0
        })
    );
    assert_eq!(
        plain(DataType::Decimal64(12, 3)),
        Some(ColumnType::Decimal {
            precision: 12,
            scale: 3
        })
    );
    assert_eq!(plain(DataType::Duration(TimeUnit::Second)), None);
    assert_eq!(
        plain(DataType::Dictionary(
            Box::new(DataType::Int8),
            Box::new(DataType::Date32)
        )),
        Some(ColumnType::Date)
    );
}

#[test]
fn refusals_name_column_and_both_types() {
    check_refused(
        DataType::Float64,
        ColumnType::Int32,
        "column 'price': float64 cannot be carried exactly into int32",
        "round the values to integers in the source, or load them into a column of type float64",
    );
    check_refused(
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        ColumnType::Timestamp,
        "column 'price': timestamptz in milliseconds cannot be carried exactly into timestamp",
        "convert the times to ones without a zone in the source, or load them into a column of type timestamptz",
    );
    check_refused(
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        ColumnType::TimestampTz,
        "column 'price': timestamp in nanoseconds has no time zone and cannot be carried exactly into timestamptz",
        "name the zone of the source's times: --timezone ZONE",
    );
    check_refused(
        DataType::List(Arc::new(Field::new("item", DataType::Int32, true))),
        ColumnType::TEXT,
        "column 'price': a list cannot be carried yet, into text or any other type",
        "leave the column out with --columns, or write it as text or JSON text in the source",
    );
    check_refused(
        DataType::Binary,
        ColumnType::TEXT,
        "column 'price': bytes cannot be carried exactly into text",
        "decode the bytes to text in the source, or load them into a column of type bytes",
    );
    check_refused(
        DataType::Boolean,
        ColumnType::Int32,
        "column 'price': bool cannot be carried exactly into int32",
        "convert the values in the source, or load them into a column of type bool",
    );
    let mut other = source(&DataType::Float64);
    other.name = "cost".to_owned();
    let error =
        Conversion::plan(&other, false, &column(), ColumnType::Date, &context(None)).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "column 'price' (in the source 'cost'): float64 cannot be carried exactly into date"
    );
}

#[test]
fn the_same_type_is_not_copied() {
    let array: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    for (array, ty) in [
        (&array, ColumnType::Int32),
        (&text, ColumnType::TEXT),
        (&text, VARCHAR),
    ] {
        if array.data_type() == &DataType::Utf8 {
            let conversion = plan(array.data_type(), ty, None).expect("the same");
            let same = conversion
                .apply(array, &mut Problems::default())
                .expect("the same");
            assert_eq!(
                same.as_string::<i32>().values().as_ptr(),
                array.as_string::<i32>().values().as_ptr()
            );
        }
    }
    // A text source has read the type already: nothing is checked twice.
    let read = Conversion::plan(
        &source(&DataType::Utf8),
        true,
        &column(),
        ColumnType::Int32,
        &context(None),
    )
    .expect("text");
    let same = read.apply(&array, &mut Problems::default()).expect("the same");
    assert!(Arc::ptr_eq(&same, &array));
}

#[test]
fn another_type_than_planned_is_a_defect() {
    let conversion = plan(&DataType::Int32, ColumnType::Int32, None).expect("the same");
    let array: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let error = conversion
        .apply(&array, &mut Problems::default())
        .expect_err("not as planned");
    assert_eq!(error.kind(), crate::ErrorKind::Bug);
}

#[test]
fn integers() {
    check(
        Int64Array::from(vec![Some(-32768), None, Some(32768)]),
        ColumnType::Int16,
        &["-32768", "null", "22003: '32768' is out of range for int16"],
    );
    check(
        UInt32Array::from(vec![u32::MAX, 7]),
        ColumnType::Int32,
        &["22003: '4294967295' is out of range for int32", "7"],
    );
    check(
        UInt32Array::from(vec![u32::MAX]),
        ColumnType::Int64,
        &["4294967295"],
    );
    check(Int8Array::from(vec![-128]), ColumnType::Int64, &["-128"]);
    check(Int16Array::from(vec![-3]), ColumnType::Int16, &["-3"]);
    check(
        UInt64Array::from(vec![u64::MAX, 9_223_372_036_854_775_807]),
        ColumnType::Int64,
        &[
            "22003: '18446744073709551615' is out of range for int64",
            "9223372036854775807",
        ],
    );
    check(
        UInt64Array::from(vec![u64::MAX]),
        ColumnType::Numeric,
        &["18446744073709551615"],
    );
    check(
        Int64Array::from(vec![1 << 53, (1 << 53) + 1, i64::MAX, i64::MIN]),
        ColumnType::Float64,
        &[
            "9007199254740992.0",
            "22000: 9007199254740993 would become 9007199254740992 as float64",
            "22000: 9223372036854775807 would become 9223372036854775808 as float64",
            "-9.223372036854776e18",
        ],
    );
    check(
        Int32Array::from(vec![1 << 24, (1 << 24) + 1]),
        ColumnType::Float32,
        &["16777216.0", "22000: 16777217 would become 16777216 as float32"],
    );
    check(
        Int64Array::from(vec![999, -1000]),
        DECIMAL,
        &["999.00", "22003: '-1000' is out of range for decimal(5,2)"],
    );
    check(
        Int64Array::from(vec![12345, -12345]),
        VARCHAR,
        &["12345", "22001: '-12345' has 6 characters, the column takes 5"],
    );
}

#[test]
fn floats() {
    check(
        Float64Array::from(vec![
            Some(0.5),
            Some(0.1),
            Some(1e300),
            Some(f64::NAN),
            Some(f64::INFINITY),
            None,
        ]),
        ColumnType::Float32,
        &[
            "0.5",
            "22000: 0.1 would become 0.10000000149011612 as float32",
            &format!("22003: '1{}...' is out of range for float32", "0".repeat(59)),
            "NaN",
            "inf",
            "null",
        ],
    );
    check(
        Float32Array::from(vec![0.1, f32::NEG_INFINITY]),
        ColumnType::Float64,
        &["0.10000000149011612", "-inf"],
    );
    check(
        Float64Array::from(vec![0.1, 999.99, -0.0, 12.345, 1000.0, f64::NAN, 1e-300]),
        DECIMAL,
        &[
            "0.10",
            "999.99",
            "0.00",
            "22000: 12.345 has 3 decimal places, the column keeps 2",
            "22003: '1000' is out of range for decimal(5,2)",
            "22P02: 'NaN' is not a decimal(5,2)",
            "22000: 1e-300 has 300 decimal places, the column keeps 2",
        ],
    );
    check(
        Float32Array::from(vec![0.1, 16777216.0]),
        ColumnType::Numeric,
        &["0.1", "16777216"],
    );
    check(
        Float64Array::from(vec![0.1, 3.0, 1e20, 1.5e-7, f64::NAN, f64::NEG_INFINITY]),
        ColumnType::Numeric,
        &[
            "0.1",
            "3",
            "100000000000000000000",
            "0.00000015",
            "NaN",
            "-Infinity",
        ],
    );
    check(
        Float64Array::from(vec![0.1, 3.0, 1e20, -0.0, f64::INFINITY]),
        ColumnType::TEXT,
        &["0.1", "3", "1e20", "-0", "Infinity"],
    );
}

#[test]
fn decimals() {
    let decimals = |units: Vec<i128>, precision, scale| {
        Decimal128Array::from(units)
            .with_precision_and_scale(precision, scale)
            .expect("a precision there is")
    };
    check(decimals(vec![12345, -1], 5, 2), DECIMAL, &["123.45", "-0.01"]);
    check(
        decimals(vec![1_234_500, 1_234_560, 12_345_600_000], 20, 4),
        DECIMAL,
        &[
            "123.45",
            "22000: 123.4560 has 3 decimal places, the column keeps 2",
            "22003: '1234560.0000' is out of range for decimal(5,2)",
        ],
    );
    check(decimals(vec![3, 0], 5, -2), DECIMAL, &["300.00", "0.00"]);
    check(decimals(vec![-3, 0], 5, -2), ColumnType::Numeric, &["-300", "0"]);
    check(
        decimals(vec![-1205, 5, 0], 5, 2),
        ColumnType::Numeric,
        &["-12.05", "0.05", "0.00"],
    );
    check(
        decimals(vec![1200, 1250, 3_276_800], 20, 2),
        ColumnType::Int16,
        &[
            "12",
            "22000: 12.50 has 1 decimal place, the column keeps 0",
            "22003: '32768.00' is out of range for int16",
        ],
    );
    // Wider than the type says: Arrow does not check it.
    check(
        decimals(vec![99_999, 100_000], 5, 2),
        DECIMAL,
        &["999.99", "22003: '1000.00' is out of range for decimal(5,2)"],
    );
    check(
        PrimitiveArray::<Decimal32Type>::from(vec![150])
            .with_precision_and_scale(5, 2)
            .expect("32 bits"),
        DECIMAL,
        &["1.50"],
    );
    check(
        PrimitiveArray::<Decimal64Type>::from(vec![1500])
            .with_precision_and_scale(12, 3)
            .expect("64 bits"),
        ColumnType::Numeric,
        &["1.500"],
    );
    let wide = || {
        Decimal256Array::from(vec![i256::from_i128(15_000), i256::MAX])
            .with_precision_and_scale(76, 4)
            .expect("256 bits")
    };
    check(
        wide(),
        DECIMAL,
        &[
            "1.50",
            "22003: '578960446186580977117854925043439539266349923328202820197287...' is out of range for \
             decimal(5,2)",
        ],
    );
    check(
        wide(),
        ColumnType::Numeric,
        &[
            "1.5000",
            "5789604461865809771178549250434395392663499233282028201972879200395656481.9967",
        ],
    );
    check(
        wide(),
        ColumnType::Int32,
        &[
            "22000: 1.5000 has 1 decimal place, the column keeps 0",
            "22003: '578960446186580977117854925043439539266349923328202820197287...' is out of range for int32",
        ],
    );
}

#[test]
fn text() {
    let values = || vec![Some("abc"), None, Some("abcdef"), Some("日本語語語"), Some("a\0")];
    let expected = [
        "abc",
        "null",
        "22001: 'abcdef' has 6 characters, the column takes 5",
        "日本語語語",
        "22021: contains a NUL byte",
    ];
    check(StringArray::from(values()), VARCHAR, &expected);
    check(LargeStringArray::from(values()), VARCHAR, &expected);
    check(StringViewArray::from(values()), VARCHAR, &expected);
    check(
        values().into_iter().collect::<DictionaryArray<Int32Type>>(),
        VARCHAR,
        &expected,
    );
    check(
        StringViewArray::from(vec![Some("1"), None, Some("NA")]),
        ColumnType::Int32,
        &["1", "null", "22P02: 'NA' is not an int32"],
    );
    check(
        StringArray::from(vec!["{}", "{"]),
        ColumnType::Json,
        &[
            "{}",
            "22P02: '{' is not JSON: EOF while parsing an object at line 1 column 1",
        ],
    );
    check(
        LargeStringArray::from(vec!["2023-06-01T12:00Z", "2023-06-01 12:00"]),
        ColumnType::TimestampTz,
        &[
            "2023-06-01T12:00:00Z",
            "22007: '2023-06-01 12:00' has no offset from UTC, and no time zone was given",
        ],
    );
    check(
        BooleanArray::from(vec![Some(true), Some(false), None]),
        ColumnType::TEXT,
        &["true", "false", "null"],
    );
    check(
        NullArray::new(2),
        ColumnType::Decimal {
            precision: 3,
            scale: 1,
        },
        &["null", "null"],
    );
}

#[test]
fn the_null_option_is_not_offered_for_typed_sources() {
    let mut problems = Problems::default();
    let array: ArrayRef = Arc::new(StringArray::from(vec!["NA"]));
    plan(array.data_type(), ColumnType::Int32, None)
        .and_then(|conversion| conversion.apply(&array, &mut problems))
        .expect("it applies");
    assert!(problems.iter().all(|(_, problem)| problem.hint.is_none()));
}

#[test]
fn bytes_and_uuids() {
    check(BinaryArray::from(vec![&b"hi"[..]]), ColumnType::Bytes, &["6869"]);
    check(
        LargeBinaryArray::from(vec![Some(&b"hi"[..]), None]),
        ColumnType::Bytes,
        &["6869", "null"],
    );
    check(
        BinaryViewArray::from(vec![&b"hi"[..], b""]),
        ColumnType::Bytes,
        &["6869", ""],
    );
    let sixteen = || {
        FixedSizeBinaryArray::try_from_sparse_iter_with_size(
            [Some(*b"0123456789abcdef"), None].into_iter(),
            16,
        )
        .expect("sixteen bytes")
    };
    let hex = "30313233343536373839616263646566";
    check(sixteen(), ColumnType::Bytes, &[hex, "null"]);
    check(sixteen(), ColumnType::Uuid, &[hex, "null"]);
    let uuids: ArrayRef = Arc::new(sixteen());
    let mut known = source(uuids.data_type());
    known.suggested = Some(ColumnType::Uuid);
    let text = Conversion::plan(&known, false, &column(), ColumnType::TEXT, &context(None))
        .and_then(|conversion| conversion.apply(&uuids, &mut Problems::default()))
        .expect("uuids have a text");
    assert_eq!(
        text.as_string::<i32>().value(0),
        "30313233-3435-3637-3839-616263646566"
    );
    assert!(text.is_null(1));
}

#[test]
fn dates() {
    check(
        Date32Array::from(vec![Some(0), None]),
        ColumnType::Date,
        &["1970-01-01", "null"],
    );
    check(
        Date32Array::from(vec![-1]),
        ColumnType::Timestamp,
        &["1969-12-31T00:00:00"],
    );
    check(Date32Array::from(vec![19_722]), ColumnType::TEXT, &["2023-12-31"]);
    check(
        Date64Array::from(vec![
            86_400_000,
            86_400_001,
            -86_400_000,
            i64::MAX / 86_400_000 * 86_400_000,
        ]),
        ColumnType::Date,
        &[
            "1970-01-02",
            "22000: '1970-01-02 00:00:00.001' is not a whole day",
            "1969-12-31",
            "22008: the time is out of range for date",
        ],
    );
    check(
        Date32Array::from(vec![i32::MAX]),
        ColumnType::Timestamp,
        &["22008: the time is out of range for timestamp"],
    );
}

#[test]
fn times() {
    check(
        Time32SecondArray::from(vec![Some(3661), None, Some(86_400)]),
        ColumnType::Time,
        &["01:01:01", "null", "22008: the time of day is not within a day"],
    );
    check(
        Time32MillisecondArray::from(vec![1]),
        ColumnType::Time,
        &["00:00:00.001"],
    );
    check(
        Time64MicrosecondArray::from(vec![86_399_999_999, -1]),
        ColumnType::Time,
        &["23:59:59.999999", "22008: the time of day is not within a day"],
    );
    check(
        Time64NanosecondArray::from(vec![1_000, 1_001]),
        ColumnType::Time,
        &[
            "00:00:00.000001",
            "22000: '00:00:00.000001001' is finer than a microsecond, the column is not",
        ],
    );
    check(
        Time64NanosecondArray::from(vec![1_001, 500_000_000]),
        ColumnType::TEXT,
        &["00:00:00.000001001", "00:00:00.5"],
    );
}

#[test]
fn timestamps() {
    check(
        TimestampSecondArray::from(vec![Some(1), None, Some(i64::MAX)]),
        ColumnType::Timestamp,
        &[
            "1970-01-01T00:00:01",
            "null",
            "22008: the time is out of range for timestamp",
        ],
    );
    check(
        TimestampMillisecondArray::from(vec![-1]),
        ColumnType::Timestamp,
        &["1969-12-31T23:59:59.999"],
    );
    check(
        TimestampMicrosecondArray::from(vec![1]),
        ColumnType::Timestamp,
        &["1970-01-01T00:00:00.000001"],
    );
    check(
        TimestampNanosecondArray::from(vec![-1_000, -1]),
        ColumnType::Timestamp,
        &[
            "1969-12-31T23:59:59.999999",
            "22000: '1969-12-31 23:59:59.999999999' is finer than a microsecond, the column is not",
        ],
    );
    check(
        TimestampNanosecondArray::from(vec![-1, 0, 1_500_000_000]),
        ColumnType::TEXT,
        &[
            "1969-12-31 23:59:59.999999999",
            "1970-01-01 00:00:00",
            "1970-01-01 00:00:01.5",
        ],
    );
    check(
        TimestampSecondArray::from(vec![i64::MAX]),
        ColumnType::TEXT,
        &["292277026596-12-04 15:30:07"],
    );
}

#[test]
fn instants() {
    check(
        TimestampMillisecondArray::from(vec![Some(1), None]).with_timezone("+05:00"),
        ColumnType::TimestampTz,
        &["1970-01-01T00:00:00.001Z", "null"],
    );
    check(
        TimestampMicrosecondArray::from(vec![1]).with_timezone("Europe/Berlin"),
        ColumnType::TimestampTz,
        &["1970-01-01T00:00:00.000001Z"],
    );
    check(
        TimestampNanosecondArray::from(vec![1]).with_timezone("UTC"),
        ColumnType::TimestampTz,
        &["22000: '1970-01-01 00:00:00.000000001' is finer than a microsecond, the column is not"],
    );
    check(
        TimestampSecondArray::from(vec![0]).with_timezone("-03:00"),
        ColumnType::TEXT,
        &["1970-01-01 00:00:00+00:00"],
    );
    // 2023-06-01 12:00, 2023-03-26 02:30 and 2023-10-29 02:30 on clocks without a zone.
    let clocks: ArrayRef = Arc::new(TimestampSecondArray::from(vec![
        1_685_620_800,
        1_679_797_800,
        1_698_546_600,
    ]));
    assert_eq!(
        convert_in(clocks, ColumnType::TimestampTz, Some("Europe/Berlin")),
        [
            "2023-06-01T10:00:00Z",
            "22008: '2023-03-26 02:30:00' does not exist in Europe/Berlin",
            "22007: '2023-10-29 02:30:00' happens twice in Europe/Berlin",
        ]
    );
    let far: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![i64::MAX]));
    assert_eq!(
        convert_in(far, ColumnType::TimestampTz, Some("Europe/Berlin")),
        ["22008: '294247-01-10 04:00:54.775807' is out of range in Europe/Berlin"]
    );
}

#[test]
fn packed_columns_are_unpacked() {
    let keys = Int32Array::from(vec![Some(1), None, Some(0), Some(2)]);
    let values = Int64Array::from(vec![Some(5), Some(70_000), None]);
    check(
        DictionaryArray::<Int32Type>::new(keys, Arc::new(values)),
        ColumnType::Int16,
        &["22003: '70000' is out of range for int16", "null", "5", "null"],
    );
    let runs = RunArray::<Int32Type>::try_new(
        &Int32Array::from(vec![2, 3]),
        &StringArray::from(vec![Some("1.50"), None]),
    )
    .expect("two runs");
    check(runs, ColumnType::Numeric, &["1.50", "1.50", "null"]);
}

proptest! {
    #[test]
    fn numbers_mean_the_same_afterwards(n in any::<i64>(), bits in any::<u64>()) {
        let ints: ArrayRef = Arc::new(Int64Array::from(vec![n]));
        let digits = n.to_string();
        prop_assert_eq!(&convert_in(ints.clone(), ColumnType::Numeric, None)[0], &digits);
        let ty = ColumnType::Decimal { precision: 38, scale: 19 };
        let expected = format!("{digits}.{}", "0".repeat(19));
        prop_assert_eq!(&convert_in(ints.clone(), ty, None)[0], &expected);
        let float = convert_in(ints, ColumnType::Float64, None).remove(0);
        if let Ok(float) = float.parse::<f64>() {
            prop_assert_eq!(float as i128, i128::from(n));
        }

        let double = f64::from_bits(bits);
        let doubles: ArrayRef = Arc::new(Float64Array::from(vec![double]));
        for ty in [ColumnType::Numeric, ColumnType::TEXT] {
            let text = convert_in(doubles.clone(), ty, None).remove(0);
            let back = text.parse::<f64>().expect("a float's text");
            prop_assert!(back == double || (back.is_nan() && double.is_nan()), "{} {}", text, double);
        }
    }

    #[test]
    fn rescaling_is_exact_or_refused(units in any::<i128>(), from in -10i8..=38, to in 0u8..=38) {
        let units = units % crate::parse::POWERS_OF_TEN[38];
        let array = Decimal128Array::from(vec![units]).with_precision_and_scale(38, from).expect("38 digits");
        let array: ArrayRef = Arc::new(array);
        let exact = convert_in(array.clone(), ColumnType::Numeric, None).remove(0);
        let moved = convert_in(array, ColumnType::Decimal { precision: 38, scale: to }, None).remove(0);
        let bare = |text: &str| match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        };
        if !moved.contains(": ") {
            prop_assert_eq!(bare(&moved), bare(&exact));
        }
    }
}
