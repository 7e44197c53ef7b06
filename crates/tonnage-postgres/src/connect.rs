//! Opening sessions, and saying exactly why one could not be opened.
//!
//! A statement may take hours, so nothing here limits how long an answer takes. A server that is gone without a word is
//! distinguished from a busy one by the system: probes on a quiet connection, and a limit on what was sent and not
//! acknowledged.

use std::{
    error::Error as _,
    time::{Duration, Instant},
};

use tokio_postgres::{CancelToken, Client, Config, NoTls, Socket, config::SslMode, tls::MakeTlsConnect};
use tonnage_core::error::{Error, ErrorKind, Result};
use tonnage_sql::settings::{PasswordOrigin, TlsMode};

use super::{
    errors, pooler, session,
    settings::{Endpoint, Settings},
    tls,
};

/// A connection that is quiet for so long is probed, so often, and lost after so many probes without an answer.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 8;

/// What was sent may stay without the other system's acknowledgement for so long.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(180);

/// How long a server may take to accept that a session's statement is cancelled.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens a session at the first endpoint that takes one. The connection runs until the client is dropped.
pub(super) async fn open(settings: &Settings) -> Result<Client> {
    let (client, endpoint) = first(settings).await?;
    settings.control.check(&client, endpoint).await?;
    Ok(client)
}

/// Opens the session for catalogue and ledger, with which others are compared: see [`pooler`].
pub(super) async fn open_control(settings: &Settings) -> Result<Client> {
    struct At<'a>(&'a Settings, &'a Endpoint);
    impl pooler::Connect for At<'_> {
        async fn another(&self) -> Result<Client> {
            open_at(self.0, self.1).await
        }
    }
    let begun = Instant::now();
    let (client, endpoint) = first(settings).await?;
    let taken = settings
        .control
        .take(&client, endpoint, begun, At(settings, endpoint));
    taken.await?;
    Ok(client)
}

async fn first(settings: &Settings) -> Result<(Client, &Endpoint)> {
    let mut last = None;
    for endpoint in &settings.endpoints {
        match open_at(settings, endpoint).await {
            Ok(client) => {
                session::set_up(&client, settings).await?;
                return Ok((client, endpoint));
            }
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| Error::bug("no PostgreSQL endpoint to connect to")))
}

/// Asks the server to stop what a session does, as far as it can be asked.
pub(super) async fn cancel(settings: &Settings, token: CancelToken) {
    let telling = async {
        match settings.tls {
            TlsMode::Disable | TlsMode::Allow => token.cancel_query(NoTls).await.is_ok(),
            _ => match tls::connector(settings) {
                Ok(connector) => token.cancel_query(connector).await.is_ok(),
                Err(_) => false,
            },
        }
    };
    // A session that cannot be cancelled ends with its statement: nobody here waits for the outcome.
    let _ = tokio::time::timeout(CANCEL_TIMEOUT, telling).await;
}

async fn open_at(settings: &Settings, endpoint: &Endpoint) -> Result<Client> {
    // As libpq: TLS is for TCP.
    let mode = if endpoint.is_socket() {
        TlsMode::Disable
    } else {
        settings.tls
    };
    let (first, second) = match mode {
        TlsMode::Disable => (SslMode::Disable, None),
        TlsMode::Allow => (SslMode::Disable, Some(SslMode::Require)),
        TlsMode::Prefer => (SslMode::Prefer, Some(SslMode::Disable)),
        TlsMode::Require | TlsMode::VerifyAuthority | TlsMode::VerifyFull => (SslMode::Require, None),
    };
    let error = match attempt(settings, endpoint, first).await? {
        Ok(client) => return Ok(client),
        Err(error) => error,
    };
    let error = match second {
        Some(mode) if depends_on_tls(&error) => match attempt(settings, endpoint, mode).await? {
            Ok(client) => return Ok(client),
            // The first failure is the one that the user's settings led to.
            Err(again) if depends_on_tls(&again) => error,
            Err(again) => again,
        },
        _ => error,
    };
    Err(explain(settings, endpoint, error))
}

