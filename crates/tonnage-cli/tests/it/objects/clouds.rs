//! Azure, as Azurite speaks for it, and what fake-gcs-server speaks of Google: it gives objects and lists of them, and
//! takes them by another protocol only. Google's XML protocol is S3's but for its credentials and conditions, uploads in
//! parts and lists by pages included; so moto takes what is written to Google, and knows nothing of its conditions.

use std::{
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{
    assert_same,
    faulty::{Fault, Faulty, Rule},
    reading::{FILES, PASSING},
    sbtest,
    stores::{Bucket, asked},
};
use crate::{
    database::variable,
    faults::servers::{PORTS_TRIED, free_port},
    process::{Running, tonnage},
    support::{Database, Ran, TestDatabase},
};

/// What everybody knows of Azurite.
const AZURITE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A store, and a prefix of it that no other test has.
pub struct Cloud {
    scheme: &'static str,
    bucket: String,
    prefix: String,
    /// Before the server, where it is not Google's.
    proxy: Option<Faulty>,
    variables: Vec<(&'static str, String)>,
    google: Option<Google>,
    /// What is spoken to as Google, and is not.
    moto: Option<Bucket>,
}

/// A server of a test's own, which answers to the name of the proxy before it.
pub struct Google {
    server: Child,
    url: String,
    /// Before it.
    pub proxy: Faulty,
}

impl Google {
    /// With a bucket `lake`.
    pub fn start() -> Self {
        let this = (0..PORTS_TRIED).find_map(|_| Self::at(free_port()));
        let this = this.expect("a server that keeps its port");
        let buckets = format!("{}/storage/v1/b", this.url);
        let (status, said) = asked("POST", &buckets, b"{\"name\": \"lake\"}".to_vec());
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&said));
        this
    }

    /// None where it has ended, as somebody else had the port by then.
    fn at(port: u16) -> Option<Self> {
        let url = format!("http://127.0.0.1:{port}");
        let proxy = Faulty::before(&url);
        let mut command = Command::new(variable("TONNAGE_TEST_FAKE_GCS"));
        command.args(["-scheme", "http", "-host", "127.0.0.1", "-backend", "memory"]);
        command.args(["-port", &port.to_string()]);
        command.args(["-public-host", proxy.url.trim_start_matches("http://")]);
        let server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut this = Self {
            server: server.expect("the server starts"),
            url,
            proxy,
        };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if this.has_ended() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // Whoever has taken the port would answer as well.
        std::thread::sleep(Duration::from_millis(100));
        (!this.has_ended()).then_some(this)
    }

    fn has_ended(&mut self) -> bool {
        self.server.try_wait().expect("a process of our own").is_some()
    }

    pub fn put(&self, key: &str, bytes: Vec<u8>) {
        let uri = format!(
            "{}/upload/storage/v1/b/lake/o?uploadType=media&name={key}",
            self.url
        );
        let (status, said) = asked("POST", &uri, bytes);
        assert_eq!(status, 200, "{key}: {}", String::from_utf8_lossy(&said));
    }

    fn keys(&self, prefix: &str) -> Vec<String> {
        let uri = format!("{}/storage/v1/b/lake/o?prefix={prefix}", self.url);
        let (status, list) = asked("GET", &uri, Vec::new());
        assert_eq!(status, 200);
        let list: serde_json::Value = serde_json::from_slice(&list).expect("JSON");
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let name = |item: &serde_json::Value| item["name"].as_str().expect("a name").to_owned();
        items.iter().map(name).collect()
    }
}

impl Drop for Google {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Cloud {
    fn everywhere(test: &str) -> Vec<Self> {
        vec![Self::azure(test), Self::google(test)]
    }

    fn google(test: &str) -> Self {
        let google = Google::start();
        Self {
            scheme: "gs",
            bucket: "lake".to_owned(),
            prefix: test.to_owned(),
            proxy: None,
            variables: vec![("STORAGE_EMULATOR_HOST", google.proxy.url.clone())],
            google: Some(google),
            moto: None,
        }
    }

