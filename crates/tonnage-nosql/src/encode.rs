//! Values between Arrow and the database, and which rows travel together.
//!
//! A [`Cell`] has one form for values that are equal there: what was sent is compared by it with what is there.

use std::collections::HashMap;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{Float32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType},
};
use tonnage_core::{
    error::{Error, Result},
    parse::far_timestamp_text,
    reject::sqlstate::{DATETIME_OVERFLOW, INVALID_TEXT, NOT_NULL, OUT_OF_RANGE, WOULD_CHANGE},
};

use super::types::Kind;

/// Operations of a `WriteMultiple`, at most: the service refuses more.
pub(super) const OPERATIONS_MAX: usize = 50;

/// Bytes of a `WriteMultiple`, about: the service takes 25 MB, but one row more than that and none of it is there.
pub(super) const BYTES_MAX: usize = 2 << 20;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Null,
    Boolean(bool),
    Integer(i32),
    Long(i64),
    Double(f64),
    /// A decimal without zeros that say nothing.
    Number(String),
    Text(String),
    Bytes(Vec<u8>),
    /// Microseconds since 1970.
    Timestamp(i64),
    /// JSON without spaces, its names in order.
    Json(String),
}

/// Why a row cannot be sent: the code and what is wrong.
pub(super) type Misfit = (&'static str, String);

/// Seconds since 1970 that the database has: the years from -6383 to 9999.
const SECONDS: std::ops::RangeInclusive<i64> = -263_595_168_000..=253_402_300_799;

/// `digits`, with a sign and a point, without zeros that say nothing; none where it is no decimal.
pub(super) fn decimal(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    Some(match (whole, fraction) {
        ("", "") => "0".to_owned(),
        (_, "") => format!("{sign}{whole}"),
        ("", _) => format!("{sign}0.{fraction}"),
        _ => format!("{sign}{whole}.{fraction}"),
    })
}

/// JSON in one form; none where it is no JSON.
pub(super) fn json(text: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    Some(value.to_string())
}

fn timestamp(micros: i64, precision: u8) -> std::result::Result<Cell, Misfit> {
    if !SECONDS.contains(&micros.div_euclid(1_000_000)) {
        return Err((DATETIME_OVERFLOW, "has no such time".to_owned()));
    }
    let unit = 10_i64.pow(6_u32.saturating_sub(precision.into()));
    match micros % unit {
        0 => Ok(Cell::Timestamp(micros)),
        _ => Err((
            WOULD_CHANGE,
            format!("keeps {precision} digits of a second, and the value has more"),
        )),
    }
}

/// The values of a column, or the first row that the database would not keep as it is. `takes_null` is whether nulls may be
/// there. `Bug` where the array is not of the kind's type.
pub(super) fn encode(
    array: &ArrayRef,
    kind: Kind,
    nulls: Nulls,
) -> Result<std::result::Result<Vec<Cell>, (usize, Misfit)>> {
    if *array.data_type() != kind.column().arrow() {
        let found = array.data_type();
        return Err(Error::bug(format!(
            "an array of {found} for a column of {kind:?}"
        )));
    }
    let value = |row: usize| -> std::result::Result<Cell, Misfit> {
        Ok(match kind {
            Kind::Boolean => Cell::Boolean(array.as_boolean().value(row)),
            Kind::Integer => Cell::Integer(array.as_primitive::<Int32Type>().value(row)),
            Kind::Long => Cell::Long(array.as_primitive::<Int64Type>().value(row)),
            Kind::Float => Cell::Double(f64::from(array.as_primitive::<Float32Type>().value(row))),
            Kind::Double => Cell::Double(array.as_primitive::<Float64Type>().value(row)),
            Kind::Number => {
                let text = array.as_string::<i32>().value(row);
                let no_number = || (OUT_OF_RANGE, format!("is a NUMBER, which has no {text}"));
                Cell::Number(decimal(text).ok_or_else(no_number)?)
            }
            Kind::String => Cell::Text(array.as_string::<i32>().value(row).to_owned()),
            Kind::Binary => Cell::Bytes(array.as_binary::<i32>().value(row).to_vec()),
            Kind::Timestamp { precision } => {
                return timestamp(
                    array.as_primitive::<TimestampMicrosecondType>().value(row),
                    precision,
                );
            }
            Kind::Json => {
                let text = array.as_string::<i32>().value(row);
                Cell::Json(json(text).ok_or_else(|| (INVALID_TEXT, "takes JSON".to_owned()))?)
            }
        })
    };
    let cell = |row: usize| match (array.is_null(row), nulls) {
        (true, Nulls::Taken) => Ok(Cell::Null),
        (true, Nulls::Refused) => Err((row, (NOT_NULL, "takes no nulls".to_owned()))),
        (false, _) => value(row).map_err(|misfit| (row, misfit)),
    };
    Ok((0..array.len()).map(cell).collect())
}

/// Whether a column takes nulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nulls {
    /// It does.
    Taken,
    /// It does not.
    Refused,
}

