//! A file's text, seen through a window that moves over it.
//!
//! The window holds what has been read and not yet consumed: a block and a little more. Everything consumed
//! goes through the rolling hash, so that at any place the hash says what lay before it.

use tonnage_core::error::Result;
use tonnage_places::File;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64_with_seed};

use super::opening::{Opened, Opening};
use crate::sources::{
    InputFile,
    compress::{ByteStream, Compression},
    pinned::Pinned,
};

/// The least that is read at a time: enough to make a call cheap, little enough to stay in a cache.
pub(crate) const READ_BYTES: usize = 256 << 10;

/// Up to here the buffer doubles when it grows; beyond, it takes only what is needed.
const DOUBLING_BYTES_MAX: usize = 16 << 20;

/// The rolling hash of what has hash `before`, and then `hash`; that of the first file is its own.
pub(crate) fn chained(before: u64, hash: u64) -> u64 {
    match before {
        0 => hash,
        _ => xxh3_64_with_seed(&hash.to_le_bytes(), before),
    }
}

/// One open file.
pub(crate) struct Window {
    stream: ByteStream,
    decoded: bool,
    shortened: bool,
    notes: Vec<String>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The file ends where the buffer's bytes do.
    whole: bool,
    /// Where in the file's text the window begins.
    offset: u64,
    /// The hash of the files before; 0 where there are none.
    before: u64,
    hash: Xxh3Default,
    /// The version that stands for the hash, where there is one.
    pinned: Option<Pinned>,
    blank_lines: u64,
}

impl Window {
    /// Opens `file` as `opening` says.
    pub fn open(file: &InputFile, opening: &Opening) -> Result<Self> {
        Ok(Self {
            pinned: Pinned::of(file),
            ..Self::of(opening.text(ByteStream::open(file)?)?)
        })
    }

    fn of(opened: Opened) -> Self {
        Self {
            stream: opened.stream,
            decoded: opened.decoded,
            shortened: opened.shortened,
            notes: opened.notes,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            whole: false,
            offset: 0,
            before: 0,
            hash: Xxh3Default::new(),
            pinned: None,
            blank_lines: 0,
        }
    }

    /// A window over a stream of UTF-8.
    #[cfg(any(test, fuzzing))]
    pub fn of_stream(stream: ByteStream) -> Self {
        Self::of(Opened {
            stream,
            decoded: false,
            shortened: false,
            notes: Vec::new(),
        })
    }

    /// The file, as the user named it.
    pub fn shown(&self) -> &str {
        self.stream.shown()
    }

    /// What was found of the file's bytes without being asked for, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether the text was made UTF-8 of another character set.
    pub fn is_decoded(&self) -> bool {
        self.decoded
    }

    /// Whether it is made of an Excel file, which is held in memory.
    pub fn is_excel(&self) -> bool {
        self.stream.compression() == Compression::Excel
    }

    /// Whether the text is that of the file, byte by byte.
    pub fn is_plain(&self) -> bool {
        self.stream.compression() == Compression::None && !self.decoded && !self.shortened
    }

    /// Whether a place in it can be gone to without reading what lies before.
    pub fn can_skip(&self) -> bool {
        self.pinned.is_some() && self.is_plain()
    }

    /// What has been read and not consumed.
    #[inline]
    pub fn text(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether the file ends where [`Window::text`] does.
    #[inline]
    pub fn whole(&self) -> bool {
        self.whole
    }

    /// Where in the file's text the window begins: bytes after decompression and decoding.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether offsets are those of the (decompressed) file: not where it was decoded from another character
    /// set.
    pub fn offsets_are_the_files(&self) -> bool {
        !self.decoded
    }

    /// Bytes consumed, as they lie on the disk. Exact for plain files, else what had to be read so far.
    pub fn disk_bytes(&self) -> u64 {
        if self.is_plain() {
            self.offset
        } else {
            self.stream.taken()
        }
    }

    /// The rolling hash of the files before and of everything consumed of this one.
    pub fn hash(&self) -> u64 {
        match (self.offset, self.pinned) {
            (0, _) => self.before,
            (offset, Some(pinned)) => chained(self.before, pinned.before(offset)),
            (_, None) => chained(self.before, self.hash.digest()),
        }
    }

    /// The file that is read, if it is one.
    pub fn file(&self) -> Option<&File> {
        self.stream.file()
    }

    /// Says what hash the files before have.
    pub fn follows(&mut self, before: u64) {
        self.before = before;
    }

    /// The hash of the files before and of this one, which has been read to its end.
    pub fn hash_behind(&self) -> u64 {
        let own = self.pinned.map(Pinned::whole);
        chained(self.before, own.unwrap_or_else(|| self.stream.digest()))
    }

    /// Takes note of lines that are blank and no rows.
    pub fn pass_blank_lines(&mut self, lines: u64) {
        self.blank_lines += lines;
    }

    /// How many there were.
    pub fn blank_lines(&self) -> u64 {
        self.blank_lines
    }

    /// Reads at least `wanted` more bytes, or to the end of the file.
    pub fn read(&mut self, wanted: usize) -> Result<()> {
        let wanted = wanted.max(1);
        self.make_room(wanted.max(READ_BYTES));
        let enough = self.end + wanted;
        while !self.whole && self.end < enough {
            // Room was made for `READ_BYTES` beyond what is wanted, so no read is a small one.
            match self.stream.read(&mut self.buffer[self.end..])? {
                0 => self.whole = true,
                count => self.end += count,
            }
        }
        Ok(())
    }

    fn make_room(&mut self, wanted: usize) {
        let live = self.end - self.start;
        let needed = wanted + READ_BYTES;
        if self.buffer.len() - self.end >= needed {
            return;
        }
        // Moving costs no more than what was consumed since the last move. A buffer that one long record has
        // blown up is given back.
        let bloated = self.buffer.len() > DOUBLING_BYTES_MAX && self.buffer.len() / 4 > live + needed;
        if live <= self.start && self.buffer.len() - live >= needed && !bloated {
            self.buffer.copy_within(self.start..self.end, 0);
        } else {
            let length = match live + needed {
                least if least < DOUBLING_BYTES_MAX => {
                    least.max(self.buffer.len() * 2).min(DOUBLING_BYTES_MAX)
                }
                least => least,
            };
            let mut buffer = Vec::with_capacity(length);
            buffer.extend_from_slice(&self.buffer[self.start..self.end]);
            buffer.resize(length, 0);
            self.buffer = buffer;
        }
        (self.start, self.end) = (0, live);
    }

    /// Moves the window `count` bytes on.
    pub fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        if self.pinned.is_none() {
            self.hash.update(&self.buffer[self.start..self.start + count]);
        }
        self.start += count;
        self.offset += count as u64;
    }

    /// Moves the window on to `offset`. False if the file ends before, or the window is beyond.
    pub fn consume_to(&mut self, offset: u64) -> Result<bool> {
        let is_beyond = offset > self.offset + self.text().len() as u64;
        if is_beyond && self.can_skip() && self.stream.go_to(offset)? {
            (self.start, self.end, self.whole) = (0, 0, false);
            self.offset = offset;
        }
        while self.offset < offset {
            if self.text().is_empty() {
                self.read(READ_BYTES)?;
                if self.text().is_empty() {
                    return Ok(false);
                }
            }
            let missing = usize::try_from(offset - self.offset).unwrap_or(usize::MAX);
            self.consume(missing.min(self.text().len()));
        }
        Ok(self.offset == offset)
    }
}
