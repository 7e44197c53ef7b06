//! Option files (`my.cnf`): the groups that clients read.
//!
//! `!include` and `!includedir` are not followed: what they lead to is the server's own configuration on the systems
//! that use them.

use std::path::{Path, PathBuf};

use tonnage_core::error::{Error, Result};

/// The groups of a client, of which a later one in the file replaces an earlier one.
const GROUPS: &[&str] = &["client", "client-server", "client-mariadb"];

/// An option and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    name: String,
    pub value: String,
    /// The file, as it may be shown.
    pub file: String,
}

/// The options of all files, in their order.
#[derive(Default)]
pub(super) struct OptionFiles(Vec<Found>);

impl OptionFiles {
    /// The one file that the URL names. `Config` where it cannot be read.
    pub fn one(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::config(format!("cannot read {}: {error}", path.display())))?;
        let mut files = Self::default();
        files.add(&path.display().to_string(), &text);
        Ok(files)
    }

    /// Those that are there. As the servers' own clients: a file that anyone may write to is not used.
    pub fn read(paths: &[PathBuf]) -> Self {
        let mut files = Self::default();
        for path in paths {
            let shown = path.display().to_string();
            if is_writable_by_all(path) {
                tracing::warn!("{shown} can be written to by everyone; ignored");
                continue;
            }
            if let Ok(text) = std::fs::read_to_string(path) {
                files.add(&shown, &text);
            }
        }
        files
    }

    fn add(&mut self, file: &str, text: &str) {
        let mut ours = false;
        for line in text.lines().map(str::trim) {
            if let Some(group) = line.strip_prefix('[') {
                ours = GROUPS.contains(&group.trim_end_matches(']').trim());
                continue;
            }
            if !ours || line.is_empty() || line.starts_with(['#', ';', '!']) {
                continue;
            }
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            self.0.push(Found {
                name: name.trim().replace('_', "-"),
                value: unquoted(value.trim()),
                file: file.to_owned(),
            });
        }
    }

    /// The last of this name that says something.
    pub fn option(&self, name: &str) -> Option<&Found> {
        let mut found = self.0.iter().rev();
        found.find(|option| option.name == name && !option.value.is_empty())
    }
}

/// A value in quotes as it is, with the escapes that the format knows; else up to a comment.
fn unquoted(value: &str) -> String {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote)
            && let Some(end) = inner.rfind(quote)
        {
            return escaped(&inner[..end]);
        }
    }
    escaped(value.split(" #").next().unwrap_or(value).trim_end())
}

fn escaped(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            value.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => value.push('\n'),
            Some('t') => value.push('\t'),
            Some('r') => value.push('\r'),
            Some('b') => value.push('\u{8}'),
            Some('s') => value.push(' '),
            Some(other @ ('\\' | '"' | '\'')) => value.push(other),
            Some(other) => value.extend(['\\', other]),
            None => value.push('\\'),
        }
    }
    value
}

#[cfg(unix)]
fn is_writable_by_all(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o002 != 0)
}

#[cfg(not(unix))]
fn is_writable_by_all(_path: &Path) -> bool {
    false
}
