//! Where and how to connect: the URL, then the service file, the environment and the password file, in libpq's order.
//!
//! A password is never shown: not by `Debug`, not by an error. Its origin is remembered, so that a
//! refused one can be traced to the place where it was written.

mod keywords;
mod service;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tonnage_core::{
    error::{Error, Result},
    password::Password,
};
use tonnage_sql::settings::{PasswordOrigin, Secret, TlsMode, decode};

use self::service::Service;
use super::pooler::Control;

/// What messages call the URL.
const URL_SHOWN: &str = "the PostgreSQL URL";

/// Two files of PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientCertificate {
    /// The certificate, and those between it and an authority that the server knows.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// One place where the server may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// Host name, address, or the directory of a unix socket.
    pub host: String,
    /// Address to use instead of looking `host` up.
    pub address: Option<std::net::IpAddr>,
    /// Port; names the socket file too.
    pub port: u16,
    /// The password, from wherever it came.
    pub password: Secret,
    /// Where that was.
    pub password_origin: PasswordOrigin,
}

impl Endpoint {
    /// Whether `host` is the directory of a unix socket.
    pub fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_socket() {
            write!(f, "{}/.s.PGSQL.{}", self.host, self.port)
        } else if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// How long an endpoint may take to let us in, unless `connect_timeout` says otherwise.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Everything a connection needs.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Where to try, in order; never empty.
    pub endpoints: Vec<Endpoint>,
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// TLS.
    pub tls: TlsMode,
    /// Certificate of the authority to trust.
    pub root_certificate: Option<PathBuf>,
    /// What proves who we are, to servers that ask.
    pub client_certificate: Option<ClientCertificate>,
    /// Limit on connecting to one endpoint, until it has let us in.
    pub connect_timeout: Option<Duration>,
    /// Command line options for the server session.
    pub options: Option<String>,
    /// What the session is called in the server's views.
    pub application_name: String,
    /// Whether only a server that takes writes will do.
    pub read_write: bool,
    /// The schema of the ledger, where one was chosen.
    pub ledger_schema: Option<String>,
    /// The session that others are compared with.
    pub control: Arc<Control>,
}

/// What the process was given besides the URL; a seam so that tests need not change their own environment.
pub(super) trait Surroundings {
    /// An environment variable; none where unset or empty.
    fn variable(&self, name: &str) -> Option<String>;

    /// The name of the user who runs the process.
    fn user(&self) -> Option<String> {
        self.variable("USER").or_else(|| self.variable("LOGNAME"))
    }
}

/// The process's own environment.
pub(super) struct ProcessSurroundings;

impl Surroundings for ProcessSurroundings {
    fn variable(&self, name: &str) -> Option<String> {
        tonnage_sql::settings::variable(name)
    }
}

/// The parts of a URL, percent-decoded. Later options replace earlier ones and the parts before them.
#[derive(Default)]
struct UrlParts {
    hosts: Vec<String>,
    ports: Vec<String>,
    user: Option<String>,
    password: Option<String>,
    database: Option<String>,
    options: Vec<(String, String)>,
}

