//! Bad rows: each costs its own rejection and nothing else.

mod raised;

use std::{collections::BTreeMap, io::Write, os::unix::fs::PermissionsExt};

use crate::support::{
    Database::{self, MariaDb, Postgres, Sqlite},
    Ran, TestDatabase, assert_balanced,
};

const ROWS: u64 = 1_000_000;

/// Row 0 is there before. SQLite takes no notice of declared lengths, so a table of its own has a check.
const ENTRIES: &str = "CREATE TABLE entries (id bigint PRIMARY KEY,
    code varchar(8) NOT NULL CONSTRAINT code_is_short CHECK (length(code) <= 8),
    qty bigint CONSTRAINT qty_is_not_negative CHECK (qty >= 0), day date NOT NULL, note text);
    INSERT INTO entries VALUES (0, 'c0', 0, '2024-01-01', 'row 0')";

/// A column's constraints have no names there.
const ENTRIES_MARIADB: &str =
    "CREATE TABLE entries (id bigint PRIMARY KEY, code varchar(8) NOT NULL, qty bigint,
    day date NOT NULL, note text, CONSTRAINT qty_is_not_negative CHECK (qty >= 0));
    INSERT INTO entries VALUES (0, 'c0', 0, '2024-01-01', 'row 0')";

fn entries(database: Database) -> TestDatabase {
    let sql = if database == MariaDb {
        ENTRIES_MARIADB
    } else {
        ENTRIES
    };
    TestDatabase::with(database, sql, &[])
}

