//! `tonnage get --with`: rows of other tables, in files of their own or within those that they belong to.

use std::fs;

use crate::support::{
    ALL, BOTH,
    Database::{MariaDb, Postgres, Sqlite},
    TestDatabase,
};

const SHOP: &str = "
    CREATE TABLE customers (id integer PRIMARY KEY, name text);
    CREATE TABLE orders (id integer PRIMARY KEY, customer integer REFERENCES customers (id), total numeric(10,2));
    CREATE TABLE lines (order_id integer REFERENCES orders (id), line integer, article text, PRIMARY KEY (order_id, line));
    CREATE TABLE visits (id integer PRIMARY KEY, guest integer REFERENCES customers (id), host integer REFERENCES customers (id));
    CREATE VIEW seen AS SELECT id FROM orders;
    INSERT INTO customers VALUES (10, 'Ada'), (11, 'Grace');
    INSERT INTO orders VALUES (1, 10, 12.50), (2, 11, NULL), (3, 10, 0.10), (4, NULL, 7);
    INSERT INTO lines VALUES (1, 1, 'pen'), (1, 2, 'ink'), (2, 1, 'lamp'), (3, 1, '');
    INSERT INTO visits VALUES (1, 10, 11)";

#[test]
fn each_table_has_a_file() {
    for database in BOTH {
        let place = TestDatabase::with(*database, SHOP, &[]);
        let ran =
            place.run("get {db} 1 3 9 4 -t orders --with lines --with customers -o found/ --report r.json");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(
            place.files("found"),
            ["customers.parquet", "lines.parquet", "orders.parquet"]
        );
        let report: serde_json::Value = serde_json::from_str(&place.read("r.json")).expect("JSON");
        assert_eq!(
            report["one_state"],
            *database != Sqlite || place.sql("PRAGMA journal_mode") == ["wal"]
        );
        assert_eq!(report["related"][1]["rows"], 1);
        let lines = &report["related"][0];
        let wanted = serde_json::json!({ "asked": 3, "distinct": 3, "found": 2, "missing": 1 });
        assert_eq!((&lines["rows"], &lines["keys"]), (&3.into(), &wanted));
        assert!(ran.stderr.contains("lines: 3 rows ("), "{}", ran.stderr);
        // They are tables like any others.
        for table in ["customers", "orders", "lines"] {
            place.load(&format!("found/{table}.parquet {{db}} -t {table}2 --create"));
        }
        assert_eq!(
            place.sql("SELECT count(*) FROM lines2 JOIN orders2 o ON order_id = o.id JOIN customers2 c ON c.id = customer"),
            ["3"]
        );

        let ran = place.run(
            "get {db} 1 2 -t orders --with lines --with customers -o 'some-{}.csv' --columns id,lines.article,customers.name",
        );
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(place.read("some-orders.csv"), "id\n1\n2\n");
        assert_eq!(place.read("some-lines.csv"), "article\npen\nink\nlamp\n");
        assert_eq!(place.read("some-customers.csv"), "name\nAda\nGrace\n");
    }
}

