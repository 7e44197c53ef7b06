//! The bytes of a file as text or Parquet readers want them: decompressed, and counted as they lie on the
//! disk.
//!
//! What a file begins with decides how it is compressed; its name is never believed over its bytes. A stream
//! that ends early is an error, never a short file.

use std::{
    io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom},
    sync::{Arc, Mutex, MutexGuard},
};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::GzDecoder;
use lz4_flex::frame::FrameDecoder;
use lzma_rust2::XzReader;
use tonnage_core::{
    error::{Error, Result},
    sync::Lock,
};
use tonnage_places::{File, Object};
use xxhash_rust::xxh3::Xxh3Default;

use super::{
    InputFile,
    archive::{self, MemberReader, ZIP_MAGIC},
    damage::caught,
    excel,
    pinned::Pinned,
};

/// Bytes looked at to recognise a file.
const MAGIC_BYTES: usize = 16;

/// Compressed bytes read at a time.
const COMPRESSED_READ_BYTES: usize = 256 << 10;

/// The most memory that one xz stream may ask for, in KiB: eight times what `xz -9` takes.
const XZ_MEMORY_KIB_MAX: u32 = 512 << 10;

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
    /// bzip2, of one or more streams.
    Bzip2,
    /// xz, of one or more streams.
    Xz,
    /// LZ4 frames.
    Lz4,
    /// A zip archive of one file.
    Zip,
    /// A sheet of an Excel file, as CSV text.
    Excel,
}

impl Compression {
    /// By the first bytes of a file. The error is the name of a compression that is known but cannot be read.
    fn of(magic: &[u8]) -> Result<Self, &'static str> {
        match magic {
            [0x1f, 0x8b, ..] => Ok(Self::Gzip),
            // A frame, or a skippable frame before one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok(Self::Zstd),
            // A block, or the end of a stream without one.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, ..] => Ok(Self::Bzip2),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Ok(Self::Xz),
            [0x04, 0x22, 0x4d, 0x18, ..] => Ok(Self::Lz4),
            magic if magic.starts_with(ZIP_MAGIC) => Err("zip"),
            _ => Ok(Self::None),
        }
    }

    /// Its name for people.
    fn name(self) -> &'static str {
        match self {
            Self::None => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
            Self::Lz4 => "lz4",
            Self::Zip => "zip",
            Self::Excel => "Excel",
        }
    }
}

/// The decompressed bytes of one file.
pub struct ByteStream {
    shown: Arc<str>,
    reader: Box<dyn Read + Send>,
    compression: Compression,
    taken: Arc<Mutex<Taken>>,
    /// The file that is read, if it is one.
    file: Option<File>,
    /// The object that it is, if it is one.
    object: Option<Object>,
    /// A step was put behind decompression.
    mapped: bool,
    /// What there is to say of what is read.
    note: Option<String>,
}

/// What was taken from a file so far, as it lies on the disk.
#[derive(Default)]
struct Taken {
    bytes: u64,
    hash: Xxh3Default,
}

impl ByteStream {
    /// Opens a file, or standard input. `Input` where it cannot be opened or has an unknown compression.
    pub fn open(file: &InputFile) -> Result<Self> {
        let unopened = |cause: io::Error| {
            let error = format!("{}: cannot be opened: {}", file.shown, plain(&cause));
            Error::input(error).caused_by(cause)
        };
        match (&file.path, &file.object) {
            (None, None) => Self::of_reader(file.shown.clone(), io::stdin()),
            (None, Some(object)) if !object.has_ranges() => {
                let read = object.stream().map_err(unopened)?;
                let stream = Self::of_reader(file.shown.clone(), read);
                let mut stream = stream.map_err(|error| object.failure().unwrap_or(error))?;
                stream.object = Some(object.clone());
                Ok(stream)
            }
            _ => {
                let opened = file.opened();
                let opened = opened.map_err(|cause| file.check().err().unwrap_or_else(|| unopened(cause)))?;
                file.check_open(Some(&opened))?;
                let read = opened.try_clone().map_err(unopened)?;
                let stream = match file.identity {
                    Some(_) => Self::of_file(file, read),
                    None => Self::of_reader(file.shown.clone(), read),
                };
                let mut stream = stream.map_err(|error| file.check().err().unwrap_or(error))?;
                stream.file = Some(opened);
                stream.object.clone_from(&file.object);
                Ok(stream)
            }
        }
    }

