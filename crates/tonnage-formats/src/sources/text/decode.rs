//! From other character sets to UTF-8, as the bytes come.

use std::io::{self, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding};
use tonnage_core::error::{Error, Result};

/// Bytes read before they are decoded.
const SOURCE_READ_BYTES: usize = 64 << 10;

/// Stands for a malformed sequence. It never occurs in UTF-8, so exactly the row that holds it is rejected
/// later.
const MALFORMED: u8 = 0xff;

/// The least output room in which a decoder is sure to make progress.
const OUTPUT_BYTES_MIN: usize = 16;

/// The character set of a label; none for UTF-8, which needs no decoding. `Config` for an unknown label.
pub(crate) fn encoding(label: &str) -> Result<Option<&'static Encoding>> {
    let found = Encoding::for_label_no_replacement(label.as_bytes()).ok_or_else(|| {
        Error::config(format!("unknown encoding '{label}'"))
            .hint("encodings are named as on the web: utf-8, latin1, windows-1252, utf-16le, shift_jis, gbk")
    })?;
    Ok((found != encoding_rs::UTF_8).then_some(found))
}

/// UTF-8 made of a reader's bytes.
pub(crate) struct Decoded<R> {
    reader: R,
    decoder: Decoder,
    source: Vec<u8>,
    start: usize,
    end: usize,
    /// The reader has ended.
    last: bool,
    /// The decoder has ended too.
    finished: bool,
}

impl<R: Read> Decoded<R> {
    /// Decodes `reader` from `encoding`; a byte order mark of that encoding is dropped.
    pub fn new(reader: R, encoding: &'static Encoding) -> Self {
        Self {
            reader,
            decoder: encoding.new_decoder_with_bom_removal(),
            source: vec![0; SOURCE_READ_BYTES],
            start: 0,
            end: 0,
            last: false,
            finished: false,
        }
    }
}

impl<R: Read> Read for Decoded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.len() < OUTPUT_BYTES_MIN {
            return Err(io::Error::other("the buffer is too small to decode into"));
        }
        // A malformed sequence needs room for its mark.
        let room = buffer.len() - 1;
        loop {
            if self.finished {
                return Ok(0);
            }
            if self.start == self.end && !self.last {
                (self.start, self.end) = (0, self.reader.read(&mut self.source)?);
                self.last = self.end == 0;
            }
            let (result, read, mut written) = self.decoder.decode_to_utf8_without_replacement(
                &self.source[self.start..self.end],
                &mut buffer[..room],
                self.last,
            );
            self.start += read;
            match result {
                DecoderResult::InputEmpty => self.finished = self.last,
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(..) => {
                    buffer[written] = MALFORMED;
                    written += 1;
                }
            }
            if written > 0 {
                return Ok(written);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], label: &str) -> Vec<u8> {
        let encoding = encoding(label).unwrap().unwrap();
        let (mut all, mut buffer) = (Vec::new(), [0; OUTPUT_BYTES_MIN]);
        let mut reader = Decoded::new(bytes, encoding);
        loop {
            match reader.read(&mut buffer).unwrap() {
                0 => return all,
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    }

    #[test]
    fn text_is_decoded_whatever_the_size_of_the_buffer() {
        assert_eq!(
            decoded(b"caf\xe9 cr\xe8me, \x80 5, and more", "windows-1252"),
            "café crème, € 5, and more".as_bytes()
        );
        let utf16: Vec<u8> = "\u{feff}añb😀c"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(decoded(&utf16, "utf-16le"), "añb😀c".as_bytes());
    }

    #[test]
    fn malformed_sequences_leave_a_byte_that_is_not_utf8() {
        assert_eq!(decoded(b"a\x81\xffb", "shift_jis"), b"a\xffb");
        assert_eq!(decoded(b"a\0b", "utf-16le"), b"a\xff");
    }

    #[test]
    fn utf8_needs_no_decoding_and_unknown_labels_are_refused() {
        assert!(encoding("UTF8").unwrap().is_none());
        assert_eq!(
            encoding("klingon").unwrap_err().to_string(),
            "unknown encoding 'klingon'"
        );
    }
}
