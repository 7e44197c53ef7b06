//! Numbers: whole, floating, decimal and boolean.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array};

use super::{Case, EVERYWHERE, NO_EXACT_NAN, NO_NAN, SERVERS, SQLITE, Target, null, value};

pub(super) fn numbers() -> Vec<Case> {
    let (integer, real) = (value("integer"), value("real"));
    vec![
        Case {
            name: "int16",
            postgres: "smallint",
            mariadb: Some("smallint"),
            cassandra: Some("smallint"),
            plain: "SMALLINT",
            strict: Some("INT"),
            values: vec![
                integer("-32768"),
                integer("0"),
                null(),
                integer("32767"),
                integer("32768").rejected_by(&SERVERS),
            ],
            arrow: Arc::new(Int32Array::from(vec![
                Some(-32768),
                Some(0),
                None,
                Some(32767),
                Some(32768),
            ])),
        },
        Case {
            name: "int32",
            postgres: "integer",
            mariadb: Some("int"),
            cassandra: Some("int"),
            plain: "INT",
            strict: Some("INTEGER"),
            values: vec![
                integer("-2147483648"),
                null(),
                integer("2147483647"),
                integer("-2147483649").rejected_by(&SERVERS),
            ],
            arrow: Arc::new(Int64Array::from(vec![
                Some(i64::from(i32::MIN)),
                None,
                Some(i64::from(i32::MAX)),
                Some(i64::from(i32::MIN) - 1),
            ])),
        },
        Case {
            name: "int64",
            postgres: "bigint",
            mariadb: Some("bigint"),
            cassandra: Some("bigint"),
            plain: "BIGINT",
            strict: Some("INTEGER"),
            values: vec![
                integer("-9223372036854775808"),
                null(),
                integer("9223372036854775807"),
                integer("9223372036854775808").rejected_by(&EVERYWHERE),
                integer("-9223372036854775809").rejected_by(&EVERYWHERE),
            ],
            arrow: decimal(
                20,
                0,
                &[
                    Some(i64::MIN.into()),
                    None,
                    Some(i64::MAX.into()),
                    Some(i128::from(i64::MAX) + 1),
                    Some(i128::from(i64::MIN) - 1),
                ],
            ),
        },
        Case {
            name: "float32",
            postgres: "real",
            mariadb: Some("float"),
            cassandra: Some("float"),
            plain: "FLOAT",
            strict: Some("REAL"),
            values: vec![
                real("1.5"),
                null(),
                real("-0.0").postgres("-0").mariadb("0").sqlite("real 0.0"),
                real("3.4028234663852886e38")
                    .postgres("3.4028235e+38")
                    .cassandra("3.4028235E38"),
                real("1.401298464324817e-45")
                    .postgres("1e-45")
                    .cassandra("1.4E-45"),
                real("Infinity")
                    .sqlite("real inf")
                    .rejected_by(&[Target::MariaDb]),
                real("-Infinity")
                    .sqlite("real -inf")
                    .rejected_by(&[Target::MariaDb]),
                real("NaN").rejected_by(&NO_NAN),
            ],
            arrow: Arc::new(Float32Array::from(vec![
                Some(1.5),
                None,
                Some(-0.0),
                Some(f32::MAX),
                Some(f32::from_bits(1)),
                Some(f32::INFINITY),
                Some(f32::NEG_INFINITY),
                Some(f32::NAN),
            ])),
        },
        Case {
            name: "float64",
            postgres: "double precision",
            mariadb: Some("double"),
            cassandra: Some("double"),
            plain: "DOUBLE PRECISION",
            strict: Some("REAL"),
            values: vec![
                real("0.1"),
                null(),
                real("-0.0").postgres("-0").mariadb("0").sqlite("real 0.0"),
                real("-1.7976931348623157e308")
                    .postgres("-1.7976931348623157e+308")
                    .cassandra("-1.7976931348623157E308"),
                real("5e-324").cassandra("4.9E-324"),
                real("9007199254740992")
                    .postgres("9.007199254740992e+15")
                    .mariadb("9.007199254740992e15")
                    .cassandra("9.007199254740992E15")
                    .sqlite("real 9007199254740992.0"),
                real("Infinity")
                    .sqlite("real inf")
                    .rejected_by(&[Target::MariaDb]),
                real("-Infinity")
                    .sqlite("real -inf")
                    .rejected_by(&[Target::MariaDb]),
                real("NaN").rejected_by(&NO_NAN),
            ],
            arrow: Arc::new(Float64Array::from(vec![
                Some(0.1),
                None,
                Some(-0.0),
                Some(f64::MIN),
                Some(f64::from_bits(1)),
                Some(9_007_199_254_740_992.0),
                Some(f64::INFINITY),
                Some(f64::NEG_INFINITY),
                Some(f64::NAN),
            ])),
        },
    ]
}

