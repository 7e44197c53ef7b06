//! `tonnage bench`: what it measures, what it says, and what it leaves behind.

mod buffer;
mod left;
mod mixes;
mod offered;
mod remote;

use serde_json::Value;

use crate::support::{ALL, Database, TestDatabase};

/// Few rows and all the time that they take: what is counted does not depend on how fast anything is.
const SMALL: &str = "--rows 200 --duration 10m --repeat 2 --batch-rows 100 --yes";

const ORDERS: &str = "CREATE TABLE orders (id integer PRIMARY KEY, customer varchar(20)); \
                      INSERT INTO orders VALUES (1, 'anna'), (2, 'ben')";

fn bench(place: &TestDatabase, arguments: &str) -> Value {
    let ran = place.run(&format!("bench {{db}} {arguments} --report -"));
    assert_eq!(ran.code, Some(0), "bench {arguments}\n{}", ran.stderr);
    serde_json::from_str(&ran.stdout_exact).expect("the report is JSON")
}

fn tables(place: &TestDatabase) -> Vec<String> {
    let sql = match place.database {
        Database::Sqlite => "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name",
        Database::Postgres => {
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S') \
             ORDER BY relname"
        }
        Database::MariaDb => {
            "SELECT table_name FROM information_schema.tables WHERE table_schema = database() ORDER BY table_name"
        }
    };
    place.sql(sql)
}

/// No other tables are there, and no files beside the database.
pub fn assert_nothing_left(place: &TestDatabase, known: &[&str]) {
    assert_eq!(tables(place), known, "{:?}", place.database);
    let left = std::fs::read_dir(place.path("")).expect("the directory is there");
    let left = left.map(|entry| entry.expect("an entry").file_name());
    let left = left.filter(|name| name.to_string_lossy().contains("tonnage_bench"));
    assert_eq!(left.count(), 0, "{:?}", place.database);
}

/// Nothing of the user's has changed, and nothing else is there.
fn assert_untouched(place: &TestDatabase) {
    assert_nothing_left(place, &["orders"]);
    assert_eq!(
        place.sql("SELECT id, customer FROM orders ORDER BY id"),
        ["1|anna", "2|ben"]
    );
}

#[test]
fn every_database_is_measured_and_left_as_it_was() {
    for database in ALL {
        let place = TestDatabase::with(*database, ORDERS, &[]);
        let report = bench(
            &place,
            &format!(
                "{SMALL} --method single,array,native --operation insert,upsert,update,delete --jobs 1,2"
            ),
        );
        let cells = report["cells"].as_array().expect("cells");
        let ruled_out = report["ruled_out"].as_array().expect("what was ruled out");
        let of = |settings: &[Value], operation: &str, method: &str, jobs: u64| {
            let found = settings.iter().filter(|one| {
                let setting = &one["setting"];
                setting["operation"] == operation && setting["method"] == method && setting["jobs"] == jobs
            });
            found.count()
        };
        for operation in ["insert", "upsert", "update", "delete"] {
            for method in ["single", "array", "native"] {
                for jobs in [1, 2] {
                    let possible = match database {
                        // An UPDATE .. FROM would take any row of a key that comes twice.
                        Database::Sqlite => jobs == 1 && (operation, method) != ("update", "array"),
                        // LOAD DATA does nothing but insert.
                        Database::MariaDb => operation == "insert" || method != "native",
                        Database::Postgres => true,
                    };
                    let case = format!("{database:?} {operation} {method} {jobs}: {ruled_out:?}");
                    assert_eq!(
                        of(cells, operation, method, jobs),
                        usize::from(possible),
                        "{case}"
                    );
                    assert_eq!(
                        of(ruled_out, operation, method, jobs),
                        usize::from(!possible),
                        "{case}"
                    );
                }
            }
        }
        assert_costs(&report, *database);
        for cell in cells {
            let runs = cell["runs"].as_array().expect("runs");
            assert_eq!(runs.len(), 2, "{cell}");
            let path = &cell["write_path"];
            match (database, cell["setting"]["method"].as_str()) {
                (Database::Postgres, Some("array" | "single")) => {
                    assert_eq!(path["taken"], "row_by_row", "{cell}");
                    assert_eq!(path["row_records"], 1.0, "{cell}");
                }
                (Database::Postgres, _) => assert!(path["log_bytes"].as_f64() > Some(0.0), "{cell}"),
                _ => assert!(path["taken"].is_string(), "{cell}"),
            }
            for run in runs {
                assert_eq!(
                    run["rows"], 200,
                    "{database:?}: every row of the budget is written: {cell}"
                );
                assert!(run["seconds"].as_f64() > Some(0.0), "{cell}");
                let commits = if cell["setting"]["method"] == "single" {
                    200
                } else {
                    2
                };
                assert!(run["commits"].as_u64() >= Some(commits), "{database:?} {cell}");
                assert!(run["disk_bytes"].as_u64() > Some(0), "{database:?} {cell}");
                assert!(run["round_trips"].is_null(), "{database:?} {cell}");
                match database {
                    // The file of these tests keeps no write-ahead log.
                    Database::Sqlite => assert!(run["log_bytes"].is_null(), "{cell}"),
                    _ => assert!(run["log_bytes"].as_u64() > Some(0), "{database:?} {cell}"),
                }
            }
        }
        let answers = report["answers"].as_array().expect("answers");
        assert_eq!(answers.len(), 4);
        assert!(report["reference"]["runs"].as_array().expect("runs").len() >= 2);
        assert!(report["generator"][0]["rows_per_second"].as_f64() > Some(0.0));
        assert_untouched(&place);
    }
}

