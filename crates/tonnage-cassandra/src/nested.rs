//! Collections, tuples, user-defined types and vectors: JSON text on this side, the server's binary form on the other.
//!
//! A list, set, tuple or vector is an array, a map or a user-defined type an object; keys of a map are written as text,
//! those that are no single values as JSON in that text. Numbers keep all their digits. A value that the type has no
//! place for (a field of another name, a null within a collection, a value that comes twice in a set) is a misfit, not
//! left out.

use std::{collections::HashSet, fmt};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use tonnage_core::{reject::sqlstate, types::ColumnType};

use super::{
    number::{put_vint, take_vint},
    types::Kind,
    values::{Fitting, Misfit, excerpt, malformed, put_scalar, scalar_text},
};

fn unlike(text: &str, what: &str) -> Misfit {
    Misfit::new(sqlstate::INVALID_TEXT, format!("{} is not {what}", excerpt(text)))
}

/// The members of an object in their order, repeated ones too.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Collect).map(Members)
    }
}

fn items(json: &str) -> Fitting<Vec<&RawValue>> {
    serde_json::from_str(json).map_err(|_| unlike(json, "a JSON array"))
}

fn members(json: &str) -> Fitting<Vec<(String, &RawValue)>> {
    let members: Members = serde_json::from_str(json).map_err(|_| unlike(json, "a JSON object"))?;
    Ok(members.0)
}

/// Appends a value of `kind` that is given as JSON.
pub(super) fn put(kind: &Kind, json: &str, out: &mut Vec<u8>) -> Fitting {
    match kind {
        Kind::Scalar(native) => match json.as_bytes().first() {
            Some(b'"') => {
                let text: String = serde_json::from_str(json).map_err(|_| unlike(json, "JSON"))?;
                put_scalar(native, &text, out)
            }
            Some(b'[' | b'{') => Err(unlike(json, "a single value")),
            _ if kind.column_type() == ColumnType::TEXT => Err(unlike(json, "text")),
            _ => put_scalar(native, json, out),
        },
        Kind::List(item) => put_items(item, &items(json)?, out),
        Kind::Set(item) => {
            let items = items(json)?;
            let mut seen = HashSet::new();
            for value in &items {
                let mut bytes = Vec::new();
                put(item, value.get(), &mut bytes)?;
                if !seen.insert(bytes) {
                    return Err(Misfit::new(
                        sqlstate::WOULD_CHANGE,
                        format!("{} is there twice, and a set has it once", excerpt(value.get())),
                    ));
                }
            }
            put_items(item, &items, out)
        }
        Kind::Map(key, value) => put_map(key, value, &members(json)?, out),
        Kind::Tuple(kinds) => {
            let items = items(json)?;
            if items.len() > kinds.len() {
                return Err(unlike(json, &format!("a tuple of {} values", kinds.len())));
            }
            for (at, kind) in kinds.iter().enumerate() {
                put_optional(kind, items.get(at).map(|value| value.get()), out)?;
            }
            Ok(())
        }
        Kind::Struct(fields) => put_struct(fields, &members(json)?, out),
        Kind::Vector(item, dimensions, size) => {
            let items = items(json)?;
            if items.len() != *dimensions {
                return Err(unlike(json, &format!("a vector of {dimensions} values")));
            }
            for value in items {
                not_null(value.get())?;
                match size {
                    Some(_) => put(item, value.get(), out)?,
                    None => {
                        let mut bytes = Vec::new();
                        put(item, value.get(), &mut bytes)?;
                        put_vint(bytes.len() as u64, out);
                        out.extend_from_slice(&bytes);
                    }
                }
            }
            Ok(())
        }
    }
}

fn put_map(key: &Kind, value: &Kind, members: &[(String, &RawValue)], out: &mut Vec<u8>) -> Fitting {
    put_count(members.len(), out);
    let mut seen = HashSet::new();
    for (name, member) in members {
        let mut bytes = Vec::new();
        match key {
            Kind::Scalar(native) => put_scalar(native, name, &mut bytes)?,
            nested => put(nested, name, &mut bytes)?,
        }
        put_count(bytes.len(), out);
        out.extend_from_slice(&bytes);
        if !seen.insert(bytes) {
            return Err(Misfit::new(
                sqlstate::WOULD_CHANGE,
                format!("key {} is there twice", excerpt(name)),
            ));
        }
        put_sized(value, member.get(), out)?;
    }
    Ok(())
}

/// A field that no member names is null.
fn put_struct(fields: &[(String, Kind)], members: &[(String, &RawValue)], out: &mut Vec<u8>) -> Fitting {
    let mut seen = HashSet::new();
    for (name, _) in members {
        if !fields.iter().any(|(field, _)| field == name) {
            return Err(Misfit::new(
                sqlstate::INVALID_TEXT,
                format!("the type has no field '{}'", excerpt(name)),
            ));
        }
        if !seen.insert(name) {
            return Err(Misfit::new(
                sqlstate::WOULD_CHANGE,
                format!("field '{name}' is there twice"),
            ));
        }
    }
    for (field, kind) in fields {
        let found = members.iter().find(|(name, _)| name == field);
        put_optional(kind, found.map(|(_, value)| value.get()), out)?;
    }
    Ok(())
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    // What does not fit 31 bits is far beyond what a statement may be.
    out.extend_from_slice(&(count as i32).to_be_bytes());
}

