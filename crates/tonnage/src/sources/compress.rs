//! The bytes of a file as text or Parquet readers want them: decompressed, and counted as they lie on the
//! disk.
//!
//! What a file begins with decides how it is compressed; its name is never believed over its bytes. A stream
//! that ends early is an error, never a short file.

use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use flate2::bufread::MultiGzDecoder;

use super::InputFile;
use crate::error::{Error, Result};

/// Bytes looked at to recognise a file.
const MAGIC_BYTES: usize = 16;

/// Compressed bytes read at a time.
const COMPRESSED_READ_BYTES: usize = 256 << 10;

/// Bytes looked at to tell text from Parquet.
const LOOKED_AT_BYTES: usize = 512;

/// What Parquet files begin with.
pub(crate) const PARQUET_MAGIC: &[u8] = b"PAR1";

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, of one or more members.
    Gzip,
    /// Zstandard, of one or more frames.
    Zstd,
}

impl Compression {
    /// By the first bytes of a file. The error is the name of a compression that is known but cannot be read.
    fn of(magic: &[u8]) -> Result<Self, &'static str> {
        match magic {
            [0x1f, 0x8b, ..] => Ok(Self::Gzip),
            // A frame, or a skippable frame before one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok(Self::Zstd),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..] => Err("bzip2"),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Err("xz"),
            [0x04, 0x22, 0x4d, 0x18, ..] => Err("lz4"),
            [b'P', b'K', 3, 4, ..] => Err("zip"),
            _ => Ok(Self::None),
        }
    }

    /// Its name for people.
    fn name(self) -> &'static str {
        match self {
            Self::None => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// The decompressed bytes of one file.
pub struct ByteStream {
    shown: Arc<str>,
    reader: Box<dyn Read + Send>,
    compression: Compression,
    /// Bytes taken from the file so far.
    taken: Arc<AtomicU64>,
}

impl ByteStream {
    /// Opens a file, or standard input. `Input` where it cannot be opened or has an unknown compression.
    pub fn open(file: &InputFile) -> Result<Self> {
        match &file.path {
            Some(path) => {
                let opened = File::open(path).map_err(|cause| {
                    Error::input(format!("{}: cannot be opened: {}", file.shown, plain(&cause)))
                        .caused_by(cause)
                })?;
                Self::of_reader(file.shown.clone(), opened)
            }
            None => Self::of_reader(file.shown.clone(), io::stdin()),
        }
    }

    /// The same over any reader.
    pub fn of_reader(shown: Arc<str>, reader: impl Read + Send + 'static) -> Result<Self> {
        let taken = Arc::new(AtomicU64::new(0));
        let mut counted = Counted {
            reader,
            taken: taken.clone(),
        };
        let mut magic = Vec::with_capacity(MAGIC_BYTES);
        (&mut counted)
            .take(MAGIC_BYTES as u64)
            .read_to_end(&mut magic)
            .map_err(|cause| {
                Error::input(format!("{shown}: cannot be read: {}", plain(&cause))).caused_by(cause)
            })?;
        let compression = Compression::of(&magic).map_err(|name| {
            Error::input(format!(
                "{shown}: is compressed with {name}, which cannot be read"
            ))
            .hint("gz and zst can; or decompress it into a pipe and load -")
        })?;
        let whole = Cursor::new(magic).chain(counted);
        let buffered = |whole| BufReader::with_capacity(COMPRESSED_READ_BYTES, whole);
        let reader: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(whole),
            Compression::Gzip => Box::new(MultiGzDecoder::new(buffered(whole))),
            Compression::Zstd => Box::new(
                zstd::stream::read::Decoder::with_buffer(buffered(whole))
                    .map_err(|cause| Error::input(format!("{shown}: {cause}")).caused_by(cause))?,
            ),
        };
        Ok(Self {
            shown,
            reader,
            compression,
            taken,
        })
    }

    /// How the file is compressed.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Bytes taken from the file so far, as it lies on the disk.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Puts a further step behind decompression.
    #[must_use]
    pub fn map(self, step: impl FnOnce(Box<dyn Read + Send>) -> Box<dyn Read + Send>) -> Self {
        Self {
            reader: step(self.reader),
            ..self
        }
    }

    /// Reads some bytes; 0 at the end. `Input` where the file cannot be read or its compressed data is
    /// damaged.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.reader.read(buffer) {
                Ok(count) => return Ok(count),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(self.failed(cause)),
            }
        }
    }

    fn failed(&self, cause: io::Error) -> Error {
        let (shown, name) = (&self.shown, self.compression.name());
        let error = match (self.compression, cause.kind()) {
            (Compression::None, _) => Error::input(format!("{shown}: cannot be read: {}", plain(&cause))),
            (_, io::ErrorKind::UnexpectedEof) => Error::input(format!(
                "{shown}: the {name} data ends early, after {} bytes of the file",
                self.taken()
            ))
            .hint("the file was cut off; get a whole copy of it"),
            _ => Error::input(format!("{shown}: the {name} data is damaged: {}", plain(&cause))),
        };
        error.caused_by(cause)
    }
}

