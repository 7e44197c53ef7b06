//! Dates, times of day and timestamps.

use arrow::{
    array::{Array, ArrayRef, AsArray, PrimitiveArray},
    buffer::{NullBuffer, ScalarBuffer},
    compute::cast,
    datatypes::{
        DataType, Date32Type, Date64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
        Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
    util::display::{ArrayFormatter, FormatOptions},
};
use jiff::tz::TimeZone;

use super::{
    boxed, innermost,
    values::{map, texts},
};
use crate::{
    parse::{
        Fault, Notes, Parsed, PartialDate, TIME_MAX, far_date_text, far_timestamp_text, instant_in_zone,
        spelled_date, spelled_timestamp, stands_for_no_day, stands_for_no_time, text_of_date, text_of_time,
        text_of_timestamp,
    },
    reader::BeyondArrow,
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
    beyond_arrow: BeyondArrow,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    let as_it_is = || {
        beyond_arrow == BeyondArrow::Carried || !array.values().iter().any(|days| stands_for_no_day(*days))
    };
    if *ty == ColumnType::Date && as_it_is() {
        return boxed(array.clone());
    }
    from_days(array.values(), array.nulls(), beyond_arrow, ty, notes, |days| {
        Ok(i64::from(days))
    })
}

/// From milliseconds, which have to be whole days, to dates, to timestamps at midnight, or to text.
pub(super) fn from_date64(
    array: &PrimitiveArray<Date64Type>,
    beyond_arrow: BeyondArrow,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    from_days(array.values(), array.nulls(), beyond_arrow, ty, notes, |millis| {
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
    beyond_arrow: BeyondArrow,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
    days: impl Fn(S) -> Parsed<i64>,
) -> Option<ArrayRef> {
    match ty {
        ColumnType::Date => boxed(map::<_, Date32Type>(values, nulls, ty, notes, |value| {
            let days = i32::try_from(days(value)?).map_err(|_| beyond(ty))?;
            match beyond_arrow == BeyondArrow::Refused && stands_for_no_day(days) {
                true => Err(stands_for_another(&far_date_text(days.into()), ty)),
                false => Ok(days),
            }
        })),
        ColumnType::Timestamp => boxed(map::<_, TimestampMicrosecondType>(
            values,
            nulls,
            ty,
            notes,
            |value| {
                let days = days(value)?;
                let stands_for = match beyond_arrow {
                    BeyondArrow::Carried => midnight_beyond(days),
                    BeyondArrow::Refused => None,
                };
                stands_for
                    .or_else(|| days.checked_mul(DAY_MICROS))
                    .ok_or_else(|| beyond(ty))
            },
        )),
        ColumnType::Text { .. } | ColumnType::Char { .. } => {
            boxed(texts(values, nulls, ty, notes, |value, text| {
                text.push_str(&date_text(days(value)?, beyond_arrow));
                Ok(())
            }))
        }
        _ => None,
    }
}

/// The timestamp at the beginning of a day that is outside the calendar: an infinite or a partial date.
fn midnight_beyond(days: i64) -> Option<i64> {
    match i32::try_from(days).ok()? {
        i32::MAX => Some(i64::MAX),
        i32::MIN => Some(i64::MIN),
        _ => PartialDate::of_days(days).map(|date| date.micros(0)),
    }
}

fn date_text(days: i64, beyond_arrow: BeyondArrow) -> String {
    match beyond_arrow {
        BeyondArrow::Carried => spelled_date(days),
        BeyondArrow::Refused => far_date_text(days),
    }
}

/// The fault of a value whose number means something else in the column that it goes to.
#[cold]
fn stands_for_another(text: &str, ty: &ColumnType) -> Box<Fault> {
    Fault::new(
        sqlstate::DATETIME_OVERFLOW,
        format!("'{text}' is out of range for {ty}"),
    )
    .hint("where it is meant as infinite, write it as text in the source: infinity or -infinity")
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
        // Some databases keep the end of a day as a time.
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

/// What the numbers of a timestamp array are.
#[derive(Clone, Copy)]
pub(super) struct Ticks {
    /// What they count.
    pub unit: TimeUnit,
    /// What those far outside the calendar are.
    pub beyond_arrow: BeyondArrow,
}

/// From a clock without a zone, in any unit, to one in microseconds, to an instant by way of `zone`, or to
/// text. None for other types.
pub(super) fn from_timestamp(
    array: &ArrayRef,
    of: Ticks,
    zone: Option<&TimeZone>,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    let values = ticks(array, of.unit)?;
    let nulls = array.nulls();
    match ty {
        ColumnType::Timestamp if array.data_type() == &ty.arrow() && of.are_micros(&values) => {
            Some(array.clone())
        }
        ColumnType::Timestamp => boxed(map::<_, TimestampMicrosecondType>(
            &values,
            nulls,
            ty,
            notes,
            |value| of.exact_micros(value, ty),
        )),
        ColumnType::TimestampTz => {
            let zone = zone?;
            boxed(map::<_, TimestampMicrosecondType>(
                &values,
                nulls,
                ty,
                notes,
                |value| match of.exact_micros(value, ty)? {
                    beyond if stands_for_no_time(beyond) => Ok(beyond),
                    local => instant_in_zone(local, zone),
                },
            ))
        }
        ColumnType::Text { .. } | ColumnType::Char { .. } => {
            boxed(texts(&values, nulls, ty, notes, |value, text| {
                text.push_str(&of.spelled(value, ""));
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
    of: Ticks,
    ty: &ColumnType,
    notes: &mut Notes<'_>,
) -> Option<ArrayRef> {
    let values = ticks(array, of.unit)?;
    let nulls = array.nulls();
    match ty {
        // The zone is a way to show it; the instant stays.
        ColumnType::TimestampTz if of.are_micros(&values) => boxed(
            PrimitiveArray::<TimestampMicrosecondType>::new(values, nulls.cloned())
                .with_data_type(ty.arrow()),
        ),
        ColumnType::TimestampTz => boxed(map::<_, TimestampMicrosecondType>(
            &values,
            nulls,
            ty,
            notes,
            |value| of.exact_micros(value, ty),
        )),
        ColumnType::Text { .. } | ColumnType::Char { .. } => {
            boxed(texts(&values, nulls, ty, notes, |value, text| {
                text.push_str(&of.spelled(value, "+00:00"));
                Ok(())
            }))
        }
        _ => None,
    }
}

impl Ticks {
    /// Whether `values` are microseconds as they are.
    fn are_micros(self, values: &[i64]) -> bool {
        let finite = || !values.iter().any(|micros| stands_for_no_time(*micros));
        self.unit == TimeUnit::Microsecond && (self.beyond_arrow == BeyondArrow::Carried || finite())
    }

    #[inline]
    fn exact_micros(self, value: i64, ty: &ColumnType) -> Parsed<i64> {
        let micros = Unit(self.unit).exact_micros(value, ty)?;
        match self.beyond_arrow == BeyondArrow::Refused && stands_for_no_time(micros) {
            true => Err(stands_for_another(&far_timestamp_text(micros, ""), ty)),
            false => Ok(micros),
        }
    }

    /// Date and time as text of a column, with `offset` behind them.
    fn spelled(self, value: i64, offset: &str) -> String {
        let unit = Unit(self.unit);
        match (unit.micros(value), self.beyond_arrow) {
            // Years that four digits do not have, and what is none of the calendar's.
            (Some((micros, 0)), BeyondArrow::Carried) if !FOUR_DIGITS.contains(&micros) => {
                spelled_timestamp(micros, offset)
            }
            (Some((micros, 0)), BeyondArrow::Refused) if !FOUR_DIGITS.contains(&micros) => {
                far_timestamp_text(micros, offset)
            }
            _ => unit.text(value) + offset,
        }
    }
}

/// Notes the dates with a zero for their year, month or day of a column that has been converted to `ty`, for who has no
/// such dates.
pub fn refuse_partial_dates(array: &ArrayRef, ty: &ColumnType, notes: &mut Notes<'_>) {
    let mut refuse = |row: usize, text: String| {
        if array.is_valid(row) {
            let message = format!("'{text}' is a date that does not exist");
            notes.add(row, *Fault::new(sqlstate::DATETIME_OVERFLOW, message));
        }
    };
    if let Some(days) = array.as_primitive_opt::<Date32Type>() {
        let odd = days.values().iter().enumerate();
        for (row, days) in odd.filter(|(_, days)| stands_for_no_day(**days)) {
            if PartialDate::of_days((*days).into()).is_some() {
                refuse(row, spelled_date((*days).into()));
            }
        }
    } else if let (ColumnType::Timestamp | ColumnType::TimestampTz, Some(micros)) =
        (ty, array.as_primitive_opt::<TimestampMicrosecondType>())
    {
        let odd = micros.values().iter().enumerate();
        for (row, micros) in odd.filter(|(_, micros)| stands_for_no_time(**micros)) {
            if PartialDate::of_micros(*micros).is_some() {
                refuse(row, spelled_timestamp(*micros, ""));
            }
        }
    }
}

/// The value of a row as rejects show it; none for a null, or what has no text.
pub fn shown_value(array: &ArrayRef, row: usize, beyond_arrow: BeyondArrow) -> Option<String> {
    if array.is_null(row) {
        return None;
    }
    let plain = innermost(array.data_type());
    if plain != array.data_type() {
        let one = cast(&array.slice(row, 1), plain).ok()?;
        return shown_value(&one, 0, beyond_arrow);
    }
    let date = |days: i64| {
        let near = FOUR_DIGITS.contains(&days.saturating_mul(DAY_MICROS));
        (!near).then(|| date_text(days, beyond_arrow))
    };
    let far = match plain {
        DataType::Date32 => date(array.as_primitive::<Date32Type>().value(row).into()),
        DataType::Date64 => match array.as_primitive::<Date64Type>().value(row) {
            millis if millis % DAY_MILLIS == 0 => date(millis / DAY_MILLIS),
            _ => None,
        },
        DataType::Timestamp(unit, zone) => {
            let value = *ticks(array, *unit)?.get(row)?;
            let offset = if zone.is_some() { "+00:00" } else { "" };
            let near = Unit(*unit).micros(value);
            let near = near.is_some_and(|(micros, _)| FOUR_DIGITS.contains(&micros));
            (!near).then(|| {
                Ticks {
                    unit: *unit,
                    beyond_arrow,
                }
                .spelled(value, offset)
            })
        }
        _ => None,
    };
    far.or_else(|| {
        let options = FormatOptions::default();
        let formatter = ArrayFormatter::try_new(array, &options).ok()?;
        formatter.value(row).try_to_string().ok()
    })
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

/// `text`, which shows `micros`, with three more decimal places where they are not zero.
pub fn with_nanos(mut text: String, micros: i64, nanos: i64) -> String {
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
pub fn too_fine(text: &str) -> Box<Fault> {
    Fault::new(
        sqlstate::WOULD_CHANGE,
        format!("'{text}' is finer than a microsecond, the column is not"),
    )
}