impl Cell {
    /// As text that is read as a value of its column; none for a null.
    pub fn text(&self) -> Option<String> {
        Some(match self {
            Self::Null => return None,
            Self::Boolean(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Long(value) => value.to_string(),
            Self::Double(value) => value.to_string(),
            Self::Number(text) | Self::Text(text) | Self::Json(text) => text.clone(),
            Self::Bytes(bytes) => bytes
                .iter()
                .fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}")),
            Self::Timestamp(micros) => far_timestamp_text(*micros, "+00"),
        })
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Number(text) | Self::Text(text) | Self::Json(text) => text.len() + 8,
            Self::Bytes(bytes) => bytes.len() + 8,
            _ => 8,
        }
    }

    /// Adds it to a key, so that different keys are different text. Both zeros are one key.
    fn add_to(&self, key: &mut String) {
        let text = match self {
            Self::Double(value) if *value == 0.0 => "0".to_owned(),
            other => other.text().unwrap_or_default(),
        };
        key.push_str(&format!("{}:{text}", text.len()));
    }
}

/// The key of a row: its cells at `places`, in their order.
pub(super) fn key(columns: &[Vec<Cell>], places: &[usize], row: usize) -> String {
    let mut key = String::new();
    for place in places {
        columns[*place][row].add_to(&mut key);
    }
    key
}

/// What goes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Together {
    /// Rows of a shard key: they are one transaction.
    ShardKey,
    /// Nothing.
    Single,
}

/// Of each shard key the last request of a round, and the bytes that it has.
type LastRequests = HashMap<String, (usize, usize)>;

