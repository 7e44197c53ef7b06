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

/// What `cargo test` prints where `a::b` fails, as a script that counts in `file` how often it ran; what it does then.
fn fails_first(file: &Path, then: &str) -> String {
    format!(
        "echo \"$@\" >> '{0}'; if [ $(wc -l < '{0}') = 1 ]; then \
         printf 'running 2 tests\\ntest a::b ... FAILED\\n\\nfailures:\\n\\n---- a::b stdout ----\\n    no name\\n\\n'; \
         printf 'failures:\\n    a::b\\n\\ntest result: FAILED. 1 passed; 1 failed\\n\\n'; \
         printf 'error: 1 target failed:\\n    `-p c --test it`\\n'; exit 101; fi; {then}",
        file.display()
    )
}

#[test]
fn a_test_that_fails_once_is_named_and_one_that_fails_twice_is_a_failure() {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, then, code) in [("once", "exit 0", 0), ("twice", "exit 101", 101)] {
        let counted = directory.path().join(name);
        let ran = watched(&["--again", "1"], &fails_first(&counted, then));
        assert_eq!(ran.status.code(), Some(code), "{}", text(&ran.stdout));
        let given = std::fs::read_to_string(&counted).expect("both runs");
        let second = given.lines().nth(1).expect("a second run");
        assert!(second.ends_with("--exact --test-threads=1 a::b"), "{second}");
        let said = text(&ran.stderr).contains("warning: a::b is unstable");
        assert_eq!(said, code == 0, "{}", text(&ran.stderr));
    }
}

#[test]
fn what_cannot_be_made_good_is_not_run_again() {
    // More than may be, and a binary that ended without a summary.
    let two = "printf 'test result: FAILED.\\n' | sed 's/^/failures:\\n    a::b\\n    c::d\\n\\n/'; \
               printf 'error: 1 target failed:\\n'; exit 101";
    let crashed =
        "printf 'failures:\\n    a::b\\n\\ntest result: FAILED.\\nerror: 2 targets failed:\\n'; exit 101";
    for shell in [two, crashed] {
        let ran = watched(&["--again", "1"], shell);
        assert_eq!(ran.status.code(), Some(101));
        assert!(!text(&ran.stdout).contains("once more"), "{}", text(&ran.stdout));
    }
}
