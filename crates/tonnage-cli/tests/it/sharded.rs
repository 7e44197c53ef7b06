//! One table over four databases: every row in the one that its shard key says, once, whoever is away meanwhile.

mod failing;
mod related;

use std::{os::unix::fs::PermissionsExt, thread::sleep, time::Duration};

use crate::{
    process::{Running, count, report, tonnage},
    support::{Database, Ran, TestDatabase},
};

const TABLE: &str = "CREATE TABLE orders (customer bigint NOT NULL, id bigint NOT NULL, total numeric(10,2), \
                     note text, PRIMARY KEY (customer, id))";
const MEMBERS: usize = 4;
const ROWS: u64 = 2_000;

/// Four databases; the working directory is the first one's.
struct Shards(Vec<TestDatabase>);

impl Shards {
    /// With the same table in each, and a section of `targets.toml` that names them.
    fn new() -> Self {
        Self::with(TABLE)
    }

    fn with(sql: &str) -> Self {
        Self::on(Database::Postgres, sql)
    }

    /// Four databases of another kind.
    fn of(database: Database) -> Self {
        match database {
            // It has no decimals, and who looks on must not be in the way of who writes.
            Database::Sqlite => {
                let table = TABLE.replace("numeric(10,2)", "text");
                Self::on(database, &format!("PRAGMA journal_mode = wal; {table}"))
            }
            _ => Self::on(database, TABLE),
        }
    }

    fn on(database: Database, sql: &str) -> Self {
        let members = (0..MEMBERS).map(|_| TestDatabase::with(database, sql, &[]));
        let shards = Self(members.collect());
        shards.name("orders", &[0, 1, 2, 3]);
        shards
    }

    /// Names these members, in this order.
    fn name(&self, name: &str, members: &[usize]) {
        let url = |member: &TestDatabase| match member.database {
            Database::Sqlite => member.path("shop.db").display().to_string(),
            _ => member.url(),
        };
        let urls: Vec<_> = members
            .iter()
            .map(|at| format!("{:?}", url(&self.0[*at])))
            .collect();
        let text = format!(
            "[{name}]\nmembers = [{}]\nshard_by = \"customer\"\n",
            urls.join(", ")
        );
        self.place().write("targets.toml", text);
        // It holds passwords.
        let path = self.place().path("targets.toml");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("the mode");
    }

    fn place(&self) -> &TestDatabase {
        &self.0[0]
    }

    fn run(&self, arguments: &str) -> Ran {
        self.place().run(arguments)
    }

