//! What is written is what the database's own client reads back: every type by every operation, method, target and
//! format. A table has a column a case and a row a value, in which the other columns are null.

mod cases;

use std::{
    collections::BTreeSet,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, Int64Array, RecordBatch, new_null_array},
    compute::concat,
};
use parquet::arrow::ArrowWriter;
use serde_json::Value as Json;
use tempfile::TempDir;

use self::cases::{Case, Fate, cases};
use crate::{
    database::{Database, Row},
    keyspace::Keyspace,
    process::{Running, tonnage},
};

/// A database and the kind of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Plain,
    Strict,
    Postgres,
    MariaDb,
    Cassandra,
}

impl Target {
    /// The methods by which an operation goes.
    fn methods(self, operation: &str) -> [&'static str; 2] {
        match (self, operation) {
            // LOAD DATA does nothing but insert.
            (Self::MariaDb, "upsert") => ["array", "batch"],
            (Self::Cassandra, _) => ["array", "single"],
            _ => ["array", "native"],
        }
    }
}

/// Where a table is.
enum Home {
    Database(Database),
    Keyspace(Box<Keyspace>),
}

impl Home {
    fn of(target: Target) -> Self {
        match target {
            Target::Plain | Target::Strict => Self::Database(Database::sqlite()),
            Target::Postgres => Self::Database(Database::postgres()),
            Target::MariaDb => Self::Database(Database::mariadb()),
            Target::Cassandra => Self::Keyspace(Box::new(Keyspace::new())),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Database(database) => database.url(),
            Self::Keyspace(keyspace) => keyspace.url(),
        }
    }

    fn run(&self, sql: &str) {
        match self {
            Self::Database(database) => database.run(sql),
            Self::Keyspace(keyspace) => keyspace.run(sql),
        }
    }

