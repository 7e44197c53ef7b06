//! What the values of a column that were looked at need of a type.

/// Digits of which a double gives any number back.
const DOUBLE_DIGITS: usize = 15;

/// Digits after the point that a decimal has at least where only the first values were looked at: later ones may have more.
const PLACES_UNSEEN: u32 = 10;

/// See the module. Of numbers, their plain decimal text counts: `1.5e-7` has 8 digits after the point, `2.50` has two of
/// which one means something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// The most digits before the point.
    pub whole_digits: u32,
    /// The most digits after the point, but for zeros at the end.
    pub places: u32,
    /// The most digits after the point, with zeros at the end.
    pub places_written: u32,
    /// All values were looked at, not only the first.
    pub all: bool,
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

    /// The digits after the point of a decimal of `digits` digits, at most `places_max` of them after the point, that holds
    /// the numbers; none where there is no such decimal. Zeros at the end count, so that `1.50` comes back as it was, unless
    /// there is no place for them.
    pub fn scale(&self, digits: u32, places_max: u32) -> Option<u32> {
        let least = match self.all {
            true => 0,
            false => PLACES_UNSEEN,
        };
        let fits =
            |places: &u32| *places <= places_max && self.whole_digits.saturating_add(*places) <= digits;
        let wanted = [self.places_written, self.places];
        wanted.into_iter().map(|places| places.max(least)).find(fits)
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
        let written = (places as i64).saturating_sub(exponent).max(0);
        self.places_written = self
            .places_written
            .max(u32::try_from(written).unwrap_or(u32::MAX));
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

    #[test]
    fn a_decimal_has_the_places_that_are_written() {
        let scale = |texts: &[&str], all| {
            let mut extent = Extent {
                all,
                ..Extent::default()
            };
            texts.iter().for_each(|text| extent.see_number(text.as_bytes()));
            extent.scale(38, 30)
        };
        let zeros = format!("1.{}", "0".repeat(31));
        let wide = "9".repeat(37);
        let cases: &[(&[&str], Option<u32>, Option<u32>)] = &[
            (&["1.50", "2"], Some(2), Some(10)),
            (&["0.00", "7"], Some(2), Some(10)),
            (&["1.5e-12"], Some(13), Some(13)),
            (&["1.50e1"], Some(1), Some(10)),
            (&["12345678901234567890"], Some(0), Some(10)),
            (&[&zeros], Some(0), Some(10)),
            (&[&wide, "1.5"], Some(1), None),
            (&[&wide, "1.25"], None, None),
        ];
        for (texts, all, first) in cases {
            assert_eq!(scale(texts, true), *all, "{texts:?}");
            assert_eq!(scale(texts, false), *first, "{texts:?}");
        }
    }
}
