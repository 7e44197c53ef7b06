//! Objects as sources.

use std::time::Duration;

use super::{
    assert_same, done,
    faulty::{Fault, Faulty, Rule},
    run, sbtest,
    stores::{Bucket, KEY, SECRET},
};
use crate::{
    database,
    events::{Chance, Events, Mode, Size},
    process::Running,
    support::{Database, TestDatabase},
};

/// What files of the same rows are called, by format.
pub const FILES: [&str; 6] = [
    "r.csv",
    "r.csv.gz",
    "r.jsonl",
    "r.jsonl.zst",
    "r.parquet",
    "r.arrow",
];

#[test]
fn every_format_comes_from_every_store_and_goes_there() {
    let place = sbtest(20_000);
    for bucket in Bucket::everywhere() {
        for (at, file) in FILES.iter().enumerate() {
            let url = bucket.url(&format!("in/{file}"));
            done(&place, &bucket, &format!("unload {{db}} -t sbtest -o {url}"));
            let table = format!("t{at}");
            let load = format!("load {url} {{db}} -t {table} --create=replace --key id --method array");
            done(&place, &bucket, &load);
            assert_same(&place, &table);
        }
        assert_eq!(bucket.uploads(), 0, "nothing is left of the uploads");
        let keys = bucket.keys();
        assert!(
            FILES.iter().all(|file| keys.contains(&format!("in/{file}"))),
            "{keys:?}"
        );
    }
}

#[test]
fn prefixes_and_globs_name_objects_in_the_order_of_their_keys() {
    for bucket in Bucket::everywhere() {
        let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
        for (key, row) in [
            ("p/b.csv", "b"),
            ("p/a.csv", "a"),
            ("p/.hidden.csv", "hidden"),
            ("p/_manifest.json", "manifest"),
            ("p/notes.md", "notes"),
            ("p/deep/c.csv", "c"),
            ("p/a.tsv", "t"),
            ("q/d.csv", "d"),
        ] {
            bucket.put(key, format!("a\n{row}\n"));
        }
        let loaded = |input: &str, expected: &str| {
            let ran = run(
                &place,
                &bucket,
                &format!("load '{}' {{db}} -t t --format csv", bucket.url(input)),
            );
            assert_eq!(ran.code, Some(0), "{input}: {}", ran.stderr);
            let rows = place.sql("SELECT a FROM t ORDER BY rowid; DELETE FROM t");
            assert_eq!(rows.concat(), expected, "{input}");
        };
        loaded("p/", "atb");
        loaded("p/*.csv", "ab");
        loaded("p/**/*.csv", "abc");
        loaded("**/[cd].csv", "cd");
        loaded("?/a.csv", "a");
        for (input, error, hint) in [
            (
                "none/",
                "no object directly behind it can be read",
                "names must tell their formats",
            ),
            ("p/x*.csv", "no object matches", "* does not cross a slash"),
            ("p/a.cvs", "there is no such object", "did you mean"),
            ("p", "there is no such object", "it is a prefix"),
        ] {
            if input == "p" && bucket.is_directory() {
                continue;
            }
            let ran = run(
                &place,
                &bucket,
                &format!("load '{}' {{db}} -t t", bucket.url(input)),
            );
            assert_eq!(ran.code, Some(1), "{input}: {}", ran.stderr);
            assert!(
                ran.stderr.contains(error) && ran.stderr.contains(hint),
                "{input}: {}",
                ran.stderr
            );
        }
    }
}

/// What servers and networks do, and what of a load goes on all the same.
pub const PASSING: &[(&str, usize, usize, Fault)] = &[
    (
        "an error of the server",
        1,
        3,
        Fault::Status(500, "<Error><Code>InternalError</Code></Error>"),
    ),
    (
        "too many requests",
        0,
        3,
        Fault::Status(503, "<Error><Code>SlowDown</Code></Error>"),
    ),
    ("a cut body", 0, 4, Fault::Cut(70_000)),
    ("a connection that breaks before an answer", 1, 2, Fault::Unheard),
    ("a body that is too short", 1, 2, Fault::Short(10_000)),
    (
        "slow bytes",
        0,
        2,
        Fault::Slow(32 << 10, Duration::from_millis(20)),
    ),
];

