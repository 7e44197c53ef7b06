//! Geometries, and floats of so many digits: what the server would take for something else, or change.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Float32Array, Float64Array};
use mysql_async::prelude::Queryable;
use tonnage::{Database, operation::Operation, plan::RejectsMax, target::Guard};

use super::{METHODS, Server, TestDatabase, batch, write};

on_every_server! {
    geometries_arrive_as_the_server_would_have_made_them,
    what_is_no_geometry_for_its_column_is_refused,
    geometries_and_addresses_go_out_and_come_back_with_everything,
    addresses_are_what_they_say_however_they_are_spelt,
    floats_of_so_many_digits_pass_only_where_they_stay,
}

/// Geometries as people write them, and the type of a column that takes each.
const SHAPES: [(&str, &str); 11] = [
    ("point", "POINT(1 -2.5)"),
    ("linestring", "LINESTRING(0 0,1 1,2 0)"),
    ("polygon", "POLYGON((0 0,9 0,9 9,0 9,0 0),(1 1,2 1,2 2,1 1))"),
    ("multipoint", "MULTIPOINT(0 0,1e300 -1e-300)"),
    ("multilinestring", "MULTILINESTRING((0 0,1 1),(2 2,3 3,4 4))"),
    (
        "multipolygon",
        "MULTIPOLYGON(((0 0,9 0,9 9,0 0)),((1 1,2 1,2 2,1 1)))",
    ),
    (
        "geometrycollection",
        "GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(2 2,3 3))",
    ),
    ("geometrycollection", "GEOMETRYCOLLECTION EMPTY"),
    ("geometry", "POLYGON((0 0,9 0,9 9,0 0))"),
    ("linestring", "LINESTRING(7 7)"),
    // A collection in a collection, which the server does not read as text.
    (
        "geometry",
        "x'0107000000010000000107000000010000000101000000000000000000F03F0000000000000040'",
    ),
];

/// One of them in SQL, in a reference system.
fn sql(text: &str, system: usize) -> String {
    match text.starts_with("x'") {
        true => format!("ST_GeomFromWKB({text}, {system})"),
        false => format!("ST_GeomFromText('{text}', {system})"),
    }
}

