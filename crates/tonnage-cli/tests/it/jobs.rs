//! Jobs: parts in any order, at once, twice, killed and run again, and one account of all.

use std::{
    fs,
    process::Command,
    thread::{scope, sleep},
    time::{Duration, SystemTime},
};

use serde_json::Value;

use crate::{
    process::{Running, tonnage},
    support::{
        ALL, BOTH,
        Database::{self, MariaDb, Sqlite},
        Ran, TestDatabase,
    },
};

const TABLE: &str = "CREATE TABLE t (id bigint PRIMARY KEY, v varchar(20))";
const FILES: usize = 6;
const ROWS: usize = 50;

/// A table, and files in `in` of ids from 0 on.
fn place(database: Database) -> TestDatabase {
    filled(database, FILES, ROWS)
}

fn filled(database: Database, files: usize, rows: usize) -> TestDatabase {
    let place = TestDatabase::with(database, TABLE, &[]);
    for file in 0..files {
        let ids = file * rows..(file + 1) * rows;
        let lines: String = ids.map(|id| format!("{id},v{id}\n")).collect();
        place.write(&format!("in/{file}.csv"), format!("id,v\n{lines}"));
    }
    place
}

fn planned(place: &TestDatabase, options: &str) {
    let ran = place.run(&format!("job plan in {{db}} -t t -o job.json {options}"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}

fn job(place: &TestDatabase, command: &str, options: &str) -> Ran {
    place.run(&format!("job {command} job.json {{db}} {options}"))
}

/// What a command says as JSON.
fn report(place: &TestDatabase, command: &str, options: &str) -> Value {
    let ran = job(place, command, &format!("{options} --json"));
    assert!(
        matches!(ran.code, Some(0 | 3)),
        "{command} {options}: {}",
        ran.stderr
    );
    serde_json::from_str(&ran.stdout_exact).expect("the report is JSON")
}

fn ids(place: &TestDatabase) -> Vec<u64> {
    let ids = place.sql("SELECT id FROM t ORDER BY id");
    ids.iter().map(|id| id.parse().expect("a number")).collect()
}

/// Every id once, and the account says so.
fn assert_whole(place: &TestDatabase, rows: usize, account: &Value) {
    assert_eq!(ids(place), (0..rows as u64).collect::<Vec<_>>());
    assert_eq!(account["state"], "finished", "{account}");
    assert_balanced(account);
    assert_eq!(account["rows"]["written"], rows as u64);
}

fn assert_balanced(account: &Value) {
    let number = |value: &Value| value.as_u64().expect("a count");
    let sum = |rows: &Value| number(&rows["written"]) + number(&rows["skipped"]) + number(&rows["rejected"]);
    assert_eq!(
        number(&account["rows"]["read"]),
        sum(&account["rows"]),
        "{account}"
    );
    let parts = account["list"].as_array().expect("the parts");
    let all: u64 = parts.iter().map(|part| sum(&part["rows"])).sum();
    assert_eq!(all, sum(&account["rows"]), "{account}");
}

fn command(place: &TestDatabase, arguments: &[&str]) -> Command {
    let mut command = tonnage();
    command
        .current_dir(place.path(""))
        .env("HOME", place.path(""))
        .arg("job")
        .args(arguments);
    command
}

/// `job run job.json` of this database, with more arguments.
fn running(place: &TestDatabase, arguments: &[&str]) -> Running {
    let url = place.url();
    let mut all = vec!["run", "job.json", url.as_str()];
    all.extend(arguments);
    Running::start(&mut command(place, &all))
}

#[test]
fn parts_are_done_once_in_whatever_order_and_however_often() {
    for database in ALL {
        let place = place(*database);
        planned(&place, "--parts 4");
        let refused = job(&place, "finish", "");
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("4 parts of 4 not done: 0 to 3\n"),
            "{}",
            refused.stderr
        );
        assert_eq!(job(&place, "run", "--part 2").code, Some(0));
        scope(|scope| {
            let twice = [3, 0, 3, 0].map(|part| {
                let place = &place;
                scope.spawn(move || (part, job(place, "run", &format!("--part {part}"))))
            });
            for process in twice {
                let (part, ran) = process.join().expect("no panic");
                assert_eq!(ran.code, Some(0), "part {part}: {}", ran.stderr);
            }
        });
        let again = job(&place, "run", "--part 2");
        assert_eq!(again.code, Some(0), "{}", again.stderr);
        assert!(
            again.stderr.starts_with("part 2 is already done: "),
            "{}",
            again.stderr
        );
        let status = report(&place, "status", "");
        assert_eq!(
            (&status["state"], &status["parts"]["done"]),
            (&"unfinished".into(), &3.into())
        );
        let refused = job(&place, "finish", "");
        assert!(
            refused.stderr.contains("1 part of 4 not done: 1\n"),
            "{}",
            refused.stderr
        );
        let rest = report(&place, "run", "");
        let done: Vec<_> = rest["parts"]
            .as_array()
            .expect("parts")
            .iter()
            .map(|part| &part["part"])
            .collect();
        assert_eq!(done, [1]);
        assert_eq!(rest["parts"][0]["load"]["state"], "finished");
        scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| report(&place, "finish", "")));
            for process in both {
                let account = process.join().expect("no panic");
                assert_whole(&place, FILES * ROWS, &account);
            }
        });
        let runs = place.sql("SELECT count(*) FROM tonnage_runs WHERE finished IS NOT NULL");
        // The job's own, and one a part.
        assert_eq!(runs, ["5"], "{database:?}");
        let nothing = report(&place, "run", "");
        assert_eq!(nothing["state"], "nothing to do");
    }
}

