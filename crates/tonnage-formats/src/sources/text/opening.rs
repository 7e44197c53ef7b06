//! How the bytes of a file become the text that is cut: its character set, its line ends, and lines that are not rows.

use std::io::{self, Read};

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::Encoding;
use memchr::memchr;
use tonnage_core::error::{Error, Result};

use super::{
    UTF16_BE_MARK, UTF16_LE_MARK,
    blanks::SplitByBlanks,
    decode::{self, Decoded},
};
use crate::sources::{InputFile, SCANNED_BYTES_MAX, TextOptions, compress::ByteStream, json::Values};

/// Bytes of a file that are looked at before it is read.
const LOOKED_AT_BYTES: usize = 64 << 10;

/// Bytes by which a character set is told: its letters may be rare.
const CHARSET_BYTES: usize = 1 << 20;

/// Bytes by which a character set is told where UTF-8 is expected.
const LIKELY_BYTES: usize = 256 << 10;

/// Bytes by which UTF-16 without a mark is told, and the least pairs of them.
const UNMARKED_BYTES: usize = 4096;
const UNMARKED_PAIRS_MIN: usize = 4;

/// Lines with bytes that are no ASCII, by which the character set of a long file is told.
const FOREIGN_BYTES_MAX: usize = 64 << 10;

/// The least bytes by which a character set of several bytes a character is told.
const MULTIBYTE_MIN: usize = 6;

/// What text has besides letters.
const SIGNS: &str = "\u{a0}¡£¥§©ª«®°±²³´µ¶·¹º»¼½¾¿×÷€‚„…‘’“”•–—™›‹†‡‰";

/// The most lines of a footer.
const FOOTER_LINES_MAX: u64 = 1_000;

/// The most bytes of a footer, which is held in memory.
const FOOTER_BYTES_MAX: usize = 16 << 20;

/// The name by which the character set is to be detected.
const AUTO: &str = "auto";

/// How files are opened; the same for all files of a run.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    charset: Charset,
    detect: bool,
    quote: Option<u8>,
    footer_lines: u64,
    blanks: Blanks,
    layout: Layout,
}

/// What spaces and tabs outside of quotes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blanks {
    /// Whatever the format says.
    AsTheyAre,
    /// Runs of them separate fields: each is made a tab.
    Separate,
}

#[derive(Debug, Clone, Copy)]
enum Charset {
    Utf8,
    /// UTF-8 unless the bytes are none, and clearly something else.
    Likely,
    Other(&'static Encoding),
    Auto,
}

/// What a line of the text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Whatever the file says.
    Lines,
    /// A JSON value: the elements of an array and values over several lines are brought to that.
    JsonLines,
}

/// A stream of text, and what was done to the bytes.
pub(crate) struct Opened {
    pub stream: ByteStream,
    /// It was made UTF-8 of another character set, or its blanks were made tabs, so that its offsets are not those of the
    /// file.
    pub decoded: bool,
    /// The bytes of the file are not counted by those of the text.
    pub shortened: bool,
    /// What was found without being asked for, a sentence each.
    pub notes: Vec<String>,
}

impl Opening {
    /// As `options` say. `Config` for an unknown character set and too long a footer.
    pub fn new(options: &TextOptions, layout: Layout) -> Result<Self> {
        if options.skip_footer > FOOTER_LINES_MAX {
            return Err(Error::config(format!(
                "a footer has at most {FOOTER_LINES_MAX} lines, and {} were named",
                options.skip_footer
            )));
        }
        Ok(Self {
            charset: match options.encoding.eq_ignore_ascii_case(AUTO) {
                true => Charset::Auto,
                false => match decode::encoding(&options.encoding)? {
                    Some(encoding) => Charset::Other(encoding),
                    None if options.detect && options.encoding_guessed => Charset::Likely,
                    None => Charset::Utf8,
                },
            },
            detect: options.detect,
            quote: options.quote,
            footer_lines: options.skip_footer,
            blanks: Blanks::AsTheyAre,
            layout,
        })
    }

    /// Leaves out the last lines of files.
    pub fn leave_out_footer(&mut self, lines: u64) {
        self.footer_lines = lines;
    }

    /// Makes a tab of each run of spaces and tabs between fields, and nothing of those around lines.
    pub fn split_by_blanks(&mut self) {
        self.blanks = Blanks::Separate;
    }

