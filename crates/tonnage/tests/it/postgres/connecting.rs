//! Sessions: TLS, passwords, and what is said when one cannot be had.

use tonnage::{
    Database, ErrorKind,
    operation::{Durability, Method},
    plan::RejectsMax,
    targets::DRIVERS,
};

use super::{Server, TestDatabase, connect, session, url, variable};

on_every_server! {
    what_sessions_begin_with_has_no_say,
}

/// The parts of the test cluster's URL.
fn parts() -> (String, String, u16) {
    let url = url();
    let rest = url.strip_prefix("postgresql://").unwrap();
    let (login, rest) = rest.split_once('@').unwrap();
    let (user, password) = login.split_once(':').unwrap();
    let port = rest.split_once('/').unwrap().0.rsplit_once(':').unwrap().1;
    (user.to_owned(), password.to_owned(), port.parse().unwrap())
}

async fn refused(url: &str) -> (String, Option<String>, ErrorKind) {
    let error = connect(url)
        .await
        .err()
        .unwrap_or_else(|| panic!("{url} was let in"));
    let (_, password, _) = parts();
    assert!(
        !format!("{error} {error:?}").contains(&password),
        "the password is shown"
    );
    (
        error.to_string(),
        error.hint_text().map(str::to_owned),
        error.kind(),
    )
}

#[tokio::test]
async fn a_target_says_what_it_is() {
    let target = connect(&url()).await.unwrap();
    let capabilities = target.capabilities();
    let (name, version) = capabilities.product.split_once(' ').unwrap();
    assert_eq!(name, "PostgreSQL");
    assert!(
        version.split('.').all(|part| part.parse::<u32>().is_ok()),
        "{version}"
    );
    assert_eq!(
        capabilities.durability,
        [Durability::Relaxed, Durability::Durable]
    );
}

#[tokio::test]
async fn a_socket_needs_no_password_and_the_session_has_a_name() {
    let (user, _, port) = parts();
    let socket = variable("TONNAGE_TEST_POSTGRES_SOCKET");
    let encoded = socket.replace('/', "%2F");
    let urls = [
        format!("postgresql:///postgres?host={socket}&port={port}&user={user}"),
        format!("postgres://{user}@{encoded}:{port}/postgres?sslmode=require"),
    ];
    let admin = session(&super::url()).await;
    for url in urls {
        let target = connect(&url).await.unwrap_or_else(|e| panic!("{url}: {e}"));
        let row = admin
            .query_one(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tonnage' AND client_addr IS NULL",
                &[],
            )
            .await
            .unwrap();
        assert!(row.get::<_, i64>(0) > 0);
        drop(target);
    }
}

