//! The server's rows as Arrow columns: the mirror image of `encode`.
//!
//! Rows are cut into fields first; then each column is decoded by what was chosen when its type was known. A value that
//! has no equal in the column's Arrow type is an error that names its row: nothing is rounded, clamped or left out.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, ArrowPrimitiveType, BinaryBuilder, BooleanBuilder, FixedSizeBinaryBuilder,
        PrimitiveBuilder, RecordBatch, RecordBatchOptions, StringBuilder,
    },
    datatypes::{
        Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, SchemaRef,
        Time64MicrosecondType, TimestampMicrosecondType,
    },
};
use scylla::{
    cluster::metadata::NativeType, deserialize::row::ColumnIterator, response::query_result::QueryRowsResult,
};
use tonnage_core::{
    error::{Error, Result},
    reader::{ReadColumn, schema},
    types::ColumnType,
};

use super::{
    nested,
    types::Kind,
    values::{self, Fitting, Misfit, excerpt, malformed, scalar_text},
};

/// Rows cut into fields, not decoded yet.
pub(super) struct Fields {
    bytes: Vec<u8>,
    /// Start and length of each field, row by row; none is null.
    places: Vec<(usize, Option<usize>)>,
    columns: usize,
    rows: usize,
}

impl Fields {
    /// The rows of a page of `columns` columns.
    pub fn of(page: &QueryRowsResult, columns: usize) -> Result<Self> {
        let mut fields = Self {
            bytes: Vec::with_capacity(page.rows_bytes_size()),
            places: Vec::with_capacity(page.rows_num() * columns),
            columns,
            rows: page.rows_num(),
        };
        let bad = |cause: &dyn std::fmt::Display| {
            Error::bug(format!("Cassandra sent rows that cannot be cut: {cause}"))
        };
        for row in page.rows::<ColumnIterator>().map_err(|cause| bad(&cause))? {
            for column in row.map_err(|cause| bad(&cause))? {
                let slice = column.map_err(|cause| bad(&cause))?.slice;
                let bytes = slice.map(|slice| slice.as_slice());
                fields.places.push((fields.bytes.len(), bytes.map(<[u8]>::len)));
                fields.bytes.extend_from_slice(bytes.unwrap_or_default());
            }
        }
        match fields.places.len() == fields.rows * columns {
            true => Ok(fields),
            false => Err(Error::bug(
                "Cassandra sent rows of other columns than were described",
            )),
        }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A field; none for a null.
    pub fn get(&self, row: usize, column: usize) -> Option<&[u8]> {
        let (start, length) = self.places[row * self.columns + column];
        length.map(|length| &self.bytes[start..start + length])
    }
}

/// How a column is decoded.
#[derive(Debug, Clone)]
pub(super) struct ColumnDecoder {
    /// Its place among the fields.
    pub at: usize,
    pub kind: Kind,
    /// Whether it comes as text.
    pub text: bool,
}

impl ColumnDecoder {
    /// The type of the column that comes out.
    pub fn column_type(&self) -> ColumnType {
        match (self.text, &self.kind) {
            (true, _) => ColumnType::TEXT,
            (false, kind) => kind.column_type(),
        }
    }

