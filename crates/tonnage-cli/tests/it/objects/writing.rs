//! Objects as outputs: all of them or none, and nothing left that costs money.

use std::time::{Duration, Instant};

use super::{
    done,
    faulty::{Fault, Faulty, Rule},
    run, sbtest,
    stores::{Bucket, KEY, SECRET},
};
use crate::{
    events::Chance,
    process::Running,
    support::{Database, TestDatabase},
};

#[test]
fn an_unload_is_listed_in_a_manifest_and_loads_again() {
    let place = sbtest(5_000);
    for bucket in Bucket::everywhere() {
        let out = bucket.url("out/");
        let unload = format!("unload {{db}} -t sbtest -o {out} --jobs 2 --manifest --format csv");
        done(&place, &bucket, &unload);
        let manifest = bucket.get("out/_manifest.json").expect("a manifest");
        let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
        assert_eq!(manifest["rows"], 5_000);
        let files = manifest["files"].as_array().expect("files");
        let mut rows = 0;
        for file in files {
            let name = file["name"].as_str().expect("a name");
            let bytes = bucket.get(&format!("out/{name}")).expect("the object");
            assert_eq!(file["bytes"], bytes.len());
            place.write("copy", &bytes);
            let sum = std::process::Command::new("sha256sum")
                .arg(place.path("copy"))
                .output();
            let sum = String::from_utf8(sum.expect("sha256sum").stdout).expect("text");
            assert!(
                sum.starts_with(file["sha256"].as_str().expect("a sum")),
                "{sum} {file}"
            );
            rows += file["rows"].as_u64().expect("rows");
        }
        assert_eq!(rows, 5_000);
        let ran = run(&place, &bucket, &unload);
        assert_eq!(ran.code, Some(2));
        assert!(
            ran.stderr.contains("exists") && ran.stderr.contains("--overwrite"),
            "{}",
            ran.stderr
        );
        // Fewer files than before: what is left of the earlier ones goes.
        done(
            &place,
            &bucket,
            &unload.replace("--jobs 2", "--jobs 1 --overwrite"),
        );
        assert_eq!(bucket.keys(), ["out/_manifest.json", "out/part-00000.csv"]);
        done(
            &place,
            &bucket,
            &format!("load {out} {{db}} -t again --create=replace --key id"),
        );
        super::assert_same(&place, "again");
        bucket.put("out/mine.txt", "mine");
        let ran = run(&place, &bucket, &format!("{unload} --overwrite"));
        assert!(ran.stderr.contains("which is not of an unload"), "{}", ran.stderr);
    }
}

#[test]
fn keys_and_outputs_of_every_command_may_be_objects() {
    let place = sbtest(1_000);
    for bucket in Bucket::everywhere() {
        let url = |key: &str| bucket.url(key);
        bucket.put("keys.csv", "id\n1\n7\n1000\n5000\n");
        let (keys, rows, missing) = (url("keys.csv"), url("rows.jsonl"), url("missing.csv"));
        let get = format!(
            "get {{db}} -t sbtest --keys {keys} -o {rows} --missing {missing} --report {}",
            url("g.json")
        );
        let ran = run(&place, &bucket, &get);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let text = |key: &str| String::from_utf8(bucket.get(key).expect(key)).expect("text");
        assert_eq!(text("rows.jsonl").lines().count(), 3);
        assert_eq!(text("missing.csv"), "id\n5000\n");
        assert!(text("g.json").contains("tonnage"));
        done(
            &place,
            &bucket,
            &format!("generate sbtest --rows 10 -o {}", url("made.csv")),
        );
        place.sql("DROP TABLE IF EXISTS copy; CREATE TABLE copy (id INTEGER, k INTEGER)");
        let exec = format!(
            "exec {} {{db}} --sql 'INSERT INTO copy VALUES (:id, :k)'",
            url("made.csv")
        );
        done(&place, &bucket, &exec);
        assert_eq!(place.sql("SELECT count(*) FROM copy"), ["10"]);
        done(
            &place,
            &bucket,
            &format!("unload {{db}} -t sbtest -o {}", url("all.parquet")),
        );
        done(
            &place,
            &bucket,
            &format!("verify {} {{db}} -t sbtest --key id", url("all.parquet")),
        );
    }
}