/// Code, column and message: SQLSTATE, or SQLite's name where it is SQLite that refuses the row.
type Reason = (&'static str, Option<&'static str>, &'static str);

/// A row that is put aside.
struct Bad {
    row: u64,
    /// The record; `{row}` is the number, `{before}` the one before.
    line: &'static [u8],
    sqlite: Reason,
    /// Where it differs.
    postgres: Option<Reason>,
}

const BAD: &[Bad] = &[
    Bad {
        row: 1,
        line: b"{row},c1,abc,2024-01-02,row",
        sqlite: ("22P02", Some("qty"), "'abc' is not an int64"),
        postgres: None,
    },
    Bad {
        row: 7_000,
        line: b"{row},c1,1.5,2024-01-02,row",
        sqlite: ("22P02", Some("qty"), "'1.5' is not an int64"),
        postgres: None,
    },
    Bad {
        row: 7_001,
        line: b"{row},c1,99999999999999999999,2024-01-02,row",
        sqlite: (
            "22003",
            Some("qty"),
            "'99999999999999999999' is out of range for int64",
        ),
        postgres: None,
    },
    Bad {
        row: 7_002,
        line: b"{row},c1,-99999999999999999999,2024-01-02,row",
        sqlite: (
            "22003",
            Some("qty"),
            "'-99999999999999999999' is out of range for int64",
        ),
        postgres: None,
    },
    Bad {
        row: 65_536,
        line: b"{row},ninechars,1,2024-01-02,row",
        sqlite: (
            "SQLITE_CONSTRAINT_CHECK",
            None,
            "CHECK constraint failed: code_is_short",
        ),
        postgres: Some((
            "22001",
            Some("code"),
            "'ninechars' has 9 characters, the column takes 8",
        )),
    },
    Bad {
        row: 65_537,
        line: "{row},äöüäöüäöü,1,2024-01-02,row".as_bytes(),
        sqlite: (
            "SQLITE_CONSTRAINT_CHECK",
            None,
            "CHECK constraint failed: code_is_short",
        ),
        postgres: Some((
            "22001",
            Some("code"),
            "'äöüäöüäöü' has 9 characters, the column takes 8",
        )),
    },
    Bad {
        row: 131_073,
        line: b"{row},,1,2024-01-02,row",
        sqlite: (
            "SQLITE_CONSTRAINT_NOTNULL",
            Some("code"),
            "NOT NULL constraint failed: entries.code",
        ),
        postgres: Some((
            "23502",
            Some("code"),
            "null value in column \"code\" of relation \"entries\" violates not-null \
             constraint (Failing row contains (131073, null, 1, 2024-01-02, row))",
        )),
    },
    Bad {
        row: 200_000,
        line: b"{row},c1,1,,row",
        sqlite: (
            "SQLITE_CONSTRAINT_NOTNULL",
            Some("day"),
            "NOT NULL constraint failed: entries.day",
        ),
        postgres: Some((
            "23502",
            Some("day"),
            "null value in column \"day\" of relation \"entries\" violates not-null \
             constraint (Failing row contains (200000, c1, 1, null, row))",
        )),
    },
    Bad {
        row: 250_000,
        line: b"{before},c1,1,2024-01-02,row",
        sqlite: (
            "SQLITE_CONSTRAINT_PRIMARYKEY",
            Some("id"),
            "UNIQUE constraint failed: entries.id",
        ),
        postgres: Some((
            "23505",
            None,
            "duplicate key value violates unique constraint \"entries_pkey\" (Key \
             (id)=(249999) already exists)",
        )),
    },
    Bad {
        row: 250_001,
        line: b"0,c1,1,2024-01-02,row",
        sqlite: (
            "SQLITE_CONSTRAINT_PRIMARYKEY",
            Some("id"),
            "UNIQUE constraint failed: entries.id",
        ),
        postgres: Some((
            "23505",
            None,
            "duplicate key value violates unique constraint \"entries_pkey\" (Key (id)=(0) \
             already exists)",
        )),
    },
    Bad {
        row: 300_000,
        line: b"{row},c1,1,2024-01-02,r\xffw",
        sqlite: ("22021", Some("note"), "'r\\xffw' is not UTF-8: byte 0xff at 2"),
        postgres: None,
    },
    Bad {
        row: 400_000,
        line: b"{row},c1,1,2024-01-02,\xe4\xf6",
        sqlite: ("22021", Some("note"), "'\\xe4\\xf6' is not UTF-8: byte 0xe4 at 1"),
        postgres: None,
    },
    Bad {
        row: 400_007,
        line: b"{row},c1,1,2024-01-02,r\0w",
        sqlite: ("22021", Some("note"), "contains a NUL byte"),
        postgres: None,
    },
    Bad {
        row: 500_000,
        line: b"{row},c\0,1,2024-01-02,row",
        sqlite: ("22021", Some("code"), "contains a NUL byte"),
        postgres: None,
    },
    Bad {
        row: 500_001,
        line: b"{row},c1,-5,2024-01-02,row",
        sqlite: (
            "SQLITE_CONSTRAINT_CHECK",
            None,
            "CHECK constraint failed: qty_is_not_negative",
        ),
        postgres: Some((
            "23514",
            None,
            "new row for relation \"entries\" violates check constraint \
             \"qty_is_not_negative\" (Failing row contains (500001, c1, -5, 2024-01-02, row))",
        )),
    },
    Bad {
        row: 600_000,
        line: b"{row},c1,-1,2024-01-02,row",
        sqlite: (
            "SQLITE_CONSTRAINT_CHECK",
            None,
            "CHECK constraint failed: qty_is_not_negative",
        ),
        postgres: Some((
            "23514",
            None,
            "new row for relation \"entries\" violates check constraint \
             \"qty_is_not_negative\" (Failing row contains (600000, c1, -1, 2024-01-02, row))",
        )),
    },
    Bad {
        row: 700_000,
        line: b"{row},c1,1,2024-01-02",
        sqlite: ("22P04", None, "4 fields where 5 were expected"),
        postgres: None,
    },
    Bad {
        row: 800_000,
        line: b"{row},c1,1,2024-01-02,row,more",
        sqlite: ("22P04", None, "6 fields where 5 were expected"),
        postgres: None,
    },
    Bad {
        row: 999_999,
        line: b"{row},c1,1,2023-02-29,row",
        sqlite: ("22008", Some("day"), "'2023-02-29' is a date that does not exist"),
        postgres: None,
    },
    Bad {
        row: 1_000_000,
        line: b"{row},c1,1,2024-13-01,row",
        sqlite: ("22008", Some("day"), "'2024-13-01' is a date that does not exist"),
        postgres: None,
    },
];

impl Bad {
    fn reason(&self, database: Database) -> Reason {
        match database {
            Sqlite => self.sqlite,
            Postgres => self.postgres.unwrap_or(self.sqlite),
            MariaDb => self.mariadb(),
        }
    }

    fn mariadb(&self) -> Reason {
        let check = "CONSTRAINT `qty_is_not_negative` failed for `{name}`.`entries`";
        match (self.row, self.postgres) {
            (131_073, _) => ("23502", Some("code"), "null in column 'code', which takes none"),
            (200_000, _) => ("23502", Some("day"), "null in column 'day', which takes none"),
            (250_000, _) => ("1062", None, "Duplicate entry '249999' for key 'PRIMARY'"),
            (250_001, _) => ("1062", None, "Duplicate entry '0' for key 'PRIMARY'"),
            (500_001 | 600_000, _) => ("4025", None, check),
            (_, found) => found.unwrap_or(self.sqlite),
        }
    }
}

/// Every good row's columns follow from its id; see [`loaded`].
fn good_line(out: &mut Vec<u8>, row: u64) {
    let (code, qty, day) = (row % 9_973, row % 1_000, 1 + row % 28);
    writeln!(out, "{row},c{code},{qty},2024-01-{day:02},row {row}").expect("memory");
}

fn bad_line(out: &mut Vec<u8>, bad: &Bad) {
    let mut left = bad.line;
    for (name, value) in [("{row}", bad.row), ("{before}", bad.row - 1)] {
        if let Some(rest) = left.strip_prefix(name.as_bytes()) {
            write!(out, "{value}").expect("memory");
            left = rest;
        }
    }
    out.extend_from_slice(left);
    out.push(b'\n');
}

fn a_million_rows() -> Vec<u8> {
    let mut out = b"id,code,qty,day,note\n".to_vec();
    let mut bad = BAD.iter().peekable();
    for row in 1..=ROWS {
        match bad.next_if(|bad| bad.row == row) {
            Some(bad) => bad_line(&mut out, bad),
            None => good_line(&mut out, row),
        }
    }
    out
}

/// How many rows there are, how many of them are what their id says, and sums that tell which ids they are.
fn loaded(place: &TestDatabase) -> String {
    let day = match place.database {
        Sqlite => "printf('2024-01-%02d', 1 + id % 28)",
        Postgres => "date '2024-01-01' + (id % 28)::int",
        MariaDb => "date '2024-01-01' + INTERVAL (id % 28) DAY",
    };
    let (code, note) = match place.database {
        MariaDb => ("concat('c', id % 9973)", "concat('row ', id)"),
        _ => ("'c' || (id % 9973)", "'row ' || id"),
    };
    let rows = place.sql(&format!(
        "SELECT count(*), sum(CASE WHEN code = {code} AND qty = id % 1000 AND day = {day}
         AND note = {note} THEN 1 ELSE 0 END), sum(id), sum(id * id % 1000003) FROM entries"
    ));
    rows.into_iter().next().expect("one row")
}

