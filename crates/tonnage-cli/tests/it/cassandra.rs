//! Cassandra by the command line: kills, the ledger in a file, what the plan says.

use std::{os::unix::process::ExitStatusExt, path::Path};

use crate::{
    keyspace::Keyspace,
    process::{Running, count, report, tonnage},
};

const ROWS: u64 = 12_000;

/// A keyspace with one table.
fn keyspace() -> Keyspace {
    let keyspace = Keyspace::new();
    keyspace.run("CREATE TABLE events (id int PRIMARY KEY, note text)");
    keyspace
}

fn events(rows: u64) -> String {
    let lines = (0..rows).map(|row| format!("{row},note {row}\n"));
    std::iter::once("id,note\n".to_owned()).chain(lines).collect()
}

/// The rows of the table, as an unload has them, by their numbers.
fn unloaded(url: &str, directory: &Path) -> Vec<String> {
    let path = directory.join("out.csv");
    let mut command = tonnage();
    command
        .args(["unload", url, "-t", "events", "--overwrite", "-o"])
        .arg(&path);
    Running::start(&mut command).wait().expect(0);
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
    lines.sort_by_key(|line| line.split(',').next().and_then(|id| id.parse::<u64>().ok()));
    lines
}

fn runs(url: &str, ledger: &Path) -> String {
    let mut command = tonnage();
    let ran = command
        .args(["runs", url, "--ledger"])
        .arg(ledger)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// Rows that the ledger has as written.
fn written(url: &str, ledger: &Path) -> u64 {
    let runs = runs(url, ledger);
    let before = runs.split(" written").next().unwrap_or_default();
    let digits: String = before.rsplit(": ").next().unwrap_or_default().replace(',', "");
    digits.trim().parse().unwrap_or(0)
}

#[test]
fn a_run_that_is_killed_is_resumed_and_every_row_stands_once() {
    let keyspace = keyspace();
    let url = keyspace.bare_url();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("events.csv");
    std::fs::write(&file, events(ROWS)).unwrap();
    let ledger = directory.path().join("state/load.ledger");
    let load = |jobs: &str, batch: &str| {
        let mut command = tonnage();
        command.args([
            "load",
            "--resume",
            "--jobs",
            jobs,
            "--batch-rows",
            batch,
            "-t",
            "events",
        ]);
        command.arg("--ledger").arg(&ledger).arg(&file).arg(&url);
        command
    };
    for (jobs, batch) in [("1", "200"), ("3", "130"), ("2", "310")] {
        let before = written(&url, &ledger);
        // So slow that the kill comes before the end.
        let mut running = Running::start(load(jobs, batch).args(["--rate", "200/s"]));
        while written(&url, &ledger) <= before && !running.has_ended() {}
        let ended = running.kill();
        assert_eq!(
            ended.status.signal(),
            Some(9),
            "it ended by itself:\n{}",
            ended.stderr
        );
    }
    let before = written(&url, &ledger);
    assert!(before > 0 && before < ROWS, "{}", runs(&url, &ledger));
    let account = directory.path().join("report.json");
    Running::start(load("2", "1000").arg("--report").arg(&account))
        .wait()
        .expect(0);
    let last = report(&account);
    assert_eq!(count(&last, "/rows/skipped/resumed"), before);
    assert_eq!(count(&last, "/rows/written"), ROWS - before);
    let expected: Vec<String> = events(ROWS).lines().skip(1).map(str::to_owned).collect();
    assert_eq!(unloaded(&url, directory.path()), expected);
    assert!(runs(&url, &ledger).contains("finished"));
}

#[test]
fn a_run_that_is_taken_over_stops_and_the_table_is_exact() {
    let keyspace = keyspace();
    let url = keyspace.bare_url();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("events.csv");
    std::fs::write(&file, events(ROWS)).unwrap();
    let ledger = directory.path().join("load.ledger");
    let load = |arguments: &[&str]| {
        let mut command = tonnage();
        command.args(["load", "-t", "events", "--ledger"]).arg(&ledger);
        command.args(arguments).arg(&file).arg(&url);
        Running::start(&mut command)
    };
    // So slow that the other one comes before its end.
    let mut first = load(&["--batch-rows", "50", "--jobs", "2", "--rate", "100/s"]);
    while written(&url, &ledger) == 0 {
        assert!(!first.has_ended(), "{}", first.wait().stderr);
    }
    load(&["--resume"]).wait().expect(0);
    let first = first.wait();
    assert!(
        first.stderr.contains("another process has taken this run over"),
        "{}",
        first.stderr
    );
    first.expect(1);
    let expected: Vec<String> = events(ROWS).lines().skip(1).map(str::to_owned).collect();
    assert_eq!(unloaded(&url, directory.path()), expected);
}

#[test]
fn the_ledger_is_where_it_was_asked_for_or_in_the_state_directory() {
    let keyspace = keyspace();
    let url = keyspace.bare_url();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("events.csv");
    std::fs::write(&file, events(10)).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = tonnage();
        command
            .args(["load", "-t", "events"])
            .args(arguments)
            .arg(&file)
            .arg(&url);
        command.env("XDG_STATE_HOME", directory.path().join("state"));
        let ran = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ran.status.code(), text(ran.stdout), text(ran.stderr))
    };
    let (code, plan, errors) = run(&["--dry-run"]);
    assert_eq!(code, Some(0), "{errors}");
    let state = directory.path().join("state/tonnage/cassandra");
    assert!(plan.contains(&state.display().to_string()), "{plan}");
    assert!(!state.exists());
    let (code, _, errors) = run(&[]);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(
        std::fs::read_dir(&state)
            .unwrap()
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().ends_with(".ledger")
            })
            .count(),
        1
    );
    let (code, _, errors) = run(&["--ledger", "target"]);
    assert_ne!(code, Some(0));
    assert!(errors.contains("cannot hold the ledger"), "{errors}");
    let (code, _, errors) = run(&["--ledger", "nne"]);
    assert_eq!(code, Some(2), "{errors}");

    // Where the ledger stands beside the rows a path is refused.
    let database = directory.path().join("shop.db");
    let mut command = tonnage();
    command.args(["load", "-t", "events", "--create", "--ledger", "./a.ledger"]);
    let ran = command.arg(&file).arg(&database).output().unwrap();
    let errors = String::from_utf8(ran.stderr).unwrap();
    assert!(errors.contains("keeps its ledger beside its tables"), "{errors}");
    assert!(!database.exists());
}

