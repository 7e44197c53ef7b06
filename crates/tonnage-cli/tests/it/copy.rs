//! Whole databases, from each kind to each.

use serde_json::Value;

use crate::support::{ALL, Database, TestDatabase};

/// A shop: a circle of foreign keys, a key of two columns, indexes, defaults, a table without rows.
fn shop(database: Database) -> &'static str {
    match database {
        Database::Sqlite => {
            "CREATE TABLE users (id INTEGER PRIMARY KEY AUTOINCREMENT, email VARCHAR(80) NOT NULL UNIQUE, \
               state TEXT DEFAULT 'it''s new', active BOOLEAN NOT NULL DEFAULT 1, joined TIMESTAMP DEFAULT CURRENT_TIMESTAMP, \
               boss INTEGER REFERENCES users); \
             CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE, \
               total DECIMAL(10,2), photo BLOB, day DATE, twice AS (total * 2)); \
             CREATE TABLE lines (order_id INTEGER, line INTEGER, product TEXT, PRIMARY KEY (order_id, line), \
               FOREIGN KEY (order_id) REFERENCES orders (id)); \
             CREATE TABLE spare (a INTEGER); \
             CREATE INDEX by_user ON orders (user_id, day); CREATE VIEW all_orders AS SELECT 1 AS one"
        }
        Database::Postgres => {
            "CREATE TYPE mood AS ENUM ('it''s new', 'old'); \
             CREATE TABLE users (id serial PRIMARY KEY, email varchar(80) NOT NULL UNIQUE, state mood DEFAULT 'it''s new', \
               active boolean NOT NULL DEFAULT true, joined timestamp DEFAULT now(), boss int REFERENCES users); \
             CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
               user_id int NOT NULL REFERENCES users ON DELETE CASCADE, total numeric(10,2) CHECK (total >= 0), photo bytea, \
               day date, twice numeric GENERATED ALWAYS AS (total * 2) STORED); \
             CREATE TABLE lines (order_id int REFERENCES orders, line int, product text, PRIMARY KEY (order_id, line)); \
             CREATE TABLE spare (a int); \
             CREATE INDEX by_user ON orders (user_id, day); CREATE VIEW all_orders AS SELECT 1 AS one"
        }
        Database::MariaDb => {
            "CREATE TABLE users (id int AUTO_INCREMENT PRIMARY KEY, email varchar(80) NOT NULL UNIQUE, \
               state enum('it''s new', 'old') DEFAULT 'it''s new', active boolean NOT NULL DEFAULT true, \
               joined datetime(6) DEFAULT current_timestamp(6), boss int, FOREIGN KEY (boss) REFERENCES users (id)); \
             CREATE TABLE orders (id int PRIMARY KEY, user_id int NOT NULL, total decimal(10,2) CHECK (total >= 0), \
               photo longblob, day date, twice decimal(12,2) AS (total * 2) STORED, KEY by_user (user_id, day), \
               FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE); \
             CREATE TABLE `lines` (order_id int, line int, product text, PRIMARY KEY (order_id, line), \
               FOREIGN KEY (order_id) REFERENCES orders (id)); \
             CREATE TABLE spare (a int); CREATE VIEW all_orders AS SELECT 1 AS one"
        }
    }
}

/// The rows: the boss of the first user comes after him.
fn rows(database: Database) -> String {
    let (bytes, overriding, lines) = match database {
        Database::Sqlite => ("x'00ff'", "", "lines"),
        Database::Postgres => ("'\\x00ff'", "OVERRIDING SYSTEM VALUE", "lines"),
        Database::MariaDb => ("x'00ff'", "", "`lines`"),
    };
    let mut sql = format!(
        "INSERT INTO users (id, email) VALUES (3, 'Größe@x'), (7, 'b@x'); UPDATE users SET boss = 7 WHERE id = 3; \
         INSERT INTO orders (id, user_id, total, photo, day) {overriding} VALUES (1, 3, 2.50, {bytes}, '2024-02-29'), \
         (2, 7, NULL, NULL, NULL); \
         INSERT INTO {lines} VALUES (1, 1, ''), (1, 2, 'x'), (2, 1, NULL)"
    );
    if database == Database::Postgres {
        sql.push_str("; SELECT setval('users_id_seq', 7)");
    }
    sql
}

fn filled(database: Database) -> TestDatabase {
    let place = TestDatabase::with(database, shop(database), &[]);
    place.sql(&rows(database));
    place
}

fn url(place: &TestDatabase) -> String {
    match place.database {
        Database::Sqlite => place.path("shop.db").display().to_string(),
        _ => place.url(),
    }
}

/// Copies `from` into `to`; the result.
fn copy(from: &TestDatabase, to: &TestDatabase, options: &str, code: i32) -> Value {
    let ran = to.run(&format!("copy {} {{db}} {options} --json", url(from)));
    let databases = (from.database, to.database);
    assert_eq!(
        ran.code,
        Some(code),
        "{databases:?} copy {options}\n{}{}",
        ran.stdout,
        ran.stderr
    );
    serde_json::from_str(&ran.stdout_exact).expect("the result is JSON")
}

