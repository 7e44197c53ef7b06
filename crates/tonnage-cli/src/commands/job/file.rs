//! The file that names a job.

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tonnage::{Error, ErrorKind, Result, targets};
use tonnage_places::{File, url_of};

/// What stands for a password that is not shown.
const HIDDEN: &str = ":***@";

/// A job, and where it is. It has no password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobFile {
    /// The version that wrote it.
    pub tonnage: String,
    /// The job's id in the ledger.
    pub job: String,
    /// The database, its password removed.
    pub target: String,
    /// The file that has the ledger, where the database has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<PathBuf>,
    /// The table, for people.
    pub table: String,
    /// Its parts are numbered from 0 on.
    pub parts: u64,
    /// Files of all parts.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl JobFile {
    /// Reads a file of this machine, or an object.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let unreadable = |cause: &dyn std::fmt::Display| {
            Error::config(format!("{shown} cannot be read as the file of a job: {cause}"))
                .hint("`tonnage job plan` writes it; the id of a job, and the database behind it, do as well")
        };
        let read: Result<Self, _> = match url_of(path) {
            Some(url) => match tonnage_places::find(url, |_| true)?.as_slice() {
                [object] => serde_json::from_reader(File::of_object(object)),
                _ => return Err(unreadable(&"there is no such object")),
            },
            None => {
                let text = std::fs::read(path).map_err(|cause| unreadable(&cause))?;
                serde_json::from_slice(&text)
            }
        };
        read.map_err(|cause| unreadable(&cause))
    }

    /// Refuses a path at which something is.
    pub(super) fn check(path: &Path) -> Result<()> {
        if path == Path::new("-") || url_of(path).is_some() {
            return Ok(());
        }
        if path.exists() {
            return Err(Error::config(format!("-o {}: it exists", path.display()))
                .hint("name another file, or remove this one first: it may be that of another job"));
        }
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
                Err(Error::config(format!(
                    "-o {}: there is no directory {}",
                    path.display(),
                    parent.display()
                )))
            }
            _ => Ok(()),
        }
    }

    /// Writes it; `-` is standard output.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|cause| Error::bug(format!("a job cannot be written as JSON: {cause}")))?;
        let text = format!("{json}\n");
        if path == Path::new("-") {
            return crate::output::write(format_args!("{text}"));
        }
        let written = match url_of(path) {
            Some(_) => return tonnage::sinks::write_whole(path, text.as_bytes()),
            None => OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(path)
                .and_then(|mut file| file.write_all(text.as_bytes())),
        };
        written.map_err(|cause| {
            Error::new(ErrorKind::Refused, format!("-o {}: {cause}", path.display())).hint(format!(
                "job {} is on record: its id and the database do in place of the file",
                self.job
            ))
        })
    }

    /// The URL to connect to: a password comes from where it does for a URL without one.
    pub(super) fn url(&self) -> String {
        self.target.replacen(HIDDEN, "@", 1)
    }

    /// How a database is named in the file.
    pub(super) fn target_of(url: &str) -> String {
        // The machine that reads it has its own.
        if url.starts_with('@') {
            return url.to_owned();
        }
        match std::path::absolute(url) {
            Ok(path) if Path::new(url).is_file() => path.display().to_string(),
            _ => targets::redact(url),
        }
    }
}
