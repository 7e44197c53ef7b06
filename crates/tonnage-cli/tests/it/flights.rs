//! A data set that nobody here wrote: the 336,776 flights that left New York City in 2013, nulls written as `NA`.
//!
//! What a table must hold is worked out from the file by another reader of CSV.

use std::{path::PathBuf, process::Command, sync::OnceLock};

use crate::{
    database::{Database, variable},
    process::{Running, count, report, tonnage},
};

const NULL: &str = "NA";

/// No two flights share it; every database takes it for a primary key.
const KEY: &str = "year,month,day,carrier,flight,origin";

/// Columns that are not whole numbers.
const TEXTS: [&str; 5] = ["carrier", "tailnum", "origin", "dest", "time_hour"];

/// A table as a person would write it, with types of several kinds.
const POSTGRES_TABLE: &str = "CREATE TABLE flights (
    year smallint, month smallint, day integer,
    dep_time smallint, sched_dep_time integer NOT NULL, dep_delay numeric(5,0),
    arr_time smallint, sched_arr_time integer NOT NULL, arr_delay numeric,
    carrier char(2), flight integer, tailnum varchar(6), origin char(3), dest text NOT NULL,
    air_time real, distance double precision NOT NULL, hour smallint, minute smallint,
    time_hour timestamptz NOT NULL,
    PRIMARY KEY (year, month, day, carrier, flight, origin))";

const SQLITE_TABLE: &str = "CREATE TABLE flights (
    year INTEGER, month INTEGER, day INTEGER,
    dep_time INTEGER, sched_dep_time INTEGER NOT NULL, dep_delay DECIMAL(5,0),
    arr_time INTEGER, sched_arr_time INTEGER NOT NULL, arr_delay NUMERIC,
    carrier TEXT, flight INTEGER, tailnum VARCHAR(6), origin TEXT, dest TEXT NOT NULL,
    air_time REAL, distance DOUBLE NOT NULL, hour INTEGER, minute INTEGER,
    time_hour TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (year, month, day, carrier, flight, origin))";

const MARIADB_TABLE: &str = "CREATE TABLE flights (
    year smallint, month smallint, day integer,
    dep_time smallint, sched_dep_time integer NOT NULL, dep_delay decimal(5,0),
    arr_time smallint, sched_arr_time integer NOT NULL, arr_delay decimal(10,0),
    carrier char(2), flight integer, tailnum varchar(6), origin char(3), dest text NOT NULL,
    air_time float, distance double NOT NULL, hour smallint, minute smallint,
    time_hour timestamp NOT NULL,
    PRIMARY KEY (year, month, day, carrier, flight, origin))";

const DUCKDB_TABLE: &str = "CREATE TABLE flights (
    year USMALLINT, month UTINYINT, day INTEGER,
    dep_time SMALLINT, sched_dep_time HUGEINT NOT NULL, dep_delay DECIMAL(5,0),
    arr_time SMALLINT, sched_arr_time INTEGER NOT NULL, arr_delay DECIMAL(38,10),
    carrier VARCHAR, flight INTEGER, tailnum VARCHAR, origin ENUM('EWR', 'JFK', 'LGA'), dest VARCHAR NOT NULL,
    air_time FLOAT, distance DOUBLE NOT NULL, hour UBIGINT, minute SMALLINT,
    time_hour TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (year, month, day, carrier, flight, origin))";

/// Text of a key has to be limited there.
const MARIADB_TYPES: [&str; 4] = ["--type", "carrier=varchar(2)", "--type", "origin=varchar(3)"];

/// What is in the file.
struct Truth {
    columns: Vec<String>,
    /// Nulls of each column.
    nulls: Vec<u64>,
    /// Sum of each column, of whole numbers.
    sums: Vec<i64>,
    /// Every row as `a,b,c`, sorted.
    lines: Vec<String>,
}

fn file() -> PathBuf {
    variable("TONNAGE_TEST_FLIGHTS").into()
}

