//! Unloads as people use them: files that appear whole, and copies from one database to another.

use std::process::Command;

use crate::support::{
    ALL,
    Database::{MariaDb, Postgres, Sqlite},
    TestDatabase,
};

const ORDERS: &str = "CREATE TABLE orders (id integer PRIMARY KEY, note text, total numeric(10,2), placed date); \
    INSERT INTO orders VALUES (1, '', 12.5, '2024-02-29'), (2, NULL, NULL, NULL), (3, 'a \"b\", c', 0.1, '2024-03-01')";

#[test]
fn rows_go_to_standard_output_and_everything_else_does_not() {
    for database in ALL {
        let place = TestDatabase::with(*database, ORDERS, &[]);
        let ran = place.run("unload {db} -t orders -o -");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(
            ran.stdout_exact,
            "id,note,total,placed\n1,\"\",12.50,2024-02-29\n2,,,\n3,\"a \"\"b\"\", c\",0.10,2024-03-01\n"
        );
        assert!(ran.stderr.contains(": 3 rows, "), "{}", ran.stderr);
        let ran =
            place.run("unload {db} -t ORDERS -o - --format jsonl -q --columns total,id --where 'id < 3'");
        assert_eq!(
            ran.stdout_exact,
            "{\"total\":12.50,\"id\":1}\n{\"total\":null,\"id\":2}\n"
        );
        assert_eq!(ran.stderr, "");
        let ran =
            place.run("unload {db} --query 'SELECT id FROM orders ORDER BY id DESC;' -o - --no-header -q");
        assert_eq!(ran.stdout_exact, "3\n2\n1\n");
        let ran = place.run("unload {db} -t orders -o - --format tsv --limit 0 -q");
        assert_eq!(ran.stdout_exact, "id\tnote\ttotal\tplaced\n");
    }
}

#[test]
fn what_goes_out_by_any_file_comes_in_again() {
    for database in ALL {
        let place = TestDatabase::with(*database, ORDERS, &[]);
        let wanted = place.sql("SELECT * FROM orders ORDER BY id");
        for output in [
            "o.csv",
            "o.tsv.gz",
            "o.jsonl",
            "o.jsonl.zst",
            "o.parquet",
            "o.arrow",
            "parts/",
            "o-{}.csv",
        ] {
            let ran = place.run(&format!("unload {{db}} -t orders -o {output} --report r.json"));
            assert_eq!(ran.code, Some(0), "{output}: {}", ran.stderr);
            let report: serde_json::Value = serde_json::from_str(&place.read("r.json")).expect("JSON");
            assert_eq!(report["rows"]["written"], 3);
            assert_eq!(report["state"], "finished");
            let file = report["files"][0]["path"].as_str().expect("a path").to_owned();
            place.sql("DELETE FROM orders");
            place.load(&format!("{file} {{db}} -t orders --ledger none"));
            assert_eq!(place.sql("SELECT * FROM orders ORDER BY id"), wanted, "{output}");
        }
    }
}

