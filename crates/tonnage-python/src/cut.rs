//! An unload that was cut into parts for other processes, and what holds their state.

use std::sync::{Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use pyo3::prelude::*;
use tonnage::{
    Result,
    reader::{self, CutScan, Reader},
};

use crate::stream::{Stream, json};

/// The parts. Their state, where they have one, ends with this object.
#[pyclass(frozen)]
pub struct Cut {
    parts: Vec<String>,
    schema: SchemaRef,
    notes: Vec<String>,
    holder: Mutex<Option<Box<dyn Reader>>>,
}

impl Cut {
    /// Of what a target has cut.
    pub fn of(cut: CutScan) -> Result<Self> {
        Ok(Self {
            parts: cut.parts.iter().map(json).collect::<Result<_>>()?,
            schema: reader::schema(&cut.columns),
            notes: cut.notes,
            holder: Mutex::new(cut.holder),
        })
    }

    fn end(&self) {
        *self.holder.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[pymethods]
impl Cut {
    /// Each part, for [`unload_part`](crate::database::Database).
    #[getter]
    fn parts(&self) -> Vec<String> {
        self.parts.clone()
    }

    /// What one should know.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Whether all parts are of one state, which this object holds.
    #[getter]
    fn holds(&self) -> bool {
        self.holder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// No row, with the columns.
    fn empty(&self) -> Stream {
        Stream::of(self.schema.clone(), Vec::new())
    }

    /// Ends the state: parts that are begun later fail.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }
}
