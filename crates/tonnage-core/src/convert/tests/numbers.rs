use super::*;

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
        Decimal128Array::from(vec![Some(125), Some(123_456_789_012_345_678), None])
            .with_precision_and_scale(20, 2)
            .expect("a precision there is"),
        ColumnType::Float64,
        &[
            "1.25",
            "22000: '1234567890123456.78' would become 1234567890123456.8 as float64",
            "null",
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
            "22003: '578960446186580977117854925043439539266349923328202820197287...' is out of range \
             for int32",
        ],
    );
}
