//! Rows that are given another shape on their way: columns made of others, files with differing columns, columns that the
//! table is given, SQL around the rows.

use crate::{
    process::tonnage,
    support::{ALL, Database, TestDatabase},
};

/// Runs the program with these arguments, of which `{db}` is the database; its code and what it said.
fn run(place: &TestDatabase, arguments: &[&str]) -> (Option<i32>, String) {
    let arguments = arguments.iter().map(|argument| match *argument {
        "{db}" => place.url(),
        other => other.to_owned(),
    });
    let mut command = tonnage();
    let ran = command
        .current_dir(place.path(""))
        .env("HOME", place.path(""))
        .args(arguments)
        .output()
        .expect("the program runs");
    (
        ran.status.code(),
        String::from_utf8_lossy(&ran.stderr).into_owned(),
    )
}

#[track_caller]
fn done(place: &TestDatabase, arguments: &[&str]) -> String {
    let (code, stderr) = run(place, arguments);
    assert_eq!(code, Some(0), "{:?} {arguments:?}\n{stderr}", place.database);
    stderr
}

#[track_caller]
fn refused(place: &TestDatabase, arguments: &[&str], words: &str) {
    let (code, stderr) = run(place, arguments);
    assert!(matches!(code, Some(1 | 2)), "{arguments:?}\n{stderr}");
    assert!(
        stderr.contains(words) && stderr.contains("hint: "),
        "{arguments:?}\n{stderr}"
    );
}

const PEOPLE: &str = "person,born,extra\nAda Lovelace,10.12.1815,\"{\"\"town\"\": \"\"London\"\", \"\"n\"\": 1.75}\"\n\
     Alan Turing,23.06.1912,{}\n";

#[test]
fn columns_are_made_of_others() {
    for &database in ALL {
        let table = "CREATE TABLE people (first varchar(20), last varchar(20), born date, town varchar(20), \
             n decimal(6,2), note varchar(60))";
        let place = TestDatabase::with(database, table, &[("people.csv", PEOPLE)]);
        let arguments = [
            "load",
            "people.csv",
            "{db}",
            "-t",
            "people",
            "--date-format",
            "dmy",
            // person and extra have no column of their own in the table.
            "--add",
            "first={split(person, ' ', 1)}",
            "--add",
            "last=upper(split(person, ' ', 2))",
            "--add",
            "town={coalesce(json(extra, '$.town'), 'unknown')}",
            "--add",
            "n={json(extra, '$.n')}",
            "--add",
            "note={file} {row}: {person}",
        ];
        done(&place, &arguments);
        assert_eq!(
            place.sql("SELECT first, last, born, town, n, note FROM people ORDER BY first"),
            [
                "Ada|LOVELACE|1815-12-10|London|1.75|people.csv 1: Ada Lovelace",
                "Alan|TURING|1912-06-23|unknown|-|people.csv 2: Alan Turing",
            ],
            "{database:?}"
        );
        // The same once more goes on with the same run; another value is another run.
        assert!(
            done(&place, &[&arguments[..], &["--resume"]].concat())
                .contains("has loaded all of this already")
        );
    }
}

#[test]
fn a_value_that_cannot_be_made_is_a_reject_that_loads_again() {
    let place = TestDatabase::with(
        Database::Sqlite,
        "CREATE TABLE t (a integer, b integer)",
        &[("x.csv", "a,text\n1,7\n2,seven\n3,9\n")],
    );
    let load = [
        "load",
        "x.csv",
        "{db}",
        "-t",
        "t",
        "--add",
        "b=cast(text as int)",
        "--rejects",
        "bad.jsonl",
    ];
    let (code, stderr) = run(&place, &load);
    assert_eq!(code, Some(3), "{stderr}");
    assert_eq!(place.sql("SELECT a, b FROM t ORDER BY a"), ["1|7", "3|9"]);
    let bad = place.read("bad.jsonl");
    assert!(
        bad.contains("\"row\":2") && bad.contains("seven") && bad.contains("\"column\":\"b\""),
        "{bad}"
    );
    place.write("bad.jsonl", bad.replace("seven", "8"));
    done(
        &place,
        &[
            "load",
            "bad.jsonl",
            "{db}",
            "-t",
            "t",
            "--add",
            "b=cast(text as int)",
        ],
    );
    assert_eq!(place.sql("SELECT a, b FROM t ORDER BY a"), ["1|7", "2|8", "3|9"]);
}