#[test]
fn rejects_may_be_an_object() {
    for bucket in Bucket::everywhere() {
        let table = "CREATE TABLE t (a INTEGER NOT NULL, b TEXT CHECK (b <> 'bad'))";
        let place = TestDatabase::with(Database::Sqlite, table, &[]);
        let rows = |from: u32, to: u32| -> String {
            let row = |n: u32| match n % 10 {
                0 => format!("{n},bad\n"),
                1 => format!("x{n},y\n"),
                _ => format!("{n},good\n"),
            };
            (from..to).map(row).collect()
        };
        place.write("rows.csv", format!("a,b\n{}", rows(0, 2_000)));
        let url = bucket.url("rejects.jsonl");
        let load = format!(
            "load rows.csv {{db}} -t t --on-error reject --max-rejects 1M --rejects {url} --batch-rows 100 --jobs 2"
        );
        let ran = run(&place, &bucket, &load);
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        let records = || {
            let records = String::from_utf8(bucket.get("rejects.jsonl").expect("rejects")).expect("text");
            let records = records
                .lines()
                .map(|line| serde_json::from_str(line).expect("JSON"));
            let mut rows: Vec<u64> = records
                .map(|record: serde_json::Value| record["row"].as_u64().expect("a row"))
                .collect();
            rows.sort_unstable();
            rows
        };
        let expected: Vec<u64> = (1..=2_000)
            .filter(|row| matches!((row - 1) % 10, 0 | 1))
            .collect();
        assert_eq!(records(), expected);
        assert_eq!(
            place.sql("SELECT count(*), count(DISTINCT a) FROM t"),
            ["1600|1600"]
        );
        // What is there is not written over.
        let ran = run(&place, &bucket, &load);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("exists and is not empty"), "{}", ran.stderr);
        // Killed and gone on with: each bad row is there once.
        bucket.put("rejects.jsonl", "");
        place.sql("DELETE FROM t");
        let mut command = crate::process::tonnage();
        command.current_dir(place.path(".")).envs(bucket.environment());
        let resumed = load
            .replace("{db}", "shop.db")
            .replace("--jobs 2", "--jobs 1 --restart");
        command.args(resumed.split(' ')).args(["--rate", "1k/s"]);
        let running = Running::start(&mut command);
        while place.sql("SELECT count(*) FROM t")[0]
            .parse::<u64>()
            .expect("a number")
            < 500
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(running.kill());
        let ran = run(&place, &bucket, &load.replace("--jobs 2", "--resume"));
        assert_eq!(ran.code, Some(3), "{}", ran.stderr);
        assert_eq!(records(), expected);
        assert_eq!(
            place.sql("SELECT count(*), count(DISTINCT a) FROM t"),
            ["1600|1600"]
        );
    }
}