type Attempt = std::result::Result<Client, tokio_postgres::Error>;

async fn attempt(settings: &Settings, endpoint: &Endpoint, mode: SslMode) -> Result<Attempt> {
    let config = configuration(settings, endpoint, mode);
    if mode == SslMode::Disable {
        return within(settings, endpoint, connect(&config, NoTls)).await;
    }
    let connector = tls::connector(settings)?;
    within(settings, endpoint, connect(&config, connector)).await
}

async fn connect<T>(config: &Config, tls: T) -> Attempt
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(tls).await?;
    Ok(run(client, connection))
}

/// The driver limits the time to a connection, not to the server's first words on it.
async fn within(
    settings: &Settings,
    endpoint: &Endpoint,
    connecting: impl Future<Output = Attempt>,
) -> Result<Attempt> {
    let Some(most) = settings.connect_timeout else {
        return Ok(connecting.await);
    };
    tokio::time::timeout(most, connecting).await.map_err(|_| {
        Error::new(
            ErrorKind::Unsent,
            format!(
                "cannot connect to {endpoint}: no answer within {} s",
                most.as_secs()
            ),
        )
        .hint("check host, port and network; connect_timeout=SECONDS in the URL waits longer")
    })
}

fn run<S, T>(client: Client, connection: tokio_postgres::Connection<S, T>) -> Client
where
    tokio_postgres::Connection<S, T>:
        Future<Output = std::result::Result<(), tokio_postgres::Error>> + Send + 'static,
{
    tokio::spawn(async move {
        // Whoever uses the client learns of the failure from his own call.
        if let Err(error) = connection.await {
            tracing::debug!("PostgreSQL connection ended: {error}");
        }
    });
    client
}

fn configuration(settings: &Settings, endpoint: &Endpoint, mode: SslMode) -> Config {
    let mut config = Config::new();
    config
        .host(&endpoint.host)
        .port(endpoint.port)
        .user(&settings.user)
        .dbname(&settings.database)
        .application_name(&settings.application_name)
        // Without a password an empty one is sent, so that the server's own refusal says what is wrong.
        .password(endpoint.password.0.as_bytes())
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVE_PROBES)
        .tcp_user_timeout(UNACKNOWLEDGED_MAX)
        .ssl_mode(mode);
    if let Some(address) = endpoint.address {
        config.hostaddr(address);
    }
    if let Some(timeout) = settings.connect_timeout {
        config.connect_timeout(timeout);
    }
    if let Some(options) = &settings.options {
        config.options(options);
    }
    if settings.read_write {
        config.target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
    }
    config
}

/// Whether another TLS mode might do: the handshake failed, or the server has no entry for this kind of connection.
fn depends_on_tls(error: &tokio_postgres::Error) -> bool {
    match error.as_db_error() {
        Some(db) => db.code().code() == "28000",
        None => tls_cause(error).is_some(),
    }
}

fn tls_cause(error: &tokio_postgres::Error) -> Option<&rustls::Error> {
    let io = io_cause(error)?;
    io.get_ref()?.downcast_ref()
}

fn io_cause(error: &tokio_postgres::Error) -> Option<&std::io::Error> {
    error.source()?.downcast_ref()
}

