//! The form of the tables that rows go into: what a workload leaves open of them, and so what can be measured of it.
//!
//! - A form says what is other than usual; [`TableForm::default`] is the table that `tonnage load --create` would make.
//! - What a workload cannot be, [`unlike`] says; what a database cannot make, its
//!   [`Instruments::obstacle`](tonnage_core::instruments::Instruments::obstacle). Neither is ever measured under another's name.

use tonnage_core::{
    instruments::{Keys, Making, TableForm},
    report::{Counted, Grouped},
    table::{ColumnSpec, TableName, TableSpec},
    types::ColumnType,
};
use tonnage_formats::generate::Workload;

use super::setting::RowKind;

/// The column that a database numbers where a table has a key of several columns, or none.
const NUMBERED: &str = "id";
/// The longest text that goes into an index, in characters: what every database's index entries hold.
const INDEXED_CHARS_MAX: u32 = 190;

/// Why rows of `kind` cannot go into a table of this form, whatever the database; none where they can.
pub fn unlike(form: &TableForm, kind: RowKind) -> Option<String> {
    match kind {
        RowKind::Workload(workload) => {
            if let Some(columns) = form.columns {
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
            if let Some(why) = timeless(form, workload) {
                return Some(why);
            }
            let key: Vec<String> = workload.key().iter().map(|name| (*name).to_owned()).collect();
            let most = indexable(&workload.columns_of(form.columns), &key).len();
            (form.indexes > most).then(|| {
                format!(
                    "{workload} has {} beside its key that can have an index",
                    Counted(most as u64, "column")
                )
            })
        }
        RowKind::Own => match form {
            TableForm { columns: Some(_), .. } => {
                Some("rows of one's own have the columns that they have".to_owned())
            }
            TableForm { partitions: 1.., .. } => {
                Some("rows of one's own go into tables that are not partitioned".to_owned())
            }
            _ => None,
        },
    }
}

/// Why there is no time to be partitioned by; none where there is, or nothing is partitioned.
fn timeless(form: &TableForm, workload: Workload) -> Option<String> {
    if form.partitions == 0 {
        return None;
    }
    let Some(time) = workload.time() else {
        return Some(format!(
            "{workload} has no time to be partitioned by; journal and readings have"
        ));
    };
    let kept = match form.keys {
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
pub fn making(form: &TableForm, name: TableName, mut columns: Vec<ColumnSpec>, key: Vec<String>) -> Making {
    let indexed = indexable(&columns, &key);
    let mut spec_key = key;
    let mut numbered = None;
    match form.keys {
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
        indexed: indexed.into_iter().take(form.indexes).collect(),
        numbered,
        storage: form.storage,
        partitions: None,
    }
}

/// The columns outside `key` that any database can index: numbers and times first, then texts that are not long.
pub fn indexable(columns: &[ColumnSpec], key: &[String]) -> Vec<String> {
    let beside = || columns.iter().filter(|column| !key.contains(&column.name));
    let is_text = |column: &ColumnSpec| match column.ty {
        ColumnType::Text { chars_max } => chars_max.is_some_and(|chars| chars <= INDEXED_CHARS_MAX),
        ColumnType::Char { chars } => chars <= INDEXED_CHARS_MAX,
        ColumnType::Uuid => true,
        _ => false,
    };
    let is_time = |ty: &ColumnType| {
        matches!(
            ty,
            ColumnType::Date | ColumnType::Time | ColumnType::Timestamp | ColumnType::TimestampTz
        )
    };
    let numbers = beside().filter(|column| column.ty.is_number() || is_time(&column.ty));
    let texts = beside().filter(|column| is_text(column));
    numbers.chain(texts).map(|column| column.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(workload: Workload, form: TableForm) -> Making {
        let key = workload.key().iter().map(|name| (*name).to_owned()).collect();
        making(
            &form,
            TableName::bare("t"),
            workload.columns_of(form.columns),
            key,
        )
    }

    #[test]
    fn a_table_is_partitioned_by_a_time_that_is_in_its_key() {
        let of = |workload: Workload, keys| {
            let form = TableForm {
                partitions: 4,
                keys,
                ..TableForm::default()
            };
            unlike(&form, workload.into())
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
            (made(workload, form).indexed, unlike(&form, workload.into()))
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
            let form = TableForm {
                columns: Some(columns),
                ..TableForm::default()
            };
            unlike(&form, workload.into())
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
