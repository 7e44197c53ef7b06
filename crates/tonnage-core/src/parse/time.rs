//! Dates, times of day and timestamps: fixed layouts, read digit by digit.
//!
//! The calendar is the proleptic Gregorian one, years 1 to 9999 in text. Times are microseconds; a finer text
//! is taken only if the digits beyond are zeros. Only named time zones ask a time zone database.
//!
//! Columns of tables may hold more: other years, and PostgreSQL's `infinity` and `-infinity`, which are the largest and
//! the smallest number of days or microseconds. [`spelled_date`] and its siblings write them as PostgreSQL does
//! (`0044-03-15 BC`), [`any_date`] and its siblings read them so.

use std::fmt::Write;

use jiff::{
    civil,
    tz::{AmbiguousOffset, TimeZone},
};

use super::fault::{Fault, Parsed, shown};
use crate::{
    calendar::{civil_from_days, days_from_civil},
    reject::sqlstate,
    types::ColumnType,
};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Hours of the largest offset from UTC; PostgreSQL's bound.
const OFFSET_HOURS_MAX: i64 = 15;

/// Why a text is no date or time. The words are chosen by [`Bad::fault`].
#[derive(Debug, Clone, Copy)]
enum Bad {
    /// Not written as it has to be.
    Layout,
    /// Written well, but there is no such day.
    NoSuchDate,
    /// Written well, but there is no such time of day.
    NoSuchTime,
    /// A second 60.
    LeapSecond,
    /// Digits beyond the microsecond that are not zeros.
    TooFine,
    /// An offset from UTC that the column does not keep.
    OffsetLost,
    /// No offset, and no zone was given.
    ZoneMissing,
}

impl Bad {
    #[cold]
    fn fault(self, value: &[u8], ty: &ColumnType) -> Box<Fault> {
        let text = shown(value);
        match self {
            Self::Layout if value.trim_ascii().is_empty() => Fault::not_a(value, ty),
            Self::Layout => Fault {
                code: sqlstate::INVALID_DATETIME,
                hint: Some(format!(
                    "a {ty} is written {}",
                    match ty {
                        ColumnType::Date => "2023-12-31",
                        ColumnType::Time => "23:59:58.123456",
                        ColumnType::Timestamp => "2023-12-31 23:59:58.123456",
                        _ => "2023-12-31 23:59:58.123456+01:00",
                    }
                )),
                ..*Fault::not_a(value, ty)
            }
            .into(),
            Self::NoSuchDate => Fault::new(
                sqlstate::DATETIME_OVERFLOW,
                format!("{text} is a date that does not exist"),
            ),
            Self::NoSuchTime => Fault::new(
                sqlstate::DATETIME_OVERFLOW,
                format!("{text} is a time that does not exist"),
            ),
            Self::LeapSecond => Fault::new(
                sqlstate::DATETIME_OVERFLOW,
                format!("{text} is a leap second, the column has none"),
            ),
            Self::TooFine => Fault::new(
                sqlstate::WOULD_CHANGE,
                format!("{text} is finer than a microsecond, the column is not"),
            ),
            Self::OffsetLost => Fault::new(
                sqlstate::WOULD_CHANGE,
                format!("{text} has an offset from UTC, the column keeps none"),
            )
            .hint("a column of type timestamptz keeps it"),
            Self::ZoneMissing => Fault::new(
                sqlstate::INVALID_DATETIME,
                format!("{text} has no offset from UTC, and no time zone was given"),
            )
            .hint("name the zone of such times: --timezone ZONE"),
        }
    }
}

type Read<T> = std::result::Result<T, Bad>;

/// A date of any year, or an infinite one; see [`date`].
pub fn any_date(value: &[u8]) -> Parsed<i32> {
    date(value).or_else(|fault| {
        let text = value.trim_ascii();
        match infinite(text) {
            Some(Infinite::Later) => Ok(i32::MAX),
            Some(Infinite::Earlier) => Ok(i32::MIN),
            None => far_date(text)
                .and_then(|days| i32::try_from(days).ok())
                .filter(|days| !stands_for_no_day(*days))
                .ok_or(fault),
        }
    })
}

