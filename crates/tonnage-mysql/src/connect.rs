//! Opening sessions, and saying exactly why one could not be opened.
//!
//! Every session is strict and plain, whatever the server's or the account's defaults: see [`session`].
//!
//! A statement may take hours, so nothing here limits how long an answer takes. That a server is gone without a word is
//! found by the system, which probes a connection that is quiet.

use std::time::Duration;

use mysql_async::{
    ClientIdentity, Conn, DriverError, Error as Failure, IoError, Opts, OptsBuilder, SslOpts, TlsError,
};
use tonnage_core::error::{Error, ErrorKind, Result};
use tonnage_sql::settings::{PasswordOrigin, TlsMode};

use super::{
    errors,
    product::Version,
    session,
    settings::{Endpoint, Settings},
};

/// What the server's count of a statement's rows means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counting {
    /// An update counts the rows that it found.
    Found,
    /// It counts the rows that it changed.
    Changed,
}

/// A connection that is quiet for so long is probed.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

/// Opens a session; of several servers with the one in use, else with the next one that can be used and takes writes.
pub(super) async fn open(settings: &Settings, counting: Counting) -> Result<(Conn, Version)> {
    let (conn, version, _) = open_at(settings, counting).await?;
    Ok((conn, version))
}

/// Likewise, with the settings by which the same server is reached again, and no other one.
pub(super) async fn open_at(settings: &Settings, counting: Counting) -> Result<(Conn, Version, Settings)> {
    let servers = settings.servers();
    if servers == 1 {
        let (conn, version) = open_one(settings, counting).await?;
        return Ok((conn, version, settings.clone()));
    }
    let first = settings.chosen();
    let mut failures = Vec::with_capacity(servers);
    for number in (0..servers).map(|step| (first + step) % servers) {
        let one = settings.of_server(number);
        match open_one(&one, counting).await {
            Ok((_, version)) if version.is_read_only => {
                failures.push(format!("{} takes no writes (read_only)", one.endpoint));
            }
            Ok((conn, version)) => {
                if number != first {
                    tracing::info!("connected to {}: {}", one.endpoint, failures.join("; "));
                    settings.choose(number);
                }
                return Ok((conn, version, one));
            }
            Err(error) if error.kind() == ErrorKind::Unsent => failures.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    let message = format!(
        "none of the {servers} servers can be used: {}",
        failures.join("; ")
    );
    Err(Error::new(ErrorKind::Unsent, message).hint("check hosts, ports and network"))
}

async fn open_one(settings: &Settings, counting: Counting) -> Result<(Conn, Version)> {
    let mut conn = reach(settings, counting).await?;
    let most = settings.connect_timeout;
    let set_up = tokio::time::timeout(most, session::set_up(&mut conn, &settings.endpoint)).await;
    let mut version = set_up.unwrap_or_else(|_| {
        let message = format!(
            "cannot connect to {}: no answer within {} s",
            settings.endpoint,
            most.as_secs()
        );
        Err(Error::new(ErrorKind::Unsent, message)
            .hint("check host, port and network; connect_timeout=SECONDS in the URL waits longer"))
    })?;
    version.tinyint1_is_bool = settings.tinyint1_is_bool;
    Ok((conn, version))
}

async fn reach(settings: &Settings, counting: Counting) -> Result<Conn> {
    // Another part of the program may have chosen one already, which then stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let with = |trust| Some(encryption(settings, trust));
    let reached = match (&settings.endpoint, settings.tls) {
        (Endpoint::Socket(_), _) | (_, TlsMode::Disable) => attempt(settings, counting, None).await,
        (_, TlsMode::Allow) => {
            let plain = attempt(settings, counting, None).await;
            match &plain {
                // A server that insists on TLS, or an account that does: who may not come in without is refused as
                // one who is unknown.
                Err(Failure::Server(server)) if matches!(server.code, 3159 | 1045) => {
                    match attempt(settings, counting, with(Trust::Anyone)).await {
                        Err(failure) if has_no_tls(&failure) => plain,
                        other => other,
                    }
                }
                _ => plain,
            }
        }
        (_, TlsMode::Prefer) => match attempt(settings, counting, with(Trust::Anyone)).await {
            Err(failure) if has_no_tls(&failure) => attempt(settings, counting, None).await,
            other => other,
        },
        // As libpq: with an authority at hand, `require` verifies.
        (_, TlsMode::Require) if settings.root_certificate.is_none() => {
            attempt(settings, counting, with(Trust::Anyone)).await
        }
        (_, TlsMode::Require | TlsMode::VerifyAuthority) => by_authority(settings, counting).await,
        (_, TlsMode::VerifyFull) => attempt(settings, counting, with(Trust::Authority)).await,
    };
    reached.map_err(|failure| explain(settings, failure))
}

fn has_no_tls(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Driver(DriverError::NoClientSslFlagFromServer) | Failure::Io(IoError::Tls(_))
    )
}

/// With a certificate of the authority, whatever host it is made out to. The driver checks both or neither, so where it
/// is made out to another one, that host is what is checked the second time.
async fn by_authority(settings: &Settings, counting: Counting) -> Result<Conn, Failure> {
    let first = attempt(settings, counting, Some(encryption(settings, Trust::Authority))).await;
    match first.as_ref().err().and_then(host_of_certificate) {
        Some(host) => {
            let tls = encryption(settings, Trust::Authority).with_danger_tls_hostname_override(Some(host));
            attempt(settings, counting, Some(tls)).await
        }
        None => first,
    }
}

/// A host that the server's certificate is made out to, where it is not to the one that was meant.
fn host_of_certificate(failure: &Failure) -> Option<String> {
    let Failure::Io(IoError::Io(io)) = failure else {
        return None;
    };
    match io.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(rustls::CertificateError::NotValidForNameContext {
            presented,
            ..
        }) => presented.iter().find_map(|name| {
            let (kind, name) = name.strip_suffix(')')?.split_once('(')?;
            match kind {
                "DnsName" => Some(name.trim_matches('"').replace('*', "any")),
                "IpAddress" => Some(name.to_owned()),
                _ => None,
            }
        }),
        _ => None,
    }
}