impl UrlParts {
    fn option(&self, name: &str) -> Option<&str> {
        let (_, value) = self.options.iter().rev().find(|(n, _)| n == name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }
}

/// The options a URL may carry.
pub(super) const OPTIONS: &[&str] = &[
    "host",
    "hostaddr",
    "port",
    "user",
    "password",
    "dbname",
    "service",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "passfile",
    "connect_timeout",
    "options",
    "application_name",
    "target_session_attrs",
    "ledger_schema",
];

/// Whether a target is a connection string of keywords rather than a URL.
fn is_keywords(target: &str) -> bool {
    let before_value = target.split_once('=').map_or("", |(before, _)| before);
    !before_value.is_empty() && !before_value.contains([':', '/'])
}

fn split_url(url: &str) -> Result<UrlParts> {
    if is_keywords(url) {
        return keywords::split(url);
    }
    tonnage_sql::url::refuse_cut(url)?;
    let rest = url
        .strip_prefix("postgresql://")
        .or_else(|| url.strip_prefix("postgres://"))
        .ok_or_else(|| {
            Error::config("a PostgreSQL URL begins with postgresql://")
                .hint("postgresql://user@host:5432/database")
        })?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let mut parts = UrlParts::default();
    let hosts = match authority.rsplit_once('@') {
        None => authority,
        Some((login, hosts)) => {
            let (user, password) = match login.split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (login, None),
            };
            parts.user = Some(decode(user, "user", URL_SHOWN)?).filter(|user| !user.is_empty());
            parts.password = password
                .map(|password| decode(password, "password", URL_SHOWN))
                .transpose()?
                .filter(|password| !password.is_empty());
            hosts
        }
    };
    if !hosts.is_empty() {
        for host in hosts.split(',') {
            let (host, port) = if let Some(rest) = host.strip_prefix('[') {
                let (host, after) = rest.split_once(']').ok_or_else(|| {
                    Error::config("an IPv6 address in the PostgreSQL URL is not closed")
                        .hint("postgresql://user@[::1]:5432/database")
                })?;
                (host, after.strip_prefix(':').unwrap_or(""))
            } else {
                host.split_once(':').unwrap_or((host, ""))
            };
            parts.hosts.push(decode(host, "host", URL_SHOWN)?);
            parts.ports.push(decode(port, "port", URL_SHOWN)?);
        }
        if parts.ports.iter().all(String::is_empty) {
            parts.ports.clear();
        }
    }
    parts.database = Some(decode(database, "database", URL_SHOWN)?).filter(|database| !database.is_empty());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            Error::config("an option in the PostgreSQL URL has no value").hint("write options as ?name=value")
        })?;
        let name = decode(name, "option name", URL_SHOWN)?;
        if !OPTIONS.contains(&name.as_str()) {
            return Err(
                Error::config(format!("unknown option '{name}' in the PostgreSQL URL"))
                    .hint(format!("options are {}", OPTIONS.join(", "))),
            );
        }
        parts
            .options
            .push((name, decode(value, "option value", URL_SHOWN)?));
    }
    Ok(parts)
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|item| item.trim().to_owned()).collect()
}

/// Everything that may say how to connect, the first counting most: the URL, the service file, the environment.
struct Origins<'a, S> {
    url: UrlParts,
    service: Service,
    surroundings: &'a S,
}

impl<'a, S: Surroundings> Origins<'a, S> {
    fn find(url: &str, surroundings: &'a S) -> Result<Self> {
        let url = split_url(url)?;
        let name = url.option("service").map(str::to_owned);
        let service = match name.or_else(|| surroundings.variable("PGSERVICE")) {
            Some(name) => Service::find(&name, surroundings)?,
            None => Service::default(),
        };
        Ok(Self {
            url,
            service,
            surroundings,
        })
    }

    /// What the URL says.
    fn in_url(&self, option: &str) -> Option<String> {
        self.url.option(option).map(str::to_owned)
    }

    /// What counts where the URL says nothing.
    fn elsewhere(&self, option: &str, variable: &str) -> Option<String> {
        let service = self.service.option(option);
        service.or_else(|| self.surroundings.variable(variable))
    }

    fn option(&self, option: &str, variable: &str) -> Option<String> {
        self.in_url(option).or_else(|| self.elsewhere(option, variable))
    }

    fn home(&self) -> Option<PathBuf> {
        self.surroundings.variable("HOME").map(PathBuf::from)
    }

    /// A file of libpq's directory, where it is there.
    fn in_home(&self, name: &str) -> Option<PathBuf> {
        let path = self.home()?.join(".postgresql").join(name);
        path.exists().then_some(path)
    }

    fn user(&self) -> Result<String> {
        self.in_url("user")
            .or_else(|| self.url.user.clone())
            .or_else(|| self.elsewhere("user", "PGUSER"))
            .or_else(|| self.surroundings.user())
            .ok_or_else(|| {
                Error::config("no PostgreSQL user is known").hint("name one: postgresql://user@host/database")
            })
    }

    /// The password and where it was, unless only the password file has it.
    fn password(&self) -> Option<(String, PasswordOrigin)> {
        let in_url = self.in_url("password").or_else(|| self.url.password.clone());
        in_url
            .map(|password| (password, PasswordOrigin::Url))
            .or_else(|| {
                let origin = format!("from the service file {}", self.service.shown);
                Some((self.service.option("password")?, PasswordOrigin::Given(origin)))
            })
            .or_else(|| {
                let password = self.surroundings.variable("PGPASSWORD")?;
                Some((password, PasswordOrigin::Environment("PGPASSWORD")))
            })
    }

