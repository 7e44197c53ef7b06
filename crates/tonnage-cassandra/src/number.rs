//! Integers of any size and what is made of them: `varint` is one in two's complement, `decimal` one with a scale.

/// Digits of a number at most: turning text into binary costs their square.
const DIGITS_MAX: usize = 10_000;

/// Why a number cannot be carried.
pub(super) const TOO_LONG: &str = "a number of more than 10000 digits";

/// The shortest two's complement, big-endian, of a plain decimal integer (`-12`, no point).
pub(super) fn to_twos_complement(text: &[u8]) -> Option<Vec<u8>> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Little-endian limbs of 32 bits, nine digits at a time.
    let mut limbs: Vec<u32> = Vec::new();
    for chunk in digits.chunks(9) {
        let value = chunk.iter().fold(0u64, |n, d| n * 10 + u64::from(d - b'0'));
        let mut carry = value;
        let factor = 10u64.pow(chunk.len() as u32);
        for limb in &mut limbs {
            let product = u64::from(*limb) * factor + carry;
            *limb = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            limbs.push(carry as u32);
        }
    }
    let mut bytes: Vec<u8> = limbs.iter().flat_map(|limb| limb.to_le_bytes()).collect();
    bytes.push(0);
    if negative {
        let mut carry = true;
        for byte in &mut bytes {
            let (inverted, overflowed) = (!*byte).overflowing_add(u8::from(carry));
            *byte = inverted;
            carry = overflowed;
        }
    }
    // A byte that only repeats the sign of the one below it says nothing.
    while let [.., below, top] = bytes.as_slice() {
        let sign = if below & 0x80 == 0 { 0 } else { 0xff };
        if *top != sign {
            break;
        }
        bytes.pop();
    }
    bytes.reverse();
    Some(bytes)
}

/// The decimal digits of an integer in two's complement, and whether it is negative. None where there are too many.
fn digits(bytes: &[u8]) -> Option<(bool, Vec<u8>)> {
    if bytes.len() > DIGITS_MAX / 2 {
        return None;
    }
    let negative = bytes.first().is_some_and(|top| top & 0x80 != 0);
    let mut magnitude: Vec<u8> = bytes.to_vec();
    if negative {
        let mut carry = true;
        for byte in magnitude.iter_mut().rev() {
            let (inverted, overflowed) = (!*byte).overflowing_add(u8::from(carry));
            *byte = inverted;
            carry = overflowed;
        }
    }
    // Little-endian limbs to the base of a thousand million.
    const BASE: u64 = 1_000_000_000;
    let mut limbs: Vec<u64> = Vec::new();
    for byte in magnitude {
        let mut carry = u64::from(byte);
        for limb in &mut limbs {
            let value = *limb * 256 + carry;
            *limb = value % BASE;
            carry = value / BASE;
        }
        if carry > 0 {
            limbs.push(carry);
        }
    }
    let mut text = String::new();
    for (at, limb) in limbs.iter().rev().enumerate() {
        match at {
            0 => text.push_str(&limb.to_string()),
            _ => text.push_str(&format!("{limb:09}")),
        }
    }
    if text.is_empty() {
        text.push('0');
    }
    Some((negative, text.into_bytes()))
}

/// A decimal as the database has it: a scale of 32 bits, then the digits as an integer. `text` is plain.
pub(super) fn to_decimal(text: &[u8]) -> Option<Vec<u8>> {
    let (whole, fraction) = match text.iter().position(|b| *b == b'.') {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &text[text.len()..]),
    };
    let mut bytes = i32::try_from(fraction.len()).ok()?.to_be_bytes().to_vec();
    bytes.extend(to_twos_complement(&[whole, fraction].concat())?);
    Some(bytes)
}

/// An integer in two's complement as text.
pub(super) fn varint_text(bytes: &[u8]) -> Option<String> {
    let (negative, digits) = digits(bytes)?;
    let mut text = String::from_utf8(digits).ok()?;
    if negative {
        text.insert(0, '-');
    }
    Some(text)
}

