//! Tables that `--create` makes take the rows that they were made for, or the columns that stand against it are named
//! before anything is made.

use crate::support::{
    ALL,
    Database::{self, MariaDb, Postgres, Sqlite},
    TestDatabase,
};

/// Rows that real files have, and what else the command is given.
const FILES: &[(&str, &str, &str)] = &[
    (
        "doubles",
        "lat,lon\n51.50735199999999,-0.12775829999999\n-33.8688197,151.20929550000005\n",
        "",
    ),
    ("digits beyond a double", "a\n0.12345678901234567891\n1.5\n", ""),
    ("integers beyond 64 bits", "a\n18446744073709551616\n-1\n", ""),
    (
        "forty digits",
        "a\n1234567890123456789012345678901234567890\n2\n",
        "",
    ),
    (
        "seventy digits",
        "a\n1234567890123456789012345678901234567890123456789012345678901234567890\n2\n",
        "",
    ),
    (
        "the ends of 64 bits",
        "a\n9223372036854775807\n-9223372036854775808\n",
        "",
    ),
    ("exponents", "a\n1e-07\n0.30000000000000004\n12\n", ""),
    (
        "an exponent beside digits beyond a double",
        "a\n1e3\n0.12345678901234567891\n",
        "",
    ),
    ("no numbers", "a,b\n1.5,1.5\nnan,inf\nNaN,-inf\n", ""),
    (
        "no number beside digits beyond a double",
        "a\nnan\n0.12345678901234567891\n",
        "",
    ),
    ("eighteen places", "a\n0.000000000000000123\n17.25\n", ""),
    (
        "thirty-five places",
        "a\n0.00000000000000000000000000000000001\n17.25\n",
        "",
    ),
    (
        "wide and fine",
        "a\n12345678901234567890123456789012.5\n0.00000000000125\n",
        "",
    ),
    ("small doubles", "a\n5e-324\n1.5\n", ""),
    (
        "instants",
        "a\n2106-02-08T00:00:00Z\n1901-01-01T00:00:00+01:00\n",
        "",
    ),
    (
        "instants of these years",
        "a\n2024-02-29T12:00:00Z\n1999-12-31 23:59:59.5+01:00\n",
        "",
    ),
    (
        "dates at the ends",
        "a,b\n0001-01-01,9999-12-31 23:59:59\n9999-12-31,1000-01-01 00:00:00\n",
        "",
    ),
    ("dates and words", "a\n2024-02-29\nsoon\n", ""),
    ("leading zeros", "a\n007\n08\n", ""),
    ("times", "a\n23:59:59\n00:00:00.25\n", ""),
    ("truth", "a\ntrue\nf\n", ""),
    (
        "uuids",
        "a\n123e4567-e89b-12d3-a456-426614174000\n00000000-0000-0000-0000-000000000000\n",
        "",
    ),
    ("an empty column", "a,b\n1,\n2,\n", ""),
    ("words of SQL", "select,order,group by\n1,2,3\n", ""),
    ("odd names", "\"a\"\"b\",`c`,ä ö,x.y\n1,2,3,4\n", ""),
    ("a key of text", "code,n\nabc,1\ndef,2\n", "--key code"),
    ("a key of three texts", "a,b,c\nx,y,z\nx,y,w\n", "--key a,b,c"),
    ("a key of a decimal", "a,n\n1.25,1\n2.5,2\n", "--key a"),
    ("a key of a date", "a,n\n2024-02-29,1\n2024-03-01,2\n", "--key a"),
    (
        "typed",
        "a,b\n1,2\n",
        "--type a=varchar(3000) --type b=varchar(4000)",
    ),
];

