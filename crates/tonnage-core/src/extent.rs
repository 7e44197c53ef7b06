//! What the values of a column that were looked at need of a type.

/// Digits of which a double gives any number back.
const DOUBLE_DIGITS: usize = 15;

/// See the module. Of numbers, their plain decimal text counts: `1.5e-7` has 8 digits after the point, `2.50` has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// The most digits before the point.
    pub whole_digits: u32,
    /// The most digits after the point.
    pub places: u32,
    /// A number that is no integer of 64 bits has more than 15 significant digits, or is too small for a normal double.
    pub long: bool,
    /// The double nearest to some number is the nearest to another text of as few digits, so that the digits are lost.
    pub rounded_by_double: bool,
    /// NaN is there.
    pub nan: bool,
    /// An infinity is there.
    pub infinite: bool,
    /// The first and the last year of dates.
    pub years: Option<(u32, u32)>,
    /// Characters of the longest text.
    pub chars: u32,
}

impl Extent {
    /// Whether NaN or an infinity is there.
    pub fn is_finite(&self) -> bool {
        !self.nan && !self.infinite
    }

    /// Takes the characters of any value into account.
    pub fn see_text(&mut self, value: &[u8]) {
        let chars = value.iter().filter(|byte| (**byte & 0xc0) != 0x80).count();
        self.chars = self.chars.max(u32::try_from(chars).unwrap_or(u32::MAX));
    }

    /// Takes the year of a date into account.
    pub fn see_year(&mut self, year: u32) {
        let (first, last) = self.years.unwrap_or((year, year));
        self.years = Some((first.min(year), last.max(year)));
    }

    /// Takes a number into account, or one of the words for what is none. Anything else says nothing.
    pub fn see_number(&mut self, value: &[u8]) {
        let unsigned = value.strip_prefix(b"-").unwrap_or(value);
        match unsigned.first() {
            Some(b'n' | b'N') => self.nan = true,
            Some(b'i' | b'I') => self.infinite = true,
            _ => self.see_digits(value, unsigned),
        }
    }

    fn see_digits(&mut self, value: &[u8], unsigned: &[u8]) {
        let end = unsigned.iter().position(|byte| matches!(byte, b'e' | b'E'));
        let (mantissa, exponent) = unsigned.split_at(end.unwrap_or(unsigned.len()));
        let exponent = match exponent {
            [] => 0,
            [_, exponent @ ..] => match std::str::from_utf8(exponent).map(str::parse::<i64>) {
                Ok(Ok(exponent)) => exponent,
                _ => return,
            },
        };
        let point = mantissa.iter().position(|byte| *byte == b'.');
        let places = point.map_or(0, |point| mantissa.len() - point - 1);
        let digits: Vec<u8> = mantissa.iter().copied().filter(u8::is_ascii_digit).collect();
        let Some(first) = digits.iter().position(|digit| *digit != b'0') else {
            return;
        };
        let last = digits.iter().rposition(|digit| *digit != b'0').unwrap_or(first);
        let significant = &digits[first..=last];
        // The power of ten that the last significant digit counts.
        let power = exponent
            .saturating_sub(places as i64)
            .saturating_add((digits.len() - 1 - last) as i64);
        let whole = power.saturating_add(significant.len() as i64).max(0);
        self.whole_digits = self.whole_digits.max(u32::try_from(whole).unwrap_or(u32::MAX));
        let after = power.saturating_neg().max(0);
        self.places = self.places.max(u32::try_from(after).unwrap_or(u32::MAX));
        let text = std::str::from_utf8(value).unwrap_or_default();
        let double: f64 = text.parse().unwrap_or(f64::NAN);
        let is_short = significant.len() <= DOUBLE_DIGITS && double.is_normal();
        if !is_short && text.parse::<i64>().is_err() {
            self.long = true;
        }
        if !is_short && !gives_back(double, significant, power) {
            self.rounded_by_double = true;
        }
    }
}

/// Whether the shortest text of `double` is these digits.
fn gives_back(double: f64, significant: &[u8], power: i64) -> bool {
    let shortest = format!("{:e}", double.abs());
    let Some((mantissa, exponent)) = shortest.split_once('e') else {
        return false;
    };
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    digits == significant && exponent.parse() == Ok(power.saturating_add(significant.len() as i64 - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_measured_by_their_plain_text() {
        // Digits before the point, after it, long, rounded by a double.
        type Measured = (u32, u32, bool, bool);
        let cases: &[(&str, Measured)] = &[
            ("0", (0, 0, false, false)),
            ("-12.50", (2, 1, false, false)),
            ("0.001", (0, 3, false, false)),
            ("1.5e-7", (0, 8, false, false)),
            ("1.5e7", (8, 0, false, false)),
            ("9223372036854775807", (19, 0, false, true)),
            ("9223372036854775808", (19, 0, true, true)),
            ("9007199254740992", (16, 0, false, false)),
            ("0.1234567890123456", (0, 16, true, false)),
            ("51.50735199999999", (2, 14, true, false)),
            ("0.12345678901234567891", (0, 20, true, true)),
            ("100000000000000000000", (21, 0, false, false)),
            ("5e-324", (0, 324, true, false)),
        ];
        for (text, wanted) in cases {
            let mut extent = Extent::default();
            extent.see_number(text.as_bytes());
            let found = (
                extent.whole_digits,
                extent.places,
                extent.long,
                extent.rounded_by_double,
            );
            assert_eq!(found, *wanted, "{text}");
        }
    }
}
