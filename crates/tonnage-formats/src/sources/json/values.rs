//! A JSON value a line, from files that are written otherwise: an array of objects, and objects over several lines.
//!
//! Every byte stays in its place, so that offsets are those of the file: a comma between two elements of the outermost
//! array becomes a line end, and its brackets and the line ends within values become spaces. What is one value a line
//! already is not touched.

use std::io::{self, Read};

/// Bytes by which is told how the values are written.
const LOOKED_AT_BYTES: usize = 64 << 10;

/// The least room that is given to read into.
const ROOM_BYTES: usize = 1 << 10;

/// See the module.
pub(crate) struct Values<R> {
    reader: R,
    start: Vec<u8>,
    given: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing has been read.
    Unknown,
    /// A value a line, as it is.
    Lines,
    /// Between the values of the file.
    Within(Depth),
}

/// A place among values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Depth {
    /// Within the array whose elements are the values.
    in_array: bool,
    /// Objects and arrays that are open within a value.
    open: u64,
    in_string: bool,
    escaped: bool,
}

impl<R: Read> Values<R> {
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            start: Vec::new(),
            given: 0,
            state: State::Unknown,
        }
    }

    /// Reads the beginning of the file and tells by it.
    fn look(&mut self) -> io::Result<()> {
        let mut filled = 0;
        // A decoder wants room for a character.
        self.start.resize(LOOKED_AT_BYTES + ROOM_BYTES, 0);
        while filled < LOOKED_AT_BYTES {
            match self.reader.read(&mut self.start[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        self.start.truncate(filled);
        self.state = match is_a_value_a_line(&self.start) {
            true => State::Lines,
            false => State::Within(Depth::default()),
        };
        self.change(0, self.start.len());
        Ok(())
    }

    fn change(&mut self, from: usize, to: usize) {
        if let State::Within(depth) = &mut self.state {
            depth.change(&mut self.start[from..to]);
        }
    }
}

impl<R: Read> Read for Values<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.state == State::Unknown {
            self.look()?;
        }
        let rest = &self.start[self.given..];
        if !rest.is_empty() {
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            self.given += count;
            if self.given == self.start.len() {
                (self.start, self.given) = (Vec::new(), 0);
            }
            return Ok(count);
        }
        let count = self.reader.read(buffer)?;
        if let State::Within(depth) = &mut self.state {
            depth.change(&mut buffer[..count]);
        }
        Ok(count)
    }
}

/// Whether the first value ends on the line on which it begins, and is no array.
fn is_a_value_a_line(start: &[u8]) -> bool {
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let text = text.trim_ascii_start();
    match text.first() {
        Some(b'{') => {}
        first => return first != Some(&b'['),
    }
    let mut depth = Depth::default();
    for byte in text {
        if *byte == b'\n' && depth.open > 0 {
            // A line that is cut off is a bad line, and the next one a value again.
            return next_line_is_a_value(text);
        }
        depth.step(*byte);
        if depth.open == 0 {
            return true;
        }
    }
    true
}

/// Whether the second line begins with an object of its own: then the first is bad, and does not go on there.
fn next_line_is_a_value(text: &[u8]) -> bool {
    let second = text.splitn(2, |byte| *byte == b'\n').nth(1).unwrap_or_default();
    second.first() == Some(&b'{')
}

impl Depth {
    fn change(&mut self, text: &mut [u8]) {
        for byte in text {
            let before = *self;
            self.step(*byte);
            let within = before.open > 0;
            match *byte {
                _ if before.in_string => {}
                b'\n' | b'\r' if within || before.in_array => *byte = b' ',
                b'[' if !within && !before.in_array => {
                    *self = Self {
                        in_array: true,
                        ..Self::default()
                    };
                    *byte = b' ';
                }
                b']' if !within && before.in_array => {
                    *self = Self::default();
                    *byte = b' ';
                }
                b',' if !within && before.in_array => *byte = b'\n',
                _ => {}
            }
        }
    }

    fn step(&mut self, byte: u8) {
        match (self.in_string, byte) {
            (true, _) if self.escaped => self.escaped = false,
            (true, b'\\') => self.escaped = true,
            (true, b'"') => self.in_string = false,
            (true, _) => {}
            (false, b'"') => self.in_string = true,
            (false, b'{' | b'[') => self.open += 1,
            (false, b'}' | b']') => self.open = self.open.saturating_sub(1),
            (false, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let mut read = String::new();
        Values::new(text.as_bytes()).read_to_string(&mut read).unwrap();
        assert_eq!(read.len(), text.len(), "every byte stays in its place");
        let lines = read.lines().map(|line| line.trim().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    }

    #[test]
    fn values_come_a_line_each() {
        let cases: &[(&str, &[&str])] = &[
            ("{\"a\":1}\n{\"a\":2}\n", &["{\"a\":1}", "{\"a\":2}"]),
            ("[{\"a\":1},{\"a\":2}]", &["{\"a\":1}", "{\"a\":2}"]),
            (
                "[\n  {\"a\": [1,\n 2]},\n  {\"a\": \"],[\\\"\"}\n]\n",
                &["{\"a\": [1,  2]}", "{\"a\": \"],[\\\"\"}"],
            ),
            (
                "{\n \"a\": 1\n}\n{\n \"a\": 2\n}",
                &["{  \"a\": 1 }", "{  \"a\": 2 }"],
            ),
            ("[]", &[]),
            ("[1, [2, 3]]", &["1", "[2, 3]"]),
            ("", &[]),
            ("x\ny", &["x", "y"]),
            // A broken line costs itself only.
            ("{\"a\":1\n{\"a\":2}\n", &["{\"a\":1", "{\"a\":2}"]),
        ];
        for (text, expected) in cases {
            assert_eq!(&lines(text), expected, "{text}");
        }
    }
}