/// A decimal as plain text.
pub(super) fn decimal_text(bytes: &[u8]) -> Option<String> {
    let (scale, unscaled) = bytes.split_first_chunk::<4>()?;
    let scale = i32::from_be_bytes(*scale);
    let (negative, mut digits) = digits(unscaled)?;
    if scale.unsigned_abs() as usize > DIGITS_MAX {
        return None;
    }
    if scale < 0 {
        if digits != b"0" {
            digits.resize(digits.len() + scale.unsigned_abs() as usize, b'0');
        }
    } else {
        let scale = scale as usize;
        if digits.len() <= scale {
            let zeros = scale + 1 - digits.len();
            digits.splice(0..0, std::iter::repeat_n(b'0', zeros));
        }
        if scale > 0 {
            digits.insert(digits.len() - scale, b'.');
        }
    }
    let mut text = String::from_utf8(digits).ok()?;
    if negative {
        text.insert(0, '-');
    }
    Some(text)
}

/// Appends `value` as an unsigned integer of variable length: the leading ones of the first byte count those that follow.
pub(super) fn put_vint(value: u64, out: &mut Vec<u8>) {
    let bits = 64 - (value | 1).leading_zeros();
    let extra = ((bits.saturating_sub(1)) / 7).min(8) as usize;
    if extra == 8 {
        out.push(0xff);
        out.extend_from_slice(&value.to_be_bytes());
        return;
    }
    let bytes = value.to_be_bytes();
    let start = out.len();
    out.extend_from_slice(&bytes[7 - extra..]);
    if extra > 0 {
        out[start] |= !(0xffu8 >> extra);
    }
}

/// Takes what [`put_vint`] has put.
pub(super) fn take_vint(rest: &mut &[u8]) -> Option<u64> {
    let (first, after) = rest.split_first()?;
    let extra = first.leading_ones() as usize;
    let (more, after) = after.split_at_checked(extra)?;
    let mut value = match extra {
        8 => 0,
        _ => u64::from(first & (0xffu8 >> extra)),
    };
    for byte in more {
        value = value << 8 | u64::from(*byte);
    }
    *rest = after;
    Some(value)
}

/// Small numbers of either sign as small numbers.
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The reverse of [`zigzag`].
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_go_both_ways() {
        let known: [(&str, &[u8]); 9] = [
            ("0", &[0]),
            ("1", &[1]),
            ("-1", &[0xff]),
            ("127", &[0x7f]),
            ("128", &[0, 0x80]),
            ("-128", &[0x80]),
            ("-129", &[0xff, 0x7f]),
            ("256", &[1, 0]),
            ("18446744073709551616", &[1, 0, 0, 0, 0, 0, 0, 0, 0]),
        ];
        for (text, bytes) in known {
            assert_eq!(
                to_twos_complement(text.as_bytes()).as_deref(),
                Some(bytes),
                "{text}"
            );
            assert_eq!(varint_text(bytes).as_deref(), Some(text));
        }
        let long = format!("-{}", "1234567890".repeat(40));
        let bytes = to_twos_complement(long.as_bytes()).unwrap();
        assert_eq!(varint_text(&bytes), Some(long));
        assert_eq!(to_twos_complement(b"1.5"), None);
    }

    #[test]
    fn decimals_keep_their_scale() {
        for text in [
            "0",
            "0.00",
            "-0.05",
            "12.50",
            "-99999999999999999999999999.999",
            "7",
        ] {
            let bytes = to_decimal(text.as_bytes()).unwrap();
            assert_eq!(decimal_text(&bytes).as_deref(), Some(text));
        }
        assert_eq!(decimal_text(&[0xff, 0xff, 0xff, 0xfe, 5]).as_deref(), Some("500"));
    }

    #[test]
    fn variable_lengths_go_both_ways() {
        for value in [
            0,
            1,
            127,
            128,
            255,
            16_383,
            16_384,
            1 << 20,
            1 << 41,
            1 << 55,
            1 << 56,
            u64::MAX,
        ] {
            let mut out = Vec::new();
            put_vint(value, &mut out);
            let mut rest = out.as_slice();
            assert_eq!(take_vint(&mut rest), Some(value));
            assert!(rest.is_empty());
        }
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        let mut out = Vec::new();
        put_vint(128, &mut out);
        assert_eq!(out, [0x80, 0x80]);
    }
}
