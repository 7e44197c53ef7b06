//! `--recreate` and `--rebuild-indexes`: what a run does to its table around its rows, whatever ends it.

use std::{thread::sleep, time::Duration};

use crate::{
    database::Database,
    events::{Chance, Events, Mode, Size, handled},
    process::{Running, count, report},
    support::{
        BOTH,
        Database::{MariaDb, Postgres, Sqlite},
        TestDatabase,
    },
};

const CSV: &str = "id,customer,total\n1,anna,5\n2,ben,6\n3,cleo,7\n";

/// A table with all that can be carried to its successor.
fn full(database: crate::support::Database) -> &'static str {
    match database {
        Sqlite => {
            "CREATE TABLE \"or ders\" (id INTEGER PRIMARY KEY AUTOINCREMENT, customer TEXT NOT NULL DEFAULT 'x',
                 total INT CHECK (total < 100), UNIQUE (customer, total));
             CREATE INDEX by_total ON \"or ders\" (total DESC) WHERE total > 0;
             CREATE UNIQUE INDEX \"one customer\" ON \"or ders\" (lower(customer));
             CREATE VIEW totals AS SELECT sum(total) AS total FROM \"or ders\";
             INSERT INTO \"or ders\" VALUES (40, 'old', 40)"
        }
        Postgres => {
            "CREATE ROLE reader_{name}; CREATE ROLE writer_{name};
             CREATE TABLE places (id int PRIMARY KEY); INSERT INTO places VALUES (1), (2);
             CREATE TABLE \"or ders\" (id bigint GENERATED ALWAYS AS IDENTITY, gone int, number serial,
                 customer text COLLATE \"C\" NOT NULL DEFAULT 'x', total int CHECK (total < 100),
                 place int DEFAULT 1 CONSTRAINT at_place REFERENCES places, twice int GENERATED ALWAYS AS (total * 2) STORED,
                 CONSTRAINT the_key PRIMARY KEY (id), UNIQUE (customer, total)) WITH (fillfactor = 70);
             ALTER TABLE \"or ders\" DROP COLUMN gone;
             ALTER TABLE \"or ders\" ALTER COLUMN total SET STATISTICS 500;
             CREATE INDEX by_total ON \"or ders\" (total DESC) INCLUDE (customer) WHERE total > 0;
             CREATE INDEX by_total_too ON \"or ders\" (total DESC) INCLUDE (customer) WHERE total > 0;
             CREATE UNIQUE INDEX \"one customer\" ON \"or ders\" (lower(customer));
             COMMENT ON TABLE \"or ders\" IS 'all of it'; COMMENT ON COLUMN \"or ders\".total IS 'in cents';
             COMMENT ON INDEX by_total IS 'for the report';
             ALTER TABLE \"or ders\" OWNER TO writer_{name};
             GRANT SELECT ON \"or ders\" TO reader_{name}, PUBLIC; GRANT UPDATE (total) ON \"or ders\" TO writer_{name};
             INSERT INTO \"or ders\" (customer, total) VALUES ('old', 40)"
        }
        MariaDb => unreachable!("it has neither option"),
    }
}