#[test]
fn what_goes_wrong_for_a_while_costs_no_row() {
    let place = sbtest(30_000);
    for bucket in Bucket::everywhere() {
        let proxy = Faulty::before(&bucket.endpoint);
        for file in ["r.csv", "r.csv.gz", "r.parquet", "r.arrow"] {
            let url = bucket.url(file);
            done(&place, &bucket, &format!("unload {{db}} -t sbtest -o {url}"));
            let load = format!("load {url} {{db}} -t t --create=replace --key id");
            let by = bucket.environment_by(&proxy.url);
            // A store that is far away.
            proxy.delay(Duration::from_millis(70));
            let ran = place.run_with(&load, &by, b"");
            assert_eq!(ran.code, Some(0), "{file}: {}", ran.stderr);
            assert_same(&place, "t");
            proxy.delay(Duration::ZERO);
            for (what, after, times, fault) in PASSING {
                let part = if file == "r.csv" { "GET /r.csv" } else { "GET /r." };
                proxy.set(&[Rule {
                    part,
                    after: *after,
                    times: *times,
                    fault: fault.clone(),
                }]);
                let ran = place.run_with(&load, &by, b"");
                assert_eq!(ran.code, Some(0), "{file}, {what}: {}", ran.stderr);
                assert!(proxy.left() < *times, "{file}: {what} did not come about");
                assert_same(&place, "t");
            }
        }
    }
}

#[test]
fn an_object_that_changes_ends_the_load_and_never_mixes_versions() {
    let place = sbtest(60_000);
    for bucket in Bucket::everywhere() {
        let proxy = Faulty::before(&bucket.endpoint);
        for file in ["r.csv", "r.parquet", "r.arrow", "r.csv.gz"] {
            let url = bucket.url(file);
            done(&place, &bucket, &format!("unload {{db}} -t sbtest -o {url}"));
            // It is found by two requests, for either of its ends.
            proxy.set(&[Rule {
                part: "GET",
                after: 2,
                times: 1_000,
                fault: Fault::Etag("\"another\""),
            }]);
            let load = format!("load {url} {{db}} -t t --create=replace --key id --batch-rows 1000");
            let ran = place.run_with(&load, &bucket.environment_by(&proxy.url), b"");
            assert_eq!(ran.code, Some(1), "{file}: {}", ran.stderr);
            assert!(ran.stderr.contains("has changed"), "{file}: {}", ran.stderr);
            assert!(ran.stderr.contains("hint: "), "{file}: {}", ran.stderr);
        }
        // And where the store itself has another one.
        let url = bucket.url("r.csv");
        let text = bucket.get("r.csv").expect("the object");
        // It has been found, and is being read: what is asked for next waits for the other one.
        proxy.set(&[Rule {
            part: "GET",
            after: 3,
            times: 1_000,
            fault: Fault::Held,
        }]);
        let mut command = crate::process::tonnage();
        command
            .current_dir(place.path("."))
            .envs(bucket.environment_by(&proxy.url));
        command.args(["load", &url, "shop.db", "-t", "t", "--create=replace"]);
        let running = Running::start(&mut command);
        while proxy.left() == 1_000 {
            std::thread::sleep(Duration::from_millis(5));
        }
        bucket.put("r.csv", [text.as_slice(), b"1,1,x,y\n"].concat());
        proxy.release();
        let ended = running.wait();
        ended.expect(1);
        assert!(ended.stderr.contains("has changed"), "{}", ended.stderr);
    }
}

