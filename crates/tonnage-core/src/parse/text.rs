//! Text, JSON, bytes and uuids.

use std::borrow::Cow;

use arrow::{
    array::{Array, StringArray},
    buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
};

use super::fault::{Fault, Notes, Parsed, shown};
use crate::{reject::sqlstate, types::ColumnType};

/// The most bytes of one column of one block: Arrow's offsets have 32 bits.
const COLUMN_BYTES_MAX: usize = i32::MAX as usize;

/// The values of a column of text or bytes, one behind the other.
pub struct TextColumn {
    ends: Vec<i32>,
    valid: Vec<bool>,
    bytes: Vec<u8>,
}

impl TextColumn {
    /// Room for `rows` values of middling length.
    pub fn with_capacity(rows: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        Self {
            ends,
            valid: Vec::with_capacity(rows),
            bytes: Vec::with_capacity(rows * 8),
        }
    }

    /// Adds a null.
    pub fn push_null(&mut self) {
        // Every length was checked against the bound when it was added.
        self.ends.push(self.bytes.len() as i32);
        self.valid.push(false);
    }

    /// Adds a value, or a null and a fault where the column would outgrow what Arrow can hold.
    #[inline]
    pub fn push(&mut self, value: &[u8]) -> Parsed<()> {
        if value.len() > COLUMN_BYTES_MAX - self.bytes.len() {
            self.push_null();
            return Err(Fault::new(
                sqlstate::OUT_OF_RANGE,
                "the column has more than 2 GiB in one block".to_owned(),
            ));
        }
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len() as i32);
        self.valid.push(true);
        Ok(())
    }

    /// The parts of an Arrow array.
    pub fn into_parts(self) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>) {
        let nulls = NullBuffer::from(self.valid);
        (
            OffsetBuffer::new(ScalarBuffer::from(self.ends)),
            Buffer::from_vec(self.bytes),
            (nulls.null_count() > 0).then_some(nulls),
        )
    }

    /// The column as text, valid UTF-8 without NUL; other values are noted and null.
    pub fn into_text(self, notes: &mut Notes<'_>) -> StringArray {
        let nul = memchr::memchr(0, &self.bytes).is_some();
        let (offsets, bytes, nulls) = self.into_parts();
        if !nul {
            // One pass over all values, which almost always succeeds.
            if let Ok(array) = StringArray::try_new(offsets.clone(), bytes.clone(), nulls.clone()) {
                return array;
            }
        }
        let mut good = Self::with_capacity(offsets.len() - 1);
        for (row, ends) in offsets.windows(2).enumerate() {
            if nulls.as_ref().is_some_and(|n| n.is_null(row)) {
                good.push_null();
                continue;
            }
            match utf8(&bytes[ends[0] as usize..ends[1] as usize]).and_then(|text| good.push(text.as_bytes()))
            {
                Ok(()) => {}
                Err(fault) => {
                    notes.add(row, *fault);
                    good.push_null();
                }
            }
        }
        let (offsets, bytes, nulls) = good.into_parts();
        StringArray::new(offsets, bytes, nulls)
    }
}

/// The value as UTF-8 without NUL.
pub fn utf8(value: &[u8]) -> Parsed<&str> {
    if memchr::memchr(0, value).is_some() {
        return Err(contains_nul());
    }
    std::str::from_utf8(value).map_err(|error| {
        let at = error.valid_up_to();
        let byte = value.get(at).copied().unwrap_or_default();
        Fault::new(
            sqlstate::INVALID_ENCODING,
            format!("{} is not UTF-8: byte 0x{byte:02x} at {}", shown(value), at + 1),
        )
        .hint("if the file has another character set, name it with --encoding")
    })
}

#[cold]
fn contains_nul() -> Box<Fault> {
    Fault::new(sqlstate::INVALID_ENCODING, "contains a NUL byte".to_owned())
}

/// How much text a column takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLimit {
    chars_max: usize,
    trailing_spaces_count: bool,
}

impl TextLimit {
    /// The limit of a type; none for those without.
    pub fn of(ty: &ColumnType) -> Option<Self> {
        match ty {
            ColumnType::Text {
                chars_max: Some(chars),
            } => Some(Self {
                chars_max: *chars as usize,
                trailing_spaces_count: true,
            }),
            ColumnType::Char { chars } => Some(Self {
                chars_max: *chars as usize,
                trailing_spaces_count: false,
            }),
            _ => None,
        }
    }

    /// Whether `value` is short enough. Characters are only counted where the bytes alone do not settle it.
    #[inline]
    pub fn check(&self, value: &[u8]) -> Parsed<()> {
        if value.len() <= self.chars_max {
            return Ok(());
        }
        self.check_chars(value)
    }

    #[cold]
    fn check_chars(&self, value: &[u8]) -> Parsed<()> {
        let mut text = utf8(value)?;
        if !self.trailing_spaces_count {
            text = text.trim_end_matches(' ');
        }
        let chars = text.chars().count();
        if chars <= self.chars_max {
            return Ok(());
        }
        Err(Fault::new(
            sqlstate::TOO_LONG,
            format!(
                "{} has {chars} characters, the column takes {}",
                shown(value),
                self.chars_max
            ),
        ))
    }
}

