//! Reading what was committed when the readers were opened.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use tonnage_core::{
    error::{Error, Result},
    parse::parse_stored,
    reader::{
        BatchBounds, ReadColumn, Reader, Relation, ScanRequest, Snapshot, no_table, read_columns, schema,
        wanted,
    },
    types::ColumnType,
};

use super::{Memory, Row};

/// Rows of a split.
const SPLIT_ROWS: usize = 1_000;

struct ScanContext {
    columns: Vec<ReadColumn>,
    /// Where each column is in a row.
    places: Vec<usize>,
    rows: Vec<Row>,
    batch: BatchBounds,
}

struct MemoryReader {
    memory: Memory,
    shared: Arc<ScanContext>,
    next: usize,
    end: usize,
}

/// Opens readers.
pub(super) fn scan(memory: &Memory, request: &ScanRequest) -> Result<Snapshot> {
    memory.call()?;
    let no_sql = || Error::config("this database has no SQL").hint("read a whole table");
    let Relation::Table(name) = &request.relation else {
        return Err(no_sql());
    };
    if request.filter.is_some() || request.split_by.is_some() {
        return Err(no_sql());
    }
    let state = memory.lock();
    let Some(stored) = state.tables.get(&name.name) else {
        let names: Vec<_> = state.tables.keys().cloned().collect();
        return Err(no_table(name, &names));
    };
    let table = &stored.table;
    let names = table.columns.iter().map(|column| column.name.as_str());
    let wanted = wanted(request, &name.name, names, 0..table.columns.len())?;
    let columns = read_columns(table, &wanted);
    let is_read = |name: &String| columns.iter().any(|column| column.name == *name);
    let key = table.primary_key().map(|key| key.columns.clone());
    let key = key.filter(|key| key.iter().all(is_read)).unwrap_or_default();
    let rows_max = request
        .limit
        .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let shared = Arc::new(ScanContext {
        places: wanted.into_iter().map(|(at, _)| at).collect(),
        rows: stored.rows.iter().take(rows_max).cloned().collect(),
        columns: columns.clone(),
        batch: request.batch,
    });
    let table = Some(table.name.clone());
    drop(state);
    let splits = shared.rows.len().div_ceil(SPLIT_ROWS).max(1);
    let reader = |_| -> Box<dyn Reader> {
        Box::new(MemoryReader {
            memory: memory.clone(),
            shared: Arc::clone(&shared),
            next: 0,
            end: 0,
        })
    };
    Ok(Snapshot {
        table,
        columns,
        key,
        splits,
        readers: (0..request.readers.clamp(1, splits)).map(reader).collect(),
        consistency: "a copy of what is committed",
        settings_changed: Vec::new(),
        notes: Vec::new(),
    })
}

#[async_trait]
impl Reader for MemoryReader {
    async fn open(&mut self, split: usize) -> Result<()> {
        self.memory.call()?;
        self.next = (split * SPLIT_ROWS).min(self.shared.rows.len());
        self.end = (self.next + SPLIT_ROWS).min(self.shared.rows.len());
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.memory.call()?;
        let shared = &self.shared;
        let end = self.end.min(self.next + shared.batch.rows_max);
        let rows = &shared.rows[self.next..end];
        if rows.is_empty() {
            return Ok(None);
        }
        self.next = end;
        let arrays = shared.columns.iter().zip(&shared.places).map(|(column, place)| {
            // Bytes are kept as bare hexadecimal digits.
            let prefix = if column.ty == ColumnType::Bytes { "\\x" } else { "" };
            let values: Vec<_> = rows
                .iter()
                .map(|row| row[*place].as_ref().map(|text| format!("{prefix}{text}")))
                .collect();
            let values = values.iter().map(|text| text.as_ref().map(String::as_bytes));
            parse_stored(&column.ty, &column.name, values)
        });
        let arrays = arrays.collect::<Result<_>>()?;
        RecordBatch::try_new(schema(&shared.columns), arrays)
            .map(Some)
            .map_err(|cause| Error::bug(format!("columns do not fit together: {cause}")))
    }
}