#[test]
fn several_processes_share_all_parts_among_them() {
    for database in ALL {
        let place = filled(*database, 12, 40);
        planned(&place, "--parts 12");
        let done = scope(|scope| {
            let place = &place;
            let processes: Vec<_> = (0..4)
                .map(|at| {
                    // Some take one part after another, some as many times one.
                    let auto = if at % 2 == 0 { "" } else { "--part auto" };
                    scope.spawn(move || report(place, "run", auto))
                })
                .collect();
            let reports = processes
                .into_iter()
                .map(|process| process.join().expect("no panic"));
            let parts = reports.flat_map(|report| report["parts"].as_array().cloned().unwrap_or_default());
            let mut parts: Vec<_> = parts
                .map(|part| part["part"].as_u64().expect("a number"))
                .collect();
            parts.sort_unstable();
            parts
        });
        assert_eq!(done, (0..12).collect::<Vec<u64>>(), "{database:?}");
        assert_whole(&place, 12 * 40, &report(&place, "finish", ""));
    }
}

#[test]
fn a_part_that_is_killed_goes_on_where_it_was() {
    for database in ALL {
        let place = filled(*database, 2, 4_000);
        planned(&place, "--parts 2 --rate 4k/s --batch-rows 100 --jobs 2");
        let mut kills = 0;
        while kills < 3 {
            let before = place.sql("SELECT count(*) FROM t");
            let mut process = running(&place, &["--part", "1", "--lease", "3s"]);
            while place.sql("SELECT count(*) FROM t") == before && !process.has_ended() {
                sleep(Duration::from_millis(5));
            }
            assert!(!process.has_ended(), "{}", process.wait().stderr);
            process.kill();
            kills += 1;
        }
        let status = report(&place, "status", "");
        assert_eq!(status["list"][1]["attempts"], 3, "{status}");
        assert_eq!(job(&place, "run", "--lease 3s").code, Some(0));
        let account = report(&place, "finish", "");
        assert_eq!(account["list"][1]["attempts"], 4, "{account}");
        assert_whole(&place, 8_000, &account);
        let runs = place.sql("SELECT count(*) FROM tonnage_runs");
        assert_eq!(runs, ["3"], "all attempts at a part are one run");
    }
}

