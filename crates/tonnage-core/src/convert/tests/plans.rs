use super::*;

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

#[track_caller]
fn check_refused(arrow: DataType, ty: ColumnType, message: &str, hint: &str) {
    let error = plan(&arrow, ty, None).expect_err("it is refused");
    assert_eq!(error.kind(), crate::error::ErrorKind::Schema);
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

fn union() -> DataType {
    let fields = [(0, Arc::new(Field::new("a", DataType::Int32, true)))];
    DataType::Union(fields.into_iter().collect(), arrow::datatypes::UnionMode::Dense)
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
    assert_eq!(
        plain(DataType::Duration(TimeUnit::Second)),
        Some(ColumnType::TEXT)
    );
    assert_eq!(plain(union()), None);
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
        "convert the times to ones without a zone in the source, or load them into a column of type \
         timestamptz",
    );
    check_refused(
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        ColumnType::TimestampTz,
        "column 'price': timestamp in nanoseconds has no time zone and cannot be carried exactly into \
         timestamptz",
        "name the zone of the source's times: --timezone ZONE",
    );
    check_refused(
        union(),
        ColumnType::TEXT,
        "column 'price': a union cannot be carried into text or any other type, for neither columns nor JSON say \
         of which type a value is",
        "leave the column out with --columns, or write it as text or JSON text in the source",
    );
    check_refused(
        DataType::List(Arc::new(Field::new("item", DataType::Binary, true))),
        ColumnType::Json,
        "column 'price': a list cannot be carried as JSON, for it holds bytes",
        "leave the column out with --columns, or write it as JSON text in the source",
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
    let error = Conversion::plan(&other, &column(), ColumnType::Date, &context(None)).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "column 'price' (in the source 'cost'): float64 cannot be carried exactly into date"
    );
}

#[test]
fn another_type_than_planned_is_a_defect() {
    let conversion = plan(&DataType::Int32, ColumnType::Int32, None).expect("the same");
    let array: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let error = conversion
        .apply(&array, &mut Problems::default())
        .expect_err("not as planned");
    assert_eq!(error.kind(), crate::error::ErrorKind::Bug);
}
