//! The seam on the way out: rows of a table or a query, read by several connections that see one state.
//!
//! A [`Snapshot`] is cut into splits: disjoint parts that together are everything, exactly once, however long the
//! reading takes and whoever writes meanwhile. Its readers have all begun when it is handed out, so each may read any
//! split, one after another; dropping a reader ends its transaction. Splits are small where the database can cut
//! cheaply, so that no reader is left with a large one at the end.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    table::{Table, TableName, columns_hint, index_by_name, nearest},
    types::ColumnType,
};

/// Where rows are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// A table or a view: exact name, else a unique case-insensitive one.
    Table(TableName),
    /// The rows of a query, in the database's own SQL.
    Query(String),
}

/// What is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanRequest {
    /// From where.
    pub relation: Relation,
    /// The columns wanted, in order; none for all of a query's, and all of a table's that it does not compute itself.
    pub columns: Option<Vec<String>>,
    /// Columns that come as the database's text, with any content.
    pub texts: Vec<String>,
    /// Which rows: a condition in the database's own SQL.
    pub filter: Option<String>,
    /// At most so many rows, any of them. They are one split.
    pub limit: Option<u64>,
    /// The column whose values cut the splits; none lets the target choose.
    pub split_by: Option<String>,
    /// The most readers wanted, at least 1. There are fewer where they could not see one state, or have nothing to do.
    pub readers: usize,
    /// The bounds of a batch.
    pub batch: BatchBounds,
    /// What becomes of values that Arrow's types do not have.
    pub beyond_arrow: BeyondArrow,
}

/// What becomes of values that Arrow's types do not have: PostgreSQL's dates `infinity` and `-infinity`, MariaDB's dates
/// with a zero (`0000-00-00`, `2024-00-00`) and its times outside a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeyondArrow {
    /// Such a value is an error, which names its row.
    Refused,
    /// For callers that write them as text, or into a database that has them. The largest and the smallest number of days or
    /// microseconds mean `infinity` and `-infinity`; the numbers after the smallest mean dates with a zero, which is some
    /// 5,800,000 years before 1970 in days and 290,000 in microseconds; a time has more microseconds than a day, or fewer
    /// than none.
    Carried,
}

/// The bounds of a batch: it ends with the row that reaches either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchBounds {
    /// Rows.
    pub rows_max: usize,
    /// Bytes, about.
    pub bytes_max: usize,
}

/// A column that is read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadColumn {
    /// Its name.
    pub name: String,
    /// What it holds; never `Any`. Batches have it as [`ColumnType::arrow`].
    pub ty: ColumnType,
    /// Of an array, which comes as text in braces (`{1,NULL,"a b"}`), what its elements are, where that is known.
    pub element: Option<ColumnType>,
    /// Its type in the database's words.
    pub declared: String,
    /// Whether it may hold nulls.
    pub nullable: bool,
}

impl ReadColumn {
    /// Of an array, what a list of its values holds: text where JSON has no other form of them. None where there is no list
    /// that would be the same array again.
    pub fn item(&self) -> Option<ColumnType> {
        match self.element? {
            ColumnType::Json | ColumnType::Bytes | ColumnType::Any => None,
            ColumnType::Text { .. } | ColumnType::Char { .. } | ColumnType::Uuid | ColumnType::Time => {
                Some(ColumnType::TEXT)
            }
            other => Some(other),
        }
    }
}

/// One state of a table or a query's result.
pub struct Snapshot {
    /// The full name of the table or view, as the database has it; none for a query.
    pub table: Option<TableName>,
    /// Its columns.
    pub columns: Vec<ReadColumn>,
    /// The columns of its primary key in key order; empty where it has none or not all of them are read.
    pub key: Vec<String>,
    /// How many splits there are, numbered from 0. Read in this order, rows come as one reader alone would see them.
    pub splits: usize,
    /// At least one, and no more than were asked for.
    pub readers: Vec<Box<dyn Reader>>,
    /// How it comes that its readers see one state.
    pub consistency: &'static str,
    /// Session settings that readers change, a line each.
    pub settings_changed: Vec<String>,
    /// What a user should know of how it is read, a sentence each.
    pub notes: Vec<String>,
}

/// Which states the parts of a [`CutScan`] are read of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutStates {
    /// One, where the database can show one to several processes; it is there for as long as [`CutScan::holder`].
    One,
    /// Each part its own, so nothing has to be held. A row that nobody changes meanwhile is in exactly one part.
    Any,
}

/// A part of a [`CutScan`], which any process may read, again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanPart {
    /// The state it is read of, by the database's name for it; none for what is committed when its reading begins.
    pub state: Option<String>,
    /// What it reads, in the database's own SQL, one after another; empty for everything that was asked for.
    pub queries: Vec<String>,
}

/// A table or a query's result, cut into parts that other processes read.
pub struct CutScan {
    /// Its columns.
    pub columns: Vec<ReadColumn>,
    /// At least one: disjoint, and together everything. In this order rows come as one reader alone would see them.
    pub parts: Vec<ScanPart>,
    /// What holds the state of the parts: dropping it ends it, and parts that are begun later fail. None where each part has
    /// a state of its own.
    pub holder: Option<Box<dyn Reader>>,
    /// What a user should know of how it is read, a sentence each.
    pub notes: Vec<String>,
}

