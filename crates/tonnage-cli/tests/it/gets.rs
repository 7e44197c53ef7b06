//! `tonnage get`: rows by their keys, and the keys that are not there.

use std::fmt::Write;

use crate::support::{ALL, BOTH, Database::Sqlite, TestDatabase};

const SHOP: &str = "
    CREATE TABLE orders (id integer PRIMARY KEY, customer text, total numeric(10,2));
    INSERT INTO orders VALUES (1, 'Ada', 12.50), (2, 'Grace', NULL), (3, '', 0.10), (-4, 'Alan, T.', 99);
    CREATE TABLE lines (order_id integer, line integer, article text, PRIMARY KEY (order_id, line));
    INSERT INTO lines VALUES (1, 1, 'pen'), (1, 2, 'ink'), (1, 3, 'paper'), (2, 1, 'lamp'), (3, 1, 'chair');
    CREATE TABLE people (name text, city text, note text, UNIQUE (city, name));
    INSERT INTO people VALUES ('Ada', 'London', 'first'), ('Alan', 'London', 'second')";

#[test]
fn rows_go_to_standard_output_and_everything_else_does_not() {
    for database in BOTH {
        let place = TestDatabase::with(*database, SHOP, &[]);
        let cases = [
            (
                "1 3 7 1 -4",
                "id,customer,total\n-4,\"Alan, T.\",99.00\n1,Ada,12.50\n3,\"\",0.10\n",
            ),
            ("1 -4 7 1 --ordered --columns id", "id\n1\n-4\n1\n"),
            ("2 --columns total,id --no-header", ",2\n"),
            (
                "2 1 --format jsonl --columns id,total",
                "{\"id\":1,\"total\":12.50}\n{\"id\":2,\"total\":null}\n",
            ),
            ("9", "id,customer,total\n"),
        ];
        for (arguments, wanted) in cases {
            let ran = place.run(&format!("get {{db}} {arguments} -t orders"));
            assert_eq!(ran.code, Some(0), "{arguments}: {}", ran.stderr);
            assert_eq!(ran.stdout_exact, wanted, "{arguments}");
            let ran = place.run(&format!("get {{db}} {arguments} -t orders -q -j 1"));
            assert_eq!(
                (ran.stderr.as_str(), ran.stdout_exact.as_str()),
                ("", wanted),
                "{arguments} -q"
            );
        }
    }
}

#[test]
fn partial_keys_ranges_and_other_keys() {
    for database in BOTH {
        let place = TestDatabase::with(*database, SHOP, &[]);
        let cases = [
            ("-t lines 1 9 --columns article", "article\npen\nink\npaper\n"),
            ("-t lines 1 --from 2 --columns article", "article\nink\npaper\n"),
            (
                "-t lines 1 --after 1 --before 3 --columns article",
                "article\nink\n",
            ),
            ("-t lines 1 2 --to 1 --columns article", "article\npen\nlamp\n"),
            (
                "-t lines 2,1 1,3 1,4 --ordered --columns article",
                "article\nlamp\npaper\n",
            ),
            (
                "-t people --key name,city 'Ada,London' --columns note",
                "note\nfirst\n",
            ),
            ("-t people --key city London --from B --columns name", "name\n"),
            (
                "-t people --key city London --from Al --columns name",
                "name\nAlan\n",
            ),
        ];
        for (arguments, wanted) in cases {
            let ran = place.run(&format!("get {{db}} {arguments}"));
            assert_eq!(
                (ran.code, ran.stdout_exact.as_str()),
                (Some(0), wanted),
                "{arguments}: {}",
                ran.stderr
            );
        }
    }
}

#[test]
fn what_is_missing_can_be_asked_for_again() {
    for database in BOTH {
        let files = &[
            ("wanted.csv", "note,ID\nx,3\ny,8\nz,\nx,1\nx,8\n"),
            ("ids", "3\n8\n1\n"),
            ("wanted.jsonl", "{\"id\":8}\n{\"id\":2}\n"),
        ];
        let place = TestDatabase::with(*database, SHOP, files);
        let ran =
            place.run("get {db} --keys wanted.csv -t orders -o found.parquet --missing gone.csv --report -");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let report: serde_json::Value = serde_json::from_str(&ran.stdout_exact).unwrap();
        let wanted = serde_json::json!({ "asked": 5, "distinct": 4, "found": 2, "missing": 2 });
        assert_eq!(report["keys"], wanted);
        assert_eq!(
            (&report["rows"], &report["state"]),
            (&serde_json::json!({ "written": 2 }), &"finished".into())
        );
        assert!(
            ran.stderr.contains("5 asked, 4 distinct = 2 found + 2 missing"),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains("missing keys in gone.csv"), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("not of the key are not used: note"),
            "{}",
            ran.stderr
        );
        assert_eq!(place.read("gone.csv"), "id\n\n8\n");

        let again = place.run("get {db} --keys gone.csv -t orders --missing still.csv");
        assert_eq!(
            (again.code, again.stdout_exact.as_str()),
            (Some(0), "id,customer,total\n")
        );
        assert_eq!(place.read("still.csv"), place.read("gone.csv"));
        // What was found are rows like any others: they can be loaded, and their keys asked for.
        place.load("found.parquet {db} -t copied --create --key id");
        assert_eq!(place.sql("SELECT id FROM copied ORDER BY id"), ["1", "3"]);
        for keys in [
            "--keys found.parquet",
            "--keys ids --keys-no-header",
            "--keys wanted.jsonl",
        ] {
            let ran = place.run(&format!(
                "get {{db}} {keys} -t orders --columns id -o - --no-header"
            ));
            let wanted = if keys.contains("jsonl") { "2\n" } else { "1\n3\n" };
            assert_eq!(
                (ran.code, ran.stdout_exact.as_str()),
                (Some(0), wanted),
                "{keys}: {}",
                ran.stderr
            );
        }
        let piped = "get {db} --keys - --keys-no-header -t orders --ordered --columns id --no-header";
        let ran = place.run_with(piped, &[], b"3\n1\n3\n");
        assert_eq!(ran.stdout_exact, "3\n1\n3\n", "{}", ran.stderr);
    }
}

