//! Values of every type that a table can be made with, to the database and back.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tonnage_core::{
    ColumnType, ErrorKind,
    parse::parse_stored,
    reader::{ReadColumn, schema},
};
use tonnage_engine::plan::RejectsMax;
use tonnage_formats::sources::batches::BatchSource;

use crate::{Exception, Files, Fixture, Keyed, Row, assert_refused, connected, make, read, spec};

/// A type and its values. Each is also null.
const CASES: &[(&str, &[&str])] = &[
    ("bool", &["true", "false"]),
    ("int16", &["-32768", "0", "32767"]),
    ("int32", &["-2147483648", "2147483647"]),
    ("int64", &["-9223372036854775808", "9223372036854775807"]),
    ("float32", &["0", "-1.5", "3.4028235e38", "1.1754944e-38", "0.1"]),
    (
        "float64",
        &[
            "-1.5",
            "1.7976931348623157e308",
            "2.2250738585072014e-308",
            "0.1",
            "9007199254740993e3",
        ],
    ),
    ("decimal(9,2)", &["-9999999.99", "0.00", "0.01"]),
    (
        "decimal(38,10)",
        &["9999999999999999999999999999.9999999999", "-0.0000000001"],
    ),
    (
        "numeric",
        &[
            "123456789012345678901234567890.5",
            "-0.000000000000000000001",
            "7",
        ],
    ),
    (
        "text",
        &["", "plain", "Grüße, 你好 😀", " spaces ", "\"'\\\t\r\n,;", "NULL"],
    ),
    ("varchar(5)", &["", "äöü€😀"]),
    ("bytes", &["\\x", "\\x00ff5c27", "\\x41"]),
    ("date", &["0001-01-01", "1969-12-31", "2024-02-29", "9999-12-31"]),
    ("time", &["00:00:00", "12:34:56.789012", "23:59:59.999999"]),
    (
        "timestamp",
        &[
            "0001-01-01 00:00:00",
            "1969-12-31 23:59:59.999999",
            "9999-12-31 23:59:59.999999",
        ],
    ),
    (
        "timestamptz",
        &[
            "1969-12-31 23:59:59.999999+00",
            "2024-02-29 12:34:56.789+00",
            "9999-12-31 00:00:00+00",
        ],
    ),
    (
        "uuid",
        &[
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
        ],
    ),
    ("json", &["{\"a\": [1, null, \"ü\"]}", "[]", "7"]),
];

