//! Reading: tables by a query, a request a batch, and rows of keys by many requests at once.

use std::{collections::VecDeque, sync::Arc};

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use oracle_nosql_rust_sdk::{
    GetRequest as SdkGet, QueryRequest,
    types::{Consistency, MapValue},
};
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    getter::{Answer, EACH_ITS_OWN, GetRequest, Getter},
    parse::parse_stored,
    reader::{
        BatchBounds, ReadColumn, Reader, Relation, ScanRequest, Snapshot, read_columns, schema, wanted,
    },
};

use super::{
    encode::{Cell, Nulls, encode},
    errors::Doing,
    types::{Described, Kind},
    wire::{Store, failed, from_wire, to_wire},
};

/// What rows become.
struct Shape {
    columns: Vec<ReadColumn>,
    kinds: Vec<Kind>,
}

impl Shape {
    fn of(described: &Described, request: &ScanRequest) -> Result<Self> {
        let table = &described.table;
        let names = table.columns.iter().map(|column| column.name.as_str());
        let wanted = wanted(request, &table.name.name, names, 0..table.columns.len())?;
        let kinds = wanted.iter().map(|(at, _)| {
            let column = &table.columns[*at];
            described.kinds[*at].ok_or_else(|| {
                Error::schema(format!(
                    "column '{}' of type {} cannot be read",
                    column.name, column.declared
                ))
                .hint("--columns names those that are wanted")
            })
        });
        Ok(Self {
            columns: read_columns(table, &wanted),
            kinds: kinds.collect::<Result<_>>()?,
        })
    }

    fn cells(&self, row: &MapValue) -> Result<Vec<Cell>> {
        let columns = self.columns.iter().zip(&self.kinds);
        columns
            .map(|(column, kind)| from_wire(row.get_field_value(&column.name), *kind, &column.name))
            .collect()
    }

    fn batch(&self, rows: &[Vec<Cell>]) -> Result<RecordBatch> {
        let column = |(at, column): (usize, &ReadColumn)| -> Result<ArrayRef> {
            let texts: Vec<Option<String>> = rows.iter().map(|row| row[at].text()).collect();
            parse_stored(
                &column.ty,
                &column.name,
                texts.iter().map(|text| text.as_deref().map(str::as_bytes)),
            )
        };
        let arrays = self.columns.iter().enumerate().map(column);
        RecordBatch::try_new(schema(&self.columns), arrays.collect::<Result<_>>()?).map_err(arrow_bug)
    }
}

fn bytes(row: &[Cell]) -> usize {
    row.iter().map(Cell::bytes).sum()
}

struct NosqlReader {
    store: Arc<Store>,
    shape: Shape,
    statement: String,
    query: Option<QueryRequest>,
    waiting: VecDeque<MapValue>,
    batch: BatchBounds,
}

/// Begins to read a table.
pub(super) async fn scan(store: &Arc<Store>, request: &ScanRequest) -> Result<Snapshot> {
    let Relation::Table(name) = &request.relation else {
        return Err(
            Error::config("the columns of a query of Oracle NoSQL have no types before it has run")
                .hint("name a table, with --where for a condition"),
        );
    };
    if request.split_by.is_some() {
        return Err(
            Error::config("a table of Oracle NoSQL is read by one query").hint("leave --split-by out")
        );
    }
    let described = store.required(name).await?;
    let shape = Shape::of(&described, request)?;
    let mut statement = format!("SELECT * FROM {}", described.table.name.name);
    if let Some(filter) = &request.filter {
        statement.push_str(&format!(" WHERE {filter}"));
    }
    if let Some(limit) = request.limit {
        statement.push_str(&format!(" LIMIT {limit}"));
    }
    let key = described
        .table
        .primary_key()
        .map(|key| key.columns.clone())
        .unwrap_or_default();
    let is_read = |name: &String| shape.columns.iter().any(|column| column.name == *name);
    Ok(Snapshot {
        table: Some(described.table.name.clone()),
        columns: shape.columns.clone(),
        key: match key.iter().all(is_read) {
            true => key,
            false => Vec::new(),
        },
        splits: 1,
        readers: vec![Box::new(NosqlReader {
            store: store.clone(),
            shape,
            statement,
            query: None,
            waiting: VecDeque::new(),
            batch: request.batch,
        })],
        consistency: "none: each row is as it was when the query came to it",
        settings_changed: vec!["consistency = absolute".to_owned()],
        notes: Vec::new(),
    })
}

#[async_trait]
impl Reader for NosqlReader {
    async fn open(&mut self, _: usize) -> Result<()> {
        self.waiting.clear();
        let query = QueryRequest::new(&self.statement).consistency(&Consistency::Absolute);
        self.query = Some(query.timeout(&self.store.settings.timeout));
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let (mut rows, mut sum) = (Vec::new(), 0);
        while rows.len() < self.batch.rows_max && sum < self.batch.bytes_max {
            if let Some(row) = self.waiting.pop_front() {
                let cells = self.shape.cells(&row)?;
                sum += bytes(&cells);
                rows.push(cells);
                continue;
            }
            let query = self
                .query
                .as_mut()
                .ok_or_else(|| Error::bug("rows of a split that was not opened"))?;
            if query.is_done() {
                break;
            }
            let mut found = Vec::new();
            let asked = query.execute_batch(&self.store.handle, &mut found).await;
            asked.map_err(|error| failed(error, Doing::Else))?;
            self.waiting.extend(found);
        }
        match rows.is_empty() {
            true => Ok(None),
            false => self.shape.batch(&rows).map(Some),
        }
    }
}

