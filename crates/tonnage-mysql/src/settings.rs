//! Where and how to connect: the URL, then the option files' client groups, then the environment.
//!
//! A password is never shown: not by `Debug`, not by an error. Its origin is remembered, so that a
//! refused one can be traced to the place where it was written.

mod option_file;

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tonnage_core::{
    error::{Error, Result},
    password::Password,
};
use tonnage_sql::settings::{PasswordOrigin, Secret, TlsMode, decode};

use self::option_file::OptionFiles;

/// What messages call the URL.
const URL_SHOWN: &str = "the URL";

/// Where the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A host and a port.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// The path of a unix socket.
    Socket(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Which of the servers of a URL is connected to, of all that are connected by these settings.
#[derive(Debug, Clone, Default)]
pub(super) struct Chosen(Arc<AtomicUsize>);

/// It is no part of what was set.
impl PartialEq for Chosen {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Chosen {}

/// Everything a connection needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// Where; of several servers the first.
    pub endpoint: Endpoint,
    /// Further servers of the same tables, each to be used where those before it cannot be.
    pub further: Vec<Endpoint>,
    /// The server in use, counted from 0.
    pub chosen: Chosen,
    /// The account's name.
    pub user: String,
    /// The password, from wherever it came.
    pub password: Secret,
    /// Where that was.
    pub password_origin: PasswordOrigin,
    /// The database, which holds the ledger too, unless another is chosen.
    pub database: String,
    /// The database of the ledger, where one was chosen.
    pub ledger_database: Option<String>,
    /// Whether `tinyint(1)` is read and written as a bool, which holds 0 and 1 only; else as an integer.
    pub tinyint1_is_bool: bool,
    /// TLS.
    pub tls: TlsMode,
    /// Certificate of the authority to trust.
    pub root_certificate: Option<PathBuf>,
    /// Certificate and private key that prove who we are, to servers that ask.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// Limit on connecting.
    pub connect_timeout: Duration,
    /// A place of this machine that passes on to the endpoint, which stays the one that is meant.
    pub way: Option<SocketAddr>,
}

/// As the command line client has it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// What the process was given besides the URL; a seam so that tests need not change their own environment.
pub(super) trait Surroundings {
    /// An environment variable; none where unset or empty.
    fn variable(&self, name: &str) -> Option<String>;

    /// Option files, the last one counts most.
    fn option_files(&self) -> Vec<PathBuf> {
        let home = self.variable("HOME").map(|home| Path::new(&home).join(".my.cnf"));
        [PathBuf::from("/etc/my.cnf"), PathBuf::from("/etc/mysql/my.cnf")]
            .into_iter()
            .chain(home)
            .collect()
    }
}

/// The process's own environment.
pub(super) struct ProcessSurroundings;

impl Surroundings for ProcessSurroundings {
    fn variable(&self, name: &str) -> Option<String> {
        tonnage_sql::settings::variable(name)
    }
}

/// The parts of a URL, percent-decoded.
#[derive(Default)]
struct UrlParts {
    host: Option<String>,
    port: Option<String>,
    /// Hosts behind the first, and their ports.
    further: Vec<(String, Option<String>)>,
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
const OPTIONS: &[&str] = &[
    "socket",
    "password",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "connect_timeout",
    "defaults-file",
    "ledger_schema",
    "tinyint1",
];

fn split_url(url: &str) -> Result<UrlParts> {
    tonnage_sql::url::refuse_cut(url)?;
    let rest = url
        .split_once("://")
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("mysql") || scheme.eq_ignore_ascii_case("mariadb"))
        .map(|(_, rest)| rest)
        .ok_or_else(|| {
            Error::config("a MariaDB or MySQL URL begins with mariadb:// or mysql://")
                .hint("mariadb://user@host:3306/database")
        })?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let mut parts = UrlParts::default();
    let host = match authority.rsplit_once('@') {
        None => authority,
        Some((login, host)) => {
            let (user, password) = match login.split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (login, None),
            };
            parts.user = Some(decode(user, "user", URL_SHOWN)?).filter(|user| !user.is_empty());
            parts.password = password
                .map(|password| decode(password, "password", URL_SHOWN))
                .transpose()?
                .filter(|password| !password.is_empty());
            host
        }
    };
    let mut hosts = host.split(',');
    let (host, port) = host_and_port(hosts.next().unwrap_or_default())?;
    parts.host = Some(host).filter(|host| !host.is_empty());
    parts.port = port;
    for further in hosts {
        let (host, port) = host_and_port(further)?;
        if host.is_empty() || parts.host.is_none() {
            return Err(Error::config("one of several hosts in the URL has no name")
                .hint("mariadb://user@host1:3306,host2:3306/database"));
        }
        parts.further.push((host, port));
    }
    parts.database = Some(decode(database, "database", URL_SHOWN)?).filter(|database| !database.is_empty());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(|| {
            Error::config("an option in the URL has no value").hint("write options as ?name=value")
        })?;
        let name = decode(name, "option name", URL_SHOWN)?;
        if !OPTIONS.contains(&name.as_str()) {
            return Err(Error::config(format!("unknown option '{name}' in the URL"))
                .hint(format!("options are {}", OPTIONS.join(", "))));
        }
        parts
            .options
            .push((name, decode(value, "option value", URL_SHOWN)?));
    }
    Ok(parts)
}