/// A number as its significant digits and the power of ten of the last, or the text itself.
fn plain(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let unsigned = lower.strip_prefix('-').unwrap_or(&lower);
    let (mantissa, exponent) = unsigned.split_once('e').unwrap_or((unsigned, "0"));
    let (whole, places) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{places}");
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let Ok(exponent) = exponent.parse::<i64>() else {
        return lower;
    };
    if !is_number || (whole.len() > 1 && whole.starts_with('0')) {
        return lower.replace("infinity", "inf");
    }
    let significant = digits.trim_start_matches('0');
    let stripped = significant.trim_end_matches('0');
    let power = exponent - places.len() as i64 + (significant.len() - stripped.len()) as i64;
    match stripped {
        "" => "0".to_owned(),
        _ => format!(
            "{}{stripped}e{power}",
            if lower.starts_with('-') { "-" } else { "" }
        ),
    }
}

fn lines(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_reader(text.as_bytes());
    let rows = reader.records().map(|record| record.expect("a record"));
    rows.map(|row| row.iter().map(plain).collect()).collect()
}

#[test]
fn what_is_made_for_rows_takes_them() {
    for database in ALL {
        for (name, csv, options) in FILES {
            let place = TestDatabase::with(*database, "", &[("rows.csv", csv)]);
            let ran = place.run(&format!(
                "load rows.csv {{db}} -t made --create --ledger none {options}"
            ));
            assert_eq!(ran.code, Some(0), "{database:?} {name}: {}", ran.stderr);
            let ran = place.run("unload {db} -t made -o - -j 1 -q");
            assert_eq!(ran.code, Some(0), "{database:?} {name}: {}", ran.stderr);
            let (mut out, mut wanted) = (lines(&ran.stdout_exact), lines(csv));
            // Times are spelt in more than one way, and truth as numbers.
            if ![
                "instants",
                "instants of these years",
                "dates at the ends",
                "times",
                "truth",
            ]
            .contains(name)
            {
                out[1..].sort();
                wanted[1..].sort();
                assert_eq!(out, wanted, "{database:?} {name}");
            }
            assert_eq!(out.len(), wanted.len(), "{database:?} {name}");
        }
    }
}

#[test]
fn decimals_come_back_as_they_were_written() {
    // From standard input only the first rows are known, and later ones may have more places.
    for (input, wanted) in [
        ("rows.csv", "n\n1.50\n20.00\n"),
        ("-", "n\n1.5000000000\n20.0000000000\n"),
    ] {
        let place = TestDatabase::with(Database::MariaDb, "", &[("rows.csv", "n\n1.50\n20\n")]);
        let load = format!("load {input} {{db}} -t made --create --ledger none --format csv");
        let ran = place.run_with(&load, &[], b"n\n1.50\n20\n");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let ran = place.run("unload {db} -t made -o - -j 1 -q");
        assert_eq!(ran.stdout_exact, wanted, "{}", ran.stderr);
    }
}

#[test]
fn a_wide_table_is_made_where_the_database_has_such() {
    let header: Vec<String> = (0..180).map(|n| format!("text_{n}")).collect();
    let row: Vec<String> = (0..180).map(|n| format!("word {n}")).collect();
    let csv = format!("{}\n{}\n", header.join(","), row.join(","));
    let long: Vec<String> = (0..20)
        .map(|n| format!("--type text_{n}=varchar(4000)"))
        .collect();
    for database in ALL {
        for options in ["", &long.join(" ")] {
            let place = TestDatabase::with(*database, "", &[("rows.csv", &csv)]);
            let report = place.load(&format!("rows.csv {{db}} -t made --create {options}"));
            assert_eq!(report["rows"]["written"], 1, "{database:?}");
        }
    }
}

