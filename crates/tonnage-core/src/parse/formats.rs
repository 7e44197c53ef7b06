//! How a file writes its values, where that is not how [`parse_column`](super::parse_column) reads them: dates in another
//! order, a decimal comma, words for truth, instants as numbers.
//!
//! A value is first rewritten as the parser wants it, or refused; then it is read like any other. What no format fits is
//! left as it is, so that an ISO date in a file of `31.12.2023` is a date still: its four-digit year comes first and can
//! be nothing else. Of numbers that is not so: `1.234` is another number under a decimal comma, so a number that is not
//! written as the options say is refused.

use std::{borrow::Cow, fmt, str::FromStr};

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    fmt::strtime::{self, BrokenDownTime},
};

use super::fault::{Fault, Parsed, shown};
use crate::{
    error::{Error, Result},
    reject::sqlstate,
    types::ColumnType,
};

/// How values are written. The default changes nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ValueFormats {
    /// Layouts of dates and timestamps; the first that fits a value reads it.
    pub dates: Vec<DateFormat>,
    /// The decimal sign of numbers, if it is not a point.
    pub decimal: Option<char>,
    /// The sign between groups of three digits, if there is one.
    pub thousands: Option<char>,
    /// Words for true, besides those that are always read so. Compared as they are.
    pub truths: Vec<String>,
    /// Words for false.
    pub falsehoods: Vec<String>,
    /// Columns of the source whose instants are numbers, by name without regard to case.
    pub epochs: Vec<(String, EpochUnit)>,
}

/// The unit of instants that are numbers since 1970-01-01 00:00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds; those below a microsecond have to be zero.
    Nanos,
}

impl EpochUnit {
    /// By the names `epoch_s`, `epoch_ms`, `epoch_us`, `epoch_ns`.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "epoch" | "epoch_s" => Self::Seconds,
            "epoch_ms" => Self::Millis,
            "epoch_us" => Self::Micros,
            "epoch_ns" => Self::Nanos,
            _ => return None,
        })
    }

    fn per_second(self) -> i128 {
        match self {
            Self::Seconds => 1,
            Self::Millis => 1_000,
            Self::Micros => 1_000_000,
            Self::Nanos => 1_000_000_000,
        }
    }
}

impl fmt::Display for EpochUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seconds => "epoch_s",
            Self::Millis => "epoch_ms",
            Self::Micros => "epoch_us",
            Self::Nanos => "epoch_ns",
        })
    }
}

/// The layout of a date, and of a time behind it.
#[derive(Debug, Clone, PartialEq)]
pub enum DateFormat {
    /// Day, month and year in this order, with `.`, `/`, `-` or a space between them; the year has four digits, the month
    /// may be an English name. A time as ISO 8601 has it may follow.
    Ordered(DateOrder),
    /// A pattern of `strptime`: `%d.%m.%Y %H:%M`.
    Pattern(String),
}

/// The order of the parts of a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateOrder {
    /// `31.12.2023`
    Dmy,
    /// `12/31/2023`
    Mdy,
    /// `2023/12/31`, `20231231`
    Ymd,
}

impl FromStr for DateFormat {
    type Err = Error;

    /// `dmy`, `mdy`, `ymd`, or a pattern with directives of `strptime`.
    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "dmy" => return Ok(Self::Ordered(DateOrder::Dmy)),
            "mdy" => return Ok(Self::Ordered(DateOrder::Mdy)),
            "ymd" => return Ok(Self::Ordered(DateOrder::Ymd)),
            _ => {}
        }
        let hint = "write dmy, mdy, ymd, or a pattern such as %d.%m.%Y or '%m/%d/%y %I:%M %p'";
        if !text.contains('%') {
            return Err(Error::config(format!("'{text}' is no date format")).hint(hint));
        }
        // Any instant shows whether each directive is known.
        strtime::format(text, &Timestamp::UNIX_EPOCH.to_zoned(jiff::tz::TimeZone::UTC)).map_err(|cause| {
            Error::config(format!("'{text}' is no date format: {cause}"))
                .hint(hint)
                .caused_by(cause)
        })?;
        Ok(Self::Pattern(text.to_owned()))
    }
}

