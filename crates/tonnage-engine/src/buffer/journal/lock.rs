//! Who has a journal open.
//!
//! Invariants:
//! - One process has a directory open: it has locked the directory itself, which cannot be removed and made again
//!   unnoticed, and the file `lock` in it, by which earlier releases go.
//! - Files are made in that directory only, not in another one that was put in its place.

use std::{
    fs::{self, File, Metadata, OpenOptions, TryLockError},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use tonnage_core::error::{Error, ErrorKind, Result};

use super::failed;

pub const LOCK: &str = "lock";

/// The directory of a journal, as it was opened.
#[derive(Debug, Clone)]
pub struct Home {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

fn identity(of: &Metadata) -> (u64, u64) {
    (of.dev(), of.ino())
}

impl Home {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses another directory by that path.
    pub fn check(&self) -> Result<()> {
        let found = fs::metadata(&self.path).map(|found| identity(&found));
        match found {
            Ok(found) if found == self.identity => Ok(()),
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(&self.path, &error)),
            _ => Err(Error::new(
                ErrorKind::Uncertain,
                format!(
                    "journal {} was moved or removed while it is in use",
                    self.path.display()
                ),
            )
            .hint("rows that are not in the table yet are where it was moved to; if it was removed, they are lost")),
        }
    }
}

/// Held as long as a journal is open.
#[derive(Debug)]
pub struct Lock {
    _directory: File,
    _file: File,
}

/// Locks `directory`, which is there. `Config` where another process has it.
pub fn lock(directory: &Path) -> Result<(Lock, Home)> {
    let opened = File::open(directory).map_err(|e| failed(directory, &e))?;
    let locked = try_lock(&opened, directory, directory);
    // Some network file systems lock files only.
    let is_supported = match locked {
        Err(error) if error.kind() == ErrorKind::Refused => {
            tracing::warn!("its directory cannot be locked, only the file in it: {error}");
            false
        }
        locked => locked.map(|()| true)?,
    };
    let path = directory.join(LOCK);
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)
        .map_err(|e| failed(&path, &e))?;
    try_lock(&file, &path, directory)?;
    let found = opened.metadata().map_err(|e| failed(directory, &e))?;
    let home = Home {
        path: directory.to_owned(),
        identity: identity(&found),
    };
    home.check()?;
    let now = fs::metadata(&path).and_then(|now| Ok(identity(&now) == identity(&file.metadata()?)));
    if !is_supported && !now.map_err(|e| failed(&path, &e))? {
        return Err(in_use(directory));
    }
    let lock = Lock {
        _directory: opened,
        _file: file,
    };
    Ok((lock, home))
}

fn try_lock(file: &File, path: &Path, journal: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(in_use(journal)),
        Err(TryLockError::Error(error)) => Err(Error::new(
            ErrorKind::Refused,
            format!("journal {}: {error}", path.display()),
        )),
    }
}

fn in_use(directory: &Path) -> Error {
    Error::config(format!(
        "journal {} is in use by another process",
        directory.display()
    ))
    .hint("a journal has one owner: stop the other, or name another directory")
}
