//! Targets by name: `@shop` is the section `[shop]` of a `targets.toml`.
//!
//! ```toml
//! [shop]
//! url = "postgresql://app@db.example/shop?sslmode=verify-full"
//! password_env = "SHOP_PASSWORD"        # or password_file = "shop.password"
//!
//! [orders]                              # one table over several databases
//! members = ["@shop", "postgresql://app@db2.example/shop"]
//! shard_by = "customer"                 # or ["tenant", "customer"]
//! hash = "xxh3"                         # the only one there is
//! ```
//!
//! What `tonnage tune` has found is in sections below: see [`tuned`](super::tuned).
//!
//! A password of a section with members is for those that are URLs.
//!
//! A name is looked up in `./targets.toml`, then in `$XDG_CONFIG_HOME/tonnage/targets.toml` (`~/.config` where that is
//! not set). A `password_file` without a leading `/` or `~/` is next to the file that names it. What holds a password
//! may be read by its owner only. No text of these files is ever part of a message but names of keys and sections: what
//! is wrong with a line is told by its number.

use std::path::{Path, PathBuf};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};
use tonnage_core::{
    error::{Error, Result},
    password::Password,
    table::nearest,
};
use tonnage_places::StoreSettings;

use super::tuned::Section;

/// What a name means.
pub(super) struct Named {
    pub place: NamedPlace,
    /// The file, as it may be shown.
    pub file: String,
    /// `FILE line N: the password of [shop]`, for messages.
    described: String,
    password: Option<PasswordPlace>,
    /// Settings of loads that were found for it.
    pub tuned: Vec<Section>,
}

/// One database, or several that hold tables together.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NamedPlace {
    Url(String),
    Sharded {
        members: Vec<String>,
        shard_by: Vec<String>,
    },
}

/// Where the password of a section is. It is looked for only when it is needed.
enum PasswordPlace {
    Variable(String),
    File(PathBuf),
}

/// What the process was given; a seam so that tests need not change their own environment.
pub(super) struct Surroundings<'a> {
    /// The directory of the first file.
    pub directory: &'a Path,
    /// An environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

fn process_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Looks `name`, without its `@`, up in the files of this process. `Config` where it is not there or not right.
pub(super) fn find(name: &str) -> Result<Named> {
    find_in(
        name,
        &Surroundings {
            directory: Path::new(""),
            variable: &process_variable,
        },
    )
}

const KEYS: [&str; 7] = [
    "url",
    "password_env",
    "password_file",
    "hash",
    "members",
    "shard_by",
    super::tuned::KEY,
];

const STORE_KEYS: [&str; 12] = [
    "url",
    "endpoint",
    "region",
    "profile",
    "anonymous",
    "access_key_id",
    "secret_access_key_env",
    "secret_access_key_file",
    "account",
    "account_key_env",
    "account_key_file",
    "credentials_file",
];

/// The store of this name; none where there is none. `Config` where it is not described well.
pub fn find_store(name: &str) -> Result<Option<StoreSettings>> {
    find_store_in(
        name,
        &Surroundings {
            directory: Path::new(""),
            variable: &process_variable,
        },
    )
}

fn find_store_in(name: &str, surroundings: &Surroundings<'_>) -> Result<Option<StoreSettings>> {
    for path in &paths(surroundings) {
        // A file that cannot be read is reported where a database is looked for; here it names no store.
        let Ok(text) = std::fs::read_to_string(path) else {
            continue;
        };
        let file = File { path, text: &text };
        let document = file.parse()?;
        if let Some((_, section)) = document.iter().find(|(key, _)| key.get_ref() == name) {
            return file.store(name, section, surroundings);
        }
    }
    Ok(None)
}

pub(super) fn find_in(name: &str, surroundings: &Surroundings<'_>) -> Result<Named> {
    if name.is_empty() {
        return Err(
            Error::config("'@' is not followed by the name of a target").hint("@NAME of targets.toml")
        );
    }
    let mut sections = Vec::new();
    let mut read = Vec::new();
    let paths = paths(surroundings);
    for path in &paths {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::config(format!("cannot read {}: {error}", path.display()))),
        };
        let file = File { path, text: &text };
        let document = file.parse()?;
        if let Some((_, section)) = document.iter().find(|(key, _)| key.get_ref() == name) {
            return file.named(name, section, surroundings);
        }
        sections.extend(document.keys().map(|key| key.get_ref().to_string()));
        read.push(file.shown());
    }
    if read.is_empty() {
        let places: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Error::config(format!(
            "@{name} is a name in targets.toml, and there is no such file"
        ))
        .hint(format!(
            "write [{name}] and a line url = \"..\" into {}",
            places.join(" or ")
        )));
    }
    let error = Error::config(format!("there is no target @{name} in {}", read.join(" or ")));
    let near = nearest(name, sections.iter().map(String::as_str));
    let listed = |names: Vec<&str>| -> String {
        let names: Vec<_> = names.iter().map(|name| format!("@{name}")).collect();
        names.join(", ")
    };
    Err(match (near.is_empty(), sections.is_empty()) {
        (false, _) => error.hint(format!("did you mean {}?", listed(near))),
        (true, false) => error.hint(format!(
            "there are {}",
            listed(sections.iter().map(String::as_str).take(12).collect())
        )),
        (true, true) => error.hint(format!("write [{name}] and a line url = \"..\" into it")),
    })
}

