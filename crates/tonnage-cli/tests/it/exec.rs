//! Statements of one's own, on every database: what they do to the tables, and the account of it.

use std::{os::unix::process::ExitStatusExt, thread::sleep, time::Duration};

use crate::{
    database,
    events::{Chance, handled},
    process::{Running, count, report, tonnage},
    support::{
        ALL, BOTH,
        Database::{self, MariaDb, Postgres, Sqlite},
        TestDatabase, every,
    },
};

const STOCK: &str =
    "CREATE TABLE stock (id integer PRIMARY KEY, quantity integer CHECK (quantity >= 0), name text);
    INSERT INTO stock VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, NULL)";

struct Case {
    name: &'static str,
    on: &'static [Database],
    /// Tables beside `stock`.
    sql: &'static str,
    file: &'static str,
    statement: &'static str,
    options: &'static str,
    /// What a query shows afterwards; all of `stock` if it is empty.
    query: &'static str,
    shows: &'static [&'static str],
    /// Read, written, conflict, unmatched, rejected.
    account: [u64; 5],
}

impl Case {
    const PLAIN: Self = Self {
        name: "",
        on: ALL,
        sql: "",
        file: "",
        statement: "",
        options: "",
        query: "",
        shows: &[],
        account: [0; 5],
    };
}

