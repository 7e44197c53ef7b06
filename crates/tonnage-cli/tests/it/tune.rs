//! `tonnage tune`: what it finds, what it keeps and what a load makes of it; and loads that are tuned as they go.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::Value;

use crate::{
    bench::assert_nothing_left,
    support::{ALL, Database, TestDatabase},
};

const ORDERS: &str = "CREATE TABLE orders (id integer PRIMARY KEY, customer varchar(20)); \
                      INSERT INTO orders VALUES (1, 'anna'), (2, 'ben'), (3, 'cleo'), (4, 'dan')";

/// All rows and the time that they take: what is counted does not depend on how fast anything is.
const SMALL: &str = "--rows 200 --duration 10m --time 1s --yes";

/// A table with rows, a file with more, and the database by the name of @shop.
fn shop(database: Database) -> TestDatabase {
    let place = TestDatabase::with(database, ORDERS, &[]);
    let rows: String = (10..1_010).map(|id| format!("{id},customer {id}\n")).collect();
    place.write("more.csv", format!("id,customer\n{rows}"));
    place.write(
        "targets.toml",
        format!("# mine\n[shop]\nurl = \"{}\" # the shop\n", place.url()),
    );
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(place.path("targets.toml"), private).expect("it is ours");
    place
}

#[test]
fn every_database_is_tuned_and_left_as_it_was() {
    for database in ALL {
        let place = shop(*database);
        let ran = place.run(&format!(
            "tune {{db}} more.csv -t orders {SMALL} --method single,native --batch-rows 10,100 -j 1 --report -"
        ));
        assert_eq!(ran.code, Some(0), "{database:?}: {}", ran.stderr);
        let report: Value = serde_json::from_str(&ran.stdout_exact).expect("JSON");
        let answers = report["answers"].as_array().expect("answers");
        assert_eq!(answers.len(), 1, "{report}");
        let cells = report["cells"].as_array().expect("cells");
        assert_eq!(cells.len(), 3, "{report}");
        for cell in cells {
            assert!(
                cell["runs"].as_array().is_some_and(|runs| runs.len() >= 2),
                "{cell}"
            );
            assert_eq!(cell["runs"][0]["rows"], 200, "{cell}");
        }
        let recommended = &answers[0]["recommended"];
        assert!(
            cells.iter().any(|cell| &cell["setting"] == recommended),
            "{report}"
        );
        // Two hundred commits against a few.
        assert_eq!(recommended["method"], "native", "{database:?} {report}");
        let order = answers[0]["order"].as_array().expect("what is decided");
        assert!(
            order.iter().any(|one| one["what"] == "native over single"),
            "{report}"
        );
        assert_nothing_left(&place, &["orders"]);
        assert_eq!(place.sql("SELECT count(*) FROM orders"), ["4"]);
    }
}

#[test]
fn what_is_kept_is_what_a_load_takes() {
    for database in ALL {
        let place = shop(*database);
        let before = place.read("targets.toml");
        let tune = format!("tune @shop more.csv -t orders {SMALL} --method native --save");
        let ran = place.run(&format!("{tune} --batch-rows 100 -j 1"));
        assert_eq!(ran.code, Some(0), "{database:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("kept in "), "{}", ran.stderr);
        let kept = place.read("targets.toml");
        let added = kept.strip_prefix(&before).expect("what was there is there");
        assert!(
            added.starts_with("\n# tuned 20")
                && added.ends_with(
                    "[shop.tuned.orders.insert]\nmethod = \"native\"\nbatch_rows = 100\njobs = 1\n"
                ),
            "{added}"
        );
        let mode = fs::metadata(place.path("targets.toml"))
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);

        let plan = place.run("load more.csv @shop -t orders --dry-run");
        assert_eq!(plan.code, Some(0), "{}", plan.stderr);
        assert!(plan.stdout.contains("at most 100 rows, "), "{}", plan.stdout);
        let note = "native, 100 rows a write, 1 job of targets.toml line 6, which `tonnage tune` has found";
        assert!(plan.stdout.contains(note), "{}", plan.stdout);
        // What is asked for goes before, and off takes nothing.
        let asked = place.run("load more.csv @shop -t orders --batch-rows 7 --dry-run");
        assert!(
            asked.stdout.contains("at most 7 rows, ")
                && asked.stdout.contains("note         native, 1 job of "),
            "{}",
            asked.stdout
        );
        for other in ["--tune off", "--method single", "--mode upsert"] {
            let plan = place.run(&format!("load more.csv @shop -t orders {other} --dry-run"));
            assert_eq!(plan.code, Some(0), "{other}: {}", plan.stderr);
            assert!(!plan.stdout.contains("tonnage tune"), "{other}: {}", plan.stdout);
        }
        let loaded = place.load("more.csv @shop -t orders");
        assert_eq!(loaded["commits"], 10, "{loaded}");

        let again = place.run(&format!("{tune} --batch-rows 50 -j 1"));
        assert_eq!(again.code, Some(0), "{}", again.stderr);
        let kept = place.read("targets.toml");
        assert_eq!(kept.matches("[shop.tuned.orders.insert]").count(), 1, "{kept}");
        assert!(
            kept.starts_with(&before) && kept.contains("batch_rows = 50\n"),
            "{kept}"
        );
    }
}