/// Who a server has to prove to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    Anyone,
    Authority,
}

fn encryption(settings: &Settings, trust: Trust) -> SslOpts {
    let identity = settings
        .client_certificate
        .clone()
        .map(|(certificate, key)| ClientIdentity::new(certificate.into(), key.into()));
    let options = SslOpts::default().with_client_identity(identity);
    match (trust, &settings.root_certificate) {
        (Trust::Authority, Some(path)) => options
            .with_disable_built_in_roots(true)
            .with_root_certs(vec![path.clone().into()]),
        (Trust::Authority, None) => options,
        (Trust::Anyone, _) => options.with_danger_accept_invalid_certs(true),
    }
}

/// With the name of the host that is meant, where the connection is not made to it but to a place that passes on to it.
fn by_name(settings: &Settings, tls: SslOpts) -> SslOpts {
    match (&settings.endpoint, settings.way) {
        (Endpoint::Tcp { host, .. }, Some(_)) if tls.tls_hostname_override().is_none() => {
            tls.with_danger_tls_hostname_override(Some(host.clone()))
        }
        _ => tls,
    }
}

async fn attempt(settings: &Settings, counting: Counting, tls: Option<SslOpts>) -> Result<Conn, Failure> {
    let mut options = OptsBuilder::default()
        .user(Some(&settings.user))
        .pass(Some(&settings.password.0).filter(|password| !password.is_empty()))
        .db_name(Some(&settings.database))
        // The address given is the one that is meant, also where the server knows a shorter way.
        .prefer_socket(false)
        .client_found_rows(counting == Counting::Found)
        .stmt_cache_size(0)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(KEEPALIVE_IDLE))
        .ssl_opts(tls.map(|tls| by_name(settings, tls)));
    options = match (&settings.endpoint, settings.way) {
        (Endpoint::Tcp { .. }, Some(way)) => {
            options.ip_or_hostname(way.ip().to_string()).tcp_port(way.port())
        }
        (Endpoint::Tcp { host, port }, None) => options.ip_or_hostname(host).tcp_port(*port),
        (Endpoint::Socket(path), _) => options.socket(Some(path.to_string_lossy())),
    };
    match tokio::time::timeout(settings.connect_timeout, Conn::new(Opts::from(options))).await {
        Ok(reached) => reached,
        Err(_) => Err(Failure::Io(IoError::Io(std::io::ErrorKind::TimedOut.into()))),
    }
}

