//! Dates and times as text, in the one form that SQLite's own functions read and that sorts as the times do.
//!
//! - date `2024-01-02`
//! - time `03:04:05`, or `03:04:05.120000` where there is a fraction
//! - timestamp `2024-01-02 03:04:05[.120000]`
//! - timestamp with zone, in UTC: `2024-01-02 03:04:05[.120000]+00:00`
//!
//! The form is canonical: equal values are equal text. Years are 0000 to 9999, which is what SQLite can read;
//! other years are refused.

const MICROS_A_SECOND: i64 = 1_000_000;
const MICROS_A_DAY: i64 = 86_400 * MICROS_A_SECOND;

/// Days from 1970-01-01 to 0000-01-01, and to the day after 9999-12-31.
const DAYS: std::ops::Range<i64> = -719_528..2_932_897;

/// Writes the day this many days after 1970-01-01; false if its year does not have four digits.
pub(super) fn write_date(days: i64, out: &mut String) -> bool {
    if !DAYS.contains(&days) {
        return false;
    }
    let (year, month, day) = civil(days);
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

/// Two digits.
fn push(out: &mut String, number: i64) {
    out.push(char::from(b'0' + (number / 10) as u8));
    out.push(char::from(b'0' + (number % 10) as u8));
}

/// Year, month and day of the proleptic Gregorian calendar, counted from 0000-03-01 so that the leap day ends
/// a year (the reckoning of <https://howardhinnant.github.io/date_algorithms.html>).
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
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

    proptest! {
        #[test]
        fn every_day_is_the_calendar_s(days in DAYS) {
            let day = date(1970, 1, 1) + jiff::Span::new().days(days);
            let text = text(write_date, days).unwrap();
            prop_assert_eq!(text, day.to_string());
        }
    }
}