#[test]
fn a_part_that_is_stopped_is_free_at_once() {
    for database in BOTH {
        let place = filled(*database, 1, 4_000);
        planned(&place, "--parts 1 --rate 2k/s --batch-rows 100");
        let mut process = running(&place, &["--part", "0", "--lease", "10m"]);
        while place.sql("SELECT count(*) FROM t") == ["0"] && !process.has_ended() {
            sleep(Duration::from_millis(5));
        }
        process.signal(15);
        let ended = process.wait();
        assert_eq!(ended.status.code(), Some(143), "{}", ended.stderr);
        let status = report(&place, "status", "");
        assert_eq!(status["list"][0]["state"], "failed", "{status}");
        assert_eq!(job(&place, "run", "--part 0").code, Some(0));
        assert_whole(&place, 4_000, &report(&place, "finish", ""));
    }
}

#[test]
fn a_higher_attempt_takes_a_part_from_one_that_is_alive() {
    for database in BOTH {
        let place = filled(*database, 1, 4_000);
        planned(&place, "--parts 1 --rate 1k/s --batch-rows 50");
        let mut early = running(&place, &["--part", "0", "--attempt", "1", "--lease", "3s"]);
        while place.sql("SELECT count(*) FROM t") == ["0"] && !early.has_ended() {
            sleep(Duration::from_millis(5));
        }
        let late = job(&place, "run", "--part 0 --attempt 2");
        assert_eq!(late.code, Some(0), "{}", late.stderr);
        let early = early.wait();
        assert_eq!(early.status.code(), Some(1), "{}", early.stderr);
        assert!(
            early.stderr.contains("taken over by a later attempt"),
            "{}",
            early.stderr
        );
        assert_whole(&place, 4_000, &report(&place, "finish", ""));
    }
}

#[test]
fn a_file_that_changed_since_the_plan_is_refused() {
    let place = place(Sqlite);
    planned(&place, "--parts 6");
    let by_name = |name: &str| {
        let status = report(&place, "status", "");
        let list = status["list"].as_array().expect("parts").clone();
        let own = |part: &&Value| part["files"][0].as_str().is_some_and(|file| file.ends_with(name));
        list.iter().find(own).expect("a part")["part"].clone()
    };
    place.write("in/2.csv", "id,v\n1,other\n");
    let times = fs::File::options()
        .append(true)
        .open(place.path("in/3.csv"))
        .expect("the file opens");
    let later = SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000);
    times.set_modified(later).expect("its time is set");
    fs::remove_file(place.path("in/4.csv")).expect("it goes");
    for (name, says) in [
        ("2.csv", "in/2.csv has changed since the job was planned"),
        ("3.csv", "in/3.csv has been written to since the job was planned"),
        ("4.csv", "in/4.csv: there is no such file"),
    ] {
        let ran = job(&place, "run", &format!("--part {}", by_name(name)));
        assert_eq!(ran.code, Some(1), "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{name}: {}", ran.stderr);
    }
    let status = job(&place, "status", "");
    assert!(status.stdout.contains("3 parts failed"), "{}", status.stdout);
    assert!(
        status.stdout.contains("in/2.csv has changed since"),
        "{}",
        status.stdout
    );
    assert!(ids(&place).is_empty());
}

