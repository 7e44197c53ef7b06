//! Rows of keys, by one statement a question.
//!
//! Keys are sent as one JSON text, which the server takes apart as a table (`JSON_TABLE`) and joins to the table key by
//! key, in this order; each goes down the index. Its place among them comes with every row and tells its key, so the
//! comparing is the server's alone. Text is compared by the column's own collation; what its character set does not
//! have equals nothing.
//!
//! Columns that no index leads to are joined by hashing where the server does that when it is asked to.
//!
//! Every question is a statement of its own and sees what is committed by then: several sessions could be made to see one
//! state only by holding writers up.

use std::sync::Arc;

use arrow::{
    array::{AsArray, RecordBatch, UInt32Array},
    datatypes::Int64Type,
};
use async_trait::async_trait;
use mysql_async::{Value, prelude::Queryable};
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    getter::{Answer, GetKey, GetRequest, Getter, KeyRange, encodable, no_index},
    reader::ReadColumn,
    types::ColumnType,
};

use super::{
    catalog::{self, Described},
    decode::Decoder,
    encode::{ColumnEncoder, encode},
    errors,
    product::{Product, Version},
    reader::{self, describe, relation, session_settings},
    settings::Settings,
    splits::{self, Source},
    stream::{Answering, RowDecoding},
    types::{Kind, quote, quote_table},
};

/// Names that no column of a table has by chance.
const PLACE: &str = "`tonnage place`";

fn asked(number: usize) -> String {
    format!("`tonnage key {number}`")
}

pub(super) struct MysqlGetter {
    answering: Answering,
    sql: String,
    keys: Vec<ColumnEncoder>,
    columns: Vec<ReadColumn>,
    notes: Vec<String>,
    settings_changed: Vec<String>,
    /// The most bytes of keys that go in one statement.
    bytes_max: usize,
    /// What is still to be asked of the last question: keys, and the place of the first.
    pieces: std::collections::VecDeque<(String, u32)>,
    /// The place of the first key that is being answered.
    first: u32,
    /// The places of the keys that were sent, where some were not.
    sent: Option<Vec<u32>>,
}

impl MysqlGetter {
    pub(super) async fn open(
        settings: &Settings,
        packet_bytes_max: usize,
        request: &GetRequest,
    ) -> Result<Self> {
        let (mut conn, version, settings) = reader::open(settings).await?;
        if !has_json_table(&version) {
            return Err(Error::config(format!(
                "{} has no JSON_TABLE, by which rows are looked up",
                version.shown
            ))
            .hint("MariaDB 10.6 or later is needed, or MySQL 8"));
        }
        conn.query_drop("SET SESSION TRANSACTION READ ONLY")
            .await
            .map_err(errors::statement)?;
        let scan = request.scan();
        let found = relation(&mut conn, &version, &settings.database, &scan).await?;
        let (columns, selected) = describe(&mut conn, &version, &scan, &found).await?;
        let mut notes = found.notes(&columns, &scan);
        let Source::Table(described) = found.source else {
            return Err(Error::bug("a table was looked up and is none"));
        };
        let names: Vec<String> = request.key.iter().map(|key| key.name.clone()).collect();
        let mut settings_changed = vec!["transaction = READ ONLY".to_owned()];
        if !request.keyed && !catalog::is_indexed(&mut conn, &described.table.name, &names).await? {
            notes.push(no_index(&request.table, &request.key));
            if version.product == Product::MariaDb {
                let (name, level) = HASHED;
                conn.query_drop(format!("SET SESSION {name} = {level}"))
                    .await
                    .map_err(errors::statement)?;
                settings_changed.push(format!("{name} = {level}"));
            }
        }
        let keys = request.key.iter().map(|key| encoder(&described, key));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let sql = statement(&described, request, &keys, &selected)?;
        // A mistake is found now, not at the first key.
        let prepared = conn.prep(sql.as_str()).await.map_err(errors::statement)?;
        conn.close(prepared).await.map_err(errors::statement)?;
        let mut arriving = columns.clone();
        arriving.push(ReadColumn {
            element: None,
            name: String::new(),
            ty: ColumnType::Int64,
            declared: String::new(),
            nullable: false,
        });
        let form = Arc::new(RowDecoding {
            decoder: Decoder::new(&arriving, &names, scan.beyond_arrow)?,
            batch: request.batch,
        });
        settings_changed.extend(
            session_settings(&version)
                .iter()
                .map(|(name, value)| format!("{name} = {value}")),
        );
        Ok(Self {
            answering: Answering::start(conn, form, settings),
            sql,
            keys,
            columns,
            notes,
            settings_changed,
            bytes_max: packet_bytes_max / 2,
            pieces: std::collections::VecDeque::new(),
            first: 0,
            sent: None,
        })
    }

