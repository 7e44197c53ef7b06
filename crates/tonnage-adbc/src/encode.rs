//! Batches of the engine as the relation that the database is given.
//!
//! Values go as they are, but for uuids, which go as text, and for negative infinity, which DuckDB has one number above
//! where the engine has it. What a cast would change in silence is a bad row here ([`Check`](super::types::Check)).

use std::sync::Arc;

use arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, Int32Array, PrimitiveArray, RecordBatch, StringArray,
    },
    datatypes::{
        DataType, Date32Type, Field, Schema, SchemaRef, Time64MicrosecondType, TimestampMicrosecondType,
    },
};
use tonnage_core::{
    digits::DAY_MICROS,
    error::{Error, Result, arrow_bug},
    parse::{stands_for_no_day, stands_for_no_time, stored_texts},
    reject::sqlstate,
    types::ColumnType,
};

use super::{
    sql::{PLACE, value},
    types::Check,
};

/// A column as it is encoded.
#[derive(Debug, Clone)]
pub(crate) struct Encoded {
    pub(crate) name: String,
    pub(crate) ty: ColumnType,
    pub(crate) check: Check,
    /// Whether a null is the row's fault.
    pub(crate) required: bool,
}

/// The first row that cannot be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub(crate) row: usize,
    pub(crate) column: String,
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

/// Encodes batches of these columns.
pub(crate) struct Encoder {
    columns: Vec<Encoded>,
    schema: SchemaRef,
}

impl Encoder {
    /// Of columns, in the order in which batches have them.
    pub(crate) fn new(columns: Vec<Encoded>) -> Self {
        let values = columns.iter().enumerate().map(|(at, column)| {
            let ty = match column.ty {
                ColumnType::Uuid => DataType::Utf8,
                other => other.arrow(),
            };
            Field::new(value(at), ty, true)
        });
        let place = std::iter::once(Field::new(PLACE, DataType::Int32, false));
        let schema = Arc::new(Schema::new(place.chain(values).collect::<Vec<_>>()));
        Self { columns, schema }
    }

    /// The relation of `rows`, or the first row that cannot be written.
    pub(crate) fn encode(&self, rows: &RecordBatch) -> Result<std::result::Result<RecordBatch, Bad>> {
        let mut bad: Option<Bad> = None;
        let places = i32::try_from(rows.num_rows()).map_err(|_| Error::bug("a write of too many rows"))?;
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(Int32Array::from_iter_values(0..places))];
        for (column, array) in self.columns.iter().zip(rows.columns()) {
            if let Some((row, code, message)) = first_bad(column, array)?
                && bad.as_ref().is_none_or(|bad| row < bad.row)
            {
                bad = Some(Bad {
                    row,
                    column: column.name.clone(),
                    code,
                    message: format!("column '{}': {message}", column.name),
                });
            }
            arrays.push(encoded(column.ty, array)?);
        }
        if let Some(bad) = bad {
            return Ok(Err(bad));
        }
        RecordBatch::try_new(self.schema.clone(), arrays)
            .map(Ok)
            .map_err(arrow_bug)
    }

    /// The values of `rows` of a relation as parameters, in one row.
    pub(crate) fn parameters(relation: &RecordBatch, rows: std::ops::Range<usize>) -> Result<RecordBatch> {
        let each = rows.flat_map(|row| {
            let values = relation.columns().iter().skip(1);
            values.map(move |column| column.slice(row, 1))
        });
        let named = each
            .enumerate()
            .map(|(at, array)| (format!("p{at}"), array, true));
        RecordBatch::try_from_iter_with_nullable(named).map_err(arrow_bug)
    }
}

type Found = Option<(usize, &'static str, String)>;

fn first_bad(column: &Encoded, array: &ArrayRef) -> Result<Found> {
    if column.required && array.null_count() > 0 {
        let null = (0..array.len()).find(|row| array.is_null(*row));
        let said = || "null in a column that takes none".to_owned();
        if let Some(row) = null {
            return Ok(Some((row, sqlstate::NOT_NULL, said())));
        }
    }
    Ok(match (column.ty, column.check) {
        (ColumnType::Timestamp, Check::Tick(tick)) => first::<TimestampMicrosecondType>(array, |micros| {
            let has_fraction = micros != i64::MAX && micros != i64::MIN && micros % tick != 0;
            has_fraction.then_some((
                sqlstate::WOULD_CHANGE,
                "the column keeps no such fraction of a second",
            ))
        }),
        (ColumnType::Timestamp | ColumnType::TimestampTz, _) => {
            first::<TimestampMicrosecondType>(array, |micros| {
                let is_end = micros == i64::MAX || micros == i64::MIN;
                let is_none = stands_for_no_time(micros) && !is_end;
                is_none.then_some((sqlstate::DATETIME_OVERFLOW, "there is no such date"))
            })
        }
        (ColumnType::Date, _) => first::<Date32Type>(array, |days| {
            let is_none = stands_for_no_day(days) && days != i32::MAX && days != i32::MIN;
            is_none.then_some((sqlstate::DATETIME_OVERFLOW, "there is no such date"))
        }),
        (ColumnType::Time, _) => first::<Time64MicrosecondType>(array, |micros| {
            let outside = !(0..=DAY_MICROS).contains(&micros);
            outside.then_some((sqlstate::DATETIME_OVERFLOW, "the time is outside a day"))
        }),
        (ColumnType::Numeric, Check::Whole) => {
            let texts = array.as_string_opt::<i32>();
            let texts = texts.ok_or_else(|| Error::bug("a number without a text"))?;
            let bad = texts
                .iter()
                .position(|text| text.is_some_and(|text| !is_whole(text)));
            bad.map(|row| {
                let said = format!(
                    "'{}' is no whole number, and the column takes no other",
                    texts.value(row)
                );
                (row, sqlstate::WOULD_CHANGE, said)
            })
        }
        _ => None,
    })
}

/// Whether a plain decimal text is of a whole number.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    !whole.is_empty() && whole.bytes().all(|c| c.is_ascii_digit()) && fraction.bytes().all(|c| c == b'0')
}