    /// Runs what must succeed.
    #[track_caller]
    fn done(&self, arguments: &str) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments}\n{}", ran.stderr);
        ran
    }

    /// Runs what must be refused; error and hint.
    #[track_caller]
    fn refused(&self, arguments: &str) -> String {
        let ran = self.run(arguments);
        assert!(
            matches!(ran.code, Some(1 | 2)),
            "{arguments}\n{:?} {}",
            ran.code,
            ran.stderr
        );
        ran.stderr
    }

    /// What each member answers.
    fn each(&self, sql: &str) -> Vec<String> {
        self.0.iter().map(|member| member.sql(sql).join(",")).collect()
    }

    fn counts(&self) -> Vec<u64> {
        let each = self.each("SELECT count(*) FROM orders");
        each.iter().map(|text| text.parse().expect("a count")).collect()
    }

    /// All rows of all members, in order.
    fn rows(&self) -> Vec<String> {
        let mut rows: Vec<String> = Vec::new();
        for member in &self.0 {
            rows.extend(member.sql("SELECT customer, id, total, note FROM orders"));
        }
        rows.sort();
        rows
    }

    /// Writes a file of `rows` orders and says which rows it has, in order.
    fn orders(&self, name: &str, rows: u64) -> Vec<String> {
        let mut csv = String::from("customer,id,total,note\n");
        let mut expected = Vec::new();
        for id in 0..rows {
            let (customer, total) = (id * 7919 % 601, format!("{}.{:02}", id % 97, id % 100));
            csv.push_str(&format!("{customer},{id},{total},note {id}\n"));
            expected.push(format!("{customer}|{id}|{total}|note {id}"));
        }
        self.place().write(name, csv);
        expected.sort();
        expected
    }

    /// Lets nobody connect to a member, and ends those who have.
    fn take_away(&self, member: usize) {
        let name = self.0[member].name();
        let other = &self.0[(member + 1) % MEMBERS];
        // Committed before anybody is ended: who is comes back at once.
        other.sql(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"));
        let connected = format!("FROM pg_stat_activity WHERE datname = '{name}'");
        while other.sql(&format!("SELECT count(*) {connected}")) != ["0"] {
            other.sql(&format!("SELECT pg_terminate_backend(pid) {connected}"));
            // They get their turn.
            sleep(Duration::from_millis(10));
        }
    }

    fn bring_back(&self, member: usize) {
        let name = self.0[member].name();
        self.0[(member + 1) % MEMBERS].sql(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true"));
    }

    /// The members' ledgers know one run, which is finished, and their counts add up to `rows`.
    fn check_ledgers(&self, rows: u64) {
        let ledgers = self.each("SELECT count(*), min(written), count(finished) FROM tonnage_runs");
        let written: Vec<u64> = ledgers
            .iter()
            .map(|text| match text.split('|').collect::<Vec<_>>().as_slice() {
                ["1", written, "1"] => written.parse().expect("a count"),
                other => panic!("one finished run: {other:?}"),
            })
            .collect();
        assert_eq!(written, self.counts(), "each member counts its own rows");
        assert_eq!(written.iter().sum::<u64>(), rows);
    }
}

#[test]
fn every_row_is_in_the_database_that_its_key_says() {
    let shards = Shards::new();
    let expected = shards.orders("orders.csv", ROWS);
    shards.done("load orders.csv @orders -t orders --report report.json");
    assert_eq!(shards.rows(), expected);
    assert!(
        shards.counts().iter().all(|count| *count > ROWS / 8),
        "{:?}",
        shards.counts()
    );
    shards.check_ledgers(ROWS);
    let told = report(&shards.place().path("report.json"));
    for (member, count) in shards.counts().into_iter().enumerate() {
        assert_eq!(told["shards"][member]["written"], count, "{told:#}");
        assert!(told["shards"][member]["error"].is_null());
    }
    assert_eq!(told["stages"]["lanes"].as_array().map(Vec::len), Some(MEMBERS));
    // docs/sharding.md has the member of 42.
    let with_42 = shards.each("SELECT count(*) > 0 FROM orders WHERE customer = 42");
    let published = include_str!("../../../../docs/sharding.md");
    let member = published
        .lines()
        .find(|line| line.contains("`int64 42`"))
        .and_then(|line| line.split('|').map(str::trim).nth(4)?.parse::<usize>().ok())
        .expect("the member of 42 in docs/sharding.md");
    for (at, has) in with_42.iter().enumerate() {
        assert_eq!(has == "t", at == member, "{with_42:?}");
    }

    // The same by their URLs, in other ways and types: an upsert changes every row and adds none.
    let before = shards.counts();
    let urls: Vec<_> = shards.0.iter().map(TestDatabase::url).collect();
    let csv = shards.place().read("orders.csv").replace("note ", "again ");
    shards.place().write("again.csv", csv);
    shards.done("unload @orders -t orders -o all.parquet");
    for (source, method) in [
        ("again.csv", "array -j 3"),
        ("again.csv", "native -j 8 --jobs-per-shard 2"),
    ] {
        shards.done(&format!(
            "load {source} {} --shard-by customer -t orders --mode upsert --batch-rows 50 --method {method}",
            urls.join(" ")
        ));
        assert_eq!(shards.counts(), before);
        assert!(shards.rows().iter().all(|row| row.contains("again ")));
    }
    shards.done("load all.parquet @orders -t orders --mode upsert");
    assert_eq!(shards.rows(), expected);
    shards.done("load all.parquet @orders -t orders --mode ignore");
    shards.done("load all.parquet @orders -t orders --mode delete");
    assert_eq!(shards.counts(), [0; MEMBERS]);
}

#[test]
fn rows_come_back_by_key_and_all_together() {
    let shards = Shards::new();
    let expected = shards.orders("orders.csv", ROWS);
    shards.done("load orders.csv @orders -t orders");

    shards.done("unload @orders -t orders -j 3 -o all.csv");
    let all = shards.place().read("all.csv");
    let mut unloaded: Vec<_> = all.lines().skip(1).map(|line| line.replace(',', "|")).collect();
    unloaded.sort();
    assert_eq!(unloaded, expected);
    shards.done("unload @orders -t orders --limit 7 -o some.csv");
    assert_eq!(shards.place().read("some.csv").lines().count(), 8);
    let refused = shards.refused("unload @orders --query 'SELECT count(*) FROM orders' -o count.csv");
    assert!(
        refused.contains("a query runs in one database, and these are 4"),
        "{refused}"
    );

    // By the whole key, by its first column, and by keys of which some are missing.
    let got = shards
        .done("get @orders '106,1' '1,1' -t orders -o - --missing gone.csv")
        .stdout;
    assert_eq!(got, "customer,id,total,note\n106,1,1.01,note 1\n");
    let found = shards.done("get @orders 106 -t orders -o -").stdout;
    let of_106 = expected.iter().filter(|row| row.starts_with("106|")).count();
    assert_eq!(found.lines().count(), of_106 + 1, "{found}");
    let keys: String = (0..ROWS + 50)
        .map(|id| format!("{},{id}\n", id * 7919 % 601))
        .collect();
    shards.place().write("keys.csv", format!("customer,id\n{keys}"));
    shards.done("get @orders --keys keys.csv -t orders --ordered -j 3 -o got.csv --missing missing.csv");
    let got = shards.place().read("got.csv");
    let ids: Vec<_> = got
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(1).map(str::to_owned))
        .collect();
    let asked: Vec<_> = (0..ROWS).map(|id| Some(id.to_string())).collect();
    assert_eq!(ids, asked, "in the order in which they were asked");
    assert_eq!(shards.place().read("missing.csv").lines().count(), 51);
}