/// Where a `targets.toml` may be, first come first served.
fn paths(surroundings: &Surroundings<'_>) -> Vec<PathBuf> {
    let variable = |name| (surroundings.variable)(name).map(PathBuf::from);
    // The specification of XDG_CONFIG_HOME has relative paths ignored.
    let settings = variable("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| Some(variable("HOME")?.join(".config")));
    let own = settings.map(|settings| settings.join("tonnage/targets.toml"));
    [Some(surroundings.directory.join("targets.toml")), own]
        .into_iter()
        .flatten()
        .collect()
}

/// The settings of loads that a file holds for the target `name`. `Config` where it is not there or not right.
pub(super) fn sections_in(file: &File<'_>, name: &str) -> Result<Vec<Section>> {
    let document = file.parse()?;
    let Some((_, section)) = document.iter().find(|(key, _)| key.get_ref() == name) else {
        return Err(Error::config(format!(
            "there is no target @{name} in {}",
            file.shown()
        )));
    };
    let surroundings = Surroundings {
        directory: Path::new(""),
        variable: &process_variable,
    };
    Ok(file.named(name, section, &surroundings)?.tuned)
}

/// A `targets.toml` that is there.
pub(super) struct File<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
}

impl File<'_> {
    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) fn line(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or(self.text);
        before.matches('\n').count() + 1
    }

    pub(super) fn wrong(&self, offset: usize, what: impl std::fmt::Display) -> Error {
        Error::config(format!("{} line {}: {what}", self.shown(), self.line(offset)))
    }

    fn parse(&self) -> Result<DeTable<'_>> {
        DeTable::parse(self.text)
            .map(Spanned::into_inner)
            .map_err(|error| {
                // Not the error's own display: that quotes the line, which may hold a password.
                let offset = error.span().map_or(0, |span| span.start);
                self.wrong(offset, error.message())
            })
    }

    fn named(
        &self,
        name: &str,
        section: &Spanned<DeValue<'_>>,
        surroundings: &Surroundings<'_>,
    ) -> Result<Named> {
        let DeValue::Table(table) = section.get_ref() else {
            return Err(self
                .wrong(section.span().start, format!("{name} is not a section"))
                .hint(format!("write [{name}] and below it url = \"..\"")));
        };
        let mut found: [Option<&str>; KEYS.len()] = [None; KEYS.len()];
        let (mut members, mut shard_by, mut tuned) = (None, None, Vec::new());
        for (key, value) in table {
            let word = key.get_ref().as_ref();
            let Some(at) = KEYS.iter().position(|known| *known == word) else {
                let error = self.wrong(key.span().start, format!("unknown key '{word}' in [{name}]"));
                return Err(match nearest(word, KEYS).first() {
                    Some(near) => error.hint(format!("did you mean {near}?")),
                    None => error.hint(format!("keys are {}", KEYS.join(", "))),
                });
            };
            match word {
                "members" => members = Some(self.texts(word, value)?),
                "shard_by" => shard_by = Some(self.texts(word, value)?),
                super::tuned::KEY => tuned = super::tuned::read(self, value)?,
                _ => found[at] = Some(self.text_of(word, value)?),
            }
        }
        let [url, variable, password_file, hash, ..] = found;
        let here = section.span().start;
        let place = match (url, members, shard_by) {
            (Some(url), None, None) => NamedPlace::Url(url.to_owned()),
            (None, Some(members), Some(shard_by)) => NamedPlace::Sharded { members, shard_by },
            (Some(_), ..) => {
                return Err(self
                    .wrong(
                        here,
                        format!("[{name}] is one database by its url, and several by its members"),
                    )
                    .hint("leave url out, or members and shard_by"));
            }
            (None, Some(_), None) => {
                return Err(self
                    .wrong(
                        here,
                        format!("[{name}] has members, and nothing says how rows are shared among them"),
                    )
                    .hint("shard_by = \"column\" names the column that decides"));
            }
            (None, None, Some(_)) => {
                return Err(self
                    .wrong(here, format!("[{name}] is sharded, and has no members"))
                    .hint("members = [\"..\", \"..\"] names the databases"));
            }
            (None, None, None) => {
                return Err(self.wrong(here, format!("[{name}] has no url")).hint(format!(
                    "url = \"{}\"",
                    super::DRIVERS
                        .iter()
                        .rfind(|d| d.example.contains("://"))
                        .map_or("", |d| d.example)
                )));
            }
        };
        self.check_hash(name, here, &place, hash)?;
        let given = variable.iter().chain(&password_file).count();
        self.check_passwords(name, here, &place, given)?;
        let password = match (variable, password_file) {
            (Some(variable), _) => Some(PasswordPlace::Variable(variable.to_owned())),
            (None, Some(path)) => Some(PasswordPlace::File(self.beside(path, surroundings))),
            (None, None) => None,
        };
        Ok(Named {
            place,
            file: self.shown(),
            described: format!(
                "{} line {}: the password of [{name}]",
                self.shown(),
                self.line(here)
            ),
            password,
            tuned,
        })
    }

    /// Refuses a hash that is not known, or that chooses among nothing.
    fn check_hash(&self, name: &str, here: usize, place: &NamedPlace, hash: Option<&str>) -> Result<()> {
        match (place, hash) {
            (_, None) => {}
            (NamedPlace::Sharded { .. }, Some(tonnage_engine::sharded::HASH)) => {}
            (NamedPlace::Sharded { .. }, Some(hash)) => {
                return Err(self
                    .wrong(
                        here,
                        format!("[{name}] has the hash '{hash}', which is not known"),
                    )
                    .hint(format!(
                        "hash = \"{}\" is the only one",
                        tonnage_engine::sharded::HASH
                    )));
            }
            (NamedPlace::Url(_), Some(_)) => {
                return Err(self
                    .wrong(
                        here,
                        format!("[{name}] has a hash and no members to choose by it"),
                    )
                    .hint("leave hash out"));
            }
        }
        Ok(())
    }

    /// Refuses passwords that nobody takes, that are given twice or that others can read. `given` is how many the section
    /// has next to that of its url.
    fn check_passwords(&self, name: &str, here: usize, place: &NamedPlace, given: usize) -> Result<()> {
        let urls: Vec<&str> = match place {
            NamedPlace::Url(url) => vec![url],
            // Those with names have sections of their own.
            NamedPlace::Sharded { members, .. } => {
                let members = members.iter().map(String::as_str);
                members.filter(|member| !member.starts_with('@')).collect()
            }
        };
        let mut drivers = Vec::new();
        for url in &urls {
            let driver = super::driver_of_url(url);
            drivers.push(driver.map_err(|error| error.at(format!("@{name} of {}", self.shown())))?);
        }
        let in_url = drivers
            .iter()
            .zip(&urls)
            .any(|(driver, url)| (driver.redact)(url) != *url);
        if in_url && is_open(self.path) {
            return Err(self
                .wrong(
                    here,
                    format!("the url of [{name}] holds a password, and group or others can read the file"),
                )
                .hint(format!(
                    "chmod 0600 {}, or keep the password elsewhere: password_env or password_file",
                    self.shown()
                )));
        }
        if given + usize::from(in_url) > 1 {
            return Err(self
                .wrong(here, format!("[{name}] has more than one password"))
                .hint("leave one: in the url, password_env or password_file"));
        }
        let takes_none = drivers.iter().find(|driver| !driver.passwords);
        if let Some(driver) = takes_none.filter(|_| given > 0) {
            return Err(self
                .wrong(
                    here,
                    format!("[{name}] has a password, and {} takes none", driver.name),
                )
                .hint("leave password_env and password_file out"));
        }
        if given > 0 && drivers.is_empty() {
            return Err(self
                .wrong(
                    here,
                    format!("[{name}] has a password, and each of its members has its own section"),
                )
                .hint("write password_env or password_file there"));
        }
        Ok(())
    }

    /// A section that describes a store; none where it is of a database.
    fn store(
        &self,
        name: &str,
        section: &Spanned<DeValue<'_>>,
        surroundings: &Surroundings<'_>,
    ) -> Result<Option<StoreSettings>> {
        let DeValue::Table(table) = section.get_ref() else {
            return Ok(None);
        };
        let here = section.span().start;
        let url = table.iter().find(|(key, _)| key.get_ref() == "url");
        let is_store =
            |url: &str| tonnage_places::is_url(url) && !url.to_ascii_lowercase().starts_with("http");
        let Some(url) = url
            .and_then(|(_, url)| url.get_ref().as_str())
            .filter(|url| is_store(url))
        else {
            return Ok(None);
        };
        let mut settings = StoreSettings {
            url: url.to_owned(),
            ..StoreSettings::default()
        };
        for (key, value) in table {
            let word = key.get_ref().as_ref();
            if !STORE_KEYS.contains(&word) {
                let error = self.wrong(key.span().start, format!("unknown key '{word}' in [{name}]"));
                return Err(match nearest(word, STORE_KEYS).first() {
                    Some(near) => error.hint(format!("did you mean {near}?")),
                    None => error.hint(format!("keys of a store are {}", STORE_KEYS.join(", "))),
                });
            }
            if word == "anonymous" {
                settings.anonymous = value.get_ref().as_bool().ok_or_else(|| {
                    self.wrong(value.span().start, "anonymous is neither true nor false")
                        .hint("write anonymous = true")
                })?;
                continue;
            }
            let text = self.text_of(word, value)?.to_owned();
            match word {
                "endpoint" => settings.endpoint = Some(text),
                "region" => settings.region = Some(text),
                "profile" => settings.profile = Some(text),
                "access_key_id" | "account" => settings.user = Some(text),
                "credentials_file" => settings.credentials_file = Some(self.beside(&text, surroundings)),
                "url" => {}
                _ => {
                    let place = match word.ends_with("_env") {
                        true => PasswordPlace::Variable(text),
                        false => PasswordPlace::File(self.beside(&text, surroundings)),
                    };
                    let kept = Named {
                        place: NamedPlace::Url(url.to_owned()),
                        file: self.shown(),
                        described: format!("{} line {}: the key of [{name}]", self.shown(), self.line(here)),
                        password: Some(place),
                        tuned: Vec::new(),
                    };
                    let key = kept.password_in(surroundings.variable)?;
                    settings.secret = key.map(|key| key.reveal().to_owned());
                }
            }
        }
        match (&settings.user, &settings.secret) {
            (Some(_), None) if url.starts_with("s3") => Err(self
                .wrong(here, format!("[{name}] has the id of a key, and not the key"))
                .hint(
                    "secret_access_key_env names the variable, secret_access_key_file the file that holds it",
                )),
            (None, Some(_)) => Err(self
                .wrong(here, format!("[{name}] has a key, and nothing says whose it is"))
                .hint("access_key_id = \"..\" of S3, account = \"..\" of Azure")),
            _ => Ok(Some(settings)),
        }
    }

    fn text_of<'a>(&self, word: &str, value: &'a Spanned<DeValue<'_>>) -> Result<&'a str> {
        let text = value.get_ref().as_str().filter(|text| !text.is_empty());
        text.ok_or_else(|| {
            self.wrong(value.span().start, format!("{word} is not a text"))
                .hint(format!("write {word} = \"..\""))
        })
    }

    /// A list of texts, or one by itself.
    fn texts(&self, word: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>> {
        let DeValue::Array(items) = value.get_ref() else {
            return self.text_of(word, value).map(|text| vec![text.to_owned()]);
        };
        let texts = items.iter().map(|item| {
            let text = item.get_ref().as_str().filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| {
                self.wrong(
                    item.span().start,
                    format!("{word} holds something else than texts"),
                )
                .hint(format!("write {word} = [\"..\", \"..\"]"))
            })
        });
        texts.collect()
    }

    /// `path` from the home directory, or from that of this file.
    fn beside(&self, path: &str, surroundings: &Surroundings<'_>) -> PathBuf {
        match (path.strip_prefix("~/"), (surroundings.variable)("HOME")) {
            (Some(rest), Some(home)) => Path::new(&home).join(rest),
            _ => self.path.parent().unwrap_or(Path::new("")).join(path),
        }
    }
}