/// A date and time of any year, an infinite one, or a date alone, which is its midnight; see [`timestamp`].
pub fn any_timestamp(value: &[u8]) -> Parsed<i64> {
    timestamp(value).or_else(|fault| {
        let text = value.trim_ascii();
        if let Some(end) = infinite(text) {
            return Ok(end.micros());
        }
        match far_timestamp(text) {
            Some((micros, "")) => Ok(micros),
            _ => Err(fault),
        }
    })
}

/// An instant of any year, or an infinite one; see [`instant`]. A date alone is its midnight in `zone`.
pub fn any_instant(value: &[u8], zone: Option<&TimeZone>) -> Parsed<i64> {
    instant(value, zone).or_else(|fault| {
        let text = value.trim_ascii();
        if let Some(end) = infinite(text) {
            return Ok(end.micros());
        }
        let Some((local, rest)) = far_timestamp(text) else {
            return Err(fault);
        };
        match (rest, zone) {
            ("", None) => Err(Bad::ZoneMissing.fault(value, &ColumnType::TimestampTz)),
            ("", Some(zone)) => instant_in_zone(local, zone),
            _ => match read_offset(rest.as_bytes()) {
                Ok(offset) => local
                    .checked_sub(offset)
                    .filter(|micros| !stands_for_no_time(*micros))
                    .ok_or(fault),
                Err(_) => Err(fault),
            },
        }
    })
}

/// What no calendar has and MariaDB keeps: a date with a zero for its year, month or day (`0000-00-00`, `2024-00-00`).
///
/// They are numbered from the day after the one that means `-infinity`, as days and as days of microseconds: years
/// so early that no column takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialDate {
    /// The year, 0 to 9999.
    pub year: i64,
    /// The month, 0 to 12.
    pub month: i64,
    /// The day, 0 to 31.
    pub day: i64,
}

const MONTHS: i64 = 13;
const DAYS_OF_MONTH: i64 = 32;
const PARTIAL_DATES: i64 = 10_000 * MONTHS * DAYS_OF_MONTH;
const PARTIAL_DAYS: i64 = i32::MIN as i64 + 1;
const PARTIAL_MICROS: i64 = i64::MIN + 1;

impl PartialDate {
    /// None for a date of the calendar, and for what is none at all.
    pub fn new(year: i64, month: i64, day: i64) -> Option<Self> {
        let last = match (year, month) {
            (_, 0) => 31,
            // MariaDB's year 0 has no leap day.
            (0, 2) => 28,
            (_, 1..=12) => days_in_month(year, month),
            _ => return None,
        };
        let is_one = (0..=9_999).contains(&year) && (0..=last).contains(&day);
        (is_one && (year == 0 || month == 0 || day == 0)).then_some(Self { year, month, day })
    }

    fn number(self) -> i64 {
        (self.year * MONTHS + self.month) * DAYS_OF_MONTH + self.day
    }

    fn numbered(number: i64) -> Option<Self> {
        (0..PARTIAL_DATES).contains(&number).then_some(Self {
            year: number / (MONTHS * DAYS_OF_MONTH),
            month: number / DAYS_OF_MONTH % MONTHS,
            day: number % DAYS_OF_MONTH,
        })
    }

    /// As days since 1970 are.
    pub fn days(self) -> i32 {
        // Far less than half of all numbers.
        (PARTIAL_DAYS + self.number()) as i32
    }

    /// The one that these days mean.
    pub fn of_days(days: i64) -> Option<Self> {
        Self::numbered(days.checked_sub(PARTIAL_DAYS)?)
    }

    /// As microseconds since 1970 are, with a time of day.
    pub fn micros(self, of_day: i64) -> i64 {
        PARTIAL_MICROS + self.number() * DAY + of_day
    }

    /// The one that these microseconds mean, and the time of day.
    pub fn of_micros(micros: i64) -> Option<(Self, i64)> {
        let since = micros.checked_sub(PARTIAL_MICROS)?;
        let date = Self::numbered(since.div_euclid(DAY))?;
        Some((date, since.rem_euclid(DAY)))
    }