#[test]
fn statements_go_where_their_rows_are() {
    let shards = Shards::new();
    shards.orders("orders.csv", ROWS);
    shards.done("load orders.csv @orders -t orders");
    shards
        .place()
        .write("changes.csv", "who,which,more\n42,1,1.00\n7,8,2.50\n106,9,0.25\n");
    let sum = |shards: &Shards| -> f64 {
        let each = shards.each("SELECT coalesce(sum(total), 0) FROM orders");
        each.iter().map(|text| text.parse::<f64>().expect("a sum")).sum()
    };
    let (before, lines) = (sum(&shards), "--map who=customer --map more=more");
    let of = |customer: u64| (0..ROWS).filter(|id| id * 7919 % 601 == customer).count() as f64;
    shards.done(&format!(
        "exec changes.csv @orders {lines} --sql 'update orders set total = total + :more where customer = :customer'"
    ));
    let expected = before + of(42) + of(7) * 2.5 + of(106) * 0.25;
    assert!(
        (sum(&shards) - expected).abs() < 1e-6,
        "{} and {expected}",
        sum(&shards)
    );
    shards
        .place()
        .write("new.csv", "customer,id\n1,100000\n2,100001\n3,100002\n,100003\n");
    let ran = shards.run(
        "exec new.csv @orders --rejects bad.jsonl --sql 'insert into orders (id, customer) values (:id, :customer)'",
    );
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(shards.place().read("bad.jsonl").contains("null in the shard key"));
    assert_eq!(shards.counts().iter().sum::<u64>(), ROWS + 3);

    for (statement, why) in [
        (
            "update orders set total = :id",
            "its WHERE does not say 'customer = :parameter'",
        ),
        (
            "delete from orders where customer = :customer or id = :id",
            "its WHERE does not say",
        ),
        (
            "update orders set customer = :id where customer = :customer",
            "it changes 'customer'",
        ),
        (
            "insert into orders (id, customer) values (:id, 7)",
            "no parameter is the value of 'customer'",
        ),
        (
            "insert into orders (id, customer) select :id, :customer",
            "it looks at other rows",
        ),
        (
            "delete from orders where customer = :customer and id in (select id from orders where total > :id)",
            "it looks at other rows",
        ),
        (
            "delete from orders where customer between 1 and :id and customer = :customer",
            "its WHERE does not say",
        ),
    ] {
        let refused = shards.refused(&format!("exec new.csv @orders --sql '{statement}'"));
        assert!(
            refused.contains("cannot be sent to one database"),
            "{statement}: {refused}"
        );
        assert!(refused.contains(why), "{statement}: {refused}");
    }
    assert_eq!(shards.counts().iter().sum::<u64>(), ROWS + 3);
}

