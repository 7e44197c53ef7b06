//! Tables that a crash of the server empties while the ledger survives: nothing goes on behind rows that are gone.

use std::{fs, process::Command, thread::sleep, time::Duration};

use tempfile::TempDir;

use crate::{
    faults::servers::Cluster,
    process::{Ended, Running, tonnage},
};

const UNLOGGED: &str = "CREATE UNLOGGED TABLE t (id bigint, v text)";
/// Of two partitions one is UNLOGGED.
const ONE_OF_TWO: &str = "CREATE TABLE t (id bigint, v text) PARTITION BY HASH (id); \
     CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0); \
     CREATE UNLOGGED TABLE t_1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)";
const LOGGED: &str = "CREATE TABLE t (id bigint, v text)";

const ROWS: u64 = 3_000;
/// Slow enough to be met before its end.
const SLOWLY: [&str; 6] = ["--rate", "300/s", "--batch-rows", "50", "--jobs", "2"];

/// A server that may be killed, and a file.
struct CrashableServer {
    cluster: Cluster,
    directory: TempDir,
}

impl CrashableServer {
    fn new(sql: &str) -> Self {
        let cluster = Cluster::start("");
        cluster.query("postgres", sql);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let lines = (1..=ROWS).map(|id| format!("{id},v{id}\n"));
        let text = format!("id,v\n{}", lines.collect::<String>());
        fs::create_dir(directory.path().join("in")).expect("a directory");
        fs::write(directory.path().join("in/a.csv"), text).expect("a file");
        Self { cluster, directory }
    }

    fn sql(&self, sql: &str) {
        self.cluster.query("postgres", sql);
    }

    fn number(&self, sql: &str) -> u64 {
        let rows = self.cluster.query("postgres", sql);
        let value = rows.first().and_then(|row| row.first()?.as_deref());
        value.and_then(|value| value.parse().ok()).expect("a number")
    }

    fn load(&self, arguments: &[&str]) -> Command {
        let mut load = tonnage();
        load.current_dir(self.directory.path());
        load.args(["load", "in"]).arg(self.cluster.url("postgres"));
        load.args(["-t", "t", "-q"]).args(arguments);
        load
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Running::start(&mut self.load(arguments)).wait()
    }

    /// Fails unless a load ends with `code` and says `text`.
    #[track_caller]
    fn expect(&self, arguments: &[&str], code: i32, text: &str) {
        let ended = self.run(arguments);
        ended.expect(code);
        assert!(ended.stderr.contains(text), "{arguments:?}\n{}", ended.stderr);
    }

    /// Begins a load and waits until it has committed rows.
    fn begin(&self, arguments: &[&str]) -> Running {
        let mut running = Running::start(self.load(arguments).args(SLOWLY));
        let written = "SELECT CASE WHEN to_regclass('tonnage_slots') IS NULL THEN 0 \
             ELSE (xpath('/row/n/text()', query_to_xml('SELECT coalesce(sum(written), 0) AS n FROM tonnage_slots', \
             false, true, '')))[1]::text::int8 END";
        while self.number(written) == 0 {
            assert!(!running.has_ended(), "{}", running.said());
            sleep(Duration::from_millis(10));
        }
        self.flush();
        running
    }

    /// Commits into such a table are relaxed: one that is durable takes the log to the disk, up to here.
    fn flush(&self) {
        self.sql("CREATE TABLE flushed (); DROP TABLE flushed");
    }

    fn crash(&self) {
        self.cluster.kill();
        self.cluster.restart();
    }

    /// Fails unless each row is there once.
    #[track_caller]
    fn expect_all(&self) {
        assert_eq!(self.number("SELECT count(*) FROM t"), ROWS);
        assert_eq!(self.number("SELECT count(DISTINCT id) FROM t"), ROWS);
    }
}

#[test]
fn rows_that_a_crash_has_emptied_are_not_passed_over() {
    for (table, again) in [
        (UNLOGGED, vec!["--restart"]),
        (ONE_OF_TWO, vec!["--restart", "--truncate"]),
    ] {
        let place = CrashableServer::new(table);
        place.begin(&[]).kill();
        place.crash();
        place.expect(&["--resume"], 2, "UNLOGGED, was emptied since");
        place.expect(&["--resume"], 2, "hint: --restart");
        place.expect(&["--new-files", "--resume"], 2, "UNLOGGED, was emptied since");
        place.run(&again).expect(0);
        place.expect_all();

        // Whoever shuts down empties nothing.
        place.cluster.stop();
        place.cluster.restart();
        place.run(&["--resume"]).expect(0);
        place.run(&["--new-files"]).expect(0);
        place.expect_all();

        place.crash();
        place.expect(&["--resume"], 2, "UNLOGGED, was emptied since");
        place.expect(&["--new-files"], 2, "UNLOGGED, was emptied since");
        place.run(&again).expect(0);
        // The run that was emptied is on record beside the one whose rows are there.
        place.run(&["--new-files"]).expect(0);
        place.run(&["--resume"]).expect(0);
        place.expect_all();
    }
}