#[test]
fn all_that_stands_against_a_table_is_said_at_once() {
    let long = |letter: &str| letter.repeat(70);
    let many = (0..2_100).map(|n| format!("c{n}")).collect::<Vec<_>>().join(",");
    let folded = "Id,id,NAME,name,x\n1,2,3,4,5\n".to_owned();
    let names = format!("{},{},x\n1,2,3\n", long("q"), long("z"));
    // Names that were asked for are not fitted.
    let asked = "--columns Id,id,NAME,name,x";
    let asked_long = format!("--columns {},{},x", long("q"), long("z"));
    let texts = format!("a,b\n{},{}\n", "x".repeat(500), "y".repeat(500));
    // Where, the rows, options, and what is said.
    type Case<'a> = (Database, &'a str, &'a str, &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        (Sqlite, &folded, asked, &["'Id' and 'id'", "'NAME' and 'name'"]),
        (MariaDb, &folded, asked, &["'Id' and 'id'", "'NAME' and 'name'"]),
        (Postgres, &names, &asked_long, &["'qqqq", "'zzzz", "--map"]),
        (MariaDb, &names, &asked_long, &["'qqqq", "'zzzz", "--map"]),
        (Sqlite, &many, "", &["2100 columns", "2000", "--columns"]),
        (Postgres, &many, "", &["2100 columns", "1600", "--columns"]),
        (MariaDb, &many, "", &["2100 columns", "1017", "--columns"]),
        (
            MariaDb,
            &texts,
            "--key a,b",
            &["'a' is to be a key", "'b' is to be a key", "--type"],
        ),
    ];
    for (database, csv, options, said) in cases {
        let place = TestDatabase::with(*database, "", &[("rows.csv", csv)]);
        let ran = place.run(&format!("load rows.csv {{db}} -t made --create {options}"));
        assert_eq!(ran.code, Some(1), "{database:?}: {}", ran.stderr);
        for words in *said {
            assert!(ran.stderr.contains(words), "{database:?} {words}: {}", ran.stderr);
        }
        assert_eq!(place.run("load rows.csv {db} -t made").code, Some(1));
    }
    for (database, csv, said) in [
        (Sqlite, &folded, "'id' is called 'id_2'"),
        (MariaDb, &folded, "'name' is called 'name_2'"),
        (Postgres, &names, "is called 'qqqq"),
        (MariaDb, &names, "is called 'zzzz"),
    ] {
        let place = TestDatabase::with(database, "", &[("rows.csv", csv)]);
        for _ in 0..2 {
            let ran = place.run("load rows.csv {db} -t made --create --restart");
            assert_eq!(ran.code, Some(0), "{database:?}: {}", ran.stderr);
            assert!(ran.stderr.contains(said), "{database:?}: {}", ran.stderr);
        }
    }
    // Names that differ by case are two to PostgreSQL, and are given others where they are one.
    let place = TestDatabase::with(Postgres, "", &[("rows.csv", &folded)]);
    assert_eq!(place.load("rows.csv {db} -t made --create")["rows"]["written"], 1);
    let place = TestDatabase::with(Sqlite, "", &[("rows.csv", &folded)]);
    let mapped = "rows.csv {db} -t made --create --map id=id_2 --map name=name_2";
    assert_eq!(place.load(mapped)["rows"]["written"], 1);
    assert_eq!(
        place.sql("SELECT \"Id\", id_2, \"NAME\", name_2 FROM made"),
        ["1|2|3|4"]
    );
}

/// Rows of which the last but one tells that the first ones have misled.
fn misleading() -> String {
    let rows: String = (1..=30_000).map(|n| format!("{n},{n}\n")).collect();
    format!("id,code\n{rows}30001,x7\n30002,8\n")
}