#[test]
fn what_a_store_refuses_is_said_with_what_to_do() {
    let bucket = Bucket::of_s3s();
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    bucket.put("r.csv", "a\n1\n");
    let url = bucket.url("r.csv");
    let load = format!("load {url} {{db}} -t t");
    let with = |name: &'static str, value: &'static str| {
        let mut environment = bucket.environment();
        environment.retain(|(known, _)| *known != name);
        environment.push((name, value));
        place.run_with(&load, &environment, b"")
    };
    let proxy = Faulty::before(&bucket.endpoint);
    let answered = |status: u16, text: &'static str| {
        proxy.set(&[Rule {
            part: "/r.csv",
            after: 0,
            times: 1_000,
            fault: Fault::Status(status, text),
        }]);
        place.run_with(&load, &bucket.environment_by(&proxy.url), b"")
    };
    let https = crate::database::variable("TONNAGE_TEST_HTTPS_URL");
    let by_https = place.run_with(&load, &bucket.environment_by(&https), b"");
    let none = place.run_with(
        "load s3://none-of-that/r.csv {db} -t t",
        &bucket.environment(),
        b"",
    );
    for (ran, error, hint) in [
        (none, "there is no such bucket", "AWS_ENDPOINT_URL"),
        (by_https, "certificate is not accepted", "SSL_CERT_FILE"),
        (
            with("AWS_SECRET_ACCESS_KEY", "wrong"),
            "the secret key does not belong to the access key",
            "AWS_SECRET_ACCESS_KEY",
        ),
        (
            with("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
            "nobody listens",
            "AWS_ENDPOINT_URL",
        ),
        (
            answered(
                403,
                "<Error><Code>AccessDenied</Code><Message>no</Message></Error>",
            ),
            "access is denied",
            "listing the bucket",
        ),
        (
            answered(
                400,
                "<Error><Code>ExpiredToken</Code><Message>old</Message></Error>",
            ),
            "the session's token has expired",
            "AWS_SESSION_TOKEN",
        ),
        (
            answered(
                403,
                "<Error><Code>RequestTimeTooSkewed</Code><Message>late</Message></Error>",
            ),
            "clock differs",
            "set the clock",
        ),
        (
            answered(
                301,
                "<Error><Code>PermanentRedirect</Code><Region>eu-west-1</Region></Error>",
            ),
            "another region",
            "AWS_REGION",
        ),
        (
            answered(
                400,
                "<Error><Code>AuthorizationHeaderMalformed</Code><Message>expecting 'eu-west-1'</Message></Error>",
            ),
            "another region",
            "AWS_REGION",
        ),
        (
            answered(
                503,
                "<Error><Code>SlowDown</Code><Message>slowly</Message></Error>",
            ),
            "asks to be asked less often, also after all pauses",
            "fewer files",
        ),
    ] {
        assert_eq!(ran.code, Some(1), "{error}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(error) && ran.stderr.contains("hint: "),
            "{error}: {}",
            ran.stderr
        );
        assert!(ran.stderr.contains(hint), "{hint}: {}", ran.stderr);
        for secret in [KEY, SECRET] {
            assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
        }
    }
    // The last of them was asked for again and again before it was given up.
    assert!(proxy.requests().len() > 4, "{:?}", proxy.requests());
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"]);
}

