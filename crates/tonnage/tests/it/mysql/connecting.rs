//! Coming in: by TCP, socket and TLS, and what is said where one does not.

use mysql_async::prelude::Queryable;
use tonnage::ErrorKind;

use super::{Place, connect, server, session, variable};

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
    let place = Place::new().await;
    let settings = place.target.settings(tonnage::operation::Durability::Durable);
    for wanted in [
        "time_zone = '+00:00'",
        "names = utf8mb4",
        "transaction isolation level = READ COMMITTED",
    ] {
        assert!(settings.iter().any(|line| line == wanted), "{settings:?}");
    }
    assert!(settings[0].starts_with("sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,"));
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
