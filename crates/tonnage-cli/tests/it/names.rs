//! Names with letters beyond ASCII, in another case than they have in the database.

use crate::support::{
    ALL,
    Database::{self, Postgres},
    TestDatabase,
};

fn quoted(database: Database, name: &str) -> String {
    match database {
        Database::MariaDb => format!("`{name}`"),
        _ => format!("\"{name}\""),
    }
}

fn place(database: Database) -> TestDatabase {
    let [table, id, note] = ["Ärger", "Schlüssel", "ÉTÉ"].map(|name| quoted(database, name));
    TestDatabase::with(
        database,
        &format!("CREATE TABLE {table} ({id} integer PRIMARY KEY, {note} varchar(20))"),
        &[
            ("rows.csv", "SCHLÜSSEL,été\n1,eins\n2,zwei\n"),
            ("more.csv", "schlüssel,Été\n2,ZWEI\n"),
        ],
    )
}

#[test]
fn names_beyond_ascii_are_found_in_any_case() {
    for database in ALL {
        let place = place(*database);
        let done = |arguments: &str| {
            let ran = place.run(arguments);
            assert_eq!(ran.code, Some(0), "{database:?} {arguments}\n{}", ran.stderr);
            ran.stdout_exact
        };
        for table in ["Ärger", "ärger", "ÄRGER"] {
            done(&format!(
                "load rows.csv {{db}} -t {table} --mode upsert --key SCHLÜSSEL"
            ));
            done(&format!(
                "load more.csv {{db}} -t {table} --mode update --key schlüssel"
            ));
            assert_eq!(
                done(&format!("get {{db}} 2 -t {table} --columns été -o -")),
                "ÉTÉ\nZWEI\n",
                "{database:?}"
            );
            done(&format!(
                "unload {{db}} -t {table} -o out.csv --columns SCHLÜSSEL,été --overwrite"
            ));
            assert_eq!(
                place.read("out.csv"),
                "Schlüssel,ÉTÉ\n1,eins\n2,ZWEI\n",
                "{database:?}"
            );
        }
        done("explain {db} ärger --yes --rows 10");
        let statement = format!(
            "update {} set {} = :été where {} = :schlüssel",
            quoted(*database, "Ärger"),
            quoted(*database, "ÉTÉ"),
            quoted(*database, "Schlüssel")
        );
        place.write("statement.sql", statement);
        done("exec rows.csv {db} --sql @statement.sql");
        assert_eq!(
            done("get {db} 2 -t ÄRGER -o -"),
            "Schlüssel,ÉTÉ\n2,zwei\n",
            "{database:?}"
        );
    }
}

#[test]
fn postgres_finds_schemas_so_too_whatever_its_collation_folds() {
    let place = TestDatabase::with(
        Postgres,
        "CREATE SCHEMA \"Öl\"; CREATE TABLE \"Öl\".\"Ärger\" (id integer PRIMARY KEY); CREATE TABLE \"ÀB\" (id integer);
         CREATE TABLE \"àB\" (id integer)",
        &[("rows.csv", "id\n1\n")],
    );
    let ran = place.run("load rows.csv {db} -t ÖL.ÄRGER");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(place.sql("SELECT * FROM \"Öl\".\"Ärger\""), ["1"]);
    // Two that differ in nothing but case are told apart by their exact names only.
    let ran = place.run("load rows.csv {db} -t àb");
    assert!(ran.stderr.contains("could be any of"), "{}", ran.stderr);
    let ran = place.run("load rows.csv {db} -t ÀB");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(place.sql("SELECT count(*) FROM \"ÀB\""), ["1"]);
}
