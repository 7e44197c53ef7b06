//! The user's own rows: of files, or of a table, and the tables that they go into.
//!
//! - They are read once, before the first run, and held in memory: as many as a run takes, and no more than
//!   [`HELD_BYTES_MAX`]. Every run has the same ones.
//! - The user's table is only read. What is written into is an empty copy of it, or a table made for the rows.
//! - A row that cannot be read stops all of it: what was measured would not be what was asked for.

use std::{sync::Arc, time::Instant};

use arrow::{
    array::{Array, RecordBatch},
    datatypes::{Schema, SchemaRef},
};
use tonnage_core::{
    error::{Error, Result, arrow_bug},
    instruments::{Keys, Storage, TableForm},
    operation::Mode,
    reader::{BeyondArrow, Relation, no_table},
    report::Counted,
    source::{ReadRequest, Source, SourceColumn},
    table::{Column, ColumnSpec, Numbered, Table, TableName},
    target::Target,
    types::ColumnType,
};
use tonnage_engine::{
    load::{create_spec, prepare},
    plan::{LedgerPlace, LoadOptions},
    unload::{UnloadOptions, source::DatabaseSource},
};
use tonnage_formats::{
    sinks::Output,
    sources::{self, TextOptions},
};

pub use super::{form::indexable, setting::Setting};

/// Arrow bytes of rows that are held, about.
pub(super) const HELD_BYTES_MAX: usize = 96 << 20;
/// Rows and bytes that are read at a time.
const READ_ROWS: usize = 8_192;
const READ_BYTES: usize = 8 << 20;

/// Which rows of one's own to measure with, and where they go.
#[derive(Debug, Clone)]
pub struct OwnRows {
    /// The table whose empty copies take them; none for tables that are made for them as a load makes them.
    pub table: Option<TableName>,
    /// Files of any format that a load reads, all of one; empty for the rows of the table itself.
    pub files: Vec<String>,
    /// Where no table is named: the columns that no two rows share, for the primary key; empty for none.
    pub key: Vec<String>,
}

/// What their tables are made of.
#[derive(Debug)]
enum Tables {
    /// Empty copies of this one.
    Copies(Box<Table>),
    /// These columns.
    Made(Vec<ColumnSpec>),
}

/// Rows that were read.
#[derive(Debug)]
pub(super) struct Own {
    tables: Tables,
    /// For people: where they come from and where they go.
    pub(super) shown: String,
    /// Of every batch.
    pub(super) schema: SchemaRef,
    /// All of them.
    pub(super) batches: Vec<RecordBatch>,
    /// What numbers far outside the calendar are in them.
    pub(super) beyond_arrow: BeyondArrow,
    /// How many.
    pub(super) rows: u64,
    /// Rows that were read a second.
    pub(super) rows_per_second: f64,
    /// The columns that they have, as the table spells them.
    given: Vec<String>,
    /// The columns of the primary key.
    pub(super) key: Vec<String>,
    /// Columns of other unique keys.
    unique: Vec<String>,
}

/// The table of this name. `Schema` where there is none, with those that may be meant.
pub(super) async fn table_named(target: &dyn Target, name: &TableName) -> Result<Table> {
    match target.table(name).await? {
        Some(table) => Ok(table),
        None => Err(no_table(name, &target.table_names().await?)),
    }
}

/// The columns of a table that rows can be given.
pub(super) fn writable(table: &Table) -> impl Iterator<Item = &Column> {
    table.columns.iter().filter(|column| {
        column.ty.is_some() && !column.generated && column.numbered != Some(Numbered::Always)
    })
}

/// The first `rows` rows of some columns of a table as a source. Messages call it `shown`, which must hold no password.
pub(super) async fn rows_of(
    target: &dyn Target,
    shown: &str,
    table: &TableName,
    columns: Vec<String>,
    rows: u64,
) -> Result<DatabaseSource> {
    let options = UnloadOptions {
        columns: Some(columns),
        limit: Some(rows),
        jobs: Some(1),
        ..UnloadOptions::new(Relation::Table(table.clone()), Output::new("-"))
    };
    DatabaseSource::open(target, shown, &options.request()?).await
}