impl fmt::Display for DateFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ordered(DateOrder::Dmy) => "dmy",
            Self::Ordered(DateOrder::Mdy) => "mdy",
            Self::Ordered(DateOrder::Ymd) => "ymd",
            Self::Pattern(pattern) => pattern,
        })
    }
}

/// What a value is, for whoever infers the type of its column.
pub enum Seen<'a> {
    /// Written as the parser wants it.
    Value(Cow<'a, [u8]>),
    /// Text, even if it looks like another type.
    Text,
}

impl ValueFormats {
    /// Whether all is written as the parser wants it.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// `Config` where two of them contradict each other.
    pub fn check(&self) -> Result<()> {
        let of_number = |sign: char| sign.is_ascii_digit() || matches!(sign, '-' | '+' | 'e' | 'E');
        for (option, sign) in [("--decimal", self.decimal), ("--thousands", self.thousands)] {
            if let Some(sign) = sign.filter(|sign| of_number(*sign)) {
                return Err(Error::config(format!("{option} '{sign}' is a part of numbers"))
                    .hint("name the sign that is used: , or . or a space"));
            }
        }
        if self.thousands.is_some() && self.thousands == Some(self.decimal_sign()) {
            return Err(Error::config(format!(
                "the decimal sign and the sign between thousands are both '{}'",
                self.decimal_sign()
            ))
            .hint("--decimal , --thousands . reads 1.234,50"));
        }
        match self.truths.iter().find(|word| self.falsehoods.contains(word)) {
            Some(word) => Err(Error::config(format!("'{word}' is both --true and --false"))),
            None => Ok(()),
        }
    }

    /// Everything that is not the default, as `name=value`.
    pub fn describe(&self) -> Vec<String> {
        let mut parts = Vec::new();
        parts.extend(self.dates.iter().map(|format| format!("date_format={format}")));
        parts.extend(self.decimal.map(|sign| format!("decimal={sign}")));
        parts.extend(self.thousands.map(|sign| format!("thousands={sign}")));
        parts.extend(self.truths.iter().map(|word| format!("true={word}")));
        parts.extend(self.falsehoods.iter().map(|word| format!("false={word}")));
        let epochs = self.epochs.iter();
        parts.extend(epochs.map(|(column, unit)| format!("{unit}={}", column.to_lowercase())));
        parts
    }

    fn decimal_sign(&self) -> char {
        self.decimal.unwrap_or('.')
    }

    /// The unit of a column whose instants are numbers.
    fn epoch(&self, column: &str) -> Option<EpochUnit> {
        let mut epochs = self.epochs.iter();
        epochs
            .find(|(name, _)| name.to_lowercase() == column.to_lowercase())
            .map(|(_, unit)| *unit)
    }

