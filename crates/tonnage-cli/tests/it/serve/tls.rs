//! TLS: one port for HTTP/1.1, HTTP/2 and gRPC, certificates of clients, and new certificates and tokens under load. The
//! clients are curl, OpenSSL and the ADBC driver; certificates are made by OpenSSL.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use super::{Serve, access::token, flight::python, state, url, written};
use crate::{
    process::tonnage,
    support::{Database, TestDatabase},
};

const TABLES: &str = "CREATE TABLE a (id integer PRIMARY KEY); CREATE TABLE b (id integer PRIMARY KEY)";

fn openssl(arguments: &[&str]) -> Vec<u8> {
    let ran = Command::new("openssl").args(arguments).output();
    let ran = ran.expect("openssl is there: apt-get install openssl");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    ran.stdout
}

/// An authority, and certificates by it.
struct Authority {
    directory: PathBuf,
    name: &'static str,
}

impl Authority {
    fn new(directory: &Path, name: &'static str) -> Self {
        let authority = Self {
            directory: directory.to_owned(),
            name,
        };
        let (key, certificate) = (authority.file(name, "key"), authority.file(name, "pem"));
        openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "30",
            "-subj",
            &format!("/CN={name}"),
            "-keyout",
            &key,
            "-out",
            &certificate,
        ]);
        authority
    }

    fn file(&self, name: &str, ending: &str) -> String {
        self.directory
            .join(format!("{name}.{ending}"))
            .display()
            .to_string()
    }

    /// `NAME.pem` and `NAME.key`, for so many days from now.
    fn certify(&self, name: &str, days: i32) {
        let request = self.file(name, "csr");
        openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            &format!("/CN={name}"),
            "-keyout",
            &self.file(name, "key"),
            "-out",
            &request,
        ]);
        let names = self.file(name, "names");
        fs::write(
            &names,
            "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n",
        )
        .expect("a file");
        openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            &self.file(self.name, "pem"),
            "-CAkey",
            &self.file(self.name, "key"),
            "-CAcreateserial",
            "-days",
            &days.to_string(),
            "-extfile",
            &names,
            "-out",
            &self.file(name, "pem"),
        ]);
    }

    /// SHA-256 of a certificate's DER, as the configuration has it.
    fn fingerprint(&self, name: &str) -> String {
        let text = openssl(&[
            "x509",
            "-in",
            &self.file(name, "pem"),
            "-noout",
            "-fingerprint",
            "-sha256",
        ]);
        let text = String::from_utf8(text).expect("text");
        let (_, digits) = text.trim().split_once('=').expect("digits");
        digits.replace(':', "").to_lowercase()
    }
}

/// curl: its exit code, HTTP's version, the status and the body.
fn curl(server: &Serve, path: &str, arguments: &[&str]) -> (i32, String, String, String) {
    let ran: Output = Command::new("curl")
        .args(["-s", "-w", "\n%{http_version} %{http_code}"])
        .args(arguments)
        .arg(format!("https://{}{path}", server.address()))
        .output()
        .expect("curl is there: apt-get install curl");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let (body, last) = text.rsplit_once('\n').unwrap_or(("", &text));
    let (version, status) = last.split_once(' ').unwrap_or_default();
    let code = ran.status.code().expect("it ends by itself");
    (code, version.to_owned(), status.to_owned(), body.to_owned())
}

fn listening(authority: &Authority, certificate: &str, more: &str) -> String {
    format!(
        "[[listen]]\naddress = \"127.0.0.1:0\"\ncertificate = {:?}\nkey = {:?}\n{more}\n",
        authority.file(certificate, "pem"),
        authority.file(certificate, "key"),
    )
}

/// An ingest of one row by the ADBC driver: what went wrong, if anything.
fn ingest(server: &Serve, table: &str, options: &[(&str, &str)]) -> Result<(), String> {
    let script = "import sys, json, pyarrow as pa, adbc_driver_flightsql.dbapi as flight
uri, table, *options = sys.argv[1:]
options = dict(option.split('=', 1) for option in options)
options = {name: open(value[1:]).read() if value.startswith('@') else value for name, value in options.items()}
with flight.connect(uri, options, autocommit=True) as db, db.cursor() as cursor:
    cursor.adbc_ingest(table, pa.table({'id': [90]}), 'append')";
    let ran = Command::new(python())
        .args(["-c", script, &format!("grpc+tls://{}", server.address()), table])
        .args(
            options
                .iter()
                .map(|(name, value)| format!("adbc.flight.sql.{name}={value}")),
        )
        .output()
        .expect("it runs");
    match ran.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&ran.stderr).into_owned()),
    }
}

