//! What people get wrong, and the exact words that tell them: what and where, then the next step.

mod cases;
mod databases;
mod gets;
mod runs;
mod statements;
mod unloads;
mod whole;

use self::{
    cases::{MISTAKES, ORDERS},
    databases::DATABASES,
    runs::RUNS,
    statements::STATEMENTS,
    whole::WHOLE,
};
use crate::support::{
    Database::{self, Sqlite},
    TestDatabase, every,
};

struct Mistake {
    name: &'static str,
    on: Database,
    /// Statements before.
    sql: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// Commands before the one that is looked at; they may fail.
    before: &'static [&'static str],
    /// Files written between.
    changed: &'static [(&'static str, &'static str)],
    /// Statements between.
    altered: &'static str,
    arguments: &'static str,
    environment: &'static [(&'static str, &'static str)],
    /// Standard input.
    input: &'static str,
    /// Standard error, whole.
    says: &'static str,
    code: i32,
}

impl Mistake {
    const PLAIN: Self = Self {
        name: "",
        on: Sqlite,
        sql: ORDERS,
        files: &[("orders.csv", "id,qty\n1,2\n")],
        before: &[],
        changed: &[],
        altered: "",
        arguments: "load orders.csv {db} -t orders",
        environment: &[],
        input: "",
        says: "",
        code: 1,
    };
}

#[test]
fn a_mistake_is_told_with_its_place_and_the_next_step() {
    let unloads = unloads::MISTAKES.iter().chain(gets::MISTAKES);
    every(
        MISTAKES
            .iter()
            .chain(DATABASES)
            .chain(RUNS)
            .chain(WHOLE)
            .chain(STATEMENTS)
            .chain(unloads),
        |mistake| {
            let place = TestDatabase::with(mistake.on, mistake.sql, mistake.files);
            if mistake.environment.iter().any(|(name, _)| *name == "PGPASSFILE") {
                place.write("passwords", "*:*:*:*:wrong\n");
                private(&place, "passwords");
            }
            for command in mistake.before {
                place.run(command);
            }
            place.sql(mistake.altered);
            for (name, text) in mistake.changed {
                place.write(name, text);
            }
            let ran = place.run_with(mistake.arguments, mistake.environment, mistake.input.as_bytes());
            compare(
                mistake.name,
                (mistake.says, mistake.code),
                (&ran.stderr, ran.code),
            )
        },
    );
}

fn compare(name: &str, wanted: (&str, i32), ran: (&str, Option<i32>)) -> Result<(), String> {
    if (wanted.0, Some(wanted.1)) == ran {
        return Ok(());
    }
    Err(format!(
        "{name}: wanted {} and\n{}\n  but came {:?} and\n{}",
        wanted.1, wanted.0, ran.1, ran.0
    ))
}

fn private(place: &TestDatabase, name: &str) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(place.path(name), mode).expect("the mode is set");
}

#[test]
fn a_truncated_parquet_file_is_refused_before_the_first_row() {
    let place = TestDatabase::with(Sqlite, "CREATE TABLE readings (device integer)", &[]);
    place.run("generate readings --rows 100 -o r.parquet");
    let whole = std::fs::read(place.path("r.parquet")).expect("the file is made");
    let whole_length = whole.len();
    const END_MISSING: &str = "error: r.parquet is not a complete Parquet file: its end is missing\n\
        hint: it may still be being written, or a copy of it was cut short: copy or write it again\n";
    let cases: &[(&str, usize, &str)] = &[
        ("in half", whole_length / 2, END_MISSING),
        ("of its last byte", whole_length - 1, END_MISSING),
        (
            "to its first bytes",
            6,
            "error: r.parquet is not a complete Parquet file: it has 6 bytes only\n\
             hint: it may still be being written, or a copy of it was cut short: copy or write it again\n",
        ),
    ];
    every(cases, |(name, length, says)| {
        place.write("r.parquet", &whole[..*length]);
        let ran = place.run("load r.parquet {db} -t readings --columns device");
        compare(name, (says, 1), (&ran.stderr, ran.code))
    });
    assert_eq!(place.sql("SELECT count(*) FROM readings"), ["0"]);
}

#[test]
fn a_command_put_right_is_not_refused_for_the_run_that_failed() {
    for database in crate::support::BOTH {
        let files = &[("orders.csv", "id,qty\n1,2\n2,NA\n"), ("bad.jsonl", "{}\n")];
        let place = TestDatabase::with(*database, ORDERS, files);
        let wrong = [
            ("load orders.csv {db} -t orders", 1),
            ("load orders.csv {db} -t orders --rejects bad.jsonl", 2),
        ];
        for (arguments, code) in wrong {
            let ran = place.run(arguments);
            assert_eq!(ran.code, Some(code), "{}", ran.stderr);
        }
        place.load("orders.csv {db} -t orders --null NA");
        assert_eq!(place.sql("SELECT * FROM orders ORDER BY id"), ["1|2", "2|-"]);
    }
}
