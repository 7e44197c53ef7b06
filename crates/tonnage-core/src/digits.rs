//! Numbers, dates and times as text, straight into a byte buffer.
//!
//! Invariants: what is appended is ASCII; the calendar is the proleptic Gregorian one; no function allocates
//! but for the buffer's own growth.

use crate::calendar::civil_from_days;

/// "00" to "99", so that one division by 100 yields two digits.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut i = 0;
    while i < 100 {
        pairs[2 * i] = b'0' + (i / 10) as u8;
        pairs[2 * i + 1] = b'0' + (i % 10) as u8;
        i += 1;
    }
    pairs
};

/// Microseconds of a day.
pub const DAY_MICROS: i64 = 86_400_000_000;

/// Appends `value` with leading zeros to exactly `WIDTH` digits; digits beyond those are lost.
pub fn push_padded<const WIDTH: usize>(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0_u8; WIDTH];
    let mut at = WIDTH;
    while at >= 2 {
        let pair = 2 * (value % 100) as usize;
        value /= 100;
        digits[at - 2] = PAIRS[pair];
        digits[at - 1] = PAIRS[pair + 1];
        at -= 2;
    }
    if at == 1 {
        digits[0] = b'0' + (value % 10) as u8;
    }
    out.extend_from_slice(&digits);
}

/// Appends `value` in decimal.
pub fn push_unsigned(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    while value >= 100 {
        let pair = 2 * (value % 100) as usize;
        value /= 100;
        at -= 2;
        digits[at] = PAIRS[pair];
        digits[at + 1] = PAIRS[pair + 1];
    }
    if value >= 10 {
        at -= 2;
        digits[at] = PAIRS[2 * value as usize];
        digits[at + 1] = PAIRS[2 * value as usize + 1];
    } else {
        at -= 1;
        digits[at] = b'0' + value as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends `value` in decimal, with a sign if it is negative.
pub fn push_signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    push_unsigned(out, value.unsigned_abs());
}

/// Appends the decimal number `value / 10^scale` with all its `scale` digits after the point; a negative
/// scale adds zeros before it.
pub fn push_decimal(out: &mut Vec<u8>, value: i128, scale: i8) {
    /// Ten to the nineteenth is the largest power of ten in 64 bits.
    const CHUNK: u128 = 10_u128.pow(19);
    if value < 0 {
        out.push(b'-');
    }
    let magnitude = value.unsigned_abs();
    let start = out.len();
    match (magnitude / CHUNK, (magnitude % CHUNK) as u64) {
        (0, low) => push_unsigned(out, low),
        // An i128 has at most 39 digits: the upper part can exceed 19 digits by one, which 64 bits hold.
        (high, low) => {
            push_unsigned(out, high as u64);
            push_padded::<19>(out, low);
        }
    }
    if scale < 0 {
        if magnitude != 0 {
            out.resize(out.len() + usize::from(scale.unsigned_abs()), b'0');
        }
        return;
    }
    let scale = usize::from(scale.unsigned_abs());
    if scale == 0 {
        return;
    }
    let digits = out.len() - start;
    if digits <= scale {
        let zeros = scale + 1 - digits;
        out.splice(start..start, std::iter::repeat_n(b'0', zeros));
    }
    let point = out.len() - scale;
    out.insert(point, b'.');
}

/// The days since 1970-01-01 that are written: from 0001-01-01 to 9999-12-31, the years that four digits and
/// every database share.
pub const DAYS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;

/// Appends `2024-01-31`. `days` lies within [`DAYS`].
pub fn push_date(out: &mut Vec<u8>, days: i64) {
    let (year, month, day) = civil_from_days(days);
    push_padded::<4>(out, year as u64);
    out.push(b'-');
    push_padded::<2>(out, month as u64);
    out.push(b'-');
    push_padded::<2>(out, day as u64);
}

/// Appends `23:59:59`; `seconds` is from midnight, at most 86,400.
pub fn push_clock(out: &mut Vec<u8>, seconds: u64) {
    push_padded::<2>(out, seconds / 3_600);
    out.push(b':');
    push_padded::<2>(out, seconds / 60 % 60);
    out.push(b':');
    push_padded::<2>(out, seconds % 60);
}

/// Appends `2024-01-31 23:59:59.000001` from microseconds since 1970. The day lies within [`DAYS`].
pub fn push_timestamp_micros(out: &mut Vec<u8>, micros: i64) {
    let of_day = micros.rem_euclid(DAY_MICROS) as u64;
    push_date(out, micros.div_euclid(DAY_MICROS));
    out.push(b' ');
    push_clock(out, of_day / 1_000_000);
    out.push(b'.');
    push_padded::<6>(out, of_day % 1_000_000);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers() {
        for value in [0, 1, 9, 10, 99, 100, 101, 999, 1000, u64::MAX] {
            assert_eq!(text(|o| push_unsigned(o, value)), value.to_string());
        }
        for value in [i64::MIN, -1, 0, i64::MAX] {
            assert_eq!(text(|o| push_signed(o, value)), value.to_string());
        }
        assert_eq!(text(|o| push_padded::<5>(o, 42)), "00042");
        assert_eq!(text(|o| push_padded::<2>(o, 7)), "07");
    }

    #[test]
    fn decimals() {
        for (value, scale, wanted) in [
            (0, 0, "0"),
            (0, 3, "0.000"),
            (5, 2, "0.05"),
            (-5, 2, "-0.05"),
            (1250, 2, "12.50"),
            (-1250, 0, "-1250"),
            (12, -3, "12000"),
            (0, -3, "0"),
            (i128::MAX, 0, "170141183460469231731687303715884105727"),
            (i128::MIN, 38, "-1.70141183460469231731687303715884105728"),
            (10_i128.pow(19), 1, "1000000000000000000.0"),
        ] {
            assert_eq!(text(|o| push_decimal(o, value, scale)), wanted);
        }
    }

    #[test]
    fn dates() {
        for (days, wanted) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (19_782, "2024-02-29"),
            (11_016, "2000-02-29"),
            (*DAYS.start(), "0001-01-01"),
            (*DAYS.end(), "9999-12-31"),
        ] {
            assert_eq!(text(|o| push_date(o, days)), wanted);
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut last = civil_from_days(*DAYS.start() - 1);
        for days in DAYS {
            let (year, month, day) = civil_from_days(days);
            let next_day = (year, month) == (last.0, last.1) && day == last.2 + 1;
            let next_month = day == 1 && last.2 >= 28 && (year * 12 + month == last.0 * 12 + last.1 + 1);
            assert!(
                next_day || next_month,
                "{last:?} is followed by {:?}",
                (year, month, day)
            );
            last = (year, month, day);
        }
    }

    #[test]
    fn timestamps() {
        assert_eq!(
            text(|o| push_timestamp_micros(o, -1)),
            "1969-12-31 23:59:59.999999"
        );
        assert_eq!(
            text(|o| push_timestamp_micros(o, 1_704_164_645_123_000)),
            "2024-01-02 03:04:05.123000"
        );
    }
}
