//! `scripts/watch-tests`: tests that hang are named and ended, and others are left alone.

use std::{
    path::Path,
    process::{Command, Output},
};

/// Runs the script around `shell`, which prints what a test binary would.
fn watched(options: &[&str], shell: &str) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/watch-tests");
    Command::new(script)
        .args(options)
        .args(["bash", "-c", shell])
        .output()
        .expect("the script runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_ends_is_passed_on_with_its_exit_code() {
    let ran = watched(
        &[],
        "echo 'running 1 test'; echo 'test a::b has been running for over 60 seconds'; echo 'test a::b ... FAILED'; \
         echo warned >&2; exit 7",
    );
    assert_eq!(ran.status.code(), Some(7));
    let out = text(&ran.stdout);
    assert!(
        out.contains("test a::b ... FAILED\n") && out.contains("warned\n"),
        "{out}"
    );
}

#[test]
fn a_test_that_hangs_is_named_and_ended() {
    // It has been running for a minute when that is told, which is more than half of one.
    let ran = watched(
        &["--test-minutes", "0.5"],
        "echo 'running 2 tests'; echo 'test a::quick ... ok'; \
         echo 'test a::hangs has been running for over 60 seconds'; sleep 86400",
    );
    assert_eq!(ran.status.code(), Some(124));
    let told = text(&ran.stdout);
    assert!(
        told.contains("error: the tests hang: a::hangs: longer than 0.5 minutes"),
        "{told}"
    );
    assert!(text(&ran.stderr).contains("a::hangs"), "{}", text(&ran.stderr));
}

#[test]
fn tests_that_print_nothing_any_more_are_ended() {
    let ran = watched(
        &["--silent-minutes", "0.001"],
        "echo 'running 2 tests'; sleep 86400",
    );
    assert_eq!(ran.status.code(), Some(124));
    let told = text(&ran.stdout);
    assert!(told.contains("nothing was printed for 0.001 minutes"), "{told}");
}