#[test]
fn a_store_may_have_a_name() {
    let place = sbtest(1_000);
    let bucket = Bucket::of_s3s();
    let targets = |lines: &str| {
        let url = bucket.url("in");
        place.write(
            "targets.toml",
            format!("[lake]\nurl = \"{url}\"\nregion = \"us-east-1\"\n{lines}"),
        );
    };
    let endpoint = &bucket.endpoint;
    targets(&format!(
        "endpoint = \"{endpoint}\"\naccess_key_id = \"{KEY}\"\nsecret_access_key_env = \"LAKE_SECRET\"\n"
    ));
    let with = |arguments: &str| place.run_with(arguments, &[("LAKE_SECRET", SECRET)], b"");
    for arguments in [
        "unload {db} -t sbtest -o @lake/2026/ --manifest --format csv",
        "load '@lake/2026/*.csv' {db} -t t --create --key id --report @lake/report.json",
        "load @lake/2026/ {db} -t t --new-files",
    ] {
        let ran = with(arguments);
        assert_eq!(ran.code, Some(0), "{arguments}: {}", ran.stderr);
    }
    super::assert_same(&place, "t");
    assert!(
        bucket.keys().contains(&"in/2026/part-00000.csv".to_owned()),
        "{:?}",
        bucket.keys()
    );
    let report = String::from_utf8(bucket.get("in/report.json").expect("a report")).expect("text");
    let ledger = place.sql("SELECT detail FROM tonnage_runs").concat();
    assert!(!report.contains(SECRET) && !ledger.contains(SECRET));
    assert!(ledger.contains(&bucket.url("in/2026/part-00000.csv")), "{ledger}");
    for (lines, error, hint) in [
        (
            "endpont = \"x\"",
            "line 4: unknown key 'endpont'",
            "did you mean endpoint?",
        ),
        ("access_key_id = \"x\"", "not the key", "secret_access_key_env"),
        (
            "secret_access_key_env = \"NOT_SET\"",
            "NOT_SET, which is not set",
            "export NOT_SET",
        ),
    ] {
        targets(lines);
        let ran = with("load @lake/2026/ {db} -t t");
        assert_eq!(ran.code, Some(2), "{lines}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(error) && ran.stderr.contains(hint),
            "{lines}: {}",
            ran.stderr
        );
    }
}

#[test]
fn uploads_go_on_over_errors_that_pass() {
    // More than one part.
    let place = sbtest(120_000);
    for bucket in Bucket::everywhere() {
        let proxy = Faulty::before(&bucket.endpoint);
        for (what, part, fault) in [
            ("an error", "partNumber=", Fault::Status(500, "")),
            (
                "too many requests",
                "partNumber=",
                Fault::Status(503, "<Error><Code>SlowDown</Code></Error>"),
            ),
            ("an answer that is not heard", "partNumber=", Fault::Unheard),
            ("an end that is not heard of", "POST uploadId=", Fault::Unheard),
            ("an error at the beginning", "?uploads", Fault::Status(500, "")),
        ] {
            // s3s denies whatever is asked of an upload that is completed, so that nothing can be told.
            if part == "POST uploadId=" && bucket.is_directory() {
                continue;
            }
            proxy.set(&[Rule {
                part,
                after: 0,
                times: 1,
                fault,
            }]);
            let unload = format!("unload {{db}} -t sbtest -o {} --overwrite", bucket.url("big.csv"));
            let ran = place.run_with(&unload, &bucket.environment_by(&proxy.url), b"");
            assert_eq!(ran.code, Some(0), "{what}: {}", ran.stderr);
            assert_eq!(proxy.left(), 0, "{what} did not come about");
            let load = format!(
                "load {} {{db}} -t again --create=replace --key id",
                bucket.url("big.csv")
            );
            done(&place, &bucket, &load);
            super::assert_same(&place, "again");
            assert_eq!(bucket.uploads(), 0, "{what}");
        }
    }
}

