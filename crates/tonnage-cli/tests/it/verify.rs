//! Tables compared with files and with each other, and loads that look at the end whether their rows are there.

use serde_json::Value;

use crate::support::{ALL, Database, TestDatabase};

const FILE: &str = "id,name,price,weight,born,seen,note\n\
    1,anna,1.5,0.1,2024-02-29,2024-02-29T12:00:00Z,\"\"\n\
    2,Größe 水,20.00,-0.0,1999-12-31,2024-02-29T13:00:00+01:00,\n\
    3,\" x \",,1e300,,,null\n";

/// The table of [`FILE`], with values of every kind written in another way than the file has them.
fn table(database: Database) -> &'static str {
    match database {
        Database::Sqlite => {
            "CREATE TABLE t (id integer PRIMARY KEY, name text, price decimal(6,2), weight double, born date, \
             seen timestamptz, note text); \
             INSERT INTO t VALUES (3, ' x ', NULL, 1e300, NULL, NULL, 'null'), \
             (1, 'anna', 1.50, 0.1, '2024-02-29', '2024-02-29 12:00:00+00:00', ''), \
             (2, 'Größe 水', 20, 0.0, '1999-12-31', '2024-02-29 12:00:00.000000+00:00', NULL)"
        }
        Database::Postgres => {
            "CREATE TABLE t (id integer PRIMARY KEY, name text, price decimal(6,2), weight double precision, \
             born date, seen timestamptz, note char(8)); SET TIME ZONE 'Asia/Tokyo'; \
             INSERT INTO t VALUES (3, ' x ', NULL, 1e300, NULL, NULL, 'null'), \
             (1, 'anna', 1.50, 0.1, '2024-02-29', '2024-02-29 21:00:00', ''), \
             (2, 'Größe 水', 20, '-0', '1999-12-31', '2024-02-29 12:00:00+00', NULL)"
        }
        Database::MariaDb => {
            "CREATE TABLE t (id integer PRIMARY KEY, name text CHARACTER SET utf8mb4, price decimal(6,2), \
             weight double, born date, seen timestamp(6) NULL, note char(8)); SET time_zone = '+09:00'; \
             INSERT INTO t VALUES (3, ' x ', NULL, 1e300, NULL, NULL, 'null'), \
             (1, 'anna', 1.50, 0.1, '2024-02-29', '2024-02-29 21:00:00', ''), \
             (2, 'Größe 水', 20, 0, '1999-12-31', '2024-02-29 21:00:00', NULL)"
        }
    }
}

fn place(database: Database) -> TestDatabase {
    TestDatabase::with(database, table(database), &[("t.csv", FILE)])
}

/// The result of a comparison that ends with `code`.
fn verify(place: &TestDatabase, arguments: &str, code: i32) -> Value {
    let ran = place.run(&format!("verify {arguments} --json"));
    assert_eq!(
        ran.code,
        Some(code),
        "{:?} verify {arguments}\n{}{}",
        place.database,
        ran.stdout,
        ran.stderr
    );
    serde_json::from_str(&ran.stdout_exact).expect("the result is JSON")
}

/// `missing extra changed bad`.
fn counts(result: &Value) -> String {
    let found = &result["differing"];
    let kinds = ["missing", "extra", "changed", "bad"];
    kinds.map(|kind| found[kind].to_string()).join(" ")
}