#[test]
fn a_get_that_fails_leaves_no_file() {
    for database in BOTH {
        let files = &[("wanted.csv", "id\n3\nx\n"), ("kept.csv", "old\n")];
        let place = TestDatabase::with(*database, SHOP, files);
        for output in ["new.csv", "kept.csv --overwrite"] {
            let arguments =
                format!("get {{db}} --keys wanted.csv -t orders --missing gone.csv -o {output} -q");
            let ran = place.run(&arguments);
            assert_eq!(ran.code, Some(1));
            assert_eq!(
                ran.stderr,
                "error: wanted.csv row 2, column 'id': 'x' is not an int32\n\
                 hint: a key of another type can have no row: take it out of the keys\n"
                    .replace("int32", if *database == Sqlite { "int64" } else { "int32" })
            );
        }
        let mut names: Vec<_> = std::fs::read_dir(place.path("."))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with("shop.db"))
            .collect();
        names.sort();
        assert_eq!(names, ["kept.csv", "wanted.csv"]);
        assert_eq!(place.read("kept.csv"), "old\n");
        let ran = place.run("get {db} 1 -t orders -o /dev/full --format csv");
        assert_eq!(ran.code, Some(1));
        assert!(
            ran.stderr
                .starts_with("error: cannot write /dev/full: No space left"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn what_cannot_be_got_is_refused_by_every_server_and_leaves_no_file() {
    const TABLES: &str = "CREATE TABLE orders (id integer PRIMARY KEY, note varchar(20));
        CREATE TABLE notes (note varchar(20)); INSERT INTO orders VALUES (1, 'one')";
    for database in ALL {
        let place = TestDatabase::with(*database, TABLES, &[]);
        for (arguments, said) in [
            (
                "1 two -t orders",
                "error: arguments row 2, column 'id': 'two' is not an int",
            ),
            ("1 -t orders --key number", "has no column 'number'"),
            ("one -t orders --key note", "begins with (note)\n"),
            ("1 -t notes", "has no primary or unique key to look rows up by\n"),
            (
                "1 -t orders --missing nowhere/gone.csv",
                "cannot create nowhere/gone.csv",
            ),
        ] {
            let ran = place.run(&format!("get {{db}} {arguments} -o out.csv -q"));
            assert!(
                matches!(ran.code, Some(1 | 2)),
                "{database:?} {arguments}: {}",
                ran.stderr
            );
            assert!(
                ran.stderr.contains(said),
                "{database:?} {arguments}: {}",
                ran.stderr
            );
            assert!(
                ran.stderr.contains("\nhint: "),
                "{database:?} {arguments}: {}",
                ran.stderr
            );
            assert_eq!(place.files("."), [""; 0], "{database:?} {arguments}");
        }
        let ran = place.run("get {db} 1 -t orders -o nowhere/out.csv");
        assert_eq!(ran.code, Some(1));
        assert!(
            ran.stderr.contains("cannot create nowhere/out.csv"),
            "{}",
            ran.stderr
        );
        let ran = place.run("get {db} 1 -t orders -o /dev/full --format csv");
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains("No space left on device"), "{}", ran.stderr);
    }
}

#[test]
fn millions_of_keys_stream_through_bounded_memory() {
    let place = TestDatabase::with(Sqlite, SHOP, &[]);
    let mut keys = "id\n".to_owned();
    for key in 0..2_000_000 {
        // Each twice, far apart.
        writeln!(keys, "{}", key % 1_000_000 + 1_000_000_000_000_i64).unwrap();
    }
    keys.push_str("3\n");
    let arguments = "get {db} --keys - -t orders -o found.csv --missing gone.parquet --report -";
    let ran = place.run_with(arguments, &[], keys.as_bytes());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout_exact).unwrap();
    let wanted = serde_json::json!({
        "asked": 2_000_001, "distinct": 1_000_001, "found": 1, "missing": 1_000_000
    });
    assert_eq!(report["keys"], wanted);
    // As many keys held in memory as text, as numbers and sorted would take more.
    let peak = report["peak_memory_bytes"].as_u64().unwrap();
    assert!(peak < 300 << 20, "{peak} bytes");
}
