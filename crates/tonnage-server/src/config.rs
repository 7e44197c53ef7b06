//! What a server is to do: read from a file, or made of a single database.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Deserializer, de::Error as _};
use tonnage::{Error, Result, operation::Mode, targets};

/// The address on which a server listens that was told of none.
pub const ADDRESS: &str = "127.0.0.1:8432";

/// The least memory of a table: a few blocks.
pub const MEMORY_LEAST: u64 = 1 << 20;
/// The least journal of a table: room for a few segments that each take a block.
pub const JOURNAL_LEAST: u64 = 16 << 20;

/// A size of bytes: `64MiB`, `512kB`, `1024`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl std::str::FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(at);
        let number: u64 = number
            .parse()
            .map_err(|_| format!("'{text}' is no size: 64MiB is one"))?;
        let factor: u64 = match unit.trim() {
            "" | "B" => 1,
            "kB" => 1_000,
            "KiB" => 1 << 10,
            "MB" => 1_000_000,
            "MiB" => 1 << 20,
            "GB" => 1_000_000_000,
            "GiB" => 1 << 30,
            unit => {
                return Err(format!(
                    "'{unit}' is no unit of a size: kB, KiB, MB, MiB, GB and GiB are"
                ));
            }
        };
        number
            .checked_mul(factor)
            .map(Self)
            .ok_or_else(|| format!("'{text}' is too large"))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(u64),
            Text(String),
        }
        match Either::deserialize(from)? {
            Either::Number(number) => Ok(Self(number)),
            Either::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

/// A whole configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where journals and rejects are.
    pub state: Option<PathBuf>,
    /// The most memory of the buffers of all tables.
    pub memory: Bytes,
    /// The memory of a table's buffer, unless it says otherwise.
    pub table_memory: Bytes,
    /// The most bytes of a table's journal on disk, unless it says otherwise.
    pub journal: Bytes,
    /// The most seconds for which a stopping server waits for the database.
    pub drain_seconds: u64,
    /// Whether to listen off loopback without TLS and tokens all the same.
    pub insecure: bool,
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// What a request may take.
    pub limits: Limits,
    /// The databases by their names.
    pub databases: BTreeMap<String, DatabaseConfig>,
    /// Who may do what, by names that the log shows.
    pub tokens: BTreeMap<String, TokenConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            state: None,
            memory: Bytes(1 << 30),
            table_memory: Bytes(16 << 20),
            journal: Bytes(1 << 30),
            drain_seconds: 10,
            insecure: false,
            listen: Vec::new(),
            limits: Limits::default(),
            databases: BTreeMap::new(),
            tokens: BTreeMap::new(),
        }
    }
}

/// One address.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// Address and port.
    pub address: SocketAddr,
    /// The certificate and those between it and its issuer, PEM.
    pub certificate: Option<PathBuf>,
    /// Its key, PEM.
    pub key: Option<PathBuf>,
    /// Who issues the certificates of callers, PEM: connections without one are refused then.
    pub client_ca: Option<PathBuf>,
}

/// What a request may take. Each is a bound of one request or connection.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of a body as it is sent.
    pub body: Bytes,
    /// Bytes of a body once it is decompressed.
    pub decompressed: Bytes,
    /// Bytes of all headers.
    pub header: Bytes,
    /// Bytes of one row as text.
    pub row: Bytes,
    /// Rows of a request.
    pub rows: u64,
    /// Columns of a request.
    pub columns: usize,
    /// Seconds without a byte after which a sender is given up.
    pub sender_seconds: u64,
    /// Seconds for which a client may take nothing of its rows before they are cut off.
    pub reader_seconds: u64,
    /// Seconds for which room, or the acknowledgement, is waited for.
    pub wait_seconds: u64,
    /// Connections at once.
    pub connections: usize,
    /// Large requests at once into one table.
    pub requests: usize,
    /// Bad rows that an answer names; the others are counted.
    pub rejects_named: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: Bytes(1 << 30),
            decompressed: Bytes(8 << 30),
            header: Bytes(32 << 10),
            row: Bytes(2 << 20),
            rows: 100_000_000,
            columns: 1_600,
            sender_seconds: 30,
            reader_seconds: 300,
            wait_seconds: 30,
            connections: 16_384,
            requests: 16,
            rejects_named: 1_000,
        }
    }
}

impl Limits {
    /// How long a sender may be silent.
    pub fn sender(&self) -> Duration {
        Duration::from_secs(self.sender_seconds)
    }

