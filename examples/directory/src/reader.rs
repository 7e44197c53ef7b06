//! Reading: a file is a split.
//!
//! - All files are opened before the first row is read, and no file changes. So what is removed or replaced meanwhile is
//!   read as it was. There are at most as many files as a process may have open.
//! - A line that is not a row of the table is an error that names it, never a row left out.

use std::{
    fs::File,
    io::{BufRead, BufReader, Seek},
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow::array::{ArrayRef, RecordBatch};
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

use super::table::{TableDirectory, failed, names};

type Row = Vec<Option<String>>;

/// What the readers of a table share.
struct Opened {
    columns: Vec<ReadColumn>,
    /// Where each column is among the values of a line, and how many these are.
    places: Vec<usize>,
    line_values: usize,
    /// The files of each split.
    splits: Vec<Vec<(PathBuf, File)>>,
    limit: usize,
    batch: BatchBounds,
}

struct DirectoryReader {
    opened: Arc<Opened>,
    /// What is left of the split.
    rows: Box<dyn Iterator<Item = Result<Row>> + Send>,
}

/// Opens the files of a table.
pub fn scan(root: &Path, request: &ScanRequest) -> Result<Snapshot> {
    let (Relation::Table(name), None, None) = (&request.relation, &request.filter, &request.split_by) else {
        return Err(Error::config("a directory has no SQL, and is read file by file"));
    };
    let Some(found) = TableDirectory::find(root, name)? else {
        return Err(no_table(name, &names(root)?));
    };
    let known = found.table.columns.iter().map(|column| column.name.as_str());
    let line_values = known.len();
    let wanted = wanted(request, &name.name, known, 0..line_values)?;
    let open = |path: PathBuf| {
        let file = File::open(&path).map_err(failed(&path, "opened"))?;
        Ok((path, file))
    };
    let files = found.files()?.into_iter().map(open);
    let files: Vec<_> = files.collect::<Result<_>>()?;
    let opened = Arc::new(Opened {
        columns: read_columns(&found.table, &wanted),
        places: wanted.iter().map(|(at, _)| *at).collect(),
        line_values,
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
        columns: opened.columns.clone(),
        key: Vec::new(),
        splits,
        readers: (0..request.readers.clamp(1, splits.max(1))).map(reader).collect(),
        consistency: "the files that are there when the readers begin, each a whole write",
        settings_changed: Vec::new(),
        notes: Vec::new(),
    })
}

impl Opened {
    /// The rows of a file from its begin.
    fn rows(&self, (path, file): &(PathBuf, File)) -> Result<impl Iterator<Item = Result<Row>> + use<>> {
        let (path, line_values) = (path.clone(), self.line_values);
        let mut file = file.try_clone().map_err(failed(&path, "read"))?;
        file.rewind().map_err(failed(&path, "read"))?;
        let row = move |(text, number): (std::io::Result<String>, u64)| {
            let text = text.map_err(failed(&path, "read"))?;
            match serde_json::from_str::<Row>(&text) {
                Ok(row) if row.len() == line_values => Ok(row),
                _ => Err(Error::schema(format!(
                    "{} line {number} is not a row",
                    path.display()
                ))),
            }
        };
        Ok(BufReader::new(file).lines().zip(1..).map(row))
    }

    fn column(&self, at: usize, rows: &[Row]) -> Result<ArrayRef> {
        let (column, place) = (&self.columns[at], self.places[at]);
        let values = rows.iter().map(|row| row[place].as_deref().map(str::as_bytes));
        parse_stored(&column.ty, &column.name, values)
    }
}

#[async_trait]
impl Reader for DirectoryReader {
    async fn open(&mut self, split: usize) -> Result<()> {
        let files = self.opened.splits[split].iter();
        let rows: Vec<_> = files.map(|file| self.opened.rows(file)).collect::<Result<_>>()?;
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
        let columns = (0..self.opened.columns.len()).map(|at| self.opened.column(at, &rows));
        let batch = RecordBatch::try_new(schema(&self.opened.columns), columns.collect::<Result<_>>()?);
        batch.map(Some).map_err(arrow_bug)
    }
}