#[test]
fn bad_rows_go_to_a_file_of_their_part() {
    for database in ALL {
        let place = place(*database);
        place.write("in/7.csv", "id,v\n900,a\nx,b\n901,c\n");
        place.write("in/8.csv", "id,v\ny,b\n");
        planned(&place, "--parts 8 --rejects bad");
        let ran = job(&place, "run", "");
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        let finished = job(&place, "finish", "--report account.json");
        assert_eq!(finished.code, Some(3), "{}", finished.stderr);
        let account: Value = serde_json::from_str(&place.read("account.json")).expect("JSON");
        assert_balanced(&account);
        assert_eq!(account["rows"]["rejected"], 2);
        assert_eq!(account["rows"]["written"], (FILES * ROWS + 2) as u64);
        let files = place.files("bad");
        assert_eq!(files.len(), 2, "{files:?}");
        let records: String = files
            .iter()
            .map(|file| place.read(&format!("bad/{file}")))
            .collect();
        assert_eq!(records.lines().count(), 2, "{records}");
        let parts = account["list"].as_array().expect("parts");
        let named: Vec<_> = parts.iter().filter_map(|part| part["rejects"].as_str()).collect();
        assert_eq!(named.len(), 2, "{account}");
        assert!(
            named.iter().all(|file| fs::exists(file).expect("a path")),
            "{named:?}"
        );
    }
}

#[test]
fn without_a_place_for_rejects_a_bad_row_stops_its_part_alone() {
    let place = place(Sqlite);
    place.write("in/7.csv", "id,v\n900,a\nx,b\n901,c\n");
    planned(&place, "--parts 7");
    let codes: Vec<_> = (0..7)
        .map(|part| job(&place, "run", &format!("--part {part}")).code)
        .collect();
    assert_eq!(
        codes.iter().filter(|code| **code == Some(1)).count(),
        1,
        "{codes:?}"
    );
    assert_eq!(
        codes.iter().filter(|code| **code == Some(0)).count(),
        6,
        "{codes:?}"
    );
    let refused = job(&place, "finish", "");
    assert!(
        refused.stderr.contains("1 part of 7 not done"),
        "{}",
        refused.stderr
    );
}

#[test]
fn what_belongs_to_the_job_is_done_once() {
    for database in ALL {
        let place = place(*database);
        place.sql("INSERT INTO t VALUES (1, 'old'); CREATE TABLE log (what bigint)");
        planned(
            &place,
            "--parts 3 --truncate --before-sql 'INSERT INTO log VALUES (1)' --after-sql 'INSERT INTO log VALUES (2)'",
        );
        assert!(ids(&place).is_empty(), "{database:?}");
        assert_eq!(place.sql("SELECT what FROM log"), ["1"], "{database:?}");
        for part in [1, 0, 2, 1, 0] {
            assert_eq!(job(&place, "run", &format!("--part {part}")).code, Some(0));
        }
        assert_whole(&place, FILES * ROWS, &report(&place, "finish", ""));
        assert_whole(&place, FILES * ROWS, &report(&place, "finish", ""));
        assert_eq!(
            place.sql("SELECT what FROM log ORDER BY what"),
            ["1", "2"],
            "{database:?}"
        );
    }
}

#[test]
fn a_table_takes_the_place_of_another_once_all_is_in() {
    for database in BOTH {
        let place = place(*database);
        place.sql("INSERT INTO t VALUES (1, 'old'); CREATE INDEX t_v ON t (v)");
        planned(&place, "--parts 3 --recreate");
        assert_eq!(job(&place, "run", "").code, Some(0));
        assert_eq!(place.sql("SELECT v FROM t"), ["old"], "{database:?}");
        assert_whole(&place, FILES * ROWS, &report(&place, "finish", ""));
        assert!(place.sql("SELECT v FROM t WHERE id = 1") == ["v1"]);
    }
}

#[test]
fn indexes_are_built_at_the_end() {
    for database in BOTH {
        let place = place(*database);
        place.sql("CREATE INDEX t_v ON t (v)");
        let indexes = match database {
            Sqlite => "SELECT name FROM sqlite_schema WHERE name = 't_v'",
            _ => "SELECT relname FROM pg_class WHERE relname = 't_v'",
        };
        planned(&place, "--parts 3 --rebuild-indexes");
        assert!(place.sql(indexes).is_empty(), "{database:?}");
        assert_eq!(job(&place, "run", "").code, Some(0));
        assert!(place.sql(indexes).is_empty(), "{database:?}");
        assert_whole(&place, FILES * ROWS, &report(&place, "finish", ""));
        assert_eq!(place.sql(indexes), ["t_v"], "{database:?}");
    }
}