    /// What rewrites the values of a column of type `ty`; none where they are read as they are.
    pub(super) fn of_column(&self, ty: &ColumnType, column: &str) -> Option<Rewriting<'_>> {
        match ty {
            ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz => match self.epoch(column) {
                Some(unit) => Some(Rewriting::Epoch(unit)),
                None => (!self.dates.is_empty()).then_some(Rewriting::Dates(&self.dates)),
            },
            ColumnType::Bool => {
                let has_words = !self.truths.is_empty() || !self.falsehoods.is_empty();
                has_words.then_some(Rewriting::Truths(self))
            }
            ColumnType::Int16
            | ColumnType::Int32
            | ColumnType::Int64
            | ColumnType::Float32
            | ColumnType::Float64
            | ColumnType::Decimal { .. }
            | ColumnType::Numeric => {
                let has_signs = self.decimal.is_some() || self.thousands.is_some();
                has_signs.then_some(Rewriting::Numbers(self))
            }
            ColumnType::Text { .. }
            | ColumnType::Char { .. }
            | ColumnType::Bytes
            | ColumnType::Time
            | ColumnType::Uuid
            | ColumnType::Json
            | ColumnType::Any => None,
        }
    }

    /// What a value of a column without a type is.
    pub fn seen<'a>(&self, value: &'a [u8]) -> Seen<'a> {
        if let Some(date) = dated(&self.dates, value) {
            return Seen::Value(date.into_bytes().into());
        }
        if let Some(truth) = self.truth(value) {
            return Seen::Value(truth.into());
        }
        if self.decimal.is_none() && self.thousands.is_none() {
            return Seen::Value(value.into());
        }
        match self.number(value) {
            Some(number) => Seen::Value(number.into_bytes().into()),
            // It is a number only to those who have a decimal point.
            None if value
                .first()
                .is_some_and(|first| first.is_ascii_digit() || matches!(first, b'-' | b'.'))
                && value.contains(&b'.')
                && !value.contains(&b':') =>
            {
                Seen::Text
            }
            None => Seen::Value(value.into()),
        }
    }

    fn truth(&self, value: &[u8]) -> Option<&'static [u8]> {
        let text = value.trim_ascii();
        let is = |words: &[String]| words.iter().any(|word| word.as_bytes() == text);
        if is(&self.truths) {
            return Some(b"true");
        }
        is(&self.falsehoods).then_some(b"false")
    }

    /// The number with a decimal point and without signs between thousands.
    fn number(&self, value: &[u8]) -> Option<String> {
        let text = std::str::from_utf8(value).ok()?.trim();
        let (sign, body) = match text.strip_prefix(['-', '+']) {
            Some(body) => (&text[..1], body),
            None => ("", text),
        };
        let (mantissa, exponent) = match body.find(['e', 'E']) {
            Some(at) => body.split_at(at),
            None => (body, ""),
        };
        let (whole, places) = match mantissa.split_once(self.decimal_sign()) {
            Some((whole, places)) => (whole, Some(places)),
            None => (mantissa, None),
        };
        let whole = match self.thousands.filter(|sign| whole.contains(*sign)) {
            Some(sign) => grouped(whole, sign)?,
            None => whole.to_owned(),
        };
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let has_digits = !whole.is_empty() || places.is_some_and(|places| !places.is_empty());
        if !digits(&whole) || !places.is_none_or(digits) || !has_digits {
            return None;
        }
        let places = places.map(|places| format!(".{places}")).unwrap_or_default();
        Some(format!("{sign}{whole}{places}{exponent}"))
    }
}

/// The digits of groups of three, of which the first may be shorter.
fn grouped(text: &str, sign: char) -> Option<String> {
    let mut groups = text.split(sign);
    let first = groups.next().filter(|first| (1..=3).contains(&first.len()))?;
    let mut digits = first.to_owned();
    for group in groups {
        if group.len() != 3 {
            return None;
        }
        digits.push_str(group);
    }
    Some(digits)
}

/// How the values of one column become what the parser wants.
pub(super) enum Rewriting<'a> {
    Epoch(EpochUnit),
    Dates(&'a [DateFormat]),
    Truths(&'a ValueFormats),
    Numbers(&'a ValueFormats),
}

impl Rewriting<'_> {
    /// A value as the parser wants it, or what is wrong with it.
    pub fn rewrite<'v>(&self, value: &'v [u8], ty: &ColumnType) -> Parsed<Cow<'v, [u8]>> {
        match self {
            Self::Epoch(unit) => Ok(instant_of(value, *unit, ty)?.into_bytes().into()),
            Self::Dates(formats) => Ok(match dated(formats, value) {
                Some(date) => date.into_bytes().into(),
                None => value.into(),
            }),
            Self::Truths(formats) => Ok(formats.truth(value).unwrap_or(value).into()),
            Self::Numbers(formats) => match formats.number(value) {
                Some(number) => Ok(number.into_bytes().into()),
                // Words such as `nan`, and what is no number to anybody.
                None if !value.iter().any(u8::is_ascii_digit) => Ok(value.into()),
                None => Err(Fault::not_a(value, ty).hint(format!(
                    "the decimal sign is '{}' and {}",
                    formats.decimal_sign(),
                    match formats.thousands {
                        Some(sign) => format!("groups of three digits have '{sign}' between them"),
                        None => "there is none between thousands".to_owned(),
                    }
                ))),
            },
        }
    }
}

