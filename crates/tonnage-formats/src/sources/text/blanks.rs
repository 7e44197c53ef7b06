//! Text whose fields are separated by runs of spaces and tabs, as tables for people are, with a tab in the place of each.

use std::io::{self, Read};

/// Text with one tab in the place of each run of spaces and tabs between fields, and without those at the beginning and
/// the end of lines. Within quotes, which open at the beginning of a field, they are data.
pub(crate) struct SplitByBlanks<R> {
    reader: R,
    quote: Option<u8>,
    is_quoted: bool,
    /// The byte before closed a quoted field; a quote behind it opens it again.
    has_closed: bool,
    /// The line has begun.
    is_within_line: bool,
    /// There were blanks before the next byte.
    has_blanks: bool,
}

impl<R: Read> SplitByBlanks<R> {
    pub fn new(reader: R, quote: Option<u8>) -> Self {
        Self {
            reader,
            quote,
            is_quoted: false,
            has_closed: false,
            is_within_line: false,
            has_blanks: false,
        }
    }

    /// Makes text of `buffer[from..]` at its beginning, and returns its length. Blanks that were seen before may become a
    /// tab more than that has bytes, so that `from` is at least 1.
    fn split(&mut self, buffer: &mut [u8], from: usize) -> usize {
        let mut length = 0;
        for at in from..buffer.len() {
            let byte = buffer[at];
            let has_closed = std::mem::take(&mut self.has_closed);
            match byte {
                _ if self.is_quoted => {
                    self.has_closed = Some(byte) == self.quote;
                    self.is_quoted = !self.has_closed;
                }
                b' ' | b'\t' => {
                    self.has_blanks = self.is_within_line;
                    continue;
                }
                b'\n' | b'\r' => (self.is_within_line, self.has_blanks) = (false, false),
                _ => {
                    let begins_field = self.has_blanks || !self.is_within_line;
                    self.is_quoted = (begins_field || has_closed) && Some(byte) == self.quote;
                    if self.has_blanks {
                        buffer[length] = b'\t';
                        length += 1;
                    }
                    (self.is_within_line, self.has_blanks) = (true, false);
                }
            }
            buffer[length] = byte;
            length += 1;
        }
        length
    }
}

impl<R: Read> Read for SplitByBlanks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.len() < 2 {
            return Err(io::Error::other("the buffer is too small to split into"));
        }
        loop {
            let count = self.reader.read(&mut buffer[1..])?;
            let length = self.split(&mut buffer[..=count], 1);
            if length > 0 || count == 0 {
                return Ok(length);
            }
        }
    }
}

/// The same of a text that is there in whole.
pub(crate) fn split_by_blanks(text: &[u8], quote: Option<u8>) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(text.len() + 1);
    buffer.push(0);
    buffer.extend_from_slice(text);
    let length = SplitByBlanks::new(io::empty(), quote).split(&mut buffer, 1);
    buffer.truncate(length);
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_blanks_are_tabs_however_the_bytes_come() {
        let text = b"  a  b\t \tc \n\n1 \"x  \"\"y z\" 2\r\n  3 it\"s  4  ";
        let expected = b"a\tb\tc\n\n1\t\"x  \"\"y z\"\t2\r\n3\tit\"s\t4";
        assert_eq!(split_by_blanks(text, Some(b'"')), expected);
        for size in 2..text.len() + 2 {
            let mut reader = SplitByBlanks::new(&text[..], Some(b'"'));
            let (mut all, mut buffer) = (Vec::new(), vec![0; size]);
            loop {
                match reader.read(&mut buffer).unwrap() {
                    0 => break,
                    count => all.extend_from_slice(&buffer[..count]),
                }
            }
            assert_eq!(all, expected, "{size} bytes at a time");
        }
    }
}
