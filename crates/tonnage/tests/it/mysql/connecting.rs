//! Coming in: by TCP, socket and TLS, and what is said where one does not.

use mysql_async::prelude::Queryable;
use tonnage::{Database, ErrorKind, plan::RejectsMax};

use super::{Server, TestDatabase, connect, server, session, variable};

/// The URL of the test server's database, with what `edit` makes of it.
fn url(edit: impl Fn(&str) -> String) -> String {
    edit(&format!("{}/tonnage", server()))
}

fn address() -> String {
    let server = server();
    server.rsplit_once('@').expect("a URL with a user").1.to_owned()
}

async fn refused(url: &str) -> (ErrorKind, String) {
    let error = connect(url)
        .await
        .err()
        .unwrap_or_else(|| panic!("{url} was let in"));
    assert!(!error.to_string().contains("wrong-secret"));
    (error.kind(), error.to_string())
}

/// The path of a certificate that nobody has signed.
fn stranger(directory: &tempfile::TempDir) -> String {
    let stranger = directory.path().join("stranger.crt");
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "1",
            "-subj",
            "/CN=stranger",
            "-keyout",
        ])
        .arg(directory.path().join("key"))
        .arg("-out")
        .arg(&stranger)
        .output()
        .unwrap();
    assert!(made.status.success());
    stranger.display().to_string()
}

#[tokio::test]
async fn by_tcp_by_socket_and_under_tls() {
    let socket = variable("TONNAGE_TEST_MARIADB_SOCKET");
    let authority = variable("TONNAGE_TEST_POSTGRES_CA");
    let server = server();
    let (login, _) = server.split_once('@').unwrap();
    for url in [
        url(str::to_owned),
        url(|url| format!("{url}?sslmode=disable")),
        url(|url| format!("{url}?sslmode=allow")),
        url(|url| format!("{url}?sslmode=require")),
        url(|url| format!("{url}?sslmode=verify-ca&sslrootcert={authority}")),
        url(|url| format!("{url}?sslmode=verify-full&sslrootcert={authority}")),
        url(|url| url.replace("mariadb://", "mysql://")),
        format!("{login}@/tonnage?socket={socket}"),
    ] {
        let target = connect(&url).await.unwrap_or_else(|e| panic!("{url}: {e} {e:?}"));
        assert!(target.capabilities().product.starts_with("MariaDB 1"), "{url}");
    }
    // A user who must come by TLS does, without being told to.
    let mut admin = session("tonnage").await;
    admin
        .query_drop("CREATE OR REPLACE USER tls_only@'%' IDENTIFIED BY 'p' REQUIRE SSL")
        .await
        .unwrap();
    admin
        .query_drop("GRANT ALL ON tonnage.* TO tls_only@'%'")
        .await
        .unwrap();
    let own = format!("mariadb://tls_only:p@{}/tonnage", address());
    for mode in ["", "?sslmode=allow", "?sslmode=require"] {
        connect(&format!("{own}{mode}"))
            .await
            .map(drop)
            .unwrap_or_else(|e| panic!("{mode}: {e}"));
    }
    assert_eq!(
        refused(&format!("{own}?sslmode=disable")).await.0,
        ErrorKind::Config
    );
}

