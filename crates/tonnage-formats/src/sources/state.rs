//! Whether a file is still what it was when a run began.
//!
//! A file that is written to while it is read yields rows of two versions of it, or ends early, and nothing in its
//! bytes need tell. So each block is read before its file is looked at: rows are only handed on if the file had not
//! changed by then.

use std::{
    fs::{self, Metadata},
    io,
    path::Path,
    time::UNIX_EPOCH,
};

use tonnage_core::{
    error::{Error, Result},
    report::Grouped,
};
use tonnage_places::File;

use super::{InputFile, compress::plain};

/// What tells one version of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Size in bytes.
    pub bytes: u64,
    /// Modification time, nanoseconds since 1970.
    pub modified_nanos: i128,
    /// Device and inode, where the system has them.
    pub inode: Option<(u64, u64)>,
}

impl FileState {
    /// What `metadata` says.
    pub fn of(metadata: &Metadata) -> io::Result<Self> {
        let modified_nanos = match metadata.modified()?.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_nanos() as i128,
            Err(before) => -(before.duration().as_nanos() as i128),
        };
        Ok(Self {
            bytes: metadata.len(),
            modified_nanos,
            inode: inode(metadata),
        })
    }

    /// `Input` where the file at `path` is no longer in this state.
    pub fn check(&self, path: &Path, shown: &str) -> Result<()> {
        let now = fs::metadata(path).and_then(|metadata| Self::of(&metadata));
        let now = now.map_err(|cause| {
            let gone = format!("{shown} is no longer there to be read: {}", plain(&cause));
            begin_again(Error::input(gone).caused_by(cause))
        })?;
        self.compare(&now, shown)
    }

    /// The same of a file that is read as `open`: it may be removed meanwhile, but not replaced.
    pub fn check_open(&self, open: &fs::File, path: &Path, shown: &str) -> Result<()> {
        let unreadable = |cause: io::Error| {
            Error::input(format!("{shown}: cannot be read: {}", plain(&cause))).caused_by(cause)
        };
        let metadata = open.metadata().map_err(unreadable)?;
        self.compare(&Self::of(&metadata).map_err(unreadable)?, shown)?;
        match fs::metadata(path) {
            Ok(metadata) => self.compare(&Self::of(&metadata).map_err(unreadable)?, shown),
            Err(_) => Ok(()),
        }
    }

    fn compare(&self, now: &Self, shown: &str) -> Result<()> {
        let what = if now.inode != self.inode {
            "has been replaced by another file since reading began".to_owned()
        } else if now.bytes != self.bytes {
            let (before, after) = (Grouped(self.bytes), Grouped(now.bytes));
            format!("has changed since reading began: {before} bytes then, {after} now")
        } else if now.modified_nanos != self.modified_nanos {
            "has been written to since reading began".to_owned()
        } else {
            return Ok(());
        };
        Err(begin_again(Error::input(format!("{shown} {what}"))))
    }
}

fn begin_again(error: Error) -> Error {
    error.hint(
        "read it again from the beginning once nothing writes to it: a load with --restart, and with --truncate where \
         rows of it were written",
    )
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> Option<(u64, u64)> {
    None
}

impl InputFile {
    /// `Input` where the file is no longer what it was when it was found, or an object could not be read. Of a pipe
    /// nothing can be said.
    pub(crate) fn check(&self) -> Result<()> {
        match (&self.state, &self.path, &self.object) {
            (Some(state), Some(path), _) => state.check(path, &self.shown),
            // Each request asks for the version that was found.
            (.., Some(object)) => object.failure().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }

    /// The same of a file that is read as `open`.
    pub(crate) fn check_open(&self, open: Option<&File>) -> Result<()> {
        match (&self.state, &self.path, open.and_then(File::disk)) {
            (Some(state), Some(path), Some(open)) => state.check_open(open, path, &self.shown),
            _ => self.check(),
        }
    }

    /// Gives what was read if the file has not changed, and rather says that it has than what reading it met.
    pub(crate) fn unchanged<T>(&self, open: Option<&File>, read: Result<T>) -> Result<T> {
        self.check_open(open)?;
        read
    }
}
