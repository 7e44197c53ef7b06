use arrow::{
    array::{Array, AsArray},
    util::display::{ArrayFormatter, FormatOptions},
};
use proptest::prelude::*;

use super::*;

const DECIMAL: ColumnType = ColumnType::Decimal {
    precision: 5,
    scale: 2,
};
const VARCHAR: ColumnType = ColumnType::Text { chars_max: Some(3) };
const CHAR: ColumnType = ColumnType::Char { chars: 3 };

fn context(zone: Option<&str>) -> ParseContext {
    ParseContext {
        timezone: zone.map(|name| timezone(name).expect("the zone is known")),
    }
}

/// The value as Arrow shows it, or code and message of what is wrong with it.
fn read(ty: ColumnType, text: &[u8], zone: Option<&str>) -> Result<String, (String, String)> {
    let mut problems = Problems::default();
    // A null and a good neighbour on either side, so that a bad value is seen to cost only itself.
    let values = [None, Some(text), None];
    let array = parse_column(&ty, "c", values.into_iter(), &context(zone), &mut problems);
    assert_eq!(array.data_type(), &ty.arrow());
    assert_eq!(array.len(), 3);
    assert!(array.is_null(0) && array.is_null(2));
    if let Some((row, problem)) = problems.iter().next() {
        assert_eq!(row, 1);
        assert!(array.is_null(1), "a bad value is null");
        assert_eq!(problem.column.as_deref(), Some("c"));
        return Err((problem.code.clone(), problem.message.clone()));
    }
    assert!(array.is_valid(1));
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(&array, &options).expect("every type here can be shown");
    Ok(formatter.value(1).to_string())
}

#[track_caller]
fn check_good(ty: ColumnType, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(
            read(ty, text.as_bytes(), None).as_deref(),
            Ok(*expected),
            "{text:?} as {ty}"
        );
    }
}

#[track_caller]
fn check_bad(ty: ColumnType, cases: &[(&str, &str, &str)]) {
    for (text, code, message) in cases {
        assert_eq!(
            read(ty, text.as_bytes(), None),
            Err((code.to_string(), message.to_string())),
            "{text:?} as {ty}"
        );
    }
}

#[test]
fn integers() {
    check_good(
        ColumnType::Int16,
        &[
            ("-32768", "-32768"),
            ("32767", "32767"),
            (" +7 ", "7"),
            ("007", "7"),
            ("-0", "0"),
        ],
    );
    check_good(
        ColumnType::Int32,
        &[("-2147483648", "-2147483648"), ("2147483647", "2147483647")],
    );
    check_good(
        ColumnType::Int64,
        &[
            ("-9223372036854775808", "-9223372036854775808"),
            ("9223372036854775807", "9223372036854775807"),
            ("0000000000000000000000000000000012", "12"),
            ("-00000000000000009223372036854775808", "-9223372036854775808"),
        ],
    );
    check_bad(
        ColumnType::Int16,
        &[
            ("32768", "22003", "'32768' is out of range for int16"),
            ("-32769", "22003", "'-32769' is out of range for int16"),
        ],
    );
    check_bad(
        ColumnType::Int64,
        &[
            (
                "9223372036854775808",
                "22003",
                "'9223372036854775808' is out of range for int64",
            ),
            (
                "-9223372036854775809",
                "22003",
                "'-9223372036854775809' is out of range for int64",
            ),
            (
                "18446744073709551616",
                "22003",
                "'18446744073709551616' is out of range for int64",
            ),
            (
                "100000000000000000000000",
                "22003",
                "'100000000000000000000000' is out of range for int64",
            ),
        ],
    );
    for text in [
        "",
        " ",
        "abc",
        "+",
        "-",
        "--1",
        "+-1",
        "1.0",
        "1e3",
        "1_000",
        "1,000",
        "0x10",
        "1 2",
        "1\0",
        "\u{661}",
        "00000000000000000000000x",
    ] {
        for ty in [ColumnType::Int16, ColumnType::Int32, ColumnType::Int64] {
            let (code, message) = read(ty, text.as_bytes(), None).expect_err(text);
            assert_eq!(code, "22P02", "{text:?}: {message}");
        }
    }
    check_bad(ColumnType::Int32, &[("abc", "22P02", "'abc' is not an int32")]);
}

