//! Values in the server's binary form, from any bytes: see `fuzz`.

use tonnage_core::{
    reader::{BeyondArrow, ReadColumn},
    types::ColumnType,
};

use super::{
    decode::{Decoder, Fields, without_header},
    encode::{EncodedColumn, Encoder, Numbering},
    settings::{Settings, Surroundings},
    types::{ServerType, oid},
};

/// No variables.
struct Nothing;

impl Surroundings for Nothing {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}

/// The password of a URL, if it is one and has one.
fn password(url: &str) -> Option<String> {
    let settings = Settings::resolve(url, &Nothing).ok()?;
    let first = settings.endpoints.first()?;
    Some(first.password.0.clone()).filter(|password| !password.is_empty())
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

const TYPES: &[(u32, ColumnType)] = &[
    (oid::BOOL, ColumnType::Bool),
    (oid::INT2, ColumnType::Int16),
    (oid::INT4, ColumnType::Int32),
    (oid::INT8, ColumnType::Int64),
    (oid::FLOAT4, ColumnType::Float32),
    (oid::FLOAT8, ColumnType::Float64),
    (oid::DATE, ColumnType::Date),
    (oid::TIME, ColumnType::Time),
    (oid::TIMESTAMP, ColumnType::Timestamp),
    (oid::TIMESTAMPTZ, ColumnType::TimestampTz),
    (oid::NUMERIC, ColumnType::Numeric),
    (
        oid::NUMERIC,
        ColumnType::Decimal {
            precision: 38,
            scale: 10,
        },
    ),
    (oid::TEXT, ColumnType::TEXT),
    (oid::JSONB, ColumnType::Json),
    (oid::BYTEA, ColumnType::Bytes),
    (oid::UUID, ColumnType::Uuid),
];

/// A row of a binary COPY, and one value of the type that the first byte chooses. What can be read of it is written, and
/// means the same when it is read again.
pub fn values(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else {
        return;
    };
    let _ = without_header(bytes);
    let (oid, ty) = TYPES[usize::from(*choice) % TYPES.len()];
    let mut copied = Fields::new(1);
    let _ = copied.push_copied(bytes);
    let server = ServerType { oid, modifier: -1 };
    let column = ReadColumn {
        element: None,
        name: "c".to_owned(),
        ty,
        declared: String::new(),
        nullable: true,
    };
    let decoder =
        Decoder::new(&[column], &[server], &[], BeyondArrow::Carried).expect("the types fit together");
    let mut fields = Fields::new(1);
    fields.push(Some(bytes));
    fields.push(None);
    let Ok(batch) = decoder.decode(&fields) else {
        return;
    };
    let column = EncodedColumn {
        name: "c".to_owned(),
        ty,
        server,
        cast: None,
    };
    let mut encoder = Encoder::new(&batch, &[column], Numbering::None).expect("the types fit together");
    let Ok(message) = encoder.copy_chunk(0..2) else {
        return;
    };
    let mut again = Fields::new(1);
    let rows = without_header(&message).expect("a header was written");
    again.push_copied(rows).expect("rows were written");
    assert_eq!(
        decoder.decode(&again).expect("what was written can be read"),
        batch
    );
}

#[cfg(test)]
mod tests {
    use tonnage_testing::corpus::check;

    use super::*;

    #[test]
    fn corpora_and_what_is_near_them_are_read_without_a_panic() {
        check("postgres_values", values);
        check("urls", urls);
    }
}