/// Looks rows up by their whole primary key.
pub(super) struct NosqlGetter {
    store: Arc<Store>,
    table: String,
    shape: Shape,
    keys: Vec<(String, Kind)>,
    batch: BatchBounds,
    /// Rows that were found, with the places of their keys.
    found: VecDeque<(u32, Vec<Cell>)>,
    asked: VecDeque<(u32, Vec<Cell>)>,
}

impl NosqlGetter {
    pub(super) fn open(store: Arc<Store>, described: &Described, request: &GetRequest) -> Result<Self> {
        let columns = &described.table.columns;
        let names: Vec<&str> = described
            .key
            .iter()
            .map(|at| columns[*at].name.as_str())
            .collect();
        let is_whole = request.range.is_none()
            && request.key.len() == names.len()
            && request.key.iter().all(|key| names.contains(&key.name.as_str()));
        if !is_whole {
            return Err(Error::config(format!(
                "rows of Oracle NoSQL are looked up by the whole primary key ({})",
                names.join(", ")
            ))
            .hint("give all of its columns, or read the table with `tonnage unload --where`"));
        }
        let kind = |name: &str| {
            let at = columns.iter().position(|column| column.name == name);
            at.and_then(|at| described.kinds[at])
                .ok_or_else(|| Error::schema(format!("column '{name}' cannot be a key")))
        };
        Ok(Self {
            table: described.table.name.name.clone(),
            shape: Shape::of(described, &request.scan())?,
            keys: request
                .key
                .iter()
                .map(|key| Ok((key.name.clone(), kind(&key.name)?)))
                .collect::<Result<_>>()?,
            batch: request.batch,
            found: VecDeque::new(),
            asked: VecDeque::new(),
            store,
        })
    }

    async fn one(&self, place: u32, key: &[Cell]) -> Result<Option<(u32, Vec<Cell>)>> {
        let mut map = MapValue::new();
        for ((name, _), cell) in self.keys.iter().zip(key) {
            map.put_field_value(name, to_wire(cell)?);
        }
        let request = SdkGet::new(&self.table)
            .key(map)
            .consistency(Consistency::Absolute);
        let found = request
            .execute(&self.store.handle)
            .await
            .map_err(|error| failed(error, Doing::Else))?;
        found
            .row()
            .map(|row| Ok((place, self.shape.cells(row)?)))
            .transpose()
    }
}

#[async_trait]
impl Getter for NosqlGetter {
    fn columns(&self) -> &[ReadColumn] {
        &self.shape.columns
    }

    fn settings_changed(&self) -> Vec<String> {
        vec!["consistency = absolute".to_owned()]
    }

    fn notes(&self) -> Vec<String> {
        vec![EACH_ITS_OWN.to_owned()]
    }

    async fn ask(&mut self, keys: &RecordBatch) -> Result<()> {
        self.found.clear();
        self.asked.clear();
        for row in 0..keys.num_rows() {
            let one = keys.slice(row, 1);
            let cells = self.keys.iter().zip(one.columns());
            let cells = cells.map(|((_, kind), array)| Ok(encode(array, *kind, Nulls::Refused)?.ok()));
            let cells: Option<Vec<Vec<Cell>>> = cells.collect::<Result<_>>()?;
            // A key that no row could have has none.
            if let Some(cells) = cells {
                self.asked
                    .push_back((row as u32, cells.into_iter().flatten().collect()));
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<Answer>> {
        while self.found.is_empty() && !self.asked.is_empty() {
            let requests = self.store.settings.requests;
            let asked: Vec<_> = self.asked.drain(..self.asked.len().min(requests)).collect();
            let this = &*self;
            let asking: Vec<_> = asked.iter().map(|(place, key)| this.one(*place, key)).collect();
            let mut asking = stream::iter(asking).buffered(requests);
            let mut found = VecDeque::new();
            while let Some(row) = asking.next().await {
                found.extend(row?);
            }
            drop(asking);
            self.found = found;
        }
        let (mut rows, mut keys, mut sum) = (Vec::new(), Vec::new(), 0);
        while rows.len() < self.batch.rows_max
            && sum < self.batch.bytes_max
            && let Some((place, row)) = self.found.pop_front()
        {
            sum += bytes(&row);
            keys.push(place);
            rows.push(row);
        }
        match rows.is_empty() {
            true => Ok(None),
            false => Ok(Some(Answer {
                rows: self.shape.batch(&rows)?,
                keys: UInt32Array::from(keys),
            })),
        }
    }
}
