//! Arrow columns as the cells of rows, a column at a time.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    buffer::NullBuffer,
    datatypes::{
        ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
        Time64MicrosecondType, TimestampMicrosecondType,
    },
};
use scylla::{
    cluster::metadata::NativeType,
    serialize::{
        SerializationError,
        row::{RowSerializationContext, SerializeRow},
        writers::RowWriter,
    },
};
use tonnage_core::{
    error::{Error, Result},
    reject::sqlstate,
};

use super::{
    nested,
    types::Kind,
    values::{
        Fitting, Misfit, UuidKind, put_date, put_numeric, put_text, put_time, put_timestamp, put_tinyint,
        put_uuid,
    },
};

/// The most bytes of a column of a key.
const KEY_BYTES_MAX: usize = 65_535;

/// What a column is in the key of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Not in it.
    Value,
    /// In it.
    Key,
    /// The whole partition key, which may not be empty.
    Partition,
}

/// How the values of a column are encoded; chosen once.
#[derive(Debug, Clone)]
pub(super) struct ColumnEncoder {
    pub name: String,
    pub kind: Kind,
    pub role: Role,
}

/// A value that cannot be sent.
#[derive(Debug)]
pub(super) struct Fault {
    pub row: usize,
    pub column: String,
    pub misfit: Misfit,
}

/// The cells of a column.
#[derive(Debug, Default)]
pub(super) struct Cells {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    nulls: Option<NullBuffer>,
}

impl Cells {
    /// The cell of a row; none for a null.
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let start = match row {
            0 => 0,
            row => self.ends[row - 1],
        };
        Some(&self.bytes[start..self.ends[row]])
    }

    /// Bytes of all cells.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn of(
        array: &dyn Array,
        mut put: impl FnMut(usize, &mut Vec<u8>) -> Fitting,
    ) -> std::result::Result<Self, (usize, Misfit)> {
        let mut cells = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(array.len()),
            nulls: array.logical_nulls(),
        };
        for row in 0..array.len() {
            if cells.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                put(row, &mut cells.bytes).map_err(|misfit| (row, misfit))?;
            }
            cells.ends.push(cells.bytes.len());
        }
        Ok(cells)
    }
}

impl ColumnEncoder {
    /// The cells of `array`, or the first value that cannot be sent.
    pub fn encode(&self, array: &ArrayRef) -> Result<std::result::Result<Cells, Fault>> {
        if *array.data_type() != self.kind.column_type().arrow() {
            return Err(Error::bug(format!(
                "column '{}' came as {}",
                self.name,
                array.data_type()
            )));
        }
        let encoded = self
            .cells(array)
            .and_then(|cells| self.check_key(array.len(), cells));
        Ok(encoded.map_err(|(row, misfit)| Fault {
            row,
            column: self.name.clone(),
            misfit,
        }))
    }

    fn cells(&self, array: &ArrayRef) -> std::result::Result<Cells, (usize, Misfit)> {
        fn numbers<T: ArrowPrimitiveType, const N: usize>(
            array: &ArrayRef,
            bytes: impl Fn(T::Native) -> [u8; N],
        ) -> std::result::Result<Cells, (usize, Misfit)> {
            let values = array.as_primitive::<T>();
            Cells::of(array, |row, out| {
                out.extend_from_slice(&bytes(values.value(row)));
                Ok(())
            })
        }
        let native = match &self.kind {
            Kind::Scalar(native) => native,
            nested => {
                let values = array.as_string::<i32>();
                return Cells::of(array, |row, out| nested::put(nested, values.value(row), out));
            }
        };
        match native {
            NativeType::Boolean => {
                let values = array.as_boolean();
                Cells::of(array, |row, out| {
                    out.push(u8::from(values.value(row)));
                    Ok(())
                })
            }
            NativeType::TinyInt => {
                let values = array.as_primitive::<Int16Type>();
                Cells::of(array, |row, out| put_tinyint(values.value(row), out))
            }
            NativeType::SmallInt => numbers::<Int16Type, 2>(array, i16::to_be_bytes),
            NativeType::Int => numbers::<Int32Type, 4>(array, i32::to_be_bytes),
            NativeType::BigInt => numbers::<Int64Type, 8>(array, i64::to_be_bytes),
            NativeType::Float => numbers::<Float32Type, 4>(array, f32::to_be_bytes),
            NativeType::Double => numbers::<Float64Type, 8>(array, f64::to_be_bytes),
            NativeType::Decimal | NativeType::Varint => {
                let values = array.as_string::<i32>();
                Cells::of(array, |row, out| put_numeric(native, values.value(row), out))
            }
            NativeType::Blob => {
                let values = array.as_binary::<i32>();
                Cells::of(array, |row, out| {
                    out.extend_from_slice(values.value(row));
                    Ok(())
                })
            }
            NativeType::Date => {
                let values = array.as_primitive::<Date32Type>();
                Cells::of(array, |row, out| put_date(values.value(row), out))
            }
            NativeType::Time => {
                let values = array.as_primitive::<Time64MicrosecondType>();
                Cells::of(array, |row, out| put_time(values.value(row), out))
            }
            NativeType::Timestamp => {
                let values = array.as_primitive::<TimestampMicrosecondType>();
                Cells::of(array, |row, out| put_timestamp(values.value(row), out))
            }
            NativeType::Uuid | NativeType::Timeuuid => {
                let values = array.as_fixed_size_binary();
                let kind = match native {
                    NativeType::Timeuuid => UuidKind::TimeBased,
                    _ => UuidKind::Any,
                };
                Cells::of(array, |row, out| put_uuid(values.value(row), kind, out))
            }
            _ => {
                let values = array.as_string::<i32>();
                Cells::of(array, |row, out| put_text(native, values.value(row), out))
            }
        }
    }

