//! The form of the tables that rows go into: what a workload leaves open of them, and so what can be measured of it.
//!
//! - A form says what is other than usual; [`TableForm::default`] is the table that `tonnage load --create` would make.
//! - What a workload cannot be, [`TableForm::unlike`] says; what a database cannot make, its
//!   [`Gauge::obstacle`](super::Gauge::obstacle). Neither is ever measured under another's name.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::setting::RowKind;
use crate::{
    generate::Workload,
    report::{Counted, Grouped},
    sinks::digits::push_timestamp_micros,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
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
    /// Partitions by time, each of a range of it; 0 for a table that is not partitioned.
    pub partitions: usize,
    /// How many there are of it, at least one: rows are dealt over them, and each is written by as many jobs.
    pub tables: usize,
}

impl Default for TableForm {
    fn default() -> Self {
        Self {
            indexes: 0,
            columns: None,
            keys: Keys::default(),
            storage: Storage::default(),
            page_bytes: None,
            partitions: 0,
            tables: 1,
        }
    }
}

impl TableForm {
    /// The form of one of them.
    pub fn alone(&self) -> Self {
        Self { tables: 1, ..*self }
    }

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
        if self.partitions > 0 {
            phrases.push(Counted(self.partitions as u64, "time partition").to_string());
        }
        if self.tables != 1 {
            phrases.push(Counted(self.tables as u64, "table").to_string());
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
                if let Some(why) = self.timeless(workload) {
                    return Some(why);
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
                Self { partitions: 1.., .. } => {
                    Some("rows of one's own go into tables that are not partitioned".to_owned())
                }
                _ => None,
            },
        }
    }

    /// Why there is no time to be partitioned by; none where there is, or nothing is partitioned.
    fn timeless(&self, workload: Workload) -> Option<String> {
        if self.partitions == 0 {
            return None;
        }
        let Some(time) = workload.time() else {
            return Some(format!(
                "{workload} has no time to be partitioned by; journal and readings have"
            ));
        };
        let kept = match self.keys {
            Keys::Given => workload.key().contains(&time),
            Keys::Generated => false,
            Keys::None => true,
        };
        (!kept).then(|| {
            format!(
                "a primary key must have {time} in it, by which its table is partitioned; --keys none is without"
            )
        })
    }

    /// The table to be made of these columns, not partitioned yet. `key` are those that no two rows share; rows that are
    /// numbered by the database come without it where it is one column.
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
            partitions: None,
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
    /// How it is partitioned; none where it is not.
    pub partitions: Option<Partitions>,
}

/// Partitions by time: each but the first begins where the one before ends, and the first and the last have no other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partitions {
    /// The column, a [`Timestamp`](ColumnType::Timestamp) or [`TimestampTz`](ColumnType::TimestampTz).
    pub column: String,
    /// Where all but the last end, which is not in them, ascending: seconds since 1970, UTC.
    pub ends: Vec<i64>,
}

impl Partitions {
    /// Into so many `parts` of about the same length, at least one, from `first` to `last`, microseconds since 1970. None
    /// where whole seconds do not part them.
    pub(super) fn even(column: &str, parts: usize, (first, last): (i64, i64)) -> Option<Self> {
        let (first, last) = (first.div_euclid(1_000_000), last.div_euclid(1_000_000) + 1);
        let length = i128::from(last - first);
        let end = |part: usize| first + (length * part as i128 / parts.max(1) as i128) as i64;
        let ends: Vec<i64> = (1..parts).map(end).collect();
        let ascend = ends.windows(2).all(|two| two[0] < two[1]);
        (ascend && ends.first().is_none_or(|end| *end > first)).then(|| Self {
            column: column.to_owned(),
            ends,
        })
    }

    /// The ends as databases write them: `2024-01-31 23:59:59.000000`.
    pub fn shown(&self) -> impl Iterator<Item = String> {
        self.ends.iter().map(|end| {
            let mut text = Vec::new();
            push_timestamp_micros(&mut text, end * 1_000_000);
            String::from_utf8_lossy(&text).into_owned()
        })
    }
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
            partitions: 12,
            tables: 4,
        };
        assert_eq!(
            form.to_string(),
            "1 index, 1,000 columns, generated keys, unlogged, pages of 4k, 12 time partitions, 4 tables"
        );
        let earlier = r#"{"indexes":1,"columns":null,"keys":"given","storage":"plain","page_bytes":null}"#;
        let earlier: TableForm = serde_json::from_str(earlier).unwrap();
        assert_eq!(
            (earlier.indexes, earlier.tables),
            (1, 1),
            "reports of earlier releases"
        );
    }

    #[test]
    fn times_are_parted_evenly_by_whole_seconds() {
        let of = |parts, first, last| Partitions::even("ts", parts, (first, last)).map(|found| found.ends);
        assert_eq!(of(1, 5, 6), Some(Vec::new()));
        assert_eq!(of(4, 10_500_000, 49_900_000), Some(vec![20, 30, 40]));
        assert_eq!(of(2, 0, 1_000_000), Some(vec![1]));
        assert_eq!(of(2, 300_000, 900_000), None, "a second is not parted");
        assert_eq!(of(5, 0, 2_000_000), None);
        let found = Partitions::even("ts", 2, (1_704_067_200_000_000, 1_704_067_219_000_000)).unwrap();
        assert_eq!(found.shown().collect::<Vec<_>>(), ["2024-01-01 00:00:10.000000"]);
    }

    #[test]
    fn a_table_is_partitioned_by_a_time_that_is_in_its_key() {
        let of = |workload: Workload, keys| {
            TableForm {
                partitions: 4,
                keys,
                ..TableForm::default()
            }
            .unlike(workload.into())
        };
        assert_eq!(of(Workload::Readings, Keys::Given), None);
        assert_eq!(of(Workload::Journal, Keys::None), None);
        for (workload, keys) in [
            (Workload::Journal, Keys::Given),
            (Workload::Readings, Keys::Generated),
        ] {
            let why = of(workload, keys).unwrap_or_default();
            assert!(why.starts_with("a primary key must have ts in it"), "{why}");
        }
        let why = of(Workload::Sbtest, Keys::None).unwrap_or_default();
        assert_eq!(
            why,
            "sbtest has no time to be partitioned by; journal and readings have"
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
