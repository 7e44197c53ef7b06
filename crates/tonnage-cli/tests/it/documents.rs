//! What is made from definitions: completions, manual pages, the table of databases.

use std::{fs, path::Path, process::Command};

use crate::support::{Database, TestDatabase};

const COMMANDS: &[&str] = &[
    "load",
    "runs",
    "init",
    "generate",
    "bench",
    "tune",
    "explain",
    "targets",
    "completions",
    "man",
];

#[test]
fn every_shell_completes_every_command() {
    let place = TestDatabase::new(Database::Sqlite);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = place.run(&format!("completions {shell}"));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{shell}");
        for word in COMMANDS.iter().chain(&["ask-password", "max-rejects"]) {
            assert!(ran.stdout.contains(word), "{shell} completes {word}");
        }
        if shell == "bash" {
            place.write("completions", &ran.stdout_exact);
            let read = Command::new("bash")
                .args([
                    "--noprofile",
                    "--norc",
                    "-ec",
                    "source ./completions; complete -p tonnage",
                ])
                .current_dir(place.path(""))
                .output()
                .expect("bash starts");
            assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let place = TestDatabase::new(Database::Sqlite);
    let ran = place.run("man");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.contains(".TH tonnage 1"), "{}", ran.stdout);
    let ran = place.run("man -o pages/man1");
    assert_eq!(
        (ran.code, ran.stderr.as_str(), ran.stdout.as_str()),
        (Some(0), "", "")
    );
    for command in COMMANDS {
        let page = place.read(&format!("pages/man1/tonnage-{command}.1"));
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
    }
    place.write("file", "");
    let ran = place.run("man -o file/pages");
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr
            .starts_with("error: cannot write the pages to file/pages: "),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_table_of_the_databases_is_the_one_that_is_printed() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/databases.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let ran = TestDatabase::new(Database::Sqlite).run("targets --markdown");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(
        page.contains(&format!("\n\n{}\n", ran.stdout)),
        "the table of targets in docs/databases.md should be\n{}",
        ran.stdout
    );
}

#[test]
fn a_database_does_the_operations_of_its_row_and_no_others() {
    for database in [Database::Sqlite, Database::Postgres, Database::MariaDb] {
        let place = TestDatabase::with(
            database,
            "CREATE TABLE orders (id integer PRIMARY KEY, customer text)",
            &[("orders.csv", "id,customer\n1,anna\n")],
        );
        let table = place.run("targets --markdown").stdout;
        let name = match database {
            Database::Sqlite => "| SQLite |",
            Database::Postgres => "| PostgreSQL |",
            Database::MariaDb => "| MariaDB |",
        };
        let row = table.lines().find(|line| line.starts_with(name)).expect("a row");
        let operations = row.split(" | ").nth(2).expect("a column of operations");
        for mode in ["insert", "upsert", "ignore", "update", "delete"] {
            let ran = place.run(&format!(
                "load orders.csv {{db}} -t orders --mode {mode} --dry-run"
            ));
            let listed = operations.split(", ").any(|operation| operation == mode);
            assert_eq!(ran.code == Some(0), listed, "{name} {mode}: {}", ran.stderr);
        }
    }
}
