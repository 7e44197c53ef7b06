//! Text that the server makes values of: checked part by part, and written so that it means the same in every session.
//!
//! Invariants:
//! - Dates and times within arrays, ranges and rows are read here, by the rules of columns of their own, and written
//!   as ISO 8601 with an offset where the type has one: neither DateStyle nor TimeZone can change them.
//! - What the server would round or cut off without a word is refused here.
//! - A text whose parts cannot be separated with certainty is refused, so none is passed on unseen.
//!
//! An array may be written as the server writes it (`{1,2}`) or as JSON (`[1,2]`), a row as a JSON object.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::value::RawValue;
use tonnage_core::{
    parse::{Fault, Parsed, spelled_date, spelled_timestamp, text_of_time, time},
    reject::sqlstate,
};

use super::numeric;

/// How values of a type are spelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Spelling {
    /// As it is: the server's input function refuses what is not a value.
    AsIs,
    /// JSON, which within JSON is not spelled as a string.
    Json,
    /// A date.
    Date,
    /// A time of day in multiples of so many microseconds.
    Time(i64),
    /// The same of a date and time without a zone.
    Timestamp(i64),
    /// The same of an instant.
    Instant(i64),
    /// An interval with at most so many digits of a second.
    Interval(u32),
    /// A time of day with its offset, likewise.
    ZonedTime(u32),
    /// A single byte, the type "char".
    Byte,
    /// Text of at most 63 bytes, the type name.
    Name,
    /// A whole number of 32 bits without a sign.
    Number32,
    /// A number with at most so many digits after the point; negative for a multiple of a power of ten.
    Numeric(i32),
    /// Text of at most so many characters.
    Characters(u32),
    /// A range of these.
    Range(Box<Spelling>),
    /// A set of ranges, by the spelling of a range.
    Multirange(Box<Spelling>),
    /// An array of these.
    Array(Box<Spelling>),
    /// A row of these, in their order.
    Row(Vec<(String, Spelling)>),
}

/// Nesting within one value; the server's arrays have six dimensions at most.
const DEPTH_MAX: usize = 32;

/// An interval that a column of so many digits of a second takes as it is.
fn interval(text: &str, digits: u32) -> Parsed<&str> {
    if finer_than(text, digits) {
        return Err(Fault::new(
            sqlstate::DATETIME_OVERFLOW,
            match digits {
                6 => format!("interval finer than a microsecond ({text})"),
                _ => format!("interval finer than the column ({text})"),
            },
        ));
    }
    if digits < 6 && !is_as_written(text) {
        return Err(Fault::new(
            sqlstate::INVALID_TEXT,
            format!("interval that the column may round ({text})"),
        )
        .hint("write it as the server does: 1 year 2 mons 3 days 04:05:06"));
    }
    if is_bare_number(text) {
        return Err(Fault::new(
            sqlstate::INVALID_TEXT,
            format!("interval without a unit ({text})"),
        )
        .hint("write it as '5 seconds' or 'PT5S'"));
    }
    Ok(text)
}

/// A time with its offset: without one the server would take that of the session's zone.
fn zoned_time(text: &str, digits: u32) -> Parsed<&str> {
    if finer_than(text, digits) {
        return Err(Fault::new(
            sqlstate::DATETIME_OVERFLOW,
            format!("time finer than the column ({text})"),
        ));
    }
    let text = text.trim_ascii();
    let has_offset = text.ends_with(['Z', 'z']) || text.contains(['+', '-']);
    if !has_offset || !text.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(Fault::new(
            sqlstate::INVALID_DATETIME,
            format!("time without an offset from UTC ({text})"),
        )
        .hint("it is written 23:59:58.123456+01"));
    }
    Ok(text)
}

impl Spelling {
    /// Whether any text may be passed on as it is.
    pub fn is_free(&self) -> bool {
        matches!(self, Self::AsIs | Self::Json)
    }

    /// Whether the session's IntervalStyle has a say in what a value means.
    pub fn has_interval(&self) -> bool {
        match self {
            Self::Interval(_) => true,
            Self::Range(inner) | Self::Multirange(inner) | Self::Array(inner) => inner.has_interval(),
            Self::Row(fields) => fields.iter().any(|(_, field)| field.has_interval()),
            _ => false,
        }
    }

    /// Appends the value that `text` says, for the server's input function.
    pub fn write(&self, text: &str, out: &mut String) -> Parsed<()> {
        self.nested(text, out, 0)
    }