fn truth() -> &'static Truth {
    static TRUTH: OnceLock<Truth> = OnceLock::new();
    TRUTH.get_or_init(|| {
        let mut reader = csv::Reader::from_path(file()).expect("the flights can be opened");
        let header = reader.headers().expect("the flights have a header");
        let columns: Vec<String> = header.iter().map(str::to_owned).collect();
        let mut truth = Truth {
            nulls: vec![0; columns.len()],
            sums: vec![0; columns.len()],
            lines: Vec::new(),
            columns,
        };
        for record in reader.records() {
            let record = record.expect("every flight can be read");
            for (at, value) in record.iter().enumerate() {
                if value == NULL {
                    truth.nulls[at] += 1;
                } else if !TEXTS.contains(&truth.columns[at].as_str()) {
                    truth.sums[at] += value.parse::<i64>().expect("a whole number");
                }
            }
            truth.lines.push(record.iter().collect::<Vec<_>>().join(","));
        }
        truth.lines.sort_unstable();
        truth
    })
}

/// Who makes the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    /// `--create`, with the types that are read off the file.
    Created,
    /// A person.
    Written,
}

#[test]
fn flights_into_a_created_sqlite_table() {
    loads(&Database::sqlite(), Table::Created);
}

#[test]
fn flights_into_a_written_sqlite_table() {
    loads(&Database::sqlite(), Table::Written);
}

#[test]
fn flights_into_a_created_postgres_table() {
    loads(&Database::postgres(), Table::Created);
}

#[test]
fn flights_into_a_written_postgres_table() {
    loads(&Database::postgres(), Table::Written);
}

#[test]
fn flights_into_a_created_mariadb_table() {
    loads(&Database::mariadb(), Table::Created);
}

#[test]
fn flights_into_a_written_mariadb_table() {
    loads(&Database::mariadb(), Table::Written);
}

#[test]
fn flights_into_a_created_duckdb_table() {
    loads(&Database::duckdb(), Table::Created);
}

#[test]
fn flights_into_a_written_duckdb_table() {
    loads(&Database::duckdb(), Table::Written);
}

fn loads(database: &Database, table: Table) {
    if let Database::MariaDb(_) = database {
        database.run("SET time_zone = '+00:00'");
    }
    let truth = truth();
    let rows = truth.lines.len() as u64;
    assert_eq!(rows, 336_776, "flights in the file");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let account = directory.path().join("report.json");
    let load = || -> Command {
        let mut command = tonnage();
        command.arg("load").arg(file()).arg(database.url());
        command.args(["--table", "flights", "--null", NULL, "--report"]);
        command.arg(&account);
        command
    };

    let mut command = load();
    match table {
        Table::Created => {
            command.args(["--create=new", "--key", KEY]);
            if let Database::MariaDb(_) = database {
                command.args(MARIADB_TYPES);
            }
        }
        Table::Written => {
            database.run(match database {
                Database::Sqlite(_) => SQLITE_TABLE,
                Database::Postgres(_) => POSTGRES_TABLE,
                Database::MariaDb(_) => MARIADB_TABLE,
                Database::DuckDb(_) => DUCKDB_TABLE,
            });
        }
    }
    Running::start(&mut command).wait().expect(0);
    assert_eq!(count(&report(&account), "/rows/written"), rows);
    if table == Table::Created {
        inferred(database);
    }
    sums(database);

    // An upsert by the key brings back what was changed and doubles nothing.
    database.run("UPDATE flights SET dep_delay = NULL, dest = '???', distance = 0 WHERE day < 20");
    database.run("DELETE FROM flights WHERE month = 7");
    Running::start(load().args(["--mode", "upsert", "--key", KEY]))
        .wait()
        .expect(0);
    assert_eq!(count(&report(&account), "/rows/read"), rows);
    sums(database);
    assert_eq!(lines(database), truth.lines, "rows");
}