/// All that the database says of a table.
fn definition(place: &TestDatabase) -> Vec<String> {
    match place.database {
        Sqlite => place.sql(
            "SELECT type, name, replace(sql, '''or ders''', '\"or ders\"') FROM sqlite_schema \
             WHERE tbl_name NOT LIKE 'tonnage%' AND name <> 'sqlite_sequence' ORDER BY 1, 2",
        ),
        Postgres => place.sql(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated, attstattarget, \
                    attacl, col_description(attrelid, attnum), attcollation, pg_get_expr(adbin, adrelid) \
             FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = attrelid AND d.adnum = attnum \
             WHERE attrelid = '\"or ders\"'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname; \
             SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = '\"or ders\"'::regclass \
             ORDER BY 1; \
             SELECT indexrelid::regclass, pg_get_indexdef(indexrelid), obj_description(indexrelid) FROM pg_index \
             WHERE indrelid = '\"or ders\"'::regclass ORDER BY 1::text; \
             SELECT relacl, reloptions, obj_description(oid), relowner::regrole FROM pg_class \
             WHERE oid = '\"or ders\"'::regclass; \
             SELECT relname, pg_get_serial_sequence('\"or ders\"', 'number'), \
                    pg_get_serial_sequence('\"or ders\"', 'id') \
             FROM pg_class WHERE relkind IN ('r', 'S', 'i') AND relnamespace = 'public'::regnamespace \
               AND relname NOT LIKE 'tonnage_runs%' AND relname NOT LIKE 'tonnage_slots%' \
               AND relname NOT LIKE 'tonnage_inputs%' AND relname NOT LIKE 'tonnage_parts%' ORDER BY 1",
        ),
        MariaDb => unreachable!("it has neither option"),
    }
}

fn make(place: &TestDatabase) {
    let sql = full(place.database).replace("{name}", place.name());
    // A statement by itself, as the server would run them in one transaction.
    place.sql(&sql);
}

#[test]
fn the_table_is_replaced_by_one_that_is_the_same_but_for_its_rows() {
    for database in BOTH {
        let place = TestDatabase::with(*database, "", &[("orders.csv", CSV)]);
        make(&place);
        let before = definition(&place);
        assert!(before.len() >= 5, "{before:?}");
        let load = "load orders.csv {db} -t '\"or ders\"' --recreate --columns customer,total";
        let ran = place.run(load);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(definition(&place), before, "{database:?}");
        assert_eq!(
            place.sql("SELECT customer, total FROM \"or ders\" ORDER BY total"),
            ["anna|5", "ben|6", "cleo|7"]
        );
        // The key counts on from where it was, also after the swap.
        place.sql("INSERT INTO \"or ders\" (customer, total) VALUES ('new', 8)");
        let ids = match database {
            Sqlite => ["41", "42", "43", "44"],
            _ => ["2", "3", "4", "5"],
        };
        assert_eq!(place.sql("SELECT id FROM \"or ders\" ORDER BY total"), ids);
        let ran = place.run(&format!("{load} --resume"));
        assert!(
            ran.stderr.contains("has loaded all of this already"),
            "{}",
            ran.stderr
        );
        let ran = place.run(load);
        assert!(ran.stderr.contains("was loaded into"), "{}", ran.stderr);
        assert_eq!(definition(&place), before, "{database:?}");
        assert_eq!(place.sql("SELECT count(*) FROM \"or ders\""), ["3"]);
        // What another release might have left behind.
        let ran = place.run("runs {db}");
        assert!(!ran.stdout.contains("unfinished"), "{}", ran.stdout);
    }
}

