//! The form of a table to be made to measure with.
//!
//! A form says what is other than usual; [`TableForm::default`] is the table that `tonnage load --create` would make.
//! What a database cannot make, its [`Instruments::obstacle`](super::Instruments::obstacle) says.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    digits::push_timestamp_micros,
    report::{Counted, Grouped},
    table::{ColumnSpec, TableSpec},
    types::ColumnType,
};

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
    /// Indexes in addition to the primary key, of a column each.
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
    pub fn even(column: &str, parts: usize, (first, last): (i64, i64)) -> Option<Self> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