    /// Stores to which all can be written.
    fn writable(test: &str) -> Vec<Self> {
        vec![Self::azure(test), Self::google_by_moto(test)]
    }

    fn google_by_moto(test: &str) -> Self {
        let bucket = Bucket::of_moto();
        let proxy = Faulty::before(&bucket.endpoint);
        Self {
            scheme: "gs",
            bucket: bucket.name.clone(),
            prefix: test.to_owned(),
            variables: vec![("STORAGE_EMULATOR_HOST", proxy.url.clone())],
            proxy: Some(proxy),
            google: None,
            moto: Some(bucket),
        }
    }

    pub fn azure(test: &str) -> Self {
        let prefix = format!("{test}-{}", std::process::id());
        let azure = variable("TONNAGE_TEST_AZURE_URL");
        let (server, account) = azure.rsplit_once('/').expect("the account is in the URL");
        let proxy = Faulty::before(server);
        let connection = format!(
            "AccountName={account};AccountKey={AZURITE_KEY};BlobEndpoint={}/{account}",
            proxy.url
        );
        Self {
            scheme: "az",
            bucket: "lake".to_owned(),
            prefix,
            proxy: Some(proxy),
            variables: vec![("AZURE_STORAGE_CONNECTION_STRING", connection)],
            google: None,
            moto: None,
        }
    }

    fn proxy(&self) -> &Faulty {
        let of_google = self.google.as_ref().map(|google| &google.proxy);
        of_google.or(self.proxy.as_ref()).expect("a proxy")
    }

    pub fn url(&self, key: &str) -> String {
        format!("{}://{}/{}/{key}", self.scheme, self.bucket, self.prefix)
    }

    pub fn environment(&self) -> Vec<(&'static str, &str)> {
        let variables = self.variables.iter();
        variables.map(|(name, value)| (*name, value.as_str())).collect()
    }

    fn run(&self, place: &TestDatabase, arguments: &str) -> Ran {
        place.run_with(arguments, &self.environment(), b"")
    }

    #[track_caller]
    fn done(&self, place: &TestDatabase, arguments: &str) {
        let ran = self.run(place, arguments);
        assert_eq!(ran.code, Some(0), "{} {arguments}: {}", self.scheme, ran.stderr);
    }

    /// Puts the rows of a table into an object.
    #[track_caller]
    fn bring(&self, place: &TestDatabase, table: &str, key: &str) {
        let Some(google) = &self.google else {
            return self.done(place, &format!("unload {{db}} -t {table} -o {}", self.url(key)));
        };
        let name = key.rsplit('/').next().expect("a name");
        self.done(place, &format!("unload {{db}} -t {table} -o {name} --overwrite"));
        google.put(&format!("{}/{key}", self.prefix), place.read_bytes(name));
    }

