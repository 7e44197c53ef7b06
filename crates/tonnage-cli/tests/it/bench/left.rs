//! What runs leave that did not come to their end.

use super::{ORDERS, assert_untouched};
use crate::{
    database,
    process::{Running, tonnage},
    support::{ALL, Database, TestDatabase},
};

#[test]
fn what_a_killed_run_has_left_is_removed_where_that_is_asked_for() {
    for database in ALL {
        let place = TestDatabase::with(*database, ORDERS, &[]);
        let left = match database {
            Database::Sqlite => {
                for file in ["shop.db.tonnage_bench_12ab_3", "shop.db.tonnage_bench_12ab_3-wal"] {
                    place.write(file, "");
                }
                "tonnage_bench_12ab_3"
            }
            _ => {
                place.sql(
                    "CREATE TABLE tonnage_bench_12ab_3 (a integer); CREATE TABLE tonnagexbenchx (a integer)",
                );
                "tonnage_bench_12ab_3"
            }
        };
        let ran = place.run("bench {db} --remove-left");
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(
            ran.stderr.contains(&format!("{left} would be removed")),
            "{}",
            ran.stderr
        );
        let ran = place.run("bench {db} --remove-left --yes");
        assert_eq!(
            (ran.code, ran.stdout.trim()),
            (Some(0), &*format!("removed {left}")),
            "{}",
            ran.stderr
        );
        if *database != Database::Sqlite {
            place.sql("DROP TABLE tonnagexbenchx");
        }
        assert_untouched(&place);
        let ran = place.run("bench {db} --remove-left --yes");
        assert_eq!(
            (ran.code, ran.stdout.trim()),
            (Some(0), "nothing is left"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn an_interrupt_removes_what_was_made() {
    for (signal, code) in [(2, 130), (15, 143)] {
        for database in database::Database::all() {
            database.run("CREATE TABLE orders (id integer PRIMARY KEY)");
            let mut command = tonnage();
            // It does not end by itself.
            command.args([
                "bench",
                &database.url(),
                "--yes",
                "--duration",
                "60m",
                "--rows",
                "1G",
            ]);
            command.args(["--batch-rows", "10", "--method", "array"]);
            let mut running = Running::start(&mut command);
            while made(&database) == 0 && !running.has_ended() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            running.signal(signal);
            let ended = running.wait();
            ended.expect(code);
            assert!(
                ended
                    .stderr
                    .contains("interrupted; what was made to measure with is removed"),
                "{}: {}",
                database.name(),
                ended.stderr
            );
            assert_eq!(made(&database), 0, "{}", database.name());
        }
    }
}

/// Tables that were made to measure with.
fn made(database: &database::Database) -> u64 {
    match database {
        database::Database::Sqlite(_) => {
            let url = database.url();
            let file = std::path::Path::new(url.trim_start_matches("sqlite:"));
            let directory = std::fs::read_dir(file.parent().expect("a directory")).expect("it is there");
            let names = directory.map(|entry| entry.expect("an entry").file_name());
            names
                .filter(|name| name.to_string_lossy().contains("tonnage_bench"))
                .count() as u64
        }
        _ => {
            let sql = "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'tonnage\\_bench%' \
                       AND table_schema IN ('public', 'SCHEMA')";
            let url = database.url();
            let name = url.rsplit('/').next().expect("a database").to_owned();
            database.number(&sql.replace("SCHEMA", &name)).expect("a count")
        }
    }
}