    fn decode(&self, fields: &Fields) -> std::result::Result<ArrayRef, (usize, Misfit)> {
        let native = match &self.kind {
            Kind::Scalar(native) if !self.text => native,
            Kind::Scalar(native) => return self.texts(fields, |bytes| Ok(scalar_text(native, bytes)?.0)),
            nested => {
                return self.texts(fields, |bytes| {
                    let mut text = String::new();
                    nested::text(nested, bytes, &mut text)?;
                    Ok(text)
                });
            }
        };
        match native {
            NativeType::Boolean => {
                let mut out = BooleanBuilder::with_capacity(fields.rows());
                self.each(fields, |value| {
                    let value = value
                        .map(|bytes| fixed::<1>(bytes).map(|[b]| b != 0))
                        .transpose()?;
                    out.append_option(value);
                    Ok(())
                })?;
                Ok(Arc::new(out.finish()))
            }
            NativeType::TinyInt => {
                self.numbers::<Int16Type>(fields, |b| Ok(i8::from_be_bytes(fixed(b)?).into()))
            }
            NativeType::SmallInt => self.numbers::<Int16Type>(fields, |b| Ok(i16::from_be_bytes(fixed(b)?))),
            NativeType::Int => self.numbers::<Int32Type>(fields, |b| Ok(i32::from_be_bytes(fixed(b)?))),
            NativeType::BigInt => self.numbers::<Int64Type>(fields, |b| Ok(i64::from_be_bytes(fixed(b)?))),
            NativeType::Float => self.numbers::<Float32Type>(fields, |b| Ok(f32::from_be_bytes(fixed(b)?))),
            NativeType::Double => self.numbers::<Float64Type>(fields, |b| Ok(f64::from_be_bytes(fixed(b)?))),
            NativeType::Date => self.numbers::<Date32Type>(fields, values::finite_date),
            NativeType::Time => self.numbers::<Time64MicrosecondType>(fields, values::time),
            NativeType::Timestamp => {
                let mut out = PrimitiveBuilder::<TimestampMicrosecondType>::with_capacity(fields.rows())
                    .with_timezone("UTC");
                self.each(fields, |value| {
                    out.append_option(value.map(values::finite_timestamp).transpose()?);
                    Ok(())
                })?;
                Ok(Arc::new(out.finish()))
            }
            NativeType::Blob => {
                let mut out = BinaryBuilder::new();
                self.each(fields, |value| {
                    out.append_option(value);
                    Ok(())
                })?;
                Ok(Arc::new(out.finish()))
            }
            NativeType::Uuid | NativeType::Timeuuid => {
                let mut out = FixedSizeBinaryBuilder::with_capacity(fields.rows(), 16);
                self.each(fields, |value| {
                    match value {
                        None => out.append_null(),
                        Some(bytes) => out.append_value(bytes).map_err(|_| malformed())?,
                    }
                    Ok(())
                })?;
                Ok(Arc::new(out.finish()))
            }
            _ => self.texts(fields, |bytes| Ok(scalar_text(native, bytes)?.0)),
        }
    }

    fn each<'a>(
        &self,
        fields: &'a Fields,
        mut take: impl FnMut(Option<&'a [u8]>) -> Fitting,
    ) -> std::result::Result<(), (usize, Misfit)> {
        (0..fields.rows()).try_for_each(|row| take(fields.get(row, self.at)).map_err(|misfit| (row, misfit)))
    }

    fn numbers<T: ArrowPrimitiveType>(
        &self,
        fields: &Fields,
        value: impl Fn(&[u8]) -> Fitting<T::Native>,
    ) -> std::result::Result<ArrayRef, (usize, Misfit)> {
        let mut out = PrimitiveBuilder::<T>::with_capacity(fields.rows());
        self.each(fields, |bytes| {
            out.append_option(bytes.map(&value).transpose()?);
            Ok(())
        })?;
        Ok(Arc::new(out.finish()))
    }

    fn texts(
        &self,
        fields: &Fields,
        value: impl Fn(&[u8]) -> Fitting<String>,
    ) -> std::result::Result<ArrayRef, (usize, Misfit)> {
        let mut out = StringBuilder::new();
        self.each(fields, |bytes| {
            out.append_option(bytes.map(&value).transpose()?);
            Ok(())
        })?;
        Ok(Arc::new(out.finish()))
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Fitting<[u8; N]> {
    bytes.try_into().map_err(|_| malformed())
}

/// Makes batches of fields.
pub(super) struct Decoder {
    columns: Vec<ColumnDecoder>,
    names: Vec<String>,
    schema: SchemaRef,
    /// The columns of the key, by which messages name a row: name, place among the fields, type.
    key: Vec<(String, usize, Kind)>,
}

impl Decoder {
    pub fn new(columns: Vec<ColumnDecoder>, read: &[ReadColumn], key: Vec<(String, usize, Kind)>) -> Self {
        Self {
            columns,
            names: read.iter().map(|column| column.name.clone()).collect(),
            schema: schema(read),
            key,
        }
    }

    /// A batch of all rows.
    pub fn decode(&self, fields: &Fields) -> Result<RecordBatch> {
        let arrays = self.columns.iter().zip(&self.names).map(|(column, name)| {
            let decoded = column.decode(fields);
            decoded.map_err(|(row, misfit)| self.error(fields, row, name, &misfit))
        });
        let arrays = arrays.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(fields.rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|cause| Error::bug(format!("decoded columns do not fit together: {cause}")))
    }

    fn error(&self, fields: &Fields, row: usize, column: &str, misfit: &Misfit) -> Error {
        let named = self.key.iter().filter_map(|(name, at, kind)| {
            let mut text = String::new();
            nested::text(kind, fields.get(row, *at)?, &mut text).ok()?;
            Some(format!("{name} = {}", excerpt(&text)))
        });
        let named: Vec<_> = named.collect();
        let place = match named.is_empty() {
            true => format!("column '{column}'"),
            false => format!("column '{column}' of the row with {}", named.join(", ")),
        };
        Error::schema(format!("{place}: {}", misfit.message))
            .hint(format!("--text {column} gives it as the database's own text"))
    }
}
