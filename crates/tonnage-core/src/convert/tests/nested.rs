use arrow::{
    array::{
        FixedSizeListBuilder, Int32Builder, LargeListBuilder, ListBuilder, MapBuilder, StringBuilder,
        StructArray,
    },
    buffer::OffsetBuffer,
};

use super::*;

/// A list of one item a row.
fn lists(items: ArrayRef) -> ArrayRef {
    let field = Arc::new(Field::new("item", items.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(vec![1; items.len()]);
    Arc::new(arrow::array::ListArray::new(field, offsets, items, None))
}

#[test]
fn items_are_written_exactly() {
    let decimals = Decimal128Array::from(vec![Some(1250), Some(-5), None])
        .with_precision_and_scale(10, 2)
        .expect("it fits");
    let wide = Decimal256Array::from(vec![i256::from_i128(i128::MAX)])
        .with_precision_and_scale(60, 3)
        .expect("it fits");
    let dictionary: DictionaryArray<Int32Type> = ["a\"b", "é\n"].into_iter().collect();
    let cases: Vec<(ArrayRef, &[&str])> = vec![
        (Arc::new(decimals), &["[12.50]", "[-0.05]", "[null]"]),
        (Arc::new(wide), &["[170141183460469231731687303715884105.727]"]),
        (
            Arc::new(UInt64Array::from(vec![u64::MAX])),
            &["[18446744073709551615]"],
        ),
        (
            Arc::new(BooleanArray::from(vec![true, false])),
            &["[true]", "[false]"],
        ),
        (
            Arc::new(Float64Array::from(vec![
                0.1,
                1e300,
                -0.0,
                f64::NAN,
                f64::INFINITY,
            ])),
            &[
                "[0.1]",
                "[1e300]",
                "[-0.0]",
                "22P02: NaN is no number of JSON",
                "22P02: inf is no number of JSON",
            ],
        ),
        (Arc::new(Float32Array::from(vec![0.1])), &["[0.1]"]),
        (Arc::new(dictionary), &["[\"a\\\"b\"]", "[\"é\\n\"]"]),
        (
            Arc::new(Date32Array::from(vec![19782, i32::MAX])),
            &["[\"2024-02-29\"]", "22P02: a time within it is out of range"],
        ),
        (
            Arc::new(TimestampNanosecondArray::from(vec![1])),
            &["[\"1970-01-01T00:00:00.000000001\"]"],
        ),
        (
            Arc::new(TimestampSecondArray::from(vec![0]).with_timezone("+02:00")),
            &["[\"1970-01-01T02:00:00+02:00\"]"],
        ),
        (Arc::new(Time32SecondArray::from(vec![3661])), &["[\"01:01:01\"]"]),
        (Arc::new(NullArray::new(1)), &["[null]"]),
    ];
    for (items, expected) in cases {
        let list = lists(items);
        assert_eq!(
            suggested(&Field::new("price", list.data_type().clone(), true)),
            Some(ColumnType::Json)
        );
        assert_eq!(convert_in(list, ColumnType::Json, None), expected);
    }
}

#[test]
fn every_kind_of_nesting_is_json() {
    let mut list = ListBuilder::new(Int32Builder::new());
    let mut large = LargeListBuilder::new(StringBuilder::new());
    let mut fixed = FixedSizeListBuilder::new(Int32Builder::new(), 2);
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in 0..4 {
        let valid = row != 1;
        for item in 0..row {
            list.values().append_value(item);
            large.values().append_value(format!("{item}"));
        }
        list.append(valid);
        large.append(valid);
        fixed.values().append_value(row);
        fixed.values().append_null();
        fixed.append(valid);
        if valid {
            map.keys().append_value("k");
            map.values().append_value(row);
            map.keys().append_value(if row == 3 { "k" } else { "l" });
            map.values().append_null();
        }
        map.append(valid).expect("as many keys as values");
    }
    let list = list.finish();
    check(
        list.clone(),
        ColumnType::Json,
        &["[]", "null", "[0,1]", "[0,1,2]"],
    );
    check(
        large.finish(),
        ColumnType::TEXT,
        &["[]", "null", r#"["0","1"]"#, r#"["0","1","2"]"#],
    );
    check(
        fixed.finish(),
        ColumnType::Json,
        &["[0,null]", "null", "[2,null]", "[3,null]"],
    );
    check(
        map.finish(),
        ColumnType::Json,
        &[
            r#"{"k":0,"l":null}"#,
            "null",
            r#"{"k":2,"l":null}"#,
            r#"22P02: key "k" is there twice"#,
        ],
    );
    let inner = StructArray::from(vec![(
        Arc::new(Field::new(
            "x\"",
            DataType::List(Arc::new(Field::new("item", DataType::Int32, true))),
            true,
        )),
        Arc::new(list) as ArrayRef,
    )]);
    let outer = StructArray::from(vec![
        (
            Arc::new(Field::new("s", inner.data_type().clone(), true)),
            Arc::new(inner) as ArrayRef,
        ),
        (
            Arc::new(Field::new("n", DataType::Int32, true)),
            Arc::new(Int32Array::from(vec![1, 2, 3, 4])),
        ),
    ]);
    check(
        outer,
        ColumnType::Json,
        &[
            r#"{"s":{"x\"":[]},"n":1}"#,
            r#"{"s":{"x\"":null},"n":2}"#,
            r#"{"s":{"x\"":[0,1]},"n":3}"#,
            r#"{"s":{"x\"":[0,1,2]},"n":4}"#,
        ],
    );
}