#[test]
fn what_cannot_be_carried_is_refused_with_its_name() {
    let cases: &[(crate::support::Database, &str, &str)] = &[
        (
            Sqlite,
            "CREATE TABLE lines (number int, o int REFERENCES orders (id))",
            "a foreign key of lines refers to it",
        ),
        (
            Sqlite,
            "CREATE TRIGGER told AFTER INSERT ON orders BEGIN SELECT 1; END",
            "it has the trigger told",
        ),
        (
            Postgres,
            "CREATE TABLE lines (number int, o int CONSTRAINT of REFERENCES orders)",
            "foreign key of of lines refers to it",
        ),
        (
            Postgres,
            "CREATE VIEW totals AS SELECT sum(total) FROM orders",
            "rule _RETURN on view totals rests on it",
        ),
        (
            Postgres,
            "CREATE MATERIALIZED VIEW m AS SELECT sum(total) FROM orders",
            "rule _RETURN on materialized view m rests on it",
        ),
        (
            Postgres,
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; \
             CREATE TRIGGER told BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION f()",
            "it has the trigger told",
        ),
        (
            Postgres,
            "CREATE RULE off AS ON DELETE TO orders DO INSTEAD NOTHING",
            "it has the rule off",
        ),
        (
            Postgres,
            "CREATE POLICY own ON orders USING (id > 0)",
            "it has row security",
        ),
        (
            Postgres,
            "CREATE TABLE more (x int) INHERITS (orders)",
            "a table inherits from it",
        ),
        (
            Postgres,
            "CREATE PUBLICATION orders_out FOR TABLE orders",
            "it is in the publication orders_out",
        ),
        (
            Postgres,
            "CREATE FUNCTION f(orders) RETURNS int LANGUAGE sql AS 'SELECT 1'",
            "function f(orders) rests on it",
        ),
        (
            Postgres,
            "CREATE TABLE archive (one orders)",
            "column one of table archive rests on it",
        ),
        (
            Postgres,
            "CREATE STATISTICS pair ON id, total FROM orders",
            "statistics object pair rests on it",
        ),
        (
            Postgres,
            "CREATE UNIQUE INDEX by_total ON orders (total); ALTER TABLE orders CLUSTER ON by_total",
            "it is clustered by by_total",
        ),
    ];
    const TABLE: &str = "CREATE TABLE orders (id int PRIMARY KEY, customer text, total int NOT NULL); \
                         INSERT INTO orders VALUES (9, 'old', 9)";
    crate::support::every(cases, |(database, sql, reason)| {
        let place = TestDatabase::with(*database, TABLE, &[("orders.csv", CSV)]);
        place.sql(sql);
        let table = if *database == Sqlite {
            "orders"
        } else {
            "public.orders"
        };
        let ran = place.run("load orders.csv {db} -t orders --recreate");
        let wanted = format!(
            "error: {table} cannot be recreated: {reason}\n\
             hint: --truncate empties the table and leaves everything else about it as it is\n"
        );
        let kept = place.sql("SELECT * FROM orders");
        match ran.stderr == wanted && kept == ["9|old|9"] && ran.code == Some(1) {
            true => Ok(()),
            false => Err(format!("{sql}: {}", ran.stderr)),
        }
    });
}

/// Between the start of the run and its end a view comes to rest on the table, or the table is altered.
#[test]
fn a_table_that_changes_meanwhile_is_not_replaced() {
    const TABLE: &str = "CREATE TABLE orders (id int PRIMARY KEY, customer text, total int)";
    let cases = [
        (
            Postgres,
            "CREATE VIEW v AS SELECT id FROM orders",
            "DROP VIEW v",
            "public.orders cannot be recreated",
        ),
        (
            Postgres,
            "CREATE INDEX late ON orders (total)",
            "DROP INDEX late",
            "its index late cannot be made again",
        ),
        (
            Sqlite,
            "CREATE TRIGGER w AFTER INSERT ON orders BEGIN SELECT 1; END",
            "DROP TRIGGER w",
            "it has the trigger w",
        ),
    ];
    for (database, change, back, says) in cases {
        // The second row stops the run, once the first is in the shadow.
        let place = TestDatabase::with(
            database,
            TABLE,
            &[("orders.csv", "id,customer,total\n1,a,1\n1,b,2\n")],
        );
        let load = "load orders.csv {db} -t orders --recreate --batch-rows 1 --sort none -j 1";
        let ran = place.run(load);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("is as it was; rows written are in"),
            "{}",
            ran.stderr
        );
        let listed = place.run("runs {db}").stdout;
        assert!(listed.contains("which is to take its place"), "{listed}");
        place.sql(change);
        // Bad rows may now be put aside, so that the run comes to its end.
        let ran = place.run(&format!("{load} --resume --rejects bad.jsonl"));
        assert_eq!(ran.code, Some(1), "{change}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(says) || ran.stderr.contains("altered since"),
            "{}",
            ran.stderr
        );
        assert_eq!(place.sql("SELECT count(*) FROM orders"), ["0"]);
        place.sql(back);
        let ran = place.run(&format!("{load} --resume --rejects bad.jsonl"));
        assert_eq!(ran.code, Some(3), "{change}: {}", ran.stderr);
        assert_eq!(place.sql("SELECT * FROM orders"), ["1|a|1"]);
        assert!(!place.run("runs {db}").stdout.contains("take its place"));
    }
}

