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
//! `ROOT/orders/RUN-SLOT-BLOCK-ROWS.jsonl`, and `.RUN-UUID` until it has its name: no two writers share a file, and whoever
//! takes the run over removes those too. Without a ledger nothing is sent again, and any name of its own does.

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
    parse::stored_texts,
    reject::sqlstate::{DATETIME_OVERFLOW, NOT_NULL},
    slot::{Advance, Position, SlotState, at_commit},
    table::check_unaltered,
    target::{Claim, EachOutcome, Failure, Guard, Outcome, WriteRequest, Writer},
};
use tonnage_sqlite::local::LedgerFile;
use uuid::Uuid;

use super::table::{self, entries, failed};

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
    let name = &request.table.name;
    check_unaltered(&request.table, table::find(root, name)?.as_ref())?;
    Ok(root.join(&name.name))
}

/// Removes the files of a run that have no name yet, and those whose steps its ledger does not have.
pub fn remove_leftovers(root: &Path, run_id: &str, slots: &[SlotState]) -> Result<()> {
    let is_beyond = |name: &str| {
        let step = name.strip_prefix(run_id)?.strip_suffix(".jsonl")?;
        let mut numbers = step.split('-').skip(1).map(|number| number.parse().ok());
        let (slot, block, rows) = (numbers.next()??, numbers.next()??, numbers.next()??);
        let slot = slots.iter().find(|known| u64::from(known.slot) == slot)?;
        Some(Position { block, rows } >= slot.position)
    };
    let unnamed = format!(".{run_id}-");
    for table in table::names(root)? {
        let path = root.join(table);
        for name in entries(&path)? {
            if name.starts_with(&unnamed) || is_beyond(&name) == Some(true) {
                fs::remove_file(path.join(&name)).map_err(failed(&path.join(name), "removed"))?;
            }
        }
    }
    Ok(())
}

impl DirectoryWriter {
    /// The rows as lines, or the first bad one: its number, its column, a code and what is wrong.
    fn lines(&self, rows: &RecordBatch) -> Result<std::result::Result<Vec<u8>, Failure>> {
        let WriteRequest { table, columns, .. } = &self.request;
        let written = columns.iter().zip(rows.columns());
        let texts = written.map(|(column, array)| Ok((column, array, stored_texts(array, &column.ty)?)));
        let texts: Vec<_> = texts.collect::<Result<_>>()?;
        let mut lines = Vec::new();
        for row in 0..rows.num_rows() {
            let mut line = vec![None; table.columns.len()];
            for (column, array, texts) in &texts {
                line[column.target] = texts[row].as_deref();
                let (code, what) = match array.is_null(row) {
                    true if !table.columns[column.target].nullable => (NOT_NULL, "takes no nulls"),
                    false if texts[row].is_none() => (DATETIME_OVERFLOW, "has no such time"),
                    _ => continue,
                };
                let message = format!("column '{}' {what}", column.name);
                return Ok(Err(Failure::of_row(row, &column.name, code, message)));
            }
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
        let open = self.open.as_mut();
        let (_, open) = open.ok_or_else(|| Error::bug("rows outside a write"))?;
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
        let open = self.open.take();
        let (begun, lines) = open.ok_or_else(|| Error::bug("a commit outside a write"))?;
        let steps = at_commit(begun, fixed);
        let own = Uuid::now_v7();
        let run = self.ledger.as_ref().map_or("", |(_, run)| &run.run_id);
        let name = match steps.first().filter(|_| self.ledger.is_some()) {
            Some(Advance { slot, from, .. }) => format!("{run}-{slot}-{}-{}.jsonl", from.block, from.rows),
            None => format!("{own}.jsonl"),
        };
        let (root, request) = (self.root.clone(), self.request.clone());
        let is_durable = request.durability == Durability::Durable;
        let hidden = unaltered(&root, &request)?.join(format!(".{run}-{own}"));
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