const CASES: &[Case] = &[
    Case {
        name: "an update that is not idempotent, some rows of which match nothing",
        file: "id,moved,remark\n1,5,x\n2,-3,y\n9,1,z\n1,2,\n",
        statement: "update stock set quantity = quantity + :moved where id = :id",
        shows: &["1|17|a", "2|17|b", "3|30|-"],
        account: [4, 3, 0, 1, 0],
        ..Case::PLAIN
    },
    Case {
        name: "one row that touches many",
        file: "n,least\nmany,20\n",
        statement: "update stock set name = :n where quantity >= :least",
        shows: &["1|10|a", "2|20|many", "3|30|many"],
        account: [1, 1, 0, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "a delete",
        file: "id\n1\n1\n7\n3\n",
        statement: "delete from stock where id = :id",
        shows: &["2|20|b"],
        account: [4, 2, 0, 2, 0],
        ..Case::PLAIN
    },
    Case {
        name: "inserts that stand alone, nulls, and text that looks like parameters",
        on: BOTH,
        file: "id,n\n4,\"it's :n\"\n5,\n6,\"\"\n",
        statement: "insert into stock (id, quantity, name) values (:id, 4, ':id ''' || :n) -- :x",
        shows: &[
            "1|10|a",
            "2|20|b",
            "3|30|-",
            "4|4|:id 'it's :n",
            "5|4|-",
            "6|4|:id '",
        ],
        account: [3, 3, 0, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "inserts by many jobs",
        file: "id,quantity,name\n4,1,x\n5,2,y\n",
        statement: "insert into stock values (:id, :quantity, :name)",
        options: "-j 4 --batch-rows 1",
        shows: &["1|10|a", "2|20|b", "3|30|-", "4|1|x", "5|2|y"],
        account: [2, 2, 0, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "conflicts are left out",
        on: BOTH,
        file: "id,q\n1,1\n4,2\n4,3\n",
        statement: "insert into stock (id, quantity) values (:id, :q) on conflict do nothing",
        shows: &["1|10|a", "2|20|b", "3|30|-", "4|2|-"],
        account: [3, 1, 2, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "conflicts are added up, in the order of the rows",
        on: BOTH,
        file: "id,q\n1,1\n4,2\n4,3\n1,1\n",
        statement: "insert into stock (id, quantity, name) values (:id, :q, 'first') \
                    on conflict (id) do update set quantity = stock.quantity * 10 + :q",
        shows: &["1|1011|a", "2|20|b", "3|30|-", "4|23|first"],
        account: [4, 4, 0, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "the same by key and with many jobs",
        on: BOTH,
        file: "id,q\n1,1\n4,2\n4,3\n1,1\n",
        statement: "insert into stock (id, quantity, name) values (:id, :q, 'first') \
                    on conflict (id) do update set quantity = stock.quantity * 10 + :q",
        options: "--key id -j 3 --batch-rows 1",
        shows: &["1|1011|a", "2|20|b", "3|30|-", "4|23|first"],
        account: [4, 4, 0, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "a commit a row",
        file: "id,q\n1,1\n1,2\n",
        statement: "update stock set quantity = quantity * 10 + :q where id = :id;",
        options: "--method single",
        shows: &["1|1012|a", "2|20|b", "3|30|-"],
        account: [2, 2, 0, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "bad rows among good ones",
        file: "id,moved\n1,-4\n2,-50\n3,x\n1,-4\n3,1\n2,-20\n",
        statement: "update stock set quantity = quantity + :moved where id = :id",
        options: "--rejects bad.jsonl --type moved=int32",
        shows: &["1|2|a", "2|0|b", "3|31|-"],
        account: [6, 4, 0, 0, 2],
        ..Case::PLAIN
    },
    Case {
        name: "a key that is there",
        file: "id,q\n4,1\n1,1\n5,1\n4,2\n",
        statement: "insert into stock (id, quantity) values (:id, :q)",
        options: "--rejects bad.jsonl",
        shows: &["1|10|a", "2|20|b", "3|30|-", "4|1|-", "5|1|-"],
        account: [4, 2, 0, 0, 2],
        ..Case::PLAIN
    },
    Case {
        name: "columns of other names",
        file: "number,count\n1,7\n",
        statement: "update stock set quantity = :q where id = :id",
        options: "--map number=id --map count=q",
        shows: &["1|7|a", "2|20|b", "3|30|-"],
        account: [1, 1, 0, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "columns without names",
        file: "7,1\n",
        statement: "update stock set quantity = :q where id = :id",
        options: "--no-header",
        shows: &["1|7|a", "2|20|b", "3|30|-"],
        account: [1, 1, 0, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "the first rows only, from another table, by a common table expression",
        sql: "CREATE TABLE gone (id integer, at date)",
        file: "id,at\n1,2024-02-29\n2,2024-02-29\n3,2024-02-29\n",
        statement: "with old as (select * from stock where id = :id) \
                    insert into gone select id, :at from old",
        options: "--limit 2 --type at=date",
        on: &[Sqlite],
        query: "SELECT * FROM gone ORDER BY id",
        shows: &["1|2024-02-29", "2|2024-02-29"],
        account: [2, 2, 0, 0, 0],
    },
    Case {
        name: "numbers to be reckoned with, and keys that are text",
        on: &[Sqlite],
        sql: "CREATE TABLE prices (code TEXT PRIMARY KEY, price); INSERT INTO prices VALUES ('1.50', 1), ('2', 2)",
        file: "code,more\n1.50,0.25\n2,3\n",
        statement: "update prices set price = price + :more where code = :code",
        query: "SELECT code, price, typeof(price) FROM prices ORDER BY code",
        shows: &["1.50|1.25|real", "2|5|integer"],
        account: [2, 2, 0, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "a value that an affinity would rewrite",
        on: &[Sqlite],
        sql: "CREATE TABLE codes (id integer, code PARTNUMBER)",
        file: "id,code\n1,007\n2,x\n",
        statement: "insert into codes (id, code) values (:id, :code)",
        options: "--rejects bad.jsonl",
        query: "SELECT * FROM codes",
        shows: &["2|x"],
        account: [2, 1, 0, 0, 1],
    },
    Case {
        name: "INSERT OR IGNORE",
        on: &[Sqlite],
        file: "id\n1\n4\n",
        statement: "INSERT OR IGNORE INTO stock (id) VALUES (:id)",
        shows: &["1|10|a", "2|20|b", "3|30|-", "4|-|-"],
        account: [2, 1, 1, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "OR FAIL leaves nothing of a row behind that failed",
        on: &[Sqlite],
        file: "moved\n-16\n1\n",
        statement: "UPDATE OR FAIL stock SET quantity = quantity + :moved * (id - 1)",
        options: "--rejects bad.jsonl",
        shows: &["1|10|a", "2|21|b", "3|32|-"],
        account: [2, 1, 0, 0, 1],
        ..Case::PLAIN
    },
    Case {
        name: "merge",
        on: &[Postgres],
        file: "id,q\n1,5\n4,6\n2,0\n3,-1\n",
        statement: "merge into stock s using (select :id::int as id, :q::int as q) g on s.id = g.id \
                    when matched and g.q = 0 then delete \
                    when matched and g.q > 0 then update set quantity = s.quantity + g.q \
                    when not matched then insert (id, quantity) values (g.id, g.q)",
        shows: &["1|15|a", "3|30|-", "4|6|-"],
        account: [4, 3, 0, 1, 0],
        ..Case::PLAIN
    },
    Case {
        name: "casts, arrays, dollar quotes, operators",
        on: &[Postgres],
        sql: "CREATE TABLE t (id int PRIMARY KEY, a int[], j jsonb, n text); \
              INSERT INTO t VALUES (1, '{1,2,3}', '{\"k\": 1}', '')",
        file: "id,x,name\n1,2,k\n",
        statement: "update t set a = a[1:2] || :x::int, n = $q$:x$q$ || :name || '::' where j ? :name and id = :id",
        query: "SELECT a, n FROM t",
        shows: &["{1,2,2}|:xk::"],
        account: [1, 1, 0, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "types that travel as text, and limits of columns",
        on: &[Postgres],
        sql: "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN short AS varchar(3); \
              CREATE TABLE t (id int, ip inet, m mood, price numeric(6,2), s short, u uuid, at timestamptz)",
        file: "id,ip,m,price,s,u,at\n\
               1,10.0.0.1,glad,1.50,abc,00000000-0000-0000-0000-000000000001,2024-02-29 12:00:00Z\n\
               2,10.0.0.300,glad,1.50,abc,00000000-0000-0000-0000-000000000001,2024-02-29 12:00:00Z\n\
               3,10.0.0.1,mad,1.50,abc,00000000-0000-0000-0000-000000000001,2024-02-29 12:00:00Z\n\
               4,10.0.0.1,sad,1.505,abc,00000000-0000-0000-0000-000000000001,2024-02-29 12:00:00Z\n\
               5,10.0.0.1,sad,1.50,abcd,00000000-0000-0000-0000-000000000001,2024-02-29 12:00:00Z\n\
               6,,,,,,\n",
        statement: "insert into t (id, ip, m, price, s, u, at) values (:id, :ip, :m, :price, :s, :u, :at)",
        options: "--rejects bad.jsonl",
        query: "SELECT id, ip, m, price, s, right(u::text, 2), at at time zone 'UTC' FROM t ORDER BY id",
        shows: &["1|10.0.0.1|glad|1.50|abc|01|2024-02-29 12:00:00", "6|-|-|-|-|-|-"],
        account: [6, 2, 0, 0, 4],
    },
    Case {
        name: "an assignment that would round",
        on: &[Postgres],
        sql: "CREATE TABLE t (id int, price numeric(6,2)); INSERT INTO t VALUES (1, 0), (2, 0)",
        file: "id,p\n1,1.505\n2,1.5\n",
        statement: "update t set price = :p where id = :id",
        options: "--rejects bad.jsonl",
        query: "SELECT * FROM t ORDER BY id",
        shows: &["1|0.00", "2|1.50"],
        account: [2, 1, 0, 0, 1],
    },
    Case {
        name: "a trigger that leaves a row out of an insert rejects it",
        on: &[Postgres],
        sql: "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN IF NEW.id = 5 THEN RETURN NULL; END IF; RETURN NEW; END'; \
              CREATE TRIGGER no BEFORE INSERT ON stock FOR EACH ROW EXECUTE FUNCTION no()",
        file: "id\n4\n5\n6\n",
        statement: "insert into stock (id) values (:id)",
        options: "--rejects bad.jsonl",
        shows: &["1|10|a", "2|20|b", "3|30|-", "4|-|-", "6|-|-"],
        account: [3, 2, 0, 0, 1],
        ..Case::PLAIN
    },
    Case {
        name: "a subquery with several rows is the row's fault",
        on: &[Postgres, MariaDb],
        file: "id,least\n1,25\n2,1\n",
        statement: "update stock set quantity = (select s.quantity from stock s where s.quantity > :least) where id = :id",
        options: "--rejects bad.jsonl",
        shows: &["1|30|a", "2|20|b", "3|30|-"],
        account: [2, 1, 0, 0, 1],
        ..Case::PLAIN
    },
    Case {
        name: "strings and comments as MariaDB has them",
        on: &[MariaDb],
        file: "id,n\n4,x\n5,\n",
        statement: "insert into stock (id, quantity, name) # ':id\n\
                    values (:id, 5--4, concat(\":id \\\" ' \", '\\' :n ', :n)) -- :x",
        shows: &["1|10|a", "2|20|b", "3|30|-", "4|9|:id \" ' ' :n x", "5|9|-"],
        account: [2, 2, 0, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "duplicate keys are left out",
        on: &[MariaDb],
        file: "id,q\n1,1\n4,2\n4,3\n",
        statement: "insert into stock (id, quantity) values (:id, :q) on duplicate key update id = id",
        shows: &["1|10|a", "2|20|b", "3|30|-", "4|2|-"],
        account: [3, 1, 2, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "duplicate keys are added up, by key and with many jobs",
        on: &[MariaDb],
        file: "id,q\n1,1\n4,2\n4,3\n1,1\n",
        statement: "insert into stock (id, quantity, name) values (:id, :q, 'first') \
                    on duplicate key update quantity = quantity * 10 + :q",
        options: "--key id -j 3 --batch-rows 1",
        shows: &["1|1011|a", "2|20|b", "3|30|-", "4|23|first"],
        account: [4, 4, 0, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "decimals are reckoned with exactly, and what would be rounded is refused",
        on: &[MariaDb],
        sql: "CREATE TABLE prices (code varchar(9) PRIMARY KEY, price decimal(20,2)); \
              INSERT INTO prices VALUES ('1.50', 12345678901234567.10), ('2', 2), ('3', 3)",
        file: "code,more\n1.50,0.25\n2,3\n3,0.125\n",
        statement: "update prices set price = price + :more where code = :code",
        options: "--rejects bad.jsonl",
        query: "SELECT * FROM prices ORDER BY code",
        shows: &["1.50|12345678901234567.35", "2|5.00", "3|3.00"],
        account: [3, 2, 0, 0, 1],
    },
    Case {
        name: "limits of columns",
        on: &[MariaDb],
        sql: "CREATE TABLE t (id bigint unsigned, m enum('sad', 'glad'), price decimal(6,2), s varchar(3), \
              at datetime, seen timestamp NOT NULL DEFAULT current_timestamp())",
        file: "id,m,price,s,at,seen\n\
               18446744073709551615,glad,1.50,abc,2024-02-29 12:00:00,2024-02-29 12:00:00Z\n\
               -1,glad,1.50,abc,2024-02-29 12:00:00,2024-02-29 12:00:00Z\n\
               2,mad,1.50,abc,2024-02-29 12:00:00,2024-02-29 12:00:00Z\n\
               3,sad,1.505,abc,2024-02-29 12:00:00,2024-02-29 12:00:00Z\n\
               4,sad,1.50,abcd,2024-02-29 12:00:00,2024-02-29 12:00:00Z\n\
               5,sad,1.50,abc,2024-02-29 12:00:00.5,2024-02-29 12:00:00Z\n\
               6,sad,1.50,abc,2024-02-29 12:00:00,\n\
               7,,,,,2024-02-29 12:00:00Z\n",
        statement: "insert into t values (:id, :m, :price, :s, :at, :seen)",
        options: "--rejects bad.jsonl",
        query: "SELECT id, m, price, s, at FROM t ORDER BY id",
        shows: &[
            "7|-|-|-|-",
            "18446744073709551615|glad|1.50|abc|2024-02-29 12:00:00",
        ],
        account: [8, 2, 0, 0, 6],
    },
    Case {
        name: "names in capitals are other tables",
        on: &[MariaDb],
        sql: "CREATE TABLE CODES (code varchar(9)); CREATE TABLE codes (code int)",
        file: "code\n007\n",
        statement: "insert into CODES values (:code)",
        query: "SELECT * FROM CODES",
        shows: &["007"],
        account: [1, 1, 0, 0, 0],
        ..Case::PLAIN
    },
    Case {
        name: "many tables, one of which is the row's",
        on: &[MariaDb],
        sql: "CREATE TABLE gone (id integer PRIMARY KEY); INSERT INTO gone VALUES (2), (3)",
        file: "id,n\n1,x\n2,y\n",
        statement: "update stock join gone on gone.id = stock.id set name = :n where stock.id = :id",
        shows: &["1|10|a", "2|20|y", "3|30|-"],
        account: [2, 1, 0, 1, 0],
        ..Case::PLAIN
    },
];

#[test]
fn statements_do_what_they_say_and_are_accounted_for() {
    let cases = CASES
        .iter()
        .flat_map(|case| case.on.iter().map(move |on| (case, *on)));
    every(cases, |(case, on)| {
        let place = TestDatabase::with(on, &format!("{STOCK}; {}", case.sql), &[("rows.csv", case.file)]);
        place.write("statement.sql", case.statement);
        let arguments = format!(
            "exec rows.csv {{db}} --sql @statement.sql --report - {}",
            case.options
        );
        let ran = place.run(&arguments);
        let said = |what: String| format!("{} on {on:?}: {what}\n{}", case.name, ran.stderr);
        let code = if case.account[4] > 0 { 3 } else { 0 };
        if ran.code != Some(code) {
            return Err(said(format!("ended with {:?}", ran.code)));
        }
        let report: serde_json::Value = serde_json::from_str(&ran.stdout_exact).expect("a report");
        crate::support::assert_balanced(&report);
        let rows = &report["rows"];
        let account = [
            &rows["read"],
            &rows["written"],
            &rows["skipped"]["conflict"],
            &rows["skipped"]["unmatched"],
            &rows["rejected"],
        ]
        .map(|count| count.as_u64().expect("a count"));
        if account != case.account {
            return Err(said(format!("the account is {account:?}")));
        }
        let query = match case.query {
            "" => "SELECT * FROM stock ORDER BY id",
            query => query,
        };
        let shows = place.sql(query);
        if shows != case.shows {
            return Err(said(format!("there is {shows:?}")));
        }
        if case.account[4] > 0 && place.read("bad.jsonl").lines().count() as u64 != case.account[4] {
            return Err(said("the rejects file has other rows".to_owned()));
        }
        Ok(())
    });
}

const KILLS: u64 = 8;
const SIGKILL: i32 = 9;
const ROWS: u64 = 12_000;
const KEYS: u64 = 50;

/// A statement that must not be run twice for any row, and the options that may not change between attempts.
fn killed(database: &database::Database, fixed: &[&str], varied: &[&[&str]]) {
    let mut chance = Chance::new();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let input = directory.path().join("moves.csv");
    let mut expected = vec![(0i64, 0u64); KEYS as usize];
    let mut text = "id,moved\n".to_owned();
    for _ in 0..ROWS {
        let (id, moved) = (chance.below(KEYS), chance.below(1_000) as i64 - 500);
        expected[id as usize].0 += moved;
        expected[id as usize].1 += 1;
        text.push_str(&format!("{id},{moved}\n"));
    }
    std::fs::write(&input, text).expect("an input file");
    database.run("CREATE TABLE stock (id integer PRIMARY KEY, v bigint NOT NULL, times integer NOT NULL)");
    let rows: Vec<_> = (0..KEYS).map(|id| format!("({id}, 0, 0)")).collect();
    database.run(&format!("INSERT INTO stock VALUES {}", rows.join(", ")));
    let account = directory.path().join("report.json");
    let attempt = |chance: &mut Chance| {
        let mut command = tonnage();
        command.arg("exec").arg(&input).arg(database.url());
        command.args([
            "--sql",
            "update stock set v = v + :moved, times = times + 1 where id = :id",
        ]);
        command.args(fixed).args(chance.one(varied));
        command.args(["--resume", "--batch-rows", chance.one(&["7", "20", "60"])]);
        command.arg("--report").arg(&account);
        command
    };
    let mut advanced = 0;
    for kill in 1..=KILLS {
        let before = handled(database);
        let goal = before + 1 + chance.below(ROWS / KILLS / 2);
        let mut command = attempt(&mut chance);
        // So slow that the kill comes before the end, however late this process is given its turn.
        command.args(["--rate", "1k/s"]);
        let mut running = Running::start(&mut command);
        while handled(database) < goal && !running.has_ended() {
            sleep(Duration::from_micros(chance.below(2_000)));
        }
        let ended = running.kill();
        assert_eq!(
            ended.status.signal(),
            Some(SIGKILL),
            "attempt {kill}: {}",
            ended.stderr
        );
        advanced += u64::from(handled(database) > before);
    }
    assert!(advanced >= KILLS / 2, "only {advanced} attempts got on");
    Running::start(&mut attempt(&mut chance)).wait().expect(0);
    let last = report(&account);
    assert_eq!(last["state"], "finished");
    assert_eq!(count(&last, "/rows/read"), ROWS);
    assert!(count(&last, "/rows/skipped/resumed") > 0);
    let found = database.rows("SELECT v, times FROM stock ORDER BY id");
    let expected: Vec<_> = expected
        .iter()
        .map(|(v, times)| vec![Some(v.to_string()), Some(times.to_string())])
        .collect();
    assert_eq!(found, expected, "every row was applied once");
}

#[test]
fn a_killed_update_of_sqlite_is_applied_once() {
    killed(
        &database::Database::sqlite(),
        &[],
        &[&["--method", "batch"], &["-j", "3"]],
    );
}

#[test]
fn a_killed_update_of_postgres_is_applied_once() {
    killed(
        &database::Database::postgres(),
        &[],
        &[&["--method", "batch"], &["-j", "3"]],
    );
}

#[test]
fn a_killed_update_of_mariadb_is_applied_once() {
    killed(
        &database::Database::mariadb(),
        &[],
        &[&["--method", "batch"], &["-j", "3"]],
    );
}

#[test]
fn a_killed_update_of_mariadb_by_key_and_many_jobs_is_applied_once() {
    let jobs: &[&[&str]] = &[&["-j", "1"], &["-j", "2"], &["-j", "4"]];
    killed(&database::Database::mariadb(), &["--key", "id"], jobs);
}

#[test]
fn a_killed_update_by_key_and_many_jobs_is_applied_once() {
    let jobs: &[&[&str]] = &[&["-j", "1"], &["-j", "2"], &["-j", "4"]];
    killed(&database::Database::postgres(), &["--key", "id"], jobs);
}

#[test]
fn another_text_is_another_run() {
    for database in ALL {
        // The second row fails the run after the first is committed.
        let place = TestDatabase::with(*database, STOCK, &[("rows.csv", "id,q\n1,-1\n1,-99\n")]);
        let exec = |statement: &str, options: &str| {
            place.run(&format!(
                "exec rows.csv {{db}} --sql '{statement}' --batch-rows 1 {options}"
            ))
        };
        let add = "update stock set quantity = quantity + :q where id = :id";
        assert_eq!(exec(add, "").code, Some(1));
        let refused = exec(add, "");
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(
            refused
                .stderr
                .contains("rows.csv into stock is unfinished, 1 row written")
                || refused.stderr.contains("stock is unfinished, 1 row written"),
            "{}",
            refused.stderr
        );
        let other = exec("update stock set quantity = quantity - :q where id = :id", "");
        assert_eq!(other.code, Some(0), "{}", other.stderr);
        assert_eq!(place.sql("SELECT quantity FROM stock WHERE id = 1"), ["109"]);
        // Once there is enough, the first goes on behind the row that it has applied.
        let ended = exec(add, "--resume");
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(place.sql("SELECT quantity FROM stock WHERE id = 1"), ["10"]);
    }
}

#[test]
fn the_plan_of_a_statement() {
    let cases = [
        (
            "update",
            "update stock set quantity = quantity + :moved\nwhere id = :id",
            "--map n=moved",
        ),
        (
            "update_by_key",
            "update stock set quantity = quantity + :n where id = :id",
            "--key id -j 3",
        ),
        (
            "insert",
            "insert into stock (id, quantity) values (:id, :n)",
            "-j 2",
        ),
    ];
    for database in ALL {
        let place = TestDatabase::with(*database, STOCK, &[("rows.csv", "id,n\n1,2\n")]);
        for (name, statement, options) in cases {
            let ran = place.run(&format!(
                "exec rows.csv {{db}} --sql '{statement}' {options} --dry-run"
            ));
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{name}");
            let plan: Vec<_> = ran
                .stdout
                .lines()
                .filter(|line| !line.starts_with("database"))
                .collect();
            let on = format!("{database:?}").to_lowercase();
            insta::assert_snapshot!(format!("plan_exec_{name}_{on}"), plan.join("\n"));
        }
        assert_eq!(
            place.run("runs {db}").stderr,
            "no runs\n",
            "a dry run writes nothing"
        );
    }
}

#[test]
fn the_library_runs_statements_by_sentences() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for database in ALL {
        let place = TestDatabase::with(*database, STOCK, &[("rows.csv", "id,n\n1,2\n2,3\n9,1\n")]);
        let url = match database {
            Sqlite => place.path("shop.db").display().to_string(),
            _ => place.url(),
        };
        let report = runtime.block_on(async {
            let db = tonnage::Database::connect(&url).await?;
            db.exec("update stock set quantity = quantity + :n where id = :id")
                .from(place.path("rows.csv").display().to_string())
                .touches(["id"])
                .run()
                .await
        });
        let report = report.expect("the statement runs");
        let said = "3 read = 2 written + 1 skipped (no such key)";
        assert_eq!(report.rows.to_string(), said);
        let stock = place.sql("SELECT quantity FROM stock ORDER BY id");
        assert_eq!(stock, ["12", "23", "30"]);
    }
}