/// Rounds of requests: those of a round may be under way at once and meet each key once, so that rows of a key are applied in
/// their order. A request has rows of one shard key, within the bounds of the service. `key` are the places of the key's
/// columns, the first `shard` of which are the shard key.
pub(super) fn rounds(
    columns: &[Vec<Cell>],
    rows: impl Iterator<Item = usize>,
    key_places: &[usize],
    shard: usize,
    together: Together,
) -> Vec<Vec<Vec<usize>>> {
    let mut met: HashMap<String, usize> = HashMap::new();
    let mut rounds: Vec<(Vec<Vec<usize>>, LastRequests)> = Vec::new();
    for row in rows {
        let times = met.entry(key(columns, key_places, row)).or_default();
        let round = *times;
        *times += 1;
        if rounds.len() == round {
            rounds.push((Vec::new(), LastRequests::new()));
        }
        let (requests, open) = &mut rounds[round];
        let bytes: usize = columns.iter().map(|column| column[row].bytes()).sum();
        let shard_key = key(columns, &key_places[..shard], row);
        match open.get_mut(&shard_key) {
            Some((request, sum))
                if together == Together::ShardKey
                    && requests[*request].len() < OPERATIONS_MAX
                    && *sum + bytes <= BYTES_MAX =>
            {
                requests[*request].push(row);
                *sum += bytes;
            }
            _ => {
                open.insert(shard_key, (requests.len(), bytes));
                requests.push(vec![row]);
            }
        }
    }
    rounds.into_iter().map(|(requests, _)| requests).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn decimals_have_one_form() {
        for (text, expected) in [
            ("12.50", Some("12.5")),
            ("-0012", Some("-12")),
            ("-0.00", Some("0")),
            (".5", Some("0.5")),
            ("100", Some("100")),
            ("NaN", None),
            ("-Infinity", None),
            ("1e5", None),
            ("", None),
            ("-", None),
        ] {
            assert_eq!(decimal(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn what_would_change_is_found() {
        let nulls: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let found = encode(&nulls, Kind::Long, Nulls::Refused).unwrap().unwrap_err();
        assert_eq!((found.0, found.1.0), (1, NOT_NULL));
        assert_eq!(
            encode(&nulls, Kind::Long, Nulls::Taken).unwrap().unwrap(),
            [Cell::Long(1), Cell::Null]
        );
        let times: ArrayRef =
            Arc::new(TimestampMicrosecondArray::from(vec![1_000, 1_001, i64::MAX]).with_timezone("UTC"));
        let of = |at: usize, precision| {
            let one = times.slice(at, 1);
            encode(&one, Kind::Timestamp { precision }, Nulls::Taken).unwrap()
        };
        assert_eq!(of(0, 3).unwrap(), [Cell::Timestamp(1_000)]);
        assert_eq!(of(1, 3).unwrap_err().1.0, WOULD_CHANGE);
        assert!(of(1, 6).is_ok() && of(1, 9).is_ok());
        assert_eq!(of(2, 9).unwrap_err().1.0, DATETIME_OVERFLOW);
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["{\"b\": 1, \"a\":[]}", "{"]));
        assert_eq!(
            encode(&texts, Kind::Json, Nulls::Taken).unwrap().unwrap_err().1.0,
            INVALID_TEXT
        );
        assert!(encode(&texts, Kind::Long, Nulls::Taken).is_err());
    }

    fn columns(shards: &[i64], keys: &[i64]) -> Vec<Vec<Cell>> {
        let cells = |values: &[i64]| values.iter().map(|value| Cell::Long(*value)).collect();
        vec![cells(shards), cells(keys)]
    }

    #[test]
    fn rows_of_a_shard_key_travel_together() {
        let rows = columns(&[1, 2, 1, 2, 3], &[1, 1, 2, 2, 1]);
        let together = rounds(&rows, 0..5, &[0, 1], 1, Together::ShardKey);
        assert_eq!(together, [vec![vec![0, 2], vec![1, 3], vec![4]]]);
        let single = rounds(&rows, 0..5, &[0, 1], 1, Together::Single);
        assert_eq!(single[0].len(), 5);
        let whole_key = rounds(&rows, 0..5, &[0, 1], 2, Together::ShardKey);
        assert_eq!(whole_key[0].len(), 5);
    }

    #[test]
    fn a_request_is_bounded_and_a_round_meets_a_key_once() {
        let keys: Vec<i64> = (0..120).collect();
        let rows = columns(&[7; 120], &keys);
        let sizes: Vec<_> = rounds(&rows, 0..120, &[0, 1], 1, Together::ShardKey)[0]
            .iter()
            .map(Vec::len)
            .collect();
        assert_eq!(sizes, [50, 50, 20]);
        let large = vec![
            vec![Cell::Long(1); 3],
            keys[..3].iter().map(|key| Cell::Long(*key)).collect(),
            vec![Cell::Text("x".repeat(BYTES_MAX / 2)); 3],
        ];
        assert_eq!(rounds(&large, 0..3, &[0, 1], 1, Together::ShardKey)[0].len(), 3);
        let repeated = columns(&[1, 1, 1], &[5, 6, 5]);
        assert_eq!(
            rounds(&repeated, 0..3, &[0, 1], 1, Together::ShardKey),
            [vec![vec![0, 1]], vec![vec![2]]]
        );
    }

    #[test]
    fn keys_of_several_columns_are_not_mixed_up() {
        let cells = |texts: [&str; 2]| texts.map(|text| vec![Cell::Text(text.to_owned())]);
        assert_ne!(
            key(&cells(["a", "bc"]), &[0, 1], 0),
            key(&cells(["ab", "c"]), &[0, 1], 0)
        );
        let zeros = vec![vec![Cell::Double(0.0), Cell::Double(-0.0)]];
        assert_eq!(key(&zeros, &[0], 0), key(&zeros, &[0], 1));
    }
}
