//! Objects of Python as rows: mappings, or sequences whose places are columns.
//!
//! A value goes as text that the engine reads as it reads JSON, so that it is checked as that of a file is. What has no text
//! of its own ends the load; nothing is written as its `repr`.

use std::{collections::VecDeque, io::Write};

use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{
        PyBool, PyBytes, PyDict, PyFloat, PyInt, PyIterator, PyList, PyMapping, PySequence, PyString, PyTuple,
    },
};
use tonnage::Row;

use crate::source::Raised;

/// Rows that are taken at a time, while the interpreter is held.
const CHUNK: usize = 256;

/// Nested values are refused beyond this depth.
const DEPTH_MAX: usize = 64;

/// The rows of an iterable.
pub struct Objects {
    iterator: Py<PyIterator>,
    columns: Vec<String>,
    nan_is_null: bool,
    raised: Raised,
    ready: VecDeque<Row>,
    /// Rows that came so far.
    count: u64,
    ended: bool,
}

impl Objects {
    /// Of `objects`: mappings, or sequences of as many values as there are columns.
    pub fn new(
        objects: &Bound<'_, PyAny>,
        columns: Vec<String>,
        nan_is_null: bool,
        raised: Raised,
    ) -> PyResult<Self> {
        Ok(Self {
            iterator: objects.try_iter()?.unbind(),
            columns,
            nan_is_null,
            raised,
            ready: VecDeque::new(),
            count: 0,
            ended: false,
        })
    }

    fn fill(&mut self, py: Python<'_>) -> PyResult<()> {
        let mut iterator = self.iterator.bind(py).clone();
        while self.ready.len() < CHUNK {
            let Some(object) = iterator.next().transpose()? else {
                self.ended = true;
                break;
            };
            self.count += 1;
            let text =
                row(&object, &self.columns, self.nan_is_null).map_err(|error| at(py, &error, self.count))?;
            self.ready.push_back(Row::json(text));
        }
        Ok(())
    }
}

/// The error, and which row it is of.
fn at(py: Python<'_>, error: &PyErr, row: u64) -> PyErr {
    match error.is_instance_of::<PyTypeError>(py) {
        true => PyTypeError::new_err(format!("row {row}: {}", error.value(py))),
        false => error.clone_ref(py),
    }
}

impl Iterator for Objects {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        if self.ready.is_empty() && !self.ended {
            Python::attach(|py| {
                if let Err(error) = self.fill(py) {
                    // The source that this is in looks for it.
                    let _ = self.raised.keep(py, error);
                    self.ended = true;
                }
            });
        }
        self.ready.pop_front()
    }
}

/// A row as JSON.
pub fn row(object: &Bound<'_, PyAny>, columns: &[String], nan_is_null: bool) -> PyResult<Vec<u8>> {
    let mut text = Vec::with_capacity(128);
    if let Ok(mapping) = object.cast::<PyMapping>() {
        write_mapping(&mut text, mapping, nan_is_null, 0)?;
        return Ok(text);
    }
    let sequence = object
        .cast::<PySequence>()
        .ok()
        .filter(|_| !object.is_instance_of::<PyString>());
    let Some(sequence) = sequence else {
        return Err(PyTypeError::new_err(format!(
            "a row is a dict, or a tuple with columns=, and this is a {}",
            object.get_type().name()?
        )));
    };
    if columns.is_empty() {
        return Err(PyTypeError::new_err(
            "nothing says which columns the values of a tuple are of: columns=[\"id\", ..] does",
        ));
    }
    if sequence.len()? != columns.len() {
        return Err(PyTypeError::new_err(format!(
            "there are {} values, and {} columns",
            sequence.len()?,
            columns.len()
        )));
    }
    text.push(b'{');
    for (at, (column, value)) in columns.iter().zip(sequence.try_iter()?).enumerate() {
        if at > 0 {
            text.push(b',');
        }
        write_text(&mut text, column);
        text.push(b':');
        write_value(&mut text, &value?, nan_is_null, 0)
            .map_err(|error| of_column(object.py(), &error, column))?;
    }
    text.push(b'}');
    Ok(text)
}

fn of_column(py: Python<'_>, error: &PyErr, column: &str) -> PyErr {
    match error.is_instance_of::<PyTypeError>(py) {
        true => PyTypeError::new_err(format!("column '{column}': {}", error.value(py))),
        false => error.clone_ref(py),
    }
}

fn write_mapping(
    text: &mut Vec<u8>,
    mapping: &Bound<'_, PyMapping>,
    nan_is_null: bool,
    depth: usize,
) -> PyResult<()> {
    text.push(b'{');
    for (at, item) in mapping.items()?.iter().enumerate() {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        let key = key
            .cast::<PyString>()
            .map_err(|_| PyTypeError::new_err(format!("a key is {key}, and names of columns are texts")))?;
        if at > 0 {
            text.push(b',');
        }
        let key = key.to_string_lossy();
        write_text(text, &key);
        text.push(b':');
        let written = write_value(text, &value, nan_is_null, depth);
        written.map_err(|error| match depth {
            0 => of_column(mapping.py(), &error, &key),
            _ => error,
        })?;
    }
    text.push(b'}');
    Ok(())
}

