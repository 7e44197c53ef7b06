//! The form of the tables that rows go into: what a workload leaves open of them, and so what can be measured of it.
//!
//! - A form says what is other than usual; [`TableForm::default`] is the table that `tonnage load --create` would make.
//! - What a workload cannot be, [`TableForm::unlike`] says; what a database cannot make, its
//!   [`Gauge::obstacle`](super::Gauge::obstacle). Neither is ever measured under another's name.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::setting::RowKind;
use crate::{
    report::{Counted, Grouped},
    table::{ColumnSpec, TableName, TableSpec},
    types::ColumnType,
};

/// The column that a database numbers where a table has a key of several columns, or none.
const NUMBERED: &str = "id";
/// The longest text that goes into an index, in characters: what every database's index entries hold.
const INDEXED_CHARS_MAX: u32 = 190;

/// Where the keys of rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keys {
    /// Rows bring them.
    #[default]
    Given,
    /// The database numbers rows, which come without: an identity column, AUTO_INCREMENT, the rowid.
    Generated,
    /// There is no key.
    None,
}

impl Keys {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Given, Self::Generated, Self::None];
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given => "given",
            Self::Generated => "generated",
            Self::None => "none",
        })
    }
}

/// How a table is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Storage {
    /// As the database keeps any.
    #[default]
    Plain,
    /// Without a log of its changes: its rows are gone after a crash.
    Unlogged,
    /// Compressed, by what the database has for that.
    Compressed,
}

impl Storage {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Unlogged, Self::Compressed];
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Unlogged => "unlogged",
            Self::Compressed => "compressed",
        })
    }
}

/// The form of a table. See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct TableForm {
    /// Indexes beside the primary key, of a column each.
    pub indexes: usize,
    /// Columns; none for as many as the workload has of itself.
    pub columns: Option<usize>,
    /// Where keys come from.
    pub keys: Keys,
    /// How it is kept.
    pub storage: Storage,
    /// Bytes of a page; none for as many as the database's other tables have.
    pub page_bytes: Option<u32>,
}

impl TableForm {
    /// What is other than usual, a phrase each: `3 indexes`, `unlogged`.
    pub fn phrases(&self) -> Vec<String> {
        let mut phrases = Vec::new();
        if self.indexes > 0 {
            let name = if self.indexes == 1 { "index" } else { "indexes" };
            phrases.push(format!("{} {name}", Grouped(self.indexes as u64)));
        }
        if let Some(columns) = self.columns {
            phrases.push(Counted(columns as u64, "column").to_string());
        }
        match self.keys {
            Keys::Given => {}
            Keys::Generated => phrases.push("generated keys".to_owned()),
            Keys::None => phrases.push("no key".to_owned()),
        }
        if self.storage != Storage::Plain {
            phrases.push(self.storage.to_string());
        }
        if let Some(bytes) = self.page_bytes {
            phrases.push(format!("pages of {}", Bytes(bytes)));
        }
        phrases
    }

    /// Why rows of `kind` cannot go into a table of this form, whatever the database; none where they can.
    pub fn unlike(&self, kind: RowKind) -> Option<String> {
        match kind {
            RowKind::Workload(workload) => {
                if let Some(columns) = self.columns {
                    match workload.widths() {
                        Some(widths) if widths.contains(&columns) => {}
                        Some(widths) => {
                            return Some(format!(
                                "{workload} can have {} to {} columns",
                                widths.start(),
                                Grouped(*widths.end() as u64)
                            ));
                        }
                        None => {
                            return Some(format!(
                                "the columns of {workload} are what they are; those of readings and ycsb can be as many as \
                                 asked for"
                            ));
                        }
                    }
                }
                let key: Vec<String> = workload.key().iter().map(|name| (*name).to_owned()).collect();
                let most = indexable(&workload.columns_of(self.columns), &key).len();
                (self.indexes > most).then(|| {
                    format!(
                        "{workload} has {} beside its key that can have an index",
                        Counted(most as u64, "column")
                    )
                })
            }
            RowKind::Own => match self {
                Self { columns: Some(_), .. } => {
                    Some("rows of one's own have the columns that they have".to_owned())
                }
                _ => None,
            },
        }
    }

    /// The table to be made of these columns. `key` are those that no two rows share; rows that are numbered by the
    /// database come without it where it is one column.
    pub fn making(&self, name: TableName, mut columns: Vec<ColumnSpec>, key: Vec<String>) -> Making {
        let indexed = indexable(&columns, &key);
        let mut spec_key = key;
        let mut numbered = None;
        match self.keys {
            Keys::Given => {}
            Keys::None => spec_key.clear(),
            Keys::Generated => {
                let of_one = match spec_key.as_slice() {
                    [only] => columns.iter_mut().find(|column| column.name == *only),
                    _ => None,
                };
                let name = match of_one {
                    Some(column) => {
                        if !matches!(column.ty, ColumnType::Int32 | ColumnType::Int64) {
                            column.ty = ColumnType::Int64;
                        }
                        column.name.clone()
                    }
                    None => {
                        columns.insert(
                            0,
                            ColumnSpec {
                                name: NUMBERED.to_owned(),
                                ty: ColumnType::Int64,
                                nullable: false,
                            },
                        );
                        NUMBERED.to_owned()
                    }
                };
                spec_key = vec![name.clone()];
                numbered = Some(name);
            }
        }
        Making {
            spec: TableSpec {
                name,
                columns,
                key: spec_key,
            },
            indexed: indexed.into_iter().take(self.indexes).collect(),
            numbered,
            storage: self.storage,
        }
    }
}

