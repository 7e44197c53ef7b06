//! Writing: a write is a file.
//!
//! - A row is there once its file has its name, and all rows of a write are there at once.
//! - A file gets its name between the ledger's compare-and-set and its commit, while the ledger is locked: who no longer
//!   owns the run gives no name.
//! - The name is made of the run and the first step of the write: the slot, and where it was. The same write sent again
//!   takes the place of the first one.
//! - Where a process ends between the name and the commit, the ledger still has the slot where the name has it. Whoever
//!   takes the run over removes such files before anyone goes on. So no row is there twice, also where the next owner
//!   cuts the rows into other writes.
//!
//! `ROOT/orders/RUN-SLOT-BLOCK-ROWS.jsonl`, with a dot before it until it has its name. Without a ledger nothing is sent
//! again, and any name of its own does.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::array::{Array, RecordBatch};
use async_trait::async_trait;
use tonnage_core::{
    Error, Result,
    ledger::RunHandle,
    operation::Durability,
    reject::sqlstate::{DATETIME_OVERFLOW, NOT_NULL},
    slot::{Advance, Position, SlotState},
    table::{TableName, altered},
    target::{Claim, EachOutcome, Failure, Guard, Outcome, WriteRequest, Writer},
};
use tonnage_sqlite::local::LedgerFile;
use uuid::Uuid;

use super::{
    table::{TableDirectory, failed, names},
    values::texts,
};

/// Writes one lane's rows.
pub struct DirectoryWriter {
    pub root: PathBuf,
    pub request: WriteRequest,
    pub ledger: Option<(Arc<LedgerFile>, RunHandle)>,
    /// The write that was begun: its steps and its lines.
    pub open: Option<(Vec<Advance>, Vec<u8>)>,
}

/// Where the table is, if it is still the one that the plan was made for.
fn unaltered(root: &Path, request: &WriteRequest) -> Result<PathBuf> {
    let now = TableDirectory::find(root, &request.table.name)?;
    match (altered(&request.table, now.as_ref().map(|now| &now.table)), now) {
        (None, Some(now)) => Ok(now.path),
        (what, _) => Err(Error::altered(&request.table.name, what.unwrap_or_default())),
    }
}

/// Removes the files of a run whose steps its ledger does not have.
pub fn remove_leftovers(root: &Path, run_id: &str, slots: &[SlotState]) -> Result<()> {
    let is_leftover = |file: &Path| {
        let step = file.file_stem()?.to_str()?.strip_prefix(run_id)?;
        let mut numbers = step
            .strip_prefix('-')?
            .split('-')
            .map(|number| number.parse().ok());
        let (slot, block, rows) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let slot = slots.iter().find(|known| u64::from(known.slot) == slot)?;
        Some(Position { block, rows } >= slot.position)
    };
    for name in names(root)? {
        let table = TableDirectory::find(root, &TableName::bare(name))?;
        let files = table.map_or_else(|| Ok(Vec::new()), |table| table.files())?;
        for file in files.iter().filter(|file| is_leftover(file) == Some(true)) {
            fs::remove_file(file).map_err(failed(file, "removed"))?;
        }
    }
    Ok(())
}

impl DirectoryWriter {
    /// The rows as lines, or the first bad one: its number, its column, a code and what is wrong.
    fn lines(&self, rows: &RecordBatch) -> Result<std::result::Result<Vec<u8>, Failure>> {
        let mut cells = vec![vec![None; rows.num_rows()]; self.request.table.columns.len()];
        let mut bad = Vec::new();
        for (written, array) in self.request.columns.iter().zip(rows.columns()) {
            let values = texts(array, &written.ty)?;
            let nullable = self.request.table.columns[written.target].nullable;
            let none = |row: &usize| values[*row].is_none() && (array.is_valid(*row) || !nullable);
            let first = (0..values.len()).find(none).map(|row| match array.is_null(row) {
                true => (row, &written.name, NOT_NULL, "takes no nulls"),
                false => (row, &written.name, DATETIME_OVERFLOW, "has no such time"),
            });
            bad.extend(first);
            cells[written.target] = values;
        }
        if let Some((row, column, code, what)) = bad.into_iter().min() {
            let message = format!("column '{column}' {what}");
            return Ok(Err(Failure::of_row(row, column, code, message)));
        }
        let mut lines = Vec::new();
        for row in 0..rows.num_rows() {
            let line: Vec<_> = cells.iter().map(|column| &column[row]).collect();
            serde_json::to_writer(&mut lines, &line).map_err(|cause| Error::bug(format!("JSON: {cause}")))?;
            lines.push(b'\n');
        }
        Ok(Ok(lines))
    }
}

#[async_trait]
impl Writer for DirectoryWriter {
    async fn begin(&mut self, advances: &[Advance]) -> Result<Claim> {
        if let Some((ledger, run)) = &self.ledger
            && ledger.stands(run, advances).await? == Claim::Moved
        {
            return Ok(Claim::Moved);
        }
        unaltered(&self.root, &self.request)?;
        self.open = Some((advances.to_vec(), Vec::new()));
        Ok(Claim::Held)
    }

    fn places(&mut self) -> Option<&mut Vec<u64>> {
        None
    }

    fn requests_max(&self) -> Option<usize> {
        None
    }

    async fn write(&mut self, rows: &RecordBatch, _: Guard) -> Result<Outcome> {
        let lines = self.lines(rows)?;
        let Some((_, open)) = &mut self.open else {
            return Err(Error::bug("rows outside a write"));
        };
        let before = open.len();
        let failure = lines.map(|lines| open.extend(lines)).err();
        Ok(Outcome {
            statements: 1,
            bytes_sent: (open.len() - before) as u64,
            skipped: 0,
            failure,
        })
    }

    async fn write_each(&mut self, _: &RecordBatch) -> Result<Option<EachOutcome>> {
        // A write finds its bad rows before anything is sent.
        Ok(None)
    }

    async fn commit(&mut self, fixed: &[Advance]) -> Result<()> {
        let Some((mut steps, lines)) = self.open.take() else {
            return Err(Error::bug("a commit outside a write"));
        };
        for step in &mut steps {
            *step = *fixed.iter().find(|fixed| fixed.slot == step.slot).unwrap_or(step);
        }
        let name = match (&self.ledger, steps.first()) {
            (Some((_, run)), Some(Advance { slot, from, .. })) => {
                format!("{}-{slot}-{}-{}.jsonl", run.run_id, from.block, from.rows)
            }
            _ => format!("{}.jsonl", Uuid::now_v7()),
        };
        let (root, request) = (self.root.clone(), self.request.clone());
        let is_durable = request.durability == Durability::Durable;
        let hidden = unaltered(&root, &request)?.join(format!(".{name}"));
        let synced = move |file: File| if is_durable { file.sync_all() } else { Ok(()) };
        File::create(&hidden)
            .and_then(|mut file| file.write_all(&lines).and_then(|()| synced(file)))
            .map_err(failed(&hidden, "written"))?;
        let place = move || {
            let path = unaltered(&root, &request)?;
            fs::rename(&hidden, path.join(name))
                .and_then(|()| synced(File::open(&path)?))
                .map_err(failed(&hidden, "renamed"))
        };
        match &self.ledger {
            Some((ledger, run)) => ledger.advance_with(run, steps, place).await,
            None => place(),
        }
    }

    async fn rollback(&mut self) -> Result<()> {
        self.open = None;
        Ok(())
    }
}