#[test]
fn mistakes_in_urls_and_endpoints_are_said_with_what_to_do() {
    let bucket = Bucket::of_moto();
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    bucket.put("r.csv", "a\n1\n");
    let url = bucket.url("r.csv");
    let host = bucket.endpoint.trim_start_matches("http://");
    let tls = format!("https://{host}");
    let s3 = |endpoint: &str| {
        place.run_with(
            &format!("load {url} {{db}} -t t"),
            &bucket.environment_by(endpoint),
            b"",
        )
    };
    let load = |input: &str, variables: &[(&str, &str)]| {
        place.run_with(&format!("load '{input}' {{db}} -t t"), variables, b"")
    };
    let azure = [
        ("AZURE_STORAGE_ACCOUNT", "a"),
        ("AZURE_STORAGE_KEY", "a2V5"),
        ("AZURE_ENDPOINT", host),
    ];
    let unloaded = place.run("unload {db} -t t -o hdfs://h/r.csv");
    for (ran, code, error, hint) in [
        (
            s3(host),
            2,
            "is no URL of a server",
            "begins with https:// or http://",
        ),
        (
            load("az://c/r.csv", &azure),
            2,
            "is no URL of a server",
            "begins with https:// or http://",
        ),
        (
            s3(&tls),
            1,
            "does not speak TLS",
            "http:// in the URL or in AWS_ENDPOINT_URL",
        ),
        (
            load("s3:/lake/r.csv", &[]),
            2,
            "is no place with files",
            "did you mean s3://lake/r.csv?",
        ),
        (
            load("hdfs://h/r.csv", &[]),
            2,
            "is no place with files",
            "s3://, gs://, az://",
        ),
        (
            load("@lake/r.csv", &[]),
            2,
            "no store @lake in targets.toml",
            "a section [lake]",
        ),
        (unloaded, 2, "is no place with files", "s3://, gs://, az://"),
    ] {
        assert_eq!(ran.code, Some(code), "{error}: {}", ran.stderr);
        let says = ran.stderr.contains(error) && ran.stderr.contains("hint: ") && ran.stderr.contains(hint);
        assert!(says, "{error}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    }
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["0"]);
}

/// Whether a part begins there in which an object is read from its beginning.
fn is_part(start: u64) -> bool {
    let large = start.checked_sub(1280 << 10);
    [0, 256 << 10].contains(&start) || large.is_some_and(|large| large.is_multiple_of(4 << 20))
}

#[test]
fn a_load_goes_on_elsewhere_from_where_it_was_stopped() {
    for bucket in Bucket::everywhere() {
        let place = sbtest(100_000);
        let proxy = Faulty::before(&bucket.endpoint);
        let environment = bucket.environment_by(&proxy.url);
        for (at, file) in ["r.csv", "r.parquet", "r.arrow", "r.csv.gz"]
            .into_iter()
            .enumerate()
        {
            let url = bucket.url(file);
            done(&place, &bucket, &format!("unload {{db}} -t sbtest -o {url}"));
            let table = format!("t{at}");
            place.sql(&format!("CREATE TABLE {table} AS SELECT * FROM sbtest LIMIT 0"));
            let load = format!("load {url} shop.db -t {table} --batch-rows 500 --resume");
            let mut command = crate::process::tonnage();
            command.current_dir(place.path(".")).envs(environment.clone());
            command.args(load.split(' ')).args(["--rate", "80k/s"]);
            let running = Running::start(&mut command);
            let count = || {
                place.sql(&format!("SELECT count(*) FROM {table}"))[0]
                    .parse::<u64>()
                    .expect("a number")
            };
            while count() < 80_000 {
                std::thread::sleep(Duration::from_millis(5));
            }
            drop(running.kill());
            assert!(count() < 100_000, "{file}: it was killed in the middle");
            proxy.set(&[]);
            let ran = place.run_with(&load, &environment, b"");
            assert_eq!(ran.code, Some(0), "{file}: {}", ran.stderr);
            assert_same(&place, &table);
            // What can be gone on within is not read from its beginning, where the store has a name for the version.
            if file == "r.csv" && !bucket.is_directory() {
                let starts = proxy.starts_asked(file);
                assert!(starts.iter().any(|start| !is_part(*start)), "{starts:?}");
            }
            // One more time there is nothing to do.
            let ran = place.run_with(&load, &environment, b"");
            assert!(ran.code == Some(0), "{file}: {}", ran.stderr);
            assert_same(&place, &table);
        }
        // Another object under the name is not gone on with.
        let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
        bucket.put("one.csv", "a\n1\n");
        let load = format!("load {} {{db}} -t t --resume", bucket.url("one.csv"));
        done(&place, &bucket, &load);
        bucket.put("one.csv", "a\n2\n");
        let ran = run(&place, &bucket, &load);
        assert!(matches!(ran.code, Some(1 | 2)), "{}", ran.stderr);
        assert_eq!(place.sql("SELECT a FROM t"), ["1"]);
    }
}

#[test]
fn kills_with_resume_from_a_store_lose_and_double_nothing() {
    let rounds = std::env::var("TONNAGE_FAULT_ROUNDS")
        .ok()
        .and_then(|asked| asked.parse().ok())
        .unwrap_or(6);
    for database in [database::Database::sqlite(), database::Database::postgres()] {
        let bucket = Bucket::of_s3s();
        let mut chance = Chance::new();
        let size = Size {
            files: 6,
            rows_each: 3_000,
        };
        let mut events = Events::generate(Mode::Insert, size, &mut chance);
        events.bring(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            bucket.put(&name, std::fs::read(path).expect("a file"));
            bucket.url(&name)
        });
        events.prepare(&database);
        // So slow that the last kill comes before the end.
        let rate = format!("{}/s", events.rows * 3 / rounds);
        for kill in 0..rounds {
            let mut command = events.load(&database.url());
            command.envs(bucket.environment());
            command.args(["--resume", "--batch-rows", "50", "--rate", &rate]);
            let running = Running::start(&mut command);
            std::thread::sleep(Duration::from_micros(60_000 + chance.below(200_000)));
            let ended = running.kill();
            assert_eq!(
                ended.status.code(),
                None,
                "kill {kill} came too late: {}",
                ended.stderr
            );
        }
        let mut command = events.load(&database.url());
        command.envs(bucket.environment()).arg("--resume");
        Running::start(&mut command).wait().expect(3);
        events.check(&database);
    }
}