/// Whether the database refuses a statement.
fn refuses(place: &TestDatabase, sql: &str) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| place.sql(sql))).is_err()
}

#[test]
fn each_kind_goes_into_each() {
    for from in ALL {
        let source = filled(*from);
        for to in ALL {
            let pair = format!("{from:?} {to:?}");
            let target = TestDatabase::with(*to, "", &[]);
            let result = copy(&source, &target, "", 0);
            assert_eq!(result["state"], "finished", "{pair}");
            let order: Vec<&str> = result["tables"]
                .as_array()
                .expect("tables")
                .iter()
                .map(|table| table["source"].as_str().expect("a name"))
                .map(|name| name.rsplit('.').next().expect("a part"))
                .collect();
            assert_eq!(order, ["spare", "users", "orders", "lines"], "{pair}");
            assert!(
                result["tables"]
                    .as_array()
                    .expect("tables")
                    .iter()
                    .all(|table| table["agrees"] == true)
            );
            assert_eq!(result["rows"]["written"], 7, "{pair}");
            assert!(
                result["left_out"].to_string().contains("all_orders"),
                "{pair}: {}",
                result["left_out"]
            );

            let lines = if *to == Database::MariaDb {
                "`lines`"
            } else {
                "lines"
            };
            assert_eq!(
                target.sql("SELECT boss FROM users WHERE email = 'Größe@x'"),
                ["7"],
                "{pair}"
            );
            assert_eq!(
                target
                    .sql("SELECT twice FROM orders WHERE id = 1 AND twice = 5")
                    .len(),
                1,
                "{pair}"
            );
            // Keys and foreign keys hold.
            if *to == Database::Sqlite {
                assert_eq!(target.sql("PRAGMA foreign_key_check").len(), 0);
                assert_eq!(
                    target.sql("SELECT count(*) FROM pragma_foreign_key_list('orders')"),
                    ["1"],
                    "{pair}"
                );
            } else {
                assert!(
                    refuses(&target, &format!("INSERT INTO {lines} VALUES (9, 9, 'x')")),
                    "{pair}"
                );
            }
            assert!(
                refuses(&target, &format!("INSERT INTO {lines} VALUES (1, 1, 'x')")),
                "{pair}"
            );
            assert!(
                refuses(&target, "INSERT INTO users (id, email) VALUES (50, 'b@x')"),
                "{pair}"
            );
            // Defaults fill what is left out, and numbers go on.
            target.sql("INSERT INTO users (email) VALUES ('new@x')");
            let new =
                "SELECT id FROM users WHERE email = 'new@x' AND state = 'it''s new' AND joined IS NOT NULL";
            assert_eq!(target.sql(new), ["8"], "{pair}");
            if *to != Database::Sqlite {
                target.sql("DELETE FROM orders WHERE id = 99");
                target.sql(&format!("DELETE FROM {lines}"));
                target.sql("DELETE FROM users WHERE id = 3");
                assert_eq!(
                    target.sql("SELECT id FROM orders"),
                    ["2"],
                    "{pair}: ON DELETE CASCADE"
                );
            }
        }
    }
}

#[test]
fn one_kind_keeps_all_that_it_knows() {
    for database in ALL {
        let (source, target) = (filled(*database), TestDatabase::with(*database, "", &[]));
        copy(&source, &target, "", 0);
        let shown = |place: &TestDatabase| {
            let other = TestDatabase::with(*database, "", &[]);
            let ran = other.run(&format!("copy {} {{db}} --dry-run", url(place)));
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            let lines = ran.stdout_exact.lines();
            let statements: Vec<&str> = lines.filter(|line| !line.starts_with("--")).collect();
            statements.join("\n")
        };
        assert_eq!(shown(&source), shown(&target), "{database:?}");
        let tables = target.sql("SELECT count(*) FROM orders");
        assert_eq!(tables, ["2"], "a dry run writes nothing");
    }
}