    fn nested(&self, text: &str, out: &mut String, depth: usize) -> Parsed<()> {
        if depth > DEPTH_MAX {
            return Err(malformed("value nested too deeply", text));
        }
        match self {
            Self::AsIs | Self::Json => out.push_str(text),
            Self::Date => out.push_str(&spelled_date(i64::from(time::any_date(text.as_bytes())?))),
            Self::Time(tick) => {
                let micros = time::time(text.as_bytes())?;
                coarse(micros, *tick, text)?;
                out.push_str(&text_of_time(micros));
            }
            Self::Timestamp(tick) => {
                let micros = time::any_timestamp(text.as_bytes())?;
                coarse(micros, *tick, text)?;
                out.push_str(&spelled_timestamp(micros, ""));
            }
            Self::Instant(tick) => {
                let micros = time::any_instant(text.as_bytes(), None)?;
                coarse(micros, *tick, text)?;
                out.push_str(&spelled_timestamp(micros, "+00"));
            }
            Self::Interval(digits) => out.push_str(interval(text, *digits)?),
            Self::ZonedTime(digits) => out.push_str(zoned_time(text, *digits)?),
            Self::Byte => {
                let is_octal = text.starts_with('\\') && text.len() == 4;
                if text.len() > 1 && !is_octal {
                    return Err(Fault::new(
                        sqlstate::TOO_LONG,
                        format!("the type \"char\" takes a single byte ({text})"),
                    ));
                }
                out.push_str(text);
            }
            Self::Name => {
                const NAME_BYTES_MAX: usize = 63;
                if text.len() > NAME_BYTES_MAX {
                    return Err(Fault::new(
                        sqlstate::TOO_LONG,
                        format!("value too long for {NAME_BYTES_MAX} bytes"),
                    ));
                }
                out.push_str(text);
            }
            Self::Number32 => {
                let number: u32 = text.trim_ascii().parse().map_err(|_| {
                    Fault::new(
                        sqlstate::INVALID_TEXT,
                        format!("no whole number of 32 bits ({text})"),
                    )
                })?;
                out.push_str(&number.to_string());
            }
            Self::Numeric(scale) => {
                numeric::from_text(text.trim_ascii(), Some(*scale), &mut Vec::new())
                    .map_err(|refused| Fault::new(refused.code, refused.message))?;
                out.push_str(text);
            }
            Self::Characters(most) => {
                if text.len() > *most as usize && text.chars().count() > *most as usize {
                    return Err(Fault::new(
                        sqlstate::TOO_LONG,
                        format!("value too long for {most} characters"),
                    ));
                }
                out.push_str(text);
            }
            Self::Range(bound) => match bound.is_free() {
                true => out.push_str(text),
                false => {
                    let mut rest = text.trim_ascii();
                    range(bound, &mut rest, out, depth)
                        .ok_or_else(|| malformed("malformed range literal", text))??;
                    if !rest.trim_ascii().is_empty() {
                        return Err(malformed("malformed range literal", text));
                    }
                }
            },
            Self::Multirange(bound) => match bound.is_free() {
                true => out.push_str(text),
                false => multirange(bound, text, out, depth)?,
            },
            Self::Array(element) => {
                let text = text.trim_ascii();
                if text.starts_with('[') && text.ends_with(']') {
                    element.json_array(text, out, depth)?;
                } else if element.is_free() {
                    out.push_str(text);
                } else {
                    array(element, text, out, depth)?;
                }
            }
            Self::Row(_) => {
                let raw = serde_json::from_str::<&RawValue>(text)
                    .map_err(|_| malformed("row that is not a JSON object", text))?;
                self.json(raw.get(), out, depth)?;
            }
        }
        Ok(())
    }

    /// The value that a JSON text says; not a null.
    fn json(&self, raw: &str, out: &mut String, depth: usize) -> Parsed<()> {
        if depth > DEPTH_MAX {
            return Err(malformed("value nested too deeply", raw));
        }
        let first = raw.as_bytes().first();
        match (self, first) {
            (Self::Json, _) => out.push_str(raw),
            (Self::Array(element), Some(b'[')) => element.json_array(raw, out, depth)?,
            (Self::Row(fields), Some(b'{')) => row(fields, raw, out, depth)?,
            (_, Some(b'"')) => {
                let text: Cow<str> = match serde_json::from_str::<String>(raw) {
                    Ok(text) => text.into(),
                    Err(_) => return Err(malformed("malformed JSON", raw)),
                };
                self.nested(&text, out, depth + 1)?;
            }
            (_, Some(b'[' | b'{')) | (Self::Row(_), _) => {
                return Err(malformed("JSON of another form than the type has", raw));
            }
            _ => self.nested(raw, out, depth + 1)?,
        }
        Ok(())
    }