    /// Asks the next piece; false where there is none.
    fn ask_on(&mut self) -> Result<bool> {
        let Some((keys, first)) = self.pieces.pop_front() else {
            return Ok(false);
        };
        self.first = first;
        self.answering
            .ask(self.sql.clone(), vec![Value::Bytes(keys.into_bytes())])?;
        Ok(true)
    }
}

/// What lets MariaDB join by hashing; by itself it compares each row with each key.
const HASHED: (&str, u32) = ("join_cache_level", 4);

fn has_json_table(version: &Version) -> bool {
    match version.product {
        Product::MariaDb => version.number >= (10, 6, 0),
        Product::MySql => version.number >= (8, 0, 4),
        Product::OceanBase => true,
        Product::TiDb | Product::PolarDbX => false,
    }
}

fn position(described: &Described, name: &str) -> Option<usize> {
    described
        .table
        .columns
        .iter()
        .position(|column| column.name == name)
}

/// Brings values to the form that the column could have; what it could not have is a fault.
fn encoder(described: &Described, key: &GetKey) -> Result<ColumnEncoder> {
    let kind = position(described, &key.name).and_then(|at| described.kinds.get(at)?.clone());
    let kind =
        kind.ok_or_else(|| Error::schema(format!("table {} was altered meanwhile", described.table.name)))?;
    Ok(ColumnEncoder {
        name: key.name.clone(),
        ty: key.ty,
        kind: match kind {
            // Which of them equal a value is for the server to say: trailing spaces and case may mean nothing.
            Kind::Padded(characters) => Kind::Characters(characters),
            Kind::Label(_) | Kind::Labels(_) => Kind::Text(u64::MAX),
            kind => kind,
        },
        nullable: true,
    })
}

/// As what a key arrives in the server's table of them, and what it is compared with by.
fn compared(described: &Described, key: &ColumnEncoder, number: usize) -> (String, String) {
    let name = format!("asked.{}", asked(number));
    let wanted = format!("wanted.{}", quote(&key.name));
    let plain = |declared: String| (declared, format!("{wanted} = {name}"));
    match &key.kind {
        Kind::Integer { least, .. } if *least >= 0 => plain("bigint unsigned".to_owned()),
        Kind::Integer { .. } | Kind::Year => plain("bigint".to_owned()),
        Kind::Single { .. } | Kind::Double { .. } => plain("double".to_owned()),
        Kind::Decimal { precision, scale, .. } => plain(format!("decimal({precision},{scale})")),
        Kind::Date => plain("date".to_owned()),
        Kind::Seconds(digits) if key.ty == ColumnType::Time => plain(format!("time({digits})")),
        Kind::Seconds(digits) => plain(format!("datetime({digits})")),
        Kind::Uuid => (characters(36), format!("{wanted} = CAST({name} AS uuid)")),
        Kind::Inet4 => (characters(15), format!("{wanted} = CAST({name} AS inet4)")),
        Kind::Inet6 => (characters(45), format!("{wanted} = CAST({name} AS inet6)")),
        Kind::Binary(bytes) | Kind::Bytes(bytes) => (
            characters(bytes.saturating_mul(2)),
            format!("{wanted} = UNHEX({name})"),
        ),
        Kind::Geometry => (characters(u64::MAX), format!("{wanted} = UNHEX({name})")),
        Kind::Characters(most) | Kind::Padded(most) => (
            characters(u64::from(*most)),
            texts_equal(described, key, &wanted, &name),
        ),
        Kind::Text(_) | Kind::Label(_) | Kind::Labels(_) => {
            (characters(u64::MAX), texts_equal(described, key, &wanted, &name))
        }
    }
}

