//! Every type, by every method, read back by the server's own text.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int16Array, Int32Array, Int64Array, StringArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use mysql_async::prelude::Queryable;
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use tonnage::{operation::Operation, target::Guard};

use super::{METHODS, Server, TestDatabase, batch, write};

on_every_server! {
    numbers_keep_their_extremes,
    numbers_that_do_not_fit_are_refused,
    a_zero_for_an_automatic_number_stays_a_zero,
    floats_are_the_same_bit_for_bit,
    a_negative_zero_is_kept_or_the_plan_says_so,
    texts_arrive_byte_for_byte,
    texts_that_would_be_changed_are_refused,
    times_keep_every_digit,
    times_that_would_be_changed_are_refused,
    random_texts_and_bytes_arrive,
}

/// Writes one column into a table of its own by each method and compares what the server shows.
async fn check(
    place: &TestDatabase,
    declared: &str,
    array: ArrayRef,
    shown: &str,
    expected: &[Option<&str>],
) {
    for method in METHODS {
        place
            .run(&format!(
                "DROP TABLE IF EXISTS v;\nCREATE TABLE v (o int AUTO_INCREMENT PRIMARY KEY, v {declared})"
            ))
            .await;
        let plan = place.plan("v", &["v"], Operation::Insert, method).await;
        let ty = plan.columns[0].ty;
        let mut writer = place.writer(&plan).await;
        write(&mut *writer, &batch(&[(ty, array.clone())])).await;
        let found = place.texts(&format!("SELECT {shown} FROM v ORDER BY o")).await;
        let found: Vec<_> = found.iter().map(Option::as_deref).collect();
        assert_eq!(found, expected, "{declared} by {method}");
    }
}

/// Writes one value by each method and expects it to be refused with `code`, and nothing else to be harmed.
async fn refused(place: &TestDatabase, declared: &str, array: ArrayRef, code: &str) {
    for method in METHODS {
        place
            .run(&format!(
                "DROP TABLE IF EXISTS v;\nCREATE TABLE v (o int AUTO_INCREMENT PRIMARY KEY, v {declared})"
            ))
            .await;
        let plan = place.plan("v", &["v"], Operation::Insert, method).await;
        let ty = plan.columns[0].ty;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let rows = batch(&[(ty, array.clone())]);
        let outcome = writer.write(&rows, Guard::Savepoint).await.unwrap();
        let failure = outcome
            .failure
            .unwrap_or_else(|| panic!("{declared} {method}: it was taken"));
        assert_eq!(
            failure.error.code_text(),
            Some(code),
            "{declared} {method}: {}",
            failure.error
        );
        assert!(failure.intact);
        writer.commit(&[]).await.unwrap();
        assert_eq!(
            place.number("SELECT count(*) FROM v").await,
            0,
            "{declared} {method}"
        );
    }
}

fn array<A: arrow::array::Array + 'static>(array: A) -> ArrayRef {
    Arc::new(array)
}

fn decimals(values: &[Option<i128>], precision: u8, scale: i8) -> ArrayRef {
    let decimals = Decimal128Array::from(values.to_vec());
    array(decimals.with_precision_and_scale(precision, scale).unwrap())
}

fn instants(values: Vec<i64>) -> ArrayRef {
    array(TimestampMicrosecondArray::from(values).with_timezone("UTC"))
}

