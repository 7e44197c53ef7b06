//! Where and how to connect: `nosql:http://user:password@host:8080?option=value`, and `nosql:cloud?region=..` for the cloud.
//!
//! A password is never shown: not by `Debug`, not by an error.

use std::{path::PathBuf, time::Duration};

use percent_encoding::percent_decode_str;
use tonnage_core::{
    error::{Error, Result},
    password::Password,
};
use tonnage_sql::settings::Secret;

/// How long a request may take unless `timeout=` says otherwise.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Requests that a lane has under way unless `requests=` says otherwise.
const REQUESTS: usize = 32;

/// What the path of the URL is for the cloud service.
const CLOUD: &str = "cloud";

const SHAPE: &str = "write it as nosql:http://host:8080, or nosql:cloud?region=us-ashburn-1&compartment=OCID";

const OPTIONS: &str = "options are compartment, region, profile, config, timeout (seconds), requests, ledger, and for tables \
                       that are made: read_units, write_units, storage_gb";

/// The limits of tables that are made in the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Units of reading a second.
    pub read_units: i32,
    /// Units of writing a second.
    pub write_units: i32,
    /// Gigabytes.
    pub storage_gb: i32,
}

/// Everything that a connection needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    /// `http://host:port` of a proxy; none for the cloud, which is found by its region.
    pub endpoint: Option<String>,
    /// Of a store with users.
    pub user: Option<(String, Secret)>,
    pub compartment: Option<String>,
    pub region: Option<String>,
    /// The file with the keys of the cloud, where it is not `~/.oci/config`.
    pub config: Option<String>,
    /// The profile in that file.
    pub profile: String,
    pub timeout: Duration,
    /// Requests that a lane has under way.
    pub requests: usize,
    pub limits: Limits,
    /// Where the ledger is, where not in the default place.
    pub ledger: Option<PathBuf>,
}

impl Settings {
    /// `Config` where the URL is wrong; the error does not show it.
    pub fn parse(url: &str, password: Option<Password>) -> Result<Self> {
        let bad = |why: &str| Error::config(format!("the URL of the database is wrong: {why}")).hint(SHAPE);
        let rest = url
            .strip_prefix("nosql:")
            .ok_or_else(|| bad("it does not begin with nosql:"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut settings = Self {
            endpoint: None,
            user: None,
            compartment: None,
            region: None,
            config: None,
            profile: "DEFAULT".to_owned(),
            timeout: REQUEST_TIMEOUT,
            requests: REQUESTS,
            limits: Limits {
                read_units: 50,
                write_units: 50,
                storage_gb: 1,
            },
            ledger: None,
        };
        if place != CLOUD {
            let (scheme, rest) = place
                .split_once("://")
                .ok_or_else(|| bad("there is no '://' in it"))?;
            if !matches!(scheme, "http" | "https") {
                return Err(bad("a proxy is reached by http or https"));
            }
            let (account, host) = match rest.rsplit_once('@') {
                Some((account, host)) => (Some(account), host),
                None => (None, rest),
            };
            let host = host.trim_end_matches('/');
            if host.is_empty() || host.contains('/') {
                return Err(bad("behind http:// are a host and a port, and nothing else"));
            }
            settings.endpoint = Some(format!("{scheme}://{host}"));
            if let Some(account) = account {
                let (name, secret) = account.split_once(':').unwrap_or((account, ""));
                let decode = |text: &str| match percent_decode_str(text).decode_utf8() {
                    Ok(text) => Ok(text.into_owned()),
                    Err(_) => Err(bad("a part does not decode to UTF-8")),
                };
                settings.user = Some((decode(name)?, Secret(decode(secret)?)));
            }
        }
        match (&mut settings.user, password) {
            (_, None) => {}
            (Some((_, secret)), Some(given)) => *secret = Secret(given.reveal().to_owned()),
            (None, Some(_)) => {
                return Err(Error::config("a password was given, and no user")
                    .hint("name the user in the URL: nosql:https://user@host:443"));
            }
        }
        let sends_plainly = settings
            .endpoint
            .as_ref()
            .is_some_and(|place| place.starts_with("http:"));
        if settings.user.is_some() && sends_plainly {
            return Err(
                Error::config("a password would be sent over http, without encryption")
                    .hint("write https: a store with users has a proxy with TLS"),
            );
        }
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            settings.set(&name, &value)?;
        }
        if settings.endpoint.is_none() && settings.region.is_none() {
            return Err(bad("the cloud is found by its region"));
        }
        Ok(settings)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let number = |least: u32, most: u32| {
            let number = value
                .parse()
                .ok()
                .filter(|number| (least..=most).contains(number));
            number.ok_or_else(|| {
                Error::config(format!("{name}={value} is not a number from {least} to {most}"))
            })
        };
        match name {
            "compartment" => self.compartment = Some(value.to_owned()),
            "region" => self.region = Some(value.to_owned()),
            "config" => self.config = Some(value.to_owned()),
            "profile" => self.profile = value.to_owned(),
            "timeout" => self.timeout = Duration::from_secs(number(1, 3_600)?.into()),
            "requests" => self.requests = number(1, 1_000)? as usize,
            "read_units" => self.limits.read_units = number(1, 40_000)? as i32,
            "write_units" => self.limits.write_units = number(1, 20_000)? as i32,
            "storage_gb" => self.limits.storage_gb = number(1, 5_000)? as i32,
            "ledger" => self.ledger = Some(PathBuf::from(value)),
            _ => return Err(Error::config(format!("there is no option {name}")).hint(OPTIONS)),
        }
        Ok(())
    }

    /// The database without the password.
    pub fn shown(&self) -> String {
        match (&self.endpoint, &self.region) {
            (Some(endpoint), _) => endpoint.clone(),
            (None, Some(region)) => format!("the cloud's region {region}"),
            (None, None) => CLOUD.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let settings = Settings::parse(
            "nosql:http://localhost:8080?compartment=a&requests=7&timeout=3",
            None,
        )
        .unwrap();
        assert_eq!(settings.endpoint.as_deref(), Some("http://localhost:8080"));
        assert_eq!(settings.compartment.as_deref(), Some("a"));
        assert_eq!((settings.requests, settings.timeout.as_secs()), (7, 3));
        let settings = Settings::parse("nosql:https://ann:p%40ss@db:443/", None).unwrap();
        assert_eq!(settings.endpoint.as_deref(), Some("https://db:443"));
        assert_eq!(settings.user, Some(("ann".to_owned(), Secret("p@ss".to_owned()))));
        assert!(!format!("{settings:?}").contains("p@ss"));
        let settings = Settings::parse("nosql:cloud?region=us-ashburn-1&write_units=500", None).unwrap();
        assert_eq!((settings.endpoint, settings.limits.write_units), (None, 500));
    }

    #[test]
    fn wrong_urls_are_refused_and_not_shown() {
        for url in [
            "nosql:localhost:8080",
            "nosql:ftp://secret@host",
            "nosql:http://",
            "nosql:http://host/secret",
            "nosql:http://ann:secret@host:8080",
            "nosql:cloud",
            "nosql:http://host?requests=0",
            "nosql:http://host?wait=secretly",
        ] {
            let error = Settings::parse(url, None).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{url}: {error}");
        }
    }
}