/// Arrays are lists in every format that has lists, and are the same arrays when they come in again.
#[test]
fn arrays_go_out_as_lists_and_come_in_again() {
    let columns = "id int4 PRIMARY KEY, n int4[], f float8[], d numeric(9,2)[], w text[], b bool[], day date[], at timestamptz[], \
        u uuid[]";
    let place = TestDatabase::with(
        Postgres,
        &format!(
            "CREATE TABLE t ({columns}); \
             INSERT INTO t VALUES (1, '{{1,NULL,-3}}', '{{0.1,1e300}}', '{{1.50,-2}}', '{{\"a \\\"b\\\", c\",NULL,\"NULL\",\"\"}}', \
                 '{{t,f,NULL}}', '{{2024-02-29}}', '{{2024-02-29 12:00:00.5+02}}', \
                 '{{123e4567-e89b-12d3-a456-426614174000}}'), \
             (2, '{{}}', NULL, '{{}}', '{{}}', NULL, '{{NULL}}', '{{}}', NULL)"
        ),
        &[],
    );
    let all = "SELECT * FROM t ORDER BY id";
    let wanted = place.sql(all);
    for output in ["o.csv", "o.jsonl", "o.parquet", "o.arrow"] {
        let ran = place.run(&format!("unload {{db}} -t t -o {output}"));
        assert_eq!(ran.code, Some(0), "{output}: {}", ran.stderr);
        place.sql("DELETE FROM t");
        place.load(&format!("{output} {{db}} -t t --ledger none"));
        assert_eq!(place.sql(all), wanted, "{output}");
    }
    let lines = place.read("o.jsonl");
    assert!(
        lines.contains("\"n\":[1,null,-3],") && lines.contains("\"b\":[true,false,null],"),
        "{lines}"
    );
    // Arrays of arrays are lists of lists in JSON only.
    place.sql("UPDATE t SET n = '{{1,2},{3,4}}' WHERE id = 2");
    let wanted = place.sql(all);
    let ran = place.run("unload {db} -t t -o two.jsonl");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    place.sql("DELETE FROM t");
    place.load("two.jsonl {db} -t t --ledger none");
    assert_eq!(place.sql(all), wanted);
    let ran = place.run("unload {db} -t t -o two.parquet");
    assert!(
        ran.stderr
            .contains("column 'n': the array '{{1,2},{3,4}}' is no list of int32"),
        "{}",
        ran.stderr
    );
    let ran = place.run("unload {db} -t t -o two.parquet --text n");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

#[test]
fn files_that_are_there_are_replaced_only_on_request() {
    let place = TestDatabase::with(
        Sqlite,
        ORDERS,
        &[("o.csv", "mine"), ("parts/part-00009.parquet", "old")],
    );
    for output in ["o.csv", "parts/"] {
        assert_eq!(
            place.run(&format!("unload {{db}} -t orders -o {output}")).code,
            Some(2)
        );
    }
    assert_eq!(place.read("o.csv"), "mine");
    assert_eq!(place.files("parts"), ["part-00009.parquet"]);
    for output in ["o.csv", "parts/"] {
        let ran = place.run(&format!("unload {{db}} -t orders -o {output} --overwrite"));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
    assert!(place.read("o.csv").starts_with("id,"));
    // A part of an earlier unload would be loaded with those of this one.
    assert_eq!(place.files("parts"), ["part-00000.parquet"]);
}

#[test]
fn a_full_disk_leaves_no_file() {
    for database in ALL {
        let place = TestDatabase::new(*database);
        place.run("generate sbtest --rows 20k -o rows.parquet");
        place.load("rows.parquet {db} -t sbtest1 --create");
        std::fs::remove_file(place.path("rows.parquet")).expect("it goes");
        for output in ["o.csv", "o.parquet", "o.jsonl.gz", "o-{}.arrow", "parts/"] {
            let unload = format!("unload '{}' -t sbtest1 -j 2 -o '{output}'", place.url());
            let told = place.run_cramped(100, &unload);
            assert!(told.starts_with("error: cannot write "), "{output}: {told}");
            assert!(told.contains("File too large"), "{output}: {told}");
            assert_eq!(place.files("."), [""; 0], "{output}");
        }
        let ran = place.run("unload {db} -t sbtest1 -o /dev/full --format csv");
        assert_eq!(ran.code, Some(1));
        assert_eq!(
            ran.stderr,
            "error: cannot write /dev/full: No space left on device (os error 28)\n\
             hint: make room, or end the name in .csv.zst or .parquet to compress it\n"
        );
    }
}

#[test]
fn a_database_is_copied_into_another() {
    for (from, into) in [
        (Sqlite, Postgres),
        (Postgres, Sqlite),
        (Sqlite, Sqlite),
        (Postgres, Postgres),
        (MariaDb, Postgres),
        (Postgres, MariaDb),
        (MariaDb, Sqlite),
        (Sqlite, MariaDb),
        (MariaDb, MariaDb),
    ] {
        let source = TestDatabase::with(from, ORDERS, &[]);
        let place = TestDatabase::new(into);
        let url = match from {
            Sqlite => source.path("shop.db").display().to_string(),
            _ => source.url(),
        };
        let report = place.load(&format!("{url} {{db}} -t copied --source-table orders --create"));
        assert_eq!(report["rows"]["written"], 3);
        let lost = &report["guarantees_lost"][0];
        assert_eq!(
            lost,
            "the input is a database, which may change: an interrupted run cannot be resumed"
        );
        let all = |table: &str| format!("SELECT id, note, total, placed FROM {table} ORDER BY id");
        let shown = |rows: Vec<String>| -> Vec<String> {
            // SQLite shows numbers without the zeros that the others keep.
            rows.into_iter()
                .map(|row| row.replace("12.50|", "12.5|").replace("0.10|", "0.1|"))
                .collect()
        };
        assert_eq!(
            shown(place.sql(&all("copied"))),
            shown(source.sql(&all("orders")))
        );
        // The key came along.
        let again = place.run(&format!(
            "load {url} {{db}} -t copied --source-table orders --mode upsert"
        ));
        assert_eq!(again.code, Some(0), "{}", again.stderr);
        assert_eq!(place.sql("SELECT count(*) FROM copied"), ["3"]);
        let report = place.load(&format!(
            "{url} {{db}} -t few --source-query 'SELECT id, total * 2 AS twice FROM orders WHERE id = 1' --create"
        ));
        assert_eq!(report["rows"]["written"], 1);
    }
}

#[test]
fn a_dry_run_tells_the_plan_and_writes_nothing() {
    for database in [Sqlite, Postgres, MariaDb] {
        let place = TestDatabase::with(database, ORDERS, &[("there.csv", "mine")]);
        let ran = place.run("unload {db} -t orders -o 'new/' --where 'id < 3' --columns id,total --dry-run");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        for wanted in [
            "where        id < 3\n",
            "columns      id int",
            "             total decimal(10,2)\n",
            "jobs         1\n",
            "splits       1\n",
            "one state    one transaction, which sees what is committed when it begins\n",
            "files        new/part-00000.parquet\n",
        ] {
            assert!(
                ran.stdout.contains(wanted),
                "{database:?}, {wanted}: {}",
                ran.stdout
            );
        }
        let ran = place.run("unload {db} --query 'SELECT 1 AS one' -o - --dry-run");
        assert!(
            ran.stdout.contains("query        SELECT 1 AS one\n"),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
        let ran = place.run("unload {db} -t orders -o there.csv --dry-run");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
        assert!(
            ran.stderr.starts_with("error: 'there.csv' exists\n"),
            "{}",
            ran.stderr
        );
        assert_eq!(place.files("."), ["there.csv"]);
    }
    // Several that see one state say how.
    for (database, wanted) in [
        (
            Sqlite,
            "writers are held off for the moment in which the readers begin",
        ),
        (
            MariaDb,
            "writers are held off for the moment in which the readers begin",
        ),
        (Postgres, "an exported snapshot, which all transactions share"),
    ] {
        let place = TestDatabase::new(database);
        place.run("generate sbtest --rows 70k -o rows.parquet");
        place.load("rows.parquet {db} -t sbtest1 --create --key id");
        let ran = place.run("unload {db} -t sbtest1 -j 2 -o 's-{}.csv' --dry-run");
        assert!(
            ran.stdout.contains(&format!("one state    {wanted}\n")),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
        assert!(ran.stdout.contains("jobs         2\n"), "{}", ran.stdout);
        assert!(
            ran.stdout
                .contains("files        s-00000.csv\n             s-00001.csv\n"),
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let place = TestDatabase::new(Sqlite);
    place.run("generate sbtest --rows 50k -o rows.parquet");
    place.load("rows.parquet {db} -t sbtest1 --create");
    let command = format!(
        "{} unload shop.db -t sbtest1 -o - | head -n 2",
        env!("CARGO_BIN_EXE_tonnage")
    );
    let ran = Command::new("bash")
        .args(["--noprofile", "--norc", "-o", "pipefail", "-c", &command])
        .current_dir(place.path("."))
        .output()
        .expect("bash starts");
    assert_eq!(ran.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ran.stderr), "");
    assert_eq!(String::from_utf8_lossy(&ran.stdout).lines().count(), 2);
}
