//! Exact decimals as SQLite numbers, or not at all.
//!
//! A column of NUMERIC affinity holds integers of 64 bits and doubles. A decimal is written there as an
//! integer where it is a whole number that fits, else as a double where the double gives its digits back: up to 15 it
//! always does, more are those of a double itself. Everything else would be rounded and is refused.

use super::types::DOUBLE_DIGITS;

/// A number that SQLite holds exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    /// As an integer.
    Integer(i64),
    /// As a double.
    Real(f64),
    /// Null.
    Null,
}

/// The most significant digits of the shortest text of a double.
const DOUBLE_DIGITS_MAX: usize = 17;

/// The largest power of ten that a double holds exactly is 10^22.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// 10^15: smaller whole numbers have at most 15 digits.
const SIGNIFICANT_END: u128 = 10u128.pow(DOUBLE_DIGITS as u32);

/// `unscaled / 10^scale`; none if SQLite cannot hold it.
pub(super) fn from_decimal(mut unscaled: i128, scale: u32) -> Option<Number> {
    let mut scale = scale;
    while scale > 0 && unscaled % 10 == 0 {
        unscaled /= 10;
        scale -= 1;
    }
    if scale == 0
        && let Ok(integer) = i64::try_from(unscaled)
    {
        return Some(Number::Integer(integer));
    }
    if scale > 0 && unscaled.unsigned_abs() < SIGNIFICANT_END && (scale as usize) < EXACT_POWERS.len() {
        // Both operands are exact, so the quotient is the double nearest to the decimal.
        return Some(Number::Real(unscaled as f64 / EXACT_POWERS[scale as usize]));
    }
    from_digits(
        unscaled < 0,
        &unscaled.unsigned_abs().to_string(),
        -i64::from(scale),
    )
}

/// Plain decimal text (`-12.50`); none if it is not a finite number or SQLite cannot hold it.
pub(super) fn from_text(text: &str) -> Option<Number> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) || whole.len() + fraction.len() == 0 {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() {
        let whole = whole.trim_start_matches('0');
        if whole.len() <= 19 {
            // At most 19 digits fit into 128 bits, and the empty text is zero.
            let magnitude: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
            if let Ok(integer) = i64::try_from(if negative { -magnitude } else { magnitude }) {
                return Some(Number::Integer(integer));
            }
        }
        return from_digits(negative, whole, 0);
    }
    let digits = format!("{whole}{fraction}");
    from_digits(negative, &digits, -i64::try_from(fraction.len()).ok()?)
}

/// `digits * 10^exponent` as a double, if the double gives the digits back.
fn from_digits(negative: bool, digits: &str, exponent: i64) -> Option<Number> {
    let significant = digits.trim_start_matches('0');
    let stripped = significant.trim_end_matches('0');
    let exponent = exponent + i64::try_from(significant.len() - stripped.len()).ok()?;
    if stripped.len() > DOUBLE_DIGITS_MAX {
        return None;
    }
    let sign = if negative { "-" } else { "" };
    let real: f64 = format!("{sign}{stripped}e{exponent}").parse().ok()?;
    // Below the normal range a double keeps fewer digits.
    if stripped.len() <= usize::from(DOUBLE_DIGITS) && real.is_normal() {
        return Some(Number::Real(real));
    }
    let (units, power) = digits_of_real(real)?;
    let same = units.unsigned_abs().to_string() == stripped && i64::from(power) == exponent;
    same.then_some(Number::Real(real))
}

/// The number that a text says in the very form in which values of a column without a type are read; none for another
/// form, and for what SQLite does not hold.
pub(super) fn as_written(text: &str) -> Option<Number> {
    if let Some(integer) = text
        .parse()
        .ok()
        .filter(|integer: &i64| integer.to_string() == text)
    {
        return Some(Number::Integer(integer));
    }
    // Not what a fraction of so many digits rounds to, and no word but these.
    let real: f64 = text.parse().ok()?;
    (!real.is_nan() && text_of_any_real(real) == text).then_some(Number::Real(real))
}

/// A double as plain decimal text that tells it from an integer, as far as integers go.
pub(super) fn text_of_any_real(real: f64) -> String {
    const INTEGERS_END: f64 = 9_223_372_036_854_775_808.0;
    let mut text = text_of_real(real);
    if real.fract() == 0.0 && real.abs() < INTEGERS_END {
        text.push_str(".0");
    }
    text
}

