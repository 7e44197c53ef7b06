//! Decimals in the server's binary form: groups of four digits, exact, without a detour over floating point.
//!
//! Layout: number of groups, weight of the first group, sign, digits shown after the point, then the groups, all 16
//! bits in network order. Leading and trailing groups of zero are left out.

use std::cmp::Ordering;

use tonnage_core::reject::sqlstate;

/// Why a value is not the column's.
pub(super) struct NotExact {
    /// SQLSTATE.
    pub code: &'static str,
    /// One line.
    pub message: String,
}

const POSITIVE: u16 = 0;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const NEGATIVE_INFINITY: u16 = 0xf000;

/// Digits after the point that the format can show.
const SCALE_MAX: usize = 16383;
/// Digits before the point that a numeric can have.
const INTEGER_DIGITS_MAX: usize = 131_072;
/// Scales up to here and magnitudes of 64 bits take the short way: the fraction, brought to whole groups, stays
/// below 10^16.
const SHORT_SCALE_MAX: u8 = 16;
/// Groups of a 64-bit magnitude: five before the point, four after it.
const SHORT_GROUPS: usize = 9;

/// Appends `unscaled / 10^scale`.
pub(super) fn from_unscaled(unscaled: i128, scale: u8, out: &mut Vec<u8>) {
    let sign = if unscaled < 0 { NEGATIVE } else { POSITIVE };
    let magnitude = unscaled.unsigned_abs();
    match u64::try_from(magnitude) {
        Ok(magnitude) if scale <= SHORT_SCALE_MAX => short(sign, magnitude, scale, out),
        _ => {
            let digits = format!("{magnitude:0>width$}", width = usize::from(scale) + 1);
            let (integer, fraction) = digits.split_at(digits.len() - usize::from(scale));
            long(sign, integer.as_bytes(), fraction.as_bytes(), out);
        }
    }
}

fn short(sign: u16, magnitude: u64, scale: u8, out: &mut Vec<u8>) {
    let unit = 10u64.pow(u32::from(scale));
    let mut integer = magnitude / unit;
    let fraction_groups = usize::from(scale).div_ceil(4);
    let mut fraction = (magnitude % unit) * 10u64.pow((fraction_groups * 4) as u32 - u32::from(scale));
    let mut groups = [0u16; SHORT_GROUPS];
    for group in groups[5..5 + fraction_groups].iter_mut().rev() {
        *group = (fraction % 10_000) as u16;
        fraction /= 10_000;
    }
    for group in groups[..5].iter_mut().rev() {
        *group = (integer % 10_000) as u16;
        integer /= 10_000;
    }
    emit(sign, &groups[..5 + fraction_groups], 4, usize::from(scale), out);
}

fn long(sign: u16, integer: &[u8], fraction: &[u8], out: &mut Vec<u8>) {
    let mut groups = Vec::with_capacity(integer.len().div_ceil(4) + fraction.len().div_ceil(4));
    let value = |digits: &[u8]| {
        digits
            .iter()
            .fold(0u16, |sum, digit| sum * 10 + u16::from(digit - b'0'))
    };
    let first = integer.len() % 4;
    if first > 0 {
        groups.push(value(&integer[..first]));
    }
    groups.extend(integer[first..].chunks(4).map(value));
    let weight = groups.len() as i32 - 1;
    groups.extend(
        fraction
            .chunks(4)
            .map(|chunk| value(chunk) * 10u16.pow(4 - chunk.len() as u32)),
    );
    emit(sign, &groups, weight, fraction.len(), out);
}

/// Writes header and groups; `weight` is the first group's power of 10,000.
fn emit(sign: u16, groups: &[u16], weight: i32, scale: usize, out: &mut Vec<u8>) {
    let leading = groups.iter().take_while(|group| **group == 0).count();
    let trailing = groups[leading..]
        .iter()
        .rev()
        .take_while(|group| **group == 0)
        .count();
    let groups = &groups[leading..groups.len() - trailing];
    let (sign, weight) = match groups.len() {
        0 => (POSITIVE, 0),
        _ => (sign, weight - leading as i32),
    };
    out.extend_from_slice(&(groups.len() as u16).to_be_bytes());
    out.extend_from_slice(&(weight as i16).to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&(scale as u16).to_be_bytes());
    for group in groups {
        out.extend_from_slice(&group.to_be_bytes());
    }
}

fn special(sign: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0, 0, 0]);
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
}