    /// Looks at all of a file on a disk, of at most [`SCANNED_BYTES_MAX`], for what is not UTF-8 behind what
    /// [`Opening::text`] looks at. True where it is another character set, as which it is opened from now on.
    pub fn look_further(&mut self, file: &InputFile, notes: &mut Vec<String>) -> Result<bool> {
        let Charset::Likely = self.charset else {
            return Ok(false);
        };
        let bytes = file.identity.as_ref().map_or(u64::MAX, |identity| identity.bytes);
        if file.path.is_none() || bytes > SCANNED_BYTES_MAX {
            return Ok(false);
        }
        let mut stream = ByteStream::open(file)?;
        let mut foreign = Vec::new();
        let mut held = vec![0; LOOKED_AT_BYTES];
        let (mut start, mut left) = (0, SCANNED_BYTES_MAX);
        loop {
            let count = stream.read(&mut held[start..])?;
            let end = start + count;
            left = left.saturating_sub(count as u64);
            // Lines are looked at in whole; a long one in pieces.
            let lines = match memchr::memrchr(b'\n', &held[..end]) {
                Some(last) if count > 0 => last + 1,
                _ => end,
            };
            for line in held[..lines].split_inclusive(|byte| *byte == b'\n') {
                if !line.is_ascii() && foreign.len() < FOREIGN_BYTES_MAX {
                    foreign.extend_from_slice(line);
                }
            }
            if count == 0 || left == 0 || foreign.len() >= FOREIGN_BYTES_MAX {
                break;
            }
            held.copy_within(lines..end, 0);
            start = end - lines;
        }
        let Some(encoding) = told(&foreign) else {
            return Ok(false);
        };
        notes.push(note_of(encoding, stream.shown()));
        self.charset = Charset::Other(encoding);
        Ok(true)
    }

    /// The text of the bytes of a file. Where something is detected its beginning is read.
    pub fn text(&self, stream: ByteStream) -> Result<Opened> {
        let shown = stream.shown().to_owned();
        let (stream, start) = match (self.charset, self.detect) {
            (Charset::Auto, _) => stream.looked_at(CHARSET_BYTES)?,
            (Charset::Likely, _) => stream.looked_at(LIKELY_BYTES)?,
            (_, true) => stream.looked_at(LOOKED_AT_BYTES)?,
            (_, false) => (stream, Vec::new()),
        };
        let mut notes: Vec<String> = stream.note().map(str::to_owned).into_iter().collect();
        let encoding = match self.charset {
            Charset::Other(encoding) => Some(encoding),
            Charset::Utf8 if self.detect => marked(&start),
            Charset::Utf8 => None,
            Charset::Likely => marked(&start)
                .or_else(|| unmarked(&start))
                .or_else(|| told(&start)),
            Charset::Auto => marked(&start).or_else(|| guessed(&start)),
        };
        if let (Some(encoding), Charset::Utf8 | Charset::Likely | Charset::Auto) = (encoding, self.charset) {
            notes.push(note_of(encoding, &shown));
        }
        let text = match encoding {
            Some(encoding) => encoding.decode(&start).0.into_owned().into_bytes(),
            None => start,
        };
        let mut stream = match encoding {
            Some(encoding) => stream.map(|reader| Box::new(Decoded::new(reader, encoding))),
            None => stream,
        };
        if self.detect && self.layout == Layout::Lines && ends_lines_with_cr(&text) {
            let quote = self.quote;
            stream = stream.map(|reader| Box::new(LinesOfCr::new(reader, quote)));
            notes.push(format!("the lines of {shown} end with a carriage return alone"));
        }
        if self.blanks == Blanks::Separate {
            let quote = self.quote;
            stream = stream.map(|reader| Box::new(SplitByBlanks::new(reader, quote)));
        }
        if self.footer_lines > 0 {
            let lines = self.footer_lines;
            stream = stream.map(|reader| Box::new(WithoutFooter::new(reader, lines)));
        }
        if self.layout == Layout::JsonLines {
            stream = stream.map(|reader| Box::new(Values::new(reader)));
        }
        Ok(Opened {
            stream,
            decoded: encoding.is_some() || self.blanks == Blanks::Separate,
            shortened: self.footer_lines > 0,
            notes,
        })
    }
}

/// What is said of a character set that was found.
fn note_of(encoding: &'static Encoding, shown: &str) -> String {
    let name = encoding.name();
    format!("the text of {shown} is {name}, by its bytes; --encoding NAME says otherwise")
}