    /// `YYYY-MM-DD` and what is behind it.
    fn read(text: &[u8]) -> Option<(Self, &[u8])> {
        let (date, rest) = text.split_at_checked(10)?;
        let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = date else {
            return None;
        };
        let pair = |tens: &u8, ones: &u8| two(*tens, *ones).ok();
        let year = pair(y1, y2)? * 100 + pair(y3, y4)?;
        Some((Self::new(year, pair(m1, m2)?, pair(d1, d2)?)?, rest))
    }

    /// The same with a time of day behind it, or at midnight.
    fn read_with_time(text: &[u8]) -> Option<(Self, i64)> {
        let (date, rest) = Self::read(text)?;
        match rest {
            [] => Some((date, 0)),
            [b' ' | b'T' | b't', time @ ..] => match read_time(time) {
                Ok((micros, [])) => Some((date, micros)),
                _ => None,
            },
            _ => None,
        }
    }
}

impl std::fmt::Display for PartialDate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// Whether days have a special meaning: an infinity, or a [`PartialDate`].
pub fn stands_for_no_day(days: i32) -> bool {
    days == i32::MAX || i64::from(days) < PARTIAL_DAYS + PARTIAL_DATES
}

/// The same of microseconds.
pub fn stands_for_no_time(micros: i64) -> bool {
    micros == i64::MAX || micros < PARTIAL_MICROS + PARTIAL_DATES * DAY
}

/// As [`any_date`], and a [`PartialDate`].
pub fn kept_date(value: &[u8]) -> Parsed<i32> {
    any_date(value).or_else(|fault| match PartialDate::read(value.trim_ascii()) {
        Some((date, [])) => Ok(date.days()),
        _ => Err(fault),
    })
}

/// As [`any_timestamp`], and one of a [`PartialDate`].
pub fn kept_timestamp(value: &[u8]) -> Parsed<i64> {
    any_timestamp(value).or_else(|fault| match PartialDate::read_with_time(value.trim_ascii()) {
        Some((date, micros)) => Ok(date.micros(micros)),
        _ => Err(fault),
    })
}

/// As [`any_instant`], and one of a [`PartialDate`], which no offset changes and so has none.
pub fn kept_instant(value: &[u8], zone: Option<&TimeZone>) -> Parsed<i64> {
    any_instant(value, zone).or_else(|fault| match PartialDate::read_with_time(value.trim_ascii()) {
        Some((date, micros)) => Ok(date.micros(micros)),
        _ => Err(fault),
    })
}

/// One of the ends of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Infinite {
    Later,
    Earlier,
}

impl Infinite {
    fn micros(self) -> i64 {
        match self {
            Self::Later => i64::MAX,
            Self::Earlier => i64::MIN,
        }
    }
}

fn infinite(text: &[u8]) -> Option<Infinite> {
    if text.eq_ignore_ascii_case(b"infinity") {
        Some(Infinite::Later)
    } else if text.eq_ignore_ascii_case(b"-infinity") {
        Some(Infinite::Earlier)
    } else {
        None
    }
}

/// `text` without the ` BC` at its end, and whether it was there.
fn without_era(text: &str) -> (&str, bool) {
    match text.len().checked_sub(3).and_then(|at| text.split_at_checked(at)) {
        Some((rest, era)) if era.eq_ignore_ascii_case(" BC") => (rest, true),
        _ => (text, false),
    }
}

/// Days of a date of four to seven digits of its year, and ` BC` or not.
fn far_date(text: &[u8]) -> Option<i64> {
    let (text, before) = without_era(std::str::from_utf8(text).ok()?);
    far_days(text, before)
}

fn far_days(text: &str, before: bool) -> Option<i64> {
    let (year, day) = text.split_once('-')?;
    let [m1, m2, b'-', d1, d2] = day.as_bytes() else {
        return None;
    };
    if !(4..=7).contains(&year.len()) || !year.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let year: i64 = year.parse().ok().filter(|year| *year > 0)?;
    // There is no year 0: the one before 1 is 1 BC.
    let year = if before { 1 - year } else { year };
    let (month, day) = (two(*m1, *m2).ok()?, two(*d1, *d2).ok()?);
    let exists = (1..=12).contains(&month) && day > 0 && day <= days_in_month(year, month);
    exists.then(|| days_from_civil(year, month, day))
}

