mod numbers;
mod times;

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
        bytes_as_written: false,
        ..ParseContext::default()
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
            ("\\\\x", "5c78"),
            ("a\\000\\\\\\377b", "61005cff62"),
        ],
    );
    check_bad(
        ColumnType::Bytes,
        &[
            ("\\x6", "22P02", "'\\x6' is not bytes in hexadecimal"),
            ("\\x6g", "22P02", "'\\x6g' is not bytes in hexadecimal"),
            ("a\\", "22P02", "'a\\' has a backslash that stands for no byte"),
            (
                "C:\\new",
                "22P02",
                "'C:\\new' has a backslash that stands for no byte",
            ),
            (
                "\\400",
                "22P02",
                "'\\400' has a backslash that stands for no byte",
            ),
            (
                "\\08a",
                "22P02",
                "'\\08a' has a backslash that stands for no byte",
            ),
            (
                "\\X41",
                "22P02",
                "'\\X41' has a backslash that stands for no byte",
            ),
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
        Some("name the zone of such times: --timezone ZONE")
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
            ColumnType::Float64, DECIMAL, ColumnType::Numeric, ColumnType::TEXT, VARCHAR, CHAR,
            ColumnType::Bytes, ColumnType::Date, ColumnType::Time, ColumnType::Timestamp,
            ColumnType::TimestampTz, ColumnType::Uuid, ColumnType::Json,
        ] {
            let _ = read(ty, &bytes, Some("Europe/Berlin"));
        }
    }
}