#[test]
fn an_unload_that_fails_or_is_stopped_leaves_nothing_to_be_seen() {
    let place = sbtest(200_000);
    place.write(
        "keys.csv",
        "id\n".to_owned() + &(1..=200_000).map(|id| format!("{id}\n")).collect::<String>(),
    );
    for bucket in Bucket::everywhere() {
        let proxy = Faulty::before(&bucket.endpoint);
        let unload = format!(
            "unload {{db}} -t sbtest -o {} --jobs 2 --format csv",
            bucket.url("out/")
        );
        for (what, part) in [("a part", "partNumber="), ("the end", "POST .csv?uploadId=")] {
            proxy.set(&[Rule {
                part,
                after: 0,
                times: 1_000,
                fault: Fault::Status(
                    403,
                    "<Error><Code>AccessDenied</Code><Message>no</Message></Error>",
                ),
            }]);
            let ran = place.run_with(&unload, &bucket.environment_by(&proxy.url), b"");
            assert_eq!(ran.code, Some(1), "{what}: {}", ran.stderr);
            assert!(ran.stderr.contains("hint: "), "{what}: {}", ran.stderr);
            assert_eq!(bucket.keys(), Vec::<String>::new(), "{what}");
            assert_eq!(bucket.uploads(), 0, "{what}");
        }
        // What cannot be taken back is named.
        proxy.set(&[
            Rule {
                part: "partNumber=",
                after: 0,
                times: 1_000,
                fault: Fault::Status(403, "<Error><Code>AccessDenied</Code></Error>"),
            },
            Rule {
                part: "DELETE",
                after: 0,
                times: 1_000,
                fault: Fault::Status(403, "<Error><Code>AccessDenied</Code></Error>"),
            },
        ]);
        let ran = place.run_with(&unload, &bucket.environment_by(&proxy.url), b"");
        assert!(ran.stderr.contains("could not be taken back"), "{}", ran.stderr);
        assert!(ran.stderr.contains(&bucket.url("out/")), "{}", ran.stderr);
        assert_eq!(bucket.keys(), Vec::<String>::new());

        // Killed: nobody can take anything back, but nothing is seen.
        let unload = ["unload", "shop.db", "-t", "sbtest", "--format", "csv"].as_slice();
        let get = [
            "get", "shop.db", "-t", "sbtest", "--keys", "keys.csv", "--format", "csv",
        ]
        .as_slice();
        let generate = ["generate", "sbtest", "--rows", "200k"].as_slice();
        for (signal, arguments, output) in [
            ("kill", unload, "kill/"),
            ("interrupt", unload, "interrupt/"),
            ("interrupt", get, "got.csv"),
            ("interrupt", generate, "made.csv"),
        ] {
            // Longer than anything here takes, so that no part arrives before the signal. What was asked before is forgotten.
            proxy.set(&[Rule {
                part: "partNumber=",
                after: 0,
                times: 1_000,
                fault: Fault::Wait(Duration::from_secs(3_600)),
            }]);
            let uploads = bucket.uploads();
            let mut command = crate::process::tonnage();
            command
                .current_dir(place.path("."))
                .envs(bucket.environment_by(&proxy.url));
            command.args(arguments).args(["-o", &bucket.url(output)]);
            let running = Running::start(&mut command);
            while !proxy.requests().iter().any(|line| line.contains("partNumber=")) {
                std::thread::sleep(Duration::from_millis(5));
            }
            match signal {
                "kill" => drop(running.kill()),
                _ => {
                    running.signal(2);
                    running.wait().expect(130);
                }
            }
            assert_eq!(bucket.keys(), Vec::<String>::new(), "{signal} {arguments:?}");
            if signal == "interrupt" {
                assert_eq!(
                    bucket.uploads(),
                    uploads,
                    "what {arguments:?} uploaded is taken back"
                );
            }
        }
    }
}

#[test]
fn what_can_neither_be_completed_nor_removed_is_named() {
    let place = sbtest(20_000);
    let bucket = Bucket::of_moto();
    let proxy = Faulty::before(&bucket.endpoint);
    let denied = |part| Rule {
        part,
        after: 0,
        times: 1_000,
        fault: Fault::Status(403, "<Error><Code>AccessDenied</Code></Error>"),
    };
    // The library removes a single object as it does many.
    proxy.set(&[denied("PUT part-00001.csv"), denied("POST ?delete")]);
    let unload = format!(
        "unload {{db}} -t sbtest -o {} --jobs 2 --format csv",
        bucket.url("out/")
    );
    let ran = place.run_with(&unload, &bucket.environment_by(&proxy.url), b"");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let left = bucket.url("out/part-00000.csv");
    let says =
        ran.stderr.contains(&format!("not removable: {left}")) && ran.stderr.contains("hint: remove them");
    assert!(says, "{}", ran.stderr);
    assert_eq!(bucket.keys(), ["out/part-00000.csv"]);
}