#[tokio::test]
async fn tls_is_as_strict_as_it_is_asked_to_be() {
    let (user, password, port) = parts();
    let authority = variable("TONNAGE_TEST_POSTGRES_CA");
    let server = variable("TONNAGE_TEST_POSTGRES_DATA");
    let directory = tempfile::tempdir().unwrap();
    let wrong = directory.path().join("wrong.crt");
    make_authority(&wrong);
    let wrong = wrong.to_str().unwrap().to_owned();
    let base = |host: &str| format!("postgresql://{user}:{password}@{host}:{port}/postgres");

    let admin = session(&url()).await;
    let accepted = [
        ("127.0.0.1", "sslmode=disable".to_owned(), false),
        ("127.0.0.1", "sslmode=allow".to_owned(), false),
        ("127.0.0.1", "sslmode=prefer".to_owned(), true),
        ("127.0.0.1", "sslmode=require".to_owned(), true),
        (
            "127.0.0.1",
            format!("sslmode=verify-ca&sslrootcert={authority}"),
            true,
        ),
        (
            "127.0.0.1",
            format!("sslmode=verify-full&sslrootcert={authority}"),
            true,
        ),
        (
            "localhost",
            format!("sslmode=verify-full&sslrootcert={authority}"),
            true,
        ),
        // Another name for the same address: verify-ca does not mind.
        (
            "elsewhere.example",
            format!("hostaddr=127.0.0.1&sslmode=verify-ca&sslrootcert={authority}"),
            true,
        ),
    ];
    for (number, (host, options, encrypted)) in accepted.iter().enumerate() {
        let name = format!("tls_{number}_{}", std::process::id());
        let target = connect(&format!("{}?{options}&application_name={name}", base(host)))
            .await
            .unwrap_or_else(|e| panic!("{host} {options}: {e} {e:?}"));
        let row = admin
            .query_one(
                "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = $1",
                &[&name],
            )
            .await
            .unwrap();
        assert_eq!(row.get::<_, bool>(0), *encrypted, "{options}");
        drop(target);
    }

    let hint =
        "check sslmode and sslrootcert; the certificate must be signed by sslrootcert and name the host";
    let failures = [
        (
            format!(
                "{}?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert={authority}",
                base("elsewhere.example")
            ),
            format!(
                "TLS with elsewhere.example:{port} failed: the server's certificate is made out to another host"
            ),
            hint,
        ),
        (
            format!("{}?sslmode=verify-ca&sslrootcert={wrong}", base("127.0.0.1")),
            format!(
                "TLS with 127.0.0.1:{port} failed: the server's certificate is not signed by the given authority"
            ),
            hint,
        ),
        // As libpq: with an authority, require verifies.
        (
            format!("{}?sslmode=require&sslrootcert={wrong}", base("127.0.0.1")),
            format!(
                "TLS with 127.0.0.1:{port} failed: the server's certificate is not signed by the given authority"
            ),
            hint,
        ),
        (
            format!("{}?sslmode=verify-full", base("127.0.0.1")),
            "sslmode verify-ca and verify-full need the authority's certificate".to_owned(),
            "add sslrootcert=PATH to the URL or set PGSSLROOTCERT",
        ),
        (
            format!(
                "{}?sslmode=verify-full&sslrootcert={server}/PG_VERSION",
                base("127.0.0.1")
            ),
            format!("cannot read the certificate {server}/PG_VERSION: it holds none"),
            "sslrootcert names a file of PEM certificates",
        ),
    ];
    for (url, message, hint) in failures {
        let (found, found_hint, kind) = refused(&url).await;
        assert_eq!(
            (found, found_hint.as_deref(), kind),
            (message, Some(hint), ErrorKind::Config)
        );
    }
}

#[tokio::test]
async fn a_client_certificate_proves_who_we_are() {
    use std::os::unix::fs::PermissionsExt;
    let (_, _, port) = parts();
    let authority = variable("TONNAGE_TEST_POSTGRES_CA");
    let directory = tempfile::tempdir().unwrap();
    let certificate = directory.path().join("client.crt").display().to_string();
    let key = directory.path().join("client.key").display().to_string();
    let made = std::process::Command::new("sh")
        .current_dir(&directory)
        .arg("-ec")
        .arg(format!(
            "openssl req -newkey rsa:2048 -nodes -subj /CN=tonnage_certified -keyout client.key -out client.csr
             openssl x509 -req -in client.csr -CA {authority} -CAkey {} -set_serial 7 -days 2 -out client.crt",
            authority.replace("ca.crt", "ca.key")
        ))
        .output()
        .expect("openssl is there, scripts/with-servers needs it too");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let protect = |mode: u32| {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    protect(0o600);
    let admin = session(&url()).await;
    admin
        .batch_execute("DROP ROLE IF EXISTS tonnage_certified; CREATE ROLE tonnage_certified LOGIN")
        .await
        .unwrap();
    let base = format!("postgresql://tonnage_certified@127.0.0.1:{port}/postgres");
    // The server insists on TLS for this role, which is where allow differs from disable.
    for mode in ["allow", "prefer", "require", "verify-ca", "verify-full"] {
        let url = format!("{base}?sslmode={mode}&sslrootcert={authority}&sslcert={certificate}&sslkey={key}");
        connect(&url)
            .await
            .unwrap_or_else(|e| panic!("{mode}: {e} {e:?}"));
    }
    let url = format!("{base}?sslmode=require&sslcert={certificate}");
    let (message, hint, _) = refused(&url).await;
    assert_eq!(
        message,
        format!("the client certificate {certificate} has no key")
    );
    assert_eq!(
        hint.as_deref(),
        Some("add sslkey=PATH to the URL or set PGSSLKEY")
    );
    protect(0o644);
    let (message, hint, _) = refused(&format!("{url}&sslkey={key}")).await;
    assert_eq!(
        message,
        format!("the private key {key} can be read by group or others")
    );
    assert_eq!(hint, Some(format!("chmod 0600 {key}")));
    let (message, _, kind) = refused(&format!("{base}?sslmode=require")).await;
    assert!(message.contains("certificate"), "{message}");
    assert_eq!(kind, ErrorKind::Config);
    let (message, ..) = refused(&format!("{base}?sslmode=disable")).await;
    assert!(
        message.starts_with(&format!("cannot connect to 127.0.0.1:{port}: ")),
        "{message}"
    );
}

/// A certificate of an authority that has signed nothing.
fn make_authority(path: &std::path::Path) {
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=another authority",
        ])
        .args(["-keyout", "/dev/null", "-out"])
        .arg(path)
        .output()
        .expect("openssl is there, scripts/with-servers needs it too");
    assert!(made.status.success());
}

