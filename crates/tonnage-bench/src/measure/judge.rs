//! The verdict on one method: what was counted, unless the catalogue knows better.

use serde::Serialize;
use tonnage_core::{
    instruments::{Cause, Disk, Records},
    operation::{Method, Mode},
};

use super::verdict::{Taken, drowned, taken, without_background};

/// What one method does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ByMethod {
    /// What happened to each row.
    pub operation: Mode,
    /// It.
    pub method: Method,
    /// How rows were taken.
    pub taken: Taken,
    /// Why, a sentence each.
    pub why: Vec<String>,
    /// Rows that were written.
    pub rows: u64,
    /// Rows of a write.
    pub batch_rows: usize,
    /// What a record is; none where none could be counted.
    pub record: Option<&'static str>,
    /// Records of the table's rows, a row.
    pub row_records: Option<f64>,
    /// Records of its indexes, a row.
    pub index_records: Option<f64>,
    /// Bytes of log a row, without the images of pages that a checkpoint asks for; none where it is not known which are
    /// this table's.
    pub log_bytes: Option<f64>,
    /// Bytes of such images, in all.
    pub image_bytes: u64,
    /// Rows of which a page is full.
    pub rows_a_page: Option<f64>,
    /// Why it could not be tried.
    pub refused: Option<String>,
}

/// What a load left behind.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) rows: u64,
    pub(super) batch_rows: usize,
    pub(super) seconds: f64,
    pub(super) records: Records,
    /// Records of the time before.
    pub(super) idle_records: u64,
    pub(super) idle_seconds: f64,
    pub(super) log_bytes: Option<f64>,
    pub(super) disk: Option<Disk>,
}

/// Of a method of which nothing was seen.
pub(super) fn unseen(operation: Mode, method: Method, batch_rows: usize) -> ByMethod {
    ByMethod {
        operation,
        method,
        taken: Taken::Unknown,
        why: Vec::new(),
        rows: 0,
        batch_rows,
        record: None,
        row_records: None,
        index_records: None,
        log_bytes: None,
        image_bytes: 0,
        rows_a_page: None,
        refused: None,
    }
}

/// The verdict: what was counted, unless the catalogue knows better.
pub(super) fn judge(operation: Mode, method: Method, seen: Seen, causes: &[Cause]) -> ByMethod {
    let rows = seen.rows.max(1) as f64;
    let rows_a_page = seen.disk.and_then(|disk| {
        let pages = disk.rows_bytes.unwrap_or(disk.bytes) as f64 / disk.page_bytes.max(1) as f64;
        (pages > 0.0).then(|| rows / pages)
    });
    let mut found = ByMethod {
        rows: seen.rows,
        rows_a_page,
        log_bytes: seen.log_bytes.map(|bytes| bytes / rows),
        ..unseen(operation, method, seen.batch_rows)
    };
    match seen.records {
        Records::Unknown { why } => found.why.push(why),
        Records::Counted {
            what,
            rows: counted,
            indexes,
            bytes,
            image_bytes,
            shared: _,
        } => {
            let records = without_background(counted, seen.seconds, seen.idle_records, seen.idle_seconds);
            found.record = Some(what);
            found.row_records = Some(records / rows);
            found.index_records = indexes.map(|records| records as f64 / rows);
            found.image_bytes = image_bytes;
            if let Some(bytes) = bytes {
                found.log_bytes = Some(bytes as f64 / rows);
            }
            let (taken, why) = match drowned(counted, records) {
                true => (
                    Taken::Unknown,
                    Some("the counters are the whole server's, and others do more on it than this"),
                ),
                false => taken(records / rows, rows_a_page),
            };
            found.taken = taken;
            found.why.extend(why.map(str::to_owned));
        }
    }
    if causes.iter().any(|cause| cause.decides) && found.taken != Taken::RowByRow {
        if found.taken != Taken::Unknown {
            found.why.push(format!(
                "the copy, which is without that, was taken {}",
                found.taken
            ));
        }
        found.taken = Taken::RowByRow;
    }
    let texts = causes.iter().map(|cause| cause.text.clone());
    found.why.splice(0..0, texts);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(records: Records) -> Seen {
        Seen {
            rows: 1_000,
            batch_rows: 1_000,
            seconds: 2.0,
            records,
            idle_records: 50,
            idle_seconds: 1.0,
            log_bytes: Some(110_000.0),
            disk: Some(Disk {
                rows_bytes: Some(100 * 8_192),
                bytes: 140 * 8_192,
                page_bytes: 8_192,
            }),
        }
    }

    fn counted(rows: u64, shared: bool) -> Records {
        Records::Counted {
            what: "WAL record",
            rows,
            indexes: Some(2_000),
            bytes: Some(100_000),
            image_bytes: 10_000,
            shared,
        }
    }

    #[test]
    fn records_a_row_are_apart_from_indexes_images_and_background() {
        let found = judge(Mode::Insert, Method::Native, seen(counted(220, true)), &[]);
        assert_eq!(found.row_records, Some(0.12), "of 220, 100 are the background's");
        assert_eq!(found.index_records, Some(2.0));
        assert_eq!(found.log_bytes, Some(100.0));
        assert_eq!(found.rows_a_page, Some(10.0));
        assert_eq!((found.taken, found.refused), (Taken::ByArray, None));
    }

    #[test]
    fn the_catalogue_decides_what_an_empty_copy_cannot_show() {
        let trigger = Cause {
            text: "a trigger".to_owned(),
            decides: true,
        };
        let found = judge(
            Mode::Insert,
            Method::Native,
            seen(counted(220, true)),
            std::slice::from_ref(&trigger),
        );
        assert_eq!(found.taken, Taken::RowByRow);
        assert_eq!(
            found.why,
            ["a trigger", "the copy, which is without that, was taken by array"]
        );
        let index = Cause::shown("two indexes");
        let found = judge(
            Mode::Insert,
            Method::Array,
            seen(counted(1_100, true)),
            &[index, trigger],
        );
        assert_eq!((found.taken, found.why.len()), (Taken::RowByRow, 2));
    }

    #[test]
    fn what_others_do_more_of_tells_nothing() {
        let found = judge(Mode::Insert, Method::Native, seen(counted(120, true)), &[]);
        assert_eq!(found.taken, Taken::Unknown);
        assert!(found.why[0].contains("others do more"), "{:?}", found.why);
    }

    #[test]
    fn what_cannot_be_counted_is_unknown_and_says_why() {
        let unknown = Records::Unknown {
            why: "no right to".to_owned(),
        };
        let found = judge(Mode::Insert, Method::Native, seen(unknown), &[]);
        assert_eq!((found.taken, found.row_records), (Taken::Unknown, None));
        assert_eq!(found.why, ["no right to"]);
        assert_eq!(found.log_bytes, Some(110.0));
    }
}