fn write_text(text: &mut Vec<u8>, value: &str) {
    // A text is always JSON, and writing to memory does not fail.
    let _ = serde_json::to_writer(text, value);
}

fn write_value(
    text: &mut Vec<u8>,
    value: &Bound<'_, PyAny>,
    nan_is_null: bool,
    depth: usize,
) -> PyResult<()> {
    if depth > DEPTH_MAX {
        return Err(PyTypeError::new_err(format!(
            "a value is nested more than {DEPTH_MAX} deep"
        )));
    }
    if value.is_none() {
        text.extend_from_slice(b"null");
    } else if let Ok(string) = value.cast::<PyString>() {
        let string = string.to_cow();
        write_text(
            text,
            &string
                .map_err(|_| PyTypeError::new_err("a text has a lone surrogate, which is no character"))?,
        );
    } else if let Ok(truth) = value.cast::<PyBool>() {
        text.extend_from_slice(if truth.is_true() { b"true" } else { b"false" });
    } else if value.is_exact_instance_of::<PyInt>() {
        text.extend_from_slice(value.str()?.to_cow()?.as_bytes());
    } else if let Ok(float) = value.cast::<PyFloat>() {
        write_float(text, float.value(), nan_is_null);
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        text.extend_from_slice(b"\"\\\\x");
        for byte in bytes.as_bytes() {
            let _ = write!(text, "{byte:02x}");
        }
        text.push(b'"');
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        text.push(b'[');
        for (at, value) in value.try_iter()?.enumerate() {
            if at > 0 {
                text.push(b',');
            }
            write_value(text, &value?, nan_is_null, depth + 1)?;
        }
        text.push(b']');
    } else if value.is_instance_of::<PyDict>() {
        write_mapping(text, value.cast::<PyMapping>()?, nan_is_null, depth + 1)?;
    } else {
        write_other(text, value, nan_is_null, depth)?;
    }
    Ok(())
}

fn write_float(text: &mut Vec<u8>, value: f64, nan_is_null: bool) {
    if value.is_nan() && nan_is_null {
        text.extend_from_slice(b"null");
    } else if value.is_finite() {
        // The shortest text that is this number again.
        let _ = write!(text, "{value:?}");
    } else {
        let _ = write!(text, "\"{value}\"");
    }
}

/// Values of the standard library, numpy and pandas, told by what they have.
fn write_other(
    text: &mut Vec<u8>,
    value: &Bound<'_, PyAny>,
    nan_is_null: bool,
    depth: usize,
) -> PyResult<()> {
    let kind = value.get_type().name()?.to_string();
    match kind.as_str() {
        "NaTType" | "NAType" => {
            text.extend_from_slice(b"null");
            return Ok(());
        }
        "Decimal" => {
            let number = value.str()?;
            let number = number.to_cow()?;
            match value.call_method0("is_finite")?.is_truthy()? {
                true => text.extend_from_slice(number.as_bytes()),
                false if nan_is_null && value.call_method0("is_nan")?.is_truthy()? => {
                    text.extend_from_slice(b"null");
                }
                false => write_text(text, &number),
            }
            return Ok(());
        }
        "UUID" | "timedelta" | "Timedelta" | "IPv4Address" | "IPv6Address" | "IPv4Network"
        | "IPv6Network" => {
            write_text(text, &value.str()?.to_cow()?);
            return Ok(());
        }
        "bytearray" | "memoryview" => {
            let bytes = value.py().get_type::<PyBytes>().call1((value,))?;
            return write_value(text, &bytes, nan_is_null, depth + 1);
        }
        // As items they would be numbers where their unit is finer than Python's.
        "datetime64" | "timedelta64" => return write_numpy_time(text, value, &kind),
        _ => {}
    }
    if let Ok(time) = value.call_method0("isoformat") {
        write_text(text, &time.str()?.to_cow()?);
        return Ok(());
    }
    if let Ok(scalar) = value.call_method0("item")
        && !scalar.get_type().is(value.get_type())
    {
        return write_value(text, &scalar, nan_is_null, depth + 1);
    }
    if value.is_instance_of::<PyInt>() {
        let plain = value.py().get_type::<PyInt>().call1((value,))?;
        text.extend_from_slice(plain.str()?.to_cow()?.as_bytes());
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "a value of type {kind} has no form that a column takes"
    )))
}

fn write_numpy_time(text: &mut Vec<u8>, value: &Bound<'_, PyAny>, kind: &str) -> PyResult<()> {
    let shown = value.str()?;
    let shown = shown.to_cow()?;
    if shown == "NaT" {
        text.extend_from_slice(b"null");
        return Ok(());
    }
    if kind == "datetime64" {
        write_text(text, &shown);
        return Ok(());
    }
    let difference = value.call_method0("item")?;
    if difference.is_instance_of::<PyInt>() {
        return Err(PyTypeError::new_err(
            "a timedelta64 of this unit has no form that a column takes: datetime.timedelta and pandas.Timedelta have",
        ));
    }
    write_text(text, &difference.str()?.to_cow()?);
    Ok(())
}