    /// Where to try, in order; never empty.
    fn endpoints(&self, user: &str, database: &str) -> Result<Vec<Endpoint>> {
        let listed = |option: &str, variable: &str, in_authority: &[String]| {
            let in_url = self.url.option(option).map(list);
            let in_url = in_url.unwrap_or_else(|| in_authority.to_vec());
            match in_url.is_empty() {
                true => self
                    .elsewhere(option, variable)
                    .as_deref()
                    .map(list)
                    .unwrap_or_default(),
                false => in_url,
            }
        };
        let hosts = listed("host", "PGHOST", &self.url.hosts);
        let addresses = listed("hostaddr", "PGHOSTADDR", &[]);
        let ports = listed("port", "PGPORT", &self.url.ports);
        let count = hosts.len().max(addresses.len()).max(1);
        if (hosts.len() > 1 && hosts.len() != count)
            || (!addresses.is_empty() && addresses.len() != count)
            || (ports.len() > 1 && ports.len() != count)
        {
            return Err(
                Error::config("hosts, addresses and ports in the PostgreSQL URL differ in number")
                    .hint("give one port for all hosts, or one a host"),
            );
        }

        let known = self.password();
        let file = PasswordFile::find(self.option("passfile", "PGPASSFILE"), self.home().as_deref());
        let mut endpoints = Vec::with_capacity(count);
        for index in 0..count {
            let address = match addresses.get(index).map(String::as_str) {
                None | Some("") => None,
                Some(text) => Some(text.parse().map_err(|_| {
                    Error::config(format!("'{text}' is not an IP address"))
                        .hint("hostaddr takes numeric addresses")
                })?),
            };
            let host = match hosts.get(index).map(String::as_str) {
                Some(host) if !host.is_empty() => host.to_owned(),
                _ => address.map_or_else(default_host, |address: std::net::IpAddr| address.to_string()),
            };
            let port = match ports.get(index).or_else(|| ports.first()).map(String::as_str) {
                None | Some("") => 5432,
                Some(text) => text.parse().ok().filter(|port| *port != 0).ok_or_else(|| {
                    Error::config(format!("'{text}' is not a port")).hint("a port is 1 to 65535")
                })?,
            };
            let (password, password_origin) = match &known {
                Some(known) => known.clone(),
                None => file
                    .as_ref()
                    .and_then(|file| file.password(&host, port, database, user))
                    .unwrap_or((String::new(), PasswordOrigin::None)),
            };
            endpoints.push(Endpoint {
                host,
                address,
                port,
                password: Secret(password),
                password_origin,
            });
        }
        Ok(endpoints)
    }

    fn tls(&self) -> Result<TlsMode> {
        if let Some(mode) = self.url.option("sslmode") {
            return TlsMode::parse(mode, "in the PostgreSQL URL");
        }
        if let Some(mode) = self.service.option("sslmode") {
            return TlsMode::parse(&mode, &format!("in the service file {}", self.service.shown));
        }
        match self.surroundings.variable("PGSSLMODE") {
            Some(mode) => TlsMode::parse(&mode, "in PGSSLMODE"),
            None => Ok(TlsMode::Prefer),
        }
    }

    fn client_certificate(&self) -> Result<Option<ClientCertificate>> {
        let key = self.option("sslkey", "PGSSLKEY").map(PathBuf::from);
        let key = key.or_else(|| self.in_home("postgresql.key"));
        match (self.option("sslcert", "PGSSLCERT").map(PathBuf::from), key) {
            (Some(certificate), Some(key)) => Ok(Some(ClientCertificate { certificate, key })),
            (Some(certificate), None) => {
                let shown = certificate.display();
                Err(
                    Error::config(format!("the client certificate {shown} has no key"))
                        .hint("add sslkey=PATH to the URL or set PGSSLKEY"),
                )
            }
            (None, key) => Ok(key.and_then(|key| {
                let certificate = self.in_home("postgresql.crt")?;
                Some(ClientCertificate { certificate, key })
            })),
        }
    }

    fn connect_timeout(&self) -> Result<Option<Duration>> {
        match self.option("connect_timeout", "PGCONNECT_TIMEOUT") {
            None => Ok(Some(CONNECT_TIMEOUT)),
            // As libpq: 0 waits for as long as it takes.
            Some(text) => text
                .parse::<u64>()
                .map_err(|_| Error::config(format!("connect_timeout '{text}' is not a number of seconds")))
                .map(|seconds| (seconds > 0).then(|| Duration::from_secs(seconds.max(2)))),
        }
    }

    fn read_write(&self) -> Result<bool> {
        match self
            .option("target_session_attrs", "PGTARGETSESSIONATTRS")
            .as_deref()
        {
            None | Some("any") => Ok(false),
            Some("read-write" | "primary") => Ok(true),
            Some(other) => Err(
                Error::config(format!("target_session_attrs '{other}' is not supported"))
                    .hint("use any or read-write"),
            ),
        }
    }
}

