//! Files behind web servers.

use std::fs;

use super::{
    assert_same,
    faulty::{Fault, Faulty, Rule},
    sbtest,
    stores::Bucket,
};
use crate::{
    database::variable,
    process::Running,
    support::{Database, TestDatabase},
};

/// Puts a file behind the web server, under a name that no other test has; its name.
fn put(name: &str, bytes: &[u8]) -> String {
    let name = format!("{}-{name}", std::process::id());
    let path = format!("{}/{name}", variable("TONNAGE_TEST_HTTP_FILES"));
    fs::write(path, bytes).expect("a file");
    name
}

#[test]
fn files_come_with_ranges_and_without() {
    let place = sbtest(20_000);
    let server = variable("TONNAGE_TEST_HTTP_URL");
    for file in ["r.csv", "r.csv.gz", "r.parquet", "r.arrow", "r.jsonl.zst"] {
        let ran = place.run(&format!("unload {{db}} -t sbtest -o {file} --overwrite"));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let name = put(file, &place.read_bytes(file));
        for path in ["", "plain/", "moved/"] {
            let url = format!("{server}/{path}{name}");
            let load = format!("load {url} {{db}} -t t --create=replace --key id");
            let ran = place.run(&load);
            if path == "plain/" && file == "r.parquet" {
                assert_eq!(ran.code, Some(2));
                assert!(ran.stderr.contains("from its beginning only"), "{}", ran.stderr);
                continue;
            }
            assert_eq!(ran.code, Some(0), "{url}: {}", ran.stderr);
            assert_same(&place, "t");
        }
        if file == "r.csv" {
            let plan = place.run(&format!("load {server}/plain/{name} {{db}} -t t --dry-run"));
            assert!(plan.stdout.contains("from its beginning only"), "{}", plan.stdout);
            let ran = place.run(&format!("load {server}/plain/{name} {{db}} -t t --resume"));
            assert_eq!(ran.code, Some(2), "{}", ran.stderr);
            assert!(ran.stderr.contains("cannot be read again"), "{}", ran.stderr);
        }
    }
}

#[test]
fn a_cut_answer_is_gone_on_with_where_the_server_has_ranges() {
    let place = sbtest(20_000);
    let name = put("cut.csv", &place.read_bytes("rows.csv"));
    let proxy = Faulty::before(&variable("TONNAGE_TEST_HTTP_URL"));
    let cut = |after| {
        proxy.set(&[Rule {
            part: "GET",
            after,
            times: 1,
            fault: Fault::Cut(100_000),
        }]);
    };
    cut(1);
    let ran = place.run(&format!(
        "load {}/{name} {{db}} -t t --create --key id",
        proxy.url
    ));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(proxy.left(), 0);
    assert_same(&place, "t");
    // Of a plain stream it is an error, and never a short file.
    cut(1);
    let ran = place.run(&format!(
        "load {}/plain/{name} {{db}} -t u --create --key id",
        proxy.url
    ));
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("breaks off") && ran.stderr.contains("hint: "),
        "{}",
        ran.stderr
    );
}