/// Reads all columns of a source, each as the type that it has of itself.
pub(super) fn as_they_are(source: &dyn Source) -> Vec<(usize, ColumnType)> {
    let columns = source.schema().columns.iter().enumerate();
    columns
        .filter_map(|(at, column)| Some((at, column.suggested?)))
        .collect()
}

/// Reads the first `rows` rows, but no more than about `bytes_max` bytes of them. Blocks.
pub(super) fn read(
    mut source: Box<dyn Source>,
    columns: Vec<(usize, ColumnType)>,
    rows: u64,
    bytes_max: usize,
) -> Result<Vec<RecordBatch>> {
    source.request(&ReadRequest {
        columns,
        block_rows: READ_ROWS,
        block_bytes: READ_BYTES,
    })?;
    let (mut batches, mut left, mut bytes) = (Vec::new(), rows, 0);
    while left > 0 && bytes < bytes_max {
        let Some(block) = source.next()? else { break };
        if let Some(reject) = block.rejects.first() {
            let place = format!("{}, row {}", reject.file, reject.row);
            let column = reject.problem.column.as_deref();
            let column = column.map_or_else(String::new, |column| format!(", column {column}"));
            return Err(
                Error::input(format!("{place}{column}: {}", reject.problem.message)).hint(
                    "rows to measure with must all be good ones: tonnage load --rejects tells which are not",
                ),
            );
        }
        let taken = left.min(block.rows.num_rows() as u64);
        if taken == 0 {
            continue;
        }
        let batch = block.rows.slice(0, taken as usize);
        left -= taken;
        let held = batch.columns().iter().map(|column| column.to_data());
        bytes += held
            .filter_map(|data| data.get_slice_memory_size().ok())
            .sum::<usize>();
        batches.push(batch);
    }
    Ok(batches)
}

/// Where rows come from, what of them is read, and the tables that they go into.
struct Supply {
    source: Box<dyn Source>,
    columns: Vec<(usize, ColumnType)>,
    tables: Tables,
    /// The columns' names in the table.
    given: Vec<String>,
    key: Vec<String>,
}

impl OwnRows {
    fn source(&self) -> Result<Box<dyn Source>> {
        let source = sources::open(&self.files, None, &TextOptions::default())?;
        match source.identity() {
            Some(_) => Ok(source),
            None => Err(
                Error::config(format!("{} can be read only once", source.schema().shown)).hint("name a file"),
            ),
        }
    }

    async fn supply(&self, target: &Arc<dyn Target>, url: &str, rows: u64) -> Result<Supply> {
        match &self.table {
            Some(_) if !self.key.is_empty() => {
                Err(Error::config("a copy of a table has the key of that table").hint("leave --key out"))
            }
            Some(name) => {
                let table = table_named(&**target, name).await?;
                match self.files.is_empty() {
                    true => of_table(&**target, url, table, rows).await,
                    false => self.for_table(target, url, table).await,
                }
            }
            None if self.files.is_empty() => Err(Error::config("neither files nor a table are named")
                .hint("--rows-from FILE, or --table TABLE")),
            None => self.for_tables_made(&**target),
        }
    }

    /// Rows of files for copies of a table, as a load would read them for it.
    async fn for_table(&self, target: &Arc<dyn Target>, url: &str, table: Table) -> Result<Supply> {
        let load = LoadOptions {
            ledger: LedgerPlace::None,
            ..LoadOptions::new(table.name.clone())
        };
        let planned = prepare(target.clone(), url.to_owned(), self.source()?, load).await;
        let planned = planned.map_err(|error| {
            let of_a_load = error.hint_text().is_some_and(|hint| hint.contains("--"));
            match of_a_load {
                // None of these options is one here.
                true => error.hint(format!(
                    "take rows that tonnage load takes into {} without further options",
                    table.name
                )),
                false => error,
            }
        })?;
        let columns = &planned.plan().columns;
        Ok(Supply {
            source: self.source()?,
            columns: columns.iter().map(|column| (column.source, column.ty)).collect(),
            given: columns.iter().map(|column| column.name.clone()).collect(),
            key: primary(&table),
            tables: Tables::Copies(Box::new(table)),
        })
    }

