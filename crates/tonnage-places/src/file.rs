//! A file of any place.

use std::{
    fs,
    io::{self, BufReader, Read, Seek, SeekFrom},
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use tonnage_core::sync::Lock;

use super::{
    object::Object,
    reader::{ObjectReader, Share, sought},
};

/// A file that is read from a position.
pub enum File {
    /// On a disk, or whatever else has a path.
    Disk(fs::File),
    /// In a store.
    Object(Box<ObjectReader>),
}

impl File {
    /// Opens a path.
    pub fn open(path: &Path) -> io::Result<Self> {
        fs::File::open(path).map(Self::Disk)
    }

    /// Opens an object, which must have ranges.
    pub fn of_object(object: &Object) -> Self {
        Self::Object(Box::new(ObjectReader::new(object.clone())))
    }

    /// Its size in bytes.
    pub fn size(&self) -> io::Result<u64> {
        match self {
            Self::Disk(file) => Ok(file.metadata()?.len()),
            Self::Object(reader) => Ok(reader.object().bytes().unwrap_or(0)),
        }
    }

    /// The file on the disk, where it is one.
    pub fn disk(&self) -> Option<&fs::File> {
        match self {
            Self::Disk(file) => Some(file),
            Self::Object(_) => None,
        }
    }

    /// One more reader of the same file. On a disk both share one position, as the system has it; an object's begins
    /// at its beginning.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Disk(file) => Self::Disk(file.try_clone()?),
            Self::Object(reader) => Self::Object(Box::new(reader.again())),
        })
    }

    /// A reader that jumps within `ranges`, most often ahead. Of an object it holds its share at most.
    pub fn positioned(&self, ranges: Vec<Range<u64>>, share: Share) -> io::Result<Positioned> {
        Ok(match self {
            Self::Disk(file) => Positioned::Disk(file.try_clone()?),
            Self::Object(reader) => {
                let reader = ObjectReader::of_ranges(reader.object().clone(), ranges, share);
                Positioned::Object(Mutex::new(reader))
            }
        })
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Disk(file) => file.read(buffer),
            Self::Object(reader) => reader.read(buffer),
        }
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::Disk(file) => file.seek(to),
            Self::Object(reader) => reader.seek(to),
        }
    }
}

/// A file that is read at positions.
pub enum Positioned {
    /// On a disk.
    Disk(fs::File),
    /// In a store.
    Object(Mutex<ObjectReader>),
}

impl Positioned {
    /// Its size in bytes.
    pub fn size(&self) -> io::Result<u64> {
        match self {
            Self::Disk(file) => Ok(file.metadata()?.len()),
            Self::Object(reader) => Ok(reader.locked().object().bytes().unwrap_or(0)),
        }
    }

    /// Reads some bytes at `position`; 0 behind the end.
    pub fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Disk(file) => file.read_at(buffer, position),
            Self::Object(reader) => reader.locked().read_at(position, buffer),
        }
    }

    /// Exactly `length` bytes from `position` on; the error where there are fewer.
    pub fn bytes_at(&self, position: u64, length: usize) -> io::Result<Bytes> {
        let mut bytes = vec![0; length];
        let mut read = 0;
        while read < length {
            match self.read_at(position + read as u64, &mut bytes[read..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => read += count,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(bytes.into())
    }

    /// A reader from `position` on.
    pub fn from(self: &Arc<Self>, position: u64) -> BufReader<ReadFrom> {
        BufReader::new(ReadFrom {
            file: self.clone(),
            position,
        })
    }
}

/// Reads a [`Positioned`] file from a position on.
pub struct ReadFrom {
    file: Arc<Positioned>,
    position: u64,
}

impl Read for ReadFrom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.position, buffer)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for ReadFrom {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = sought(to, self.position, self.file.size()?)?;
        Ok(self.position)
    }
}