#[test]
fn secrets_in_urls_and_in_netrc_are_used_and_never_shown() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    let server = variable("TONNAGE_TEST_HTTP_URL");
    let name = put("secret.csv", b"a\n1\n");
    let url = format!("{server}/secret/{name}");
    let ran = place.run(&format!("load {url} {{db}} -t t"));
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.contains("401") && ran.stderr.contains(".netrc"),
        "{}",
        ran.stderr
    );
    place.write(".netrc", "machine 127.0.0.1 login reader password \"of files\"\n");
    let ran = place.run(&format!("load {url} {{db}} -t t"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    fs::remove_file(place.path(".netrc")).expect("a file");
    let signed = format!("{server}/{name}?X-Amz-Signature=secret-of-the-url");
    let ran = place.run(&format!("load {signed} {{db}} -t t --report report.json -v"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ledger = place.sql("SELECT detail FROM tonnage_runs").concat();
    for text in [&ran.stdout, &ran.stderr, &place.read("report.json"), &ledger] {
        assert!(!text.contains("secret-of-the-url"), "{text}");
    }
    assert!(ledger.contains(&name), "{ledger}");
}

#[test]
fn signatures_do_not_stay_among_the_arguments() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    let proxy = Faulty::before(&variable("TONNAGE_TEST_HTTP_URL"));
    let name = put("seen.csv", b"a\n1\n");
    proxy.delay(std::time::Duration::from_millis(300));
    let mut command = crate::process::tonnage();
    command.current_dir(place.path("."));
    command.args([
        "load",
        &format!("{}/{name}?X-Amz-Signature=secret-of-the-url", proxy.url),
    ]);
    command.args(["shop.db", "-t", "t"]);
    let running = Running::start(&mut command);
    while proxy.requests().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let seen = fs::read(format!("/proc/{}/cmdline", running.id())).expect("the process runs");
    let seen = String::from_utf8_lossy(&seen).replace('\0', " ");
    assert!(seen.contains(&name) && !seen.contains("secret-of"), "{seen}");
    running.wait().expect(0);
    assert!(proxy.requests()[0].contains("secret-of-the-url"), "it is used");
    assert_eq!(place.sql("SELECT a FROM t"), ["1"]);
}

#[test]
fn certificates_are_looked_at_and_https_is_not_left() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    let server = variable("TONNAGE_TEST_HTTPS_URL");
    let authority = variable("TONNAGE_TEST_POSTGRES_CA");
    let name = put("tls.csv", b"a\n1\n");
    let load = |path: &str, variables: &[(&str, &str)]| {
        place.run_with(&format!("load {server}/{path}{name} {{db}} -t t"), variables, b"")
    };
    let trusting = [("SSL_CERT_FILE", authority.as_str())];
    for (ran, error, hint) in [
        (load("", &[]), "certificate is not accepted", "SSL_CERT_FILE"),
        (load("down/", &trusting), "from https to http", "hint: "),
    ] {
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(
            ran.stderr.contains(error) && ran.stderr.contains(hint),
            "{}",
            ran.stderr
        );
    }
    let ran = load("", &trusting);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(place.sql("SELECT a FROM t"), ["1"]);
}

#[test]
fn proxies_of_the_environment_are_used() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    let server = variable("TONNAGE_TEST_HTTP_URL");
    let proxy = Faulty::before(&server);
    let name = put("proxy.csv", b"a\n1\n");
    // A name that only the proxy leads anywhere.
    let ran = place.run_with(
        &format!("load http://files.invalid/{name} {{db}} -t t"),
        &[("HTTP_PROXY", &proxy.url), ("http_proxy", &proxy.url)],
        b"",
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(place.sql("SELECT a FROM t; DELETE FROM t"), ["1"]);
    assert!(!proxy.requests().is_empty());
    proxy.set(&[]);
    let ran = place.run_with(
        &format!("load {server}/{name} {{db}} -t t --restart"),
        &[
            ("HTTP_PROXY", &proxy.url),
            ("http_proxy", &proxy.url),
            ("NO_PROXY", "127.0.0.1"),
        ],
        b"",
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(proxy.requests(), Vec::<String>::new());
    // A store as well.
    let bucket = Bucket::of_s3s();
    bucket.put("r.csv", "a\n1\n");
    let proxy = Faulty::before(&bucket.endpoint);
    let mut environment = bucket.environment_by("http://store.invalid");
    environment.extend([
        ("HTTP_PROXY", proxy.url.as_str()),
        ("http_proxy", proxy.url.as_str()),
    ]);
    let ran = place.run_with(
        &format!("load {} {{db}} -t t", bucket.url("r.csv")),
        &environment,
        b"",
    );
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!proxy.requests().is_empty());
}

#[test]
fn what_is_no_file_is_said_to_be_none() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    let server = variable("TONNAGE_TEST_HTTP_URL");
    let page = put("page.csv", b"<!DOCTYPE html><html><body>Sign in</body></html>");
    for (input, error) in [
        (format!("{server}/none.csv"), "404"),
        (format!("{server}/loop/x.csv"), "redirect"),
        (format!("{server}/page/{page}"), "web page"),
        (format!("{server}/*.csv"), "HTTP has no lists"),
        ("http://127.0.0.1:1/x.csv".to_owned(), "127.0.0.1:1"),
    ] {
        let ran = place.run(&format!("load '{input}' {{db}} -t t"));
        assert!(matches!(ran.code, Some(1 | 2)), "{input}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(error) && ran.stderr.contains("hint: "),
            "{input}: {}",
            ran.stderr
        );
    }
    let ran = place.run(&format!("unload {{db}} -t t -o {server}/x.csv"));
    assert!(
        ran.stderr.contains("nothing can be written over HTTP"),
        "{}",
        ran.stderr
    );
}