    /// Rows of files for tables that are made for them, as a load makes one.
    fn for_tables_made(&self, target: &dyn Target) -> Result<Supply> {
        let source = self.source()?;
        let spec = create_spec(
            &*source,
            &LoadOptions {
                key: self.key.clone(),
                ..LoadOptions::new(TableName::bare("rows"))
            },
            target,
        )?;
        let columns = spec.columns.iter().enumerate();
        Ok(Supply {
            source,
            columns: columns.map(|(at, column)| (at, column.ty)).collect(),
            given: spec.columns.iter().map(|column| column.name.clone()).collect(),
            key: spec.key,
            tables: Tables::Made(spec.columns),
        })
    }

    /// Finds and reads them, at most `rows`. Writes nothing. `url` is only shown, so it must be
    /// redacted.
    pub(super) async fn open(&self, target: &Arc<dyn Target>, url: &str, rows: u64) -> Result<Own> {
        let began = Instant::now();
        let Supply {
            source,
            columns,
            tables,
            given,
            key,
        } = self.supply(target, url, rows).await?;
        let types: Vec<ColumnType> = columns.iter().map(|(_, ty)| *ty).collect();
        let from = source.schema();
        let carried = |column: &SourceColumn| column.beyond_arrow == BeyondArrow::Carried;
        let beyond_arrow = match from.text || from.columns.iter().all(carried) {
            true => BeyondArrow::Carried,
            false => BeyondArrow::Refused,
        };
        let batches = tokio::task::spawn_blocking(move || read(source, columns, rows, HELD_BYTES_MAX))
            .await
            .map_err(|e| Error::bug(format!("rows could not be read: {e}")))??;
        let (schema, batches) = named(batches, &given, &types)?;
        let count: u64 = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let from = match (&tables, self.files.is_empty()) {
            (Tables::Copies(table), true) => table.name.to_string(),
            _ => self.files.join(", "),
        };
        if count == 0 {
            let error = Error::input(format!("{from} has no rows to measure with"));
            return Err(match self.files.is_empty() {
                true => error.hint("--rows-from FILE gives it some"),
                false => error,
            });
        }
        let unique = match &tables {
            Tables::Copies(table) => {
                let others = table.keys.iter().filter(|other| !other.primary);
                let columns = others.flat_map(|other| other.columns.iter());
                columns.filter(|name| !key.contains(name)).cloned().collect()
            }
            Tables::Made(_) => Vec::new(),
        };
        let into = match &tables {
            Tables::Copies(table) => format!("empty copies of {}", table.name),
            Tables::Made(_) => "tables made for them".to_owned(),
        };
        Ok(Own {
            tables,
            shown: format!("{} of {from} into {into}", Counted(count, "row")),
            schema,
            batches,
            beyond_arrow,
            rows: count,
            rows_per_second: count as f64 / began.elapsed().as_secs_f64().max(1e-6),
            given,
            key,
            unique,
        })
    }
}

