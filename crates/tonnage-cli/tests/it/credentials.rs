//! A password stands nowhere but where its owner wrote it: not in what is said, at any level, not in reports, rejects,
//! journals, ledgers and what is unloaded, and not among the arguments that every user of the machine can read.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use crate::{
    comforts::on_terminal,
    process::tonnage,
    support::{Database, Ran, TestDatabase},
};

const DATABASES: &[Database] = &[Database::Postgres, Database::MariaDb];

/// With all that has a meaning in URLs, in shells and in files of passwords, and so that any part of it is found.
const PASSWORD: &str = "Zwiebel/Geheim?Kohl#Lauch&Rettich=Dill@Kresse:Minze%41";
/// As a URL has it.
const ENCODED: &str = "Zwiebel%2FGeheim%3FKohl%23Lauch%26Rettich%3DDill%40Kresse%3AMinze%2541";
const PARTS: [&str; 8] = [
    "Zwiebel", "Geheim", "Kohl", "Lauch", "Rettich", "Dill", "Kresse", "Minze",
];

/// The places of a test that hold the password because it was written there.
const OWN: [&str; 4] = ["targets.toml", "secret", "pgpass", "my.cnf"];

const ORDERS: &str = "id,name\n1,a\n2,b\nx,c\n";

#[track_caller]
fn check(text: &str, what: &str) {
    if let Some(part) = PARTS.iter().find(|part| text.contains(**part)) {
        panic!("{what} holds '{part}' of the password:\n{text}");
    }
}

#[track_caller]
fn check_ran(ran: &Ran, what: &str) {
    check(&ran.stdout_exact, what);
    check(&ran.stderr, what);
}

/// Every file in a directory and below, but for the test's own.
fn check_files(directory: &Path) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        check(&name, "the name of a file");
        if path.is_dir() {
            check_files(&path);
        } else if !OWN.contains(&name.as_str()) {
            let bytes = fs::read(&path).expect("a file");
            check(&String::from_utf8_lossy(&bytes), &path.display().to_string());
        }
    }
}

/// A place, and an account of its database that has the password.
struct Account {
    place: TestDatabase,
    user: String,
    scheme: &'static str,
    /// `host:port/database`.
    at: String,
}

impl Account {
    fn new(database: Database) -> Self {
        let place = TestDatabase::new(database);
        let user = format!("cook_{}", place.name());
        let url = place.url();
        let (_, at) = url.rsplit_once('@').expect("a URL with a user");
        let at = at.to_owned();
        let scheme = if database == Database::Postgres {
            "postgresql"
        } else {
            "mariadb"
        };
        match database {
            Database::Postgres => {
                place.sql(&format!(
                    "CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'; GRANT ALL ON SCHEMA public TO {user}"
                ));
                // It makes schemas of its own.
                place.sql(&format!("GRANT ALL ON DATABASE {} TO {user}", place.name()));
            }
            _ => {
                place.sql(&format!("CREATE USER {user} IDENTIFIED BY '{PASSWORD}'"));
                place.sql(&format!("GRANT ALL ON {}.* TO {user}", place.name()));
            }
        }
        place.write("orders.csv", ORDERS);
        Self {
            place,
            user,
            scheme,
            at,
        }
    }

    /// A URL with `login` before the `@`.
    fn url(&self, login: &str) -> String {
        format!("{}://{login}@{}", self.scheme, self.at)
    }

    fn bare(&self) -> String {
        self.url(&self.user)
    }

    fn with_password(&self) -> String {
        self.url(&format!("{}:{ENCODED}", self.user))
    }

    /// Writes a file that only its owner reads.
    fn secret(&self, name: &str, text: &str) {
        self.place.write(name, text);
        fs::set_permissions(self.place.path(name), fs::Permissions::from_mode(0o600)).expect("it is ours");
    }

    fn is_postgres(&self) -> bool {
        self.place.database == Database::Postgres
    }

