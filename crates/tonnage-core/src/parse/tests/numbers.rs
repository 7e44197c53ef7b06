use super::*;

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
            // As the shortest text of a float, as its first 17 digits, and as all of them.
            ("0.30000000000000004", "0.30000000000000004"),
            ("0.10000000000000001", "0.1"),
            ("0.1000000000000000055511151231257827021181583404541015625", "0.1"),
            ("123456789012345680000", "1.2345678901234568e20"),
            ("9007199254740992", "9007199254740992.0"),
            ("0.10000000000000000000", "0.1"),
            ("000000000000000000000.1", "0.1"),
        ],
    );
    check_bad(
        ColumnType::Float64,
        &[
            (
                "9007199254740993",
                "22000",
                "'9007199254740993' would become 9007199254740992 as float64",
            ),
            (
                "0.1234567890123456789",
                "22000",
                "'0.1234567890123456789' would become 0.12345678901234568 as float64",
            ),
            (
                "3.14159265358979323846e0",
                "22000",
                "'3.14159265358979323846e0' would become 3.141592653589793 as float64",
            ),
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
        &[
            ("3.4028235e38", "3.4028235e38"),
            ("1e-45", "1e-45"),
            ("0.100000001", "0.1"),
            ("16777216", "16777216.0"),
        ],
    );
    check_bad(
        ColumnType::Float32,
        &[
            ("1e39", "22003", "'1e39' is out of range for float32"),
            ("16777217", "22000", "'16777217' would become 16777216 as float32"),
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
