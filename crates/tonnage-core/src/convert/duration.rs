//! Durations and intervals as ISO 8601 text (`P14M3DT25H0.5S`).
//!
//! Months, days and time are kept apart, as they are in the source: a day is not 24 hours where clocks change. Seconds
//! stay below a minute and minutes below an hour, for databases read long numbers of seconds as floats.

use std::fmt::Write;

use arrow::{
    array::{Array, ArrayRef, AsArray, LargeStringArray, StringArray},
    datatypes::{
        ArrowPrimitiveType, DataType, DurationMicrosecondType, DurationMillisecondType,
        DurationNanosecondType, DurationSecondType, IntervalDayTimeType, IntervalMonthDayNanoType,
        IntervalUnit, IntervalYearMonthType, TimeUnit,
    },
};

use super::values::texts;
use crate::{parse::Notes, types::ColumnType};

const NANOS: i128 = 1_000_000_000;

/// The parts of a value, each with its own sign.
struct Parts {
    months: i32,
    days: i32,
    nanos: i128,
}

impl Parts {
    fn of_time(nanos: i128) -> Self {
        Self {
            months: 0,
            days: 0,
            nanos,
        }
    }

    fn write(&self, text: &mut String) {
        let part = |value: i128, unit: &str, text: &mut String| {
            if value != 0 {
                // Writing to a string does not fail.
                let _ = write!(text, "{value}{unit}");
            }
        };
        text.push('P');
        part(self.months.into(), "M", text);
        part(self.days.into(), "D", text);
        if self.nanos == 0 {
            text.push_str(if text == "P" { "T0S" } else { "" });
            return;
        }
        let (seconds, fraction) = (self.nanos / NANOS, (self.nanos % NANOS).unsigned_abs());
        text.push('T');
        part(seconds / 3600, "H", text);
        part(seconds / 60 % 60, "M", text);
        let seconds = seconds % 60;
        if fraction == 0 {
            part(seconds, "S", text);
            return;
        }
        let sign = if self.nanos < 0 { "-" } else { "" };
        let fraction = format!("{fraction:09}");
        let _ = write!(
            text,
            "{sign}{}.{}S",
            seconds.abs(),
            fraction.trim_end_matches('0')
        );
    }
}

/// A column of text. None for other types.
pub(super) fn from_duration(array: &ArrayRef, ty: &ColumnType, notes: &mut Notes<'_>) -> Option<StringArray> {
    if !matches!(ty, ColumnType::Text { .. } | ColumnType::Char { .. }) {
        return None;
    }
    let made = parts(array)?;
    let rows: Vec<usize> = (0..array.len()).collect();
    Some(texts(&rows, array.nulls(), ty, notes, |row, text| {
        made(row).write(text);
        Ok(())
    }))
}

/// The texts of all values. None for other types.
pub(super) fn all(array: &ArrayRef) -> Option<LargeStringArray> {
    let made = parts(array)?;
    let text = |row: usize| {
        array.is_valid(row).then(|| {
            let mut text = String::new();
            made(row).write(&mut text);
            text
        })
    };
    Some((0..array.len()).map(text).collect())
}

type Make = Box<dyn Fn(usize) -> Parts>;

/// How the parts of a row's value are found.
fn parts(array: &ArrayRef) -> Option<Make> {
    fn of<T: ArrowPrimitiveType>(
        array: &ArrayRef,
        make: impl Fn(T::Native) -> Parts + 'static,
    ) -> Option<Make> {
        let values = array.as_primitive_opt::<T>()?.values().clone();
        Some(Box::new(move |row| make(values[row])))
    }
    match array.data_type() {
        DataType::Duration(TimeUnit::Second) => {
            of::<DurationSecondType>(array, |v| Parts::of_time(i128::from(v) * NANOS))
        }
        DataType::Duration(TimeUnit::Millisecond) => {
            of::<DurationMillisecondType>(array, |v| Parts::of_time(i128::from(v) * 1_000_000))
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            of::<DurationMicrosecondType>(array, |v| Parts::of_time(i128::from(v) * 1_000))
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            of::<DurationNanosecondType>(array, |v| Parts::of_time(v.into()))
        }
        DataType::Interval(IntervalUnit::YearMonth) => of::<IntervalYearMonthType>(array, |months| Parts {
            months,
            days: 0,
            nanos: 0,
        }),
        DataType::Interval(IntervalUnit::DayTime) => of::<IntervalDayTimeType>(array, |v| Parts {
            months: 0,
            days: v.days,
            nanos: i128::from(v.milliseconds) * 1_000_000,
        }),
        DataType::Interval(IntervalUnit::MonthDayNano) => of::<IntervalMonthDayNanoType>(array, |v| Parts {
            months: v.months,
            days: v.days,
            nanos: v.nanoseconds.into(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Parts;

    #[test]
    fn parts_keep_their_signs_and_digits() {
        for (months, days, nanos, expected) in [
            (0, 0, 0, "PT0S"),
            (14, 0, 0, "P14M"),
            (-14, 3, 0, "P-14M3D"),
            (1, -1, 90_000_500_000_000, "P1M-1DT25H0.5S"),
            (0, 0, 61_000_000_001, "PT1M1.000000001S"),
            (0, 0, -1, "PT-0.000000001S"),
            (0, 0, -3_661_500_000_000, "PT-1H-1M-1.5S"),
            (0, 2, 60_000_000_000, "P2DT1M"),
        ] {
            let mut text = String::new();
            Parts { months, days, nanos }.write(&mut text);
            assert_eq!(text, expected);
        }
    }
}