/// Microseconds of a date of any year, with a time of day or at midnight, and what is between them and the era.
fn far_timestamp(text: &[u8]) -> Option<(i64, &str)> {
    let (text, before) = without_era(std::str::from_utf8(text).ok()?);
    let (date, (micros, rest)) = match text.find([' ', 'T', 't']) {
        None => (text, (0, "")),
        Some(at) => {
            let (micros, rest) = read_time(&text.as_bytes()[at + 1..]).ok()?;
            // ASCII before it, as it was read.
            (&text[..at], (micros, text.get(text.len() - rest.len()..)?))
        }
    };
    let days = far_days(date, before)?;
    let micros = days.checked_mul(DAY)?.checked_add(micros)?;
    (!stands_for_no_time(micros)).then_some((micros, rest))
}

/// Days since 1970-01-01.
pub fn date(value: &[u8]) -> Parsed<i32> {
    read_date(value.trim_ascii())
        // Years of four digits are far within the bounds.
        .map(|days| days as i32)
        .map_err(|bad| bad.fault(value, &ColumnType::Date))
}

/// Microseconds since midnight.
pub fn time(value: &[u8]) -> Parsed<i64> {
    read_time(value.trim_ascii())
        .and_then(|(micros, rest)| {
            if rest.is_empty() {
                Ok(micros)
            } else {
                Err(Bad::Layout)
            }
        })
        .map_err(|bad| bad.fault(value, &ColumnType::Time))
}

/// As [`time`], and `24:00:00`, the end of a day, which some databases keep as a time.
pub fn time_or_end(value: &[u8]) -> Parsed<i64> {
    time(value).or_else(|fault| match value.trim_ascii().strip_prefix(b"24:00:00") {
        Some(b"") => Ok(DAY),
        Some([b'.', zeros @ ..]) if !zeros.is_empty() && zeros.iter().all(|byte| *byte == b'0') => Ok(DAY),
        _ => Err(fault),
    })
}

/// The most microseconds of a time that is no time of day, as MariaDB has it: 838:59:59.999999, of either sign.
pub const TIME_MAX: i64 = 839 * HOUR - 1;

/// As [`time_or_end`], and times that are no time of day: `-26:00:00`, `838:59:59`.
pub fn any_time(value: &[u8]) -> Parsed<i64> {
    time_or_end(value).or_else(|fault| far_time(value.trim_ascii()).ok_or(fault))
}

fn far_time(text: &[u8]) -> Option<i64> {
    let (sign, text) = match text {
        [b'-', rest @ ..] => (-1, rest),
        _ => (1, text),
    };
    let colon = text
        .iter()
        .position(|byte| *byte == b':')
        .filter(|at| (2..=3).contains(at))?;
    let (hours, rest) = text.split_at(colon);
    let hours = std::str::from_utf8(hours)
        .ok()
        .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    let hours: i64 = hours.parse().ok().filter(|hours| sign < 0 || *hours > 23)?;
    // Minutes and what follows are those of a time of day.
    let mut of_hour = b"00".to_vec();
    of_hour.extend_from_slice(rest);
    let micros = hours * HOUR + time(&of_hour).ok()?;
    (micros <= TIME_MAX).then_some(sign * micros)
}

/// Microseconds since 1970-01-01 00:00:00 of a clock without a zone.
pub fn timestamp(value: &[u8]) -> Parsed<i64> {
    read_timestamp(value.trim_ascii())
        .and_then(|(micros, rest)| {
            if rest.is_empty() {
                return Ok(micros);
            }
            read_offset(rest)?;
            Err(Bad::OffsetLost)
        })
        .map_err(|bad| bad.fault(value, &ColumnType::Timestamp))
}

/// Microseconds since 1970-01-01 00:00:00 UTC. A text without an offset is a time of `zone`.
pub fn instant(value: &[u8], zone: Option<&TimeZone>) -> Parsed<i64> {
    let bad = |bad: Bad| bad.fault(value, &ColumnType::TimestampTz);
    let (local, rest) = read_timestamp(value.trim_ascii()).map_err(bad)?;
    if rest.is_empty() {
        let zone = zone.ok_or_else(|| bad(Bad::ZoneMissing))?;
        return instant_in_zone(local, zone);
    }
    Ok(local - read_offset(rest).map_err(bad)?)
}

