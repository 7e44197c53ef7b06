//! A member's writer, whose errors say which member it is.

use arrow::array::RecordBatch;
use async_trait::async_trait;
use tonnage_core::{
    error::Result,
    slot::Advance,
    target::{Claim, EachOutcome, Guard, Outcome, Writer},
};

pub(super) struct MemberWriter {
    pub name: String,
    pub writer: Box<dyn Writer>,
}

#[async_trait]
impl Writer for MemberWriter {
    async fn begin(&mut self, advances: &[Advance]) -> Result<Claim> {
        let begun = self.writer.begin(advances).await;
        begun.map_err(|error| error.at(&self.name))
    }

    fn places(&mut self) -> Option<&mut Vec<u64>> {
        self.writer.places()
    }

    fn requests_max(&self) -> Option<usize> {
        self.writer.requests_max()
    }

    async fn write(&mut self, rows: &RecordBatch, guard: Guard) -> Result<Outcome> {
        let written = self.writer.write(rows, guard).await;
        written.map_err(|error| error.at(&self.name))
    }

    async fn write_each(&mut self, rows: &RecordBatch) -> Result<Option<EachOutcome>> {
        let written = self.writer.write_each(rows).await;
        written.map_err(|error| error.at(&self.name))
    }

    async fn commit(&mut self, advances: &[Advance]) -> Result<()> {
        let committed = self.writer.commit(advances).await;
        committed.map_err(|error| error.at(&self.name))
    }

    async fn rollback(&mut self) -> Result<()> {
        let undone = self.writer.rollback().await;
        undone.map_err(|error| error.at(&self.name))
    }
}
