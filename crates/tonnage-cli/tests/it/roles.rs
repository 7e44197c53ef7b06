//! Roles that may make no tables: the ledger that is made for them, and what a role needs that uses it.

use crate::support::{
    Database::{MariaDb, Postgres, Sqlite},
    TestDatabase,
};

const SERVERS: &[crate::support::Database] = &[Postgres, MariaDb];

/// A place with a table, and a role that may write to it and make nothing.
struct Loader {
    place: TestDatabase,
    role: String,
    /// Of the role.
    url: String,
}

impl Loader {
    fn new(database: crate::support::Database) -> Self {
        let place = TestDatabase::with(
            database,
            "CREATE TABLE t (id bigint PRIMARY KEY, v varchar(20))",
            &[("a.csv", "id,v\n1,a\n2,b\n"), ("b.csv", "id,v\n3,c\n")],
        );
        let role = format!("loader_{}", place.name());
        let scheme = match database {
            Postgres => {
                place.sql(&format!(
                    "CREATE ROLE {role} LOGIN PASSWORD 'plain'; GRANT SELECT, INSERT, UPDATE ON t TO {role}; \
                     REVOKE CREATE ON SCHEMA public FROM PUBLIC"
                ));
                "postgresql"
            }
            _ => {
                place.sql(&format!("CREATE USER {role} IDENTIFIED BY 'plain'"));
                place.sql(&format!(
                    "GRANT SELECT, INSERT, UPDATE ON {}.t TO {role}",
                    place.name()
                ));
                "mariadb"
            }
        };
        let url = format!("{scheme}://{role}:plain@{{server}}/{{name}}");
        Self { place, role, url }
    }

    /// The schema, or the database, in which the test has its ledger: in MariaDB they are those of the whole server.
    fn schema(&self) -> String {
        match self.place.database {
            Postgres => "etl".to_owned(),
            _ => format!("{}_etl", self.place.name()),
        }
    }

    /// What the role can do with a ledger that it can use.
    fn does_all(&self, option: &str) {
        let Self { place, url, .. } = self;
        let done = |arguments: &str| {
            let ran = place.run(arguments);
            assert_eq!(ran.code, Some(0), "{arguments}: {}", ran.stderr);
            ran
        };
        let database = place.database;
        done(&format!("load a.csv {url}{option} -t t --mode upsert"));
        let ran = done(&format!("load a.csv {url}{option} -t t --mode upsert --resume"));
        assert!(
            ran.stderr.contains("has loaded all of this already"),
            "{}",
            ran.stderr
        );
        let runs = done(&format!("runs {url}{option}")).stdout;
        assert_eq!(runs.lines().count(), 1, "{database:?}: {runs}");
        // A run that stopped is gone on with, and finished.
        place.write(
            "c.csv",
            "id,v\n4,d\n5,e\n6,much too long for the column of this table\n7,f\n",
        );
        let ran = place.run(&format!(
            "load c.csv {url}{option} -t t --batch-rows 1 --jobs 1 --on-error stop"
        ));
        assert_eq!(ran.code, Some(1), "{database:?}: {}", ran.stderr);
        let ran = place.run(&format!(
            "load c.csv {url}{option} -t t --batch-rows 1 --jobs 1 --resume --on-error reject"
        ));
        assert_eq!(ran.code, Some(3), "{database:?}: {}", ran.stderr);
        let ran = place.run_with(
            &format!("ingest {url}{option} -t t -q --journal journal"),
            &[],
            b"{\"id\": 8, \"v\": \"h\"}\n",
        );
        assert_eq!(ran.code, Some(0), "{database:?}: {}", ran.stderr);
        done(&format!("load b.csv {url}{option} -t t"));
        done(&format!("runs {url}{option} --prune --keep 1"));
        let runs = done(&format!("runs {url}{option}")).stdout_exact;
        let id = &runs[..32];
        done(&format!("runs {url}{option} --forget {id}"));
        assert_eq!(place.sql("SELECT count(*) FROM t"), ["7"], "{database:?}");
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let schema = self.schema();
        let Self { place, role, .. } = self;
        match place.database {
            Postgres => place.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}")),
            _ => {
                place.sql(&format!("DROP USER {role}"));
                place.sql(&format!("DROP DATABASE IF EXISTS {schema}"))
            }
        };
    }
}