#[test]
fn what_would_mean_something_else_is_refused() {
    let shards = Shards::new();
    shards.orders("orders.csv", 100);
    let load = "load orders.csv @orders -t orders";
    for (arguments, why) in [
        (
            format!("{load} --single-transaction"),
            "no transaction spans the 4 databases",
        ),
        (
            format!("{load} --recreate"),
            "--recreate would have to happen in 4 databases at one moment",
        ),
        (
            "load orders.csv @orders -t others".to_owned(),
            "there is no table others",
        ),
        (format!("{load} --columns id,total"), "customer"),
        (
            format!("{load} --jobs-per-shard 0"),
            "--jobs-per-shard must be at least 1",
        ),
        (
            "load orders.csv {db} -t orders --jobs-per-shard 2".to_owned(),
            "are written to one place",
        ),
        (
            "load orders.csv {db} -t orders --shard-by customer".to_owned(),
            "is the only one named",
        ),
        (
            "load orders.csv {db} {db} -t orders --shard-by customer".to_owned(),
            "is a member twice",
        ),
        (
            "load orders.csv shop.db {db} -t orders --shard-by customer".to_owned(),
            "members are of one kind",
        ),
        (
            "ingest @orders -t orders".to_owned(),
            "a buffer keeps the order of all its rows",
        ),
    ] {
        let refused = shards.refused(&arguments);
        assert!(refused.contains(why), "{arguments}: {refused}");
    }
    for member in &shards.0 {
        member.sql("ALTER TABLE orders ADD UNIQUE (id)");
    }
    let refused = shards.refused(&format!("{load} --mode upsert --key id"));
    assert!(
        refused.contains("rows are sharded by 'customer', which is not in this key"),
        "{refused}"
    );
    let plan = shards.done(&format!("{load} --dry-run -j 2")).stdout;
    assert!(
        plan.contains("the unique key (id) is without 'customer'"),
        "{plan}"
    );
    assert!(plan.contains("2 of them write at a time"), "{plan}");
    assert_eq!(shards.counts(), [0; MEMBERS]);
    let same = "load orders.csv {db} {db}?application_name=other --shard-by customer -t orders";
    let refused = shards.refused(same);
    assert!(refused.contains("are the same database"), "{refused}");

    // Another definition in one of them: the error names it and the column.
    shards.0[2].sql("ALTER TABLE orders ALTER total TYPE numeric(12,2)");
    let refused = shards.refused(load);
    assert!(refused.contains(shards.0[2].name()), "{refused}");
    assert!(
        refused.contains("column 'total' of public.orders is numeric(12,2), and numeric(10,2)"),
        "{refused}"
    );
    shards.0[2].sql("ALTER TABLE orders ALTER total TYPE numeric(10,2)");
    shards.0[3].sql("ALTER TABLE orders DROP note");
    let refused = shards.refused(load);
    assert!(refused.contains("has no column 'note'"), "{refused}");
    shards.0[3].sql("ALTER TABLE orders ADD note text");

    // Rows with a null in the shard key belong nowhere.
    shards.place().write("nulls.csv", "customer,id\n1,1\n,2\n3,3\n");
    let refused = shards.refused("load nulls.csv @orders -t orders");
    assert!(
        refused.contains("nulls.csv row 2, column 'customer'"),
        "{refused}"
    );
    let ran = shards.run("load nulls.csv @orders -t orders --rejects bad.jsonl");
    assert_eq!(ran.code, Some(3), "{}", ran.stderr);
    assert!(shards.place().read("bad.jsonl").contains("23502"));

    // Members in another order would look for rows elsewhere than they are.
    shards.done(load);
    shards.name("orders", &[1, 0, 2, 3]);
    let refused = shards.refused(load);
    assert!(
        refused.contains("rows would be looked for elsewhere than they are"),
        "{refused}"
    );
}