#[test]
fn columns_of_typed_files_and_of_databases_are_made_of_too() {
    let place = TestDatabase::with(
        Database::Sqlite,
        "CREATE TABLE t (id integer, price decimal(8,2), at timestamp);
         INSERT INTO t VALUES (1, '1.50', '2025-02-28 10:00:00'), (2, NULL, NULL)",
        &[],
    );
    done(&place, &["unload", "{db}", "-t", "t", "-o", "t.parquet"]);
    for source in [&["t.parquet"][..], &["{db}", "--source-table", "t"]] {
        let arguments = [
            &["load"],
            &source[..1],
            &["other.db", "-t", "made", "--create=replace"],
            &source[1..],
            &[
                "--add",
                "day=format(at, '%d.%m.%Y')",
                "--add",
                "shown={id}: {coalesce(price, 'none')}",
            ],
            &["--add", "twice=cast(concat(id, id), int)", "--add", "run={run}"],
        ]
        .concat();
        done(&place, &arguments);
        let out = place.run("get other.db 1 2 -t made --on id --columns id,day,shown,twice --format csv -q");
        let out = match out.code {
            Some(0) => out.stdout_exact,
            _ => {
                place
                    .run("unload other.db -t made --columns id,day,shown,twice -o - --format csv -q")
                    .stdout_exact
            }
        };
        assert!(
            out.contains("1,28.02.2025,1: 1.50,11") && out.contains("2,,2: none,22"),
            "{source:?}: {out}"
        );
    }
}

#[test]
fn files_with_other_columns_are_united_by_name() {
    for &database in ALL {
        let place = TestDatabase::with(
            database,
            "",
            &[
                ("1.csv", "id,a\n1,x\n2,y\n"),
                ("2.csv", "b,id\n1.5,3\n,4\n"),
                ("3.csv", "id,a,b\n5,z,2.25\n"),
                ("1.json", "{\"id\": 1, \"a\": \"x\"}\n"),
                ("2.json", "{\"id\": 2, \"b\": 2.5}\n"),
            ],
        );
        refused(
            &place,
            &["load", "1.csv", "2.csv", "{db}", "-t", "t", "--create"],
            "different columns",
        );
        done(
            &place,
            &[
                "load", "1.csv", "2.csv", "3.csv", "{db}", "-t", "t", "--create", "--union",
            ],
        );
        assert_eq!(
            place.sql("SELECT id, a, b FROM t ORDER BY id").len(),
            5,
            "{database:?}"
        );
        let rows = place.sql("SELECT id, a FROM t WHERE b IS NULL ORDER BY id");
        assert_eq!(rows, ["1|x", "2|y", "4|-"], "{database:?}");
        done(
            &place,
            &[
                "load", "1.json", "2.json", "{db}", "-t", "j", "--create", "--union",
            ],
        );
        assert_eq!(
            place.sql("SELECT id, a FROM j WHERE b IS NULL"),
            ["1|x"],
            "{database:?}"
        );
        // Files whose types are their own.
        for format in ["parquet", "arrow"] {
            let files = ["1", "2"].map(|name| format!("{name}.{format}"));
            let [first, second] = files.each_ref().map(String::as_str);
            for (columns, name) in [("id,a", first), ("b,id", second)] {
                done(
                    &place,
                    &["unload", "{db}", "-t", "t", "--columns", columns, "-o", name],
                );
            }
            let load = ["load", first, second, "{db}", "-t", format, "--create"];
            refused(&place, &load, "has no column");
            let load = [&load[..], &["--union", "--batch-rows", "2"]].concat();
            done(&place, &load);
            assert_eq!(
                place.sql(&format!(
                    "SELECT count(*), count(id), count(a), count(b) FROM {format}"
                )),
                ["10|10|3|2"],
                "{database:?} {format}"
            );
            assert!(
                done(&place, &[&load[..], &["--resume"]].concat()).contains("has loaded all of this already")
            );
        }
    }
}