impl Named {
    /// The password that is kept separately from the URL. `Config` where it is not where it should be.
    pub fn password(&self) -> Result<Option<Password>> {
        self.password_in(&process_variable)
    }

    fn password_in(&self, variables: &dyn Fn(&str) -> Option<String>) -> Result<Option<Password>> {
        let wrong = |what: String| Error::config(format!("{} is in {what}", self.described));
        let (text, origin) = match &self.password {
            None => return Ok(None),
            Some(PasswordPlace::Variable(variable)) => {
                let text = variables(variable).ok_or_else(|| {
                    wrong(format!("the variable {variable}, which is not set"))
                        .hint(format!("export {variable}=.., or --ask-password"))
                })?;
                (text, format!("from the variable {variable}"))
            }
            Some(PasswordPlace::File(path)) => {
                let shown = path.display();
                let text = std::fs::read_to_string(path).map_err(|error| {
                    wrong(format!("{shown}, which cannot be read: {error}"))
                        .hint("password_file names a file with the password on its first line")
                })?;
                if is_open(path) {
                    return Err(wrong(format!("{shown}, which group or others can read"))
                        .hint(format!("chmod 0600 {shown}")));
                }
                let line = text.lines().next().unwrap_or_default();
                if line.is_empty() {
                    return Err(wrong(format!("{shown}, whose first line is empty")));
                }
                (line.to_owned(), format!("from {shown}"))
            }
        };
        Ok(Some(Password::new(text, origin)))
    }
}

/// Whether others than its owner may read a file.
#[cfg(unix)]
fn is_open(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_open(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests;