    /// An array of these from a JSON array; arrays within are further dimensions, unless these are JSON.
    fn json_array(&self, raw: &str, out: &mut String, depth: usize) -> Parsed<()> {
        if depth > DEPTH_MAX {
            return Err(malformed("array nested too deeply", raw));
        }
        let items: Vec<&RawValue> =
            serde_json::from_str(raw).map_err(|_| malformed("malformed array", raw))?;
        out.push('{');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            match item.get() {
                "null" if *self != Self::Json => out.push_str("NULL"),
                inner if inner.starts_with('[') && *self != Self::Json => {
                    self.json_array(inner, out, depth + 1)?;
                }
                inner => {
                    let mut value = String::new();
                    self.json(inner, &mut value, depth + 1)?;
                    push_quoted(&value, out);
                }
            }
        }
        out.push('}');
        Ok(())
    }
}

fn coarse(micros: i64, tick: i64, text: &str) -> Parsed<()> {
    match micros % tick {
        0 => Ok(()),
        _ if matches!(micros, i64::MAX | i64::MIN) => Ok(()),
        _ => Err(Fault::new(
            sqlstate::DATETIME_OVERFLOW,
            format!("time finer than the column ({text})"),
        )),
    }
}

/// Whether a number in `text` has more digits behind its point that mean something.
fn finer_than(text: &str, digits_max: u32) -> bool {
    text.split(['.', ',']).skip(1).any(|behind| {
        let digits = behind.bytes().take_while(u8::is_ascii_digit);
        digits.skip(digits_max as usize).any(|digit| digit != b'0')
    })
}

/// Whether an interval has no other words than those of the server's own text, by which no unit is finer than a second.
fn is_as_written(text: &str) -> bool {
    const WORDS: [&str; 6] = ["year", "years", "mon", "mons", "day", "days"];
    text.split(|c: char| !c.is_alphabetic())
        .all(|word| word.is_empty() || WORDS.contains(&word))
}

/// Whether `text` is a number other than zero and nothing else: the server would take it for seconds.
fn is_bare_number(text: &str) -> bool {
    let text = text.trim_ascii();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && digits.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

#[cold]
fn malformed(what: &str, text: &str) -> Box<Fault> {
    const SHOWN_CHARS_MAX: usize = 60;
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push_str("..");
    }
    Fault::new(
        sqlstate::INVALID_TEXT,
        format!("{what}: '{}'", shown.escape_debug()),
    )
}

fn push_quoted(value: &str, out: &mut String) {
    out.push('"');
    for c in value.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

/// A part of a literal, unquoted.
struct Part {
    value: String,
    /// Bytes of it that quotes or backslashes made what they are, and those before; none where there are neither.
    quoted: Option<usize>,
}

/// What the server skips around the items of an array.
const ARRAY_SPACES: [char; 6] = [' ', '\t', '\n', '\r', '\x0b', '\x0c'];

impl Part {
    /// The item of an array that it is: spaces around count only where they are quoted.
    fn item(&self) -> &str {
        let quoted = self.quoted.unwrap_or(0);
        let (kept, behind) = self.value.split_at(quoted);
        match behind.trim_end_matches(ARRAY_SPACES) {
            behind if quoted == 0 => behind.trim_start_matches(ARRAY_SPACES),
            behind => &self.value[..kept.len() + behind.len()],
        }
    }
}

/// The part of a literal up to one of `ends`; none where a quote is not closed.
fn part(rest: &mut &str, ends: &[char]) -> Option<Part> {
    let (mut value, mut quoted, mut within) = (String::new(), None, false);
    let mut chars = rest.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                value.push(chars.next()?.1);
                quoted = Some(value.len());
            }
            '"' if within && chars.peek().is_some_and(|(_, next)| *next == '"') => {
                chars.next();
                value.push('"');
            }
            '"' => {
                quoted = Some(value.len());
                within = !within;
            }
            c if !within && ends.contains(&c) => {
                *rest = &rest[at..];
                return Some(Part { value, quoted });
            }
            c => value.push(c),
        }
    }
    None
}

/// An array as the server writes it, with its dimensions.
fn array(element: &Spelling, text: &str, out: &mut String, depth: usize) -> Parsed<()> {
    let bad = || malformed("malformed array literal", text);
    let mut rest = text;
    if rest.starts_with('[') {
        let (bounds, items) = rest.split_once('=').ok_or_else(bad)?;
        if !bounds
            .bytes()
            .all(|b| b.is_ascii_digit() || b"[]:-+ ".contains(&b))
        {
            return Err(bad());
        }
        out.push_str(bounds);
        out.push('=');
        rest = items.trim_ascii_start();
    }
    let mut open = 0usize;
    loop {
        // At the beginning of an item.
        rest = rest.trim_ascii_start();
        if let Some(inner) = rest.strip_prefix('{') {
            open += 1;
            out.push('{');
            rest = inner.trim_ascii_start();
            if open > DEPTH_MAX {
                return Err(bad());
            }
            if !rest.starts_with('}') {
                continue;
            }
        } else {
            if open == 0 {
                return Err(bad());
            }
            let part = part(&mut rest, &[',', '}', '{']).ok_or_else(bad)?;
            let (item, quoted) = (part.item(), part.quoted.is_some());
            if !quoted && item.eq_ignore_ascii_case("null") {
                out.push_str("NULL");
            } else if !quoted && item.is_empty() {
                return Err(bad());
            } else {
                let mut spelled = String::new();
                element.nested(item, &mut spelled, depth + 1)?;
                push_quoted(&spelled, out);
            }
        }
        // Behind an item, or in front of the end of an empty array.
        loop {
            rest = rest.trim_ascii_start();
            if let Some(next) = rest.strip_prefix(',') {
                out.push(',');
                rest = next;
                break;
            }
            rest = rest.strip_prefix('}').ok_or_else(bad)?;
            out.push('}');
            open -= 1;
            if open == 0 {
                return match rest.trim_ascii().is_empty() {
                    true => Ok(()),
                    false => Err(bad()),
                };
            }
        }
    }
}

