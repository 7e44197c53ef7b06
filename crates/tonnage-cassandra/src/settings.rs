//! Where and how to connect: `cassandra://user:password@host1,host2:9042/keyspace?option=value`.
//!
//! A password is never shown: not by `Debug`, not by an error.

use std::{path::PathBuf, time::Duration};

use percent_encoding::percent_decode_str;
use scylla::statement::Consistency;
use tonnage_core::{
    error::{Error, Result},
    password::Password,
};
use tonnage_sql::settings::Secret;

const PORT: u16 = 9042;

/// How long a request may take on this side unless `?request_timeout=` says otherwise. Longer than a server's own
/// timeouts, so that its answer comes first.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Everything that a session needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// `host:port`, at least one; the others are found through them.
    pub nodes: Vec<String>,
    /// Where tables are looked for whose names say nothing else.
    pub keyspace: Option<String>,
    pub user: Option<(String, Secret)>,
    /// The data center whose nodes are asked first, and whose replicas alone make a majority.
    pub datacenter: Option<String>,
    pub connect_timeout: Duration,
    pub request_timeout: Duration,
    /// How many replicas a read asks.
    pub read: Consistency,
    /// Where the ledger is, where not in the default place.
    pub ledger: Option<PathBuf>,
}

const OPTIONS: &str = "options are datacenter, connect_timeout and request_timeout (seconds), read_consistency (one, \
                       majority, all), ledger";

impl Settings {
    /// `Config` where the URL is wrong; the error does not show it.
    pub fn parse(url: &str, password: Option<Password>) -> Result<Self> {
        let bad = |why: String| {
            Error::config(format!("the URL of the database is wrong: {why}"))
                .hint("write it as cassandra://user:password@host1,host2:9042/keyspace")
        };
        let (_, rest) = url
            .split_once("://")
            .ok_or_else(|| bad("there is no '://' in it".to_owned()))?;
        tonnage_sql::url::refuse_cut(url)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let decode = |text: &str| {
            let decoded = percent_decode_str(text).decode_utf8();
            decoded
                .map(|text| text.into_owned())
                .map_err(|_| bad("a part does not decode to UTF-8".to_owned()))
        };
        let (account, hosts) = match authority.rsplit_once('@') {
            Some((account, hosts)) => (Some(account), hosts),
            None => (None, authority),
        };
        let mut user = None;
        if let Some(account) = account {
            let (name, secret) = account.split_once(':').unwrap_or((account, ""));
            user = Some((decode(name)?, Secret(decode(secret)?)));
        }
        if let Some(given) = password {
            match &mut user {
                Some((_, secret)) => *secret = Secret(given.reveal().to_owned()),
                None => {
                    return Err(Error::config("a password was given, and no user")
                        .hint("name the user in the URL: cassandra://user@host/keyspace"));
                }
            }
        }
        let nodes = hosts
            .split(',')
            .map(|host| node(host).ok_or_else(|| bad(format!("'{host}' is not a host"))))
            .collect::<Result<Vec<_>>>()?;
        let mut settings = Self {
            nodes,
            keyspace: Some(decode(path)?).filter(|name| !name.is_empty()),
            user,
            datacenter: None,
            connect_timeout: CONNECT_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
            read: Consistency::Quorum,
            ledger: None,
        };
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            settings.set(&name, &value)?;
        }
        if settings.datacenter.is_some() && settings.read == Consistency::Quorum {
            settings.read = Consistency::LocalQuorum;
        }
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let seconds = || {
            let seconds = value.parse().ok().filter(|seconds| (1..=3_600).contains(seconds));
            seconds
                .map(Duration::from_secs)
                .ok_or_else(|| Error::config(format!("{name}={value} is not a number of seconds up to 3600")))
        };
        match name {
            "datacenter" => self.datacenter = Some(value.to_owned()),
            "connect_timeout" => self.connect_timeout = seconds()?,
            "request_timeout" => self.request_timeout = seconds()?,
            "ledger" => self.ledger = Some(PathBuf::from(value)),
            "read_consistency" => {
                self.read = match value {
                    "one" => Consistency::One,
                    "majority" => Consistency::Quorum,
                    "all" => Consistency::All,
                    other => {
                        return Err(
                            Error::config(format!("read_consistency={other} is no such level"))
                                .hint("write one, majority or all"),
                        );
                    }
                }
            }
            "sslmode" if value == "disable" => {}
            "sslmode" => {
                return Err(Error::config("Cassandra is not spoken to over TLS yet")
                    .hint("leave sslmode out, and use a tunnel where the network is not your own"));
            }
            other => return Err(Error::config(format!("unknown option '{other}' in the URL")).hint(OPTIONS)),
        }
        Ok(())
    }

    /// The nodes, for messages.
    pub fn shown(&self) -> String {
        self.nodes.join(", ")
    }
}

/// `host:port` of a host, `host:port` or `[v6]:port`.
fn node(host: &str) -> Option<String> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port.parse().ok()?),
        _ => (host, PORT),
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    match bare {
        "" => None,
        v6 if v6.contains(':') => Some(format!("[{v6}]:{port}")),
        name => Some(format!("{name}:{port}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonnage_sql::url::redact;

    #[test]
    fn urls() {
        let url = "cassandra://app:p%40ss@a,b:9142,[::1]:9043/shop?datacenter=east&request_timeout=5";
        let settings = Settings::parse(url, None).unwrap();
        assert_eq!(settings.nodes, ["a:9042", "b:9142", "[::1]:9043"]);
        assert_eq!(settings.keyspace.as_deref(), Some("shop"));
        assert_eq!(settings.user, Some(("app".to_owned(), Secret("p@ss".to_owned()))));
        assert_eq!(settings.read, Consistency::LocalQuorum);
        assert_eq!(settings.request_timeout, Duration::from_secs(5));
        assert!(!format!("{settings:?}").contains("p@ss"));
        assert_eq!(
            redact(url),
            "cassandra://app:***@a,b:9142,[::1]:9043/shop?datacenter=east&request_timeout=5"
        );
        for bad in [
            "cassandra:x",
            "cassandra:///k",
            "cassandra://h:port/k",
            "cassandra://h/k?x=1",
            "cassandra://h/k?request_timeout=0",
            "cassandra://h/k?sslmode=require",
        ] {
            assert!(Settings::parse(bad, None).is_err(), "{bad}");
        }
    }
}
