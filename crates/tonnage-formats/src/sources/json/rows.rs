//! Objects that stand in no file: rows as a program hands them over, for a table whose columns are known.

use std::{collections::HashMap, sync::Arc};

use arrow::{array::UInt32Array, datatypes::SchemaRef};
use tonnage_core::{
    error::Result,
    parse::ParseContext,
    source::{Origin, ReadRequest},
};

use super::{
    block::{Lines, Rows, Shape},
    object::{self, Flaw},
};
use crate::sources::text::{batch_schema, reading::Parts};

/// Finds a column by a key: by its exact name, else by the only one that equals it without regard to case.
#[derive(Debug, Clone, Default)]
pub struct Names {
    names: Vec<Arc<str>>,
    exact: HashMap<Arc<str>, usize>,
    folded: HashMap<String, usize>,
}

impl Names {
    /// Of these columns.
    pub fn new(names: Vec<Arc<str>>) -> Self {
        let exact = names.iter().cloned().zip(0..).collect();
        let mut folded: HashMap<String, Option<usize>> = HashMap::new();
        for (at, name) in names.iter().enumerate() {
            let found = folded.entry(name.to_lowercase());
            found.and_modify(|at| *at = None).or_insert(Some(at));
        }
        let folded = folded
            .into_iter()
            .filter_map(|(name, at)| Some((name, at?)))
            .collect();
        Self { names, exact, folded }
    }

    /// The column of `key`.
    pub fn find(&self, key: &str) -> Option<usize> {
        let exact = self.exact.get(key).copied();
        exact.or_else(|| self.folded.get(&key.to_lowercase()).copied())
    }
}

/// Calls `each` with the keys of the object that `text` is, and the text of their values; false where it is none.
pub fn members<'a>(text: &'a [u8], mut each: impl FnMut(&str, &'a str)) -> bool {
    let read = object::members(text, |key, value| {
        each(key, value);
        Ok(())
    });
    read.is_ok()
}

/// Reads objects as rows of the same columns.
pub struct Objects {
    shown: Arc<str>,
    names: Names,
    request: ReadRequest,
    schema: SchemaRef,
    context: ParseContext,
    lines: Lines,
}

impl Objects {
    /// Of these columns, of which `request` says what is wanted. `shown` stands for the file in rejects.
    pub fn new(shown: Arc<str>, names: Names, request: ReadRequest, context: ParseContext) -> Result<Self> {
        Ok(Self {
            schema: batch_schema(&names.names, &request)?,
            shown,
            names,
            request,
            context,
            lines: Lines::default(),
        })
    }

    /// Reads the objects that lie one after another in `text` from `start` on and end at `ends`. The first is row
    /// `first_row` of all.
    pub fn read(&mut self, text: &[u8], start: usize, ends: &[u32], first_row: u64) -> Result<Parts> {
        let shape = Shape {
            shown: &self.shown,
            names: &self.names.names,
            places: &self.names.exact,
            folded: Some(&self.names.folded),
            unknown: Flaw::NoColumn,
            rows: Rows::Objects,
            request: &self.request,
            schema: &self.schema,
            context: &self.context,
            line_bytes_max: usize::MAX,
        };
        let origin = Origin {
            file: self.shown.clone(),
            first_row,
            first_offset: None,
            rows: UInt32Array::from(Vec::<u32>::new()),
            offsets: None,
            places: None,
        };
        self.lines.read_all(text, start, ends, &shape, origin)
    }
}