/// Checks text that is UTF-8 already against a type of text: NUL, length, JSON syntax. The array itself comes
/// back where all is well, else one that shares its values and is null where they are bad.
pub fn check_text(array: &StringArray, ty: &ColumnType, notes: &mut Notes<'_>) -> StringArray {
    let mut valid: Option<Vec<bool>> = None;
    let mut bad = |row: usize, fault: Fault| {
        let valid = valid.get_or_insert_with(|| (0..array.len()).map(|row| array.is_valid(row)).collect());
        valid[row] = false;
        notes.add(row, fault);
    };
    let first = array.offsets().first().map_or(0, |at| *at as usize);
    let last = array.offsets().last().map_or(0, |at| *at as usize);
    let nul = memchr::memchr(0, &array.value_data()[first..last]).is_some();
    let limit = TextLimit::of(ty);
    let json = *ty == ColumnType::Json;
    if nul || json || limit.is_some() {
        for (row, value) in array.iter().enumerate() {
            let Some(value) = value else { continue };
            let fault = if nul && memchr::memchr(0, value.as_bytes()).is_some() {
                Some(contains_nul())
            } else if let Some(limit) = &limit {
                limit.check(value.as_bytes()).err()
            } else if json {
                check_json(value).err()
            } else {
                None
            };
            if let Some(fault) = fault {
                bad(row, *fault);
            }
        }
    }
    match valid {
        None => array.clone(),
        Some(valid) => {
            let (offsets, bytes, _) = array.clone().into_parts();
            StringArray::new(offsets, bytes, Some(NullBuffer::from(valid)))
        }
    }
}

/// Whether `value` is JSON.
pub fn check_json(value: &str) -> Parsed<()> {
    match serde_json::from_str::<serde::de::IgnoredAny>(value) {
        Ok(_) => Ok(()),
        Err(error) => Err(Fault::new(
            sqlstate::INVALID_TEXT,
            format!("{} is not JSON: {error}", shown(value.as_bytes())),
        )),
    }
}

/// JSON text.
pub fn json(value: &[u8]) -> Parsed<&[u8]> {
    check_json(utf8(value)?)?;
    Ok(value)
}

/// Bytes in either of PostgreSQL's forms: hexadecimal (`\x6869`), or the bytes themselves with `\\` for a backslash and
/// `\ooo` for any byte.
pub fn bytes(value: &[u8]) -> Parsed<Cow<'_, [u8]>> {
    let Some(digits) = value.strip_prefix(b"\\x") else {
        return match memchr::memchr(b'\\', value) {
            None => Ok(Cow::Borrowed(value)),
            Some(first) => escaped_bytes(value, first).map(Cow::Owned),
        };
    };
    let bad = || {
        let text = shown(value);
        Fault::new(
            sqlstate::INVALID_TEXT,
            format!("{text} is not bytes in hexadecimal"),
        )
        .hint("after \\x come pairs of hexadecimal digits")
    };
    if digits.len() % 2 != 0 {
        return Err(bad());
    }
    let decoded: Option<Vec<u8>> = digits
        .chunks_exact(2)
        .map(|pair| Some(hex_digit(pair[0])? << 4 | hex_digit(pair[1])?))
        .collect();
    decoded.map(Cow::Owned).ok_or_else(bad)
}

/// Bytes in PostgreSQL's escape form, whose first backslash is at `first`.
fn escaped_bytes(value: &[u8], first: usize) -> Parsed<Vec<u8>> {
    let (plain, mut rest) = value.split_at(first);
    let mut bytes = plain.to_vec();
    let octal = |digit: &u8| matches!(digit, b'0'..=b'7');
    loop {
        rest = match rest {
            [] => return Ok(bytes),
            [b'\\', b'\\', rest @ ..] => {
                bytes.push(b'\\');
                rest
            }
            [b'\\', a @ b'0'..=b'3', b, c, rest @ ..] if octal(b) && octal(c) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest
            }
            [b'\\', ..] => {
                return Err(Fault::new(
                    sqlstate::INVALID_TEXT,
                    format!("{} has a backslash that stands for no byte", shown(value)),
                )
                .hint("write \\\\ for a backslash, \\ooo for a byte in octal, or all bytes as \\x and hexadecimal digits"));
            }
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// A uuid: 32 hexadecimal digits, with hyphens in the usual places or none, in braces or not.
pub fn uuid(value: &[u8]) -> Parsed<[u8; 16]> {
    let trimmed = value.trim_ascii();
    let bare = trimmed
        .strip_prefix(b"{")
        .and_then(|rest| rest.strip_suffix(b"}"))
        .unwrap_or(trimmed);
    // By length, so that the other forms the library knows stay out.
    if matches!(bare.len(), 32 | 36)
        && let Ok(uuid) = uuid::Uuid::try_parse_ascii(bare)
    {
        return Ok(uuid.into_bytes());
    }
    Err(Fault::not_a(value, &ColumnType::Uuid))
}