/// The instant at which clocks in `zone` show `local` (microseconds since 1970-01-01 00:00:00 on them). A
/// fault where they show it twice or never.
pub fn instant_in_zone(local: i64, zone: &TimeZone) -> Parsed<i64> {
    let fault = |code: &'static str, what: &str| {
        let name = zone.iana_name().unwrap_or("the time zone");
        let time = text_of_timestamp(local);
        Fault::new(code, format!("'{time}' {what} in {name}"))
    };
    let time = civil_time(local).ok_or_else(|| fault(sqlstate::DATETIME_OVERFLOW, "is out of range"))?;
    match zone.to_ambiguous_timestamp(time).offset() {
        AmbiguousOffset::Unambiguous { offset } => Ok(local - i64::from(offset.seconds()) * SECOND),
        AmbiguousOffset::Gap { .. } => Err(fault(sqlstate::DATETIME_OVERFLOW, "does not exist")),
        AmbiguousOffset::Fold { before, after } => Err(fault(sqlstate::INVALID_DATETIME, "happens twice")
            .hint(format!("write its offset, {before} or {after}"))),
    }
}

/// The same clock reading in the time zone library's words; none outside its years.
fn civil_time(local: i64) -> Option<civil::DateTime> {
    let (days, micros) = (local.div_euclid(DAY), local.rem_euclid(DAY));
    let (year, month, day) = civil_from_days(days);
    // A time of day is below 24 hours, so its parts fit.
    civil::DateTime::new(
        i16::try_from(year).ok()?,
        month as i8,
        day as i8,
        (micros / HOUR) as i8,
        (micros % HOUR / MINUTE) as i8,
        (micros % MINUTE / SECOND) as i8,
        (micros % SECOND * 1_000) as i32,
    )
    .ok()
}

/// `YYYY-MM-DD`, nothing behind it.
#[inline]
fn read_date(text: &[u8]) -> Read<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else {
        return Err(Bad::Layout);
    };
    let year = two(*y1, *y2)? * 100 + two(*y3, *y4)?;
    let (month, day) = (two(*m1, *m2)?, two(*d1, *d2)?);
    if year == 0 || !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
        return Err(Bad::NoSuchDate);
    }
    Ok(days_from_civil(year, month, day))
}

/// `HH:MM[:SS[.f]]` and what is behind it.
#[inline]
fn read_time(text: &[u8]) -> Read<(i64, &[u8])> {
    let [h1, h2, b':', m1, m2, rest @ ..] = text else {
        return Err(Bad::Layout);
    };
    let (hour, minute) = (two(*h1, *h2)?, two(*m1, *m2)?);
    let (second, rest) = match rest {
        [b':', s1, s2, rest @ ..] => (two(*s1, *s2)?, rest),
        [b':', ..] => return Err(Bad::Layout),
        rest => (0, rest),
    };
    let (fraction, rest) = match rest {
        // A fraction needs seconds before it: `HH:MM` is five bytes, `HH:MM:SS` eight.
        [b'.', rest @ ..] if text.len() - rest.len() == 9 => read_fraction(rest)?,
        rest => (0, rest),
    };
    if second == 60 && hour <= 23 && minute <= 59 {
        return Err(Bad::LeapSecond);
    }
    if hour > 23 || minute > 59 || second > 59 {
        return Err(Bad::NoSuchTime);
    }
    Ok((hour * HOUR + minute * MINUTE + second * SECOND + fraction, rest))
}

/// One to nine digits after the point, as microseconds, and what is behind them.
fn read_fraction(text: &[u8]) -> Read<(i64, &[u8])> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if !(1..=9).contains(&digits) {
        return Err(Bad::Layout);
    }
    let (fraction, rest) = text.split_at(digits);
    let (micros, beyond) = fraction.split_at(digits.min(6));
    if beyond.iter().any(|b| *b != b'0') {
        return Err(Bad::TooFine);
    }
    let value = micros.iter().fold(0, |v, b| v * 10 + i64::from(b - b'0'));
    Ok((value * 10i64.pow(6 - micros.len() as u32), rest))
}