#[tokio::test]
async fn mistakes_are_told_by_where_they_were_made() {
    let address = address();
    let (host, port) = address.split_once(':').unwrap();
    let (kind, message) = refused(&format!("mariadb://tonnage:wrong-secret@{address}/tonnage")).await;
    assert_eq!(kind, ErrorKind::Config);
    assert_eq!(
        message,
        format!("access denied for user \"tonnage\" at {address} (password from the URL)")
    );
    let (kind, message) = refused(&format!("{}/nowhere", server())).await;
    assert_eq!(kind, ErrorKind::Config);
    assert_eq!(
        message,
        format!("database \"nowhere\" does not exist at {address}")
    );
    let (kind, message) = refused(&format!("mariadb://tonnage@{host}:1/tonnage")).await;
    assert_eq!(kind, ErrorKind::Unsent);
    assert_eq!(message, format!("cannot connect to {host}:1: connection refused"));
    let (kind, message) = refused("mariadb://tonnage@/tonnage?socket=/nowhere/at.all").await;
    assert_eq!(kind, ErrorKind::Unsent);
    assert_eq!(message, "cannot connect to /nowhere/at.all: no such socket");
    // The certificate is made out to localhost and 127.0.0.1; another authority did not sign it.
    let directory = tempfile::tempdir().unwrap();
    let stranger = stranger(&directory);
    let url = format!(
        "{}/tonnage?sslmode=verify-full&sslrootcert={}",
        server(),
        stranger
    );
    let (kind, message) = refused(&url).await;
    assert_eq!(kind, ErrorKind::Config);
    assert_eq!(
        message,
        format!("TLS with {address} failed: the server's certificate is not signed by the given authority")
    );
    let authority = variable("TONNAGE_TEST_POSTGRES_CA");
    let url = format!(
        "{}/tonnage?sslmode=verify-full&sslrootcert={authority}",
        server().replace("127.0.0.1", "127.0.0.2")
    );
    // The server listens at 127.0.0.1 only.
    assert_eq!(refused(&url).await.0, ErrorKind::Unsent);
    assert!(port.parse::<u16>().is_ok());
}

#[tokio::test]
async fn a_session_is_strict_whatever_the_server_is_set_to() {
    let place = TestDatabase::new().await;
    let settings = place.target.settings(tonnage::operation::Durability::Durable);
    for wanted in [
        "time_zone = '+00:00'",
        "names = utf8mb4",
        "transaction isolation level = READ COMMITTED",
    ] {
        assert!(settings.iter().any(|line| line == wanted), "{settings:?}");
    }
    assert!(settings[0].starts_with("sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR"));
}