#[test]
fn one_port_speaks_every_protocol_over_tls() {
    let place = TestDatabase::with(Database::Sqlite, TABLES, &[]);
    let authority = Authority::new(&place.path(""), "authority");
    authority.certify("server", 5);
    let (token, hash) = token();
    let rights = format!("[tokens.a]\nsha256 = \"{hash}\"\nwrite = [\"a\"]\nread = [\"a\"]\n");
    let text = format!("{}{rights}", listening(&authority, "server", ""));
    let server = Serve::start(&["-v", "--config", &written(&place, &text)]);
    let (ca, bearer) = (
        authority.file("authority", "pem"),
        format!("Authorization: Bearer {token}"),
    );
    let known = ["--cacert", &ca, "-H", &bearer];
    let body = ["-H", "Content-Type: application/json", "-d", "{\"id\":1}"];
    for (protocol, version, id) in [
        ("--http1.1", "1.1", 1),
        ("--http2", "2", 2),
        ("--no-alpn", "1.1", 3),
    ] {
        let body = [body[0], body[1], body[2], &format!("{{\"id\":{id}}}")];
        let arguments = [&known[..], &body[..], &[protocol]].concat();
        let (code, spoken, status, said) = curl(&server, "/v1/tables/a/rows?ack=committed", &arguments);
        assert_eq!(
            (code, spoken.as_str(), status.as_str()),
            (0, version, "200"),
            "{protocol}: {said}"
        );
    }
    let header = ("authorization_header", format!("Bearer {token}"));
    let root = ("client_option.tls_root_certs", format!("@{ca}"));
    let options = [(header.0, header.1.as_str()), (root.0, root.1.as_str())];
    ingest(&server, "a", &options).expect("it is done");
    let refused = ingest(&server, "b", &options).expect_err("no right");
    assert!(refused.contains("no right"), "{refused}");
    assert_eq!(place.sql("SELECT id FROM a ORDER BY id"), ["1", "2", "3", "90"]);
    // Without a token, without knowing the authority, and without TLS.
    assert_eq!(curl(&server, "/v1/tables/a/export", &["--cacert", &ca]).2, "401");
    assert_eq!(curl(&server, "/livez", &["--cacert", &ca]).2, "200");
    assert_eq!(
        curl(&server, "/livez", &[]).0,
        60,
        "curl knows no issuer of this certificate"
    );
    assert!(
        server.try_send("GET", "/livez", &[], b"").is_err(),
        "nothing is answered without TLS"
    );
    let old = Command::new("openssl")
        .args([
            "s_client",
            "-tls1_1",
            "-cipher",
            "ALL:@SECLEVEL=0",
            "-connect",
            server.address(),
        ])
        .output()
        .expect("openssl runs");
    assert!(!old.status.success(), "TLS 1.1 is not spoken");
    assert!(server.said().contains("handshake"), "{}", server.said());
    server.stop().expect(0);
}