const SECONDARY: &str = "CREATE TABLE orders (id int PRIMARY KEY, customer text, total int); \
                         CREATE INDEX by_total ON orders (total); \
                         CREATE INDEX \"by Customer\" ON orders (lower(customer)) WHERE total > 5; \
                         CREATE UNIQUE INDEX once ON orders (customer)";

/// Names of the indexes, with how they are made.
fn indexes(place: &TestDatabase) -> Vec<String> {
    place.sql(match place.database {
        Sqlite => {
            "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'orders' ORDER BY 1"
        }
        Postgres => {
            "SELECT indexname, indexdef, obj_description(('\"' || indexname || '\"')::regclass) \
                     FROM pg_indexes WHERE tablename = 'orders' ORDER BY 1"
        }
        MariaDb => unreachable!("it has neither option"),
    })
}

#[test]
fn indexes_are_dropped_and_built_again() {
    for database in BOTH {
        let place = TestDatabase::with(*database, SECONDARY, &[("orders.csv", CSV)]);
        if *database == Postgres {
            place.sql("COMMENT ON INDEX by_total IS 'it''s \\ here'");
        }
        let before = indexes(&place);
        assert_eq!(before.len(), 4);
        let plan = place
            .run("load orders.csv {db} -t orders --rebuild-indexes --dry-run")
            .stdout;
        assert!(
            plan.contains("note         indexes dropped when the run starts and built at its end: by_total, by Customer\n"),
            "{plan}"
        );
        let load = "load orders.csv {db} -t orders --rebuild-indexes";
        place.load(load.trim_start_matches("load "));
        assert_eq!(indexes(&place), before);
        let ran = place.run(&format!("{load} --resume"));
        assert!(
            ran.stderr.contains("has loaded all of this already"),
            "{}",
            ran.stderr
        );

        let ran = place.run(load);
        let table = if *database == Sqlite {
            "orders"
        } else {
            "public.orders"
        };
        assert_eq!(
            ran.stderr,
            format!(
                "error: --rebuild-indexes needs an empty table, and {table} has rows\n\
                 hint: --truncate empties it first; without --rebuild-indexes its indexes are kept up\n"
            )
        );
        place.load("orders.csv {db} -t orders --rebuild-indexes --truncate");
        assert_eq!(indexes(&place), before);
        assert_eq!(place.sql("SELECT count(*) FROM orders"), ["3"]);
    }
}

#[test]
fn a_run_that_stops_says_what_is_missing_and_either_end_puts_it_right() {
    for database in BOTH {
        for forgotten in [false, true] {
            let csv = "id,customer,total\n1,a,1\n1,b,2\n";
            let place = TestDatabase::with(*database, SECONDARY, &[("orders.csv", csv)]);
            let before = indexes(&place);
            let load = "load orders.csv {db} -t orders --rebuild-indexes --batch-rows 1 --sort none -j 1";
            let ran = place.run(load);
            assert_eq!(ran.code, Some(1), "{}", ran.stderr);
            assert!(
                ran.stderr
                    .contains("that were dropped are built when the run is finished or forgotten"),
                "{}",
                ran.stderr
            );
            assert_eq!(indexes(&place).len(), 2, "the primary key and the unique index");
            let listed = place.run("runs {db}").stdout;
            assert!(
                listed.contains("indexes to be built: by_total, by Customer\n"),
                "{listed}"
            );
            if forgotten {
                let id = place.sql("SELECT run_id FROM tonnage_runs");
                let ran = place.run(&format!("runs {{db}} --forget {}", id[0]));
                assert_eq!(
                    ran.stderr,
                    "run {run} is forgotten; it leaves 1 row in the table, and the indexes that it dropped are built again\n"
                );
            } else {
                let ran = place.run(&format!("{load} --resume --rejects bad.jsonl"));
                assert_eq!(ran.code, Some(3), "{}", ran.stderr);
            }
            assert_eq!(indexes(&place), before);
            assert_eq!(place.sql("SELECT * FROM orders"), ["1|a|1"]);
        }
    }
}