    /// A key has a value in each of its columns.
    fn check_key(&self, rows: usize, cells: Cells) -> std::result::Result<Cells, (usize, Misfit)> {
        if self.role == Role::Value {
            return Ok(cells);
        }
        for row in 0..rows {
            let wrong = match cells.get(row) {
                None => (
                    sqlstate::NOT_NULL,
                    "null in a column of the primary key".to_owned(),
                ),
                Some([]) if self.role == Role::Partition => (
                    sqlstate::NOT_NULL,
                    "an empty value, which a partition key may not be".to_owned(),
                ),
                Some(cell) if cell.len() > KEY_BYTES_MAX => (
                    sqlstate::TOO_LONG,
                    format!(
                        "{} bytes in a column of the primary key, which takes {KEY_BYTES_MAX}",
                        cell.len()
                    ),
                ),
                Some(_) => continue,
            };
            return Err((row, Misfit::new(wrong.0, wrong.1)));
        }
        Ok(cells)
    }
}

/// What is sent for a null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absent {
    /// Nothing: what the row has there stays.
    Unset,
    /// The deletion of what the row has there.
    Null,
}

/// Where a statement has its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stamped {
    /// Before all values: USING TIMESTAMP of a DELETE.
    First,
    /// Behind them, as in an INSERT.
    Last,
}

/// The values of one statement.
pub(super) struct Bound<'a> {
    pub columns: &'a [Cells],
    pub row: usize,
    pub stamp: i64,
    pub stamped: Stamped,
    pub absent: Absent,
}

impl SerializeRow for Bound<'_> {
    fn serialize(
        &self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter,
    ) -> std::result::Result<(), SerializationError> {
        let stamp = self.stamp.to_be_bytes();
        let put = |writer: &mut RowWriter, bytes: &[u8]| {
            let put = writer.make_cell_writer().set_value(bytes);
            put.map(|_| ()).map_err(SerializationError::new)
        };
        if self.stamped == Stamped::First {
            put(writer, &stamp)?;
        }
        for column in self.columns {
            match (column.get(self.row), self.absent) {
                (Some(bytes), _) => put(writer, bytes)?,
                (None, Absent::Unset) => {
                    writer.make_cell_writer().set_unset();
                }
                (None, Absent::Null) => {
                    writer.make_cell_writer().set_null();
                }
            }
        }
        if self.stamped == Stamped::Last {
            put(writer, &stamp)?;
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        false
    }
}

/// The values of a query.
pub(super) struct Given<'a>(pub Vec<&'a [u8]>);

impl SerializeRow for Given<'_> {
    fn serialize(
        &self,
        _: &RowSerializationContext<'_>,
        writer: &mut RowWriter,
    ) -> std::result::Result<(), SerializationError> {
        for bytes in &self.0 {
            let put = writer.make_cell_writer().set_value(bytes);
            put.map_err(SerializationError::new)?;
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
