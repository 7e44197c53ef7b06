//! A table or the result of a query as a source.
//!
//! Blocks are the batches of a snapshot, as they come. A database cannot be gone back to: what it holds may have changed,
//! and rows have no order that another reading would find again. So there is no identity, and nothing to seek to.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use tonnage_core::{
    error::{Error, Result},
    extent::Extent,
    ledger::InputIdentity,
    reader::{BeyondArrow, ReadColumn, ScanRequest, Snapshot},
    slot::BlockMark,
    source::{Block, Origin, ReadRequest, Source, SourceColumn, SourceSchema, SourceTableInfo},
    stop::Stop,
    target::Target,
};

use crate::unload::Batches;

/// Rows of a database.
pub struct DatabaseSource {
    batches: Batches,
    schema: SourceSchema,
    table_info: SourceTableInfo,
    /// What a user should know of how it is read, a sentence each.
    notes: Vec<String>,
    request: Option<ReadRequest>,
    /// What is left of a batch that is larger than a block.
    rest: Option<RecordBatch>,
    index: u64,
    mark: BlockMark,
}

/// The columns that are read, as those of a source.
pub(crate) fn columns_of(snapshot: &Snapshot) -> Vec<SourceColumn> {
    let column = |column: &ReadColumn| SourceColumn {
        beyond_arrow: BeyondArrow::Carried,
        name: column.name.clone(),
        arrow: column.ty.arrow(),
        suggested: Some(column.ty),
        nullable: column.nullable,
        null_word: None,
    };
    snapshot.columns.iter().map(column).collect()
}

impl DatabaseSource {
    /// Opens what `request` asks for and begins to read it; must be called within an async runtime. Messages call it
    /// `shown`, which must hold no password.
    pub async fn open(target: &dyn Target, shown: &str, request: &ScanRequest) -> Result<Self> {
        let request = ScanRequest {
            // A database that has no such values refuses them row by row.
            beyond_arrow: BeyondArrow::Carried,
            ..request.clone()
        };
        let snapshot = target.scan(&request).await?;
        let required = snapshot.columns.iter().filter(|column| !column.nullable);
        Ok(Self {
            schema: SourceSchema {
                shown: Arc::from(shown),
                columns: columns_of(&snapshot),
                named: true,
                text: false,
                header: false,
                notes: Vec::new(),
            },
            table_info: SourceTableInfo {
                key: snapshot.key.clone(),
                required: required.map(|column| column.name.clone()).collect(),
            },
            notes: snapshot.notes.clone(),
            batches: Batches::of(snapshot, Stop::default()),
            request: None,
            rest: None,
            index: 0,
            mark: BlockMark::default(),
        })
    }

    /// What a user should know of how it is read, a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Source for DatabaseSource {
    fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    fn identity(&self) -> Option<Vec<InputIdentity>> {
        None
    }

    fn not_rereadable(&self) -> &'static str {
        "the input is a database, which may change"
    }

    fn table_info(&self) -> Option<&SourceTableInfo> {
        Some(&self.table_info)
    }

    fn extents(&self) -> &[Extent] {
        &[]
    }

    fn options(&self) -> Vec<String> {
        Vec::new()
    }

    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    fn bytes_total(&self) -> Option<u64> {
        None
    }

    fn request(&mut self, request: &ReadRequest) -> Result<()> {
        self.request = Some(request.clone());
        Ok(())
    }

    fn seek(&mut self, index: u64, _: &BlockMark) -> Result<()> {
        match index == self.index {
            true => Ok(()),
            false => Err(Error::bug("a database was to be read from a place within")),
        }
    }

    fn next(&mut self) -> Result<Option<Block>> {
        let request = self
            .request
            .as_ref()
            .ok_or_else(|| Error::bug("a source was read before it was asked for anything"))?;
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match self.batches.next_blocking()? {
                Some(batch) => batch,
                None => return Ok(None),
            },
        };
        let taken = batch.num_rows().min(request.block_rows.max(1));
        if taken < batch.num_rows() {
            self.rest = Some(batch.slice(taken, batch.num_rows() - taken));
        }
        let places: Vec<_> = request.columns.iter().map(|(column, _)| *column).collect();
        let rows = batch
            .slice(0, taken)
            .project(&places)
            .map_err(|cause| Error::bug(format!("columns of a batch: {cause}")))?;
        let bytes = batch.columns().iter().filter_map(|array| {
            let slice = array.slice(0, taken).to_data();
            slice.get_slice_memory_size().ok()
        });
        let start = self.mark;
        self.mark.rows += taken as u64;
        self.mark.file_rows += taken as u64;
        self.index += 1;
        Ok(Some(Block {
            index: self.index - 1,
            origin: Origin {
                file: self.schema.shown.clone(),
                first_row: start.rows + 1,
                first_offset: None,
                rows: UInt32Array::from_iter_values(0..taken as u32),
                offsets: None,
                places: None,
            },
            rows,
            rejects: Vec::new(),
            start,
            end: self.mark,
            bytes: bytes.sum::<usize>() as u64,
        }))
    }
}