#[test]
fn a_load_that_is_killed_goes_on_where_each_member_stands() {
    for (database, mode) in [
        (Database::Postgres, "insert"),
        (Database::Postgres, "upsert"),
        (Database::MariaDb, "insert"),
        (Database::MariaDb, "upsert"),
        (Database::Sqlite, "insert"),
    ] {
        let shards = Shards::of(database);
        let expected = shards.orders("orders.csv", ROWS);
        let load = format!("load orders.csv @orders -t orders --mode {mode} --batch-rows 20 --resume");
        let mut kills = 0;
        for goal in [1, ROWS / 3, ROWS * 2 / 3] {
            let mut command = tonnage();
            command
                .current_dir(shards.place().path(""))
                .env("HOME", shards.place().path(""))
                .args(load.split(' '))
                .args(["--rate", "600/s"]);
            let mut running = Running::start(&mut command);
            while shards.counts().iter().sum::<u64>() < goal && !running.has_ended() {
                sleep(Duration::from_millis(1));
            }
            kills += u64::from(running.kill().status.code().is_none());
        }
        assert!(kills > 0, "no attempt was killed");
        shards.done(&format!("{load} --jobs-per-shard 2 --report report.json"));
        assert_eq!(shards.rows(), expected, "{database:?} {mode}");
        let told = report(&shards.place().path("report.json"));
        assert_eq!(count(&told, "/rows/read"), ROWS);
        shards.check_ledgers(ROWS);
        let runs = shards.done("runs @orders").stdout;
        assert_eq!(runs.lines().count(), 1, "{runs}");
        assert!(
            runs.contains("finished") && runs.contains("2,000 written"),
            "{runs}"
        );
        // And out again.
        shards.done("unload @orders -t orders -j 3 -o all.csv");
        let all = shards.place().read("all.csv");
        let mut unloaded: Vec<_> = all.lines().skip(1).map(|line| line.replace(',', "|")).collect();
        unloaded.sort();
        assert_eq!(unloaded, expected, "{database:?} {mode}");
        let got = shards
            .done("get @orders '106,1' '1,1' -t orders --missing gone.csv -o -")
            .stdout;
        assert_eq!(got, "customer,id,total,note\n106,1,1.01,note 1\n");
        assert_eq!(shards.place().read("gone.csv"), "customer,id\n1,1\n");
        let found = shards.done("get @orders 106 -t orders -o -").stdout;
        let of_106 = expected.iter().filter(|row| row.starts_with("106|")).count();
        assert_eq!(found.lines().count(), of_106 + 1, "{found}");
    }
}

/// Two tables of one name, each over four databases of the same server, which are given rows of the same content.
#[test]
fn a_table_of_the_same_name_in_other_databases_is_another_table() {
    let table =
        "CREATE TABLE orders (customer bigint NOT NULL, id bigint NOT NULL, PRIMARY KEY (customer, id))";
    let picky = table.replace("PRIMARY KEY", "CHECK (id < 40), PRIMARY KEY");
    let first = Shards::on(Database::MariaDb, &picky);
    let second = Shards::on(Database::MariaDb, table);
    let rows: String = (0..50).map(|id| format!("{},{id}\n", id % 7)).collect();
    for shards in [&first, &second] {
        shards.place().write("orders.csv", format!("customer,id\n{rows}"));
    }
    let load = "load orders.csv @orders -t orders --batch-rows 2";
    first.refused(load);
    assert!(first.counts().iter().sum::<u64>() > 0, "nothing was written");
    assert!(first.refused(load).contains("unfinished"));
    // Neither the unfinished run of the first nor what the other members have of its own is in the second's way.
    let loaded = second.done(load);
    assert!(!loaded.stderr.contains("does not use"), "{}", loaded.stderr);
    second.done(&format!("{load} --resume"));
    assert_eq!(second.counts().iter().sum::<u64>(), 50);
}