/// Every figure is there, or the reason why it is not; and what these servers are known to tell is there.
fn assert_costs(report: &Value, database: Database) {
    let untold: Vec<&str> = report["unmeasured"]
        .as_array()
        .expect("what could not be measured")
        .iter()
        .map(|one| {
            assert!(one["why"].as_str().is_some_and(|why| !why.is_empty()), "{one}");
            one["what"].as_str().expect("a name")
        })
        .collect();
    let known: &[&str] = match database {
        Database::Sqlite => &["server CPU", "log flushes"],
        // The server of these tests runs on this machine.
        Database::Postgres | Database::MariaDb => &[],
    };
    assert_eq!(
        untold
            .iter()
            .filter(|what| **what != "memory")
            .collect::<Vec<_>>(),
        known.iter().collect::<Vec<_>>(),
        "{database:?}"
    );
    assert_eq!(
        report["server_processes"].is_string(),
        !known.contains(&"server CPU")
    );
    for cell in report["cells"].as_array().expect("cells") {
        for run in cell["runs"].as_array().expect("runs") {
            for (name, what) in [
                ("server_cpu_seconds", "server CPU"),
                ("server_cpu_share", "server CPU"),
                ("log_flushes", "log flushes"),
                ("written_bytes", "bytes written"),
                ("client_memory_bytes", "memory"),
                ("client_cpu_share", ""),
                ("commit_seconds", ""),
                ("opening_seconds", ""),
            ] {
                let case = format!("{database:?} {name}: {cell}");
                assert_eq!(run[name].is_null(), untold.contains(&what), "{case}");
                assert!(run[name].is_null() || run[name].as_f64() >= Some(0.0), "{case}");
            }
            let bound = run["bound_by"].as_str().expect("a bound");
            assert!(run["offered"].is_null() && bound != "rate", "{cell}");
            // All rows of these runs were made before, however long connecting took and however few there are for each job.
            assert_ne!(bound, "generator", "{cell}");
        }
    }
}