#[test]
fn the_plan_of_an_unload_names_the_memory_that_objects_take() {
    let place = sbtest(20_000);
    let bucket = Bucket::of_s3s();
    for (output, says) in [
        ("r.csv", "the object is uploaded in parts"),
        ("out/", "each of 2 objects is uploaded in parts"),
    ] {
        let plan = format!(
            "unload {{db}} -t sbtest -o {} --jobs 2 --dry-run",
            bucket.url(output)
        );
        let ran = done(&place, &bucket, &plan);
        assert!(ran.stdout.contains(says), "{}", ran.stdout);
        assert!(
            ran.stdout.contains("at most 80 MiB of it are held"),
            "{}",
            ran.stdout
        );
    }
    assert_eq!(bucket.keys(), Vec::<String>::new());
}

#[test]
fn kills_of_an_unload_leave_all_of_a_file_or_nothing() {
    let rounds = std::env::var("TONNAGE_FAULT_ROUNDS")
        .ok()
        .and_then(|asked| asked.parse().ok());
    let rounds: u64 = rounds.unwrap_or(6);
    // More than one part.
    let place = sbtest(100_000);
    let mut chance = Chance::new();
    for bucket in Bucket::everywhere() {
        let unload = format!("unload shop.db -t sbtest -o {} --jobs 1", bucket.url("whole.csv"));
        let began = Instant::now();
        done(&place, &bucket, &unload.replace("shop.db", "{db}"));
        let micros = began.elapsed().as_micros() as u64;
        let whole = bucket.get("whole.csv").expect("the object");
        let (mut seen, mut killed) = (0, 0);
        for round in 0..rounds {
            let key = format!("{round}.csv");
            let mut command = crate::process::tonnage();
            command.current_dir(place.path(".")).envs(bucket.environment());
            command.args(unload.replace("whole.csv", &key).split(' '));
            let running = Running::start(&mut command);
            // At first as soon as it runs, and then later and later.
            std::thread::sleep(Duration::from_micros(chance.below(2 * micros) * round / rounds));
            let ended = running.kill();
            killed += u64::from(ended.status.code().is_none());
            if let Some(bytes) = bucket.get(&key) {
                assert!(bytes == whole, "{key}: {} bytes of {}", bytes.len(), whole.len());
                bucket.remove(&key);
                seen += 1;
            }
        }
        eprintln!("{rounds} unloads: {killed} killed, {seen} files seen, all whole");
        assert!(killed > 0, "no kill came before the end");
    }
}

#[test]
fn what_comes_under_the_name_in_the_meantime_is_not_replaced() {
    // In parts, and at once.
    for rows in [120_000, 1_000] {
        let place = sbtest(rows);
        for bucket in Bucket::everywhere() {
            let proxy = Faulty::before(&bucket.endpoint);
            let part = if rows > 100_000 {
                "POST /r.csv?uploadId="
            } else {
                "PUT /r.csv"
            };
            proxy.set(&[Rule {
                part,
                after: 0,
                times: 1,
                fault: Fault::Wait(Duration::from_secs(3)),
            }]);
            let mut command = crate::process::tonnage();
            command
                .current_dir(place.path("."))
                .envs(bucket.environment_by(&proxy.url));
            command.args(["unload", "shop.db", "-t", "sbtest", "-o", &bucket.url("r.csv")]);
            let running = Running::start(&mut command);
            // It has looked, and its last request is on the way.
            while proxy.left() > 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
            bucket.put("r.csv", "of somebody else");
            let ended = running.wait();
            ended.expect(2);
            assert!(ended.stderr.contains("exists"), "{}", ended.stderr);
            assert!(ended.stderr.contains("--overwrite"), "{}", ended.stderr);
            assert_eq!(bucket.get("r.csv"), Some(b"of somebody else".to_vec()));
            assert_eq!(bucket.uploads(), 0);
        }
    }
}

