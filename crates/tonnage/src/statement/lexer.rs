//! The words, signs and parameters of a statement, without its comments.

use super::{Dialect, Kind, Token, place, refused};
use crate::error::{Error, Result};

/// Cuts a text into tokens.
pub(super) struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    dialect: Dialect,
    at: usize,
    open: Vec<u8>,
    pub(super) tokens: Vec<Token>,
    pub(super) parameters: Vec<String>,
}

/// Part of a name, but not of a number only; bytes of other alphabets are.
fn names(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn begins_name(byte: u8) -> bool {
    names(byte) && !byte.is_ascii_digit()
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, dialect: Dialect) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            dialect,
            at: 0,
            open: Vec::new(),
            tokens: Vec::new(),
            parameters: Vec::new(),
        }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn push(&mut self, kind: Kind, start: usize) {
        self.tokens.push(Token {
            kind,
            range: start..self.at,
            depth: self.open.len(),
        });
    }

    fn unclosed(&self, what: &str, start: usize) -> Error {
        refused(format!("{what} at {} is not closed", place(self.text, start)))
    }

    pub(super) fn run(&mut self) -> Result<()> {
        while self.at < self.bytes.len() {
            self.next()?;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let start = self.at;
        let dialect = self.dialect;
        match self.peek(0) {
            byte if byte.is_ascii_whitespace() => self.at += 1,
            b'-' if self.peek(1) == b'-' && (!dialect.hashes || self.peek(2) <= b' ') => self.line(),
            b'/' if dialect.hashes && self.is_run() => {
                return Err(refused(format!(
                    "the comment at {} is one that the server runs",
                    place(self.text, start)
                ))
                .hint("write what it holds without the comment's signs"));
            }
            b'#' if dialect.hashes => self.line(),
            b'/' if self.peek(1) == b'*' => self.comment()?,
            b'\'' => self.quoted(b'\'', dialect.backslashes, Kind::Text, "the string")?,
            b'e' | b'E' if dialect.dollars && self.peek(1) == b'\'' => {
                self.at += 1;
                self.quoted(b'\'', true, Kind::Text, "the string")?;
            }
            b'"' if dialect.backslashes => self.quoted(b'"', true, Kind::Text, "the string")?,
            b'"' => self.quoted(b'"', false, Kind::Quoted, "the quoted name")?,
            b'`' if dialect.backticks => self.quoted(b'`', false, Kind::Quoted, "the quoted name")?,
            b'[' if dialect.brackets => self.quoted(b']', false, Kind::Quoted, "the bracket")?,
            b'$' if dialect.dollars && self.dollar()? => {}
            byte if dialect.own_parameters.contains(&(byte as char)) => {
                return Err(refused(format!(
                    "'{}' at {} is a parameter that nothing gives a value",
                    byte as char,
                    place(self.text, start)
                ))
                .hint("write parameters as :name"));
            }
            byte if byte.is_ascii_digit() => {
                while names(self.peek(0)) || (self.peek(0) == b'.' && self.peek(1) != b'.') {
                    self.at += 1;
                }
                self.push(Kind::Number, start);
            }
            byte if begins_name(byte) => {
                while names(self.peek(0)) || self.peek(0) == b'$' {
                    self.at += 1;
                }
                self.push(Kind::Word, start);
            }
            b':' if self.peek(1) == b':' || self.peek(1) == b'=' => {
                self.at += 2;
                self.push(Kind::Sign(b':'), start);
            }
            b':' if begins_name(self.peek(1)) && !self.slices() => {
                self.at += 1;
                while names(self.peek(0)) {
                    self.at += 1;
                }
                let name = &self.text[start + 1..self.at];
                let index = match self.parameters.iter().position(|p| p == name) {
                    Some(index) => index,
                    None => {
                        self.parameters.push(name.to_owned());
                        self.parameters.len() - 1
                    }
                };
                self.push(Kind::Parameter(index), start);
            }
            byte => {
                self.at += 1;
                if matches!(byte, b')' | b']') {
                    self.open.pop();
                }
                self.push(Kind::Sign(byte), start);
                if matches!(byte, b'(' | b'[') {
                    self.open.push(byte);
                }
            }
        }
        Ok(())
    }

    /// Whether a colon stands between the bounds of a slice: in brackets, behind a value.
    fn slices(&self) -> bool {
        let value = self.tokens.last().is_some_and(|token| match token.kind {
            Kind::Sign(sign) => matches!(sign, b')' | b']'),
            _ => true,
        });
        value && self.open.last() == Some(&b'[')
    }

    /// Whether a comment begins whose content is run: `/*!50000 .. */`, `/*M! .. */`.
    fn is_run(&self) -> bool {
        self.text[self.at..].starts_with("/*!") || self.text[self.at..].starts_with("/*M!")
    }

    fn line(&mut self) {
        while self.at < self.bytes.len() && self.peek(0) != b'\n' {
            self.at += 1;
        }
    }

    fn comment(&mut self) -> Result<()> {
        let start = self.at;
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'*') if depth == 0 || self.dialect.dollars => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                }
                _ => self.at += 1,
            }
            if depth == 0 {
                return Ok(());
            }
            if self.at >= self.bytes.len() {
                return Err(self.unclosed("the comment", start));
            }
        }
    }

    /// From the opening quote to the closing one; a doubled one stands for itself.
    fn quoted(&mut self, close: u8, backslashes: bool, kind: Kind, what: &str) -> Result<()> {
        let start = self.at;
        self.at += 1;
        while self.at < self.bytes.len() {
            let byte = self.peek(0);
            let doubled = byte == close && self.peek(1) == close && close != b']';
            if doubled || (byte == b'\\' && backslashes) {
                self.at += 2;
            } else if byte == close {
                self.at += 1;
                self.push(kind, start);
                return Ok(());
            } else {
                self.at += 1;
            }
        }
        Err(self.unclosed(what, start))
    }

    /// `$tag$..$tag$`; false where there is none.
    fn dollar(&mut self) -> Result<bool> {
        let start = self.at;
        let mut end = start + 1;
        while self.bytes.get(end).copied().is_some_and(names) {
            end += 1;
        }
        let tag_begins = self.peek(1) == b'$' || begins_name(self.peek(1));
        if !tag_begins || self.bytes.get(end) != Some(&b'$') {
            return Ok(false);
        }
        let tag = &self.text[start..=end];
        match self.text[end + 1..].find(tag) {
            Some(length) => {
                self.at = end + 1 + length + tag.len();
                self.push(Kind::Text, start);
                Ok(true)
            }
            None => Err(self.unclosed("the string", start)),
        }
    }
}