/// A host as it is in a URL, and its port.
fn host_and_port(text: &str) -> Result<(String, Option<String>)> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or_else(|| {
            Error::config("an IPv6 address in the URL is not closed")
                .hint("mariadb://user@[::1]:3306/database")
        })?;
        (host, after.strip_prefix(':').unwrap_or(""))
    } else {
        text.split_once(':').unwrap_or((text, ""))
    };
    let port = Some(port.to_owned()).filter(|port| !port.is_empty());
    Ok((decode(host, "host", URL_SHOWN)?, port))
}

/// libpq's names, and those of the option files.
fn tls_mode(text: &str, origin: &str) -> Result<TlsMode> {
    let lower = text.to_ascii_lowercase();
    let name = match lower.as_str() {
        "disabled" => "disable",
        "preferred" => "prefer",
        "required" => "require",
        "verify_ca" => "verify-ca",
        "verify_identity" => "verify-full",
        name => name,
    };
    // What is refused is shown as it was written.
    TlsMode::parse(name, origin).or_else(|_| TlsMode::parse(text, origin))
}

fn port_of(text: &str) -> Result<u16> {
    text.parse()
        .ok()
        .filter(|port| *port != 0)
        .ok_or_else(|| Error::config(format!("'{text}' is not a port")).hint("a port is 1 to 65535"))
}

/// Everything that may say how to connect, the first counting most: the URL, the option files, the environment.
struct Origins<'a, S> {
    url: UrlParts,
    files: OptionFiles,
    surroundings: &'a S,
}

impl<'a, S: Surroundings> Origins<'a, S> {
    fn find(url: &str, surroundings: &'a S) -> Result<Self> {
        let url = split_url(url)?;
        let files = match url.option("defaults-file") {
            Some(path) => OptionFiles::one(Path::new(path))?,
            None => OptionFiles::read(&surroundings.option_files()),
        };
        Ok(Self {
            url,
            files,
            surroundings,
        })
    }

    fn in_files(&self, name: &str) -> Option<String> {
        self.files.option(name).map(|found| found.value.clone())
    }

    /// What the option files say, or the environment.
    fn elsewhere(&self, name: &str, variable: &str) -> Option<String> {
        self.in_files(name)
            .or_else(|| self.surroundings.variable(variable))
    }

    fn path(&self, option: &str, name: &str) -> Option<PathBuf> {
        let in_url = self.url.option(option).map(str::to_owned);
        in_url.or_else(|| self.in_files(name)).map(PathBuf::from)
    }