    /// The same over a file, which may be an archive or an Excel file.
    fn of_file(file: &InputFile, mut read: File) -> Result<Self> {
        let shown = &file.shown;
        let unread = |cause: io::Error| {
            Error::input(format!("{shown}: cannot be read: {}", plain(&cause))).caused_by(cause)
        };
        let mut magic = Vec::with_capacity(MAGIC_BYTES);
        (&mut read)
            .take(MAGIC_BYTES as u64)
            .read_to_end(&mut magic)
            .and_then(|_| read.rewind())
            .map_err(unread)?;
        let taken = Arc::new(Mutex::new(Taken::default()));
        let is_excel = excel::is_excel(&magic, shown);
        let mut note = None;
        let member = match magic.starts_with(ZIP_MAGIC) && !is_excel {
            true => {
                let (member, others) = archive::only_member(shown, &read)?;
                read.rewind().map_err(unread)?;
                note = others;
                Some(member)
            }
            false => None,
        };
        let counted = Counted {
            reader: read,
            taken: taken.clone(),
        };
        let (reader, compression): (Box<dyn Read + Send>, _) = match member {
            Some(member) => {
                let buffered = BufReader::with_capacity(COMPRESSED_READ_BYTES, counted);
                (Box::new(MemberReader::new(buffered, member)), Compression::Zip)
            }
            None if is_excel => {
                let text = caught(|| excel::text(shown, counted, file.sheet.as_deref()));
                let text = text.unwrap_or_else(|said| {
                    let damaged = Error::input(format!("{shown}: the Excel file is damaged: {said}"));
                    Err(damaged.hint("open it and save it again, or save it as CSV"))
                })?;
                note = text.note;
                (Box::new(Cursor::new(text.text)), Compression::Excel)
            }
            None => return Self::of_reader(shown.clone(), counted.reader),
        };
        Ok(Self {
            shown: shown.clone(),
            reader,
            compression,
            taken,
            file: None,
            object: None,
            mapped: false,
            note,
        })
    }