#[test]
fn every_workload_that_can_be_made_can_be_measured() {
    for database in ALL {
        let place = TestDatabase::with(*database, ORDERS, &[]);
        let line =
            format!("{SMALL} --repeat 1 --method native --jobs 1 --workload journal,sbtest,readings,ycsb");
        let report = bench(&place, &line.replace("--repeat 2 ", ""));
        assert_eq!(report["cells"].as_array().map(Vec::len), Some(4), "{report}");
        assert_untouched(&place);
    }
}

#[test]
fn a_ledger_that_was_asked_for_keeps_nothing_of_a_run() {
    let place = TestDatabase::with(Database::Postgres, ORDERS, &[]);
    let report = bench(&place, &format!("{SMALL} --method array --jobs 1 --with-ledger"));
    assert_eq!(report["ledger"], true);
    assert_eq!(
        tables(&place),
        [
            "orders",
            "tonnage_inputs",
            "tonnage_parts",
            "tonnage_runs",
            "tonnage_slots"
        ]
    );
    assert_eq!(place.sql("SELECT count(*) FROM tonnage_runs"), ["0"]);
    assert_eq!(place.sql("SELECT count(*) FROM tonnage_slots"), ["0"]);
}

#[test]
fn the_answer_comes_first_with_the_command_to_run() {
    let place = TestDatabase::new(Database::Sqlite);
    let ran = place.run(&format!(
        "bench {{db}} {} --batch-rows 10,100",
        SMALL.replace("--batch-rows 100 ", "")
    ));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut lines = ran.stdout.lines();
    let first = lines.next().expect("an answer");
    // A machine with other work may be too noisy for one: then it is what the settings that may be the best have in common.
    let is_answer = first.contains(" rows/s") || first.contains("the fastest seen is");
    assert!(is_answer, "{first}");
    let report = bench(&place, SMALL);
    let answer = &report["answers"][0];
    if let Some(flags) = answer["flags"].as_str() {
        let recommended = &answer["recommended"];
        let cells = report["cells"].as_array().expect("cells");
        assert!(
            recommended.is_null() || cells.iter().any(|cell| &cell["setting"] == recommended),
            "what is recommended was measured"
        );
        place.write("rows.csv", "id,k,c,pad\n1,2,c,pad\n");
        let load = place.run(&format!("load rows.csv {{db}} -t t --create {flags}"));
        assert_eq!(load.code, Some(0), "{flags}: {}", load.stderr);
    }
}

#[test]
fn the_answer_fits_a_terminal_and_says_what_was_measured() {
    let place = TestDatabase::new(Database::Sqlite);
    place.run("generate sbtest --rows 200 -o rows.csv");
    let lists =
        "--method single,batch,array,native --batch-rows 100 --durability relaxed,durable --with-ledger";
    let command = format!("bench {{db}} --rows 200 --duration 10m --repeat 3 --yes {lists}");
    let version = env!("CARGO_PKG_VERSION");
    for (rows, told) in [
        (
            "--rows-from rows.csv --key id",
            "200 rows of rows.csv into tables made for them",
        ),
        (
            "--workload readings",
            "made-up rows of readings into tables tonnage_bench_*, made for them",
        ),
    ] {
        let ran = place.run(&format!("{command} {rows} -o out"));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        for line in ran.stdout_exact.lines() {
            assert!(line.chars().count() <= 100, "{line}\n{}", ran.stdout);
        }
        let titles = ran
            .stdout
            .lines()
            .find(|line| line.contains("rows/s  ") && line.ends_with("  bound by"));
        assert!(
            titles.is_some_and(|titles| titles.contains("write p50")),
            "{}",
            ran.stdout
        );
        // What has no room is named.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let more = ": in report.html and cells.csv, which -o DIR writes";
        assert!(words(&ran.stdout).contains(more), "{}", ran.stdout);

        let report: Value = serde_json::from_str(&place.read("out/report.json")).expect("JSON");
        let started = report["started"].as_str().expect("an instant");
        assert!(
            started.len() == 20 && started.starts_with("20") && started.ends_with('Z'),
            "{started}"
        );
        let measured = format!("measured {told}, on {started} by tonnage {version}");
        assert!(
            words(&ran.stdout).contains(&measured),
            "{measured}: {}",
            ran.stdout
        );
        let page = place.read("out/report.html");
        let head = format!("{told}<br>of shop.db, on {started}, by tonnage {version}");
        assert!(page.contains(&head), "{head}: {page}");
        assert!(page.contains("goes from the slowest to the fastest of them"));
        for method in ["single", "batch", "array", "native"] {
            assert!(page.contains(&format!("<span class=\"key {method}\"></span>{method}")));
        }
        // A bench without reads has no columns of them.
        assert!(page.contains("<th>write p50</th>") && !page.contains("<th>reads/s</th>"));
        std::fs::remove_dir_all(place.path("out")).expect("the report is there");
    }
}