    fn endpoint(&self) -> Result<Endpoint> {
        let host = match (self.url.option("socket"), &self.url.host) {
            (Some(socket), None) => return Ok(Endpoint::Socket(socket.into())),
            (Some(_), Some(_)) => {
                return Err(Error::config("the URL names a host and a socket")
                    .hint("mariadb://user@/database?socket=PATH"));
            }
            (None, Some(host)) => Some(host.clone()),
            (None, None) => self
                .elsewhere("host", "MYSQL_HOST")
                .filter(|host| host != "localhost"),
        };
        let port = self.url.port.clone();
        let port = port.or_else(|| self.elsewhere("port", "MYSQL_TCP_PORT"));
        let tcp = |host: String| {
            let port = port.as_deref().map_or(Ok(3306), port_of)?;
            Ok(Endpoint::Tcp { host, port })
        };
        let this_machine = || tcp("127.0.0.1".to_owned());
        if let Some(host) = host {
            return tcp(host);
        }
        // As the command line client: nothing or localhost is the socket, where there is one.
        if self.url.port.is_some() {
            return this_machine();
        }
        let socket = self.elsewhere("socket", "MYSQL_UNIX_PORT").map(PathBuf::from);
        match socket.or_else(default_socket) {
            Some(socket) => Ok(Endpoint::Socket(socket)),
            None => this_machine(),
        }
    }

    /// The servers behind the first.
    fn further(&self) -> Result<Vec<Endpoint>> {
        let each = self.url.further.iter().map(|(host, port)| {
            let port = port.clone().or_else(|| self.elsewhere("port", "MYSQL_TCP_PORT"));
            Ok(Endpoint::Tcp {
                host: host.clone(),
                port: port.as_deref().map_or(Ok(3306), port_of)?,
            })
        });
        each.collect()
    }

    fn user(&self) -> Result<String> {
        let user = self.url.user.clone();
        user.or_else(|| self.elsewhere("user", "USER"))
            .or_else(|| self.surroundings.variable("LOGNAME"))
            .ok_or_else(|| {
                Error::config("no user is known for this database")
                    .hint("name one: mariadb://user@host/database")
            })
    }

    fn database(&self) -> Result<String> {
        let database = self.url.database.clone();
        database.or_else(|| self.in_files("database")).ok_or_else(|| {
            Error::config("the URL names no database")
                .hint("it is the last part: mariadb://user@host/database")
        })
    }

    /// The password and where it was.
    fn password(&self) -> Option<(String, PasswordOrigin)> {
        let in_url = self.url.option("password").map(str::to_owned);
        in_url
            .or_else(|| self.url.password.clone())
            .map(|password| (password, PasswordOrigin::Url))
            .or_else(|| {
                let found = self.files.option("password")?;
                Some((found.value.clone(), PasswordOrigin::File(found.file.clone())))
            })
            .or_else(|| {
                let password = self.surroundings.variable("MYSQL_PWD")?;
                Some((password, PasswordOrigin::Environment("MYSQL_PWD")))
            })
    }

    fn tls(&self) -> Result<TlsMode> {
        match (self.url.option("sslmode"), self.in_files("ssl-mode")) {
            (Some(mode), _) => tls_mode(mode, "in the URL"),
            (None, Some(mode)) => tls_mode(&mode, "in an option file"),
            (None, None) => Ok(TlsMode::Prefer),
        }
    }

    /// Certificate of the authority to trust, which a mode that verifies does not go without.
    fn root_certificate(&self, tls: TlsMode) -> Result<Option<PathBuf>> {
        let certificate = self.path("sslrootcert", "ssl-ca");
        let verifying = match tls {
            TlsMode::VerifyAuthority => Some("verify-ca"),
            TlsMode::VerifyFull => Some("verify-full"),
            _ => None,
        };
        match verifying {
            Some(mode) if certificate.is_none() => Err(Error::config(format!(
                "sslmode {mode} needs the authority's certificate"
            ))
            .hint("add sslrootcert=PATH to the URL, or ssl-ca to the option file")),
            _ => Ok(certificate),
        }
    }