#[test]
fn a_table_that_is_not_there_yet_is_made_as_a_load_would() {
    let place = shop(Database::Sqlite);
    let ran = place.run(&format!(
        "tune {{db}} more.csv -t fresh --key id {SMALL} --method native --batch-rows 100 --mode upsert"
    ));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stdout.starts_with("native, 100 rows, 1 job: "),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains(" -t fresh --mode upsert --method native --batch-rows 100 --jobs 1"),
        "{}",
        ran.stdout
    );
    assert_nothing_left(&place, &["orders"]);
}

#[test]
fn a_goal_that_nothing_meets_is_told_and_keeps_nothing() {
    let place = shop(Database::Sqlite);
    let before = place.read("targets.toml");
    let line = format!("tune @shop more.csv -t orders {SMALL} --method single --for latency=1ms");
    // A commit of SQLite is synced; on a fast disk that may take less.
    let ran = place.run(&format!("{line} --save"));
    let is_met = ran.code == Some(0);
    assert!(
        is_met || ran.stderr.contains("nothing is kept: no setting meets the goal"),
        "{}",
        ran.stderr
    );
    assert_eq!(place.read("targets.toml") == before, !is_met);
}

#[test]
fn mistakes_of_tuning_are_told() {
    let place = shop(Database::Sqlite);
    place.write("odd.toml", "");
    for (line, told) in [
        (
            "tune {db} -t orders --save",
            "--save keeps settings for a target with a name",
        ),
        ("tune @shop -t nothing", "there is no table nothing"),
        (
            "tune @shop -t orders --for speed",
            "write throughput, latency=50ms or load=0.3",
        ),
        (
            "tune @shop -t orders --for load=2",
            "load is a share of all processors",
        ),
        (
            "tune @shop -t orders --mode ignore",
            "operations that can be measured are insert",
        ),
        (
            "tune @shop -t orders --method fastest",
            "methods are single, batch, array, native",
        ),
    ] {
        let ran = place.run(line);
        assert_eq!(
            ran.code,
            Some(2).filter(|_| !told.contains("no table")).or(ran.code),
            "{line}: {}",
            ran.stderr
        );
        assert!(matches!(ran.code, Some(1 | 2)), "{line}: {:?}", ran.code);
        assert!(ran.stderr.contains(told), "{line}: {}", ran.stderr);
    }
}

/// Every row is there once, whatever sizes and lanes were tried meanwhile.
#[test]
fn a_load_that_is_tuned_as_it_goes_has_each_row_once() {
    const ROWS: u64 = 15_000;
    // A statement of SQLite takes some 500 rows of so many columns, so there are enough writes for something to be tried.
    const COLUMNS: usize = 60;
    let names: Vec<String> = (1..COLUMNS).map(|at| format!("c{at}")).collect();
    let columns = names.join(" integer, ");
    let ddl = format!("CREATE TABLE t (id integer PRIMARY KEY, {columns} integer)");
    let rest = ",1".repeat(COLUMNS - 2);
    let rows: String = (0..ROWS).map(|id| format!("{id},{}{rest}\n", id % 7)).collect();
    let file = format!("id,{}\n{rows}", names.join(","));
    let sum: u64 = (0..ROWS).map(|id| id % 7).sum();
    for database in ALL {
        let place = TestDatabase::with(*database, &ddl, &[("rows.csv", &file)]);
        let report = place.load("rows.csv {db} -t t --method array --tune auto");
        assert_eq!(report["rows"]["written"], ROWS, "{report}");
        assert_eq!(place.sql("SELECT count(*) FROM t"), [ROWS.to_string()]);
        assert_eq!(
            place.sql("SELECT sum(c1) FROM t"),
            [sum.to_string()],
            "{database:?}"
        );
        let off = place.load("rows.csv {db} -t t --mode upsert --method array --tune off --restart");
        assert!(off.get("tuned").is_none(), "{off}");
        assert_eq!(
            place.sql("SELECT sum(c1) FROM t"),
            [sum.to_string()],
            "{database:?}"
        );
    }
}