    /// The ledger, as text.
    fn check_ledger(&self) {
        for table in ["tonnage_runs", "tonnage_slots", "tonnage_inputs"] {
            let rows = match self.is_postgres() {
                true => self.place.sql(&format!("SELECT t::text FROM {table} t")),
                false => {
                    let columns = self.place.sql(&format!(
                        "SELECT column_name FROM information_schema.columns WHERE table_name = '{table}' \
                         AND table_schema = database()"
                    ));
                    let texts: Vec<_> = columns
                        .iter()
                        .map(|name| format!("hex({name}), {name}"))
                        .collect();
                    self.place
                        .sql(&format!("SELECT {} FROM {table}", texts.join(", ")))
                }
            };
            // Slots of runs that are finished are gone.
            assert!(table == "tonnage_slots" || !rows.is_empty(), "{table} has rows");
            check(&rows.join("\n"), table);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        match self.is_postgres() {
            true => self
                .place
                .sql(&format!("DROP OWNED BY {0} CASCADE; DROP ROLE {0}", self.user)),
            false => self.place.sql(&format!("DROP USER {}", self.user)),
        };
    }
}

#[test]
fn no_command_leaves_the_password_anywhere() {
    for database in DATABASES {
        let account = Account::new(*database);
        let (place, url) = (&account.place, account.with_password());
        let expect = |code: i32, arguments: &str, input: &str| {
            let ran = place.run_with(&format!("{arguments} -vv"), &[], input.as_bytes());
            check_ran(&ran, arguments);
            assert_eq!(ran.code, Some(code), "{arguments}\n{}", ran.stderr);
        };
        let load = format!("load orders.csv '{url}' -t orders");
        let create = "--create --type id=int64 --key id";
        expect(0, &format!("{load} {create} --dry-run"), "");
        expect(
            3,
            &format!("{load} {create} --rejects r.jsonl --report load.json"),
            "",
        );
        // Without rejects the bad row ends it, and what is there does the next time.
        expect(1, &format!("{load} --report failed.json"), "");
        expect(0, &format!("runs '{url}'"), "");
        expect(
            3,
            &format!("{load} --restart --mode upsert --rejects again.jsonl"),
            "",
        );
        expect(
            3,
            &format!(
                "exec orders.csv '{url}' --sql 'UPDATE orders SET name = :name WHERE id = :id' --rejects e.jsonl"
            ),
            "",
        );
        expect(
            0,
            &format!("get '{url}' 1 2 -t orders -o got.csv --report get.json"),
            "",
        );
        expect(
            0,
            &format!("unload '{url}' -t orders -o out.csv --report unload.json"),
            "",
        );
        expect(
            0,
            &format!("load '{url}' copy.db --source-table orders -t orders --create"),
            "",
        );
        expect(
            0,
            &format!("load out.csv '{url}' -t other --create --report other.json"),
            "",
        );
        expect(
            0,
            &format!("load '{url}' '{url}' --source-table orders -t third --create"),
            "",
        );
        let rows = "{\"id\":7,\"name\":\"g\"}\n{\"id\":\"x\"}\n";
        expect(
            3,
            &format!("ingest '{url}' -t orders --journal journal --ack committed --rejects i.jsonl"),
            rows,
        );
        expect(
            0,
            &format!("explain '{url}' orders --rows 20 --batch-rows 10 --yes --report explain.json"),
            "",
        );
        let bench = "--rows 50 --duration 10m --repeat 1 --method batch --batch-rows 10 -j 1 --yes -o bench";
        expect(0, &format!("bench '{url}' {bench} --with-ledger"), "");
        expect(0, &format!("targets '{url}'"), "");
        for written in [
            "r.jsonl",
            "load.json",
            "got.csv",
            "explain.json",
            "bench/report.html",
            "journal",
        ] {
            assert!(place.path(written).exists(), "{written} was written");
        }
        check_files(&place.path("."));
        account.check_ledger();
    }
}

#[test]
fn wherever_the_password_comes_from_it_stays_there() {
    for database in DATABASES {
        let account = Account::new(*database);
        let (place, bare) = (&account.place, account.bare());
        let variable = if account.is_postgres() {
            "PGPASSWORD"
        } else {
            "MYSQL_PWD"
        };
        let (server, name) = account.at.split_once('/').expect("a database");
        let (host, port) = server.split_once(':').expect("a port");
        account.secret("secret", &format!("{PASSWORD}\n"));
        account.secret(
            "targets.toml",
            &format!(
                "[whole]\nurl = \"{}\"\n[variable]\nurl = \"{bare}\"\npassword_env = \"COOK\"\n\
                 [file]\nurl = \"{bare}\"\npassword_file = \"secret\"\n",
                account.with_password()
            ),
        );
        let escaped = PASSWORD.replace('\\', "\\\\").replace(':', "\\:");
        account.secret(
            "pgpass",
            &format!("{host}:{port}:{name}:{}:{escaped}\n", account.user),
        );
        account.secret("my.cnf", &format!("[client]\npassword = \"{PASSWORD}\"\n"));
        let by_file = match account.is_postgres() {
            true => format!("{bare}?passfile={{directory}}/pgpass"),
            false => format!("{bare}?defaults-file={{directory}}/my.cnf"),
        };
        let mut ways: Vec<(String, Vec<(&str, &str)>)> = vec![
            (bare.clone(), vec![(variable, PASSWORD)]),
            ("@whole".to_owned(), Vec::new()),
            ("@variable".to_owned(), vec![("COOK", PASSWORD)]),
            ("@file".to_owned(), Vec::new()),
            (by_file, Vec::new()),
        ];
        let option = format!("{bare}?password={ENCODED}");
        ways.push((option, Vec::new()));
        if account.is_postgres() {
            let words = format!(
                "host={host} port={port} user={} dbname={name} password={PASSWORD}",
                account.user
            );
            ways.push((words, Vec::new()));
        }
        for (target, environment) in &ways {
            let load = format!("load orders.csv '{target}' -t orders --create --type id=int64 --restart");
            for (arguments, code) in [
                (format!("{load} --on-error reject --report report.json -vv"), 3),
                (format!("runs '{target}' -vv"), 0),
                (format!("{load} --dry-run --columns none -vv"), 1),
            ] {
                let ran = place.run_with(&arguments, environment, b"");
                check_ran(&ran, &arguments);
                assert_eq!(ran.code, Some(code), "{arguments}\n{}", ran.stderr);
            }
        }
        let arguments = format!("load orders.csv {bare} -t orders --rejects t.jsonl --ask-password -vv");
        let (code, shown) = on_terminal(place, &arguments, &format!("{PASSWORD}\n"));
        check(&shown, "the terminal");
        assert_eq!(code, Some(3), "{shown}");
        check_files(&place.path("."));
        account.check_ledger();
    }
}

#[test]
fn what_is_refused_is_refused_without_the_password() {
    for database in DATABASES {
        let account = Account::new(*database);
        let place = &account.place;
        let (scheme, user, at) = (account.scheme, &account.user, &account.at);
        let (_, name) = at.split_once('/').expect("a database");
        let good = account.with_password();
        let short = "Zwiebel";
        let urls = [
            // Not let in, or nobody there.
            account.url(&format!("{user}:{ENCODED}x")),
            account.url(&format!("nobody:{ENCODED}")),
            format!("{scheme}://{user}:{ENCODED}@127.0.0.1:1/{name}"),
            format!("{scheme}://{user}:{ENCODED}@nowhere.invalid/{name}?connect_timeout=1"),
            format!("{good}_missing"),
            // Options that are wrong.
            format!("{good}?sslmode=nonsense"),
            format!("{good}?nonsense=1"),
            format!("{good}?nonsense"),
            format!("{good}?connect_timeout=long"),
            format!("{good}?pasword={ENCODED}"),
            format!("{}?passwd={ENCODED}", account.bare()),
            // URLs that are none.
            format!("{scheme}://{user}:{PASSWORD}@{at}"),
            format!("{scheme}://{user}:{short}/@{at}"),
            format!("{scheme}://{user}:{short}?@{at}"),
            format!("{scheme}://{user}:{short}?a=b@{at}"),
            format!("{scheme}://{user}:{ENCODED}@[::1/{name}"),
            format!("{scheme}://{user}:{ENCODED}@{name}:port/{name}"),
            format!("{scheme}:/{user}:{ENCODED}@{at}"),
            format!("{scheme}:{user}:{ENCODED}@{at}"),
            format!("{scheme}x://{user}:{ENCODED}@{at}"),
            format!("{user}:{ENCODED}@{at}"),
            format!("{user}:{PASSWORD}@{at}"),
            format!("//{user}:{PASSWORD}@{at}"),
            format!("hots=localhost passwd={PASSWORD}"),
            format!("host=localhost passwd={PASSWORD}"),
            format!("host=localhost password='{PASSWORD}").replace('\'', "\\"),
            format!("host=localhost {PASSWORD}"),
        ];
        for url in &urls {
            for arguments in [
                format!("load orders.csv '{url}' -t orders -vv"),
                format!("runs '{url}' -vv"),
                format!("get '{url}' 1 -t orders -vv"),
                format!("load '{url}' copy.db --source-table orders -t orders -vv"),
                format!("load orders.csv '{url}' '{url}' -t orders --shard-by id -vv"),
            ] {
                let ran = place.run(&arguments);
                check_ran(&ran, &arguments);
                assert!(matches!(ran.code, Some(1 | 2)), "{arguments}\n{}", ran.stderr);
            }
        }
        // Where no database belongs.
        for arguments in [
            format!("targets '{good}' '{good}'"),
            format!("ingest '{good}' '{good}' -t orders"),
            format!("load orders.csv x.db -t orders --rate '{good}'"),
            format!("load orders.csv x.db -t orders --rate='{good}'"),
            format!("load orders.csv x.db -t '{good}'"),
            format!("load orders.csv x.db -t orders --report '{good}'"),
            format!("'{good}'"),
            format!("load '{good}' -t orders"),
            format!("load '{good}' orders.csv -t orders"),
        ] {
            let ran = place.run(&arguments);
            check_ran(&ran, &arguments);
            assert_ne!(ran.code, Some(0), "{arguments}\n{}", ran.stderr);
        }
        // A file of names that cannot be read as one, and one that others may read.
        for text in [
            format!("[shop]\nurl = \"{good}\n"),
            format!("[shop\nurl = \"{good}\"\n"),
            format!("[shop]\nurl = {good}\n"),
            format!("[shop]\npassword = \"{PASSWORD}\"\n"),
            format!("[shop]\nurl = \"{scheme}://{user}:{PASSWORD}@{at}\"\n"),
        ] {
            account.secret("targets.toml", &text);
            let ran = place.run("runs @shop -vv");
            check_ran(&ran, &text.replace(ENCODED, "..").replace(PASSWORD, ".."));
            assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        }
        place.write("targets.toml", format!("[shop]\nurl = \"{good}\"\n"));
        fs::set_permissions(place.path("targets.toml"), fs::Permissions::from_mode(0o644))
            .expect("it is ours");
        let ran = place.run("runs @shop -vv");
        check_ran(&ran, "a file that others may read");
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    }
}

/// The arguments of a process, as everybody sees them.
fn seen(process: u32) -> String {
    let bytes = fs::read(format!("/proc/{process}/cmdline")).expect("the process runs");
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

#[test]
fn nobody_sees_the_password_among_the_arguments() {
    for database in DATABASES {
        let account = Account::new(*database);
        let url = account.with_password();
        let mut ways = vec![(url.clone(), "***")];
        if account.is_postgres() {
            let (server, name) = account.at.split_once('/').expect("a database");
            let (host, port) = server.split_once(':').expect("a port");
            let user = &account.user;
            let words = format!("host={host} port={port} user={user} dbname={name} password={PASSWORD}");
            ways.push((words, "password=***"));
        }
        for (target, shown) in ways {
            let mut command: Command = tonnage();
            // Without an end of its input it goes on for as long as it is looked at.
            let mut child = command
                .args([
                    "load",
                    "-",
                    &target,
                    "-t",
                    "orders",
                    "--create",
                    "--progress",
                    "none",
                ])
                .current_dir(account.place.path("."))
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the program starts");
            let mut arguments = seen(child.id());
            // For a moment of its change it has none.
            while arguments.is_empty() || PARTS.iter().any(|part| arguments.contains(part)) {
                assert!(
                    child.try_wait().expect("it can be asked").is_none(),
                    "it ended: {arguments}"
                );
                sleep(Duration::from_millis(1));
                arguments = seen(child.id());
            }
            assert!(
                arguments.contains(shown) && arguments.contains("orders"),
                "{arguments}"
            );
            assert!(
                arguments.starts_with(&*tonnage().get_program().to_string_lossy()),
                "{arguments}"
            );
            let name = fs::read_to_string(format!("/proc/{}/comm", child.id())).expect("it runs");
            assert_eq!(name.trim_end(), "tonnage");
            child.kill().expect("it can be killed");
            child.wait().expect("it ends");
        }
    }
}