fn first<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    fault: impl Fn(T::Native) -> Option<(&'static str, &'static str)>,
) -> Found {
    let values = array.as_primitive_opt::<T>()?;
    let mut each = values.iter().enumerate();
    each.find_map(|(row, value)| {
        let (code, said) = fault(value?)?;
        Some((row, code, said.to_owned()))
    })
}

fn encoded(ty: ColumnType, array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match ty {
        ColumnType::Uuid => Arc::new(StringArray::from(stored_texts(array, &ty)?)),
        ColumnType::Date => moved::<Date32Type>(array, i32::MIN, -i32::MAX),
        ColumnType::Timestamp | ColumnType::TimestampTz => {
            moved::<TimestampMicrosecondType>(array, i64::MIN, -i64::MAX)
        }
        _ => array.clone(),
    })
}

/// The array with another number for one that stands for what is no date.
pub(crate) fn moved<T: ArrowPrimitiveType>(array: &ArrayRef, from: T::Native, to: T::Native) -> ArrayRef {
    match array.as_primitive_opt::<T>() {
        Some(values) if values.values().contains(&from) => {
            let moved: PrimitiveArray<T> = values.unary(|value| if value == from { to } else { value });
            Arc::new(moved.with_data_type(array.data_type().clone()))
        }
        _ => array.clone(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, TimestampMicrosecondArray};

    use super::*;

    fn encoder(ty: ColumnType, check: Check) -> Encoder {
        Encoder::new(vec![Encoded {
            name: "a".to_owned(),
            ty,
            check,
            required: false,
        }])
    }

    fn bad(ty: ColumnType, check: Check, array: ArrayRef) -> Option<(usize, &'static str)> {
        let rows = RecordBatch::try_from_iter_with_nullable([("a", array, true)]).unwrap();
        let encoded = encoder(ty, check).encode(&rows).unwrap();
        encoded.err().map(|bad| (bad.row, bad.code))
    }

    #[test]
    fn what_a_cast_would_change_is_a_bad_row() {
        let times = |values: Vec<i64>| -> ArrayRef { Arc::new(TimestampMicrosecondArray::from(values)) };
        let tick = Check::Tick(1_000);
        assert_eq!(
            bad(
                ColumnType::Timestamp,
                tick,
                times(vec![1_000, i64::MAX, i64::MIN])
            ),
            None
        );
        assert_eq!(
            bad(ColumnType::Timestamp, tick, times(vec![1_000, 1_001])),
            Some((1, sqlstate::WOULD_CHANGE))
        );
        let texts = |values: Vec<&str>| -> ArrayRef { Arc::new(StringArray::from(values)) };
        assert_eq!(
            bad(
                ColumnType::Numeric,
                Check::Whole,
                texts(vec!["-12", "7.000", "0"])
            ),
            None
        );
        for text in ["1.5", "NaN", "Infinity", "", ".5", "-"] {
            assert_eq!(
                bad(ColumnType::Numeric, Check::Whole, texts(vec![text])),
                Some((0, sqlstate::WOULD_CHANGE)),
                "{text}"
            );
        }
    }

    #[test]
    fn negative_infinity_is_duckdbs() {
        let days: ArrayRef = Arc::new(Date32Array::from(vec![
            Some(i32::MIN),
            None,
            Some(i32::MAX),
            Some(5),
        ]));
        let rows = RecordBatch::try_from_iter_with_nullable([("a", days, true)]).unwrap();
        let relation = encoder(ColumnType::Date, Check::None)
            .encode(&rows)
            .unwrap()
            .unwrap();
        let wanted = Date32Array::from(vec![Some(-i32::MAX), None, Some(i32::MAX), Some(5)]);
        assert_eq!(relation.column(1).as_primitive::<Date32Type>(), &wanted);
        let parameters = Encoder::parameters(&relation, 1..4).unwrap();
        assert_eq!((parameters.num_columns(), parameters.num_rows()), (3, 1));
    }
}
