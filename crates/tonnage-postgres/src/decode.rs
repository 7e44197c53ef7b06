//! The server's binary form as Arrow columns: the mirror image of `encode`.
//!
//! Rows are cut into fields first, many at a time; then each column is decoded from its fields by a decoder that was
//! chosen when the result's types were known. A value that Arrow's type for the column has no equal of is a fault of its
//! row: nothing is rounded, clamped or left out.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{
        ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanBuilder, FixedSizeBinaryBuilder, PrimitiveBuilder,
        RecordBatch, RecordBatchOptions, StringArray,
    },
    buffer::{Buffer, NullBuffer, OffsetBuffer},
    datatypes::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, SchemaRef,
        Time64MicrosecondType, TimestampMicrosecondType,
    },
};
use tonnage_core::{
    error::{Error, ErrorKind, Result},
    reader::{BeyondArrow, ReadColumn, schema},
    types::ColumnType,
};

use super::{
    encode::{EPOCH_DAYS, EPOCH_MICROS},
    numeric,
    types::{ServerType, oid},
};

/// Rows cut into fields, not decoded yet.
#[derive(Default)]
pub(super) struct Fields {
    bytes: Vec<u8>,
    /// Start and length of each field, row by row; none is null.
    places: Vec<(usize, Option<usize>)>,
    columns: usize,
}

impl Fields {
    /// None yet, of `columns` columns.
    pub fn new(columns: usize) -> Self {
        Self {
            columns,
            ..Self::default()
        }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.places.len() / self.columns.max(1)
    }

    /// Bytes of all values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets all rows and keeps the room they took.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Appends the rows of one message of a binary COPY, whose header was taken off. False where it ends.
    pub fn push_copied(&mut self, message: &[u8]) -> Result<bool> {
        let mut rest = message;
        while !rest.is_empty() {
            let count = i16::from_be_bytes(take(&mut rest)?);
            if count == -1 {
                return Ok(false);
            }
            if usize::try_from(count) != Ok(self.columns) {
                return Err(malformed("a row of other columns than were described"));
            }
            for _ in 0..self.columns {
                let length = i32::from_be_bytes(take(&mut rest)?);
                let value = match usize::try_from(length) {
                    Err(_) => None,
                    Ok(length) if length <= rest.len() => {
                        let (value, after) = rest.split_at(length);
                        rest = after;
                        Some(value)
                    }
                    Ok(_) => return Err(malformed("a value longer than its message")),
                };
                self.push(value);
            }
        }
        Ok(true)
    }