/// Batches whose columns have the names that the table has for them, and tell of the types that they were read as.
fn named(
    batches: Vec<RecordBatch>,
    names: &[String],
    types: &[ColumnType],
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let Some(first) = batches.first() else {
        return Ok((Arc::new(Schema::empty()), batches));
    };
    let read = first.schema();
    let fields = read.fields().iter().zip(names.iter().zip(types));
    let fields = fields.map(|(field, (name, ty))| match ty.arrow() == *field.data_type() {
        true => ty.field(name, true),
        // It is converted when it is loaded.
        false => field.as_ref().clone().with_name(name).with_nullable(true),
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let renamed = |batch: RecordBatch| {
        RecordBatch::try_new(schema.clone(), batch.columns().to_vec()).map_err(arrow_bug)
    };
    let batches = batches.into_iter().map(renamed).collect::<Result<_>>()?;
    Ok((schema, batches))
}

/// The rows of a table for copies of it.
async fn of_table(target: &dyn Target, url: &str, table: Table, rows: u64) -> Result<Supply> {
    let given: Vec<String> = writable(&table).map(|column| column.name.clone()).collect();
    if given.is_empty() {
        return Err(Error::schema(format!(
            "table {} has no column that can be written",
            table.name
        )));
    }
    let source = rows_of(target, url, &table.name, given.clone(), rows).await?;
    Ok(Supply {
        columns: as_they_are(&source),
        source: Box::new(source),
        given,
        key: primary(&table),
        tables: Tables::Copies(Box::new(table)),
    })
}

fn primary(table: &Table) -> Vec<String> {
    let key = table.primary_key().map(|key| key.columns.clone());
    key.unwrap_or_default()
}

impl Own {
    /// The table that is copied.
    pub(super) fn table(&self) -> Option<&Table> {
        match &self.tables {
            Tables::Copies(table) => Some(table),
            Tables::Made(_) => None,
        }
    }

    /// The columns of a table that is made for them.
    pub(super) fn columns(&self) -> Vec<ColumnSpec> {
        match &self.tables {
            Tables::Copies(_) => Vec::new(),
            Tables::Made(columns) => columns.clone(),
        }
    }

    /// The columns that `operation` takes of the rows, in a table whose keys come from there. An update leaves those of
    /// other unique keys alone: in between it would make two rows equal.
    pub(super) fn taken(&self, operation: Mode, keys: Keys) -> Vec<String> {
        let is_key = |name: &String| self.key.contains(name);
        let mut columns = self.given.clone();
        match operation {
            Mode::Delete => columns.retain(is_key),
            Mode::Update => columns.retain(|name| is_key(name) || !self.unique.contains(name)),
            _ if keys == Keys::Generated => columns.retain(|name| !is_key(name)),
            _ => {}
        }
        columns
    }

    /// Why these rows cannot be measured in such a way; none where they can.
    pub(super) fn obstacle(&self, setting: &Setting) -> Option<String> {
        let TableForm {
            indexes,
            keys,
            storage,
            page_bytes,
            ..
        } = setting.table;
        let changed = indexes > 0 || storage != Storage::Plain || page_bytes.is_some();
        let why = match &self.tables {
            Tables::Copies(table) if changed || keys == Keys::None => Some(format!(
                "a copy of {} has its key and its indexes, and is kept as it is",
                table.name
            )),
            Tables::Copies(table) if keys == Keys::Generated => {
                let numbers = |name: &String| table.column(name).is_some_and(|column| column.has_default);
                let numbered = !self.key.is_empty() && self.key.iter().all(numbers);
                (!numbered).then(|| format!("{} has no key that the database fills in", table.name))
            }
            Tables::Made(_) if keys == Keys::Generated => {
                Some("rows of one's own bring what they have: no column is the database's".to_owned())
            }
            Tables::Made(columns) => {
                let most = indexable(columns, &self.key).len();
                (indexes > most).then(|| {
                    format!(
                        "there are {} that can have an index",
                        Counted(most as u64, "column")
                    )
                })
            }
            Tables::Copies(_) => None,
        };
        why.or_else(|| self.no_key(setting))
    }

    /// Why an operation cannot find its rows by their key.
    fn no_key(&self, setting: &Setting) -> Option<String> {
        if setting.operation == Mode::Insert {
            return None;
        }
        let needs = format!("{} needs a primary key", setting.operation.phrase());
        if setting.table.keys != Keys::Given {
            return Some(format!("{needs} that rows bring"));
        }
        if self.key.is_empty() {
            return Some(match &self.tables {
                Tables::Copies(table) => format!("{needs}, and {} has none", table.name),
                Tables::Made(_) => format!("{needs}: --key names its columns"),
            });
        }
        let missing = self.key.iter().find(|name| !self.given.contains(name))?;
        Some(format!("{needs}, and no row brings its column {missing}"))
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::Int32Array,
        datatypes::{DataType, Field},
    };

    use super::*;
    use tonnage_formats::sources::batches::BatchSource;

    #[test]
    fn no_more_is_read_than_was_asked_for_or_can_be_held() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int32, false)]));
        let source = || {
            let of = schema.clone();
            let batches = (0..10).map(move |_| {
                let numbers = Int32Array::from_iter_values(0..1_000);
                RecordBatch::try_new(of.clone(), vec![Arc::new(numbers)]).unwrap()
            });
            Box::new(BatchSource::new("rows", schema.clone(), batches))
        };
        let count = |rows, bytes_max| -> usize {
            let columns = as_they_are(&*source());
            let read = read(source(), columns, rows, bytes_max).unwrap();
            read.iter().map(RecordBatch::num_rows).sum()
        };
        assert_eq!(count(2_500, usize::MAX), 2_500);
        assert_eq!(count(u64::MAX, usize::MAX), 10_000);
        // A batch takes at least its values: the third one is not begun.
        assert_eq!(count(u64::MAX, 7_000), 2_000);
    }
}