/// What went wrong, where, and what to do.
fn explain(settings: &Settings, endpoint: &Endpoint, error: tokio_postgres::Error) -> Error {
    if let Some(db) = error.as_db_error() {
        return refusal(settings, endpoint, db.code().code(), || errors::from_server(db)).caused_by(error);
    }
    if let Some(cause) = tls_cause(&error) {
        let message = format!("TLS with {endpoint} failed: {}", describe_tls(cause));
        return Error::config(message)
            .hint("check sslmode and sslrootcert; the certificate must be signed by sslrootcert and name the host")
            .caused_by(error);
    }
    if let Some(io) = io_cause(&error) {
        return unreachable(endpoint, io).caused_by(error);
    }
    if error.is_closed() {
        return Error::new(
            ErrorKind::Unsent,
            format!("cannot connect to {endpoint}: the server closed the connection"),
        )
        .hint("is it PostgreSQL that listens there?")
        .caused_by(error);
    }
    let message = match error.source() {
        Some(cause) => format!("cannot connect to {endpoint}: {cause}"),
        None => format!("cannot connect to {endpoint}: {error}"),
    };
    Error::config(message).caused_by(error)
}

fn unreachable(endpoint: &Endpoint, io: &std::io::Error) -> Error {
    let message = format!("cannot connect to {endpoint}: {}", errors::describe_io(io));
    let hint = match io.kind() {
        std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::NotFound => {
            "is the server running, and does it listen there? check host and port"
        }
        _ => "check host, port and network",
    };
    Error::new(ErrorKind::Unsent, message).hint(hint)
}

fn refusal(settings: &Settings, endpoint: &Endpoint, code: &str, otherwise: impl FnOnce() -> Error) -> Error {
    let user = &settings.user;
    match code {
        "28P01" => {
            let origin = &endpoint.password_origin;
            Error::config(format!(
                "password authentication failed for user \"{user}\" at {endpoint} ({origin})"
            ))
            .hint(password_hint(origin))
            .code(code)
        }
        "3D000" => Error::config(format!(
            "database \"{}\" does not exist at {endpoint}",
            settings.database
        ))
        .hint(format!(
            "the database is the last part of the URL: postgresql://{}/NAME",
            if endpoint.is_socket() {
                "".to_owned()
            } else {
                endpoint.to_string()
            }
        ))
        .code(code),
        _ => otherwise().at(format!("cannot connect to {endpoint}")),
    }
}

fn password_hint(origin: &PasswordOrigin) -> &'static str {
    match origin {
        PasswordOrigin::None => {
            "set PGPASSWORD, or add a line host:port:database:user:password to ~/.pgpass (mode 0600)"
        }
        PasswordOrigin::Url => "check the password in the URL; special characters are written as %XX",
        PasswordOrigin::Environment(_) => "check PGPASSWORD, and that the user is the right one",
        PasswordOrigin::Given(_) => "check the password, and that the user is the right one",
        PasswordOrigin::File(_) => "check that line of the password file, and that the user is the right one",
    }
}

fn describe_tls(error: &rustls::Error) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use tonnage_sql::settings::Secret;

    use crate::settings::Surroundings;

    struct Nothing;

    impl Surroundings for Nothing {
        fn variable(&self, _name: &str) -> Option<String> {
            None
        }
    }

    #[test]
    fn a_refused_password_says_where_it_came_from() {
        let mut settings = Settings::resolve("postgresql://anna@db.example/shop", &Nothing).unwrap();
        let cases = [
            (PasswordOrigin::Url, "password from the URL"),
            (
                PasswordOrigin::Environment("PGPASSWORD"),
                "password from PGPASSWORD",
            ),
            (
                PasswordOrigin::File("~/.pgpass".to_owned()),
                "password from ~/.pgpass",
            ),
            (
                PasswordOrigin::Given("typed at the terminal".to_owned()),
                "password typed at the terminal",
            ),
            (PasswordOrigin::None, "none was given"),
        ];
        for (origin, words) in cases {
            settings.endpoints[0].password_origin = origin;
            settings.endpoints[0].password = Secret("s3cret".to_owned());
            let error = refusal(&settings, &settings.endpoints[0], "28P01", || {
                Error::bug("unused")
            });
            assert_eq!(
                error.to_string(),
                format!("password authentication failed for user \"anna\" at db.example:5432 ({words})")
            );
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(!format!("{error:?} {settings:?}").contains("s3cret"));
        }
    }
}