#[test]
fn a_job_that_is_forgotten_leaves_the_table_as_it_was() {
    for database in BOTH {
        let place = place(*database);
        place.sql("INSERT INTO t VALUES (1, 'old')");
        planned(&place, "--parts 3 --recreate");
        assert_eq!(job(&place, "run", "--part 0").code, Some(0));
        let file: Value = serde_json::from_str(&place.read("job.json")).expect("JSON");
        let id = file["job"].as_str().expect("an id");
        let forgotten = place.run(&format!("runs {{db}} --forget {id}"));
        assert_eq!(forgotten.code, Some(0), "{}", forgotten.stderr);
        assert_eq!(place.sql("SELECT v FROM t"), ["old"]);
        let gone = job(&place, "run", "--part 1");
        assert_eq!(gone.code, Some(2), "{}", gone.stderr);
        assert!(gone.stderr.contains("there is no job"), "{}", gone.stderr);
        assert!(place.sql("SELECT * FROM tonnage_parts").is_empty());
    }
}

#[test]
fn a_table_is_made_for_a_job() {
    for database in ALL {
        let place = place(*database);
        place.sql("DROP TABLE t");
        planned(&place, "--parts 3 --create --key id --type id=int64");
        assert!(ids(&place).is_empty());
        assert_eq!(job(&place, "run", "").code, Some(0));
        assert_whole(&place, FILES * ROWS, &report(&place, "finish", ""));
    }
}

#[test]
fn a_job_is_in_the_way_of_another_of_its_inputs() {
    for database in BOTH {
        let place = place(*database);
        planned(&place, "--parts 3");
        for line in [
            "job plan in {db} -t t --parts 2",
            "load in {db} -t t",
            "load in {db} -t t --resume",
        ] {
            let refused = place.run(line);
            assert_eq!(refused.code, Some(2), "{line}: {}", refused.stderr);
            assert!(
                refused.stderr.contains("of these inputs into") && refused.stderr.contains("is unfinished"),
                "{line}: {}",
                refused.stderr
            );
        }
        assert_eq!(job(&place, "run", "").code, Some(0));
        assert_whole(&place, FILES * ROWS, &report(&place, "finish", ""));
        // To a load it is what it was: a run that has loaded these files.
        let nothing = place.load("in {db} -t t --resume");
        assert_eq!(nothing["state"], "nothing to do");
        let new = place.load("in {db} -t t --new-files");
        assert_eq!(new["state"], "nothing to do");
        place.sql("DELETE FROM t");
        fs::remove_file(place.path("job.json")).expect("it goes");
        planned(&place, "--parts 2");
        let restarted = place.run("job plan in {db} -t t -o other.json --parts 5 --restart");
        assert_eq!(restarted.code, Some(0), "{}", restarted.stderr);
        assert_eq!(job(&place, "run", "").code, Some(2));
    }
}

#[test]
fn connections_of_all_parts_have_a_bound() {
    let place = filled(Database::Postgres, 6, 400);
    // What is asked of the server now and then misses a COPY that takes a millisecond; the table itself sees each.
    place.sql(
        "CREATE TABLE writes (connection int, at timestamptz); \
         CREATE FUNCTION written() RETURNS trigger LANGUAGE plpgsql AS \
         'BEGIN INSERT INTO writes VALUES (pg_backend_pid(), clock_timestamp()); RETURN NULL; END'; \
         CREATE TRIGGER written AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION written()",
    );
    planned(
        &place,
        "--parts 6 --jobs 3 --connections-max 5 --rate 400/s --batch-rows 50",
    );
    let processes: Vec<_> = (0..4).map(|_| running(&place, &["--part", "auto"])).collect();
    for process in processes {
        process.wait().expect(0);
    }
    let most = place.sql(
        "WITH writers AS (SELECT min(at) AS first, max(at) AS last FROM writes GROUP BY connection) \
         SELECT max((SELECT count(*) FROM writers b WHERE b.first <= a.first AND a.first <= b.last)) FROM writers a",
    );
    let most: u64 = most[0].parse().expect("a number");
    // Of five, two are for the ledger where two parts are at work.
    assert!((1..=4).contains(&most), "{most} writers at once");
    assert_eq!(job(&place, "run", "").code, Some(0));
    assert_whole(&place, 2_400, &report(&place, "finish", ""));
}