/// Every value comes back as the same one, but for the fixture's exceptions, which are rejected, or whose type is refused.
pub async fn every_type_comes_back_as_it_went(fixture: &dyn Fixture) {
    let target = fixture.target();
    let (_, keyed) = make(&target).await;
    let mut found: Vec<Exception> = Vec::new();
    let mut wrong = Vec::new();
    for (at, (name, values)) in CASES.iter().enumerate() {
        let ty: ColumnType = name.parse().expect("a type");
        let files = Files::new();
        let table = format!("v{at}");
        let key = keyed.columns().iter().copied();
        let load = connected(&target)
            .load_source(source(&ty, values))
            .table(&table)
            .create(key);
        let report = match load.rejects(files.rejects(), RejectsMax::Rows(100)).run().await {
            Ok(report) => report,
            Err(error) => {
                assert_refused(&error);
                found.push(Exception {
                    ty: name,
                    value: None,
                });
                continue;
            }
        };
        assert!(report.rows.balances(), "{name}: {:?}", report.rows);
        let rejected = rejected(&files);
        assert_eq!(rejected.len() as u64, report.rows.rejected, "{name}");
        found.extend(rejected.iter().map(|row| Exception {
            ty: name,
            value: values.get(*row as usize - 1).copied(),
        }));
        let expected: Vec<Option<&str>> = values.iter().copied().map(Some).chain([None]).collect();
        let expected = (1..).zip(expected).filter(|(row, _)| !rejected.contains(row));
        let expected: Vec<Row> = expected
            .map(|(row, value)| vec![Some(row.to_string()), value.map(str::to_owned)])
            .collect();
        let back = read(&target, &table, 1)
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        if alike(&ty, &back) != alike(&ty, &expected) {
            wrong.push(format!("{name}: {back:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(
        found,
        fixture.exceptions(),
        "what {} does not take",
        target.capabilities().product
    );
}

/// A column of each type that a table can be made with is described as that type, but for the fixture's other ones, takes nulls as it was made to, and may be
/// part of a key; odd names are kept. A table of that name is not made again.
pub async fn a_table_has_the_types_it_was_made_with(fixture: &dyn Fixture) {
    let target = fixture.target();
    let mut others = Vec::new();
    let types = CASES
        .iter()
        .map(|(name, _)| *name)
        .chain(["decimal(38,38)", "varchar(300)", "char(9)"]);
    for (at, name) in types.enumerate() {
        let ty: ColumnType = name.parse().expect("a type");
        let columns = [("id", ColumnType::Int64, false), ("Odd \"v\"", ty, true)];
        let mut spec = spec(&format!("Odd \"{at}\"; t"), &columns, Keyed::No);
        let mut made = target.create(&spec).await;
        if made.is_err() {
            // Not every database has names of every kind.
            spec = crate::spec(&format!("plain{at}"), &[columns[0], ("v", ty, true)], Keyed::No);
            made = target.create(&spec).await;
        }
        match made {
            Err(error) => assert_refused(&error),
            Ok(()) => {
                let again = target.create(&spec).await.expect_err("it is there already");
                assert_ne!(again.kind(), ErrorKind::Bug, "{again}");
                let table = target.table(&spec.name).await.expect("the catalogue is read");
                let table = table.expect("the table is there");
                assert_eq!(table.name.name, fixture.table_name(&spec.name.name));
                let found: Vec<_> = table
                    .columns
                    .iter()
                    .map(|column| (&column.name, column.nullable))
                    .collect();
                let wanted: Vec<_> = spec
                    .columns
                    .iter()
                    .map(|column| (&column.name, column.nullable))
                    .collect();
                assert_eq!(found, wanted, "{name}");
                let found = table.columns[1].ty.expect("a type").to_string();
                if found != ty.to_string() {
                    others.push((name, found));
                }
            }
        }
    }
    let others: Vec<_> = others.iter().map(|(asked, is)| (*asked, &**is)).collect();
    assert_eq!(others, fixture.other_types());
}

/// A row a value, numbered from 1, and a last one of null.
fn source(ty: &ColumnType, values: &[&str]) -> BatchSource<std::vec::IntoIter<RecordBatch>> {
    let column = |name: &str, ty: ColumnType, nullable| ReadColumn {
        element: None,
        name: name.to_owned(),
        ty,
        declared: String::new(),
        nullable,
    };
    let schema = schema(&[column("id", ColumnType::Int64, false), column("v", *ty, true)]);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(1..=values.len() as i64 + 1));
    let values: Vec<_> = values
        .iter()
        .map(|value| Some(value.as_bytes()))
        .chain([None])
        .collect();
    let values = parse_stored(ty, "v", values.into_iter()).expect("values of the type");
    let batch = RecordBatch::try_new(schema.clone(), vec![ids, values]).expect("a batch");
    BatchSource::new("values", schema, vec![batch].into_iter())
}

/// Rows by what their values are as `ty`, whatever their text and whatever type the database has given them.
fn alike(ty: &ColumnType, rows: &[Row]) -> Vec<(Option<String>, String)> {
    let values = rows.iter().map(|row| {
        let text = row[1].as_deref();
        // Bytes are shown as bare digits.
        let bytes = text.filter(|text| *ty == ColumnType::Bytes && !text.starts_with("\\x"));
        bytes.map(|text| format!("\\x{text}")).or(text.map(str::to_owned))
    });
    let values = values.map(|value| match (ty, value) {
        (ColumnType::Json, Some(value)) => Some(
            serde_json::from_str::<serde_json::Value>(&value)
                .expect("JSON")
                .to_string(),
        ),
        // A database that gives every number the same scale has not changed it.
        (ColumnType::Numeric, Some(value)) if value.contains('.') => {
            Some(value.trim_end_matches('0').trim_end_matches('.').to_owned())
        }
        (_, value) => value,
    });
    let values: Vec<_> = values.collect();
    let parsed = rows.iter().zip(&values).map(|(row, value)| {
        let one = std::iter::once(value.as_deref().map(str::as_bytes));
        let one: Vec<_> = one.collect();
        match parse_stored(ty, "v", one.into_iter()) {
            Ok(array) => (row[0].clone(), format!("{array:?}")),
            Err(error) => (row[0].clone(), error.to_string()),
        }
    });
    let mut parsed: Vec<_> = parsed.collect();
    parsed.sort();
    parsed
}

fn rejected(files: &Files) -> Vec<u64> {
    let text = std::fs::read_to_string(files.rejects()).unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let mut rows: Vec<u64> = lines.map(|line| line["row"].as_u64().expect("a row")).collect();
    rows.sort_unstable();
    rows
}
