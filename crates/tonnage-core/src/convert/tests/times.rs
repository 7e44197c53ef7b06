use super::*;

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
        Time32SecondArray::from(vec![Some(3661), None, Some(86_401)]),
        ColumnType::Time,
        &["01:01:01", "null", "22008: the time of day is not within a day"],
    );
    check(
        Time32MillisecondArray::from(vec![1]),
        ColumnType::Time,
        &["00:00:00.001"],
    );
    check(
        Time64MicrosecondArray::from(vec![86_399_999_999, 839 * 3_600_000_000]),
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
    let far: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![i64::MAX - 1]));
    assert_eq!(
        convert_in(far, ColumnType::TimestampTz, Some("Europe/Berlin")),
        ["22008: '294247-01-10 04:00:54.775806' is out of range in Europe/Berlin"]
    );
}

#[test]
fn durations_and_intervals_are_iso_text() {
    use arrow::{
        array::{DurationMillisecondArray, IntervalMonthDayNanoArray, IntervalYearMonthArray, ListArray},
        datatypes::{DurationSecondType, IntervalMonthDayNano},
    };
    check(
        DurationMillisecondArray::from(vec![Some(90_061_500), None, Some(-1)]),
        ColumnType::TEXT,
        &["PT25H1M1.5S", "null", "PT-0.001S"],
    );
    check(
        IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(14, -3, 1_000)]),
        ColumnType::TEXT,
        &["P14M-3DT0.000001S"],
    );
    check(
        IntervalYearMonthArray::from(vec![-13]),
        ColumnType::TEXT,
        &["P-13M"],
    );
    check(
        ListArray::from_iter_primitive::<DurationSecondType, _, _>([Some(vec![Some(60), None])]),
        ColumnType::Json,
        &["[\"PT1M\",null]"],
    );
}

/// What the ends of the numbers are, the source says.
#[test]
fn the_ends_of_days_and_time() {
    let dates: ArrayRef = Arc::new(Date32Array::from(vec![
        Some(i32::MAX),
        Some(i32::MIN),
        None,
        Some(i32::MAX - 1),
    ]));
    let micros = TimestampMicrosecondArray::from(vec![Some(i64::MAX), Some(i64::MIN), None, Some(0)]);
    let instants: ArrayRef = Arc::new(micros.clone().with_timezone("UTC"));
    let micros: ArrayRef = Arc::new(micros);
    let shown = |array: &ArrayRef, ty, beyond_arrow| {
        let from = SourceColumn {
            beyond_arrow,
            ..source(array.data_type())
        };
        let conversion = Conversion::plan(&from, &column(), ty, &context(Some("Europe/Berlin")));
        let mut problems = Problems::default();
        let converted = conversion.unwrap().apply(array, &mut problems).unwrap();
        let row = |row: usize| match problems.iter().find(|(bad, _)| *bad == row) {
            Some((_, problem)) => format!("{}: {}", problem.code, problem.message),
            None => shown_value(&converted, row, BeyondArrow::Carried).unwrap_or_else(|| "null".to_owned()),
        };
        (0..array.len()).map(row).collect::<Vec<_>>()
    };
    let words = ["infinity", "-infinity", "null"];
    for (array, types, last, first, beyond) in [
        (
            &dates,
            vec![ColumnType::Date],
            "5881580-07-11",
            "5877642-06-23 BC",
            "5881580-07-10",
        ),
        (
            &micros,
            vec![ColumnType::Timestamp, ColumnType::TimestampTz],
            "294247-01-10 04:00:54.775807",
            "290309-12-21 19:59:05.224192 BC",
            "",
        ),
        (
            &instants,
            vec![ColumnType::TimestampTz],
            "294247-01-10 04:00:54.775807",
            "290309-12-21 19:59:05.224192 BC",
            "",
        ),
    ] {
        for ty in types {
            let infinite = shown(array, ty, BeyondArrow::Carried);
            assert_eq!(infinite[..3], words, "{ty}");
            let finite = shown(array, ty, BeyondArrow::Refused);
            let refused = |text: &str| format!("22008: '{text}' is out of range for {ty}");
            assert_eq!(
                finite[..3],
                [refused(last), refused(first), "null".to_owned()],
                "{ty}"
            );
            assert_eq!(finite[3], infinite[3], "{ty}");
            assert!(beyond.is_empty() || finite[3] == beyond, "{ty}");
        }
        assert_eq!(shown(array, ColumnType::TEXT, BeyondArrow::Carried)[..3], words);
        let offset = if array.data_type() == instants.data_type() {
            "+00:00"
        } else {
            ""
        };
        let first = match first.strip_suffix(" BC") {
            Some(first) => format!("{first}{offset} BC"),
            None => first.to_owned(),
        };
        let last = format!("{last}{offset}");
        assert_eq!(
            shown(array, ColumnType::TEXT, BeyondArrow::Refused)[..3],
            [&last, &first, "null"]
        );
    }
    assert_eq!(
        shown(&dates, ColumnType::Timestamp, BeyondArrow::Carried)[..3],
        words
    );
    let beyond = "22008: the time is out of range for timestamp";
    assert_eq!(
        shown(&dates, ColumnType::Timestamp, BeyondArrow::Refused)[..3],
        [beyond, beyond, "null"]
    );
    // A conversion of the unit may reach them, too.
    check(
        Date64Array::from(vec![i64::from(i32::MAX) * 86_400_000]),
        ColumnType::Date,
        &["22008: '5881580-07-11' is out of range for date"],
    );
}