#[test]
fn a_type_that_the_first_rows_suggest_is_put_right_by_the_command_that_is_named() {
    for database in ALL {
        let place = TestDatabase::with(*database, "", &[("rows.csv", &misleading())]);
        let load = "load rows.csv {db} -t made --key id --batch-rows 5000";
        let ran = place.run(&format!("{load} --create --scan sample"));
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("rows.csv row 30001, column 'code'"),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains("--create=replace --scan all"),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains("--create=replace --type 'code=text'"),
            "{}",
            ran.stderr
        );
        let ran = place.run(&format!("{load} --create=replace --resume"));
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        for set_right in ["--create=replace --scan all", "--create=replace --type code=text"] {
            let ran = place.run(&format!("{load} {set_right}"));
            assert_eq!(ran.code, Some(0), "{database:?} {set_right}: {}", ran.stderr);
            assert_eq!(place.sql("SELECT count(*), min(code) FROM made"), ["30002|1"]);
            let runs = place.run("runs {db}");
            assert!(!runs.stdout.contains("unfinished"), "{}", runs.stdout);
        }
        let ran = place.run_with(
            "load - {db} -t made --create=replace --scan all",
            &[],
            misleading().as_bytes(),
        );
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert_eq!(place.sql("SELECT count(*) FROM made"), ["30002"]);
    }
}

#[test]
fn all_files_and_all_lines_are_looked_at() {
    let lines: String = (1..=12_000).map(|n| format!("{{\"id\": {n}}}\n")).collect();
    let lines = format!("{lines}{{\"id\": 0.5, \"late\": \"x\"}}\n");
    let files = [
        ("in/a.csv", "id,n\n1,2\n"),
        ("in/b.csv", "id,n\n2,2.5\n"),
        ("in/c.csv", "id,n\n3,word\n"),
        ("rows.jsonl", &lines),
    ];
    for database in ALL {
        let place = TestDatabase::with(*database, "", &files);
        let report = place.load("in {db} -t made --create --scan all");
        assert_eq!(report["rows"]["written"], 3);
        assert_eq!(place.sql("SELECT n FROM made ORDER BY id"), ["2", "2.5", "word"]);
        let report = place.load("rows.jsonl {db} -t lines --create --scan all");
        assert_eq!(report["rows"]["written"], 12_001);
        assert_eq!(
            place.sql(
                "SELECT count(*) FROM \"lines\""
                    .replace('"', if *database == MariaDb { "`" } else { "\"" })
                    .as_str()
            ),
            ["12001"]
        );
    }
}

#[test]
fn a_table_of_a_run_that_commits_nothing_is_dropped_again() {
    for database in ALL {
        let place = TestDatabase::with(*database, "", &[("rows.csv", "id,n\nx,1\n2,2\n")]);
        for options in ["", "--ledger none", "-1", "-1 --ledger none"] {
            let ran = place.run(&format!(
                "load rows.csv {{db}} -t made --create --type id=int64 {options}"
            ));
            assert_eq!(ran.code, Some(1), "{options}: {}", ran.stderr);
            let ran = place.run("load rows.csv {db} -t made");
            assert!(
                ran.stderr.contains("there is no table made"),
                "{database:?} {options}: {}",
                ran.stderr
            );
        }
        // What is put right loads, without a word about a run or a table that are there.
        place.load("rows.csv {db} -t made --create --type id=text");
        // A table that was there before stays, and one with rows is not replaced by a failure before it is dropped.
        let ran = place.run("load rows.csv {db} -t made --create --columns id,none");
        assert_ne!(ran.code, Some(0));
        assert_eq!(place.sql("SELECT count(*) FROM made"), ["2"]);
    }
}

#[test]
fn rows_that_others_belong_to_are_not_dropped() {
    let tables = "CREATE TABLE parents (id bigint PRIMARY KEY); \
        CREATE TABLE children (id bigint PRIMARY KEY, parent bigint, \
            FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE); \
        INSERT INTO parents VALUES (1); INSERT INTO children VALUES (1, 1)";
    for database in ALL {
        let place = TestDatabase::with(*database, tables, &[("rows.csv", "id\n5\n")]);
        let ran = place.run("load rows.csv {db} -t parents --create=replace");
        assert_eq!(ran.code, Some(1), "{database:?}: {}", ran.stderr);
        assert_eq!(place.sql("SELECT id FROM parents"), ["1"]);
        assert_eq!(place.sql("SELECT id FROM children"), ["1"]);
    }
}