    /// How long a client may take nothing.
    pub fn reader(&self) -> Duration {
        Duration::from_secs(self.reader_seconds)
    }

    /// How long room or an acknowledgement is waited for.
    pub fn wait(&self) -> Duration {
        Duration::from_secs(self.wait_seconds)
    }
}

/// One database.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseConfig {
    /// A URL, a file, or `@name` of targets.toml.
    pub url: String,
    /// The tables that are offered; none for all of them.
    pub tables: Option<Vec<String>>,
    /// What is special about a table.
    #[serde(default)]
    pub table: BTreeMap<String, TableConfig>,
    /// The zone of times that carry none.
    pub timezone: Option<String>,
    /// Whether a client of Flight SQL that may write a table may make it, and replace it.
    #[serde(default)]
    pub create: bool,
}

/// What is special about a table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TableConfig {
    /// What may happen to rows; none for everything.
    pub modes: Option<Vec<String>>,
    /// The columns that recognise a row; the primary key unless given.
    pub key: Vec<String>,
    /// The memory of its buffer.
    pub memory: Option<Bytes>,
    /// The bytes of its journal on disk.
    pub journal: Option<Bytes>,
    /// Bad rows after which the table takes no more.
    pub rejects: Option<u64>,
}

/// A token, or a certificate, and what its holder may do. Tables are `table`, `schema.table`, `DATABASE/table`,
/// `DATABASE/*` or `*`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenConfig {
    /// SHA-256 of the token, 64 hexadecimal digits, as `--new-token` prints it.
    pub sha256: Option<String>,
    /// SHA-256 of a client's certificate (DER), 64 hexadecimal digits.
    pub certificate: Option<String>,
    /// After this moment it is worth nothing.
    pub expires: Option<String>,
    /// Tables that it may write.
    #[serde(default)]
    pub write: Vec<String>,
    /// Tables that it may read.
    #[serde(default)]
    pub read: Vec<String>,
    /// Whether it may see the page and the metrics.
    #[serde(default)]
    pub admin: bool,
    /// Whether it may run SQL of its own by Flight SQL, with all that the database's role may do.
    #[serde(default)]
    pub sql: bool,
    /// The most rows a second that it may put.
    pub rows_per_second: Option<u64>,
    /// The most requests a second.
    pub requests_per_second: Option<u64>,
}

/// The modes by the names that requests give them.
pub const MODES: &[(&str, Mode)] = &[
    ("insert", Mode::Insert),
    ("upsert", Mode::Upsert),
    ("ignore", Mode::Ignore),
    ("update", Mode::Update),
    ("delete", Mode::Delete),
];

impl Config {
    /// Of a single database, on loopback.
    pub fn of_database(url: &str) -> Self {
        let database = DatabaseConfig {
            url: url.to_owned(),
            tables: None,
            table: BTreeMap::new(),
            timezone: None,
            create: true,
        };
        Self {
            databases: [(name_of(url), database)].into(),
            ..Self::default()
        }
    }

