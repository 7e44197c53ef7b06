mod nested;
mod numbers;
mod plans;
mod times;

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

fn column() -> Column {
    Column {
        name: "price".to_owned(),
        ty: None,
        declared: String::new(),
        nullable: true,
        has_default: false,
        generated: false,
        numbered: None,
        equality: Equality::ServerOnly,
    }
}

fn source(arrow: &DataType) -> SourceColumn {
    SourceColumn {
        beyond_arrow: BeyondArrow::Refused,
        name: "price".to_owned(),
        arrow: arrow.clone(),
        suggested: suggested(&Field::new("price", arrow.clone(), true)),
        nullable: true,
        null_word: None,
    }
}

fn context(zone: Option<&str>) -> ParseContext {
    ParseContext {
        timezone: zone.map(|name| timezone(name).expect("the zone is known")),
        bytes_as_written: false,
        ..ParseContext::default()
    }
}

fn plan(arrow: &DataType, ty: ColumnType, zone: Option<&str>) -> Result<Conversion> {
    Conversion::plan(&source(arrow), &column(), ty, &context(zone))
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

#[test]
fn the_same_type_is_not_copied() {
    let array: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let decimals: ArrayRef = Arc::new(
        Decimal128Array::from(vec![1, 2])
            .with_precision_and_scale(5, 2)
            .expect("a precision there is"),
    );
    let instants: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1, 2]).with_timezone("+01:00"));
    let times: ArrayRef = Arc::new(Time64MicrosecondArray::from(vec![1, 2]));
    for (array, ty) in [
        (&array, ColumnType::Int32),
        (&text, ColumnType::TEXT),
        (&text, VARCHAR),
        (&decimals, DECIMAL),
        (&instants, ColumnType::TimestampTz),
        (&times, ColumnType::Time),
    ] {
        let conversion = plan(array.data_type(), ty, None).expect("the same");
        let same = conversion
            .apply(array, &mut Problems::default())
            .expect("the same");
        let buffer = |array: &ArrayRef| array.to_data().buffers()[0].as_ptr();
        assert_eq!(buffer(&same), buffer(array), "{ty}");
    }
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
    // Text of a typed source is its own bytes; one that may be meant as others is refused.
    let texts = || vec![Some("hi"), None, Some("a\\b"), Some("\\x41")];
    let wanted = [
        "6869",
        "null",
        "615c62",
        "22000: '\\x41' is text, which may say bytes in hexadecimal or be them",
    ];
    check(StringArray::from(texts()), ColumnType::Bytes, &wanted);
    check(LargeStringArray::from(texts()), ColumnType::Bytes, &wanted);
    check(StringViewArray::from(texts()), ColumnType::Bytes, &wanted);
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
    let text = Conversion::plan(&known, &column(), ColumnType::TEXT, &context(None))
        .and_then(|conversion| conversion.apply(&uuids, &mut Problems::default()))
        .expect("uuids have a text");
    assert_eq!(
        text.as_string::<i32>().value(0),
        "30313233-3435-3637-3839-616263646566"
    );
    assert!(text.is_null(1));
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