fn decimal(precision: u8, scale: i8, values: &[Option<i128>]) -> ArrayRef {
    let array = Decimal128Array::from(values.to_vec());
    Arc::new(
        array
            .with_precision_and_scale(precision, scale)
            .expect("a decimal type"),
    )
}

pub(super) fn decimals() -> Vec<Case> {
    let text = value("text");
    let real = value("real");
    vec![
        Case {
            name: "decimal12",
            postgres: "numeric(12,2)",
            mariadb: Some("decimal(12,2)"),
            cassandra: Some("decimal"),
            plain: "DECIMAL(12,2)",
            strict: Some("TEXT"),
            values: vec![
                text("9999999999.99").plain("real 9999999999.99"),
                text("-9999999999.99").plain("real -9999999999.99"),
                text("-0.01").plain("real -0.01"),
                null(),
                text("0.00").plain("integer 0"),
                text("1000.00").plain("integer 1000"),
                text("12.345")
                    .rejected_by(&[Target::Plain, Target::Postgres, Target::MariaDb])
                    .csv_only(),
                text("10000000000.00")
                    .rejected_by(&[Target::Plain, Target::Postgres, Target::MariaDb])
                    .csv_only(),
            ],
            arrow: decimal(
                12,
                2,
                &[
                    Some(999_999_999_999),
                    Some(-999_999_999_999),
                    Some(-1),
                    None,
                    Some(0),
                    Some(100_000),
                    None,
                    None,
                ],
            ),
        },
        Case {
            name: "decimal38",
            postgres: "numeric(38,10)",
            mariadb: Some("decimal(38,10)"),
            cassandra: Some("decimal"),
            plain: "TEXT",
            strict: Some("TEXT"),
            values: vec![
                text("9999999999999999999999999999.9999999999"),
                text("-9999999999999999999999999999.9999999999"),
                text("0.0000000001").cassandra("1E-10"),
                null(),
            ],
            arrow: decimal(
                38,
                10,
                &[
                    Some(10_i128.pow(38) - 1),
                    Some(1 - 10_i128.pow(38)),
                    Some(1),
                    None,
                ],
            ),
        },
        Case {
            name: "numeric",
            postgres: "numeric",
            mariadb: None,
            cassandra: Some("decimal"),
            plain: "NUMERIC",
            strict: None,
            values: vec![
                real("-12.50").plain("real -12.5"),
                null(),
                real("0.00").plain("integer 0"),
                real("9223372036854775807")
                    .plain("integer 9223372036854775807")
                    .csv_only(),
                real("123456789012345678901234567890.123456789")
                    .rejected_by(&SQLITE)
                    .csv_only(),
                real("1e-20")
                    .postgres("0.00000000000000000001")
                    .cassandra("1E-20")
                    .plain("real 1e-20")
                    .csv_only(),
                real("NaN").rejected_by(&NO_EXACT_NAN).csv_only(),
                real("Infinity").rejected_by(&NO_EXACT_NAN).csv_only(),
            ],
            arrow: decimal(10, 2, &[Some(-1250), None, Some(0), None, None, None, None, None]),
        },
    ]
}