#[tokio::test]
async fn a_wrong_password_says_where_it_came_from() {
    let (user, _, port) = parts();
    let (message, hint, kind) =
        refused(&format!("postgresql://{user}:wr%2Fong@127.0.0.1:{port}/postgres")).await;
    assert_eq!(
        message,
        format!(
            "password authentication failed for user \"{user}\" at 127.0.0.1:{port} (password from the URL)"
        )
    );
    assert_eq!(
        hint.as_deref(),
        Some("check the password in the URL; special characters are written as %XX")
    );
    assert_eq!(kind, ErrorKind::Config);
}

#[tokio::test]
async fn a_missing_password_is_found_in_the_password_file() {
    use std::os::unix::fs::PermissionsExt;
    let (user, password, port) = parts();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pass word");
    let shown = file.to_str().unwrap().to_owned();
    let url = format!(
        "postgresql://{user}@127.0.0.1:{port}/postgres?passfile={}",
        shown.replace(' ', "%20")
    );
    let write = |text: &str, mode: u32| {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    write(
        &format!("# ours\nelsewhere:*:*:*:no\n127.0.0.1:{port}:*:{user}:{password}\n*:*:*:*:late\n"),
        0o600,
    );
    connect(&url).await.unwrap();
    write(&format!("*:*:*:*:{password}\n"), 0o640);
    let (message, hint, _) = refused(&url).await;
    assert_eq!(
        message,
        format!("password authentication failed for user \"{user}\" at 127.0.0.1:{port} (none was given)")
    );
    assert_eq!(
        hint.as_deref(),
        Some("set PGPASSWORD, or add a line host:port:database:user:password to ~/.pgpass (mode 0600)")
    );
    write("*:*:*:*:wrong\n", 0o600);
    let (message, ..) = refused(&url).await;
    assert_eq!(
        message,
        format!(
            "password authentication failed for user \"{user}\" at 127.0.0.1:{port} (password from {shown})"
        )
    );
}

#[tokio::test]
async fn a_refused_connection_says_where() {
    // Bound but not listening, so that nobody else takes the port.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    let (message, hint, kind) = refused(&format!("postgresql://anna@127.0.0.1:{port}/shop")).await;
    assert_eq!(
        message,
        format!("cannot connect to 127.0.0.1:{port}: connection refused")
    );
    assert_eq!(
        hint.as_deref(),
        Some("is the server running, and does it listen there? check host and port")
    );
    assert_eq!(kind, ErrorKind::Unsent);
    let (message, ..) = refused("postgresql://anna@/shop?host=/nowhere").await;
    assert_eq!(
        message,
        "cannot connect to /nowhere/.s.PGSQL.5432: no such socket"
    );
}

#[tokio::test]
async fn the_next_host_is_tried() {
    let (user, password, port) = parts();
    let url = format!(
        "postgresql://{user}:{password}@127.0.0.1:1,127.0.0.1:{port}/postgres?target_session_attrs=read-write"
    );
    connect(&url).await.unwrap();
}

#[tokio::test]
async fn an_unknown_database_is_named() {
    let (user, password, port) = parts();
    let (message, hint, kind) =
        refused(&format!("postgresql://{user}:{password}@127.0.0.1:{port}/shop")).await;
    assert_eq!(
        message,
        format!("database \"shop\" does not exist at 127.0.0.1:{port}")
    );
    assert_eq!(
        hint,
        Some(format!(
            "the database is the last part of the URL: postgresql://127.0.0.1:{port}/NAME"
        ))
    );
    assert_eq!(kind, ErrorKind::Config);
}

#[tokio::test]
async fn a_lost_session_is_opened_again() {
    let place = TestDatabase::on(Server::System).await;
    place.run("CREATE TABLE t (id int8)").await;
    place.table("t").await;
    let name = format!("lost_{}", place.schema);
    let target = connect(&format!("{}&application_name={name}", place.url))
        .await
        .unwrap();
    place
        .run(&format!(
            "SELECT pg_terminate_backend(pid, 600000) FROM pg_stat_activity WHERE application_name = '{name}'"
        ))
        .await;
    let name = "t".parse().unwrap();
    let mut found = target.table(&name).await;
    // The session may die in our hands once.
    if found.as_ref().is_err_and(|e| e.kind() == ErrorKind::Unsent) {
        found = target.table(&name).await;
    }
    assert!(found.unwrap().is_some());
}

#[test]
fn a_url_is_shown_without_its_password() {
    let redact = DRIVERS
        .iter()
        .find(|d| d.schemes.contains(&"postgres"))
        .unwrap()
        .redact;
    let cases = [
        (
            "postgresql://u:secret@h:1/d?sslmode=require",
            "postgresql://u:***@h:1/d?sslmode=require",
        ),
        ("postgres://u@h/d", "postgres://u@h/d"),
        ("postgres://h/d", "postgres://h/d"),
        ("postgres://u:s%40cr:et@h1,h2/d", "postgres://u:***@h1,h2/d"),
        ("postgres://u:sec@ret@h/d", "postgres://u:***@h/d"),
        ("postgres://u:sec/ret@h/d", "postgres://u:***@h/d"),
        (
            "postgres:///d?user=u&password=secret&port=1",
            "postgres:///d?user=u&password=***&port=1",
        ),
        ("postgres:///d?pass%77ord=secret", "postgres:///d?pass%77ord=***"),
    ];
    for (url, shown) in cases {
        assert_eq!(redact(url), shown);
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_waited_for_no_longer_than_asked() {
    // It takes connections, as every listener does, and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = format!("postgresql://anna@127.0.0.1:{port}/shop?sslmode=disable&connect_timeout=2");
    let connecting = tokio::time::timeout(std::time::Duration::from_secs(60), refused(&url));
    let (message, hint, kind) = connecting.await.expect("connecting has an end");
    assert_eq!(
        message,
        format!("cannot connect to 127.0.0.1:{port}: no answer within 2 s")
    );
    assert!(hint.is_some_and(|hint| hint.contains("connect_timeout")));
    assert_eq!(kind, ErrorKind::Unsent);
}

/// What a role's sessions begin with must not decide on what is written or read.
async fn what_sessions_begin_with_has_no_say(server: Server) {
    let place = TestDatabase::on(server).await;
    let role = format!("hostile_{}", place.schema);
    let styles = [
        "datestyle = 'German, DMY'",
        "intervalstyle = 'sql_standard'",
        "timezone = 'Asia/Tokyo'",
        "extra_float_digits = -15",
        "bytea_output = 'escape'",
        "xmloption = 'document'",
        "xmlbinary = 'hex'",
        "array_nulls = 'off'",
        "transform_null_equals = 'on'",
        "standard_conforming_strings = 'off'",
        "escape_string_warning = 'off'",
        "quote_all_identifiers = 'on'",
        "gin_fuzzy_search_limit = 3",
        "enable_seqscan = 'off'",
        "default_transaction_isolation = 'serializable'",
        "default_transaction_deferrable = 'on'",
        "exit_on_error = 'on'",
        "session_replication_role = 'replica'",
        "synchronous_commit = 'off'",
        "client_encoding = 'LATIN1'",
    ];
    let set: Vec<_> = styles
        .iter()
        .map(|style| format!("ALTER ROLE {role} SET {style}"))
        .collect();
    place
        .run(&format!(
            "CREATE ROLE {role} SUPERUSER LOGIN PASSWORD 'p'; {};
             CREATE TABLE kept (id int8);
             CREATE TABLE t (id int8 PRIMARY KEY CHECK (id < 3001), f float8, fs float8[], i interval, y bytea[],
                 d date[], tz timestamptz[], r tstzrange, x xml, ints int4[], n text[], s text DEFAULT 'none');
             CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS
                 $$BEGIN INSERT INTO kept VALUES (new.id); RETURN NULL; END$$;
             CREATE TABLE plain (LIKE t INCLUDING ALL); CREATE TABLE upserted (LIKE t INCLUDING ALL);
             CREATE TRIGGER keeps AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION keep();
             CREATE INDEX by_ints ON plain USING gin (ints)",
            set.join("; ")
        ))
        .await;
    let (_, address) = place.url.rsplit_once('@').unwrap();
    let hostile = Database::connect(&format!("postgresql://{role}:p@{address}"))
        .await
        .unwrap();
    let plain = Database::connect(&place.url).await.unwrap();

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.jsonl");
    let mut rows = String::new();
    for id in 1..=3_001 {
        rows.push_str(&format!(
            "{{\"id\": {id}, \"f\": {}, \"fs\": \"{{0.1,{}}}\", \"i\": \"-1 day 02:00:00\", \"y\": \"{{\\\"\\\\\\\\x005c\\\"}}\", \
             \"d\": [\"2020-02-01\"], \"tz\": [\"2020-02-01T00:00:00Z\"], \"r\": \"[2020-02-01 00:00Z,)\", \
             \"x\": \"text <b/>\", \"ints\": \"{{1,NULL}}\", \"n\": \"{{NULL,a}}\", \"s\": \"\\\\é'{id}\"}}\n",
            id as f64 / 7.0,
            id as f64 / 3.0
        ));
    }
    std::fs::write(&file, rows).unwrap();
    let path = file.display().to_string();
    for (db, table) in [(&plain, "plain"), (&hostile, "t"), (&hostile, "upserted")] {
        let load = db
            .load(&path)
            .table(table)
            .rejects(directory.path().join(table), RejectsMax::Rows(5));
        let load = match table {
            "upserted" => load.upsert(["id"]).method(Method::Array),
            _ => load,
        };
        let report = load.run().await.unwrap_or_else(|e| panic!("{table}: {e}"));
        assert_eq!((report.rows.written, report.rows.rejected), (3_000, 1), "{table}");
    }
    let all = |table: &str| format!("SELECT x::text FROM {table} x ORDER BY id");
    let wanted = place.texts(&all("plain")).await;
    for table in ["t", "upserted"] {
        assert!(place.texts(&all(table)).await == wanted, "{table}");
    }
    assert_eq!(
        place.number("SELECT count(*) FROM kept").await,
        3_000,
        "triggers fire"
    );

    let mut files = Vec::new();
    for (name, db) in [("plain", &plain), ("hostile", &hostile)] {
        let path = directory.path().join(format!("{name}.csv"));
        let unload = db
            .unload("plain")
            .filter("ints @> '{1}' AND s = '\\é''' || id")
            .jobs(2);
        assert_eq!(unload.to(&path).run().await.unwrap().rows, 3_000, "{name}");
        let mut lines: Vec<_> = std::fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        let unload = db.unload("plain").filter("s = NULL");
        assert_eq!(
            unload.to(&path).overwrite().run().await.unwrap().rows,
            0,
            "{name}"
        );
        let keys: Vec<String> = (2_000..4_000).map(|key: i32| key.to_string()).collect();
        let got = crate::gets::collect(db.bulk_get("plain").keys(keys))
            .await
            .unwrap();
        assert_eq!((got.rows.len(), got.missing.len()), (1_001, 999), "{name}");
        lines.extend(got.rows);
        files.push(lines);
    }
    for (one, other) in files[0].iter().zip(&files[1]) {
        assert_eq!(one, other, "what was read depends on the session");
    }
    assert_eq!(files[0].len(), files[1].len());
    // A role of the user's own choosing stays.
    let asked = format!("{}%20-csession_replication_role%3Dreplica", place.url);
    let asked = Database::connect(&asked).await.unwrap();
    place.run("TRUNCATE t, kept").await;
    let load = asked
        .load(&path)
        .table("t")
        .options(|options| options.limit = Some(10));
    load.run().await.unwrap();
    assert_eq!(place.number("SELECT count(*) FROM kept").await, 0);
    place
        .run(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await;
}