    /// The keys behind the prefix as the server itself lists them.
    fn keys(&self) -> Vec<String> {
        let prefix = format!("{}/", self.prefix);
        if let Some(google) = &self.google {
            let keys = google.keys(&prefix).into_iter();
            return keys
                .map(|key| key.trim_start_matches(&prefix).to_owned())
                .collect();
        }
        if let Some(bucket) = &self.moto {
            let keys = bucket.keys().into_iter();
            return keys
                .filter_map(|key| Some(key.strip_prefix(&prefix)?.to_owned()))
                .collect();
        }
        let server = variable("TONNAGE_TEST_AZURE_URL");
        let url = format!(
            "{server}/lake?restype=container&comp=list&prefix={}/",
            self.prefix
        );
        let (status, list) = asked("GET", &url, Vec::new());
        let list = String::from_utf8(list).expect("text");
        assert_eq!(status, 200, "{list}");
        let names = list.split("<Name>").skip(1);
        let names =
            names.filter_map(|part| part.split_once('<')?.0.strip_prefix(&format!("{}/", self.prefix)));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names
    }
}

#[test]
fn every_format_comes_from_azure_and_google() {
    let place = sbtest(20_000);
    for cloud in Cloud::everywhere("formats") {
        for (at, file) in FILES.iter().enumerate() {
            let url = cloud.url(&format!("in/{file}"));
            cloud.bring(&place, "sbtest", &format!("in/{file}"));
            let load = format!("load {url} {{db}} -t t{at} --create=replace --key id");
            cloud.done(&place, &load);
            assert_same(&place, &format!("t{at}"));
        }
        let mut expected: Vec<String> = FILES.iter().map(|file| format!("in/{file}")).collect();
        expected.sort();
        assert_eq!(cloud.keys(), expected);
        if cloud.scheme == "az" {
            let url = format!(
                "abfss://lake@devstoreaccount1.dfs.core.windows.net/{}/in/r.csv",
                cloud.prefix
            );
            cloud.done(
                &place,
                &format!("load {url} {{db}} -t t --create=replace --key id"),
            );
            assert_same(&place, "t");
        }
    }
}

#[test]
fn prefixes_globs_and_mistakes_are_the_same_on_azure_and_google() {
    for cloud in Cloud::everywhere("names") {
        let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
        for key in ["p/b.csv", "p/a.csv", "p/.hidden.csv", "p/deep/c.csv", "q/d.csv"] {
            let name = key.rsplit('/').next().expect("a name");
            place.sql(&format!(
                "CREATE TABLE IF NOT EXISTS u (a TEXT); DELETE FROM u; INSERT INTO u VALUES ('{name}')"
            ));
            cloud.bring(&place, "u", key);
        }
        for (input, expected) in [
            ("p/", "a.csvb.csv"),
            ("p/*.csv", "a.csvb.csv"),
            ("p/**/*.csv", "a.csvb.csvc.csv"),
            ("?/[bd].csv", "b.csvd.csv"),
        ] {
            cloud.done(&place, &format!("load {} {{db}} -t t", cloud.url(input)));
            let rows = place.sql("SELECT a FROM t ORDER BY rowid; DELETE FROM t");
            assert_eq!(rows.concat(), expected, "{} {input}", cloud.scheme);
        }
        for (input, error, hint) in [
            (cloud.url("p/a.cvs"), "there is no such object", "did you mean"),
            (cloud.url("p"), "there is no such object", "it is a prefix"),
            (
                cloud.url("p/x*.csv"),
                "no object matches",
                "* does not cross a slash",
            ),
            (format!("{}://none/r.csv", cloud.scheme), "there is no such", ""),
        ] {
            // Of a bucket that is not there this server says that it is broken.
            if input.starts_with("gs://none") {
                continue;
            }
            let ran = cloud.run(&place, &format!("load {input} {{db}} -t t"));
            assert_eq!(ran.code, Some(1), "{input}: {}", ran.stderr);
            let says = ran.stderr.contains(error) && ran.stderr.contains(hint);
            assert!(says, "{input}: {}", ran.stderr);
            assert!(!ran.stderr.contains(AZURITE_KEY), "{}", ran.stderr);
        }
        let ran = cloud.run(&place, &format!("unload {{db}} -t u -o {}", cloud.url("p/a.csv")));
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("--overwrite"), "{}", ran.stderr);
    }
}

#[test]
fn faults_before_azure_and_google_cost_no_row() {
    let place = sbtest(30_000);
    for cloud in Cloud::everywhere("faults") {
        for file in ["r.csv", "r.parquet"] {
            let url = cloud.url(file);
            cloud.bring(&place, "sbtest", file);
            let load = format!("load {url} {{db}} -t t --create=replace --key id --batch-rows 1000");
            for (what, after, times, fault) in PASSING {
                cloud.proxy().set(&[Rule {
                    part: "GET lake r",
                    after: *after,
                    times: *times,
                    fault: fault.clone(),
                }]);
                let ran = cloud.run(&place, &load);
                assert_eq!(
                    ran.code,
                    Some(0),
                    "{} {file}, {what}: {}",
                    cloud.scheme,
                    ran.stderr
                );
                assert!(cloud.proxy().left() < *times, "{file}: {what} did not come about");
                assert_same(&place, "t");
            }
            cloud.proxy().set(&[Rule {
                part: "GET lake r",
                // It is found by two requests, for either of its ends.
                after: 2,
                times: 1_000,
                fault: Fault::Etag("\"another\""),
            }]);
            let ran = cloud.run(&place, &load);
            assert_eq!(ran.code, Some(1), "{} {file}: {}", cloud.scheme, ran.stderr);
            assert!(ran.stderr.contains("has changed"), "{}", ran.stderr);
            cloud.proxy().set(&[]);
        }
    }
}

