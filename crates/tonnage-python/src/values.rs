//! Values of Arrow as objects of Python, for those who have no pyarrow. The objects are what pyarrow's `to_pylist` gives,
//! and times finer than a microsecond, which no object of the standard library holds, are an error.

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{
        ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal128Type, Decimal256Type, Field,
        Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
        Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
        UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use pyo3::{
    IntoPyObjectExt,
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBytes, PyDict, PyList},
};

/// The name of Arrow's extension type of UUIDs.
const UUID: &str = "arrow.uuid";
const MICROS_A_DAY: i64 = 86_400_000_000;

/// The rows of a batch as dicts.
pub fn dicts<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Bound<'py, PyList>> {
    let schema = batch.schema();
    let converters = schema.fields().iter().zip(batch.columns());
    let converters = converters
        .map(|(field, column)| Ok((field.name(), Converter::of(py, field, column)?)))
        .collect::<PyResult<Vec<_>>>()?;
    let rows = PyList::empty(py);
    for row in 0..batch.num_rows() {
        let dict = PyDict::new(py);
        for (name, converter) in &converters {
            dict.set_item(name, converter.value(py, row)?)?;
        }
        rows.append(dict)?;
    }
    Ok(rows)
}

/// A column, and what its values are made with.
struct Converter<'a, 'py> {
    column: &'a ArrayRef,
    /// The class of the values that Python has no literal of.
    class: Option<Bound<'py, PyAny>>,
    /// What a value of a column with a time zone has.
    zone: Option<Bound<'py, PyAny>>,
}

impl<'a, 'py> Converter<'a, 'py> {
    fn of(py: Python<'py>, field: &Field, column: &'a ArrayRef) -> PyResult<Self> {
        let class = |module: &str, name: &str| py.import(module)?.getattr(name).map(Some);
        let mut zone = None;
        let class = match column.data_type() {
            DataType::Decimal128(..) | DataType::Decimal256(..) => class("decimal", "Decimal")?,
            DataType::FixedSizeBinary(16) if field.extension_type_name() == Some(UUID) => {
                class("uuid", "UUID")?
            }
            DataType::Date32 | DataType::Date64 => class("datetime", "date")?,
            DataType::Time32(_) | DataType::Time64(_) => class("datetime", "time")?,
            DataType::Timestamp(_, name) => {
                if let Some(name) = name {
                    zone = Some(match &**name {
                        "UTC" | "+00:00" => py.import("datetime")?.getattr("timezone")?.getattr("utc")?,
                        name => py.import("zoneinfo")?.getattr("ZoneInfo")?.call1((name,))?,
                    });
                }
                class("datetime", "datetime")?
            }
            _ => None,
        };
        Ok(Self { column, class, zone })
    }

    fn value(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let column = self.column;
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
        match column.data_type() {
            DataType::Null => Ok(py.None().into_bound(py)),
            DataType::Boolean => column.as_boolean().value(row).into_bound_py_any(py),
            DataType::Int8 => number!(Int8Type),
            DataType::Int16 => number!(Int16Type),
            DataType::Int32 => number!(Int32Type),
            DataType::Int64 => number!(Int64Type),
            DataType::UInt8 => number!(UInt8Type),
            DataType::UInt16 => number!(UInt16Type),
            DataType::UInt32 => number!(UInt32Type),
            DataType::UInt64 => number!(UInt64Type),
            DataType::Float16 => column
                .as_primitive::<Float16Type>()
                .value(row)
                .to_f32()
                .into_bound_py_any(py),
            DataType::Float32 => number!(Float32Type),
            DataType::Float64 => number!(Float64Type),
            DataType::Utf8 => column.as_string::<i32>().value(row).into_bound_py_any(py),
            DataType::LargeUtf8 => column.as_string::<i64>().value(row).into_bound_py_any(py),
            DataType::Utf8View => column.as_string_view().value(row).into_bound_py_any(py),
            DataType::Binary => bytes(py, column.as_binary::<i32>().value(row)),
            DataType::LargeBinary => bytes(py, column.as_binary::<i64>().value(row)),
            DataType::BinaryView => bytes(py, column.as_binary_view().value(row)),
            DataType::FixedSizeBinary(_) => {
                let value = bytes(py, column.as_fixed_size_binary().value(row))?;
                match &self.class {
                    None => Ok(value),
                    Some(class) => {
                        let names = PyDict::new(py);
                        names.set_item("bytes", value)?;
                        class.call((), Some(&names))
                    }
                }
            }
            DataType::Decimal128(..) => {
                self.made((column.as_primitive::<Decimal128Type>().value_as_string(row),))
            }
            DataType::Decimal256(..) => {
                self.made((column.as_primitive::<Decimal256Type>().value_as_string(row),))
            }
            DataType::Date32 => self.date(i64::from(column.as_primitive::<Date32Type>().value(row))),
            DataType::Date64 => self.date(
                column
                    .as_primitive::<Date64Type>()
                    .value(row)
                    .div_euclid(86_400_000),
            ),
            DataType::Time32(TimeUnit::Second) => {
                self.time(micros::<Time32SecondType>(column, row, TimeUnit::Second)?)
            }
            DataType::Time32(_) => self.time(micros::<Time32MillisecondType>(
                column,
                row,
                TimeUnit::Millisecond,
            )?),
            DataType::Time64(TimeUnit::Nanosecond) => {
                self.time(micros::<Time64NanosecondType>(column, row, TimeUnit::Nanosecond)?)
            }
            DataType::Time64(_) => self.time(micros::<Time64MicrosecondType>(
                column,
                row,
                TimeUnit::Microsecond,
            )?),
            DataType::Timestamp(unit, _) => self.timestamp(
                py,
                match unit {
                    TimeUnit::Second => micros::<TimestampSecondType>(column, row, *unit)?,
                    TimeUnit::Millisecond => micros::<TimestampMillisecondType>(column, row, *unit)?,
                    TimeUnit::Microsecond => micros::<TimestampMicrosecondType>(column, row, *unit)?,
                    TimeUnit::Nanosecond => micros::<TimestampNanosecondType>(column, row, *unit)?,
                },
            ),
            DataType::List(field) => list(py, field, &column.as_list::<i32>().value(row)),
            DataType::LargeList(field) => list(py, field, &column.as_list::<i64>().value(row)),
            DataType::FixedSizeList(field, _) => list(py, field, &column.as_fixed_size_list().value(row)),
            DataType::Struct(_) => {
                let one = RecordBatch::from(column.as_struct().slice(row, 1));
                dicts(py, &one)?.get_item(0)
            }
            other => Err(PyTypeError::new_err(format!(
                "values of the type {other} are objects by pyarrow only: to_arrow().to_pylist()"
            ))),
        }
    }