fn some(texts: &[&'static str]) -> Vec<Option<&'static str>> {
    texts.iter().map(|text| Some(*text)).collect()
}

async fn numbers_keep_their_extremes(server: Server) {
    let p = &TestDatabase::on(server).await;
    let bools = || array(BooleanArray::from(vec![Some(true), None, Some(false)]));
    check(p, "boolean", bools(), "v", &[Some("1"), None, Some("0")]).await;
    check(p, "bit(1)", bools(), "v + 0", &[Some("1"), None, Some("0")]).await;
    let small = |values: &[i16]| array(Int16Array::from(values.to_vec()));
    check(p, "tinyint", small(&[-128, 127]), "v", &some(&["-128", "127"])).await;
    check(p, "tinyint unsigned", small(&[0, 255]), "v", &some(&["0", "255"])).await;
    check(
        p,
        "smallint",
        small(&[i16::MIN, i16::MAX]),
        "v",
        &some(&["-32768", "32767"]),
    )
    .await;
    check(
        p,
        "year",
        small(&[0, 1901, 2155]),
        "v",
        &some(&["0000", "1901", "2155"]),
    )
    .await;
    let middle = |values: &[i32]| array(Int32Array::from(values.to_vec()));
    check(
        p,
        "smallint unsigned",
        middle(&[0, 65535]),
        "v",
        &some(&["0", "65535"]),
    )
    .await;
    check(
        p,
        "mediumint",
        middle(&[-8_388_608, 8_388_607]),
        "v",
        &some(&["-8388608", "8388607"]),
    )
    .await;
    check(
        p,
        "mediumint unsigned",
        middle(&[16_777_215]),
        "v",
        &some(&["16777215"]),
    )
    .await;
    check(
        p,
        "int",
        middle(&[i32::MIN, i32::MAX]),
        "v",
        &some(&["-2147483648", "2147483647"]),
    )
    .await;
    let large = |values: &[i64]| array(Int64Array::from(values.to_vec()));
    check(
        p,
        "int unsigned",
        large(&[0, 4_294_967_295]),
        "v",
        &some(&["0", "4294967295"]),
    )
    .await;
    check(
        p,
        "bigint",
        large(&[i64::MIN, i64::MAX]),
        "v",
        &some(&["-9223372036854775808", "9223372036854775807"]),
    )
    .await;
    check(
        p,
        "bit(40)",
        large(&[0, (1 << 40) - 1, 49]),
        "v + 0",
        &some(&["0", "1099511627775", "49"]),
    )
    .await;
    let most = Some(i128::from(u64::MAX));
    check(
        p,
        "bigint unsigned",
        decimals(&[Some(0), None, most], 20, 0),
        "v",
        &[Some("0"), None, Some("18446744073709551615")],
    )
    .await;
    check(
        p,
        "bit(64)",
        decimals(&[Some(7), most], 20, 0),
        "v + 0",
        &some(&["7", "18446744073709551615"]),
    )
    .await;
    check(
        p,
        "decimal(10,2)",
        decimals(&[Some(-5), None, Some(9_999_999_999)], 10, 2),
        "v",
        &[Some("-0.05"), None, Some("99999999.99")],
    )
    .await;
    let nines = 10_i128.pow(38) - 1;
    check(
        p,
        "decimal(38,30)",
        decimals(&[Some(nines), Some(-1)], 38, 30),
        "v",
        &some(&[
            "99999999.999999999999999999999999999999",
            "-0.000000000000000000000000000001",
        ]),
    )
    .await;
    let numerics = vec!["-12.5", "1234567890123456789012345678901234567890.125", "0"];
    check(
        p,
        "decimal(50,3)",
        array(StringArray::from(numerics)),
        "v",
        &some(&["-12.500", "1234567890123456789012345678901234567890.125", "0.000"]),
    )
    .await;
}

async fn numbers_that_do_not_fit_are_refused(server: Server) {
    let p = &TestDatabase::on(server).await;
    let small = |value: i16| array(Int16Array::from(vec![value]));
    refused(p, "tinyint", small(128), "22003").await;
    refused(p, "tinyint unsigned", small(-1), "22003").await;
    for year in [1, 69, 70, 99, 1900, 2156] {
        refused(p, "year", small(year), "22003").await;
    }
    refused(p, "int unsigned", array(Int64Array::from(vec![-1])), "22003").await;
    refused(p, "bit(7)", array(Int64Array::from(vec![128])), "22003").await;
    refused(p, "bigint unsigned", decimals(&[Some(-1)], 20, 0), "22003").await;
    refused(p, "bigint unsigned", decimals(&[Some(1 << 64)], 20, 0), "22003").await;
    refused(p, "decimal(5,2) unsigned", decimals(&[Some(-1)], 5, 2), "22003").await;
    for text in [
        "1.2345",
        "NaN",
        "1e3",
        "100000000000000000000000000000000000000000000000",
    ] {
        refused(p, "decimal(50,3)", array(StringArray::from(vec![text])), "22003").await;
    }
    for value in [f32::NAN, f32::INFINITY] {
        refused(p, "float", array(Float32Array::from(vec![value])), "22003").await;
    }
    refused(
        p,
        "double",
        array(Float64Array::from(vec![f64::NEG_INFINITY])),
        "22003",
    )
    .await;
    refused(
        p,
        "double unsigned",
        array(Float64Array::from(vec![-0.5])),
        "22003",
    )
    .await;
    for declared in [
        "int not null",
        "timestamp(3) not null default current_timestamp(3)",
    ] {
        let null = match declared.starts_with("int") {
            true => array(Int32Array::from(vec![None])),
            false => array(TimestampMicrosecondArray::from(vec![None]).with_timezone("UTC")),
        };
        refused(p, declared, null, "23502").await;
    }
}

async fn a_zero_for_an_automatic_number_stays_a_zero(server: Server) {
    let place = TestDatabase::on(server).await;
    for method in METHODS {
        place
            .run("DROP TABLE IF EXISTS z;\nCREATE TABLE z (id int AUTO_INCREMENT PRIMARY KEY)")
            .await;
        let plan = place.plan("z", &["id"], Operation::Insert, method).await;
        let mut writer = place.writer(&plan).await;
        let ids = array(Int32Array::from(vec![0, 7]));
        write(&mut *writer, &batch(&[(plan.columns[0].ty, ids)])).await;
        assert_eq!(
            place.texts("SELECT id FROM z ORDER BY id").await,
            [Some("0".to_owned()), Some("7".to_owned())],
            "{method}"
        );
    }
}

/// Values of a seeded run.
fn drawn<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>, count: usize) -> Vec<T> {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    (0..count)
        .map(|_| strategy.new_tree(&mut runner).unwrap().current())
        .collect()
}

async fn floats_are_the_same_bit_for_bit(server: Server) {
    let place = TestDatabase::on(server).await;
    let mut singles = drawn(
        any::<f32>().prop_filter("as the plan says", |value| value.is_finite() && *value != 0.0),
        300,
    );
    singles.extend([0.1, f32::MIN_POSITIVE, f32::MAX, f32::MIN, 1e-45, 16_777_217.0]);
    let mut doubles = drawn(
        any::<f64>().prop_filter("as the plan says", |value| value.is_finite() && *value != 0.0),
        300,
    );
    doubles.extend([
        0.1,
        5e-324,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::MIN,
        2.225_073_858_507_201e-308,
    ]);
    for method in METHODS {
        place
            .run("DROP TABLE IF EXISTS f;\nCREATE TABLE f (o int AUTO_INCREMENT PRIMARY KEY, s float, d double)")
            .await;
        let plan = place.plan("f", &["s", "d"], Operation::Insert, method).await;
        let mut writer = place.writer(&plan).await;
        let count = singles.len();
        let columns = [
            (plan.columns[0].ty, array(Float32Array::from(singles.clone()))),
            (
                plan.columns[1].ty,
                array(Float64Array::from(doubles[..count].to_vec())),
            ),
        ];
        write(&mut *writer, &batch(&columns)).await;
        // The binary protocol shows the bits that are kept.
        let mut conn = place.session().await;
        let found: Vec<(f32, f64)> = conn.exec("SELECT s, d FROM f ORDER BY o", ()).await.unwrap();
        for ((single, double), (s, d)) in singles.iter().zip(&doubles).zip(&found) {
            assert_eq!(
                (single.to_bits(), double.to_bits()),
                (s.to_bits(), d.to_bits()),
                "{method}: {single} {double}"
            );
        }
        assert_eq!(found.len(), count);
    }
}

async fn a_negative_zero_is_kept_or_the_plan_says_so(server: Server) {
    let place = TestDatabase::on(server).await;
    let keeps = server == Server::Newest;
    let negative = if keeps { "-0" } else { "0" };
    for (declared, negative, zero, keeps) in [
        ("double", negative, "0", keeps),
        ("double(9,1)", "0.0", "0.0", false),
    ] {
        let zeros = array(Float64Array::from(vec![-0.0, 0.0]));
        check(&place, declared, zeros, "v", &[Some(negative), Some(zero)]).await;
        let notes = place.table("v").await.notes;
        let told = notes
            .iter()
            .any(|note| note == "v may keep a negative zero as zero");
        assert_eq!(told, !keeps, "{declared}: {notes:?}");
    }
}

async fn texts_arrive_byte_for_byte(server: Server) {
    let p = &TestDatabase::on(server).await;
    let texts = vec![
        Some(""),
        None,
        Some("a\tb\n\\N\"'\r\0;"),
        Some("\\"),
        Some("NULL"),
        Some("grüße 🦀"),
        Some("  x  "),
    ];
    for declared in [
        "text",
        "varchar(12)",
        "longtext",
        "varchar(12) collate utf8mb4_bin",
        "json",
    ] {
        if declared != "json" {
            check(p, declared, array(StringArray::from(texts.clone())), "v", &texts).await;
        }
    }
    check(
        p,
        "json",
        array(StringArray::from(vec!["{\"b\": 1,  \"a\":\"\\n\"}", "[1]"])),
        "v",
        &some(&["{\"b\": 1,  \"a\":\"\\n\"}", "[1]"]),
    )
    .await;
    check(
        p,
        "varchar(5) character set latin1",
        array(StringArray::from(vec!["äöüß€"])),
        "convert(v using utf8mb4)",
        &some(&["äöüß€"]),
    )
    .await;
    check(
        p,
        "char(4)",
        array(StringArray::from(vec!["ab", "ab      ", "äöüß"])),
        "concat(v, '|')",
        &some(&["ab|", "ab|", "äöüß|"]),
    )
    .await;
    check(
        p,
        "enum('a','B','it''s','2','1')",
        array(StringArray::from(vec![Some("B"), None, Some("it's"), Some("1")])),
        "v",
        &[Some("B"), None, Some("it's"), Some("1")],
    )
    .await;
    check(
        p,
        "set('x','y','z')",
        array(StringArray::from(vec!["", "x", "x,z"])),
        "v",
        &some(&["", "x", "x,z"]),
    )
    .await;
    let bytes: Vec<Option<&[u8]>> = vec![
        Some(b""),
        None,
        Some(&[0, 255, 10, 9, 92, 39]),
        Some(b"\xf0\x9f\xa6"),
    ];
    for declared in ["blob", "varbinary(6)", "longblob"] {
        check(
            p,
            declared,
            array(BinaryArray::from(bytes.clone())),
            "hex(v)",
            &[Some(""), None, Some("00FF0A095C27"), Some("F09FA6")],
        )
        .await;
    }
    check(
        p,
        "binary(3)",
        array(BinaryArray::from(vec![b"a\0\0" as &[u8], b"\0\0\0"])),
        "hex(v)",
        &some(&["610000", "000000"]),
    )
    .await;
    let uuid = [
        0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b, 0x12, 0xd3, 0xa4, 0x56, 0x42, 0x66, 0x14, 0x17, 0x40, 0,
    ];
    check(
        p,
        "uuid",
        array(FixedSizeBinaryArray::try_from_iter([uuid].into_iter()).unwrap()),
        "v",
        &some(&["123e4567-e89b-12d3-a456-426614174000"]),
    )
    .await;
}

async fn texts_that_would_be_changed_are_refused(server: Server) {
    let p = &TestDatabase::on(server).await;
    let text = |text: &str| array(StringArray::from(vec![text]));
    refused(p, "varchar(3)", text("abcd"), "22001").await;
    // Without an error, the server would cut these spaces off.
    refused(p, "varchar(3)", text("abc "), "22001").await;
    refused(p, "tinytext", text(&format!("{} ", "x".repeat(255))), "22001").await;
    refused(p, "char(3)", text("abcd"), "22001").await;
    refused(p, "tinytext", text(&"x".repeat(256)), "1406").await;
    refused(p, "varchar(3) character set latin1", text("🦀"), "1366").await;
    refused(p, "varchar(3) character set utf8mb3", text("🦀"), "1366").await;
    // 'A' would become 'a', and '2' the second label.
    for label in ["A", "2", "", "a ", "c"] {
        refused(p, "enum('a','b')", text(label), "22P02").await;
    }
    for labels in ["x,w", "3", "x,"] {
        refused(p, "set('x','y')", text(labels), "22P02").await;
    }
    refused(p, "json", text("{"), "4025").await;
    let bytes = |bytes: &[u8]| array(BinaryArray::from(vec![bytes]));
    refused(p, "binary(3)", bytes(b"ab"), "22000").await;
    refused(p, "binary(3)", bytes(b"abcd"), "22001").await;
    refused(p, "varbinary(3)", bytes(b"abcd"), "22001").await;
}

fn days(values: &[i32]) -> ArrayRef {
    array(Date32Array::from(values.to_vec()))
}

async fn times_keep_every_digit(server: Server) {
    let p = &TestDatabase::on(server).await;
    check(
        p,
        "date",
        days(&[0, -719_162, 2_932_896, 11_016]),
        "v",
        &some(&["1970-01-01", "0001-01-01", "9999-12-31", "2000-02-29"]),
    )
    .await;
    check(
        p,
        "time(6)",
        array(Time64MicrosecondArray::from(vec![
            Some(0),
            None,
            Some(86_399_999_999),
        ])),
        "v",
        &[Some("00:00:00.000000"), None, Some("23:59:59.999999")],
    )
    .await;
    check(
        p,
        "datetime(6)",
        array(TimestampMicrosecondArray::from(vec![
            0,
            -1,
            253_402_300_799_999_999,
        ])),
        "v",
        &some(&[
            "1970-01-01 00:00:00.000000",
            "1969-12-31 23:59:59.999999",
            "9999-12-31 23:59:59.999999",
        ]),
    )
    .await;
    check(
        p,
        "datetime",
        array(TimestampMicrosecondArray::from(vec![1_709_166_600_000_000])),
        "v",
        &some(&["2024-02-29 00:30:00"]),
    )
    .await;
    // The hour that many zones have twice or not at all, read in UTC.
    check(
        p,
        "timestamp(6) null",
        instants(vec![
            1,
            1_729_990_800_000_000,
            1_711_848_600_000_001,
            2_147_483_647_999_999,
        ]),
        "convert_tz(v, @@session.time_zone, '+00:00')",
        &some(&[
            "1970-01-01 00:00:00.000001",
            "2024-10-27 01:00:00.000000",
            "2024-03-31 01:30:00.000001",
            "2038-01-19 03:14:07.999999",
        ]),
    )
    .await;
}

async fn times_that_would_be_changed_are_refused(server: Server) {
    let p = &TestDatabase::on(server).await;
    refused(p, "date", days(&[-719_163]), "22008").await;
    refused(p, "date", days(&[2_932_897]), "22008").await;
    refused(
        p,
        "datetime(3)",
        array(TimestampMicrosecondArray::from(vec![1])),
        "22000",
    )
    .await;
    refused(
        p,
        "datetime",
        array(TimestampMicrosecondArray::from(vec![500_000])),
        "22000",
    )
    .await;
    refused(p, "timestamp(3) null", instants(vec![1_000_001]), "22000").await;
    refused(p, "time", array(Time64MicrosecondArray::from(vec![1])), "22000").await;
    refused(p, "timestamp null", instants(vec![0]), "1292").await;
    refused(p, "timestamp null", instants(vec![2_147_483_648_000_000]), "1292").await;
}

async fn random_texts_and_bytes_arrive(server: Server) {
    let place = TestDatabase::on(server).await;
    let texts = drawn(proptest::option::of("(?s).{0,40}"), 400);
    let bytes = drawn(
        proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
        400,
    );
    for method in METHODS {
        place
            .run("DROP TABLE IF EXISTS r;\nCREATE TABLE r (o int AUTO_INCREMENT PRIMARY KEY, t text, b blob)")
            .await;
        let plan = place.plan("r", &["t", "b"], Operation::Insert, method).await;
        let mut writer = place.writer(&plan).await;
        let columns = [
            (plan.columns[0].ty, array(StringArray::from(texts.clone()))),
            (
                plan.columns[1].ty,
                array(BinaryArray::from(
                    bytes.iter().map(|b| b.as_deref()).collect::<Vec<_>>(),
                )),
            ),
        ];
        write(&mut *writer, &batch(&columns)).await;
        assert_eq!(place.texts("SELECT t FROM r ORDER BY o").await, texts, "{method}");
        let shown: Vec<_> = bytes
            .iter()
            .map(|b| {
                b.as_ref()
                    .map(|b| b.iter().map(|byte| format!("{byte:02X}")).collect::<String>())
            })
            .collect();
        assert_eq!(
            place.texts("SELECT hex(b) FROM r ORDER BY o").await,
            shown,
            "{method}"
        );
    }
}