impl fmt::Display for TableForm {
    /// `3 indexes, unlogged`; of the usual one `plain`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.phrases().as_slice() {
            [] => f.write_str("plain"),
            phrases => f.write_str(&phrases.join(", ")),
        }
    }
}

/// Bytes as people ask for them: `4k`, `512`.
struct Bytes(u32);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes > 0 && bytes.is_multiple_of(1_024) => write!(f, "{}k", bytes / 1_024),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// A table to be made to measure with.
#[derive(Debug, Clone, PartialEq)]
pub struct Making {
    /// Name, columns and primary key.
    pub spec: TableSpec,
    /// Columns that get an index each.
    pub indexed: Vec<String>,
    /// The column of the key that the database is to number.
    pub numbered: Option<String>,
    /// How it is kept.
    pub storage: Storage,
}

impl Making {
    /// The columns that hold text or bytes, which is what can be compressed value by value.
    pub fn compressible(&self) -> impl Iterator<Item = &ColumnSpec> {
        self.spec.columns.iter().filter(|column| {
            matches!(
                column.ty,
                ColumnType::Text { .. } | ColumnType::Char { .. } | ColumnType::Json | ColumnType::Bytes
            )
        })
    }
}

/// The columns beside `key` that any database can index: numbers and times first, then texts that are not long.
pub(super) fn indexable(columns: &[ColumnSpec], key: &[String]) -> Vec<String> {
    let beside = || columns.iter().filter(|column| !key.contains(&column.name));
    let is_text = |column: &ColumnSpec| match column.ty {
        ColumnType::Text { chars_max } => chars_max.is_some_and(|chars| chars <= INDEXED_CHARS_MAX),
        ColumnType::Char { chars } => chars <= INDEXED_CHARS_MAX,
        ColumnType::Uuid => true,
        _ => false,
    };
    let is_number = |column: &ColumnSpec| {
        matches!(
            column.ty,
            ColumnType::Int16
                | ColumnType::Int32
                | ColumnType::Int64
                | ColumnType::Float32
                | ColumnType::Float64
                | ColumnType::Decimal { .. }
                | ColumnType::Numeric
                | ColumnType::Date
                | ColumnType::Time
                | ColumnType::Timestamp
                | ColumnType::TimestampTz
        )
    };
    let numbers = beside().filter(|column| is_number(column));
    let texts = beside().filter(|column| is_text(column));
    numbers.chain(texts).map(|column| column.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Workload;

    fn made(workload: Workload, form: TableForm) -> Making {
        let key = workload.key().iter().map(|name| (*name).to_owned()).collect();
        form.making(TableName::bare("t"), workload.columns_of(form.columns), key)
    }

    #[test]
    fn a_form_is_told_by_what_is_unusual() {
        assert_eq!(TableForm::default().to_string(), "plain");
        let form = TableForm {
            indexes: 1,
            columns: Some(1_000),
            keys: Keys::Generated,
            storage: Storage::Unlogged,
            page_bytes: Some(4_096),
        };
        assert_eq!(
            form.to_string(),
            "1 index, 1,000 columns, generated keys, unlogged, pages of 4k"
        );
    }

    #[test]
    fn a_numbered_key_takes_the_place_of_one_column_or_stands_beside_several() {
        let generated = TableForm {
            keys: Keys::Generated,
            ..TableForm::default()
        };
        for (workload, columns, numbered, ty) in [
            (Workload::Sbtest, 4, "id", ColumnType::Int32),
            (Workload::Journal, 5, "id", ColumnType::Int64),
            (Workload::Ycsb, 11, "key", ColumnType::Int64),
            (Workload::Readings, 11, "id", ColumnType::Int64),
        ] {
            let made = made(workload, generated);
            assert_eq!(made.numbered.as_deref(), Some(numbered), "{workload}");
            assert_eq!(made.spec.key, [numbered], "{workload}");
            assert_eq!(made.spec.columns.len(), columns, "{workload}");
            let column = made.spec.columns.iter().find(|column| column.name == numbered);
            assert_eq!(column.map(|column| column.ty), Some(ty), "{workload}");
        }
    }

    #[test]
    fn numbers_get_the_first_indexes_and_what_no_index_holds_gets_none() {
        let all = |workload: Workload, indexes| {
            let form = TableForm {
                indexes,
                ..TableForm::default()
            };
            (made(workload, form).indexed, form.unlike(workload.into()))
        };
        assert_eq!(all(Workload::Sbtest, 2), (vec!["k".into(), "c".into()], None));
        assert_eq!(
            all(Workload::Journal, 3),
            (vec!["ts".into(), "run_id".into(), "scenario".into()], None)
        );
        let (indexed, why) = all(Workload::Sbtest, 4);
        assert_eq!(indexed, ["k", "c", "pad"]);
        assert_eq!(
            why.as_deref(),
            Some("sbtest has 3 columns beside its key that can have an index")
        );
        let (indexed, why) = all(Workload::Readings, 7);
        assert_eq!(why, None);
        assert_eq!(indexed.last().map(String::as_str), Some("site"));
    }

    #[test]
    fn columns_are_as_many_as_a_workload_can_have() {
        let of = |workload: Workload, columns| {
            TableForm {
                columns: Some(columns),
                ..TableForm::default()
            }
            .unlike(workload.into())
        };
        assert_eq!(of(Workload::Readings, 500), None);
        assert_eq!(of(Workload::Ycsb, 2), None);
        assert_eq!(
            of(Workload::Readings, 2).as_deref(),
            Some("readings can have 3 to 1,600 columns")
        );
        assert!(of(Workload::Sbtest, 5).is_some_and(|why| why.contains("readings and ycsb")));
    }
}