#[test]
fn floats() {
    check_good(
        ColumnType::Float64,
        &[
            ("1", "1.0"),
            (" -1.5e300 ", "-1.5e300"),
            (".5", "0.5"),
            ("5.", "5.0"),
            ("+1E2", "100.0"),
            ("0e999", "0.0"),
            ("0.000", "0.0"),
            ("5e-324", "5e-324"),
            ("inf", "inf"),
            ("-Infinity", "-inf"),
            ("+INF", "inf"),
            ("NaN", "NaN"),
        ],
    );
    check_bad(
        ColumnType::Float64,
        &[
            ("1e309", "22003", "'1e309' is out of range for float64"),
            ("-1e309", "22003", "'-1e309' is out of range for float64"),
            ("1e-400", "22003", "'1e-400' is out of range for float64"),
            ("", "22P02", "'' is not a float64"),
            ("1,5", "22P02", "'1,5' is not a float64"),
            ("1 e5", "22P02", "'1 e5' is not a float64"),
            ("infinit", "22P02", "'infinit' is not a float64"),
            ("-nan", "22P02", "'-nan' is not a float64"),
            ("0x1p3", "22P02", "'0x1p3' is not a float64"),
            (".", "22P02", "'.' is not a float64"),
            ("e5", "22P02", "'e5' is not a float64"),
        ],
    );
    check_good(
        ColumnType::Float32,
        &[("3.4028235e38", "3.4028235e38"), ("1e-45", "1e-45")],
    );
    check_bad(
        ColumnType::Float32,
        &[
            ("1e39", "22003", "'1e39' is out of range for float32"),
            ("1e-50", "22003", "'1e-50' is out of range for float32"),
        ],
    );
}

#[test]
fn truth_values() {
    for text in ["t", "TRUE", "y", "Yes", "on", "1", " true "] {
        check_good(ColumnType::Bool, &[(text, "true")]);
    }
    for text in ["f", "False", "N", "no", "OFF", "0"] {
        check_good(ColumnType::Bool, &[(text, "false")]);
    }
    check_bad(
        ColumnType::Bool,
        &[
            ("", "22P02", "'' is not a bool"),
            ("2", "22P02", "'2' is not a bool"),
            ("01", "22P02", "'01' is not a bool"),
            ("tru", "22P02", "'tru' is not a bool"),
        ],
    );
}

#[test]
fn decimals() {
    check_good(
        DECIMAL,
        &[
            ("0", "0.00"),
            ("-0", "0.00"),
            ("123.45", "123.45"),
            ("-999.99", "-999.99"),
            (" +1.5 ", "1.50"),
            (".5", "0.50"),
            ("5.", "5.00"),
            ("1.50000000000000000000000000000000000000000000", "1.50"),
            ("000000000000000000000000000000000000000000001", "1.00"),
            ("1e2", "100.00"),
            ("12345e-2", "123.45"),
            ("0.0012E5", "120.00"),
            ("0e999999999999999999999", "0.00"),
        ],
    );
    check_bad(
        DECIMAL,
        &[
            ("1000", "22003", "'1000' is out of range for decimal(5,2)"),
            (
                "-1000.001",
                "22003",
                "'-1000.001' is out of range for decimal(5,2)",
            ),
            (
                "1e999999999999999999999",
                "22003",
                "'1e999999999999999999999' is out of range for decimal(5,2)",
            ),
            (
                "12.345",
                "22000",
                "12.345 has 3 decimal places, the column keeps 2",
            ),
            (
                "12.3450",
                "22000",
                "12.3450 has 3 decimal places, the column keeps 2",
            ),
            ("1e-3", "22000", "1e-3 has 3 decimal places, the column keeps 2"),
            ("", "22P02", "'' is not a decimal(5,2)"),
            (".", "22P02", "'.' is not a decimal(5,2)"),
            ("-", "22P02", "'-' is not a decimal(5,2)"),
            ("1.2.3", "22P02", "'1.2.3' is not a decimal(5,2)"),
            ("1e", "22P02", "'1e' is not a decimal(5,2)"),
            ("1e1.5", "22P02", "'1e1.5' is not a decimal(5,2)"),
            ("NaN", "22P02", "'NaN' is not a decimal(5,2)"),
            ("1,5", "22P02", "'1,5' is not a decimal(5,2)"),
        ],
    );
    let widest = ColumnType::Decimal {
        precision: 38,
        scale: 0,
    };
    let nines = "9".repeat(38);
    check_good(
        widest,
        &[(&nines, &nines), ("1e37", &format!("1{}", "0".repeat(37)))],
    );
    assert_eq!(read(widest, b"1e38", None).expect_err("39 digits").0, "22003");
    let finest = ColumnType::Decimal {
        precision: 38,
        scale: 38,
    };
    let text = format!("0.{nines}");
    check_good(
        finest,
        &[(&text, &text), ("1e-38", &format!("0.{}1", "0".repeat(37)))],
    );
    assert_eq!(
        read(finest, b"1", None).expect_err("no digit before the point").0,
        "22003"
    );
}

