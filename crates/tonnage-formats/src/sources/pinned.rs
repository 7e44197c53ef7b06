//! Objects whose store tells every version of them from every other.
//!
//! What lies before a place of such a version need not be read to be known: the version and the place say it. So a
//! resume goes to that place at once.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::InputFile;

/// One version of an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pinned(u64);

impl Pinned {
    /// That of `file`; none for what is on a disk or comes through a pipe, and for objects without an ETag.
    pub fn of(file: &InputFile) -> Option<Self> {
        let etag = file.object.as_ref()?.strong_etag()?;
        Some(Self(xxh3_64(etag.as_bytes())))
    }

    /// In place of a hash of the content before `place`, counted in whatever the format counts.
    pub fn before(self, place: u64) -> u64 {
        xxh3_64_with_seed(&place.to_le_bytes(), self.0)
    }

    /// In place of a hash of all of it.
    pub fn whole(self) -> u64 {
        self.before(u64::MAX)
    }
}
