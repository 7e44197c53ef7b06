//! Values of the binary protocol, from any bytes: see `fuzz`.

use arrow::array::RecordBatch;
use mysql_async::Value;
use tonnage_core::{
    reader::{BeyondArrow, ReadColumn},
    types::ColumnType,
};

use super::{
    decode::Decoder,
    encode::{ColumnEncoder, encode},
    settings::{Settings, Surroundings},
    types::Kind,
};

/// No variables and no files.
struct Nothing;

impl Surroundings for Nothing {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn option_files(&self) -> Vec<std::path::PathBuf> {
        Vec::new()
    }
}

/// The password of a URL, if it is one and has one.
fn password(url: &str) -> Option<String> {
    // A file that a URL names is not for fuzzing to read.
    if url.contains("file") {
        return None;
    }
    let settings = Settings::resolve(url, &Nothing).ok()?;
    Some(settings.password.0).filter(|password| !password.is_empty())
}

/// URLs and connection strings: what is shown of them holds no password.
pub fn urls(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let shown = (crate::DRIVER.redact)(text);
    if let Some(password) = password(text) {
        // Of a short one the letters occur anyway.
        let plain = password.len() > 8 && password.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let twice = text.matches(&password).count() != 1;
        assert!(!plain || twice || !shown.contains(&password), "{shown}");
    }
}

fn types() -> Vec<(ColumnType, Kind)> {
    let integer = |least, most| Kind::Integer {
        least,
        most,
        bits: false,
    };
    let decimal = Kind::Decimal {
        precision: 38,
        scale: 10,
        unsigned: false,
    };
    let float = (None, false);
    vec![
        (ColumnType::Bool, integer(0, 1)),
        (ColumnType::Int16, integer(i16::MIN.into(), i16::MAX.into())),
        (ColumnType::Int32, integer(i32::MIN.into(), i32::MAX.into())),
        (ColumnType::Int64, integer(i64::MIN.into(), i64::MAX.into())),
        (
            ColumnType::Float32,
            Kind::Single {
                scale: float.0,
                unsigned: float.1,
            },
        ),
        (
            ColumnType::Float64,
            Kind::Double {
                scale: float.0,
                unsigned: float.1,
            },
        ),
        (
            ColumnType::Decimal {
                precision: 38,
                scale: 10,
            },
            decimal,
        ),
        (ColumnType::TEXT, Kind::Text(1 << 30)),
        (ColumnType::Json, Kind::Text(1 << 30)),
        (ColumnType::Bytes, Kind::Bytes(1 << 30)),
        (ColumnType::Bytes, Kind::Geometry),
        (ColumnType::Date, Kind::Date),
        (ColumnType::Time, Kind::Seconds(6)),
        (ColumnType::Timestamp, Kind::Seconds(6)),
        (ColumnType::Uuid, Kind::Uuid),
    ]
}

/// A value of the protocol, of the form that `form` chooses.
fn value(form: u8, bytes: &[u8]) -> Value {
    let number = |at: usize| -> u64 {
        let mut eight = [0; 8];
        let part = bytes.get(at..).unwrap_or_default();
        let count = part.len().min(8);
        eight[..count].copy_from_slice(&part[..count]);
        u64::from_le_bytes(eight)
    };
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    match form % 7 {
        0 => Value::Int(number(0) as i64),
        1 => Value::UInt(number(0)),
        2 => Value::Float(f32::from_bits(number(0) as u32)),
        3 => Value::Double(f64::from_bits(number(0))),
        4 => Value::Date(
            number(0) as u16,
            byte(2),
            byte(3),
            byte(4),
            byte(5),
            byte(6),
            number(7) as u32,
        ),
        5 => Value::Time(
            byte(0) % 2 == 1,
            number(1) as u32,
            byte(5),
            byte(6),
            byte(7),
            number(8) as u32,
        ),
        _ => Value::Bytes(bytes.to_vec()),
    }
}

/// One value, of the type and the form that the first two bytes choose. What can be read of it and be sent means the
/// same when it is read again.
pub fn values(bytes: &[u8]) {
    let [choice, form, bytes @ ..] = bytes else { return };
    let types = types();
    let (ty, kind) = &types[usize::from(*choice) % types.len()];
    let declared = if *kind == Kind::Geometry { "geometry" } else { "" };
    let column = ReadColumn {
        element: None,
        name: "c".to_owned(),
        ty: *ty,
        declared: declared.to_owned(),
        nullable: true,
    };
    let decoder = Decoder::new(&[column], &[], BeyondArrow::Carried).expect("the type can be read");
    let rows = vec![vec![value(*form, bytes)], vec![Value::NULL]];
    let Ok(batch) = decoder.decode(&rows) else { return };
    let column = ColumnEncoder {
        name: "c".to_owned(),
        ty: *ty,
        kind: kind.clone(),
        nullable: true,
    };
    let column = [column];
    let sent = |batch: &RecordBatch| {
        let encoded = encode(&column, batch).expect("the types fit together").ok()?;
        let _ = encoded.text();
        Some(encoded.parameters(0..2))
    };
    let Some(again) = sent(&batch) else { return };
    // Some are sent in another form than they come in; those that come in theirs are the same.
    if let Ok(found) = decoder.decode(&again) {
        match kind {
            // The numbers of one may come in either order of their bytes, and are sent in one.
            Kind::Geometry => assert_eq!(sent(&found), Some(again)),
            _ => assert_eq!(found, batch),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonnage_testing::corpus::check;

    use super::*;

    #[test]
    fn corpora_and_what_is_near_them_are_read_without_a_panic() {
        check("mysql_values", values);
        check("urls", urls);
    }
}