async fn bytes_of(place: &TestDatabase, sql: &str) -> Vec<u8> {
    let found = place.texts(&format!("SELECT HEX({sql})")).await;
    let digits = found[0].clone().unwrap_or_else(|| panic!("{sql} is null"));
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

async fn geometries_arrive_as_the_server_would_have_made_them(server: Server) {
    let place = TestDatabase::on(server).await;
    for (declared, text) in SHAPES {
        let little = bytes_of(&place, &format!("ST_AsBinary({})", sql(text, 0))).await;
        for method in METHODS {
            place
                .run(&format!(
                    "DROP TABLE IF EXISTS g;\nCREATE TABLE g (o int AUTO_INCREMENT PRIMARY KEY, g {declared})"
                ))
                .await;
            let plan = place.plan("g", &["g"], Operation::Insert, method).await;
            let mut writer = place.writer(&plan).await;
            let hex: String = little.iter().map(|byte| format!("{byte:02x}")).collect();
            let given: Vec<Option<&[u8]>> = vec![Some(&little), None, Some(hex.as_bytes())];
            let array: ArrayRef = Arc::new(BinaryArray::from(given));
            write(&mut *writer, &batch(&[(plan.columns[0].ty, array)])).await;
            let made = sql(text, 0);
            let shown = format!("SELECT HEX(g) = HEX({made}) FROM g ORDER BY o");
            let one = || Some("1".to_owned());
            let expected = [one(), None, one()];
            assert_eq!(place.texts(&shown).await, expected, "{text} by {method}");
        }
    }
}

async fn what_is_no_geometry_for_its_column_is_refused(server: Server) {
    let place = TestDatabase::on(server).await;
    let point = bytes_of(&place, "ST_AsBinary(POINT(1, 2))").await;
    let line = bytes_of(&place, "ST_AsBinary(ST_GeomFromText('LINESTRING(0 0,1 1)'))").await;
    for method in METHODS {
        place
            .run("DROP TABLE IF EXISTS g;\nCREATE TABLE g (id int AUTO_INCREMENT PRIMARY KEY, g point)")
            .await;
        let plan = place.plan("g", &["g"], Operation::Insert, method).await;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        for (bad, code) in [
            (&point[..20], "22P02"),
            (b"POINT(1 2)".as_slice(), "22P02"),
            (b"".as_slice(), "22P02"),
            (&line[..], "1366"),
        ] {
            let array: ArrayRef = Arc::new(BinaryArray::from(vec![bad]));
            let rows = batch(&[(plan.columns[0].ty, array)]);
            let outcome = writer.write(&rows, Guard::Savepoint).await.unwrap();
            let failure = outcome
                .failure
                .unwrap_or_else(|| panic!("{bad:?} {method}: it was taken"));
            assert_eq!(
                failure.error.code_text(),
                Some(code),
                "{method}: {}",
                failure.error
            );
        }
        writer.commit(&[]).await.unwrap();
        assert_eq!(place.number("SELECT count(*) FROM g").await, 0, "{method}");
    }
}

async fn geometries_and_addresses_go_out_and_come_back_with_everything(server: Server) {
    let place = TestDatabase::on(server).await;
    let places: Vec<_> = SHAPES
        .iter()
        .enumerate()
        .map(|(at, (_, text))| {
            format!(
                "({at}, {}, '10.0.0.{at}', '2001:DB8::{at}')",
                sql(text, at % 3 * 4326)
            )
        })
        .collect();
    place
        .run(&format!(
            "CREATE TABLE t (id int PRIMARY KEY, g geometry, a inet4, b inet6);\n\
             INSERT INTO t VALUES {}, (100, NULL, NULL, NULL);\nCREATE TABLE again LIKE t",
            places.join(", ")
        ))
        .await;
    let directory = tempfile::tempdir().unwrap();
    let db = Database::connect(&place.url).await.unwrap();
    let same = "SELECT count(*) FROM t JOIN again a USING (id) \
                WHERE HEX(t.g) <=> HEX(a.g) AND t.a <=> a.a AND t.b <=> a.b";
    for format in ["csv", "jsonl", "parquet", "arrow"] {
        let path = directory.path().join(format!("t.{format}"));
        for unload in [db.unload("t"), db.unload_query("SELECT * FROM t")] {
            unload.to(&path).overwrite().run().await.unwrap();
            place.run("TRUNCATE again").await;
            let load = db.load(path.display().to_string()).table("again");
            load.run().await.unwrap_or_else(|e| panic!("{format}: {e}"));
            assert_eq!(place.number(same).await, SHAPES.len() as i64 + 1, "{format}");
        }
    }
    // Plain WKB where there is no reference system, the extended form where there is one.
    let path = directory.path().join("t.csv");
    db.unload("t")
        .filter("id < 2")
        .to(&path)
        .overwrite()
        .run()
        .await
        .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().skip(1).collect();
    assert!(lines[0].starts_with("0,\\x0101000000"), "{text}");
    assert!(lines[1].starts_with("1,\\x0102000020e6100000"), "{text}");
    assert!(lines[1].ends_with(",10.0.0.1,2001:db8::1"), "{text}");
}

async fn addresses_are_what_they_say_however_they_are_spelt(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run("CREATE TABLE t (id int PRIMARY KEY, a inet4, b inet6)")
        .await;
    let directory = tempfile::tempdir().unwrap();
    let db = Database::connect(&place.url).await.unwrap();
    let path = directory.path().join("t.csv");
    let rows = "id,a,b\n1,10.0.0.1,2001:0DB8:0:0::1\n2,255.255.255.255,::ffff:1.2.3.4\n3,,\n4,1.2.3,::1\n\
                5,1.2.3.4,1.2.3.4\n6,1.2.3.4,fe80::1%eth0\n7,0.0.0.0,::\n";
    std::fs::write(&path, rows).unwrap();
    for method in METHODS {
        place.run("TRUNCATE t").await;
        let rejects = directory.path().join(format!("{method}.jsonl"));
        let load = db.load(path.display().to_string()).table("t").method(method);
        let report = load.rejects(rejects, RejectsMax::Rows(3)).run().await.unwrap();
        assert_eq!((report.rows.written, report.rows.rejected), (4, 3), "{method}");
        let shown = "SELECT CONCAT_WS('|', id, COALESCE(CAST(a AS char), '-'), COALESCE(CAST(b AS char), '-')) FROM t ORDER BY id";
        let expected = [
            "1|10.0.0.1|2001:db8::1",
            "2|255.255.255.255|::ffff:1.2.3.4",
            "3|-|-",
            "7|0.0.0.0|::",
        ];
        assert_eq!(
            place.texts(shown).await,
            expected.map(|text| Some(text.to_owned())),
            "{method}"
        );
    }
}

/// What a table of one column makes of values, by its own arithmetic.
async fn made(place: &TestDatabase, declared: &str, values: &[f64]) -> Vec<(f64, String)> {
    let mut conn = place.session().await;
    conn.query_drop("SET sql_mode = 'STRICT_ALL_TABLES'")
        .await
        .unwrap();
    conn.query_drop(format!(
        "CREATE OR REPLACE TABLE m (o int AUTO_INCREMENT PRIMARY KEY, v {declared})"
    ))
    .await
    .unwrap();
    let rows = values.iter().map(|value| (*value,));
    conn.exec_batch("INSERT INTO m (v) VALUES (?)", rows)
        .await
        .unwrap();
    conn.exec("SELECT CAST(v AS double), CAST(v AS char) FROM m ORDER BY o", ())
        .await
        .unwrap()
}

async fn floats_of_so_many_digits_pass_only_where_they_stay(server: Server) {
    let place = TestDatabase::on(server).await;
    let values: Vec<f64> = (0..400)
        .map(|number| {
            let number = f64::from(number);
            // Few digits, and many; near zero on either side, and large ones.
            match number as i32 % 4 {
                0 => (number - 200.0) / 100.0,
                1 => (number - 200.0) / 1_000.0,
                2 => (number - 200.0) * 1_234.567_89,
                _ => -number / 7.0,
            }
        })
        .collect();
    for (declared, scale) in [
        ("double(20,2)", 2),
        ("double(30,6)", 6),
        ("double(12,0)", 0),
        ("float(9,3)", 3),
    ] {
        let single = declared.starts_with("float");
        // A single arrives as one.
        let values: Vec<f64> = match single {
            true => values.iter().map(|value| f64::from(*value as f32)).collect(),
            false => values.clone(),
        };
        let made = made(&place, declared, &values).await;
        place
            .run(&format!(
                "CREATE OR REPLACE TABLE f (o int AUTO_INCREMENT PRIMARY KEY, v {declared})"
            ))
            .await;
        let plan = place
            .plan("f", &["v"], Operation::Insert, tonnage::operation::Method::Batch)
            .await;
        let mut writer = place.writer(&plan).await;
        writer.begin(&[]).await.unwrap();
        let mut taken = 0;
        for (value, (kept, shown)) in values.iter().zip(&made) {
            let array: ArrayRef = match single {
                true => Arc::new(Float32Array::from(vec![*value as f32])),
                false => Arc::new(Float64Array::from(vec![*value])),
            };
            let rows = batch(&[(plan.columns[0].ty, array)]);
            let outcome = writer.write(&rows, Guard::Savepoint).await.unwrap();
            // As it is, or as the float nearest to what the column shows.
            let nearest = match single {
                true => shown.parse::<f32>().map(f64::from),
                false => shown.parse(),
            };
            let stays = kept == value || nearest == Ok(*value);
            assert_eq!(
                outcome.failure.is_none(),
                stays,
                "{value} is kept as {kept} in {declared}, which shows {shown}: {:?}",
                outcome.failure
            );
            match outcome.failure {
                None => taken += 1,
                Some(failure) => assert_eq!(failure.error.code_text(), Some("22000"), "{}", failure.error),
            }
        }
        writer.commit(&[]).await.unwrap();
        assert!(
            taken > 10 && taken < values.len(),
            "{taken} of {} in {declared}, {scale} digits",
            values.len()
        );
        // What was taken comes back the same.
        let directory = tempfile::tempdir().unwrap();
        let db = Database::connect(&place.url).await.unwrap();
        let path = directory.path().join("f.csv");
        db.unload("f").to(&path).run().await.unwrap();
        place.run("CREATE OR REPLACE TABLE again LIKE f").await;
        db.load(path.display().to_string())
            .table("again")
            .run()
            .await
            .unwrap();
        let unlike = "SELECT count(*) FROM f LEFT JOIN again a USING (o) WHERE NOT (f.v <=> a.v)";
        assert_eq!(place.number(unlike).await, 0, "{declared}");
    }
    // By every way, and the first that is too large for it.
    for method in METHODS {
        place.run("CREATE OR REPLACE TABLE f (v double(5,2))").await;
        let plan = place.plan("f", &["v"], Operation::Insert, method).await;
        let mut writer = place.writer(&plan).await;
        let array: ArrayRef = Arc::new(Float64Array::from(vec![Some(-0.05), None, Some(999.99)]));
        write(&mut *writer, &batch(&[(plan.columns[0].ty, array)])).await;
        let shown = place.texts("SELECT v FROM f").await;
        assert_eq!(
            shown,
            [Some("-0.05".to_owned()), None, Some("999.99".to_owned())],
            "{method}"
        );
        writer.begin(&[]).await.unwrap();
        for (value, code) in [(0.001, "22000"), (1_000.0, "1264")] {
            let array: ArrayRef = Arc::new(Float64Array::from(vec![value]));
            let rows = batch(&[(plan.columns[0].ty, array)]);
            let outcome = writer.write(&rows, Guard::Savepoint).await.unwrap();
            let failure = outcome
                .failure
                .unwrap_or_else(|| panic!("{value} by {method}: it was taken"));
            assert_eq!(
                failure.error.code_text(),
                Some(code),
                "{method}: {}",
                failure.error
            );
        }
        writer.rollback().await.unwrap();
    }
}