/// A double's shortest digits that give it back, and the power of ten that the last of them counts; none if it is not
/// finite. A decimal of at most 15 digits that was stored as a double comes back as it was.
fn digits_of_real(real: f64) -> Option<(i128, i32)> {
    if !real.is_finite() {
        return None;
    }
    let text = format!("{real:e}");
    let (mantissa, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let units = format!("{whole}{fraction}").parse().ok()?;
    Some((units, exponent - fraction.len() as i32))
}

/// A double as a whole number of units of `10 ^ -scale`; none if it is not one.
pub(super) fn units_of_real(real: f64, scale: u8) -> Option<i128> {
    let (units, exponent) = digits_of_real(real)?;
    let power = exponent + i32::from(scale);
    match u32::try_from(power) {
        Ok(power) => units.checked_mul(10i128.checked_pow(power)?),
        Err(_) => {
            let unit = 10i128.checked_pow(power.unsigned_abs())?;
            (units % unit == 0).then_some(units / unit)
        }
    }
}

/// A double as plain decimal text, without an exponent.
pub(super) fn text_of_real(real: f64) -> String {
    match digits_of_real(real) {
        // Rust writes doubles so, whatever their size.
        Some(_) => format!("{real}"),
        None if real.is_nan() => "NaN".to_owned(),
        None if real > 0.0 => "Infinity".to_owned(),
        None => "-Infinity".to_owned(),
    }
}

/// An integer as a double, where that is exact.
pub(super) fn integer_as_real(integer: i64) -> Option<f64> {
    const EXACT_END: u64 = 1 << 53;
    (integer.unsigned_abs() <= EXACT_END).then_some(integer as f64)
}

/// Whether a column of INTEGER, NUMERIC or REAL affinity would turn this text into a number: a decimal with
/// spaces around it, optional sign, point and exponent, and nothing else.
pub(super) fn looks_numeric(text: &str) -> bool {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let bytes = text.as_bytes();
    // Almost all text that is no number shows it in its first byte.
    let Some(start) = bytes.iter().position(|byte| !is_space(byte)) else {
        return false;
    };
    let end = bytes
        .iter()
        .rposition(|byte| !is_space(byte))
        .map_or(start, |last| last + 1);
    let mut rest = &bytes[start..end];
    if let [b'+' | b'-', after @ ..] = rest {
        rest = after;
    }
    let (whole, after) = digits(rest);
    rest = after;
    let mut fraction = 0;
    if let [b'.', after @ ..] = rest {
        (fraction, rest) = digits(after);
    }
    if whole + fraction == 0 {
        return false;
    }
    if let [b'e' | b'E', after @ ..] = rest {
        let after = match after {
            [b'+' | b'-', after @ ..] => after,
            _ => after,
        };
        let (exponent, after) = digits(after);
        return exponent > 0 && after.is_empty();
    }
    rest.is_empty()
}

/// How many digits there are at the front, and what follows them.
fn digits(bytes: &[u8]) -> (usize, &[u8]) {
    let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count, &bytes[count..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::{Connection, types::Value};

    use super::*;

    #[test]
    fn decimals() {
        use Number::{Integer, Real};
        let cases = [
            ("0", Some(Integer(0))),
            ("-0.00", Some(Integer(0))),
            ("007", Some(Integer(7))),
            ("12.50", Some(Real(12.5))),
            ("-.1", Some(Real(-0.1))),
            ("9223372036854775807", Some(Integer(i64::MAX))),
            ("-9223372036854775808.0", Some(Integer(i64::MIN))),
            ("9223372036854775808", None),
            ("10000000000000000000000", Some(Real(1e22))),
            ("0.123456789012345", Some(Real(0.123456789012345))),
            ("0.1234567890123456", Some(Real(0.1234567890123456))),
            ("0.30000000000000004", Some(Real(0.30000000000000004))),
            ("0.12345678901234566", Some(Real(0.12345678901234566))),
            // The same double, whose digits are those above.
            ("0.12345678901234567", None),
            ("1234567890.1234567", Some(Real(1234567890.1234567))),
            ("1234567890.12345678", None),
            ("NaN", None),
            ("Infinity", None),
            ("1e5", None),
            ("", None),
            (".", None),
        ];
        for (text, wanted) in cases {
            assert_eq!(from_text(text), wanted, "{text}");
        }
        assert_eq!(from_text(&format!("0.{}1", "0".repeat(400))), None);
        assert_eq!(from_text(&format!("1{}", "0".repeat(400))), None);
        assert_eq!(from_decimal(i128::MAX, 0), None);
        assert_eq!(from_decimal(1, 38), Some(Real(1e-38)));
        assert_eq!(from_decimal(10i128.pow(30), 2), Some(Real(1e28)));
        assert_eq!(from_decimal(-1250, 2), Some(Real(-12.5)));
        assert_eq!(
            from_decimal(i128::from(i64::MIN) * 100, 2),
            Some(Integer(i64::MIN))
        );
    }

    fn stored(value: &str) -> Value {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (a NUMERIC)").unwrap();
        connection.execute("INSERT INTO t VALUES (?1)", [value]).unwrap();
        connection
            .query_row("SELECT a FROM t", [], |row| row.get(0))
            .unwrap()
    }

    #[test]
    fn text_that_looks_like_a_number() {
        for text in [
            "007",
            " 1 ",
            "1.",
            ".5",
            "-.5",
            "+1",
            "1e5",
            "1E-5",
            "1e",
            "e5",
            ".",
            "-",
            "",
            " ",
            "0x1F",
            "1 2",
            "--1",
            "1_000",
            "inf",
            "nan",
            "2024-01-02",
            "12:30:00",
            "1\u{a0}",
            "\t1\r\n",
            "1e+",
            "1.5.2",
            "٣",
            "12345678-1234",
        ] {
            assert_eq!(
                looks_numeric(text),
                !matches!(stored(text), Value::Text(_)),
                "'{text}'"
            );
        }
    }

    proptest! {
        #[test]
        fn looks_numeric_is_what_sqlite_thinks(text in "[ \t+.0-9eE-]{0,8}") {
            prop_assert_eq!(looks_numeric(&text), !matches!(stored(&text), Value::Text(_)));
        }

        #[test]
        fn a_decimal_comes_back_digit_by_digit(
            unscaled in -999_999_999_999_999i64..=999_999_999_999_999,
            scale in 0u32..=30,
        ) {
            let number = from_decimal(i128::from(unscaled), scale).unwrap();
            let text = format!("{unscaled}e-{scale}");
            let nearest: f64 = text.parse().unwrap();
            match number {
                Number::Integer(integer) => prop_assert_eq!(integer as f64, nearest),
                Number::Real(real) => {
                    prop_assert_eq!(real, nearest);
                    prop_assert_eq!(format!("{real:.14e}").parse::<f64>().unwrap(), nearest);
                }
                Number::Null => prop_assert!(false),
            }
        }
    }
}