#[test]
fn numerics() {
    check_good(
        ColumnType::Numeric,
        &[
            ("12.50", "12.50"),
            (" 12.50 ", "12.50"),
            ("-12.50", "-12.50"),
            ("+1", "1"),
            ("007.10", "7.10"),
            ("-0.00", "0.00"),
            ("0", "0"),
            ("00", "0"),
            (".5", "0.5"),
            ("-.5", "-0.5"),
            ("5.", "5"),
            ("1.50e3", "1500"),
            ("1.5e-3", "0.0015"),
            ("1.2345E2", "123.45"),
            ("123.45e-2", "1.2345"),
            ("0.001e3", "1"),
            ("0.0012e3", "1.2"),
            ("0e5000", "0"),
            ("nan", "NaN"),
            ("inf", "Infinity"),
            ("+Infinity", "Infinity"),
            ("-INF", "-Infinity"),
            (
                "12345678901234567890123456789012345678901234567890.1",
                "12345678901234567890123456789012345678901234567890.1",
            ),
        ],
    );
    check_bad(
        ColumnType::Numeric,
        &[
            ("1e5000", "22003", "1e5000 has an exponent beyond 1000"),
            ("1e-5000", "22003", "1e-5000 has an exponent beyond 1000"),
            ("", "22P02", "'' is not a numeric"),
            ("1..2", "22P02", "'1..2' is not a numeric"),
            ("-nan", "22P02", "'-nan' is not a numeric"),
            ("$5", "22P02", "'$5' is not a numeric"),
        ],
    );
    let long = read(ColumnType::Numeric, b"1e1000", None).expect("within the bound");
    assert_eq!(long.len(), 1001);
}

#[test]
fn text() {
    check_good(ColumnType::TEXT, &[("", ""), (" a ", " a "), ("日本", "日本")]);
    check_good(
        VARCHAR,
        &[("", ""), ("abc", "abc"), ("日本語", "日本語"), ("a  ", "a  ")],
    );
    check_good(CHAR, &[("abc   ", "abc   "), ("日本語 ", "日本語 ")]);
    check_bad(
        VARCHAR,
        &[
            ("abcd", "22001", "'abcd' has 4 characters, the column takes 3"),
            (
                "日本語!",
                "22001",
                "'日本語!' has 4 characters, the column takes 3",
            ),
            ("abc ", "22001", "'abc ' has 4 characters, the column takes 3"),
            ("a\0b", "22021", "contains a NUL byte"),
        ],
    );
    check_bad(
        CHAR,
        &[("abcd ", "22001", "'abcd ' has 4 characters, the column takes 3")],
    );
    for ty in [ColumnType::TEXT, VARCHAR, CHAR, ColumnType::Json] {
        let (code, message) = read(ty, b"ab\xff", None).expect_err("not UTF-8");
        assert_eq!(
            (code.as_str(), message.as_str()),
            ("22021", "'ab\\xff' is not UTF-8: byte 0xff at 3")
        );
        let (code, _) = read(ty, b"a\0", None).expect_err("NUL");
        assert_eq!(code, "22021");
    }
}

