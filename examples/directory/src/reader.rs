//! Reading: a file is a split.
//!
//! - The files are those that are there when the scan begins, each a whole write, and no file changes. One that is removed
//!   before it is read is an error.
//! - A line that is not a row of the table is an error that names it, never a row left out.

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use tonnage_core::{
    Error, Result,
    error::arrow_bug,
    parse::parse_stored,
    reader::{
        BatchBounds, ReadColumn, Reader, Relation, ScanRequest, Snapshot, no_table, read_columns, schema,
        wanted,
    },
};

use super::table::{self, failed};

type Row = Vec<Option<String>>;

/// What the readers of a table share.
struct Opened {
    columns: Vec<ReadColumn>,
    /// Where each column is among the values of a line, and how many these are.
    places: Vec<usize>,
    line_values: usize,
    /// The files of each split.
    splits: Vec<Vec<PathBuf>>,
    limit: usize,
    batch: BatchBounds,
}

struct DirectoryReader {
    opened: Arc<Opened>,
    /// What is left of the split.
    rows: Box<dyn Iterator<Item = Result<Row>> + Send>,
}

/// Finds the files of a table.
pub fn scan(root: &Path, request: &ScanRequest) -> Result<Snapshot> {
    let (Relation::Table(name), None, None) = (&request.relation, &request.filter, &request.split_by) else {
        return Err(Error::config("a directory has no SQL, and is read file by file"));
    };
    let names = table::names(root)?;
    let table = table::find(root, name)?.ok_or_else(|| no_table(name, &names))?;
    let known = table.columns.iter().map(|column| column.name.as_str());
    let wanted = wanted(request, &name.name, known, 0..table.columns.len())?;
    let files = table::files(&root.join(&table.name.name))?;
    let opened = Arc::new(Opened {
        columns: read_columns(&table, &wanted),
        places: wanted.iter().map(|(at, _)| *at).collect(),
        line_values: table.columns.len(),
        splits: match request.limit {
            None => files.into_iter().map(|file| vec![file]).collect(),
            // Only who reads all files can count their rows.
            Some(_) => vec![files],
        },
        limit: request.limit.map_or(usize::MAX, |limit| limit as usize),
        batch: request.batch,
    });
    let splits = opened.splits.len();
    let reader = |_| -> Box<dyn Reader> {
        Box::new(DirectoryReader {
            opened: opened.clone(),
            rows: Box::new(std::iter::empty()),
        })
    };
    Ok(Snapshot {
        table: Some(table.name),
        columns: opened.columns.clone(),
        key: Vec::new(),
        splits,
        readers: (0..request.readers.clamp(1, splits.max(1))).map(reader).collect(),
        consistency: "the files that are there when the scan begins, each a whole write",
        settings_changed: Vec::new(),
        notes: Vec::new(),
    })
}

/// The rows of a file.
fn rows(path: &Path, values: usize) -> Result<impl Iterator<Item = Result<Row>> + use<>> {
    let path = path.to_owned();
    let file = File::open(&path).map_err(failed(&path, "opened"))?;
    let row = move |(text, number): (std::io::Result<String>, u64)| {
        let text = text.map_err(failed(&path, "read"))?;
        let row: Option<Row> = serde_json::from_str(&text).ok();
        let row = row.filter(|row| row.len() == values);
        row.ok_or_else(|| Error::schema(format!("{} line {number} is not a row", path.display())))
    };
    Ok(BufReader::new(file).lines().zip(1..).map(row))
}

#[async_trait]
impl Reader for DirectoryReader {
    async fn open(&mut self, split: usize) -> Result<()> {
        let files = self.opened.splits[split].iter();
        let rows = files.map(|file| rows(file, self.opened.line_values));
        let rows: Vec<_> = rows.collect::<Result<_>>()?;
        self.rows = Box::new(rows.into_iter().flatten().take(self.opened.limit));
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let bounds = self.opened.batch;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while rows.len() < bounds.rows_max
            && bytes < bounds.bytes_max
            && let Some(row) = self.rows.next()
        {
            let row = row?;
            bytes += row.iter().flatten().map(String::len).sum::<usize>();
            rows.push(row);
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let columns = self.opened.columns.iter().zip(&self.opened.places);
        let columns = columns.map(|(column, place)| {
            let values = rows.iter().map(|row| row[*place].as_deref().map(str::as_bytes));
            parse_stored(&column.ty, &column.name, values)
        });
        let batch = RecordBatch::try_new(schema(&self.opened.columns), columns.collect::<Result<_>>()?);
        batch.map(Some).map_err(arrow_bug)
    }
}