#[test]
fn a_certificate_is_who_shows_it() {
    let place = TestDatabase::with(Database::Sqlite, TABLES, &[]);
    let authority = Authority::new(&place.path(""), "authority");
    let other = Authority::new(&place.path(""), "other");
    for (name, days) in [("server", 5), ("gate", 5), ("unnamed", 5), ("late", -1)] {
        authority.certify(name, days);
    }
    other.certify("stranger", 5);
    let ca = authority.file("authority", "pem");
    let mut text = listening(&authority, "server", &format!("client_ca = {ca:?}"));
    for (name, write) in [("gate", "a"), ("late", "*"), ("stranger", "*")] {
        let fingerprint = authority.fingerprint(name);
        text.push_str(&format!(
            "[tokens.{name}]\ncertificate = \"{fingerprint}\"\nwrite = [\"{write}\"]\n"
        ));
    }
    let server = Serve::start(&["-v", "--config", &written(&place, &text)]);
    let ask = |name: Option<&str>, table: &str, version: &str| {
        let files = name.map(|name| (authority.file(name, "pem"), authority.file(name, "key")));
        let mut arguments = vec![
            "--cacert",
            &ca,
            version,
            "-H",
            "Content-Type: application/json",
            "-d",
            "{\"id\":1}",
        ];
        if let Some((certificate, key)) = &files {
            arguments.extend(["--cert", certificate, "--key", key]);
        }
        let (code, _, status, said) = curl(
            &server,
            &format!("/v1/tables/{table}/rows?mode=upsert"),
            &arguments,
        );
        (code, status, said)
    };
    for version in ["--http1.1", "--http2"] {
        for (name, table, wanted) in [
            (Some("gate"), "a", Some("200")),
            (Some("gate"), "b", Some("403")),
            // Of the authority, but nobody's.
            (Some("unnamed"), "a", Some("401")),
            // These come to no request at all.
            (Some("late"), "a", None),
            (Some("stranger"), "a", None),
            (None, "a", None),
        ] {
            let (code, status, said) = ask(name, table, version);
            match wanted {
                Some(wanted) => assert_eq!((code, status.as_str()), (0, wanted), "{name:?} {table}: {said}"),
                None => assert!(code != 0 && status == "000", "{name:?}: {code} {status} {said}"),
            }
        }
    }
    let root = format!("@{ca}");
    let by = |name: &str, table: &str| {
        let (certificate, key) = (
            format!("@{}", authority.file(name, "pem")),
            format!("@{}", authority.file(name, "key")),
        );
        let options = [
            ("client_option.tls_root_certs", root.as_str()),
            ("client_option.mtls_cert_chain", &certificate),
            ("client_option.mtls_private_key", &key),
        ];
        ingest(&server, table, &options)
    };
    by("gate", "a").expect("it is done");
    assert!(by("gate", "b").expect_err("no right").contains("no right"));
    by("unnamed", "a").expect_err("nobody's");
    by("late", "a").expect_err("it has expired");
    server.stop().expect(0);
    assert_eq!(place.sql("SELECT id FROM a ORDER BY id"), ["1", "90"]);
    assert_eq!(place.sql("SELECT count(*) FROM b"), ["0"]);
}

/// The serial number of the certificate that a new connection gets.
fn serial(server: &Serve) -> String {
    let script = format!(
        "openssl s_client -connect {} -alpn h2 </dev/null 2>/dev/null | openssl x509 -noout -serial",
        server.address()
    );
    let ran = Command::new("sh")
        .args(["-c", &script])
        .output()
        .expect("it runs");
    String::from_utf8_lossy(&ran.stdout).trim().to_owned()
}

