//! Whether rows were taken many at a time or one by one, by the records that the log has of them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a database took rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    /// A record for many rows: about one a page.
    ByArray,
    /// A record for every row.
    RowByRow,
    /// Some so, some so.
    Mixed,
    /// It is not known.
    Unknown,
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByArray => "by array",
            Self::RowByRow => "row by row",
            Self::Mixed => "mixed",
            Self::Unknown => "unknown",
        })
    }
}

/// Records a row from which on every row has one of its own; a little below 1, as first rows of a page may share theirs.
const ROW_BY_ROW: f64 = 0.9;
/// Records a page up to which they are one for many rows: each of two statements that share a page has its own there.
const RECORDS_A_PAGE: f64 = 2.0;
/// Records a row up to which rows are taken by array, however few a page holds.
const BY_ARRAY_MAX: f64 = 0.75;
/// The same where it is not known how many rows a page holds.
const BY_ARRAY_BLIND: f64 = 0.2;
/// Rows a page below which both ways look alike.
const ROWS_A_PAGE_MIN: f64 = 1.5;

/// The verdict on `records_a_row` of rows of which a page holds `rows_a_page`; why, where it is unknown.
pub fn taken(records_a_row: f64, rows_a_page: Option<f64>) -> (Taken, Option<&'static str>) {
    if rows_a_page.is_some_and(|rows| rows < ROWS_A_PAGE_MIN) {
        return (
            Taken::Unknown,
            Some("a page holds hardly more than one row, so both ways leave the same records"),
        );
    }
    let by_array = match rows_a_page {
        Some(rows) => (RECORDS_A_PAGE / rows).min(BY_ARRAY_MAX),
        None => BY_ARRAY_BLIND,
    };
    match records_a_row {
        records if records >= ROW_BY_ROW => (Taken::RowByRow, None),
        records if records <= by_array => (Taken::ByArray, None),
        _ => (Taken::Mixed, None),
    }
}

/// What is left of `found` over a time when `background` over another is taken off. Never below 0.
pub fn without_background(found: u64, seconds: f64, background: u64, background_seconds: f64) -> f64 {
    let a_second = match background_seconds > 0.0 {
        true => background as f64 / background_seconds,
        false => 0.0,
    };
    (found as f64 - a_second * seconds).max(0.0)
}

/// Whether what others do is more than half of what was found, so that what is left says nothing.
pub fn drowned(found: u64, left: f64) -> bool {
    left < found as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_a_row_and_rows_a_page_decide() {
        for (records, rows_a_page, expected) in [
            // COPY: 188 records for 10,000 rows; single rows: one each.
            (0.0188, Some(60.0), Taken::ByArray),
            (1.0, Some(60.0), Taken::RowByRow),
            (0.4, Some(60.0), Taken::Mixed),
            // Wide rows, of which a page holds five.
            (0.2, Some(5.0), Taken::ByArray),
            (0.41, Some(5.0), Taken::Mixed),
            (0.95, Some(5.0), Taken::RowByRow),
            (0.5, Some(2.0), Taken::ByArray),
            (0.5, Some(1.2), Taken::Unknown),
            (1.0, Some(1.0), Taken::Unknown),
            (0.1, None, Taken::ByArray),
            (0.5, None, Taken::Mixed),
            (3.2, None, Taken::RowByRow),
        ] {
            let (taken, why) = taken(records, rows_a_page);
            assert_eq!(taken, expected, "{records} {rows_a_page:?}");
            assert_eq!(why.is_some(), taken == Taken::Unknown);
        }
    }

    #[test]
    fn the_background_is_taken_off_and_never_more_than_there_is() {
        assert_eq!(without_background(1_000, 2.0, 100, 0.5), 600.0);
        assert_eq!(without_background(1_000, 2.0, 1_000, 0.5), 0.0);
        assert_eq!(without_background(1_000, 2.0, 100, 0.0), 1_000.0);
        assert!(drowned(1_000, 499.0) && !drowned(1_000, 500.0) && !drowned(0, 0.0));
    }
}
