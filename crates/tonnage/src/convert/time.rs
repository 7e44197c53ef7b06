//! Dates, times of day and timestamps.

use arrow::{
    array::{Array, ArrayRef, AsArray, PrimitiveArray},
    buffer::{NullBuffer, ScalarBuffer},
    datatypes::{
        DataType, Date32Type, Date64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
        Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
};
use jiff::tz::TimeZone;

use super::{
    boxed,
    values::{map, texts},
};
use crate::{
    parse::{
        Fault, Notes, Parsed, TIME_MAX, instant_in_zone, spelled_date, spelled_timestamp, text_of_date,
        text_of_time, text_of_timestamp,
    },
    reject::sqlstate,
    types::ColumnType,
};

const DAY_MILLIS: i64 = 86_400_000;
const DAY_MICROS: i64 = 86_400_000_000;
/// Microseconds from the beginning of the year 1 to the end of the year 9999.
const FOUR_DIGITS: std::ops::Range<i64> = -719_162 * DAY_MICROS..2_932_897 * DAY_MICROS;

/// From days to dates, to timestamps at midnight, or to text. None for other types.
pub(super) fn from_date32(
    array: &PrimitiveArray<Date32Type>,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    if *ty == ColumnType::Date {
        return boxed(array.clone());
    }
    from_days(array.values(), array.nulls(), ty, notes, |days| {
        Ok(i64::from(days))
    })
}

/// From milliseconds, which have to be whole days, to dates, to timestamps at midnight, or to text.
pub(super) fn from_date64(
    array: &PrimitiveArray<Date64Type>,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    from_days(array.values(), array.nulls(), ty, notes, |millis| {
        if millis % DAY_MILLIS == 0 {
            return Ok(millis / DAY_MILLIS);
        }
        let text = Unit(TimeUnit::Millisecond).text(millis);
        Err(Fault::new(
            sqlstate::WOULD_CHANGE,
            format!("'{text}' is not a whole day"),
        ))
    })
}

fn from_days<S: Copy>(
    values: &[S],
    nulls: Option<&NullBuffer>,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
    days: impl Fn(S) -> Parsed<i64>,
) -> Option<ArrayRef> {
    match ty {
        ColumnType::Date => boxed(map::<_, Date32Type>(values, nulls, ty, notes, |value| {
            i32::try_from(days(value)?).map_err(|_| beyond(ty))
        })),
        ColumnType::Timestamp => boxed(map::<_, TimestampMicrosecondType>(
            values,
            nulls,
            ty,
            notes,
            |value| days(value)?.checked_mul(DAY_MICROS).ok_or_else(|| beyond(ty)),
        )),
        ColumnType::Text { .. } | ColumnType::Char { .. } => {
            boxed(texts(values, nulls, ty, notes, |value, text| {
                text.push_str(&spelled_date(days(value)?));
                Ok(())
            }))
        }
        _ => None,
    }
}

#[cold]
fn beyond(ty: &ColumnType) -> Box<Fault> {
    Fault::new(
        sqlstate::DATETIME_OVERFLOW,
        format!("the time is out of range for {ty}"),
    )
}

/// From a time of day in any unit to one in microseconds or to text. None for other types.
pub(super) fn from_time(
    array: &ArrayRef,
    unit: TimeUnit,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    let values: ScalarBuffer<i64> = match array.data_type() {
        DataType::Time32(TimeUnit::Second) => widened(array.as_primitive::<Time32SecondType>().values()),
        DataType::Time32(_) => widened(array.as_primitive::<Time32MillisecondType>().values()),
        DataType::Time64(TimeUnit::Microsecond) => {
            array.as_primitive::<Time64MicrosecondType>().values().clone()
        }
        DataType::Time64(_) => array.as_primitive::<Time64NanosecondType>().values().clone(),
        _ => return None,
    };
    let unit = Unit(unit);
    let nulls = array.nulls();
    let is_own = array.data_type() == &ColumnType::Time.arrow();
    let in_day = |value: i64| match unit.micros(value) {
        // The end of a day is a time of its own to databases that have it.
        Some((micros @ 0..DAY_MICROS, nanos)) => Ok((micros, nanos)),
        Some((DAY_MICROS, 0)) => Ok((DAY_MICROS, 0)),
        Some((micros, 0)) if is_own && (-TIME_MAX..=TIME_MAX).contains(&micros) => Ok((micros, 0)),
        _ => Err(Fault::new(
            sqlstate::DATETIME_OVERFLOW,
            "the time of day is not within a day".to_owned(),
        )),
    };
    match ty {
        ColumnType::Time => {
            // Outside a day only databases have them; whether the column does is its target's to say.
            let good = |row: usize| array.is_null(row) || (-TIME_MAX..=TIME_MAX).contains(&values[row]);
            if array.data_type() == &ty.arrow() && (0..array.len()).all(good) {
                return Some(array.clone());
            }
            boxed(map::<_, Time64MicrosecondType>(
                &values,
                nulls,
                ty,
                notes,
                |value| match in_day(value)? {
                    (micros, 0) => Ok(micros),
                    (micros, nanos) => Err(too_fine(&with_nanos(text_of_time(micros), micros, nanos))),
                },
            ))
        }
        ColumnType::Text { .. } | ColumnType::Char { .. } => {
            boxed(texts(&values, nulls, ty, notes, |value, text| {
                let (micros, nanos) = in_day(value)?;
                text.push_str(&with_nanos(text_of_time(micros), micros, nanos));
                Ok(())
            }))
        }
        _ => None,
    }
}

fn widened(values: &[i32]) -> ScalarBuffer<i64> {
    values
        .iter()
        .map(|value| i64::from(*value))
        .collect::<Vec<_>>()
        .into()
}

/// From a clock without a zone, in any unit, to one in microseconds, to an instant by way of `zone`, or to
/// text. None for other types.
pub(super) fn from_timestamp(
    array: &ArrayRef,
    unit: TimeUnit,
    zone: Option<&TimeZone>,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    let values = ticks(array, unit)?;
    let unit = Unit(unit);
    let nulls = array.nulls();
    match ty {
        ColumnType::Timestamp if array.data_type() == &ty.arrow() => Some(array.clone()),
        ColumnType::Timestamp => boxed(map::<_, TimestampMicrosecondType>(
            &values,
            nulls,
            ty,
            notes,
            |value| unit.exact_micros(value, ty),
        )),
        ColumnType::TimestampTz => {
            let zone = zone?;
            boxed(map::<_, TimestampMicrosecondType>(
                &values,
                nulls,
                ty,
                notes,
                |value| instant_in_zone(unit.exact_micros(value, ty)?, zone),
            ))
        }
        ColumnType::Text { .. } | ColumnType::Char { .. } => {
            boxed(texts(&values, nulls, ty, notes, |value, text| {
                text.push_str(&unit.spelled(value, ""));
                Ok(())
            }))
        }
        _ => None,
    }
}

/// From an instant in any unit, shown in any zone, to one in microseconds, or to its text in UTC. None for
/// other types.
pub(super) fn from_instant(
    array: &ArrayRef,
    unit: TimeUnit,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    let values = ticks(array, unit)?;
    let nulls = array.nulls();
    match ty {
        // The zone is a way to show it; the instant stays.
        ColumnType::TimestampTz if unit == TimeUnit::Microsecond => boxed(
            PrimitiveArray::<TimestampMicrosecondType>::new(values, nulls.cloned())
                .with_data_type(ty.arrow()),
        ),
        ColumnType::TimestampTz => boxed(map::<_, TimestampMicrosecondType>(
            &values,
            nulls,
            ty,
            notes,
            |value| Unit(unit).exact_micros(value, ty),
        )),
        ColumnType::Text { .. } | ColumnType::Char { .. } => {
            boxed(texts(&values, nulls, ty, notes, |value, text| {
                text.push_str(&Unit(unit).spelled(value, "+00:00"));
                Ok(())
            }))
        }
        _ => None,
    }
}

/// The numbers of a timestamp array, whatever they count.
fn ticks(array: &ArrayRef, unit: TimeUnit) -> Option<ScalarBuffer<i64>> {
    Some(match unit {
        TimeUnit::Second => array.as_primitive_opt::<TimestampSecondType>()?.values().clone(),
        TimeUnit::Millisecond => array
            .as_primitive_opt::<TimestampMillisecondType>()?
            .values()
            .clone(),
        TimeUnit::Microsecond => array
            .as_primitive_opt::<TimestampMicrosecondType>()?
            .values()
            .clone(),
        TimeUnit::Nanosecond => array
            .as_primitive_opt::<TimestampNanosecondType>()?
            .values()
            .clone(),
    })
}

/// What a tick is.
#[derive(Clone, Copy)]
struct Unit(TimeUnit);

impl Unit {
    /// Whole microseconds and the nanoseconds (0 to 999) beyond them; none where they overflow.
    #[inline]
    fn micros(self, value: i64) -> Option<(i64, i64)> {
        match self.0 {
            TimeUnit::Second => Some((value.checked_mul(1_000_000)?, 0)),
            TimeUnit::Millisecond => Some((value.checked_mul(1_000)?, 0)),
            TimeUnit::Microsecond => Some((value, 0)),
            TimeUnit::Nanosecond => Some((value.div_euclid(1_000), value.rem_euclid(1_000))),
        }
    }

    #[inline]
    fn exact_micros(self, value: i64, ty: &ColumnType) -> Parsed<i64> {
        match self.micros(value) {
            Some((micros, 0)) => Ok(micros),
            Some(_) => Err(too_fine(&self.text(value))),
            None => Err(beyond(ty)),
        }
    }

    /// Date and time as text of a column, with `offset` behind them.
    fn spelled(self, value: i64, offset: &str) -> String {
        match self.micros(value) {
            // Years that four digits do not have, and the ends of time.
            Some((micros, 0)) if !FOUR_DIGITS.contains(&micros) => spelled_timestamp(micros, offset),
            _ => self.text(value) + offset,
        }
    }

    /// Date and time, with as many decimal places as it takes.
    fn text(self, value: i64) -> String {
        match (self.micros(value), self.0) {
            (Some((micros, nanos)), _) => with_nanos(text_of_timestamp(micros), micros, nanos),
            // Whole seconds so far away that their microseconds do not fit.
            (None, TimeUnit::Second) => far(value, 1),
            (None, _) => far(value, 1_000),
        }
    }
}

/// A timestamp beyond the reach of microseconds.
fn far(value: i64, per_second: i64) -> String {
    let day = 86_400 * per_second;
    let micros = value.rem_euclid(day) * (1_000_000 / per_second);
    format!("{} {}", text_of_date(value.div_euclid(day)), text_of_time(micros))
}

/// `text`, which stands for `micros`, with three more decimal places where they are not zero.
pub(crate) fn with_nanos(mut text: String, micros: i64, nanos: i64) -> String {
    if nanos == 0 {
        return text;
    }
    if let Some(point) = text.find('.') {
        text.truncate(point);
    }
    let fraction = format!(".{:06}{nanos:03}", micros.rem_euclid(1_000_000));
    text.push_str(fraction.trim_end_matches('0'));
    text
}

/// The fault of a time that has more digits than a column of microseconds.
#[cold]
pub(crate) fn too_fine(text: &str) -> Box<Fault> {
    Fault::new(
        sqlstate::WOULD_CHANGE,
        format!("'{text}' is finer than a microsecond, the column is not"),
    )
}