/// `queries` in their order as the parts of one `state`, at most `parts_max` of them.
pub fn parts_of(queries: Vec<String>, state: Option<&str>, parts_max: usize) -> Vec<ScanPart> {
    let count = queries.len();
    let parts = parts_max.clamp(1, count.max(1));
    let mut queries = queries.into_iter();
    (0..parts)
        .map(|at| ScanPart {
            state: state.map(str::to_owned),
            queries: queries
                .by_ref()
                .take((at + 1) * count / parts - at * count / parts)
                .collect(),
        })
        .collect()
}

/// The [consistency](Snapshot::consistency) of a single reader.
pub const BY_ITSELF: &str = "one transaction, which sees what is committed when it begins";

/// That of readers which begin while writers are held off.
pub const HELD_OFF: &str = "writers are held off for the moment in which the readers begin";

/// The error for a table or view that is not there.
pub fn no_table(name: &TableName, names: &[String]) -> Error {
    let error = Error::schema(format!("there is no table {name}"));
    match nearest(&name.name, names.iter().map(String::as_str)).as_slice() {
        [] if names.is_empty() => error.hint("this database has no table at all: is it the one you mean?"),
        [] => error.hint("write it as schema.table if it is in another schema"),
        close => error.hint(format!("did you mean {}?", close.join(" or "))),
    }
}

/// Positions of the columns that `request` wants among those called `names`, or of `all` where it names none; and
/// whether each comes as text. `place` is what messages call the table.
pub fn wanted<'a>(
    request: &ScanRequest,
    place: &str,
    names: impl Iterator<Item = &'a str> + Clone,
    all: impl Iterator<Item = usize>,
) -> Result<Vec<(usize, bool)>> {
    let known: Vec<&str> = names.clone().collect();
    let find = |name: &String| {
        index_by_name(&known, name, |known| known).ok_or_else(|| {
            Error::schema(format!("{place} has no column '{name}'")).hint(columns_hint(name, names.clone()))
        })
    };
    let wanted: Vec<usize> = match &request.columns {
        Some(columns) => columns.iter().map(find).collect::<Result<_>>()?,
        None => all.collect(),
    };
    if let Some((_, twice)) = wanted
        .iter()
        .enumerate()
        .find(|(at, column)| wanted[..*at].iter().any(|other| known[*other] == known[**column]))
    {
        return Err(Error::config(format!(
            "column '{}' is there twice, and columns are identified by their names",
            known[*twice]
        ))
        .hint("give each column of a query a name of its own with AS"));
    }
    let mut texts = Vec::new();
    for name in &request.texts {
        let at = find(name)?;
        if !wanted.contains(&at) {
            return Err(Error::config(format!(
                "column '{name}' comes as text, but it does not come at all"
            ))
            .hint("add it to the columns, or leave it out of --text"));
        }
        texts.push(at);
    }
    if wanted.is_empty() {
        return Err(Error::schema(format!("{place} has no columns to read")));
    }
    Ok(wanted.into_iter().map(|at| (at, texts.contains(&at))).collect())
}

/// The columns that are read where [`wanted`] has found them in `table`.
pub fn read_columns(table: &Table, wanted: &[(usize, bool)]) -> Vec<ReadColumn> {
    let columns = wanted.iter().map(|(at, as_text)| {
        let column = &table.columns[*at];
        ReadColumn {
            element: None,
            name: column.name.clone(),
            ty: column.ty.filter(|_| !as_text).unwrap_or(ColumnType::TEXT),
            declared: column.declared.clone(),
            nullable: column.nullable,
        }
    });
    columns.collect()
}

impl Snapshot {
    /// The schema of its batches. A field's metadata keeps what its Arrow type does not say, so that a file of them
    /// loaded again makes the same columns.
    pub fn schema(&self) -> SchemaRef {
        schema(&self.columns)
    }
}

/// The schema of batches of `columns`.
pub fn schema(columns: &[ReadColumn]) -> SchemaRef {
    let fields = columns
        .iter()
        .map(|column| column.ty.field(&column.name, column.nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// What a user should know of columns that are read from a table or view.
pub fn notes(table: &Table, columns: &[ReadColumn], request: &ScanRequest) -> Vec<String> {
    let computed: Vec<_> = table.columns.iter().filter(|column| column.generated).collect();
    let computed: Vec<_> = computed.iter().map(|column| column.name.as_str()).collect();
    let mut notes: Vec<_> = left_out(&computed, request).into_iter().collect();
    for column in table.columns.iter().filter(|column| column.ty.is_none()) {
        let Some(read) = columns.iter().find(|read| read.name == column.name) else {
            continue;
        };
        if !request.texts.contains(&column.name) {
            let form = match read.item() {
                Some(_) => "as lists, and as text where the format has none",
                None => "as text",
            };
            notes.push(format!(
                "column '{}' of type {} comes {form}",
                column.name, column.declared
            ));
        }
    }
    notes
}

/// That columns which the database computes are not read, where nothing else was asked for.
pub fn left_out(computed: &[&str], request: &ScanRequest) -> Option<String> {
    let left_out = request.columns.is_none() && !computed.is_empty();
    left_out.then(|| {
        format!(
            "{} is computed by the database and left out; --columns names what to take",
            computed.join(", ")
        )
    })
}

/// One connection that reads a [`Snapshot`]. Dropping it ends its transaction.
#[async_trait]
pub trait Reader: Send {
    /// Begins split `split`; what is left of another one is dropped. One that was read before, by this reader or another one,
    /// is read again: the same rows where readers see one state.
    async fn open(&mut self, split: usize) -> Result<()>;

    /// The next rows of the split that was opened; `None` at its end. Batches are never empty. An error names the
    /// row whose value has no exact form, and is the end of this reader.
    async fn next(&mut self) -> Result<Option<RecordBatch>>;
}
