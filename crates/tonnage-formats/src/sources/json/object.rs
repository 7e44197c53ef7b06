//! One line: an object, cut into its keys and the text of their values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use tonnage_core::parse::shown;

use super::COLUMNS_MAX;

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Not UTF-8.
    Encoding,
    /// Not JSON, with the reason.
    Syntax(String),
    /// JSON, but no object.
    NoObject,
    /// A key that was not among those of the sample.
    UnknownKey(String),
    /// A key that is no column of the table.
    NoColumn(String),
    /// A key that is there twice.
    RepeatedKey(String),
    /// A value under this key that is no string, for a column of bytes.
    NoBytes(String),
    /// No reject record, where the first line was one.
    NoRecord,
    /// A reject record that has only the bytes of its row.
    NoFields,
    /// It has more keys than rows may have columns.
    TooManyKeys,
    /// Longer than lines may be.
    TooLong(usize),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encoding => f.write_str("the line is not UTF-8"),
            Self::Syntax(why) => write!(f, "the line is not JSON: {why}"),
            Self::NoObject => f.write_str("the line is not a JSON object"),
            Self::UnknownKey(key) => {
                write!(
                    f,
                    "key {} is not among those of the first rows",
                    shown(key.as_bytes())
                )
            }
            Self::NoColumn(key) => write!(f, "the table has no column {}", shown(key.as_bytes())),
            Self::RepeatedKey(key) => write!(f, "key {} is there twice", shown(key.as_bytes())),
            Self::NoBytes(key) => write!(
                f,
                "key {} has a value that is no string, and bytes are written as one",
                shown(key.as_bytes())
            ),
            Self::NoRecord => f.write_str("the line is not a reject record, as the first one is"),
            Self::NoFields => f.write_str("the reject record has the bytes of its row but no fields"),
            Self::TooManyKeys => write!(f, "the line has more than {COLUMNS_MAX} keys"),
            Self::TooLong(bytes) => write!(f, "the line is longer than {bytes} bytes"),
        }
    }
}

/// Calls `each` with the keys of the object that `line` is, and the text of their values, until it finds a flaw.
pub fn members<'a>(line: &'a [u8], each: impl FnMut(&str, &'a str) -> Result<(), Flaw>) -> Result<(), Flaw> {
    let line = std::str::from_utf8(line).map_err(|_| Flaw::Encoding)?;
    if !line.trim_ascii_start().starts_with('{') {
        // What is no JSON at all is told apart from what is another value.
        return Err(match serde_json::from_str::<&RawValue>(line) {
            Ok(_) => Flaw::NoObject,
            Err(error) => syntax(&error),
        });
    }
    let mut flaw = None;
    let mut deserializer = serde_json::Deserializer::from_str(line);
    let read = deserializer.deserialize_map(Members {
        each,
        flaw: &mut flaw,
        line: std::marker::PhantomData,
    });
    let read = read.and_then(|()| deserializer.end());
    match (flaw, read) {
        // An object is bad as a whole before it is for one of its keys.
        (_, Err(error)) => Err(syntax(&error)),
        (Some(flaw), Ok(())) => Err(flaw),
        (None, Ok(())) => Ok(()),
    }
}

/// The text of a string, or none where it has escapes that are no characters.
pub(super) fn decoded(raw: &str) -> Option<std::borrow::Cow<'_, str>> {
    match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Some(plain.into()),
        _ => serde_json::from_str::<String>(raw).ok().map(Into::into),
    }
}

fn syntax(error: &serde_json::Error) -> Flaw {
    Flaw::Syntax(error.to_string().replace(" at line 1 column ", " at byte "))
}

struct Members<'f, 'a, E> {
    each: E,
    flaw: &'f mut Option<Flaw>,
    line: std::marker::PhantomData<&'a str>,
}

impl<'a, E: FnMut(&str, &'a str) -> Result<(), Flaw>> Visitor<'a> for Members<'_, 'a, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(mut self, mut map: M) -> Result<(), M::Error> {
        let mut scratch = String::new();
        let mut keys = 0;
        while map.next_key_seed(Key(&mut scratch))?.is_some() {
            let value = map.next_value::<&'a RawValue>()?;
            keys += 1;
            if self.flaw.is_some() {
                continue;
            }
            // Whoever collects keys would hold many times the bytes of the line.
            *self.flaw = match keys > COLUMNS_MAX {
                true => Some(Flaw::TooManyKeys),
                false => (self.each)(&scratch, value.get()).err(),
            };
        }
        Ok(())
    }
}

/// Puts a key where the last one was.
struct Key<'k>(&'k mut String);

impl<'a> DeserializeSeed<'a> for Key<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<(), E> {
        self.0.clear();
        self.0.push_str(key);
        Ok(())
    }
}
