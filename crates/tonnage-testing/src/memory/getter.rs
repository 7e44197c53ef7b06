//! Rows of keys.

use std::collections::HashMap;

use arrow::{
    array::{Array, ArrayRef, BooleanArray, RecordBatch, Scalar, UInt32Array},
    compute::{
        kernels::cmp::{gt, gt_eq, lt, lt_eq},
        take_record_batch,
    },
    row::{RowConverter, SortField},
};
use async_trait::async_trait;
use tonnage_core::{
    error::{Error, ErrorKind, Result, arrow_bug},
    getter::{Answer, GetRequest, Getter, KeyRange},
    parse::parse_stored,
    reader::{ReadColumn, schema},
    table::Table,
    types::ColumnType,
};

use super::Memory;

/// Looks rows up.
pub(super) struct MemoryGetter {
    memory: Memory,
    table: Table,
    request: GetRequest,
    columns: Vec<ReadColumn>,
    /// What is left of the answer: rows and their keys, the last ones first.
    answer: Vec<Answer>,
    broken: bool,
}

impl MemoryGetter {
    pub(super) fn open(memory: Memory, table: Table, request: GetRequest) -> Result<Self> {
        let wanted: Vec<String> = match &request.columns {
            Some(columns) => columns.clone(),
            None => table.columns.iter().map(|c| c.name.clone()).collect(),
        };
        let columns = wanted.iter().map(|name| {
            let column = table.columns.iter().find(|c| c.name == *name);
            let column =
                column.ok_or_else(|| Error::schema(format!("{} has no column '{name}'", table.name)))?;
            Ok(ReadColumn {
                element: None,
                name: column.name.clone(),
                ty: column.ty.unwrap_or(ColumnType::TEXT),
                declared: column.declared.clone(),
                nullable: column.nullable,
            })
        });
        Ok(Self {
            columns: columns.collect::<Result<_>>()?,
            memory,
            table,
            request,
            answer: Vec::new(),
            broken: false,
        })
    }

    /// A column of the whole table.
    fn column(&self, name: &str) -> Result<ArrayRef> {
        let at = self.table.columns.iter().position(|c| c.name == name);
        let at = at.ok_or_else(|| Error::schema(format!("{} has no column '{name}'", self.table.name)))?;
        let ty = self.table.columns[at].ty.unwrap_or(ColumnType::TEXT);
        let rows = self.memory.rows(&self.table.name.name);
        let values = rows.iter().map(|row| row[at].as_deref().map(str::as_bytes));
        parse_stored(&ty, name, values.collect::<Vec<_>>().into_iter())
    }

    fn call(&mut self) -> Result<()> {
        if self.broken {
            return Err(Error::new(ErrorKind::Unsent, "the connection is closed"));
        }
        let lost = self.memory.call();
        self.broken = !matches!(lost, Ok(false));
        match lost {
            Ok(true) => Err(super::lost()),
            called => called.map(|_| ()),
        }
    }
}

/// Whether each value is in the range.
fn in_range(values: &ArrayRef, range: &KeyRange) -> Result<Vec<bool>> {
    let mut within = vec![true; values.len()];
    let mut narrow = |flags: BooleanArray| {
        for (row, within) in within.iter_mut().enumerate() {
            *within &= flags.is_valid(row) && flags.value(row);
        }
    };
    if let Some(from) = &range.from {
        let (value, compare) = (Scalar::new(&from.value), if from.inclusive { gt_eq } else { gt });
        narrow(compare(values, &value).map_err(arrow_bug)?);
    }
    if let Some(to) = &range.to {
        let (value, compare) = (Scalar::new(&to.value), if to.inclusive { lt_eq } else { lt });
        narrow(compare(values, &value).map_err(arrow_bug)?);
    }
    Ok(within)
}

#[async_trait]
impl Getter for MemoryGetter {
    fn columns(&self) -> &[ReadColumn] {
        &self.columns
    }

    async fn ask(&mut self, keys: &RecordBatch) -> Result<()> {
        self.call()?;
        let fields = keys
            .columns()
            .iter()
            .map(|c| SortField::new(c.data_type().clone()));
        let converter = RowConverter::new(fields.collect()).map_err(arrow_bug)?;
        let asked = converter.convert_columns(keys.columns()).map_err(arrow_bug)?;
        let asked: HashMap<_, _> = (0..keys.num_rows() as u32)
            .map(|at| (asked.row(at as usize), at))
            .collect();
        let there: Vec<ArrayRef> = self
            .request
            .key
            .iter()
            .map(|key| self.column(&key.name))
            .collect::<Result<_>>()?;
        let within = match &self.request.range {
            Some(range) => Some(in_range(&self.column(&range.column.name)?, range)?),
            None => None,
        };
        let rows = converter.convert_columns(&there).map_err(arrow_bug)?;
        let found: Vec<(u32, u32)> = (0..rows.num_rows())
            .filter(|row| within.as_ref().is_none_or(|within| within[*row]))
            .filter_map(|row| Some((row as u32, *asked.get(&rows.row(row))?)))
            .collect();
        let wanted: Vec<ArrayRef> = self
            .columns
            .iter()
            .map(|column| self.column(&column.name))
            .collect::<Result<_>>()?;
        let table = RecordBatch::try_new(schema(&self.columns), wanted).map_err(arrow_bug)?;
        let answer = found.chunks(self.request.batch.rows_max.max(1)).map(|rows| {
            let at = UInt32Array::from_iter_values(rows.iter().map(|(row, _)| *row));
            Ok(Answer {
                rows: take_record_batch(&table, &at).map_err(arrow_bug)?,
                keys: UInt32Array::from_iter_values(rows.iter().map(|(_, key)| *key)),
            })
        });
        self.answer = answer.collect::<Result<_>>()?;
        self.answer.reverse();
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<Answer>> {
        self.call()?;
        Ok(self.answer.pop())
    }

    fn settings_changed(&self) -> Vec<String> {
        Vec::new()
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