/// A range at the front of `rest`; none where there is none.
fn range(bound: &Spelling, rest: &mut &str, out: &mut String, depth: usize) -> Option<Parsed<()>> {
    const EMPTY: &str = "empty";
    if rest
        .get(..EMPTY.len())
        .is_some_and(|word| word.eq_ignore_ascii_case(EMPTY))
    {
        *rest = &rest[EMPTY.len()..];
        out.push_str(EMPTY);
        return Some(Ok(()));
    }
    let first = rest.chars().next().filter(|c| matches!(c, '[' | '('))?;
    out.push(first);
    *rest = &rest[1..];
    for (end, ends) in [(",", &[','][..]), ("])", &[']', ')'][..])] {
        let Part { value, quoted } = part(rest, ends)?;
        // Only nothing at all is no bound: the server takes spaces for a value.
        if quoted.is_some() || !value.is_empty() {
            let mut spelled = String::new();
            if let Err(fault) = bound.nested(&value, &mut spelled, depth + 1) {
                return Some(Err(fault));
            }
            push_quoted(&spelled, out);
        }
        let closing = rest.chars().next().filter(|c| end.contains(*c))?;
        out.push(closing);
        *rest = &rest[1..];
    }
    Some(Ok(()))
}

fn multirange(bound: &Spelling, text: &str, out: &mut String, depth: usize) -> Parsed<()> {
    let bad = || malformed("malformed multirange literal", text);
    let inner = text
        .trim_ascii()
        .strip_prefix('{')
        .and_then(|t| t.strip_suffix('}'));
    let mut rest = inner.ok_or_else(bad)?.trim_ascii();
    out.push('{');
    while !rest.is_empty() {
        range(bound, &mut rest, out, depth).ok_or_else(bad)??;
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            break;
        }
        rest = rest.strip_prefix(',').ok_or_else(bad)?.trim_ascii_start();
        out.push(',');
        if rest.is_empty() {
            return Err(bad());
        }
    }
    out.push('}');
    Ok(())
}

/// A row as the server writes it, from a JSON object: fields that the object does not name are null.
fn row(fields: &[(String, Spelling)], raw: &str, out: &mut String, depth: usize) -> Parsed<()> {
    let mut given = members(raw)?;
    out.push('(');
    for (at, (name, spelling)) in fields.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        let Some(value) = given.remove(name.as_str()).filter(|value| *value != "null") else {
            continue;
        };
        let mut spelled = String::new();
        spelling
            .json(value, &mut spelled, depth + 1)
            .map_err(|mut fault| {
                fault.message = format!("field '{name}': {}", fault.message);
                fault
            })?;
        push_quoted(&spelled, out);
    }
    out.push(')');
    match given.keys().next() {
        None => Ok(()),
        Some(name) => Err(Fault::new(
            sqlstate::INVALID_TEXT,
            format!("the type has no field '{name}'"),
        )),
    }
}

/// The members of a JSON object, none of them twice.
fn members(raw: &str) -> Parsed<BTreeMap<String, &str>> {
    struct Members;
    impl<'de> serde::de::Visitor<'de> for Members {
        type Value = Result<BTreeMap<String, &'de str>, String>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut found, mut twice) = (BTreeMap::new(), None);
            while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                if found.contains_key(&name) {
                    twice = Some(name.clone());
                }
                found.insert(name, value.get());
            }
            Ok(twice.map_or(Ok(found), Err))
        }
    }
    let mut deserializer = serde_json::Deserializer::from_str(raw);
    match serde::de::Deserializer::deserialize_map(&mut deserializer, Members) {
        Ok(Ok(members)) => Ok(members),
        Ok(Err(twice)) => Err(Fault::new(
            sqlstate::INVALID_TEXT,
            format!("field '{twice}' is there twice"),
        )),
        Err(_) => Err(malformed("malformed JSON object", raw)),
    }
}

#[cfg(test)]
mod tests;
