//! A regular file that grows until it is whole, mostly past the page cache.
//!
//! A file that is synced before it gets its name has to reach the disk anyway. The copy into the page cache on the way
//! there can cost as much processor time as everything else in an unload (two of five seconds for 950 MB of Parquet),
//! and it drives out what a database on the same machine keeps there.
//!
//! Invariants: bytes go out in order, whole blocks of [`BLOCK_BYTES`] from aligned memory through a handle that writes
//! directly, what is left by the ordinary handle. Where the direct handle cannot be had, or a write by it fails, the
//! ordinary one writes the block anew and all that follow, so that an error is always one of an ordinary write.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// What is written at once, and what a file holds in memory. Larger ones are no faster.
const BLOCK_BYTES: usize = 2 << 20;
/// What memory and place in the file are multiples of; no file system asks for more.
const ALIGNED: usize = 4 << 10;

/// A file of which this is the only writer.
pub(super) struct Growing {
    file: File,
    path: PathBuf,
    block: Block,
    direct: Direct,
    /// Bytes of the blocks that have gone out.
    written: u64,
}

enum Direct {
    /// Until there is a whole block.
    Untried,
    Open(File),
    Unavailable,
}

impl Growing {
    /// Creates a file that is not there yet.
    pub(super) fn create_new(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::create_new(path)?,
            path: path.to_owned(),
            block: Block::default(),
            direct: Direct::Untried,
            written: 0,
        })
    }

    /// Writes what is left, and returns when all of it is on disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        self.write_ordinarily()?;
        self.block.clear();
        self.file.sync_all()
    }

    fn write_block(&mut self) -> io::Result<()> {
        if matches!(self.direct, Direct::Untried) {
            self.direct = open_direct(&self.path).map_or(Direct::Unavailable, Direct::Open);
        }
        let is_out = match &mut self.direct {
            Direct::Open(file) => file.write_all(self.block.bytes()).is_ok(),
            Direct::Untried | Direct::Unavailable => false,
        };
        if !is_out {
            self.direct = Direct::Unavailable;
            self.write_ordinarily()?;
        }
        self.written += self.block.bytes().len() as u64;
        self.block.clear();
        Ok(())
    }

    fn write_ordinarily(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.written))?;
        self.file.write_all(self.block.bytes())
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.block.push(bytes);
        if self.block.is_full() {
            self.write_block()?;
        }
        Ok(taken)
    }

    /// Does nothing: nobody reads the file before it has been synced.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A handle that writes past the page cache, where the file system has such.
#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_path: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Up to [`BLOCK_BYTES`] in aligned memory, which a file that stays small never takes in full.
#[derive(Default)]
struct Block {
    memory: Vec<u8>,
    /// Where the bytes begin: the first aligned place.
    start: usize,
}

impl Block {
    fn bytes(&self) -> &[u8] {
        self.memory.get(self.start..).unwrap_or_default()
    }

    fn is_full(&self) -> bool {
        self.bytes().len() == BLOCK_BYTES
    }

    fn clear(&mut self) {
        self.memory.truncate(self.start);
    }

    /// Takes as much as there is room for, which is something while it is not full.
    fn push(&mut self, bytes: &[u8]) -> usize {
        if self.memory.capacity() == 0 {
            // Never grown, so what is aligned now stays so.
            self.memory.reserve_exact(BLOCK_BYTES + ALIGNED);
            self.start = self.memory.as_ptr().align_offset(ALIGNED).min(ALIGNED);
            self.memory.resize(self.start, 0);
        }
        let taken = bytes.len().min(BLOCK_BYTES - self.bytes().len());
        self.memory.extend_from_slice(&bytes[..taken]);
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn numbered(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at / 3 % 251) as u8).collect()
    }

    fn written(bytes: &[u8], length: usize, direct: Direct) -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("grown");
        let mut growing = Growing::create_new(&path).unwrap();
        growing.direct = direct;
        for piece in bytes.chunks(length) {
            growing.write_all(piece).unwrap();
        }
        growing.sync().unwrap();
        fs::read(path).unwrap()
    }

    #[test]
    fn files_of_all_lengths() {
        for length in [
            0,
            1,
            BLOCK_BYTES - 1,
            BLOCK_BYTES,
            BLOCK_BYTES + 1,
            3 * BLOCK_BYTES + 4_097,
        ] {
            let bytes = numbered(length);
            for piece in [4_099, BLOCK_BYTES, 2 * BLOCK_BYTES + 5] {
                assert!(
                    written(&bytes, piece, Direct::Untried) == bytes,
                    "{length} bytes by {piece}"
                );
                assert!(
                    written(&bytes, piece, Direct::Unavailable) == bytes,
                    "{length} bytes by {piece}"
                );
            }
        }
    }

    #[test]
    fn a_direct_write_that_fails_is_made_up_for() {
        // A handle that only reads.
        let unwritable = Direct::Open(File::open("/dev/null").unwrap());
        let bytes = numbered(2 * BLOCK_BYTES + 17);
        assert!(written(&bytes, 100_000, unwritable) == bytes);
    }

    #[test]
    fn memory_is_aligned() {
        let mut block = Block::default();
        assert_eq!(block.push(&numbered(3 * BLOCK_BYTES)), BLOCK_BYTES);
        assert_eq!(block.bytes().as_ptr().align_offset(ALIGNED), 0);
        assert!(block.is_full());
    }
}
