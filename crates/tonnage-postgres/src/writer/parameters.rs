//! Parameters of a statement, encoded already.

use arrow::array::RecordBatch;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};
use tonnage_core::error::Result;

use crate::encode::{ColumnFault, EncodedColumn, Encoder, Numbering};

/// One array a column; the first row that the server has no value for is a fault.
pub fn arrays(
    rows: &RecordBatch,
    columns: &[EncodedColumn],
) -> Result<std::result::Result<Vec<EncodedField>, ColumnFault>> {
    let mut encoder = Encoder::new(rows, columns, Numbering::None)?;
    let mut parameters = Vec::with_capacity(columns.len());
    let mut fault: Option<ColumnFault> = None;
    for (index, column) in columns.iter().enumerate() {
        match encoder.array(index, column.taken()) {
            Ok(array) => parameters.push(EncodedField(Some(Bytes::from(array)))),
            Err(found) if fault.as_ref().is_none_or(|(_, known)| found.1.row < known.row) => {
                fault = Some(found);
            }
            Err(_) => {}
        }
    }
    Ok(match fault {
        Some(fault) => Err(fault),
        None => Ok(parameters),
    })
}

/// A parameter that is already in the server's binary form; none for null.
#[derive(Debug)]
pub struct EncodedField(Option<Bytes>);

impl EncodedField {
    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |value| value.len() as u64)
    }

    /// Takes the next field off `fields`: four bytes of length, negative for null, and the value.
    pub fn cut(fields: &mut Bytes) -> Self {
        let length = i32::from_be_bytes([fields[0], fields[1], fields[2], fields[3]]);
        fields.advance(4);
        Self(usize::try_from(length).ok().map(|length| fields.split_to(length)))
    }
}

impl ToSql for EncodedField {
    fn to_sql(
        &self,
        _ty: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        Ok(match &self.0 {
            Some(value) => {
                out.put_slice(value);
                IsNull::No
            }
            None => IsNull::Yes,
        })
    }

    fn accepts(_ty: &Type) -> bool {
        true
    }

    fn encode_format(&self, _ty: &Type) -> Format {
        Format::Binary
    }

    to_sql_checked!();
}