#[test]
fn what_was_looked_at_is_not_asked_for_again() {
    let place = sbtest(20_000);
    place.sql("CREATE TABLE t AS SELECT * FROM sbtest LIMIT 0");
    // The other store has no names for versions, so that nothing of it can be kept.
    let bucket = Bucket::of_moto();
    let proxy = Faulty::before(&bucket.endpoint);
    let asked_of = |input: &str, rows: usize| {
        proxy.set(&[]);
        let load = format!("load '{}' {{db}} -t t --truncate", bucket.url(input));
        let ran = place.run_with(&load, &bucket.environment_by(&proxy.url), b"");
        assert_eq!(ran.code, Some(0), "{input}: {}", ran.stderr);
        assert_eq!(place.sql("SELECT count(*) FROM t"), [rows.to_string()]);
        let requests = proxy.requests().into_iter();
        requests.filter(|line| line.starts_with("GET") && line.contains(" bytes="))
    };
    for file in ["r.csv", "r.parquet", "r.arrow"] {
        done(
            &place,
            &bucket,
            &format!("unload {{db}} -t sbtest -o {}", bucket.url(file)),
        );
        let bytes = bucket.get(file).expect("the object").len() as u64;
        let asked: Vec<String> = asked_of(file, 20_000).collect();
        let mut starts = proxy.starts_asked(file);
        starts.sort_unstable();
        assert!(starts.windows(2).all(|two| two[0] < two[1]), "{file}: {asked:?}");
        // The end came with the beginning.
        assert!(
            starts.iter().all(|start| *start < bytes - (64 << 10)),
            "{file}: {asked:?}"
        );
        let ends = asked.iter().filter(|line| line.ends_with("bytes=-65536"));
        assert_eq!(ends.count(), 1, "{file}: {asked:?}");
    }
    for number in 0..20 {
        bucket.put(
            &format!("p/{number:02}.csv"),
            format!("id,k,c,pad\n{number},1,a,b\n"),
        );
    }
    let asked: Vec<String> = asked_of("p/*.csv", 20).collect();
    assert_eq!(
        asked.len(),
        20,
        "each of many objects is asked for once: {asked:?}"
    );
}