    /// Appends the next field of a row.
    pub fn push(&mut self, value: Option<&[u8]>) {
        self.places.push((self.bytes.len(), value.map(<[u8]>::len)));
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    /// The fields of a column.
    fn column(&self, column: usize, rows: Range<usize>) -> impl ExactSizeIterator<Item = Option<&[u8]>> {
        rows.map(move |row| {
            let (start, length) = self.places[row * self.columns + column];
            length.map(|length| &self.bytes[start..start + length])
        })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (taken, after) = rest
        .split_first_chunk::<N>()
        .ok_or_else(|| malformed("a message that ends within a row"))?;
    *rest = after;
    Ok(*taken)
}

fn malformed(what: &str) -> Error {
    Error::bug(format!("PostgreSQL sent {what}"))
}

const COPY_SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// What follows the header of a binary COPY in its first message.
pub(super) fn without_header(message: &[u8]) -> Result<&[u8]> {
    let mut rest = message
        .strip_prefix(COPY_SIGNATURE)
        .ok_or_else(|| malformed("something else than a binary COPY"))?;
    let _flags: [u8; 4] = take(&mut rest)?;
    let extension = u32::from_be_bytes(take(&mut rest)?) as usize;
    rest.get(extension..)
        .ok_or_else(|| malformed("a header that is cut off"))
}

/// A value that has no equal in Arrow.
struct Fault {
    row: usize,
    message: String,
}

type Decoded = std::result::Result<ArrayRef, Fault>;
type Decode = fn(&Fields, usize, Range<usize>, ColumnType) -> Decoded;

/// A column of a result.
struct ColumnDecoder {
    name: String,
    ty: ColumnType,
    decode: Decode,
}

/// Makes batches of fields.
pub(super) struct Decoder {
    columns: Vec<ColumnDecoder>,
    schema: SchemaRef,
    /// Positions of the columns that name a row in messages.
    naming: Vec<usize>,
}

impl Decoder {
    /// Chooses a decoder for each column, which arrives as the type that is paired with it. `key` names rows in messages.
    pub fn new(
        columns: &[ReadColumn],
        arriving: &[ServerType],
        key: &[String],
        beyond_arrow: BeyondArrow,
    ) -> Result<Self> {
        let decoders = columns.iter().zip(arriving).map(|(column, server)| {
            let decode = decoder(server.oid, column.ty, beyond_arrow).ok_or_else(|| {
                Error::bug(format!(
                    "column '{}' of type {} arrives as {}",
                    column.name, column.ty, server.oid
                ))
            })?;
            Ok(ColumnDecoder {
                name: column.name.clone(),
                ty: column.ty,
                decode,
            })
        });
        let naming = key
            .iter()
            .filter_map(|name| columns.iter().position(|column| column.name == *name));
        let mut naming: Vec<_> = naming.collect();
        if naming.is_empty() {
            naming.push(0);
        }
        Ok(Self {
            columns: decoders.collect::<Result<_>>()?,
            schema: schema(columns),
            naming,
        })
    }

    /// A batch of all rows.
    pub fn decode(&self, fields: &Fields) -> Result<RecordBatch> {
        let rows = 0..fields.rows();
        let arrays = self.columns.iter().enumerate().map(|(at, column)| {
            (column.decode)(fields, at, rows.clone(), column.ty)
                .map_err(|fault| self.error(fields, at, fault))
        });
        let arrays = arrays.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(fields.rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|cause| Error::bug(format!("decoded columns do not fit together: {cause}")))
    }

    fn error(&self, fields: &Fields, at: usize, fault: Fault) -> Error {
        let column = &self.columns[at].name;
        let named = self.naming.iter().filter(|named| **named != at).map(|named| {
            let naming = &self.columns[*named];
            let value = (naming.decode)(fields, *named, fault.row..fault.row + 1, naming.ty).ok()?;
            let value = arrow::util::display::array_value_to_string(&value, 0).ok()?;
            Some(format!("{} = {}", naming.name, numeric::excerpt(&value)))
        });
        let named: Vec<_> = named.flatten().collect();
        let place = match named.is_empty() {
            true => format!("column '{column}'"),
            false => format!("column '{column}' of the row with {}", named.join(", ")),
        };
        Error::new(ErrorKind::Schema, format!("{place}: {}", fault.message))
            .hint(format!("--text {column} gives it as the database's own text"))
    }
}

/// The decoder of a column of type `ty` that arrives as `server`.
fn decoder(server: u32, ty: ColumnType, beyond_arrow: BeyondArrow) -> Option<Decode> {
    Some(match (server, ty) {
        (oid::BOOL, ColumnType::Bool) => bools,
        (oid::INT2, ColumnType::Int16) => |fields, column, rows, ty| {
            primitives::<Int16Type, 2>(fields, column, rows, ty, |bytes| Ok(i16::from_be_bytes(bytes)))
        },
        (oid::INT4, ColumnType::Int32) => |fields, column, rows, ty| {
            primitives::<Int32Type, 4>(fields, column, rows, ty, |bytes| Ok(i32::from_be_bytes(bytes)))
        },
        (oid::INT8, ColumnType::Int64) => |fields, column, rows, ty| {
            primitives::<Int64Type, 8>(fields, column, rows, ty, |bytes| Ok(i64::from_be_bytes(bytes)))
        },
        (oid::FLOAT4, ColumnType::Float32) => |fields, column, rows, ty| {
            primitives::<Float32Type, 4>(fields, column, rows, ty, |bytes| Ok(f32::from_be_bytes(bytes)))
        },
        (oid::FLOAT8, ColumnType::Float64) => |fields, column, rows, ty| {
            primitives::<Float64Type, 8>(fields, column, rows, ty, |bytes| Ok(f64::from_be_bytes(bytes)))
        },
        (oid::DATE, ColumnType::Date) if beyond_arrow == BeyondArrow::Carried => {
            |fields, column, rows, ty| {
                primitives::<Date32Type, 4>(fields, column, rows, ty, |bytes| {
                    match i32::from_be_bytes(bytes) {
                        end @ (i32::MAX | i32::MIN) => Ok(end),
                        days => days.checked_add(EPOCH_DAYS).ok_or_else(|| TOO_LATE.to_owned()),
                    }
                })
            }
        }
        (oid::DATE, ColumnType::Date) => |fields, column, rows, ty| {
            primitives::<Date32Type, 4>(fields, column, rows, ty, |bytes| {
                let days = i32::from_be_bytes(bytes);
                finite(days == i32::MAX, days == i32::MIN)?;
                days.checked_add(EPOCH_DAYS).ok_or_else(|| TOO_LATE.to_owned())
            })
        },
        (oid::TIME, ColumnType::Time) => |fields, column, rows, ty| {
            primitives::<Time64MicrosecondType, 8>(fields, column, rows, ty, |bytes| {
                Ok(i64::from_be_bytes(bytes))
            })
        },
        (oid::TIMESTAMP, ColumnType::Timestamp) | (oid::TIMESTAMPTZ, ColumnType::TimestampTz)
            if beyond_arrow == BeyondArrow::Carried =>
        {
            |fields, column, rows, ty| {
                primitives::<TimestampMicrosecondType, 8>(fields, column, rows, ty, |bytes| {
                    match i64::from_be_bytes(bytes) {
                        end @ (i64::MAX | i64::MIN) => Ok(end),
                        // Arrow's largest number means infinity.
                        micros => micros
                            .checked_add(EPOCH_MICROS)
                            .filter(|micros| *micros != i64::MAX)
                            .ok_or_else(|| TOO_LATE.to_owned()),
                    }
                })
            }
        }
        (oid::TIMESTAMP, ColumnType::Timestamp) | (oid::TIMESTAMPTZ, ColumnType::TimestampTz) => {
            |fields, column, rows, ty| {
                primitives::<TimestampMicrosecondType, 8>(fields, column, rows, ty, |bytes| {
                    let micros = i64::from_be_bytes(bytes);
                    finite(micros == i64::MAX, micros == i64::MIN)?;
                    micros
                        .checked_add(EPOCH_MICROS)
                        .ok_or_else(|| TOO_LATE.to_owned())
                })
            }
        }
        (oid::MONEY, ColumnType::Decimal { .. }) => |fields, column, rows, ty| {
            primitives::<Decimal128Type, 8>(fields, column, rows, ty, |bytes| {
                Ok(i64::from_be_bytes(bytes).into())
            })
        },
        (oid::NUMERIC, ColumnType::Decimal { .. }) => decimals,
        (oid::NUMERIC, ColumnType::Numeric) => |fields, column, rows, _| {
            texts(fields.column(column, rows), |value, out| {
                numeric::to_text(value, out).ok_or_else(odd_value)
            })
        },
        (
            oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::JSON,
            ColumnType::Text { .. } | ColumnType::Char { .. } | ColumnType::Json,
        ) => |fields, column, rows, _| {
            texts(fields.column(column, rows), |value, out| {
                out.extend_from_slice(value);
                Ok(())
            })
        },
        // The first byte is the version of the binary form.
        (oid::JSONB, ColumnType::Json) => |fields, column, rows, _| {
            texts(fields.column(column, rows), |value, out| {
                let text = value.strip_prefix(&[1]).ok_or_else(odd_value)?;
                out.extend_from_slice(text);
                Ok(())
            })
        },
        (oid::BYTEA, ColumnType::Bytes) => |fields, column, rows, _| {
            let column = gather(fields.column(column, rows), |value, out| {
                out.extend_from_slice(value);
                Ok(())
            })?;
            Ok(Arc::new(BinaryArray::new(
                column.offsets,
                column.values,
                column.nulls,
            )))
        },
        (oid::UUID, ColumnType::Uuid) => uuids,
        _ => return None,
    })
}

const TOO_LATE: &str = "the value is later than Arrow's timestamps reach";

fn odd_value() -> String {
    "the server sent a value of another form".to_owned()
}

fn finite(infinity: bool, negative_infinity: bool) -> std::result::Result<(), String> {
    match (infinity, negative_infinity) {
        (false, false) => Ok(()),
        (true, _) => Err("infinity is no date or time to other systems".to_owned()),
        (_, true) => Err("-infinity is no date or time to other systems".to_owned()),
    }
}

fn primitives<T: ArrowPrimitiveType, const N: usize>(
    fields: &Fields,
    column: usize,
    rows: Range<usize>,
    ty: ColumnType,
    read: impl Fn([u8; N]) -> std::result::Result<T::Native, String>,
) -> Decoded {
    let mut builder = PrimitiveBuilder::<T>::with_capacity(rows.len());
    for (row, value) in fields.column(column, rows).enumerate() {
        let Some(value) = value else {
            builder.append_null();
            continue;
        };
        let read = <[u8; N]>::try_from(value)
            .map_err(|_| odd_value())
            .and_then(&read);
        builder.append_value(read.map_err(|message| Fault { row, message })?);
    }
    Ok(Arc::new(builder.finish().with_data_type(ty.arrow())))
}

fn bools(fields: &Fields, column: usize, rows: Range<usize>, _: ColumnType) -> Decoded {
    let mut builder = BooleanBuilder::with_capacity(rows.len());
    for (row, value) in fields.column(column, rows).enumerate() {
        builder.append_option(match value {
            None => None,
            Some([byte]) => Some(*byte != 0),
            Some(_) => {
                let message = odd_value();
                return Err(Fault { row, message });
            }
        });
    }
    Ok(Arc::new(builder.finish()))
}

fn decimals(fields: &Fields, column: usize, rows: Range<usize>, ty: ColumnType) -> Decoded {
    let ColumnType::Decimal { scale, .. } = ty else {
        let message = odd_value();
        return Err(Fault { row: 0, message });
    };
    let mut builder = PrimitiveBuilder::<Decimal128Type>::with_capacity(rows.len());
    for (row, value) in fields.column(column, rows).enumerate() {
        let Some(value) = value else {
            builder.append_null();
            continue;
        };
        match numeric::to_unscaled(value, scale) {
            Some(units) => builder.append_value(units),
            None => {
                let mut text = Vec::new();
                let message = match numeric::to_text(value, &mut text) {
                    Some(()) => format!("{} is not a {ty}", String::from_utf8_lossy(&text)),
                    None => odd_value(),
                };
                return Err(Fault { row, message });
            }
        }
    }
    Ok(Arc::new(builder.finish().with_data_type(ty.arrow())))
}

fn uuids(fields: &Fields, column: usize, rows: Range<usize>, _: ColumnType) -> Decoded {
    let mut builder = FixedSizeBinaryBuilder::with_capacity(rows.len(), 16);
    for (row, value) in fields.column(column, rows).enumerate() {
        match value {
            None => builder.append_null(),
            Some(value) => builder.append_value(value).map_err(|_| Fault {
                row,
                message: odd_value(),
            })?,
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// Values of any length, one behind the other.
struct Gathered {
    offsets: OffsetBuffer<i32>,
    values: Buffer,
    nulls: Option<NullBuffer>,
}

fn gather<'a>(
    fields: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    push: impl Fn(&'a [u8], &mut Vec<u8>) -> std::result::Result<(), String>,
) -> std::result::Result<Gathered, Fault> {
    let mut lengths = Vec::with_capacity(fields.len());
    let mut valid = Vec::with_capacity(fields.len());
    let mut values = Vec::new();
    for (row, value) in fields.enumerate() {
        let start = values.len();
        if let Some(value) = value {
            push(value, &mut values).map_err(|message| Fault { row, message })?;
        }
        valid.push(value.is_some());
        lengths.push(values.len() - start);
        if i32::try_from(values.len()).is_err() {
            let message = "the values of a batch exceed 2 GiB".to_owned();
            return Err(Fault { row, message });
        }
    }
    Ok(Gathered {
        offsets: OffsetBuffer::from_lengths(lengths),
        values: Buffer::from_vec(values),
        nulls: Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0),
    })
}

fn texts<'a>(
    fields: impl ExactSizeIterator<Item = Option<&'a [u8]>>,
    push: impl Fn(&'a [u8], &mut Vec<u8>) -> std::result::Result<(), String>,
) -> Decoded {
    let Gathered {
        offsets,
        values,
        nulls,
    } = gather(fields, push)?;
    match StringArray::try_new(offsets.clone(), values.clone(), nulls) {
        Ok(array) => Ok(Arc::new(array)),
        Err(_) => {
            let bad = offsets
                .windows(2)
                .position(|pair| std::str::from_utf8(&values[pair[0] as usize..pair[1] as usize]).is_err());
            Err(Fault {
                row: bad.unwrap_or(0),
                message: "the text is not UTF-8".to_owned(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Date32Array};

    use super::*;
    use crate::encode::{EncodedColumn, Encoder, Numbering};

    fn column(ty: ColumnType) -> ReadColumn {
        ReadColumn {
            element: None,
            name: "c".to_owned(),
            ty,
            declared: String::new(),
            nullable: true,
        }
    }

    fn server(oid: u32) -> ServerType {
        ServerType { oid, modifier: -1 }
    }

    /// What the encoder writes as a COPY, read back.
    fn round_trip(ty: ColumnType, oid: u32, array: ArrayRef) -> ArrayRef {
        let columns = [column(ty)];
        let batch = RecordBatch::try_new(schema(&columns), vec![array]).unwrap();
        let encoded = EncodedColumn {
            name: "c".to_owned(),
            ty,
            server: server(oid),
            cast: None,
        };
        let mut encoder = Encoder::new(&batch, &[encoded], Numbering::None).unwrap();
        let mut fields = Fields::new(1);
        for (index, rows) in encoder.chunks().enumerate() {
            let message = encoder.copy_chunk(rows).ok().unwrap();
            let message = match index {
                0 => without_header(&message).unwrap(),
                _ => &message,
            };
            fields.push_copied(message).unwrap();
        }
        let decoder = Decoder::new(&columns, &[server(oid)], &[], BeyondArrow::Refused).unwrap();
        decoder.decode(&fields).unwrap().column(0).clone()
    }

    #[test]
    fn what_is_written_is_read() {
        let numerics = StringArray::from(vec![
            Some("0"),
            Some("-12.50"),
            None,
            Some("NaN"),
            Some("-Infinity"),
            Some("0.00005"),
            Some("123456789012345678901234567890123456789012345.000"),
            Some("100000000"),
        ]);
        let numerics: ArrayRef = Arc::new(numerics);
        assert_eq!(
            &round_trip(ColumnType::Numeric, oid::NUMERIC, numerics.clone()),
            &numerics
        );
        let dates: ArrayRef = Arc::new(Date32Array::from(vec![Some(-2_440_588), None, Some(0)]));
        assert_eq!(&round_trip(ColumnType::Date, oid::DATE, dates.clone()), &dates);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None, Some("héé")]));
        assert_eq!(&round_trip(ColumnType::TEXT, oid::TEXT, texts.clone()), &texts);
    }

    #[test]
    fn a_value_without_an_equal_names_its_row() {
        let columns = [
            ReadColumn {
                element: None,
                name: "id".to_owned(),
                ..column(ColumnType::Int32)
            },
            column(ColumnType::Date),
        ];
        let types = [server(oid::INT4), server(oid::DATE)];
        let decoder = Decoder::new(&columns, &types, &["id".to_owned()], BeyondArrow::Refused).unwrap();
        let mut fields = Fields::new(2);
        for (id, days) in [(1_i32, 0_i32), (7, i32::MAX)] {
            fields.push(Some(&id.to_be_bytes()));
            fields.push(Some(&days.to_be_bytes()));
        }
        let error = decoder.decode(&fields).unwrap_err();
        assert_eq!(
            error.to_string(),
            "column 'c' of the row with id = 7: infinity is no date or time to other systems"
        );
    }

    #[test]
    fn damaged_messages_are_refused() {
        let mut fields = Fields::new(1);
        for message in [
            &[0_u8, 2, 0, 0, 0, 0][..],
            &[0, 1, 0, 0],
            &[0, 1, 0, 0, 0, 9, 1],
            &[0],
        ] {
            assert!(fields.push_copied(message).is_err(), "{message:?}");
        }
        assert!(without_header(b"no copy").is_err());
        assert!(!Fields::new(1).push_copied(&[0xff, 0xff]).unwrap());
        let array = texts([Some(&b"\xff"[..])].into_iter(), |value, out| {
            out.extend_from_slice(value);
            Ok(())
        });
        assert!(array.is_err());
        let empty = texts([None, Some(&b""[..])].into_iter(), |_, _| Ok(()))
            .ok()
            .unwrap();
        assert_eq!(empty.as_string::<i32>().value(1), "");
    }
}