#[test]
fn files_can_be_members_too() {
    let place = TestDatabase::new(Database::Sqlite);
    let members = "a.db b.db c.db --shard-by sensor";
    place.write(
        "readings.csv",
        "sensor,at,value\nalpha,1,1.5\nbeta,1,2.5\ngamma,1,3\ndelta,1,4\nalpha,2,5\n",
    );
    let load =
        format!("load readings.csv {members} -t readings --create --key sensor,at --type value=float64");
    let done = |arguments: &str| {
        let ran = place.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments}\n{}", ran.stderr);
        ran
    };
    done(&load);
    let got = done(
        &format!("get {members} alpha -t readings -o -")
            .replace("--shard-by sensor alpha", "alpha --shard-by sensor"),
    );
    assert_eq!(got.stdout, "sensor,at,value\nalpha,1,1.5\nalpha,2,5.0\n");
    done(&format!("load readings.csv {members} -t readings --mode upsert"));
    done(&format!("unload {members} -t readings -o all.csv"));
    let mut rows: Vec<_> = place.read("all.csv").lines().skip(1).map(str::to_owned).collect();
    rows.sort();
    assert_eq!(
        rows,
        [
            "alpha,1,1.5",
            "alpha,2,5.0",
            "beta,1,2.5",
            "delta,1,4.0",
            "gamma,1,3.0"
        ]
    );
    place.write("up.csv", "sensor,more\nalpha,10\nnobody,1\n");
    done(&format!(
        "exec up.csv {members} --type more=float64 --sql 'update readings set value = value + :more where sensor = :sensor'"
    ));
    let got = done("get a.db b.db c.db alpha -t readings --shard-by sensor -o -");
    assert_eq!(got.stdout, "sensor,at,value\nalpha,1,11.5\nalpha,2,15.0\n");
}

#[test]
fn it_is_measured_as_one_and_left_as_it_was() {
    let shards = Shards::new();
    shards.place().write(
        "targets.toml",
        shards.place().read("targets.toml").replace("customer", "id"),
    );
    let bench = "bench @orders --rows 400 --duration 10m --repeat 1 --batch-rows 50 --jobs 4 --method array,native --yes";
    let ran = shards.done(&format!(
        "{bench} --operation insert,delete --indexes 2 --reads 0,50 --report -"
    ));
    let report: serde_json::Value = serde_json::from_str(&ran.stdout_exact).expect("JSON");
    let cells = report["cells"].as_array().expect("cells");
    // A delete leaves nothing to be read.
    assert_eq!(cells.len(), 6, "{report:#}");
    assert_eq!(report["databases"], MEMBERS as u64);
    for cell in cells {
        assert_eq!(cell["runs"][0]["rows"], 400, "{cell}");
        if cell["setting"]["reads"] == 50 {
            let reads = &cell["runs"][0]["reads"];
            assert_eq!(
                (&reads["keys"], &reads["rows"]),
                (&400.into(), &400.into()),
                "{cell}"
            );
        }
        assert_eq!(cell["setting"]["table"]["indexes"], 2, "{cell}");
        assert!(cell["runs"][0]["disk_bytes"].as_u64() > Some(0), "{cell}");
        assert!(cell["runs"][0]["log_bytes"].is_null(), "{cell}");
        assert!(cell["runs"][0]["server_cpu_seconds"].is_number(), "{report:#}");
        assert!(cell["runs"][0]["log_flushes"].is_null(), "{cell}");
        assert_eq!(cell["write_path"]["taken"], "unknown", "{cell}");
    }
    let left = "SELECT count(*) FROM pg_class WHERE relname LIKE 'tonnage\\_bench%'";
    assert_eq!(shards.each(left), ["0"; MEMBERS]);
    for (line, told) in [
        (
            "bench @orders --rtt 1ms --yes",
            "several databases are reached by as many ways",
        ),
        (
            "bench @orders --keys generated --yes",
            "rows go to the database that their key says",
        ),
        (
            "bench @orders --page-size 8k --yes",
            "the page size of a PostgreSQL server is chosen when it is built",
        ),
        (
            "explain @orders orders --yes",
            "look at one of them, by its own name",
        ),
    ] {
        assert!(
            shards.refused(line).contains(told),
            "{line}: {}",
            shards.refused(line)
        );
    }
}