/// What a file is that is surely not Parquet: `compressed with gzip`, `text`. None for what may be.
pub(crate) fn not_parquet(file: &InputFile) -> Result<Option<String>> {
    // A pipe cannot be looked into without taking from it.
    if file.identity.is_none() {
        return Ok(None);
    }
    let mut stream = ByteStream::open(file)?;
    if stream.compression != Compression::None {
        return Ok(Some(format!("compressed with {}", stream.compression.name())));
    }
    let mut start = [0; LOOKED_AT_BYTES];
    let count = stream.read(&mut start)?;
    let start = &start[..count];
    // A character may be cut at the end of what was read.
    let is_text = match std::str::from_utf8(start) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    let text = !start.is_empty() && !start.starts_with(PARQUET_MAGIC) && is_text && !start.contains(&0);
    Ok(text.then(|| "text".to_owned()))
}

/// The error without the number of the operating system.
pub(crate) fn plain(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => cause.to_string(),
    }
}

/// Counts what passes.
struct Counted<R> {
    reader: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.taken.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstandard(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read_all(bytes: Vec<u8>) -> Result<Vec<u8>> {
        let mut stream = ByteStream::of_reader("f".into(), Cursor::new(bytes))?;
        let (mut all, mut buffer) = (Vec::new(), vec![0; 1000]);
        loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(all),
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    }

    /// Text that does not compress to almost nothing.
    fn text(lines: usize) -> Vec<u8> {
        let mut number = 1u64;
        let mut text = Vec::new();
        for _ in 0..lines {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            writeln!(text, "{number}").unwrap();
        }
        text
    }

    #[test]
    fn members_and_frames_are_read_one_after_another() {
        let (one, two) = (text(5000), text(10));
        let both = [one.clone(), two.clone()].concat();
        assert_eq!(read_all(both.clone()).unwrap(), both);
        assert_eq!(read_all([gzip(&one), gzip(&two)].concat()).unwrap(), both);
        assert_eq!(
            read_all([zstandard(&one), zstandard(&two)].concat()).unwrap(),
            both
        );
        assert_eq!(read_all(Vec::new()).unwrap(), b"");
    }

    #[test]
    fn a_stream_cut_off_is_an_error() {
        for packed in [gzip(&text(5000)), zstandard(&text(5000))] {
            for kept in [packed.len() / 2, packed.len() - 1, 20] {
                let error = read_all(packed[..kept].to_vec()).unwrap_err();
                let message = error.to_string();
                assert!(message.contains("data ends early"), "{message}");
                assert!(error.hint_text().is_some());
            }
        }
    }

    #[test]
    fn damaged_data_is_an_error() {
        for mut packed in [gzip(&text(5000)), zstandard(&text(5000))] {
            let middle = packed.len() / 2;
            for byte in &mut packed[middle..middle + 50] {
                *byte = !*byte;
            }
            assert!(read_all(packed).is_err());
        }
    }

    #[test]
    fn other_compressions_are_named() {
        let error = read_all(b"\xfd7zXZ\0\0".to_vec()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "f: is compressed with xz, which cannot be read"
        );
    }
}
