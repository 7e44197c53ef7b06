//! Columns as DuckDB gives them to the crate's types: the mirror image of `encode`.
//!
//! The list of a SELECT casts what has no Arrow type of its own here (`UTINYINT` to `SMALLINT`, `HUGEINT` to text), without
//! loss. What is left is looked at value by value: infinities, a time of 24:00, nanoseconds.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::{
        DataType, Date32Type, SchemaRef, Time64MicrosecondType, TimestampMicrosecondType,
        TimestampNanosecondType,
    },
};
use tonnage_core::{
    convert::shown_value,
    digits::DAY_MICROS,
    error::{Error, ErrorKind, Result, arrow_bug},
    parse::parse_stored,
    reader::{BeyondArrow, ReadColumn, schema},
    types::ColumnType,
};

use super::{encode::moved, sql::quote, types};

/// The expression that gives a column's values.
pub(crate) fn expression(column: &ReadColumn, as_text: bool) -> String {
    let name = quote(&column.name);
    let text = || format!("CAST({name} AS VARCHAR)");
    match types::of_name(&column.declared) {
        _ if as_text => text(),
        None => text(),
        Some(known) if known.as_it_is => name,
        Some(_) => match column.ty {
            ColumnType::Timestamp if column.declared == "TIMESTAMP_NS" => name,
            ty => format!("CAST({name} AS {})", types::carried(&ty)),
        },
    }
}

/// Makes batches of the columns.
pub(crate) struct Decoder {
    schema: SchemaRef,
    columns: Vec<ColumnType>,
    /// Positions of the columns that name a row in messages.
    naming: Vec<usize>,
    beyond_arrow: BeyondArrow,
}

/// The first value that does not fit.
type Misfit = (usize, &'static str);

const INFINITY: &str = "infinity is no date or time to other systems";
const NANOSECONDS: &str = "the time has nanoseconds, and microseconds are what can be carried";
const MIDNIGHT: &str = "24:00:00 is no time of a day to other systems";

impl Decoder {
    /// Of `columns`, whose rows messages name by the columns `key`.
    pub(crate) fn new(columns: &[ReadColumn], key: &[String], beyond_arrow: BeyondArrow) -> Self {
        let place = |name: &String| columns.iter().position(|column| column.name == *name);
        Self {
            schema: schema(columns),
            columns: columns.iter().map(|column| column.ty).collect(),
            naming: key.iter().filter_map(place).collect(),
            beyond_arrow,
        }
    }

    /// The first columns of `rows`.
    pub(crate) fn decode(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (at, ty) in self.columns.iter().enumerate() {
            let array = self.column(*ty, rows.column(at))?;
            arrays.push(array.map_err(|(row, said)| self.bad(rows, row, at, said))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|cause| Error::bug(format!("decoded columns do not fit together: {cause}")))
    }

    fn column(&self, ty: ColumnType, array: &ArrayRef) -> Result<std::result::Result<ArrayRef, Misfit>> {
        let carried = self.beyond_arrow == BeyondArrow::Carried;
        let array = match (ty, array.data_type()) {
            (ColumnType::Uuid, DataType::Utf8) => {
                let texts = array.as_string::<i32>();
                let values: Vec<_> = texts.iter().map(|text| text.map(str::as_bytes)).collect();
                return parse_stored(&ty, "uuid", values.into_iter()).map(Ok);
            }
            (_, DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, _)) => match micros(array) {
                Ok(array) => array,
                Err(misfit) => return Ok(Err(misfit)),
            },
            // A zone's name says nothing of the instant.
            (_, known) if *known != ty.arrow() => cast(array, &ty.arrow()).map_err(arrow_bug)?,
            _ => array.clone(),
        };
        let found = match ty {
            ColumnType::Date if !carried => {
                first::<Date32Type>(&array, |days| days == i32::MAX || days == -i32::MAX, INFINITY)
            }
            ColumnType::Timestamp | ColumnType::TimestampTz if !carried => first::<TimestampMicrosecondType>(
                &array,
                |micros| micros == i64::MAX || micros == -i64::MAX,
                INFINITY,
            ),
            ColumnType::Time if !carried => {
                first::<Time64MicrosecondType>(&array, |micros| micros >= DAY_MICROS, MIDNIGHT)
            }
            _ => None,
        };
        if let Some(misfit) = found {
            return Ok(Err(misfit));
        }
        Ok(Ok(match ty {
            ColumnType::Date => moved::<Date32Type>(&array, -i32::MAX, i32::MIN),
            ColumnType::Timestamp | ColumnType::TimestampTz => {
                moved::<TimestampMicrosecondType>(&array, -i64::MAX, i64::MIN)
            }
            _ => array,
        }))
    }

    fn bad(&self, rows: &RecordBatch, row: usize, at: usize, said: &str) -> Error {
        let name = |at: usize| self.schema.field(at).name();
        let named = self.naming.iter().filter(|named| **named != at).map(|named| {
            let value = shown_value(rows.column(*named), row, BeyondArrow::Carried);
            format!("{} = {}", name(*named), value.unwrap_or_default())
        });
        let named: Vec<_> = named.collect();
        let column = name(at);
        let place = match named.is_empty() {
            true => format!("column '{column}'"),
            false => format!("column '{column}' of the row with {}", named.join(", ")),
        };
        Error::new(ErrorKind::Schema, format!("{place}: {said}"))
            .hint(format!("--text {column} gives every value of the column as text"))
    }
}

fn first<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    is_bad: impl Fn(T::Native) -> bool,
    said: &'static str,
) -> Option<Misfit> {
    let values = array.as_primitive_opt::<T>()?;
    let bad = values.iter().position(|value| value.is_some_and(&is_bad));
    bad.map(|row| (row, said))
}