    fn client_certificate(&self) -> Result<Option<(PathBuf, PathBuf)>> {
        match (self.path("sslcert", "ssl-cert"), self.path("sslkey", "ssl-key")) {
            (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
            (Some(certificate), None) => Err(Error::config(format!(
                "the client certificate {} has no key",
                certificate.display()
            ))
            .hint("add sslkey=PATH to the URL")),
            (None, _) => Ok(None),
        }
    }

    fn connect_timeout(&self) -> Result<Duration> {
        match self.url.option("connect_timeout") {
            None => Ok(CONNECT_TIMEOUT),
            Some(text) => text
                .parse()
                .ok()
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs)
                .ok_or_else(|| Error::config(format!("connect_timeout '{text}' is not a number of seconds"))),
        }
    }

    fn tinyint1_is_bool(&self) -> Result<bool> {
        match self.url.option("tinyint1") {
            None | Some("bool") => Ok(true),
            Some("int") => Ok(false),
            Some(other) => Err(
                Error::config(format!("tinyint1 '{other}' in the URL is not known"))
                    .hint("tinyint1=bool takes 0 and 1 only, tinyint1=int what the column holds"),
            ),
        }
    }
}

impl Settings {
    /// Brings URL, option files and environment together.
    pub fn resolve(url: &str, surroundings: &impl Surroundings) -> Result<Self> {
        let origins = Origins::find(url, surroundings)?;
        let (password, password_origin) = origins
            .password()
            .unwrap_or((String::new(), PasswordOrigin::None));
        let endpoint = origins.endpoint()?;
        let user = origins.user()?;
        let database = origins.database()?;
        let tls = origins.tls()?;
        Ok(Self {
            endpoint,
            further: origins.further()?,
            chosen: Chosen::default(),
            user,
            password: Secret(password),
            password_origin,
            database,
            ledger_database: origins.url.option("ledger_schema").map(str::to_owned),
            tinyint1_is_bool: origins.tinyint1_is_bool()?,
            tls,
            root_certificate: origins.root_certificate(tls)?,
            client_certificate: origins.client_certificate()?,
            connect_timeout: origins.connect_timeout()?,
            way: None,
        })
    }

    /// How many servers there are to choose from.
    pub fn servers(&self) -> usize {
        1 + self.further.len()
    }

    /// The server that is connected to first, counted from 0.
    pub fn chosen(&self) -> usize {
        self.chosen.0.load(Ordering::Relaxed)
    }

    /// Has the server `number`, counted from 0, connected to first from now on.
    pub fn choose(&self, number: usize) {
        self.chosen.0.store(number, Ordering::Relaxed);
    }

    /// The same with the server `number` alone, counted from 0; the first where there is none of this number.
    pub fn of_server(&self, number: usize) -> Self {
        let endpoint = match number.checked_sub(1).and_then(|at| self.further.get(at)) {
            Some(further) => further.clone(),
            None => self.endpoint.clone(),
        };
        Self {
            endpoint,
            further: Vec::new(),
            chosen: Chosen::default(),
            ..self.clone()
        }
    }

    /// The same with the server in use alone.
    pub fn in_use(&self) -> Self {
        self.of_server(self.chosen())
    }

    /// Puts `password` in the place of whatever was found.
    pub fn replace_password(&mut self, password: &Password) {
        self.password = Secret(password.reveal().to_owned());
        self.password_origin = PasswordOrigin::Given(password.origin().to_owned());
    }
}

/// Debian's socket, then the one that the servers are built with.
fn default_socket() -> Option<PathBuf> {
    ["/run/mysqld/mysqld.sock", "/tmp/mysql.sock"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.exists())
}

#[cfg(test)]
mod tests;