/// `YYYY-MM-DD[T ]` and a time, and what is behind it.
#[inline]
fn read_timestamp(text: &[u8]) -> Read<(i64, &[u8])> {
    let Some((date, [b' ' | b'T' | b't', time @ ..])) = text.split_at_checked(10) else {
        return Err(Bad::Layout);
    };
    // The time first: if its layout is wrong, that is what to say, whatever the date.
    let (micros, rest) = read_time(time)?;
    Ok((read_date(date)? * DAY + micros, rest))
}

/// `Z`, `+HH`, `+HHMM` or `+HH:MM`, as microseconds east of UTC.
#[inline]
fn read_offset(text: &[u8]) -> Read<i64> {
    let (sign, digits) = match text {
        [b'Z' | b'z'] => return Ok(0),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return Err(Bad::Layout),
    };
    let (hour, minute) = match digits {
        [h1, h2] => (two(*h1, *h2)?, 0),
        [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => (two(*h1, *h2)?, two(*m1, *m2)?),
        _ => return Err(Bad::Layout),
    };
    if hour > OFFSET_HOURS_MAX || minute > 59 {
        return Err(Bad::NoSuchTime);
    }
    Ok(sign * (hour * HOUR + minute * MINUTE))
}

/// A number of two digits.
#[inline]
fn two(tens: u8, ones: u8) -> Read<i64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    if tens > 9 || ones > 9 {
        return Err(Bad::Layout);
    }
    Ok(i64::from(tens) * 10 + i64::from(ones))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A date as PostgreSQL writes it, whatever its year, the ends of time, and a [`PartialDate`].
pub fn spelled_date(days: i64) -> String {
    match i32::try_from(days) {
        Ok(i32::MAX) => "infinity".to_owned(),
        Ok(i32::MIN) => "-infinity".to_owned(),
        _ => PartialDate::of_days(days).map_or_else(|| far_date_text(days), |date| date.to_string()),
    }
}

/// A date as PostgreSQL writes it, whatever its year.
pub fn far_date_text(days: i64) -> String {
    let (date, era) = with_era(days);
    date + era
}

/// A date and time as PostgreSQL writes it, with `offset` behind the time, whatever its year, the ends of time, and one
/// of a [`PartialDate`], which has no offset.
pub fn spelled_timestamp(micros: i64, offset: &str) -> String {
    match micros {
        i64::MAX => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        _ => match PartialDate::of_micros(micros) {
            Some((date, of_day)) => format!("{date} {}", text_of_time(of_day)),
            None => far_timestamp_text(micros, offset),
        },
    }
}

/// A date and time as PostgreSQL writes it, with `offset` behind the time, whatever its year.
pub fn far_timestamp_text(micros: i64, offset: &str) -> String {
    let (date, era) = with_era(micros.div_euclid(DAY));
    format!("{date} {}{offset}{era}", text_of_time(micros.rem_euclid(DAY)))
}

/// A date of a positive year, and what says that it is one before the first.
fn with_era(days: i64) -> (String, &'static str) {
    let (year, month, day) = civil_from_days(days);
    let (year, era) = if year < 1 { (1 - year, " BC") } else { (year, "") };
    (format!("{year:04}-{month:02}-{day:02}"), era)
}

/// `2023-12-31`; years before 1 carry a minus, as in ISO 8601.
pub fn text_of_date(days: i64) -> String {
    let (year, month, day) = civil_from_days(days);
    let sign = if year < 0 { "-" } else { "" };
    format!("{sign}{:04}-{month:02}-{day:02}", year.abs())
}

/// `23:59:58`, and the fraction of a second as far as it is not zero. Midnight at the end of a day is
/// `24:00:00`; what is no time of day has more hours, or a sign.
pub fn text_of_time(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.saturating_abs();
    let mut text = format!(
        "{sign}{:02}:{:02}:{:02}",
        micros / HOUR,
        micros % HOUR / MINUTE,
        micros % MINUTE / SECOND
    );
    let fraction = micros % SECOND;
    if fraction != 0 {
        // Writing to a string does not fail.
        let _ = write!(text, ".{fraction:06}");
        text.truncate(text.trim_end_matches('0').len());
    }
    text
}

/// `2023-12-31 23:59:58.5`.
pub fn text_of_timestamp(micros: i64) -> String {
    let date = text_of_date(micros.div_euclid(DAY));
    format!("{date} {}", text_of_time(micros.rem_euclid(DAY)))
}