/// Text of at most so many characters.
fn characters(most: u64) -> String {
    const VARCHAR_CHARACTERS_MAX: u64 = 8_000;
    match most <= VARCHAR_CHARACTERS_MAX {
        true => format!("varchar({}) CHARACTER SET utf8mb4", most.max(1)),
        false => "longtext CHARACTER SET utf8mb4".to_owned(),
    }
}

fn texts_equal(described: &Described, key: &ColumnEncoder, wanted: &str, name: &str) -> String {
    let collation = position(described, &key.name).and_then(|at| described.collations.get(at)?.as_deref());
    let Some(collation) = collation else {
        return format!("{wanted} = {name}");
    };
    let characters = collation.split('_').next().unwrap_or(collation);
    match characters {
        "utf8mb4" => format!("{wanted} = {name} COLLATE {collation}"),
        // In the column's own character set, so that its index is of use. Characters that are not in it become
        // question marks, which would find a row of such.
        characters => format!(
            "{wanted} = CONVERT({name} USING {characters}) COLLATE {collation} \
             AND BINARY CONVERT(CONVERT({name} USING {characters}) USING utf8mb4) = BINARY {name}"
        ),
    }
}

fn statement(
    described: &Described,
    request: &GetRequest,
    keys: &[ColumnEncoder],
    selected: &str,
) -> Result<String> {
    let mut declared = vec![format!("{PLACE} FOR ORDINALITY")];
    let mut conditions = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        let (ty, condition) = compared(described, key, number);
        declared.push(format!("{} {ty} PATH '$[{number}]'", asked(number)));
        conditions.push(condition);
    }
    if let Some(range) = &request.range {
        conditions.extend(within(described, range)?);
    }
    // Small tables would be read as a whole otherwise, once for all keys.
    let primary = described.table.primary_key().is_some_and(|primary| {
        let names = keys.iter().map(|key| &key.name);
        primary.columns.len() >= keys.len() && primary.columns.iter().zip(names).all(|(a, b)| a == b)
    });
    let index = if primary { " FORCE INDEX (PRIMARY)" } else { "" };
    Ok(format!(
        "SELECT STRAIGHT_JOIN {selected}, asked.{PLACE} FROM JSON_TABLE(?, '$[*]' COLUMNS ({})) AS asked \
         JOIN {} AS wanted{index} ON {}",
        declared.join(", "),
        quote_table(&described.table.name),
        conditions.join(" AND ")
    ))
}

/// Conditions on the column of a range.
fn within(described: &Described, range: &KeyRange) -> Result<Vec<String>> {
    let column = encoder(described, &range.column)?;
    let mut conditions = Vec::new();
    for (operator, end) in [(">", &range.from), ("<", &range.to)] {
        let Some(end) = end else { continue };
        let field = arrow::datatypes::Field::new(&column.name, end.value.data_type().clone(), false);
        let schema = arrow::datatypes::Schema::new(vec![field]);
        let one = RecordBatch::try_new(schema.into(), vec![end.value.clone()]).map_err(arrow_bug)?;
        let encoded = encode(std::slice::from_ref(&column), &one)?.map_err(|fault| {
            let error = Error::config(fault.error.to_string());
            error.at(format!("an end of the range, column '{}'", column.name))
        })?;
        let mut values = encoded.parameters(0..1).into_iter().flatten();
        let value = values
            .next()
            .ok_or_else(|| Error::bug("an end of a range is no value"))?;
        conditions.push(format!(
            "wanted.{} {operator}{} {}",
            quote(&column.name),
            if end.inclusive { "=" } else { "" },
            splits::literal_of(&column.kind, &value)
        ));
    }
    Ok(conditions)
}