/// What went wrong, where, and what to do.
fn explain(settings: &Settings, failure: Failure) -> Error {
    let endpoint = &settings.endpoint;
    match &failure {
        Failure::Server(server) => match server.code {
            1045 | 1698 => {
                let origin = &settings.password_origin;
                Error::config(format!(
                    "access denied for user \"{}\" at {endpoint} ({origin})",
                    settings.user
                ))
                .hint(password_hint(origin))
                .code(server.code)
            }
            1049 => Error::config(format!(
                "database \"{}\" does not exist at {endpoint}",
                settings.database
            ))
            .hint("the database is the last part of the URL; tonnage does not make databases")
            .code(server.code),
            1044 => Error::config(format!(
                "user \"{}\" may not use database \"{}\" at {endpoint}",
                settings.user, settings.database
            ))
            .code(server.code),
            _ => errors::from_server(server).at(format!("cannot connect to {endpoint}")),
        },
        Failure::Io(IoError::Tls(tls)) => Error::config(format!("TLS with {endpoint} failed: {}", describe_tls(tls)))
            .hint("check sslmode and sslrootcert; the certificate must be signed by sslrootcert and name the host"),
        Failure::Io(IoError::Io(io)) => {
            let message = format!("cannot connect to {endpoint}: {}", errors::describe_io(io));
            let hint = match io.kind() {
                std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::NotFound => {
                    "is the server running, and does it listen there? check host and port"
                }
                _ => "check host, port and network",
            };
            // A certificate's verification fails inside the driver's stream.
            match io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                Some(tls) => Error::config(format!("TLS with {endpoint} failed: {}", describe_rustls(tls))).hint(
                    "check sslmode and sslrootcert; the certificate must be signed by sslrootcert and name the host",
                ),
                None => Error::new(ErrorKind::Unsent, message).hint(hint),
            }
        }
        Failure::Driver(DriverError::NoClientSslFlagFromServer) => {
            Error::config(format!("{endpoint} offers no TLS")).hint("sslmode=prefer or sslmode=disable in the URL goes without")
        }
        Failure::Driver(DriverError::ConnectionClosed) => Error::new(
            ErrorKind::Unsent,
            format!("cannot connect to {endpoint}: the server closed the connection"),
        )
        .hint("is it MariaDB or MySQL that listens there?"),
        other => Error::config(format!("cannot connect to {endpoint}: {other}"))
            .hint("is it MariaDB or MySQL that listens there?"),
    }
    .caused_by(failure)
}

fn password_hint(origin: &PasswordOrigin) -> &'static str {
    match origin {
        PasswordOrigin::None => "set MYSQL_PWD, or password under [client] in ~/.my.cnf (mode 0600)",
        PasswordOrigin::Url => "check the password in the URL; special characters are written as %XX",
        PasswordOrigin::Environment(_) => "check MYSQL_PWD, and that the user is the right one",
        PasswordOrigin::Given(_) => "check the password, and that the user is the right one",
        PasswordOrigin::File(_) => "check the password in that file, and that the user is the right one",
    }
}

fn describe_tls(error: &TlsError) -> String {
    match error {
        TlsError::Tls(error) => describe_rustls(error),
        TlsError::VerifierBuilderError(_) => "sslrootcert holds no certificate".to_owned(),
        other => other.to_string(),
    }
}

fn describe_rustls(error: &rustls::Error) -> String {
    use rustls::{CertificateError as Certificate, Error as Tls};
    match error {
        Tls::InvalidCertificate(Certificate::UnknownIssuer) => {
            "the server's certificate is not signed by the given authority".to_owned()
        }
        Tls::InvalidCertificate(
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. },
        ) => "the server's certificate is made out to another host".to_owned(),
        Tls::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            "the server's certificate has expired".to_owned()
        }
        other => other.to_string(),
    }
}