/// UTF-16 without a mark: text of which every other byte is zero, as that of ASCII characters is.
fn unmarked(start: &[u8]) -> Option<&'static Encoding> {
    let start = &start[..start.len().min(UNMARKED_BYTES)];
    let pairs = start.len() / 2;
    let zeros = |odd: usize| {
        start
            .iter()
            .skip(odd)
            .step_by(2)
            .filter(|byte| **byte == 0)
            .count()
    };
    // A NUL in text of another character set is at any place.
    match (zeros(0), zeros(1)) {
        _ if pairs < UNMARKED_PAIRS_MIN => None,
        (0, high) if high * 10 >= pairs * 9 => Some(encoding_rs::UTF_16LE),
        (high, 0) if high * 10 >= pairs * 9 => Some(encoding_rs::UTF_16BE),
        _ => None,
    }
}

/// The character set of bytes that are clearly none of UTF-8: nothing in them is, all of them are characters of what they
/// are taken for, and those are letters and signs that text has.
fn told(bytes: &[u8]) -> Option<&'static Encoding> {
    let mut rest = bytes;
    let mut foreign = 0;
    loop {
        let (valid, invalid) = match std::str::from_utf8(rest) {
            Ok(valid) => (valid, None),
            // The last character may be cut.
            Err(error) if error.error_len().is_none() && foreign == 0 => return None,
            Err(error) => {
                let (valid, invalid) = rest.split_at(error.valid_up_to());
                (
                    std::str::from_utf8(valid).unwrap_or_default(),
                    Some(&invalid[1..]),
                )
            }
        };
        if !valid.is_ascii() {
            return None;
        }
        match invalid {
            Some(behind) => (rest, foreign) = (behind, foreign + 1),
            None => break,
        }
    }
    if foreign == 0 {
        return None;
    }
    // What signs alone, such as ©, do not tell is the commonest.
    let candidates = guessed(bytes).into_iter().chain([encoding_rs::WINDOWS_1252]);
    candidates
        .into_iter()
        .find(|encoding| is_text_in(encoding, bytes, foreign))
}

/// Whether bytes, of which so many are no ASCII, are text of letters and signs in a character set.
fn is_text_in(encoding: &'static Encoding, bytes: &[u8], foreign: usize) -> bool {
    let (text, _, malformed) = encoding.decode(bytes);
    let is_likely = |(at, sign): (usize, char)| match sign {
        _ if sign.is_ascii() => true,
        '\u{ff}' | '\u{fffd}' => false,
        _ if SIGNS.contains(sign) => true,
        // A letter belongs to a word.
        _ => {
            let is_letter = |other: Option<char>| other.is_some_and(char::is_alphabetic);
            let before = text[..at].chars().next_back();
            let behind = text[at + sign.len_utf8()..].chars().next();
            // A capital in the middle of a word is one of another character set: `AnnŽe` is `Année` on old Macs.
            let is_misplaced = sign.is_uppercase() && before.is_some_and(char::is_lowercase);
            sign.is_alphabetic() && !is_misplaced && (is_letter(before) || is_letter(behind))
        }
    };
    // Of many bytes the last character may be cut.
    let is_cut = bytes.len() == LIKELY_BYTES;
    let is_single = encoding.is_single_byte();
    let is_enough = is_single || foreign >= MULTIBYTE_MIN;
    let is_text = !is_single || text.char_indices().all(is_likely);
    is_enough && is_text && (!malformed || (is_cut && !is_single))
}

/// The character set of a byte order mark, if it is not UTF-8.
fn marked(start: &[u8]) -> Option<&'static Encoding> {
    if start.starts_with(UTF16_LE_MARK) {
        Some(encoding_rs::UTF_16LE)
    } else if start.starts_with(UTF16_BE_MARK) {
        Some(encoding_rs::UTF_16BE)
    } else {
        None
    }
}

/// The character set that bytes are probably in; none for UTF-8.
pub(crate) fn guessed(bytes: &[u8]) -> Option<&'static Encoding> {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    // The last character may be cut.
    detector.feed(bytes, false);
    let found = detector.guess(None, Utf8Detection::Allow);
    (found != encoding_rs::UTF_8).then_some(found)
}

fn ends_lines_with_cr(text: &[u8]) -> bool {
    // A CR that is the last byte may have its LF behind.
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    memchr(b'\r', text).is_some() && memchr(b'\n', text).is_none()
}

/// Text whose lines end with CR, with LF in their place. Within quotes a CR is data.
struct LinesOfCr<R> {
    reader: R,
    quote: Option<u8>,
    quoted: bool,
}

