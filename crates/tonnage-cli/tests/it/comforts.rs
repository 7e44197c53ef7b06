//! Ways to say which database and with which password: names, files, variables, the terminal.

use std::{
    io::{Read, Write},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::{JoinHandle, sleep},
    time::Duration,
};

use crate::support::{Database, TestDatabase};

const TABLE: &str = "CREATE TABLE orders (id integer PRIMARY KEY)";
const FILES: &[(&str, &str)] = &[("orders.csv", "id\n1\n2\n")];

/// User, password and `host:port/database` of a place's URL.
fn parts(place: &TestDatabase) -> (String, String, String) {
    let url = place.url();
    let (_, rest) = url.split_once("://").expect("a URL");
    let (login, rest) = rest.split_once('@').expect("a login");
    let (user, password) = login.split_once(':').expect("a password");
    (user.to_owned(), password.to_owned(), rest.to_owned())
}

#[test]
fn a_connection_string_of_keywords_is_a_database() {
    let place = TestDatabase::with(Database::Postgres, TABLE, FILES);
    let (user, password, rest) = parts(&place);
    let (address, name) = rest.split_once('/').expect("a database");
    let (host, port) = address.split_once(':').expect("a port");
    let target = format!("host={host} port={port} user = {user} password={password} dbname={name}");
    let ran = place.run(&format!("load orders.csv '{target}' -t orders"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(place.sql("SELECT count(*) FROM orders"), ["2"]);
    assert!(
        ran.stderr.contains("password=***") && !ran.stderr.contains(&password),
        "{}",
        ran.stderr
    );
    for wrong in [
        target.replace("dbname", "dbnam"),
        target.replace(&password, "s3cret"),
    ] {
        let ran = place.run(&format!("load orders.csv '{wrong}' -t orders"));
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(
            !ran.stderr.contains(&password) && !ran.stderr.contains("s3cret"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_name_stands_for_a_url_and_a_password() {
    let place = TestDatabase::with(Database::Postgres, TABLE, FILES);
    let (user, password, rest) = parts(&place);
    place.write(
        "targets.toml",
        format!("[shop]\nurl = \"postgresql://{user}@{rest}\"\npassword_env = \"SHOP_PASSWORD\"\n"),
    );
    let given = [("SHOP_PASSWORD", password.as_str())];
    let ran = place.run_with("load orders.csv @shop -t orders", &given, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(place.sql("SELECT count(*) FROM orders"), ["2"]);
    assert!(
        ran.stderr.starts_with("insert into postgresql://"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains(&password));
    let ran = place.run_with("runs @shop", &given, b"");
    assert_eq!(
        (ran.code, ran.stdout.lines().count()),
        (Some(0), 1),
        "{}",
        ran.stderr
    );

    let ran = place.run_with("runs @shop", &[("SHOP_PASSWORD", "s3cret")], b"");
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr
            .starts_with("error: @shop of targets.toml: password authentication failed for user \"tonnage\"")
            && ran.stderr.contains("(password from the variable SHOP_PASSWORD)")
            && !ran.stderr.contains("s3cret"),
        "{}",
        ran.stderr
    );
    let ran = place.run("load orders.csv @shpo -t orders");
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            Some(2),
            "error: there is no target @shpo in targets.toml\nhint: did you mean @shop?\n"
        )
    );
}

#[test]
fn a_name_may_stand_for_a_file() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, FILES);
    place.write(".config/tonnage/targets.toml", "[shop]\nurl = 'shop.db'\n");
    let ran = place.run_with("load orders.csv @shop -t orders", &[("XDG_CONFIG_HOME", "")], b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(place.sql("SELECT count(*) FROM orders"), ["2"]);
}

/// Whether a terminal keeps to itself what is typed.
fn hides(terminal: &str) -> bool {
    let asked = Command::new("stty").args(["-a", "-F", terminal]).output();
    let asked = asked.expect("stty is there, a part of coreutils");
    let settings = String::from_utf8_lossy(&asked.stdout).into_owned();
    settings.split_whitespace().any(|setting| setting == "-echo")
}

/// Runs the program on a terminal of its own, on which `typed` is typed as a password. All that the terminal shows, and
/// the exit code.
pub fn on_terminal(place: &TestDatabase, arguments: &str, typed: &str) -> (Option<i32>, String) {
    // The program hides what is typed only after it has shown the question.
    answered(place, &format!("{arguments} </dev/null"), ": ", hides, typed)
}

/// How often a terminal is looked at, and how many times at most for one thing: a minute.
const LOOK: Duration = Duration::from_millis(10);
const LOOKS_MAX: u32 = 6_000;

/// A program on a terminal of its own, and what that shows.
struct Terminal {
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    /// Ends when nothing more can be shown.
    reading: JoinHandle<()>,
}

impl Terminal {
    /// Takes over a program whose output is a pipe. It is read beside, so that waiting for it has an end.
    fn of(mut child: Child) -> Self {
        let mut screen = child.stdout.take().expect("a screen");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let reading = {
            let shown = shown.clone();
            std::thread::spawn(move || {
                let mut bytes = [0; 4_096];
                loop {
                    let count = screen.read(&mut bytes).expect("it can be read");
                    if count == 0 {
                        return;
                    }
                    shown
                        .lock()
                        .expect("no panic holds it")
                        .extend_from_slice(&bytes[..count]);
                }
            })
        };
        Self {
            child,
            shown,
            reading,
        }
    }

    /// All that it has shown so far.
    fn shown(&self) -> String {
        let shown = self.shown.lock().expect("no panic holds it");
        String::from_utf8_lossy(&shown).into_owned()
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it can be asked").is_some()
    }

    /// Waits until something is so; what it never is so of is killed.
    fn until(&mut self, what: &str, is_so: impl Fn(&mut Self) -> bool) {
        for _ in 0..LOOKS_MAX {
            if is_so(self) {
                return;
            }
            sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        panic!("{what}: never so; shown is {:?}", self.shown());
    }
}

/// Runs the program on a terminal of its own, on which `typed` is typed behind its question, which ends with `question`,
/// once the terminal is `ready`.
fn answered(
    place: &TestDatabase,
    arguments: &str,
    question: &str,
    ready: fn(&str) -> bool,
    typed: &str,
) -> (Option<i32>, String) {
    // Its name comes first.
    let line = format!("tty; exec {} {arguments}", env!("CARGO_BIN_EXE_tonnage"));
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .current_dir(place.path(""))
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script is there, a part of util-linux");
    let mut keyboard = child.stdin.take().expect("a keyboard");
    let mut terminal = Terminal::of(child);
    terminal.until("it asks or ends", |terminal| {
        terminal.shown().contains(question) || terminal.reading.is_finished()
    });
    let shown = terminal.shown();
    let name = shown.lines().next().expect("its name");
    terminal.until("the terminal is ready for what is typed", |terminal| {
        ready(name) || terminal.has_ended()
    });
    keyboard.write_all(typed.as_bytes()).expect("typed");
    terminal.until("it ends", |terminal| {
        terminal.has_ended() && terminal.reading.is_finished()
    });
    let status = terminal.child.wait().expect("it ends");
    (status.code(), terminal.shown())
}

#[test]
fn a_password_is_asked_for_on_the_terminal_only() {
    let place = TestDatabase::with(Database::Postgres, TABLE, FILES);
    let (user, password, rest) = parts(&place);
    let url = format!("postgresql://{user}:wrong@{rest}");
    for (typed, code, said) in [
        (password.as_str(), 0, "2 rows written"),
        ("s3cret", 2, "(password typed at the terminal)"),
        ("\u{3}", 130, "error: interrupted; no rows were written"),
    ] {
        let arguments = format!("load orders.csv {url} -t orders --ask-password --progress none");
        let (ended, shown) = on_terminal(&place, &arguments, &format!("{typed}\n"));
        assert_eq!(ended, Some(code), "{shown}");
        assert!(
            shown.contains(&format!("Password for postgresql://{user}:***@{rest}: ")),
            "{shown}"
        );
        assert!(shown.contains(said), "{shown}");
        assert!(!shown.contains("wrong") && !shown.contains(typed), "{shown}");
    }
    assert_eq!(place.sql("SELECT count(*) FROM orders"), ["2"]);

    // Rows on standard input are no password, and without a terminal nobody is there to ask.
    let mut alone = Command::new("setsid");
    let ran = alone
        .args([
            "--wait",
            env!("CARGO_BIN_EXE_tonnage"),
            "runs",
            &url,
            "--ask-password",
        ])
        .stdin(Stdio::null())
        .output()
        .expect("setsid is there, a part of util-linux");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(
        said.starts_with("error: --ask-password needs a terminal to ask on") && said.contains("\nhint: "),
        "{said}"
    );
}

#[test]
fn a_question_is_answered_or_interrupted() {
    let place = TestDatabase::with(Database::Postgres, TABLE, FILES);
    let url = place.url();
    for (typed, code, said) in [
        ("n\n", 130, "error: not allowed; nothing was made"),
        ("\n", 130, "error: not allowed; nothing was made"),
        // No key but that one.
        ("\u{3}", 130, "\r\nerror: interrupted; no rows were written"),
        ("y\n", 0, "rows/s"),
    ] {
        let arguments = format!("bench {url} --rows 2 --repeat 1 --method array --jobs 1 --batch-rows 2");
        let (ended, shown) = answered(&place, &arguments, "[y/N] ", |_| true, typed);
        assert!(shown.contains(" Go on? [y/N] "), "{shown}");
        assert_eq!(ended, Some(code), "{shown}");
        assert!(shown.contains(said), "{shown}");
    }
}

#[test]
fn a_database_without_passwords_asks_for_none() {
    let place = TestDatabase::new(Database::Sqlite);
    let ran = place.run("runs shop.db --ask-password");
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            Some(2),
            "error: SQLite takes no password\nhint: leave --ask-password out\n"
        )
    );
}

#[test]
fn options_of_other_tools_are_named_as_they_are_here() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, FILES);
    for (option, meant) in [
        ("--upsert", "for --upsert write --mode upsert"),
        ("--header", "--no-header says that there is none"),
        ("--batch-size 10", "for --batch-size write --batch-rows N"),
        ("--threads=4", "for --threads write --jobs N"),
        ("--sep ;", "for --sep write --delimiter C"),
    ] {
        let ran = place.run(&format!("load orders.csv {{db}} -t orders {option}"));
        assert_eq!(ran.code, Some(2), "{option}");
        assert!(ran.stderr.contains(meant), "{option}: {}", ran.stderr);
        assert!(!ran.stderr.contains("similar"), "{option}: {}", ran.stderr);
    }
    let ran = place.run("load orders.csv {db}");
    let example = "\nhint: for example tonnage load orders.csv shop.db -t orders\n";
    assert!(ran.stderr.ends_with(example), "{}", ran.stderr);
    let ran = place.run("load orders.csv {db} -t orders --nonsense");
    assert!(!ran.stderr.contains("write --"), "{}", ran.stderr);
}

#[test]
fn runs_are_listed_by_table_and_as_json() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, FILES);
    place.sql("CREATE TABLE others (id integer)");
    for table in ["orders", "others"] {
        assert_eq!(
            place.run(&format!("load orders.csv {{db}} -t {table}")).code,
            Some(0)
        );
    }
    let listed = place.run("runs {db} -t others");
    assert_eq!(listed.stdout.lines().count(), 1, "{}", listed.stdout);
    let listed = place.run("runs {db} --json");
    let runs: Vec<serde_json::Value> = listed
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect();
    assert_eq!(runs.len(), 2);
    for run in &runs {
        assert_eq!(run["state"], "finished");
        assert_eq!(run["rows"]["written"], 2);
        assert!(run["started"].as_str().expect("a time").ends_with('Z'), "{run}");
    }
    assert_eq!(
        place.run("runs {db} --table nothing").stderr,
        "no runs into nothing\n"
    );
    let missing = place.run("runs other.db").stderr;
    assert!(
        missing.starts_with("no runs: ") && missing.ends_with("other.db does not exist\n"),
        "{missing}"
    );
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, FILES);
    assert_eq!(place.run("load orders.csv {db} -t orders").code, Some(0));
    for command in [
        "runs shop.db",
        "targets",
        "load orders.csv shop.db -t orders --dry-run",
    ] {
        // The reader is gone before the first word is written.
        let script = format!(
            "(sleep 0.3; exec {} {command}) | true; exit ${{PIPESTATUS[0]}}",
            env!("CARGO_BIN_EXE_tonnage")
        );
        let ran = Command::new("bash")
            .args(["-c", &script])
            .current_dir(place.path(""))
            .output()
            .expect("bash runs");
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!((ran.status.code(), &*stderr), (Some(0), ""), "{command}");
    }
}

#[test]
fn a_table_is_named_with_t_everywhere() {
    let place = TestDatabase::with(Database::Sqlite, TABLE, FILES);
    for command in [
        "explain {db} -t orders orders.csv --rows 100 --yes",
        "explain {db} orders orders.csv --rows 100 --yes",
    ] {
        let ran = place.run(command);
        assert_eq!(ran.code, Some(0), "{command}: {}", ran.stderr);
    }
    let ran = place.run("explain {db}");
    assert!(ran.stderr.contains("-t TABLE names it"), "{}", ran.stderr);
    let mapped = place.run("load orders.csv {db} -t orders --map id=id,other=x --dry-run");
    assert!(!mapped.stderr.contains("NAME=VALUE"), "{}", mapped.stderr);
}
