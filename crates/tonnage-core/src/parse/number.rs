//! Integers, floats and truth values.
//!
//! A float is written in decimal, so its text is hardly ever the number itself. A text is taken if it is how the nearest
//! float is written with so many digits; a text with digits that the float does not give back would be rounded, and is
//! refused.

use super::fault::{Fault, Parsed, shown};
use crate::{reject::sqlstate, types::ColumnType};

/// Digits of which any number fits a `u64`.
const DIGITS_SAFE: usize = 19;

/// A signed integer of a column of type `ty`, which holds `min..=max`.
#[inline]
pub fn int(value: &[u8], ty: &ColumnType, min: i64, max: i64) -> Parsed<i64> {
    let trimmed = value.trim_ascii();
    let (negative, digits) = sign(trimmed);
    let mut magnitude = 0u64;
    if digits.is_empty() {
        return Err(Fault::not_a(value, ty));
    }
    if digits.len() > DIGITS_SAFE {
        return long_int(value, digits, negative, ty, min, max);
    }
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(Fault::not_a(value, ty));
        }
        magnitude = magnitude * 10 + u64::from(digit);
    }
    in_range(value, magnitude, negative, ty, min, max)
}

/// Longer than any 64 bits but for its leading zeros.
#[cold]
fn long_int(value: &[u8], digits: &[u8], negative: bool, ty: &ColumnType, min: i64, max: i64) -> Parsed<i64> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(Fault::not_a(value, ty));
    }
    let zeros = digits.iter().take_while(|b| **b == b'0').count();
    let digits = &digits[zeros..];
    if digits.len() > DIGITS_SAFE {
        return Err(Fault::out_of_range(value, ty));
    }
    let magnitude = digits.iter().fold(0u64, |m, b| m * 10 + u64::from(b - b'0'));
    in_range(value, magnitude, negative, ty, min, max)
}

#[inline]
fn in_range(
    value: &[u8],
    magnitude: u64,
    negative: bool,
    ty: &ColumnType,
    min: i64,
    max: i64,
) -> Parsed<i64> {
    let number = if negative {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    };
    match number {
        Some(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(Fault::out_of_range(value, ty)),
    }
}

/// Takes a leading sign off: whether it was a minus, and the rest.
#[inline]
pub(super) fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// A word for a number that is not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NonFinite {
    /// Not a number; it has no sign.
    NaN,
    /// Above every number.
    Infinity,
    /// Below every number.
    NegativeInfinity,
}

/// Reads `nan`, `inf` and `infinity` in any case, the latter two with a sign.
pub(super) fn non_finite(text: &[u8]) -> Option<NonFinite> {
    if text.eq_ignore_ascii_case(b"nan") {
        return Some(NonFinite::NaN);
    }
    let (negative, word) = sign(text);
    if !word.eq_ignore_ascii_case(b"inf") && !word.eq_ignore_ascii_case(b"infinity") {
        return None;
    }
    Some(if negative {
        NonFinite::NegativeInfinity
    } else {
        NonFinite::Infinity
    })
}

/// Digits that no float has more of, written out in full.
const FLOAT_DIGITS_MAX: usize = 1_100;

/// A float: the nearest one, if it gives the digits back; never infinity for a finite text nor zero for one that is not.
/// With `$digits` digits or fewer it always does.
macro_rules! float {
    ($name:ident, $float:ty, $ty:expr, $digits:expr) => {
        /// The nearest float of this width.
        pub fn $name(value: &[u8]) -> Parsed<$float> {
            let trimmed = value.trim_ascii();
            // The standard parser takes words, too, but also a NaN with a sign.
            if trimmed.last().is_some_and(|b| b.is_ascii_alphabetic()) {
                return match non_finite(trimmed) {
                    Some(NonFinite::NaN) => Ok(<$float>::NAN),
                    Some(NonFinite::Infinity) => Ok(<$float>::INFINITY),
                    Some(NonFinite::NegativeInfinity) => Ok(<$float>::NEG_INFINITY),
                    None => Err(Fault::not_a(value, &$ty)),
                };
            }
            let number = std::str::from_utf8(trimmed)
                .ok()
                .and_then(|text| text.parse::<$float>().ok())
                .ok_or_else(|| Fault::not_a(value, &$ty))?;
            if !number.is_finite() || (number == 0.0 && !is_zero(trimmed)) {
                return Err(Fault::out_of_range(value, &$ty));
            }
            if trimmed.len() > $digits {
                let digits = significant(trimmed);
                let gives_back = |text: String| significant(text.as_bytes()) == digits;
                let kept = digits.len() <= $digits
                    || gives_back(format!("{number:e}"))
                    || (digits.len() <= FLOAT_DIGITS_MAX
                        && gives_back(format!("{number:.*e}", digits.len() - 1)));
                if !kept {
                    return Err(rounded(value, &format!("{number:?}"), &$ty));
                }
            }
            Ok(number)
        }
    };
}
float!(float32, f32, ColumnType::Float32, 6);
float!(float64, f64, ColumnType::Float64, 15);

/// The digits of a decimal text, without its point, its exponent and the zeros at either end.
fn significant(text: &[u8]) -> Vec<u8> {
    let mantissa = text.iter().take_while(|b| !matches!(b, b'e' | b'E'));
    let mut digits: Vec<u8> = mantissa
        .copied()
        .filter(u8::is_ascii_digit)
        .skip_while(|b| *b == b'0')
        .collect();
    while digits.last() == Some(&b'0') {
        digits.pop();
    }
    digits
}

/// `'9007199254740993' would become 9007199254740992 as float64`.
#[cold]
fn rounded(value: &[u8], number: &str, ty: &ColumnType) -> Box<Fault> {
    let number = number.strip_suffix(".0").unwrap_or(number);
    Fault::new(
        sqlstate::WOULD_CHANGE,
        format!("{} would become {number} as {ty}", shown(value)),
    )
    .hint("a numeric column keeps every digit; for one of floats round the values in the source")
}

/// Whether every digit of the mantissa is zero.
fn is_zero(text: &[u8]) -> bool {
    text.iter()
        .take_while(|b| !matches!(b, b'e' | b'E'))
        .all(|b| !matches!(b, b'1'..=b'9'))
}

/// What PostgreSQL calls true and false, but for its abbreviations of more than one letter.
const BOOLS: &[(&str, bool)] = &[
    ("t", true),
    ("f", false),
    ("true", true),
    ("false", false),
    ("1", true),
    ("0", false),
    ("y", true),
    ("n", false),
    ("yes", true),
    ("no", false),
    ("on", true),
    ("off", false),
];

/// A truth value.
pub fn bool(value: &[u8]) -> Parsed<bool> {
    let trimmed = value.trim_ascii();
    BOOLS
        .iter()
        .find(|(word, _)| trimmed.eq_ignore_ascii_case(word.as_bytes()))
        .map(|(_, truth)| *truth)
        .ok_or_else(|| Fault::not_a(value, &ColumnType::Bool))
}