/// Appends plain decimal text (`-12.50`, `NaN`, `Infinity`). With `scale_max`, the column's scale, a value that the
/// server would round is refused.
pub(super) fn from_text(text: &str, scale_max: Option<i32>, out: &mut Vec<u8>) -> Result<(), NotExact> {
    let named = match text {
        "NaN" => Some(NAN),
        "Infinity" => Some(INFINITY),
        "-Infinity" => Some(NEGATIVE_INFINITY),
        _ => None,
    };
    if let Some(sign) = named {
        special(sign, out);
        return Ok(());
    }
    let (sign, digits) = match text.as_bytes() {
        [b'-', rest @ ..] => (NEGATIVE, rest),
        [b'+', rest @ ..] => (POSITIVE, rest),
        all => (POSITIVE, all),
    };
    let (integer, fraction) = match memchr::memchr(b'.', digits) {
        Some(point) => (&digits[..point], &digits[point + 1..]),
        None => (digits, &digits[digits.len()..]),
    };
    if integer.len() + fraction.len() == 0 || !integer.iter().chain(fraction).all(u8::is_ascii_digit) {
        return Err(NotExact {
            code: sqlstate::INVALID_TEXT,
            message: format!("invalid input syntax for type numeric: \"{}\"", excerpt(text)),
        });
    }
    let zeros = integer.iter().take_while(|digit| **digit == b'0').count();
    let integer = &integer[zeros..];
    if integer.len() > INTEGER_DIGITS_MAX || fraction.len() > SCALE_MAX {
        return Err(NotExact {
            code: sqlstate::OUT_OF_RANGE,
            message: format!(
                "a numeric has at most {INTEGER_DIGITS_MAX} digits before and {SCALE_MAX} after the point"
            ),
        });
    }
    if let Some(scale) = scale_max {
        keeps(text, integer, fraction, scale)?;
    }
    long(sign, integer, fraction, out);
    Ok(())
}

/// Refuses an unscaled value that a column of `scale_max` would round.
pub(super) fn unscaled_keeps(unscaled: i128, scale: u8, scale_max: i32) -> Result<(), NotExact> {
    let lost = i32::from(scale) - scale_max;
    let exact = match u32::try_from(lost).ok().map(|lost| 10i128.checked_pow(lost)) {
        None | Some(Some(1)) => true,
        Some(Some(unit)) => unscaled % unit == 0,
        Some(None) => unscaled == 0,
    };
    if exact {
        Ok(())
    } else {
        Err(rounded(&format!("{unscaled}e-{scale}"), scale_max))
    }
}

fn keeps(text: &str, integer: &[u8], fraction: &[u8], scale: i32) -> Result<(), NotExact> {
    let significant = |digits: &[u8]| digits.iter().any(|digit| *digit != b'0');
    let lost = match scale.cmp(&0) {
        Ordering::Less => {
            let dropped = integer.len().min(scale.unsigned_abs() as usize);
            significant(fraction) || significant(&integer[integer.len() - dropped..])
        }
        _ => fraction.get(scale as usize..).is_some_and(significant),
    };
    if lost { Err(rounded(text, scale)) } else { Ok(()) }
}

fn rounded(text: &str, scale: i32) -> NotExact {
    NotExact {
        code: sqlstate::WOULD_CHANGE,
        message: format!(
            "{} would be rounded to {scale} digits after the point",
            excerpt(text)
        ),
    }
}

/// A value's parts.
struct Parts<'a> {
    sign: u16,
    /// The first group's power of 10,000.
    weight: i32,
    /// Digits shown after the point.
    scale: usize,
    /// Two bytes each.
    groups: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(value: &'a [u8]) -> Option<Self> {
        let (header, groups) = value.split_first_chunk::<8>()?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        (groups.len() == 2 * usize::from(word(0))).then_some(Self {
            weight: i32::from(word(2) as i16),
            sign: word(4),
            scale: usize::from(word(6)),
            groups,
        })
    }

    /// The group that counts units of `10,000 ^ power`.
    fn group(&self, power: i32) -> u16 {
        let at = usize::try_from(self.weight - power).ok();
        let bytes = at.and_then(|at| self.groups.get(2 * at..2 * at + 2));
        bytes.map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }
}

/// Appends the plain decimal text of a value, with as many digits after the point as it shows. None if it is no value.
pub(super) fn to_text(value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let parts = Parts::of(value)?;
    match parts.sign {
        NAN => out.extend_from_slice(b"NaN"),
        INFINITY => out.extend_from_slice(b"Infinity"),
        NEGATIVE_INFINITY => out.extend_from_slice(b"-Infinity"),
        POSITIVE | NEGATIVE => {
            let start = out.len();
            for power in (0..=parts.weight.max(0)).rev() {
                push_group(out, parts.group(power));
            }
            // Leading zeros, but for the last digit.
            let zeros = out[start..].iter().take_while(|digit| **digit == b'0').count();
            out.drain(start..start + zeros.min(out.len() - start - 1));
            if parts.scale > 0 {
                out.push(b'.');
                let point = out.len();
                for group in 0..parts.scale.div_ceil(4) {
                    push_group(out, parts.group(-1 - group as i32));
                }
                out.truncate(point + parts.scale);
            }
            // There is no zero below zero.
            if parts.sign == NEGATIVE && out[start..].iter().any(|digit| matches!(digit, b'1'..=b'9')) {
                out.insert(start, b'-');
            }
        }
        _ => return None,
    }
    Some(())
}

fn push_group(out: &mut Vec<u8>, group: u16) {
    for unit in [1000, 100, 10, 1] {
        out.push(b'0' + (group / unit % 10) as u8);
    }
}