    fn made(&self, arguments: impl pyo3::call::PyCallArgs<'py>) -> PyResult<Bound<'py, PyAny>> {
        let class = self.class.as_ref();
        class
            .ok_or_else(|| PyTypeError::new_err("the column has no class"))?
            .call1(arguments)
    }

    /// A day after 1970-01-01, whose number is 719,163 in Python's calendar.
    fn date(&self, days: i64) -> PyResult<Bound<'py, PyAny>> {
        let class = self
            .class
            .as_ref()
            .ok_or_else(|| PyTypeError::new_err("the column has no class"))?;
        class.call_method1("fromordinal", (days.saturating_add(719_163),))
    }

    fn time(&self, micros: i64) -> PyResult<Bound<'py, PyAny>> {
        let seconds = micros / 1_000_000;
        self.made((
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60,
            micros % 1_000_000,
        ))
    }

    /// A moment by its wall clock, or in its zone.
    fn timestamp(&self, py: Python<'py>, micros: i64) -> PyResult<Bound<'py, PyAny>> {
        let (days, micros) = (micros.div_euclid(MICROS_A_DAY), micros.rem_euclid(MICROS_A_DAY));
        let class = self
            .class
            .as_ref()
            .ok_or_else(|| PyTypeError::new_err("the column has no class"))?;
        let day = class.call_method1("fromordinal", (days.saturating_add(719_163),))?;
        let delta = py
            .import("datetime")?
            .getattr("timedelta")?
            .call1((0, 0, micros))?;
        let wall = day.call_method1("__add__", (delta,))?;
        match &self.zone {
            None => Ok(wall),
            Some(zone) => {
                let utc = py.import("datetime")?.getattr("timezone")?.getattr("utc")?;
                let names = PyDict::new(py);
                names.set_item("tzinfo", utc)?;
                wall.call_method("replace", (), Some(&names))?
                    .call_method1("astimezone", (zone,))
            }
        }
    }
}

fn bytes<'py>(py: Python<'py>, value: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyBytes::new(py, value).into_any())
}

fn list<'py>(py: Python<'py>, field: &Field, values: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let converter = Converter::of(py, field, values)?;
    let made = (0..values.len())
        .map(|row| converter.value(py, row))
        .collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, made)?.into_any())
}

/// A value in microseconds. An error where it has finer parts.
fn micros<T>(column: &ArrayRef, row: usize, unit: TimeUnit) -> PyResult<i64>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i64>,
{
    let value: i64 = column.as_primitive::<T>().value(row).into();
    let many = match unit {
        TimeUnit::Second => value.checked_mul(1_000_000),
        TimeUnit::Millisecond => value.checked_mul(1_000),
        TimeUnit::Microsecond => Some(value),
        TimeUnit::Nanosecond => (value % 1_000 == 0).then_some(value / 1_000),
    };
    many.ok_or_else(|| {
        PyValueError::new_err(format!(
            "{value} {unit:?}s is no whole number of microseconds within an object's bounds; to_arrow() keeps it"
        ))
    })
}
