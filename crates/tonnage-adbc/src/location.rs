//! URLs: which driver, which database, and what else the driver is told.
//!
//! `duckdb:path.duckdb?memory_limit=1GB` and a bare `path.duckdb` name a DuckDB file; `adbc:DRIVER?uri=..` names any driver.
//! Every option but [`DRIVER`] and [`ENTRYPOINT`] goes to the driver as an option of the database, as it is.

use std::path::{Path, PathBuf};

use adbc_core::options::{OptionDatabase, OptionValue};
use tonnage_core::{
    error::{Error, Result},
    password::Password,
};
use tonnage_sql::settings::{decode, variable};

/// The option of a URL that names the library of the driver.
const DRIVER: &str = "driver";
/// The option that names the function by which it is initialised.
const ENTRYPOINT: &str = "entrypoint";
/// The environment variable that names DuckDB's library.
pub(crate) const LIBRARY_VARIABLE: &str = "TONNAGE_DUCKDB_LIBRARY";
/// The function by which DuckDB's library is initialised.
const DUCKDB_ENTRYPOINT: &str = "duckdb_adbc_init";
/// The name by which the driver manager finds DuckDB: a manifest `duckdb.toml`, or the system's `libduckdb.so`.
const DUCKDB_NAME: &str = "duckdb";

/// The library of a driver.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Library {
    /// A name, a path of a library, or a path of a manifest, as the driver manager takes it.
    pub(crate) name: String,
    /// The function by which it is initialised; none for the one of its manifest, or of its name.
    pub(crate) entrypoint: Option<String>,
}

/// Where a database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    /// The driver.
    pub(crate) library: Library,
    /// The file, where the database is one.
    pub(crate) file: Option<PathBuf>,
    /// Options of the database, by name.
    options: Vec<(String, String)>,
    /// For messages.
    shown: String,
}

impl Location {
    /// Reads a URL. A password that was given apart from it is the driver's option `password`.
    pub(crate) fn parse(url: &str, password: Option<&Password>) -> Result<Self> {
        let shown = redact(url);
        let (scheme, rest) = match url.split_once(':') {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("adbc") => ("adbc", rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("duckdb") => ("duckdb", rest),
            _ => return Self::of_file(url, Vec::new(), shown),
        };
        let (name, query) = rest.split_once('?').unwrap_or((rest, ""));
        let name = decode(name, "name of the database", &shown)?;
        let options = url::form_urlencoded::parse(query.as_bytes())
            .map(|(name, value)| (name.into_owned(), value.into_owned()));
        let mut options: Vec<(String, String)> = options.collect();
        if let Some((name, _)) = options
            .iter()
            .find(|(name, value)| name.contains('\0') || value.contains('\0'))
        {
            return Err(Error::config(format!(
                "the option {name} in {shown} holds a NUL byte"
            )));
        }
        if let Some(password) = password {
            options.retain(|(name, _)| name != "password");
            options.push(("password".to_owned(), password.reveal().to_owned()));
        }
        match scheme {
            "adbc" => Self::of_driver(name, options, shown),
            _ => Self::of_file(name.strip_prefix("//").unwrap_or(&name), options, shown),
        }
    }

    fn of_file(path: &str, mut options: Vec<(String, String)>, shown: String) -> Result<Self> {
        if path.is_empty() {
            return Err(
                Error::config("no database file is named").hint("write duckdb:path.duckdb, or path.duckdb")
            );
        }
        if path == ":memory:" {
            return Err(
                Error::config("a database in memory would be gone when the load ends")
                    .hint("name a file: duckdb:path.duckdb"),
            );
        }
        if let Some((name, _)) = options.iter().find(|(name, _)| name == "path" || name == "uri") {
            return Err(Error::config(format!(
                "the option {name} in {shown} names a database, which is named already"
            ))
            .hint("write duckdb:path.duckdb"));
        }
        let path = std::path::absolute(path)
            .map_err(|error| Error::config(format!("'{path}' is not a path: {error}")))?;
        let named = take(&mut options, DRIVER).or_else(|| variable(LIBRARY_VARIABLE));
        Ok(Self {
            library: Library {
                name: named.unwrap_or_else(|| DUCKDB_NAME.to_owned()),
                entrypoint: Some(
                    take(&mut options, ENTRYPOINT).unwrap_or_else(|| DUCKDB_ENTRYPOINT.to_owned()),
                ),
            },
            file: Some(path),
            options,
            shown,
        })
    }

    fn of_driver(name: String, mut options: Vec<(String, String)>, shown: String) -> Result<Self> {
        if name.is_empty() {
            return Err(Error::config("no driver is named")
                .hint("write adbc:DRIVER?uri=.., where DRIVER is a name, a library or a manifest"));
        }
        // A database of DuckDB in a file is the same one by either name.
        let entrypoint = options
            .iter()
            .find(|(name, _)| name == ENTRYPOINT)
            .map(|(_, value)| value.as_str());
        if name == DUCKDB_NAME || entrypoint == Some(DUCKDB_ENTRYPOINT) {
            if name != DUCKDB_NAME {
                options.push((DRIVER.to_owned(), name));
            }
            let path = take(&mut options, "path")
                .or_else(|| take(&mut options, "uri"))
                .unwrap_or_default();
            return Self::of_file(&path, options, shown);
        }
        Ok(Self {
            library: Library {
                name,
                entrypoint: take(&mut options, ENTRYPOINT),
            },
            file: None,
            options,
            shown,
        })
    }

    /// For messages: without passwords.
    pub(crate) fn shown(&self) -> String {
        match &self.file {
            Some(file) => file.display().to_string(),
            None => self.shown.clone(),
        }
    }

    /// What the driver is given.
    pub(crate) fn database_options(&self) -> Vec<(OptionDatabase, OptionValue)> {
        let path = self.file.iter().map(|file| {
            let text = file.to_string_lossy().into_owned();
            (
                OptionDatabase::Other("path".to_owned()),
                OptionValue::String(text),
            )
        });
        let others = self.options.iter().map(|(name, value)| {
            let name = match name.as_str() {
                "uri" => OptionDatabase::Uri,
                "username" => OptionDatabase::Username,
                "password" => OptionDatabase::Password,
                other => OptionDatabase::Other(other.to_owned()),
            };
            (name, OptionValue::String(value.clone()))
        });
        path.chain(others).collect()
    }

    /// Whether the file is there. `Config` where it is a directory, or in a directory that is not there.
    pub(crate) fn exists(&self) -> Result<bool> {
        let Some(path) = &self.file else {
            return Ok(true);
        };
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                Err(Error::config(format!("{} is a directory", path.display()))
                    .hint("name a database file in it"))
            }
            Ok(_) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let directory = path.parent().unwrap_or(Path::new("/"));
                match directory.is_dir() {
                    true => Ok(false),
                    false => Err(Error::config(format!(
                        "{}: the directory {} does not exist",
                        path.display(),
                        directory.display()
                    ))
                    .hint("make the directory first, or check the path")),
                }
            }
            Err(error) => {
                Err(Error::config(format!("{} cannot be opened: {error}", path.display())).caused_by(error))
            }
        }
    }
}