/// The value as a whole number of units of `10 ^ -scale`; none if it is not one that 38 digits hold.
pub(super) fn to_unscaled(value: &[u8], scale: u8) -> Option<i128> {
    let parts = Parts::of(value)?;
    if parts.sign != POSITIVE && parts.sign != NEGATIVE {
        return None;
    }
    let scale = i32::from(scale);
    let mut units = 0i128;
    for (at, bytes) in parts.groups.chunks_exact(2).enumerate() {
        let group = i128::from(u16::from_be_bytes([bytes[0], bytes[1]]));
        // This group counts units of ten to this power.
        let power = 4 * (parts.weight - at as i32) + scale;
        let part = match u32::try_from(power) {
            Ok(power) => group.checked_mul(10i128.checked_pow(power)?)?,
            Err(_) => {
                let unit = 10i128.checked_pow(power.unsigned_abs())?;
                (group % unit == 0).then_some(group / unit)?
            }
        };
        units = units.checked_add(part)?;
    }
    let units = if parts.sign == NEGATIVE { -units } else { units };
    (units.unsigned_abs() < 10u128.pow(38)).then_some(units)
}

/// The beginning of a text, for a message.
pub(super) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(from_text(text, None, &mut out).is_ok(), "{text}");
        out
    }

    fn unscaled(value: i128, scale: u8) -> Vec<u8> {
        let mut out = Vec::new();
        from_unscaled(value, scale, &mut out);
        out
    }

    fn words(words: &[i32]) -> Vec<u8> {
        words
            .iter()
            .flat_map(|word| (*word as u16).to_be_bytes())
            .collect()
    }

    #[test]
    fn the_layout_is_the_servers() {
        assert_eq!(text("0"), words(&[0, 0, 0, 0]));
        assert_eq!(text("0.000"), words(&[0, 0, 0, 3]));
        assert_eq!(text("12345.678"), words(&[3, 1, 0, 3, 1, 2345, 6780]));
        assert_eq!(text("-0.00005"), words(&[1, -2, 0x4000, 5, 5000]));
        assert_eq!(text("40000"), words(&[1, 1, 0, 0, 4]));
        assert_eq!(text("NaN"), words(&[0, 0, 0xc000, 0]));
    }

    #[test]
    fn zero_has_no_sign() {
        let mut out = Vec::new();
        to_text(&words(&[0, 0, 0x4000, 5]), &mut out).expect("it is a value");
        assert_eq!(out, b"0.00000");
    }

    #[test]
    fn what_would_be_rounded_is_refused() {
        let cases = [
            ("1.50", 1, true),
            ("1.55", 1, false),
            ("1200", -2, true),
            ("1250", -2, false),
            ("50", -2, false),
            ("0", -2, true),
            ("0.001", 3, true),
            ("0.0010", 3, true),
            ("0.0001", 3, false),
        ];
        for (value, scale, kept) in cases {
            assert_eq!(
                from_text(value, Some(scale), &mut Vec::new()).is_ok(),
                kept,
                "{value} at {scale}"
            );
        }
        assert!(unscaled_keeps(1500, 3, 1).is_ok());
        assert!(unscaled_keeps(1550, 3, 1).is_err());
        assert!(unscaled_keeps(i128::MAX, 0, 5).is_ok());
        for bad in ["", "-", ".", "1e5", "1 ", "0x1", "1.2.3", "nan"] {
            assert!(from_text(bad, None, &mut Vec::new()).is_err(), "{bad}");
        }
    }

    proptest! {
        /// What is written is read back.
        #[test]
        fn decoding_undoes_encoding(value in any::<i64>(), more in 0i64..1_000_000_000, scale in 0u8..=30) {
            let value = i128::from(value) * i128::from(more);
            prop_assert_eq!(to_unscaled(&unscaled(value, scale), scale), Some(value));
            let magnitude = value.unsigned_abs().to_string();
            let digits = format!("{magnitude:0>width$}", width = usize::from(scale) + 1);
            let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
            let sign = if value < 0 { "-" } else { "" };
            let point = if scale > 0 { "." } else { "" };
            let mut shown = Vec::new();
            to_text(&unscaled(value, scale), &mut shown);
            prop_assert_eq!(String::from_utf8(shown).unwrap(), format!("{sign}{whole}{point}{fraction}"));
        }

        /// The short way and the long way give the same bytes.
        #[test]
        fn both_ways_agree(value in any::<i64>(), scale in 0u8..=16) {
            let magnitude = value.unsigned_abs().to_string();
            let digits = format!("{magnitude:0>width$}", width = usize::from(scale) + 1);
            let (integer, fraction) = digits.split_at(digits.len() - usize::from(scale));
            let mut long_way = Vec::new();
            let sign = if value < 0 { NEGATIVE } else { POSITIVE };
            long(sign, integer.as_bytes(), fraction.as_bytes(), &mut long_way);
            prop_assert_eq!(unscaled(i128::from(value), scale), long_way);
        }
    }
}