#[test]
fn what_a_job_cannot_be_is_refused_before_anything_is_done() {
    let place = place(Sqlite);
    place.write("other.json", "{}");
    place.write("bad.jsonl", "");
    let cases = [
        ("job plan none-*.csv {db} -t t", "no file matches 'none-*.csv'"),
        (
            "job plan - {db} -t t",
            "the parts of a job are files that can be read again",
        ),
        (
            "job plan in {db} -t t --resume",
            "a job does not go with --resume",
        ),
        (
            "job plan in {db} -t t --limit 5",
            "a job does not go with --limit",
        ),
        (
            "job plan in {db} -t t -1",
            "a job does not go with --single-transaction",
        ),
        (
            "job plan in {db} -t t --new-files",
            "a job does not go with --new-files",
        ),
        (
            "job plan in {db} -t t --ledger none",
            "a job does not go with --ledger none",
        ),
        ("job plan in {db} -t t --verify", "--verify is of a load"),
        (
            "job plan in {db} -t t --on-error reject",
            "where the rejects of all parts go",
        ),
        ("job plan in {db} -t t --rejects bad.jsonl", "bad.jsonl is a file"),
        ("job plan in {db} -t t --parts 0", "--parts must be from 1"),
        (
            "job plan in {db} -t t --connections-max 1",
            "--connections-max must be at least 2",
        ),
        ("job plan in {db} -t t -o other.json", "-o other.json: it exists"),
        (
            "job plan in {db} -t t -o none/job.json",
            "there is no directory none",
        ),
        ("job plan in {db} -t none", "there is no table none"),
        (
            "job plan {db} {db} -t t --source-table t",
            "the source is a database",
        ),
        (
            "job run none.json",
            "none.json cannot be read as the file of a job",
        ),
        (
            "job run other.json",
            "other.json cannot be read as the file of a job",
        ),
        (
            "job run 0123456789abcdef0123456789abcdef",
            "nothing says in which database job",
        ),
        ("job run 0123456789abcdef0123456789abcdef {db}", "there is no job"),
        ("job run job.json --part x", "write the number of a part"),
        ("job run job.json --lease 1s", "--lease must be at least 3s"),
        (
            "job run job.json --part 9",
            "there is no part 9: the job has 6 parts, numbered from 0 to 5",
        ),
    ];
    planned(&place, "--parts 9");
    for (line, says) in cases {
        let ran = place.run_with(line, &[], b"id,v\n1,a\n");
        assert!(
            matches!(ran.code, Some(1 | 2)),
            "{line}: {:?} {}",
            ran.code,
            ran.stderr
        );
        assert!(ran.stderr.contains(says), "{line}: {}", ran.stderr);
    }
    let status = report(&place, "status", "");
    assert_eq!(status["parts"]["open"], 6, "no more parts than files: {status}");
    assert!(ids(&place).is_empty());
}

#[test]
fn a_job_file_names_no_password() {
    for database in [Database::Postgres, MariaDb] {
        let place = place(database);
        planned(&place, "--parts 2");
        let text = place.read("job.json");
        let url = place.url();
        let password = url.split('@').next().and_then(|login| login.rsplit(':').next());
        let password = password.expect("a URL with a password");
        assert!(!text.contains(password), "{text}");
        let variable = if database == MariaDb {
            "MYSQL_PWD"
        } else {
            "PGPASSWORD"
        };
        let ran = place.run_with("job run job.json --part 0", &[(variable, password)], b"");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
}