/// What [`loaded`] says where the rows 0 to `last` but for `missing` are there.
fn wanted(last: u64, missing: &[u64]) -> String {
    let ids = || (0..=last).filter(|id| !missing.contains(id));
    let count = ids().count();
    let (sum, squares) = (
        ids().sum::<u64>(),
        ids().map(|id| id * id % 1_000_003).sum::<u64>(),
    );
    format!("{count}|{count}|{sum}|{squares}")
}

fn records(place: &TestDatabase, name: &str) -> BTreeMap<u64, serde_json::Value> {
    let mut records = BTreeMap::new();
    for line in place.read(name).replace(&place.name, "{name}").lines() {
        let record: serde_json::Value = serde_json::from_str(line).expect("a record is JSON");
        let row = record["row"].as_u64().expect("a row number");
        assert!(records.insert(row, record).is_none(), "row {row} stands twice");
    }
    records
}

fn reason(record: &serde_json::Value) -> (&str, Option<&str>, &str) {
    let text = |name: &str| record[name].as_str();
    let must = |name: &str| text(name).unwrap_or_else(|| panic!("{record} has no {name}"));
    (must("code"), text("column"), must("message"))
}

fn report(place: &TestDatabase) -> serde_json::Value {
    let report = serde_json::from_str(&place.read("report.json")).expect("the report is JSON");
    assert_balanced(&report);
    report
}

fn assert_ended(ran: &Ran, code: i32, words: &str) {
    assert_eq!(ran.code, Some(code), "{}", ran.stderr);
    assert!(ran.stderr.contains(words), "'{words}' is not in\n{}", ran.stderr);
}