/// Kills at any moment, most of them near the end, where the table is swapped or its indexes are built.
fn kills(option: &str) {
    // MariaDB has neither option.
    for database in [Database::sqlite(), Database::postgres()] {
        let mut chance = Chance::new();
        let size = Size {
            files: 6,
            rows_each: 3_000,
        };
        let events = Events::generate(Mode::Insert, size, &mut chance);
        events.prepare(&database);
        database.run("CREATE INDEX by_label ON events (label); CREATE INDEX by_at ON events (at)");
        if option == "--recreate" {
            database.run("INSERT INTO events VALUES (-1, 'old', NULL, '2000-01-01 00:00:00', NULL)");
        }
        let mut finished = false;
        for _ in 0..16 {
            let mut command = events.load(&database.url());
            command.args([option, "--resume", "--batch-rows", "400", "--jobs", "2"]);
            let mut running = Running::start(&mut command);
            match chance.below(3) {
                0 => sleep(Duration::from_micros(chance.below(120_000))),
                // All rows are in: what follows is the end.
                _ => {
                    while handled(&database) < events.rows && !running.has_ended() && !is_done(&database) {
                        sleep(Duration::from_micros(200));
                    }
                    sleep(Duration::from_micros(chance.below(20_000)));
                }
            }
            running.kill();
            // What was on its way to the server may still come about.
            database.until_alone();
            let done = is_done(&database);
            assert!(done || !finished, "a finished run is not undone");
            finished = done;
            if option == "--recreate" {
                let rows = database.number("SELECT count(*) FROM events");
                let old = database.number("SELECT count(*) FROM events WHERE id = -1");
                assert!(
                    if done {
                        old == Some(0)
                    } else {
                        (rows, old) == (Some(1), Some(1))
                    },
                    "{}: {rows:?} {old:?} {done}",
                    database.name()
                );
            } else {
                assert!(!done || secondary(&database) == Some(2), "{}", database.name());
            }
        }
        let account = events.directory.path().join("report.json");
        let mut command = events.load(&database.url());
        command.args([option, "--resume", "--report"]).arg(&account);
        let ended = Running::start(&mut command).wait();
        assert!(ended.status.code() == Some(3) || finished, "{}", ended.stderr);
        assert_eq!(count(&report(&account), "/rows/unfinished"), 0);
        events.check(&database);
        assert_eq!(secondary(&database), Some(2));
        assert_eq!(database.number("SELECT count(*) FROM tonnage_runs"), Some(1));
        let left = match database.name() {
            "SQLite" => "SELECT count(*) FROM sqlite_schema WHERE name GLOB 'tonnage_[0-9]*'",
            _ => "SELECT count(*) FROM pg_class WHERE relname ~ '^tonnage_[0-9]'",
        };
        assert_eq!(database.number(left), Some(0), "nothing of a shadow is left");
    }
}

fn is_done(database: &Database) -> bool {
    let finished = database.number("SELECT count(*) FROM tonnage_runs WHERE finished IS NOT NULL");
    finished.is_some_and(|runs| runs > 0)
}

fn secondary(database: &Database) -> Option<u64> {
    database.number(match database.name() {
        "SQLite" => "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name IN ('by_label', 'by_at')",
        _ => "SELECT count(*) FROM pg_indexes WHERE tablename = 'events' AND indexname IN ('by_label', 'by_at')",
    })
}

#[test]
fn kills_of_a_recreation() {
    kills("--recreate");
}

#[test]
fn kills_of_a_rebuild() {
    kills("--rebuild-indexes");
}
