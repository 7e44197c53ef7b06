//! Exact decimals: of fixed scale as an `i128`, of any size as their plain text.

use std::borrow::Cow;

use super::{
    fault::{Fault, Parsed, shown_bare},
    number::{NonFinite, non_finite, sign},
};
use crate::{reject::sqlstate, types::ColumnType};

/// Digits of which any number fits an `i64`.
const DIGITS_SAFE: usize = 18;

/// The most zeros an exponent may add to a number's plain text.
const ZEROS_MAX: i64 = 1_000;

/// Powers of ten up to the largest precision of 128 bits.
pub const POWERS_OF_TEN: [i128; 39] = {
    let mut powers = [1i128; 39];
    let mut n = 1;
    while n < powers.len() {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

/// The bounds of a decimal column.
#[derive(Debug, Clone, Copy)]
pub struct Decimal {
    /// Digits in all, 1 to 38.
    pub precision: u8,
    /// Digits after the point, at most `precision`.
    pub scale: u8,
}

impl Decimal {
    fn ty(&self) -> ColumnType {
        ColumnType::Decimal {
            precision: self.precision,
            scale: self.scale,
        }
    }

    /// Reads `value` as a whole number of units of the last decimal place.
    #[inline]
    pub fn read(&self, value: &[u8]) -> Parsed<i128> {
        match self.read_short(value) {
            Some(units) => Ok(units),
            None => self.read_any(value),
        }
    }

    /// The common case: no spaces, no exponent, at most 18 digits, none to spare after the point.
    #[inline]
    fn read_short(&self, value: &[u8]) -> Option<i128> {
        let (negative, body) = sign(value);
        if body.len() > DIGITS_SAFE {
            return None;
        }
        let mut units = 0i64;
        let mut point = None;
        for (index, byte) in body.iter().enumerate() {
            let digit = byte.wrapping_sub(b'0');
            if digit <= 9 {
                units = units * 10 + i64::from(digit);
            } else if *byte == b'.' && point.is_none() {
                point = Some(index);
            } else {
                return None;
            }
        }
        let digits = body.len() - usize::from(point.is_some());
        let places = point.map_or(0, |index| body.len() - index - 1);
        let missing = usize::from(self.scale).checked_sub(places)?;
        if digits == 0 {
            return None;
        }
        let units = i128::from(units).checked_mul(POWERS_OF_TEN[missing])?;
        if units >= POWERS_OF_TEN[usize::from(self.precision)] {
            return None;
        }
        Some(if negative { -units } else { units })
    }

    /// Anything else: spaces, an exponent, many digits, and all that is wrong.
    fn read_any(&self, value: &[u8]) -> Parsed<i128> {
        let Some(plain) = Plain::read(value.trim_ascii()) else {
            return Err(Fault::not_a(value, &self.ty()));
        };
        let Some((digits, exponent)) = plain.significant() else {
            return Ok(0);
        };
        let precision = i64::from(self.precision);
        let scale = i64::from(self.scale);
        if digits.len() as i64 + exponent > precision - scale {
            return Err(Fault::out_of_range(value, &self.ty()));
        }
        if -exponent > scale {
            return Err(self.too_fine(value.trim_ascii(), -exponent));
        }
        // At most `precision` digits remain, zeros included, so nothing below can overflow.
        let units = digits
            .iter()
            .fold(0i128, |units, digit| units * 10 + i128::from(digit - b'0'))
            * POWERS_OF_TEN[(exponent + scale) as usize];
        Ok(if plain.negative { -units } else { units })
    }

    /// `12.345 has 3 decimal places, the column keeps 2`.
    #[cold]
    pub fn too_fine(&self, value: &[u8], places: i64) -> Box<Fault> {
        Fault::new(
            sqlstate::WOULD_CHANGE,
            format!(
                "{} has {places} decimal {}, the column keeps {}",
                shown_bare(value),
                if places == 1 { "place" } else { "places" },
                self.scale
            ),
        )
    }
}

/// Reads `value` as its plain decimal text: no exponent, no plus, no needless leading zero, no negative zero;
/// zeros after the point stay as they are. `NaN`, `Infinity` and `-Infinity` are spelt so.
pub fn numeric(value: &[u8]) -> Parsed<Cow<'_, [u8]>> {
    if is_plain(value) {
        return Ok(Cow::Borrowed(value));
    }
    let trimmed = value.trim_ascii();
    if let Some(word) = non_finite(trimmed) {
        return Ok(Cow::Borrowed(match word {
            NonFinite::NaN => &b"NaN"[..],
            NonFinite::Infinity => &b"Infinity"[..],
            NonFinite::NegativeInfinity => &b"-Infinity"[..],
        }));
    }
    let plain = Plain::read(trimmed).ok_or_else(|| Fault::not_a(value, &ColumnType::Numeric))?;
    let text = plain.text().ok_or_else(|| {
        Fault::new(
            sqlstate::OUT_OF_RANGE,
            format!("{} has an exponent beyond {ZEROS_MAX}", shown_bare(trimmed)),
        )
    })?;
    Ok(Cow::Owned(text.into_bytes()))
}

/// Whether the text is as [`numeric`] would write it. A negative zero is not.
fn is_plain(text: &[u8]) -> bool {
    let (negative, body) = match text {
        [b'-', body @ ..] => (true, body),
        _ => (false, text),
    };
    let whole = body.iter().take_while(|b| b.is_ascii_digit()).count();
    if whole == 0 || (whole > 1 && body[0] == b'0') {
        return false;
    }
    let fraction_is_plain = match &body[whole..] {
        [] => true,
        [b'.', places @ ..] => !places.is_empty() && places.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    fraction_is_plain && (!negative || body.iter().any(|b| matches!(b, b'1'..=b'9')))
}

/// A decimal number cut into its parts: `whole.fraction` times ten to the `exponent`.
struct Plain<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    /// Clamped to a billion either way, which no length of digits can make up for.
    exponent: i64,
}

impl<'a> Plain<'a> {
    fn read(text: &'a [u8]) -> Option<Self> {
        let (negative, body) = sign(text);
        let (mantissa, exponent) = match body.iter().position(|b| matches!(b, b'e' | b'E')) {
            Some(at) => (&body[..at], exponent(&body[at + 1..])?),
            None => (body, 0),
        };
        let (whole, fraction) = match mantissa.iter().position(|b| *b == b'.') {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &mantissa[mantissa.len()..]),
        };
        let digits = whole.len() + fraction.len();
        let all_digits = whole.iter().chain(fraction).all(u8::is_ascii_digit);
        (digits > 0 && all_digits).then_some(Self {
            negative,
            whole,
            fraction,
            exponent,
        })
    }

    /// The digits from the first to the last that is not zero, and the power of ten of the last; none for
    /// zero.
    fn significant(&self) -> Option<(Vec<u8>, i64)> {
        let digits: Vec<u8> = self.whole.iter().chain(self.fraction).copied().collect();
        let first = digits.iter().position(|b| *b != b'0')?;
        let last = digits.iter().rposition(|b| *b != b'0')?;
        let dropped = (digits.len() - 1 - last) as i64;
        let exponent = self.exponent - self.fraction.len() as i64 + dropped;
        Some((digits[first..=last].to_vec(), exponent))
    }

    /// The number without an exponent; none where that takes too many zeros.
    fn text(&self) -> Option<String> {
        let mut digits: Vec<u8> = self.whole.iter().chain(self.fraction).copied().collect();
        let zero = digits.iter().all(|b| *b == b'0');
        // Digits before the point, which may lie before or behind them all.
        let exponent = if zero { self.exponent.min(0) } else { self.exponent };
        let point = self.whole.len() as i64 + exponent;
        let zeros = (-point).max(point - digits.len() as i64).max(0);
        if zeros > ZEROS_MAX {
            return None;
        }
        if point < 0 {
            digits.splice(0..0, std::iter::repeat_n(b'0', zeros as usize));
        } else {
            digits.extend(std::iter::repeat_n(b'0', zeros as usize));
        }
        let (whole, fraction) = digits.split_at(point.max(0) as usize);
        let needless = whole.iter().take_while(|b| **b == b'0').count();
        let mut text = String::with_capacity(digits.len() + 3);
        if self.negative && !zero {
            text.push('-');
        }
        if needless == whole.len() {
            text.push('0');
        }
        text.extend(whole[needless..].iter().map(|b| char::from(*b)));
        if !fraction.is_empty() {
            text.push('.');
            text.extend(fraction.iter().map(|b| char::from(*b)));
        }
        Some(text)
    }
}

/// The power of ten after the `e`, clamped to a billion.
fn exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = sign(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude = digits
        .iter()
        .fold(0i64, |m, b| (m * 10 + i64::from(b - b'0')).min(1_000_000_000));
    Some(if negative { -magnitude } else { magnitude })
}