#[test]
fn a_copy_that_failed_goes_on() {
    for database in [Database::Postgres, Database::MariaDb] {
        let source = TestDatabase::with(
            Database::Sqlite,
            "CREATE TABLE a (id INTEGER PRIMARY KEY, v INTEGER); INSERT INTO a VALUES (1, 2); \
             CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a, v INTEGER); \
             WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 2000) \
             INSERT INTO b SELECT id, 1, CASE id WHEN 1500 THEN 'no number' ELSE id END FROM n; CREATE INDEX by_v ON b (v)",
            &[],
        );
        let target = TestDatabase::with(database, "", &[]);
        let result = copy(&source, &target, "", 1);
        assert_eq!(result["state"], "stopped");
        assert_eq!(result["tables"][0]["state"], "copied");
        assert_eq!(result["tables"][1]["state"], "failed");
        assert!(
            result["tables"][1]["errors"].to_string().contains("--exclude"),
            "{result}"
        );
        let result = copy(&source, &target, "--resume --type b.v=text", 0);
        assert_eq!(result["tables"][1]["state"], "copied");
        assert_eq!(
            target.sql("SELECT v FROM b WHERE id IN (1500, 1501) ORDER BY id"),
            ["no number", "1501"]
        );
        target.sql("DROP TABLE b");
        let result = copy(&source, &target, "--resume", 1);
        assert_eq!(result["tables"][1]["state"], "failed");
        // Again without saying what is meant changes nothing.
        let again = target.run(&format!("copy {} {{db}}", url(&source)));
        assert_eq!(again.code, Some(2));
        assert!(again.stderr.contains("--resume"), "{}", again.stderr);

        source.sql("UPDATE b SET v = 1500 WHERE id = 1500");
        let result = copy(&source, &target, "--resume", 0);
        assert_eq!(result["tables"][0]["state"], "kept");
        assert_eq!(result["tables"][1]["state"], "copied");
        assert_eq!(target.sql("SELECT count(*), sum(v) FROM b"), ["2000|2001000"]);
        assert!(refuses(&target, "INSERT INTO b VALUES (9000, 77, 1)"));
        // And what is whole stays as it is.
        let result = copy(&source, &target, "--resume", 0);
        assert_eq!(result["rows"]["written"], 0);

        target.sql("INSERT INTO b VALUES (9000, 1, 1)");
        let result = copy(&source, &target, "--replace", 0);
        assert_eq!(result["tables"][1]["rows"]["written"], 2000);
        assert_eq!(target.sql("SELECT count(*) FROM b"), ["2000"]);
    }
}

#[test]
fn a_table_of_somebody_else_is_not_dropped_by_resume() {
    let source = TestDatabase::with(
        Database::Sqlite,
        "CREATE TABLE a (id INTEGER); INSERT INTO a VALUES (1)",
        &[],
    );
    for database in ALL {
        let target = TestDatabase::with(
            *database,
            "CREATE TABLE a (id INTEGER); INSERT INTO a VALUES (5)",
            &[],
        );
        let result = copy(&source, &target, "--resume", 1);
        assert!(
            result["tables"][0]["errors"]
                .to_string()
                .contains("no copy has made it"),
            "{result}"
        );
        assert_eq!(target.sql("SELECT id FROM a"), ["5"]);
    }
}

#[test]
fn foreign_keys_that_do_not_hold_are_told() {
    let source = TestDatabase::with(
        Database::Sqlite,
        "PRAGMA foreign_keys = OFF; CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (a INTEGER REFERENCES a); \
         INSERT INTO b VALUES (1), (NULL), (2)",
        &[],
    );
    for database in ALL {
        let target = TestDatabase::with(*database, "", &[]);
        let result = copy(&source, &target, "", 1);
        assert_eq!(result["tables"][1]["state"], "failed", "{database:?}");
        assert!(
            result["tables"][1]["errors"].to_string().contains("foreign key"),
            "{result}"
        );
        assert_eq!(target.sql("SELECT count(*) FROM b"), ["3"], "its rows are there");
    }
}

#[test]
fn tables_are_chosen() {
    let source = filled(Database::Sqlite);
    let target = TestDatabase::with(Database::Postgres, "", &[]);
    let result = copy(
        &source,
        &target,
        "--tables lin*,users --exclude spare --type lines.line=int16",
        0,
    );
    assert_eq!(result["tables"].as_array().map(Vec::len), Some(2));
    assert!(
        result["left_out"].to_string().contains("which is not copied"),
        "{}",
        result["left_out"]
    );
    let ty = "SELECT data_type FROM information_schema.columns WHERE table_name = 'lines' AND column_name = 'line'";
    assert_eq!(target.sql(ty), ["smallint"]);
}

#[test]
fn mistakes_are_answered() {
    let source = filled(Database::Sqlite);
    let target = TestDatabase::with(Database::Postgres, "", &[]);
    let refused = |options: &str, words: &str| {
        let ran = target.run(&format!("copy {} {{db}} {options}", url(&source)));
        assert_eq!(ran.code, Some(2), "{options}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{options}: {}", ran.stderr);
    };
    refused("--tables user", "did you mean users?");
    refused("--type users.x=text", "no such column");
    refused("--type users.id", "users.id");
    refused("--resume --replace", "cannot be used with");
    let same = source.run("copy {db} {db}");
    assert_eq!(same.code, Some(2));
    assert!(
        same.stderr.contains("has tables of these names"),
        "{}",
        same.stderr
    );
    let empty = TestDatabase::with(Database::Sqlite, "", &[]);
    let ran = target.run(&format!("copy {} {{db}}", url(&empty)));
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("no table"), "{}", ran.stderr);
}