fn twenty_bad_rows_among_a_million(database: Database) {
    let place = entries(database);
    place.write("entries.csv", a_million_rows());
    let ran = place.run(
        "load entries.csv {db} -t entries -j 4 --on-error reject --rejects bad.jsonl --report report.json",
    );
    assert_ended(&ran, 3, "  1,000,000 read = 999,980 written + 20 rejected\n");
    assert_ended(&ran, 3, "  rejects in {directory}/bad.jsonl\n");

    let bad: Vec<u64> = BAD.iter().map(|bad| bad.row).collect();
    assert_eq!(loaded(&place), wanted(ROWS, &bad));

    let records = records(&place, "bad.jsonl");
    let found: Vec<_> = records
        .iter()
        .map(|(row, record)| (*row, reason(record)))
        .collect();
    let expected: Vec<_> = BAD.iter().map(|bad| (bad.row, bad.reason(database))).collect();
    assert_eq!(found, expected);
    let content = place.read_bytes("entries.csv");
    for (row, record) in &records {
        assert_eq!(record["file"], "entries.csv");
        let offset = record["offset"].as_u64().expect("text has offsets") as usize;
        let bad = BAD.iter().find(|bad| bad.row == *row).expect("a bad row");
        let mut line = Vec::new();
        bad_line(&mut line, bad);
        assert_eq!(&content[offset..offset + line.len()], line, "offset of row {row}");
    }
    let mode = std::fs::metadata(place.path("bad.jsonl"))
        .expect("the file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let report = report(&place);
    assert_eq!(report["rows"]["rejected"], 20);
    assert_eq!(report["rows"]["written"], 999_980);
    assert_eq!(report["state"], "finished");
}

#[test]
fn sqlite_loads_all_but_twenty_bad_rows_of_a_million() {
    twenty_bad_rows_among_a_million(Sqlite);
}

#[test]
fn postgres_loads_all_but_twenty_bad_rows_of_a_million() {
    twenty_bad_rows_among_a_million(Postgres);
}

#[test]
fn mariadb_loads_all_but_twenty_bad_rows_of_a_million() {
    twenty_bad_rows_among_a_million(MariaDb);
}

/// As `entries.csv`, `count` rows of which those in `bad` are.
fn rows_with(count: u64, bad: impl Fn(u64) -> Option<&'static str>) -> Vec<u8> {
    let mut out = b"id,code,qty,day,note\n".to_vec();
    for row in 1..=count {
        match bad(row) {
            Some(qty) => writeln!(out, "{row},c1,{qty},2024-01-02,row").expect("memory"),
            None => good_line(&mut out, row),
        }
    }
    out
}

/// Found by the database, and found while reading.
const KINDS: &[(&str, &str, &str)] = &[
    (
        "-1",
        "CHECK constraint failed: qty_is_not_negative",
        "violates check constraint \"qty_is_not_negative\"",
    ),
    (
        "x",
        "column 'qty': 'x' is not an int64",
        "column 'qty': 'x' is not an int64",
    ),
];

#[test]
fn stop_stops_at_the_first_bad_row_and_leaves_whole_writes_only() {
    const BATCH: u64 = 1_000;
    for database in [Sqlite, Postgres, MariaDb] {
        for (value, sqlite, postgres) in KINDS {
            let place = entries(database);
            let is_bad = |row| (row == 15_500 || row == 20_000).then_some(*value);
            place.write("entries.csv", rows_with(30_000, is_bad));
            let ran = place.run(
                "load entries.csv {db} -t entries -j 1 --batch-rows 1000 --sort none --report report.json",
            );
            assert_ended(&ran, 1, "error: entries.csv row 15500");
            let words = match (database, *value) {
                (Sqlite, _) => sqlite,
                (MariaDb, "-1") => "CONSTRAINT `qty_is_not_negative` failed",
                _ => postgres,
            };
            assert_ended(&ran, 1, words);
            assert_ended(
                &ran,
                1,
                "hint: --on-error reject puts bad rows aside and goes on\n",
            );
            let report = report(&place);
            let written = report["rows"]["written"].as_u64().expect("a count");
            assert!(
                written.is_multiple_of(BATCH) && written < 15_500,
                "{written} written"
            );
            assert_eq!(report["rows"]["rejected"], 0);
            assert_eq!(report["state"], "stopped");
            assert_eq!(loaded(&place), wanted(written, &[]));
            let left: Vec<_> = std::fs::read_dir(place.path("."))
                .expect("the directory")
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .filter(|name| name.contains("rejects"))
                .collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

#[test]
fn a_resume_that_puts_bad_rows_aside_finishes_what_stop_stopped() {
    for database in [Sqlite, Postgres, MariaDb] {
        let place = entries(database);
        let bad = [15_500, 20_000];
        place.write(
            "entries.csv",
            rows_with(30_000, |row| bad.contains(&row).then_some("-1")),
        );
        let load = "load entries.csv {db} -t entries --sort none --batch-rows 1000";
        let ran = place.run(&format!("{load} -j 1"));
        assert_ended(&ran, 1, "error: entries.csv row 15500");
        let ran = place.run(&format!(
            "{load} -j 3 --resume --on-error reject --report report.json"
        ));
        assert_ended(&ran, 3, " + 2 rejected\n");
        assert_eq!(loaded(&place), wanted(30_000, &bad));
        let rows = &report(&place)["rows"];
        assert_eq!((&rows["rejected"], &rows["unfinished"]), (&2.into(), &0.into()));
    }
}

#[test]
fn a_file_that_is_all_bad_stops_at_max_rejects_having_done_little() {
    for database in [Sqlite, Postgres, MariaDb] {
        for (value, _, _) in KINDS {
            let place = entries(database);
            place.write("entries.csv", rows_with(ROWS, |_| Some(value)));
            let ran = place.run(
                "load entries.csv {db} -t entries --rejects bad.jsonl --max-rejects 100 --report report.json",
            );
            assert_ended(&ran, 1, "error: more than 100 rows are bad\n");
            assert_ended(
                &ran,
                1,
                "hint: look at {directory}/bad.jsonl; --max-rejects allows more\n",
            );
            let report = report(&place);
            let (read, statements) = (report["rows"]["read"].as_u64(), report["statements"].as_u64());
            // What is found while reading stops it at once. Where the database finds it, reading goes on until the
            // queue is full: the next test.
            if statements == Some(0) {
                assert!(read.is_some_and(|read| read <= ROWS / 10), "{read:?} rows read");
            }
            assert!(
                statements.is_some_and(|n| n <= 1_000),
                "{statements:?} statements"
            );
            let records = records(&place, "bad.jsonl");
            assert!(records.len() <= 100, "{} records", records.len());
            assert_eq!(loaded(&place), wanted(0, &[]));
        }
    }
}

#[test]
fn reading_goes_ahead_of_a_database_that_refuses_every_row_no_further_than_the_queue() {
    const NOTE_BYTES: usize = 1_000;
    const FILE_BYTES: usize = 160 << 20;
    // What the plan allows one job with writes of 1 MiB (25 MiB), the blocks that are being read and dealt, and what
    // a row takes beside its note.
    const AHEAD_BYTES: u64 = 64 << 20;
    for database in [Sqlite, Postgres] {
        let place = TestDatabase::with(database, ENTRIES, &[]);
        let mut lines = b"id,code,qty,day,note\n".to_vec();
        let note = "n".repeat(NOTE_BYTES);
        let mut row = 0;
        while lines.len() < FILE_BYTES {
            row += 1;
            writeln!(lines, "{row},c1,-1,2024-01-02,{note}").expect("memory");
        }
        place.write("entries.csv", lines);
        let load = "load entries.csv {db} -t entries -j 1 --batch-bytes 1MiB --rejects bad.jsonl";
        let plan = place.run(&format!("{load} --dry-run"));
        assert!(
            plan.stdout.contains("queue        at most 25.0 MiB\n"),
            "{}",
            plan.stdout
        );
        let ran = place.run(&format!("{load} --max-rejects 100 --report report.json"));
        assert_ended(&ran, 1, "error: more than 100 rows are bad\n");
        let read = report(&place)["rows"]["read"].as_u64().expect("a count");
        assert!(
            read > 100 && read * NOTE_BYTES as u64 <= AHEAD_BYTES,
            "{read} rows read"
        );
    }
}