    /// The same over any reader.
    pub fn of_reader(shown: Arc<str>, reader: impl Read + Send + 'static) -> Result<Self> {
        let taken = Arc::new(Mutex::new(Taken::default()));
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
            .hint("of a pipe gz, zst, bz2, xz and lz4 can be read; load the file itself, or unzip -p FILE into the pipe")
        })?;
        let whole = Cursor::new(magic).chain(counted);
        let buffered = |whole| BufReader::with_capacity(COMPRESSED_READ_BYTES, whole);
        let reader: Box<dyn Read + Send> = match compression {
            // The latter two are told apart where the file is opened.
            Compression::None | Compression::Zip | Compression::Excel => Box::new(whole),
            Compression::Gzip => Box::new(GzipMembers::new(buffered(whole))),
            Compression::Zstd => Box::new(
                zstd::stream::read::Decoder::with_buffer(buffered(whole))
                    .map_err(|cause| Error::input(format!("{shown}: {cause}")).caused_by(cause))?,
            ),
            Compression::Bzip2 => Box::new(MultiBzDecoder::new(buffered(whole))),
            Compression::Xz => Box::new(XzReader::new_mem_limit(buffered(whole), true, XZ_MEMORY_KIB_MAX)),
            Compression::Lz4 => Box::new(Lz4Frames::new(buffered(whole))),
        };
        Ok(Self {
            shown,
            reader,
            compression,
            taken,
            file: None,
            object: None,
            mapped: false,
            note: None,
        })
    }

    /// The file that is read, if it is one.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// The file, as the user named it.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// What there is to say of what is read of the file.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// How the file is compressed.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Bytes taken from the file so far, as it lies on the disk.
    pub fn taken(&self) -> u64 {
        lock(&self.taken).bytes
    }

    /// A hash of the bytes taken so far: at the end of the file that of the whole file.
    pub fn digest(&self) -> u64 {
        lock(&self.taken).hash.digest()
    }

    /// The first bytes, at most `count`, which are read again by whoever reads the stream.
    pub fn looked_at(mut self, count: usize) -> Result<(Self, Vec<u8>)> {
        let mut start = vec![0; count];
        let mut filled = 0;
        while filled < count {
            match self.read(&mut start[filled..])? {
                0 => break,
                more => filled += more,
            }
        }
        start.truncate(filled);
        let again = Cursor::new(start.clone());
        self.reader = Box::new(again.chain(self.reader));
        Ok((self, start))
    }

    /// Goes on at `offset` without reading what lies before; false where it cannot: on a disk, behind decompression or
    /// a further step. What is then hashed is no longer all of the file.
    pub fn go_to(&mut self, offset: u64) -> Result<bool> {
        let Some(file @ File::Object(_)) = &self.file else {
            return Ok(false);
        };
        if self.compression != Compression::None || self.mapped {
            return Ok(false);
        }
        let reader = file.try_clone().and_then(|mut file| {
            let there = file.seek(SeekFrom::Start(offset))?;
            Ok((file, there))
        });
        let (reader, there) = reader.map_err(|cause| self.failed(cause))?;
        lock(&self.taken).bytes = there;
        self.reader = Box::new(Counted {
            reader,
            taken: self.taken.clone(),
        });
        Ok(true)
    }

    /// Puts a further step behind decompression.
    #[must_use]
    pub fn map(self, step: impl FnOnce(Box<dyn Read + Send>) -> Box<dyn Read + Send>) -> Self {
        Self {
            reader: step(self.reader),
            mapped: true,
            ..self
        }
    }

    /// Reads some bytes; 0 at the end. `Input` where the file cannot be read or its compressed data is
    /// damaged.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            // A decoder may panic on damage.
            let read = caught(|| self.reader.read(buffer)).unwrap_or_else(|said| Err(io::Error::other(said)));
            match read {
                Ok(count) => return Ok(count),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(self.failed(cause)),
            }
        }
    }

    fn failed(&self, cause: io::Error) -> Error {
        if let Some(error) = self.object.as_ref().and_then(Object::failure) {
            return error;
        }
        let (shown, name) = (&self.shown, self.compression.name());
        let error = match (self.compression, cause.kind()) {
            (Compression::None, _) => Error::input(format!("{shown}: cannot be read: {}", plain(&cause)))
                .hint("look at the disk or the pipe that it comes from"),
            (_, io::ErrorKind::UnexpectedEof) => Error::input(format!(
                "{shown}: the {name} data ends early, after {} bytes of the file",
                self.taken()
            ))
            .hint("the file was cut off; get a whole copy of it"),
            _ => Error::input(format!("{shown}: the {name} data is damaged: {}", plain(&cause)))
                .hint("get a whole copy of the file; nothing behind the damage can be read"),
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

/// gzip members one after another, to the end of the file or to zeros that fill it up, as on tapes.
struct GzipMembers<R: BufRead> {
    /// Of one member. None once one has failed.
    decoder: Option<GzDecoder<R>>,
}

impl<R: BufRead> GzipMembers<R> {
    fn new(reader: R) -> Self {
        Self {
            decoder: Some(GzDecoder::new(reader)),
        }
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let failed = || io::Error::other("a member before has failed");
            let mut decoder = self.decoder.take().ok_or_else(failed)?;
            let count = decoder.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                self.decoder = Some(decoder);
                return Ok(count);
            }
            let reader = decoder.get_mut();
            let mut padded = false;
            loop {
                let rest = reader.fill_buf()?;
                let zeros = rest.iter().take_while(|byte| **byte == 0).count();
                if rest.is_empty() {
                    self.decoder = Some(decoder);
                    return Ok(0);
                }
                if zeros == 0 {
                    break;
                }
                padded = true;
                reader.consume(zeros);
            }
            if padded {
                return Err(io::Error::other("more follows behind the zeros that fill it up"));
            }
            self.decoder = Some(GzDecoder::new(decoder.into_inner()));
        }
    }
}

/// LZ4 frames one after another, to the end of the file. The decoder takes a file that ends between two blocks
/// of a frame for whole; here that is an end too early.
struct Lz4Frames<R: BufRead> {
    /// Of one frame: it takes the next one's blocks for as large as its own. None once one has failed.
    decoder: Option<FrameDecoder<EndSeen<R>>>,
    in_frame: bool,
}