#[test]
fn an_unload_to_azure_or_google_is_whole_or_not_there() {
    // More than one part.
    let place = sbtest(120_000);
    for cloud in Cloud::writable("whole") {
        let out = cloud.url("out/");
        let unload = format!("unload {{db}} -t sbtest -o {out} --manifest --format csv --jobs 1");
        let part = if cloud.scheme == "az" {
            "PUT comp=block&"
        } else {
            "PUT partNumber="
        };
        let met = |times: usize, fault: Fault| {
            cloud.proxy().set(&[Rule {
                part,
                after: 0,
                times,
                fault,
            }]);
        };
        met(
            1_000,
            Fault::Status(403, "<Error><Code>AuthorizationFailure</Code></Error>"),
        );
        let ran = cloud.run(&place, &unload);
        assert_eq!(ran.code, Some(1), "{}: {}", cloud.scheme, ran.stderr);
        assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
        assert_eq!(cloud.keys(), Vec::<String>::new(), "{}", cloud.scheme);
        if let Some(bucket) = &cloud.moto {
            assert_eq!(bucket.uploads(), 0);
        }
        // Killed while its parts are on the way.
        met(1_000, Fault::Wait(Duration::from_secs(3_600)));
        let mut command = tonnage();
        command.current_dir(place.path(".")).envs(cloud.environment());
        command.args(unload.replace("{db}", "shop.db").split(' '));
        let mut running = Running::start(&mut command);
        while cloud.proxy().left() == 1_000 {
            assert!(!running.has_ended(), "{}", running.said());
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(running.kill());
        assert_eq!(cloud.keys(), Vec::<String>::new(), "{}", cloud.scheme);
        // What passes costs nothing.
        met(2, Fault::Status(503, "<Error><Code>ServerBusy</Code></Error>"));
        cloud.done(&place, &unload);
        assert_eq!(cloud.proxy().left(), 0);
        let whole = ["out/_manifest.json", "out/part-00000.csv"];
        assert_eq!(cloud.keys(), whole);
        let ran = cloud.run(&place, &unload);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains("--overwrite"), "{}", ran.stderr);
        // Several files in the place of one.
        let again = unload.replace("--jobs 1", "--jobs 2 --overwrite");
        cloud.done(&place, &again);
        assert_eq!(cloud.keys(), [whole[0], whole[1], "out/part-00001.csv"]);
        let load = format!("load {out} {{db}} -t again --create=replace --key id");
        cloud.done(&place, &load);
        assert_same(&place, "again");
    }
}

#[test]
fn what_a_store_says_is_there_by_now_is_not_replaced() {
    let place = sbtest(1_000);
    for cloud in Cloud::writable("taken") {
        let status = if cloud.scheme == "az" { 409 } else { 412 };
        cloud.proxy().set(&[Rule {
            part: "PUT",
            after: 0,
            times: 1,
            fault: Fault::Status(status, "<Error><Code>BlobAlreadyExists</Code></Error>"),
        }]);
        let ran = cloud.run(
            &place,
            &format!("unload {{db}} -t sbtest -o {}", cloud.url("r.csv")),
        );
        assert_eq!(ran.code, Some(2), "{}: {}", cloud.scheme, ran.stderr);
        let says = ran.stderr.contains("r.csv' exists") && ran.stderr.contains("--overwrite");
        assert!(says, "{}", ran.stderr);
        assert_eq!(cloud.proxy().left(), 0);
        assert_eq!(cloud.keys(), Vec::<String>::new());
    }
}