/// Writes a key as a JSON string: as what the server's own column of it reads exactly.
fn push_json(out: &mut String, value: &Value, binary: bool) {
    use std::fmt::Write;
    out.push('"');
    // Writing to memory does not fail.
    let _ = match value {
        Value::Bytes(bytes) if binary => bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
        Value::Bytes(bytes) => {
            for character in String::from_utf8_lossy(bytes).chars() {
                match character {
                    '"' => out.push_str("\\\""),
                    '\\' => out.push_str("\\\\"),
                    '\0'..='\x1f' => {
                        let _ = write!(out, "\\u{:04x}", u32::from(character));
                    }
                    character => out.push(character),
                }
            }
            Ok(())
        }
        Value::Int(number) => write!(out, "{number}"),
        Value::UInt(number) => write!(out, "{number}"),
        // The double that it is.
        Value::Float(number) => write!(out, "{:e}", f64::from(*number)),
        Value::Double(number) => write!(out, "{number:e}"),
        Value::NULL | Value::Date(..) | Value::Time(..) => Ok(()),
    };
    out.push('"');
}

#[async_trait]
impl Getter for MysqlGetter {
    fn columns(&self) -> &[ReadColumn] {
        &self.columns
    }

    fn settings_changed(&self) -> Vec<String> {
        self.settings_changed.clone()
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    async fn ask(&mut self, keys: &RecordBatch) -> Result<()> {
        // The column has no value as some keys are: no row has these.
        let sent = encodable(keys, |keys| encode(&self.keys, keys))?;
        self.sent = sent.places;
        self.pieces.clear();
        let binary: Vec<bool> = self
            .keys
            .iter()
            .map(|key| matches!(key.kind, Kind::Binary(_) | Kind::Bytes(_) | Kind::Geometry))
            .collect();
        let (mut text, mut first) = ("[".to_owned(), 0);
        for (row, values) in sent.encoded.parameters(0..sent.rows).iter().enumerate() {
            if text.len() > self.bytes_max {
                text.push(']');
                let piece = std::mem::replace(&mut text, "[".to_owned());
                self.pieces.push_back((piece, first));
                first = row as u32;
            }
            text.push_str(if text.len() > 1 { ",[" } else { "[" });
            for (at, (value, binary)) in values.iter().zip(&binary).enumerate() {
                if at > 0 {
                    text.push(',');
                }
                push_json(&mut text, value, *binary);
            }
            text.push(']');
        }
        text.push(']');
        if sent.rows > 0 {
            self.pieces.push_back((text, first));
        }
        self.ask_on().map(|_| ())
    }

    async fn next(&mut self) -> Result<Option<Answer>> {
        loop {
            let Some(batch) = self.answering.next().await? else {
                match self.ask_on()? {
                    true => continue,
                    false => return Ok(None),
                }
            };
            let of_no_key = || Error::bug("a row of no key");
            let places = batch.column(self.columns.len()).as_primitive_opt::<Int64Type>();
            let keys = places.ok_or_else(of_no_key)?.values().iter().map(|place| {
                // Places begin at 1.
                let place = u32::try_from(place - 1).map_err(|_| of_no_key())? + self.first;
                match &self.sent {
                    Some(sent) => sent.get(place as usize).copied().ok_or_else(of_no_key),
                    None => Ok(place),
                }
            });
            let keys = keys.collect::<Result<Vec<_>>>()?;
            let wanted: Vec<usize> = (0..self.columns.len()).collect();
            return Ok(Some(Answer {
                rows: batch.project(&wanted).map_err(arrow_bug)?,
                keys: UInt32Array::from(keys),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_json() {
        for (value, binary, wanted) in [
            (Value::Int(-3), false, r#""-3""#),
            (
                Value::Bytes(b"a\"\\\n\0".to_vec()),
                false,
                r#""a\"\\\u000a\u0000""#,
            ),
            (Value::Bytes(vec![0, 255]), true, r#""00ff""#),
            (Value::Double(0.1), false, r#""1e-1""#),
        ] {
            let mut text = String::new();
            push_json(&mut text, &value, binary);
            assert_eq!(text, wanted);
        }
    }
}
