//! Dates and times as text, in the one form that SQLite's own functions read and that sorts as the times do.
//!
//! - date `2024-01-02`
//! - time `03:04:05`, or `03:04:05.120000` where there is a fraction
//! - timestamp `2024-01-02 03:04:05[.120000]`
//! - timestamp with zone, in UTC: `2024-01-02 03:04:05[.120000]+00:00`
//!
//! The form is canonical: equal values are equal text. Years are 0000 to 9999, which is what SQLite can read;
//! other years are refused.

use tonnage_core::calendar::{civil_from_days, days_from_civil};

const MICROS_A_SECOND: i64 = 1_000_000;
const MICROS_A_DAY: i64 = 86_400 * MICROS_A_SECOND;

/// Days from 1970-01-01 to 0000-01-01, and to the day after 9999-12-31.
const DAYS: std::ops::Range<i64> = -719_528..2_932_897;

/// Writes the day this many days after 1970-01-01; false if its year does not have four digits.
pub(super) fn write_date(days: i64, out: &mut String) -> bool {
    if !DAYS.contains(&days) {
        return false;
    }
    let (year, month, day) = civil_from_days(days);
    push(out, year / 100);
    push(out, year % 100);
    out.push('-');
    push(out, month);
    out.push('-');
    push(out, day);
    true
}

/// Writes a time of day in microseconds; false if it is not within a day.
pub(super) fn write_time(micros: i64, out: &mut String) -> bool {
    if !(0..MICROS_A_DAY).contains(&micros) {
        return false;
    }
    let seconds = micros / MICROS_A_SECOND;
    push(out, seconds / 3600);
    out.push(':');
    push(out, seconds / 60 % 60);
    out.push(':');
    push(out, seconds % 60);
    let fraction = micros % MICROS_A_SECOND;
    if fraction != 0 {
        out.push('.');
        push(out, fraction / 10_000);
        push(out, fraction / 100 % 100);
        push(out, fraction % 100);
    }
    true
}

/// Writes a date and time in microseconds since 1970; false if its year does not have four digits.
pub(super) fn write_timestamp(micros: i64, out: &mut String) -> bool {
    if !write_date(micros.div_euclid(MICROS_A_DAY), out) {
        return false;
    }
    out.push(' ');
    write_time(micros.rem_euclid(MICROS_A_DAY), out)
}

/// Reads what [`write_date`] writes; none for any other text.
pub(super) fn read_date(text: &[u8]) -> Option<i64> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else {
        return None;
    };
    let (year, month, day) = (
        two(*y1, *y2)? * 100 + two(*y3, *y4)?,
        two(*m1, *m2)?,
        two(*d1, *d2)?,
    );
    if !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    let days = days_from_civil(year, month, day);
    // The 31st of a shorter month is a day of the next one.
    (civil_from_days(days) == (year, month, day)).then_some(days)
}

/// Reads what [`write_time`] writes, with a fraction of six digits or none; none for any other text.
pub(super) fn read_time(text: &[u8]) -> Option<i64> {
    let (clock, fraction) = match text {
        [clock @ .., b'.', a, b, c, d, e, f] => {
            let fraction = two(*a, *b)? * 10_000 + two(*c, *d)? * 100 + two(*e, *f)?;
            (clock, fraction)
        }
        clock => (clock, 0),
    };
    let [h1, h2, b':', m1, m2, b':', s1, s2] = clock else {
        return None;
    };
    let (hours, minutes, seconds) = (two(*h1, *h2)?, two(*m1, *m2)?, two(*s1, *s2)?);
    let inside = hours < 24 && minutes < 60 && seconds < 60;
    inside.then_some((hours * 3600 + minutes * 60 + seconds) * MICROS_A_SECOND + fraction)
}

/// Reads what [`write_timestamp`] writes; none for any other text.
pub(super) fn read_timestamp(text: &[u8]) -> Option<i64> {
    const DATE_BYTES: usize = 10;
    let (date, rest) = text.split_at_checked(DATE_BYTES)?;
    let time = read_time(rest.strip_prefix(b" ")?)?;
    Some(read_date(date)? * MICROS_A_DAY + time)
}

fn two(tens: u8, ones: u8) -> Option<i64> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    Some(digit(tens)? * 10 + digit(ones)?)
}

/// Two digits.
fn push(out: &mut String, number: i64) {
    out.push(char::from(b'0' + (number / 10) as u8));
    out.push(char::from(b'0' + (number % 10) as u8));
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use proptest::prelude::*;

    use super::*;

    fn text(write: fn(i64, &mut String) -> bool, value: i64) -> Option<String> {
        let mut out = String::new();
        write(value, &mut out).then_some(out)
    }

    #[test]
    fn ends() {
        assert_eq!(text(write_date, DAYS.start).as_deref(), Some("0000-01-01"));
        assert_eq!(text(write_date, DAYS.end - 1).as_deref(), Some("9999-12-31"));
        assert_eq!(text(write_date, DAYS.start - 1), None);
        assert_eq!(text(write_date, DAYS.end), None);
        assert_eq!(text(write_time, 0).as_deref(), Some("00:00:00"));
        assert_eq!(
            text(write_time, MICROS_A_DAY - 1).as_deref(),
            Some("23:59:59.999999")
        );
        assert_eq!(text(write_time, MICROS_A_DAY), None);
        assert_eq!(text(write_time, -1), None);
        assert_eq!(
            text(write_timestamp, -1).as_deref(),
            Some("1969-12-31 23:59:59.999999")
        );
        assert_eq!(
            text(write_timestamp, 10).as_deref(),
            Some("1970-01-01 00:00:00.000010")
        );
        assert_eq!(text(write_timestamp, i64::MAX), None);
        assert_eq!(text(write_timestamp, i64::MIN), None);
    }

    #[test]
    fn only_what_is_written_so_is_read() {
        for bad in [
            "2024-02-30",
            "2023-02-29",
            "2024-00-01",
            "2024-13-01",
            "24-01-01",
            "2024-1-01",
        ] {
            assert_eq!(read_date(bad.as_bytes()), None, "{bad}");
        }
        for bad in [
            "24:00:00",
            "00:60:00",
            "00:00:60",
            "00:00",
            "00:00:00.5",
            "00:00:00.0000001",
        ] {
            assert_eq!(read_time(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(read_date(b"2024-02-29"), Some(19_782));
        assert_eq!(read_timestamp(b"1970-01-01T00:00:00"), None);
        assert_eq!(read_timestamp(b"1969-12-31 23:59:59.999999"), Some(-1));
    }

    proptest! {
        #[test]
        fn every_day_is_the_calendar_s(days in DAYS) {
            let day = date(1970, 1, 1) + jiff::Span::new().days(days);
            let text = text(write_date, days).unwrap();
            prop_assert_eq!(&text, &day.to_string());
            prop_assert_eq!(read_date(text.as_bytes()), Some(days));
        }

        #[test]
        fn what_is_written_is_read(micros in DAYS.start * MICROS_A_DAY..DAYS.end * MICROS_A_DAY) {
            let text = text(write_timestamp, micros).unwrap();
            prop_assert_eq!(read_timestamp(text.as_bytes()), Some(micros));
        }
    }
}