#[test]
fn it_does_the_operations_of_its_row_and_no_others() {
    let keyspace = keyspace();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("events.csv");
    std::fs::write(&file, "id,note\n1,one\n").unwrap();
    let said = tonnage().args(["targets", "--markdown"]).output().unwrap();
    let table = String::from_utf8(said.stdout).unwrap();
    let row = table.lines().find(|line| line.starts_with("| Cassandra |"));
    let operations = row.unwrap().split(" | ").nth(2).unwrap();
    for mode in ["insert", "upsert", "ignore", "update", "delete"] {
        let mut command = tonnage();
        command.args(["load", "-t", "events", "--mode", mode, "--dry-run"]);
        let ran = command.arg(&file).arg(keyspace.url()).output().unwrap();
        let errors = String::from_utf8(ran.stderr).unwrap();
        let listed = operations.split(", ").any(|operation| operation == mode);
        assert_eq!(ran.status.code() == Some(0), listed, "{mode}: {errors}");
        assert!(
            listed || errors.contains("lightweight transaction"),
            "{mode}: {errors}"
        );
    }
    let mut command = tonnage();
    command.args(["exec", "--dry-run", "--sql", "DELETE FROM events WHERE id = :id"]);
    let ran = command.arg(&file).arg(keyspace.url()).output().unwrap();
    let errors = String::from_utf8(ran.stderr).unwrap();
    assert_ne!(ran.status.code(), Some(0));
    assert!(errors.contains("runs no statements of your own"), "{errors}");
}

#[test]
fn it_is_measured_with_tables_of_its_own() {
    let keyspace = keyspace();
    let bench = |arguments: &[&str]| {
        let mut command = tonnage();
        command.args(["bench", &keyspace.bare_url(), "--yes"]);
        command.args(arguments).output().unwrap()
    };
    let ran = bench(&[
        "--rows",
        "200",
        "--duration",
        "10m",
        "--repeat",
        "1",
        "--batch-rows",
        "50",
        "--jobs",
        "1",
        "--method",
        "array",
        "--operation",
        "insert,delete",
        "--reads",
        "0,50",
        "--report",
        "-",
    ]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    let cells = report["cells"].as_array().expect("cells");
    // A delete leaves nothing to be read.
    assert_eq!(cells.len(), 3, "{report:#}");
    for cell in cells {
        assert_eq!(cell["runs"][0]["rows"], 200, "{cell}");
        if cell["setting"]["reads"] == 50 {
            assert_eq!(cell["runs"][0]["reads"]["keys"], 200, "{cell}");
            assert_eq!(cell["runs"][0]["reads"]["rows"], 200, "{cell}");
        }
        // Its node runs on this machine.
        assert!(cell["runs"][0]["server_cpu_seconds"].is_number(), "{report:#}");
        assert!(cell["runs"][0]["written_bytes"].is_null(), "{cell}");
        assert_eq!(cell["write_path"]["taken"], "unknown", "{cell}");
    }
    let url = keyspace.bare_url();
    let name = url.rsplit('/').next().expect("a keyspace");
    let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ";
    let left = keyspace.rows(&format!("{tables}'{name}'"));
    assert_eq!(left.len(), 1, "{left:?}");
    let refusals: [(&[&str], &str); 6] = [
        (&["--rtt", "1ms"], "goes past what lies between"),
        (&["--keys", "generated"], "Cassandra numbers no rows"),
        (
            &["--storage", "compressed"],
            "Cassandra compresses all tables that are made here",
        ),
        (&["--page-size", "4k"], "Cassandra has no pages"),
        (
            &["--workload", "readings", "--partitions", "2"],
            "the partitions of Cassandra are those of its keys",
        ),
        (
            &["--indexes", "1"],
            "secondary indexes of Cassandra cannot be measured yet",
        ),
    ];
    for (arguments, why) in refusals {
        let refused = bench(arguments);
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(told.contains(why), "{told}");
    }
}