#[test]
fn a_small_object_whose_answer_is_lost_is_there_once() {
    let place = sbtest(1_000);
    for bucket in Bucket::everywhere() {
        let proxy = Faulty::before(&bucket.endpoint);
        proxy.set(&[Rule {
            part: "PUT /r.csv",
            after: 0,
            times: 1,
            fault: Fault::Unheard,
        }]);
        let unload = format!("unload {{db}} -t sbtest -o {}", bucket.url("r.csv"));
        let ran = place.run_with(&unload, &bucket.environment_by(&proxy.url), b"");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(proxy.left(), 0);
        let load = format!(
            "load {} {{db}} -t again --create=replace --key id",
            bucket.url("r.csv")
        );
        done(&place, &bucket, &load);
        super::assert_same(&place, "again");
    }
}

#[test]
fn lines_of_objects_are_ingested() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (id INTEGER, v TEXT)", &[]);
    let lines = |from: u32, to: u32| -> String {
        let line = |n: u32| format!("{{\"id\": {n}, \"v\": \"v{n}\"}}\n");
        (from..=to).map(line).collect()
    };
    place.write("plain.jsonl", lines(1, 1_000));
    for bucket in Bucket::everywhere() {
        place.sql("DELETE FROM t");
        let packed = |text: String| {
            use std::io::Write;
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            packer.write_all(text.as_bytes()).expect("memory");
            packer.finish().expect("memory")
        };
        bucket.put("in/a.jsonl", lines(1, 400));
        bucket.put("in/b.jsonl.gz", packed(lines(401, 1_000)));
        bucket.put("in/c.csv", "a\n1\n");
        let journal = format!("journal-{}", bucket.name);
        let ingest = format!(
            "ingest {{db}} -t t --input '{}' --journal {journal} --producer lake --ack committed",
            bucket.url("in/*.jsonl*")
        );
        let ran = done(&place, &bucket, &ingest);
        assert!(ran.stdout.ends_with("1000 written\n"), "{}", ran.stdout);
        let all = || place.sql("SELECT count(*), count(DISTINCT id), sum(id) FROM t");
        assert_eq!(all(), ["1000|1000|500500"]);
        // What the journal has taken is not taken again.
        bucket.put("in/d.jsonl", lines(1_001, 1_010));
        let ran = done(&place, &bucket, &ingest);
        assert!(
            ran.stdout.contains("1000 known\n1001 written\n"),
            "{}",
            ran.stdout
        );
        assert_eq!(all(), ["1010|1010|510555"]);
        for (input, error) in [
            (bucket.url("in/c.csv"), "only JSON lines"),
            (bucket.url("in/e.jsonl"), "there is no such object"),
        ] {
            let ran = run(&place, &bucket, &format!("ingest {{db}} -t t --input {input}"));
            assert!(matches!(ran.code, Some(1 | 2)), "{}", ran.stderr);
            assert!(
                ran.stderr.contains(error) && ran.stderr.contains("hint: "),
                "{}",
                ran.stderr
            );
        }
        // A mistake is said with the file and its line.
        bucket.put("bad/a.jsonl", "{\"id\": 1, \"n\": 1}\n{\"id\": 2}\n");
        let ran = run(
            &place,
            &bucket,
            &format!(
                "ingest {{db}} -t t --input {} --journal {journal} --producer x --sequence-field n",
                bucket.url("bad/")
            ),
        );
        assert!(
            ran.stderr.contains("bad/a.jsonl, line 2 has no 'n'"),
            "{}",
            ran.stderr
        );
    }
    // The same of a file, and with lines that never go into memory all at once.
    place.sql("DELETE FROM t");
    let ran = place.run("ingest {db} -t t --input plain.jsonl");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout.lines().count(), 1_000);
    assert_eq!(place.sql("SELECT count(*) FROM t"), ["1000"]);
}
