//! The one file of a zip archive.
//!
//! What the archive's directory says is read first; then the file is read from its beginning to its end like any other,
//! so that its bytes are counted and hashed as they lie on the disk.

use std::{
    io::{self, BufReader, Read},
    path::Path,
    sync::Arc,
};

use flate2::{CrcReader, read::DeflateDecoder};
use tonnage_core::error::{Error, Result};
use tonnage_places::File;
use zip::{CompressionMethod, ZipArchive};

use super::files::format_of;

/// What an archive begins with.
pub(super) const ZIP_MAGIC: &[u8] = b"PK\x03\x04";

/// The most names of files that a message lists.
const NAMES_SHOWN_MAX: usize = 5;

/// Bytes of the fixed part of the header of a file within an archive, and where it says how long its rest is.
const LOCAL_HEADER_BYTES: usize = 30;
const NAME_LENGTH_AT: usize = 26;
const EXTRA_LENGTH_AT: usize = 28;

/// Where the file within an archive is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    header_start: u64,
    packed_bytes: u64,
    bytes: u64,
    crc: u32,
    deflated: bool,
}

/// Looks up the only file of an archive whose rows can be read, and says which one where there are others. `Input` where there
/// are several, or none, or it is encrypted.
pub(super) fn only_member(shown: &Arc<str>, file: &File) -> Result<(Member, Option<String>)> {
    let damaged = |cause: zip::result::ZipError| {
        Error::input(format!("{shown}: the zip archive is damaged: {cause}"))
            .hint("get a whole copy of the file")
            .caused_by(cause)
    };
    let file = file.try_clone().map_err(|cause| {
        Error::input(format!("{shown}: cannot be read: {cause}"))
            .hint("look at the disk that it is on")
            .caused_by(cause)
    })?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
    let mut members = Vec::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(damaged)?;
        // macOS adds a directory of its own.
        let name = entry.name().map_err(damaged)?.into_owned();
        if entry.is_file() && !name.starts_with("__MACOSX/") {
            members.push((index, name));
        }
    }
    let data: Vec<_> = members.iter().filter(|(_, name)| is_data(name)).collect();
    let only = match (members.as_slice(), data.as_slice()) {
        ([only], _) => Some(only),
        (_, [only]) => Some(*only),
        _ => None,
    };
    let Some((index, name)) = only else {
        let shown_names: Vec<_> = members
            .iter()
            .take(NAMES_SHOWN_MAX)
            .map(|(_, name)| name.as_str())
            .collect();
        return Err(Error::input(format!(
            "{shown}: the zip archive has {} files, and one of them cannot be chosen: {}{}",
            members.len(),
            shown_names.join(", "),
            if members.len() > NAMES_SHOWN_MAX {
                ", .."
            } else {
                ""
            }
        ))
        .hint(format!(
            "unzip it and load its files, or one of them: unzip -p {shown} NAME | tonnage load - .."
        )));
    };
    let entry = archive.by_index_raw(*index).map_err(damaged)?;
    let refused = |why: &str| {
        Err(Error::input(format!("{shown}: {name} in the zip archive {why}"))
            .hint("unzip it and load the file itself"))
    };
    if entry.encrypted() {
        return refused("is encrypted");
    }
    let deflated = match entry.compression() {
        CompressionMethod::Stored => false,
        CompressionMethod::Deflated => true,
        _ => return refused("is compressed with a method that cannot be read"),
    };
    let others = members.iter().filter(|(other, _)| other != index);
    let others: Vec<_> = others
        .map(|(_, other)| other.as_str())
        .take(NAMES_SHOWN_MAX)
        .collect();
    let note = (!others.is_empty()).then(|| {
        format!(
            "{name} is read of the zip archive {shown}, and not {}{}",
            others.join(", "),
            if members.len() - 1 > others.len() {
                ", .."
            } else {
                ""
            }
        )
    });
    let member = Member {
        header_start: entry.header_start(),
        packed_bytes: entry.compressed_size(),
        bytes: entry.size(),
        crc: entry.crc32(),
        deflated,
    };
    Ok((member, note))
}

/// Whether the name of a file in an archive says that it has rows. Texts are notes on them more often.
fn is_data(name: &str) -> bool {
    let path = Path::new(name);
    let is_text = path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("txt"));
    !is_text && format_of(path).is_some()
}

/// The bytes of a member of the archive that `reader` reads from its beginning; at the end all of it has been read.
pub(super) struct MemberReader<R: Read> {
    content: Content<R>,
    member: Member,
    read: u64,
}

enum Content<R: Read> {
    Before(R),
    Deflated(CrcReader<DeflateDecoder<io::Take<R>>>),
    Stored(CrcReader<io::Take<R>>),
    Behind,
}

impl<R: Read> MemberReader<R> {
    pub fn new(reader: R, member: Member) -> Self {
        Self {
            content: Content::Before(reader),
            member,
            read: 0,
        }
    }

    /// Goes to where the member's bytes begin.
    fn begin(&mut self, mut reader: R) -> io::Result<()> {
        pass(&mut reader, self.member.header_start)?;
        let mut header = [0; LOCAL_HEADER_BYTES];
        reader.read_exact(&mut header)?;
        if !header.starts_with(ZIP_MAGIC) {
            return Err(io::Error::other("its directory points to where no file is"));
        }
        let length = |at: usize| u64::from(u16::from_le_bytes([header[at], header[at + 1]]));
        pass(&mut reader, length(NAME_LENGTH_AT) + length(EXTRA_LENGTH_AT))?;
        let packed = reader.take(self.member.packed_bytes);
        self.content = match self.member.deflated {
            true => Content::Deflated(CrcReader::new(DeflateDecoder::new(packed))),
            false => Content::Stored(CrcReader::new(packed)),
        };
        Ok(())
    }

    /// Checks what was read, and reads the rest of the archive.
    fn end(&mut self) -> io::Result<()> {
        let (crc, packed) = match std::mem::replace(&mut self.content, Content::Behind) {
            Content::Deflated(reader) => (reader.crc().sum(), reader.into_inner().into_inner()),
            Content::Stored(reader) => (reader.crc().sum(), reader.into_inner()),
            Content::Before(_) | Content::Behind => return Ok(()),
        };
        if self.read < self.member.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if crc != self.member.crc || self.read != self.member.bytes {
            return Err(io::Error::other("the checksum of its file is another one"));
        }
        io::copy(&mut packed.into_inner(), &mut io::sink())?;
        Ok(())
    }
}

fn pass(reader: &mut impl Read, bytes: u64) -> io::Result<()> {
    match io::copy(&mut reader.take(bytes), &mut io::sink())? == bytes {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

impl<R: Read> Read for MemberReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Content::Before(_) = self.content
            && let Content::Before(reader) = std::mem::replace(&mut self.content, Content::Behind)
        {
            self.begin(reader)?;
        }
        let count = match &mut self.content {
            Content::Deflated(reader) => reader.read(buffer)?,
            Content::Stored(reader) => reader.read(buffer)?,
            Content::Before(_) | Content::Behind => 0,
        };
        self.read += count as u64;
        if count == 0 && !buffer.is_empty() {
            self.end()?;
        }
        Ok(count)
    }
}
