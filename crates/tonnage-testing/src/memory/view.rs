//! A table as a transaction sees it, and what each operation does to it.

use std::collections::{HashMap, HashSet};

use tonnage_core::{
    error::{Error, ErrorKind, Result},
    operation::Operation,
    table::{Key, Table},
};

use super::{Check, Row, Stored};

/// Rows of a table with its keys.
pub(super) struct View<'a> {
    table: &'a Table,
    /// Positions of each key's columns.
    keys: Vec<Vec<usize>>,
    check: Option<Check>,
    operation: &'a Operation,
    /// The columns that are written.
    columns: &'a [usize],
    pub(super) rows: Vec<Row>,
    index: HashMap<(usize, Row), usize>,
}

impl<'a> View<'a> {
    pub(super) fn new(
        stored: &Stored,
        table: &'a Table,
        operation: &'a Operation,
        columns: &'a [usize],
    ) -> Self {
        let at = |key: &Key| {
            let is_in = |c: &usize| key.columns.contains(&table.columns[*c].name);
            (0..table.columns.len()).filter(is_in).collect()
        };
        let keys = table.keys.iter().map(at).collect();
        let mut view = Self {
            table,
            keys,
            check: stored.check,
            operation,
            columns,
            rows: Vec::new(),
            index: HashMap::new(),
        };
        stored.rows.iter().for_each(|row| view.push(row.clone()));
        view
    }

    /// Without its rows.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.index.clear();
    }

    fn keys_of(&self, row: &Row) -> Vec<(usize, Row)> {
        let key = |(at, columns): (usize, &Vec<usize>)| {
            let values: Row = columns.iter().map(|c| row[*c].clone()).collect();
            values.iter().all(Option::is_some).then_some((at, values))
        };
        self.keys.iter().enumerate().filter_map(key).collect()
    }

    fn push(&mut self, row: Row) {
        for key in self.keys_of(&row) {
            self.index.insert(key, self.rows.len());
        }
        self.rows.push(row);
    }

    /// Applies a row; `touched` are the rows that the same statement has applied. False if it was left out.
    pub(super) fn apply(&mut self, row: Row, touched: &mut HashSet<usize>) -> Result<bool> {
        let refused = |code: &str, message: String| Err(Error::new(ErrorKind::Rejected, message).code(code));
        let found = self
            .keys_of(&row)
            .iter()
            .find_map(|key| self.index.get(key).copied());
        match (self.operation, found) {
            (Operation::Ignore { .. }, Some(_)) => return Ok(false),
            (Operation::Update { .. } | Operation::Delete { .. }, None) => return Ok(false),
            (Operation::Delete { .. }, Some(found)) => {
                let gone = self.rows[found].clone();
                for key in self.keys_of(&gone) {
                    self.index.remove(&key);
                }
                // An empty row is one that is no longer there, so that the index stays right.
                self.rows[found] = Row::new();
                return Ok(true);
            }
            _ => {}
        }
        for (at, (column, value)) in self.table.columns.iter().zip(&row).enumerate() {
            if value.is_none() && !column.nullable && (found.is_none() || self.columns.contains(&at)) {
                return refused("23502", format!("column '{}' takes no nulls", column.name));
            }
        }
        if let Some((code, message)) = self.check.and_then(|check| check(&row)) {
            return refused(code, message);
        }
        match found {
            Some(_) if *self.operation == Operation::Insert => {
                return refused("23505", "the key is there already".to_owned());
            }
            Some(found) if !touched.insert(found) => {
                return refused("21000", "one statement meets a key twice".to_owned());
            }
            Some(found) => {
                for column in self.columns {
                    self.rows[found][*column] = row[*column].clone();
                }
            }
            None => {
                touched.insert(self.rows.len());
                self.push(row);
            }
        }
        Ok(true)
    }
}
