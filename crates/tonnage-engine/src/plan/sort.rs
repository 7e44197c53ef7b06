//! The order of a slot's rows.

use tonnage_core::{
    error::{Error, Result},
    operation::Operation,
    table::Table,
    target::WriteColumn,
};

use super::{LoadOptions, Sort, is_provable, keys::RecognisedBy};

/// The order of rows.
pub(super) struct Sorted {
    pub sort: Sort,
    /// Positions of the columns that it goes by; empty for none.
    pub sort_by: Vec<usize>,
}

/// Decides the order of rows: by primary key, where that leaves rows of one key in theirs.
pub(super) fn decide(
    table: &Table,
    options: &LoadOptions,
    columns: &[WriteColumn],
    operation: &Operation,
    recognised_by: RecognisedBy,
) -> Result<Sorted> {
    let position = |name: &String| columns.iter().position(|column| column.name == *name);
    let sort_by: Vec<usize> = match table.primary_key() {
        Some(key) => key.columns.iter().map_while(position).collect(),
        None => Vec::new(),
    };
    // Rows that are one to the database keep their order only where they are one to the sort as well.
    let keeps_order = match operation {
        Operation::Insert | Operation::Delete { .. } | Operation::Statement { .. } => true,
        Operation::Upsert { key } | Operation::Ignore { key } | Operation::Update { key } => {
            let same =
                |at: &usize| key.contains(&columns[*at].name) && is_provable(table, &columns[*at].name);
            recognised_by == RecognisedBy::TheKey && sort_by.iter().all(same)
        }
    };
    let sort = match options.sort {
        Some(sort) => sort,
        None if sort_by.is_empty() || !keeps_order => Sort::None,
        None => Sort::Block,
    };
    if sort != Sort::None && sort_by.is_empty() {
        return Err(Error::config(format!(
            "--sort {} needs a primary key of {} among the loaded columns",
            sort.name(),
            table.name
        ))
        .hint("leave --sort out, or load the key's first column"));
    }
    if sort != Sort::None && !keeps_order {
        return Err(Error::config(format!(
            "--sort {} could change the order of rows of one key: {} goes by ({}), which the primary key does not order",
            sort.name(),
            operation.name(),
            operation.key().join(", ")
        ))
        .hint("leave --sort out"));
    }
    Ok(Sorted {
        sort,
        sort_by: match sort {
            Sort::None => Vec::new(),
            Sort::Block | Sort::Full => sort_by,
        },
    })
}