/// An instant that is a number, as text with the offset that the type wants.
fn instant_of(value: &[u8], unit: EpochUnit, ty: &ColumnType) -> Parsed<String> {
    let bad = || {
        Fault::not_a(value, ty).hint(format!(
            "its column was declared to hold numbers since 1970 ({unit}), with or without a fraction"
        ))
    };
    let text = std::str::from_utf8(value).map_err(|_| bad())?.trim();
    let (whole, places) = text.split_once('.').unwrap_or((text, ""));
    let number: i128 = whole.parse().map_err(|_| bad())?;
    let digits = places.trim_end_matches('0');
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad());
    }
    let beyond = || {
        Fault::new(
            sqlstate::DATETIME_OVERFLOW,
            format!("{} is an instant outside the years 1 to 9999", shown(value)),
        )
    };
    let too_fine = || {
        Fault::new(
            sqlstate::WOULD_CHANGE,
            format!("{} is finer than a microsecond, the column is not", shown(value)),
        )
    };
    // Picoseconds and less are zeros or too fine.
    let nanos_of_unit = 1_000_000_000 / unit.per_second();
    let scale = 10i128.checked_pow(digits.len() as u32).ok_or_else(too_fine)?;
    let fraction: i128 = if digits.is_empty() {
        0
    } else {
        digits.parse().map_err(|_| too_fine())?
    };
    let fraction_nanos = fraction.checked_mul(nanos_of_unit).ok_or_else(too_fine)?;
    if fraction_nanos % scale != 0 {
        return Err(too_fine());
    }
    let fraction_nanos = match text.starts_with('-') {
        true => -(fraction_nanos / scale),
        false => fraction_nanos / scale,
    };
    let nanos = number
        .checked_mul(nanos_of_unit)
        .and_then(|nanos| nanos.checked_add(fraction_nanos))
        .ok_or_else(beyond)?;
    if nanos % 1_000 != 0 {
        return Err(too_fine());
    }
    let instant = Timestamp::from_nanosecond(nanos).map_err(|_| beyond())?;
    let local = jiff::tz::TimeZone::UTC.to_datetime(instant);
    if local.year() < 1 {
        return Err(beyond());
    }
    Ok(match ty {
        ColumnType::TimestampTz => format!("{}Z", iso(local)),
        _ => iso(local),
    })
}

/// `2023-12-31T23:59:58.123456`, shorter where the rest is zero.
fn iso(time: DateTime) -> String {
    let (date, nanos) = (time.date(), time.subsec_nanosecond());
    let mut text = format!(
        "{}T{:02}:{:02}:{:02}",
        iso_date(date),
        time.hour(),
        time.minute(),
        time.second()
    );
    if nanos != 0 {
        text.push_str(format!(".{nanos:09}").trim_end_matches('0'));
    }
    text
}

fn iso_date(date: Date) -> String {
    format!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day())
}

/// The date or timestamp as ISO 8601 has it, by the first format that fits.
fn dated(formats: &[DateFormat], value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?.trim();
    formats.iter().find_map(|format| match format {
        DateFormat::Ordered(order) => ordered(*order, text),
        DateFormat::Pattern(pattern) => patterned(pattern, text),
    })
}

fn patterned(pattern: &str, text: &str) -> Option<String> {
    let parts = BrokenDownTime::parse(pattern, text).ok()?;
    let date = parts.to_date().ok()?;
    if date.year() < 1 {
        return None;
    }
    if parts.hour().is_none() {
        return Some(iso_date(date));
    }
    let mut text = iso(date.to_datetime(parts.to_time().ok()?));
    if let Some(offset) = parts.offset() {
        let seconds = offset.seconds();
        let minutes = seconds.abs() / 60;
        // No zone of today's has seconds; a value of one that does is refused as it is.
        if seconds % 60 != 0 {
            return None;
        }
        let sign = if seconds < 0 { '-' } else { '+' };
        text.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
    }
    Some(text)
}