impl<R: Read> LinesOfCr<R> {
    fn new(reader: R, quote: Option<u8>) -> Self {
        Self {
            reader,
            quote,
            quoted: false,
        }
    }
}

impl<R: Read> Read for LinesOfCr<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        for byte in &mut buffer[..count] {
            if Some(*byte) == self.quote {
                self.quoted = !self.quoted;
            } else if *byte == b'\r' && !self.quoted {
                *byte = b'\n';
            }
        }
        Ok(count)
    }
}

/// Text without its last lines. An end of the text behind the last line end is no line of its own.
struct WithoutFooter<R> {
    reader: R,
    lines: u64,
    /// Read and not handed on: at least the last lines.
    held: Vec<u8>,
    /// Of it, how much was handed on.
    given: usize,
    /// Of it, how much may be.
    free: usize,
    ended: bool,
}

impl<R: Read> WithoutFooter<R> {
    fn new(reader: R, lines: u64) -> Self {
        Self {
            reader,
            lines,
            held: Vec::new(),
            given: 0,
            free: 0,
            ended: false,
        }
    }

    /// Where the last lines of what is held begin.
    fn footer_start(&self) -> usize {
        let text = &self.held[self.given..];
        let body = text.strip_suffix(b"\n").unwrap_or(text);
        let mut lines = 0;
        let start = memchr::memrchr_iter(b'\n', body).find(|_| {
            lines += 1;
            lines == self.lines
        });
        self.given + start.map_or(0, |at| at + 1)
    }
}

impl<R: Read> Read for WithoutFooter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.free && !self.ended {
            self.held.drain(..self.given);
            (self.given, self.free) = (0, 0);
            let before = self.held.len();
            if before > FOOTER_BYTES_MAX {
                return Err(io::Error::other(format!(
                    "the last {} lines are longer than {FOOTER_BYTES_MAX} bytes",
                    self.lines
                )));
            }
            self.held.resize(before + LOOKED_AT_BYTES, 0);
            let read = self.reader.read(&mut self.held[before..]);
            self.held.truncate(before + *read.as_ref().unwrap_or(&0));
            self.ended = read? == 0;
            // More may follow the last byte, so that a line end there ends the last line only at the end.
            self.free = self.footer_start();
        }
        let count = buffer.len().min(self.free - self.given);
        buffer[..count].copy_from_slice(&self.held[self.given..][..count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut reader: impl Read) -> String {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    /// Gives a byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(buffer.len()).min(1);
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn a_footer_is_the_last_lines_however_the_text_ends() {
        let cases = [
            ("a\nb\nc\n", 1, "a\nb\n"),
            ("a\nb\nc", 1, "a\nb\n"),
            ("a\nb\n\n", 1, "a\nb\n"),
            ("a\nb\nc\n", 2, "a\n"),
            ("a\nb\nc\n", 3, ""),
            ("a\nb\nc\n", 9, ""),
            ("", 2, ""),
        ];
        for (text, lines, rest) in cases {
            assert_eq!(
                all(WithoutFooter::new(text.as_bytes(), lines)),
                rest,
                "{text:?} {lines}"
            );
            assert_eq!(
                all(WithoutFooter::new(Slow(text.as_bytes()), lines)),
                rest,
                "{text:?} {lines}"
            );
        }
    }

    #[test]
    fn a_carriage_return_within_quotes_ends_no_line() {
        assert!(ends_lines_with_cr(b"a,b\r1,2\r"));
        for other in [&b"a,b\r\n1,2\r\n"[..], b"a,b\r", b"a,b", b""] {
            assert!(!ends_lines_with_cr(other), "{other:?}");
        }
        let text = LinesOfCr::new(&b"a\r\"x\ry\"\"\rz\"\rb"[..], Some(b'"'));
        assert_eq!(all(text), "a\n\"x\ry\"\"\rz\"\nb");
    }

    #[test]
    fn character_sets_are_told_by_their_bytes() {
        assert_eq!(guessed("plain".as_bytes()), None);
        assert_eq!(guessed("caf\u{e9} cr\u{e8}me".as_bytes()), None);
        let latin = guessed(b"Fran\xe7ois,d\xe9j\xe0 vu\nJos\xe9,ma\xf1ana\n").unwrap();
        assert_eq!(latin.name(), "windows-1252");
        assert_eq!(marked(b"\xff\xfea\0").unwrap().name(), "UTF-16LE");
    }
}