#[test]
fn a_file_that_is_not_there_is_measured_beside_and_not_made() {
    let place = TestDatabase::new(Database::Sqlite);
    bench(&place, &SMALL.replace(" --yes", ""));
    let directory = std::fs::read_dir(place.path("")).expect("the directory is there");
    assert_eq!(directory.count(), 0);
}

#[test]
fn nothing_is_made_where_nobody_can_be_asked() {
    for database in [Database::Postgres, Database::MariaDb] {
        let place = TestDatabase::with(database, ORDERS, &[]);
        for command in ["bench {db} --rows 10", "explain {db} orders"] {
            let ran = place.run(command);
            assert_eq!(ran.code, Some(2), "{}", ran.stderr);
            assert!(
                ran.stderr.contains("nobody is there to be asked") && ran.stderr.contains("hint: --yes"),
                "{}",
                ran.stderr
            );
            assert_untouched(&place);
        }
    }
}

#[test]
fn a_report_is_three_files_that_need_nothing_else() {
    let place = TestDatabase::with(Database::Postgres, ORDERS, &[]);
    let lists = "--method single,array,native --jobs 1,2 --durability relaxed,durable";
    let line = format!(
        "{} --batch-rows 50,100 {lists} -o out/first",
        SMALL.replace("--batch-rows 100 ", "")
    );
    let ran = place.run(&format!("bench {{db}} {line}"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report: Value = serde_json::from_str(&place.read("out/first/report.json")).expect("JSON");
    let cells = report["cells"].as_array().expect("cells").len();
    assert_eq!(cells, 2 * 2 * (1 + 2 + 2));
    let csv = place.read("out/first/cells.csv");
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    assert!(
        reader
            .headers()
            .expect("a header")
            .iter()
            .any(|name| name == "rows_per_second")
    );
    let records = reader.records().collect::<Result<Vec<_>, _>>();
    assert_eq!(records.expect("whole records").len(), cells);

    let page = place.read("out/first/report.html");
    for outside in ["http:", "https:", "src=", "<link", "@import", "url("] {
        assert!(!page.contains(outside), "the page asks for {outside}");
    }
    assert!(!page.contains(&*place.url()), "the page has the password");
    assert!(page.contains("prefers-color-scheme:dark"));
    assert!(!page.contains("NaN") && !page.contains("inf"), "a figure is none");
    for title in [
        "Rows a second over rows of a write",
        "Rows a second over jobs",
        "over rows of a write and jobs",
        "The fastest of each method",
        "A write of these",
        "Bytes of log a row",
        "Bytes on disk a row",
        "Noise and drift",
        "All cells",
    ] {
        assert!(page.contains(title), "the page has '{title}'");
    }
    let charts: Vec<&str> = page.split("<svg").skip(1).collect();
    assert!(charts.len() >= 10, "{} charts", charts.len());
    for chart in charts {
        let chart = chart.split("</svg>").next().expect("a chart ends");
        assert!(
            chart.contains("<circle") || chart.contains("<rect"),
            "a chart is empty: {chart}"
        );
    }
    for tag in [
        "svg", "g", "table", "tr", "td", "ul", "li", "p", "h2", "h3", "text", "title",
    ] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "<{tag}>");
    }

    let again = place.run(&format!("bench {{db}} {line}"));
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.contains("report.html exists"), "{}", again.stderr);

    let same = place.run("bench --compare out/first out/first/report.json");
    assert_eq!((same.code, same.stderr.as_str()), (Some(0), ""));
    assert!(
        same.stdout
            .starts_with(&format!("0 of {cells} cells changed beyond noise\n")),
        "{}",
        same.stdout
    );
    let faster = place.read("out/first/report.json");
    let mut faster: Value = serde_json::from_str(&faster).expect("JSON");
    for end in ["median", "low", "high"] {
        let value = &mut faster["cells"][0]["rows_per_second"][end];
        *value = (value.as_f64().expect("a number") * 1e6).into();
    }
    place.write("faster.json", faster.to_string());
    let changed = place.run("bench --compare out/first faster.json");
    assert!(
        changed
            .stdout
            .starts_with(&format!("1 of {cells} cells changed beyond noise\n"))
            && changed.stdout.contains("faster"),
        "{}",
        changed.stdout
    );
}