#[test]
fn a_character_split_over_two_values_is_not_text() {
    let mut problems = Problems::default();
    let values: [Option<&[u8]>; 4] = [Some(b"a\xc3"), Some(b"\xa4b"), None, Some("ä".as_bytes())];
    let array = parse_column(
        &ColumnType::TEXT,
        "c",
        values.into_iter(),
        &context(None),
        &mut problems,
    );
    assert_eq!(problems.iter().map(|(row, _)| row).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(
        array.as_string::<i32>().iter().collect::<Vec<_>>(),
        [None, None, None, Some("ä")]
    );
}

#[test]
fn json() {
    check_good(
        ColumnType::Json,
        &[
            ("{\"a\": [1, 2.50]}", "{\"a\": [1, 2.50]}"),
            (" null ", " null "),
            ("\"x\"", "\"x\""),
        ],
    );
    check_bad(
        ColumnType::Json,
        &[
            (
                "",
                "22P02",
                "'' is not JSON: EOF while parsing a value at line 1 column 0",
            ),
            (
                "{'a':1}",
                "22P02",
                "'{'a':1}' is not JSON: key must be a string at line 1 column 2",
            ),
            (
                "1 2",
                "22P02",
                "'1 2' is not JSON: trailing characters at line 1 column 3",
            ),
        ],
    );
    assert!(read(ColumnType::Json, "[".repeat(100_000).as_bytes(), None).is_err());
}

#[test]
fn bytes_and_uuids() {
    check_good(
        ColumnType::Bytes,
        &[
            ("\\x6869", "6869"),
            ("\\x", ""),
            ("\\xfF00", "ff00"),
            ("hi", "6869"),
            ("", ""),
            ("\\\\x", "5c5c78"),
        ],
    );
    check_bad(
        ColumnType::Bytes,
        &[
            ("\\x6", "22P02", "'\\x6' is not bytes in hexadecimal"),
            ("\\x6g", "22P02", "'\\x6g' is not bytes in hexadecimal"),
        ],
    );
    let uuid = "0123456789abcdef0123456789abcdef";
    check_good(
        ColumnType::Uuid,
        &[
            (uuid, uuid),
            ("01234567-89ab-cdef-0123-456789ABCDEF", uuid),
            ("{01234567-89ab-cdef-0123-456789abcdef}", uuid),
            ("{0123456789abcdef0123456789abcdef}", uuid),
        ],
    );
    for text in [
        "",
        "x",
        "{}",
        "0123456789abcdef0123456789abcde",
        "0123456789abcdef0123456789abcdeg",
        "urn:uuid:01234567-89ab-cdef-0123-456789abcdef",
        "01234567-89ab-cdef-0123-456789abcdef}",
        "0123-456789ab-cdef-0123-456789abcdef",
    ] {
        assert_eq!(
            read(ColumnType::Uuid, text.as_bytes(), None).expect_err(text).0,
            "22P02"
        );
    }
}

#[test]
fn dates() {
    check_good(
        ColumnType::Date,
        &[
            ("1970-01-01", "1970-01-01"),
            (" 2024-02-29 ", "2024-02-29"),
            ("2000-02-29", "2000-02-29"),
            ("0001-01-01", "0001-01-01"),
            ("9999-12-31", "9999-12-31"),
        ],
    );
    check_bad(
        ColumnType::Date,
        &[
            (
                "2023-02-30",
                "22008",
                "'2023-02-30' is a date that does not exist",
            ),
            (
                "1900-02-29",
                "22008",
                "'1900-02-29' is a date that does not exist",
            ),
            (
                "2023-13-01",
                "22008",
                "'2023-13-01' is a date that does not exist",
            ),
            (
                "2023-00-01",
                "22008",
                "'2023-00-01' is a date that does not exist",
            ),
            (
                "2023-01-00",
                "22008",
                "'2023-01-00' is a date that does not exist",
            ),
            (
                "0000-01-01",
                "22008",
                "'0000-01-01' is a date that does not exist",
            ),
            ("", "22P02", "'' is not a date"),
            ("31.12.2023", "22007", "'31.12.2023' is not a date"),
            ("2023-1-1", "22007", "'2023-1-1' is not a date"),
            ("20230101", "22007", "'20230101' is not a date"),
            (
                "2023-01-01 00:00:00",
                "22007",
                "'2023-01-01 00:00:00' is not a date",
            ),
            ("infinity", "22007", "'infinity' is not a date"),
        ],
    );
}

#[test]
fn times() {
    check_good(
        ColumnType::Time,
        &[
            ("00:00", "00:00:00"),
            ("23:59:59", "23:59:59"),
            (" 12:34:56.5 ", "12:34:56.500"),
            ("12:34:56.123456", "12:34:56.123456"),
            ("12:34:56.123456000", "12:34:56.123456"),
        ],
    );
    check_bad(
        ColumnType::Time,
        &[
            ("24:00:00", "22008", "'24:00:00' is a time that does not exist"),
            ("12:60", "22008", "'12:60' is a time that does not exist"),
            ("12:34:61", "22008", "'12:34:61' is a time that does not exist"),
            (
                "23:59:60",
                "22008",
                "'23:59:60' is a leap second, the column has none",
            ),
            (
                "12:34:56.1234567",
                "22000",
                "'12:34:56.1234567' is finer than a microsecond, the column is not",
            ),
            ("", "22P02", "'' is not a time"),
            ("1:00", "22007", "'1:00' is not a time"),
            ("12:34:5", "22007", "'12:34:5' is not a time"),
            ("12:34:", "22007", "'12:34:' is not a time"),
            ("12:34.5", "22007", "'12:34.5' is not a time"),
            ("12:34:56.", "22007", "'12:34:56.' is not a time"),
            (
                "12:34:56.1234560000",
                "22007",
                "'12:34:56.1234560000' is not a time",
            ),
            ("12:34:56Z", "22007", "'12:34:56Z' is not a time"),
            ("12:34 PM", "22007", "'12:34 PM' is not a time"),
        ],
    );
}

#[test]
fn timestamps() {
    check_good(
        ColumnType::Timestamp,
        &[
            ("1970-01-01 00:00:00", "1970-01-01T00:00:00"),
            ("1969-12-31T23:59:59.999999", "1969-12-31T23:59:59.999999"),
            ("2023-06-01t12:34", "2023-06-01T12:34:00"),
            ("9999-12-31 23:59:59.999999", "9999-12-31T23:59:59.999999"),
            ("0001-01-01 00:00:00", "0001-01-01T00:00:00"),
        ],
    );
    check_bad(
        ColumnType::Timestamp,
        &[
            ("2023-06-01", "22007", "'2023-06-01' is not a timestamp"),
            ("2023-06-01 ", "22007", "'2023-06-01 ' is not a timestamp"),
            (
                "2023-06-01  12:34",
                "22007",
                "'2023-06-01  12:34' is not a timestamp",
            ),
            (
                "2023-06-01 12:34 x",
                "22007",
                "'2023-06-01 12:34 x' is not a timestamp",
            ),
            ("1686000000", "22007", "'1686000000' is not a timestamp"),
            (
                "2023-02-30 12:34",
                "22008",
                "'2023-02-30 12:34' is a date that does not exist",
            ),
            (
                "2023-06-01 23:59:60",
                "22008",
                "'2023-06-01 23:59:60' is a leap second, the column has none",
            ),
            (
                "2023-06-01T12:34:56Z",
                "22000",
                "'2023-06-01T12:34:56Z' has an offset from UTC, the column keeps none",
            ),
            (
                "2023-06-01 12:34+02",
                "22000",
                "'2023-06-01 12:34+02' has an offset from UTC, the column keeps none",
            ),
            (
                "2023-06-01 12:34:56.000000001",
                "22000",
                "'2023-06-01 12:34:56.000000001' is finer than a microsecond, the column is not",
            ),
        ],
    );
}

#[test]
fn instants() {
    check_good(
        ColumnType::TimestampTz,
        &[
            ("2023-06-01T12:00:00Z", "2023-06-01T12:00:00Z"),
            ("2023-06-01 12:00:00.5+02", "2023-06-01T10:00:00.500Z"),
            ("2023-06-01 12:00-0330", "2023-06-01T15:30:00Z"),
            ("2023-06-01 00:00+05:45", "2023-05-31T18:15:00Z"),
        ],
    );
    check_bad(
        ColumnType::TimestampTz,
        &[
            (
                "2023-06-01 12:00+2",
                "22007",
                "'2023-06-01 12:00+2' is not a timestamptz",
            ),
            (
                "2023-06-01 12:00+16",
                "22008",
                "'2023-06-01 12:00+16' is a time that does not exist",
            ),
            (
                "2023-06-01 12:00+02:60",
                "22008",
                "'2023-06-01 12:00+02:60' is a time that does not exist",
            ),
            (
                "2023-06-01 12:00",
                "22007",
                "'2023-06-01 12:00' has no offset from UTC, and no time zone was given",
            ),
        ],
    );
    let zoned = |text: &str| read(ColumnType::TimestampTz, text.as_bytes(), Some("Europe/Berlin"));
    assert_eq!(zoned("2023-06-01 12:00").as_deref(), Ok("2023-06-01T10:00:00Z"));
    assert_eq!(zoned("2023-01-01 12:00").as_deref(), Ok("2023-01-01T11:00:00Z"));
    assert_eq!(zoned("2023-01-01 12:00Z").as_deref(), Ok("2023-01-01T12:00:00Z"));
    assert_eq!(
        zoned("2023-03-26 02:30"),
        Err((
            "22008".into(),
            "'2023-03-26 02:30:00' does not exist in Europe/Berlin".into()
        ))
    );
    assert_eq!(
        zoned("2023-10-29 02:30"),
        Err((
            "22007".into(),
            "'2023-10-29 02:30:00' happens twice in Europe/Berlin".into()
        ))
    );
}

#[test]
fn an_unknown_zone_is_a_setting_to_correct() {
    let error = timezone("Europe/Atlantis").expect_err("no such zone");
    assert_eq!(error.to_string(), "unknown time zone 'Europe/Atlantis'");
    assert!(
        error
            .hint_text()
            .is_some_and(|hint| hint.contains("Europe/Berlin"))
    );
}

#[test]
fn hints() {
    let hint = |ty: ColumnType, text: &str| {
        let mut problems = Problems::default();
        parse_column(
            &ty,
            "c",
            [Some(text.as_bytes())].into_iter(),
            &context(None),
            &mut problems,
        );
        let (_, problem) = problems.iter().next().expect("it is bad");
        problem.hint.clone()
    };
    assert_eq!(
        hint(ColumnType::Int32, "NA").as_deref(),
        Some("if it stands for null, add --null 'NA'")
    );
    assert_eq!(
        hint(ColumnType::Date, " \\N ").as_deref(),
        Some("if it stands for null, add --null '\\N'")
    );
    assert_eq!(hint(ColumnType::Int32, "abc"), None);
    assert_eq!(
        hint(ColumnType::Date, "1.2.2023").as_deref(),
        Some("a date is written 2023-12-31")
    );
    assert_eq!(
        hint(ColumnType::TimestampTz, "2023-06-01 12:00").as_deref(),
        Some("--timezone ZONE")
    );
}

#[test]
fn messages_show_a_bounded_printable_value() {
    let long = "x".repeat(1000);
    assert_eq!(
        read(ColumnType::Int32, long.as_bytes(), None)
            .expect_err("text")
            .1,
        format!("'{}...' is not an int32", "x".repeat(60))
    );
    assert_eq!(
        read(ColumnType::Int32, b"a\n\x1b[31m\xff", None)
            .expect_err("text")
            .1,
        "'a\\n\\u{1b}[31m\\xff' is not an int32"
    );
}

proptest! {
    #[test]
    fn integers_come_back(n in any::<i64>()) {
        prop_assert_eq!(read(ColumnType::Int64, n.to_string().as_bytes(), None), Ok(n.to_string()));
        let narrow = read(ColumnType::Int32, n.to_string().as_bytes(), None);
        prop_assert_eq!(narrow.ok(), i32::try_from(n).ok().map(|n| n.to_string()));
    }

    #[test]
    fn floats_come_back(bits in any::<u64>(), half in any::<u32>()) {
        let (double, single) = (f64::from_bits(bits), f32::from_bits(half));
        let mut problems = Problems::default();
        let text = (double.to_string(), single.to_string());
        let doubles = parse_column(
            &ColumnType::Float64, "c", [Some(text.0.as_bytes())].into_iter(), &context(None), &mut problems,
        );
        let singles = parse_column(
            &ColumnType::Float32, "c", [Some(text.1.as_bytes())].into_iter(), &context(None), &mut problems,
        );
        prop_assert!(problems.is_empty());
        let back = doubles.as_primitive::<Float64Type>().value(0);
        prop_assert!(back.to_bits() == bits || (back.is_nan() && double.is_nan()));
        let back = singles.as_primitive::<Float32Type>().value(0);
        prop_assert!(back.to_bits() == half || (back.is_nan() && single.is_nan()));
    }

    #[test]
    fn decimals_come_back(units in any::<i128>(), scale in 0u8..=38) {
        let units = units % POWERS_OF_TEN[38];
        let ty = ColumnType::Decimal { precision: 38, scale };
        let plain = format!("{}{:0width$}", if units < 0 { "-" } else { "" }, units.unsigned_abs(),
            width = usize::from(scale) + 1);
        let at = plain.len() - usize::from(scale);
        let text = if scale == 0 { plain } else { format!("{}.{}", &plain[..at], &plain[at..]) };
        prop_assert_eq!(read(ty, text.as_bytes(), None), Ok(text.clone()));
        prop_assert_eq!(read(ty, format!("{units}e-{scale}").as_bytes(), None), Ok(text.clone()));
        // A numeric is the same text but for the sign of zero, which a decimal has not either.
        prop_assert_eq!(read(ColumnType::Numeric, text.as_bytes(), None), Ok(text.clone()));
        prop_assert_eq!(read(ColumnType::Numeric, format!("{units}e-{scale}").as_bytes(), None), Ok(text));
    }

    #[test]
    fn days_come_back(days in -719_162i64..=2_932_896) {
        let text = text_of_date(days);
        prop_assert_eq!(read(ColumnType::Date, text.as_bytes(), None), Ok(text.clone()));
        prop_assert_eq!(time::date(text.as_bytes()).map(i64::from), Ok(days));
    }

    #[test]
    fn times_come_back(day in -719_162i64..=2_932_896, micros in 0i64..86_400_000_000) {
        prop_assert_eq!(time::time(text_of_time(micros).as_bytes()), Ok(micros));
        let local = day * 86_400_000_000 + micros;
        let text = text_of_timestamp(local);
        prop_assert_eq!(time::timestamp(text.as_bytes()), Ok(local));
        prop_assert_eq!(time::instant(format!("{text}Z").as_bytes(), None), Ok(local));
        prop_assert_eq!(
            time::instant(format!("{text}-01:30").as_bytes(), None),
            Ok(local + 5_400_000_000)
        );
        prop_assert_eq!(instant_in_zone(local, &jiff::tz::TimeZone::UTC), Ok(local));
    }

    #[test]
    fn text_comes_back(values in proptest::collection::vec(proptest::option::of(".*"), 0..20)) {
        let mut problems = Problems::default();
        let bytes: Vec<_> = values.iter().map(|v| v.as_ref().map(String::as_bytes)).collect();
        let array = parse_column(
            &ColumnType::TEXT, "c", bytes.into_iter(), &context(None), &mut problems,
        );
        for (row, (value, back)) in values.iter().zip(array.as_string::<i32>()).enumerate() {
            let nul = value.as_ref().is_some_and(|v| v.contains('\0'));
            prop_assert_eq!(problems.contains(row), nul);
            prop_assert_eq!(back, if nul { None } else { value.as_deref() });
        }
    }

    #[test]
    fn any_bytes_are_read_or_noted(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        for ty in [
            ColumnType::Bool, ColumnType::Int16, ColumnType::Int32, ColumnType::Int64, ColumnType::Float32,
            ColumnType::Float64, DECIMAL, ColumnType::Numeric, ColumnType::TEXT, VARCHAR, CHAR, ColumnType::Bytes,
            ColumnType::Date, ColumnType::Time, ColumnType::Timestamp, ColumnType::TimestampTz, ColumnType::Uuid,
            ColumnType::Json,
        ] {
            let _ = read(ty, &bytes, Some("Europe/Berlin"));
        }
    }
}