fn take(options: &mut Vec<(String, String)>, name: &str) -> Option<String> {
    let at = options.iter().position(|(known, _)| known == name)?;
    Some(options.remove(at).1).filter(|value| !value.is_empty())
}

/// The file of a database and the one that DuckDB keeps next to it; none where the URL cannot be read, or names no file.
pub(crate) fn files(url: &str) -> Vec<PathBuf> {
    let file = Location::parse(url, None).ok().and_then(|location| location.file);
    let beside = |file: PathBuf| {
        let mut log = file.clone().into_os_string();
        log.push(".wal");
        [file, PathBuf::from(log)]
    };
    file.map(beside).into_iter().flatten().collect()
}

/// Parts of option names whose values are secret.
const SECRET: [&str; 7] = ["pass", "pwd", "token", "secret", "key", "credential", "auth"];

/// The URL as it may be shown: values of options that may be secret are `***`, and so is a password in a `uri`.
pub(crate) fn redact(url: &str) -> String {
    let Some((place, query)) = url.split_once('?').filter(|_| url.contains(':')) else {
        return url.to_owned();
    };
    let options = query.split('&').map(|option| match option.split_once('=') {
        Some((name, _)) if SECRET.iter().any(|part| name.to_ascii_lowercase().contains(part)) => {
            format!("{name}=***")
        }
        Some((name, value)) => {
            let value = percent_encoding::percent_decode_str(value).decode_utf8_lossy();
            format!("{name}={}", tonnage_core::password::hide(&value))
        }
        None => option.to_owned(),
    });
    format!("{place}?{}", options.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let duck = Location::parse(
            "duckdb:/a/b%20c.duckdb?driver=/lib/libduckdb.so&memory_limit=1GB",
            None,
        )
        .unwrap();
        assert_eq!(duck.file.as_deref(), Some(Path::new("/a/b c.duckdb")));
        assert_eq!(duck.library.name, "/lib/libduckdb.so");
        assert_eq!(duck.library.entrypoint.as_deref(), Some(DUCKDB_ENTRYPOINT));
        assert_eq!(duck.options, [("memory_limit".to_owned(), "1GB".to_owned())]);
        let bare = Location::parse("/a/b?c.duckdb", None).unwrap();
        assert_eq!(bare.file.as_deref(), Some(Path::new("/a/b?c.duckdb")));
        let same = Location::parse("adbc:duckdb?path=/a/b.duckdb", None).unwrap();
        assert_eq!(same.file.as_deref(), Some(Path::new("/a/b.duckdb")));
        let password = Password::new("s3cret", "typed");
        let named = Location::parse(
            "adbc:/l/libduckdb.so?entrypoint=duckdb_adbc_init&path=/a/b.duckdb",
            None,
        )
        .unwrap();
        assert_eq!(
            (named.file.as_deref(), named.library.name.as_str()),
            (Some(Path::new("/a/b.duckdb")), "/l/libduckdb.so")
        );
        let other = Location::parse("adbc:snowflake?uri=x&adbc.snowflake.sql.db=y", Some(&password)).unwrap();
        assert_eq!(
            (other.library.name.as_str(), other.library.entrypoint.as_deref()),
            ("snowflake", None)
        );
        assert_eq!(other.options.len(), 3);
        assert!(!other.shown().contains("s3cret"));
        for url in [
            "duckdb:",
            "duckdb::memory:",
            "adbc:",
            "adbc:duckdb",
            "duckdb:a.duckdb?path=b",
            "duckdb:a%00b",
        ] {
            assert!(Location::parse(url, None).is_err(), "{url}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        for (url, shown) in [
            ("a.duckdb", "a.duckdb"),
            (
                "duckdb:a.duckdb?motherduck_token=abc&threads=2",
                "duckdb:a.duckdb?motherduck_token=***&threads=2",
            ),
            (
                "adbc:postgresql?uri=postgresql://u:pw@h/d",
                "adbc:postgresql?uri=postgresql://u:***@h/d",
            ),
            (
                "adbc:x?uri=postgresql%3A%2F%2Fu%3Apw%40h%2Fd",
                "adbc:x?uri=postgresql://u:***@h/d",
            ),
            ("adbc:x?Password=pw", "adbc:x?Password=***"),
        ] {
            assert_eq!(redact(url), shown);
        }
    }
}