#[tokio::test]
async fn an_authority_vouches_for_a_server_under_another_name() {
    // The certificate is made out to localhost and 127.0.0.1.
    let address = address();
    let listener = tokio::net::TcpListener::bind("127.0.0.2:0").await.unwrap();
    let relayed = listener.local_addr().unwrap().to_string();
    let relay = tokio::spawn({
        let address = address.clone();
        async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut server = tokio::net::TcpStream::connect(&address).await.unwrap();
                tokio::spawn(async move {
                    // An end that is gone is no failure here.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        }
    });
    let authority = variable("TONNAGE_TEST_POSTGRES_CA");
    let url = |mode: &str, authority: &str| {
        let server = server().replace(&address, &relayed);
        format!("{server}/tonnage?sslmode={mode}&sslrootcert={authority}")
    };
    for mode in ["verify-ca", "require"] {
        connect(&url(mode, &authority))
            .await
            .map(drop)
            .unwrap_or_else(|e| panic!("{mode}: {e}"));
    }
    let (kind, message) = refused(&url("verify-full", &authority)).await;
    assert_eq!(kind, ErrorKind::Config);
    assert_eq!(
        message,
        format!("TLS with {relayed} failed: the server's certificate is made out to another host")
    );
    let directory = tempfile::tempdir().unwrap();
    let stranger = stranger(&directory);
    for mode in ["verify-ca", "require"] {
        let (kind, message) = refused(&url(mode, &stranger)).await;
        assert_eq!(kind, ErrorKind::Config);
        assert_eq!(
            message,
            format!(
                "TLS with {relayed} failed: the server's certificate is not signed by the given authority"
            )
        );
    }
    relay.abort();
}

/// What an account's sessions begin with must not decide on what is written or read.
async fn sessions_that_begin_otherwise(server: Server) {
    let place = TestDatabase::on(server).await;
    place
        .run(
            "CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, s varchar(100), at timestamp NOT NULL, f double);\n\
             CREATE TABLE plain LIKE t;\nCREATE TABLE upserted LIKE t",
        )
        .await;
    let user = format!("hostile_{}", place.database);
    place
        .run(&format!(
            "CREATE USER {user}@'%' IDENTIFIED BY 'p';\nGRANT ALL ON {}.* TO {user}@'%'",
            place.database
        ))
        .await;
    // For these users only: others come in meanwhile.
    let begun = "BEGIN NOT ATOMIC IF user() LIKE 'hostile%' THEN SET sql_select_limit = 1, sql_auto_is_null = 1, \
                 sql_safe_updates = 1, max_sort_length = 64, max_error_count = 0, sql_notes = 0, sql_mode = '', \
                 time_zone = '+09:00', group_concat_max_len = 4, sql_quote_show_create = 0, old_mode = 'ZERO_DATE_TIME_CAST', \
                 autocommit = 0, completion_type = 1, foreign_key_checks = 0, unique_checks = 0, check_constraint_checks = 0, \
                 max_recursive_iterations = 1, character_set_client = latin1, character_set_results = latin1, \
                 character_set_connection = latin1, tx_isolation = 'READ-UNCOMMITTED'; END IF; END";
    let mut admin = place.session().await;
    admin
        .exec_drop("SET GLOBAL init_connect = ?", (begun,))
        .await
        .unwrap();
    let (_, address) = place.url.rsplit_once('@').unwrap();
    let hostile = Database::connect(&format!("mariadb://{user}:p@{address}")).await;
    let hostile = hostile.unwrap();
    let plain = Database::connect(&place.url).await.unwrap();

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.csv");
    let mut rows = "id,s,at,f\n".to_owned();
    for id in 1..=3_000 {
        rows.push_str(&format!(
            "{id},{}é{id},2024-02-29 12:00:00Z,{}\n",
            "x".repeat(70),
            id as f64 / 8.0
        ));
    }
    rows.push_str("3001,null,,1\n");
    std::fs::write(&file, rows).unwrap();
    let path = file.display().to_string();
    let mut files = Vec::new();
    for (db, table) in [(&plain, "plain"), (&hostile, "t"), (&hostile, "upserted")] {
        let load = db
            .load(&path)
            .table(table)
            .rejects(directory.path().join(table), RejectsMax::Rows(5));
        let load = match table {
            "upserted" => load.upsert(["id"]),
            _ => load,
        };
        let report = load.run().await.unwrap();
        assert_eq!((report.rows.written, report.rows.rejected), (3_000, 1), "{table}");
    }
    let all = |table: &str| format!("SELECT concat_ws('|', id, s, at, f) FROM {table} ORDER BY id");
    let wanted = place.texts(&all("plain")).await;
    for table in ["t", "upserted"] {
        assert!(place.texts(&all(table)).await == wanted, "{table}");
    }
    for (name, db) in [("plain", &plain), ("hostile", &hostile)] {
        let unload = db.unload("plain").split_by("s").jobs(3);
        let path = directory.path().join(format!("{name}.csv"));
        assert_eq!(unload.to(&path).run().await.unwrap().rows, 3_000, "{name}");
        let mut lines: Vec<_> = std::fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        let query = db.unload_query(
            "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1500) \
             SELECT count(*) AS n, group_concat(i) AS all_of_them FROM n",
        );
        let path = directory.path().join(format!("{name}.query.csv"));
        query.to(&path).run().await.unwrap();
        lines.push(std::fs::read_to_string(&path).unwrap());
        let keys: Vec<String> = (2_000..4_000).map(|key: i32| key.to_string()).collect();
        let got = crate::gets::collect(db.bulk_get("plain").keys(keys))
            .await
            .unwrap();
        assert_eq!((got.rows.len(), got.missing.len()), (1_001, 999), "{name}");
        lines.extend(got.rows);
        files.push(lines);
    }
    assert!(files[0] == files[1], "what was read depends on the session");
    // The ledger and the catalogue are asked by such sessions, too.
    let again = hostile
        .load(&path)
        .table("t")
        .resume()
        .rejects(directory.path().join("t"), RejectsMax::Rows(5));
    let again = again.run().await.unwrap();
    assert_eq!((again.rows.read, again.rows.written), (0, 0), "the run is found");
    assert_eq!(place.number("SELECT count(*) FROM t").await, 3_000);
    place.run(&format!("DROP USER {user}@'%'")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_sessions_begin_with_has_no_say() {
    sessions_that_begin_otherwise(Server::System).await;
    sessions_that_begin_otherwise(Server::Newest).await;
}
