//! What the version before left unfinished goes on under this one.
//!
//! `tests/data/earlier` was made by the release before the library became a workspace: `tonnage load orders.csv shop.db -t
//! orders --rejects bad.jsonl`, killed, and `tonnage ingest shop.db -t readings --ack journaled --journal journal`, killed
//! while the database was locked, both in [`DIRECTORY`], which their records name.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use rusqlite::Connection;

/// Where the files were when they were made: the ledger knows inputs and journals by their paths.
const DIRECTORY: &str = "/tmp/tonnage-earlier-version";
/// When the input was last changed, in seconds since 1970.
const MODIFIED: u64 = 1_767_323_045;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("the data of the test") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).expect("it is copied")),
        }
    }
}

fn tonnage(arguments: &[&str]) -> (Option<i32>, String) {
    let ran = Command::new(env!("CARGO_BIN_EXE_tonnage"))
        .args(arguments)
        .current_dir(DIRECTORY)
        .stdin(Stdio::null())
        .output()
        .expect("tonnage runs");
    (
        ran.status.code(),
        String::from_utf8_lossy(&ran.stderr).into_owned(),
    )
}

#[test]
fn a_run_its_rejects_and_a_journal_of_the_version_before_go_on() {
    let directory = Path::new(DIRECTORY);
    let _ = fs::remove_dir_all(directory);
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/earlier"),
        directory,
    );
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED);
    let input = fs::File::options()
        .write(true)
        .open(directory.join("orders.csv"))
        .expect("the input");
    input.set_modified(modified).expect("its time is set");
    drop(input);

    let load = [
        "load",
        "orders.csv",
        "shop.db",
        "-t",
        "orders",
        "--rejects",
        "bad.jsonl",
    ];
    let (code, said) = tonnage(&load);
    assert_eq!(code, Some(2), "an unfinished run is not begun again: {said}");
    assert!(said.contains("--resume"), "{said}");
    let (code, said) = tonnage(&[&load[..], &["--resume"]].concat());
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("600 read = 268 written + 332 resumed"), "{said}");
    let (code, said) = tonnage(&[
        "ingest",
        "shop.db",
        "-t",
        "readings",
        "--ack",
        "journaled",
        "--journal",
        "journal",
    ]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("41 rows of the journal drained first"), "{said}");

    let shop = Connection::open(directory.join("shop.db")).expect("the database");
    let count = |sql: &str| shop.query_row(sql, [], |row| row.get::<_, i64>(0)).expect(sql);
    assert_eq!(count("SELECT count(*) FROM orders"), 588);
    assert_eq!(count("SELECT count(*) FROM orders WHERE id % 50 = 0"), 0);
    assert_eq!(count("SELECT count(*) FROM readings"), 41);
    assert_eq!(count("SELECT count(DISTINCT device) FROM readings"), 41);
    let rejects = fs::read_to_string(directory.join("bad.jsonl")).expect("the rejects");
    assert_eq!(rejects.lines().count(), 12);
    fs::remove_dir_all(directory).expect("it is removed");
}