    /// Of a file. `Config` names what cannot be read in it.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|error| Error::config(format!("{shown}: {error}")))?;
        toml::from_str(&text).map_err(|error| {
            Error::config(format!("{shown}: {}", error.to_string().trim_end()))
                .hint("docs/serve.md lists every setting")
        })
    }

    /// Refuses what makes no sense, what would leave a door open, and files that are not there.
    pub fn check(&mut self) -> Result<()> {
        if self.databases.is_empty() {
            return Err(Error::config("no database is named")
                .hint("[databases.shop] with url = \"shop.db\" names one"));
        }
        if self.listen.is_empty() {
            let address = ADDRESS
                .parse()
                .map_err(|_| Error::bug("the default address is none"))?;
            self.listen.push(Listen {
                address,
                certificate: None,
                key: None,
                client_ca: None,
            });
        }
        for (name, database) in &self.databases {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if name.is_empty() || !name.chars().all(is_plain) {
                return Err(
                    Error::config(format!("'{name}' cannot be the name of a database"))
                        .hint("take letters, digits, - and _"),
                );
            }
            targets::driver(&database.url).map_err(|error| error.at(format!("database {name}")))?;
            for (table, settings) in &database.table {
                let unknown = settings
                    .modes
                    .iter()
                    .flatten()
                    .find(|mode| mode_named(mode).is_none());
                if let Some(mode) = unknown {
                    return Err(Error::config(format!("table {table}: there is no mode '{mode}'"))
                        .hint("insert, upsert, ignore, update and delete are there"));
                }
            }
        }
        let has_tokens = !self.tokens.is_empty();
        for listen in &self.listen {
            let address = listen.address;
            match (&listen.certificate, &listen.key) {
                (Some(_), Some(_)) => {}
                (None, None) if listen.client_ca.is_none() => {}
                _ => {
                    return Err(Error::config(format!(
                        "{address}: TLS needs a certificate and its key"
                    )));
                }
            }
            if address.ip().is_loopback() || self.insecure {
                continue;
            }
            if listen.certificate.is_none() {
                return Err(Error::config(format!("{address} is not on loopback and has no TLS")).hint(
                    "give the listener certificate and key; or --insecure, where something else protects it",
                ));
            }
            if !has_tokens {
                return Err(Error::config(format!("{address} is not on loopback and there are no tokens"))
                    .hint("tonnage serve --new-token makes one; or --insecure, where something else protects it"));
            }
        }
        let tables = || {
            self.databases
                .values()
                .flat_map(|database| database.table.values())
        };
        let memory = tables()
            .filter_map(|table| table.memory)
            .chain([self.table_memory]);
        let journal = tables().filter_map(|table| table.journal).chain([self.journal]);
        for (what, least, sizes) in [
            ("memory", MEMORY_LEAST, memory.collect::<Vec<_>>()),
            ("journal", JOURNAL_LEAST, journal.collect()),
        ] {
            if let Some(size) = sizes.into_iter().find(|size| size.0 < least) {
                return Err(Error::config(format!(
                    "a {what} of {} bytes is less than the {least} that a table needs",
                    size.0
                )));
            }
        }
        Ok(())
    }

    /// The directory of journals and rejects.
    pub fn state(&self) -> Result<PathBuf> {
        if let Some(state) = &self.state {
            return Ok(state.clone());
        }
        let variable = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let state = variable("STATE_DIRECTORY")
            .or_else(|| variable("XDG_STATE_HOME").map(|home| home.join("tonnage/serve")))
            .or_else(|| variable("HOME").map(|home| home.join(".local/state/tonnage/serve")));
        state.ok_or_else(|| {
            Error::config("nothing says where journals are to be")
                .hint("--state DIR, or state = \"DIR\" in the file, says it")
        })
    }
}

/// The mode called `name`.
pub fn mode_named(name: &str) -> Option<Mode> {
    MODES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, mode)| *mode)
}

/// A name for a database that has none: the last part of its URL.
fn name_of(url: &str) -> String {
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    let last = shown
        .trim_end_matches('/')
        .rsplit(['/', ':', '@'])
        .next()
        .unwrap_or_default();
    let stem = last.split('.').next().unwrap_or_default();
    let name: String = stem
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
                c
            } else {
                '_'
            }
        })
        .collect();
    match name.is_empty() {
        true => "database".to_owned(),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_get_names() {
        for (url, name) in [
            ("shop.db", "shop"),
            ("/var/lib/x/shop.sqlite", "shop"),
            ("postgresql://app@db:5432/shop?sslmode=require", "shop"),
            ("@house", "house"),
            ("sqlite:a b.db", "a_b"),
        ] {
            assert_eq!(name_of(url), name, "{url}");
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("1024", Ok(1024)),
            ("64MiB", Ok(64 << 20)),
            ("2 GB", Ok(2_000_000_000)),
        ] {
            assert_eq!(text.parse::<Bytes>().map(|bytes| bytes.0), bytes);
        }
        for text in ["", "MiB", "1 parsec", "99999999999GiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn off_loopback_it_needs_tls_and_tokens() {
        let listen = |extra: &str| {
            format!("[databases.shop]\nurl = \"shop.db\"\n[[listen]]\naddress = \"0.0.0.0:1\"\n{extra}")
        };
        let tls = "certificate = \"c\"\nkey = \"k\"\n";
        let token = "[tokens.a]\nsha256 = \"00\"\n";
        for (text, is_right) in [
            (listen(""), false),
            (listen(tls), false),
            (listen(token), false),
            (listen(&format!("{tls}{token}")), true),
            (listen("certificate = \"c\"\n"), false),
            (format!("insecure = true\n{}", listen("")), true),
            ("[databases.shop]\nurl = \"shop.db\"\n".to_owned(), true),
            (String::new(), false),
        ] {
            let mut config: Config = toml::from_str(&text).expect("it can be read");
            assert_eq!(config.check().is_ok(), is_right, "{text}");
        }
    }
}