#[test]
fn a_table_is_given_the_columns_that_it_lacks() {
    for &database in ALL {
        let place = TestDatabase::with(
            database,
            "CREATE TABLE t (id integer PRIMARY KEY, a varchar(9))",
            &[
                ("1.csv", "id,a,price,day\n1,x,1.75,2025-02-28\n2,y,2.25,\n"),
                ("2.csv", "id,a,price,day,odd name\n3,z,,,new\n"),
            ],
        );
        refused(&place, &["load", "1.csv", "{db}", "-t", "t"], "which table");
        let load = [
            "load",
            "1.csv",
            "{db}",
            "-t",
            "t",
            "--add-columns",
            "--type",
            "price=decimal(8,2)",
        ];
        let planned = place.run("load 1.csv {db} -t t --add-columns --dry-run");
        assert!(
            planned.stdout.contains("is given the column 'day', date"),
            "{}",
            planned.stdout
        );
        assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"]);
        done(&place, &load);
        assert_eq!(
            place.sql("SELECT id, price, day FROM t ORDER BY id"),
            ["1|1.75|2025-02-28", "2|2.25|-"],
            "{database:?}"
        );
        // There is nothing more to add, and the run is known.
        assert!(
            done(
                &place,
                &["load", "1.csv", "{db}", "-t", "t", "--add-columns", "--resume"]
            )
            .contains("has loaded all of this already")
        );
        let upsert = [
            "load",
            "2.csv",
            "{db}",
            "-t",
            "t",
            "--add-columns",
            "--mode",
            "upsert",
            "--key",
            "id",
        ];
        done(&place, &upsert);
        let quote = if database == Database::MariaDb { '`' } else { '"' };
        assert_eq!(
            place.sql(&format!("SELECT id, {quote}odd name{quote} FROM t ORDER BY id")),
            ["1|-", "2|-", "3|new"],
            "{database:?}"
        );
    }
}

#[test]
fn sql_is_run_around_the_rows() {
    for &database in ALL {
        let place = TestDatabase::with(
            database,
            "CREATE TABLE t (id integer PRIMARY KEY); CREATE TABLE seen (what varchar(20), rows_there integer)",
            &[("x.csv", "id\n1\n2\n3\n"), ("more.csv", "id\n4\n5\n")],
        );
        let load = [
            "load",
            "x.csv",
            "{db}",
            "-t",
            "t",
            "--before-sql",
            "INSERT INTO seen SELECT 'before', count(*) FROM t; INSERT INTO seen VALUES ('second', 0)",
            "--after-sql",
            "INSERT INTO seen SELECT 'after', count(*) FROM t",
            "--after-sql",
            "INSERT INTO missing VALUES (1)",
        ];
        let planned = run(&place, &[&load[..], &["--dry-run"]].concat());
        assert_eq!(
            (planned.0, place.sql("SELECT count(*) FROM seen")),
            (Some(0), vec!["0".to_owned()])
        );
        let (code, stderr) = run(&place, &load);
        assert_eq!(code, Some(1), "{stderr}");
        assert!(
            stderr.contains("--after-sql: ") && stderr.contains("missing"),
            "{stderr}"
        );
        let seen = "SELECT what, rows_there FROM seen ORDER BY what, rows_there";
        assert_eq!(
            place.sql(seen),
            ["after|3", "before|0", "second|0"],
            "{database:?}"
        );
        // What failed is done again, and nothing of what came before.
        place.sql("CREATE TABLE missing (a integer)");
        done(&place, &[&load[..], &["--resume"]].concat());
        assert_eq!(
            place.sql(seen),
            ["after|3", "after|3", "before|0", "second|0"],
            "{database:?}"
        );
        assert_eq!(place.sql("SELECT count(*) FROM t"), ["3"]);
        // Before the first row nothing is there to be gone on with.
        let (code, stderr) = run(
            &place,
            &["load", "more.csv", "{db}", "-t", "t", "--before-sql", "SELEC 1"],
        );
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("--before-sql: "), "{stderr}");
        done(&place, &["load", "more.csv", "{db}", "-t", "t"]);
        assert_eq!(place.sql("SELECT count(*) FROM t"), ["5"], "{database:?}");
    }
}
