use super::*;

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
            ("", "22P02", "'' is not a date"),
            ("31.12.2023", "22007", "'31.12.2023' is not a date"),
            ("2023-1-1", "22007", "'2023-1-1' is not a date"),
            ("20230101", "22007", "'20230101' is not a date"),
            (
                "2023-01-01 00:00:00",
                "22007",
                "'2023-01-01 00:00:00' is not a date",
            ),
            ("today", "22007", "'today' is not a date"),
            ("inf", "22007", "'inf' is not a date"),
            ("-0044-03-15", "22007", "'-0044-03-15' is not a date"),
            ("99999999-01-01", "22007", "'99999999-01-01' is not a date"),
            ("0000-01-01 BC", "22007", "'0000-01-01 BC' is not a date"),
            ("0002-02-29 BC", "22007", "'0002-02-29 BC' is not a date"),
        ],
    );
}

/// As PostgreSQL writes them; the ends of the numbers stand for what is infinite.
#[test]
fn far_dates_and_the_ends_of_time() {
    use time::{any_date, any_instant, any_timestamp, spelled_date, spelled_timestamp};
    const DAY: i64 = 86_400_000_000;
    for (text, days) in [
        ("0001-12-31 BC", -719_163),
        ("0001-02-29 BC", -719_469),
        ("4714-11-24 BC", -2_440_588),
        ("10000-01-01", 2_932_897),
        ("5874897-12-31", 2_145_042_905),
        ("infinity", i32::MAX),
        ("-infinity", i32::MIN),
    ] {
        assert_eq!(any_date(text.as_bytes()), Ok(days), "{text}");
        assert_eq!(spelled_date(days.into()), text);
    }
    for (text, micros) in [
        ("0001-12-31 00:00:01.5 BC", -719_163 * DAY + 1_500_000),
        ("10000-01-01 12:00:00", 2_932_897 * DAY + DAY / 2),
        ("infinity", i64::MAX),
        ("-infinity", i64::MIN),
    ] {
        assert_eq!(any_timestamp(text.as_bytes()), Ok(micros), "{text}");
        assert_eq!(spelled_timestamp(micros, ""), text);
    }
    assert_eq!(
        any_instant(b"10000-01-01 12:00:00+01", None),
        Ok(2_932_897 * DAY + 11 * DAY / 24)
    );
    assert_eq!(
        any_instant(b"0001-12-31 00:00:00+00 BC", None),
        Ok(-719_163 * DAY)
    );
    assert_eq!(
        spelled_timestamp(-719_163 * DAY, "+00"),
        "0001-12-31 00:00:00+00 BC"
    );
    assert_eq!(any_instant(b" -Infinity ", None), Ok(i64::MIN));
    // Dates with a zero in them are numbered behind the smallest end, each at its place.
    use time::{PartialDate, kept_date, kept_instant, kept_timestamp, stands_for_no_day, stands_for_no_time};
    let mut last = (i64::from(i32::MIN), i64::MIN);
    for text in [
        "0000-00-00",
        "0000-00-31",
        "0000-02-28",
        "0000-12-31",
        "2024-00-00",
        "2024-00-15",
        "2024-02-00",
        "9999-12-00",
    ] {
        let days = kept_date(text.as_bytes()).unwrap();
        assert!(any_date(text.as_bytes()).is_err() && stands_for_no_day(days));
        let with_time = format!("{text} 23:59:59.999999");
        let micros = kept_timestamp(with_time.as_bytes()).unwrap();
        assert!(any_timestamp(with_time.as_bytes()).is_err() && stands_for_no_time(micros));
        assert_eq!(kept_instant(with_time.as_bytes(), None), Ok(micros));
        assert!(last < (days.into(), micros), "{text}");
        last = (days.into(), micros);
        assert_eq!(spelled_date(days.into()), text);
        assert_eq!(spelled_timestamp(micros, "+00"), with_time);
        let (date, of_day) = PartialDate::of_micros(micros).unwrap();
        assert_eq!((date.days(), of_day), (days, DAY - 1));
        assert_eq!(kept_timestamp(text.as_bytes()), Ok(date.micros(0)));
    }
    for text in [
        "0000-02-29",
        "0000-13-00",
        "2024-00-32",
        "2024-02-30",
        "00000-00-00",
        "2024-00-00 24:00:00",
    ] {
        assert!(kept_date(text.as_bytes()).is_err(), "{text}");
        assert!(kept_timestamp(text.as_bytes()).is_err(), "{text}");
    }
    assert!(
        any_date(b"5877641-01-01 BC").is_err(),
        "its number is one of these"
    );
    assert_eq!(any_date(b"5860000-01-01 BC").map(stands_for_no_day), Ok(false));
    // An offset does not lead to the ends of time.
    assert!(any_instant(b"294247-01-10 03:00:54.775807-01", None).is_err());
    assert_eq!(
        any_instant(b"294247-01-10 03:00:54.775806-01", None),
        Ok(i64::MAX - 1)
    );
    assert!(
        any_timestamp(b"9999999-01-01 00:00:00").is_err(),
        "beyond 64 bits"
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
            ("839:00:00", "22007", "'839:00:00' is not a time"),
            ("-839:00:00", "22007", "'-839:00:00' is not a time"),
            ("100:60:00", "22007", "'100:60:00' is not a time"),
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

/// As MariaDB has them.
#[test]
fn times_outside_a_day() {
    for (text, micros) in [
        ("838:59:59.999999", time::TIME_MAX),
        ("-838:59:59.999999", -time::TIME_MAX),
        ("24:00:00.000001", 86_400_000_001),
        ("-00:00:00.5", -500_000),
        ("-26:00:00", -26 * 3_600_000_000),
        ("100:00:00", 100 * 3_600_000_000),
    ] {
        assert_eq!(time::any_time(text.as_bytes()), Ok(micros), "{text}");
        assert_eq!(text_of_time(micros), text);
    }
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
            // A date is its midnight.
            ("2023-06-01", "2023-06-01T00:00:00"),
            ("2023-06-01 ", "2023-06-01T00:00:00"),
        ],
    );
    check_bad(
        ColumnType::Timestamp,
        &[
            ("2023-06", "22007", "'2023-06' is not a timestamp"),
            ("2023-06-31", "22007", "'2023-06-31' is not a timestamp"),
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
    assert_eq!(zoned("2023-06-01").as_deref(), Ok("2023-05-31T22:00:00Z"));
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
fn the_end_of_a_day_is_a_time() {
    use crate::parse::time::time_or_end;
    for text in ["24:00:00", " 24:00:00.000 "] {
        assert_eq!(time_or_end(text.as_bytes()).ok(), Some(86_400_000_000), "{text}");
    }
    for text in ["24:00:00.", "24:00:00.1", "24:00", "24:00:00x"] {
        assert!(time_or_end(text.as_bytes()).is_err(), "{text}");
    }
}