fn not_null(json: &str) -> Fitting {
    match json {
        "null" => Err(Misfit::new(
            sqlstate::INVALID_TEXT,
            "null within a collection, which holds none",
        )),
        _ => Ok(()),
    }
}

/// Appends a value with its length before it.
fn put_sized(kind: &Kind, json: &str, out: &mut Vec<u8>) -> Fitting {
    not_null(json)?;
    let start = out.len();
    put_count(0, out);
    put(kind, json, out)?;
    let length = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn put_optional(kind: &Kind, json: Option<&str>, out: &mut Vec<u8>) -> Fitting {
    match json {
        None | Some("null") => {
            out.extend_from_slice(&(-1i32).to_be_bytes());
            Ok(())
        }
        Some(json) => put_sized(kind, json, out),
    }
}

fn put_items(item: &Kind, items: &[&RawValue], out: &mut Vec<u8>) -> Fitting {
    put_count(items.len(), out);
    items
        .iter()
        .try_for_each(|value| put_sized(item, value.get(), out))
}

fn take_count(rest: &mut &[u8]) -> Fitting<i32> {
    let (count, after) = rest.split_first_chunk::<4>().ok_or_else(malformed)?;
    *rest = after;
    Ok(i32::from_be_bytes(*count))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Fitting<&'a [u8]> {
    let (value, after) = rest.split_at_checked(length).ok_or_else(malformed)?;
    *rest = after;
    Ok(value)
}

/// A value with its length before it; none for a null.
fn take_sized<'a>(rest: &mut &'a [u8]) -> Fitting<Option<&'a [u8]>> {
    match usize::try_from(take_count(rest)?) {
        Ok(length) => take(rest, length).map(Some),
        Err(_) => Ok(None),
    }
}

fn quoted(text: &str, out: &mut String) {
    // Text is always JSON.
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// Appends a value of `kind` as JSON.
pub(super) fn text(kind: &Kind, bytes: &[u8], out: &mut String) -> Fitting {
    let mut rest = bytes;
    match kind {
        Kind::Scalar(native) => match scalar_text(native, bytes)? {
            (text, true) => out.push_str(&text),
            (text, false) => quoted(&text, out),
        },
        Kind::List(item) | Kind::Set(item) => {
            let count = take_count(&mut rest)?;
            out.push('[');
            for at in 0..count {
                comma(at > 0, out);
                optional(item, take_sized(&mut rest)?, out)?;
            }
            out.push(']');
        }
        Kind::Map(key, value) => {
            let count = take_count(&mut rest)?;
            out.push('{');
            for at in 0..count {
                comma(at > 0, out);
                let name = take_sized(&mut rest)?.ok_or_else(malformed)?;
                let mut spelled = String::new();
                match &**key {
                    Kind::Scalar(native) => spelled = scalar_text(native, name)?.0,
                    nested => text(nested, name, &mut spelled)?,
                }
                quoted(&spelled, out);
                out.push(':');
                optional(value, take_sized(&mut rest)?, out)?;
            }
            out.push('}');
        }
        Kind::Tuple(kinds) => {
            out.push('[');
            for (at, kind) in kinds.iter().enumerate() {
                comma(at > 0, out);
                optional(kind, field(&mut rest)?, out)?;
            }
            out.push(']');
        }
        Kind::Struct(fields) => {
            out.push('{');
            for (at, (name, kind)) in fields.iter().enumerate() {
                comma(at > 0, out);
                quoted(name, out);
                out.push(':');
                optional(kind, field(&mut rest)?, out)?;
            }
            out.push('}');
        }
        Kind::Vector(item, dimensions, size) => {
            out.push('[');
            for at in 0..*dimensions {
                comma(at > 0, out);
                let length = match size {
                    Some(size) => *size,
                    None => take_vint(&mut rest)
                        .and_then(|length| usize::try_from(length).ok())
                        .ok_or_else(malformed)?,
                };
                text(item, take(&mut rest, length)?, out)?;
            }
            out.push(']');
        }
    }
    Ok(())
}

fn comma(wanted: bool, out: &mut String) {
    if wanted {
        out.push(',');
    }
}

/// The next value of a tuple: one written before the type had more of them ends early.
fn field<'a>(rest: &mut &'a [u8]) -> Fitting<Option<&'a [u8]>> {
    match rest.is_empty() {
        true => Ok(None),
        false => take_sized(rest),
    }
}

fn optional(kind: &Kind, bytes: Option<&[u8]>, out: &mut String) -> Fitting {
    match bytes {
        None => {
            out.push_str("null");
            Ok(())
        }
        Some(bytes) => text(kind, bytes, out),
    }
}