#[test]
fn a_role_that_may_make_nothing_uses_the_ledger_that_was_made_for_it() {
    for database in SERVERS {
        let loader = Loader::new(*database);
        let Loader { place, role, url } = &loader;
        let ran = place.run(&format!("load a.csv {url} -t t"));
        assert_eq!(ran.code, Some(1), "{database:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("cannot make the ledger")
                && ran.stderr.contains(&role.replace(place.name(), "{name}"))
                && ran.stderr.contains("hint: `tonnage init TARGET --grant "),
            "{database:?}: {}",
            ran.stderr
        );
        let schema = loader.schema();
        let init = format!("init {{db}}?ledger_schema={schema} --grant {role}");
        let printed = place.run(&init);
        assert_eq!(printed.code, Some(0), "{database:?}: {}", printed.stderr);
        for table in ["tonnage_runs", "tonnage_slots", "tonnage_inputs"] {
            let is_made = |line: &str| line.starts_with("CREATE TABLE IF NOT EXISTS") && line.contains(table);
            assert!(
                printed.stdout.lines().any(is_made),
                "{database:?}: {}",
                printed.stdout
            );
        }
        // What was printed is what makes it.
        for statement in printed.stdout_exact.lines() {
            place.sql(statement.trim_end_matches(';'));
        }
        loader.does_all(&format!("?ledger_schema={schema}"));
        // Once more changes nothing.
        let again = place.run(&format!("{init} --execute"));
        assert_eq!(again.code, Some(0), "{database:?}: {}", again.stderr);
        let runs = place.run(&format!("runs {url}?ledger_schema={schema}"));
        assert_ne!(runs.stdout, "", "{database:?}: {}", runs.stderr);
    }
}

#[test]
fn the_statements_of_init_are_executed_when_asked_for() {
    for database in SERVERS {
        let loader = Loader::new(*database);
        let Loader { place, role, url } = &loader;
        let schema = loader.schema();
        let ran = place.run(&format!("load a.csv {url}?ledger_schema={schema} -t t"));
        assert_ne!(ran.code, Some(0), "{database:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("tonnage init TARGET"),
            "{database:?}: {}",
            ran.stderr
        );
        let init = format!("init {{db}}?ledger_schema={schema} --execute");
        assert_eq!(place.run(&init).code, Some(0), "{database:?}");
        // A ledger that a role may not use is no reason to make another one.
        let ran = place.run(&format!("load a.csv {url}?ledger_schema={schema} -t t"));
        assert_eq!(ran.code, Some(1), "{database:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("tonnage init TARGET"),
            "{database:?}: {}",
            ran.stderr
        );
        let ran = place.run(&format!("{init} --grant {role}"));
        assert_eq!(ran.code, Some(0), "{database:?}: {}", ran.stderr);
        loader.does_all(&format!("?ledger_schema={schema}"));
    }
}

#[test]
fn without_a_choice_a_ledger_in_schema_tonnage_is_used() {
    let loader = Loader::new(Postgres);
    let Loader { place, role, .. } = &loader;
    let ran = place.run(&format!("init {{db}} --grant {role} --execute"));
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (Some(0), "the ledger is in schema tonnage\n")
    );
    loader.does_all("");
    assert_eq!(
        place.sql("SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relname = 'tonnage_runs'"),
        ["tonnage"]
    );
}

#[test]
fn a_ledger_is_made_in_the_first_schema_in_which_the_role_may() {
    let loader = Loader::new(Postgres);
    let Loader { place, role, url } = &loader;
    place.sql(&format!("CREATE SCHEMA own; GRANT ALL ON SCHEMA own TO {role}"));
    loader.does_all("?options=-csearch_path%3Dpublic,own");
    let ran = place.run(&format!("runs {url}?ledger_schema=own"));
    assert_ne!(ran.stdout, "", "{}", ran.stderr);
}

#[test]
fn members_of_a_sharded_table_have_ledgers_of_their_own_choice() {
    let places = [TestDatabase::new(Postgres), TestDatabase::new(Postgres)];
    for place in &places {
        place.sql("CREATE TABLE t (id bigint PRIMARY KEY, v text)");
    }
    let [one, other] = [places[0].url(), places[1].url()];
    let members = format!("{one}?ledger_schema=a {other}?ledger_schema=b");
    let place = &places[0];
    place.write("a.csv", "id,v\n1,a\n2,b\n3,c\n4,d\n");
    let ran = place.run(&format!("init {members} --shard-by id --execute"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = place.run(&format!("load a.csv {members} -t t --shard-by id"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let found = "SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE relname = 'tonnage_runs'";
    assert_eq!(places[0].sql(found), ["a"]);
    assert_eq!(places[1].sql(found), ["b"]);
    assert_eq!(places[1].sql("SELECT count(*) FROM b.tonnage_runs"), ["1"]);
}

#[test]
fn a_file_that_is_its_own_ledger_has_no_roles() {
    let place = TestDatabase::with(Sqlite, "CREATE TABLE t (id integer)", &[]);
    let ran = place.run("init {db}");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for statement in ran.stdout_exact.split_inclusive(';') {
        place.sql(statement);
    }
    assert_eq!(
        place.sql(
            "SELECT name FROM sqlite_schema WHERE name LIKE 'tonnage%' AND type = 'table' ORDER BY name"
        ),
        ["tonnage_inputs", "tonnage_parts", "tonnage_runs", "tonnage_slots"]
    );
    assert_eq!(place.run("init {db} --execute").code, Some(0));
    let ran = place.run("init {db} --grant someone");
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("SQLite has no roles"), "{}", ran.stderr);
}