impl<R: BufRead> Lz4Frames<R> {
    fn new(reader: R) -> Self {
        let reader = EndSeen { reader, seen: false };
        Self {
            decoder: Some(FrameDecoder::new(reader)),
            in_frame: false,
        }
    }
}

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let failed = || io::Error::other("a frame before has failed");
            let mut decoder = self.decoder.take().ok_or_else(failed)?;
            if !self.in_frame && decoder.get_mut().reader.fill_buf()?.is_empty() {
                self.decoder = Some(decoder);
                return Ok(0);
            }
            self.in_frame = true;
            match decoder.read(buffer)? {
                0 if decoder.get_ref().seen => return Err(io::ErrorKind::UnexpectedEof.into()),
                0 => {
                    self.in_frame = false;
                    self.decoder = Some(FrameDecoder::new(decoder.into_inner()));
                }
                count => {
                    self.decoder = Some(decoder);
                    return Ok(count);
                }
            }
        }
    }
}

/// Notes whether more was asked for than there is.
struct EndSeen<R> {
    reader: R,
    seen: bool,
}

impl<R: Read> Read for EndSeen<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.seen |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

/// The [`ByteStream::digest`] of a whole file, without decompressing it.
pub(crate) fn digest_of(file: &InputFile) -> Result<u64> {
    let unreadable = |cause: io::Error| {
        let error = format!("{}: cannot be read: {}", file.shown, plain(&cause));
        file.check().err().unwrap_or(Error::input(error).caused_by(cause))
    };
    if let Some(pinned) = Pinned::of(file) {
        return Ok(pinned.whole());
    }
    let mut opened = file.opened().map_err(unreadable)?;
    let mut hash = Xxh3Default::new();
    let mut buffer = vec![0; COMPRESSED_READ_BYTES];
    loop {
        match opened.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => hash.update(&buffer[..count]),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(unreadable(cause)),
        }
    }
    file.check()?;
    Ok(hash.digest())
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.locked()
}

/// Counts and hashes what passes.
struct Counted<R> {
    reader: R,
    taken: Arc<Mutex<Taken>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        let mut taken = lock(&self.taken);
        taken.bytes += count as u64;
        taken.hash.update(&buffer[..count]);
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

