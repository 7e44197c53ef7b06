//! The values of rows that differ, found again by their hashes.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use arrow::array::ArrayRef;
use serde_json::{Map, Value};
use tonnage_core::{convert::shown_value, error::Result, reader::BeyondArrow, types::ColumnType};

use super::{
    canonical::canonical_columns,
    compare::Found,
    report::{ColumnDifference, Difference, Kind},
    side::{Chunk, Visit},
};

/// Characters of a value that are kept.
const KEPT_CHARS: usize = 1_000;

/// A row's values, and where it is.
#[derive(Debug, Clone)]
pub(super) struct Row {
    file: Option<String>,
    row: Option<u64>,
    /// As they are, and in the form by which they are compared.
    values: Vec<(Option<String>, Option<String>)>,
}

/// Looks for rows by their hashes.
pub(super) struct Finding {
    wanted: Arc<HashSet<u128>>,
    types: Vec<ColumnType>,
    /// Those found, by their hashes.
    pub rows: HashMap<u128, Row>,
}

impl Finding {
    pub fn new(wanted: Arc<HashSet<u128>>, types: Vec<ColumnType>) -> Self {
        Self {
            wanted,
            types,
            rows: HashMap::new(),
        }
    }

    /// What several workers have found; of rows that are the same, the first of the source.
    pub fn all(workers: Vec<Self>) -> HashMap<u128, Row> {
        let mut rows: HashMap<u128, Row> = HashMap::new();
        for (hash, row) in workers.into_iter().flat_map(|worker| worker.rows) {
            let known = rows.entry(hash).or_insert_with(|| row.clone());
            if row.row < known.row {
                *known = row;
            }
        }
        rows
    }
}

impl Visit for Finding {
    fn take(&mut self, chunk: &Chunk<'_>) -> Result<()> {
        let mut compared: Option<Vec<ArrayRef>> = None;
        for (at, hash) in chunk.hashes.rows.iter().enumerate() {
            if !self.wanted.contains(hash) || self.rows.contains_key(hash) {
                continue;
            }
            let compared = compared.get_or_insert_with(|| canonical_columns(chunk.rows, &self.types));
            let text = |array: &ArrayRef| {
                let text = shown_value(array, at, BeyondArrow::Carried)?;
                match text.char_indices().nth(KEPT_CHARS) {
                    Some((end, _)) => Some(format!("{}..", &text[..end])),
                    None => Some(text),
                }
            };
            let columns = chunk.rows.columns().iter().zip(compared.iter());
            let row = Row {
                file: chunk.origin.map(|(origin, _)| origin.file(at).to_string()),
                row: chunk.origin.map(|(origin, _)| origin.row(at)),
                values: columns.map(|(plain, form)| (text(plain), text(form))).collect(),
            };
            self.rows.insert(*hash, row);
        }
        Ok(())
    }
}

/// The columns that are compared.
pub(super) struct Columns<'a> {
    pub names: &'a [String],
    /// Positions of those that tell a row; empty where all do.
    pub key_at: &'a [usize],
}

/// A difference with its values; none where a row is not there any more.
pub(super) fn difference(
    found: &Found,
    columns: &Columns<'_>,
    source: &HashMap<u128, Row>,
    table: &HashMap<u128, Row>,
) -> Option<Difference> {
    let of_source = found.source.map(|hash| source.get(&hash));
    let of_table = found.table.map(|hash| table.get(&hash));
    let told_by = of_source.or(of_table).flatten()?;
    let told = match columns.key_at {
        [] => (0..columns.names.len()).collect(),
        key_at => key_at.to_vec(),
    };
    let values = told.iter().map(|at| {
        let value = told_by.values[*at].0.clone();
        (
            columns.names[*at].clone(),
            value.map_or(Value::Null, Value::String),
        )
    });
    let mut differing = Vec::new();
    if let (Kind::Changed, Some(Some(source)), Some(Some(table))) = (found.kind, of_source, of_table) {
        for (name, (source, table)) in columns.names.iter().zip(source.values.iter().zip(&table.values)) {
            if source.1 != table.1 {
                differing.push(ColumnDifference {
                    name: name.clone(),
                    source: source.0.clone(),
                    table: table.0.clone(),
                });
            }
        }
    }
    Some(Difference {
        kind: found.kind,
        times: found.times,
        file: told_by.file.clone(),
        row: told_by.row,
        values: values.collect::<Map<_, _>>(),
        columns: differing,
        message: None,
    })
}
