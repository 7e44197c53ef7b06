//! The seam for rows of keys: one connection that answers questions, each about a bounded number of keys.
//!
//! Whether a row has a key is the database's decision and nobody else's: an [`Answer`] says of every row which of the
//! keys that were asked it has. So the engine knows which keys were found without knowing how the database compares
//! them. Two keys that only the database takes for equal are both answered, with the same row.

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use async_trait::async_trait;

use crate::{
    error::Result,
    reader::{BatchBounds, ReadColumn, Relation, ScanRequest},
    table::TableName,
    types::ColumnType,
};

/// What questions will be about.
#[derive(Debug, Clone)]
pub struct GetRequest {
    /// The table's exact name.
    pub table: TableName,
    /// The columns that keys are of, as the table spells them: all columns of a primary or unique key in its order, or
    /// the first ones; or others, where they are not [`keyed`](Self::keyed).
    pub key: Vec<GetKey>,
    /// Which rows of a key are wanted, where not all.
    pub range: Option<KeyRange>,
    /// The columns wanted, in order, as the table spells them; none for all that the database does not compute itself.
    pub columns: Option<Vec<String>>,
    /// Columns that come as the database's own text, whatever they hold.
    pub texts: Vec<String>,
    /// The bounds of an answer.
    pub batch: BatchBounds,
    /// Whether the columns begin a primary or unique key, so that an index leads to each. Else they may be any: those of
    /// a foreign key, say.
    pub keyed: bool,
}

impl GetRequest {
    /// The columns wanted, as what reads the whole table is asked for them.
    pub(crate) fn scan(&self) -> ScanRequest {
        ScanRequest {
            relation: Relation::Table(self.table.clone()),
            columns: self.columns.clone(),
            texts: self.texts.clone(),
            filter: None,
            limit: None,
            split_by: None,
            readers: 1,
            batch: self.batch,
        }
    }
}

/// A column that keys are of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetKey {
    /// Its name.
    pub name: String,
    /// The type of the values that come; never `Any`.
    pub ty: ColumnType,
}

/// A range of the key column behind those that are given.
#[derive(Debug, Clone)]
pub struct KeyRange {
    /// The column.
    pub column: GetKey,
    /// Where the range begins; open if none.
    pub from: Option<RangeEnd>,
    /// Where it ends; open if none.
    pub to: Option<RangeEnd>,
}

/// An end of a range.
#[derive(Debug, Clone)]
pub struct RangeEnd {
    /// One value of the column's [`ColumnType::arrow`](crate::ColumnType::arrow), not null.
    pub value: ArrayRef,
    /// Whether the value itself is in the range.
    pub inclusive: bool,
}

/// Rows of some of the keys asked.
#[derive(Debug)]
pub struct Answer {
    /// The rows, at least one: the columns wanted.
    pub rows: RecordBatch,
    /// For each row the key that it has, as its place among the keys asked.
    pub keys: UInt32Array,
}

/// The state of one moment, for as long as it is kept: whatever its getters ask, and whoever writes meanwhile, they see
/// what was committed then.
#[async_trait]
pub trait Moment: Send + Sync {
    /// Opens a connection that sees this state. An error that is not transient where there are no more.
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>>;
}

/// The note of a get without a [`Moment`].
pub(crate) const EACH_ITS_OWN: &str = "each request sees what is committed when it is answered";

/// What is told of a table that no index of leads to its keys.
pub(crate) fn no_index(table: &TableName, columns: &[GetKey]) -> String {
    let names: Vec<_> = columns.iter().map(|key| key.name.as_str()).collect();
    format!(
        "no index of {table} begins with ({}): every request reads the whole table",
        names.join(", ")
    )
}

/// One connection that looks rows up by key.
#[async_trait]
pub trait Getter: Send {
    /// The columns of the rows, in order.
    fn columns(&self) -> &[ReadColumn];

    /// Session settings that it has changed, a line each.
    fn settings_changed(&self) -> Vec<String> {
        Vec::new()
    }

    /// What a user should know of how rows are looked up, a sentence each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Asks for the rows of `keys`: distinct, without nulls, in their columns'
    /// [`ColumnType::arrow`](crate::ColumnType::arrow) types. What is left of the last answer is dropped. A value that
    /// the column could never hold is a key without rows.
    async fn ask(&mut self, keys: &RecordBatch) -> Result<()>;

    /// The next rows; none at the end. After an error the getter is good for nothing but to be dropped.
    async fn next(&mut self) -> Result<Option<Answer>>;
}