    fn bzip2(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let options = lzma_rust2::XzOptions::with_preset(1);
        let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Frames of blocks that stand alone or lean on the ones before.
    fn lz4(bytes: &[u8], mode: lz4_flex::frame::BlockMode) -> Vec<u8> {
        let mut info = lz4_flex::frame::FrameInfo::new();
        info.block_mode = mode;
        info.block_size = lz4_flex::frame::BlockSize::Max64KB;
        info.content_checksum = true;
        let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn lz4_alone(bytes: &[u8]) -> Vec<u8> {
        lz4(bytes, lz4_flex::frame::BlockMode::Independent)
    }

    fn lz4_linked(bytes: &[u8]) -> Vec<u8> {
        lz4(bytes, lz4_flex::frame::BlockMode::Linked)
    }

    /// What compresses, by the name that errors have for it.
    type Packing = (&'static str, fn(&[u8]) -> Vec<u8>);

    const PACKINGS: &[Packing] = &[
        ("gzip", gzip),
        ("zstd", zstandard),
        ("bzip2", bzip2),
        ("xz", xz),
        ("lz4", lz4_alone),
        ("lz4", lz4_linked),
    ];

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
        let (one, two) = (text(20_000), text(10));
        let both = [one.clone(), two.clone()].concat();
        assert_eq!(read_all(both.clone()).unwrap(), both);
        assert_eq!(read_all(Vec::new()).unwrap(), b"");
        for (name, pack) in PACKINGS {
            let packed = [pack(&one), pack(b""), pack(&two)].concat();
            assert_eq!(read_all(packed).unwrap(), both, "{name}");
            let packed = [pack(&two), pack(b""), pack(&one)].concat();
            let turned = [two.as_slice(), &one].concat();
            assert_eq!(read_all(packed).unwrap(), turned, "{name}");
            assert_eq!(read_all(pack(b"")).unwrap(), b"", "{name}");
        }
    }

    #[test]
    fn zeros_may_fill_a_gzip_file_up() {
        let text = text(10);
        for zeros in [1, 4, 511, 1 << 20] {
            let padded = [gzip(&text), gzip(&text), vec![0; zeros]].concat();
            assert_eq!(
                read_all(padded.clone()).unwrap(),
                [text.clone(), text.clone()].concat()
            );
            for more in [gzip(&text), b"x".to_vec()] {
                let error = read_all([padded.clone(), more].concat()).unwrap_err();
                assert!(
                    error
                        .to_string()
                        .contains("the gzip data is damaged: more follows"),
                    "{error}"
                );
            }
        }
        assert!(read_all([gzip(&text), b"rest".to_vec()].concat()).is_err());
    }

    #[test]
    fn a_whole_file_has_one_digest_whether_it_is_decompressed_or_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        for (name, pack) in PACKINGS
            .iter()
            .chain(&[("plain", <[u8]>::to_vec as fn(&[u8]) -> Vec<u8>)])
        {
            let packed = [pack(&text(20_000)), pack(b""), pack(&text(10))].concat();
            std::fs::write(&path, &packed).unwrap();
            let file = InputFile {
                shown: "f".into(),
                path: Some(path.clone()),
                object: None,
                identity: None,
                state: None,
                sheet: None,
            };
            let mut stream = ByteStream::open(&file).unwrap();
            let mut buffer = vec![0; 1000];
            while stream.read(&mut buffer).unwrap() > 0 {}
            assert_eq!(stream.digest(), digest_of(&file).unwrap(), "{name}");
            assert_eq!(stream.taken(), packed.len() as u64, "{name}");
        }
    }

    #[test]
    fn lz4_frames_may_have_blocks_of_different_sizes() {
        let text = text(20_000);
        let mut large = lz4_flex::frame::FrameEncoder::new(Vec::new());
        large.write_all(&text).unwrap();
        let packed = [
            lz4_alone(b"small\n"),
            large.finish().unwrap(),
            lz4_linked(b"again\n"),
        ]
        .concat();
        let all = [b"small\n".as_slice(), &text, b"again\n"].concat();
        assert_eq!(read_all(packed).unwrap(), all);
    }

    #[test]
    fn a_stream_cut_off_is_an_error() {
        let (one, two) = (text(5000), text(10));
        for (name, pack) in PACKINGS {
            let (first, second) = (pack(&one), pack(&two));
            let packed = [first.as_slice(), &second].concat();
            let places = [20, first.len() / 2, first.len() - 1, packed.len() - 1];
            let every = (first.len() + 1..packed.len()).chain((20..first.len()).step_by(9973));
            for kept in every.chain(places) {
                let error = read_all(packed[..kept].to_vec()).expect_err(name);
                let message = error.to_string();
                assert!(
                    message.contains(&format!("the {name} data ")),
                    "{name} {kept}: {message}"
                );
                if places.contains(&kept) {
                    assert!(message.contains("data ends early"), "{name} {kept}: {message}");
                    assert!(error.hint_text().is_some());
                }
            }
        }
    }

    #[test]
    fn an_lz4_file_may_not_end_between_two_blocks() {
        let packed = lz4_alone(&text(20_000));
        // A frame's descriptor without sizes has seven bytes, and a block begins with its length.
        let mut at = 7;
        let mut blocks = 0;
        loop {
            assert!(read_all(packed[..at].to_vec()).is_err(), "{at}");
            let length = u32::from_le_bytes(packed[at..at + 4].try_into().unwrap()) & 0x7fff_ffff;
            if length == 0 {
                break;
            }
            at += 4 + length as usize;
            blocks += 1;
        }
        assert!(blocks > 3, "{blocks}");
    }

    #[test]
    fn damaged_data_is_an_error() {
        for (name, pack) in PACKINGS {
            let mut packed = pack(&text(20_000));
            let middle = packed.len() / 2;
            for byte in &mut packed[middle..middle + 50] {
                *byte = !*byte;
            }
            assert!(read_all(packed).is_err(), "{name}");
        }
    }

    #[test]
    fn other_compressions_are_named() {
        let error = read_all(b"PK\x03\x04\0\0".to_vec()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "f: is compressed with zip, which cannot be read"
        );
    }
}
