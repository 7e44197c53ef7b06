//! Bad rows told before they are put, by the same code that reads them on their way to the table.
//!
//! What only the database can tell (a key that exists, a constraint) is not found here.

use std::{sync::Arc, time::Instant};

use tonnage_core::{error::Result, reject::Reject};

use super::{
    form::Forms,
    row::{Chunk, Rows},
    shape::Shape,
};

/// Tells which rows cannot be read for the table as it is. [`Buffer::check`](super::Buffer::check) makes one.
pub struct Check {
    shape: Arc<Shape>,
    number: u64,
    forms: Forms,
}

impl Check {
    pub(super) fn new(shape: Arc<Shape>) -> Result<Self> {
        let (number, planner) = shape.planner();
        Ok(Self {
            forms: Forms::new(planner, 0)?,
            number,
            shape,
        })
    }

    /// The bad ones among `rows`, in their order; [`Reject::row`] counts from `first`, which is that of the first row and
    /// at least 1.
    pub fn rejects(&mut self, rows: &Rows, first: u64) -> Result<Vec<Reject>> {
        if self.shape.number() != self.number {
            *self = Self::new(self.shape.clone())?;
        }
        let chunk = Chunk {
            first,
            born: Instant::now(),
            rows: rows.clone(),
            tag: None,
        };
        let batches = self.forms.read(std::slice::from_ref(&chunk))?;
        let segments = batches
            .into_iter()
            .flat_map(|batch| batch.pieces)
            .flat_map(|piece| piece.segments);
        Ok(segments.flat_map(|segment| segment.rejects).collect())
    }
}