#[test]
fn certificates_and_tokens_are_replaced_under_load() {
    let place = TestDatabase::with(Database::Sqlite, TABLES, &[]);
    let authority = Authority::new(&place.path(""), "authority");
    // The one that it starts with has expired: clients say so, until there is a better one.
    for (name, days) in [("old", -1), ("one", 5), ("two", 5)] {
        authority.certify(name, days);
    }
    let copy = |from: &str| {
        for ending in ["pem", "key"] {
            fs::copy(authority.file(from, ending), authority.file("server", ending)).expect("a copy");
        }
    };
    copy("old");
    let (stays, goes, comes) = (token(), token(), token());
    let configure = |other: &str| {
        let text = format!(
            "{}[tokens.stays]\nsha256 = \"{}\"\nwrite = [\"a\"]\n[tokens.other]\nsha256 = \"{other}\"\nwrite = [\"b\"]\n",
            listening(&authority, "server", ""),
            stays.1
        );
        written(&place, &text)
    };
    let file = configure(&goes.1);
    let server = Arc::new(Serve::start(&["--config", &file]));
    let ca = authority.file("authority", "pem");
    assert_eq!(
        curl(&server, "/livez", &["--cacert", &ca]).0,
        60,
        "it has expired"
    );
    let reload = |times: usize| {
        let read = || server.said().matches("read again").count();
        let before = read();
        server.signal(1);
        while read() < before + times {
            thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    copy("one");
    reload(1);
    let first = serial(&server);
    // Each sends on connections of its own, and on one that lasts.
    let (done, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let senders: Vec<_> = (0..3)
        .map(|number| {
            let (done, sent, server, ca) = (done.clone(), sent.clone(), server.clone(), ca.clone());
            let bearer = format!("Authorization: Bearer {}", stays.0);
            thread::spawn(move || {
                let mut id = number * 1_000_000;
                while !done.load(Ordering::Relaxed) {
                    let mut command = Command::new("curl");
                    command.args(["-s", "-w", "%{http_code} %{num_connects}\n", "-o", "/dev/null"]);
                    let version = if number == 0 { "--http1.1" } else { "--http2" };
                    let first = id + 1;
                    for _ in 0..20 {
                        id += 1;
                        if id > first {
                            command.args([
                                "--next",
                                "-s",
                                "-w",
                                "%{http_code} %{num_connects}\n",
                                "-o",
                                "/dev/null",
                            ]);
                        }
                        command.args([
                            version,
                            "--cacert",
                            &ca,
                            "-H",
                            &bearer,
                            "-H",
                            "Content-Type: application/json",
                        ]);
                        command.args(["-d", &format!("{{\"id\":{id}}}")]);
                        command.arg(format!("https://{}/v1/tables/a/rows", server.address()));
                    }
                    let ran = command.output().expect("curl runs");
                    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
                    let good = said.lines().filter(|line| line.starts_with("200 ")).count();
                    assert_eq!(good, 20, "{said}");
                    assert!(said.contains("200 0"), "a connection is used again: {said}");
                    sent.fetch_add(20, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let by = |token: &str| {
        let bearer = format!("Authorization: Bearer {token}");
        let body = ["-H", "Content-Type: application/json", "-d", "{\"id\":1}"];
        let arguments = [&["--cacert", &ca, "-H", &bearer], &body[..]].concat();
        curl(&server, "/v1/tables/b/rows?mode=upsert", &arguments).2
    };
    for round in 0..6 {
        let before = sent.load(Ordering::Relaxed);
        let is_even = round % 2 == 0;
        copy(if is_even { "two" } else { "one" });
        configure(if is_even { &comes.1 } else { &goes.1 });
        reload(1);
        assert_eq!(
            serial(&server) == first,
            !is_even,
            "the certificate is the new one"
        );
        let (valid, void) = if is_even {
            (&comes.0, &goes.0)
        } else {
            (&goes.0, &comes.0)
        };
        assert_eq!((by(valid).as_str(), by(void).as_str()), ("200", "401"));
        while sent.load(Ordering::Relaxed) < before + 40 {
            assert!(
                !senders.iter().any(|sender| sender.is_finished()),
                "a sender has failed"
            );
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }
    // What cannot be read changes nothing.
    fs::write(authority.file("server", "pem"), "no certificate").expect("a file");
    reload(1);
    assert!(
        server.said().contains("nothing was read again"),
        "{}",
        server.said()
    );
    assert_eq!(serial(&server), first);
    done.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.join().expect("none was lost");
    }
    let server = Arc::into_inner(server).expect("nobody else has it");
    server.stop().expect(0);
    assert_eq!(
        place.sql("SELECT count(*) FROM a"),
        [sent.load(Ordering::Relaxed).to_string()]
    );
}

#[test]
fn off_loopback_it_starts_with_tls_and_tokens_or_where_it_is_told_to() {
    let place = TestDatabase::with(Database::Sqlite, TABLES, &[]);
    let authority = Authority::new(&place.path(""), "authority");
    authority.certify("server", 5);
    let (token, hash) = token();
    let tls = listening(&authority, "server", "").replace("127.0.0.1", "0.0.0.0");
    let plain = "[[listen]]\naddress = \"0.0.0.0:0\"\n";
    let tokens = format!("[tokens.a]\nsha256 = \"{hash}\"\nread = [\"a\"]\n");
    for (text, said) in [
        (plain.to_owned(), "has no TLS"),
        (format!("{plain}{tokens}"), "has no TLS"),
        (tls.clone(), "there are no tokens"),
    ] {
        let ran = tonnage()
            .args(["serve", "--config", &written(&place, &text)])
            .output()
            .expect("it runs");
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{text}: {stderr}");
        assert!(
            stderr.contains(said) && stderr.contains("--insecure"),
            "{text}: {stderr}"
        );
    }
    let here = |server: &Serve| server.address().replace("0.0.0.0", "127.0.0.1");
    let server = Serve::start(&["--config", &written(&place, &format!("{tls}{tokens}"))]);
    let ran = Command::new("curl")
        .args(["-s", "--cacert", &authority.file("authority", "pem")])
        .args(["-H", &format!("Authorization: Bearer {token}")])
        .arg(format!("https://{}/v1/tables/a", here(&server)))
        .output()
        .expect("curl runs");
    assert!(
        String::from_utf8_lossy(&ran.stdout).contains("\"table\":\"a\""),
        "{ran:?}"
    );
    server.stop().expect(0);
    let server = Serve::start(&[
        &url(&place),
        "--insecure",
        "--listen",
        "0.0.0.0:0",
        "--state",
        &state(&place).display().to_string(),
    ]);
    let ran = Command::new("curl")
        .args(["-s", "-w", "%{http_code}", "-o", "/dev/null"])
        .arg(format!("http://{}/v1/tables", here(&server)))
        .output()
        .expect("curl runs");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "200");
    server.stop().expect(0);
}