#[test]
fn a_load_that_meets_the_crash_ends_there() {
    let place = CrashableServer::new(UNLOGGED);
    let running = place.begin(&[]);
    place.crash();
    let ended = running.wait();
    assert!(!ended.status.success(), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("a crash of the server has emptied the table"),
        "{}",
        ended.stderr
    );
    assert_eq!(place.number("SELECT count(*) FROM t"), 0);
    place.expect(&["--resume"], 2, "UNLOGGED, was emptied since");
    place.run(&["--restart"]).expect(0);
    place.expect_all();
}

#[test]
fn a_table_that_becomes_logged_keeps_its_rows_and_another_is_asked_about() {
    let place = CrashableServer::new(UNLOGGED);
    place.begin(&[]).kill();
    place.sql("ALTER TABLE t SET LOGGED");
    place.run(&["--resume"]).expect(0);
    place.expect_all();
    place.crash();
    place.run(&["--resume"]).expect(0);
    place.run(&["--new-files"]).expect(0);
    place.expect_all();

    // One that had all its rows, and was looked at again while they were there.
    place.sql("ALTER TABLE t SET UNLOGGED");
    place.expect(&["--resume"], 2, "was made UNLOGGED since");
    place.run(&["--restart", "--truncate"]).expect(0);
    place.sql("ALTER TABLE t SET LOGGED");
    place.run(&["--new-files"]).expect(0);
    place.crash();
    place.run(&["--new-files"]).expect(0);
    place.expect_all();

    let place = CrashableServer::new(LOGGED);
    place.begin(&[]).kill();
    place.sql("ALTER TABLE t SET UNLOGGED");
    place.expect(&["--resume"], 2, "was made UNLOGGED since");
    place.sql("ALTER TABLE t SET LOGGED");
    place.run(&["--resume"]).expect(0);
    place.expect_all();
}

#[test]
fn a_run_that_had_written_nothing_goes_on() {
    let place = CrashableServer::new(UNLOGGED);
    place.sql("ALTER TABLE t ADD CHECK (id < 0) NOT VALID");
    place.run(&[]).expect(1);
    place.sql("ALTER TABLE t DROP CONSTRAINT t_id_check");
    place.crash();
    // Which run it is does not depend on the constraint, and its shape does: so the same once more.
    place.sql("ALTER TABLE t ADD CHECK (id < 0) NOT VALID");
    place.expect(&["--resume"], 1, "violates check constraint");
    place.crash();
    place.sql("ALTER TABLE t DROP CONSTRAINT t_id_check");
    place.run(&["--restart"]).expect(0);
    place.expect_all();
}

#[test]
fn the_plan_says_that_no_durability_holds() {
    let place = CrashableServer::new(UNLOGGED);
    place.sql("CREATE VIEW v AS SELECT * FROM t WHERE id > 0");
    place.expect(&["--durability", "durable"], 2, "public.t is UNLOGGED");
    place.expect(&["--durability", "durable"], 2, "hint: ALTER TABLE");
    let plan = |command: &mut Command| {
        let plan = command.output().expect("it runs");
        String::from_utf8_lossy(&plan.stdout).into_owned() + &String::from_utf8_lossy(&plan.stderr)
    };
    let said = plan(&mut place.load(&["--dry-run"]));
    assert!(
        said.contains("public.t is UNLOGGED: whatever the durability"),
        "{said}"
    );
    let is_lowered = |line: &str| line.contains("durability") && line.trim_end().ends_with("relaxed");
    assert!(said.lines().any(is_lowered), "{said}");
    for table in ["t", "v"] {
        let mut exec = tonnage();
        exec.current_dir(place.directory.path())
            .args(["exec", "in/a.csv"]);
        exec.arg(place.cluster.url("postgres")).arg("--sql");
        exec.arg(format!("insert into {table} values (:id, :v)"));
        let said = plan(exec.arg("--dry-run"));
        assert!(
            said.contains("is UNLOGGED: whatever the durability"),
            "{table}: {said}"
        );
    }
}

#[test]
fn a_journal_does_not_go_on_behind_rows_that_are_gone() {
    let place = CrashableServer::new(UNLOGGED);
    let ingest = |arguments: &[&str]| {
        let mut ingest = tonnage();
        ingest.current_dir(place.directory.path()).arg("ingest");
        ingest.arg(place.cluster.url("postgres"));
        ingest.args(["-t", "t", "-q", "--journal", "j"]).args(arguments);
        let rows = place.directory.path().join("rows.jsonl");
        fs::write(&rows, "{\"id\": 1, \"v\": \"a\"}\n").expect("a file");
        let rows = fs::File::open(rows).expect("the file");
        Running::start_with(&mut ingest, rows.into()).wait()
    };
    ingest(&[]).expect(0);
    assert_eq!(place.number("SELECT count(*) FROM t"), 1);
    place.flush();
    place.crash();
    let ended = ingest(&[]);
    ended.expect(4);
    assert!(
        ended.stderr.contains("UNLOGGED, was emptied since"),
        "{}",
        ended.stderr
    );
    let ended = ingest(&["--accept-loss"]);
    assert!(ended.status.code().is_some(), "{}", ended.stderr);
    assert_eq!(place.number("SELECT count(*) FROM t"), 1);
    ingest(&[]).expect(0);
    assert_eq!(place.number("SELECT count(*) FROM t"), 2);
}