/// Fails unless the columns have the types that the file suggests.
fn inferred(database: &Database) {
    let (query, whole, instant, text) = match database {
        Database::Sqlite(_) => (
            "SELECT name, type FROM pragma_table_info('flights') ORDER BY cid",
            "INTEGER",
            "TIMESTAMPTZ",
            "TEXT",
        ),
        Database::Postgres(_) => (
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'flights' \
             ORDER BY ordinal_position",
            "bigint",
            "timestamp with time zone",
            "text",
        ),
        Database::MariaDb(_) => (
            "SELECT column_name, IF(data_type = 'varchar', 'longtext', data_type) FROM information_schema.columns \
             WHERE table_schema = database() AND table_name = 'flights' ORDER BY ordinal_position",
            "bigint",
            "timestamp",
            "longtext",
        ),
        Database::DuckDb(_) => (
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'flights' ORDER BY column_index",
            "BIGINT",
            "TIMESTAMP WITH TIME ZONE",
            "VARCHAR",
        ),
    };
    let found = database.rows(query);
    let expected: Vec<_> = truth()
        .columns
        .iter()
        .map(|name| {
            let declared = match name.as_str() {
                "time_hour" => instant,
                name if TEXTS.contains(&name) => text,
                _ => whole,
            };
            vec![Some(name.clone()), Some(declared.to_owned())]
        })
        .collect();
    assert_eq!(found, expected);
}

/// Fails unless rows, nulls a column and sums a column are those of the file.
fn sums(database: &Database) {
    let truth = truth();
    let columns = truth
        .columns
        .iter()
        .map(|name| match TEXTS.contains(&name.as_str()) {
            true => format!("count(*) - count({name}), 0"),
            false => {
                let (number, whole) = match database {
                    Database::MariaDb(_) => (name.clone(), "signed"),
                    _ => (format!("CAST({name} AS numeric)"), "bigint"),
                };
                format!("count(*) - count({name}), CAST(sum({number}) AS {whole})")
            }
        });
    let columns: Vec<_> = columns.collect();
    let found = database.rows(&format!("SELECT count(*), {} FROM flights", columns.join(", ")));
    let mut expected = vec![Some(truth.lines.len().to_string())];
    for (nulls, sum) in truth.nulls.iter().zip(&truth.sums) {
        expected.extend([Some(nulls.to_string()), Some(sum.to_string())]);
    }
    assert_eq!(found, [expected], "rows, then nulls and sum of each column");
}

/// Every row of the table as it stands in the file, sorted.
fn lines(database: &Database) -> Vec<String> {
    let columns = truth().columns.iter().map(|name| {
        let text = match (database, name.as_str()) {
            (Database::Sqlite(_), "time_hour") => format!("strftime('%Y-%m-%dT%H:%M:%SZ', {name})"),
            (Database::Postgres(_), "time_hour") => {
                format!("to_char({name} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")
            }
            (Database::MariaDb(_), "time_hour") => format!("date_format({name}, '%Y-%m-%dT%H:%i:%sZ')"),
            (Database::MariaDb(_), name) => format!("CAST({name} AS char)"),
            (Database::DuckDb(_), "time_hour") => {
                format!("strftime({name} AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%SZ')")
            }
            (Database::DuckDb(_), "arr_delay") => format!("CAST(CAST({name} AS BIGINT) AS text)"),
            (Database::DuckDb(_), "air_time" | "distance") => {
                format!("format('{{:g}}', CAST({name} AS DOUBLE))")
            }
            // SQLite casts whole reals to 1.0; %g has room for every distance, and shows a fraction.
            (Database::Sqlite(_), "air_time" | "distance") => format!("printf('%g', {name})"),
            _ => format!("CAST({name} AS text)"),
        };
        format!("CASE WHEN {name} IS NULL THEN '{NULL}' ELSE {text} END")
    });
    let columns: Vec<_> = columns.collect();
    let line = match database {
        Database::MariaDb(_) => format!("concat_ws(',', {})", columns.join(", ")),
        _ => columns.join(" || ',' || "),
    };
    let rows = database.rows(&format!("SELECT {line} FROM flights"));
    let mut lines: Vec<String> = rows.into_iter().flatten().flatten().collect();
    lines.sort_unstable();
    lines
}
