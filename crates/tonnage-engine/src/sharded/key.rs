//! Which member of a sharded table a row belongs to.
//!
//! This is a published contract (`docs/sharding.md`): rows are where it has put them, in databases that other programs
//! route to as well. It never changes. A value has one canonical form, whatever the source had it as and however wide
//! its column is; the forms of the columns of the shard key, each behind its length in four bytes, least byte first, are
//! hashed by XXH3 (64 bits, seed 0), and the remainder of the hash by the number of members is the member's place.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        Date32Type, Decimal128Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType,
        TimestampMicrosecondType,
    },
};
use tonnage_core::{
    digits::push_decimal,
    error::{Error, Result},
    router::Router,
    types::ColumnType,
};
use xxhash_rust::xxh3::xxh3_64;

/// The name of the only hash there is.
pub const HASH: &str = "xxh3";

/// The forms that values are hashed in. Values of types of one form are equal if and only if their forms are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HashForm {
    /// One byte, 0 or 1.
    Truth,
    /// Eight bytes in two's complement, least byte first.
    Integer,
    /// Decimal text: no sign but `-`, no zero at the end behind the point, no point without digits behind it.
    Decimal,
    /// The bytes themselves; of text in UTF-8.
    Bytes,
}

/// The form of values of `ty`; none where values that differ in their bytes may be equal.
pub(super) fn form(ty: &ColumnType) -> Option<HashForm> {
    match ty {
        ColumnType::Bool => Some(HashForm::Truth),
        ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::Date
        | ColumnType::Time
        | ColumnType::Timestamp
        | ColumnType::TimestampTz => Some(HashForm::Integer),
        ColumnType::Decimal { .. } => Some(HashForm::Decimal),
        ColumnType::Text { .. } | ColumnType::Bytes | ColumnType::Uuid => Some(HashForm::Bytes),
        _ => None,
    }
}

/// Routes rows by their shard key.
#[derive(Debug, Clone)]
pub(super) struct ShardKey {
    members: Vec<String>,
    /// What the values are called that are hashed, in order: columns, or parameters of a statement.
    columns: Vec<String>,
    types: Vec<ColumnType>,
    /// The columns of the table, in order.
    key: Vec<String>,
}

impl ShardKey {
    /// Over so many `members`, by `columns` of these types, which are `key` in the table.
    pub fn new(members: &[String], key: &[String], columns: Vec<String>, types: Vec<ColumnType>) -> Self {
        Self {
            members: members.to_vec(),
            columns,
            types,
            key: key.to_vec(),
        }
    }

    /// The text in the ledgers of the members: it changes when rows would go elsewhere.
    pub fn identity_of(key: &[String], members: usize) -> String {
        format!("{HASH} ({}) of {members}", key.join(","))
    }
}

impl Router for ShardKey {
    fn shards(&self) -> &[String] {
        &self.members
    }

    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn brought(&self) -> &[String] {
        &[]
    }

    fn separate_databases(&self) -> bool {
        true
    }

    fn identity(&self) -> String {
        Self::identity_of(&self.key, self.members.len())
    }

    fn route(&self, columns: &[ArrayRef]) -> Result<Vec<u16>> {
        let rows = columns.first().map_or(0, |column| column.len());
        let mut columns = columns
            .iter()
            .zip(&self.types)
            .map(|(column, ty)| column_forms(column, ty));
        let shards = self.members.len().max(1) as u64;
        // A key of one column, as most are, needs nothing to be kept for it.
        let first = columns.next().transpose()?;
        let rest = columns.collect::<Result<Vec<_>>>()?;
        let mut buffer = Vec::new();
        let mut routed = Vec::with_capacity(rows);
        for row in 0..rows {
            buffer.clear();
            for append in first.iter().chain(&rest) {
                let length_at = buffer.len();
                buffer.extend_from_slice(&[0; 4]);
                append(row, &mut buffer);
                let length = (buffer.len() - length_at - 4) as u32;
                buffer[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
            }
            routed.push((xxh3_64(&buffer) % shards) as u16);
        }
        Ok(routed)
    }
}

/// Appends the form of a column's value in a row.
type Append<'a> = Box<dyn Fn(usize, &mut Vec<u8>) + 'a>;

/// Chosen once a column. Nulls have no form: rows with one are rejected before.
fn column_forms<'a>(column: &'a ArrayRef, ty: &ColumnType) -> Result<Append<'a>> {
    fn integer<'a>(value: impl Fn(usize) -> i64 + 'a) -> Append<'a> {
        Box::new(move |row, out| out.extend_from_slice(&value(row).to_le_bytes()))
    }
    if *column.data_type() != ty.arrow() {
        return Err(Error::bug(format!(
            "a shard key of {ty} came as {}",
            column.data_type()
        )));
    }
    Ok(match ty {
        ColumnType::Bool => {
            let values = column.as_boolean();
            Box::new(move |row, out| out.push(u8::from(values.value(row))))
        }
        ColumnType::Int16 => {
            let values = column.as_primitive::<Int16Type>().values();
            integer(move |row| i64::from(values[row]))
        }
        ColumnType::Int32 => {
            let values = column.as_primitive::<Int32Type>().values();
            integer(move |row| i64::from(values[row]))
        }
        ColumnType::Int64 => {
            let values = column.as_primitive::<Int64Type>().values();
            integer(move |row| values[row])
        }
        ColumnType::Date => {
            let values = column.as_primitive::<Date32Type>().values();
            integer(move |row| i64::from(values[row]))
        }
        ColumnType::Time => {
            let values = column.as_primitive::<Time64MicrosecondType>().values();
            integer(move |row| values[row])
        }
        ColumnType::Timestamp | ColumnType::TimestampTz => {
            let values = column.as_primitive::<TimestampMicrosecondType>().values();
            integer(move |row| values[row])
        }
        ColumnType::Decimal { scale, .. } => {
            let values = column.as_primitive::<Decimal128Type>().values();
            let scale = *scale;
            Box::new(move |row, out| decimal(values[row], scale, out))
        }
        ColumnType::Text { .. } => {
            let values = column.as_string::<i32>();
            Box::new(move |row, out| out.extend_from_slice(values.value(row).as_bytes()))
        }
        ColumnType::Bytes => {
            let values = column.as_binary::<i32>();
            Box::new(move |row, out| out.extend_from_slice(values.value(row)))
        }
        ColumnType::Uuid => {
            let values = column.as_fixed_size_binary();
            Box::new(move |row, out| out.extend_from_slice(values.value(row)))
        }
        other => return Err(Error::bug(format!("a shard key of {other}"))),
    })
}