impl Settings {
    /// Brings URL, service file, environment and password file together.
    pub fn resolve(url: &str, surroundings: &impl Surroundings) -> Result<Self> {
        let origins = Origins::find(url, surroundings)?;
        let user = origins.user()?;
        let database = origins
            .in_url("dbname")
            .or_else(|| origins.url.database.clone())
            .or_else(|| origins.elsewhere("dbname", "PGDATABASE"))
            .unwrap_or_else(|| user.clone());
        // These have no variable.
        let without_variable =
            |option: &str| origins.in_url(option).or_else(|| origins.service.option(option));
        Ok(Self {
            endpoints: origins.endpoints(&user, &database)?,
            tls: origins.tls()?,
            root_certificate: origins
                .option("sslrootcert", "PGSSLROOTCERT")
                .map(PathBuf::from)
                .or_else(|| origins.in_home("root.crt")),
            client_certificate: origins.client_certificate()?,
            connect_timeout: origins.connect_timeout()?,
            options: origins.option("options", "PGOPTIONS"),
            application_name: without_variable("application_name").unwrap_or_else(|| "tonnage".to_owned()),
            read_write: origins.read_write()?,
            ledger_schema: without_variable("ledger_schema"),
            control: Arc::default(),
            user,
            database,
        })
    }

    /// Puts `password` in the place of whatever was found.
    pub fn replace_password(&mut self, password: &Password) {
        for endpoint in &mut self.endpoints {
            endpoint.password = Secret(password.reveal().to_owned());
            endpoint.password_origin = PasswordOrigin::Given(password.origin().to_owned());
        }
    }
}

/// Debian's socket directory, then the one PostgreSQL is built with, then TCP.
fn default_host() -> String {
    ["/var/run/postgresql", "/tmp"]
        .into_iter()
        .find(|directory| Path::new(directory).join(".s.PGSQL.5432").exists())
        .unwrap_or("localhost")
        .to_owned()
}

/// A password file that may be used.
struct PasswordFile {
    shown: String,
    text: String,
}

impl PasswordFile {
    /// Reads the file given or the one in the home directory. As libpq: one that others may read is not used.
    fn find(given: Option<String>, home: Option<&Path>) -> Option<Self> {
        let (path, shown) = match given {
            Some(path) => (PathBuf::from(&path), path),
            None => (home?.join(".pgpass"), "~/.pgpass".to_owned()),
        };
        let metadata = std::fs::metadata(&path).ok()?;
        if !metadata.is_file() {
            tracing::warn!("password file {shown} is not a plain file; ignored");
            return None;
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            if metadata.permissions().mode() & 0o077 != 0 {
                tracing::warn!(
                    "password file {shown} can be read by group or others; ignored (chmod 0600 {shown})"
                );
                return None;
            }
        }
        let text = std::fs::read_to_string(&path).ok()?;
        Some(Self { shown, text })
    }

    /// The first line that fits: host:port:database:user:password, `*` for any, `\` before `:` and `\`.
    fn password(
        &self,
        host: &str,
        port: u16,
        database: &str,
        user: &str,
    ) -> Option<(String, PasswordOrigin)> {
        // libpq knows a default socket directory as localhost.
        let host = if host == "/var/run/postgresql" || host == "/tmp" {
            "localhost"
        } else {
            host
        };
        let port = port.to_string();
        self.text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .find_map(|line| {
                let fields = password_fields(line);
                let [line_host, line_port, line_database, line_user, password] = fields.as_slice() else {
                    return None;
                };
                let fits = |field: &Field, wanted: &str| field.any || field.text == wanted;
                (fits(line_host, host)
                    && fits(line_port, &port)
                    && fits(line_database, database)
                    && fits(line_user, user))
                .then(|| (password.text.clone(), PasswordOrigin::File(self.shown.clone())))
            })
    }
}

/// One field of a password file's line.
struct Field {
    text: String,
    any: bool,
}

fn password_fields(line: &str) -> Vec<Field> {
    let mut fields = vec![Field {
        text: String::new(),
        any: false,
    }];
    let mut raw_length = 0;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let count = fields.len();
        let Some(field) = fields.last_mut() else { break };
        match character {
            ':' if count < 5 => {
                fields.push(Field {
                    text: String::new(),
                    any: false,
                });
                raw_length = 0;
                continue;
            }
            '\\' => {
                field.any = false;
                field.text.push(characters.next().unwrap_or('\\'));
                raw_length += 2;
                continue;
            }
            _ => field.text.push(character),
        }
        raw_length += 1;
        field.any = raw_length == 1 && character == '*';
    }
    fields
}

/// The connection string as it may be shown.
pub(super) fn redact(text: &str) -> String {
    match is_keywords(text) {
        true => keywords::redact(text),
        false => tonnage_sql::url::redact(text),
    }
}

#[cfg(test)]
mod tests;
