//! Values of what comes out of a database as objects of Python, for those who have no pyarrow: the objects are what pyarrow's
//! `to_pylist` gives. The types are those of [`tonnage::types::ColumnType::arrow`].

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Field, Float32Type, Float64Type, Int16Type, Int32Type,
        Int64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
    },
};
use pyo3::{
    IntoPyObjectExt,
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBytes, PyDict, PyList},
};

/// The number of 1970-01-01 in Python's calendar.
const EPOCH_ORDINAL: i64 = 719_163;

/// The rows of a batch as dicts.
pub fn dicts<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Bound<'py, PyList>> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns = columns
        .map(|(field, column)| Ok((field.name(), column, Maker::of(py, field)?)))
        .collect::<PyResult<Vec<_>>>()?;
    let rows = PyList::empty(py);
    for row in 0..batch.num_rows() {
        let dict = PyDict::new(py);
        for (name, column, maker) in &columns {
            dict.set_item(name, maker.value(py, column, row)?)?;
        }
        rows.append(dict)?;
    }
    Ok(rows)
}

/// What the values of a column are made with.
enum Maker<'py> {
    /// Values that Python has literals of.
    Literal,
    /// A class, or a method of one.
    Class(Bound<'py, PyAny>),
    /// A moment is the epoch and a difference.
    Timestamp {
        epoch: Bound<'py, PyAny>,
        difference: Bound<'py, PyAny>,
    },
}

impl<'py> Maker<'py> {
    fn of(py: Python<'py>, field: &Field) -> PyResult<Self> {
        let datetime = || py.import("datetime");
        Ok(match field.data_type() {
            DataType::Decimal128(..) => Self::Class(py.import("decimal")?.getattr("Decimal")?),
            DataType::FixedSizeBinary(16) => Self::Class(py.import("uuid")?.getattr("UUID")?),
            DataType::Date32 => Self::Class(datetime()?.getattr("date")?.getattr("fromordinal")?),
            DataType::Time64(TimeUnit::Microsecond) => Self::Class(datetime()?.getattr("time")?),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                let zone = match zone {
                    None => None,
                    Some(_) => Some(datetime()?.getattr("timezone")?.getattr("utc")?),
                };
                Self::Timestamp {
                    epoch: datetime()?
                        .getattr("datetime")?
                        .call1((1970, 1, 1, 0, 0, 0, 0, zone))?,
                    difference: datetime()?.getattr("timedelta")?,
                }
            }
            _ => Self::Literal,
        })
    }

    fn value(&self, py: Python<'py>, column: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
        if column.is_null(row) {
            return Ok(py.None().into_bound(py));
        }
        macro_rules! number {
            ($type:ty) => {
                column
                    .as_primitive::<$type>()
                    .value(row)
                    .into_bound_py_any(py)
            };
        }
        match (self, column.data_type()) {
            (_, DataType::Boolean) => column.as_boolean().value(row).into_bound_py_any(py),
            (_, DataType::Int16) => number!(Int16Type),
            (_, DataType::Int32) => number!(Int32Type),
            (_, DataType::Int64) => number!(Int64Type),
            (_, DataType::Float32) => number!(Float32Type),
            (_, DataType::Float64) => number!(Float64Type),
            (_, DataType::Utf8) => column.as_string::<i32>().value(row).into_bound_py_any(py),
            (_, DataType::Binary) => Ok(PyBytes::new(py, column.as_binary::<i32>().value(row)).into_any()),
            (Self::Class(decimal), DataType::Decimal128(..)) => {
                decimal.call1((column.as_primitive::<Decimal128Type>().value_as_string(row),))
            }
            (Self::Class(uuid), DataType::FixedSizeBinary(_)) => {
                let bytes = PyBytes::new(py, column.as_fixed_size_binary().value(row));
                uuid.call1((py.None(), bytes))
            }
            (Self::Class(from_ordinal), DataType::Date32) => {
                let days = i64::from(column.as_primitive::<Date32Type>().value(row));
                from_ordinal.call1((days + EPOCH_ORDINAL,))
            }
            (Self::Class(time), DataType::Time64(_)) => {
                let micros = column.as_primitive::<Time64MicrosecondType>().value(row);
                let seconds = micros / 1_000_000;
                time.call1((
                    seconds / 3_600,
                    seconds / 60 % 60,
                    seconds % 60,
                    micros % 1_000_000,
                ))
            }
            (Self::Timestamp { epoch, difference }, _) => {
                let micros = column.as_primitive::<TimestampMicrosecondType>().value(row);
                epoch.add(difference.call1((0, 0, micros))?)
            }
            (_, other) => Err(PyTypeError::new_err(format!(
                "values of the type {other} are objects by pyarrow only: to_arrow().to_pylist()"
            ))),
        }
    }
}