    fn rows(&self, sql: &str) -> Vec<Row> {
        match self {
            Self::Database(database) => database.rows(sql),
            Self::Keyspace(keyspace) => keyspace.rows(sql),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Csv,
    Parquet,
}

const OPERATIONS: [&str; 2] = ["insert", "upsert"];
const FORMATS: [Format; 2] = [Format::Csv, Format::Parquet];

#[test]
fn a_plain_sqlite_table_holds_what_was_given() {
    conforms(Target::Plain);
}

#[test]
fn a_strict_sqlite_table_holds_what_was_given() {
    conforms(Target::Strict);
}

#[test]
fn a_postgres_table_holds_what_was_given() {
    conforms(Target::Postgres);
}

#[test]
fn a_mariadb_table_holds_what_was_given() {
    conforms(Target::MariaDb);
}

#[test]
fn a_cassandra_table_holds_what_was_given() {
    conforms(Target::Cassandra);
}

/// A row of the table: a value of a case.
struct CaseRow<'a> {
    id: i64,
    case: &'a Case,
    value: usize,
}

fn conforms(target: Target) {
    let cases: Vec<Case> = cases()
        .into_iter()
        .filter(|case| case.declared(target).is_some())
        .collect();
    let places: Vec<CaseRow<'_>> = cases
        .iter()
        .flat_map(|case| (0..case.values.len()).map(move |value| (case, value)))
        .zip(1..)
        .map(|((case, value), id)| CaseRow { id, case, value })
        .collect();
    for format in FORMATS {
        let directory = tempfile::tempdir().expect("a temporary directory");
        // Another value of the same case, for an upsert to replace.
        let before = write(&directory, "before", format, &cases, &places, 1);
        let input = write(&directory, "input", format, &cases, &places, 0);
        for operation in OPERATIONS {
            for method in target.methods(operation) {
                let way = format!("{target:?} {format:?} {operation} {method}");
                let database = Home::of(target);
                create(&database, target, &cases);
                let rejects = directory.path().join(format!("{operation}-{method}.jsonl"));
                if operation == "upsert" {
                    load(
                        &before,
                        &database,
                        "insert",
                        method,
                        &rejects.with_extension("before"),
                    );
                }
                load(&input, &database, operation, method, &rejects);
                let rejected = rejected(&rejects);
                for place in &places {
                    check(&database, target, format, place, &rejected, &way);
                }
            }
        }
    }
}

fn create(database: &Home, target: Target, cases: &[Case]) {
    let columns: Vec<_> = cases
        .iter()
        .filter_map(|case| Some(format!("{} {}", case.name, case.declared(target)?)))
        .collect();
    let (key, end) = match target {
        Target::Plain => ("INTEGER", ""),
        Target::Strict => ("INTEGER", " STRICT"),
        Target::Postgres | Target::MariaDb | Target::Cassandra => ("bigint", ""),
    };
    // Instants are read as they are in this zone.
    match target {
        Target::Plain | Target::Strict | Target::Cassandra => {}
        Target::Postgres => database.run("SET TIME ZONE 'UTC'"),
        Target::MariaDb => database.run("SET time_zone = '+00:00'"),
    }
    let columns = columns.join(", ");
    database.run(&format!(
        "CREATE TABLE conformance (id {key} PRIMARY KEY, {columns}){end}"
    ));
}

fn load(input: &Path, database: &Home, operation: &str, method: &str, rejects: &Path) {
    let mut command = tonnage();
    command.arg("load").arg(input).arg(database.url());
    command.args(["--table", "conformance", "--mode", operation, "--method", method]);
    if operation == "upsert" {
        command.args(["--key", "id"]);
    }
    let ended = Running::start(command.arg("--rejects").arg(rejects)).wait();
    let code = ended.status.code();
    assert!(
        matches!(code, Some(0 | 3)),
        "{operation} by {method}: {}",
        ended.stderr
    );
}

/// The ids in a rejects file.
fn rejected(path: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let ids = text.lines().map(|line| {
        let record: Json = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let id = record["data"]["id"].as_str();
        id.unwrap_or_else(|| panic!("a reject without an id: {line}"))
            .to_owned()
    });
    ids.collect()
}

fn check(
    database: &Home,
    target: Target,
    format: Format,
    place: &CaseRow<'_>,
    rejected: &BTreeSet<String>,
    way: &str,
) {
    let CaseRow { id, case, value } = place;
    let value = &case.values[*value];
    let stored = Fate::Stored(None);
    let fate = match value.csv_only && format == Format::Parquet {
        true => &stored,
        false => value.fate(target),
    };
    let shown = value
        .text
        .as_ref()
        .map(|text| text.chars().take(60).collect::<String>());
    let what = format!("{way}: {} {shown:?}", case.name);
    let is_rejected = rejected.contains(&id.to_string());
    match fate {
        Fate::Rejected => assert!(is_rejected, "{what} was not rejected"),
        Fate::Stored(expected) => {
            assert!(!is_rejected, "{what} was rejected");
            let select = match target {
                Target::Postgres => format!("{}::text", case.name),
                Target::MariaDb => match case.name {
                    // Singles are shown by six digits, and bytes are no text.
                    "float32" => "CAST(float32 AS double)".to_owned(),
                    "binary_data" => "CONCAT('\\\\x', LOWER(HEX(binary_data)))".to_owned(),
                    name => name.to_owned(),
                },
                Target::Cassandra => match case.declared(target) {
                    Some("text" | "blob") => case.name.to_owned(),
                    Some("timestamp") => format!("CAST(toUnixTimestamp({}) AS text)", case.name),
                    _ => format!("CAST({} AS text)", case.name),
                },
                Target::Plain | Target::Strict => format!("{0}, typeof({0})", case.name),
            };
            let rows = database.rows(&format!("SELECT {select} FROM conformance WHERE id = {id}"));
            let found = match rows.as_slice() {
                [row] => match row.as_slice() {
                    [value, Some(class)] => value.as_ref().map(|value| format!("{class} {value}")),
                    [value, ..] => value.clone(),
                    [] => None,
                },
                _ => panic!("{what}: {} rows", rows.len()),
            };
            assert_eq!(found, *expected, "{what}");
        }
    }
}

/// Writes the input; with `turn` 1 every value is the next one of its case.
fn write(
    directory: &TempDir,
    name: &str,
    format: Format,
    cases: &[Case],
    places: &[CaseRow<'_>],
    turn: usize,
) -> PathBuf {
    match format {
        Format::Csv => {
            let path = directory.path().join(format!("{name}.csv"));
            std::fs::write(&path, csv(cases, places, turn)).expect("an input file");
            path
        }
        Format::Parquet => {
            let path = directory.path().join(format!("{name}.parquet"));
            let batch = batch(cases, places, turn);
            let file = File::create(&path).expect("an input file");
            let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a Parquet writer");
            writer.write(&batch).expect("a batch is written");
            writer.close().expect("the file is finished");
            path
        }
    }
}

fn csv(cases: &[Case], places: &[CaseRow<'_>], turn: usize) -> String {
    let names: Vec<_> = cases.iter().map(|case| case.name).collect();
    let mut text = format!("id,{}\n", names.join(","));
    for place in places {
        text.push_str(&place.id.to_string());
        for case in cases {
            text.push(',');
            if case.name == place.case.name {
                let value = &case.values[(place.value + turn) % case.values.len()];
                text.push_str(&value.text.as_deref().map(field).unwrap_or_default());
            }
        }
        text.push('\n');
    }
    text
}

/// A field that is not null.
fn field(text: &str) -> String {
    match text.is_empty() || text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn batch(cases: &[Case], places: &[CaseRow<'_>], turn: usize) -> RecordBatch {
    let ids: Vec<i64> = places.iter().map(|place| place.id).collect();
    let mut columns: Vec<(&str, ArrayRef)> = vec![("id", Arc::new(Int64Array::from(ids)))];
    let mut above = 0;
    for case in cases {
        let values = &case.arrow;
        assert_eq!(
            values.len(),
            case.values.len(),
            "{} has an Arrow value for each",
            case.name
        );
        let nulls = |rows| new_null_array(values.data_type(), rows);
        let parts = [
            nulls(above),
            values.slice(turn, values.len() - turn),
            values.slice(0, turn),
            nulls(places.len() - above - values.len()),
        ];
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        columns.push((case.name, concat(&parts).expect("parts of one type")));
        above += values.len();
    }
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .expect("columns of one length")
}