#[test]
fn the_same_values_written_otherwise_agree() {
    for database in ALL {
        let place = place(*database);
        let result = verify(&place, "t.csv {db} -t t", 0);
        assert_eq!(counts(&result), "0 0 0 0");
        assert_eq!(result["rows"], serde_json::json!({"source": 3, "table": 3}));
        assert_eq!(result["checksums"]["source"], result["checksums"]["table"]);
        assert_eq!(result["key"], serde_json::json!(["id"]));
        let ran = place.run("verify t.csv {db} -t t");
        assert!(
            ran.stdout.contains("agree: 3 rows in the source, 3 in the table"),
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn what_differs_is_named() {
    for database in ALL {
        let place = place(*database);
        for (change, wanted, named) in [
            (
                "UPDATE t SET price = 1.51 WHERE id = 1",
                "0 0 1 0",
                "id=1 (t.csv row 1): price is 1.50 in the source and 1.51 in the table",
            ),
            (
                "UPDATE t SET price = 1.50, note = NULL WHERE id = 1",
                "0 0 1 0",
                "note is '' in the source and null in the table",
            ),
            (
                "UPDATE t SET note = '' WHERE id = 1; DELETE FROM t WHERE id = 2",
                "1 0 0 0",
                "missing in the table: id=2 (t.csv row 2)",
            ),
            (
                "INSERT INTO t (id, name) VALUES (9, 'new')",
                "1 1 0 0",
                "only in the table: id=9",
            ),
        ] {
            place.sql(change);
            let result = verify(&place, "t.csv {db} -t t", 5);
            assert_eq!(counts(&result), wanted, "{database:?} {change}");
            let ran = place.run("verify t.csv {db} -t t");
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(5), ""));
            assert!(
                ran.stdout.contains(named),
                "{database:?} {change}\n{}",
                ran.stdout
            );
        }
    }
}

#[test]
fn rows_without_a_key_are_counted_by_value() {
    for database in ALL {
        let rows = "CREATE TABLE t (a integer, b text); \
            INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, NULL), (3, 'z')";
        let file = "a,b\n1,x\n2,\n1,x\n3,z\n";
        let place = TestDatabase::with(
            *database,
            rows,
            &[("t.csv", file), ("less.csv", "a,b\n1,x\n2,\n3,z\n")],
        );
        assert_eq!(counts(&verify(&place, "t.csv {db} -t t", 0)), "0 0 0 0");
        let result = verify(&place, "less.csv {db} -t t", 5);
        assert_eq!(counts(&result), "0 1 0 0");
        assert_eq!(
            result["differences"][0]["values"],
            serde_json::json!({"a": "1", "b": "x"})
        );
        place.sql("INSERT INTO t VALUES (1, 'x'), (1, 'x')");
        let result = verify(&place, "t.csv {db} -t t", 5);
        assert_eq!(result["differences"][0]["times"], 2);
        // By a column that tells rows of the file apart, but not those of the table.
        let result = verify(&place, "less.csv {db} -t t --key a", 5);
        assert_eq!(counts(&result), "0 3 0 0");
    }
}

#[test]
fn tables_of_different_databases_agree() {
    for source in ALL {
        for target in ALL {
            let (from, to) = (place(*source), place(*target));
            let url = match source {
                Database::Sqlite => from.path("shop.db").display().to_string(),
                _ => from.url(),
            };
            let arguments = format!("{url} {{db}} -t t --source-table t");
            let result = verify(&to, &arguments, 0);
            assert_eq!(counts(&result), "0 0 0 0", "{source:?} {target:?}");
            to.sql("UPDATE t SET name = 'X' WHERE id = 3");
            let result = verify(&to, &arguments, 5);
            assert_eq!(counts(&result), "0 0 1 0", "{source:?} {target:?}");
            assert_eq!(result["differences"][0]["columns"][0]["name"], "name");
        }
    }
}

#[test]
fn many_rows_differ_within_bounds() {
    let place = TestDatabase::new(Database::Sqlite);
    let rows: String = (0..200_000).map(|id| format!("{id},{}\n", id * 7)).collect();
    place.write("t.csv", format!("id,v\n{rows}"));
    place.load("t.csv {db} -t t --create --key id");
    assert_eq!(counts(&verify(&place, "t.csv {db} -t t -j 3", 0)), "0 0 0 0");
    place.sql("UPDATE t SET v = v + 1 WHERE id % 2 = 0; DELETE FROM t WHERE id % 5 = 1");
    let result = verify(&place, "t.csv {db} -t t -j 3", 5);
    assert_eq!(counts(&result), "40000 0 80000 0");
    assert_eq!(result["differences"].as_array().map(Vec::len), Some(40));
    assert_eq!(result["differences"][0]["row"], 2, "in the order of the file");
    let ran = place.run_with("verify - {db} -t t", &[], format!("id,v\n{rows}").as_bytes());
    assert_eq!(ran.code, Some(5));
    assert!(
        ran.stdout.contains("the input cannot be read again"),
        "{}",
        ran.stdout
    );
}

#[test]
fn mistakes_are_answered() {
    let place = place(Database::Sqlite);
    place.write("bad.csv", "id,born\n1,2024-02-29\n2,2024-02-30\n3,\n");
    for (arguments, code, wanted) in [
        ("t.csv {db} -t u", 1, "there is no table u"),
        ("t.csv {db} -t t --key nam", 1, "did you mean name?"),
        (
            "t.csv {db} -t t --type id=int64",
            2,
            "the column's own type decides",
        ),
        ("{db} -t t", 2, "no source"),
        ("{db} {db} -t t", 2, "--source-table TABLE"),
        ("t.csv {db} -t t -j 0", 2, "--jobs must be at least 1"),
        ("{db} t.csv -t t", 2, "name the database last"),
        ("missing.csv {db} -t t", 1, "missing.csv"),
    ] {
        let ran = place.run(&format!("verify {arguments}"));
        assert_eq!(ran.code, Some(code), "{arguments}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(wanted), "{arguments}: {}", ran.stderr);
    }
    let ran = place.run("verify bad.csv {db} -t t");
    assert_eq!(ran.code, Some(5));
    assert!(
        ran.stdout
            .contains("the table cannot hold (bad.csv row 2): column 'born'"),
        "{}",
        ran.stdout
    );
}

/// The result of the comparison behind a load that ends with `code`.
fn load(place: &TestDatabase, arguments: &str, code: i32) -> Value {
    let ran = place.run(&format!("load {arguments} --verify --report report.json"));
    assert_eq!(
        ran.code,
        Some(code),
        "{:?} {arguments}\n{}",
        place.database,
        ran.stderr
    );
    let report: Value = serde_json::from_str(&place.read("report.json")).expect("the report is JSON");
    report["verified"].clone()
}

#[test]
fn a_load_looks_whether_its_rows_are_there() {
    for database in ALL {
        let rows = "CREATE TABLE t (id integer PRIMARY KEY, v varchar(20) NOT NULL); \
            INSERT INTO t VALUES (1, 'old'), (100, 'other')";
        let twice = "id,v\n1,new\n2,two\n2,second\n3,\n";
        let place = TestDatabase::with(*database, rows, &[("t.csv", twice), ("w.csv", "w\n1\n1\n")]);
        // One row has a key that is there, one comes twice, one has a null.
        let verified = load(&place, "t.csv {db} -t t --rejects 1.jsonl -j 1", 3);
        assert_eq!(
            (&verified["agrees"], counts(&verified)),
            (&true.into(), "0 0 0 0".into())
        );
        assert_eq!(place.sql("SELECT count(*) FROM t"), ["3"]);
        let verified = load(&place, "t.csv {db} -t t --mode upsert --rejects 2.jsonl", 3);
        assert_eq!(
            (&verified["agrees"], counts(&verified)),
            (&true.into(), "0 0 0 0".into())
        );
        assert_eq!(place.sql("SELECT v FROM t WHERE id = 1"), ["new"]);
        place.sql("UPDATE t SET v = 'mine' WHERE id = 1");
        let verified = load(&place, "t.csv {db} -t t --mode ignore --rejects 3.jsonl", 3);
        assert_eq!(
            (&verified["agrees"], counts(&verified)),
            (&true.into(), "0 0 0 0".into())
        );
        assert!(
            verified["notes"]
                .to_string()
                .contains("only the keys are compared")
        );
        place.sql("CREATE TABLE w (w integer)");
        let emptied = match database {
            Database::MariaDb => "w.csv {db} -t w --truncate --single-transaction",
            _ => "w.csv {db} -t w --recreate",
        };
        for arguments in [
            "w.csv {db} -t w",
            "w.csv {db} -t w --truncate",
            emptied,
            "w.csv {db} -t made --create",
        ] {
            let verified = load(&place, arguments, 0);
            assert_eq!(verified["agrees"], true, "{database:?} {arguments}");
        }
        for (arguments, wanted) in [
            ("w.csv {db} -t w", "cannot tell the rows of this load"),
            ("t.csv {db} -t t --mode update", "not for update"),
            ("t.csv {db} -t t --mode delete", "not for delete"),
            ("- {db} -t t", "the input is a pipe"),
        ] {
            let ran = place.run_with(&format!("load {arguments} --verify"), &[], b"id,v\n7,seven\n");
            assert_eq!(ran.code, Some(2), "{database:?} {arguments}: {}", ran.stderr);
            assert!(ran.stderr.contains(wanted), "{arguments}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_load_tells_of_rows_that_are_not_as_they_were_written() {
    for database in ALL {
        let change = match database {
            Database::Sqlite => {
                "CREATE TRIGGER change AFTER INSERT ON t BEGIN UPDATE t SET v = 'changed' WHERE id = 2; END"
            }
            Database::Postgres => {
                "CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN IF new.id = 2 THEN new.v = ''changed''; END IF; RETURN new; END'; \
                 CREATE TRIGGER change BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION change()"
            }
            Database::MariaDb => {
                "CREATE TRIGGER made BEFORE INSERT ON t FOR EACH ROW SET new.v = IF(new.id = 2, 'changed', new.v)"
            }
        };
        let place = TestDatabase::with(
            *database,
            "CREATE TABLE t (id integer PRIMARY KEY, v varchar(20))",
            &[("t.csv", "id,v\n1,a\n2,b\n3,c\n")],
        );
        place.sql(change);
        let verified = load(&place, "t.csv {db} -t t", 5);
        assert_eq!(counts(&verified), "0 0 1 0", "{database:?}");
        assert_eq!(verified["differences"][0]["values"]["id"], "2");
    }
}

#[test]
fn a_load_that_goes_on_looks_at_all_rows() {
    for database in ALL {
        let rows: String = (1..=1_000).map(|id| format!("{id},{id}\n")).collect();
        let place = TestDatabase::with(
            *database,
            "CREATE TABLE t (id integer PRIMARY KEY, v integer); INSERT INTO t VALUES (990, 0)",
            &[("t.csv", &format!("id,v\n{rows}"))],
        );
        let ran = place.run("load t.csv {db} -t t --batch-rows 100 -j 1 --verify");
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        place.sql("DELETE FROM t WHERE id = 990");
        let verified = load(&place, "t.csv {db} -t t --batch-rows 100 -j 1 --resume", 0);
        assert_eq!(verified["rows"]["source"], 1_000, "{database:?}");
        assert_eq!(verified["agrees"], true);
    }
}