#[test]
fn rows_within_rows_are_json() {
    for database in BOTH {
        let place = TestDatabase::with(*database, SHOP, &[]);
        let ran = place.run(
            "get {db} 1 4 -t orders --with customers --with lines --nested --columns id,lines.article -q",
        );
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(
            ran.stdout_exact,
            "{\"id\":1,\"customers\":{\"id\":10,\"name\":\"Ada\"},\"lines\":[{\"article\":\"pen\"},{\"article\":\"ink\"}]}\n\
             {\"id\":4,\"customers\":null,\"lines\":[]}\n"
        );
        let ran = place.run("get {db} 10 -t customers --with lines --with orders --nested -o c.parquet");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        // What is nested is JSON to a table.
        place.load("c.parquet {db} -t again --create");
        let orders = place.sql("SELECT orders FROM again");
        assert!(
            orders[0].contains("\"pen\"") && orders[0].contains("12.5"),
            "{orders:?}"
        );
        let ran = place.run("get {db} 10 -t customers --with orders --nested -o c.arrow");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
}

#[test]
fn mistakes_are_told() {
    for database in BOTH {
        let place = TestDatabase::with(*database, SHOP, &[]);
        let cases = [
            (
                "1 -t orders --with lines",
                2,
                "error: rows of 2 tables do not go into one file\n\
                 hint: -o DIR/ or a name with {} in it has a file for each; --nested puts rows into each other\n",
            ),
            (
                "1 -t orders --with lines -o 'new/{}-{}.csv'",
                2,
                "error: rows of 2 tables do not go into one file\n\
                 hint: -o DIR/ or a name with {} in it has a file for each; --nested puts rows into each other\n",
            ),
            (
                "1 -t orders --with lines -o 'far/off/{}.csv'",
                1,
                "error: cannot create far/off: No such file or directory (os error 2)\n\
                 hint: name a directory in one that is there, and that you may write to\n",
            ),
            (
                "1 -t orders --on 'lines(order_id)=orders(id)'",
                2,
                "error: nothing is joined: no other table comes with the rows\nhint: --with TABLE names one\n",
            ),
            (
                "1 -t orders --with lines -o 'new/{}.xyz'",
                2,
                "error: the ending of 'new/orders.xyz' says no format\n\
                 hint: end it in .csv, .csv.gz, .csv.zst, .tsv, .jsonl, .parquet or .arrow, or give --format\n",
            ),
        ];
        for (arguments, code, wanted) in cases {
            let ran = place.run(&format!("get {{db}} {arguments}"));
            assert_eq!(
                (ran.code, ran.stderr.as_str()),
                (Some(code), wanted),
                "{arguments}"
            );
        }
        for (arguments, wanted) in [
            (
                "10 -t customers --with visits -o new/",
                "visits can be joined in 2 ways: ",
            ),
            ("1 -t visits --with lines -o new/", "no foreign key joins "),
            (
                "1 -t orders --with lnies -o new/",
                "error: there is no table lnies\nhint: did you mean lines?",
            ),
            (
                "1 -t orders --with lines --columns lines.x -o new/",
                "has no column 'x'",
            ),
            (
                "1 -t orders --with lines --nested -o new.csv",
                "cannot be written as CSV",
            ),
            ("1 -t orders --nested", "--with <TABLE>"),
            ("1 -t seen", "\nhint: name the table "),
        ] {
            let ran = place.run(&format!("get {{db}} {arguments}"));
            assert_ne!(ran.code, Some(0));
            assert!(ran.stderr.contains(wanted), "{arguments}: {}", ran.stderr);
        }
        assert_eq!(place.files("."), [""; 0]);
        // Files that are there are replaced only on request.
        let get = "get {db} 1 -t orders --with lines -o '{}.csv'";
        assert_eq!(place.run(get).code, Some(0));
        place.write("lines.csv", "mine");
        assert_eq!(place.run(get).code, Some(2));
        assert_eq!(place.read("lines.csv"), "mine");
        assert_eq!(place.run(&format!("{get} --overwrite")).code, Some(0));
        assert_eq!(
            place.read("lines.csv"),
            "order_id,line,article\n1,1,pen\n1,2,ink\n"
        );
    }
}

#[test]
fn a_full_disk_leaves_no_file() {
    let place = TestDatabase::new(Sqlite);
    place.run("generate sbtest --rows 20k -o rows.parquet");
    place.load("rows.parquet {db} -t sbtest1 --create --key id");
    fs::remove_file(place.path("rows.parquet")).expect("it goes");
    place.sql(
        "CREATE TABLE few (id integer PRIMARY KEY, k integer); INSERT INTO few SELECT id, id FROM sbtest1",
    );
    let keys: String = (1..=20_000).map(|key| format!("{key}\n")).collect();
    fs::create_dir(place.path("keys")).expect("a directory");
    place.write("keys/all", keys);
    let get = "get shop.db --keys keys/all --keys-no-header -j 2";
    for output in [
        "-t sbtest1 -o o.csv",
        "-t sbtest1 -o o.parquet --missing gone.csv",
        "-t sbtest1 -o o.jsonl.gz",
        "-t few --with sbtest1 --on 'sbtest1(id)=few(k)' -o 'o-{}.arrow'",
        "-t few --with sbtest1 --on 'sbtest1(id)=few(k)' -o new/",
        "-t few --with sbtest1 --on 'sbtest1(id)=few(k)' --nested -o o.jsonl",
    ] {
        let told = place.run_cramped(300, &format!("{get} {output}"));
        assert!(told.starts_with("error: cannot write "), "{output}: {told}");
        assert!(told.contains("File too large"), "{output}: {told}");
        assert_eq!(place.files("."), ["keys"], "{output}");
    }
}

#[test]
fn what_cannot_be_finished_takes_the_others_with_it() {
    let place = TestDatabase::with(Sqlite, SHOP, &[]);
    // All of it fits into buffers, so only the last moment shows that there is no room.
    std::os::unix::fs::symlink("/dev/full", place.path("gone.csv")).expect("a link");
    let ran = place.run("get {db} 1 77 -t orders -o o.csv --missing gone.csv");
    assert_eq!(ran.code, Some(1));
    assert_eq!(
        ran.stderr,
        "error: cannot write gone.csv: No space left on device (os error 28)\n\
         hint: make room, or end the name in .csv.zst or .parquet to compress it\n"
    );
    assert_eq!(place.files("."), ["gone.csv"]);
    assert!(fs::metadata("/dev/full").is_ok());
}

#[test]
fn a_table_that_references_itself_comes_once() {
    const TREE: &str = "
        CREATE TABLE staff (id integer PRIMARY KEY, boss integer, name varchar(20),
            FOREIGN KEY (boss) REFERENCES staff (id));
        CREATE TABLE desks (id integer PRIMARY KEY, sitter integer, FOREIGN KEY (sitter) REFERENCES staff (id));
        INSERT INTO staff VALUES (1, NULL, 'Ada');
        INSERT INTO staff VALUES (2, 1, 'Grace'), (3, 1, 'Edsger');
        INSERT INTO desks VALUES (20, 2), (30, 3)";
    for database in ALL {
        let place = TestDatabase::with(*database, TREE, &[]);
        // Its own key leads nowhere else, and is in nobody's way.
        let ran = place.run("get {db} 2 -t staff --with desks -o '{}.csv'");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(place.read("staff.csv"), "id,boss,name\n2,1,Grace\n");
        assert_eq!(place.read("desks.csv"), "id,sitter\n20,2\n");
        let schema = match database {
            Sqlite => String::new(),
            Postgres => "public.".to_owned(),
            MariaDb => "{name}.".to_owned(),
        };
        let refusal = "error: staff is to come twice: its foreign key staff(boss) = staff(id) leads to itself\n\
                       hint: each table comes once: get the rows that (boss) names by a get of their own, and those \
                       that name a row with tonnage unload --where\n"
            .replace("staff", &format!("{schema}staff"));
        for on in ["", "--on 'staff(boss) = staff(id)'"] {
            let ran = place.run(&format!(
                "get {{db}} 2 -t staff --with staff {on} -o 'again-{{}}.csv'"
            ));
            assert_eq!(ran.code, Some(2), "{}", ran.stderr);
            assert_eq!(ran.stderr, refusal, "{database:?}");
        }
        assert_eq!(place.files("."), ["desks.csv", "staff.csv"]);
        // What the hint says.
        let ran = place.run("unload {db} -t staff --where 'boss = 1' --columns name -o -");
        assert_eq!(ran.stdout, "name\nGrace\nEdsger\n");
    }
}
