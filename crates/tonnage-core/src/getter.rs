//! The seam for rows of keys: one connection that answers questions, each about a bounded number of keys.
//!
//! Whether a row has a key is the database's decision and nobody else's: an [`Answer`] says of every row which of the
//! keys that were asked it has. So the engine knows which keys were found without knowing how the database compares
//! them. Two keys that only the database takes for equal are both answered, with the same row.

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array},
    compute::take_record_batch,
};
use async_trait::async_trait;

use crate::{
    error::{Error, Result, arrow_bug},
    reader::{BatchBounds, BeyondArrow, ReadColumn, Relation, ScanRequest},
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
    /// Columns that come as the database's text, with any content.
    pub texts: Vec<String>,
    /// The bounds of an answer.
    pub batch: BatchBounds,
    /// Whether the columns begin a primary or unique key, so that an index leads to each. Else they may be any: those of
    /// a foreign key, say.
    pub keyed: bool,
}

impl GetRequest {
    /// The columns wanted, as what reads the whole table is asked for them.
    pub fn scan(&self) -> ScanRequest {
        ScanRequest {
            relation: Relation::Table(self.table.clone()),
            columns: self.columns.clone(),
            texts: self.texts.clone(),
            filter: None,
            limit: None,
            split_by: None,
            readers: 1,
            batch: self.batch,
            beyond_arrow: BeyondArrow::Refused,
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
    /// One value of the column's [`ColumnType::arrow`](crate::types::ColumnType::arrow), not null.
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
pub trait ReadSnapshot: Send + Sync {
    /// Opens a connection that sees this state. An error that is not transient where there are no more.
    async fn getter(&self, request: &GetRequest) -> Result<Box<dyn Getter>>;
}

/// The note of a get without a [`ReadSnapshot`].
pub const EACH_ITS_OWN: &str = "each request sees what is committed when it is answered";

/// Rows that can be encoded, and what came of the others.
pub struct Encodable<T, F> {
    /// All rows that can be, together.
    pub encoded: T,
    /// How many these are.
    pub rows: usize,
    /// Their places among all rows; none where that is all of them.
    pub places: Option<Vec<u32>>,
    /// The others, by their places, with what is wrong with them.
    pub faults: Vec<(usize, F)>,
}

/// Encodes what can be encoded. Rows that cannot be are found by halves, so that a few cost little and many cost each
/// row no more than a logarithm.
pub fn encodable<T, F>(
    rows: &RecordBatch,
    mut encode: impl FnMut(&RecordBatch) -> Result<std::result::Result<T, F>>,
) -> Result<Encodable<T, F>> {
    let count = rows.num_rows();
    let fault = match encode(rows)? {
        Ok(encoded) => {
            return Ok(Encodable {
                encoded,
                rows: count,
                places: None,
                faults: Vec::new(),
            });
        }
        Err(fault) => fault,
    };
    let (mut places, mut faults) = (Vec::new(), Vec::new());
    let mut halves = vec![(0..count, Some(fault))];
    while let Some((range, known)) = halves.pop() {
        let fault = match known {
            Some(fault) => fault,
            None => match encode(&rows.slice(range.start, range.len()))? {
                Ok(_) => {
                    places.extend(range.map(|row| row as u32));
                    continue;
                }
                Err(fault) => fault,
            },
        };
        if range.len() <= 1 {
            faults.push((range.start, fault));
            continue;
        }
        let middle = range.start + range.len() / 2;
        halves.push((middle..range.end, None));
        halves.push((range.start..middle, None));
    }
    let kept = take_record_batch(rows, &UInt32Array::from(places.clone())).map_err(arrow_bug)?;
    let encoded = encode(&kept)?.map_err(|_| Error::bug("rows that can be encoded cannot be together"))?;
    Ok(Encodable {
        encoded,
        rows: kept.num_rows(),
        places: Some(places),
        faults,
    })
}

/// The note on a table without an index that begins with the requested keys.
pub fn no_index(table: &TableName, columns: &[GetKey]) -> String {
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
    fn settings_changed(&self) -> Vec<String>;

    /// What a user should know of how rows are looked up, a sentence each.
    fn notes(&self) -> Vec<String>;

    /// Asks for the rows of `keys`: distinct, without nulls, in their columns'
    /// [`ColumnType::arrow`](crate::types::ColumnType::arrow) types. What is left of the last answer is dropped. A value that
    /// the column could never hold is a key without rows.
    async fn ask(&mut self, keys: &RecordBatch) -> Result<()>;

    /// The next rows; none at the end. After an error the getter is good for nothing but to be dropped.
    async fn next(&mut self) -> Result<Option<Answer>>;
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::Arc};

    use arrow::{
        array::{AsArray, Int64Array},
        datatypes::Int64Type,
    };

    use super::*;

    #[test]
    fn what_cannot_be_encoded_is_found_without_encoding_all_again_for_each() {
        const ROWS: i64 = 4_096;
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
        let rows = RecordBatch::try_from_iter([("k", column)]).unwrap();
        type Bad = fn(i64) -> bool;
        let bad: [(&str, Bad); 5] = [
            ("none", |_| false),
            ("the last", |value| value == ROWS - 1),
            ("every third", |value| value % 3 == 0),
            ("all but one", |value| value != 77),
            ("all", |_| true),
        ];
        for (name, bad) in bad {
            let looked_at = Cell::new(0);
            let encode = |rows: &RecordBatch| {
                looked_at.set(looked_at.get() + rows.num_rows());
                let values = rows.column(0).as_primitive::<Int64Type>().values();
                Ok(match values.iter().find(|value| bad(**value)) {
                    Some(value) => Err(*value),
                    None => Ok(values.to_vec()),
                })
            };
            let found = encodable(&rows, encode).unwrap();
            let (expected, good): (Vec<i64>, Vec<i64>) = (0..ROWS).partition(|value| bad(*value));
            assert_eq!(found.encoded, good, "{name}");
            assert_eq!(found.rows, good.len(), "{name}");
            let faults: Vec<i64> = found.faults.iter().map(|(row, _)| *row as i64).collect();
            assert_eq!(faults, expected, "{name}");
            assert!(
                found.faults.iter().all(|(row, value)| *row as i64 == *value),
                "{name}"
            );
            let places = found
                .places
                .map(|places| places.into_iter().map(i64::from).collect());
            assert_eq!(
                places.unwrap_or_else(|| (0..ROWS).collect::<Vec<_>>()),
                good,
                "{name}"
            );
            assert!(
                looked_at.get() <= ROWS as usize * 14,
                "{name}: {}",
                looked_at.get()
            );
        }
    }

    #[test]
    fn no_rows_are_encoded_as_such() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..0));
        let rows = RecordBatch::try_from_iter([("k", column)]).unwrap();
        let found = encodable(&rows, |rows| Ok(Ok::<_, ()>(rows.num_rows()))).unwrap();
        assert_eq!((found.encoded, found.rows, found.places), (0, 0, None));
    }
}