fn ordered(order: DateOrder, text: &str) -> Option<String> {
    let compact = || match (order, text.len()) {
        (DateOrder::Ymd, 8) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(([&text[..4], &text[4..6], &text[6..]], ""))
        }
        _ => None,
    };
    let (parts, rest) = compact().or_else(|| separated(text))?;
    let [first, second, third] = parts;
    let (year, month, day) = match order {
        DateOrder::Dmy => (third, second, first),
        DateOrder::Mdy => (third, first, second),
        DateOrder::Ymd => (first, second, third),
    };
    // Of two digits nobody knows the century.
    if year.len() != 4 || !(1..=2).contains(&day.len()) {
        return None;
    }
    let month = match month.as_bytes().first()?.is_ascii_digit() {
        true if month.len() <= 2 => month.parse().ok()?,
        true => return None,
        false => month_of(month)?,
    };
    let date = Date::new(year.parse().ok()?, month, day.parse().ok()?).ok()?;
    match rest {
        _ if date.year() < 1 => None,
        "" => Some(iso_date(date)),
        time => Some(format!("{}T{time}", iso_date(date))),
    }
}

/// The three parts of a date with one separator between them, and the time behind.
fn separated(text: &str) -> Option<([&str; 3], &str)> {
    let is_part = |byte: char| byte.is_ascii_alphanumeric();
    let first_end = text.find(|byte| !is_part(byte))?;
    let separator = text[first_end..]
        .chars()
        .next()
        .filter(|sign| matches!(sign, '.' | '/' | '-' | ' '))?;
    let (first, rest) = text.split_at(first_end);
    let (second, rest) = rest[1..].split_once(separator)?;
    // `Jan.`, or a space behind the point: 31. 12. 2023.
    let (second, rest) = (second.trim_start().trim_end_matches('.'), rest.trim_start());
    let third_end = rest
        .find(|byte: char| !byte.is_ascii_digit())
        .unwrap_or(rest.len());
    let (third, time) = rest.split_at(third_end);
    let time = match time {
        "" => "",
        _ => time
            .strip_prefix([' ', 'T'])
            .or_else(|| time.strip_prefix(", "))?
            .trim_start(),
    };
    let is_time = time.is_empty() || time.as_bytes().first().is_some_and(u8::is_ascii_digit);
    (is_time && second.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        .then_some(([first, second, third], time))
}

/// The number of a month by its English name, or the first three letters of it.
fn month_of(name: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let name = name.to_ascii_lowercase();
    let at = MONTHS
        .iter()
        .position(|month| *month == name || (name.len() == 3 && month.starts_with(&name)))?;
    i8::try_from(at + 1).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(formats: &ValueFormats, ty: ColumnType, value: &str) -> String {
        let rewriting = formats.of_column(&ty, "t").expect("the type is concerned");
        match rewriting.rewrite(value.as_bytes(), &ty) {
            Ok(text) => String::from_utf8(text.into_owned()).unwrap(),
            Err(fault) => format!("refused: {}", fault.message),
        }
    }

    #[test]
    fn dates_are_read_in_the_order_that_is_named() {
        let cases = [
            ("dmy", "31.12.2023", "2023-12-31"),
            ("dmy", "1/2/2023", "2023-02-01"),
            ("mdy", "1/2/2023", "2023-01-02"),
            ("dmy", "31-Dec-2023", "2023-12-31"),
            ("dmy", "31 December 2023", "2023-12-31"),
            ("dmy", "31. 12. 2023", "2023-12-31"),
            ("ymd", "2023/12/31", "2023-12-31"),
            ("ymd", "20231231", "2023-12-31"),
            ("dmy", "31.12.2023 23:59:58", "2023-12-31T23:59:58"),
            ("dmy", "31.12.2023, 23:59", "2023-12-31T23:59"),
            ("%d.%m.%y", "31.12.23", "2023-12-31"),
            ("%m/%d/%Y %I:%M %p", "12/31/2023 11:59 PM", "2023-12-31T23:59:00"),
            (
                "%Y-%m-%dT%H:%M:%S%z",
                "2023-12-31T23:59:58+0130",
                "2023-12-31T23:59:58+01:30",
            ),
            // What does not fit is left to be read as it always is.
            ("dmy", "2023-12-31", "2023-12-31"),
            ("dmy", "12/31/2023", "12/31/2023"),
            ("dmy", "31.12.23", "31.12.23"),
            ("dmy", "31.02.2023", "31.02.2023"),
            ("dmy", "31.12-2023", "31.12-2023"),
            ("dmy", "x", "x"),
            ("dmy", "", ""),
        ];
        for (format, value, expected) in cases {
            let formats = ValueFormats {
                dates: vec![format.parse().unwrap()],
                ..ValueFormats::default()
            };
            assert_eq!(
                read(&formats, ColumnType::Timestamp, value),
                expected,
                "{format} {value}"
            );
        }
        for bad in ["", "yyyy-mm-dd", "%J", "%"] {
            assert!(bad.parse::<DateFormat>().is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_are_read_by_their_signs_or_refused() {
        let german = ValueFormats {
            decimal: Some(','),
            thousands: Some('.'),
            ..ValueFormats::default()
        };
        let cases = [
            ("1.234,50", "1234.50"),
            ("-1234,5", "-1234.5"),
            ("+0,5e3", "+0.5e3"),
            (",5", ".5"),
            ("1.234", "1234"),
            ("nan", "nan"),
            ("1.5", "refused: '1.5' is not a numeric"),
            ("12.34,5", "refused: '12.34,5' is not a numeric"),
            ("1,234.5", "refused: '1,234.5' is not a numeric"),
            ("1,2,3", "refused: '1,2,3' is not a numeric"),
            ("1234.567", "refused: '1234.567' is not a numeric"),
        ];
        for (value, expected) in cases {
            assert_eq!(read(&german, ColumnType::Numeric, value), expected, "{value}");
        }
        let french = ValueFormats {
            decimal: Some(','),
            thousands: Some('\u{a0}'),
            ..ValueFormats::default()
        };
        assert_eq!(read(&french, ColumnType::Float64, "1\u{a0}234,5"), "1234.5");
        assert!(
            ValueFormats {
                thousands: Some('.'),
                ..ValueFormats::default()
            }
            .check()
            .is_err()
        );
        assert!(german.check().is_ok());
    }

    #[test]
    fn instants_are_numbers_of_the_unit_that_is_named() {
        let cases = [
            (EpochUnit::Seconds, "0", "1970-01-01T00:00:00"),
            (EpochUnit::Seconds, "1700000000.25", "2023-11-14T22:13:20.25"),
            (EpochUnit::Seconds, "-0.5", "1969-12-31T23:59:59.5"),
            (EpochUnit::Millis, "1700000000123", "2023-11-14T22:13:20.123"),
            (
                EpochUnit::Millis,
                "1700000000123.4560",
                "2023-11-14T22:13:20.123456",
            ),
            (EpochUnit::Micros, "-1", "1969-12-31T23:59:59.999999"),
            (EpochUnit::Nanos, "1000", "1970-01-01T00:00:00.000001"),
            (
                EpochUnit::Nanos,
                "1",
                "refused: '1' is finer than a microsecond, the column is not",
            ),
            (EpochUnit::Seconds, "x", "refused: 'x' is not a timestamp"),
            (
                EpochUnit::Seconds,
                "1700000000000",
                "refused: '1700000000000' is an instant outside the years 1 to 9999",
            ),
        ];
        for (unit, value, expected) in cases {
            let formats = ValueFormats {
                epochs: vec![("T".to_owned(), unit)],
                ..ValueFormats::default()
            };
            assert_eq!(
                read(&formats, ColumnType::Timestamp, value),
                expected,
                "{unit} {value}"
            );
        }
    }

    #[test]
    fn words_for_truth_are_added() {
        let formats = ValueFormats {
            truths: vec!["ja".to_owned()],
            falsehoods: vec!["nein".to_owned()],
            ..ValueFormats::default()
        };
        for (value, expected) in [("ja", "true"), ("nein", "false"), ("t", "t"), ("Ja", "Ja")] {
            assert_eq!(read(&formats, ColumnType::Bool, value), expected);
        }
    }
}