fn decimal(mut value: i128, mut scale: u8, out: &mut Vec<u8>) {
    while scale > 0 && value % 10 == 0 {
        value /= 10;
        scale -= 1;
    }
    push_decimal(out, value, scale as i8);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Int16Array,
        Int32Array, Int64Array, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    };

    use super::*;

    /// The table of docs/sharding.md: a value, its form in hexadecimal digits, its hash.
    fn published() -> Vec<(String, String, u64)> {
        let text = include_str!("../../../../docs/sharding.md");
        let rows = text.lines().filter_map(|line| {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let ["", value, form, hash, _, ""] = cells.as_slice() else {
                return None;
            };
            let plain = |cell: &str| cell.trim_matches('`').to_owned();
            let hash = u64::from_str_radix(&plain(hash), 16).ok()?;
            Some((plain(value), plain(form), hash))
        });
        rows.collect()
    }

    fn columns_of(value: &str) -> (Vec<ArrayRef>, Vec<ColumnType>) {
        let decimal = |value: i128, precision, scale| -> (ArrayRef, ColumnType) {
            let array = Decimal128Array::from(vec![value]).with_precision_and_scale(precision, scale as i8);
            (
                Arc::new(array.expect("a decimal")),
                ColumnType::Decimal { precision, scale },
            )
        };
        let one: (ArrayRef, ColumnType) = match value {
            "true" => (Arc::new(BooleanArray::from(vec![true])), ColumnType::Bool),
            "int16 42" => (Arc::new(Int16Array::from(vec![42])), ColumnType::Int16),
            "int32 42" => (Arc::new(Int32Array::from(vec![42])), ColumnType::Int32),
            "int64 42" => (Arc::new(Int64Array::from(vec![42])), ColumnType::Int64),
            "int64 -1" => (Arc::new(Int64Array::from(vec![-1])), ColumnType::Int64),
            "text ''" => (Arc::new(StringArray::from(vec![""])), ColumnType::TEXT),
            "text 'Zoë'" => (Arc::new(StringArray::from(vec!["Zoë"])), ColumnType::TEXT),
            "bytes 00 ff" => (
                Arc::new(BinaryArray::from(vec![&[0u8, 255][..]])),
                ColumnType::Bytes,
            ),
            "decimal(6,2) 12.50" => decimal(1250, 6, 2),
            "decimal(6,1) 12.5" => decimal(125, 6, 1),
            "decimal(6,2) -0.05" => decimal(-5, 6, 2),
            "decimal(6,2) 100.00" => decimal(10_000, 6, 2),
            "date 2000-01-01" => (Arc::new(Date32Array::from(vec![10_957])), ColumnType::Date),
            "time 00:00:01" => (
                Arc::new(Time64MicrosecondArray::from(vec![1_000_000])),
                ColumnType::Time,
            ),
            "timestamp 2000-01-01 00:00:00" => (
                Arc::new(TimestampMicrosecondArray::from(vec![946_684_800_000_000])),
                ColumnType::Timestamp,
            ),
            "uuid 00000000-0000-0000-0000-000000000001" => {
                let bytes = 1u128.to_be_bytes();
                let array = FixedSizeBinaryArray::try_from_iter([bytes].into_iter());
                (Arc::new(array.expect("sixteen bytes")), ColumnType::Uuid)
            }
            "text 'a', int64 1" => {
                let columns: Vec<ArrayRef> = vec![
                    Arc::new(StringArray::from(vec!["a"])),
                    Arc::new(Int64Array::from(vec![1])),
                ];
                return (columns, vec![ColumnType::TEXT, ColumnType::Int64]);
            }
            other => panic!("docs/sharding.md has a value that this test does not know: {other}"),
        };
        (vec![one.0], vec![one.1])
    }

    #[test]
    fn the_published_vectors_hold() {
        let vectors = published();
        assert!(
            vectors.len() >= 17,
            "docs/sharding.md has {} vectors",
            vectors.len()
        );
        for (value, form, hash) in vectors {
            let (columns, types) = columns_of(&value);
            let mut bytes = Vec::new();
            for (column, ty) in columns.iter().zip(&types) {
                let mut own = Vec::new();
                column_forms(column, ty).expect("a form")(0, &mut own);
                bytes.extend_from_slice(&(own.len() as u32).to_le_bytes());
                bytes.extend_from_slice(&own);
            }
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(digits, form.replace(' ', ""), "{value}");
            assert_eq!(xxh3_64(&bytes), hash, "{value}: {:016x}", xxh3_64(&bytes));
            for members in 1..=7usize {
                let names: Vec<_> = (0..members).map(|at| at.to_string()).collect();
                let key = ShardKey::new(&names, &["k".to_owned()], vec!["k".to_owned()], types.clone());
                let routed = key.route(&columns).expect("a route");
                assert_eq!(routed, [(hash % members as u64) as u16], "{value} of {members}");
            }
        }
    }
}