#[test]
fn mistakes_are_told() {
    let place = TestDatabase::new(Database::Sqlite);
    place.write("report.json", "{}");
    for (line, told) in [
        ("bench", "<TARGET>"),
        (
            "bench {db} --method fastest",
            "methods are single, batch, array, native",
        ),
        ("bench {db} --workload tpch", "workloads are journal, sbtest"),
        (
            "bench {db} --operation ignore",
            "operations that can be measured are insert, upsert, update and delete",
        ),
        ("bench {db} --rtt 70", "write a time such as 0, 500us or 70ms"),
        (
            "bench {db} --rtt 6s",
            "a round trip can be made 5000ms longer at most",
        ),
        (
            "bench {db} --rtt 1ms",
            "SQLite is a file of this machine, so no longer way there can be made",
        ),
        (
            "bench {db} --bandwidth 1MB/s",
            "hint: leave --rtt and --bandwidth out",
        ),
        (
            "bench {db} --bandwidth 100",
            "write bytes a second, such as 10MB/s",
        ),
        (
            "bench {db} --operation delete --no-key",
            "a delete needs a primary key",
        ),
        (
            "explain {db} orders --operation upsert",
            "operations that can be looked at are insert, update and delete",
        ),
        ("bench {db} --durability eternal", "levels are "),
        (
            "bench {db} --rate 5MB/s",
            "write rows a second, such as 5k or 500/s",
        ),
        ("bench {db} --rate 0", "--rate must be more than 0"),
        (
            "bench {db} --rate 5k -1",
            "--rate and --single-transaction do not go together",
        ),
        (
            "bench {db} --rate 100 --batch-rows 1k --method native",
            "at that rate a write of so many rows is due every 10.0 s, and 10 must be within a run",
        ),
        ("bench {db} --duration 3", "write a time such as 500ms"),
        ("bench {db} --batch-rows 0", "--batch-rows must be at least 1"),
        ("bench {db} --jobs 0", "--jobs must be at least 1"),
        ("bench {db} --repeat 0", "--repeat must be more than 0"),
        (
            "bench {db} --rows 50 --method native",
            "a run has 50 rows only; --rows gives it more",
        ),
        ("bench {db} --jobs 2", "SQLite "),
        (
            "bench {db} --operation upsert --no-key",
            "an upsert needs a primary key",
        ),
        ("bench orders.csv", "'orders.csv' names no database"),
        (
            "bench --compare report.json report.json",
            "is no report of a bench",
        ),
        ("bench --compare none none", "none: "),
        ("explain {db} orders", "there is no table orders"),
        ("explain {db} orders --rows 0", "--rows must be from 1 to"),
    ] {
        let ran = place.run(line);
        assert!(matches!(ran.code, Some(1 | 2)), "{line}: {:?}", ran.code);
        assert!(ran.stderr.contains(told), "{line}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{line}");
    }
}