/// Nanoseconds as microseconds. DuckDB's infinities are those of its 64 bits.
fn micros(array: &ArrayRef) -> std::result::Result<ArrayRef, Misfit> {
    let is_end = |nanos: i64| nanos == i64::MAX || nanos == -i64::MAX;
    let has_nanos = |nanos: i64| !is_end(nanos) && nanos % 1_000 != 0;
    if let Some(misfit) = first::<TimestampNanosecondType>(array, has_nanos, NANOSECONDS) {
        return Err(misfit);
    }
    let values = array.as_primitive::<TimestampNanosecondType>();
    let micros: PrimitiveArray<TimestampMicrosecondType> =
        values.unary(|nanos| if is_end(nanos) { nanos } else { nanos / 1_000 });
    Ok(Arc::new(micros))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Int64Array, TimestampNanosecondArray};

    use super::*;

    fn column(name: &str, ty: ColumnType, declared: &str) -> ReadColumn {
        ReadColumn {
            name: name.to_owned(),
            ty,
            element: None,
            declared: declared.to_owned(),
            nullable: true,
        }
    }

    fn decoded(column: ReadColumn, array: ArrayRef, beyond: BeyondArrow) -> Result<ArrayRef> {
        let id = self::column("id", ColumnType::Int64, "BIGINT");
        let decoder = Decoder::new(&[id, column], &["id".to_owned()], beyond);
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(10..10 + array.len() as i64));
        let rows = RecordBatch::try_from_iter_with_nullable([("id", ids, true), ("v", array, true)]).unwrap();
        decoder.decode(&rows).map(|rows| rows.column(1).clone())
    }

    #[test]
    fn what_other_systems_do_not_have_is_an_error_that_names_the_row() {
        let days: ArrayRef = Arc::new(Date32Array::from(vec![0, -i32::MAX]));
        let date = || column("v", ColumnType::Date, "DATE");
        let refused = decoded(date(), days.clone(), BeyondArrow::Refused).unwrap_err();
        assert!(
            refused
                .to_string()
                .starts_with("column 'v' of the row with id = 11: infinity"),
            "{refused}"
        );
        let carried = decoded(date(), days, BeyondArrow::Carried).unwrap();
        assert_eq!(carried.as_primitive::<Date32Type>().values(), &[0, i32::MIN]);
        let time = || column("v", ColumnType::Timestamp, "TIMESTAMP_NS");
        let exact: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_000, -5_000]));
        let micros = decoded(time(), exact, BeyondArrow::Refused).unwrap();
        assert_eq!(
            micros.as_primitive::<TimestampMicrosecondType>().values(),
            &[1, -5]
        );
        let finer: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_001]));
        assert!(decoded(time(), finer, BeyondArrow::Carried).is_err());
    }

    #[test]
    fn expressions() {
        for (ty, declared, wanted) in [
            ("int64", "BIGINT", "\"v\""),
            ("int16", "UTINYINT", "CAST(\"v\" AS SMALLINT)"),
            ("numeric", "HUGEINT", "CAST(\"v\" AS VARCHAR)"),
            ("decimal(20,0)", "UBIGINT", "CAST(\"v\" AS DECIMAL(20,0))"),
            ("timestamp", "TIMESTAMP_S", "CAST(\"v\" AS TIMESTAMP)"),
            ("timestamp", "TIMESTAMP_NS", "\"v\""),
            ("uuid", "UUID", "CAST(\"v\" AS VARCHAR)"),
            ("text", "INTEGER[]", "CAST(\"v\" AS VARCHAR)"),
        ] {
            assert_eq!(
                expression(&column("v", ty.parse().unwrap(), declared), false),
                wanted,
                "{declared}"
            );
        }
        assert_eq!(
            expression(&column("v", ColumnType::TEXT, "BLOB"), true),
            "CAST(\"v\" AS VARCHAR)"
        );
    }
}
