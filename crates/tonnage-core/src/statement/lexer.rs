//! The words, signs and parameters of a statement, without its comments.

use super::{Dialect, Kind, Token, place};
use crate::error::Error;

/// Why a text cannot be cut into tokens.
#[derive(Debug)]
pub(super) struct Mistake {
    /// What, and where.
    pub(super) why: String,
    /// What to do about it.
    pub(super) hint: Option<&'static str>,
}

type Result<T> = std::result::Result<T, Mistake>;

impl Mistake {
    /// The error about `subject`, which holds the text.
    pub(super) fn of(self, subject: impl std::fmt::Display) -> Error {
        let error = Error::config(format!("{subject}: {}", self.why));
        match self.hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

/// Cuts a text into tokens.
pub(super) struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    dialect: Dialect,
    at: usize,
    /// Parentheses and brackets that are open, and where they are.
    open: Vec<(u8, usize)>,
    /// What a comment holds that the server runs is looked at like the rest.
    pub(super) runs_comments: bool,
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
            runs_comments: false,
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

    fn unclosed(&self, what: &str, start: usize) -> Mistake {
        self.mistake(format!("{what} at"), start, "is not closed", None)
    }

    fn mistake(&self, what: String, at: usize, how: &str, hint: Option<&'static str>) -> Mistake {
        Mistake {
            why: format!("{what} {} {how}", place(self.text, at)),
            hint,
        }
    }

    pub(super) fn run(&mut self) -> Result<()> {
        while self.at < self.bytes.len() {
            self.next()?;
        }
        match self.open.last() {
            Some((sign, start)) => Err(self.unclosed(&format!("the '{}'", *sign as char), *start)),
            None => Ok(()),
        }
    }

    fn next(&mut self) -> Result<()> {
        let start = self.at;
        let dialect = self.dialect;
        match self.peek(0) {
            byte if byte.is_ascii_whitespace() => self.at += 1,
            b'-' if self.peek(1) == b'-' && (!dialect.hashes || self.peek(2) <= b' ') => self.line(),
            // Neither the database nor its driver reads on behind it.
            0 => return Err(self.mistake("the zero byte at".to_owned(), start, "ends no statement", None)),
            b'/' if dialect.hashes && self.is_run() && self.runs_comments => self.run_comment(),
            b'/' if dialect.hashes && self.is_run() => {
                return Err(self.mistake(
                    "the comment at".to_owned(),
                    start,
                    "is one that the server runs",
                    Some("write what it holds without the comment's signs"),
                ));
            }
            b'/' if dialect.slashes && self.peek(1) == b'/' => self.line(),
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
            b'$' if (dialect.dollars || dialect.slashes) && self.dollar()? => {}
            byte if dialect.own_parameters.contains(&(byte as char)) => {
                return Err(self.mistake(
                    format!("'{}' at", byte as char),
                    start,
                    "is a parameter that nothing gives a value",
                    Some("write parameters as :name"),
                ));
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
                    let opening = if byte == b')' { b'(' } else { b'[' };
                    if self.open.pop().is_none_or(|(sign, _)| sign != opening) {
                        let what = format!("the '{}' at", byte as char);
                        return Err(self.mistake(what, start, "closes nothing", None));
                    }
                }
                self.push(Kind::Sign(byte), start);
                if matches!(byte, b'(' | b'[') {
                    self.open.push((byte, start));
                }
            }
        }
        Ok(())
    }

    /// Whether a colon is between the bounds of a slice: in brackets, after a value.
    fn slices(&self) -> bool {
        let value = self.tokens.last().is_some_and(|token| match token.kind {
            Kind::Sign(sign) => matches!(sign, b')' | b']'),
            _ => true,
        });
        value && self.open.last().is_some_and(|(sign, _)| *sign == b'[')
    }

    /// Whether a comment begins whose content is run: `/*!50000 .. */`, `/*M! .. */`.
    fn is_run(&self) -> bool {
        self.text[self.at..].starts_with("/*!") || self.text[self.at..].starts_with("/*M!")
    }

    /// Goes behind the sign and the version that begin a comment which is run.
    fn run_comment(&mut self) {
        while self.peek(0) != b'!' {
            self.at += 1;
        }
        self.at += 1;
        while self.peek(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    /// To the end of the line, which a carriage return is to some.
    fn line(&mut self) {
        let returns = self.dialect.dollars || self.dialect.slashes;
        let ends = |byte: u8| byte == b'\n' || (byte == b'\r' && returns);
        while self.at < self.bytes.len() && !ends(self.peek(0)) {
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

    /// From the opening quote to the closing one; a doubled one is a quote of the content.
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