#[test]
fn lists_of_several_pages_are_read_to_their_ends() {
    let place = TestDatabase::with(Database::Sqlite, "CREATE TABLE t (a TEXT)", &[]);
    for cloud in Cloud::writable("pages") {
        for at in 0..7 {
            place.sql(&format!(
                "CREATE TABLE IF NOT EXISTS u (a TEXT); DELETE FROM u; INSERT INTO u VALUES ('{at}')"
            ));
            cloud.bring(&place, "u", &format!("p/{at}.csv"));
        }
        // Two a page. Of Azure a signature holds for the query too, so what everybody may read is asked for.
        let (part, more, account) = match cloud.scheme {
            "az" => ("comp=list", "&maxresults=2", "devstoreaccount1"),
            _ => ("list-type=2", "&max-keys=2", ""),
        };
        let endpoint = format!("{}/{account}", cloud.proxy().url);
        let environment = match cloud.scheme {
            "az" => vec![
                ("AZURE_STORAGE_ACCOUNT", account),
                ("AZURE_ENDPOINT", &*endpoint),
                ("AZURE_ALLOW_HTTP", "true"),
                ("AZURE_SKIP_SIGNATURE", "true"),
            ],
            _ => cloud.environment(),
        };
        for input in ["p/", "p/*.csv", "p/**/[0-9].csv"] {
            cloud.proxy().set(&[Rule {
                part,
                after: 0,
                times: 1_000,
                fault: Fault::Query(more),
            }]);
            let load = format!("load '{}' {{db}} -t t", cloud.url(input));
            let ran = place.run_with(&load, &environment, b"");
            assert_eq!(ran.code, Some(0), "{} {input}: {}", cloud.scheme, ran.stderr);
            assert_eq!(
                1_000 - cloud.proxy().left(),
                4,
                "pages of {} {input}",
                cloud.scheme
            );
            let rows = place.sql("SELECT a FROM t ORDER BY rowid; DELETE FROM t");
            assert_eq!(rows.concat(), "0123456", "{} {input}", cloud.scheme);
        }
    }
}

#[test]
fn a_killed_load_from_azure_or_google_goes_on() {
    for cloud in Cloud::everywhere("resume") {
        let place = sbtest(60_000);
        let url = cloud.url("r.csv");
        cloud.bring(&place, "sbtest", "r.csv");
        place.sql("CREATE TABLE t AS SELECT * FROM sbtest LIMIT 0");
        let load = format!("load {url} shop.db -t t --batch-rows 500 --resume");
        let mut command = tonnage();
        command.current_dir(place.path(".")).envs(cloud.environment());
        command.args(load.split(' ')).args(["--rate", "40k/s"]);
        let running = Running::start(&mut command);
        let count = || {
            place.sql("SELECT count(*) FROM t")[0]
                .parse::<u64>()
                .expect("a number")
        };
        while count() < 40_000 {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(running.kill());
        assert!(count() < 60_000, "it was killed in the middle");
        cloud.done(&place, &load);
        assert_same(&place, "t");
    }
}

#[test]
fn an_object_of_google_that_is_written_anew_is_not_mixed_with_what_it_was() {
    let place = sbtest(60_000);
    let cloud = Cloud::google("anew");
    cloud.bring(&place, "sbtest", "r.csv");
    cloud.proxy().set(&[Rule {
        part: "GET lake r",
        after: 1,
        times: 40,
        fault: Fault::Slow(256 << 10, Duration::from_millis(100)),
    }]);
    let mut command = tonnage();
    command.current_dir(place.path(".")).envs(cloud.environment());
    command.args(["load", &cloud.url("r.csv"), "shop.db", "-t", "t", "--create"]);
    let running = Running::start(&mut command);
    // It has been found, and is being read.
    let gets = || {
        let requests = cloud.proxy().requests().into_iter();
        requests.filter(|line| line.starts_with("GET")).count()
    };
    while gets() < 4 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let now = [place.read_bytes("r.csv").as_slice(), b"1,1,x,y\n"].concat();
    let google = cloud.google.as_ref().expect("it is Google's");
    google.put(&format!("{}/r.csv", cloud.prefix), now);
    let ended = running.wait();
    ended.expect(1);
    let says = ended.stderr.contains("has changed") && ended.stderr.contains("hint: ");
    assert!(says, "{}", ended.stderr);
}
