//! Object stores and web servers in the place of disks: what a load and an unload promise holds there too.

mod clouds;
mod credentials;
mod faulty;
mod http;
mod many;
mod names;
mod reading;
mod stores;
mod writing;

use self::stores::Bucket;
use crate::support::{Database, Ran, TestDatabase};

/// Runs the program with a store at hand.
fn run(place: &TestDatabase, bucket: &Bucket, arguments: &str) -> Ran {
    place.run_with(arguments, &bucket.environment(), b"")
}

/// The same, and it must end well.
#[track_caller]
fn done(place: &TestDatabase, bucket: &Bucket, arguments: &str) -> Ran {
    let ran = run(place, bucket, arguments);
    assert_eq!(ran.code, Some(0), "{arguments}: {}{}", ran.stdout, ran.stderr);
    ran
}

/// A database with a table of so many rows, and the same rows in `rows.csv`.
fn sbtest(rows: u64) -> TestDatabase {
    let place = TestDatabase::new(Database::Sqlite);
    for arguments in [
        format!("generate sbtest --rows {rows} --seed 7 -o rows.csv"),
        "load rows.csv {db} -t sbtest --create --key id".to_owned(),
    ] {
        let ran = place.run(&arguments);
        assert_eq!(ran.code, Some(0), "{arguments}: {}", ran.stderr);
    }
    place
}

/// That a table holds the rows of `sbtest`, by their keys and values.
#[track_caller]
fn assert_same(place: &TestDatabase, table: &str) {
    let ran = place.run(&format!("verify rows.csv {{db}} -t {table} --key id"));
    assert_eq!(ran.code, Some(0), "{table}: {}{}", ran.stdout, ran.stderr);
}
